//! The amount and the currency that a call about a payment asks for.

use crate::{AmountMinor, Currency, Rejection};

/// The currency of a payment that starts: the request's, else the account's.
///
/// # Errors
/// The refusal where neither has one.
pub fn asked_currency(
    asked: Option<Currency>,
    of_account: Option<Currency>,
) -> Result<Currency, Rejection> {
    asked.or(of_account).ok_or_else(|| {
        Rejection::invalid("currency", "should not be null: neither request nor account has one")
    })
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
