//! A payment gateway that is another program, in any language, reached over HTTP: the contract is
//! `docs/reference/http-gateway.md`. Requests and answers are signed as Standard Webhooks defines it. A charge is
//! sent once and never again, only inquired about. Answers are not trusted: they are bounded and validated, and an
//! invalid one leaves the outcome unknown.

pub(crate) mod contract;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::payment::{GatewayAnswer, GatewayKnowledge, GatewayOutcome};
use domain::{GatewayCall, GatewaySettings, TenantNo, Timestamp, TransactionId};
use engine::ports::{
    BoxFuture, ControlDecision, ControlRequest, DisputeInquiry, DisputeKnowledge, Form,
    FormRequest, Gateway, Inquiry, News, Notified, PostedNotification, RequestRefused,
};
use engine::{Clock, Deadline};
use http::{HeaderMap, Method, StatusCode};
use outbound::{Base, Host, SendError};
use secrets::{Sealer, webhook};
use serde::Serialize;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

pub use secrets::webhook::Secret;

use self::contract::{
    About, AskForDispute, AskedDispute, Called, Charge, ChargeAnswer, Control, ControlAnswer,
    FormAnswer, FormAsked, Inquire, InquireAnswer, Outcome, Posted, PostedAnswer,
    TransactionsAnswer, TransactionsAsked,
};
use crate::Limits;
use crate::in_time::{NOT_IN_TIME, answered_within};
use crate::next_action;
use crate::reconcile::Listed;
use crate::tenants::Tenants;

/// The version of the contract, in [`VERSION_HEADER`].
pub const VERSION: &str = "1";
/// The header with the version of the contract.
pub const VERSION_HEADER: &str = "faregate-gateway-version";
/// The header of a charge or control request with the Unix time in milliseconds until which its answer is waited for.
pub const DEADLINE_HEADER: &str = "faregate-deadline";

/// The maximum size of an answer.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The timeout of an inquiry.
const INQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of a gateway.
pub struct Options {
    pub base: Base,
    /// Signs requests and verifies answers.
    pub secret: Secret,
    /// Of charges and of control requests.
    pub limits: Limits,
    /// Whether it decides about calls that name it as a control plugin.
    pub control: bool,
    pub clock: Clock,
    /// Seals what customers have to do; without it no answer can ask for that.
    pub sealer: Option<Arc<Sealer>>,
    pub tenants: Arc<Tenants>,
}

/// The maximum number of pages of a list of transactions.
const PAGES_MAX: usize = 100_000;

/// Why a program's transactions cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The program has no such list.
    #[error("the program has no /transactions")]
    Unsupported,
    /// It did not answer, or not as the contract says.
    #[error("{0}")]
    Failed(String),
}

/// A gateway that is another program.
pub struct HttpGateway {
    settings: GatewaySettings,
    in_flight_max: usize,
    controls: bool,
    host: Host,
    secret: Secret,
    sealer: Option<Arc<Sealer>>,
    tenants: Arc<Tenants>,
}

/// Why there is no answer that can be believed.
enum NoAnswer {
    NotSent(String),
    /// It answered with another status than 200.
    Status(StatusCode),
    Unknown(String),
}

impl NoAnswer {
    fn reason(self) -> String {
        match self {
            Self::NotSent(reason) | Self::Unknown(reason) => reason,
            Self::Status(status) => format!("it answered HTTP {}", status.as_u16()),
        }
    }
}

impl HttpGateway {
    /// A gateway. It connects with the first request.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let Options { base, secret, limits, control: controls, clock, sealer, tenants } = options;
        // What is acknowledged later than that could arrive after "not found" is final.
        let host = Host::new(base, clock, limits.settle_after);
        let (settings, in_flight_max) = (limits.settings(), limits.in_flight_max);
        Self { settings, in_flight_max, controls, host, secret, sealer, tenants }
    }

    async fn charge(
        &self,
        call: &GatewayCall,
        deadline: &Deadline,
    ) -> Result<GatewayAnswer, NoAnswer> {
        let tenant = self.tenant(call.tenant).await.map_err(NoAnswer::NotSent)?;
        let charge = Charge::new(call, tenant);
        let answer = self.exchange(Called::Charge, &charge, Some(deadline)).await?;
        if answer.is_empty() {
            return Ok(GatewayAnswer::Nothing);
        }
        let answer: ChargeAnswer = contract::decode(&answer).map_err(NoAnswer::Unknown)?;
        let outcome = answer.outcome(call.transaction).map_err(NoAnswer::Unknown)?;
        self.with_next_action(call.transaction, outcome).map(GatewayAnswer::Outcome)
    }

    async fn ask(&self, inquiry: &Inquiry) -> Result<GatewayKnowledge, NoAnswer> {
        let tenant = self.tenant(inquiry.tenant).await.map_err(NoAnswer::NotSent)?;
        let answer = self.exchange(Called::Inquire, &Inquire::new(inquiry, tenant), None).await?;
        let answer: InquireAnswer = contract::decode(&answer).map_err(NoAnswer::Unknown)?;
        match answer.outcome(inquiry.transaction).map_err(NoAnswer::Unknown)? {
            None => Ok(GatewayKnowledge::NotFound),
            Some(outcome) => {
                self.with_next_action(inquiry.transaction, outcome).map(GatewayKnowledge::Found)
            }
        }
    }

    /// The outcome with what the customer has to do, sealed.
    fn with_next_action(
        &self,
        of: TransactionId,
        (outcome, action): Outcome,
    ) -> Result<GatewayOutcome, NoAnswer> {
        let Some(action) = action else { return Ok(outcome) };
        let Some(sealer) = &self.sealer else {
            let reason = "nextAction: there is no key to encrypt it with (flags.key_file)";
            return Err(NoAnswer::Unknown(reason.to_owned()));
        };
        Ok(GatewayOutcome { next_action: Some(next_action::seal(&action, of, sealer)), ..outcome })
    }

    async fn page(&self, form: &FormRequest) -> Result<Form, RequestRefused> {
        use RequestRefused::{Invalid, Unavailable, Unsupported};
        let tenant = self.tenant(form.tenant).await.map_err(Unavailable)?;
        let answer = match self.exchange(Called::Form, &FormAsked::new(form, tenant), None).await {
            Err(NoAnswer::Status(StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED)) => {
                return Err(Unsupported);
            }
            answer => answer.map_err(|it| Unavailable(it.reason()))?,
        };
        let answer: FormAnswer = contract::decode(&answer).map_err(Unavailable)?;
        answer.form().map_err(Unavailable)?.map_err(Invalid)
    }

    async fn decide(
        &self,
        request: &ControlRequest,
        deadline: &Deadline,
    ) -> Result<ControlDecision, NoAnswer> {
        let tenant = self.tenant(request.tenant).await.map_err(NoAnswer::NotSent)?;
        let control = Control::new(request, tenant);
        let answer = self.exchange(Called::Control, &control, Some(deadline)).await?;
        let answer: ControlAnswer = contract::decode(&answer).map_err(NoAnswer::Unknown)?;
        answer.decision(request).map_err(NoAnswer::Unknown)
    }

    /// Gives each transaction that the program was asked for since a time, of a tenant and its id. For a command
    /// beside the server.
    ///
    /// # Errors
    /// [`ListError`].
    pub async fn transactions(
        &self,
        (tenant, tenant_id): (TenantNo, Uuid),
        since: Option<Timestamp>,
        mut each: impl FnMut(Listed),
    ) -> Result<(), ListError> {
        let since = since.map(engine::time::rfc3339);
        let mut after: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let (since, limit) = (since.clone(), contract::LISTED_MAX);
            let asked = TransactionsAsked { tenant_id, since, after: after.as_deref(), limit };
            let answered =
                timeout(INQUIRE_TIMEOUT, self.exchange(Called::Transactions, &asked, None));
            let answer = match answered.await {
                Ok(Ok(answer)) => answer,
                Ok(Err(NoAnswer::Status(StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED))) => {
                    return Err(ListError::Unsupported);
                }
                Ok(Err(none)) => return Err(ListError::Failed(none.reason())),
                Err(_) => return Err(ListError::Failed("it did not answer in time".to_owned())),
            };
            let answer: TransactionsAnswer =
                contract::decode(&answer).map_err(ListError::Failed)?;
            let (listed, next) =
                answer.page((tenant, after.as_deref())).map_err(ListError::Failed)?;
            listed.into_iter().for_each(&mut each);
            if next.is_none() {
                return Ok(());
            }
            after = next;
        }
        Err(ListError::Failed(format!("it lists more than {PAGES_MAX} pages")))
    }

    async fn ask_for_dispute(&self, of: &DisputeInquiry) -> Result<DisputeKnowledge, NoAnswer> {
        let tenant = self.tenant(of.of.tenant).await.map_err(NoAnswer::NotSent)?;
        let answer = self.exchange(Called::Dispute, &AskForDispute::new(of, tenant), None).await?;
        let answer: AskedDispute = contract::decode(&answer).map_err(NoAnswer::Unknown)?;
        answer.knowledge(of).map_err(NoAnswer::Unknown)
    }

    async fn notified(
        &self,
        posted: &PostedNotification,
    ) -> Result<Result<Option<Notified>, String>, NoAnswer> {
        let tenant = self.tenant(posted.tenant).await.map_err(NoAnswer::NotSent)?;
        let Ok(text) = std::str::from_utf8(&posted.body) else {
            return Ok(Err("the body is not UTF-8".to_owned()));
        };
        let posted = Posted::new(&posted.headers, text, tenant);
        let answer = self.exchange(Called::Notification, &posted, None).await?;
        let answer: PostedAnswer = contract::decode(&answer).map_err(NoAnswer::Unknown)?;
        Ok(match answer.about().map_err(NoAnswer::Unknown)? {
            Err(refused) => Err(refused),
            Ok(None) => Ok(None),
            Ok(Some(About::Dispute(notified))) => Ok(Some(notified)),
            Ok(Some(About::Outcome(payment, transaction, outcome))) => {
                let outcome = self.with_next_action(transaction, outcome)?;
                let news = News::Outcome(GatewayKnowledge::Found(outcome));
                Ok(Some(Notified { payment, transaction, news }))
            }
        })
    }

    async fn tenant(&self, no: TenantNo) -> Result<Uuid, String> {
        self.tenants.id(no).await
    }

    /// Sends a signed message, and returns the body of its signed answer.
    async fn exchange(
        &self,
        called: Called,
        message: &impl Serialize,
        deadline: Option<&Deadline>,
    ) -> Result<Bytes, NoAnswer> {
        let until_ms = deadline.map(|it| it.at().0.div_euclid(1_000));
        let body = contract::encode(called, until_ms, message);
        let id = format!("msg_{}", Uuid::from_bytes(secrets::random::bytes()).simple());
        let timestamp = unix_s(self.host.clock().real_now()).to_string();
        let signature = self.secret.sign(&id, &timestamp, &body);
        let mut request = self
            .host
            .request(Method::POST, called.path())
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(VERSION_HEADER, VERSION)
            .header(webhook::ID, &id)
            .header(webhook::TIMESTAMP, timestamp)
            .header(webhook::SIGNATURE, signature);
        if let Some(until_ms) = until_ms {
            request = request.header(DEADLINE_HEADER, until_ms);
        }
        let sent = self.host.send((request, body.into()), deadline, ANSWER_BYTES_MAX).await;
        let (head, answer) = sent
            .map_err(|error| match error {
                SendError::NotSent(reason) => NoAnswer::NotSent(reason),
                SendError::Unknown(reason) => NoAnswer::Unknown(reason),
            })?
            .into_parts();
        if head.status != StatusCode::OK {
            return Err(NoAnswer::Status(head.status));
        }
        self.verify(&id, &head.headers, &answer).map_err(NoAnswer::Unknown)?;
        Ok(answer)
    }

    /// Checks that an answer is signed, and is the one to this message.
    fn verify(&self, id: &str, headers: &HeaderMap, answer: &[u8]) -> Result<(), String> {
        let text = |name| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
        if text(webhook::ID) != id {
            return Err(format!("{} of the answer is not that of the request", webhook::ID));
        }
        let signed = webhook::Headers {
            id,
            timestamp: text(webhook::TIMESTAMP),
            signature: text(webhook::SIGNATURE),
        };
        let now_s = unix_s(self.host.clock().real_now());
        let verified = self.secret.verify(signed, answer, now_s);
        verified.map_err(|untrusted| format!("the answer cannot be trusted: {untrusted}"))
    }
}

impl Gateway for HttpGateway {
    fn settings(&self) -> GatewaySettings {
        self.settings
    }

    fn in_flight_max(&self) -> Option<usize> {
        Some(self.in_flight_max)
    }

    fn form(&self, form: FormRequest) -> BoxFuture<'_, Result<Form, RequestRefused>> {
        Box::pin(async move {
            match timeout(INQUIRE_TIMEOUT, self.page(&form)).await {
                Ok(made) => made,
                Err(_) => Err(RequestRefused::Unavailable(NOT_IN_TIME.to_owned())),
            }
        })
    }

    fn call(&self, call: GatewayCall, deadline: Deadline) -> BoxFuture<'_, GatewayAnswer> {
        Box::pin(async move {
            let until = Instant::now() + deadline.left();
            match timeout_at(until, self.charge(&call, &deadline)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(NoAnswer::NotSent(message))) => GatewayAnswer::not_reached(message),
                Ok(Err(other @ (NoAnswer::Status(_) | NoAnswer::Unknown(_)))) => {
                    GatewayAnswer::Failed { message: other.reason() }
                }
                Err(_) => GatewayAnswer::TimedOut,
            }
        })
    }

    fn controls(&self) -> bool {
        self.controls
    }

    fn control(
        &self,
        request: ControlRequest,
        deadline: Deadline,
    ) -> BoxFuture<'_, Result<ControlDecision, String>> {
        Box::pin(async move {
            let decided = self.decide(&request, &deadline);
            answered_within(deadline.left(), decided, NoAnswer::reason).await
        })
    }

    fn inquire(&self, inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge> {
        Box::pin(async move {
            let asked = self.ask(&inquiry);
            let reason = match answered_within(INQUIRE_TIMEOUT, asked, NoAnswer::reason).await {
                Ok(knowledge) => return knowledge,
                Err(reason) => reason,
            };
            let (transaction, host) = (inquiry.transaction, self.host.authority());
            tracing::warn!(transaction.id = %transaction, host, reason, "an inquiry has no answer");
            GatewayKnowledge::Unreachable
        })
    }

    fn dispute(&self, of: DisputeInquiry) -> BoxFuture<'_, DisputeKnowledge> {
        Box::pin(async move {
            let asked = self.ask_for_dispute(&of);
            let reason = match answered_within(INQUIRE_TIMEOUT, asked, NoAnswer::reason).await {
                Ok(knowledge) => return knowledge,
                Err(reason) => reason,
            };
            let (payment, host) = (of.of.payment, self.host.authority());
            tracing::warn!(payment.id = %payment, host, reason, "a gateway cannot be asked for a dispute");
            DisputeKnowledge::Unreachable
        })
    }

    fn notification(
        &self,
        posted: PostedNotification,
    ) -> BoxFuture<'_, Result<Option<Notified>, RequestRefused>> {
        Box::pin(async move {
            let read = self.notified(&posted);
            let read = answered_within(INQUIRE_TIMEOUT, read, NoAnswer::reason).await;
            read.map_err(RequestRefused::Unavailable)?.map_err(RequestRefused::Invalid)
        })
    }
}

const fn unix_s(at: Timestamp) -> i64 {
    at.0.div_euclid(1_000_000)
}
