//! Catalogs, subscriptions and invoices: rows, commands, replies, refusals and events.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::billing::Unbillable;
use domain::billing::account::{AccountBilling, Parked};
use domain::billing::bundle::{Bundle, RenameBundle};
use domain::billing::invoice::{
    Invoice, InvoiceItem, InvoicePayment, InvoiceStatus, ItemKind, Manual, OfSubscription,
};
use domain::billing::overrides::{OverriddenPhase, Overrides, PhasePrices, PriceOverride};
use domain::billing::pay::{PayInvoice, PayUnpaid};
use domain::billing::subscription::{
    AddItems, AdjustItem, ChangePlan, ContinueBilling, DeleteCredit, GivenFeatures, InvoiceOf,
    ManualKind, NewItem, PlanChoice, Subscribe, SubscribeAll, Subscription, When,
};
use domain::billing::timeline::{PlanChange, To, Transition};
use domain::catalog::period::BillingPeriod;
use domain::catalog::price::Price;
use domain::catalog::simple_plan::{SimplePlan, Trial};
use domain::catalog::{Catalog, Duration, DurationUnit, NoPrice, PhaseType, ProductCategory};
use domain::change::{BillingChange, Change, TenantChange};
use domain::command::{BillingCommand, TenantCommand};
use domain::payment::Initiate;
use domain::reply::BillingReply;
use domain::tenant::catalog::{CatalogText, CatalogVersion, UploadCatalog};
use domain::timer::TimerKind;
use domain::{
    AmountMinor, BillingRejection, Command, Currency, Event, Rejection, Reply, Revision, Seq,
    SubscriptionStep, TenantNo, TenantRejection, Timestamp,
};
use expect_test::expect;
use jiff::civil::Date;

use super::{check, id};

const TENANT: TenantNo = TenantNo(1);

fn usd() -> Currency {
    Currency::parse("USD").expect("it is one")
}

fn day(text: &str) -> Date {
    text.parse().expect("it is a day")
}

fn revision() -> Revision {
    Revision::first(Seq(9))
}

#[test]
fn catalogs() {
    let catalog = Catalog { name: "Gold".to_owned(), ..Catalog::default() };
    let version = CatalogVersion {
        tenant: TENANT,
        id: id(2),
        effective_at: Timestamp(7),
        is_withdrawn: false,
        bytes: 10,
        catalog: Arc::default(),
        revision: revision(),
    };
    check(
        &Change::Tenant(TenantChange::CatalogVersion(version)),
        expect![[
            r#"{"Tenant":{"CatalogVersion":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","effective_at":7,"is_withdrawn":false,"bytes":10,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    let text = CatalogText { tenant: TENANT, id: id(2), text: String::new() };
    check(
        &Change::Tenant(TenantChange::CatalogText(text)),
        expect![[
            r#"{"Tenant":{"CatalogText":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002"}}}"#
        ]],
    );
    let upload = UploadCatalog { text: "<catalog/>".to_owned(), catalog: Box::new(catalog) };
    check(
        &[
            Command::Tenant(TenantCommand::UploadCatalog(upload)),
            Command::Tenant(TenantCommand::WithdrawCatalog),
        ],
        expect![[
            r#"[{"Tenant":{"UploadCatalog":{"text":"<catalog/>","catalog":{"name":"Gold","effective_at":0,"currencies":[],"units":[],"products":[],"plans":[],"price_lists":[],"rules":{"changePolicy":[],"changeAlignment":[],"cancelPolicy":[],"createAlignment":[],"billingAlignment":[],"priceList":[]}}}}},{"Tenant":"WithdrawCatalog"}]"#
        ]],
    );
}

#[test]
fn simple_plans() {
    let least = SimplePlan {
        plan: "pro".to_owned(),
        product: None,
        category: None,
        currency: Currency::parse("USD").unwrap(),
        price: Price::parse("29.95").unwrap(),
        period: None,
        trial: None,
        available_base_products: vec![],
    };
    let full = SimplePlan {
        product: Some("Extra".to_owned()),
        category: Some(ProductCategory::AddOn),
        period: Some(BillingPeriod::Monthly),
        trial: Some(Trial::For(Duration { unit: DurationUnit::Days, number: 30 })),
        available_base_products: vec!["Pro".to_owned()],
        ..least.clone()
    };
    let command = |it| Command::Tenant(TenantCommand::AddSimplePlan(Box::new(it)));
    let without_trial = SimplePlan { trial: Some(Trial::None), ..least.clone() };
    check(
        &[command(least), command(without_trial), command(full)],
        expect![[
            r#"[{"Tenant":{"AddSimplePlan":{"plan":"pro","currency":"USD","price":"29.95"}}},{"Tenant":{"AddSimplePlan":{"plan":"pro","currency":"USD","price":"29.95","trial":"none"}}},{"Tenant":{"AddSimplePlan":{"plan":"pro","product":"Extra","category":"ADD_ON","currency":"USD","price":"29.95","period":"MONTHLY","trial":{"for":{"unit":"DAYS","number":30}},"availableBaseProducts":["Pro"]}}}]"#
        ]],
    );
    let (plan, reason) = ("pro".to_owned(), "amount".to_owned());
    let refused = TenantRejection::SimplePlanRefused { plan, reason };
    check(
        &Rejection::Tenant(refused),
        expect![[r#"{"Tenant":{"SimplePlanRefused":{"plan":"pro","reason":"amount"}}}"#]],
    );
}

#[test]
fn subscriptions() {
    let bundle = Bundle {
        tenant: TENANT,
        id: id(4),
        account_id: id(3),
        external_key: None,
        created_at: Timestamp(7),
        revision: revision(),
    };
    check(
        &Change::Billing(BillingChange::Bundle(bundle)),
        expect![[
            r#"{"Billing":{"Bundle":{"tenant":1,"id":"00000000-0000-0000-0000-000000000004","account_id":"00000000-0000-0000-0000-000000000003","created_at":7,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    let plan = |by, phase| To::Plan {
        by,
        plan: "pro".to_owned(),
        price_list: "DEFAULT".to_owned(),
        phase,
        until: Some(Timestamp(8)),
        overrides: None,
    };
    let changes = [
        plan(PlanChange::Create, PhaseType::Trial),
        To::BillCycleDay(9),
        To::Quantity(3),
        plan(PlanChange::Phase, PhaseType::Evergreen),
        plan(PlanChange::Change, PhaseType::Discount),
        plan(PlanChange::Transfer, PhaseType::FixedTerm),
        To::Cancelled { with_base: false },
        To::Cancelled { with_base: true },
        To::Expired,
    ];
    let subscription = Subscription {
        tenant: TENANT,
        id: id(5),
        account_id: id(3),
        bundle_id: id(4),
        external_key: None,
        category: ProductCategory::Base,
        transitions: changes.map(|to| Transition { at: Timestamp(7), to }).into(),
        in_effect: 1,
        entitled_from: Timestamp(7),
        entitled_until: Some(Timestamp(8)),
        entitlement_ended: false,
        charged_through: Some(day("2026-02-09")),
        settled: day("2026-01-10"),
        next_due: None,
        first_charged: Some(id(6)),
        given: Some(GivenFeatures { grants: 2, until: Some(Timestamp(8)), is_paid: true }),
        is_over: false,
        created_at: Timestamp(7),
        revision: revision(),
    };
    check(
        &Change::Billing(BillingChange::Subscription(Box::new(subscription))),
        expect![[
            r#"{"Billing":{"Subscription":{"tenant":1,"id":"00000000-0000-0000-0000-000000000005","account_id":"00000000-0000-0000-0000-000000000003","bundle_id":"00000000-0000-0000-0000-000000000004","category":"BASE","transitions":[{"at":7,"to":{"Plan":{"by":"Create","plan":"pro","price_list":"DEFAULT","phase":"TRIAL","until":8}}},{"at":7,"to":{"BillCycleDay":9}},{"at":7,"to":{"Quantity":3}},{"at":7,"to":{"Plan":{"by":"Phase","plan":"pro","price_list":"DEFAULT","phase":"EVERGREEN","until":8}}},{"at":7,"to":{"Plan":{"by":"Change","plan":"pro","price_list":"DEFAULT","phase":"DISCOUNT","until":8}}},{"at":7,"to":{"Plan":{"by":"Transfer","plan":"pro","price_list":"DEFAULT","phase":"FIXED_TERM","until":8}}},{"at":7,"to":{"Cancelled":{"with_base":false}}},{"at":7,"to":{"Cancelled":{"with_base":true}}},{"at":7,"to":"Expired"}],"in_effect":1,"entitled_from":7,"entitled_until":8,"entitlement_ended":false,"charged_through":"2026-02-09","settled":"2026-01-10","next_due":null,"first_charged":"00000000-0000-0000-0000-000000000006","given":{"grants":2,"until":8,"is_paid":true},"is_over":false,"created_at":7,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
}

#[test]
fn price_overrides() {
    let prices = |phase, fixed: &str, recurring: &str| PhasePrices {
        phase,
        fixed: Price::parse(fixed),
        recurring: Price::parse(recurring),
    };
    let phases = vec![prices(PhaseType::Trial, "3", ""), prices(PhaseType::Evergreen, "", "44.50")];
    check(
        &To::Plan {
            by: PlanChange::Create,
            plan: "pro".to_owned(),
            price_list: "DEFAULT".to_owned(),
            phase: PhaseType::Trial,
            until: None,
            overrides: Some(Overrides { number: Seq(9), phases }),
        },
        expect![[
            r#"{"Plan":{"by":"Create","plan":"pro","price_list":"DEFAULT","phase":"TRIAL","until":null,"overrides":{"number":9,"phases":[{"phase":"TRIAL","fixed":"3"},{"phase":"EVERGREEN","recurring":"44.5"}]}}}"#
        ]],
    );
    let wanted = |phase| PriceOverride {
        phase,
        fixed: Price::parse("3"),
        recurring: Price::parse("0.000000001"),
    };
    check(
        &[
            wanted(OverriddenPhase::OfType(PhaseType::Trial)),
            wanted(OverriddenPhase::Named("pro-trial".to_owned())),
        ],
        expect![[
            r#"[{"phase":{"OfType":"TRIAL"},"fixed":"3","recurring":"0.000000001"},{"phase":{"Named":"pro-trial"},"fixed":"3","recurring":"0.000000001"}]"#
        ]],
    );
    let change = ChangePlan {
        account: id(3),
        subscription: id(5),
        plan: PlanChoice::Named("pro".to_owned()),
        phase: None,
        policy: None,
        requested: None,
        price_overrides: vec![wanted(OverriddenPhase::OfType(PhaseType::Trial))],
    };
    check(
        &[
            Command::Billing(BillingCommand::ChangePlan(Box::new(change.clone()))),
            Command::Billing(BillingCommand::ChangePlan(Box::new(ChangePlan {
                price_overrides: vec![],
                ..change
            }))),
        ],
        expect![[
            r#"[{"Billing":{"ChangePlan":{"account":"00000000-0000-0000-0000-000000000003","subscription":"00000000-0000-0000-0000-000000000005","plan":{"Named":"pro"},"phase":null,"policy":null,"requested":null,"price_overrides":[{"phase":{"OfType":"TRIAL"},"fixed":"3","recurring":"0.000000001"}]}}},{"Billing":{"ChangePlan":{"account":"00000000-0000-0000-0000-000000000003","subscription":"00000000-0000-0000-0000-000000000005","plan":{"Named":"pro"},"phase":null,"policy":null,"requested":null}}}]"#
        ]],
    );
}

#[test]
fn subscribing() {
    let subscribe = Subscribe {
        account: id(3),
        bundle: Some(id(4)),
        bundle_key: Some("key".to_owned()),
        external_key: None,
        plan: PlanChoice::Named("pro".to_owned()),
        phase: Some(PhaseType::Trial),
        bill_cycle_day: Some(9),
        quantity: Some(3),
        entitled_from: Some(When::Day(day("2026-01-10"))),
        billed_from: Some(When::At(Timestamp(7))),
        price_overrides: vec![],
    };
    let product = "Pro".to_owned();
    let plan = PlanChoice::Offered { product, period: BillingPeriod::Monthly, price_list: None };
    let other = Subscribe { plan, ..subscribe.clone() };
    let account = id(3);
    let all = SubscribeAll { account, bundles: vec![vec![other.clone()]] };
    check(
        &Command::Billing(BillingCommand::SubscribeAll(Box::new(all))),
        expect![[
            r#"{"Billing":{"SubscribeAll":{"account":"00000000-0000-0000-0000-000000000003","bundles":[[{"account":"00000000-0000-0000-0000-000000000003","bundle":"00000000-0000-0000-0000-000000000004","bundle_key":"key","external_key":null,"plan":{"Offered":{"product":"Pro","period":"MONTHLY","price_list":null}},"phase":"TRIAL","bill_cycle_day":9,"quantity":3,"entitled_from":{"Day":"2026-01-10"},"billed_from":{"At":7}}]]}}}"#
        ]],
    );
    check(
        &Reply::Billing(BillingReply::SubscribedAll { bundles: vec![id(4)] }),
        expect![[
            r#"{"Billing":{"SubscribedAll":{"bundles":["00000000-0000-0000-0000-000000000004"]}}}"#
        ]],
    );
    let proceed = ContinueBilling { account: id(3), due: Timestamp(7) };
    check(
        &[
            Command::Billing(BillingCommand::Subscribe(Box::new(subscribe))),
            Command::Billing(BillingCommand::Subscribe(Box::new(other))),
            Command::Billing(BillingCommand::Continue(proceed)),
        ],
        expect![[
            r#"[{"Billing":{"Subscribe":{"account":"00000000-0000-0000-0000-000000000003","bundle":"00000000-0000-0000-0000-000000000004","bundle_key":"key","external_key":null,"plan":{"Named":"pro"},"phase":"TRIAL","bill_cycle_day":9,"quantity":3,"entitled_from":{"Day":"2026-01-10"},"billed_from":{"At":7}}}},{"Billing":{"Subscribe":{"account":"00000000-0000-0000-0000-000000000003","bundle":"00000000-0000-0000-0000-000000000004","bundle_key":"key","external_key":null,"plan":{"Offered":{"product":"Pro","period":"MONTHLY","price_list":null}},"phase":"TRIAL","bill_cycle_day":9,"quantity":3,"entitled_from":{"Day":"2026-01-10"},"billed_from":{"At":7}}}},{"Billing":{"Continue":{"account":"00000000-0000-0000-0000-000000000003","due":7}}}]"#
        ]],
    );
    check(
        &Reply::Billing(BillingReply::Subscribed { subscription: id(5), bundle: id(4) }),
        expect![[
            r#"{"Billing":{"Subscribed":{"subscription":"00000000-0000-0000-0000-000000000005","bundle":"00000000-0000-0000-0000-000000000004"}}}"#
        ]],
    );
}

#[test]
fn payments_of_invoices() {
    let call = Initiate {
        payment_method: Some(id(5)),
        payment_key: Some("p".to_owned()),
        transaction_key: Some("t".to_owned()),
        amount: Some("5".to_owned()),
        ..Initiate::of(id(3))
    };
    let pay = PayInvoice { invoice: id(6), is_external: true, call };
    let unpaid = PayUnpaid { account: id(3), invoice: id(6), due: Timestamp(7) };
    check(
        &[
            Command::Billing(BillingCommand::Pay(Box::new(pay))),
            Command::Billing(BillingCommand::PayUnpaid(unpaid)),
        ],
        expect![[
            r#"[{"Billing":{"Pay":{"invoice":"00000000-0000-0000-0000-000000000006","is_external":true,"call":{"account":"00000000-0000-0000-0000-000000000003","payment":null,"payment_method":"00000000-0000-0000-0000-000000000005","payment_key":"p","transaction_key":"t","amount":"5","currency":null,"properties":[]}}}},{"Billing":{"PayUnpaid":{"account":"00000000-0000-0000-0000-000000000003","invoice":"00000000-0000-0000-0000-000000000006","due":7}}}]"#
        ]],
    );
    check(&TimerKind::InvoicePayment, expect![[r#""InvoicePayment""#]]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "the text of each format")]
fn invoices() {
    let invoice = Invoice {
        tenant: TENANT,
        id: id(6),
        account_id: id(3),
        number: 1,
        status: InvoiceStatus::Committed,
        currency: usd(),
        invoice_date: day("2026-02-09"),
        target_date: Some(day("2026-02-09")),
        charged: AmountMinor(2_000),
        credit: AmountMinor(-500),
        payments: BTreeMap::from([(
            id(8),
            InvoicePayment { paid: AmountMinor(1_000), in_flight: AmountMinor(500) },
        )]),
        created_at: Timestamp(7),
        revision: revision(),
    };
    check(
        &Change::Billing(BillingChange::Invoice(Box::new(invoice))),
        expect![[
            r#"{"Billing":{"Invoice":{"tenant":1,"id":"00000000-0000-0000-0000-000000000006","account_id":"00000000-0000-0000-0000-000000000003","number":1,"status":"Committed","currency":"USD","invoice_date":"2026-02-09","target_date":"2026-02-09","charged":2000,"credit":-500,"payments":{"00000000-0000-0000-0000-000000000008":{"paid":1000,"in_flight":500}},"created_at":7,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    let item = |kind| InvoiceItem {
        tenant: TENANT,
        id: id(7),
        invoice_id: id(6),
        account_id: id(3),
        kind,
        amount: AmountMinor(2_000),
        currency: usd(),
        start: day("2026-02-09"),
        end: Some(day("2026-03-09")),
        last_day: day("2026-03-09"),
        of: Some(OfSubscription {
            subscription: id(5),
            bundle: id(4),
            product: "Pro".to_owned(),
            plan: "pro".to_owned(),
            phase: "pro-evergreen".to_owned(),
            rate: Price::parse("20.00"),
            catalog_effective_at: Timestamp(7),
        }),
        manual: None,
        description: None,
        details: None,
        linked: Some(id(9)),
        adjusted: AmountMinor::ZERO,
        repaired: AmountMinor::ZERO,
        voided: false,
        created_at: Timestamp(7),
        revision: revision(),
    };
    let charge = InvoiceItem {
        of: None,
        manual: Some(Box::new(Manual {
            subscription: Some(id(5)),
            bundle: Some(id(4)),
            product: Some("Pro".to_owned()),
            plan: Some("pro".to_owned()),
            phase: Some("pro-evergreen".to_owned()),
            quantity: Price::parse("3"),
            rate: Price::parse("10"),
        })),
        adjusted: AmountMinor(1),
        repaired: AmountMinor(2),
        voided: true,
        ..item(ItemKind::ExternalCharge)
    };
    check(
        &Change::Billing(BillingChange::Item(Box::new(charge))),
        expect![[
            r#"{"Billing":{"Item":{"tenant":1,"id":"00000000-0000-0000-0000-000000000007","invoice_id":"00000000-0000-0000-0000-000000000006","account_id":"00000000-0000-0000-0000-000000000003","kind":"EXTERNAL_CHARGE","amount":2000,"currency":"USD","start":"2026-02-09","end":"2026-03-09","last_day":"2026-03-09","manual":{"subscription":"00000000-0000-0000-0000-000000000005","bundle":"00000000-0000-0000-0000-000000000004","product":"Pro","plan":"pro","phase":"pro-evergreen","quantity":"3","rate":"10"},"linked":"00000000-0000-0000-0000-000000000009","adjusted":1,"repaired":2,"voided":true,"created_at":7,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    let changes = ItemKind::ALL.map(|it| Change::Billing(BillingChange::Item(Box::new(item(it)))));
    check(
        &changes,
        expect![[
            r#"[{"Billing":{"Item":{"tenant":1,"id":"00000000-0000-0000-0000-000000000007","invoice_id":"00000000-0000-0000-0000-000000000006","account_id":"00000000-0000-0000-0000-000000000003","kind":"FIXED","amount":2000,"currency":"USD","start":"2026-02-09","end":"2026-03-09","last_day":"2026-03-09","of":{"subscription":"00000000-0000-0000-0000-000000000005","bundle":"00000000-0000-0000-0000-000000000004","product":"Pro","plan":"pro","phase":"pro-evergreen","rate":"20","catalog_effective_at":7},"linked":"00000000-0000-0000-0000-000000000009","created_at":7,"revision":{"seq":9,"previous":null}}}},{"Billing":{"Item":{"tenant":1,"id":"00000000-0000-0000-0000-000000000007","invoice_id":"00000000-0000-0000-0000-000000000006","account_id":"00000000-0000-0000-0000-000000000003","kind":"RECURRING","amount":2000,"currency":"USD","start":"2026-02-09","end":"2026-03-09","last_day":"2026-03-09","of":{"subscription":"00000000-0000-0000-0000-000000000005","bundle":"00000000-0000-0000-0000-000000000004","product":"Pro","plan":"pro","phase":"pro-evergreen","rate":"20","catalog_effective_at":7},"linked":"00000000-0000-0000-0000-000000000009","created_at":7,"revision":{"seq":9,"previous":null}}}},{"Billing":{"Item":{"tenant":1,"id":"00000000-0000-0000-0000-000000000007","invoice_id":"00000000-0000-0000-0000-000000000006","account_id":"00000000-0000-0000-0000-000000000003","kind":"REPAIR_ADJ","amount":2000,"currency":"USD","start":"2026-02-09","end":"2026-03-09","last_day":"2026-03-09","of":{"subscription":"00000000-0000-0000-0000-000000000005","bundle":"00000000-0000-0000-0000-000000000004","product":"Pro","plan":"pro","phase":"pro-evergreen","rate":"20","catalog_effective_at":7},"linked":"00000000-0000-0000-0000-000000000009","created_at":7,"revision":{"seq":9,"previous":null}}}},{"Billing":{"Item":{"tenant":1,"id":"00000000-0000-0000-0000-000000000007","invoice_id":"00000000-0000-0000-0000-000000000006","account_id":"00000000-0000-0000-0000-000000000003","kind":"CBA_ADJ","amount":2000,"currency":"USD","start":"2026-02-09","end":"2026-03-09","last_day":"2026-03-09","of":{"subscription":"00000000-0000-0000-0000-000000000005","bundle":"00000000-0000-0000-0000-000000000004","product":"Pro","plan":"pro","phase":"pro-evergreen","rate":"20","catalog_effective_at":7},"linked":"00000000-0000-0000-0000-000000000009","created_at":7,"revision":{"seq":9,"previous":null}}}},{"Billing":{"Item":{"tenant":1,"id":"00000000-0000-0000-0000-000000000007","invoice_id":"00000000-0000-0000-0000-000000000006","account_id":"00000000-0000-0000-0000-000000000003","kind":"EXTERNAL_CHARGE","amount":2000,"currency":"USD","start":"2026-02-09","end":"2026-03-09","last_day":"2026-03-09","of":{"subscription":"00000000-0000-0000-0000-000000000005","bundle":"00000000-0000-0000-0000-000000000004","product":"Pro","plan":"pro","phase":"pro-evergreen","rate":"20","catalog_effective_at":7},"linked":"00000000-0000-0000-0000-000000000009","created_at":7,"revision":{"seq":9,"previous":null}}}},{"Billing":{"Item":{"tenant":1,"id":"00000000-0000-0000-0000-000000000007","invoice_id":"00000000-0000-0000-0000-000000000006","account_id":"00000000-0000-0000-0000-000000000003","kind":"TAX","amount":2000,"currency":"USD","start":"2026-02-09","end":"2026-03-09","last_day":"2026-03-09","of":{"subscription":"00000000-0000-0000-0000-000000000005","bundle":"00000000-0000-0000-0000-000000000004","product":"Pro","plan":"pro","phase":"pro-evergreen","rate":"20","catalog_effective_at":7},"linked":"00000000-0000-0000-0000-000000000009","created_at":7,"revision":{"seq":9,"previous":null}}}},{"Billing":{"Item":{"tenant":1,"id":"00000000-0000-0000-0000-000000000007","invoice_id":"00000000-0000-0000-0000-000000000006","account_id":"00000000-0000-0000-0000-000000000003","kind":"CREDIT_ADJ","amount":2000,"currency":"USD","start":"2026-02-09","end":"2026-03-09","last_day":"2026-03-09","of":{"subscription":"00000000-0000-0000-0000-000000000005","bundle":"00000000-0000-0000-0000-000000000004","product":"Pro","plan":"pro","phase":"pro-evergreen","rate":"20","catalog_effective_at":7},"linked":"00000000-0000-0000-0000-000000000009","created_at":7,"revision":{"seq":9,"previous":null}}}},{"Billing":{"Item":{"tenant":1,"id":"00000000-0000-0000-0000-000000000007","invoice_id":"00000000-0000-0000-0000-000000000006","account_id":"00000000-0000-0000-0000-000000000003","kind":"ITEM_ADJ","amount":2000,"currency":"USD","start":"2026-02-09","end":"2026-03-09","last_day":"2026-03-09","of":{"subscription":"00000000-0000-0000-0000-000000000005","bundle":"00000000-0000-0000-0000-000000000004","product":"Pro","plan":"pro","phase":"pro-evergreen","rate":"20","catalog_effective_at":7},"linked":"00000000-0000-0000-0000-000000000009","created_at":7,"revision":{"seq":9,"previous":null}}}}]"#
        ]],
    );
}

#[test]
fn what_an_account_has_once() {
    let account = AccountBilling {
        tenant: TENANT,
        account_id: id(3),
        credit: AmountMinor(500),
        invoiced_until: Some(day("2026-02-09")),
        blocked_until: None,
        due: Some(Timestamp(8)),
        parked: Some(Parked {
            since: Timestamp(7),
            reason: Unbillable::Overlap(day("2026-02-09")),
        }),
        revision: revision(),
    };
    check(
        &Change::Billing(BillingChange::Account(account)),
        expect![[
            r#"{"Billing":{"Account":{"tenant":1,"account_id":"00000000-0000-0000-0000-000000000003","credit":500,"invoiced_until":"2026-02-09","due":8,"parked":{"since":7,"reason":{"Overlap":"2026-02-09"}},"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
}

#[test]
fn refusals() {
    use BillingRejection as R;
    let text = |it: &str| it.to_owned();
    let all = [
        R::NoCatalog,
        R::NoSuchPlan { plan: text("pro") },
        R::NoSuchProduct { product: text("Pro") },
        R::NoPlanOffered { wanted: text("Pro MONTHLY DEFAULT") },
        R::SeveralPlansOffered { wanted: text("Pro MONTHLY DEFAULT") },
        R::NoSuchPhase { plan: text("pro") },
        R::NoPrice { plan: text("pro"), currency: usd(), why: NoPrice::Missing },
        R::NoSuchSubscription { subscription: id(5) },
        R::NoSuchBundle { bundle: id(4) },
        R::BundleKeyInUse { key: text("key") },
        R::BaseExists { bundle: id(4) },
        R::NoBase,
        R::AddOnIncluded { add_on: text("Extra"), base: text("Pro") },
        R::AddOnNotAvailable { add_on: text("Extra"), base: text("Pro") },
        R::TooManyInBundle { plan: text("extra"), most: 2 },
        R::TooManySubscriptions,
        R::NoSuchInvoice { invoice: id(6) },
        R::InvoiceOfAnotherAccount { invoice: id(6) },
        R::InvoiceNotPayable { invoice: id(6), status: InvoiceStatus::Draft },
        R::AboveBalance {
            invoice: id(6),
            amount: AmountMinor(2_100),
            balance: AmountMinor(2_000),
            in_flight: AmountMinor(500),
            currency: usd(),
        },
        R::InvalidPriceOverride { plan: text("pro"), reason: text("it has no phase TRIAL") },
        R::OfEntry { bundle: 1, entry: 2, why: Box::new(R::NoBase.into()) },
    ];
    check(
        &all.map(Rejection::Billing),
        expect![[
            r#"[{"Billing":"NoCatalog"},{"Billing":{"NoSuchPlan":{"plan":"pro"}}},{"Billing":{"NoSuchProduct":{"product":"Pro"}}},{"Billing":{"NoPlanOffered":{"wanted":"Pro MONTHLY DEFAULT"}}},{"Billing":{"SeveralPlansOffered":{"wanted":"Pro MONTHLY DEFAULT"}}},{"Billing":{"NoSuchPhase":{"plan":"pro"}}},{"Billing":{"NoPrice":{"plan":"pro","currency":"USD","why":"Missing"}}},{"Billing":{"NoSuchSubscription":{"subscription":"00000000-0000-0000-0000-000000000005"}}},{"Billing":{"NoSuchBundle":{"bundle":"00000000-0000-0000-0000-000000000004"}}},{"Billing":{"BundleKeyInUse":{"key":"key"}}},{"Billing":{"BaseExists":{"bundle":"00000000-0000-0000-0000-000000000004"}}},{"Billing":"NoBase"},{"Billing":{"AddOnIncluded":{"add_on":"Extra","base":"Pro"}}},{"Billing":{"AddOnNotAvailable":{"add_on":"Extra","base":"Pro"}}},{"Billing":{"TooManyInBundle":{"plan":"extra","most":2}}},{"Billing":"TooManySubscriptions"},{"Billing":{"NoSuchInvoice":{"invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"InvoiceOfAnotherAccount":{"invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"InvoiceNotPayable":{"invoice":"00000000-0000-0000-0000-000000000006","status":"Draft"}}},{"Billing":{"AboveBalance":{"invoice":"00000000-0000-0000-0000-000000000006","amount":2100,"balance":2000,"in_flight":500,"currency":"USD"}}},{"Billing":{"InvalidPriceOverride":{"plan":"pro","reason":"it has no phase TRIAL"}}},{"Billing":{"OfEntry":{"bundle":1,"entry":2,"why":{"Billing":"NoBase"}}}}]"#
        ]],
    );
}

#[test]
fn events() {
    let step = |step| Event::SubscriptionChanged {
        account: id(3),
        subscription: id(5),
        step,
        effective_at: Timestamp(7),
        is_in_effect: true,
    };
    check(
        &[
            step(SubscriptionStep::Created),
            step(SubscriptionStep::Entitled),
            step(SubscriptionStep::Phase),
            step(SubscriptionStep::Changed),
            step(SubscriptionStep::BillCycleDay),
            step(SubscriptionStep::Quantity),
            step(SubscriptionStep::Cancelled),
            step(SubscriptionStep::Expired),
        ],
        expect![[
            r#"[{"SubscriptionChanged":{"account":"00000000-0000-0000-0000-000000000003","subscription":"00000000-0000-0000-0000-000000000005","step":"Created","effective_at":7,"is_in_effect":true}},{"SubscriptionChanged":{"account":"00000000-0000-0000-0000-000000000003","subscription":"00000000-0000-0000-0000-000000000005","step":"Entitled","effective_at":7,"is_in_effect":true}},{"SubscriptionChanged":{"account":"00000000-0000-0000-0000-000000000003","subscription":"00000000-0000-0000-0000-000000000005","step":"Phase","effective_at":7,"is_in_effect":true}},{"SubscriptionChanged":{"account":"00000000-0000-0000-0000-000000000003","subscription":"00000000-0000-0000-0000-000000000005","step":"Changed","effective_at":7,"is_in_effect":true}},{"SubscriptionChanged":{"account":"00000000-0000-0000-0000-000000000003","subscription":"00000000-0000-0000-0000-000000000005","step":"BillCycleDay","effective_at":7,"is_in_effect":true}},{"SubscriptionChanged":{"account":"00000000-0000-0000-0000-000000000003","subscription":"00000000-0000-0000-0000-000000000005","step":"Quantity","effective_at":7,"is_in_effect":true}},{"SubscriptionChanged":{"account":"00000000-0000-0000-0000-000000000003","subscription":"00000000-0000-0000-0000-000000000005","step":"Cancelled","effective_at":7,"is_in_effect":true}},{"SubscriptionChanged":{"account":"00000000-0000-0000-0000-000000000003","subscription":"00000000-0000-0000-0000-000000000005","step":"Expired","effective_at":7,"is_in_effect":true}}]"#
        ]],
    );
    let (balance, currency) = (AmountMinor(0), usd());
    check(
        &[
            Event::InvoiceCreated {
                account: id(3),
                invoice: id(6),
                number: 1,
                charged: AmountMinor(2_000),
                balance: AmountMinor(2_000),
                currency,
            },
            Event::InvoicePaid {
                account: id(3),
                invoice: id(6),
                payment: Some(id(8)),
                is_paid: true,
                amount: AmountMinor(2_000),
                balance,
                currency,
            },
            Event::InvoiceUpcoming {
                account: id(3),
                target: "2026-03-09".parse().unwrap(),
                charged: AmountMinor(2_000),
                balance: AmountMinor(500),
                currency,
            },
            Event::AccountParked { account: id(3), reason: Unbillable::TooLarge },
        ],
        expect![[
            r#"[{"InvoiceCreated":{"account":"00000000-0000-0000-0000-000000000003","invoice":"00000000-0000-0000-0000-000000000006","number":1,"charged":2000,"balance":2000,"currency":"USD"}},{"InvoicePaid":{"account":"00000000-0000-0000-0000-000000000003","invoice":"00000000-0000-0000-0000-000000000006","payment":"00000000-0000-0000-0000-000000000008","is_paid":true,"amount":2000,"balance":0,"currency":"USD"}},{"InvoiceUpcoming":{"account":"00000000-0000-0000-0000-000000000003","target":"2026-03-09","charged":2000,"balance":500,"currency":"USD"}},{"AccountParked":{"account":"00000000-0000-0000-0000-000000000003","reason":"TooLarge"}}]"#
        ]],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "the text of each format")]
fn what_is_done_to_invoices_by_hand() {
    let item = NewItem {
        invoice: Some(id(6)),
        amount: Some("30.00".to_owned()),
        currency: Some(usd()),
        description: Some("charge".to_owned()),
        details: Some("{}".to_owned()),
        start: Some(day("2026-02-09")),
        end: Some(day("2026-03-09")),
        manual: Manual { quantity: Price::parse("3"), ..Manual::default() },
    };
    let add = AddItems {
        account: id(3),
        kind: ManualKind::Charge,
        items: vec![item],
        commits: true,
        day: Some(When::Day(day("2026-02-09"))),
    };
    let adjust = AdjustItem {
        account: id(3),
        invoice: id(6),
        item: id(7),
        amount: Some("1.00".to_owned()),
        currency: None,
        description: None,
        details: None,
        day: None,
    };
    let of = InvoiceOf { account: id(3), invoice: id(6) };
    let commands = [
        BillingCommand::AddItems(Box::new(add)),
        BillingCommand::AdjustItem(Box::new(adjust)),
        BillingCommand::CommitInvoice(of),
        BillingCommand::VoidInvoice(of),
        BillingCommand::DeleteCredit(DeleteCredit { account: id(3), invoice: id(6), item: id(7) }),
        BillingCommand::UseCredit(id(3)),
        BillingCommand::RenameBundle(RenameBundle {
            account: id(3),
            bundle: id(4),
            key: "x".to_owned(),
        }),
    ];
    check(
        &commands.map(Command::Billing),
        expect![[
            r#"[{"Billing":{"AddItems":{"account":"00000000-0000-0000-0000-000000000003","kind":"Charge","items":[{"invoice":"00000000-0000-0000-0000-000000000006","amount":"30.00","currency":"USD","description":"charge","details":"{}","start":"2026-02-09","end":"2026-03-09","manual":{"quantity":"3"}}],"commits":true,"day":{"Day":"2026-02-09"}}}},{"Billing":{"AdjustItem":{"account":"00000000-0000-0000-0000-000000000003","invoice":"00000000-0000-0000-0000-000000000006","item":"00000000-0000-0000-0000-000000000007","amount":"1.00","currency":null,"description":null,"details":null,"day":null}}},{"Billing":{"CommitInvoice":{"account":"00000000-0000-0000-0000-000000000003","invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"VoidInvoice":{"account":"00000000-0000-0000-0000-000000000003","invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"DeleteCredit":{"account":"00000000-0000-0000-0000-000000000003","invoice":"00000000-0000-0000-0000-000000000006","item":"00000000-0000-0000-0000-000000000007"}}},{"Billing":{"UseCredit":"00000000-0000-0000-0000-000000000003"}},{"Billing":{"RenameBundle":{"account":"00000000-0000-0000-0000-000000000003","bundle":"00000000-0000-0000-0000-000000000004","key":"x"}}}]"#
        ]],
    );
    check(
        &Reply::Billing(BillingReply::Added(vec![(id(6), id(7))])),
        expect![[
            r#"{"Billing":{"Added":[["00000000-0000-0000-0000-000000000006","00000000-0000-0000-0000-000000000007"]]}}"#
        ]],
    );
    let adjusted = Event::InvoiceAdjusted {
        account: id(3),
        invoice: id(6),
        charged: AmountMinor(2_000),
        balance: AmountMinor(500),
        currency: usd(),
    };
    check(
        &adjusted,
        expect![[
            r#"{"InvoiceAdjusted":{"account":"00000000-0000-0000-0000-000000000003","invoice":"00000000-0000-0000-0000-000000000006","charged":2000,"balance":500,"currency":"USD"}}"#
        ]],
    );
    let rejections = [
        BillingRejection::Blocked { account: id(3) },
        BillingRejection::NoSuchInvoice { invoice: id(6) },
        BillingRejection::NoSuchItem { item: id(7) },
        BillingRejection::InvoiceCommitted { invoice: id(6) },
        BillingRejection::InvoiceVoid { invoice: id(6) },
        BillingRejection::NoDraft { invoice: id(6) },
        BillingRejection::ChargeNotPositive,
        BillingRejection::CreditNotPositive,
        BillingRejection::AdjustmentNotPositive,
        BillingRejection::AdjustmentTooLarge { left: "1.00".to_owned() },
        BillingRejection::NotAdjustable { item: id(7) },
        BillingRejection::OtherCurrency { currency: usd() },
        BillingRejection::InvoicePaid { invoice: id(6) },
        BillingRejection::InvoiceRepaired { invoice: id(6) },
        BillingRejection::DaysChargedAgain { invoice: id(6) },
        BillingRejection::CreditUsed { invoice: id(6) },
        BillingRejection::SystemCredit { item: id(7) },
        BillingRejection::InvoiceTooLarge,
    ];
    check(
        &rejections.map(Rejection::Billing),
        expect![[
            r#"[{"Billing":{"Blocked":{"account":"00000000-0000-0000-0000-000000000003"}}},{"Billing":{"NoSuchInvoice":{"invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"NoSuchItem":{"item":"00000000-0000-0000-0000-000000000007"}}},{"Billing":{"InvoiceCommitted":{"invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"InvoiceVoid":{"invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"NoDraft":{"invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":"ChargeNotPositive"},{"Billing":"CreditNotPositive"},{"Billing":"AdjustmentNotPositive"},{"Billing":{"AdjustmentTooLarge":{"left":"1.00"}}},{"Billing":{"NotAdjustable":{"item":"00000000-0000-0000-0000-000000000007"}}},{"Billing":{"OtherCurrency":{"currency":"USD"}}},{"Billing":{"InvoicePaid":{"invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"InvoiceRepaired":{"invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"DaysChargedAgain":{"invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"CreditUsed":{"invoice":"00000000-0000-0000-0000-000000000006"}}},{"Billing":{"SystemCredit":{"item":"00000000-0000-0000-0000-000000000007"}}},{"Billing":"InvoiceTooLarge"}]"#
        ]],
    );
}
