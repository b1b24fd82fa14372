//! The one key of sign-up, and the keys derived from it, one for each use.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

/// Bytes of the key.
pub const KEY_BYTES: usize = 32;

/// What keys of this crate are derived under: keys derived elsewhere are others.
const SALT: &[u8] = b"faregate sign-up v1";

/// The one key that everything here is derived from. Whoever has it can make any token.
#[derive(Clone)]
pub struct RootKey([u8; KEY_BYTES]);

impl RootKey {
    /// The key with these bytes: random ones, from a file of their own.
    #[must_use]
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// What tells this key from another one, and nothing else about it.
    #[must_use]
    pub fn check_value(&self) -> String {
        BASE64.encode(self.derive("check value"))
    }

    /// The key for one use (HKDF with SHA-256, RFC 5869): of one key nothing is learnt about
    /// another.
    pub(crate) fn derive(&self, purpose: &'static str) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        Salt::new(HKDF_SHA256, SALT)
            .extract(&self.0)
            .expand(&[purpose.as_bytes()], Bytes)
            .and_then(|derived| derived.fill(&mut key))
            .expect("a key is as long as the hash");
        key
    }
}

impl std::fmt::Debug for RootKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RootKey(…)")
    }
}

/// As many bytes as a key has.
struct Bytes;

impl KeyType for Bytes {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_has_a_key_of_its_own() {
        let root = RootKey::new([7; KEY_BYTES]);
        assert_eq!(root.derive("tokens"), root.derive("tokens"));
        assert_ne!(root.derive("tokens"), root.derive("sealing"));
        assert_ne!(root.derive("tokens"), RootKey::new([8; KEY_BYTES]).derive("tokens"));
        assert_ne!(root.derive("tokens"), [7; KEY_BYTES]);
        assert_eq!(format!("{root:?}"), "RootKey(…)");
        assert_eq!(root.check_value(), RootKey::new([7; KEY_BYTES]).check_value());
        assert_ne!(root.check_value(), RootKey::new([8; KEY_BYTES]).check_value());
    }
}
