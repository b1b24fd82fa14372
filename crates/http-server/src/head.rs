//! Checks every request's head: its host must be valid, and its body must not be encoded.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderMap, Method, Version};

use super::api::Refusal;

/// Checks a request before its API sees it.
///
/// # Errors
/// [`Refusal::BadHost`], [`Refusal::Encoded`].
pub fn check(head: &Parts) -> Result<(), Refusal> {
    if !has_fit_host(head.version, &head.headers) {
        return Err(Refusal::BadHost);
    }
    let may_have_body = head.method != Method::GET && head.method != Method::HEAD;
    if may_have_body && is_encoded(&head.headers) {
        return Err(Refusal::Encoded);
    }
    Ok(())
}

/// HTTP/1.1 requires exactly one `Host` (RFC 9112, section 3.2). HTTP/1.0 has none or one, and HTTP/2
/// has `:authority`.
fn has_fit_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => version != Version::HTTP_11,
        (Some(host), None) => is_host(host.as_bytes()),
        (Some(_), Some(_)) => false,
    }
}

/// Whether a text is `host` or `host:port`, or empty: a name, an IPv4 address, or an IPv6 address in
/// brackets. It becomes part of `Location`.
fn is_host(text: &[u8]) -> bool {
    let (name, rest) = match text.strip_prefix(b"[") {
        Some(after) => {
            let Some(end) = after.iter().position(|byte| *byte == b']') else { return false };
            let (address, rest) = after.split_at(end);
            let is_address = |it: &str| it.parse::<std::net::Ipv6Addr>().is_ok();
            if !std::str::from_utf8(address).is_ok_and(is_address) {
                return false;
            }
            (&b""[..], &rest[1..])
        }
        None => {
            let end = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
            text.split_at(end)
        }
    };
    let is_of_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let is_port = |digits: &[u8]| {
        digits.len() <= 5
            && digits.iter().all(u8::is_ascii_digit)
            && digits.iter().fold(0, |port, digit| port * 10 + u32::from(digit - b'0')) < 1 << 16
    };
    name.iter().all(is_of_name) && (rest.is_empty() || rest.strip_prefix(b":").is_some_and(is_port))
}

/// Whether a body is compressed, or its text is in another charset than UTF-8 or its subset US-ASCII.
fn is_encoded(headers: &HeaderMap) -> bool {
    let is_identity = |value: &[u8]| value.trim_ascii().eq_ignore_ascii_case(b"identity");
    let mut codings = headers.get_all(CONTENT_ENCODING).iter().map(|it| it.as_bytes());
    if codings.any(|it| !it.split(|byte| *byte == b',').all(is_identity)) {
        return true;
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let mut parameters = content_type.unwrap_or_default().split(';').skip(1);
    parameters.any(|parameter| {
        let Some((name, value)) = parameter.split_once('=') else { return false };
        let charset = value.trim().trim_matches('"');
        name.trim().eq_ignore_ascii_case("charset")
            && !["utf-8", "utf8", "us-ascii"].iter().any(|it| it.eq_ignore_ascii_case(charset))
    })
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn check_head(version: Version, headers: &[(&str, &str)], expected: Result<(), Refusal>) {
        let mut request = Request::post("/v1/x").version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(check(&head), expected, "{version:?} {headers:?}");
    }

    #[test]
    fn http_1_1_needs_exactly_one_host() {
        let bad = Err(Refusal::BadHost);
        check_head(Version::HTTP_11, &[("host", "kb:8080")], Ok(()));
        check_head(Version::HTTP_11, &[], bad);
        check_head(Version::HTTP_11, &[("host", "kb"), ("host", "kb")], bad);
        check_head(Version::HTTP_10, &[], Ok(()));
        check_head(Version::HTTP_10, &[("host", "kb"), ("host", "other")], bad);
        check_head(Version::HTTP_2, &[], Ok(()));
    }

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for host in ["", "kb", "kb.example.com:443", "a_b-1", "127.0.0.1:1", "[::1]", "[::1]:8080"]
        {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for text in [
            "kb/evil",
            "a@b",
            "a b",
            "a\"b",
            "a:b",
            "a:70000",
            "a:123456",
            "a:1:2",
            "[::1",
            "[x]",
            "[::1]x",
            "b\u{fc}cher",
            "a?b",
            "a#b",
            "<a>",
        ] {
            assert!(!is_host(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn bodies_are_utf_8_as_they_are() {
        let json = |value: &'static str| [("host", "kb"), ("content-type", value)];
        for fit in
            ["application/json", "application/json; charset=UTF-8", "text/x;charset=us-ascii"]
        {
            check_head(Version::HTTP_11, &json(fit), Ok(()));
        }
        let encoded = Err(Refusal::Encoded);
        for unfit in ["application/json; charset=utf-16", "a/b; x=y; Charset=\"ISO-8859-1\""] {
            check_head(Version::HTTP_11, &json(unfit), encoded);
        }
        let coded = |value: &'static str| [("host", "kb"), ("content-encoding", value)];
        check_head(Version::HTTP_11, &coded("identity"), Ok(()));
        check_head(Version::HTTP_11, &coded("gzip"), encoded);
        check_head(Version::HTTP_11, &coded("identity, br"), encoded);
    }
}
