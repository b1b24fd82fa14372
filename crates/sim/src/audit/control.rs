//! The checks of payment control: attempts, what accounts started in a day, and limits.

use std::collections::{BTreeMap, BTreeSet};

use domain::change::{Change, PaymentChange};
use domain::payment::attempt::{AttemptState, PaymentAttempt};
use domain::payment::dispute::{Dispute, DisputeBooked};
use domain::timer::TimerKind;

use super::Wrong;
use super::people::same;
use crate::ask::Status;
use crate::disk::Books;
use crate::faulty::Seen;
use crate::model::{Case, Model, Most, Retry, Timed};
use crate::translate;

/// All checks of payment control.
pub fn all(books: &Books, model: &Model) -> Vec<Result<(), Wrong>> {
    let timers = timers(books, model);
    let disputes = disputes(books, model);
    let warnings = warnings(books);
    let (velocities, limits) = (velocities(books, model), limits(books, model));
    vec![attempts(books, model), timers, disputes, warnings, velocities, limits]
}

fn attempts(books: &Books, model: &Model) -> Result<(), Wrong> {
    let mut stored: Vec<String> = vec![];
    for it in &books.attempts {
        let account = it.account_id.uuid().as_u128();
        let transaction = it.transaction_id.map(|it| it.uuid().as_u128());
        let kind = translate::kind_from(it.kind);
        stored.push(format!(
            "{} {account:x} {transaction:x?} {kind:?} {:?} {} {:?}",
            it.tenant.0, it.state, it.amount.0, it.counted_on
        ));
    }
    let mut expected: Vec<String> = vec![];
    for (no, tenant) in &model.tenants {
        for payment in tenant.payments.values() {
            for it in payment.moves.iter().filter(|it| it.has_attempt) {
                let state = match it.status {
                    Status::Success => AttemptState::Success,
                    Status::Running | Status::Pending | Status::Unknown => AttemptState::Init,
                    Status::Declined | Status::Failed => match it.retry {
                        Retry::None => AttemptState::Aborted,
                        Retry::Due(_) | Retry::Suspended(_) => AttemptState::Scheduled,
                        Retry::Made => AttemptState::Retried,
                    },
                };
                let (account, transaction) = (payment.account, Some(it.id));
                expected.push(format!(
                    "{no} {account:x} {transaction:x?} {:?} {state:?} {} {:?}",
                    it.kind,
                    it.asked.unwrap_or(0),
                    it.counted_on
                ));
            }
        }
        for it in &tenant.control.aborted {
            expected.push(format!(
                "{no} {:x} None {:?} {:?} {} None",
                it.account,
                it.kind,
                AttemptState::Aborted,
                it.minor.unwrap_or(0)
            ));
        }
    }
    same("attempts are what the model says", &mut stored, &mut expected)
}

/// Checks that the disputes, with the amounts booked of each, are those of the model, and none is there twice.
fn disputes(books: &Books, model: &Model) -> Result<(), Wrong> {
    let mut stored: Vec<String> = books.disputes.iter().map(shown).collect();
    let cases = model.tenants.iter().flat_map(|(no, it)| it.disputes.values().map(|it| (*no, it)));
    let mut expected: Vec<String> = cases.map(|(no, it)| shown_case(no, it)).collect();
    same(DISPUTES, &mut stored, &mut expected)
}

/// The same of those that a batch wrote: news that come later may hide what was wrong.
pub fn written_disputes(seen: &Seen, model: &Model) -> Vec<Wrong> {
    let changes = seen.entries.iter().flat_map(|entry| &entry.changes);
    let mut last: BTreeMap<_, &Dispute> = BTreeMap::new();
    for change in changes {
        if let Change::Payment(PaymentChange::Dispute(it)) = change {
            last.insert(it.id, it);
        }
    }
    let found = last.values().filter_map(|it| {
        let cases = model.tenants.get(&it.tenant.0)?.disputes.values();
        let mut cases = cases.filter(|case| case.id == it.id.uuid().as_u128());
        let expected = cases.next().map(|case| shown_case(it.tenant.0, case));
        let stored = shown(it);
        let context = format!("{stored}, not {expected:?}");
        (Some(stored) != expected).then(|| Wrong::new(DISPUTES, &context))
    });
    found.collect()
}

const DISPUTES: &str = "disputes are what the model says";

fn shown(it: &Dispute) -> String {
    let (id, payment) = (it.id.uuid().as_u128(), it.payment_id.uuid().as_u128());
    let booked = [
        it.withdrawn,
        it.reinstated,
        it.booked.charged_back,
        it.booked.reversed,
        it.booked.excess,
        it.booked.excess_returned,
    ];
    let times = [it.booking_at, it.evidence_due_by, it.warned_of, it.warning_at];
    format!(
        "{} {id:x} {payment:x} {:?} {:?} {:?}",
        it.tenant.0,
        it.status,
        booked.map(|it| it.0),
        times.map(|it| it.map(|it| it.0))
    )
}

fn shown_case(no: u32, it: &Case) -> String {
    let booked = [it.withdrawn, it.reinstated, it.back, it.reversed, it.excess, it.excess_back];
    let times = [it.waits, it.due_by, it.warned_of, it.warns];
    let status = translate::dispute_status(it.stage);
    format!("{no} {:x} {:x} {status:?} {booked:?} {times:?}", it.id, it.payment)
}

/// Checks that a dispute that is still a question of the bank's has booked nothing.
fn warnings(books: &Books) -> Result<(), Wrong> {
    let is_moved = |it: &&Dispute| it.status.is_warning() && it.booked != DisputeBooked::default();
    match books.disputes.iter().find(is_moved) {
        Some(it) => Err(Wrong::new("a warning moves no money", &format!("{it:?}"))),
        None => Ok(()),
    }
}

/// A timer is set for each attempt that is to be retried, each customer who is waited for, and each dispute that
/// waits or awaits evidence: for its time, and no other.
fn timers(books: &Books, model: &Model) -> Result<(), Wrong> {
    let mut stored: Vec<String> = vec![];
    for timer in &books.timers {
        let of_timer = |it: &&PaymentAttempt| it.id.uuid() == timer.key.object;
        let attempt = books.attempts.iter().find(of_timer);
        let transaction = attempt.and_then(|it| it.transaction_id).map(|it| it.uuid().as_u128());
        let of = transaction.unwrap_or(timer.key.object.as_u128());
        stored.push(format!("{} {:?} {of:x} {}", timer.tenant.0, timer.key.kind, timer.due.0));
    }
    let expected = model.timers().into_iter().map(|it| {
        let kind = match it.what {
            Timed::Retry => TimerKind::PaymentRetry,
            Timed::Action => TimerKind::PaymentAction,
            Timed::Booking => TimerKind::DisputeBooking,
            Timed::Evidence => TimerKind::DisputeEvidence,
        };
        format!("{} {kind:?} {:x} {}", it.tenant, it.of, it.at)
    });
    let mut expected: Vec<String> = expected.collect();
    same("timers are what the model says", &mut stored, &mut expected)
}

fn velocities(books: &Books, model: &Model) -> Result<(), Wrong> {
    let mut stored: Vec<String> = vec![];
    for it in &books.velocities {
        let amounts: BTreeMap<&str, i64> =
            it.amounts.iter().map(|(code, it)| (code.code(), it.0)).filter(|it| it.1 > 0).collect();
        let account = it.account_id.uuid().as_u128();
        stored.push(format!("{} {account:x} {} {} {amounts:?}", it.tenant.0, it.day, it.count));
    }
    let mut expected: Vec<String> = vec![];
    for (no, tenant) in &model.tenants {
        for (account, day) in tenant.days() {
            let counted = tenant.counted(*account, *day);
            let mut amounts: BTreeMap<&str, i64> = BTreeMap::new();
            for it in &counted {
                *amounts.entry(it.currency).or_default() += it.asked.unwrap_or(0);
            }
            expected.push(format!("{no} {account:x} {day} {} {amounts:?}", counted.len()));
        }
    }
    same("velocities are what the model says", &mut stored, &mut expected)
}

/// No account started more in a day than the widest limit allowed. What had failed and was said later not
/// to have counts beside it: others may have taken its place.
fn limits(books: &Books, model: &Model) -> Result<(), Wrong> {
    let transactions = books.payments.iter().flat_map(|file| &file.transactions);
    let overruled: Vec<_> = transactions.filter(|it| it.overruled).map(|it| it.id).collect();
    let mut started: BTreeMap<_, u32> = BTreeMap::new();
    let payments = model.tenants.values().flat_map(|tenant| tenant.payments.values());
    let moves = payments.flat_map(|payment| &payment.moves);
    // What the model never admitted is what the check is after: only what it knows to be free is left out.
    let free: BTreeSet<_> = moves.filter(|it| !it.was_limited).map(|it| it.id).collect();
    let checked = books.attempts.iter().filter(|it| {
        let transaction = it.transaction_id.map(|id| id.uuid().as_u128());
        it.state.is_counted() && transaction.is_some_and(|id| !free.contains(&id))
    });
    for it in checked {
        if it.transaction_id.is_some_and(|id| !overruled.contains(&id)) {
            *started.entry((it.tenant, it.account_id, it.counted_on)).or_default() += 1;
        }
    }
    for ((tenant, account, day), count) in started {
        let most = model.tenants.get(&tenant.0).map(|it| it.control.most_a_day);
        if let Some(Most::So(most)) = most
            && count > most
        {
            let context = format!("{count} of {account} on {day:?}, and at most {most}");
            return Err(Wrong::new("velocity is never exceeded", &context));
        }
    }
    Ok(())
}
