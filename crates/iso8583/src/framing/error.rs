//! The errors of frames.

/// Why a frame is invalid, or a message cannot be framed. Offsets count from the first given byte. An
/// error has at most one byte of the contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FramingError {
    /// A byte differs from the format of the channel.
    #[error("byte {at} should be {what}, but is {found:02X}")]
    Unexpected {
        /// The offset of the byte.
        at: usize,
        /// The expected content.
        what: &'static str,
        /// The found byte.
        found: u8,
    },
    /// The length is above the maximum of the settings or of its own digits.
    #[error("the length at byte {at} is {length}, above the maximum of {max}")]
    TooLong {
        /// The offset of the length.
        at: usize,
        length: u64,
        max: u64,
    },
    /// The length is below the minimum of the channel.
    #[error("the length at byte {at} is {length}, below the minimum of {min}")]
    TooShort {
        /// The offset of the length.
        at: usize,
        length: u64,
        min: u64,
    },
    /// A frame without a length has not ended within the maximum.
    #[error("the message has not ended after {max} bytes, the maximum")]
    Endless {
        /// The maximum in bytes.
        max: usize,
    },
    /// The stream ended in a frame, or the XML to send is incomplete.
    #[error("the message is cut off, {have} bytes after its beginning")]
    Truncated {
        /// The number of bytes of the frame.
        have: usize,
    },
    /// The XML has a document type definition, which is not supported.
    #[error("a document type definition begins at byte {at}; it is not read")]
    DocumentType {
        /// The offset of the definition.
        at: usize,
    },
    /// The body is empty, so that the peer would take the frame for a keep-alive.
    #[error("an empty message cannot be sent: it would be read as a keep-alive")]
    Empty,
    /// The message to send has the end mark in it.
    #[error("byte {at} of the message would be read as its end")]
    EndInside {
        /// The offset of the end mark.
        at: usize,
    },
    /// The header to send is invalid for the channel.
    #[error("a header of {length} bytes is invalid for this channel")]
    HeaderLength {
        /// The length of the header.
        length: usize,
    },
    /// The channel requires [`Framing::decode_measured`].
    ///
    /// [`Framing::decode_measured`]: crate::framing::Framing::decode_measured
    #[error("the channel does not delimit messages; a packager must measure them")]
    Unmeasured,
    /// The packager that measures the message cannot parse it.
    #[error("the message cannot be read at byte {at}, so that its end is unknown")]
    Unmeasurable {
        /// The offset at which parsing failed.
        at: usize,
    },
}

/// Refuses other bytes than `expected` at `at`. `bytes` must be long enough.
pub(super) fn expect(
    bytes: &[u8],
    at: usize,
    expected: &[u8],
    what: &'static str,
) -> Result<(), FramingError> {
    let differing = expected.iter().zip(&bytes[at..]).position(|(wanted, found)| wanted != found);
    match differing {
        None => Ok(()),
        Some(position) => {
            Err(FramingError::Unexpected { at: at + position, what, found: bytes[at + position] })
        }
    }
}
