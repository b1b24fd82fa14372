//! The rows of purchases as they were committed, for the answers of those who bought: nothing is read for them again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use domain::RequestId;

use crate::ports::Bought;

/// How many are kept for answers that are being made. An answer without one reads the rows.
const KEPT_MAX: usize = 1_024;

/// The rows of the newest purchases, until they are taken.
#[derive(Default)]
pub(crate) struct CommittedPurchases(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    rows: HashMap<RequestId, Arc<Bought>>,
    /// The oldest first, those that were taken too.
    order: VecDeque<RequestId>,
}

impl CommittedPurchases {
    /// Keeps the rows that a request committed. The oldest are dropped where there are too many.
    pub(crate) fn put(&self, committed: Vec<(RequestId, Arc<Bought>)>) {
        if committed.is_empty() {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (request, rows) in committed {
            kept.order.push_back(request);
            kept.rows.insert(request, rows);
        }
        while kept.order.len() > KEPT_MAX {
            if let Some(oldest) = kept.order.pop_front() {
                kept.rows.remove(&oldest);
            }
        }
    }

    /// The rows that a request committed, once.
    pub(crate) fn take(&self, request: RequestId) -> Option<Arc<Bought>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rows.remove(&request)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn rows_are_taken_once_and_the_oldest_make_room() {
        let kept = CommittedPurchases::default();
        let request = |n: usize| RequestId(Uuid::from_u128(n as u128));
        let rows = || Arc::new(Bought { payment: None, purchase: None, entitlements: None });
        kept.put((0..=KEPT_MAX).map(|n| (request(n), rows())).collect());
        assert!(kept.take(request(0)).is_none(), "the oldest made room");
        assert!(kept.take(request(1)).is_some());
        assert!(kept.take(request(1)).is_none(), "it was taken");
    }
}
