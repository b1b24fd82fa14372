//! Signatures of records: an HMAC under the cluster's key, bound to what a record holds, to where it
//! lies, to the role of its producer and to the time of signing. Decision 0020.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use ring::hmac;
use secrets::{RootKey, key_file};

/// The header with a record's signature.
pub const SIGNATURE: &str = "faregate-signature";

/// Headers whose names begin so are bound by the signature, and no other header is believed.
const BOUND: &str = "faregate-";

/// The only version that is written and accepted.
const VERSION: u8 = 1;

const KEY_ID_BYTES: usize = 4;
const TAG_BYTES: usize = 32;

/// Version, role, time of signing, id of the key, HMAC-SHA-256.
const SIGNATURE_BYTES: usize = 1 + 1 + 8 + KEY_ID_BYTES + TAG_BYTES;

/// The value of the header.
pub type Signature = [u8; SIGNATURE_BYTES];

/// The producer of a record. A front produces commands, a processor replies, dead-letter records and
/// questions for the broker's time, an operator sends dead-letter records again and forgets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Front,
    Processor,
    Operator,
}

impl Role {
    const ALL: [Self; 3] = [Self::Front, Self::Processor, Self::Operator];

    const fn byte(self) -> u8 {
        match self {
            Self::Front => 1,
            Self::Processor => 2,
            Self::Operator => 3,
        }
    }
}

/// Why a record is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature, or none of a form that is known here.
    #[error("it is not signed")]
    Missing,
    /// The key is neither `kafka.key_file` nor `kafka.previous_key_file`.
    #[error("it is signed with a key that this process does not have")]
    UnknownKey,
    /// Something that the signature binds is different.
    #[error("its signature does not belong to it: it was changed, or copied from elsewhere")]
    Wrong,
    /// It says what a producer of its role does not say.
    #[error("its producer has no right to say what it says")]
    WrongRole,
    /// It was signed long before or after the broker appended it.
    #[error(
        "it was signed long before or after it was appended: it is a copy, or a clock is wrong"
    )]
    Stale,
}

impl SignatureError {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Missing, Self::UnknownKey, Self::Wrong, Self::WrongRole, Self::Stale];

    /// Its name in metrics and in the headers of dead letters.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Missing => "unsigned",
            Self::UnknownKey => "unknown_key",
            Self::Wrong => "wrong_signature",
            Self::WrongRole => "wrong_role",
            Self::Stale => "stale",
        }
    }
}

/// The keys of a cluster: one that signs, and perhaps another one that is accepted too.
#[derive(Clone)]
pub struct ClusterKeys(Arc<[Key]>);

struct Key {
    id: [u8; KEY_ID_BYTES],
    mac: hmac::Key,
}

impl Key {
    fn new(root: &RootKey) -> Self {
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&root.derive("kafka key id")[..KEY_ID_BYTES]);
        Self { id, mac: hmac::Key::new(hmac::HMAC_SHA256, &root.derive("kafka records")) }
    }
}

impl fmt::Debug for ClusterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKeys(…)")
    }
}

impl ClusterKeys {
    /// Signs with `current`; accepts `previous` too, if there is one.
    #[must_use]
    pub fn new(current: &RootKey, previous: Option<&RootKey>) -> Self {
        Self(std::iter::once(current).chain(previous).map(Key::new).collect())
    }

    /// Reads the keys from files of 32 bytes that only their owner and group may access.
    ///
    /// # Errors
    /// [`key_file::Error`].
    pub fn read(current: &Path, previous: Option<&Path>) -> Result<Self, key_file::Error> {
        let read = |path: &Path| key_file::read(path).map(RootKey::new);
        let previous = previous.map(read).transpose()?;
        Ok(Self::new(&read(current)?, previous.as_ref()))
    }

    /// The signature of a record, as of this time in milliseconds since 1970.
    #[must_use]
    pub fn sign(&self, role: Role, signed_at_ms: i64, content: &Content<'_>) -> Signature {
        let Key { id, mac } = &self.0[0];
        let tag = hmac::sign(mac, &content.message(role.byte(), signed_at_ms));
        let mut signature = [0; SIGNATURE_BYTES];
        signature[0] = VERSION;
        signature[1] = role.byte();
        signature[2..10].copy_from_slice(&signed_at_ms.to_be_bytes());
        signature[10..14].copy_from_slice(id);
        signature[14..].copy_from_slice(tag.as_ref());
        signature
    }

    /// Verifies the signature of a record, where it has one.
    ///
    /// # Errors
    /// [`SignatureError`]: no part of the record is to be believed.
    ///
    /// # Panics
    /// Never: a signature has as many bytes as are read of it.
    pub fn verify(
        &self,
        signature: Option<&[u8]>,
        content: &Content<'_>,
    ) -> Result<Signed, SignatureError> {
        let signature = signature.and_then(|it| Signature::try_from(it).ok());
        let signature = signature.filter(|it| it[0] == VERSION).ok_or(SignatureError::Missing)?;
        let key = self.0.iter().find(|key| key.id == signature[10..14]);
        let key = key.ok_or(SignatureError::UnknownKey)?;
        let signed_at_ms = i64::from_be_bytes(signature[2..10].try_into().expect("eight bytes"));
        let message = content.message(signature[1], signed_at_ms);
        hmac::verify(&key.mac, &message, &signature[14..]).map_err(|_| SignatureError::Wrong)?;
        let role = Role::ALL.into_iter().find(|role| role.byte() == signature[1]);
        Ok(Signed { role: role.ok_or(SignatureError::WrongRole)?, signed_at_ms })
    }
}

/// Who signed a record, and when, in milliseconds since 1970 by the producer's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed {
    pub role: Role,
    pub signed_at_ms: i64,
}

/// Name and value of a header; the value is empty where there is none.
pub type HeaderPart<'a> = (&'a str, &'a [u8]);

/// The parts of a record that its signature covers.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub key: Option<&'a [u8]>,
    /// In their order; those whose names do not begin with `faregate-` are left out.
    pub headers: &'a [HeaderPart<'a>],
    /// `None` in a record that forgets its key.
    pub value: Option<&'a [u8]>,
}

impl Content<'_> {
    /// Every text is preceded by its length, and what may be missing by whether it is there: no two
    /// contents have the same message.
    fn message(&self, role: u8, signed_at_ms: i64) -> Vec<u8> {
        const FIXED_BYTES: usize = 128;
        let bytes = self.value.map_or(0, <[u8]>::len) + self.topic.len() + FIXED_BYTES;
        let mut message = Vec::with_capacity(bytes);
        message.extend([VERSION, role]);
        message.extend(signed_at_ms.to_be_bytes());
        put(&mut message, Some(self.topic.as_bytes()));
        message.extend(self.partition.to_be_bytes());
        put(&mut message, self.key);
        for (name, value) in self.headers.iter().filter(|(name, _)| is_bound(name)) {
            put(&mut message, Some(name.as_bytes()));
            put(&mut message, Some(value));
        }
        // No header has this name: the value begins here.
        put(&mut message, None);
        put(&mut message, self.value);
        message
    }
}

fn put(message: &mut Vec<u8>, part: Option<&[u8]>) {
    match part {
        None => message.push(0),
        Some(bytes) => {
            message.push(1);
            message.extend(
                u64::try_from(bytes.len()).expect("usize has 64 bits or fewer").to_be_bytes(),
            );
            message.extend(bytes);
        }
    }
}

fn is_bound(header: &str) -> bool {
    header.starts_with(BOUND) && header != SIGNATURE
}

/// Signs what a producer of one role produces, and verifies what others have produced. Without keys
/// nothing is signed, and everything is believed.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    keys: Option<ClusterKeys>,
    role: Role,
}

impl Signer {
    pub(crate) const fn new(keys: Option<ClusterKeys>, role: Role) -> Self {
        Self { keys, role }
    }

    /// The signature of a record that is about to be sent; `None` without keys.
    pub(crate) fn sign(&self, content: &Content<'_>) -> Option<Signature> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        self.keys.as_ref().map(|keys| keys.sign(self.role, now_ms, content))
    }

    /// A record with its signature, where the cluster has a key.
    pub(crate) fn record<'a>(&self, content: &Content<'a>) -> FutureRecord<'a, [u8], [u8]> {
        let mut headers = OwnedHeaders::new();
        for (key, value) in content.headers {
            headers = headers.insert(Header { key, value: Some(*value) });
        }
        if let Some(signature) = self.sign(content) {
            headers = headers.insert(Header { key: SIGNATURE, value: Some(signature.as_slice()) });
        }
        FutureRecord {
            partition: Some(content.partition),
            payload: content.value,
            key: content.key,
            headers: Some(headers),
            ..FutureRecord::to(content.topic)
        }
    }

    /// Verifies a record that was read; `None` without keys.
    ///
    /// # Errors
    /// [`SignatureError`]: no part of the record is to be believed.
    pub(crate) fn verify(&self, record: &impl Message) -> Result<Option<Signed>, SignatureError> {
        let Some(keys) = &self.keys else { return Ok(None) };
        let headers = headers_of(record.headers()).ok_or(SignatureError::Missing)?;
        let signature = headers.iter().find(|(name, _)| *name == SIGNATURE);
        let content = Content {
            topic: record.topic(),
            partition: record.partition(),
            key: record.key(),
            headers: &headers,
            value: record.payload(),
        };
        keys.verify(signature.map(|(_, value)| *value), &content).map(Some)
    }
}

/// The headers of a record, in their order. `None` where one of them cannot be read: rdkafka panics at
/// a name that is not UTF-8, and any producer can send one.
pub(crate) fn headers_of<H: Headers>(headers: Option<&H>) -> Option<Vec<HeaderPart<'_>>> {
    let Some(headers) = headers else { return Some(vec![]) };
    let read = || {
        let parts = headers.iter().map(|header| (header.key, header.value.unwrap_or_default()));
        parts.collect()
    };
    catch_unwind(AssertUnwindSafe(read)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::Timestamp;
    use rdkafka::message::OwnedMessage;
    use secrets::KEY_BYTES;

    const ATTEMPTS: HeaderPart<'static> = ("faregate-attempts", b"1");

    fn keys(current: u8, previous: Option<u8>) -> ClusterKeys {
        let root = |byte| RootKey::new([byte; KEY_BYTES]);
        ClusterKeys::new(&root(current), previous.map(root).as_ref())
    }

    fn content<'a>(headers: &'a [HeaderPart<'a>]) -> Content<'a> {
        let (key, value) = (Some(b"2/key".as_slice()), Some(b"value".as_slice()));
        Content { topic: "faregate.payment", partition: 3, key, headers, value }
    }

    fn check(
        verifier: &ClusterKeys,
        change: impl FnOnce(&mut Signature, &mut Content<'_>),
        expected: Result<Role, SignatureError>,
    ) {
        let headers = [ATTEMPTS];
        let mut content = content(&headers);
        let mut signature = keys(7, None).sign(Role::Front, 1_795_000_000_000, &content);
        change(&mut signature, &mut content);
        let verified = verifier.verify(Some(&signature), &content).map(|it| it.role);
        assert_eq!(verified, expected);
    }

    #[test]
    fn a_signature_holds_for_its_own_record_only() {
        let same = keys(7, None);
        let wrong = Err(SignatureError::Wrong);
        check(&same, |_, _| {}, Ok(Role::Front));
        check(&same, |_, it| it.topic = "faregate.balance", wrong);
        check(&same, |_, it| it.partition = 2, wrong);
        check(&same, |_, it| it.key = Some(b"3/key"), wrong);
        check(&same, |_, it| it.key = None, wrong);
        check(&same, |_, it| it.value = Some(b"valuf"), wrong);
        check(&same, |_, it| it.value = None, wrong);
        check(&same, |_, it| it.headers = &[], wrong);
        check(&same, |_, it| it.headers = &[("faregate-attempts", b"2")], wrong);
        check(&same, |_, it| it.headers = &[("faregate-attempt", b"s1")], wrong);
        check(&same, |_, it| it.headers = &[ATTEMPTS, ("faregate-reason", b"")], wrong);
        // What moves from one part into the next one.
        let moved = |_: &mut Signature, it: &mut Content<'_>| {
            it.key = Some(b"2/keyv");
            it.value = Some(b"alue");
        };
        check(&same, moved, wrong);
        // The role, the time and every bit of the tag.
        check(&same, |signature, _| signature[1] = Role::Processor.byte(), wrong);
        for at in (2..10).chain(14..SIGNATURE_BYTES) {
            check(&same, |signature, _| signature[at] ^= 1, wrong);
        }
        // Headers of other names are not believed, so that they may differ.
        check(&same, |_, it| it.headers = &[("trace", b"x"), ATTEMPTS], Ok(Role::Front));
    }

    #[test]
    fn another_key_or_form_is_refused_and_the_previous_key_accepted() {
        check(&keys(8, None), |_, _| {}, Err(SignatureError::UnknownKey));
        check(&keys(8, Some(7)), |_, _| {}, Ok(Role::Front));
        check(&keys(8, Some(7)), |signature, _| signature[20] ^= 1, Err(SignatureError::Wrong));
        check(&keys(7, None), |signature, _| signature[0] = 2, Err(SignatureError::Missing));
        let (keys, content) = (keys(8, Some(7)), content(&[]));
        let signature = keys.sign(Role::Operator, 0, &content);
        assert_eq!(keys.verify(None, &content), Err(SignatureError::Missing));
        for length in 0..SIGNATURE_BYTES {
            let cut = keys.verify(Some(&signature[..length]), &content);
            assert_eq!(cut, Err(SignatureError::Missing), "cut to {length} bytes");
        }
        let (key, other) = (self::keys(8, None), self::keys(7, None));
        assert!(key.verify(Some(&signature), &content).is_ok(), "the current key signs");
        assert_eq!(other.verify(Some(&signature), &content), Err(SignatureError::UnknownKey));
        assert_eq!(format!("{keys:?}"), "ClusterKeys(…)");
    }

    #[test]
    fn a_record_is_verified_as_it_was_read() {
        let signer = |keys| Signer::new(keys, Role::Processor);
        let with_keys = signer(Some(keys(7, None)));
        let headers = [ATTEMPTS];
        let content = content(&headers);
        let signature = with_keys.sign(&content).unwrap();
        let record = |partition, signature: Option<&Signature>| {
            let mut headers =
                OwnedHeaders::new().insert(Header { key: ATTEMPTS.0, value: Some(ATTEMPTS.1) });
            if let Some(signature) = signature {
                headers =
                    headers.insert(Header { key: SIGNATURE, value: Some(signature.as_slice()) });
            }
            OwnedMessage::new(
                content.value.map(<[u8]>::to_vec),
                content.key.map(<[u8]>::to_vec),
                content.topic.to_owned(),
                Timestamp::NotAvailable,
                partition,
                5,
                Some(headers),
            )
        };
        let verify = |record| with_keys.verify(&record).map(|it| it.map(|it| it.role));
        assert_eq!(verify(record(3, Some(&signature))), Ok(Some(Role::Processor)));
        assert_eq!(verify(record(4, Some(&signature))), Err(SignatureError::Wrong));
        assert_eq!(verify(record(3, None)), Err(SignatureError::Missing));
        let without = signer(None);
        assert_eq!(without.sign(&content), None);
        assert_eq!(without.verify(&record(3, None)), Ok(None));
    }

    /// As rdkafka's headers of a record that was read.
    struct NotUtf8;

    impl Headers for NotUtf8 {
        fn count(&self) -> usize {
            1
        }

        fn try_get(&self, at: usize) -> Option<Header<'_, &[u8]>> {
            let name = [b"\xff".as_slice()].get(at).copied()?;
            Some(Header { key: std::str::from_utf8(name).unwrap(), value: None })
        }
    }

    #[test]
    fn a_header_whose_name_is_no_text_is_no_panic() {
        assert_eq!(headers_of(Some(&NotUtf8)), None);
        assert_eq!(headers_of::<NotUtf8>(None), Some(vec![]));
    }
}
