//! Users in the SDKs' JSON.

use std::borrow::Cow;

use evaluation::{Property, User, attribute_text};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A user in a message. A value that is no text (a number, `true`) counts as its JSON text.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentUser<'a> {
    #[serde(borrow)]
    key_id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    customized_properties: Option<Vec<SentProperty<'a>>>,
}

#[derive(Debug, Deserialize)]
struct SentProperty<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_empty")]
    name: Cow<'a, str>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

impl SentUser<'_> {
    /// Whether it has a key.
    pub(crate) fn has_key(&self) -> bool {
        self.key().is_some()
    }

    fn key(&self) -> Option<Cow<'_, str>> {
        self.key_id.and_then(attribute_text).filter(|key| !key.trim().is_empty())
    }

    /// The user; none without a key.
    pub(crate) fn read(&self) -> Option<User> {
        let key_id = self.key()?.into_owned();
        let properties = self.customized_properties.iter().flatten();
        let properties = properties.map(|it| Property {
            name: it.name.as_ref().into(),
            value: it.value.and_then(attribute_text).map(Cow::into_owned),
        });
        Some(User {
            key_id,
            name: self.name.and_then(attribute_text).map(Cow::into_owned),
            customized_properties: properties.collect(),
            ..User::default()
        })
    }
}

/// A text, borrowed where it has no escapes.
#[derive(Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

fn text_or_empty<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Cow<'a, str>, D::Error> {
    let value: Option<&'de RawValue> = Option::deserialize(from)?;
    Ok(value.and_then(attribute_text).unwrap_or_default())
}
