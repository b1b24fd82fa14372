//! Quantities and bill cycle days of subscriptions.

use super::books::Books;
use super::course::refuse_too_many;
use super::run;
use crate::billing::subscription::{SetBillCycleDay, SetQuantity, When};
use crate::billing::timeline::{To, Transition};
use crate::catalog::period::next_on_day;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::{
    Accepted, BillingRejection as R, Rejection, Reply, SubscriptionId, SubscriptionStep, Timestamp,
};

pub(crate) fn set_quantity(state: &State, it: &SetQuantity, cx: &mut Context) -> Outcome {
    let books = Books::open(state, it.account, cx)?;
    let at = instant(&books, (it.from, it.forces_past), cx)?;
    let to = (To::Quantity(it.quantity), SubscriptionStep::Quantity);
    amend(books, it.subscription, to, at, cx)
}

pub(crate) fn set_bill_cycle_day(state: &State, it: &SetBillCycleDay, cx: &mut Context) -> Outcome {
    let books = Books::open(state, it.account, cx)?;
    let from = books.calendar.date(instant(&books, (it.from, it.forces_past), cx)?);
    let beyond = || Rejection::invalid("effectiveFromDate", "is outside the calendar's years");
    let date = next_on_day(from, it.day).ok_or_else(beyond)?;
    let at = books.calendar.instant(date).map_err(|_| beyond())?;
    let to = (To::BillCycleDay(it.day), SubscriptionStep::BillCycleDay);
    amend(books, it.subscription, to, at, cx)
}

/// The instant from which on it holds; a past one only where it is forced.
fn instant(
    books: &Books<'_>,
    (from, forces_past): (Option<When>, bool),
    cx: &Context,
) -> Result<Timestamp, Rejection> {
    let Some(from) = from else { return Ok(cx.now) };
    let at = books.instant(from, "effectiveFromDate")?;
    let is_past = books.calendar.date(at) < books.calendar.date(cx.now);
    match is_past && !forces_past {
        true => Err(Rejection::invalid("effectiveFromDate", "is in the past, and not forced")),
        false => Ok(at),
    }
}

fn amend(
    mut books: Books<'_>,
    id: SubscriptionId,
    (to, step): (To, SubscriptionStep),
    at: Timestamp,
    cx: &mut Context,
) -> Outcome {
    let place = books.place(id).ok_or(R::NotChangeable { subscription: id })?;
    let subscription = &mut books.subscriptions[place];
    refuse_too_many(subscription)?;
    let at = at.max(subscription.starts_at());
    subscription.put(Transition { at, to });
    books.reopen(place, at);
    books.requested(place, (step, at), cx);
    if at <= cx.now {
        run::at(&mut books, at, cx);
    }
    books.close(cx);
    Ok(Accepted::now(Reply::Done))
}
