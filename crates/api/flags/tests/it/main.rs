//! The APIs over real sockets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod changes;
mod endings;
mod fixture;
mod frames;
mod http;
mod limits;
mod ofrep;
mod relay;
mod request;
mod syncs;
mod watch;
