//! Secrets: the keys with which SDKs and relay proxies authenticate for an environment.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::EnvironmentId;
use ring::aead;
use secrets::{Purpose, Sealer, random};
use serde::{Deserialize, Serialize};

/// How many bytes of a hash name a channel: too many to guess.
const CHANNEL_BYTES: usize = 18;

/// Random bytes at the beginning of a new secret: as many as a GUID has.
const RANDOM_BYTES: usize = 16;

/// The kinds of secrets that SDKs have.
pub const SDK: &[SecretKind] = &[SecretKind::Server, SecretKind::Client];

/// The kind of a secret: it determines the data that the secret grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SecretKind {
    /// Definitions of flags and segments, for servers that evaluate by themselves.
    Server,
    /// Evaluated flags of one user. It is not secret: it stands in web pages.
    Client,
    /// Flags, segments and secrets of several environments, for FeatBit's agent.
    RelayProxy,
}

/// A secret of an environment. That of a relay proxy is stored with each environment that it grants.
/// It is serialized in plain text, for a worker process only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    pub kind: SecretKind,
    pub value: String,
    /// When it expires, in milliseconds since 1970: rotated secrets overlap.
    pub expires_at_ms: Option<i64>,
}

impl SecretKind {
    /// FeatBit's name of it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::RelayProxy => "relay-proxy",
        }
    }

    /// The kind that FeatBit calls so.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        [Self::Server, Self::Client, Self::RelayProxy].into_iter().find(|it| it.text() == text)
    }
}

impl Secret {
    pub(crate) fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|end| end <= now_ms)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, value: _, expires_at_ms } = self;
        f.debug_struct("Secret")
            .field("kind", kind)
            .field("expires_at_ms", expires_at_ms)
            .finish_non_exhaustive()
    }
}

/// A new secret: random bytes, then its environment, as FeatBit's SDKs expect.
#[must_use]
pub fn new_secret(environment: EnvironmentId) -> String {
    BASE64.encode(random::bytes::<RANDOM_BYTES>())
        + &BASE64.encode(environment.uuid().to_bytes_le())
}

/// A new secret of a relay proxy, as FeatBit's agent expects.
#[must_use]
pub fn new_relay_secret() -> String {
    format!("rp-{}", BASE64.encode(random::bytes::<RANDOM_BYTES>()))
}

/// Encrypts a secret of an environment for its row.
#[must_use]
pub fn seal(sealer: &Sealer, environment: EnvironmentId, secret: &str) -> String {
    sealer.seal(Purpose::EnvironmentSecret, environment.uuid(), secret.as_bytes())
}

/// Decrypts a secret of an environment.
///
/// # Errors
/// [`secrets::Error`], also where the decrypted bytes are no text.
pub fn open(
    sealer: &Sealer,
    environment: EnvironmentId,
    sealed: &str,
) -> Result<String, secrets::Error> {
    let opened = sealer.open(Purpose::EnvironmentSecret, environment.uuid(), sealed)?;
    String::from_utf8(opened).map_err(|_| secrets::Error::CannotDecrypt)
}

/// The hash that secrets are looked up by: the time of a lookup reveals nothing of similar secrets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(secret: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, secret.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }

    /// A public name of the grant, which does not reveal the secret.
    pub fn channel(&self) -> String {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        hash.update(b"faregate flags events");
        hash.update(&self.0);
        BASE64.encode(&hash.finish().as_ref()[..CHANNEL_BYTES])
    }

    /// A name of a user for the address of an event stream: the same each time, and no one else can read it. Its
    /// nonce is a hash of the user's key, so that no two keys have one.
    pub fn seal_user(&self, key: &str) -> String {
        let of_user = ring::hmac::sign(&self.derived(b"faregate flags nonces"), key.as_bytes());
        let mut nonce = [0; aead::NONCE_LEN];
        nonce.copy_from_slice(&of_user.as_ref()[..aead::NONCE_LEN]);
        let mut sealed = key.as_bytes().to_vec();
        self.cipher()
            .seal_in_place_append_tag(
                aead::Nonce::assume_unique_for_key(nonce),
                aead::Aad::empty(),
                &mut sealed,
            )
            .expect("a user's key is short");
        BASE64.encode([&nonce[..], &sealed].concat())
    }

    /// The key of the user who was named so; `None` where this is no such name.
    pub fn open_user(&self, name: &str) -> Option<String> {
        let mut bytes = BASE64.decode(name).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(aead::NONCE_LEN)?;
        let nonce = aead::Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.cipher().open_in_place(nonce, aead::Aad::empty(), sealed).ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }

    fn cipher(&self) -> aead::LessSafeKey {
        let key = ring::hmac::sign(&self.derived(b"faregate flags users"), b"");
        let key = aead::UnboundKey::new(&aead::AES_256_GCM, key.as_ref());
        aead::LessSafeKey::new(key.expect("a hash is as long as a key"))
    }

    /// A key of its own for each purpose.
    fn derived(&self, purpose: &[u8]) -> ring::hmac::Key {
        let own = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.0);
        ring::hmac::Key::new(ring::hmac::HMAC_SHA256, ring::hmac::sign(&own, purpose).as_ref())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn secrets_end_with_their_environment_in_dotnet_byte_order() {
        let environment = Uuid::parse_str("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        let new = || new_secret(EnvironmentId::new(environment));
        let secret = new();
        assert_eq!(secret.len(), 44);
        let guid = BASE64.decode(&secret[22..]).unwrap();
        assert_eq!(guid[..8], [0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66]);
        assert_eq!(guid[8..], [0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]);
        let another = new();
        assert_ne!(secret[..22], another[..22]);
        assert_eq!(secret[22..], another[22..]);
    }

    #[test]
    fn only_the_holder_of_a_secret_reads_whom_a_name_stands_for() {
        let digest = Digest::of("a secret");
        let name = digest.seal_user("ann@example.com");
        assert_eq!(name, digest.seal_user("ann@example.com"));
        assert_eq!(digest.open_user(&name).as_deref(), Some("ann@example.com"));
        assert_eq!(Digest::of("another").open_user(&name), None);
        let mut forged = BASE64.decode(&name).unwrap();
        forged[13] ^= 1;
        for name in ["", "short", &BASE64.encode(forged)] {
            assert_eq!(digest.open_user(name), None, "{name}");
        }
        assert_eq!(digest.open_user(&digest.seal_user("")).as_deref(), Some(""));
    }

    #[test]
    fn relay_secrets_have_their_prefix_and_differ() {
        let secret = new_relay_secret();
        assert!(secret.starts_with("rp-") && secret.len() == 25, "{secret}");
        assert_ne!(secret, new_relay_secret());
    }
}
