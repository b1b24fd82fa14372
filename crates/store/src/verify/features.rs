//! What subscriptions were given of their plans' features, against the grants of their accounts and what they may have.

use std::sync::LazyLock;

use domain::account::blocking_state::BlockingState;
use domain::billing::account::AccountBilling;
use domain::billing::blocking::{blocks_at, states_of};
use domain::billing::subscription::Subscription;
use domain::entitlement::{Entitlements, Grant};
use domain::{SubscriptionId, Timestamp};
use engine::ports::StoreError;

use super::{Report, each_row};
use crate::driver::{Load, Reader};
use crate::tables::{self, ACCOUNT_BILLING, BLOCKING_STATE, ENTITLEMENTS, SUBSCRIPTION};

static GIVEN: LazyLock<String> =
    LazyLock::new(|| SUBSCRIPTION.select("WHERE given IS NOT NULL ORDER BY tenant, id"));
static SUBSCRIPTION_OF: LazyLock<String> =
    LazyLock::new(|| SUBSCRIPTION.select("WHERE tenant = ?1 AND id = ?2"));
static OF_ACCOUNT: LazyLock<String> =
    LazyLock::new(|| ENTITLEMENTS.select("WHERE tenant = ?1 AND account_id = ?2"));
static STATES_OF_ACCOUNT: LazyLock<String> =
    LazyLock::new(|| BLOCKING_STATE.select("WHERE tenant = ?1 AND account_id = ?2 AND active = 1"));
static BILLING_OF: LazyLock<String> =
    LazyLock::new(|| ACCOUNT_BILLING.select("WHERE tenant = ?1 AND account_id = ?2"));

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut entitled = reader.load(&OF_ACCOUNT)?;
    let (mut states, mut billing) = (reader.load(&STATES_OF_ACCOUNT)?, reader.load(&BILLING_OF)?);
    each_row(reader, report, (&SUBSCRIPTION, &GIVEN), |cells, report| {
        let it = tables::SUBSCRIPTION.row(cells)?;
        let of_account = [it.tenant.into(), it.account_id.into()];
        let entitlements = entitled.first(&of_account, |cells| tables::ENTITLEMENTS.row(cells))?;
        let mut problem = |what: &str| report.problem(SUBSCRIPTION.name, it.id, what);
        if has_ended(&it) {
            problem("has ended, and has features of its plan");
        }
        let in_effect = in_effect(&it, &mut states, &mut billing)?;
        if is_blocked(&it, &in_effect) {
            problem("is blocked, and has features of its plan");
        }
        if !has_what_it_was_given(&it, entitlements.as_ref()) {
            problem("has not the grants that it was given");
        }
        Ok(())
    })?;
    let mut subscriptions = reader.load(&SUBSCRIPTION_OF)?;
    each_row(reader, report, (&ENTITLEMENTS, &ENTITLEMENTS.select("")), |cells, report| {
        let it = tables::ENTITLEMENTS.row(cells)?;
        for id in subscriptions_of(&it) {
            let found = subscriptions
                .first(&[it.tenant.into(), id.into()], |cells| tables::SUBSCRIPTION.row(cells))?;
            let is_active =
                |of: &Subscription| of.account_id == it.account_id && of.given.is_some();
            if !found.as_ref().is_some_and(is_active) {
                let what = format!("has a grant of the subscription {id}, which has no features");
                report.problem(ENTITLEMENTS.name, it.account_id, what);
            }
        }
        Ok(())
    })
}

/// Whether the end of its entitlement has taken effect.
fn has_ended(it: &Subscription) -> bool {
    it.is_over || it.entitlement_ended || it.has_ended() && it.entitled_until.is_none()
}

/// The blocking states of its account that have taken effect.
fn in_effect(
    it: &Subscription,
    states: &mut Load<'_>,
    billing: &mut Load<'_>,
) -> Result<Vec<BlockingState>, StoreError> {
    let of_account = [it.tenant.into(), it.account_id.into()];
    let billing: Option<AccountBilling> =
        billing.first(&of_account, |cells| tables::ACCOUNT_BILLING.row(cells))?;
    let until = billing.and_then(|it| it.blocked_until);
    let mut found = vec![];
    states.rows(&of_account, &mut |cells| {
        let state = tables::BLOCKING_STATE.row(cells)?;
        let at = state.effective_at;
        if at <= state.created_at || until.is_some_and(|until| at <= until) {
            found.push(state);
        }
        Ok(())
    })?;
    Ok(found)
}

fn is_blocked(it: &Subscription, states: &[BlockingState]) -> bool {
    let newest = states.iter().filter(|it| it.closes().is_some()).max_by_key(|it| it.ordinal);
    newest.and_then(BlockingState::closes) == Some(true)
        || blocks_at(&states_of(states, Some(it)), Timestamp(i64::MAX)).entitlement
}

/// The grants of subscriptions that were not over when an account's changed last.
fn held(of: &Entitlements) -> impl Iterator<Item = (SubscriptionId, &Grant)> {
    let held = of.grants.iter().filter(|it| !it.term().is_over(of.changed_at));
    held.filter_map(|it| Some((it.subscription()?, it)))
}

fn has_what_it_was_given(it: &Subscription, of: Option<&Entitlements>) -> bool {
    let Some(given) = it.given else { return true };
    let grants = of.into_iter().flat_map(held).filter(|(id, _)| *id == it.id).count();
    let some_ended = of.is_some_and(|of| given.until.is_some_and(|until| until <= of.changed_at));
    grants == given.grants || some_ended && grants < given.grants
}

/// The subscriptions that an account has grants of.
fn subscriptions_of(of: &Entitlements) -> Vec<SubscriptionId> {
    let mut ids: Vec<SubscriptionId> = held(of).map(|(id, _)| id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
