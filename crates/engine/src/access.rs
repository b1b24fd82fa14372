//! Authentication of callers and tenants: credentials are verified once by argon2id and cached for a
//! short time under a keyed hash, so that a request seldom pays for a password hash.

mod changes;
mod credential_cache;
mod failed_logins;
mod hashers;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::card_data::NumericKeys;
use domain::tenant::{
    ENTITLEMENTS_HELD, KILLBILL_CURRENCIES, KILLBILL_CURRENCIES_THEIRS, NUMERIC_KEYS,
    NUMERIC_KEYS_ALLOWED, SETTINGS, Tenant, entitlements_held_us,
};
use domain::{Currency, TenantId, TenantNo, Timestamp};
use ring::hmac;

pub use crate::caller::Caller;
use crate::ports::{Queries, StoreError};
use crate::{Engine, Reason, Unavailable, client, text};
use credential_cache::{CredentialCache, Found};
use failed_logins::{FailedLogins, LoginAttempt};
use hashers::Hashers;

pub use changes::follow_changes;
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
    name: &'static str,
    cache: CredentialCache<T>,
    find: fn(&dyn Queries, &str) -> Result<Stored<T>, StoreError>,
    wrong: AccessError,
    /// The refusal of an unknown name, without hashing. `None` where a client must not learn which
    /// names exist: an unknown one then takes as long as a wrong secret, and reads alike.
    unknown: Option<AccessError>,
}

/// A PHC string.
type StoredHash = String;

/// The owner of a name, if there is one, with the hashes of the secrets that are taken.
type Stored<T> = Option<(Vec<TakenSecret>, T)>;

/// A secret that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TakenSecret {
    hash: StoredHash,
    /// From here on it is refused; `None`: not before it is replaced.
    until: Option<Timestamp>,
}

impl TakenSecret {
    const fn lasting(hash: StoredHash) -> Self {
        Self { hash, until: None }
    }
}

/// A keyed hash of a credential; the credential itself is not kept.
type Print = [u8; 32];

/// A tenant whose secret was shown.
#[derive(Debug)]
pub struct TenantRef {
    /// The number its rows carry.
    pub no: TenantNo,
    pub id: TenantId,
    is_active: bool,
    /// Whether its keys may be numbers that may as well be those of cards.
    pub numeric_keys: NumericKeys,
    /// How long a program may hold what one of its accounts may do, in microseconds.
    pub entitlements_held_us: i64,
    takes_only_kill_bills_currencies: bool,
}

impl TenantRef {
    /// Whether the tenant takes only currencies that Kill Bill's clients can read, and this is another one.
    #[must_use]
    pub fn refuses(&self, currency: Currency) -> bool {
        self.takes_only_kill_bills_currencies && !currency.is_of_kill_bill()
    }
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
    /// The credentials are right, and the tenant is switched off.
    #[error("the tenant is switched off")]
    TenantInactive,
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
            name: "user",
            cache: CredentialCache::new(life),
            find: find_user,
            wrong: AccessError::Invalid,
            unknown: None,
        };
        // API keys are names, not secrets: `GET /1.0/kb/tenants?apiKey=` says which there are.
        let tenants = Kind {
            name: "tenant",
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
        let user = self.check(&self.inner.users, (print, from), read).await?;
        client::is_user(&user);
        Ok(user)
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
        let tenant = self.check(&self.inner.tenants, (print, from), read).await?;
        if !tenant.is_active {
            return Err(AccessError::TenantInactive);
        }
        client::serves(tenant.no);
        Ok(tenant)
    }

    /// Whether a user's password is one of these.
    ///
    /// # Errors
    /// Where it cannot be checked now.
    pub async fn has_password_of(
        &self,
        username: &str,
        passwords: &[&str],
    ) -> Result<bool, AccessError> {
        let found = self.find(&self.inner.users, username.to_owned()).await?;
        let Some((taken, _)) = found else { return Ok(false) };
        for password in passwords {
            let password = (*password).to_owned();
            if self.inner.hashers.find(taken.clone(), password).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
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
            kind.cache.fresh(&print, generation, (Instant::now(), self.inner.engine.clock().now()))
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
        let attempt =
            LoginAttempt::new(self.print(kind.name.as_bytes(), b"name", name.as_bytes()), from);
        let verified = kind.cache.verified_hash(&print);
        if verified.is_none() {
            self.inner.failed_logins.check(&attempt, Instant::now())?;
        }
        let (taken, owner) = self.find(kind, name.clone()).await?.unzip();
        let taken = taken.unwrap_or_default();
        let known = taken.iter().find(|it| Some(&it.hash) == verified.as_ref());
        let right = match (known, &owner, &kind.unknown) {
            (Some(known), ..) => Some(known.clone()),
            (None, None, Some(_)) => {
                self.inner.failed_logins.begin(&attempt, Instant::now())?;
                self.inner.failed_logins.end(&attempt, true, Instant::now());
                None
            }
            (None, Some(_) | None, _) => self.verify(attempt, taken, secret).await?,
        };
        let is_known = owner.is_some();
        let found = match (owner, &right) {
            (Some(owner), Some(_)) => Ok(Arc::new(owner)),
            (Some(_), None) => Err(kind.wrong.clone()),
            (None, _) => Err(kind.unknown.as_ref().unwrap_or(&kind.wrong).clone()),
        };
        if let Err(why) = &found {
            // A name that is not there may be a password in the wrong place.
            let name = is_known.then_some(name.as_str());
            let network = from.network();
            tracing::info!(kind = kind.name, name, %network, reason = %why, "login refused");
        }
        kind.cache.remember(print, generation, right, found.clone());
        found
    }

    /// Looks again at whose the credential is, before what is known of it expires: requests go on
    /// meanwhile. Where that fails, the request that comes after the expiry sees to it.
    fn refresh<T: Send + Sync + 'static>(&self, kind: &Arc<Kind<T>>, print: Print, name: String) {
        let (access, kind) = (self.clone(), Arc::clone(kind));
        tokio::spawn(async move {
            let _exclusive = kind.cache.exclusive(print).await;
            let generation = access.inner.engine.access_generation();
            let Ok(Some((taken, owner))) = access.find(&kind, name).await else { return };
            let verified = kind.cache.verified_hash(&print);
            if let Some(right) = taken.into_iter().find(|it| Some(&it.hash) == verified.as_ref()) {
                kind.cache.remember(print, generation, Some(right), Ok(Arc::new(owner)));
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
        let found = self.inner.engine.read(move |queries| find(queries, &name)).await?;
        let now = self.inner.engine.clock().now();
        Ok(found.map(|(mut taken, owner)| {
            taken.retain(|it| it.until.is_none_or(|until| now < until));
            (taken, owner)
        }))
    }

    /// The hash that the secret belongs to, if any. Goes on where the client goes away: hanging up
    /// must not hide a failed attempt. Without hashes it takes as long as with one.
    async fn verify(
        &self,
        attempt: LoginAttempt,
        taken: Vec<TakenSecret>,
        secret: String,
    ) -> Result<Option<TakenSecret>, AccessError> {
        self.inner.failed_logins.begin(&attempt, Instant::now())?;
        let inner = Arc::clone(&self.inner);
        let counted = tokio::spawn(async move {
            let verified = inner.hashers.find(taken, secret).await;
            inner.failed_logins.end(&attempt, matches!(verified, Ok(None)), Instant::now());
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
    let taken = vec![TakenSecret::lasting(user.password_hash)];
    Ok(Some((taken, Caller { username: user.username, permissions })))
}

fn find_tenant(queries: &dyn Queries, api_key: &str) -> Result<Stored<TenantRef>, StoreError> {
    let Some(tenant) = queries.tenant_by_api_key(api_key)? else { return Ok(None) };
    let setting = queries.tenant_value(tenant.no, NUMERIC_KEYS)?.and_then(|it| it.value);
    let numeric_keys = match setting.as_deref() {
        Some(NUMERIC_KEYS_ALLOWED) => NumericKeys::Allowed,
        Some(_) | None => NumericKeys::Checked,
    };
    let held = queries.tenant_value(tenant.no, ENTITLEMENTS_HELD)?.and_then(|it| it.value);
    let entitlements_held_us = entitlements_held_us(held.as_deref());
    let mut taken = vec![TakenSecret::lasting(tenant.secret_hash)];
    taken.extend(
        tenant.previous_secret.map(|it| TakenSecret { hash: it.hash, until: Some(it.until) }),
    );
    let Tenant { no, id, is_active, .. } = tenant;
    let settings = queries.tenant_value(tenant.no, SETTINGS)?.and_then(|it| it.value);
    let only_theirs = settings.as_deref().is_some_and(takes_only_their_currencies);
    let found = TenantRef {
        no,
        id,
        is_active,
        numeric_keys,
        entitlements_held_us,
        takes_only_kill_bills_currencies: only_theirs,
    };
    Ok(Some((taken, found)))
}

/// Whether a tenant's settings allow Kill Bill's currencies only.
fn takes_only_their_currencies(settings: &str) -> bool {
    let all: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(settings).unwrap_or_default();
    all.get(KILLBILL_CURRENCIES).is_some_and(|it| it == KILLBILL_CURRENCIES_THEIRS)
}

/// The text of a header that a person's name or words are in. Bytes that are no UTF-8 are ISO-8859-1, which axios, Node's
/// `fetch` and Python's `requests` send (RFC 9110, section 5.5).
#[must_use]
pub fn text_of_header(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        // The first 256 characters of Unicode are those of ISO-8859-1.
        Err(_) => Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()),
    }
}

/// The user and the password of an `Authorization` header (RFC 7617); public for the fuzzer.
#[doc(hidden)]
pub fn read_basic(header: &[u8]) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") || encoded.len() > 4 * CREDENTIAL_BYTES_MAX {
        return None;
    }
    let decoded = BASE64.decode(encoded.trim_ascii()).ok()?;
    let decoded = text_of_header(&decoded);
    let (username, password) = decoded.split_once(':')?;
    Some((text::username(username).into_owned(), password.to_owned()))
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
        let named = Some(("jürgen".to_owned(), "pä".to_owned()));
        assert_eq!(read("Basic asO8cmdlbjpww6Q="), named);
        assert_eq!(read("Basic avxyZ2VuOnDk"), named, "in ISO-8859-1");
        assert_eq!(read("Bearer YWRtaW46cGFzczp3b3Jk"), None);
        assert_eq!(read("Basic !!"), None);
        assert_eq!(read("Basic"), None);
        assert_eq!(read(""), None);
    }
}
