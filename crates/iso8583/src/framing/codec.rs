//! A [`Framing`] as a codec of `tokio_util`, for `Framed`, `FramedRead` and `FramedWrite`.

use std::io;
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use crate::index::Index;
use crate::packager::{Packager, Validation};

use super::{Channel, Decoded, Framing, FramingError, Header, Measured, Progress};

/// The maximum number of bytes that are reserved for a message because of its length prefix.
const RESERVED_BYTES_MAX: usize = 16 * 1024;

type Measure = Box<dyn Fn(&[u8]) -> Measured + Send + Sync>;

/// Decodes and encodes frames on a stream. After an error, all further decoding fails with the same
/// error: close the connection.
pub struct Codec {
    framing: Framing,
    measure: Option<Measure>,
    progress: Progress,
    position: u64,
    failed: Option<FramingError>,
}

/// A received frame.
#[derive(Clone, PartialEq, Eq)]
pub enum Received {
    Message {
        /// The header; empty without one.
        header: Bytes,
        /// The message for a packager.
        body: Bytes,
    },
    /// A keep-alive. If [`Framing::answers_keep_alives`], send [`Sent::KeepAlive`].
    KeepAlive,
}

/// A frame to send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sent<'a> {
    Message {
        header: Header<'a>,
        /// The packed message.
        body: &'a [u8],
    },
    /// A keep-alive. Sends nothing on channels without keep-alives.
    KeepAlive,
}

/// Why decoding or encoding failed.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The connection failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// A received frame is invalid, or a message cannot be framed.
    #[error("in the frame at byte {position} of the stream")]
    Framing {
        /// The start of the frame on the stream, from 0.
        position: u64,
        /// Why it is invalid.
        source: FramingError,
    },
}

impl Codec {
    /// A codec for a connection.
    pub fn new(framing: Framing) -> Self {
        Self { framing, measure: None, progress: Progress::default(), position: 0, failed: None }
    }

    /// Sets the function that finds the end of a message. Only PAD uses it.
    pub fn measured_by(
        mut self,
        measure: impl Fn(&[u8]) -> Measured + Send + Sync + 'static,
    ) -> Self {
        self.measure = Some(Box::new(measure));
        self
    }

    /// Finds the end of a message with this packager. Only PAD uses it.
    pub fn measured_by_packager(self, packager: &Packager) -> Self {
        let packager = packager.with_validation(Validation::Lenient);
        let index = Mutex::new(Index::new());
        self.measured_by(move |bytes| {
            let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
            packager.measure(bytes, &mut index)
        })
    }

    pub fn framing(&self) -> &Framing {
        &self.framing
    }

    fn refuse(&self, source: FramingError) -> CodecError {
        CodecError::Framing { position: self.position, source }
    }

    fn next(&mut self, bytes: &[u8]) -> Result<Decoded, CodecError> {
        if let Some(source) = self.failed {
            return Err(self.refuse(source));
        }
        let is_pad = self.framing.channel() == Channel::Pad;
        let decoded = match &self.measure {
            Some(measure) if is_pad => self.framing.decode_measured(bytes, measure),
            Some(_) | None => self.framing.decode_on(bytes, &mut self.progress),
        };
        decoded.map_err(|source| {
            self.failed = Some(source);
            self.refuse(source)
        })
    }

    fn take(&mut self, buffer: &mut BytesMut, consumed: usize) -> Bytes {
        self.position += consumed as u64;
        buffer.split_to(consumed).freeze()
    }
}

impl Decoder for Codec {
    type Item = Received;
    type Error = CodecError;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Received>, CodecError> {
        match self.next(buffer)? {
            Decoded::Incomplete { more } => {
                buffer.reserve(more.min(RESERVED_BYTES_MAX));
                Ok(None)
            }
            Decoded::Message { header, body, consumed } => {
                let frame = self.take(buffer, consumed);
                let (header, body) = (frame.slice(header), frame.slice(body));
                Ok(Some(Received::Message { header, body }))
            }
            Decoded::KeepAlive { consumed } => {
                self.take(buffer, consumed);
                Ok(Some(Received::KeepAlive))
            }
        }
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> Result<Option<Received>, CodecError> {
        if self.failed.is_none() && self.framing.finish(buffer).is_ok() {
            let rest = buffer.len();
            self.take(buffer, rest);
            return Ok(None);
        }
        let received = self.decode(buffer)?;
        if received.is_none() {
            self.framing.finish(buffer).map_err(|source| self.refuse(source))?;
        }
        Ok(received)
    }
}

impl Encoder<Sent<'_>> for Codec {
    type Error = CodecError;

    fn encode(&mut self, sent: Sent<'_>, out: &mut BytesMut) -> Result<(), CodecError> {
        match sent {
            Sent::Message { header, body } => {
                let envelope = self.framing.envelope(header, body);
                let envelope = envelope.map_err(|source| self.refuse(source))?;
                let pieces = envelope.pieces();
                out.reserve(pieces.iter().map(|piece| piece.len()).sum());
                for piece in pieces {
                    out.extend_from_slice(piece);
                }
            }
            Sent::KeepAlive => {
                let mut frame = vec![];
                self.framing.encode_keep_alive(&mut frame);
                out.extend_from_slice(&frame);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(framing: &str) -> Codec {
        Codec::new(framing.parse().unwrap())
    }

    /// The codec's results when the bytes arrive one by one and then the stream ends.
    fn received(codec: &mut Codec, wire: &[u8]) -> Vec<String> {
        let mut buffer = BytesMut::new();
        let mut log = vec![];
        for byte in wire {
            buffer.extend_from_slice(&[*byte]);
            log.extend(codec.decode(&mut buffer).transpose().map(shown));
        }
        log.extend(codec.decode_eof(&mut buffer).transpose().map(shown));
        log
    }

    fn shown(result: Result<Received, CodecError>) -> String {
        match result {
            Ok(Received::KeepAlive) => "keep-alive".to_owned(),
            Ok(Received::Message { header, body }) => {
                let [header, body] = [header, body].map(|it| it.escape_ascii().to_string());
                format!("{header}|{body}")
            }
            Err(CodecError::Framing { position, source }) => format!("{position}: {source}"),
            Err(CodecError::Io(error)) => format!("{error}"),
        }
    }

    #[test]
    fn frames_are_decoded_from_a_stream() {
        let check = |framing, wire: &[u8], expected: &[&str]| {
            assert_eq!(received(&mut codec(framing), wire), expected, "{framing}");
        };
        check("ascii:header=H", b"0003Hab0000", &["H|ab", "keep-alive"]);
        check("base24", b"ab\x03c\x03", &["|ab", "|c"]);
        check("xml", b"<isomsg/>\r\n<isomsg/>\n", &["|<isomsg/>", "|<isomsg/>"]);
        check(
            "post",
            b"\0\x01a\0\x02b",
            &["|a", "3: the message is cut off, 3 bytes after its beginning"],
        );
        check("post:max-packet-length=1", b"", &[]);
    }

    #[test]
    fn decoding_fails_after_an_error() {
        let mut codec = codec("ascii:length-digits=2");
        let log = received(&mut codec, b"03abcXX01");
        let invalid = "5: byte 0 should be a digit of the length, but is 58";
        assert_eq!(log, ["|abc", invalid, invalid, invalid, invalid]);
        assert!(received(&mut codec, b"01a").iter().all(|shown| shown == invalid));
    }

    #[test]
    fn frames_are_encoded_to_a_stream() {
        let mut codec = codec("cs");
        let mut out = BytesMut::new();
        codec.encode(Sent::KeepAlive, &mut out).unwrap();
        codec.encode(Sent::Message { header: Header::Configured, body: b"x" }, &mut out).unwrap();
        assert_eq!(out.as_ref(), b"\0\0\0\0\0\x01\0\0x");
    }

    #[test]
    fn a_packager_measures_messages_of_pad() {
        let mut codec = codec("pad").measured_by(|bytes| match usize::from(bytes[0]) {
            length if length > bytes.len() => Measured::Incomplete { more: length - bytes.len() },
            length => Measured::Message { length },
        });
        assert_eq!(received(&mut codec, b"\x02a\x03bc"), [r"|\x02a", r"|\x03bc"]);
    }
}
