//! Requests about customers, the tags of their accounts and custom fields, and the replies.

use super::{Code, Uid};

/// How long a token that was mailed holds, in microseconds.
pub const TOKEN_US: i64 = 20 * 3_600_000_000;

/// How long a session's tokens hold: the one that is shown, and the one that renews both.
pub const SESSION_US: [i64; 2] = [3_600_000_000, 30 * 3_600_000_000];

/// How long after a renewal the tokens before it still get the new ones, in microseconds.
pub const GRACE_US: i64 = 10 * 1_000_000;

/// A customer, and the account that has what is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    pub id: Uid,
    pub account: Uid,
}

/// A request about a customer.
#[derive(Clone, Debug)]
pub enum Wish {
    /// To sign up.
    Join(Join),
    /// Verifies an address.
    Verify {
        who: Who,
        /// The token that was mailed there, or a wrong one.
        token: Uid,
    },
    /// A new token by mail.
    NewToken {
        who: Who,
        /// Whether for another password.
        reset: bool,
    },
    /// A new password.
    NewPassword {
        who: Who,
        /// The proof that allows it.
        proof: Proof,
    },
    Login {
        who: Who,
        /// Which of their passwords was right.
        version: i64,
    },
    /// Renews the tokens of a session.
    Refresh {
        who: Who,
        session: Uid,
        /// Of which generation those are that were shown.
        generation: u32,
    },
    /// Ends a session.
    Logout {
        who: Who,
        /// Which; `None`: all.
        session: Option<Uid>,
    },
    /// Another name, or whether they may log in.
    Change {
        who: Who,
        name: Option<String>,
        /// Whether they may.
        active: Option<bool>,
    },
    /// Erases the customer.
    Erase {
        who: Who,
        /// Only where their time to verify their address is over.
        if_expired: bool,
    },
    /// To sign up later: the request names what is kept.
    Queue,
    /// A queued registration cannot be made.
    Fail { operation: Uid },
    /// Tags on an account, or off it.
    Tag {
        account: Uid,
        /// The numbers of the definitions.
        numbers: Vec<u8>,
        /// Whether the tags are removed.
        off: bool,
    },
    /// Custom fields of an account, or of a payment of it.
    Fields { account: Uid, payment: Option<Uid>, change: FieldChange },
}

/// A change of custom fields.
#[derive(Clone, Debug)]
pub enum FieldChange {
    /// Names and values.
    Add(Vec<(String, String)>),
    /// The first field that a request made gets another value.
    Set { made_by: Uid, value: String },
    /// All are removed.
    Clear,
}

/// A request to register a customer.
#[derive(Clone, Debug)]
pub struct Join {
    /// The e-mail address.
    pub address: String,
    pub name: String,
    /// The currency of the account.
    pub currency: Option<Code>,
    /// Whether the owner of the address is notified, where there is one.
    pub tell: bool,
    /// Whether the address needs no verification.
    pub given: bool,
    /// The queued registration that this request makes.
    pub operation: Option<Uid>,
}

/// The proof that allows another password.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// The token that was mailed, or a wrong one.
    Token(Uid),
    /// The password before.
    Version(i64),
}

/// The reply to a request about a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// They signed up.
    Joined(Who),
    /// The owner of the address is notified.
    Notified,
    Session {
        session: Uid,
        /// Of which generation its tokens are.
        generation: u32,
        /// How long the one that is shown holds.
        until: i64,
    },
    /// The session is over: somebody has a token who should not.
    Revoked,
    /// It is kept, under this name.
    Queued(Uid),
}

/// The kind of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Letter {
    Welcome,
    /// A token to verify an address.
    Verify,
    /// A token for another password.
    Reset,
    /// There is another password.
    Changed,
    /// Somebody tried to sign up.
    Known,
}
