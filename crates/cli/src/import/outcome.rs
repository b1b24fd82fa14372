//! The result of the import of an account.

use import::{Found, FoundPayment, Sums};

/// The result of the import of an account.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) is_new: bool,
    pub(super) is_refused: bool,
    pub(super) payments: u64,
    pub(super) new_payments: u64,
    pub(super) expected: Sums,
    pub(super) found: Sums,
    /// The differences, each with the id of its object.
    pub(super) differences: Vec<String>,
    /// The records that were left out, each with the reason.
    pub(super) left_out: Vec<String>,
    /// Transactions without an outcome about which no gateway is asked.
    pub(super) open: Vec<String>,
}

impl Outcome {
    /// Of an account that is not written.
    pub(super) fn unwritten(found: &Found) -> Self {
        let mut outcome = Self { is_new: true, ..Self::of(found) };
        outcome.found = outcome.expected.clone();
        outcome.new_payments = outcome.payments;
        outcome
    }

    pub(super) fn of(found: &Found) -> Self {
        let mut outcome = Self { left_out: found.left_out.clone(), ..Self::default() };
        for FoundPayment { payment, .. } in &found.payments {
            outcome.payments += 1;
            payment.transactions.iter().for_each(|it| outcome.expected.expect(it));
        }
        outcome
    }
}
