//! Stripe: charges with PaymentIntents, refunds, and notifications that are read back. What a call makes carries
//! the transaction's id as metadata, each request has an idempotency key of its own, and an ended call is never
//! repeated, only asked about (`docs/reference/stripe.md`).

mod accounts;
mod amount;
mod api;
mod checkout;
mod configuration;
mod dispute;
pub(crate) mod event;
mod inquiry;
mod methods;
mod objects;
mod operations;
mod outcome;
mod statement;

use std::sync::Arc;
use std::time::Duration;

use domain::account::payment_method::{MethodAnswer, MethodRequest, MethodTask};
use domain::payment::{
    GatewayAnswer, GatewayKnowledge, GatewayOutcome, GatewayStatus, MethodAtGateway, NotSentCause,
};
use domain::tenant::Tenant;
use domain::{
    AccountId, GatewayCall, GatewaySettings, MerchantAccount, PaymentId, TenantNo, Timestamp,
    TransactionId,
};
use engine::ports::{
    BoxFuture, DisputeInquiry, DisputeKnowledge, Form, FormRequest, Gateway, Inquiry, News,
    Notified, PostedNotification, Queries, RequestRefused,
};
use engine::{Clock, Deadline};
use outbound::{Base, Host};
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use self::accounts::{Accounts, Stored};
use self::api::{Api, Parameters, Trouble, is_id};
use self::configuration::Configuration;
use self::event::Subject;
use self::inquiry::StoredTransaction;
use self::methods::{Holder, OwnMethod};
use self::objects::{Intent, Named, Page, Refund};
use self::operations::{Answered, Charging, Returns};
use crate::Limits;
use crate::in_time::answered_within;
use crate::next_action;
use crate::reconcile::Statement;
use crate::tenants::Tenants;

pub use self::accounts::Account;
pub use self::statement::object_of;
pub use secrets::Sealer;

/// Its name, and the name of Kill Bill's plugin, which it answers to too.
pub const NAMES: [&str; 2] = ["faregate-stripe", "killbill-stripe"];

/// The timeout of an inquiry.
const INQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of the gateway.
pub struct Options {
    /// One of [`NAMES`].
    pub name: &'static str,
    pub base: Base,
    pub limits: Limits,
    pub clock: Clock,
    /// The beginning of this installation's URLs; empty where it is not known.
    pub public_url: String,
    /// Opens tenants' configurations; without it no tenant can have one.
    pub sealer: Option<Arc<Sealer>>,
    pub tenants: Arc<Tenants>,
}

/// The gateway.
pub struct Stripe {
    settings: GatewaySettings,
    in_flight_max: usize,
    host: Host,
    accounts: Accounts,
    sealer: Option<Arc<Sealer>>,
    public_url: String,
    tenants: Arc<Tenants>,
}

impl Stripe {
    /// The gateway. It connects with the first request.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let Options { name, base, limits, clock, public_url, sealer, tenants } = options;
        Self {
            settings: GatewaySettings {
                needs_merchant_account: true,
                attaches_methods: true,
                ..limits.settings()
            },
            in_flight_max: limits.in_flight_max,
            // What is acknowledged later than that could arrive after "not found" is final.
            host: Host::new(base, clock, limits.settle_after),
            accounts: Accounts::new(Arc::clone(&tenants), sealer.clone(), name.to_owned()),
            sealer,
            public_url,
            tenants,
        }
    }

    /// A tenant's account as the database has it, without an engine.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn stored_account(
        &self,
        queries: &dyn Queries,
        tenant: &Tenant,
    ) -> Result<Option<Account>, String> {
        let name = self.accounts.gateway();
        let stored = Stored::read(queries, tenant.no, name).map_err(|it| it.to_string())?;
        let Some(stored) = stored else { return Ok(None) };
        let sealer = self.sealer.as_ref().ok_or("there is no key to decrypt configurations")?;
        stored.open(sealer, (tenant.id.uuid(), name)).map(Some)
    }

    /// Which money Stripe's balance moved for the payments of a tenant since a time.
    ///
    /// # Errors
    /// Why Stripe cannot be asked.
    pub async fn statement(
        &self,
        account: &Account,
        tenant: Uuid,
        since: Timestamp,
    ) -> Result<Statement, String> {
        let api = self.api(&account.configuration, None);
        statement::read(&api, tenant, since).await.map_err(reason_of)
    }

    const fn api<'a>(
        &'a self,
        configuration: &'a Configuration,
        deadline: Option<&'a Deadline>,
    ) -> Api<'a> {
        Api { host: &self.host, configuration, deadline }
    }

    async fn charge(&self, call: &GatewayCall, deadline: &Deadline) -> Result<Answered, Trouble> {
        let account = self.accounts.of(call.tenant).await.map_err(Trouble::Unfit)?;
        refuse_other(call.merchant_account.as_ref(), &account).map_err(Trouble::Unfit)?;
        let tenant = self.tenants.id(call.tenant).await.map_err(Trouble::Unfit)?;
        let api = self.api(&account.configuration, Some(deadline));
        let returns = self.sealer.as_deref().filter(|_| !self.public_url.is_empty());
        let returns = returns.map(|sealer| Returns { sealer, base: &self.public_url });
        Charging { api, call, tenant, tenants: &self.tenants, returns }.carry_out().await
    }

    /// The outcome of a transaction at Stripe; `None` where the database has no such transaction. `named` is the
    /// object of Stripe's that was made for it, where that is known from elsewhere.
    async fn ask(
        &self,
        inquiry: &Inquiry,
        named: Option<&str>,
    ) -> Result<Option<GatewayKnowledge>, Trouble> {
        let account = self.accounts.of(inquiry.tenant).await.map_err(Trouble::Unfit)?;
        let stored =
            StoredTransaction::read(&self.tenants, inquiry, named).await.map_err(Trouble::Unfit)?;
        let Some(stored) = stored else { return Ok(None) };
        refuse_other(stored.transaction().merchant_account.as_ref(), &account)
            .map_err(Trouble::Unfit)?;
        let api = self.api(&account.configuration, None);
        let (mut knowledge, mut intent) = inquiry::ask(&api, &stored).await?;
        // Who got the secret while we asked can still confirm what looks like a decline.
        if stored.keeps_secret() && is_decline(&knowledge) {
            let again = StoredTransaction::read(&self.tenants, inquiry, named)
                .await
                .map_err(Trouble::Unfit)?;
            if let Some(stored) = again.filter(|it| !it.keeps_secret()) {
                (knowledge, intent) = inquiry::ask(&api, &stored).await?;
            }
        }
        Ok(Some(match knowledge {
            GatewayKnowledge::Found(outcome) => GatewayKnowledge::Found(
                self.with_next_action(inquiry.transaction, Answered { outcome, intent }),
            ),
            GatewayKnowledge::NotFound => GatewayKnowledge::NotFound,
            GatewayKnowledge::Unreachable => GatewayKnowledge::Unreachable,
        }))
    }

    /// The outcome with what the customer has to do, sealed.
    fn with_next_action(&self, transaction: TransactionId, answered: Answered) -> GatewayOutcome {
        let Answered { outcome, intent } = answered;
        let action = intent.as_ref().and_then(outcome::next_action);
        let sealed = action.zip(self.sealer.as_ref());
        let sealed = sealed.map(|(action, sealer)| next_action::seal(&action, transaction, sealer));
        GatewayOutcome { next_action: sealed, ..outcome }
    }

    async fn methods_of(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> Result<Vec<MethodAtGateway>, RequestRefused> {
        use RequestRefused::{Invalid, Unavailable};
        let own = self.accounts.of(tenant).await.map_err(Invalid)?;
        let tenant_id = self.tenants.id(tenant).await.map_err(Unavailable)?;
        let api = self.api(&own.configuration, None);
        let of = Holder {
            tenant,
            tenant_id,
            account,
            gateway: self.accounts.gateway(),
            merchant: Some(&own.merchant_account),
        };
        methods::of_customer(&api, &self.tenants, &of).await.map_err(refusal)
    }

    /// Attaches, detaches or looks for a payment method.
    async fn carry_out(
        &self,
        request: &MethodRequest,
        deadline: &Deadline,
    ) -> Result<MethodAnswer, Trouble> {
        let account = self.accounts.of(request.tenant).await.map_err(Trouble::Unfit)?;
        refuse_other(request.merchant_account.as_ref(), &account).map_err(Trouble::Unfit)?;
        let tenant_id = self.tenants.id(request.tenant).await.map_err(Trouble::Unfit)?;
        let (tenant, gateway) = (request.tenant, self.accounts.gateway());
        let method = OwnMethod {
            api: &self.api(&account.configuration, Some(deadline)),
            tenants: &self.tenants,
            holder: Holder {
                tenant,
                tenant_id,
                account: request.account,
                gateway,
                merchant: Some(&account.merchant_account),
            },
            id: request.payment_method,
            external_id: request.external_payment_method_id.as_deref(),
            properties: &request.properties,
        };
        let attached = |it| MethodAnswer::Attached(methods::at_gateway(it));
        Ok(match request.task {
            MethodTask::Attach => attached(method.attached().await?),
            MethodTask::Find => method.look_up().await?.map_or(MethodAnswer::Absent, attached),
            MethodTask::Detach => {
                method.detach().await?;
                MethodAnswer::Absent
            }
        })
    }

    /// Makes a Checkout session in which the account's customer enters a payment method.
    async fn page(&self, form: &FormRequest) -> Result<Form, RequestRefused> {
        use RequestRefused::{Invalid, Unavailable};
        let account = self.accounts.of(form.tenant).await.map_err(Invalid)?;
        let tenant = self.tenants.id(form.tenant).await.map_err(Unavailable)?;
        let api = self.api(&account.configuration, None);
        let of = Holder {
            tenant: form.tenant,
            tenant_id: tenant,
            account: form.account,
            gateway: self.accounts.gateway(),
            merchant: Some(&account.merchant_account),
        };
        let customer = methods::customer(&api, &self.tenants, &of).await.map_err(refusal)?;
        let parameters = checkout::parameters(&form.fields, &customer).map_err(Invalid)?;
        let key = format!("{}:session", form.request);
        let made = api.post::<Page>("/v1/checkout/sessions", parameters, &key).await;
        let Page { id, url } = made.map_err(refusal)?;
        let url = url.ok_or_else(|| Unavailable("Stripe's session has no page".to_owned()))?;
        Ok(Form { url, fields: vec![("id".to_owned(), id)] })
    }

    async fn notified(
        &self,
        posted: &PostedNotification,
    ) -> Result<Option<Notified>, RequestRefused> {
        use RequestRefused::{Invalid, Unavailable};
        let account = self.accounts.of(posted.tenant).await.map_err(Unavailable)?;
        let mut headers = posted.headers.iter();
        let signature = headers.find(|(name, _)| name == "stripe-signature");
        let signature = signature.map(|(_, value)| value.as_str());
        let now_s = self.host.clock().real_now().0.div_euclid(1_000_000);
        let (body, secrets) = (&*posted.body, &account.configuration.webhook_secrets);
        let refused = |reason: &str| Invalid(reason.to_owned());
        event::verify(signature, body, secrets, now_s).map_err(refused)?;
        let Some(subject) = event::subject(body).map_err(refused)? else { return Ok(None) };
        if let Subject::Dispute(case) = subject {
            let read = self.read_dispute(posted.tenant, &account, &case).await;
            return Ok(read.map_err(unavailable)?.map(|it| Notified {
                payment: it.payment,
                transaction: it.transaction,
                news: News::Dispute { case, said: Box::new(it.said) },
            }));
        }
        let tenant = self.tenants.id(posted.tenant).await.map_err(Unavailable)?;
        let read = self.read_back(&self.api(&account.configuration, None), &subject, tenant).await;
        let Some((payment, transaction)) = read.map_err(unavailable)? else { return Ok(None) };
        let inquiry = Inquiry { tenant: posted.tenant, payment, transaction };
        let knowledge = self.ask(&inquiry, subject.object()).await.map_err(unavailable)?;
        // It is of this tenant: the event comes again, until what a restored backup lacks is there.
        let knowledge = knowledge.ok_or_else(|| Unavailable(not_there(&inquiry)))?;
        Ok(Some(Notified { payment, transaction, news: News::Outcome(knowledge) }))
    }

    /// Reads a dispute of a tenant; `None` where it is of no transaction that the database has. With the key of
    /// another account than the transaction's, nothing is believed.
    async fn read_dispute(
        &self,
        tenant: TenantNo,
        account: &Account,
        case: &str,
    ) -> Result<Option<dispute::Read>, Trouble> {
        let id = self.tenants.id(tenant).await.map_err(Trouble::Unfit)?;
        let api = self.api(&account.configuration, None);
        let Some(read) = dispute::read(&api, case, id).await? else { return Ok(None) };
        let (payment, transaction) = (read.payment, read.transaction);
        let of = Inquiry { tenant, payment, transaction };
        let known =
            StoredTransaction::read(&self.tenants, &of, None).await.map_err(Trouble::Unfit)?;
        let known = known.ok_or_else(|| Trouble::Unfit(not_there(&of)))?;
        refuse_other(known.transaction().merchant_account.as_ref(), account)
            .map_err(Trouble::Unfit)?;
        Ok(Some(read))
    }

    /// The state of a transaction's dispute at Stripe, or `NotFound`.
    async fn ask_for_dispute(&self, it: &DisputeInquiry) -> Result<DisputeKnowledge, Trouble> {
        let account = self.accounts.of(it.of.tenant).await.map_err(Trouble::Unfit)?;
        let read = self.read_dispute(it.of.tenant, &account, &it.case).await?;
        let named = (it.of.payment, it.of.transaction);
        let read = read.filter(|read| (read.payment, read.transaction) == named);
        Ok(match read {
            Some(read) => DisputeKnowledge::Found(Box::new(read.said)),
            None => DisputeKnowledge::NotFound,
        })
    }

    /// Which transaction of the tenant an event's object was made for.
    async fn read_back(
        &self,
        api: &Api<'_>,
        subject: &Subject,
        tenant: Uuid,
    ) -> Result<Option<(PaymentId, TransactionId)>, Trouble> {
        let metadata = match subject {
            Subject::Dispute(_) => return Ok(None),
            Subject::Intent(id) | Subject::Refund(id) if !is_id(id) => return Ok(None),
            Subject::Intent(id) => {
                let path = format!("/v1/payment_intents/{id}");
                api.get::<Intent>(&path, Parameters::default()).await.map(|it| it.metadata)
            }
            Subject::Refund(id) => {
                let path = format!("/v1/refunds/{id}");
                let refund = api.get::<Refund>(&path, Parameters::default()).await;
                refund.map(|it| it.metadata.unwrap_or_default())
            }
        };
        let metadata = match metadata {
            Err(Trouble::Refused(refused)) if refused.status == 404 => return Ok(None),
            metadata => metadata?,
        };
        let id = |name: &str| metadata.get(name).and_then(|it| it.parse::<Uuid>().ok());
        if id(outcome::TENANT) != Some(tenant) {
            return Ok(None);
        }
        let found = id(outcome::PAYMENT).zip(id(outcome::TRANSACTION));
        Ok(found.map(|(payment, it)| (PaymentId::new(payment), TransactionId::new(it))))
    }
}

/// Refuses to use the key of another account than the transaction's: nothing of it is there, and "not found" would
/// be believed.
fn refuse_other(of: Option<&MerchantAccount>, account: &Account) -> Result<(), String> {
    match of {
        Some(of) if *of != account.merchant_account => {
            Err(format!("the transaction is of {of}, and the key of {}", account.merchant_account))
        }
        Some(_) | None => Ok(()),
    }
}

fn refusal(trouble: Trouble) -> RequestRefused {
    match trouble {
        Trouble::Refused(refused) if refused.status != 401 => {
            let message = refused.error.message.unwrap_or_default();
            RequestRefused::Invalid(format!("Stripe refuses it: {message}"))
        }
        // The tenant's credentials, its limit, or its own key of a request that runs.
        trouble @ (Trouble::Limited(_)
        | Trouble::Unfit(_)
        | Trouble::KeyInUse(_)
        | Trouble::Refused(_)) => RequestRefused::Unfit(reason_of(trouble)),
        trouble @ (Trouble::NotSent(_) | Trouble::Unknown(_)) => {
            RequestRefused::Unavailable(reason_of(trouble))
        }
    }
}

/// The answer to a request about a payment method that failed.
fn method_trouble(trouble: Trouble) -> MethodAnswer {
    let not_sent = |message, cause| MethodAnswer::NotSent { message, cause };
    match trouble {
        // It says nothing of the method.
        Trouble::Refused(refused) if matches!(refused.status, 401 | 403) => {
            not_sent(reason_of(Trouble::Refused(refused)), NotSentCause::Call)
        }
        Trouble::Refused(refused) => {
            let error = refused.error;
            MethodAnswer::Refused {
                code: error.decline_code.or(error.code),
                message: error.message.unwrap_or_default(),
            }
        }
        Trouble::NotSent(message) => not_sent(message, NotSentCause::Gateway),
        Trouble::Limited(message) | Trouble::Unfit(message) => {
            not_sent(message, NotSentCause::Call)
        }
        Trouble::Unknown(message) | Trouble::KeyInUse(message) => MethodAnswer::Unknown { message },
    }
}

fn is_decline(knowledge: &GatewayKnowledge) -> bool {
    match knowledge {
        GatewayKnowledge::Found(outcome) => outcome.status == GatewayStatus::Error,
        GatewayKnowledge::NotFound | GatewayKnowledge::Unreachable => false,
    }
}

fn unavailable(trouble: Trouble) -> RequestRefused {
    RequestRefused::Unavailable(reason_of(trouble))
}

/// Why an event is not booked that is of the tenant's.
fn not_there(of: &Inquiry) -> String {
    format!(
        "payment {} with transaction {} is not in the database; was a backup restored? `faregate reconcile` lists \
         what is missing",
        of.payment, of.transaction
    )
}

fn reason_of(trouble: Trouble) -> String {
    match trouble {
        Trouble::NotSent(reason)
        | Trouble::Limited(reason)
        | Trouble::Unfit(reason)
        | Trouble::Unknown(reason)
        | Trouble::KeyInUse(reason) => reason,
        Trouble::Refused(refused) => format!("Stripe answered HTTP {}", refused.status),
    }
}

impl Gateway for Stripe {
    fn settings(&self) -> GatewaySettings {
        self.settings
    }

    fn in_flight_max(&self) -> Option<usize> {
        Some(self.in_flight_max)
    }

    fn merchant_account<'a>(
        &'a self,
        configuration: &'a str,
    ) -> BoxFuture<'a, Result<Option<MerchantAccount>, RequestRefused>> {
        Box::pin(async move {
            let parsed = Configuration::parse(configuration);
            let configuration = parsed.map_err(RequestRefused::Invalid)?;
            if let Some(id) = &configuration.account_id {
                return Ok(Some(configuration.merchant_account(id)));
            }
            let api = self.api(&configuration, None);
            let asked = api.get::<Named>("/v1/account", Parameters::default());
            match timeout(INQUIRE_TIMEOUT, asked).await {
                Ok(Ok(Named { id })) if is_id(&id) => Ok(Some(configuration.merchant_account(&id))),
                Ok(Err(Trouble::Refused(refused))) => {
                    let status = refused.status;
                    Err(RequestRefused::Invalid(format!(
                        "apiKey: Stripe answered HTTP {status} when it was asked for the key's account; \
                         a restricted key may need `accountId` beside it"
                    )))
                }
                Ok(Ok(_)) => Err(RequestRefused::Unavailable("Stripe's answer is none".to_owned())),
                Ok(Err(trouble)) => Err(RequestRefused::Unavailable(reason_of(trouble))),
                Err(_) => Err(RequestRefused::Unavailable("Stripe did not answer".to_owned())),
            }
        })
    }

    fn form(&self, form: FormRequest) -> BoxFuture<'_, Result<Form, RequestRefused>> {
        Box::pin(async move {
            match timeout(INQUIRE_TIMEOUT, self.page(&form)).await {
                Ok(made) => made,
                Err(_) => Err(RequestRefused::Unavailable("Stripe did not answer".to_owned())),
            }
        })
    }

    fn lists_methods(&self) -> bool {
        true
    }

    fn methods(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> BoxFuture<'_, Result<Vec<MethodAtGateway>, RequestRefused>> {
        Box::pin(async move {
            match timeout(INQUIRE_TIMEOUT, self.methods_of(tenant, account)).await {
                Ok(found) => found,
                Err(_) => Err(RequestRefused::Unavailable("Stripe did not answer".to_owned())),
            }
        })
    }

    fn method(&self, request: MethodRequest, deadline: Deadline) -> BoxFuture<'_, MethodAnswer> {
        Box::pin(async move {
            let until = Instant::now() + deadline.left();
            match timeout_at(until, self.carry_out(&request, &deadline)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(trouble)) => method_trouble(trouble),
                Err(_) => {
                    MethodAnswer::Unknown { message: "Stripe did not answer in time".to_owned() }
                }
            }
        })
    }

    fn call(&self, call: GatewayCall, deadline: Deadline) -> BoxFuture<'_, GatewayAnswer> {
        Box::pin(async move {
            let until = Instant::now() + deadline.left();
            match timeout_at(until, self.charge(&call, &deadline)).await {
                Ok(Ok(answered)) => {
                    let outcome = self.with_next_action(call.transaction, answered);
                    GatewayAnswer::Outcome(outcome)
                }
                Ok(Err(Trouble::NotSent(message))) => GatewayAnswer::not_reached(message),
                Ok(Err(Trouble::Unknown(message) | Trouble::KeyInUse(message))) => {
                    GatewayAnswer::Failed { message }
                }
                Ok(Err(
                    unsent @ (Trouble::Limited(_) | Trouble::Unfit(_) | Trouble::Refused(_)),
                )) => GatewayAnswer::not_sendable(reason_of(unsent)),
                Err(_) => GatewayAnswer::TimedOut,
            }
        })
    }

    fn inquire(&self, inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge> {
        Box::pin(async move {
            let asked = self.ask(&inquiry, None);
            let reason = match answered_within(INQUIRE_TIMEOUT, asked, reason_of).await {
                Ok(Some(knowledge)) => return knowledge,
                Ok(None) => "the database has no such transaction".to_owned(),
                Err(reason) => reason,
            };
            let transaction = inquiry.transaction;
            tracing::warn!(transaction.id = %transaction, reason, "an inquiry to Stripe has no answer");
            GatewayKnowledge::Unreachable
        })
    }

    fn dispute(&self, of: DisputeInquiry) -> BoxFuture<'_, DisputeKnowledge> {
        Box::pin(async move {
            let asked = self.ask_for_dispute(&of);
            let reason = match answered_within(INQUIRE_TIMEOUT, asked, reason_of).await {
                Ok(knowledge) => return knowledge,
                Err(reason) => reason,
            };
            tracing::warn!(payment.id = %of.of.payment, reason, "Stripe cannot be asked for a dispute");
            DisputeKnowledge::Unreachable
        })
    }

    fn notification(
        &self,
        posted: PostedNotification,
    ) -> BoxFuture<'_, Result<Option<Notified>, RequestRefused>> {
        Box::pin(async move {
            match timeout(INQUIRE_TIMEOUT, self.notified(&posted)).await {
                Ok(read) => read,
                Err(_) => {
                    let reason = "Stripe did not answer in time".to_owned();
                    Err(RequestRefused::Unavailable(reason))
                }
            }
        })
    }
}
