//! The store's tests on real data: one binary, one file per area.

mod analytics;
mod backups;
mod commits;
mod scratch;
mod sqlite;
mod verification;
mod workload;
