//! The checks: what the store holds against what the model says it ought to hold.

mod closing;
mod control;
mod people;

use std::collections::{BTreeMap, BTreeSet};

use domain::change::{Change, CustomerChange, PaymentChange};
use domain::payment::{Outstanding, PaymentFile, Transaction, TransactionStatus, TransactionType};
use domain::{Event, PartitionNo};
use engine::ports::{Entry, HistoryOf, StoredReply};

use crate::ask::{Ask, Said, Uid, When};
use crate::disk::{Disk, is_made};
use crate::faulty::Seen;
use crate::model::{Model, Move, Open, Payment};
use crate::translate;

pub use closing::everything;
pub use control::written_disputes;

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The rule that is broken.
    pub check: &'static str,
    /// Where it does not.
    pub context: String,
}

impl Wrong {
    /// A failed check.
    #[must_use]
    pub fn new(check: &'static str, context: &impl ToString) -> Self {
        Self { check, context: context.to_string() }
    }
}

/// The simulation's records beside the model.
#[derive(Debug, Default)]
pub struct Ledgers {
    /// The replies that clients received, each with its tenant's number.
    pub acknowledged: Vec<(u32, Said)>,
    /// The request behind each idempotency key that was answered.
    pub asked: BTreeMap<Uid, Ask>,
    /// The requests that made something that has its id from them, or left a mark that they did what
    /// they ask for.
    pub made: BTreeSet<Uid>,
    /// Transactions that an operator decided without the gateway.
    pub astray: BTreeSet<Uid>,
    /// The journal rows of each entity, as they were handed to the store.
    pub written: BTreeMap<(u32, HistoryOf), Vec<i64>>,
    /// The last journal row of each partition handed to the store.
    pub heads: BTreeMap<PartitionNo, i64>,
    /// Where the follower of each partition's journal is.
    pub followed: BTreeMap<PartitionNo, i64>,
    /// The disputes that somebody was warned of, with the time at which evidence is due.
    pub warned: BTreeSet<(Uid, i64)>,
}

/// Checks a batch that is durable, and lists what is wrong with it.
pub fn batch(seen: &Seen, when: When, ledgers: &mut Ledgers) -> Vec<Wrong> {
    let mut found = vec![];
    ledgers.made.extend(seen.replies.iter().filter_map(marked));
    for entry in &seen.entries {
        let row = entry.seq.0;
        let partition = entry.seq.partition();
        let head = ledgers.heads.entry(partition).or_insert(partition.start().0);
        if row != *head + 1 {
            let context = format!("row {row} after row {head}");
            found.push(Wrong::new("the journal has no gaps", &context));
        }
        *head = row;
        if entry.at.0 != when.domain {
            let context = format!("row {row} at {}, the clock says {}", entry.at.0, when.domain);
            found.push(Wrong::new("rows carry the time of their batch", &context));
        }
        found.extend(warnings(entry, ledgers));
        for change in &entry.changes {
            if let Some(of) = HistoryOf::in_change(change) {
                let rows = ledgers.written.entry((entry.tenant.0, of)).or_default();
                if is_made(entry, change) {
                    ledgers.made.insert(entry.request.0.as_u128());
                    if rows.iter().any(|earlier| *earlier != row) {
                        let context = format!("row {row} makes what is there: {change:x?}");
                        found.push(Wrong::new("what a request makes is made once", &context));
                    }
                }
                if rows.last() != Some(&row) {
                    rows.push(row);
                }
            } else if has_its_requests_id(entry, change) {
                ledgers.made.insert(entry.request.0.as_u128());
            }
        }
    }
    found
}

/// A warning comes once for each time at which evidence is due, before that, and while it can be sent.
fn warnings(entry: &Entry, ledgers: &mut Ledgers) -> Vec<Wrong> {
    let mut found = vec![];
    for event in &entry.events {
        let Event::DisputeEvidenceDue { dispute, due_by, .. } = event else { continue };
        let is_new = ledgers.warned.insert((dispute.uuid().as_u128(), due_by.0));
        let is_open = entry.changes.iter().any(|change| {
            matches!(change, Change::Payment(PaymentChange::Dispute(it))
                if it.id == *dispute && it.status.needs_response())
        });
        if !is_new || !is_open || *due_by <= entry.at {
            let context = format!("{event:?} in row {} at {}", entry.seq.0, entry.at.0);
            found.push(Wrong::new("a warning is given once, and in time", &context));
        }
    }
    found
}

/// Whether a row without a history of its own is named after the request that made it, or is remembered
/// to be its work: then the same request makes it once.
fn has_its_requests_id(entry: &Entry, change: &Change) -> bool {
    let is_kept =
        matches!(change, Change::Customer(CustomerChange::Operation(_))) && is_made(entry, change);
    matches!(change, Change::Customer(CustomerChange::Mail(_) | CustomerChange::Session(_)))
        || is_kept
}

/// The request of which a batch keeps under its own id that it was carried out, as it does where the rows
/// do not tell: a session that a stolen token ended is gone, and a change may have changed nothing.
fn marked(stored: &StoredReply) -> Option<Uid> {
    (stored.key.0 == stored.fingerprint).then(|| stored.fingerprint.as_u128())
}

/// Checks one payment as it is stored, and lists what is wrong with it.
pub fn payment<D: Disk>(disk: &D, model: &Model, (tenant, id): (u32, Uid)) -> Vec<Wrong> {
    let wrong = |check: &'static str, text: &str| {
        Wrong::new(check, &format!("payment {id:x} of tenant {tenant}: {text}"))
    };
    let no = domain::TenantNo(tenant);
    let stored = disk.payment(no, translate::id(id));
    let Some(expected) = model.payment(tenant, id) else {
        let stray = stored.map(|_| wrong("what is stored was committed", "nobody asked for it"));
        return stray.into_iter().collect();
    };
    let Some(file) = &stored else {
        return vec![wrong("what was committed is stored", "is missing")];
    };
    let waited = disk.outstanding_of(no, translate::id(id));
    let found = [
        ("amounts are conserved", conserved(file, expected.unbalanced)),
        ("sums are those of the transactions", same_sums(file, expected)),
        ("payments are what the model says", same_payment(file, expected)),
        ("transactions are what the model says", same_moves(file, expected)),
        ("what is open is waited for, and nothing else", same_outstanding(&waited, expected)),
    ];
    let failed = found.into_iter().filter_map(|(check, held)| Some((check, held.err()?)));
    failed.map(|(check, text)| wrong(check, &text)).collect()
}

/// Not more is captured than one authorization of the payment holds, nor captured with a gateway and a
/// method than was authorized, or returned than was taken there; where somebody with a say in it overruled an end, that may be too late to hold, but no amount
/// is ever negative.
fn conserved(file: &PaymentFile, is_unbalanced: bool) -> Result<(), String> {
    let negative = |it: &&Transaction| {
        it.processed_amount.is_some_and(|amount| amount.0 < 0)
            || it.amount.is_some_and(|amount| amount.0 <= 0)
    };
    if let Some(it) = file.transactions.iter().find(negative) {
        return Err(format!("{it:?} is not above zero"));
    }
    let worked = |kind: TransactionType| {
        let of_kind = file.transactions.iter().filter(move |it| it.kind == kind);
        let worked = of_kind.filter(|it| it.status == TransactionStatus::Success);
        worked.filter_map(|it| it.processed_amount).map(|amount| amount.0)
    };
    let (most, captured) =
        (worked(TransactionType::Authorize).max(), worked(TransactionType::Capture).sum::<i64>());
    if !is_unbalanced && captured > most.unwrap_or(0) {
        return Err(format!("{captured} captured, and no authorization is of more than {most:?}"));
    }
    for way in &file.transactions {
        let way = (way.gateway.as_str(), way.payment_method_id);
        let sum = |kind: TransactionType| -> i64 {
            let of_kind = file.transactions.iter().filter(|it| it.kind == kind);
            let worked = of_kind.filter(|it| it.status == TransactionStatus::Success);
            let here = worked.filter(|it| (it.gateway.as_str(), it.payment_method_id) == way);
            here.filter_map(|it| it.processed_amount).map(|amount| amount.0).sum()
        };
        let (authorized, captured) =
            (sum(TransactionType::Authorize), sum(TransactionType::Capture));
        let taken = captured + sum(TransactionType::Purchase);
        let charged_back =
            sum(TransactionType::Chargeback) - sum(TransactionType::ChargebackReversal);
        let returned = sum(TransactionType::Refund) + charged_back;
        if !is_unbalanced && (captured > authorized || returned > taken || charged_back < 0) {
            return Err(format!(
                "{captured} of {authorized} captured, {returned} of {taken} returned at {way:?}"
            ));
        }
    }
    Ok(())
}

fn same_sums(file: &PaymentFile, expected: &Payment) -> Result<(), String> {
    let amounts = file.payment.amounts;
    let sums = expected.sums();
    let pairs = [
        (amounts.authorized, sums.authorized),
        (amounts.captured, sums.captured),
        (amounts.purchased, sums.purchased),
        (amounts.refunded, sums.refunded),
        (amounts.credited, sums.credited),
        (amounts.charged_back, sums.charged_back),
    ];
    if pairs.iter().all(|(stored, expected)| stored.0 == *expected) {
        return Ok(());
    }
    Err(format!("{amounts:?}, not {sums:?}"))
}

fn same_payment(file: &PaymentFile, expected: &Payment) -> Result<(), String> {
    let stored = &file.payment;
    let last =
        (translate::kind_from(stored.state.operation), translate::status_from(stored.state.status));
    let last_success = stored.last_success.map(|state| translate::kind_from(state.operation));
    let as_stored = format!(
        "{:x} {:?} {} {last:?} {last_success:?} {:x} {}",
        stored.account_id.uuid().as_u128(),
        stored.external_key,
        stored.currency,
        stored.payment_method_id.uuid().as_u128(),
        stored.gateway,
    );
    let as_expected = format!(
        "{:x} {:?} {} {:?} {:?} {:x} {}",
        expected.account,
        expected.key,
        expected.currency,
        expected.last,
        expected.last_success,
        expected.method,
        expected.gateway,
    );
    if as_stored == as_expected { Ok(()) } else { Err(format!("{as_stored}, not {as_expected}")) }
}

fn same_moves(file: &PaymentFile, expected: &Payment) -> Result<(), String> {
    if file.transactions.len() != expected.moves.len() {
        return Err(format!("{} instead of {}", file.transactions.len(), expected.moves.len()));
    }
    for it in &expected.moves {
        let stored = file.transactions.iter().find(|tx| tx.id.uuid().as_u128() == it.id);
        let stored = stored.map(|stored| shown(stored, it));
        let expected = shown_move(it);
        if stored.as_ref() != Some(&expected) {
            return Err(format!("{stored:?}, not {expected}"));
        }
    }
    Ok(())
}

fn shown(stored: &Transaction, beside: &Move) -> String {
    let status = translate::status_from(stored.status);
    // What is open says an amount that does not count yet; what failed has processed nothing.
    let processed = if status.is_open() {
        beside.processed
    } else {
        stored.processed_amount.map_or(0, |amount| amount.0)
    };
    let currency = stored.currency.map_or(beside.currency, translate::code);
    format!(
        "{:x} {:?} {:?} {status:?} {:?} {processed} {currency} {} {:x}",
        stored.id.uuid().as_u128(),
        stored.external_key,
        translate::kind_from(stored.kind),
        stored.amount.map(|amount| amount.0),
        stored.gateway,
        stored.payment_method_id.uuid().as_u128(),
    )
}

fn shown_move(it: &Move) -> String {
    format!(
        "{:x} {:?} {:?} {:?} {:?} {} {} {} {:x}",
        it.id,
        it.key,
        it.kind,
        it.status,
        it.asked,
        it.processed,
        it.currency,
        it.gateway,
        it.method,
    )
}

fn same_outstanding(waited: &[Outstanding], expected: &Payment) -> Result<(), String> {
    let stored: BTreeMap<Uid, String> = waited
        .iter()
        .map(|it| {
            let reply = it.reply.map(|key| key.0.as_u128());
            let ask_at = it.ask_at.map(|at| at.0);
            let acts = it.next_action.is_some();
            let text = format!("{} {ask_at:?} {} {reply:?} {acts}", it.deadline.0, it.asked);
            (it.transaction_id.uuid().as_u128(), text)
        })
        .collect();
    let open = expected.moves.iter().filter_map(|it| it.open.map(|open| (it.id, open)));
    let expected: BTreeMap<Uid, String> = open
        .map(|(id, it)| {
            let Open { deadline, ask_at, asked, reply, acts } = it;
            (id, format!("{deadline} {ask_at:?} {asked} {reply:?} {acts}"))
        })
        .collect();
    if stored == expected { Ok(()) } else { Err(format!("{stored:x?}, not {expected:x?}")) }
}
