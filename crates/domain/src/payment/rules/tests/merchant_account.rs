//! For whose account a gateway is called.

use super::*;
use crate::MerchantAccount;
use crate::command::TenantCommand;
use crate::tenant::payment_rules::RulesPart;
use crate::tenant::{PLUGIN_CONFIGURATION, SetTenantValue};

/// A world whose gateway `remote` is called for a tenant's account.
fn world() -> World {
    let mut world = World::new();
    world.rows.settings.gateways.get_mut("remote").unwrap().needs_merchant_account = true;
    world
}

/// Stores the configuration of `remote`, with an account or none.
fn configure(world: &mut World, account: Option<&str>) {
    let it = SetTenantValue {
        key: format!("{PLUGIN_CONFIGURATION}remote"),
        value: account.map(|_| "sealed".to_owned()),
        rules: account.map(|it| RulesPart::MerchantAccount(MerchantAccount(it.to_owned()))),
    };
    world.rows.run(Command::Tenant(TenantCommand::SetValue(it))).unwrap();
}

/// The account that the step's call is for.
fn called_for(world: &mut World, step: &str) -> Option<String> {
    let words: Vec<&str> = step.split(' ').collect();
    let executed = world.rows.run(world.command(words[0], words[1], &words[2..])).unwrap();
    let [Effect::CallGateway(call)] = &executed.done.effects[..] else { panic!("{executed:?}") };
    call.merchant_account.as_ref().map(|it| it.0.clone())
}

#[test]
fn without_a_configuration_no_payment_starts() {
    let mut world = world();
    let refused = world.rows.run(world.command("purchase", "p", &["10"]));
    let Err(Rejection::InvalidParameter { field, reason }) = refused else { panic!("{refused:?}") };
    assert_eq!(field, "pluginName");
    assert!(reason.starts_with("remote has no configuration"), "{reason}");
    configure(&mut world, Some("acct_1/test"));
    configure(&mut world, None);
    assert!(world.rows.run(world.command("purchase", "p", &["10"])).is_err(), "it was deleted");
}

#[test]
fn what_follows_is_called_for_the_account_of_its_attempt() {
    let mut world = world();
    configure(&mut world, Some("acct_1/test"));
    world.step("authorize p 10");
    world.step("approve p");
    configure(&mut world, Some("acct_2/test"));
    assert_eq!(called_for(&mut world, "capture p 4").as_deref(), Some("acct_1/test"));
    assert_eq!(called_for(&mut world, "purchase q 10").as_deref(), Some("acct_2/test"));
}

#[test]
fn other_gateways_are_called_for_nobodys_account() {
    let mut world = world();
    configure(&mut world, Some("acct_1/test"));
    assert_eq!(called_for(&mut world, "purchase p 10 other"), None);
}
