//! Next actions of customers: stored while the transaction is pending, and given up after a time.

use super::*;
use crate::payment::ExpireAction;
use crate::timer::{Timer, TimerKind};

const TIMEOUT_S: i64 = 86_400;

/// A world whose gateway `remote` waits for customers.
fn world(script: &str) -> World {
    let mut world = World::new();
    let remote = world.rows.settings.gateways.get_mut("remote").unwrap();
    remote.action_timeout_us = Some(TIMEOUT_S * Timestamp::SECOND_US);
    for step in script.split(" | ") {
        world.step(step);
    }
    world
}

fn timers(world: &World) -> Vec<Timer> {
    world.rows.state.timers.iter().cloned().collect()
}

fn next_action(world: &World) -> Option<String> {
    let awaited = world.rows.state.payment.outstanding.values();
    awaited.filter_map(|it| it.next_action.clone()).next()
}

/// Fires the only timer, when it is due.
fn expire(world: &mut World) -> crate::Executed {
    let [timer] = &timers(world)[..] else { panic!("{:?}", timers(world)) };
    assert_eq!(timer.key.kind, TimerKind::PaymentAction);
    world.rows.now = timer.due.0;
    let (payment, transaction) = (world.payments["p"], TransactionId::new(timer.key.object));
    let it = ExpireAction { payment, transaction, due: timer.due };
    let command = Command::Payment(PaymentCommand::ExpireAction(it));
    let executed = world.rows.run(command.clone()).unwrap();
    let again = world.rows.run(command).unwrap();
    assert_eq!(again.done.changes, [], "a timer fires once");
    executed
}

#[test]
fn it_is_kept_until_the_outcome_is_known() {
    let mut world = world("purchase p 10 | pend p action=sealed");
    assert_eq!(next_action(&world).as_deref(), Some("sealed"));
    world.step("found-pending p");
    assert_eq!(next_action(&world).as_deref(), Some("sealed"), "nothing new was said");
    world.step("found-paid p");
    assert_eq!(next_action(&world), None);
}

#[test]
fn one_that_only_an_inquiry_tells_is_kept_too() {
    let world = world("purchase p 10 | timeout p | found-pending p action=sealed");
    assert_eq!(next_action(&world).as_deref(), Some("sealed"));
    assert_eq!(timers(&world).len(), 1);
}

#[test]
fn a_declined_transaction_waits_for_nobody() {
    let world = world("purchase p 10 | decline p action=sealed");
    assert_eq!((next_action(&world), timers(&world).len()), (None, 0));
}

#[test]
fn a_customer_who_does_nothing_is_given_up() {
    let mut world = world("purchase p 10 | pend p ref=a action=sealed");
    let began = world.rows.now;
    let executed = expire(&mut world);
    assert_eq!(world.rows.now - began, TIMEOUT_S * Timestamp::SECOND_US);
    let [Effect::CallGateway(call)] = &executed.done.effects[..] else { panic!("{executed:?}") };
    assert_eq!(call.properties, [("cancel".to_owned(), "true".to_owned())]);
    assert_eq!(call.references[0].first.as_deref(), Some("a"));
    world.step("decline p");
    let status = world.file(world.payments["p"]).transactions[0].status;
    assert_eq!(status, TransactionStatus::PaymentFailure);
}

#[test]
fn a_completion_does_not_take_the_secret_back() {
    let mut world = world("purchase p 10 | pend p action=sealed");
    let due = timers(&world)[0].due;
    for step in ["complete p", "timeout p", "found-pending p"] {
        world.step(step);
        assert_eq!(next_action(&world).as_deref(), Some("sealed"), "{step}");
    }
    assert_eq!(timers(&world)[0].due, due, "it is not waited for longer");
}

#[test]
fn giving_up_is_tried_again_where_the_gateway_was_not_reached() {
    let mut world = world("purchase p 10 | pend p action=sealed");
    expire(&mut world);
    world.step("unsent p");
    assert_eq!(expire(&mut world).done.effects.len(), 1);
    world.step("decline p");
    assert!(expire(&mut world).done.effects.is_empty());
    assert_eq!(timers(&world).len(), 0);
}

#[test]
fn what_another_success_superseded_is_given_up_too() {
    let mut world =
        world("purchase p 10 | decline p | purchase p 10 | pend p action=sealed | found-paid p #1");
    let executed = expire(&mut world);
    let [Effect::CallGateway(call)] = &executed.done.effects[..] else { panic!("{executed:?}") };
    assert_eq!(call.properties, [("cancel".to_owned(), "true".to_owned())]);
}

#[test]
fn a_completion_that_runs_when_the_time_is_up_only_puts_giving_up_off() {
    for ending in ["unsent p", "timeout p | found-pending p"] {
        let mut world = world("purchase p 10 | pend p action=sealed | complete p");
        let executed = expire(&mut world);
        assert!(executed.done.effects.is_empty());
        ending.split(" | ").for_each(|step| drop(world.step(step)));
        assert_eq!(expire(&mut world).done.effects.len(), 1, "{ending}");
    }
}

#[test]
fn what_has_an_outcome_is_left_alone() {
    let mut world = world("purchase p 10 | pend p action=sealed | found-paid p");
    let executed = expire(&mut world);
    assert!(executed.done.effects.is_empty());
    assert_eq!(timers(&world).len(), 0);
}

#[test]
fn while_another_operation_runs_giving_up_is_put_off() {
    let steps =
        "authorize p 10 | approve p ref=a | capture p 4 | pend p #2 action=sealed | capture p 4";
    let mut world = world(steps);
    let executed = expire(&mut world);
    assert!(executed.done.effects.is_empty());
    let [timer] = &timers(&world)[..] else { panic!("{:?}", timers(&world)) };
    assert_eq!(timer.due.0 - world.rows.now, 60 * Timestamp::SECOND_US);
}
