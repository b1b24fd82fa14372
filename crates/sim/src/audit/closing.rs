//! The checks at the end of a simulation, when nothing is under way any more.

use std::collections::{BTreeMap, BTreeSet};

use domain::Account;
use domain::PaymentMethod;
use domain::ledger::{LedgerAccount, Posting};
use domain::payment::Payment;
use domain::payment::attempt::PaymentAttempt;
use domain::payment::{PaymentFile, Transaction, TransactionStatus, TransactionType};
use domain::{AccountId, PaymentMethodId, TenantNo};
use engine::ports::HistoryOf;

use super::{Ledgers, Wrong, control, payment, people};
use crate::ask::signup::Word;
use crate::ask::{How, Said, Status, Uid};
use crate::disk::{Books, Disk, Image};
use crate::gateway::{Gateway, Stand};
use crate::model::Model;
use crate::translate;

/// Checks everything, and lists what is wrong.
pub fn everything<D: Disk>(
    (disk, books): (&D, &Books),
    model: &Model,
    gateway: &Gateway,
    ledgers: &Ledgers,
) -> Vec<Wrong> {
    let mut found = vec![
        journal(books, ledgers),
        follower(books, ledgers),
        verification(disk),
        histories(disk, books, ledgers),
        directory(books, model),
        payers(books),
        balance(books),
        postings(books, model),
        excess(books, model),
        acknowledged((books, model), ledgers),
        keys((books, model)),
        charged_once(gateway),
        charges((books, model), gateway, ledgers),
    ];
    found.extend(people::all(books, model));
    found.extend(control::all(books, model));
    for (tenant, payments) in model.tenants.iter().map(|(no, tenant)| (*no, &tenant.payments)) {
        for id in payments.keys() {
            found.extend(payment(disk, model, (tenant, *id)).into_iter().map(Err));
        }
    }
    for file in &books.payments {
        let (tenant, id) = (file.payment.tenant.0, file.payment.id.uuid().as_u128());
        if model.payment(tenant, id).is_none() {
            let context = format!("payment {id:x} of tenant {tenant}");
            found.push(Err(Wrong::new("what is stored was committed", &context)));
        }
    }
    found.into_iter().filter_map(Result::err).collect()
}

fn journal(books: &Books, ledgers: &Ledgers) -> Result<(), Wrong> {
    let check = "the journal has no gaps";
    for (no, head) in &books.heads {
        let written = ledgers.heads.get(no).copied().unwrap_or(no.start().0);
        if *head != written {
            let context = format!("its last row is {head}, not {written}");
            return Err(Wrong::new(check, &context));
        }
    }
    let mut rows = books.heads.iter().flat_map(|(no, head)| no.start().0 + 1..=*head);
    match books.journal.iter().find(|row| rows.next() != Some(**row)) {
        Some(row) => Err(Wrong::new(check, &format!("row {row} follows on a gap"))),
        None => Ok(()),
    }
}

fn follower(books: &Books, ledgers: &Ledgers) -> Result<(), Wrong> {
    if books.followed == ledgers.followed {
        return Ok(());
    }
    let context = format!("it is at {:?}, not {:?}", books.followed, ledgers.followed);
    Err(Wrong::new("a follower keeps its place", &context))
}

fn verification<D: Disk>(disk: &D) -> Result<(), Wrong> {
    match disk.problems().first() {
        Some(problem) => Err(Wrong::new("the store's own verification finds nothing", problem)),
        None => Ok(()),
    }
}

/// Every entity's rows in the journal form a chain from the row in its table back to its first.
fn histories<D: Disk>(disk: &D, books: &Books, ledgers: &Ledgers) -> Result<(), Wrong> {
    let accounts = books
        .accounts
        .iter()
        .map(|(it, _)| (it.tenant, HistoryOf::new::<Account>(it.id.uuid()), it.revision));
    let methods = books
        .methods
        .iter()
        .map(|it| (it.tenant, HistoryOf::new::<PaymentMethod>(it.id.uuid()), it.revision));
    let payments = books.payments.iter().flat_map(|file| {
        let it = &file.payment;
        let own = (it.tenant, HistoryOf::new::<Payment>(it.id.uuid()), it.revision);
        let transactions = file.transactions.iter();
        let transactions = transactions
            .map(|it| (it.tenant, HistoryOf::new::<Transaction>(it.id.uuid()), it.revision));
        std::iter::once(own).chain(transactions)
    });
    let attempts = books
        .attempts
        .iter()
        .map(|it| (it.tenant, HistoryOf::new::<PaymentAttempt>(it.id.uuid()), it.revision));
    for (tenant, of, newest) in accounts.chain(methods).chain(payments).chain(attempts) {
        let wrong = |text: String| {
            Wrong::new("histories are complete", &format!("{of:?} of {}: {text}", tenant.0))
        };
        let written = ledgers.written.get(&(tenant.0, of)).cloned().unwrap_or_default();
        let images = disk.history(tenant, of);
        let mut rows: Vec<i64> = images.iter().map(|image| image.seq).collect();
        rows.dedup();
        // Bookkeeping on an account is no state of its own: its row keeps its revision.
        let revised = |image: &&Image| {
            image.image.revision().is_some_and(|revision| revision.seq.0 == image.seq)
        };
        let mut before = None;
        for image in images.iter().filter(revised) {
            let Some(revision) = image.image.revision() else { continue };
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

/// Each transaction is of an account, and of a method of that account.
fn payers(books: &Books) -> Result<(), Wrong> {
    let accounts: BTreeSet<(TenantNo, AccountId)> =
        books.accounts.iter().map(|(it, _)| (it.tenant, it.id)).collect();
    let methods: BTreeSet<(TenantNo, AccountId, PaymentMethodId)> =
        books.methods.iter().map(|it| (it.tenant, it.account_id, it.id)).collect();
    let has_its_payer = |it: &&Transaction| {
        accounts.contains(&(it.tenant, it.account_id))
            && methods.contains(&(it.tenant, it.account_id, it.payment_method_id))
    };
    let mut all = books.payments.iter().flat_map(|file| &file.transactions);
    match all.find(|it| !has_its_payer(it)) {
        Some(it) => {
            let context = format!("{} of {} by {}", it.id, it.account_id, it.payment_method_id);
            Err(Wrong::new("no payment without its account and its method", &context))
        }
        None => Ok(()),
    }
}

/// Every posting moves something from one side to another, in its own tenant.
fn balance(books: &Books) -> Result<(), Wrong> {
    for (tenant, entry) in &books.entries {
        let it = &entry.posting;
        let customer = LedgerAccount::Customer;
        let of_excess = is_excess(it) && it.credit != it.debit;
        let one_side_is_the_customer =
            of_excess || (it.credit == customer) != (it.debit == customer);
        if it.amount.0 <= 0 || it.tenant != *tenant || !one_side_is_the_customer {
            return Err(Wrong::new("postings balance", &format!("{it:?}")));
        }
    }
    Ok(())
}

/// Whether a posting is of what a dispute took beyond its payment.
fn is_excess(it: &Posting) -> bool {
    [it.debit, it.credit].contains(&LedgerAccount::DisputeExcess)
}

/// Checks that the posted excess is what disputes took beyond their payments, less what they gave back.
fn excess(books: &Books, model: &Model) -> Result<(), Wrong> {
    let posted = books.entries.iter().map(|(_, it)| &it.posting).filter(|it| is_excess(it));
    let sign = |it: &Posting| if it.debit == LedgerAccount::DisputeExcess { 1 } else { -1 };
    let posted: i64 = posted.map(|it| sign(it) * it.amount.0).sum();
    let cases = model.tenants.values().flat_map(|tenant| tenant.disputes.values());
    let expected: i64 = cases.map(|it| it.excess - it.excess_back).sum();
    if posted == expected {
        return Ok(());
    }
    Err(Wrong::new("excess is posted as disputes say", &format!("{posted}, not {expected}")))
}

/// Tenant, transaction, currency and gateway of what was paid.
type Place = (u32, Uid, String);

/// Postings are those of the successful movements of money, and nothing but them.
fn postings(books: &Books, model: &Model) -> Result<(), Wrong> {
    let mut posted: BTreeMap<Place, i64> = BTreeMap::new();
    let entries = books.entries.iter().filter(|(_, it)| !is_excess(&it.posting));
    for (tenant, entry) in entries {
        let it = &entry.posting;
        let sign = if it.credit == LedgerAccount::Customer { 1 } else { -1 };
        let Some(transaction) = it.transaction() else { continue };
        let place = format!("{} {}", it.currency, it.gateway());
        let key = (tenant.0, transaction.uuid().as_u128(), place);
        *posted.entry(key).or_default() += sign * it.amount.0;
    }
    posted.retain(|_, paid| *paid != 0);
    let mut expected: BTreeMap<Place, i64> = BTreeMap::new();
    for (no, tenant) in &model.tenants {
        for it in tenant.payments.values().flat_map(|payment| &payment.moves) {
            if it.paid() != 0 {
                expected.insert((*no, it.id, format!("{} {}", it.currency, it.gateway)), it.paid());
            }
        }
    }
    if let Some((key, paid)) = posted.iter().find(|(key, _)| !expected.contains_key(*key)) {
        return Err(Wrong::new("no posting without its payment", &format!("{key:x?}: {paid}")));
    }
    match expected.iter().find(|(key, paid)| posted.get(*key) != Some(*paid)) {
        Some((key, paid)) => {
            let context = format!("{key:x?}: {:?}, not {paid}", posted.get(key));
            Err(Wrong::new("no payment without its postings", &context))
        }
        None => Ok(()),
    }
}

fn succeeded(transaction: &&Transaction) -> bool {
    transaction.status == TransactionStatus::Success
}

/// Whether somebody with a say in it overruled an end of this payment.
fn is_contradicted(model: &Model, file: &PaymentFile) -> bool {
    let (tenant, id) = (file.payment.tenant.0, file.payment.id.uuid().as_u128());
    model.payment(tenant, id).is_some_and(|payment| payment.contradicted)
}

/// Checks that every success that a client received is stored; a successful transaction stays one
/// unless its gateway or an operator took it back.
fn acknowledged((books, model): (&Books, &Model), ledgers: &Ledgers) -> Result<(), Wrong> {
    let accounts = books.accounts.iter().map(|(it, _)| (it.tenant, it.id.uuid().as_u128()));
    let methods = books.methods.iter().map(|it| (it.tenant, it.id.uuid().as_u128()));
    let made: BTreeSet<(TenantNo, Uid)> = accounts.chain(methods).collect();
    let mut paid: BTreeSet<(TenantNo, Uid)> = BTreeSet::new();
    for file in &books.payments {
        let doubted = is_contradicted(model, file);
        let lasting = file.transactions.iter().filter(|it| succeeded(it) || doubted);
        paid.extend(lasting.map(|it| (it.tenant, it.id.uuid().as_u128())));
    }
    let customers = books.customers.iter().map(|file| &file.customer);
    let customers: BTreeSet<(TenantNo, Uid)> =
        customers.map(|it| (it.tenant, it.id.uuid().as_u128())).collect();
    let is_lost = |(tenant, said): &&(u32, Said)| match said {
        Said::Made(id) => !made.contains(&(TenantNo(*tenant), *id)),
        Said::Paid { transaction, how: How::Is(Status::Success), .. } => {
            !paid.contains(&(TenantNo(*tenant), *transaction))
        }
        Said::Customer(Word::Joined(who)) => !customers.contains(&(TenantNo(*tenant), who.id)),
        Said::Done
        | Said::Paid { .. }
        | Said::Aborted
        | Said::Customer(_)
        | Said::Refused(_)
        | Said::StillRunning
        | Said::AnotherRequest
        | Said::Waits(_)
        | Said::Unavailable(_) => false,
    };
    match ledgers.acknowledged.iter().find(is_lost) {
        Some((tenant, said)) => {
            let context = format!("{said:x?} of tenant {tenant}");
            Err(Wrong::new("what was acknowledged is there", &context))
        }
        None => Ok(()),
    }
}

/// At most one success per transaction key, chargebacks and their reversals aside.
fn keys((books, model): (&Books, &Model)) -> Result<(), Wrong> {
    let mut succeeded_before: BTreeSet<(TenantNo, String)> = BTreeSet::new();
    for file in books.payments.iter().filter(|file| !is_contradicted(model, file)) {
        let charged = file.transactions.iter().filter(succeeded).filter(|it| {
            !matches!(it.kind, TransactionType::Chargeback | TransactionType::ChargebackReversal)
        });
        for it in charged {
            let key = it.external_key.clone().unwrap_or_else(|| it.id.to_string());
            if !succeeded_before.insert((file.payment.tenant, key.clone())) {
                let context = format!("{key} of tenant {}", file.payment.tenant.0);
                return Err(Wrong::new("a transaction key succeeds once", &context));
            }
        }
    }
    Ok(())
}

fn charged_once(gateway: &Gateway) -> Result<(), Wrong> {
    match gateway.book.iter().find(|(_, line)| !(0..=1).contains(&line.charged)) {
        Some((id, line)) => {
            Err(Wrong::new("a transaction is charged once", &format!("{id:x} {line:x?}")))
        }
        None => Ok(()),
    }
}

/// The gateway's book and the store's successes are the same.
fn charges(
    (books, model): (&Books, &Model),
    gateway: &Gateway,
    ledgers: &Ledgers,
) -> Result<(), Wrong> {
    let check = "the gateway's charges are the store's successes";
    let mut known = BTreeSet::new();
    for it in books.payments.iter().flat_map(|file| &file.transactions) {
        let id = it.id.uuid().as_u128();
        known.insert(id);
        let terms = model.rules.gateways.get(it.gateway.as_str());
        let from_bank =
            matches!(it.kind, TransactionType::Chargeback | TransactionType::ChargebackReversal);
        if terms.is_none_or(|terms| terms.at_once) || from_bank || ledgers.astray.contains(&id) {
            continue;
        }
        let line = gateway.book.get(&id);
        let charged = line.filter(|line| line.stand == Stand::Done);
        let amount = charged.map(|line| line.amount.unwrap_or(0));
        let worked = Some(it).filter(succeeded);
        let processed = worked.map(|it| it.processed_amount.map_or(0, |amount| amount.0));
        if processed != amount {
            return Err(Wrong::new(check, &format!("{line:x?} is not {it:?}")));
        }
    }
    match gateway.book.iter().find(|(id, _)| !known.contains(id)) {
        None => Ok(()),
        Some((id, line)) => Err(Wrong::new(check, &format!("nobody asked for {id:x} {line:x?}"))),
    }
}
