//! Commands about subscriptions and invoices.

use serde::{Deserialize, Serialize};

use crate::account::tag::{ControlTag, TagKey};
use crate::billing::subscription::{
    CancelSubscription, ChangePlan, ContinueBilling, InvoiceUntil, OfAccount, SetBillCycleDay,
    SetQuantity, Subscribe, SubscribeAll, When,
};
use crate::claim::{ClaimKey, ClaimKind};
use crate::partition::Subject;
use crate::read::{AccountRead, AccountRow, BillingRead, PaymentRead, Read, TenantRow};
use crate::timer::{TimerKey, TimerKind};
use crate::{AccountId, TenantNo};

/// A command about subscriptions and invoices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BillingCommand {
    Subscribe(Box<Subscribe>),
    SubscribeAll(Box<SubscribeAll>),
    /// Does what is due.
    Continue(ContinueBilling),
    ChangePlan(Box<ChangePlan>),
    /// Takes back a change that is to come.
    UndoChange(OfAccount),
    Cancel(CancelSubscription),
    /// Takes back a cancellation that is to come.
    Uncancel(OfAccount),
    SetQuantity(SetQuantity),
    SetBillCycleDay(SetBillCycleDay),
    InvoiceUntil(InvoiceUntil),
}

/// The tags of an account that a run looks at.
pub(crate) const BILLING_TAGS: [ControlTag; 3] =
    [ControlTag::AutoPayOff, ControlTag::AutoInvoicingOff, ControlTag::ManualPay];

impl BillingCommand {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Subscribe(_) => "Subscribe",
            Self::SubscribeAll(_) => "SubscribeAll",
            Self::Continue(_) => "ContinueBilling",
            Self::ChangePlan(_) => "ChangePlan",
            Self::UndoChange(_) => "UndoChange",
            Self::Cancel(_) => "CancelSubscription",
            Self::Uncancel(_) => "UncancelSubscription",
            Self::SetQuantity(_) => "SetQuantity",
            Self::SetBillCycleDay(_) => "SetBillCycleDay",
            Self::InvoiceUntil(_) => "InvoiceUntil",
        }
    }

    /// The account that it names.
    #[must_use]
    pub const fn account(&self) -> AccountId {
        match self {
            Self::Subscribe(it) => it.account,
            Self::SubscribeAll(it) => it.account,
            Self::Continue(it) => it.account,
            Self::ChangePlan(it) => it.account,
            Self::UndoChange(it) => it.account,
            Self::Cancel(it) => it.account,
            Self::Uncancel(it) => it.account,
            Self::SetQuantity(it) => it.account,
            Self::SetBillCycleDay(it) => it.account,
            Self::InvoiceUntil(it) => it.account,
        }
    }

    pub(crate) const fn subject(&self) -> Subject {
        Subject::Account(self.account())
    }

    /// See [`crate::command::Command::is_marked`].
    pub(crate) const fn is_marked(&self) -> bool {
        match self {
            // What it makes has its ids from the request.
            Self::Subscribe(_) | Self::SubscribeAll(_) => false,
            // A timer's command comes from no queue.
            Self::Continue(_) => false,
            // An older copy would undo what came since, or ask for one more invoice.
            Self::ChangePlan(_)
            | Self::UndoChange(_)
            | Self::Cancel(_)
            | Self::Uncancel(_)
            | Self::SetQuantity(_)
            | Self::SetBillCycleDay(_)
            | Self::InvoiceUntil(_) => true,
        }
    }

    /// The rows that executing it may look at.
    pub(crate) fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        read_run(tenant, self.account(), read);
        match self {
            Self::Subscribe(it) => read_bundle(it, tenant, read),
            Self::SubscribeAll(it) => {
                it.bundles.iter().flatten().for_each(|it| read_bundle(it, tenant, read));
            }
            Self::Continue(it) => read(Read::Timer(tenant, timer_of(it.account))),
            Self::ChangePlan(it) => read_since(it.requested, (tenant, it.account), read),
            Self::Cancel(it) => read_since(it.requested, (tenant, it.account), read),
            Self::SetQuantity(it) => read_since(it.from, (tenant, it.account), read),
            Self::SetBillCycleDay(it) => read_since(it.from, (tenant, it.account), read),
            Self::UndoChange(_) | Self::Uncancel(_) | Self::InvoiceUntil(_) => {}
        }
    }
}

/// The bundle that a subscription names by its key.
fn read_bundle(it: &Subscribe, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    if let Some(key) = &it.bundle_key {
        read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Bundle, key)));
    }
}

/// The items since a day on which a change takes effect, which may be settled.
fn read_since(
    when: Option<When>,
    (tenant, account): (TenantNo, AccountId),
    read: &mut impl FnMut(Read),
) {
    if let Some(when) = when {
        read(BillingRead::ItemsSince(tenant, account, when.earliest_day()).into());
    }
}

/// The timer of an account's billing.
pub(crate) const fn timer_of(account: AccountId) -> TimerKey {
    TimerKey::of_account(TimerKind::Billing, account)
}

/// The rows that a run for an account looks at, and the payment of its invoice.
fn read_run(tenant: TenantNo, account: AccountId, read: &mut impl FnMut(Read)) {
    read(AccountRead::Account(tenant, account).into());
    read(TenantRow::CatalogVersions(tenant).into());
    read(BillingRead::Account(tenant, account).into());
    read(BillingRead::InvoiceNumber(tenant).into());
    read(PaymentRead::Rules(tenant, account).into());
    for tag in BILLING_TAGS {
        read(AccountRow::Tag(tenant, TagKey::of_account(account, tag)).into());
    }
}
