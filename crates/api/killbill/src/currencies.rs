//! Currencies that Kill Bill's own clients cannot read: its Java client fails on a whole page with one of them.

use axum::response::Response;
use domain::Currency;
use domain::tenant::{KILLBILL_CURRENCIES, KILLBILL_CURRENCIES_ALL, KILLBILL_CURRENCIES_THEIRS};
use http::{HeaderName, HeaderValue};
use serde_json::Value;

use crate::call::Call;
use crate::error::Failure;

/// Says what clients will have trouble with.
const WARNING: HeaderName = HeaderName::from_static("x-faregate-warning");

/// Refuses a currency that Kill Bill lacks where the tenant's settings say so.
///
/// # Errors
/// 400, naming the field.
pub(crate) fn check(call: &Call, currency: Option<Currency>) -> Result<(), Failure> {
    let tenant = call.tenant.as_ref().expect("the route requires a tenant");
    match currency.filter(|it| tenant.refuses(*it)) {
        Some(currency) => {
            let reason =
                format!("{currency} is not one of Kill Bill's, as `{KILLBILL_CURRENCIES}` asks");
            Err(Failure::parameter("currency", &reason))
        }
        None => Ok(()),
    }
}

/// Warns of a currency that Kill Bill lacks: the client by a header, the operator by the log.
pub(crate) fn warn(call: &Call, currency: Option<Currency>, mut answer: Response) -> Response {
    let Some(currency) = currency.filter(|it| !it.is_of_kill_bill()) else { return answer };
    if answer.status().is_success() {
        let text = format!("currency: Kill Bill's Java client cannot read {currency}");
        let text = HeaderValue::try_from(text).expect("a currency's code is visible ASCII");
        answer.headers_mut().insert(WARNING, text);
        tracing::warn!(
            request.id = %call.id.0,
            tenant = call.tenant().0,
            currency = currency.code(),
            "a currency was used that Kill Bill's Java client cannot read; its pages with that object fail there"
        );
    }
    answer
}

/// Checks the setting about currencies among a tenant's settings.
///
/// # Errors
/// The reason of the refusal, with the values that the setting may have.
pub(crate) fn check_setting(settings: &str) -> Result<(), String> {
    let all: serde_json::Map<String, Value> = serde_json::from_str(settings).unwrap_or_default();
    let values = [KILLBILL_CURRENCIES_ALL, KILLBILL_CURRENCIES_THEIRS];
    match all.get(KILLBILL_CURRENCIES) {
        Some(value) if !value.as_str().is_some_and(|it| values.contains(&it)) => {
            Err(format!("{KILLBILL_CURRENCIES}: should be {}", values.join(" or ")))
        }
        Some(_) | None => Ok(()),
    }
}
