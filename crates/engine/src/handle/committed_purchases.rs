//! The rows of purchases as they were committed, for the answers of those who bought: nothing is read for them again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::RequestId;

use crate::Engine;
use crate::ports::Bought;

/// The requests that are being answered here, each with its rows once they are committed. What a queue brought is
/// answered elsewhere and has none.
#[derive(Default)]
pub(crate) struct CommittedPurchases(Mutex<HashMap<RequestId, Option<Arc<Bought>>>>);

/// The place for the rows that a request is going to commit; dropping it forgets them.
pub struct ExpectedPurchase {
    engine: Engine,
    request: RequestId,
}

impl Engine {
    /// Keeps the rows of the purchase that a request is going to make, for [`Engine::read_bought`].
    #[must_use]
    pub fn expect_purchase(&self, request: RequestId) -> ExpectedPurchase {
        self.shared.committed_purchases.known().insert(request, None);
        ExpectedPurchase { engine: self.clone(), request }
    }
}

impl ExpectedPurchase {
    /// The rows, where this process has committed them.
    pub(super) fn rows(&self) -> Option<Arc<Bought>> {
        self.engine.shared.committed_purchases.known().get(&self.request)?.clone()
    }
}

impl Drop for ExpectedPurchase {
    fn drop(&mut self) {
        self.engine.shared.committed_purchases.known().remove(&self.request);
    }
}

impl CommittedPurchases {
    /// Keeps the rows that were committed for those who expect them.
    pub(super) fn put(&self, committed: Vec<(RequestId, Arc<Bought>)>) {
        if committed.is_empty() {
            return;
        }
        let mut known = self.known();
        for (request, rows) in committed {
            if let Some(expected) = known.get_mut(&request) {
                *expected = Some(rows);
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<RequestId, Option<Arc<Bought>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn rows_are_kept_only_for_those_who_expect_them() {
        let purchases = CommittedPurchases::default();
        let [expected, other] = [1, 2].map(|n| RequestId(Uuid::from_u128(n)));
        let rows = || Arc::new(Bought { payment: None, purchase: None, entitlements: None });
        purchases.known().insert(expected, None);
        purchases.put(vec![(expected, rows()), (other, rows())]);
        let known = purchases.known();
        assert!(known.get(&expected).is_some_and(Option::is_some));
        assert!(!known.contains_key(&other));
    }
}
