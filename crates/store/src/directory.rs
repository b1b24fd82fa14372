//! The data directory: made, locked, and found to be one that this version can use.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Error;
use crate::driver::Reader;
use crate::postgres::Server;
use crate::schema;
use crate::sqlite::{Options, could_be_database};

const DATABASE: &str = "faregate.db";
const LOCK: &str = "faregate.lock";
/// The files that SQLite has beside the database: commits that are not in it yet, and their index.
const WRITE_AHEAD_LOG: &str = "faregate.db-wal";
const SHARED_MEMORY: &str = "faregate.db-shm";

/// The database in a data directory, for readers.
#[must_use]
pub fn database_path(dir: &Path) -> PathBuf {
    dir.join(DATABASE)
}

/// Refuses a data directory whose database is missing or empty while its write-ahead log or one of
/// `others` (names of files and directories) is there: a start would take it for a new one, and overwrite
/// the log that a rescue needs.
///
/// # Errors
/// [`Error::Lost`]; [`Error::Io`].
pub fn refuse_lost_database(dir: &Path, others: &[&str]) -> Result<(), Error> {
    if !is_lost(dir)? {
        return Ok(());
    }
    let mut found = Vec::new();
    for name in [WRITE_AHEAD_LOG].iter().chain(others) {
        let path = dir.join(name);
        if path.try_exists().map_err(Error::io("open", &path))? {
            found.push(*name);
        }
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(Error::Lost { path: database_path(dir), found: found.join(", ") }),
    }
}

/// Puts the write-ahead log of a lost database aside, where there is one, and returns its new place. It
/// has commits that a rescue may need.
///
/// # Errors
/// [`Error::Io`].
pub fn put_lost_log_aside(dir: &Path) -> Result<Option<PathBuf>, Error> {
    let log = dir.join(WRITE_AHEAD_LOG);
    if !is_lost(dir)? || !log.try_exists().map_err(Error::io("open", &log))? {
        return Ok(None);
    }
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let aside = dir.join(format!("{WRITE_AHEAD_LOG}.lost-{}", since_epoch.as_secs()));
    std::fs::rename(&log, &aside).map_err(Error::io("rename", &log))?;
    match std::fs::remove_file(dir.join(SHARED_MEMORY)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::io("remove", &dir.join(SHARED_MEMORY))(error))
        }
        Ok(()) | Err(_) => Ok(Some(aside)),
    }
}

/// Whether the database is missing, or an empty file.
fn is_lost(dir: &Path) -> Result<bool, Error> {
    let path = database_path(dir);
    match std::fs::metadata(&path) {
        Ok(metadata) => Ok(metadata.len() == 0),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(Error::io("open", &path)(error)),
    }
}

/// A data directory that no other process can take until this is dropped.
#[derive(Debug)]
pub struct DirLock(File);

impl Drop for DirLock {
    /// To close the file is not enough: a child that another thread has just forked has it open too, until
    /// it becomes its program.
    fn drop(&mut self) {
        let _closed_all_the_same = self.0.unlock();
    }
}

/// Takes a data directory, which is made where it is not there, for a process whose database is
/// elsewhere: what else lies there is for one process too.
///
/// # Errors
/// [`Error`] where the directory is in use or cannot be made.
pub fn lock_dir(dir: &Path) -> Result<DirLock, Error> {
    make(dir)?;
    lock(dir)
}

/// Opens a connection to read the database of a data directory that may be in use.
///
/// # Errors
/// [`Error`] where there is none, or it is newer or something else's.
pub fn read_dir(dir: &Path, options: &Options) -> Result<Reader, Error> {
    read_file(&database_path(dir), options)
}

/// Opens a connection to read a database file.
///
/// # Errors
/// [`Error`] where there is none, or it is newer or something else's.
pub fn read_file(path: &Path, options: &Options) -> Result<Reader, Error> {
    refuse_other_files(path)?;
    let reader = Reader::open(path, options).map_err(Error::database(path))?;
    refuse_older(&reader, path)?;
    Ok(reader)
}

/// Opens a connection to read the database of a server.
///
/// # Errors
/// [`Error`] where it cannot be reached, or the database is older, newer or something else's.
pub fn read_server(server: &Server) -> Result<Reader, Error> {
    let name = Path::new(server.database());
    let reader = Reader::connect(server).map_err(Error::database(name))?;
    refuse_unfinished(&reader, name)?;
    refuse_older(&reader, name)?;
    Ok(reader)
}

pub(crate) fn refuse_unfinished(reader: &Reader, path: &Path) -> Result<(), Error> {
    match schema::is_unfinished(reader).map_err(Error::database(path))? {
        true => Err(Error::Unfinished { path: path.to_owned() }),
        false => Ok(()),
    }
}

fn refuse_older(reader: &Reader, path: &Path) -> Result<(), Error> {
    match schema::check(reader, path)? {
        schema::VERSION => Ok(()),
        // An older one is brought up to date when it is opened to be written.
        found => Err(Error::OlderSchema { path: path.to_owned(), found, known: schema::VERSION }),
    }
}

pub(crate) fn refuse_other_files(path: &Path) -> Result<(), Error> {
    match could_be_database(path).map_err(Error::io("open", path))? {
        true => Ok(()),
        false => Err(Error::NotADatabase { path: path.to_owned() }),
    }
}

/// Makes a directory that only its owner can look into, where it is not there.
///
/// # Errors
/// [`Error`] where it cannot be made.
pub fn make(dir: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(Error::io("create", dir))
}

pub(crate) fn lock(dir: &Path) -> Result<DirLock, Error> {
    let path = dir.join(LOCK);
    let opened =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = opened.map_err(Error::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(DirLock(file)),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(Error::io("lock", &path)(source)),
    }
}

/// Removes a database with the files beside it.
pub(crate) fn remove_database(path: &Path) -> Result<(), Error> {
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let file = PathBuf::from(file);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io("remove", &file)(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Makes a file that only its owner can read, where it is not there: SQLite gives the files beside
/// it the same mode.
pub(crate) fn make_private(path: &Path) -> Result<(), Error> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    opened.map(drop).map_err(Error::io("open", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_free_at_once_whatever_a_forked_child_has_open() {
        let dir = tempfile::tempdir().unwrap();
        let lock = lock_dir(dir.path()).unwrap();
        let inherited = lock.0.try_clone().unwrap();
        assert!(matches!(lock_dir(dir.path()), Err(Error::InUse { .. })));
        drop(lock);
        lock_dir(dir.path()).unwrap();
        drop(inherited);
    }
}
