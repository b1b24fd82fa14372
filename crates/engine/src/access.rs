//! Authentication of callers and tenants: credentials are verified once by argon2id and cached for a
//! short time under a keyed hash, so that a request seldom pays for a password hash.

mod credential_cache;
mod failed_logins;
mod hashers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::access::grants;
use domain::card_data::NumericKeys;
use domain::tenant::{NUMERIC_KEYS, NUMERIC_KEYS_ALLOWED};
use domain::{TenantId, TenantNo};
use ring::hmac;

use crate::ports::{Queries, StoreError};
use crate::{Engine, Reason, Unavailable};
use credential_cache::{CredentialCache, Found};
use failed_logins::{FailedLogins, LoginAttempt};
use hashers::Hashers;

pub use failed_logins::{ClientAddress, Peer};

/// How long a user name, a password or an API key may be, in bytes.
const CREDENTIAL_BYTES_MAX: usize = 1_024;

/// Checks credentials. Cheap to clone; clones share what they remember.
#[derive(Clone)]
pub struct Access {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    key: hmac::Key,
    hashers: Hashers,
    users: Arc<Kind<Caller>>,
    tenants: Arc<Kind<TenantRef>>,
    failed_logins: FailedLogins,
}

/// A kind of credential, with what is remembered of it.
struct Kind<T> {
    name: &'static [u8],
    cache: CredentialCache<T>,
    find: fn(&dyn Queries, &str) -> Result<Stored<T>, StoreError>,
    wrong: AccessError,
    /// The refusal of an unknown name, without hashing. `None` where a client must not learn which
    /// names exist: an unknown one then takes as long as a wrong secret, and reads alike.
    unknown: Option<AccessError>,
}

/// A PHC string.
type StoredHash = String;

/// The owner of a name, if there is one, with the hash of their secret.
type Stored<T> = Option<(StoredHash, T)>;

/// A keyed hash of a credential; the credential itself is not kept.
type Print = [u8; 32];

/// An authenticated user.
#[derive(Debug)]
pub struct Caller {
    /// The name they log in with.
    pub username: String,
    /// What their roles grant, normalized, sorted.
    pub permissions: Vec<String>,
}

impl Caller {
    /// Whether they may do something, such as `payment:trigger`.
    #[must_use]
    pub fn may(&self, permission: &str) -> bool {
        self.permissions.iter().any(|held| grants(held, permission))
    }
}

/// A tenant whose secret was shown.
#[derive(Debug)]
pub struct TenantRef {
    /// The number its rows carry.
    pub no: TenantNo,
    pub id: TenantId,
    /// Whether its keys may be numbers that may as well be those of cards.
    pub numeric_keys: NumericKeys,
}

/// Why a caller is not authenticated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AccessError {
    /// No credentials, or none that can be read.
    #[error("credentials are missing")]
    Missing,
    /// No such user, or another password.
    #[error("user or password is wrong")]
    Invalid,
    /// No tenant with this API key.
    #[error("there is no tenant with this API key")]
    UnknownApiKey,
    #[error("the API secret is wrong")]
    WrongSecret,
    /// Too many wrong credentials from this address.
    #[error("too many failed attempts")]
    Throttled {
        /// When to try again.
        retry_after: Duration,
    },
    /// Could not be checked.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Access {
    /// `life`: how long a verified credential is believed without looking at its user again;
    /// `hashers`: how many passwords are hashed at the same time.
    ///
    /// # Panics
    /// Where the operating system gives no random bytes.
    #[must_use]
    pub fn new(engine: Engine, life: Duration, hashers: usize) -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new())
            .expect("the operating system gives random bytes");
        let users = Kind {
            name: b"user",
            cache: CredentialCache::new(life),
            find: find_user,
            wrong: AccessError::Invalid,
            unknown: None,
        };
        // API keys are names, not secrets: `GET /1.0/kb/tenants?apiKey=` says which there are.
        let tenants = Kind {
            name: b"tenant",
            cache: CredentialCache::new(life),
            find: find_tenant,
            wrong: AccessError::WrongSecret,
            unknown: Some(AccessError::UnknownApiKey),
        };
        Self {
            inner: Arc::new(Inner {
                engine,
                key,
                hashers: Hashers::new(hashers),
                users: Arc::new(users),
                tenants: Arc::new(tenants),
                failed_logins: FailedLogins::default(),
            }),
        }
    }

    /// The caller behind an `Authorization` header (RFC 7617, Basic).
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn user(
        &self,
        from: ClientAddress,
        authorization: Option<&[u8]>,
    ) -> Result<Arc<Caller>, AccessError> {
        let header = authorization.ok_or(AccessError::Missing)?;
        let print = self.print(b"user", header, b"");
        let read = || read_basic(header).ok_or(AccessError::Missing);
        self.check(&self.inner.users, (print, from), read).await
    }

    /// The tenant with this API key, if the secret is right.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn tenant(
        &self,
        from: ClientAddress,
        api_key: &str,
        secret: &str,
    ) -> Result<Arc<TenantRef>, AccessError> {
        let print = self.print(b"tenant", api_key.as_bytes(), secret.as_bytes());
        let read = || {
            let fits =
                api_key.len() <= CREDENTIAL_BYTES_MAX && secret.len() <= CREDENTIAL_BYTES_MAX;
            fits.then(|| (api_key.to_owned(), secret.to_owned())).ok_or(AccessError::UnknownApiKey)
        };
        self.check(&self.inner.tenants, (print, from), read).await
    }

    /// Hashes a new password or secret.
    ///
    /// # Errors
    /// Where too many wait for a hasher already.
    pub async fn hash(&self, secret: &str) -> Result<StoredHash, AccessError> {
        Ok(self.inner.hashers.hash(secret.to_owned()).await?)
    }

    /// Whose the credential is; `read` gives its name and secret, which are only needed where it is
    /// not known.
    async fn check<T: Send + Sync + 'static>(
        &self,
        kind: &Arc<Kind<T>>,
        (print, from): (Print, ClientAddress),
        read: impl Fn() -> Result<(String, String), AccessError>,
    ) -> Found<T> {
        let fresh = || {
            let generation = self.inner.engine.access_generation();
            kind.cache.fresh(&print, generation, Instant::now())
        };
        if let Some(fresh) = fresh() {
            if fresh.refresh {
                self.refresh(kind, print, read()?.0);
            }
            return fresh.found;
        }
        let (name, secret) = read()?;
        let _exclusive = kind.cache.exclusive(print).await;
        if let Some(fresh) = fresh() {
            return fresh.found;
        }
        let generation = self.inner.engine.access_generation();
        let attempt = LoginAttempt::new(self.print(kind.name, b"name", name.as_bytes()), from);
        let verified = kind.cache.verified_hash(&print);
        if verified.is_none() {
            self.inner.failed_logins.check(&attempt, Instant::now())?;
        }
        let (hash, owner) = self.find(kind, name).await?.unzip();
        let is_right = match (&hash, &kind.unknown) {
            (Some(_), _) if hash == verified => true,
            (None, Some(_)) => {
                self.inner.failed_logins.begin(&attempt, Instant::now())?;
                self.inner.failed_logins.end(&attempt, true, Instant::now());
                false
            }
            (Some(_) | None, _) => self.verify(attempt, hash.clone(), secret).await?,
        };
        let found = match (owner, is_right) {
            (Some(owner), true) => Ok(Arc::new(owner)),
            (Some(_), false) => Err(kind.wrong.clone()),
            (None, _) => Err(kind.unknown.as_ref().unwrap_or(&kind.wrong).clone()),
        };
        let verified = hash.filter(|_| is_right);
        kind.cache.remember(print, generation, verified, found.clone());
        found
    }

    /// Looks again at whose the credential is, before what is known of it expires: requests go on
    /// meanwhile. Where that fails, the request that comes after the expiry sees to it.
    fn refresh<T: Send + Sync + 'static>(&self, kind: &Arc<Kind<T>>, print: Print, name: String) {
        let (access, kind) = (self.clone(), Arc::clone(kind));
        tokio::spawn(async move {
            let _exclusive = kind.cache.exclusive(print).await;
            let generation = access.inner.engine.access_generation();
            let Ok(Some((hash, owner))) = access.find(&kind, name).await else { return };
            if kind.cache.verified_hash(&print).as_ref() == Some(&hash) {
                kind.cache.remember(print, generation, Some(hash), Ok(Arc::new(owner)));
                tracing::debug!("a credential was looked at again before it expired");
            }
        });
    }

    async fn find<T: Send + 'static>(
        &self,
        kind: &Kind<T>,
        name: String,
    ) -> Result<Stored<T>, Unavailable> {
        let find = kind.find;
        self.inner.engine.read(move |queries| find(queries, &name)).await
    }

    /// Whether the secret belongs to the hash. Goes on where the client goes away: hanging up must
    /// not hide a failed attempt.
    async fn verify(
        &self,
        attempt: LoginAttempt,
        hash: Option<StoredHash>,
        secret: String,
    ) -> Result<bool, AccessError> {
        self.inner.failed_logins.begin(&attempt, Instant::now())?;
        let verifying = self.inner.hashers.verify(hash, secret);
        let inner = Arc::clone(&self.inner);
        let counted = tokio::spawn(async move {
            let verified = verifying.await;
            inner.failed_logins.end(&attempt, matches!(verified, Ok(false)), Instant::now());
            Ok(verified?)
        });
        counted.await.unwrap_or_else(|_| Err(Unavailable::from(Reason::Bug).into()))
    }

    fn print(&self, what: &[u8], first: &[u8], second: &[u8]) -> Print {
        let mut context = hmac::Context::with_key(&self.inner.key);
        context.update(what);
        context.update(&(first.len() as u64).to_le_bytes());
        context.update(first);
        context.update(second);
        let tag = context.sign();
        tag.as_ref().try_into().expect("HMAC-SHA256 has 32 bytes")
    }
}

fn find_user(queries: &dyn Queries, name: &str) -> Result<Stored<Caller>, StoreError> {
    let Some(user) = queries.user(name)?.filter(|user| user.active) else { return Ok(None) };
    let mut permissions = vec![];
    for role in &user.roles {
        permissions.extend(queries.role(role)?.map(|it| it.permissions).unwrap_or_default());
    }
    permissions.sort();
    permissions.dedup();
    Ok(Some((user.password_hash, Caller { username: user.username, permissions })))
}

fn find_tenant(queries: &dyn Queries, api_key: &str) -> Result<Stored<TenantRef>, StoreError> {
    let Some(tenant) = queries.tenant_by_api_key(api_key)? else { return Ok(None) };
    let setting = queries.tenant_value(tenant.no, NUMERIC_KEYS)?.and_then(|it| it.value);
    let numeric_keys = match setting.as_deref() {
        Some(NUMERIC_KEYS_ALLOWED) => NumericKeys::Allowed,
        Some(_) | None => NumericKeys::Checked,
    };
    Ok(Some((tenant.secret_hash, TenantRef { no: tenant.no, id: tenant.id, numeric_keys })))
}

fn read_basic(header: &[u8]) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") || encoded.len() > 4 * CREDENTIAL_BYTES_MAX {
        return None;
    }
    let decoded = String::from_utf8(BASE64.decode(encoded.trim_ascii()).ok()?).ok()?;
    let (username, password) = decoded.split_once(':')?;
    Some((username.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_headers() {
        let read = |header: &str| read_basic(header.as_bytes());
        let admin = Some(("admin".to_owned(), "pass:word".to_owned()));
        assert_eq!(read("Basic YWRtaW46cGFzczp3b3Jk"), admin);
        assert_eq!(read("basic YWRtaW46cGFzczp3b3Jk"), admin);
        assert_eq!(read("Bearer YWRtaW46cGFzczp3b3Jk"), None);
        assert_eq!(read("Basic !!"), None);
        assert_eq!(read("Basic"), None);
        assert_eq!(read(""), None);
    }
}
