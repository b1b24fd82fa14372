//! Registrations that are kept and made later, for clients that do not want to wait: what they are
//! told, how a request is kept, and who makes it ([`run`]).
//!
//! A client that asks for it (`Prefer: respond-async`, RFC 7240) is answered once its registration is
//! durable. The request is stored encrypted, and deleted when the operation has come to its end.

mod callback;
mod worker;

use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::customer::{CustomerCommand, CustomerReply, Taken};
use domain::operation::{Operation, OperationStatus, QueueRegistration};
use domain::{Idempotency, OperationId, Reply, TenantNo};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use subtle::ConstantTimeEq as _;

pub use self::callback::{
    Callback, CallbackCheck, CallbackInvalid, Delivery, NOTIFY_DELAYS, Post, SECRET_BYTES_MAX,
    SECRET_BYTES_MIN,
};
pub use self::worker::{IsMine, Worker, run};

use crate::SignUp;
use crate::limits::Action;
use crate::native::problem::Problem;
use crate::passwords::Busy;
use crate::seal::Purpose;
use crate::service::{Asked, Entered, Error, registration};

const PREFER: &str = "prefer";
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const RESPOND_ASYNC: &str = "respond-async";

/// How long registrations may wait: where this many wait longer than that, no more are taken. What
/// would be made hours later is better refused now.
const WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(600);
const LATE_MAX: usize = 64;

/// How many registrations may wait, however short a time.
const WAITING_MAX: usize = 10_000;

/// When to come back where too many wait.
const RETRY_AFTER_LATE: std::time::Duration = std::time::Duration::from_secs(60);

/// Bytes of the code that shows that its holder asked openly.
const PROOF_BYTES: usize = 16;

/// What the end of a registration may tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manner {
    /// Whether the address had a customer: the operation fails then.
    Open,
    /// Nothing of that: the operation succeeds, and who has the address is told by mail.
    Discreet,
}

impl Manner {
    const fn taken(self) -> Taken {
        match self {
            Self::Open => Taken::Refuse,
            Self::Discreet => Taken::TellByMail,
        }
    }

    /// Where an idempotency key is of: the same one in another manner is another one.
    const fn route(self) -> &'static str {
        match self {
            Self::Open => "register-later",
            Self::Discreet => "register-later-discreet",
        }
    }
}

/// A registration as it is kept: whole, with its password. It is only ever stored encrypted.
#[derive(Serialize, Deserialize)]
struct Kept {
    manner: Manner,
    /// Whether who has the address is not told: too many mails went there when it was kept.
    #[serde(default)]
    is_untold: bool,
    email: String,
    password: String,
    first_name: String,
    last_name: String,
    phone: Option<String>,
    company: Option<String>,
    country: Option<String>,
    time_zone: Option<String>,
    language: Option<String>,
    preferences: String,
}

impl Kept {
    fn new(it: &Entered, manner: Manner, taken: Taken) -> Self {
        let it = it.clone();
        Self {
            manner,
            is_untold: taken == Taken::TellNobody,
            email: it.email,
            password: it.password,
            first_name: it.first_name,
            last_name: it.last_name,
            phone: it.phone,
            company: it.company,
            country: it.country,
            time_zone: it.time_zone,
            language: it.language,
            preferences: it.preferences,
        }
    }

    const fn taken(&self) -> Taken {
        if self.is_untold { Taken::TellNobody } else { self.manner.taken() }
    }

    fn entered(self) -> Entered {
        Entered {
            email: self.email,
            password: self.password,
            first_name: self.first_name,
            last_name: self.last_name,
            phone: self.phone,
            company: self.company,
            country: self.country,
            time_zone: self.time_zone,
            language: self.language,
            preferences: self.preferences,
        }
    }
}

/// A registration that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The operation.
    pub operation: OperationId,
    /// Where it says how it stands.
    pub location: String,
}

/// Whether a client would rather not wait (`Prefer: respond-async`).
#[must_use]
pub fn is_preferred(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(PREFER).iter().filter_map(|line| line.to_str().ok());
    let mut preferences = lines.flat_map(|line| line.split(','));
    preferences.any(|it| {
        let name = it.split([';', '=']).next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case(RESPOND_ASYNC)
    })
}

/// The answer to a registration that is kept, whatever the door.
#[must_use]
pub fn accepted(queued: &Queued) -> Response {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        operation_id: String,
        status: &'static str,
    }
    let body = Body { operation_id: queued.operation.to_string(), status: "waiting" };
    let body = serde_json::to_vec(&body).expect("an id is plain JSON");
    let mut response = (StatusCode::ACCEPTED, body).into_response();
    let headers = response.headers_mut();
    let location = HeaderValue::try_from(queued.location.as_str());
    headers.insert(LOCATION, location.expect("an id and a code are visible ASCII"));
    headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static(RESPOND_ASYNC));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl SignUp {
    /// Keeps a registration that is made later; the same one for the same idempotency key. It is
    /// durable when this returns.
    ///
    /// # Errors
    /// [`Error::Fields`]; [`Error::Busy`] where too many have waited for too long.
    pub async fn queue(
        &self,
        asked: &Asked,
        entered: &Entered,
        manner: Manner,
        callback: Option<Callback>,
    ) -> Result<Queued, Error> {
        let new = registration(entered).map_err(Error::Fields)?;
        self.limit(asked, Action::Register, Some(new.email()))?;
        let url = callback.as_ref().map_or("", Callback::url).to_owned();
        let says = [&*entered.email, &entered.first_name, &entered.last_name, &url];
        let idempotency = self.idempotency(asked, manner.route(), &says);
        // One that was taken before is not refused now: it waits already, or is made.
        if !self.is_answered(idempotency).await? {
            self.refuse_late().await?;
        }
        let taken = self.within_mails(asked, new.email(), manner.taken());
        let operation = OperationId::new(asked.id.0);
        let kept = Kept::new(entered, manner, taken);
        let kept = serde_json::to_vec(&kept).expect("texts are plain JSON");
        let sealed = self.sealer().seal(Purpose::Request, operation.uuid(), &kept);
        let callback = callback.map(|it| it.seal(self.sealer(), operation, manner));
        let command =
            CustomerCommand::QueueRegistration(QueueRegistration { operation, sealed, callback });
        let reply = self.submit_repeatable(asked, command, idempotency).await?;
        let Reply::Customer(CustomerReply::Queued(operation)) = reply else {
            return Err(engine::Unavailable::from(engine::Reason::Bug).into());
        };
        let mut location = format!("/v1/operations/{operation}");
        if manner == Manner::Open {
            let proof = BASE64.encode(self.proof(asked.tenant, operation));
            location = format!("{location}?proof={proof}");
        }
        Ok(Queued { operation, location })
    }

    /// Whether there is an answer to a request of this key.
    async fn is_answered(&self, idempotency: Option<Idempotency>) -> Result<bool, Error> {
        let Some(Idempotency { key, .. }) = idempotency else { return Ok(false) };
        Ok(self.read(move |queries| queries.has_reply(key)).await?)
    }

    /// Takes no more registrations where those that wait are not made in time, or are too many.
    async fn refuse_late(&self) -> Result<(), Error> {
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
    pub(crate) async fn operation(
        &self,
        tenant: TenantNo,
        id: OperationId,
    ) -> Result<Option<Operation>, Error> {
        Ok(self.read(move |queries| queries.operation(tenant, id)).await?)
    }

    /// Whether this shows that its holder asked openly, and may be told which customer was made.
    pub(crate) fn is_proof(&self, tenant: TenantNo, operation: OperationId, text: &str) -> bool {
        let Ok(given) = BASE64.decode(text) else { return false };
        given.ct_eq(&self.proof(tenant, operation)).into()
    }

    fn proof(&self, tenant: TenantNo, operation: OperationId) -> [u8; PROOF_BYTES] {
        let number = tenant.0.to_be_bytes();
        let mac = self.tokens().mac(&[b"operation", &number, operation.uuid().as_bytes()]);
        mac[..PROOF_BYTES].try_into().expect("a MAC is longer")
    }
}

/// How an operation stands, as it is told.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperationShown {
    pub(crate) id: String,
    /// `waiting`, `succeeded` or `failed`
    pub(crate) status: &'static str,
    /// The customer that was made, for whoever asked openly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) customer_id: Option<String>,
    /// Why it failed: a problem (RFC 9457) that names no person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) problem: Option<Box<RawValue>>,
    pub(crate) created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settled_at: Option<String>,
}

impl OperationShown {
    /// An operation, to somebody who asked in this manner.
    pub(crate) fn new(operation: &Operation, manner: Manner) -> Self {
        let (status, customer, problem) = match &operation.status {
            OperationStatus::Waiting => ("waiting", None, None),
            OperationStatus::Succeeded(customer) => ("succeeded", *customer, None),
            OperationStatus::Failed(problem) => ("failed", None, Some(problem.clone())),
        };
        Self {
            id: operation.id.to_string(),
            status,
            customer_id: customer.filter(|_| manner == Manner::Open).map(|it| it.to_string()),
            problem: problem.and_then(|it| RawValue::from_string(it).ok()),
            created_at: crate::native::moment(operation.created_at),
            settled_at: operation.settled_at.map(crate::native::moment),
        }
    }
}

/// Why a registration that was kept could not be made, as it is stored: of no person.
fn explanation(problem: Problem) -> String {
    String::from_utf8(problem.body()).expect("JSON is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_remembers_whether_the_owner_of_its_address_is_told() {
        let taken = |manner, taken| {
            let kept = serde_json::to_vec(&Kept::new(&Entered::default(), manner, taken)).unwrap();
            serde_json::from_slice::<Kept>(&kept).unwrap().taken()
        };
        for wanted in [Taken::TellByMail, Taken::TellNobody] {
            assert_eq!(taken(Manner::Discreet, wanted), wanted);
        }
        assert_eq!(taken(Manner::Open, Taken::Refuse), Taken::Refuse);
    }

    #[test]
    fn preferences_are_found_in_any_order() {
        let is_preferred = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(PREFER, HeaderValue::from_static(line));
            }
            super::is_preferred(&headers)
        };
        for lines in [
            &["respond-async"][..],
            &["Respond-Async"],
            &["wait=10, respond-async"],
            &["return=minimal", "respond-async; x=1"],
        ] {
            assert!(is_preferred(lines), "{lines:?}");
        }
        for lines in [&[][..], &["wait=10"], &["no-respond-async"], &["x=respond-async"]] {
            assert!(!is_preferred(lines), "{lines:?}");
        }
    }
}
