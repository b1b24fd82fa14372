//! Tests of the simulator's journal on a real file system.

use std::fs::{OpenOptions, read as read_bytes, write as write_bytes};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use domain::{TransactionId, payment::GatewayStatus};
use expect_test::expect;
use gateway::Error;
use gateway::simulator::journal::{FILE, Journal};
use gateway::simulator::record::{Effect, LINE_BYTES_MAX, Record, RecordedOutcome};
use tempfile::tempdir;

use crate::calls::{id, purchase, records, retry, shown};

fn record(number: u128, notifications: u8) -> Record {
    let call = purchase(number, "");
    let outcome = domain::payment::GatewayOutcome {
        amount: call.amount,
        currency: Some(call.currency),
        ..domain::payment::GatewayOutcome::new(GatewayStatus::Processed)
    };
    let outcome = RecordedOutcome::new(&outcome);
    let at = domain::Timestamp(1);
    Record { notifications, ..Record::of_call(&call, at, Effect::Charged, outcome) }
}

fn reopen(dir: &Path) -> Result<Journal, Error> {
    retry(|| Journal::open(dir)).map(|(journal, _)| journal)
}

async fn write(dir: &Path, numbers: std::ops::Range<u128>) {
    let journal = reopen(dir).unwrap();
    for number in numbers {
        journal.append(&record(number, 0)).await.unwrap();
    }
}

#[tokio::test]
async fn records_survive_a_restart_and_a_second_process_is_refused() {
    let dir = tempdir().unwrap();
    let journal = reopen(dir.path()).unwrap();
    journal.append(&record(1, 0)).await.unwrap();
    assert!(matches!(Journal::open(dir.path()), Err(Error::JournalInUse { .. })));
    drop(journal);
    let journal = reopen(dir.path()).unwrap();
    let transaction = TransactionId::new(id(1));
    assert_eq!(journal.latest(transaction).unwrap(), Some(record(1, 0)));
    assert_eq!(journal.latest(TransactionId::new(id(2))).unwrap(), None);
    journal.append(&record(2, 0)).await.unwrap();
    expect![[r#"
        1 Call Charged Processed 1000
        2 Call Charged Processed 1000
    "#]]
    .assert_eq(&shown(&records(dir.path())));
}

#[tokio::test]
async fn a_record_that_is_truncated_anywhere_is_removed() {
    let dir = tempdir().unwrap();
    write(dir.path(), 1..3).await;
    let whole = read_bytes(dir.path().join(FILE)).unwrap();
    let second = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for end in (second..whole.len()).step_by(7).chain([whole.len() - 1, whole.len()]) {
        let copy = tempdir().unwrap();
        write_bytes(copy.path().join(FILE), &whole[..end]).unwrap();
        let complete = if end == whole.len() { 2 } else { 1 };
        assert_eq!(records(copy.path()).len(), complete, "read, truncated at {end}");
        let journal = reopen(copy.path()).unwrap();
        journal.append(&record(7, 0)).await.unwrap();
        let found = records(copy.path());
        assert_eq!(found.len(), complete + 1, "opened, truncated at {end}");
        assert_eq!(found.last(), Some(&record(7, 0)), "truncated at {end}");
    }
}

#[tokio::test]
async fn garbage_at_the_end_is_removed() {
    for garbage in [&b"\n\n\n"[..], &[0; 5_000], &[b'x'; LINE_BYTES_MAX * 2], b"00000000 "] {
        let dir = tempdir().unwrap();
        write(dir.path(), 1..2).await;
        let path = dir.path().join(FILE);
        let clean = read_bytes(&path).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(garbage).unwrap();
        drop(reopen(dir.path()).unwrap());
        assert_eq!(read_bytes(&path).unwrap(), clean);
    }
}

#[tokio::test]
async fn a_changed_durable_record_is_reported_and_not_removed() {
    let dir = tempdir().unwrap();
    write(dir.path(), 1..4).await;
    let path = dir.path().join(FILE);
    let mut bytes = read_bytes(&path).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 100] ^= 1;
    write_bytes(&path, &bytes).unwrap();
    let error = retry(|| Journal::open(dir.path())).map(drop).unwrap_err();
    let at = second as u64;
    assert!(matches!(error, Error::JournalCorrupt { offset, .. } if offset == at), "{error}");
    assert_eq!(read_bytes(&path).unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_appends_are_all_durable_and_keep_their_notification_numbers() {
    const MANY: u128 = 2_000;
    let dir = tempdir().unwrap();
    let journal = Arc::new(reopen(dir.path()).unwrap());
    let writers: Vec<_> = (0..MANY)
        .map(|number| {
            let journal = Arc::clone(&journal);
            let notifications = u8::try_from(number % 3).unwrap();
            tokio::spawn(async move { journal.append(&record(number, notifications)).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    let sent = journal.notifications_after(0, usize::MAX).unwrap();
    assert_eq!(sent.len() as u128, (0..MANY).map(|number| number % 3).sum());
    assert_eq!(*journal.notification_count().borrow(), sent.len() as u64);
    assert_eq!(journal.notifications_after(5, 7).unwrap(), sent[5..12]);
    drop(journal);
    let journal = reopen(dir.path()).unwrap();
    assert_eq!(journal.notifications_after(0, usize::MAX).unwrap(), sent);
    for number in 0..MANY {
        let found = journal.latest(TransactionId::new(id(number))).unwrap();
        assert_eq!(found.map(|found| found.transaction), Some(TransactionId::new(id(number))));
    }
}
