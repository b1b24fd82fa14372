//! Sign-up on a real engine and a real store.

#![expect(clippy::unwrap_used, reason = "a test that finds what it does not expect has failed")]

mod limits;
mod probe;
mod world;
