//! Invoices on request.

use jiff::civil::Date;

use super::books::Books;
use super::run;
use crate::billing::subscription::InvoiceUntil;
use crate::context::Context;
use crate::reply::{BillingReply, Outcome};
use crate::state::State;
use crate::{Accepted, AccountId, BillingRejection as R, Rejection, Reply};

/// How far ahead an invoice may be.
const MONTHS_MAX: i32 = 36;

pub(crate) fn invoice_until(state: &State, it: &InvoiceUntil, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    let today = books.calendar.date(cx.now);
    let target = it.target.unwrap_or(today);
    refuse_late(&books, target, cx)?;
    books.billing.parked = None;
    let invoice = run::until(&mut books, target, cx).ok_or(R::NothingToInvoice)?;
    books.close(cx);
    Ok(Accepted::now(Reply::Billing(BillingReply::Invoiced(invoice))))
}

/// Bills an account that waits for somebody, as if it did not, and says whether it still does.
pub(crate) fn unpark(state: &State, account: AccountId, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, account, cx)?;
    if books.billing.parked.take().is_some() {
        let now = cx.now;
        run::at(&mut books, now, cx);
    }
    let is_parked = books.billing.parked.is_some();
    books.close(cx);
    Ok(Accepted::now(Reply::Billing(BillingReply::Billed { is_parked })))
}

/// Refuses a day that is too far ahead.
pub(super) fn refuse_late(books: &Books<'_>, target: Date, cx: &Context) -> Result<(), Rejection> {
    let today = books.calendar.date(cx.now);
    let latest = today.checked_add(jiff::Span::new().months(MONTHS_MAX));
    match latest.is_ok_and(|latest| target > latest) {
        true => Err(R::TargetTooFar { target }.into()),
        false => Ok(()),
    }
}
