//! Control of payments: limits, velocity and attempts, and the rules that a tenant's values make.

use expect_test::{Expect, expect};

use super::*;
use crate::Currency;
use crate::command::TenantCommand;
use crate::payment::attempt::PaymentAttempt;
use crate::tenant::payment_rules::{
    AmountLimits, Limits, PaymentRules, RetrySettings, RulesPart, Settings,
};
use crate::tenant::{PLUGIN_CONFIGURATION, SETTINGS, SetTenantValue};

fn usd() -> Currency {
    Currency::parse("USD").unwrap()
}

fn set_limits(limits: Option<Limits>) -> Command {
    let value = limits.as_ref().map(|_| "sealed".to_owned());
    let key = format!("{PLUGIN_CONFIGURATION}faregate-rules");
    let rules = limits.map(RulesPart::Limits);
    Command::Tenant(TenantCommand::SetValue(SetTenantValue { key, value, rules }))
}

fn set_settings(retries: Option<RetrySettings>) -> Command {
    let value = Some("{}".to_owned());
    let settings = |retries| Settings { retries: Some(retries), ..Settings::default() };
    let rules = retries.map(|it| RulesPart::Settings(settings(it)));
    Command::Tenant(TenantCommand::SetValue(SetTenantValue {
        key: SETTINGS.to_owned(),
        value,
        rules,
    }))
}

/// Limits of 20 USD for a payment, 30 USD and 3 payments a day, for USD and EUR through two gateways.
fn limits() -> Limits {
    let (payment, day) = (Some(AmountMinor(2_000)), Some(AmountMinor(3_000)));
    Limits {
        every_payment: true,
        currencies: Some([usd(), Currency::parse("EUR").unwrap()].into()),
        gateways: Some(["remote".to_owned(), EXTERNAL_PAYMENT.to_owned()].into()),
        amounts: [(usd(), AmountLimits { payment, day })].into(),
        payments_per_day: Some(3),
        lower_amounts: false,
        method_gateways: vec![],
    }
}

/// Runs the steps under [`limits`], and shows what the last one came to where that was a refusal, the
/// attempts, and what the account started this day.
fn check(script: &str, expected: Expect) {
    check_with(limits(), script, expected);
}

/// As [`check`], under other limits.
fn check_with(limits: Limits, script: &str, expected: Expect) {
    expected.assert_eq(&shown(limits, script));
}

/// The text that [`check`] compares.
fn shown(limits: Limits, script: &str) -> String {
    let mut world = World::new();
    world.rows.run(set_limits(Some(limits))).unwrap();
    let shown = run_script(script, |step| world.step(step));
    let attempts = world.rows.state.payment.attempts.values().flatten();
    let attempts = attempts.map(|it| format!("{} {}", it.state.name(), it.amount.0));
    let attempts = attempts.collect::<Vec<_>>().join(", ");
    let velocity = world.rows.state.payment.velocities.iter();
    let velocity = velocity.map(|it| {
        let amounts = it.amounts.iter().map(|(currency, it)| format!(" {} {currency}", it.0));
        format!("{}:{}", it.count, amounts.collect::<String>())
    });
    let velocity = Some(velocity.collect());
    let lines = [Some(shown).filter(|it| it.contains("aborted")), Some(attempts), velocity];
    let lines: Vec<String> = lines.into_iter().flatten().filter(|it| !it.is_empty()).collect();
    lines.join("\n")
}

#[test]
fn each_limit_aborts() {
    check(
        "purchase p 20",
        expect![[r#"
        INIT 2000
        1: 2000 USD"#]],
    );
    check(
        "purchase p 20.01",
        expect!["faregate-rules aborted: 20.01 USD exceeds the limit of 20.00 USD for a payment"],
    );
    check(
        "purchase p 100 in=EUR",
        expect![[r#"
        INIT 10000
        1: 10000 EUR"#]],
    );
    check(
        "authorize p 5 in=GBP",
        expect!["faregate-rules aborted: the currency GBP is not allowed"],
    );
    check("credit p 5 other", expect!["faregate-rules aborted: the gateway other is not allowed"]);
    check(
        "purchase p 20 | credit q 10 external",
        expect![[r#"
        SUCCESS 1000, INIT 2000
        2: 3000 USD"#]],
    );
    check(
        "purchase p 20 | authorize q 10.01",
        expect![[r#"
        faregate-rules aborted: 10.01 USD exceeds the limit of 30.00 USD for a day, of which 20.00 USD are used
        INIT 2000
        1: 2000 USD"#]],
    );
    check(
        "purchase p 1 | purchase q 1 | purchase r 1 | purchase s 1",
        expect![[r#"
        faregate-rules aborted: the account has had 3 payments this day, the limit
        INIT 100, INIT 100, INIT 100
        3: 300 USD"#]],
    );
    let day = AmountLimits { payment: None, day: Some(AmountMinor(i64::MAX)) };
    let wide = || Limits { amounts: [(usd(), day)].into(), ..Limits::default() };
    let most = "92233720368547758.07";
    let script = format!("purchase p {most} control | purchase q 0.01 control");
    check_with(
        wide(),
        &script,
        expect![[r#"
        faregate-rules aborted: 0.01 USD exceeds the limit of 92233720368547758.07 USD for a day, of which 92233720368547758.07 USD are used
        INIT 9223372036854775807
        1: 9223372036854775807 USD"#]],
    );
}

#[test]
fn plugins_decide_about_calls_that_name_them_or_about_all() {
    let named = || Limits { every_payment: false, ..limits() };
    check_with(named(), "purchase p 50", expect![""]);
    check_with(
        named(),
        "purchase p 50 control",
        expect!["faregate-rules aborted: 50.00 USD exceeds the limit of 20.00 USD for a payment"],
    );
    check_with(
        named(),
        "purchase p 10 control | approve p",
        expect![[r#"
        SUCCESS 1000
        1: 1000 USD"#]],
    );
    // Without limits, a call that names the plugin has its attempt and counts.
    check_with(
        Limits::default(),
        "purchase p 50 control | approve p",
        expect![[r#"
        SUCCESS 5000
        1: 5000 USD"#]],
    );
    // What follows has nothing to be decided.
    check(
        "authorize p 10 | approve p | capture p 10 | approve p",
        expect![[r#"
        SUCCESS 1000
        1: 1000 USD"#]],
    );
}

#[test]
fn a_payment_above_a_limit_begins_with_what_is_left_where_rules_lower() {
    let lowering = || Limits { lower_amounts: true, ..limits() };
    for (steps, expected) in [
        ("purchase p 19.99", "INIT 1999\n1: 1999 USD"),
        ("purchase p 50", "INIT 2000\n1: 2000 USD"),
        ("purchase p 50 | decline p", "ABORTED 2000\n0: 0 USD"),
        ("purchase p 50 | purchase q 50", "INIT 1000, INIT 2000\n2: 3000 USD"),
        (
            "purchase p 50 key=k | pend p | purchase p 50 key=k | approve p",
            "SUCCESS 2000\n1: 2000 USD",
        ),
        ("purchase p 50 in=EUR", "INIT 5000\n1: 5000 EUR"),
    ] {
        assert_eq!(shown(lowering(), steps), expected, "{steps}");
    }
    // What is pending is completed with what was begun at most, and with less where less is asked for.
    for (asked, called) in [("50", 2_000), ("20", 2_000), ("15", 1_500)] {
        let mut world = World::new();
        world.rows.run(set_limits(Some(lowering()))).unwrap();
        world.step("purchase p 50 key=k");
        world.step("pend p");
        let again = world.command("purchase", "p", &[asked, "key=k"]);
        let executed = world.rows.run(again).unwrap();
        let [Effect::CallGateway(call)] = &executed.done.effects[..] else {
            panic!("{executed:?}")
        };
        assert_eq!(call.amount, Some(AmountMinor(called)), "{asked}");
    }
    check_with(
        lowering(),
        "purchase p 50 | purchase q 50 | purchase r 50",
        expect![[r#"
        faregate-rules aborted: 50.00 USD exceeds the limit of 20.00 USD for a payment
        INIT 1000, INIT 2000
        2: 3000 USD"#]],
    );
    check_with(
        lowering(),
        "purchase p 50 in=GBP",
        expect!["faregate-rules aborted: the currency GBP is not allowed"],
    );
}

#[test]
fn a_payment_that_names_no_method_goes_with_that_of_the_first_gateway_that_has_one() {
    let of = |gateways: &[&str]| Limits {
        every_payment: false,
        method_gateways: gateways.iter().map(|it| (*it).to_owned()).collect(),
        ..Limits::default()
    };
    let gateway_of = |limits: Limits, is_controlled: bool, method: Option<&str>| {
        let mut world = World::new();
        world.rows.run(set_limits(Some(limits))).unwrap();
        let control = is_controlled.then(|| "faregate-rules".to_owned()).into_iter().collect();
        let payment_method = method.map(method_id);
        let amount = Some("1".to_owned());
        let call = Initiate { amount, control, payment_method, ..Initiate::of(account_id()) };
        let executed = world.rows.run(Command::Payment(PaymentCommand::Purchase(call))).unwrap();
        let payments = executed.done.changes.iter().filter_map(|it| {
            let Change::Payment(PaymentChange::Payment(it)) = it else { return None };
            Some(it.gateway.clone())
        });
        payments.collect::<Vec<_>>().join(" ")
    };
    // The account's default goes through "remote".
    for (gateways, is_controlled, method, expected) in [
        (&["other"][..], true, None, "other"),
        (&["none", "other", "remote"], true, None, "other"),
        (&["none"], true, None, "remote"),
        (&[], true, None, "remote"),
        (&["other"], false, None, "remote"),
        (&["other"], true, Some("remote"), "remote"),
    ] {
        let found = gateway_of(of(gateways), is_controlled, method);
        assert_eq!(found, expected, "{gateways:?} {is_controlled} {method:?}");
    }
    let every = Limits { every_payment: true, ..of(&["other"]) };
    assert_eq!(gateway_of(every, false, None), "other");
    // What is chosen has to be allowed.
    let gateways = Some(["remote".to_owned()].into());
    assert_eq!(gateway_of(Limits { gateways, ..of(&["other"]) }, true, None), "");
}

#[test]
fn a_follow_up_that_names_a_plugin_has_an_attempt_and_counts_in_no_day() {
    for (steps, expected) in [
        ("capture p 4 control", "INIT 400"),
        ("capture p 4 control | approve p", "SUCCESS 400"),
        ("capture p 4 control | decline p", "ABORTED 400"),
        ("capture p 4 control | pend p | unpaid p", "ABORTED 400"),
        ("capture p 4 control | pend p | complete p | approve p", "SUCCESS 400"),
        (
            "capture p 4 control key=k | pend p | capture p 4 control key=k | approve p",
            "SUCCESS 400",
        ),
        ("capture p 4 control | timeout p | found-paid p", "SUCCESS 400"),
        ("void p control | approve p", "SUCCESS 0"),
        ("capture p 4 | approve p | refund p 3 control | approve p", "SUCCESS 300"),
        ("capture p 4 | approve p | chargeback p 2 control", "SUCCESS 200"),
        ("capture p 4 | approve p | chargeback p 2 key=c | reverse p key=c control", "SUCCESS 200"),
        ("capture p 50 control", ""),
    ] {
        let limits = Limits { every_payment: false, ..limits() };
        let shown = shown(limits, &format!("authorize p 10 | approve p | {steps}"));
        assert_eq!(shown, expected, "{steps}");
    }
}

#[test]
fn what_may_have_moved_counts_until_it_has_failed() {
    for (steps, expected) in [
        ("approve p", "SUCCESS"),
        ("pend p", "INIT"),
        ("timeout p", "INIT"),
        ("fail p", "INIT"),
        ("decline p", "ABORTED"),
        ("cancel p", "ABORTED"),
        ("unsent p", "ABORTED"),
        ("pend p | unpaid p", "ABORTED"),
        ("pend p | paid p", "SUCCESS"),
        ("pend p | complete p | decline p", "ABORTED"),
        ("pend p | purchase p 20 key=@p | approve p", "SUCCESS"),
        ("timeout p | fix p failure", "ABORTED"),
        ("timeout p | wait 60 | not-found p", "ABORTED"),
        ("timeout p | found-paid p", "SUCCESS"),
        ("approve p | found-declined p", "ABORTED"),
        ("decline p | found-pending p", "INIT"),
    ] {
        let counted = if expected == "ABORTED" { "0: 0 USD" } else { "1: 2000 USD" };
        let shown = shown(limits(), &format!("purchase p 20 | {steps}"));
        assert_eq!(shown, format!("{expected} 2000\n{counted}"), "{steps}");
    }
    assert_eq!(shown(limits(), "purchase p 20 external"), "SUCCESS 2000\n1: 2000 USD");
}

#[test]
fn a_late_success_counts_although_it_passes_the_limit() {
    for (steps, expected) in [
        ("approve q | found-paid p", "SUCCESS 2000, SUCCESS 2000\n2: 4000 USD"),
        (
            "found-paid p | purchase r 1",
            "faregate-rules aborted: 1.00 USD exceeds the limit of 30.00 USD for a day, of which \
             40.00 USD are used\nSUCCESS 2000, INIT 2000\n2: 4000 USD",
        ),
    ] {
        let script = format!("purchase p 20 | decline p | purchase q 20 | {steps}");
        assert_eq!(shown(limits(), &script), expected, "{steps}");
    }
}

#[test]
fn a_retry_under_the_same_keys_is_an_attempt_of_its_own() {
    check(
        "purchase p 20 | decline p | purchase p 15",
        expect![[r#"
        ABORTED 2000, INIT 1500
        1: 1500 USD"#]],
    );
    check(
        "purchase p 20 | decline p | purchase p 15 | decline p",
        expect![[r#"
        ABORTED 2000, ABORTED 1500
        0: 0 USD"#]],
    );
    check(
        "purchase p 20 | decline p | purchase p 35",
        expect![[r#"
        faregate-rules aborted: 35.00 USD exceeds the limit of 20.00 USD for a payment
        ABORTED 2000
        0: 0 USD"#]],
    );
}

#[test]
fn a_day_ends_at_midnight_utc() {
    let day = 86_400 - 1_000;
    check(
        &format!("purchase p 20 | wait {day} | purchase q 20"),
        expect![[r#"
        INIT 2000, INIT 2000
        1: 2000 USD"#]],
    );
    check(
        &format!("purchase p 20 | wait {} | purchase q 20", day - 1),
        expect![[r#"
        faregate-rules aborted: 20.00 USD exceeds the limit of 30.00 USD for a day, of which 20.00 USD are used
        INIT 2000
        1: 2000 USD"#]],
    );
    // What failed after its day gives nothing back.
    check(
        &format!("purchase p 20 | wait {day} | purchase q 20 | decline p"),
        expect![[r#"
        INIT 2000, ABORTED 2000
        1: 2000 USD"#]],
    );
    // A clock that is set back over midnight does not begin the day before once more.
    check(
        &format!("purchase p 5 | wait {day} | purchase q 20 | wait -60 | purchase r 20"),
        expect![[r#"
        faregate-rules aborted: 20.00 USD exceeds the limit of 30.00 USD for a day, of which 20.00 USD are used
        INIT 2000, INIT 500
        1: 2000 USD"#]],
    );
}

#[test]
fn a_name_that_no_plugin_has_is_refused() {
    let mut world = World::new();
    let start = |control: &str| Initiate {
        amount: Some("1".to_owned()),
        control: vec![control.to_owned()],
        ..Initiate::of(account_id())
    };
    let named = Command::Payment(PaymentCommand::Purchase(start("nope")));
    let refused = world.rows.run(named).unwrap_err().to_string();
    assert_eq!(refused, "controlPluginName: there is no such control plugin");
}

fn attempts(executed: &Executed) -> Vec<PaymentAttempt> {
    let attempt = |it: &Change| {
        let Change::Payment(PaymentChange::Attempt(it)) = it else { return None };
        Some(it.clone())
    };
    executed.done.changes.iter().filter_map(attempt).collect()
}

#[test]
fn an_attempt_names_its_rules_and_whether_it_is_retried() {
    let settings = |api| Some(RetrySettings { days: None, api });
    let asks = vec![("IPCD_RETRIES".to_owned(), "true".to_owned())];
    let mut world = World::new();
    for (make, api, properties, expected) in [
        (PaymentCommand::Purchase as fn(Initiate) -> PaymentCommand, false, vec![], false),
        (PaymentCommand::Purchase, true, vec![], true),
        (PaymentCommand::Authorize, false, asks.clone(), true),
        (PaymentCommand::Credit, true, asks, false),
    ] {
        let rules = world.rows.seq;
        world.rows.run(set_settings(settings(api))).unwrap();
        let start = Initiate {
            amount: Some("1".to_owned()),
            properties,
            control: vec!["faregate-rules".to_owned()],
            ..Initiate::of(account_id())
        };
        let executed = world.rows.run(Command::Payment(make(start))).unwrap();
        let [attempt] = &attempts(&executed)[..] else { panic!("{executed:?}") };
        assert_eq!((attempt.retries, attempt.rules), (expected, Some(Seq(rules))), "{api}");
        assert!(
            matches!(&executed.done.effects[..], [Effect::CallGateway(it)] if it.is_controlled)
        );
    }
}

#[test]
fn a_program_has_to_be_asked_first_and_what_it_lets_go_on_is_not_retried() {
    let mut world = World::new();
    let settings = RetrySettings { days: Some(vec![8]), api: true };
    world.rows.run(set_settings(Some(settings))).unwrap();
    let program = || vec!["acme".to_owned()];
    let start = Initiate { amount: Some("1".to_owned()), ..Initiate::of(account_id()) };
    let mut run = |it: Initiate| world.rows.run(Command::Payment(PaymentCommand::Purchase(it)));
    let refused = |it: Result<Executed, Rejection>| it.unwrap_err().to_string();
    let unasked = Initiate { control: program(), ..start.clone() };
    expect!["controlPluginName: there is no such control plugin"].assert_eq(&refused(run(unasked)));
    let asks = vec![("IPCD_RETRIES".to_owned(), "true".to_owned())];
    let retried = Initiate { approved: program(), properties: asks, ..start.clone() };
    expect!["pluginProperty: IPCD_RETRIES: what a control program let go on is not retried"]
        .assert_eq(&refused(run(retried)));
    let both =
        Initiate { control: vec!["faregate-rules".to_owned()], approved: program(), ..start };
    let begun = run(both).unwrap();
    let [attempt] = &attempts(&begun)[..] else { panic!("{begun:?}") };
    assert_eq!(
        (&attempt.plugins[..], attempt.retries),
        (&["faregate-rules".to_owned(), "acme".to_owned()][..], false)
    );
    assert!(matches!(&begun.done.effects[..], [Effect::CallGateway(it)] if it.is_controlled));
}

#[test]
fn rules_are_made_of_the_values_that_have_them() {
    let mut rows = Rows::new();
    let mut set = |command: Command| {
        let executed = rows.run(command).unwrap();
        let rules = |it: &Change| {
            let Change::Tenant(crate::change::TenantChange::PaymentRules(it)) = it else {
                return None;
            };
            Some(it.clone())
        };
        let found: Vec<PaymentRules> = executed.done.changes.iter().filter_map(rules).collect();
        let shown = found.iter().map(|it| {
            let limits = it.limits.as_ref().map(|it| it.payments_per_day);
            format!(
                "{:?} {limits:?} {:?}",
                it.retries.as_ref().map(|it| it.api),
                it.revision.previous
            )
        });
        shown.collect::<Vec<_>>().join(";")
    };
    let api = || Some(RetrySettings { days: Some(vec![8]), api: true });
    let other = SetTenantValue::new("colour".to_owned(), Some("red".to_owned()));
    for (command, expected) in [
        (Command::Tenant(TenantCommand::SetValue(other)), ""),
        (set_settings(None), ""),
        (set_limits(Some(limits())), "None Some(Some(3)) None"),
        (set_limits(Some(limits())), ""),
        (set_settings(api()), "Some(true) Some(Some(3)) Some(Seq(3))"),
        (set_limits(None), "Some(true) None Some(Seq(5))"),
        (set_settings(None), "None None Some(Seq(6))"),
        (set_limits(None), ""),
    ] {
        assert_eq!(set(command), expected);
    }
}
