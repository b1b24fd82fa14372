//! Finds the parts of a field in received bytes: tag, prefix and content.

use crate::class::{Coding, Content, Counts, FieldFormat, OddPadding, Prefix, PrefixCoding};
use crate::coding;
use crate::error::Problem;

/// A problem, and the offset of the byte that has it.
pub(crate) type ProblemAt = (Problem, usize);

/// The parts of a field.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    /// The start of the content.
    pub(crate) content: usize,
    /// The length of the content without filling.
    pub(crate) content_bytes: usize,
    /// The length of the value in characters or bytes.
    pub(crate) length: usize,
    /// The start of the next field.
    pub(crate) end: usize,
}

/// Finds the parts of a field.
#[inline]
pub(crate) fn measure(
    format: &FieldFormat,
    number: usize,
    bytes: &[u8],
    start: usize,
) -> Result<Measured, ProblemAt> {
    if format.is_fixed() && format.tag.digits == 0 {
        let content_bytes = format.fixed_bytes as usize;
        let end = start + content_bytes;
        if end > bytes.len() || format.content == Content::Unused {
            return measure_unfilled(format, content_bytes, bytes, start);
        }
        let length = format.length_max as usize;
        return Ok(Measured { content: start, content_bytes, length, end });
    }
    if format.tag.digits > 0 {
        return measure_tagged(format, number, bytes, start);
    }
    let count = read_number(format.prefix, bytes, start)?;
    variable(format, count, bytes, (start, start + usize::from(format.prefix.bytes)))
}

/// The last field of a message, which was not filled up, takes all remaining bytes.
#[cold]
fn measure_unfilled(
    format: &FieldFormat,
    needed: usize,
    bytes: &[u8],
    start: usize,
) -> Result<Measured, ProblemAt> {
    if !format.is_unfilled {
        return Err(refused(format, needed, bytes, start));
    }
    let content_bytes = bytes.len() - start;
    let is_bcd = format.coding == Coding::Bcd;
    let length = content_bytes * if is_bcd { 2 } else { 1 };
    Ok(Measured { content: start, content_bytes, length, end: bytes.len() })
}

#[cold]
fn refused(format: &FieldFormat, needed: usize, bytes: &[u8], start: usize) -> ProblemAt {
    if format.content == Content::Unused {
        return (Problem::UnknownField, start);
    }
    (Problem::Truncated { needed, found: bytes.len() - start }, start)
}

/// Measures a content behind a prefix, given the start and the end of the prefix.
#[inline]
fn variable(
    format: &FieldFormat,
    count: usize,
    bytes: &[u8],
    (prefix, content): (usize, usize),
) -> Result<Measured, ProblemAt> {
    let (length, content_bytes) = match format.prefix.counts {
        Counts::Value => (count, format.content_bytes(count)),
        Counts::Wire => value_of_wire(format, count, bytes, content)?,
        Counts::Halves if count % 2 == 1 => {
            return Err((Problem::OddLength { found: count }, prefix));
        }
        Counts::Halves => value_of_wire(format, count / 2, bytes, content)?,
    };
    let length_max = format.length_max as usize;
    let mut length = length;
    if length > length_max {
        let content = bytes.get(content..content + content_bytes).unwrap_or_default();
        length = without_padding(format, length, content)
            .ok_or((Problem::TooLong { length, max: length_max }, prefix))?;
    }
    let room = if format.is_filled { format.content_bytes(length_max) } else { content_bytes };
    if room > bytes.len() - content {
        let found = bytes.len() - content;
        return Err((Problem::Truncated { needed: room, found }, content));
    }
    Ok(Measured { content, content_bytes, length, end: content + room })
}

/// The length without the padding that rounds an odd length up to whole bytes. An invalid padding is
/// left to the check of the content.
#[cold]
fn without_padding(format: &FieldFormat, length: usize, content: &[u8]) -> Option<usize> {
    let length_max = format.length_max as usize;
    let is_rounded = format.prefix.counts != Counts::Value && format.coding == Coding::Bcd;
    if !is_rounded || length_max.is_multiple_of(2) || length > length_max + 1 {
        return None;
    }
    let has_filling = match (format.padding, content) {
        (OddPadding::ZeroLeft, [first, ..]) => first >> 4 == 0,
        (OddPadding::ZeroRight, [.., last]) => last & 0x0F == 0,
        // An F has been removed before.
        (OddPadding::ZeroLeft | OddPadding::ZeroRight | OddPadding::FRight, _) => false,
    };
    Some(length - usize::from(has_filling))
}

/// The lengths of the value and of the content for a prefix that counts bytes on the wire.
fn value_of_wire(
    format: &FieldFormat,
    wire: usize,
    bytes: &[u8],
    content: usize,
) -> Result<(usize, usize), ProblemAt> {
    let length = match format.coding {
        Coding::HexAscii | Coding::HexEbcdic if wire % 2 == 1 => {
            return Err((Problem::OddLength { found: wire }, content));
        }
        Coding::HexAscii | Coding::HexEbcdic => wire / 2,
        Coding::Bcd => {
            let last = bytes.get(content..content + wire).and_then(<[u8]>::last);
            let has_filling =
                format.padding == OddPadding::FRight && last.is_some_and(|it| it & 0x0F == 0x0F);
            wire * 2 - usize::from(has_filling)
        }
        Coding::Latin1 | Coding::Ebcdic | Coding::Raw => wire,
    };
    Ok((length, wire))
}

/// Measures a field with a tag.
#[cold]
fn measure_tagged(
    format: &FieldFormat,
    number: usize,
    bytes: &[u8],
    start: usize,
) -> Result<Measured, ProblemAt> {
    let tag = digits_of(format.tag.coding, format.tag.digits);
    let digits = usize::from(format.tag.digits);
    let check = |at: usize| match read_number(tag, bytes, at)? {
        found if found == number => Ok(()),
        found => Err((Problem::BadTag { found }, at)),
    };
    let prefix_bytes = usize::from(format.prefix.bytes);
    if !format.tag.is_counted {
        check(start)?;
        let prefix = start + digits;
        if format.is_fixed() {
            let content_bytes = format.fixed_bytes as usize;
            let end = prefix + content_bytes;
            if end > bytes.len() {
                return Err(refused(format, content_bytes, bytes, prefix));
            }
            let length = format.length_max as usize;
            return Ok(Measured { content: prefix, content_bytes, length, end });
        }
        let count = read_number(format.prefix, bytes, prefix)?;
        return variable(format, count, bytes, (prefix, prefix + prefix_bytes));
    }
    let count = read_number(format.prefix, bytes, start)?;
    let Some(count) = count.checked_sub(digits) else {
        return Err((Problem::Truncated { needed: digits, found: count }, start));
    };
    check(start + prefix_bytes)?;
    variable(format, count, bytes, (start, start + prefix_bytes + digits))
}

pub(crate) fn digits_of(coding: PrefixCoding, digits: u8) -> Prefix {
    Prefix { coding, bytes: digits, counts: Counts::Value, count_max: u32::MAX }
}

/// Parses a length or a tag.
#[inline]
pub(crate) fn read_number(prefix: Prefix, bytes: &[u8], start: usize) -> Result<usize, ProblemAt> {
    let size = usize::from(prefix.bytes);
    let Some(digits) = bytes.get(start..start + size) else {
        return Err((
            Problem::Truncated { needed: size, found: bytes.len().saturating_sub(start) },
            start,
        ));
    };
    let mut number = 0;
    let mut invalid = 0;
    match prefix.coding {
        PrefixCoding::Ascii | PrefixCoding::Ebcdic => {
            let zero = if prefix.coding == PrefixCoding::Ascii { b'0' } else { 0xF0 };
            for digit in digits {
                let value = digit ^ zero;
                invalid |= u8::from(value > 9);
                number = number * 10 + usize::from(value);
            }
        }
        PrefixCoding::Bcd => {
            for pair in digits {
                invalid |= u8::from(pair >> 4 > 9 || pair & 0x0F > 9);
                number = number * 100 + usize::from(pair >> 4) * 10 + usize::from(pair & 0x0F);
            }
        }
        PrefixCoding::Binary => {
            for byte in digits {
                number = number << 8 | usize::from(*byte);
            }
        }
    }
    if invalid == 0 { Ok(number) } else { Err(bad_prefix(prefix.coding, digits, start)) }
}

#[cold]
fn bad_prefix(coding: PrefixCoding, digits: &[u8], start: usize) -> ProblemAt {
    let is_invalid = |digit: &u8| match coding {
        PrefixCoding::Ascii => !digit.is_ascii_digit(),
        PrefixCoding::Ebcdic => *digit ^ 0xF0 > 9,
        PrefixCoding::Bcd => !coding::are_bcd_digits(&[*digit]),
        PrefixCoding::Binary => false,
    };
    let expected = match coding {
        PrefixCoding::Ascii => "ASCII digits",
        PrefixCoding::Ebcdic => "EBCDIC digits",
        PrefixCoding::Bcd => "BCD digits",
        PrefixCoding::Binary => "binary",
    };
    let at = digits.iter().position(is_invalid).unwrap_or(0);
    (Problem::BadPrefix { expected, found: Some(digits[at]) }, start + at)
}
