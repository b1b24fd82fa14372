//! Customers: people who signed up. Each comes with a billing account, made in the same commit.
//!
//! A customer's personal data and credentials are kept out of the journal, and only their present values are stored:
//! erasing a customer ([`EraseCustomer`]) empties their row, deletes what belongs to it, and breaks no history.

pub(crate) mod change;
pub(crate) mod command;
mod lookup;
pub mod mail;
pub mod operation;
pub(crate) mod read;
pub(crate) mod rules;

use serde::{Deserialize, Serialize};

use crate::claim::{ClaimKey, ClaimKind};
use crate::customer::mail::MailKind;
use crate::entity::{Entity, Facts};
use crate::rows::Keyed;
use crate::{
    AccountId, Currency, CustomerId, OperationId, Person, Revision, SessionId, TenantNo, Timestamp,
    TokenId,
};

/// How many sessions a customer has at the same time; one more ends the oldest.
pub const SESSIONS_MAX: usize = 20;

/// The status of a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CustomerStatus {
    /// They may log in, once their address is verified.
    Active,
    /// They may not log in until they are activated again.
    Deactivated,
    /// Their personal data is erased.
    Erased,
}

/// A person who signed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Customer {
    pub tenant: TenantNo,
    /// Their id; also the external key of their account.
    pub id: CustomerId,
    /// Their billing account.
    pub account: AccountId,
    /// Who they are. Never journalled.
    #[serde(skip)]
    pub profile: Profile,
    /// Their password and second factor. Never journalled.
    #[serde(skip)]
    pub credentials: Credentials,
    pub status: CustomerStatus,
    /// Whether their address is verified.
    pub is_verified: bool,
    /// How often the password was set: what was checked against an earlier one is refused.
    pub password_version: i64,
    /// The one token that verifies their address.
    pub verification: Option<Issued>,
    /// The one token that sets another password.
    pub reset: Option<Issued>,
    /// When they are erased, unless they verify their address before.
    pub expires_at: Option<Timestamp>,
    /// When they signed up.
    pub created_at: Timestamp,
    /// When they last changed.
    pub updated_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for Customer {
    type Key = (TenantNo, CustomerId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for Customer {
    fn facts(&self) -> Facts {
        Facts::new("customer", self.id, self.revision).of(self.account)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn journalled(self) -> Self {
        Self { profile: Profile::default(), credentials: Credentials::default(), ..self }
    }
}

/// Who a customer is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Their address, as it is written to.
    pub email: String,
    /// The same, as it is compared: unique among the tenant's customers.
    pub email_key: String,
    pub first_name: String,
    pub last_name: String,
    /// A document that the API owns; empty where there is none.
    pub preferences: String,
}

/// The credentials of a customer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// A PHC string (argon2id), or an imported one of bcrypt.
    pub password_hash: String,
    /// A second factor.
    pub second_factor: Option<SecondFactor>,
}

/// A time-based second factor (RFC 6238).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondFactor {
    /// Its secret, encrypted by the API.
    pub sealed: String,
    /// Whether it is asked for: its first code was given.
    pub is_confirmed: bool,
    /// The last time step whose code was accepted; no code is accepted twice.
    pub last_step: i64,
    /// Hashes of recovery codes, each valid once.
    pub recovery_hashes: Vec<String>,
    /// The one that takes its place once its first code was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed: Option<Proposal>,
}

/// A second factor that waits for its first code beside the one that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The secret, encrypted by the API.
    pub sealed: String,
    /// Hashes of recovery codes, each valid once.
    pub recovery_hashes: Vec<String>,
}

/// A token that was mailed. The token itself is derived from this id with a key that no row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    pub id: TokenId,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// A customer who is logged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub tenant: TenantNo,
    pub id: SessionId,
    pub customer: CustomerId,
    /// How often its tokens were renewed: earlier ones are worth nothing.
    pub generation: u32,
    /// When it began.
    pub created_at: Timestamp,
    /// When its tokens were last renewed.
    pub renewed_at: Timestamp,
    /// When its access token ends.
    pub expires_at: Timestamp,
    /// When its refresh token ends.
    pub refresh_until: Timestamp,
    /// A keyed hash of the network that last got its tokens.
    pub network: i64,
}

impl Keyed for Session {
    type Key = (TenantNo, SessionId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

/// A customer with what belongs to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomerFile {
    pub customer: Customer,
    /// Their sessions, oldest first, those that ended by themselves too.
    pub sessions: Vec<Session>,
}

impl Keyed for CustomerFile {
    type Key = (TenantNo, CustomerId);

    fn key(&self) -> Self::Key {
        self.customer.key()
    }
}

/// Names a customer and the account whose partition has what is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerRef {
    pub id: CustomerId,
    pub account: AccountId,
}

/// Registers a customer. The API has checked the address, the names and the password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    pub profile: Profile,
    /// Their account's personal data besides name and e-mail address.
    pub person: Person,
    /// The currency of their account.
    pub currency: Option<Currency>,
    /// See [`Credentials::password_hash`]. Empty where the address was seen to have a customer, so
    /// that nothing was hashed: it makes nobody, also where the address is free by now.
    pub password_hash: String,
    /// The handling of the registration where the address has a customer.
    pub taken: Taken,
    /// How their address is verified.
    pub verification: Verification,
    /// The operation that this ends.
    pub operation: Option<OperationId>,
}

/// The handling of a registration whose address has a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Taken {
    /// It is refused, which says that the address has one.
    Refuse,
    /// It seems to succeed; the owner of the address is notified by mail.
    NotifyByMail,
    /// The same without a mail: too many were sent to the address lately.
    Silent,
}

/// How an address is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verification {
    /// By a token that is mailed and ends after so many microseconds, and the customer with it.
    Mailed {
        /// In microseconds of domain time.
        within_us: i64,
    },
    /// It needs none, and nothing is mailed: a probe's customer.
    Given,
}

/// An address is its customer's: they showed the token that was mailed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyEmail {
    pub customer: CustomerRef,
    pub token: TokenId,
}

/// The purpose of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenPurpose {
    /// To verify an address.
    Verification,
    /// To set another password.
    PasswordReset,
}

/// Mails a new token; the earlier one expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestToken {
    pub customer: CustomerRef,
    pub purpose: TokenPurpose,
    /// The lifetime of the token, in microseconds of domain time.
    pub within_us: i64,
}

/// Sets another password, or writes the same one's hash anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPassword {
    pub customer: CustomerRef,
    /// The new hash; see [`Credentials::password_hash`].
    pub password_hash: String,
    /// The proof that allows it.
    pub by: PasswordProof,
}

/// The proof that allows a caller to set a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PasswordProof {
    /// A token that was mailed.
    Token(TokenId),
    /// The password of this version ([`Customer::password_version`]).
    Password { version: i64 },
}

/// Logs a customer in, whose password and code were right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    pub customer: CustomerRef,
    /// The password that was right.
    pub password_version: i64,
    /// A new hash of the same password, where the stored one is out of date.
    pub rehashed: Option<String>,
    /// The code of the second factor that was given.
    pub code: Option<Code>,
    /// How long the access token lasts, in microseconds.
    pub lifetime_us: i64,
    /// How long the refresh token lasts, in microseconds.
    pub refresh_us: i64,
    /// See [`Session::network`].
    pub network: i64,
}

/// A code of a second factor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// By time: its step.
    Step(i64),
    /// One of those that do in its place: its hash.
    Recovery(String),
}

/// Renews a session's tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshSession {
    pub customer: CustomerRef,
    pub session: SessionId,
    /// The generation of the token that was shown. Where it is an earlier one, somebody has a token
    /// who should not, and the session ends; but see `grace_us`.
    pub generation: u32,
    /// The new lifetime of the access token, in microseconds of domain time.
    pub lifetime_us: i64,
    /// The new lifetime of the refresh token, in microseconds of domain time.
    pub refresh_us: i64,
    /// See [`Session::network`].
    pub network: i64,
    /// How long after a renewal the tokens before it may be shown again by the same network, in
    /// microseconds of domain time: two tabs of a browser renew at once. They get the new ones.
    pub grace_us: i64,
    /// How long the session lasts at most, however often it is renewed, in microseconds of domain time.
    pub session_max_us: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseSessions {
    pub customer: CustomerRef,
    /// `None`: all sessions of the customer.
    pub session: Option<SessionId>,
}

/// Changes a customer: what is `None` stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateCustomer {
    pub customer: CustomerRef,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
    /// A document that the API owns.
    pub preferences: Option<String>,
    /// The account's personal data besides name and e-mail address; a field that is `None` stays.
    pub person: Person,
    /// Whether they may log in.
    pub is_active: Option<bool>,
    /// A second factor in place of what was there.
    pub second_factor: Option<NewSecondFactor>,
    /// The preferences that the new ones were made of: refused where somebody has changed those
    /// meanwhile. Not looked at where it is `None`.
    #[serde(default)]
    pub preferences_before: Option<String>,
}

impl UpdateCustomer {
    /// An update that changes nothing.
    #[must_use]
    pub fn of(customer: CustomerRef) -> Self {
        Self {
            customer,
            first_name: None,
            last_name: None,
            preferences: None,
            person: Person::default(),
            is_active: None,
            second_factor: None,
            preferences_before: None,
        }
    }
}

/// The change of a second factor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewSecondFactor {
    /// One that is not asked for before its first code was given, where none holds.
    Proposed {
        /// The secret, encrypted by the API.
        sealed: String,
        /// Hashes of recovery codes, each valid once.
        recovery_hashes: Vec<String>,
    },
    /// The first code of the one that was proposed was given.
    Confirmed {
        /// The time step of that code (RFC 6238).
        step: i64,
    },
    /// None, whatever there was: somebody lost it, and an operator helps.
    Removed,
    /// One in place of the one that holds, which holds until the first code of this was given.
    Replaced {
        /// The secret, encrypted by the API.
        sealed: String,
        /// Hashes of recovery codes, each valid once.
        recovery_hashes: Vec<String>,
        /// A code of the one that holds.
        code: Code,
    },
    /// None any more.
    GivenUp {
        /// A code of the one that holds, where one does.
        code: Option<Code>,
    },
}

/// Forgets a customer. Their account, its payments and its ledger stay, and say nothing of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EraseCustomer {
    pub customer: CustomerRef,
    /// Whether only because their address was not verified in time.
    pub if_expired: bool,
}

/// The reply to an accepted command about a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CustomerReply {
    /// Somebody signed up.
    Registered(CustomerRef),
    /// The address has a customer, who is notified.
    Notified,
    /// A session began, or its tokens were renewed.
    Session {
        session: SessionId,
        /// The generation of its tokens.
        generation: u32,
        /// When its access token ends.
        expires_at: Timestamp,
    },
    /// A token of an earlier generation was shown: the session has ended.
    SessionRevoked,
    /// A registration is kept and made later.
    Queued(OperationId),
}

/// Why one of these commands is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum CustomerRejection {
    /// The address has a customer.
    #[error("a customer has this address")]
    EmailTaken,
    /// No such customer of this tenant, or they are forgotten.
    #[error("there is no such customer")]
    NotFound,
    /// They may not log in.
    #[error("the customer is deactivated")]
    Deactivated,
    /// Their address is not verified.
    #[error("the address is not verified")]
    NotVerified,
    /// Their address is verified already.
    #[error("the address is verified")]
    AlreadyVerified,
    /// A token that was used, has ended, or was replaced by another.
    #[error("the token is invalid")]
    TokenInvalid,
    /// The password was changed since it was checked.
    #[error("the password was changed meanwhile")]
    PasswordChanged,
    /// The preferences were changed since they were read.
    #[error("the preferences are being changed by others")]
    PreferencesChanged,
    /// A code that was used before, or is none of theirs.
    #[error("the code is wrong, or was used")]
    CodeInvalid,
    /// There is no second factor that waits for its first code.
    #[error("there is no second factor that waits for its first code")]
    NoSecondFactor,
    /// No such session, or it has ended.
    #[error("there is no such session")]
    SessionNotFound,
    /// Their time to verify their address is not over, or they have.
    #[error("the time to verify the address is not over")]
    NotExpired,
    /// No such operation of this tenant.
    #[error("there is no such operation")]
    OperationNotFound,
    /// The operation has come to its end.
    #[error("the operation has come to its end")]
    OperationSettled,
}

/// The claim that an address makes.
#[must_use]
pub fn email_claim(tenant: TenantNo, email_key: &str) -> ClaimKey {
    ClaimKey::new(tenant, ClaimKind::CustomerEmail, email_key)
}

impl TokenPurpose {
    /// The mail that brings such a token.
    #[must_use]
    pub const fn mail(self) -> MailKind {
        match self {
            Self::Verification => MailKind::Verification,
            Self::PasswordReset => MailKind::PasswordReset,
        }
    }
}

impl Customer {
    /// The customer's one token for a purpose, which may have expired; `None` where there is none.
    #[must_use]
    pub const fn issued(&self, purpose: TokenPurpose) -> Option<Issued> {
        match purpose {
            TokenPurpose::Verification => self.verification,
            TokenPurpose::PasswordReset => self.reset,
        }
    }

    #[must_use]
    pub const fn reference(&self) -> CustomerRef {
        CustomerRef { id: self.id, account: self.account }
    }
}

impl Customer {
    /// Whether a code is asked for beside the password.
    #[must_use]
    pub fn needs_code(&self) -> bool {
        self.credentials.second_factor.as_ref().is_some_and(|it| it.is_confirmed)
    }
}

impl SecondFactor {
    /// The secret that waits for its first code, encrypted by the API.
    #[must_use]
    pub fn waiting(&self) -> Option<&str> {
        match self.is_confirmed {
            true => self.proposed.as_ref().map(|it| it.sealed.as_str()),
            false => Some(&self.sealed),
        }
    }
}
