//! A seeded simulation of usage: limits that are used, reserved, confirmed and released by clients that repeat
//! themselves and die, in accounts of several time zones; beside a naive model that adds everything up each time.

mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use domain::account::CreateAccount;
use domain::blocking_state::{ACCOUNT_SERVICE, AddBlockingState, Blocks, CloseAccount};
use domain::change::{Change, EntitlementChange};
use domain::command::{AccountCommand, EntitlementCommand};
use domain::definition::Expected;
use domain::entitlement::{ContinueEntitlements, GrantFeature};
use domain::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset,
};
use domain::payment::{Actor, ReplyKey};
use domain::period::Period;
use domain::read::Read;
use domain::reply::EntitlementReply;
use domain::usage::{
    ConfirmReservation, Ends, EventKey, RecordUsage, RecordUsages, ReleaseReservation, Reserve,
    UsageItem,
};
use domain::{
    AccountId, Command, EntitlementRejection, Event, Rejection, Reply, Request, RequestId,
    Settings, TenantNo, Timestamp,
};
use engine::Answer;
use engine::partition::{Partition, Times, Verdict, Work};
use engine::ports::{Batch, Loaded, Opened, Store, StoreError};
use store::Share;
use uuid::Uuid;

use self::model::{Model, Said};
use crate::disk::Disk;
use crate::memory::{MemoryDisk, MemoryStore};
use crate::random::Random;

const TENANT: TenantNo = TenantNo(1);
/// How many things happen in a run.
const STEPS: usize = 400;
/// Each with when it is counted anew, and whether more may be used than there is.
const FEATURES: [(&str, Reset, bool); 4] = [
    ("calls", Reset::Day, false),
    ("jobs", Reset::Week, false),
    ("units", Reset::Month, true),
    ("credits", Reset::Never, false),
];
/// Time zones of accounts, and how many seconds they are ahead.
const ZONES: [(&str, i64); 3] = [("UTC", 0), ("+05:30", 19_800), ("-08:00", -28_800)];

/// A bug planted at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeteringMutant {
    /// A limit is one more where it is compared.
    PassesLimit,
    /// The events that were counted are not loaded.
    CountsTwice,
    /// The count of an event is not written, and the event is.
    LosesCounts,
    /// The quantity of a released reservation is not given back.
    KeepsReleased,
    /// That a limit was reached is not loaded.
    ReachesAgain,
}

type Reached = Arc<Mutex<BTreeMap<(AccountId, String, Period), usize>>>;

/// The store, with a bug where one is planted. It notes the events.
struct Planted {
    store: MemoryStore,
    mutant: Option<MeteringMutant>,
    reached: Reached,
}

impl Store for Planted {
    fn open(&mut self) -> Result<Opened, StoreError> {
        self.store.open()
    }

    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        replies: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError> {
        let mut loaded = self.store.load(reads, replies)?;
        let entitlement = &mut loaded.state.entitlement;
        match self.mutant {
            Some(MeteringMutant::PassesLimit) if !entitlement.usage.counts.is_empty() => {
                let grants = entitlement.entitlements.iter_mut().flat_map(|it| &mut it.grants);
                for grant in grants {
                    if let FeatureValue::Limit(limit) = &mut grant.value {
                        *limit += 1;
                    }
                }
            }
            Some(MeteringMutant::CountsTwice) => {
                let events = &mut entitlement.usage.events;
                let keys: Vec<_> = events.keys().copied().collect();
                keys.into_iter().for_each(|key| events.set(key, None));
            }
            Some(MeteringMutant::ReachesAgain) => {
                let counts = entitlement.usage.counts.values_mut();
                let all = counts.flat_map(BTreeMap::values_mut);
                all.for_each(|it| it.is_reached = false);
            }
            Some(
                MeteringMutant::PassesLimit
                | MeteringMutant::LosesCounts
                | MeteringMutant::KeepsReleased,
            )
            | None => {}
        }
        Ok(loaded)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut entries = batch.entries.clone();
        for entry in &mut entries {
            let loses = match self.mutant {
                Some(MeteringMutant::LosesCounts) => entry.command == "RecordUsage",
                Some(MeteringMutant::KeepsReleased) => entry.command == "ReleaseReservation",
                Some(
                    MeteringMutant::PassesLimit
                    | MeteringMutant::CountsTwice
                    | MeteringMutant::ReachesAgain,
                )
                | None => false,
            };
            let is_count = |it: &Change| matches!(it, Change::Entitlement(change) if matches!(change, EntitlementChange::Usage(_)));
            entry.changes.retain(|it| !(loses && is_count(it)));
            for event in &entry.events {
                if let Event::LimitReached { account, feature, period, .. } = event {
                    let mut all = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
                    *all.entry((*account, feature.clone(), *period)).or_default() += 1;
                }
            }
        }
        self.store.commit(&Batch { entries, ..batch.clone() })
    }
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub counted: usize,
    /// Events that came again.
    pub duplicates: usize,
    /// Commands that were refused because the limit had less left.
    pub over_limit: usize,
    pub reserved: usize,
    pub confirmed: usize,
    pub released: usize,
    /// Confirmations and releases of reservations that had ended.
    pub ended: usize,
    pub late: usize,
    pub closed: usize,
    /// How often the clock was set back.
    pub set_back: usize,
    pub deaths: usize,
}

struct World {
    random: Random,
    mutant: Option<MeteringMutant>,
    disk: MemoryDisk,
    partition: Partition<Planted>,
    settings: Arc<Settings>,
    now: i64,
    /// How far domain time is ahead of real time.
    ahead: i64,
    minted: u128,
    accounts: Vec<AccountId>,
    model: Model,
    reached: Reached,
    tally: Tally,
}

/// Runs a seed.
///
/// # Errors
/// The first failure, as text.
pub fn run(seed: u64, mutant: Option<MeteringMutant>) -> Result<Tally, String> {
    let mut world = World::new(seed, mutant);
    world.furnish()?;
    for _ in 0..STEPS {
        world.pass()?;
        world.step()?;
        world.audit()?;
    }
    world.check_events()?;
    Ok(world.tally)
}

impl World {
    fn new(seed: u64, mutant: Option<MeteringMutant>) -> Self {
        let settings = Arc::new(Settings::without_gateways(Timestamp::DAY_US, 10));
        let disk = MemoryDisk::new(None);
        let reached = Reached::default();
        Self {
            random: Random::new(seed, "metering"),
            mutant,
            partition: opened(&disk, &settings, (mutant, &reached)),
            disk,
            settings,
            now: 20_000 * Timestamp::DAY_US,
            ahead: 0,
            minted: 0,
            accounts: vec![],
            model: Model::default(),
            reached,
            tally: Tally::default(),
        }
    }

    /// Four limits, and an account in each time zone.
    fn furnish(&mut self) -> Result<(), String> {
        for (key, resets, overdraft) in FEATURES {
            let limit = LimitTerms { unit: "units".to_owned(), resets, overdraft };
            let put = PutFeature {
                key: key.to_owned(),
                name: key.to_owned(),
                terms: FeatureTerms { kind: FeatureKind::Limit(limit), combine: Combine::Sum },
                archived: false,
                expected: Expected::Nothing,
            };
            self.submit(EntitlementCommand::PutFeature(Box::new(put)).into())?;
        }
        for (zone, ahead) in ZONES {
            let create = CreateAccount { time_zone: Some(zone.to_owned()), ..Default::default() };
            let create = Command::Account(AccountCommand::Create(Box::new(create)));
            let (id, _) = self.submit(create)?;
            let account = AccountId::new(id.entity::<domain::kind::Account>(0).uuid());
            self.accounts.push(account);
            self.model.add_account(account, ahead);
            for (feature, ..) in FEATURES {
                self.grant(account, feature)?;
            }
        }
        Ok(())
    }

    /// Time passes, sometimes by days. Timers fire in time, or not.
    fn pass(&mut self) -> Result<(), String> {
        self.now += match self.random.below(12) {
            0 => self.random.between(0, 9 * Timestamp::DAY_US),
            1..=4 => self.random.between(0, 6 * 3_600 * Timestamp::SECOND_US),
            _ => self.random.between(0, 600 * Timestamp::SECOND_US),
        };
        self.jump();
        if self.random.chance(500) {
            for timer in self.disk.timers_due(Timestamp(self.now)) {
                let (account, due) = (timer.account, timer.due);
                let go_on = ContinueEntitlements { account, due };
                self.submit(EntitlementCommand::Continue(go_on).into())?;
            }
        }
        Ok(())
    }

    /// The test clock goes ahead of real time, or back to it.
    fn jump(&mut self) {
        let to = match self.random.below(50) {
            0 => self.random.between(0, 3 * Timestamp::DAY_US),
            1 => 0,
            _ => return,
        };
        self.tally.set_back += usize::from(to < self.ahead);
        self.now += to - self.ahead;
        self.ahead = to;
    }

    fn step(&mut self) -> Result<(), String> {
        let account = *self.random.pick(&self.accounts);
        let (feature, ..) = *self.random.pick(&FEATURES);
        match self.random.below(100) {
            0..=34 => self.record(account, feature),
            35..=44 => self.record_all(account),
            45..=64 => self.reserve(account, feature),
            65..=79 => self.confirm(),
            80..=87 => self.release(),
            88..=95 => self.grant(account, feature),
            96 => self.close(account),
            _ => {
                self.tally.deaths += 1;
                let planted = (self.mutant, &self.reached);
                self.partition = opened(&self.disk, &self.settings, planted);
                Ok(())
            }
        }
    }

    /// An event, sometimes one that was sent before, or a late one.
    fn item(&mut self, feature: &str) -> UsageItem {
        let event = match self.random.chance(150) {
            true => self.random.between(1, 400),
            false => {
                1_000
                    + i64::try_from(self.minted).unwrap_or_default() * 10
                    + self.random.between(0, 9)
            }
        };
        let at = match self.random.below(6) {
            0 => Some(self.now - self.random.between(0, 5_000 * Timestamp::SECOND_US)),
            1 => Some(self.now + self.random.between(0, 90 * Timestamp::SECOND_US)),
            _ => None,
        };
        UsageItem {
            feature: feature.to_owned(),
            quantity: self.random.between(1, 6),
            event: EventKey(Uuid::from_u128(u128::from(event.unsigned_abs()))),
            at: at.map(Timestamp),
        }
    }

    fn record(&mut self, account: AccountId, feature: &str) -> Result<(), String> {
        let item = self.item(feature);
        let expected = self.model.record(account, &item, self.now);
        let record = RecordUsage { account, item: item.clone() };
        let (_, answer) = self.submit(EntitlementCommand::RecordUsage(Box::new(record)).into())?;
        self.compare(expected, said(&answer)?, &item.feature)
    }

    fn record_all(&mut self, account: AccountId) -> Result<(), String> {
        let count = self.random.between(1, 6);
        let items: Vec<UsageItem> = (0..count)
            .map(|_| {
                let (feature, ..) = *self.random.pick(&FEATURES);
                self.item(feature)
            })
            .collect();
        let record = RecordUsages { account, items: items.clone() };
        let is_closed = self.model.is_closed(account);
        let (_, answer) = self.submit(EntitlementCommand::RecordUsages(Box::new(record)).into())?;
        let Answer::Replied(Reply::Entitlement(EntitlementReply::Recorded(recorded))) = answer
        else {
            return self.compare(Said::Closed, said(&answer)?, "a batch");
        };
        if is_closed {
            return Err("a closed account uses nothing".to_owned());
        }
        for (item, recorded) in items.iter().zip(recorded) {
            let expected = self.model.record(account, item, self.now);
            let said = recorded.map_or_else(|refused| said_of(&refused), |_| Ok(Said::Done))?;
            self.compare(expected, said, &item.feature)?;
        }
        Ok(())
    }

    fn reserve(&mut self, account: AccountId, feature: &str) -> Result<(), String> {
        let (quantity, seconds) = (self.random.between(1, 6), self.random.between(1, 100_000));
        let expected = self.model.may_reserve((account, feature), quantity, self.now);
        let ends = Ends::After(seconds * Timestamp::SECOND_US);
        let reserve = Reserve { account, feature: feature.to_owned(), quantity, ends };
        let (_, answer) = self.submit(EntitlementCommand::Reserve(Box::new(reserve)).into())?;
        if let Answer::Replied(Reply::Entitlement(it)) = &answer
            && let EntitlementReply::Reserved { reservation, until, .. } = it
        {
            self.tally.reserved += 1;
            self.model.reserved((account, feature), (*reservation, quantity), (self.now, until.0));
        }
        let said = said(&answer)?;
        match said == Said::Done && expected == Said::Done {
            true => Ok(()),
            false => self.compare(expected, said, feature),
        }
    }

    fn confirm(&mut self) -> Result<(), String> {
        let Some((account, reservation, reserved)) = self.model.any(&mut self.random) else {
            return Ok(());
        };
        let quantity = self.random.chance(500).then(|| self.random.between(1, reserved + 1));
        let used = quantity.unwrap_or(reserved);
        let mut expected = self.model.settle(reservation, self.now);
        if expected == Said::Done && used > reserved {
            expected = Said::Invalid;
        } else if expected == Said::Done {
            self.model.confirm(reservation, used, self.now);
            self.tally.confirmed += 1;
        }
        let confirm = ConfirmReservation { account, reservation, quantity };
        let (_, answer) = self.submit(EntitlementCommand::Confirm(confirm).into())?;
        self.compare(expected, said(&answer)?, "a confirmation")
    }

    fn release(&mut self) -> Result<(), String> {
        let Some((account, reservation, _)) = self.model.any(&mut self.random) else {
            return Ok(());
        };
        let expected = self.model.settle(reservation, self.now);
        if expected == Said::Done {
            self.model.release(reservation);
            self.tally.released += 1;
        }
        let release = ReleaseReservation { account, reservation };
        let (_, answer) = self.submit(EntitlementCommand::Release(release).into())?;
        self.compare(expected, said(&answer)?, "a release")
    }

    fn grant(&mut self, account: AccountId, feature: &str) -> Result<(), String> {
        let until = self.now + self.random.between(1, 30) * Timestamp::DAY_US;
        let value = self.random.between(1, 15);
        let grant = GrantFeature {
            account,
            feature: feature.to_owned(),
            value: FeatureValue::Limit(value),
            from: None,
            until: Some(Timestamp(until)),
            reason: "test".to_owned(),
        };
        let (_, answer) = self.submit(EntitlementCommand::Grant(Box::new(grant)).into())?;
        if matches!(answer, Answer::Replied(_)) {
            self.model.grant((account, feature), value, (self.now, until));
        }
        Ok(())
    }

    /// Closes an account, and opens it again.
    fn close(&mut self, account: AccountId) -> Result<(), String> {
        let command = match self.model.is_closed(account) {
            true => AccountCommand::AddBlockingState(AddBlockingState {
                account,
                service: ACCOUNT_SERVICE.to_owned(),
                name: "OPEN".to_owned(),
                blocks: Blocks::default(),
                effective_at: None,
            }),
            false => {
                self.tally.closed += 1;
                AccountCommand::Close(CloseAccount { account, remove_future_notifications: false })
            }
        };
        self.model.close(account);
        self.submit(command.into()).map(drop)
    }

    /// Counts an answer, and checks that it is the expected one.
    fn compare(&mut self, expected: Said, said: Said, what: &str) -> Result<(), String> {
        match said {
            Said::Done => self.tally.counted += 1,
            Said::Duplicate => self.tally.duplicates += 1,
            Said::OverLimit => self.tally.over_limit += 1,
            Said::Ended => self.tally.ended += 1,
            Said::Invalid => self.tally.late += 1,
            Said::Closed | Said::NotEntitled => {}
        }
        let rule = match (expected, said) {
            (expected, said) if expected == said => return Ok(()),
            (Said::OverLimit, _) => "a limit is never passed",
            (Said::Duplicate, _) => "an event is counted once",
            (Said::Ended, _) => "a reservation ends once",
            (Said::Done | Said::Invalid | Said::Closed | Said::NotEntitled, _) => {
                "what may be used is counted"
            }
        };
        Err(format!("{rule}: {what}: {said:?}, not {expected:?}"))
    }

    /// Commits a command; its request, and the answer.
    fn submit(&mut self, command: Command) -> Result<(RequestId, Answer), String> {
        self.minted += 1;
        let id = RequestId(Uuid::from_u128((0x0192_0000_0000_7000 << 64) | self.minted));
        let actor = Actor::new("client", "client", id.0);
        let name = command.name();
        let request = Request { id, tenant: TENANT, actor, idempotency: None, command };
        let (now, real_now) = (Timestamp(self.now), Timestamp(self.now - self.ahead));
        let works = [Work::Request(Box::new(request))];
        let processed = self.partition.process(&works, Times { now, real_now }, &mut |_, _| Ok(()));
        let mut verdicts = processed.verdicts;
        match verdicts.pop() {
            Some(Verdict::Answered(answer)) => Ok((id, answer)),
            other => Err(format!("{name} is answered: {other:?}")),
        }
    }

    /// Checks that the stored used and reserved quantities are those of the model.
    fn audit(&self) -> Result<(), String> {
        for it in self.disk.usage() {
            let of = (it.account_id, it.feature.as_str());
            let at = it.period.from.0.max(1);
            let (used, reserved) = self.model.level(of, at, self.now);
            if it.used != used {
                let text = format!("{of:?}: {} are used, not {used}", it.used);
                return Err(format!("what is counted is what was used: {text}"));
            }
            let held = it.reserved_at(Timestamp(self.now));
            if held != reserved {
                let text = format!("{of:?}: {held} are reserved, not {reserved}");
                return Err(format!("what is reserved comes back: {text}"));
            }
        }
        Ok(())
    }

    /// Each limit that was reached in a period had one event.
    fn check_events(&self) -> Result<(), String> {
        let seen = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, count)) = seen.iter().find(|(_, count)| **count != 1) {
            return Err(format!("a limit is reached once in a period: {of:?}: {count}"));
        }
        let (seen, expected) = (seen.len(), self.model.reached());
        if seen != expected {
            return Err(format!("a limit is reached once in a period: {seen}, not {expected}"));
        }
        let problems = self.disk.problems();
        if problems.is_empty() { Ok(()) } else { Err(format!("{problems:?}")) }
    }
}

fn said(answer: &Answer) -> Result<Said, String> {
    match answer {
        Answer::Replied(_) => Ok(Said::Done),
        Answer::Refused(rejection) => said_of(rejection),
        Answer::StillRunning | Answer::AnotherRequest => Err(format!("{answer:?}")),
    }
}

fn said_of(rejection: &Rejection) -> Result<Said, String> {
    use EntitlementRejection as R;
    match rejection {
        Rejection::Account(_) => Ok(Said::Closed),
        Rejection::InvalidParameter { .. } => Ok(Said::Invalid),
        Rejection::Entitlement(R::EventCounted(_)) => Ok(Said::Duplicate),
        Rejection::Entitlement(R::LimitReached(_)) => Ok(Said::OverLimit),
        Rejection::Entitlement(R::NotEntitled { .. }) => Ok(Said::NotEntitled),
        Rejection::Entitlement(R::ReservationEnded { .. } | R::ReservationNotFound { .. }) => {
            Ok(Said::Ended)
        }
        Rejection::Entitlement(_)
        | Rejection::Tenant(_)
        | Rejection::Access(_)
        | Rejection::Flag(_)
        | Rejection::Customer(_)
        | Rejection::Payment(_) => Err(rejection.to_string()),
    }
}

fn opened(
    disk: &MemoryDisk,
    settings: &Arc<Settings>,
    (mutant, reached): (Option<MeteringMutant>, &Reached),
) -> Partition<Planted> {
    let (store, reached) = (disk.connect(Share::WHOLE), Arc::clone(reached));
    let store = Planted { store, mutant, reached };
    Partition::open(store, Arc::clone(settings)).expect("memory is always there")
}
