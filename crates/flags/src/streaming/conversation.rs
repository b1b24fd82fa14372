//! What is said on a socket: what answers its messages, and what it is told when flags change. No
//! sockets here: messages in, frames out.

use std::sync::Arc;

use bytes::Bytes;
use evaluation::User;

use crate::asked::{Asked, Sync};
use crate::board::{Board, Grant, now_ms};
use crate::live::Live;
use crate::secret::SecretKind;
use crate::sockets::Seat;
use crate::wire::{self, Extent};

/// What is said on a socket, from when it is let in.
pub(crate) struct Conversation {
    grant: Arc<Grant>,
    seat: Arc<Seat>,
    /// As many as the grant has environments, in their order.
    watched: Box<[Watched]>,
    /// Whom a client asks for.
    user: Option<Box<User>>,
}

/// An environment whose changes the socket is told of.
struct Watched {
    place: usize,
    /// The revision up to which the socket was told.
    told: u64,
}

impl Conversation {
    /// Takes a place in each environment. What changes from here on is told.
    pub(crate) fn begin(board: &Board, grant: Arc<Grant>, seat: Arc<Seat>) -> Self {
        let watch = |live: &Arc<Live>| {
            let place = live.sockets.enter(&seat);
            // After the place was taken: what changes in between is told, or seen here.
            Watched { place, told: live.state().revision }
        };
        let watched = grant.environments().iter().map(watch).collect();
        // Whoever drains does not see the places that are taken afterwards.
        if board.is_draining() {
            seat.close(super::close::GOING_AWAY);
        }
        Self { grant, seat, watched, user: None }
    }

    /// What others told the socket.
    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }

    /// The code to close with, where somebody said so or what the socket came in by is no longer
    /// good.
    pub(crate) fn ended(&self) -> Option<u16> {
        self.seat.order().or_else(|| self.grant.ended(now_ms()))
    }

    /// The answer to a message, if it has one.
    pub(crate) fn answer(&mut self, message: &[u8]) -> Option<Bytes> {
        match Asked::read(message)? {
            Asked::Ping => Some(wire::pong()),
            Asked::Echo(data) => Some(wire::echo(data).frame()),
            Asked::Sync(sync) => match self.grant.kind() {
                SecretKind::Server => Some(self.server_sync(&sync)),
                SecretKind::Client => self.client_sync(sync),
                SecretKind::RelayProxy => Some(self.relay_sync(&sync)),
            },
        }
    }

    fn server_sync(&mut self, sync: &Sync) -> Bytes {
        let state = self.grant.environments()[0].state();
        self.watched[0].told = state.revision;
        state.server_sync(sync.timestamp).frame()
    }

    /// Who asks for another user than before has nothing of that one.
    fn client_sync(&mut self, sync: Sync) -> Option<Bytes> {
        let user = Box::new(sync.user?);
        let is_known = self.user.as_ref().is_none_or(|known| *known == user);
        let timestamp = if is_known { sync.timestamp } else { 0 };
        let state = self.grant.environments()[0].state();
        self.watched[0].told = state.revision;
        let answer = state.client_sync(&user, timestamp).frame();
        self.user = Some(user);
        Some(answer)
    }

    /// Who does not know the very environments that there are gets all anew: it cannot learn their
    /// secrets otherwise.
    fn relay_sync(&mut self, sync: &Sync) -> Bytes {
        let environments = self.grant.environments();
        let had = |live: &Arc<Live>| sync.environments.iter().find(|it| it.id == live.id());
        let knows_all = sync.environments.len() == environments.len()
            && environments.iter().all(|live| had(live).is_some());
        let is_patch = sync.timestamp > 0 && knows_all;
        let extent = if is_patch { Extent::Patch } else { Extent::Full };
        let states: Vec<_> = environments.iter().map(|live| live.state()).collect();
        for (watched, state) in self.watched.iter_mut().zip(&states) {
            watched.told = state.revision;
        }
        let items = environments.iter().zip(&states).map(|(live, state)| {
            let timestamp = had(live).filter(|_| is_patch).map_or(0, |it| it.timestamp);
            state.relay_item(live.id(), timestamp)
        });
        wire::relay(extent, &items.collect::<Vec<_>>(), now_ms()).frame()
    }

    /// What was changed since the socket was told last; nothing where that is nothing.
    pub(crate) fn news(&mut self) -> Option<Bytes> {
        for (live, watched) in self.grant.environments().iter().zip(&mut self.watched) {
            let state = live.state();
            if state.revision == watched.told {
                continue;
            }
            let patch = state.patch_since(watched.told);
            watched.told = state.revision;
            let message = match (self.grant.kind(), &self.user) {
                (SecretKind::Server | SecretKind::RelayProxy, _) => patch.message.clone(),
                (SecretKind::Client, Some(user)) => state.client_patch(&patch, user),
                // It asks for everything once it knows whom for.
                (SecretKind::Client, None) => None,
            };
            if let Some(message) = message {
                return Some(message.frame());
            }
        }
        None
    }

    /// How many changes it has not been told of.
    pub(crate) fn behind(&self) -> u64 {
        let environments = self.grant.environments().iter();
        let behind =
            environments.zip(&self.watched).map(|(live, it)| live.state().revision - it.told);
        behind.max().unwrap_or_default()
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        for (live, watched) in self.grant.environments().iter().zip(&self.watched) {
            live.sockets.leave(watched.place);
        }
    }
}

#[cfg(test)]
mod tests;
