//! The media types that requests may have and ask for.

/// The body that a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// None; one that is sent is not looked at.
    Nothing,
    /// One of any type, or none.
    Anything,
    Json,
    /// Text, as `text/plain`.
    Text,
    Xml,
}

impl Takes {
    /// Whether the body may be of this `Content-Type`.
    pub(crate) fn is_type(self, content_type: &[u8]) -> bool {
        let types: &[&str] = match self {
            Self::Nothing | Self::Anything => return true,
            Self::Json => &["application/json"],
            Self::Text => &["text/plain"],
            Self::Xml => &["text/xml", "application/xml"],
        };
        let sent = media_type(content_type);
        types.iter().any(|of| sent.eq_ignore_ascii_case(of.as_bytes()))
    }
}

/// The media types that a response can have; a request whose `Accept` has none of them is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    Json,
    /// Bytes without a type, as Kill Bill streams its queues.
    Octets,
    Text,
    Xml,
    JsonOrXml,
}

impl Gives {
    /// Whether an `Accept` header has one of them; an empty one has all.
    pub(crate) fn is_accepted(self, accept: &[u8]) -> bool {
        let mut ranges = accept.split(|byte| *byte == b',').map(media_type);
        accept.is_empty() || ranges.any(|it| self.media_types().iter().any(|of| includes(it, of)))
    }

    const fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::Json => &["application/json"],
            Self::Octets => &["application/octet-stream"],
            Self::Text => &["text/plain"],
            Self::Xml => &["text/xml", "application/xml"],
            Self::JsonOrXml => &["application/json", "text/xml", "application/xml"],
        }
    }
}

/// Whether a media range, such as `text/*`, includes a type.
fn includes(range: &[u8], media_type: &str) -> bool {
    let any = range.strip_suffix(b"/*");
    let main = media_type.split('/').next().unwrap_or_default();
    range == b"*/*"
        || range.eq_ignore_ascii_case(media_type.as_bytes())
        || any.is_some_and(|any| any.eq_ignore_ascii_case(main.as_bytes()))
}

/// A media type without its parameters.
fn media_type(value: &[u8]) -> &[u8] {
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_compared_without_case_and_parameters() {
        for accepted in ["", "application/json", "*/*", "text/html, application/*;q=0.5"] {
            assert!(Gives::Json.is_accepted(accepted.as_bytes()), "{accepted}");
        }
        for refused in ["application/xml", "text/html, text/*", "application/octet-stream"] {
            assert!(!Gives::Json.is_accepted(refused.as_bytes()), "{refused}");
        }
        assert!(Gives::Octets.is_accepted(b"application/*"));
        assert!(!Gives::Octets.is_accepted(b"application/json"));
        assert!(Gives::Text.is_accepted(b"TEXT/*"));
        assert!(Gives::JsonOrXml.is_accepted(b"application/xml"));
        assert!(Takes::Json.is_type(b"application/json; charset=utf-8"));
        assert!(Takes::Json.is_type(b"Application/JSON"));
        assert!(!Takes::Json.is_type(b"text/plain"));
        assert!(!Takes::Json.is_type(b"application/jsonp"));
        assert!(Takes::Text.is_type(b"text/plain; charset=utf-8"));
        assert!(Takes::Xml.is_type(b"application/xml"));
    }
}
