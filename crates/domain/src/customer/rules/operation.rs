//! Queued operations: how they begin and end.

use crate::change::CustomerChange;
use crate::context::Context;
use crate::customer::operation::{FailOperation, Operation, OperationStatus, QueueRegistration};
use crate::customer::{CustomerRejection, CustomerReply};
use crate::reply::Outcome;
use crate::state::State;
use crate::{Accepted, OperationId, Rejection, Reply, Revision};

pub(crate) fn queue(it: &QueueRegistration, cx: &mut Context) -> Outcome {
    cx.change(CustomerChange::Operation(Operation {
        tenant: cx.tenant,
        id: it.operation,
        status: OperationStatus::Waiting,
        sealed: Some(it.sealed.clone()),
        callback: it.callback.clone(),
        notify_at: None,
        notify_attempts: 0,
        created_at: cx.now,
        settled_at: None,
        revision: Revision::first(cx.seq),
    }));
    Ok(Accepted::now(Reply::Customer(CustomerReply::Queued(it.operation))))
}

pub(crate) fn fail(state: &State, it: &FailOperation, cx: &mut Context) -> Outcome {
    let operation = waiting(state, it.operation, cx)?.clone();
    settle(operation, OperationStatus::Failed(it.explanation.clone()), cx);
    Ok(Accepted::now(Reply::Done))
}

/// An operation that is to be made.
pub(crate) fn waiting<'s>(
    state: &'s State,
    id: OperationId,
    cx: &Context,
) -> Result<&'s Operation, Rejection> {
    let found = state.operation(cx.tenant, id);
    let operation = found.ok_or(Rejection::Customer(CustomerRejection::OperationNotFound))?;
    match operation.status {
        OperationStatus::Waiting => Ok(operation),
        OperationStatus::Succeeded(_) | OperationStatus::Failed(_) => {
            Err(Rejection::Customer(CustomerRejection::OperationSettled))
        }
    }
}

/// Ends an operation and schedules its callback.
pub(crate) fn settle(operation: Operation, status: OperationStatus, cx: &mut Context) {
    cx.change(CustomerChange::Operation(Operation {
        status,
        sealed: None,
        notify_at: operation.callback.is_some().then_some(cx.now),
        settled_at: Some(cx.now),
        revision: operation.revision.next(cx.seq),
        ..operation
    }));
}
