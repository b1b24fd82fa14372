//! Amounts: integer minor units of a currency. No float touches it, and nothing is rounded.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Currency;

/// An amount in the smallest unit of its currency (cents, yen, fils).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct AmountMinor(pub i64);

impl AmountMinor {
    pub const ZERO: Self = Self(0);

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// The sum, or `None` where it leaves 64 bits.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, never below zero.
    #[must_use]
    pub const fn minus_floor_zero(self, other: Self) -> Self {
        let difference = self.0.saturating_sub(other.0);
        Self(if difference < 0 { 0 } else { difference })
    }

    /// Reads a decimal such as `10`, `10.00`, `1e2` in `currency`'s major unit.
    ///
    /// # Errors
    /// [`AmountError`]: not a number, more decimals than the currency has, or beyond 64 bits.
    pub fn parse(text: &str, currency: Currency) -> Result<Self, AmountError> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                (mantissa, exponent.parse::<i32>().map_err(|_| AmountError::NotANumber)?)
            }
            None => (text, 0),
        };
        let (negative, digits) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = whole.bytes().chain(fraction.bytes());
        if whole.is_empty() && fraction.is_empty() || !all.clone().all(|b| b.is_ascii_digit()) {
            return Err(AmountError::NotANumber);
        }
        let fraction_len = i32::try_from(fraction.len()).map_err(|_| AmountError::TooLarge)?;
        let shift =
            i32::from(currency.decimals()).saturating_add(exponent).saturating_sub(fraction_len);
        let digits: Vec<u8> = all.skip_while(|b| *b == b'0').collect();
        let kept = match usize::try_from(-i64::from(shift)) {
            Ok(dropped) => {
                let kept = digits.len().saturating_sub(dropped);
                if digits[kept..].iter().any(|b| *b != b'0') {
                    return Err(AmountError::TooManyDecimals { allowed: currency.decimals() });
                }
                &digits[..kept]
            }
            Err(_) => &digits[..],
        };
        let mut minor: i64 = 0;
        for digit in kept {
            minor = push_digit(minor, digit - b'0').ok_or(AmountError::TooLarge)?;
        }
        if minor != 0 {
            for _ in 0..shift.max(0) {
                minor = push_digit(minor, 0).ok_or(AmountError::TooLarge)?;
            }
        }
        Ok(Self(if negative { -minor } else { minor }))
    }

    /// The decimal in the currency's major unit, with the currency's decimals: `10.00`.
    #[must_use]
    pub fn decimal(self, currency: Currency) -> String {
        currency.decimal(i128::from(self.0))
    }
}

fn push_digit(value: i64, digit: u8) -> Option<i64> {
    value.checked_mul(10)?.checked_add(i64::from(digit))
}

/// Why a text is no amount of a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AmountError {
    /// Not a decimal number.
    NotANumber,
    /// More decimals than the currency has; refused, not rounded.
    TooManyDecimals {
        /// How many the currency has (ISO 4217).
        allowed: u8,
    },
    /// Does not fit 64-bit minor units.
    TooLarge,
}

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber => write!(f, "not a decimal number"),
            Self::TooManyDecimals { allowed } => {
                write!(f, "more decimals than the currency has ({allowed})")
            }
            Self::TooLarge => write!(f, "too large"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, code: &str, expected: Expect) {
        let currency = Currency::parse(code).unwrap();
        let shown = match AmountMinor::parse(text, currency) {
            Ok(amount) => format!("{} = {}", amount.0, amount.decimal(currency)),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn sums_beyond_64_bits_keep_their_decimals() {
        let usd = Currency::parse("USD").unwrap();
        assert_eq!(usd.decimal(i128::from(i64::MAX) * 2), "184467440737095516.14");
        assert_eq!(usd.decimal(-5), "-0.05");
        assert_eq!(Currency::parse("JPY").unwrap().decimal(7), "7");
    }

    #[test]
    fn amounts() {
        check("10", "USD", expect!["1000 = 10.00"]);
        check("10.00", "USD", expect!["1000 = 10.00"]);
        check("10.0000", "USD", expect!["1000 = 10.00"]);
        check("0.5", "USD", expect!["50 = 0.50"]);
        check("-0.05", "USD", expect!["-5 = -0.05"]);
        check("1e2", "USD", expect!["10000 = 100.00"]);
        check("12E-1", "USD", expect!["120 = 1.20"]);
        check("1.234", "USD", expect!["more decimals than the currency has (2)"]);
        check("1.234", "KWD", expect!["1234 = 1.234"]);
        check("100.5", "JPY", expect!["more decimals than the currency has (0)"]);
        check("100", "JPY", expect!["100 = 100"]);
        check("92233720368547758.07", "USD", expect!["9223372036854775807 = 92233720368547758.07"]);
        check("92233720368547758.08", "USD", expect!["too large"]);
        check("1e99", "USD", expect!["too large"]);
        check("0e99", "USD", expect!["0 = 0.00"]);
        check("1e-2147483648", "USD", expect!["more decimals than the currency has (2)"]);
        check("ten", "USD", expect!["not a decimal number"]);
        check("", "USD", expect!["not a decimal number"]);
        check(".", "USD", expect!["not a decimal number"]);
        check("1.2.3", "USD", expect!["not a decimal number"]);
    }
}
