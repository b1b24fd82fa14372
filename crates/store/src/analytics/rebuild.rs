//! The read models computed anew: from the rows of accounts and transactions, not from events.

use std::collections::BTreeMap;

use domain::payment::TransactionStatus;
use domain::{AccountId, AmountMinor, PartitionNo, PaymentId, Seq, TenantNo, Timestamp};
use engine::analytics::{AccountsKey, Activity, SuccessesKey, Tally, TransactionsKey};
use engine::ports::StoreError;

use super::{
    ACCOUNT_ACTIVITY, ACCOUNT_SUCCESSES, ACCOUNTS_OF_DAY, TRANSACTIONS_OF_DAY, put_tally,
    set_cursor, successes_key, transactions_key,
};
use crate::driver::{Cells, Database, Put, Reader};

/// Replaces what is in the models by what `truth` says, as part of what was begun.
pub(super) fn rebuild(truth: &Reader, db: &Database) -> Result<Seq, StoreError> {
    for table in [&ACCOUNTS_OF_DAY, &TRANSACTIONS_OF_DAY, &ACCOUNT_ACTIVITY, &ACCOUNT_SUCCESSES] {
        db.exec(&format!("DELETE FROM {}", table.name), &[])?;
    }
    truth.snapshot(|truth| {
        accounts(truth, db)?;
        transactions(truth, db)?;
        let sql = "SELECT coalesce(max(seq), 0) FROM journal WHERE seq < ?1";
        let head = truth.query_one(sql, &[PartitionNo::FIRST.end().into()], |cells| cells.seq())?;
        let head = head.unwrap_or_default();
        set_cursor(db, head)?;
        Ok(head)
    })
}

fn accounts(truth: &Reader, db: &Database) -> Result<(), StoreError> {
    let mut days: BTreeMap<AccountsKey, i64> = BTreeMap::new();
    truth.walk("SELECT tenant, created_at_us FROM account", &[], |cells| {
        let (tenant, day) = (cells.tenant()?, cells.time()?.day());
        *days.entry(AccountsKey { tenant, day }).or_default() += 1;
        Ok(())
    })?;
    let mut put = db.insert(&ACCOUNTS_OF_DAY)?;
    for (key, accounts) in days {
        put.row(&[key.tenant.into(), key.day.into(), accounts.into()])?;
    }
    Ok(())
}

fn transactions(truth: &Reader, db: &Database) -> Result<(), StoreError> {
    // In the order of the index on accounts: one account after the other, so that each is written
    // once and only one is in memory.
    let sql = "SELECT p.tenant, p.account_id, p.id, t.effective_at_us, t.gateway, t.currency, \
         t.kind, t.status, t.processed_amount_minor \
         FROM payment p JOIN payment_transaction t ON t.tenant = p.tenant AND t.payment_id = p.id \
         ORDER BY p.tenant, p.account_id, p.id";
    let mut days: BTreeMap<TransactionsKey, Tally> = BTreeMap::new();
    let (mut activities, mut successes) =
        (db.insert(&ACCOUNT_ACTIVITY)?, db.insert(&ACCOUNT_SUCCESSES)?);
    let mut current: Option<OneAccount> = None;
    truth.walk(sql, &[], |cells| {
        let row = Row::of(cells)?;
        if current.as_ref().is_none_or(|it| !it.is_of(&row))
            && let Some(done) = current.replace(OneAccount::new(&row))
        {
            done.write(&mut activities, &mut successes)?;
        }
        if let Some(current) = &mut current {
            current.add(&row);
        }
        add(days.entry(row.key).or_default(), row.tally);
        Ok(())
    })?;
    if let Some(done) = current {
        done.write(&mut activities, &mut successes)?;
    }
    let mut put = db.insert(&TRANSACTIONS_OF_DAY)?;
    for (key, tally) in &days {
        put_tally(&mut put, &transactions_key(key), *tally)?;
    }
    Ok(())
}

/// A transaction, as far as the models count it.
struct Row {
    account: AccountId,
    payment: PaymentId,
    effective_at: Timestamp,
    key: TransactionsKey,
    tally: Tally,
}

impl Row {
    fn of(cells: &mut Cells<'_>) -> Result<Self, StoreError> {
        let (tenant, account, payment) = (cells.tenant()?, cells.entity()?, cells.entity()?);
        let effective_at = cells.time()?;
        let key = TransactionsKey {
            tenant,
            day: effective_at.day(),
            gateway: cells.string()?,
            currency: cells.opt_currency()?,
            kind: cells.code()?,
            status: cells.code()?,
        };
        let processed = AmountMinor(cells.opt_int()?.unwrap_or(0));
        let tally = Tally::one(key.status, processed);
        Ok(Self { account, payment, effective_at, key, tally })
    }
}

/// The account whose payments are being read.
struct OneAccount {
    tenant: TenantNo,
    account: AccountId,
    last_payment: Option<PaymentId>,
    activity: Activity,
    successes: BTreeMap<SuccessesKey, Tally>,
}

impl OneAccount {
    fn new(row: &Row) -> Self {
        Self {
            tenant: row.key.tenant,
            account: row.account,
            last_payment: None,
            activity: Activity::default(),
            successes: BTreeMap::new(),
        }
    }

    fn is_of(&self, row: &Row) -> bool {
        (self.tenant, self.account) == (row.key.tenant, row.account)
    }

    fn add(&mut self, row: &Row) {
        let activity = &mut self.activity;
        if self.last_payment.replace(row.payment) != Some(row.payment) {
            activity.payments += 1;
        }
        activity.transactions += 1;
        activity.last_transaction_at = activity.last_transaction_at.max(row.effective_at);
        if row.key.status == TransactionStatus::Success {
            let (tenant, account) = (self.tenant, self.account);
            let (currency, kind) = (row.key.currency, row.key.kind);
            let key = SuccessesKey { tenant, account, currency, kind };
            add(self.successes.entry(key).or_default(), row.tally);
        }
    }

    fn write(&self, activities: &mut Put<'_>, successes: &mut Put<'_>) -> Result<(), StoreError> {
        let Activity { payments, transactions, last_transaction_at } = self.activity;
        activities.row(&[
            self.tenant.into(),
            self.account.into(),
            payments.into(),
            transactions.into(),
            last_transaction_at.into(),
        ])?;
        for (key, tally) in &self.successes {
            put_tally(successes, &successes_key(key), *tally)?;
        }
        Ok(())
    }
}

fn add(total: &mut Tally, tally: Tally) {
    total.count += tally.count;
    total.amount_minor += tally.amount_minor;
}
