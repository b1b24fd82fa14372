//! Subscribing: the bundle, the subscription, and its first invoice with its payment, in one commit.

use std::sync::Arc;

use jiff::civil::Date;

use super::books::Books;
use super::plan::{self, Sold};
use super::run;
use crate::account::blocking_state::ClosedTo;
use crate::account::rules::closed::refuse_closed;
use crate::billing::bundle::Bundle;
use crate::billing::subscription::{SUBSCRIPTIONS_MAX, Subscribe, Subscription, When};
use crate::billing::timeline::{PlanChange, To, Transition};
use crate::catalog::phases::{self, schedule};
use crate::catalog::rules::{Alignment, Offered};
use crate::catalog::versions::Versions;
use crate::catalog::{Phase, Prices, ProductCategory};
use crate::change::BillingChange;
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::payment::TransactionType;
use crate::reply::{BillingReply, Outcome};
use crate::rows::Keyed;
use crate::state::State;
use crate::{
    Accepted, BillingRejection as R, BundleId, Rejection, Reply, Revision, SubscriptionId,
    SubscriptionStep, Timestamp,
};

pub(crate) fn subscribe(state: &State, it: &Subscribe, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    refuse_closed(state, it.account, ClosedTo::Payment(TransactionType::Purchase), cx)?;
    books.refuse_blocked(None, cx)?;
    if books.subscriptions.len() >= SUBSCRIPTIONS_MAX {
        return Err(R::TooManySubscriptions.into());
    }
    let sold = state.catalog_versions(cx.tenant).values().filter(|it| !it.is_withdrawn);
    let sold = Versions::new(sold.map(|it| Arc::clone(&it.catalog)).collect());
    let instant = |when: Option<When>, field| match when {
        None => Ok(cx.now),
        Some(when) => books.instant(when, field),
    };
    let billed_from = instant(it.billed_from, "billingDate")?;
    let entitled_from = instant(it.entitled_from, "entitlementDate")?;
    let chosen = plan::find(&sold, &it.plan, billed_from)?;
    refuse_unsold(&chosen, &books)?;
    let bundle = bundle(&books, it, &chosen, cx)?;
    // An add-on is not billed before its base.
    let base = books
        .subscriptions
        .iter()
        .find(|base| base.bundle_id == bundle && base.category == ProductCategory::Base);
    let billed_from = base.map_or(billed_from, |base| billed_from.max(base.starts_at()));
    let (id, bundle_id): (SubscriptionId, BundleId) = (cx.mint(), bundle);
    let subscription = Subscription {
        tenant: cx.tenant,
        id,
        account_id: it.account,
        bundle_id,
        external_key: it.external_key.clone(),
        category: chosen.product.category,
        transitions: transitions(&books, it, (&chosen, billed_from, bundle_id))?,
        in_effect: 0,
        entitled_from,
        entitled_until: None,
        entitlement_ended: false,
        charged_through: None,
        settled: Date::MIN,
        next_due: None,
        is_over: false,
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    };
    books.subscriptions.push(subscription);
    let at = books.subscriptions.len() - 1;
    books.follow_phase(at);
    books.requested(at, (SubscriptionStep::Created, billed_from), cx);
    books.requested(at, (SubscriptionStep::Entitled, entitled_from), cx);
    if billed_from <= cx.now {
        run::at(&mut books, billed_from, cx);
    }
    books.close(cx);
    let reply = BillingReply::Subscribed { subscription: id, bundle: bundle_id };
    Ok(Accepted::now(Reply::Billing(reply)))
}

/// Refuses a plan that has no price in the account's currency.
fn refuse_unsold(chosen: &Sold<'_>, books: &Books<'_>) -> Result<(), Rejection> {
    let of = |it: &Phase| -> Vec<Prices> {
        it.fixed.iter().chain(it.recurring.as_ref().map(|it| &it.prices)).cloned().collect()
    };
    for prices in chosen.plan.phases.iter().flat_map(of) {
        prices.of(books.currency).map_err(|why| R::NoPrice {
            plan: chosen.plan.name.clone(),
            currency: books.currency,
            why,
        })?;
    }
    Ok(())
}

/// The bundle that it belongs into; a base product makes one.
fn bundle(
    books: &Books<'_>,
    it: &Subscribe,
    chosen: &Sold<'_>,
    cx: &mut Context,
) -> Result<BundleId, Rejection> {
    let account = books.account.key();
    let bundles = books.state.billing.bundles.of(&account);
    let by_key = match &it.bundle_key {
        None => None,
        Some(key) => {
            let claim = ClaimKey::new(cx.tenant, ClaimKind::Bundle, key);
            let claim = books.state.claim(&claim);
            if claim.is_some_and(|claim| claim.account != Some(books.account.id)) {
                return Err(R::BundleKeyInUse { key: key.clone() }.into());
            }
            claim.map(|claim| BundleId::new(claim.owner))
        }
    };
    let named = it.bundle.or(by_key);
    let has = |bundle: BundleId, category| {
        let of = |it: &&Subscription| it.bundle_id == bundle && it.category == category;
        books.subscriptions.iter().filter(of).count()
    };
    let Some(named) = named else {
        if chosen.product.category == ProductCategory::AddOn {
            return Err(R::NoBase.into());
        }
        return Ok(new_bundle(books, it, cx));
    };
    if !bundles.contains_key(&(cx.tenant, named)) {
        return Err(R::NoSuchBundle { bundle: named }.into());
    }
    match chosen.product.category {
        ProductCategory::Base if has(named, ProductCategory::Base) > 0 => match it.bundle {
            Some(_) => Err(R::BaseExists { bundle: named }.into()),
            None => {
                Err(R::BundleKeyInUse { key: it.bundle_key.clone().unwrap_or_default() }.into())
            }
        },
        ProductCategory::Base | ProductCategory::Standalone => Ok(named),
        ProductCategory::AddOn => {
            refuse_add_on(books, named, chosen, cx)?;
            Ok(named)
        }
    }
}

fn new_bundle(books: &Books<'_>, it: &Subscribe, cx: &mut Context) -> BundleId {
    let id: BundleId = cx.mint();
    if let Some(key) = &it.bundle_key {
        let claim = ClaimKey::new(cx.tenant, ClaimKind::Bundle, key);
        cx.claim(claim, id.uuid(), Some(books.account.id));
    }
    cx.change(BillingChange::Bundle(Bundle {
        tenant: cx.tenant,
        id,
        account_id: books.account.id,
        external_key: it.bundle_key.clone(),
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    }));
    id
}

/// Refuses an add-on that the base product does not go with.
fn refuse_add_on(
    books: &Books<'_>,
    bundle: BundleId,
    chosen: &Sold<'_>,
    cx: &Context,
) -> Result<(), Rejection> {
    let of_bundle = || books.subscriptions.iter().filter(|it| it.bundle_id == bundle);
    let base = of_bundle().find(|it| it.category == ProductCategory::Base);
    let Some(base) = base else { return Err(R::NoBase.into()) };
    books.refuse_blocked(Some(base), cx)?;
    let current = base.current();
    let chosen_by = current.and_then(|it| books.versions.plan(it.plan, it.chosen_at, it.chosen_at));
    let product = chosen_by.and_then(|it| it.catalog.product(&it.plan.product));
    let (Some(product), add_on) = (product, &chosen.product.name) else {
        return Err(R::NoBase.into());
    };
    if product.included.contains(add_on) {
        return Err(R::AddOnIncluded { add_on: add_on.clone(), base: product.name.clone() }.into());
    }
    if !product.available.contains(add_on) {
        return Err(
            R::AddOnNotAvailable { add_on: add_on.clone(), base: product.name.clone() }.into()
        );
    }
    let is_same = |it: &&Subscription| it.current().is_some_and(|it| it.plan == chosen.plan.name);
    let had = of_bundle().filter(is_same).count();
    match chosen.plan.allowed_in_bundle {
        Some(most) if had >= usize::try_from(most).unwrap_or(usize::MAX) => {
            Err(R::TooManyInBundle { plan: chosen.plan.name.clone(), most }.into())
        }
        Some(_) | None => Ok(()),
    }
}

/// The transitions that make the subscription.
fn transitions(
    books: &Books<'_>,
    it: &Subscribe,
    (chosen, from, bundle): (&Sold<'_>, Timestamp, BundleId),
) -> Result<Vec<Transition>, Rejection> {
    let offered = Offered {
        product: &chosen.product.name,
        category: chosen.product.category,
        period: chosen.plan.period(),
        price_list: chosen.price_list,
    };
    let of_bundle = books.subscriptions.iter().filter(|it| it.bundle_id == bundle);
    let bundle_start = of_bundle.map(Subscription::starts_at).min();
    let aligned_to = match chosen.catalog.rules.create_alignment(offered) {
        Alignment::StartOfBundle => bundle_start.map_or(from, |it| it.min(from)),
        Alignment::StartOfSubscription | Alignment::ChangeOfPlan => from,
    };
    if it.phase.is_some_and(|phase| chosen.plan.phase(phase).is_none()) {
        return Err(R::NoSuchPhase { plan: chosen.plan.name.clone() }.into());
    }
    let beyond = || Rejection::invalid("billingDate", "is outside the calendar's years");
    let phases = schedule(chosen.plan, aligned_to, it.phase).ok_or_else(beyond)?;
    let first = *phases::at(&phases, from).ok_or_else(beyond)?;
    let to = To::Plan {
        by: PlanChange::Create,
        plan: chosen.plan.name.clone(),
        price_list: chosen.price_list.to_owned(),
        phase: first.phase,
        until: first.until,
    };
    let day = it.bill_cycle_day.map(To::BillCycleDay);
    let quantity = it.quantity.map(To::Quantity);
    let first_ones = [Some(to), quantity, day].into_iter().flatten();
    Ok(first_ones.map(|to| Transition { at: from, to }).collect())
}
