//! One connection: frames read and written in batches, as many to a system call as there are.

use std::io;

use bytes::{Buf as _, BytesMut};
use iso8583::framing::Header;
use iso8583::framing::codec::{Codec, CodecError, Received, Sent};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_util::codec::{Decoder as _, Encoder as _};

/// What one read takes at most.
const READ_BYTES: usize = 64 * 1024;
/// Nothing is read while more than this waits to be written.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// A connection with its codec. Its buffers are used again: a message allocates nothing.
pub struct Wire {
    stream: TcpStream,
    codec: Codec,
    input: BytesMut,
    output: BytesMut,
    is_over: bool,
}

impl Wire {
    /// Takes a connection.
    ///
    /// # Errors
    /// If it is gone already.
    pub fn new(stream: TcpStream, codec: Codec) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (input, output) = (BytesMut::new(), BytesMut::new());
        Ok(Self { stream, codec, input, output, is_over: false })
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
        loop {
            self.write()?;
            let (mut reading, writing) = self.stream.split();
            let has_room = self.output.len() < WAITING_BYTES_MAX;
            if has_room {
                self.input.reserve(READ_BYTES);
            }
            let read = tokio::select! {
                biased;
                read = reading.read_buf(&mut self.input), if has_room => read?,
                ready = writing.writable(), if !self.output.is_empty() => {
                    ready?;
                    continue;
                }
            };
            self.is_over = read == 0;
            return Ok(read > 0);
        }
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
