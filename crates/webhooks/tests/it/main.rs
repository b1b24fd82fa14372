//! Tests of webhooks with an engine, a store and sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod callback_stub;
mod forbidden_addresses;
#[path = "../../../outbound/tests/forbidden_addresses/listener.rs"]
mod listener;
mod push;
mod rebound_names;

/// The timeout of a test that waits for an event.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);
