//! Why a data directory, a backup or a check could not be had.

use std::io;
use std::path::{Path, PathBuf};

use engine::ports::StoreError;

/// An error of files or of a database as a whole. An error of rows is a [`StoreError`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has the data directory.
    #[error("data directory {} is in use by another process", dir.display())]
    InUse { dir: PathBuf },
    /// A newer version wrote it.
    #[error(
        "{} was written by a newer version: its schema is {found}, this version knows up to {known}",
        path.display()
    )]
    NewerSchema {
        path: PathBuf,
        /// Its schema's version.
        found: i64,
        /// The newest that this version knows.
        known: i64,
    },
    /// It was written by an older version, and is only to be read.
    #[error(
        "{} was written by an older version: its schema is {found}, this version reads {known}; start a \
         server of this version on it once, or use the version that wrote it",
        path.display()
    )]
    OlderSchema {
        path: PathBuf,
        /// Its schema's version.
        found: i64,
        /// The one of this version.
        known: i64,
    },
    /// Its tables are not those of the version that it says it has.
    #[error("the schema of {} is not what version {version} of it should be", path.display())]
    SchemaDiffers {
        path: PathBuf,
        /// The version that it says it has.
        version: i64,
    },
    /// It is a database of something else, or none.
    #[error("{} is not a Faregate database", path.display())]
    NotADatabase { path: PathBuf },
    /// The database is missing or empty, and what belongs to it is there.
    #[error(
        "{} is missing or empty, but {found} beside it belong to it: restore the database, or begin \
         anew with `--new-database`",
        path.display()
    )]
    Lost {
        path: PathBuf,
        /// The names of what is there.
        found: String,
    },
    /// The target exists and would be overwritten.
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    /// It has another number of partitions. One that has one can be given more, once.
    #[error("{} has {found} partitions, not {wanted}", path.display())]
    Partitions {
        path: PathBuf,
        /// How many it has.
        found: u16,
        /// How many it was to have.
        wanted: u16,
    },
    /// A copy would mix with what is there.
    #[error("{} has {what}: a copy goes into an empty database", path.display())]
    OtherData {
        path: PathBuf,
        /// The data that it has, in words for the message.
        what: String,
    },
    /// A copy that is not finished is not to be served.
    #[error(
        "a copy from SQLite into {} is not finished: `faregate migrate sqlite-to-postgres` goes on with it",
        path.display()
    )]
    Unfinished { path: PathBuf },
    /// The address of a database cannot be one.
    #[error("{reason}")]
    Address {
        /// The reason why the address is refused; it never has the password.
        reason: String,
    },
    /// The file system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The database refused.
    #[error("{}: {source}", path.display())]
    Database { path: PathBuf, source: StoreError },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn database(path: &Path) -> impl Fn(StoreError) -> Self {
        move |source| Self::Database { path: path.to_owned(), source }
    }
}
