//! Bugs planted at the ports that the simulation owns, to prove that each check can fail. None of
//! this is in the code under test.

use domain::change::{
    AccountChange, Change, ClaimChange, CustomerChange, PaymentChange, TimerChange,
};
use domain::claim::ClaimKind;
use domain::ledger::PostingSource;
use domain::payment::dispute::DisputeBooked;
use domain::payment::{Transaction, TransactionStatus};
use domain::rows::Rows;
use domain::{AmountMinor, PaymentResult, Reply, Seq, Timestamp};
use engine::ports::{Batch, Entry, Loaded, Opened};
use uuid::Uuid;

use crate::faulty::StoreBug;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The store forgets postings.
    ForgetsPosting,
    /// The store writes postings twice.
    PostsTwice,
    /// The store writes a posting with another amount.
    PostsAnotherAmount,
    /// The store forgets what accounts started in a day.
    ForgetsVelocity,
    /// The store forgets how attempts ended.
    ForgetsAttempt,
    /// The store loses the claims on transaction keys.
    LosesClaim,
    /// The store drops the rows of outcomes to wait for.
    DropsOutstanding,
    /// The store keeps the rows of outcomes that came.
    KeepsOutstanding,
    /// The store forgets to set timers.
    DropsTimer,
    /// The store keeps timers that have fired.
    KeepsTimer,
    /// The store does not write replies.
    LosesReply,
    /// The store says that it committed and did not.
    LiesAboutCommit,
    /// The store writes only the first entry of a batch.
    TearsBatch,
    /// The store writes payments without the payment method that is made with them.
    TearsCombo,
    /// The store loads payments as they were before their last transaction.
    LoadsStale,
    /// The store loads transactions as if whatever is reported now were older.
    ForgetsOrder,
    /// The store skips a journal row when it is opened.
    SkipsJournalRow,
    /// The store keeps another row as the revision before.
    BreaksHistory,
    /// The store writes more than was processed.
    InflatesAmount,
    /// The store writes a declined transaction as a success.
    TurnsDeclineIntoSuccess,
    /// The store writes rows under another tenant.
    MixesUpTenants,
    /// The store loads payments without the accounts that belong to them.
    LoadsWithoutAccount,
    /// The store words the stored reply to an outcome in its own way.
    RewordsReply,
    /// The store writes every payment a second time under another id.
    DoublesPayment,
    /// The store writes sums that are not those of the transactions.
    MiscountsSums,
    /// The store forgets the places of the journal's followers.
    ForgetsFollower,
    /// The store lets owners write that have lost their partition.
    ForgetsEpochs,
    /// The store makes what is there already once more.
    ForgetsKeys,
    /// The store forgets now and then how far a queue was read.
    ForgetsOffset,
    /// The store remembers now and then that a queue was read one record further than it was.
    SkipsRecord,
    /// The store writes postings that credit what they debit.
    PostsOneSided,
    /// The store writes postings for transactions that do not exist.
    PostsElsewhere,
    /// The store writes transactions as made with another payment method.
    MixesUpMethods,
    /// The store forgets what a completion asked for.
    ForgetsCalledAmount,
    /// The store finds no transaction by its id.
    FindsNoIds,
    /// The store loses the claims on customers' addresses.
    LosesAddress,
    /// The store keeps the claims on the addresses of who is forgotten.
    KeepsAddress,
    /// The store keeps what accounts say of who is forgotten, and their mails.
    KeepsPerson,
    /// The store loses the sessions' ends.
    KeepsSession,
    /// The store loses mails.
    LosesMail,
    /// The store loses tags.
    LosesTag,
    /// The store loses changes of custom fields.
    LosesField,
    /// The store loses the blocking states of accounts.
    LosesState,
    /// The store loads closed accounts as open.
    ForgetsClosing,
    /// The store loads disputes as if nothing of them were booked.
    BooksDisputeTwice,
    /// The store loads disputes as if each were of the payment that is asked about.
    BelievesAnothersDispute,
    /// The store loads disputes as if no warning had been given.
    WarnsTwice,
    /// The store loads disputes as if the gateway had never been asked about them.
    BelievesOlderNews,
    /// The store writes what a bank only asks about as withdrawn.
    BooksWarnings,
    /// The store forgets what customers have to do.
    ForgetsAction,
    /// The store loads transactions whose call runs as pending.
    LoadsRunningAsPending,
    /// The store loses how what was kept for later ended.
    KeepsOperation,
    /// The process sends calls through another gateway.
    SendsElsewhere,
    /// A call that ended without an answer is booked as a decline, and goes on to the next gateway.
    CascadesAfterUnknown,
    /// An outcome that still waits for its customer is booked as a decline.
    CascadesWhileActing,
    /// Calls that are to cancel leave without a word of it.
    ForgetsToCancel,
    /// The outbox forgets where a call may go on.
    ForgetsTries,
    /// The health of gateways is not stamped with the batch.
    StampsNoHealth,
    /// The process ignores gateways that say that something is undecided.
    IgnoresPending,
    /// The process books what it is notified of on whichever payment is named.
    BelievesMisnamed,
    /// The gateway's client sends calls twice to a gateway that does not look at their ids.
    GatewayForgetsIds,
    /// The world takes something else than its seed into account.
    ForgetsItsSeed,
    /// The gateway's client sends a call again under a new id.
    ResendsWithNewId,
    /// The gateway's client forgets to give up after the deadline.
    WaitsForEver,
    /// The resolver does not ask.
    NeverAsks,
    /// The process answers before the commit, and the commit fails.
    AnswersTooEarly,
    /// The process answers a decline as a success.
    AnswersDeclineAsSuccess,
    /// The process loses the answer of who waits for an outcome.
    LosesWaiter,
    /// The clock of real time runs ahead, so that deadlines pass too early.
    ClockRunsAhead,
    /// The clock of domain time goes back by a second now and then.
    ClockGoesBack,
}

/// All of them, with their names on the command line.
pub const MUTANTS: &[(&str, Mutant)] = &[
    ("forgets-posting", Mutant::ForgetsPosting),
    ("posts-twice", Mutant::PostsTwice),
    ("posts-another-amount", Mutant::PostsAnotherAmount),
    ("loses-claim", Mutant::LosesClaim),
    ("drops-outstanding", Mutant::DropsOutstanding),
    ("keeps-outstanding", Mutant::KeepsOutstanding),
    ("drops-timer", Mutant::DropsTimer),
    ("keeps-timer", Mutant::KeepsTimer),
    ("loses-reply", Mutant::LosesReply),
    ("lies-about-commit", Mutant::LiesAboutCommit),
    ("tears-batch", Mutant::TearsBatch),
    ("tears-combo", Mutant::TearsCombo),
    ("loads-stale", Mutant::LoadsStale),
    ("forgets-order", Mutant::ForgetsOrder),
    ("skips-journal-row", Mutant::SkipsJournalRow),
    ("breaks-history", Mutant::BreaksHistory),
    ("inflates-amount", Mutant::InflatesAmount),
    ("turns-decline-into-success", Mutant::TurnsDeclineIntoSuccess),
    ("mixes-up-tenants", Mutant::MixesUpTenants),
    ("loads-without-account", Mutant::LoadsWithoutAccount),
    ("rewords-reply", Mutant::RewordsReply),
    ("doubles-payment", Mutant::DoublesPayment),
    ("miscounts-sums", Mutant::MiscountsSums),
    ("forgets-follower", Mutant::ForgetsFollower),
    ("forgets-epochs", Mutant::ForgetsEpochs),
    ("forgets-velocity", Mutant::ForgetsVelocity),
    ("forgets-attempt", Mutant::ForgetsAttempt),
    ("forgets-keys", Mutant::ForgetsKeys),
    ("forgets-offset", Mutant::ForgetsOffset),
    ("skips-record", Mutant::SkipsRecord),
    ("posts-one-sided", Mutant::PostsOneSided),
    ("posts-elsewhere", Mutant::PostsElsewhere),
    ("mixes-up-methods", Mutant::MixesUpMethods),
    ("forgets-called-amount", Mutant::ForgetsCalledAmount),
    ("finds-no-ids", Mutant::FindsNoIds),
    ("loses-address", Mutant::LosesAddress),
    ("keeps-address", Mutant::KeepsAddress),
    ("keeps-person", Mutant::KeepsPerson),
    ("keeps-session", Mutant::KeepsSession),
    ("loses-mail", Mutant::LosesMail),
    ("loses-tag", Mutant::LosesTag),
    ("loses-field", Mutant::LosesField),
    ("loses-state", Mutant::LosesState),
    ("forgets-closing", Mutant::ForgetsClosing),
    ("books-dispute-twice", Mutant::BooksDisputeTwice),
    ("believes-anothers-dispute", Mutant::BelievesAnothersDispute),
    ("warns-twice", Mutant::WarnsTwice),
    ("believes-older-news", Mutant::BelievesOlderNews),
    ("books-warnings", Mutant::BooksWarnings),
    ("forgets-action", Mutant::ForgetsAction),
    ("loads-running-as-pending", Mutant::LoadsRunningAsPending),
    ("keeps-operation", Mutant::KeepsOperation),
    ("sends-elsewhere", Mutant::SendsElsewhere),
    ("cascades-after-unknown", Mutant::CascadesAfterUnknown),
    ("cascades-while-acting", Mutant::CascadesWhileActing),
    ("forgets-to-cancel", Mutant::ForgetsToCancel),
    ("forgets-tries", Mutant::ForgetsTries),
    ("stamps-no-health", Mutant::StampsNoHealth),
    ("ignores-pending", Mutant::IgnoresPending),
    ("believes-misnamed", Mutant::BelievesMisnamed),
    ("gateway-forgets-ids", Mutant::GatewayForgetsIds),
    ("forgets-its-seed", Mutant::ForgetsItsSeed),
    ("resends-with-new-id", Mutant::ResendsWithNewId),
    ("waits-for-ever", Mutant::WaitsForEver),
    ("never-asks", Mutant::NeverAsks),
    ("answers-too-early", Mutant::AnswersTooEarly),
    ("answers-decline-as-success", Mutant::AnswersDeclineAsSuccess),
    ("loses-waiter", Mutant::LosesWaiter),
    ("clock-runs-ahead", Mutant::ClockRunsAhead),
    ("clock-goes-back", Mutant::ClockGoesBack),
];

impl Mutant {
    /// The mutant of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        MUTANTS.iter().find(|(own, _)| *own == name).map(|(_, mutant)| *mutant)
    }
}

impl StoreBug for Mutant {
    fn spoil_open(&mut self, opened: &mut Opened) {
        if *self == Self::SkipsJournalRow {
            opened.next_seq = Seq(opened.next_seq.0 + 1);
        }
    }

    fn spoil_load(&mut self, loaded: &mut Loaded) {
        self.spoil_disputes(loaded);
        if *self == Self::LoadsWithoutAccount
            && loaded.state.payment.payments.keys().next().is_some()
        {
            loaded.state.account.accounts = Rows::default();
        }
        if *self == Self::ForgetsClosing {
            loaded.state.account.closed.clear();
        }
        if *self == Self::FindsNoIds {
            loaded.state.payment.transactions.values_mut().for_each(|found| *found = None);
        }
        if *self == Self::LoadsRunningAsPending {
            let files = loaded.state.payment.payments.iter_mut();
            let transactions = files.flat_map(|file| &mut file.transactions);
            transactions
                .filter(|it| it.status == TransactionStatus::InFlight)
                .for_each(|it| it.status = TransactionStatus::Pending);
        }
        if *self == Self::ForgetsOrder {
            let files = loaded.state.payment.payments.iter_mut();
            files
                .flat_map(|file| &mut file.transactions)
                .for_each(|it| it.revision.seq.0 = i64::MAX);
        }
        if *self != Self::LoadsStale {
            return;
        }
        for file in loaded.state.payment.payments.iter_mut() {
            if file.transactions.len() > 1 {
                file.transactions.pop();
            }
        }
    }

    fn spoil(&mut self, batch: &mut Batch, nth: u64) -> bool {
        if *self == Self::LiesAboutCommit && nth % 40 == 39 {
            return false;
        }
        if *self == Self::TearsBatch && nth % 10 == 9 {
            batch.entries.truncate(1);
        }
        if *self == Self::ForgetsOffset && nth % 4 == 3 {
            batch.queue_offset = None;
        }
        if *self == Self::SkipsRecord && nth % 4 == 3 {
            batch.queue_offset = batch.queue_offset.map(|offset| offset + 1);
        }
        if *self == Self::LosesReply {
            batch.replies.clear();
        }
        if *self == Self::ForgetsFollower {
            batch.bookkeeping.clear();
        }
        batch.entries.iter_mut().for_each(|it| self.spoil_entry(it));
        true
    }

    fn spoil_entry(&mut self, entry: &mut Entry) {
        let mut changes = std::mem::take(&mut entry.changes);
        if *self == Self::TearsCombo && changes.iter().any(is_payment) {
            changes.retain(|it| !matches!(it, Change::Account(AccountChange::PaymentMethod(_))));
        }
        changes.iter_mut().for_each(|change| self.spoil_wait(change));
        let spoilt = changes.into_iter().flat_map(|change| self.spoil_change(change));
        entry.changes = spoilt.collect();
    }
}

impl Mutant {
    fn spoil_change(self, mut change: Change) -> Vec<Change> {
        if self.forgets_control(&change) {
            return vec![];
        }
        match (self, &mut change) {
            (Self::ForgetsPosting, Change::Posting(_))
            | (Self::DropsOutstanding, Change::Payment(PaymentChange::Outstanding(_)))
            | (Self::KeepsOutstanding, Change::Payment(PaymentChange::OutstandingClosed { .. }))
            | (Self::LosesReply, Change::ReplySettled(_))
            | (Self::KeepsAddress, Change::Claim(ClaimChange::Released { .. }))
            | (Self::KeepsPerson, Change::Account(AccountChange::PersonErased { .. }))
            | (Self::KeepsSession, Change::Customer(CustomerChange::SessionEnded { .. }))
            | (Self::LosesMail, Change::Customer(CustomerChange::Mail(_)))
            | (Self::LosesTag, Change::Account(AccountChange::Tag(_)))
            | (Self::LosesField, Change::Account(AccountChange::CustomField(_)))
            | (Self::LosesState, Change::Account(AccountChange::BlockingState(_))) => return vec![],
            (Self::LosesAddress, Change::Claim(ClaimChange::Taken { key, .. }))
                if key.kind == ClaimKind::CustomerEmail =>
            {
                return vec![];
            }
            (Self::KeepsOperation, Change::Customer(CustomerChange::Operation(it)))
                if it.settled_at.is_some() =>
            {
                return vec![];
            }
            (Self::LosesClaim, Change::Claim(ClaimChange::Taken { key, .. }))
                if key.kind == ClaimKind::Transaction =>
            {
                return vec![];
            }
            (Self::PostsTwice, Change::Posting(_)) => {
                return vec![change.clone(), change];
            }
            (Self::DoublesPayment, Change::Payment(PaymentChange::Payment(it))) => {
                let mut double = it.clone();
                double.id = domain::Id::new(Uuid::from_u128(it.id.uuid().as_u128() ^ 1));
                return vec![change, Change::Payment(PaymentChange::Payment(double))];
            }
            (Self::PostsAnotherAmount, Change::Posting(it)) => it.amount.0 += 1,
            (Self::PostsOneSided, Change::Posting(it)) => it.credit = it.debit,
            (Self::PostsElsewhere, Change::Posting(it)) => {
                if let PostingSource::Payment { payment, transaction, .. } = &mut it.source {
                    *transaction = domain::Id::new(payment.uuid());
                }
            }
            (Self::MiscountsSums, Change::Payment(PaymentChange::Payment(it))) => {
                it.amounts.captured.0 += 1
            }
            (Self::RewordsReply, Change::ReplySettled(it)) => reword(&mut it.reply),
            (Self::BreaksHistory, Change::Payment(PaymentChange::Payment(it))) => {
                it.revision.previous = it.revision.previous.map(|seq| domain::Seq(seq.0 - 1));
            }
            (Self::MixesUpMethods, Change::Payment(PaymentChange::Transaction(it))) => {
                it.payment_method_id = domain::Id::new(it.payment_id.uuid());
            }
            (Self::ForgetsCalledAmount, Change::Payment(PaymentChange::Transaction(it))) => {
                it.called_amount = None
            }
            (Self::InflatesAmount, Change::Payment(PaymentChange::Transaction(it))) => inflate(it),
            (Self::TurnsDeclineIntoSuccess, Change::Payment(PaymentChange::Transaction(it)))
                if it.status == TransactionStatus::PaymentFailure =>
            {
                it.status = TransactionStatus::Success;
            }
            (Self::MixesUpTenants, Change::Account(AccountChange::Account(it))) => it.tenant.0 = 1,
            _ => {}
        }
        vec![change]
    }

    /// Spoils what customers and banks are waited for.
    fn spoil_wait(self, change: &mut Change) {
        if let (Self::BooksWarnings, Change::Payment(PaymentChange::Dispute(it))) =
            (self, &mut *change)
            && it.status.is_warning()
        {
            it.withdrawn = AmountMinor(100);
        }
        if let (Self::ForgetsAction, Change::Payment(PaymentChange::Outstanding(it))) =
            (self, change)
        {
            it.next_action = None;
        }
    }

    /// Whether the store forgets what control of payments writes: how an attempt ended, or what was started.
    fn forgets_control(self, change: &Change) -> bool {
        if let Change::Payment(PaymentChange::Attempt(it)) = change {
            return self == Self::ForgetsAttempt && it.revision.previous.is_some();
        }
        let is_velocity = matches!(change, Change::Payment(PaymentChange::Velocity(_)));
        let is_set = matches!(change, Change::Timer(TimerChange::Set(_)));
        let is_cleared = matches!(change, Change::Timer(TimerChange::Cleared(_)));
        (self == Self::ForgetsVelocity && is_velocity)
            || (self == Self::DropsTimer && is_set)
            || (self == Self::KeepsTimer && is_cleared)
    }

    fn spoil_disputes(self, loaded: &mut Loaded) {
        let payments: Vec<_> = loaded.state.payment.payments.keys().map(|(_, id)| *id).collect();
        for it in loaded.state.payment.disputes.iter_mut() {
            if self == Self::BooksDisputeTwice {
                it.booked = DisputeBooked::default();
            }
            if self == Self::WarnsTwice {
                it.warned_of = None;
            }
            if self == Self::BelievesOlderNews {
                it.asked_at = Timestamp(0);
            }
            let other = payments.iter().find(|id| **id != it.payment_id);
            if let Some(other) = other.filter(|_| self == Self::BelievesAnothersDispute) {
                it.payment_id = *other;
            }
        }
    }
}

const fn is_payment(change: &Change) -> bool {
    matches!(change, Change::Payment(PaymentChange::Payment(_)))
}

fn reword(reply: &mut Reply) {
    if let Reply::Payment(paid) = reply
        && let PaymentResult::Status { message, .. } = &mut paid.result
    {
        *message = Some("in other words".to_owned());
    }
}

fn inflate(transaction: &mut Transaction) {
    if transaction.status == TransactionStatus::Success {
        let more = transaction.processed_amount.map(|amount| AmountMinor(amount.0 + 1));
        transaction.processed_amount = more;
    }
}
