//! The fast path of packing: checks and encodes values of common formats in one step.

use crate::check::is_direction;
use crate::class::{Charset, FastEncoding, FieldFormat, PrefixCoding};
use crate::coding;

/// Buffer space that is sufficient for most values with their prefix.
pub(crate) const ROOM_BYTES: usize = 64;

/// Checks a value and writes it to the beginning of `out`; returns the number of bytes. `None` if the
/// format or the length has no fast path, `out` is too short, or the value is invalid; `out` may have
/// changed then.
#[inline(always)]
pub(crate) fn append(format: &FieldFormat, value: &[u8], out: &mut [u8]) -> Option<usize> {
    let (length, length_max) = (value.len(), format.length_max as usize);
    let is_full_length = length == length_max;
    match format.fast_encoding {
        FastEncoding::Bcd if is_full_length => match length {
            2 => bcd_exactly::<2, 1>(value, out),
            3 => bcd_exactly::<3, 2>(value, out),
            4 => bcd_exactly::<4, 2>(value, out),
            6 => bcd_exactly::<6, 3>(value, out),
            8 => bcd_exactly::<8, 4>(value, out),
            10 => bcd_exactly::<10, 5>(value, out),
            12 => bcd_exactly::<12, 6>(value, out),
            _ => bcd(value, out),
        },
        FastEncoding::BcdCounted if length <= length_max => {
            let (count, content) = out.split_first_mut()?;
            *count = coding::two_digits(u8::try_from(length).ok()?);
            let allows_separator = format.charset == Charset::Track;
            Some(1 + bcd_counted(value, allows_separator, content)?)
        }
        FastEncoding::BcdAmount if is_full_length => {
            let (direction, digits) = value.split_first()?;
            let (first, rest) = out.split_first_mut()?;
            *first = *direction;
            let bytes = bcd(digits, rest)?;
            is_direction(*direction).then_some(1 + bytes)
        }
        FastEncoding::Digits if is_full_length => {
            are_digits(format, value).then_some(())?;
            coding::copy_few(value, out)
        }
        FastEncoding::DigitsCounted if length <= length_max => {
            are_digits(format, value).then_some(())?;
            let prefix = write_count(format, length, out)?;
            Some(prefix + coding::copy_few(value, &mut out[prefix..])?)
        }
        FastEncoding::Plain if is_full_length => coding::copy_few(value, out),
        FastEncoding::PlainCounted if length <= length_max => {
            let prefix = write_count(format, length, out)?;
            Some(prefix + coding::copy_few(value, &mut out[prefix..])?)
        }
        FastEncoding::Hex if is_full_length => {
            let out = out.get_mut(..2 * length)?;
            for (byte, pair) in value.iter().zip(out.as_chunks_mut::<2>().0) {
                *pair = coding::hex_pair(*byte);
            }
            Some(2 * length)
        }
        FastEncoding::Bcd
        | FastEncoding::BcdCounted
        | FastEncoding::BcdAmount
        | FastEncoding::Digits
        | FastEncoding::DigitsCounted
        | FastEncoding::Plain
        | FastEncoding::PlainCounted
        | FastEncoding::Hex
        | FastEncoding::Other => None,
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

/// Writes a constant number of digits, for which the compiler unrolls the loop.
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

/// Writes digits; the first of an odd number has a byte of its own.
#[inline(always)]
fn bcd_inline(digits: &[u8], out: &mut [u8]) -> Option<usize> {
    if digits.len().is_multiple_of(2) {
        return coding::pack_digits(digits, out);
    }
    let (single, digits) = digits.split_first()?;
    let (first, rest) = out.split_first_mut()?;
    *first = single ^ b'0';
    let bytes = coding::pack_digits(digits, rest)?;
    (*first < 10).then_some(1 + bytes)
}

/// Writes digits; the last of an odd number has a byte of its own.
#[inline]
fn bcd_counted(digits: &[u8], allows_separator: bool, out: &mut [u8]) -> Option<usize> {
    let (even, single) = digits.split_at(digits.len() & !1);
    let bytes = if allows_separator {
        coding::are_ascii_track(digits).then_some(())?;
        coding::pack_track(even, out)?
    } else {
        coding::pack_digits(even, out)?
    };
    let [last] = single else { return Some(bytes) };
    *out.get_mut(bytes)? = last << 4;
    (allows_separator || last.is_ascii_digit()).then_some(bytes + 1)
}

/// Writes a length of up to three digits; returns the number of bytes.
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
