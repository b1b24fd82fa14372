//! Disputes: what is booked of them, when, and what becomes of the rest.

use expect_test::{Expect, expect};

use super::*;
use crate::Event;
use crate::command::PaymentCommand;
use crate::payment::dispute::{
    CHARGEBACKS_MAX, DISPUTES_PER_PAYMENT_MAX, Dispute, DisputeCase, DisputeSaid, DisputeStatus,
    DisputeTimer, RecordDispute,
};
use crate::timer::{TimerKey, TimerKind};

const DAY_US: i64 = 86_400 * Timestamp::SECOND_US;

/// Payments and their disputes.
struct Disputed {
    world: World,
    /// The events about disputes of the last step.
    events: Vec<String>,
}

/// Runs steps as the other tests do, and besides: `dispute PAYMENT CASE STATUS WITHDRAWN REINSTATED` (in major units;
/// options: `due=DAYS`, `in=CURRENCY`, `asked=SECONDS` ago, `by=GATEWAY`), `fire PAYMENT CASE` (the timers that are
/// due). Shows the payment, the dispute of the last step and what was reported.
fn check(script: &str, expected: Expect) {
    let mut disputed = Disputed { world: World::new(), events: vec![] };
    expected.assert_eq(&run_script(script, |step| disputed.step(step)));
}

impl Disputed {
    fn step(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split_whitespace().collect();
        match words[..] {
            ["dispute", name, case, status, ref rest @ ..] => {
                let record = self.record(name, (case, status), rest);
                self.run((name, case), Command::Payment(PaymentCommand::RecordDispute(record)))
            }
            ["fire", name, case] => self.fire(name, case),
            _ => self.world.step(step),
        }
    }

    fn record(
        &self,
        name: &str,
        (case, status): (&str, &str),
        rest: &[&str],
    ) -> Box<RecordDispute> {
        let option = |key: &str| rest.iter().find_map(|it| it.strip_prefix(key));
        let money = |at: usize| rest.get(at).and_then(|it| it.parse::<i64>().ok());
        let amount = |at: usize| AmountMinor(money(at).unwrap_or_default() * 100);
        let payment = self.world.payments[name];
        let now = self.world.rows.now;
        let due = option("due=").map(|it| it.parse::<i64>().unwrap());
        let asked = option("asked=").map_or(0, |it| it.parse::<i64>().unwrap());
        let file = self.world.file(payment);
        let first = file.transactions.first().unwrap();
        Box::new(RecordDispute {
            payment,
            transaction: first.id,
            case: DisputeCase::new(option("by=").unwrap_or(&first.gateway), case).unwrap(),
            said: DisputeSaid {
                status: DisputeStatus::named(status).unwrap(),
                reason: Some("fraudulent".to_owned()),
                amount: amount(0),
                currency: crate::Currency::parse(option("in=").unwrap_or("USD")).unwrap(),
                evidence_due_by: due.map(|days| Timestamp(now + days * DAY_US)),
                withdrawn: amount(0),
                reinstated: amount(1),
            },
            asked_at: Timestamp(now - asked * Timestamp::SECOND_US),
        })
    }

    fn dispute(&self, case: &str) -> Option<Dispute> {
        let mut all = self.world.rows.state.payment.disputes.iter();
        all.find(|it| it.case.case == case).cloned()
    }

    fn fire(&mut self, name: &str, case: &str) -> String {
        let dispute = self.dispute(case).unwrap();
        let mut shown = String::new();
        for kind in [TimerKind::DisputeBooking, TimerKind::DisputeEvidence] {
            let key = TimerKey { kind, object: dispute.id.uuid() };
            let timer = self.world.rows.state.timers.find(&(TENANT, key));
            let Some(due) = timer.map(|it| it.due).filter(|it| it.0 <= self.world.rows.now) else {
                continue;
            };
            let (payment, dispute, case_id) =
                (dispute.payment_id, dispute.id, dispute.case.clone());
            let timer = DisputeTimer { payment, dispute, case: case_id, due };
            let command = || match kind {
                TimerKind::DisputeBooking => PaymentCommand::BookDispute(timer.clone()),
                TimerKind::DisputeEvidence => PaymentCommand::WarnOfDispute(timer.clone()),
                TimerKind::PaymentRetry
                | TimerKind::PaymentAction
                | TimerKind::LateRefund
                | TimerKind::MethodStep
                | TimerKind::Entitlements
                | TimerKind::Billing
                | TimerKind::InvoicePayment => {
                    unreachable!("no timer of a dispute")
                }
            };
            shown = self.run((name, case), Command::Payment(command()));
            // The same firing comes again.
            let again = self.world.rows.run(Command::Payment(command())).unwrap();
            assert!(again.done.changes.is_empty(), "{:?}", again.done.changes);
        }
        shown
    }

    fn run(&mut self, (name, case): (&str, &str), command: Command) -> String {
        let executed = match self.world.rows.run(command) {
            Ok(executed) => executed,
            Err(rejection) => return refused(&rejection),
        };
        assert!(executed.done.effects.is_empty(), "no gateway is called");
        executed.done.changes.iter().for_each(|it| self.world.note(name, it));
        self.events = executed.done.events.iter().filter_map(reported).collect();
        let payment = self.world.show(name, "");
        let Some(it) = self.dispute(case) else { return payment };
        let booked = it.booked;
        let booked = [booked.charged_back, booked.reversed, booked.excess, booked.excess_returned];
        let booked = booked.map(|it| it.0.to_string()).join(" ");
        let waits = if it.booking_at.is_some() { ", waits" } else { "" };
        let events = self.events.join(", ");
        format!("{payment} / {} {booked}{waits} / {events}", it.status.name())
    }
}

fn reported(event: &Event) -> Option<String> {
    if let Event::DisputeExcess { amount, currency, .. } = event {
        return Some(format!("excess {} {}", amount.0, currency.code()));
    }
    if let Event::DisputeChanged { before, .. } = event {
        return Some(if before.is_none() { "recorded" } else { "changed" }.to_owned());
    }
    matches!(event, Event::DisputeEvidenceDue { .. }).then(|| "evidence due".to_owned())
}

const PAID: &str = "purchase p 10 | approve p";

fn check_paid(script: &str, expected: Expect) {
    check(&format!("{PAID} | {script}"), expected);
}

#[test]
fn what_is_withdrawn_is_charged_back_and_what_is_reinstated_reversed() {
    check_paid(
        "dispute p c NEEDS_RESPONSE 10 0",
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000 / NEEDS_RESPONSE 1000 0 0 0 / recorded"
        ],
    );
    check_paid(
        "dispute p c NEEDS_RESPONSE 10 0 | dispute p c WON 10 10",
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000 / WON 1000 1000 0 0 / changed"
        ],
    );
    check_paid(
        "dispute p c NEEDS_RESPONSE 10 0 | dispute p c LOST 10 0",
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000 / LOST 1000 0 0 0 / changed"
        ],
    );
    check_paid(
        "dispute p c WON 10 10",
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000 / WON 1000 1000 0 0 / recorded"
        ],
    );
    check_paid(
        "dispute p c NEEDS_RESPONSE 4 0 | dispute p c WON 4 1",
        expect![
            "ChargebackReversal Success, purchased 1000, charged back 300; gateway>customer 1000, customer>disputes 400, disputes>customer 100 / WON 400 100 0 0 / changed"
        ],
    );
}

#[test]
fn nothing_is_booked_twice_whatever_is_notified() {
    let twice = "dispute p c NEEDS_RESPONSE 10 0 | dispute p c NEEDS_RESPONSE 10 0";
    check_paid(
        twice,
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000 / NEEDS_RESPONSE 1000 0 0 0 / "
        ],
    );
    check_paid(
        "dispute p c NEEDS_RESPONSE 10 0 | dispute p c WON 10 10 | dispute p c WON 10 10",
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000 / WON 1000 1000 0 0 / "
        ],
    );
    // The answer to an earlier question comes later.
    check_paid(
        "dispute p c WON 10 10 | dispute p c NEEDS_RESPONSE 10 0 asked=5",
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000 / WON 1000 1000 0 0 / "
        ],
    );
    check_paid(
        "dispute p c NEEDS_RESPONSE 10 0 asked=5 | dispute p c WON 10 10",
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000 / WON 1000 1000 0 0 / changed"
        ],
    );
    // What moved in all does not fall.
    check_paid(
        "dispute p c WON 10 10 | dispute p c UNDER_REVIEW 0 0",
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000 / UNDER_REVIEW 1000 1000 0 0 / changed"
        ],
    );
}

#[test]
fn warnings_move_nothing_and_may_become_disputes() {
    check_paid(
        "dispute p c WARNING_NEEDS_RESPONSE 10 0",
        expect![
            "Purchase Success, purchased 1000; gateway>customer 1000 / WARNING_NEEDS_RESPONSE 0 0 0 0 / recorded"
        ],
    );
    check_paid(
        "dispute p c WARNING_NEEDS_RESPONSE 10 0 | dispute p c WARNING_CLOSED 10 10",
        expect![
            "Purchase Success, purchased 1000; gateway>customer 1000 / WARNING_CLOSED 0 0 0 0 / changed"
        ],
    );
    check_paid(
        "dispute p c WARNING_NEEDS_RESPONSE 10 0 | dispute p c NEEDS_RESPONSE 10 0",
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000 / NEEDS_RESPONSE 1000 0 0 0 / changed"
        ],
    );
}

#[test]
fn partial_and_repeated_disputes_charge_back_what_is_left() {
    check_paid(
        "dispute p c NEEDS_RESPONSE 4 0 | dispute p d NEEDS_RESPONSE 6 0",
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 400, customer>disputes 600 / NEEDS_RESPONSE 600 0 0 0 / recorded"
        ],
    );
    check_paid(
        "dispute p c WON 10 10 | dispute p d NEEDS_RESPONSE 10 0",
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000, customer>disputes 1000 / NEEDS_RESPONSE 1000 0 0 0 / recorded"
        ],
    );
    check_paid(
        "dispute p c WON 10 10 | dispute p c LOST 20 10 | dispute p c WON 20 20",
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000, customer>disputes 1000, disputes>customer 1000 / WON 2000 2000 0 0 / changed"
        ],
    );
    check_paid(
        "dispute p c WON 4 4 | chargeback p 10",
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 400, disputes>customer 400, customer>disputes 1000"
        ],
    );
    // The reversal of one case leaves the other's chargeback.
    check_paid(
        "dispute p c NEEDS_RESPONSE 4 0 | dispute p d NEEDS_RESPONSE 6 0 | dispute p c WON 4 4",
        expect![
            "ChargebackReversal Success, purchased 1000, charged back 600; gateway>customer 1000, customer>disputes 400, customer>disputes 600, disputes>customer 400 / WON 400 400 0 0 / changed"
        ],
    );
}

#[test]
fn what_exceeds_the_amount_left_is_excess() {
    let refunded = "refund p 7 | approve p | dispute p c NEEDS_RESPONSE 10 0";
    check_paid(
        refunded,
        expect![
            "Chargeback Success, purchased 1000, refunded 700, charged back 300; gateway>customer 1000, customer>refunds 700, customer>disputes 300, excess>disputes 700 / NEEDS_RESPONSE 300 0 700 0 / excess 700 USD, recorded"
        ],
    );
    check_paid(
        &format!("{refunded} | dispute p c WON 10 2"),
        expect![
            "Chargeback Success, purchased 1000, refunded 700, charged back 300; gateway>customer 1000, customer>refunds 700, customer>disputes 300, excess>disputes 700, disputes>excess 200 / WON 300 0 700 200 / changed"
        ],
    );
    check_paid(
        &format!("{refunded} | dispute p c WON 10 10"),
        expect![
            "ChargebackReversal Success, purchased 1000, refunded 700; gateway>customer 1000, customer>refunds 700, customer>disputes 300, excess>disputes 700, disputes>customer 300, disputes>excess 700 / WON 300 300 700 700 / changed"
        ],
    );
    // More is given back than was taken.
    check_paid(
        "dispute p c WON 10 12",
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000, disputes>excess 200 / WON 1000 1000 0 200 / recorded"
        ],
    );
    check_paid(
        "dispute p c NEEDS_RESPONSE 10 0 in=EUR",
        expect![
            "Purchase Success, purchased 1000; gateway>customer 1000, excess>disputes 1000 / NEEDS_RESPONSE 0 0 1000 0 / excess 1000 EUR, recorded"
        ],
    );
    check(
        "authorize p 10 | approve p | dispute p c NEEDS_RESPONSE 10 0",
        expect![
            "Authorize Success, authorized 1000; excess>disputes 1000 / NEEDS_RESPONSE 0 0 1000 0 / excess 1000 USD, recorded"
        ],
    );
    // Clients have charged it back, or reversed it, themselves.
    check_paid(
        "chargeback p 10 | dispute p c NEEDS_RESPONSE 10 0",
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000, excess>disputes 1000 / NEEDS_RESPONSE 0 0 1000 0 / excess 1000 USD, recorded"
        ],
    );
    check_paid(
        "dispute p c NEEDS_RESPONSE 10 0 | reverse p key=remote/c | dispute p c WON 10 10",
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000, disputes>excess 1000 / WON 1000 0 0 1000 / changed"
        ],
    );
}

#[test]
fn without_room_or_a_free_key_it_is_excess_and_with_a_taken_key_the_next_one() {
    let six: String = " | refund p 1 | decline p".repeat(5);
    check_paid(
        &format!("{}| dispute p c NEEDS_RESPONSE 10 0", &six[3..]),
        expect![
            "Refund PaymentFailure, purchased 1000; gateway>customer 1000, excess>disputes 1000 / NEEDS_RESPONSE 0 0 1000 0 / excess 1000 USD, recorded"
        ],
    );
    let taken = "purchase q 10 key=remote/c | approve q | dispute p c NEEDS_RESPONSE 10 0 \
                 | reverse p key=remote/c/2";
    check_paid(
        taken,
        expect![
            "ChargebackReversal Success, purchased 1000; gateway>customer 1000, customer>disputes 1000, disputes>customer 1000"
        ],
    );
    let take = |n: u8| {
        let suffix = if n == 1 { String::new() } else { format!("/{n}") };
        format!("purchase q{n} 10 key=remote/c{suffix} | approve q{n} | ")
    };
    let all: String = (1..=CHARGEBACKS_MAX).map(take).collect();
    check_paid(
        &format!("{all} dispute p c NEEDS_RESPONSE 10 0"),
        expect![
            "Purchase Success, purchased 1000; gateway>customer 1000, excess>disputes 1000 / NEEDS_RESPONSE 0 0 1000 0 / excess 1000 USD, recorded"
        ],
    );
}

#[test]
fn a_booking_waits_for_another_operation() {
    let refunding = "refund p 7 | dispute p c NEEDS_RESPONSE 10 0";
    check_paid(
        refunding,
        expect![
            "Refund InFlight, purchased 1000, open; gateway>customer 1000 / NEEDS_RESPONSE 0 0 0 0, waits / recorded"
        ],
    );
    check_paid(
        &format!("{refunding} | wait 60 | fire p c"),
        expect![
            "Refund InFlight, purchased 1000, open; gateway>customer 1000 / NEEDS_RESPONSE 0 0 0 0, waits / "
        ],
    );
    check_paid(
        &format!("{refunding} | approve p | wait 60 | fire p c"),
        expect![
            "Chargeback Success, purchased 1000, refunded 700, charged back 300; gateway>customer 1000, customer>refunds 700, customer>disputes 300, excess>disputes 700 / NEEDS_RESPONSE 300 0 700 0 / excess 700 USD, changed"
        ],
    );
    check_paid(
        &format!("{refunding} | decline p | wait 60 | fire p c"),
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000 / NEEDS_RESPONSE 1000 0 0 0 / changed"
        ],
    );
    // What comes meanwhile books it, and the timer has nothing to do.
    check_paid(
        &format!("{refunding} | decline p | dispute p c NEEDS_RESPONSE 10 0 | wait 60 | fire p c"),
        expect![""],
    );
    check_paid(
        "refund p 7 | pend p | dispute p c WON 10 10",
        expect![
            "Refund Pending, purchased 1000, open; gateway>customer 1000 / WON 0 0 0 0, waits / recorded"
        ],
    );
}

#[test]
fn a_booking_that_waits_is_tried_again_less_and_less_often() {
    let mut disputed = Disputed { world: World::new(), events: vec![] };
    for step in ["purchase p 10", "approve p", "refund p 7", "dispute p c LOST 10 0"] {
        disputed.step(step);
    }
    let mut delays = vec![];
    for _ in 0..9 {
        let due = disputed.dispute("c").unwrap().booking_at.unwrap();
        delays.push((due.0 - disputed.world.rows.now) / Timestamp::SECOND_US);
        disputed.world.rows.now = due.0;
        disputed.step("fire p c");
        assert_eq!(disputed.events, [""; 0], "waiting is nothing to report");
    }
    assert_eq!(delays, [60, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
}

#[test]
fn a_warning_is_given_three_days_before_evidence_is_due() {
    let opened = "dispute p c NEEDS_RESPONSE 10 0 due=7";
    check_paid(&format!("{opened} | wait 345599 | fire p c"), expect![""]);
    let due = format!("{opened} | wait 345600");
    check_paid(
        &format!("{due} | fire p c"),
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000 / NEEDS_RESPONSE 1000 0 0 0 / evidence due"
        ],
    );
    check_paid(&format!("{due} | fire p c | fire p c"), expect![""]);
    check_paid(&format!("{due} | dispute p c UNDER_REVIEW 10 0 due=3 | fire p c"), expect![""]);
    // Another due time is warned of anew.
    let moved = format!("{due} | fire p c | dispute p c NEEDS_RESPONSE 10 0 due=9");
    check_paid(&format!("{moved} | fire p c"), expect![""]);
    check_paid(
        &format!("{moved} | wait 518400 | fire p c"),
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000 / NEEDS_RESPONSE 1000 0 0 0 / evidence due"
        ],
    );
    // Less than three days are left when it is recorded; or none.
    check_paid(
        "dispute p c NEEDS_RESPONSE 10 0 due=1 | fire p c",
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000 / NEEDS_RESPONSE 1000 0 0 0 / evidence due"
        ],
    );
    check_paid("dispute p c NEEDS_RESPONSE 10 0 due=0 | wait 900000 | fire p c", expect![""]);
    // A server that was stopped meanwhile comes too late.
    check_paid(
        &format!("{opened} | wait 604800 | fire p c"),
        expect![
            "Chargeback Success, purchased 1000, charged back 1000; gateway>customer 1000, customer>disputes 1000 / NEEDS_RESPONSE 1000 0 0 0 / "
        ],
    );
}

#[test]
fn a_payment_has_only_so_many_disputes_and_those_it_has_go_on() {
    let cases = 1..=DISPUTES_PER_PAYMENT_MAX;
    let all = cases.map(|n| format!("dispute p c{n} WARNING_CLOSED 1 0")).collect::<Vec<_>>();
    let all = all.join(" | ");
    check_paid(
        &format!("{all} | dispute p more NEEDS_RESPONSE 1 0"),
        expect!["refused: payment: has as many disputes as a payment may have"],
    );
    check_paid(
        &format!("{all} | dispute p c7 NEEDS_RESPONSE 1 0"),
        expect![
            "Chargeback Success, purchased 1000, charged back 100; gateway>customer 1000, customer>disputes 100 / NEEDS_RESPONSE 100 0 0 0 / changed"
        ],
    );
    let other = "purchase q 10 | approve q | dispute q more NEEDS_RESPONSE 1 0";
    check_paid(
        &format!("{all} | {other}"),
        expect![
            "Chargeback Success, purchased 1000, charged back 100; gateway>customer 1000, customer>disputes 100 / NEEDS_RESPONSE 100 0 0 0 / recorded"
        ],
    );
}

#[test]
fn another_payments_dispute_is_refused() {
    let other = "dispute p c NEEDS_RESPONSE 10 0 | purchase q 10 | approve q";
    check_paid(
        &format!("{other} | dispute q c NEEDS_RESPONSE 10 0"),
        expect!["refused: case: is of another payment"],
    );
    check_paid(
        "dispute p c NEEDS_RESPONSE 10 0 by=other",
        expect!["refused: Payment(TransactionNotFound"],
    );
}
