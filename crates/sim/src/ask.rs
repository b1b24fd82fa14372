//! Requests and replies of the simulated world, in types of its own: the model shares no type with
//! the code that it checks.

pub mod signup;

/// A UUID as a number.
pub type Uid = u128;

/// A currency's code.
pub type Code = &'static str;

/// The currencies of the workload, with their decimals: two, none, three.
pub const CURRENCIES: [(Code, u32); 3] = [("USD", 2), ("JPY", 0), ("KWD", 3)];

/// A retired currency: no payment starts in it. It has two decimals.
pub const RETIRED: Code = "BGN";

/// The plugin whose payment methods are routed.
pub const ROUTER: &str = "faregate-router";

/// The kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Authorize,
    /// Moves reserved money.
    Capture,
    /// Moves money at once.
    Purchase,
    Refund,
    Credit,
    Void,
    /// The customer's bank took the money back.
    Chargeback,
    /// The customer's bank returned the money of a chargeback.
    Reversal,
}

/// The status of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// The gateway is being called.
    Running,
    Success,
    /// The gateway settles it later.
    Pending,
    /// The gateway declined.
    Declined,
    /// The gateway did not take it: no money moved.
    Failed,
    /// It is not known whether money moved.
    Unknown,
}

impl Status {
    /// Whether it may or may not have worked.
    #[must_use]
    pub const fn is_doubtful(self) -> bool {
        matches!(self, Self::Running | Self::Unknown)
    }

    /// Whether it ended, and moved nothing.
    #[must_use]
    pub const fn came_to_nothing(self) -> bool {
        matches!(self, Self::Declined | Self::Failed)
    }

    /// Whether it has not ended.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Unknown | Self::Pending)
    }
}

/// The idempotency key and the print of a request; two requests are the same where both are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The idempotency key.
    pub key: Uid,
    /// The request's print.
    pub print: Uid,
}

/// How a deletion treats a payment method that is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The deletion is refused.
    Not,
    /// The method is deleted.
    Even,
    /// The method is deleted, and nothing is paid from its account, which is named here.
    Suspending(Uid),
}

#[derive(Clone, Debug)]
pub struct Ask {
    pub id: Uid,
    pub tenant: u32,
    /// Set where it can come twice.
    pub repeat: Option<Repeat>,
    pub what: What,
}

/// A request of a client, an operator or a gateway.
#[derive(Clone, Debug)]
pub enum What {
    NewTenant {
        api_key: String,
    },
    /// Sets a value of a tenant.
    SetValue {
        key: String,
        /// `None` deletes.
        value: Option<String>,
    },
    /// Sets what payments of a tenant may be; `None` lifts it.
    SetLimits {
        limits: Option<Limits>,
    },
    /// Sets where payments of a tenant with routed methods go.
    SetRouting(Orders),
    NewAccount {
        key: Option<String>,
        /// The default currency.
        currency: Option<Code>,
    },
    /// Renames the person of an account.
    Rename {
        account: Uid,
        name: String,
    },
    NewMethod {
        account: Uid,
        key: Option<String>,
        gateway: &'static str,
        /// Whether it becomes the default.
        default: bool,
    },
    /// Sets the default payment method.
    SetDefault {
        account: Uid,
        method: Uid,
    },
    /// Deletes a payment method.
    DropMethod {
        method: Uid,
        /// Where it is the default.
        if_default: Dropped,
    },
    /// Closes an account.
    Close {
        account: Uid,
    },
    /// A service records a state for an account.
    Record {
        account: Uid,
        service: &'static str,
        state: &'static str,
    },
    /// Authorize, purchase or credit.
    Start(Start),
    /// The same, with an account and a payment method that may be made for it.
    Combo(Combo),
    /// Capture, refund, void, chargeback or reversal.
    Follow(Follow),
    /// The completion of something pending.
    Complete(Completion),
    /// Sets how a pending transaction ended, as a client reports it.
    Hearsay {
        payment: Uid,
        transaction: Uid,
        /// Whether it worked; `None` says nothing.
        worked: Option<bool>,
    },
    /// Sets the status of a transaction by an operator.
    Fix {
        payment: Uid,
        transaction: Uid,
        /// The new status.
        status: Status,
        has_reason: bool,
    },
    /// A gateway's answer to a call.
    Replied {
        payment: Uid,
        transaction: Uid,
        heard: Heard,
        /// Whether the transaction has an attempt, copied from the call.
        is_controlled: bool,
    },
    /// A timer is due: a payment that failed is tried again.
    Retry(Again),
    /// Something about customers.
    Customers(signup::Wish),
    /// A gateway's answer to a question, or its notification.
    Inquired {
        payment: Uid,
        transaction: Uid,
        /// The outcome that it reports, if any.
        known: Known,
        /// Real time of the question.
        asked_at: i64,
    },
    /// A gateway says what moved of a disputed charge.
    Disputed(Disputed),
    /// A timer is due: what had to wait of a dispute is booked.
    BookDispute(Late),
    /// A timer is due: somebody is warned that evidence is due soon.
    WarnOfDispute(Late),
    /// A timer is due: a customer who does nothing is given up.
    GiveUp(Expired),
}

/// The timer of a transaction that waits for its customer.
#[derive(Clone, Copy, Debug)]
pub struct Expired {
    pub payment: Uid,
    pub transaction: Uid,
    /// When the timer is due, in domain time.
    pub due: i64,
}

/// Where a dispute stands at its gateway, in the order in which it gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The bank asks: no money moves, and the merchant may answer.
    Asked,
    /// The bank looks at the merchant's answer.
    AskedAndAnswered,
    /// The bank disputes, and the merchant may answer.
    Disputed,
    Answered,
    Lost,
}

impl Stage {
    /// Whether no money moves.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        matches!(self, Self::Asked | Self::AskedAndAnswered)
    }

    /// Whether the merchant may still send evidence.
    #[must_use]
    pub const fn awaits_evidence(self) -> bool {
        matches!(self, Self::Asked | Self::Disputed)
    }
}

/// A gateway's report of a dispute, with amounts in minor units.
#[derive(Clone, Copy, Debug)]
pub struct Disputed {
    pub payment: Uid,
    /// The charge.
    pub transaction: Uid,
    pub gateway: &'static str,
    /// The gateway's number of the case.
    pub case: u32,
    pub currency: Code,
    pub stage: Stage,
    /// When evidence is due, in domain time.
    pub due_by: Option<i64>,
    /// In all.
    pub withdrawn: i64,
    /// In all.
    pub reinstated: i64,
    /// Real time of the question.
    pub asked_at: i64,
}

/// The timer of a dispute: for a deferred booking, or for the warning that evidence is due soon.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    pub payment: Uid,
    pub dispute: Uid,
    pub gateway: &'static str,
    pub case: u32,
    /// When the timer is due, in domain time.
    pub due: i64,
}

/// The limits on a tenant's payments; amounts are of payments in [`LIMITED`], in minor units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For every payment, or only for those that ask for it.
    pub every: bool,
    /// How many an account has in a day.
    pub a_day: u32,
    /// The largest amount of one.
    pub amount: Option<i64>,
    /// The largest amount of all of an account in a day.
    pub amount_a_day: Option<i64>,
    /// Whether a payment above them begins with what they leave.
    pub lowers: bool,
    /// The gateways whose method a payment goes with that names none, the first that there is.
    pub methods_of: &'static [&'static str],
}

/// The gateways that routed payments try, in order, and whether a decline goes on to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders {
    /// Of payments in [`LIMITED`].
    pub limited: [&'static str; 3],
    /// Of all others; `None`: they are refused.
    pub others: Option<[&'static str; 3]>,
    pub goes_on: bool,
}

/// The currency of amounts that are limited.
pub const LIMITED: Code = CURRENCIES[0].0;

/// One more try at a payment that failed.
#[derive(Clone, Debug)]
pub struct Again {
    pub account: Uid,
    pub payment: Uid,
    /// The transaction that failed.
    pub transaction: Uid,
    /// Its attempt.
    pub attempt: Uid,
    /// Its key.
    pub key: Option<String>,
    /// Whether the gateway said for certain what became of it.
    pub is_answered: bool,
    /// When the timer is due, in domain time.
    pub due: i64,
}

/// The start of a payment.
#[derive(Clone, Debug)]
pub struct Start {
    /// Authorize, purchase or credit.
    pub kind: Kind,
    pub account: Uid,
    /// An existing payment.
    pub payment: Option<Uid>,
    /// `None`: the default.
    pub method: Option<Uid>,
    /// The payment's external key.
    pub payment_key: Option<String>,
    /// The transaction's external key.
    pub key: Option<String>,
    pub amount: Option<String>,
    /// `None`: the account's.
    pub currency: Option<Code>,
    /// Whether it asks for the limits to be checked.
    pub is_controlled: bool,
    /// Whether it asks to be retried where it fails.
    pub asks_for_retries: bool,
}

/// A payment with its account and its payment method.
#[derive(Clone, Debug)]
pub struct Combo {
    pub payer: Payer,
    /// `None`: the account's default.
    pub means: Option<Means>,
    /// Its account and its method are those above.
    pub start: Start,
}

/// The account of a combo payment.
#[derive(Clone, Debug)]
pub enum Payer {
    Known {
        account: Uid,
        /// Which currency it is said to have.
        currency: Option<Code>,
    },
    New {
        key: Option<String>,
        currency: Option<Code>,
    },
}

/// The payment method of a combo payment.
#[derive(Clone, Debug)]
pub enum Means {
    Known(Uid),
    /// The account's method of this key; without one, a new one.
    Named {
        key: Option<String>,
        gateway: &'static str,
    },
}

/// A transaction that follows on a payment: capture, refund, void, chargeback or reversal.
#[derive(Clone, Debug)]
pub struct Follow {
    pub kind: Kind,
    pub payment: Uid,
    /// The transaction's external key.
    pub key: Option<String>,
    pub amount: Option<String>,
    /// `None`: the account's.
    pub currency: Option<Code>,
    /// Whether it names the plugin that checks limits.
    pub is_controlled: bool,
}

/// The completion of something pending.
#[derive(Clone, Debug)]
pub struct Completion {
    /// On which payment.
    pub payment: Uid,
    pub transaction: Option<Uid>,
    /// Which transaction, by key.
    pub key: Option<String>,
    /// Of which kind it must be.
    pub kind: Option<Kind>,
    /// How much of it.
    pub amount: Option<String>,
    /// Whether the gateway is to cancel it instead.
    pub cancels: bool,
}

/// How a gateway says that a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub end: End,
    /// How much it processed; `None`: what was asked.
    pub amount: Option<i64>,
    /// In which currency; `None`: what was asked.
    pub currency: Option<Code>,
    /// Whether the customer has to do something before it goes on.
    pub acts: bool,
}

/// The ends of a gateway's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Processed,
    /// The gateway settles it later.
    Pending,
    /// The gateway declined.
    Error,
    /// The gateway did not take it.
    Canceled,
    /// The gateway does not know.
    Undefined,
}

/// How a call of a gateway ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// With an answer.
    Said(Outcome),
    /// With an error of its own.
    Broke,
    /// With an empty answer.
    Silence,
    /// With no answer in time.
    TooLate,
    /// It never began.
    NotSent,
}

/// A gateway's answer to an inquiry, or its notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Found(Outcome),
    NotFound,
    /// It cannot be asked.
    Unreachable,
}

/// The reply to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Done,
    /// Made: this is its id.
    Made(Uid),
    /// The status of the transaction.
    Paid {
        payment: Uid,
        transaction: Uid,
        how: How,
    },
    /// Its payment would have passed a limit: nothing was begun.
    Aborted,
    /// The reply to a request about a customer.
    Customer(signup::Word),
    Refused(Reason),
    /// It runs already.
    StillRunning,
    /// The idempotency key is of another request.
    AnotherRequest,
    /// The answer comes with this transaction's outcome.
    Waits(Uid),
    /// It did not happen; said why.
    Unavailable(&'static str),
}

/// The status of a transaction, as reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By its status.
    Is(Status),
    /// Unknown: the gateway broke.
    Broke,
    /// Unknown: the gateway was silent.
    Silent,
    /// Unknown: the gateway was late.
    Late,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The key or id is taken.
    Taken,
    /// No such account.
    NoAccount,
    /// No such payment method.
    NoMethod,
    /// It has an external payment method already.
    SecondExternal,
    /// It is the default.
    DefaultInUse,
    /// The account is closed.
    Closed,
    /// No such payment.
    NoPayment,
    /// No such transaction.
    NoTransaction,
    /// The payment is another account's.
    OthersPayment,
    /// The transaction key is another account's.
    OthersTransaction,
    /// The transaction key succeeded.
    KeySucceeded,
    /// Nothing that it could apply to.
    NoSuccess,
    /// It may not follow there.
    Transition,
    /// An outcome is in doubt.
    InDoubt,
    /// A customer's: in the code's own word.
    Customer(String),
    /// The account does not have that tag.
    NoTag,
    /// There is no such definition of a tag.
    NoTagDefinition,
    /// The object has no such field.
    NoField,
    /// No account can have that tag.
    UnfitTag,
    /// The account has no default method, and so keeps the tag.
    NothingToPayWith,
    /// A field cannot be.
    Field(String),
    /// Something else, in the code's own words.
    Other(String),
}

/// A point in time, in microseconds of domain time and of real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    pub domain: i64,
    pub real: i64,
}

/// The ids that the journal names for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Created {
    /// A tenant's number.
    pub tenant: Option<u32>,
    pub account: Option<Uid>,
    pub method: Option<Uid>,
    pub payment: Option<Uid>,
    pub transaction: Option<Uid>,
    pub customer: Option<Uid>,
    /// A customer's session.
    pub session: Option<Uid>,
    /// A token that was mailed.
    pub token: Option<Uid>,
    pub dispute: Option<Uid>,
    /// All transactions that it made or changed, in order.
    pub moves: [Option<Uid>; MOVES_MAX],
}

/// How many transactions a request makes at most.
pub const MOVES_MAX: usize = 6;

/// A decimal of the currency's major unit.
#[must_use]
pub fn decimal(minor: i64, currency: Code) -> String {
    let decimals = decimals(currency);
    let unit = 10_i64.pow(decimals);
    match decimals {
        0 => minor.to_string(),
        _ => {
            let sign = if minor < 0 { "-" } else { "" };
            let (whole, rest) = (minor.abs() / unit, minor.abs() % unit);
            format!("{sign}{whole}.{rest:0width$}", width = decimals as usize)
        }
    }
}

/// The amount in a currency's minor units; `None` where the text is no unsigned decimal number, is too
/// large, or has more decimals than the currency, unless these are zeros.
#[must_use]
pub fn minor(text: &str, currency: Code) -> Option<i64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let places = decimals(currency) as usize;
    let (kept, beyond) = rest.split_at(places.min(rest.len()));
    let digits = format!("{whole}{kept:0<places$}");
    let is_number = !whole.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_exact = beyond.bytes().all(|byte| byte == b'0');
    digits.parse().ok().filter(|_| is_number && is_exact)
}

/// How many decimals a currency of the workload has.
#[must_use]
pub fn decimals(currency: Code) -> u32 {
    let found = CURRENCIES.iter().find(|(code, _)| *code == currency);
    found.map_or(2, |(_, decimals)| *decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_they_are_written() {
        for (currency, _) in CURRENCIES {
            for amount in [1, 99, 100, 101, 12_345_678] {
                assert_eq!(minor(&decimal(amount, currency), currency), Some(amount));
            }
        }
        assert_eq!(minor("1.2", "USD"), Some(120));
        assert_eq!(minor("1.200", "USD"), Some(120));
        for wrong in ["1.234", "-1", "much", "", ".", "99999999999999999999"] {
            assert_eq!(minor(wrong, "USD"), None, "{wrong}");
        }
    }
}
