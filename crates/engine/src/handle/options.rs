//! The settings of an engine, and why one does not start.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{Progress, StoppedGateways};
use crate::ClockBehind;
use crate::breaker::Breakers;
use crate::ports::StoreError;

/// The engine's own settings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Commands waiting for the partition; more are refused.
    pub queue_max: usize,
    /// Calls in flight per gateway that has no limit of its own; more are refused.
    pub in_flight_max: usize,
    /// Reads at the same time; as many connections are open.
    pub readers: usize,
    /// Reads waiting for a connection; more are refused.
    pub reads_waiting_max: usize,
    /// How often the resolver looks for outcomes to ask about.
    pub resolver_tick: Duration,
    /// Questions to a gateway at the same time.
    pub inquiries_max: usize,
    /// Notified of each commit that changes feature flags; all engines of a process share it.
    pub flags: Arc<watch::Sender<()>>,
    /// The same, of each commit that queues mails.
    pub mails: Arc<watch::Sender<()>>,
    /// The same, of each commit that changes what accounts are entitled to.
    pub entitlements: Arc<watch::Sender<()>>,
    /// Gateways that an operator has stopped; all engines of a process share them.
    pub stopped_gateways: Arc<StoppedGateways>,
    /// The breakers of gateways; all engines of a process share them.
    pub breakers: Arc<Breakers>,
    /// Whether the threads of partitions get on; all engines of a process share it.
    pub progress: Arc<Progress>,
    /// Ends the process after a panic of a partition's thread, with an exit status.
    pub exit: fn(i32),
    /// Whether reads of balances take the simulated time that their clients request, for benchmarks.
    pub simulates_work: bool,
    /// Whether a start goes on from the newest journal row however far the clock is behind it.
    pub accepts_clock_behind: bool,
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the database cannot be opened: {0}")]
    Store(#[from] StoreError),
    #[error(transparent)]
    ClockBehind(#[from] ClockBehind),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_max: 16_384,
            in_flight_max: 4_096,
            readers: 4,
            reads_waiting_max: 4_096,
            resolver_tick: Duration::from_millis(500),
            inquiries_max: 64,
            flags: Arc::default(),
            mails: Arc::default(),
            entitlements: Arc::default(),
            stopped_gateways: Arc::default(),
            breakers: Arc::default(),
            progress: Arc::default(),
            exit: |status| std::process::exit(status),
            simulates_work: false,
            accepts_clock_behind: false,
        }
    }
}
