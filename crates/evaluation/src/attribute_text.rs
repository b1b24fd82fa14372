//! Values of attributes in JSON as the texts that conditions test.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A value as text: a text without its quotes, none for `null`, and all else as it is written: `18` is "18", `true`
/// is "true", and lists and objects are their JSON.
#[must_use]
pub fn attribute_text(value: &RawValue) -> Option<Cow<'_, str>> {
    match value.get() {
        "null" => None,
        json if json.starts_with('"') => serde_json::from_str::<Text<'_>>(json).ok().map(|it| it.0),
        json => Some(Cow::Borrowed(json)),
    }
}

/// A text, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a field of JSON by [`attribute_text`].
pub(crate) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let value: Option<Box<RawValue>> = Option::deserialize(from)?;
    Ok(value.as_deref().and_then(attribute_text).map(Cow::into_owned))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::model::{Property, User};

    #[test]
    fn all_values_of_json_are_attributes() {
        let body = r#"{"keyId": "ann", "name": 7, "customizedProperties": [
            {"name": "age", "value": 18}, {"name": "big", "value": 1.50e3},
            {"name": "isMember", "value": true}, {"name": "tags", "value": ["a", 1]},
            {"name": "plan", "value": {"of": null}}, {"name": "gone", "value": null},
            {"name": "text", "value": "\"d\""}, {"name": "none"}]}"#;
        let user: User = serde_json::from_str(body).unwrap();
        let property = |name: &str, value: Option<&str>| Property {
            name: name.to_owned(),
            value: value.map(str::to_owned),
        };
        let expected = [
            property("age", Some("18")),
            property("big", Some("1.50e3")),
            property("isMember", Some("true")),
            property("tags", Some("[\"a\", 1]")),
            property("plan", Some("{\"of\": null}")),
            property("gone", None),
            property("text", Some("\"d\"")),
            property("none", None),
        ];
        assert_eq!(
            (user.name.as_deref(), &*user.customized_properties),
            (Some("7"), &expected[..])
        );
        let again: Value = serde_json::to_value(&user).unwrap();
        assert_eq!(serde_json::from_value::<User>(again).unwrap(), user);
        let value = json!({ "name": "n", "value": [1, "a"] });
        let property: Property = serde_json::from_value(value).unwrap();
        assert_eq!(property.value.as_deref(), Some("[1,\"a\"]"));
    }
}
