//! The load: keeps the configured number of requests in flight.

use std::time::{Duration, Instant};

use iso8583::framing::Header;
use iso8583::framing::codec::{Received, Sent};

use super::requests::Requests;
use super::{CLOSED, Clock, Tally};
use ::iso8583::connection::Connection;

/// One connection with its requests.
pub struct Load {
    connection: Connection,
    requests: Requests,
    timeout: Duration,
    packed: Vec<u8>,
    /// When the request in each slot was sent.
    sent: Vec<Instant>,
}

impl Load {
    pub fn new(connection: Connection, requests: Requests, timeout: Duration) -> Self {
        Self { connection, requests, timeout, packed: vec![], sent: vec![] }
    }

    /// The length of a request in its frame.
    pub fn request_bytes(&mut self) -> anyhow::Result<usize> {
        self.packed.clear();
        self.requests.example(&mut self.packed)?;
        Ok(self.connection.framed_bytes(&self.packed)?)
    }

    /// Sends and receives for `span`, then waits for the last responses. Ends early if a response
    /// times out or the connection is closed.
    ///
    /// # Errors
    /// If the connection fails, or the received bytes are no frame.
    pub async fn run(&mut self, span: Duration, server: Option<u32>) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        let clock = Clock::start(server)?;
        let mut now = clock.started;
        loop {
            if now.duration_since(clock.started) < span {
                self.fill(now)?;
            } else if self.requests.waiting() == 0 {
                break;
            }
            let arrived = match tokio::time::timeout(self.timeout, self.connection.exchange()).await
            {
                Ok(arrived) => arrived?,
                Err(_) => {
                    tally.count("no answer in time", self.requests.give_up());
                    break;
                }
            };
            now = Instant::now();
            while let Some(received) = self.connection.receive()? {
                self.take(received, now, &mut tally)?;
            }
            if !arrived {
                tally.count(CLOSED, self.requests.give_up());
                break;
            }
        }
        clock.stop(&mut tally)?;
        Ok(tally)
    }

    fn fill(&mut self, now: Instant) -> anyhow::Result<()> {
        loop {
            self.packed.clear();
            let Some(slot) = self.requests.next(&mut self.packed)? else { return Ok(()) };
            self.connection
                .send(Sent::Message { header: Header::Configured, body: &self.packed })?;
            if self.sent.len() <= slot {
                self.sent.resize(slot + 1, now);
            }
            self.sent[slot] = now;
        }
    }

    fn take(&mut self, received: Received, now: Instant, tally: &mut Tally) -> anyhow::Result<()> {
        let body = match received {
            Received::Message { body, .. } => body,
            Received::KeepAlive if self.connection.answers_keep_alives() => {
                return Ok(self.connection.send(Sent::KeepAlive)?);
            }
            Received::KeepAlive => return Ok(()),
        };
        match self.requests.take(&body) {
            Ok(slot) => {
                tally.answers += 1;
                tally.latencies.record(now.duration_since(self.sent[slot]));
            }
            Err(kind) => tally.count(kind, 1),
        }
        Ok(())
    }
}
