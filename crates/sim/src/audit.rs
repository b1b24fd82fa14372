//! The checks: what the store holds against what the model says it ought to hold.

use std::collections::{BTreeMap, BTreeSet};

use domain::payment::{Outstanding, PaymentFile, Transaction};
use engine::ports::HistoryOf;

use crate::ask::{Ask, How, Said, Status, Uid, When};
use crate::disk::{Books, Disk, entity, revision};
use crate::faulty::Seen;
use crate::gateway::{Gateway, Stand};
use crate::model::{Model, Move, Payment};
use crate::translate;

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What ought to hold.
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

/// What the simulation remembers beside the model.
#[derive(Debug, Default)]
pub struct Ledgers {
    /// What clients were told, by tenant.
    pub acknowledged: Vec<(u32, Said)>,
    /// The request behind each idempotency key that was answered.
    pub asked: BTreeMap<Uid, Ask>,
    /// Transactions that an operator decided without the gateway.
    pub astray: BTreeSet<Uid>,
    /// The journal rows of each entity, as they were handed to the store.
    pub written: BTreeMap<(u32, u8, Uid), Vec<i64>>,
    /// The last journal row handed to the store.
    pub head: i64,
    /// Where the follower of the journal is.
    pub followed: i64,
}

/// Checks a batch that is durable.
///
/// # Errors
/// What is wrong with it.
pub fn batch(seen: &Seen, when: When, ledgers: &mut Ledgers) -> Result<(), Wrong> {
    for entry in &seen.entries {
        let row = entry.seq.0;
        if row != ledgers.head + 1 {
            let context = format!("row {row} after row {}", ledgers.head);
            return Err(Wrong::new("the journal has no gaps", &context));
        }
        ledgers.head = row;
        if entry.at.0 != when.domain {
            let context = format!("row {row} at {}, the clock says {}", entry.at.0, when.domain);
            return Err(Wrong::new("rows carry the time of their batch", &context));
        }
        for change in &entry.changes {
            if let Some(name) = entity(change).map(|of| name(entry.tenant.0, of)) {
                let rows = ledgers.written.entry(name).or_default();
                if rows.last() != Some(&row) {
                    rows.push(row);
                }
            }
        }
    }
    Ok(())
}

fn name(tenant: u32, of: HistoryOf) -> (u32, u8, Uid) {
    match of {
        HistoryOf::Account(id) => (tenant, 0, id.uuid().as_u128()),
        HistoryOf::PaymentMethod(id) => (tenant, 1, id.uuid().as_u128()),
        HistoryOf::Payment(id) => (tenant, 2, id.uuid().as_u128()),
        HistoryOf::Transaction(id) => (tenant, 3, id.uuid().as_u128()),
    }
}

/// Checks one payment as it is stored.
///
/// # Errors
/// What is wrong with it.
pub fn payment<D: Disk>(disk: &D, model: &Model, (tenant, id): (u32, Uid)) -> Result<(), Wrong> {
    let context = |text: &str| format!("payment {id:x} of tenant {tenant}: {text}");
    let no = domain::TenantNo(tenant);
    let stored = disk.payment(no, translate::id(id));
    let expected = model.payment(tenant, id);
    match (&stored, expected) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Wrong::new("what was committed is stored", &context("is missing"))),
        (Some(_), None) => {
            Err(Wrong::new("what is stored was committed", &context("nobody asked for it")))
        }
        (Some(file), Some(expected)) => {
            same_payment(file, expected)
                .map_err(|(check, text)| Wrong::new(check, &context(&text)))?;
            let waited = disk.outstanding_of(no, translate::id(id));
            same_outstanding(&waited, expected).map_err(|text| {
                Wrong::new("what is open is waited for, and nothing else", &context(&text))
            })
        }
    }
}

fn same_payment(file: &PaymentFile, expected: &Payment) -> Result<(), (&'static str, String)> {
    if let Some(text) = expected.imbalance() {
        return Err(("amounts are conserved", text));
    }
    let stored = &file.payment;
    let amounts = stored.amounts;
    let sums = expected.sums();
    let pairs = [
        (amounts.authorized, sums.authorized),
        (amounts.captured, sums.captured),
        (amounts.purchased, sums.purchased),
        (amounts.refunded, sums.refunded),
        (amounts.credited, sums.credited),
        (amounts.charged_back, sums.charged_back),
    ];
    if pairs.iter().any(|(stored, expected)| stored.0 != *expected) {
        return Err(("sums are those of the transactions", format!("{amounts:?}, not {sums:?}")));
    }
    let last =
        (translate::kind_from(stored.state.operation), translate::status_from(stored.state.status));
    let last_success = stored.last_success.map(|state| translate::kind_from(state.operation));
    let as_stored = format!(
        "{:x} {:?} {} {last:?} {last_success:?}",
        stored.account_id.uuid().as_u128(),
        stored.external_key,
        stored.currency,
    );
    let as_expected = format!(
        "{:x} {:?} {} {:?} {:?}",
        expected.account, expected.key, expected.currency, expected.last, expected.last_success,
    );
    if as_stored != as_expected {
        return Err((
            "payments are what the model says",
            format!("{as_stored}, not {as_expected}"),
        ));
    }
    if file.transactions.len() != expected.moves.len() {
        let counts = format!("{} instead of {}", file.transactions.len(), expected.moves.len());
        return Err(("transactions are what the model says", counts));
    }
    for it in &expected.moves {
        let stored = file.transactions.iter().find(|tx| tx.id.uuid().as_u128() == it.id);
        let stored = stored.map(|stored| shown(stored, it));
        let expected = shown_move(it);
        if stored.as_ref() != Some(&expected) {
            let text = format!("{stored:?}, not {expected}");
            return Err(("transactions are what the model says", text));
        }
    }
    Ok(())
}

fn shown(stored: &Transaction, beside: &Move) -> String {
    let status = translate::status_from(stored.status);
    // What is not a success has processed nothing that counts; what is pending may say an amount.
    let processed = match status {
        Status::Pending => beside.processed,
        _ => stored.processed_amount.map_or(0, |amount| amount.0),
    };
    let currency = stored.currency.map_or(beside.currency, translate::code);
    format!(
        "{:x} {:?} {:?} {status:?} {:?} {processed} {currency} {}",
        stored.id.uuid().as_u128(),
        stored.external_key,
        translate::kind_from(stored.kind),
        stored.amount.map(|amount| amount.0),
        stored.gateway,
    )
}

fn shown_move(it: &Move) -> String {
    format!(
        "{:x} {:?} {:?} {:?} {:?} {} {} {}",
        it.id, it.key, it.kind, it.status, it.asked, it.processed, it.currency, it.gateway,
    )
}

fn same_outstanding(waited: &[Outstanding], expected: &Payment) -> Result<(), String> {
    let stored: BTreeMap<Uid, String> = waited
        .iter()
        .map(|it| {
            let reply = it.reply.map(|key| key.0.as_u128());
            let ask_at = it.ask_at.map(|at| at.0);
            let text = format!("{} {ask_at:?} {} {reply:?}", it.deadline.0, it.asked);
            (it.transaction_id.uuid().as_u128(), text)
        })
        .collect();
    let open = expected.moves.iter().filter_map(|it| it.open.map(|open| (it.id, open)));
    let expected: BTreeMap<Uid, String> = open
        .map(|(id, it)| {
            (id, format!("{} {:?} {} {:?}", it.deadline, it.ask_at, it.asked, it.reply))
        })
        .collect();
    if stored == expected { Ok(()) } else { Err(format!("{stored:x?}, not {expected:x?}")) }
}

/// Checks everything, once nothing is under way any more.
///
/// # Errors
/// The first thing that is wrong.
pub fn everything<D: Disk>(
    (disk, books): (&D, &Books),
    model: &Model,
    gateway: &Gateway,
    ledgers: &Ledgers,
) -> Result<(), Wrong> {
    journal(books, ledgers)?;
    if let Some(problem) = disk.problems().first() {
        return Err(Wrong::new("the store's own verification finds nothing", problem));
    }
    histories(disk, books, ledgers)?;
    directory(books, model)?;
    for (tenant, payments) in model.tenants.iter().map(|(no, tenant)| (*no, &tenant.payments)) {
        for id in payments.keys() {
            payment(disk, model, (tenant, *id))?;
        }
    }
    let count: usize = model.tenants.values().map(|tenant| tenant.payments.len()).sum();
    if books.payments.len() != count {
        let context = format!("{} payments instead of {count}", books.payments.len());
        return Err(Wrong::new("what is stored was committed", &context));
    }
    postings(books, model)?;
    acknowledged(model, ledgers)?;
    keys(model)?;
    charges(model, gateway, ledgers)
}

fn journal(books: &Books, ledgers: &Ledgers) -> Result<(), Wrong> {
    let check = "the journal has no gaps";
    if books.head != ledgers.head {
        let context = format!("its last row is {}, not {}", books.head, ledgers.head);
        return Err(Wrong::new(check, &context));
    }
    let mut rows = 1..=books.head;
    if let Some(row) = books.journal.iter().find(|row| rows.next() != Some(**row)) {
        return Err(Wrong::new(check, &format!("row {row} follows on a gap")));
    }
    if books.followed != ledgers.followed {
        let context = format!("it is at {}, not {}", books.followed, ledgers.followed);
        return Err(Wrong::new("a follower keeps its place", &context));
    }
    Ok(())
}

/// Every entity's rows in the journal form a chain from the row in its table back to its first.
fn histories<D: Disk>(disk: &D, books: &Books, ledgers: &Ledgers) -> Result<(), Wrong> {
    let accounts =
        books.accounts.iter().map(|(it, _)| (it.tenant, HistoryOf::Account(it.id), it.revision));
    let methods =
        books.methods.iter().map(|it| (it.tenant, HistoryOf::PaymentMethod(it.id), it.revision));
    let payments = books.payments.iter().flat_map(|file| {
        let it = &file.payment;
        let own = (it.tenant, HistoryOf::Payment(it.id), it.revision);
        let transactions = file.transactions.iter();
        let transactions =
            transactions.map(|it| (it.tenant, HistoryOf::Transaction(it.id), it.revision));
        std::iter::once(own).chain(transactions)
    });
    for (tenant, of, newest) in accounts.chain(methods).chain(payments) {
        let wrong = |text: String| {
            Wrong::new("histories are complete", &format!("{of:?} of {}: {text}", tenant.0))
        };
        let written = ledgers.written.get(&name(tenant.0, of)).cloned().unwrap_or_default();
        let images = disk.history(tenant, of);
        let mut rows: Vec<i64> = images.iter().map(|image| image.seq).collect();
        rows.dedup();
        // Bookkeeping on an account is no state of its own: its row keeps its revision.
        let revised = |image: &&crate::disk::Image| {
            revision(&image.image).is_some_and(|revision| revision.seq.0 == image.seq)
        };
        let mut before = None;
        for image in images.iter().filter(revised) {
            let Some(revision) = revision(&image.image) else { continue };
            let previous = revision.previous.map(|seq| seq.0);
            if previous != before && before != Some(image.seq) {
                return Err(wrong(format!("row {} names {previous:?}, not {before:?}", image.seq)));
            }
            before = Some(image.seq);
        }
        if before != Some(newest.seq.0) || rows.iter().any(|row| !written.contains(row)) {
            return Err(wrong(format!(
                "{rows:?} up to {before:?}, not {written:?} up to {newest:?}"
            )));
        }
    }
    Ok(())
}

fn directory(books: &Books, model: &Model) -> Result<(), Wrong> {
    let mut stored: Vec<String> = vec![];
    for (it, person) in &books.accounts {
        let default = it.payment_method_id.map(|id| id.uuid().as_u128());
        let currency = it.currency.map(translate::code);
        stored.push(format!(
            "account {} {:x} {:?} {currency:?} {default:x?} {:?}",
            it.tenant.0,
            it.id.uuid().as_u128(),
            it.external_key,
            person.name,
        ));
    }
    for it in &books.methods {
        stored.push(format!(
            "method {} {:x} {:x} {:?} {} {}",
            it.tenant.0,
            it.id.uuid().as_u128(),
            it.account_id.uuid().as_u128(),
            it.external_key,
            it.gateway,
            it.active,
        ));
    }
    let mut expected: Vec<String> = vec![];
    for (no, tenant) in &model.tenants {
        for (id, it) in &tenant.accounts {
            expected.push(format!(
                "account {no} {id:x} {:?} {:?} {:x?} {:?}",
                it.key, it.currency, it.default, it.name,
            ));
        }
        for (id, it) in &tenant.methods {
            expected.push(format!(
                "method {no} {id:x} {:x} {:?} {} {}",
                it.account, it.key, it.gateway, it.active,
            ));
        }
    }
    stored.sort();
    expected.sort();
    let differs = stored.iter().zip(&expected).find(|(stored, expected)| stored != expected);
    if let Some((stored, expected)) = differs {
        let context = format!("{stored}, not {expected}");
        return Err(Wrong::new("accounts and methods are what the model says", &context));
    }
    if stored.len() != expected.len() {
        let context = format!("{} rows instead of {}", stored.len(), expected.len());
        return Err(Wrong::new("accounts and methods are what the model says", &context));
    }
    Ok(())
}

/// Postings are those of the successful movements of money, and nothing but them.
fn postings(books: &Books, model: &Model) -> Result<(), Wrong> {
    let mut posted: BTreeMap<(u32, Uid, String), i64> = BTreeMap::new();
    for (tenant, entry) in &books.entries {
        let it = &entry.posting;
        if it.debit == it.credit || it.amount.0 <= 0 || it.tenant != *tenant {
            return Err(Wrong::new("postings balance", &format!("{it:?}")));
        }
        let customer = domain::ledger::LedgerAccount::Customer;
        let sign = match (it.credit == customer, it.debit == customer) {
            (true, false) => 1,
            (false, true) => -1,
            _ => return Err(Wrong::new("postings balance", &format!("{it:?}"))),
        };
        let place = format!("{} {}", it.currency, it.gateway);
        let key = (tenant.0, it.transaction_id.uuid().as_u128(), place);
        *posted.entry(key).or_default() += sign * it.amount.0;
    }
    posted.retain(|_, paid| *paid != 0);
    let mut expected: BTreeMap<(u32, Uid, String), i64> = BTreeMap::new();
    for (no, tenant) in &model.tenants {
        for it in tenant.payments.values().flat_map(|payment| &payment.moves) {
            if it.paid() != 0 {
                expected.insert((*no, it.id, format!("{} {}", it.currency, it.gateway)), it.paid());
            }
        }
    }
    let differs = |(key, paid): &(&(u32, Uid, String), &i64)| posted.get(*key) != Some(*paid);
    if let Some((key, paid)) = expected.iter().find(differs) {
        let context = format!("{key:x?}: {:?}, not {paid}", posted.get(key));
        return Err(Wrong::new("no payment without its postings", &context));
    }
    if let Some((key, paid)) = posted.iter().find(|(key, _)| !expected.contains_key(*key)) {
        return Err(Wrong::new("no posting without its payment", &format!("{key:x?}: {paid}")));
    }
    Ok(())
}

/// What clients were told to have worked is there; a success stays one unless somebody with a say
/// in it took it back.
fn acknowledged(model: &Model, ledgers: &Ledgers) -> Result<(), Wrong> {
    for (tenant, said) in &ledgers.acknowledged {
        let Some(tenant) = model.tenants.get(tenant) else { continue };
        let holds = match said {
            Said::Made(id) => tenant.accounts.contains_key(id) || tenant.methods.contains_key(id),
            Said::Paid { payment, transaction, how: How::Is(Status::Success) } => {
                tenant.payments.get(payment).is_some_and(|payment| {
                    let found = payment.moves.iter().find(|it| it.id == *transaction);
                    found.is_some_and(|it| it.status == Status::Success) || payment.contradicted
                })
            }
            _ => true,
        };
        if !holds {
            return Err(Wrong::new("what was acknowledged is there", &format!("{said:x?}")));
        }
    }
    Ok(())
}

/// At most one success per transaction key.
fn keys(model: &Model) -> Result<(), Wrong> {
    for (no, tenant) in &model.tenants {
        let mut successes: BTreeMap<&str, Vec<&Payment>> = BTreeMap::new();
        for payment in tenant.payments.values() {
            let worked = payment.moves.iter().filter(|it| it.status == Status::Success);
            let charged = worked.filter(|it| it.kind != crate::ask::Kind::Reversal);
            for key in charged.filter_map(|it| it.key.as_deref()) {
                successes.entry(key).or_default().push(payment);
            }
        }
        let twice = successes.iter().find(|(_, payments)| {
            payments.len() > 1 && !payments.iter().any(|payment| payment.contradicted)
        });
        if let Some((key, _)) = twice {
            let context = format!("{key} of tenant {no}");
            return Err(Wrong::new("a transaction key succeeds once", &context));
        }
    }
    Ok(())
}

/// The gateway's book and the store's successes are the same.
fn charges(model: &Model, gateway: &Gateway, ledgers: &Ledgers) -> Result<(), Wrong> {
    let check = "the gateway's charges are the store's successes";
    let mut known = BTreeSet::new();
    for payment in model.tenants.values().flat_map(|tenant| tenant.payments.values()) {
        for it in payment.moves.iter().filter(|it| it.is_called()) {
            known.insert(it.id);
            let line = gateway.book.get(&it.id);
            if line.is_some_and(|line| !(0..=1).contains(&line.charged)) {
                return Err(Wrong::new("a transaction is charged once", &format!("{it:x?}")));
            }
            let charged = line.filter(|line| line.stand == Stand::Done);
            let worked = it.status == Status::Success;
            let amount = charged.and_then(|line| line.amount).unwrap_or(0);
            if ledgers.astray.contains(&it.id) {
                continue;
            }
            if worked != charged.is_some() || (worked && it.processed != amount) {
                return Err(Wrong::new(check, &format!("{line:x?} is not {it:x?}")));
            }
        }
    }
    match gateway.book.iter().find(|(id, _)| !known.contains(id)) {
        None => Ok(()),
        Some((id, line)) => Err(Wrong::new(check, &format!("nobody asked for {id:x} {line:x?}"))),
    }
}
