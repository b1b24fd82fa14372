//! Entitlements of accounts: grants by hand, grants that end by time, and the writing of every change.

use crate::account::blocking_state::ClosedTo;
use crate::account::rules::closed::refuse_closed;
use crate::change::{EntitlementChange, TimerChange};
use crate::context::Context;
use crate::entitlement::feature::check_key;
use crate::entitlement::{
    ContinueEntitlements, ENDED_MAX, EntitledFeature, Entitlements, GRANTS_MAX, Grant,
    GrantFeature, GrantSource, GrantedFeature, LISTED_MAX, LivePurchase, RevokeGrant,
};
use crate::reply::{EntitlementReply, Outcome};
use crate::rows::Keyed;
use crate::state::State;
use crate::timer::rules as timer;
use crate::timer::{Timer, TimerKey, TimerKind};
use crate::{
    Accepted, AccountId, AccountRejection, EntitlementRejection as R, Event, Rejection, Reply,
    Revision,
};

const fn timer_of(account: AccountId) -> TimerKey {
    TimerKey::of_account(TimerKind::Entitlements, account)
}

/// The entitlements of an account as the command leaves them, to be changed and [`put`].
pub(crate) fn of_account(state: &State, account: AccountId, cx: &Context) -> Entitlements {
    let written = cx.newest::<Entitlements>(&(cx.tenant, account));
    let known = written.or_else(|| state.entitlements(cx.tenant, account)).cloned();
    known.unwrap_or_else(|| Entitlements::none_of(cx.tenant, account, Revision::first(cx.seq)))
}

/// Writes what an account has from now on, where it changed, without grants and purchases that expired for good. Gives
/// it its version, adds the events, and sets its timer.
pub(crate) fn put(state: &State, after: Entitlements, cx: &mut Context) {
    let written = cx.newest::<Entitlements>(&after.key()).cloned();
    match &written {
        Some(written) => put_over(Some(written), after, cx),
        None => put_over(state.entitlements(cx.tenant, after.account_id), after, cx),
    }
}

/// As [`put`], over what is known: nothing, of an account that the command makes.
pub(crate) fn put_over(known: Option<&Entitlements>, mut after: Entitlements, cx: &mut Context) {
    let account = after.account_id;
    let before = known.map_or(&[][..], |it| &it.grants);
    forget_ended(&mut after, cx);
    after.bought.retain(|_, it| !it.paid.is_empty() || !it.live.is_empty());
    let named = |it: &Grant| GrantedFeature { grant: it.id, feature: it.feature.clone() };
    let lacks = |all: &[Grant], it: &Grant| !all.iter().any(|other| other.id == it.id);
    let granted: Vec<_> = after.grants.iter().filter(|it| lacks(before, it)).map(named).collect();
    let timer_was_at = known.and_then(|it| it.due);
    // What was over when this was written last is no news: the timer was set for what ended next.
    let is_news = |it: &Grant| timer_was_at.zip(it.until).is_some_and(|(due, until)| due <= until);
    let is_over = |it: &Grant| it.term().is_over(cx.now);
    let expired: Vec<&Grant> = before.iter().filter(|it| is_over(it) && is_news(it)).collect();
    let gone = before.iter().filter(|it| lacks(&after.grants, it));
    let revoked: Vec<&Grant> = gone.filter(|it| !is_over(it)).collect();
    let has_begun =
        |it: &Grant| timer_was_at.is_some_and(|due| due <= it.from) && it.from <= cx.now;
    let begins = before.iter().any(has_begun);
    // The same grant for another time, or by another phase of a plan.
    let is_other = |it: &Grant| before.iter().any(|known| known.id == it.id && known != it);
    let has_other_grants = after.grants.iter().any(is_other);
    let has_other_users = known.map_or(0, |it| it.users_version) != after.users_version;
    if begins
        || has_other_grants
        || has_other_users
        || !granted.is_empty()
        || !expired.is_empty()
        || !revoked.is_empty()
    {
        after.version += 1;
        after.changed_at = cx.now;
        let event = |grants: Vec<&Grant>| grants.into_iter().map(named).collect::<Vec<_>>();
        let (expired, revoked) = (event(expired), event(revoked));
        if !granted.is_empty() {
            cx.event(Event::EntitlementsGranted { account, grants: granted });
        }
        if !revoked.is_empty() {
            cx.event(Event::EntitlementsRevoked { account, grants: revoked });
        }
        if !expired.is_empty() {
            cx.event(Event::EntitlementsExpired { account, grants: expired });
        }
        cx.event(changed(&after, cx));
    }
    after.due = after.next_due(cx.now);
    if after.due != timer_was_at {
        set_timer(&after, cx);
    }
    if known != Some(&after) {
        after.revision = known.map_or(Revision::first(cx.seq), |it| it.revision.next(cx.seq));
        cx.change(EntitlementChange::Entitlements(Box::new(after)));
    }
}

/// Leaves out what is over and stays so: a clock that is ahead of real time may be set back, and then the account has
/// again what it paid for. The newest of those are kept.
fn forget_ended(after: &mut Entitlements, cx: &Context) {
    let (now, earliest) = (cx.now, cx.earliest());
    let is_over = |it: &Grant| it.term().is_over(now);
    after.grants.retain(|it| !it.term().is_over(earliest));
    forget_oldest(&mut after.grants, is_over);
    for bought in after.bought.values_mut() {
        let is_over = |it: &LivePurchase, at| it.term.is_some_and(|term| term.is_over(at));
        bought.live.retain(|it| !is_over(it, earliest));
        forget_oldest(&mut bought.live, |it| is_over(it, now));
    }
}

fn forget_oldest<T>(all: &mut Vec<T>, is_over: impl Fn(&T) -> bool) {
    let mut excess = all.iter().filter(|it| is_over(it)).count().saturating_sub(ENDED_MAX);
    all.retain(|it| {
        let is_excess = excess > 0 && is_over(it);
        excess -= usize::from(is_excess);
        !is_excess
    });
}

fn changed(after: &Entitlements, cx: &Context) -> Event {
    let has = after.at(cx.now);
    let total = has.len();
    let features = has.into_iter().take(LISTED_MAX).map(|(feature, it)| EntitledFeature {
        feature: feature.to_owned(),
        value: it.value,
        until: it.until,
    });
    let (account, version, features) = (after.account_id, after.version, features.collect());
    Event::EntitlementsChanged { account, version, features, total }
}

fn set_timer(it: &Entitlements, cx: &mut Context) {
    let (tenant, key, account) = (it.tenant, timer_of(it.account_id), it.account_id);
    cx.change(match it.due {
        Some(due) => TimerChange::Set(Timer { tenant, key, account, due }),
        None => TimerChange::Cleared(key),
    });
}

pub(crate) fn grant(state: &State, it: &GrantFeature, cx: &mut Context) -> Outcome {
    if state.account(cx.tenant, it.account).is_none() {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    }
    refuse_closed(state, it.account, ClosedTo::Entitlements, cx)?;
    let feature = state.feature(cx.tenant, &it.feature).filter(|it| !it.archived);
    let Some(feature) = feature else {
        return Err(R::FeatureNotFound { key: it.feature.clone() }.into());
    };
    if let Some(reason) = feature.terms.kind.refuses(&it.value) {
        return Err(Rejection::invalid("value", reason));
    }
    check_key("reason", &it.reason)?;
    let from = it.from.unwrap_or(cx.now);
    if from < cx.now {
        return Err(Rejection::invalid("from", "is in the past"));
    }
    if it.until.is_some_and(|until| until <= from) {
        return Err(Rejection::invalid("until", "should be in the future, and after from"));
    }
    let mut after = of_account(state, it.account, cx);
    if after.grants_at(cx.now) >= GRANTS_MAX {
        return Err(R::TooMany { what: "grants".to_owned(), most: GRANTS_MAX }.into());
    }
    let grant = Grant {
        id: cx.mint(),
        feature: it.feature.clone(),
        value: it.value.clone(),
        terms: feature.terms.clone(),
        source: GrantSource::Manual { reason: it.reason.clone() },
        from,
        until: it.until,
    };
    let id = grant.id;
    after.grants.push(grant);
    put(state, after, cx);
    Ok(Accepted::now(Reply::Entitlement(EntitlementReply::Granted(id))))
}

pub(crate) fn revoke(state: &State, it: &RevokeGrant, cx: &mut Context) -> Outcome {
    let mut after = of_account(state, it.account, cx);
    let found = after.grants.iter().position(|grant| grant.id == it.grant);
    let Some(at) = found.filter(|at| !after.grants[*at].term().is_over(cx.now)) else {
        return Err(R::GrantNotFound { id: it.grant }.into());
    };
    if let Some(purchase) = after.grants[at].purchase() {
        return Err(R::GrantOfPurchase { id: it.grant, purchase }.into());
    }
    if let Some(subscription) = after.grants[at].subscription() {
        return Err(R::GrantOfSubscription { id: it.grant, subscription }.into());
    }
    after.grants.remove(at);
    put(state, after, cx);
    Ok(Accepted::now(Reply::Done))
}

/// The timer of an account's entitlements is due.
pub(crate) fn proceed(state: &State, it: &ContinueEntitlements, cx: &mut Context) -> Outcome {
    if timer::take(state, (timer_of(it.account), it.due), cx) {
        put(state, of_account(state, it.account, cx), cx);
    }
    Ok(Accepted::now(Reply::Done))
}

/// Ends all that a closed account was granted. What it is still paying for is never granted.
pub(crate) fn end_all(state: &State, account: AccountId, cx: &mut Context) {
    let mut after = of_account(state, account, cx);
    if after.version == 0 && after.bought.is_empty() {
        return;
    }
    after.grants.clear();
    for bought in after.bought.values_mut() {
        bought.live.retain(|it| it.term.is_none());
    }
    put(state, after, cx);
}

#[cfg(test)]
mod tests;
