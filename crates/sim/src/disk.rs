//! What outlives a crash: a store's data, and what the simulation reads of it.

use std::collections::BTreeMap;

use domain::blocking_state::BlockingState;
use domain::change::{AccountChange, Change, PaymentChange};
use domain::custom_field::CustomField;
use domain::customer::CustomerFile;
use domain::dispute::Dispute;
use domain::mail::Mail;
use domain::operation::Operation;
use domain::payment::{Outstanding, PaymentFile};
use domain::payment_attempt::{PaymentAttempt, PaymentVelocity};
use domain::tag::Tag;
use domain::timer::Timer;
use domain::{
    Account, AttemptId, PartitionNo, PaymentId, PaymentMethod, Person, TenantNo, Timestamp,
};
use engine::ports::{Entry, HistoryOf, LedgerEntry, Store};
use store::Share;

use crate::faulty::Cut;

/// How many rows one reading takes at most: far above what a simulation writes.
pub const ROWS_MAX: usize = 1_000_000;

/// A store's data.
pub trait Disk {
    /// The store's writer.
    type Store: Store + 'static;

    /// Opens the data, or a share of it, as a process that starts does. Its earlier owner is not stopped.
    fn connect(&self, share: Share) -> Self::Store;

    /// What ends the store's connection to its data, where it has one.
    fn cut(&self) -> Option<Cut> {
        None
    }

    /// The outcomes for which an inquiry is due.
    fn due(&self, now: Timestamp) -> Vec<Outstanding>;

    /// The outcomes of calls that no process runs, as a process finds them at its start.
    fn orphans(&self) -> Vec<Outstanding>;

    /// The outcomes of one payment that are waited for.
    fn outstanding_of(&self, tenant: TenantNo, payment: PaymentId) -> Vec<Outstanding>;

    /// The timers that are due at a domain time.
    fn timers_due(&self, now: Timestamp) -> Vec<Timer>;

    /// An attempt by id.
    fn attempt(&self, tenant: TenantNo, id: AttemptId) -> Option<PaymentAttempt>;

    fn payment(&self, tenant: TenantNo, payment: PaymentId) -> Option<PaymentFile>;

    /// One entity's history, oldest first.
    fn history(&self, tenant: TenantNo, of: HistoryOf) -> Vec<Image>;

    /// All data that the final checks read.
    fn books(&self) -> Books;

    /// What the store's own verification finds wrong.
    fn problems(&self) -> Vec<String>;
}

/// Everything that the final checks look at.
#[derive(Debug, Default)]
pub struct Books {
    /// The last journal row of each partition.
    pub heads: BTreeMap<PartitionNo, i64>,
    /// The journal's rows that are there, in order.
    pub journal: Vec<i64>,
    /// Accounts with what is known of the person.
    pub accounts: Vec<(Account, Person)>,
    /// Customers with their sessions, forgotten ones too.
    pub customers: Vec<CustomerFile>,
    /// Mails that are still to be sent.
    pub mails: Vec<Mail>,
    /// What was kept to be made later, and how it ended.
    pub operations: Vec<Operation>,
    /// Tags on accounts, those that were removed too.
    pub tags: Vec<Tag>,
    /// Custom fields that are shown.
    pub custom_fields: Vec<CustomField>,
    /// Active blocking states of accounts.
    pub blocking_states: Vec<BlockingState>,
    /// Payment methods, deleted ones too.
    pub methods: Vec<PaymentMethod>,
    /// Attempts of controlled calls, aborted ones too.
    pub attempts: Vec<PaymentAttempt>,
    pub timers: Vec<Timer>,
    pub disputes: Vec<Dispute>,
    /// What accounts started in a day.
    pub velocities: Vec<PaymentVelocity>,
    /// Payments with their transactions.
    pub payments: Vec<PaymentFile>,
    pub entries: Vec<(TenantNo, LedgerEntry)>,
    /// Outcomes that are waited for.
    pub outstanding: Vec<Outstanding>,
    /// The follower's place in each partition.
    pub followed: BTreeMap<PartitionNo, i64>,
}

/// One state that an entity had.
#[derive(Clone, Debug)]
pub struct Image {
    /// The journal row.
    pub seq: i64,
    pub image: Change,
}

/// Whether an entry makes what an image of it shows.
#[must_use]
pub fn is_made(entry: &Entry, image: &Change) -> bool {
    image.revision().is_some_and(|it| it.seq == entry.seq && it.previous.is_none())
}

/// What has a history in an entry.
#[must_use]
pub fn entity(image: &Change) -> Option<HistoryOf> {
    match image {
        Change::Account(AccountChange::Account(it)) => Some(HistoryOf::Account(it.id)),
        Change::Account(AccountChange::Tag(it)) => Some(HistoryOf::Tag(it.id)),
        Change::Account(AccountChange::Email(it)) => Some(HistoryOf::AccountEmail(it.id)),
        Change::Account(AccountChange::BlockingState(it)) => Some(HistoryOf::BlockingState(it.id)),
        Change::Account(AccountChange::CustomField(it)) => Some(HistoryOf::CustomField(it.id)),
        Change::Account(AccountChange::PaymentMethod(it)) => Some(HistoryOf::PaymentMethod(it.id)),
        Change::Payment(PaymentChange::Payment(it)) => Some(HistoryOf::Payment(it.id)),
        Change::Payment(PaymentChange::Transaction(it)) => Some(HistoryOf::Transaction(it.id)),
        Change::Payment(PaymentChange::Attempt(it)) => Some(HistoryOf::PaymentAttempt(it.id)),
        Change::Payment(PaymentChange::Dispute(_))
        | Change::Tenant(_)
        | Change::Access(_)
        | Change::Flag(_)
        | Change::Customer(_)
        | Change::Entitlement(_)
        | Change::Claim(_)
        | Change::Timer(_)
        | Change::Account(
            AccountChange::Person { .. }
            | AccountChange::PersonErased { .. }
            | AccountChange::AuditImported(_),
        )
        | Change::Payment(
            PaymentChange::Velocity(_)
            | PaymentChange::Posting(_)
            | PaymentChange::Outstanding(_)
            | PaymentChange::OutstandingClosed { .. },
        )
        | Change::ReplySettled { .. } => None,
    }
}
