//! Writes values of the usual kinds: each is checked and encoded in one go.

use crate::check::is_direction;
use crate::class::{Charset, Coding, Content, Counts, FieldFormat, Odd, PrefixCoding};
use crate::coding;

/// Room that most values need, with their length.
pub(crate) const ROOM_BYTES: usize = 64;

/// The usual kinds of fields. One that is none of them, or a value that is not quite as long as its
/// field, is planned and written by `pack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// BCD digits without a length; half a byte that is left is the first.
    Bcd,
    /// BCD digits behind a length in one byte of BCD; half a byte that is left is the last.
    BcdCounted,
    /// A direction, and an even number of BCD digits.
    BcdAmount,
    /// Digits in ASCII.
    Digits,
    /// Digits in ASCII, behind a length.
    DigitsCounted,
    /// Characters or bytes as they are.
    Plain,
    /// Characters or bytes as they are, behind a length.
    PlainCounted,
    /// Bytes as hexadecimal digits in ASCII.
    Hex,
    /// Any other.
    Other,
}

impl Way {
    pub(crate) fn of(format: &FieldFormat) -> Self {
        let is_other = format.tag.digits > 0 || format.is_filled || format.composite > 0;
        if is_other || format.prefix.counts != Counts::Value {
            return Self::Other;
        }
        let is_odd = !format.length_max.is_multiple_of(2);
        let has_short_length =
            format.prefix.coding == PrefixCoding::Bcd && format.prefix.bytes == 1;
        match (format.content, format.coding, format.is_fixed()) {
            (Content::Digits, Coding::Bcd, true) if !is_odd || format.odd == Odd::ZeroLeft => {
                Self::Bcd
            }
            (Content::Digits, Coding::Bcd, false)
                if has_short_length && format.odd == Odd::ZeroRight =>
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

/// Checks a value of a usual kind and writes it to the beginning of `out`; says how many bytes it
/// took. Nothing means: not usual, too long for `out`, or wrong; `out` may have changed then.
#[inline(always)]
pub(crate) fn append(format: &FieldFormat, value: &[u8], out: &mut [u8]) -> Option<usize> {
    let (length, longest) = (value.len(), format.length_max as usize);
    let is_as_long = length == longest;
    match format.way {
        Way::Bcd if is_as_long => match length {
            2 => bcd_exactly::<2, 1>(value, out),
            3 => bcd_exactly::<3, 2>(value, out),
            4 => bcd_exactly::<4, 2>(value, out),
            6 => bcd_exactly::<6, 3>(value, out),
            8 => bcd_exactly::<8, 4>(value, out),
            10 => bcd_exactly::<10, 5>(value, out),
            12 => bcd_exactly::<12, 6>(value, out),
            _ => bcd(value, out),
        },
        Way::BcdCounted if length <= longest => {
            let (count, content) = out.split_first_mut()?;
            *count = coding::two_digits(u8::try_from(length).ok()?);
            let separates = format.charset == Charset::Track;
            Some(1 + bcd_counted(value, separates, content)?)
        }
        Way::BcdAmount if is_as_long => {
            let (direction, digits) = value.split_first()?;
            let (first, rest) = out.split_first_mut()?;
            *first = *direction;
            let bytes = bcd(digits, rest)?;
            is_direction(*direction).then_some(1 + bytes)
        }
        Way::Digits if is_as_long => {
            are_digits(format, value).then_some(())?;
            coding::copy_few(value, out)
        }
        Way::DigitsCounted if length <= longest => {
            are_digits(format, value).then_some(())?;
            let prefix = write_count(format, length, out)?;
            Some(prefix + coding::copy_few(value, &mut out[prefix..])?)
        }
        Way::Plain if is_as_long => coding::copy_few(value, out),
        Way::PlainCounted if length <= longest => {
            let prefix = write_count(format, length, out)?;
            Some(prefix + coding::copy_few(value, &mut out[prefix..])?)
        }
        Way::Hex if is_as_long => {
            let out = out.get_mut(..2 * length)?;
            for (byte, pair) in value.iter().zip(out.as_chunks_mut::<2>().0) {
                *pair = coding::hex_pair(*byte);
            }
            Some(2 * length)
        }
        Way::Bcd
        | Way::BcdCounted
        | Way::BcdAmount
        | Way::Digits
        | Way::DigitsCounted
        | Way::Plain
        | Way::PlainCounted
        | Way::Hex
        | Way::Other => None,
    }
}

#[inline]
fn are_digits(format: &FieldFormat, value: &[u8]) -> bool {
    match format.charset {
        Charset::Track => coding::are_ascii_track(value),
        Charset::Any
        | Charset::Digits
        | Charset::Alphabetic
        | Charset::Alphanumeric
        | Charset::Printable
        | Charset::Ascii => coding::are_ascii_digits(value),
    }
}

/// So many digits: told when it is compiled, little is left to decide.
#[inline(always)]
fn bcd_exactly<const DIGITS: usize, const BYTES: usize>(
    digits: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let digits: &[u8; DIGITS] = digits.try_into().ok()?;
    let out: &mut [u8; BYTES] = out.first_chunk_mut()?;
    bcd_inline(digits, out)
}

#[inline(never)]
fn bcd(digits: &[u8], out: &mut [u8]) -> Option<usize> {
    bcd_inline(digits, out)
}

/// Digits, of which an odd first one is alone in its byte.
#[inline(always)]
fn bcd_inline(digits: &[u8], out: &mut [u8]) -> Option<usize> {
    if digits.len().is_multiple_of(2) {
        return coding::pack_digits(digits, out);
    }
    let (alone, digits) = digits.split_first()?;
    let (first, rest) = out.split_first_mut()?;
    *first = alone ^ b'0';
    let bytes = coding::pack_digits(digits, rest)?;
    (*first < 10).then_some(1 + bytes)
}

/// Digits, of which an odd last one is alone in its byte.
#[inline]
fn bcd_counted(digits: &[u8], separates: bool, out: &mut [u8]) -> Option<usize> {
    let (even, alone) = digits.split_at(digits.len() & !1);
    let bytes = if separates {
        coding::are_ascii_track(digits).then_some(())?;
        coding::pack_track(even, out)?
    } else {
        coding::pack_digits(even, out)?
    };
    let [last] = alone else { return Some(bytes) };
    *out.get_mut(bytes)? = last << 4;
    (separates || last.is_ascii_digit()).then_some(bytes + 1)
}

/// Writes a length of up to three digits; says how many bytes it took.
#[inline]
fn write_count(format: &FieldFormat, length: usize, out: &mut [u8]) -> Option<usize> {
    let (high, low) = if length < 100 { (0, length) } else { (length / 100, length % 100) };
    let digits = |number: usize| Some(coding::two_digits(u8::try_from(number).ok()?));
    let (high, low) = (digits(high)?, digits(low)?);
    match (format.prefix.coding, format.prefix.bytes) {
        (PrefixCoding::Bcd, 1) => *out.first_chunk_mut()? = [low],
        (PrefixCoding::Bcd, 2) => *out.first_chunk_mut()? = [high, low],
        (PrefixCoding::Ascii, 2) => {
            *out.first_chunk_mut()? = [b'0' | low >> 4, b'0' | low & 0x0F];
        }
        (PrefixCoding::Ascii, 3) => {
            *out.first_chunk_mut()? = [b'0' | high, b'0' | low >> 4, b'0' | low & 0x0F];
        }
        _ => return None,
    }
    Some(usize::from(format.prefix.bytes))
}
