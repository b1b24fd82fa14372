//! The entitlements of accounts of flags' users, in memory: of users that ask, or are connected.
//!
//! A user is looked up once, however many ask, by the task that calls [`Accounts::wanted`]. Its account's later
//! changes are published by [`Accounts::changed`], which wakes the connections of that account's users and no
//! others.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use domain::entitlement::Entitlements;
use domain::entitlement::feature::FeatureValue;
use domain::{TenantNo, Timestamp};
use engine::Clock;
use engine::entitlements::{levels, read_counts};
use engine::ports::{Queries, StoreError};
use evaluation::Entitled;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::found_within::found_within;
use crate::subscribers::Subscriber;
use crate::time::now_ms;

/// The longest key of a user that an account may have, in bytes. Users with longer ones have none.
pub const USER_KEY_BYTES_MAX: usize = 255;

/// How many users are looked up together.
pub const WANTED_MAX: usize = 256;

/// How many users are kept of whom none is connected.
const IDLE_USERS_MAX: usize = 100_000;

/// After this, a user who belonged to no account is looked up again: it may have one by now.
const NO_ACCOUNT_MS: i64 = 60_000;

/// How many steps of an account are known. Its timer gives it a new version at the end of each.
const STEPS_MAX: usize = 4;

/// A user of a tenant's flags.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UserKey {
    pub tenant: TenantNo,
    pub key: Box<str>,
}

impl fmt::Debug for UserKey {
    /// Without the key, which may name a person.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserKey").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// The entitlements of an account, from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Nil: the user belongs to no account.
    pub id: Uuid,
    /// Counts the changes; 0 before the first.
    pub version: i64,
    /// The first holds now. Behind the last it has nothing.
    pub steps: Vec<Step>,
    /// The use of its limits; `None` where that was not read: it is as it was known before.
    pub taken: Option<Vec<Taken>>,
}

/// The quantity of a limit that an account used or reserved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Taken {
    /// The feature's key.
    pub feature: Box<str>,
    pub taken: i64,
    /// When the count starts again, in milliseconds since 1970; `None`: never.
    pub resets_ms: Option<i64>,
    /// When something of what is reserved comes back by itself; `None`: never.
    pub returns_ms: Option<i64>,
}

/// The entitlements of an account for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// In milliseconds since 1970; `None`: for ever.
    pub until_ms: Option<i64>,
    pub entitled: Entitled,
}

/// The accounts of users that were looked up.
#[derive(Default)]
pub struct Accounts {
    clock: OnceLock<Clock>,
    known: Mutex<Known>,
    has_wanted: Notify,
}

#[derive(Default)]
struct Known {
    /// Whether changes are published.
    has_begun: bool,
    users: HashMap<UserKey, Arc<KnownUser>>,
    /// The users of each account, of those that are known.
    by_account: HashMap<Uuid, Vec<Weak<KnownUser>>>,
    /// Users to be looked up.
    wanted: Vec<UserKey>,
    /// Accounts that were published while users were being looked up: they are newer than those that are found.
    meanwhile: Option<HashMap<Uuid, Account>>,
    /// When as many users are known, those that are idle are forgotten.
    swept_at: usize,
    /// The entitlements of accounts: equal ones are stored once.
    shared: HashSet<Entitled>,
}

/// A user who was looked up, or is being looked up.
pub struct KnownUser {
    user: UserKey,
    account: ArcSwapOption<Account>,
    found_at_ms: AtomicI64,
    followers: Mutex<Vec<Arc<Subscriber>>>,
    found: Notify,
    was_used: AtomicBool,
    /// Whether it is to be looked up, and nobody has begun to.
    is_wanted: AtomicBool,
}

/// The entitlements of a user's account, with their version.
#[derive(Clone, Debug, Default)]
pub struct KnownEntitled {
    /// The entitlements at the time of the look-up.
    pub entitled: Entitled,
    /// Another one with each change of the account.
    pub version: i64,
}

/// A connection's place among the followers of its user; dropping it ends that.
pub struct Following {
    user: Arc<KnownUser>,
    subscriber: Arc<Subscriber>,
}

impl Account {
    /// The entitlements at a time; of limits, what is left.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Entitled {
        let now_ms = now.millis();
        let step = self.steps.iter().find(|it| it.until_ms.is_none_or(|until| now_ms < until));
        let Some(Step { entitled, .. }) = step else { return Entitled::default() };
        let counts = |it: &&Taken| it.resets_ms.is_none_or(|resets| now_ms < resets);
        let taken: Vec<&Taken> = self.taken.iter().flatten().filter(counts).collect();
        if taken.is_empty() {
            return entitled.clone();
        }
        let left = |(key, value): (&str, &str)| {
            let taken = taken.iter().find(|it| *it.feature == *key);
            let left = taken.zip(value.parse::<i64>().ok());
            let left = left.map(|(it, limit)| limit.saturating_sub(it.taken).max(0).to_string());
            (Box::<str>::from(key), left.unwrap_or_else(|| value.to_owned()))
        };
        entitled.features().map(left).collect()
    }

    /// Reads the account of a user, with what it took of its limits.
    ///
    /// # Errors
    /// [`StoreError`]: the database cannot be read.
    pub fn read(
        queries: &dyn Queries,
        (tenant, key): (TenantNo, &str),
        now: Timestamp,
    ) -> Result<Option<Self>, StoreError> {
        let Some(found) = queries.entitlements_of_user(tenant, key)? else { return Ok(None) };
        let taken = Some(read_taken(queries, &found, now)?);
        Ok(Some(Self { taken, ..Self::of(&found, now) }))
    }

    /// The account with its stored entitlements, from a time on. The use of its limits is not read.
    #[must_use]
    pub fn of(it: &Entitlements, now: Timestamp) -> Self {
        let mut steps = vec![];
        let mut at = Some(now);
        while let Some(from) = at.filter(|_| steps.len() < STEPS_MAX) {
            let features = it.at(from).into_iter();
            let entitled = features.map(|(key, has)| (key, text_of(&has.value))).collect();
            at = it.next_due(from);
            steps.push(Step { until_ms: at.map(Timestamp::millis), entitled });
        }
        Self { id: it.account_id.uuid(), version: it.version, steps, taken: None }
    }

    /// Whether something that was reserved has come back since.
    fn has_returned(&self, now: Timestamp) -> bool {
        let mut taken = self.taken.iter().flatten().filter_map(|it| it.returns_ms);
        taken.any(|returns| returns <= now.millis())
    }

    /// Names this state among others of the account.
    fn number(&self) -> i64 {
        let taken = self.taken.as_ref().filter(|it| !it.is_empty());
        taken.map_or(self.version, |taken| {
            let mut hasher = DefaultHasher::new();
            (self.version, taken).hash(&mut hasher);
            i64::from_ne_bytes(hasher.finish().to_ne_bytes())
        })
    }
}

/// Reads what an account took of the limits that it has.
fn read_taken(
    queries: &dyn Queries,
    it: &Entitlements,
    now: Timestamp,
) -> Result<Vec<Taken>, StoreError> {
    let (of, has) = ((it.tenant, it.account_id), it.at(now));
    let counts = read_counts(queries, of, &has)?;
    // Most use nothing: then nobody asks for their time zone.
    if counts.is_empty() {
        return Ok(vec![]);
    }
    let Some(file) = queries.account(it.tenant, it.account_id)? else { return Ok(vec![]) };
    let levels = levels(&has, &counts, (&file.account.time_zone, now));
    let taken = levels.into_iter().map(|(feature, level)| {
        let reserved = counts.iter().filter(|it| it.feature == feature).flat_map(|it| &it.reserved);
        let returns = reserved.map(|(until, _)| *until).filter(|until| *until > now).min();
        Taken {
            feature: feature.into(),
            taken: level.used.saturating_add(level.reserved),
            resets_ms: level.resets_at.map(Timestamp::millis),
            returns_ms: returns.map(Timestamp::millis),
        }
    });
    Ok(taken.filter(|it| it.taken > 0).collect())
}

/// The value of a user's feature, as the text of an attribute.
fn text_of(value: &FeatureValue) -> String {
    match value {
        FeatureValue::On => "true".to_owned(),
        FeatureValue::Boolean(is_true) => is_true.to_string(),
        FeatureValue::Limit(limit) => limit.to_string(),
        FeatureValue::Number(text) | FeatureValue::String(text) | FeatureValue::Json(text) => {
            text.clone()
        }
    }
}

impl Accounts {
    /// The clock by which something begins and ends; the system's unless it is set.
    pub fn set_clock(&self, clock: Clock) {
        // A process has one.
        drop(self.clock.set(clock));
    }

    /// From now on [`Self::changed`] gets every change: users may be looked up.
    pub fn begin(&self) {
        self.known().has_begun = true;
        self.has_wanted.notify_one();
    }

    /// The time by which something begins and ends.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let system = || Timestamp(now_ms().saturating_mul(1_000));
        self.clock.get().map_or_else(system, Clock::now)
    }

    /// A user, who is looked up where that was not done.
    pub fn user(&self, tenant: TenantNo, key: &str) -> Arc<KnownUser> {
        let user = UserKey { tenant, key: key.into() };
        if key.len() > USER_KEY_BYTES_MAX {
            return Arc::new(KnownUser::new(user, Some(Arc::default())));
        }
        let mut known = self.known();
        if let Some(found) = known.users.get(&user) {
            let found = Arc::clone(found);
            found.was_used.store(true, Ordering::Relaxed);
            if found.is_outdated(self.now()) {
                known.want(user);
                drop(known);
                self.has_wanted.notify_one();
            }
            return found;
        }
        known.sweep();
        let found = Arc::new(KnownUser::new(user.clone(), None));
        known.users.insert(user.clone(), Arc::clone(&found));
        known.want(user);
        drop(known);
        self.has_wanted.notify_one();
        found
    }

    /// The entitlements of a user; `None` where they are not found within `timeout`.
    pub async fn entitled(
        &self,
        (tenant, key): (TenantNo, &str),
        timeout: Duration,
    ) -> Option<KnownEntitled> {
        let user = self.user(tenant, key);
        found_within(timeout, &user.found, || user.entitled(self.now())).await
    }

    /// The next users to look up, at most `most`; [`Self::learn`] or [`Self::failed`] ends that. One caller at a time.
    pub async fn wanted(&self, most: usize) -> Vec<UserKey> {
        loop {
            let wanted = {
                let mut known = self.known();
                let most = if known.has_begun { most } else { 0 };
                let from = known.wanted.len().saturating_sub(most);
                let wanted = known.wanted.split_off(from);
                for user in wanted.iter().filter_map(|it| known.users.get(it)) {
                    user.is_wanted.store(false, Ordering::Relaxed);
                }
                if !wanted.is_empty() {
                    known.meanwhile = Some(HashMap::new());
                }
                wanted
            };
            if !wanted.is_empty() {
                return wanted;
            }
            self.has_wanted.notified().await;
        }
    }

    /// The accounts of users that were looked up; `None` for a user who belongs to none.
    pub fn learn(&self, found: Vec<(UserKey, Option<Account>)>) {
        let mut known = self.known();
        let meanwhile = known.meanwhile.take().unwrap_or_default();
        for (key, account) in found {
            let Some(user) = known.users.get(&key).cloned() else { continue };
            let mut account = account.unwrap_or_default();
            if let Some(newer) =
                meanwhile.get(&account.id).filter(|it| it.version > account.version)
            {
                account = Account { taken: account.taken, ..newer.clone() };
            }
            known.set(&user, account);
        }
    }

    /// Users could not be looked up: they are wanted again.
    pub fn failed(&self, users: Vec<UserKey>) {
        let mut known = self.known();
        known.meanwhile = None;
        users.into_iter().for_each(|it| known.want(it));
        drop(known);
        self.has_wanted.notify_one();
    }

    /// Whether a user of an account is known, or may be: some are being looked up.
    #[must_use]
    pub fn shows(&self, account: Uuid) -> bool {
        let known = self.known();
        known.meanwhile.is_some() || known.by_account.contains_key(&account)
    }

    /// Publishes what accounts are entitled to from now on. Accounts of which no user is known are passed over.
    pub fn changed(&self, accounts: Vec<Account>) {
        let mut known = self.known();
        for account in accounts {
            if let Some(meanwhile) = &mut known.meanwhile {
                match meanwhile.entry(account.id) {
                    Entry::Occupied(mut it) if it.get().version < account.version => {
                        it.insert(account.clone());
                    }
                    Entry::Occupied(_) => {}
                    Entry::Vacant(it) => drop(it.insert(account.clone())),
                }
            }
            let users = known.by_account.get(&account.id);
            let users = users.into_iter().flatten().filter_map(Weak::upgrade);
            let users: Vec<_> = users.filter(|it| it.belongs_to(account.id)).collect();
            for user in users {
                known.set(&user, account.clone());
            }
        }
    }

    /// Looks up again the known users of accounts that used something.
    pub fn used(&self, accounts: impl IntoIterator<Item = Uuid>) {
        let mut known = self.known();
        for account in accounts {
            let users = known.by_account.get(&account).into_iter().flatten();
            let users = users.filter_map(Weak::upgrade).filter(|it| it.belongs_to(account));
            let users: Vec<UserKey> = users.map(|it| it.user.clone()).collect();
            users.into_iter().for_each(|it| known.want(it));
        }
        drop(known);
        self.has_wanted.notify_one();
    }

    /// Looks up again, as if they were new, the connected users who belong to no account: one may have been made, or
    /// given to them. And those of whose limits something has come back by itself.
    pub fn want_outdated(&self) {
        let (mut known, now) = (self.known(), self.now());
        let is_one = |it: &&Arc<KnownUser>| it.is_followed() && it.is_outdated(now);
        let outdated: Vec<UserKey> =
            known.users.values().filter(is_one).map(|it| it.user.clone()).collect();
        outdated.into_iter().for_each(|it| known.want(it));
        drop(known);
        self.has_wanted.notify_one();
    }

    /// How many users are known.
    #[must_use]
    pub fn users(&self) -> usize {
        self.known().users.len()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn want(&mut self, user: UserKey) {
        if let Some(known) = self.users.get(&user) {
            // Until it is found, it is not wanted once more.
            known.found_at_ms.store(i64::MAX, Ordering::Relaxed);
            if known.is_wanted.swap(true, Ordering::Relaxed) {
                return;
            }
        }
        self.wanted.push(user);
    }

    /// Sets a user's account, unless a newer version of it is known, and wakes those who follow it.
    fn set(&mut self, user: &Arc<KnownUser>, mut account: Account) {
        user.found_at_ms.store(now_ms(), Ordering::Relaxed);
        let before = user.account.load_full();
        let same = before.filter(|it| it.id == account.id);
        let is_same = same.is_some();
        if let Some(before) = same {
            account.taken = account.taken.or_else(|| before.taken.clone());
            if before.version >= account.version {
                if before.taken == account.taken {
                    return;
                }
                account = Account { taken: account.taken, ..(*before).clone() };
            }
        }
        for step in &mut account.steps {
            step.entitled = self.share(&step.entitled);
        }
        if !is_same && !account.id.is_nil() {
            let users = self.by_account.entry(account.id).or_default();
            users.push(Arc::downgrade(user));
        }
        user.account.store(Some(Arc::new(account)));
        user.found.notify_waiters();
        let followers = user.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.iter().for_each(|it| it.wake());
    }

    fn share(&mut self, entitled: &Entitled) -> Entitled {
        if let Some(shared) = self.shared.get(entitled) {
            return shared.clone();
        }
        if self.shared.len() >= self.users.len().max(WANTED_MAX) {
            self.shared.clear();
        }
        self.shared.insert(entitled.clone());
        entitled.clone()
    }

    /// Forgets users that were not used since the last time, where there are too many.
    fn sweep(&mut self) {
        if self.users.len() < self.swept_at.max(IDLE_USERS_MAX) {
            return;
        }
        self.users.retain(|_, user| {
            let is_held = Arc::strong_count(user) > 1 || user.account.load().is_none();
            is_held || user.was_used.swap(false, Ordering::Relaxed)
        });
        let mut without = vec![];
        for (account, users) in &mut self.by_account {
            users.retain(|it| it.strong_count() > 0);
            if users.is_empty() {
                without.push(*account);
            }
        }
        without.iter().for_each(|it| drop(self.by_account.remove(it)));
        // Where all of them are held, it is not tried again for each new one.
        self.swept_at = self.users.len() + IDLE_USERS_MAX / 8;
    }
}

impl KnownUser {
    fn new(user: UserKey, account: Option<Arc<Account>>) -> Self {
        Self {
            user,
            account: ArcSwapOption::new(account),
            found_at_ms: AtomicI64::new(i64::MAX),
            followers: Mutex::default(),
            found: Notify::new(),
            was_used: AtomicBool::new(true),
            is_wanted: AtomicBool::new(false),
        }
    }

    /// The user's entitlements at a time; `None` until they are known.
    pub fn entitled(&self, now: Timestamp) -> Option<KnownEntitled> {
        let account = self.account.load();
        account.as_ref().map(|it| KnownEntitled { entitled: it.at(now), version: it.number() })
    }

    /// That the user was looked up and belongs to this account, for [`Accounts::learn`].
    #[must_use]
    pub fn found(&self, account: Account) -> (UserKey, Option<Account>) {
        (self.user.clone(), Some(account))
    }

    /// Wakes a connection once the user is looked up, and with each change of its account.
    pub fn follow(self: Arc<Self>, subscriber: Arc<Subscriber>) -> Following {
        self.followers().push(Arc::clone(&subscriber));
        Following { user: self, subscriber }
    }

    fn belongs_to(&self, account: Uuid) -> bool {
        self.account.load().as_ref().is_some_and(|it| it.id == account)
    }

    /// Whether it is to be looked up again, because nobody says what has changed since.
    fn is_outdated(&self, now: Timestamp) -> bool {
        let account = self.account.load();
        let found_at_ms = self.found_at_ms.load(Ordering::Relaxed);
        // It is being looked up.
        if found_at_ms == i64::MAX {
            return false;
        }
        account.as_ref().is_some_and(|it| match it.id.is_nil() {
            true => found_at_ms.saturating_add(NO_ACCOUNT_MS) < now_ms(),
            false => it.has_returned(now),
        })
    }

    fn is_followed(&self) -> bool {
        !self.followers().is_empty()
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Arc<Subscriber>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Following {
    /// The user who is followed.
    #[must_use]
    pub fn user(&self) -> &KnownUser {
        &self.user
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.user.followers().retain(|it| !Arc::ptr_eq(it, &self.subscriber));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantNo = TenantNo(1);
    const DAY_MS: i64 = 86_400_000;

    fn account(version: i64, seats: i64, taken: Option<i64>) -> Account {
        let entitled = [("pro", "true".to_owned()), ("seats", seats.to_string())];
        let (feature, resets_ms) = ("seats".into(), Some(DAY_MS));
        let taken = taken.map(|taken| vec![Taken { feature, taken, resets_ms, returns_ms: None }]);
        let steps = vec![Step { until_ms: None, entitled: entitled.into_iter().collect() }];
        Account { id: Uuid::from_u128(1), version, steps, taken }
    }

    fn left(it: &Account, at_ms: i64) -> Option<String> {
        it.at(Timestamp(at_ms * 1_000)).value("seats").map(str::to_owned)
    }

    #[test]
    fn what_is_taken_is_not_left_until_the_count_starts_again() {
        let it = account(1, 5, Some(2));
        assert_eq!(left(&it, 0).as_deref(), Some("3"));
        assert_eq!(left(&it, DAY_MS).as_deref(), Some("5"));
        assert_eq!(left(&account(1, 5, Some(9)), 0).as_deref(), Some("0"));
        assert_eq!(it.at(Timestamp(0)).value("pro"), Some("true"));
    }

    #[test]
    fn what_was_taken_stays_known_where_a_change_does_not_say_it() {
        let accounts = Accounts::default();
        let user = accounts.user(TENANT, "u");
        let has = || user.account.load_full().map(|it| (it.version, left(&it, 0)));
        let has = || has().map(|(version, left)| (version, left.unwrap_or_default()));
        accounts.learn(vec![user.found(account(1, 5, Some(2)))]);
        assert_eq!(has(), Some((1, "3".to_owned())));
        accounts.changed(vec![account(2, 7, None)]);
        assert_eq!(has(), Some((2, "5".to_owned())));
        // It was read before that change, and knows more of what was used.
        accounts.learn(vec![user.found(account(1, 5, Some(4)))]);
        assert_eq!(has(), Some((2, "3".to_owned())));
        accounts.learn(vec![user.found(account(2, 7, Some(0)))]);
        assert_eq!(has(), Some((2, "7".to_owned())));
    }

    #[test]
    fn known_users_of_an_account_that_used_something_are_wanted_once() {
        let accounts = Accounts::default();
        let user = accounts.user(TENANT, "u");
        accounts.learn(vec![user.found(account(1, 5, None))]);
        accounts.known().wanted.clear();
        user.is_wanted.store(false, Ordering::Relaxed);
        accounts.used([Uuid::from_u128(1), Uuid::from_u128(2), Uuid::from_u128(1)]);
        assert_eq!(accounts.known().wanted.len(), 1);
    }
}
