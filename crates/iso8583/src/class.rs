//! The format of a field, compiled from the name of a jPOS class.

mod names;
mod parts;

use self::parts::{FAMILIES, Parts, coding, prefix, tag};
use crate::error::Problem;

/// The format of a field on the wire. A packager is a table of formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldFormat {
    pub(crate) content: Content,
    pub(crate) coding: Coding,
    pub(crate) prefix: Prefix,
    pub(crate) tag: Tag,
    pub(crate) padding: OddPadding,
    pub(crate) charset: Charset,
    /// The maximum length of the value in characters, or in bytes if the value is binary.
    pub(crate) length_max: u32,
    /// The content is filled up to the maximum length, although the field has a length prefix.
    pub(crate) is_filled: bool,
    /// The first byte of the content is the type of the value: fields of XML messages.
    pub(crate) is_marked: bool,
    /// Trailing blanks are removed when the field is read.
    pub(crate) trims: bool,
    /// A shorter value of a field of fixed length is not filled up. It can be read back only at the end
    /// of a message.
    pub(crate) is_unfilled: bool,
    /// The content is always masked.
    pub(crate) is_sensitive: bool,
    /// The index of the inner packager in the outer packager's list plus 1; 0 for none.
    pub(crate) composite: u16,
    /// How received bytes are checked; precomputed.
    pub(crate) check: Check,
    /// The length on the wire of a field without a prefix; precomputed.
    pub(crate) fixed_bytes: u32,
    /// A direction or a padded half byte needs a check besides that of the run; precomputed.
    pub(crate) is_guarded: bool,
    /// Whether the field can be set, unlike bitmaps and unused fields; precomputed by the packager.
    pub(crate) is_settable: bool,
    /// The fast path of packing; precomputed.
    pub(crate) fast_encoding: FastEncoding,
    /// How the end of the field is found; precomputed.
    pub(crate) shape: Shape,
}

/// How the end of a field is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Fixed,
    /// By a prefix with the length of the value.
    Counted,
    Other,
}

/// The formats with a fast path in `append`. Values of other formats, and values that are shorter than
/// a fixed field, are written by `pack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastEncoding {
    /// BCD digits of fixed length; an odd number is padded on the left.
    Bcd,
    /// BCD digits behind a length in one byte of BCD; an odd number is padded on the right.
    BcdCounted,
    /// A direction, and an even number of BCD digits.
    BcdAmount,
    /// Digits in ASCII.
    Digits,
    /// Digits in ASCII, behind a length.
    DigitsCounted,
    /// Characters or bytes without an encoding.
    Plain,
    /// Characters or bytes without an encoding, behind a length.
    PlainCounted,
    /// Bytes as hexadecimal digits in ASCII.
    Hex,
    /// No fast path.
    Other,
}

impl FastEncoding {
    pub(crate) fn new(format: &FieldFormat) -> Self {
        let is_other = format.tag.digits > 0 || format.is_filled || format.composite > 0;
        if is_other || format.prefix.counts != Counts::Value {
            return Self::Other;
        }
        let is_odd = !format.length_max.is_multiple_of(2);
        let has_short_length =
            format.prefix.coding == PrefixCoding::Bcd && format.prefix.bytes == 1;
        match (format.content, format.coding, format.is_fixed()) {
            (Content::Digits, Coding::Bcd, true)
                if !is_odd || format.padding == OddPadding::ZeroLeft =>
            {
                Self::Bcd
            }
            (Content::Digits, Coding::Bcd, false)
                if has_short_length && format.padding == OddPadding::ZeroRight =>
            {
                Self::BcdCounted
            }
            (Content::Amount, Coding::Bcd, true) if is_odd => Self::BcdAmount,
            (Content::Digits, Coding::Latin1, true) => Self::Digits,
            (Content::Digits, Coding::Latin1, false) => Self::DigitsCounted,
            (Content::Text, Coding::Latin1, is_fixed) | (Content::Bytes, Coding::Raw, is_fixed)
                if format.charset == Charset::Any =>
            {
                if is_fixed {
                    Self::Plain
                } else {
                    Self::PlainCounted
                }
            }
            (Content::Bytes, Coding::HexAscii, true) if format.charset == Charset::Any => Self::Hex,
            _ => Self::Other,
        }
    }
}

/// The type of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Characters, padded with blanks on the right.
    Text,
    /// Digits, padded with zeros on the left.
    Digits,
    /// Digits in EBCDIC whose last byte carries the sign.
    SignedDigits,
    /// One character for the direction, then digits.
    Amount,
    /// Hexadecimal digits as text, two to a byte on the wire.
    HexText,
    Bytes,
    /// A bitmap of this many bytes.
    Bitmap,
    /// Empty on the wire.
    Nothing,
    /// The field is not allowed.
    Unused,
}

/// The encoding of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Latin1,
    Ebcdic,
    /// Two digits to a byte.
    Bcd,
    /// Bytes without an encoding.
    Raw,
    /// Bytes as hexadecimal digits in ASCII.
    HexAscii,
    /// Bytes as hexadecimal digits in EBCDIC.
    HexEbcdic,
}

/// The length prefix of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) coding: PrefixCoding,
    /// Bytes on the wire; 0 for a field of fixed length.
    pub(crate) bytes: u8,
    pub(crate) counts: Counts,
    /// The maximum of the prefix.
    pub(crate) count_max: u32,
}

impl Prefix {
    /// A prefix of `size` digits, or bytes if it is binary.
    pub(crate) const fn new(coding: PrefixCoding, size: u8, counts: Counts) -> Self {
        let (bytes, count_max) = match coding {
            PrefixCoding::Ascii | PrefixCoding::Ebcdic => (size, 10_u32.pow(size as u32) - 1),
            PrefixCoding::Bcd => (size.div_ceil(2), 10_u32.pow(size as u32) - 1),
            PrefixCoding::Binary => (size, (1 << (8 * if size < 3 { size as u32 } else { 3 })) - 1),
        };
        Self { coding, bytes, counts, count_max }
    }

    /// The number of digits, or of bytes if the prefix is binary.
    pub(crate) const fn size(self) -> u8 {
        match self.coding {
            PrefixCoding::Ascii | PrefixCoding::Ebcdic | PrefixCoding::Binary => self.bytes,
            // An odd number of digits.
            PrefixCoding::Bcd if self.count_max < 10_u32.pow(2 * self.bytes as u32 - 1) => {
                self.bytes * 2 - 1
            }
            PrefixCoding::Bcd => self.bytes * 2,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrefixCoding {
    Ascii,
    Ebcdic,
    Bcd,
    Binary,
}

/// The unit that the prefix counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Characters, or bytes, of the value.
    Value,
    /// Bytes on the wire.
    Wire,
    /// Half bytes on the wire.
    Halves,
}

/// The number of the field in front of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) coding: PrefixCoding,
    /// 0 for no tag.
    pub(crate) digits: u8,
    /// The tag is behind the prefix, which counts it.
    pub(crate) is_counted: bool,
    /// The tag repeats a number that is known from the bitmap. Otherwise it identifies the field.
    pub(crate) is_own: bool,
}

/// The padding of an odd number of BCD digits: its side and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OddPadding {
    ZeroLeft,
    ZeroRight,
    FRight,
}

/// The characters that `Strict` accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    Any,
    Digits,
    /// Digits and the separator of track 2.
    Track,
    /// Letters and blanks (a).
    Alphabetic,
    /// Letters, digits and blanks (an).
    Alphanumeric,
    /// Printable characters of ISO-8859-1 (ans).
    Printable,
    /// ASCII. `Lenient` refuses other characters as well.
    Ascii,
}

impl Charset {
    #[inline]
    pub(crate) const fn contains(self, character: u8) -> bool {
        match self {
            Self::Any => true,
            Self::Digits => character.is_ascii_digit(),
            Self::Track => matches!(character, b'0'..=b'9' | b'=' | b'D'),
            Self::Alphabetic => character.is_ascii_alphabetic() || character == b' ',
            Self::Alphanumeric => character.is_ascii_alphanumeric() || character == b' ',
            Self::Printable => matches!(character, b' '..=b'~' | 0xA0..),
            Self::Ascii => character.is_ascii(),
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Any => "a character",
            Self::Digits => "a digit",
            Self::Track => "a digit or a separator",
            Self::Alphabetic => "a letter or a blank",
            Self::Alphanumeric => "a letter, a digit or a blank",
            Self::Printable => "a printable character",
            Self::Ascii => "a character of ASCII",
        }
    }
}

/// How received bytes are checked. Neighbouring fields with the same check are checked together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Nothing,
    AsciiDigits,
    EbcdicDigits,
    BcdDigits,
    AsciiTrack,
    BcdTrack,
    /// The field is checked on its own against its whole format.
    Single,
}

pub(crate) const NO_PREFIX: Prefix =
    Prefix { coding: PrefixCoding::Ascii, bytes: 0, counts: Counts::Value, count_max: 0 };
/// The types of values in fields of XML messages.
pub(crate) mod mark {
    /// Characters in ISO-8859-1.
    pub(crate) const TEXT: u8 = b'T';
    /// Characters in UTF-8, because ISO-8859-1 lacks some.
    pub(crate) const UNICODE: u8 = b'U';
    pub(crate) const BYTES: u8 = b'B';
    pub(crate) const FIELDS: u8 = b'F';
}

pub(crate) const NO_TAG: Tag =
    Tag { coding: PrefixCoding::Ascii, digits: 0, is_counted: false, is_own: false };

impl FieldFormat {
    /// Parses a class name with or without its Java package.
    ///
    /// # Errors
    /// The class is unknown, is not supported, or cannot have this length.
    pub fn from_class(name: &str, length: usize, pad: bool) -> Result<Self, Problem> {
        let class = names::resolve(name)?;
        let (name, length) = (class.name, class.length.unwrap_or(length));
        let (family, rest) = name.split_once('_').ok_or(Problem::UnknownClass)?;
        let mut parts = Parts::parse(rest)?;
        if !FAMILIES.contains(&family) || !parts.are_valid_in(family) {
            return Err(Problem::UnknownClass);
        }
        let mut format = Self::empty(length)?;
        parts.tag_of_family(family);
        format.content = parts.content;
        format.coding = coding(family, &parts);
        format.prefix = prefix(family, &parts);
        format.tag = tag(family, &parts);
        format.padding = match parts {
            _ if family == "IFEB" => OddPadding::FRight,
            _ if pad => OddPadding::ZeroLeft,
            Parts { is_filled: true, .. } => OddPadding::FRight,
            _ => OddPadding::ZeroRight,
        };
        // IFA_FLL and IFB_LLHF fill up to the maximum length; the F of IFB_FLLNUM pads half a byte.
        format.is_filled = parts.is_filled && format.prefix.bytes > 0 && family == "IFA"
            || parts.content == Content::Bytes && parts.is_filled;
        format.charset = match parts.content {
            Content::Digits => Charset::Digits,
            // jPOS counts characters there and writes UTF-8, so only ASCII can be read back.
            Content::Text if matches!(family, "IFEP" | "IFIPM") => Charset::Ascii,
            Content::Text if class.is_letter => Charset::Alphabetic,
            Content::Text
            | Content::SignedDigits
            | Content::Amount
            | Content::HexText
            | Content::Bytes
            | Content::Bitmap
            | Content::Nothing
            | Content::Unused => Charset::Any,
        };
        format.compiled()
    }

    pub(crate) fn empty(length: usize) -> Result<Self, Problem> {
        Ok(Self {
            content: Content::Text,
            coding: Coding::Latin1,
            prefix: NO_PREFIX,
            tag: NO_TAG,
            padding: OddPadding::ZeroRight,
            charset: Charset::Any,
            length_max: u32::try_from(length)
                .ok()
                .filter(|length| *length <= LENGTH_MAX)
                .ok_or(Problem::TooLong { length, max: LENGTH_MAX as usize })?,
            is_filled: false,
            is_marked: false,
            trims: false,
            is_unfilled: false,
            is_sensitive: false,
            composite: 0,
            check: Check::Nothing,
            fixed_bytes: 0,
            is_guarded: false,
            is_settable: false,
            fast_encoding: FastEncoding::Other,
            shape: Shape::Other,
        })
    }

    /// A field of an XML message: its number, a length, a mark with the type, and the value.
    pub(crate) fn marked() -> Result<Self, Problem> {
        let format = Self::from_class("IFA_TTTLLLLLLBINARY", LENGTH_MAX as usize, false)?;
        Ok(Self { is_marked: true, ..format })
    }

    /// Applies the attribute `trim` of jPOS: text and digits of fixed length are not filled up.
    pub(crate) fn with_trim(self, trims: bool) -> Result<Self, Problem> {
        let is_unfilled = trims && self.can_be_unfilled();
        Self { is_unfilled, ..self }.compiled()
    }

    pub(crate) fn can_be_unfilled(&self) -> bool {
        let has_filling = matches!(self.content, Content::Text | Content::Digits);
        has_filling && self.is_fixed() && self.tag.digits == 0
    }

    /// Whether the content of a composite field consists of fields.
    pub(crate) fn holds_fields(&self, content: &[u8]) -> bool {
        !self.is_marked || content.first() == Some(&mark::FIELDS)
    }

    /// The content without its mark, and the length of the mark.
    #[inline]
    pub(crate) fn unmarked<'a>(&self, content: &'a [u8]) -> (&'a [u8], usize) {
        match content {
            [_, rest @ ..] if self.is_marked => (rest, 1),
            _ => (content, 0),
        }
    }

    /// Computes the precomputed fields.
    pub(crate) fn compiled(mut self) -> Result<Self, Problem> {
        if self.prefix.bytes > 0 {
            // Values that the prefix cannot count are refused.
            let room = self.prefix.count_max - u32::from(self.counted_tag_bytes());
            let values = match self.prefix.counts {
                Counts::Value => room,
                Counts::Wire | Counts::Halves => u32::MAX,
            };
            self.length_max = self.length_max.min(values);
        } else {
            self.fixed_bytes = u32::try_from(self.content_bytes(self.length_max as usize))
                .map_err(|_| Problem::UnknownClass)?;
        }
        self.check = match (self.content, self.coding, self.charset) {
            _ if self.is_unfilled => Check::Single,
            (Content::Text, Coding::Latin1 | Coding::Ebcdic, Charset::Any) => Check::Nothing,
            (Content::Bytes, Coding::Raw | Coding::Ebcdic, _) if !self.is_filled => Check::Nothing,
            _ if self.is_filled || self.tag.digits > 0 => Check::Single,
            (Content::Digits, Coding::Latin1, Charset::Digits) if self.has_uniform_digits() => {
                Check::AsciiDigits
            }
            (Content::Digits, Coding::Ebcdic, Charset::Digits) if self.has_uniform_digits() => {
                Check::EbcdicDigits
            }
            // The directions C and D are 43 and 44 in hexadecimal, which are pairs of decimal digits like
            // the rest of the content.
            (Content::Digits, Coding::Bcd, Charset::Digits) | (Content::Amount, Coding::Bcd, _)
                if self.has_uniform_digits() && self.padding != OddPadding::FRight =>
            {
                Check::BcdDigits
            }
            (Content::Digits, Coding::Latin1, Charset::Track) if self.has_uniform_digits() => {
                Check::AsciiTrack
            }
            (Content::Digits, Coding::Bcd, Charset::Track)
                if self.has_uniform_digits() && self.padding != OddPadding::FRight =>
            {
                Check::BcdTrack
            }
            _ => Check::Single,
        };
        let is_always_even = self.is_fixed() && self.length_max.is_multiple_of(2);
        self.is_guarded = matches!(self.check, Check::BcdDigits | Check::BcdTrack)
            && (self.content == Content::Amount || !is_always_even);
        self.fast_encoding = FastEncoding::new(&self);
        self.shape = match self.content {
            Content::Unused | Content::Bitmap => Shape::Other,
            _ if self.check == Check::Single => Shape::Other,
            _ if self.tag.digits > 0 || self.is_filled || self.is_unfilled => Shape::Other,
            _ if self.is_fixed() => Shape::Fixed,
            Content::Text
            | Content::Digits
            | Content::SignedDigits
            | Content::Amount
            | Content::HexText
            | Content::Bytes
            | Content::Nothing => match self.prefix.counts {
                Counts::Value => Shape::Counted,
                Counts::Wire | Counts::Halves => Shape::Other,
            },
        };
        Ok(self)
    }

    /// The format of a composite field: the inner fields determine the characters.
    pub(crate) fn as_composite(mut self) -> Result<Self, Problem> {
        let is_frame = match self.content {
            // A length in bytes on the wire does not determine the number of digits.
            Content::Text | Content::Digits => {
                self.prefix.counts == Counts::Value && !self.is_filled
            }
            Content::Bytes => true,
            Content::SignedDigits
            | Content::Amount
            | Content::HexText
            | Content::Bitmap
            | Content::Nothing
            | Content::Unused => false,
        };
        let is_open = matches!(self.charset, Charset::Any | Charset::Digits | Charset::Track);
        if !is_frame || !is_open {
            return Err(Problem::UnknownClass);
        }
        // BCD can encode `=` as the half byte D.
        self.charset = if self.coding == Coding::Bcd { Charset::Track } else { Charset::Any };
        self.trims = false;
        let (check, shape) = (Check::Single, Shape::Other);
        self.compiled().map(|format| Self { check, shape, is_guarded: false, ..format })
    }

    /// Whether it is composite, and bytes of a fixed length.
    pub(crate) const fn is_fixed_frame(&self) -> bool {
        self.composite > 0
            && matches!(self.content, Content::Bytes)
            && self.is_fixed()
            && self.tag.digits == 0
    }

    /// Whether the length counts a digit more than a value of this length has, so that it is read back with the
    /// padding: as another number. An F is told from digits, and beyond the longest value there is no digit.
    #[inline]
    pub(crate) fn rounds_up(&self, length: usize) -> bool {
        self.coding == Coding::Bcd
            && self.prefix.counts != Counts::Value
            && self.padding != OddPadding::FRight
            && length % 2 == 1
            && length < self.length_max as usize
            && !self.is_fixed()
    }

    /// The number of bytes of a value whose content has this length.
    pub(crate) const fn value_bytes(&self, content: usize) -> usize {
        match self.coding {
            Coding::HexAscii | Coding::HexEbcdic => content / 2,
            Coding::Latin1 | Coding::Ebcdic | Coding::Raw | Coding::Bcd => content,
        }
    }

    /// Whether the value is on the wire without an encoding.
    #[inline]
    pub(crate) const fn is_transparent(&self) -> bool {
        matches!(self.coding, Coding::Latin1 | Coding::Raw)
    }

    /// The offset in the content of a byte of the value.
    pub(crate) const fn content_offset(&self, byte: usize) -> usize {
        match self.coding {
            Coding::Latin1 | Coding::Ebcdic | Coding::Raw => byte,
            Coding::Bcd => byte / 2,
            Coding::HexAscii | Coding::HexEbcdic => byte * 2,
        }
    }

    /// Whether the prefix has the encoding of the content, so that both are checked together.
    const fn has_uniform_digits(&self) -> bool {
        self.is_fixed()
            || matches!(
                (self.coding, self.prefix.coding),
                (Coding::Latin1, PrefixCoding::Ascii)
                    | (Coding::Ebcdic, PrefixCoding::Ebcdic)
                    | (Coding::Bcd, PrefixCoding::Bcd)
            )
    }

    /// The same format with another character set.
    pub(crate) fn with_charset(mut self, charset: Charset) -> Result<Self, Problem> {
        self.charset = charset;
        self.compiled()
    }

    /// The length of the content of a value of `length` characters or bytes.
    #[inline]
    pub(crate) const fn content_bytes(&self, length: usize) -> usize {
        match (self.content, self.coding) {
            (Content::Nothing | Content::Unused, _) => 0,
            (Content::HexText, _) | (Content::Digits | Content::Text, Coding::Bcd) => {
                length.div_ceil(2)
            }
            (Content::Amount, Coding::Bcd) => 1 + length.saturating_sub(1).div_ceil(2),
            (_, Coding::HexAscii | Coding::HexEbcdic) => length * 2,
            _ => length,
        }
    }

    #[inline]
    pub(crate) const fn is_fixed(&self) -> bool {
        self.prefix.bytes == 0
    }

    /// Whether `Lenient` checks the content as well, because it could not be decoded otherwise.
    pub(crate) const fn is_always_checked(&self) -> bool {
        matches!(self.coding, Coding::HexAscii | Coding::HexEbcdic)
            || matches!(self.charset, Charset::Ascii)
    }

    /// The length of the tag if the prefix counts it.
    #[inline]
    pub(crate) const fn counted_tag_bytes(&self) -> u8 {
        if self.tag.is_counted { self.tag.digits } else { 0 }
    }

    /// Whether the value is binary.
    #[must_use]
    pub const fn is_binary(&self) -> bool {
        matches!(self.content, Content::Bytes | Content::Bitmap)
    }

    /// The maximum length of the value in characters or bytes.
    #[must_use]
    pub const fn length_max(&self) -> usize {
        self.length_max as usize
    }
}

/// The maximum length of a field: a prefix of six digits.
const LENGTH_MAX: u32 = 999_999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_classes_are_refused() {
        for class in [
            "IFX_NUMERIC",
            "IFFOO_LLCHAR",
            "IFZZ_TTLLCHAR",
            "com.acme.IFA_NUMERIC",
            "org.jpos.iso8583.IFA_NUMERIC",
            ".IFA_NUMERIC",
            "ifa_NUMERIC",
            "_CHAR",
            "IFB_LHBINARY",
            "IFA_LHCHAR",
            "IFB_LLLLHBINARY",
            "IFB_LLLLLLHCHAR",
            "IFEP_CHAR",
            "IFELPE_CHAR",
            "IFMC_BITMAP",
            "IFMC_TTLLCHAR",
            "IFEB_TTLLNUM",
            "IFA_TTBITMAP",
            "IF_LLCHAR",
            "IF_TTCHAR",
        ] {
            let format = FieldFormat::from_class(class, 8, false);
            assert_eq!(format, Err(Problem::UnknownClass), "{class}");
        }
    }

    #[test]
    fn only_packages_of_jpos_are_known() {
        let bare = FieldFormat::from_class("IFA_NUMERIC", 8, false);
        assert_eq!(bare.map(|it| it.content), Ok(Content::Digits));
        for package in ["org.jpos.iso", "org.jpos.iso.packager", "org.jpos.iso.packager.visa"] {
            let class = format!("{package}.IFA_NUMERIC");
            assert_eq!(FieldFormat::from_class(&class, 8, false), bare, "{class}");
        }
    }

    #[test]
    fn h_is_a_binary_length_in_every_family() {
        let of_one_byte = "IFB_LLHBINARY IFA_LLHCHAR IFE_LLHBINARY IFMC_LLHCHAR";
        let of_two_bytes = "IFB_LLLHCHAR IFA_LLLHNUM IFE_TTLLLHCHAR";
        for (classes, bytes) in [(of_one_byte, 1), (of_two_bytes, 2)] {
            let expected = Ok(Prefix::new(PrefixCoding::Binary, bytes, Counts::Value));
            for class in classes.split(' ') {
                let format = FieldFormat::from_class(class, 300, false);
                assert_eq!(format.map(|it| it.prefix), expected, "{class}");
            }
        }
    }
}
