//! The ledger: every movement of money as one posting that debits one account and credits another,
//! so that it balances by construction. The chart of accounts is in `docs/reference/ledger.md`.

use serde::{Deserialize, Serialize};

use crate::payment::TransactionType;
use crate::{AccountId, AmountMinor, Currency, PaymentId, TenantNo, Timestamp, TransactionId};

/// An account of a tenant's chart. `Customer` is one per billing account; the others are one per
/// gateway, and per partition inside, so that no row is hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LedgerAccount {
    /// `customer:{account}` (liability): what the customer has paid, net.
    Customer,
    /// `gateway:{gateway}` (asset): what the gateway took for us and has to settle.
    Gateway,
    /// `refunds:{gateway}` (contra asset): what went back through the gateway.
    Refunds,
    /// `disputes:{gateway}` (contra asset): what the customers' banks took back.
    Disputes,
    /// `dispute-excess:{gateway}` (asset): what the banks took back beyond what was left of the payments.
    DisputeExcess,
}

/// One movement of money: append-only, always above zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posting {
    pub tenant: TenantNo,
    /// The billing account behind `Customer`.
    pub account_id: AccountId,
    pub payment_id: PaymentId,
    /// The transaction that moved the money.
    pub transaction_id: TransactionId,
    /// Which gateway's accounts.
    pub gateway: String,
    /// The account debited.
    pub debit: LedgerAccount,
    /// The account credited.
    pub credit: LedgerAccount,
    pub amount: AmountMinor,
    pub currency: Currency,
    /// When it was written.
    pub at: Timestamp,
}

/// Debit and credit of a movement.
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
