//! The headers that name a callback, for routes whose bodies have no field for it.

use http::HeaderMap;
use sign_up::operations::{Callback, CallbackCheck, CallbackInvalid};

const URL: &str = "x-faregate-callback";
const SECRET: &str = "x-faregate-callback-secret";

/// The callback that the headers name, if they do.
///
/// # Errors
/// [`CallbackInvalid`].
pub(crate) fn read(
    headers: &HeaderMap,
    check: &CallbackCheck,
) -> Result<Option<Callback>, CallbackInvalid> {
    let text = |name: &str| headers.get(name).map(|it| it.to_str().unwrap_or_default());
    match (text(URL), text(SECRET)) {
        (None, None) => Ok(None),
        (url, secret) => {
            let (url, secret) = (url.unwrap_or_default(), secret.unwrap_or_default());
            Callback::read(url, secret, check).map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// 24 bytes in base64.
    const BASE64: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH";

    fn read(pairs: &[(&'static str, &str)]) -> Result<Option<Callback>, CallbackInvalid> {
        let check: CallbackCheck =
            Arc::new(|url| if url.is_empty() { Err("is not a URL".to_owned()) } else { Ok(()) });
        let pairs = pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
        super::read(&pairs.collect(), &check)
    }

    #[test]
    fn both_headers_or_none_are_required() {
        assert_eq!(read(&[]), Ok(None));
        let both = read(&[(URL, "https://a"), (SECRET, BASE64)]).unwrap();
        assert!(format!("{both:?}").contains(r#"url: "https://a""#), "{both:?}");
        assert_eq!(read(&[(URL, "https://a")]).unwrap_err().field(), "secret");
        let url = CallbackInvalid::Url("is not a URL".to_owned());
        assert_eq!(read(&[(SECRET, BASE64)]), Err(url));
    }
}
