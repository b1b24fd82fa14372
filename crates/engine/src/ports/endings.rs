//! What waits to be done for customers, and what of theirs is over.

use domain::Timestamp;

/// What waits to be done for customers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Mails to be sent; no more than [`Backlog::COUNTED_MAX`] are counted.
    pub mails: i64,
    /// When the first of them is due, or was.
    pub mail_due_at: Option<Timestamp>,
    /// Operations to be made; no more than [`Backlog::COUNTED_MAX`] are counted.
    pub operations: i64,
    /// When the first of them was asked for.
    pub oldest_operation_at: Option<Timestamp>,
}

impl Backlog {
    /// How many are counted at most: to count is not to take long.
    pub const COUNTED_MAX: i64 = 100_000;
}

/// What is over, and nobody asks for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// Operations that came to their end before.
    pub operations_settled: Timestamp,
    /// Mails that were asked for before, and were given up.
    pub mails_given_up: Timestamp,
    /// Sessions whose tokens could not be renewed any more.
    pub sessions_ended: Timestamp,
}
