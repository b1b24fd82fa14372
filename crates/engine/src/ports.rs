//! The interfaces that the engine needs from outside: a store to commit to, queries to read with,
//! gateways to call, and a clock. `sim` implements them again.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use domain::MerchantAccount;
use domain::account::payment_method::{MethodAnswer, MethodRequest};
use domain::change::Change;
use domain::customer::mail::Mail;
use domain::payment::dispute::DisputeSaid;
use domain::payment::{
    Actor, GatewayAnswer, GatewayKnowledge, MethodAtGateway, NotSentCause, ReplyKey,
};
use domain::read::Read;
use domain::state::State;
use domain::{
    AccountId, Event, GatewayCall, GatewaySettings, MailId, OperationId, PaymentId, Properties,
    Rejection, Reply, RequestId, Seq, Sequences, TenantNo, Timestamp, TransactionId,
};

use crate::Deadline;
pub use crate::webhooks::DeliveryId;

mod access;
mod accounts;
mod analytics;
mod billing;
mod change_requests;
mod control;
mod custom_fields;
mod customers;
mod delivery_log;
mod disputes;
mod entitlements;
mod export;
mod flags;
mod followers;
mod history;
mod insights;
mod ledger;
mod limits;
mod mails;
mod operations;
mod outcomes;
mod payment_methods;
mod payments;
mod rows;
mod store_error;
mod tags;
mod tenants;
mod timers;
mod usage;

pub use self::access::{AccessQueries, UserView};
pub use self::accounts::{AccountQueries, AccountView};
pub use self::analytics::{
    AccountAmounts, AccountSummary, AccountsOfDay, AnalyticsQueries, Days, TransactionsFilter,
    TransactionsOfDay,
};
pub use self::billing::{
    AccountSums, BillingQueries, BillingStatus, InvoiceFile, SubscriptionFile,
};
pub use self::change_requests::ChangeRequestQueries;
pub use self::control::{ControlDecision, ControlRequest};
pub use self::custom_fields::{CustomFieldQueries, FieldSearch};
pub use self::customers::CustomerQueries;
pub use self::delivery_log::{DeliveryLog, DeliveryLogQueries, DeliveryLogSource, Replays};
pub use self::disputes::{DisputeFilter, DisputeQueries};
pub use self::entitlements::{
    Bought, BoughtBy, ChangedAccount, EntitlementAudience, EntitlementQueries,
};
pub use self::export::{ExportKey, ExportPart, ExportPoint, ExportQueries};
pub use self::flags::{Audience, EnvironmentFile, FlagQueries};
pub use self::followers::{
    CALLBACK, Delivery, FollowerQueries, JournalRow, QueueWindow, WaitingDelivery, callback_of,
    registration_of,
};
pub use self::history::{HistoryOf, HistoryQueries, HistoryRow};
pub use self::insights::{HoursPage, InsightQueries, InsightWriter};
pub use self::ledger::{LedgerEntry, LedgerFilter, LedgerQueries, LedgerTotal};
pub use self::limits::{Awaited, ReadLimits};
pub use self::mails::MailQueries;
pub use self::operations::{Backlog, ExpiryCutoffs, OperationQueries};
pub use self::outcomes::{OutcomeQueries, Unresolved, UnresolvedCount, due_outcomes};
pub use self::payment_methods::{MethodView, PaymentMethodQueries};
pub use self::payments::PaymentQueries;
pub use self::rows::RowQueries;
pub use self::store_error::{Cause, StoreError};
pub use self::tags::{NamedTag, TagQueries};
pub use self::tenants::TenantQueries;
pub use self::timers::{ScheduledRetry, TimerQueries};
pub use self::usage::{Checked, UsageQueries};

/// The commits of one partition. Called from the partition's own thread, one call at a time.
pub trait Store: Send {
    /// Takes ownership of the partition: from now on a commit under an older epoch fails. A database
    /// of this process alone can be opened on a full disk, to be read.
    ///
    /// # Errors
    /// [`StoreError`] where the database cannot be used.
    fn open(&mut self) -> Result<Opened, StoreError>;

    /// Begins a batch: loads the rows that its commands may look at, each with what belongs to it
    /// ([`Read`]), and the stored replies. Rows that are not there are present as `None`.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was begun.
    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        replies: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError>;

    /// Ends a batch: writes all of it in one SQL transaction and returns once it is durable. An
    /// empty batch only ends what `load` began: nothing is written and nothing synced.
    ///
    /// # Errors
    /// [`StoreError`]: nothing of the batch was written, except where
    /// [`StoreError::OutcomeUnknown`] says that this is not known.
    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError>;
}

/// A partition as it was found.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The journal row to write next.
    pub next_seq: Seq,
    /// The numbers to hand out next.
    pub sequences: Sequences,
    /// Where to read on in a queue that keeps what was read; `None` where nothing of it was read.
    pub queue_offset: Option<i64>,
    /// Whether the partition is owned. `false`: the disk is full, so the numbers were only read, and
    /// every commit fails until it is opened again.
    pub is_writable: bool,
    /// Its accounts whose commands are refused.
    pub quarantined: BTreeSet<(TenantNo, AccountId)>,
}

/// An account whose commands are refused until an operator releases it, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    pub tenant: TenantNo,
    pub account: AccountId,
    /// Domain time.
    pub since: Timestamp,
    /// The command that could not be carried out, by its request and its name.
    pub request: RequestId,
    pub command: String,
    pub reason: QuarantineReason,
}

/// Why an account is out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuarantineReason {
    /// A command broke an invariant.
    Bug,
    /// The database refuses what a command writes.
    RefusedByDatabase,
    /// A row that a command needs cannot be read.
    Unreadable,
}

impl QuarantineReason {
    pub const ALL: [Self; 3] = [Self::Bug, Self::RefusedByDatabase, Self::Unreadable];

    /// Its name in the database and in answers.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Bug => "bug",
            Self::RefusedByDatabase => "refused-by-database",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The state and the stored replies that a batch may read.
#[derive(Debug, Default)]
pub struct Loaded {
    pub state: State,
    /// The stored replies that exist, of those asked for.
    pub replies: BTreeMap<ReplyKey, StoredReply>,
}

/// The rows that a batch writes, all or nothing.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Accepted commands, in order; their `seq` are consecutive.
    pub entries: Vec<Entry>,
    /// Stored replies: new ones, and those that became final (insert or replace by key).
    pub replies: Vec<StoredReply>,
    /// Progress of the journal's followers.
    pub bookkeeping: Vec<Bookkeeping>,
    /// The next numbers to hand out; `None` where the batch took no numbers.
    pub sequences: Option<Sequences>,
    /// Where to read on in the queue, where the batch came from one that keeps what was read.
    pub queue_offset: Option<i64>,
}

/// An accepted command: one journal row, and the rows it wrote.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its journal row.
    pub seq: Seq,
    /// Domain time of its batch.
    pub at: Timestamp,
    /// The tenant it is about.
    pub tenant: TenantNo,
    pub request: RequestId,
    /// The command's name.
    pub command: &'static str,
    pub actor: Actor,
    /// Rows written, in order. Those whose revision is `seq` are part of the history.
    pub changes: Vec<Change>,
    /// Facts for the followers.
    pub events: Vec<Event>,
}

/// The reply to a request that can come twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReply {
    pub key: ReplyKey,
    /// Hash of the request.
    pub fingerprint: uuid::Uuid,
    /// `None` while it runs or its outcome is in doubt.
    pub answer: Option<Result<Reply, Rejection>>,
    /// When it may be deleted.
    pub expires_at: Timestamp,
}

/// The records that followers of the journal store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bookkeeping {
    /// A follower has dealt with every journal row up to this one.
    Followed {
        /// The follower's name.
        follower: &'static str,
        upto: Seq,
    },
    /// A delivery that failed and is to be tried again (insert or replace by id).
    DeliveryPostponed(Delivery),
    /// A mail that could not be sent and is to be tried again, or was given up.
    MailPostponed(Mail),
    /// A mail that was sent, or is not to be sent any more.
    MailClosed { tenant: TenantNo, id: MailId },
    /// The notification URL of an operation was called.
    OperationNotified {
        tenant: TenantNo,
        id: OperationId,
        /// When to call again; `None` where it was notified, or given up.
        again_at: Option<Timestamp>,
        /// How many calls have failed.
        attempts: u32,
    },
    /// Some expired rows are deleted: so many that a commit does not take long.
    Expired(ExpiryCutoffs),
    /// A delivery that succeeded or was given up after so many failed attempts. One that was queued anew meanwhile
    /// stays.
    DeliveryClosed { id: DeliveryId, attempts: u32 },
    /// An account is out of service from now on.
    Quarantined(Quarantined),
    /// It is in service again.
    Released { tenant: TenantNo, account: AccountId },
}

/// Reads of committed rows, on connections of their own. Blocking; see `Engine::read`.
/// Everything is scoped by tenant: what belongs to another one is not there. The journal, its
/// followers, deliveries and outcomes due are those of one partition. Whatever limit is
/// asked for, an answer has no more than [`ROWS_MAX`] rows.
pub trait Queries:
    TenantQueries
    + AccessQueries
    + FlagQueries
    + ChangeRequestQueries
    + InsightQueries
    + CustomerQueries
    + MailQueries
    + OperationQueries
    + AccountQueries
    + RowQueries
    + TagQueries
    + CustomFieldQueries
    + PaymentMethodQueries
    + PaymentQueries
    + DisputeQueries
    + EntitlementQueries
    + UsageQueries
    + BillingQueries
    + OutcomeQueries
    + TimerQueries
    + HistoryQueries
    + LedgerQueries
    + FollowerQueries
    + ExportQueries
{
    /// The same reads, each of which ends with [`StoreError::ReadTooLong`] once these limits are
    /// passed.
    fn within(&self, limits: ReadLimits) -> Box<dyn Queries>;
}

/// How many rows a query answers with at most.
pub const ROWS_MAX: u64 = 10_000;

/// How many rows a page has at most that is read beside others' reads; a larger one is a scan.
pub const ROWS_BESIDE_OTHERS_MAX: u64 = 1_000;

/// A window on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The number of rows to skip.
    pub offset: u64,
    /// The maximum number of rows.
    pub limit: u64,
}

impl Page {
    /// The window on the rows of a gateway, or on all rows.
    #[must_use]
    pub const fn of_gateway(self, gateway: Option<&str>) -> GatewayPage<'_> {
        GatewayPage { gateway, page: self }
    }
}

/// A window on the rows of one gateway, or of all gateways.
#[derive(Clone, Copy, Debug)]
pub struct GatewayPage<'a> {
    /// The gateway whose rows are listed; `None` for all rows.
    pub gateway: Option<&'a str>,
    pub page: Page,
}

/// A window's contents.
#[derive(Clone, Debug)]
pub struct Paged<T> {
    pub items: Vec<T>,
    /// How many rows match, the window aside.
    pub matching: u64,
    /// How many rows there are, the filter aside.
    pub all: u64,
}

/// A boxed future, so that gateways can be kept in one map.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A payment gateway. Its answers are untrusted: the domain compares amounts and cuts texts.
pub trait Gateway: Send + Sync {
    /// The settings of the gateway that the domain needs.
    fn settings(&self) -> GatewaySettings;

    /// How many calls may be in flight; `None`: as many as the engine lets any gateway have.
    fn in_flight_max(&self) -> Option<usize> {
        None
    }

    /// Reads a tenant's configuration of the gateway, and returns the tenant's account there; `None` where the
    /// gateway has no accounts. It may ask the gateway.
    ///
    /// # Errors
    /// [`RequestRefused`].
    fn merchant_account<'a>(
        &'a self,
        _configuration: &'a str,
    ) -> BoxFuture<'a, Result<Option<MerchantAccount>, RequestRefused>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Makes a page on which a customer enters a payment method.
    ///
    /// # Errors
    /// [`RequestRefused`].
    fn form(&self, _form: FormRequest) -> BoxFuture<'_, Result<Form, RequestRefused>> {
        Box::pin(std::future::ready(Err(RequestRefused::Unsupported)))
    }

    /// Whether it lists the payment methods of customers.
    fn lists_methods(&self) -> bool {
        false
    }

    /// The payment methods that the customer of an account has at the gateway; none where it knows no such customer.
    ///
    /// # Errors
    /// [`RequestRefused`].
    fn methods(
        &self,
        _tenant: TenantNo,
        _account: AccountId,
    ) -> BoxFuture<'_, Result<Vec<MethodAtGateway>, RequestRefused>> {
        Box::pin(std::future::ready(Err(RequestRefused::Unsupported)))
    }

    /// Attaches a payment method to its customer, detaches it, or finds out whether it is attached. The method's id
    /// with the task is the idempotency key. As with a call, nothing may leave after the deadline, but for a part of
    /// `settle_after`. Only asked of a gateway whose settings say that it attaches methods.
    fn method(&self, _request: MethodRequest, _deadline: Deadline) -> BoxFuture<'_, MethodAnswer> {
        Box::pin(std::future::ready(MethodAnswer::NotSent {
            message: "the gateway keeps no payment methods".to_owned(),
            cause: NotSentCause::Call,
        }))
    }

    /// Performs a call. The transaction's id is the idempotency key: a gateway that got it before
    /// must not charge again. The engine stops waiting at the deadline. Nothing of the call may leave
    /// later, but for a part of `settle_after`: another process may ask about it then, and believe that it was never sent.
    fn call(&self, call: GatewayCall, deadline: Deadline) -> BoxFuture<'_, GatewayAnswer>;

    /// Whether it decides about calls that name it as a control plugin.
    fn controls(&self) -> bool {
        false
    }

    /// Decides whether a call about a payment goes on; until the deadline, it is waited for.
    ///
    /// # Errors
    /// Why there is no decision that can be believed: the call is refused.
    fn control(
        &self,
        _request: ControlRequest,
        _deadline: Deadline,
    ) -> BoxFuture<'_, Result<ControlDecision, String>> {
        Box::pin(std::future::ready(Err("it is no control program".to_owned())))
    }

    /// Asks for the outcome of a transaction.
    fn inquire(&self, inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge>;

    /// Reads a dispute of a transaction. Nothing is believed of it but what the gateway says: a dispute of another
    /// payment is not found.
    fn dispute(&self, _of: DisputeInquiry) -> BoxFuture<'_, DisputeKnowledge> {
        Box::pin(std::future::ready(DisputeKnowledge::NotFound))
    }

    /// Reads what somebody posted to the tenant as a notification of this gateway. Whether it is from the gateway
    /// is for this method to find out.
    ///
    /// # Errors
    /// [`RequestRefused`].
    fn notification(
        &self,
        _posted: PostedNotification,
    ) -> BoxFuture<'_, Result<Option<Notified>, RequestRefused>> {
        Box::pin(std::future::ready(Err(RequestRefused::Unsupported)))
    }
}

/// Why a gateway does not do what it was asked for beside calls, or why its notification is not booked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestRefused {
    /// The gateway has no such thing.
    Unsupported,
    /// The request is invalid: the reason, for its sender; without the value.
    Invalid(String),
    /// The gateway cannot be asked now: the sender should repeat the request.
    Unavailable(String),
    /// The same, for a reason of the request's or the tenant's, such as its credentials: it says nothing of the
    /// gateway.
    Unfit(String),
}

/// A request for a page of a gateway.
#[derive(Clone, Debug)]
pub struct FormRequest {
    pub tenant: TenantNo,
    /// Names the request: the same where the client sends it again with its idempotency key, so that it gets the
    /// same page.
    pub request: uuid::Uuid,
    /// The account whose customer uses it.
    pub account: AccountId,
    /// The client's fields for the page: untrusted.
    pub fields: Properties,
}

/// A page of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Where the customer's browser goes, by GET.
    pub url: String,
    /// The fields that the client gets beside the URL.
    pub fields: Properties,
}

/// A notification as it was posted: untrusted.
#[derive(Clone, Debug)]
pub struct PostedNotification {
    /// Whose endpoint it was posted to.
    pub tenant: TenantNo,
    /// Names in lower case; without credentials.
    pub headers: Vec<(String, String)>,
    /// As it came: signatures are over these bytes.
    pub body: Bytes,
}

/// The content of a notification; there is none where the notification is about nothing of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notified {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    pub news: News,
}

/// The news of a transaction in a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Outcome(GatewayKnowledge),
    /// It is disputed.
    Dispute {
        /// The gateway's id of the case.
        case: String,
        said: Box<DisputeSaid>,
    },
}

/// A question about a transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inquiry {
    pub tenant: TenantNo,
    pub payment: PaymentId,
    /// The transaction: the idempotency key of the call.
    pub transaction: TransactionId,
}

/// A question about a dispute of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DisputeInquiry {
    pub of: Inquiry,
    /// The gateway's id of the case.
    pub case: String,
}

/// A gateway's answer to an inquiry about a dispute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisputeKnowledge {
    Found(Box<DisputeSaid>),
    /// It has none, or it is another transaction's.
    NotFound,
    Unreachable,
}

/// A question that the owner of a partition asks a gateway for a front.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// The question about the outcome of a transaction.
    Outcome(Inquiry),
    Dispute(DisputeInquiry),
}

impl Question {
    /// The transaction that it is about.
    #[must_use]
    pub const fn of(&self) -> &Inquiry {
        match self {
            Self::Outcome(of) | Self::Dispute(DisputeInquiry { of, .. }) => of,
        }
    }
}
