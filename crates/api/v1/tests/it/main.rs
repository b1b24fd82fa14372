//! Sign-up under `/v1` over a real engine and a real store.

#![expect(clippy::unwrap_used, reason = "a test that finds what it does not expect has failed")]

mod operations;
mod sign_up;
mod world;
