//! Purchases follow their payments: in the commit that settles, returns or takes back a payment, what it is for is
//! granted or taken back.

use crate::change::EntitlementChange;
use crate::context::Context;
use crate::entitlement::offer::{Again, Revocation};
use crate::entitlement::purchase::{Purchase, PurchaseStatus, Standing};
use crate::entitlement::rules::entitlement;
use crate::entitlement::{Bought, Entitlements, Grant, GrantSource, LivePurchase, Term};
use crate::payment::{PaidFor, Payment, Transaction, TransactionStatus};
use crate::state::State;
use crate::timer::rules as timer;
use crate::timer::{TimerKey, TimerKind};
use crate::{Event, PaymentId, PurchaseId, Revision, Timestamp, TransactionId};

/// Brings the purchases of the payments that a command changed to where these stand.
pub(crate) fn follow(state: &State, cx: &mut Context) {
    let mut payments: Vec<Payment> = vec![];
    for payment in cx.written::<Payment>().rev() {
        let is_known = payments.iter().any(|it| it.id == payment.id);
        let purchase = payment.paid_for.and_then(PaidFor::purchase);
        if !is_known && purchase.is_some_and(|id| !is_written(id, cx)) {
            payments.push(payment.clone());
        }
    }
    for payment in payments {
        let Some(PaidFor::Purchase(id)) = payment.paid_for else { continue };
        let purchase = state.purchase(cx.tenant, id).clone();
        let before = Some(purchase.status);
        book(state, (purchase, before), Some(&payment), cx);
    }
}

/// Whether the command has written a purchase already: it made it.
fn is_written(id: PurchaseId, cx: &Context) -> bool {
    cx.newest::<Purchase>(&(cx.tenant, id)).is_some()
}

/// Brings a purchase, and what its account has, to where its payment stands. `before` is the status that its last
/// event had, `None` for a new one; a free purchase has no payment.
pub(crate) fn book(
    state: &State,
    (purchase, before): (Purchase, Option<PurchaseStatus>),
    payment: Option<&Payment>,
    cx: &mut Context,
) {
    let known = state.entitlements(cx.tenant, purchase.account_id);
    let is_closed = state.is_closed(cx.tenant, purchase.account_id);
    book_over((known, is_closed), (purchase, before), payment, cx);
}

/// Books a free purchase of an account that the command makes.
pub(crate) fn book_for_newcomer(purchase: Purchase, cx: &mut Context) {
    book_over((None, false), (purchase, None), None, cx);
}

fn book_over(
    (known, is_closed): (Option<&Entitlements>, bool),
    (mut purchase, before): (Purchase, Option<PurchaseStatus>),
    payment: Option<&Payment>,
    cx: &mut Context,
) {
    let standing = purchase.standing(payment);
    let (tenant, account, first) = (cx.tenant, purchase.account_id, Revision::first(cx.seq));
    let mut entitled = known.cloned().unwrap_or(Entitlements::none_of(tenant, account, first));
    let is_new = before.is_none();
    let is_there = purchase.status == standing.status() && !is_new;
    if is_there || purchase.status.is_final() {
        return;
    }
    let on_chargeback = purchase.terms.offer.on_chargeback;
    purchase.status = standing.status();
    match standing {
        Standing::Paid if is_closed => keep_money(&mut purchase, &mut entitled, cx),
        Standing::Paid => grant(&mut purchase, &mut entitled, cx),
        Standing::Open => {
            take_back(&purchase, on_chargeback, &mut entitled);
            live_of(&mut entitled, &purchase).push(LivePurchase { id: purchase.id, term: None });
        }
        Standing::Unpaid => take_back(&purchase, on_chargeback, &mut entitled),
        Standing::Returned(rule) => take_back(&purchase, rule, &mut entitled),
    }
    purchase.updated_at = cx.now;
    if !is_new {
        purchase.revision = purchase.revision.next(cx.seq);
    }
    cx.event(Event::PurchaseChanged {
        account: purchase.account_id,
        purchase: purchase.id,
        payment: purchase.payment_id,
        offer: purchase.offer.clone(),
        version: purchase.offer_version,
        before,
        status: purchase.status,
    });
    cx.change(EntitlementChange::Purchase(Box::new(purchase)));
    entitlement::put_over(known, entitled, cx);
}

fn live_of<'a>(entitled: &'a mut Entitlements, purchase: &Purchase) -> &'a mut Vec<LivePurchase> {
    &mut entitled.bought.entry(purchase.offer.clone()).or_default().live
}

/// Books a purchase whose money is here when its account is closed: nothing is granted.
fn keep_money(purchase: &mut Purchase, entitled: &mut Entitlements, cx: &mut Context) {
    purchase.status = PurchaseStatus::Closed;
    live_of(entitled, purchase).retain(|it| it.id != purchase.id);
    refund_unwanted(purchase, cx);
}

/// Grants what was bought; or nothing, where the account has the offer meanwhile.
fn grant(purchase: &mut Purchase, entitled: &mut Entitlements, cx: &mut Context) {
    let is_first = purchase.from.is_none();
    let bought = entitled.bought.entry(purchase.offer.clone()).or_default();
    bought.live.retain(|it| it.id != purchase.id);
    if is_first && is_duplicate(purchase, bought, cx) {
        purchase.status = PurchaseStatus::Duplicate;
        refund_unwanted(purchase, cx);
        return;
    }
    let from = match is_first {
        true => begin(purchase, bought, cx),
        false => cx.now.max(purchase.from.unwrap_or(cx.now)),
    };
    if is_first {
        purchase.from = Some(from);
        purchase.until = purchase.terms.lasts().end(from);
    }
    let term = Term { from, until: purchase.until };
    if bought.paid.is_empty() || purchase.terms.offer.buyers.once {
        bought.paid.push(purchase.id);
    }
    bought.live.push(LivePurchase { id: purchase.id, term: Some(term) });
    // What ends later, or not at all, was left when the money went back.
    let has_grants = entitled.grants.iter().any(|it| it.purchase() == Some(purchase.id));
    if has_grants || term.is_over(cx.now) {
        return;
    }
    for (feature, value, terms) in purchase.terms.given() {
        entitled.grants.push(Grant {
            id: cx.mint(),
            feature: feature.clone(),
            value: value.clone(),
            terms: terms.clone(),
            source: GrantSource::Offer {
                offer: purchase.offer.clone(),
                version: purchase.offer_version,
                purchase: purchase.id,
                payment: purchase.payment_id,
                is_trial: purchase.terms.offer.is_trial,
            },
            from,
            until: term.until,
        });
    }
}

/// Whether the account has what cannot be had twice. Only a payment that succeeded late comes to that: a purchase is
/// refused before.
fn is_duplicate(purchase: &Purchase, bought: &Bought, cx: &Context) -> bool {
    let offer = &purchase.terms.offer;
    let had = offer.buyers.once && bought.paid.iter().any(|it| *it != purchase.id);
    let mut held = bought.held(cx.now, Some(purchase.id));
    had || held.any(|(_, term)| offer.again == Again::Refuse || term.until.is_none())
}

/// When what is bought begins: when what the account has of the offer ends.
fn begin(purchase: &Purchase, bought: &Bought, cx: &Context) -> Timestamp {
    let held = bought.held(cx.now, Some(purchase.id));
    held.filter_map(|(_, term)| term.until).fold(cx.now, Timestamp::max)
}

/// Takes back what a purchase gave, as a rule says.
fn take_back(purchase: &Purchase, rule: Revocation, entitled: &mut Entitlements) {
    if rule == Revocation::AtOnce {
        entitled.grants.retain(|it| it.purchase() != Some(purchase.id));
    }
    if let Some(bought) = entitled.bought.get_mut(&purchase.offer) {
        bought.live.retain(|it| it.id != purchase.id);
        bought.paid.retain(|it| *it != purchase.id);
    }
}

/// Has a payment that has just succeeded and grants nothing refunded, where the offer says so.
fn refund_unwanted(purchase: &Purchase, cx: &mut Context) {
    let succeeded = |payment: PaymentId| {
        let mut own = cx
            .written::<Transaction>()
            .filter(|it| it.payment_id == payment && it.kind.is_initial());
        own.find(|it| it.status == TransactionStatus::Success).map(|it| it.id)
    };
    let transaction: Option<TransactionId> = purchase.payment_id.and_then(succeeded);
    if let (true, Some(transaction)) = (purchase.terms.offer.refunds_duplicates, transaction) {
        let key = TimerKey { kind: TimerKind::LateRefund, object: transaction.uuid() };
        timer::set((key, purchase.account_id), cx.now, cx);
    }
}

#[cfg(test)]
mod tests;
