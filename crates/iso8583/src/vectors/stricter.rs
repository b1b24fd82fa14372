//! The reasons for refusals of cases that the other implementation accepts.

use std::fmt;

use super::values::{FieldValue, Fields};
use crate::class::{Charset, Coding, Content, FieldFormat, PrefixCoding};
use crate::coding::{FROM_EBCDIC, hex_value};
use crate::error::{Error, FieldPath, Problem};
use crate::packager::Packager;

/// Why this library refuses a case that the other implementation accepts. Each reason is verified with
/// the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stricter {
    /// A value has other characters, but only digits can be encoded.
    NotDigits,
    /// A value has a character beyond ISO-8859-1.
    NotLatin1,
    /// A value has a character beyond ASCII, which the length does not count correctly.
    NotAscii,
    /// A value is longer than its field.
    TooLong,
    /// The packager does not have the field.
    UnknownField,
    /// The message has only a message type.
    OnlyMessageType,
    /// The message type is missing.
    NoMessageType,
    /// A length is not numeric.
    LengthNotDigits,
    /// A bitmap is not hexadecimal.
    BitmapNotHex,
    /// A binary value is not hexadecimal.
    BytesNotHex,
    /// A tag occurs twice.
    RepeatedTag,
    /// The message ends before the end of a field.
    CutOff,
    /// A tag has the number of another field.
    OtherTag,
    /// A TLV has an indefinite length, or a tag or a length of more than four bytes.
    TlvForm,
}

impl Stricter {
    pub const ALL: [Self; 14] = [
        Self::NotDigits,
        Self::NotLatin1,
        Self::NotAscii,
        Self::TooLong,
        Self::UnknownField,
        Self::OnlyMessageType,
        Self::NoMessageType,
        Self::LengthNotDigits,
        Self::BitmapNotHex,
        Self::BytesNotHex,
        Self::RepeatedTag,
        Self::CutOff,
        Self::OtherTag,
        Self::TlvForm,
    ];

    /// A description of the reason.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotDigits => {
                "letters where only digits can be written: they come back as other digits"
            }
            Self::NotLatin1 => "a character beyond ISO-8859-1, which would be replaced",
            Self::NotAscii => "an accent where it takes two bytes and is counted as one",
            Self::TooLong => "a value longer than its field",
            Self::UnknownField => "a field beyond the packager, which would be dropped",
            Self::OnlyMessageType => "a message type without a bitmap, which cannot be read back",
            Self::NoMessageType => "fields without a message type, which cannot be read back",
            Self::LengthNotDigits => "a length that is not digits, taken for another number",
            Self::BitmapNotHex => "a bitmap whose hexadecimal digits are none",
            Self::BytesNotHex => "bytes whose hexadecimal digits are none, taken for others",
            Self::RepeatedTag => "a field that is there twice, of which one would be lost",
            Self::CutOff => "a field that the end of the message cuts off, taken for a shorter one",
            Self::OtherTag => "a field with the number of another inside, taken for that",
            Self::TlvForm => "a TLV in a form that EMV does not have",
        }
    }

    /// The verified reason of a refusal to pack. `read_back` is what the other implementation unpacks
    /// from its own packed message.
    pub(super) fn for_values(
        error: &Error,
        packager: &Packager,
        (values, read_back): (&Fields, Option<&Fields>),
    ) -> Option<Self> {
        let is_lost = |path: &str| read_back.and_then(|it| it.get(path)) != values.get(path);
        let path = error.path.map(|path| path.to_string()).unwrap_or_default();
        let value = values.get(&path);
        let format = error.path.and_then(|path| format_of(packager, path));
        let expected = |format: FieldFormat| FieldFormat::length_max(&format);
        let length = |value: &FieldValue| value.to_bytes().len();
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these can be reasons")]
        let (reason, holds) = match error.problem {
            Problem::NotLatin1 => {
                (Self::NotLatin1, value.is_some_and(FieldValue::is_beyond_latin1))
            }
            Problem::BadCharacter { .. } => match (value, format) {
                (Some(value), Some(format)) if format.charset == Charset::Ascii => {
                    (Self::NotAscii, !value.to_bytes().is_ascii())
                }
                (Some(value), Some(format)) => {
                    (Self::NotDigits, !fits(&format, &value.to_bytes()) && is_lost(&path))
                }
                _ => return None,
            },
            Problem::TooLong { .. } => match (value, format) {
                (Some(value), Some(format)) => (Self::TooLong, length(value) > expected(format)),
                _ => return None,
            },
            Problem::UnknownField => (Self::UnknownField, !has(packager, error) && is_lost(&path)),
            Problem::NumberTooHigh { .. } => {
                (Self::OtherTag, !has(packager, error) && is_lost(&path))
            }
            Problem::NoFields => (
                Self::OnlyMessageType,
                values.keys().all(|path| path == "0") && read_back != Some(values),
            ),
            Problem::NoMessageType => {
                (Self::NoMessageType, !values.contains_key("0") && read_back != Some(values))
            }
            _ => return None,
        };
        holds.then_some(reason)
    }

    /// The verified reason of a refusal to unpack. `read` is the result of the other implementation.
    pub(super) fn for_bytes(
        error: &Error,
        packager: &Packager,
        (bytes, read): (&[u8], Option<&Fields>),
    ) -> Option<Self> {
        // Missing bytes are behind the last one.
        let found = bytes.get(error.offset?).copied().unwrap_or(b'0');
        let format = error.path.and_then(|path| format_of(packager, path));
        // The length of the value in the other implementation.
        let value = error.path.and_then(|path| read?.get(&path.to_string()));
        let read_length = value.map(|value| value.to_bytes().len());
        let is_hex = hex_value(found).is_some() || hex_value(FROM_EBCDIC[found as usize]).is_some();
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these can be reasons")]
        let (reason, holds) = match error.problem {
            Problem::BadPrefix { .. } => {
                (Self::LengthNotDigits, format.is_some_and(|it| !is_digit(it.prefix.coding, found)))
            }
            Problem::Truncated { needed, .. } => {
                let is_missing = needed > bytes.len() - error.offset?;
                let length = read_length?;
                (Self::CutOff, is_missing && format.is_some_and(|it| length < it.length_max()))
            }
            Problem::BadTag { .. } => {
                let path = error.path?.to_string();
                (Self::OtherTag, read.is_some_and(|read| !read.contains_key(&path)))
            }
            Problem::BadBitmap { .. } => (Self::BitmapNotHex, !is_hex),
            Problem::BadCharacter { .. } => match format {
                Some(format) if format.charset == Charset::Ascii => {
                    (Self::NotAscii, !found.is_ascii())
                }
                Some(format) => (Self::BytesNotHex, is_not_hex(format.coding, found)),
                None => return None,
            },
            Problem::UnknownField => (Self::UnknownField, !has(packager, error)),
            Problem::TooLong { .. } => {
                let length = read_length?;
                (Self::TooLong, format.is_some_and(|it| length > it.length_max()))
            }
            Problem::NotLatin1 => {
                let text = std::str::from_utf8(bytes).unwrap_or_default();
                let is_beyond = |it| u8::try_from(it).is_err();
                (Self::NotLatin1, text.chars().any(is_beyond) || text.contains("&#"))
            }
            Problem::Repeated => (Self::RepeatedTag, is_repeated(error, bytes)),
            _ => return None,
        };
        holds.then_some(reason)
    }

    /// The verified reason of a refusal of TLVs: the tag at `at` is too long, or its length is invalid in
    /// EMV.
    pub(super) fn for_tlv(bytes: &[u8], at: usize) -> Option<Self> {
        let rest = bytes.get(at..)?;
        let more = rest.iter().skip(1).take_while(|byte| **byte & 0x80 != 0).count();
        let tag_bytes = if rest.first()? & 0x1F == 0x1F { more + 2 } else { 1 };
        let length = rest.get(tag_bytes).copied().unwrap_or_default();
        (tag_bytes > 4 || length == 0x80 || length > 0x84).then_some(Self::TlvForm)
    }
}

impl fmt::Display for Stricter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Whether the value can be encoded.
fn fits(format: &FieldFormat, value: &[u8]) -> bool {
    let digits = match format.content {
        Content::HexText => return value.iter().all(|digit| hex_value(*digit).is_some()),
        Content::Amount => value.get(1..).unwrap_or_default(),
        // A sign cannot be read back.
        Content::Text | Content::Digits | Content::SignedDigits | Content::Bytes => value,
        Content::Bitmap | Content::Nothing | Content::Unused => return false,
    };
    digits.iter().all(u8::is_ascii_digit)
}

fn format_of(packager: &Packager, path: FieldPath) -> Option<FieldFormat> {
    let (last, outer) = path.numbers().split_last()?;
    let mut inner = packager;
    for number in outer {
        let compiled = inner.compiled();
        inner = compiled.inner(compiled.fields.get(usize::from(*number))?)?;
    }
    inner.compiled().fields.get(usize::from(*last)).copied()
}

/// Whether a byte is valid in a length of this encoding.
fn is_digit(coding: PrefixCoding, byte: u8) -> bool {
    match coding {
        PrefixCoding::Ascii => byte.is_ascii_digit(),
        PrefixCoding::Ebcdic => FROM_EBCDIC[byte as usize].is_ascii_digit(),
        PrefixCoding::Bcd => byte >> 4 < 10 && byte & 0x0F < 10,
        PrefixCoding::Binary => true,
    }
}

/// Whether the encoding is hexadecimal and the byte is not a hexadecimal digit.
fn is_not_hex(coding: Coding, byte: u8) -> bool {
    match coding {
        Coding::HexAscii => hex_value(byte).is_none(),
        Coding::HexEbcdic => hex_value(FROM_EBCDIC[byte as usize]).is_none(),
        Coding::Latin1 | Coding::Ebcdic | Coding::Bcd | Coding::Raw => false,
    }
}

/// Whether the packager has the field of the error.
fn has(packager: &Packager, error: &Error) -> bool {
    let format = error.path.and_then(|path| format_of(packager, path));
    format.is_some_and(|format| format.is_settable)
}

/// Whether the tag at the offset of the error also occurs before it.
fn is_repeated(error: &Error, bytes: &[u8]) -> bool {
    let tag = error.offset.and_then(|at| Some((at, bytes.get(at..at + 2)?)));
    tag.is_some_and(|(at, tag)| bytes[..at].windows(2).any(|window| window == tag))
}
