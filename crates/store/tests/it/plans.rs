//! The planner uses the index that names the few rows wanted, however small the store is.

use store::{Options, Reader, database_path};

use crate::home::Home;
use crate::workload::World;

fn check(reader: &Reader, query: &str, expected: &[&str]) {
    assert_eq!(plan(reader, query), expected, "{query}");
}

fn plan(reader: &Reader, query: &str) -> Vec<String> {
    let plan = reader.query(&format!("EXPLAIN QUERY PLAN {query}"), &[], |cells| {
        cells.skip(3);
        Ok(cells.text()?.to_owned())
    });
    plan.unwrap()
}

#[test]
fn outcomes_due_are_ranges_of_their_index() {
    let world = World::at(Home::embedded(), 41);
    let path = database_path(world.home.path());
    let reader = Reader::open(&path, &Options::default()).unwrap();
    let check = |query: &str, expected: &[&str]| check(&reader, query, expected);
    check(
        "SELECT * FROM outstanding WHERE payment_id = ?2 AND tenant + 0 = ?1",
        &["SEARCH outstanding USING INDEX outstanding_by_payment (payment_id=?)"],
    );
    check(
        "SELECT * FROM outstanding \
         WHERE partition = ?1 AND gateway = ?2 AND ask_at_us IS NOT NULL AND ask_at_us <= ?3 \
         ORDER BY ask_at_us LIMIT ?4",
        &[
            "SEARCH outstanding USING INDEX outstanding_by_gateway (partition=? AND gateway=? AND ask_at_us>? AND ask_at_us<?)",
        ],
    );
    check(
        "SELECT * FROM outstanding WHERE partition = ?1 AND gateway = ?2 AND ask_at_us > ?3 \
         ORDER BY ask_at_us DESC LIMIT ?4",
        &[
            "SEARCH outstanding USING INDEX outstanding_by_gateway (partition=? AND gateway=? AND ask_at_us>?)",
        ],
    );
    check(
        "SELECT gateway FROM outstanding \
         WHERE partition = ?1 AND ask_at_us IS NOT NULL AND gateway > ?2 ORDER BY gateway LIMIT 1",
        &[
            "SEARCH outstanding USING COVERING INDEX outstanding_by_gateway (partition=? AND gateway>?)",
        ],
    );
}

#[test]
fn purchases_and_entitlements_are_found_by_their_indexes() {
    let world = World::at(Home::embedded(), 41);
    let reader = Reader::open(&database_path(world.home.path()), &Options::default()).unwrap();
    let check = |query: &str, expected: &str| check(&reader, query, &[expected]);
    check(
        "SELECT * FROM purchase WHERE tenant = ?1 AND id = ?2",
        "SEARCH purchase USING INDEX sqlite_autoindex_purchase_1 (tenant=? AND id=?)",
    );
    check(
        "SELECT * FROM purchase WHERE tenant = ?1 AND account_id = ?4 ORDER BY id LIMIT ?2 OFFSET ?3",
        "SEARCH purchase USING INDEX purchase_by_account (tenant=? AND account_id=?)",
    );
    check(
        "SELECT * FROM entitlements WHERE tenant = ?1 AND account_id = ?2",
        "SEARCH entitlements USING INDEX sqlite_autoindex_entitlements_1 (tenant=? AND account_id=?)",
    );
    check(
        "SELECT * FROM entitlements WHERE tenant = ?1 AND account_id > ?2 ORDER BY account_id LIMIT ?3",
        "SEARCH entitlements USING INDEX sqlite_autoindex_entitlements_1 (tenant=? AND account_id>?)",
    );
    check(
        "SELECT * FROM entitlements WHERE seq > ?1 AND seq < ?2 ORDER BY seq LIMIT ?3",
        "SEARCH entitlements USING INDEX entitlements_by_seq (seq>? AND seq<?)",
    );
}

#[test]
fn children_of_an_account_are_a_range_of_their_index() {
    let world = World::at(Home::embedded(), 41);
    let reader = Reader::open(&database_path(world.home.path()), &Options::default()).unwrap();
    check(
        &reader,
        "SELECT * FROM account WHERE tenant = ?1 AND parent_account_id = ?2 ORDER BY id LIMIT ?3",
        &["SEARCH account USING INDEX account_by_parent (tenant=? AND parent_account_id=?)"],
    );
}

#[test]
fn methods_of_one_id_at_a_gateway_are_a_range_of_their_index() {
    let world = World::at(Home::embedded(), 41);
    let reader = Reader::open(&database_path(world.home.path()), &Options::default()).unwrap();
    check(
        &reader,
        "SELECT 1 FROM payment_method WHERE tenant = ?1 AND external_payment_method_id = ?2 \
         AND external_payment_method_id IS NOT NULL AND active = 1 AND gateway = ?3 AND id <> ?4 LIMIT 1",
        &[
            "SEARCH payment_method USING COVERING INDEX payment_method_by_external_id (tenant=? AND external_payment_method_id=? AND gateway=?)",
        ],
    );
}

#[test]
fn attempts_are_ranges_of_their_indexes() {
    let world = World::at(Home::embedded(), 41);
    let reader = Reader::open(&database_path(world.home.path()), &Options::default()).unwrap();
    let by_payment = "SELECT * FROM payment_attempt WHERE payment_id = ?2 AND tenant + 0 = ?1";
    let of_index = "SEARCH payment_attempt USING INDEX payment_attempt_by_payment (payment_id=?)";
    check(&reader, &format!("{by_payment} AND transaction_id IS NOT NULL"), &[of_index]);
    check(
        &reader,
        "SELECT id FROM payment_attempt WHERE tenant = ?1 AND account_id = ?2 ORDER BY id LIMIT ?3",
        &[
            "SEARCH payment_attempt USING COVERING INDEX payment_attempt_by_account (tenant=? AND account_id=?)",
        ],
    );
}

#[test]
fn scheduled_retries_are_a_range_of_the_timers_key() {
    let world = World::at(Home::embedded(), 41);
    let reader = Reader::open(&database_path(world.home.path()), &Options::default()).unwrap();
    let scheduled = "SELECT t.object_id, a.payment_id, j.at_us FROM timer t \
         JOIN payment_attempt a ON a.tenant = t.tenant AND a.id = t.object_id \
         JOIN journal j ON j.seq = a.seq WHERE t.tenant = ?1 AND t.kind = ?2 AND t.object_id > ?3 \
         AND t.due_at_us >= ?4 AND t.due_at_us <= ?5";
    let attempt = "SEARCH a USING PRIMARY KEY (tenant=? AND id=?)";
    let row = "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)";
    check(
        &reader,
        &format!("{scheduled} ORDER BY t.object_id LIMIT ?6"),
        &["SEARCH t USING PRIMARY KEY (tenant=? AND kind=? AND object_id>?)", attempt, row],
    );
    check(
        &reader,
        &format!(
            "{scheduled} AND t.object_id IN (SELECT id FROM payment_attempt WHERE tenant = ?1 \
             AND account_id = ?7 AND due_at_us IS NOT NULL) ORDER BY t.object_id LIMIT ?6"
        ),
        &[
            "SEARCH t USING PRIMARY KEY (tenant=? AND kind=? AND object_id=?)",
            "LIST SUBQUERY 1",
            "SEARCH payment_attempt USING COVERING INDEX payment_attempt_scheduled (tenant=? AND account_id=? AND due_at_us>?)",
            attempt,
            row,
        ],
    );
}

/// The conditions of the queries for disputes, and the index that each is a range of.
const DISPUTES: [(&str, &str, &str); 8] = [
    ("tenant = ?1 AND id = ?2", "PRIMARY KEY", "(tenant=? AND id=?)"),
    (
        "tenant = ?1 AND gateway = ?2 AND case_id = ?3",
        "INDEX dispute_by_case",
        "(tenant=? AND gateway=? AND case_id=?)",
    ),
    ("tenant = ?1 ORDER BY id LIMIT ?2 OFFSET ?3", "PRIMARY KEY", "(tenant=?)"),
    (
        "payment_id = ?4 AND tenant + 0 = ?1 ORDER BY id LIMIT ?2 OFFSET ?3",
        "INDEX dispute_by_payment",
        "(payment_id=?)",
    ),
    (
        "payment_id = ?4 AND tenant + 0 = ?1 AND +dispute_status = ?5 ORDER BY id LIMIT ?2 OFFSET ?3",
        "INDEX dispute_by_payment",
        "(payment_id=?)",
    ),
    (
        "tenant = ?1 AND account_id = ?4 ORDER BY id LIMIT ?2 OFFSET ?3",
        "INDEX dispute_by_account",
        "(tenant=? AND account_id=?)",
    ),
    (
        "tenant = ?1 AND account_id = ?4 AND +dispute_status = ?5 ORDER BY id LIMIT ?2 OFFSET ?3",
        "INDEX dispute_by_account",
        "(tenant=? AND account_id=?)",
    ),
    (
        "tenant = ?1 AND dispute_status = ?4 ORDER BY id LIMIT ?2 OFFSET ?3",
        "INDEX dispute_by_status",
        "(tenant=? AND dispute_status=?)",
    ),
];

#[test]
fn disputes_are_ranges_of_their_indexes() {
    let world = World::at(Home::embedded(), 41);
    let reader = Reader::open(&database_path(world.home.path()), &Options::default()).unwrap();
    for (range, index, columns) in DISPUTES {
        let query = format!("SELECT * FROM dispute WHERE {range}");
        check(&reader, &query, &[&format!("SEARCH dispute USING {index} {columns}")]);
    }
    check(
        &reader,
        "SELECT count(*) FROM dispute WHERE payment_id = ?2 AND tenant + 0 = ?1",
        &["SEARCH dispute USING COVERING INDEX dispute_by_payment (payment_id=?)"],
    );
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn postgres_disputes_are_ranges_of_their_indexes() {
    let scratch = crate::postgres::Scratch::new();
    drop(scratch.open_with(&Options::default()));
    let reader = Reader::connect(&scratch.server()).unwrap();
    let rows = "INSERT INTO dispute (tenant, id, account_id, payment_id, transaction_id, gateway, case_id, \
                dispute_status, amount_minor, currency, withdrawn_minor, reinstated_minor, \
                charged_back_minor, reversed_minor, excess_minor, excess_returned_minor, asked_at_us, \
                created_at_us, updated_at_us, seq) \
                SELECT 1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'g', \
                n::text, 5, 1, 'USD', 0, 0, 0, 0, 0, 0, 1, 1, 1, n FROM generate_series(1, 5000) n";
    for sql in [rows, "ANALYZE dispute"] {
        reader.for_each(sql, &[], |_| Ok(())).unwrap();
    }
    let number = |sql: &str, n: usize, value: &str| sql.replace(&format!("?{n}"), value);
    let id = "'00000000-0000-0000-0000-000000000001'";
    for (range, index, _) in DISPUTES {
        let named = index.strip_prefix("INDEX ").unwrap_or("dispute_pkey");
        let text = range.contains("case_id");
        let is_status = range.contains("tenant = ?1 AND dispute_status");
        let second = if text {
            "'g'"
        } else if range.contains("id = ?2") {
            id
        } else {
            "1"
        };
        let mut sql = number(range, 1, "1");
        sql = number(&sql, 2, second);
        sql = number(&sql, 3, if text { "'c'" } else { "0" });
        sql = number(&sql, 4, if is_status { "1" } else { id });
        sql = number(&sql, 5, "1");
        let explain = format!("EXPLAIN (COSTS OFF) SELECT * FROM dispute WHERE {sql}");
        let plan = reader.query(&explain, &[], |cells| Ok(cells.text()?.to_owned())).unwrap();
        let scan = plan.iter().find(|line| line.contains("Scan")).unwrap();
        assert!(scan.contains(&format!("using {named} on")), "{sql}: {plan:?}");
        assert!(!plan.iter().any(|line| line.contains("Sort")), "{sql}: {plan:?}");
    }
}

#[test]
fn custom_fields_are_ranges_of_their_indexes() {
    let world = World::at(Home::embedded(), 41);
    let reader = Reader::open(&database_path(world.home.path()), &Options::default()).unwrap();
    let shown = "active = 1 AND value IS NOT NULL";
    let order = "ORDER BY created_at_us, ordinal, id";
    let check = |rest: &str, expected: &[&str]| {
        check(
            &reader,
            &format!("SELECT * FROM custom_field WHERE tenant = ?1 AND {rest}"),
            expected,
        );
    };
    check(
        &format!("object_type = ?2 AND object_id = ?3 AND {shown}"),
        &[
            "SEARCH custom_field USING INDEX custom_field_by_object (tenant=? AND object_type=? AND object_id=?)",
        ],
    );
    check(
        &format!("{shown} {order} LIMIT ?2 OFFSET ?3"),
        &["SEARCH custom_field USING INDEX custom_field_by_creation (tenant=?)"],
    );
    let of_value = format!("object_type = ?2 AND name = ?3 AND value = ?4 AND {shown}");
    check(
        &format!("{of_value} {order} LIMIT ?5 OFFSET ?6"),
        &[
            "SEARCH custom_field USING INDEX custom_field_by_name_in_order (tenant=? AND object_type=? AND name=? AND value=?)",
        ],
    );
    let counted = format!(
        "SELECT count(*) FROM (SELECT 1 FROM custom_field WHERE tenant = ?1 AND {of_value} LIMIT ?5) f"
    );
    let plan = plan(&reader, &counted);
    let covering = "SEARCH custom_field USING COVERING INDEX custom_field_by_name_in_order";
    assert!(plan.iter().any(|step| step.starts_with(covering)), "{plan:?}");
    check(
        &format!("value = ?2 AND {shown}"),
        &["SEARCH custom_field USING INDEX custom_field_by_value (tenant=? AND value=?)"],
    );
    check(
        "account_id = ?2",
        &["SEARCH custom_field USING INDEX custom_field_by_account (tenant=? AND account_id=?)"],
    );
}

#[test]
fn blocking_states_are_ranges_of_their_indexes() {
    let world = World::at(Home::embedded(), 41);
    let reader = Reader::open(&database_path(world.home.path()), &Options::default()).unwrap();
    let of_account = "SELECT * FROM blocking_state WHERE tenant = ?1 AND account_id = ?2";
    check(
        &reader,
        &format!("{of_account} AND active = 1 ORDER BY effective_at_us, ordinal"),
        &[
            "SEARCH blocking_state USING INDEX blocking_state_by_account (tenant=? AND account_id=?)",
            "USE TEMP B-TREE FOR ORDER BY",
        ],
    );
    check(
        &reader,
        &format!("{of_account} AND service = 'account-service' ORDER BY ordinal DESC LIMIT 1"),
        &["SEARCH blocking_state USING INDEX blocking_state_closing (tenant=? AND account_id=?)"],
    );
}

#[test]
fn insights_are_ranges_of_their_key_and_old_ones_of_an_index() {
    let world = World::at(Home::embedded(), 41);
    let path = database_path(world.home.path());
    let reader = Reader::open(&path, &Options::default()).unwrap();
    let check = |query: &str, expected: &[&str]| check(&reader, query, expected);
    check(
        "SELECT * FROM flag_insight WHERE tenant = ?1 AND environment_id = ?2 AND flag_key = ?3 \
         AND hour >= ?4 AND hour < ?5 ORDER BY hour, variation_id LIMIT ?6 OFFSET ?7",
        &[
            "SEARCH flag_insight USING PRIMARY KEY (tenant=? AND environment_id=? AND flag_key=? AND hour>? AND hour<?)",
        ],
    );
    check(
        "DELETE FROM metric_insight WHERE (tenant, environment_id, event, hour, kind) IN \
         (SELECT tenant, environment_id, event, hour, kind FROM metric_insight WHERE hour < ?1 \
         ORDER BY hour LIMIT ?2)",
        &[
            "SEARCH metric_insight USING PRIMARY KEY (tenant=? AND environment_id=? AND event=? AND hour=? AND kind=?)",
            "LIST SUBQUERY 2",
            "SEARCH metric_insight USING COVERING INDEX metric_insight_by_hour (hour<?)",
        ],
    );
}

#[test]
fn lists_of_an_account_and_of_a_gateway_are_ranges_of_their_index() {
    let world = World::at(Home::embedded(), 41);
    let path = database_path(world.home.path());
    let reader = Reader::open(&path, &Options::default()).unwrap();
    let check = |query: &str, expected: &[&str]| check(&reader, query, expected);
    check(
        "SELECT * FROM payment WHERE tenant = ?1 AND account_id = ?2 ORDER BY id LIMIT ?3",
        &["SEARCH payment USING INDEX payment_by_account (tenant=? AND account_id=?)"],
    );
    check(
        "SELECT tenant, id FROM payment WHERE tenant = ?1 AND gateway = ?2 ORDER BY id LIMIT ?3",
        &["SEARCH payment USING COVERING INDEX payment_by_gateway (tenant=? AND gateway=?)"],
    );
    check(
        "SELECT * FROM payment WHERE tenant = ?1 ORDER BY id LIMIT ?2 OFFSET ?3",
        &["SEARCH payment USING PRIMARY KEY (tenant=?)"],
    );
    for methods in ["ORDER BY id", "AND active = 1 ORDER BY id DESC LIMIT ?3"] {
        let sql = "SELECT * FROM payment_method WHERE tenant = ?1 AND account_id = ?2";
        let index = "SEARCH payment_method USING INDEX payment_method_by_account (tenant=? AND account_id=?)";
        check(&format!("{sql} {methods}"), &[index]);
    }
    check(
        "SELECT tenant, payment_id, id FROM payment_transaction \
         WHERE tenant = ?1 AND status IN (3, 6) ORDER BY effective_at_us, id LIMIT ?2",
        &[
            "SEARCH payment_transaction USING COVERING INDEX payment_transaction_unresolved (tenant=?)",
        ],
    );
    check(
        "SELECT id FROM payment WHERE tenant = ?1 \
         AND (status NOT IN (1, 2) OR operation NOT IN (1, 2, 3)) \
         AND operation = ?2 AND status = ?3 ORDER BY id LIMIT ?4",
        &[
            "SEARCH payment USING COVERING INDEX payment_by_rare_state (tenant=? AND operation=? AND status=?)",
        ],
    );
    check(
        "SELECT count(CASE WHEN status = ?1 THEN 1 END), min(effective_at_us) \
         FROM payment_transaction WHERE status IN (3, 6)",
        &["SCAN payment_transaction USING COVERING INDEX payment_transaction_unresolved"],
    );
    check(
        "SELECT * FROM posting WHERE tenant = ?1 AND account_id = ?2",
        &["SEARCH posting USING INDEX posting_by_source (tenant=? AND account_id=?)"],
    );
    check(
        "SELECT * FROM account_person WHERE tenant = ?1 AND account_id = ?2 \
         ORDER BY seq DESC LIMIT 1",
        &["SEARCH account_person USING PRIMARY KEY (tenant=? AND account_id=?)"],
    );
    check(
        "SELECT p.account_id AS id FROM account_person p \
         WHERE p.tenant = ?1 AND coalesce(p.email_folded, lower(p.email)) = ?2 AND p.email IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM account_person n \
         WHERE n.tenant = p.tenant AND n.account_id = p.account_id AND n.seq > p.seq)",
        &[
            "SEARCH p USING INDEX account_person_by_folded_email (tenant=? AND <expr>=?)",
            "CORRELATED SCALAR SUBQUERY 1",
            "SEARCH n USING PRIMARY KEY (tenant=? AND account_id=? AND seq>?)",
        ],
    );
    check(
        "SELECT seq, events FROM journal WHERE seq > ?1 AND seq < ?2 ORDER BY seq LIMIT ?3",
        &["SEARCH journal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    );
}

#[test]
fn changes_due_and_of_an_environment_are_ranges_of_their_index() {
    let world = World::at(Home::embedded(), 41);
    let path = database_path(world.home.path());
    let reader = Reader::open(&path, &Options::default()).unwrap();
    let check = |query: &str, expected: &[&str]| check(&reader, query, expected);
    check(
        "SELECT * FROM change_request \
         WHERE status = 2 AND due_at_us <= ?1 AND (due_at_us, id) > (?2, ?3) \
         ORDER BY due_at_us, id LIMIT ?4",
        &[
            "SEARCH change_request USING INDEX change_request_due ((due_at_us,id)>(?,?) AND due_at_us<?)",
        ],
    );
    check(
        "SELECT * FROM change_request WHERE tenant = ?1 AND environment_id = ?2 \
         AND status BETWEEN ?3 AND ?4 ORDER BY id DESC LIMIT ?5 OFFSET ?6",
        &[
            "SEARCH change_request USING INDEX change_request_by_environment (tenant=? AND environment_id=?)",
        ],
    );
}

#[test]
fn due_customer_work_is_a_range_of_its_index() {
    let world = World::at(Home::embedded(), 41);
    let path = database_path(world.home.path());
    let reader = Reader::open(&path, &Options::default()).unwrap();
    let check = |query: &str, expected: &[&str]| check(&reader, query, expected);
    check(
        "SELECT * FROM customer WHERE expires_at_us IS NOT NULL AND expires_at_us <= ?1 \
         AND (expires_at_us, id) > (?2, ?3) ORDER BY expires_at_us, id LIMIT ?4",
        &[
            "SEARCH customer USING INDEX customer_expiring ((expires_at_us,id)>(?,?) AND expires_at_us<?)",
        ],
    );
    check(
        "SELECT * FROM customer_session WHERE customer_id = ?2 AND tenant = ?1 ORDER BY id",
        &[
            "SEARCH customer_session USING INDEX customer_session_by_customer (customer_id=? AND tenant=?)",
        ],
    );
    check(
        "SELECT * FROM mail WHERE due_at_us IS NOT NULL AND due_at_us <= ?1 \
         ORDER BY due_at_us, id LIMIT ?2",
        &["SEARCH mail USING INDEX mail_due (due_at_us>? AND due_at_us<?)"],
    );
    check(
        "DELETE FROM mail WHERE tenant = ?1 AND customer_id = ?2",
        &["SEARCH mail USING INDEX mail_by_customer (customer_id=? AND tenant=?)"],
    );
    check(
        "SELECT * FROM operation WHERE status = 1 AND id > ?1 ORDER BY id LIMIT ?2",
        &["SEARCH operation USING INDEX operation_waiting (id>?)"],
    );
    check(
        "SELECT * FROM operation WHERE notify_at_us IS NOT NULL AND notify_at_us <= ?1 \
         AND (notify_at_us, id) > (?2, ?3) ORDER BY notify_at_us, id LIMIT ?4",
        &[
            "SEARCH operation USING INDEX operation_to_notify ((notify_at_us,id)>(?,?) AND notify_at_us<?)",
        ],
    );
}

#[test]
fn waiting_operations_are_counted_and_expired_found_by_an_index() {
    let world = World::at(Home::embedded(), 41);
    let path = database_path(world.home.path());
    let reader = Reader::open(&path, &Options::default()).unwrap();
    let check = |query: &str, expected: &[&str]| check(&reader, query, expected);
    check(
        "SELECT count(*) FROM (SELECT 1 FROM mail WHERE due_at_us IS NOT NULL LIMIT ?1) AS counted",
        &[
            "CO-ROUTINE counted",
            "SEARCH mail USING COVERING INDEX mail_due (due_at_us>?)",
            "SCAN counted",
        ],
    );
    check(
        "SELECT min(due_at_us) FROM mail WHERE due_at_us IS NOT NULL",
        &["SEARCH mail USING COVERING INDEX mail_due (due_at_us>?)"],
    );
    check(
        "SELECT created_at_us FROM operation WHERE status = 1 ORDER BY id LIMIT 1",
        &["SCAN operation USING INDEX operation_waiting"],
    );
    for (table, until, index) in [
        (
            "operation",
            "settled_at_us IS NOT NULL AND settled_at_us",
            "COVERING INDEX operation_settled (settled_at_us>? AND settled_at_us<?)",
        ),
        ("mail", "due_at_us IS NULL AND created_at_us", "INDEX mail_given_up (created_at_us<?)"),
        (
            "customer_session",
            "refresh_until_us",
            "COVERING INDEX customer_session_ending (refresh_until_us<?)",
        ),
    ] {
        let query = format!(
            "DELETE FROM {table} WHERE (tenant, id) IN (SELECT tenant, id FROM {table} \
             WHERE {until} < ?1 LIMIT ?2)"
        );
        let key = format!("SEARCH {table} USING PRIMARY KEY (tenant=? AND id=?)");
        let range = format!("SEARCH {table} USING {index}");
        check(&query, &[&key, "LIST SUBQUERY 2", &range]);
    }
}
