//! Mailed tokens, and setting passwords.

use std::time::Duration;

use domain::command::CustomerCommand;
use domain::customer::{
    Customer, CustomerRejection, CustomerStatus, PasswordProof, RequestToken, SetPassword,
    TokenPurpose, VerifyEmail,
};
use domain::{CustomerId, TenantNo, TokenId};
use tokio::time::{Instant, sleep_until};

use super::{AuthenticatedCustomer, Error, RequestContext, SignUp, micros};
use crate::email::EmailAddress;
use crate::limits::Action;
use crate::password_policy;
use crate::tokens::{MailedToken, Purpose};

/// Requests for a mail are answered after a multiple of this interval, usually the first, so that
/// the duration does not reveal whether a mail was sent.
const MAIL_ANSWER_INTERVAL: Duration = Duration::from_millis(250);

impl SignUp {
    /// Verifies an address by the token that was mailed to it.
    ///
    /// # Errors
    /// [`Error::TokenInvalid`], [`Error::TooManyRequests`].
    pub async fn verify_email(
        &self,
        context: &RequestContext,
        token: &str,
    ) -> Result<Customer, Error> {
        self.limit(context, Action::UseToken, None)?;
        let (customer, token) =
            self.by_token(context.tenant, TokenPurpose::Verification, token).await?;
        let command =
            CustomerCommand::VerifyEmail(VerifyEmail { customer: customer.reference(), token });
        token_result(self.submit(context, command).await.map(drop))?;
        Ok(customer)
    }

    /// Mails a token to an address, if it has a customer who needs one. The result does not reveal
    /// whether it has.
    ///
    /// # Errors
    /// [`Error::Fields`] for a malformed address, [`Error::TooManyRequests`],
    /// [`Error::Unavailable`].
    pub async fn mail_token(
        &self,
        context: &RequestContext,
        email: &str,
        purpose: TokenPurpose,
    ) -> Result<(), Error> {
        let email = EmailAddress::parse(email.trim())?;
        self.limit(context, Action::MailToken, Some(&email))?;
        // A request with a commit takes longer than one without: both are answered after the same
        // interval.
        let began = Instant::now();
        let mailed = self.mail_token_to(context, &email, purpose).await;
        sleep_until(began + answer_after(began.elapsed())).await;
        mailed
    }

    async fn mail_token_to(
        &self,
        context: &RequestContext,
        email: &EmailAddress,
        purpose: TokenPurpose,
    ) -> Result<(), Error> {
        let customer = self.by_email(context.tenant, email.folded()).await?;
        let customer = customer.filter(|it| it.status == CustomerStatus::Active);
        let Some(customer) = customer else { return Ok(()) };
        let within = match purpose {
            TokenPurpose::Verification => self.settings().verify_within,
            TokenPurpose::PasswordReset => self.settings().reset_within,
        };
        let (customer, within_us) = (customer.reference(), micros(within));
        let command = CustomerCommand::RequestToken(RequestToken { customer, purpose, within_us });
        // Only an address with a customer gets here, so an error would reveal it. The customer can
        // request another mail.
        if let Err(error) = self.submit(context, command).await
            && !matches!(error, Error::Refused(_))
        {
            tracing::warn!(customer.id = %customer.id, error = %error, "failed to mail a token; the customer can request another");
        }
        Ok(())
    }

    /// Sets a password by a token that was mailed; all sessions end.
    ///
    /// # Errors
    /// [`Error::TokenInvalid`], [`Error::Fields`], [`Error::TooManyRequests`], [`Error::Busy`].
    pub async fn reset_password(
        &self,
        context: &RequestContext,
        token: &str,
        password: &str,
    ) -> Result<(), Error> {
        self.limit(context, Action::UseToken, None)?;
        let (customer, token) =
            self.by_token(context.tenant, TokenPurpose::PasswordReset, token).await?;
        self.set_password(context, &customer, password, PasswordProof::Token(token)).await
    }

    /// Sets a password by the current one; all sessions end.
    ///
    /// # Errors
    /// [`Error::Credentials`] where the current password is wrong, [`Error::Fields`],
    /// [`Error::TooManyRequests`], [`Error::Busy`].
    pub async fn change_password(
        &self,
        context: &RequestContext,
        caller: &AuthenticatedCustomer,
        (current, new): (&str, &str),
    ) -> Result<(), Error> {
        password_policy::check(new)?;
        self.check_password(context, &caller.customer, current).await?;
        let proof = PasswordProof::Password { version: caller.customer.password_version };
        self.set_password(context, &caller.customer, new, proof).await
    }

    /// Verifies a customer's password.
    ///
    /// # Errors
    /// [`Error::Credentials`], [`Error::TooManyRequests`], [`Error::Busy`].
    pub async fn check_password(
        &self,
        context: &RequestContext,
        customer: &Customer,
        password: &str,
    ) -> Result<(), Error> {
        let email = EmailAddress::parse(&customer.profile.email).ok();
        self.limit(context, Action::LogIn, email.as_ref())?;
        let hash = Some(customer.credentials.password_hash.as_str());
        let verified = self.inner.hasher.verify(hash, password.to_owned()).await?;
        if verified.ok { Ok(()) } else { Err(Error::Credentials) }
    }

    async fn set_password(
        &self,
        context: &RequestContext,
        customer: &Customer,
        password: &str,
        by: PasswordProof,
    ) -> Result<(), Error> {
        password_policy::check(password)?;
        let password_hash = self.inner.hasher.hash(password.to_owned()).await?.into_string();
        let customer = customer.reference();
        let command = CustomerCommand::SetPassword(SetPassword { customer, password_hash, by });
        token_result(self.submit(context, command).await.map(drop))
    }

    /// The customer and the id of a valid token.
    async fn by_token(
        &self,
        tenant: TenantNo,
        purpose: TokenPurpose,
        text: &str,
    ) -> Result<(Customer, TokenId), Error> {
        let presented = MailedToken::read(text.trim()).filter(|it| it.tenant == tenant);
        let presented = presented.ok_or(Error::TokenInvalid)?;
        let id = CustomerId::new(presented.customer);
        // A link in a mail carries no credentials: nobody has looked whether its tenant is served.
        let found = self.read(move |queries| {
            let is_served = queries.tenant_by_no(tenant)?.is_some_and(|it| it.is_active);
            if is_served { queries.customer(tenant, id) } else { Ok(None) }
        });
        let customer = found.await?.ok_or(Error::TokenInvalid)?;
        // The domain refuses an expired token too, but only after a password was hashed for it.
        let now = self.inner.engine.clock().now();
        let issued = customer.issued(purpose).filter(|issued| issued.expires_at > now);
        let issued = issued.ok_or(Error::TokenInvalid)?;
        let tokens = &self.inner.tokens;
        match tokens.matches(token_purpose(purpose), &presented, issued.id.uuid()) {
            true => Ok((customer, issued.id)),
            false => Err(Error::TokenInvalid),
        }
    }
}

/// When to answer a request that took this long.
fn answer_after(took: Duration) -> Duration {
    let intervals = took.as_nanos().div_ceil(MAIL_ANSWER_INTERVAL.as_nanos()).max(1);
    MAIL_ANSWER_INTERVAL.saturating_mul(u32::try_from(intervals).unwrap_or(u32::MAX))
}

/// The error for a token that was used concurrently: the same as for any invalid token.
fn token_result(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Refused(CustomerRejection::TokenInvalid | CustomerRejection::NotFound)) => {
            Err(Error::TokenInvalid)
        }
        Err(Error::Refused(CustomerRejection::PasswordChanged)) => Err(Error::Credentials),
        other => other,
    }
}

/// The purpose of a token, as tokens encode it.
#[must_use]
pub const fn token_purpose(purpose: TokenPurpose) -> Purpose {
    match purpose {
        TokenPurpose::Verification => Purpose::VerifyEmail,
        TokenPurpose::PasswordReset => Purpose::ResetPassword,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_mails_are_answered_after_whole_intervals() {
        for (took_ms, answered_ms) in [(0, 250), (1, 250), (250, 250), (251, 500), (1_700, 1_750)] {
            let took = Duration::from_millis(took_ms);
            assert_eq!(answer_after(took), Duration::from_millis(answered_ms), "{took_ms} ms");
        }
    }
}
