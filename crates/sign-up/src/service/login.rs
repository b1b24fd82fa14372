//! Logging in and out, renewing sessions, and second factors.

use std::time::Duration;

use domain::command::CustomerCommand;
use domain::customer::{
    CloseSessions, Code, Customer, CustomerRejection, CustomerReply, CustomerStatus,
    NewSecondFactor, OpenSession, RefreshSession, SecondFactor, UpdateCustomer,
};
use domain::{Reply, SessionId, TenantNo, Timestamp};
use engine::{Reason, Unavailable};

use super::{AuthenticatedCustomer, Error, RequestContext, SignUp, micros};
use crate::email::EmailAddress;
use crate::limits::Action;
use crate::passwords::PhcString;
use crate::totp::{RecoveryCode, Secret};
use secrets::Purpose;

/// A login replaces an outdated hash only if the estimated wait for a password thread is not
/// longer.
const REHASH_WAIT_MAX: Duration = Duration::from_millis(200);

/// The input of a login.
pub struct Login {
    pub email: String,
    pub password: String,
    /// A code of the second factor, or a recovery code.
    pub code: Option<String>,
    /// Whether the session lasts longer.
    pub remember: bool,
}

/// The result of a login.
#[derive(Clone, Debug)]
pub struct LoggedIn {
    pub customer: Customer,
    /// Authenticates the customer's requests.
    pub access_token: String,
    /// Renews both tokens, once.
    pub refresh_token: String,
    /// When the access token expires.
    pub expires_at: Timestamp,
}

/// An offered second factor, which is displayed once.
#[derive(Clone, Debug)]
pub struct SecondFactorOffer {
    /// In base32, for typing.
    pub secret: String,
    /// `otpauth://`, for scanning.
    pub uri: String,
    /// Each replaces a code once.
    pub recovery_codes: Vec<String>,
}

impl SignUp {
    /// Logs a customer in. An address without a customer takes as long as a wrong password, and
    /// gives the same error.
    ///
    /// # Errors
    /// [`Error::Credentials`], and only after the right password [`CustomerRejection::Deactivated`],
    /// [`CustomerRejection::NotVerified`], [`Error::CodeNeeded`] or [`CustomerRejection::CodeInvalid`];
    /// [`Error::TooManyRequests`].
    pub async fn log_in(&self, context: &RequestContext, login: Login) -> Result<LoggedIn, Error> {
        let email = EmailAddress::parse(login.email.trim()).ok();
        self.limit(context, Action::LogIn, email.as_ref())?;
        let customer = match &email {
            Some(email) => self.by_email(context.tenant, email.folded()).await?,
            None => None,
        };
        let hash = customer.as_ref().map(|it| it.credentials.password_hash.as_str());
        let verified = self.inner.hasher.verify(hash, login.password.clone()).await?;
        let customer = customer.filter(|_| verified.ok).ok_or(Error::Credentials)?;
        if customer.status != CustomerStatus::Active {
            return Err(CustomerRejection::Deactivated.into());
        }
        if !customer.is_verified {
            return Err(CustomerRejection::NotVerified.into());
        }
        let code = match self.proved_code(context, &customer, login.code.as_deref()) {
            // A repeated login sends a used code. The domain recognizes the repetition by its key,
            // and refuses any other login without a code.
            Err(Error::Refused(CustomerRejection::CodeInvalid))
                if context.idempotency_key.is_some() =>
            {
                None
            }
            code => code?,
        };
        // Replacing the hash can wait for a less busy time.
        let is_quiet = self.inner.hasher.estimated_wait() <= REHASH_WAIT_MAX;
        let rehashed = match verified.rehash && is_quiet {
            true => self.inner.hasher.hash(login.password).await.ok().map(PhcString::into_string),
            false => None,
        };
        let settings = self.settings();
        let lifetime = if login.remember { settings.session_remembered } else { settings.session };
        let command = CustomerCommand::OpenSession(OpenSession {
            customer: customer.reference(),
            password_version: customer.password_version,
            rehashed,
            code,
            lifetime_us: micros(lifetime.min(settings.session_max)),
            refresh_us: micros(settings.refresh.max(lifetime).min(settings.session_max)),
            network: self.network_hash(context),
        });
        // A client that did not receive the response gets the same session with the same key and
        // code: the key alone is not a second factor, and a used code alone is invalid.
        let route = ("log-in", &*customer.id.to_string());
        let fields = [login.code.as_deref().unwrap_or_default()];
        let idempotency = self.idempotency(context, route, &fields);
        let reply = self.submit_repeatable(context, command, idempotency).await?;
        self.logged_in(context.tenant, customer, &reply)
    }

    /// The code that a login proves its second factor with, where the customer has one.
    pub(super) fn proved_code(
        &self,
        context: &RequestContext,
        customer: &Customer,
        code: Option<&str>,
    ) -> Result<Option<Code>, Error> {
        if !customer.needs_code() {
            return Ok(None);
        }
        // Recovery codes have 80 random bits: they need no limit, and wrong codes of the app do not lock
        // them out.
        if code.is_some_and(|code| RecoveryCode::read(code.trim()).is_none()) {
            let email = EmailAddress::parse(&customer.profile.email).ok();
            self.limit(context, Action::UseCode, email.as_ref())?;
        }
        self.verify_code(customer, code).map(Some)
    }

    /// Verifies a code of the second factor or a recovery code.
    fn verify_code(&self, customer: &Customer, code: Option<&str>) -> Result<Code, Error> {
        let text = code.ok_or(Error::CodeNeeded)?.trim();
        let factor = customer.credentials.second_factor.as_ref();
        let factor = factor.ok_or(CustomerRejection::NoSecondFactor)?;
        if let Some(step) = self.step(customer, (&factor.sealed, factor.last_step), text)? {
            return Ok(Code::Step(step));
        }
        let recovery = RecoveryCode::read(text).ok_or(CustomerRejection::CodeInvalid)?;
        let stored = self.stored(customer, &recovery);
        match factor.recovery_hashes.contains(&stored) {
            true => Ok(Code::Recovery(stored)),
            false => Err(CustomerRejection::CodeInvalid.into()),
        }
    }

    /// The time step that a code belongs to, if it is the current one or a neighbour.
    fn step(
        &self,
        customer: &Customer,
        (sealed, last_step): (&str, i64),
        code: &str,
    ) -> Result<Option<i64>, Error> {
        let opened = self.inner.sealer.open(Purpose::TotpSecret, customer.id.uuid(), sealed);
        let secret = opened.ok().and_then(|bytes| Secret::from_bytes(&bytes));
        let Some(secret) = secret else {
            tracing::error!(customer.id = %customer.id, "failed to decrypt a second factor; the login fails");
            return Err(Unavailable::from(Reason::Bug).into());
        };
        // Codes depend on real time, even where a test clock is set.
        let seconds = self.inner.engine.clock().real_now().0.unsigned_abs() / 1_000_000;
        let last = u64::try_from(last_step).ok().filter(|step| *step > 0);
        let step = secret.check(code, seconds, last);
        Ok(step.and_then(|step| i64::try_from(step).ok()))
    }

    fn stored(&self, customer: &Customer, code: &RecoveryCode) -> String {
        use base64::Engine as _;
        let mac = code.stored(&self.inner.tokens, customer.tenant, customer.id.uuid());
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(mac)
    }

    fn logged_in(
        &self,
        tenant: TenantNo,
        customer: Customer,
        reply: &Reply,
    ) -> Result<LoggedIn, Error> {
        let Reply::Customer(CustomerReply::Session { session, generation, expires_at }) = reply
        else {
            return Err(Error::TokenInvalid);
        };
        let (session, generation) = (session.uuid(), *generation);
        Ok(LoggedIn {
            customer,
            access_token: self.inner.tokens.issue_access(tenant, session, generation),
            refresh_token: self.inner.tokens.issue_refresh(tenant, session, generation),
            expires_at: *expires_at,
        })
    }

    /// A hash of the client's network, to know it again by. It says nothing without the key.
    fn network_hash(&self, context: &RequestContext) -> i64 {
        let network = context.from.network().to_string();
        let mac = self.inner.tokens.mac(&[b"network", network.as_bytes()]);
        let (first, _) = mac.split_first_chunk().expect("a MAC has more than 8 bytes");
        i64::from_le_bytes(*first)
    }

    /// Renews a session's tokens. A refresh token that was used before was copied: the session
    /// ends. Only within the grace after its use the same network gets the same tokens again.
    ///
    /// # Errors
    /// [`Error::TokenInvalid`], [`Error::TooManyRequests`].
    pub async fn refresh(
        &self,
        context: &RequestContext,
        refresh_token: &str,
    ) -> Result<LoggedIn, Error> {
        self.limit(context, Action::Refresh, None)?;
        let tenant = context.tenant;
        let read = self.inner.tokens.read_refresh(tenant, refresh_token);
        let (session, generation) = read.ok_or(Error::TokenInvalid)?;
        let session = SessionId::new(session);
        let found = self.read(move |queries| queries.session(tenant, session)).await?;
        let (before, customer) = found.ok_or(Error::TokenInvalid)?;
        let settings = self.settings();
        let lasts = |from: Timestamp, to: Timestamp| to.0 - from.0;
        let command = CustomerCommand::RefreshSession(RefreshSession {
            customer: customer.reference(),
            session,
            generation,
            lifetime_us: lasts(before.renewed_at, before.expires_at),
            refresh_us: lasts(before.renewed_at, before.refresh_until),
            network: self.network_hash(context),
            grace_us: micros(settings.refresh_grace),
            session_max_us: micros(settings.session_max),
        });
        // A used token with its idempotency key was not copied: its client did not receive the
        // response.
        let route = ("refresh", &*session.to_string());
        let idempotency = self.idempotency(context, route, &[&*generation.to_string()]);
        match self.submit_repeatable(context, command, idempotency).await {
            Ok(Reply::Customer(CustomerReply::SessionRevoked)) => {
                tracing::warn!(
                    customer.id = %customer.id,
                    session.id = %session,
                    "a refresh token was used twice; the session has ended"
                );
                Err(Error::TokenInvalid)
            }
            Ok(reply) => self.logged_in(tenant, customer, &reply),
            Err(Error::Refused(_)) => Err(Error::TokenInvalid),
            Err(error) => Err(error),
        }
    }

    /// Ends one session of the customer, or all of them.
    ///
    /// # Errors
    /// [`CustomerRejection::SessionNotFound`].
    pub async fn close_sessions(
        &self,
        context: &RequestContext,
        caller: &AuthenticatedCustomer,
        session: Option<SessionId>,
    ) -> Result<(), Error> {
        let customer = caller.customer.reference();
        let command = CustomerCommand::CloseSessions(CloseSessions { customer, session });
        self.submit(context, command).await.map(drop)
    }

    /// Offers a second factor, which becomes active with its first code. Until then the previous
    /// one stays active, and replacing it requires one of its codes.
    ///
    /// # Errors
    /// [`Error::Credentials`] where the password is wrong; [`Error::CodeNeeded`],
    /// [`CustomerRejection::CodeInvalid`]; [`Error::TooManyRequests`], [`Error::Busy`].
    pub async fn offer_second_factor(
        &self,
        context: &RequestContext,
        caller: &AuthenticatedCustomer,
        (password, code): (&str, Option<&str>),
    ) -> Result<SecondFactorOffer, Error> {
        let customer = &caller.customer;
        self.check_password(context, customer, password).await?;
        let code = self.proved_code(context, customer, code)?;
        let (secret, codes) = (Secret::generate(), RecoveryCode::generate());
        let bytes = secret.as_bytes();
        let sealed = self.inner.sealer.seal(Purpose::TotpSecret, customer.id.uuid(), bytes);
        let recovery_hashes = codes.iter().map(|code| self.stored(customer, code)).collect();
        let new = match code {
            None => NewSecondFactor::Proposed { sealed, recovery_hashes },
            Some(code) => NewSecondFactor::Replaced { sealed, recovery_hashes, code },
        };
        self.change_second_factor(context, caller, new).await?;
        Ok(SecondFactorOffer {
            secret: secret.base32(),
            uri: secret.uri(&self.settings().issuer, &customer.profile.email),
            recovery_codes: codes.iter().map(RecoveryCode::shown).collect(),
        })
    }

    /// Activates an offered second factor by its first code.
    ///
    /// # Errors
    /// [`CustomerRejection::CodeInvalid`], [`CustomerRejection::NoSecondFactor`].
    pub async fn confirm_second_factor(
        &self,
        context: &RequestContext,
        caller: &AuthenticatedCustomer,
        code: &str,
    ) -> Result<(), Error> {
        let factor = caller.customer.credentials.second_factor.as_ref();
        let sealed = factor.and_then(SecondFactor::waiting);
        let sealed = sealed.ok_or(CustomerRejection::NoSecondFactor)?;
        let step = self.step(&caller.customer, (sealed, 0), code.trim())?;
        let step = step.ok_or(CustomerRejection::CodeInvalid)?;
        self.change_second_factor(context, caller, NewSecondFactor::Confirmed { step }).await
    }

    /// Removes the second factor. Removing an active one requires one of its codes.
    ///
    /// # Errors
    /// As [`SignUp::offer_second_factor`].
    pub async fn remove_second_factor(
        &self,
        context: &RequestContext,
        caller: &AuthenticatedCustomer,
        (password, code): (&str, Option<&str>),
    ) -> Result<(), Error> {
        self.check_password(context, &caller.customer, password).await?;
        let code = self.proved_code(context, &caller.customer, code)?;
        self.change_second_factor(context, caller, NewSecondFactor::GivenUp { code }).await
    }

    async fn change_second_factor(
        &self,
        context: &RequestContext,
        caller: &AuthenticatedCustomer,
        new: NewSecondFactor,
    ) -> Result<(), Error> {
        let command = CustomerCommand::Update(Box::new(UpdateCustomer {
            second_factor: Some(new),
            ..UpdateCustomer::of(caller.customer.reference())
        }));
        self.submit(context, command).await.map(drop)
    }
}
