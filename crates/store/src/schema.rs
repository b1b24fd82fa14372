//! The schema's versions: making a database, and bringing an older one up to date.

use std::collections::BTreeMap;
use std::path::Path;

use domain::account::tag::CONTROL_TAGS;
use domain::object::ObjectType;
use domain::{AccountId, PartitionNo, TenantNo, TransactionId};
use engine::ports::{CALLBACK, StoreError};
use ring::digest::{SHA256, digest};
use uuid::Uuid;

use crate::Error;
use crate::codes::code;
use crate::driver::{Database, Reader, Value, new_installation};
use crate::tables::{self, Dialect, MIGRATION, TABLES, Table};
use crate::totals::Counted;

/// One step from a version to the next. From the release of 0.1.0 on steps only add, and what a step did is
/// never edited: a table that changes then leaves the statements of its step as they are. Step 3, made before
/// that release, moves tags to another table.
struct Migration {
    version: i64,
    sql: fn(i64, &Dialect) -> String,
}

impl Migration {
    fn sql(&self, dialect: &Dialect) -> String {
        (self.sql)(self.version, dialect)
    }
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: founding },
    Migration { version: 2, sql: accounts_by_parent },
    Migration { version: 3, sql: fields_and_tags },
    // Blocking states.
    Migration { version: 4, sql: additions },
    // Payment control.
    Migration { version: 5, sql: additions },
    // Timers.
    Migration { version: 6, sql: additions },
    // Imported audit logs.
    Migration { version: 7, sql: additions },
    Migration { version: 8, sql: fields_in_order },
    // Tenants' accounts at gateways, next actions.
    Migration { version: 9, sql: additions },
    Migration { version: 10, sql: webhooks },
    // Routing.
    Migration { version: 11, sql: additions },
    // Disputes.
    Migration { version: 12, sql: additions },
    // Steps of payment methods.
    Migration { version: 13, sql: additions },
    // When outcomes were asked for.
    Migration { version: 14, sql: additions },
    Migration { version: 15, sql: methods_by_external_id },
    Migration { version: 16, sql: inquiries_by_gateway },
    // Entitlements.
    Migration { version: 17, sql: additions },
    // Accounts' users.
    Migration { version: 18, sql: additions },
    // Usage.
    Migration { version: 19, sql: additions },
    Migration { version: 20, sql: folded_texts },
    // Catalogs.
    Migration { version: 21, sql: additions },
    Migration { version: 22, sql: subscriptions_and_invoices },
];

/// The version that this code writes.
pub const VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// The tables that a version brought, and the columns that it added to others.
fn additions(version: i64, dialect: &Dialect) -> String {
    let made: Vec<&Table> = TABLES.iter().copied().filter(|it| it.since == version).collect();
    tables::ddl(&made, dialect) + &tables::added_columns(TABLES, version, dialect)
}

fn founding(_: i64, dialect: &Dialect) -> String {
    let then = |table: &&'static Table| match table.name {
        name if name == tables::TAG.name => Some(&tables::CONTROL_TAG_BEFORE_3),
        name if name == tables::ACCOUNT_PERSON.name => Some(&tables::ACCOUNT_PERSON_BEFORE_20),
        name if name == tables::DELIVERY.name => Some(&tables::DELIVERY_BEFORE_10),
        name if name == tables::OUTSTANDING.name => Some(&tables::OUTSTANDING_BEFORE_16),
        name if name == tables::POSTING.name => Some(&tables::POSTING_BEFORE_22),
        _ => Some(*table).filter(|it| it.since == 1),
    };
    tables::ddl(&TABLES.iter().filter_map(then).collect::<Vec<_>>(), dialect)
}

/// Finds the children of an account.
fn accounts_by_parent(_: i64, _: &Dialect) -> String {
    "CREATE INDEX account_by_parent ON account (tenant, parent_account_id, id) \
     WHERE parent_account_id IS NOT NULL;\n"
        .to_owned()
}

/// Custom fields, and tags of tenants' own definitions on all objects that have fields.
fn fields_and_tags(_: i64, dialect: &Dialect) -> String {
    let made: [&Table; 5] = [
        &tables::CUSTOM_FIELD_BEFORE_8,
        &tables::CUSTOM_FIELD_VALUE,
        &tables::TAG,
        &tables::TAG_DEFINITION,
        &tables::ACCOUNT_EMAIL,
    ];
    let mut sql = tables::ddl(&made, dialect);
    sql.push_str(
        "INSERT INTO object_tag (tenant, object_id, definition_id, object_type, account_id, id, active, \
         created_at_us, seq) SELECT tenant, account_id, CASE definition",
    );
    for tag in CONTROL_TAGS {
        let definition = dialect.id_literal(tag.id().uuid());
        sql.push_str(&format!(" WHEN {} THEN {definition}", tag.number));
    }
    let account = code(ObjectType::Account);
    sql.push_str(&format!(
        " END, {account}, account_id, id, active, created_at_us, seq FROM tag;\nDROP TABLE tag;\n"
    ));
    sql
}

/// Finds the methods that are the same at their gateway.
fn methods_by_external_id(_: i64, _: &Dialect) -> String {
    "CREATE INDEX payment_method_by_external_id ON payment_method \
     (tenant, external_payment_method_id, gateway, id) \
     WHERE active = 1 AND external_payment_method_id IS NOT NULL;\n"
        .to_owned()
}

/// Fields of a name and a value in the order in which they were made: of a value that many have, the first page is
/// read from the index, and the others are counted in it.
fn fields_in_order(_: i64, _: &Dialect) -> String {
    "DROP INDEX custom_field_by_name;\n\
     CREATE INDEX custom_field_by_name_in_order ON custom_field \
     (tenant, object_type, name, value, created_at_us, ordinal, id, active) \
     WHERE active = 1 AND value IS NOT NULL;\n"
        .to_owned()
}

/// Deliveries to endpoints, in place of those to callbacks alone, and their log.
fn webhooks(version: i64, dialect: &Dialect) -> String {
    let mut sql = additions(version, dialect);
    let callback = dialect.id_literal(CALLBACK.uuid());
    sql.push_str(&format!(
        "INSERT INTO webhook_delivery (seq, ordinal, endpoint_id, tenant, attempts, due_at_us, error, \
         check_made, check_now) SELECT seq, ordinal, {callback}, tenant, attempts, due_at_us, error, \
         check_made, check_now FROM delivery;\nDROP TABLE delivery;\n"
    ));
    sql
}

/// Finds the outcomes that each gateway is asked about, however many another one has.
fn inquiries_by_gateway(_: i64, _: &Dialect) -> String {
    "DROP INDEX outstanding_by_ask_at;\n\
     CREATE INDEX outstanding_by_gateway ON outstanding (partition, gateway, ask_at_us) \
     WHERE ask_at_us IS NOT NULL;\n"
        .to_owned()
}

/// Texts as searches compare them. Rows that were there have them from their next change on.
fn folded_texts(version: i64, dialect: &Dialect) -> String {
    additions(version, dialect)
        + "DROP INDEX account_person_by_email;\n\
           CREATE INDEX account_person_by_folded_email ON account_person \
           (tenant, coalesce(email_folded, lower(email))) WHERE email IS NOT NULL;\n"
}

/// Subscriptions and invoices, whose items move money in the ledger as payments do.
fn subscriptions_and_invoices(version: i64, dialect: &Dialect) -> String {
    additions(version, dialect)
        + "ALTER TABLE posting RENAME COLUMN payment_id TO source_id;\n\
           ALTER TABLE posting RENAME COLUMN transaction_id TO part_id;\n\
           DROP INDEX posting_by_payment;\n\
           CREATE INDEX posting_by_source ON posting (tenant, account_id, source_id);\n"
}

/// The whole schema of an empty database, step by step.
#[must_use]
pub fn sql(dialect: &Dialect) -> String {
    MIGRATIONS.iter().map(|it| it.sql(dialect)).collect()
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
        let expected = (migration.version, checksum(&migration.sql(reader.dialect())));
        if applied.get(at) != Some(&expected) {
            return Err(Error::SchemaDiffers { path: path.to_owned(), version: found });
        }
    }
    Ok(found)
}

fn run_after(version: i64, db: &Database) -> Result<(), StoreError> {
    for migration in MIGRATIONS.iter().filter(|it| it.version > version) {
        let sql = migration.sql(db.reader().dialect());
        db.create(&sql)?;
        let checksum = checksum(&sql);
        db.insert(&MIGRATION)?.row(&[migration.version.into(), (&checksum).into()])?;
    }
    if (1..3).contains(&version) {
        count_tags(db)?;
    }
    if (1..10).contains(&version) {
        db.check_again(&tables::DELIVERY, "", &[])?;
    }
    if version == 0 {
        db.insert(&tables::INSTALLATION)?.row(&new_installation())?;
        add_partition(db, PartitionNo::FIRST)?;
    }
    Ok(())
}

/// Keeps the totals of the tags that step 3 moved, each with the partition of its account.
fn count_tags(db: &Database) -> Result<(), StoreError> {
    let partitions = partitions(db.reader())?;
    let sql = "SELECT tenant, account_id, count(*) FROM object_tag WHERE active = 1 \
               GROUP BY tenant, account_id";
    let mut totals: BTreeMap<(TenantNo, PartitionNo), i64> = BTreeMap::new();
    db.reader().for_each(sql, &[], |cells| {
        let (tenant, account) = (cells.tenant()?, cells.entity()?);
        let partition = PartitionNo::of(tenant, account, partitions);
        *totals.entry((tenant, partition)).or_default() += cells.int()?;
        Ok(())
    })?;
    let mut put = db.insert(&tables::COUNTER)?;
    for ((tenant, partition), count) in totals {
        let name = Counted::Tags.name().into();
        put.row(&[tenant.into(), name, "".into(), partition.number().into(), count.into()])?;
    }
    Ok(())
}

/// How many partitions there are.
pub(crate) fn partitions(reader: &Reader) -> Result<u16, StoreError> {
    let count = reader.query_one("SELECT count(*) FROM partition", &[], |cells| cells.int())?;
    Ok(count.and_then(|count| u16::try_from(count).ok()).unwrap_or_default())
}

/// Makes partitions until there are so many, and gives each what belongs to its accounts from now on. Journal rows
/// stay in the journals that have them.
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

/// Gives outcomes that are waited for, and timers, to the partitions of their accounts.
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
    db.check_again(&tables::OUTSTANDING, "", &[])?;
    let sql = "SELECT tenant, kind, object_id, account_id FROM timer";
    let all: Vec<(TenantNo, i64, Uuid, AccountId)> = db.reader().query(sql, &[], |cells| {
        Ok((cells.tenant()?, cells.int()?, cells.id()?, cells.entity()?))
    })?;
    let sql = "UPDATE timer SET partition = ?4 WHERE tenant = ?1 AND kind = ?2 AND object_id = ?3";
    let mut update = db.prepare(sql)?;
    for (tenant, kind, object, account) in all {
        let partition = PartitionNo::of(tenant, account, partitions);
        let key = [tenant.into(), kind.into(), object.into(), partition.number().into()];
        update.row(&key)?;
    }
    db.check_again(&tables::TIMER, "", &[])
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

    /// Databases of earlier versions have these checksums, and are refused where a checksum
    /// changes.
    #[test]
    fn migrations_stay_what_they_were() {
        let checksums = |dialect: &Dialect| {
            let all = MIGRATIONS.iter().map(|it| checksum(&it.sql(dialect)));
            all.collect::<Vec<_>>().join(" ")
        };
        expect!["49cfe55a61617287402c8eaf3656b6db a2fafd881ec0936cef5a8254b8473ddf dbcc69bdc94292504c7b3dfacfd4fcf6 1438d9b03b339040c455e7d34cf73153 473d9b8a7c7eb933d378b12d3e694162 48298b2ab20d379f0210462b2dbfc98f 02560ef2903226461efca23694bb0808 502b06c67532d477fc5f364a1555424e f2cef72d885b8fbe481e91294608f13d 6e762a52cfcd6b8276bb42990dcbe083 8d4cf0b6da83342ec0780083a6c43683 9034d98a0dbbe8382104afa90b0470a4 576a090c602ce81e64b448e50169757d 7ba9bfdafc95aa19085f87cae40289ef 701d015636e74e7f60b1cf0299edef1f f75c4aef0e91de03ddf50c8b7b03fce0 5b64bacddd2bf7c1cc8ffe8c1a8fcc87 b58c7f4602275c176f0dd4ed3f129223 271eb734900b1c259899c78935053c0e 9d7161250e46b715829fb8f81dbea071 8afc058c731aa8def2758f386b988a12 66f2fba3911b129ee48920e161dbf1e2"]
            .assert_eq(&checksums(&crate::sqlite::DIALECT));
        expect!["f1345320b453ef24db782e2b3c68331c a2fafd881ec0936cef5a8254b8473ddf 2f7e28aff6adf5a2ca67caf3a89281a2 e9ed4d49cf30fabe3d7c59bc5bea70bc 82516f258616f50eded017f970f326ab 94d441c67b6bc11fb75f56dbb1fe19d0 af783dbaee9fe16e08f08ed32752229f 502b06c67532d477fc5f364a1555424e 8491dda2d4e62295303d76267d579a09 8df1212a3d229abd33a1e960171c7692 be7d2d6609fbd5a50054273d5dcaf0c8 8a52bf2919000e25ec1a9617446c4172 fc6d7c225e04571dc59ea6538666238b 3271e61f752620e4670bc1927bea64d6 701d015636e74e7f60b1cf0299edef1f f75c4aef0e91de03ddf50c8b7b03fce0 80ccc4cfbc4beac5476f1dda21036844 f9691e12c9607948aff82d746fefeea6 c379604377aeb129e6b3f9bdc6d07787 80f292764c8aeb80c81e6e3efd4f0bff 3bb09207c808d6814954d70c1412fc0d 2c472c14315e0b455e4c434683725b79"]
            .assert_eq(&checksums(&crate::postgres::DIALECT));
    }
}
