//! No query answers with more rows than its bound, however many are asked for.

use domain::payment::PaymentState;
use domain::{AccountId, Seq, TenantNo, Timestamp};
use engine::ports::{FollowerQueries as _, LedgerFilter, Page, ROWS_MAX};
use store::driver::Database;
use store::tables::{self, TABLES, Table};
use store::{Options, SqlQueries, database_path};

use crate::home::Home;
use crate::workload::World;

const ALL: Page = Page { offset: 0, limit: u64::MAX };

/// Adds rows to a table, more than the bound: one of `rows` with `changed` columns, each another
/// value in each row. `n` counts them.
pub(crate) fn multiply(db: &Database, table: &Table, rows: &str, changed: &[(&str, &str)]) {
    let value = |name: &'static str| {
        let found = changed.iter().find(|(of, _)| *of == name);
        found.map_or_else(|| name.to_owned(), |(_, value)| format!("{value} AS {name}"))
    };
    let values: Vec<String> = table.columns.iter().map(|column| value(column.name)).collect();
    let sql = format!(
        "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n <= {ROWS_MAX}) \
         INSERT INTO {name} ({columns}) SELECT {values} \
         FROM c, (SELECT * FROM {name} WHERE {rows} LIMIT 1) AS r",
        name = table.name,
        columns = table.select_list(""),
        values = values.join(", "),
    );
    let added = db.exec(&sql, &[]).unwrap();
    assert!(added as u64 > ROWS_MAX, "{}: {added}", table.name);
}

/// A delivery of each journal row.
const DELIVERIES: &str = "INSERT INTO webhook_delivery \
     SELECT seq, 0, x'00000000000000000000000000000000', 1, 1, 0, '', 0, 0 FROM journal";

#[test]
fn no_answer_has_more_rows_than_its_bound() {
    const ID: &str = "randomblob(16)";
    let world = World::at(Home::embedded(), 51).run(600);
    let path = database_path(world.home.path());
    let db = Database::open(&path, &Options::default(), TABLES).unwrap();
    let tenant = "tenant = 1";
    multiply(&db, &tables::ACCOUNT, tenant, &[("id", ID), ("external_key", "'many ' || n")]);
    multiply(&db, &tables::PAYMENT_METHOD, "tenant = 1 AND active = 1", &[("id", ID)]);
    multiply(&db, &tables::PAYMENT, tenant, &[("id", ID)]);
    multiply(&db, &tables::PAYMENT_TRANSACTION, "tenant = 1 AND status = 6", &[("id", ID)]);
    multiply(&db, &tables::POSTING, tenant, &[("ordinal", "n + 1000")]);
    let due = [("transaction_id", ID), ("ask_at_us", "1")];
    multiply(&db, &tables::OUTSTANDING, tenant, &due);
    let head = world.workload.head().0;
    let rows = [("seq", &*format!("{head} + n"))];
    multiply(&db, &tables::JOURNAL, "events IS NOT NULL", &rows);
    assert!(db.exec(DELIVERIES, &[]).unwrap() as u64 > ROWS_MAX);

    let most = |table: &str, columns: &str| {
        let sql = format!(
            "SELECT {columns} FROM {table} WHERE tenant = 1 \
             GROUP BY {columns} ORDER BY count(*) DESC LIMIT 1"
        );
        (db.reader(), sql)
    };
    let account = |table: &str| -> AccountId {
        let (reader, sql) = most(table, "account_id");
        reader.query_one(&sql, &[], |cells| cells.entity()).unwrap().unwrap()
    };
    let gateway = |table: &str| {
        let (reader, sql) = most(table, "gateway");
        reader.query_one(&sql, &[], |cells| cells.string()).unwrap().unwrap()
    };
    let (reader, sql) = most("payment", "operation, status");
    let state = reader.query_one(&sql, &[], |cells| {
        Ok(PaymentState { operation: cells.code()?, status: cells.code()? })
    });
    let state = state.unwrap().unwrap();

    let (queries, no) = (&*world.queries, TenantNo(1));
    let check = |what: &str, rows: usize| assert_eq!(rows as u64, ROWS_MAX, "{what}");
    check("accounts", queries.accounts(no, ALL).unwrap().items.len());
    check("accounts found", queries.search_accounts(no, "many", ALL).unwrap().items.len());
    let all = ALL.of_gateway(None);
    let methods = |page| queries.payment_methods(no, page).unwrap().items.len();
    check("methods", methods(all));
    check("methods of a gateway", methods(ALL.of_gateway(Some(&gateway("payment_method")))));
    let of = account("payment_method").to_string();
    check("methods found", queries.search_payment_methods(no, &of, all).unwrap().items.len());
    let payments = |page| queries.payments(no, page).unwrap().items.len();
    check("payments", payments(all));
    check("payments of a gateway", payments(ALL.of_gateway(Some(&gateway("payment")))));
    let of = account("payment");
    check("payments of an account", queries.payments_of(no, of, ALL).unwrap().len());
    let of = of.to_string();
    check("payments found", queries.payments_named(no, &of, all).unwrap().items.len());
    let of_state = queries.payments_in_state(no, &[state], all).unwrap();
    check("payments in a state", of_state.items.len());
    check("unresolved", queries.unresolved(no, ALL).unwrap().len());
    let account = Some(account("posting"));
    for filter in [LedgerFilter::default(), LedgerFilter { account, ..LedgerFilter::default() }] {
        check("entries", queries.ledger_entries(no, &filter, ALL).unwrap().len());
    }
    // Not beside the writer, which knows nothing of what was planted.
    let others = SqlQueries::open_source(world.home.source(), 1);
    let (rows, upto) = others.unwrap().journal_after(Seq(0), usize::MAX).unwrap();
    check("journal rows", rows.len());
    assert_eq!(upto, rows.last().unwrap().seq, "the rest is still to come");
    let late = Timestamp(i64::MAX);
    check("deliveries", queries.deliveries_due(late, None, usize::MAX).unwrap().len());
    let asked = gateway("outstanding");
    check("outcomes due", queries.outstanding_due(&asked, late, usize::MAX).unwrap().len());
    check("outcomes", queries.outstanding(usize::MAX).unwrap().len());
}
