//! What can be asked of sign-up, whatever the protocol: doors decode a request into one call here and
//! encode the answer.
//!
//! Each call checks what was entered, has a password hashed where one is needed, and submits one
//! command. Nothing is kept between calls but what limits them.

mod error;
pub mod figures;
mod login;
mod operators;
mod password;
mod profile;
mod registration;

use std::sync::Arc;
use std::time::Duration;

use domain::customer::{Customer, CustomerCommand, CustomerRefusal, Session};
use domain::payment::{Actor, ReplyKey};
use domain::{
    Command, CustomerId, Idempotency, Rejection, Reply, Request, RequestId, SessionId, TenantNo,
};
use engine::access::ClientAddress;
use engine::ports::{Queries, StoreError};
use engine::{Answer, Engine, Reason, Unavailable};
use uuid::Uuid;

pub use self::error::Error;
pub use self::login::{LoggedIn, Login, SecondFactorOffer};
pub use self::password::token_purpose;
pub use self::profile::{ProfileChange, SessionShown};
pub use self::registration::{Entered, How, NewCustomer, Registered, registration};

use crate::RootKey;
use crate::email::EmailAddress;
use crate::limits::{self, Action, Limits};
use crate::passwords::Hasher;
use crate::seal::Sealer;
use crate::tokens::TokenKey;

/// How sign-up is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tenant that the door serves where no header names one: by its name (external key) or API
    /// key.
    pub tenant: String,
    /// How long an address may stay unverified, and its customer with it.
    pub verify_within: Duration,
    /// How long a mail that resets a password is good for.
    pub reset_within: Duration,
    /// How long an access token lasts.
    pub session: Duration,
    /// How long it lasts for somebody who is to be remembered.
    pub session_remembered: Duration,
    /// How long a refresh token lasts.
    pub refresh: Duration,
    /// What a second factor's program shows beside the address.
    pub issuer: String,
    /// The currency of new accounts (ISO 4217).
    pub currency: String,
    /// Whether internal routes are open to everybody: for networks where only trusted services reach
    /// them.
    pub trust_internal: bool,
    /// How often something may be asked.
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

/// On whose behalf something is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The tenant.
    pub tenant: TenantNo,
    /// The request's id.
    pub id: RequestId,
    /// What makes it repeatable, as its client sent it.
    pub idempotency_key: Option<String>,
    /// Where it comes from.
    pub from: ClientAddress,
    /// Whether it counts against no limit: a program on this machine asks, or we do ourselves.
    pub is_exempt: bool,
}

/// A customer who showed an access token.
#[derive(Clone, Debug)]
pub struct Who {
    /// The tenant.
    pub tenant: TenantNo,
    /// Their session.
    pub session: Session,
    /// Who.
    pub customer: Customer,
}

impl SignUp {
    /// Sign-up on an engine, with its own pool for passwords.
    #[must_use]
    pub fn new(engine: Engine, hasher: Hasher, key: &RootKey, settings: Settings) -> Self {
        figures::begin_at_zero();
        let (tokens, sealer) = (TokenKey::new(key), Arc::new(Sealer::new(key)));
        let (hasher, limits) = (Arc::new(hasher), Arc::new(Limits::new(settings.limits)));
        Self { inner: Arc::new(Inner { engine, hasher, tokens, sealer, limits, settings }) }
    }

    /// The same on another engine, with the same pool and the same limits.
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

    /// The core.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// How it is set up.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Where passwords are hashed.
    #[must_use]
    pub fn hasher(&self) -> &Hasher {
        &self.inner.hasher
    }

    /// The key that tokens are made with.
    #[must_use]
    pub fn tokens(&self) -> &TokenKey {
        &self.inner.tokens
    }

    /// What secrets are stored with.
    #[must_use]
    pub fn sealer(&self) -> &Sealer {
        &self.inner.sealer
    }

    /// Who showed this access token.
    ///
    /// # Errors
    /// [`Error::NoSession`] where it is none, has ended, or its customer may not log in.
    pub async fn who(&self, tenant: TenantNo, access_token: &str) -> Result<Who, Error> {
        let presented = TokenKey::read_access(access_token).ok_or(Error::NoSession)?;
        let id = SessionId::new(presented.0);
        let found = self.read(move |queries| queries.session(tenant, id)).await?;
        let (session, customer) = found.ok_or(Error::NoSession)?;
        let now = self.inner.engine.clock().now();
        let is_right = self.inner.tokens.matches_access(tenant, presented, session.generation);
        if !is_right || session.expires_at <= now {
            return Err(Error::NoSession);
        }
        Ok(Who { tenant, session, customer })
    }

    /// Counts what is asked, about an address where it is about one.
    ///
    /// # Errors
    /// [`Error::TooMany`] where it is not to be done.
    pub(crate) fn limit(
        &self,
        asked: &Asked,
        action: Action,
        about: Option<&EmailAddress>,
    ) -> Result<(), Error> {
        if asked.is_exempt {
            return Ok(());
        }
        Ok(self.inner.limits.check(action, asked.from, about)?)
    }

    /// Reads committed rows.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, Unavailable>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.inner.engine.read(query).await
    }

    /// The customer with this address, as it is compared.
    async fn by_email(&self, tenant: TenantNo, key: &str) -> Result<Option<Customer>, Error> {
        let key = key.to_owned();
        Ok(self.read(move |queries| queries.customer_by_email(tenant, &key)).await?)
    }

    /// Submits a command that is about no customer of ours.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub(crate) async fn submit_plain(
        &self,
        asked: &Asked,
        command: Command,
    ) -> Result<Answer, Unavailable> {
        let (id, tenant, actor) = (asked.id, asked.tenant, actor(asked, None));
        let request = Request { id, tenant, actor, idempotency: None, command };
        self.inner.engine.submit(request).await
    }

    /// Submits a command in a customer's or nobody's name.
    pub(crate) async fn submit(
        &self,
        asked: &Asked,
        command: CustomerCommand,
    ) -> Result<Reply, Error> {
        self.submit_repeatable(asked, command, None).await
    }

    pub(crate) async fn submit_repeatable(
        &self,
        asked: &Asked,
        command: CustomerCommand,
        idempotency: Option<Idempotency>,
    ) -> Result<Reply, Error> {
        let actor = actor(asked, command.customer().map(|it| it.id));
        self.submit_as(asked, actor, command, idempotency).await
    }

    /// Submits a command in somebody's name.
    async fn submit_as(
        &self,
        asked: &Asked,
        actor: Actor,
        command: CustomerCommand,
        idempotency: Option<Idempotency>,
    ) -> Result<Reply, Error> {
        let (id, tenant) = (asked.id, asked.tenant);
        let command = Command::Customer(command);
        let request = Request { id, tenant, actor, idempotency, command };
        match self.inner.engine.submit(request).await? {
            Answer::Replied(reply) => Ok(reply),
            Answer::Refused(Rejection::Customer(refusal)) => Err(refusal.into()),
            Answer::Refused(other) => {
                tracing::error!(?other, "a command of sign-up was refused for another reason");
                Err(Unavailable::from(Reason::Bug).into())
            }
            Answer::StillRunning => Err(Error::StillRunning),
            Answer::AnotherRequest => Err(Error::AnotherRequest),
        }
    }

    /// What makes a request the same when it comes again: its client's key, and what it says beside
    /// secrets.
    pub(crate) fn idempotency(
        &self,
        asked: &Asked,
        route: &str,
        says: &[&str],
    ) -> Option<Idempotency> {
        let key = asked.idempotency_key.as_ref()?;
        let tenant = asked.tenant.0.to_be_bytes();
        let name = self.print(&[b"idempotency-key", &tenant, route.as_bytes(), key.as_bytes()]);
        let mut fields: Vec<&[u8]> = vec![b"idempotent-request"];
        fields.extend(says.iter().map(|field| field.as_bytes()));
        Some(Idempotency { key: ReplyKey(name), fingerprint: self.print(&fields) })
    }

    fn print(&self, fields: &[&[u8]]) -> Uuid {
        let mac = self.inner.tokens.mac(fields);
        Uuid::from_slice(&mac[..16]).expect("a MAC is longer than a UUID")
    }
}

/// Who asks where nobody has logged in.
const ANYBODY: &str = "anonymous";

/// In whose name rows are made, in the words of Kill Bill's audit.
const CREATED_BY: &str = "sign-up";

fn actor(asked: &Asked, customer: Option<CustomerId>) -> Actor {
    Actor {
        user: customer.map_or_else(|| ANYBODY.to_owned(), |id| id.to_string()),
        created_by: CREATED_BY.to_owned(),
        reason: None,
        comments: None,
        token: asked.id.0,
    }
}

impl From<CustomerRefusal> for Error {
    fn from(refusal: CustomerRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Microseconds of domain time.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}
