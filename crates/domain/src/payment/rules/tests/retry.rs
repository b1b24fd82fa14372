//! Retries: when they are due, what they wait for, and what ends them.

use expect_test::{Expect, expect};

use super::*;
use crate::account::blocking_state::CloseAccount;
use crate::account::tag::{AddTags, ControlTag, RemoveTags};
use crate::command::{AccountCommand, TenantCommand};
use crate::payment::attempt::{AttemptState, CancelRetries, RetryPayment};
use crate::tenant::payment_rules::{Limits, RetrySettings, RulesPart, Settings};
use crate::tenant::{PLUGIN_CONFIGURATION, SETTINGS, SetTenantValue};
use crate::timer::{Timer, TimerKind};

/// Runs steps as [`super::check`] does, and shows the transactions, the attempts, and after how many seconds
/// from the beginning each retry is due. Further steps: `fire` fires the timers that are due, `fire-unanswered`
/// where the gateway does not answer, `tag` and `untag` suspend the account's retries and let them go on,
/// `close [keeping-retries]` closes the account, `cancel-retry PAYMENT`. A payment with `retries` asks for them.
fn check(script: &str, expected: Expect) {
    let mut world = World::new();
    for step in script.split('|') {
        step_with_retries(&mut world, step.trim());
    }
    expected.assert_eq(&shown(&world));
}

fn step_with_retries(world: &mut World, step: &str) {
    let mut words = step.split_whitespace();
    match (words.next().unwrap(), words.next()) {
        ("fire", _) => fire(world, true),
        ("fire-unanswered", _) => fire(world, false),
        ("tag", _) => {
            let (account, part) = (account_id(), None);
            let definitions = vec![ControlTag::AutoPayOff.definition().id()];
            let add = AddTags { account, part, definitions };
            world.rows.run(Command::Account(AccountCommand::AddTags(add))).unwrap();
        }
        ("untag", _) => {
            let (account, part) = (account_id(), None);
            let definitions = vec![ControlTag::AutoPayOff.definition().id()];
            let remove = RemoveTags { account, part, definitions };
            world.rows.run(Command::Account(AccountCommand::RemoveTags(remove))).unwrap();
        }
        ("close", retries) => {
            let remove_future_notifications = retries != Some("keeping-retries");
            let close = CloseAccount {
                account: account_id(),
                remove_future_notifications,
                cancel_subscriptions: false,
            };
            world.rows.run(Command::Account(AccountCommand::Close(close))).unwrap();
        }
        ("cancel-retry", Some(name)) => {
            let payment = world.payments[name];
            let transaction = world.file(payment).transactions.last().unwrap().id;
            let it = CancelRetries { payment, transaction };
            world.rows.run(Command::Payment(PaymentCommand::CancelRetries(it))).unwrap();
        }
        (_, _) => drop(world.step(step)),
    }
}

/// Fires each timer that is due, twice, as after a crash.
fn fire(world: &mut World, is_answered: bool) {
    let now = Timestamp(world.rows.now);
    let due: Vec<Timer> = world.rows.state.timers.iter().cloned().collect();
    for timer in due.into_iter().filter(|it| it.due <= now) {
        assert_eq!(timer.key.kind, TimerKind::PaymentRetry);
        let attempts = world.rows.state.payment.attempts.values().flatten();
        let mut attempts = attempts.filter(|it| it.id.uuid() == timer.key.object);
        let attempt = attempts.next().expect("a timer is of an attempt").clone();
        let it = RetryPayment {
            account: timer.account,
            payment: attempt.payment_id.unwrap(),
            attempt: attempt.id,
            transaction_key: attempt.transaction_key,
            is_answered,
            due: timer.due,
        };
        let command = Command::Payment(PaymentCommand::Retry(it));
        world.rows.run(command.clone()).unwrap();
        let again = world.rows.run(command).unwrap();
        assert_eq!(again.done.changes, [], "a timer fires once");
    }
}

fn shown(world: &World) -> String {
    let state = &world.rows.state;
    let files = state.payment.payments.iter();
    let of_file = |file: &PaymentFile| {
        let statuses = file.transactions.iter().map(|it| format!("{:?}", it.status));
        statuses.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = files.map(of_file).collect();
    let seconds = |at: Timestamp| (at.0 - Rows::new().now) / Timestamp::SECOND_US;
    for attempt in state.payment.attempts.values().flatten() {
        let due = attempt.due_at.map(|at| format!(" due {}", seconds(at))).unwrap_or_default();
        lines.push(format!("{} {}{due}", attempt.state.name(), attempt.tries));
    }
    for timer in state.timers.iter() {
        lines.push(format!("timer {}", seconds(timer.due)));
    }
    lines.join("\n")
}

#[test]
fn a_decline_is_retried_after_eight_days_three_times() {
    let days = 8 * 86_400;
    check(
        "purchase p 10 retries | decline p",
        expect![[r#"
        PaymentFailure
        SCHEDULED 0 due 691200
        timer 691200"#]],
    );
    let once = format!("purchase p 10 retries | decline p | wait {days} | fire | decline p");
    check(
        &once,
        expect![[r#"
        PaymentFailure PaymentFailure
        RETRIED 0
        SCHEDULED 1 due 1382400
        timer 1382400"#]],
    );
    let thrice =
        format!("{once} | wait {days} | fire | decline p | wait {days} | fire | decline p");
    check(
        &thrice,
        expect![[r#"
        PaymentFailure PaymentFailure PaymentFailure PaymentFailure
        RETRIED 0
        RETRIED 1
        RETRIED 2
        ABORTED 3"#]],
    );
    check(
        &format!("purchase p 10 retries | decline p | wait {} | fire", days - 1),
        expect![[r#"
        PaymentFailure
        SCHEDULED 0 due 691200
        timer 691200"#]],
    );
    check(
        &format!("purchase p 10 retries | decline p | wait {days} | fire | approve p"),
        expect![[r#"
            PaymentFailure Success
            RETRIED 0
            SUCCESS 1"#]],
    );
}

#[test]
fn what_the_gateway_did_not_take_is_retried_sooner_each_time_later() {
    check(
        "purchase p 10 retries | cancel p",
        expect![[r#"
        PluginFailure
        SCHEDULED 0 due 300
        timer 300"#]],
    );
    check(
        "purchase p 10 retries | cancel p | wait 300 | fire | cancel p",
        expect![[r#"
        PluginFailure PluginFailure
        RETRIED 0
        SCHEDULED 1 due 900
        timer 900"#]],
    );
    check(
        "authorize p 10 retries | unsent p",
        expect![[r#"
        PluginFailure
        SCHEDULED 0 due 300
        timer 300"#]],
    );
}

#[test]
fn what_is_not_asked_for_unknown_or_a_credit_is_not_retried() {
    check(
        "purchase p 10 control | decline p",
        expect![[r#"
        PaymentFailure
        ABORTED 0"#]],
    );
    check("purchase p 10 | decline p", expect!["PaymentFailure"]);
    check(
        "credit p 10 retries | decline p",
        expect![[r#"
        PaymentFailure
        ABORTED 0"#]],
    );
    check(
        "purchase p 10 retries | timeout p",
        expect![[r#"
        Unknown
        INIT 0"#]],
    );
    check(
        "purchase p 10 retries | pend p",
        expect![[r#"
        Pending
        INIT 0"#]],
    );
}

#[test]
fn a_failure_learnt_late_is_retried() {
    check(
        "purchase p 10 retries | timeout p | found-declined p",
        expect![[r#"
        PaymentFailure
        SCHEDULED 0 due 691200
        timer 691200"#]],
    );
    check(
        "purchase p 10 retries | pend p | unpaid p",
        expect![[r#"
        PaymentFailure
        SCHEDULED 0 due 691200
        timer 691200"#]],
    );
    check(
        "purchase p 10 retries | approve p | found-declined p",
        expect![[r#"
        PaymentFailure
        SCHEDULED 0 due 691200
        timer 691200"#]],
    );
}

#[test]
fn nothing_is_sent_while_an_outcome_is_open_or_the_gateway_does_not_answer() {
    let due = "purchase p 10 retries | cancel p | wait 300";
    check(
        &format!("{due} | fire-unanswered"),
        expect![[r#"
        PluginFailure
        SCHEDULED 0 due 3900
        timer 3900"#]],
    );
    // What the gateway has no record of may still arrive, until the last question about it.
    let lost = "purchase p 10 retries | timeout p | wait 60 | not-found p";
    check(
        &format!("{lost} | wait 300 | fire"),
        expect![[r#"
        PluginFailure
        SCHEDULED 0 due 3960
        timer 3960"#]],
    );
    check(
        &format!("{lost} | wait 2 | not-found p | wait 60 | not-found p | wait 300 | fire"),
        expect![[r#"
            PluginFailure InFlight
            RETRIED 0
            INIT 1"#]],
    );
    // A client tries again by itself, and that is open.
    check(
        &format!("{due} | purchase p 10 | timeout p | fire"),
        expect![[r#"
        PluginFailure Unknown
        SCHEDULED 0 due 3900
        timer 3900"#]],
    );
}

#[test]
fn a_success_ends_the_retries() {
    let failed = "purchase p 10 retries | cancel p";
    check(
        &format!("{failed} | purchase p 10 control | approve p"),
        expect![[r#"
        PluginFailure Success
        ABORTED 0
        SUCCESS 0"#]],
    );
    check(
        &format!("{failed} | found-paid p"),
        expect![[r#"
        Success
        SUCCESS 0"#]],
    );
    check(
        &format!("{failed} | purchase p 10 | approve p | wait 300 | fire"),
        expect![[r#"
        PluginFailure Success
        ABORTED 0"#]],
    );
}

#[test]
fn retries_are_cancelled() {
    let failed = "purchase p 10 retries | cancel p";
    check(
        &format!("{failed} | cancel-retry p | wait 300 | fire"),
        expect![[r#"
        PluginFailure
        ABORTED 0"#]],
    );
    check(
        &format!("{failed} | close"),
        expect![[r#"
        PluginFailure
        ABORTED 0"#]],
    );
    check(
        &format!("{failed} | close keeping-retries"),
        expect![[r#"
        PluginFailure
        SCHEDULED 0 due 300
        timer 300"#]],
    );
    check(
        &format!("{failed} | close keeping-retries | wait 300 | fire"),
        expect![[r#"
        PluginFailure
        ABORTED 0"#]],
    );
}

#[test]
fn tags_suspend_retries_and_they_go_on_in_order() {
    let failed =
        "purchase p 10 retries | cancel p | wait 10 | purchase q 5 retries | cancel q | tag";
    check(
        &format!("{failed} | wait 300 | fire"),
        expect![[r#"
        PluginFailure
        PluginFailure
        SCHEDULED 0 due 310
        SCHEDULED 0 due 300"#]],
    );
    check(
        &format!("{failed} | wait 300 | fire | untag"),
        expect![[r#"
        PluginFailure
        PluginFailure
        SCHEDULED 0 due 310
        SCHEDULED 0 due 300
        timer 310
        timer 300"#]],
    );
    check(
        &format!("{failed} | wait 300 | fire | untag | fire"),
        expect![[r#"
        PluginFailure InFlight
        PluginFailure InFlight
        RETRIED 0
        INIT 1
        RETRIED 0
        INIT 1"#]],
    );
}

fn set(key: String, rules: RulesPart) -> Command {
    let (value, rules) = (Some("{}".to_owned()), Some(rules));
    Command::Tenant(TenantCommand::SetValue(SetTenantValue { key, value, rules }))
}

#[test]
fn a_tenants_settings_and_limits_hold_for_retries() {
    let mut world = World::new();
    let retries = Some(RetrySettings { days: Some(vec![1]), api: true });
    let settings = Settings { retries, ..Settings::default() };
    world.rows.run(set(SETTINGS.to_owned(), RulesPart::Settings(settings))).unwrap();
    for step in ["purchase p 10 control", "decline p"] {
        step_with_retries(&mut world, step);
    }
    expect![[r#"
        PaymentFailure
        SCHEDULED 0 due 86400
        timer 86400"#]]
    .assert_eq(&shown(&world));
    let limits = Limits { payments_per_day: Some(0), ..Limits::default() };
    let key = format!("{PLUGIN_CONFIGURATION}faregate-rules");
    world.rows.run(set(key, RulesPart::Limits(limits))).unwrap();
    for step in ["wait 86400", "fire"] {
        step_with_retries(&mut world, step);
    }
    expect![[r#"
        PaymentFailure
        RETRIED 0"#]]
    .assert_eq(&shown(&world));
}

#[test]
fn a_card_that_must_not_be_tried_again_is_not() {
    let mut world = World::new();
    step_with_retries(&mut world, "purchase p 10 retries");
    let payment = world.payments["p"];
    let transaction = world.file(payment).transactions[0].id;
    let outcome = GatewayOutcome {
        error_code: Some("stolen_card".to_owned()),
        ..GatewayOutcome::new(GatewayStatus::Error)
    };
    let replied = GatewayReplied {
        payment,
        transaction,
        answer: GatewayAnswer::Outcome(outcome),
        is_controlled: true,
        tries: None,
    };
    world.rows.run(Command::Payment(PaymentCommand::GatewayReplied(replied))).unwrap();
    assert_eq!(
        world.rows.state.payment.attempts.values().flatten().next().unwrap().state,
        AttemptState::Aborted
    );
}

#[test]
fn a_deleted_method_is_replaced_by_the_default_and_without_one_retries_end() {
    let due = |world: &mut World| {
        for step in ["purchase p 10 retries other", "cancel p", "wait 300"] {
            step_with_retries(world, step);
        }
        let method =
            world.rows.state.account.payment_methods.find_mut(&(TENANT, method_id("other")));
        method.unwrap().active = false;
    };
    let mut world = World::new();
    due(&mut world);
    fire(&mut world, true);
    let last = world.file(world.payments["p"]).transactions.last().unwrap();
    assert_eq!(last.gateway, "remote");
    let mut world = World::new();
    due(&mut world);
    let account = world.rows.state.account.accounts.find_mut(&(TENANT, account_id()));
    account.unwrap().payment_method_id = None;
    fire(&mut world, true);
    expect![[r#"
        PluginFailure
        ABORTED 0"#]]
    .assert_eq(&shown(&world));
}

#[test]
fn an_erased_person_is_not_charged() {
    let mut world = World::new();
    for step in ["purchase p 10 retries", "cancel p", "wait 300"] {
        step_with_retries(&mut world, step);
    }
    let now = Timestamp(world.rows.now);
    let account = world.rows.state.account.accounts.find_mut(&(TENANT, account_id()));
    account.unwrap().erased_at = Some(now);
    fire(&mut world, true);
    expect![[r#"
        PluginFailure
        ABORTED 0"#]]
    .assert_eq(&shown(&world));
}
