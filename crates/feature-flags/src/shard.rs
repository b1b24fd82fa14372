//! The segments of the users who are entitled to a feature, as readers that evaluate by themselves get them.
//!
//! A segment `entitled:<feature>` is sent as a fixed number of segments, so that a change sends few keys. Its place in
//! conditions is taken by the list of them: a list of segments is an *or*. All of them are always sent, empty ones too,
//! because one SDK takes neither *in* nor *not in* for true where a segment is missing. Their ids are UUIDs, because
//! another SDK reads nothing else.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use domain::Timestamp;
use evaluation::{Condition, ENTITLED_SEGMENT, Flag, IN_SEGMENT, NOT_IN_SEGMENT, Segment};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::json;
use uuid::{Builder, Uuid};

/// How many segments hold the users of a feature.
pub const SHARDS: usize = 128;

/// How many keys of users a segment has at most.
pub const SHARD_KEYS_MAX: usize = 1_000;

/// The name of the segment that carries the time of a full message.
const MARK: &str = "entitled";

/// Some of the users who are entitled to a feature, as a segment.
pub struct Shard {
    /// When it was changed, by a clock of this node on which each change has a time of its own.
    pub at_ms: i64,
    /// The keys of the users, in order.
    pub keys: Vec<Box<str>>,
    /// The segment's JSON behind the id of its environment.
    rest: Box<[u8]>,
}

/// The keys of the users who are entitled to features, at one moment.
#[derive(Clone, Default)]
pub struct PublishedKeys {
    /// The latest time of a shard.
    pub at_ms: i64,
    /// By feature: its shards, in their order.
    pub features: BTreeMap<Box<str>, Vec<Arc<Shard>>>,
}

impl Shard {
    /// A shard of a feature.
    pub fn new(feature: &str, number: usize, at_ms: i64, keys: Vec<Box<str>>) -> Self {
        Self::named(format!("{ENTITLED_SEGMENT}{feature}:{number}"), at_ms, keys)
    }

    /// A segment without users: its time is later than all that a reader had before it.
    pub fn mark(at_ms: i64) -> Self {
        Self::named(MARK.to_owned(), at_ms, vec![])
    }

    fn named(name: String, at_ms: i64, keys: Vec<Box<str>>) -> Self {
        let (id, at) = (id(&name), rfc3339(at_ms));
        let mut rest = br#"","id":"#.to_vec();
        write_json(&mut rest, &id);
        for (field, value) in [("name", &name), ("createdAt", &at), ("updatedAt", &at)] {
            rest.extend_from_slice(format!(r#","{field}":"#).as_bytes());
            write_json(&mut rest, value);
        }
        rest.extend_from_slice(br#","description":"","included":"#);
        write_json(&mut rest, &keys);
        rest.extend_from_slice(br#","excluded":[],"rules":[],"isArchived":false}"#);
        Self { at_ms, keys, rest: rest.into() }
    }

    /// Appends it as a segment of an environment.
    pub(crate) fn write(&self, out: &mut Vec<u8>, environment: Uuid) {
        out.extend_from_slice(format!(r#"{{"envId":"{environment}"#).as_bytes());
        out.extend_from_slice(&self.rest);
    }
}

impl PublishedKeys {
    /// The shards of these features; `None` where one of them is not known.
    pub fn shards<'k>(&'k self, features: &[Box<str>]) -> Option<Vec<&'k Shard>> {
        let mut shards = Vec::with_capacity(features.len() * SHARDS);
        for feature in features {
            shards.extend(self.features.get(feature)?.iter().map(|it| &**it));
        }
        Some(shards)
    }
}

/// The shard of a user's key, on all nodes alike (FNV-1a).
pub fn number_of(key: &str) -> usize {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The low bits of short keys that count up differ least.
    usize::try_from((hash ^ (hash >> 32)) % SHARDS as u64).unwrap_or_default()
}

/// The flag as readers that evaluate by themselves get it.
pub fn flag(flag: &Flag) -> Cow<'_, Flag> {
    if !flag.rules.iter().any(|it| it.conditions.iter().any(names_a_feature)) {
        return Cow::Borrowed(flag);
    }
    let mut flag = flag.clone();
    flag.rules.iter_mut().flat_map(|it| &mut it.conditions).for_each(name_shards);
    Cow::Owned(flag)
}

/// The segment as readers that evaluate by themselves get it.
pub fn segment(segment: &Segment) -> Cow<'_, Segment> {
    if !segment.rules.iter().any(|it| it.conditions.iter().any(names_a_feature)) {
        return Cow::Borrowed(segment);
    }
    let mut segment = segment.clone();
    segment.rules.iter_mut().flat_map(|it| &mut it.conditions).for_each(name_shards);
    Cow::Owned(segment)
}

fn names_a_feature(it: &Condition) -> bool {
    matches!(it.property.as_str(), IN_SEGMENT | NOT_IN_SEGMENT)
        && it.value.contains(ENTITLED_SEGMENT)
}

fn name_shards(condition: &mut Condition) {
    if !names_a_feature(condition) {
        return;
    }
    let Ok(segments) = serde_json::from_str::<Vec<String>>(&condition.value) else { return };
    let mut named = vec![];
    for segment in segments {
        if segment.starts_with(ENTITLED_SEGMENT) {
            named.extend((0..SHARDS).map(|it| id(&format!("{segment}:{it}")).to_string()));
        } else {
            named.push(segment);
        }
    }
    condition.value = json!(named).to_string();
}

fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("texts and lists are JSON, and memory takes them");
}

/// The id of the segment with this name, on all nodes alike.
fn id(name: &str) -> Uuid {
    let hash = digest(&SHA256, name.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_ref()[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

fn rfc3339(millis: i64) -> String {
    engine::time::rfc3339_millis(Timestamp(millis.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_may_be_entitled_find_room() {
        let mut shards = [0_usize; SHARDS];
        for number in 0..100_000 {
            shards[number_of(&format!("user-{number}"))] += 1;
        }
        assert!(shards.iter().all(|it| *it <= SHARD_KEYS_MAX), "{shards:?}");
        let ids = (0..100_000_u128).map(|it| Uuid::from_u128(it << 64 | 7 << 76).to_string());
        let mut shards = [0_usize; SHARDS];
        ids.for_each(|it| shards[number_of(&it)] += 1);
        assert!(shards.iter().all(|it| *it <= SHARD_KEYS_MAX), "{shards:?}");
    }

    #[test]
    fn a_feature_is_named_by_its_shards() {
        let mut condition = Condition {
            property: NOT_IN_SEGMENT.to_owned(),
            value: json!(["a", "entitled:sso"]).to_string(),
            ..Condition::default()
        };
        name_shards(&mut condition);
        let named: Vec<String> = serde_json::from_str(&condition.value).unwrap();
        assert_eq!((named.len(), named[0].as_str()), (1 + SHARDS, "a"));
        let shard = Shard::new("sso", 3, 1_700_000_000_000, vec!["ann".into()]);
        assert_eq!(named[4], id("entitled:sso:3").to_string());
        let mut out = vec![];
        shard.write(&mut out, Uuid::nil());
        let read: Segment = serde_json::from_slice(&out).unwrap();
        assert_eq!((read.id, read.included), (named[4].clone(), vec!["ann".to_owned()]));
        assert_eq!((read.env_id, read.name.as_str()), (Uuid::nil().to_string(), "entitled:sso:3"));
        assert_eq!(read.updated_at, "2023-11-14T22:13:20.000Z");
    }
}
