//! Checks the content of one field byte by byte: what it may hold, and what fills it up.

use crate::class::{Charset, Coding, Content, FieldFormat, Odd};
use crate::coding::{self, FROM_EBCDIC};
use crate::error::Problem;
use crate::unpack::{Measured, Wrong};

pub(crate) const DIGIT: Problem = wrong_character("a digit");

/// The byte that was found is added where it is known whether it may be told.
const fn wrong_character(expected: &'static str) -> Problem {
    Problem::BadCharacter { expected, found: None }
}

const fn wrong_filling(expected: &'static str) -> Problem {
    Problem::BadFilling { expected, found: None }
}

/// Checks one field's content; the place of what is wrong counts from the content's start.
#[inline]
pub(crate) fn check_content(
    format: &FieldFormat,
    content: &[u8],
    measured: Measured,
    is_strict: bool,
) -> Result<(), Wrong> {
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
            return Err((wrong_filling(expected), content.len() + at));
        }
    }
    match (format.content, format.coding) {
        (Content::Digits, Coding::Bcd) => check_bcd(format, content, measured.length),
        (Content::Amount, coding) => check_amount(format, coding, content),
        (Content::HexText, _) if measured.length % 2 == 1 && content[0] > 0x0F => {
            Err((wrong_filling("a zero"), 0))
        }
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

fn check_characters(
    charset: Charset,
    content: &[u8],
    read: impl Fn(u8) -> u8,
) -> Result<(), Wrong> {
    let wrong = content.iter().position(|byte| !charset.has(read(*byte)));
    wrong.map_or(Ok(()), |at| Err((wrong_character(charset.name()), at)))
}

fn check_hex(content: &[u8], is_strict: bool, read: impl Fn(u8) -> u8) -> Result<(), Wrong> {
    let is_wrong = |byte: &u8| {
        let digit = read(*byte);
        coding::hex_value(digit).is_none() || is_strict && digit.is_ascii_lowercase()
    };
    let expected = "a hexadecimal digit";
    let wrong = content.iter().position(is_wrong);
    wrong.map_or(Ok(()), |at| Err((wrong_character(expected), at)))
}

fn check_bcd(format: &FieldFormat, content: &[u8], length: usize) -> Result<(), Wrong> {
    let is_odd = length % 2 == 1;
    if let (true, [first, ..], [.., last]) = (is_odd, content, content) {
        let (filling, expected, at) = match format.odd {
            Odd::ZeroLeft => (first >> 4, 0x0, 0),
            Odd::ZeroRight => (last & 0x0F, 0x0, content.len() - 1),
            Odd::FRight => (last & 0x0F, 0xF, content.len() - 1),
        };
        if filling != expected {
            let expected = if expected == 0 { "a zero" } else { "an F" };
            return Err((wrong_filling(expected), at));
        }
    }
    if format.charset == Charset::Track && coding::are_bcd_track(content) {
        return Ok(());
    }
    let ends_with_f = is_odd && format.odd == Odd::FRight;
    let digits = if ends_with_f { &content[..content.len() - 1] } else { content };
    if coding::are_bcd_digits(digits) && (!ends_with_f || content[content.len() - 1] >> 4 < 10) {
        return Ok(());
    }
    let is_right = |half: u8| half < 10 || half == 0x0D && format.charset == Charset::Track;
    for (at, byte) in content.iter().enumerate() {
        let is_last = at + 1 == content.len();
        let is_low_right = is_right(byte & 0x0F) || is_last && ends_with_f;
        if !is_right(byte >> 4) || !is_low_right {
            return Err((wrong_character(format.charset.name()), at));
        }
    }
    Ok(())
}

fn check_amount(format: &FieldFormat, coding: Coding, content: &[u8]) -> Result<(), Wrong> {
    let Some((direction, digits)) = content.split_first() else { return Ok(()) };
    let is_ebcdic = coding == Coding::Ebcdic;
    let direction = if is_ebcdic { FROM_EBCDIC[*direction as usize] } else { *direction };
    if !is_direction(direction) {
        return Err((wrong_character("C, D or a digit"), 0));
    }
    if coding == Coding::Bcd {
        let length = (format.length_max as usize).saturating_sub(1);
        return check_bcd(format, digits, length).map_err(|(problem, at)| (problem, at + 1));
    }
    let zero = if is_ebcdic { 0xF0 } else { b'0' };
    let wrong = digits.iter().position(|digit| digit ^ zero > 9);
    wrong.map_or(Ok(()), |at| Err((DIGIT, at + 1)))
}

/// The first character of an amount: credit, debit, or no direction at all.
pub(crate) const fn is_direction(character: u8) -> bool {
    matches!(character, b'C' | b'D' | b'0'..=b'9')
}

fn check_signed(content: &[u8]) -> Result<(), Wrong> {
    let Some((last, digits)) = content.split_last() else { return Ok(()) };
    if let Some(at) = digits.iter().position(|digit| digit ^ 0xF0 > 9) {
        return Err((DIGIT, at));
    }
    let is_right = matches!(last >> 4, 0xD | 0xF) && last & 0x0F < 10;
    if is_right { Ok(()) } else { Err((DIGIT, digits.len())) }
}
