//! What comes and goes as JSON: bodies, read strictly and refused by field, and points in time.

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use domain::Timestamp;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Native;
use super::problem::Problem;
use crate::body;

/// How much of a name that the client made up is shown, in characters.
const NAME_CHARS_MAX: usize = 64;

/// A body. It is read last: whoever may not ask is told so before.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Native> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Native) -> Result<Self, Problem> {
        let bytes = body::read(request.into_body()).await?;
        let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
        let read = serde_path_to_error::deserialize(&mut deserializer);
        let read = read.map_err(|error| refused(&error))?;
        deserializer.end().map_err(|_| no_json())?;
        Ok(Self(read))
    }
}

/// Names the field, and never repeats what is in it: it may be a password.
fn refused(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let inner = error.inner();
    if !inner.is_data() {
        return no_json();
    }
    let text = inner.to_string();
    let path = error.path().to_string();
    let named = |prefix: &str| {
        let name = text.strip_prefix(prefix)?.split('`').next()?;
        Some(name.chars().take(NAME_CHARS_MAX).collect::<String>())
    };
    let within = |name: String| match path.strip_suffix(&name).unwrap_or(&path) {
        "." | "" => name,
        path => format!("{}.{name}", path.trim_end_matches('.')),
    };
    let (field, reason) = if let Some(name) = named("missing field `") {
        (within(name), "needs to be set")
    } else if let Some(name) = named("unknown field `") {
        (within(name), "there is no such field")
    } else if path == "." {
        ("body".to_owned(), "is not the JSON that was expected")
    } else {
        (path.chars().take(NAME_CHARS_MAX).collect(), "is of another type than expected")
    };
    Problem::Invalid { field: field.into(), reason: reason.to_owned() }
}

fn no_json() -> Problem {
    Problem::Invalid { field: "body".into(), reason: "is no JSON".to_owned() }
}

/// An answer. Nobody keeps it on the way: it is somebody's own.
pub(super) fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_vec(body).expect("an answer is plain JSON");
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    keep_nowhere(headers);
    response
}

/// An answer that says nothing more.
pub(super) fn done() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    keep_nowhere(response.headers_mut());
    response
}

/// For answers with tokens, or about somebody.
pub(super) fn keep_nowhere(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// A point in time as RFC 3339.
pub(crate) fn moment(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map_or_else(|_| at.0.to_string(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    #[expect(dead_code, reason = "only how it is read counts here")]
    struct Outer {
        password: String,
        inner: Option<Inner>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only how it is read counts here")]
    struct Inner {
        url: String,
    }

    fn check(text: &str, expected: Expect) {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read: Result<Outer, _> = serde_path_to_error::deserialize(&mut deserializer);
        expected.assert_eq(&refused(&read.err().unwrap()).to_string());
    }

    #[test]
    fn a_refusal_names_the_field_and_repeats_nothing() {
        check("", expect!["body: is no JSON"]);
        check("{\"password\": ", expect!["body: is no JSON"]);
        check("[]", expect!["body: is not the JSON that was expected"]);
        check("{}", expect!["password: needs to be set"]);
        check(
            r#"{"password":{"secret":1}}"#,
            expect!["password: is of another type than expected"],
        );
        check(r#"{"password":12345678}"#, expect!["password: is of another type than expected"]);
        check(r#"{"password":"p","colour":1}"#, expect!["colour: there is no such field"]);
        check(r#"{"password":"p","inner":{}}"#, expect!["inner.url: needs to be set"]);
        check(r#"{"password":"p","inner":{"x":1}}"#, expect!["inner.x: there is no such field"]);
        check(r#"{"password":"p","inner":7}"#, expect!["inner: is of another type than expected"]);
    }
}
