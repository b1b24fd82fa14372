//! The text of a variation as a value of its flag's type, in one form for all APIs.

use std::borrow::Cow;

use crate::model::Flag;

/// A value of a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedValue<'v> {
    Boolean(bool),
    /// A number as JSON writes it, with all digits of the text.
    Number(Cow<'v, str>),
    Text(&'v str),
    /// A JSON document as it is written.
    Json(&'v str),
}

impl Flag {
    /// The value that the text of a variation stands for; `None` where it is not of the flag's type.
    #[must_use]
    pub fn typed<'v>(&self, text: &'v str) -> Option<TypedValue<'v>> {
        match self.variation_type.as_str() {
            "boolean" => text.parse().ok().map(TypedValue::Boolean),
            "number" => number(text).map(TypedValue::Number),
            "json" => {
                let parsed = serde_json::from_str::<serde::de::IgnoredAny>(text);
                parsed.is_ok().then(|| TypedValue::Json(text.trim()))
            }
            _ => Some(TypedValue::Text(text)),
        }
    }
}

/// A number as JSON writes it. FeatBit's SDKs also read a leading `+`, leading zeros, and a point without digits on
/// one side, which JSON has not.
fn number(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim();
    if serde_json::from_str::<serde_json::Number>(text).is_ok() {
        return Some(Cow::Borrowed(text));
    }
    text.parse::<f64>().ok().filter(|it| it.is_finite())?;
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let exponent_at = unsigned.find(['e', 'E']).unwrap_or(unsigned.len());
    let (mantissa, exponent) = unsigned.split_at(exponent_at);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(Cow::Owned(format!("{sign}{whole}{point}{fraction}{exponent}")))
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_number_has_one_form() {
        for (text, expected) in [
            ("7", Some("7")),
            (" 7 ", Some("7")),
            ("-0.50", Some("-0.50")),
            ("1.5E+3", Some("1.5E+3")),
            ("12345678901234567890.5", Some("12345678901234567890.5")),
            (".5", Some("0.5")),
            ("-.5e3", Some("-0.5e3")),
            ("+5", Some("5")),
            ("+5.", Some("5")),
            ("5.e2", Some("5e2")),
            ("007", Some("7")),
            ("-007.50", Some("-7.50")),
            ("000", Some("0")),
            ("00.0", Some("0.0")),
            ("1e999", None),
            ("inf", None),
            ("NaN", None),
            ("1_000", None),
            ("0x10", None),
            (".", None),
            ("", None),
        ] {
            let found = number(text);
            assert_eq!(found.as_deref(), expected, "{text:?}");
            let Some(found) = found else { continue };
            let parsed: f64 = serde_json::from_str(&found).unwrap();
            assert_eq!(parsed.to_bits(), text.trim().parse::<f64>().unwrap().to_bits(), "{text:?}");
        }
    }
}
