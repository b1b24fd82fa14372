//! The journal's chain: whatever is edited, removed or moved by SQL is found.

use std::fs;
use std::path::Path;

use ring::digest::{SHA256, digest};
use store::driver::{Database, Value};
use store::tables::{JOURNAL, Kind, TABLES, Table};
use store::verify::{Anchor, Report, anchors, verify_anchored, verify_file};
use store::{Options, Source, backup};

use crate::home::Home;
use crate::sqlite::OPTIONS;
use crate::verification::history;
use crate::workload::Random;

/// A backup of a history, and a directory for damaged copies of it.
struct Evidence {
    home: Home,
}

impl Evidence {
    fn new() -> Self {
        let home = Home::embedded();
        drop(history(home.open(&OPTIONS)));
        backup(home.path(), &home.path().join("sound.db")).unwrap();
        Self { home }
    }

    /// A copy, damaged by `damage`, which says what it did.
    fn damaged(&self, damage: impl FnOnce(&Database) -> String) -> (String, Source) {
        let copy = self.home.path().join("copy.db");
        fs::copy(self.home.path().join("sound.db"), &copy).unwrap();
        let db = open(&copy);
        let done = damage(&db);
        drop(db);
        (done, Source::File(copy, Options::DEFAULT))
    }
}

fn open(path: &Path) -> Database {
    Database::open(path, &Options::default(), TABLES).unwrap()
}

fn report(source: &Source) -> Report {
    verify_anchored(source, &[]).unwrap()
}

fn run(db: &Database, sql: &str) {
    assert!(db.exec(sql, &[]).unwrap() > 0, "{sql} changes nothing");
}

/// The number of a random journal row.
fn any_row(db: &Database, random: &mut Random) -> i64 {
    let rows = db.reader().query("SELECT seq FROM journal", &[], |cells| cells.int()).unwrap();
    *random.pick(&rows).unwrap()
}

/// Another value for a column, in SQL.
pub fn another(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Int => format!("coalesce({name}, 0) + 1"),
        Kind::Text => format!("coalesce({name}, '') || 'x'"),
        Kind::Id => "randomblob(16)".to_owned(),
        Kind::Real => format!("{name} + 1"),
    }
}

fn edit_journal(db: &Database, random: &mut Random) -> String {
    let column = &JOURNAL.columns[1 + random.below(JOURNAL.columns.len() - 1)];
    let (name, value) = (column.name, another(column.kind, column.name));
    format!("UPDATE journal SET {name} = {value} WHERE seq = {}", any_row(db, random))
}

fn delete_from_journal(db: &Database, random: &mut Random) -> String {
    format!("DELETE FROM journal WHERE seq = {}", any_row(db, random))
}

/// Two rows change places.
fn reorder_journal(db: &Database, random: &mut Random) -> String {
    let one = any_row(db, random);
    let other = loop {
        let it = any_row(db, random);
        if it != one {
            break it;
        }
    };
    run(db, &format!("UPDATE journal SET seq = -1 WHERE seq = {one}"));
    run(db, &format!("UPDATE journal SET seq = {one} WHERE seq = {other}"));
    format!("UPDATE journal SET seq = {other} WHERE seq = -1")
}

/// An amount of any row, in any table.
fn edit_amount(db: &Database, random: &mut Random) -> String {
    let amounts: Vec<(&Table, &str)> = TABLES
        .iter()
        .flat_map(|table| table.columns.iter().map(move |column| (*table, column.name)))
        .filter(|(table, column)| {
            let sql = format!("SELECT count({column}) FROM {}", table.name);
            let filled = db.reader().query_one(&sql, &[], |cells| cells.int()).unwrap();
            column.ends_with("_minor") && filled != Some(0)
        })
        .collect();
    let (table, column) = random.pick(&amounts).unwrap();
    let (table, key) = (table.name, table.columns[..table.key_columns].iter());
    let key = key.map(|it| it.name).collect::<Vec<_>>().join(", ");
    format!(
        "UPDATE {table} SET {column} = {column} + 1 WHERE ({key}) IN (SELECT {key} FROM {table} \
         WHERE {column} IS NOT NULL ORDER BY random() LIMIT 1)"
    )
}

#[test]
fn edited_deleted_and_reordered_rows_are_found() {
    type Damage = fn(&Database, &mut Random) -> String;
    let damages: [Damage; 4] = [edit_journal, delete_from_journal, reorder_journal, edit_amount];
    let evidence = Evidence::new();
    assert!(verify_file(&evidence.home.path().join("sound.db")).unwrap().is_sound());
    let mut random = Random(2_026);
    for round in 0..200 {
        let damage = damages[round % damages.len()];
        let (done, source) = evidence.damaged(|db| {
            let sql = damage(db, &mut random);
            run(db, &sql);
            sql
        });
        assert!(!report(&source).is_sound(), "round {round} is not found: {done}");
    }
}

#[test]
fn one_edited_row_is_the_only_one_that_is_reported() {
    let evidence = Evidence::new();
    let (_, source) = evidence.damaged(|db| {
        run(db, "UPDATE journal SET command = 'Forged' WHERE seq = 3");
        String::new()
    });
    let problems = report(&source).problems;
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["journal 3: is not what was written: its link differs"]);
}

/// The column `chain` as the documents define it, computed by this test alone.
fn rewrite_chain(db: &Database) {
    let mut previous = String::new();
    let (chain, columns) = JOURNAL.columns.split_last().unwrap();
    assert_eq!(chain.name, "chain");
    let mut links = Vec::new();
    db.reader()
        .for_each(&JOURNAL.select("ORDER BY seq"), &[], |cells| {
            let mut hashed = format!("faregate journal 1\n{previous}\n").into_bytes();
            let seq = cells.peek_int()?;
            for column in columns {
                let value = match column.kind {
                    Kind::Int => cells.opt_int()?.map(|it| it.to_string().into_bytes()),
                    Kind::Text => cells.opt_text()?.map(|it| it.as_bytes().to_vec()),
                    Kind::Id => cells.opt_id()?.map(|it| it.into_bytes().to_vec()),
                    Kind::Real => unreachable!("the journal has no such column"),
                };
                match value {
                    None => hashed.push(b'-'),
                    Some(bytes) => {
                        hashed.extend(format!("{}:", bytes.len()).bytes());
                        hashed.extend(bytes);
                    }
                }
            }
            let hash = digest(&SHA256, &hashed);
            let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            previous = format!("1:{hex}");
            links.push((seq, previous.clone()));
            Ok(())
        })
        .unwrap();
    for (seq, link) in links {
        let row = [Value::Int(seq), Value::Text(&link)];
        db.exec("UPDATE journal SET chain = ?2 WHERE seq = ?1", &row).unwrap();
    }
}

#[test]
fn the_chain_is_what_the_documents_say() {
    let evidence = Evidence::new();
    let (_, source) = evidence.damaged(|db| {
        rewrite_chain(db);
        String::new()
    });
    assert_eq!(report(&source).problems, []);
}

#[test]
fn an_anchor_finds_a_chain_that_was_rewritten() {
    let evidence = Evidence::new();
    let sound = Source::File(evidence.home.path().join("sound.db"), Options::DEFAULT);
    let kept = anchors(&sound).unwrap();
    assert_eq!(kept.len(), 1);
    assert!(verify_anchored(&sound, &kept).unwrap().is_sound());
    let (_, rewritten) = evidence.damaged(|db| {
        run(db, "UPDATE journal SET command = 'NothingToSee' WHERE seq = 3");
        rewrite_chain(db);
        String::new()
    });
    assert_eq!(report(&rewritten).problems, [], "only the anchor knows");
    let said = |anchors: &[Anchor]| {
        let problems = verify_anchored(&rewritten, anchors).unwrap().problems;
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let last = kept[0].seq;
    assert_eq!(said(&kept), [format!("journal {}: is not the row of the anchor", last.0)]);
    let later = Anchor { seq: domain::Seq(last.0 + 1), chain: kept[0].chain.clone() };
    let missing = format!("journal {}: is not there, but an anchor has it", last.0 + 1);
    assert_eq!(said(&[later]), [missing]);
}

/// A store goes on with the chain of the one before.
#[test]
fn the_chain_goes_on_after_a_restart() {
    let home = Home::new();
    drop(history(home.open(&OPTIONS)));
    let mut workload = crate::workload::Workload::new(home.open(&OPTIONS), 7);
    workload.accepted(
        domain::TenantNo(1),
        crate::workload::create_account(Some("later".to_owned()), crate::workload::person("Eve")),
    );
    let report = store::verify::verify_source(&home.source()).unwrap();
    assert_eq!(report.problems, []);
}
