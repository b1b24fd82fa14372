//! Numbers that stand for the domain's enumerations in columns. Durable: never given another meaning.

use domain::billing::invoice::{InvoiceStatus, ItemKind};
use domain::catalog::ProductCategory;
use domain::claim::ClaimKind;
use domain::customer::CustomerStatus;
use domain::customer::mail::MailKind;
use domain::entitlement::feature::Reset;
use domain::entitlement::plan_features::PlanOrProduct;
use domain::entitlement::purchase::PurchaseStatus;
use domain::flag::change_request::ChangeStatus;
use domain::flag::definition::DefinitionKind;
use domain::flag::environment::SecretKind;
use domain::import::AuditKind;
use domain::ledger::LedgerAccount;
use domain::object::ObjectType;
use domain::payment::attempt::AttemptState;
use domain::payment::dispute::DisputeStatus;
use domain::payment::{TransactionStatus, TransactionType};
use domain::timer::TimerKind;

/// A value that columns hold as a number.
pub trait Coded: Copy + PartialEq + 'static {
    /// All values, in the order of their codes, which count from 1: a new one comes last.
    const ALL: &'static [Self];

    /// The value of a code.
    fn of(code: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?.checked_sub(1)?).copied()
    }
}

/// The number that columns hold for a value.
///
/// # Panics
/// If it has none: it is missing in [`Coded::ALL`].
pub(crate) fn code<T: Coded>(it: T) -> i64 {
    let mut codes = (1..).zip(T::ALL);
    codes.find(|(_, value)| **value == it).expect("each value has a code").0
}

impl Coded for AuditKind {
    const ALL: &'static [Self] = &[Self::Insert, Self::Update, Self::Delete];
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
}

impl Coded for ObjectType {
    const ALL: &'static [Self] = &[
        Self::Account,
        Self::PaymentMethod,
        Self::Payment,
        Self::Transaction,
        Self::Bundle,
        Self::Subscription,
        Self::Invoice,
        Self::InvoiceItem,
    ];
}

impl Coded for TimerKind {
    const ALL: &'static [Self] = &[
        Self::PaymentRetry,
        Self::PaymentAction,
        Self::LateRefund,
        Self::DisputeBooking,
        Self::DisputeEvidence,
        Self::MethodStep,
        Self::Entitlements,
        Self::Billing,
        Self::InvoicePayment,
    ];
}

impl Coded for DisputeStatus {
    const ALL: &'static [Self] = &[
        Self::WarningNeedsResponse,
        Self::WarningUnderReview,
        Self::WarningClosed,
        Self::NeedsResponse,
        Self::UnderReview,
        Self::Won,
        Self::Lost,
    ];
}

impl Coded for PurchaseStatus {
    const ALL: &'static [Self] =
        &[Self::Pending, Self::Failed, Self::Active, Self::Returned, Self::Duplicate, Self::Closed];
}

impl Coded for Reset {
    const ALL: &'static [Self] = &[Self::Never, Self::Day, Self::Week, Self::Month, Self::Year];
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
}

impl Coded for AttemptState {
    const ALL: &'static [Self] =
        &[Self::Init, Self::Success, Self::Aborted, Self::Scheduled, Self::Retried];
}

impl Coded for LedgerAccount {
    const ALL: &'static [Self] = &[
        Self::Customer,
        Self::Gateway,
        Self::Refunds,
        Self::Disputes,
        Self::DisputeExcess,
        Self::Sales,
        Self::Tax,
    ];
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
        Self::Bundle,
    ];
}

impl Coded for PlanOrProduct {
    const ALL: &'static [Self] = &[Self::Plan, Self::Product];
}

impl Coded for ProductCategory {
    const ALL: &'static [Self] = &[Self::Base, Self::AddOn, Self::Standalone];
}

impl Coded for InvoiceStatus {
    const ALL: &'static [Self] = &[Self::Draft, Self::Committed, Self::Void];
}

impl Coded for ItemKind {
    const ALL: &'static [Self] = &Self::ALL;
}

impl Coded for CustomerStatus {
    const ALL: &'static [Self] = &[Self::Active, Self::Deactivated, Self::Erased];
}

impl Coded for MailKind {
    const ALL: &'static [Self] = &[
        Self::Welcome,
        Self::Verification,
        Self::PasswordReset,
        Self::PasswordChanged,
        Self::AlreadyRegistered,
    ];
}

impl Coded for DefinitionKind {
    const ALL: &'static [Self] = &[Self::Flag, Self::Segment];
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
}

impl Coded for SecretKind {
    const ALL: &'static [Self] = &[Self::Server, Self::Client, Self::RelayProxy];
}

/// The code of an operation that is to be made.
pub(crate) const OPERATION_WAITING: i64 = 1;
/// Of one that was made.
pub(crate) const OPERATION_SUCCEEDED: i64 = 2;
/// Of one that could not be made.
pub(crate) const OPERATION_FAILED: i64 = 3;

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    /// The message of serde's error names all variants.
    fn check<T: Coded + DeserializeOwned>() {
        let error = serde_json::from_str::<T>("\"?\"").err().unwrap().to_string();
        let (_, variants) = error.split_once("expected").unwrap();
        let variants = variants.matches('`').count() / 2;
        assert_eq!(T::ALL.len(), variants, "{}: {error}", std::any::type_name::<T>());
    }

    #[test]
    fn each_variant_has_a_code() {
        check::<AuditKind>();
        check::<TransactionType>();
        check::<ObjectType>();
        check::<TimerKind>();
        check::<DisputeStatus>();
        check::<PurchaseStatus>();
        check::<Reset>();
        check::<TransactionStatus>();
        check::<AttemptState>();
        check::<LedgerAccount>();
        check::<ClaimKind>();
        check::<CustomerStatus>();
        check::<MailKind>();
        check::<DefinitionKind>();
        check::<ChangeStatus>();
        check::<SecretKind>();
        check::<ProductCategory>();
        check::<InvoiceStatus>();
        check::<ItemKind>();
    }
}
