//! Keys of bundles, and tags and custom fields of what an account is billed by.

use expect_test::expect;
use uuid::Uuid;

use super::*;
use crate::account::custom_field::{AddCustomFields, NewCustomField};
use crate::account::tag::AddTags;
use crate::billing::bundle::RenameBundle;
use crate::change::{Change, ClaimChange};
use crate::object::Object;

impl World {
    fn rename(&mut self, bundle: BundleId, key: &str) -> Result<Vec<Change>, Rejection> {
        let it = RenameBundle { account: self.account, bundle, key: key.to_owned() };
        let executed = self.rows.run(BillingCommand::RenameBundle(it).into())?;
        Ok(executed.done.changes)
    }

    fn tag(&mut self, object: Object, tag: ControlTag) -> Result<(), Rejection> {
        let definitions = vec![tag.definition().id()];
        let it = AddTags { account: self.account, part: Some(object), definitions };
        self.rows.run(AccountCommand::AddTags(it).into()).map(|_| ())
    }

    fn add_field(&mut self, object: Object) -> Result<(), Rejection> {
        let fields = vec![NewCustomField { name: "a".to_owned(), value: "b".to_owned() }];
        let it = AddCustomFields { account: self.account, object, fields };
        self.rows.run(AccountCommand::AddCustomFields(it).into()).map(|_| ())
    }

    /// What the first subscription is billed by: itself, its bundle, its invoice and the item of that.
    fn billed(&self) -> [Object; 4] {
        let billing = &self.rows.state.billing;
        let subscription = self.active()[0];
        let invoice = billing.invoices.iter().next().unwrap();
        [
            Object::Bundle(subscription.bundle_id),
            Object::Subscription(subscription.id),
            Object::Invoice(invoice.id),
            Object::InvoiceItem(self.rows.items_of(invoice.id)[0].id),
        ]
    }
}

/// What became of keys, in short.
fn keys(changes: &[Change]) -> String {
    let shown = changes.iter().filter_map(|it| {
        let Change::Claim(it) = it else { return None };
        Some(match it {
            ClaimChange::Taken { key, .. } => format!("+{}", key.key),
            ClaimChange::Released { key } => format!("-{}", key.key),
        })
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_bundle_changes_its_key_and_frees_the_former_one() {
    let mut world = World::new();
    let key = |it: &mut Subscribe| it.bundle_key = Some("first".to_owned());
    let bundle = world.subscribe("max", key).unwrap();
    assert_eq!(keys(&world.rename(bundle, "second").unwrap()), "-first +second");
    assert!(world.rename(bundle, "second").unwrap().is_empty());
    // The key that was freed is another bundle's now.
    let other = world.subscribe("solo", key).unwrap();
    assert_ne!(other, bundle);
    let refused = |it: Result<Vec<Change>, Rejection>| it.unwrap_err().to_string();
    assert_eq!(refused(world.rename(bundle, "first")), "the bundle key first is in use");
    assert_eq!(keys(&world.rename(other, "third").unwrap()), "-first +third");
    assert_eq!(keys(&world.rename(bundle, "first").unwrap()), "-second +first");
}

#[test]
fn a_bundle_without_a_key_gets_one_and_another_account_has_no_such_bundle() {
    let mut world = World::new();
    let bundle = world.subscribe("max", |_| {}).unwrap();
    assert_eq!(keys(&world.rename(bundle, "first").unwrap()), "+first");
    let own = std::mem::replace(&mut world.account, AccountId::new(Uuid::nil()));
    let refused = world.rename(bundle, "second").unwrap_err();
    assert_eq!(refused.to_string(), format!("there is no bundle {bundle}"));
    world.account = own;
    // The key stays with the bundle after its subscriptions ended.
    world.cancel(Policy::Immediate).unwrap();
    let other = world.subscribe("solo", |_| {}).unwrap();
    let refused = world.rename(other, "first").unwrap_err();
    assert_eq!(refused.to_string(), "the bundle key first is in use");
}

#[test]
fn a_control_tag_of_accounts_is_refused_by_name() {
    let mut world = World::new();
    world.subscribe("max", |_| {}).unwrap();
    let mut shown = vec![];
    for object in world.billed() {
        for tag in [ControlTag::AutoInvoicingOff, ControlTag::WrittenOff] {
            shown.push(world.tag(object, tag).unwrap_err().to_string());
        }
    }
    expect![[r#"
        an object of the type BUNDLE cannot have the tag AUTO_INVOICING_OFF
        an object of the type BUNDLE cannot have the tag WRITTEN_OFF
        an object of the type SUBSCRIPTION cannot have the tag AUTO_INVOICING_OFF
        an object of the type SUBSCRIPTION cannot have the tag WRITTEN_OFF
        an object of the type INVOICE cannot have the tag AUTO_INVOICING_OFF
        an object of the type INVOICE cannot have the tag WRITTEN_OFF
        an object of the type INVOICE_ITEM cannot have the tag AUTO_INVOICING_OFF
        an object of the type INVOICE_ITEM cannot have the tag WRITTEN_OFF"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn a_field_is_added_to_what_the_account_has_and_to_nothing_else() {
    let mut world = World::new();
    world.subscribe("max", |_| {}).unwrap();
    world.billed().into_iter().for_each(|it| world.add_field(it).unwrap());
    // One that is over has fields too.
    let billed = world.billed();
    world.cancel(Policy::Immediate).unwrap();
    assert!(world.active().is_empty());
    world.add_field(billed[1]).unwrap();
    let nothing = Uuid::nil();
    let absent = [
        Object::Bundle(BundleId::new(nothing)),
        Object::Subscription(SubscriptionId::new(nothing)),
        Object::Invoice(crate::InvoiceId::new(nothing)),
        Object::InvoiceItem(crate::InvoiceItemId::new(nothing)),
    ];
    let refused = absent.map(|it| world.add_field(it).unwrap_err().to_string());
    expect![[r#"
        there is no bundle 00000000-0000-0000-0000-000000000000
        there is no subscription 00000000-0000-0000-0000-000000000000
        no invoice could be found for id 00000000-0000-0000-0000-000000000000
        no item could be found for id 00000000-0000-0000-0000-000000000000"#]]
    .assert_eq(&refused.join("\n"));
}
