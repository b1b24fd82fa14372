//! What customers prefer: a JSON object, each value as its client wrote it. Some names mean something
//! to a door, the others nothing to us.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::Invalid;

/// How large a customer's preferences may be, in bytes.
pub(crate) const BYTES_MAX: usize = 16 * 1024;

/// What a time zone is called among them.
pub(crate) const TIME_ZONE: &str = "timezone";

/// Preferences by name.
#[derive(Clone, Debug, Default)]
pub struct Preferences(BTreeMap<String, Box<RawValue>>);

impl Preferences {
    /// Reads them, as a client writes them or as they are stored; of a text without any there are none.
    /// However large they are: that is looked at before they are stored ([`Preferences::text`]).
    ///
    /// # Errors
    /// [`Invalid::Preferences`] where they are no object.
    pub fn read(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(text).map(Self).map_err(|_| Invalid::Preferences)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts one in.
    pub(crate) fn set(&mut self, name: &str, value: &Value) {
        let value = to_raw_value(value).expect("a value is plain JSON");
        self.0.insert(name.to_owned(), value);
    }

    /// These, changed by others as a merge patch changes an object of values (RFC 7396): what is not
    /// named stays, and `null` takes one away.
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

    /// As they are stored: nothing where there are none.
    ///
    /// # Errors
    /// [`Invalid::Preferences`] where they are too large.
    pub fn text(&self) -> Result<String, Invalid> {
        if self.0.is_empty() {
            return Ok(String::new());
        }
        let text = serde_json::to_string(&self.0).expect("an object is plain JSON");
        if text.len() <= BYTES_MAX { Ok(text) } else { Err(Invalid::Preferences) }
    }

    /// The text with a name, if it is one.
    pub(crate) fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, Value)> {
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
    fn a_change_leaves_what_it_does_not_name() {
        assert_eq!(merged(r#"{"a":1,"b":[2]}"#, r#"{"b": 2.50}"#), r#"{"a":1,"b":2.50}"#);
        assert_eq!(merged(r#"{"a":1,"b":2}"#, r#"{"a":null,"c":null}"#), r#"{"b":2}"#);
        assert_eq!(merged(r#"{"a":1}"#, r#"{"a":null}"#), "");
        assert_eq!(merged("", r#"{"a":{"b":null}}"#), r#"{"a":{"b":null}}"#);
    }

    #[test]
    fn only_objects_of_some_size_are_preferences() {
        for text in ["[]", "1", "null", "{", r#"{"a":}"#, "x"] {
            assert_eq!(Preferences::read(text).err(), Some(Invalid::Preferences), "{text}");
        }
        let half = |name| format!(r#"{{"{name}":"{}"}}"#, "x".repeat(BYTES_MAX / 2));
        let both = read(&half("a")).merged(&read(&half("b")));
        assert_eq!(both.text().err(), Some(Invalid::Preferences));
        let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(BYTES_MAX));
        assert_eq!(read(&large).text().err(), Some(Invalid::Preferences));
    }

    #[test]
    fn a_time_zone_is_a_text() {
        assert_eq!(read(r#"{"timezone":"UTC"}"#).string(TIME_ZONE).as_deref(), Some("UTC"));
        assert_eq!(read(r#"{"timezone":7}"#).string(TIME_ZONE), None);
        assert_eq!(read("").string(TIME_ZONE), None);
    }
}
