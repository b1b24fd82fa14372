//! Why a gateway could not be set up or its journal could not be used.

use std::io;
use std::path::PathBuf;

/// What can go wrong outside a call; inside one, the answer says it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal's file cannot be used.
    #[error("journal {path}: {source}")]
    Journal {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process uses the journal.
    #[error("journal {path} is in use by another process")]
    JournalInUse {
        /// Which file.
        path: PathBuf,
    },
    /// The journal holds what was never written, and not only in a torn tail.
    #[error("journal {path} is corrupt at byte {offset}")]
    JournalCorrupt {
        /// Which file.
        path: PathBuf,
        /// Where the first bad record starts.
        offset: u64,
    },
    /// The disk is full; nothing was written.
    #[error("the journal's disk is full")]
    JournalFull,
    /// A write failed in a way that leaves the file in doubt: nothing is written any more.
    #[error("the journal failed before and takes nothing any more")]
    JournalBroken,
    /// A URL that cannot be called.
    #[error("{field}: {reason}")]
    Url {
        /// Which setting.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which address.
        address: std::net::SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The simulator's process cannot be asked.
    #[error("the simulator's process: {0}")]
    Remote(String),
}
