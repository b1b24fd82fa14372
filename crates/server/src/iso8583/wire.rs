//! One connection: frames read and written in batches, as many to a system call as there are.

use std::io;
use std::time::{Duration, Instant};

use bytes::{Buf as _, BytesMut};
use iso8583::framing::Header;
use iso8583::framing::codec::{Codec, CodecError, Received, Sent};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_util::codec::{Decoder as _, Encoder as _};

/// What one read takes at most.
const READ_BYTES: usize = 64 * 1024;
/// How long to look for what arrives before sleeping: about what falling asleep and waking up take.
const PATIENCE: Duration = Duration::from_micros(50);
/// A peer that is slower is slept on so many times before it is tried again.
const NAPS_MAX: u32 = 1024;
/// Nothing is read while more than this waits to be written.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// A connection with its codec. Its buffers are used again: a message allocates nothing.
pub struct Wire {
    stream: TcpStream,
    codec: Codec,
    input: BytesMut,
    output: BytesMut,
    is_over: bool,
    patience: Patience,
}

/// Whether the peer answers before one could fall asleep and be woken: then looking is quicker, and
/// costs no more. It is tried less and less often while it is in vain.
struct Patience {
    /// Sleeps until the next try.
    naps: u32,
    /// Sleeps behind the last try that was in vain.
    naps_next: u32,
}

impl Patience {
    const NEW: Self = Self { naps: 0, naps_next: 1 };

    /// Until when to look before sleeping.
    fn deadline(&mut self) -> Option<Instant> {
        let is_due = self.naps == 0;
        self.naps = self.naps.saturating_sub(1);
        is_due.then(|| Instant::now() + PATIENCE)
    }

    fn learn(&mut self, is_in_vain: bool) {
        self.naps_next = if is_in_vain { (self.naps_next * 2).min(NAPS_MAX) } else { 1 };
        self.naps = if is_in_vain { self.naps_next } else { 0 };
    }
}

impl Wire {
    /// Takes a connection.
    ///
    /// # Errors
    /// If it is gone already.
    pub fn new(stream: TcpStream, codec: Codec) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (input, output) = (BytesMut::new(), BytesMut::new());
        Ok(Self { stream, codec, input, output, is_over: false, patience: Patience::NEW })
    }

    /// The next message that has arrived as a whole.
    ///
    /// # Errors
    /// If what has arrived is no frame: nothing is to be read any more.
    pub fn next(&mut self) -> Result<Option<Received>, CodecError> {
        match self.is_over {
            true => self.codec.decode_eof(&mut self.input),
            false => self.codec.decode(&mut self.input),
        }
    }

    /// Puts a message behind those that are to be written.
    ///
    /// # Errors
    /// If it cannot be framed.
    pub fn send(&mut self, sent: Sent<'_>) -> Result<(), CodecError> {
        self.codec.encode(sent, &mut self.output)
    }

    /// How many bytes a message takes in its frame.
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

    /// Writes what is to be written and waits until something arrives; says whether it did, or the
    /// peer has closed.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn exchange(&mut self) -> Result<bool, CodecError> {
        let deadline = self.patience.deadline();
        let is_early = || deadline.is_some_and(|deadline| Instant::now() < deadline);
        let read = loop {
            self.write()?;
            let (mut reading, writing) = self.stream.split();
            let has_room = self.output.len() < WAITING_BYTES_MAX;
            if has_room {
                self.input.reserve(READ_BYTES);
            }
            tokio::select! {
                biased;
                read = reading.read_buf(&mut self.input), if has_room => break read?,
                ready = writing.writable(), if !self.output.is_empty() => ready?,
                // Others have their turn, and the system is asked what has arrived.
                () = tokio::task::yield_now(), if is_early() => {}
            }
        };
        if deadline.is_some() {
            self.patience.learn(!is_early());
        }
        self.is_over = read == 0;
        Ok(read > 0)
    }

    /// Writes all that is to be written.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn finish(&mut self) -> Result<(), CodecError> {
        while !self.output.is_empty() {
            self.stream.writable().await?;
            self.write()?;
        }
        Ok(())
    }

    /// Writes as much as the connection takes now.
    fn write(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.try_write(&self.output) {
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        // Gives the room of what was written back.
        self.output.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of so many waits begin by looking, where those `in_vain` are.
    fn looks(waits: u32, in_vain: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut patience = Patience::NEW;
        let mut looks = vec![];
        for wait in 0..waits {
            if patience.deadline().is_some() {
                patience.learn(in_vain(wait));
                looks.push(wait);
            }
        }
        looks
    }

    #[test]
    fn a_slow_peer_is_looked_for_less_and_less_often() {
        assert_eq!(looks(6, |_| false), [0, 1, 2, 3, 4, 5]);
        assert_eq!(looks(64, |_| true), [0, 3, 8, 17, 34]);
        // Once it is quick it is looked for at each wait again.
        assert_eq!(looks(12, |wait| wait < 4), [0, 3, 8, 9, 10, 11]);
        let rare = looks(20_000, |_| true);
        assert_eq!(rare[rare.len() - 1] - rare[rare.len() - 2], NAPS_MAX + 1);
    }
}
