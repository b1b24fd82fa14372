//! The ledger: every movement of money as one posting that debits one account and credits another,
//! so that it balances by construction. The chart of accounts is in `docs/reference/ledger.md`.

use serde::{Deserialize, Serialize};

use crate::payment::TransactionType;
use crate::{
    AccountId, AmountMinor, Currency, InvoiceId, InvoiceItemId, PaymentId, TenantNo, Timestamp,
    TransactionId,
};

/// An account of a tenant's chart. `Customer` is one per billing account; those of gateways are one per
/// gateway. All are one per partition inside, so that no row is hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LedgerAccount {
    /// `customer:{account}` (liability): what the customer has paid, net, less what was invoiced.
    Customer,
    /// `gateway:{gateway}` (asset): what the gateway took for us and has to settle.
    Gateway,
    /// `refunds:{gateway}` (contra asset): what went back through the gateway.
    Refunds,
    /// `disputes:{gateway}` (contra asset): what the customers' banks took back.
    Disputes,
    /// `dispute-excess:{gateway}` (asset): what the banks took back beyond what was left of the payments.
    DisputeExcess,
    /// `sales` (income): what was invoiced, less what was taken back of it.
    Sales,
    /// `tax` (liability): taxes on invoices, which are somebody else's.
    Tax,
}

/// Why money moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PostingSource {
    Payment {
        payment: PaymentId,
        /// The transaction that moved the money.
        transaction: TransactionId,
        /// Which gateway's accounts.
        gateway: String,
    },
    Invoice {
        invoice: InvoiceId,
        /// The item that charges, or gives back.
        item: InvoiceItemId,
    },
}

/// One movement of money: append-only, always above zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posting {
    pub tenant: TenantNo,
    /// The billing account behind `Customer`.
    pub account_id: AccountId,
    pub source: PostingSource,
    /// The account debited.
    pub debit: LedgerAccount,
    /// The account credited.
    pub credit: LedgerAccount,
    pub amount: AmountMinor,
    pub currency: Currency,
    /// When it was written.
    pub at: Timestamp,
}

impl Posting {
    /// The gateway whose accounts it moves; empty: none's.
    #[must_use]
    pub fn gateway(&self) -> &str {
        match &self.source {
            PostingSource::Payment { gateway, .. } => gateway,
            PostingSource::Invoice { .. } => "",
        }
    }

    /// The transaction that moved the money.
    #[must_use]
    pub const fn transaction(&self) -> Option<TransactionId> {
        match self.source {
            PostingSource::Payment { transaction, .. } => Some(transaction),
            PostingSource::Invoice { .. } => None,
        }
    }
}

/// Debit and credit of a payment's movement.
#[must_use]
pub const fn sides(kind: TransactionType) -> Option<(LedgerAccount, LedgerAccount)> {
    use LedgerAccount::{Customer, Disputes, Gateway, Refunds};
    match kind {
        TransactionType::Capture | TransactionType::Purchase => Some((Gateway, Customer)),
        TransactionType::Refund | TransactionType::Credit => Some((Customer, Refunds)),
        TransactionType::Chargeback => Some((Customer, Disputes)),
        TransactionType::ChargebackReversal => Some((Disputes, Customer)),
        TransactionType::Authorize | TransactionType::Void => None,
    }
}
