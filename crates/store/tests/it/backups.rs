//! Backups, made while somebody writes, and restored.

use std::os::unix::fs::PermissionsExt;
use std::thread;

use domain::TenantNo;
use engine::ports::Store;
use store::verify::{verify_dir, verify_file};
use store::{Error, Options, backup, open_dir, restore};
use tempfile::tempdir;

use crate::commits::two_tenants;
use crate::sqlite::open;
use crate::workload::Workload;

#[test]
fn a_backup_under_writes_is_one_commit_and_restores() {
    let scratch = tempdir().unwrap();
    let (data, file) = (scratch.path().join("data"), scratch.path().join("backup"));
    let mut workload = two_tenants(open(&data), 21);
    workload.run(3_000);
    let begun_at = workload.head();
    let head = thread::scope(|scope| {
        let copying = scope.spawn(|| backup(&data, &file));
        let mut written = 0;
        while written < 200 || !copying.is_finished() {
            workload.run(1);
            written += 1;
        }
        copying.join().unwrap().unwrap();
        workload.head()
    });
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let report = verify_file(&file).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    let rows = i64::try_from(report.journal_rows).unwrap();
    assert!((begun_at.0..=head.0).contains(&rows), "{begun_at:?} {rows} {head:?}");

    let restored = scratch.path().join("restored");
    restore(&file, &restored).unwrap();
    assert_eq!(verify_dir(&restored).unwrap(), report);
    let mut store = open(&restored);
    assert_eq!(store.open().unwrap().next_seq.0, rows + 1);
    drop(store);
    // It is a data directory like any other: what was restored goes on.
    let mut workload = Workload::new(open(&restored), 22);
    workload.tenants = vec![TenantNo(1)];
    workload.run(100);
    drop(workload);
    assert!(verify_dir(&restored).unwrap().is_sound());
    // And the original never noticed.
    assert!(verify_dir(&data).unwrap().is_sound());
}

#[test]
fn nothing_is_overwritten_and_nothing_half_made_stays() {
    let scratch = tempdir().unwrap();
    let (data, file) = (scratch.path().join("data"), scratch.path().join("backup"));
    drop(open(&data));
    std::fs::write(&file, "mine").unwrap();
    let refused = backup(&data, &file).unwrap_err();
    assert!(matches!(&refused, Error::Exists { path } if *path == file), "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    let refused = restore(&file, &scratch.path().join("new")).unwrap_err();
    assert!(matches!(refused, Error::NotADatabase { .. }), "{refused}");
    assert!(!scratch.path().join("new").exists());

    let good = scratch.path().join("good");
    backup(&data, &good).unwrap();
    let refused = restore(&good, &data).unwrap_err();
    assert!(matches!(refused, Error::Exists { .. }), "{refused}");
    open_dir(&data, &Options::default()).expect("the data directory is unchanged");

    let nowhere = scratch.path().join("nowhere");
    let refused = backup(&nowhere, &scratch.path().join("b")).unwrap_err();
    assert!(matches!(refused, Error::Io { .. }), "{refused}");
    let names: Vec<_> = std::fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.contains("unfinished")), "{names:?}");
}

#[test]
fn leftovers_of_another_history_are_not_restored() {
    let scratch = tempdir().unwrap();
    let (data, file) = (scratch.path().join("data"), scratch.path().join("backup"));
    drop(open(&data));
    backup(&data, &file).unwrap();
    for name in ["analytics.db", "analytics.db-wal", "analytics.db-shm", "faregate.db-wal"] {
        let target = scratch.path().join(name);
        std::fs::create_dir(&target).unwrap();
        let left = target.join(name);
        std::fs::write(&left, "of another history").unwrap();
        let refused = restore(&file, &target).unwrap_err();
        assert!(matches!(&refused, Error::Exists { path } if *path == left), "{refused}");
        let there: Vec<_> =
            std::fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(there, [left], "nothing is put beside it");
    }
}
