//! Where passwords are hashed: argon2id, so many at the same time, and so many that wait.

use std::sync::Arc;

use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

use super::TakenSecret;
use crate::{Reason, Unavailable, text};

/// Passwords waiting per hasher: about a second of work each at 15 ms a hash.
const HASHES_PER_HASHER_MAX: usize = 64;

/// A bounded pool. What is begun goes on where its future is dropped, and holds its place until it
/// ends: hanging up must not free a hasher that still works.
pub(super) struct Hashers {
    /// One permit per password that is hashed at the same time.
    working: Arc<Semaphore>,
    /// One permit per password that is hashed or waits to be; more are refused.
    places: Arc<Semaphore>,
}

impl Hashers {
    pub(super) fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        let places = Arc::new(Semaphore::new(threads * HASHES_PER_HASHER_MAX));
        Self { working: Arc::new(Semaphore::new(threads)), places }
    }

    /// Hashes a new secret: 19 MiB, 2 passes (OWASP), as a PHC string.
    pub(super) async fn hash(&self, secret: String) -> Result<String, Unavailable> {
        let work = move || {
            let secret = text::password(&secret);
            argon2id().hash_password(secret.as_bytes()).map(|hash| hash.to_string())
        };
        Ok(self.run(work).await?.expect("any bytes can be hashed"))
    }

    /// The first of `taken` that the secret belongs to. Without any, a hash is computed all the same, so
    /// that an unknown name takes as long as a wrong password.
    pub(super) fn find(
        &self,
        taken: Vec<TakenSecret>,
        secret: String,
    ) -> impl Future<Output = Result<Option<TakenSecret>, Unavailable>> + Send + 'static {
        self.run(move || {
            let secret = text::password(&secret);
            if taken.is_empty() {
                drop(argon2id().hash_password(secret.as_bytes()));
            }
            taken.into_iter().find(|it| verify_blocking(&it.hash, &secret))
        })
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, Unavailable>> + Send + 'static {
        let working = Arc::clone(&self.working);
        let place = Arc::clone(&self.places).try_acquire_owned();
        let running = place.map_err(|_| refuse()).map(|place| {
            tokio::spawn(async move {
                let _place = place;
                let permit = working.acquire().await;
                let _hasher = permit.map_err(|_| Unavailable::from(Reason::Stopping))?;
                metrics::counter!("faregate_password_hashes_total").increment(1);
                let done = tokio::task::spawn_blocking(work).await;
                done.map_err(|_| Unavailable::from(Reason::Bug))
            })
        });
        async move {
            match running {
                Ok(running) => running.await.unwrap_or_else(|_| Err(Reason::Bug.into())),
                Err(full) => Err(full),
            }
        }
    }
}

fn refuse() -> Unavailable {
    let reason = Reason::HashersFull;
    metrics::counter!("faregate_refused_total", "reason" => reason.label()).increment(1);
    reason.into()
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
    fn a_hash_verifies_its_secret_and_no_other() {
        let hash = argon2id().hash_password(b"lazar").unwrap().to_string();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(verify_blocking(&hash, "lazar"));
        assert!(!verify_blocking(&hash, "Lazar"));
        assert!(!verify_blocking("no hash", "lazar"));
    }
}
