//! Opens stores: of a data directory, of a server, and of one partition of a server.

use std::path::Path;

use crate::commit::SqlStore;
use crate::directory::{
    database_path, lock, make, make_private, refuse_other_files, refuse_unfinished,
};
use crate::driver::Database;
use crate::pool::Source;
use crate::postgres::Server;
use crate::share::Share;
use crate::sqlite::Options;
use crate::tables::TABLES;
use crate::{Error, schema};

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
