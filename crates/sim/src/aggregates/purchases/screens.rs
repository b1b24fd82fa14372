//! The flags on users' screens: they depend on the entitlements of accounts and arrive on streams that break, from a
//! front that reads a durable change some time after its commit.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use domain::entitlement::Entitlements;
use domain::{AccountId, Revision, Seq, Timestamp};
use engine::Clock;
use evaluation::{
    Condition, Fallthrough, Flag, IN_SEGMENT, MissingAttribute, RolloutVariation, Rule, Snapshot,
    Variation,
};
use feature_flags::accounts::{UserKey, WANTED_MAX};
use feature_flags::subscribers::Subscriber;
use feature_flags::{Account, Environment, FlagCache, Secret, SecretKind};
use flags::Conversation;
use serde_json::{Value, json};
use uuid::Uuid;

use super::PurchaseMutant;
use crate::kernel::TENANT;
use crate::memory::MemoryDisk;

const ENVIRONMENT: Uuid = Uuid::from_u128(1);
const SECRET: &str = "client";
/// An account has many seats from here on.
const MANY: i64 = 4;
/// The length of a frame that the head has room for, and the marks of longer ones (RFC 6455, 5.2).
const LONG: u8 = 126;
const LONGER: u8 = 127;

/// The flags' values on a screen, by their keys.
type Shown = BTreeMap<String, String>;

type Found = Vec<(UserKey, Option<Account>)>;

/// All screens, and the front that they are connected to.
pub(super) struct Screens {
    front: Arc<FlagCache>,
    clock: Clock,
    /// The last change of an account that the front has.
    upto: Seq,
    /// Users who are being looked up, and what was found.
    looking: Option<Found>,
    screens: BTreeMap<AccountId, Screen>,
    /// The durable versions of each account's entitlements, oldest first.
    durable: BTreeMap<AccountId, Vec<Entitlements>>,
    /// Whether the flag that depends on nothing is on, and when it was changed.
    plain: (bool, i64),
    mutant: Option<PurchaseMutant>,
    pub(super) seen: usize,
    pub(super) returns: usize,
}

/// The screen of a user, whose key is the account's id.
struct Screen {
    stream: Option<Stream>,
    shown: Shown,
    /// The latest time of a flag that it was sent.
    newest_ms: i64,
}

struct Stream {
    conversation: Conversation,
    woken: Arc<Woken>,
}

/// Whether a connection's task was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Screens {
    pub(super) fn new(now: i64, mutant: Option<PurchaseMutant>) -> Self {
        let clock = Clock::new(true);
        let plain = (true, now / 1_000);
        Self {
            front: front(&clock, plain),
            clock,
            upto: Seq(0),
            looking: None,
            screens: BTreeMap::new(),
            durable: BTreeMap::new(),
            plain,
            mutant,
            seen: 0,
            returns: 0,
        }
    }

    /// Notes what is durable now.
    pub(super) fn note(&mut self, disk: &MemoryDisk, now: i64) {
        self.clock.set(Timestamp(now));
        for row in disk.entitlements() {
            let rows = self.durable.entry(row.account_id).or_default();
            if rows.last().is_none_or(|it| it.version < row.version) {
                rows.push(row);
            }
        }
    }

    /// The front dies, and another one has nothing in memory.
    pub(super) fn lose_front(&mut self, disk: &MemoryDisk) {
        self.screens.values_mut().for_each(|it| it.stream = None);
        self.looking = None;
        self.front = front(&self.clock, self.plain);
        // It follows what changes from now on.
        let rows = disk.entitlements();
        self.upto = rows.iter().map(|it| it.revision.seq).max().unwrap_or_default();
    }

    /// A user turns a screen on, or one who was away is back.
    pub(super) fn connect(&mut self, account: AccountId) -> Result<(), String> {
        let new = || Screen { stream: None, shown: Shown::new(), newest_ms: 0 };
        let screen = self.screens.entry(account).or_insert_with(new);
        self.returns += usize::from(screen.newest_ms > 0);
        let woken = Arc::new(Woken::default());
        let subscriber = Arc::new(Subscriber::default());
        subscriber.register(&Waker::from(Arc::clone(&woken)));
        let grant = self.front.find(SECRET).expect("the environment has it");
        let begun = Conversation::begin(&self.front, grant, subscriber, 1_000);
        let mut conversation = begun.expect("there are few streams");
        let data = json!({ "timestamp": screen.newest_ms, "user": { "keyId": key(account) } });
        let message = json!({ "messageType": "data-sync", "data": data }).to_string();
        let answer = conversation.answer(message.as_bytes());
        screen.stream = Some(Stream { conversation, woken });
        answer.map_or(Ok(()), |it| self.take(account, &it))
    }

    /// A user goes away. What the screen shows stays there.
    pub(super) fn disconnect(&mut self, account: AccountId) {
        if let Some(screen) = self.screens.get_mut(&account) {
            screen.stream = None;
        }
    }

    /// The flag that depends on nothing is switched.
    pub(super) fn switch(&mut self, now: i64) {
        let (was_on, at) = self.plain;
        self.plain = (!was_on, (now / 1_000).max(at + 1));
        let flags = vec![plain(self.plain)];
        assert!(self.front.apply(ENVIRONMENT, flags, vec![]), "the environment is there");
    }

    /// One step of looking users up: they are read, or what was read is there.
    pub(super) fn look_up(&mut self, disk: &MemoryDisk, now: i64) {
        if let Some(found) = self.looking.take() {
            return self.front.accounts.learn(found);
        }
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(wanted) = pin!(self.front.accounts.wanted(WANTED_MAX)).poll(&mut context)
        else {
            return;
        };
        let rows = disk.entitlements();
        let found = wanted.into_iter().map(|user| {
            let id = AccountId::new(Uuid::parse_str(&user.key).expect("keys are ids"));
            let row = rows.iter().find(|it| it.account_id == id).cloned();
            let row =
                row.unwrap_or_else(|| Entitlements::none_of(TENANT, id, Revision::first(Seq(0))));
            (user, Some(Account::of(&row, Timestamp(now))))
        });
        self.looking = Some(found.collect());
    }

    /// The front reads what has changed, and sends it to the users of those accounts.
    ///
    /// # Errors
    /// A connection of another account was woken.
    pub(super) fn follow(&mut self, disk: &MemoryDisk, now: i64) -> Result<(), String> {
        self.read()?;
        let mut rows = disk.entitlements();
        rows.retain(|it| it.revision.seq > self.upto);
        rows.sort_by_key(|it| it.revision.seq);
        self.upto = rows.last().map_or(self.upto, |it| it.revision.seq);
        let own: BTreeSet<AccountId> = rows.iter().map(|it| it.account_id).collect();
        let changed = rows.iter().map(|row| self.published(row, &own, now)).collect();
        for it in self.screens.values().filter_map(|it| it.stream.as_ref()) {
            it.woken.0.store(false, Ordering::Relaxed);
        }
        self.front.accounts.changed(changed);
        let is_woken =
            |it: &Screen| it.stream.as_ref().is_some_and(|it| it.woken.0.load(Ordering::Relaxed));
        match self.screens.iter().find(|(id, it)| is_woken(it) && !own.contains(id)) {
            Some((other, _)) => Err(format!("only its users are woken by an account: {other}")),
            None => self.read(),
        }
    }

    /// Sends what was about to be committed, and was not.
    pub(super) fn publish_lost(&mut self, rows: &[Entitlements], now: i64) -> Result<(), String> {
        let accounts = rows.iter().map(|it| Account::of(it, Timestamp(now))).collect();
        self.front.accounts.changed(accounts);
        self.read()
    }

    /// All that is due is done: users are looked up, changes are read and sent.
    pub(super) fn settle(&mut self, disk: &MemoryDisk, now: i64) -> Result<(), String> {
        for _ in 0..4 {
            self.look_up(disk, now);
        }
        self.follow(disk, now)
    }

    fn published(&self, row: &Entitlements, own: &BTreeSet<AccountId>, now: i64) -> Account {
        let mut account = Account::of(row, Timestamp(now));
        let connected = self.screens.iter().filter(|(_, it)| it.stream.is_some());
        let mut others = connected.map(|(id, _)| id).filter(|it| !own.contains(it));
        if self.mutant == Some(PurchaseMutant::WakesOthers)
            && let Some(other) = others.next()
        {
            account.id = other.uuid();
            // Newer than all that is known of the other one.
            account.version += 1_000;
        }
        account
    }

    /// Each connection sends what it has to send.
    pub(super) fn read(&mut self) -> Result<(), String> {
        let accounts: Vec<AccountId> = self.screens.keys().copied().collect();
        for account in accounts {
            while let Some(frame) = self.next_update(account) {
                self.take(account, &frame)?;
            }
        }
        Ok(())
    }

    fn next_update(&mut self, account: AccountId) -> Option<bytes::Bytes> {
        let stream = self.screens.get_mut(&account)?.stream.as_mut()?;
        let update = stream.conversation.next_update();
        stream.conversation.subscriber().register(&Waker::from(Arc::clone(&stream.woken)));
        update
    }

    /// A screen takes a message over, as FeatBit's clients do, and shows what was durable once.
    fn take(&mut self, account: AccountId, frame: &[u8]) -> Result<(), String> {
        let mutant = self.mutant;
        let screen = self.screens.get_mut(&account).expect("it is connected");
        let message: Value = serde_json::from_slice(payload(frame)).expect("messages are JSON");
        let data = &message["data"];
        let (is_full, had_ms) = (data["eventType"] == "full", screen.newest_ms);
        // As if an account's changes had the times of the flags.
        let misses = mutant == Some(PurchaseMutant::MissesWhileAway) && had_ms > 0;
        if is_full && !misses {
            screen.shown.clear();
        }
        for item in data["featureFlags"].as_array().into_iter().flatten() {
            let at_ms = item["timestamp"].as_i64().expect("flags have times");
            if misses && is_full && at_ms <= had_ms {
                continue;
            }
            screen.newest_ms = screen.newest_ms.max(at_ms);
            let [flag, value] = ["id", "variation"].map(|it| item[it].as_str().expect("a text"));
            screen.shown.insert(flag.to_owned(), value.to_owned());
        }
        self.seen += 1;
        self.check_durable(account)
    }

    /// Checks that the flags on a screen follow from a version of the entitlements that was durable once.
    fn check_durable(&self, account: AccountId) -> Result<(), String> {
        let (shown, now) = (&self.screens[&account].shown, self.clock.now());
        let rows = self.durable.get(&account).into_iter().flatten();
        let mut known = rows.map(|it| entitled(it, now)).chain([BTreeMap::new()]);
        let is_known = |entitled: &BTreeMap<String, i64>| {
            expected(entitled, false)
                .iter()
                .all(|(flag, value)| flag == PLAIN || shown.get(flag).is_none_or(|it| it == value))
        };
        match known.any(|it| is_known(&it)) {
            true => Ok(()),
            false => Err(format!("what a user sees is durable: {account} sees {shown:?}")),
        }
    }

    /// Once all is read, each connected user sees what the account has.
    ///
    /// # Errors
    /// One sees something else.
    pub(super) fn check(
        &self,
        has: impl Fn(AccountId) -> BTreeMap<String, i64>,
    ) -> Result<(), String> {
        let connected = self.screens.iter().filter(|(_, it)| it.stream.is_some());
        for (account, screen) in connected {
            let expected = expected(&has(*account), self.plain.0);
            if screen.shown != expected {
                let text = format!("{account} sees {:?}, not {expected:?}", screen.shown);
                return Err(format!("a user sees what the account has: {text}"));
            }
        }
        Ok(())
    }
}

const PLAIN: &str = "plain";

/// The flags that a user sees whose account has so much.
fn expected(has: &BTreeMap<String, i64>, is_plain_on: bool) -> Shown {
    let is_many = has.get("seats").is_some_and(|it| *it >= MANY);
    let flags = [("gated", has.contains_key("pro")), ("crowded", is_many), (PLAIN, is_plain_on)];
    flags.map(|(key, is_on)| (key.to_owned(), is_on.to_string())).into()
}

/// The features of a row at a time: the value of a limit, and 1 for every other feature.
fn entitled(row: &Entitlements, at: Timestamp) -> BTreeMap<String, i64> {
    let has = row.at(at).into_iter();
    has.map(|(key, it)| (key.to_owned(), super::amount(&it.value))).collect()
}

fn key(account: AccountId) -> String {
    account.uuid().to_string()
}

/// A front that begins, with the flags.
fn front(clock: &Clock, is_plain_on: (bool, i64)) -> Arc<FlagCache> {
    let front = FlagCache::new();
    let secret = Secret { kind: SecretKind::Client, value: SECRET.to_owned(), expires_at_ms: None };
    let is_entitled = Condition {
        property: IN_SEGMENT.to_owned(),
        value: json!(["entitled:pro"]).to_string(),
        ..Condition::default()
    };
    let has_many = Condition {
        property: "entitled.seats".to_owned(),
        op: "BiggerEqualThan".to_owned(),
        value: MANY.to_string(),
        ..Condition::default()
    };
    let flags =
        [flag("gated", Some(is_entitled)), flag("crowded", Some(has_many)), plain(is_plain_on)];
    front.upsert([Environment {
        id: ENVIRONMENT,
        tenant: TENANT,
        key: "dev".to_owned(),
        project_key: "default".to_owned(),
        secrets: vec![secret],
        snapshot: Snapshot::new(MissingAttribute::Empty).with(flags, []),
    }]);
    front.accounts.set_clock(clock.clone());
    front.accounts.begin();
    Arc::new(front)
}

/// The flag that depends on nothing.
fn plain((is_on, at_ms): (bool, i64)) -> Flag {
    let at = jiff::Timestamp::from_millisecond(at_ms).expect("it is of this era");
    let updated_at = at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    Flag { is_enabled: is_on, updated_at, ..flag(PLAIN, None) }
}

/// A flag that is on where a condition is met; without one, for all.
fn flag(key: &str, condition: Option<Condition>) -> Flag {
    let all = |id: &str| {
        vec![RolloutVariation { id: id.to_owned(), rollout: [0.0, 1.0], expt_rollout: 1.0 }]
    };
    let variation =
        |id: &str| Variation { id: id.to_owned(), value: id.to_owned(), ..Variation::default() };
    let fallthrough = if condition.is_some() { "false" } else { "true" };
    let rule = |condition| Rule {
        name: "r".to_owned(),
        conditions: vec![condition],
        variations: all("true"),
        ..Rule::default()
    };
    Flag {
        key: key.to_owned(),
        variation_type: "boolean".to_owned(),
        variations: vec![variation("true"), variation("false")],
        rules: condition.into_iter().map(rule).collect(),
        is_enabled: true,
        disabled_variation_id: "false".to_owned(),
        fallthrough: Fallthrough { variations: all(fallthrough), ..Fallthrough::default() },
        updated_at: "1970-01-01T00:00:00.001Z".to_owned(),
        ..Flag::default()
    }
}

/// The text of a frame that is not masked.
fn payload(frame: &[u8]) -> &[u8] {
    let head = match frame[1] {
        LONG => 4,
        LONGER => 10,
        _ => 2,
    };
    &frame[head..]
}
