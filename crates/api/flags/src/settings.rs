//! Bounds and timeouts of the APIs.

use std::sync::Arc;
use std::time::Duration;

use feature_flags::RateLimits;
use web::{AnswerBudget, NetworkPermits};

/// Bounds and timeouts of the APIs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The prefix of all paths, such as `/flags`; empty by default.
    pub prefix: String,
    /// How far the time in a token may be from ours, before or after.
    pub token_age_max: Duration,
    /// How long a stream waits for its secret to become known: another process may have made it, and
    /// an SDK whose secret is refused does not reconnect.
    pub secret_timeout: Duration,
    /// How many streams wait for that at a time; others are asked to reconnect.
    pub unknown_secrets_max: usize,
    /// How long a socket may be silent. SDKs ping every 18 s.
    pub idle_timeout: Duration,
    /// How long the write of a message may take before its socket is dropped.
    pub write_timeout: Duration,
    /// How long the upgrade may take, and the write of what precedes the close frame, with it.
    pub close_timeout: Duration,
    /// How long a client may take to end its connection after the close frame; the server ends it
    /// then.
    pub closed_timeout: Duration,
    /// How many changes a socket may lack while it does not read.
    pub behind_max: u64,
    /// How many sockets may be open.
    pub sockets_max: usize,
    /// How many event streams of OFREP may be open.
    pub listeners_max: usize,
    /// The longest body with a user, in bytes.
    pub user_bytes_max: usize,
    /// The longest body of insights, in bytes: SDKs send some thousands together.
    pub insights_bytes_max: usize,
    /// How many streams of one environment may be open.
    pub environment_streams_max: usize,
    /// How many streams one network may have open, here and by other APIs.
    pub networks: Arc<NetworkPermits>,
    /// The memory for what clients have not read, here and of other APIs.
    pub answers: Arc<AnswerBudget>,
    /// How often a secret may be used.
    pub rate_limits: RateLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            token_age_max: Duration::from_secs(30),
            secret_timeout: Duration::from_millis(300),
            unknown_secrets_max: 256,
            idle_timeout: Duration::from_secs(90),
            write_timeout: Duration::from_secs(15),
            close_timeout: Duration::from_secs(3),
            closed_timeout: Duration::from_secs(1),
            behind_max: 1_000,
            sockets_max: 200_000,
            listeners_max: 10_000,
            user_bytes_max: 64 * 1_024,
            insights_bytes_max: 2 * 1_024 * 1_024,
            environment_streams_max: usize::MAX,
            networks: NetworkPermits::new(usize::MAX, vec![]),
            answers: AnswerBudget::new(usize::MAX, vec![]),
            rate_limits: RateLimits::default(),
        }
    }
}

/// The timeouts of a socket, and its bound of unsent changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For the next message of the client.
    pub(crate) idle: Duration,
    /// For writing a message.
    pub(crate) write: Duration,
    /// For the upgrade, and for writing the close frame.
    pub(crate) close: Duration,
    /// For the client's end of the connection after the close frame.
    pub(crate) closed: Duration,
    /// Changes that may be unsent while the client does not read.
    pub(crate) behind_max: u64,
}
