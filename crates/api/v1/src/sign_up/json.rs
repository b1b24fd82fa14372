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
use crate::json::{self, Values};
use crate::parameters::refuse_card_number;

/// The largest body, in bytes, whatever the server accepts.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// A JSON body. It is extracted last, so that an unauthenticated request is refused before.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<SignUpApi> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &SignUpApi) -> Result<Self, Error> {
        let bytes = body::read_limited(request.into_body(), BODY_BYTES_MAX).await?;
        refuse_card_number(card_data::find_in_json(&bytes, NumericKeys::Checked))?;
        json::read(&bytes, Values::Hidden).map(Self)
    }
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
