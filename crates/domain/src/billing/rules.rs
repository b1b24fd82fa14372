//! The rules of subscriptions and invoices.

mod amend;
mod announce;
mod asked;
mod blocked;
mod books;
mod cancel;
mod change;
mod continued;
mod course;
mod dry_run;
mod features;
mod follow;
mod issue;
mod ledger;
mod manual;
mod pay;
mod plan;
mod rename;
mod run;
mod subscribe;
#[cfg(test)]
mod tests;

use crate::billing::command::BillingCommand;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;

pub(crate) use blocked::blocked;
pub(crate) use cancel::cancel_all;
pub(crate) use dry_run::dry_run;
pub(crate) use features::end as end_features;
pub(crate) use follow::follow;
pub(crate) use pay::resume_payments;

/// Executes a command of this group.
pub(crate) fn execute(state: &State, command: &BillingCommand, cx: &mut Context) -> Outcome {
    match command {
        BillingCommand::Subscribe(it) => subscribe::subscribe(state, it, cx),
        BillingCommand::SubscribeAll(it) => subscribe::subscribe_all(state, it, cx),
        BillingCommand::Continue(it) => continued::proceed(state, it, cx),
        BillingCommand::ChangePlan(it) => change::change(state, it, cx),
        BillingCommand::UndoChange(it) => change::undo(state, it, cx),
        BillingCommand::Cancel(it) => cancel::cancel(state, it, cx),
        BillingCommand::Uncancel(it) => cancel::uncancel(state, it, cx),
        BillingCommand::SetQuantity(it) => amend::set_quantity(state, it, cx),
        BillingCommand::SetBillCycleDay(it) => amend::set_bill_cycle_day(state, it, cx),
        BillingCommand::InvoiceUntil(it) => asked::invoice_until(state, it, cx),
        BillingCommand::AddItems(it) => manual::add_items(state, it, cx),
        BillingCommand::AdjustItem(it) => manual::adjust(state, it, cx),
        BillingCommand::CommitInvoice(it) => manual::commit(state, it, cx),
        BillingCommand::VoidInvoice(it) => manual::void(state, it, cx),
        BillingCommand::DeleteCredit(it) => manual::delete_credit(state, it, cx),
        BillingCommand::Unpark(account) => asked::unpark(state, *account, cx),
        BillingCommand::UseCredit(account) => manual::spend_credit(state, *account, cx),
        BillingCommand::Pay(it) => pay::pay_asked(state, it, cx),
        BillingCommand::PayUnpaid(it) => pay::pay_unpaid(state, it, cx),
        BillingCommand::RenameBundle(it) => rename::rename(state, it, cx),
    }
}
