//! The encodings of characters, digits and bytes: ISO-8859-1, EBCDIC, BCD, hexadecimal.

/// The characters in ISO-8859-1 of the EBCDIC bytes (IBM-1047).
#[rustfmt::skip]
pub const FROM_EBCDIC: [u8; 256] = [
    0x00, 0x01, 0x02, 0x03, 0x9C, 0x09, 0x86, 0x7F, 0x97, 0x8D, 0x8E, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F,
    0x10, 0x11, 0x12, 0x13, 0x9D, 0x0A, 0x08, 0x87, 0x18, 0x19, 0x92, 0x8F, 0x1C, 0x1D, 0x1E, 0x1F,
    0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x17, 0x1B, 0x88, 0x89, 0x8A, 0x8B, 0x8C, 0x05, 0x06, 0x07,
    0x90, 0x91, 0x16, 0x93, 0x94, 0x95, 0x96, 0x04, 0x98, 0x99, 0x9A, 0x9B, 0x14, 0x15, 0x9E, 0x1A,
    0x20, 0xA0, 0xE2, 0xE4, 0xE0, 0xE1, 0xE3, 0xE5, 0xE7, 0xF1, 0xA2, 0x2E, 0x3C, 0x28, 0x2B, 0x7C,
    0x26, 0xE9, 0xEA, 0xEB, 0xE8, 0xED, 0xEE, 0xEF, 0xEC, 0xDF, 0x21, 0x24, 0x2A, 0x29, 0x3B, 0x5E,
    0x2D, 0x2F, 0xC2, 0xC4, 0xC0, 0xC1, 0xC3, 0xC5, 0xC7, 0xD1, 0xA6, 0x2C, 0x25, 0x5F, 0x3E, 0x3F,
    0xF8, 0xC9, 0xCA, 0xCB, 0xC8, 0xCD, 0xCE, 0xCF, 0xCC, 0x60, 0x3A, 0x23, 0x40, 0x27, 0x3D, 0x22,
    0xD8, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0xAB, 0xBB, 0xF0, 0xFD, 0xFE, 0xB1,
    0xB0, 0x6A, 0x6B, 0x6C, 0x6D, 0x6E, 0x6F, 0x70, 0x71, 0x72, 0xAA, 0xBA, 0xE6, 0xB8, 0xC6, 0xA4,
    0xB5, 0x7E, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7A, 0xA1, 0xBF, 0xD0, 0x5B, 0xDE, 0xAE,
    0xAC, 0xA3, 0xA5, 0xB7, 0xA9, 0xA7, 0xB6, 0xBC, 0xBD, 0xBE, 0xDD, 0xA8, 0xAF, 0x5D, 0xB4, 0xD7,
    0x7B, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0xAD, 0xF4, 0xF6, 0xF2, 0xF3, 0xF5,
    0x7D, 0x4A, 0x4B, 0x4C, 0x4D, 0x4E, 0x4F, 0x50, 0x51, 0x52, 0xB9, 0xFB, 0xFC, 0xF9, 0xFA, 0xFF,
    0x5C, 0xF7, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5A, 0xB2, 0xD4, 0xD6, 0xD2, 0xD3, 0xD5,
    0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0xB3, 0xDB, 0xDC, 0xD9, 0xDA, 0x9F,
];

/// The EBCDIC bytes (IBM-1047) of the characters of ISO-8859-1.
pub const TO_EBCDIC: [u8; 256] = inverse(&FROM_EBCDIC);

const fn inverse(table: &[u8; 256]) -> [u8; 256] {
    let mut inverse = [0; 256];
    let mut byte: u8 = 0;
    loop {
        inverse[table[byte as usize] as usize] = byte;
        if byte == u8::MAX {
            return inverse;
        }
        byte += 1;
    }
}

/// Upper-case hexadecimal digits.
pub const HEX: [u8; 16] = *b"0123456789ABCDEF";

/// The value of a hexadecimal digit in ASCII, in either case.
#[must_use]
pub const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// The values of upper-case hexadecimal digits in ASCII; others have high bits.
const UPPER_HEX: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut value = 0;
    while value < HEX.len() {
        values[HEX[value] as usize] = hex_value(HEX[value]).expect("HEX has only digits");
        value += 1;
    }
    values
};

/// Whether all bytes are upper-case hexadecimal digits in ASCII.
#[inline]
pub(crate) fn are_upper_hex(digits: &[u8]) -> bool {
    digits.iter().fold(0, |invalid, digit| invalid | UPPER_HEX[usize::from(*digit)]) < 16
}

/// The word of sixteen upper-case hexadecimal digits in ASCII; `None` for other bytes.
#[inline]
pub(crate) fn word_of_hex(digits: &[u8; 16]) -> Option<u64> {
    let (mut word, mut invalid) = (0, 0);
    for digit in digits {
        let value = UPPER_HEX[usize::from(*digit)];
        invalid |= value;
        word = word << 4 | u64::from(value & 0x0F);
    }
    (invalid < 16).then_some(word)
}

/// A byte as two hexadecimal digits in ASCII.
#[inline]
pub(crate) const fn hex_pair(byte: u8) -> [u8; 2] {
    [HEX[(byte >> 4) as usize], HEX[(byte & 0x0F) as usize]]
}

/// Whether all bytes are digits in ASCII. Checks eight at a time.
#[must_use]
#[inline(always)]
pub fn are_ascii_digits(bytes: &[u8]) -> bool {
    let mut invalid = 0;
    each_word(bytes, |word| invalid |= above_nine(word ^ ASCII_ZEROS));
    invalid & HIGHS == 0
}

/// Whether all bytes are digits in EBCDIC. Checks eight at a time.
#[must_use]
#[inline]
pub fn are_ebcdic_digits(bytes: &[u8]) -> bool {
    let mut invalid = 0;
    each_word(bytes, |word| invalid |= above_nine(word ^ EBCDIC_ZEROS));
    invalid & HIGHS == 0
}

/// Whether all bytes are digits in ASCII or `=`. Checks eight at a time.
#[must_use]
#[inline]
pub(crate) fn are_ascii_track(bytes: &[u8]) -> bool {
    let mut invalid = 0;
    each_word(bytes, |word| {
        let halves = word ^ ASCII_ZEROS;
        let other = halves ^ 0x0D0D_0D0D_0D0D_0D0D;
        invalid |= above_nine(halves) & (((other & !HIGHS) + !HIGHS) | other);
    });
    invalid & HIGHS == 0
}

/// Whether all half bytes are decimal digits. Checks eight bytes at a time.
#[must_use]
#[inline]
pub fn are_bcd_digits(bytes: &[u8]) -> bool {
    let mut invalid = 0;
    // A half byte is above nine if its bit 8 and its bit 4 or 2 are set.
    each_word(bytes, |word| invalid |= word & (word << 1 | word << 2));
    invalid & EIGHTS == 0
}

/// Whether all half bytes are decimal digits or D, which is `=` in tracks.
#[must_use]
#[inline]
pub fn are_bcd_track(bytes: &[u8]) -> bool {
    let mut invalid = 0;
    // A half byte is neither if its bit 8 is set, and its bit 2, or its bit 4 without its bit 1.
    each_word(bytes, |word| invalid |= word & (word << 2 | (word << 1 & !(word << 3))));
    invalid & EIGHTS == 0
}

const HIGHS: u64 = 0x8080_8080_8080_8080;
const EIGHTS: u64 = 0x8888_8888_8888_8888;
const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;
const EBCDIC_ZEROS: u64 = 0xF0F0_F0F0_F0F0_F0F0;

/// Sets the high bit of bytes above nine. A byte above 0x89 may also set the bit of its neighbour.
#[inline]
const fn above_nine(bytes: u64) -> u64 {
    bytes.wrapping_add(0x7676_7676_7676_7676) | bytes
}

/// Visits all bytes in words of eight. Some bytes are visited twice, which does not change a condition
/// on all bytes.
#[inline(always)]
fn each_word(bytes: &[u8], mut see: impl FnMut(u64)) {
    let both = |(first, last): (u32, u32)| u64::from(first) | u64::from(last) << 32;
    if let Some(last) = bytes.last_chunk::<8>() {
        for word in bytes.as_chunks::<8>().0 {
            see(u64::from_le_bytes(*word));
        }
        see(u64::from_le_bytes(*last));
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        see(both((u32::from_le_bytes(*first), u32::from_le_bytes(*last))));
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<2>(), bytes.last_chunk::<2>()) {
        let pairs = [*first, *last].map(u16::from_le_bytes);
        let pairs = u32::from(pairs[0]) | u32::from(pairs[1]) << 16;
        see(both((pairs, pairs)));
    } else if let [only] = bytes {
        see(u64::from_le_bytes([*only; 8]));
    }
}

/// Writes digits in ASCII as BCD, two to a byte; an odd number of them is preceded by `0`.
///
/// `out` takes `digits.len().div_ceil(2)` bytes. The low half of each byte of `digits` is taken.
#[inline]
pub fn write_bcd(digits: &[u8], out: &mut [u8]) {
    let odd = digits.len() % 2;
    if odd == 1 {
        out[0] = digits[0] & 0x0F;
    }
    for (pair, out) in digits[odd..].as_chunks::<2>().0.iter().zip(&mut out[odd..]) {
        *out = pair[0] << 4 | pair[1] & 0x0F;
    }
}

/// Writes an even number of digits in ASCII as BCD; returns the number of bytes. `None` if a byte is
/// not a digit or `out` is too short.
#[inline(always)]
pub(crate) fn pack_digits(digits: &[u8], out: &mut [u8]) -> Option<usize> {
    let out = out.get_mut(..digits.len() / 2)?;
    (pack_pairs(digits, out) & HIGHS == 0).then_some(digits.len() / 2)
}

/// The same for valid digits and `=`, which becomes D.
#[inline(always)]
pub(crate) fn pack_track(digits: &[u8], out: &mut [u8]) -> Option<usize> {
    let out = out.get_mut(..digits.len() / 2)?;
    pack_pairs(digits, out);
    Some(digits.len() / 2)
}

/// Writes pairs of digits to exactly as many bytes; returns the bits of [`above_nine`].
#[inline(always)]
fn pack_pairs(digits: &[u8], out: &mut [u8]) -> u64 {
    if let (Some(last), Some(end)) = (digits.last_chunk::<8>(), out.last_chunk_mut::<4>()) {
        let last = u64::from_le_bytes(*last) ^ ASCII_ZEROS;
        let mut invalid = above_nine(last);
        *end = packed(last);
        for (word, out) in digits.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<4>().0) {
            let word = u64::from_le_bytes(*word) ^ ASCII_ZEROS;
            invalid |= above_nine(word);
            *out = packed(word);
        }
        return invalid;
    }
    if let (Some(first), Some(last)) = (digits.first_chunk::<4>(), digits.last_chunk::<4>()) {
        let both =
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
        let word = both ^ ASCII_ZEROS;
        let [one, two, _, four] = packed(word);
        if let [first, second, rest @ ..] = out {
            (*first, *second) = (one, two);
            if let [.., last] = rest {
                *last = four;
            }
        }
        return above_nine(word);
    }
    if let ([first, second], [only]) = (digits, out) {
        let (first, second) = (first ^ b'0', second ^ b'0');
        *only = first << 4 | second;
        return above_nine(u64::from(first) | u64::from(second) << 8);
    }
    0
}

/// Eight digits, one to a byte and the first one lowest, as four bytes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the upper half was folded into the lower")]
const fn packed(digits: u64) -> [u8; 4] {
    let word = (digits << 4 | digits >> 8) & 0x00FF_00FF_00FF_00FF;
    let word = (word >> 8 | word) & 0x0000_FFFF_0000_FFFF;
    ((word >> 16 | word) as u32).to_le_bytes()
}

/// A length below a hundred as BCD.
#[inline]
pub(crate) const fn two_digits(number: u8) -> u8 {
    ((number / 10) << 4) | (number % 10)
}

/// Copies a few bytes to the beginning of `out` without a call of `memcpy`; returns their number.
#[inline(always)]
pub(crate) fn copy_few(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let out = out.get_mut(..bytes.len())?;
    match bytes.len() {
        0 => {}
        1 => out[0] = bytes[0],
        2 | 3 => copy_ends::<2>(bytes, out),
        4..=8 => copy_ends::<4>(bytes, out),
        9..=16 => copy_ends::<8>(bytes, out),
        17..=32 => copy_ends::<16>(bytes, out),
        _ => out.copy_from_slice(bytes),
    }
    Some(bytes.len())
}

/// Copies the first and the last `N` bytes, which may overlap.
#[inline]
fn copy_ends<const N: usize>(bytes: &[u8], out: &mut [u8]) {
    if let (Some(from), Some(to)) = (bytes.first_chunk::<N>(), out.first_chunk_mut::<N>()) {
        *to = *from;
    }
    if let (Some(from), Some(to)) = (bytes.last_chunk::<N>(), out.last_chunk_mut::<N>()) {
        *to = *from;
    }
}

/// The character of a half byte: a digit, or the `=` of a track for D.
#[must_use]
pub const fn bcd_character(half: u8) -> u8 {
    match half & 0x0F {
        0x0D => b'=',
        half => HEX[half as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digit_checks_accept_exactly_the_digits() {
        for length in [1, 3, 7, 8, 9, 16, 21] {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut ascii = vec![b'7'; length];
                    ascii[at] = byte;
                    assert_eq!(are_ascii_digits(&ascii), byte.is_ascii_digit(), "{byte:02X}");
                    let mut ebcdic = vec![0xF9; length];
                    ebcdic[at] = byte;
                    assert_eq!(are_ebcdic_digits(&ebcdic), (0xF0..=0xF9).contains(&byte));
                    let mut bcd = vec![0x98; length];
                    bcd[at] = byte;
                    let decimal = byte >> 4 < 10 && byte & 0x0F < 10;
                    assert_eq!(are_bcd_digits(&bcd), decimal, "{byte:02X} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn bcd_is_padded_on_the_left() {
        let check = |digits: &str, expected: &[u8]| {
            let mut out = vec![0xEE; digits.len().div_ceil(2)];
            write_bcd(digits.as_bytes(), &mut out);
            assert_eq!(out, expected, "{digits}");
        };
        check("", &[]);
        check("7", &[0x07]);
        check("123", &[0x01, 0x23]);
        check("12345678", &[0x12, 0x34, 0x56, 0x78]);
        check("1234567890123", &[0x01, 0x23, 0x45, 0x67, 0x89, 0x01, 0x23]);
    }

    #[test]
    fn pairs_of_digits_are_packed() {
        let digits = "123456789012345678901234";
        for length in (0..=24).step_by(2) {
            let mut text = digits.as_bytes()[..length].to_vec();
            let (mut out, mut plain) = ([0xEE; 13], [0xEE; 13]);
            write_bcd(&text, &mut plain[..length / 2]);
            assert_eq!(pack_digits(&text, &mut out), Some(length / 2));
            assert_eq!(out, plain, "{length}");
            assert_eq!(
                pack_digits(&text, &mut out[..(length / 2).saturating_sub(1)]).is_some(),
                length == 0
            );
            for at in 0..length {
                let digit = text[at];
                for byte in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
                    text[at] = byte;
                    assert_eq!(
                        pack_digits(&text, &mut out),
                        None,
                        "{byte:02X} at {at} of {length}"
                    );
                }
                text[at] = b'=';
                write_bcd(&text, &mut plain[..length / 2]);
                assert_eq!(pack_track(&text, &mut out), Some(length / 2));
                assert_eq!(out, plain, "{length}");
                text[at] = digit;
            }
        }
    }

    #[test]
    fn words_of_hexadecimal_digits_are_parsed() {
        let digits = *b"0123456789ABCDEF";
        assert_eq!(word_of_hex(&digits), Some(0x0123_4567_89AB_CDEF));
        for byte in 0..=u8::MAX {
            let mut digits = digits;
            digits[7] = byte;
            let is_right = byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
            assert_eq!(word_of_hex(&digits).is_some(), is_right, "{byte:02X}");
            assert_eq!(are_upper_hex(&digits), is_right, "{byte:02X}");
        }
    }

    #[test]
    fn tracks_have_digits_and_separators() {
        for byte in 0..=u8::MAX {
            let is_right = [byte >> 4, byte & 0x0F].iter().all(|half| *half < 10 || *half == 13);
            assert_eq!(are_bcd_track(&[byte]), is_right, "{byte:02X}");
            let is_right = byte.is_ascii_digit() || byte == b'=';
            assert_eq!(are_ascii_track(&[byte]), is_right, "{byte:02X}");
            assert_eq!(
                are_ascii_track(&[b'=', b'7', byte, b'0', b'1', b'2', b'3', b'4']),
                is_right
            );
            let is_right = are_bcd_track(&[byte]);
            assert_eq!(are_bcd_track(&[0x12, 0x34, 0x56, 0x78, 0x90, byte, 0xD1, 2, 3]), is_right);
        }
    }

    #[test]
    fn few_bytes_are_copied() {
        let bytes: Vec<u8> = (1..=40).collect();
        for length in 0..=40 {
            let mut out = [0; 48];
            assert_eq!(copy_few(&bytes[..length], &mut out), Some(length));
            assert_eq!(out[..length], bytes[..length]);
            assert!(out[length..].iter().all(|byte| *byte == 0), "{length}");
        }
    }

    #[test]
    fn ebcdic_has_a_byte_for_each_character() {
        for byte in 0..=u8::MAX {
            assert_eq!(TO_EBCDIC[FROM_EBCDIC[byte as usize] as usize], byte);
        }
        assert_eq!(TO_EBCDIC[b'^' as usize], 0x5F);
    }
}
