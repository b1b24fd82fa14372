//! Subscriptions through commands: what is invoiced and paid, and when the next thing is due.

mod announced;
mod by_hand;
mod features;
mod histories;
mod objects;
mod overrides;
mod resumed;
mod several;

use expect_test::{Expect, expect};

use crate::account::CreateAccount;
use crate::account::payment_method::CreatePaymentMethod;
use crate::account::tag::{CONTROL_TAGS, ControlTag, RemoveTags};
use crate::billing::invoice::{Invoice, InvoiceItem};
use crate::billing::subscription::{
    CancelSubscription, ChangePlan, ContinueBilling, InvoiceUntil, OfAccount, PlanChoice,
    SetBillCycleDay, SetQuantity, Subscribe, Subscription, When,
};
use crate::catalog::period::BillingPeriod;
use crate::catalog::price::Price;
use crate::catalog::rules::Policy;
use crate::catalog::{
    BillingMode, Catalog, Duration, DurationUnit, Phase, PhaseType, Plan, PriceList, Prices,
    Product, ProductCategory, Recurring,
};
use crate::command::{AccountCommand, BillingCommand, TenantCommand};
use crate::ledger::Posting;
use crate::reply::{AccountReply, BillingReply, Reply};
use crate::rows::Part as _;
use crate::tenant::catalog::UploadCatalog;
use crate::testing::{Rows, TENANT};
use crate::timer::{TimerKey, TimerKind};
use crate::{
    AccountId, BillingRejection, BundleId, Command, Currency, EXTERNAL_PAYMENT, Event, Rejection,
    SubscriptionId, Timestamp,
};

mod paused;
mod pay;

const USD: &str = "USD";

fn at(text: &str) -> Timestamp {
    Timestamp(format!("{text}:00Z").parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

fn usd() -> Currency {
    Currency::parse(USD).unwrap()
}

fn price(text: &str) -> Prices {
    Prices::In(vec![(usd(), Price::parse(text))])
}

fn product(name: &str, category: ProductCategory, available: &[&str]) -> Product {
    Product {
        name: name.to_owned(),
        pretty_name: None,
        category,
        included: vec!["Help".to_owned()],
        available: available.iter().map(|it| (*it).to_owned()).collect(),
        limits: vec![],
    }
}

fn plan(name: &str, product: &str, phases: Vec<Phase>) -> Plan {
    Plan {
        name: name.to_owned(),
        pretty_name: None,
        effective_for_existing_at: None,
        product: product.to_owned(),
        mode: BillingMode::InAdvance,
        phases,
        allowed_in_bundle: (product == "Extra").then_some(1),
    }
}

fn phase(phase: PhaseType, days: Option<u32>, fixed: Option<&str>, recurring: &str) -> Phase {
    let period = BillingPeriod::Monthly;
    Phase {
        phase,
        duration: days.map(|number| Duration { unit: DurationUnit::Days, number }),
        fixed: fixed.map(price),
        recurring: (!recurring.is_empty()).then(|| Recurring { period, prices: price(recurring) }),
        usages: vec![],
    }
}

/// A base product with a trial of 30 days and one that ends after 90, an add-on, and one that is part of the base.
fn catalog() -> Catalog {
    let evergreen = |price| phase(PhaseType::Evergreen, None, None, price);
    let trial = phase(PhaseType::Trial, Some(30), Some("0"), "");
    let recurring = Recurring { period: BillingPeriod::Annual, prices: price("365.00") };
    let yearly = Phase { recurring: Some(recurring), ..evergreen("") };
    let plans = vec![
        plan("pro", "Pro", vec![trial, evergreen("20.00")]),
        plan("solo", "Solo", vec![evergreen("5.00")]),
        plan("max", "Pro", vec![evergreen("30.00")]),
        plan("term", "Pro", vec![phase(PhaseType::FixedTerm, Some(40), None, "10.00")]),
        plan("extra", "Extra", vec![evergreen("31.00")]),
        plan("help", "Help", vec![evergreen("1.00")]),
        plan("annual", "Solo", vec![yearly]),
    ];
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    Catalog {
        name: "Gold".to_owned(),
        effective_at: at("2025-01-01T00:00"),
        currencies: vec![usd()],
        units: vec![],
        products: vec![
            product("Pro", ProductCategory::Base, &["Extra"]),
            product("Solo", ProductCategory::Base, &[]),
            product("Extra", ProductCategory::AddOn, &[]),
            product("Help", ProductCategory::AddOn, &[]),
        ],
        plans,
        price_lists: vec![PriceList {
            name: "DEFAULT".to_owned(),
            plans: names(&["pro", "max", "solo", "term", "extra", "help", "annual"]),
        }],
        rules: crate::catalog::rules::Rules::default(),
    }
}

/// Subscribes an account to a plan from now on.
fn subscribe_to(account: AccountId, plan: &str) -> Subscribe {
    Subscribe {
        account,
        bundle: None,
        bundle_key: None,
        external_key: None,
        plan: PlanChoice::Named(plan.to_owned()),
        phase: None,
        bill_cycle_day: None,
        quantity: None,
        entitled_from: None,
        billed_from: None,
        price_overrides: vec![],
    }
}

/// Changes a plan when a policy says, or the catalog's rules.
fn change_to(of: OfAccount, plan: &str, policy: Option<Policy>) -> ChangePlan {
    ChangePlan {
        account: of.account,
        subscription: of.subscription,
        plan: PlanChoice::Named(plan.to_owned()),
        phase: None,
        policy,
        requested: None,
        price_overrides: vec![],
    }
}

/// Ends entitlement and billing when a policy says.
fn cancel_by(of: OfAccount, policy: Policy) -> CancelSubscription {
    CancelSubscription {
        account: of.account,
        subscription: of.subscription,
        entitlement: Some(policy),
        billing: Some(policy),
        requested: None,
        bills_until_requested: false,
    }
}

struct World {
    rows: Rows,
    account: AccountId,
    /// The one that was subscribed to first.
    subscription: Option<SubscriptionId>,
    /// What was posted.
    postings: Vec<Posting>,
}

impl World {
    /// An account with an external payment method, on January 10.
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(tags: &[ControlTag]) -> Self {
        let mut rows = Rows::new();
        rows.now = at("2026-01-10T08:00").0;
        let upload = UploadCatalog { text: String::new(), catalog: Box::new(catalog()) };
        rows.run(Command::Tenant(TenantCommand::UploadCatalog(upload))).unwrap();
        let create = CreateAccount {
            currency: Some(usd()),
            tags: tags.to_vec(),
            ..CreateAccount::default()
        };
        let created = rows.run(AccountCommand::Create(Box::new(create)).into()).unwrap().reply;
        let Some(Reply::Account(AccountReply::Created(account))) = created else { panic!() };
        let method = CreatePaymentMethod::default_of(account, EXTERNAL_PAYMENT.to_owned());
        rows.run(AccountCommand::CreatePaymentMethod(method).into()).unwrap();
        Self { rows, account, subscription: None, postings: vec![] }
    }

    fn subscribe(
        &mut self,
        plan: &str,
        with: impl Fn(&mut Subscribe),
    ) -> Result<BundleId, Rejection> {
        let mut it = subscribe_to(self.account, plan);
        with(&mut it);
        let command = BillingCommand::Subscribe(Box::new(it));
        let reply = self.rows.run(command.into())?.reply;
        let Some(Reply::Billing(BillingReply::Subscribed { subscription, bundle })) = reply else {
            panic!()
        };
        self.subscription = self.subscription.or(Some(subscription));
        Ok(bundle)
    }

    /// Those of which something is to happen.
    fn active(&self) -> Vec<&Subscription> {
        let known = self.rows.state.billing.subscriptions.find(&(TENANT, self.account));
        known.into_iter().flat_map(std::collections::BTreeMap::values).collect()
    }

    /// Runs a command about the first subscription.
    fn run(&mut self, command: impl Fn(OfAccount) -> BillingCommand) -> Result<(), Rejection> {
        let subscription = self.subscription.unwrap();
        let of = OfAccount { account: self.account, subscription };
        self.rows.run(command(of).into()).map(|_| ())
    }

    fn change(&mut self, plan: &str, policy: Option<Policy>) -> Result<(), Rejection> {
        self.run(|of| BillingCommand::ChangePlan(Box::new(change_to(of, plan, policy))))
    }

    fn cancel(&mut self, policy: Policy) -> Result<(), Rejection> {
        self.run(|of| BillingCommand::Cancel(cancel_by(of, policy)))
    }

    fn set_quantity(&mut self, quantity: u32) -> Result<(), Rejection> {
        self.run(|OfAccount { account, subscription }| {
            let (from, forces_past) = (None, false);
            let it = SetQuantity { account, subscription, quantity, from, forces_past };
            BillingCommand::SetQuantity(it)
        })
    }

    fn invoice_until(&mut self, day: &str) -> Result<(), Rejection> {
        let target = Some(day.parse().unwrap());
        self.run(|OfAccount { account, .. }| {
            BillingCommand::InvoiceUntil(InvoiceUntil { account, target })
        })
    }

    /// Moves the clock, and fires the timer until nothing is due. How often it fired.
    fn until(&mut self, time: &str) -> usize {
        self.events_until(time).len()
    }

    /// The same; when each timer was due, and the events of its command.
    fn events_until(&mut self, time: &str) -> Vec<(Timestamp, Vec<Event>)> {
        self.rows.now = at(time).0;
        let key = TimerKey { kind: TimerKind::Billing, object: self.account.uuid() };
        let mut fired = vec![];
        while let Some(due) = self.rows.state.timers.find(&(TENANT, key)).map(|it| it.due)
            && due.0 <= self.rows.now
        {
            let it = ContinueBilling { account: self.account, due };
            let executed = self.rows.run(BillingCommand::Continue(it).into()).unwrap();
            fired.push((due, executed.done.events));
            assert!(fired.len() < 1_000, "it goes on for ever");
        }
        fired
    }

    /// The invoices with their items, and what is due next.
    fn check(&self, expected: Expect) {
        let state = &self.rows.state.billing;
        let mut invoices: Vec<&Invoice> = state.invoices.iter().collect();
        invoices.sort_by_key(|it| it.number);
        let mut lines = vec![];
        for invoice in invoices {
            let target = invoice.target_date.unwrap();
            let (date, number) = (invoice.invoice_date, invoice.number);
            let (amount, balance) =
                (invoice.charged.decimal(usd()), invoice.balance().decimal(usd()));
            lines.push(format!("{number} on {date} until {target}: {amount}, {balance} to pay"));
            let mut items = self.rows.items_of(invoice.id);
            items.sort_by_key(|it| (it.owner(), it.id));
            lines.extend(items.iter().map(|it| {
                let phase = it.of.as_ref().map_or("", |it| &it.phase);
                let end = it.end.map_or_else(String::new, |end| format!(" > {end}"));
                let amount = it.amount.decimal(usd());
                format!("  {} {phase} {}{end} {amount}", it.kind.name(), it.start)
            }));
        }
        let due = state.accounts.find(&(TENANT, self.account)).and_then(|it| it.due);
        let due = due.map(|it| jiff::Timestamp::from_microsecond(it.0).unwrap());
        lines.push(due.map_or("nothing is due".to_owned(), |it| format!("due at {it}")));
        expected.assert_eq(&lines.join("\n"));
    }
}

#[test]
fn a_trial_is_followed_by_months_that_are_paid_at_once() {
    let mut world = World::new();
    world.subscribe("pro", |_| {}).unwrap();
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        due at 2026-02-09T08:00:00Z"#]]);
    assert_eq!(world.until("2026-02-09T07:59"), 0);
    assert_eq!(world.until("2026-02-10T08:00"), 1);
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-02-10 until 2026-02-09: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
        due at 2026-03-09T08:00:00Z"#]]);
    let account = world.rows.state.account.accounts.get(&(TENANT, world.account)).unwrap();
    assert_eq!(account.bill_cycle_day_local, 9);
    world.until("2026-03-10T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-02-10 until 2026-02-09: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
        3 on 2026-03-10 until 2026-03-09: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2026-03-09 > 2026-04-09 20.00
        due at 2026-04-09T08:00:00Z"#]]);
}

#[test]
fn months_that_passed_are_billed_one_after_the_other() {
    let mut world = World::new();
    let day = |text: &str| Some(When::Day(text.parse().unwrap()));
    world.subscribe("extra", |_| {}).unwrap_err();
    world.subscribe("pro", |it| it.billed_from = day("2025-10-25")).unwrap();
    assert_eq!(world.until("2026-01-10T08:00"), 2);
    world.check(expect![[r#"
        1 on 2026-01-10 until 2025-10-25: 0.00, 0.00 to pay
          FIXED pro-trial 2025-10-25 > 2025-11-24 0.00
        2 on 2026-01-10 until 2025-11-24: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2025-11-24 > 2025-12-24 20.00
        3 on 2026-01-10 until 2025-12-24: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2025-12-24 > 2026-01-24 20.00
        due at 2026-01-24T08:00:00Z"#]]);
    // A server that was down for months does the same.
    let mut late = World::new();
    late.subscribe("pro", |_| {}).unwrap();
    assert_eq!(late.until("2026-06-01T08:00"), 4);
}

#[test]
fn without_a_method_or_with_its_tag_an_invoice_stays_unpaid() {
    let mut world = World::with(&[ControlTag::AutoPayOff]);
    world.subscribe("pro", |it| it.phase = Some(PhaseType::Evergreen)).unwrap();
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 20.00, 20.00 to pay
          RECURRING pro-evergreen 2026-01-10 > 2026-02-10 20.00
        due at 2026-02-10T08:00:00Z"#]]);
    let mut world = World::with(&[ControlTag::AutoInvoicingOff]);
    world.subscribe("pro", |it| it.phase = Some(PhaseType::Evergreen)).unwrap();
    assert_eq!(world.until("2026-09-01T08:00"), 0);
    world.check(expect!["nothing is due"]);
}

#[test]
fn what_was_not_invoiced_is_once_the_tag_is_gone() {
    let off = CONTROL_TAGS.iter().find(|it| it.tag == ControlTag::AutoInvoicingOff).unwrap().id();
    let untag = |account| RemoveTags { account, part: None, definitions: vec![off] };
    let mut world = World::with(&[ControlTag::AutoInvoicingOff]);
    world.subscribe("pro", |_| {}).unwrap();
    world.until("2026-03-20T08:00");
    world.rows.run(AccountCommand::RemoveTags(untag(world.account)).into()).unwrap();
    world.until("2026-03-20T08:00");
    world.check(expect![[r#"
        1 on 2026-03-20 until 2026-03-20: 40.00, 0.00 to pay
          RECURRING pro-evergreen 2026-03-09 > 2026-04-09 20.00
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        due at 2026-04-09T08:00:00Z"#]]);
    // An account that was never billed has nothing to be invoiced.
    let mut world = World::with(&[ControlTag::AutoInvoicingOff]);
    world.rows.run(AccountCommand::RemoveTags(untag(world.account)).into()).unwrap();
    assert_eq!(world.until("2026-03-20T08:00"), 1);
    world.check(expect!["nothing is due"]);
}

#[test]
fn a_term_ends_and_is_billed_no_more() {
    let mut world = World::new();
    world.subscribe("term", |it| it.quantity = Some(3)).unwrap();
    world.until("2027-01-01T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 30.00, 0.00 to pay
          RECURRING term-fixedterm 2026-01-10 > 2026-02-10 30.00
        2 on 2027-01-01 until 2026-02-10: 9.64, 0.00 to pay
          RECURRING term-fixedterm 2026-02-10 > 2026-02-19 9.64
        nothing is due"#]]);
    assert!(world.rows.state.billing.subscriptions.of(&(TENANT, world.account)).is_empty());
}

#[test]
fn an_add_on_goes_with_a_base_that_it_is_sold_with() {
    let mut world = World::new();
    let refused = |world: &mut World, plan: &str, bundle| {
        world.subscribe(plan, |it| it.bundle = bundle).unwrap_err().to_string()
    };
    assert_eq!(refused(&mut world, "extra", None), "there is no base product in the bundle");
    let bundle = world.subscribe("pro", |_| {}).unwrap();
    assert_eq!(refused(&mut world, "help", Some(bundle)), "the add-on Help is part of Pro already");
    world.subscribe("extra", |it| it.bundle = Some(bundle)).unwrap();
    assert_eq!(
        refused(&mut world, "extra", Some(bundle)),
        "a bundle has the plan extra 1 times at most"
    );
    let base = refused(&mut world, "pro", Some(bundle));
    assert_eq!(base, format!("the bundle {bundle} has a base product already"));
    world.until("2026-02-10T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-01-10 until 2026-01-10: 30.00, 0.00 to pay
          RECURRING extra-evergreen 2026-01-10 > 2026-02-09 30.00
        3 on 2026-02-10 until 2026-02-09: 51.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
          RECURRING extra-evergreen 2026-02-09 > 2026-03-09 31.00
        due at 2026-03-09T08:00:00Z"#]]);
}

#[test]
fn what_is_not_sold_is_refused_and_writes_nothing() {
    let mut world = World::new();
    assert_eq!(
        world.subscribe("gold", |_| {}).unwrap_err().to_string(),
        "the catalog has no plan gold"
    );
    let other = |it: &mut Subscribe| {
        it.plan = PlanChoice::Offered {
            product: "Pro".to_owned(),
            period: BillingPeriod::Annual,
            price_list: None,
        };
    };
    let refused = world.subscribe("", other).unwrap_err().to_string();
    assert_eq!(refused, "no plan is offered for Pro ANNUAL DEFAULT");
    let phase = |it: &mut Subscribe| it.phase = Some(PhaseType::Discount);
    assert_eq!(
        world.subscribe("pro", phase).unwrap_err().to_string(),
        "the plan pro has no such phase"
    );
    let key = |it: &mut Subscribe| it.bundle_key = Some("key".to_owned());
    world.subscribe("pro", key).unwrap();
    assert_eq!(
        world.subscribe("pro", key).unwrap_err().to_string(),
        "the bundle key key is in use"
    );
    world.rows.run(Command::Tenant(TenantCommand::WithdrawCatalog)).unwrap();
    assert_eq!(world.subscribe("pro", |_| {}).unwrap_err().to_string(), "there is no catalog");
    assert_eq!(world.until("2026-03-10T08:00"), 2, "subscriptions go on");
}

#[test]
fn a_change_gives_the_rest_of_the_month_back() {
    let mut world = World::new();
    world.subscribe("pro", |_| {}).unwrap();
    world.until("2026-02-20T09:00");
    world.change("max", Some(Policy::Immediate)).unwrap();
    world.until("2026-04-20T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-02-20 until 2026-02-09: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
        3 on 2026-02-20 until 2026-02-20: 6.07, 0.00 to pay
          RECURRING max-evergreen 2026-02-20 > 2026-03-09 18.21
          REPAIR_ADJ pro-evergreen 2026-02-20 > 2026-03-09 -12.14
        4 on 2026-04-20 until 2026-03-09: 30.00, 0.00 to pay
          RECURRING max-evergreen 2026-03-09 > 2026-04-09 30.00
        5 on 2026-04-20 until 2026-04-09: 30.00, 0.00 to pay
          RECURRING max-evergreen 2026-04-09 > 2026-05-09 30.00
        due at 2026-05-09T08:00:00Z"#]]);
}

#[test]
fn an_end_within_a_year_that_was_given_back_charges_no_month_again() {
    let mut world = World::new();
    world.subscribe("annual", |_| {}).unwrap();
    world.until("2026-02-20T09:00");
    world.change("max", Some(Policy::Immediate)).unwrap();
    world.until("2026-05-12T08:00");
    world.cancel(Policy::Immediate).unwrap();
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 365.00, 0.00 to pay
          RECURRING annual-evergreen 2026-01-10 > 2027-01-10 365.00
        2 on 2026-02-20 until 2026-02-20: -304.71, 0.00 to pay
          CBA_ADJ  2026-02-20 > 2026-02-20 304.71
          RECURRING max-evergreen 2026-02-20 > 2026-03-10 19.29
          REPAIR_ADJ annual-evergreen 2026-02-20 > 2027-01-10 -324.00
        3 on 2026-05-12 until 2026-03-10: 30.00, 0.00 to pay
          CBA_ADJ  2026-05-12 > 2026-05-12 -30.00
          RECURRING max-evergreen 2026-03-10 > 2026-04-10 30.00
        4 on 2026-05-12 until 2026-04-10: 30.00, 0.00 to pay
          CBA_ADJ  2026-05-12 > 2026-05-12 -30.00
          RECURRING max-evergreen 2026-04-10 > 2026-05-10 30.00
        5 on 2026-05-12 until 2026-05-10: 30.00, 0.00 to pay
          CBA_ADJ  2026-05-12 > 2026-05-12 -30.00
          RECURRING max-evergreen 2026-05-10 > 2026-06-10 30.00
        6 on 2026-05-12 until 2026-05-12: -28.06, 0.00 to pay
          CBA_ADJ  2026-05-12 > 2026-05-12 28.06
          REPAIR_ADJ max-evergreen 2026-05-12 > 2026-06-10 -28.06
        nothing is due"#]]);
}

#[test]
fn a_change_at_the_end_of_the_term_may_be_undone() {
    let mut world = World::new();
    world.subscribe("pro", |_| {}).unwrap();
    world.until("2026-02-20T09:00");
    world.change("max", Some(Policy::EndOfTerm)).unwrap();
    world.run(BillingCommand::UndoChange).unwrap();
    let refused = world.run(BillingCommand::UndoChange).unwrap_err();
    let subscription = world.subscription.unwrap();
    assert_eq!(refused, BillingRejection::NoChangePending { subscription }.into());
    world.change("max", Some(Policy::EndOfTerm)).unwrap();
    world.until("2026-03-10T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-02-20 until 2026-02-09: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
        3 on 2026-03-10 until 2026-03-09: 30.00, 0.00 to pay
          RECURRING max-evergreen 2026-03-09 > 2026-04-09 30.00
        due at 2026-04-09T08:00:00Z"#]]);
}

#[test]
fn a_base_ends_with_its_add_ons_and_leaves_credit() {
    let mut world = World::new();
    let bundle = world.subscribe("pro", |_| {}).unwrap();
    world.subscribe("extra", |it| it.bundle = Some(bundle)).unwrap();
    world.until("2026-02-20T09:00");
    world.cancel(Policy::Immediate).unwrap();
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-01-10 until 2026-01-10: 30.00, 0.00 to pay
          RECURRING extra-evergreen 2026-01-10 > 2026-02-09 30.00
        3 on 2026-02-20 until 2026-02-09: 51.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
          RECURRING extra-evergreen 2026-02-09 > 2026-03-09 31.00
        4 on 2026-02-20 until 2026-02-20: -30.96, 0.00 to pay
          CBA_ADJ  2026-02-20 > 2026-02-20 30.96
          REPAIR_ADJ pro-evergreen 2026-02-20 > 2026-03-09 -12.14
          REPAIR_ADJ extra-evergreen 2026-02-20 > 2026-03-09 -18.82
        nothing is due"#]]);
    assert!(world.active().is_empty());
    let subscription = world.subscription.unwrap();
    let refused = world.cancel(Policy::Immediate).unwrap_err();
    assert_eq!(refused, BillingRejection::AlreadyCancelled { subscription }.into());
    assert_eq!(world.until("2027-02-20T09:00"), 0);
}

#[test]
fn an_end_that_is_to_come_may_be_taken_back() {
    let mut world = World::new();
    world.subscribe("pro", |_| {}).unwrap();
    world.until("2026-02-20T09:00");
    world.cancel(Policy::EndOfTerm).unwrap();
    let ends = world.active()[0].ends_at();
    assert_eq!(ends, Some(at("2026-03-09T08:00")));
    world.run(BillingCommand::Uncancel).unwrap();
    assert_eq!(world.active()[0].ends_at(), None);
    world.cancel(Policy::EndOfTerm).unwrap();
    world.until("2026-05-01T08:00");
    assert!(world.active().is_empty());
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-02-20 until 2026-02-09: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
        nothing is due"#]]);
}

#[test]
fn a_quantity_and_a_bill_cycle_day_count_from_now_on() {
    let mut world = World::new();
    world.subscribe("pro", |_| {}).unwrap();
    world.until("2026-02-20T09:00");
    world.set_quantity(3).unwrap();
    world
        .run(|OfAccount { account, subscription }| {
            let (from, forces_past) = (None, false);
            let it = SetBillCycleDay { account, subscription, day: 25, from, forces_past };
            BillingCommand::SetBillCycleDay(it)
        })
        .unwrap();
    world.until("2026-03-25T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-02-20 until 2026-02-09: 20.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
        3 on 2026-02-20 until 2026-02-20: 24.29, 0.00 to pay
          RECURRING pro-evergreen 2026-02-20 > 2026-03-09 36.43
          REPAIR_ADJ pro-evergreen 2026-02-20 > 2026-03-09 -12.14
        4 on 2026-03-25 until 2026-02-25: 34.29, 0.00 to pay
          RECURRING pro-evergreen 2026-03-09 > 2026-03-25 34.29
        5 on 2026-03-25 until 2026-03-25: 60.00, 0.00 to pay
          RECURRING pro-evergreen 2026-03-25 > 2026-04-25 60.00
        due at 2026-04-25T08:00:00Z"#]]);
}

#[test]
fn an_account_is_invoiced_ahead_when_somebody_asks() {
    let mut world = World::new();
    world.subscribe("pro", |_| {}).unwrap();
    world.invoice_until("2026-03-09").unwrap();
    let refused = world.invoice_until("2026-03-09").unwrap_err();
    assert_eq!(refused, BillingRejection::NothingToInvoice.into());
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-01-10 until 2026-03-09: 40.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
          RECURRING pro-evergreen 2026-03-09 > 2026-04-09 20.00
        due at 2026-02-09T08:00:00Z"#]]);
    // What was invoiced is not invoiced again when it is due.
    world.until("2026-04-08T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 0.00, 0.00 to pay
          FIXED pro-trial 2026-01-10 > 2026-02-09 0.00
        2 on 2026-01-10 until 2026-03-09: 40.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-03-09 20.00
          RECURRING pro-evergreen 2026-03-09 > 2026-04-09 20.00
        due at 2026-04-09T08:00:00Z"#]]);
}

#[test]
fn an_add_on_follows_a_change_of_its_base_and_its_being_undone() {
    let mut world = World::new();
    let bundle = world.subscribe("pro", |_| {}).unwrap();
    world.subscribe("extra", |it| it.bundle = Some(bundle)).unwrap();
    world.until("2026-02-20T09:00");
    world.change("solo", Some(Policy::EndOfTerm)).unwrap();
    let ends = |world: &World| world.active()[1].ends_at();
    assert_eq!(ends(&world), Some(at("2026-03-09T08:00")));
    world.run(BillingCommand::UndoChange).unwrap();
    assert_eq!(ends(&world), None);
    world.change("solo", Some(Policy::EndOfTerm)).unwrap();
    world.change("max", Some(Policy::EndOfTerm)).unwrap();
    assert_eq!(ends(&world), None, "another change keeps it");
}

/// `pro` with its add-on, which the customer cancelled for the end of its term.
fn with_a_cancelled_add_on() -> World {
    let mut world = World::new();
    let bundle = world.subscribe("pro", |_| {}).unwrap();
    world.subscribe("extra", |it| it.bundle = Some(bundle)).unwrap();
    world.until("2026-02-20T09:00");
    let base = world.subscription.replace(world.active()[1].id);
    world.cancel(Policy::EndOfTerm).unwrap();
    world.subscription = base;
    world
}

#[test]
fn an_add_on_that_was_cancelled_stays_so_whatever_is_undone_of_its_base() {
    let end = Some(at("2026-03-09T08:00"));
    for plan in ["max", "solo"] {
        let mut world = with_a_cancelled_add_on();
        world.change(plan, Some(Policy::EndOfTerm)).unwrap();
        world.run(BillingCommand::UndoChange).unwrap();
        assert_eq!(world.active()[1].ends_at(), end, "{plan}");
    }
    let mut world = with_a_cancelled_add_on();
    world.cancel(Policy::EndOfTerm).unwrap();
    world.run(BillingCommand::Uncancel).unwrap();
    let ends: Vec<_> = world.active().iter().map(|it| it.ends_at()).collect();
    assert_eq!(ends, [None, end]);
}

#[test]
fn an_add_on_that_ends_before_its_base_is_not_charged_longer() {
    let mut world = with_a_cancelled_add_on();
    world.invoice_until("2026-04-09").unwrap();
    world.cancel(Policy::EndOfTerm).unwrap();
    let ends: Vec<_> = world.active().iter().map(|it| it.ends_at()).collect();
    assert_eq!(ends, [Some(at("2026-05-09T08:00")), Some(at("2026-03-09T08:00"))]);
}
