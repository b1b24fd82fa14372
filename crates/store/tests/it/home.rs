//! Where the store of a test is: in a directory, or on the server that `FAREGATE_TEST_POSTGRES` names.
//! The cases of `queries`, `history`, `verification` and `analytics` run on either.

use std::path::Path;

use store::driver::Database;
use store::tables::TABLES;
use store::{Options, Reader, Source, SqlStore, database_path};
use tempfile::{TempDir, tempdir};

/// A store's data with a directory beside it, removed when the test is over.
pub struct Home {
    dir: TempDir,
    server: Option<crate::postgres::Scratch>,
}

impl Home {
    /// On a server, where the tests have one.
    pub fn new() -> Self {
        Self {
            dir: tempdir().unwrap(),
            server: crate::postgres::is_there().then(crate::postgres::Scratch::new),
        }
    }

    /// In a directory, for what only SQLite can show.
    pub fn embedded() -> Self {
        Self { dir: tempdir().unwrap(), server: None }
    }

    /// The directory, of SQLite or of what lies beside a server's database.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn open(&self, options: &Options) -> SqlStore {
        if let Some(server) = &self.server {
            return server.open_with(options);
        }
        store::open_dir(self.path(), options).unwrap()
    }

    pub fn source(&self) -> Source {
        if let Some(server) = &self.server {
            return Source::Server(server.server());
        }
        Source::in_dir(self.path())
    }

    /// Changes rows beside the store, which a commit never does.
    pub fn damage(&self, sql: &str) {
        if let Some(server) = &self.server {
            return Reader::connect(&server.server())
                .unwrap()
                .for_each(sql, &[], |_| Ok(()))
                .unwrap();
        }
        let path = database_path(self.path());
        let db = Database::open(&path, &Options::default(), TABLES).unwrap();
        db.exec(sql, &[]).unwrap();
    }

    /// Whether new claims wait to be merged: see `claims.rs`.
    pub fn merges_claims(&self) -> bool {
        matches!(self.source(), Source::File(..))
    }
}
