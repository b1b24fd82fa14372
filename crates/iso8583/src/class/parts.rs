//! The parts of the name of a jPOS class, and the codings that they mean.

use super::{Coding, Content, Counts, NO_PREFIX, NO_TAG, Prefix, PrefixCoding, Tag};
use crate::error::Problem;

/// The families of classes, by which their names begin.
pub(super) const FAMILIES: [&str; 13] = [
    "IF", "IFA", "IFB", "IFE", "IFAE", "IFEA", "IFEB", "IFEP", "IFEPE", "IFELPE", "IFEMC", "IFMC",
    "IFIPM",
];

/// The parts of a class name behind the family.
pub(super) struct Parts {
    tag_digits: u8,
    pub(super) is_filled: bool,
    length_digits: u8,
    is_hex_length: bool,
    /// `E` or `A` before the content.
    override_coding: Option<char>,
    /// An odd number of digits is rounded up (`IFA_LLBNUM`).
    rounds_up: bool,
    /// The length counts hexadecimal digits.
    is_hex: bool,
    pub(super) content: Content,
}

impl Parts {
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let rest = text.trim_start_matches('T');
        let tag_digits = text.len() - rest.len();
        let is_filled = rest.starts_with("FL") || rest.starts_with("FN") || rest.starts_with("FC");
        let rest = if is_filled { &rest[1..] } else { rest };
        let unprefixed = rest.trim_start_matches('L');
        let length_digits = rest.len() - unprefixed.len();
        let is_hex_length =
            length_digits > 0 && unprefixed.starts_with('H') && !unprefixed.starts_with("HEX");
        let rest = if is_hex_length { &unprefixed[1..] } else { unprefixed };
        let fills_bytes = rest == "FBINARY";
        let rest = if fills_bytes { &rest[1..] } else { rest };
        let override_coding = match rest {
            "ECHAR" | "ENUM" | "ENUMERIC" | "EBINARY" => Some('E'),
            "ABINARY" => Some('A'),
            _ => None,
        };
        let rounds_up = rest == "BNUM";
        let rest = if override_coding.is_some() || rounds_up { &rest[1..] } else { rest };
        let content = match rest {
            "CHAR" => Content::Text,
            "NUM" | "NUMERIC" => Content::Digits,
            "SIGNED_NUMERIC" => Content::SignedDigits,
            "AMOUNT" => Content::Amount,
            "BINARY" => Content::Bytes,
            "HEX" if length_digits > 0 => Content::Bytes,
            "HEX" => Content::HexText,
            "BITMAP" => Content::Bitmap,
            "NOP" => Content::Nothing,
            "UNUSED" => Content::Unused,
            _ => return Err(Problem::UnknownClass),
        };
        let can_vary = matches!(content, Content::Text | Content::Digits | Content::Bytes);
        if length_digits > 0 && !can_vary {
            return Err(Problem::UnknownClass);
        }
        let digits = |count: usize| u8::try_from(count).ok().filter(|count| *count <= 6);
        Ok(Self {
            tag_digits: digits(tag_digits).ok_or(Problem::UnknownClass)?,
            is_filled: is_filled || fills_bytes,
            length_digits: digits(length_digits).ok_or(Problem::UnknownClass)?,
            is_hex_length,
            override_coding,
            rounds_up,
            is_hex: rest == "HEX",
            content,
        })
    }

    /// Whether the family has a class of these parts.
    pub(super) fn are_valid_in(&self, family: &str) -> bool {
        // `LLH` is one byte, `LLLH` two.
        let has_length = !self.is_hex_length || matches!(self.length_digits, 2 | 3);
        let is_value =
            !matches!(self.content, Content::Bitmap | Content::Nothing | Content::Unused);
        has_length
            && match family {
                "IFA" | "IFB" | "IFE" => self.tag_digits == 0 || is_value,
                "IF" => self.tag_digits == 0 && self.length_digits == 0,
                "IFAE" | "IFEA" | "IFEB" => self.tag_digits == 0,
                // The length counts the tag, so there is no tag without a length.
                "IFEP" | "IFELPE" => self.tag_digits == 0 && self.length_digits > 0,
                _ => self.tag_digits == 0 && is_value,
            }
    }

    /// The families of card schemes have a tag before or behind the length.
    pub(super) fn tag_of_family(&mut self, family: &str) {
        let digits = match (family, self.length_digits) {
            ("IFEPE", 3) => 3,
            ("IFEMC", 3) | ("IFIPM", _) => 4,
            ("IFMC" | "IFEMC" | "IFEPE" | "IFEP" | "IFELPE", _) => 2,
            _ => return,
        };
        self.tag_digits = digits;
    }
}

pub(super) fn coding(family: &str, parts: &Parts) -> Coding {
    match parts.content {
        Content::Bytes | Content::Bitmap => match (family, parts.override_coding) {
            (_, Some('E')) => Coding::Ebcdic,
            (_, Some(_)) => Coding::HexAscii,
            ("IFA", _) if parts.length_digits == 0 => Coding::HexAscii,
            ("IFE", _) if parts.length_digits == 0 => Coding::HexEbcdic,
            _ => Coding::Raw,
        },
        Content::Digits if parts.rounds_up || matches!(family, "IFB" | "IFEB") => Coding::Bcd,
        Content::Amount if family == "IFB" => Coding::Bcd,
        Content::HexText | Content::Nothing | Content::Unused => Coding::Raw,
        Content::Text | Content::Digits | Content::Amount | Content::SignedDigits => {
            let is_ebcdic = parts.override_coding == Some('E')
                || matches!(family, "IFE" | "IFAE" | "IFEPE" | "IFELPE" | "IFEMC");
            if is_ebcdic { Coding::Ebcdic } else { Coding::Latin1 }
        }
    }
}

pub(super) fn prefix(family: &str, parts: &Parts) -> Prefix {
    let digits = parts.length_digits;
    if digits == 0 {
        return NO_PREFIX;
    }
    let coding = match family {
        _ if parts.is_hex_length => PrefixCoding::Binary,
        "IFB" => PrefixCoding::Bcd,
        "IFEP" if digits < 3 => PrefixCoding::Ascii,
        "IFE" | "IFEA" | "IFEB" | "IFEP" | "IFEPE" | "IFELPE" | "IFEMC" => PrefixCoding::Ebcdic,
        _ => PrefixCoding::Ascii,
    };
    let counts = match (family, parts) {
        (_, Parts { rounds_up: true, .. } | Parts { is_hex: true, .. }) => Counts::Halves,
        ("IFEB", _) => Counts::Wire,
        _ => Counts::Value,
    };
    // A binary length of `LLH` takes one byte, one of `LLLH` two.
    let size = if coding == PrefixCoding::Binary { digits - 1 } else { digits };
    Prefix::new(coding, size, counts)
}

pub(super) fn tag(family: &str, parts: &Parts) -> Tag {
    if parts.tag_digits == 0 {
        return NO_TAG;
    }
    let coding = match (family, parts.length_digits) {
        ("IFEP", ..3) | ("IFEMC", ..3) => PrefixCoding::Ascii,
        ("IFE" | "IFEP" | "IFEPE" | "IFELPE" | "IFEMC", _) => PrefixCoding::Ebcdic,
        _ => PrefixCoding::Ascii,
    };
    let is_counted = matches!(family, "IFEP" | "IFELPE");
    let is_own = !matches!(family, "IFA" | "IFB" | "IFE");
    Tag { coding, digits: parts.tag_digits, is_counted, is_own }
}
