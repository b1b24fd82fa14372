//! The protocol of a stream: answers to messages, and updates when flags change. Messages in, frames
//! out; no socket here.

use std::sync::Arc;

use bytes::Bytes;
use feature_flags::entitled_user::NotKnown;
use feature_flags::message::{self, Extent};
use feature_flags::server_reader::{Followed, ServerReader, Update};
use feature_flags::subscribers::Subscriber;
use feature_flags::subscription::Subscription;
use feature_flags::time::now_ms;
use feature_flags::{
    Accounts, CachedEnvironment, EntitledKeys, EntitledUser, FlagCache, Grant, SecretKind, close,
};

use crate::client_message::{ClientMessage, Sync};

/// The state of an authenticated stream.
pub struct Conversation {
    grant: Arc<Grant>,
    subscriber: Arc<Subscriber>,
    _subscription: Subscription,
    /// The revision up to which a client was sent everything.
    sent_revision: u64,
    /// The state of a reader that evaluates by itself, for each environment of the grant, in their order.
    readers: Box<[ServerReader]>,
    accounts: Arc<Accounts>,
    keys: Arc<EntitledKeys>,
    /// The user of a client; none before its first request.
    user: Option<Box<EntitledUser>>,
    /// The time of a request that is not answered yet.
    owed: Option<i64>,
}

impl Conversation {
    /// Subscribes to each environment: changes from here on are sent. `None` where one of them has so many
    /// streams.
    pub fn begin(
        cache: &FlagCache,
        grant: Arc<Grant>,
        subscriber: Arc<Subscriber>,
        environment_streams_max: usize,
    ) -> Option<Self> {
        let subscription = Subscription::new(&grant, &subscriber, environment_streams_max)?;
        // Read after it subscribed, so that no change in between is lost.
        let sent_revision = grant.environments()[0].state().revision;
        let reader = |it: &Arc<CachedEnvironment>| ServerReader::after(it.state().revision);
        let readers = match grant.kind() {
            SecretKind::Client => Box::default(),
            SecretKind::Server | SecretKind::RelayProxy => {
                grant.environments().iter().map(reader).collect()
            }
        };
        // A drain does not see subscribers that are added after it began.
        if cache.is_draining() {
            subscriber.close(close::GOING_AWAY);
        }
        Some(Self {
            grant,
            subscriber,
            _subscription: subscription,
            sent_revision,
            readers,
            accounts: Arc::clone(&cache.accounts),
            keys: Arc::clone(&cache.entitled_keys),
            user: None,
            owed: None,
        })
    }

    /// Signals the end of the stream.
    pub fn subscriber(&self) -> &Subscriber {
        &self.subscriber
    }

    /// The code to close with, where the cache asked for it or the grant is no longer valid.
    pub(crate) fn close_code(&self) -> Option<u16> {
        self.subscriber.close_code().or_else(|| self.grant.close_code(now_ms()))
    }

    /// The answer to a message, if it has one.
    pub fn answer(&mut self, message: &[u8]) -> Option<Bytes> {
        match ClientMessage::read(message)? {
            ClientMessage::Ping => Some(message::pong()),
            ClientMessage::Echo(data) => Some(message::echo(data).frame()),
            ClientMessage::Sync(sync) => match self.grant.kind() {
                SecretKind::Server => self.everything_after(sync.timestamp),
                SecretKind::Client => self.client_sync(sync),
                SecretKind::RelayProxy => self.relay_sync(&sync),
            },
        }
    }

    /// The answer to a server SDK or relay proxy that has everything up to a time. Where it is not known yet who is
    /// entitled to features, it is owed, and the task is woken once it is known.
    fn everything_after(&mut self, timestamp: i64) -> Option<Bytes> {
        let answer = match self.grant.kind() {
            SecretKind::RelayProxy => self.relay_everything(timestamp),
            SecretKind::Server | SecretKind::Client => {
                let followed = Followed {
                    environment: &self.grant.environments()[0],
                    keys: &self.keys,
                    accounts: &self.accounts,
                    subscriber: &self.subscriber,
                };
                self.readers[0].sync(&followed, timestamp).map(|it| it.frame())
            }
        };
        self.owed = answer.is_err().then_some(timestamp);
        answer.ok()
    }

    /// A client that changes its user has nothing of the new user yet.
    fn client_sync(&mut self, sync: Sync) -> Option<Bytes> {
        let user = sync.user?;
        let is_other = self.user.as_ref().is_some_and(|known| !known.is(&user));
        if is_other || self.user.is_none() {
            self.user = Some(Box::new(EntitledUser::new(user)));
        }
        self.owed = Some(if is_other { 0 } else { sync.timestamp });
        self.answer_owed()
    }

    /// The answer to a client's last request, once it is known what its user is entitled to.
    fn answer_owed(&mut self) -> Option<Bytes> {
        let (timestamp, user) = (self.owed?, self.user.as_mut()?);
        let environment = &self.grant.environments()[0];
        let state = environment.state();
        environment.update_user(user, &state, (&self.accounts, &self.subscriber)).ok()?;
        self.owed = None;
        self.sent_revision = state.revision;
        Some(state.client_sync(user, timestamp).frame())
    }

    /// A relay proxy that lists other environments than the grant has gets everything: patches do not
    /// contain secrets of new environments.
    fn relay_sync(&mut self, sync: &Sync) -> Option<Bytes> {
        let environments = self.grant.environments();
        let known = |environment: &Arc<CachedEnvironment>| {
            sync.environments.iter().find(|it| it.id == environment.id())
        };
        let knows_all = sync.environments.len() == environments.len()
            && environments.iter().all(|it| known(it).is_some());
        let states: Vec<_> = environments.iter().map(|it| it.state()).collect();
        let has_users = states.iter().any(|it| it.had_entitled_features);
        if sync.timestamp <= 0 || !knows_all || has_users {
            drop(states);
            let times = sync.environments.iter().map(|it| it.timestamp);
            return self.everything_after(times.fold(sync.timestamp, i64::max));
        }
        let items = environments.iter().zip(&mut self.readers).zip(&states);
        let items = items.map(|((environment, reader), state)| {
            let timestamp = known(environment).map_or(0, |it| it.timestamp);
            reader.has_flags(state);
            state.relay_item(timestamp, vec![])
        });
        let items: Vec<_> = items.collect();
        self.owed = None;
        Some(message::relay(Extent::Patch, &items, now_ms()).frame())
    }

    fn relay_everything(&mut self, timestamp: i64) -> Result<Bytes, NotKnown> {
        let environments = self.grant.environments();
        let states: Vec<_> = environments.iter().map(|it| it.state()).collect();
        let (accounts, keys) = (&*self.accounts, &*self.keys);
        let subscriber = &self.subscriber;
        let followed = |environment| Followed { environment, keys, accounts, subscriber };
        let mut all_keys = vec![];
        for ((environment, reader), state) in
            environments.iter().zip(&mut self.readers).zip(&states)
        {
            all_keys.push(reader.keys_of(&followed(environment), state)?);
        }
        let mut marks = vec![];
        for (number, reader) in self.readers.iter_mut().enumerate() {
            let (state, keys) = (&states[number], &all_keys[number]);
            let it = followed(&environments[number]);
            marks.push(reader.has_everything(&it, (state, keys), timestamp));
        }
        let items = states.iter().zip(&all_keys).zip(&marks).map(|((state, keys), mark)| {
            let mut shards = keys.shards(&state.entitled_features).unwrap_or_default();
            shards.extend(mark);
            state.relay_item(0, shards)
        });
        let items: Vec<_> = items.collect();
        Ok(message::relay(Extent::Full, &items, now_ms()).frame())
    }

    /// The changes since the last update; none where nothing changed for this stream.
    pub fn next_update(&mut self) -> Option<Bytes> {
        match self.grant.kind() {
            SecretKind::Client if self.owed.is_some() => self.answer_owed(),
            SecretKind::Client => self.client_update(),
            SecretKind::Server | SecretKind::RelayProxy => match self.owed {
                Some(timestamp) => self.everything_after(timestamp),
                None => self.server_update(),
            },
        }
    }

    /// The frame with the changes for the user of a client: of its flags, or of its entitlements.
    fn client_update(&mut self) -> Option<Bytes> {
        let environment = &self.grant.environments()[0];
        let state = environment.state();
        // One without a user requests everything with it.
        let Some(user) = &mut self.user else {
            self.sent_revision = state.revision;
            return None;
        };
        let accounts = (&*self.accounts, &self.subscriber);
        let before = environment.update_user(user, &state, accounts).ok()?;
        let sent = std::mem::replace(&mut self.sent_revision, state.revision);
        let patch = (sent != state.revision).then(|| state.patch_since(sent));
        state.client_patch(user, (patch.as_deref(), before)).map(|it| it.frame())
    }

    fn server_update(&mut self) -> Option<Bytes> {
        let (accounts, keys) = (&*self.accounts, &*self.keys);
        let subscriber = &self.subscriber;
        for (environment, reader) in self.grant.environments().iter().zip(&mut self.readers) {
            match reader.update(&Followed { environment, keys, accounts, subscriber }) {
                Update::Nothing => {}
                Update::Patch(message) => return Some(message.frame()),
                Update::Everything => {
                    let answer = self.everything_after(0);
                    self.owed = None;
                    return answer;
                }
            }
        }
        None
    }

    /// How many revisions were not sent yet.
    pub(crate) fn behind(&self) -> u64 {
        let environments = self.grant.environments();
        if self.readers.is_empty() {
            return environments[0].state().revision - self.sent_revision;
        }
        let environments = environments.iter().zip(&self.readers);
        let behind = environments.map(|(it, reader)| it.state().revision - reader.sent_revision);
        behind.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
