//! Claims: who has which key.
//!
//! Clients choose keys, so that their hashes are random: each row put into `claim` would change a
//! page of its own. New claims are therefore appended to `claim_recent` and held in memory. Once
//! there is a run of them, it is merged into `claim` in the order of its hashes, where neighbours
//! share pages: a slice with each commit that adds claims, and then its rows are deleted. See
//! `docs/decisions/0010-recent-claims.md`.
//!
//! A key that is released (a customer's address, once they are forgotten) is a claim of nobody's until
//! it is merged, which deletes its row.
//!
//! What is looked for is in the young run, else in the run that is merged, else in `claim`. Memory
//! follows the database: it learns of a claim after the commit that made it, and forgets one after
//! the commit that put it into `claim`.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Bound;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use domain::state::{Claim, ClaimKey, ClaimKind};
use domain::{PartitionNo, TenantNo};
use engine::ports::StoreError;
use uuid::Uuid;

use crate::driver::{Database, Reader, Value};
use crate::rows::{self, ClaimHash};
use crate::tables::{self, CLAIM, CLAIM_RECENT};

/// How many rows of a run a commit deletes for each claim that it adds: they are next to each
/// other. See [`moved_per`] for those that it moves first: a run of R claims is moved while 4/5 R
/// others are added, and deleted while another R/8 are, which is before the next run is full.
const DELETED_PER_ADDED: usize = 8;

/// Comes after every hash.
const LAST: ClaimHash = [0xff; 16];

static SELECT_RECENT: LazyLock<String> = LazyLock::new(|| CLAIM_RECENT.select("ORDER BY n"));
static SELECT_NEWER: LazyLock<String> = LazyLock::new(|| {
    CLAIM_RECENT.select("WHERE n >= ?1 AND key_hash = ?2 ORDER BY n DESC LIMIT 1")
});
static SELECT_CLAIM: LazyLock<String> = LazyLock::new(|| CLAIM.select("WHERE key_hash = ?1"));

/// The owner of a key that nobody has any more, until its row is gone.
const NOBODY: Uuid = Uuid::nil();

/// Claims by their hashes.
pub(crate) type Run = BTreeMap<ClaimHash, Claimed>;

/// Who had a key when a batch was loaded; `None` where nobody had.
pub(crate) type Owners = BTreeMap<ClaimHash, Option<Uuid>>;

/// A claim with what its hash was made of, but for the key itself.
#[derive(Clone, Copy)]
pub(crate) struct Claimed {
    pub(crate) tenant: TenantNo,
    pub(crate) kind: ClaimKind,
    pub(crate) claim: Claim,
}

impl Claimed {
    /// A key that nobody has any more.
    pub(crate) fn released(key: &ClaimKey) -> Self {
        let claim = Claim { owner: NOBODY, account: None };
        Self { tenant: key.tenant, kind: key.kind, claim }
    }

    /// Whether nobody has the key any more.
    pub(crate) const fn is_released(&self) -> bool {
        self.claim.owner.is_nil()
    }
}

/// The claims that memory knows; the writer and the readers of a process share them. A reader that
/// shares them with no writer knows none, and reads all of `claim_recent` for each key.
#[derive(Default)]
pub(crate) struct RecentClaims {
    runs: RwLock<Runs>,
}

#[derive(Default)]
struct Runs {
    young: Run,
    merging: Run,
    /// The number of the first row that is not known here; `i64::MAX` where `claim_recent` is not
    /// used.
    next: i64,
}

impl RecentClaims {
    /// Those of a database that nobody writes.
    pub(crate) fn of(run: Run) -> Self {
        Self { runs: RwLock::new(Runs { young: run, ..Runs::default() }) }
    }

    /// Begins to look for a key. A reader does so before its snapshot begins: what has left memory
    /// is in `claim` then.
    pub(crate) fn seek(&self, key: &ClaimKey) -> Sought {
        let hash = rows::claim_hash(key);
        let runs = self.shared();
        let known = runs.young.get(&hash).or_else(|| runs.merging.get(&hash)).copied();
        Sought { hash, tenant: key.tenant, kind: key.kind, known, next: runs.next }
    }

    /// Who has which key, if anybody has: for the writer, behind whom memory never is.
    pub(crate) fn find_known(
        &self,
        reader: &Reader,
        keys: &[&ClaimKey],
    ) -> Result<Vec<Option<Claim>>, StoreError> {
        let mut sought: Vec<Sought> = keys.iter().map(|key| self.seek(key)).collect();
        let unknown: Vec<usize> =
            (0..sought.len()).filter(|at| sought[*at].known.is_none()).collect();
        let hashes: Vec<[Value<'_>; 1]> =
            unknown.iter().map(|at| [Value::Id(sought[*at].hash)]).collect();
        reader.for_keys(&SELECT_CLAIM, &hashes, |at, cells| {
            sought[unknown[at]].known = Some(rows::claim(cells)?.1);
            Ok(())
        })?;
        let claim_of = |it: &Sought| it.known.map_or(Ok(None), |known| it.claim(&known));
        sought.iter().map(claim_of).collect()
    }

    /// The next claims of the run that is merged, in the order of their hashes.
    fn slice(&self, after: Option<ClaimHash>, most: usize) -> Vec<(ClaimHash, Claimed)> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let runs = self.shared();
        let rest = runs.merging.range((after, Bound::Unbounded));
        rest.take(most).map(|(hash, claimed)| (*hash, *claimed)).collect()
    }

    fn shared(&self) -> RwLockReadGuard<'_, Runs> {
        // Nothing panics while it is locked for writing, so that it is whole even if poisoned.
        self.runs.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, Runs> {
        self.runs.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key that is looked for.
pub(crate) struct Sought {
    hash: ClaimHash,
    tenant: TenantNo,
    kind: ClaimKind,
    known: Option<Claimed>,
    next: i64,
}

impl Sought {
    /// Who has the key in what a reader sees, if anybody has. That may be ahead of memory.
    pub(crate) fn find(&self, reader: &Reader) -> Result<Option<Claim>, StoreError> {
        if self.next == i64::MAX {
            return self.find_known(reader);
        }
        let parameters = [self.next.into(), Value::Id(self.hash)];
        match reader.load(&SELECT_NEWER)?.first(&parameters, rows::recent_claim)? {
            Some((_, (_, newer))) => self.claim(&newer),
            None => self.find_known(reader),
        }
    }

    /// Who has the key, if anybody has: for the writer, behind whom memory never is.
    pub(crate) fn find_known(&self, reader: &Reader) -> Result<Option<Claim>, StoreError> {
        if let Some(known) = &self.known {
            return self.claim(known);
        }
        let merged = reader.load(&SELECT_CLAIM)?.first(&[Value::Id(self.hash)], rows::claim)?;
        merged.map_or(Ok(None), |(_, claimed)| self.claim(&claimed))
    }

    fn claim(&self, found: &Claimed) -> Result<Option<Claim>, StoreError> {
        if (found.tenant, found.kind) == (self.tenant, self.kind) {
            return Ok((!found.is_released()).then_some(found.claim));
        }
        let reason = "is of another tenant or kind than its hash".to_owned();
        Err(StoreError::Corrupt { table: CLAIM.name, reason })
    }
}

/// The writer's side: adds claims, and merges them.
pub(crate) struct Claims {
    recent: Arc<RecentClaims>,
    /// How many rows make a run; `None` where each claim is put into `claim` at once.
    run_rows: Option<usize>,
    stored: Stored,
}

/// What `claim_recent` has. A commit yields the next of these, which holds once it is durable.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stored {
    /// The number of the first row, and of the next one.
    first: i64,
    next: i64,
    merge: Option<Merge>,
}

/// A run on its way into `claim`: the rows before `end`. The claims up to and with `after` are
/// there; if that is [`LAST`], all are, and their rows are being deleted.
#[derive(Clone, Copy)]
struct Merge {
    end: i64,
    after: Option<ClaimHash>,
}

impl Stored {
    /// The columns of the partition that say how far a run is merged.
    pub(crate) fn columns(&self) -> [Value<'static>; 2] {
        let after = self.merge.and_then(|it| it.after).map_or(Value::Null, Value::Id);
        [self.merge.map(|it| it.end).into(), after]
    }
}

impl Claims {
    /// Knows nothing before [`Claims::recall`]. `run_rows` are as many as make a run; without, each
    /// claim is put into `claim` at once, as suits a database that does not log whole pages.
    pub(crate) fn new(run_rows: Option<usize>) -> Self {
        let next = if run_rows.is_some() { 0 } else { i64::MAX };
        let runs = RwLock::new(Runs { next, ..Runs::default() });
        Self { recent: Arc::new(RecentClaims { runs }), run_rows, stored: Stored::default() }
    }

    /// Whether each claim is put into `claim` at once.
    pub(crate) const fn are_put_at_once(&self) -> bool {
        self.run_rows.is_none()
    }

    /// What is shared with the readers.
    pub(crate) const fn recent(&self) -> &Arc<RecentClaims> {
        &self.recent
    }

    /// Reads what the database has.
    pub(crate) fn recall(&mut self, reader: &Reader) -> Result<(), StoreError> {
        if self.run_rows.is_none() {
            return Ok(());
        }
        let merge = read_merge(reader)?;
        // A number that was given is not given again: readers go by them.
        let begin = self.stored.next;
        let mut stored = Stored { first: begin, next: begin, merge };
        let (mut runs, mut is_first) = (Runs::default(), true);
        each_recent(reader, |n, hash, claimed| {
            if mem::take(&mut is_first) {
                stored.first = n;
            }
            stored.next = begin.max(n + 1);
            match merge {
                Some(merge) if n < merge.end => {
                    if Some(hash) > merge.after {
                        runs.merging.insert(hash, claimed);
                    }
                }
                _ => {
                    runs.young.insert(hash, claimed);
                }
            }
        })?;
        self.settle(stored, &mut runs);
        *self.recent.alone() = runs;
        Ok(())
    }

    /// Adds claims, and merges some where a run is merged. Part of what was begun. Where they are
    /// put into `claim` at once, `owners` are those that the batch found when it was loaded.
    ///
    /// # Errors
    /// [`StoreError::KeyTaken`] where one of these has changed since.
    pub(crate) fn write(
        &self,
        db: &Database,
        added: &Run,
        owners: &Owners,
    ) -> Result<Stored, StoreError> {
        let mut stored = self.stored;
        if added.is_empty() {
            return Ok(stored);
        }
        if self.run_rows.is_none() {
            take_all(db, added, owners)?;
            return Ok(stored);
        }
        let mut put = db.insert(&CLAIM_RECENT)?;
        for (hash, claimed) in added {
            put.row(&rows::recent_claim_row(stored.next, *hash, claimed))?;
            stored.next += 1;
        }
        let Some(merge) = &mut stored.merge else { return Ok(stored) };
        if merge.after != Some(LAST) {
            let slice = self.recent.slice(merge.after, moved_per(added.len()));
            put_all(db, slice.iter().copied())?;
            let is_last = slice.len() < moved_per(added.len());
            merge.after = slice.last().map(|(hash, _)| *hash).filter(|_| !is_last).or(Some(LAST));
        }
        if merge.after == Some(LAST) {
            let most = i64::try_from(added.len() * DELETED_PER_ADDED).unwrap_or(i64::MAX);
            stored.first = merge.end.min(stored.first.saturating_add(most));
            db.exec("DELETE FROM claim_recent WHERE n < ?1", &[stored.first.into()])?;
            if stored.first == merge.end {
                stored.merge = None;
            }
        }
        Ok(stored)
    }

    /// What [`Claims::write`] wrote is durable now.
    pub(crate) fn written(&mut self, stored: Stored, added: &Run) {
        if added.is_empty() || self.run_rows.is_none() {
            return;
        }
        let recent = Arc::clone(&self.recent);
        let mut runs = recent.alone();
        runs.young.extend(added.iter().map(|(hash, claimed)| (*hash, *claimed)));
        let is_moving = stored.merge.is_some_and(|it| it.after != Some(LAST));
        let moved = if is_moving { Run::new() } else { mem::take(&mut runs.merging) };
        self.settle(stored, &mut runs);
        drop(runs);
        // Readers do not wait for it.
        drop(moved);
    }

    /// Takes over what is stored now, and begins to merge what has become a run.
    fn settle(&mut self, mut stored: Stored, runs: &mut Runs) {
        runs.next = stored.next;
        let rows = usize::try_from(stored.next - stored.first).unwrap_or(0);
        if stored.merge.is_none() && self.run_rows.is_some_and(|run| rows >= run) {
            runs.merging = mem::take(&mut runs.young);
            stored.merge = Some(Merge { end: stored.next, after: None });
        }
        self.stored = stored;
    }
}

/// Puts claims into `claim`, beside other writers: in the order of their hashes, so that no two wait
/// for each other. Claims that the batch did not look for are what succeeded after all: they hold
/// whoever has the key.
fn take_all(db: &Database, added: &Run, owners: &Owners) -> Result<(), StoreError> {
    let mut insert = db.insert(&CLAIM)?;
    let made = added.iter().filter(|(hash, _)| owners.get(*hash) == Some(&None));
    for (hash, claimed) in made.filter(|(_, claimed)| !claimed.is_released()) {
        insert.row(&rows::claim_row(*hash, claimed))?;
    }
    for (hash, claimed) in added {
        match owners.get(hash) {
            Some(None) => {}
            Some(Some(owner)) if claimed.is_released() => {
                let sql = "DELETE FROM claim WHERE key_hash = ?1 AND owner = ?2";
                let row = [Value::Id(*hash), (*owner).into()];
                db.require(sql, &row, StoreError::KeyTaken)?;
            }
            Some(Some(owner)) => {
                let sql = "UPDATE claim SET owner = ?3, account_id = ?4 \
                           WHERE key_hash = ?1 AND owner = ?2";
                let claim = claimed.claim;
                let row =
                    [Value::Id(*hash), (*owner).into(), claim.owner.into(), claim.account.into()];
                db.require(sql, &row, StoreError::KeyTaken)?;
            }
            None => put_all(db, [(*hash, *claimed)].into_iter())?,
        }
    }
    Ok(())
}

fn put_all(
    db: &Database,
    claims: impl Iterator<Item = (ClaimHash, Claimed)>,
) -> Result<(), StoreError> {
    let mut put = db.upsert(&CLAIM)?;
    let mut released = vec![];
    for (hash, claimed) in claims {
        match claimed.is_released() {
            true => released.push([Value::Id(hash)]),
            false => put.row(&rows::claim_row(hash, &claimed))?,
        }
    }
    if released.is_empty() {
        return Ok(());
    }
    let mut delete = db.prepare("DELETE FROM claim WHERE key_hash = ?1")?;
    released.iter().try_for_each(|key| delete.row(key))
}

/// How many claims of a run a commit puts into `claim` when it adds so many others.
const fn moved_per(added: usize) -> usize {
    added + added.div_ceil(4)
}

/// All claims of `claim_recent`; of those with one hash, the last.
pub(crate) fn read_recent(reader: &Reader) -> Result<Run, StoreError> {
    let mut run = Run::new();
    each_recent(reader, |_, hash, claimed| {
        run.insert(hash, claimed);
    })?;
    Ok(run)
}

/// Gives each row of `claim_recent` to `each`, in order.
fn each_recent(
    reader: &Reader,
    mut each: impl FnMut(i64, ClaimHash, Claimed),
) -> Result<(), StoreError> {
    reader.for_each(&SELECT_RECENT, &[], |cells| {
        let (n, (hash, claimed)) = rows::recent_claim(cells)?;
        each(n, hash, claimed);
        Ok(())
    })
}

fn read_merge(reader: &Reader) -> Result<Option<Merge>, StoreError> {
    let sql = "SELECT claims_end, claims_after FROM partition WHERE id = ?1";
    let merge = reader.query_one(sql, &[PartitionNo::FIRST.number().into()], |cells| {
        cells.of(&tables::PARTITION);
        let (end, after) = (cells.opt_int()?, cells.opt_id()?);
        Ok(end.map(|end| Merge { end, after: after.map(|id| id.into_bytes()) }))
    })?;
    Ok(merge.flatten())
}
