//! The errors of gateways outside a call. The outcome of a call is part of its answer.

use std::io;
use std::path::PathBuf;

/// Why a gateway cannot be set up or its journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal's file cannot be read or written.
    #[error("journal {path}: {source}")]
    Journal {
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another process uses the journal.
    #[error("journal {path} is in use by another process")]
    JournalInUse {
        /// The file that the other process has locked.
        path: PathBuf,
    },
    /// The journal has an invalid record before its last batch.
    #[error("journal {path} is corrupt at byte {offset}")]
    JournalCorrupt {
        path: PathBuf,
        /// The position of the first invalid record.
        offset: u64,
    },
    /// The disk is full. Nothing was written.
    #[error("the journal's disk is full")]
    JournalFull,
    /// An earlier write left the file in an unknown state. The journal refuses all further records.
    #[error("an earlier write to the journal failed; it accepts no records until a restart")]
    JournalBroken,
    /// A configured URL is invalid.
    #[error("{field}: {reason}")]
    Url {
        field: &'static str,
        /// Why it is invalid.
        reason: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: std::net::SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// A request to the simulator's process failed.
    #[error("the simulator's process: {0}")]
    Remote(String),
}
