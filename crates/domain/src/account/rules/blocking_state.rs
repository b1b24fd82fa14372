//! Blocking states: recorded, and an account closed by one of them.

use std::collections::BTreeMap;

use crate::account::blocking_state::{
    ACCOUNT_SERVICE, AddBlockingState, Blockable, BlockingState, Blocks, CLOSED, CloseAccount,
    NAME_CHARS_MAX, SERVICE_CHARS_MAX, STATES_PER_ACCOUNT_MAX,
};
use crate::billing::rules as billing;
use crate::change::AccountChange;
use crate::context::Context;
use crate::entitlement::rules::entitlement;
use crate::entitlement::rules::usage;
use crate::payment::rules::attempt;
use crate::reply::Outcome;
use crate::rows::PartsOf;
use crate::state::State;
use crate::{
    Accepted, AccountId, AccountRejection, BillingRejection, Event, Rejection, Reply, Revision,
    Timestamp,
};

type Known = PartsOf<BlockingState>;

pub(crate) fn close(state: &State, it: &CloseAccount, cx: &mut Context) -> Outcome {
    refuse_unknown(state, it.account, cx)?;
    let mut is_closing = false;
    if !state.is_closed(cx.tenant, it.account) {
        let closing = AddBlockingState {
            account: it.account,
            of: Blockable::Account,
            service: ACCOUNT_SERVICE.to_owned(),
            name: CLOSED.to_owned(),
            blocks: Blocks { change: true, ..Blocks::default() },
            effective_at: None,
        };
        let known = state.blocking_states(cx.tenant, it.account);
        if let Some(place) = place(known, &closing, cx) {
            record(known, &closing, (place, false), cx);
            entitlement::end_all(state, it.account, cx);
            usage::end_all(state, it.account, cx);
            is_closing = true;
        }
    }
    if it.cancel_subscriptions {
        billing::cancel_all(state, it.account, cx);
    } else if is_closing {
        billing::end_features(state, it.account, cx);
    }
    if it.remove_future_notifications {
        for attempt in state.scheduled_attempts(cx.tenant, it.account) {
            attempt::cancel(attempt, cx);
        }
    }
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn add(state: &State, it: &AddBlockingState, cx: &mut Context) -> Outcome {
    refuse_unknown(state, it.account, cx)?;
    let has_length = |text: &str, max| (1..=max).contains(&text.chars().count());
    if !has_length(&it.name, NAME_CHARS_MAX) {
        return Err(Rejection::invalid("stateName", "should have 1 to 50 characters"));
    }
    if !has_length(&it.service, SERVICE_CHARS_MAX) {
        return Err(Rejection::invalid("service", "should have 1 to 255 characters"));
    }
    if it.service == ACCOUNT_SERVICE && it.effective_at.is_some() {
        let reason = "cannot be given for account-service: its states hold from now on";
        return Err(Rejection::invalid("requestedDate", reason));
    }
    if it.service == ACCOUNT_SERVICE && !it.of.is_account() {
        return Err(Rejection::invalid("service", "account-service has states of accounts only"));
    }
    refuse_unknown_part(state, it, cx)?;
    let known = state.blocking_states(cx.tenant, it.account);
    if let Some(place) = place(known, it, cx) {
        if known.len() >= STATES_PER_ACCOUNT_MAX {
            return Err(Rejection::invalid("stateName", "the account has 1000 states already"));
        }
        let effective_at = place.effective_at;
        let account = state.account(cx.tenant, it.account);
        let is_billed = account.is_some_and(|it| it.currency.is_some());
        record(known, it, (place, is_billed), cx);
        if it.closes() {
            entitlement::end_all(state, it.account, cx);
            usage::end_all(state, it.account, cx);
        }
        billing::blocked(state, (it.account, it.of), effective_at, cx);
    }
    Ok(Accepted::now(Reply::Done))
}

fn refuse_unknown(state: &State, id: AccountId, cx: &Context) -> Result<(), Rejection> {
    match state.account(cx.tenant, id) {
        Some(_) => Ok(()),
        None => Err(AccountRejection::NotFound { id }.into()),
    }
}

fn refuse_unknown_part(
    state: &State,
    it: &AddBlockingState,
    cx: &Context,
) -> Result<(), Rejection> {
    let account = (cx.tenant, it.account);
    match it.of {
        Blockable::Account => Ok(()),
        Blockable::Bundle(bundle) => {
            let is_there = state.billing.bundles.of(&account).contains_key(&(cx.tenant, bundle));
            is_there.then_some(()).ok_or_else(|| BillingRejection::NoSuchBundle { bundle }.into())
        }
        Blockable::Subscription(subscription) => {
            let all = state.billing.subscriptions.of(&account);
            let is_there = all.contains_key(&(cx.tenant, subscription));
            let ended = || BillingRejection::NotChangeable { subscription }.into();
            is_there.then_some(()).ok_or_else(ended)
        }
    }
}

/// Where a new state comes among those of its service.
struct Place<'a> {
    effective_at: Timestamp,
    /// The same state, next in the order. It is no longer needed.
    superseded: Option<&'a BlockingState>,
}

/// The place of a state; `None` where the service has the same state then already.
fn place<'a>(known: &'a Known, it: &AddBlockingState, cx: &Context) -> Option<Place<'a>> {
    let is_of = |state: &&BlockingState| (state.of, &state.service) == (it.of, &it.service);
    let of_service = || known.values().filter(is_of);
    let effective_at = it.effective_at.unwrap_or_else(|| now(known, cx));
    let is_same = |state: &&BlockingState| state.name == it.name && state.blocks == it.blocks;
    let before = of_service().filter(|state| state.effective_at <= effective_at);
    if before.max_by_key(|state| state.order()).filter(is_same).is_some() {
        return None;
    }
    let after = of_service().filter(|state| state.effective_at > effective_at);
    let superseded = after.min_by_key(|state| state.order()).filter(is_same);
    Some(Place { effective_at, superseded })
}

/// The time, and not before an earlier state was recorded: a clock that was set back changes no order.
fn now(known: &Known, cx: &Context) -> Timestamp {
    known.values().map(|state| state.created_at).fold(cx.now, Timestamp::max)
}

fn record(
    known: &Known,
    it: &AddBlockingState,
    (place, is_billed): (Place<'_>, bool),
    cx: &mut Context,
) {
    let ordinal = known.values().map(|state| state.ordinal).max().unwrap_or(0).checked_add(1);
    let state = BlockingState {
        tenant: cx.tenant,
        id: cx.mint(),
        account: it.account,
        of: it.of,
        ordinal: ordinal.expect("an account has fewer states than a u32 counts"),
        service: it.service.clone(),
        name: it.name.clone(),
        blocks: it.blocks,
        effective_at: place.effective_at,
        active: true,
        created_at: now(known, cx),
        revision: Revision::first(cx.seq),
    };
    // The billing timer announces a state that begins later.
    if state.effective_at <= state.created_at || !is_billed {
        announce(known.values(), &state, cx);
    }
    cx.change(AccountChange::BlockingState(state));
    if let Some(superseded) = place.superseded {
        cx.change(AccountChange::BlockingState(BlockingState {
            active: false,
            revision: superseded.revision.next(cx.seq),
            ..superseded.clone()
        }));
    }
}

/// Says that a state holds, beside the other states of the same object.
pub(crate) fn announce<'a>(
    all: impl Iterator<Item = &'a BlockingState> + Clone,
    state: &'a BlockingState,
    cx: &mut Context,
) {
    let others = all.filter(|it| it.of == state.of && it.id != state.id);
    cx.event(Event::BlockingStateAdded {
        account: state.account,
        of: state.of,
        state: state.id,
        service: state.service.clone(),
        name: state.name.clone(),
        effective_at: state.effective_at,
        before: blocked(others.clone(), state.effective_at),
        after: blocked(others.chain([state]), state.effective_at),
    });
}

/// The combined blocks of the states of an object at a time: of each service the state that holds then.
pub(crate) fn blocked<'a>(
    states: impl Iterator<Item = &'a BlockingState>,
    at: Timestamp,
) -> Blocks {
    let mut holding: BTreeMap<&str, &BlockingState> = BTreeMap::new();
    for state in states.filter(|state| state.effective_at <= at) {
        let held = holding.entry(&state.service).or_insert(state);
        if held.order() < state.order() {
            *held = state;
        }
    }
    holding.values().fold(Blocks::default(), |all, state| all.or(state.blocks))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    use super::*;
    use crate::Command;
    use crate::change::Change;
    use crate::command::AccountCommand;
    use crate::testing::{Rows, TENANT};

    /// A state named `name` of `service`, that blocks what the letters of `blocks` say.
    fn state(account: AccountId, (service, name, blocks): (&str, &str, &str)) -> AddBlockingState {
        let has = |letter| blocks.contains(letter);
        AddBlockingState {
            account,
            of: Blockable::Account,
            service: service.to_owned(),
            name: name.to_owned(),
            blocks: Blocks { change: has('c'), entitlement: has('e'), billing: has('b') },
            effective_at: None,
        }
    }

    fn close(account: AccountId) -> AccountCommand {
        AccountCommand::Close(CloseAccount {
            account,
            remove_future_notifications: true,
            cancel_subscriptions: false,
        })
    }

    fn shown(blocks: Blocks) -> String {
        let letters = [(blocks.change, 'c'), (blocks.entitlement, 'e'), (blocks.billing, 'b')];
        letters.into_iter().filter(|(has, _)| *has).map(|(_, letter)| letter).collect()
    }

    /// Compares the states that are written and the events, or the refusal.
    fn check(rows: &mut Rows, command: AccountCommand, expected: Expect) {
        let shown = match rows.run(Command::Account(command)) {
            Ok(executed) => {
                let changes = executed.done.changes.iter().map(|it| {
                    let Change::Account(AccountChange::BlockingState(it)) = it else {
                        panic!("{it:?}")
                    };
                    let off = if it.active { "" } else { " off" };
                    format!("{}={}@{}#{}{off}", it.service, it.name, it.effective_at.0, it.ordinal)
                });
                let events = executed.done.events.iter().map(|it| {
                    let Event::BlockingStateAdded { before, after, .. } = it else {
                        panic!("{it:?}")
                    };
                    format!("[{}] -> [{}]", shown(*before), shown(*after))
                });
                changes.chain(events).collect::<Vec<_>>().join(", ")
            }
            Err(rejection) => rejection.to_string().replace(&account_text(rows), "ID"),
        };
        expected.assert_eq(&shown);
    }

    fn account_text(rows: &Rows) -> String {
        rows.state.account.accounts.keys().next().map(|(_, id)| id.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_state_is_recorded_once_and_at_its_time() {
        let mut rows = Rows::new();
        let account = rows.account();
        let add = |it| AccountCommand::AddBlockingState(it);
        let at = |it, at| {
            add(AddBlockingState { effective_at: Some(Timestamp(at)), ..state(account, it) })
        };
        rows.now = 100;
        check(&mut rows, add(state(account, ("s", "A", "eb"))), expect!["s=A@100#1, [] -> [eb]"]);
        check(&mut rows, add(state(account, ("s", "A", "eb"))), expect![[""]]);
        check(&mut rows, add(state(account, ("s", "A", "b"))), expect!["s=A@100#2, [eb] -> [b]"]);
        check(&mut rows, add(state(account, ("t", "A", "ce"))), expect!["t=A@100#3, [b] -> [ceb]"]);
        rows.now = 200;
        check(&mut rows, add(state(account, ("s", "B", ""))), expect!["s=B@200#4, [ceb] -> [ce]"]);
        check(
            &mut rows,
            at(("s", "B", ""), 150),
            expect!["s=B@150#5, s=B@200#4 off, [ceb] -> [ce]"],
        );
        check(&mut rows, at(("s", "B", ""), 160), expect![[""]]);
        check(&mut rows, at(("s", "Z", ""), 50), expect!["s=Z@50#6, [] -> []"]);
        check(&mut rows, at(("s", "C", "b"), 999), expect!["s=C@999#7, [ce] -> [ceb]"]);
        check(&mut rows, add(state(account, ("s", "B", ""))), expect![[""]]);
        assert!(!rows.state.is_closed(TENANT, account));
    }

    #[test]
    fn the_newest_state_of_the_account_service_closes_or_opens_an_account() {
        let mut rows = Rows::new();
        let account = rows.account();
        let add =
            |name| AccountCommand::AddBlockingState(state(account, (ACCOUNT_SERVICE, name, "c")));
        rows.now = 100;
        check(&mut rows, close(account), expect!["account-service=CLOSE_ACCOUNT@100#1, [] -> [c]"]);
        assert!(rows.state.is_closed(TENANT, account));
        check(&mut rows, close(account), expect![[""]]);
        check(&mut rows, add(CLOSED), expect![[""]]);
        // The clock was set back.
        rows.now = 50;
        check(&mut rows, add("OPEN"), expect!["account-service=OPEN@100#2, [c] -> [c]"]);
        assert!(!rows.state.is_closed(TENANT, account));
        check(&mut rows, add(CLOSED), expect!["account-service=CLOSE_ACCOUNT@100#3, [c] -> [c]"]);
        assert!(rows.state.is_closed(TENANT, account));
        let other = AccountCommand::AddBlockingState(state(account, ("s", "OPEN", "")));
        check(&mut rows, other, expect!["s=OPEN@100#4, [c] -> [c]"]);
        assert!(rows.state.is_closed(TENANT, account));
    }

    #[test]
    fn wrong_states_are_refused() {
        let mut rows = Rows::new();
        let account = rows.account();
        let mut refused = |it: AddBlockingState, expected| {
            check(&mut rows, AccountCommand::AddBlockingState(it), expected);
        };
        refused(
            state(account, ("s", "", "")),
            expect!["stateName: should have 1 to 50 characters"],
        );
        refused(
            state(account, ("s", &"a".repeat(51), "")),
            expect!["stateName: should have 1 to 50 characters"],
        );
        refused(state(account, ("", "A", "")), expect!["service: should have 1 to 255 characters"]);
        refused(
            state(account, (&"a".repeat(256), "A", "")),
            expect!["service: should have 1 to 255 characters"],
        );
        let of_account = state(account, (ACCOUNT_SERVICE, CLOSED, ""));
        let later = AddBlockingState { effective_at: Some(Timestamp(9)), ..of_account };
        refused(
            later,
            expect![
                "requestedDate: cannot be given for account-service: its states hold from now on"
            ],
        );
        let nobody = AccountId::new(Uuid::nil());
        refused(state(nobody, ("s", "A", "")), expect!["there is no account ID"]);
        check(&mut rows, close(nobody), expect!["there is no account ID"]);
    }

    #[test]
    fn an_account_with_all_states_it_can_have_can_be_closed() {
        let mut rows = Rows::new();
        let account = rows.account();
        for n in 0..STATES_PER_ACCOUNT_MAX {
            let name = format!("{n}");
            let it = AccountCommand::AddBlockingState(state(account, ("s", &name, "")));
            rows.run(Command::Account(it)).unwrap();
        }
        let add = |name| AccountCommand::AddBlockingState(state(account, ("s", name, "")));
        check(&mut rows, add("more"), expect!["stateName: the account has 1000 states already"]);
        check(&mut rows, add("999"), expect![[""]]);
        check(
            &mut rows,
            close(account),
            expect!["account-service=CLOSE_ACCOUNT@1000000000#1001, [] -> [c]"],
        );
        check(&mut rows, close(account), expect![[""]]);
    }
}
