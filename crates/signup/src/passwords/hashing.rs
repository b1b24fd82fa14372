//! One thread's hashing: argon2id in memory that is kept, and what is stored read and compared.

use argon2::password_hash::phc::{Output, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use subtle::ConstantTimeEq as _;

use super::memory;
use super::queue::Work;

/// The most memory that a stored hash may ask for: 256 MiB.
const STORED_MEMORY_KIB_MAX: u32 = 256 * 1024;

/// The most passes that a stored hash may ask for.
const STORED_PASSES_MAX: u32 = 10;

/// The most lanes that a stored hash may ask for.
const STORED_LANES_MAX: u32 = 16;

/// The highest cost of bcrypt that is computed: some four times what was usual.
const BCRYPT_COST_MAX: u32 = 14;

/// Bytes of a salt, and of what is computed.
const SALT_BYTES: usize = 16;
const OUTPUT_BYTES: usize = 32;

/// The salt where there is nobody whose password it could be.
const NOBODYS_SALT: [u8; SALT_BYTES] = [0; SALT_BYTES];

/// What a new hash costs whoever computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl Cost {
    /// OWASP's choice for argon2id: 19 MiB, two passes, one lane.
    pub const RECOMMENDED: Self = Self { memory_kib: 19 * 1024, passes: 2, lanes: 1 };

    /// Another cost; none where argon2 or this crate's bounds do not have it: at least 8 KiB for
    /// each lane, at most 256 MiB, 1 to 10 passes, 1 to 16 lanes.
    #[must_use]
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Option<Self> {
        let cost = Self { memory_kib, passes, lanes };
        let is_bounded = memory_kib <= STORED_MEMORY_KIB_MAX
            && passes <= STORED_PASSES_MAX
            && lanes <= STORED_LANES_MAX;
        (is_bounded && Params::new(memory_kib, passes, lanes, None).is_ok()).then_some(cost)
    }

    /// How much work a hash of this cost is.
    pub(super) const fn work(self) -> Work {
        Work::Argon2(self.memory_kib * self.passes)
    }

    fn params(self, output_bytes: usize) -> Params {
        Params::new(self.memory_kib, self.passes, self.lanes, Some(output_bytes))
            .expect("a cost was looked at when it was made, and an output has 10 to 64 bytes")
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::RECOMMENDED
    }
}

/// A password's hash as it is stored, with its parameters: `$argon2id$v=19$m=…`.
#[derive(Clone, PartialEq, Eq)]
pub struct PhcString(String);

impl PhcString {
    /// The text to store.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    /// The text.
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

/// What a password turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Whether it is the right one.
    pub ok: bool,
    /// Whether it is right and what is stored should be replaced by a new hash of it: other
    /// parameters than today's, or bcrypt.
    pub rehash: bool,
}

impl Verified {
    const WRONG: Self = Self { ok: false, rehash: false };
}

/// What a password is compared with.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Stored {
    Argon2 {
        cost: Cost,
        salt: Salt,
        output: Output,
    },
    Bcrypt {
        text: String,
        cost: u32,
    },
    /// Nobody has that name, or what is stored cannot be used: the work is done all the same.
    Nobody,
}

impl Stored {
    /// Reads what is stored; none where it is no hash, or one that asks for too much.
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

    /// How much work it is to compare, where a new hash has this cost.
    pub(super) const fn work(&self, today: Cost) -> Work {
        match self {
            Self::Argon2 { cost, .. } => cost.work(),
            Self::Bcrypt { cost, .. } => Work::Bcrypt(1 << *cost),
            Self::Nobody => today.work(),
        }
    }

    pub(super) const fn algorithm(&self) -> &'static str {
        match self {
            Self::Argon2 { .. } | Self::Nobody => "argon2id",
            Self::Bcrypt { .. } => "bcrypt",
        }
    }
}

/// What one thread hashes with: the cost of new hashes, and memory for them, which is allocated
/// once. A benchmark uses it as it is, to know what the machine can do without a queue.
pub struct Hashing {
    cost: Cost,
    memory: Vec<Block>,
}

impl Hashing {
    /// Allocates the memory.
    #[must_use]
    pub fn new(cost: Cost) -> Self {
        let memory = memory::blocks(cost.params(OUTPUT_BYTES).block_count());
        Self { cost, memory }
    }

    /// Hashes a password with a salt of its own.
    pub fn hash(&mut self, password: &str) -> PhcString {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).expect("the operating system gives random bytes");
        let cost = self.cost;
        let output = self.output(cost, password, &salt, OUTPUT_BYTES);
        let Cost { memory_kib, passes, lanes } = cost;
        let salt = Salt::new(&salt).expect("a salt has 8 to 48 bytes");
        PhcString(format!("$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${output}"))
    }

    /// Compares a password with what is stored, in a time that does not tell where they differ.
    pub(super) fn verify(&mut self, stored: &Stored, password: &str) -> Verified {
        match stored {
            Stored::Argon2 { cost, salt, output } => {
                let computed = self.output(*cost, password, salt, output.len());
                let ok = bool::from(computed.as_bytes().ct_eq(output.as_bytes()));
                let is_todays = *cost == self.cost && output.len() == OUTPUT_BYTES;
                Verified { ok, rehash: ok && !is_todays }
            }
            Stored::Bcrypt { text, .. } => {
                let ok = bcrypt::verify(password, text).unwrap_or(false);
                Verified { ok, rehash: ok }
            }
            Stored::Nobody => {
                let cost = self.cost;
                std::hint::black_box(self.output(cost, password, &NOBODYS_SALT, OUTPUT_BYTES));
                Verified::WRONG
            }
        }
    }

    /// Computes in the memory that is kept. A stored hash that needs more gets memory for itself.
    fn output(&mut self, cost: Cost, password: &str, salt: &[u8], bytes: usize) -> Output {
        let params = cost.params(bytes);
        let blocks = params.block_count();
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let mut more = vec![];
        let memory = if blocks <= self.memory.len() {
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

    /// Quick enough for tests.
    const CHEAP: Cost = Cost { memory_kib: 64, passes: 1, lanes: 1 };

    fn check(stored: &str, password: &str, ok: bool, rehash: bool) {
        let stored = Stored::read(stored).unwrap();
        let verified = Hashing::new(CHEAP).verify(&stored, password);
        assert_eq!(verified, Verified { ok, rehash });
    }

    #[test]
    fn a_hash_says_what_it_cost_and_verifies_its_password() {
        let mut hashing = Hashing::new(Cost::RECOMMENDED);
        let hash = hashing.hash("LoadTest123@");
        assert!(hash.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.as_str());
        let stored = Stored::read(hash.as_str()).unwrap();
        let verified = hashing.verify(&stored, "LoadTest123@");
        assert_eq!(verified, Verified { ok: true, rehash: false });
        assert_eq!(hashing.verify(&stored, "loadTest123@"), Verified::WRONG);
        assert_ne!(hashing.hash("LoadTest123@"), hash, "each has a salt of its own");
        assert_eq!(format!("{hash:?}"), "PhcString(…)");
    }

    #[test]
    fn the_memory_of_the_hash_before_changes_nothing() {
        let mut used = Hashing::new(CHEAP);
        used.hash("another password");
        let salt = [7; SALT_BYTES];
        let fresh = Hashing::new(CHEAP).output(CHEAP, "password", &salt, OUTPUT_BYTES);
        assert_eq!(used.output(CHEAP, "password", &salt, OUTPUT_BYTES), fresh);
        let larger = Cost::new(256, 2, 2).unwrap();
        let fresh = Hashing::new(larger).output(larger, "password", &salt, OUTPUT_BYTES);
        assert_eq!(used.output(larger, "password", &salt, OUTPUT_BYTES), fresh);
        assert_eq!(used.memory.len(), 64, "what one old hash needed is given back");
    }

    #[test]
    fn hashes_with_other_parameters_verify_and_ask_to_be_replaced() {
        let other = Cost::new(128, 3, 2).unwrap();
        let hash = Hashing::new(other).hash("Ana's password");
        check(hash.as_str(), "Ana's password", true, true);
        check(hash.as_str(), "ana's password", false, false);
        let todays = Hashing::new(CHEAP).hash("Ana's password");
        check(todays.as_str(), "Ana's password", true, false);
    }

    #[test]
    fn bcrypt_verifies_and_asks_to_be_replaced() {
        let hash = bcrypt::hash_with_salt("Ana's password", 4, [3; 16]).unwrap();
        for version in [bcrypt::Version::TwoA, bcrypt::Version::TwoB, bcrypt::Version::TwoY] {
            let text = hash.format_for_version(version);
            check(&text, "Ana's password", true, true);
            check(&text, "ana's password", false, false);
        }
    }

    #[test]
    fn what_asks_for_too_much_or_is_no_hash_is_not_computed() {
        let salt_and_output = "c29tZXNhbHRzb21lc2FsdA$U29tZU91dHB1dE9mMzJCeXRlc1RoYXRJc05vdFJlYWw";
        let argon2 = |start: &str| format!("{start}${salt_and_output}");
        assert!(Stored::read(&argon2("$argon2id$v=19$m=262144,t=10,p=4")).is_some());
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
            assert!(Stored::read(&argon2(start)).is_none(), "{start}");
        }
        let hash = bcrypt::hash_with_salt("x", 4, [3; SALT_BYTES]).unwrap();
        let text = hash.format_for_version(bcrypt::Version::TwoB);
        let of = |start: &str| Stored::read(&format!("{start}{}", &text[7..])).is_some();
        assert!(of("$2b$14$"));
        assert!(!of("$2b$15$") && !of("$2b$31$") && !of("$2b$03$") && !of("$2x$04$"));
        for text in ["", "$", "$argon2id$", "$2b$", "plain", "$2b$éé$"] {
            assert!(Stored::read(text).is_none(), "{text}");
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
        fn reading_what_is_stored_never_panics(
            text in "\\$(argon2id|2[abxy])\\$[0-9a-z=,$./]{0,90}|.{0,80}",
        ) {
            let _ = Stored::read(&text);
        }
    }
}
