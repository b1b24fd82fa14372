//! Work on its way to its partition and the answers on their way back.

mod performing;
mod processing;

use std::collections::BTreeMap;

use domain::RequestId;
use engine::partition::{CommitOutcome, Processed, Times, Verdict};

pub(super) use self::processing::process;
use super::owners::{LIVES, OwnerId, Reading};
use super::{Caller, Event, From, Job, SECOND_US, World};
use crate::ask::signup::{Join, Wish};
use crate::ask::{
    Ask, Combo, Created, How, Known, Payer, ROUTER, Reason, Said, Start, Status, Uid, What, When,
};
use crate::audit::{self, Wrong};
use crate::disk::Disk;
use crate::faulty::{Seen, Trouble};
use crate::model::{EXTERNAL, Expected, Kept, Unready};
use crate::mutant::Mutant;
use crate::translate;
use crate::workload::{BANK, CARD, WALLET};

/// How often a client tries before it gives up.
const TRIES_MAX: u32 = 5;

/// How many batches may be processed until nothing is left to do.
const BATCHES_MAX: u32 = 10_000;

const NOT_OWNER: Said = Said::Unavailable("not_owner");
const REPEATED: Said = Said::Unavailable("repeated");

/// A batch that a partition is given.
pub(super) struct Offer {
    pub(super) jobs: Vec<Job>,
    reading: Option<Reading>,
    pub(super) when: When,
    times: Times,
    pub(super) trouble: Trouble,
    /// Whether no gateway has room for a call.
    is_scarce: bool,
    /// The breakers that are open.
    open_breakers: Unready,
    refused_permits: u32,
}

impl Offer {
    /// The gateways that take no calls.
    pub(super) fn unready(&self) -> Unready {
        match self.is_scarce {
            true => [CARD, WALLET, BANK].map(|it| (None, it)).into(),
            false => self.open_breakers.clone(),
        }
    }
}

/// A batch that was processed.
pub(super) struct Batch {
    pub(super) offer: Offer,
    pub(super) processed: Processed,
    pub(super) seen: Seen,
}

/// The partition's answers to a batch.
struct Answers<'a> {
    verdicts: &'a [Verdict],
    /// Whether it said that it committed.
    committed: bool,
    /// Whether the client received it.
    is_heard: bool,
}

impl<D: Disk> World<D> {
    /// Two tenants with accounts and payment methods, so that there is something to pay with.
    pub(super) fn furnish(&mut self) -> Result<(), Wrong> {
        for api_key in ["tenant-0", "tenant-1"] {
            self.client_wants(0, What::NewTenant { api_key: api_key.to_owned() }, false);
        }
        self.drain_all()?;
        let tenants: Vec<u32> = self.model.tenants.keys().copied().collect();
        for no in &tenants {
            for currency in [Some("USD"), Some("JPY"), None] {
                self.client_wants(*no, What::NewAccount { key: None, currency }, false);
            }
        }
        self.drain_all()?;
        for no in &tenants {
            let what = self.workload.set_routing();
            self.client_wants(*no, what, false);
        }
        for no in tenants {
            let tenant = self.model.tenants[&no].clone();
            for account in tenant.accounts.keys().copied() {
                for gateway in [EXTERNAL, WALLET, CARD, ROUTER] {
                    let (key, default) = (None, true);
                    self.client_wants(
                        no,
                        What::NewMethod { account, key, gateway, default },
                        false,
                    );
                }
            }
        }
        self.drain_all()
    }

    /// A client thinks of something and sends it.
    pub(super) fn client_asks(&mut self) {
        let (tenant, what) = self.workload.next(&self.model);
        let twin = if self.is_shared() { self.twin(tenant, &what) } else { None };
        self.client_wants(tenant, what, true);
        if let Some(twin) = twin {
            self.client_wants(tenant, twin, true);
        }
    }

    /// Somebody wants the same key at the same time, for another account, or the same address.
    fn twin(&mut self, tenant: u32, what: &What) -> Option<What> {
        if let What::Customers(wish) = what {
            return self.twin_address(tenant, wish);
        }
        if let What::Combo(Combo { payer: Payer::New { key: Some(_), .. }, .. }) = what {
            return self.random.chance(300).then(|| what.clone());
        }
        let What::Start(it) = what else { return None };
        let accounts: Vec<Uid> = self.model.tenants[&tenant].accounts.keys().copied().collect();
        if it.key.is_none() || accounts.is_empty() || !self.random.chance(300) {
            return None;
        }
        let account = *self.random.pick(&accounts);
        let others =
            Start { account, payment: None, method: None, payment_key: None, ..it.clone() };
        Some(What::Start(others))
    }

    /// Somebody signs up with an address at the time when another one does, or when it is freed.
    fn twin_address(&mut self, tenant: u32, wish: &Wish) -> Option<What> {
        let address = match wish {
            Wish::Join(it) => Some(it.address.clone()),
            Wish::Erase { who, .. } => {
                let it = self.model.tenants[&tenant].people.customers.get(&who.id);
                it.and_then(|it| it.address.clone())
            }
            Wish::Verify { .. }
            | Wish::NewToken { .. }
            | Wish::NewPassword { .. }
            | Wish::Login { .. }
            | Wish::Refresh { .. }
            | Wish::Logout { .. }
            | Wish::Change { .. }
            | Wish::Queue
            | Wish::Fail { .. }
            | Wish::Tag { .. }
            | Wish::Fields { .. } => None,
        };
        let address = address.filter(|_| self.random.chance(500))?;
        let tell = self.random.chance(700);
        Some(What::Customers(Wish::Join(Join { address, tell, ..self.workload.join() })))
    }

    /// A client sends a request; `again` says whether it insists where there is no answer.
    pub(super) fn client_wants(&mut self, tenant: u32, what: What, again: bool) {
        let no = self.events.number();
        let ask = self.workload.ask(self.real, tenant, what);
        let ask = Ask { repeat: ask.repeat.filter(|_| again), ..ask };
        let tries = if again { 0 } else { TRIES_MAX };
        self.callers.insert(no, Caller { ask, tries, open: 0 });
        self.summary.asked += 1;
        self.send(no);
        // A queue that delivers at least once may deliver twice; without one, a client may send twice.
        let may_come_twice = self.is_shared() || self.callers[&no].ask.repeat.is_some();
        if again && self.random.chance(60) && may_come_twice {
            self.deliver(no);
        }
    }

    /// Sends a request, anew: with another request id, as a client that tries again does.
    pub(super) fn send(&mut self, no: u64) {
        let id = self.workload.mint(self.real);
        let Some(caller) = self.callers.get_mut(&no) else { return };
        caller.tries += 1;
        caller.ask.id = id;
        self.deliver(no);
    }

    fn deliver(&mut self, no: u64) {
        let Some(caller) = self.callers.get_mut(&no) else { return };
        caller.open += 1;
        let (ask, tries) = (caller.ask.clone(), caller.tries);
        self.note(format!("asks {no}: {ask:x?}"));
        let job = Job { ask, from: From::Client(no) };
        if self.is_shared() {
            self.append(no, tries, job);
        } else {
            self.owners.values_mut().for_each(|owner| owner.inbox.push_back(job.clone()));
        }
    }

    /// A client whose answer got lost with the process tries again, or gives up.
    pub(super) fn lost(&mut self, no: u64) {
        let Some(caller) = self.callers.get_mut(&no) else { return };
        if caller.open == 0 {
            return;
        }
        caller.open = 0;
        if caller.tries >= TRIES_MAX || self.random.chance(200) {
            self.callers.remove(&no);
        } else {
            let delay = self.random.between(1, 20 * SECOND_US);
            self.later(delay, Event::Again(no));
        }
    }

    /// A client that has its answer asks once more: it lost the answer on its own side.
    pub(super) fn repeat_answered(&mut self) {
        let alive = self.words.iter().filter(|(_, (until, _))| *until > self.when().domain);
        let keys: Vec<Uid> = alive.map(|((key, _), _)| *key).collect();
        if keys.is_empty() {
            return;
        }
        let key = *self.random.pick(&keys);
        let Some(mut ask) = self.ledgers.asked.get(&key).cloned() else { return };
        ask.id = self.workload.mint(self.real);
        let no = self.events.number();
        self.callers.insert(no, Caller { ask, tries: TRIES_MAX, open: 0 });
        self.deliver(no);
    }

    /// Processes what has come in, until there is nothing left; an owner that has lost a partition may take
    /// its time.
    pub(super) fn drain_all(&mut self) -> Result<(), Wrong> {
        for _ in 0..BATCHES_MAX {
            let Some(id) = self.next_up(self.calm) else { return Ok(()) };
            self.batch(id)?;
        }
        let context = format!("{} pieces of work are left", self.pending());
        self.hold(Err(Wrong::new("the world comes to rest", &context)))
    }

    /// Processes what has come in, batch by batch; what fails comes in again.
    pub(super) fn drain(&mut self) -> Result<(), Wrong> {
        let stale_too = self.is_shared() && self.random.chance(300);
        for _ in 0..self.pending() + 2 {
            let Some(id) = self.next_up(stale_too) else { break };
            self.batch(id)?;
        }
        Ok(())
    }

    fn batch(&mut self, id: OwnerId) -> Result<(), Wrong> {
        let owner = &self.owners[&id];
        if owner.lost_place && owner.inbox.is_empty() {
            return self.open_again(id);
        }
        if let Some(other) = self.rival(id) {
            return self.race(id, other);
        }
        let most = self.random.index(6) + 1;
        let mut offer = self.offer(id, most);
        if self.is_to_be_robbed(&offer) {
            return self.rob(id, offer);
        }
        let processed = process(self.owners.get_mut(&id).expect(LIVES), &mut offer);
        let seen = self.owners[&id].spy.take();
        self.conclude(id, Batch { offer, processed, seen })
    }

    /// The next batch of an owner, and what will go wrong with it.
    pub(super) fn offer(&mut self, id: OwnerId, most: usize) -> Offer {
        let (mut jobs, reading) = self.take(id, most);
        if self.random.chance(50) {
            jobs.push(self.follow(id));
        }
        let trouble = self.trouble();
        let (when, times) = (self.when(), self.times());
        let is_scarce = !self.calm && trouble != Trouble::WrittenUnsaid && self.random.chance(20);
        // What was written without a word may have been refused: that the model would not know.
        let is_told = trouble != Trouble::WrittenUnsaid && !self.calm;
        let breaks =
            |it: &&str| is_told && self.breakers.chance(if *it == BANK { 200 } else { 60 });
        let open: Vec<&str> = [CARD, WALLET, BANK].into_iter().filter(breaks).collect();
        let tenants: Vec<u32> = self.model.tenants.keys().copied().collect();
        let mut whose = |it| match tenants.is_empty() || self.breakers.chance(500) {
            true => (None, it),
            false => (Some(*self.breakers.pick(&tenants)), it),
        };
        let open_breakers = open.into_iter().map(&mut whose).collect();
        let refused_permits = 0;
        Offer { jobs, reading, when, times, trouble, is_scarce, open_breakers, refused_permits }
    }

    /// Checks a processed batch, and applies it to the model, its owner and its clients.
    pub(super) fn conclude(&mut self, id: OwnerId, batch: Batch) -> Result<(), Wrong> {
        let Batch { offer, processed, seen } = batch;
        if offer.trouble != Trouble::None {
            self.note(format!("trouble: {:?}", offer.trouble));
        }
        if processed.commit == CommitOutcome::RowRefused {
            self.halve(id, offer.jobs);
            return Ok(());
        }
        let (committed, commit) = (processed.is_committed(), processed.commit);
        let key_taken = commit == CommitOutcome::KeyTaken;
        let nothing_written = key_taken || commit == CommitOutcome::NothingWritten;
        let Processed { mut verdicts, calls, .. } = processed;
        self.spoil_verdicts(&mut verdicts, offer.trouble);
        // Who writes nothing need not know whether it was written.
        let is_nothing = self.is_stale(id) && seen.is_empty() && !committed;
        if !seen.durable || is_nothing {
            self.summary.troubles += 1;
            self.summary.keys_taken += u64::from(key_taken);
            return self.nothing_happened(id, offer, (&verdicts, nothing_written));
        }
        if self.is_stale(id) {
            if seen.is_empty() {
                return self.only_read(id, &offer, &verdicts);
            }
            let check = "who has lost a partition writes nothing";
            self.hold(Err(Wrong::new(check, &format!("{id} wrote {seen:x?}"))))?;
        }
        self.summary.commits += 1;
        self.owners.get_mut(&id).expect(LIVES).at_most = None;
        let found = audit::batch(&seen, offer.when, &mut self.ledgers);
        self.hold_all(found)?;
        if let Some(reading) = &offer.reading {
            self.dealt_with(self.owners[&id].no, reading)?;
        }
        // The process may die between its commit and its answers.
        let dies = !self.calm && self.random.chance(10);
        let answers = Answers { verdicts: &verdicts, committed, is_heard: committed && !dies };
        self.happened(id, &offer, (&seen, &answers))?;
        self.perform(id, calls, dies)?;
        self.audit_touched(&seen)?;
        if committed {
            self.read_on(id, &offer);
        } else {
            // It happened, but this process cannot know: clients will try again.
            self.summary.troubles += 1;
            self.give_back(id, offer);
        }
        if dies { self.crash(id) } else { Ok(()) }
    }

    /// Moves an owner's place in the queue behind the records that it read; clients of expired ones may try again.
    fn read_on(&mut self, id: OwnerId, offer: &Offer) {
        let Some(reading) = &offer.reading else { return };
        self.owners.get_mut(&id).expect(LIVES).read_on = reading.upto;
        for no in &reading.expired {
            self.note(format!("passed over: {no}"));
            self.unavailable(*no);
        }
    }

    /// An owner that has lost its partition may still read what others committed, and answer with it: what it says is
    /// true, and changes nothing.
    fn only_read(&mut self, id: OwnerId, offer: &Offer, verdicts: &[Verdict]) -> Result<(), Wrong> {
        let model = self.model.clone();
        let answers = Answers { verdicts, committed: true, is_heard: true };
        self.happened(id, offer, (&Seen::default(), &answers))?;
        self.model = model;
        Ok(())
    }

    fn trouble(&mut self) -> Trouble {
        if self.calm {
            return Trouble::None;
        }
        self.random.weighted(&[
            (920, Trouble::None),
            (15, Trouble::LoadFails),
            (25, Trouble::CommitFails),
            (10, Trouble::DiskFull),
            (15, Trouble::WrittenUnsaid),
            (15, Trouble::LostUnsaid),
        ])
    }

    /// A follower of the journal remembers how far it is.
    fn follow(&self, id: OwnerId) -> Job {
        let head = self.owners[&id].partition.head().0;
        let what = What::SetValue { key: String::new(), value: None };
        let ask = Ask { id: 0, tenant: 0, repeat: None, what };
        Job { ask, from: From::Follower(head) }
    }

    /// The batch did not commit: then no client may receive anything else.
    fn nothing_happened(
        &mut self,
        id: OwnerId,
        offer: Offer,
        (verdicts, nothing_written): (&[Verdict], bool),
    ) -> Result<(), Wrong> {
        let (mut is_fenced, mut troubles) = (false, vec!["store", "disk_full", "commit_in_doubt"]);
        if self.is_shared() {
            is_fenced = verdicts.iter().any(|it| translate::said(it) == NOT_OWNER);
            troubles.push("not_owner");
        }
        for (job, verdict) in offer.jobs.iter().zip(verdicts) {
            let said = translate::said(verdict);
            if !matches!(said, Said::Unavailable(trouble) if troubles.contains(&trouble)) {
                let context = format!("{:x?}: {said:x?}", job.ask);
                let check = "nothing is answered before it is durable";
                self.hold(Err(Wrong::new(check, &context)))?;
            }
        }
        if is_fenced {
            self.summary.fenced += 1;
            self.give_back(id, offer);
            return self.open_again(id);
        }
        if nothing_written {
            // What was read is read again by the same owner.
            self.give_back(id, Offer { reading: None, ..offer });
        } else {
            self.give_back(id, offer);
        }
        Ok(())
    }

    /// The clients receive an unavailability and retry. What came from a
    /// queue stays there: the next reader will answer.
    fn give_back(&mut self, id: OwnerId, offer: Offer) {
        let is_shared = self.is_shared();
        self.owners.get_mut(&id).expect(LIVES).lost_place |= offer.reading.is_some();
        for job in offer.jobs.into_iter().rev() {
            match job.from {
                From::Call => {
                    if let What::Replied { payment, transaction, .. } = job.ask.what {
                        self.not_kept_waiting(id, payment, transaction);
                    }
                    self.owners.get_mut(&id).expect(LIVES).inbox.push_front(job);
                }
                From::Client(_) if is_shared => {}
                From::Client(no) => self.unavailable(no),
                From::Notification => {
                    if let What::Inquired { transaction, .. } = job.ask.what {
                        let notify = crate::gateway::Later::Notify(transaction);
                        self.later(5 * SECOND_US, Event::Gateway(notify));
                    }
                }
                From::Resolver | From::Maker | From::Follower(_) => {}
            }
        }
    }

    /// A client that waits for an outcome that cannot be written now receives UNKNOWN.
    fn not_kept_waiting(&mut self, id: OwnerId, payment: Uid, transaction: Uid) {
        let waiters = &mut self.owners.get_mut(&id).expect(LIVES).waiters;
        if let Some(no) = waiters.remove(&transaction)
            && !self.is(Mutant::LosesWaiter)
        {
            let how = How::Is(Status::Unknown);
            self.answered(no, &Said::Paid { payment, transaction, how });
        }
    }

    fn unavailable(&mut self, no: u64) {
        let Some(caller) = self.callers.get_mut(&no) else { return };
        caller.open = caller.open.saturating_sub(1);
        if caller.open > 0 {
            return;
        }
        if caller.tries >= TRIES_MAX || self.random.chance(100) {
            self.callers.remove(&no);
        } else {
            let delay = self.random.between(1, 10 * SECOND_US);
            self.later(delay, Event::Again(no));
        }
    }

    /// The batch is durable: the model does the same, and what was said is compared.
    fn happened(
        &mut self,
        id: OwnerId,
        offer: &Offer,
        (seen, answers): (&Seen, &Answers<'_>),
    ) -> Result<(), Wrong> {
        self.model.begin_batch();
        self.model.unready = offer.unready();
        let mut created = created_by(seen);
        for (at, job) in offer.jobs.iter().enumerate() {
            let verdict = &answers.verdicts[at];
            let said = answers.committed.then(|| translate::said(verdict));
            if let From::Follower(upto) = job.from {
                let no = self.owners[&id].no;
                let place = (upto > no.start().0).then_some((no, upto));
                self.ledgers.followed.extend(place);
                continue;
            }
            let request = RequestId(uuid::Uuid::from_u128(job.ask.id));
            let is_passed = said.as_ref().is_none_or(|said| *said == REPEATED)
                && !created.contains_key(&request)
                && self.is_repeated(&job.ask, offer.when, seen);
            if is_passed {
                self.passed(job);
                continue;
            }
            if let Some(Said::Unavailable(reason)) = said {
                let is_refused = ["gateway_full", "breaker_open"].contains(&reason);
                if !is_refused || offer.refused_permits == 0 {
                    let context = format!("{:x?}: {reason}", job.ask);
                    let check = "no command breaks an invariant";
                    self.hold(Err(Wrong::new(check, &context)))?;
                }
                if let From::Client(no) = job.from {
                    self.unavailable(no);
                }
                continue;
            }
            let new = created.get(&request).copied().unwrap_or_default();
            let expected = self.model.judge(&job.ask, offer.when, new);
            if matches!(expected, Expected::Said(_)) {
                // The journal names it once; where it comes again in this batch, that makes nothing.
                created.remove(&request);
            }
            self.mark_outdated(&job.ask.what);
            let said = said.unwrap_or_else(|| unsaid(&expected, &job.ask, seen));
            self.model.keep(&job.ask, &said, offer.when);
            if answers.is_heard {
                self.heard((id, job), &expected, &said, verdict)?;
            }
        }
        Ok(())
    }

    /// Whether what is asked for was made before, and no stored answer says so: then it is passed.
    fn is_repeated(&self, ask: &Ask, when: When, seen: &Seen) -> bool {
        let has_answer = ask.repeat.is_some_and(|repeat| {
            seen.replies.iter().any(|it| it.key.0.as_u128() == repeat.key)
                || self.model.repeated(repeat, when).is_some()
        });
        // Other tokens of a session have no name of their own: with a key, its answer alone tells.
        let is_nameless = matches!(ask.what, What::Customers(Wish::Refresh { .. }));
        let can_tell = ask.repeat.is_none() || !is_nameless;
        self.ledgers.made.contains(&ask.id) && can_tell && !has_answer
    }

    /// A delivery is skipped without an answer: another one of the same request has the answer.
    fn passed(&mut self, job: &Job) {
        let Some(no) = job.client() else { return };
        self.note(format!("passed: {no} came twice"));
        self.summary.repeated += 1;
        let Some(caller) = self.callers.get_mut(&no).filter(|caller| caller.open > 0) else {
            return;
        };
        caller.open -= 1;
        if caller.open == 0 {
            self.callers.remove(&no);
        }
    }

    /// An answer arrives where it is waited for.
    fn heard(
        &mut self,
        (id, job): (OwnerId, &Job),
        expected: &Expected,
        said: &Said,
        verdict: &Verdict,
    ) -> Result<(), Wrong> {
        self.note(format!("answered {:?}: {said:x?}", job.from));
        let right = if expected.admits(said) {
            Ok(())
        } else {
            let context = format!("{:x?}: said {said:x?}, expected {expected:x?}", job.ask);
            Err(Wrong::new("every answer is what the model expects", &context))
        };
        match job.from {
            From::Client(no) => {
                self.hold(right)?;
                self.same_words(&job.ask, said, verdict)?;
                if let Said::Waits(transaction) = said {
                    self.owners.get_mut(&id).expect(LIVES).waiters.insert(*transaction, no);
                } else {
                    self.answered(no, said);
                }
            }
            From::Call => {
                let What::Replied { transaction, .. } = job.ask.what else { return Ok(()) };
                let waiters = &mut self.owners.get_mut(&id).expect(LIVES).waiters;
                if let Said::Waits(next) = said {
                    let waiter = waiters.remove(&transaction);
                    waiters.extend(waiter.map(|no| (*next, no)));
                    self.summary.cascades += 1;
                    return self.hold(right);
                }
                if let Some(no) = waiters.remove(&transaction)
                    && !self.is(Mutant::LosesWaiter)
                {
                    self.hold(right)?;
                    if let Some(caller) = self.callers.get(&no) {
                        let ask = caller.ask.clone();
                        self.same_words(&ask, said, verdict)?;
                    }
                    self.answered(no, said);
                }
            }
            From::Notification => {
                if let What::Inquired { payment, transaction, known: Known::Found(_), .. } =
                    job.ask.what
                    && self.gateway.book[&transaction].payment == payment
                {
                    self.gateway.unheard.remove(&transaction);
                }
            }
            From::Maker => self.hold(right)?,
            From::Resolver | From::Follower(_) => {}
        }
        Ok(())
    }

    /// A client has its answer.
    fn answered(&mut self, no: u64, said: &Said) {
        let Some(caller) = self.callers.get_mut(&no) else { return };
        caller.open = caller.open.saturating_sub(1);
        let (tenant, repeat) = (caller.ask.tenant, caller.ask.repeat);
        let ask = caller.ask.clone();
        if let Some(repeat) = repeat {
            self.ledgers.asked.insert(repeat.key, ask);
        }
        self.acknowledge(tenant, said);
        let known = |how: &How| matches!(how, How::Is(status) if !status.is_doubtful());
        let in_doubt =
            *said == Said::StillRunning || matches!(said, Said::Paid { how, .. } if !known(how));
        let caller = &self.callers[&no];
        if caller.open > 0 {
            return;
        }
        // What is in doubt is asked again, where that is safe.
        if in_doubt && repeat.is_some() && caller.tries < TRIES_MAX && self.random.chance(700) {
            let delay = self.random.between(SECOND_US, 100 * SECOND_US);
            self.later(delay, Event::Again(no));
        } else {
            self.callers.remove(&no);
        }
    }

    /// A final answer to the same request is the same for ever, word by word.
    fn same_words(&mut self, ask: &Ask, said: &Said, verdict: &Verdict) -> Result<(), Wrong> {
        let Some(repeat) = ask.repeat else { return Ok(()) };
        let is_final = match said {
            Said::Done | Said::Made(_) | Said::Customer(_) | Said::Aborted => true,
            Said::Refused(reason) => *reason != Reason::InDoubt,
            Said::Paid { how, .. } => matches!(how, How::Is(status) if !status.is_doubtful()),
            Said::StillRunning | Said::AnotherRequest | Said::Waits(_) | Said::Unavailable(_) => {
                false
            }
        };
        if !is_final {
            return Ok(());
        }
        // What is refused while an outcome is open may be accepted later, and is not kept; what was kept before
        // may have expired.
        let (kept, now) = (self.model.replies.get(&repeat.key), self.when().domain);
        let is_this = |kept: &&Kept| kept.said.as_ref() == Some(said) && kept.until > now;
        let Some(kept) = kept.filter(is_this) else {
            return Ok(());
        };
        let until = kept.until;
        let text = format!("{verdict:?}");
        let known =
            self.words.entry((repeat.key, repeat.print)).or_insert_with(|| (until, text.clone()));
        if known.0 != until {
            *known = (until, text);
        } else if known.1 != text {
            let context = format!("{ask:x?}: first {}, then {text}", known.1);
            let wrong = Wrong::new("a repeated request gets the same answer", &context);
            return self.hold(Err(wrong));
        }
        Ok(())
    }

    fn audit_touched(&mut self, seen: &Seen) -> Result<(), Wrong> {
        self.hold_all(audit::written_disputes(seen, &self.model))?;
        for entry in &seen.entries {
            if let Some(payment) = translate::created(entry).payment {
                let found = audit::payment(&self.disk, &self.model, (entry.tenant.0, payment));
                self.hold_all(found)?;
            }
        }
        Ok(())
    }

    fn spoil_verdicts(&mut self, verdicts: &mut [Verdict], trouble: Trouble) {
        use domain::{PaymentResult, Reply};
        use engine::Answer;
        if self.is(Mutant::AnswersTooEarly) && trouble == Trouble::CommitFails {
            verdicts.fill(Verdict::Answered(Answer::Replied(Reply::Done)));
        }
        if self.is(Mutant::AnswersDeclineAsSuccess) {
            for verdict in verdicts {
                if let Verdict::Answered(Answer::Replied(Reply::Payment(paid))) = verdict
                    && let PaymentResult::Status { status, .. } = &mut paid.result
                    && translate::status_from(*status) == Status::Declined
                {
                    *status = domain::payment::TransactionStatus::Success;
                }
            }
        }
    }
}

/// The ids that the journal names for each request.
pub(super) fn created_by(seen: &Seen) -> BTreeMap<RequestId, Created> {
    let mut created = BTreeMap::new();
    for entry in &seen.entries {
        created.entry(entry.request).or_insert_with(|| translate::created(entry));
    }
    created
}

/// The answer that would have been given where the process itself does not know that it committed:
/// the one that the model expects; for a refusal, the stored one, or `InDoubt` where none was stored.
fn unsaid(expected: &Expected, ask: &Ask, seen: &Seen) -> Said {
    let reasons = match expected {
        Expected::Said(said) => return said.clone(),
        Expected::Refused(reasons) => reasons,
    };
    let stored = seen.replies.iter().find(|stored| {
        ask.repeat.is_some_and(|repeat| {
            let (key, print) = (stored.key.0.as_u128(), stored.fingerprint.as_u128());
            (key, print) == (repeat.key, repeat.print)
        })
    });
    match stored.and_then(|stored| stored.answer.as_ref()) {
        Some(Err(rejection)) => Said::Refused(translate::reason(rejection)),
        Some(Ok(_)) => Said::Refused(reasons[0].clone()),
        None => Said::Refused(Reason::InDoubt),
    }
}
