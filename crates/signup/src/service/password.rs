//! Tokens that are mailed, and passwords that are set.

use std::time::Duration;

use domain::customer::{
    Customer, CustomerCommand, CustomerRefusal, CustomerStatus, PasswordProof, RequestToken,
    SetPassword, TokenPurpose, VerifyEmail,
};
use domain::{CustomerId, TenantNo, TokenId};
use tokio::time::{Instant, sleep_until};

use super::{Asked, Error, SignUp, Who, micros};
use crate::email::EmailAddress;
use crate::limits::Action;
use crate::password_policy;
use crate::tokens::{Purpose, TokenKey};

/// Whoever asks for a mail is answered at a beat from when they asked, whether or not there is anybody
/// to write to: the first one, unless the commit takes longer.
const MAIL_ANSWER_BEAT: Duration = Duration::from_millis(250);

impl SignUp {
    /// Takes the token that was mailed to an address: it is its customer's.
    ///
    /// # Errors
    /// [`Error::TokenInvalid`], [`Error::TooMany`].
    pub async fn verify_email(&self, asked: &Asked, token: &str) -> Result<Customer, Error> {
        self.limit(asked, Action::UseToken, None)?;
        let (customer, token) =
            self.by_token(asked.tenant, TokenPurpose::Verification, token).await?;
        let command =
            CustomerCommand::VerifyEmail(VerifyEmail { customer: customer.reference(), token });
        token_result(self.submit(asked, command).await.map(drop))?;
        Ok(customer)
    }

    /// Mails another token to an address, if it has a customer who needs one. Nothing is told about
    /// whether it has.
    ///
    /// # Errors
    /// [`Error::Fields`] for what is no address, [`Error::TooMany`], [`Error::Unavailable`].
    pub async fn mail_token(
        &self,
        asked: &Asked,
        email: &str,
        purpose: TokenPurpose,
    ) -> Result<(), Error> {
        let email = EmailAddress::parse(email.trim())?;
        self.limit(asked, Action::MailToken, Some(&email))?;
        // A commit takes longer than none: nobody is answered before one would be done.
        let began = Instant::now();
        let mailed = self.mail_token_to(asked, &email, purpose).await;
        sleep_until(began + answer_after(began.elapsed())).await;
        mailed
    }

    async fn mail_token_to(
        &self,
        asked: &Asked,
        email: &EmailAddress,
        purpose: TokenPurpose,
    ) -> Result<(), Error> {
        let customer = self.by_email(asked.tenant, email.folded()).await?;
        let customer = customer.filter(|it| it.status == CustomerStatus::Active);
        let Some(customer) = customer else { return Ok(()) };
        let within = match purpose {
            TokenPurpose::Verification => self.settings().verify_within,
            TokenPurpose::PasswordReset => self.settings().reset_within,
        };
        let (customer, within_us) = (customer.reference(), micros(within));
        let command = CustomerCommand::RequestToken(RequestToken { customer, purpose, within_us });
        // Only an address that has a customer gets this far: that it failed would tell. Whoever waits
        // for the mail asks again.
        if let Err(error) = self.submit(asked, command).await
            && !matches!(error, Error::Refused(_))
        {
            tracing::warn!(customer.id = %customer.id, error = %error, "a token was not mailed");
        }
        Ok(())
    }

    /// Sets another password by a token that was mailed; all sessions end.
    ///
    /// # Errors
    /// [`Error::TokenInvalid`], [`Error::Fields`], [`Error::TooMany`], [`Error::Busy`].
    pub async fn reset_password(
        &self,
        asked: &Asked,
        token: &str,
        password: &str,
    ) -> Result<(), Error> {
        self.limit(asked, Action::UseToken, None)?;
        let (customer, token) =
            self.by_token(asked.tenant, TokenPurpose::PasswordReset, token).await?;
        self.set_password(asked, &customer, password, PasswordProof::Token(token)).await
    }

    /// Sets another password by the one before; all sessions end.
    ///
    /// # Errors
    /// [`Error::Credentials`] where the one before is wrong, [`Error::Fields`], [`Error::TooMany`],
    /// [`Error::Busy`].
    pub async fn change_password(
        &self,
        asked: &Asked,
        who: &Who,
        (current, new): (&str, &str),
    ) -> Result<(), Error> {
        password_policy::check(new)?;
        self.check_password(asked, &who.customer, current).await?;
        let proof = PasswordProof::Password { version: who.customer.password_version };
        self.set_password(asked, &who.customer, new, proof).await
    }

    /// Whether a password is the customer's.
    pub(crate) async fn check_password(
        &self,
        asked: &Asked,
        customer: &Customer,
        password: &str,
    ) -> Result<(), Error> {
        let email = EmailAddress::parse(&customer.profile.email).ok();
        self.limit(asked, Action::LogIn, email.as_ref())?;
        let hash = Some(customer.credentials.password_hash.as_str());
        let verified = self.inner.hasher.verify(hash, password.to_owned()).await?;
        if verified.ok { Ok(()) } else { Err(Error::Credentials) }
    }

    async fn set_password(
        &self,
        asked: &Asked,
        customer: &Customer,
        password: &str,
        by: PasswordProof,
    ) -> Result<(), Error> {
        password_policy::check(password)?;
        let password_hash = self.inner.hasher.hash(password.to_owned()).await?.into_string();
        let customer = customer.reference();
        let command = CustomerCommand::SetPassword(SetPassword { customer, password_hash, by });
        token_result(self.submit(asked, command).await.map(drop))
    }

    /// Whose a token is, and which, if it is one that holds.
    async fn by_token(
        &self,
        tenant: TenantNo,
        purpose: TokenPurpose,
        text: &str,
    ) -> Result<(Customer, TokenId), Error> {
        let presented = TokenKey::read(text.trim()).ok_or(Error::TokenInvalid)?;
        let id = CustomerId::new(presented.0);
        let found = self.read(move |queries| queries.customer(tenant, id)).await?;
        let customer = found.ok_or(Error::TokenInvalid)?;
        // One that has ended is refused by the core too, but not before a password was hashed for it.
        let now = self.inner.engine.clock().now();
        let issued = customer.issued(purpose).filter(|issued| issued.expires_at > now);
        let issued = issued.ok_or(Error::TokenInvalid)?;
        let tokens = &self.inner.tokens;
        match tokens.matches(token_purpose(purpose), tenant, presented, issued.id.uuid()) {
            true => Ok((customer, issued.id)),
            false => Err(Error::TokenInvalid),
        }
    }
}

/// When to answer what took so long.
fn answer_after(took: Duration) -> Duration {
    let beats = took.as_nanos().div_ceil(MAIL_ANSWER_BEAT.as_nanos()).max(1);
    MAIL_ANSWER_BEAT.saturating_mul(u32::try_from(beats).unwrap_or(u32::MAX))
}

/// What the core says of a token that somebody used first, in the words for one that was never good.
fn token_result(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Refused(CustomerRefusal::TokenInvalid | CustomerRefusal::NotFound)) => {
            Err(Error::TokenInvalid)
        }
        Err(Error::Refused(CustomerRefusal::PasswordChanged)) => Err(Error::Credentials),
        other => other,
    }
}

/// A purpose in the words of tokens.
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
    fn answers_about_mails_come_at_a_beat() {
        for (took_ms, answered_ms) in [(0, 250), (1, 250), (250, 250), (251, 500), (1_700, 1_750)] {
            let took = Duration::from_millis(took_ms);
            assert_eq!(answer_after(took), Duration::from_millis(answered_ms), "{took_ms} ms");
        }
    }
}
