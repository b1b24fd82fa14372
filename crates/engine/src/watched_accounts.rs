//! Wakes those who watch what single accounts may do, each by changes of its account alone.
//!
//! A watcher that is woken reads the account itself, so that changes which come faster than it reads are one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::entitlement::Entitlements;
use domain::{AccountId, TenantNo};
use tokio::sync::watch;

use crate::holdings::Holdings;
use crate::ports::{ChangedAccount, EntitlementAudience};

/// How many watches there are at most.
pub const WATCHES_MAX: usize = 10_000;

/// How many of them one tenant has at most, so that none has all.
pub const TENANT_WATCHES_MAX: usize = 5_000;

/// The accounts that are watched in this process.
#[derive(Default)]
pub struct WatchedAccounts {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    accounts: HashMap<AccountId, Watched>,
    by_tenant: Holdings<TenantNo>,
    watches: usize,
    has_ended: bool,
}

/// An account, and how many watch it.
struct Watched {
    changes: watch::Sender<()>,
    watches: usize,
}

/// A watch of an account. Dropping it ends it.
pub struct AccountWatch {
    of: Arc<WatchedAccounts>,
    tenant: TenantNo,
    account: AccountId,
    changes: watch::Receiver<()>,
}

/// Why an account cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWatched {
    /// There are as many watches as there may be.
    Full,
    /// The server stops.
    Ended,
}

impl WatchedAccounts {
    /// Watches an account. A change that is committed after a later read wakes the watch; the account is read first
    /// after this.
    ///
    /// # Errors
    /// [`NotWatched`].
    pub fn watch(
        self: &Arc<Self>,
        tenant: TenantNo,
        account: AccountId,
    ) -> Result<AccountWatch, NotWatched> {
        let mut state = self.state();
        if state.has_ended {
            return Err(NotWatched::Ended);
        }
        if state.watches >= WATCHES_MAX || !state.by_tenant.add_below(tenant, TENANT_WATCHES_MAX) {
            return Err(NotWatched::Full);
        }
        state.watches += 1;
        let none = || Watched { changes: watch::Sender::new(()), watches: 0 };
        let watched = state.accounts.entry(account).or_insert_with(none);
        watched.watches += 1;
        let changes = watched.changes.subscribe();
        drop(state);
        Ok(AccountWatch { of: Arc::clone(self), tenant, account, changes })
    }

    /// Ends all watches, and admits no more.
    pub fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.accounts.clear();
    }

    /// How many watches there are.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.state().watches
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EntitlementAudience for WatchedAccounts {
    fn follows(&self) {
        // What changed after an account was read, and before this, is published to none.
        self.state().accounts.values().for_each(Watched::wake);
    }

    fn shows(&self, it: &ChangedAccount) -> bool {
        self.state().accounts.contains_key(&it.account)
    }

    fn changed(&self, entitlements: &[Entitlements]) {
        let state = self.state();
        if state.accounts.is_empty() {
            return;
        }
        let watched = entitlements.iter().filter_map(|it| state.accounts.get(&it.account_id));
        watched.for_each(Watched::wake);
    }

    /// Wakes none: a busy account would be sent again with each event.
    fn used(&self, _: &[AccountId]) {}
}

impl Watched {
    fn wake(&self) {
        self.changes.send_replace(());
    }
}

impl AccountWatch {
    /// Ready once the account may have changed since the last time; `false` where the watch has ended.
    pub async fn changed(&mut self) -> bool {
        self.changes.changed().await.is_ok()
    }
}

impl Drop for AccountWatch {
    fn drop(&mut self) {
        let mut state = self.of.state();
        state.watches -= 1;
        state.by_tenant.remove(&self.tenant, 1);
        if let Some(watched) = state.accounts.get_mut(&self.account) {
            watched.watches -= 1;
            if watched.watches == 0 {
                state.accounts.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{Revision, Seq};
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    fn account(id: u128) -> AccountId {
        AccountId::new(Uuid::from_u128(id))
    }

    fn entitlements(id: u128) -> Entitlements {
        Entitlements::none_of(TenantNo(1), account(id), Revision::first(Seq(1)))
    }

    /// Whether it is woken now; `None`: it still waits.
    fn woken(watch: &mut AccountWatch) -> Option<bool> {
        watch.changed().now_or_never()
    }

    #[test]
    fn changes_wake_the_watches_of_their_account_once() {
        let watched = Arc::<WatchedAccounts>::default();
        let watch = |id| watched.watch(TenantNo(1), account(id)).unwrap();
        let (mut one, mut same, mut other) = (watch(1), watch(1), watch(2));
        assert_eq!(woken(&mut one), None);
        watched.changed(&[entitlements(1), entitlements(3)]);
        watched.changed(&[entitlements(1)]);
        let all = [woken(&mut one), woken(&mut same), woken(&mut other)];
        assert_eq!(all, [Some(true), Some(true), None]);
        assert_eq!(woken(&mut one), None, "two changes before it looks are one");
        watched.follows();
        assert_eq!([woken(&mut one), woken(&mut other)], [Some(true), Some(true)]);
    }

    #[test]
    fn a_watch_that_is_dropped_leaves_nothing() {
        let watched = Arc::<WatchedAccounts>::default();
        let watch = |id| watched.watch(TenantNo(1), account(id)).unwrap();
        let (one, mut same) = (watch(1), watch(1));
        drop(one);
        watched.changed(&[entitlements(1)]);
        assert_eq!(woken(&mut same), Some(true));
        drop(same);
        let state = watched.state();
        assert_eq!((state.watches, state.accounts.len(), state.by_tenant.is_empty()), (0, 0, true));
    }

    #[test]
    fn watches_are_bounded_for_each_tenant_and_end_with_the_server() {
        let watched = Arc::<WatchedAccounts>::default();
        let watch = |tenant| watched.watch(TenantNo(tenant), account(1));
        let mut held: Vec<_> = (0..TENANT_WATCHES_MAX).map(|_| watch(1).unwrap()).collect();
        assert_eq!(watch(1).err(), Some(NotWatched::Full));
        held.extend((0..WATCHES_MAX - TENANT_WATCHES_MAX).map(|_| watch(2).unwrap()));
        assert_eq!(watch(3).err(), Some(NotWatched::Full));
        let mut last = held.pop().unwrap();
        drop(held);
        assert_eq!(woken(&mut last), None);
        watched.end();
        assert_eq!(woken(&mut last), Some(false));
        assert_eq!(watch(1).err(), Some(NotWatched::Ended));
        drop(last);
        assert_eq!(watched.watches(), 0);
    }
}
