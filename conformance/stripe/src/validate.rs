//! Requests, answers and events against Stripe's own OpenAPI document.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::error::ApiError;
use crate::fake::Answer;
use crate::params::Params;

const VIOLATIONS_MAX: usize = 100;
const FORM: &str = "application/x-www-form-urlencoded";

/// The document, and what violated it so far.
pub struct Spec {
    document: Value,
    pub violations: Vec<String>,
}

impl Spec {
    pub fn read(path: &Path) -> Result<Spec, Box<dyn std::error::Error>> {
        let document = serde_json::from_slice(&std::fs::read(path)?)?;
        Ok(Spec { document, violations: Vec::new() })
    }

    /// The refusal of a request that Stripe's document does not take.
    pub fn check_request(&self, method: &str, path: &str, params: &Params) -> Option<ApiError> {
        if path.starts_with("/_fake/") {
            return None;
        }
        let Some(operation) = self.operation(method, path) else {
            return Some(ApiError::no_route(method, path));
        };
        let sent = Sent::of(params);
        let found = if method == "POST" {
            self.check_param(&operation["requestBody"]["content"][FORM]["schema"], &sent, "")
        } else {
            self.check_query(operation, &sent)
        };
        found.map(|(param, message)| ApiError::invalid(&param, message).coded("parameter_unknown"))
    }

    fn check_query(&self, operation: &Value, sent: &Sent) -> Option<Refused> {
        let Sent::Nested(sent) = sent else { return None };
        let known = operation["parameters"].as_array()?;
        sent.iter().find_map(|(name, value)| {
            let of_query =
                known.iter().find(|it| it["in"] == "query" && it["name"] == name.as_str());
            match of_query {
                Some(parameter) => self.check_param(&parameter["schema"], value, name),
                None => Some((name.clone(), format!("Received unknown parameter: {name}"))),
            }
        })
    }

    pub fn check_answer(&mut self, method: &str, path: &str, answer: &Answer) {
        if path.starts_with("/_fake/") {
            return;
        }
        let status = if answer.status == 200 { "200" } else { "default" };
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let found = match self.operation(method, path) {
            Some(operation) => {
                let schema =
                    &operation["responses"][status]["content"]["application/json"]["schema"];
                self.check(schema, &value, "answer")
            }
            // Only a refusal has no route.
            None if answer.status == 404 => None,
            None => Some("the document has no such route".to_owned()),
        };
        self.report(format!("{method} {path} {}", answer.status), found);
    }

    /// An event, and the object in it, whose schema is the one of its kind.
    pub fn check_event(&mut self, event: &Value) {
        let schemas = &self.document["components"]["schemas"];
        let object = &event["data"]["object"];
        let kind = object["object"].as_str().unwrap_or_default();
        let of_event = self.check(&schemas["event"], event, "event");
        let found = of_event.or_else(|| self.check(&schemas[kind], object, "event.data.object"));
        self.report(format!("event {}", event["type"]), found);
    }

    fn report(&mut self, what: String, found: Option<String>) {
        let Some(found) = found else { return };
        eprintln!("{what} violates Stripe's document: {found}");
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(format!("{what}: {found}"));
        }
    }

    /// The operation of a path; a template without parameters comes before one with them.
    fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        let paths = self.document["paths"].as_object()?;
        let fitting = paths.iter().filter(|(template, _)| fits(template, path));
        let (_, operations) = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
        operations.get(method.to_ascii_lowercase())
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let Some(reference) = schema["$ref"].as_str() else { return schema };
        let name = reference.rsplit('/').next().unwrap_or_default();
        &self.document["components"]["schemas"][name]
    }

    /// The first violation, with its place.
    fn check(&self, schema: &Value, value: &Value, at: &str) -> Option<String> {
        let schema = self.resolved(schema);
        if !schema.is_object() {
            return Some(format!("{at}: the document has no schema for it"));
        }
        if value.is_null() {
            let allowed = schema["nullable"] == true;
            return (!allowed).then(|| format!("{at}: null"));
        }
        if let Some(branches) = schema["anyOf"].as_array() {
            return self.check_any(branches, value, at);
        }
        let known = schema["enum"].as_array();
        if known.is_some_and(|it| !it.contains(value)) {
            return Some(format!("{at}: {value} is not one of its values"));
        }
        match (schema["type"].as_str(), value) {
            (Some("string"), Value::String(text)) => {
                let max = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
                let chars = text.chars().count() as u64;
                (chars > max).then(|| format!("{at}: {chars} characters, and {max} at most"))
            }
            (Some("integer"), Value::Number(it)) if it.is_i64() => None,
            (Some("number"), Value::Number(_)) | (Some("boolean"), Value::Bool(_)) => None,
            (Some("array"), Value::Array(items)) => {
                let mut each = items.iter().enumerate();
                each.find_map(|(n, it)| self.check(&schema["items"], it, &format!("{at}[{n}]")))
            }
            (Some("object"), Value::Object(_)) => self.check_object(schema, value, at),
            (expected, _) => {
                Some(format!("{at}: {value} is no {}", expected.unwrap_or("known type")))
            }
        }
    }

    fn check_any(&self, branches: &[Value], value: &Value, at: &str) -> Option<String> {
        let mut violations = Vec::new();
        for branch in branches {
            violations.push((self.likeness(branch, value), self.check(branch, value, at)?));
        }
        // What is said of the branch that the value is meant to be helps most.
        violations.into_iter().max_by_key(|it| it.0).map(|it| it.1)
    }

    /// Whether a schema is of the value's `object`.
    fn likeness(&self, schema: &Value, value: &Value) -> bool {
        let kinds = &self.resolved(schema)["properties"]["object"]["enum"];
        kinds.as_array().is_some_and(|it| it.contains(&value["object"]))
    }

    fn check_object(&self, schema: &Value, value: &Value, at: &str) -> Option<String> {
        let fields = value.as_object()?;
        let required =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(name) = required.into_iter().find(|it| !fields.contains_key(*it)) {
            return Some(format!("{at}: {name} is missing"));
        }
        fields.iter().find_map(|(name, inner)| {
            let at = format!("{at}.{name}");
            let additional = &schema["additionalProperties"];
            match schema["properties"].get(name) {
                Some(property) => self.check(property, inner, &at),
                None if additional.is_object() => self.check(additional, inner, &at),
                None if *additional == true => None,
                None => Some(format!("{at}: the document has no such field")),
            }
        })
    }

    /// The first parameter that is refused, with the reason.
    fn check_param(&self, schema: &Value, sent: &Sent, at: &str) -> Option<Refused> {
        let schema = self.resolved(schema);
        let refused = |message: String| Some((at.to_owned(), message));
        if let Some(branches) = schema["anyOf"].as_array() {
            let mut last = None;
            for branch in branches {
                last = Some(self.check_param(branch, sent, at)?);
            }
            return last;
        }
        match (schema["type"].as_str(), sent) {
            (Some("object"), Sent::Nested(fields)) => self.check_fields(schema, fields, at),
            (Some("array"), Sent::Nested(items)) => items
                .iter()
                .find_map(|(n, it)| self.check_param(&schema["items"], it, &format!("{at}[{n}]"))),
            (Some("string"), Sent::Text(text)) => {
                // Stripe takes values that some lists leave out, and marks those lists.
                let known = schema["enum"]
                    .as_array()
                    .filter(|_| schema["x-stripeBypassValidation"] != true);
                if known.is_some_and(|it| !it.iter().any(|it| it == text.as_str())) {
                    return refused(format!("Invalid {at}: {text} is not one of its values"));
                }
                let max = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
                if text.chars().count() as u64 > max {
                    return refused(format!("Invalid {at}: {max} characters at most"));
                }
                None
            }
            (Some("integer"), Sent::Text(text)) if text.parse::<i64>().is_ok() => None,
            (Some("number"), Sent::Text(text)) if text.parse::<f64>().is_ok() => None,
            (Some("boolean"), Sent::Text(text)) if text == "true" || text == "false" => None,
            (expected, _) => {
                refused(format!("Invalid {at}: it is no {}", expected.unwrap_or("known type")))
            }
        }
    }

    fn check_fields(
        &self,
        schema: &Value,
        fields: &BTreeMap<String, Sent>,
        at: &str,
    ) -> Option<Refused> {
        let required =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(name) = required.into_iter().find(|it| !fields.contains_key(*it)) {
            let name = within(at, name);
            return Some((name.clone(), format!("Missing required param: {name}.")));
        }
        fields.iter().find_map(|(name, inner)| {
            let at = within(at, name);
            let additional = &schema["additionalProperties"];
            match schema["properties"].get(name) {
                Some(property) => self.check_param(property, inner, &at),
                None if additional.is_object() => self.check_param(additional, inner, &at),
                // The document leaves out some of what is nested, such as a card's token in a payment.
                None if *additional != false => None,
                None => Some((at.clone(), format!("Received unknown parameter: {at}"))),
            }
        })
    }
}

/// The parameter, and why it is refused.
type Refused = (String, String);

fn within(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}[{name}]") }
}

fn fits(template: &str, path: &str) -> bool {
    let (wanted, found): (Vec<&str>, Vec<&str>) =
        (template.split('/').collect(), path.split('/').collect());
    wanted.len() == found.len()
        && wanted
            .iter()
            .zip(&found)
            .all(|(wanted, found)| wanted.starts_with('{') || wanted == found)
}

/// Parameters as they are nested.
enum Sent {
    Text(String),
    Nested(BTreeMap<String, Sent>),
}

impl Sent {
    fn of(params: &Params) -> Sent {
        let mut all = Sent::Nested(BTreeMap::new());
        for (name, value) in params.pairs() {
            let (top, rest) = name.split_once('[').unwrap_or((name, ""));
            let inner = rest
                .strip_suffix(']')
                .filter(|_| name.contains('['))
                .into_iter()
                .flat_map(|it| it.split("]["));
            let steps: Vec<&str> = std::iter::once(top).chain(inner).collect();
            all.put(&steps, value);
        }
        all
    }

    fn put(&mut self, steps: &[&str], value: &str) {
        let Some((step, rest)) = steps.split_first() else {
            *self = Sent::Text(value.to_owned());
            return;
        };
        if let Sent::Text(_) = self {
            *self = Sent::Nested(BTreeMap::new());
        }
        if let Sent::Nested(fields) = self {
            // `[]` appends.
            let step = if step.is_empty() { fields.len().to_string() } else { (*step).to_owned() };
            fields.entry(step).or_insert_with(|| Sent::Nested(BTreeMap::new())).put(rest, value);
        }
    }
}
