//! Verified and refused credentials, cached for a short time by a keyed hash of each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use domain::Timestamp;

use super::{AccessError, Print, TakenSecret};

/// Credentials remembered at the same time.
const CACHED_MAX: usize = 16_384;

/// How long a wrong credential is remembered as wrong: repeating it costs nothing, and counts as one guess
/// in the window of the limit. So a program with an outdated password locks out no other client of its
/// network. A change of passwords or secrets ends it at once.
const WRONG_LIFE: Duration = super::failed_logins::WINDOW;

/// Entries that are older are evicted first when the cache is full.
const IDLE_LIFE: Duration = Duration::from_secs(60);

/// Credentials of one kind.
pub(super) struct CredentialCache<T> {
    /// How long a right credential is believed.
    life: Duration,
    known: RwLock<HashMap<Print, Entry<T>>>,
    /// The verification in flight per credential.
    pending: Mutex<HashMap<Print, Arc<tokio::sync::Mutex<()>>>>,
}

struct Entry<T> {
    at: Instant,
    generation: i64,
    /// The stored secret that the credential was verified against.
    verified: Option<TakenSecret>,
    found: Found<T>,
    /// A refresh was started.
    refreshing: AtomicBool,
}

/// Whose the credential is, or why it is refused.
pub(super) type Found<T> = Result<Arc<T>, AccessError>;

/// A cache entry's result that is still fresh.
pub(super) struct Fresh<T> {
    pub(super) found: Found<T>,
    /// It expires soon: the caller refreshes it. Set for one caller at a time.
    pub(super) refresh: bool,
}

impl<T> CredentialCache<T> {
    pub(super) fn new(life: Duration) -> Self {
        Self { life, known: RwLock::default(), pending: Mutex::default() }
    }

    /// `now` is the time of this process, and that of the engine's clock.
    pub(super) fn fresh(
        &self,
        print: &Print,
        generation: i64,
        (now, domain_now): (Instant, Timestamp),
    ) -> Option<Fresh<T>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(print).filter(|known| known.generation == generation)?;
        let until = known.verified.as_ref().and_then(|it| it.until);
        if until.is_some_and(|until| domain_now >= until) {
            return None;
        }
        let age = now.saturating_duration_since(known.at);
        let life = if known.found.is_ok() { self.life } else { WRONG_LIFE };
        let ends_soon = known.found.is_ok() && age >= life / 4 * 3;
        let refresh = ends_soon && !known.refreshing.swap(true, Ordering::Relaxed);
        (age < life).then(|| Fresh { found: known.found.clone(), refresh })
    }

    /// The hash that this very credential was verified against, however long ago.
    pub(super) fn verified_hash(&self, print: &Print) -> Option<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(print)?.verified.as_ref().map(|it| it.hash.clone())
    }

    pub(super) fn remember(
        &self,
        print: Print,
        generation: i64,
        verified: Option<TakenSecret>,
        found: Found<T>,
    ) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CACHED_MAX {
            known.retain(|_, it| it.found.is_ok() && it.at.elapsed() < IDLE_LIFE);
            if known.len() >= CACHED_MAX {
                known.clear();
            }
        }
        let (at, refreshing) = (Instant::now(), AtomicBool::new(false));
        known.insert(print, Entry { at, generation, verified, found, refreshing });
    }

    /// Waits for the exclusive right to verify a credential.
    pub(super) async fn exclusive(&self, print: Print) -> ExclusiveCheck<'_, T> {
        let turn = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            if pending.len() >= CACHED_MAX {
                // Left behind by clients that hung up while they waited.
                pending.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            Arc::clone(pending.entry(print).or_default())
        };
        let guard = turn.lock_owned().await;
        ExclusiveCheck { cache: self, print, _guard: guard }
    }
}

/// The only verification of a credential, as long as it lives.
pub(super) struct ExclusiveCheck<'a, T> {
    cache: &'a CredentialCache<T>,
    print: Print,
    _guard: tokio::sync::OwnedMutexGuard<()>,
}

impl<T> Drop for ExclusiveCheck<'_, T> {
    fn drop(&mut self) {
        let mut pending = self.cache.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // Two owners: the map and this guard. Each waiter is one more.
        if pending.get(&self.print).is_some_and(|turn| Arc::strong_count(turn) <= 2) {
            pending.remove(&self.print);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINT: Print = [1; 32];
    const LIFE: Duration = Duration::from_secs(60);

    /// The cache's results for a credential stored in generation 1, after each of these seconds.
    fn check(found: &Found<u8>, generation: i64, after_s: &[u64]) -> Vec<&'static str> {
        check_verified(None, found, generation, after_s)
    }

    /// The same of one that was verified against a secret; the domain's clock begins at 0.
    fn check_verified(
        verified: Option<TakenSecret>,
        found: &Found<u8>,
        generation: i64,
        after_s: &[u64],
    ) -> Vec<&'static str> {
        let remembered = CredentialCache::new(LIFE);
        remembered.remember(PRINT, 1, verified, found.clone());
        let at = remembered.known.read().unwrap()[&PRINT].at;
        let ask = |seconds: &u64| {
            let domain_now = Timestamp(i64::try_from(*seconds).unwrap() * 1_000_000);
            let now = (at + Duration::from_secs(*seconds), domain_now);
            match remembered.fresh(&PRINT, generation, now) {
                Some(Fresh { refresh: true, .. }) => "refresh",
                Some(Fresh { found: Ok(_), .. }) => "right",
                Some(Fresh { found: Err(_), .. }) => "wrong",
                None => "nothing",
            }
        };
        after_s.iter().map(ask).collect()
    }

    #[test]
    fn a_right_credential_is_refreshed_once_before_it_expires() {
        let right = Ok(Arc::new(7));
        let shown = check(&right, 1, &[0, 44, 45, 45, 59, 60]);
        assert_eq!(shown, ["right", "right", "refresh", "right", "right", "nothing"]);
        assert_eq!(check(&right, 2, &[0]), ["nothing"], "users or tenants have changed since");
    }

    #[test]
    fn a_replaced_secret_is_not_believed_beyond_its_end() {
        let until = Some(Timestamp(10_000_000));
        let verified = Some(TakenSecret { hash: String::new(), until });
        let shown = check_verified(verified, &Ok(Arc::new(7)), 1, &[9, 10]);
        assert_eq!(shown, ["right", "nothing"]);
    }

    #[test]
    fn a_wrong_credential_is_cached_for_a_short_time() {
        let wrong = Err(AccessError::Invalid);
        assert_eq!(check(&wrong, 1, &[0, 59, 60]), ["wrong", "wrong", "nothing"]);
        assert_eq!(check(&wrong, 2, &[0]), ["nothing"], "it may be right by now");
    }
}
