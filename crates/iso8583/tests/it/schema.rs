//! Tests of the JSON Schema of descriptions: it accepts the same keys and values as the library.
#![expect(clippy::unwrap_used, reason = "whatever is missing here fails the test")]

use std::collections::BTreeSet;
use std::path::Path;

use iso8583::{DescriptionError, Packager};
use serde_json::{Value, json};

#[test]
fn built_in_descriptions_are_valid() {
    let schema = schema();
    for name in Packager::built_in_names() {
        let described = Packager::built_in(name).unwrap().description_json();
        let described: Value = serde_json::from_str(&described).unwrap();
        assert_eq!(schema_error(&schema, &schema, &described), None, "{name}");
    }
}

#[test]
fn invalid_descriptions_are_not_valid() {
    let schema = schema();
    let field = |field: Value| json!({"fields": {"2": field}});
    for description in [
        json!({"fields": {"2": {}}}),
        json!({"colour": "red"}),
        json!({"fields": {"x": {"content": "text"}}}),
        json!({"fields": {"02": {"content": "text"}}}),
        json!({"fields": {"1000": {"content": "text"}}}),
        json!({"form": "yaml"}),
        json!({"header_bytes": -1}),
        field(json!({"content": "letters"})),
        field(json!({"content": "text", "length": 1_000_000})),
        field(json!({"content": "text", "prefix": {"coding": "bcd", "digits": 7}})),
        field(json!({"content": "text", "tag": {}})),
        field(json!({"content": "bytes", "inside": {"fields": {"1": {"content": "x"}}}})),
        field(json!({"content": "text", "sensitive": "yes"})),
    ] {
        assert!(schema_error(&schema, &schema, &description).is_some(), "valid: {description}");
        let error = Packager::from_json(&description.to_string()).map(drop).unwrap_err();
        assert!(matches!(error, DescriptionError::Unreadable { .. }), "{description}: {error}");
    }
}

#[test]
fn keys_and_values_equal_those_of_the_library() {
    let schema = schema();
    let field = |inner: Value| json!({"fields": {"2": inner}});
    for (pointer, description) in [
        ("", json!({"?": 1})),
        ("/$defs/field", field(json!({"?": 1}))),
        ("/$defs/field/properties/inside", field(json!({"content": "text", "inside": {"?": 1}}))),
        ("/$defs/prefix", field(json!({"content": "text", "prefix": {"?": 1}}))),
        ("/$defs/tag", field(json!({"content": "text", "tag": {"?": 1}}))),
    ] {
        let object = schema.pointer(&format!("{pointer}/properties")).unwrap().as_object().unwrap();
        assert_eq!(object.keys().cloned().collect::<BTreeSet<_>>(), expected(&description));
    }
    for (pointer, description) in [
        ("/properties/form", json!({"form": "?"})),
        ("/$defs/field/properties/content", field(json!({"content": "?"}))),
        ("/$defs/field/properties/coding", field(json!({"content": "text", "coding": "?"}))),
        ("/$defs/field/properties/pad", field(json!({"content": "text", "pad": "?"}))),
        ("/$defs/numeral", field(json!({"content": "text", "prefix": {"coding": "?"}}))),
        (
            "/$defs/prefix/properties/counts",
            field(json!({"content": "text", "prefix": {"counts": "?"}})),
        ),
    ] {
        let values = schema.pointer(&format!("{pointer}/enum")).unwrap().as_array().unwrap();
        let values: BTreeSet<_> = values.iter().map(|it| it.as_str().unwrap().to_owned()).collect();
        assert_eq!(values, expected(&description));
    }
}

/// The keys or values that the library expects in place of `?`, from its error text.
fn expected(description: &Value) -> BTreeSet<String> {
    let error = Packager::from_json(&description.to_string()).unwrap_err().to_string();
    let (_, expected) = error.split_once("expected").unwrap();
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/packager.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Why a value is invalid, with the subset of JSON Schema that the schema uses.
fn schema_error(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    let mut found = None;
    let mut fail = |what: &str| found = Some(format!("{what}: {value}"));
    for (keyword, operand) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$ref" => {
                let target =
                    root.pointer(operand.as_str().unwrap().trim_start_matches('#')).unwrap();
                if let Some(what) = schema_error(root, target, value) {
                    return Some(what);
                }
            }
            "type" => {
                let is_valid = match operand.as_str().unwrap() {
                    "object" => value.is_object(),
                    "string" => value.is_string(),
                    "integer" => value.is_i64(),
                    "boolean" => value.is_boolean(),
                    other => panic!("the test does not know the type {other}"),
                };
                if !is_valid {
                    fail("type");
                }
            }
            "enum" if !operand.as_array().unwrap().contains(value) => fail("enum"),
            "minimum" if value.as_i64() < operand.as_i64() => fail("minimum"),
            "maximum" if value.as_i64() > operand.as_i64() => fail("maximum"),
            "required"
                if operand
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|it| value[it.as_str().unwrap()].is_null()) =>
            {
                fail("required");
            }
            "enum"
            | "minimum"
            | "maximum"
            | "required"
            | "properties"
            | "patternProperties"
            | "additionalProperties"
            | "$defs"
            | "$schema"
            | "title"
            | "description"
            | "default" => {}
            other => panic!("the test does not know the keyword {other}"),
        }
    }
    found.or_else(|| {
        let mut members = value.as_object().into_iter().flatten();
        members.find_map(|(key, member)| member_error(root, schema, key, member))
    })
}

fn member_error(root: &Value, schema: &Value, key: &str, member: &Value) -> Option<String> {
    if let Some(inner) = schema["properties"].get(key) {
        return schema_error(root, inner, member);
    }
    if let Some(patterns) = schema["patternProperties"].as_object() {
        // The only pattern: numbers up to 999.
        assert_eq!(patterns.keys().collect::<Vec<_>>(), ["^(0|[1-9][0-9]{0,2})$"]);
        let number = key.parse::<u16>().ok().filter(|it| *it <= 999 && it.to_string() == key);
        if number.is_some() {
            return patterns.values().find_map(|inner| schema_error(root, inner, member));
        }
    }
    (schema["additionalProperties"] == false).then(|| format!("the key {key}"))
}
