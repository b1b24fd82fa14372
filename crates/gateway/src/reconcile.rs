//! Reconciles a gateway's charges with the store, transaction by transaction.

mod balance;
mod listed;

use std::collections::HashMap;
use std::fmt;

use domain::payment::{Transaction, TransactionStatus, TransactionType};
use domain::{AmountMinor, Currency, PaymentId, TenantNo, TransactionId};

use crate::simulator::record::{Effect, Record};

pub use self::balance::{Books, Fee, Kind, Mismatch, Moved, Statement, Sum, Window};
pub use self::listed::{Listed, ListedTransactions};

/// The charges of a gateway's journal, summed up per transaction.
#[derive(Debug, Default)]
pub struct Charges {
    transactions: HashMap<(TenantNo, TransactionId), Charge>,
}

#[derive(Debug, Default)]
struct Charge {
    payment: Option<PaymentId>,
    charged: u32,
    reversed: u32,
    amount: Option<AmountMinor>,
    currency: Option<Currency>,
    is_booked: bool,
}

/// A mismatch between the gateway and the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub tenant: TenantNo,
    /// The payment, if it is known.
    pub payment: Option<PaymentId>,
    pub transaction: TransactionId,
    /// The kind of mismatch.
    pub kind: DifferenceKind,
}

/// The kind of a mismatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The gateway charged, but the store has no success of it.
    ChargedNotBooked {
        /// The status in the store; `None` if the store does not have the transaction.
        status: Option<TransactionStatus>,
    },
    /// The store has a success that the gateway did not charge, or that it reversed.
    BookedNotCharged,
    /// The amounts differ.
    AmountDiffers {
        /// The amount that the gateway charged.
        charged: Option<AmountMinor>,
        /// The amount that the store has.
        booked: Option<AmountMinor>,
    },
    /// The currencies differ.
    CurrencyDiffers {
        /// The currency that the gateway charged.
        charged: Option<Currency>,
        /// The currency that the store has.
        booked: Option<Currency>,
    },
    /// The gateway charged the same transaction more than once.
    ChargedTwice {
        /// The number of charges without the reversed ones.
        times: u32,
    },
}

/// The totals of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Transactions that the gateway charged and did not reverse.
    pub charged: u64,
    /// Successful transactions through this gateway in the store.
    pub booked: u64,
    /// Differences that were reported.
    pub differences: u64,
}

impl Charges {
    /// Adds one record of the gateway's journal.
    pub fn add(&mut self, record: &Record) {
        let key = (record.tenant, record.transaction);
        match record.effect {
            Effect::Nothing => {}
            Effect::Charged => {
                let charge = self.transactions.entry(key).or_default();
                charge.payment = Some(record.payment);
                charge.charged += 1;
                charge.amount = record.outcome.amount;
                charge.currency = record.outcome.currency;
            }
            Effect::Reversed => self.transactions.entry(key).or_default().reversed += 1,
        }
    }

    /// Compares the charges with the store. `each_transaction` calls its argument for each transaction
    /// of this gateway; `report` receives the differences.
    ///
    /// # Errors
    /// The error of `each_transaction`.
    pub fn compare<E>(
        mut self,
        each_transaction: impl FnOnce(&mut dyn FnMut(&Transaction)) -> Result<(), E>,
        mut report: impl FnMut(Difference),
    ) -> Result<Compared, E> {
        let mut compared = Compared::default();
        let mut add = |compared: &mut Compared, difference| {
            compared.differences += 1;
            report(difference);
        };
        each_transaction(&mut |transaction| {
            if !goes_through_gateways(transaction.kind) {
                return;
            }
            compared.booked += u64::from(transaction.status == TransactionStatus::Success);
            let key = (transaction.tenant, transaction.id);
            let charge = self.transactions.get_mut(&key);
            if let Some(kind) = compare_one(transaction, charge) {
                let (tenant, payment) = (transaction.tenant, Some(transaction.payment_id));
                let difference = Difference { tenant, payment, transaction: transaction.id, kind };
                add(&mut compared, difference);
            }
        })?;
        for ((tenant, transaction), charge) in self.transactions {
            let times = charge.charged.saturating_sub(charge.reversed);
            compared.charged += u64::from(times > 0);
            let payment = charge.payment;
            if times > 1 {
                let kind = DifferenceKind::ChargedTwice { times };
                add(&mut compared, Difference { tenant, payment, transaction, kind });
            }
            if times > 0 && !charge.is_booked {
                let kind = DifferenceKind::ChargedNotBooked { status: None };
                add(&mut compared, Difference { tenant, payment, transaction, kind });
            }
        }
        Ok(compared)
    }
}

/// Chargebacks come from the customer's bank, not from a call of the gateway.
const fn goes_through_gateways(kind: TransactionType) -> bool {
    match kind {
        TransactionType::Authorize
        | TransactionType::Capture
        | TransactionType::Purchase
        | TransactionType::Refund
        | TransactionType::Credit
        | TransactionType::Void => true,
        TransactionType::Chargeback | TransactionType::ChargebackReversal => false,
    }
}

/// Compares a transaction with its charge, and marks the charge as known to the store.
fn compare_one(transaction: &Transaction, charge: Option<&mut Charge>) -> Option<DifferenceKind> {
    let is_success = transaction.status == TransactionStatus::Success;
    let Some(charge) = charge else {
        return is_success.then_some(DifferenceKind::BookedNotCharged);
    };
    charge.is_booked = true;
    match (charge.charged > charge.reversed, is_success) {
        (false, false) => None,
        (false, true) => Some(DifferenceKind::BookedNotCharged),
        (true, false) => {
            Some(DifferenceKind::ChargedNotBooked { status: Some(transaction.status) })
        }
        (true, true) => {
            // A void has no amount; the store has none or zero.
            let charged = charge.amount.unwrap_or_default();
            let booked = transaction.processed_amount.unwrap_or_default();
            if charged != booked {
                return Some(DifferenceKind::AmountDiffers {
                    charged: charge.amount,
                    booked: transaction.processed_amount,
                });
            }
            let (charged, booked) = (charge.currency, transaction.processed_currency);
            (charged.is_some() && charged != booked)
                .then_some(DifferenceKind::CurrencyDiffers { charged, booked })
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant {} transaction {}", self.tenant.0, self.transaction)?;
        if let Some(payment) = self.payment {
            write!(f, " of payment {payment}")?;
        }
        match self.kind {
            DifferenceKind::ChargedNotBooked { status: None } => {
                write!(f, ": charged, but not in the store")
            }
            DifferenceKind::ChargedNotBooked { status: Some(status) } => {
                write!(f, ": charged, but {status:?} in the store")
            }
            DifferenceKind::BookedNotCharged => {
                write!(f, ": Success in the store, but not charged")
            }
            DifferenceKind::AmountDiffers { charged, booked } => {
                let minor = |amount: Option<AmountMinor>| amount.unwrap_or_default().0;
                let (charged, booked) = (minor(charged), minor(booked));
                write!(f, ": charged {charged} minor units, booked {booked}")
            }
            DifferenceKind::CurrencyDiffers { charged, booked } => {
                let code = |it: Option<Currency>| it.map_or("none".to_owned(), |it| it.to_string());
                write!(f, ": charged in {}, booked in {}", code(charged), code(booked))
            }
            DifferenceKind::ChargedTwice { times } => write!(f, ": charged {times} times"),
        }
    }
}
