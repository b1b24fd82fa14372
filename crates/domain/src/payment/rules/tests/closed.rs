//! A closed account: no payment starts, and what was begun goes on.

use super::*;

/// Runs the first steps, closes the account, and shows what each step after that comes to.
fn check(before: &str, after: &str, expected: Expect) {
    let mut world = World::new();
    for step in before.split('|') {
        world.step(step.trim());
    }
    world.rows.state.account.closed.insert((TENANT, account_id()));
    let shown: Vec<String> = after.split('|').map(|step| world.step(step.trim())).collect();
    expected.assert_eq(&shown.join("\n"));
}

#[test]
fn no_payment_starts() {
    check(
        "authorize failed 10 | decline failed",
        "authorize a 10 | purchase b 10 external | credit c 10 | authorize failed 10",
        expect![[r#"
            refused: Account(Closed
            refused: Account(Closed
            refused: Account(Closed
            refused: Account(Closed"#]],
    );
}

#[test]
fn what_was_begun_goes_on() {
    check(
        "authorize a 10 | approve a",
        "capture a 4 | approve a | refund a 1 | approve a | chargeback a 1",
        expect![[r#"
            Capture InFlight, authorized 1000, open; 
            Capture Success, authorized 1000, captured 400; gateway>customer 400
            Refund InFlight, authorized 1000, captured 400, open; gateway>customer 400
            Refund Success, authorized 1000, captured 400, refunded 100; gateway>customer 400, customer>refunds 100
            Chargeback Success, authorized 1000, captured 400, refunded 100, charged back 100; gateway>customer 400, customer>refunds 100, customer>disputes 100"#]],
    );
    check(
        "authorize a 10 | approve a",
        "void a | approve a",
        expect![[r#"
        Void InFlight, authorized 1000, open; 
        Void Success; "#]],
    );
    check(
        "purchase a 10",
        "timeout a | found-paid a",
        expect![[r#"
        Purchase Unknown, open;  (in doubt)
        Purchase Success, purchased 1000; gateway>customer 1000"#]],
    );
}

#[test]
fn what_is_pending_is_completed_also_by_the_request_that_began_it() {
    let begun = "purchase a 10 key=k | pend a";
    check(
        begun,
        "complete a | approve a",
        expect![[r#"
        Purchase InFlight, open; 
        Purchase Success, purchased 1000; gateway>customer 1000"#]],
    );
    check(
        begun,
        "purchase a 10 key=k | approve a",
        expect![[r#"
        Purchase InFlight, open; 
        Purchase Success, purchased 1000; gateway>customer 1000"#]],
    );
    check(
        begun,
        "unpaid a | purchase a 10 key=k",
        expect![[r#"
        Purchase PaymentFailure; 
        refused: Account(Closed"#]],
    );
}
