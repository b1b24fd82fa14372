//! Numbers that stand for the domain's enumerations in columns. Durable: never given another meaning.

use domain::claim::ClaimKind;
use domain::customer::CustomerStatus;
use domain::customer::mail::MailKind;
use domain::entitlement::feature::Reset;
use domain::entitlement::purchase::PurchaseStatus;
use domain::flag::change_request::ChangeStatus;
use domain::flag::definition::DefinitionKind;
use domain::flag::environment::SecretKind;
use domain::import::AuditKind;
use domain::object::ObjectType;
use domain::payment::attempt::AttemptState;
use domain::payment::dispute::DisputeStatus;
use domain::payment::ledger::LedgerAccount;
use domain::payment::{TransactionStatus, TransactionType};
use domain::timer::TimerKind;

/// A value that columns hold as a number.
pub trait Coded: Copy + 'static {
    /// All values that there are.
    const ALL: &'static [Self];

    fn code(self) -> i64;

    /// The value of a code.
    fn of(code: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.code() == code)
    }
}

/// The number that columns hold for a value.
pub(crate) fn code<T: Coded>(it: T) -> i64 {
    it.code()
}

impl Coded for AuditKind {
    const ALL: &'static [Self] = &[Self::Insert, Self::Update, Self::Delete];

    fn code(self) -> i64 {
        match self {
            Self::Insert => 1,
            Self::Update => 2,
            Self::Delete => 3,
        }
    }
}

impl Coded for TransactionType {
    const ALL: &'static [Self] = &[
        Self::Authorize,
        Self::Capture,
        Self::Purchase,
        Self::Refund,
        Self::Credit,
        Self::Void,
        Self::Chargeback,
        Self::ChargebackReversal,
    ];

    fn code(self) -> i64 {
        match self {
            Self::Authorize => 1,
            Self::Capture => 2,
            Self::Purchase => 3,
            Self::Refund => 4,
            Self::Credit => 5,
            Self::Void => 6,
            Self::Chargeback => 7,
            Self::ChargebackReversal => 8,
        }
    }
}

impl Coded for ObjectType {
    const ALL: &'static [Self] = &ObjectType::ALL;

    fn code(self) -> i64 {
        match self {
            Self::Account => 1,
            Self::PaymentMethod => 2,
            Self::Payment => 3,
            Self::Transaction => 4,
        }
    }
}

impl Coded for TimerKind {
    const ALL: &'static [Self] = &TimerKind::ALL;

    fn code(self) -> i64 {
        match self {
            Self::PaymentRetry => 1,
            Self::PaymentAction => 2,
            Self::LateRefund => 3,
            Self::DisputeBooking => 4,
            Self::DisputeEvidence => 5,
            Self::MethodStep => 6,
            Self::Entitlements => 7,
        }
    }
}

impl Coded for DisputeStatus {
    const ALL: &'static [Self] = &DisputeStatus::ALL;

    fn code(self) -> i64 {
        match self {
            Self::WarningNeedsResponse => 1,
            Self::WarningUnderReview => 2,
            Self::WarningClosed => 3,
            Self::NeedsResponse => 4,
            Self::UnderReview => 5,
            Self::Won => 6,
            Self::Lost => 7,
        }
    }
}

impl Coded for PurchaseStatus {
    const ALL: &'static [Self] = &PurchaseStatus::ALL;

    fn code(self) -> i64 {
        match self {
            Self::Pending => 1,
            Self::Failed => 2,
            Self::Active => 3,
            Self::Returned => 4,
            Self::Duplicate => 5,
            Self::Closed => 6,
        }
    }
}

impl Coded for Reset {
    const ALL: &'static [Self] = &Reset::ALL;

    fn code(self) -> i64 {
        match self {
            Self::Never => 1,
            Self::Day => 2,
            Self::Week => 3,
            Self::Month => 4,
            Self::Year => 5,
        }
    }
}

impl Coded for TransactionStatus {
    const ALL: &'static [Self] = &[
        Self::InFlight,
        Self::Success,
        Self::Pending,
        Self::PaymentFailure,
        Self::PluginFailure,
        Self::Unknown,
    ];

    fn code(self) -> i64 {
        match self {
            Self::InFlight => 1,
            Self::Success => 2,
            Self::Pending => 3,
            Self::PaymentFailure => 4,
            Self::PluginFailure => 5,
            Self::Unknown => 6,
        }
    }
}

impl Coded for AttemptState {
    const ALL: &'static [Self] = &AttemptState::ALL;

    fn code(self) -> i64 {
        match self {
            Self::Init => 1,
            Self::Success => 2,
            Self::Aborted => 3,
            Self::Scheduled => 4,
            Self::Retried => 5,
        }
    }
}

impl Coded for LedgerAccount {
    const ALL: &'static [Self] =
        &[Self::Customer, Self::Gateway, Self::Refunds, Self::Disputes, Self::DisputeExcess];

    fn code(self) -> i64 {
        match self {
            Self::Customer => 1,
            Self::Gateway => 2,
            Self::Refunds => 3,
            Self::Disputes => 4,
            Self::DisputeExcess => 5,
        }
    }
}

impl Coded for ClaimKind {
    const ALL: &'static [Self] = &[
        Self::TenantApiKey,
        Self::TenantId,
        Self::Account,
        Self::PaymentMethod,
        Self::Payment,
        Self::Transaction,
        Self::Environment,
        Self::CustomerEmail,
        Self::TagDefinition,
        Self::ImportedId,
        Self::Dispute,
    ];

    fn code(self) -> i64 {
        match self {
            Self::TenantApiKey => 1,
            Self::TenantId => 2,
            Self::Account => 3,
            Self::PaymentMethod => 4,
            Self::Payment => 5,
            Self::Transaction => 6,
            Self::Environment => 7,
            Self::CustomerEmail => 8,
            Self::TagDefinition => 9,
            Self::ImportedId => 10,
            Self::Dispute => 11,
        }
    }
}

impl Coded for CustomerStatus {
    const ALL: &'static [Self] = &[Self::Active, Self::Deactivated, Self::Erased];

    fn code(self) -> i64 {
        match self {
            Self::Active => 1,
            Self::Deactivated => 2,
            Self::Erased => 3,
        }
    }
}

impl Coded for MailKind {
    const ALL: &'static [Self] = &[
        Self::Welcome,
        Self::Verification,
        Self::PasswordReset,
        Self::PasswordChanged,
        Self::AlreadyRegistered,
    ];

    fn code(self) -> i64 {
        match self {
            Self::Welcome => 1,
            Self::Verification => 2,
            Self::PasswordReset => 3,
            Self::PasswordChanged => 4,
            Self::AlreadyRegistered => 5,
        }
    }
}

impl Coded for DefinitionKind {
    const ALL: &'static [Self] = &[Self::Flag, Self::Segment];

    fn code(self) -> i64 {
        match self {
            Self::Flag => 1,
            Self::Segment => 2,
        }
    }
}

impl Coded for ChangeStatus {
    const ALL: &'static [Self] = &[
        Self::Pending,
        Self::Scheduled,
        Self::Applied,
        Self::Rejected,
        Self::Withdrawn,
        Self::Failed,
    ];

    fn code(self) -> i64 {
        match self {
            Self::Pending => 1,
            Self::Scheduled => 2,
            Self::Applied => 3,
            Self::Rejected => 4,
            Self::Withdrawn => 5,
            Self::Failed => 6,
        }
    }
}

impl Coded for SecretKind {
    const ALL: &'static [Self] = &[Self::Server, Self::Client, Self::RelayProxy];

    fn code(self) -> i64 {
        match self {
            Self::Server => 1,
            Self::Client => 2,
            Self::RelayProxy => 3,
        }
    }
}

/// The code of an operation that is to be made.
pub(crate) const OPERATION_WAITING: i64 = 1;
/// Of one that was made.
pub(crate) const OPERATION_SUCCEEDED: i64 = 2;
/// Of one that could not be made.
pub(crate) const OPERATION_FAILED: i64 = 3;
