//! Callbacks: the call that reports the end of an operation to its client, signed as Standard
//! Webhooks specifies.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use domain::operation::{Operation, OperationStatus};
use domain::{OperationId, Timestamp};
use engine::ports::BoxFuture;
use engine::time::rfc3339;
use ring::hmac;
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

/// The minimum length of a secret in bytes, as Standard Webhooks requires.
pub const SECRET_BYTES_MIN: usize = 24;
/// The maximum length of a secret in bytes, as Standard Webhooks requires.
pub const SECRET_BYTES_MAX: usize = 64;

/// May precede a secret in base64.
const SECRET_PREFIX: &str = "whsec_";

/// The longest secret in base64, with its prefix.
const SECRET_TEXT_BYTES_MAX: usize = 6 + SECRET_BYTES_MAX.div_ceil(3) * 4;

/// Delays from a failed call to the next attempt, as Standard Webhooks recommends; there is no
/// attempt after the last one.
pub const NOTIFY_DELAYS: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(5 * 3600),
    Duration::from_secs(10 * 3600),
    Duration::from_secs(14 * 3600),
    Duration::from_secs(20 * 3600),
    Duration::from_secs(24 * 3600),
];

/// The URL to call, and the secret to sign the call with.
#[derive(Clone, PartialEq, Eq)]
pub struct Callback {
    url: String,
    secret: Vec<u8>,
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
    /// The secret has another length, or is not base64.
    #[error(
        "is not {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64, with or without `whsec_`"
    )]
    Secret,
}

impl CallbackInvalid {
    /// The invalid part: `url` or `secret`.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Secret => "secret",
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
        if secret.len() > SECRET_TEXT_BYTES_MAX {
            return Err(CallbackInvalid::Secret);
        }
        let encoded = secret.strip_prefix(SECRET_PREFIX).unwrap_or(secret);
        let secret = BASE64.decode(encoded).map_err(|_| CallbackInvalid::Secret)?;
        match (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
            true => Ok(Self { url: url.to_owned(), secret }),
            false => Err(CallbackInvalid::Secret),
        }
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
        let secret = BASE64.encode(&self.secret);
        let stored = StoredCallback { disclosure, url: self.url, secret };
        let stored = serde_json::to_vec(&stored).expect("strings are plain JSON");
        sealer.seal(Purpose::Callback, id.uuid(), &stored)
    }

    /// The callback of an operation; `None` where it was sealed with another key.
    pub(super) fn open(sealer: &Sealer, operation: &Operation) -> Option<(Self, Disclosure)> {
        let sealed = operation.callback.as_deref()?;
        let opened = sealer.open(Purpose::Callback, operation.id.uuid(), sealed).ok()?;
        let StoredCallback { disclosure, url, secret } = serde_json::from_slice(&opened).ok()?;
        Some((Self { url, secret: BASE64.decode(secret).ok()? }, disclosure))
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
        let signature = sign(&self.secret, &id, &sent_at, &body);
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            ("webhook-id", id),
            ("webhook-timestamp", sent_at),
            ("webhook-signature", signature),
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

fn sign(secret: &[u8], id: &str, sent_at: &str, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    for part in [id.as_bytes(), b".", sent_at.as_bytes(), b".", body] {
        context.update(part);
    }
    format!("v1,{}", BASE64.encode(context.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_url() -> CallbackCheck {
        Arc::new(|url| if url.is_empty() { Err("is not a URL".to_owned()) } else { Ok(()) })
    }

    #[test]
    fn signatures_match_the_example_of_standard_webhooks() {
        // The example in the libraries of the specification.
        let secret = BASE64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed =
            sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_of_24_to_64_bytes_are_accepted() {
        let read = |secret: &str| Callback::read("https://a", secret, &any_url());
        for bytes in [24, 32, 64] {
            let text = BASE64.encode(vec![7; bytes]);
            assert_eq!(read(&text).unwrap().secret.len(), bytes);
            assert_eq!(read(&format!("whsec_{text}")).unwrap(), read(&text).unwrap());
        }
        let (short, long) = (BASE64.encode([7; 23]), BASE64.encode([7; 65]));
        for wrong in ["", "whsec_", "no base64!", &short, &long, &"A".repeat(4096)] {
            assert_eq!(read(wrong), Err(CallbackInvalid::Secret), "{wrong}");
        }
        let shown = format!("{:?}", read(&BASE64.encode([7; 24])).unwrap());
        assert_eq!(shown, r#"Callback { url: "https://a", .. }"#);
    }
}
