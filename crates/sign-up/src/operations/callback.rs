//! Callbacks: the call that reports the end of an operation to its client, signed as Standard
//! Webhooks specifies.

use std::sync::Arc;

use bytes::Bytes;
use domain::customer::operation::{Operation, OperationStatus};
use domain::{OperationId, Timestamp};
use engine::ports::BoxFuture;
use engine::time::rfc3339;
use secrets::webhook::{self, NoSecret};
use secrets::{Purpose, Sealer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Disclosure;

/// Checks whether a URL may be called; the error is the reason for the client.
pub type CallbackCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Posts a delivery, which succeeds with any 2xx.
pub type Deliver =
    Arc<dyn Fn(Delivery) -> BoxFuture<'static, Result<(), NotDelivered>> + Send + Sync>;

/// Why a delivery did not succeed; for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotDelivered {
    #[error("{0}")]
    Refused(String),
    #[error("the callback did not answer in time")]
    TimedOut,
}

/// The URL to call, and the secret to sign the call with.
#[derive(Clone, PartialEq, Eq)]
pub struct Callback {
    url: String,
    secret: webhook::Secret,
}

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callback").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A callback that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackInvalid {
    /// The URL may not be called.
    #[error("{0}")]
    Url(String),
    #[error(transparent)]
    Secret(#[from] NoSecret),
}

impl CallbackInvalid {
    /// The invalid part: `url` or `secret`.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Secret(_) => "secret",
        }
    }
}

/// A POST request to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub url: String,
    /// The headers besides those of every POST; the content type is one of them.
    pub headers: Vec<(&'static str, String)>,
    /// A JSON document.
    pub body: Bytes,
}

/// A callback as it is stored, always encrypted.
#[derive(Serialize, Deserialize)]
struct StoredCallback {
    disclosure: Disclosure,
    url: String,
    secret: String,
}

impl Callback {
    /// Validates the callback of a request.
    ///
    /// # Errors
    /// [`CallbackInvalid`].
    pub fn read(url: &str, secret: &str, check: &CallbackCheck) -> Result<Self, CallbackInvalid> {
        check(url).map_err(CallbackInvalid::Url)?;
        Ok(Self { url: url.to_owned(), secret: webhook::Secret::parse(secret)? })
    }

    /// The host of the URL, as it was checked: one host, whatever its port.
    pub(super) fn host(&self) -> String {
        let (_, rest) = self.url.split_once("://").unwrap_or_default();
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let authority = &rest[..end];
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if is_port(port) => host,
            Some(_) | None => authority,
        };
        host.trim_end_matches('.').to_ascii_lowercase()
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Encrypted, for the operation's row.
    pub(super) fn seal(self, sealer: &Sealer, id: OperationId, disclosure: Disclosure) -> String {
        let stored = StoredCallback { disclosure, url: self.url, secret: self.secret.reveal() };
        let stored = serde_json::to_vec(&stored).expect("strings are plain JSON");
        sealer.seal(Purpose::Callback, id.uuid(), &stored)
    }

    /// The callback of an operation; `None` where it was sealed with another key.
    pub(super) fn open(sealer: &Sealer, operation: &Operation) -> Option<(Self, Disclosure)> {
        let sealed = operation.callback.as_deref()?;
        let opened = sealer.open(Purpose::Callback, operation.id.uuid(), sealed).ok()?;
        let StoredCallback { disclosure, url, secret } = serde_json::from_slice(&opened).ok()?;
        Some((Self { url, secret: webhook::Secret::parse(&secret).ok()? }, disclosure))
    }

    /// The call that reports the end of an operation, whose JSON is `data`; `now` is real time.
    pub(super) fn delivery(
        self,
        operation: &Operation,
        data: Box<RawValue>,
        now: Timestamp,
    ) -> Delivery {
        #[derive(Serialize)]
        struct Payload {
            #[serde(rename = "type")]
            kind: &'static str,
            timestamp: String,
            data: Box<RawValue>,
        }
        let timestamp = rfc3339(operation.settled_at.unwrap_or(now));
        let payload = Payload { kind: event_type(&operation.status), timestamp, data };
        let body = serde_json::to_vec(&payload).expect("a payload is plain JSON");
        let (id, sent_at) = (operation.id.to_string(), now.0.div_euclid(1_000_000).to_string());
        let signature = self.secret.sign(&id, &sent_at, &body);
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            (webhook::ID, id),
            (webhook::TIMESTAMP, sent_at),
            (webhook::SIGNATURE, signature),
        ];
        Delivery { url: self.url, headers, body: body.into() }
    }
}

const fn event_type(status: &OperationStatus) -> &'static str {
    match status {
        OperationStatus::Waiting => "registration.waiting",
        OperationStatus::Succeeded(_) => "registration.succeeded",
        OperationStatus::Failed(_) => "registration.failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_shows_no_secret() {
        let any_url: CallbackCheck = Arc::new(|_| Ok(()));
        let secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let read = Callback::read("https://a", secret, &any_url).unwrap();
        assert_eq!(format!("{read:?}"), r#"Callback { url: "https://a", .. }"#);
        let refused = Callback::read("https://a", "whsec_", &any_url).unwrap_err();
        assert_eq!((refused.field(), refused), ("secret", CallbackInvalid::Secret(NoSecret)));
    }
}
