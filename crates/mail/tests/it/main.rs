//! Tests of mail by SMTP and as files, with real sockets and files.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod smtp_server;
mod smtp_stub;
mod transport;

/// The timeout of a test that waits for an event.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);
