//! Features of plans: what an account has by its subscriptions, command by command.

use std::collections::BTreeMap;

use super::*;
use crate::account::blocking_state::{
    ACCOUNT_SERVICE, AddBlockingState, Blockable, Blocks, CLOSED, CloseAccount,
};
use crate::account::tag::AddTags;
use crate::billing::bundle::Bundle;
use crate::billing::invoice::Manual;
use crate::billing::pay::PayInvoice;
use crate::billing::subscription::{AddItems, InvoiceOf, ManualKind, NewItem, SubscribeAll};
use crate::change::EntitlementChange;
use crate::command::{EntitlementCommand, PaymentCommand};
use crate::entitlement::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset,
};
use crate::entitlement::plan_features::{FeaturesOf, PlanFeature, PutPlanFeatures, Starts};
use crate::entitlement::{Entitlements, Grant, GrantFeature};
use crate::flag::definition::Expected;
use crate::payment::{
    FollowUp, GatewayAnswer, GatewayOutcome, GatewayReplied, GatewayStatus, Initiate,
};
use crate::testing::run_script;
use crate::{GrantId, InvoiceId};

/// An account, and features of plans.
struct Featured {
    world: World,
}

impl Featured {
    /// The plan `pro` gives what the text says, its product, which is that of `max` and `term` too, 1 of `base`.
    fn new(of_pro: &str) -> Self {
        let mut rows = Self { world: World::new() };
        for key in ["a", "b", "base"] {
            rows.put_feature(key);
        }
        rows.put(FeaturesOf::product("Pro"), "base=1");
        rows.put(FeaturesOf::plan("pro"), of_pro);
        rows
    }

    fn put_feature(&mut self, key: &str) {
        let unit = "seats".to_owned();
        let kind = FeatureKind::Limit(LimitTerms { unit, resets: Reset::Never, overdraft: false });
        let it = PutFeature {
            key: key.to_owned(),
            name: key.to_owned(),
            terms: FeatureTerms { kind, combine: Combine::Sum },
            archived: false,
            expected: Expected::Anything,
        };
        self.run(EntitlementCommand::PutFeature(Box::new(it)).into()).unwrap();
    }

    /// Features as `key=limit`: `T` before the limit for the trial alone, `*` behind it for each of the quantity, `!` once
    /// the first invoice is paid.
    fn put(&mut self, of: FeaturesOf, text: &str) {
        let entry = |text: &str| {
            let (key, value) = text.split_once('=').unwrap();
            let limit = FeatureValue::Limit(value.trim_matches(['*', 'T', '!']).parse().unwrap());
            let in_trial = value.starts_with('T');
            let entry = PlanFeature {
                value: (!in_trial).then(|| limit.clone()),
                phases: in_trial.then_some((PhaseType::Trial, limit)).into_iter().collect(),
                times_quantity: value.contains('*'),
                starts: if value.contains('!') { Starts::Paid } else { Starts::Start },
            };
            (key.to_owned(), entry)
        };
        let features: BTreeMap<_, _> = text.split_whitespace().map(entry).collect();
        let put = PutPlanFeatures { of, features, expected: Expected::Anything };
        self.run(EntitlementCommand::PutPlanFeatures(Box::new(put)).into()).unwrap();
    }

    fn run(&mut self, command: Command) -> Result<Option<Reply>, Rejection> {
        self.world.rows.run(command).map(|it| it.reply)
    }

    fn block(&mut self, of: &str, service: &str, blocks: &str) {
        let subscription = self.world.subscription.unwrap();
        let bundles = self.world.rows.state.billing.bundles.of(&(TENANT, self.world.account));
        let bundle: &Bundle = bundles.values().next().unwrap();
        let of = match of {
            "account" => Blockable::Account,
            "bundle" => Blockable::Bundle(bundle.id),
            "subscription" => Blockable::Subscription(subscription),
            other => panic!("{other}"),
        };
        let has = blocks == "on";
        let (service, name) = (service.to_owned(), blocks.to_owned());
        let name = if service == ACCOUNT_SERVICE && has { CLOSED.to_owned() } else { name };
        let blocks = Blocks { change: has, entitlement: has, billing: has };
        let account = self.world.account;
        let it = AddBlockingState { account, of, service, name, blocks, effective_at: None };
        self.run(AccountCommand::AddBlockingState(it).into()).unwrap();
    }

    /// The oldest invoice that charges something.
    fn invoice(&self) -> InvoiceId {
        let all = self.world.rows.state.billing.invoices.iter();
        all.filter(|it| it.charged.0 > 0).min_by_key(|it| it.number).unwrap().id
    }

    fn step(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split_whitespace().collect();
        let (account, subscription) = (self.world.account, self.world.subscription);
        let of = |subscription| OfAccount { account, subscription };
        let done = match words[..] {
            ["subscribe", plan] => self.world.subscribe(plan, |_| {}).map(drop),
            ["subscribe", plan, "on", day] => {
                let day = Some(When::Day(day.parse().unwrap()));
                self.world
                    .subscribe(plan, |it| (it.billed_from, it.entitled_from) = (day, day))
                    .map(drop)
            }
            ["subscribe", plan, times] => {
                let quantity = Some(times.parse().unwrap());
                self.world.subscribe(plan, |it| it.quantity = quantity).map(drop)
            }
            ["change", plan] => self.world.change(plan, Some(Policy::Immediate)),
            ["change", plan, "later"] => self.world.change(plan, Some(Policy::EndOfTerm)),
            ["cancel"] => self.world.cancel(Policy::Immediate),
            ["cancel", "later"] => self.world.cancel(Policy::EndOfTerm),
            ["uncancel"] => self.world.run(BillingCommand::Uncancel),
            ["quantity", n] => self.world.set_quantity(n.parse().unwrap()),
            ["until", day] => {
                self.world.until(&format!("{day}T08:00"));
                Ok(())
            }
            ["block", of, service, blocks] => {
                self.block(of, service, blocks);
                Ok(())
            }
            ["close"] => {
                let (remove_future_notifications, cancel_subscriptions) = (true, false);
                let it =
                    CloseAccount { account, remove_future_notifications, cancel_subscriptions };
                self.run(AccountCommand::Close(it).into()).map(drop)
            }
            ["plan", plan, ..] => {
                self.put(FeaturesOf::plan(plan), &words[2..].join(" "));
                Ok(())
            }
            ["undo"] => {
                self.run(BillingCommand::UndoChange(of(subscription.unwrap())).into()).map(drop)
            }
            _ => self.step_of_money(&words),
        };
        match done {
            Ok(()) => self.shown(),
            Err(refused) => refused.to_string(),
        }
    }

    fn step_of_money(&mut self, words: &[&str]) -> Result<(), Rejection> {
        let account = self.world.account;
        match words {
            ["charge"] => {
                let item = NewItem {
                    invoice: None,
                    amount: Some("3".to_owned()),
                    currency: None,
                    description: None,
                    details: None,
                    start: None,
                    end: None,
                    manual: Manual::default(),
                };
                let (kind, commits, day) = (ManualKind::Charge, true, None);
                let it = AddItems { account, kind, items: vec![item], commits, day };
                self.run(BillingCommand::AddItems(Box::new(it)).into()).map(drop)
            }
            ["remote"] => {
                let method = CreatePaymentMethod::default_of(account, "remote".to_owned());
                self.run(AccountCommand::CreatePaymentMethod(method).into()).map(drop)
            }
            ["pay"] => {
                let invoice = self.invoice();
                let call = Initiate::of(account);
                let it = PayInvoice { invoice, is_external: true, call };
                self.run(BillingCommand::Pay(Box::new(it)).into()).map(drop)
            }
            ["hold"] => {
                let id =
                    CONTROL_TAGS.iter().find(|it| it.tag == ControlTag::AutoPayOff).unwrap().id();
                let it = AddTags { account, part: None, definitions: vec![id] };
                self.run(AccountCommand::AddTags(it).into()).map(drop)
            }
            ["release"] => {
                pay::untag(&mut self.world, ControlTag::AutoPayOff);
                pay::fire(&mut self.world);
                Ok(())
            }
            ["void"] => {
                let invoice = self.invoice();
                self.run(BillingCommand::VoidInvoice(InvoiceOf { account, invoice }).into())
                    .map(drop)
            }
            ["succeeds"] => self.answer(GatewayStatus::Processed),
            ["fails"] => self.answer(GatewayStatus::Error),
            ["refund", amount] => self.refund(amount),
            _ => panic!("{words:?}"),
        }
    }

    fn answer(&mut self, status: GatewayStatus) -> Result<(), Rejection> {
        let call = self.world.rows.state.payment.outstanding.values().next().cloned();
        let call = call.expect("a gateway was called");
        let it = GatewayReplied {
            payment: call.payment_id,
            transaction: call.transaction_id,
            answer: GatewayAnswer::Outcome(GatewayOutcome::new(status)),
            is_controlled: false,
            tries: None,
        };
        self.run(PaymentCommand::GatewayReplied(it).into()).map(drop)
    }

    fn refund(&mut self, amount: &str) -> Result<(), Rejection> {
        let payment = self.world.rows.state.payment.payments.iter().next().unwrap().payment.id;
        let call = FollowUp { amount: Some(amount.to_owned()), ..FollowUp::of(payment) };
        self.run(PaymentCommand::Refund(call).into()).map(drop)
    }

    fn entitled(&self) -> Option<&Entitlements> {
        self.world.rows.state.entitlement.entitlements.find(&(TENANT, self.world.account))
    }

    /// What the account has now, each with its end.
    fn shown(&self) -> String {
        let now = Timestamp(self.world.rows.now);
        let shown = |(key, it): (&str, crate::entitlement::Entitled<'_>)| {
            let FeatureValue::Limit(limit) = it.value else { panic!() };
            let until = it.until.map(|it| jiff::Timestamp::from_microsecond(it.0).unwrap());
            let until = until.map(|it| format!(" until {}", &it.to_string()[..10]));
            format!("{key}={limit}{}", until.unwrap_or_default())
        };
        let has = self.entitled().into_iter().flat_map(|it| it.at(now)).map(shown);
        has.collect::<Vec<_>>().join(", ")
    }
}

/// Compares what an account has after the steps, which `|` separates.
fn check(of_pro: &str, script: &str, expected: Expect) {
    let mut it = Featured::new(of_pro);
    expected.assert_eq(&run_script(script, |step| it.step(step)));
}

#[test]
fn a_trial_and_the_phase_after_it_have_what_they_give() {
    check("a=2 b=T5", "subscribe pro", expect!["a=2, b=5 until 2026-02-09, base=1"]);
    check("a=2 b=T5", "subscribe pro | until 2026-02-10", expect!["a=2, base=1"]);
    check("", "subscribe solo", expect![[""]]);
    check("", "subscribe term", expect!["base=1 until 2026-02-19"]);
    check("", "subscribe term | until 2026-02-20", expect![[""]]);
}

#[test]
fn a_subscription_that_begins_later_has_its_features_from_then_on() {
    let later = "subscribe pro on 2026-01-20";
    check("a=2", later, expect![[""]]);
    check("a=2", &format!("{later} | until 2026-01-20"), expect!["a=2, base=1"]);
    check("a=2", &format!("{later} | cancel | until 2026-01-20"), expect![[""]]);
}

#[test]
fn a_plans_entry_wins_over_its_products_and_a_change_takes_what_the_new_plan_gives() {
    check("base=7", "subscribe pro", expect!["base=7"]);
    check("base=7 a=2", "subscribe pro | change max", expect!["base=1"]);
    check("a=2", "subscribe pro | change solo", expect![[""]]);
    let paying = "subscribe pro | until 2026-02-10";
    check("a=2", &format!("{paying} | change max later"), expect!["a=2 until 2026-03-09, base=1"]);
    check("a=2", &format!("{paying} | change max later | undo"), expect!["a=2, base=1"]);
    check("a=2", &format!("{paying} | change max later | until 2026-03-10"), expect!["base=1"]);
}

#[test]
fn a_limit_follows_the_quantity() {
    check("a=2*", "subscribe pro 3", expect!["a=6, base=1"]);
    check("a=2*", "subscribe pro 3 | quantity 5", expect!["a=10, base=1"]);
    check("a=2*", "subscribe pro | subscribe pro 3", expect!["a=8, base=2"]);
}

#[test]
fn an_end_takes_everything_at_its_time() {
    check("a=2", "subscribe pro | cancel", expect![[""]]);
    let paying = "subscribe pro | until 2026-02-10";
    let later = format!("{paying} | cancel later");
    check("a=2", &later, expect!["a=2 until 2026-03-09, base=1 until 2026-03-09"]);
    check("a=2", &format!("{later} | uncancel"), expect!["a=2, base=1"]);
    check("a=2", &format!("{later} | until 2026-03-09"), expect![[""]]);
}

#[test]
fn a_block_on_any_level_takes_everything_until_it_is_lifted() {
    for level in ["account", "bundle", "subscription"] {
        let blocked = format!("subscribe pro | block {level} dunning on");
        check("a=2", &blocked, expect![[""]]);
        check("a=2", &format!("{blocked} | until 2026-02-10"), expect![[""]]);
        check("a=2", &format!("{blocked} | block {level} dunning off"), expect!["a=2, base=1"]);
        let twice = format!("{blocked} | block bundle other on | block {level} dunning off");
        check("a=2", &twice, expect![[""]]);
    }
}

#[test]
fn a_closed_account_has_nothing() {
    check("a=2", "subscribe pro | close", expect![[""]]);
    check("a=2", "subscribe pro | close | until 2026-02-10", expect![[""]]);
    check("a=2", "subscribe pro | block account account-service on", expect![[""]]);
    let opened = "subscribe pro | close | block account account-service off";
    check("a=2", opened, expect!["a=2, base=1"]);
}

#[test]
fn what_waits_for_a_payment_comes_in_the_commit_that_settles_it() {
    check("a=2!", "subscribe pro", expect!["base=1"]);
    check("a=2!", "subscribe pro | until 2026-02-10", expect!["a=2, base=1"]);
    let called = "remote | subscribe pro | until 2026-02-10";
    check("a=2!", called, expect!["base=1"]);
    check("a=2!", &format!("{called} | succeeds"), expect!["a=2, base=1"]);
    check("a=2!", &format!("{called} | fails"), expect!["base=1"]);
    check("a=2!", &format!("{called} | fails | pay"), expect!["a=2, base=1"]);
    check("a=2!", &format!("{called} | fails | pay | until 2026-03-10"), expect!["a=2, base=1"]);
    let held = "hold | subscribe pro | until 2026-02-10";
    check("a=2!", held, expect!["base=1"]);
    check("a=2!", &format!("{held} | release"), expect!["a=2, base=1"]);
    let void = format!("{called} | fails | void");
    check("a=2!", &void, expect!["base=1"]);
    check("a=2!", &format!("{void} | until 2026-03-10 | succeeds"), expect!["a=2, base=1"]);
}

#[test]
fn what_waits_for_a_payment_goes_when_all_of_its_money_goes_back() {
    let paid = "subscribe pro | until 2026-02-10";
    check("a=2!", &format!("{paid} | refund 5"), expect!["a=2, base=1"]);
    check("a=2!", &format!("{paid} | refund 5 | refund 15"), expect!["base=1"]);
    check("a=2", &format!("{paid} | refund 20"), expect!["a=2, base=1"]);
}

#[test]
fn a_new_list_reaches_a_subscription_with_its_next_phase_change_or_period() {
    let changed = "subscribe pro | plan pro a=5";
    check("a=2", changed, expect!["a=2, base=1"]);
    check("a=2", &format!("{changed} | charge"), expect!["a=2, base=1"]);
    check("a=2", &format!("{changed} | quantity 2"), expect!["a=5, base=1"]);
    check("a=2", &format!("{changed} | until 2026-02-10"), expect!["a=5, base=1"]);
    let paying = "subscribe pro | until 2026-02-10 | plan pro a=5";
    check("a=2", paying, expect!["a=2, base=1"]);
    check("a=2", &format!("{paying} | until 2026-03-10"), expect!["a=5, base=1"]);
    check("a=2", &format!("{paying} | subscribe max"), expect!["a=2, base=2"]);
}

#[test]
fn what_stays_the_same_is_neither_taken_nor_given_again() {
    let mut it = Featured::new("a=2 b=T5");
    it.step("subscribe pro");
    let version = |it: &Featured| it.entitled().unwrap().version;
    assert_eq!(version(&it), 1);
    it.step("until 2026-02-10");
    let events: Vec<_> = it.entitled().unwrap().grants.iter().map(|it| it.from).collect();
    assert!(events.iter().all(|from| *from == at("2026-01-10T08:00")));
    assert_eq!(version(&it), 2);
    // A period changes nothing, and what an operator granted since stays the latest.
    let grant = GrantFeature {
        account: it.world.account,
        feature: "a".to_owned(),
        value: FeatureValue::Limit(9),
        from: None,
        until: None,
        reason: "gift".to_owned(),
    };
    it.run(EntitlementCommand::Grant(Box::new(grant)).into()).unwrap();
    let before = it.entitled().unwrap().clone();
    it.step("until 2026-03-10");
    assert_eq!(it.entitled().unwrap(), &before);
    assert_eq!(version(&it), 3);
    // Another end is a new version.
    it.step("cancel later");
    assert_eq!(version(&it), 4);
    assert_eq!(it.entitled().unwrap().grants.last(), before.grants.last());
}

#[test]
fn nothing_with_features_is_sold_beyond_a_thousand_grants() {
    let mut it = Featured::new("a=1");
    let grant = GrantFeature {
        account: it.world.account,
        feature: "b".to_owned(),
        value: FeatureValue::Limit(1),
        from: None,
        until: None,
        reason: "gift".to_owned(),
    };
    it.run(EntitlementCommand::Grant(Box::new(grant)).into()).unwrap();
    let mut entitled = it.entitled().unwrap().clone();
    let grant = entitled.grants[0].clone();
    entitled.grants.extend(
        (1..998).map(|n| Grant { id: GrantId::new(uuid::Uuid::from_u128(n)), ..grant.clone() }),
    );
    let change = EntitlementChange::Entitlements(Box::new(entitled));
    it.world.rows.state.apply(TENANT, &[change.into()]);
    let all = |plans: &[&str]| {
        let account = it.world.account;
        let bundles = plans.iter().map(|plan| vec![subscribe_to(account, plan)]).collect();
        BillingCommand::SubscribeAll(Box::new(SubscribeAll { account, bundles }))
    };
    let (two, free) = (all(&["pro", "max"]), all(&["solo", "solo"]));
    let refused = it.run(two.into()).unwrap_err().to_string();
    expect!["entry 1 of bundle 2: planName: gives features, and the account would have more than 1000 grants"].assert_eq(&refused);
    it.step("subscribe pro");
    assert_eq!(it.entitled().unwrap().grants.len(), 1_000);
    let refused = it.step("subscribe max");
    expect!["planName: gives features, and the account would have more than 1000 grants"]
        .assert_eq(&refused);
    it.run(free.into()).unwrap();
    // It gives as much as the plan before.
    it.step("change max");
    // What a list adds later is left out until there is room.
    it.step("plan max a=1 b=1");
    it.step("quantity 2");
    assert_eq!(it.entitled().unwrap().grants.len(), 1_000);
}
