//! Checkpoints of a database file: the write-ahead log is copied into the database and begins anew. A
//! thread copies most of it and waits for the disk while the writer goes on; the writer copies the rest,
//! since a log begins anew only once all of it is copied.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

/// How often the thread copies what the log has. SQLite syncs the database only where no commit came
/// while it copied: seldom the first time, mostly the second.
const PASSES: usize = 4;
/// How many times the usual number of pages the log gets while the thread copies: then commits wait for it.
const SIZES_MAX: u32 = 4;
/// The usual number of pages is at most this part of what the log has of the disk and what is free there. With
/// [`SIZES_MAX`] the log takes half of it, and the other half is left for the copy.
const PART_OF_FREE: u64 = 8;
/// The size of a page in the log, in bytes: the page and its header.
const PAGE_IN_LOG_BYTES: u64 = 4_096 + 24;
/// After how many further pages the disk is looked at again.
const LOOK_EVERY: u32 = 64;

/// The checkpoints of one connection that writes.
#[derive(Clone)]
pub(super) struct Checkpoints(Arc<Mutex<State>>);

struct State {
    path: PathBuf,
    /// After how many pages the log is copied, where the disk has room for them.
    pages_max: u32,
    /// After how many pages it is copied on the disk as it was when the log had `looked_at` pages.
    pages: u32,
    looked_at: u32,
    /// How many bytes are free on the disk of a file.
    free_bytes: fn(&Path) -> Option<u64>,
    /// How many pages the log had when it was copied last; 0 once it has begun anew.
    copied_at: u32,
    copying: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Of the database at `path`, whenever the log has `pages` more of them.
    pub(super) fn new(path: PathBuf, pages: u32) -> Self {
        Self(Arc::new(Mutex::new(State {
            path,
            pages_max: pages,
            pages,
            looked_at: u32::MAX,
            free_bytes,
            copied_at: 0,
            copying: None,
        })))
    }

    /// To be called after each commit, with the pages that the log has.
    pub(super) fn committed(&self, wal: &mut Wal, pages: c_int) {
        self.state().committed(wal, pages.unsigned_abs());
    }

    /// Waits for the thread, if it runs: beside it no other checkpoint can.
    pub(super) fn wait(&self) {
        self.state().wait();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn committed(&mut self, wal: &mut Wal, pages: u32) {
        if pages < self.copied_at {
            self.copied_at = 0;
        }
        self.look(pages);
        let is_due = pages >= self.copied_at.saturating_add(self.pages);
        let late_at = self.copied_at.saturating_add(self.pages.saturating_mul(SIZES_MAX));
        let is_late = pages >= late_at;
        match &self.copying {
            None if is_due => {
                if !self.begin() {
                    self.copy_rest(wal, pages);
                }
            }
            Some(copying) if copying.is_finished() || is_late => {
                self.wait();
                if is_due {
                    self.copy_rest(wal, pages);
                }
            }
            None | Some(_) => {}
        }
    }

    /// Keeps the log small on a small disk: all of it stops commits there, also of what is not growing.
    fn look(&mut self, pages: u32) {
        if pages >= self.looked_at && pages - self.looked_at < LOOK_EVERY {
            return;
        }
        self.looked_at = pages;
        if let Some(free) = (self.free_bytes)(&self.path) {
            self.pages = pages_on_disk(self.pages_max, pages, free);
        }
    }

    /// Starts the thread; whether that is possible.
    fn begin(&mut self) -> bool {
        let path = self.path.clone();
        let copying = thread::Builder::new().name("checkpoint".to_owned());
        self.copying = copying.spawn(move || copy(&path)).ok();
        self.copying.is_some()
    }

    /// Copies the rest of the log. Pages that cannot be copied now, for a reader that needs the database as it was,
    /// are copied later.
    fn copy_rest(&mut self, wal: &mut Wal, pages: u32) {
        self.copied_at = pages;
        if let Err(error) = wal.checkpoint() {
            warn(&error);
        }
    }

    fn wait(&mut self) {
        if let Some(copying) = self.copying.take() {
            // It has no result, and what it did not copy the writer copies.
            let _ended = copying.join();
        }
    }
}

impl Drop for State {
    /// Who closes a database finds nobody in its files afterwards.
    fn drop(&mut self) {
        self.wait();
    }
}

/// After how many pages a log of `pages` is copied on a disk with so many free bytes.
fn pages_on_disk(pages_max: u32, pages: u32, free_bytes: u64) -> u32 {
    let room = free_bytes.saturating_add(u64::from(pages) * PAGE_IN_LOG_BYTES);
    let most = room / PART_OF_FREE / PAGE_IN_LOG_BYTES;
    u32::try_from(most).map_or(pages_max, |most| most.clamp(1, pages_max.max(1)))
}

fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn copy(path: &Path) {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copied = Connection::open_with_flags(path, flags).and_then(|connection| {
        // Opens the log too.
        connection.pragma_query_value(None, "application_id", |_| Ok(()))?;
        (0..PASSES).try_for_each(|_| {
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        })
    });
    if let Err(error) = copied {
        warn(&error);
    }
}

fn warn(error: &rusqlite::Error) {
    tracing::warn!(%error, "failed to copy the write-ahead log into the database; it grows until the next try");
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::driver::sqlite::{self, Options};

    const PAGES: u32 = 16;
    /// More than a commit of these tests writes.
    const PAGES_OF_COMMIT: u64 = 8;
    const PAGE_AND_HEADER_BYTES: u64 = 4_096 + 24;

    struct Written {
        db: sqlite::Connection,
        dir: TempDir,
    }

    impl Written {
        fn new() -> Self {
            let dir = TempDir::new().unwrap();
            let options = Options { checkpoint_pages: PAGES, ..Options::default() };
            let db = sqlite::Connection::to_write(&dir.path().join("db"), &options).unwrap();
            db.run("CREATE TABLE payment (id INTEGER PRIMARY KEY, text TEXT)").unwrap();
            Self { db, dir }
        }

        fn commit(&self, times: usize) {
            for _ in 0..times {
                self.db.begin().unwrap();
                self.db.run("INSERT INTO payment (text) VALUES (hex(randomblob(500)))").unwrap();
                self.db.commit().unwrap();
            }
        }

        fn reader(&self) -> sqlite::Connection {
            sqlite::Connection::to_read(&self.dir.path().join("db"), &Options::default()).unwrap()
        }

        fn bytes(&self, file: &str) -> u64 {
            fs::metadata(self.dir.path().join(file)).unwrap().len()
        }

        fn copying(&self) -> bool {
            self.db.checkpoints.as_ref().unwrap().state().copying.is_some()
        }
    }

    #[test]
    fn a_log_stays_small_however_long_commits_go_on() {
        let it = Written::new();
        it.commit(2_000);
        let most = (u64::from(PAGES * SIZES_MAX) + PAGES_OF_COMMIT) * PAGE_AND_HEADER_BYTES;
        assert!(it.bytes("db-wal") <= most, "{} of {most}", it.bytes("db-wal"));
        assert!(it.bytes("db") > 400 * 4_096, "{}", it.bytes("db"));
    }

    #[test]
    fn a_log_takes_half_of_a_small_disk_at_most() {
        let options = Options { checkpoint_pages: 8_000, ..Options::default() };
        let dir = TempDir::new().unwrap();
        let db = sqlite::Connection::to_write(&dir.path().join("db"), &options).unwrap();
        db.run("CREATE TABLE payment (id INTEGER PRIMARY KEY, text TEXT)").unwrap();
        let it = Written { db, dir };
        // A disk of 400 pages: what the files have is free no more.
        it.db.checkpoints.as_ref().unwrap().state().free_bytes = |path| {
            let log = fs::metadata(path.with_file_name("db-wal")).map_or(0, |file| file.len());
            Some((400 * PAGE_IN_LOG_BYTES).saturating_sub(log))
        };
        it.commit(2_000);
        let most = (200 + u64::from(LOOK_EVERY) + PAGES_OF_COMMIT) * PAGE_AND_HEADER_BYTES;
        assert!(it.bytes("db-wal") <= most, "{} of {most}", it.bytes("db-wal"));
    }

    #[test]
    fn what_is_free_bounds_the_pages_of_a_log() {
        let mib = 1 << 20;
        for (pages, free_bytes, expected) in [
            (0, u64::MAX, 8_000),
            (0, 1_024 * mib, 8_000),
            (0, 64 * mib, 2_036),
            (2_036, 56 * mib, 2_036),
            (0, 0, 1),
        ] {
            assert_eq!(pages_on_disk(8_000, pages, free_bytes), expected, "{pages} {free_bytes}");
        }
    }

    #[test]
    fn a_log_that_a_reader_needed_begins_anew_after_it() {
        let it = Written::new();
        let reader = it.reader();
        reader.run("BEGIN; SELECT count(*) FROM payment").unwrap();
        it.commit(400);
        let grown = it.bytes("db-wal");
        assert!(grown > 400 * PAGE_AND_HEADER_BYTES, "{grown}");
        reader.rollback().unwrap();
        it.commit(1_000);
        assert!(it.bytes("db-wal") < 2 * grown, "{} after {grown}", it.bytes("db-wal"));
    }

    #[test]
    fn a_log_is_emptied_while_it_is_copied() {
        let it = Written::new();
        for _ in 0..50 {
            while !it.copying() {
                it.commit(1);
            }
            it.db.checkpoint().unwrap();
            assert!(!it.copying());
            assert_eq!(it.bytes("db-wal"), 0);
        }
    }
}
