//! Mails to customers, from the commit that asks for one until it is sent. A mail has no address and
//! no token: both are looked up, or derived, when it is sent.

use serde::{Deserialize, Serialize};

use crate::{CustomerId, MailId, TenantNo, Timestamp, TokenId};

/// The reason for a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MailKind {
    /// The customer signed up.
    Welcome,
    /// They are asked to verify their address.
    Verification,
    /// They asked for another password.
    PasswordReset,
    /// Their password was changed.
    PasswordChanged,
    /// Somebody tried to sign up with their address.
    AlreadyRegistered,
}

/// A mail that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    pub tenant: TenantNo,
    pub id: MailId,
    pub customer: CustomerId,
    pub kind: MailKind,
    /// The token in the mail. If it is no longer the customer's, the mail is not sent.
    pub token: Option<TokenId>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it is sent or retried; `None` once it was given up.
    pub due_at: Option<Timestamp>,
    /// How many attempts have failed.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: Option<String>,
}
