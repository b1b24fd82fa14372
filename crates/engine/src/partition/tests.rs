//! Tests of a partition with batches that its store refuses, and of how they are split.

use std::collections::BTreeMap;
use std::time::Instant;

use domain::account::{CreateAccount, ReleaseAccount, UpdateAccount};
use domain::change::AccountChange;
use domain::command::AccountCommand;
use domain::payment::ReplyKey;
use domain::read::AccountRead;
use domain::{Currency, Person, RequestId, TenantNo};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::*;
use crate::lane::Lane;
use crate::pending_batch::PendingBatch;
use crate::ports::{Cause, Opened, StoredReply};

const TENANT: TenantNo = TenantNo(1);

#[test]
fn the_kind_of_an_answer_quotes_nothing() {
    let invalid = Rejection::invalid("email", "\"ann@example.com\" is none");
    let kind = Answer::Refused(invalid).kind();
    assert!(kind.starts_with("Refused.") && !kind.contains("ann"), "{kind}");
    assert_eq!(Answer::StillRunning.kind(), "StillRunning");
    assert_eq!(Answer::Replied(domain::Reply::Done).kind(), "Replied.Done");
}

/// Accounts in memory. It refuses a person named "Refused", and cannot read the account of one named
/// "Corrupt".
#[derive(Default)]
struct MemoryStore {
    state: State,
    replies: BTreeMap<ReplyKey, StoredReply>,
    next_seq: i64,
    commits: usize,
    opened: usize,
    /// Whether it can only be read once it is opened.
    is_full: bool,
    queue_offset: Option<i64>,
    quarantined: BTreeSet<(TenantNo, AccountId)>,
    /// The errors of the next commits, the last commit's first.
    failures: Vec<StoreError>,
}

impl MemoryStore {
    fn check(&self, entry: &Entry) -> Result<(), StoreError> {
        for change in &entry.changes {
            if let Change::Account(AccountChange::Person { person, .. }) = change
                && person.name.as_deref() == Some("Refused")
            {
                return Err(StoreError::Refused(Cause::new("name")));
            }
            if let Change::Account(AccountChange::Account(it)) = change
                && it.revision.previous.is_none()
                && self.state.account.accounts.find(&(it.tenant, it.id)).is_some()
            {
                return Err(StoreError::Repeated(Cause::new(format!("account {}", it.id))));
            }
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn open(&mut self) -> Result<Opened, StoreError> {
        self.opened += 1;
        let next_seq = Seq(self.next_seq + 1);
        let sequences = Sequences { payment_number: 1, tenant_no: 2 };
        let (queue_offset, is_writable) = (self.queue_offset, !self.is_full);
        let quarantined = self.quarantined.clone();
        Ok(Opened { next_seq, sequences, queue_offset, is_writable, quarantined })
    }

    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        replies: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError> {
        let mut state = State::default();
        for read in reads {
            if let Read::Account(AccountRead::Account(tenant, id)) = read {
                let key = (*tenant, *id);
                let account = self.state.account.accounts.find(&key).cloned();
                let person = self.state.account.people.get(&key);
                if person.is_some_and(|it| it.name.as_deref() == Some("Corrupt")) {
                    return Err(StoreError::Corrupt { table: "account", reason: String::new() });
                }
                state.account.accounts.set(key, account);
            }
            if let Read::Claim(key) = read {
                let claim = self.state.claims.get(key).cloned().flatten();
                state.claims.insert(key.clone(), claim);
            }
        }
        let found = replies.iter().filter_map(|key| self.replies.get(key));
        Ok(Loaded { state, replies: found.map(|it| (it.key, it.clone())).collect() })
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if let Some(failure) = self.failures.pop() {
            return Err(failure);
        }
        batch.entries.iter().try_for_each(|entry| self.check(entry))?;
        for entry in &batch.entries {
            self.state.apply(entry.tenant, &entry.changes);
            self.next_seq = entry.seq.0;
        }
        for row in &batch.bookkeeping {
            if let Bookkeeping::Quarantined(it) = row {
                self.quarantined.insert((it.tenant, it.account));
            } else if let Bookkeeping::Released { tenant, account } = row {
                self.quarantined.remove(&(*tenant, *account));
            }
        }
        self.replies.extend(batch.replies.iter().map(|it| (it.key, it.clone())));
        self.queue_offset = batch.queue_offset.or(self.queue_offset);
        self.commits += 1;
        Ok(())
    }
}

struct Scene {
    partition: Partition<MemoryStore>,
    times: Times,
}

impl Scene {
    fn new() -> Self {
        let settings = Settings::without_gateways(1, 1);
        let partition = Partition::open(MemoryStore::default(), Arc::new(settings))
            .expect("memory can be opened");
        let times = Times { now: Timestamp(1), real_now: Timestamp(1) };
        Self { partition, times }
    }

    /// Processes works as the partition's thread does: in halves, where a row is refused. Shows
    /// what came of each, and of how many.
    fn batch(&mut self, works: &[&str]) -> String {
        let mut batch = PendingBatch::default();
        for text in works {
            let work = Work::Request(Box::new(request(text)));
            batch.add(work, oneshot::channel().0, (Lane::Request, None), Instant::now());
        }
        let before = self.partition.store().commits;
        let mut verdicts = vec![];
        self.settle(batch, &mut verdicts);
        let commits = self.partition.store().commits - before;
        format!("{} in {commits} commits", verdicts.join(", "))
    }

    fn settle(&mut self, mut batch: PendingBatch, verdicts: &mut Vec<String>) {
        let processed = self.process(&batch.works);
        if processed.commit == CommitOutcome::RowRefused {
            let later = batch.split_off();
            self.settle(batch, verdicts);
            return self.settle(later, verdicts);
        }
        verdicts.extend(processed.verdicts.iter().map(|verdict| match verdict {
            Verdict::Answered(Answer::Replied(_)) => "done".to_owned(),
            Verdict::Answered(Answer::Refused(_)) => "refused".to_owned(),
            other @ (Verdict::Answered(_) | Verdict::Waits(_)) => format!("{other:?}"),
            Verdict::Unavailable(reason) => format!("{reason:?}"),
        }));
    }

    fn process(&mut self, works: &[Work]) -> Processed {
        self.partition.process(works, self.times, &mut |_, _| Ok(()))
    }
}

fn create_account(person: &str) -> Command {
    Command::Account(AccountCommand::Create(Box::new(create(person))))
}

/// `create ACCOUNT [PERSON]`, `rename ACCOUNT PERSON` and `release ACCOUNT`. The same account is always made by the same request.
fn request(text: &str) -> Request {
    let words: Vec<&str> = text.split(' ').collect();
    let creation = RequestId(Uuid::from_bytes(name_bytes(words[1])));
    let (id, command) = match words[..] {
        ["create", _] => (creation, create_account("Ann")),
        ["create", _, person] => (creation, create_account(person)),
        ["rename", _, person] => {
            let update = rename(creation.entity(0), person);
            (RequestId(Uuid::now_v7()), Command::Account(AccountCommand::Update(Box::new(update))))
        }
        ["release", _] => {
            let release = ReleaseAccount { account: creation.entity(0) };
            (RequestId(Uuid::now_v7()), Command::Account(AccountCommand::Release(release)))
        }
        _ => panic!("no such work: {text}"),
    };
    let actor = Actor::new("test", "test", Uuid::nil());
    Request { id, tenant: TENANT, actor, idempotency: None, command }
}

fn name_bytes(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

fn create(person: &str) -> CreateAccount {
    CreateAccount {
        person: Person { name: Some(person.to_owned()), ..Person::default() },
        currency: Currency::parse("USD"),
        ..CreateAccount::default()
    }
}

fn rename(account: AccountId, person: &str) -> UpdateAccount {
    UpdateAccount {
        person: Person { name: Some(person.to_owned()), ..Person::default() },
        ..UpdateAccount::unchanged(account)
    }
}

fn check(batches: &[(&[&str], &str)]) {
    let mut scene = Scene::new();
    for (works, expected) in batches {
        assert_eq!(scene.batch(works), *expected, "{works:?} of {batches:?}");
    }
}

#[test]
fn a_batch_is_one_commit() {
    check(&[(&["create a", "create b"], "done, done in 1 commits")]);
}

#[test]
fn a_batch_with_a_refused_row_is_split_until_the_command_to_blame_is_alone() {
    let works = ["create a", "create b Refused", "create c", "create d"];
    check(&[(&works, "done, Bug, done, done in 3 commits")]);
    let works = ["create a Refused", "create b", "create c Refused"];
    check(&[(&works, "Bug, done, Bug in 3 commits")]);
}

#[test]
fn a_command_that_writes_what_is_refused_quarantines_its_account_only() {
    check(&[
        (&["create a", "create b"], "done, done in 1 commits"),
        (&["rename a Refused", "rename b Ben"], "Bug, done in 2 commits"),
        (&["rename a Ann", "rename b Bob"], "Quarantined, done in 1 commits"),
    ]);
}

#[test]
fn an_account_is_out_of_service_until_it_is_released() {
    let mut scene = Scene::new();
    let mut check = |works: &[&str], expected: &str| assert_eq!(scene.batch(works), expected);
    check(&["create a", "create b"], "done, done in 1 commits");
    check(&["release a"], "refused in 1 commits");
    check(&["rename a Refused"], "Bug in 1 commits");
    // What another process finds.
    let store = std::mem::take(scene.partition.store());
    let settings = Arc::new(Settings::without_gateways(1, 1));
    scene.partition = Partition::open(store, settings).unwrap();
    let mut check = |works: &[&str], expected: &str| assert_eq!(scene.batch(works), expected);
    check(&["rename a Ann", "rename b Ben"], "Quarantined, done in 1 commits");
    // It was in service neither for what came with the release nor before that was durable.
    check(&["release a", "rename a Ann"], "done, Quarantined in 1 commits");
    check(&["rename a Ann"], "done in 1 commits");
    check(&["release a"], "refused in 1 commits");
}

#[test]
fn a_release_that_is_not_committed_releases_nothing() {
    let mut scene = Scene::new();
    assert_eq!(scene.batch(&["create a"]), "done in 1 commits");
    // Nor does a commit that fails take what was found out with it.
    scene.partition.store().failures = vec![StoreError::Refused(Cause::new(""))];
    assert_eq!(scene.batch(&["rename a Ann"]), "Bug in 1 commits");
    for failure in
        [StoreError::Database(Cause::new("")), StoreError::ConnectionLost(Cause::new(""))]
    {
        scene.partition.store().failures = vec![failure];
        assert_eq!(scene.batch(&["release a"]), "Store in 0 commits");
        assert_eq!(scene.batch(&["rename a Ann"]), "Quarantined in 1 commits");
    }
    assert_eq!(scene.batch(&["release a"]), "done in 1 commits");
    assert_eq!(scene.batch(&["rename a Ann"]), "done in 1 commits");
    assert!(scene.partition.store().quarantined.is_empty());
}

/// An account's quarantine is written before its release, in whichever batches the two are.
#[test]
fn a_released_account_is_in_service_in_the_database_too() {
    for failure in [StoreError::Database(Cause::new("")), StoreError::DiskFull] {
        let mut scene = Scene::new();
        assert_eq!(scene.batch(&["create a"]), "done in 1 commits");
        scene.partition.store().failures = vec![failure, StoreError::Refused(Cause::new(""))];
        // The command is to blame, and then the commit that would say so fails.
        drop(scene.batch(&["rename a Ann"]));
        assert!(scene.partition.store().quarantined.is_empty());
        assert_eq!(scene.batch(&["rename a Ann"]), "Quarantined in 1 commits");
        assert_eq!(scene.batch(&["release a"]), "done in 1 commits");
        assert!(scene.partition.store().quarantined.is_empty());
        assert_eq!(scene.batch(&["rename a Ann"]), "done in 1 commits");
    }
}

#[test]
fn a_repeated_command_is_not_executed_again_and_not_parked() {
    check(&[
        (&["create a"], "done in 1 commits"),
        (&["create b", "create a"], "done, Repeated in 2 commits"),
        (&["rename a Ann"], "done in 1 commits"),
    ]);
}

#[test]
fn a_row_that_cannot_be_read_parks_its_command_only() {
    check(&[
        (&["create a Corrupt", "create b"], "done, done in 1 commits"),
        (&["rename a Ann", "rename b Ben"], "Quarantined, done in 1 commits"),
    ]);
}

#[test]
fn a_partition_opened_on_a_full_disk_commits_once_there_is_room() {
    let full = MemoryStore { is_full: true, ..MemoryStore::default() };
    let settings = Arc::new(Settings::without_gateways(1, 1));
    let mut scene = Scene { partition: Partition::open(full, settings).unwrap(), ..Scene::new() };
    assert_eq!(scene.batch(&["create a"]), "DiskFull in 0 commits");
    assert_eq!(scene.batch(&["create a"]), "DiskFull in 0 commits");
    scene.partition.store().is_full = false;
    assert_eq!(scene.batch(&["create a"]), "done in 1 commits");
}

#[test]
fn a_failed_commit_has_one_outcome() {
    for (failure, expected, reopens) in [
        (StoreError::KeyTaken, CommitOutcome::KeyTaken, 0),
        (StoreError::Database(Cause::new("")), CommitOutcome::NothingWritten, 0),
        (StoreError::DiskFull, CommitOutcome::NothingWritten, 1),
        (StoreError::ConnectionLost(Cause::new("")), CommitOutcome::NothingWritten, 1),
        (StoreError::OutcomeUnknown(Cause::new("")), CommitOutcome::Lost, 1),
        (StoreError::NotOwner, CommitOutcome::Lost, 0),
    ] {
        let mut scene = Scene::new();
        let in_doubt =
            matches!(failure, StoreError::OutcomeUnknown(_) | StoreError::ConnectionLost(_));
        scene.partition.store().failures = vec![failure.clone()];
        let work = [Work::Request(Box::new(request("create a")))];
        let processed = scene.process(&work);
        assert_eq!(processed.commit, expected, "{failure}");
        assert_eq!(
            processed.changed.len(),
            if in_doubt { Changed::ALL.len() } else { 0 },
            "{failure}"
        );
        assert_eq!(scene.partition.store().opened, 1);
        let processed = scene.process(&work);
        assert!(processed.is_committed(), "{failure}: {processed:?}");
        assert_eq!(scene.partition.store().opened, 1 + reopens, "{failure}");
    }
}

#[test]
fn the_queue_offset_is_committed_with_a_parked_command() {
    let mut scene = Scene::new();
    let works = [Work::Request(Box::new(request("create a Refused"))), Work::ReadOn(7)];
    let processed = scene.process(&works);
    assert!(matches!(processed.verdicts[0], Verdict::Unavailable(Reason::Bug)), "{processed:?}");
    assert_eq!(scene.partition.store().queue_offset, Some(7));
}
