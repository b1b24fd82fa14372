//! JSON bodies are read strictly; what is wrong is named by its field.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::error::Error;

/// How much of a field's name is repeated, in characters.
const NAME_CHARS_MAX: usize = 64;

/// Whether a refusal may repeat a value of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    Shown,
    /// It may be a password.
    Hidden,
}

/// Reads a body.
///
/// # Errors
/// [`Error::InvalidParameter`] with the field, such as `lasts.days`, or `body` where it is none of them.
pub fn read<T: DeserializeOwned>(bytes: &[u8], values: Values) -> Result<T, Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut deserializer);
    let read = read.map_err(|error| refused(&error, values))?;
    deserializer.end().map_err(|error| no_json(&error, values))?;
    Ok(read)
}

fn refused(error: &serde_path_to_error::Error<serde_json::Error>, values: Values) -> Error {
    let inner = error.inner();
    if !inner.is_data() {
        return no_json(inner, values);
    }
    let text = inner.to_string();
    let path = error.path().to_string();
    let named = |prefix: &str| {
        let name = text.strip_prefix(prefix)?.split('`').next()?;
        Some(name.chars().take(NAME_CHARS_MAX).collect::<String>())
    };
    let within = |name: String| match path.strip_suffix(&name).unwrap_or(&path) {
        "." | "" => name,
        path => format!("{}.{name}", path.trim_end_matches('.')),
    };
    let (field, reason) = if let Some(name) = named("missing field `") {
        (within(name), "needs to be set")
    } else if let Some(name) = named("unknown field `") {
        (within(name), "there is no such field")
    } else if path == "." || path.starts_with('[') {
        ("body".to_owned(), shown(&text, "is not the JSON that was expected", values))
    } else {
        let field = path.chars().take(NAME_CHARS_MAX).collect();
        if values == Values::Shown
            && let Some(reason) = quoted(&text)
        {
            return Error::InvalidParameter { field: Cow::Owned(field), reason };
        }
        (field, shown(&text, "is of another type than expected", values))
    };
    Error::InvalidParameter { field: field.into(), reason: reason.to_owned() }
}

/// The reason to refuse a number in place of a text: an amount is a text, so that no digit of it is lost.
fn quoted(text: &str) -> Option<String> {
    let (of, expected) = text.strip_prefix("invalid type: ")?.split_once(", expected a string")?;
    let number = ["integer `", "floating point `"].iter().find_map(|it| of.strip_prefix(it))?;
    let number = number.strip_suffix('`').filter(|_| expected.starts_with(" at "))?;
    Some(format!("is the number {number}; a text was expected, such as \"{number}\""))
}

fn no_json(error: &serde_json::Error, values: Values) -> Error {
    let text = error.to_string();
    let reason = shown(&text, "is no JSON", values).to_owned();
    Error::InvalidParameter { field: "body".into(), reason }
}

const fn shown<'a>(with_value: &'a str, without: &'a str, values: Values) -> &'a str {
    match values {
        Values::Shown => with_value,
        Values::Hidden => without,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsing is tested")]
    struct Outer {
        password: String,
        inner: Option<Inner>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsing is tested")]
    struct Inner {
        url: String,
    }

    fn check(text: &str, expected: Expect) {
        let read = read::<Outer>(text.as_bytes(), Values::Hidden);
        expected.assert_eq(&read.err().unwrap().to_string());
    }

    #[test]
    fn a_refusal_names_the_field_and_does_not_repeat_its_value() {
        check("", expect!["body: is no JSON"]);
        check("{\"password\": ", expect!["body: is no JSON"]);
        check("[]", expect!["body: is not the JSON that was expected"]);
        check("{}", expect!["password: needs to be set"]);
        check(
            r#"{"password":{"secret":1}}"#,
            expect!["password: is of another type than expected"],
        );
        check(r#"{"password":12345678}"#, expect!["password: is of another type than expected"]);
        check(r#"{"password":"p","colour":1}"#, expect!["colour: there is no such field"]);
        check(r#"{"password":"p","inner":{}}"#, expect!["inner.url: needs to be set"]);
        check(r#"{"password":"p","inner":{"x":1}}"#, expect!["inner.x: there is no such field"]);
        check(r#"{"password":"p","inner":7}"#, expect!["inner: is of another type than expected"]);
    }

    #[test]
    fn a_value_is_shown_where_it_is_no_secret() {
        let text = br#"{"password":"p","inner":{"url":7}}"#;
        let refused = read::<Outer>(text, Values::Shown).err().unwrap().to_string();
        expect![[r#"inner.url: is the number 7; a text was expected, such as "7""#]]
            .assert_eq(&refused);
        let text = br#"{"password":9.99}"#;
        let refused = read::<Outer>(text, Values::Shown).err().unwrap().to_string();
        expect![[r#"password: is the number 9.99; a text was expected, such as "9.99""#]]
            .assert_eq(&refused);
        let text = br#"{"password":"p","inner":7}"#;
        let refused = read::<Outer>(text, Values::Shown).err().unwrap().to_string();
        expect!["inner: invalid type: integer `7`, expected struct Inner at line 1 column 25"]
            .assert_eq(&refused);
    }
}
