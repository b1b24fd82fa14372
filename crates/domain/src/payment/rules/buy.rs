//! Buying an offer: a payment of its price, and the purchase that it is for.

use std::collections::BTreeMap;

use super::initiate::{Origin, start};
use crate::account::blocking_state::ClosedTo;
use crate::account::rules::closed::refuse_closed;
use crate::account::tag::TagKey;
use crate::context::Context;
use crate::entitlement::offer::{Again, Offer, Price};
use crate::entitlement::purchase::{BoughtTerms, Buy, Purchase, PurchaseStatus};
use crate::entitlement::rules::entitlement;
use crate::entitlement::rules::purchase;
use crate::entitlement::{Entitlements, GRANTS_MAX, LIVE_PURCHASES_MAX, OFFERS_BOUGHT_MAX};
use crate::object::Object;
use crate::payment::{Initiate, PaidFor, TransactionType};
use crate::reply::{EntitlementReply, Outcome};
use crate::state::State;
use crate::{
    Accepted, Account, AccountId, AccountRejection, EntitlementRejection as R, Rejection, Reply,
    Revision,
};

pub(crate) fn buy(state: &State, it: &Buy, cx: &mut Context) -> Outcome {
    let Some(account) = state.account(cx.tenant, it.account) else {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    };
    refuse_closed(state, account.id, ClosedTo::Payment(TransactionType::Purchase), cx)?;
    let offer = state.offer(cx.tenant, &it.offer).filter(|offer| !offer.terms.withdrawn);
    let Some(offer) = offer else {
        return Err(R::OfferNotFound { key: it.offer.clone() }.into());
    };
    refuse_other_terms(it, offer)?;
    refuse_buyer(state, account, offer, cx)?;
    refuse_again(&entitlement::of_account(state, account.id, cx), offer, cx)?;
    let made = begin(state, account.id, offer, cx);
    let Some(price) = offer.terms.price else {
        let id = made.id;
        purchase::book(state, (made, None), None, cx);
        return Ok(Accepted::now(Reply::Entitlement(EntitlementReply::Bought(id))));
    };
    let call = Initiate {
        payment_method: it.payment_method,
        amount: Some(price.amount.decimal(price.currency)),
        currency: Some(price.currency),
        properties: it.properties.clone(),
        ..Initiate::of(account.id)
    };
    let origin = Origin { paid_for: Some(PaidFor::Purchase(made.id)), ..Origin::of(account) };
    let started = start(state, TransactionType::Purchase, &call, origin, cx)?;
    // Without a payment nothing was bought.
    if let Some(payment) = started.payment {
        let made = Purchase { payment_id: Some(payment.id), ..made };
        purchase::book(state, (made, None), Some(&payment), cx);
    }
    Ok(started.accepted)
}

/// Refuses an offer that is another than the buyer saw.
fn refuse_other_terms(it: &Buy, offer: &Offer) -> Result<(), Rejection> {
    if it.version.is_some_and(|version| version != offer.version) {
        let (key, version) = (offer.key.clone(), offer.version);
        return Err(R::OfferChanged { offer: key, version }.into());
    }
    if it.expected != offer.terms.price {
        let decimal = |it: Price| format!("{} {}", it.amount.decimal(it.currency), it.currency);
        // Without a price, the buyer may have seen any.
        if let (None, Some(price)) = (it.expected, offer.terms.price) {
            let reason = format!("needs to be set: the offer costs {}", decimal(price));
            return Err(Rejection::invalid("expectedPrice", &reason));
        }
        let price = offer.terms.price.map_or_else(|| "nothing".to_owned(), decimal);
        return Err(R::PriceChanged { offer: offer.key.clone(), price }.into());
    }
    Ok(())
}

/// Refuses an account that the offer is not for.
fn refuse_buyer(
    state: &State,
    account: &Account,
    offer: &Offer,
    cx: &Context,
) -> Result<(), Rejection> {
    let not_for = |reason: &str| {
        let (offer, reason) = (offer.key.clone(), reason.to_owned());
        Err(R::NotForAccount { offer, reason }.into())
    };
    let price = offer.terms.price;
    if account.currency.is_some_and(|own| price.is_some_and(|it| it.currency != own)) {
        return not_for("its price is in another currency than the account's");
    }
    let buyers = &offer.terms.buyers;
    let is_listed = account.currency.is_some_and(|own| buyers.currencies.contains(&own));
    if !buyers.currencies.is_empty() && !is_listed {
        return not_for("it is for accounts with other currencies");
    }
    let has_tag = |definition| {
        let key = TagKey::new(account.id, Object::Account(account.id), definition);
        state.tag(cx.tenant, key).is_some_and(|it| it.active)
    };
    if !buyers.tags.is_empty() && !buyers.tags.iter().any(|tag| has_tag(*tag)) {
        return not_for("it is for accounts with other tags");
    }
    Ok(())
}

/// Refuses what the account is buying already, has already, or has too much of.
fn refuse_again(entitled: &Entitlements, offer: &Offer, cx: &Context) -> Result<(), Rejection> {
    let key = &offer.key;
    let too_many = |what: &str, most| Err(R::TooMany { what: what.to_owned(), most }.into());
    if entitled.grants_at(cx.now) + offer.terms.features.len() > GRANTS_MAX {
        return too_many("grants", GRANTS_MAX);
    }
    let Some(bought) = entitled.bought.get(key) else {
        return match entitled.bought.len() < OFFERS_BOUGHT_MAX {
            true => Ok(()),
            false => too_many("offers", OFFERS_BOUGHT_MAX),
        };
    };
    if let Some(purchase) = bought.pending() {
        return Err(R::PurchasePending { offer: key.clone(), purchase }.into());
    }
    let had = bought.paid.first().copied().filter(|_| offer.terms.buyers.once);
    let refuses = offer.terms.again == Again::Refuse;
    let mut held = bought.held(cx.now, None);
    let held = held.find(|(_, term)| refuses || term.until.is_none()).map(|(id, _)| id);
    if let Some(purchase) = had.or(held) {
        return Err(R::AlreadyBought { offer: key.clone(), purchase }.into());
    }
    match bought.held(cx.now, None).count() < LIVE_PURCHASES_MAX {
        true => Ok(()),
        false => too_many("purchases of it", LIVE_PURCHASES_MAX),
    }
}

/// The purchase as it begins: with the offer as it is now.
pub(crate) fn begin(
    state: &State,
    account: AccountId,
    offer: &Offer,
    cx: &mut Context,
) -> Purchase {
    let terms = |key: &String| {
        let feature = state.feature(cx.tenant, key).expect("an offer's features are never deleted");
        (key.clone(), feature.terms.clone())
    };
    let features: BTreeMap<_, _> = offer.terms.features.keys().map(terms).collect();
    Purchase {
        tenant: cx.tenant,
        id: cx.mint(),
        account_id: account,
        payment_id: None,
        offer: offer.key.clone(),
        offer_version: offer.version,
        terms: BoughtTerms { offer: offer.terms.clone(), features },
        status: PurchaseStatus::Pending,
        from: None,
        until: None,
        created_at: cx.now,
        updated_at: cx.now,
        revision: Revision::first(cx.seq),
    }
}
