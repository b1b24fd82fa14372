//! What the doors of flags allow, and how long.

use std::error::Error;
use std::time::Duration;

use crate::limit::RateLimits;

/// Why a body does not come. How large it may be and how long it may take is the server's business
/// besides ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// It is larger than the server accepts.
    TooLarge,
    /// It did not come in time.
    TimedOut,
    /// It broke off.
    Broken,
    /// There are too many bodies in memory.
    NoRoom,
}

/// Which of these an error of the server's is; `None`: none of its own.
pub type ReadBodyError = fn(&(dyn Error + 'static)) -> Option<BodyError>;

/// Bounds of the doors.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What stands before all paths, such as `/flags`; nothing by default.
    pub prefix: String,
    /// How far a token's moment may be from ours, before or behind.
    pub token_age_max: Duration,
    /// How long a stream waits for its secret to become known: another process may have made it, and
    /// whoever is told that it opens nothing never comes again.
    pub secret_patience: Duration,
    /// How many streams wait for that; the others are told to come again.
    pub strangers_max: usize,
    /// How long a socket may say nothing. SDKs ping every 18 s.
    pub idle_timeout: Duration,
    /// How long a socket may take for a message before it is dropped.
    pub write_timeout: Duration,
    /// How long a socket that was told to go may take to do so.
    pub farewell_timeout: Duration,
    /// How many changes a socket may lack while it does not take a message.
    pub behind_max: u64,
    /// How many sockets may be open.
    pub sockets_max: usize,
    /// How many listeners to event streams there may be.
    pub listeners_max: usize,
    /// The longest body that describes a user, in bytes.
    pub user_bytes_max: usize,
    /// The longest body of insights: SDKs send up to some thousands together.
    pub insights_bytes_max: usize,
    /// How often a secret may be used; without limit by default.
    pub rate_limits: RateLimits,
    /// What the errors of bodies are that the server hands in.
    pub body_error: ReadBodyError,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            token_age_max: Duration::from_secs(30),
            secret_patience: Duration::from_millis(300),
            strangers_max: 256,
            idle_timeout: Duration::from_secs(90),
            write_timeout: Duration::from_secs(15),
            farewell_timeout: Duration::from_secs(3),
            behind_max: 1_000,
            sockets_max: 200_000,
            listeners_max: 10_000,
            user_bytes_max: 64 * 1_024,
            insights_bytes_max: 2 * 1_024 * 1_024,
            rate_limits: RateLimits::default(),
            body_error: |_| None,
        }
    }
}
