//! Commands about subscriptions and invoices.

use serde::{Deserialize, Serialize};

use crate::account::tag::{SUSPENDING_TAGS, TagKey};
use crate::billing::bundle::RenameBundle;
use crate::billing::pay::{PayInvoice, PayUnpaid};
use crate::billing::reads::{read_chosen, read_run, read_since, timer_of, unpaid_timer_of};
use crate::billing::subscription::{
    AddItems, AdjustItem, CancelSubscription, ChangePlan, ContinueBilling, DeleteCredit, InvoiceOf,
    InvoiceUntil, OfAccount, SetBillCycleDay, SetQuantity, Subscribe, SubscribeAll,
};
use crate::claim::{ClaimKey, ClaimKind};
use crate::partition::Subject;
use crate::payment::command::read_initiate;
use crate::read::{AccountRead, AccountRow, BillingRead, EntitlementRead, PaymentRead, Read};
use crate::{AccountId, InvoiceId, TenantNo};

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
    AddItems(Box<AddItems>),
    AdjustItem(Box<AdjustItem>),
    /// Commits a draft.
    CommitInvoice(InvoiceOf),
    /// Lets an invoice count no more.
    VoidInvoice(InvoiceOf),
    DeleteCredit(DeleteCredit),
    /// Pays what is unpaid from the account's credit.
    UseCredit(AccountId),
    /// Bills an account that waits for somebody.
    Unpark(AccountId),
    Pay(Box<PayInvoice>),
    /// Pays what a tag held up.
    PayUnpaid(PayUnpaid),
    RenameBundle(RenameBundle),
}

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
            Self::AddItems(_) => "AddInvoiceItems",
            Self::AdjustItem(_) => "AdjustInvoiceItem",
            Self::CommitInvoice(_) => "CommitInvoice",
            Self::VoidInvoice(_) => "VoidInvoice",
            Self::DeleteCredit(_) => "DeleteCredit",
            Self::UseCredit(_) => "UseCredit",
            Self::Unpark(_) => "UnparkAccount",
            Self::Pay(_) => "PayInvoice",
            Self::PayUnpaid(_) => "PayUnpaidInvoice",
            Self::RenameBundle(_) => "RenameBundle",
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
            Self::AddItems(it) => it.account,
            Self::AdjustItem(it) => it.account,
            Self::CommitInvoice(it) | Self::VoidInvoice(it) => it.account,
            Self::DeleteCredit(it) => it.account,
            Self::UseCredit(account) | Self::Unpark(account) => *account,
            Self::Pay(it) => it.call.account,
            Self::PayUnpaid(it) => it.account,
            Self::RenameBundle(it) => it.account,
        }
    }

    pub(crate) const fn subject(&self) -> Subject {
        Subject::Account(self.account())
    }

    /// See [`crate::command::Command::is_marked`].
    pub(crate) const fn is_marked(&self) -> bool {
        match self {
            // What they make has its ids from the request.
            Self::Subscribe(_) | Self::SubscribeAll(_) | Self::Pay(_) => false,
            // A timer's command comes from no queue.
            Self::Continue(_) | Self::PayUnpaid(_) => false,
            // An older copy would undo what came since, or ask for one more invoice.
            Self::ChangePlan(_)
            | Self::UndoChange(_)
            | Self::Cancel(_)
            | Self::Uncancel(_)
            | Self::SetQuantity(_)
            | Self::SetBillCycleDay(_)
            | Self::InvoiceUntil(_)
            | Self::AddItems(_)
            | Self::AdjustItem(_)
            | Self::CommitInvoice(_)
            | Self::VoidInvoice(_)
            | Self::DeleteCredit(_)
            | Self::UseCredit(_)
            | Self::Unpark(_)
            | Self::RenameBundle(_) => true,
        }
    }

    /// The rows that executing it may look at.
    pub(crate) fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        if self.is_run() {
            read_run(tenant, self.account(), read);
        }
        let of = (tenant, self.account());
        let of_invoice = |invoice, read: &mut _| read_invoice(of, invoice, read);
        match self {
            Self::Subscribe(it) => read_bundle(it, tenant, read),
            Self::SubscribeAll(it) => {
                it.bundles.iter().flatten().for_each(|it| read_bundle(it, tenant, read));
            }
            Self::Continue(it) => read(Read::Timer(tenant, timer_of(it.account))),
            Self::ChangePlan(it) => {
                read_since(it.requested, (tenant, it.account), read);
                read_chosen(&it.plan, tenant, read);
            }
            Self::Cancel(it) => read_since(it.requested, (tenant, it.account), read),
            Self::SetQuantity(it) => read_since(it.from, (tenant, it.account), read),
            Self::SetBillCycleDay(it) => read_since(it.from, (tenant, it.account), read),
            Self::AddItems(it) => {
                it.items.iter().filter_map(|it| it.invoice).for_each(|it| of_invoice(it, read));
            }
            Self::AdjustItem(it) => of_invoice(it.invoice, read),
            Self::CommitInvoice(it) | Self::VoidInvoice(it) => of_invoice(it.invoice, read),
            Self::DeleteCredit(it) => of_invoice(it.invoice, read),
            Self::UndoChange(_)
            | Self::Uncancel(_)
            | Self::InvoiceUntil(_)
            | Self::UseCredit(_)
            | Self::Unpark(_) => {}
            Self::Pay(it) => {
                read(BillingRead::Invoice(tenant, it.invoice).into());
                read(EntitlementRead::OfPaid(tenant, it.call.account).into());
                read_initiate(&it.call, tenant, read);
            }
            Self::PayUnpaid(it) => read_unpaid(it, tenant, read),
            Self::RenameBundle(it) => {
                read(BillingRead::Bundle(tenant, it.bundle).into());
                read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Bundle, &it.key)));
            }
        }
    }

    /// Whether it may run the account's billing.
    const fn is_run(&self) -> bool {
        !matches!(self, Self::Pay(_) | Self::PayUnpaid(_) | Self::RenameBundle(_))
    }
}

/// The rows that the payment of an invoice after its tag looks at, and the account's other open invoices.
fn read_unpaid(it: &PayUnpaid, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(Read::Timer(tenant, unpaid_timer_of(it.invoice)));
    read(AccountRead::Account(tenant, it.account).into());
    read(BillingRead::Account(tenant, it.account).into());
    read(BillingRead::Invoice(tenant, it.invoice).into());
    read(PaymentRead::Rules(tenant, it.account).into());
    read(EntitlementRead::OfPaid(tenant, it.account).into());
    for tag in SUSPENDING_TAGS {
        read(AccountRow::Tag(tenant, TagKey::of_account(it.account, tag)).into());
    }
}

/// An invoice with its items.
fn read_invoice(
    (tenant, account): (TenantNo, AccountId),
    invoice: InvoiceId,
    read: &mut impl FnMut(Read),
) {
    read(BillingRead::Invoice(tenant, invoice).into());
    read(BillingRead::ItemsOf(tenant, account, invoice).into());
}

/// The bundle that a subscription names by its key, and the features of its plan.
fn read_bundle(it: &Subscribe, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read_chosen(&it.plan, tenant, read);
    if let Some(key) = &it.bundle_key {
        read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Bundle, key)));
    }
}
