//! The references of earlier transactions that a gateway is given.

use super::*;
use crate::effect::REFERENCES_MAX;

/// The references that the last step's call has, as `OPERATION NAME`.
fn references(script: &str) -> Vec<String> {
    let mut world = World::new();
    world.rows.settings.transactions_per_payment_max = 100;
    let (steps, last) = script.rsplit_once(" | ").unwrap_or(("", script));
    for step in steps.split(" | ").filter(|it| !it.is_empty()) {
        world.step(step);
    }
    let words: Vec<&str> = last.split(' ').collect();
    let executed = world.rows.run(world.command(words[0], words[1], &words[2..])).unwrap();
    let [Effect::CallGateway(call)] = &executed.done.effects[..] else { panic!("{executed:?}") };
    let shown = call
        .references
        .iter()
        .map(|it| format!("{:?} {}", it.operation, it.first.as_deref().unwrap_or_default()));
    shown.collect()
}

#[test]
fn a_call_names_the_attempt_and_what_succeeded_since() {
    assert!(references("authorize p 10").is_empty());
    let authorized = "authorize p 10 | approve p ref=a";
    assert_eq!(references(&format!("{authorized} | void p")), ["Authorize a"]);
    let captured = format!("{authorized} | capture p 6 | approve p #2 ref=b");
    assert_eq!(references(&format!("{captured} | capture p 4")), ["Authorize a", "Capture b"]);
    assert_eq!(references(&format!("{captured} | refund p 4")), ["Authorize a", "Capture b"]);
    // What failed names nothing that could be built on.
    let declined = format!("{authorized} | capture p 6 | decline p #2 ref=b");
    assert_eq!(references(&format!("{declined} | capture p 6")), ["Authorize a"]);
}

#[test]
fn a_completion_names_the_transaction_itself() {
    assert_eq!(references("purchase p 10 | pend p ref=a | complete p"), ["Purchase a"]);
}

#[test]
fn another_attempt_names_nothing_of_the_one_that_failed() {
    assert!(references("purchase p 10 | decline p ref=a | purchase p 10").is_empty());
    let other = "purchase p 10 | decline p ref=a | purchase p 10 other | approve p #2 ref=b";
    assert_eq!(references(&format!("{other} | refund p 10")), ["Purchase b"]);
}

#[test]
fn of_many_the_attempt_and_the_latest_are_named() {
    let mut script = "authorize p 100 | approve p ref=0".to_owned();
    for number in 1..=20 {
        script += &format!(" | capture p 1 | approve p #{} ref={number}", number + 1);
    }
    let named = references(&format!("{script} | refund p 1"));
    assert_eq!(named.len(), REFERENCES_MAX);
    assert_eq!((&*named[0], &*named[1]), ("Authorize 0", "Capture 6"));
    assert_eq!(named.last().unwrap(), "Capture 20");
}
