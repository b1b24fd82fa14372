//! Outcomes that a gateway reports late, or otherwise than before: where the money is then, how much of it, and whose
//! key it has.

use crate::command::PaymentCommand;
use crate::payment::{
    GATEWAY_TEXT_MAX, GatewayAnswer, GatewayOutcome, GatewayReplied, GatewayStatus,
};
use expect_test::{Expect, expect};

use super::*;
use crate::payment::rules::gateway_text::gateway_text;

/// Runs the steps as [`check`] does, and shows the ways that the transactions of payment `p` took.
fn check_ways(script: &str, expected: Expect) {
    let mut world = World::new();
    run_script(script, |step| world.step(step));
    let file = world.file(world.payments["p"]);
    let way = |gateway: &str, method: PaymentMethodId| {
        assert_eq!(method, method_id(gateway));
        gateway.to_owned()
    };
    let mut ways = vec![way(&file.payment.gateway, file.payment.payment_method_id)];
    for it in &file.transactions {
        let way = way(&it.gateway, it.payment_method_id);
        ways.push(format!("{:?} {:?} {way}", it.kind, it.status));
    }
    let calls: String = world.calls.last().map(|it| format!(" -> {it}")).unwrap_or_default();
    expected.assert_eq(&(ways.join(", ") + &calls));
}

#[test]
fn late_news_is_booked() {
    check(
        "purchase p 10 | decline p | found-paid p",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        "purchase p 10 | approve p | found-declined p",
        expect!["Purchase PaymentFailure; gateway>customer 1000, customer>gateway 1000"],
    );
    check(
        "purchase p 10 | approve p | found-pending p",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        "authorize p 10 | approve p | capture p 4 | approve p | found-declined p",
        expect![
            "Capture PaymentFailure, authorized 1000; gateway>customer 400, customer>gateway 400"
        ],
    );
    check("purchase p 10 | decline p | timeout p", expect!["Purchase PaymentFailure; "]);
}

#[test]
fn an_answer_to_an_older_question_changes_no_end() {
    let heard = "purchase p 10 | timeout p | wait 100 |";
    check(
        &format!("{heard} found-declined p asked=1 | found-paid p asked=2"),
        expect!["Purchase PaymentFailure; "],
    );
    check(
        &format!("{heard} found-paid p asked=1 | found-declined p asked=2"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        &format!("{heard} found-declined p asked=1 | found-pending p asked=2"),
        expect!["Purchase PaymentFailure; "],
    );
    check(
        &format!("{heard} found-declined p asked=2 | found-paid p asked=1"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    // What is pending is open: it takes any news.
    check(
        &format!("{heard} found-pending p asked=1 | found-paid p asked=2"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
}

/// Runs the steps as [`check`] does, and shows how often payment `p` was asked about since its end, where it is to be
/// asked about again.
fn asked_again(script: &str) -> Option<u32> {
    let mut world = World::new();
    run_script(script, |step| world.step(step));
    let mut own = world.rows.state.payment.outstanding.values();
    let own = own.find(|it| it.payment_id == world.payments["p"])?;
    own.ask_at.map(|_| own.asked)
}

#[test]
fn what_is_said_to_have_ended_otherwise_is_asked_about_once_more() {
    let dropped = "purchase p 10 | timeout p | found-declined p asked=1 | found-paid p asked=2";
    assert_eq!(asked_again(dropped), Some(1));
    assert_eq!(asked_again(&format!("{dropped} | wait 2 | found-declined p")), None);
    let booked = "purchase p 10 | approve p | found-declined p";
    assert_eq!(asked_again(booked), Some(1));
    assert_eq!(asked_again(&format!("{booked} | wait 2 | found-declined p")), None);
    assert_eq!(asked_again(&format!("{booked} | wait 2 | not-found p")), None);
    // One that never says the same twice is asked as long as the schedule lasts.
    let flipped = format!("{booked} | wait 2 | found-paid p");
    assert_eq!(asked_again(&flipped), Some(2));
    assert_eq!(asked_again(&format!("{flipped} | wait 60 | found-declined p")), None);
    // What agrees, and what was open, is not asked about again.
    assert_eq!(asked_again("purchase p 10 | approve p | found-paid p"), None);
    assert_eq!(asked_again("purchase p 10 | timeout p | found-paid p"), None);
}

#[test]
fn a_clock_set_back_makes_nothing_older() {
    check(
        "purchase p 10 | timeout p | wait 100 | found-paid p | wait -50 | found-declined p",
        expect!["Purchase PaymentFailure; gateway>customer 1000, customer>gateway 1000"],
    );
}

#[test]
fn follow_up_goes_to_the_gateway_that_holds_the_money() {
    let tries = "authorize p 10 | decline p | authorize p 10 other";
    check_ways(
        &format!("{tries} | found-paid p #1 | decline p #2 | capture p 4"),
        expect![
            "remote, Authorize Success remote, Authorize PaymentFailure other, Capture InFlight remote -> remote at remote"
        ],
    );
    check_ways(
        &format!("{tries} | decline p | found-paid p #1 | capture p 4"),
        expect![
            "remote, Authorize Success remote, Authorize PaymentFailure other, Capture InFlight remote -> remote at remote"
        ],
    );
    check_ways(
        &format!("{tries} | approve p | capture p 4"),
        expect![
            "other, Authorize PaymentFailure remote, Authorize Success other, Capture InFlight other -> other at other"
        ],
    );
    check_ways(
        "authorize p 10 | timeout p | found-declined p | authorize p 10 other | timeout p \
         | found-declined p | found-paid p #1 | void p",
        expect![
            "remote, Authorize Success remote, Authorize PaymentFailure other, Void InFlight remote -> remote at remote"
        ],
    );
    check_ways(
        "purchase p 10 | decline p | purchase p 10 other | decline p | found-pending p #1 \
         | found-pending p | complete p",
        expect![
            "other, Purchase InFlight remote, Purchase PaymentFailure other -> remote at remote"
        ],
    );
    check_ways(
        "purchase p 10 | decline p | purchase p 10 other | approve p \
         | found-paid p #1 | found-declined p #2",
        expect!["remote, Purchase Success remote, Purchase PaymentFailure other"],
    );
}

#[test]
fn money_in_two_places_is_kept_apart() {
    let both = |kind: &str| {
        format!("{kind} p 10 | decline p | {kind} p 10 other | approve p | found-paid p #1")
    };
    let held = both("authorize");
    check_ways(
        &format!("{held} | capture p 10"),
        expect![
            "other, Authorize Success remote, Authorize Success other, Capture InFlight other -> other at other"
        ],
    );
    check(
        &format!("{held} | capture p 11"),
        expect!["refused: amount: 11.00 exceeds the 10.00 left"],
    );
    check_ways(
        &format!("{held} | void p | approve p | void p"),
        expect![
            "other, Authorize Success remote, Authorize Success other, Void Success other, Void InFlight remote -> remote at remote"
        ],
    );
    check(&format!("{held} | void p | approve p"), expect!["Void Success, authorized 1000; "]);
    check(
        &format!("{held} | void p | approve p | void p | approve p | void p"),
        expect!["refused: Void from Void Success"],
    );
    check_ways(
        &format!("{held} | void p | approve p | capture p 10"),
        expect![
            "other, Authorize Success remote, Authorize Success other, Void Success other, Capture InFlight remote -> remote at remote"
        ],
    );
    let late = "authorize p 10 | decline p | authorize p 10 other | approve p | capture p 10 \
                | approve p | found-paid p #1";
    check_ways(
        &format!("{late} | refund p 10"),
        expect![
            "other, Authorize Success remote, Authorize Success other, Capture Success other, Refund InFlight other -> other at other"
        ],
    );
    check_ways(
        &format!("{late} | void p"),
        expect![
            "other, Authorize Success remote, Authorize Success other, Capture Success other, Void InFlight remote -> remote at remote"
        ],
    );
    let taken = both("purchase");
    check_ways(
        &format!("{taken} | refund p 10 | approve p | refund p 10"),
        expect![
            "other, Purchase Success remote, Purchase Success other, Refund Success other, Refund InFlight remote -> remote at remote"
        ],
    );
    check(
        &format!("{taken} | refund p 10 | approve p | refund p 10 | approve p | refund p 1"),
        expect!["refused: amount: 1.00 exceeds the 0.00 left"],
    );
    check_ways(
        &format!("{taken} | refund p 1 | approve p | chargeback p 10 key=c | reverse p key=c"),
        expect![
            "other, Purchase Success remote, Purchase Success other, Refund Success other, Chargeback Success remote, ChargebackReversal Success remote"
        ],
    );
}

/// Two authorizations for one order: a capture whose answer got lost is sent again without keys, and
/// must not take the order's money a second time, from the other one.
#[test]
fn captures_come_from_one_authorization() {
    let held = "authorize p 10 | decline p | authorize p 10 other | approve p | found-paid p #1";
    let taken = format!("{held} | capture p 10 | approve p");
    check(
        &format!("{taken} | capture p 10"),
        expect!["refused: amount: 10.00 exceeds the 0.00 left"],
    );
    check(
        &format!("{held} | capture p 4 | approve p | capture p 7"),
        expect!["refused: amount: 7.00 exceeds the 6.00 left"],
    );
    check(
        &format!("{taken} | refund p 10 | approve p | capture p 1"),
        expect!["refused: Capture from Refund Success"],
    );
    check(
        &format!("{held} | capture p 4 | pend p | capture p 10"),
        expect!["refused: amount: 10.00 exceeds the 6.00 left"],
    );
    // What was captured from the first one before the second was reported, goes on there.
    check_ways(
        "authorize p 10 | decline p | authorize p 5 other | decline p | found-paid p #1 \
         | capture p 4 | pend p | found-paid p #2 | capture p 2",
        expect![
            "other, Authorize Success remote, Authorize Success other, Capture Pending remote, Capture InFlight remote -> remote at remote"
        ],
    );
    // With the same gateway and method, too, one is not added to the other.
    let same = "authorize p 10 | decline p | authorize p 10 | approve p | found-paid p #1";
    check(
        &format!("{same} | capture p 11"),
        expect!["refused: amount: 11.00 exceeds the 10.00 left"],
    );
    check(
        &format!("{same} | capture p 10 | approve p | capture p 1"),
        expect!["refused: amount: 1.00 exceeds the 0.00 left"],
    );
    // Nor where a capture is reported that had failed before its authorization was voided.
    check(
        &format!(
            "{held} | capture p 10 | decline p | void p | approve p | found-paid p #3 | capture p 1"
        ),
        expect!["refused: amount: 1.00 exceeds the 0.00 left"],
    );
}

#[test]
fn late_outcome_hides_no_money() {
    let again = "authorize p 10 | decline p | authorize p 10 | approve p";
    let taken = format!("{again} | capture p 10 | approve p");
    for (since, left, refused) in [
        ("", 10, "Capture"),
        ("| refund p 4 | approve p", 6, "Refund"),
        ("| chargeback p 4 key=c | reverse p key=c", 10, "ChargebackReversal"),
    ] {
        let late = format!("{taken} {since} | found-paid p #1");
        let refused = format!("refused: Void from {refused} Success");
        assert_eq!(run(&format!("{late} | void p")), refused, "{since}");
        let refund = run(&format!("{late} | refund p {left}"));
        assert!(refund.starts_with("Refund InFlight"), "{since}: {refund}");
    }
    check(
        &format!("{taken} | found-paid p #1"),
        expect!["Authorize Success, authorized 2000, captured 1000; gateway>customer 1000"],
    );
    check(
        &format!("{taken} | found-paid p #1 | chargeback p 10"),
        expect![
            "Chargeback Success, authorized 2000, captured 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000"
        ],
    );
    check(
        &format!("{taken} | chargeback p 4 | found-paid p #1 | refund p 1"),
        expect!["refused: Refund from Chargeback Success"],
    );
    // A try that took money at once, and one that reserves, takes, or gives it.
    check_ways(
        "authorize p 10 | decline p | purchase p 10 | approve p | found-paid p #1 | refund p 10",
        expect![
            "remote, Authorize Success remote, Purchase Success remote, Refund InFlight remote -> remote at remote"
        ],
    );
    check_ways(
        "purchase p 10 | decline p | authorize p 10 | approve p | found-paid p #1 | refund p 10",
        expect![
            "remote, Purchase Success remote, Authorize Success remote, Refund InFlight remote -> remote at remote"
        ],
    );
    check_ways(
        "purchase p 10 | decline p | purchase p 10 | approve p | chargeback p 10 | found-paid p #1 | refund p 10",
        expect![
            "remote, Purchase Success remote, Purchase Success remote, Chargeback Success remote, Refund InFlight remote -> remote at remote"
        ],
    );
    check_ways(
        "credit p 10 | decline p | authorize p 10 | approve p | found-paid p #1 | capture p 10",
        expect![
            "remote, Credit Success remote, Authorize Success remote, Capture InFlight remote -> remote at remote"
        ],
    );
    // What is reserved after a void can be let go of, too.
    check_ways(
        &format!("{again} | void p | approve p | found-paid p #1 | void p"),
        expect![
            "remote, Authorize Success remote, Authorize Success remote, Void Success remote, Void InFlight remote -> remote at remote"
        ],
    );
}

/// A void that is reported after a capture, or before it: the money was taken.
#[test]
fn a_void_hides_no_money() {
    let failed =
        "authorize p 10 | decline p | authorize p 10 | approve p | capture p 4 | decline p";
    for script in
        ["void p | found-paid p #3 | approve p #4", "void p | approve p | found-paid p #3"]
    {
        for beside in ["", "| found-paid p #1"] {
            let both = format!("{failed} | {script} {beside}");
            let refund = run(&format!("{both} | refund p 4"));
            assert!(refund.starts_with("Refund InFlight"), "{both}: {refund}");
            let refused = "refused: amount: 1.00 exceeds the 0.00 left";
            assert_eq!(run(&format!("{both} | capture p 1")), refused, "{both}");
        }
    }
    // So it is where there is another place.
    check_ways(
        "authorize p 10 | decline p | authorize p 10 other | approve p | capture p 4 | decline p \
         | void p | approve p | found-paid p #3 | found-paid p #1 | refund p 4",
        expect![
            "other, Authorize Success remote, Authorize Success other, Capture Success other, Void Success other, Refund InFlight other -> other at other"
        ],
    );
    check_ways(
        "authorize p 10 | decline p | authorize p 10 other | approve p | capture p 4 | decline p \
         | void p | found-paid p #3 | approve p #4 | found-paid p #1 | refund p 4",
        expect![
            "other, Authorize Success remote, Authorize Success other, Capture Success other, Void Success other, Refund InFlight other -> other at other"
        ],
    );
}

#[test]
fn pending_transaction_is_not_resent_beside_a_success() {
    let booked_twice =
        "Purchase Success, purchased 2000; gateway>customer 1000, gateway>customer 1000";
    for method in ["", "other"] {
        let pending =
            format!("purchase p 10 key=a | decline p | purchase p 10 key=b {method} | pend p");
        let again = format!("purchase p 10 key=b {method}");
        // What the gateway makes of it is booked all the same, and a success that is taken back
        // leaves room for it.
        for (since, shown) in [
            ("complete p", "refused: Purchase from Purchase Success"),
            (&again, "refused: Purchase from Purchase Success"),
            ("refund p 10 | approve p #3 | complete p", "refused: Purchase from Refund Success"),
            ("found-paid p #2", booked_twice),
            ("paid p #2", booked_twice),
            (
                "found-declined p #1 | complete p",
                "Purchase InFlight, open; gateway>customer 1000, customer>gateway 1000",
            ),
        ] {
            assert_eq!(run(&format!("{pending} | found-paid p #1 | {since}")), shown, "{since}");
        }
    }
    let late = "authorize p 10 | decline p | authorize p 10 | pend p | found-paid p #1 | void p | approve p #3";
    check(&format!("{late} | complete p"), expect!["refused: Authorize from Void Success"]);
    // A failure that is undecided after all, and another one of its kind worked since.
    let undecided = |begun: &str, kind: &str, since: &str| {
        let amount = if kind == "void" { "" } else { "10" };
        format!(
            "{begun} p 10 | approve p | {kind} p {amount} | decline p | {since} | approve p \
             | found-pending p #2 | found-pending p #2"
        )
    };
    for (begun, kind, since, refused) in [
        ("authorize", "capture", "capture p 10", "amount: 10.00 exceeds the 0.00 left"),
        ("authorize", "capture", "capture p 4", "amount: 10.00 exceeds the 6.00 left"),
        ("authorize", "capture", "void p", "amount: 10.00 exceeds the 0.00 left"),
        ("authorize", "void", "capture p 10", "Void from Capture Success"),
        ("authorize", "void", "void p", "Void from Void Success"),
        ("purchase", "refund", "refund p 10", "amount: 10.00 exceeds the 0.00 left"),
        ("purchase", "refund", "refund p 4", "amount: 10.00 exceeds the 6.00 left"),
    ] {
        let undecided = undecided(begun, kind, since);
        let shown = run(&format!("{undecided} | complete p"));
        assert_eq!(shown, format!("refused: {refused}"), "{kind} beside {since}");
    }
    let undecided = undecided("authorize", "capture", "capture p 4");
    check(
        &format!("{undecided} | complete p 6"),
        expect!["Capture InFlight, authorized 1000, captured 400, open; gateway>customer 400"],
    );
}

#[test]
fn pending_transaction_at_one_gateway_blocks_no_other() {
    let held = "authorize p 10 | decline p | authorize p 10 other | approve p | found-paid p #1";
    let voiding = format!("{held} | capture p 10 | approve p | void p | pend p");
    check_ways(
        &format!("{voiding} | refund p 10"),
        expect![
            "other, Authorize Success remote, Authorize Success other, Capture Success other, Void Pending remote, Refund InFlight other -> other at other"
        ],
    );
    check_ways(
        &format!("{voiding} | chargeback p 10"),
        expect![
            "other, Authorize Success remote, Authorize Success other, Capture Success other, Void Pending remote, Chargeback Success other"
        ],
    );
    check(&format!("{voiding} | void p"), expect!["refused: Void from Void Pending"]);
    check_ways(
        &format!("{held} | void p | pend p | capture p 10"),
        expect![
            "other, Authorize Success remote, Authorize Success other, Void Pending other, Capture InFlight remote -> remote at remote"
        ],
    );
    check_ways(
        &format!("{held} | capture p 10 | pend p | void p"),
        expect![
            "other, Authorize Success remote, Authorize Success other, Capture Pending other, Void InFlight remote -> remote at remote"
        ],
    );
}

#[test]
fn missing_amount_means_the_requested_amount() {
    let completed = "purchase p 10 | pend p | complete p 5";
    for script in [
        "timeout p | found-paid p",
        "timeout p | fix p success",
        "decline p | found-paid p",
        "pend p | paid p",
        "pend p | complete p 3 | unsent p | paid p",
        "wait 31 | unreachable p | found-paid p",
        "timeout p | found-paid p 5",
    ] {
        check(
            &format!("{completed} | {script}"),
            expect!["Purchase Success, purchased 500; gateway>customer 500"],
        );
    }
    for script in [
        "timeout p | found-paid p 10",
        "unsent p | paid p",
        "unsent p | found-paid p",
        "pend p | complete p 10 | timeout p | found-paid p",
    ] {
        check(
            &format!("{completed} | {script}"),
            expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
        );
    }
}

#[test]
fn a_failure_that_may_be_none_is_asked_about() {
    let reopened = "purchase p 10 key=t | decline p | found-pending p";
    check(reopened, expect!["Purchase Unknown, open;  (in doubt)"]);
    check(&format!("{reopened} | found-declined p"), expect!["Purchase PaymentFailure; "]);
    check(&format!("{reopened} | found-pending p"), expect!["Purchase Pending, open; "]);
    check(
        &format!("{reopened} | found-paid p"),
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        &format!("{reopened} | wait 4 | not-found p"),
        expect!["Purchase Unknown, open;  (in doubt)"],
    );
    check(&format!("{reopened} | wait 5 | not-found p"), expect!["Purchase PluginFailure, open; "]);
    check(&format!("{reopened} | purchase p 10"), expect!["refused: Payment(InDoubt"]);
    check(&format!("{reopened} | purchase q 10 key=t"), expect!["refused: Payment(InDoubt"]);
    check(
        "purchase p 10 | unsent p | found-paid p 11",
        expect!["Purchase Unknown, open;  (in doubt)"],
    );
    // What the call itself answered is older than what was reported meanwhile.
    check("purchase p 10 | found-declined p | pend p", expect!["Purchase PaymentFailure; "]);
    check(
        "purchase p 10 | found-declined p | found-pending p | timeout p",
        expect!["Purchase Unknown, open;  (in doubt)"],
    );
}

#[test]
fn a_key_that_was_in_doubt_again_has_one_owner() {
    let again = "purchase p 10 key=t | decline p | purchase q 10 key=t external";
    check(
        &format!("{again} | found-pending p | purchase r 10 key=t"),
        expect!["refused: Payment(InDoubt"],
    );
    check(
        &format!("{again} | found-pending p | found-declined p | purchase r 10 key=t"),
        expect![
            "refused: transactionExternalKey: was in doubt again after it had failed: another key is needed"
        ],
    );
    check(
        &format!("{again} | found-pending p | found-pending p | purchase p 10 key=t"),
        expect![
            "refused: transactionExternalKey: was in doubt again after it had failed: another key is needed"
        ],
    );
    check(
        &format!("{again} | found-paid p | found-declined p | purchase r 10 key=t"),
        expect![
            "refused: transactionExternalKey: was in doubt again after it had failed: another key is needed"
        ],
    );
}

#[test]
fn an_id_is_the_key_of_what_has_none() {
    check(
        "purchase p 10 external | purchase q 10 key=@p",
        expect!["refused: Payment(TransactionKeySucceeded"],
    );
    check("purchase p 10 | timeout p | purchase q 10 key=@p", expect!["refused: Payment(InDoubt"]);
    check(
        "purchase p 10 key=t external | purchase q 10 key=@p external",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        "purchase p 10 | decline p | purchase q 10 key=@p external",
        expect!["Purchase Success, purchased 1000; gateway>customer 1000"],
    );
    check(
        "authorize p 10 external | authorize q 10 external | capture q 1 key=@p",
        expect!["refused: Payment(TransactionKeySucceeded"],
    );
}

#[test]
fn a_gateways_texts_are_bounded_and_hold_no_card_number() {
    let said = format!("card 4111 1111 1111 1111{}", "é".repeat(GATEWAY_TEXT_MAX));
    let text = Some(said.clone());
    let outcome = GatewayOutcome {
        status: GatewayStatus::Error,
        amount: None,
        currency: None,
        error_code: text.clone(),
        error_message: text.clone(),
        first_reference: text.clone(),
        second_reference: text,
        ..GatewayOutcome::new(GatewayStatus::Pending)
    };
    for answer in [
        GatewayAnswer::Outcome(outcome),
        GatewayAnswer::Failed { message: said.clone() },
        GatewayAnswer::not_reached(said),
    ] {
        let mut world = World::new();
        world.step("purchase p 10");
        let payment = world.payments["p"];
        let transaction = world.meant_transaction(payment, &[]);
        let replied =
            GatewayReplied { payment, transaction, answer, is_controlled: false, tries: None };
        let executed =
            world.rows.run(Command::Payment(PaymentCommand::GatewayReplied(replied))).unwrap();
        let it = world.file(payment).transaction(transaction).unwrap();
        let kept = [
            &it.gateway_error_code,
            &it.gateway_error_message,
            &it.first_reference,
            &it.second_reference,
        ];
        for kept in kept.into_iter().flatten() {
            assert!(kept.starts_with("card **** **** **** 1111é"), "{kept}");
            assert_eq!(kept.chars().count(), GATEWAY_TEXT_MAX);
        }
        assert!(it.gateway_error_message.is_some());
        // A reply is stored, too.
        assert!(!format!("{executed:?}").contains("4111"));
    }
}

#[test]
fn a_gateways_text_holds_no_nul() {
    assert_eq!(gateway_text("a\0b\n"), "a\u{fffd}b\n");
}

#[test]
fn a_gateways_text_is_looked_at_only_as_far_as_it_is_kept() {
    // A number across the cut is masked, whatever comes behind it.
    for before in [GATEWAY_TEXT_MAX - 37, GATEWAY_TEXT_MAX - 1] {
        let number = "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1";
        let said = format!("{}{number} {}", "é".repeat(before), "1 ".repeat(32 * 1024));
        let kept = gateway_text(&said);
        assert_eq!(kept.chars().nth(before), Some('*'), "{kept}");
        assert_eq!(kept.chars().count(), GATEWAY_TEXT_MAX);
    }
}
