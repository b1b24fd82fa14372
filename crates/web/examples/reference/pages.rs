//! The pages: one per resource, and an index.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use serde_json::Value;

/// In the order of OpenAPI (3.1, "Path Item Object").
const METHODS: [&str; 6] = ["get", "put", "post", "delete", "patch", "head"];

/// A page's file name and its text.
pub fn pages(document: &Value) -> Result<BTreeMap<String, String>, fmt::Error> {
    let mut by_tag = BTreeMap::<&str, Vec<Operation<'_>>>::new();
    for (path, methods) in object(&document["paths"]) {
        for method in METHODS {
            let Some(operation) = methods.get(method) else { continue };
            let tag = operation["tags"][0].as_str().expect("each operation has a tag");
            by_tag.entry(tag).or_default().push(Operation { method, path, operation });
        }
    }
    let schemas = &document["components"]["schemas"];
    let mut index = String::from(
        "# The HTTP APIs, by resource\n\nMade from [openapi.json](../openapi.json), which a running server \
         sends as `/openapi.json` and shows at `/docs`. Who may call what is in \
         [permissions](../permissions.md), what errors mean in [errors](../errors.md).\n\n\
         | Resource | Routes |\n| --- | --- |\n",
    );
    let mut pages = BTreeMap::new();
    for (tag, operations) in by_tag {
        let name = format!("{}.md", anchor(tag));
        writeln!(index, "| [{tag}]({name}) | {} |", operations.len())?;
        pages.insert(name, page(tag, &operations, schemas)?);
    }
    pages.insert("README.md".to_owned(), index);
    Ok(pages)
}

struct Operation<'a> {
    method: &'static str,
    path: &'a str,
    operation: &'a Value,
}

impl Operation<'_> {
    fn heading(&self) -> String {
        format!("{} {}", self.method.to_uppercase(), self.path)
    }
}

fn page(tag: &str, operations: &[Operation<'_>], schemas: &Value) -> Result<String, fmt::Error> {
    let mut text = format!(
        "# {tag}: routes and schemas\n\nMade from [openapi.json](../openapi.json). [All resources](README.md), \
         [permissions](../permissions.md), [errors](../errors.md).\n\n| Route | |\n| --- | --- |\n"
    );
    for it in operations {
        let (heading, summary) = (it.heading(), cell(&it.operation["summary"]));
        writeln!(text, "| [`{heading}`](#{}) | {summary} |", anchor(&heading))?;
    }
    let mut headers = BTreeMap::new();
    for it in operations {
        describe(&mut text, it, &mut headers)?;
    }
    if !headers.is_empty() {
        text.push_str("\n## Headers\n\n| Header | |\n| --- | --- |\n");
        for (name, description) in headers {
            writeln!(text, "| `{name}` | {description} |")?;
        }
    }
    let named = schemas_of(operations, schemas);
    if !named.is_empty() {
        text.push_str("\n## Schemas\n");
    }
    for name in named {
        describe_schema(&mut text, &name, &schemas[&name])?;
    }
    Ok(text)
}

fn describe(
    text: &mut String,
    it: &Operation<'_>,
    headers: &mut BTreeMap<String, String>,
) -> fmt::Result {
    let Operation { operation, .. } = it;
    write!(text, "\n## `{}`\n\n{}\n", it.heading(), sentence(&cell(&operation["summary"])))?;
    if let Some(description) = operation["description"].as_str() {
        write!(text, "\n{}\n", description.trim())?;
    }
    describe_parameters(text, operation, headers)?;
    for (media_type, content) in object(&operation["requestBody"]["content"]) {
        let required = if operation["requestBody"]["required"] == true { "" } else { ", optional" };
        let body = type_of(&content["schema"]);
        write!(text, "\nBody: {body} as `{media_type}`{required}.\n")?;
    }
    text.push_str("\n| Status | Body | |\n| --- | --- | --- |\n");
    for (status, response) in object(&operation["responses"]) {
        let bodies = object(&response["content"]).map(|(_, it)| type_of(&it["schema"]));
        let bodies = bodies.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" or ");
        let mut meaning = cell(&response["description"]);
        let mut sent = Vec::new();
        for (name, header) in object(&response["headers"]) {
            headers.insert(name.clone(), cell(&header["description"]));
            sent.push(format!("`{name}`"));
        }
        if !sent.is_empty() {
            write!(meaning, " (with {})", sent.join(", "))?;
        }
        let bodies = if bodies.is_empty() { "–" } else { bodies.as_str() };
        writeln!(text, "| {status} | {bodies} | {meaning} |")?;
    }
    Ok(())
}

/// Those in path and query in a table; headers by name, because a page describes each once.
fn describe_parameters(
    text: &mut String,
    operation: &Value,
    headers: &mut BTreeMap<String, String>,
) -> fmt::Result {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let (of_headers, others): (Vec<_>, Vec<_>) = parameters.partition(|it| it["in"] == "header");
    if !others.is_empty() {
        text.push_str("\n| Parameter | In | Type | |\n| --- | --- | --- | --- |\n");
    }
    for it in others {
        let required = if it["required"] == true { "" } else { ", optional" };
        let (name, place) = (cell(&it["name"]), cell(&it["in"]));
        let (kind, meaning) = (type_of(&it["schema"]), cell(&it["description"]));
        writeln!(text, "| `{name}` | {place} | {kind}{required} | {meaning} |")?;
    }
    let mut names = Vec::new();
    for it in of_headers {
        let name = cell(&it["name"]);
        let required = if it["required"] == true { " (required)" } else { "" };
        names.push(format!("`{name}`{required}"));
        headers.insert(name, cell(&it["description"]));
    }
    if !names.is_empty() {
        write!(text, "\nHeaders: {}.\n", names.join(", "))?;
    }
    Ok(())
}

fn describe_schema(text: &mut String, name: &str, schema: &Value) -> fmt::Result {
    write!(text, "\n### {name}\n")?;
    if let Some(description) = schema["description"].as_str() {
        write!(text, "\n{}\n", description.trim())?;
    }
    // A schema that extends another one names it beside its own fields.
    let parts = schema["allOf"].as_array().map_or(std::slice::from_ref(schema), Vec::as_slice);
    let (own, others): (Vec<_>, Vec<_>) = parts.iter().partition(|it| it["properties"].is_object());
    let others = others.into_iter().map(type_of).collect::<Vec<_>>().join(" and ");
    match (own.is_empty(), others.is_empty()) {
        (true, _) => write!(text, "\n{}\n", sentence(&others))?,
        (false, true) => {}
        (false, false) => write!(text, "\nThe fields of {others}, and:\n")?,
    }
    for it in own {
        describe_fields(text, it)?;
    }
    Ok(())
}

fn describe_fields(text: &mut String, schema: &Value) -> fmt::Result {
    text.push_str("\n| Field | Type | |\n| --- | --- | --- |\n");
    let required = schema["required"].as_array().into_iter().flatten().collect::<Vec<_>>();
    for (field, it) in object(&schema["properties"]) {
        let optional =
            if required.iter().any(|name| *name == field.as_str()) { "" } else { ", optional" };
        let (kind, meaning) = (type_of(it), cell(&it["description"]));
        writeln!(text, "| `{field}` | {kind}{optional} | {meaning} |")?;
    }
    Ok(())
}

/// The schemas that a page's operations name, and those that these name.
fn schemas_of(operations: &[Operation<'_>], schemas: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for it in operations {
        names_in(it.operation, schemas, &mut found);
    }
    found
}

fn names_in(value: &Value, schemas: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(reference)
                && found.insert(name.to_owned())
            {
                names_in(&schemas[name], schemas, found);
            }
            fields.values().for_each(|it| names_in(it, schemas, found));
        }
        Value::Array(items) => items.iter().for_each(|it| names_in(it, schemas, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn reference(value: &Value) -> Option<&str> {
    value.as_str()?.strip_prefix("#/components/schemas/")
}

/// A schema in a few words: `string (uuid)`, `array of [Payment](#payment)`, "`ON` or `OFF`".
fn type_of(schema: &Value) -> String {
    if let Some(name) = reference(&schema["$ref"]) {
        return format!("[{name}](#{})", anchor(name));
    }
    for (keyword, between) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        if let Some(parts) = schema[keyword].as_array() {
            return parts.iter().map(type_of).collect::<Vec<_>>().join(between);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .map(|it| format!("`{}`", it.to_string().trim_matches('"')))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let kinds: Vec<String> = match &schema["type"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(some) => some.iter().map(cell).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            vec!["any".to_owned()]
        }
    };
    let kinds = kinds.into_iter().map(|kind| match kind.as_str() {
        "array" => format!("array of {}", type_of(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("object of {}", type_of(&schema["additionalProperties"]))
        }
        "null" | "boolean" | "object" => kind,
        _ => match schema["format"].as_str() {
            Some(format) => format!("{kind} ({format})"),
            None => kind,
        },
    });
    kinds.collect::<Vec<_>>().join(" or ")
}

/// A text in a cell of a table: on one line, without the character that ends cells.
fn cell(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{document, reference};

    #[test]
    fn links_lead_to_pages_and_headings() {
        let pages = pages(&document().unwrap()).unwrap();
        for (name, text) in &pages {
            let targets = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
            for target in targets {
                let (path, heading) = target.split_once('#').unwrap_or((target, ""));
                let is_there = match pages.get(if path.is_empty() { name.as_str() } else { path }) {
                    Some(page) => heading.is_empty() || has_heading(page, heading),
                    None => {
                        path.strip_prefix("../").is_some_and(|it| reference().join(it).exists())
                    }
                };
                assert!(is_there, "{name}: {target}");
            }
        }
    }

    fn has_heading(page: &str, wanted: &str) -> bool {
        let mut headings = page.lines().filter(|line| line.starts_with('#'));
        headings.any(|line| anchor(line.trim_start_matches('#').trim()) == wanted)
    }
}
