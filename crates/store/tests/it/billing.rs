//! Catalogs, subscriptions and invoices are committed, loaded, read and verified.

use std::sync::Arc;

use domain::account::blocking_state::{AddBlockingState, Blockable, Blocks};
use domain::billing::EventKind;
use domain::billing::explain::Working;
use domain::billing::invoice::ItemKind;
use domain::billing::propose::Measured;
use domain::billing::subscription::{
    CancelSubscription, ContinueBilling, InvoiceOf, PlanChoice, Subscribe, When,
};
use domain::catalog::rules::Policy;
use domain::catalog::{Catalog, PhaseType};
use domain::command::{AccountCommand, BillingCommand, EntitlementCommand, TenantCommand};
use domain::entitlement::Entitlements;
use domain::entitlement::feature::{Combine, FeatureKind, FeatureTerms, FeatureValue, PutFeature};
use domain::entitlement::plan_features::{FeaturesOf, PlanFeature, PutPlanFeatures, Starts};
use domain::flag::definition::Expected;
use domain::read::TenantRow;
use domain::reply::BillingReply;
use domain::tenant::catalog::UploadCatalog;
use domain::timer::TimerKind;
use domain::{
    AccountId, BillingRejection, Command, InvoiceId, Rejection, Reply, SubscriptionId, TenantNo,
    Timestamp,
};
use engine::explained_invoices;
use engine::partition::{Answer, Verdict};
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

/// Features of a plan or a product: a switch of this key.
fn gives(of: FeaturesOf, feature: &str, starts: Starts) -> Command {
    let entry = PlanFeature {
        value: Some(FeatureValue::On),
        phases: [(PhaseType::Trial, FeatureValue::On)].into(),
        times_quantity: false,
        starts,
    };
    let features = [(feature.to_owned(), entry)].into();
    let put = PutPlanFeatures { of, features, expected: Expected::Anything };
    Command::Entitlement(EntitlementCommand::PutPlanFeatures(Box::new(put)))
}

/// A plan with a feature, its product with one that waits for a payment, and an account that subscribes to it.
pub fn fill_featured<S: Store>(workload: &mut Workload<S>) -> (AccountId, SubscriptionId) {
    for key in ["pro", "support"] {
        let put = PutFeature {
            key: key.to_owned(),
            name: key.to_owned(),
            terms: FeatureTerms { kind: FeatureKind::Switch, combine: Combine::Latest },
            archived: false,
            expected: Expected::Anything,
        };
        workload
            .accepted(TENANT, Command::Entitlement(EntitlementCommand::PutFeature(Box::new(put))));
    }
    workload.accepted(TENANT, gives(FeaturesOf::plan("pro"), "pro", Starts::Paid));
    workload.accepted(TENANT, gives(FeaturesOf::plan("pro"), "pro", Starts::Start));
    workload.accepted(TENANT, gives(FeaturesOf::product("Pro"), "support", Starts::Paid));
    fill(workload)
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
    bill(&mut world, account);
    let due = world.workload.now;
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

/// Does what is due next of an account's billing, at its time.
fn bill(world: &mut World, account: AccountId) {
    let due = world.queries.timers_due(Timestamp(i64::MAX), None, 10).unwrap();
    let due = due.iter().find(|it| it.key.kind == TimerKind::Billing).unwrap().due;
    world.workload.now = due;
    let it = ContinueBilling { account, due };
    world.workload.accepted(TENANT, Command::Billing(BillingCommand::Continue(it)));
}

/// Days pass, and billing stops or goes on.
fn block_billing(world: &mut World, (account, id): (AccountId, SubscriptionId), billing: bool) {
    world.workload.now = world.workload.now.plus_us(3 * 24 * HOUR_US);
    let (of, blocks) = (Blockable::Subscription(id), Blocks { billing, ..Blocks::default() });
    let (service, name) = ("dunning".to_owned(), billing.to_string());
    let it = AddBlockingState { account, of, service, name, blocks, effective_at: None };
    world.workload.accepted(TENANT, Command::Account(AccountCommand::AddBlockingState(it)));
}

/// The invoices of an account that have an item of a kind.
fn invoices_with(world: &World, account: AccountId, kind: ItemKind) -> Vec<InvoiceId> {
    let all = Page { offset: 0, limit: 20 };
    let invoices = world.queries.invoices_of(TENANT, account, all).unwrap().into_iter();
    let has = |invoice: &InvoiceId| {
        let found = explained_invoices::explain(&*world.queries, (TENANT, *invoice), all);
        found.unwrap().unwrap().items.iter().any(|it| it.item.kind == kind)
    };
    invoices.map(|it| it.invoice.id).filter(has).collect()
}

fn assert_verified(world: &World) {
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn days_that_an_invoice_gave_back_are_read_before_it_is_voided_although_they_are_settled() {
    let mut world = World::new(1);
    let (account, id) = fill(&mut world.workload);
    bill(&mut world, account);
    block_billing(&mut world, (account, id), true);
    block_billing(&mut world, (account, id), false);
    for _ in 0..3 {
        bill(&mut world, account);
    }
    let [invoice] = invoices_with(&world, account, ItemKind::RepairAdj)[..] else { panic!() };
    let void = BillingCommand::VoidInvoice(InvoiceOf { account, invoice });
    let verdict = world.workload.one(TENANT, Command::Billing(void));
    let refused = Rejection::Billing(BillingRejection::DaysChargedAgain { invoice });
    assert!(
        matches!(&verdict, Verdict::Answered(Answer::Refused(it)) if *it == refused),
        "{verdict:?}"
    );
    assert_verified(&world);
}

#[test]
fn an_end_that_is_dated_back_gives_settled_months_back_and_charges_none_again() {
    let mut world = World::new(1);
    let (account, subscription) = fill(&mut world.workload);
    for _ in 0..5 {
        bill(&mut world, account);
    }
    let two_months_ago = world.workload.now.plus_us(-65 * 24 * HOUR_US);
    let cancel = CancelSubscription {
        account,
        subscription,
        entitlement: None,
        billing: Some(Policy::Immediate),
        requested: Some(When::At(two_months_ago)),
        bills_until_requested: true,
    };
    world.workload.accepted(TENANT, Command::Billing(BillingCommand::Cancel(cancel)));
    let charged = invoices_with(&world, account, ItemKind::Recurring);
    assert_eq!(charged.len(), 5);
    assert_eq!(invoices_with(&world, account, ItemKind::RepairAdj).len(), 1);
    assert_verified(&world);
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

fn entitled(world: &World, account: AccountId) -> Entitlements {
    world.queries.entitlements(TENANT, account).unwrap().expect("an account that has something")
}

fn block(account: AccountId, of: Blockable, entitlement: bool) -> Command {
    let blocks = Blocks { entitlement, ..Blocks::default() };
    let (service, name) = ("dunning".to_owned(), entitlement.to_string());
    let it = AddBlockingState { account, of, service, name, blocks, effective_at: None };
    Command::Account(AccountCommand::AddBlockingState(it))
}

#[test]
fn features_of_plans_are_read_in_each_version_and_given_in_the_commit_that_subscribes() {
    let mut world = World::new(1);
    let (account, id) = fill_featured(&mut world.workload);
    let (plan, product) = (FeaturesOf::plan("pro"), FeaturesOf::product("Pro"));
    let all = Page { offset: 0, limit: 10 };
    let found = |of, version| {
        let found = world.queries.plan_features(TENANT, of, version).unwrap();
        found.map(|it| (it.version, it.features["pro"].starts))
    };
    assert_eq!(found(&plan, None), Some((2, Starts::Start)));
    assert_eq!(found(&plan, Some(1)), Some((1, Starts::Paid)));
    assert_eq!(found(&plan, Some(3)), None);
    let versions = world.queries.plan_features_versions(TENANT, &plan, all).unwrap();
    assert_eq!(versions.iter().map(|it| it.version).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(world.queries.plan_features_versions(TENANT, &product, all).unwrap().len(), 1);
    assert_eq!(world.queries.plan_features(TenantNo(2), &plan, None).unwrap(), None);
    let has = entitled(&world, account);
    let has: Vec<_> =
        has.grants.iter().map(|it| (it.feature.as_str(), it.subscription())).collect();
    assert_eq!(has, [("pro", Some(id))]);
    let given = world.queries.subscription(TENANT, id).unwrap().unwrap().subscription.given;
    assert_eq!(given.map(|it| (it.grants, it.is_paid)), Some((1, false)));
    assert!(verify_source(&world.home.source()).unwrap().is_sound());
}

#[test]
fn a_block_and_an_end_are_found_again_by_verify() {
    let mut world = World::new(1);
    let (account, subscription) = fill_featured(&mut world.workload);
    let of = Blockable::Subscription(subscription);
    for is_blocked in [true, false] {
        world.workload.accepted(TENANT, block(account, of, is_blocked));
        assert_eq!(entitled(&world, account).grants.is_empty(), is_blocked);
        assert!(verify_source(&world.home.source()).unwrap().is_sound());
    }
    let it = CancelSubscription {
        account,
        subscription,
        entitlement: None,
        billing: None,
        requested: None,
        bills_until_requested: false,
    };
    world.workload.accepted(TENANT, Command::Billing(BillingCommand::Cancel(it)));
    assert!(entitled(&world, account).grants.is_empty());
    assert!(verify_source(&world.home.source()).unwrap().is_sound());
}

#[test]
fn verify_finds_grants_without_an_active_subscription_and_the_reverse() {
    let has = |sql: &str, expected: &str| {
        let mut world = World::new(1);
        let (account, _) = fill_featured(&mut world.workload);
        world.workload.accepted(TENANT, block(account, Blockable::Account, false));
        world.home.damage(sql);
        let report = verify_source(&world.home.source()).unwrap();
        let found: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|it| it.contains(expected)), "{sql}: {found:?}");
    };
    has("UPDATE subscription SET given = NULL", "which has no features");
    has("DELETE FROM subscription", "which has no features");
    has("UPDATE entitlements SET grants = '[]'", "has not the grants that it was given");
    has("DELETE FROM entitlements", "has not the grants that it was given");
    has("UPDATE subscription SET is_over = 1", "has ended, and has features of its plan");
    has("UPDATE subscription SET entitlement_ended = 1", "has ended, and has features");
    has(
        "UPDATE blocking_state SET blocks_entitlement = 1",
        "is blocked, and has features of its plan",
    );
}
