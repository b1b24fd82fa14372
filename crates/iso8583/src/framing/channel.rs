//! The channels and the formats of their frames.

use std::ops::RangeInclusive;

use super::error::{self, FramingError};
use super::length::LengthCoding;

/// BASE24's end of text.
const END_OF_TEXT: &[u8] = &[0x03];
/// The first bytes of a frame of RBP.
const RBP_PROTOCOL: &[u8] = &[0xD0, 0x4A];

/// The length of a VAP header: 22 bytes, or 26 if it reports a refused message.
pub(super) const VAP_HEADER_BYTES: RangeInclusive<usize> = 22..=26;

/// How messages are separated on a connection. The names are those of jPOS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Decimal digits of length (4 unless set), then header and body.
    Ascii,
    /// Two bytes of binary length, a header of addresses (TPDU), body.
    Nac,
    /// As NAC, the length in BCD.
    Ncc,
    /// As NAC, the length in BCD.
    Bcd,
    /// Two bytes of binary length, then header and body.
    Post,
    /// The body up to an end-of-text byte.
    Base24,
    /// Two bytes of binary length, body, and an end-of-text byte that the length counts.
    Base24Tcp,
    /// Two bytes of binary length, two zeros, the header of Visa's BASE I, body.
    Vap,
    /// Two bytes of binary length, two zeros, body.
    Cs,
    /// Four bytes of binary length, body.
    Gicc,
    /// Four hexadecimal digits of length, body.
    Hex,
    /// Four bytes of binary length, header and body.
    Raw,
    /// A protocol identifier, two bytes of binary length, two zeros, body.
    Rbp,
    /// Two bytes of binary length that count themselves, body.
    Amex,
    /// An XML element `isomsg`.
    Xml,
    /// The body alone. Only a packager can find its end.
    Pad,
}

/// How the end of a frame is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boundary {
    Length(Extent),
    EndMark(&'static [u8]),
    Element,
    Measured,
}

/// The format of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderKind {
    Opaque,
    /// Two addresses of two bytes, after one byte.
    Addressed,
    /// BASE I: its own length in the first byte, the content's in bytes 3 and 4.
    Vap,
}

/// A frame that begins with its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) before: &'static [u8],
    pub(super) length: LengthCoding,
    pub(super) after: &'static [u8],
    pub(super) end: &'static [u8],
    pub(super) counts_itself: bool,
}

impl Channel {
    pub const ALL: [Self; 16] = [
        Self::Ascii,
        Self::Nac,
        Self::Ncc,
        Self::Bcd,
        Self::Post,
        Self::Base24,
        Self::Base24Tcp,
        Self::Vap,
        Self::Cs,
        Self::Gicc,
        Self::Hex,
        Self::Raw,
        Self::Rbp,
        Self::Amex,
        Self::Xml,
        Self::Pad,
    ];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ascii => "ascii",
            Self::Nac => "nac",
            Self::Ncc => "ncc",
            Self::Bcd => "bcd",
            Self::Post => "post",
            Self::Base24 => "base24",
            Self::Base24Tcp => "base24tcp",
            Self::Vap => "vap",
            Self::Cs => "cs",
            Self::Gicc => "gicc",
            Self::Hex => "hex",
            Self::Raw => "raw",
            Self::Rbp => "rbp",
            Self::Amex => "amex",
            Self::Xml => "xml",
            Self::Pad => "pad",
        }
    }

    /// The format of the frames with default settings.
    pub(super) fn boundary(self) -> Boundary {
        let plain =
            |length| Extent { before: &[], length, after: &[], end: &[], counts_itself: false };
        let zeros: &[u8] = &[0, 0];
        let two = plain(LengthCoding::Binary(2));
        Boundary::Length(match self {
            Self::Ascii => plain(LengthCoding::Decimal(4)),
            Self::Nac | Self::Post => two,
            Self::Ncc | Self::Bcd => plain(LengthCoding::Bcd),
            Self::Base24Tcp => Extent { end: END_OF_TEXT, ..two },
            Self::Vap | Self::Cs => Extent { after: zeros, ..two },
            Self::Gicc | Self::Raw => plain(LengthCoding::Binary(4)),
            Self::Hex => plain(LengthCoding::Hex),
            Self::Rbp => Extent { before: RBP_PROTOCOL, after: zeros, ..two },
            Self::Amex => Extent { counts_itself: true, ..two },
            Self::Base24 => return Boundary::EndMark(END_OF_TEXT),
            Self::Xml => return Boundary::Element,
            Self::Pad => return Boundary::Measured,
        })
    }

    pub(super) fn header_kind(self) -> HeaderKind {
        match self {
            Self::Nac | Self::Ncc | Self::Bcd => HeaderKind::Addressed,
            Self::Vap => HeaderKind::Vap,
            Self::Ascii
            | Self::Post
            | Self::Base24
            | Self::Base24Tcp
            | Self::Cs
            | Self::Gicc
            | Self::Hex
            | Self::Raw
            | Self::Rbp
            | Self::Amex
            | Self::Xml
            | Self::Pad => HeaderKind::Opaque,
        }
    }
}

impl Extent {
    /// The number of bytes before the content.
    pub(super) fn start_bytes(&self) -> usize {
        self.before.len() + self.length.bytes() + self.after.len()
    }

    /// The length of header and body; `None` if the start of the frame is incomplete.
    pub(super) fn read_start(&self, bytes: &[u8]) -> Result<Option<u64>, FramingError> {
        if bytes.len() < self.start_bytes() {
            return Ok(None);
        }
        let at = self.before.len();
        error::expect(bytes, 0, self.before, "the protocol identifier")?;
        let length = self.length.read(bytes, at)?;
        error::expect(bytes, at + self.length.bytes(), self.after, "a zero after the length")?;
        let min = self.counted_besides() as u64;
        let content = length.checked_sub(min);
        content.map(Some).ok_or(FramingError::TooShort { at, length, min })
    }

    /// Writes the bytes before the content, and returns their number.
    pub(super) fn write_start(
        &self,
        content: usize,
        out: &mut [u8],
    ) -> Result<usize, FramingError> {
        let at = self.before.len();
        out[..at].copy_from_slice(self.before);
        let length = (content + self.counted_besides()) as u64;
        if length > self.length.max() {
            return Err(FramingError::TooLong { at, length, max: self.length.max() });
        }
        self.length.write(length, &mut out[at..at + self.length.bytes()]);
        let start = self.start_bytes();
        out[start - self.after.len()..start].copy_from_slice(self.after);
        Ok(start)
    }

    /// The bytes besides header and body that the length counts.
    fn counted_besides(&self) -> usize {
        self.end.len() + if self.counts_itself { self.length.bytes() } else { 0 }
    }
}
