//! Changes of flags and segments that are kept for later: until another user approves them, until
//! their time has come, or both. What a change makes of a document is not known here: the door keeps
//! it as a patch, and says what came of it when it is applied.

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::definition::{self, DefinitionKey, Expected, NewDefinition};
use crate::environment::Environment;
use crate::execute::{Accepted, Outcome};
use crate::state::{Change, State};
use crate::{
    ChangeRequestId, DefinitionId, EnvironmentId, Rejection, Reply, Revision, Seq, TenantNo,
    Timestamp,
};

/// How many changes of an environment wait at most.
pub const CHANGES_WAITING_MAX: u32 = 1_000;

/// Where a change stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ChangeStatus {
    /// It waits for another user's approval.
    Pending,
    /// It is approved or needs no approval, and waits for its time.
    Scheduled,
    /// It was made.
    Applied,
    /// Somebody who may approve it did not.
    Rejected,
    /// Its author took it back.
    Withdrawn,
    /// It could not be made when its time had come.
    Failed,
}

impl ChangeStatus {
    /// Whether it can still be made.
    #[must_use]
    pub const fn is_waiting(self) -> bool {
        match self {
            Self::Pending | Self::Scheduled => true,
            Self::Applied | Self::Rejected | Self::Withdrawn | Self::Failed => false,
        }
    }
}

/// A change that is kept for later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRequest {
    /// Whose it is.
    pub tenant: TenantNo,
    /// Its id.
    pub id: ChangeRequestId,
    /// What is to be changed.
    pub key: DefinitionKey,
    /// What is to be made of it: as the door wrote it. Not journalled: it never changes, and what
    /// came of it is.
    #[serde(skip)]
    pub patch: String,
    /// The version that it must be made upon, if it must.
    pub expected: Option<i64>,
    /// When it is to be made; where nothing was said, as soon as nobody has to approve it.
    pub due_at: Option<Timestamp>,
    /// Who asked for it.
    pub author: String,
    /// Why.
    pub reason: Option<String>,
    /// What else they said about it.
    pub comment: Option<String>,
    /// Where it stands.
    pub status: ChangeStatus,
    /// Who approved or rejected it.
    pub decided_by: Option<String>,
    /// Why it was rejected, or failed.
    pub explanation: Option<String>,
    /// The version that it made.
    pub version: Option<i64>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was made, or given up.
    pub settled_at: Option<Timestamp>,
    /// Its history.
    pub revision: Revision,
}

/// Keeps a change for later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestChange {
    /// Of what.
    pub key: DefinitionKey,
    /// See [`ChangeRequest::patch`].
    pub patch: String,
    /// See [`ChangeRequest::expected`].
    pub expected: Option<i64>,
    /// See [`ChangeRequest::due_at`].
    pub due_at: Option<Timestamp>,
    /// Whether another user has to approve it although the environment does not demand that.
    pub needs_approval: bool,
}

/// What somebody thinks of a change that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// It is to be made when its time has come.
    Approve,
    /// It is not to be made.
    Reject,
    /// Its author takes it back.
    Withdraw,
}

/// Decides on a change that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecideChange {
    /// Of which environment.
    pub environment: EnvironmentId,
    /// Which change.
    pub change: ChangeRequestId,
    /// What about it.
    pub decision: Decision,
    /// What was looked at before, where it has to be there still.
    #[serde(default)]
    pub seen: Option<Seen>,
}

/// A change, and what it is to change, as somebody saw them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The change's last journal row.
    pub change: Seq,
    /// What it is to change.
    pub key: DefinitionKey,
    /// The version of that; `None` where there was nothing.
    pub version: Option<i64>,
}

/// Makes a change whose time has come, or gives it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyChange {
    /// Which change.
    pub change: ChangeRequestId,
    /// Of what.
    pub key: DefinitionKey,
    /// The version that was looked at; `None` where there was nothing.
    pub upon: Option<i64>,
    /// See [`crate::definition::PutDefinitions::version`].
    #[serde(default)]
    pub version: Option<i64>,
    /// What came of it.
    pub judged: Judged,
}

/// What the patch of a change makes of the document that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Judged {
    /// Another one.
    Fits {
        /// See [`NewDefinition::id`].
        id: DefinitionId,
        /// See [`NewDefinition::body`].
        body: String,
        /// See [`NewDefinition::is_archived`].
        is_archived: bool,
    },
    /// What cannot be.
    Fails {
        /// Why.
        explanation: String,
    },
}

pub(crate) fn request(state: &State, it: &RequestChange, cx: &mut Context) -> Outcome {
    let environment = find_environment(state, it.key.environment, cx)?;
    if environment.changes_waiting >= CHANGES_WAITING_MAX {
        return Err(Rejection::invalid("changes", "too many of the environment wait"));
    }
    let (status, due_at) = match environment.changes_need_approval || it.needs_approval {
        true => (ChangeStatus::Pending, it.due_at),
        false => (ChangeStatus::Scheduled, Some(it.due_at.unwrap_or(cx.now))),
    };
    let id = cx.mint();
    cx.change(Change::Environment(Environment {
        changes_waiting: environment.changes_waiting + 1,
        revision: environment.revision.next(cx.seq),
        ..environment.clone()
    }));
    cx.change(Change::ChangeRequest(ChangeRequest {
        tenant: cx.tenant,
        id,
        key: it.key.clone(),
        patch: it.patch.clone(),
        expected: it.expected,
        due_at,
        author: cx.actor.user.clone(),
        reason: cx.actor.reason.clone(),
        comment: cx.actor.comments.clone(),
        status,
        decided_by: None,
        explanation: None,
        version: None,
        created_at: cx.now,
        settled_at: None,
        revision: Revision::first(cx.seq),
    }));
    Ok(Accepted::now(Reply::ChangeRequested(id)))
}

pub(crate) fn decide(state: &State, it: &DecideChange, cx: &mut Context) -> Outcome {
    let environment = find_environment(state, it.environment, cx)?;
    let before = find(state, (it.environment, it.change), cx)?;
    let is_open = match it.decision {
        Decision::Approve => before.status == ChangeStatus::Pending,
        Decision::Reject | Decision::Withdraw => before.status.is_waiting(),
    };
    if !is_open {
        return Err(Rejection::ChangeNotWaiting { id: it.change, status: before.status });
    }
    if let Some(seen) = &it.seen {
        check_seen(state, before, seen, cx)?;
    }
    let is_author = before.author == cx.actor.user;
    let decided_by = Some(cx.actor.user.clone());
    match it.decision {
        Decision::Approve if is_author => Err(Rejection::ApprovalByAuthor { id: it.change }),
        Decision::Withdraw if !is_author => Err(Rejection::WithdrawalByAnother { id: it.change }),
        Decision::Approve => {
            cx.change(Change::ChangeRequest(ChangeRequest {
                status: ChangeStatus::Scheduled,
                due_at: Some(before.due_at.unwrap_or(cx.now)),
                decided_by,
                revision: before.revision.next(cx.seq),
                ..before.clone()
            }));
            Ok(Accepted::now(Reply::Done))
        }
        Decision::Reject => {
            let explanation = cx.actor.reason.clone();
            let rejected = ChangeRequest { decided_by, explanation, ..before.clone() };
            cx.change(Change::Environment(settle(environment, cx)));
            end(rejected, ChangeStatus::Rejected, cx);
            Ok(Accepted::now(Reply::Done))
        }
        Decision::Withdraw => {
            cx.change(Change::Environment(settle(environment, cx)));
            end(before.clone(), ChangeStatus::Withdrawn, cx);
            Ok(Accepted::now(Reply::Done))
        }
    }
}

/// Whether a change, and what it is to change, are as they were seen.
fn check_seen(
    state: &State,
    change: &ChangeRequest,
    seen: &Seen,
    cx: &Context,
) -> Result<(), Rejection> {
    if change.revision.seq != seen.change || change.key != seen.key {
        let version = Some(change.revision.seq.0);
        return Err(Rejection::DefinitionChanged { key: change.id.to_string(), version });
    }
    let version = state.definition(cx.tenant, &seen.key).map(|there| there.version);
    if version != seen.version {
        return Err(Rejection::DefinitionChanged { key: seen.key.key.clone(), version });
    }
    Ok(())
}

pub(crate) fn apply(state: &State, it: &ApplyChange, cx: &mut Context) -> Outcome {
    let environment = find_environment(state, it.key.environment, cx)?;
    let before = find(state, (it.key.environment, it.change), cx)?;
    if before.status != ChangeStatus::Scheduled {
        return Err(Rejection::ChangeNotWaiting { id: it.change, status: before.status });
    }
    if before.due_at.is_none_or(|at| at > cx.now) || before.key != it.key {
        return Err(Rejection::invalid("change", "is not due, or of something else"));
    }
    // The environment has demanded approval since.
    if environment.changes_need_approval && before.decided_by.is_none() {
        cx.change(Change::ChangeRequest(ChangeRequest {
            status: ChangeStatus::Pending,
            revision: before.revision.next(cx.seq),
            ..before.clone()
        }));
        return Ok(Accepted::now(Reply::Done));
    }
    definition::check_version(environment, it.version)?;
    let version = state.definition(cx.tenant, &it.key).map(|there| there.version);
    if version != it.upon {
        return Err(Rejection::DefinitionChanged { key: it.key.key.clone(), version });
    }
    let environment = settle(environment, cx);
    let put = fitting(before, it).and_then(|new| {
        let put = definition::put_into(state, environment.clone(), &[new], cx);
        put.map_err(|refused| why(&refused))
    });
    match put {
        Ok(version) => {
            let applied = ChangeRequest { version: Some(version), ..before.clone() };
            end(applied, ChangeStatus::Applied, cx);
            Ok(Accepted::now(Reply::DefinitionsPut { version }))
        }
        Err(explanation) => {
            cx.change(Change::Environment(environment));
            let explanation = Some(explanation);
            let failed = ChangeRequest { explanation, ..before.clone() };
            end(failed, ChangeStatus::Failed, cx);
            Ok(Accepted::now(Reply::Done))
        }
    }
}

/// What is to be put for a change, or why nothing is.
fn fitting(change: &ChangeRequest, it: &ApplyChange) -> Result<NewDefinition, String> {
    if let Some(expected) = change.expected.filter(|expected| it.upon != Some(*expected)) {
        return Err(match it.upon {
            Some(version) => format!("it is in the version {version}, not {expected}"),
            None => format!("it is not there, and was to be in the version {expected}"),
        });
    }
    let expected = it.upon.map_or(Expected::Nothing, Expected::Version);
    let (kind, key) = (it.key.kind, it.key.key.clone());
    match &it.judged {
        Judged::Fits { id, body, is_archived } => {
            let (id, body, is_archived) = (*id, body.clone(), *is_archived);
            Ok(NewDefinition { kind, key, id, body, is_archived, expected })
        }
        Judged::Fails { explanation } => Err(explanation.clone()),
    }
}

/// What is put alone, and upon what is there, can be refused for one reason: there are too many.
fn why(refused: &Rejection) -> String {
    if let Rejection::InvalidParameter { reason, .. } = refused {
        return reason.clone();
    }
    format!("{refused:?}")
}

fn find_environment<'s>(
    state: &'s State,
    id: EnvironmentId,
    cx: &Context,
) -> Result<&'s Environment, Rejection> {
    state.environment(cx.tenant, id).ok_or(Rejection::EnvironmentNotFound { id })
}

fn find<'s>(
    state: &'s State,
    (environment, id): (EnvironmentId, ChangeRequestId),
    cx: &Context,
) -> Result<&'s ChangeRequest, Rejection> {
    let found = state.change_request(cx.tenant, id);
    let found = found.filter(|it| it.key.environment == environment);
    found.ok_or(Rejection::ChangeNotFound { id })
}

/// The environment with one change less that waits.
fn settle(environment: &Environment, cx: &Context) -> Environment {
    let left = environment.changes_waiting.checked_sub(1);
    Environment {
        changes_waiting: left.expect("a change that waits is counted"),
        revision: environment.revision.next(cx.seq),
        ..environment.clone()
    }
}

fn end(change: ChangeRequest, status: ChangeStatus, cx: &mut Context) {
    let (settled_at, revision) = (Some(cx.now), change.revision.next(cx.seq));
    cx.change(Change::ChangeRequest(ChangeRequest { status, settled_at, revision, ..change }));
}

#[cfg(test)]
mod tests;
