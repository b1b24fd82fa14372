//! Attempts: the rows of controlled calls. And velocity: what an account started in a day.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::entity::{Entity, Facts};
use crate::payment::TransactionType;
use crate::rows::Keyed;
use crate::{
    AccountId, AmountMinor, AttemptId, Currency, PaymentId, PaymentMethodId, Properties, Revision,
    Seq, TenantNo, Timestamp, TransactionId,
};

/// A call that control plugins decided about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentAttempt {
    pub tenant: TenantNo,
    pub id: AttemptId,
    /// The account that pays.
    pub account_id: AccountId,
    /// `None` where the call was aborted and there is no payment.
    pub payment_id: Option<PaymentId>,
    /// `None` where the call was aborted.
    pub transaction_id: Option<TransactionId>,
    /// The client's name for the payment.
    pub payment_key: Option<String>,
    /// The client's name for the transaction.
    pub transaction_key: Option<String>,
    pub payment_method_id: Option<PaymentMethodId>,
    pub kind: TransactionType,
    pub state: AttemptState,
    /// 0 for a void.
    pub amount: AmountMinor,
    pub currency: Currency,
    /// The control plugins that decided, by name.
    pub plugins: Vec<String>,
    /// The properties of the request. Never journalled, and gone once the person is erased.
    #[serde(skip)]
    pub properties: Properties,
    /// The revision of the tenant's payment rules that it was decided by; `None` where there were none.
    pub rules: Option<Seq>,
    /// The day of the velocity that it counts in; `None` where the call was aborted or started no payment.
    pub counted_on: Option<i64>,
    /// Whether it is retried once it has failed.
    pub retries: bool,
    /// How many retries were made.
    pub tries: u32,
    /// When the next retry is due.
    pub due_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for PaymentAttempt {
    type Key = (TenantNo, AttemptId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for PaymentAttempt {
    fn facts(&self) -> Facts {
        Facts::new("attempt", self.id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn erase(&mut self) {
        self.properties.clear();
    }
}

/// The state of an attempt, as Kill Bill names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptState {
    /// Its transaction has no outcome yet.
    Init,
    Success,
    /// A control plugin refused it, or it failed and is not retried.
    Aborted,
    /// It failed and a retry is due.
    Scheduled,
    /// It failed and was retried, as an attempt of its own.
    Retried,
}

impl AttemptState {
    pub const ALL: [Self; 5] =
        [Self::Init, Self::Success, Self::Aborted, Self::Scheduled, Self::Retried];

    /// Its name in Kill Bill.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "INIT",
            Self::Success => "SUCCESS",
            Self::Aborted => "ABORTED",
            Self::Scheduled => "SCHEDULED",
            Self::Retried => "RETRIED",
        }
    }

    /// Whether money moved or may still move, so that it counts in the account's velocity.
    #[must_use]
    pub const fn is_counted(self) -> bool {
        match self {
            Self::Init | Self::Success => true,
            Self::Aborted | Self::Scheduled | Self::Retried => false,
        }
    }
}

/// Tries a failed payment again, where the timer of its attempt is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPayment {
    pub account: AccountId,
    pub payment: PaymentId,
    /// The attempt that failed.
    pub attempt: AttemptId,
    /// The attempt's.
    pub transaction_key: Option<String>,
    /// Whether the gateway said for certain what became of the attempt. Where it did not, the retry is put off.
    pub is_answered: bool,
    /// When the timer is due.
    pub due: Timestamp,
}

/// Cancels the retry of a transaction that failed; does nothing where none is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRetries {
    pub payment: PaymentId,
    pub transaction: TransactionId,
}

/// How many payments an account started in a day and what they add up to: those of controlled calls that
/// succeeded or still may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentVelocity {
    pub tenant: TenantNo,
    pub account_id: AccountId,
    /// Days since 1970-01-01 (UTC).
    pub day: i64,
    pub count: u32,
    pub amounts: BTreeMap<Currency, AmountMinor>,
}

impl Keyed for PaymentVelocity {
    type Key = (TenantNo, AccountId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.account_id)
    }
}

impl PaymentVelocity {
    /// The velocity in the day of `now`. Where the clock was set back, the later day goes on: otherwise
    /// what was started in it could be started again.
    #[must_use]
    pub fn today(
        known: Option<&Self>,
        (tenant, account_id): (TenantNo, AccountId),
        now: Timestamp,
    ) -> Self {
        let day = now.day();
        match known {
            Some(known) if known.day >= day => known.clone(),
            Some(_) | None => Self { tenant, account_id, day, count: 0, amounts: BTreeMap::new() },
        }
    }

    /// The sum of the payments that were started in a currency; zero where there were none.
    #[must_use]
    pub fn amount(&self, currency: Currency) -> AmountMinor {
        self.amounts.get(&currency).copied().unwrap_or_default()
    }

    /// Counts a payment.
    pub fn add(&mut self, amount: AmountMinor, currency: Currency) {
        self.count = self.count.saturating_add(1);
        let sum = self.amounts.entry(currency).or_default();
        *sum = sum.checked_add(amount).unwrap_or(AmountMinor(i64::MAX));
    }

    /// No longer counts a payment.
    pub fn give_back(&mut self, amount: AmountMinor, currency: Currency) {
        self.count = self.count.saturating_sub(1);
        let left = self.amount(currency).minus_floor_zero(amount);
        self.amounts.insert(currency, left);
    }
}
