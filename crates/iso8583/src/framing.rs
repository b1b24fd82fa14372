//! Frames messages on a stream of bytes.
//!
//! A [`Framing`] is a [`Channel`] with its [`Settings`]. It encodes and decodes without I/O. With the
//! feature `tokio`, the module `codec` adapts it to sockets.
//!
//! ```
//! use iso8583::framing::{Decoded, Framing, Header};
//!
//! let framing: Framing = "nac:header=6000010002".parse()?;
//! let mut wire = vec![];
//! framing.encode(Header::Configured, b"body", &mut wire)?;
//! assert_eq!(wire, b"\x00\x09\x60\x00\x01\x00\x02body");
//!
//! assert_eq!(framing.decode(&wire[..4])?, Decoded::Incomplete { more: 7 });
//! let frame = Decoded::Message { header: 2..7, body: 7..11, consumed: 11 };
//! assert_eq!(framing.decode(&wire)?, frame);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **After a [`FramingError`], close the stream.** The start of the next message is unknown, and a
//! guess could take a part of a message for another one. Unlike jPOS, the decoder requires the end mark
//! of BASE24 over TCP, the protocol identifier of RBP and the zeros after a length.
//!
//! A received length is compared with [`Settings::content_max`] before anything is allocated.

mod channel;
#[cfg(feature = "tokio")]
pub mod codec;
mod error;
mod length;
mod measure;
mod settings;
#[cfg(test)]
mod tests;
mod xml;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

pub use channel::Channel;
pub use error::FramingError;
pub use measure::Measured;
pub use settings::{CONTENT_BYTES_MAX, Settings, SettingsError};

use channel::{Boundary, Extent, HeaderKind, VAP_HEADER_BYTES};
use xml::Scan;

/// The maximum length of the start of a frame that is not borrowed from the caller: fixed bytes, length,
/// zeros, and a modified header.
const START_BYTES_MAX: usize = 48;

/// A channel with its settings, which encodes and decodes frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Framing {
    channel: Channel,
    boundary: Boundary,
    header_kind: HeaderKind,
    header: Vec<u8>,
    content_max: usize,
    answers_keep_alives: bool,
}

/// The result of decoding. Offsets count from the first given byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// The frame is incomplete.
    Incomplete {
        /// The minimum number of further bytes, at least one.
        more: usize,
    },
    Message {
        /// The header; empty without one.
        header: Range<usize>,
        /// The message for a packager.
        body: Range<usize>,
        /// The length of the frame on the stream.
        consumed: usize,
    },
    /// A keep-alive. [`Framing::answers_keep_alives`] is whether the peer expects one in return.
    KeepAlive {
        /// The length of the keep-alive on the stream.
        consumed: usize,
    },
}

/// The header of a sent message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Header<'a> {
    /// The header of the settings.
    Configured,
    /// These bytes. For VAP, the length in the header is set.
    Given(&'a [u8]),
    /// The header of the request, with source and destination exchanged (NAC, NCC, BCD: bytes 1-2 and
    /// 3-4 of five; VAP: the station identifiers). Other headers are unchanged.
    Reply(&'a [u8]),
}

/// Shows only the number of bytes, because they may be sensitive.
impl fmt::Debug for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => write!(f, "Configured"),
            Self::Given(bytes) => write!(f, "Given(<{} bytes>)", bytes.len()),
            Self::Reply(bytes) => write!(f, "Reply(<{} bytes>)", bytes.len()),
        }
    }
}

/// The searched part of an incomplete frame, for [`Framing::decode_on`].
#[derive(Debug, Clone, Default)]
pub struct Progress {
    searched: usize,
    scan: Scan,
}

/// A channel and its settings: `nac`, or `nac:header=6000010002,max-packet-length=2048`.
impl FromStr for Framing {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let channel = name.parse()?;
        Self::new(channel, Settings::parse(channel, settings)?)
    }
}

/// The parts of a frame in the order of the wire.
pub(crate) struct Envelope<'a> {
    start: Start,
    header: &'a [u8],
    body: &'a [u8],
    end: &'static [u8],
}

struct Start {
    bytes: [u8; START_BYTES_MAX],
    used: usize,
}

impl Framing {
    /// A channel with settings. Settings that the channel does not have are refused.
    pub fn new(channel: Channel, settings: Settings) -> Result<Self, SettingsError> {
        let boundary = settings.boundary(channel)?;
        Ok(Self {
            channel,
            boundary,
            header_kind: channel.header_kind(),
            header: settings.header_of(channel)?,
            content_max: settings.content_max,
            answers_keep_alives: settings.keep_alives_answered(channel),
        })
    }

    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Whether the peer expects a keep-alive in return for one.
    pub fn answers_keep_alives(&self) -> bool {
        self.answers_keep_alives
    }

    /// Decodes the first frame. An empty slice is an incomplete frame.
    ///
    /// For channels that search for an end (BASE24, XML), [`Framing::decode_on`] searches each byte
    /// once.
    pub fn decode(&self, bytes: &[u8]) -> Result<Decoded, FramingError> {
        self.decode_on(bytes, &mut Progress::default())
    }

    /// As [`Framing::decode`], but continues where the last call stopped. Until a frame is found, `bytes`
    /// must begin at the same position of the stream. Then `progress` is reset.
    pub fn decode_on(
        &self,
        bytes: &[u8],
        progress: &mut Progress,
    ) -> Result<Decoded, FramingError> {
        let decoded = match self.boundary {
            Boundary::Length(extent) => self.by_length(extent, bytes),
            Boundary::EndMark(mark) => self.by_end_mark(mark, bytes, &mut progress.searched),
            Boundary::Element => self.by_element(bytes, &mut progress.scan),
            Boundary::Measured => Err(FramingError::Unmeasured),
        };
        if !matches!(decoded, Ok(Decoded::Incomplete { .. })) {
            *progress = Progress::default();
        }
        decoded
    }

    /// As [`Framing::decode`], and supports PAD: there `measure` has to parse the message to find its
    /// end.
    pub fn decode_measured(
        &self,
        bytes: &[u8],
        measure: impl Fn(&[u8]) -> Measured,
    ) -> Result<Decoded, FramingError> {
        if self.boundary != Boundary::Measured {
            return self.decode(bytes);
        }
        let Some(body) = bytes.get(self.header.len()..).filter(|body| !body.is_empty()) else {
            return Ok(Decoded::Incomplete { more: self.header.len() + 1 - bytes.len() });
        };
        let room = self.content_max.saturating_sub(self.header.len());
        match measure(body) {
            Measured::Incomplete { .. } if body.len() >= room => {
                Err(FramingError::Endless { max: self.content_max })
            }
            Measured::Incomplete { more } => {
                Ok(Decoded::Incomplete { more: more.clamp(1, room - body.len()) })
            }
            Measured::Message { length: 0 } => {
                Err(FramingError::Unmeasurable { at: self.header.len() })
            }
            Measured::Message { length } if length > room => {
                let length = length as u64;
                Err(FramingError::TooLong { at: 0, length, max: self.content_max as u64 })
            }
            Measured::Message { length } if length > body.len() => {
                Ok(Decoded::Incomplete { more: length - body.len() })
            }
            Measured::Message { length } => {
                let consumed = self.header.len() + length;
                Ok(self.message(0, consumed, consumed))
            }
            Measured::Invalid { at } => {
                Err(FramingError::Unmeasurable { at: self.header.len().saturating_add(at) })
            }
        }
    }

    /// Checks whether the stream may end with these bytes: with none, or with the line end behind an XML
    /// message.
    pub fn finish(&self, rest: &[u8]) -> Result<(), FramingError> {
        let is_blank = self.boundary == Boundary::Element && rest.trim_ascii().is_empty();
        if rest.is_empty() || is_blank {
            return Ok(());
        }
        Err(FramingError::Truncated { have: rest.len() })
    }

    /// Appends a message in its frame. Appends nothing on an error.
    pub fn encode(
        &self,
        header: Header<'_>,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FramingError> {
        let envelope = self.envelope(header, body)?;
        let pieces = envelope.pieces();
        out.reserve(pieces.iter().map(|piece| piece.len()).sum());
        for piece in pieces {
            out.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Appends a keep-alive, a frame without a message. Appends nothing for BASE24, XML and PAD, which
    /// have no keep-alives.
    pub fn encode_keep_alive(&self, out: &mut Vec<u8>) {
        if let Boundary::Length(extent) = self.boundary {
            let mut start = [0; START_BYTES_MAX];
            // The length of an empty frame always fits.
            let used = extent.write_start(0, &mut start).unwrap_or(0);
            out.extend_from_slice(&start[..used]);
        }
    }

    pub(crate) fn envelope<'a>(
        &'a self,
        header: Header<'a>,
        body: &'a [u8],
    ) -> Result<Envelope<'a>, FramingError> {
        let (given, is_reply) = match header {
            Header::Configured => (self.header.as_slice(), false),
            Header::Given(bytes) => (bytes, false),
            Header::Reply(bytes) => (bytes, true),
        };
        if body.is_empty() {
            return Err(FramingError::Empty);
        }
        let content = given.len() + body.len();
        if content > self.content_max {
            let (length, max) = (content as u64, self.content_max as u64);
            return Err(FramingError::TooLong { at: 0, length, max });
        }
        let start = Start { bytes: [0; START_BYTES_MAX], used: 0 };
        let mut envelope = Envelope { start, header: given, body, end: &[] };
        match self.boundary {
            Boundary::Length(extent) => {
                envelope.start.used = extent.write_start(content, &mut envelope.start.bytes)?;
                envelope.end = extent.end;
            }
            Boundary::EndMark(mark) => {
                let mut bytes = given.iter().chain(body);
                if let Some(at) = bytes.position(|byte| mark.contains(byte)) {
                    return Err(FramingError::EndInside { at });
                }
                envelope.end = mark;
            }
            Boundary::Element => envelope.end = xml::end_of(body)?,
            Boundary::Measured => {}
        }
        match self.header_kind {
            HeaderKind::Addressed if is_reply && given.len() == 5 => {
                swap(envelope.own_header(), 1..3, 3..5);
            }
            HeaderKind::Vap => envelope.address_vap(content, is_reply)?,
            HeaderKind::Addressed | HeaderKind::Opaque => {}
        }
        Ok(envelope)
    }

    fn by_length(&self, extent: Extent, bytes: &[u8]) -> Result<Decoded, FramingError> {
        let start = extent.start_bytes();
        let Some(content) = extent.read_start(bytes)? else {
            return Ok(Decoded::Incomplete { more: start - bytes.len() });
        };
        let at = extent.before.len();
        if content == 0 {
            return Ok(Decoded::KeepAlive { consumed: start });
        }
        let content = usize::try_from(content).unwrap_or(usize::MAX);
        if content > self.content_max {
            let (length, max) = (content as u64, self.content_max as u64);
            return Err(FramingError::TooLong { at, length, max });
        }
        let min = match self.header_kind {
            HeaderKind::Vap => *VAP_HEADER_BYTES.start(),
            HeaderKind::Opaque | HeaderKind::Addressed => self.header.len(),
        };
        if content < min {
            let (length, min) = (content as u64, min as u64);
            return Err(FramingError::TooShort { at, length, min });
        }
        let (end, consumed) = (start + content, start + content + extent.end.len());
        if bytes.len() < consumed {
            return Ok(Decoded::Incomplete { more: consumed - bytes.len() });
        }
        error::expect(bytes, end, extent.end, "the end mark")?;
        if self.header_kind != HeaderKind::Vap {
            return Ok(self.message(start, end, consumed));
        }
        // The first byte of the header is its length.
        let length = usize::from(bytes[start]);
        if !VAP_HEADER_BYTES.contains(&length) || length > content {
            let (what, found) = ("the length of a VAP header", bytes[start]);
            return Err(FramingError::Unexpected { at: start, what, found });
        }
        Ok(Decoded::Message { header: start..start + length, body: start + length..end, consumed })
    }

    fn by_end_mark(
        &self,
        mark: &'static [u8],
        bytes: &[u8],
        searched: &mut usize,
    ) -> Result<Decoded, FramingError> {
        let from = (*searched).min(bytes.len());
        let ends = |byte: &u8| mark.contains(byte);
        let end = bytes[from..].iter().position(ends).map(|at| from + at);
        match end {
            Some(end) if end > self.content_max => {
                Err(FramingError::Endless { max: self.content_max })
            }
            Some(end) if end <= self.header.len() => {
                let (length, min) = (end as u64, self.header.len() as u64 + 1);
                Err(FramingError::TooShort { at: 0, length, min })
            }
            Some(end) => Ok(self.message(0, end, end + mark.len())),
            None if bytes.len() > self.content_max => {
                Err(FramingError::Endless { max: self.content_max })
            }
            None => {
                *searched = bytes.len();
                Ok(Decoded::Incomplete { more: 1 })
            }
        }
    }

    fn by_element(&self, bytes: &[u8], scan: &mut Scan) -> Result<Decoded, FramingError> {
        // Bytes behind the maximum are not searched.
        let within = &bytes[..bytes.len().min(self.content_max)];
        match scan.advance(within)? {
            Some(body) => {
                let consumed = body.end;
                Ok(Decoded::Message { header: body.start..body.start, body, consumed })
            }
            None if bytes.len() >= self.content_max => {
                Err(FramingError::Endless { max: self.content_max })
            }
            None => Ok(Decoded::Incomplete { more: 1 }),
        }
    }

    /// A message with this range of header and body.
    fn message(&self, start: usize, end: usize, consumed: usize) -> Decoded {
        let body = start + self.header.len();
        Decoded::Message { header: start..body, body: body..end, consumed }
    }
}

impl Envelope<'_> {
    pub(crate) fn pieces(&self) -> [&[u8]; 4] {
        [&self.start.bytes[..self.start.used], self.header, self.body, self.end]
    }

    /// Copies the header into the owned start, so that it can be changed.
    fn own_header(&mut self) -> &mut [u8] {
        let from = self.start.used;
        self.start.used += self.header.len();
        let own = &mut self.start.bytes[from..self.start.used];
        own.copy_from_slice(self.header);
        self.header = &[];
        own
    }

    fn address_vap(&mut self, content: usize, is_reply: bool) -> Result<(), FramingError> {
        let length = self.header.len();
        let is_vap = VAP_HEADER_BYTES.contains(&length) && usize::from(self.header[0]) == length;
        if !is_vap {
            return Err(FramingError::HeaderLength { length });
        }
        let header = self.own_header();
        // The frame has a length of two bytes too, so the value fits.
        let content = u16::try_from(content).unwrap_or(u16::MAX);
        header[3..5].copy_from_slice(&content.to_be_bytes());
        if is_reply {
            swap(header, 5..8, 8..11);
        }
        Ok(())
    }
}

/// Exchanges two ranges of the same length, the first before the second.
fn swap(bytes: &mut [u8], first: Range<usize>, second: Range<usize>) {
    let (before, after) = bytes.split_at_mut(second.start);
    before[first].swap_with_slice(&mut after[..second.len()]);
}
