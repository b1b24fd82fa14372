//! What both doors read from a request's headers.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

/// What makes a `POST` repeatable (draft-ietf-httpapi-idempotency-key-header-07).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How long an idempotency key may be, in bytes.
pub(crate) const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// A header that cannot be an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoKey;

/// The idempotency key of a request, quoted or bare.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, NoKey> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text = value.to_str().map_err(|_| NoKey)?.trim();
    let key = match text.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').ok_or(NoKey)?,
        None => text,
    };
    let fits = (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len());
    fits.then(|| Some(key.to_owned())).ok_or(NoKey)
}

/// The access token of a request (RFC 6750).
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn keys_are_read_quoted_or_bare() {
        let read = |text: &str| {
            let value = HeaderValue::from_str(text).unwrap();
            idempotency_key(&HeaderMap::from_iter([(IDEMPOTENCY_KEY, value)]))
        };
        assert_eq!(idempotency_key(&HeaderMap::new()), Ok(None));
        assert_eq!(read("k-1"), Ok(Some("k-1".to_owned())));
        assert_eq!(read("\"k-1\""), read("k-1"));
        for wrong in ["", "\"\"", "\"k", &"k".repeat(IDEMPOTENCY_KEY_BYTES_MAX + 1)] {
            assert_eq!(read(wrong), Err(NoKey), "{wrong}");
        }
    }
}
