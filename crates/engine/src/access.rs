//! Who calls, and for which tenant: credentials are verified once by argon2id and remembered for a
//! short while under a keyed hash, so that no request pays for a password hash.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::access::grants;
use domain::{TenantId, TenantNo};
use ring::hmac;
use tokio::sync::Semaphore;

use crate::{Engine, Reason, Unavailable};

/// Verified credentials remembered at the same time.
const REMEMBERED_MAX: usize = 16_384;

/// How long a wrong password is remembered as wrong, so that repeating it costs nothing.
const WRONG_LIFE: Duration = Duration::from_secs(5);

/// Wrong passwords per name within [`FAILURE_WINDOW`]; more are refused unseen.
const FAILURES_MAX: u32 = 20;

/// See [`FAILURES_MAX`].
const FAILURE_WINDOW: Duration = Duration::from_secs(60);

/// Passwords waiting per hasher: about a second of work each at 15 ms a hash.
const HASHES_PER_HASHER_MAX: usize = 64;

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
    life: Duration,
    /// One permit per password that is hashed at the same time.
    hashers: Semaphore,
    /// One permit per password that is hashed or waits to be; more are refused.
    hashes: Arc<Semaphore>,
    callers: Remembered<Caller>,
    tenants: Remembered<TenantRef>,
    failures: Mutex<HashMap<Print, (Instant, u32)>>,
}

/// A keyed hash of a credential; the credential itself is not kept.
type Print = [u8; 32];

/// Somebody who proved who they are.
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
    /// Its id.
    pub id: TenantId,
}

/// Why somebody is not let in.
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
    /// Another secret.
    #[error("the API secret is wrong")]
    WrongSecret,
    /// Too many wrong passwords for this name.
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
        let hashers = hashers.max(1);
        Self {
            inner: Arc::new(Inner {
                engine,
                key,
                life,
                hashers: Semaphore::new(hashers),
                hashes: Arc::new(Semaphore::new(hashers * HASHES_PER_HASHER_MAX)),
                callers: Remembered::default(),
                tenants: Remembered::default(),
                failures: Mutex::default(),
            }),
        }
    }

    /// The caller behind an `Authorization` header (RFC 7617, Basic).
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn user(&self, authorization: Option<&[u8]>) -> Result<Arc<Caller>, AccessError> {
        let header = authorization.ok_or(AccessError::Missing)?;
        let print = self.print(b"user", header, b"");
        let generation = self.inner.engine.access_generation();
        if let Some(known) = self.inner.callers.fresh(&print, generation, self.inner.life) {
            return known.ok_or(AccessError::Invalid);
        }
        let (username, password) = read_basic(header).ok_or(AccessError::Missing)?;
        let _alone = self.inner.callers.alone(print).await;
        if let Some(known) = self.inner.callers.fresh(&print, generation, self.inner.life) {
            return known.ok_or(AccessError::Invalid);
        }
        let name = username.clone();
        let found = self.inner.engine.read(move |queries| {
            let Some(user) = queries.user(&name)?.filter(|user| user.active) else {
                return Ok(None);
            };
            let mut permissions = vec![];
            for role in &user.roles {
                permissions
                    .extend(queries.role(role)?.map(|it| it.permissions).unwrap_or_default());
            }
            permissions.sort();
            permissions.dedup();
            Ok(Some((user, permissions)))
        });
        let found = found.await?;
        let (hash, caller) = match found {
            Some((user, permissions)) => {
                let caller = Caller { username: user.username, permissions };
                (Some(user.password_hash), Some(caller))
            }
            None => (None, None),
        };
        let right = self.verify(&self.inner.callers, (print, &username), hash, password).await?;
        let caller = caller.filter(|_| right.is_some()).map(Arc::new);
        self.inner.callers.remember(print, generation, right, caller.clone());
        caller.ok_or(AccessError::Invalid)
    }

    /// The tenant with this API key, if the secret is right.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn tenant(&self, api_key: &str, secret: &str) -> Result<Arc<TenantRef>, AccessError> {
        let print = self.print(b"tenant", api_key.as_bytes(), secret.as_bytes());
        let generation = self.inner.engine.access_generation();
        if let Some(known) = self.inner.tenants.fresh(&print, generation, self.inner.life) {
            return known.ok_or(AccessError::WrongSecret);
        }
        if api_key.len() > CREDENTIAL_BYTES_MAX || secret.len() > CREDENTIAL_BYTES_MAX {
            return Err(AccessError::UnknownApiKey);
        }
        let _alone = self.inner.tenants.alone(print).await;
        if let Some(known) = self.inner.tenants.fresh(&print, generation, self.inner.life) {
            return known.ok_or(AccessError::WrongSecret);
        }
        let key = api_key.to_owned();
        let found = self.inner.engine.read(move |queries| queries.tenant_by_api_key(&key)).await?;
        let Some(found) = found else { return Err(AccessError::UnknownApiKey) };
        let hash = Some(found.secret_hash);
        let secret = secret.to_owned();
        let right = self.verify(&self.inner.tenants, (print, api_key), hash, secret).await?;
        let tenant = TenantRef { no: found.no, id: found.id };
        let tenant = right.as_ref().map(|_| Arc::new(tenant));
        self.inner.tenants.remember(print, generation, right, tenant.clone());
        tenant.ok_or(AccessError::WrongSecret)
    }

    /// Hashes a new password or secret: argon2id, 19 MiB, 2 passes (OWASP), as a PHC string.
    ///
    /// # Errors
    /// Where too many wait for a hasher already.
    pub async fn hash(&self, secret: &str) -> Result<String, AccessError> {
        let secret = secret.to_owned();
        let hashed = self.on_hasher(move || {
            let hash = argon2id().hash_password(secret.as_bytes());
            hash.expect("any bytes can be hashed").to_string()
        });
        Ok(hashed.await?)
    }

    /// `Some(hash)` where the secret belongs to `hash`. A hash that was verified for this print
    /// before is not computed again; without a hash one is computed all the same, so that an
    /// unknown name takes as long as a wrong password.
    async fn verify<T>(
        &self,
        remembered: &Remembered<T>,
        (print, name): (Print, &str),
        hash: Option<String>,
        secret: String,
    ) -> Result<Option<String>, AccessError> {
        if hash.is_some() && hash == remembered.verified_hash(&print) {
            return Ok(hash);
        }
        let name_print = self.print(b"name", name.as_bytes(), b"");
        self.refuse_guessing(&name_print)?;
        let right = self.on_hasher(move || match &hash {
            Some(hash) => verify_blocking(hash, &secret).then(|| hash.clone()),
            None => {
                drop(argon2id().hash_password(secret.as_bytes()));
                None
            }
        });
        let access = self.clone();
        // Goes on where the client goes away: hanging up must neither free a hasher that still
        // works nor hide a guess.
        let counted = tokio::spawn(async move {
            let right = right.await?;
            if right.is_none() {
                access.count_failure(name_print);
            }
            Ok(right)
        });
        counted.await.unwrap_or_else(|_| Err(Unavailable::from(Reason::Bug).into()))
    }

    /// Runs on a hasher once one is free. The work goes on where its future is dropped, and holds
    /// its place until it ends.
    fn on_hasher<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, Unavailable>> + Send + 'static {
        let inner = Arc::clone(&self.inner);
        let turn = Arc::clone(&inner.hashes).try_acquire_owned();
        let running = turn.map(|turn| {
            tokio::spawn(async move {
                let _turn = turn;
                let permit = inner.hashers.acquire().await;
                let _hasher = permit.map_err(|_| Unavailable::from(Reason::Stopping))?;
                let done = tokio::task::spawn_blocking(work).await;
                done.map_err(|_| Unavailable::from(Reason::Bug))
            })
        });
        async move {
            match running {
                Ok(running) => running.await.unwrap_or_else(|_| Err(Reason::Bug.into())),
                Err(_) => Err(Reason::HashersFull.into()),
            }
        }
    }

    fn refuse_guessing(&self, name: &Print) -> Result<(), AccessError> {
        let failures = self.inner.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((since, count)) = failures.get(name) else { return Ok(()) };
        match FAILURE_WINDOW.checked_sub(since.elapsed()) {
            Some(retry_after) if *count >= FAILURES_MAX => {
                metrics::counter!("faregate_refused_total", "reason" => "guessing").increment(1);
                Err(AccessError::Throttled { retry_after })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn count_failure(&self, name: Print) {
        let mut failures = self.inner.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= REMEMBERED_MAX {
            failures.retain(|_, (since, _)| since.elapsed() < FAILURE_WINDOW);
        }
        let entry = failures.entry(name).or_insert((Instant::now(), 0));
        if entry.0.elapsed() >= FAILURE_WINDOW {
            *entry = (Instant::now(), 0);
        }
        entry.1 += 1;
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

/// What was found out about credentials, by their print.
struct Remembered<T> {
    known: RwLock<HashMap<Print, Known<T>>>,
    /// The verification in flight per credential.
    pending: Mutex<HashMap<Print, Arc<tokio::sync::Mutex<()>>>>,
}

struct Known<T> {
    at: Instant,
    generation: i64,
    /// The stored hash that the secret was verified against.
    verified: Option<String>,
    value: Option<Arc<T>>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self { known: RwLock::default(), pending: Mutex::default() }
    }
}

impl<T> Remembered<T> {
    /// What is known and still fresh: `Some(None)` is a credential known to be wrong.
    fn fresh(&self, print: &Print, generation: i64, life: Duration) -> Option<Option<Arc<T>>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(print)?;
        let life = if known.value.is_some() { life } else { WRONG_LIFE };
        let fresh = known.generation == generation && known.at.elapsed() < life;
        fresh.then(|| known.value.clone())
    }

    /// The hash that this very credential was verified against, however long ago.
    fn verified_hash(&self, print: &Print) -> Option<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(print)?.verified.clone()
    }

    fn remember(
        &self,
        print: Print,
        generation: i64,
        verified: Option<String>,
        value: Option<Arc<T>>,
    ) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, it| it.value.is_some() && it.at.elapsed() < FAILURE_WINDOW);
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
        }
        known.insert(print, Known { at: Instant::now(), generation, verified, value });
    }

    /// Waits until nobody else verifies the same credential.
    async fn alone(&self, print: Print) -> Alone<'_, T> {
        let turn = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            if pending.len() >= REMEMBERED_MAX {
                // Left behind by clients that hung up while they waited.
                pending.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            Arc::clone(pending.entry(print).or_default())
        };
        let guard = turn.lock_owned().await;
        Alone { remembered: self, print, _guard: guard }
    }
}

/// The only verification of a credential, as long as it lives.
struct Alone<'a, T> {
    remembered: &'a Remembered<T>,
    print: Print,
    _guard: tokio::sync::OwnedMutexGuard<()>,
}

impl<T> Drop for Alone<'_, T> {
    fn drop(&mut self) {
        let mut pending = self.remembered.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // Two owners: the map and this guard. Anybody who waits has one more.
        if pending.get(&self.print).is_some_and(|turn| Arc::strong_count(turn) <= 2) {
            pending.remove(&self.print);
        }
    }
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

fn argon2id() -> Argon2<'static> {
    let params = Params::new(19 * 1024, 2, 1, None).expect("these parameters are in range");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn verify_blocking(hash: &str, secret: &str) -> bool {
    PasswordHash::new(hash)
        .is_ok_and(|hash| argon2id().verify_password(secret.as_bytes(), &hash).is_ok())
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

    #[test]
    fn a_hash_verifies_its_secret_and_no_other() {
        let hash = argon2id().hash_password(b"lazar").unwrap().to_string();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(verify_blocking(&hash, "lazar"));
        assert!(!verify_blocking(&hash, "Lazar"));
        assert!(!verify_blocking("no hash", "lazar"));
    }
}
