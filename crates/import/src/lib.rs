//! A tenant's accounts of Kill Bill (0.22 to 0.24), as commands of the domain: read from the answers of its API
//! ([`api`]) or from its exports ([`dump`]). No I/O: `faregate import` does that.

pub mod api;
mod cells;
pub mod dump;
mod records;
mod tally;

use domain::import::{ImportAccount, ImportPayment};

pub use cells::Error;
pub use tally::{Sum, Sums};

/// An account with its payments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub account: ImportAccount,
    /// Who made the account, where that is known.
    pub author: Option<String>,
    pub payments: Vec<FoundPayment>,
    /// The records that are left out, each with the reason.
    pub left_out: Vec<String>,
}

/// A payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPayment {
    pub payment: ImportPayment,
    /// Who made it, where that is known.
    pub author: Option<String>,
}
