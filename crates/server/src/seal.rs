//! Encrypts the secrets of environments before they are stored, and makes new ones.
//!
//! AES-256-GCM with a random nonce; what is authenticated beside the secret is its environment, so
//! that a secret opens nothing where somebody moved its row to another environment.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::EnvironmentId;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::key_file::{self, Key};

/// Random bytes at the beginning of a secret: as many as a GUID has.
const RANDOM_BYTES: usize = 16;

/// The key's file in the data directory, where no other is configured.
const KEY_FILE: &str = "secrets.key";

/// Why there is no key, or it opens nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key cannot be read or made.
    #[error("the flags' secrets: {0}")]
    Key(#[from] key_file::Error),
    /// What was sealed with another key, for another environment, or was changed since.
    #[error("a secret cannot be opened with this key")]
    Sealed,
}

/// The key that secrets are stored with.
pub struct Sealer {
    key: LessSafeKey,
}

impl Sealer {
    fn new(key: Key) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, &key);
        Self { key: LessSafeKey::new(key.expect("a key has the cipher's length")) }
    }

    /// Reads the key from a file.
    ///
    /// # Errors
    /// [`Error`] where it cannot be read, or is no key.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Ok(Self::new(key_file::read(path)?))
    }

    /// Reads the key in a data directory, and makes it where there is none. The directory is ours
    /// alone.
    ///
    /// # Errors
    /// See [`Sealer::read`].
    pub fn in_dir(dir: &Path) -> Result<Self, Error> {
        Ok(Self::new(key_file::in_dir(dir, KEY_FILE)?))
    }

    /// Encrypts a secret of an environment.
    #[must_use]
    pub fn seal(&self, environment: EnvironmentId, secret: &str) -> String {
        let mut nonce = [0; NONCE_LEN];
        fill(&mut nonce);
        let mut sealed = secret.as_bytes().to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(environment.uuid().into_bytes());
        self.key
            .seal_in_place_append_tag(unique, aad, &mut sealed)
            .expect("a secret is far shorter than what the cipher takes");
        BASE64.encode([&nonce, sealed.as_slice()].concat())
    }

    /// Decrypts a secret of an environment.
    ///
    /// # Errors
    /// [`Error::Sealed`].
    pub fn open(&self, environment: EnvironmentId, sealed: &str) -> Result<String, Error> {
        let mut bytes = BASE64.decode(sealed).map_err(|_| Error::Sealed)?;
        let (nonce, rest) = bytes.split_at_mut_checked(NONCE_LEN).ok_or(Error::Sealed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Error::Sealed)?;
        let aad = Aad::from(environment.uuid().into_bytes());
        let secret = self.key.open_in_place(nonce, aad, rest).map_err(|_| Error::Sealed)?;
        String::from_utf8(secret.to_vec()).map_err(|_| Error::Sealed)
    }
}

/// A new secret: random, and its environment behind it, as FeatBit's SDKs expect.
#[must_use]
pub fn new_secret(environment: EnvironmentId) -> String {
    let mut random = [0; RANDOM_BYTES];
    fill(&mut random);
    BASE64.encode(random) + &BASE64.encode(environment.uuid().to_bytes_le())
}

/// A new secret of a relay proxy: random, and as FeatBit's agent expects.
#[must_use]
pub fn new_relay_secret() -> String {
    let mut random = [0; RANDOM_BYTES];
    fill(&mut random);
    format!("rp-{}", BASE64.encode(random))
}

fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives random bytes");
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use uuid::Uuid;

    use super::*;
    use crate::key_file::KEY_BYTES;

    fn environment(text: &str) -> EnvironmentId {
        EnvironmentId::new(Uuid::parse_str(text).unwrap())
    }

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("faregate-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_sealed_opens_where_it_belongs() {
        let scratch = Scratch::new("seal");
        let here = environment("226b9bf8-4af3-4ffa-9b01-162270e4cd40");
        let there = environment("226b9bf8-4af3-4ffa-9b01-162270e4cd41");
        let sealer = Sealer::in_dir(&scratch.0).unwrap();
        let sealed = sealer.seal(here, "secret");
        assert!(!sealed.contains("secret"));
        assert_ne!(sealer.seal(here, "secret"), sealed, "each has a nonce of its own");
        // The key stays: the next start opens what this one sealed.
        let again = Sealer::in_dir(&scratch.0).unwrap();
        assert_eq!(again.open(here, &sealed).unwrap(), "secret");
        assert!(again.open(there, &sealed).is_err());
        let mut bytes = BASE64.decode(&sealed).unwrap();
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(again.open(here, &BASE64.encode(&bytes)).is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
        for short in ["", "AAAA", "no base64!"] {
            assert!(again.open(here, short).is_err());
        }
        let path = scratch.0.join(KEY_FILE);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, [7; KEY_BYTES]).unwrap();
        assert!(Sealer::read(&path).unwrap().open(here, &sealed).is_err());
        for wrong in [KEY_BYTES - 1, KEY_BYTES + 1] {
            std::fs::write(&path, vec![7; wrong]).unwrap();
            assert!(matches!(Sealer::read(&path), Err(Error::Key(_))), "{wrong}");
        }
    }

    #[test]
    fn secrets_end_with_their_environment_in_the_order_of_dotnet() {
        let of = |text| new_secret(environment(text));
        let secret = of("00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(secret.len(), 44);
        let guid = BASE64.decode(&secret[22..]).unwrap();
        assert_eq!(guid[..8], [0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66]);
        assert_eq!(guid[8..], [0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]);
        let another = of("00112233-4455-6677-8899-aabbccddeeff");
        assert_ne!(secret[..22], another[..22]);
        assert_eq!(secret[22..], another[22..]);
    }
}
