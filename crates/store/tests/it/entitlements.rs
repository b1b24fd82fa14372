//! Features, offers, purchases and grants are committed, loaded, read and verified.

use std::collections::BTreeMap;

use domain::account::EraseAccount;
use domain::command::{AccountCommand, EntitlementCommand, PaymentCommand};
use domain::entitlement::GrantFeature;
use domain::entitlement::account_user::SetAccountUsers;
use domain::entitlement::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset, ValueType,
};
use domain::entitlement::offer::{Again, Lasts, OfferTerms, Price, PutOffer};
use domain::entitlement::purchase::{Buy, PurchaseStatus};
use domain::flag::definition::Expected;
use domain::payment::{FollowUp, GatewayAnswer, GatewayOutcome, GatewayReplied, GatewayStatus};
use domain::reply::AccountReply;
use domain::{AccountId, AmountMinor, Command, PaymentId, Person, Reply, TenantNo};
use engine::ports::{Page, Store};
use store::verify::verify_source;

use crate::workload::{Workload, World, create_account, currency};

const TENANT: TenantNo = TenantNo(1);
const ALL: Page = Page { offset: 0, limit: 10 };

fn price() -> Price {
    Price { amount: AmountMinor(1_200), currency: currency("USD") }
}

fn feature(key: &str, kind: FeatureKind) -> Command {
    Command::Entitlement(EntitlementCommand::PutFeature(Box::new(PutFeature {
        key: key.to_owned(),
        name: "Feature".to_owned(),
        terms: FeatureTerms { kind, combine: Combine::Latest },
        archived: false,
        expected: Expected::Anything,
    })))
}

fn offer(key: &str, price: Option<Price>) -> Command {
    let features = [("pro", FeatureValue::On), ("seats", FeatureValue::Limit(5))];
    Command::Entitlement(EntitlementCommand::PutOffer(Box::new(PutOffer {
        key: key.to_owned(),
        terms: OfferTerms {
            price,
            lasts: Lasts::Months(1),
            again: Again::Extend,
            is_trial: price.is_none(),
            for_newcomers: price.is_none(),
            ..OfferTerms::free("Offer", &features)
        },
        expected: Expected::Anything,
    })))
}

fn buy(account: AccountId, offer: &str, expected: Option<Price>) -> Command {
    Command::Payment(PaymentCommand::Buy(Box::new(Buy {
        account,
        offer: offer.to_owned(),
        version: None,
        expected,
        payment_method: None,
        properties: vec![],
    })))
}

fn grant(account: AccountId, feature: &str, value: FeatureValue) -> Command {
    Command::Entitlement(EntitlementCommand::Grant(Box::new(GrantFeature {
        account,
        feature: feature.to_owned(),
        value,
        from: None,
        until: None,
        reason: "goodwill".to_owned(),
    })))
}

/// The gateway processes the last call.
fn approve<S: Store>(workload: &mut Workload<S>) -> PaymentId {
    let call = workload.calls.pop().expect("a payment that was started");
    let (payment, transaction) = (call.payment, call.transaction);
    let answer = GatewayAnswer::Outcome(GatewayOutcome::new(GatewayStatus::Processed));
    let replied =
        GatewayReplied { payment, transaction, answer, is_controlled: false, tries: None };
    workload.accepted(TENANT, Command::Payment(PaymentCommand::GatewayReplied(replied)));
    payment
}

/// Two features, an offer in two versions and a free one, and an account that bought one, has a trial and a grant.
pub fn fill<S: Store>(workload: &mut Workload<S>) -> (AccountId, PaymentId) {
    let limit = LimitTerms { unit: "seats".to_owned(), resets: Reset::Never, overdraft: false };
    workload.accepted(TENANT, feature("pro", FeatureKind::Switch));
    workload.accepted(TENANT, feature("seats", FeatureKind::Limit(limit)));
    let higher = Price { amount: AmountMinor(1_500), ..price() };
    workload.accepted(TENANT, offer("monthly", Some(higher)));
    workload.accepted(TENANT, offer("monthly", Some(price())));
    workload.accepted(TENANT, offer("trial", None));
    let account = workload.paying_account(TENANT);
    workload.one(TENANT, buy(account, "monthly", Some(price())));
    let payment = approve(workload);
    workload.accepted(TENANT, buy(account, "trial", None));
    workload.accepted(TENANT, grant(account, "pro", FeatureValue::On));
    (account, payment)
}

/// An account's statuses of purchases, sorted, the number of its grants, and the version of its entitlements.
fn shown(world: &World, account: AccountId) -> (Vec<PurchaseStatus>, usize, i64) {
    let purchases = world.queries.purchases(TENANT, account, ALL).expect("a store that answers");
    let entitled = world.queries.entitlements(TENANT, account).expect("a store that answers");
    let entitled = entitled.expect("an account that was granted something");
    let mut statuses: Vec<_> = purchases.iter().map(|it| it.status).collect();
    statuses.sort();
    (statuses, entitled.grants.len(), entitled.version)
}

#[test]
fn what_is_sold_and_bought_is_read_again() {
    use PurchaseStatus::Active;
    let mut world = World::new(111);
    let (bought_by, payment) = fill(&mut world.workload);
    let keys = |offset| -> Vec<String> {
        let page = Page { offset, limit: 1 };
        let found = world.queries.features(TENANT, page).unwrap();
        found.into_iter().map(|it| it.key).collect()
    };
    assert_eq!([keys(0), keys(1), keys(2)], [vec!["pro".to_owned()], vec!["seats".into()], vec![]]);
    let offers = world.queries.offers(TENANT, ALL).unwrap();
    let offers: BTreeMap<_, _> = offers.into_iter().map(|it| (it.key, it.version)).collect();
    assert_eq!(offers, [("monthly".to_owned(), 2), ("trial".to_owned(), 1)].into());
    let versions = world.queries.offer_versions(TENANT, "monthly", ALL).unwrap();
    let prices = versions.iter().map(|it| (it.version, it.terms.price.unwrap().amount.0));
    assert_eq!(prices.collect::<Vec<_>>(), [(2, 1_200), (1, 1_500)]);
    let first = world.queries.offer(TENANT, "monthly", Some(1)).unwrap();
    assert_eq!(first, versions.get(1).cloned());
    assert_eq!(world.queries.offer(TENANT, "monthly", Some(3)).unwrap(), None);
    assert_eq!(shown(&world, bought_by), (vec![Active, Active], 5, 3));
    let file = world.queries.payment(TENANT, payment).unwrap().unwrap();
    let purchase = file.payment.paid_for.unwrap().purchase().unwrap();
    let found = world.queries.purchase(TENANT, purchase).unwrap().unwrap();
    assert_eq!((found.payment_id, found.offer_version), (Some(payment), 2));
    // Another tenant has none of it.
    let other = TenantNo(2);
    assert_eq!(world.queries.feature(other, "pro").unwrap(), None);
    assert_eq!(world.queries.offers(other, ALL).unwrap(), []);
    assert_eq!(world.queries.purchase(other, purchase).unwrap(), None);
    assert_eq!(world.queries.purchases(other, bought_by, ALL).unwrap(), []);
    assert_eq!(world.queries.entitlements(other, bought_by).unwrap(), None);
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

/// The writer holds entitlements that are small: each command has to see what the one before wrote, also of those that
/// have just become large.
#[test]
fn each_grant_is_added_to_those_before_however_many_and_large_they_are() {
    let mut world = World::new(114);
    world.workload.accepted(TENANT, feature("pro", FeatureKind::Switch));
    world.workload.accepted(TENANT, feature("plan", FeatureKind::Value(ValueType::Json)));
    let (many, large) =
        (world.workload.paying_account(TENANT), world.workload.paying_account(TENANT));
    for n in 1..=20 {
        world.workload.accepted(TENANT, grant(many, "pro", FeatureValue::On));
        let text = format!("[\"{}\"]", "x".repeat(200));
        world.workload.accepted(TENANT, grant(large, "plan", FeatureValue::Json(text)));
        for account in [many, large] {
            assert_eq!(shown(&world, account), (vec![], n, i64::try_from(n).unwrap()));
        }
    }
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn a_refund_takes_back_what_was_loaded_with_its_payment() {
    use PurchaseStatus::{Active, Pending, Returned};
    let mut world = World::new(112);
    let (account, payment) = fill(&mut world.workload);
    world.workload.one(TENANT, buy(account, "monthly", Some(price())));
    assert_eq!(shown(&world, account), (vec![Pending, Active, Active], 5, 3));
    let second = approve(&mut world.workload);
    assert_eq!(shown(&world, account), (vec![Active, Active, Active], 7, 4));
    for payment in [payment, second] {
        let refund = FollowUp {
            amount: Some("12".to_owned()),
            currency: Some(currency("USD")),
            ..FollowUp::of(payment)
        };
        world.workload.one(TENANT, Command::Payment(PaymentCommand::Refund(refund)));
        approve(&mut world.workload);
    }
    assert_eq!(shown(&world, account), (vec![Active, Returned, Returned], 3, 6));
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn verify_finds_grants_without_their_payment_and_payments_without_their_grants() {
    let damaged = |sql: &str| -> Vec<String> {
        let mut world = World::new(113);
        fill(&mut world.workload);
        world.home.damage(sql);
        let report = verify_source(&world.home.source()).unwrap();
        report.problems.iter().map(ToString::to_string).collect()
    };
    let has = |sql: &str, expected: &str| {
        let found = damaged(sql);
        assert!(found.iter().any(|it| it.contains(expected)), "{sql}: {found:?}");
    };
    has("UPDATE entitlements SET grants = '[]'", "is paid, and not all that it gives was granted");
    has("UPDATE purchase SET purchase_status = 2", "is not where its payment stands");
    has("UPDATE payment SET purchase_id = NULL", "is of a payment that is not there");
    has("DELETE FROM purchase", "has a grant of the purchase");
}

#[test]
fn users_are_mapped_looked_up_and_erased() {
    let mut world = World::new(114);
    let named = |workload: &mut Workload<_>, key: &str| {
        let create = create_account(Some(key.to_owned()), Person::default());
        let reply = workload.accepted(TENANT, create);
        let Reply::Account(AccountReply::Created(id)) = reply else { panic!("{reply:?}") };
        id
    };
    let [ann, bea] = ["ann", "bea"].map(|key| named(&mut world.workload, key));
    let set = |world: &mut World, account: AccountId, users: &[&str]| {
        let users = users.iter().map(|it| (*it).to_owned()).collect();
        let set = SetAccountUsers { account, users, expected: Expected::Anything };
        let command = EntitlementCommand::SetUsers(Box::new(set));
        world.workload.accepted(TENANT, Command::Entitlement(command));
    };
    let of = |world: &World, user: &str| world.queries.account_of_user(TENANT, user).unwrap();
    let users = |world: &World, account| -> Vec<String> {
        let mut users = world.queries.users_of_account(TENANT, account, ALL).unwrap();
        users.sort();
        users
    };
    let sound = |world: &World| {
        let report = verify_source(&world.home.source()).unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
    };
    set(&mut world, ann, &["u", "v", "ann"]);
    set(&mut world, bea, &["w"]);
    let (by_id, by_key) = (ann.to_string(), "bea");
    for (user, account) in [("u", ann), ("w", bea), (&by_id, ann), (by_key, bea), ("ann", ann)] {
        assert_eq!(of(&world, user), Some(account), "{user}");
    }
    assert_eq!(of(&world, &by_id.to_uppercase()), None, "another spelling is another key");
    assert_eq!(of(&world, "x"), None);
    assert_eq!(world.queries.account_of_user(TenantNo(2), "u").unwrap(), None);
    assert_eq!(users(&world, ann), ["ann", "u", "v"]);
    sound(&world);
    set(&mut world, ann, &["v"]);
    set(&mut world, bea, &["w", "u"]);
    assert_eq!([of(&world, "u"), of(&world, "ann")], [Some(bea), Some(ann)]);
    assert_eq!(users(&world, ann), ["v"]);
    let entitled = world.queries.entitlements(TENANT, ann).unwrap().unwrap();
    assert_eq!((entitled.version, entitled.users_version), (2, 2));
    sound(&world);
    let erase = AccountCommand::Erase(EraseAccount { account: bea });
    world.workload.accepted(TENANT, Command::Account(erase));
    assert_eq!(["u", "w", "bea"].map(|user| of(&world, user)), [None; 3]);
    assert_eq!(users(&world, bea), Vec::<String>::new());
    assert_eq!(world.queries.entitlements(TENANT, bea).unwrap().unwrap().version, 3);
    set(&mut world, ann, &["w"]);
    assert_eq!(of(&world, "w"), Some(ann));
    sound(&world);
    world.home.damage("UPDATE account_user SET key = 'y'");
    let report = verify_source(&world.home.source()).unwrap();
    let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert!(found.iter().any(|it| it.contains("does not have this key")), "{found:?}");
    assert!(found.iter().any(|it| it.contains("its key is not claimed for it")), "{found:?}");
}
