//! Each way that a purchase and its grants follow the payment, one line each.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};

use crate::account::blocking_state::CloseAccount;
use crate::change::Image;
use crate::command::{AccountCommand, EntitlementCommand, PaymentCommand};
use crate::entitlement::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset,
};
use crate::entitlement::offer::{Again, Buyers, Lasts, OfferTerms, Price, PutOffer, Revocation};
use crate::entitlement::purchase::{Buy, Purchase};
use crate::entitlement::{ContinueEntitlements, Entitlements, Term};
use crate::flag::definition::Expected;
use crate::payment::{
    FollowUp, GatewayAnswer, GatewayInquired, GatewayKnowledge, GatewayOutcome, GatewayReplied,
    GatewayStatus,
};
use crate::testing::{Rows, TENANT, run_script};
use crate::timer::{TimerKey, TimerKind};
use crate::{
    AccountId, AmountMinor, Command, Currency, Effect, Event, Executed, GatewayCall,
    PaymentMethodId, Rejection, Timestamp,
};

/// Runs the steps, separated by `|`, and shows each purchase with its term in days, what the account has, its version,
/// and the events of the last step. Steps: `offer OPTIONS` (the next version: `price=`, `days=`, `gives=FEATURE:LIMIT`,
/// `refund=` and `chargeback=` with a rule, `extend`, `once`, `refunds`, `newcomers`, `withdrawn`), `buy` (`external`
/// settles at once), the gateway's `approve|decline|pend|timeout N`, the inquiry's `found-paid|found-declined N`,
/// `refund|chargeback N AMOUNT`, `reverse N`, `wait DAYS`, `ahead DAYS` (domain time goes on, real time does not),
/// `fire` (the timer), `close`. `N` counts purchases from 1.
fn check(script: &str, expected: Expect) {
    let mut world = World::new();
    expected.assert_eq(&run_script(script, |step| world.step(step)));
}

struct World {
    rows: Rows,
    account: AccountId,
    /// Purchases, oldest first.
    purchases: Vec<crate::PurchaseId>,
    /// The last call of each.
    calls: BTreeMap<usize, GatewayCall>,
    started_at: i64,
}

fn usd(amount: i64) -> Price {
    Price { amount: AmountMinor(amount * 100), currency: Currency::parse("USD").unwrap() }
}

fn option<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    options.iter().find_map(|it| it.strip_prefix(name))
}

fn revocation(name: &str) -> Revocation {
    Revocation::ALL.into_iter().find(|it| it.name() == name).unwrap()
}

impl World {
    fn new() -> Self {
        let mut rows = Rows::new();
        rows.now = 0;
        let account = rows.account();
        let limit = LimitTerms { unit: "seats".to_owned(), resets: Reset::Never, overdraft: false };
        let kinds = [
            ("pro", FeatureKind::Switch, Combine::Latest),
            ("seats", FeatureKind::Limit(limit), Combine::Sum),
        ];
        for (key, kind, combine) in kinds {
            let put = PutFeature {
                key: key.to_owned(),
                name: key.to_owned(),
                terms: FeatureTerms { kind, combine },
                archived: false,
                expected: Expected::Nothing,
            };
            rows.run(EntitlementCommand::PutFeature(Box::new(put)).into()).unwrap();
        }
        let (purchases, calls) = (vec![], BTreeMap::new());
        let mut world = Self { rows, account, purchases, calls, started_at: 0 };
        world.add_method("remote");
        world.add_method("__EXTERNAL_PAYMENT__");
        world
    }

    fn add_method(&mut self, gateway: &str) {
        let create = crate::account::payment_method::CreatePaymentMethod {
            account: self.account,
            external_key: None,
            gateway: gateway.to_owned(),
            external_payment_method_id: None,
            properties: vec![],
            is_default: false,
            is_attached: false,
        };
        self.rows.run(AccountCommand::CreatePaymentMethod(create).into()).unwrap();
    }

    fn method(&self, gateway: &str) -> PaymentMethodId {
        let mut all = self.rows.state.account.payment_methods.iter();
        all.find(|it| it.gateway == gateway).unwrap().id
    }

    fn step(&mut self, step: &str) -> String {
        let mut words = step.split(' ');
        let verb = words.next().unwrap();
        let options: Vec<&str> = words.collect();
        if verb == "wait" {
            let days: i64 = options[0].parse().unwrap();
            self.rows.now += days * Timestamp::DAY_US;
            return self.show(&[]);
        }
        if verb == "ahead" {
            let days: i64 = options[0].parse().unwrap();
            self.rows.now += days * Timestamp::DAY_US;
            self.rows.ahead += days * Timestamp::DAY_US;
            return self.show(&[]);
        }
        let Some(command) = self.command(verb, &options) else { return self.show(&[]) };
        match self.rows.run(command) {
            Ok(executed) => {
                self.note(&executed);
                self.show(&executed.done.events)
            }
            Err(rejection) => refused(&rejection),
        }
    }

    fn note(&mut self, executed: &Executed) {
        for it in executed.done.changes.iter().filter_map(Purchase::of) {
            if !self.purchases.contains(&it.id) {
                self.purchases.push(it.id);
            }
        }
        for effect in &executed.done.effects {
            match effect {
                Effect::CallGateway(call) => {
                    let at = self
                        .purchases
                        .iter()
                        .position(|id| self.purchase(*id).payment_id == Some(call.payment));
                    self.calls.insert(at.unwrap() + 1, (**call).clone());
                }
                Effect::AskAboutMethod(_) => {}
            }
        }
    }

    fn purchase(&self, id: crate::PurchaseId) -> &Purchase {
        self.rows.state.purchase(TENANT, id)
    }

    fn entitlements(&self) -> Option<&Entitlements> {
        self.rows.state.entitlement.entitlements.find(&(TENANT, self.account))
    }

    fn command(&self, verb: &str, options: &[&str]) -> Option<Command> {
        let number = || options[0].parse::<usize>().unwrap();
        let outcome = |status| GatewayAnswer::Outcome(GatewayOutcome::new(status));
        let command = match verb {
            "offer" => EntitlementCommand::PutOffer(Box::new(offer(options))).into(),
            "buy" => self.buy(options).into(),
            "approve" => self.replied(number(), outcome(GatewayStatus::Processed)).into(),
            "decline" => self.replied(number(), outcome(GatewayStatus::Error)).into(),
            "pend" => self.replied(number(), outcome(GatewayStatus::Pending)).into(),
            "timeout" => self.replied(number(), GatewayAnswer::TimedOut).into(),
            "found-paid" => self.inquired(number(), GatewayStatus::Processed).into(),
            "found-declined" => self.inquired(number(), GatewayStatus::Error).into(),
            "refund" => PaymentCommand::Refund(self.follow_up(number(), options)).into(),
            "chargeback" => PaymentCommand::Chargeback(self.case(number(), options)).into(),
            "reverse" => PaymentCommand::ReverseChargeback(self.case(number(), &[])).into(),
            "fire" => self.due()?.into(),
            "close" => AccountCommand::Close(CloseAccount {
                account: self.account,
                remove_future_notifications: false,
                cancel_subscriptions: false,
            })
            .into(),
            other => panic!("no step {other}"),
        };
        Some(command)
    }

    fn buy(&self, options: &[&str]) -> PaymentCommand {
        let offer = self.rows.state.entitlement.offers.get(&(TENANT, "o".to_owned())).unwrap();
        let price = offer.terms.price;
        let expected = option(options, "expects=").map(|it| usd(it.parse().unwrap())).or(price);
        let gateway = if options.contains(&"external") { "__EXTERNAL_PAYMENT__" } else { "remote" };
        PaymentCommand::Buy(Box::new(Buy {
            account: self.account,
            offer: option(options, "offer=").unwrap_or("o").to_owned(),
            version: option(options, "version=").map(|it| it.parse().unwrap()),
            expected,
            payment_method: Some(self.method(gateway)),
            properties: vec![],
        }))
    }

    fn replied(&self, number: usize, answer: GatewayAnswer) -> PaymentCommand {
        let call = &self.calls[&number];
        PaymentCommand::GatewayReplied(GatewayReplied {
            payment: call.payment,
            transaction: call.transaction,
            answer,
            is_controlled: false,
            tries: None,
        })
    }

    fn inquired(&self, number: usize, status: GatewayStatus) -> PaymentCommand {
        let call = &self.calls[&number];
        PaymentCommand::GatewayInquired(GatewayInquired {
            payment: call.payment,
            transaction: call.transaction,
            knowledge: GatewayKnowledge::Found(GatewayOutcome::new(status)),
            asked_at: Timestamp(self.rows.now),
        })
    }

    fn follow_up(&self, number: usize, options: &[&str]) -> FollowUp {
        let payment = self.purchase(self.purchases[number - 1]).payment_id.unwrap();
        let file = self.rows.state.payment(TENANT, payment).unwrap();
        FollowUp {
            amount: options.get(1).map(|it| (*it).to_owned()),
            currency: Some(file.payment.currency),
            ..FollowUp::of(payment)
        }
    }

    fn case(&self, number: usize, options: &[&str]) -> FollowUp {
        let transaction_key = Some("case".to_owned());
        FollowUp { transaction_key, ..self.follow_up(number, options) }
    }

    /// The command of the account's timer, where it is due.
    fn due(&self) -> Option<EntitlementCommand> {
        let key = TimerKey { kind: TimerKind::Entitlements, object: self.account.uuid() };
        let timer = self.rows.state.timers.find(&(TENANT, key))?;
        let account = self.account;
        let it = ContinueEntitlements { account, due: timer.due };
        (timer.due.0 <= self.rows.now).then_some(EntitlementCommand::Continue(it))
    }

    fn day(&self, at: Timestamp) -> i64 {
        (at.0 - self.started_at) / Timestamp::DAY_US
    }

    fn term(&self, term: Term) -> String {
        let until = term.until.map_or_else(|| "ever".to_owned(), |it| self.day(it).to_string());
        format!("{}..{until}", self.day(term.from))
    }

    fn show(&self, events: &[Event]) -> String {
        let purchases = self.purchases.iter().map(|id| {
            let it = self.purchase(*id);
            let term = it.from.map(|from| self.term(Term { from, until: it.until }));
            let term = term.map(|it| format!(" {it}")).unwrap_or_default();
            format!("{}{term}", it.status.name())
        });
        let purchases: Vec<String> = purchases.collect();
        let now = Timestamp(self.rows.now);
        let has = self.entitlements().map(|entitled| {
            let all = entitled.at(now);
            let all = all.iter().map(|(key, it)| {
                let until = it.until.map(|it| format!(" until {}", self.day(it)));
                let value = match &it.value {
                    FeatureValue::Limit(limit) => format!(" {limit}"),
                    FeatureValue::On
                    | FeatureValue::Boolean(_)
                    | FeatureValue::Number(_)
                    | FeatureValue::String(_)
                    | FeatureValue::Json(_) => String::new(),
                };
                format!("{key}{value}{}", until.unwrap_or_default())
            });
            let all: Vec<String> = all.collect();
            format!("{} v{}", all.join(" + "), entitled.version)
        });
        let events = events.iter().filter_map(named).collect::<Vec<_>>().join(" ");
        let is_refund = |kind| kind == TimerKind::LateRefund;
        let mut timers = self.rows.state.timers.iter();
        let refund = if timers.any(|it| is_refund(it.key.kind)) { "; refund due" } else { "" };
        format!("{}; {}; {events}{refund}", purchases.join(", "), has.unwrap_or_default())
    }
}

/// The events of purchases and entitlements, by their first words.
fn named(event: &Event) -> Option<String> {
    let shown = format!("{event:?}");
    let name = shown.split(' ').next()?.to_owned();
    (name.starts_with("Entitlements") || name.starts_with("Purchase") || name == "LateSuccess")
        .then_some(name)
}

fn refused(rejection: &Rejection) -> String {
    let text = rejection.to_string();
    // Ids say nothing here.
    let is_id = |word: &str| word.len() >= 36 && word.contains('-');
    text.split(' ').map(|it| if is_id(it) { "ID" } else { it }).collect::<Vec<_>>().join(" ")
}

fn offer(options: &[&str]) -> PutOffer {
    let has = |name| options.contains(&name);
    let gives = option(options, "gives=").unwrap_or("pro");
    let features = gives.split(',').map(|it| match it.split_once(':') {
        Some((key, limit)) => (key.to_owned(), FeatureValue::Limit(limit.parse().unwrap())),
        None => (it.to_owned(), FeatureValue::On),
    });
    let rule = |name| option(options, name).map_or(Revocation::AtOnce, revocation);
    PutOffer {
        key: option(options, "key=").unwrap_or("o").to_owned(),
        terms: OfferTerms {
            name: "Offer".to_owned(),
            price: option(options, "price=").map(|it| usd(it.parse().unwrap())),
            features: features.collect(),
            lasts: option(options, "days=")
                .map_or(Lasts::Forever, |it| Lasts::Days(it.parse().unwrap())),
            on_refund: rule("refund="),
            on_chargeback: rule("chargeback="),
            again: if has("extend") { Again::Extend } else { Again::Refuse },
            buyers: Buyers { once: has("once"), ..Buyers::default() },
            refunds_duplicates: has("refunds"),
            is_trial: false,
            for_newcomers: has("newcomers"),
            withdrawn: has("withdrawn"),
        },
        expected: Expected::Anything,
    }
}

#[test]
fn success_grants_and_nothing_else_does() {
    check("offer price=10 | buy", expect!["PENDING;  v0; PurchaseChanged"]);
    check(
        "offer price=10 | buy | approve 1",
        expect!["ACTIVE 0..ever; pro v1; PurchaseChanged EntitlementsGranted EntitlementsChanged"],
    );
    check(
        "offer price=10 gives=pro,seats:5 | buy external",
        expect![
            "ACTIVE 0..ever; pro + seats 5 v1; PurchaseChanged EntitlementsGranted EntitlementsChanged"
        ],
    );
    check("offer price=10 | buy | decline 1", expect!["FAILED;  v0; PurchaseChanged"]);
    check("offer price=10 | buy | pend 1", expect!["PENDING;  v0; "]);
    check("offer price=10 | buy | timeout 1", expect!["PENDING;  v0; "]);
    check(
        "offer price=10 | buy | timeout 1 | found-paid 1",
        expect!["ACTIVE 0..ever; pro v1; PurchaseChanged EntitlementsGranted EntitlementsChanged"],
    );
    check(
        "offer price=10 | buy | pend 1 | found-declined 1",
        expect!["FAILED;  v0; PurchaseChanged"],
    );
    check(
        "offer days=30 | buy",
        expect![
            "ACTIVE 0..30; pro until 30 v1; PurchaseChanged EntitlementsGranted EntitlementsChanged"
        ],
    );
}

#[test]
fn money_that_goes_back_takes_back_as_the_offer_says() {
    let paid = "offer price=10 days=30 | buy external";
    check(&format!("{paid} | refund 1 4"), expect!["ACTIVE 0..30; pro until 30 v1; "]);
    check(
        &format!("{paid} | refund 1 4 | refund 1 6"),
        expect!["RETURNED 0..30;  v2; PurchaseChanged EntitlementsRevoked EntitlementsChanged"],
    );
    check(
        &format!("{paid} | chargeback 1 10"),
        expect!["RETURNED 0..30;  v2; PurchaseChanged EntitlementsRevoked EntitlementsChanged"],
    );
    check(
        &format!("{paid} | wait 3 | chargeback 1 10 | wait 2 | reverse 1"),
        expect![
            "ACTIVE 0..30; pro until 30 v3; PurchaseChanged EntitlementsGranted EntitlementsChanged"
        ],
    );
    check(
        &format!("{paid} | chargeback 1 10 | wait 40 | reverse 1"),
        expect!["ACTIVE 0..30;  v2; PurchaseChanged"],
    );
    let at_end = "offer price=10 days=30 refund=at-end | buy external | refund 1 10";
    check(at_end, expect!["RETURNED 0..30; pro until 30 v1; PurchaseChanged"]);
    check(
        &format!("{at_end} | buy external"),
        expect![
            "RETURNED 0..30, ACTIVE 0..30; pro until 30 v2; PurchaseChanged EntitlementsGranted EntitlementsChanged"
        ],
    );
    let never = "offer price=10 refund=never | buy external | refund 1 10";
    check(never, expect!["ACTIVE 0..ever; pro v1; "]);
}

#[test]
fn a_success_that_is_taken_back_takes_back() {
    check(
        "offer price=10 | buy | approve 1 | found-declined 1",
        expect!["FAILED 0..ever;  v2; PurchaseChanged EntitlementsRevoked EntitlementsChanged"],
    );
    check(
        "offer price=10 | buy | approve 1 | found-declined 1 | wait 1 | found-paid 1",
        expect!["ACTIVE 0..ever; pro v3; PurchaseChanged EntitlementsGranted EntitlementsChanged"],
    );
}

#[test]
fn a_refund_that_failed_after_all_grants_again() {
    let returned = "offer price=10 days=30 | buy | approve 1 | wait 2 | refund 1 10";
    check(returned, expect!["ACTIVE 0..30; pro until 30 v1; "]);
    check(
        &format!("{returned} | approve 1"),
        expect!["RETURNED 0..30;  v2; PurchaseChanged EntitlementsRevoked EntitlementsChanged"],
    );
    check(
        &format!("{returned} | approve 1 | found-declined 1"),
        expect![
            "ACTIVE 0..30; pro until 30 v3; PurchaseChanged EntitlementsGranted EntitlementsChanged"
        ],
    );
}

#[test]
fn the_same_offer_again() {
    let pending = "offer price=10 days=30 extend | buy";
    check(
        &format!("{pending} | buy"),
        expect!["the account buys the offer o already, by the purchase ID"],
    );
    check(
        &format!("{pending} | pend 1 | buy"),
        expect!["the account buys the offer o already, by the purchase ID"],
    );
    check(
        &format!("{pending} | decline 1 | buy | approve 2"),
        expect![
            "FAILED, ACTIVE 0..30; pro until 30 v1; PurchaseChanged EntitlementsGranted EntitlementsChanged"
        ],
    );
    let bought = "offer price=10 days=30 extend | buy external | wait 10 | buy external";
    check(
        bought,
        expect![
            "ACTIVE 0..30, ACTIVE 30..60; pro until 60 v2; PurchaseChanged EntitlementsGranted EntitlementsChanged"
        ],
    );
    check(
        &format!("{bought} | wait 21 | fire"),
        expect![
            "ACTIVE 0..30, ACTIVE 30..60; pro until 60 v3; EntitlementsExpired EntitlementsChanged"
        ],
    );
    // Taking one back moves no other: there is a gap.
    check(
        &format!("{bought} | refund 1 10"),
        expect![
            "RETURNED 0..30, ACTIVE 30..60;  v3; PurchaseChanged EntitlementsRevoked EntitlementsChanged"
        ],
    );
    check(
        &format!("{bought} | refund 1 10 | wait 20 | fire"),
        expect!["RETURNED 0..30, ACTIVE 30..60; pro until 60 v4; EntitlementsChanged"],
    );
    check(
        "offer price=10 days=30 | buy external | buy external",
        expect!["the account has the offer o by the purchase ID and cannot buy it again"],
    );
    check(
        "offer price=10 days=30 | buy external | wait 30 | buy external",
        expect![
            "ACTIVE 0..30, ACTIVE 30..60; pro until 60 v2; PurchaseChanged EntitlementsGranted EntitlementsExpired EntitlementsChanged"
        ],
    );
    check(
        "offer price=10 extend | buy external | buy external",
        expect!["the account has the offer o by the purchase ID and cannot buy it again"],
    );
    check(
        "offer price=10 days=30 once | buy external | wait 31 | buy external",
        expect!["the account has the offer o by the purchase ID and cannot buy it again"],
    );
    check(
        "offer price=10 days=30 once | buy external | refund 1 10 | buy external",
        expect![
            "RETURNED 0..30, ACTIVE 0..30; pro until 30 v3; PurchaseChanged EntitlementsGranted EntitlementsChanged"
        ],
    );
}

#[test]
fn a_late_success_of_what_the_account_has_meanwhile_is_a_duplicate() {
    let late =
        "offer price=10 days=30 once refunds | buy | decline 1 | buy external | found-paid 1";
    check(late, expect!["DUPLICATE, ACTIVE 0..30; pro until 30 v1; PurchaseChanged; refund due"]);
    check(
        &late.replace(" refunds", ""),
        expect!["DUPLICATE, ACTIVE 0..30; pro until 30 v1; PurchaseChanged"],
    );
    check(
        &format!("{late} | refund 1 10"),
        expect!["DUPLICATE, ACTIVE 0..30; pro until 30 v1; ; refund due"],
    );
    check(
        "offer price=10 days=30 extend | buy | decline 1 | buy external | found-paid 1",
        expect![
            "ACTIVE 30..60, ACTIVE 0..30; pro until 60 v2; PurchaseChanged EntitlementsGranted EntitlementsChanged"
        ],
    );
}

#[test]
fn what_is_over_is_over_before_its_timer_fires() {
    let bought = "offer price=10 days=30 gives=pro,seats:5 | buy external";
    check(
        &format!("{bought} | wait 29"),
        expect!["ACTIVE 0..30; pro until 30 + seats 5 until 30 v1; "],
    );
    check(&format!("{bought} | wait 30"), expect!["ACTIVE 0..30;  v1; "]);
    check(
        &format!("{bought} | wait 30 | fire"),
        expect!["ACTIVE 0..30;  v2; EntitlementsExpired EntitlementsChanged"],
    );
    check(&format!("{bought} | wait 30 | fire | fire"), expect!["ACTIVE 0..30;  v2; "]);
    check(
        &format!("{bought} | wait 31 | buy external"),
        expect![
            "ACTIVE 0..30, ACTIVE 31..61; pro until 61 + seats 5 until 61 v2; PurchaseChanged EntitlementsGranted EntitlementsExpired EntitlementsChanged"
        ],
    );
}

/// A clock that is ahead of real time, as a test clock is, may be set back.
#[test]
fn what_ended_only_because_the_clock_was_ahead_is_there_again_when_it_is_set_back() {
    let there = "offer price=10 days=30 gives=pro | buy external | ahead 40 | fire";
    check(there, expect!["ACTIVE 0..30;  v2; EntitlementsExpired EntitlementsChanged"]);
    check(&format!("{there} | ahead -40"), expect!["ACTIVE 0..30; pro until 30 v2; "]);
    check(
        &format!("{there} | ahead -40 | buy external"),
        expect!["the account has the offer o by the purchase ID and cannot buy it again"],
    );
    // What is over in real time too is forgotten, once.
    check(
        &format!("{there} | wait 30 | refund 1 10"),
        expect!["RETURNED 0..30;  v2; PurchaseChanged"],
    );
    let again = format!("{there} | ahead -40 | refund 1 10");
    check(
        &again,
        expect!["RETURNED 0..30;  v3; PurchaseChanged EntitlementsRevoked EntitlementsChanged"],
    );
}

#[test]
fn a_closed_account_has_nothing() {
    check(
        "offer price=10 | buy external | close",
        expect!["ACTIVE 0..ever;  v2; EntitlementsRevoked EntitlementsChanged"],
    );
    check(
        "offer price=10 | buy | pend 1 | close | found-paid 1",
        expect!["CLOSED;  v0; PurchaseChanged"],
    );
    check(
        "offer price=10 refunds | buy | close | approve 1",
        expect!["CLOSED;  v0; PurchaseChanged; refund due"],
    );
    check(
        "offer price=10 refunds | buy | close | decline 1",
        expect!["FAILED;  v0; PurchaseChanged"],
    );
    check(
        "offer price=10 refunds | buy | close | decline 1 | found-paid 1",
        expect!["CLOSED;  v0; PurchaseChanged; refund due"],
    );
    check(
        "offer price=10 refunds | buy external | chargeback 1 10 | close | reverse 1",
        expect!["CLOSED 0..ever;  v2; PurchaseChanged"],
    );
    check("offer price=10 | buy | close | approve 1 | refund 1 10", expect!["CLOSED;  v0; "]);
    check(
        "offer price=10 | buy external | close | buy external",
        expect!["the account ID is closed to PURCHASE"],
    );
    check("offer price=10 | buy | close | approve 1", expect!["CLOSED;  v0; PurchaseChanged"]);
}

#[test]
fn an_offer_that_changed_is_not_bought_unseen() {
    let changed = "offer price=10 | offer price=12";
    check(&format!("{changed} | buy expects=10"), expect!["the offer o costs 12.00 USD"]);
    check(&format!("{changed} | buy version=1"), expect!["the offer o has the version 2"]);
    check(
        &format!("{changed} | buy version=2 external"),
        expect!["ACTIVE 0..ever; pro v1; PurchaseChanged EntitlementsGranted EntitlementsChanged"],
    );
    check("offer price=10 withdrawn | buy", expect!["there is no offer o"]);
    check("offer price=10 | buy offer=none", expect!["there is no offer none"]);
    // What was bought keeps its version.
    check(
        "offer price=10 | buy | offer price=12 gives=seats:5 | approve 1",
        expect!["ACTIVE 0..ever; pro v1; PurchaseChanged EntitlementsGranted EntitlementsChanged"],
    );
}
