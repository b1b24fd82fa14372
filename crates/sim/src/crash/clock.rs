//! The server's test clock: days pass, so that retries become due.

use std::net::SocketAddr;

use anyhow::Context;

use super::http::{Connection, Identity};

/// Where the clock is.
const PATH: &str = "/1.0/kb/test/clock";

/// The clock of a server, which goes on from its newest journal row after each start.
#[derive(Debug)]
pub struct TestClock {
    address: SocketAddr,
    identity: Identity,
    latest: Option<String>,
}

impl TestClock {
    /// The clock of the server at an address.
    #[must_use]
    pub const fn new(address: SocketAddr, identity: Identity) -> Self {
        Self { address, identity, latest: None }
    }

    /// Lets a day pass, then waits until what is due is done, for so many seconds at most.
    ///
    /// # Errors
    /// Where the server does not answer.
    pub fn pass_a_day(&mut self, wait_s: u32) -> anyhow::Result<()> {
        self.pass(1, wait_s)
    }

    /// Lets days pass, as [`TestClock::pass_a_day`].
    ///
    /// # Errors
    /// Where the server does not answer.
    pub fn pass(&mut self, days: u32, wait_s: u32) -> anyhow::Result<()> {
        let now = self.send("PUT", &format!("{PATH}?days={days}&timeoutSec={wait_s}"))?;
        self.latest = Some(now);
        Ok(())
    }

    /// Sets a server that was started again to the time that it showed before.
    ///
    /// # Errors
    /// Where the server does not answer.
    pub fn restore(&self) -> anyhow::Result<()> {
        let Some(latest) = &self.latest else { return Ok(()) };
        self.send("POST", &format!("{PATH}?requestedDate={latest}&timeoutSec=0")).map(drop)
    }

    /// The time, in ISO 8601 (UTC).
    ///
    /// # Errors
    /// Where the server does not answer.
    pub fn now(&self) -> anyhow::Result<String> {
        self.send("GET", PATH)
    }

    fn send(&self, method: &'static str, target: &str) -> anyhow::Result<String> {
        let request = self.identity.request(method, target.to_owned(), String::new());
        let response = Connection::new(self.address).send(&request).context("the test clock")?;
        let shown = response.json()["currentUtcTime"].as_str().map(str::to_owned);
        let now = shown.filter(|_| response.status == 200);
        now.with_context(|| {
            format!("{method} {target}: {}", String::from_utf8_lossy(&response.body))
        })
    }
}
