//! Tests of gateways with real files and sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod calls;
mod forbidden_addresses;
mod http_gateway;
mod journal;
#[path = "../../../outbound/tests/forbidden_addresses/listener.rs"]
mod listener;
mod methods;
mod reconcile;
mod remote;
mod simulator;
