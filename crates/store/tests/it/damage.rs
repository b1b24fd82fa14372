//! Damage to any table, done by SQL or to the file, is found by `verify`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use store::driver::Database;
use store::tables::{self, TABLES, Table};
use store::verify::{Scrub, verify_file};
use store::{Options, Source, backup};

use crate::chain::another;
use crate::home::Home;
use crate::verification::history;
use crate::workload::Random;
use crate::{
    blocking_states, control, custom_fields, customers, disputes, entitlements, flags,
    method_steps, tags, usage,
};

/// Counts of evaluations: they are sums, added up in SQL, and nothing else knows them.
const UNCHECKED: [&str; 2] = [tables::FLAG_INSIGHT.name, tables::METRIC_INSIGHT.name];

/// A copy of a database that has rows in nearly every table.
fn sound(home: &Home) -> PathBuf {
    let mut workload = history(home.open(&Options::DEFAULT));
    workload.run(100);
    customers::fill(&mut workload);
    flags::fill(&mut workload);
    tags::fill(&mut workload);
    custom_fields::fill(&mut workload);
    blocking_states::fill(&mut workload);
    control::fill(&mut workload);
    disputes::fill(&mut workload);
    entitlements::fill(&mut workload);
    usage::fill(&mut workload);
    method_steps::fill(&mut workload);
    drop(workload);
    let path = home.path().join("sound.db");
    backup(home.path(), &path).unwrap();
    let report = verify_file(&path).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    path
}

fn open(path: &Path) -> Result<Database, engine::ports::StoreError> {
    Database::open(path, &Options::DEFAULT, TABLES)
}

fn checked_tables() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().copied().filter(|table| !UNCHECKED.contains(&table.name))
}

/// Changes one column of one row; `None` where that is not possible.
fn edit(db: &Database, table: &Table, random: &mut Random) -> Option<String> {
    let column = &table.columns[random.below(table.columns.len())];
    let (name, value) = (column.name, another(column.kind, column.name));
    let key: Vec<&str> = table.columns[..table.key_columns].iter().map(|it| it.name).collect();
    let (table, key) = (table.name, key.join(", "));
    let rows = db.reader().query_one(&format!("SELECT count(*) FROM {table}"), &[], |it| it.int());
    let rows = usize::try_from(rows.unwrap().unwrap()).unwrap();
    if rows == 0 {
        return None;
    }
    // The claim that a later one with its hash replaced says nothing any more.
    let says_something = match table == tables::CLAIM_RECENT.name {
        true => "WHERE n IN (SELECT max(n) FROM claim_recent GROUP BY key_hash)",
        false => "",
    };
    let sql = format!(
        "UPDATE {table} SET {name} = {value} WHERE ({key}) IN \
         (SELECT {key} FROM {table} {says_something} ORDER BY {key} LIMIT 1 OFFSET {})",
        random.below(rows)
    );
    // A value may be one that must be unique.
    db.exec(&sql, &[]).ok().filter(|changed| *changed > 0).map(|_| sql)
}

#[test]
fn an_edit_of_any_column_is_found_in_its_table() {
    let home = Home::embedded();
    let sound = sound(&home);
    let copy = home.path().join("copy.db");
    let mut random = Random(2_027);
    let tables: Vec<&Table> = checked_tables().collect();
    let mut edited = BTreeSet::new();
    let mut unseen = Vec::new();
    let mut edits = 0;
    while edits < 200 {
        let table = *random.pick(&tables).unwrap();
        fs::copy(&sound, &copy).unwrap();
        let db = open(&copy).unwrap();
        let Some(sql) = edit(&db, table, &mut random) else { continue };
        drop(db);
        edits += 1;
        edited.insert(table.name);
        // A posting that does not fit its transaction, or its payment's disputes, may be either's mistake.
        let named: &[&str] = match table.name {
            "posting" => &["posting", "payment_transaction", "payment"],
            _ => &[table.name],
        };
        match verify_file(&copy) {
            Ok(report) if report.problems.iter().any(|it| named.contains(&it.table)) => {}
            Ok(report) => unseen.push(format!("{sql}: {:?}", report.problems)),
            // What was done to the schema is said instead of anything else.
            Err(store::Error::SchemaDiffers { .. } | store::Error::NewerSchema { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(edited.len() > 25, "{edited:?}");
    assert!(unseen.is_empty(), "{} of 200: {unseen:#?}", unseen.len());
}

fn scrub(path: &Path) -> (usize, Vec<String>) {
    let mut scrub = Scrub::new(Source::File(path.to_owned(), Options::DEFAULT));
    let (mut rows, mut problems) = (0, Vec::new());
    loop {
        let portion = scrub.next_portion().unwrap();
        rows += portion.rows;
        problems.extend(portion.problems.iter().map(ToString::to_string));
        if portion.is_last {
            return (rows, problems);
        }
    }
}

#[test]
fn a_scrub_looks_at_every_row_and_finds_what_is_wrong_with_one() {
    let home = Home::embedded();
    let sound = sound(&home);
    let db = open(&sound).unwrap();
    let sql = "SELECT (SELECT count(*) FROM journal) + (SELECT count(*) FROM account) * 2";
    let some = db.reader().query_one(sql, &[], |cells| cells.count()).unwrap().unwrap();
    let (rows, problems) = scrub(&sound);
    assert_eq!(problems, Vec::<String>::new());
    assert!(rows > usize::try_from(some).unwrap(), "{rows} of more than {some}");
    for (damage, found) in [
        ("UPDATE journal SET request_id = zeroblob(16) WHERE seq = 9", "journal 9: "),
        ("UPDATE account_person SET name = 'Eve'", "account_person 1/"),
        ("UPDATE payment_transaction SET status = 2 WHERE status = 1", "payment_transaction "),
        ("UPDATE posting SET account_id = source_id", "posting "),
        ("UPDATE customer_session SET expires_at_us = 1", "customer_session 1/"),
    ] {
        let copy = home.path().join("copy.db");
        fs::copy(&sound, &copy).unwrap();
        assert!(open(&copy).unwrap().exec(damage, &[]).unwrap() > 0, "{damage} damages nothing");
        let (_, problems) = scrub(&copy);
        assert!(problems.iter().any(|it| it.starts_with(found)), "{damage}: {problems:?}");
    }
}

/// All that can be read of a database, as text; or why it cannot.
fn content(path: &Path) -> Result<String, String> {
    let db = open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    for table in checked_tables() {
        let columns: Vec<String> =
            table.columns.iter().map(|it| format!("quote({})", it.name)).collect();
        // A claim that a later one replaced is looked at by nobody.
        let rest = match table.name == tables::CLAIM_RECENT.name {
            true => {
                "AS c WHERE n = (SELECT max(n) FROM claim_recent o WHERE o.key_hash = c.key_hash)"
            }
            false => "",
        };
        let columns = columns.join(" || ',' || ");
        // SQLite's statistics decide on an order that nobody has asked for.
        let sql = format!("SELECT {columns} AS row_text FROM {} {rest} ORDER BY 1", table.name);
        let read = db.reader().for_each(&sql, &[], |cells| {
            text.push_str(cells.text()?);
            text.push('\n');
            Ok(())
        });
        read.map_err(|error| error.to_string())?;
        text.push_str(table.name);
    }
    Ok(text)
}

/// As many bits as `FAREGATE_TEST_FLIPS` says, 100 without it.
#[test]
fn flipped_bits_that_change_what_is_read_are_found() {
    let wanted = std::env::var("FAREGATE_TEST_FLIPS").map_or(100, |it| it.parse().unwrap());
    let home = Home::embedded();
    let sound = sound(&home);
    let bytes = fs::read(&sound).unwrap();
    let before = content(&sound).expect("it is sound");
    let copy = home.path().join("copy.db");
    let mut random = Random(2_028);
    let mut unseen = Vec::new();
    let (mut flips, mut tries) = (0, 0);
    while flips < wanted {
        tries += 1;
        let (at, bit) = (random.below(bytes.len()), random.below(8));
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        fs::write(&copy, &flipped).unwrap();
        if content(&copy).is_ok_and(|after| after == before) {
            continue;
        }
        flips += 1;
        if verify_file(&copy).is_ok_and(|report| report.is_sound()) {
            let after = content(&copy).unwrap_or_else(|error| error);
            // Rows can be there twice, or in another order, too.
            let pairs = before.lines().zip(after.lines());
            let changed: Vec<_> = pairs.filter(|(before, after)| before != after).take(2).collect();
            let changed = format!("{changed:?}, {} and {} bytes", before.len(), after.len());
            unseen.push((at, bit, changed));
        }
    }
    assert!(unseen.is_empty(), "{} of {flips} ({tries}): {unseen:#?}", unseen.len());
}
