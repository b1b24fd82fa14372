//! The links in mails: pages of the platform with a token as query parameter.

use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that are percent-encoded in a token.
const TOKEN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Creates links to the pages of the platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    base_url: String,
}

/// The base URL is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no URL such as https://billing.example.org, without a query")]
pub struct InvalidBaseUrl;

impl Links {
    /// Links that begin with this URL.
    ///
    /// # Errors
    /// [`InvalidBaseUrl`].
    pub fn new(base_url: &str) -> Result<Self, InvalidBaseUrl> {
        let uri: Uri = base_url.parse().map_err(|_| InvalidBaseUrl)?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        if !is_web || !has_host || base_url.contains(['?', '#', '@']) || base_url.len() > 1_024 {
            return Err(InvalidBaseUrl);
        }
        Ok(Self { base_url: base_url.trim_end_matches('/').to_owned() })
    }

    /// The page that confirms an address.
    #[must_use]
    pub fn verify_email(&self, token: &str) -> String {
        self.link("verify-email", token)
    }

    /// The page that sets a new password.
    #[must_use]
    pub fn reset_password(&self, token: &str) -> String {
        self.link("reset-password", token)
    }

    fn link(&self, page: &str, token: &str) -> String {
        format!("{}/{page}?token={}", self.base_url, utf8_percent_encode(token, TOKEN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_percent_encoded() {
        let links = Links::new("https://example.org/app/").unwrap();
        assert_eq!(links.verify_email("a-_b"), "https://example.org/app/verify-email?token=a-_b");
        let link = links.reset_password("a&b=\"c\" d");
        assert_eq!(link, "https://example.org/app/reset-password?token=a%26b%3D%22c%22%20d");
    }

    #[test]
    fn invalid_base_urls_are_refused() {
        for text in [
            "",
            "example.org",
            "ftp://example.org",
            "https://",
            "https://a/?b",
            "https://a@b",
            "/x",
        ] {
            assert_eq!(Links::new(text), Err(InvalidBaseUrl), "{text}");
        }
    }
}
