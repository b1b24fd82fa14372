//! Who is told the end of an operation, and how they know who tells them: signed as Standard
//! Webhooks has it, so that its libraries check it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use domain::operation::Operation;
use domain::{OperationId, Timestamp};
use engine::ports::BoxFuture;
use http::HeaderMap;
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::{Manner, OperationShown};
use crate::seal::{Purpose, Sealer};

/// Says why a URL may not be called.
pub type CallbackCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Posts a delivery; any answer of 2xx is one. What went wrong goes into the log.
pub type Post = Arc<dyn Fn(Delivery) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// How long a secret may be, in bytes: what Standard Webhooks asks for.
pub const SECRET_BYTES_MIN: usize = 24;
/// See [`SECRET_BYTES_MIN`].
pub const SECRET_BYTES_MAX: usize = 64;

/// What stands before a secret in base64.
const SECRET_PREFIX: &str = "whsec_";

/// How long a secret may be as it is sent: with its prefix.
const SECRET_TEXT_BYTES_MAX: usize = 6 + SECRET_BYTES_MAX.div_ceil(3) * 4;

/// The headers by which doors whose bodies have no place for it take a callback.
const URL_HEADER: &str = "x-faregate-callback";
const SECRET_HEADER: &str = "x-faregate-callback-secret";

/// When a call that failed is tried again, counted from the failure; after the last one it is given
/// up. Standard Webhooks' schedule.
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

/// Who is told, and what it is signed with.
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

/// Why there is no such callback.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackInvalid {
    /// The URL may not be called.
    #[error("{0}")]
    Url(String),
    /// The secret is none.
    #[error(
        "is not {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64, with or without `whsec_`"
    )]
    Secret,
}

impl CallbackInvalid {
    /// What is wrong: `url` or `secret`.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Secret => "secret",
        }
    }
}

/// A call: a POST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Where.
    pub url: String,
    /// Its headers beside those that every POST has, the content type among them.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: Bytes,
}

/// A callback as it is kept; it is only ever stored encrypted.
#[derive(Serialize, Deserialize)]
struct Kept {
    manner: Manner,
    url: String,
    secret: String,
}

impl Callback {
    /// A callback that a client named.
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

    /// The callback that headers name, if they do: `X-Faregate-Callback` and
    /// `X-Faregate-Callback-Secret`.
    ///
    /// # Errors
    /// [`CallbackInvalid`].
    pub fn of_headers(
        headers: &HeaderMap,
        check: &CallbackCheck,
    ) -> Result<Option<Self>, CallbackInvalid> {
        let text = |name: &str| headers.get(name).map(|it| it.to_str().unwrap_or_default());
        match (text(URL_HEADER), text(SECRET_HEADER)) {
            (None, None) => Ok(None),
            (url, secret) => {
                let (url, secret) = (url.unwrap_or_default(), secret.unwrap_or_default());
                Self::read(url, secret, check).map(Some)
            }
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Encrypted, for the operation's row.
    pub(super) fn seal(self, sealer: &Sealer, id: OperationId, manner: Manner) -> String {
        let kept = Kept { manner, url: self.url, secret: BASE64.encode(&self.secret) };
        let kept = serde_json::to_vec(&kept).expect("texts are plain JSON");
        sealer.seal(Purpose::Callback, id.uuid(), &kept)
    }

    /// What was sealed; none where it was with another key.
    pub(super) fn open(sealer: &Sealer, operation: &Operation) -> Option<(Self, Manner)> {
        let sealed = operation.callback.as_deref()?;
        let opened = sealer.open(Purpose::Callback, operation.id.uuid(), sealed)?;
        let Kept { manner, url, secret } = serde_json::from_slice(&opened).ok()?;
        Some((Self { url, secret: BASE64.decode(secret).ok()? }, manner))
    }

    /// The call that tells the end of an operation; `now` is real time.
    pub(super) fn delivery(
        self,
        operation: &Operation,
        manner: Manner,
        now: Timestamp,
    ) -> Delivery {
        #[derive(Serialize)]
        struct Payload {
            #[serde(rename = "type")]
            kind: String,
            timestamp: String,
            data: OperationShown,
        }
        let data = OperationShown::new(operation, manner);
        let timestamp = operation.settled_at.unwrap_or(now);
        let kind = format!("registration.{}", data.status);
        let payload = Payload { kind, timestamp: crate::native::moment(timestamp), data };
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

    fn anything() -> CallbackCheck {
        Arc::new(|url| if url.is_empty() { Err("is not a URL".to_owned()) } else { Ok(()) })
    }

    #[test]
    fn the_signature_is_that_of_standard_webhooks() {
        // The example of its specification's libraries.
        let secret = BASE64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed =
            sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_have_24_to_64_bytes() {
        let read = |secret: &str| Callback::read("https://a", secret, &anything());
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

    #[test]
    fn headers_name_a_callback_whole_or_not_at_all() {
        let read = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
            Callback::of_headers(&pairs.collect(), &anything())
        };
        let secret = BASE64.encode([7; 24]);
        assert_eq!(read(&[]), Ok(None));
        let whole = read(&[(URL_HEADER, "https://a"), (SECRET_HEADER, &secret)]);
        assert_eq!(whole.unwrap().unwrap().url(), "https://a");
        assert_eq!(read(&[(URL_HEADER, "https://a")]), Err(CallbackInvalid::Secret));
        let url = CallbackInvalid::Url("is not a URL".to_owned());
        assert_eq!(read(&[(SECRET_HEADER, &secret)]), Err(url));
    }
}
