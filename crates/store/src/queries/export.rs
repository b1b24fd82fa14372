//! Reads of all that is stored about an account: each table is walked in the order of an index that begins
//! with the account.

use std::sync::LazyLock;

use domain::billing::invoice::{InvoiceStatus, ItemKind};
use domain::catalog::ProductCategory;
use domain::entitlement::feature::Reset;
use domain::entitlement::purchase::PurchaseStatus;
use domain::ledger::LedgerAccount;
use domain::object::ObjectType;
use domain::payment::attempt::AttemptState;
use domain::payment::dispute::DisputeStatus;
use domain::payment::{TransactionStatus, TransactionType};
use domain::{AccountId, TenantNo, Timestamp};
use engine::ports::{ExportKey, ExportPart, ExportPoint, ExportQueries, ROWS_MAX, StoreError};
use engine::time::rfc3339;
use uuid::Uuid;

use super::{SqlQueries, window};
use crate::codes::Coded;
use crate::driver::{Cell, Cells, Value};
use crate::tables::{ACTOR, Column, TABLES, Table};

/// A table of the export. Its rows are those whose `account` is the account's, in the order of `order`.
struct Section {
    table: &'static Table,
    account: &'static str,
    /// Columns that name a row of the account.
    order: Vec<String>,
    /// The table that it is joined with, where it has no index by account.
    join: Option<Join>,
}

/// A table with an index by account, whose first column of `order` is that of the joined one.
struct Join {
    sql: &'static str,
    /// Bounds the walk by the index: it says no more than the comparison of the whole order.
    bound: &'static str,
}

/// The sections of the export: who acted comes last.
static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    let others = TABLES.iter().filter(|table| table.name != ACTOR.name);
    others.chain([&&ACTOR]).filter_map(|table| section(table)).collect()
});

fn section(table: &'static Table) -> Option<Section> {
    Some(match table.name {
        _ if table.exported.is_empty() => return None,
        "account" => Section { table, account: "t.id", order: columns("t.", table), join: None },
        "payment_transaction" => Section {
            table,
            account: "p.tenant = ?1 AND p.account_id",
            order: vec!["p.id".to_owned(), "t.id".to_owned()],
            join: Some(Join {
                sql: "payment p JOIN payment_transaction t ON t.tenant = p.tenant AND t.payment_id = p.id",
                bound: "AND p.id >= ?3",
            }),
        },
        _ => Section { table, account: "t.account_id", order: columns("t.", table), join: None },
    })
}

/// The columns that name a row of the account, each behind `of`.
fn columns(of: &str, table: &Table) -> Vec<String> {
    table.exported.iter().map(|it| format!("{of}{it}")).collect()
}

/// Whether the export has a column. It has no tenant, which is the request's, no check values, no folded copies of
/// texts, and no hashes of actors, with their salts, and of keys.
fn is_exported(table: &Table, column: &Column) -> bool {
    let is_hash = table.name == ACTOR.name && column.name == "id";
    !is_hash
        && !column.name.ends_with("_folded")
        && !["tenant", "check_made", "check_now", "key_hash", "salt", "actor", "actor_salt"]
            .contains(&column.name)
}

impl ExportQueries for SqlQueries {
    fn export(
        &self,
        (no, account): (TenantNo, AccountId),
        from: ExportPoint,
        limit: u64,
    ) -> Result<ExportPart, StoreError> {
        let section = &SECTIONS[from.table.min(SECTIONS.len() - 1)];
        let columns: Vec<&Column> =
            section.table.columns.iter().filter(|it| is_exported(section.table, it)).collect();
        let sql = section.select(&columns, !from.after.is_empty());
        let mut parameters = vec![no.into(), account.into()];
        parameters.extend(from.after.iter().map(key_value));
        parameters.push(window::limit(limit));
        let mut last = vec![];
        let rows = self.read(|reader| {
            reader.query(&sql, &parameters, |cells| {
                cells.of(section.table);
                let row = columns
                    .iter()
                    .map(|it| shown((section.table, it), cells))
                    .collect::<Result<_, _>>()?;
                last = section.order.iter().map(|it| key(it, cells)).collect::<Result<_, _>>()?;
                Ok(row)
            })
        })?;
        let is_full = u64::try_from(rows.len()).is_ok_and(|rows| rows >= limit.min(ROWS_MAX));
        let next = match is_full {
            true => Some(ExportPoint { table: from.table, after: last }),
            false => Some(ExportPoint { table: from.table + 1, after: vec![] }),
        };
        Ok(ExportPart {
            table: section.table.name,
            columns: columns.iter().map(|it| name(it)).collect(),
            rows,
            next: next.filter(|it| it.table < SECTIONS.len()),
        })
    }
}

impl Section {
    /// The columns, and behind them those of the order.
    fn select(&self, columns: &[&Column], goes_on: bool) -> String {
        let columns: Vec<String> = columns.iter().map(|it| format!("t.{}", it.name)).collect();
        let (columns, order) = (columns.join(", "), self.order.join(", "));
        let from = match &self.join {
            Some(join) => join.sql.to_owned(),
            None => format!("{} t", self.table.name),
        };
        let (behind, limit) = match goes_on {
            true => {
                let keys: Vec<String> =
                    (3..3 + self.order.len()).map(|n| format!("?{n}")).collect();
                let bound = self.join.as_ref().map_or("", |join| join.bound);
                let behind = format!("AND ({order}) > ({}) {bound}", keys.join(", "));
                (behind, 3 + self.order.len())
            }
            false => (String::new(), 3),
        };
        let account = self.account;
        format!(
            "SELECT {columns}, {order} FROM {from} WHERE t.tenant = ?1 AND {account} = ?2 {behind} \
             ORDER BY {order} LIMIT ?{limit}"
        )
    }
}

/// The name of a column: times have no unit, because they are shown as dates.
fn name(column: &Column) -> &'static str {
    column.name.strip_suffix("_us").unwrap_or(column.name)
}

/// A cell: ids and dates in their usual spelling, codes by their names, amounts in minor units.
fn shown(
    (table, column): (&Table, &Column),
    cells: &mut Cells<'_>,
) -> Result<Option<String>, StoreError> {
    Ok(match Cell::read(column.kind, cells)? {
        Cell::Null => None,
        Cell::Int(at) if column.name.ends_with("_us") => Some(rfc3339(Timestamp(at))),
        Cell::Int(number) => Some(named((table.name, column.name), number)),
        Cell::Text(text) => Some(text),
        Cell::Id(bytes) => Some(Uuid::from_bytes(bytes).to_string()),
        Cell::Real(bits) => Some(f64::from_bits(bits).to_string()),
    })
}

/// A code by its name; another number as it is.
fn named(column: (&str, &str), number: i64) -> String {
    let name = match column {
        ("invoice", "status") => InvoiceStatus::of(number).map(InvoiceStatus::name),
        ("invoice_item", "kind") => ItemKind::of(number).map(ItemKind::name),
        ("subscription", "category") => ProductCategory::of(number).map(ProductCategory::name),
        ("posting", "debit" | "credit") => LedgerAccount::of(number).map(ledger_name),
        (_, name) => named_alike(name, number),
    };
    name.map_or_else(|| number.to_string(), str::to_owned)
}

/// The name of a code in a column that means the same in all tables that have it.
fn named_alike(column: &str, number: i64) -> Option<&'static str> {
    match column {
        "kind" | "operation" | "success_operation" => {
            TransactionType::of(number).map(TransactionType::name)
        }
        "status" | "success_status" => TransactionStatus::of(number).map(TransactionStatus::name),
        "dispute_status" => DisputeStatus::of(number).map(DisputeStatus::name),
        "resets" => Reset::of(number).map(Reset::name),
        "purchase_status" => PurchaseStatus::of(number).map(PurchaseStatus::name),
        "state" => AttemptState::of(number).map(AttemptState::name),
        "object_type" => ObjectType::of(number).map(ObjectType::name),
        _ => None,
    }
}

const fn ledger_name(account: LedgerAccount) -> &'static str {
    match account {
        LedgerAccount::Customer => "CUSTOMER",
        LedgerAccount::Gateway => "GATEWAY",
        LedgerAccount::Refunds => "REFUNDS",
        LedgerAccount::Disputes => "DISPUTES",
        LedgerAccount::DisputeExcess => "DISPUTE_EXCESS",
        LedgerAccount::Sales => "SALES",
        LedgerAccount::Tax => "TAX",
    }
}

fn key(column: &str, cells: &mut Cells<'_>) -> Result<ExportKey, StoreError> {
    match column {
        "t.seq" | "t.ordinal" | "t.period_end_us" | "t.resets" => cells.int().map(ExportKey::Int),
        "t.feature" => cells.string().map(ExportKey::Text),
        _ => cells.id().map(|id| ExportKey::Id(id.into_bytes())),
    }
}

fn key_value(key: &ExportKey) -> Value<'_> {
    match key {
        ExportKey::Text(text) => text.into(),
        ExportKey::Int(number) => Value::Int(*number),
        ExportKey::Id(bytes) => Value::Id(*bytes),
    }
}
