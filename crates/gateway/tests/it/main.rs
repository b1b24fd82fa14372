//! The gateways and the push follower over real files and real sockets.

#![expect(clippy::unwrap_used, reason = "a test that finds what it does not expect has failed")]

mod calls;
mod journal;
mod push;
mod receiver;
mod reconcile;
mod remote;
mod simulator;
