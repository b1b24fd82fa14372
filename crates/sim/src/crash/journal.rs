//! What the clients remember: which keys they used, and every reply that they were given.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::json;

use crate::ask::Kind;

/// What a reply says about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It worked, or will.
    Accepted,
    Worked,
    /// The gateway declined, or did not take it.
    Failed,
}

/// One operation that was asked for.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The payment's external key.
    pub payment_key: String,
    /// The transaction's external key.
    pub key: String,
    pub kind: Kind,
    /// How much, in minor units; none for a void.
    pub minor: Option<i64>,
    /// Whether a gateway is called for it.
    pub is_called: bool,
    /// What else it makes, where it is a combo payment.
    pub combo: Option<Combo>,
    /// Whether its failures are retried.
    pub is_retried: bool,
}

/// The external keys of what a combo payment makes beside the payment.
#[derive(Clone, Debug)]
pub struct Combo {
    pub account_key: String,
    pub method_key: String,
}

/// The journal of all clients; every line is also written to a file as it comes.
#[derive(Debug)]
pub struct Journal {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
pub struct Inner {
    file: File,
    /// Operations by transaction key, with what was said about them last.
    pub operations: BTreeMap<String, (Operation, Option<Reported>)>,
    /// How often the request of an operation may have reached the server, by transaction key.
    pub sent: BTreeMap<String, usize>,
    /// Replies that are not expected.
    pub unexpected: Vec<String>,
    /// Requests that got no answer and were sent again.
    pub resent: u64,
    /// How many replies were received.
    pub replies: u64,
}

impl Journal {
    /// An empty journal.
    ///
    /// # Errors
    /// Where its file cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let inner = Inner {
            file: File::create(path)?,
            operations: BTreeMap::new(),
            sent: BTreeMap::new(),
            unexpected: vec![],
            resent: 0,
            replies: 0,
        };
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// Remembers an operation before it is asked for.
    pub fn asks(&self, operation: &Operation) {
        let mut inner = self.lock();
        let line = json!({
            "asks": operation.key, "payment": operation.payment_key,
            "kind": format!("{:?}", operation.kind), "minor": operation.minor,
        });
        inner.write(&line);
        inner.operations.insert(operation.key.clone(), (operation.clone(), None));
    }

    /// Remembers how often an operation was asked for.
    pub fn sent(&self, key: &str, times: usize) {
        let mut inner = self.lock();
        inner.write(&json!({ "sent": key, "times": times }));
        inner.sent.insert(key.to_owned(), times);
    }

    /// Remembers what was said about an operation.
    pub fn report(&self, key: &str, reported: Reported) {
        let mut inner = self.lock();
        inner.write(&json!({ "reported": key, "as": format!("{reported:?}") }));
        if let Some((_, known)) = inner.operations.get_mut(key) {
            *known = Some(reported);
        }
    }

    /// Remembers a reply that nobody expects.
    pub fn unexpected(&self, text: String) {
        let mut inner = self.lock();
        inner.write(&json!({ "unexpected": text }));
        inner.unexpected.push(text);
    }

    /// Counts a reply.
    pub fn replied(&self) {
        self.lock().replies += 1;
    }

    /// Counts a request that got no answer.
    pub fn resent(&self) {
        self.lock().resent += 1;
    }

    /// All of it.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, line: &serde_json::Value) {
        // The file is for the analysis of a failure; the verdict is reached without it.
        drop(writeln!(self.file, "{line}"));
    }
}
