//! Preferences from the fields of requests.

use serde_json::Value;
use sign_up::preferences::{Preferences, TIME_ZONE};
use sign_up::service::RegistrationForm;

/// The preferences that have a value.
pub(crate) fn named<const N: usize>(texts: [(&str, Option<String>); N]) -> Preferences {
    let mut named = Preferences::default();
    for (name, text) in texts {
        if let Some(text) = text {
            named.set(name, &Value::String(text));
        }
    }
    named
}

/// The preferences of a new customer.
pub(crate) fn first_preferences(form: &RegistrationForm, marketing: bool) -> String {
    let mut first =
        named([(TIME_ZONE, form.time_zone.clone()), ("language", form.language.clone())]);
    if marketing {
        first.set("marketing_emails", &Value::Bool(true));
    }
    first.text().expect("a time zone and a language are short")
}
