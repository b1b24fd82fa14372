//! The schema's versions: making a database, and bringing an older one up to date.

use std::path::Path;

use domain::{AccountId, PartitionNo, TenantNo, TransactionId};
use engine::ports::StoreError;
use ring::digest::{SHA256, digest};

use crate::Error;
use crate::driver::{Database, Reader, Value, new_installation};
use crate::tables::{
    self, CUSTOMER_TABLES, Dialect, FOUNDING_TABLES, INSIGHT_TABLES, MIGRATION, SECOND_TABLES,
    TABLES, TAG_TABLES, THIRD_TABLES,
};

/// One step from a version to the next. Steps only add; what they did is never edited.
struct Migration {
    version: i64,
    sql: fn(&Dialect) -> String,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: founding },
    Migration { version: 2, sql: feature_flags },
    Migration { version: 3, sql: changes_kept_for_later },
    Migration { version: 4, sql: insights },
    Migration { version: 5, sql: tags },
    Migration { version: 6, sql: customers },
    Migration { version: 7, sql: endings_of_customers_rows },
    Migration { version: 8, sql: accounts_by_email },
];

/// The version that this code writes.
pub const VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

fn founding(dialect: &Dialect) -> String {
    tables::ddl(&TABLES[..FOUNDING_TABLES], dialect)
}

fn feature_flags(dialect: &Dialect) -> String {
    tables::ddl(&TABLES[FOUNDING_TABLES..SECOND_TABLES], dialect)
}

fn changes_kept_for_later(dialect: &Dialect) -> String {
    let tables = tables::ddl(&TABLES[SECOND_TABLES..THIRD_TABLES], dialect);
    format!("{}\n{tables}", tables::additions(3, dialect))
}

fn insights(dialect: &Dialect) -> String {
    tables::ddl(INSIGHT_TABLES, dialect)
}

fn customers(dialect: &Dialect) -> String {
    tables::ddl(CUSTOMER_TABLES, dialect)
}

/// What has ended is found, and deleted.
fn endings_of_customers_rows(dialect: &Dialect) -> String {
    tables::additions(7, dialect)
}

/// Accounts are found by their e-mail address.
fn accounts_by_email(dialect: &Dialect) -> String {
    tables::additions(8, dialect)
}

fn tags(dialect: &Dialect) -> String {
    tables::ddl(TAG_TABLES, dialect)
}

/// The whole schema of an empty database, step by step.
#[must_use]
pub fn sql(dialect: &Dialect) -> String {
    MIGRATIONS.iter().map(|it| (it.sql)(dialect)).collect()
}

/// Makes the schema of an empty database, or runs what an older one lacks.
///
/// # Errors
/// [`Error`] where the database is newer, something else's, or not what it says it is.
pub(crate) fn migrate(db: &Database, path: &Path) -> Result<(), Error> {
    let failed = Error::database(path);
    // Several may find the same: the first to begin makes it, the others wait.
    db.begin().and_then(|()| db.lock_schema()).map_err(&failed)?;
    let run = version(db, path).and_then(|version| match version {
        VERSION => db.rollback().map_err(&failed),
        _ => run_after(version, db).and_then(|()| db.commit()).map_err(&failed),
    });
    if run.is_err() {
        // What went wrong first is worth more.
        drop(db.rollback());
    }
    run
}

fn version(db: &Database, path: &Path) -> Result<i64, Error> {
    if db.is_empty().map_err(Error::database(path))? { Ok(0) } else { check(db.reader(), path) }
}

/// Whether a copy into the database was begun and is not finished: it is not to be served.
pub(crate) fn is_unfinished(reader: &Reader) -> Result<bool, StoreError> {
    if reader.sqlite().is_some() {
        return Ok(false);
    }
    let sql = "SELECT count(*) FROM pg_tables \
               WHERE schemaname = current_schema() AND tablename = 'copying'";
    Ok(reader.query_one(sql, &[], |cells| cells.int())? == Some(1))
}

/// The version of a database's schema, where it is one that this code can read.
///
/// # Errors
/// See [`migrate`].
pub(crate) fn check(reader: &Reader, path: &Path) -> Result<i64, Error> {
    let failed = Error::database(path);
    if !reader.is_ours().map_err(&failed)? {
        return Err(Error::NotADatabase { path: path.to_owned() });
    }
    let applied = reader
        .query(&MIGRATION.select("ORDER BY version"), &[], |cells| {
            Ok((cells.int()?, cells.string()?))
        })
        .map_err(&failed)?;
    let found = applied.last().map_or(0, |(version, _)| *version);
    if found > VERSION {
        return Err(Error::NewerSchema { path: path.to_owned(), found, known: VERSION });
    }
    for (at, migration) in MIGRATIONS.iter().take_while(|it| it.version <= found).enumerate() {
        let expected = (migration.version, checksum(&(migration.sql)(reader.dialect())));
        if applied.get(at) != Some(&expected) {
            return Err(Error::SchemaDiffers { path: path.to_owned(), version: found });
        }
    }
    Ok(found)
}

fn run_after(version: i64, db: &Database) -> Result<(), StoreError> {
    for migration in MIGRATIONS.iter().filter(|it| it.version > version) {
        let sql = (migration.sql)(db.reader().dialect());
        db.create(&sql)?;
        let checksum = checksum(&sql);
        db.insert(&MIGRATION)?.row(&[migration.version.into(), (&checksum).into()])?;
    }
    if version == 0 {
        db.insert(&tables::INSTALLATION)?.row(&new_installation())?;
        add_partition(db, PartitionNo::FIRST)?;
    }
    Ok(())
}

/// How many partitions there are.
pub(crate) fn partitions(reader: &Reader) -> Result<u16, StoreError> {
    let count = reader.query_one("SELECT count(*) FROM partition", &[], |cells| cells.int())?;
    Ok(count.and_then(|count| u16::try_from(count).ok()).unwrap_or_default())
}

/// Makes partitions until there are so many, and gives each what belongs to its accounts from now on.
/// What has happened stays in the journals that have it.
///
/// # Errors
/// [`Error::Partitions`] where there are more already: an account never changes to a partition whose
/// journal rows come before its own.
pub(crate) fn grow(db: &Database, path: &Path, wanted: u16) -> Result<(), Error> {
    let failed = Error::database(path);
    db.begin().and_then(|()| db.lock_schema()).map_err(&failed)?;
    let found = partitions(db.reader()).map_err(&failed)?;
    // One that was made in steps has accounts whose history is spread already.
    if found != 1 && found != wanted {
        db.rollback().map_err(&failed)?;
        return Err(Error::Partitions { path: path.to_owned(), found, wanted });
    }
    let grown = (i64::from(found)..i64::from(wanted))
        .filter_map(PartitionNo::new)
        .try_for_each(|partition| add_partition(db, partition))
        .and_then(|()| spread(db, wanted))
        .and_then(|()| db.commit());
    grown.map_err(|error| {
        // What went wrong first is worth more.
        drop(db.rollback());
        failed(error)
    })
}

/// Gives outcomes that are waited for to the partitions of their accounts.
fn spread(db: &Database, partitions: u16) -> Result<(), StoreError> {
    let sql = "SELECT tenant, transaction_id, account_id FROM outstanding";
    let all: Vec<(TenantNo, TransactionId, AccountId)> = db
        .reader()
        .query(sql, &[], |cells| Ok((cells.tenant()?, cells.entity()?, cells.entity()?)))?;
    let sql = "UPDATE outstanding SET partition = ?3 WHERE tenant = ?1 AND transaction_id = ?2";
    let mut update = db.prepare(sql)?;
    for (tenant, transaction, account) in all {
        let partition = PartitionNo::of(tenant, account, partitions);
        update.row(&[tenant.into(), transaction.into(), partition.number().into()])?;
    }
    db.check_again(&tables::OUTSTANDING, "", &[])
}

/// Makes a partition that nobody has owned yet.
fn add_partition(db: &Database, partition: PartitionNo) -> Result<(), StoreError> {
    let (first, null) = (partition.start().0 + 1, Value::Null);
    let (epoch, tenant_no) = (0.into(), 1.into());
    let id = partition.number().into();
    let row = [id, epoch, first.into(), first.into(), tenant_no, null, null, null];
    db.insert(&tables::PARTITION)?.row(&row)
}

fn checksum(sql: &str) -> String {
    let hash = digest(&SHA256, sql.as_bytes());
    hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// What was written by an earlier version has these, and is refused where they change.
    #[test]
    fn migrations_stay_what_they_were() {
        let checksums = |dialect: &Dialect| {
            let all = MIGRATIONS.iter().map(|it| checksum(&(it.sql)(dialect)));
            all.collect::<Vec<_>>().join(" ")
        };
        expect!["3703895816dc684dace7ce561e36dac5 d0509799755feb5b7fbc13cb22899b34 47e1b932e461e8f1ad7b51d0caa17ac8 8efc425235c23986e3eff606ab3ca4ee f5c771afc419c30df7617cd143795b8e 24c50fe9827ffcb53028dc7df0fe5d9f 1ce3e51518fa721b44ba6989ce9282e9 4938e714ca1d827800e980bcc36dfb38"]
            .assert_eq(&checksums(&crate::sqlite::DIALECT));
        expect!["76e1753484269434aa81fc0e4e31fa94 dcb3211b43c47e20dc604f97d982c50c 3c6d5c7774312f17a5aa7ccbb2a605d5 c369cc488f20a2e90f0d16f39a66c176 0c51a16dbc833a3b94a225d62c8fd209 1121e1f8c7344f92bfb94839d5dd2467 1ce3e51518fa721b44ba6989ce9282e9 4938e714ca1d827800e980bcc36dfb38"]
            .assert_eq(&checksums(&crate::postgres::DIALECT));
    }
}
