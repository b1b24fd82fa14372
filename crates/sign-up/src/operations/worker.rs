//! Executes stored registrations.
//!
//! The work that is left is read from the store, so that nothing is lost with the process. The owner of
//! a partition executes the registrations of its accounts, and the owner of the first partition
//! calls back. A registration is executed as a request with the operation's id, in a commit that
//! ends the operation too, so that a customer is created once, however often it is attempted.

use std::sync::Arc;

use domain::command::CustomerCommand;
use domain::customer::CustomerRejection;
use domain::customer::operation::{FailOperation, Operation};
use domain::{AccountId, OperationId, RequestId, TenantNo};
use engine::access::ClientAddress;
use engine::periodic::Pass;
use engine::{Engine, Unavailable};
use futures_util::stream::{self, StreamExt as _};
use secrets::Purpose;

use super::{Deliver, Disclosure, StoredRequest};
use crate::SignUp;
use crate::service::{Error, RegistrationOptions, RequestContext, validate_registration};

/// How many operations are read at once.
const OPERATIONS_MAX: usize = 32;

/// How many registrations are executed concurrently: so few that requests with a waiting client
/// find free password threads.
const REGISTRATIONS_MAX: usize = 2;

/// Dependencies of the worker.
#[derive(Clone)]
pub struct Worker {
    /// Sign-up on the engine of the partition.
    pub sign_up: SignUp,
    /// The same engine, which records which callbacks were delivered.
    pub bookkeeper: Engine,
    /// Whether the account that a registration creates belongs to the partition.
    pub owns_account: OwnsAccount,
    /// Calls clients of all partitions; `Some` for the owner of the first partition only.
    pub deliver: Option<Deliver>,
    /// How results are written for clients.
    pub representation: Representation,
}

/// Whether an account belongs to a partition.
pub type OwnsAccount = Arc<dyn Fn(TenantNo, AccountId) -> bool + Send + Sync>;

/// How the API of operations represents them. Both are JSON and identify no person, except for the
/// id of the customer of an open registration.
#[derive(Clone, Copy, Debug)]
pub struct Representation {
    /// The problem that is stored with a failed operation.
    pub problem: fn(Error) -> String,
    /// The operation in a callback.
    pub operation: fn(&Operation, Disclosure) -> String,
}

/// Executes all waiting registrations of the partition, and logs a failure.
pub(super) async fn execute_logged(worker: &Worker) -> Pass {
    execute_all(worker).await.unwrap_or_else(|error| {
        tracing::warn!(error = %error, "failed to execute stored registrations; retrying");
        Pass::Failed
    })
}

async fn execute_all(worker: &Worker) -> Result<Pass, Unavailable> {
    let (mut after, mut pass) = (None, Pass::Idle);
    loop {
        let read =
            worker.sign_up.read(move |queries| queries.operations_waiting(after, OPERATIONS_MAX));
        let waiting = read.await?;
        let is_last = waiting.len() < OPERATIONS_MAX;
        after = waiting.last().map(|it| it.id);
        let owned = waiting.into_iter().filter(|it| (worker.owns_account)(it.tenant, account(it)));
        let mut results = stream::iter(owned)
            .map(|operation| async {
                let id = operation.id;
                (id, execute(worker, operation).await)
            })
            .buffer_unordered(REGISTRATIONS_MAX);
        while let Some((id, result)) = results.next().await {
            match result {
                Ok(()) => {}
                // The password threads are busy with requests whose clients wait. The suggested
                // delay is for clients: after it, others would have filled the queue again.
                Err(Error::Busy { .. } | Error::TooManyRequests { .. }) => return Ok(Pass::Idle),
                Err(error) => {
                    tracing::warn!(
                        operation.id = %id,
                        error = %error,
                        "failed to execute a stored registration; retrying"
                    );
                    pass = Pass::Failed;
                }
            }
        }
        if is_last {
            return Ok(pass);
        }
    }
}

/// The account that a registration creates: its id follows from the operation's.
fn account(operation: &Operation) -> AccountId {
    RequestId(operation.id.uuid()).entity(0)
}

/// Executes a registration, or ends its operation where it is refused.
async fn execute(worker: &Worker, operation: Operation) -> Result<(), Error> {
    let (sign_up, id) = (&worker.sign_up, operation.id);
    // Limits were applied when it was stored.
    let context = RequestContext {
        tenant: operation.tenant,
        id: RequestId(id.uuid()),
        idempotency_key: None,
        from: ClientAddress::UNKNOWN,
        is_exempt: true,
        is_of_tenant: false,
    };
    let sealed = operation.sealed.as_deref().unwrap_or_default();
    let opened = sign_up.sealer().open(Purpose::Request, id.uuid(), sealed).ok();
    let stored: Option<StoredRequest> =
        opened.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(stored) = stored else {
        tracing::error!(operation.id = %id, "failed to decrypt a stored registration; it fails");
        let lost = Unavailable::from(engine::Reason::Bug);
        return fail(worker, &context, id, lost.into()).await;
    };
    let taken = stored.taken();
    let options =
        RegistrationOptions { taken, operation: Some(id), ..RegistrationOptions::DISCREET };
    let result = match validate_registration(&stored.form) {
        Ok(new) => sign_up.register(&context, new, options).await.map(drop),
        Err(invalid) => Err(Error::Fields(invalid)),
    };
    match result {
        // An earlier attempt succeeded, but its answer was lost.
        Ok(())
        | Err(Error::Refused(
            CustomerRejection::OperationSettled | CustomerRejection::OperationNotFound,
        )) => Ok(()),
        Err(refused @ (Error::Refused(_) | Error::Fields(_))) => {
            fail(worker, &context, id, refused).await
        }
        Err(error) => Err(error),
    }
}

async fn fail(
    worker: &Worker,
    context: &RequestContext,
    operation: OperationId,
    error: Error,
) -> Result<(), Error> {
    let explanation = (worker.representation.problem)(error);
    // A new id: requests with the operation's id create the customer.
    let context = RequestContext { id: worker.sign_up.engine().mint(), ..context.clone() };
    let command = CustomerCommand::FailOperation(FailOperation { operation, explanation });
    match worker.sign_up.submit(&context, command).await {
        Ok(_) | Err(Error::Refused(CustomerRejection::OperationSettled)) => Ok(()),
        Err(error) => Err(error),
    }
}
