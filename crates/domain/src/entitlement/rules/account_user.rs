//! Users of accounts: which keys of users an account has besides its own.

use std::collections::BTreeSet;

use crate::change::{ClaimChange, EntitlementChange};
use crate::context::Context;
use crate::entitlement::account_user::{
    ChangedUsers, SetAccountUsers, USER_CHARS_MAX, USERS_MAX, spelled_account, user_claim,
};
use crate::entitlement::rules::entitlement;
use crate::flag::definition::Expected;
use crate::reply::{EntitlementReply, Outcome};
use crate::state::State;
use crate::{Accepted, Account, AccountRejection, EntitlementRejection as R, Rejection, Reply};

pub(crate) fn set(state: &State, it: &SetAccountUsers, cx: &mut Context) -> Outcome {
    let Some(account) = state.account(cx.tenant, it.account) else {
        return Err(AccountRejection::NotFound { id: it.account }.into());
    };
    let version = entitlement::of_account(state, account.id, cx).users_version;
    let is_expected = match it.expected {
        Expected::Anything => true,
        Expected::Nothing => version == 0,
        Expected::Version(expected) => version == expected,
    };
    if !is_expected {
        let (what, key) = ("list of users of".to_owned(), account.id.to_string());
        return Err(R::Changed { what, key, version: Some(version) }.into());
    }
    if it.users.len() > USERS_MAX {
        return Err(Rejection::invalid("users", "should be 10000 at most"));
    }
    for (at, user) in it.users.iter().enumerate() {
        let (field, length) = (format!("users[{at}]"), user.chars().count());
        if !(1..=USER_CHARS_MAX).contains(&length) || user.chars().any(char::is_control) {
            let reason = "should have 1 to 255 characters, none of which controls";
            return Err(Rejection::invalid(&field, reason));
        }
        if is_of_another(state, account, user, cx) {
            return Err(R::UserTaken { field }.into());
        }
    }
    let wanted: BTreeSet<&String> = it.users.iter().collect();
    let known = state.account_users(cx.tenant, account.id);
    let mapped = wanted.iter().filter(|it| !known.contains(**it)).map(|it| (*it).clone());
    let unmapped = known.iter().filter(|it| !wanted.contains(it)).cloned();
    let version = change(state, account, (mapped.collect(), unmapped.collect()), cx);
    Ok(Accepted::now(Reply::Entitlement(EntitlementReply::Put { version })))
}

/// Whether another account has the key: as its id, its external key, its customer's id, or that of its user.
fn is_of_another(state: &State, account: &Account, user: &str, cx: &Context) -> bool {
    let claim = state.claim(&user_claim(cx.tenant, user));
    let spelled = spelled_account(user).filter(|id| *id != account.id);
    claim.is_some_and(|it| it.owner != account.id.uuid())
        || spelled.is_some_and(|id| state.account(cx.tenant, id).is_some())
}

/// Unmaps all users of an account whose person is erased. `before` is the account as it was.
pub(crate) fn erase(state: &State, before: &Account, cx: &mut Context) {
    let unmapped = state.account_users(cx.tenant, before.id).iter().cloned().collect();
    change(state, before, (vec![], unmapped), cx);
}

/// Writes which users an account got and lost; returns the version of the list.
fn change(
    state: &State,
    account: &Account,
    (mapped, unmapped): (Vec<String>, Vec<String>),
    cx: &mut Context,
) -> i64 {
    let mut after = entitlement::of_account(state, account.id, cx);
    if mapped.is_empty() && unmapped.is_empty() {
        return after.users_version;
    }
    for user in &mapped {
        let claim = user_claim(cx.tenant, user);
        if state.claim(&claim).is_none() {
            cx.claim(claim, account.id.uuid(), Some(account.id));
        }
    }
    // The claim on its external key is the account's for ever.
    for user in unmapped.iter().filter(|it| account.external_key.as_ref() != Some(*it)) {
        cx.change(ClaimChange::Released { key: user_claim(cx.tenant, user) });
    }
    let (tenant, id) = (cx.tenant, account.id);
    let changed = ChangedUsers { tenant, account: id, mapped, unmapped };
    cx.change(EntitlementChange::Users(Box::new(changed)));
    after.users_version += 1;
    let version = after.users_version;
    entitlement::put(state, after, cx);
    version
}

#[cfg(test)]
mod tests;
