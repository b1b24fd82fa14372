//! A bounded pool of connections to read with: one for each thread that reads at the same time.

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use engine::ports::{ReadLimits, StoreError};

use crate::postgres::Server;
use crate::{Error, Options, Reader, directory};

/// Where connections to read with lead.
#[derive(Clone, Debug)]
pub enum Source {
    /// To a database file.
    File(PathBuf, Options),
    /// To a server.
    Server(Server),
}

impl Source {
    /// The database in a data directory.
    #[must_use]
    pub fn in_dir(dir: &Path) -> Self {
        Self::File(directory::database_path(dir), Options::default())
    }

    /// Opens a connection to read a database that is there, and that this version knows. It may be
    /// in use.
    ///
    /// # Errors
    /// [`Error`] where there is none, or it is newer or something else's.
    pub fn read(&self) -> Result<Reader, Error> {
        match self {
            Self::File(path, options) => directory::read_file(path, options),
            Self::Server(server) => directory::read_server(server),
        }
    }

    /// Returns a function that makes an [`Error`] with the name of this database from a
    /// [`StoreError`].
    pub(crate) fn failed(&self) -> impl Fn(StoreError) -> Error {
        let name = match self {
            Self::File(path, _) => path.clone(),
            Self::Server(server) => PathBuf::from(server.database()),
        };
        move |source| Error::Database { path: name.clone(), source }
    }

    pub(crate) fn reader(&self) -> Result<Reader, StoreError> {
        match self {
            Self::File(path, options) => Reader::open(path, options),
            Self::Server(server) => Reader::connect(server),
        }
    }
}

/// Lends connections; who finds none waits until one is returned.
pub(crate) struct ReaderPool {
    source: Source,
    readers_max: usize,
    lent: Mutex<Lent>,
    returned: Condvar,
}

struct Lent {
    idle: Vec<Reader>,
    /// All that are open, idle or not.
    open: usize,
    /// Who waits for one to be returned.
    waiting: usize,
}

impl ReaderPool {
    pub(crate) fn open(source: Source, readers_max: usize) -> Result<Self, StoreError> {
        let first = source.reader()?;
        Ok(Self {
            source,
            readers_max: readers_max.max(1),
            lent: Mutex::new(Lent { idle: vec![first], open: 1, waiting: 0 }),
            returned: Condvar::new(),
        })
    }

    /// Reads with a connection of its own, within limits where there are some.
    pub(crate) fn read<T>(
        &self,
        limits: Option<&ReadLimits>,
        query: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut loan = self.lend()?;
        let reader = loan.reader.as_mut().expect("it is there until the loan ends");
        // They hold until the next loan sets its own.
        reader.limit(limits)?;
        query(reader)
    }

    fn lend(&self) -> Result<Loan<'_>, StoreError> {
        let mut lent = self.lock();
        loop {
            if let Some(reader) = lent.idle.pop() {
                drop(lent);
                let mut loan = Loan { reader: Some(reader), pool: self };
                return loan.renewed(&self.source).map(|()| loan);
            }
            if lent.open < self.readers_max {
                lent.open += 1;
                break;
            }
            lent.waiting += 1;
            lent = self.returned.wait(lent).unwrap_or_else(PoisonError::into_inner);
            lent.waiting -= 1;
        }
        drop(lent);
        // Opening may fail: the loan then gives back the place alone.
        let mut loan = Loan { reader: None, pool: self };
        loan.reader = Some(self.source.reader()?);
        Ok(loan)
    }

    fn lock(&self) -> MutexGuard<'_, Lent> {
        // Nothing panics while it is locked, so that it is whole even if somebody poisoned it.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use; it goes back when it is dropped.
struct Loan<'a> {
    reader: Option<Reader>,
    pool: &'a ReaderPool,
}

impl Loan<'_> {
    /// Makes a connection anew that was lost while nobody used it.
    fn renewed(&mut self, source: &Source) -> Result<(), StoreError> {
        if !self.reader.as_ref().is_some_and(Reader::is_usable) {
            self.reader = None;
            self.reader = Some(source.reader()?);
        }
        Ok(())
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        // After a panic nobody knows what the connection was doing: it is closed.
        let usable = self.reader.take().filter(|_| !std::thread::panicking());
        let mut lent = self.pool.lock();
        match usable {
            Some(reader) => lent.idle.push(reader),
            None => lent.open -= 1,
        }
        let is_awaited = lent.waiting > 0;
        drop(lent);
        // A call of the system, which most loans do without.
        if is_awaited {
            self.pool.returned.notify_one();
        }
    }
}
