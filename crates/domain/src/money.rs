//! Money: integer minor units of an ISO 4217 currency. No float touches it, and nothing is rounded.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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

/// An ISO 4217 currency, or BTC, which Kill Bill's clients know too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The currency with this alphabetic code, upper case; `None` where there is none.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        let bytes: [u8; 3] = code.as_bytes().try_into().ok()?;
        CODES.contains(&code).then_some(Self(bytes))
    }

    /// The alphabetic code.
    #[must_use]
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).expect("only codes of the table are constructed")
    }

    /// Whether Kill Bill has the currency: its Java client fails to read a page with any other.
    #[must_use]
    pub fn is_of_kill_bill(&self) -> bool {
        !NOT_OF_KILL_BILL.contains(&self.code())
    }

    /// How many decimals the major unit has (ISO 4217 list one, column "minor unit").
    #[must_use]
    pub const fn decimals(self) -> u8 {
        match &self.0 {
            b"BIF" | b"CLP" | b"DJF" | b"GNF" | b"ISK" | b"JPY" | b"KMF" | b"KRW" | b"PYG"
            | b"RWF" | b"UGX" | b"UYI" | b"VND" | b"VUV" | b"XAF" | b"XOF" | b"XPF" => 0,
            b"BHD" | b"IQD" | b"JOD" | b"KWD" | b"LYD" | b"OMR" | b"TND" => 3,
            b"CLF" | b"UYW" => 4,
            b"BTC" => 8,
            _ => 2,
        }
    }

    /// An amount or a sum in the major unit, with the currency's decimals: `10.00`. Sums can be larger than any
    /// one amount.
    #[must_use]
    pub fn decimal(self, minor: i128) -> String {
        let decimals = usize::from(self.decimals());
        let sign = if minor < 0 { "-" } else { "" };
        let digits = format!("{:0>width$}", minor.unsigned_abs(), width = decimals + 1);
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        if decimals == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}
impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        Self::parse(&code).ok_or_else(|| de::Error::custom("unknown currency"))
    }
}

/// ISO 4217 list one (funds codes and precious metals left out), plus BTC.
const CODES: &[&str] = &[
    "AED", "AFN", "ALL", "AMD", "ANG", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT",
    "BGN", "BHD", "BIF", "BMD", "BND", "BOB", "BRL", "BSD", "BTC", "BTN", "BWP", "BYN", "BZD",
    "CAD", "CDF", "CHF", "CLF", "CLP", "CNY", "COP", "CRC", "CUC", "CUP", "CVE", "CZK", "DJF",
    "DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP",
    "GMD", "GNF", "GTQ", "GYD", "HKD", "HNL", "HRK", "HTG", "HUF", "IDR", "ILS", "INR", "IQD",
    "IRR", "ISK", "JMD", "JOD", "JPY", "KES", "KGS", "KHR", "KMF", "KPW", "KRW", "KWD", "KYD",
    "KZT", "LAK", "LBP", "LKR", "LRD", "LSL", "LYD", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT",
    "MOP", "MRU", "MUR", "MVR", "MWK", "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR",
    "NZD", "OMR", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RUB",
    "RWF", "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SLL", "SOS", "SRD", "SSP",
    "STN", "SVC", "SYP", "SZL", "THB", "TJS", "TMT", "TND", "TOP", "TRY", "TTD", "TWD", "TZS",
    "UAH", "UGX", "USD", "UYI", "UYU", "UYW", "UZS", "VED", "VES", "VND", "VUV", "WST", "XAF",
    "XCD", "XOF", "XPF", "YER", "ZAR", "ZMW", "ZWG", "ZWL",
];

/// What Kill Bill's enum `Currency` lacks (killbill-api 0.54 and killbill-client-java 1.4.0).
const NOT_OF_KILL_BILL: &[&str] =
    &["BYN", "CLF", "MRU", "SLE", "SSP", "STN", "UYI", "UYW", "VED", "VES", "XCG", "ZWG", "ZWL"];

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// Kill Bill's enum `Currency`.
    const OF_KILL_BILL: &str = "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL \
        BSD BTN BWP BYR BZD CAD CDF CHF CLP CNY COP CRC CUC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP \
        GBP GEL GGP GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG HUF IDR ILS IMP INR IQD IRR ISK JEP JMD JOD JPY KES \
        KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LTL LVL LYD MAD MDL MGA MKD MMK MNT MOP MRO MUR MVR \
        MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR \
        SDG SEK SGD SHP SLL SOS SPL SRD STD SVC SYP SZL THB TJS TMT TND TOP TRY TTD TVD TWD TZS UAH UGX USD UYU \
        UZS VEF VND VUV WST XAF XCD XDR XOF XPF YER ZAR ZMW ZWD BTC";

    #[test]
    fn currencies_that_kill_bill_has_are_known() {
        for code in CODES {
            let is_theirs = OF_KILL_BILL.split(' ').any(|it| it == *code);
            let currency = Currency::parse(code).unwrap();
            assert_eq!(currency.is_of_kill_bill(), is_theirs, "{code}");
        }
    }

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

    #[test]
    fn the_table_of_codes_is_sorted_and_unknown_codes_are_refused() {
        assert!(CODES.is_sorted());
        assert_eq!(Currency::parse("usd"), None);
        assert_eq!(Currency::parse("XXX"), None);
    }
}
