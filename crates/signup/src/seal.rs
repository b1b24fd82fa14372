//! Encrypts small things before they are stored: secrets of second factors, requests kept for later.
//!
//! AES-256-GCM with a random nonce. What is authenticated beside the bytes is what they are for and
//! whose they are, so that they open nowhere else.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use uuid::Uuid;

use crate::keys::RootKey;

/// What sealed bytes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The secret of a customer's second factor.
    TotpSecret,
    /// A request that is carried out later.
    Request,
    /// Who is told the end of it, and with what secret.
    Callback,
}

impl Purpose {
    const fn label(self) -> &'static str {
        match self {
            Self::TotpSecret => "totp-secret",
            Self::Request => "request",
            Self::Callback => "callback",
        }
    }
}

/// The key that things are stored with: another than that of tokens.
pub struct Sealer {
    key: LessSafeKey,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer(…)")
    }
}

impl Sealer {
    /// Derives the key of what is stored.
    #[must_use]
    pub fn new(root: &RootKey) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, &root.derive("sealing"));
        Self { key: LessSafeKey::new(key.expect("a derived key has the cipher's length")) }
    }

    /// Encrypts bytes for a row: base64url, 28 bytes more than were given.
    #[must_use]
    pub fn seal(&self, purpose: Purpose, id: Uuid, bytes: &[u8]) -> String {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).expect("the operating system gives random bytes");
        let unique = Nonce::assume_unique_for_key(nonce);
        let mut sealed = bytes.to_vec();
        self.key
            .seal_in_place_append_tag(unique, Aad::from(place(purpose, id)), &mut sealed)
            .expect("what fits into memory is shorter than what the cipher takes");
        BASE64.encode([&nonce, sealed.as_slice()].concat())
    }

    /// Decrypts what was sealed for the same purpose and id; none where it was sealed for others
    /// or with another key, or was changed since.
    #[must_use]
    pub fn open(&self, purpose: Purpose, id: Uuid, sealed: &str) -> Option<Vec<u8>> {
        let mut bytes = BASE64.decode(sealed).ok()?;
        let (nonce, rest) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.key.open_in_place(nonce, Aad::from(place(purpose, id)), rest).ok()?;
        Some(opened.to_vec())
    }
}

/// What is authenticated: the id first, which has one length.
fn place(purpose: Purpose, id: Uuid) -> Vec<u8> {
    [id.as_bytes(), purpose.label().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealer(byte: u8) -> Sealer {
        Sealer::new(&RootKey::new([byte; 32]))
    }

    #[test]
    fn what_is_sealed_opens_where_it_belongs() {
        let (sealer, id) = (sealer(7), Uuid::from_u128(1));
        let sealed = sealer.seal(Purpose::TotpSecret, id, b"secret");
        assert_ne!(sealer.seal(Purpose::TotpSecret, id, b"secret"), sealed);
        assert_eq!(sealer.open(Purpose::TotpSecret, id, &sealed).unwrap(), b"secret");
        assert_eq!(sealer.open(Purpose::Request, id, &sealed), None);
        assert_eq!(sealer.open(Purpose::TotpSecret, Uuid::from_u128(2), &sealed), None);
        assert_eq!(self::sealer(8).open(Purpose::TotpSecret, id, &sealed), None);
        let bytes = BASE64.decode(&sealed).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let changed = BASE64.encode(changed);
            assert_eq!(sealer.open(Purpose::TotpSecret, id, &changed), None, "byte {at}");
        }
        assert_eq!(format!("{sealer:?}"), "Sealer(…)");
    }

    proptest! {
        #[test]
        fn anything_can_be_sealed_and_nothing_else_opens(bytes: Vec<u8>, text in ".{0,80}", id: u128) {
            let (sealer, id) = (sealer(7), Uuid::from_u128(id));
            let sealed = sealer.seal(Purpose::Request, id, &bytes);
            prop_assert_eq!(sealer.open(Purpose::Request, id, &sealed), Some(bytes));
            prop_assert_eq!(sealer.open(Purpose::Request, id, &text), None);
        }
    }
}
