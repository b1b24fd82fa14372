//! Claims: the owners of unique keys.
//!
//! Clients choose keys, so that their hashes are random: each row put into `claim` would change a
//! page of its own. New claims are therefore appended to `claim_recent` and held in a memtable. Once
//! that is full, it is frozen, and compacted into `claim` in the order of its hashes, where neighbours
//! share pages: a slice with each commit that adds claims, and then its rows are deleted. See
//! `docs/decisions/0010-recent-claims.md`.
//!
//! A key that is released (the address of an erased customer) is a tombstone until it is compacted,
//! which deletes its row.
//!
//! A look-up goes to the memtable, then to the frozen one, then to `claim`. Memory
//! follows the database: it learns of a claim after the commit that made it, and forgets one after
//! the commit that put it into `claim`.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use domain::claim::{Claim, ClaimKey, ClaimKind};
use domain::{PartitionNo, TenantNo};
use engine::ports::StoreError;
use foldhash::{HashMap, HashMapExt as _};
use uuid::Uuid;

use crate::driver::{Database, Reader, Value};
use crate::tables::{self, CLAIM, CLAIM_RECENT, ClaimHash, Claimed};

/// How many rows of the frozen memtable a commit deletes for each claim that it adds: they are next to each
/// other. See [`moved_per`] for those that it moves first: a frozen memtable of R claims is moved while
/// 4/5 R others are added, and deleted while another R/8 are, which is before the next one is full.
const DELETED_PER_ADDED: usize = 8;

/// Comes after every hash.
const LAST: ClaimHash = [0xff; 16];

static SELECT_RECENT: LazyLock<String> = LazyLock::new(|| CLAIM_RECENT.select("ORDER BY n"));
static SELECT_NEWER: LazyLock<String> = LazyLock::new(|| {
    CLAIM_RECENT.select("WHERE n >= ?1 AND key_hash = ?2 ORDER BY n DESC LIMIT 1")
});
static SELECT_CLAIM: LazyLock<String> = LazyLock::new(|| CLAIM.select("WHERE key_hash = ?1"));

/// Claims by their hashes, in order.
pub(crate) type Memtable = BTreeMap<ClaimHash, Claimed>;

/// Owners of keys when a batch was loaded; `None` for a free key.
pub(crate) type Owners = BTreeMap<ClaimHash, Option<Uuid>>;

/// The claims that memory knows; the writer and the readers of a process share them. A reader that
/// shares them with no writer knows none, and reads all of `claim_recent` for each key.
#[derive(Default)]
pub(crate) struct RecentClaims {
    memtables: RwLock<Memtables>,
}

#[derive(Default)]
struct Memtables {
    active: HashMap<ClaimHash, Claimed>,
    frozen: Frozen,
    /// The number of the first row that is not known here; `i64::MAX` where `claim_recent` is not
    /// used.
    next: i64,
}

/// The frozen memtable. Keys are looked up far more often than in order: a commit needs the order only for the
/// slice that it compacts.
#[derive(Default)]
struct Frozen {
    claims: HashMap<ClaimHash, Claimed>,
    /// The hashes of `claims`, in order.
    order: Vec<ClaimHash>,
}

impl Frozen {
    fn of(claims: HashMap<ClaimHash, Claimed>) -> Self {
        let mut order: Vec<ClaimHash> = claims.keys().copied().collect();
        order.sort_unstable();
        Self { claims, order }
    }

    /// The next claims, in the order of their hashes.
    fn slice(&self, after: Option<ClaimHash>, most: usize) -> Vec<(ClaimHash, Claimed)> {
        let begin = self.order.partition_point(|hash| Some(*hash) <= after);
        let hashes = self.order[begin..].iter().take(most);
        hashes.map(|hash| (*hash, self.claims[hash])).collect()
    }
}

impl RecentClaims {
    /// Those of a database that nobody writes.
    pub(crate) fn of(memtable: Memtable) -> Self {
        let active = memtable.into_iter().collect();
        Self { memtables: RwLock::new(Memtables { active, ..Memtables::default() }) }
    }

    /// Begins to look for a key. A reader does so before its snapshot begins: what has left memory
    /// is in `claim` then.
    pub(crate) fn seek(&self, key: &ClaimKey) -> Sought {
        let hash = tables::claim_hash(key);
        let memtables = self.shared();
        let known = memtables.active.get(&hash).or_else(|| memtables.frozen.claims.get(&hash));
        let known = known.copied();
        Sought { hash, tenant: key.tenant, kind: key.kind, known, next: memtables.next }
    }

    /// The owners of keys, for the writer, whose memory is never behind.
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
            sought[unknown[at]].known = Some(tables::claim(cells)?.1);
            Ok(())
        })?;
        let claim_of = |it: &Sought| it.known.map_or(Ok(None), |known| it.claim(&known));
        sought.iter().map(claim_of).collect()
    }

    fn shared(&self) -> RwLockReadGuard<'_, Memtables> {
        // Nothing panics while it is locked for writing, so that it is whole even if poisoned.
        self.memtables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Memtables> {
        self.memtables.write().unwrap_or_else(PoisonError::into_inner)
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
    /// The owner of the key in the snapshot of a reader, which may be ahead of memory.
    pub(crate) fn find(&self, reader: &Reader) -> Result<Option<Claim>, StoreError> {
        if self.next == i64::MAX {
            return self.find_known(reader);
        }
        let parameters = [self.next.into(), Value::Id(self.hash)];
        match reader.load(&SELECT_NEWER)?.first(&parameters, tables::recent_claim)? {
            Some((_, (_, newer))) => self.claim(&newer),
            None => self.find_known(reader),
        }
    }

    /// The owner of the key, for the writer, whose memory is never behind.
    pub(crate) fn find_known(&self, reader: &Reader) -> Result<Option<Claim>, StoreError> {
        if let Some(known) = &self.known {
            return self.claim(known);
        }
        let compacted =
            reader.load(&SELECT_CLAIM)?.first(&[Value::Id(self.hash)], tables::claim)?;
        compacted.map_or(Ok(None), |(_, claimed)| self.claim(&claimed))
    }

    fn claim(&self, found: &Claimed) -> Result<Option<Claim>, StoreError> {
        if (found.tenant, found.kind) == (self.tenant, self.kind) {
            return Ok((!found.is_released()).then_some(found.claim));
        }
        let reason = "is of another tenant or kind than its hash".to_owned();
        Err(StoreError::Corrupt { table: CLAIM.name, reason })
    }
}

/// The writer's side: adds claims, and compacts them.
pub(crate) struct Claims {
    recent: Arc<RecentClaims>,
    /// How many rows fill the memtable; `None` where each claim is put into `claim` at once.
    memtable_rows: Option<usize>,
    stored: Stored,
}

/// The range of the rows in `claim_recent`, and their compaction. A commit yields the next value,
/// which holds once the commit is durable.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stored {
    /// The number of the first row, and of the next one.
    first: i64,
    next: i64,
    compaction: Option<Compaction>,
}

/// A compaction into `claim`: of the rows before `end`. The claims up to and with `after` are
/// there; if that is [`LAST`], all are, and their rows are being deleted.
#[derive(Clone, Copy)]
struct Compaction {
    end: i64,
    after: Option<ClaimHash>,
}

impl Stored {
    /// The columns of the partition that say how far a compaction is.
    pub(crate) fn columns(&self) -> [Value<'static>; 2] {
        let after = self.compaction.and_then(|it| it.after).map_or(Value::Null, Value::Id);
        [self.compaction.map(|it| it.end).into(), after]
    }
}

impl Claims {
    /// Knows nothing before [`Claims::recall`]. `memtable_rows` fill the memtable; without, each
    /// claim is put into `claim` at once, as suits a database that does not log whole pages.
    pub(crate) fn new(memtable_rows: Option<usize>) -> Self {
        let next = if memtable_rows.is_some() { 0 } else { i64::MAX };
        let memtables = RwLock::new(Memtables { next, ..Memtables::default() });
        Self {
            recent: Arc::new(RecentClaims { memtables }),
            memtable_rows,
            stored: Stored::default(),
        }
    }

    /// Whether each claim is put into `claim` at once.
    pub(crate) const fn are_put_at_once(&self) -> bool {
        self.memtable_rows.is_none()
    }

    /// The claims in memory, which the readers share.
    pub(crate) const fn recent(&self) -> &Arc<RecentClaims> {
        &self.recent
    }

    /// Reads what the database has.
    pub(crate) fn recall(&mut self, reader: &Reader) -> Result<(), StoreError> {
        if self.memtable_rows.is_none() {
            return Ok(());
        }
        let compaction = read_compaction(reader)?;
        // A number that was given is not given again: readers go by them.
        let begin = self.stored.next;
        let mut stored = Stored { first: begin, next: begin, compaction };
        let (mut memtables, mut frozen) = (Memtables::default(), HashMap::new());
        let mut is_first = true;
        each_recent(reader, |n, hash, claimed| {
            if mem::take(&mut is_first) {
                stored.first = n;
            }
            stored.next = begin.max(n + 1);
            match compaction {
                Some(compaction) if n < compaction.end => {
                    if Some(hash) > compaction.after {
                        frozen.insert(hash, claimed);
                    }
                }
                _ => {
                    memtables.active.insert(hash, claimed);
                }
            }
        })?;
        memtables.frozen = Frozen::of(frozen);
        self.install(stored, &mut memtables);
        *self.recent.exclusive() = memtables;
        Ok(())
    }

    /// Adds claims, and compacts a slice while a compaction runs, within the batch's transaction.
    /// Where claims are put into `claim` at once, `owners` are those that the batch has loaded.
    ///
    /// # Errors
    /// [`StoreError::KeyTaken`] where one of these has changed since.
    pub(crate) fn write(
        &self,
        db: &Database,
        added: &Memtable,
        owners: &Owners,
    ) -> Result<Stored, StoreError> {
        let mut stored = self.stored;
        if added.is_empty() {
            return Ok(stored);
        }
        if self.memtable_rows.is_none() {
            take_all(db, added, owners)?;
            return Ok(stored);
        }
        let mut put = db.insert(&CLAIM_RECENT)?;
        for (hash, claimed) in added {
            put.row(&tables::recent_claim_row(stored.next, *hash, claimed))?;
            stored.next += 1;
        }
        let Some(compaction) = &mut stored.compaction else { return Ok(stored) };
        if compaction.after != Some(LAST) {
            let most = moved_per(added.len());
            let slice = self.recent.shared().frozen.slice(compaction.after, most);
            put_all(db, slice.iter().copied())?;
            let is_last = slice.len() < most;
            compaction.after =
                slice.last().map(|(hash, _)| *hash).filter(|_| !is_last).or(Some(LAST));
        }
        if compaction.after == Some(LAST) {
            let most = i64::try_from(added.len() * DELETED_PER_ADDED).unwrap_or(i64::MAX);
            stored.first = compaction.end.min(stored.first.saturating_add(most));
            db.exec("DELETE FROM claim_recent WHERE n < ?1", &[stored.first.into()])?;
            if stored.first == compaction.end {
                stored.compaction = None;
            }
        }
        Ok(stored)
    }

    /// Updates memory once the claims that [`Claims::write`] wrote are durable.
    pub(crate) fn written(&mut self, stored: Stored, added: &Memtable) {
        if added.is_empty() || self.memtable_rows.is_none() {
            return;
        }
        let recent = Arc::clone(&self.recent);
        let mut memtables = recent.exclusive();
        memtables.active.extend(added.iter().map(|(hash, claimed)| (*hash, *claimed)));
        let is_moving = stored.compaction.is_some_and(|it| it.after != Some(LAST));
        let moved = if is_moving { Frozen::default() } else { mem::take(&mut memtables.frozen) };
        self.install(stored, &mut memtables);
        drop(memtables);
        // Readers do not wait for it.
        drop(moved);
    }

    /// Takes over what is stored now, and freezes the memtable once it is full.
    fn install(&mut self, mut stored: Stored, memtables: &mut Memtables) {
        memtables.next = stored.next;
        let rows = usize::try_from(stored.next - stored.first).unwrap_or(0);
        if stored.compaction.is_none() && self.memtable_rows.is_some_and(|max| rows >= max) {
            // The next one has room for as many: it need not grow again.
            let next = HashMap::with_capacity(memtables.active.len());
            memtables.frozen = Frozen::of(mem::replace(&mut memtables.active, next));
            stored.compaction = Some(Compaction { end: stored.next, after: None });
        }
        self.stored = stored;
    }
}

/// Puts claims into `claim`, beside other writers: in the order of their hashes, so that no two wait
/// for each other. Claims that the batch did not look for are what succeeded after all: they hold
/// the key whichever owner it has.
fn take_all(db: &Database, added: &Memtable, owners: &Owners) -> Result<(), StoreError> {
    let mut insert = db.insert(&CLAIM)?;
    let made = added.iter().filter(|(hash, _)| owners.get(*hash) == Some(&None));
    for (hash, claimed) in made.filter(|(_, claimed)| !claimed.is_released()) {
        insert.row(&tables::claim_row(*hash, claimed))?;
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
            false => put.row(&tables::claim_row(hash, &claimed))?,
        }
    }
    if released.is_empty() {
        return Ok(());
    }
    let mut delete = db.prepare("DELETE FROM claim WHERE key_hash = ?1")?;
    released.iter().try_for_each(|key| delete.row(key))
}

/// How many claims of the frozen memtable a commit puts into `claim` when it adds so many others.
const fn moved_per(added: usize) -> usize {
    added + added.div_ceil(4)
}

/// All claims of `claim_recent`; of those with one hash, the last.
pub(crate) fn read_recent(reader: &Reader) -> Result<Memtable, StoreError> {
    let mut memtable = Memtable::new();
    each_recent(reader, |_, hash, claimed| {
        memtable.insert(hash, claimed);
    })?;
    Ok(memtable)
}

/// Gives each row of `claim_recent` to `each`, in order.
fn each_recent(
    reader: &Reader,
    mut each: impl FnMut(i64, ClaimHash, Claimed),
) -> Result<(), StoreError> {
    reader.for_each(&SELECT_RECENT, &[], |cells| {
        let (n, (hash, claimed)) = tables::recent_claim(cells)?;
        each(n, hash, claimed);
        Ok(())
    })
}

fn read_compaction(reader: &Reader) -> Result<Option<Compaction>, StoreError> {
    let sql = "SELECT claims_end, claims_after FROM partition WHERE id = ?1";
    let compaction = reader.query_one(sql, &[PartitionNo::FIRST.number().into()], |cells| {
        cells.of(&tables::PARTITION);
        let (end, after) = (cells.opt_int()?, cells.opt_id()?);
        Ok(end.map(|end| Compaction { end, after: after.map(|id| id.into_bytes()) }))
    })?;
    Ok(compaction.flatten())
}
