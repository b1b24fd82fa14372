//! Subscriptions through commands: what is invoiced and paid, and when the next thing is due.

use expect_test::{Expect, expect};

use crate::account::CreateAccount;
use crate::account::payment_method::CreatePaymentMethod;
use crate::account::tag::ControlTag;
use crate::billing::invoice::{Invoice, InvoiceItem};
use crate::billing::subscription::{ContinueBilling, PlanChoice, Subscribe, When};
use crate::catalog::period::BillingPeriod;
use crate::catalog::price::Price;
use crate::catalog::{
    BillingMode, Catalog, Duration, DurationUnit, Phase, PhaseType, Plan, PriceList, Prices,
    Product, ProductCategory, Recurring,
};
use crate::command::{AccountCommand, BillingCommand, TenantCommand};
use crate::reply::{AccountReply, BillingReply, Reply};
use crate::tenant::catalog::UploadCatalog;
use crate::testing::{Rows, TENANT};
use crate::timer::{TimerKey, TimerKind};
use crate::{AccountId, BundleId, Command, Currency, EXTERNAL_PAYMENT, Rejection, Timestamp};

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
    let plans = vec![
        plan("pro", "Pro", vec![trial, evergreen("20.00")]),
        plan("term", "Pro", vec![phase(PhaseType::FixedTerm, Some(40), None, "10.00")]),
        plan("extra", "Extra", vec![evergreen("31.00")]),
        plan("help", "Help", vec![evergreen("1.00")]),
    ];
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    Catalog {
        name: "Gold".to_owned(),
        effective_at: at("2025-01-01T00:00"),
        currencies: vec![usd()],
        units: vec![],
        products: vec![
            product("Pro", ProductCategory::Base, &["Extra"]),
            product("Extra", ProductCategory::AddOn, &[]),
            product("Help", ProductCategory::AddOn, &[]),
        ],
        plans,
        price_lists: vec![PriceList {
            name: "DEFAULT".to_owned(),
            plans: names(&["pro", "term", "extra", "help"]),
        }],
        rules: crate::catalog::rules::Rules::default(),
    }
}

struct World {
    rows: Rows,
    account: AccountId,
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
        Self { rows, account }
    }

    fn subscribe(
        &mut self,
        plan: &str,
        with: impl Fn(&mut Subscribe),
    ) -> Result<BundleId, Rejection> {
        let mut it = Subscribe {
            account: self.account,
            bundle: None,
            bundle_key: None,
            external_key: None,
            plan: PlanChoice::Named(plan.to_owned()),
            phase: None,
            bill_cycle_day: None,
            quantity: None,
            entitled_from: None,
            billed_from: None,
        };
        with(&mut it);
        let command = BillingCommand::Subscribe(Box::new(it));
        let reply = self.rows.run(command.into())?.reply;
        let Some(Reply::Billing(BillingReply::Subscribed { bundle, .. })) = reply else { panic!() };
        Ok(bundle)
    }

    /// Moves the clock, and fires the timer until nothing is due. How often it fired.
    fn until(&mut self, time: &str) -> usize {
        self.rows.now = at(time).0;
        let key = TimerKey { kind: TimerKind::Billing, object: self.account.uuid() };
        let mut fired = 0;
        while let Some(due) = self.rows.state.timers.find(&(TENANT, key)).map(|it| it.due)
            && due.0 <= self.rows.now
        {
            let it = ContinueBilling { account: self.account, due };
            self.rows.run(BillingCommand::Continue(it).into()).unwrap();
            fired += 1;
            assert!(fired < 1_000, "it goes on for ever");
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
            let subscriptions = state.subscriptions.of(&(TENANT, self.account)).values();
            let items = subscriptions.filter_map(|it| state.items.find(&(TENANT, it.id)));
            let mut items: Vec<&InvoiceItem> = items.flat_map(|it| it.values()).collect();
            items.retain(|it| it.invoice_id == invoice.id);
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
fn a_term_ends_and_is_billed_no_more() {
    let mut world = World::new();
    world.subscribe("term", |it| it.quantity = Some(3)).unwrap();
    world.until("2027-01-01T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 30.00, 0.00 to pay
        2 on 2027-01-01 until 2026-02-10: 9.64, 0.00 to pay
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
        2 on 2026-01-10 until 2026-01-10: 31.00, 0.00 to pay
          RECURRING extra-evergreen 2026-01-10 > 2026-02-10 31.00
        3 on 2026-02-10 until 2026-02-09: 0.65, 0.00 to pay
          RECURRING pro-evergreen 2026-02-09 > 2026-02-10 0.65
        4 on 2026-02-10 until 2026-02-10: 51.00, 0.00 to pay
          RECURRING pro-evergreen 2026-02-10 > 2026-03-10 20.00
          RECURRING extra-evergreen 2026-02-10 > 2026-03-10 31.00
        due at 2026-03-10T08:00:00Z"#]]);
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
