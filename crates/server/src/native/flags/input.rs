//! What a request brings: its body as JSON, the version that it expects, and what is wrong with the
//! documents in it.

use std::collections::BTreeSet;

use axum::body::{Body, Bytes};
use domain::definition::{Definition, DefinitionKind};
use evaluation::{Flag, Segment, User};
use http::HeaderMap;
use http::header::{ETAG, HeaderValue, IF_MATCH};
use http_body_util::BodyExt as _;
use killbill::BodyError;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::find::bug;
use crate::document;
use crate::native::parameters::invalid;
use crate::problem::{Problem, WrongField};

/// How long a key or an id may be, in bytes.
pub const KEY_BYTES_MAX: usize = 255;

/// How large a flag or a segment may be, in bytes.
const DOCUMENT_BYTES_MAX: usize = 512 * 1024;

/// How many properties a user has at most.
const PROPERTIES_MAX: usize = 1_000;

/// How many wrong fields are listed; the rest waits until these are right.
const WRONG_FIELDS_MAX: usize = 1_000;

/// Reads a body, all of it; how large it may be is the front's business.
///
/// # Errors
/// Where it does not come, or is no such JSON.
pub async fn json<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    read(&bytes(body).await?)
}

/// As [`json`], of a body that need not be there.
///
/// # Errors
/// See there.
pub async fn json_or_nothing<T: DeserializeOwned + Default>(body: Body) -> Result<T, Problem> {
    let bytes = bytes(body).await?;
    if bytes.is_empty() { Ok(T::default()) } else { read(&bytes) }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| invalid("body", error))
}

async fn bytes(body: Body) -> Result<Bytes, Problem> {
    let collected = body.collect().await.map_err(|error| {
        let error = error.into_inner().downcast().map_or(BodyError::Broken, |error| *error);
        Problem::Body(error)
    })?;
    Ok(collected.to_bytes())
}

/// What `If-Match` expects.
///
/// # Errors
/// Where it is no version.
pub fn expected(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim().trim_matches('"');
    // Whatever is there: something has to be in any case.
    if text == "*" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| invalid("If-Match", "is no version, such as \"123\""))
}

/// A version as `ETag`.
#[must_use]
pub fn etag(version: i64) -> (http::HeaderName, HeaderValue) {
    let value = HeaderValue::try_from(format!("\"{version}\""));
    (ETAG, value.expect("digits are a header's value"))
}

/// Whether it can be a key: some characters, none that cannot be seen.
///
/// # Errors
/// Where it cannot.
pub fn check_key(field: &'static str, key: &str) -> Result<(), Problem> {
    let is_right = (1..=KEY_BYTES_MAX).contains(&key.len())
        && key.trim() == key
        && !key.chars().any(char::is_control);
    match is_right {
        true => Ok(()),
        false => Err(invalid(field, format!("1 to {KEY_BYTES_MAX} characters were expected"))),
    }
}

/// Whether it can be a user; `path` is what stands before its fields in what the client sent.
///
/// # Errors
/// Where it has no key, or too many properties.
pub fn check_user(path: &str, user: &User) -> Result<(), Problem> {
    if user.key_id.is_empty() {
        return Err(invalid(format!("{path}keyId"), "needs to be set"));
    }
    if user.customized_properties.len() > PROPERTIES_MAX {
        let reason = format!("are more than {PROPERTIES_MAX}");
        return Err(invalid(format!("{path}customizedProperties"), reason));
    }
    Ok(())
}

/// A document from its JSON. A field that it does not have is refused: it would be passed over.
///
/// # Errors
/// Where it is none.
pub fn document<T: DeserializeOwned>(value: Value, fields: &[&str]) -> Result<T, Problem> {
    let Value::Object(given) = &value else {
        return Err(invalid("body", "an object was expected"));
    };
    if let Some(unknown) = given.keys().find(|name| !fields.contains(&name.as_str())) {
        let name: String = unknown.chars().take(KEY_BYTES_MAX).collect();
        return Err(invalid(name, "there is no such field"));
    }
    typed(value).map_err(|WrongField { field, reason }| match field.is_empty() {
        true => invalid("body", reason),
        false => invalid(field, reason),
    })
}

/// A document from its JSON, or which field of it has another type. `null` is nothing there: who
/// exports flags may write either.
///
/// # Errors
/// The first field that is of another type; no name where it is the whole.
pub fn typed<T: DeserializeOwned>(mut value: Value) -> Result<T, WrongField> {
    forget_nulls(&mut value);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { String::new() } else { path };
        WrongField { field, reason: error.into_inner().to_string() }
    })
}

/// JSON is read to a depth that this can follow.
fn forget_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(forget_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The fields of a flag.
pub const FLAG_FIELDS: &[&str] = &[
    "id",
    "createdAt",
    "updatedAt",
    "creatorId",
    "updatorId",
    "envId",
    "name",
    "description",
    "key",
    "variationType",
    "variations",
    "targetUsers",
    "rules",
    "isEnabled",
    "disabledVariationId",
    "fallthrough",
    "exptIncludeAllTargets",
    "tags",
    "isArchived",
];

/// The fields of a segment.
pub const SEGMENT_FIELDS: &[&str] = &[
    "id",
    "createdAt",
    "updatedAt",
    "envId",
    "name",
    "description",
    "included",
    "excluded",
    "rules",
    "isArchived",
];

/// The body of a document that is not too large.
///
/// # Errors
/// Where it is.
pub fn bounded(path: &str, body: String) -> Result<String, Problem> {
    match body.len() <= DOCUMENT_BYTES_MAX {
        true => Ok(body),
        false => Err(wrong(vec![WrongField {
            field: path.to_owned(),
            reason: format!("is larger than {DOCUMENT_BYTES_MAX} bytes"),
        }])),
    }
}

/// The segments among definitions.
///
/// # Errors
/// Where one cannot be read.
pub fn segments_of(definitions: &[Definition]) -> Result<Vec<Segment>, Problem> {
    let segments = definitions.iter().filter(|it| it.key.kind == DefinitionKind::Segment);
    segments.map(document::segment).collect::<Result<_, _>>().map_err(|error| unreadable(&error))
}

/// What is wrong with flags and segments that are to be put among `there`: nothing else is looked at.
/// Thousands of regular expressions take a while, and a thread of their own.
///
/// # Errors
/// Where something is.
pub async fn check(
    flags: Vec<Flag>,
    segments: Vec<Segment>,
    there: Vec<Segment>,
) -> Result<(), Problem> {
    let checking = tokio::task::spawn_blocking(move || wrong_fields(&flags, segments, there));
    match checking.await.map_err(|_| bug())? {
        found if found.is_empty() => Ok(()),
        found => Err(wrong(found)),
    }
}

fn wrong_fields(flags: &[Flag], segments: Vec<Segment>, there: Vec<Segment>) -> Vec<WrongField> {
    let new = segments.len();
    let mut all = segments;
    let replaced: BTreeSet<String> = all.iter().map(|it| it.id.clone()).collect();
    all.extend(there.into_iter().filter(|it| !replaced.contains(&it.id)));
    let behind = |path: &str| {
        let number = path.strip_prefix("segments[").and_then(|rest| rest.split(']').next());
        number.and_then(|number| number.parse::<usize>().ok()).is_some_and(|at| at >= new)
    };
    let found = evaluation::problems(flags, &all);
    found
        .into_iter()
        .filter(|it| !behind(&it.path))
        .take(WRONG_FIELDS_MAX)
        .map(|it| WrongField { field: it.path, reason: it.problem.to_string() })
        .collect()
}

/// Documents that cannot be taken in.
#[must_use]
pub fn wrong(problems: Vec<WrongField>) -> Problem {
    Problem::WrongFields(problems)
}

/// What is wrong, in one text: what it was asked for is not there to be answered any more.
#[must_use]
pub fn explained(problem: &Problem) -> String {
    /// How long it may be; more wrong fields than that do not help.
    const CHARS_MAX: usize = 1_000;
    let Problem::WrongFields(wrong) = problem else { return problem.to_string() };
    let mut text = String::new();
    for WrongField { field, reason } in wrong {
        let separator = if text.is_empty() { "" } else { "; " };
        text.push_str(&format!("{separator}{field}: {reason}"));
        if let Some((end, _)) = text.char_indices().nth(CHARS_MAX) {
            text.truncate(end);
            break;
        }
    }
    text
}

/// A row that nobody can read: not what this door wrote.
#[must_use]
pub fn unreadable(error: &document::Unreadable) -> Problem {
    tracing::error!(error = %error, "a stored document cannot be read");
    bug()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is listed as a field is one, and none is missing.
    #[test]
    fn fields_are_those_of_the_documents() {
        let fields = |value: Value| -> Vec<String> {
            let mut names: Vec<String> =
                value.as_object().unwrap().keys().map(Clone::clone).collect();
            names.sort();
            names
        };
        let sorted = |names: &[&str]| {
            let mut names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
            names.sort();
            names
        };
        let flag = Flag { description: Some(String::new()), ..Flag::default() };
        assert_eq!(fields(serde_json::to_value(flag).unwrap()), sorted(FLAG_FIELDS));
        let segment = serde_json::to_value(Segment::default()).unwrap();
        assert_eq!(fields(segment), sorted(SEGMENT_FIELDS));
    }
}
