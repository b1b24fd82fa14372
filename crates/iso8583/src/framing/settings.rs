//! The settings of a channel, as fields and as text.

use std::str::FromStr;

use super::channel::{Boundary, Channel};
use super::length::LengthCoding;

/// The default maximum length of header and body in a frame.
pub const CONTENT_BYTES_MAX: usize = 100_000;

/// The maximum number of decimal digits of a length.
const LENGTH_DIGITS_MAX: u8 = 9;

/// The maximum length of a header.
const HEADER_BYTES_MAX: usize = 64;

/// Why settings are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The channel is unknown.
    #[error("there is no channel `{0}`")]
    UnknownChannel(String),
    /// The setting is unknown or has no value.
    #[error("there is no setting `{0}`; a setting is written name=value")]
    UnknownSetting(String),
    /// The value is invalid.
    #[error("`{name}` cannot be `{value}`: {expected}")]
    Value {
        name: &'static str,
        value: String,
        /// The valid values.
        expected: &'static str,
    },
    /// The channel does not have the setting.
    #[error("the channel {} has no `{name}`", channel.name())]
    NotForChannel {
        channel: Channel,
        /// The name of the setting.
        name: &'static str,
    },
}

/// The settings of a channel. `None` and empty values stand for the defaults of the channel.
///
/// The textual form is a list of `name=value` with commas, with the names of jPOS: `header`
/// (text for ascii, base24 and base24tcp, hexadecimal for the others), `max-packet-length`,
/// `length-digits`, `include-header-length`, `srcid` and `dstid`, `expect-keep-alive`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The default header of sent messages. Received messages have a header of the same length.
    pub header: Vec<u8>,
    /// The maximum length of header and body in a frame.
    pub content_max: usize,
    /// The number of digits of the length (ascii).
    pub length_digits: Option<u8>,
    /// Whether the length includes its own bytes (channels with a length; always for amex).
    pub length_counts_itself: bool,
    /// Source and destination in VAP's header: six BCD digits each.
    pub stations: Option<[[u8; 3]; 2]>,
    /// Whether a keep-alive is answered by one. The default is true for vap and cs.
    pub answers_keep_alives: Option<bool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            header: vec![],
            content_max: CONTENT_BYTES_MAX,
            length_digits: None,
            length_counts_itself: false,
            stations: None,
            answers_keep_alives: None,
        }
    }
}

impl Settings {
    /// Parses the textual form of settings.
    pub fn parse(channel: Channel, text: &str) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let unknown = || SettingsError::UnknownSetting(setting.to_owned());
            let (name, value) = setting.split_once('=').ok_or_else(unknown)?;
            match name {
                "header" => settings.header = header(channel, value)?,
                "max-packet-length" => settings.content_max = number("max-packet-length", value)?,
                "length-digits" => {
                    settings.length_digits = Some(number("length-digits", value)?);
                }
                "include-header-length" => {
                    settings.length_counts_itself = flag("include-header-length", value)?;
                }
                "expect-keep-alive" => {
                    settings.answers_keep_alives = Some(flag("expect-keep-alive", value)?);
                }
                "srcid" => settings.stations.get_or_insert_default()[0] = station("srcid", value)?,
                "dstid" => settings.stations.get_or_insert_default()[1] = station("dstid", value)?,
                _ => return Err(unknown()),
            }
        }
        Ok(settings)
    }

    pub(super) fn boundary(&self, channel: Channel) -> Result<Boundary, SettingsError> {
        let no = |name| Err(SettingsError::NotForChannel { channel, name });
        let mut boundary = channel.boundary();
        if let Some(digits) = self.length_digits {
            let Boundary::Length(extent) = &mut boundary else { return no("length-digits") };
            if channel != Channel::Ascii {
                return no("length-digits");
            }
            if !(1..=LENGTH_DIGITS_MAX).contains(&digits) {
                let (name, value) = ("length-digits", digits.to_string());
                return Err(SettingsError::Value { name, value, expected: "from 1 to 9" });
            }
            extent.length = LengthCoding::Decimal(digits);
        }
        if self.length_counts_itself {
            let Boundary::Length(extent) = &mut boundary else {
                return no("include-header-length");
            };
            extent.counts_itself = true;
        }
        Ok(boundary)
    }

    /// The default header of sent messages.
    pub(super) fn header_of(&self, channel: Channel) -> Result<Vec<u8>, SettingsError> {
        let no = |name| Err(SettingsError::NotForChannel { channel, name });
        let has_header = !self.header.is_empty();
        match (channel, self.stations) {
            (Channel::Vap | Channel::Xml, _) if has_header => no("header"),
            (Channel::Vap, stations) => Ok(vap_header(stations.unwrap_or_default())),
            (_, Some(_)) => no("srcid"),
            (_, None) if self.header.len() > HEADER_BYTES_MAX => {
                let (name, value) = ("header", format!("{} bytes", self.header.len()));
                Err(SettingsError::Value { name, value, expected: "at most 64 bytes" })
            }
            (_, None) => Ok(self.header.clone()),
        }
    }

    pub(super) fn keep_alives_answered(&self, channel: Channel) -> bool {
        self.answers_keep_alives.unwrap_or(matches!(channel, Channel::Vap | Channel::Cs))
    }
}

impl FromStr for Channel {
    type Err = SettingsError;

    fn from_str(name: &str) -> Result<Self, SettingsError> {
        let named = Self::ALL.into_iter().find(|channel| channel.name() == name);
        named.ok_or_else(|| SettingsError::UnknownChannel(name.to_owned()))
    }
}

/// The header of BASE I for text messages: its length, two formats, room for the content's length,
/// destination, source, and zeros.
fn vap_header([source, destination]: [[u8; 3]; 2]) -> Vec<u8> {
    let mut header = vec![0; 22];
    header[..3].copy_from_slice(&[22, 1, 2]);
    header[5..8].copy_from_slice(&destination);
    header[8..11].copy_from_slice(&source);
    header
}

fn header(channel: Channel, value: &str) -> Result<Vec<u8>, SettingsError> {
    if matches!(channel, Channel::Ascii | Channel::Base24 | Channel::Base24Tcp) {
        return Ok(value.as_bytes().to_vec());
    }
    hex(value).ok_or_else(|| refused("header", value, "hexadecimal digits in pairs"))
}

fn station(name: &'static str, value: &str) -> Result<[u8; 3], SettingsError> {
    let is_decimal = value.bytes().all(|byte| byte.is_ascii_digit());
    let digits = hex(value).filter(|_| is_decimal).and_then(|bytes| bytes.try_into().ok());
    digits.ok_or_else(|| refused(name, value, "six digits"))
}

fn number<N: FromStr>(name: &'static str, value: &str) -> Result<N, SettingsError> {
    value.parse().map_err(|_| refused(name, value, "a number"))
}

fn flag(name: &'static str, value: &str) -> Result<bool, SettingsError> {
    value.parse().map_err(|_| refused(name, value, "true or false"))
}

fn refused(name: &'static str, value: &str, expected: &'static str) -> SettingsError {
    SettingsError::Value { name, value: value.to_owned(), expected }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
}
