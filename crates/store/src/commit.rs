//! The one writer: loads a batch's rows and commits what it wrote, in one SQL transaction.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::payment::ReplyKey;
use domain::read::Read;
use domain::state::State;
use domain::{AccountId, PartitionNo, Rejection, Reply, Seq, Sequences, TenantNo, Timestamp};
use engine::ports::{
    Batch, Bookkeeping, Cause, ExpiryCutoffs, Loaded, Opened, Store, StoreError, StoredReply,
};

use crate::actors::{Actors, Named};
use crate::batch::{CountedBefore, Rows};
use crate::catalogs::Catalogs;
use crate::cells::json;
use crate::chain::Link;
use crate::claims::{Claims, Owners, Stored};
use crate::directory::DirLock;
use crate::driver::{Cells, CheckKey, Database, Value};
use crate::journal;
use crate::journal_tail::JournalTail;
use crate::load;
use crate::pool::Source;
use crate::recent::Recent;
use crate::share::Share;
use crate::tables;
use crate::totals::Totals;
use crate::{Options, SqlQueries, queries};

/// How many expired replies a commit that adds some forgets at most, for each that it adds.
const FORGOTTEN_PER_REPLY: i64 = 4;

/// How many expired rows of a table a commit deletes at most.
const DELETED_MAX: i64 = 500;

/// A partition of a database; a data directory stays locked until this is dropped.
pub struct SqlStore {
    db: Database,
    share: Share,
    owned: Option<Owned>,
    /// The epoch that this store minted last: it never takes a partition back that another one has
    /// taken over since.
    minted: Option<i64>,
    totals: Totals,
    recent: Recent,
    catalogs: Catalogs,
    claims: Claims,
    actors: Actors,
    journal: Arc<JournalTail>,
    /// Whether pages that become free are overwritten, as in the last batch.
    overwrites: Cell<bool>,
    batch: Begun,
    source: Source,
    _lock: Option<DirLock>,
}

/// The state of the partition that its owner holds in memory.
#[derive(Clone, Copy)]
struct Owned {
    epoch: i64,
    next_seq: Seq,
    sequences: Sequences,
    queue_offset: Option<i64>,
    /// The link of the newest journal row.
    link: Link,
}

/// The results of a batch's load that its commit needs.
#[derive(Default)]
struct Begun {
    counted: CountedBefore,
    /// Replies that were running.
    running: BTreeSet<ReplyKey>,
    /// Replies that were looked for and were not there.
    unanswered: BTreeSet<ReplyKey>,
    /// Replies that were there, and when their time is over. A batch that has another one found it over.
    answered: BTreeMap<ReplyKey, Timestamp>,
    /// Who had the keys that were looked for, where claims are not held in memory.
    owners: Owners,
}

impl SqlStore {
    pub(crate) fn new(
        db: Database,
        share: Share,
        (source, options): (Source, &Options),
        lock: Option<DirLock>,
    ) -> Self {
        let recent = Recent::new(options.entities_held, share);
        let memtable_rows = db.writes_pages().then_some(options.claims_held);
        let claims = Claims::new(memtable_rows.filter(|rows| *rows > 0));
        let (totals, batch) = (Totals::default(), Begun::default());
        Self {
            db,
            share,
            owned: None,
            minted: None,
            totals,
            recent,
            catalogs: Catalogs::default(),
            claims,
            actors: Actors::new(options.entities_held),
            journal: Arc::default(),
            overwrites: Cell::new(false),
            batch,
            source,
            _lock: lock,
        }
    }

    /// Reads of what this commits, over at most `readers_max` connections.
    ///
    /// # Errors
    /// [`StoreError`] where the database cannot be opened once more.
    pub fn queries(&self, readers_max: usize) -> Result<SqlQueries, StoreError> {
        let recent = Arc::clone(self.claims.recent());
        let queries = SqlQueries::beside(recent, self.source.clone(), readers_max)?;
        Ok(self.queries_over(&queries))
    }

    /// Reads of what this commits, over the connections of other reads of the same database.
    #[must_use]
    pub fn queries_over(&self, others: &SqlQueries) -> SqlQueries {
        others.of(self.share.partition).with_tail(Arc::clone(&self.journal))
    }

    /// The totals, as they are committed.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The connection, for tests that plant what a commit would never write.
    #[must_use]
    pub const fn database(&self) -> &Database {
        &self.db
    }

    fn overwrite_free_pages(&self, is_wanted: bool) -> Result<(), StoreError> {
        match self.db.reader().sqlite() {
            Some(sqlite) if is_wanted != self.overwrites.get() => {
                sqlite.overwrite_free_pages(is_wanted)?;
                self.overwrites.set(is_wanted);
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// On a full disk, reads the partition's numbers and takes nothing over.
    fn look_if_full(&self, error: StoreError) -> Result<Opened, StoreError> {
        // A file cannot be another process's: the lock of the data directory is ours.
        let is_full = matches!(error, StoreError::DiskFull);
        if !is_full || self.db.reader().sqlite().is_none() {
            return Err(error);
        }
        let sql = "SELECT epoch, next_seq, payment_number, tenant_no, queue_offset FROM partition \
                   WHERE id = ?1";
        let parameters = [self.share.partition.number().into()];
        let found = self.db.reader().query_one(sql, &parameters, owned)?;
        let found = found.ok_or_else(|| corrupt("there is no partition"))?;
        Ok(found.opened(false, self.quarantined()?))
    }

    /// The accounts of the partition that are out of service.
    fn quarantined(&self) -> Result<BTreeSet<(TenantNo, AccountId)>, StoreError> {
        let sql = "SELECT tenant, account_id FROM quarantine";
        let read = |cells: &mut Cells<'_>| Ok((cells.tenant()?, cells.entity()?));
        let all: Vec<(TenantNo, AccountId)> = self.db.reader().query(sql, &[], read)?;
        Ok(all.into_iter().filter(|(tenant, account)| self.share.has(*tenant, *account)).collect())
    }

    fn take_over(&self) -> Result<(Owned, Totals), StoreError> {
        let sql = "UPDATE partition SET epoch = epoch + 1 WHERE id = ?1 AND epoch = coalesce(?2, epoch) \
                   RETURNING epoch, next_seq, payment_number, tenant_no, queue_offset";
        let partition = self.share.partition;
        self.refuse_mixture(partition)?;
        let minted = self.minted.filter(|_| self.share != Share::WHOLE);
        let parameters = [partition.number().into(), minted.into()];
        let owned = self.db.reader().query_one(sql, &parameters, owned)?;
        let mut owned = match (owned, minted) {
            (Some(owned), _) => owned,
            (None, Some(_)) => return Err(StoreError::NotOwner),
            (None, None) => return Err(corrupt("there is no partition")),
        };
        self.db.check_again(&tables::PARTITION, "WHERE id = ?1", &parameters[..1])?;
        let (head, link) = queries::journal_end(self.db.reader(), partition)?;
        if head.0 + 1 != owned.next_seq.0 {
            return Err(corrupt("the next journal row does not follow on the last"));
        }
        owned.link = link;
        Ok((owned, Totals::read(self.db.reader(), partition)?))
    }

    /// Refuses a database whose partition was written under another installation's key. Every commit writes
    /// that row: a write-ahead log that was left beside a file copied from elsewhere has it.
    fn refuse_mixture(&self, partition: PartitionNo) -> Result<(), StoreError> {
        let key = CheckKey::read(self.db.reader())?;
        let sql = tables::PARTITION.select("WHERE id = ?1");
        let row = [partition.number().into()];
        let holds =
            self.db.reader().query_one(&sql, &row, |cells| key.holds(&tables::PARTITION, cells))?;
        match holds {
            Some(false) => Err(corrupt(
                "its row is not what was written: it is damaged, or the database lies beside the write-ahead \
                 log of another installation; restore a backup",
            )),
            Some(true) | None => Ok(()),
        }
    }

    fn begin(
        &mut self,
        reads: &BTreeSet<Read>,
        keys: &BTreeSet<ReplyKey>,
    ) -> Result<(State, BTreeMap<ReplyKey, StoredReply>), StoreError> {
        self.db.begin()?;
        let claims = self.claims.recent();
        let state = load::state(self.db.reader(), reads, &mut self.recent, claims, &self.catalogs)?;
        Ok((state, load::replies(self.db.reader(), keys)?))
    }

    /// Writes the batch; `owned` is as it will be, but for the link, which follows from what is
    /// written.
    fn write(
        &self,
        batch: &Batch,
        rows: &mut Rows<'_>,
        (actors, committed_at): (&Named, Timestamp),
        owned: &mut Owned,
    ) -> Result<Stored, StoreError> {
        let claims = self.claims.write(&self.db, &rows.claims, &self.batch.owners)?;
        self.write_partition(*owned, &claims)?;
        owned.link = self.write_journal(batch, (actors, committed_at), owned.link)?;
        rows.write(&self.db, actors, self.share)?;
        rows.erase_columns(&self.db)?;
        rows.deltas.write(&self.totals, &self.db, self.share.partition)?;
        self.write_replies(batch, rows)?;
        for it in &batch.bookkeeping {
            self.write_bookkeeping(it)?;
        }
        Ok(claims)
    }

    /// Takes the numbers, if the partition is still ours.
    fn write_partition(&self, owned: Owned, claims: &Stored) -> Result<(), StoreError> {
        let sql = "UPDATE partition SET next_seq = ?3, payment_number = ?4, tenant_no = ?5, \
                   queue_offset = ?6, claims_end = ?7, claims_after = ?8, check_now = ?9 \
                   WHERE id = ?1 AND epoch = ?2";
        let [claims_end, claims_after] = claims.columns();
        let Sequences { payment_number, tenant_no } = owned.sequences;
        let tenant_no = i64::from(tenant_no).into();
        let columns = [
            self.share.partition.number().into(),
            owned.epoch.into(),
            owned.next_seq.into(),
            payment_number.into(),
            tenant_no,
            owned.queue_offset.into(),
            claims_end,
            claims_after,
        ];
        let check_now = self.db.check_key()?.of_changing(&tables::PARTITION, &columns);
        let parameters: Vec<Value<'_>> = columns.into_iter().chain([check_now.into()]).collect();
        self.db.require(sql, &parameters, StoreError::NotOwner)
    }

    /// Appends the batch's rows after the row of this link; returns the last one's.
    fn write_journal(
        &self,
        batch: &Batch,
        (actors, committed_at): (&Named, Timestamp),
        mut link: Link,
    ) -> Result<Link, StoreError> {
        if batch.entries.is_empty() {
            return Ok(link);
        }
        let mut put = self.db.insert(&tables::JOURNAL)?;
        for (entry, actor) in batch.entries.iter().zip(&actors.ids) {
            let texts = journal::texts(entry);
            let row = journal::columns(entry, *actor, &texts, committed_at);
            link = link.of_row(&row);
            let chain = link.text();
            put.row(&journal::with_chain(row, &chain))?;
        }
        Ok(link)
    }

    fn write_replies(&self, batch: &Batch, rows: &Rows<'_>) -> Result<(), StoreError> {
        // A reply that was running before the batch was settled before a new one took its place;
        // one that was not is the batch's own.
        let is_earlier = |key: &ReplyKey| self.batch.running.contains(key);
        if !rows.settled.is_empty() {
            let keys: Vec<[Value<'_>; 1]> =
                rows.settled.keys().map(|key| [(*key).into()]).collect();
            let mut fingerprints = vec![None; keys.len()];
            let sql = "SELECT fingerprint FROM reply WHERE key = ?1";
            self.db.reader().for_keys(sql, &keys, |at, cells| {
                fingerprints[at] = Some(cells.id()?);
                Ok(())
            })?;
            let mut settle = self.db.update(&tables::REPLY)?;
            for (settled, fingerprint) in rows.settled.values().zip(fingerprints) {
                let Some(fingerprint) = fingerprint else { continue };
                let answer = answer_text(&Ok(settled.reply.clone()));
                let (answer, expires_at) = (answer.as_str().into(), settled.expires_at.into());
                settle.row(&[settled.key.into(), fingerprint.into(), answer, expires_at])?;
            }
        }
        if batch.replies.is_empty() {
            return Ok(());
        }
        // Where there are other writers, one that was not there may be by now, and one whose time was
        // over may have been replaced: neither is written over.
        let mut made: BTreeSet<ReplyKey> = BTreeSet::new();
        if self.claims.are_put_at_once() {
            made.clone_from(&self.batch.unanswered);
            for (key, expires_at) in &self.batch.answered {
                if batch.replies.iter().any(|reply| reply.key == *key) {
                    let sql = "DELETE FROM reply WHERE key = ?1 AND expires_at_us = ?2";
                    let row = [(*key).into(), (*expires_at).into()];
                    self.db.require(sql, &row, StoreError::KeyTaken)?;
                    made.insert(*key);
                }
            }
        }
        let mut change = self.db.upsert(&tables::REPLY)?;
        let mut make = self.db.insert(&tables::REPLY)?;
        for reply in &batch.replies {
            let settled = rows.settled.get(&reply.key).filter(|_| !is_earlier(&reply.key));
            let answer = match (settled, &reply.answer) {
                (Some(settled), None) => Some(answer_text(&Ok(settled.reply.clone()))),
                (_, answer) => answer.as_ref().map(answer_text),
            };
            let put = if made.contains(&reply.key) { &mut make } else { &mut change };
            put.row(&tables::reply_row(reply, answer.as_deref()))?;
        }
        self.forget_replies(batch)
    }

    /// Deletes replies whose time is over. Those that still run stay, however long it takes.
    fn forget_replies(&self, batch: &Batch) -> Result<(), StoreError> {
        let Some(entry) = batch.entries.last() else { return Ok(()) };
        let added = i64::try_from(batch.replies.len()).unwrap_or(i64::MAX);
        let most = added.saturating_mul(FORGOTTEN_PER_REPLY);
        let sql = "DELETE FROM reply WHERE key IN (SELECT key FROM reply \
                   WHERE expires_at_us < ?1 AND answer IS NOT NULL \
                   ORDER BY expires_at_us LIMIT ?2)";
        self.db.prepare(sql)?.row(&[entry.at.into(), most.into()])
    }

    fn delete_expired(&self, cutoffs: ExpiryCutoffs) -> Result<(), StoreError> {
        for (table, until, before) in queries::expiries(cutoffs) {
            let (name, key) = (table.name, table.key_list());
            let sql = format!(
                "DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} \
                 WHERE {until} < ?1 LIMIT ?2)"
            );
            self.db.prepare(&sql)?.row(&[before.into(), DELETED_MAX.into()])?;
        }
        Ok(())
    }

    fn write_bookkeeping(&self, it: &Bookkeeping) -> Result<(), StoreError> {
        match it {
            Bookkeeping::Followed { follower, upto } => {
                let partition = self.share.partition.number().into();
                let row = [(*follower).into(), partition, (*upto).into()];
                self.db.upsert(&tables::FOLLOWER)?.row(&row)
            }
            Bookkeeping::DeliveryPostponed(delivery) => {
                tables::DELIVERY.put_one(&self.db, delivery, self.share.partition)
            }
            Bookkeeping::MailPostponed(mail) => {
                // One that was deleted meanwhile, with its customer, stays so.
                let attempts = i64::from(mail.attempts).into();
                let error = mail.error.as_ref().into();
                let row = [mail.tenant.into(), mail.id.into(), mail.due_at.into(), attempts, error];
                self.db.update(&tables::MAIL)?.row(&row)
            }
            Bookkeeping::MailClosed { tenant, id } => {
                let sql = "DELETE FROM mail WHERE tenant = ?1 AND id = ?2";
                self.db.prepare(sql)?.row(&[(*tenant).into(), (*id).into()])
            }
            Bookkeeping::OperationNotified { tenant, id, again_at, attempts } => {
                // Where nobody is called again, the secret that calls are signed with goes.
                let sql = match again_at {
                    Some(_) => {
                        "UPDATE operation SET notify_at_us = ?3, notify_attempts = ?4 \
                         WHERE tenant = ?1 AND id = ?2"
                    }
                    None => {
                        "UPDATE operation SET notify_at_us = ?3, notify_attempts = ?4, \
                         callback = NULL WHERE tenant = ?1 AND id = ?2"
                    }
                };
                let attempts = i64::from(*attempts).into();
                let key = [(*tenant).into(), (*id).into()];
                let row = [key[0], key[1], (*again_at).into(), attempts];
                self.db.prepare(sql)?.row(&row)?;
                self.db.check_again(&tables::OPERATION, "WHERE tenant = ?1 AND id = ?2", &key)
            }
            Bookkeeping::Expired(cutoffs) => self.delete_expired(*cutoffs),
            Bookkeeping::Quarantined(it) => {
                tables::QUARANTINE.put_one(&self.db, it, self.share.partition)
            }
            Bookkeeping::Released { tenant, account } => {
                let sql = "DELETE FROM quarantine WHERE tenant = ?1 AND account_id = ?2";
                self.db.prepare(sql)?.row(&[(*tenant).into(), (*account).into()])
            }
            Bookkeeping::DeliveryClosed { id, attempts } => {
                let sql = "DELETE FROM webhook_delivery \
                           WHERE seq = ?1 AND ordinal = ?2 AND endpoint_id = ?3 AND attempts = ?4";
                let ordinal = i64::from(id.ordinal).into();
                let attempts = i64::from(*attempts).into();
                self.db.prepare(sql)?.row(&[id.seq.into(), ordinal, id.endpoint.into(), attempts])
            }
        }
    }
}

/// Reads a partition's row, whose link is not part of it.
fn owned(cells: &mut Cells<'_>) -> Result<Owned, StoreError> {
    cells.of(&tables::PARTITION);
    let (epoch, next_seq) = (cells.int()?, cells.seq()?);
    let payment_number = cells.int()?;
    let tenant_no = cells.tenant()?.0;
    let sequences = Sequences { payment_number, tenant_no };
    let (queue_offset, link) = (cells.opt_int()?, Link::Start);
    Ok(Owned { epoch, next_seq, sequences, queue_offset, link })
}

impl Store for SqlStore {
    fn open(&mut self) -> Result<Opened, StoreError> {
        self.db.renew()?;
        self.overwrites.set(false);
        self.owned = None;
        self.recent.clear();
        self.actors.clear();
        self.journal.clear();
        self.claims.recall(self.db.reader())?;
        self.db.begin()?;
        let (owned, totals) = match self.take_over() {
            Ok(found) => found,
            Err(error) => {
                self.db.rollback()?;
                return self.look_if_full(error);
            }
        };
        if let Err(error) = self.db.commit() {
            return self.look_if_full(error);
        }
        (self.owned, self.totals) = (Some(owned), totals);
        self.minted = Some(owned.epoch);
        Ok(owned.opened(true, self.quarantined()?))
    }

    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        keys: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError> {
        self.db.rollback()?;
        match self.begin(reads, keys) {
            Ok((state, replies)) => {
                self.batch = Begun::of(&state, (keys, &replies), self.claims.are_put_at_once());
                Ok(Loaded { state, replies })
            }
            Err(error) => {
                self.db.rollback()?;
                Err(error)
            }
        }
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if is_empty(batch) {
            return self.db.rollback();
        }
        let owned = self.owned.ok_or(StoreError::NotOwner)?;
        let mut after = owned.after(batch)?;
        let mut rows = Rows::of(batch, &self.batch.counted);
        let erases = rows.erased().next().is_some();
        let named =
            self.overwrite_free_pages(erases).and_then(|()| self.actors.name(&self.db, batch));
        let committed_at = crate::clock::now();
        let written = named.and_then(|actors| {
            let claims = self.write(batch, &mut rows, (&actors, committed_at), &mut after)?;
            Ok((claims, actors))
        });
        let (claims, actors) = match written {
            Ok(written) => written,
            Err(error) => {
                self.db.rollback()?;
                return Err(error);
            }
        };
        self.db.commit()?;
        self.claims.written(claims, &rows.claims);
        self.actors.committed(actors);
        self.owned = Some(after);
        self.journal.append(&batch.entries, committed_at);
        self.totals.add(&rows.deltas);
        rows.hold(&mut self.recent);
        for (tenant, account) in rows.erased() {
            self.actors.erased(tenant, account);
        }
        Ok(())
    }
}

impl Drop for SqlStore {
    /// A database at rest is one file, and the write-ahead log keeps nothing of what was erased.
    fn drop(&mut self) {
        if let Some(sqlite) = self.db.reader().sqlite()
            && let Err(error) = self.db.rollback().and_then(|()| sqlite.checkpoint())
        {
            tracing::warn!(error = %error, "the write-ahead log could not be emptied; it stays");
        }
    }
}

impl Begun {
    fn of(
        state: &State,
        (keys, replies): (&BTreeSet<ReplyKey>, &BTreeMap<ReplyKey, StoredReply>),
        at_once: bool,
    ) -> Self {
        let files = state.payment.payments.iter();
        Self {
            counted: CountedBefore {
                gateways: files
                    .map(|it| ((it.payment.tenant, it.payment.id), it.payment.gateway.clone()))
                    .collect(),
                inactive_methods: state
                    .account
                    .payment_methods
                    .iter()
                    .filter(|it| !it.active)
                    .map(|it| (it.tenant, it.id))
                    .collect(),
            },
            running: replies
                .values()
                .filter(|reply| reply.answer.is_none())
                .map(|reply| reply.key)
                .collect(),
            answered: replies
                .values()
                .filter(|reply| reply.answer.is_some())
                .map(|reply| (reply.key, reply.expires_at))
                .collect(),
            unanswered: keys.iter().filter(|key| !replies.contains_key(key)).copied().collect(),
            owners: state
                .claims
                .iter()
                .filter(|_| at_once)
                .map(|(key, claim)| (tables::claim_hash(key), claim.map(|claim| claim.owner)))
                .collect(),
        }
    }
}

impl Owned {
    const fn opened(
        self,
        is_writable: bool,
        quarantined: BTreeSet<(TenantNo, AccountId)>,
    ) -> Opened {
        let Self { next_seq, sequences, queue_offset, .. } = self;
        Opened { next_seq, sequences, queue_offset, is_writable, quarantined }
    }

    /// The state once the batch is written.
    fn after(self, batch: &Batch) -> Result<Self, StoreError> {
        let mut next_seq = self.next_seq;
        for entry in &batch.entries {
            if entry.seq != next_seq {
                let reason = format!("journal row {} is not the next one", entry.seq.0);
                return Err(StoreError::Database(Cause::new(reason)));
            }
            next_seq.0 += 1;
        }
        let sequences = batch.sequences.unwrap_or(self.sequences);
        let queue_offset = batch.queue_offset.or(self.queue_offset);
        Ok(Self { next_seq, sequences, queue_offset, ..self })
    }
}

fn is_empty(batch: &Batch) -> bool {
    batch.entries.is_empty()
        && batch.replies.is_empty()
        && batch.bookkeeping.is_empty()
        && batch.sequences.is_none()
        && batch.queue_offset.is_none()
}

fn answer_text(answer: &Result<Reply, Rejection>) -> String {
    json(answer)
}

fn corrupt(reason: &str) -> StoreError {
    StoreError::Corrupt { table: tables::PARTITION.name, reason: reason.to_owned() }
}
