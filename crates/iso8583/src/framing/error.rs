//! What is wrong with a frame or with the settings of a channel.

use super::Channel;

/// Why bytes are no frame, or a message cannot be framed. Offsets count from the first byte that
/// was given; of the contents, one byte at most is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FramingError {
    /// Another byte than the channel has there.
    #[error("byte {at} should be {what}, but is {found:02X}")]
    Unexpected {
        /// Where.
        at: usize,
        /// What belongs there.
        what: &'static str,
        /// What is there.
        found: u8,
    },
    /// The length is above the maximum of the settings or of its own digits.
    #[error("the length at byte {at} is {length}, and {max} is the most")]
    TooLong {
        /// Where the length stands.
        at: usize,
        /// What it says.
        length: u64,
        /// The most there may be.
        max: u64,
    },
    /// The length does not even cover what belongs to every frame.
    #[error("the length at byte {at} is {length}, and {min} is the least")]
    TooShort {
        /// Where the length stands.
        at: usize,
        /// What it says.
        length: u64,
        /// The least there may be.
        min: u64,
    },
    /// A frame without a length has not ended within the maximum.
    #[error("the message has not ended after {max} bytes, the most there may be")]
    Endless {
        /// The most there may be.
        max: usize,
    },
    /// The stream ended inside a frame, or the XML to send is no whole message.
    #[error("the message is cut off, {have} bytes after its beginning")]
    Truncated {
        /// How many bytes of it are there.
        have: usize,
    },
    /// A document type definition, which is never read.
    #[error("a document type definition begins at byte {at}; it is not read")]
    DocumentType {
        /// Where.
        at: usize,
    },
    /// An empty body, which the peer would take for a keep-alive.
    #[error("an empty message cannot be sent: it would be read as a keep-alive")]
    Empty,
    /// The message to send holds what ends it.
    #[error("byte {at} of the message would be read as its end")]
    EndInside {
        /// Where.
        at: usize,
    },
    /// The header to send is not one of the channel's.
    #[error("a header of {length} bytes is none of this channel")]
    HeaderLength {
        /// Its length.
        length: usize,
    },
    /// Only the message itself says where it ends: see [`Framing::decode_measured`].
    ///
    /// [`Framing::decode_measured`]: super::Framing::decode_measured
    #[error("the channel does not say where a message ends; a packager has to")]
    Unmeasured,
    /// The packager that was asked for the end of the message cannot read it.
    #[error("the message cannot be read at byte {at}, so that its end is unknown")]
    Unmeasurable {
        /// Where.
        at: usize,
    },
}

/// Why a channel cannot be set up so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// No such channel.
    #[error("there is no channel `{0}`")]
    UnknownChannel(String),
    /// No such setting, or no value beside it.
    #[error("there is no setting `{0}`; a setting is written name=value")]
    UnknownSetting(String),
    /// A value that the setting cannot have.
    #[error("`{name}` cannot be `{value}`: {expected}")]
    Value {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A setting that this channel does not have.
    #[error("the channel {} has no `{name}`", channel.name())]
    NotForChannel {
        /// The channel.
        channel: Channel,
        /// The setting.
        name: &'static str,
    },
}

/// Refuses other bytes than `expected` at `at`; so many are there.
pub(super) fn expect(
    bytes: &[u8],
    at: usize,
    expected: &[u8],
    what: &'static str,
) -> Result<(), FramingError> {
    let differing = expected.iter().zip(&bytes[at..]).position(|(wanted, found)| wanted != found);
    match differing {
        None => Ok(()),
        Some(place) => {
            Err(FramingError::Unexpected { at: at + place, what, found: bytes[at + place] })
        }
    }
}
