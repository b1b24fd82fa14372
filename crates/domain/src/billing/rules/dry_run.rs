//! A dry run: as the command would do it, in books that are never closed.

use super::books::Books;
use super::subscribe::{add, open};
use super::{cancel, change, run};
use crate::billing::dry_run::{DryInvoice, DryRun, DryRunAction, DryRunOf};
use crate::billing::invoice::{Invoice, InvoiceItem};
use crate::billing::subscription::Subscription;
use crate::command::Request;
use crate::context::{Context, Stamp};
use crate::state::State;
use crate::{BillingRejection as R, InvoiceId, Rejection, Timestamp};

pub(crate) fn dry_run(
    state: &State,
    it: &DryRun,
    (request, stamp): (&Request, Stamp<'_>),
) -> Result<Option<DryInvoice>, Rejection> {
    let cx = &mut Context::new(request, stamp);
    let mut books = Books::open(state, it.account, cx)?;
    let today = books.calendar.date(cx.now);
    let target = match &it.of {
        DryRunOf::Target(target) => target.unwrap_or(today),
        DryRunOf::Upcoming { bundle, subscription } => {
            let is_of = |it: &&Subscription| {
                bundle.is_none_or(|id| it.bundle_id == id)
                    && subscription.is_none_or(|id| it.id == id)
            };
            let due = books.subscriptions.iter().filter(is_of);
            let due = due.filter_map(|it| it.due(books.calendar)).min();
            let Some(due) = due else { return Ok(None) };
            books.calendar.date(due)
        }
        DryRunOf::After(action, target) => {
            let effective_at;
            (books, effective_at) = act(state, books, action, cx)?;
            target.unwrap_or_else(|| books.calendar.date(effective_at))
        }
    };
    super::asked::refuse_late(&books, target, cx)?;
    books.is_dry = true;
    let invoice = run::invoice(&mut books, target, cx);
    let invoice = invoice.map_err(|reason| R::CannotBeBilled { reason })?;
    Ok(invoice.and_then(|id| written(id, cx)))
}

/// Does what would be done before, and says when it takes effect.
fn act<'s>(
    state: &'s State,
    books: Books<'s>,
    action: &DryRunAction,
    cx: &mut Context,
) -> Result<(Books<'s>, Timestamp), Rejection> {
    let mut books = books;
    let effective_at = match action {
        DryRunAction::Subscribe(it) => {
            let sold;
            (books, sold) = open(state, it.account, cx)?;
            add(&mut books, (it, None), &sold, cx)?.billed_from
        }
        DryRunAction::Change(it) => change::apply(&mut books, it, cx)?,
        DryRunAction::Cancel(it) => cancel::apply(&mut books, it, cx)?,
    };
    Ok((books, effective_at))
}

/// The invoice with its items, as they would be written.
fn written(id: InvoiceId, cx: &Context) -> Option<DryInvoice> {
    let invoice = cx.newest::<Invoice>(&(cx.tenant, id))?.clone();
    let mut items: Vec<InvoiceItem> = vec![];
    for item in cx.written::<InvoiceItem>().filter(|it| it.invoice_id == id) {
        items.retain(|it| it.id != item.id);
        items.push(item.clone());
    }
    Some(DryInvoice { invoice, items })
}
