//! Amounts in responses: JSON numbers with the currency's decimals, `10.00`.

use domain::catalog::price::Price;
use domain::payment::TransactionType;
use domain::payment::attempt::PaymentAttempt;
use domain::{AmountMinor, Currency};
use serde::{Serialize, Serializer, ser};
use serde_json::value::RawValue;

/// An amount that is encoded as a JSON number without a conversion to a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    amount: AmountMinor,
    currency: Option<Currency>,
}

impl Decimal {
    /// An amount; without a currency it must be zero, which is written as `0`.
    pub(crate) const fn new(amount: AmountMinor, currency: Option<Currency>) -> Self {
        Self { amount, currency }
    }

    /// A sum; zero is written as `0`, as in Kill Bill.
    pub(crate) const fn sum(amount: AmountMinor, currency: Currency) -> Self {
        let currency = if amount.0 == 0 { None } else { Some(currency) };
        Self { amount, currency }
    }

    /// The amount of an attempt; a void has none.
    pub(crate) fn of_attempt(it: &PaymentAttempt) -> Option<Self> {
        (it.kind != TransactionType::Void).then(|| Self::new(it.amount, Some(it.currency)))
    }

    fn text(self) -> String {
        match self.currency {
            Some(currency) => self.amount.decimal(currency),
            None => self.amount.0.to_string(),
        }
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.text()).map_err(ser::Error::custom)?.serialize(serializer)
    }
}

/// A price that is encoded as a JSON number, likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(Price);

impl Number {
    pub(crate) const fn of(price: Price) -> Self {
        Self(price)
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.to_string();
        RawValue::from_string(text).map_err(ser::Error::custom)?.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn amounts_are_numbers_with_the_decimals_of_the_currency() {
        let usd = Currency::parse("USD").unwrap();
        let jpy = Currency::parse("JPY");
        let amounts = [
            Decimal::new(AmountMinor(1000), Some(usd)),
            Decimal::new(AmountMinor(0), Some(usd)),
            Decimal::new(AmountMinor(101), jpy),
            Decimal::new(AmountMinor(0), None),
            Decimal::sum(AmountMinor(0), usd),
            Decimal::sum(AmountMinor(550), usd),
            Decimal::new(AmountMinor(i64::MAX), Some(usd)),
        ];
        expect!["[10.00,0.00,101,0,0,5.50,92233720368547758.07]"]
            .assert_eq(&serde_json::to_string(&amounts).unwrap());
    }
}
