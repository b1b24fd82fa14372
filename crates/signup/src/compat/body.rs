//! Bodies as the contract has them: a JSON object whose wrong fields are all told at once.

use axum::body::Body;
use serde_json::{Map, Value, json};

use super::error::{Failure, wrong};

/// A body's fields, and what was wrong with those that were read.
pub(super) struct Fields {
    object: Map<String, Value>,
    wrong: Vec<Value>,
}

impl Fields {
    /// Reads a body, all of it.
    ///
    /// # Errors
    /// [`crate::body::BodyError`]; 422 where it is no JSON object.
    pub(super) async fn read(body: Body) -> Result<Self, Failure> {
        Self::of(&crate::body::read(body).await?)
    }

    /// The same of a body that need not be there: without one there are no fields.
    ///
    /// # Errors
    /// As [`Fields::read`].
    pub(super) async fn read_if_any(body: Body) -> Result<Self, Failure> {
        let bytes = crate::body::read(body).await?;
        if bytes.is_empty() {
            return Ok(Self { object: Map::new(), wrong: vec![] });
        }
        Self::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Result<Self, Failure> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(object)) => Ok(Self { object, wrong: vec![] }),
            Ok(_) => Err(Failure::fields(vec![json!({
                "type": "model_attributes_type",
                "loc": ["body"],
                "msg": "Input should be a valid dictionary or object to extract fields from",
            })])),
            Err(error) => Err(Failure::fields(vec![json!({
                "type": "json_invalid",
                "loc": ["body", error.column()],
                "msg": "JSON decode error",
            })])),
        }
    }

    /// A text that must be there.
    pub(super) fn text(&mut self, name: &str) -> String {
        match self.object.remove(name) {
            Some(Value::String(text)) => return text,
            Some(_) => self.note(name, "string_type", "Input should be a valid string"),
            None => self.note(name, "missing", "Field required"),
        }
        String::new()
    }

    /// A text that need not be there, of at most so many characters.
    pub(super) fn optional_text(&mut self, name: &str, characters_max: usize) -> Option<String> {
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

    /// Notes a text with characters that nobody sees: they are in no name, and in no database's text.
    pub(super) fn refuse_controls(&mut self, name: &str, text: &str) {
        if text.chars().any(char::is_control) {
            let message = "Value error, Control characters are not allowed";
            self.note(name, "value_error", message);
        }
    }

    /// One of some texts, or nothing.
    pub(super) fn choice(&mut self, name: &str, choices: &[&str]) -> Option<String> {
        let text = self.optional_text(name, 32)?;
        if !choices.contains(&text.as_str()) {
            let message = format!("String should match pattern '^({})$'", choices.join("|"));
            self.note(name, "string_pattern_mismatch", &message);
        }
        Some(text)
    }

    /// True or false; `None` where it is not there.
    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        match self.object.remove(name) {
            None | Some(Value::Null) => None,
            Some(Value::Bool(flag)) => Some(flag),
            Some(_) => {
                self.note(name, "bool_parsing", "Input should be a valid boolean");
                None
            }
        }
    }

    /// True or false, which must be there.
    pub(super) fn required_flag(&mut self, name: &str) -> Option<bool> {
        if self.object.get(name).is_none_or(Value::is_null) {
            self.note(name, "missing", "Field required");
        }
        self.flag(name)
    }

    /// Something else is wrong with a field. Nothing is noted of one that is known to be wrong: what
    /// is missing is not too short besides.
    pub(super) fn note(&mut self, name: &str, kind: &str, message: &str) {
        if !self.is_wrong(name) {
            self.wrong.push(wrong(name, kind, message));
        }
    }

    /// The same of a rule of ours.
    pub(super) fn break_rule(&mut self, invalid: crate::Invalid) {
        if !self.is_wrong(invalid.field()) {
            self.wrong.push(super::error::broken(invalid));
        }
    }

    /// Whether something is known to be wrong with a field.
    pub(super) fn is_wrong(&self, name: &str) -> bool {
        self.wrong.iter().any(|it| it["loc"][1] == name)
    }

    /// Goes on where nothing was wrong.
    ///
    /// # Errors
    /// 422 with everything that was.
    pub(super) fn finish(self) -> Result<(), Failure> {
        if self.wrong.is_empty() { Ok(()) } else { Err(Failure::fields(self.wrong)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_no_control_characters_and_passwords_may() {
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
