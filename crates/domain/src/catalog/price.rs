//! Prices: decimals of scale 9 in the major unit of a currency. Amounts are made of them by rounding once, half up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{AmountMinor, Currency};

/// How many decimals a price and a ratio have.
pub const SCALE: u32 = 9;

/// One, at that scale.
const ONE: i128 = 10_i128.pow(SCALE);

/// The largest price in the major unit. Its product with the largest quantity is within 128 bits.
const PRICE_MAX: i128 = 10_i128.pow(15);

/// A price, or a rate: a price times a quantity. Written as a decimal without zeros at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i128);

impl Price {
    pub const ZERO: Self = Self(0);

    /// Reads a decimal such as `29.99`; `None` for what is none, has more than nine decimals or is beyond 10^15.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::read(text).filter(|it| it.0.abs() <= PRICE_MAX * ONE)
    }

    fn read(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = fraction.trim_end_matches('0');
        let scale = usize::try_from(SCALE).expect("small");
        let is_decimal = digits.bytes().any(|it| it.is_ascii_digit())
            && whole.bytes().chain(fraction.bytes()).all(|it| it.is_ascii_digit());
        if !is_decimal || fraction.len() > scale {
            return None;
        }
        let whole = whole.trim_start_matches('0');
        let units: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let parts: i128 = format!("{fraction:0<scale$}").parse().ok()?;
        let price = units.checked_mul(ONE)?.checked_add(parts)?;
        Some(Self(if negative { -price } else { price }))
    }

    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The price of `quantity` units.
    #[must_use]
    pub const fn times(self, quantity: u32) -> Self {
        Self(self.0 * quantity as i128)
    }

    /// The amount, rounded half up to the currency's decimals; `None` beyond 64 bits.
    #[must_use]
    pub fn amount(self, currency: Currency) -> Option<AmountMinor> {
        self.part(Ratio::ONE, currency)
    }

    /// The amount of a part of it, rounded as [`Self::amount`].
    #[must_use]
    pub fn part(self, ratio: Ratio, currency: Currency) -> Option<AmountMinor> {
        let exact = self.product(ratio)?;
        let digits = 2 * SCALE - u32::from(currency.decimals());
        i64::try_from(divide_half_up(exact, 10_i128.pow(digits))).ok().map(AmountMinor)
    }

    /// A part of it as a decimal, before it is rounded; `None` beyond 128 bits.
    #[must_use]
    pub fn exact_part(self, ratio: Ratio) -> Option<String> {
        self.product(ratio).map(|it| decimal(it, 2 * SCALE))
    }

    /// At twice the scale.
    fn product(self, ratio: Ratio) -> Option<i128> {
        self.0.checked_mul(i128::from(ratio.0))
    }
}

/// A number of a scale without zeros at its end.
fn decimal(number: i128, scale: u32) -> String {
    let one = 10_u128.pow(scale);
    let sign = if number < 0 { "-" } else { "" };
    let (whole, parts) = (number.unsigned_abs() / one, number.unsigned_abs() % one);
    let digits = usize::try_from(scale).expect("small");
    let parts = format!("{parts:0digits$}");
    match parts.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        parts => format!("{sign}{whole}.{parts}"),
    }
}

/// A text is no decimal, or has more than nine decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a decimal of at most nine decimals")]
pub struct NoDecimal;

impl FromStr for Price {
    type Err = NoDecimal;

    /// Reads what [`fmt::Display`] wrote, also a rate beyond the largest price.
    fn from_str(text: &str) -> Result<Self, NoDecimal> {
        Self::read(text).ok_or(NoDecimal)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(self.0, SCALE))
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A part of a period: a quotient of days with nine decimals, rounded half up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(i64);

impl Ratio {
    pub const ONE: Self = Self(1_000_000_000);

    /// `days` of `of_days`.
    ///
    /// # Panics
    /// `of_days` is not above 0.
    #[must_use]
    pub fn of(days: i32, of_days: i32) -> Self {
        assert!(of_days > 0, "a period has days");
        let ratio = divide_half_up(i128::from(days) * ONE, i128::from(of_days));
        Self(i64::try_from(ratio).expect("a number of days times 10^9 fits"))
    }

    /// The part of an amount, rounded half up to the minor unit.
    #[must_use]
    pub fn of_amount(self, amount: AmountMinor) -> AmountMinor {
        let part = divide_half_up(i128::from(amount.0) * i128::from(self.0), ONE);
        AmountMinor(i64::try_from(part).unwrap_or(if part < 0 { i64::MIN } else { i64::MAX }))
    }

    /// The part of an amount as a decimal of the major unit, before it is rounded.
    #[must_use]
    pub fn exact_of(self, amount: AmountMinor, currency: Currency) -> String {
        let exact = i128::from(amount.0) * i128::from(self.0);
        decimal(exact, SCALE + u32::from(currency.decimals()))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(self.0.into(), SCALE))
    }
}

/// Rounds a half away from zero, as Java's `HALF_UP`.
fn divide_half_up(dividend: i128, divisor: i128) -> i128 {
    let (quotient, rest) = (dividend / divisor, dividend % divisor);
    if rest.abs() * 2 >= divisor { quotient + dividend.signum() } else { quotient }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&Price::parse(text).map_or("none".to_owned(), |it| it.to_string()));
    }

    #[test]
    fn prices_are_decimals_of_scale_nine() {
        check("29.99", expect!["29.99"]);
        check("0.0", expect!["0"]);
        check("-5.500", expect!["-5.5"]);
        check(".5", expect!["0.5"]);
        check("7.", expect!["7"]);
        check("0.000000001", expect!["0.000000001"]);
        check("0.0000000010", expect!["0.000000001"]);
        check("0.0000000001", expect!["none"]);
        check("1000000000000000", expect!["1000000000000000"]);
        check("1000000000000000.1", expect!["none"]);
        check(&"9".repeat(30), expect!["none"]);
        check("1e3", expect!["none"]);
        check("", expect!["none"]);
        check(".", expect!["none"]);
        check("1.2.3", expect!["none"]);
        check("--1", expect!["none"]);
    }

    #[test]
    fn an_amount_is_rounded_once_and_half_up() {
        let amount = |price: &str, ratio, code: &str| {
            let currency = Currency::parse(code).unwrap();
            Price::parse(price).unwrap().part(ratio, currency).map(|it| it.decimal(currency))
        };
        assert_eq!(amount("29.99", Ratio::ONE, "USD").unwrap(), "29.99");
        assert_eq!(amount("29.99", Ratio::of(21, 31), "USD").unwrap(), "20.32");
        assert_eq!(amount("4498", Ratio::of(1, 2), "JPY").unwrap(), "2249");
        assert_eq!(amount("4499", Ratio::of(1, 2), "JPY").unwrap(), "2250");
        assert_eq!(amount("-4499", Ratio::of(1, 2), "JPY").unwrap(), "-2250");
        assert_eq!(amount("0.005", Ratio::ONE, "USD").unwrap(), "0.01");
        assert_eq!(amount("0.0049", Ratio::ONE, "USD").unwrap(), "0.00");
        assert_eq!(amount("1000000000000000", Ratio::ONE, "BTC"), None);
    }

    #[test]
    fn a_part_is_shown_before_it_is_rounded() {
        let (ratio, usd) = (Ratio::of(17, 31), Currency::parse("USD").unwrap());
        let price = Price::parse("29.99").unwrap();
        assert_eq!(ratio.to_string(), "0.548387097");
        assert_eq!(price.exact_part(ratio).unwrap(), "16.44612903903");
        assert_eq!(price.part(ratio, usd).unwrap(), AmountMinor(1_645));
        assert_eq!(ratio.exact_of(AmountMinor(-2_999), usd), "-16.44612903903");
        assert_eq!(Ratio::ONE.exact_of(AmountMinor(2_000), usd), "20");
    }

    #[test]
    fn a_part_of_an_amount_is_rounded_to_the_minor_unit() {
        assert_eq!(Ratio::of(15, 31).of_amount(AmountMinor(2_999)), AmountMinor(1_451));
        assert_eq!(Ratio::of(0, 31).of_amount(AmountMinor(2_999)), AmountMinor(0));
        assert_eq!(Ratio::of(1, 3), Ratio(333_333_333));
        assert_eq!(Ratio::of(2, 3), Ratio(666_666_667));
    }
}
