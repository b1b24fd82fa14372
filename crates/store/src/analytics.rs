//! Read models for analytics, in a database of their own: they can be rebuilt, so their commits
//! need not be durable, and payments do not wait for them.

mod read;
mod rebuild;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use domain::{Currency, Seq};
use engine::analytics::{Activity, Deltas, ReadModels, SuccessesKey, Tally, TransactionsKey};
use engine::ports::StoreError;
use ring::digest::{SHA256, digest};

use crate::Error;
use crate::codes::code;
use crate::directory::{make_private, remove_database};
use crate::driver::{Database, Put, Value};
use crate::pool::Source;
use crate::sqlite::{DIALECT, Options};
use crate::tables::{self, CLUSTERED, Table, id, int, text};
use crate::totals::decimal;

pub use read::SqliteAnalyticsQueries;

/// The file of the read models in a data directory.
pub const DATABASE: &str = "analytics.db";

/// The read models in a data directory.
#[must_use]
pub fn analytics_path(dir: &Path) -> PathBuf {
    dir.join(DATABASE)
}

/// How far the models are, and in which layout their tables are.
static CURSOR: Table = Table { name: "cursor", key_columns: 1, ..CLUSTERED }.of(&[
    int("id"),
    int("seq"),
    text("layout"),
]);

/// How many accounts were created on a day.
static ACCOUNTS_OF_DAY: Table = Table { name: "accounts_of_day", ..CLUSTERED }.of(&[
    int("tenant"),
    int("day"),
    int("accounts"),
]);

/// How many transactions were asked for on a day, and what they processed. Sums are decimal texts:
/// they may leave 64 bits. A currency is empty for voids.
static TRANSACTIONS_OF_DAY: Table =
    Table { name: "transactions_of_day", key_columns: 6, ..CLUSTERED }.of(&[
        int("tenant"),
        int("day"),
        text("gateway"),
        text("currency"),
        int("kind"),
        int("status"),
        int("transactions"),
        text("amount_minor"),
    ]);

/// How many payments an account began, how many transactions clients requested, and when the last
/// of them was requested.
static ACCOUNT_ACTIVITY: Table = Table { name: "account_activity", ..CLUSTERED }.of(&[
    int("tenant"),
    id("account_id"),
    int("payments"),
    int("transactions"),
    int("last_transaction_at_us"),
]);

/// An account's successful transactions, and what they processed.
static ACCOUNT_SUCCESSES: Table = Table { name: "account_successes", key_columns: 4, ..CLUSTERED }
    .of(&[
        int("tenant"),
        id("account_id"),
        text("currency"),
        int("kind"),
        int("transactions"),
        text("amount_minor"),
    ]);

static TABLES: &[&Table] =
    &[&CURSOR, &ACCOUNTS_OF_DAY, &TRANSACTIONS_OF_DAY, &ACCOUNT_ACTIVITY, &ACCOUNT_SUCCESSES];

/// The read models' tables. One that has nothing to count has no row.
pub struct SqliteReadModels {
    db: Database,
    truth: Source,
}

impl SqliteReadModels {
    /// Opens the models at `path`, empty ones where there are none or where an other version laid
    /// them out. `truth` is the database that they are rebuilt from.
    ///
    /// # Errors
    /// [`Error`] where the file cannot be used.
    pub fn open(path: &Path, truth: &Source, options: &Options) -> Result<Self, Error> {
        let options = Options { is_durable: false, ..*options };
        let ddl = tables::ddl(TABLES, &DIALECT);
        let layout = layout(&ddl);
        if let Some(db) = open_file(path, &options)? {
            let found = db
                .reader()
                .query_one("SELECT layout FROM cursor", &[], |cells| Ok(cells.text()? == layout));
            if matches!(found, Ok(Some(true))) {
                return Ok(Self { db, truth: truth.clone() });
            }
            drop(db);
            tracing::warn!("the analytics tables are of another version and are made anew");
            remove_database(path)?;
        }
        make_private(path)?;
        let failed = Error::database(path);
        let db = Database::open(path, &options, TABLES).map_err(&failed)?;
        let made = db.begin().and_then(|()| db.create(&ddl)).and_then(|()| {
            db.insert(&CURSOR)?.row(&[1.into(), 0.into(), (&layout).into()])?;
            db.commit()
        });
        made.map_err(&failed)?;
        Ok(Self { db, truth: truth.clone() })
    }

    fn in_one_commit<T>(
        &self,
        write: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.db.begin()?;
        match write(&self.db).and_then(|done| self.db.commit().map(|()| done)) {
            Ok(done) => Ok(done),
            Err(error) => {
                self.db.rollback()?;
                Err(error)
            }
        }
    }
}

impl ReadModels for SqliteReadModels {
    fn cursor(&mut self) -> Result<Seq, StoreError> {
        cursor(&self.db)
    }

    fn apply(&mut self, deltas: &Deltas) -> Result<Seq, StoreError> {
        self.in_one_commit(|db| {
            let cursor = cursor(db)?;
            if cursor != deltas.after {
                return Ok(cursor);
            }
            write_accounts(db, deltas)?;
            write_activities(db, deltas)?;
            let transactions = deltas.transactions.iter();
            TRANSACTIONS
                .add(db, transactions.map(|(key, delta)| (transactions_key(key), *delta)))?;
            let successes = deltas.successes.iter();
            SUCCESSES.add(db, successes.map(|(key, delta)| (successes_key(key), *delta)))?;
            set_cursor(db, deltas.upto)?;
            Ok(deltas.upto)
        })
    }

    fn rebuild(&mut self) -> Result<Seq, StoreError> {
        let truth = self.truth.reader()?;
        // A concurrent reader sees the old models until the commit.
        self.in_one_commit(|db| rebuild::rebuild(&truth, db))
    }
}

/// A database that is there, if one is.
fn open_file(path: &Path, options: &Options) -> Result<Option<Database>, Error> {
    if !path.try_exists().map_err(Error::io("open", path))? {
        return Ok(None);
    }
    Database::open(path, options, TABLES).map(Some).map_err(Error::database(path))
}

fn layout(ddl: &str) -> String {
    let hash = digest(&SHA256, ddl.as_bytes());
    hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn cursor(db: &Database) -> Result<Seq, StoreError> {
    let found = db.reader().query_one("SELECT seq FROM cursor", &[], |cells| cells.seq())?;
    Ok(found.unwrap_or_default())
}

fn set_cursor(db: &Database, upto: Seq) -> Result<(), StoreError> {
    db.exec("UPDATE cursor SET seq = ?1", &[upto.into()]).map(drop)
}

fn write_accounts(db: &Database, deltas: &Deltas) -> Result<(), StoreError> {
    let mut add = db.prepare(
        "INSERT INTO accounts_of_day (tenant, day, accounts) VALUES (?1, ?2, ?3) \
         ON CONFLICT (tenant, day) DO UPDATE \
         SET accounts = accounts_of_day.accounts + excluded.accounts",
    )?;
    for (key, accounts) in &deltas.accounts {
        add.row(&[key.tenant.into(), key.day.into(), (*accounts).into()])?;
    }
    Ok(())
}

fn write_activities(db: &Database, deltas: &Deltas) -> Result<(), StoreError> {
    let mut add = db.prepare(
        "INSERT INTO account_activity \
         (tenant, account_id, payments, transactions, last_transaction_at_us) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (tenant, account_id) DO UPDATE \
         SET payments = account_activity.payments + excluded.payments, \
             transactions = account_activity.transactions + excluded.transactions, \
             last_transaction_at_us = CASE \
               WHEN account_activity.last_transaction_at_us > excluded.last_transaction_at_us \
               THEN account_activity.last_transaction_at_us \
               ELSE excluded.last_transaction_at_us END",
    )?;
    for ((tenant, account), it) in &deltas.activities {
        let Activity { payments, transactions, last_transaction_at } = *it;
        let (tenant, account) = ((*tenant).into(), (*account).into());
        let row =
            [tenant, account, payments.into(), transactions.into(), last_transaction_at.into()];
        add.row(&row)?;
    }
    Ok(())
}

/// A table of tallies: its last two columns are how many and how much, the others are its key.
struct Tallies {
    table: &'static Table,
    select: String,
    delete: String,
}

static TRANSACTIONS: LazyLock<Tallies> = LazyLock::new(|| Tallies::of(&TRANSACTIONS_OF_DAY));
static SUCCESSES: LazyLock<Tallies> = LazyLock::new(|| Tallies::of(&ACCOUNT_SUCCESSES));

impl Tallies {
    fn of(table: &'static Table) -> Self {
        let key = table.columns[..table.key_columns].iter().zip(1..);
        let key: Vec<String> = key.map(|(column, n)| format!("{} = ?{n}", column.name)).collect();
        let (name, key) = (table.name, key.join(" AND "));
        let select = format!("SELECT transactions, amount_minor FROM {name} WHERE {key}");
        Self { table, select, delete: format!("DELETE FROM {name} WHERE {key}") }
    }

    /// Adds to the tallies; one that comes to nothing goes.
    fn add<'a, const KEY: usize>(
        &self,
        db: &Database,
        deltas: impl Iterator<Item = ([Value<'a>; KEY], Tally)>,
    ) -> Result<(), StoreError> {
        let mut known = db.reader().load(&self.select)?;
        let mut put = db.upsert(self.table)?;
        let mut delete = db.prepare(&self.delete)?;
        for (key, delta) in deltas {
            let known = known.first(&key, |cells| {
                Ok(Tally { count: cells.int()?, amount_minor: decimal(cells)? })
            })?;
            let known = known.unwrap_or_default();
            let tally = Tally {
                count: known.count + delta.count,
                amount_minor: known.amount_minor + delta.amount_minor,
            };
            if tally == Tally::default() {
                delete.row(&key)?;
            } else {
                put_tally(&mut put, &key, tally)?;
            }
        }
        Ok(())
    }
}

fn put_tally(put: &mut Put<'_>, key: &[Value<'_>], tally: Tally) -> Result<(), StoreError> {
    let amount = tally.amount_minor.to_string();
    put.row(&[key, &[tally.count.into(), (&amount).into()]].concat())
}

fn transactions_key(key: &TransactionsKey) -> [Value<'_>; 6] {
    [
        key.tenant.into(),
        key.day.into(),
        (&key.gateway).into(),
        currency(key.currency.as_ref()),
        code(key.kind).into(),
        code(key.status).into(),
    ]
}

fn successes_key(key: &SuccessesKey) -> [Value<'_>; 4] {
    [key.tenant.into(), key.account.into(), currency(key.currency.as_ref()), code(key.kind).into()]
}

fn currency(currency: Option<&Currency>) -> Value<'_> {
    currency.map_or(Value::Text(""), Value::from)
}
