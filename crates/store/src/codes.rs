//! Numbers that stand for the domain's enumerations in columns. Durable: never given another meaning.

use domain::change_request::ChangeStatus;
use domain::claim::ClaimKind;
use domain::customer::CustomerStatus;
use domain::definition::DefinitionKind;
use domain::dispute::DisputeStatus;
use domain::environment::SecretKind;
use domain::feature::Reset;
use domain::import::AuditKind;
use domain::ledger::LedgerAccount;
use domain::mail::MailKind;
use domain::object::ObjectType;
use domain::payment::{TransactionStatus, TransactionType};
use domain::payment_attempt::AttemptState;
use domain::purchase::PurchaseStatus;
use domain::timer::TimerKind;

/// Codes of the entries of an audit log.
pub(crate) const fn audit_kind_code(kind: AuditKind) -> i64 {
    match kind {
        AuditKind::Insert => 1,
        AuditKind::Update => 2,
        AuditKind::Delete => 3,
    }
}

/// The opposite of [`audit_kind_code`].
pub(crate) const fn audit_kind(code: i64) -> Option<AuditKind> {
    Some(match code {
        1 => AuditKind::Insert,
        2 => AuditKind::Update,
        3 => AuditKind::Delete,
        _ => return None,
    })
}

/// Codes of operations in the column `operation` and `kind`.
#[must_use]
pub const fn operation_code(kind: TransactionType) -> i64 {
    match kind {
        TransactionType::Authorize => 1,
        TransactionType::Capture => 2,
        TransactionType::Purchase => 3,
        TransactionType::Refund => 4,
        TransactionType::Credit => 5,
        TransactionType::Void => 6,
        TransactionType::Chargeback => 7,
        TransactionType::ChargebackReversal => 8,
    }
}

/// The opposite of [`operation_code`].
#[must_use]
pub const fn operation(code: i64) -> Option<TransactionType> {
    Some(match code {
        1 => TransactionType::Authorize,
        2 => TransactionType::Capture,
        3 => TransactionType::Purchase,
        4 => TransactionType::Refund,
        5 => TransactionType::Credit,
        6 => TransactionType::Void,
        7 => TransactionType::Chargeback,
        8 => TransactionType::ChargebackReversal,
        _ => return None,
    })
}

/// Codes of what has custom fields in the column `object_type`.
pub(crate) const fn object_type_code(kind: ObjectType) -> i64 {
    match kind {
        ObjectType::Account => 1,
        ObjectType::PaymentMethod => 2,
        ObjectType::Payment => 3,
        ObjectType::Transaction => 4,
    }
}

/// The opposite of [`object_type_code`].
pub(crate) fn object_type_of(code: i64) -> Option<ObjectType> {
    ObjectType::ALL.into_iter().find(|kind| object_type_code(*kind) == code)
}

/// Codes of what timers are for in the column `kind`.
pub(crate) const fn timer_kind_code(kind: TimerKind) -> i64 {
    match kind {
        TimerKind::PaymentRetry => 1,
        TimerKind::PaymentAction => 2,
        TimerKind::LateRefund => 3,
        TimerKind::DisputeBooking => 4,
        TimerKind::DisputeEvidence => 5,
        TimerKind::MethodStep => 6,
        TimerKind::Entitlements => 7,
    }
}

/// The opposite of [`timer_kind_code`].
pub(crate) fn timer_kind_of(code: i64) -> Option<TimerKind> {
    TimerKind::ALL.into_iter().find(|kind| timer_kind_code(*kind) == code)
}

/// Codes of disputes' statuses in the column `status`.
pub(crate) const fn dispute_status_code(status: DisputeStatus) -> i64 {
    match status {
        DisputeStatus::WarningNeedsResponse => 1,
        DisputeStatus::WarningUnderReview => 2,
        DisputeStatus::WarningClosed => 3,
        DisputeStatus::NeedsResponse => 4,
        DisputeStatus::UnderReview => 5,
        DisputeStatus::Won => 6,
        DisputeStatus::Lost => 7,
    }
}

/// The opposite of [`dispute_status_code`].
pub(crate) fn dispute_status(code: i64) -> Option<DisputeStatus> {
    DisputeStatus::ALL.into_iter().find(|status| dispute_status_code(*status) == code)
}

/// Codes of purchases' statuses in the column `purchase_status`.
pub(crate) const fn purchase_status_code(status: PurchaseStatus) -> i64 {
    match status {
        PurchaseStatus::Pending => 1,
        PurchaseStatus::Failed => 2,
        PurchaseStatus::Active => 3,
        PurchaseStatus::Returned => 4,
        PurchaseStatus::Duplicate => 5,
        PurchaseStatus::Closed => 6,
    }
}

/// Codes of when limits are counted anew in the column `resets`.
pub(crate) const fn reset_code(reset: Reset) -> i64 {
    match reset {
        Reset::Never => 1,
        Reset::Day => 2,
        Reset::Week => 3,
        Reset::Month => 4,
        Reset::Year => 5,
    }
}

/// The opposite of [`reset_code`].
pub(crate) fn reset_of(code: i64) -> Option<Reset> {
    Reset::ALL.into_iter().find(|reset| reset_code(*reset) == code)
}

/// The opposite of [`purchase_status_code`].
pub(crate) fn purchase_status(code: i64) -> Option<PurchaseStatus> {
    PurchaseStatus::ALL.into_iter().find(|status| purchase_status_code(*status) == code)
}

/// Codes of statuses in the column `status`.
#[must_use]
pub const fn status_code(status: TransactionStatus) -> i64 {
    match status {
        TransactionStatus::InFlight => 1,
        TransactionStatus::Success => 2,
        TransactionStatus::Pending => 3,
        TransactionStatus::PaymentFailure => 4,
        TransactionStatus::PluginFailure => 5,
        TransactionStatus::Unknown => 6,
    }
}

/// The opposite of [`status_code`].
#[must_use]
pub const fn status(code: i64) -> Option<TransactionStatus> {
    Some(match code {
        1 => TransactionStatus::InFlight,
        2 => TransactionStatus::Success,
        3 => TransactionStatus::Pending,
        4 => TransactionStatus::PaymentFailure,
        5 => TransactionStatus::PluginFailure,
        6 => TransactionStatus::Unknown,
        _ => return None,
    })
}

/// Codes of attempts' states in the column `state`.
pub(crate) const fn attempt_state_code(state: AttemptState) -> i64 {
    match state {
        AttemptState::Init => 1,
        AttemptState::Success => 2,
        AttemptState::Aborted => 3,
        AttemptState::Scheduled => 4,
        AttemptState::Retried => 5,
    }
}

/// The opposite of [`attempt_state_code`].
pub(crate) fn attempt_state(code: i64) -> Option<AttemptState> {
    AttemptState::ALL.into_iter().find(|state| attempt_state_code(*state) == code)
}

/// Codes of the chart's accounts in the columns `debit`, `credit` and `account`.
#[must_use]
pub const fn ledger_account_code(account: LedgerAccount) -> i64 {
    match account {
        LedgerAccount::Customer => 1,
        LedgerAccount::Gateway => 2,
        LedgerAccount::Refunds => 3,
        LedgerAccount::Disputes => 4,
        LedgerAccount::DisputeExcess => 5,
    }
}

/// The opposite of [`ledger_account_code`].
#[must_use]
pub const fn ledger_account(code: i64) -> Option<LedgerAccount> {
    Some(match code {
        1 => LedgerAccount::Customer,
        2 => LedgerAccount::Gateway,
        3 => LedgerAccount::Refunds,
        4 => LedgerAccount::Disputes,
        5 => LedgerAccount::DisputeExcess,
        _ => return None,
    })
}

pub(crate) const fn claim_kind_code(kind: ClaimKind) -> i64 {
    match kind {
        ClaimKind::TenantApiKey => 1,
        ClaimKind::TenantId => 2,
        ClaimKind::Account => 3,
        ClaimKind::PaymentMethod => 4,
        ClaimKind::Payment => 5,
        ClaimKind::Transaction => 6,
        ClaimKind::Environment => 7,
        ClaimKind::CustomerEmail => 8,
        ClaimKind::TagDefinition => 9,
        ClaimKind::ImportedId => 10,
        ClaimKind::Dispute => 11,
    }
}

/// The kind of a claim by its code in the column `kind`.
#[must_use]
pub const fn claim_kind(code: i64) -> Option<ClaimKind> {
    Some(match code {
        1 => ClaimKind::TenantApiKey,
        2 => ClaimKind::TenantId,
        3 => ClaimKind::Account,
        4 => ClaimKind::PaymentMethod,
        5 => ClaimKind::Payment,
        6 => ClaimKind::Transaction,
        7 => ClaimKind::Environment,
        8 => ClaimKind::CustomerEmail,
        9 => ClaimKind::TagDefinition,
        10 => ClaimKind::ImportedId,
        11 => ClaimKind::Dispute,
        _ => return None,
    })
}

/// The code of an operation that is to be made.
pub const OPERATION_WAITING: i64 = 1;
/// Of one that was made.
pub const OPERATION_SUCCEEDED: i64 = 2;
/// Of one that could not be made.
pub const OPERATION_FAILED: i64 = 3;

pub(crate) const fn customer_status_code(status: CustomerStatus) -> i64 {
    match status {
        CustomerStatus::Active => 1,
        CustomerStatus::Deactivated => 2,
        CustomerStatus::Erased => 3,
    }
}

pub(crate) const fn customer_status(code: i64) -> Option<CustomerStatus> {
    Some(match code {
        1 => CustomerStatus::Active,
        2 => CustomerStatus::Deactivated,
        3 => CustomerStatus::Erased,
        _ => return None,
    })
}

pub(crate) const fn mail_kind_code(kind: MailKind) -> i64 {
    match kind {
        MailKind::Welcome => 1,
        MailKind::Verification => 2,
        MailKind::PasswordReset => 3,
        MailKind::PasswordChanged => 4,
        MailKind::AlreadyRegistered => 5,
    }
}

pub(crate) const fn mail_kind(code: i64) -> Option<MailKind> {
    Some(match code {
        1 => MailKind::Welcome,
        2 => MailKind::Verification,
        3 => MailKind::PasswordReset,
        4 => MailKind::PasswordChanged,
        5 => MailKind::AlreadyRegistered,
        _ => return None,
    })
}

pub(crate) const fn definition_kind_code(kind: DefinitionKind) -> i64 {
    match kind {
        DefinitionKind::Flag => 1,
        DefinitionKind::Segment => 2,
    }
}

pub(crate) const fn definition_kind(code: i64) -> Option<DefinitionKind> {
    Some(match code {
        1 => DefinitionKind::Flag,
        2 => DefinitionKind::Segment,
        _ => return None,
    })
}

pub(crate) const fn change_status_code(status: ChangeStatus) -> i64 {
    match status {
        ChangeStatus::Pending => 1,
        ChangeStatus::Scheduled => 2,
        ChangeStatus::Applied => 3,
        ChangeStatus::Rejected => 4,
        ChangeStatus::Withdrawn => 5,
        ChangeStatus::Failed => 6,
    }
}

pub(crate) const fn change_status(code: i64) -> Option<ChangeStatus> {
    Some(match code {
        1 => ChangeStatus::Pending,
        2 => ChangeStatus::Scheduled,
        3 => ChangeStatus::Applied,
        4 => ChangeStatus::Rejected,
        5 => ChangeStatus::Withdrawn,
        6 => ChangeStatus::Failed,
        _ => return None,
    })
}

pub(crate) const fn secret_kind_code(kind: SecretKind) -> i64 {
    match kind {
        SecretKind::Server => 1,
        SecretKind::Client => 2,
        SecretKind::RelayProxy => 3,
    }
}

pub(crate) const fn secret_kind(code: i64) -> Option<SecretKind> {
    Some(match code {
        1 => SecretKind::Server,
        2 => SecretKind::Client,
        3 => SecretKind::RelayProxy,
        _ => return None,
    })
}
