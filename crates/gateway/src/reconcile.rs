//! Compares what a gateway charged with what the store says, transaction by transaction.

use std::collections::HashMap;
use std::fmt;

use domain::payment::{Transaction, TransactionStatus, TransactionType};
use domain::{AmountMinor, Currency, PaymentId, TenantNo, TransactionId};

use crate::simulator::record::{Effect, Record};

/// What a gateway says it did, added up per transaction.
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

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Whose.
    pub tenant: TenantNo,
    /// The payment, where it is known.
    pub payment: Option<PaymentId>,
    /// The transaction.
    pub transaction: TransactionId,
    /// What does not fit.
    pub kind: DifferenceKind,
}

/// What does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The gateway charged, and the store has it otherwise, or not at all.
    ChargedNotBooked {
        /// What the store says.
        status: Option<TransactionStatus>,
    },
    /// The store has a success that the gateway did not charge, or reversed.
    BookedNotCharged,
    /// Both have it, with different amounts.
    AmountDiffers {
        /// What the gateway charged.
        charged: Option<AmountMinor>,
        /// What the store booked.
        booked: Option<AmountMinor>,
    },
    /// Both have it, in different currencies.
    CurrencyDiffers {
        /// What the gateway charged in.
        charged: Option<Currency>,
        /// What the store booked in.
        booked: Option<Currency>,
    },
    /// The gateway charged the same transaction more than once.
    ChargedTwice {
        /// How often, reversals taken off.
        times: u32,
    },
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Transactions that the gateway charged and did not reverse.
    pub charged: u64,
    /// Transactions that the store has as successes through the gateway.
    pub booked: u64,
    /// Differences found.
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

    /// Compares with the store: `each_transaction` calls what it is given for each transaction
    /// that went through this gateway, and returns once. Differences go to `tell`.
    ///
    /// # Errors
    /// What `each_transaction` fails with.
    pub fn compare<E>(
        mut self,
        each_transaction: impl FnOnce(&mut dyn FnMut(&Transaction)) -> Result<(), E>,
        mut tell: impl FnMut(Difference),
    ) -> Result<Compared, E> {
        let mut compared = Compared::default();
        let mut told = |compared: &mut Compared, difference| {
            compared.differences += 1;
            tell(difference);
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
                told(&mut compared, difference);
            }
        })?;
        for ((tenant, transaction), charge) in self.transactions {
            let times = charge.charged.saturating_sub(charge.reversed);
            compared.charged += u64::from(times > 0);
            let payment = charge.payment;
            if times > 1 {
                let kind = DifferenceKind::ChargedTwice { times };
                told(&mut compared, Difference { tenant, payment, transaction, kind });
            }
            if times > 0 && !charge.is_booked {
                let kind = DifferenceKind::ChargedNotBooked { status: None };
                told(&mut compared, Difference { tenant, payment, transaction, kind });
            }
        }
        Ok(compared)
    }
}

/// Chargebacks come from the customer's bank; the gateway is not asked.
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

/// Marks the charge as known to the store.
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
            // A void has no amount, and the store writes none or zero.
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
