//! Subscribing: bundles, subscriptions, and their first invoice with its payment, in one commit.

use jiff::civil::Date;

use super::books::Books;
use super::plan::{self, Sold};
use super::run;
use crate::account::blocking_state::ClosedTo;
use crate::account::rules::closed::refuse_closed;
use crate::billing::bundle::Bundle;
use crate::billing::subscription::{
    SUBSCRIBED_MAX, SUBSCRIPTIONS_MAX, Subscribe, SubscribeAll, Subscription, When,
};
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
    Accepted, AccountId, BillingRejection as R, BundleId, Rejection, Reply, Revision,
    SubscriptionId, SubscriptionStep, Timestamp,
};

pub(crate) fn subscribe(state: &State, it: &Subscribe, cx: &mut Context) -> Outcome {
    let (mut books, sold) = open(state, it.account, cx)?;
    let made = add(&mut books, (it, None), &sold, cx)?;
    if made.billed_from <= cx.now {
        run::at(&mut books, made.billed_from, cx);
    }
    books.close(cx);
    let Made { subscription, bundle, .. } = made;
    Ok(Accepted::now(Reply::Billing(BillingReply::Subscribed { subscription, bundle })))
}

pub(crate) fn subscribe_all(state: &State, it: &SubscribeAll, cx: &mut Context) -> Outcome {
    if it.bundles.iter().map(Vec::len).sum::<usize>() > SUBSCRIBED_MAX {
        return Err(R::TooManySubscriptions.into());
    }
    let (mut books, sold) = open(state, it.account, cx)?;
    let (mut bundles, mut starts) = (vec![], vec![]);
    for (bundle_at, entries) in it.bundles.iter().enumerate() {
        let mut first: Option<(&Subscribe, BundleId)> = None;
        for (entry_at, entry) in entries.iter().enumerate() {
            let of_entry = |why: Rejection| {
                let why = Box::new(why);
                R::OfEntry { bundle: bundle_at + 1, entry: entry_at + 1, why }
            };
            first.map_or(Ok(()), |first| refuse_other_bundle(first, entry)).map_err(of_entry)?;
            let within = first.map(|(_, bundle)| bundle);
            let made = add(&mut books, (entry, within), &sold, cx).map_err(of_entry)?;
            first = first.or(Some((entry, made.bundle)));
            starts.push(made.billed_from);
        }
        bundles.extend(first.map(|(_, bundle)| bundle));
    }
    // What begins later is due then.
    let first = starts.into_iter().filter(|it| *it <= cx.now).min();
    if let Some(first) = first {
        run::at(&mut books, first, cx);
    }
    books.close(cx);
    Ok(Accepted::now(Reply::Billing(BillingReply::SubscribedAll { bundles })))
}

/// The books of an account that may subscribe, and what is sold.
pub(super) fn open<'s>(
    state: &'s State,
    account: AccountId,
    cx: &Context,
) -> Result<(Books<'s>, Versions), Rejection> {
    let books = Books::open(state, account, cx)?;
    refuse_closed(state, account, ClosedTo::Payment(TransactionType::Purchase), cx)?;
    books.refuse_blocked(None, cx)?;
    Ok((books, plan::sold(state, cx)))
}

/// An entry belongs into the bundle of the first one of its list, whether it names that or not.
fn refuse_other_bundle(
    (first, bundle): (&Subscribe, BundleId),
    entry: &Subscribe,
) -> Result<(), Rejection> {
    let reason = "should be that of the first entry of its bundle";
    if entry.bundle.is_some_and(|it| it != bundle) {
        return Err(Rejection::invalid("bundleId", reason));
    }
    if entry.bundle_key.is_some() && entry.bundle_key != first.bundle_key {
        return Err(Rejection::invalid("bundleExternalKey", reason));
    }
    Ok(())
}

/// A subscription that a command made.
pub(super) struct Made {
    subscription: SubscriptionId,
    bundle: BundleId,
    pub(super) billed_from: Timestamp,
}

/// Adds a subscription to the books: into a bundle that the command made or looked up before, or the one that it names.
pub(super) fn add(
    books: &mut Books<'_>,
    (it, within): (&Subscribe, Option<BundleId>),
    sold: &Versions,
    cx: &mut Context,
) -> Result<Made, Rejection> {
    assert_eq!(it.account, books.account.id, "a command subscribes one account");
    if books.subscriptions.len() >= SUBSCRIPTIONS_MAX {
        return Err(R::TooManySubscriptions.into());
    }
    let now = cx.now;
    let instant = |when: Option<When>, field| match when {
        None => Ok(now),
        Some(when) => books.instant(when, field),
    };
    let billed_from = instant(it.billed_from, "billingDate")?;
    let entitled_from = instant(it.entitled_from, "entitlementDate")?;
    let chosen = plan::find(sold, &it.plan, billed_from)?;
    refuse_unsold(&chosen, books)?;
    let bundle_id = bundle(books, (it, within), &chosen, cx)?;
    books.refuse_beyond_grants((&chosen, &it.plan), None, cx)?;
    // An add-on is not billed before its base.
    let base = books
        .subscriptions
        .iter()
        .find(|base| base.bundle_id == bundle_id && base.category == ProductCategory::Base);
    let billed_from = base.map_or(billed_from, |base| billed_from.max(base.starts_at()));
    let id: SubscriptionId = cx.mint();
    let subscription = Subscription {
        tenant: cx.tenant,
        id,
        account_id: it.account,
        bundle_id,
        external_key: it.external_key.clone(),
        category: chosen.product.category,
        transitions: transitions(books, it, (&chosen, billed_from, bundle_id), cx)?,
        in_effect: 0,
        entitled_from,
        entitled_until: None,
        entitlement_ended: false,
        charged_through: None,
        settled: Date::MIN,
        next_due: None,
        first_charged: None,
        given: None,
        is_over: false,
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    };
    books.subscriptions.push(subscription);
    let at = books.subscriptions.len() - 1;
    books.follow_phase(at);
    books.requested(at, (SubscriptionStep::Created, billed_from), cx);
    books.requested(at, (SubscriptionStep::Entitled, entitled_from), cx);
    Ok(Made { subscription: id, bundle: bundle_id, billed_from })
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
    (it, within): (&Subscribe, Option<BundleId>),
    chosen: &Sold<'_>,
    cx: &mut Context,
) -> Result<BundleId, Rejection> {
    let account = books.account.key();
    let bundles = books.state.billing.bundles.of(&account);
    let named = match within.or(it.bundle) {
        Some(bundle) => Some(bundle),
        None => by_key(books, it, cx)?,
    };
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
    if within.is_none() && !bundles.contains_key(&(cx.tenant, named)) {
        return Err(R::NoSuchBundle { bundle: named }.into());
    }
    match chosen.product.category {
        ProductCategory::Base if has(named, ProductCategory::Base) > 0 => {
            match within.or(it.bundle) {
                Some(_) => Err(R::BaseExists { bundle: named }.into()),
                None => {
                    Err(R::BundleKeyInUse { key: it.bundle_key.clone().unwrap_or_default() }.into())
                }
            }
        }
        ProductCategory::Base | ProductCategory::Standalone => Ok(named),
        ProductCategory::AddOn => {
            refuse_add_on(books, named, chosen, cx)?;
            Ok(named)
        }
    }
}

/// The bundle of a key; `None`: there is none.
fn by_key(books: &Books<'_>, it: &Subscribe, cx: &Context) -> Result<Option<BundleId>, Rejection> {
    let Some(key) = &it.bundle_key else { return Ok(None) };
    let claim = books.state.claim(&ClaimKey::new(cx.tenant, ClaimKind::Bundle, key));
    let is_of_another = claim.is_some_and(|claim| claim.account != Some(books.account.id));
    let is_made = cx.written::<Bundle>().any(|it| it.external_key.as_ref() == Some(key));
    if is_of_another || is_made {
        return Err(R::BundleKeyInUse { key: key.clone() }.into());
    }
    Ok(claim.map(|claim| BundleId::new(claim.owner)))
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
    let product = books.having(base).map(|it| it.product);
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
    cx: &Context,
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
        overrides: chosen.overrides(&it.price_overrides, cx)?,
    };
    let day = it.bill_cycle_day.map(To::BillCycleDay);
    let quantity = it.quantity.map(To::Quantity);
    let first_ones = [Some(to), quantity, day].into_iter().flatten();
    Ok(first_ones.map(|to| Transition { at: from, to }).collect())
}
