//! The writers of definitions in this process, serialised as far as they would refuse each other.
//!
//! The core refuses a change that was made upon an older version, and its writer has to start again.
//! Writers of the same process need not race: a change of a flag excludes other changes of that flag
//! only, and what is validated against the whole environment (segments, imports, copies) excludes all
//! other changes of the environment. Other environments are never locked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::TenantNo;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::definition::KEY_BYTES_MAX;

/// How many locks are kept while no writer holds them.
const IDLE_LOCKS_MAX: usize = 4_096;

/// The name of an environment: a writer reads the environment's id only after it has the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EnvironmentName {
    pub tenant: TenantNo,
    pub project: String,
    pub key: String,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct LockKey {
    environment: EnvironmentName,
    /// `None`: the environment itself.
    flag: Option<String>,
}

/// The locks of all environments that are written to.
#[derive(Default)]
pub struct WriteLocks {
    locks: Mutex<HashMap<LockKey, Arc<RwLock<()>>>>,
}

/// A lock that is held until it is dropped.
pub struct WriteLock {
    _flag: Option<OwnedRwLockWriteGuard<()>>,
    _environment: EnvironmentGuard,
}

enum EnvironmentGuard {
    Shared { _guard: OwnedRwLockReadGuard<()> },
    Exclusive { _guard: OwnedRwLockWriteGuard<()> },
}

impl WriteLocks {
    /// Excludes all other writers of an environment.
    pub async fn environment(&self, environment: &EnvironmentName) -> WriteLock {
        let lock = self.lock(LockKey { environment: environment.clone(), flag: None });
        let guard = EnvironmentGuard::Exclusive { _guard: lock.write_owned().await };
        WriteLock { _flag: None, _environment: guard }
    }

    /// Excludes other writers of a flag, and those of the whole environment.
    pub async fn flag(&self, environment: &EnvironmentName, key: &str) -> WriteLock {
        // In this order, so that no two writers wait for each other.
        let lock = self.lock(LockKey { environment: environment.clone(), flag: None });
        let shared = EnvironmentGuard::Shared { _guard: lock.read_owned().await };
        // A longer key is refused; the lock only has to be the same for the same key.
        let flag = Some(key.chars().take(KEY_BYTES_MAX).collect());
        let lock = self.lock(LockKey { environment: environment.clone(), flag });
        WriteLock { _flag: Some(lock.write_owned().await), _environment: shared }
    }

    fn lock(&self, key: LockKey) -> Arc<RwLock<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.len() >= IDLE_LOCKS_MAX && !locks.contains_key(&key) {
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(locks.entry(key).or_default())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn environment(key: &str) -> EnvironmentName {
        let project = "default".to_owned();
        EnvironmentName { tenant: TenantNo(1), project, key: key.to_owned() }
    }

    #[test]
    fn writers_exclude_each_other_only_where_they_would_conflict() {
        let (locks, dev) = (WriteLocks::default(), environment("dev"));
        let first = locks.flag(&dev, "a").now_or_never();
        assert!(first.is_some());
        let other_flag = locks.flag(&dev, "b").now_or_never();
        assert!(other_flag.is_some(), "another flag");
        assert!(locks.flag(&dev, "a").now_or_never().is_none(), "the same flag");
        assert!(locks.environment(&dev).now_or_never().is_none(), "the whole environment");
        assert!(locks.environment(&environment("prod")).now_or_never().is_some());
        drop((first, other_flag));
        let whole = locks.environment(&dev).now_or_never();
        assert!(whole.is_some(), "the flags are written");
        assert!(locks.flag(&dev, "a").now_or_never().is_none());
    }

    #[test]
    fn idle_locks_are_bounded_and_held_ones_kept() {
        let locks = WriteLocks::default();
        let held = environment("held");
        let lock = locks.environment(&held).now_or_never();
        assert!(lock.is_some());
        for number in 0..2 * IDLE_LOCKS_MAX {
            assert!(locks.environment(&environment(&number.to_string())).now_or_never().is_some());
        }
        assert!(locks.locks.lock().unwrap().len() <= IDLE_LOCKS_MAX);
        assert!(locks.environment(&held).now_or_never().is_none(), "it is still held");
    }
}
