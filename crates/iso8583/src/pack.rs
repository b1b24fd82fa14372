//! Validates and encodes a value of any format.

use crate::check::is_direction;
use crate::class::{Charset, Coding, Content, Counts, FieldFormat, OddPadding, PrefixCoding};
use crate::coding::{self, TO_EBCDIC};
use crate::error::{Error, Problem};

/// Why a value is invalid, and the offset in the value if there is one.
type Refusal = (Problem, Option<usize>);

/// The lengths of a value on the wire.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// The value of the prefix.
    count: usize,
    /// The length of the content without filling.
    content: usize,
    /// The length of tag, prefix, content and filling.
    pub(crate) total: usize,
}

/// Validates and measures a value of characters in ISO-8859-1 or bytes.
#[inline]
pub(crate) fn plan(format: &FieldFormat, is_strict: bool, value: &[u8]) -> Result<Plan, Refusal> {
    let max = format.length_max as usize;
    // A sign is part of the last digit's byte.
    let is_signed = is_strict && format.content == Content::SignedDigits && value.starts_with(b"-");
    let length = value.len() - usize::from(is_signed);
    if length > max {
        return Err((Problem::TooLong { length, max }, None));
    }
    check_value(format, is_strict, value)?;
    if format.is_unfilled {
        let found = length;
        if is_strict && found < max {
            return Err((Problem::WrongLength { expected: max, found }, None));
        }
        let content = format.content_bytes(length);
        return Ok(Plan { count: 0, content, total: content });
    }
    if format.is_fixed() && format.tag.digits == 0 {
        let content = format.fixed_bytes as usize;
        return Ok(Plan { count: 0, content, total: content });
    }
    if is_strict && format.rounds_up(length) {
        return Err((Problem::OddDigits { found: length }, None));
    }
    plan_variable(format, length)
}

/// Measures the first inner fields of a composite field of fixed length, whose others follow later.
pub(crate) fn plan_part(format: &FieldFormat, value: &[u8]) -> Plan {
    let content = format.content_bytes(value.len());
    Plan { count: 0, content, total: content }
}

#[inline]
fn plan_variable(format: &FieldFormat, length: usize) -> Result<Plan, Refusal> {
    let max = format.length_max as usize;
    let content = format.content_bytes(if format.is_fixed() { max } else { length });
    let count = match format.prefix.counts {
        Counts::Value => length + usize::from(format.counted_tag_bytes()),
        Counts::Wire => content,
        Counts::Halves => content * 2,
    };
    let count_max = format.prefix.count_max as usize;
    if count > count_max && !format.is_fixed() {
        return Err((Problem::TooLong { length: count, max: count_max }, None));
    }
    let room = if format.is_filled { format.content_bytes(max) } else { content };
    let total = usize::from(format.tag.digits) + usize::from(format.prefix.bytes) + room;
    Ok(Plan { count, content, total })
}

/// The error of an invalid value. Its offset counts in the value.
#[cold]
pub(crate) fn refused(
    format: &FieldFormat,
    number: u16,
    value: &[u8],
    (problem, at): Refusal,
) -> Error {
    let found = at.and_then(|at| value.get(at)).filter(|_| !format.is_sensitive);
    Error { offset: at, ..problem.with_found(found.copied()).in_field(number) }
}

/// The caller adds the invalid byte, unless the field is sensitive.
fn each(
    value: &[u8],
    expected: &'static str,
    is_valid: impl Fn(u8) -> bool,
) -> Result<(), Refusal> {
    match value.iter().position(|character| !is_valid(*character)) {
        Some(at) => Err((Problem::BadCharacter { expected, found: None }, Some(at))),
        None => Ok(()),
    }
}

fn each_digit(value: &[u8]) -> Result<(), Refusal> {
    each(value, "a digit", |character| character.is_ascii_digit())
}

fn further(by: usize) -> impl Fn(Refusal) -> Refusal {
    move |(problem, at)| (problem, at.map(|at| by + at))
}

#[inline]
fn check_value(format: &FieldFormat, is_strict: bool, value: &[u8]) -> Result<(), Refusal> {
    let is_simple = match format.content {
        Content::Digits => coding::are_ascii_digits(value),
        Content::Text => format.charset == Charset::Any,
        Content::Bytes => !format.is_fixed() || value.len() == format.length_max as usize,
        Content::SignedDigits
        | Content::Amount
        | Content::HexText
        | Content::Bitmap
        | Content::Nothing
        | Content::Unused => false,
    };
    if is_simple { Ok(()) } else { check_closely(format, is_strict, value) }
}

#[cold]
#[inline(never)]
fn check_closely(format: &FieldFormat, is_strict: bool, value: &[u8]) -> Result<(), Refusal> {
    let is_bcd = format.coding == Coding::Bcd;
    let wrong_length = |found| {
        let expected = format.length_max as usize;
        Err((Problem::WrongLength { expected, found }, None))
    };
    match format.content {
        Content::Digits if is_bcd => {
            let allows_separator = format.charset == Charset::Track || !is_strict;
            let expected = if allows_separator { "a digit or =" } else { "a digit" };
            each(value, expected, |it| it.is_ascii_digit() || allows_separator && it == b'=')
        }
        Content::Amount => {
            let Some((direction, digits)) = value.split_first() else { return wrong_length(0) };
            if is_strict {
                each(&[*direction], "C, D or a digit", is_direction)?;
            }
            if is_strict || is_bcd { each_digit(digits).map_err(further(1)) } else { Ok(()) }
        }
        Content::SignedDigits => {
            // jPOS writes a sign that it cannot read back.
            match value.strip_prefix(b"-").filter(|_| is_strict) {
                Some(digits) => each_digit(digits).map_err(further(1)),
                None => each_digit(value),
            }
        }
        Content::HexText => {
            each(value, "a hexadecimal digit", |it| coding::hex_value(it).is_some())
        }
        Content::Bytes => wrong_length(value.len()),
        Content::Text | Content::Digits => {
            let charset = format.charset;
            if is_strict || charset == Charset::Ascii {
                each(value, charset.name(), |it| charset.contains(it))
            } else {
                Ok(())
            }
        }
        Content::Bitmap | Content::Nothing | Content::Unused => Err((Problem::UnknownField, None)),
    }
}

/// Writes a planned value; `out` has exactly the planned length.
#[inline]
pub(crate) fn write(format: &FieldFormat, number: u16, value: &[u8], plan: Plan, out: &mut [u8]) {
    let mut at = 0;
    if format.tag.digits > 0 && !format.tag.is_counted {
        at = usize::from(format.tag.digits);
        write_number(format.tag.coding, usize::from(number), &mut out[..at]);
    }
    if !format.is_fixed() {
        let end = at + usize::from(format.prefix.bytes);
        write_number(format.prefix.coding, plan.count, &mut out[at..end]);
        at = end;
    }
    if format.counted_tag_bytes() > 0 {
        let end = at + usize::from(format.tag.digits);
        write_number(format.tag.coding, usize::from(number), &mut out[at..end]);
        at = end;
    }
    let (content, filling) = out[at..].split_at_mut(plan.content);
    write_content(format, value, content);
    if !filling.is_empty() {
        filling.fill(match (format.content, format.coding) {
            (Content::Bytes, _) => 0,
            (_, Coding::Ebcdic) => TO_EBCDIC[b' ' as usize],
            _ => b' ',
        });
    }
}

#[inline]
fn write_number(coding: PrefixCoding, mut number: usize, out: &mut [u8]) {
    let low = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
    for byte in out.iter_mut().rev() {
        match coding {
            PrefixCoding::Ascii => (*byte, number) = (b'0' + low(number % 10), number / 10),
            PrefixCoding::Ebcdic => (*byte, number) = (0xF0 + low(number % 10), number / 10),
            PrefixCoding::Bcd => {
                *byte = low(number / 10 % 10) << 4 | low(number % 10);
                number /= 100;
            }
            PrefixCoding::Binary => (*byte, number) = (low(number & 0xFF), number >> 8),
        }
    }
}

#[inline]
fn write_content(format: &FieldFormat, value: &[u8], out: &mut [u8]) {
    match (format.content, format.coding) {
        (Content::Digits, Coding::Bcd) => {
            let is_whole = format.is_fixed() && !format.is_unfilled;
            let nibbles = if is_whole { format.length_max as usize } else { value.len() };
            write_bcd(format.padding, nibbles, value, out);
        }
        (Content::Amount, coding) => write_amount(format, coding, value, out),
        (Content::SignedDigits, _) => write_signed(value, out),
        (Content::HexText, _) => {
            // A prefix counts whole bytes.
            let is_odd = format.is_fixed() && format.length_max % 2 == 1;
            write_hex_text(is_odd && format.padding != OddPadding::ZeroLeft, value, out);
        }
        (_, Coding::HexAscii) => write_hex(value, out, |digit| digit),
        (_, Coding::HexEbcdic) => write_hex(value, out, |digit| TO_EBCDIC[digit as usize]),
        (Content::Digits, Coding::Latin1) => write_right(value, out),
        (Content::Digits, Coding::Ebcdic) => {
            let (zeros, digits) = out.split_at_mut(out.len() - value.len());
            zeros.fill(0xF0);
            write_ebcdic(value, digits);
        }
        (_, Coding::Ebcdic) => {
            let (characters, blanks) = out.split_at_mut(value.len());
            write_ebcdic(value, characters);
            blanks.fill(TO_EBCDIC[b' ' as usize]);
        }
        (_, Coding::Latin1 | Coding::Raw | Coding::Bcd) => {
            let (characters, blanks) = out.split_at_mut(value.len());
            characters.copy_from_slice(value);
            blanks.fill(b' ');
        }
    }
}

/// Writes a value behind leading zeros.
#[inline]
fn write_right(value: &[u8], out: &mut [u8]) {
    let (zeros, digits) = out.split_at_mut(out.len() - value.len());
    zeros.fill(b'0');
    digits.copy_from_slice(value);
}

#[inline]
fn write_ebcdic(value: &[u8], out: &mut [u8]) {
    for (character, byte) in value.iter().zip(out) {
        *byte = TO_EBCDIC[*character as usize];
    }
}

/// Writes a value with leading zeros as `nibbles` BCD digits.
#[inline]
fn write_bcd(padding: OddPadding, nibbles: usize, value: &[u8], out: &mut [u8]) {
    if nibbles % 2 == 1 && padding != OddPadding::ZeroLeft {
        let filling = if padding == OddPadding::FRight { 0x0F } else { 0 };
        return write_bcd_padded(value, filling, out);
    }
    let (zeros, digits) = out.split_at_mut(out.len() - value.len().div_ceil(2));
    zeros.fill(0);
    coding::write_bcd(value, digits);
}

/// Writes BCD digits with a padding on the right.
fn write_bcd_padded(value: &[u8], filling: u8, out: &mut [u8]) {
    out.fill(0);
    let Some((last, digits)) = value.split_last() else {
        if let Some(byte) = out.last_mut() {
            *byte = filling;
        }
        return;
    };
    let Some((byte, rest)) = out.split_last_mut() else { return };
    *byte = last << 4 | filling;
    let start = rest.len() - digits.len().div_ceil(2);
    coding::write_bcd(digits, &mut rest[start..]);
}

fn write_amount(format: &FieldFormat, coding: Coding, value: &[u8], out: &mut [u8]) {
    let (Some((direction, digits)), Some((first, rest))) =
        (value.split_first(), out.split_first_mut())
    else {
        return;
    };
    *first = *direction;
    match coding {
        Coding::Bcd => {
            write_bcd(format.padding, (format.length_max as usize).saturating_sub(1), digits, rest);
        }
        Coding::Ebcdic => {
            *first = TO_EBCDIC[*direction as usize];
            write_right(digits, rest);
            for byte in rest {
                *byte = TO_EBCDIC[*byte as usize];
            }
        }
        Coding::Latin1 | Coding::Raw | Coding::HexAscii | Coding::HexEbcdic => {
            write_right(digits, rest);
        }
    }
}

fn write_signed(value: &[u8], out: &mut [u8]) {
    let (digits, zone) = match value.strip_prefix(b"-") {
        Some(digits) => (digits, 0xD0),
        None => (value, 0xF0),
    };
    write_right(digits, out);
    for byte in out.iter_mut() {
        *byte |= 0xF0;
    }
    if let Some(last) = out.last_mut() {
        *last = zone | *last & 0x0F;
    }
}

/// Writes hexadecimal digits with leading zeros, and with an F as padding if `ends_with_f`.
fn write_hex_text(ends_with_f: bool, value: &[u8], out: &mut [u8]) {
    out.fill(0);
    if let (true, Some(last)) = (ends_with_f, out.last_mut()) {
        *last = 0x0F;
    }
    for (digit, at) in value.iter().rev().zip(usize::from(ends_with_f)..) {
        let half = coding::hex_value(*digit).unwrap_or(0);
        let byte = out.len() - 1 - at / 2;
        out[byte] |= if at % 2 == 0 { half } else { half << 4 };
    }
}

fn write_hex(value: &[u8], out: &mut [u8], write: impl Fn(u8) -> u8) {
    for (byte, pair) in value.iter().zip(out.as_chunks_mut::<2>().0) {
        pair[0] = write(coding::HEX[usize::from(byte >> 4)]);
        pair[1] = write(coding::HEX[usize::from(byte & 0x0F)]);
    }
}
