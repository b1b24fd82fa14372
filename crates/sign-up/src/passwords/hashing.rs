//! Hashing of one thread: argon2id in reused memory, and parsing and comparing stored hashes.

use argon2::password_hash::phc::{Output, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use secrets::random;
use subtle::ConstantTimeEq as _;

use super::memory;
use super::queue::Work;

/// The most memory of a stored hash: 256 MiB.
const STORED_MEMORY_KIB_MAX: u32 = 256 * 1024;

/// The most passes of a stored hash.
const STORED_PASSES_MAX: u32 = 10;

/// The most lanes of a stored hash.
const STORED_LANES_MAX: u32 = 16;

/// The highest cost of bcrypt: about four times the usual work.
const BCRYPT_COST_MAX: u32 = 14;

/// Bytes of a salt and of an output.
const SALT_BYTES: usize = 16;
const OUTPUT_BYTES: usize = 32;

/// The salt of the dummy hash for unknown accounts.
const DUMMY_SALT: [u8; SALT_BYTES] = [0; SALT_BYTES];

/// The parameters of argon2id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl Cost {
    /// OWASP's recommendation for argon2id: 19 MiB, two passes, one lane.
    pub const RECOMMENDED: Self = Self { memory_kib: 19 * 1024, passes: 2, lanes: 1 };

    /// Another cost; `None` out of bounds: at least 8 KiB per lane, at most 256 MiB, 1 to 10
    /// passes, 1 to 16 lanes.
    #[must_use]
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Option<Self> {
        let cost = Self { memory_kib, passes, lanes };
        let is_bounded = memory_kib <= STORED_MEMORY_KIB_MAX
            && passes <= STORED_PASSES_MAX
            && lanes <= STORED_LANES_MAX;
        (is_bounded && Params::new(memory_kib, passes, lanes, None).is_ok()).then_some(cost)
    }

    /// The work of a hash.
    pub(super) const fn work(self) -> Work {
        Work::Argon2(self.memory_kib * self.passes)
    }

    fn params(self, output_bytes: usize) -> Params {
        Params::new(self.memory_kib, self.passes, self.lanes, Some(output_bytes))
            .expect("a cost is validated when it is created, and an output has 10 to 64 bytes")
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::RECOMMENDED
    }
}

/// A stored hash with its parameters: `$argon2id$v=19$m=…`.
#[derive(Clone, PartialEq, Eq)]
pub struct PhcString(String);

impl PhcString {
    /// The text to store.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PhcString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PhcString(…)")
    }
}

/// The result of comparing a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Whether the password is right.
    pub ok: bool,
    /// Whether it is right and its hash should be replaced, because it has other parameters or is
    /// of bcrypt.
    pub rehash: bool,
}

impl Verified {
    const WRONG: Self = Self { ok: false, rehash: false };
}

/// A stored hash.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum StoredHash {
    Argon2 {
        cost: Cost,
        salt: Salt,
        output: Output,
    },
    Bcrypt {
        text: String,
        cost: u32,
    },
    /// There is no usable hash: a dummy one is computed.
    Absent,
}

impl StoredHash {
    /// Parses a stored hash; `None` where it is malformed or exceeds the bounds.
    pub(super) fn read(text: &str) -> Option<Self> {
        if text.starts_with("$argon2id$") { Self::argon2(text) } else { Self::bcrypt(text) }
    }

    fn argon2(text: &str) -> Option<Self> {
        let hash = PasswordHash::new(text).ok()?;
        let params = Params::try_from(&hash).ok()?;
        let is_plain = params.keyid().is_empty() && params.data().is_empty();
        let is_current_version = hash.version == Some(Version::V0x13 as u32);
        if !is_plain || !is_current_version {
            return None;
        }
        let cost = Cost::new(params.m_cost(), params.t_cost(), params.p_cost())?;
        Some(Self::Argon2 { cost, salt: hash.salt?, output: hash.hash? })
    }

    fn bcrypt(text: &str) -> Option<Self> {
        if !["$2a$", "$2b$", "$2y$"].iter().any(|prefix| text.starts_with(prefix)) {
            return None;
        }
        let cost = text.parse::<bcrypt::HashParts>().ok()?.get_cost();
        (4..=BCRYPT_COST_MAX).contains(&cost).then(|| Self::Bcrypt { text: text.to_owned(), cost })
    }

    /// The work of a comparison, where new hashes have this cost.
    pub(super) const fn work(&self, current: Cost) -> Work {
        match self {
            Self::Argon2 { cost, .. } => cost.work(),
            Self::Bcrypt { cost, .. } => Work::Bcrypt(1 << *cost),
            Self::Absent => current.work(),
        }
    }

    pub(super) const fn algorithm(&self) -> &'static str {
        match self {
            Self::Argon2 { .. } | Self::Absent => "argon2id",
            Self::Bcrypt { .. } => "bcrypt",
        }
    }
}

/// The cost of new hashes and the memory for them, which one hash leaves to the next. A benchmark uses
/// it to measure the machine without a queue.
pub struct Hashing {
    cost: Cost,
    /// Empty until the first hash, and after [`Hashing::release_memory`].
    memory: Vec<Block>,
}

impl Hashing {
    #[must_use]
    pub const fn new(cost: Cost) -> Self {
        Self { cost, memory: Vec::new() }
    }

    /// Whether there is memory to release.
    pub(super) const fn has_memory(&self) -> bool {
        !self.memory.is_empty()
    }

    /// Frees the memory until the next hash: 19 MiB are much for a thread that has nothing to do.
    pub(super) fn release_memory(&mut self) {
        self.memory = Vec::new();
    }

    /// Hashes a password with a random salt.
    pub fn hash(&mut self, password: &str) -> PhcString {
        let salt = random::bytes::<SALT_BYTES>();
        let cost = self.cost;
        let output = self.output(cost, password, &salt, OUTPUT_BYTES);
        let Cost { memory_kib, passes, lanes } = cost;
        let salt = Salt::new(&salt).expect("a salt has 8 to 48 bytes");
        PhcString(format!("$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${output}"))
    }

    /// Compares a password with a stored hash in constant time.
    pub(super) fn verify(&mut self, stored: &StoredHash, password: &str) -> Verified {
        match stored {
            StoredHash::Argon2 { cost, salt, output } => {
                let computed = self.output(*cost, password, salt, output.len());
                let ok = bool::from(computed.as_bytes().ct_eq(output.as_bytes()));
                let is_current = *cost == self.cost && output.len() == OUTPUT_BYTES;
                Verified { ok, rehash: ok && !is_current }
            }
            StoredHash::Bcrypt { text, .. } => {
                let ok = bcrypt::verify(password, text).unwrap_or(false);
                Verified { ok, rehash: ok }
            }
            StoredHash::Absent => {
                let cost = self.cost;
                std::hint::black_box(self.output(cost, password, &DUMMY_SALT, OUTPUT_BYTES));
                Verified::WRONG
            }
        }
    }

    /// Computes in the reused memory. A stored hash that needs more gets its own.
    fn output(&mut self, cost: Cost, password: &str, salt: &[u8], bytes: usize) -> Output {
        let params = cost.params(bytes);
        let blocks = params.block_count();
        let own_blocks = self.cost.params(OUTPUT_BYTES).block_count();
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let mut more = vec![];
        let memory = if blocks <= own_blocks {
            if self.memory.is_empty() {
                self.memory = memory::blocks(own_blocks);
            }
            &mut self.memory
        } else {
            more.resize(blocks, Block::new());
            &mut more
        };
        Output::init_with(bytes, |output| {
            argon2
                .hash_password_into_with_memory(password.as_bytes(), salt, output, memory)
                .expect("any password can be hashed with a salt of 8 bytes and more");
            Ok(())
        })
        .expect("an output has 10 to 64 bytes")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Cheap enough for tests.
    const CHEAP: Cost = Cost { memory_kib: 64, passes: 1, lanes: 1 };

    fn check(stored: &str, password: &str, ok: bool, rehash: bool) {
        let stored = StoredHash::read(stored).unwrap();
        let verified = Hashing::new(CHEAP).verify(&stored, password);
        assert_eq!(verified, Verified { ok, rehash });
    }

    #[test]
    fn a_hash_contains_its_parameters_and_verifies_its_password() {
        let mut hashing = Hashing::new(Cost::RECOMMENDED);
        let hash = hashing.hash("LoadTest123@");
        assert!(hash.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.as_str());
        let stored = StoredHash::read(hash.as_str()).unwrap();
        let verified = hashing.verify(&stored, "LoadTest123@");
        assert_eq!(verified, Verified { ok: true, rehash: false });
        assert_eq!(hashing.verify(&stored, "loadTest123@"), Verified::WRONG);
        assert_ne!(hashing.hash("LoadTest123@"), hash, "the salt is random");
        assert_eq!(format!("{hash:?}"), "PhcString(…)");
    }

    #[test]
    fn reused_memory_does_not_change_a_hash() {
        let mut used = Hashing::new(CHEAP);
        used.hash("another password");
        let salt = [7; SALT_BYTES];
        let fresh = Hashing::new(CHEAP).output(CHEAP, "password", &salt, OUTPUT_BYTES);
        assert_eq!(used.output(CHEAP, "password", &salt, OUTPUT_BYTES), fresh);
        let larger = Cost::new(256, 2, 2).unwrap();
        let fresh = Hashing::new(larger).output(larger, "password", &salt, OUTPUT_BYTES);
        assert_eq!(used.output(larger, "password", &salt, OUTPUT_BYTES), fresh);
        assert_eq!(used.memory.len(), 64, "memory of an old hash is freed");
        used.release_memory();
        assert!(!used.has_memory());
        assert_eq!(used.output(larger, "password", &salt, OUTPUT_BYTES), fresh);
        assert!(!used.has_memory(), "an old hash has memory of its own");
        let fresh = Hashing::new(CHEAP).output(CHEAP, "password", &salt, OUTPUT_BYTES);
        assert_eq!(used.output(CHEAP, "password", &salt, OUTPUT_BYTES), fresh);
        assert!(used.has_memory());
    }

    #[test]
    fn hashes_with_other_parameters_verify_and_are_to_be_replaced() {
        let other = Cost::new(128, 3, 2).unwrap();
        let hash = Hashing::new(other).hash("Ana's password");
        check(hash.as_str(), "Ana's password", true, true);
        check(hash.as_str(), "ana's password", false, false);
        let todays = Hashing::new(CHEAP).hash("Ana's password");
        check(todays.as_str(), "Ana's password", true, false);
    }

    #[test]
    fn hashes_of_bcrypt_verify_and_are_to_be_replaced() {
        let hash = bcrypt::hash_with_salt("Ana's password", 4, [3; 16]).unwrap();
        for version in [bcrypt::Version::TwoA, bcrypt::Version::TwoB, bcrypt::Version::TwoY] {
            let text = hash.format_for_version(version);
            check(&text, "Ana's password", true, true);
            check(&text, "ana's password", false, false);
        }
    }

    #[test]
    fn malformed_or_expensive_hashes_are_refused() {
        let salt_and_output = "c29tZXNhbHRzb21lc2FsdA$U29tZU91dHB1dE9mMzJCeXRlc1RoYXRJc05vdFJlYWw";
        let argon2 = |start: &str| format!("{start}${salt_and_output}");
        assert!(StoredHash::read(&argon2("$argon2id$v=19$m=262144,t=10,p=4")).is_some());
        for start in [
            "$argon2id$v=19$m=262145,t=1,p=1",
            "$argon2id$v=19$m=65536,t=11,p=1",
            "$argon2id$v=19$m=65536,t=1,p=17",
            "$argon2id$v=19$m=4,t=1,p=1",
            "$argon2id$v=19$m=4294967295,t=4294967295,p=1",
            "$argon2id$v=19$m=65536,t=1,p=1,keyid=AAAA",
            "$argon2id$v=16$m=65536,t=1,p=1",
            "$argon2id$m=65536,t=1,p=1",
            "$argon2i$v=19$m=65536,t=1,p=1",
        ] {
            assert!(StoredHash::read(&argon2(start)).is_none(), "{start}");
        }
        let hash = bcrypt::hash_with_salt("x", 4, [3; SALT_BYTES]).unwrap();
        let text = hash.format_for_version(bcrypt::Version::TwoB);
        let of = |start: &str| StoredHash::read(&format!("{start}{}", &text[7..])).is_some();
        assert!(of("$2b$14$"));
        assert!(!of("$2b$15$") && !of("$2b$31$") && !of("$2b$03$") && !of("$2x$04$"));
        for text in ["", "$", "$argon2id$", "$2b$", "plain", "$2b$éé$"] {
            assert!(StoredHash::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn costs_are_bounded() {
        assert_eq!(Cost::new(19 * 1024, 2, 1), Some(Cost::RECOMMENDED));
        for (memory, passes, lanes) in [(7, 1, 1), (64, 0, 1), (64, 1, 0), (64, 11, 1)] {
            assert!(Cost::new(memory, passes, lanes).is_none(), "{memory} {passes} {lanes}");
        }
        assert!(Cost::new(262_145, 1, 1).is_none() && Cost::new(64, 1, 9).is_none());
        assert!(Cost::new(64 * 1024, 1, 17).is_none() && Cost::new(262_144, 10, 16).is_some());
    }

    proptest! {
        #[test]
        fn any_text_can_be_parsed(
            text in "\\$(argon2id|2[abxy])\\$[0-9a-z=,$./]{0,90}|.{0,80}",
        ) {
            let _ = StoredHash::read(&text);
        }
    }
}
