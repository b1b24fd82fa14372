//! The amount and the currency that a call about a payment asks for.

use crate::{AmountMinor, Currency, Rejection};

/// The currency of a payment that starts: the request's, else the account's.
///
/// # Errors
/// The refusal where neither has one, or where it is retired.
pub fn asked_currency(
    asked: Option<Currency>,
    of_account: Option<Currency>,
) -> Result<Currency, Rejection> {
    let currency = asked.or(of_account).ok_or_else(|| {
        Rejection::invalid("currency", "should not be null: neither request nor account has one")
    });
    in_use("currency", currency?)
}

/// The currency of what begins; what began in a retired one goes on.
///
/// # Errors
/// The refusal of `field` where it is retired, with its successor.
pub fn in_use(field: &str, currency: Currency) -> Result<Currency, Rejection> {
    match currency.successor() {
        None => Ok(currency),
        Some(successor) => Err(Rejection::InvalidParameter {
            field: field.to_owned(),
            reason: format!("{currency} is retired: {successor} is its successor"),
        }),
    }
}

/// Reads an amount that must be there and above zero.
///
/// # Errors
/// The refusal of the amount.
pub fn positive_amount(text: Option<&str>, currency: Currency) -> Result<AmountMinor, Rejection> {
    let text = text.ok_or_else(|| Rejection::invalid("amount", "needs to be set"))?;
    let amount =
        AmountMinor::parse(text, currency).map_err(|error| Rejection::InvalidParameter {
            field: "amount".to_owned(),
            reason: format!("{text}: {error}"),
        })?;
    if amount <= AmountMinor::ZERO {
        let reason = format!("{text}: should be greater than 0");
        return Err(Rejection::InvalidParameter { field: "amount".to_owned(), reason });
    }
    Ok(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_starts_in_a_currency_that_is_in_use() {
        let of = |code: &str| Currency::parse(code);
        let refusal =
            |asked, of_account| asked_currency(asked, of_account).unwrap_err().to_string();
        assert_eq!(asked_currency(of("USD"), of("ANG")), Ok(of("USD").unwrap()));
        assert_eq!(asked_currency(None, of("JPY")), Ok(of("JPY").unwrap()));
        for (asked, of_account) in [(of("ANG"), of("USD")), (None, of("ANG"))] {
            let expected = "currency: ANG is retired: XCG is its successor";
            assert_eq!(refusal(asked, of_account), expected);
        }
        assert!(refusal(None, None).starts_with("currency: should not be null"));
    }
}
