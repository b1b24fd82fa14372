//! The encodings of the length of a frame.

use super::error::FramingError;

/// The coding of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LengthCoding {
    /// This number of decimal digits in ASCII.
    Decimal(u8),
    /// Four hexadecimal digits in ASCII, written in lower case.
    Hex,
    /// This number of bytes, big-endian.
    Binary(u8),
    /// Four decimal digits in two bytes.
    Bcd,
}

impl LengthCoding {
    /// The number of bytes.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Decimal(bytes) | Self::Binary(bytes) => usize::from(bytes),
            Self::Hex => 4,
            Self::Bcd => 2,
        }
    }

    /// The maximum length.
    pub(super) fn max(self) -> u64 {
        match self {
            Self::Decimal(digits) => 10_u64.saturating_pow(u32::from(digits)) - 1,
            Self::Hex => 0xFFFF,
            Self::Binary(bytes) => 256_u64.saturating_pow(u32::from(bytes)) - 1,
            Self::Bcd => 9999,
        }
    }

    /// Parses the length at `at`. `bytes` must be long enough.
    pub(super) fn read(self, bytes: &[u8], at: usize) -> Result<u64, FramingError> {
        let mut length = 0;
        for (position, &found) in bytes[at..at + self.bytes()].iter().enumerate() {
            let (base, digit) = match self {
                Self::Decimal(_) => (10, char::from(found).to_digit(10)),
                Self::Hex => (16, char::from(found).to_digit(16)),
                Self::Binary(_) => (256, Some(u32::from(found))),
                Self::Bcd => {
                    let is_decimal = found >> 4 <= 9 && found & 0xF <= 9;
                    (100, is_decimal.then(|| u32::from(found >> 4) * 10 + u32::from(found & 0xF)))
                }
            };
            let what = "a digit of the length";
            let unexpected = FramingError::Unexpected { at: at + position, what, found };
            length = length * base + u64::from(digit.ok_or(unexpected)?);
        }
        Ok(length)
    }

    /// Writes a length up to the maximum to all of `out`.
    pub(super) fn write(self, length: u64, out: &mut [u8]) {
        let mut rest = length;
        for byte in out.iter_mut().rev() {
            let base = match self {
                Self::Decimal(_) => 10,
                Self::Hex => 16,
                Self::Binary(_) => 256,
                Self::Bcd => 100,
            };
            let digit = (rest % base).to_le_bytes()[0];
            rest /= base;
            *byte = match self {
                Self::Decimal(_) | Self::Hex => b"0123456789abcdef"[usize::from(digit)],
                Self::Binary(_) => digit,
                Self::Bcd => digit / 10 * 16 + digit % 10,
            };
        }
    }
}
