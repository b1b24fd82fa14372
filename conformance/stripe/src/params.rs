//! The parameters of a request: form-encoded, with brackets for what is nested.

use std::collections::BTreeMap;

use crate::error::ApiError;

pub type Metadata = BTreeMap<String, String>;

const METADATA_KEYS_MAX: usize = 50;
const METADATA_KEY_CHARS_MAX: usize = 40;
const METADATA_VALUE_CHARS_MAX: usize = 500;

/// What the fake knows within a parameter; one that ends in `[` holds any key. A parameter that is not
/// here holds anything.
const NESTED: &[(&str, &[&str])] = &[
    ("automatic_payment_methods", &["[allow_redirects]", "[enabled]"]),
    ("card", &["[number]", "[token]"]),
    ("created", &["[gt]", "[gte]", "[lt]", "[lte]"]),
    ("invoice_settings", &["[default_payment_method]"]),
    ("payment_intent_data", &["[capture_method]", "[metadata][", "[setup_future_usage]"]),
    ("payment_method_data", &["[billing_details][", "[card][number]", "[card][token]", "[type]"]),
    ("payment_method_options", &["[card][request_multicapture]", "[card][request_three_d_secure]"]),
    ("setup_intent_data", &["[metadata]["]),
];

fn is_known_within(top: &str, rest: &str) -> bool {
    let fits = |it: &&str| if it.ends_with('[') { rest.starts_with(*it) } else { rest == *it };
    let known = NESTED.iter().find(|it| it.0 == top);
    rest.is_empty() || known.is_none_or(|it| it.1.iter().any(fits))
}

/// Names as they were sent (`card[token]`, `expand[0]`), in their order.
#[derive(Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    pub fn parse(encoded: &[u8]) -> Params {
        Params(form_urlencoded::parse(encoded).into_owned().collect())
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The text of a parameter; `None` if it is absent. The empty text unsets a value.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(it, _)| *it == name).map(|(_, value)| value)
    }

    pub fn owned(&self, name: &str) -> Option<String> {
        self.text(name).filter(|it| !it.is_empty()).map(str::to_owned)
    }

    pub fn required(&self, name: &str) -> Result<&str, ApiError> {
        let text = self.text(name).filter(|it| !it.is_empty());
        text.ok_or_else(|| ApiError::missing(name))
    }

    pub fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let parse = |text: &str| {
            let refused = || ApiError::invalid(name, format!("Invalid integer: {text}"));
            text.parse().map_err(|_| refused().coded("parameter_invalid_integer"))
        };
        self.text(name).map(parse).transpose()
    }

    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.text(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(text) => Err(ApiError::invalid(name, format!("Invalid boolean: {text}"))),
        }
    }

    pub fn one_of<'a>(&'a self, name: &str, known: &[&str]) -> Result<Option<&'a str>, ApiError> {
        match self.text(name) {
            Some(text) if !known.contains(&text) => {
                let message = format!("Invalid {name}: must be one of {}", known.join(", "));
                Err(ApiError::invalid(name, message))
            }
            found => Ok(found),
        }
    }

    /// `name[]=a&name[0]=b`.
    pub fn list(&self, name: &str) -> Vec<&str> {
        let of_list = |it: &str| {
            let rest = it.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')?;
            rest.bytes().all(|it| it.is_ascii_digit()).then_some(())
        };
        self.pairs().filter_map(|(it, value)| of_list(it).map(|()| value)).collect()
    }

    /// Whether there is a parameter of the name, or one nested in it.
    pub fn has(&self, name: &str) -> bool {
        self.pairs().any(|(it, _)| {
            it.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        })
    }

    /// Merges `metadata[key]=value`; an empty value removes the key, `metadata=` all of them.
    pub fn merge_metadata(&self, metadata: &mut Metadata) -> Result<(), ApiError> {
        if self.text("metadata") == Some("") {
            metadata.clear();
        }
        for (name, value) in self.pairs() {
            let Some(key) = name.strip_prefix("metadata[").and_then(|it| it.strip_suffix(']'))
            else {
                continue;
            };
            if key.chars().count() > METADATA_KEY_CHARS_MAX
                || value.chars().count() > METADATA_VALUE_CHARS_MAX
            {
                let message = format!(
                    "Metadata {key:?}: a key has up to {METADATA_KEY_CHARS_MAX} characters, a value up to {METADATA_VALUE_CHARS_MAX}"
                );
                return Err(ApiError::invalid("metadata", message));
            }
            if value.is_empty() {
                metadata.remove(key);
            } else {
                metadata.insert(key.to_owned(), value.to_owned());
            }
        }
        if metadata.len() > METADATA_KEYS_MAX {
            return Err(ApiError::invalid(
                "metadata",
                format!("Metadata can have up to {METADATA_KEYS_MAX} keys"),
            ));
        }
        Ok(())
    }

    pub fn metadata(&self) -> Result<Metadata, ApiError> {
        let mut metadata = Metadata::new();
        self.merge_metadata(&mut metadata)?;
        Ok(metadata)
    }

    /// [`Self::only`] for a list, which takes a page and times of creation besides.
    pub fn only_in_list(&self, own: &[&str]) -> Result<(), ApiError> {
        self.only(&[own, &["created", "ending_before", "limit", "starting_after"]].concat())
    }

    /// Refuses what the route does not take. Stripe takes more than the fake: a parameter without an
    /// effect here must not look as if it had one.
    pub fn only(&self, known: &[&str]) -> Result<(), ApiError> {
        for (name, _) in self.pairs() {
            let top = name.split('[').next().unwrap_or(name);
            if top != "expand"
                && !(known.contains(&top) && is_known_within(top, &name[top.len()..]))
            {
                let message = format!("Received unknown parameter: {name}");
                return Err(ApiError::invalid(name, message).coded("parameter_unknown"));
            }
        }
        Ok(())
    }
}
