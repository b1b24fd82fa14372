//! Combo payments.

use domain::Command;
use domain::command::PaymentCommand;
use domain::payment::TransactionType;
use domain::payment::combo::{ComboAccount, ComboMethod, ExistingAccount, InitiateCombo};
use expect_test::expect;

use crate::{check, id};

fn combo(account: ComboAccount, payment_method: Option<ComboMethod>) -> Command {
    PaymentCommand::InitiateCombo(Box::new(InitiateCombo {
        kind: TransactionType::Purchase,
        account,
        payment_method,
        payment: Some(id(3)),
        payment_key: Some("p".to_owned()),
        transaction_key: None,
        amount: Some("5.00".to_owned()),
        currency: None,
        properties: vec![("k".to_owned(), "v".to_owned())],
        control: vec![],
        approved: vec![],
        gateways: vec![],
    }))
    .into()
}

#[test]
fn combo_payments() {
    let existing = ExistingAccount {
        id: id(1),
        external_key: Some("a".to_owned()),
        currency: domain::Currency::parse("USD"),
    };
    check(
        &combo(ComboAccount::Existing(existing), None),
        expect![[
            r#"{"Payment":{"InitiateCombo":{"kind":"Purchase","account":{"Existing":{"id":"00000000-0000-0000-0000-000000000001","external_key":"a","currency":"USD"}},"payment_method":null,"payment":"00000000-0000-0000-0000-000000000003","payment_key":"p","transaction_key":null,"amount":"5.00","currency":null,"properties":[["k","v"]]}}}"#
        ]],
    );
    let new = ComboAccount::New(Box::default());
    let method = ComboMethod {
        id: Some(id(2)),
        external_key: Some("m".to_owned()),
        gateway: Some("stripe".to_owned()),
        external_payment_method_id: None,
        properties: vec![],
    };
    check(
        &combo(new, Some(method)),
        expect![[
            r#"{"Payment":{"InitiateCombo":{"kind":"Purchase","account":{"New":{"external_key":null,"person":{"name":null,"first_name_length":null,"email":null,"address1":null,"address2":null,"postal_code":null,"company":null,"city":null,"state":null,"country":null,"locale":null,"phone":null,"notes":null},"currency":null,"bill_cycle_day_local":0,"parent_account_id":null,"is_payment_delegated_to_parent":false,"reference_time":null,"time_zone":null,"is_migrated":null}},"payment_method":{"id":"00000000-0000-0000-0000-000000000002","external_key":"m","gateway":"stripe","external_payment_method_id":null,"properties":[]},"payment":"00000000-0000-0000-0000-000000000003","payment_key":"p","transaction_key":null,"amount":"5.00","currency":null,"properties":[["k","v"]]}}}"#
        ]],
    );
}
