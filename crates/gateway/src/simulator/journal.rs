//! The simulator's append-only journal. Concurrent records share one fsync, and an append returns once
//! its record is durable.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{FileExt, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{PaymentMethodId, TransactionId};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot, watch};

use super::record::{
    EncodedRecord, Heading, LINE_BYTES_MAX, MethodRecord, Record, Subject, read_line,
};
use crate::error::Error;

/// The journal's file in the simulator's directory.
pub const FILE: &str = "charges.journal";

/// The maximum number of records that share an fsync.
const BATCH_RECORDS_MAX: usize = 1_024;

/// The capacity of the queue of records. Appends to a full queue wait.
const QUEUED_RECORDS_MAX: usize = 4_096;

/// An open journal. It holds an exclusive lock on its file.
pub struct Journal {
    shared: Arc<Shared>,
    appends: mpsc::Sender<Append>,
}

struct Shared {
    path: PathBuf,
    file: File,
    index: Mutex<Index>,
    notifications: watch::Sender<u64>,
}

/// The offsets of the durable records.
#[derive(Default)]
struct Index {
    end: u64,
    /// The newest record with the state of each transaction.
    transactions: HashMap<TransactionId, u64>,
    /// The newest record of each payment method.
    methods: HashMap<PaymentMethodId, u64>,
    /// The records of the notifications in the order of the file; the first has number 1.
    notifications: Vec<u64>,
}

struct Append {
    encoded: EncodedRecord,
    done: oneshot::Sender<Result<(), Error>>,
}

/// The journal has payments of customers: only its owner reads it.
const MODE: u32 = 0o600;

impl Journal {
    /// Opens the journal in `dir`, or creates it. An incomplete last batch is removed, because its
    /// appends never returned. Also returns the transactions' newest records that have scheduled steps.
    ///
    /// # Errors
    /// The file cannot be used, is in use, or is corrupt before its last batch.
    pub fn open(dir: &Path) -> Result<(Self, Vec<Record>), Error> {
        let path = dir.join(FILE);
        let failed = |source| Error::Journal { path: path.clone(), source };
        std::fs::create_dir_all(dir).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(MODE);
        let file = options.open(&path).map_err(failed)?;
        // A journal of an older version may be readable by others.
        file.set_permissions(Permissions::from_mode(MODE)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::JournalInUse { path }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let scanned = scan(&file, &path)?;
        file.set_len(scanned.index.end).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;

        let writer = file.try_clone().map_err(failed)?;
        let notifications = u64::try_from(scanned.index.notifications.len()).unwrap_or(u64::MAX);
        let shared = Arc::new(Shared {
            path,
            file,
            index: Mutex::new(scanned.index),
            notifications: watch::Sender::new(notifications),
        });
        let (appends, receiver) = mpsc::channel(QUEUED_RECORDS_MAX);
        let for_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("charges".to_owned())
            .spawn(move || run(&writer, receiver, &for_thread))
            .map_err(|source| Error::Journal { path: shared.path.clone(), source })?;
        let journal = Self { shared, appends };
        let mut pending = Vec::new();
        for transaction in scanned.scheduled {
            pending.extend(journal.latest(transaction)?.filter(|record| !record.steps.is_empty()));
        }
        Ok((journal, pending))
    }

    /// Appends a record and returns once it is durable.
    ///
    /// # Errors
    /// The record was not written.
    pub async fn append(&self, record: &Record) -> Result<(), Error> {
        self.append_encoded(EncodedRecord::new(record)).await
    }

    /// Appends a record of a payment method and returns once it is durable.
    ///
    /// # Errors
    /// The record was not written.
    pub async fn append_method(&self, record: &MethodRecord) -> Result<(), Error> {
        self.append_encoded(EncodedRecord::of_method(record)).await
    }

    async fn append_encoded(&self, encoded: EncodedRecord) -> Result<(), Error> {
        let (done, written) = oneshot::channel();
        let append = Append { encoded, done };
        if self.appends.send(append).await.is_err() {
            return Err(Error::JournalBroken);
        }
        written.await.unwrap_or(Err(Error::JournalBroken))
    }

    /// The newest record with the state of a transaction; `None` for an unknown transaction. Reads one
    /// line, usually from the page cache.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn latest(&self, transaction: TransactionId) -> Result<Option<Record>, Error> {
        let at = self.shared.index().transactions.get(&transaction).copied();
        at.map(|offset| self.shared.record(offset)).transpose()
    }

    /// The newest record of a payment method; `None` for an unknown one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn latest_method(&self, method: PaymentMethodId) -> Result<Option<MethodRecord>, Error> {
        let at = self.shared.index().methods.get(&method).copied();
        at.map(|offset| self.shared.record(offset)).transpose()
    }

    /// The number of the last notification; changes with each new one.
    #[must_use]
    pub fn notification_count(&self) -> watch::Receiver<u64> {
        self.shared.notifications.subscribe()
    }

    /// The records of at most `limit` notifications after number `after`. The first has the number
    /// `after` + 1.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn notifications_after(&self, after: u64, limit: usize) -> Result<Vec<Record>, Error> {
        let from = usize::try_from(after).unwrap_or(usize::MAX);
        let offsets: Vec<u64> =
            self.shared.index().notifications.iter().skip(from).take(limit).copied().collect();
        offsets.into_iter().map(|offset| self.shared.record(offset)).collect()
    }

    /// The file and its durable length in bytes.
    #[must_use]
    pub fn durable(&self) -> (PathBuf, u64) {
        (self.shared.path.clone(), self.shared.index().end)
    }
}

impl Shared {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record<T: DeserializeOwned>(&self, offset: u64) -> Result<T, Error> {
        let failed = |source| Error::Journal { path: self.path.clone(), source };
        let corrupt = || Error::JournalCorrupt { path: self.path.clone(), offset };
        let mut line = vec![0; 1_024];
        loop {
            let read = self.file.read_at(&mut line, offset).map_err(failed)?;
            if let Some(length) = line[..read].iter().position(|byte| *byte == b'\n') {
                let (_, json) = read_line(&line[..length]).ok_or_else(corrupt)?;
                return serde_json::from_slice(json).map_err(|_| corrupt());
            }
            if line.len() >= LINE_BYTES_MAX {
                return Err(corrupt());
            }
            line.resize(LINE_BYTES_MAX, 0);
        }
    }
}

/// The records of transactions in the first `upto` bytes of a journal's file, without an incomplete last
/// batch. A simulator may have the file open.
///
/// # Errors
/// The file cannot be opened.
pub fn read(
    path: &Path,
    upto: u64,
) -> Result<impl Iterator<Item = Result<Record, Error>> + use<>, Error> {
    let failed = |source| Error::Journal { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mut lines = Lines::new(file);
    let path = path.to_owned();
    Ok(std::iter::from_fn(move || {
        loop {
            let offset = lines.offset;
            if offset >= upto {
                return None;
            }
            let line = match lines.next() {
                Ok(Some(line)) => read_line(line),
                Ok(None) => return None,
                Err(source) => return Some(Err(Error::Journal { path: path.clone(), source })),
            };
            let record = match line {
                Some((Heading { subject: Subject::Method(_), .. }, _)) => continue,
                Some((_, json)) => serde_json::from_slice(json).ok(),
                None => None,
            };
            return match record {
                Some(record) => Some(Ok(record)),
                None if lines.is_at_end() => None,
                None => Some(Err(Error::JournalCorrupt { path: path.clone(), offset })),
            };
        }
    }))
}

struct Scanned {
    index: Index,
    /// Transactions that may have scheduled steps.
    scheduled: Vec<TransactionId>,
}

/// Finds the durable records. An invalid line in the last batch was never durable. An invalid line
/// before a later batch was durable once: then the journal is corrupt and stays untouched.
fn scan(file: &File, path: &Path) -> Result<Scanned, Error> {
    let failed = |source| Error::Journal { path: path.to_owned(), source };
    let mut scanned = Scanned { index: Index::default(), scheduled: vec![] };
    let mut lines = Lines::new(file.try_clone().map_err(failed)?);
    let mut torn_at = None;
    loop {
        let offset = lines.offset;
        let Some(line) = lines.next().map_err(failed)? else { break };
        match (read_line(line), torn_at) {
            (Some((heading, _)), None) => {
                scanned.index.add(heading, offset);
                scanned.index.end = lines.offset;
                if let (Subject::Transaction(id), true) = (heading.subject, heading.has_steps) {
                    scanned.scheduled.push(id);
                }
            }
            (Some((heading, _)), Some(torn_at)) if heading.batch_start > torn_at => {
                return Err(Error::JournalCorrupt { path: path.to_owned(), offset: torn_at });
            }
            (Some(_), Some(_)) => {}
            (None, _) => torn_at = torn_at.or(Some(offset)),
        }
    }
    if let Some(offset) = torn_at {
        tracing::warn!(
            offset,
            "the journal's incomplete last batch is removed: its calls were never answered"
        );
    }
    scanned.scheduled.sort_unstable();
    scanned.scheduled.dedup();
    Ok(scanned)
}

impl Index {
    fn add(&mut self, heading: Heading, offset: u64) {
        if heading.is_state {
            match heading.subject {
                Subject::Transaction(id) => self.transactions.insert(id, offset),
                Subject::Method(id) => self.methods.insert(id, offset),
            };
        }
        self.notifications.extend(std::iter::repeat_n(offset, usize::from(heading.notifications)));
    }
}

/// Lines of bounded length. A longer line is split, and the checksums of its parts do not match.
struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
    offset: u64,
}

impl Lines {
    fn new(file: File) -> Self {
        Self { reader: BufReader::with_capacity(1 << 18, file), line: vec![], offset: 0 }
    }

    /// The next line without its line feed. A line without one is returned as an empty line, which is
    /// not a valid record.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let mut taken = io::Read::take(&mut self.reader, LINE_BYTES_MAX as u64);
        let read = taken.read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        self.offset += read as u64;
        if self.line.pop() != Some(b'\n') {
            self.line.clear();
        }
        Ok(Some(&self.line))
    }

    fn is_at_end(&mut self) -> bool {
        self.reader.fill_buf().is_ok_and(<[u8]>::is_empty)
    }
}

/// The journal's thread: writes all queued records, syncs once, and answers the appends.
fn run(file: &File, mut appends: mpsc::Receiver<Append>, shared: &Shared) {
    let (mut batch, mut bytes) = (Vec::with_capacity(BATCH_RECORDS_MAX), Vec::new());
    let mut broken = false;
    while appends.blocking_recv_many(&mut batch, BATCH_RECORDS_MAX) > 0 {
        let start = shared.index().end;
        bytes.clear();
        let mut offsets = Vec::with_capacity(batch.len());
        for append in &batch {
            offsets.push(start + bytes.len() as u64);
            append.encoded.write(start, &mut bytes);
        }
        let written = if broken { Written::Broken } else { write(file, &bytes, start) };
        match written {
            Written::Durable => shared.publish(&batch, &offsets, start + bytes.len() as u64),
            Written::Full => {}
            Written::Broken => broken = true,
        }
        for append in batch.drain(..) {
            let answer = match written {
                Written::Durable => Ok(()),
                Written::Full => Err(Error::JournalFull),
                Written::Broken => Err(Error::JournalBroken),
            };
            // A cancelled append needs no answer; its record stays.
            drop(append.done.send(answer));
        }
    }
}

impl Shared {
    fn publish(&self, batch: &[Append], offsets: &[u64], end: u64) {
        let mut index = self.index();
        for (append, offset) in batch.iter().zip(offsets) {
            index.add(append.encoded.heading(), *offset);
        }
        index.end = end;
        let notifications = u64::try_from(index.notifications.len()).unwrap_or(u64::MAX);
        drop(index);
        self.notifications.send_if_modified(|number| {
            let grew = *number != notifications;
            *number = notifications;
            grew
        });
    }
}

#[derive(Clone, Copy)]
enum Written {
    Durable,
    /// The batch was removed again.
    Full,
    Broken,
}

fn write(file: &File, bytes: &[u8], at: u64) -> Written {
    if let Err(error) = file.write_all_at(bytes, at) {
        tracing::error!(error = %error, "the simulator's journal cannot be written");
        let is_full = error.kind() == io::ErrorKind::StorageFull;
        let cut = file.set_len(at).and_then(|()| file.sync_data());
        return if is_full && cut.is_ok() { Written::Full } else { Written::Broken };
    }
    if let Err(error) = file.sync_data() {
        // After a failed sync the content of the file is unknown, and another sync may report success
        // although data is lost.
        tracing::error!(error = %error, "the simulator's journal cannot be synced");
        return Written::Broken;
    }
    Written::Durable
}
