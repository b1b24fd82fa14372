//! Sign-up and its doors over a real engine on a real store.

#![expect(clippy::unwrap_used, reason = "a test that finds what it does not expect has failed")]

mod limits;
mod native;
mod operations;
mod plain;
mod probe;
mod world;
