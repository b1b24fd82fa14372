//! Features, offers, purchases and grants: rows, commands, replies, refusals and events.

use std::collections::{BTreeMap, BTreeSet};

use domain::account::tag::{ControlTag, DefinitionRef};
use domain::catalog::PhaseType;
use domain::change::{Change, EntitlementChange};
use domain::command::{EntitlementCommand, PaymentCommand};
use domain::entitlement::account_user::{ChangedUsers, SetAccountUsers};
use domain::entitlement::feature::{
    Combine, Feature, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset,
    ValueType,
};
use domain::entitlement::offer::{
    Again, Buyers, Lasts, Offer, OfferTerms, Price, PutOffer, Revocation,
};
use domain::entitlement::plan_features::{
    FeaturesOf, PlanFeature, PlanFeatures, PlanOrProduct, PutPlanFeatures, Starts,
};
use domain::entitlement::purchase::{BoughtTerms, Buy, Purchase, PurchaseStatus};
use domain::entitlement::{
    Bought, ContinueEntitlements, EntitledFeature, Entitlements, Grant, GrantFeature, GrantSource,
    GrantedFeature, LivePurchase, RevokeGrant, Term,
};
use domain::flag::definition::Expected;
use domain::reply::EntitlementReply;
use domain::timer::TimerKind;
use domain::{
    AmountMinor, Command, EntitlementRejection, Event, Rejection, Reply, Revision, Seq, TenantNo,
    Timestamp,
};
use expect_test::expect;

use super::control::usd;
use super::{check, id};

fn seats() -> FeatureTerms {
    let limit = LimitTerms { unit: "seats".to_owned(), resets: Reset::Month, overdraft: false };
    FeatureTerms { kind: FeatureKind::Limit(limit), combine: Combine::Sum }
}

fn terms() -> OfferTerms {
    OfferTerms {
        name: "Monthly".to_owned(),
        price: Some(Price { amount: AmountMinor(900), currency: usd() }),
        features: BTreeMap::from([("seats".to_owned(), FeatureValue::Limit(5))]),
        lasts: Lasts::Months(1),
        on_refund: Revocation::AtEnd,
        on_chargeback: Revocation::AtOnce,
        again: Again::Extend,
        buyers: Buyers {
            once: true,
            currencies: BTreeSet::from([usd()]),
            tags: BTreeSet::from([DefinitionRef::Control(ControlTag::AutoPayOff)]),
        },
        refunds_duplicates: true,
        is_trial: false,
        for_newcomers: false,
        withdrawn: false,
    }
}

fn change(change: EntitlementChange) -> Change {
    Change::Entitlement(change)
}

#[test]
fn words() {
    check(&TimerKind::Entitlements, expect![[r#""Entitlements""#]]);
    check(
        &PurchaseStatus::ALL.to_vec(),
        expect![[r#"["Pending","Failed","Active","Returned","Duplicate","Closed"]"#]],
    );
    check(&ValueType::ALL.to_vec(), expect![[r#"["Boolean","Number","String","Json"]"#]]);
    check(&Reset::ALL.to_vec(), expect![[r#"["Never","Day","Week","Month","Year"]"#]]);
    check(&Combine::ALL.to_vec(), expect![[r#"["Largest","Sum","Latest"]"#]]);
    check(&Revocation::ALL.to_vec(), expect![[r#"["AtOnce","AtEnd","Never"]"#]]);
    check(&Again::ALL.to_vec(), expect![[r#"["Refuse","Extend"]"#]]);
    check(
        &vec![Lasts::Forever, Lasts::Days(30), Lasts::Months(1)],
        expect![[r#"["Forever",{"Days":30},{"Months":1}]"#]],
    );
    let text = str::to_owned;
    check(
        &vec![
            FeatureValue::On,
            FeatureValue::Limit(5),
            FeatureValue::Boolean(false),
            FeatureValue::Number(text("1.5")),
            FeatureValue::String(text("a")),
            FeatureValue::Json(text("[1]")),
        ],
        expect![[
            r#"["On",{"Limit":5},{"Boolean":false},{"Number":"1.5"},{"String":"a"},{"Json":"[1]"}]"#
        ]],
    );
}

fn row() -> (TenantNo, Timestamp, Revision) {
    (TenantNo(1), Timestamp(7), Revision::first(Seq(9)))
}

#[test]
fn what_is_sold() {
    let (tenant, at, revision) = row();
    let feature = Feature {
        tenant,
        key: "seats".to_owned(),
        version: 2,
        name: "Seats".to_owned(),
        terms: seats(),
        archived: false,
        created_at: at,
        updated_at: at,
        revision,
    };
    check(
        &change(EntitlementChange::Feature(feature)),
        expect![[
            r#"{"Entitlement":{"Feature":{"tenant":1,"key":"seats","version":2,"name":"Seats","terms":{"kind":{"Limit":{"unit":"seats","resets":"Month","overdraft":false}},"combine":"Sum"},"archived":false,"created_at":7,"updated_at":7,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    let (key, created_at) = ("monthly".to_owned(), at);
    let offer = Offer { tenant, key, version: 2, terms: terms(), created_at, revision };
    check(
        &change(EntitlementChange::Offer(offer)),
        expect![[
            r#"{"Entitlement":{"Offer":{"tenant":1,"key":"monthly","version":2,"terms":{"name":"Monthly","price":{"amount":900,"currency":"USD"},"features":{"seats":{"Limit":5}},"lasts":{"Months":1},"on_refund":"AtEnd","on_chargeback":"AtOnce","again":"Extend","buyers":{"once":true,"currencies":["USD"],"tags":["AutoPayOff"]},"refunds_duplicates":true,"is_trial":false,"for_newcomers":false,"withdrawn":false},"created_at":7,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
}

#[test]
fn what_plans_give() {
    let (tenant, created_at, revision) = row();
    let of = FeaturesOf::plan("pro-monthly");
    let entry = |value: Option<i64>, trial: Option<i64>, times_quantity, starts| PlanFeature {
        value: value.map(FeatureValue::Limit),
        phases: trial.map(|it| (PhaseType::Trial, FeatureValue::Limit(it))).into_iter().collect(),
        times_quantity,
        starts,
    };
    let features = BTreeMap::from([
        ("seats".to_owned(), entry(Some(5), Some(1), true, Starts::Paid)),
        ("space".to_owned(), entry(None, None, false, Starts::Start)),
    ]);
    let put = PutPlanFeatures {
        of: FeaturesOf::product("Pro"),
        features: features.clone(),
        expected: Expected::Nothing,
    };
    check(
        &Command::Entitlement(EntitlementCommand::PutPlanFeatures(Box::new(put))),
        expect![[
            r#"{"Entitlement":{"PutPlanFeatures":{"of":{"kind":"Product","name":"Pro"},"features":{"seats":{"value":{"Limit":5},"phases":{"TRIAL":{"Limit":1}},"times_quantity":true,"starts":"Paid"},"space":{"starts":"Start"}},"expected":"Nothing"}}}"#
        ]],
    );
    let it = PlanFeatures { tenant, of, version: 2, features, created_at, revision };
    check(
        &change(EntitlementChange::PlanFeatures(Box::new(it))),
        expect![[
            r#"{"Entitlement":{"PlanFeatures":{"tenant":1,"of":{"kind":"Plan","name":"pro-monthly"},"version":2,"features":{"seats":{"value":{"Limit":5},"phases":{"TRIAL":{"Limit":1}},"times_quantity":true,"starts":"Paid"},"space":{"starts":"Start"}},"created_at":7,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
}

#[test]
fn what_is_bought() {
    let (tenant, at, revision) = row();
    let purchase = Purchase {
        tenant,
        id: id(2),
        account_id: id(3),
        payment_id: Some(id(4)),
        offer: "monthly".to_owned(),
        offer_version: 2,
        terms: BoughtTerms {
            offer: terms(),
            features: BTreeMap::from([("seats".to_owned(), seats())]),
        },
        status: PurchaseStatus::Active,
        from: Some(at),
        until: Some(Timestamp(8)),
        created_at: at,
        updated_at: at,
        revision,
    };
    check(
        &change(EntitlementChange::Purchase(Box::new(purchase))),
        expect![[
            r#"{"Entitlement":{"Purchase":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","account_id":"00000000-0000-0000-0000-000000000003","payment_id":"00000000-0000-0000-0000-000000000004","offer":"monthly","offer_version":2,"terms":{"offer":{"name":"Monthly","price":{"amount":900,"currency":"USD"},"features":{"seats":{"Limit":5}},"lasts":{"Months":1},"on_refund":"AtEnd","on_chargeback":"AtOnce","again":"Extend","buyers":{"once":true,"currencies":["USD"],"tags":["AutoPayOff"]},"refunds_duplicates":true,"is_trial":false,"for_newcomers":false,"withdrawn":false},"features":{"seats":{"kind":{"Limit":{"unit":"seats","resets":"Month","overdraft":false}},"combine":"Sum"}}},"status":"Active","from":7,"until":8,"created_at":7,"updated_at":7,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    let grant = |n, source| Grant {
        id: id(n),
        feature: "seats".to_owned(),
        value: FeatureValue::Limit(5),
        terms: seats(),
        source,
        from: at,
        until: None,
    };
    let bought = GrantSource::Offer {
        offer: "monthly".to_owned(),
        version: 2,
        purchase: id(2),
        payment: Some(id(4)),
        is_trial: false,
    };
    let subscribed = GrantSource::Subscription {
        subscription: id(8),
        plan: "pro-monthly".to_owned(),
        phase: PhaseType::FixedTerm,
        given_by: PlanOrProduct::Product,
        version: 3,
    };
    let by_hand = GrantSource::Manual { reason: "goodwill".to_owned() };
    let term = Some(Term { from: at, until: None });
    let live = vec![LivePurchase { id: id(2), term }, LivePurchase { id: id(7), term: None }];
    let entitlements = Entitlements {
        tenant,
        account_id: id(3),
        version: 4,
        grants: vec![grant(5, bought), grant(6, by_hand), grant(9, subscribed)],
        bought: BTreeMap::from([("monthly".to_owned(), Bought { paid: vec![id(2)], live })]),
        changed_at: at,
        due: Some(Timestamp(8)),
        users_version: 2,
        revision,
    };
    check(
        &change(EntitlementChange::Entitlements(Box::new(entitlements))),
        expect![[
            r#"{"Entitlement":{"Entitlements":{"tenant":1,"account_id":"00000000-0000-0000-0000-000000000003","version":4,"grants":[{"id":"00000000-0000-0000-0000-000000000005","feature":"seats","value":{"Limit":5},"terms":{"kind":{"Limit":{"unit":"seats","resets":"Month","overdraft":false}},"combine":"Sum"},"source":{"Offer":{"offer":"monthly","version":2,"purchase":"00000000-0000-0000-0000-000000000002","payment":"00000000-0000-0000-0000-000000000004","is_trial":false}},"from":7,"until":null},{"id":"00000000-0000-0000-0000-000000000006","feature":"seats","value":{"Limit":5},"terms":{"kind":{"Limit":{"unit":"seats","resets":"Month","overdraft":false}},"combine":"Sum"},"source":{"Manual":{"reason":"goodwill"}},"from":7,"until":null},{"id":"00000000-0000-0000-0000-000000000009","feature":"seats","value":{"Limit":5},"terms":{"kind":{"Limit":{"unit":"seats","resets":"Month","overdraft":false}},"combine":"Sum"},"source":{"Subscription":{"subscription":"00000000-0000-0000-0000-000000000008","plan":"pro-monthly","phase":"FIXED_TERM","given_by":"Product","version":3}},"from":7,"until":null}],"bought":{"monthly":{"paid":["00000000-0000-0000-0000-000000000002"],"live":[{"id":"00000000-0000-0000-0000-000000000002","term":{"from":7,"until":null}},{"id":"00000000-0000-0000-0000-000000000007","term":null}]}},"changed_at":7,"due":8,"users_version":2,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
}

#[test]
fn users() {
    let (mapped, unmapped) = (vec!["ann".to_owned()], vec!["bea".to_owned()]);
    let changed = ChangedUsers { tenant: TenantNo(1), account: id(3), mapped, unmapped };
    check(
        &change(EntitlementChange::Users(Box::new(changed))),
        expect![[
            r#"{"Entitlement":{"Users":{"tenant":1,"account":"00000000-0000-0000-0000-000000000003","mapped":["ann"],"unmapped":["bea"]}}}"#
        ]],
    );
    let (users, expected) = (vec!["ann".to_owned()], Expected::Version(1));
    let set = SetAccountUsers { account: id(3), users, expected };
    check(
        &Command::Entitlement(EntitlementCommand::SetUsers(Box::new(set))),
        expect![[
            r#"{"Entitlement":{"SetUsers":{"account":"00000000-0000-0000-0000-000000000003","users":["ann"],"expected":{"Version":1}}}}"#
        ]],
    );
    let taken = EntitlementRejection::UserTaken { field: "users[7]".to_owned() };
    check(
        &Rejection::Entitlement(taken),
        expect![[r#"{"Entitlement":{"UserTaken":{"field":"users[7]"}}}"#]],
    );
}

#[test]
fn commands() {
    let command = |command| Command::Entitlement(command);
    let put = PutFeature {
        key: "pro".to_owned(),
        name: "Pro".to_owned(),
        terms: FeatureTerms { kind: FeatureKind::Switch, combine: Combine::Latest },
        archived: true,
        expected: Expected::Version(1),
    };
    check(
        &command(EntitlementCommand::PutFeature(Box::new(put))),
        expect![[
            r#"{"Entitlement":{"PutFeature":{"key":"pro","name":"Pro","terms":{"kind":"Switch","combine":"Latest"},"archived":true,"expected":{"Version":1}}}}"#
        ]],
    );
    let put = PutOffer { key: "monthly".to_owned(), terms: terms(), expected: Expected::Nothing };
    check(
        &command(EntitlementCommand::PutOffer(Box::new(put))),
        expect![[
            r#"{"Entitlement":{"PutOffer":{"key":"monthly","terms":{"name":"Monthly","price":{"amount":900,"currency":"USD"},"features":{"seats":{"Limit":5}},"lasts":{"Months":1},"on_refund":"AtEnd","on_chargeback":"AtOnce","again":"Extend","buyers":{"once":true,"currencies":["USD"],"tags":["AutoPayOff"]},"refunds_duplicates":true,"is_trial":false,"for_newcomers":false,"withdrawn":false},"expected":"Nothing"}}}"#
        ]],
    );
    let grant = GrantFeature {
        account: id(3),
        feature: "pro".to_owned(),
        value: FeatureValue::On,
        from: None,
        until: Some(Timestamp(8)),
        reason: "goodwill".to_owned(),
    };
    check(
        &command(EntitlementCommand::Grant(Box::new(grant))),
        expect![[
            r#"{"Entitlement":{"Grant":{"account":"00000000-0000-0000-0000-000000000003","feature":"pro","value":"On","from":null,"until":8,"reason":"goodwill"}}}"#
        ]],
    );
    let revoke = RevokeGrant { account: id(3), grant: id(6) };
    check(
        &command(EntitlementCommand::Revoke(revoke)),
        expect![[
            r#"{"Entitlement":{"Revoke":{"account":"00000000-0000-0000-0000-000000000003","grant":"00000000-0000-0000-0000-000000000006"}}}"#
        ]],
    );
    let go_on = ContinueEntitlements { account: id(3), due: Timestamp(8) };
    check(
        &command(EntitlementCommand::Continue(go_on)),
        expect![[
            r#"{"Entitlement":{"Continue":{"account":"00000000-0000-0000-0000-000000000003","due":8}}}"#
        ]],
    );
    let buy = Buy {
        account: id(3),
        offer: "monthly".to_owned(),
        version: Some(2),
        expected: terms().price,
        payment_method: Some(id(5)),
        properties: vec![("a".to_owned(), "b".to_owned())],
    };
    check(
        &Command::Payment(PaymentCommand::Buy(Box::new(buy))),
        expect![[
            r#"{"Payment":{"Buy":{"account":"00000000-0000-0000-0000-000000000003","offer":"monthly","version":2,"expected":{"amount":900,"currency":"USD"},"payment_method":"00000000-0000-0000-0000-000000000005","properties":[["a","b"]]}}}"#
        ]],
    );
}

#[test]
fn replies_and_refusals() {
    check(
        &Reply::Entitlement(EntitlementReply::Put { version: 2 }),
        expect![[r#"{"Entitlement":{"Put":{"version":2}}}"#]],
    );
    check(
        &Reply::Entitlement(EntitlementReply::Bought(id(2))),
        expect![[r#"{"Entitlement":{"Bought":"00000000-0000-0000-0000-000000000002"}}"#]],
    );
    check(
        &Reply::Entitlement(EntitlementReply::Granted(id(6))),
        expect![[r#"{"Entitlement":{"Granted":"00000000-0000-0000-0000-000000000006"}}"#]],
    );
    use EntitlementRejection as R;
    let (offer, key) = ("monthly".to_owned(), "pro".to_owned());
    let all = vec![
        R::FeatureNotFound { key: key.clone() },
        R::OfferNotFound { key: offer.clone() },
        R::Changed { what: "feature".to_owned(), key, version: Some(2) },
        R::NewcomersHaveOffer { offer: offer.clone() },
        R::OfferChanged { offer: offer.clone(), version: 2 },
        R::PriceChanged { offer: offer.clone(), price: "9.00 USD".to_owned() },
        R::PurchasePending { offer: offer.clone(), purchase: id(2) },
        R::AlreadyBought { offer: offer.clone(), purchase: id(2) },
        R::NotForAccount { offer, reason: "it is".to_owned() },
        R::TooMany { what: "grants".to_owned(), most: 1_000 },
        R::GrantNotFound { id: id(6) },
        R::GrantOfPurchase { id: id(6), purchase: id(2) },
        R::GrantOfSubscription { id: id(6), subscription: id(8) },
    ];
    let all: Vec<Rejection> = all.into_iter().map(Rejection::Entitlement).collect();
    check(
        &all,
        expect![[
            r#"[{"Entitlement":{"FeatureNotFound":{"key":"pro"}}},{"Entitlement":{"OfferNotFound":{"key":"monthly"}}},{"Entitlement":{"Changed":{"what":"feature","key":"pro","version":2}}},{"Entitlement":{"NewcomersHaveOffer":{"offer":"monthly"}}},{"Entitlement":{"OfferChanged":{"offer":"monthly","version":2}}},{"Entitlement":{"PriceChanged":{"offer":"monthly","price":"9.00 USD"}}},{"Entitlement":{"PurchasePending":{"offer":"monthly","purchase":"00000000-0000-0000-0000-000000000002"}}},{"Entitlement":{"AlreadyBought":{"offer":"monthly","purchase":"00000000-0000-0000-0000-000000000002"}}},{"Entitlement":{"NotForAccount":{"offer":"monthly","reason":"it is"}}},{"Entitlement":{"TooMany":{"what":"grants","most":1000}}},{"Entitlement":{"GrantNotFound":{"id":"00000000-0000-0000-0000-000000000006"}}},{"Entitlement":{"GrantOfPurchase":{"id":"00000000-0000-0000-0000-000000000006","purchase":"00000000-0000-0000-0000-000000000002"}}},{"Entitlement":{"GrantOfSubscription":{"id":"00000000-0000-0000-0000-000000000006","subscription":"00000000-0000-0000-0000-000000000008"}}}]"#
        ]],
    );
}

#[test]
fn events() {
    let account = id(3);
    check(
        &Event::PurchaseChanged {
            account,
            purchase: id(2),
            payment: Some(id(4)),
            offer: "monthly".to_owned(),
            version: 2,
            before: Some(PurchaseStatus::Pending),
            status: PurchaseStatus::Active,
        },
        expect![[
            r#"{"PurchaseChanged":{"account":"00000000-0000-0000-0000-000000000003","purchase":"00000000-0000-0000-0000-000000000002","payment":"00000000-0000-0000-0000-000000000004","offer":"monthly","version":2,"before":"Pending","status":"Active"}}"#
        ]],
    );
    let grants = || vec![GrantedFeature { grant: id(5), feature: "seats".to_owned() }];
    check(
        &Event::EntitlementsGranted { account, grants: grants() },
        expect![[
            r#"{"EntitlementsGranted":{"account":"00000000-0000-0000-0000-000000000003","grants":[{"grant":"00000000-0000-0000-0000-000000000005","feature":"seats"}]}}"#
        ]],
    );
    check(
        &Event::EntitlementsRevoked { account, grants: grants() },
        expect![[
            r#"{"EntitlementsRevoked":{"account":"00000000-0000-0000-0000-000000000003","grants":[{"grant":"00000000-0000-0000-0000-000000000005","feature":"seats"}]}}"#
        ]],
    );
    check(
        &Event::EntitlementsExpired { account, grants: grants() },
        expect![[
            r#"{"EntitlementsExpired":{"account":"00000000-0000-0000-0000-000000000003","grants":[{"grant":"00000000-0000-0000-0000-000000000005","feature":"seats"}]}}"#
        ]],
    );
    let (feature, value) = ("seats".to_owned(), FeatureValue::Limit(5));
    let features = vec![EntitledFeature { feature, value, until: None }];
    check(
        &Event::EntitlementsChanged { account, version: 4, features, total: 1 },
        expect![[
            r#"{"EntitlementsChanged":{"account":"00000000-0000-0000-0000-000000000003","version":4,"features":[{"feature":"seats","value":{"Limit":5},"until":null}],"total":1}}"#
        ]],
    );
}
