//! The protocol of a stream: answers to messages, and updates when flags change. Messages in, frames
//! out; no socket here.

use std::sync::Arc;

use bytes::Bytes;
use feature_flags::message::{self, Extent};
use feature_flags::subscribers::Subscriber;
use feature_flags::subscription::Subscription;
use feature_flags::time::now_ms;
use feature_flags::{
    Accounts, CachedEnvironment, EntitledUser, FlagCache, Grant, SecretKind, close,
};

use crate::client_message::{ClientMessage, Sync};

/// The state of an authenticated stream.
pub(crate) struct Conversation {
    grant: Arc<Grant>,
    subscriber: Arc<Subscriber>,
    /// One for each environment of the grant, in their order.
    _subscription: Subscription,
    watched: Box<[Watched]>,
    accounts: Arc<Accounts>,
    /// The user of a client; none before its first request.
    user: Option<Box<EntitledUser>>,
    /// The time of the client's request that is not answered yet.
    owed: Option<i64>,
}

/// An environment whose changes are sent.
struct Watched {
    /// The revision up to which everything was sent.
    sent_revision: u64,
}

impl Conversation {
    /// Subscribes to each environment: changes from here on are sent. `None` where one of them has so many
    /// streams.
    pub(crate) fn begin(
        cache: &FlagCache,
        grant: Arc<Grant>,
        subscriber: Arc<Subscriber>,
        environment_streams_max: usize,
    ) -> Option<Self> {
        let subscription = Subscription::new(&grant, &subscriber, environment_streams_max)?;
        // Read after it subscribed, so that no change in between is lost.
        let watch = |environment: &Arc<CachedEnvironment>| Watched {
            sent_revision: environment.state().revision,
        };
        let watched = grant.environments().iter().map(watch).collect();
        // A drain does not see subscribers that are added after it began.
        if cache.is_draining() {
            subscriber.close(close::GOING_AWAY);
        }
        let accounts = Arc::clone(&cache.accounts);
        let (user, owed) = (None, None);
        Some(Self { grant, subscriber, _subscription: subscription, watched, accounts, user, owed })
    }

    /// Signals the end of the stream.
    pub(crate) fn subscriber(&self) -> &Subscriber {
        &self.subscriber
    }

    /// The code to close with, where the cache asked for it or the grant is no longer valid.
    pub(crate) fn close_code(&self) -> Option<u16> {
        self.subscriber.close_code().or_else(|| self.grant.close_code(now_ms()))
    }

    /// The answer to a message, if it has one.
    pub(crate) fn answer(&mut self, message: &[u8]) -> Option<Bytes> {
        match ClientMessage::read(message)? {
            ClientMessage::Ping => Some(message::pong()),
            ClientMessage::Echo(data) => Some(message::echo(data).frame()),
            ClientMessage::Sync(sync) => match self.grant.kind() {
                SecretKind::Server => Some(self.server_sync(&sync)),
                SecretKind::Client => self.client_sync(sync),
                SecretKind::RelayProxy => Some(self.relay_sync(&sync)),
            },
        }
    }

    fn server_sync(&mut self, sync: &Sync) -> Bytes {
        let state = self.grant.environments()[0].state();
        self.watched[0].sent_revision = state.revision;
        state.server_sync(sync.timestamp).frame()
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
        self.watched[0].sent_revision = state.revision;
        Some(state.client_sync(user, timestamp).frame())
    }

    /// A relay proxy that lists other environments than the grant has gets everything: patches do not
    /// contain secrets of new environments.
    fn relay_sync(&mut self, sync: &Sync) -> Bytes {
        let environments = self.grant.environments();
        let known = |environment: &Arc<CachedEnvironment>| {
            sync.environments.iter().find(|it| it.id == environment.id())
        };
        let knows_all = sync.environments.len() == environments.len()
            && environments.iter().all(|it| known(it).is_some());
        let is_patch = sync.timestamp > 0 && knows_all;
        let extent = if is_patch { Extent::Patch } else { Extent::Full };
        let states: Vec<_> = environments.iter().map(|it| it.state()).collect();
        for (watched, state) in self.watched.iter_mut().zip(&states) {
            watched.sent_revision = state.revision;
        }
        let items = environments.iter().zip(&states).map(|(environment, state)| {
            let had = known(environment).filter(|_| is_patch);
            state.relay_item(environment.id(), had.map_or(0, |it| it.timestamp))
        });
        message::relay(extent, &items.collect::<Vec<_>>(), now_ms()).frame()
    }

    /// The changes since the last update; none where nothing changed for this stream.
    pub(crate) fn next_update(&mut self) -> Option<Bytes> {
        match self.grant.kind() {
            SecretKind::Client if self.owed.is_some() => self.answer_owed(),
            SecretKind::Client => self.client_update(),
            SecretKind::Server | SecretKind::RelayProxy => self.server_update(),
        }
    }

    /// What changed for the user of a client: its flags, or what it is entitled to.
    fn client_update(&mut self) -> Option<Bytes> {
        let environment = &self.grant.environments()[0];
        let state = environment.state();
        // One without a user requests everything with it.
        let Some(user) = &mut self.user else {
            self.watched[0].sent_revision = state.revision;
            return None;
        };
        let accounts = (&*self.accounts, &self.subscriber);
        let before = environment.update_user(user, &state, accounts).ok()?;
        let sent = std::mem::replace(&mut self.watched[0].sent_revision, state.revision);
        let patch = (sent != state.revision).then(|| state.patch_since(sent));
        state.client_patch(user, (patch.as_deref(), before)).map(|it| it.frame())
    }

    fn server_update(&mut self) -> Option<Bytes> {
        for (environment, watched) in self.grant.environments().iter().zip(&mut self.watched) {
            let state = environment.state();
            if state.revision == watched.sent_revision {
                continue;
            }
            let patch = state.patch_since(watched.sent_revision);
            watched.sent_revision = state.revision;
            if let Some(message) = &patch.message {
                return Some(message.frame());
            }
        }
        None
    }

    /// How many revisions were not sent yet.
    pub(crate) fn behind(&self) -> u64 {
        let environments = self.grant.environments().iter();
        let behind = environments
            .zip(&self.watched)
            .map(|(it, sent)| it.state().revision - sent.sent_revision);
        behind.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
