//! The set-up of a process before it serves: a runtime, signals, and its limits of files.

use std::io;

use crate::error::Error;
use config::Config;

/// The runtime for everything that waits. The partition has a thread of its own beside it.
///
/// # Errors
/// Where the system gives no threads.
pub fn runtime(config: &Config) -> Result<tokio::runtime::Runtime, Error> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if config.worker_threads > 0 {
        builder.worker_threads(config.worker_threads);
    }
    builder.thread_name("http").enable_all().build().map_err(Error::Runtime)
}

/// Receives the signals of operators and service managers.
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

/// A signal, by what it requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The end: SIGTERM or SIGINT.
    Stop,
    /// To read again what may have been replaced: SIGHUP.
    Reload,
}

impl Signals {
    /// Takes the signals over from the system, which would end the process at once.
    ///
    /// # Errors
    /// Where the system does not give them.
    pub fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt, hangup: signal(SignalKind::hangup())? })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.hangup.recv() => Signal::Reload,
        }
    }

    /// Waits for any of them, in programs that have nothing to read again and end with their terminal.
    pub async fn wait(&mut self) {
        self.next().await;
    }
}

/// Raises the limit of open files as far as this process may, and returns it.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!(error = %error, "the limit of open files cannot be raised");
            limit.current.unwrap_or(u64::MAX)
        }
    }
}

/// Makes a write beyond a limit on a file's size fail, as on a full disk, instead of ending the
/// process: SIGXFSZ has no effect once it has a handler.
pub fn survive_file_size_limit() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::from_raw(libc::SIGXFSZ)).map(drop)
}
