//! Payments of invoices: those that a client asks for, and those that a tag held up.

use serde::{Deserialize, Serialize};

use crate::payment::Initiate;
use crate::{AccountId, InvoiceId, Timestamp};

/// Pays an invoice, wholly or in part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayInvoice {
    pub invoice: InvoiceId,
    /// Whether the money came by another way: such a payment takes the account's external method, which is made where
    /// there is none, and names no method.
    pub is_external: bool,
    /// Without an amount it pays all that is to be paid; its currency is the invoice's.
    pub call: Initiate,
}

/// Pays an invoice that a tag held up, once the tag is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayUnpaid {
    pub account: AccountId,
    pub invoice: InvoiceId,
    pub due: Timestamp,
}
