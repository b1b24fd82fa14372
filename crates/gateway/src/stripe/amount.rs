//! Amounts as Stripe counts them. Most currencies have the decimals of ISO 4217 there; the exceptions are those of
//! <https://docs.stripe.com/currencies#minor-units>, as of 2026-11-27.

use domain::{AmountMinor, Currency};

/// Currencies that have two decimals in ISO 4217 and none at Stripe.
const WITHOUT_DECIMALS: [&str; 1] = ["MGA"];

/// Currencies that have no decimals in ISO 4217 and two at Stripe, of which both are zero.
const WITH_TWO_ZEROS: [&str; 2] = ["ISK", "UGX"];

/// Decimals of a currency at Stripe, and what amounts there are multiples of.
fn decimals(currency: Currency) -> (u8, i64) {
    let code = currency.code();
    if WITHOUT_DECIMALS.contains(&code) {
        (0, 1)
    } else if WITH_TWO_ZEROS.contains(&code) {
        (2, 100)
    } else if currency.decimals() == 3 {
        (3, 10)
    } else {
        (currency.decimals(), 1)
    }
}

/// An amount in Stripe's smallest unit of its currency.
///
/// # Errors
/// Why Stripe does not take such an amount.
pub(super) fn to_stripe(amount: AmountMinor, currency: Currency) -> Result<i64, String> {
    let (at_stripe, multiple) = decimals(currency);
    let (decimals, AmountMinor(minor)) = (currency.decimals(), amount);
    let refused = || {
        let decimal = amount.decimal(currency);
        match multiple {
            10 => format!("{decimal} {currency}: Stripe takes two decimals of {currency}"),
            _ => format!("{decimal} {currency}: Stripe takes no decimals of {currency}"),
        }
    };
    let converted = if at_stripe >= decimals {
        minor.checked_mul(10_i64.pow(u32::from(at_stripe - decimals)))
    } else {
        let unit = 10_i64.pow(u32::from(decimals - at_stripe));
        (minor % unit == 0).then(|| minor / unit)
    };
    converted.filter(|it| it % multiple == 0).ok_or_else(refused)
}

/// An amount that Stripe says; `None` where it has no such amount in ISO 4217.
pub(super) fn from_stripe(amount: i64, currency: Currency) -> Option<AmountMinor> {
    let (at_stripe, _) = decimals(currency);
    let decimals = currency.decimals();
    if decimals >= at_stripe {
        let unit = 10_i64.pow(u32::from(decimals - at_stripe));
        return amount.checked_mul(unit).map(AmountMinor);
    }
    let unit = 10_i64.pow(u32::from(at_stripe - decimals));
    (amount % unit == 0).then(|| AmountMinor(amount / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zero-decimal currencies of Stripe's page; UGX and ISK are charged with two zeros.
    const ZERO_DECIMAL: [&str; 15] = [
        "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF",
        "XOF", "XPF",
    ];
    /// Three-decimal currencies of the page.
    const THREE_DECIMAL: [&str; 5] = ["BHD", "JOD", "KWD", "OMR", "TND"];

    fn check(decimal: &str, code: &str, expected: Option<i64>) {
        let currency = Currency::parse(code).unwrap();
        let amount = AmountMinor::parse(decimal, currency).unwrap();
        let converted = to_stripe(amount, currency);
        assert_eq!(converted.as_ref().ok(), expected.as_ref(), "{decimal} {code}: {converted:?}");
        if let Some(stripe) = expected {
            assert_eq!(from_stripe(stripe, currency), Some(amount), "{decimal} {code}");
        }
    }

    #[test]
    fn every_currency_of_stripes_list_counts_as_the_list_says() {
        for code in ZERO_DECIMAL {
            check("500", code, Some(500));
        }
        for code in THREE_DECIMAL {
            check("5.120", code, Some(5_120));
            check("5.124", code, None);
        }
        for code in ["ISK", "UGX"] {
            check("500", code, Some(50_000));
        }
        for code in ["USD", "EUR", "HUF", "TWD", "PLN"] {
            check("10.50", code, Some(1_050));
        }
    }

    #[test]
    fn amounts_that_stripe_cannot_count_are_refused() {
        check("5.50", "MGA", None);
        check("92233720368547759", "UGX", None);
        let isk = Currency::parse("ISK").unwrap();
        assert_eq!(from_stripe(50_050, isk), None);
    }
}
