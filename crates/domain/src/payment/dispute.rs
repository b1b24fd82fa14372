//! Disputes: customers' banks that take money back, one dispute for each case of a gateway.

use serde::{Deserialize, Serialize};

use crate::card_data::contains_pan;
use crate::entity::{Entity, Facts};
use crate::rows::Keyed;
use crate::{
    AccountId, AmountMinor, Currency, DisputeId, PaymentId, Revision, TenantNo, Timestamp,
    TransactionId,
};

/// How many characters a gateway's id of a case has at most.
pub const CASE_CHARS_MAX: usize = 128;

/// How many times the money of one case is charged back at most: what is withdrawn more often is excess.
pub const CHARGEBACKS_MAX: u8 = 8;

/// How many disputes a payment has at most: a further case is refused.
pub const DISPUTES_PER_PAYMENT_MAX: usize = 100;

/// How long before evidence is due a warning is given.
pub const WARN_BEFORE_US: i64 = 3 * 86_400 * Timestamp::SECOND_US;

/// A gateway and its id of a dispute: recorded once for a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DisputeCase {
    pub gateway: String,
    /// The gateway's id: visible ASCII, at most [`CASE_CHARS_MAX`] characters, no card number.
    pub case: String,
}

impl DisputeCase {
    /// `None` where the text is no id of a case.
    #[must_use]
    pub fn new(gateway: &str, case: &str) -> Option<Self> {
        let is_visible = case.bytes().all(|it| it.is_ascii_graphic());
        let is_sound = is_visible && (1..=CASE_CHARS_MAX).contains(&case.len());
        (is_sound && !contains_pan(case))
            .then(|| Self { gateway: gateway.to_owned(), case: case.to_owned() })
    }

    /// Among the tenant's disputes.
    #[must_use]
    pub fn claimed(&self) -> String {
        format!("{}/{}", self.gateway, self.case)
    }

    /// The key of the transaction that charges back what is withdrawn for the `number`-th time, from 1 upwards,
    /// and of the reversals of it.
    #[must_use]
    pub fn transaction_key(&self, number: u8) -> String {
        match number {
            1 => self.claimed(),
            number => format!("{}/{number}", self.claimed()),
        }
    }

    /// Every key that a transaction of the case may have.
    pub fn transaction_keys(&self) -> impl DoubleEndedIterator<Item = String> {
        (1..=CHARGEBACKS_MAX).map(|number| self.transaction_key(number))
    }
}

/// Where a dispute stands. A warning is a question of the bank's: it moves no money, and may become a dispute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DisputeStatus {
    WarningNeedsResponse,
    WarningUnderReview,
    WarningClosed,
    NeedsResponse,
    UnderReview,
    Won,
    Lost,
}

impl DisputeStatus {
    pub const ALL: [Self; 7] = [
        Self::WarningNeedsResponse,
        Self::WarningUnderReview,
        Self::WarningClosed,
        Self::NeedsResponse,
        Self::UnderReview,
        Self::Won,
        Self::Lost,
    ];

    /// Its name, as APIs show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WarningNeedsResponse => "WARNING_NEEDS_RESPONSE",
            Self::WarningUnderReview => "WARNING_UNDER_REVIEW",
            Self::WarningClosed => "WARNING_CLOSED",
            Self::NeedsResponse => "NEEDS_RESPONSE",
            Self::UnderReview => "UNDER_REVIEW",
            Self::Won => "WON",
            Self::Lost => "LOST",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    #[must_use]
    pub const fn is_warning(self) -> bool {
        match self {
            Self::WarningNeedsResponse | Self::WarningUnderReview | Self::WarningClosed => true,
            Self::NeedsResponse | Self::UnderReview | Self::Won | Self::Lost => false,
        }
    }

    /// Whether the merchant may still send evidence.
    #[must_use]
    pub const fn needs_response(self) -> bool {
        match self {
            Self::WarningNeedsResponse | Self::NeedsResponse => true,
            Self::WarningUnderReview
            | Self::WarningClosed
            | Self::UnderReview
            | Self::Won
            | Self::Lost => false,
        }
    }
}

/// A gateway's report of a dispute: untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisputeSaid {
    pub status: DisputeStatus,
    /// A code.
    pub reason: Option<String>,
    /// How much is disputed.
    pub amount: AmountMinor,
    pub currency: Currency,
    pub evidence_due_by: Option<Timestamp>,
    /// The total that was withdrawn so far.
    pub withdrawn: AmountMinor,
    /// The total that was reinstated so far.
    pub reinstated: AmountMinor,
}

/// The totals that are booked of a dispute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisputeBooked {
    /// As CHARGEBACK.
    pub charged_back: AmountMinor,
    /// As reversals of these.
    pub reversed: AmountMinor,
    /// Withdrawn, and more than was left of the payment: on the ledger's account for that alone.
    pub excess: AmountMinor,
    /// Reinstated, and taken from that account.
    pub excess_returned: AmountMinor,
}

impl DisputeBooked {
    /// The booked part of the withdrawn total: chargebacks and excess.
    #[must_use]
    pub fn withdrawn(&self) -> AmountMinor {
        self.charged_back.checked_add(self.excess).unwrap_or(AmountMinor(i64::MAX))
    }

    /// The booked part of the reinstated total: reversals and returned excess.
    #[must_use]
    pub fn reinstated(&self) -> AmountMinor {
        self.reversed.checked_add(self.excess_returned).unwrap_or(AmountMinor(i64::MAX))
    }
}

/// A dispute of a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    pub tenant: TenantNo,
    pub id: DisputeId,
    pub account_id: AccountId,
    pub payment_id: PaymentId,
    /// The charge that is disputed.
    pub transaction_id: TransactionId,
    pub case: DisputeCase,
    pub status: DisputeStatus,
    /// The gateway's code.
    pub reason: Option<String>,
    /// How much is disputed.
    pub amount: AmountMinor,
    pub currency: Currency,
    pub evidence_due_by: Option<Timestamp>,
    /// The due time that a warning was given of.
    pub warned_of: Option<Timestamp>,
    /// The total that the gateway withdrew so far; never falls.
    pub withdrawn: AmountMinor,
    /// The total that the gateway reinstated so far; never falls.
    pub reinstated: AmountMinor,
    pub booked: DisputeBooked,
    /// When the timer tries to book what is not booked yet; `None` where all of it is.
    pub booking_at: Option<Timestamp>,
    /// When the timer warns; `None` where it does not, or has.
    pub warning_at: Option<Timestamp>,
    /// Real time at which the gateway was asked for what is recorded: an answer to an earlier question, which comes
    /// later, changes no status.
    pub asked_at: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for Dispute {
    type Key = (TenantNo, DisputeCase);

    fn key(&self) -> Self::Key {
        (self.tenant, self.case.clone())
    }
}

impl Entity for Dispute {
    fn facts(&self) -> Facts {
        Facts::new("dispute", self.id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// Records what a gateway says of a dispute, and books what it withdrew and reinstated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordDispute {
    pub payment: PaymentId,
    /// The charge that is disputed.
    pub transaction: TransactionId,
    pub case: DisputeCase,
    pub said: DisputeSaid,
    /// Real time at which the gateway was asked.
    pub asked_at: Timestamp,
}

/// A timer of a dispute is due: books what had to wait, or warns that evidence is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisputeTimer {
    pub payment: PaymentId,
    pub dispute: DisputeId,
    pub case: DisputeCase,
    /// When the timer was due.
    pub due: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_a_short_visible_id_that_is_no_card_number() {
        let is_case = |case: &str| DisputeCase::new("g", case).is_some();
        for case in ["du_1", "17", "A-7/4", &"x".repeat(CASE_CHARS_MAX)] {
            assert!(is_case(case), "{case}");
        }
        for case in ["", "a b", "é", "a\n", "4111111111111111", &"x".repeat(CASE_CHARS_MAX + 1)] {
            assert!(!is_case(case), "{case}");
        }
    }

    #[test]
    fn every_chargeback_of_a_case_has_a_key_of_its_own() {
        let keys: Vec<String> = DisputeCase::new("g", "du_1").unwrap().transaction_keys().collect();
        assert_eq!(keys.len(), usize::from(CHARGEBACKS_MAX));
        assert_eq!(keys[..2], ["g/du_1", "g/du_1/2"]);
    }

    #[test]
    fn statuses_are_found_by_name() {
        for status in DisputeStatus::ALL {
            assert_eq!(DisputeStatus::named(status.name()), Some(status));
        }
        assert_eq!(DisputeStatus::named("won"), None);
    }
}
