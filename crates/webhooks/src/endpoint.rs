//! A tenant's webhook endpoints: where each is, what it receives, and what its deliveries are signed with. They are
//! stored together, sealed: URLs and headers have secrets in them too.

use std::collections::BTreeMap;

use domain::tenant::webhook::DisableReason;
use domain::{Seq, TenantNo, Timestamp, WebhookEndpointId};
use engine::ports::CALLBACK;
use http::header::{HeaderName, HeaderValue};
use secrets::webhook::{KeyPair, Secret};
use secrets::{Purpose, Sealer};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event::EVENT_TYPES;

/// How many endpoints a tenant has at most, besides Kill Bill's callback.
pub const ENDPOINTS_MAX: usize = 100;
/// How many types or groups of events an endpoint names at most.
pub const EVENTS_MAX: usize = 64;
/// How many headers an endpoint has at most.
pub const HEADERS_MAX: usize = 10;
/// How many answers to requests with an idempotency key a tenant has at most.
pub const ANSWERS_MAX: usize = 64;
/// The maximum length of a header's value.
pub const HEADER_BYTES_MAX: usize = 1_024;

/// Headers that are ours, or that are about a connection and not about its messages.
const HEADERS_REFUSED: [&str; 15] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
/// The prefixes of the names of our other headers.
const PREFIXES_REFUSED: [&str; 2] = ["webhook-", "x-faregate-"];

/// All endpoints of a tenant.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Endpoints {
    /// In the order in which they were made.
    pub all: Vec<Endpoint>,
    /// The keys of Kill Bill's callback, once its secret was shown; before, it is [`callback_secret`].
    pub callback: Option<Keys>,
    /// The answers to changes with an idempotency key, the oldest first. They contain secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<StoredAnswer>,
    /// Which registration of Kill Bill's callback was switched off; one that came after it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_off: Option<CallbackOff>,
}

/// A callback that was switched off because it does not receive.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CallbackOff {
    pub reason: DisableReason,
    pub at: Timestamp,
    /// The journal row that registered it.
    pub registered: Seq,
}

/// The answer to a change that may be asked for again.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// Names the tenant's user and their idempotency key.
    pub key: Uuid,
    /// Of the request.
    pub fingerprint: Uuid,
    /// Domain time from which on it is not given again.
    pub until: Timestamp,
    /// The body, as JSON.
    pub answer: String,
}

/// Where a tenant receives events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    pub id: WebhookEndpointId,
    pub url: String,
    pub format: Format,
    /// Types of events, or groups such as `payment.*`; all where it is empty.
    pub events: Vec<String>,
    /// Further headers of each delivery.
    pub headers: BTreeMap<String, String>,
    pub description: Option<String>,
    pub status: Status,
    pub keys: Keys,
    /// Whether deliveries have an Ed25519 signature too.
    pub is_asymmetric: bool,
    pub created_at: Timestamp,
    /// Counts changes, from 1.
    pub version: i64,
}

/// The body of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// Standard Webhooks: `type`, `timestamp`, `data`.
    Standard,
    /// As Kill Bill posts it to callbacks. Events that it does not have are not delivered.
    KillBill,
}

/// Whether an endpoint receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    On,
    /// The tenant switched it off.
    Paused,
    /// It was switched off because it did not receive.
    Disabled {
        reason: DisableReason,
        /// Domain time.
        at: Timestamp,
    },
}

/// The keys that sign deliveries: the current one, and the one before it for a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Keys {
    pub current: Key,
    pub previous: Option<PreviousKey>,
}

/// A key that was replaced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PreviousKey {
    pub key: Key,
    /// Domain time from which on it signs no more.
    pub until: Timestamp,
}

/// A secret, and what a key pair is made of where there is one; both in base64.
#[derive(Clone, Serialize, Deserialize)]
pub struct Key {
    secret: String,
    pair: Option<String>,
}

/// Keys that are read and ready to sign.
pub struct Signer {
    keys: Vec<(SigningKey, Option<Timestamp>)>,
}

struct SigningKey {
    secret: Secret,
    pair: Option<KeyPair>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl std::fmt::Debug for StoredAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoredAnswer")
    }
}

/// The secret that signs deliveries to a tenant's callback until it is replaced. It is derived, so that
/// registering a callback stores no more than its URL.
#[must_use]
pub fn callback_secret(sealer: &Sealer, tenant: TenantNo) -> Secret {
    Secret::derived(&sealer.derive(Purpose::WebhookCallback, bound_to(tenant)))
}

impl Endpoints {
    /// Whether a callback that was registered by this journal row is on.
    #[must_use]
    pub fn is_callback_on(&self, registered: Seq) -> bool {
        self.callback_off.is_none_or(|off| off.registered != registered)
    }

    /// Switches off an endpoint that is on; whether it was. `callback` is the row that registered Kill Bill's callback,
    /// where there is one.
    pub fn switch_off(
        &mut self,
        id: WebhookEndpointId,
        (reason, at): (DisableReason, Timestamp),
        callback: Option<Seq>,
    ) -> bool {
        if id == CALLBACK {
            let registered = callback.filter(|it| self.is_callback_on(*it));
            self.callback_off = registered
                .map(|registered| CallbackOff { reason, at, registered })
                .or(self.callback_off);
            return registered.is_some();
        }
        let mut all = self.all.iter_mut();
        let Some(found) = all.find(|it| it.id == id && it.status == Status::On) else {
            return false;
        };
        found.status = Status::Disabled { reason, at };
        found.version += 1;
        true
    }

    /// The answer that was given under an idempotency key, as long as it is given again.
    #[must_use]
    pub fn answered(&self, key: Uuid, now: Timestamp) -> Option<&StoredAnswer> {
        self.answers.iter().find(|it| it.key == key && now < it.until)
    }

    /// Stores an answer, in place of the oldest one where there is no room.
    pub fn store_answer(&mut self, answer: StoredAnswer, now: Timestamp) {
        self.answers.retain(|it| now < it.until && it.key != answer.key);
        if self.answers.len() >= ANSWERS_MAX {
            self.answers.remove(0);
        }
        self.answers.push(answer);
    }

    /// Reads what [`Self::seal`] gave.
    ///
    /// # Errors
    /// [`secrets::Error`]: it was sealed with another key, or for another tenant.
    pub fn open(sealer: &Sealer, tenant: TenantNo, sealed: &str) -> Result<Self, secrets::Error> {
        let opened = sealer.open(Purpose::WebhookEndpoints, bound_to(tenant), sealed)?;
        serde_json::from_slice(&opened).map_err(|_| secrets::Error::CannotDecrypt)
    }

    /// Seals them, bound to the tenant.
    #[must_use]
    pub fn seal(&self, sealer: &Sealer, tenant: TenantNo) -> String {
        let text = serde_json::to_vec(self).expect("plain data can be written");
        sealer.seal(Purpose::WebhookEndpoints, bound_to(tenant), &text)
    }
}

fn bound_to(tenant: TenantNo) -> Uuid {
    Uuid::from_u128(tenant.0.into())
}

impl Format {
    pub const ALL: [Self; 2] = [Self::Standard, Self::KillBill];

    /// Its name in requests and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::KillBill => "killbill",
        }
    }
}

impl Keys {
    /// A first key.
    #[must_use]
    pub const fn of(current: Key) -> Self {
        Self { current, previous: None }
    }

    /// The keys with a new current one. The one before signs too until then, and none that is older.
    #[must_use]
    pub fn rotated(self, current: Key, until: Timestamp) -> Self {
        Self { current, previous: Some(PreviousKey { key: self.current, until }) }
    }
}

impl Key {
    /// A key of this secret, with a new key pair where one is wanted.
    #[must_use]
    pub fn new(secret: &Secret, is_asymmetric: bool) -> Self {
        let pair = is_asymmetric.then(|| KeyPair::draw().reveal());
        Self { secret: secret.reveal(), pair }
    }

    /// The public half of its key pair, as Standard Webhooks writes it.
    #[must_use]
    pub fn public(&self) -> Option<String> {
        self.pair.as_deref().and_then(KeyPair::parse).map(|pair| pair.public())
    }

    fn to_sign_with(&self) -> Option<SigningKey> {
        let secret = Secret::parse(&self.secret).ok()?;
        Some(SigningKey { secret, pair: self.pair.as_deref().and_then(KeyPair::parse) })
    }
}

impl Signer {
    #[must_use]
    pub fn new(keys: &Keys) -> Self {
        let previous = keys.previous.iter().map(|it| (&it.key, Some(it.until)));
        let all = std::iter::once((&keys.current, None)).chain(previous);
        let keys = all.filter_map(|(key, until)| Some((key.to_sign_with()?, until)));
        Self { keys: keys.collect() }
    }

    /// The value of `webhook-signature`: of each key that signs at the domain time `now`.
    #[must_use]
    pub fn sign(&self, now: Timestamp, id: &str, timestamp: &str, body: &[u8]) -> String {
        let in_use = self.keys.iter().filter(|(_, until)| until.is_none_or(|until| now < until));
        let signatures = in_use.flat_map(|(key, _)| {
            let pair = key.pair.as_ref().map(|it| it.sign(id, timestamp, body));
            std::iter::once(key.secret.sign(id, timestamp, body)).chain(pair)
        });
        signatures.collect::<Vec<_>>().join(" ")
    }
}

/// Whether an endpoint that names these events wants one of this type.
#[must_use]
pub fn wants(events: &[String], event_type: &str) -> bool {
    let is_it = |wanted: &String| match wanted.strip_suffix('*') {
        Some(group) => event_type.starts_with(group),
        None => wanted == event_type,
    };
    events.is_empty() || events.iter().any(is_it)
}

/// Whether a text names a type of events, or a group of them such as `payment.*`.
#[must_use]
pub fn is_event_type(text: &str) -> bool {
    match text.strip_suffix(".*") {
        Some(group) => EVENT_TYPES
            .iter()
            .any(|it| it.strip_prefix(group).is_some_and(|it| it.starts_with('.'))),
        None => EVENT_TYPES.contains(&text),
    }
}

/// Reads a header of deliveries.
///
/// # Errors
/// Why it cannot be one.
pub fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let lower = name.to_ascii_lowercase();
    let is_refused = HEADERS_REFUSED.contains(&lower.as_str())
        || PREFIXES_REFUSED.iter().any(|it| lower.starts_with(it));
    if is_refused {
        return Err("is set by the server");
    }
    if value.len() > HEADER_BYTES_MAX {
        return Err("has a value of more than 1024 bytes");
    }
    let name = HeaderName::try_from(lower).map_err(|_| "is no name of a header")?;
    let is_visible = value.bytes().all(|it| it.is_ascii_graphic() || it == b' ');
    let value = HeaderValue::try_from(value).ok().filter(|_| is_visible);
    Ok((name, value.ok_or("has a value that a header does not carry")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8, is_asymmetric: bool) -> Key {
        let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [byte; 24]);
        Key::new(&Secret::parse(&text).unwrap(), is_asymmetric)
    }

    #[test]
    fn both_keys_sign_until_the_overlap_ends() {
        let keys = Keys::of(key(1, false)).rotated(key(2, true), Timestamp(100));
        let signer = Signer::new(&keys);
        let sign = |now| signer.sign(Timestamp(now), "evt_1", "1", b"{}");
        let (during, after) = (sign(99), sign(100));
        let versions = |text: &str| {
            let all = text.split(' ').map(|it| it.split_once(',').unwrap().0.to_owned());
            all.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            (versions(&during).as_str(), versions(&after).as_str()),
            ("v1 v1a v1", "v1 v1a")
        );
        assert!(during.starts_with(&after));
        assert_eq!(format!("{keys:?}").matches("Key").count(), 4, "no secrets: {keys:?}");
    }

    #[test]
    fn answers_are_stored_for_a_time_and_up_to_a_bound() {
        let answer = |key: u128, until| StoredAnswer {
            key: Uuid::from_u128(key),
            fingerprint: Uuid::nil(),
            until: Timestamp(until),
            answer: "secret".to_owned(),
        };
        let mut endpoints = Endpoints::default();
        endpoints.store_answer(answer(0, 10), Timestamp(0));
        assert!(endpoints.answered(Uuid::from_u128(0), Timestamp(9)).is_some());
        assert!(endpoints.answered(Uuid::from_u128(0), Timestamp(10)).is_none());
        assert!(endpoints.answered(Uuid::from_u128(1), Timestamp(9)).is_none());
        for key in 1..=ANSWERS_MAX as u128 {
            endpoints.store_answer(answer(key, 20), Timestamp(9));
        }
        assert_eq!(endpoints.answers.len(), ANSWERS_MAX);
        assert!(endpoints.answered(Uuid::from_u128(0), Timestamp(9)).is_none(), "the oldest");
        endpoints.store_answer(answer(1_000, 30), Timestamp(20));
        assert_eq!(endpoints.answers.len(), 1, "an answer that has expired takes no room");
        assert!(!format!("{endpoints:?}").contains("secret"));
    }

    #[test]
    fn endpoints_open_for_their_tenant_with_their_key_only() {
        let sealer = Sealer::new(&[7; 32]);
        let endpoints =
            Endpoints { callback: Some(Keys::of(key(1, true))), ..Endpoints::default() };
        let sealed = endpoints.seal(&sealer, TenantNo(3));
        assert!(Endpoints::open(&sealer, TenantNo(3), &sealed).unwrap().callback.is_some());
        assert!(Endpoints::open(&sealer, TenantNo(4), &sealed).is_err());
        assert!(Endpoints::open(&Sealer::new(&[8; 32]), TenantNo(3), &sealed).is_err());
    }

    #[test]
    fn events_are_named_by_type_or_group() {
        for known in ["payment.failed", "payment.*", "webhook.*", "account.created"] {
            assert!(is_event_type(known), "{known}");
        }
        for unknown in
            ["", "*", "payment", "payment.", "pay.*", "payment.f*", "PAYMENT.FAILED", ".*"]
        {
            assert!(!is_event_type(unknown), "{unknown}");
        }
        let only = ["payment.*".to_owned(), "account.created".to_owned()];
        assert!(wants(&only, "payment.failed") && wants(&only, "account.created"));
        assert!(!wants(&only, "account.changed"));
        assert!(wants(&[], "account.changed"));
    }

    #[test]
    fn headers_of_connections_and_ours_are_refused() {
        let refused = |name, value| header(name, value).unwrap_err();
        for name in [
            "Host",
            "Content-Length",
            "Transfer-Encoding",
            "TE",
            "Webhook-Id",
            "X-Faregate-Sequence",
        ] {
            assert_eq!(refused(name, "x"), "is set by the server", "{name}");
        }
        assert_eq!(refused("a b", "x"), "is no name of a header");
        assert_eq!(refused("", "x"), "is no name of a header");
        for value in ["a\r\nHost: b", "ä", "\u{7f}"] {
            assert_eq!(refused("X-A", value), "has a value that a header does not carry");
        }
        assert_eq!(refused("X-A", &"x".repeat(1_025)), "has a value of more than 1024 bytes");
        assert!(header("Authorization", "Bearer token").is_ok());
    }
}
