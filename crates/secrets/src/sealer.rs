//! Encrypts what is stored secretly: secrets of environments and second factors, stored requests.
//!
//! AES-256-GCM with a random nonce. The associated data are the id of the row and the purpose, so
//! that sealed bytes cannot be opened as another row's or for another purpose.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use uuid::Uuid;

use crate::derive::RootKey;
use crate::key_file::Key;
use crate::random;

/// The purpose of sealed bytes or of a derived key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A secret of a feature flag environment.
    EnvironmentSecret,
    /// The secret of a customer's second factor.
    TotpSecret,
    /// A request that is executed later.
    Request,
    /// The URL and the signing secret of an operation's callback.
    Callback,
    /// A tenant's configuration of a plugin.
    PluginConfiguration,
    /// The customer's next action, before a transaction goes on.
    NextAction,
    /// A tenant's webhook endpoints.
    WebhookEndpoints,
    /// The first secret that signs deliveries to a tenant's callback.
    WebhookCallback,
    /// The endpoint of a tenant's gateway that notifications are posted to.
    NotificationEndpoint,
    /// Where a customer's browser comes back to, and goes on to.
    CustomerReturn,
    /// A page of the simulated gateway.
    SimulatorPage,
    /// The key that signs documents of entitlements.
    EntitlementDocument,
}

impl Purpose {
    const fn label(self) -> &'static str {
        match self {
            Self::EnvironmentSecret => "environment-secret",
            Self::TotpSecret => "totp-secret",
            Self::Request => "request",
            Self::Callback => "callback",
            Self::PluginConfiguration => "plugin-configuration",
            Self::NextAction => "next-action",
            Self::WebhookEndpoints => "webhook-endpoints",
            Self::WebhookCallback => "webhook-callback",
            Self::NotificationEndpoint => "notification-endpoint",
            Self::CustomerReturn => "customer-return",
            Self::SimulatorPage => "simulator-page",
            Self::EntitlementDocument => "entitlement-document",
        }
    }
}

/// Sealed bytes could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Sealed with another key, for another id or purpose, or changed since.
    #[error("sealed bytes cannot be decrypted with this key")]
    CannotDecrypt,
}

/// A key that encrypts what is stored.
pub struct Sealer {
    key: LessSafeKey,
    /// Derives nonces: see [`Sealer::seal_equally`].
    nonces: hmac::Key,
    /// Derives what [`Sealer::derive`] gives.
    secrets: hmac::Key,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(…)")
    }
}

impl Sealer {
    /// A sealer with this key.
    #[must_use]
    pub fn new(key: &Key) -> Self {
        let derived =
            |purpose| hmac::Key::new(hmac::HMAC_SHA256, &RootKey::new(*key).derive(purpose));
        let (nonces, secrets) = (derived("nonces"), derived("secrets"));
        let key = UnboundKey::new(&AES_256_GCM, key).expect("a key has the cipher's length");
        Self { key: LessSafeKey::new(key), nonces, secrets }
    }

    /// A secret of the row with this id: the same each time, so that it need not be stored.
    #[must_use]
    pub fn derive(&self, purpose: Purpose, id: Uuid) -> Key {
        let derived = hmac::sign(&self.secrets, associated_data(purpose, id).as_ref());
        derived.as_ref().try_into().expect("a hash of SHA-256 has a key's length")
    }

    /// A sealer with a key derived from a root key.
    #[must_use]
    pub fn derived(root: &RootKey) -> Self {
        Self::new(&root.derive("sealing"))
    }

    /// Encrypts bytes of the row with this id: base64url, 28 bytes longer before encoding.
    #[must_use]
    pub fn seal(&self, purpose: Purpose, id: Uuid, bytes: &[u8]) -> String {
        self.seal_with(random::bytes(), (purpose, id), bytes)
    }

    /// As [`Sealer::seal`], but the same bytes give the same text each time: what is shown again can be
    /// recognized, and equal bytes can be recognized as equal.
    #[must_use]
    pub fn seal_equally(&self, purpose: Purpose, id: Uuid, bytes: &[u8]) -> String {
        let mut derived = hmac::Context::with_key(&self.nonces);
        derived.update(associated_data(purpose, id).as_ref());
        // The purposes have no NUL: no other purpose and bytes read the same.
        derived.update(&[0]);
        derived.update(bytes);
        let derived = derived.sign();
        let (nonce, _) = derived.as_ref().split_first_chunk().expect("a hash is longer");
        self.seal_with(*nonce, (purpose, id), bytes)
    }

    fn seal_with(
        &self,
        nonce: [u8; NONCE_LEN],
        (purpose, id): (Purpose, Uuid),
        bytes: &[u8],
    ) -> String {
        let unique = Nonce::assume_unique_for_key(nonce);
        let mut sealed = bytes.to_vec();
        self.key
            .seal_in_place_append_tag(unique, associated_data(purpose, id), &mut sealed)
            .expect("bytes in memory are fewer than the cipher's limit");
        BASE64.encode([&nonce, sealed.as_slice()].concat())
    }

    /// Decrypts bytes that were sealed for the same purpose and id.
    ///
    /// # Errors
    /// [`Error::CannotDecrypt`].
    pub fn open(&self, purpose: Purpose, id: Uuid, sealed: &str) -> Result<Vec<u8>, Error> {
        let mut bytes = BASE64.decode(sealed).map_err(|_| Error::CannotDecrypt)?;
        let (nonce, rest) = bytes.split_at_mut_checked(NONCE_LEN).ok_or(Error::CannotDecrypt)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Error::CannotDecrypt)?;
        let opened = self.key.open_in_place(nonce, associated_data(purpose, id), rest);
        Ok(opened.map_err(|_| Error::CannotDecrypt)?.to_vec())
    }
}

impl Sealer {
    /// Encrypts a text that is stored under a name of the row with this id, so that it opens under no other.
    #[must_use]
    pub fn seal_named(&self, purpose: Purpose, (id, name): (Uuid, &str), text: &str) -> String {
        self.seal(purpose, id, format!("{name}\n{text}").as_bytes())
    }

    /// Decrypts a text that was sealed for the same purpose, id and name.
    ///
    /// # Errors
    /// [`Error::CannotDecrypt`].
    pub fn open_named(
        &self,
        purpose: Purpose,
        (id, name): (Uuid, &str),
        sealed: &str,
    ) -> Result<String, Error> {
        let bound = self.open(purpose, id, sealed)?;
        let bound = String::from_utf8(bound).map_err(|_| Error::CannotDecrypt)?;
        let text = bound.strip_prefix(name).and_then(|it| it.strip_prefix('\n'));
        text.map(str::to_owned).ok_or(Error::CannotDecrypt)
    }
}

/// The id comes first, because it has a fixed length.
fn associated_data(purpose: Purpose, id: Uuid) -> Aad<Vec<u8>> {
    Aad::from([id.as_bytes(), purpose.label().as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key_file::KEY_BYTES;

    const PURPOSES: [Purpose; 7] = [
        Purpose::EnvironmentSecret,
        Purpose::TotpSecret,
        Purpose::Request,
        Purpose::Callback,
        Purpose::PluginConfiguration,
        Purpose::NotificationEndpoint,
        Purpose::CustomerReturn,
    ];

    fn sealer(byte: u8) -> Sealer {
        Sealer::new(&[byte; KEY_BYTES])
    }

    #[test]
    fn sealed_bytes_open_with_the_same_key_id_and_purpose_only() {
        let (sealer, id) = (sealer(7), Uuid::from_u128(1));
        for purpose in PURPOSES {
            let sealed = sealer.seal(purpose, id, b"secret");
            assert!(!sealed.contains("secret"));
            assert_ne!(sealer.seal(purpose, id, b"secret"), sealed, "the nonce is random");
            assert_eq!(self::sealer(7).open(purpose, id, &sealed), Ok(b"secret".to_vec()));
            for other in PURPOSES.into_iter().filter(|other| *other != purpose) {
                assert_eq!(sealer.open(other, id, &sealed), Err(Error::CannotDecrypt));
            }
            let another = Uuid::from_u128(2);
            assert_eq!(sealer.open(purpose, another, &sealed), Err(Error::CannotDecrypt));
            assert_eq!(self::sealer(8).open(purpose, id, &sealed), Err(Error::CannotDecrypt));
        }
        assert_eq!(format!("{sealer:?}"), "Sealer(…)");
    }

    #[test]
    fn derived_secrets_are_of_their_key_row_and_purpose() {
        let id = Uuid::from_u128(1);
        let derive = |key, purpose, id| sealer(key).derive(purpose, id);
        let first = derive(7, Purpose::WebhookCallback, id);
        assert_eq!(derive(7, Purpose::WebhookCallback, id), first);
        let another = Uuid::from_u128(2);
        for other in [
            derive(8, Purpose::WebhookCallback, id),
            derive(7, Purpose::Callback, id),
            derive(7, Purpose::WebhookCallback, another),
        ] {
            assert_ne!(other, first);
        }
    }

    #[test]
    fn equal_bytes_of_one_row_and_purpose_are_sealed_equally_where_that_is_wanted() {
        let id = Uuid::from_u128(1);
        let seal = |key, purpose, id, bytes: &[u8]| sealer(key).seal_equally(purpose, id, bytes);
        let sealed = seal(7, Purpose::Request, id, b"bytes");
        assert_eq!(seal(7, Purpose::Request, id, b"bytes"), sealed);
        let opened = sealer(7).open(Purpose::Request, id, &sealed);
        assert_eq!(opened, Ok(b"bytes".to_vec()));
        for other in [
            seal(8, Purpose::Request, id, b"bytes"),
            seal(7, Purpose::Callback, id, b"bytes"),
            seal(7, Purpose::Request, Uuid::from_u128(2), b"bytes"),
            seal(7, Purpose::Request, id, b"bytez"),
        ] {
            // Another nonce, not merely another ciphertext.
            assert_ne!(other[..16], sealed[..16]);
        }
    }

    #[test]
    fn changed_or_truncated_bytes_do_not_open() {
        let (sealer, id) = (sealer(7), Uuid::from_u128(1));
        let open = |sealed: &str| sealer.open(Purpose::TotpSecret, id, sealed);
        let bytes = BASE64.decode(sealer.seal(Purpose::TotpSecret, id, b"secret")).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(open(&BASE64.encode(changed)), Err(Error::CannotDecrypt), "byte {at}");
            assert_eq!(open(&BASE64.encode(&bytes[..at])), Err(Error::CannotDecrypt), "{at} bytes");
        }
        for text in ["", "AAAA", "no base64!"] {
            assert_eq!(open(text), Err(Error::CannotDecrypt), "{text}");
        }
    }

    #[test]
    fn a_derived_sealer_uses_another_key_than_its_root_key() {
        let root = RootKey::new([7; KEY_BYTES]);
        let id = Uuid::from_u128(1);
        let sealed = Sealer::derived(&root).seal(Purpose::Request, id, b"bytes");
        let again = Sealer::derived(&root);
        assert_eq!(again.open(Purpose::Request, id, &sealed), Ok(b"bytes".to_vec()));
        assert_eq!(sealer(7).open(Purpose::Request, id, &sealed), Err(Error::CannotDecrypt));
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_sealed_and_other_text_does_not_open(
            bytes: Vec<u8>, text in ".{0,80}", id: u128,
        ) {
            let (sealer, id) = (sealer(7), Uuid::from_u128(id));
            let sealed = sealer.seal(Purpose::Request, id, &bytes);
            prop_assert_eq!(sealer.open(Purpose::Request, id, &sealed), Ok(bytes));
            prop_assert_eq!(sealer.open(Purpose::Request, id, &text), Err(Error::CannotDecrypt));
        }
    }
}
