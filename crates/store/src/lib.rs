//! Faregate's SQL: tables, load, commit, queries, backup and verification.

mod actors;
pub mod analytics;
mod backup;
mod batch;
mod catalogs;
pub mod cells;
mod chain;
mod claims;
mod clock;
pub mod codes;
mod commit;
pub mod delivery_log;
mod directory;
pub mod driver;
mod entities;
mod error;
mod follow;
pub mod insights;
pub mod journal;
mod journal_tail;
mod load;
pub mod migrate;
mod open;
mod pool;
mod queries;
mod recent;
mod replays;
pub mod schema;
mod share;
pub mod stored;
pub mod table;
pub mod tables;
pub mod totals;
pub mod verify;
mod walk;

pub use backup::{backup, restore, restore_without_sessions, vacuum};
pub use commit::SqlStore;
pub use directory::{
    DirLock, database_path, lock_dir, make as make_dir, put_lost_log_aside, read_dir, read_file,
    read_server, refuse_lost_database,
};
pub use driver::{Reader, postgres, sqlite};
pub use error::Error;
pub use open::{open_dir, open_server, open_share};
pub use pool::Source;
pub use postgres::Server;
pub use queries::SqlQueries;
pub use share::Share;
pub use sqlite::Options;
pub use walk::{each_dispute, each_transaction};
