//! The data directory: made, locked, and found to be one that this version can use.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::commit::SqlStore;
use crate::driver::{Database, Reader};
use crate::migrate;
use crate::pool::Source;
use crate::postgres::Server;
use crate::schema;
use crate::share::Share;
use crate::sqlite::{Options, could_be_database};
use crate::tables::TABLES;

const DATABASE: &str = "faregate.db";
const LOCK: &str = "faregate.lock";

/// The database in a data directory, for readers.
#[must_use]
pub fn database_path(dir: &Path) -> PathBuf {
    dir.join(DATABASE)
}

/// Opens the store in a data directory, which is made where it is not there. The directory stays
/// locked until the store is dropped.
///
/// # Errors
/// [`Error`] where the directory is in use, or its database is newer or something else's.
pub fn open_dir(dir: &Path, options: &Options) -> Result<SqlStore, Error> {
    make(dir)?;
    let lock = lock(dir)?;
    let path = database_path(dir);
    make_private(&path)?;
    refuse_other_files(&path)?;
    let db = Database::open(&path, options, TABLES).map_err(Error::database(&path))?;
    schema::migrate(&db, &path)?;
    let source = Source::File(path, *options);
    Ok(SqlStore::new(db, Share::WHOLE, (source, options), Some(lock)))
}

/// Takes a data directory, which is made where it is not there, for a process whose database is
/// elsewhere: what else lies there is for one process too. It stays locked until the file is dropped.
///
/// # Errors
/// [`Error`] where the directory is in use or cannot be made.
pub fn lock_dir(dir: &Path) -> Result<File, Error> {
    make(dir)?;
    lock(dir)
}

/// Opens the store of a server, whose tables are made where there are none. No other process can
/// open it to write until the store is dropped.
///
/// # Errors
/// [`Error`] where the server cannot be reached, another process writes, or the database is newer
/// or something else's.
pub fn open_server(server: &Server, options: &Options) -> Result<SqlStore, Error> {
    open_share(server, Share::WHOLE, options)
}

/// Opens the store of one partition of a server, of several that other processes may have. Where the
/// database has fewer, the rest is made, if nobody writes it.
///
/// # Errors
/// See [`open_server`]; [`Error::Partitions`] where the database has another number of partitions.
pub fn open_share(server: &Server, share: Share, options: &Options) -> Result<SqlStore, Error> {
    let name = Path::new(server.database());
    let is_alone = share.partitions == 1;
    let connect = || Database::connect(server, is_alone, TABLES).map_err(Error::database(name));
    let mut db = connect()?;
    refuse_unfinished(db.reader(), name)?;
    schema::migrate(&db, name)?;
    if schema::partitions(db.reader()).map_err(Error::database(name))? != share.partitions {
        drop(db);
        let alone = Database::connect(server, true, TABLES).map_err(Error::database(name))?;
        schema::grow(&alone, name, share.partitions)?;
        drop(alone);
        db = connect()?;
    }
    let source = Source::Server(server.clone());
    Ok(SqlStore::new(db, share, (source, options), None))
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

fn refuse_unfinished(reader: &Reader, path: &Path) -> Result<(), Error> {
    match migrate::is_unfinished(reader).map_err(Error::database(path))? {
        true => Err(Error::Unfinished { path: path.to_owned() }),
        false => Ok(()),
    }
}

fn refuse_older(reader: &Reader, path: &Path) -> Result<(), Error> {
    match schema::check(reader, path)? {
        schema::VERSION => Ok(()),
        // An older one is brought up to date when it is opened to be written.
        _ => Err(Error::SchemaDiffers { path: path.to_owned(), version: schema::VERSION }),
    }
}

fn refuse_other_files(path: &Path) -> Result<(), Error> {
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

pub(crate) fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let opened =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = opened.map_err(Error::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(Error::io("lock", &path)(source)),
    }
}

/// Makes a file that only its owner can read, where it is not there: SQLite gives the files beside
/// it the same mode.
pub(crate) fn make_private(path: &Path) -> Result<(), Error> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    opened.map(drop).map_err(Error::io("open", path))
}
