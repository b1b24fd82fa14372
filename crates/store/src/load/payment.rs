//! Loads payments, each with what belongs to it, and what they are checked against: attempts, velocities, disputes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use domain::account::tag::TagKey;
use domain::object::Object;
use domain::payment::dispute::DisputeCase;
use domain::payment::{PaidFor, PaymentFile, Transaction};
use domain::read::{AccountRow, PaymentRead, SCHEDULED_MAX};
use domain::state::State;
use domain::tenant::payment_rules::METHODS_MAX;
use domain::{AccountId, PaymentId, Seq, TenantNo, TransactionId};
use engine::ports::StoreError;

use super::account::{AccountPlan, newest_methods};
use super::entitlement::EntitlementPlan;
use super::{BY_ID, split, values};
use crate::driver::Reader;
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

/// The keys of payments and of what they are checked against.
#[derive(Default)]
pub(super) struct PaymentPlan {
    pub(super) payments: BTreeSet<(TenantNo, PaymentId)>,
    transactions: Vec<(TenantNo, TransactionId)>,
    attempts: Vec<(TenantNo, PaymentId)>,
    /// Accounts whose scheduled attempts are looked at.
    scheduled: Vec<(TenantNo, AccountId)>,
    velocities: BTreeSet<(TenantNo, AccountId)>,
    /// Accounts of payments that start: the tenant's rules say what else is looked at.
    pub(super) started: Vec<(TenantNo, AccountId)>,
    disputes: Vec<(TenantNo, DisputeCase)>,
    /// Payments whose disputes are counted.
    disputed: Vec<(TenantNo, PaymentId)>,
}

impl PaymentPlan {
    pub(super) fn add(&mut self, read: &PaymentRead) {
        match read {
            PaymentRead::Payment(no, id) => drop(self.payments.insert((*no, *id))),
            PaymentRead::Transaction(no, id) => self.transactions.push((*no, *id)),
            PaymentRead::Attempts(no, id) => self.attempts.push((*no, *id)),
            PaymentRead::ScheduledAttempts(no, id) => self.scheduled.push((*no, *id)),
            PaymentRead::Velocity(no, id) => drop(self.velocities.insert((*no, *id))),
            PaymentRead::Rules(no, id) => self.started.push((*no, *id)),
            PaymentRead::Dispute(no, case) => self.disputes.push((*no, case.clone())),
            PaymentRead::DisputeCount(no, id) => self.disputed.push((*no, *id)),
        }
    }

    /// Loads payments, which say what belongs to them.
    pub(super) fn load_payments(
        &mut self,
        reader: &Reader,
        (accounts, entitlements): (&mut AccountPlan, &mut EntitlementPlan),
        state: &mut State,
        recent: &mut Recent,
    ) -> Result<(), StoreError> {
        self.find_transactions(reader, state)?;
        let (mut found, unknown) = split(&self.payments, &mut recent.payments);
        for (key, entry) in read_payments(reader, &unknown)? {
            recent.payment_read(key, &entry);
            found.insert(key, entry);
        }
        for &key in &self.payments {
            let tenant = key.0;
            let found = found.remove(&key);
            let file = found.map(|PaymentEntry { file, outstanding }| {
                accounts.accounts.insert((tenant, file.payment.account_id));
                accounts.methods.insert((tenant, file.payment.payment_method_id));
                let methods = file.transactions.iter().map(|it| (tenant, it.payment_method_id));
                accounts.methods.extend(methods);
                if let Some(PaidFor::Purchase(purchase)) = file.payment.paid_for {
                    entitlements.purchases.insert((tenant, purchase));
                    entitlements.accounts.insert((tenant, file.payment.account_id));
                }
                let open = outstanding.into_iter().map(|it| ((tenant, it.transaction_id), it));
                state.payment.outstanding.extend(open);
                file
            });
            state.payment.payments.set(key, file);
        }
        Ok(())
    }

    /// The payments of transactions that are looked for by id.
    fn find_transactions(&mut self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        let keys = &self.transactions;
        state.payment.transactions.extend(keys.iter().map(|key| (*key, None)));
        reader.for_keys(&SELECT_TRANSACTION, &values(keys), |_, cells| {
            let it = PAYMENT_TRANSACTION.row(cells)?;
            self.payments.insert((it.tenant, it.payment_id));
            state.payment.transactions.insert((it.tenant, it.id), Some(it.payment_id));
            Ok(())
        })
    }

    /// Adds the rows that the tenants' rules say: velocities, methods to choose from, and the tags and fields that payments
    /// are routed by.
    pub(super) fn follow_rules(
        &mut self,
        reader: &Reader,
        accounts: &mut AccountPlan,
        state: &mut State,
    ) -> Result<(), StoreError> {
        for &(tenant, account) in &self.started {
            let rules = state.tenant.payment_rules.find(&tenant);
            if let Some(routing) = rules.and_then(|it| it.routing.as_ref()) {
                let object = Object::Account(account);
                let tag =
                    |definition| AccountRow::Tag(tenant, TagKey::new(account, object, definition));
                accounts.rows.extend(routing.tags().map(tag));
                let fields = AccountRow::CustomFields(tenant, object);
                accounts.rows.extend(routing.has_fields().then_some(fields));
            }
            let Some(limits) = rules.and_then(|it| it.limits.as_ref()) else { continue };
            if limits.every_payment {
                self.velocities.insert((tenant, account));
            }
            if !limits.method_gateways.is_empty() {
                let most = i64::try_from(METHODS_MAX).unwrap_or(i64::MAX);
                let ids = newest_methods(reader, (tenant, account), most)?;
                accounts.methods.extend(ids.iter().map(|id| (tenant, *id)));
                state.account.methods_to_choose.insert((tenant, account), ids);
            }
        }
        Ok(())
    }

    /// Loads the rows that the rules do not say.
    pub(super) fn load(mut self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        let loaded = &mut state.payment;
        for (tenant, account) in self.scheduled {
            let key = [tenant.into(), account.into(), i64::from(SCHEDULED_MAX).into()];
            let found =
                reader.query(&SELECT_SCHEDULED, &key, |cells| PAYMENT_ATTEMPT.row(cells))?;
            loaded.scheduled_attempts.insert((tenant, account), found);
        }
        loaded.attempts.extend(self.attempts.iter().map(|key| (*key, vec![])));
        reader.for_keys(&SELECT_ATTEMPTS, &values(&self.attempts), |at, cells| {
            let it = PAYMENT_ATTEMPT.row(cells)?;
            self.velocities.insert((it.tenant, it.account_id));
            loaded.attempts.entry(self.attempts[at]).or_default().push(it);
            Ok(())
        })?;
        PAYMENT_VELOCITY.load(reader, self.velocities, &mut loaded.velocities)?;
        DISPUTE.load(reader, self.disputes, &mut loaded.disputes)?;
        for (tenant, payment) in self.disputed {
            let key = [tenant.into(), payment.into()];
            let count = reader.query_one(DISPUTES_OF_PAYMENT, &key, |cells| cells.int())?;
            let count = usize::try_from(count.unwrap_or_default()).unwrap_or(usize::MAX);
            loaded.dispute_counts.insert((tenant, payment), count);
        }
        Ok(())
    }
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
