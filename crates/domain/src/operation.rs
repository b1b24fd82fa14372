//! Operations: what a client is told the end of later. So far registrations, which are kept whole,
//! encrypted by the door, until they are made.

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::customer::{CustomerRefusal, CustomerReply};
use crate::execute::{Accepted, Outcome};
use crate::state::{Change, State};
use crate::{CustomerId, OperationId, Rejection, Reply, Revision, TenantNo, Timestamp};

/// How an operation stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationStatus {
    /// It is to be made.
    Waiting,
    /// It made a customer; `None` where the address had one, who was told.
    Succeeded(Option<CustomerId>),
    /// It could not be made: the door's own words for it, without anything of the person.
    Failed(String),
}

/// A registration that is kept until it is made. Named after the request that asked for it, so that
/// its account is that of the request which makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Whose.
    pub tenant: TenantNo,
    /// Its id.
    pub id: OperationId,
    /// How it stands.
    pub status: OperationStatus,
    /// What is to be made, encrypted by the door; gone once it has come to its end. Never journalled.
    #[serde(skip)]
    pub sealed: Option<String>,
    /// Who is told by a call when it has, and with what secret; encrypted too. Never journalled.
    #[serde(skip)]
    pub callback: Option<String>,
    /// When the callback is called, or tried again.
    #[serde(skip)]
    pub notify_at: Option<Timestamp>,
    /// How often it could not be called.
    #[serde(skip)]
    pub notify_attempts: u32,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it came to its end.
    pub settled_at: Option<Timestamp>,
    /// Its history.
    pub revision: Revision,
}

/// Keeps a registration to be made later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRegistration {
    /// The operation's id: that of the request.
    pub operation: OperationId,
    /// See [`Operation::sealed`].
    pub sealed: String,
    /// See [`Operation::callback`].
    pub callback: Option<String>,
}

/// A registration that was kept cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailOperation {
    /// Which.
    pub operation: OperationId,
    /// See [`OperationStatus::Failed`].
    pub explanation: String,
}

pub(crate) fn queue(it: &QueueRegistration, cx: &mut Context) -> Outcome {
    cx.change(Change::Operation(Operation {
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
    let operation = found.ok_or(Rejection::Customer(CustomerRefusal::OperationNotFound))?;
    match operation.status {
        OperationStatus::Waiting => Ok(operation),
        OperationStatus::Succeeded(_) | OperationStatus::Failed(_) => {
            Err(Rejection::Customer(CustomerRefusal::OperationSettled))
        }
    }
}

/// An operation has come to its end; whoever wanted to be called is.
pub(crate) fn settle(operation: Operation, status: OperationStatus, cx: &mut Context) {
    cx.change(Change::Operation(Operation {
        status,
        sealed: None,
        notify_at: operation.callback.is_some().then_some(cx.now),
        settled_at: Some(cx.now),
        revision: operation.revision.next(cx.seq),
        ..operation
    }));
}
