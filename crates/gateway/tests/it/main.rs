//! Tests of gateways, push notifications with real files and sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod callback_stub;
mod calls;
mod forbidden_addresses;
mod http_gateway;
mod journal;
mod methods;
mod push;
mod reconcile;
mod remote;
mod simulator;
mod webhooks;
