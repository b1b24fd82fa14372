//! Several subscriptions by one command.

use expect_test::expect;

use super::*;
use crate::billing::subscription::{SUBSCRIBED_MAX, SubscribeAll};

impl World {
    /// Subscribes to these plans, each list in a bundle of its own.
    fn subscribe_all(
        &mut self,
        plans: &[&[&str]],
        with: impl Fn(&mut Vec<Vec<Subscribe>>),
    ) -> Result<Vec<BundleId>, Rejection> {
        let one = |plan: &&str| subscribe_to(self.account, plan);
        let mut bundles: Vec<Vec<_>> =
            plans.iter().map(|plans| plans.iter().map(one).collect()).collect();
        with(&mut bundles);
        let it = SubscribeAll { account: self.account, bundles };
        let reply = self.rows.run(BillingCommand::SubscribeAll(Box::new(it)).into())?.reply;
        let Some(Reply::Billing(BillingReply::SubscribedAll { bundles })) = reply else { panic!() };
        Ok(bundles)
    }
}

#[test]
fn what_begins_together_is_on_one_invoice() {
    let mut world = World::new();
    let bundles = world.subscribe_all(&[&["max", "extra"], &["solo"]], |_| {}).unwrap();
    assert_eq!(bundles.len(), 2);
    let of_bundle = |bundle| world.active().iter().filter(|it| it.bundle_id == bundle).count();
    assert_eq!([of_bundle(bundles[0]), of_bundle(bundles[1])], [2, 1]);
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-10: 66.00, 0.00 to pay
          RECURRING extra-evergreen 2026-01-10 > 2026-02-10 31.00
          RECURRING solo-evergreen 2026-01-10 > 2026-02-10 5.00
          RECURRING max-evergreen 2026-01-10 > 2026-02-10 30.00
        due at 2026-02-10T08:00:00Z"#]]);
    // An add-on alone goes into a bundle that is there.
    let into = |it: &mut Vec<Vec<Subscribe>>| it[0][0].bundle = Some(bundles[0]);
    let refused = world.subscribe_all(&[&["extra"]], into).unwrap_err().to_string();
    assert_eq!(refused, "entry 1 of bundle 1: a bundle has the plan extra 1 times at most");
}

#[test]
fn what_begins_later_is_due_then() {
    let mut world = World::new();
    let day = |text: &str| Some(When::Day(text.parse().unwrap()));
    world
        .subscribe_all(&[&["max"], &["solo"], &["solo"]], |it| {
            it[0][0].billed_from = day("2026-01-05");
            it[2][0].billed_from = day("2026-01-20");
        })
        .unwrap();
    world.until("2026-01-10T08:00");
    world.until("2026-01-20T08:00");
    world.check(expect![[r#"
        1 on 2026-01-10 until 2026-01-05: 30.00, 0.00 to pay
          RECURRING max-evergreen 2026-01-05 > 2026-02-05 30.00
        2 on 2026-01-10 until 2026-01-10: 4.19, 0.00 to pay
          RECURRING solo-evergreen 2026-01-10 > 2026-02-05 4.19
        3 on 2026-01-20 until 2026-01-20: 2.58, 0.00 to pay
          RECURRING solo-evergreen 2026-01-20 > 2026-02-05 2.58
        due at 2026-02-05T08:00:00Z"#]]);
}

#[test]
fn a_wrong_entry_is_named_and_nothing_is_made() {
    let mut world = World::new();
    let mut refused = |plans: &[&[&str]], with: &dyn Fn(&mut Vec<Vec<Subscribe>>)| {
        world.subscribe_all(plans, with).unwrap_err().to_string()
    };
    let all = [
        refused(&[&["max", "extra"], &["max", "gold"]], &|_| {}),
        refused(&[&["max", "solo"]], &|_| {}),
        refused(&[&["extra", "max"]], &|_| {}),
        refused(&[&["max", "help"]], &|_| {}),
        refused(&[&["max", "extra"]], &|it| it[0][1].bundle_key = Some("other".to_owned())),
        refused(&[&["max"], &["solo"]], &|it| {
            it.iter_mut().for_each(|it| it[0].bundle_key = Some("key".to_owned()));
        }),
    ];
    let bundle = all[1].rsplit(' ').nth(5).unwrap().to_owned();
    let all = all.map(|it| it.replace(&bundle, "B"));
    assert_eq!(
        all,
        [
            "entry 2 of bundle 2: the catalog has no plan gold",
            "entry 2 of bundle 1: the bundle B has a base product already",
            "entry 1 of bundle 1: there is no base product in the bundle",
            "entry 2 of bundle 1: the add-on Help is part of Pro already",
            "entry 2 of bundle 1: bundleExternalKey: should be that of the first entry of its bundle",
            "entry 1 of bundle 2: the bundle key key is in use",
        ]
    );
    let many = vec!["solo"; SUBSCRIBED_MAX + 1];
    let refused = world.subscribe_all(&[&many], |_| {}).unwrap_err();
    assert_eq!(refused, BillingRejection::TooManySubscriptions.into());
    assert!(world.active().is_empty());
    world.check(expect!["nothing is due"]);
}

#[test]
fn a_key_names_the_bundle_of_all_its_entries() {
    let mut world = World::new();
    let key = |it: &mut Vec<Vec<Subscribe>>| {
        it[0].iter_mut().for_each(|it| it.bundle_key = Some("key".to_owned()));
    };
    let bundles = world.subscribe_all(&[&["max", "extra"]], key).unwrap();
    let keys: Vec<_> = world
        .rows
        .state
        .billing
        .bundles
        .of(&(TENANT, world.account))
        .values()
        .map(|it| it.id)
        .collect();
    assert_eq!(keys, bundles);
    let refused = world.subscribe_all(&[&["max"]], key).unwrap_err();
    assert!(refused.is_personal(), "{refused}");
}
