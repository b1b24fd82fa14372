//! One TCP connection: frames read and written in batches, as many to a system call as there are.

use std::io;
use std::time::{Duration, Instant};

use bytes::{Buf as _, BytesMut};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_util::codec::{Decoder as _, Encoder as _};

use crate::framing::Header;
use crate::framing::codec::{Codec, CodecError, Received, Sent};

/// The most that one read takes.
const READ_BYTES: usize = 64 * 1024;
/// How long a wait polls before it sleeps: about the time of a sleep and a wake-up.
const POLL_TIME: Duration = Duration::from_micros(50);
/// The most waits without polling between two attempts to poll.
const SLEEPS_MAX: u32 = 1024;
/// Nothing is read while more than this is not yet written.
const UNWRITTEN_BYTES_MAX: usize = 256 * 1024;

/// A connection with its codec. Buffers are reused: a message allocates nothing.
pub struct Connection {
    stream: TcpStream,
    codec: Codec,
    input: BytesMut,
    output: BytesMut,
    is_closed: bool,
    polling: Polling,
}

/// Decides whether a wait polls before it sleeps. With a peer that answers within [`POLL_TIME`],
/// polling is faster and costs no more. After each attempt in vain, attempts become rarer.
struct Polling {
    /// Sleeps until the next attempt.
    sleeps: u32,
    /// Sleeps after the last attempt in vain.
    sleeps_next: u32,
}

impl Polling {
    const NEW: Self = Self { sleeps: 0, sleeps_next: 1 };

    /// Until when this wait polls; `None`: it sleeps at once.
    fn deadline(&mut self) -> Option<Instant> {
        let is_due = self.sleeps == 0;
        self.sleeps = self.sleeps.saturating_sub(1);
        is_due.then(|| Instant::now() + POLL_TIME)
    }

    fn record(&mut self, was_in_vain: bool) {
        self.sleeps_next = if was_in_vain { (self.sleeps_next * 2).min(SLEEPS_MAX) } else { 1 };
        self.sleeps = if was_in_vain { self.sleeps_next } else { 0 };
    }
}

impl Connection {
    /// Takes over a TCP connection.
    ///
    /// # Errors
    /// If the connection has failed already.
    pub fn new(stream: TcpStream, codec: Codec) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (input, output) = (BytesMut::new(), BytesMut::new());
        Ok(Self { stream, codec, input, output, is_closed: false, polling: Polling::NEW })
    }

    /// The next message that has arrived as a whole.
    ///
    /// # Errors
    /// If the received bytes are no frame. Nothing can be read after that.
    pub fn receive(&mut self) -> Result<Option<Received>, CodecError> {
        match self.is_closed {
            true => self.codec.decode_eof(&mut self.input),
            false => self.codec.decode(&mut self.input),
        }
    }

    /// Appends a message to the output; [`Self::exchange`] and [`Self::flush`] write it.
    ///
    /// # Errors
    /// If it cannot be framed.
    pub fn send(&mut self, sent: Sent<'_>) -> Result<(), CodecError> {
        self.codec.encode(sent, &mut self.output)
    }

    /// The length of a message in its frame.
    ///
    /// # Errors
    /// If it cannot be framed.
    pub fn framed_bytes(&mut self, body: &[u8]) -> Result<usize, CodecError> {
        let mut frame = BytesMut::new();
        self.codec.encode(Sent::Message { header: Header::Configured, body }, &mut frame)?;
        Ok(frame.len())
    }

    /// Whether keep-alives are to be answered.
    pub fn answers_keep_alives(&self) -> bool {
        self.codec.framing().answers_keep_alives()
    }

    /// Writes the output and waits until something arrives; `false`: the peer has closed the
    /// connection.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn exchange(&mut self) -> Result<bool, CodecError> {
        let deadline = self.polling.deadline();
        let is_polling = || deadline.is_some_and(|deadline| Instant::now() < deadline);
        let read = loop {
            self.write()?;
            let (mut reading, writing) = self.stream.split();
            let has_room = self.output.len() < UNWRITTEN_BYTES_MAX;
            if has_room {
                self.input.reserve(READ_BYTES);
            }
            tokio::select! {
                biased;
                read = reading.read_buf(&mut self.input), if has_room => break read?,
                ready = writing.writable(), if !self.output.is_empty() => ready?,
                // Lets other tasks run, and the runtime ask the system for arrived bytes.
                () = tokio::task::yield_now(), if is_polling() => {}
            }
        };
        if deadline.is_some() {
            self.polling.record(!is_polling());
        }
        self.is_closed = read == 0;
        Ok(read > 0)
    }

    /// Writes the whole output.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn flush(&mut self) -> Result<(), CodecError> {
        while !self.output.is_empty() {
            self.stream.writable().await?;
            self.write()?;
        }
        Ok(())
    }

    /// Writes as much as the socket accepts now.
    fn write(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.try_write(&self.output) {
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        // Makes the capacity of the written bytes usable again.
        self.output.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the waits that poll, where those `in_vain` are.
    fn polled(waits: u32, in_vain: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut polling = Polling::NEW;
        let mut polled = vec![];
        for wait in 0..waits {
            if polling.deadline().is_some() {
                polling.record(in_vain(wait));
                polled.push(wait);
            }
        }
        polled
    }

    #[test]
    fn slow_peers_are_polled_less_and_less_often() {
        assert_eq!(polled(6, |_| false), [0, 1, 2, 3, 4, 5]);
        assert_eq!(polled(64, |_| true), [0, 3, 8, 17, 34]);
        // After one quick answer each wait polls again.
        assert_eq!(polled(12, |wait| wait < 4), [0, 3, 8, 9, 10, 11]);
        let rare = polled(20_000, |_| true);
        assert_eq!(rare[rare.len() - 1] - rare[rare.len() - 2], SLEEPS_MAX + 1);
    }
}
