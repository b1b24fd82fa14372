//! The gateways and the push follower over real files and real sockets.

#![expect(clippy::unwrap_used, reason = "a test that finds what it does not expect has failed")]

mod calls;
mod journal;
mod mail;
mod postbox;
mod push;
mod receiver;
mod reconcile;
mod remote;
mod simulator;
#[cfg(feature = "smtp_server")]
mod smtp_server;
