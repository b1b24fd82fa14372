//! Usage: limits that are used, reserved, confirmed and released by clients that repeat themselves and die, in accounts
//! of several time zones; beside a naive model that adds everything up each time.

mod model;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use domain::account::CreateAccount;
use domain::account::blocking_state::{
    ACCOUNT_SERVICE, AddBlockingState, Blockable, Blocks, CloseAccount,
};
use domain::change::{Change, EntitlementChange};
use domain::command::{AccountCommand, EntitlementCommand};
use domain::entitlement::ContinueEntitlements;
use domain::entitlement::feature::{FeatureValue, Reset};
use domain::entitlement::period::Period;
use domain::entitlement::usage::{
    ConfirmReservation, Ends, EventKey, RecordUsage, RecordUsages, ReleaseReservation, Reserve,
    UsageItem,
};
use domain::reply::EntitlementReply;
use domain::{
    AccountId, Command, EntitlementRejection, Event, Rejection, Reply, RequestId, Settings,
    Timestamp,
};
use engine::Answer;
use engine::partition::Verdict;
use engine::ports::{Entry, Loaded};
use store::Share;
use uuid::Uuid;

use self::model::{Model, Said};
use super::commands;
use crate::disk::Disk;
use crate::faulty::StoreBug;
use crate::kernel::{Kernel, Setup, Tally, Workload};

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

impl StoreBug for MeteringMutant {
    fn spoil_load(&mut self, loaded: &mut Loaded) {
        let entitlement = &mut loaded.state.entitlement;
        match self {
            Self::PassesLimit if !entitlement.usage.counts.is_empty() => {
                let grants = entitlement.entitlements.iter_mut().flat_map(|it| &mut it.grants);
                for grant in grants {
                    if let FeatureValue::Limit(limit) = &mut grant.value {
                        *limit += 1;
                    }
                }
            }
            Self::CountsTwice => {
                let events = &mut entitlement.usage.events;
                let keys: Vec<_> = events.keys().copied().collect();
                keys.into_iter().for_each(|key| events.set(key, None));
            }
            Self::ReachesAgain => {
                let counts = entitlement.usage.counts.values_mut();
                let all = counts.flat_map(BTreeMap::values_mut);
                all.for_each(|it| it.is_reached = false);
            }
            Self::PassesLimit | Self::LosesCounts | Self::KeepsReleased => {}
        }
    }

    fn spoil_entry(&mut self, entry: &mut Entry) {
        let loses = match self {
            Self::LosesCounts => entry.command == "RecordUsage",
            Self::KeepsReleased => entry.command == "ReleaseReservation",
            Self::PassesLimit | Self::CountsTwice | Self::ReachesAgain => false,
        };
        let is_count = |it: &Change| matches!(it, Change::Entitlement(EntitlementChange::Usage(_)));
        entry.changes.retain(|it| !(loses && is_count(it)));
    }
}

/// The workload.
pub struct Metering {
    kernel: Kernel<MeteringMutant, Infallible>,
    model: Model,
    /// How often events said that a limit was reached.
    reached: BTreeMap<(AccountId, String, Period), usize>,
}

impl Workload for Metering {
    type Mutant = MeteringMutant;

    const NAME: &'static str = "metering";
    const STEPS: usize = 400;
    const COUNTS: &'static [&'static str] = &[
        "counted",
        // Events that came again.
        "duplicates",
        // Commands that were refused because the limit had less left.
        "over limit",
        "reserved",
        "confirmed",
        "released",
        // Confirmations and releases of reservations that had ended.
        "ended",
        "late",
        "closed",
        // How often the clock was set back.
        "set back",
        "deaths",
    ];
    const MUTANTS: &'static [(MeteringMutant, &'static str)] = &[
        (MeteringMutant::PassesLimit, "a limit is never passed"),
        (MeteringMutant::CountsTwice, "an event is counted once"),
        (MeteringMutant::LosesCounts, "what is counted is what was used"),
        (MeteringMutant::KeepsReleased, "what is reserved comes back"),
        (MeteringMutant::ReachesAgain, "a limit is reached once in a period"),
    ];

    fn new(seed: u64, bug: Option<MeteringMutant>) -> Self {
        let settings = Arc::new(Settings::without_gateways(Timestamp::DAY_US, 10));
        let begins_at = 20_000 * Timestamp::DAY_US;
        let setup = Setup { settings, share: Share::WHOLE, begins_at, bug };
        let kernel = Kernel::new(seed, Self::NAME, setup);
        Self { kernel, model: Model::default(), reached: BTreeMap::new() }
    }

    /// Four limits, and an account in each time zone.
    fn furnish(&mut self) -> Result<(), String> {
        for (key, resets, overdraft) in FEATURES {
            let terms = commands::limit("units", resets, overdraft);
            self.submit(commands::put_feature(key, terms))?;
        }
        for (zone, ahead) in ZONES {
            let create = CreateAccount { time_zone: Some(zone.to_owned()), ..Default::default() };
            let create = Command::Account(AccountCommand::Create(Box::new(create)));
            let (id, _) = self.submit(create)?;
            let account = id.entity(0);
            self.kernel.accounts.push(account);
            self.model.add_account(account, ahead);
            for (feature, ..) in FEATURES {
                self.grant(account, feature)?;
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        self.pass()?;
        self.act()?;
        self.audit()
    }

    /// Each limit that was reached in a period had one event.
    fn finish(self) -> Result<Tally, String> {
        if let Some((of, count)) = self.reached.iter().find(|(_, count)| **count != 1) {
            return Err(format!("a limit is reached once in a period: {of:?}: {count}"));
        }
        match (self.reached.len(), self.model.reached()) {
            (seen, expected) if seen == expected => Ok(self.kernel.tally),
            (seen, expected) => {
                Err(format!("a limit is reached once in a period: {seen}, not {expected}"))
            }
        }
    }
}

impl Metering {
    /// Time passes, sometimes by days. Timers fire in time, or not.
    fn pass(&mut self) -> Result<(), String> {
        let random = &mut self.kernel.random;
        self.kernel.now += match random.below(12) {
            0 => random.between(0, 9 * Timestamp::DAY_US),
            1..=4 => random.between(0, 6 * 3_600 * Timestamp::SECOND_US),
            _ => random.between(0, 600 * Timestamp::SECOND_US),
        };
        self.jump();
        if self.kernel.random.chance(500) {
            for timer in self.kernel.disk.timers_due(Timestamp(self.kernel.now)) {
                let (account, due) = (timer.account, timer.due);
                let go_on = ContinueEntitlements { account, due };
                self.submit(EntitlementCommand::Continue(go_on).into())?;
            }
        }
        Ok(())
    }

    /// The test clock goes ahead of real time, or back to it.
    fn jump(&mut self) {
        let kernel = &mut self.kernel;
        let to = match kernel.random.below(50) {
            0 => kernel.random.between(0, 3 * Timestamp::DAY_US),
            1 => 0,
            _ => return,
        };
        if to < kernel.ahead {
            kernel.count("set back");
        }
        kernel.now += to - kernel.ahead;
        kernel.ahead = to;
    }

    /// A client does something, or the process dies.
    fn act(&mut self) -> Result<(), String> {
        let account = self.kernel.any_account();
        let (feature, ..) = *self.kernel.random.pick(&FEATURES);
        match self.kernel.random.below(100) {
            0..=34 => self.record(account, feature),
            35..=44 => self.record_all(account),
            45..=64 => self.reserve(account, feature),
            65..=79 => self.confirm(),
            80..=87 => self.release(),
            88..=95 => self.grant(account, feature),
            96 => self.close(account),
            _ => {
                self.kernel.die();
                Ok(())
            }
        }
    }

    /// An event, sometimes one that was sent before, or a late one.
    fn item(&mut self, feature: &str) -> UsageItem {
        let (now, minted, random) =
            (self.kernel.now, self.kernel.minted(), &mut self.kernel.random);
        let event = match random.chance(150) {
            true => 1 + random.below(400),
            false => 1_000 + minted * 10 + random.below(10),
        };
        let at = match random.below(6) {
            0 => Some(now - random.between(0, 5_000 * Timestamp::SECOND_US)),
            1 => Some(now + random.between(0, 90 * Timestamp::SECOND_US)),
            _ => None,
        };
        UsageItem {
            feature: feature.to_owned(),
            quantity: random.between(1, 6),
            event: EventKey(Uuid::from_u128(u128::from(event))),
            at: at.map(Timestamp),
        }
    }

    fn record(&mut self, account: AccountId, feature: &str) -> Result<(), String> {
        let item = self.item(feature);
        let expected = self.model.record(account, &item, self.kernel.now);
        let record = RecordUsage { account, item: item.clone() };
        let (_, answer) = self.submit(EntitlementCommand::RecordUsage(Box::new(record)).into())?;
        self.compare(expected, said(&answer)?, &item.feature)
    }

    fn record_all(&mut self, account: AccountId) -> Result<(), String> {
        let count = self.kernel.random.between(1, 6);
        let items: Vec<UsageItem> = (0..count)
            .map(|_| {
                let (feature, ..) = *self.kernel.random.pick(&FEATURES);
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
            let expected = self.model.record(account, item, self.kernel.now);
            let said = recorded.map_or_else(|refused| said_of(&refused), |_| Ok(Said::Done))?;
            self.compare(expected, said, &item.feature)?;
        }
        Ok(())
    }

    fn reserve(&mut self, account: AccountId, feature: &str) -> Result<(), String> {
        let (now, random) = (self.kernel.now, &mut self.kernel.random);
        let (quantity, seconds) = (random.between(1, 6), random.between(1, 100_000));
        let expected = self.model.may_reserve((account, feature), quantity, now);
        let ends = Ends::After(seconds * Timestamp::SECOND_US);
        let reserve = Reserve { account, feature: feature.to_owned(), quantity, ends };
        let (_, answer) = self.submit(EntitlementCommand::Reserve(Box::new(reserve)).into())?;
        if let Answer::Replied(Reply::Entitlement(it)) = &answer
            && let EntitlementReply::Reserved { reservation, until, .. } = it
        {
            self.kernel.count("reserved");
            self.model.reserved((account, feature), (*reservation, quantity), (now, until.0));
        }
        let said = said(&answer)?;
        match said == Said::Done && expected == Said::Done {
            true => Ok(()),
            false => self.compare(expected, said, feature),
        }
    }

    fn confirm(&mut self) -> Result<(), String> {
        let (now, random) = (self.kernel.now, &mut self.kernel.random);
        let Some((account, reservation, reserved)) = self.model.any(random) else {
            return Ok(());
        };
        let quantity = random.chance(500).then(|| random.between(1, reserved + 1));
        let used = quantity.unwrap_or(reserved);
        let mut expected = self.model.settle(reservation, now);
        if expected == Said::Done && used > reserved {
            expected = Said::Invalid;
        } else if expected == Said::Done {
            self.model.confirm(reservation, used, now);
            self.kernel.count("confirmed");
        }
        let confirm = ConfirmReservation { account, reservation, quantity };
        let (_, answer) = self.submit(EntitlementCommand::Confirm(confirm).into())?;
        self.compare(expected, said(&answer)?, "a confirmation")
    }

    fn release(&mut self) -> Result<(), String> {
        let Some((account, reservation, _)) = self.model.any(&mut self.kernel.random) else {
            return Ok(());
        };
        let expected = self.model.settle(reservation, self.kernel.now);
        if expected == Said::Done {
            self.model.release(reservation);
            self.kernel.count("released");
        }
        let release = ReleaseReservation { account, reservation };
        let (_, answer) = self.submit(EntitlementCommand::Release(release).into())?;
        self.compare(expected, said(&answer)?, "a release")
    }

    fn grant(&mut self, account: AccountId, feature: &str) -> Result<(), String> {
        let (now, random) = (self.kernel.now, &mut self.kernel.random);
        let until = now + random.between(1, 30) * Timestamp::DAY_US;
        let value = random.between(1, 15);
        let grant = commands::grant(account, feature, value, Some(until), "test");
        let (_, answer) = self.submit(grant)?;
        if matches!(answer, Answer::Replied(_)) {
            self.model.grant((account, feature), value, (now, until));
        }
        Ok(())
    }

    /// Closes an account, and opens it again.
    fn close(&mut self, account: AccountId) -> Result<(), String> {
        let command = match self.model.is_closed(account) {
            true => AccountCommand::AddBlockingState(AddBlockingState {
                account,
                of: Blockable::Account,
                service: ACCOUNT_SERVICE.to_owned(),
                name: "OPEN".to_owned(),
                blocks: Blocks::default(),
                effective_at: None,
            }),
            false => {
                self.kernel.count("closed");
                AccountCommand::Close(CloseAccount {
                    account,
                    remove_future_notifications: false,
                    cancel_subscriptions: false,
                })
            }
        };
        self.model.close(account);
        self.submit(command.into()).map(drop)
    }

    /// Counts an answer, and checks that it is the expected one.
    fn compare(&mut self, expected: Said, said: Said, what: &str) -> Result<(), String> {
        match said {
            Said::Done => self.kernel.count("counted"),
            Said::Duplicate => self.kernel.count("duplicates"),
            Said::OverLimit => self.kernel.count("over limit"),
            Said::Ended => self.kernel.count("ended"),
            Said::Invalid => self.kernel.count("late"),
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
        let done = self.kernel.submit(command);
        for event in done.entries.iter().flat_map(|it| &it.events) {
            if let Event::LimitReached { account, feature, period, .. } = event {
                *self.reached.entry((*account, feature.clone(), *period)).or_default() += 1;
            }
        }
        match done.verdict {
            Verdict::Answered(answer) => Ok((done.id, answer)),
            other @ (Verdict::Waits(_) | Verdict::Unavailable(_)) => {
                Err(format!("{} is answered: {other:?}", done.command))
            }
        }
    }

    /// Checks that the stored used and reserved quantities are those of the model.
    fn audit(&self) -> Result<(), String> {
        let now = self.kernel.now;
        for it in self.kernel.disk.usage() {
            let of = (it.account_id, it.feature.as_str());
            let at = it.period.from.0.max(1);
            let (used, reserved) = self.model.level(of, at, now);
            if it.used != used {
                let text = format!("{of:?}: {} are used, not {used}", it.used);
                return Err(format!("what is counted is what was used: {text}"));
            }
            let held = it.reserved_at(Timestamp(now));
            if held != reserved {
                let text = format!("{of:?}: {held} are reserved, not {reserved}");
                return Err(format!("what is reserved comes back: {text}"));
            }
        }
        Ok(())
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
        | Rejection::Billing(_)
        | Rejection::Payment(_) => Err(rejection.to_string()),
    }
}
