//! Logging in and out, and what keeps somebody logged in.

use std::time::Duration;

use domain::customer::{
    CloseSessions, Code, Customer, CustomerCommand, CustomerRefusal, CustomerReply, CustomerStatus,
    NewSecondFactor, OpenSession, RefreshSession, SecondFactor, UpdateCustomer,
};
use domain::{Reply, SessionId, TenantNo, Timestamp};
use engine::{Reason, Unavailable};

use super::{Asked, Error, SignUp, Who, micros};
use crate::email::EmailAddress;
use crate::limits::Action;
use crate::passwords::PhcString;
use crate::seal::Purpose;
use crate::totp::{RecoveryCode, Secret};

/// How long a login waits at most for its password to be hashed anew, where the stored hash is out of
/// date.
const REHASH_WAIT_MAX: Duration = Duration::from_millis(200);

/// What somebody entered to log in.
pub struct Login {
    /// E-mail address.
    pub email: String,
    /// Password.
    pub password: String,
    /// A code of the second factor, or a recovery code.
    pub code: Option<String>,
    /// Whether to stay logged in for longer.
    pub remember: bool,
}

/// Somebody who is logged in.
#[derive(Clone, Debug)]
pub struct LoggedIn {
    /// Who.
    pub customer: Customer,
    /// Shown with each request.
    pub access_token: String,
    /// Shown to renew both, once.
    pub refresh_token: String,
    /// When the access token ends.
    pub expires_at: Timestamp,
}

/// A second factor that is offered: shown once.
#[derive(Clone, Debug)]
pub struct SecondFactorOffer {
    /// The secret, in base32, to be typed.
    pub secret: String,
    /// The same as `otpauth://` URI, to be scanned.
    pub uri: String,
    /// Codes that do in place of the factor, each once.
    pub recovery_codes: Vec<String>,
}

impl SignUp {
    /// Logs somebody in. That an address has no customer takes as long, and reads, as a wrong
    /// password.
    ///
    /// # Errors
    /// [`Error::Credentials`], and only after the right password [`CustomerRefusal::Deactivated`],
    /// [`CustomerRefusal::NotVerified`], [`Error::CodeNeeded`] or [`CustomerRefusal::CodeInvalid`];
    /// [`Error::TooMany`].
    pub async fn log_in(&self, asked: &Asked, login: Login) -> Result<LoggedIn, Error> {
        let email = EmailAddress::parse(login.email.trim()).ok();
        self.limit(asked, Action::LogIn, email.as_ref())?;
        let customer = match &email {
            Some(email) => self.by_email(asked.tenant, email.folded()).await?,
            None => None,
        };
        let hash = customer.as_ref().map(|it| it.credentials.password_hash.as_str());
        let verified = self.inner.hasher.verify(hash, login.password.clone()).await?;
        let customer = customer.filter(|_| verified.ok).ok_or(Error::Credentials)?;
        if customer.status != CustomerStatus::Active {
            return Err(CustomerRefusal::Deactivated.into());
        }
        if !customer.is_verified {
            return Err(CustomerRefusal::NotVerified.into());
        }
        let code = match self.shown_code(asked, &customer, login.code.as_deref()) {
            // It was taken where the same log-in came before: the core knows by the key, and refuses
            // a code that was not.
            Err(Error::Refused(CustomerRefusal::CodeInvalid))
                if asked.idempotency_key.is_some() =>
            {
                None
            }
            shown => shown?,
        };
        // It can wait for a quieter login.
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
            lifetime_us: micros(lifetime),
            refresh_us: micros(settings.refresh.max(lifetime)),
        });
        // Whoever did not get the answer gets the same session by the same key, with the same code:
        // the key alone is no second factor. Once it was taken, a code is worth nothing.
        let says = [&*customer.id.to_string(), login.code.as_deref().unwrap_or_default()];
        let idempotency = self.idempotency(asked, "log-in", &says);
        let reply = self.submit_repeatable(asked, command, idempotency).await?;
        self.logged_in(asked.tenant, customer, &reply)
    }

    /// What a customer shows of their second factor, where one is asked for.
    fn shown_code(
        &self,
        asked: &Asked,
        customer: &Customer,
        code: Option<&str>,
    ) -> Result<Option<Code>, Error> {
        if !customer.needs_code() {
            return Ok(None);
        }
        if code.is_some() {
            let email = EmailAddress::parse(&customer.profile.email).ok();
            self.limit(asked, Action::UseCode, email.as_ref())?;
        }
        self.read_code(customer, code).map(Some)
    }

    /// What a code says, if it is one of theirs.
    fn read_code(&self, customer: &Customer, code: Option<&str>) -> Result<Code, Error> {
        let text = code.ok_or(Error::CodeNeeded)?.trim();
        let factor = customer.credentials.second_factor.as_ref();
        let factor = factor.ok_or(CustomerRefusal::NoSecondFactor)?;
        if let Some(step) = self.step(customer, (&factor.sealed, factor.last_step), text)? {
            return Ok(Code::Step(step));
        }
        let recovery = RecoveryCode::read(text).ok_or(CustomerRefusal::CodeInvalid)?;
        let stored = self.stored(customer, &recovery);
        match factor.recovery_hashes.contains(&stored) {
            true => Ok(Code::Recovery(stored)),
            false => Err(CustomerRefusal::CodeInvalid.into()),
        }
    }

    /// The step of time that a code is of, if it is of one near now.
    fn step(
        &self,
        customer: &Customer,
        (sealed, last_step): (&str, i64),
        code: &str,
    ) -> Result<Option<i64>, Error> {
        let opened = self.inner.sealer.open(Purpose::TotpSecret, customer.id.uuid(), sealed);
        let secret = opened.and_then(|bytes| Secret::from_bytes(&bytes));
        let Some(secret) = secret else {
            tracing::error!(customer.id = %customer.id, "a second factor cannot be opened");
            return Err(Unavailable::from(Reason::Bug).into());
        };
        // Codes are of real time, whatever the test clock says.
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

    /// Renews a session's tokens. A token that was used before ends the session: somebody has a copy.
    ///
    /// # Errors
    /// [`Error::TokenInvalid`], [`Error::TooMany`].
    pub async fn refresh(&self, asked: &Asked, refresh_token: &str) -> Result<LoggedIn, Error> {
        self.limit(asked, Action::Refresh, None)?;
        let tenant = asked.tenant;
        let read = self.inner.tokens.read_refresh(tenant, refresh_token);
        let (session, generation) = read.ok_or(Error::TokenInvalid)?;
        let session = SessionId::new(session);
        let found = self.read(move |queries| queries.session(tenant, session)).await?;
        let (before, customer) = found.ok_or(Error::TokenInvalid)?;
        let lasts = |from: Timestamp, to: Timestamp| to.0 - from.0;
        let command = CustomerCommand::RefreshSession(RefreshSession {
            customer: customer.reference(),
            session,
            generation,
            lifetime_us: lasts(before.renewed_at, before.expires_at),
            refresh_us: lasts(before.renewed_at, before.refresh_until),
        });
        // A token that comes again with its key was not stolen: its client did not get the answer.
        let says = [&*session.to_string(), &*generation.to_string()];
        let idempotency = self.idempotency(asked, "refresh", &says);
        match self.submit_repeatable(asked, command, idempotency).await {
            Ok(Reply::Customer(CustomerReply::SessionRevoked)) => {
                tracing::warn!(
                    customer.id = %customer.id,
                    session.id = %session,
                    "a refresh token was used twice: the session has ended"
                );
                Err(Error::TokenInvalid)
            }
            Ok(reply) => self.logged_in(tenant, customer, &reply),
            Err(Error::Refused(_)) => Err(Error::TokenInvalid),
            Err(error) => Err(error),
        }
    }

    /// Ends a session of the customer: the one that they ask in, another one, or all.
    ///
    /// # Errors
    /// [`CustomerRefusal::SessionNotFound`].
    pub async fn close_sessions(
        &self,
        asked: &Asked,
        who: &Who,
        session: Option<SessionId>,
    ) -> Result<(), Error> {
        let customer = who.customer.reference();
        let command = CustomerCommand::CloseSessions(CloseSessions { customer, session });
        self.submit(asked, command).await.map(drop)
    }

    /// Offers a second factor, which is asked for once its first code was given; until then the one
    /// before is, of which a code is needed.
    ///
    /// # Errors
    /// [`Error::Credentials`] where the password is wrong; [`Error::CodeNeeded`],
    /// [`CustomerRefusal::CodeInvalid`]; [`Error::TooMany`], [`Error::Busy`].
    pub async fn offer_second_factor(
        &self,
        asked: &Asked,
        who: &Who,
        (password, code): (&str, Option<&str>),
    ) -> Result<SecondFactorOffer, Error> {
        let customer = &who.customer;
        self.check_password(asked, customer, password).await?;
        let code = self.shown_code(asked, customer, code)?;
        let (secret, codes) = (Secret::generate(), RecoveryCode::generate());
        let bytes = secret.as_bytes();
        let sealed = self.inner.sealer.seal(Purpose::TotpSecret, customer.id.uuid(), bytes);
        let recovery_hashes = codes.iter().map(|code| self.stored(customer, code)).collect();
        let new = match code {
            None => NewSecondFactor::Proposed { sealed, recovery_hashes },
            Some(code) => NewSecondFactor::Replaced { sealed, recovery_hashes, code },
        };
        self.change_second_factor(asked, who, new).await?;
        Ok(SecondFactorOffer {
            secret: secret.base32(),
            uri: secret.uri(&self.settings().issuer, &customer.profile.email),
            recovery_codes: codes.iter().map(RecoveryCode::shown).collect(),
        })
    }

    /// Takes the first code of a second factor that was offered.
    ///
    /// # Errors
    /// [`CustomerRefusal::CodeInvalid`], [`CustomerRefusal::NoSecondFactor`].
    pub async fn confirm_second_factor(
        &self,
        asked: &Asked,
        who: &Who,
        code: &str,
    ) -> Result<(), Error> {
        let factor = who.customer.credentials.second_factor.as_ref();
        let sealed = factor.and_then(SecondFactor::waiting);
        let sealed = sealed.ok_or(CustomerRefusal::NoSecondFactor)?;
        let step = self.step(&who.customer, (sealed, 0), code.trim())?;
        let step = step.ok_or(CustomerRefusal::CodeInvalid)?;
        self.change_second_factor(asked, who, NewSecondFactor::Confirmed { step }).await
    }

    /// Does without a second factor from now on. Where one is asked for, a code of it is needed.
    ///
    /// # Errors
    /// As [`SignUp::offer_second_factor`].
    pub async fn remove_second_factor(
        &self,
        asked: &Asked,
        who: &Who,
        (password, code): (&str, Option<&str>),
    ) -> Result<(), Error> {
        self.check_password(asked, &who.customer, password).await?;
        let code = self.shown_code(asked, &who.customer, code)?;
        self.change_second_factor(asked, who, NewSecondFactor::GivenUp { code }).await
    }

    async fn change_second_factor(
        &self,
        asked: &Asked,
        who: &Who,
        new: NewSecondFactor,
    ) -> Result<(), Error> {
        let command = CustomerCommand::Update(Box::new(UpdateCustomer {
            second_factor: Some(new),
            ..UpdateCustomer::of(who.customer.reference())
        }));
        self.submit(asked, command).await.map(drop)
    }
}
