//! Answers beside the OpenAPI document: each has a status, a media type and fields that its operation declares.

use serde_json::{Map, Value, json};

use super::row::Row;
use crate::client::Answer;

/// How much is shown of an error, which repeats the value.
const TEXT_CHARS_MAX: usize = 200;

/// The document, with each object closed: a field that it does not declare is a breach.
pub struct Declared(Value);

impl Declared {
    pub fn new(mut document: Value) -> Self {
        let schemas = document["components"]["schemas"].take();
        let closed = schemas.as_object().unwrap().iter();
        let closed = closed.map(|(name, schema)| (name.clone(), close(&schemas, schema, false)));
        document["components"]["schemas"] = Value::Object(closed.collect());
        let paths = document["paths"].take();
        document["paths"] = paths
            .as_object()
            .unwrap()
            .iter()
            .map(|(path, item)| (path.clone(), close_responses(&schemas, item)))
            .collect::<Map<_, _>>()
            .into();
        Self(document)
    }

    /// How an answer to the row's request breaks the declaration of its operation: by something undeclared or
    /// missing; `None` where it does not. Routes without an operation (FeatBit's streams, pages) declare nothing.
    pub fn breach(&self, row: &Row, answer: &Answer) -> Option<String> {
        let (method, path) = row.route.split_once(' ')?;
        let path = path.replace("{*", "{");
        let operation = self.0["paths"].get(&path)?.get(method.to_lowercase())?;
        let status = answer.status;
        let of_kind = format!("{}XX", status / 100);
        let declared = [status.to_string(), of_kind].into_iter();
        let Some(response) = declared.filter_map(|it| operation["responses"].get(it)).next() else {
            return Some(format!("{}: {status} is not declared", row.route));
        };
        let found = self.content_breach(response, row, answer)?;
        Some(format!("{}: {status}: {found}", row.route))
    }

    fn content_breach(&self, response: &Value, row: &Row, answer: &Answer) -> Option<String> {
        let Some(content) = response.get("content") else {
            return (!answer.body.is_empty()).then(|| "a body is not declared".to_owned());
        };
        // OpenAPI has no word for a body that may be missing: the description says so.
        let may_be_empty =
            response["description"].as_str().is_some_and(|it| it.contains("empty body"));
        if answer.body.is_empty() {
            return (!may_be_empty).then(|| "a body is declared, and there is none".to_owned());
        }
        let media_type = answer.header("content-type").unwrap_or("none").split(';').next()?;
        let Some(declared) = content.get(media_type) else {
            return Some(format!("{media_type} is not declared"));
        };
        if row.is_stream || !media_type.ends_with("json") {
            return None;
        }
        let schema = json!({ "allOf": [declared["schema"]], "components": self.0["components"] });
        let validator = jsonschema::draft202012::new(&schema).expect(row.route);
        let json = answer.json();
        let found = validator.iter_errors(&json).map(|it| {
            let text: String = it.to_string().chars().take(TEXT_CHARS_MAX).collect();
            format!("{}: {text}", it.instance_path())
        });
        found.reduce(|all, one| format!("{all}; {one}"))
    }
}

fn close_responses(schemas: &Value, item: &Value) -> Value {
    let mut item = item.clone();
    for operation in item.as_object_mut().unwrap().values_mut() {
        for response in operation["responses"].as_object_mut().unwrap().values_mut() {
            let contents = response.get_mut("content").and_then(Value::as_object_mut);
            for content in contents.into_iter().flat_map(Map::values_mut) {
                content["schema"] = close(schemas, &content["schema"], false);
            }
        }
    }
    item
}

/// A schema whose objects have no other fields than declared ones. What is part of another schema is open: the
/// whole is closed.
fn close(schemas: &Value, schema: &Value, is_part: bool) -> Value {
    if let (Some(name), true) = (schema["$ref"].as_str(), is_part) {
        return close(schemas, &schemas[name.rsplit('/').next().unwrap()], true);
    }
    let Value::Object(keywords) = schema else { return schema.clone() };
    let is_object = keywords.contains_key("properties") || keywords.contains_key("allOf");
    let each = |them: &Value, is_part| match them.as_array() {
        Some(them) => them.iter().map(|it| close(schemas, it, is_part)).collect(),
        None => close(schemas, them, is_part),
    };
    let mut closed: Map<_, _> = keywords
        .iter()
        .map(|(keyword, value)| {
            let value = match (keyword.as_str(), value) {
                ("properties", Value::Object(fields)) => fields
                    .iter()
                    .map(|(name, it)| (name.clone(), close(schemas, it, false)))
                    .collect::<Map<_, _>>()
                    .into(),
                ("items" | "additionalProperties" | "prefixItems", them) => each(them, false),
                ("allOf", them) => each(them, true),
                ("oneOf" | "anyOf", them) => each(them, is_part || is_object),
                (_, value) => value.clone(),
            };
            (keyword.clone(), value)
        })
        .collect();
    if is_object && !is_part && !closed.contains_key("additionalProperties") {
        closed.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
    }
    Value::Object(closed)
}
