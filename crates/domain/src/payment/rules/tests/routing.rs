//! Routing, cascades and late successes: which gateways a payment tries, and what a decline leads to.

use expect_test::{Expect, expect};

use super::*;
use crate::command::TenantCommand;
use crate::event::Event;
use crate::payment::attempt::AttemptState;
use crate::payment::decline::DeclineClass;
use crate::payment::health::Unready;
use crate::payment::routed::{ChosenBy, PassedOver};
use crate::payment::{RefundLateSuccess, ReplyKey};
use crate::tenant::payment_rules::{Limits, RulesPart};
use crate::tenant::routing_rules::{
    AmountRange, BinRange, CascadeRules, Conditions, ROUTER, RoutingRule, RoutingRules, Share,
    Targets,
};
use crate::tenant::{PLUGIN_CONFIGURATION, SetTenantValue};
use crate::{Currency, GatewaySettings};

const GATEWAYS: [&str; 4] = ["remote", "other", "third", "fourth"];

fn usd() -> Currency {
    Currency::parse("USD").unwrap()
}

fn routed_method() -> PaymentMethodId {
    PaymentMethodId::new(Uuid::from_u128(5))
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|it| (*it).to_owned()).collect()
}

fn rule(name: &str, when: Conditions, to: &[&str]) -> RoutingRule {
    RoutingRule { name: name.to_owned(), when, to: Targets::Gateways(names(to)) }
}

fn set(routing: RoutingRules) -> Command {
    let key = format!("{PLUGIN_CONFIGURATION}{ROUTER}");
    let (value, rules) = (Some("sealed".to_owned()), Some(RulesPart::Routing(routing)));
    Command::Tenant(TenantCommand::SetValue(SetTenantValue { key, value, rules }))
}

/// A world with four gateways and a routed method that has a part for each of the first three.
fn world(rules: RoutingRules) -> World {
    let mut world = World::new();
    let gateway = GatewaySettings {
        settles_at_once: false,
        timeout_us: 20 * Timestamp::SECOND_US,
        settle_after_us: 0,
        action_timeout_us: None,
        needs_merchant_account: false,
        attaches_methods: false,
    };
    for name in ["third", "fourth"] {
        world.rows.settings.gateways.insert(name.to_owned(), gateway);
    }
    let mut properties = vec![("bin".to_owned(), "411111".to_owned())];
    for name in &GATEWAYS[..3] {
        properties.push((format!("{name}.externalPaymentMethodId"), format!("at {name}")));
    }
    properties.push(("kind".to_owned(), "card".to_owned()));
    let remote =
        world.rows.state.account.payment_methods.find(&(TENANT, method_id("remote"))).cloned();
    let method = PaymentMethod {
        id: routed_method(),
        gateway: ROUTER.to_owned(),
        external_payment_method_id: None,
        properties,
        ..remote.unwrap()
    };
    world.rows.state.account.payment_methods.put(method);
    world.rows.run(set(rules)).unwrap();
    world
}

/// Rules with one that always matches.
fn always(to: &[&str]) -> RoutingRules {
    let rules = vec![rule("all", Conditions::default(), to)];
    RoutingRules { rules, cascade: CascadeRules::default() }
}

fn start(name: &str) -> Initiate {
    Initiate {
        payment_method: Some(routed_method()),
        payment_key: Some(name.to_owned()),
        transaction_key: Some(format!("{name}-key")),
        amount: Some("10".to_owned()),
        ..Initiate::of(account_id())
    }
}

fn purchase(name: &str) -> Command {
    Command::Payment(PaymentCommand::Purchase(start(name)))
}

impl World {
    fn decline(&mut self, name: &str, code: &str) -> String {
        let outcome = GatewayOutcome {
            error_code: Some(code.to_owned()),
            ..GatewayOutcome::new(GatewayStatus::Error)
        };
        self.answer(name, GatewayAnswer::Outcome(outcome))
    }

    fn answer(&mut self, name: &str, answer: GatewayAnswer) -> String {
        let payment = self.payments[name];
        let transaction = self.file(payment).transactions.last().unwrap().id;
        let tries = self.tries.get(&transaction).cloned();
        let replied = GatewayReplied { payment, transaction, answer, is_controlled: true, tries };
        let command = Command::Payment(PaymentCommand::GatewayReplied(replied));
        self.run(name, command)
    }

    /// The gateways and statuses of a payment's transactions.
    fn tries_of(&self, name: &str) -> String {
        let file = self.file(self.payments[name]);
        let all = file.transactions.iter();
        let all = all.map(|it| {
            let number = it.routed.as_ref().map_or(0, |it| it.number);
            format!("{number} {:?} {} {:?}", it.kind, it.gateway, it.status)
        });
        all.collect::<Vec<_>>().join("\n")
    }
}

#[track_caller]
fn check_tries(world: &World, expected: Expect) {
    expected.assert_eq(&world.tries_of("p"));
}

/// Which gateway a purchase of 10 USD goes to under rules of these conditions, with `third` for what matches none.
fn goes_to(when: Conditions, change: fn(&mut World)) -> String {
    let rules =
        vec![rule("own", when, &["other"]), rule("rest", Conditions::default(), &["third"])];
    let mut world = world(RoutingRules { rules, cascade: CascadeRules::default() });
    change(&mut world);
    world.run("p", purchase("p"));
    world.calls.join(", ")
}

#[test]
fn each_condition_matches_what_it_says() {
    let eur = Currency::parse("EUR").unwrap();
    let range = |min, max| AmountRange { min: Some(AmountMinor(min)), max: Some(AmountMinor(max)) };
    let bins = |digits, from, to| vec![BinRange { digits, from, to }];
    let with = Conditions::default;
    for (when, matches) in [
        (Conditions { currencies: [usd(), eur].into(), ..with() }, true),
        (Conditions { currencies: [eur].into(), ..with() }, false),
        (Conditions { amounts: [(usd(), range(1_000, 1_000))].into(), ..with() }, true),
        (Conditions { amounts: [(usd(), range(1_001, 2_000))].into(), ..with() }, false),
        (Conditions { amounts: [(eur, range(1, 2_000))].into(), ..with() }, false),
        (Conditions { bins: bins(6, 411_111, 411_111), ..with() }, true),
        (Conditions { bins: bins(6, 411_112, 499_999), ..with() }, false),
        (Conditions { bins: bins(8, 41_111_100, 41_111_199), ..with() }, false),
        (Conditions { kinds: ["card".to_owned()].into(), ..with() }, true),
        (Conditions { kinds: ["sepa".to_owned()].into(), ..with() }, false),
        (Conditions { countries: ["DE".to_owned()].into(), ..with() }, false),
        (
            Conditions {
                tags: [crate::account::tag::DefinitionRef::Control(
                    crate::account::tag::ControlTag::Test,
                )]
                .into(),
                ..with()
            },
            false,
        ),
        (Conditions { fields: [("a".to_owned(), "b".to_owned())].into(), ..with() }, false),
        (Conditions { healthy: ["remote".to_owned()].into(), ..with() }, true),
    ] {
        let expected = if matches { "other at other" } else { "third at third" };
        assert_eq!(goes_to(when.clone(), |_| {}), expected, "{when:?}");
    }
}

#[test]
fn conditions_see_the_accounts_country_tags_and_fields_and_the_health_of_gateways() {
    let with = Conditions::default;
    let country = Conditions { countries: ["DE".to_owned()].into(), ..with() };
    let found = goes_to(country, |world| {
        let person = crate::Person { country: Some("DE".to_owned()), ..Default::default() };
        world.rows.state.account.people.insert((TENANT, account_id()), person);
    });
    assert_eq!(found, "other at other");
    let test = crate::account::tag::ControlTag::Test;
    let found = goes_to(
        Conditions { tags: [crate::account::tag::DefinitionRef::Control(test)].into(), ..with() },
        |world| {
            let key = crate::account::tag::TagKey::of_account(
                account_id(),
                crate::account::tag::ControlTag::Test,
            );
            let tag = crate::account::tag::Tag {
                tenant: TENANT,
                key,
                id: crate::TagId::new(Uuid::from_u128(9)),
                active: true,
                created_at: Timestamp(0),
                revision: Revision::first(Seq(1)),
            };
            world.rows.state.account.tags.put(tag);
        },
    );
    assert_eq!(found, "other at other");
    let fields = [("tier".to_owned(), "gold".to_owned())].into();
    let found = goes_to(Conditions { fields, ..with() }, |world| {
        let object = crate::object::Object::Account(account_id());
        let add = crate::account::custom_field::AddCustomFields {
            account: account_id(),
            object,
            fields: vec![crate::account::custom_field::NewCustomField {
                name: "tier".to_owned(),
                value: "gold".to_owned(),
            }],
        };
        let add = crate::command::AccountCommand::AddCustomFields(add);
        world.rows.run(Command::Account(add)).unwrap();
    });
    assert_eq!(found, "other at other");
    let healthy = Conditions { healthy: ["remote".to_owned()].into(), ..with() };
    let found = goes_to(healthy, |world| world.rows.health.set("remote", Unready::BreakerOpen));
    assert_eq!(found, "third at third");
}

#[test]
fn a_gateway_gets_its_own_part_of_a_method_and_of_the_requests_properties() {
    let mut world = world(always(&["other"]));
    let properties = [("other.cvc", "1"), ("remote.cvc", "2"), ("plain", "3")];
    let call = Initiate {
        properties: properties.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..start("p")
    };
    let executed = world.rows.run(Command::Payment(PaymentCommand::Purchase(call))).unwrap();
    let [Effect::CallGateway(call)] = &executed.done.effects[..] else { panic!() };
    assert_eq!(call.external_payment_method_id.as_deref(), Some("at other"));
    let shown = |all: &crate::Properties| {
        all.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown(&call.payment_method_properties), "bin=411111 kind=card");
    assert_eq!(shown(&call.properties), "cvc=1 plain=3");
}

#[test]
fn what_cannot_be_routed_is_refused_before_anything_is_written() {
    let eur =
        Conditions { currencies: [Currency::parse("EUR").unwrap()].into(), ..Default::default() };
    let mut world = world(RoutingRules {
        rules: vec![rule("eur", eur, &["remote"])],
        cascade: CascadeRules::default(),
    });
    let before = world.rows.seq;
    expect!["refused: paymentMethodId: no rule of faregate-router matches"]
        .assert_eq(&world.run("p", purchase("p")));
    world.rows.run(set(always(&["third", "fourth"]))).unwrap();
    world.rows.settings.gateways.remove("third");
    expect!["refused: paymentMethodId: no gateway can be called: third: there is no such gateway any more; fourth: neither payment method nor request has a property for it"]
        .assert_eq(&world.run("p", purchase("p")));
    assert_eq!(world.rows.seq, before + 1, "only the rules were written");
    assert!(world.payments.is_empty());
}

#[test]
fn a_gateway_that_is_gone_or_takes_no_calls_is_passed_over_and_that_is_kept() {
    let mut world = world(always(&["third", "fourth", "remote", "other"]));
    world.rows.settings.gateways.remove("third");
    world.rows.health.set("remote", Unready::BreakerOpen);
    world.run("p", purchase("p"));
    assert_eq!(world.calls, ["other at other"]);
    let routed = world.file(world.payments["p"]).transactions[0].routed.clone();
    let routed = routed.unwrap();
    let by = ChosenBy::Rule { name: "all".to_owned(), revision: Seq(2) };
    assert_eq!((routed.number, routed.by), (1, by));
    let expected = [
        ("fourth", PassedOver::NoMethod),
        ("remote", PassedOver::Unready(Unready::BreakerOpen)),
        ("third", PassedOver::Gone),
    ];
    let expected = expected.map(|(name, why)| (name.to_owned(), why));
    assert_eq!(routed.passed_over, expected.into());
    // Where none takes calls, the first is named: its call is refused for now.
    world.rows.health.set("other", Unready::Full);
    world.run("q", purchase("q"));
    assert_eq!(world.calls, ["remote at remote"]);
}

#[test]
fn a_caller_names_gateways_in_order() {
    let mut world = world(always(&["remote"]));
    let named = |names: &[&str]| Initiate { gateways: self::names(names), ..start("p") };
    let mut run = |call| world.run("p", Command::Payment(PaymentCommand::Purchase(call)));
    expect!["refused: gateways: names a gateway that is not there: nowhere"]
        .assert_eq(&run(named(&["other", "nowhere"])));
    expect!["refused: gateways: names the gateway other twice"]
        .assert_eq(&run(named(&["other", "other"])));
    expect!["refused: gateways: should name at most 4"]
        .assert_eq(&run(named(&["remote", "other", "third", "fourth", "fifth"])));
    let plain = Initiate { payment_method: Some(method_id("remote")), ..named(&["other"]) };
    expect!["refused: gateways: is for methods of faregate-router only"].assert_eq(&run(plain));
    run(named(&["third", "other"]));
    assert_eq!(world.calls, ["third at third"]);
    world.decline("p", "51");
    assert_eq!(world.calls, ["other at other"]);
}

#[test]
fn rules_are_checked_when_they_are_stored() {
    let mut world = world(RoutingRules::default());
    let mut refusal = |rules| refused(&world.rows.run(set(rules)).unwrap_err());
    let split = |shares: &[(u8, &str)]| {
        let share = |(percent, gateway): &(u8, &str)| Share {
            percent: *percent,
            gateways: names(&[gateway]),
        };
        let to = Targets::Split(shares.iter().map(share).collect());
        let rule = RoutingRule { name: "s".to_owned(), when: Conditions::default(), to };
        RoutingRules { rules: vec![rule], cascade: CascadeRules::default() }
    };
    expect!["refused: rules[0].split: has shares of 101 % together, which should be 100 %"]
        .assert_eq(&refusal(split(&[(60, "remote"), (41, "other")])));
    expect!["refused: rules[0].gateways: names a gateway that is not there: gone"]
        .assert_eq(&refusal(split(&[(60, "remote"), (40, "gone")])));
    expect!["refused: rules[0].gateways: should name 1 to 4 gateways"]
        .assert_eq(&refusal(always(&[])));
    expect!["refused: rules[0].gateways: names the gateway other twice"]
        .assert_eq(&refusal(always(&["other", "other"])));
    expect!["refused: rules[0].gateways: names __EXTERNAL_PAYMENT__, which is not called"]
        .assert_eq(&refusal(always(&[EXTERNAL_PAYMENT])));
    let twice = RoutingRules {
        rules: [always(&["other"]).rules, always(&["other"]).rules].concat(),
        cascade: CascadeRules::default(),
    };
    expect!["refused: rules[1].name: is the name of another rule: all"].assert_eq(&refusal(twice));
    let many = (0..101).map(|n| rule(&n.to_string(), Conditions::default(), &["other"])).collect();
    expect!["refused: rules: has more than 100 rules"]
        .assert_eq(&refusal(RoutingRules { rules: many, ..always(&[]) }));
    let healthy = Conditions { healthy: ["gone".to_owned()].into(), ..Default::default() };
    expect!["refused: rules[0].when.healthy: names a gateway that is not there: gone"].assert_eq(
        &refusal(RoutingRules { rules: vec![rule("h", healthy, &["other"])], ..always(&[]) }),
    );
    let codes = [("gone".to_owned(), crate::payment::decline::DeclineCodes::new())].into();
    let cascade = CascadeRules { codes, ..CascadeRules::default() };
    expect!["refused: cascade.codes: names a gateway that is not there: gone"]
        .assert_eq(&refusal(RoutingRules { cascade, ..always(&["other"]) }));
}

#[test]
fn shares_are_of_accounts_and_an_account_stays_in_its_share() {
    let to = Targets::Split(vec![
        Share { percent: 70, gateways: names(&["remote"]) },
        Share { percent: 30, gateways: names(&["other"]) },
    ]);
    let accounts = (0..10_000_u128).map(|n| {
        // As they are minted: a time first, random bits last.
        let random = n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        AccountId::new(Uuid::from_u128(
            (0x0192_0000_0000_7000_u128 << 64) | (random & u128::from(u64::MAX)),
        ))
    });
    let in_other = accounts.filter(|it| to.of(*it) == ["other"]).count();
    assert!((2_800..3_200).contains(&in_other), "{in_other} of 10,000");
    assert_eq!(to.of(account_id()), to.of(account_id()));
}

#[test]
fn a_soft_decline_goes_on_to_the_next_gateway_in_one_commit() {
    let mut world = world(always(&["remote", "other", "third"]));
    world.run("p", purchase("p"));
    let shown = world.decline("p", "51");
    assert_eq!(world.calls, ["other at other"]);
    expect!["Purchase InFlight, open; "].assert_eq(&shown);
    assert_eq!(world.file(world.payments["p"]).payment.gateway, "other");
    check_tries(
        &world,
        expect![[r#"
            1 Purchase remote PaymentFailure
            2 Purchase other InFlight"#]],
    );
    let shown =
        world.answer("p", GatewayAnswer::Outcome(GatewayOutcome::new(GatewayStatus::Processed)));
    expect!["Purchase Success, purchased 1000; gateway>customer 1000"].assert_eq(&shown);
    let file = world.file(world.payments["p"]);
    assert_eq!(file.payment.gateway, "other");
    assert!(file.transactions.iter().all(|it| it.external_key.as_deref() == Some("p-key")));
    // What follows goes where the money is, with what that gateway knows the customer by.
    world.step("refund p 4");
    assert_eq!(world.calls, ["other at other"]);
}

#[test]
fn the_last_decline_is_the_answer() {
    let mut world = world(always(&["remote", "other"]));
    world.run("p", purchase("p"));
    world.decline("p", "51");
    expect!["Purchase PaymentFailure; "].assert_eq(&world.decline("p", "51"));
    assert!(world.calls.is_empty());
    check_tries(
        &world,
        expect![[r#"
            1 Purchase remote PaymentFailure
            2 Purchase other PaymentFailure"#]],
    );
}

/// Whether an answer to the first call of a payment leads to another one.
fn goes_on(kind: fn(Initiate) -> PaymentCommand, answer: GatewayAnswer) -> bool {
    let mut world = world(always(&["remote", "other"]));
    world.run("p", Command::Payment(kind(start("p"))));
    world.answer("p", answer);
    !world.calls.is_empty()
}

#[test]
fn only_a_final_decline_of_a_charge_goes_on() {
    let outcome = |status, code: &str| {
        let error_code = Some(code.to_owned());
        GatewayAnswer::Outcome(GatewayOutcome { error_code, ..GatewayOutcome::new(status) })
    };
    let soft = || outcome(GatewayStatus::Error, "51");
    assert!(goes_on(PaymentCommand::Purchase, soft()));
    assert!(goes_on(PaymentCommand::Authorize, soft()));
    assert!(!goes_on(PaymentCommand::Credit, soft()));
    let failed = || GatewayAnswer::Failed { message: "51".to_owned() };
    for answer in [
        outcome(GatewayStatus::Error, "54"),
        outcome(GatewayStatus::Error, "stolen_card"),
        GatewayAnswer::Outcome(GatewayOutcome::new(GatewayStatus::Error)),
        outcome(GatewayStatus::Processed, "51"),
        outcome(GatewayStatus::Pending, "51"),
        outcome(GatewayStatus::Undefined, "51"),
        outcome(GatewayStatus::Canceled, "51"),
        failed(),
        GatewayAnswer::Nothing,
        GatewayAnswer::TimedOut,
        GatewayAnswer::not_reached("51".to_owned()),
    ] {
        assert!(!goes_on(PaymentCommand::Purchase, answer.clone()), "{answer:?}");
    }
}

#[test]
fn a_tenant_says_after_which_classes() {
    let goes_on = |after: &[DeclineClass], code: &str| {
        let own = [("X".to_owned(), DeclineClass::Soft)].into();
        let codes = [("remote".to_owned(), own)].into();
        let after = after.iter().copied().collect();
        let cascade = CascadeRules { after, codes, ..CascadeRules::default() };
        let mut world = world(RoutingRules { cascade, ..always(&["remote", "other"]) });
        world.run("p", purchase("p"));
        world.decline("p", code);
        !world.calls.is_empty()
    };
    use DeclineClass as C;
    assert!(goes_on(&[C::Soft], "X"));
    assert!(!goes_on(&[], "X"));
    assert!(!goes_on(&[C::Soft], "54"));
    assert!(goes_on(&[C::Hard], "54"));
    assert!(!goes_on(&[C::Hard], "59"));
    assert!(goes_on(&[C::Fraud], "59"));
}

#[test]
fn a_next_try_needs_time_a_gateway_and_room() {
    let declined = |change: fn(&mut World)| {
        let mut world = world(always(&["remote", "other"]));
        world.run("p", purchase("p"));
        change(&mut world);
        world.decline("p", "51");
        world.calls.join(", ")
    };
    assert_eq!(declined(|world| world.rows.now += 25 * Timestamp::SECOND_US), "other at other");
    assert_eq!(declined(|world| world.rows.now += 25 * Timestamp::SECOND_US + 1), "");
    assert_eq!(declined(|world| world.rows.health.set("other", Unready::BreakerOpen)), "");
    let gone = |world: &mut World| {
        world.rows.settings.gateways.remove("other");
    };
    assert_eq!(declined(gone), "");
    assert_eq!(declined(|world| world.rows.settings.transactions_per_payment_max = 1), "");
    let closed = |world: &mut World| {
        world.rows.state.account.closed.insert((TENANT, account_id()));
    };
    assert_eq!(declined(closed), "");
    let deleted = |world: &mut World| {
        let method = world.rows.state.account.payment_methods.find_mut(&(TENANT, routed_method()));
        method.unwrap().active = false;
    };
    assert_eq!(declined(deleted), "");
}

#[test]
fn a_call_has_what_is_left_of_the_deadline() {
    let mut world = world(always(&["remote", "other"]));
    world.run("p", purchase("p"));
    world.rows.now += 18 * Timestamp::SECOND_US;
    world.decline("p", "51");
    let open = world.rows.state.payment.outstanding.values().next().unwrap();
    assert_eq!(open.deadline.0 - world.rows.now, 12 * Timestamp::SECOND_US);
}

/// A gateway's report of a transaction of `p` beside the answer to its call.
fn inquired(world: &World, at: usize, status: GatewayStatus) -> Command {
    let payment = world.payments["p"];
    let transaction = world.file(payment).transactions[at].id;
    let knowledge = GatewayKnowledge::Found(GatewayOutcome::new(status));
    let asked_at = Timestamp(world.rows.now);
    let it = GatewayInquired { payment, transaction, knowledge, asked_at };
    Command::Payment(PaymentCommand::GatewayInquired(it))
}

/// The answer to the call is older than what was reported while it ran.
#[test]
fn a_success_that_was_heard_before_the_answer_stays_one_and_goes_on_to_no_gateway() {
    let mut world = world(always(&["remote", "other"]));
    world.run("p", purchase("p"));
    world.run("p", inquired(&world, 0, GatewayStatus::Processed));
    world.decline("p", "51");
    assert!(world.calls.is_empty(), "{:?}", world.calls);
    let transactions = &world.file(world.payments["p"]).transactions;
    let statuses: Vec<_> = transactions.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [TransactionStatus::Success]);
}

#[test]
fn a_success_that_was_heard_answers_repetitions_of_its_request_and_a_decline_waits_for_the_call() {
    for (status, is_answered) in [(GatewayStatus::Processed, true), (GatewayStatus::Error, false)] {
        let mut world = world(always(&["remote"]));
        world.run("p", purchase("p"));
        let open = world.rows.state.payment.outstanding.values_mut().next().unwrap();
        open.reply = Some(ReplyKey(uuid::Uuid::from_u128(7)));
        world.run("p", inquired(&world, 0, status));
        let open =
            world.rows.state.payment.outstanding.values().next().expect("the call may still run");
        assert_eq!(open.reply.is_none(), is_answered, "{status:?}");
    }
}

#[test]
fn a_decline_that_is_heard_before_or_after_the_answer_goes_on_once_at_the_answer() {
    let mut world = world(always(&["remote", "other"]));
    world.run("p", purchase("p"));
    world.run("p", inquired(&world, 0, GatewayStatus::Error));
    assert!(world.calls.is_empty(), "a notification goes on to no gateway");
    world.decline("p", "51");
    assert_eq!(world.calls, ["other at other"]);
    // The same answer again, after a commit in doubt.
    let payment = world.payments["p"];
    let transaction = world.file(payment).transactions[0].id;
    let outcome = GatewayOutcome {
        error_code: Some("51".to_owned()),
        ..GatewayOutcome::new(GatewayStatus::Error)
    };
    let again = GatewayReplied {
        payment,
        transaction,
        answer: GatewayAnswer::Outcome(outcome),
        is_controlled: true,
        tries: world.tries.get(&transaction).cloned(),
    };
    world.run("p", Command::Payment(PaymentCommand::GatewayReplied(again)));
    assert!(world.calls.is_empty());
    // A timeout ends it; what is heard later goes on to no gateway.
    world.answer("p", GatewayAnswer::TimedOut);
    world.rows.now += 60 * Timestamp::SECOND_US;
    world.run("p", inquired(&world, 1, GatewayStatus::Error));
    check_tries(
        &world,
        expect![[r#"
            1 Purchase remote PaymentFailure
            2 Purchase other PaymentFailure"#]],
    );
}

#[test]
fn nothing_goes_on_where_another_request_came_between() {
    let mut world = world(always(&["remote", "other"]));
    world.run("p", purchase("p"));
    let first = world.file(world.payments["p"]).transactions[0].id;
    let payment = world.payments["p"];
    let knowledge = GatewayKnowledge::Found(GatewayOutcome::new(GatewayStatus::Error));
    let asked_at = Timestamp(world.rows.now);
    let it = GatewayInquired { payment, transaction: first, knowledge, asked_at };
    world.run("p", Command::Payment(PaymentCommand::GatewayInquired(it)));
    // The client tries again under the key that is free again, on another payment.
    let other = Initiate { payment_key: Some("q".to_owned()), ..start("p") };
    world.run("q", Command::Payment(PaymentCommand::Purchase(other)));
    assert_eq!(world.calls, ["remote at remote"]);
    world.decline("p", "51");
    assert!(world.calls.is_empty(), "the key has another payment's call in flight");
}

#[test]
fn the_tries_of_a_request_are_one_attempt_and_count_once() {
    let mut world = world(always(&["remote", "other"]));
    let key = format!("{PLUGIN_CONFIGURATION}faregate-rules");
    let limits = Limits { every_payment: true, ..Limits::default() };
    let (value, rules) = (Some("sealed".to_owned()), Some(RulesPart::Limits(limits)));
    let set = TenantCommand::SetValue(SetTenantValue { key, value, rules });
    world.rows.run(Command::Tenant(set)).unwrap();
    let retries = ("IPCD_RETRIES".to_owned(), "true".to_owned());
    let call = Initiate { properties: vec![retries], ..start("p") };
    world.run("p", Command::Payment(PaymentCommand::Purchase(call)));
    let attempts = |world: &World| {
        let all = world.rows.state.payment.attempts.values().flatten();
        let file = world.file(world.payments["p"]);
        let at = |it: &crate::payment::attempt::PaymentAttempt| {
            file.transactions.iter().position(|tx| Some(tx.id) == it.transaction_id)
        };
        all.map(|it| (it.state, at(it))).collect::<Vec<_>>()
    };
    let counted = |world: &World| {
        world.rows.state.payment.velocities.find(&(TENANT, account_id())).unwrap().count
    };
    assert_eq!(attempts(&world), [(AttemptState::Init, Some(0))]);
    world.decline("p", "51");
    assert_eq!((attempts(&world), counted(&world)), (vec![(AttemptState::Init, Some(1))], 1));
    world.decline("p", "51");
    assert_eq!((attempts(&world), counted(&world)), (vec![(AttemptState::Scheduled, Some(1))], 0));
}

/// A payment whose first try was declined and then turned out to have succeeded, as its second did; with the
/// command that is due, where the tenant's rules refund.
fn paid_twice(refunds: bool, is_late_first: bool) -> (World, Vec<Event>) {
    let cascade = CascadeRules { refunds_late_successes: refunds, ..CascadeRules::default() };
    let mut world = world(RoutingRules { cascade, ..always(&["remote", "other"]) });
    world.run("p", purchase("p"));
    world.decline("p", "51");
    let payment = world.payments["p"];
    let transaction = world.file(payment).transactions[0].id;
    let late = |world: &World| {
        let knowledge = GatewayKnowledge::Found(GatewayOutcome::new(GatewayStatus::Processed));
        let asked_at = Timestamp(world.rows.now);
        let it = GatewayInquired { payment, transaction, knowledge, asked_at };
        Command::Payment(PaymentCommand::GatewayInquired(it))
    };
    let second = |world: &World| {
        let transaction = world.file(payment).transactions[1].id;
        Command::Payment(PaymentCommand::GatewayReplied(GatewayReplied {
            payment,
            transaction,
            answer: GatewayAnswer::Outcome(GatewayOutcome::new(GatewayStatus::Processed)),
            is_controlled: false,
            tries: world.tries.get(&transaction).cloned(),
        }))
    };
    let commands = match is_late_first {
        true => [late(&world), second(&world)],
        false => [second(&world), late(&world)],
    };
    let events = commands.map(|command| world.rows.run(command).unwrap().done.events);
    (world, events.into_iter().flatten().collect())
}

#[test]
fn a_late_success_is_booked_and_reported_once() {
    for is_late_first in [true, false] {
        let (world, events) = paid_twice(false, is_late_first);
        let file = world.file(world.payments["p"]);
        assert_eq!(file.payment.amounts.purchased, AmountMinor(2_000));
        let late = file.transactions[0].id;
        let reported: Vec<&Event> =
            events.iter().filter(|it| matches!(it, Event::LateSuccess { .. })).collect();
        let (account, payment) = (account_id(), file.payment.id);
        let expected =
            Event::LateSuccess { account, payment, transaction: late, is_refunded: false };
        assert_eq!(reported, [&expected], "{is_late_first}");
        assert!(world.rows.state.timers.iter().next().is_none());
    }
}

#[test]
fn a_late_success_is_refunded_where_the_tenant_says_so() {
    for is_late_first in [true, false] {
        let (mut world, _) = paid_twice(true, is_late_first);
        let file = world.file(world.payments["p"]);
        let (payment, transaction) = (file.payment.id, file.transactions[0].id);
        let due = world.rows.state.timers.iter().next().unwrap().due;
        let refund = RefundLateSuccess { payment, transaction, due };
        let refund = || Command::Payment(PaymentCommand::RefundLateSuccess(refund));
        world.run("p", refund());
        assert_eq!(world.calls, ["remote at remote"]);
        // Fired once more after a crash, it does nothing.
        world.run("p", refund());
        assert!(world.calls.is_empty());
        world.step("approve p");
        check_tries(
            &world,
            expect![[r#"
                1 Purchase remote Success
                2 Purchase other Success
                0 Refund remote Success"#]],
        );
    }
}

#[test]
fn a_late_success_is_refunded_after_what_is_open_and_asked_about_ever_less_often() {
    let (mut world, _) = paid_twice(true, true);
    let file = world.file(world.payments["p"]);
    let (payment, transaction) = (file.payment.id, file.transactions[0].id);
    world.step("refund p 1");
    world.step("timeout p");
    let begun = world.rows.now;
    let mut due_after_s = vec![];
    for _ in 0..14 {
        let due = world.rows.state.timers.iter().next().unwrap().due;
        world.rows.now = world.rows.now.max(due.0);
        let refund = RefundLateSuccess { payment, transaction, due };
        world.run("p", Command::Payment(PaymentCommand::RefundLateSuccess(refund)));
        let due = world.rows.state.timers.iter().next().unwrap().due;
        due_after_s.push((due.0 - begun) / Timestamp::SECOND_US);
    }
    let minutes: Vec<i64> = due_after_s.iter().map(|it| it / 60).collect();
    let days = [2_048, 3_488, 4_928];
    let doubled = (0..11).map(|n| 1 << n);
    assert_eq!(minutes, doubled.chain(days).collect::<Vec<_>>());
}

#[test]
fn bank_identification_numbers_of_a_routed_method_have_6_to_8_digits() {
    let mut world = world(RoutingRules::default());
    for (bin, is_refused) in [
        ("411111", false),
        ("41111111", false),
        ("41111", true),
        ("411111111", true),
        ("41111a", true),
    ] {
        let create = crate::account::payment_method::CreatePaymentMethod {
            properties: vec![("bin".to_owned(), bin.to_owned())],
            is_default: false,
            ..crate::account::payment_method::CreatePaymentMethod::default_of(
                account_id(),
                ROUTER.to_owned(),
            )
        };
        let create = crate::command::AccountCommand::CreatePaymentMethod(create);
        assert_eq!(world.rows.run(Command::Account(create)).is_err(), is_refused, "{bin}");
    }
}
