//! A check that cannot fail is none: every kind of damage is planted once and found.

use domain::account::payment_method::{CreatePaymentMethod, SetDefaultPaymentMethod};
use domain::command::{AccountCommand, PaymentCommand};
use domain::payment::{FollowUp, Initiate};
use domain::reply::AccountReply;
use domain::{AccountId, Command, EXTERNAL_PAYMENT, Reply, TenantNo};
use engine::partition::Verdict;
use expect_test::{Expect, expect};
use store::verify::{Report, verify};
use store::{Options, SqlStore};

use crate::commits::two_tenants;
use crate::home::Home;
use crate::sqlite::OPTIONS;
use crate::workload::{Workload, create_account, person};

/// Runs a history, does the damage, and compares what is said about it, without ids.
fn check(damage: &[&str], expected: Expect) {
    check_with(Options::DEFAULT.claims_held, damage, expected);
}

fn check_with(claims_held: usize, damage: &[&str], expected: Expect) {
    let home = Home::new();
    let options = Options { claims_held, ..Options::DEFAULT };
    let mut workload = history(home.open(&options));
    // Those that wait to be merged elsewhere are in their table at once on a server.
    let merged = !home.merges_claims() && claims_held == Options::DEFAULT.claims_held;
    let store = workload.partition.store();
    let sound = verify(store.database().reader()).unwrap();
    assert!(sound.is_sound(), "{:?}", sound.problems);
    for sql in damage {
        let sql = &if merged { sql.replace("claim_recent", "claim") } else { (*sql).to_owned() };
        let rows = store.database().exec(sql, &[]).unwrap();
        assert!(rows > 0, "{sql} damages nothing");
    }
    let report = verify(store.database().reader()).unwrap();
    let said = said(&report);
    expected.assert_eq(&if merged { said.replace("claim: ", "claim_recent: ") } else { said });
}

/// Two accounts, each with a method that is settled at once and one that is not, which becomes the
/// default; a purchase with a refund, and an authorization in flight.
pub fn history(store: SqlStore) -> Workload<SqlStore> {
    let mut workload = two_tenants(store, 1);
    let tenant = TenantNo(1);
    for n in 1..=2 {
        let create = create_account(Some(format!("account-{n}")), person("Ada"));
        let Reply::Account(AccountReply::Created(account)) = workload.accepted(tenant, create)
        else {
            panic!()
        };
        let external = create_method(account, EXTERNAL_PAYMENT, Some(format!("cash-{n}")));
        workload.accepted(tenant, external);
        let purchase = Command::Payment(PaymentCommand::Purchase(initiate(account, n)));
        let Reply::Payment(paid) = workload.accepted(tenant, purchase) else { panic!() };
        let refund = FollowUp {
            transaction_key: Some(format!("refund-{n}")),
            amount: Some("4.00".to_owned()),
            ..FollowUp::of(paid.payment)
        };
        workload.accepted(tenant, Command::Payment(PaymentCommand::Refund(refund)));
        let create = create_method(account, "alpha", None);
        let created = workload.accepted(tenant, create);
        let Reply::Account(AccountReply::PaymentMethodCreated(payment_method)) = created else {
            panic!()
        };
        let change = SetDefaultPaymentMethod { account, payment_method };
        workload
            .accepted(tenant, Command::Account(AccountCommand::SetDefaultPaymentMethod(change)));
        let authorize = Command::Payment(PaymentCommand::Authorize(initiate(account, n + 10)));
        assert!(matches!(workload.one(tenant, authorize), Verdict::Waits(_)));
    }
    workload
}

fn create_method(account: AccountId, gateway: &str, external_key: Option<String>) -> Command {
    Command::Account(AccountCommand::CreatePaymentMethod(CreatePaymentMethod {
        // Only what is settled at once is the default from the beginning.
        is_default: external_key.is_some(),
        external_key,
        ..CreatePaymentMethod::default_of(account, gateway.to_owned())
    }))
}

fn initiate(account: AccountId, n: i32) -> Initiate {
    Initiate {
        payment_key: Some(format!("order-{n}")),
        transaction_key: Some(format!("try-{n}")),
        amount: Some("10.00".to_owned()),
        ..Initiate::of(account)
    }
}

fn said(report: &Report) -> String {
    let mut lines: Vec<String> = report
        .problems
        .iter()
        .map(|it| format!("{}: {}", it.table, without_ids(&it.what)))
        .collect();
    lines.sort();
    lines.dedup();
    lines.join("\n")
}

/// Numbers and ids depend on the history: one letter stands for each.
fn without_ids(text: &str) -> String {
    let short = |word: &str| {
        if word.len() >= 36 || word.parse::<i64>().is_ok() {
            "N".to_owned()
        } else {
            word.to_owned()
        }
    };
    let words: Vec<String> = text
        .split(' ')
        .map(|word| match word.strip_suffix(',') {
            Some(word) => short(word) + ",",
            None => short(word),
        })
        .collect();
    words.join(" ")
}

#[test]
fn a_sound_history_is_looked_at_whole() {
    let home = Home::new();
    let mut workload = two_tenants(home.open(&OPTIONS), 77);
    workload.run(1_500);
    let head = workload.head();
    let report = verify(workload.partition.store().database().reader()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(report.journal_rows, u64::try_from(head.0).unwrap());
    assert_eq!(report.accounts, u64::try_from(workload.accounts.len()).unwrap());
    assert!(report.transactions >= u64::try_from(workload.transactions.len()).unwrap());
    assert!(report.postings > 20 && report.claims > 20, "{report:?}");
    assert!(report.images > report.transactions + report.payments + report.accounts);
    assert_eq!(report.images, report.images_written);
}

#[test]
fn damage_to_payments_is_found() {
    check(
        &[
            "UPDATE payment SET refunded_minor = refunded_minor + 1 WHERE id = (SELECT id FROM payment ORDER BY id LIMIT 1)",
        ],
        expect![[r#"
            payment: it is not what journal row N says
            payment: its amounts are not those of its transactions"#]],
    );
    check(
        &[
            "DELETE FROM payment_transaction WHERE id = (SELECT id FROM payment_transaction WHERE status = 2 AND kind = 3 ORDER BY id LIMIT 1)",
        ],
        expect![[r#"
            claim_recent: Transaction N does not have this key
            journal: transaction N is on no chain
            payment: its amounts are not those of its transactions
            payment: its image in journal row N adds up to something else
            posting: is of journal row N, which did not change its transaction
            posting: is of transaction N, which is not there"#]],
    );
    check(
        &[
            "DELETE FROM outstanding WHERE transaction_id IN (SELECT id FROM payment_transaction WHERE status = 1)",
        ],
        expect!["payment_transaction: is open, and nobody waits for its outcome"],
    );
    check(
        &["UPDATE payment_transaction SET status = 6 WHERE status = 1", "DELETE FROM outstanding"],
        expect![[r#"
            payment: is in a state that no transaction has
            payment_transaction: is open, and nobody waits for its outcome
            payment_transaction: it is not what journal row N says"#]],
    );
    check(
        &[
            "UPDATE outstanding SET asked = 1, ask_at_us = NULL",
            "UPDATE payment_transaction SET status = 2, processed_amount_minor = amount_minor WHERE id = (SELECT transaction_id FROM outstanding ORDER BY transaction_id LIMIT 1)",
        ],
        expect![[r#"
            outstanding: is not what was written
            outstanding: is of a transaction that is not there, or has ended and is not asked about
            payment: is in a state that no transaction has
            payment: its amounts are not those of its transactions
            payment_transaction: it is not what journal row N says"#]],
    );
    check(
        &["DELETE FROM payment WHERE id = (SELECT id FROM payment ORDER BY id LIMIT 1)"],
        expect![[r#"
            claim_recent: Payment N does not have this key
            counter: is N, not N
            journal: payment N is on no chain
            payment_transaction: is of a payment that is not there
            posting: is of a payment that is not there"#]],
    );
    check(
        &[
            "DELETE FROM account WHERE id = (SELECT account_id FROM payment ORDER BY account_id LIMIT 1)",
        ],
        expect![[r#"
            account_person: is of an account that is not there
            claim_recent: Account N does not have this key
            counter: is N, not N
            journal: account N is on no chain
            journal: names an actor that is not there
            payment: is of an account or a payment method that is not there
            payment_method: is of an account that is not there"#]],
    );
}

#[test]
fn damage_to_the_ledger_is_found() {
    for damage in [
        "UPDATE posting SET amount_minor = amount_minor + 1 WHERE seq = (SELECT min(seq) FROM posting)",
        "UPDATE posting SET debit = credit, credit = debit WHERE seq = (SELECT min(seq) FROM posting)",
        "DELETE FROM posting WHERE seq = (SELECT max(seq) FROM posting)",
    ] {
        check(
            &[damage],
            expect![[r#"
                ledger_total: is not what its postings add up to
                payment_transaction: its postings do not add up to what it moved"#]],
        );
    }
    check(
        &["UPDATE posting SET source_id = account_id WHERE seq = (SELECT max(seq) FROM posting)"],
        expect![[r#"
            payment_transaction: its postings do not add up to what it moved
            posting: is of a payment that is not there"#]],
    );
    check(
        &[
            "UPDATE ledger_total SET debit_minor = debit_minor || '0' WHERE account = 1 AND debit_minor <> '0'",
        ],
        expect![[r#"
            ledger_total: debits exceed credits by N
            ledger_total: is not what its postings add up to
            ledger_total: is not what was written"#]],
    );
    check(
        &["UPDATE counter SET value = value - 1 WHERE name = 'payments' AND gateway = ''"],
        expect![[r#"
            counter: is N, not N
            counter: is not what was written"#]],
    );
}

#[test]
fn damage_to_the_texts_of_actors_is_found() {
    for column in ["user_name", "created_by", "reason", "comments"] {
        check(
            &[&format!("UPDATE actor SET {column} = 'eve'")],
            expect!["actor: is not what was written"],
        );
    }
    for column in ["actor_user", "actor_created_by", "actor_reason", "actor_comments"] {
        check(
            &[&format!("UPDATE account SET {column} = 'eve'")],
            expect![[r#"
                account: is not what was written
                actor: is not what was written"#]],
        );
    }
    check(
        &["UPDATE account SET actor = NULL"],
        expect![[r#"
            account: is not what was written
            journal: names an actor that is not there"#]],
    );
    check(
        &["UPDATE account SET actor_salt = NULL"],
        expect![[r#"
            account: is not what was written
            actor: is erased, and its account is not"#]],
    );
    check(&["DELETE FROM actor"], expect!["journal: names an actor that is not there"]);
    check(
        &["UPDATE actor SET salt = NULL"],
        expect![[r#"
        actor: is erased, and its account is not
        actor: is not what was written"#]],
    );
}

#[test]
fn damage_to_the_journal_is_found() {
    check(
        &["DELETE FROM journal WHERE command = 'CreatePaymentMethod'"],
        expect![[r#"
        account: journal row N has no image of it
        journal: account N is on no chain
        journal: follows on N
        payment_method: journal row N has no image of it"#]],
    );
    check(
        &[
            "UPDATE journal SET changes = replace(changes, 'USD', 'EUR') WHERE command = 'SetDefaultPaymentMethod'",
        ],
        expect![[r#"
            account: it is not what journal row N says
            journal: is not what was written: its link differs"#]],
    );
    check(
        &[
            "UPDATE journal SET changes = replace(changes, 'previous\":', 'previous\":1') WHERE command = 'SetDefaultPaymentMethod'",
        ],
        expect![[r#"
            account: its image in journal row N follows on a later one
            journal: account N is on no chain
            journal: is not what was written: its link differs"#]],
    );
    // States that were followed by others, which no table's row holds any more.
    check(
        &[
            "UPDATE journal SET changes = replace(changes, '\"purchased\":1000', '\"purchased\":900') WHERE command = 'Purchase'",
        ],
        expect![[r#"
            journal: is not what was written: its link differs
            payment: its image in journal row N adds up to something else"#]],
    );
    check(
        &[
            "UPDATE journal SET events = replace(events, '\"amount\":1000', '\"amount\":900') WHERE command = 'Purchase'",
        ],
        expect![[r#"
            journal: is not what was written: its link differs
            payment_transaction: its image in journal row N is not what its event says"#]],
    );
    // A row rolled back to an older image: the newer one is on no chain any more.
    check(
        &[
            "UPDATE account SET payment_method_id = NULL, updated_at_us = created_at_us, seq = (SELECT min(j.seq) FROM journal j WHERE j.account_id = account.id) WHERE payment_method_id IS NOT NULL AND bill_cycle_day_local = 0",
        ],
        expect![[r#"
            account: is not what was written
            journal: account N is on no chain"#]],
    );
    check(
        &["UPDATE partition SET next_seq = next_seq + 1, payment_number = 1"],
        expect![[r#"
            partition: hands out a payment number again
            partition: is not what was written
            partition: next_seq is N, not N"#]],
    );
}

#[test]
fn damage_to_claims_is_found() {
    let at_once = 1;
    check_with(
        at_once,
        &["DELETE FROM claim WHERE kind = 3"],
        expect!["account: its key is not claimed for it"],
    );
    check(
        &["DELETE FROM claim_recent WHERE kind = 3"],
        expect!["account: its key is not claimed for it"],
    );
    check(
        &["UPDATE claim_recent SET owner = account_id WHERE kind = 4"],
        expect![[r#"
        claim_recent: PaymentMethod N does not have this key
        payment_method: its key is not claimed for it"#]],
    );
    check_with(
        at_once,
        &["UPDATE claim SET owner = account_id WHERE kind IN (4, 5, 6)"],
        expect![[r#"
        claim: Payment N does not have this key
        claim: PaymentMethod N does not have this key
        claim: Transaction N does not have this key
        payment: its key is not claimed for it
        payment_method: its key is not claimed for it"#]],
    );
    check(
        &["UPDATE tenant SET api_key = api_key || 'x'"],
        expect![[r#"
            claim_recent: TenantApiKey N does not have this key
            tenant: is not what was written
            tenant: it is not what journal row N says
            tenant: its key is not claimed for it"#]],
    );
}
