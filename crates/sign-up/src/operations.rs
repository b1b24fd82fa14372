//! Registrations that are stored and executed later, for clients that do not wait for the result.
//!
//! The client gets an answer once its registration is durable. The request is stored encrypted, and
//! deleted when its operation ends. A [`Worker`] executes stored registrations and calls back.

mod callback;
mod notifier;
mod worker;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::command::CustomerCommand;
use domain::customer::operation::{Operation, QueueRegistration};
use domain::customer::{CustomerReply, Taken};
use domain::{Idempotency, OperationId, Reply, TenantNo};
use engine::periodic::Periodic;
use secrets::Purpose;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

pub use self::callback::{
    Callback, CallbackCheck, CallbackInvalid, Deliver, Delivery, NotDelivered,
};
use self::notifier::Notifier;
use self::worker::execute_logged;
pub use self::worker::{OwnsAccount, Representation, Worker};

use crate::SignUp;
use crate::limits::Action;
use crate::passwords::Busy;
use crate::service::{Error, RegistrationForm, RequestContext, validate_registration};

/// New registrations are refused while [`LATE_MAX`] stored ones are older than this: better
/// refused now than executed hours later.
const WAIT_MAX: Duration = Duration::from_secs(600);
const LATE_MAX: usize = 64;

/// How many registrations may wait, whatever their age.
const WAITING_MAX: usize = 10_000;

/// The pause between two reads of what is left to do.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The pause after a failure.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);

/// `Retry-After` while registrations are refused.
const RETRY_AFTER_LATE: Duration = Duration::from_secs(60);

/// Bytes of the code that authorizes its holder to see which customer was created.
const PROOF_BYTES: usize = 16;

/// The information that the result of a registration may disclose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disclosure {
    /// Whether the address had a customer: if so, the operation fails.
    Open,
    /// Nothing about that: the operation succeeds, and the owner of the address is notified by
    /// mail.
    Discreet,
}

impl Disclosure {
    const fn taken(self) -> Taken {
        match self {
            Self::Open => Taken::Refuse,
            Self::Discreet => Taken::NotifyByMail,
        }
    }

    /// The route of idempotency keys: keys of different disclosures are different keys.
    const fn route(self) -> &'static str {
        match self {
            Self::Open => "register-later",
            Self::Discreet => "register-later-discreet",
        }
    }
}

/// A whole registration with its password. It is only ever stored encrypted.
#[derive(Serialize, Deserialize)]
struct StoredRequest {
    disclosure: Disclosure,
    /// Whether no notice is mailed, because the address had too many when this was stored.
    #[serde(default)]
    is_notice_suppressed: bool,
    form: RegistrationForm,
}

impl StoredRequest {
    fn new(form: &RegistrationForm, disclosure: Disclosure, taken: Taken) -> Self {
        let is_notice_suppressed = taken == Taken::Silent;
        Self { disclosure, is_notice_suppressed, form: form.clone() }
    }

    const fn taken(&self) -> Taken {
        if self.is_notice_suppressed { Taken::Silent } else { self.disclosure.taken() }
    }
}

/// A registration that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedRegistration {
    pub operation: OperationId,
    /// The path of the operation's status; an open registration's has a proof.
    pub location: String,
}

/// Executes stored registrations and delivers callbacks until `stop` is ready.
pub async fn run(worker: Worker, stop: impl Future<Output = ()>) {
    let periodic = Periodic::every(POLL_INTERVAL).with_backoff(FAILURE_PAUSE, FAILURE_PAUSE);
    let executing = periodic.run(std::future::pending(), || execute_logged(&worker));
    let notifying = async {
        if let Some(deliver) = &worker.deliver {
            let notifier = Notifier::new(worker.clone(), Arc::clone(deliver));
            periodic.run(std::future::pending(), notifier).await;
        }
    };
    // A submitted command is committed or not, whether its result is awaited or not.
    tokio::select! {
        _ = async { tokio::join!(executing, notifying) } => {}
        () = stop => {}
    }
}

impl SignUp {
    /// Stores a registration that is executed later; the same one for the same idempotency key. It
    /// is durable when this returns.
    ///
    /// # Errors
    /// [`Error::Fields`]; [`Error::TenantNeeded`] where anybody asks for a callback; [`Error::Busy`] where too many wait, or have waited for too long.
    pub async fn queue(
        &self,
        context: &RequestContext,
        form: &RegistrationForm,
        disclosure: Disclosure,
        callback: Option<Callback>,
    ) -> Result<QueuedRegistration, Error> {
        // A server that anybody could let call any address would be a tool for attacks on others.
        if callback.is_some() && !context.is_of_tenant {
            return Err(Error::TenantNeeded);
        }
        let new = validate_registration(form).map_err(Error::Fields)?;
        self.limit(context, Action::Register, Some(new.email()))?;
        let url = callback.as_ref().map_or("", Callback::url).to_owned();
        let route = (disclosure.route(), new.email().folded());
        let fields = [&*form.first_name, &form.last_name, &url];
        let idempotency = self.idempotency(context, route, &fields);
        // A repeated request is never refused: its registration waits already, or has ended.
        if !self.has_reply(idempotency).await? {
            self.refuse_if_late().await?;
        }
        let taken = self.limit_notices(context, new.email(), disclosure.taken());
        let operation = OperationId::new(context.id.0);
        let stored = StoredRequest::new(form, disclosure, taken);
        let stored = serde_json::to_vec(&stored).expect("strings are plain JSON");
        let sealed = self.sealer().seal(Purpose::Request, operation.uuid(), &stored);
        let callback = callback.map(|it| it.seal(self.sealer(), operation, disclosure));
        let command =
            CustomerCommand::QueueRegistration(QueueRegistration { operation, sealed, callback });
        let reply = self.submit_repeatable(context, command, idempotency).await?;
        let Reply::Customer(CustomerReply::Queued(operation)) = reply else {
            return Err(engine::Unavailable::from(engine::Reason::Bug).into());
        };
        let mut location = format!("/v1/operations/{operation}");
        if disclosure == Disclosure::Open {
            let proof = BASE64.encode(self.proof(context.tenant, operation));
            location = format!("{location}?proof={proof}");
        }
        Ok(QueuedRegistration { operation, location })
    }

    /// Whether a request with this key has a reply.
    async fn has_reply(&self, idempotency: Option<Idempotency>) -> Result<bool, Error> {
        let Some(Idempotency { key, .. }) = idempotency else { return Ok(false) };
        let now = self.engine().clock().now();
        Ok(self.read(move |queries| queries.has_reply(key, now)).await?)
    }

    /// Refuses while stored registrations are too many, or are not executed in time.
    async fn refuse_if_late(&self) -> Result<(), Error> {
        let count = self.read(|queries| queries.operations_waiting_count(WAITING_MAX)).await?;
        if count >= WAITING_MAX {
            return Err(Busy { retry_after: RETRY_AFTER_LATE }.into());
        }
        let waiting = self.read(|queries| queries.operations_waiting(None, LATE_MAX)).await?;
        let Some(last) = waiting.get(LATE_MAX - 1) else { return Ok(()) };
        let waits_us = self.engine().clock().now().0.saturating_sub(last.created_at.0);
        match u128::try_from(waits_us).is_ok_and(|waits_us| waits_us > WAIT_MAX.as_micros()) {
            true => Err(Busy { retry_after: RETRY_AFTER_LATE }.into()),
            false => Ok(()),
        }
    }

    /// An operation of a tenant.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn operation(
        &self,
        tenant: TenantNo,
        id: OperationId,
    ) -> Result<Option<Operation>, Error> {
        Ok(self.read(move |queries| queries.operation(tenant, id)).await?)
    }

    /// Whether this is the proof of an open registration's location, whose holder may see which
    /// customer was created.
    #[must_use]
    pub fn is_proof(&self, tenant: TenantNo, operation: OperationId, text: &str) -> bool {
        let Ok(given) = BASE64.decode(text) else { return false };
        given.ct_eq(&self.proof(tenant, operation)).into()
    }

    fn proof(&self, tenant: TenantNo, operation: OperationId) -> [u8; PROOF_BYTES] {
        let number = tenant.0.to_be_bytes();
        let mac = self.tokens().mac(&[b"operation", &number, operation.uuid().as_bytes()]);
        mac[..PROOF_BYTES].try_into().expect("a MAC is longer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_request_keeps_whether_the_owner_of_the_address_is_notified() {
        let taken = |disclosure, taken| {
            let form = RegistrationForm::default();
            let stored = serde_json::to_vec(&StoredRequest::new(&form, disclosure, taken)).unwrap();
            serde_json::from_slice::<StoredRequest>(&stored).unwrap().taken()
        };
        for wanted in [Taken::NotifyByMail, Taken::Silent] {
            assert_eq!(taken(Disclosure::Discreet, wanted), wanted);
        }
        assert_eq!(taken(Disclosure::Open, Taken::Refuse), Taken::Refuse);
    }
}
