//! The checks of payment control: attempts, what accounts started in a day, and limits.

use std::collections::{BTreeMap, BTreeSet};

use domain::payment_attempt::{AttemptState, PaymentAttempt};
use domain::timer::TimerKind;

use super::Wrong;
use super::people::same;
use crate::ask::Status;
use crate::disk::Books;
use crate::model::{Model, Most, Retry};
use crate::translate;

/// All checks of payment control.
pub fn all(books: &Books, model: &Model) -> Vec<Result<(), Wrong>> {
    let timers = timers(books, model);
    let disputes = disputes(books, model);
    vec![attempts(books, model), timers, disputes, velocities(books, model), limits(books, model)]
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

/// What is booked of each dispute, and nothing twice.
fn disputes(books: &Books, model: &Model) -> Result<(), Wrong> {
    let mut stored: Vec<String> = vec![];
    for it in &books.disputes {
        let (id, payment) = (it.id.uuid().as_u128(), it.payment_id.uuid().as_u128());
        let booked = [
            it.withdrawn,
            it.reinstated,
            it.booked.charged_back,
            it.booked.reversed,
            it.booked.excess,
            it.booked.excess_returned,
        ];
        let waits = it.booking_at.map(|it| it.0);
        stored.push(format!(
            "{} {id:x} {payment:x} {:?} {waits:?}",
            it.tenant.0,
            booked.map(|it| it.0)
        ));
    }
    let mut expected: Vec<String> = vec![];
    for (no, tenant) in &model.tenants {
        for it in tenant.disputes.values() {
            let booked =
                [it.withdrawn, it.reinstated, it.back, it.reversed, it.excess, it.excess_back];
            expected.push(format!("{no} {:x} {:x} {booked:?} {:?}", it.id, it.payment, it.waits));
        }
    }
    same("disputes are what the model says", &mut stored, &mut expected)
}

/// A timer is set for each attempt that is to be retried, for its time, and no other.
fn timers(books: &Books, model: &Model) -> Result<(), Wrong> {
    let mut stored: Vec<String> = vec![];
    for timer in &books.timers {
        let of_timer = |it: &&PaymentAttempt| it.id.uuid() == timer.key.object;
        let attempt = books.attempts.iter().find(of_timer);
        let transaction = attempt.and_then(|it| it.transaction_id).map(|it| it.uuid().as_u128());
        let is_of_dispute = timer.key.kind == TimerKind::DisputeBooking;
        let transaction = transaction.or(is_of_dispute.then(|| timer.key.object.as_u128()));
        stored.push(format!("{} {transaction:x?} {}", timer.tenant.0, timer.due.0));
    }
    let expected = model.timers().into_iter();
    let mut expected: Vec<String> =
        expected.map(|(tenant, _, it, due)| format!("{tenant} {:x?} {due}", Some(it))).collect();
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
