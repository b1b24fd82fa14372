//! The state of a reader that evaluates by itself, a server SDK or a relay proxy, and its next update.
//!
//! Some SDKs have one latest time of all that they hold, and take over nothing that is not later. Users who are
//! entitled to something have times of another clock than flags. So where flags depend on them a reader is sent all at
//! first, then each change alone where it is later than all before it, and all again where it is not.

use std::sync::Arc;

use crate::accounts::Accounts;
use crate::cached_environment::CachedEnvironment;
use crate::entitled_keys::{EntitledKeys, FollowingKeys};
use crate::entitled_user::NotKnown;
use crate::environment_state::EnvironmentState;
use crate::message::Message;
use crate::shard::{PublishedKeys, Shard};
use crate::subscribers::Subscriber;

/// The state of a reader of one environment.
#[derive(Default)]
pub struct ServerReader {
    /// The revision up to which everything was sent.
    pub sent_revision: u64,
    /// Whether it was answered: before that it is sent no users.
    is_synced: bool,
    following: Option<FollowingKeys>,
    /// Of which features it has the users.
    features: Arc<[Box<str>]>,
    /// The time up to which it has them.
    keys_at_ms: i64,
    /// The latest time that it was sent; 0 where only flags and segments were.
    sent_at_ms: i64,
}

/// An environment that a reader follows, with the sources of its entitled users.
pub struct Followed<'f> {
    pub environment: &'f CachedEnvironment,
    pub keys: &'f EntitledKeys,
    pub accounts: &'f Accounts,
    pub subscriber: &'f Arc<Subscriber>,
}

/// The next update of a reader.
pub enum Update {
    Nothing,
    Patch(Message),
    /// It has to be sent everything.
    Everything,
}

impl ServerReader {
    /// One that was sent nothing yet; changes after a revision are sent.
    #[must_use]
    pub fn after(sent_revision: u64) -> Self {
        Self { sent_revision, ..Self::default() }
    }

    /// The message for a reader that has everything up to `timestamp`, in milliseconds since 1970.
    ///
    /// # Errors
    /// It is not known yet who is entitled to features: the reader is woken once it is.
    pub fn sync(&mut self, it: &Followed<'_>, timestamp: i64) -> Result<Message, NotKnown> {
        let state = it.environment.state();
        if !state.had_entitled_features {
            self.has_flags(&state);
            return Ok(state.server_sync(timestamp));
        }
        let keys = self.keys(it, &state);
        let times = (timestamp.max(self.sent_at_ms), it.accounts.now().millis());
        let marked = state.marked_sync(&keys, times).ok_or(NotKnown)?;
        self.has_all(&state, &keys, marked.at_ms);
        Ok(marked.message.clone())
    }

    /// The shards of an environment for a full message of several environments.
    ///
    /// # Errors
    /// See [`Self::sync`].
    pub fn keys_of(
        &mut self,
        it: &Followed<'_>,
        state: &EnvironmentState,
    ) -> Result<Arc<PublishedKeys>, NotKnown> {
        let keys = self.keys(it, state);
        keys.shards(&state.entitled_features).ok_or(NotKnown)?;
        Ok(keys)
    }

    /// That it was sent everything of an environment with these keys; what marks that, where it is needed.
    pub fn has_everything(
        &mut self,
        it: &Followed<'_>,
        (state, keys): (&EnvironmentState, &PublishedKeys),
        timestamp: i64,
    ) -> Option<Shard> {
        if !state.had_entitled_features {
            self.has_flags(state);
            return None;
        }
        let times = (timestamp.max(self.sent_at_ms), it.accounts.now().millis());
        let (mark, at_ms) = state.mark(keys, times);
        self.has_all(state, keys, at_ms);
        Some(mark)
    }

    /// The next update after those that it was sent.
    pub fn update(&mut self, it: &Followed<'_>) -> Update {
        let state = it.environment.state();
        if !state.had_entitled_features {
            return self.flags_update(&state);
        }
        if !self.is_synced {
            return Update::Nothing;
        }
        let keys = self.keys(it, &state);
        let Some(shards) = keys.shards(&state.entitled_features) else { return Update::Nothing };
        if self.features != state.entitled_features {
            return Update::Everything;
        }
        if state.revision != self.sent_revision {
            return self.flags_update(&state);
        }
        if keys.at_ms <= self.keys_at_ms {
            return Update::Nothing;
        }
        let newer = shards.into_iter().filter(|it| it.at_ms > self.keys_at_ms);
        let Some(next) = newer.min_by_key(|it| it.at_ms) else {
            self.keys_at_ms = keys.at_ms;
            return Update::Nothing;
        };
        if next.at_ms <= self.sent_at_ms {
            return Update::Everything;
        }
        (self.keys_at_ms, self.sent_at_ms) = (next.at_ms, next.at_ms);
        Update::Patch(state.shard_patch(next))
    }

    /// That it was sent the flags and segments of an environment, where they are all.
    pub const fn has_flags(&mut self, state: &EnvironmentState) {
        (self.sent_revision, self.is_synced) = (state.revision, true);
    }

    fn flags_update(&mut self, state: &EnvironmentState) -> Update {
        if state.revision == self.sent_revision {
            return Update::Nothing;
        }
        let patch = state.patch_since(self.sent_revision);
        let Some(message) = &patch.message else {
            self.sent_revision = state.revision;
            return Update::Nothing;
        };
        if self.sent_at_ms > 0 {
            let (earliest_ms, latest_ms) = patch.times_ms;
            if earliest_ms <= self.sent_at_ms {
                return Update::Everything;
            }
            self.sent_at_ms = latest_ms;
        }
        self.sent_revision = state.revision;
        Update::Patch(message.clone())
    }

    /// The keys of the environment's tenant. They are followed where features are named.
    fn keys(&mut self, it: &Followed<'_>, state: &EnvironmentState) -> Arc<PublishedKeys> {
        if state.entitled_features.is_empty() {
            return Arc::default();
        }
        let is_other = self.features != state.entitled_features;
        if self.following.is_none() || is_other {
            let keys = it.keys.of(it.environment.tenant(), &state.entitled_features);
            // Before the look: what is published after it wakes.
            self.following.get_or_insert_with(|| keys.follow(it.subscriber));
        }
        let following = self.following.as_ref();
        following.map(|it| Arc::clone(&it.keys().published())).unwrap_or_default()
    }

    fn has_all(&mut self, state: &EnvironmentState, keys: &PublishedKeys, at_ms: i64) {
        (self.sent_revision, self.is_synced) = (state.revision, true);
        self.features = Arc::clone(&state.entitled_features);
        self.keys_at_ms = keys.at_ms;
        self.sent_at_ms = at_ms;
    }
}
