//! Replies that are stored, for requests that come again, and marks of what was carried out.

use domain::change::Change;
use domain::payment::ReplyKey;
use domain::{Idempotency, Rejection, Reply, Request};

use super::{Answer, Run};
use crate::ports::StoredReply;

impl Run<'_> {
    /// The stored answer to a request that came before, in this batch or earlier.
    pub(super) fn known_answer(&self, request: &Request) -> Option<Answer> {
        let idempotency = request.idempotency?;
        let stored = self.loaded.replies.get(&idempotency.key)?;
        if stored.answer.is_some() && stored.expires_at <= self.times.now {
            return None;
        }
        if stored.fingerprint != idempotency.fingerprint {
            return Some(Answer::AnotherRequest);
        }
        Some(match &stored.answer {
            None => Answer::StillRunning,
            Some(Ok(reply)) => Answer::Replied(reply.clone()),
            Some(Err(rejection)) => Answer::Refused(rejection.clone()),
        })
    }

    /// Whether the request was carried out before, by the mark that it left.
    pub(super) fn is_marked(&self, request: &Request) -> bool {
        mark_of(request).is_some_and(|key| self.loaded.replies.contains_key(&key))
    }

    /// Stores the reply to a request that can come twice; `None` while its outcome is open.
    pub(super) fn keep(
        &mut self,
        request: &Request,
        answer: Option<Result<Reply, Rejection>>,
        reply_keep_us: i64,
    ) {
        let Some(idempotency) = request.idempotency else { return };
        self.store(idempotency, answer, reply_keep_us);
    }

    /// Stores that a request was carried out whose rows do not go on saying so. Its
    /// answer is not stored.
    pub(super) fn mark(&mut self, request: &Request, reply_keep_us: i64) {
        let Some(key) = mark_of(request) else { return };
        let mark = Idempotency { key, fingerprint: request.id.0 };
        self.store(mark, Some(Ok(Reply::Done)), reply_keep_us);
    }

    fn store(
        &mut self,
        of: Idempotency,
        answer: Option<Result<Reply, Rejection>>,
        reply_keep_us: i64,
    ) {
        let expires_at = self.times.now.plus_us(reply_keep_us);
        let stored = StoredReply { key: of.key, fingerprint: of.fingerprint, answer, expires_at };
        self.loaded.replies.insert(stored.key, stored.clone());
        self.batch.replies.push(stored);
    }

    /// Makes replies that a command settled known to the commands after it in the batch.
    pub(super) fn settle_replies(&mut self, changes: &[Change]) {
        for change in changes {
            if let Some(settled) = change.settled_reply()
                && let Some(stored) = self.loaded.replies.get_mut(&settled.key)
            {
                stored.answer = Some(Ok(settled.reply.clone()));
                stored.expires_at = settled.expires_at;
            }
        }
    }
}

/// Names the reply that says that a request was carried out, where its rows do not go on saying so.
pub(super) fn mark_of(request: &Request) -> Option<ReplyKey> {
    let is_marked = request.idempotency.is_none() && request.command.is_marked();
    is_marked.then_some(ReplyKey(request.id.0))
}
