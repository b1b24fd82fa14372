//! The currencies that Stripe takes, and the amounts that it refuses in some of them.

use crate::error::ApiError;

/// Eight digits.
const AMOUNT_MAX: i64 = 99_999_999;

const CURRENCIES: &str = "aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp \
     byn bzd cad cdf chf clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd \
     hkd hnl htg huf idr ils inr isk jmd jod jpy kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga \
     mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd \
     rub rwf sar sbd scr sek sgd shp sle sos srd std szl thb tjs tnd top try ttd twd tzs uah ugx usd uyu uzs vnd \
     vuv wst xaf xcd xof xpf yer zar zmw";

/// The smallest charge, in minor units; in other currencies the fake has none.
const AMOUNT_MIN: &[(&str, i64)] = &[("eur", 50), ("gbp", 30), ("jpy", 50), ("usd", 50)];

/// In lower case, as Stripe writes it.
pub fn parse(text: &str) -> Result<String, ApiError> {
    let currency = text.to_ascii_lowercase();
    if currency.len() != 3 || !CURRENCIES.split_whitespace().any(|it| it == currency) {
        let message = format!(
            "Invalid currency: {text}. Stripe currently supports these currencies: {CURRENCIES}"
        );
        return Err(ApiError::invalid("currency", message));
    }
    Ok(currency)
}

/// Whether an amount may be charged: its bounds, and the digits that have to be zero.
pub fn check_charge(param: &str, amount: i64, currency: &str) -> Result<(), ApiError> {
    check_digits(param, amount, currency)?;
    let min = AMOUNT_MIN.iter().find(|it| it.0 == currency).map_or(1, |it| it.1);
    if amount < min {
        let message = format!("Amount must be at least {min} {currency}");
        return Err(ApiError::invalid(param, message).coded("amount_too_small"));
    }
    if amount > AMOUNT_MAX {
        let message = format!("Amount must be no more than {AMOUNT_MAX} {currency}");
        return Err(ApiError::invalid(param, message).coded("amount_too_large"));
    }
    Ok(())
}

pub fn check_digits(param: &str, amount: i64, currency: &str) -> Result<(), ApiError> {
    let multiple = match currency {
        // Without decimals, and written with two of them.
        "isk" | "ugx" => 100,
        "bhd" | "jod" | "kwd" | "omr" | "tnd" => 10,
        _ => 1,
    };
    if amount < 1 {
        let message = "This value must be greater than or equal to 1.";
        return Err(ApiError::invalid(param, message).coded("parameter_invalid_integer"));
    }
    if amount % multiple != 0 {
        let message =
            format!("Invalid amount: in {currency} it has to be a multiple of {multiple}");
        return Err(ApiError::invalid(param, message).coded("parameter_invalid_integer"));
    }
    Ok(())
}
