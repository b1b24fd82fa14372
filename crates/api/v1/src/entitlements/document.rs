//! An account's entitlements, as a document that a program may hold for a while, and the keys that it is signed with.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use engine::entitlements::{Holding, Known};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, StatusCode};
use secrets::document::{ALGORITHM, DocumentKey};
use secrets::{Purpose, Sealer};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::view::{EntitlementsView, etag_of};
use crate::Api;
use crate::error::Error;

/// The media type of a signed document (RFC 7515).
const SIGNED: &str = "application/jose";

/// The type that a signed document has in its header, and nothing else that is signed here.
const KIND: &str = "entitlements+jose";

/// For how long keys may be kept: a document that names another key is a reason to read them again.
const KEYS_KEPT: &str = "public, max-age=3600";

/// The time of a document that an operator reads now, and how long a program may hold it: `held_us` microseconds.
pub(crate) fn holding(api: &Api, held_us: i64) -> Holding {
    Holding { now: api.engine.clock().now(), held_us }
}

/// The document of what an account may do: signed where the caller accepts it so; or that the caller has it.
pub(crate) fn answer(
    known: &Known,
    holding: Holding,
    sealer: Option<&Sealer>,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let etag = (ETAG, etag_of(known.version(), &known.levels));
    let varies = (VARY, HeaderValue::from_static("accept"));
    let document = || EntitlementsView::of(&known.document(holding));
    if is_signed_accepted(headers) {
        let key = key(sealer)?;
        let document = serde_json::to_vec(&document()).expect("a document is JSON");
        let signed = key.sign(KIND, &document);
        let kind = (CONTENT_TYPE, HeaderValue::from_static(SIGNED));
        return Ok(([varies, kind, etag], signed).into_response());
    }
    // Grants that ended or began since the timer was due change the answer, and the version only when it fires.
    let is_due =
        known.entitlements.as_ref().and_then(|it| it.due).is_some_and(|due| due <= holding.now);
    if !is_due && headers.get(IF_NONE_MATCH) == Some(&etag.1) {
        return Ok((StatusCode::NOT_MODIFIED, [varies, etag]).into_response());
    }
    Ok(([varies, etag], Json(document())).into_response())
}

/// Whether the caller accepts a signed document.
fn is_signed_accepted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|it| it.to_str().ok());
    let kinds = accepted.flat_map(|it| it.split(',')).filter_map(|it| it.split(';').next());
    kinds.into_iter().any(|it| it.trim().eq_ignore_ascii_case(SIGNED))
}

/// The key of the installation: derived, so that all processes with the same file have the same.
fn key(sealer: Option<&Sealer>) -> Result<DocumentKey, Error> {
    let sealer = sealer.ok_or(Error::NoSecretsKey)?;
    Ok(DocumentKey::derived(&sealer.derive(Purpose::EntitlementDocument, Uuid::nil())))
}

/// A set of keys (RFC 7517).
#[derive(Serialize, ToSchema)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

/// A public key (RFC 8037).
#[derive(Serialize, ToSchema)]
pub struct PublicKey {
    /// `OKP`
    kty: &'static str,
    /// `Ed25519`
    crv: &'static str,
    /// The key, in base64url
    x: String,
    /// The key's id in signed documents: its thumbprint (RFC 7638)
    kid: String,
    /// `EdDSA`
    alg: &'static str,
    /// `sig`
    #[serde(rename = "use")]
    usage: &'static str,
}

/// The public keys that signed entitlements are verified with
#[utoipa::path(get, path = "/v1/keys", tag = "Entitlements", operation_id = "keys",
    responses((status = 200, description = "The keys", body = KeySet, content_type = "application/jwk-set+json"),
        (status = 501, description = "There is no key: `flags.key_file` is not set")))]
pub async fn keys(State(api): State<Api>) -> Result<Response, Error> {
    let key = key(api.sealer.as_deref())?;
    let public = PublicKey {
        kty: "OKP",
        crv: "Ed25519",
        x: key.public().to_owned(),
        kid: key.id().to_owned(),
        alg: ALGORITHM,
        usage: "sig",
    };
    let kind = (CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
    let kept = (CACHE_CONTROL, HeaderValue::from_static(KEYS_KEPT));
    Ok(([kind, kept], Json(KeySet { keys: vec![public] })).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_document_is_for_those_who_accept_it() {
        let accepted = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(ACCEPT, HeaderValue::from_static(value));
            }
            is_signed_accepted(&headers)
        };
        assert!(accepted(&["application/jose"]));
        assert!(accepted(&["application/json;q=0.5, Application/JOSE;q=1"]));
        assert!(accepted(&["text/html", "application/jose"]));
        assert!(!accepted(&[]));
        assert!(!accepted(&["*/*"]));
        assert!(!accepted(&["application/jose+json"]));
    }
}
