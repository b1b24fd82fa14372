//! JSON bodies: requests are read strictly and refused by field; responses are not cached.

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use domain::card_data::NumericKeys;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use web::{body, card_data};

use super::SignUpApi;
use crate::error::Error;
use crate::parameters::refuse_card_number;

/// The largest body, in bytes, whatever the server accepts.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How much of an unknown field's name is repeated, in characters.
const NAME_CHARS_MAX: usize = 64;

/// A JSON body. It is extracted last, so that an unauthenticated request is refused before.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<SignUpApi> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &SignUpApi) -> Result<Self, Error> {
        let bytes = body::read_limited(request.into_body(), BODY_BYTES_MAX).await?;
        refuse_card_number(card_data::find_in_json(&bytes, NumericKeys::Checked))?;
        let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
        let read = serde_path_to_error::deserialize(&mut deserializer);
        let read = read.map_err(|error| refused(&error))?;
        deserializer.end().map_err(|_| no_json())?;
        Ok(Self(read))
    }
}

/// Names the field, but never repeats its value, which may be a password.
fn refused(error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
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
    Error::InvalidParameter { field: field.into(), reason: reason.to_owned() }
}

fn no_json() -> Error {
    Error::InvalidParameter { field: "body".into(), reason: "is no JSON".to_owned() }
}

/// A JSON response, which is private to its client.
pub(super) fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_vec(body).expect("a response is plain JSON");
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    forbid_caching(headers);
    response
}

/// A response without content.
pub(super) fn done() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    forbid_caching(response.headers_mut());
    response
}

/// For responses with tokens or personal data.
pub(super) fn forbid_caching(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsing is tested")]
    struct Outer {
        password: String,
        inner: Option<Inner>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsing is tested")]
    struct Inner {
        url: String,
    }

    fn check(text: &str, expected: Expect) {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read: Result<Outer, _> = serde_path_to_error::deserialize(&mut deserializer);
        expected.assert_eq(&refused(&read.err().unwrap()).to_string());
    }

    #[test]
    fn a_refusal_names_the_field_and_does_not_repeat_its_value() {
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
