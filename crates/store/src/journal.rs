//! Journal rows: what of a command's changes is history, and how it is written down.

use domain::payment::Actor;
use domain::state::Change;
use domain::{AccountId, Event, RequestId, Revision, Seq, TenantNo, Timestamp};
use engine::ports::{Entry, StoreError};

use crate::cells::json;
use crate::driver::{Cells, Value};
use crate::rows;
use crate::tables;

/// A journal row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub seq: Seq,
    /// Domain time.
    pub at: Timestamp,
    /// Real time of the commit.
    pub committed_at: Timestamp,
    /// The tenant.
    pub tenant: TenantNo,
    /// The account that it is about.
    pub account: Option<AccountId>,
    /// The request.
    pub request: RequestId,
    /// The command's name.
    pub command: String,
    /// Who asked.
    pub actor: Actor,
    /// After-images of what it changed.
    pub changes: Vec<Change>,
    /// What happened.
    pub events: Vec<Event>,
}

/// Reads a row of [`tables::JOURNAL`].
///
/// # Errors
/// [`StoreError::Corrupt`] where it is none.
pub fn record(cells: &mut Cells<'_>) -> Result<Record, StoreError> {
    cells.of(&tables::JOURNAL);
    Ok(Record {
        seq: cells.seq()?,
        at: cells.time()?,
        committed_at: cells.time()?,
        tenant: cells.tenant()?,
        account: cells.opt_entity()?,
        request: RequestId(cells.id()?),
        command: cells.string()?,
        actor: rows::actor(cells)?,
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
        |change: &&Change| revision(change).is_some_and(|revision| revision.seq == entry.seq);
    let changes: Vec<&Change> = entry.changes.iter().filter(in_history).collect();
    Texts {
        changes: (!changes.is_empty()).then(|| json(&changes)),
        events: (!entry.events.is_empty()).then(|| json(&entry.events)),
    }
}

pub(crate) fn row<'a>(
    entry: &'a Entry,
    texts: &'a Texts,
    committed_at: Timestamp,
) -> [Value<'a>; 14] {
    [
        entry.seq.into(),
        entry.at.into(),
        committed_at.into(),
        entry.tenant.into(),
        account(entry).into(),
        entry.request.0.into(),
        entry.command.into(),
        (&entry.actor.user).into(),
        (&entry.actor.created_by).into(),
        entry.actor.reason.as_ref().into(),
        entry.actor.comments.as_ref().into(),
        entry.actor.token.into(),
        texts.changes.as_ref().into(),
        texts.events.as_ref().into(),
    ]
}

/// The revision of what has a history. Personal data, claims and bookkeeping have none: they stay
/// out of the journal.
#[must_use]
pub const fn revision(change: &Change) -> Option<Revision> {
    match change {
        Change::Tenant(it) => Some(it.revision),
        Change::TenantValue(it) => Some(it.revision),
        Change::User(it) => Some(it.revision),
        Change::Role(it) => Some(it.revision),
        Change::Environment(it) => Some(it.revision),
        Change::Secret(it) => Some(it.revision),
        Change::Definition(it) => Some(it.revision),
        Change::ChangeRequest(it) => Some(it.revision),
        Change::Customer(it) => Some(it.revision),
        Change::Operation(it) => Some(it.revision),
        Change::Account(it) => Some(it.revision),
        Change::Tag(it) => Some(it.revision),
        Change::PaymentMethod(it) => Some(it.revision),
        Change::Payment(it) => Some(it.revision),
        Change::Transaction(it) => Some(it.revision),
        Change::Person { .. }
        | Change::PersonForgotten { .. }
        | Change::Session(_)
        | Change::SessionEnded { .. }
        | Change::Mail(_)
        | Change::Posting(_)
        | Change::Claim { .. }
        | Change::ClaimReleased { .. }
        | Change::Outstanding(_)
        | Change::OutstandingClosed { .. }
        | Change::ReplySettled { .. } => None,
    }
}

/// The billing account that an entry is about.
fn account(entry: &Entry) -> Option<AccountId> {
    let changed = entry.changes.iter().find_map(|change| match change {
        Change::Account(it) => Some(it.id),
        Change::Customer(it) => Some(it.account),
        Change::Person { account, .. } | Change::PersonForgotten { account, .. } => Some(*account),
        Change::Tag(it) => Some(it.key.account),
        Change::PaymentMethod(it) => Some(it.account_id),
        Change::Payment(it) => Some(it.account_id),
        Change::Transaction(it) => Some(it.account_id),
        Change::Posting(it) => Some(it.account_id),
        Change::Outstanding(it) => Some(it.account_id),
        Change::Tenant(_)
        | Change::TenantValue(_)
        | Change::User(_)
        | Change::Role(_)
        | Change::Environment(_)
        | Change::Secret(_)
        | Change::Definition(_)
        | Change::ChangeRequest(_)
        | Change::Session(_)
        | Change::SessionEnded { .. }
        | Change::Mail(_)
        | Change::Operation(_)
        | Change::Claim { .. }
        | Change::ClaimReleased { .. }
        | Change::OutstandingClosed { .. }
        | Change::ReplySettled { .. } => None,
    });
    changed.or_else(|| entry.events.iter().find_map(Event::account))
}
