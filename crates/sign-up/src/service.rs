//! The operations of sign-up, whatever the protocol: APIs decode a request into one call of
//! [`SignUp`] and encode its result.
//!
//! A call validates its input, has a password hashed if necessary, and submits one command. The
//! only state between calls is that of the rate limits.

mod error;
mod login;
pub mod metrics;
mod operators;
mod password;
mod profile;
mod registration;

use std::sync::Arc;
use std::time::Duration;

use domain::command::CustomerCommand;
use domain::customer::{Customer, Session};
use domain::payment::{Actor, ReplyKey};
use domain::{
    Command, CustomerId, Idempotency, Rejection, Reply, Request, RequestId, SessionId, TenantNo,
};
use engine::access::ClientAddress;
use engine::ports::{Queries, StoreError};
use engine::{Answer, Engine, Reason, Unavailable};
use secrets::{RootKey, Sealer};
use uuid::Uuid;

pub use self::error::Error;
pub use self::login::{LoggedIn, Login, SecondFactorOffer};
pub use self::password::token_purpose;
pub use self::profile::{ProfileChange, SessionView};
pub use self::registration::{
    NewCustomer, Registered, RegistrationForm, RegistrationOptions, validate_registration,
};

use crate::email::EmailAddress;
use crate::limits::{self, Action, Limits};
use crate::passwords::Hasher;
use crate::tokens::TokenKey;

/// Settings of sign-up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tenant of requests without credentials of one: its name (external key) or API key.
    pub tenant: String,
    /// How long an address may stay unverified before its customer is deleted.
    pub verify_within: Duration,
    /// How long a mailed token for setting a password is valid.
    pub reset_within: Duration,
    /// How long an access token is valid.
    pub session: Duration,
    /// How long it is valid if the customer wants to stay logged in.
    pub session_remembered: Duration,
    /// How long a refresh token is valid.
    pub refresh: Duration,
    /// How long after a renewal the refresh token before it gets the same tokens again, on the same
    /// network.
    pub refresh_grace: Duration,
    /// How long a session lasts at most, however often it is renewed.
    pub session_max: Duration,
    /// The issuer that a TOTP app displays beside the address.
    pub issuer: String,
    /// The currency of new accounts (ISO 4217).
    pub currency: String,
    /// Whether internal routes need no authentication: for networks where only trusted services
    /// reach them.
    pub trust_internal: bool,
    /// Whether `DELETE /user/users/account` needs the password, and a code of a second factor.
    pub erasure_needs_password: bool,
    pub limits: limits::Settings,
}

/// Sign-up. Cheap to clone.
#[derive(Clone)]
pub struct SignUp {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    hasher: Arc<Hasher>,
    tokens: TokenKey,
    sealer: Arc<Sealer>,
    limits: Arc<Limits>,
    settings: Settings,
}

/// The tenant and the origin of a request.
#[derive(Clone, Debug)]
pub struct RequestContext {
    pub tenant: TenantNo,
    pub id: RequestId,
    /// The key that makes the request repeatable, as the client sent it.
    pub idempotency_key: Option<String>,
    pub from: ClientAddress,
    /// Whether the request counts towards no limit: it comes from a program on this machine or from
    /// Faregate itself.
    pub is_exempt: bool,
    /// Whether the request showed its tenant's secret. Without, it is anybody's.
    pub is_of_tenant: bool,
}

/// A customer who is authenticated by an access token.
#[derive(Clone, Debug)]
pub struct AuthenticatedCustomer {
    pub tenant: TenantNo,
    pub session: Session,
    pub customer: Customer,
}

impl SignUp {
    /// Sign-up on an engine. The hasher's threads are shared by its clones.
    #[must_use]
    pub fn new(engine: Engine, hasher: Hasher, key: &RootKey, settings: Settings) -> Self {
        metrics::begin_at_zero();
        let (tokens, sealer) = (TokenKey::new(key), Arc::new(Sealer::derived(key)));
        let (hasher, limits) = (Arc::new(hasher), Arc::new(Limits::new(settings.limits)));
        Self { inner: Arc::new(Inner { engine, hasher, tokens, sealer, limits, settings }) }
    }

    /// The same on another engine, with the same password threads and limits.
    #[must_use]
    pub fn on(&self, engine: Engine) -> Self {
        let Inner { hasher, tokens, sealer, limits, settings, .. } = &*self.inner;
        let inner = Inner {
            engine,
            hasher: Arc::clone(hasher),
            tokens: tokens.clone(),
            sealer: Arc::clone(sealer),
            limits: Arc::clone(limits),
            settings: settings.clone(),
        };
        Self { inner: Arc::new(inner) }
    }

    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    #[must_use]
    pub fn hasher(&self) -> &Hasher {
        &self.inner.hasher
    }

    /// The key that signs tokens.
    #[must_use]
    pub fn tokens(&self) -> &TokenKey {
        &self.inner.tokens
    }

    /// Encrypts stored secrets.
    #[must_use]
    pub fn sealer(&self) -> &Sealer {
        &self.inner.sealer
    }

    /// Authenticates a customer by an access token.
    ///
    /// # Errors
    /// [`Error::NoSession`] where the token is invalid or expired, or the customer may not log in.
    pub async fn authenticate(
        &self,
        tenant: TenantNo,
        access_token: &str,
    ) -> Result<AuthenticatedCustomer, Error> {
        let presented = TokenKey::read_access(access_token).ok_or(Error::NoSession)?;
        let id = SessionId::new(presented.0);
        let found = self.read(move |queries| queries.session(tenant, id)).await?;
        let (session, customer) = found.ok_or(Error::NoSession)?;
        let now = self.inner.engine.clock().now();
        let is_right = self.inner.tokens.matches_access(tenant, presented, session.generation);
        if !is_right || session.expires_at <= now {
            return Err(Error::NoSession);
        }
        Ok(AuthenticatedCustomer { tenant, session, customer })
    }

    /// Applies the limits of an action, which may concern an address.
    ///
    /// # Errors
    /// [`Error::TooManyRequests`].
    pub(crate) fn limit(
        &self,
        context: &RequestContext,
        action: Action,
        about: Option<&EmailAddress>,
    ) -> Result<(), Error> {
        if context.is_exempt {
            return Ok(());
        }
        Ok(self.inner.limits.check(action, context.from, about)?)
    }

    /// Reads committed rows.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, Unavailable>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.inner.engine.read(query).await
    }

    /// The customer with this address in its comparison form.
    async fn by_email(&self, tenant: TenantNo, key: &str) -> Result<Option<Customer>, Error> {
        let key = key.to_owned();
        Ok(self.read(move |queries| queries.customer_by_email(tenant, &key)).await?)
    }

    /// Submits a command of an unauthenticated client that concerns no customer.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn submit_as_anonymous(
        &self,
        context: &RequestContext,
        command: Command,
    ) -> Result<Answer, Unavailable> {
        let (id, tenant, actor) = (context.id, context.tenant, actor(context, None));
        let request = Request { id, tenant, actor, idempotency: None, command };
        self.inner.engine.submit(request).await
    }

    /// Submits a command in the name of its customer, or of an anonymous client.
    pub(crate) async fn submit(
        &self,
        context: &RequestContext,
        command: CustomerCommand,
    ) -> Result<Reply, Error> {
        self.submit_repeatable(context, command, None).await
    }

    pub(crate) async fn submit_repeatable(
        &self,
        context: &RequestContext,
        command: CustomerCommand,
        idempotency: Option<Idempotency>,
    ) -> Result<Reply, Error> {
        let actor = actor(context, command.customer().map(|it| it.id));
        self.submit_as(context, actor, command, idempotency).await
    }

    /// Submits a command in the name of `actor`.
    async fn submit_as(
        &self,
        context: &RequestContext,
        actor: Actor,
        command: CustomerCommand,
        idempotency: Option<Idempotency>,
    ) -> Result<Reply, Error> {
        let (id, tenant) = (context.id, context.tenant);
        let command = Command::Customer(command);
        let request = Request { id, tenant, actor, idempotency, command };
        match self.inner.engine.submit(request).await? {
            Answer::Replied(reply) => Ok(reply),
            Answer::Refused(Rejection::Customer(refusal)) => Err(refusal.into()),
            other @ Answer::Refused(_) => {
                tracing::error!(
                    answer = other.kind(),
                    "a command of sign-up had an unexpected refusal"
                );
                Err(Unavailable::from(Reason::Bug).into())
            }
            Answer::StillRunning => Err(Error::StillRunning),
            Answer::AnotherRequest => Err(Error::AnotherRequest),
        }
    }

    /// Identifies a repeated request: the client's key together with whom the request is about, so that
    /// callers who choose the same key do not meet; and the fields of the request except secrets.
    pub(crate) fn idempotency(
        &self,
        context: &RequestContext,
        (route, subject): (&str, &str),
        request_fields: &[&str],
    ) -> Option<Idempotency> {
        let key = context.idempotency_key.as_ref()?;
        let tenant = context.tenant.0.to_be_bytes();
        let [route, subject, key] = [route, subject, key].map(str::as_bytes);
        let name = self.uuid_of(&[b"idempotency-key", &tenant, route, subject, key]);
        let mut fields: Vec<&[u8]> = vec![b"idempotent-request"];
        fields.extend(request_fields.iter().map(|field| field.as_bytes()));
        Some(Idempotency { key: ReplyKey(name), fingerprint: self.uuid_of(&fields) })
    }

    fn uuid_of(&self, fields: &[&[u8]]) -> Uuid {
        let mac = self.inner.tokens.mac(fields);
        Uuid::from_slice(&mac[..16]).expect("a MAC is longer than a UUID")
    }
}

/// The user of unauthenticated requests.
const ANONYMOUS: &str = "anonymous";

/// The author of rows in Kill Bill's audit.
const CREATED_BY: &str = "sign-up";

fn actor(context: &RequestContext, customer: Option<CustomerId>) -> Actor {
    Actor::new(
        customer.map_or_else(|| ANONYMOUS.to_owned(), |id| id.to_string()),
        CREATED_BY,
        context.id.0,
    )
}

/// Microseconds of domain time.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}
