//! Faregate's SQL: tables, load, commit, queries, backup and verification.

pub mod analytics;
mod backup;
mod batch;
pub mod cells;
mod claims;
pub mod codes;
mod commit;
mod directory;
mod error;
pub mod journal;
mod load;
mod pool;
mod queries;
mod recent;
pub mod rows;
pub mod schema;
pub mod sqlite;
pub mod tables;
pub mod totals;
pub mod verify;
mod walk;

pub use backup::{Progress, backup, restore};
pub use commit::SqliteStore;
pub use directory::{database_path, open_dir, read_dir, read_file};
pub use error::Error;
pub use queries::SqliteQueries;
pub use sqlite::{Options, Reader};
pub use walk::each_transaction;
