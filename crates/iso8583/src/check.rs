//! Validates the content and the filling of a field.

use crate::class::{Charset, Coding, Content, FieldFormat, OddPadding};
use crate::coding::{self, FROM_EBCDIC};
use crate::error::Problem;
use crate::measure::{Measured, ProblemAt};

pub(crate) const DIGIT: Problem = bad_character("a digit");

/// The caller adds the invalid byte, unless the field is sensitive.
const fn bad_character(expected: &'static str) -> Problem {
    Problem::BadCharacter { expected, found: None }
}

const fn bad_filling(expected: &'static str) -> Problem {
    Problem::BadFilling { expected, found: None }
}

/// Validates a field's content; the offset of an error counts from the start of the content.
#[inline]
pub(crate) fn check_content(
    format: &FieldFormat,
    content: &[u8],
    measured: Measured,
    is_strict: bool,
) -> Result<(), ProblemAt> {
    let (needed, found) = (format.fixed_bytes as usize, measured.content_bytes);
    if format.is_unfilled && is_strict && found < needed {
        return Err((Problem::Truncated { needed, found }, 0));
    }
    let (content, filling) = content.split_at(measured.content_bytes);
    if !filling.is_empty() && is_strict {
        let (fill, expected) = match (format.content, format.coding) {
            (Content::Bytes, _) => (0, "a zero"),
            (_, Coding::Ebcdic) => (0x40, "a blank"),
            _ => (b' ', "a blank"),
        };
        if let Some(at) = filling.iter().position(|byte| *byte != fill) {
            return Err((bad_filling(expected), content.len() + at));
        }
    }
    match (format.content, format.coding) {
        (Content::Digits, Coding::Bcd) => check_bcd(format, content, measured.length),
        (Content::Amount, coding) => check_amount(format, coding, content),
        (Content::HexText, _) if measured.length % 2 == 1 => check_hex_filling(format, content),
        (Content::SignedDigits, _) => check_signed(content),
        (_, Coding::HexAscii) if coding::are_upper_hex(content) => Ok(()),
        (_, Coding::HexAscii) => check_hex(content, is_strict, |byte| byte),
        (_, Coding::HexEbcdic) => check_hex(content, is_strict, |byte| FROM_EBCDIC[byte as usize]),
        (_, Coding::Ebcdic) => {
            check_characters(format.charset, content, |byte| FROM_EBCDIC[byte as usize])
        }
        (_, Coding::Latin1) => check_characters(format.charset, content, |byte| byte),
        (_, Coding::Raw | Coding::Bcd) => Ok(()),
    }
}

/// Checks the padding of an odd number of hexadecimal digits.
fn check_hex_filling(format: &FieldFormat, content: &[u8]) -> Result<(), ProblemAt> {
    match (format.padding, content) {
        (OddPadding::ZeroLeft, [first, ..]) if first >> 4 != 0 => Err((bad_filling("a zero"), 0)),
        (OddPadding::ZeroRight | OddPadding::FRight, [.., last]) if last & 0x0F != 0x0F => {
            Err((bad_filling("an F"), content.len() - 1))
        }
        (OddPadding::ZeroLeft | OddPadding::ZeroRight | OddPadding::FRight, _) => Ok(()),
    }
}

fn check_characters(
    charset: Charset,
    content: &[u8],
    read: impl Fn(u8) -> u8,
) -> Result<(), ProblemAt> {
    let invalid = content.iter().position(|byte| !charset.contains(read(*byte)));
    invalid.map_or(Ok(()), |at| Err((bad_character(charset.name()), at)))
}

fn check_hex(content: &[u8], is_strict: bool, read: impl Fn(u8) -> u8) -> Result<(), ProblemAt> {
    let is_invalid = |byte: &u8| {
        let digit = read(*byte);
        coding::hex_value(digit).is_none() || is_strict && digit.is_ascii_lowercase()
    };
    let expected = "a hexadecimal digit";
    let invalid = content.iter().position(is_invalid);
    invalid.map_or(Ok(()), |at| Err((bad_character(expected), at)))
}

fn check_bcd(format: &FieldFormat, content: &[u8], length: usize) -> Result<(), ProblemAt> {
    let is_odd = length % 2 == 1;
    if let (true, [first, ..], [.., last]) = (is_odd, content, content) {
        let (filling, expected, at) = match format.padding {
            OddPadding::ZeroLeft => (first >> 4, 0x0, 0),
            OddPadding::ZeroRight => (last & 0x0F, 0x0, content.len() - 1),
            OddPadding::FRight => (last & 0x0F, 0xF, content.len() - 1),
        };
        if filling != expected {
            let expected = if expected == 0 { "a zero" } else { "an F" };
            return Err((bad_filling(expected), at));
        }
    }
    if format.charset == Charset::Track && coding::are_bcd_track(content) {
        return Ok(());
    }
    let ends_with_f = is_odd && format.padding == OddPadding::FRight;
    let digits = if ends_with_f { &content[..content.len() - 1] } else { content };
    if coding::are_bcd_digits(digits) && (!ends_with_f || content[content.len() - 1] >> 4 < 10) {
        return Ok(());
    }
    let is_valid = |half: u8| half < 10 || half == 0x0D && format.charset == Charset::Track;
    for (at, byte) in content.iter().enumerate() {
        let is_last = at + 1 == content.len();
        let is_low_valid = is_valid(byte & 0x0F) || is_last && ends_with_f;
        if !is_valid(byte >> 4) || !is_low_valid {
            return Err((bad_character(format.charset.name()), at));
        }
    }
    Ok(())
}

fn check_amount(format: &FieldFormat, coding: Coding, content: &[u8]) -> Result<(), ProblemAt> {
    let Some((direction, digits)) = content.split_first() else { return Ok(()) };
    let is_ebcdic = coding == Coding::Ebcdic;
    let direction = if is_ebcdic { FROM_EBCDIC[*direction as usize] } else { *direction };
    if !is_direction(direction) {
        return Err((bad_character("C, D or a digit"), 0));
    }
    if coding == Coding::Bcd {
        let length = (format.length_max as usize).saturating_sub(1);
        return check_bcd(format, digits, length).map_err(|(problem, at)| (problem, at + 1));
    }
    let zero = if is_ebcdic { 0xF0 } else { b'0' };
    let invalid = digits.iter().position(|digit| digit ^ zero > 9);
    invalid.map_or(Ok(()), |at| Err((DIGIT, at + 1)))
}

/// Whether this is a valid first character of an amount: credit, debit, or a digit for none.
pub(crate) const fn is_direction(character: u8) -> bool {
    matches!(character, b'C' | b'D' | b'0'..=b'9')
}

fn check_signed(content: &[u8]) -> Result<(), ProblemAt> {
    let Some((last, digits)) = content.split_last() else { return Ok(()) };
    if let Some(at) = digits.iter().position(|digit| digit ^ 0xF0 > 9) {
        return Err((DIGIT, at));
    }
    let is_valid = matches!(last >> 4, 0xD | 0xF) && last & 0x0F < 10;
    if is_valid { Ok(()) } else { Err((DIGIT, digits.len())) }
}
