//! A store's data, which outlives a crash, and the simulation's reads of it.

use std::collections::BTreeMap;

use domain::account::blocking_state::BlockingState;
use domain::account::custom_field::CustomField;
use domain::account::tag::Tag;
use domain::billing::account::AccountBilling;
use domain::billing::invoice::{Invoice, InvoiceItem};
use domain::change::Change;
use domain::customer::CustomerFile;
use domain::customer::mail::Mail;
use domain::customer::operation::Operation;
use domain::entitlement::Entitlements;
use domain::ledger::Posting;
use domain::payment::attempt::{PaymentAttempt, PaymentVelocity};
use domain::payment::dispute::Dispute;
use domain::payment::{Outstanding, PaymentFile};
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

    /// The function that ends the store's connection to its data; `None` where it has no connection.
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

    /// All that is billed.
    fn bills(&self) -> Bills;

    /// The problems that the store's own verification finds; empty where there are none.
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
    /// Queued registrations, and how they ended.
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
    /// How many payments accounts started in a day, and their sums.
    pub velocities: Vec<PaymentVelocity>,
    /// Payments with their transactions.
    pub payments: Vec<PaymentFile>,
    pub entries: Vec<(TenantNo, LedgerEntry)>,
    /// Outcomes that are waited for.
    pub outstanding: Vec<Outstanding>,
    /// The follower's place in each partition.
    pub followed: BTreeMap<PartitionNo, i64>,
}

/// All that is billed, as it is paid and posted, and what is given for it.
#[derive(Debug, Default)]
pub struct Bills {
    pub invoices: Vec<Invoice>,
    pub items: Vec<InvoiceItem>,
    /// What accounts' billing has once.
    pub accounts: Vec<AccountBilling>,
    pub timers: Vec<Timer>,
    pub postings: Vec<Posting>,
    pub payments: Vec<PaymentFile>,
    pub entitlements: Vec<Entitlements>,
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
