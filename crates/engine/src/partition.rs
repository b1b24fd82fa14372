//! A single-writer partition: one batch at a time, loaded, executed, committed. Synchronous and
//! without a clock of its own, so that `sim` runs the very same code.

mod alerts;
mod quarantine;
mod replies;
mod rights;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use domain::change::{Change, CustomerChange, EntitlementChange, FlagChange, Image as _};
use domain::command::{AccountCommand, EntitlementCommand, PaymentCommand, Subject, TenantCommand};
use domain::entitlement::purchase::Purchase;
use domain::payment::health::BatchHealth;
use domain::payment::{Actor, PaymentFile};
use domain::read::{PaymentRead, Read};
use domain::state::State;
use domain::{
    AccountId, AccountRejection, Command, Effect, EffectId, EntitlementRejection, Executed,
    PaymentId, PaymentRejection, Rejection, Reply, Request, RequestId, Seq, Sequences, Settings,
    Stamp, TenantNo, Timestamp, execute,
};

use self::quarantine::Quarantine;
use self::replies::mark_of;
use crate::ports::{
    Batch, Bookkeeping, Bought, Entry, Loaded, QuarantineReason, Store, StoreError,
};
use crate::unavailable::Reason;

/// How many commands one commit takes at most.
pub const BATCH_COMMANDS_MAX: usize = 1_024;

/// Work for a partition.
#[derive(Debug)]
pub enum Work {
    /// Execute a command.
    Request(Box<Request>),
    /// Store a follower's progress.
    Bookkeeping(Vec<Bookkeeping>),
    /// Remember where to read on in a queue that keeps what was read.
    ReadOn(i64),
}

/// The time of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// In domain time, which the test clock shifts.
    pub now: Timestamp,
    /// In real time, for deadlines and timeouts.
    pub real_now: Timestamp,
}

/// The result of a batch. If a commit fails, nothing of it is written.
#[derive(Debug)]
pub struct Processed {
    /// One per piece of work, in order.
    pub verdicts: Vec<Verdict>,
    /// The effects to perform, now that the batch is durable.
    pub calls: Vec<Performing>,
    /// The last journal row.
    pub head: Seq,
    /// The parts of the state that the batch changed, or may have changed where its commit is in
    /// doubt.
    pub changed: BTreeSet<Changed>,
    /// The rows of purchases that it committed, by the requests that made them.
    pub bought: Vec<(RequestId, Arc<Bought>)>,
    /// How its commit ended.
    pub commit: CommitOutcome,
}

/// A part of the state that others than the batch's clients depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// Users, roles, tenants or their values: caches of them are stale.
    Access,
    /// Environments of feature flags, and what belongs to them.
    Flags,
    /// New mails wait to be sent.
    Mails,
    /// The entitlements of accounts.
    Entitlements,
}

impl Changed {
    const ALL: [Self; 4] = [Self::Access, Self::Flags, Self::Mails, Self::Entitlements];
}

/// How the commit of a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The batch is durable (also where there was nothing to write).
    Committed,
    /// Another partition took a key first, so that nothing was written: processed again, the batch
    /// will see who has it.
    KeyTaken,
    /// Nothing was written because the database refuses a row of one of the works: each of them is
    /// to be processed again, as part of a smaller batch.
    RowRefused,
    /// Nothing was written, and the same may succeed later, in this process.
    NothingWritten,
    /// Another process owns the partition, or it is not known whether the batch was written.
    Lost,
}

impl CommitOutcome {
    fn of(error: &StoreError, works: &[Work]) -> Self {
        match error {
            StoreError::KeyTaken => Self::KeyTaken,
            StoreError::Refused(_) | StoreError::Repeated(_) if is_divisible(works) => {
                Self::RowRefused
            }
            StoreError::NotOwner | StoreError::OutcomeUnknown(_) => Self::Lost,
            StoreError::DiskFull
            | StoreError::Database(_)
            | StoreError::Refused(_)
            | StoreError::Repeated(_)
            | StoreError::ConnectionLost(_)
            | StoreError::ReadTooLong
            | StoreError::Corrupt { .. } => Self::NothingWritten,
        }
    }
}

impl Processed {
    /// Whether the batch is durable.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.commit == CommitOutcome::Committed
    }
}

/// A committed effect, and in whose name its outcome will be written.
#[derive(Clone, Debug)]
pub struct Performing {
    pub effect: Effect,
    /// In whose name it was requested.
    pub actor: Actor,
}

/// The result of one piece of work.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It is answered.
    Answered(Answer),
    /// It is committed, and its answer comes with the outcome of this effect.
    Waits(EffectId),
    /// It was not executed, or a retry reveals the outcome.
    Unavailable(Reason),
}

/// A durable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Replied(Reply),
    /// Refused; nothing was written.
    Refused(Rejection),
    /// A request with this idempotency key runs, or its outcome is in doubt.
    StillRunning,
    /// This idempotency key was used for another request.
    AnotherRequest,
}

impl Answer {
    /// Which kind of answer it is, for the log: the names of its variants, such as `Refused.Account.Invalid`, and none
    /// of the texts that it may quote.
    #[must_use]
    pub fn kind(&self) -> String {
        let shown = format!("{self:?}");
        let is_name = |it: &char| it.is_ascii_alphanumeric() || *it == '(';
        let names: String = shown.chars().take_while(is_name).collect();
        names.trim_end_matches('(').replace('(', ".")
    }
}

/// Whether a gateway may know more about a payment than we do.
#[must_use]
pub fn has_open_transaction(file: &PaymentFile) -> bool {
    file.transactions.iter().any(|transaction| transaction.status.is_open())
}

/// One partition and its place in the journal.
pub struct Partition<S> {
    store: S,
    settings: Arc<Settings>,
    next_seq: Seq,
    sequences: Sequences,
    queue_offset: Option<i64>,
    quarantine: Quarantine,
    /// Which gateways take no calls, as the next batches are stamped with.
    health: BatchHealth,
    /// Set while it is not known what the database holds: the next batch opens it again first.
    in_doubt: bool,
    /// Set while the disk is full. The next batch opens the database first, which writes: so even a
    /// batch with nothing to write tells whether there is room again.
    is_full: bool,
}

impl<S: Store> Partition<S> {
    /// Takes the partition over.
    ///
    /// # Errors
    /// Where the store cannot be opened.
    pub fn open(mut store: S, settings: Arc<Settings>) -> Result<Self, StoreError> {
        let opened = store.open()?;
        Ok(Self {
            store,
            settings,
            next_seq: opened.next_seq,
            sequences: opened.sequences,
            queue_offset: opened.queue_offset,
            quarantine: Quarantine::of(opened.quarantined),
            health: BatchHealth::default(),
            in_doubt: false,
            is_full: !opened.is_writable,
        })
    }

    /// The last journal row written.
    #[must_use]
    pub const fn head(&self) -> Seq {
        Seq(self.next_seq.0 - 1)
    }

    /// Where to read on in a queue that keeps what was read, as the partition was found.
    #[must_use]
    pub const fn queue_offset(&self) -> Option<i64> {
        self.queue_offset
    }

    /// The store, for tests that look at what was written.
    pub const fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// Sets the health of the gateways, which the next batches are stamped with as they are with their time.
    pub fn stamp_health(&mut self, health: BatchHealth) {
        self.health = health;
    }

    /// Executes and commits one batch. `permit` is asked before a gateway call is committed and
    /// keeps what it grants; the granted calls are [`Processed::calls`], in order.
    ///
    /// Where the database refuses what the only command of a batch writes, the command is parked and
    /// the rest is committed. The same for one that came twice, which is not parked; where the rows of
    /// its batch tell that, it need not be alone.
    pub fn process(
        &mut self,
        works: &[Work],
        times: Times,
        permit: &mut dyn FnMut(TenantNo, &str) -> Result<(), Reason>,
    ) -> Processed {
        let count = works.len();
        let tried = self.reopen().and_then(|()| {
            let tried = self.try_process(works, None, times, permit);
            match (tried, only_command(works)) {
                (Err(StoreError::Refused(reason)), Some((at, request))) => {
                    self.park_refused(request, &reason.to_string(), times.now)?;
                    self.try_process(works, Some((at, Reason::Bug)), times, permit)
                }
                (Err(StoreError::Repeated(reason)), Some((at, request))) => {
                    tracing::warn!(request.id = %request.id.0, %reason, "a command came twice");
                    self.try_process(works, Some((at, Reason::Repeated)), times, permit)
                }
                (tried, _) => tried,
            }
        });
        match tried {
            Ok(processed) => processed,
            Err(error) => {
                self.in_doubt |=
                    matches!(error, StoreError::OutcomeUnknown(_) | StoreError::ConnectionLost(_));
                self.is_full |= matches!(error, StoreError::DiskFull);
                let commit = CommitOutcome::of(&error, works);
                if !matches!(commit, CommitOutcome::KeyTaken | CommitOutcome::RowRefused) {
                    tracing::error!(error = %error, works = count, "a batch was not committed");
                }
                // A commit in doubt may have changed anything.
                let changed = if self.in_doubt { Changed::ALL.into() } else { BTreeSet::new() };
                Processed {
                    verdicts: vec![Verdict::Unavailable(Reason::from(&error)); count],
                    calls: vec![],
                    head: self.head(),
                    changed,
                    bought: vec![],
                    commit,
                }
            }
        }
    }

    /// Opens the store again where it is not known what the database holds.
    fn reopen(&mut self) -> Result<(), StoreError> {
        if !self.in_doubt && !self.is_full {
            return Ok(());
        }
        let opened = match self.store.open() {
            // It is no row of a command.
            Err(StoreError::Refused(reason)) => return Err(StoreError::Database(reason)),
            opened => opened?,
        };
        if !opened.is_writable {
            return Err(StoreError::DiskFull);
        }
        (self.next_seq, self.sequences) = (opened.next_seq, opened.sequences);
        self.quarantine.reload(opened.quarantined);
        (self.in_doubt, self.is_full) = (false, false);
        Ok(())
    }

    /// Processes a batch, but for the command at `refused`, which is not carried out for a reason.
    fn try_process(
        &mut self,
        works: &[Work],
        refused: Option<(usize, Reason)>,
        times: Times,
        permit: &mut dyn FnMut(TenantNo, &str) -> Result<(), Reason>,
    ) -> Result<Processed, StoreError> {
        let (loaded, unreadable) = self.load(works, refused.map(|(at, _)| at))?;
        let mut run = Run {
            loaded,
            batch: Batch::default(),
            calls: vec![],
            bought: vec![],
            aborted: BTreeSet::new(),
            next_seq: self.next_seq,
            sequences: self.sequences,
            times,
            permit,
        };
        let mut verdicts = Vec::with_capacity(works.len());
        for (at, work) in works.iter().enumerate() {
            verdicts.push(match (work, refused) {
                (Work::Request(_), Some((refused, reason))) if refused == at => {
                    Verdict::Unavailable(reason)
                }
                (Work::Request(request), _) if unreadable.contains(&at) => {
                    self.park(request, times.now)
                }
                (Work::Request(request), _) => self.one(request, &mut run),
                (Work::Bookkeeping(rows), _) => {
                    run.batch.bookkeeping.extend_from_slice(rows);
                    Verdict::Answered(Answer::Replied(Reply::Done))
                }
                (Work::ReadOn(offset), _) => {
                    run.batch.queue_offset = run.batch.queue_offset.max(Some(*offset));
                    Verdict::Answered(Answer::Replied(Reply::Done))
                }
            });
        }
        if run.sequences != self.sequences {
            run.batch.sequences = Some(run.sequences);
        }
        // Before a release of the same account, which is in the batch already.
        run.batch.bookkeeping.splice(..0, self.quarantine.to_write());
        self.store.commit(&run.batch)?;
        self.quarantine.committed(&run.batch.entries);
        run.batch.entries.iter().for_each(log_if_of_rights);
        let changed = run.batch.entries.iter().flat_map(changes_of).collect();
        (self.next_seq, self.sequences) = (run.next_seq, run.sequences);
        let (head, calls, bought) = (self.head(), run.calls, run.bought);
        Ok(Processed { verdicts, calls, head, changed, bought, commit: CommitOutcome::Committed })
    }

    /// Loads what the works may look at, but for the one at `refused`, and says which of them look
    /// at rows that cannot be read: the others are not to fail with them.
    fn load(
        &mut self,
        works: &[Work],
        refused: Option<usize>,
    ) -> Result<(Loaded, BTreeSet<usize>), StoreError> {
        let wanted = || works.iter().enumerate().filter(|(at, _)| refused != Some(*at));
        let mut unreadable = BTreeSet::new();
        let loaded = self.load_for(wanted().map(|(_, work)| work));
        if !matches!(loaded, Err(StoreError::Corrupt { .. })) {
            return Ok((loaded?, unreadable));
        }
        for (at, work) in wanted() {
            match self.load_for([work].into_iter()) {
                Ok(_) => {}
                Err(error @ StoreError::Corrupt { .. }) => {
                    let Work::Request(request) = work else { return Err(error) };
                    tracing::error!(
                        error = %error,
                        request.id = %request.id.0,
                        tenant = request.tenant.0,
                        command = request.command.name(),
                        "a row cannot be read: the command is parked"
                    );
                    unreadable.insert(at);
                }
                Err(error) => return Err(error),
            }
        }
        let rest = wanted().filter(|(at, _)| !unreadable.contains(at));
        Ok((self.load_for(rest.map(|(_, work)| work))?, unreadable))
    }

    fn load_for<'w>(
        &mut self,
        works: impl Iterator<Item = &'w Work>,
    ) -> Result<Loaded, StoreError> {
        let (mut reads, mut replies) = (BTreeSet::new(), BTreeSet::new());
        for work in works {
            let Work::Request(request) = work else { continue };
            replies.extend(request.idempotency.map(|it| it.key));
            replies.extend(mark_of(request));
            request.command.reads(request.tenant, &mut |read| {
                reads.insert(read);
            });
        }
        self.store.load(&reads, &replies)
    }

    /// Takes the account of a command out of service that writes what the database refuses.
    fn park_refused(
        &mut self,
        request: &Request,
        error: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut reads = BTreeSet::new();
        request.command.reads(request.tenant, &mut |read| {
            reads.insert(read);
        });
        let account = match self.store.load(&reads, &BTreeSet::new()) {
            Ok(loaded) => account_of(request, &loaded.state),
            Err(StoreError::Refused(_)) => request.command.account(),
            Err(error) => return Err(error),
        };
        let why = (QuarantineReason::RefusedByDatabase, Some(error));
        self.quarantine.add((request, account), why, now);
        Ok(())
    }

    /// Refuses a command that cannot be judged, and all that comes for its account.
    fn park(&mut self, request: &Request, now: Timestamp) -> Verdict {
        let account = request.command.account();
        self.quarantine.add((request, account), (QuarantineReason::Unreadable, None), now);
        // Whose a payment is, its row would tell.
        Verdict::Unavailable(if account.is_some() { Reason::Quarantined } else { Reason::Bug })
    }

    fn one(&mut self, request: &Request, run: &mut Run) -> Verdict {
        if let Some(known) = run.known_answer(request) {
            return Verdict::Answered(known);
        }
        if run.is_marked(request) || run.has_made(request) {
            tracing::warn!(request.id = %request.id.0, "a command came twice");
            return Verdict::Unavailable(Reason::Repeated);
        }
        let account = account_of(request, &run.loaded.state);
        let is_quarantined = self.quarantine.has(request.tenant, account);
        if let Command::Account(AccountCommand::Release(it)) = &request.command {
            if !is_quarantined {
                let none = AccountRejection::NotFound { id: it.account };
                return Verdict::Answered(Answer::Refused(none.into()));
            }
            let (tenant, account) = (request.tenant, it.account);
            run.batch.bookkeeping.push(Bookkeeping::Released { tenant, account });
        } else if is_quarantined {
            return Verdict::Unavailable(Reason::Quarantined);
        }
        match catch_unwind(AssertUnwindSafe(|| self.execute_granted(request, run))) {
            Ok(Ok(Ok(executed))) => run.accept(request, executed, self.settings.reply_keep_us),
            Ok(Ok(Err(reason))) => Verdict::Unavailable(reason),
            Ok(Err(rejection)) => run.refuse(request, rejection, self.settings.reply_keep_us),
            Err(_) => {
                let now = run.times.now;
                self.quarantine.add((request, account), (QuarantineReason::Bug, None), now);
                Verdict::Unavailable(Reason::Bug)
            }
        }
    }

    /// Executes a command and acquires the permit of the call that it makes. Where a gateway of a routed payment
    /// grants none, that gateway takes no calls and the command is executed again: it may go to the next one, and
    /// a decline is booked without a next try. Without another gateway the reason is returned.
    fn execute_granted(
        &self,
        request: &Request,
        run: &mut Run,
    ) -> Result<Result<Executed, Reason>, Rejection> {
        let mut health = self.health.of(request.tenant);
        loop {
            let stamp = Stamp {
                now: run.times.now,
                real_now: run.times.real_now,
                seq: run.next_seq,
                settings: &self.settings,
                health: &health,
                sequences: run.sequences,
            };
            let executed = execute(&run.loaded.state, request, stamp)?;
            let Some(effect) = executed.done.effects.first() else { return Ok(Ok(executed)) };
            let gateway = effect.gateway();
            let Err(reason) = (run.permit)(effect.tenant(), gateway) else {
                return Ok(Ok(executed));
            };
            let has_tries = match effect {
                Effect::CallGateway(call) => call.tries.is_some(),
                Effect::AskAboutMethod(_) => false,
            };
            match reason.unready() {
                Some(why) if has_tries && health.unready(gateway).is_none() => {
                    health.to_mut().set(gateway, why);
                }
                Some(_) | None => return Ok(Err(reason)),
            }
        }
    }
}

/// The only thing that a batch has to do, where that is a command. Where to read on comes with it.
fn only_command(works: &[Work]) -> Option<(usize, &Request)> {
    let mut rest = works.iter().enumerate().filter(|(_, work)| !matches!(work, Work::ReadOn(_)));
    match (rest.next(), rest.next()) {
        (Some((at, Work::Request(request))), None) => Some((at, request)),
        (_, _) => None,
    }
}

/// Whether a batch has several things to do.
fn is_divisible(works: &[Work]) -> bool {
    works.iter().filter(|work| !matches!(work, Work::ReadOn(_))).count() > 1
}

fn changes_of(entry: &Entry) -> impl Iterator<Item = Changed> {
    Changed::ALL.into_iter().filter(|changed| match changed {
        Changed::Access => entry.changes.iter().any(is_of_access),
        Changed::Flags => entry.changes.iter().any(is_environment),
        Changed::Mails => entry.changes.iter().any(is_mail),
        Changed::Entitlements => entry.changes.iter().any(is_of_entitlements),
    })
}

/// Leaves a trace of changes of rights and secrets for those who read the log.
fn log_if_of_rights(entry: &Entry) {
    let mut objects = entry.changes.iter().filter_map(rights::object_of).peekable();
    if objects.peek().is_none() {
        return;
    }
    let object = objects.collect::<Vec<_>>().join(", ");
    tracing::info!(
        request.id = %entry.request.0,
        tenant = entry.tenant.0,
        command = entry.command,
        user = entry.actor.user.as_str(),
        object,
        "rights or secrets were changed"
    );
}

const fn is_of_access(change: &Change) -> bool {
    matches!(change, Change::Access(_) | Change::Tenant(_))
}

const fn is_environment(change: &Change) -> bool {
    matches!(change, Change::Flag(FlagChange::Environment(_)))
}

const fn is_mail(change: &Change) -> bool {
    matches!(change, Change::Customer(CustomerChange::Mail(_)))
}

const fn is_of_entitlements(change: &Change) -> bool {
    matches!(change, Change::Entitlement(EntitlementChange::Entitlements(_)))
}

/// The account that a request is about, as far as the loaded rows tell.
fn account_of(request: &Request, state: &State) -> Option<AccountId> {
    let payment = match request.command.subject(request.id) {
        Subject::Payment(payment) => payment,
        Subject::System | Subject::Account(_) | Subject::PaymentMethod(_) => {
            return request.command.account();
        }
    };
    let file = state.payment.payments.find(&(request.tenant, payment))?;
    Some(file.payment.account_id)
}

/// Who is named in the journal row of a request. An outcome is written in the name of who asked for the
/// transaction, as the row of what is awaited has it: the account may have been erased since the gateway
/// was called or asked.
fn actor_of(request: &Request, state: &State) -> Actor {
    let asked = request.command.answered().and_then(|transaction| {
        let awaited = state.payment.outstanding.get(&(request.tenant, transaction))?;
        // A gateway that notifies on its own is named itself.
        (awaited.actor.token == request.actor.token).then_some(&awaited.actor)
    });
    asked.unwrap_or(&request.actor).clone()
}

/// The rows of the purchase that a request made.
fn bought_by(request: &Request, changes: &[Change], state: &State) -> Option<Bought> {
    let Command::Payment(PaymentCommand::Buy(it)) = &request.command else { return None };
    let purchase = changes.iter().rev().find_map(Purchase::of)?.clone();
    let payment = purchase.payment_id.and_then(|id| {
        let file = state.payment.payments.find(&(request.tenant, id));
        file.cloned()
    });
    let entitlements = state.entitlement.entitlements.find(&(request.tenant, it.account)).cloned();
    Some(Bought { payment, purchase: Some(purchase), entitlements })
}

/// Counts the payments that went on to the next gateway after a decline.
fn count_next_try(request: &Request, begun: Option<EffectId>) {
    if begun.is_some() && request.command.answered().is_some() {
        metrics::counter!("faregate_cascaded_payments_total").increment(1);
    }
}

/// A batch while its commands are executed.
struct Run<'a> {
    loaded: Loaded,
    batch: Batch,
    calls: Vec<Performing>,
    /// The rows of purchases, by the requests that made them.
    bought: Vec<(RequestId, Arc<Bought>)>,
    /// Requests whose payments control plugins aborted: an attempt is all that they made.
    aborted: BTreeSet<RequestId>,
    next_seq: Seq,
    sequences: Sequences,
    times: Times,
    permit: &'a mut dyn FnMut(TenantNo, &str) -> Result<(), Reason>,
}

impl Run<'_> {
    fn accept(&mut self, request: &Request, executed: Executed, reply_keep_us: i64) -> Verdict {
        let Executed { reply, done, sequences } = executed;
        let mut waits = None;
        for effect in done.effects {
            waits = Some(effect.id());
            self.calls.push(Performing { effect, actor: request.actor.clone() });
        }
        if matches!(reply, Some(Reply::PaymentAborted(_))) {
            self.aborted.insert(request.id);
        }
        let kept = reply.as_ref().filter(|reply| !reply.is_in_doubt()).cloned();
        self.keep(request, kept.map(Ok), reply_keep_us);
        self.mark(request, reply_keep_us);
        self.settle_replies(&done.changes);
        done.events.iter().for_each(|event| alerts::alert(request, event));
        count_next_try(request, waits);
        let actor = actor_of(request, &self.loaded.state);
        self.loaded.state.apply(request.tenant, &done.changes);
        if reply.is_some() {
            let bought = bought_by(request, &done.changes, &self.loaded.state);
            self.bought.extend(bought.map(|rows| (request.id, Arc::new(rows))));
        }
        if !done.changes.is_empty() || !done.events.is_empty() {
            self.batch.entries.push(Entry {
                seq: self.next_seq,
                at: self.times.now,
                tenant: request.tenant,
                request: request.id,
                command: request.command.name(),
                actor,
                changes: done.changes,
                events: done.events,
            });
            self.next_seq.0 += 1;
            self.sequences = sequences;
        }
        match (reply, waits) {
            (Some(reply), _) => Verdict::Answered(Answer::Replied(reply)),
            (None, Some(effect)) => Verdict::Waits(effect),
            (None, None) => unreachable!("a command without a reply calls a gateway"),
        }
    }

    fn refuse(&mut self, request: &Request, rejection: Rejection, reply_keep_us: i64) -> Verdict {
        // What is refused while an outcome is open may be accepted once it is known: not kept.
        let in_doubt = matches!(
            rejection,
            Rejection::Payment(PaymentRejection::InDoubt { .. })
                | Rejection::Entitlement(EntitlementRejection::PurchasePending { .. })
        );
        let kept = request.idempotency.is_some()
            && !in_doubt
            && !rejection.is_personal()
            && !self.has_open_outcome(request);
        if kept {
            self.keep(request, Some(Err(rejection.clone())), reply_keep_us);
        }
        Verdict::Answered(Answer::Refused(rejection))
    }

    /// Whether a payment that the request looks at has a transaction whose outcome is to come.
    fn has_open_outcome(&self, request: &Request) -> bool {
        let mut open = false;
        self.look_at_payments(request, |file| {
            open |= has_open_transaction(file);
        });
        open
    }

    /// Whether what the request makes is there already: in this batch, or among the rows that it
    /// loaded. What is there and was not loaded, the store tells ([`StoreError::Repeated`]).
    fn has_made(&self, request: &Request) -> bool {
        let (state, tenant) = (&self.loaded.state, request.tenant);
        let mut is_there = state.account.accounts.find(&(tenant, request.id.entity(0))).is_some()
            || state.account.payment_methods.find(&(tenant, request.id.entity(0))).is_some()
            || state.payment.payments.find(&(tenant, request.id.entity(0))).is_some()
            || state.entitlement.purchases.find(&(tenant, request.id.entity(0))).is_some()
            || self.aborted.contains(&request.id);
        if let Command::Entitlement(EntitlementCommand::Reserve(it)) = &request.command {
            let key = (tenant, it.account, request.id.entity(0));
            is_there |= state.entitlement.usage.reservations.find(&key).is_some();
        }
        if let Command::Billing(it) = &request.command {
            is_there |= state.billing.has(request.id, (tenant, it.account()));
        }
        if let Command::Tenant(TenantCommand::UploadCatalog(_)) = &request.command {
            let versions = state.tenant.catalog_versions.find(&tenant);
            let key = (tenant, request.id.entity(0));
            is_there |= versions.is_some_and(|it| it.contains_key(&key));
        }
        if let Command::Customer(it) = &request.command {
            is_there |= it.has_made(request.id, tenant, state);
        }
        self.look_at_payments(request, |file| {
            is_there |= file.transaction(request.id.entity(0)).is_some();
        });
        is_there
    }

    /// The payments that a request names, as they are now.
    fn look_at_payments(&self, request: &Request, mut look: impl FnMut(&PaymentFile)) {
        let state = &self.loaded.state;
        request.command.reads(request.tenant, &mut |read| {
            let payment = match read {
                Read::Payment(PaymentRead::Payment(_, id)) => Some(id),
                Read::Payment(PaymentRead::Transaction(tenant, id)) => {
                    state.payment.transactions.get(&(tenant, id)).copied().flatten()
                }
                Read::Claim(key) => {
                    let claim = state.claims.get(&key).and_then(Option::as_ref);
                    claim.map(|claim| PaymentId::new(claim.owner))
                }
                Read::Payment(
                    PaymentRead::Attempts(..)
                    | PaymentRead::ScheduledAttempts(..)
                    | PaymentRead::Velocity(..)
                    | PaymentRead::Rules(..)
                    | PaymentRead::Dispute(..)
                    | PaymentRead::DisputeCount(..),
                )
                | Read::Tenant(_)
                | Read::Access(_)
                | Read::Flag(_)
                | Read::Account(_)
                | Read::Customer(_)
                | Read::Entitlement(_)
                | Read::Billing(_)
                | Read::Timer(..) => None,
            };
            let file = payment.and_then(|id| state.payment.payments.find(&(request.tenant, id)));
            file.into_iter().for_each(&mut look);
        });
    }
}

#[cfg(test)]
mod tests;
