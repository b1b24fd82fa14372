//! Request bodies of the contract: a JSON object whose invalid fields are all reported at once.

use axum::body::Body;
use domain::card_data::NumericKeys;
use serde_json::{Map, Value, json};
use sign_up::Invalid;
use web::body::read_limited;
use web::card_data;

use crate::error::{ApiError, broken_rule, card_number, wrong_field};

/// The largest body, in bytes, whatever the server accepts.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The fields of a body that are not read yet, and errors of those that are.
pub(crate) struct Fields {
    object: Map<String, Value>,
    invalid: Vec<Value>,
}

impl Fields {
    /// Reads a whole body.
    ///
    /// # Errors
    /// [`web::BodyError`]; 422 where it is not a JSON object.
    pub(crate) async fn read(body: Body) -> Result<Self, ApiError> {
        Self::of(&read_limited(body, BODY_BYTES_MAX).await?)
    }

    /// Reads an optional body; an empty one has no fields.
    ///
    /// # Errors
    /// As [`Fields::read`].
    pub(crate) async fn read_if_any(body: Body) -> Result<Self, ApiError> {
        let bytes = read_limited(body, BODY_BYTES_MAX).await?;
        if bytes.is_empty() {
            return Ok(Self { object: Map::new(), invalid: vec![] });
        }
        Self::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Result<Self, ApiError> {
        if let Some(field) = card_data::find_in_json(bytes, NumericKeys::Checked) {
            return Err(card_number(&field));
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(object)) => Ok(Self { object, invalid: vec![] }),
            Ok(_) => Err(ApiError::fields(vec![json!({
                "type": "model_attributes_type",
                "loc": ["body"],
                "msg": "Input should be a valid dictionary or object to extract fields from",
            })])),
            Err(error) => Err(ApiError::fields(vec![json!({
                "type": "json_invalid",
                "loc": ["body", error.column()],
                "msg": "JSON decode error",
            })])),
        }
    }

    /// A required string.
    pub(crate) fn text(&mut self, name: &str) -> String {
        match self.object.remove(name) {
            Some(Value::String(text)) => return text,
            Some(_) => self.note(name, "string_type", "Input should be a valid string"),
            None => self.note(name, "missing", "Field required"),
        }
        String::new()
    }

    /// An optional string of at most this many characters.
    pub(crate) fn optional_text(&mut self, name: &str, characters_max: usize) -> Option<String> {
        match self.object.remove(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.chars().nth(characters_max).is_none() => {
                self.refuse_controls(name, &text);
                Some(text)
            }
            Some(Value::String(_)) => {
                let message = format!("String should have at most {characters_max} characters");
                self.note(name, "string_too_long", &message);
                None
            }
            Some(_) => {
                self.note(name, "string_type", "Input should be a valid string");
                None
            }
        }
    }

    /// Refuses control characters.
    pub(crate) fn refuse_controls(&mut self, name: &str, text: &str) {
        if text.chars().any(char::is_control) {
            let message = "Value error, Control characters are not allowed";
            self.note(name, "value_error", message);
        }
    }

    /// An optional string out of a set.
    pub(crate) fn choice(&mut self, name: &str, choices: &[&str]) -> Option<String> {
        let text = self.optional_text(name, 32)?;
        if !choices.contains(&text.as_str()) {
            let message = format!("String should match pattern '^({})$'", choices.join("|"));
            self.note(name, "string_pattern_mismatch", &message);
        }
        Some(text)
    }

    /// An optional boolean.
    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        match self.object.remove(name) {
            None | Some(Value::Null) => None,
            Some(Value::Bool(flag)) => Some(flag),
            Some(_) => {
                self.note(name, "bool_parsing", "Input should be a valid boolean");
                None
            }
        }
    }

    /// A required boolean.
    pub(crate) fn required_flag(&mut self, name: &str) -> Option<bool> {
        if self.object.get(name).is_none_or(Value::is_null) {
            self.note(name, "missing", "Field required");
        }
        self.flag(name)
    }

    /// Reports an invalid field, unless it is reported already: a missing field is not too short
    /// as well.
    pub(crate) fn note(&mut self, name: &str, kind: &str, message: &str) {
        if !self.is_wrong(name) {
            self.invalid.push(wrong_field(name, kind, message));
        }
    }

    /// Reports a broken rule, likewise.
    pub(crate) fn break_rule(&mut self, invalid: Invalid) {
        if !self.is_wrong(invalid.field()) {
            self.invalid.push(broken_rule(invalid));
        }
    }

    /// Whether a field is reported as invalid.
    pub(crate) fn is_wrong(&self, name: &str) -> bool {
        self.invalid.iter().any(|it| it["loc"][1] == name)
    }

    /// Ends reading.
    ///
    /// # Errors
    /// 422 with all invalid fields.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        if self.invalid.is_empty() { Ok(()) } else { Err(ApiError::fields(self.invalid)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_refused_except_in_passwords() {
        let check = |body: &[u8], is_right: bool| {
            let mut fields = Fields::of(body).ok().unwrap();
            fields.optional_text("company", 100);
            fields.text("password");
            assert_eq!(fields.finish().is_ok(), is_right, "{}", String::from_utf8_lossy(body));
        };
        check(br#"{"company":"a b","password":"p"}"#, true);
        check(br#"{"company":"a\u0000b","password":"p"}"#, false);
        check(br#"{"company":"a\nb","password":"p"}"#, false);
        check(br#"{"password":"a\u0000b"}"#, true);
    }
}
