//! Checkout sessions: Stripe's page on which a customer enters a payment method.

use domain::Properties;

use super::api::Parameters;

/// The longest URL.
const URL_BYTES_MAX: usize = 2_048;

/// The parameters of a session that sets up a card, from the fields of a form.
///
/// # Errors
/// The field that is wrong, and why.
pub(super) fn parameters(fields: &Properties, customer: &str) -> Result<Parameters, String> {
    let parameters = Parameters::default()
        .with("mode", "setup")
        .with("payment_method_types[]", "card")
        .with("customer", customer)
        .with("success_url", url(fields, ["successUrl", "success_url"])?);
    let is_given = |name: &str| fields.iter().any(|(key, _)| key == name);
    Ok(match is_given("cancelUrl") || is_given("cancel_url") {
        true => parameters.with("cancel_url", url(fields, ["cancelUrl", "cancel_url"])?),
        false => parameters,
    })
}

/// A field with a URL, by one of its names: ours and that of Kill Bill's plugin.
fn url(fields: &Properties, names: [&str; 2]) -> Result<String, String> {
    let found = fields.iter().find(|(key, _)| names.contains(&key.as_str()));
    let url = found.map(|(_, value)| value).filter(|it| {
        (it.starts_with("https://") || it.starts_with("http://")) && it.len() <= URL_BYTES_MAX
    });
    url.cloned().ok_or_else(|| {
        let name = names[0];
        format!("formFields {name}: should be a URL of at most {URL_BYTES_MAX} bytes")
    })
}
