//! Fields as JSON: `{"0":"0200","48.1":"07","52":{"bin":"1122334455667788"}}`.

use anyhow::Context as _;
use iso8583::{FieldPath, Index, Message, MessageView};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::input::{hex, to_hex};

/// Values by names, in the order of the fields.
#[derive(Default)]
pub struct Object(pub Vec<(String, Value)>);

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// All fields, unmasked.
pub fn revealed(view: MessageView<'_>) -> Object {
    let mut fields = Object::default();
    collect("", view, &mut fields);
    fields
}

/// All fields; masked ones are `{"masked":"476173******0119"}`, so that a mask is not mistaken for
/// a value.
pub fn masked(view: MessageView<'_>) -> Object {
    let mut fields = revealed(view);
    let shown = view.texts().into_iter().zip(view.revealed().texts());
    for ((_, value), ((_, shown), (_, whole))) in fields.0.iter_mut().zip(shown) {
        if shown != whole {
            *value = json!({ "masked": shown });
        }
    }
    fields
}

/// The third bitmap is `{"bitmap":"4000000000000000"}` in the field that carries it.
fn collect(prefix: &str, view: MessageView<'_>, out: &mut Object) {
    let mut third = view.third_bitmap();
    let bitmap = |(number, bits): (u16, [u8; 8])| {
        (format!("{prefix}{number}"), json!({ "bitmap": to_hex(&bits) }))
    };
    for field in view.fields() {
        out.0.extend(third.take_if(|(number, _)| *number < field.number()).map(bitmap));
        let path = format!("{prefix}{}", field.number());
        let mut index = Index::new();
        if let (true, Ok(inner)) = (field.is_composite(), field.nested(&mut index)) {
            collect(&format!("{path}."), inner, out);
            continue;
        }
        let value = match field.is_binary() {
            true => json!({ "bin": to_hex(&field.to_bytes()) }),
            false => Value::String(field.text()),
        };
        out.0.push((path, value));
    }
    out.0.extend(third.map(bitmap));
}

/// A value to set.
pub enum FieldValue {
    Text(String),
    Bytes(Vec<u8>),
}

/// Fields with their paths, in the order of these.
pub type Values = Vec<(FieldPath, FieldValue)>;

/// Parses fields; nested ones may be objects or have paths.
///
/// # Errors
/// If a path or a value is malformed, or a value is masked.
pub fn values(fields: &Map<String, Value>) -> anyhow::Result<Values> {
    let mut values = vec![];
    flatten("", fields, &mut values)?;
    values.sort_by_key(|(path, _)| *path);
    Ok(values)
}

fn flatten(prefix: &str, fields: &Map<String, Value>, out: &mut Values) -> anyhow::Result<()> {
    for (name, value) in fields {
        let path = format!("{prefix}{name}");
        let read = || path.parse::<FieldPath>().with_context(|| format!("field `{path}`"));
        match (value.as_str(), value.as_object()) {
            (Some(text), _) => out.push((read()?, FieldValue::Text(text.to_owned()))),
            (None, Some(object)) if object.contains_key("masked") => {
                anyhow::bail!("field {path} is masked: decode with --reveal")
            }
            // It follows from the fields.
            (None, Some(object)) if object.contains_key("bitmap") => {}
            (None, Some(object)) => match object.get("bin") {
                Some(bin) => {
                    let bytes = bin.as_str().and_then(|text| hex(text.as_bytes()));
                    let bytes = bytes.with_context(|| format!("field {path}: `bin` is no hex"))?;
                    out.push((read()?, FieldValue::Bytes(bytes)));
                }
                None => flatten(&format!("{path}."), object, out)?,
            },
            (None, None) => anyhow::bail!("field {path} is neither a text nor an object"),
        }
    }
    Ok(())
}

/// Sets all of them.
///
/// # Errors
/// As [`Message::set`].
pub fn set(message: &mut Message, values: &Values) -> Result<(), iso8583::Error> {
    for (path, value) in values {
        match value {
            FieldValue::Text(text) => message.set(*path, text)?,
            FieldValue::Bytes(bytes) => message.set_bytes(*path, bytes)?,
        }
    }
    Ok(())
}
