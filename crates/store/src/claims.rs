//! Claims: who has which key.
//!
//! Clients choose keys, so that their hashes are random: each row put into `claim` would change a
//! page of its own. New claims are therefore appended to `claim_recent` and held in memory. Once
//! there is a run of them, it is merged into `claim` in the order of its hashes, where neighbours
//! share pages: a slice with each commit that adds claims, and then its rows are deleted. See
//! `docs/decisions/0010-recent-claims.md`.
//!
//! What is looked for is in the young run, else in the run that is merged, else in `claim`. Memory
//! follows the database: it learns of a claim after the commit that made it, and forgets one after
//! the commit that put it into `claim`.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Bound;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use domain::TenantNo;
use domain::state::{Claim, ClaimKey, ClaimKind};
use engine::ports::StoreError;

use crate::batch::NewClaims;
use crate::rows::{self, ClaimHash};
use crate::sqlite::{Database, Reader, Value};
use crate::tables::{CLAIM, CLAIM_RECENT};

/// How many claims of a run a commit puts into `claim` for each that it adds. With this, a run is
/// merged before the next one is full.
const MOVED_PER_ADDED: usize = 2;
/// How many rows of a run a commit deletes for each that it adds: they are next to each other.
const DELETED_PER_ADDED: usize = 8;
/// A run that is this many times as long as it should be comes from a process that was killed again
/// and again before it had merged one: the next commit then merges all of it.
const OVERLONG: usize = 3;

static SELECT_RECENT: LazyLock<String> = LazyLock::new(|| CLAIM_RECENT.select("ORDER BY n"));
static SELECT_CLAIM: LazyLock<String> = LazyLock::new(|| CLAIM.select("WHERE key_hash = ?1"));

/// The claims that may not be in `claim` yet; the writer and the readers of a process share them.
#[derive(Default)]
pub(crate) struct RecentClaims {
    runs: RwLock<Runs>,
}

#[derive(Default)]
struct Runs {
    young: Run,
    merging: Run,
}

/// Claims by their hashes.
pub(crate) type Run = BTreeMap<ClaimHash, Claimed>;

/// A claim with what its hash was made of, but for the key itself.
#[derive(Clone, Copy)]
pub(crate) struct Claimed {
    pub(crate) tenant: TenantNo,
    pub(crate) kind: ClaimKind,
    pub(crate) claim: Claim,
}

impl RecentClaims {
    /// Those of a run alone.
    pub(crate) fn of(young: Run) -> Self {
        Self { runs: RwLock::new(Runs { young, merging: Run::new() }) }
    }

    /// Begins to look for a key. A reader does so before its snapshot begins: what is not in
    /// memory any more is in `claim` then.
    pub(crate) fn seek(&self, key: &ClaimKey) -> Sought {
        let hash = rows::claim_hash(key);
        let runs = self.shared();
        let recent = runs.young.get(&hash).or_else(|| runs.merging.get(&hash)).copied();
        Sought { hash, tenant: key.tenant, kind: key.kind, recent }
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
    recent: Option<Claimed>,
}

impl Sought {
    /// Who has the key, if anybody has.
    pub(crate) fn find(&self, reader: &Reader) -> Result<Option<Claim>, StoreError> {
        let found = match self.recent {
            Some(recent) => Some(recent),
            None => reader
                .load(&SELECT_CLAIM)?
                .first(&[Value::Id(self.hash)], rows::claim)?
                .map(|(_, it)| it),
        };
        match found {
            Some(it) if (it.tenant, it.kind) != (self.tenant, self.kind) => {
                let reason = "is of another tenant or kind than its hash".to_owned();
                Err(StoreError::Corrupt { table: CLAIM.name, reason })
            }
            found => Ok(found.map(|it| it.claim)),
        }
    }
}

/// The writer's side: adds claims, and merges them.
pub(crate) struct Claims {
    recent: Arc<RecentClaims>,
    /// How many rows make a run.
    run_rows: usize,
    stored: Stored,
    /// Whether memory is what the database has.
    is_known: bool,
}

/// What `claim_recent` has. A commit yields the next of these, which holds once it is durable.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stored {
    /// The number of the first row, and of the next one.
    first: i64,
    next: i64,
    merge: Option<Merge>,
}

/// A run on its way into `claim`: the rows before `end`.
#[derive(Clone, Copy)]
enum Merge {
    /// The claims up to and with `after` are there.
    Moving { end: i64, after: Option<ClaimHash> },
    /// All are there; their rows are being deleted.
    Deleting { end: i64 },
}

impl Claims {
    /// Knows nothing before [`Claims::recall`].
    pub(crate) fn new(run_rows: usize) -> Self {
        let (recent, stored) = (Arc::default(), Stored::default());
        Self { recent, run_rows, stored, is_known: false }
    }

    /// What is shared with the readers.
    pub(crate) const fn recent(&self) -> &Arc<RecentClaims> {
        &self.recent
    }

    /// Reads what the database has, unless it is known. A merge begins anew then.
    pub(crate) fn recall(&mut self, reader: &Reader) -> Result<(), StoreError> {
        if self.is_known {
            return Ok(());
        }
        let (stored, young) = read(reader)?;
        let mut runs = Runs { young, merging: Run::new() };
        self.settle(stored, &mut runs);
        *self.recent.alone() = runs;
        self.is_known = true;
        Ok(())
    }

    /// After a commit whose outcome is unknown.
    pub(crate) const fn doubt(&mut self) {
        self.is_known = false;
    }

    /// Adds claims, and merges some where a run is merged. Part of what was begun.
    pub(crate) fn write(&self, db: &Database, added: &NewClaims) -> Result<Stored, StoreError> {
        let mut stored = self.stored;
        if added.is_empty() {
            return Ok(stored);
        }
        let mut put = db.insert(&CLAIM_RECENT)?;
        for (hash, claimed) in added {
            put.row(&rows::recent_claim_row(stored.next, *hash, claimed))?;
            stored.next += 1;
        }
        if let Some(Merge::Moving { end, after }) = stored.merge {
            let most = self.most(end, added.len() * MOVED_PER_ADDED);
            let slice = self.recent.slice(after, most);
            let mut put = db.upsert(&CLAIM)?;
            for (hash, claimed) in &slice {
                put.row(&rows::claim_row(*hash, claimed))?;
            }
            stored.merge = Some(match slice.last() {
                Some((last, _)) if slice.len() == most => Merge::Moving { end, after: Some(*last) },
                _ => Merge::Deleting { end },
            });
        }
        if let Some(Merge::Deleting { end }) = stored.merge {
            let most = self.most(end, added.len() * DELETED_PER_ADDED);
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            stored.first = end.min(stored.first.saturating_add(most));
            db.exec("DELETE FROM claim_recent WHERE n < ?1", &[stored.first.into()])?;
            stored.merge = (stored.first < end).then_some(Merge::Deleting { end });
        }
        Ok(stored)
    }

    /// What [`Claims::write`] wrote is durable now.
    pub(crate) fn written(&mut self, stored: Stored, added: &NewClaims) {
        if added.is_empty() {
            return;
        }
        let recent = Arc::clone(&self.recent);
        let mut runs = recent.alone();
        runs.young.extend(added.iter().map(|(hash, claimed)| (*hash, *claimed)));
        let moved = match stored.merge {
            Some(Merge::Moving { .. }) => Run::new(),
            Some(Merge::Deleting { .. }) | None => mem::take(&mut runs.merging),
        };
        self.settle(stored, &mut runs);
        drop(runs);
        // Readers do not wait for it.
        drop(moved);
    }

    /// Takes over what is stored now, and begins to merge what has become a run.
    fn settle(&mut self, stored: Stored, runs: &mut Runs) {
        self.stored = stored;
        if stored.merge.is_none() && self.rows_before(stored.next) >= self.run_rows {
            runs.merging = mem::take(&mut runs.young);
            self.stored.merge = Some(Merge::Moving { end: stored.next, after: None });
        }
    }

    /// How much of the run that ends at `end` a commit takes on, where `usual` is usual.
    fn most(&self, end: i64, usual: usize) -> usize {
        let is_overlong = self.rows_before(end) > OVERLONG * self.run_rows;
        if is_overlong { usize::MAX } else { usual }
    }

    fn rows_before(&self, end: i64) -> usize {
        usize::try_from(end - self.stored.first).unwrap_or(0)
    }
}

/// All claims of `claim_recent`.
pub(crate) fn read_recent(reader: &Reader) -> Result<Run, StoreError> {
    read(reader).map(|(_, run)| run)
}

fn read(reader: &Reader) -> Result<(Stored, Run), StoreError> {
    let (mut stored, mut run) = (Stored::default(), Run::new());
    reader.for_each(&SELECT_RECENT, &[], |cells| {
        let (n, (hash, claimed)) = rows::recent_claim(cells)?;
        if run.is_empty() {
            stored.first = n;
        }
        stored.next = n + 1;
        // Of those with one hash, the last holds.
        run.insert(hash, claimed);
        Ok(())
    })?;
    Ok((stored, run))
}
