//! Idempotency keys of one account: the answer of a key's first request is the answer of all others.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;

/// Stripe removes a key once it is at least this old.
const PRUNED_AFTER_S: i64 = 24 * 3600;
const KEY_CHARS_MAX: usize = 255;

/// What was answered to the first request of a key.
#[derive(Clone)]
pub struct Stored {
    pub request_id: String,
    pub status: u16,
    pub body: Bytes,
}

/// As the journal has it.
#[derive(Serialize, Deserialize)]
pub struct StoredKey {
    pub key: String,
    pub fingerprint: u64,
    pub at: i64,
    pub request_id: String,
    pub status: u16,
    pub body: String,
}

struct Entry {
    fingerprint: u64,
    at: i64,
    in_progress: bool,
    stored: Option<Stored>,
}

#[derive(Default)]
pub struct IdempotencyKeys {
    entries: HashMap<String, Entry>,
    /// By age.
    order: VecDeque<(i64, String)>,
}

pub enum Begun {
    /// The request is to be performed, and then `finish` or `abandon` called.
    First,
    Replay(Stored),
}

impl IdempotencyKeys {
    pub fn begin(&mut self, key: &str, fingerprint: u64, now: i64) -> Result<Begun, ApiError> {
        if key.chars().count() > KEY_CHARS_MAX {
            return Err(ApiError::request(format!(
                "An idempotency key has up to {KEY_CHARS_MAX} characters."
            )));
        }
        self.prune(now);
        if let Some(entry) = self.entries.get_mut(key) {
            if entry.fingerprint != fingerprint {
                return Err(ApiError::key_reused(key));
            }
            if entry.in_progress {
                return Err(ApiError::key_in_use(key));
            }
            if let Some(stored) = &entry.stored {
                return Ok(Begun::Replay(stored.clone()));
            }
            entry.in_progress = true;
            return Ok(Begun::First);
        }
        self.entries.insert(
            key.to_owned(),
            Entry { fingerprint, at: now, in_progress: true, stored: None },
        );
        self.order.push_back((now, key.to_owned()));
        Ok(Begun::First)
    }

    pub fn store(&mut self, key: &str, stored: Stored) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.stored = Some(stored);
        }
    }

    /// The request has ended; a key without a stored answer is free again, for other parameters too.
    pub fn end(&mut self, key: &str) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.in_progress = false;
            if entry.stored.is_none() {
                self.entries.remove(key);
            }
        }
    }

    pub fn restore(&mut self, line: StoredKey) {
        let StoredKey { key, fingerprint, at, request_id, status, body } = line;
        let stored = Some(Stored { request_id, status, body: body.into() });
        self.order.push_back((at, key.clone()));
        self.entries.insert(key, Entry { fingerprint, at, in_progress: false, stored });
    }

    pub fn prune(&mut self, now: i64) {
        while let Some((_, key)) = self.order.front().filter(|it| it.0 + PRUNED_AFTER_S <= now) {
            let is_old = |it: &Entry| it.at + PRUNED_AFTER_S <= now && !it.in_progress;
            if self.entries.get(key).is_some_and(is_old) {
                self.entries.remove(key);
            }
            self.order.pop_front();
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }
}
