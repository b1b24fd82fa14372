//! The links in mails: pages of whoever runs the platform, with a token behind them.

use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands in a query as it is.
const TOKEN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Where links lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    base_url: String,
}

/// A text that links cannot begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no URL such as https://billing.example.org, without a query")]
pub struct NotABaseUrl;

impl Links {
    /// Links below this URL.
    ///
    /// # Errors
    /// [`NotABaseUrl`].
    pub fn new(base_url: &str) -> Result<Self, NotABaseUrl> {
        let uri: Uri = base_url.parse().map_err(|_| NotABaseUrl)?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        if !is_web || !has_host || base_url.contains(['?', '#', '@']) || base_url.len() > 1_024 {
            return Err(NotABaseUrl);
        }
        Ok(Self { base_url: base_url.trim_end_matches('/').to_owned() })
    }

    /// Confirms an address.
    #[must_use]
    pub fn verify_email(&self, token: &str) -> String {
        self.link("verify-email", token)
    }

    /// Chooses a new password.
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
    fn a_token_stays_in_its_place() {
        let links = Links::new("https://example.org/app/").unwrap();
        assert_eq!(links.verify_email("a-_b"), "https://example.org/app/verify-email?token=a-_b");
        let link = links.reset_password("a&b=\"c\" d");
        assert_eq!(link, "https://example.org/app/reset-password?token=a%26b%3D%22c%22%20d");
    }

    #[test]
    fn what_is_no_base_is_refused() {
        for text in [
            "",
            "example.org",
            "ftp://example.org",
            "https://",
            "https://a/?b",
            "https://a@b",
            "/x",
        ] {
            assert_eq!(Links::new(text), Err(NotABaseUrl), "{text}");
        }
    }
}
