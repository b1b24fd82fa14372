//! The statements that tables are written with.

use expect_test::expect;

use super::*;

#[test]
fn names_are_unique_and_keys_are_whole() {
    let mut names = std::collections::BTreeSet::new();
    for table in TABLES {
        assert!(names.insert(table.name), "{} is there twice", table.name);
        let (key, rest) = table.columns.split_at(table.key_columns);
        assert!(!key.is_empty() && !rest.is_empty(), "{}", table.name);
        assert!(key.iter().all(|column| !column.nullable && !column.fixed), "{}", table.name);
        for index in table.indexes {
            assert!(names.insert(index.name), "{} is there twice", index.name);
            for column in index.columns.split(", ") {
                let of = ["coalesce(", "lower("].into_iter();
                let of = of.fold(column, |it, function| it.strip_prefix(function).unwrap_or(it));
                let of = of.trim_end_matches(')');
                let known = table.columns.iter().any(|it| it.name == of);
                assert!(known, "{} names {column}", index.name);
            }
        }
    }
}

#[test]
fn tables_that_are_named_exist() {
    for name in OF_KEYS {
        assert!(TABLES.iter().any(|table| table.name == name), "{name} is no table");
    }
}

/// The tables with rows of accounts.
fn of_accounts() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().copied().filter(|it| it.columns.iter().any(|column| column.name == "account_id"))
}

fn entities_of_accounts() -> impl Iterator<Item = &'static Table> {
    let of_entities: Vec<&str> = of_entities().map(|it| it.table().name).collect();
    of_accounts().filter(move |it| of_entities.contains(&it.name))
}

#[test]
fn rows_of_accounts_are_exported_or_named_here() {
    let others = of_accounts().filter(|it| it.exported.is_empty()).map(|it| it.name);
    let others: Vec<&str> = others.collect();
    expect!["journal claim claim_recent outstanding timer quarantine customer webhook_replay"]
        .assert_eq(&others.join(" "));
}

#[test]
fn entities_of_accounts_are_in_their_histories_or_named_here() {
    let others = entities_of_accounts().filter(|it| it.history.is_none());
    let others: Vec<&str> = others.map(|it| it.name).collect();
    expect!["payment_transaction customer dispute purchase entitlements account_billing invoice invoice_item"]
        .assert_eq(&others.join(" "));
}

/// A text that a person may be known by is erased. Those here are names of things, and a customer's, who is erased as a
/// whole.
#[test]
fn texts_of_accounts_entities_are_erased_or_named_here() {
    let mut kept = vec![];
    for table in entities_of_accounts() {
        let texts = table.columns.iter().filter(|it| it.kind == Kind::Text && !it.erased);
        let names: Vec<&str> = texts.map(|it| it.name).collect();
        kept.extend((!names.is_empty()).then(|| format!("{}: {}", table.name, names.join(" "))));
    }
    expect![[r#"
        payment_method: external_key gateway merchant_account external_key_folded
        payment: external_key currency gateway
        payment_transaction: external_key gateway currency processed_currency gateway_error_code gateway_error_message first_reference second_reference merchant_account routed
        customer: email email_key first_name last_name preferences password_hash second_factor
        blocking_state: service name
        payment_attempt: payment_key transaction_key currency plugins
        dispute: gateway case_id reason currency
        purchase: offer terms
        entitlements: grants bought
        account_billing: invoiced_until parked
        subscription: transitions charged_through settled next_due given
        invoice: currency invoice_date target_date payments
        invoice_item: currency start_date end_date last_day manual product plan phase rate"#]]
    .assert_eq(&kept.join("\n"));
}

#[test]
fn waiting_are_the_operations_that_are_to_be_made() {
    assert_eq!(WAITING, format!("status = {}", crate::codes::OPERATION_WAITING));
}

#[test]
fn due_are_the_scheduled_changes() {
    use domain::flag::change_request::ChangeStatus::Scheduled;
    assert_eq!(DUE, format!("status = {}", crate::codes::code(Scheduled)));
}

#[test]
fn unresolved_are_the_open_statuses_of_calls_that_ended() {
    use crate::codes::code;
    use domain::payment::TransactionStatus::{Pending, Unknown};
    let codes = [code(Pending), code(Unknown)];
    assert_eq!(UNRESOLVED, format!("status IN ({}, {})", codes[0], codes[1]));
}

#[test]
fn rare_are_all_states_but_those_of_the_usual_way() {
    use crate::codes::code;
    use domain::payment::TransactionStatus::{InFlight, Success};
    use domain::payment::TransactionType::{Authorize, Capture, Purchase};
    let [a, b] = [InFlight, Success].map(code);
    let [c, d, e] = [Authorize, Capture, Purchase].map(code);
    let expected = format!("(status NOT IN ({a}, {b}) OR operation NOT IN ({c}, {d}, {e}))");
    assert_eq!(IN_RARE_STATE, expected);
}

#[test]
fn an_upsert_changes_what_is_not_of_the_key() {
    assert_eq!(
        FOLLOWER.upsert(&crate::postgres::DIALECT),
        "INSERT INTO follower (name, partition, upto, check_made, check_now) \
         VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (name, partition) DO UPDATE SET upto = excluded.upto, check_now = excluded.check_now"
    );
}

#[test]
fn an_update_leaves_out_what_is_fixed() {
    assert_eq!(
        DELIVERY.update(&crate::postgres::DIALECT),
        "UPDATE webhook_delivery SET attempts = $4, due_at_us = $5, error = $6, check_now = $7 \
         WHERE seq = $1 AND ordinal = $2 AND endpoint_id = $3"
    );
}
