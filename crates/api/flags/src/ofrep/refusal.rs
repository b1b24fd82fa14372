//! Refusals in OFREP's JSON. Providers show `errorDetails` to their program's author.

use axum::response::{IntoResponse, Response};
use feature_flags::message::write_json;
use http::header::CONTENT_TYPE;

use crate::reply::{JSON, Refusal};

/// Why a request of OFREP is refused.
pub(crate) struct OfrepRefusal(Refusal);

impl From<Refusal> for OfrepRefusal {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl OfrepRefusal {
    /// OpenFeature's error code, and the details.
    const fn code_and_details(&self) -> (&'static str, &'static str) {
        match self.0 {
            Refusal::Unavailable => ("PROVIDER_NOT_READY", "the flags cannot be read now"),
            Refusal::Unauthorized => (
                "GENERAL",
                "the secret is missing, unknown, expired or of another type: `X-API-Key` or \
                 `Authorization: Bearer` has a secret of the environment",
            ),
            Refusal::TooMany(_) => ("GENERAL", "the secret is used too often"),
            Refusal::TooLarge => ("INVALID_CONTEXT", "the body is too large"),
            Refusal::TimedOut => ("GENERAL", "the body did not arrive in time"),
            Refusal::Bad(reason) => ("GENERAL", reason),
        }
    }
}

impl IntoResponse for OfrepRefusal {
    fn into_response(self) -> Response {
        let (code, details) = self.code_and_details();
        let mut body = br#"{"errorCode":"#.to_vec();
        write_json(&mut body, code);
        body.extend_from_slice(br#","errorDetails":"#);
        write_json(&mut body, details);
        body.push(b'}');
        // With the status and the headers of the other APIs.
        let mut response = self.0.into_response();
        *response.body_mut() = body.into();
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        response
    }
}
