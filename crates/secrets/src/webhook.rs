//! Signatures of HTTP messages as Standard Webhooks 1.0 defines them: of what we send to callbacks and
//! gateways, and of what they send to us.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::key_file::Key;
use crate::random;

/// The minimum length of a secret in bytes, as Standard Webhooks requires.
pub const SECRET_BYTES_MIN: usize = 24;
/// The maximum length of a secret in bytes, as Standard Webhooks requires.
pub const SECRET_BYTES_MAX: usize = 64;
/// How far a message's time may be from ours, as Standard Webhooks recommends.
pub const TOLERANCE_S: i64 = 5 * 60;

/// Delays from a failed delivery to the next, as Standard Webhooks recommends; there is none after the last one.
/// 75 hours in all.
pub const RETRY_DELAYS: [Duration; 9] = [
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

/// The header with the message's id.
pub const ID: &str = "webhook-id";
/// The header with the time of the message, in Unix seconds.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// The header with the signatures, separated by spaces.
pub const SIGNATURE: &str = "webhook-signature";

/// May precede a secret in base64.
const SECRET_PREFIX: &str = "whsec_";
/// Precedes the public half of a key pair in base64.
const PUBLIC_PREFIX: &str = "whpk_";
/// The length of a drawn secret in bytes.
const DRAWN_BYTES: usize = 32;
/// The length in bytes of what a key pair is made of.
const SEED_BYTES: usize = 32;
/// The longest secret in base64, with its prefix.
const SECRET_TEXT_BYTES_MAX: usize = SECRET_PREFIX.len() + SECRET_BYTES_MAX.div_ceil(3) * 4;
/// Precedes an HMAC-SHA256 in base64.
const VERSION: &str = "v1,";
/// Precedes an Ed25519 signature in base64.
const ASYMMETRIC_VERSION: &str = "v1a,";
/// How many signatures of a message are looked at: a few are there while a secret is rotated.
const SIGNATURES_MAX: usize = 16;

/// A secret that both sides know.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// A pair of Ed25519 keys: receivers verify with the public half, and cannot sign with it.
pub struct KeyPair {
    pair: Ed25519KeyPair,
    seed: [u8; SEED_BYTES],
}

/// A text that is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64, with or without `whsec_`"
)]
pub struct NoSecret;

/// The three headers of a message.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    pub id: &'a str,
    pub timestamp: &'a str,
    pub signature: &'a str,
}

/// Why a message is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// The time is no number, or too far from ours.
    #[error("{TIMESTAMP} is missing, or more than five minutes off")]
    Time,
    /// None of its signatures was made with the secret.
    #[error("{SIGNATURE} does not match")]
    Signature,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPair")
    }
}

impl KeyPair {
    /// A new pair.
    #[must_use]
    pub fn draw() -> Self {
        Self::of(random::bytes())
    }

    /// The pair that [`Self::reveal`] gave; `None` if it gave no such text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        BASE64.decode(text).ok()?.try_into().ok().map(Self::of)
    }

    fn of(seed: [u8; SEED_BYTES]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed has 32 bytes");
        Self { pair, seed }
    }

    /// The seed of the pair, in base64: a secret.
    #[must_use]
    pub fn reveal(&self) -> String {
        BASE64.encode(self.seed)
    }

    /// The public half, as Standard Webhooks writes it.
    #[must_use]
    pub fn public(&self) -> String {
        format!("{PUBLIC_PREFIX}{}", BASE64.encode(self.pair.public_key()))
    }

    /// The signature of a message: a value of [`SIGNATURE`].
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let signature = self.pair.sign(&signed(id, timestamp, body).concat());
        format!("{ASYMMETRIC_VERSION}{}", BASE64.encode(signature))
    }
}

impl Secret {
    /// A new secret of 32 bytes.
    #[must_use]
    pub fn draw() -> Self {
        Self(random::bytes::<DRAWN_BYTES>().to_vec())
    }

    /// The secret with the bytes of a derived key.
    #[must_use]
    pub fn derived(key: &Key) -> Self {
        Self(key.to_vec())
    }

    /// The secret as Standard Webhooks writes it: with its prefix.
    #[must_use]
    pub fn prefixed(&self) -> String {
        format!("{SECRET_PREFIX}{}", self.reveal())
    }

    /// Reads a secret in base64.
    ///
    /// # Errors
    /// [`NoSecret`].
    pub fn parse(text: &str) -> Result<Self, NoSecret> {
        if text.len() > SECRET_TEXT_BYTES_MAX {
            return Err(NoSecret);
        }
        let encoded = text.strip_prefix(SECRET_PREFIX).unwrap_or(text);
        let bytes = BASE64.decode(encoded).map_err(|_| NoSecret)?;
        match (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            true => Ok(Self(bytes)),
            false => Err(NoSecret),
        }
    }

    /// The secret in base64, without the prefix.
    #[must_use]
    pub fn reveal(&self) -> String {
        BASE64.encode(&self.0)
    }

    /// The signature of a message: the value of [`SIGNATURE`].
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut context = hmac::Context::with_key(&key);
        signed(id, timestamp, body).into_iter().for_each(|part| context.update(part));
        format!("{VERSION}{}", BASE64.encode(context.sign()))
    }

    /// Checks that a message was signed with this secret, `now_s` being the Unix time. Signatures are compared
    /// in constant time.
    ///
    /// # Errors
    /// [`Untrusted`].
    pub fn verify(&self, it: Headers<'_>, body: &[u8], now_s: i64) -> Result<(), Untrusted> {
        let sent_s: i64 = it.timestamp.parse().map_err(|_| Untrusted::Time)?;
        if now_s.checked_sub(sent_s).is_none_or(|age_s| age_s.unsigned_abs() > TOLERANCE_S as u64) {
            return Err(Untrusted::Time);
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let message = signed(it.id, it.timestamp, body).concat();
        let is_ours = |signature: &str| {
            let tag = signature.strip_prefix(VERSION).and_then(|it| BASE64.decode(it).ok());
            tag.is_some_and(|tag| hmac::verify(&key, &message, &tag).is_ok())
        };
        match it.signature.split(' ').take(SIGNATURES_MAX).any(is_ours) {
            true => Ok(()),
            false => Err(Untrusted::Signature),
        }
    }
}

/// The parts of the signed text of a message.
const fn signed<'a>(id: &'a str, timestamp: &'a str, body: &'a [u8]) -> [&'a [u8]; 5] {
    [id.as_bytes(), b".", timestamp.as_bytes(), b".", body]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the libraries of the specification.
    const EXAMPLE: (&str, &str, &[u8]) =
        ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
    const EXAMPLE_SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn example_secret() -> Secret {
        Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()
    }

    #[test]
    fn signatures_match_the_example_of_standard_webhooks() {
        let (id, timestamp, body) = EXAMPLE;
        assert_eq!(example_secret().sign(id, timestamp, body), EXAMPLE_SIGNATURE);
    }

    #[test]
    fn key_pairs_sign_what_their_public_half_verifies() {
        let (id, timestamp, body) = EXAMPLE;
        let pair = KeyPair::draw();
        let signature = pair.sign(id, timestamp, body);
        let again = KeyPair::parse(&pair.reveal()).unwrap();
        assert_eq!(again.sign(id, timestamp, body), signature, "Ed25519 draws no numbers");
        let bytes = BASE64.decode(signature.strip_prefix("v1a,").unwrap()).unwrap();
        let public = BASE64.decode(pair.public().strip_prefix("whpk_").unwrap()).unwrap();
        let verified = |message: &str| {
            let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, &public);
            key.verify(message.as_bytes(), &bytes).is_ok()
        };
        let text = std::str::from_utf8(body).unwrap();
        assert!(verified(&format!("{id}.{timestamp}.{text}")));
        assert!(!verified(&format!("{id}.1614265331.{text}")));
        for wrong in ["", "AAAA", "no base64!"] {
            assert!(KeyPair::parse(wrong).is_none(), "{wrong}");
        }
        assert_eq!(format!("{pair:?}"), "KeyPair");
    }

    #[test]
    fn drawn_secrets_are_read_as_they_are_shown() {
        let secret = Secret::draw();
        assert_eq!(Secret::parse(&secret.prefixed()), Ok(secret.clone()));
        assert_ne!(Secret::draw(), secret);
    }

    #[test]
    fn a_message_is_believed_with_one_signature_of_the_secret_in_time() {
        let (id, timestamp, body) = EXAMPLE;
        let at = 1_614_265_330;
        let headers = Headers { id, timestamp, signature: EXAMPLE_SIGNATURE };
        let verify = |headers, body, now_s| example_secret().verify(headers, body, now_s);
        for now_s in [at, at - TOLERANCE_S, at + TOLERANCE_S] {
            assert_eq!(verify(headers, body, now_s), Ok(()));
        }
        for now_s in [at - TOLERANCE_S - 1, at + TOLERANCE_S + 1, i64::MIN, i64::MAX] {
            assert_eq!(verify(headers, body, now_s), Err(Untrusted::Time), "{now_s}");
        }
        for timestamp in ["", "soon", "1614265330.0", "99999999999999999999"] {
            let headers = Headers { timestamp, ..headers };
            assert_eq!(verify(headers, body, at), Err(Untrusted::Time), "{timestamp}");
        }
        let rotated = format!("v1,AAAA v1a,AAAA {EXAMPLE_SIGNATURE}");
        assert_eq!(verify(Headers { signature: &rotated, ..headers }, body, at), Ok(()));
        let other = Secret::parse(&BASE64.encode([7; 24])).unwrap().sign(id, timestamp, body);
        let many = "v1,AAAA ".repeat(SIGNATURES_MAX) + EXAMPLE_SIGNATURE;
        let bare = &EXAMPLE_SIGNATURE["v1,".len()..];
        for signature in ["", "v1,", "v1,AAAA", bare, &other, &many] {
            let headers = Headers { signature, ..headers };
            assert_eq!(verify(headers, body, at), Err(Untrusted::Signature), "{signature}");
        }
        let other_id = Headers { id: "msg", ..headers };
        assert_eq!(verify(other_id, body, at), Err(Untrusted::Signature));
        let later = Headers { timestamp: "1614265331", ..headers };
        assert_eq!(verify(later, body, at), Err(Untrusted::Signature));
        assert_eq!(verify(headers, b"{}", at), Err(Untrusted::Signature));
    }

    #[test]
    fn secrets_of_24_to_64_bytes_are_accepted() {
        for bytes in [24, 32, 64] {
            let text = BASE64.encode(vec![7; bytes]);
            assert_eq!(Secret::parse(&text).unwrap().reveal(), text);
            assert_eq!(Secret::parse(&format!("whsec_{text}")), Secret::parse(&text));
        }
        let (short, long) = (BASE64.encode([7; 23]), BASE64.encode([7; 65]));
        for wrong in ["", "whsec_", "no base64!", &short, &long, &"A".repeat(4096)] {
            assert_eq!(Secret::parse(wrong), Err(NoSecret), "{wrong}");
        }
        assert_eq!(format!("{:?}", example_secret()), "Secret");
    }
}
