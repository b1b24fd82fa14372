//! Loads payments, each with what belongs to it, and what they are checked against: attempts, velocities, disputes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use domain::payment::{PaymentFile, Transaction};
use domain::read::SCHEDULED_MAX;
use domain::state::{PaymentState, State};
use domain::{AccountId, PaymentId, Seq, TenantNo, TransactionId};
use engine::ports::StoreError;

use super::{BY_ID, split, values};
use crate::driver::{Reader, Value};
use crate::recent::{PaymentEntry, Recent};
use crate::tables::{
    DISPUTE, OUTSTANDING, PAYMENT, PAYMENT_ATTEMPT, PAYMENT_TRANSACTION, PAYMENT_VELOCITY,
    opened_transaction,
};

/// The attempts of a payment that have a transaction, by the payment's index alone.
const ATTEMPTS_WITH_TRANSACTION: &str =
    "WHERE payment_id = ?2 AND tenant + 0 = ?1 AND transaction_id IS NOT NULL";
const DISPUTES_OF_PAYMENT: &str =
    "SELECT count(*) FROM dispute WHERE payment_id = ?2 AND tenant + 0 = ?1";

static SELECT_PAYMENT: LazyLock<String> = LazyLock::new(|| PAYMENT.select(BY_ID));
static SELECT_TRANSACTION: LazyLock<String> = LazyLock::new(|| PAYMENT_TRANSACTION.select(BY_ID));
static SELECT_TRANSACTIONS: LazyLock<String> =
    LazyLock::new(|| PAYMENT_TRANSACTION.select("WHERE tenant = ?1 AND payment_id = ?2"));
static SELECT_OUTSTANDING: LazyLock<String> =
    // By the payment's index alone: a tenant has too many.
    LazyLock::new(|| OUTSTANDING.select("WHERE payment_id = ?2 AND tenant + 0 = ?1"));
static SELECT_ATTEMPTS: LazyLock<String> =
    LazyLock::new(|| PAYMENT_ATTEMPT.select(ATTEMPTS_WITH_TRANSACTION));
static SELECT_SCHEDULED: LazyLock<String> = LazyLock::new(|| {
    PAYMENT_ATTEMPT.select(
        "WHERE tenant = ?1 AND account_id = ?2 AND due_at_us IS NOT NULL \
         ORDER BY due_at_us, id LIMIT ?3",
    )
});

/// Loads payments, which say what belongs to them.
pub(super) fn load_payments(
    reader: &Reader,
    state: &mut State,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let loaded = &mut state.payment;
    find_transactions(reader, loaded)?;
    let keys: Vec<(TenantNo, PaymentId)> = loaded.payments.absent().copied().collect();
    let (mut found, unknown) = split(&keys, &mut recent.payments);
    for (key, entry) in read_payments(reader, &unknown)? {
        recent.payment_read(key, &entry);
        found.insert(key, entry);
    }
    for ((tenant, _), PaymentEntry { file, outstanding }) in found {
        let open = outstanding.into_iter().map(|it| ((tenant, it.transaction_id), it));
        loaded.outstanding.extend(open);
        loaded.payments.put(file);
    }
    state.look_for_of_payments();
    Ok(())
}

/// The payments of transactions that are looked for by id.
fn find_transactions(reader: &Reader, loaded: &mut PaymentState) -> Result<(), StoreError> {
    let keys: Vec<(TenantNo, TransactionId)> = loaded.transactions.keys().copied().collect();
    reader.for_keys(&SELECT_TRANSACTION, &values(&keys), |_, cells| {
        let it = PAYMENT_TRANSACTION.row(cells)?;
        loaded.payments.look_for((it.tenant, it.payment_id));
        loaded.transactions.insert((it.tenant, it.id), Some(it.payment_id));
        Ok(())
    })
}

/// Loads what payments are checked against.
pub(super) fn load(reader: &Reader, loaded: &mut PaymentState) -> Result<(), StoreError> {
    let accounts: Vec<_> = loaded.scheduled_attempts.keys().copied().collect();
    let of_account = |it: &(TenantNo, AccountId)| -> [Value<'static>; 3] {
        [it.0.into(), it.1.into(), i64::from(SCHEDULED_MAX).into()]
    };
    let of_accounts: Vec<_> = accounts.iter().map(of_account).collect();
    reader.for_keys(&SELECT_SCHEDULED, &of_accounts, |at, cells| {
        let scheduled = loaded.scheduled_attempts.entry(accounts[at]).or_default();
        scheduled.push(PAYMENT_ATTEMPT.row(cells)?);
        Ok(())
    })?;
    let keys: Vec<(TenantNo, PaymentId)> = loaded.attempts.keys().copied().collect();
    reader.for_keys(&SELECT_ATTEMPTS, &values(&keys), |at, cells| {
        let it = PAYMENT_ATTEMPT.row(cells)?;
        loaded.velocities.look_for((it.tenant, it.account_id));
        loaded.attempts.entry(keys[at]).or_default().push(it);
        Ok(())
    })?;
    PAYMENT_VELOCITY.load(reader, &mut loaded.velocities)?;
    DISPUTE.load(reader, &mut loaded.disputes)?;
    let payments: Vec<_> = loaded.dispute_counts.keys().copied().collect();
    reader.for_keys(DISPUTES_OF_PAYMENT, &values(&payments), |at, cells| {
        let count = usize::try_from(cells.int()?).unwrap_or(usize::MAX);
        loaded.dispute_counts.insert(payments[at], count);
        Ok(())
    })
}

/// Those payments that exist, each with what belongs to it.
fn read_payments(
    reader: &Reader,
    keys: &[(TenantNo, PaymentId)],
) -> Result<BTreeMap<(TenantNo, PaymentId), PaymentEntry>, StoreError> {
    let mut found = BTreeMap::new();
    reader.for_keys(&SELECT_PAYMENT, &values(keys), |at, cells| {
        let file = PaymentFile { payment: PAYMENT.row(cells)?, transactions: vec![] };
        found.insert(keys[at], PaymentEntry { file, outstanding: vec![] });
        Ok(())
    })?;
    let keys: Vec<(TenantNo, PaymentId)> = found.keys().copied().collect();
    let mut opened: Vec<Vec<(Seq, Transaction)>> = vec![vec![]; keys.len()];
    reader.for_keys(&SELECT_TRANSACTIONS, &values(&keys), |at, cells| {
        opened[at].push(cells.row_of(&PAYMENT_TRANSACTION, opened_transaction)?);
        Ok(())
    })?;
    for (entry, mut opened) in found.values_mut().zip(opened) {
        if opened.is_empty() {
            let reason = "a payment has no transactions".to_owned();
            return Err(StoreError::Corrupt { table: PAYMENT.name, reason });
        }
        opened.sort_by_key(|(opened_seq, it)| (*opened_seq, it.effective_at));
        entry.file.transactions = opened.into_iter().map(|(_, transaction)| transaction).collect();
    }
    reader.for_keys(&SELECT_OUTSTANDING, &values(&keys), |at, cells| {
        if let Some(entry) = found.get_mut(&keys[at]) {
            entry.outstanding.push(OUTSTANDING.row(cells)?);
        }
        Ok(())
    })?;
    Ok(found)
}
