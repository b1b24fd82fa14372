//! Evaluation contexts as users: the targeting key is the user's, `name` its name, and all else are
//! its properties.
//!
//! Properties are texts. What is not becomes the text that it is in JSON: `18` is "18", `true` is
//! "true", and lists and objects are as they were written. `null` is a property without a value.

use std::borrow::Cow;
use std::fmt;

use evaluation::{Property, User};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::user::{self, Text};

/// What is wrong with a request, by OpenFeature's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It is not JSON, or no object.
    Parse,
    /// There is no targeting key.
    TargetingKeyMissing,
    /// The context is none.
    InvalidContext,
}

impl Wrong {
    /// The code and what it means here.
    pub(crate) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Parse => ("PARSE_ERROR", "a JSON object was expected"),
            Self::TargetingKeyMissing => ("TARGETING_KEY_MISSING", "targetingKey is missing"),
            Self::InvalidContext => {
                ("INVALID_CONTEXT", "the context is an object, and targetingKey a string")
            }
        }
    }
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    context: Option<&'a RawValue>,
}

/// The user of a request.
pub(crate) fn user(body: &[u8]) -> Result<User, Wrong> {
    let request: Request<'_> = serde_json::from_slice(body).map_err(|_| Wrong::Parse)?;
    let context = request.context.ok_or(Wrong::TargetingKeyMissing)?;
    let context: Context<'_> =
        serde_json::from_str(context.get()).map_err(|_| Wrong::InvalidContext)?;
    let key = match context.key {
        None => return Err(Wrong::TargetingKeyMissing),
        Some(key) if !key.get().starts_with('"') => return Err(Wrong::InvalidContext),
        Some(key) => user::text(key).unwrap_or_default().into_owned(),
    };
    if key.trim().is_empty() {
        return Err(Wrong::TargetingKeyMissing);
    }
    Ok(User { key_id: key, ..context.user })
}

struct Context<'a> {
    key: Option<&'a RawValue>,
    /// All but the key.
    user: User,
}

impl<'de: 'a, 'a> Deserialize<'de> for Context<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Context<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Context<'de>, M::Error> {
        let mut context = Context { key: None, user: User::default() };
        while let Some(Text(name)) = members.next_key()? {
            let value: &RawValue = members.next_value()?;
            match &*name {
                "targetingKey" => context.key = Some(value).filter(|it| it.get() != "null"),
                "name" => context.user.name = user::text(value).map(Cow::into_owned),
                _ => context.user.customized_properties.push(Property {
                    name: name.into_owned(),
                    value: user::text(value).map(Cow::into_owned),
                }),
            }
        }
        Ok(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn property(name: &str, value: Option<&str>) -> Property {
        Property { name: name.to_owned(), value: value.map(str::to_owned) }
    }

    #[test]
    fn members_of_a_context_are_properties() {
        let body = r#" {"context": {"age": 18, "big": 1.50e3, "name": "A\u0301nn", "isMember": true,
            "tags": ["a", 1], "plan": {"of": null}, "gone": null, "l\u00e4nd": "\"d\"",
            "targetingKey": "ann", "name ": "x"}, "more": 7} "#;
        let user = user(body.as_bytes()).unwrap();
        assert_eq!((user.key_id.as_str(), user.name.as_deref()), ("ann", Some("A\u{301}nn")));
        let expected = [
            property("age", Some("18")),
            property("big", Some("1.50e3")),
            property("isMember", Some("true")),
            property("tags", Some("[\"a\", 1]")),
            property("plan", Some("{\"of\": null}")),
            property("gone", None),
            property("l\u{e4}nd", Some("\"d\"")),
            property("name ", Some("x")),
        ];
        assert_eq!(user.customized_properties, expected);
    }

    #[test]
    fn contexts_that_are_none() {
        for (body, wrong) in [
            ("", Wrong::Parse),
            ("{", Wrong::Parse),
            ("[]", Wrong::Parse),
            ("7", Wrong::Parse),
            ("{} x", Wrong::Parse),
            ("{\"context\": \"\u{1}\"}", Wrong::Parse),
            ("{}", Wrong::TargetingKeyMissing),
            (r#"{"context": null}"#, Wrong::TargetingKeyMissing),
            (r#"{"context": {}}"#, Wrong::TargetingKeyMissing),
            (r#"{"context": {"targetingKey": null}}"#, Wrong::TargetingKeyMissing),
            (r#"{"context": {"targetingKey": " "}}"#, Wrong::TargetingKeyMissing),
            (r#"{"context": {"targetingKey": 7}}"#, Wrong::InvalidContext),
            (r#"{"context": {"targetingKey": {}}}"#, Wrong::InvalidContext),
            (r#"{"context": []}"#, Wrong::InvalidContext),
            (r#"{"context": "ann"}"#, Wrong::InvalidContext),
        ] {
            assert_eq!(user(body.as_bytes()).unwrap_err(), wrong, "{body}");
        }
        let deep = format!("{{\"context\": {{\"a\": {}1", "[".repeat(10_000));
        assert_eq!(user(deep.as_bytes()).unwrap_err(), Wrong::Parse);
    }
}
