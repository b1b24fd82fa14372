//! Catalogs, subscriptions and invoices are committed, loaded, read and verified.

use std::sync::Arc;

use domain::billing::EventKind;
use domain::billing::explain::Working;
use domain::billing::invoice::ItemKind;
use domain::billing::propose::Measured;
use domain::billing::subscription::{CancelSubscription, ContinueBilling, PlanChoice, Subscribe};
use domain::catalog::Catalog;
use domain::catalog::rules::Policy;
use domain::command::{BillingCommand, TenantCommand};
use domain::read::TenantRow;
use domain::reply::BillingReply;
use domain::tenant::catalog::UploadCatalog;
use domain::timer::TimerKind;
use domain::{AccountId, Command, Reply, SubscriptionId, TenantNo};
use engine::explained_invoices;
use engine::ports::{Page, Store};
use serde_json::json;
use store::verify::verify_source;

use crate::workload::{Workload, World};

const TENANT: TenantNo = TenantNo(1);
const HOUR_US: i64 = 3_600_000_000;

/// A version whose only plan is free for a week and costs 20.00 a month then.
fn catalog(effective_at: i64) -> Catalog {
    let trial = json!({
        "phase": "TRIAL", "duration": { "unit": "DAYS", "number": 7 }, "fixed": "free",
    });
    let prices = json!({ "in": [["USD", "20"]] });
    let evergreen = json!({
        "phase": "EVERGREEN", "duration": null,
        "recurring": { "period": "MONTHLY", "prices": prices },
    });
    serde_json::from_value(json!({
        "name": "Gold", "effective_at": effective_at, "currencies": ["USD"], "units": [],
        "products": [{ "name": "Pro", "category": "BASE" }],
        "plans": [{
            "name": "pro", "product": "Pro", "mode": "IN_ADVANCE", "phases": [trial, evergreen],
        }],
        "price_lists": [{ "name": "DEFAULT", "plans": ["pro"] }],
        "rules": {},
    }))
    .unwrap()
}

fn upload(effective_at: i64) -> Command {
    let catalog = Box::new(catalog(effective_at));
    let text = format!("<catalog>{effective_at}</catalog>");
    Command::Tenant(TenantCommand::UploadCatalog(UploadCatalog { text, catalog }))
}

fn subscribe(account: AccountId) -> Command {
    Command::Billing(BillingCommand::Subscribe(Box::new(Subscribe {
        account,
        bundle: None,
        bundle_key: Some("canary bundle".to_owned()),
        external_key: Some("canary".to_owned()),
        plan: PlanChoice::Named("pro".to_owned()),
        phase: None,
        bill_cycle_day: Some(31),
        quantity: Some(2),
        entitled_from: None,
        billed_from: None,
        price_overrides: vec![],
    })))
}

/// A tenant with a catalog, and an account that has a plan of it.
pub fn fill<S: Store>(workload: &mut Workload<S>) -> (AccountId, SubscriptionId) {
    workload.accepted(TENANT, upload(0));
    let account = workload.paying_account(TENANT);
    let reply = workload.accepted(TENANT, subscribe(account));
    let Reply::Billing(BillingReply::Subscribed { subscription, .. }) = reply else {
        panic!("{reply:?}")
    };
    (account, subscription)
}

#[test]
fn what_is_billed_is_read_and_its_timer_is_due() {
    let mut world = World::new(1);
    let (account, id) = fill(&mut world.workload);
    let queries = Arc::clone(&world.queries);
    let file = queries.subscription(TENANT, id).unwrap().unwrap();
    let bundle = file.bundle;
    assert_eq!(bundle.external_key.as_deref(), Some("canary bundle"));
    assert_eq!(file.subscription.external_key.as_deref(), Some("canary"));
    assert_eq!(queries.bundle(TENANT, bundle.id).unwrap().as_ref(), Some(&bundle));
    let all = Page { offset: 0, limit: 10 };
    assert_eq!(queries.bundles_of(TENANT, account, all).unwrap(), std::slice::from_ref(&bundle));
    assert_eq!(queries.subscriptions_of_bundle(TENANT, bundle.id).unwrap().len(), 1);
    let invoices = queries.invoices_of(TENANT, account, all).unwrap();
    assert_eq!(invoices.len(), 1);
    let invoice = &invoices[0];
    assert_eq!((invoice.invoice.number, invoice.items.len()), (1, 1));
    assert_eq!(queries.invoice(TENANT, invoice.invoice.id).unwrap().as_ref(), Some(invoice));
    assert_eq!(queries.invoice_by_number(TENANT, 1).unwrap().as_ref(), Some(invoice));
    assert_eq!(queries.invoice_by_number(TenantNo(2), 1).unwrap(), None);
    let far = domain::Timestamp(i64::MAX);
    let timers = queries.timers_due(far, None, 10).unwrap();
    assert!(timers.iter().any(|it| it.key.kind == TimerKind::Billing && it.account == account));
}

#[test]
fn a_version_is_read_once_and_known_when_it_is_newer() {
    let mut world = World::new(1);
    fill(&mut world.workload);
    let queries = Arc::clone(&world.queries);
    let versions = || {
        let state = queries.rows(&[TenantRow::CatalogVersions(TENANT).into()].into()).unwrap();
        let versions = state.tenant.catalog_versions.of(&TENANT).values();
        versions.map(|it| (it.id, it.effective_at.0, it.is_withdrawn)).collect::<Vec<_>>()
    };
    let first = versions();
    assert_eq!(first.len(), 1);
    world.workload.accepted(TENANT, upload(5));
    let both = versions();
    assert_eq!(both.iter().map(|it| it.1).collect::<Vec<_>>(), [0, 5]);
    let text = queries.catalog_text(TENANT, both[1].0).unwrap();
    assert_eq!(text.as_deref(), Some("<catalog>5</catalog>"));
    world.workload.accepted(TENANT, Command::Tenant(TenantCommand::WithdrawCatalog));
    assert!(versions().iter().all(|it| it.2));
}

#[test]
fn a_firing_for_another_time_does_nothing() {
    let mut world = World::new(1);
    let (account, _) = fill(&mut world.workload);
    let head = world.workload.head();
    let it = ContinueBilling { account, due: domain::Timestamp(1) };
    world.workload.accepted(TENANT, Command::Billing(BillingCommand::Continue(it)));
    let queries = Arc::clone(&world.queries);
    let all = Page { offset: 0, limit: 10 };
    assert_eq!(queries.invoices_of(TENANT, account, all).unwrap().len(), 1);
    assert!(world.workload.head() >= head);
}

#[test]
fn what_is_due_is_counted_with_the_oldest_and_of_its_tenant() {
    let mut world = World::new(1);
    let (account, _) = fill(&mut world.workload);
    let queries = Arc::clone(&world.queries);
    let far = domain::Timestamp(i64::MAX);
    let due = queries.timers_due(far, None, 10).unwrap();
    let due = due.iter().find(|it| it.account == account).unwrap().due;
    let page = Page { offset: 0, limit: 10 };
    let status = |tenant, now| {
        let it = queries.billing_status(tenant, now, page).unwrap();
        (it.due, it.oldest_due, it.parked, it.accounts.len())
    };
    assert_eq!(status(TENANT, due), (1, Some(due), 0, 0));
    assert_eq!(status(TENANT, domain::Timestamp(due.0 - 1)), (0, None, 0, 0));
    assert_eq!(status(TenantNo(2), due), (0, None, 0, 0));
    let backlog = queries.backlog(due).unwrap();
    assert_eq!((backlog.billing_due_at, backlog.parked), (Some(due), 0));
    assert_eq!(queries.backlog(domain::Timestamp(due.0 - 1)).unwrap().billing_due_at, None);
}

#[test]
fn an_item_is_explained_by_the_subscription_of_then() {
    let mut world = World::new(1);
    let (account, id) = fill(&mut world.workload);
    let queries = Arc::clone(&world.queries);
    let far = domain::Timestamp(i64::MAX);
    let due = queries.timers_due(far, None, 10).unwrap();
    let due = due.iter().find(|it| it.key.kind == TimerKind::Billing).unwrap().due;
    world.workload.now = due;
    let it = ContinueBilling { account, due };
    world.workload.accepted(TENANT, Command::Billing(BillingCommand::Continue(it)));
    let workings = || {
        let all = Page { offset: 0, limit: 10 };
        let invoices = queries.invoices_of(TENANT, account, all).unwrap().into_iter();
        let explained = invoices.flat_map(|it| {
            let of = (TENANT, it.invoice.id);
            explained_invoices::explain(&*queries, of, all).unwrap().unwrap().items
        });
        explained.map(|it| (it.item.kind, it.working.unwrap())).collect::<Vec<_>>()
    };
    let before = workings();
    let [(ItemKind::Fixed, _), (ItemKind::Recurring, month)] = &before[..] else {
        panic!("{before:?}")
    };
    let Working::Recurring { quantity: 2, measured: Measured::OfRate(month), .. } = month else {
        panic!("{month:?}")
    };
    world.workload.now = due.plus_us(3 * 24 * HOUR_US);
    world.workload.accepted(
        TENANT,
        Command::Billing(BillingCommand::Cancel(CancelSubscription {
            account,
            subscription: id,
            entitlement: None,
            billing: Some(Policy::Immediate),
            requested: None,
            bills_until_requested: false,
        })),
    );
    let after = workings();
    assert_eq!(after[..2], before[..]);
    let of_kind = |kind| after.iter().find(|it| it.0 == kind).map(|it| &it.1);
    let repair = of_kind(ItemKind::RepairAdj).unwrap();
    let Working::Repair { event, part, is_limited: false, .. } = repair else {
        panic!("{repair:?}")
    };
    assert_eq!(event.kind, EventKind::Cancel);
    assert_eq!((part.days, part.of_days), (month.days - 3, month.days));
    assert!(matches!(of_kind(ItemKind::CbaAdj), Some(Working::Credit { .. })), "{after:?}");
}

#[test]
fn verify_finds_invoices_that_do_not_add_up() {
    let has = |sql: &str, expected: &str| {
        let mut world = World::new(1);
        fill(&mut world.workload);
        world.home.damage(sql);
        let report = verify_source(&world.home.source()).unwrap();
        let found: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|it| it.contains(expected)), "{sql}: {found:?}");
    };
    has("UPDATE invoice SET charged = 5", "charges something else than its items");
    has("UPDATE invoice SET credit = 5", "has another credit than its items");
    has("UPDATE account_billing SET credit = 5", "has another credit than its invoices");
    has("UPDATE invoice_item SET voided = 1", "has items that count, and does not, or the reverse");
    has("UPDATE invoice_item SET adjusted = 1", "has more taken back of the item");
    let posted = "INSERT INTO posting SELECT seq, 0, tenant, account_id, id, id, '', 1, 6, 5, 'USD', \
                  created_at_us FROM invoice";
    has(posted, "on Sales than posted");
}
