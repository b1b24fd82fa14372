//! The rows that a billing run reads, and the timers of billing.

use super::subscription::{PlanChoice, When};
use crate::account::tag::{ControlTag, TagKey};
use crate::entitlement::plan_features::FeaturesOf;
use crate::read::{
    AccountRead, AccountRow, BillingRead, EntitlementRead, PaymentRead, Read, TenantRow,
};
use crate::timer::{TimerKey, TimerKind};
use crate::{AccountId, InvoiceId, TenantNo};

/// The tags of an account that a run looks at.
pub(crate) const BILLING_TAGS: [ControlTag; 5] = [
    ControlTag::AutoPayOff,
    ControlTag::AutoInvoicingOff,
    ControlTag::ManualPay,
    ControlTag::AutoInvoicingDraft,
    ControlTag::AutoInvoicingReuseDraft,
];

/// The rows that a run for an account looks at, and the payment of its invoice.
pub(crate) fn read_run(tenant: TenantNo, account: AccountId, read: &mut impl FnMut(Read)) {
    read(AccountRead::Account(tenant, account).into());
    read(TenantRow::CatalogVersions(tenant).into());
    read(BillingRead::Account(tenant, account).into());
    read(BillingRead::InvoiceNumber(tenant).into());
    read(AccountRow::BlockingStates(tenant, account).into());
    read(PaymentRead::Rules(tenant, account).into());
    read(EntitlementRead::OfSubscriptions(tenant, account).into());
    for tag in BILLING_TAGS {
        read(AccountRow::Tag(tenant, TagKey::of_account(account, tag)).into());
    }
}

/// The items since a day on which a change takes effect, which may be settled.
pub(crate) fn read_since(
    when: Option<When>,
    (tenant, account): (TenantNo, AccountId),
    read: &mut impl FnMut(Read),
) {
    if let Some(when) = when {
        read(BillingRead::ItemsSince(tenant, account, when.earliest_day()).into());
    }
}

/// The features of a plan that is chosen.
pub(crate) fn read_chosen(choice: &PlanChoice, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    let of = match choice {
        PlanChoice::Named(plan) => FeaturesOf::plan(plan),
        PlanChoice::Offered { product, .. } => FeaturesOf::product(product),
    };
    read(EntitlementRead::OfChosen(tenant, of).into());
}

/// The timer of an account's billing.
pub(crate) const fn timer_of(account: AccountId) -> TimerKey {
    TimerKey::of_account(TimerKind::Billing, account)
}

/// The timer of the payment of an invoice that a tag held up.
pub(crate) const fn unpaid_timer_of(invoice: InvoiceId) -> TimerKey {
    TimerKey { kind: TimerKind::InvoicePayment, object: invoice.uuid() }
}
