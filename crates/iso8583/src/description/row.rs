//! A field of a description: content, coding, length, prefix and tag.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::class::{
    self, Charset, Coding, Content, Counts, FieldFormat, NO_PREFIX, NO_TAG, OddPadding,
    PrefixCoding,
};
use crate::packager::FIELD_NUMBER_MAX;

pub(super) type Rows = BTreeMap<Number, Row>;

/// The number of a field, as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Number(pub(super) u16);

impl TryFrom<String> for Number {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_plain = text == "0" || !text.starts_with(['0', '+']);
        let number = text.parse().ok().filter(|it| is_plain && *it <= FIELD_NUMBER_MAX);
        number.map(Self).ok_or_else(|| {
            format!("`{text}`: the number of a field was expected, 0 to {FIELD_NUMBER_MAX}")
        })
    }
}

impl From<Number> for String {
    fn from(number: Number) -> Self {
        number.0.to_string()
    }
}

/// A field in TOML or JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    content: ContentName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    coding: Option<CodingName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    length: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefix: Option<Prefix>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<Tag>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pad: Option<Pad>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    filled: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    trim: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unfilled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sensitive: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) inside: Option<Inside>,
}

/// The inner fields of a composite field.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inside {
    pub(super) fields: Rows,
}

/// The type of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ContentName {
    Text,
    Alphabetic,
    Alphanumeric,
    Printable,
    AsciiText,
    Digits,
    Track,
    SignedDigits,
    Amount,
    HexDigits,
    Bytes,
    Bitmap,
    Nothing,
    Unused,
}

/// The encoding of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CodingName {
    Ascii,
    Ebcdic,
    Bcd,
    Binary,
    HexAscii,
    HexEbcdic,
}

/// The length prefix.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prefix {
    #[serde(default, skip_serializing_if = "Numeral::is_ascii")]
    coding: Numeral,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digits: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u8>,
    #[serde(default, skip_serializing_if = "CountedUnit::is_value")]
    counts: CountedUnit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Numeral {
    #[default]
    Ascii,
    Ebcdic,
    Bcd,
    Binary,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CountedUnit {
    #[default]
    Value,
    Bytes,
    HalfBytes,
}

/// The field's number in front of the content.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tag {
    digits: u8,
    #[serde(default, skip_serializing_if = "Numeral::is_ascii")]
    coding: Numeral,
    /// The tag is behind the length, which counts it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    counted: bool,
    /// The tag repeats a number that is known from a bitmap or a position.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    repeats: bool,
}

/// The padding of an odd number of digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pad {
    Left,
    Right,
    RightF,
}

impl Numeral {
    fn is_ascii(&self) -> bool {
        *self == Self::Ascii
    }

    fn read(self) -> PrefixCoding {
        match self {
            Self::Ascii => PrefixCoding::Ascii,
            Self::Ebcdic => PrefixCoding::Ebcdic,
            Self::Bcd => PrefixCoding::Bcd,
            Self::Binary => PrefixCoding::Binary,
        }
    }

    fn of(coding: PrefixCoding) -> Self {
        match coding {
            PrefixCoding::Ascii => Self::Ascii,
            PrefixCoding::Ebcdic => Self::Ebcdic,
            PrefixCoding::Bcd => Self::Bcd,
            PrefixCoding::Binary => Self::Binary,
        }
    }
}

impl CountedUnit {
    fn is_value(&self) -> bool {
        *self == Self::Value
    }
}

impl ContentName {
    fn read(self) -> (Content, Charset) {
        match self {
            Self::Text => (Content::Text, Charset::Any),
            Self::Alphabetic => (Content::Text, Charset::Alphabetic),
            Self::Alphanumeric => (Content::Text, Charset::Alphanumeric),
            Self::Printable => (Content::Text, Charset::Printable),
            Self::AsciiText => (Content::Text, Charset::Ascii),
            Self::Digits => (Content::Digits, Charset::Digits),
            Self::Track => (Content::Digits, Charset::Track),
            Self::SignedDigits => (Content::SignedDigits, Charset::Any),
            Self::Amount => (Content::Amount, Charset::Any),
            Self::HexDigits => (Content::HexText, Charset::Any),
            Self::Bytes => (Content::Bytes, Charset::Any),
            Self::Bitmap => (Content::Bitmap, Charset::Any),
            Self::Nothing => (Content::Nothing, Charset::Any),
            Self::Unused => (Content::Unused, Charset::Any),
        }
    }

    fn of(format: &FieldFormat) -> Self {
        match format.content {
            Content::Text => match format.charset {
                Charset::Any | Charset::Digits | Charset::Track => Self::Text,
                Charset::Alphabetic => Self::Alphabetic,
                Charset::Alphanumeric => Self::Alphanumeric,
                Charset::Printable => Self::Printable,
                Charset::Ascii => Self::AsciiText,
            },
            Content::Digits if format.charset == Charset::Track => Self::Track,
            Content::Digits => Self::Digits,
            Content::SignedDigits => Self::SignedDigits,
            Content::Amount => Self::Amount,
            Content::HexText => Self::HexDigits,
            Content::Bytes => Self::Bytes,
            Content::Bitmap => Self::Bitmap,
            Content::Nothing => Self::Nothing,
            Content::Unused => Self::Unused,
        }
    }

    /// The valid codings, the default first.
    fn codings(self) -> &'static [CodingName] {
        match self {
            Self::Text
            | Self::Alphabetic
            | Self::Alphanumeric
            | Self::Printable
            | Self::AsciiText => &[CodingName::Ascii, CodingName::Ebcdic],
            Self::Digits | Self::Track | Self::Amount => {
                &[CodingName::Ascii, CodingName::Ebcdic, CodingName::Bcd]
            }
            Self::SignedDigits => &[CodingName::Ebcdic],
            Self::Bytes => &[
                CodingName::Binary,
                CodingName::HexAscii,
                CodingName::HexEbcdic,
                CodingName::Ebcdic,
            ],
            Self::Bitmap => &[CodingName::Binary, CodingName::HexAscii, CodingName::HexEbcdic],
            Self::HexDigits | Self::Nothing | Self::Unused => &[CodingName::Binary],
        }
    }
}

impl CodingName {
    fn read(self) -> Coding {
        match self {
            Self::Ascii => Coding::Latin1,
            Self::Ebcdic => Coding::Ebcdic,
            Self::Bcd => Coding::Bcd,
            Self::Binary => Coding::Raw,
            Self::HexAscii => Coding::HexAscii,
            Self::HexEbcdic => Coding::HexEbcdic,
        }
    }

    fn of(coding: Coding) -> Self {
        match coding {
            Coding::Latin1 => Self::Ascii,
            Coding::Ebcdic => Self::Ebcdic,
            Coding::Bcd => Self::Bcd,
            Coding::Raw => Self::Binary,
            Coding::HexAscii => Self::HexAscii,
            Coding::HexEbcdic => Self::HexEbcdic,
        }
    }
}

impl Row {
    /// The compiled format.
    pub(super) fn format(&self) -> Result<FieldFormat, String> {
        let kind = self.content;
        let length = self.length.unwrap_or(0) as usize;
        let mut format = FieldFormat::empty(length).map_err(|it| format!("length: {it}"))?;
        let written = self.coding.unwrap_or(kind.codings()[0]);
        if !kind.codings().contains(&written) {
            let known: Vec<String> = kind.codings().iter().map(inline).collect();
            return Err(format!("coding: expected one of {}", known.join(", ")));
        }
        (format.content, format.charset) = kind.read();
        format.coding = written.read();
        format.prefix = self.prefix.map_or(Ok(NO_PREFIX), Prefix::read)?;
        format.tag = self.tag.map_or(Ok(NO_TAG), Tag::read)?;
        format.padding = match self.pad {
            Some(Pad::Left) | None => OddPadding::ZeroLeft,
            Some(Pad::Right) => OddPadding::ZeroRight,
            Some(Pad::RightF) => OddPadding::FRight,
        };
        format.is_filled = self.filled;
        format.trims = self.trim;
        format.is_unfilled = self.unfilled;
        self.check(&format)?;
        format.compiled().map_err(|problem| problem.to_string())
    }

    /// Checks the combination of the parts.
    fn check(&self, format: &FieldFormat) -> Result<(), String> {
        let takes_no_room = matches!(self.content, ContentName::Nothing | ContentName::Unused);
        let is_fixed = matches!(
            self.content,
            ContentName::Amount
                | ContentName::HexDigits
                | ContentName::SignedDigits
                | ContentName::Bitmap
        );
        let has_prefix = self.prefix.is_some();
        let has_room = self.length.is_some() || has_prefix || self.tag.is_some();
        let wrong = [
            (is_fixed && has_prefix, "prefix: this content has a fixed length"),
            (takes_no_room && has_room, "length: this content takes no room"),
            (self.filled && !has_prefix, "filled: only a field with a prefix is filled up"),
            (
                self.pad.is_some() && format.coding != Coding::Bcd,
                "pad: only digits in BCD leave half a byte free",
            ),
            (self.trim && format.is_binary(), "trim: only text has blanks to take off"),
            (
                self.unfilled && !format.can_be_unfilled(),
                "unfilled: only text and digits of a fixed length are filled up",
            ),
            (has_prefix && self.length.is_none(), "length: the largest length was expected"),
        ];
        match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, what)) => Err(what.to_owned()),
            None => Ok(()),
        }
    }

    fn empty(content: ContentName) -> Self {
        Self {
            name: String::new(),
            content,
            coding: None,
            length: None,
            prefix: None,
            tag: None,
            pad: None,
            filled: false,
            trim: false,
            unfilled: false,
            sensitive: None,
            inside: None,
        }
    }

    /// The description of a format.
    pub(super) fn new(format: &FieldFormat) -> Self {
        let content = ContentName::of(format);
        if matches!(content, ContentName::Nothing | ContentName::Unused) {
            return Self::empty(content);
        }
        let written = CodingName::of(format.coding);
        let is_usual = content.codings().first() == Some(&written);
        let direction = u32::from(format.content == Content::Amount);
        let digits = format.length_max.saturating_sub(direction);
        let pads = format.coding == Coding::Bcd && (!format.is_fixed() || digits % 2 == 1);
        Self {
            coding: if is_usual { None } else { Some(written) },
            length: Some(format.length_max).filter(|length| *length > 0 || !format.is_fixed()),
            prefix: (!format.is_fixed()).then(|| Prefix::of(format.prefix)),
            tag: (format.tag.digits > 0).then(|| Tag::of(format.tag)),
            pad: match format.padding {
                OddPadding::ZeroRight if pads => Some(Pad::Right),
                OddPadding::FRight if pads => Some(Pad::RightF),
                OddPadding::ZeroLeft | OddPadding::ZeroRight | OddPadding::FRight => None,
            },
            filled: format.is_filled,
            trim: format.trims,
            unfilled: format.is_unfilled,
            ..Self::empty(content)
        }
    }

    /// The row as an inline table of TOML.
    pub(super) fn inline(&self) -> String {
        inline(self)
    }

    /// The row as lines of TOML, without inner fields.
    pub(super) fn lines(&self) -> String {
        let mut own = Self { inside: None, ..self.clone() };
        let (prefix, tag) = (own.prefix.take(), own.tag.take());
        let mut out = toml::to_string(&own).expect("keys and values are those of TOML");
        if let Some(prefix) = prefix {
            out.push_str(&format!("prefix = {}\n", inline(&prefix)));
        }
        if let Some(tag) = tag {
            out.push_str(&format!("tag = {}\n", inline(&tag)));
        }
        out
    }
}

fn inline(value: &impl Serialize) -> String {
    let mut out = String::new();
    let serializer = toml::ser::ValueSerializer::new(&mut out);
    value.serialize(serializer).expect("keys and values are those of TOML");
    out
}

/// The maximum number of digits of a length or a tag.
const DIGITS: std::ops::RangeInclusive<u8> = 1..=6;
/// The maximum number of bytes of a binary length.
const BYTES: std::ops::RangeInclusive<u8> = 1..=5;

impl Prefix {
    fn read(self) -> Result<class::Prefix, String> {
        let coding = self.coding.read();
        let counts = match self.counts {
            CountedUnit::Value => Counts::Value,
            CountedUnit::Bytes => Counts::Wire,
            CountedUnit::HalfBytes => Counts::Halves,
        };
        let size = match (self.coding, self.digits, self.bytes) {
            (Numeral::Binary, None, Some(bytes)) if BYTES.contains(&bytes) => bytes,
            (Numeral::Binary, _, _) => return Err("prefix: 1 to 5 `bytes` were expected".into()),
            (_, Some(digits), None) if DIGITS.contains(&digits) => digits,
            (_, _, _) => return Err("prefix: 1 to 6 `digits` were expected".into()),
        };
        Ok(class::Prefix::new(coding, size, counts))
    }

    fn of(prefix: class::Prefix) -> Self {
        let is_binary = prefix.coding == PrefixCoding::Binary;
        let size = Some(prefix.size());
        Self {
            coding: Numeral::of(prefix.coding),
            digits: size.filter(|_| !is_binary),
            bytes: size.filter(|_| is_binary),
            counts: match prefix.counts {
                Counts::Value => CountedUnit::Value,
                Counts::Wire => CountedUnit::Bytes,
                Counts::Halves => CountedUnit::HalfBytes,
            },
        }
    }
}

impl Tag {
    fn read(self) -> Result<class::Tag, String> {
        let is_right = DIGITS.contains(&self.digits)
            && matches!(self.coding, Numeral::Ascii | Numeral::Ebcdic);
        if !is_right {
            return Err("tag: 1 to 6 digits in ASCII or EBCDIC were expected".into());
        }
        let coding = self.coding.read();
        let (is_counted, is_own) = (self.counted, self.repeats);
        Ok(class::Tag { coding, digits: self.digits, is_counted, is_own })
    }

    fn of(tag: class::Tag) -> Self {
        let coding = Numeral::of(tag.coding);
        Self { digits: tag.digits, coding, counted: tag.is_counted, repeats: tag.is_own }
    }
}
