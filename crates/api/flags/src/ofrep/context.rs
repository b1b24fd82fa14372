//! Evaluation contexts as users: the targeting key is the user's key, `name` its name, and all other
//! members are its properties.
//!
//! Properties are texts. Other values become their JSON text: `18` is "18", `true` is "true", and
//! lists and objects stay as they are written. `null` is a property without a value.

use std::borrow::Cow;
use std::fmt;

use evaluation::{Property, User, attribute_text};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::user::Text;

/// Why a request is invalid, by OpenFeature's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidRequest {
    /// It is no JSON object.
    Parse,
    /// The targeting key is missing.
    TargetingKeyMissing,
    /// The context is no object, or its targeting key no text.
    InvalidContext,
}

impl InvalidRequest {
    pub(crate) const fn code_and_details(self) -> (&'static str, &'static str) {
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
pub(crate) fn user(body: &[u8]) -> Result<User, InvalidRequest> {
    let request: Request<'_> = serde_json::from_slice(body).map_err(|_| InvalidRequest::Parse)?;
    let context = request.context.ok_or(InvalidRequest::TargetingKeyMissing)?;
    let context: Context<'_> =
        serde_json::from_str(context.get()).map_err(|_| InvalidRequest::InvalidContext)?;
    let key = match context.key {
        None => return Err(InvalidRequest::TargetingKeyMissing),
        Some(key) if !key.get().starts_with('"') => return Err(InvalidRequest::InvalidContext),
        Some(key) => attribute_text(key).unwrap_or_default().into_owned(),
    };
    if key.trim().is_empty() {
        return Err(InvalidRequest::TargetingKeyMissing);
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
                "name" => context.user.name = attribute_text(value).map(Cow::into_owned),
                _ => context.user.customized_properties.push(Property {
                    name: name.into_owned(),
                    value: attribute_text(value).map(Cow::into_owned),
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
    fn members_of_a_context_become_properties() {
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
    fn invalid_contexts_are_refused() {
        for (body, error) in [
            ("", InvalidRequest::Parse),
            ("{", InvalidRequest::Parse),
            ("[]", InvalidRequest::Parse),
            ("7", InvalidRequest::Parse),
            ("{} x", InvalidRequest::Parse),
            ("{\"context\": \"\u{1}\"}", InvalidRequest::Parse),
            ("{}", InvalidRequest::TargetingKeyMissing),
            (r#"{"context": null}"#, InvalidRequest::TargetingKeyMissing),
            (r#"{"context": {}}"#, InvalidRequest::TargetingKeyMissing),
            (r#"{"context": {"targetingKey": null}}"#, InvalidRequest::TargetingKeyMissing),
            (r#"{"context": {"targetingKey": " "}}"#, InvalidRequest::TargetingKeyMissing),
            (r#"{"context": {"targetingKey": 7}}"#, InvalidRequest::InvalidContext),
            (r#"{"context": {"targetingKey": {}}}"#, InvalidRequest::InvalidContext),
            (r#"{"context": []}"#, InvalidRequest::InvalidContext),
            (r#"{"context": "ann"}"#, InvalidRequest::InvalidContext),
        ] {
            assert_eq!(user(body.as_bytes()).unwrap_err(), error, "{body}");
        }
        let deep = format!("{{\"context\": {{\"a\": {}1", "[".repeat(10_000));
        assert_eq!(user(deep.as_bytes()).unwrap_err(), InvalidRequest::Parse);
    }
}
