//! Root keys, sign-up's and the cluster's, and the keys derived from them: one for each use.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

use crate::key_file::{KEY_BYTES, Key};

/// Separates these keys from those that other software derives from the same bytes.
const SALT: &[u8] = b"faregate sign-up v1";

/// A key that other keys are derived from. The holder of sign-up's can issue any token; the holder of
/// the cluster's can sign any record of the queue.
#[derive(Clone)]
pub struct RootKey(Key);

impl RootKey {
    /// The root key with these bytes, which have to be random.
    #[must_use]
    pub const fn new(bytes: Key) -> Self {
        Self(bytes)
    }

    /// The key check value: equal for equal keys, and reveals nothing else about the key.
    #[must_use]
    pub fn check_value(&self) -> String {
        BASE64.encode(self.derive("check value"))
    }

    /// The key for one use (HKDF with SHA-256, RFC 5869): one derived key reveals nothing about
    /// another.
    #[must_use]
    pub fn derive(&self, purpose: &'static str) -> Key {
        let mut key = [0; KEY_BYTES];
        Salt::new(HKDF_SHA256, SALT)
            .extract(&self.0)
            .expand(&[purpose.as_bytes()], KeyLength)
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

struct KeyLength;

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_and_each_root_key_derive_another_key() {
        let root = RootKey::new([7; KEY_BYTES]);
        assert_eq!(root.derive("tokens"), root.derive("tokens"));
        assert_ne!(root.derive("tokens"), root.derive("sealing"));
        assert_ne!(root.derive("tokens"), RootKey::new([8; KEY_BYTES]).derive("tokens"));
        assert_ne!(root.derive("tokens"), [7; KEY_BYTES]);
    }

    #[test]
    fn check_values_are_equal_for_equal_keys_only() {
        let root = RootKey::new([7; KEY_BYTES]);
        assert_eq!(root.check_value(), RootKey::new([7; KEY_BYTES]).check_value());
        assert_ne!(root.check_value(), RootKey::new([8; KEY_BYTES]).check_value());
    }

    #[test]
    fn debug_output_does_not_contain_the_key() {
        assert_eq!(format!("{:?}", RootKey::new([7; KEY_BYTES])), "RootKey(…)");
    }
}
