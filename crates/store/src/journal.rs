//! Journal rows: what of a command's changes is history, and how it is written down.

use domain::change::Change;
use domain::{AccountId, Event, RequestId, Seq, TenantNo, Timestamp};
use engine::ports::{Entry, StoreError};
use uuid::Uuid;

use crate::cells::{RowId, json};
use crate::driver::{Cells, Value};
use crate::table;

/// A journal row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub seq: Seq,
    /// Domain time of its batch.
    pub at: Timestamp,
    /// Real time of the commit.
    pub committed_at: Timestamp,
    pub tenant: TenantNo,
    /// The account that it is about.
    pub account: Option<AccountId>,
    pub request: RequestId,
    /// The command's name.
    pub command: String,
    /// The id of the row in [`table::ACTOR`].
    pub actor: RowId,
    /// Names the request to the caller: Kill Bill's user token.
    pub token: Uuid,
    /// After-images of what it changed.
    pub changes: Vec<Change>,
    pub events: Vec<Event>,
}

/// Reads a row of [`table::JOURNAL`].
///
/// # Errors
/// [`StoreError::Corrupt`] where it is none.
pub fn record(cells: &mut Cells<'_>) -> Result<Record, StoreError> {
    cells.of(&table::JOURNAL);
    Ok(Record {
        seq: cells.seq()?,
        at: cells.time()?,
        committed_at: cells.time()?,
        tenant: cells.tenant()?,
        account: cells.opt_entity()?,
        request: RequestId(cells.id()?),
        command: cells.string()?,
        actor: cells.id()?.into_bytes(),
        token: cells.id()?,
        changes: cells.opt_json()?.unwrap_or_default(),
        events: cells.opt_json()?.unwrap_or_default(),
    })
}

/// The JSON texts of an entry: its changes and its events.
pub(crate) struct Texts {
    changes: Option<String>,
    events: Option<String>,
}

pub(crate) fn texts(entry: &Entry) -> Texts {
    let in_history =
        |change: &&Change| change.revision().is_some_and(|revision| revision.seq == entry.seq);
    let changes: Vec<&Change> = entry.changes.iter().filter(in_history).collect();
    Texts {
        changes: (!changes.is_empty()).then(|| json(&changes)),
        events: (!entry.events.is_empty()).then(|| json(&entry.events)),
    }
}

/// How many columns of [`table::JOURNAL`] there are before `chain`.
const COLUMNS: usize = 11;

/// The columns of a row but `chain`.
pub(crate) fn columns<'a>(
    entry: &'a Entry,
    actor: RowId,
    texts: &'a Texts,
    committed_at: Timestamp,
) -> [Value<'a>; COLUMNS] {
    [
        entry.seq.into(),
        entry.at.into(),
        committed_at.into(),
        entry.tenant.into(),
        account(entry).into(),
        entry.request.0.into(),
        entry.command.into(),
        Value::Id(actor),
        entry.actor.token.into(),
        texts.changes.as_ref().into(),
        texts.events.as_ref().into(),
    ]
}

/// The whole row.
pub(crate) fn with_chain<'a>(
    columns: [Value<'a>; COLUMNS],
    chain: &'a str,
) -> [Value<'a>; COLUMNS + 1] {
    let mut row = [Value::Null; COLUMNS + 1];
    row[..COLUMNS].copy_from_slice(&columns);
    row[COLUMNS] = chain.into();
    row
}

/// The billing account that an entry is about.
pub(crate) fn account(entry: &Entry) -> Option<AccountId> {
    let changed = entry.changes.iter().find_map(Change::account);
    changed.or_else(|| entry.events.iter().find_map(Event::account))
}
