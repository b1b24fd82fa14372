//! Customers' preferences: a JSON object whose values stay as the client wrote them. APIs know
//! some of its names.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::invalid::{Invalid, PREFERENCES_BYTES_MAX};

/// The name of the time zone.
pub const TIME_ZONE: &str = "timezone";

/// Preferences by name.
#[derive(Clone, Debug, Default)]
pub struct Preferences(BTreeMap<String, Box<RawValue>>);

impl Preferences {
    /// Parses preferences of a client.
    ///
    /// # Errors
    /// [`Invalid::Preferences`] where they are not an object, or a value is one that other parsers do not
    /// read: nested too deep, a number out of range, half a surrogate pair.
    pub fn of_client(text: &str) -> Result<Self, Invalid> {
        let read = Self::read(text)?;
        let is_read = |it: &RawValue| serde_json::from_str::<Value>(it.get()).is_ok();
        if read.0.values().all(|it| is_read(it)) { Ok(read) } else { Err(Invalid::Preferences) }
    }

    /// Parses stored preferences; empty text means none. Their size is checked
    /// when they are written ([`Preferences::text`]).
    ///
    /// # Errors
    /// [`Invalid::Preferences`] where they are not an object.
    pub fn read(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(text).map(Self).map_err(|_| Invalid::Preferences)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn set(&mut self, name: &str, value: &Value) {
        let value = to_raw_value(value).expect("a value is plain JSON");
        self.0.insert(name.to_owned(), value);
    }

    /// These preferences, changed by a merge patch (RFC 7396): missing names stay, and `null`
    /// removes a name.
    #[must_use]
    pub fn merged(mut self, change: &Self) -> Self {
        for (name, value) in &change.0 {
            if value.get() == "null" {
                self.0.remove(name);
            } else {
                self.0.insert(name.clone(), value.clone());
            }
        }
        self
    }

    /// The text to store; empty where there are none.
    ///
    /// # Errors
    /// [`Invalid::Preferences`] where they are too large.
    pub fn text(&self) -> Result<String, Invalid> {
        if self.0.is_empty() {
            return Ok(String::new());
        }
        let text = serde_json::to_string(&self.0).expect("an object is plain JSON");
        if text.len() <= PREFERENCES_BYTES_MAX { Ok(text) } else { Err(Invalid::Preferences) }
    }

    /// The value of this name, if it is a string.
    pub fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&String, Value)> {
        let value = |it: &RawValue| serde_json::from_str(it.get()).unwrap_or(Value::Null);
        self.0.iter().map(move |(name, it)| (name, value(it)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Preferences {
        Preferences::read(text).unwrap()
    }

    fn merged(stored: &str, change: &str) -> String {
        read(stored).merged(&read(change)).text().unwrap()
    }

    #[test]
    fn names_that_a_change_does_not_contain_stay() {
        assert_eq!(merged(r#"{"a":1,"b":[2]}"#, r#"{"b": 2.50}"#), r#"{"a":1,"b":2.50}"#);
        assert_eq!(merged(r#"{"a":1,"b":2}"#, r#"{"a":null,"c":null}"#), r#"{"b":2}"#);
        assert_eq!(merged(r#"{"a":1}"#, r#"{"a":null}"#), "");
        assert_eq!(merged("", r#"{"a":{"b":null}}"#), r#"{"a":{"b":null}}"#);
    }

    #[test]
    fn large_preferences_and_values_other_than_objects_are_refused() {
        for text in ["[]", "1", "null", "{", r#"{"a":}"#, "x"] {
            assert_eq!(Preferences::read(text).err(), Some(Invalid::Preferences), "{text}");
        }
        let half = |name| format!(r#"{{"{name}":"{}"}}"#, "x".repeat(PREFERENCES_BYTES_MAX / 2));
        let both = read(&half("a")).merged(&read(&half("b")));
        assert_eq!(both.text().err(), Some(Invalid::Preferences));
        let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(PREFERENCES_BYTES_MAX));
        assert_eq!(read(&large).text().err(), Some(Invalid::Preferences));
    }

    #[test]
    fn values_that_other_parsers_do_not_read_are_refused() {
        let nested = |depth| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let text = Preferences::of_client(&nested(100)).and_then(|it| it.text());
        assert!(text.is_ok_and(|text| text == nested(100)));
        for text in [&nested(8_000), r#"{"a":1e999}"#, r#"{"a":"\ud800"}"#] {
            assert_eq!(Preferences::of_client(text).err(), Some(Invalid::Preferences), "{text}");
        }
    }

    #[test]
    fn a_time_zone_that_is_not_a_string_is_ignored() {
        assert_eq!(read(r#"{"timezone":"UTC"}"#).string(TIME_ZONE).as_deref(), Some("UTC"));
        assert_eq!(read(r#"{"timezone":7}"#).string(TIME_ZONE), None);
        assert_eq!(read("").string(TIME_ZONE), None);
    }
}
