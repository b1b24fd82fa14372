//! Random changes, and readers that connect, disconnect and reconnect: a reader always has what a new
//! one would get.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use domain::{TenantNo, Timestamp};
use evaluation::{
    Condition, Fallthrough, Flag, IN_SEGMENT, MissingAttribute, NOT_IN_SEGMENT, RolloutVariation,
    Rule, Segment, SegmentRule, Snapshot, Variation,
};
use feature_flags::accounts::Step;
use feature_flags::entitled_keys::{KeyUpdate, SentShard};
use feature_flags::shard::{SHARDS, number_of};
use feature_flags::{Account, Environment, Secret};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

const ID: Uuid = Uuid::from_u128(1);
const SECRETS: [(SecretKind, &str); 2] = [(SecretKind::Server, "s"), (SecretKind::Client, "c")];
const TENANT: TenantNo = TenantNo(1);
const START_MS: i64 = 1_780_272_000_000;

/// An event of a test.
#[derive(Clone, Debug)]
enum Event {
    /// Some flags and segments are changed together.
    Change(Vec<Flag>, Vec<Segment>),
    /// The reader reads all updates.
    Read,
    /// The connection breaks, and the reader reconnects.
    Reconnect,
    /// The reader changes its user.
    Identify(u8),
    /// The account of a user is entitled to this much of a feature from now on.
    Entitle(u8, Option<u8>),
}

fn condition() -> impl Strategy<Value = Condition> {
    let segments = prop::sample::subsequence(vec!["s0", "s1", "s2", "s3"], 0..3);
    let in_segment = (any::<bool>(), segments).prop_map(|(is_in, ids)| Condition {
        property: (if is_in { IN_SEGMENT } else { NOT_IN_SEGMENT }).to_owned(),
        value: json!(ids).to_string(),
        ..Condition::default()
    });
    let is_user = (0..4_u8).prop_map(|number| Condition {
        property: "keyId".to_owned(),
        op: "Equal".to_owned(),
        value: format!("u{number}"),
        ..Condition::default()
    });
    let is_entitled = any::<bool>().prop_map(|is_in| Condition {
        property: (if is_in { IN_SEGMENT } else { NOT_IN_SEGMENT }).to_owned(),
        value: json!(["entitled:f"]).to_string(),
        ..Condition::default()
    });
    let has_more = (0..3_u8).prop_map(|limit| Condition {
        property: "entitled.f".to_owned(),
        op: "BiggerThan".to_owned(),
        value: limit.to_string(),
        ..Condition::default()
    });
    prop_oneof![4 => in_segment, 2 => is_user, 1 => is_entitled, 1 => has_more]
}

fn flag() -> impl Strategy<Value = Flag> {
    let rules = prop::collection::vec(prop::collection::vec(condition(), 0..3), 0..3);
    let states = (prop::bool::weighted(0.8), prop::bool::weighted(0.15));
    (0..6_u8, rules, states, 0.0..1.0_f64).prop_map(|(number, rules, (on, archived), share)| {
        let variation = |id: &str| Variation {
            id: id.to_owned(),
            value: id.to_owned(),
            ..Variation::default()
        };
        let part =
            |id: &str, rollout| RolloutVariation { id: id.to_owned(), rollout, expt_rollout: 1.0 };
        let rule = |(number, conditions)| Rule {
            name: format!("r{number}"),
            conditions,
            variations: vec![part("a", [0.0, 1.0])],
            ..Rule::default()
        };
        Flag {
            key: format!("f{number}"),
            variation_type: "string".to_owned(),
            variations: vec![variation("a"), variation("b")],
            rules: rules.into_iter().enumerate().map(rule).collect(),
            is_enabled: on,
            disabled_variation_id: "b".to_owned(),
            fallthrough: Fallthrough {
                variations: vec![part("a", [0.0, share]), part("b", [share, 1.0])],
                ..Fallthrough::default()
            },
            is_archived: archived,
            ..Flag::default()
        }
    })
}

fn segment() -> impl Strategy<Value = Segment> {
    let users = || prop::sample::subsequence(vec!["u0", "u1", "u2", "u3"], 0..3);
    let rules = prop::collection::vec(prop::collection::vec(condition(), 1..3), 0..2);
    (0..4_u8, users(), users(), rules).prop_map(|(number, included, excluded, rules)| {
        let owned = |keys: Vec<&str>| keys.into_iter().map(str::to_owned).collect();
        let rule = |conditions| SegmentRule { conditions, ..SegmentRule::default() };
        Segment {
            id: format!("s{number}"),
            included: owned(included),
            excluded: owned(excluded),
            rules: rules.into_iter().map(rule).collect(),
            ..Segment::default()
        }
    })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let change = (prop::collection::vec(flag(), 0..3), prop::collection::vec(segment(), 0..2));
    let event = prop_oneof![
        6 => change.prop_map(|(flags, segments)| Event::Change(flags, segments)),
        3 => Just(Event::Read),
        2 => Just(Event::Reconnect),
        1 => (0..4_u8).prop_map(Event::Identify),
        3 => (0..4_u8, prop::option::of(0..4_u8))
            .prop_map(|(user, has)| Event::Entitle(user, has)),
    ];
    prop::collection::vec(event, 1..40)
}

/// Each time is later than all before it.
struct Clock(i64);

impl Clock {
    fn next(&mut self) -> String {
        self.0 += 1;
        let at_ms = self.0;
        format!(
            "2026-06-01T00:{:02}:{:02}.{:03}Z",
            at_ms / 60_000,
            at_ms / 1_000 % 60,
            at_ms % 1_000
        )
    }
}

/// The state of an SDK.
struct Reader {
    conversation: Conversation,
    user: u8,
    items: BTreeMap<String, Value>,
    /// The newest time that it received.
    newest_ms: i64,
    is_strict: bool,
    /// Whether it is a server SDK, which is sent all again where times would go back.
    evaluates: bool,
}

impl Reader {
    fn connect(cache: &FlagCache, kind: SecretKind) -> Self {
        let (_, secret) = SECRETS.into_iter().find(|(it, _)| *it == kind).unwrap();
        let grant = cache.find(secret).unwrap();
        let conversation = Conversation::begin(cache, grant, Arc::default(), 1_000).unwrap();
        let items = BTreeMap::new();
        let evaluates = kind == SecretKind::Server;
        let (newest_ms, is_strict) = (0, evaluates);
        Self { conversation, user: 0, items, newest_ms, is_strict, evaluates }
    }

    /// Requests the changes since the newest time.
    fn sync(&mut self) {
        let user = json!({"keyId": format!("u{}", self.user)});
        let data = json!({"timestamp": self.newest_ms, "user": user});
        let message = json!({"messageType": "data-sync", "data": data}).to_string();
        let is_new = self.newest_ms == 0;
        let answer = self.conversation.answer(message.as_bytes()).unwrap();
        let extent = self.take(&answer);
        assert!(!is_new || extent == "full", "{extent}");
    }

    fn reconnect(&mut self, cache: &FlagCache, kind: SecretKind) {
        self.conversation = Self::connect(cache, kind).conversation;
        self.sync();
    }

    fn read(&mut self) {
        while let Some(update) = self.conversation.next_update() {
            let extent = self.take(&update);
            assert!(extent == "patch" || self.evaluates, "{extent}");
        }
    }

    fn take(&mut self, frame: &[u8]) -> String {
        let head = match frame[1] {
            126 => 4,
            127 => 10,
            _ => 2,
        };
        let message: Value = serde_json::from_slice(&frame[head..]).unwrap();
        let data = &message["data"];
        let extent = data["eventType"].as_str().unwrap().to_owned();
        let had_ms = self.newest_ms;
        let is_full = extent == "full";
        if is_full {
            self.items.clear();
        }
        for (sort, name) in [("featureFlags", "key"), ("segments", "id")] {
            for item in data[sort].as_array().into_iter().flatten() {
                let key = item[name].as_str().or(item["id"].as_str()).unwrap();
                let updated_at = item["updatedAt"].as_str();
                let at_ms = item["timestamp"].as_i64().or(updated_at.map(milliseconds)).unwrap();
                self.newest_ms = self.newest_ms.max(at_ms);
                if item["name"] == "entitled" {
                    continue;
                }
                // Some SDKs take over nothing that is not later than all that they have.
                assert!(!self.is_strict || is_full || at_ms > had_ms, "{key} at {at_ms}: {had_ms}");
                self.items.insert(format!("{sort} {key}"), item.clone());
            }
        }
        assert!(!self.is_strict || !is_full || self.newest_ms > had_ms, "{had_ms}");
        extent
    }
}

/// A time of [`Clock`] in milliseconds since 1970.
fn milliseconds(time: &str) -> i64 {
    let part = |from: usize, to: usize| time[from..to].parse::<i64>().unwrap();
    START_MS + part(14, 16) * 60_000 + part(17, 19) * 1_000 + part(20, 23)
}

fn cache(clock: &mut Clock) -> FlagCache {
    let cache = FlagCache::new();
    let secret = |(kind, value): (SecretKind, &str)| Secret {
        kind,
        value: value.to_owned(),
        expires_at_ms: None,
    };
    let first = Flag { key: "f0".to_owned(), updated_at: clock.next(), ..Flag::default() };
    cache.upsert([Environment {
        id: ID,
        tenant: TENANT,
        key: "dev".to_owned(),
        project_key: "default".to_owned(),
        secrets: SECRETS.map(secret).to_vec(),
        snapshot: Snapshot::new(MissingAttribute::Empty).with([first], []),
    }]);
    let users = (0..4).map(|user| cache.accounts.user(TENANT, &format!("u{user}")));
    let users: Vec<_> = users.collect();
    cache.accounts.learn(users.iter().zip(0..).map(|(it, user)| it.found(account(user))).collect());
    cache
}

/// The account of a user, with nothing.
fn account(user: u8) -> Account {
    Account { id: Uuid::from_u128(100 + u128::from(user)), ..Account::default() }
}

/// The users that the ledger publishes as entitled to the feature.
struct Keys {
    at_ms: i64,
    users: BTreeSet<u8>,
}

impl Keys {
    fn publish(cache: &FlagCache) -> Self {
        drop(cache.entitled_keys.of(TENANT, &["f".into()]));
        let it = Self { at_ms: START_MS, users: BTreeSet::new() };
        it.send(cache, 0..SHARDS);
        it
    }

    /// Publishes a change, often in the same millisecond as a flag's, or before it.
    fn set(&mut self, cache: &FlagCache, (user, is_entitled): (u8, bool), now: i64) {
        let has_changed = match is_entitled {
            true => self.users.insert(user),
            false => self.users.remove(&user),
        };
        if has_changed {
            self.at_ms = (START_MS + now).max(self.at_ms + 1);
            let number = number_of(&format!("u{user}"));
            self.send(cache, number..number + 1);
        }
    }

    fn send(&self, cache: &FlagCache, numbers: Range<usize>) {
        let shard = |number| {
            let keys = self.users.iter().map(|it| format!("u{it}"));
            let keys = keys.filter(|it| number_of(it) == number).map(Into::into).collect();
            SentShard { feature: "f".into(), number, at_ms: self.at_ms, keys }
        };
        let shards = numbers.map(shard).collect();
        cache.entitled_keys.publish(KeyUpdate { tenant: TENANT, at_ms: self.at_ms, shards });
    }
}

/// Plays events; after each read, compares the reader with one that just connected.
fn check(events: Vec<Event>, kind: SecretKind) -> Result<(), TestCaseError> {
    let mut clock = Clock(0);
    let cache = cache(&mut clock);
    let mut reader = Reader::connect(&cache, kind);
    let (mut version, mut keys) = (0, Keys::publish(&cache));
    let time = engine::Clock::new(true);
    cache.accounts.set_clock(time.clone());
    reader.sync();
    for event in events.into_iter().chain([Event::Read, Event::Reconnect]) {
        time.set(Timestamp((START_MS + clock.0) * 1_000));
        match event {
            Event::Change(mut flags, mut segments) => {
                flags.iter_mut().for_each(|it| it.updated_at = clock.next());
                segments.iter_mut().for_each(|it| it.updated_at = clock.next());
                prop_assert!(cache.apply(ID, flags, segments));
                continue;
            }
            Event::Entitle(user, has) => {
                clock.0 += i64::from(has.unwrap_or_default());
                keys.set(&cache, (user, has.is_some()), clock.0);
                version += 1;
                let entitled = has.map(|it| ("f", it.to_string())).into_iter().collect();
                let steps = vec![Step { until_ms: None, entitled }];
                cache.accounts.changed(vec![Account { version, steps, ..account(user) }]);
                continue;
            }
            Event::Identify(_) if kind == SecretKind::Server => continue,
            Event::Identify(user) => {
                reader.user = user;
                reader.sync();
            }
            Event::Read => reader.read(),
            Event::Reconnect => reader.reconnect(&cache, kind),
        }
        let mut new = Reader::connect(&cache, kind);
        new.user = reader.user;
        new.sync();
        prop_assert_eq!(&reader.items, &new.items);
        prop_assert!(reader.conversation.next_update().is_none());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_server_that_reads_or_reconnects_has_everything(events in events()) {
        check(events, SecretKind::Server)?;
    }

    #[test]
    fn a_client_that_reads_or_reconnects_has_everything(events in events()) {
        check(events, SecretKind::Client)?;
    }

    /// On an open stream, times do not matter.
    #[test]
    fn changes_of_the_same_millisecond_are_all_sent(
        changes in prop::collection::vec((flag(), segment(), any::<bool>()), 1..20),
        is_client: bool,
    ) {
        let kind = if is_client { SecretKind::Client } else { SecretKind::Server };
        let mut clock = Clock(0);
        let cache = cache(&mut clock);
        let (mut reader, now) = (Reader::connect(&cache, kind), clock.next());
        drop(Keys::publish(&cache));
        reader.is_strict = false;
        reader.sync();
        for (mut flag, mut segment, is_read) in changes {
            (flag.updated_at, segment.updated_at) = (now.clone(), now.clone());
            prop_assert!(cache.apply(ID, vec![flag], vec![segment]));
            if is_read {
                reader.read();
            }
        }
        reader.read();
        let mut new = Reader::connect(&cache, kind);
        new.sync();
        prop_assert_eq!(&reader.items, &new.items);
    }
}
