//! What the engine needs from outside: a store to commit to, queries to read with, gateways to
//! call, and a clock. `sim` implements them again.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;

use domain::access::{Role, User};
use domain::change_request::{ChangeRequest, ChangeStatus};
use domain::customer::{Customer, CustomerFile, Session};
use domain::definition::{Definition, DefinitionKey};
use domain::environment::{Environment, Secret};
use domain::mail::Mail;
use domain::operation::Operation;
use domain::payment::{
    Actor, GatewayAnswer, GatewayKnowledge, Outstanding, PaymentFile, PaymentState, ReplyKey,
    Transaction, TransactionStatus,
};
use domain::state::{Change, Read, State};
use domain::tag::Tag;
use domain::tenant::{Tenant, TenantValue};
use domain::{
    Account, AccountId, ChangeRequestId, Currency, CustomerId, EnvironmentId, Event, GatewayCall,
    GatewaySettings, MailId, OperationId, PaymentId, PaymentMethod, PaymentMethodId, Person,
    Rejection, Reply, RequestId, Seq, Sequences, SessionId, TagId, TenantId, TenantNo, Timestamp,
    TransactionId,
};

use crate::insights::{FlagCount, Hours, MetricCount};

mod endings;

pub use self::endings::{Backlog, Over};

/// The commits of one partition. Called from the partition's own thread, one call at a time.
pub trait Store: Send {
    /// Takes ownership of the partition: from now on a commit under an older epoch fails.
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
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// The journal row to write next.
    pub next_seq: Seq,
    /// The numbers to hand out next.
    pub sequences: Sequences,
    /// Where to read on in a queue that keeps what was read; `None` where nothing of it was read.
    pub queue_offset: Option<i64>,
}

/// What a batch may look at.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The rows.
    pub state: State,
    /// The stored replies that exist, of those asked for.
    pub replies: BTreeMap<ReplyKey, StoredReply>,
}

/// What a batch writes, all or nothing.
#[derive(Debug, Default)]
pub struct Batch {
    /// Accepted commands, in order; their `seq` are consecutive.
    pub entries: Vec<Entry>,
    /// Stored replies: new ones, and those that became final (insert or replace by key).
    pub replies: Vec<StoredReply>,
    /// Progress of the journal's followers.
    pub bookkeeping: Vec<Bookkeeping>,
    /// What to hand out next; `None` where the batch took no numbers.
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
    /// The request.
    pub request: RequestId,
    /// The command's name.
    pub command: &'static str,
    /// Who asked.
    pub actor: Actor,
    /// Rows written, in order. Those whose revision is `seq` are part of the history.
    pub changes: Vec<Change>,
    /// Facts for the followers.
    pub events: Vec<Event>,
}

/// The reply to a request that can come twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReply {
    /// Which request.
    pub key: ReplyKey,
    /// Hash of the request.
    pub fingerprint: uuid::Uuid,
    /// `None` while it runs or its outcome is in doubt.
    pub answer: Option<Result<Reply, Rejection>>,
    /// When it may be forgotten.
    pub expires_at: Timestamp,
}

/// What followers of the journal remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bookkeeping {
    /// A follower has dealt with every journal row up to this one.
    Followed {
        /// The follower's name.
        follower: &'static str,
        /// The last row.
        upto: Seq,
    },
    /// A delivery that failed and is to be tried again (insert or replace by id).
    DeliveryPostponed(Delivery),
    /// A mail that could not be sent and is to be tried again, or was given up.
    MailPostponed(Mail),
    /// A mail that was sent, or is not to be sent any more.
    MailClosed {
        /// Whose.
        tenant: TenantNo,
        /// Which.
        id: MailId,
    },
    /// Whoever wanted to be told the end of an operation was called.
    OperationNotified {
        /// Whose.
        tenant: TenantNo,
        /// Which.
        id: OperationId,
        /// When to call again; `None` where they were told, or it was given up.
        again_at: Option<Timestamp>,
        /// How often they could not be called.
        attempts: u32,
    },
    /// Some of what is over is deleted: so much that a commit does not take long.
    Over(Over),
    /// A delivery that succeeded or was given up.
    DeliveryClosed {
        /// Which.
        id: DeliveryId,
    },
}

/// Names a delivery: the `ordinal`-th event of a journal row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    /// The journal row.
    pub seq: Seq,
    /// The event in it, from 0.
    pub ordinal: u16,
}

/// A push notification that could not be delivered so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which event.
    pub id: DeliveryId,
    /// Whose.
    pub tenant: TenantNo,
    /// Failed attempts.
    pub attempts: u32,
    /// Domain time of the next attempt.
    pub due_at: Timestamp,
    /// Why the last attempt failed.
    pub error: String,
}

/// Reads of committed rows, on connections of their own. Blocking; see `Engine::read`.
/// Everything is scoped by tenant: what belongs to another one is not there. The journal, its
/// followers, deliveries and outcomes due are those of one partition. Whatever limit is
/// asked for, an answer has no more than [`ROWS_MAX`] rows.
pub trait Queries: Send + Sync {
    /// The tenant with this API key.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn tenant_by_api_key(&self, api_key: &str) -> Result<Option<Tenant>, StoreError>;
    /// The tenant with this external key or API key; the oldest where several have it, so that no
    /// later tenant takes a name over.
    fn tenant_named(&self, name: &str) -> Result<Option<Tenant>, StoreError>;
    /// A tenant by id.
    fn tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError>;
    /// A tenant by number.
    fn tenant_by_no(&self, no: TenantNo) -> Result<Option<Tenant>, StoreError>;
    /// How many tenants there are.
    fn tenant_count(&self) -> Result<i64, StoreError>;
    /// A tenant's stored value.
    fn tenant_value(&self, no: TenantNo, key: &str) -> Result<Option<TenantValue>, StoreError>;
    /// Whether any tenant has a value under `key`.
    fn is_value_in_use(&self, key: &str) -> Result<bool, StoreError>;
    /// A user, deleted or not.
    fn user(&self, username: &str) -> Result<Option<User>, StoreError>;
    /// A role.
    fn role(&self, name: &str) -> Result<Option<Role>, StoreError>;
    /// All roles, by name.
    fn roles(&self) -> Result<Vec<Role>, StoreError>;

    /// A tenant's environments of feature flags, oldest first.
    fn environments(&self, no: TenantNo) -> Result<Vec<Environment>, StoreError>;
    /// An environment by its project's key and its own.
    fn environment_by_key(
        &self,
        no: TenantNo,
        project: &str,
        key: &str,
    ) -> Result<Option<Environment>, StoreError>;
    /// The secrets of all of a tenant's environments, oldest first, those that ended too.
    fn secrets(&self, no: TenantNo) -> Result<Vec<Secret>, StoreError>;
    /// Environments of all tenants that changed after this journal row, in the order of their last
    /// changes; at most `limit`.
    fn environments_changed(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Environment>, StoreError>;
    /// An environment with its secrets, and with what is defined there since a version: everything
    /// for `None`.
    fn environment_file(
        &self,
        no: TenantNo,
        id: EnvironmentId,
        newer_than: Option<i64>,
    ) -> Result<Option<EnvironmentFile>, StoreError>;
    /// The flags and segments of an environment, by kind and key.
    fn definitions(
        &self,
        no: TenantNo,
        environment: EnvironmentId,
    ) -> Result<Vec<Definition>, StoreError>;
    /// A flag or a segment.
    fn definition(
        &self,
        no: TenantNo,
        key: &DefinitionKey,
    ) -> Result<Option<Definition>, StoreError>;
    /// The history of a flag or a segment, newest first; empty where there is none.
    fn definition_history(
        &self,
        no: TenantNo,
        key: &DefinitionKey,
        page: Page,
    ) -> Result<Vec<HistoryRow>, StoreError>;

    /// A change that is kept for later.
    fn change_request(
        &self,
        no: TenantNo,
        id: ChangeRequestId,
    ) -> Result<Option<ChangeRequest>, StoreError>;
    /// The changes of an environment, or those in a status, newest first.
    fn change_requests(
        &self,
        no: TenantNo,
        environment: EnvironmentId,
        status: Option<ChangeStatus>,
        page: Page,
    ) -> Result<Vec<ChangeRequest>, StoreError>;
    /// Scheduled changes of all tenants whose time has come at `now`, oldest first, behind the one
    /// with this time and id; at most `limit`.
    fn change_requests_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, ChangeRequestId)>,
        limit: usize,
    ) -> Result<Vec<ChangeRequest>, StoreError>;

    /// A customer, one who is forgotten too.
    fn customer(&self, no: TenantNo, id: CustomerId) -> Result<Option<Customer>, StoreError>;
    /// A customer by their address, as it is compared.
    fn customer_by_email(
        &self,
        no: TenantNo,
        email_key: &str,
    ) -> Result<Option<Customer>, StoreError>;
    /// Whether an address, as it is compared, has a customer.
    fn is_email_taken(&self, no: TenantNo, email_key: &str) -> Result<bool, StoreError>;
    /// A customer with their sessions.
    fn customer_file(
        &self,
        no: TenantNo,
        id: CustomerId,
    ) -> Result<Option<CustomerFile>, StoreError>;
    /// A session and whose it is.
    fn session(
        &self,
        no: TenantNo,
        id: SessionId,
    ) -> Result<Option<(Session, Customer)>, StoreError>;
    /// All customers, oldest first, those that are forgotten too.
    fn customers(&self, no: TenantNo, page: Page) -> Result<Vec<Customer>, StoreError>;
    /// Customers of all tenants whose time to verify their address is over, the longest first.
    /// Those behind this one, where one is named.
    fn customers_expired(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, CustomerId)>,
        limit: usize,
    ) -> Result<Vec<Customer>, StoreError>;
    /// Mails of all tenants whose time has come, oldest first.
    fn mails_due(&self, now: Timestamp, limit: usize) -> Result<Vec<Mail>, StoreError>;
    /// A mail that is not sent yet, or was given up.
    fn mail(&self, no: TenantNo, id: MailId) -> Result<Option<Mail>, StoreError>;
    /// Mails that are still tried, or those that were given up, oldest first.
    fn mails(&self, no: TenantNo, given_up: bool, page: Page) -> Result<Vec<Mail>, StoreError>;
    /// An operation.
    fn operation(&self, no: TenantNo, id: OperationId) -> Result<Option<Operation>, StoreError>;
    /// Operations of all tenants that are to be made, oldest first, behind the one with this id.
    fn operations_waiting(
        &self,
        after: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError>;
    /// Operations of all tenants whose end somebody is to be told now.
    fn operations_to_notify(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError>;
    /// How much waits to be done for customers of all tenants.
    fn backlog(&self) -> Result<Backlog, StoreError>;
    /// How many operations are to be made; no more than so many are counted.
    fn operations_waiting_count(&self, counted_max: usize) -> Result<usize, StoreError>;
    /// Whether the reply to a request that can come twice is stored, or to come.
    fn has_reply(&self, key: ReplyKey) -> Result<bool, StoreError>;
    /// Whether some of what is over is still there.
    fn has_over(&self, over: Over) -> Result<bool, StoreError>;

    /// An account.
    fn account(&self, no: TenantNo, id: AccountId) -> Result<Option<AccountView>, StoreError>;
    /// An account by external key, or by id where it has no other key.
    fn account_by_key(&self, no: TenantNo, key: &str) -> Result<Option<AccountView>, StoreError>;
    /// All accounts, oldest first.
    fn accounts(&self, no: TenantNo, page: Page) -> Result<Paged<AccountView>, StoreError>;
    /// Accounts whose id is `text`, or whose name, e-mail, external key or company contains it
    /// (ASCII case-insensitively; `%` and `_` are just characters).
    fn search_accounts(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<AccountView>, StoreError>;

    /// An account's tags, those that were removed too, by when they were added.
    fn tags_of(&self, no: TenantNo, account: AccountId) -> Result<Vec<Tag>, StoreError>;

    /// A payment method, deleted or not.
    fn payment_method(
        &self,
        no: TenantNo,
        id: PaymentMethodId,
    ) -> Result<Option<MethodView>, StoreError>;
    /// A payment method by external key, or by id where it has no other key.
    fn payment_method_by_key(
        &self,
        no: TenantNo,
        key: &str,
    ) -> Result<Option<MethodView>, StoreError>;
    /// An account's payment methods, deleted ones too, oldest first.
    fn payment_methods_of(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Vec<MethodView>, StoreError>;
    /// All payment methods that are not deleted, oldest first; `gateway` filters.
    fn payment_methods(
        &self,
        no: TenantNo,
        gateway: Option<&str>,
        page: Page,
    ) -> Result<Paged<MethodView>, StoreError>;
    /// Payment methods whose id or account's id is `text`, or whose external key contains it.
    fn search_payment_methods(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<MethodView>, StoreError>;

    /// A payment.
    fn payment(&self, no: TenantNo, id: PaymentId) -> Result<Option<PaymentFile>, StoreError>;
    /// Whose a payment is.
    fn payment_account(&self, no: TenantNo, id: PaymentId)
    -> Result<Option<AccountId>, StoreError>;
    /// A payment by external key, or by id where it has no other key.
    fn payment_by_key(&self, no: TenantNo, key: &str) -> Result<Option<PaymentFile>, StoreError>;
    /// The payment of a transaction.
    fn payment_of_transaction(
        &self,
        no: TenantNo,
        id: TransactionId,
    ) -> Result<Option<PaymentFile>, StoreError>;
    /// The payment of a transaction by the transaction's external key (or id, where it has none).
    fn payment_of_transaction_key(
        &self,
        no: TenantNo,
        key: &str,
    ) -> Result<Option<PaymentFile>, StoreError>;
    /// An account's payments, oldest first.
    fn payments_of(
        &self,
        no: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<PaymentFile>, StoreError>;
    /// All payments, oldest first; `gateway` filters.
    fn payments(
        &self,
        no: TenantNo,
        gateway: Option<&str>,
        page: Page,
    ) -> Result<Paged<PaymentFile>, StoreError>;
    /// Payments whose id, external key, account's id or state (`CAPTURE_SUCCESS`) is `text`.
    fn search_payments(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<PaymentFile>, StoreError>;

    /// Payments that stand in one of these states, oldest first. Where a payment ordinarily stands,
    /// authorized, captured or purchased or about to be, all of the tenant's are looked at until
    /// enough match: an index of those would cost every payment for a rare question.
    fn payments_in_state(
        &self,
        no: TenantNo,
        states: &[PaymentState],
        page: Page,
    ) -> Result<Paged<PaymentFile>, StoreError>;

    /// What was counted of a flag in an environment, in the order of the hours.
    fn flag_insights(
        &self,
        place: (TenantNo, EnvironmentId),
        flag: &str,
        hours: Hours,
        page: Page,
    ) -> Result<Vec<FlagCount>, StoreError>;
    /// What was measured by a name in an environment, in the order of the hours.
    fn metric_insights(
        &self,
        place: (TenantNo, EnvironmentId),
        event: &str,
        hours: Hours,
        page: Page,
    ) -> Result<Vec<MetricCount>, StoreError>;

    /// The history of one entity, oldest first; empty where there is no such entity.
    fn history(&self, no: TenantNo, of: HistoryOf) -> Result<Vec<HistoryRow>, StoreError>;
    /// The histories of an account and of all that belongs to it, each oldest first: the account,
    /// its payment methods, its payments, their transactions; at most `limit` rows.
    fn account_histories(
        &self,
        no: TenantNo,
        account: AccountId,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError>;

    /// Ledger entries, oldest first.
    fn ledger_entries(
        &self,
        no: TenantNo,
        filter: &LedgerFilter,
        page: Page,
    ) -> Result<Vec<LedgerEntry>, StoreError>;
    /// What each account of the chart adds up to, per currency; `Customer` as one sum.
    fn trial_balance(&self, no: TenantNo) -> Result<Vec<LedgerTotal>, StoreError>;
    /// What customer ledger accounts add up to, per currency; `None` for each account that is not
    /// there. In the order asked for.
    fn balances(
        &self,
        accounts: &[(TenantNo, AccountId)],
    ) -> Result<Vec<Option<Vec<LedgerTotal>>>, StoreError>;
    /// What one billing account's customer ledger account adds up to, per currency.
    fn customer_totals(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Vec<LedgerTotal>, StoreError>;

    /// Journal rows with events after `after`, in order; at most `limit`. The second value is the
    /// last row looked at: rows without events are skipped, and a follower need not see them again.
    fn journal_after(&self, after: Seq, limit: usize)
    -> Result<(Vec<JournalRow>, Seq), StoreError>;
    /// One journal row's events.
    fn journal_row(&self, seq: Seq) -> Result<Option<JournalRow>, StoreError>;
    /// The last journal row written; 0 for none.
    fn journal_head(&self) -> Result<Seq, StoreError>;
    /// What a follower remembers; 0 at first.
    fn followed(&self, follower: &str) -> Result<Seq, StoreError>;
    /// Deliveries due at `now`, oldest due first.
    fn deliveries_due(&self, now: Timestamp, limit: usize) -> Result<Vec<Delivery>, StoreError>;
    /// How many deliveries wait for another attempt.
    fn deliveries_waiting(&self) -> Result<i64, StoreError>;

    /// Outcomes to ask a gateway about: those whose `ask_at` is due at `now`, oldest first.
    fn outstanding_due(&self, now: Timestamp, limit: usize)
    -> Result<Vec<Outstanding>, StoreError>;
    /// Outcomes to ask a gateway about later than `at`, latest first.
    fn outstanding_after(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Outstanding>, StoreError>;
    /// Outcomes of calls that were never asked about and are not planned to be: calls that run,
    /// and those that ran when a process ended.
    fn outstanding_orphans(&self) -> Result<Vec<Outstanding>, StoreError>;
    /// Outcomes of a payment that are waited for.
    fn outstanding_of(
        &self,
        no: TenantNo,
        payment: PaymentId,
    ) -> Result<Vec<Outstanding>, StoreError>;
    /// Outcomes waited for, oldest deadline first.
    fn outstanding(&self, limit: usize) -> Result<Vec<Outstanding>, StoreError>;
    /// How many outcomes are waited for.
    fn outstanding_count(&self) -> Result<i64, StoreError>;

    /// Transactions that are unknown or pending after their call ended, oldest first. Whatever
    /// waits at other tenants is not looked at.
    fn unresolved(&self, no: TenantNo, page: Page) -> Result<Vec<Unresolved>, StoreError>;
    /// How many transactions of all tenants are unknown or pending after their call ended, for each
    /// of the two statuses.
    fn unresolved_counts(&self) -> Result<Vec<UnresolvedCount>, StoreError>;
}

/// Whoever holds what is committed of feature flags in memory: see [`crate::flags`]. Secrets come as
/// they are stored.
pub trait Audience: Send + Sync {
    /// Environments are new, or their secrets changed: this is all of them, in place of what was told.
    fn environments(&self, files: Vec<EnvironmentFile>);
    /// These flags and segments of an environment were made or changed, in the order of their
    /// versions.
    fn changed(&self, environment: EnvironmentId, definitions: Vec<Definition>);
    /// All that there was at the start has been told.
    fn caught_up(&self);
}

/// How many rows a query answers with at most.
pub const ROWS_MAX: u64 = 10_000;

/// A window on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// How many to skip.
    pub offset: u64,
    /// How many at most.
    pub limit: u64,
}

/// A window's contents.
#[derive(Clone, Debug)]
pub struct Paged<T> {
    /// The rows.
    pub items: Vec<T>,
    /// How many rows match, the window aside.
    pub matching: u64,
    /// How many rows there are, the filter aside.
    pub all: u64,
}

/// A transaction whose outcome nobody knows although its call has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// The transaction.
    pub transaction: Transaction,
    /// How often its gateway was asked.
    pub questions: u32,
    /// Domain time of the next question; `None` where nobody will ask again.
    pub ask_at: Option<Timestamp>,
}

/// How many transactions are in an unresolved status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnresolvedCount {
    /// `Unknown` or `Pending`.
    pub status: TransactionStatus,
    /// How many.
    pub transactions: i64,
    /// Domain time of the request for the oldest of them; `None` where there are none.
    pub oldest_at: Option<Timestamp>,
}

/// An environment with what belongs to it, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentFile {
    /// The environment.
    pub environment: Environment,
    /// Its secrets, those that ended too.
    pub secrets: Vec<Secret>,
    /// What is defined there, in the order of the versions.
    pub definitions: Vec<Definition>,
}

/// An account with what is known of the person.
#[derive(Clone, Debug)]
pub struct AccountView {
    /// The account.
    pub account: Account,
    /// Personal data; empty after erasure.
    pub person: Person,
}

/// A payment method with whether it is its account's default.
#[derive(Clone, Debug)]
pub struct MethodView {
    /// The payment method.
    pub method: PaymentMethod,
    /// Whether it is the default.
    pub is_default: bool,
}

/// Whose history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryOf {
    /// An account's.
    Account(AccountId),
    /// A tag's.
    Tag(TagId),
    /// A payment method's.
    PaymentMethod(PaymentMethodId),
    /// A payment's.
    Payment(PaymentId),
    /// A transaction's.
    Transaction(TransactionId),
}

/// One state that an entity had.
#[derive(Clone, Debug)]
pub struct HistoryRow {
    /// The journal row.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub actor: Actor,
    /// The entity as it was: `Account`, `PaymentMethod`, `Payment`, `Transaction` or `Definition`, with the
    /// fields that are kept out of the journal filled in from its table.
    pub image: Change,
    /// For an account: what was known of the person then.
    pub person: Option<Person>,
}

/// Which ledger entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct LedgerFilter {
    /// Of this billing account.
    pub account: Option<AccountId>,
    /// Of this payment (its account must be given too, or is looked up).
    pub payment: Option<PaymentId>,
    /// Written at or after.
    pub from: Option<Timestamp>,
    /// Written before.
    pub to: Option<Timestamp>,
}

/// A posting with the journal row that wrote it.
#[derive(Clone, Debug)]
pub struct LedgerEntry {
    /// The journal row.
    pub seq: Seq,
    /// The posting.
    pub posting: domain::ledger::Posting,
}

/// What an account of the chart adds up to in one currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerTotal {
    /// The account.
    pub account: domain::ledger::LedgerAccount,
    /// Whose gateway; empty for `Customer`.
    pub gateway: String,
    /// The currency.
    pub currency: Currency,
    /// Sum of debits, in minor units.
    pub debit: i128,
    /// Sum of credits, in minor units.
    pub credit: i128,
}

/// A journal row, as followers see it.
#[derive(Clone, Debug)]
pub struct JournalRow {
    /// Its number.
    pub seq: Seq,
    /// Domain time.
    pub at: Timestamp,
    /// Real time of the commit, for measuring lag.
    pub committed_at: Timestamp,
    /// The tenant.
    pub tenant: TenantNo,
    /// What happened.
    pub events: Vec<Event>,
}

/// Why the store did not do something.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full; reads still work.
    #[error("the disk is full")]
    DiskFull,
    /// Another process took the partition over.
    #[error("this process no longer owns the partition")]
    NotOwner,
    /// The writer of another partition took a key first, or got the same request: loaded anew, the
    /// batch will see it.
    #[error("another partition has taken a key")]
    KeyTaken,
    /// The database refused or failed; nothing was written.
    #[error("database: {0}")]
    Database(String),
    /// The database refuses what is in a row, such as a value out of range or against a constraint.
    /// Nothing was written, and the same batch will be refused whenever it comes again.
    #[error("the database refuses a row: {0}")]
    Refused(String),
    /// What a command makes is there already: its id is the request's, so that the same request was
    /// carried out before. Nothing was written.
    #[error("the request was carried out before: {0}")]
    Repeated(String),
    /// The connection to the database was lost, or cannot be made. Nothing was written, and the
    /// store must be opened again.
    #[error("no connection to the database: {0}")]
    ConnectionLost(String),
    /// The commit may or may not have happened.
    #[error("the outcome of a commit is not known: {0}")]
    OutcomeUnknown(String),
    /// A row holds what it cannot hold.
    #[error("corrupt row in {table}: {reason}")]
    Corrupt {
        /// Which table.
        table: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// A boxed future, so that gateways can be kept in one map.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A payment gateway. Its answers are untrusted: the domain compares amounts and cuts texts.
pub trait Gateway: Send + Sync {
    /// What the domain needs to know of it.
    fn settings(&self) -> GatewaySettings;

    /// Performs a call. The transaction's id is the idempotency key: a gateway that got it before
    /// must not charge again. The engine enforces the deadline.
    fn call(&self, call: GatewayCall) -> BoxFuture<'_, GatewayAnswer>;

    /// Asks what became of a transaction.
    fn inquire(&self, inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge>;
}

/// A question about a transaction.
#[derive(Clone, Debug)]
pub struct Inquiry {
    /// Whose.
    pub tenant: TenantNo,
    /// The payment.
    pub payment: PaymentId,
    /// The transaction: the idempotency key of the call.
    pub transaction: TransactionId,
}
