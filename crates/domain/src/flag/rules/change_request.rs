//! Change requests: requested, decided, applied when due.

use crate::change::FlagChange;
use crate::context::Context;
use crate::flag::change_request::{
    ApplyChange, CHANGES_WAITING_MAX, ChangeRequest, ChangeStatus, DecideChange, Decision, Judged,
    RequestChange, Seen,
};
use crate::flag::definition::{Expected, NewDefinition};
use crate::flag::environment::Environment;
use crate::flag::rules::definition;
use crate::reply::{FlagReply, Outcome};
use crate::state::State;
use crate::{Accepted, ChangeRequestId, EnvironmentId, FlagRejection, Rejection, Reply, Revision};

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
    cx.change(FlagChange::Environment(Environment {
        changes_waiting: environment.changes_waiting + 1,
        revision: environment.revision.next(cx.seq),
        ..environment.clone()
    }));
    cx.change(FlagChange::ChangeRequest(ChangeRequest {
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
    Ok(Accepted::now(Reply::Flag(FlagReply::ChangeRequested(id))))
}

pub(crate) fn decide(state: &State, it: &DecideChange, cx: &mut Context) -> Outcome {
    let environment = find_environment(state, it.environment, cx)?;
    let before = find(state, (it.environment, it.change), cx)?;
    let is_open = match it.decision {
        Decision::Approve => before.status == ChangeStatus::Pending,
        Decision::Reject | Decision::Withdraw => before.status.is_waiting(),
    };
    if !is_open {
        return Err(FlagRejection::ChangeNotWaiting { id: it.change, status: before.status }.into());
    }
    if let Some(seen) = &it.seen {
        check_seen(state, before, seen, cx)?;
    }
    let is_author = before.author == cx.actor.user;
    let decided_by = Some(cx.actor.user.clone());
    match it.decision {
        Decision::Approve if is_author => {
            Err(FlagRejection::ApprovalByAuthor { id: it.change }.into())
        }
        Decision::Withdraw if !is_author => {
            Err(FlagRejection::WithdrawalByAnother { id: it.change }.into())
        }
        Decision::Approve => {
            cx.change(FlagChange::ChangeRequest(ChangeRequest {
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
            cx.change(FlagChange::Environment(settle(environment, cx)));
            end(rejected, ChangeStatus::Rejected, cx);
            Ok(Accepted::now(Reply::Done))
        }
        Decision::Withdraw => {
            cx.change(FlagChange::Environment(settle(environment, cx)));
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
        return Err(FlagRejection::DefinitionChanged { key: change.id.to_string(), version }.into());
    }
    let version = state.definition(cx.tenant, &seen.key).map(|there| there.version);
    if version != seen.version {
        return Err(FlagRejection::DefinitionChanged { key: seen.key.key.clone(), version }.into());
    }
    Ok(())
}

pub(crate) fn apply(state: &State, it: &ApplyChange, cx: &mut Context) -> Outcome {
    let environment = find_environment(state, it.key.environment, cx)?;
    let before = find(state, (it.key.environment, it.change), cx)?;
    if before.status != ChangeStatus::Scheduled {
        return Err(FlagRejection::ChangeNotWaiting { id: it.change, status: before.status }.into());
    }
    if before.due_at.is_none_or(|at| at > cx.now) || before.key != it.key {
        return Err(Rejection::invalid("change", "is not due, or of something else"));
    }
    // The environment has demanded approval since.
    if environment.changes_need_approval && before.decided_by.is_none() {
        cx.change(FlagChange::ChangeRequest(ChangeRequest {
            status: ChangeStatus::Pending,
            revision: before.revision.next(cx.seq),
            ..before.clone()
        }));
        return Ok(Accepted::now(Reply::Done));
    }
    definition::check_version(environment, it.version)?;
    let version = state.definition(cx.tenant, &it.key).map(|there| there.version);
    if version != it.upon {
        return Err(FlagRejection::DefinitionChanged { key: it.key.key.clone(), version }.into());
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
            Ok(Accepted::now(Reply::Flag(FlagReply::DefinitionsPut { version })))
        }
        Err(explanation) => {
            cx.change(FlagChange::Environment(environment));
            let explanation = Some(explanation);
            let failed = ChangeRequest { explanation, ..before.clone() };
            end(failed, ChangeStatus::Failed, cx);
            Ok(Accepted::now(Reply::Done))
        }
    }
}

/// The definition to put for a change, or the reason why none is.
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

/// The reason of a refusal. One definition, put upon the version that is there, can be refused for one reason only:
/// there are too many.
fn why(refused: &Rejection) -> String {
    if let Rejection::InvalidParameter { reason, .. } = refused {
        return reason.clone();
    }
    refused.to_string()
}

fn find_environment<'s>(
    state: &'s State,
    id: EnvironmentId,
    cx: &Context,
) -> Result<&'s Environment, Rejection> {
    state
        .environment(cx.tenant, id)
        .ok_or(Rejection::Flag(FlagRejection::EnvironmentNotFound { id }))
}

fn find<'s>(
    state: &'s State,
    (environment, id): (EnvironmentId, ChangeRequestId),
    cx: &Context,
) -> Result<&'s ChangeRequest, Rejection> {
    let found = state.change_request(cx.tenant, id);
    let found = found.filter(|it| it.key.environment == environment);
    found.ok_or(Rejection::Flag(FlagRejection::ChangeNotFound { id }))
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
    cx.change(FlagChange::ChangeRequest(ChangeRequest { status, settled_at, revision, ..change }));
}

#[cfg(test)]
mod tests;
