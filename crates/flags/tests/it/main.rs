//! The doors over real sockets.
#![expect(clippy::unwrap_used, reason = "a test says what broke by panicking")]

mod asking;
mod calls;
mod changes;
mod endings;
mod frames;
mod http;
mod limits;
mod ofrep;
mod refused;
mod relay;
mod syncs;
mod world;
