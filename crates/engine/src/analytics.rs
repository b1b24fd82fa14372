//! Analytics: read models kept up to date from the journal's events, as they commit.
//!
//! Folding is pure and every step can be undone: a transaction that changes its status leaves the
//! old one. So the models can be compared with what SQL says at any time, and be built anew from it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::payment::{TransactionStatus, TransactionType};
use domain::{
    AccountId, AmountMinor, Currency, Event, Seq, TenantNo, Timestamp, TransactionChange,
};
use tokio::sync::watch;

use crate::Clock;
use crate::periodic::{Job, Pass, Periodic};
use crate::ports::{JournalRow, Queries, StoreError};

/// How many journal rows one step folds at most.
pub const ROWS_MAX: usize = 4096;
/// The least time between two looks at the journal: many commits become one step.
const PAUSE: Duration = Duration::from_millis(100);
/// How often to look at the journal although no commit was announced.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long to wait after a failure, at first and at most.
const PAUSE_AFTER_FAILURE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));
/// Real time that the oldest journal row not yet in the read models has waited.
const LAG_SECONDS: &str = "faregate_analytics_lag_seconds";

/// Where the read models are kept. Rebuildable: what is lost there is folded again.
pub trait ReadModels: Send {
    /// The last journal row that the models contain.
    ///
    /// # Errors
    /// [`StoreError`] where the database cannot be used.
    fn cursor(&mut self) -> Result<Seq, StoreError>;

    /// Adds the deltas and moves the cursor, all or nothing, and returns the cursor. Deltas that do
    /// not start at the cursor change nothing: another process rebuilt the models in between.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was written.
    fn apply(&mut self, deltas: &Deltas) -> Result<Seq, StoreError>;

    /// Builds the models anew from the committed rows, not from events, and returns the cursor.
    ///
    /// # Errors
    /// [`StoreError`]; the models are as they were.
    fn rebuild(&mut self) -> Result<Seq, StoreError>;
}

/// The changes of the read models by a run of journal rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deltas {
    /// The models contain the journal up to here...
    pub after: Seq,
    /// ...and with the deltas up to here.
    pub upto: Seq,
    /// The number of new accounts.
    pub accounts: BTreeMap<AccountsKey, i64>,
    /// Transactions that came into a status or left it.
    pub transactions: BTreeMap<TransactionsKey, Tally>,
    /// The activity of accounts.
    pub activities: BTreeMap<(TenantNo, AccountId), Activity>,
    /// Successful transactions of accounts.
    pub successes: BTreeMap<SuccessesKey, Tally>,
}

/// Which accounts are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountsKey {
    pub tenant: TenantNo,
    /// The day they were created, in days since 1970-01-01 (UTC).
    pub day: i64,
}

/// Which transactions are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionsKey {
    pub tenant: TenantNo,
    /// The day they were requested, in days since 1970-01-01 (UTC).
    pub day: i64,
    pub gateway: String,
    /// `None` for voids.
    pub currency: Option<Currency>,
    pub kind: TransactionType,
    pub status: TransactionStatus,
}

/// Which of an account's transactions are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SuccessesKey {
    pub tenant: TenantNo,
    pub account: AccountId,
    /// `None` for voids.
    pub currency: Option<Currency>,
    pub kind: TransactionType,
}

/// How many more transactions there are (or fewer), and how much more they processed. Only
/// successes have an amount: what is pending has moved nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The change in the number of transactions.
    pub count: i64,
    /// The change in the processed amount, in minor units.
    pub amount_minor: i128,
}

/// The change in the activity of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Payments that the account began.
    pub payments: i64,
    /// Transactions that clients requested.
    pub transactions: i64,
    /// When the last of them was requested.
    pub last_transaction_at: Timestamp,
}

impl Deltas {
    /// The changes by these rows, which follow on `after` and end at `upto`.
    #[must_use]
    pub fn of(after: Seq, upto: Seq, rows: &[Arc<JournalRow>]) -> Self {
        let mut deltas = Self {
            after,
            upto,
            accounts: BTreeMap::new(),
            transactions: BTreeMap::new(),
            activities: BTreeMap::new(),
            successes: BTreeMap::new(),
        };
        for row in rows {
            for event in &row.events {
                deltas.add(row, event);
            }
        }
        deltas.transactions.retain(|_, tally| *tally != Tally::default());
        deltas.successes.retain(|_, tally| *tally != Tally::default());
        deltas
    }

    fn add(&mut self, row: &JournalRow, event: &Event) {
        let tenant = row.tenant;
        match event {
            Event::AccountCreated { .. } => {
                *self.accounts.entry(AccountsKey { tenant, day: row.at.day() }).or_default() += 1;
            }
            Event::TransactionChanged(TransactionChange {
                account,
                kind,
                before,
                before_amount,
                opens_payment,
                status,
                gateway,
                amount,
                currency,
                effective_at,
                payment: _,
                transaction: _,
                payment_currency: _,
            }) => {
                let (day, gateway) = (effective_at.day(), gateway.clone());
                let (currency, kind, status) = (*currency, *kind, *status);
                let mut key = TransactionsKey { tenant, day, gateway, currency, kind, status };
                let of_account = SuccessesKey { tenant, account: *account, currency, kind };
                self.tally(&key, of_account, Tally::one(status, *amount));
                if let Some(before) = *before {
                    key.status = before;
                    self.tally(&key, of_account, Tally::one(before, *before_amount).negated());
                } else {
                    let activity = self.activities.entry((tenant, *account)).or_default();
                    activity.payments += i64::from(*opens_payment);
                    activity.transactions += 1;
                    activity.last_transaction_at = activity.last_transaction_at.max(*effective_at);
                }
            }
            Event::CustomerRegistered { .. }
            | Event::CustomerVerified { .. }
            | Event::CustomerChanged { .. }
            | Event::CustomerErased { .. }
            | Event::AccountChanged { .. }
            | Event::AccountReleased { .. }
            | Event::TagAdded { .. }
            | Event::TagRemoved { .. }
            | Event::CustomFieldAdded { .. }
            | Event::CustomFieldRemoved { .. }
            | Event::LateSuccess { .. }
            | Event::DisputeChanged { .. }
            | Event::DisputeExcess { .. }
            | Event::DisputeEvidenceDue { .. }
            | Event::BlockingStateAdded { .. }
            | Event::PurchaseChanged { .. }
            | Event::EntitlementsGranted { .. }
            | Event::EntitlementsRevoked { .. }
            | Event::EntitlementsExpired { .. }
            | Event::EntitlementsChanged { .. }
            | Event::LimitReached { .. }
            | Event::SubscriptionChanged { .. }
            | Event::InvoiceCreated { .. }
            | Event::InvoiceAdjusted { .. }
            | Event::InvoicePaid { .. }
            | Event::InvoiceUpcoming { .. }
            | Event::AccountParked { .. }
            | Event::TenantConfigChanged { .. }
            | Event::TenantConfigDeleted { .. }
            | Event::WebhookEndpointDisabled { .. }
            | Event::EnvironmentChanged { .. }
            | Event::DefinitionsChanged { .. } => {}
        }
    }

    fn tally(&mut self, key: &TransactionsKey, of_account: SuccessesKey, tally: Tally) {
        match self.transactions.get_mut(key) {
            Some(known) => known.add(tally),
            None => {
                self.transactions.insert(key.clone(), tally);
            }
        }
        if key.status == TransactionStatus::Success {
            match self.successes.entry(of_account) {
                Entry::Occupied(mut known) => known.get_mut().add(tally),
                Entry::Vacant(slot) => {
                    slot.insert(tally);
                }
            }
        }
    }
}

impl Tally {
    /// One transaction in this status, which processed this.
    #[must_use]
    pub const fn one(status: TransactionStatus, amount: AmountMinor) -> Self {
        let amount_minor = match status {
            TransactionStatus::Success => amount.0 as i128,
            TransactionStatus::InFlight
            | TransactionStatus::Pending
            | TransactionStatus::PaymentFailure
            | TransactionStatus::PluginFailure
            | TransactionStatus::Unknown => 0,
        };
        Self { count: 1, amount_minor }
    }

    const fn negated(self) -> Self {
        Self { count: -self.count, amount_minor: -self.amount_minor }
    }

    const fn add(&mut self, other: Self) {
        self.count += other.count;
        self.amount_minor += other.amount_minor;
    }
}

/// Keeps read models up to date. A follower of the journal with a cursor of its own, which the
/// models keep: it is committed with what it stands for.
pub struct Follower {
    queries: Arc<dyn Queries>,
    models: Box<dyn ReadModels>,
    clock: Clock,
    cursor: Seq,
    applied: watch::Sender<Seq>,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// There is more to fold at once.
    More,
    /// Nothing was left of what was committed when it looked.
    CaughtUp,
}

impl Follower {
    /// A follower that goes on where the models end. Models that are ahead of the journal belong to
    /// another past (the store was restored from a backup): they are built anew.
    ///
    /// # Errors
    /// [`StoreError`] where one of the databases cannot be used.
    pub fn open(
        queries: Arc<dyn Queries>,
        mut models: Box<dyn ReadModels>,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        let (mut cursor, head) = (models.cursor()?, queries.journal_head()?);
        if cursor > head {
            tracing::error!(
                cursor = cursor.0,
                head = head.0,
                "the analytics tables know journal rows that are not there: the database is an older one, \
                 or its last commits are lost with their write-ahead log; the tables are rebuilt"
            );
            cursor = models.rebuild()?;
        }
        Ok(Self { queries, models, clock, cursor, applied: watch::Sender::new(cursor) })
    }

    /// The last journal row that the models contain, as it moves.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<Seq> {
        self.applied.subscribe()
    }

    /// Follows until `stop` is ready or the sender of `head`, the last journal row that was
    /// committed, is gone.
    pub async fn run(self, head: watch::Receiver<Seq>, stop: impl Future<Output = ()> + Send) {
        let (first_backoff, backoff_max) = PAUSE_AFTER_FAILURE;
        let periodic = Periodic::every(LOOK_EVERY).with_backoff(first_backoff, backoff_max);
        let folding = Folding { follower: Some(self), head, is_head_gone: false };
        periodic.run_whole_passes(stop, folding).await;
    }

    /// Folds what was committed since, up to [`ROWS_MAX`] rows.
    fn step(&mut self) -> Result<Step, StoreError> {
        let after = self.cursor;
        let (rows, upto) = self.queries.journal_after(after, ROWS_MAX)?;
        if upto <= after {
            return Ok(Step::CaughtUp);
        }
        if let Some(oldest) = rows.first() {
            let lag_us = self.clock.real_now().0.saturating_sub(oldest.committed_at.0);
            metrics::gauge!(LAG_SECONDS)
                .set(Duration::from_micros(u64::try_from(lag_us).unwrap_or(0)));
        }
        self.cursor = self.models.apply(&Deltas::of(after, upto, &rows))?;
        self.applied.send_replace(self.cursor);
        Ok(if rows.len() == ROWS_MAX { Step::More } else { Step::CaughtUp })
    }
}

/// Repeats a follower's steps.
struct Folding {
    /// `None` while a step runs on its thread.
    follower: Option<Follower>,
    head: watch::Receiver<Seq>,
    is_head_gone: bool,
}

impl Job for Folding {
    async fn pass(&mut self) -> Pass {
        if self.is_head_gone {
            return Pass::Done;
        }
        self.head.mark_unchanged();
        let Some(mut follower) = self.follower.take() else { return Pass::Done };
        let stepped = tokio::task::spawn_blocking(move || {
            let step = follower.step();
            (follower, step)
        });
        match stepped.await {
            Ok((follower, step)) => {
                self.follower = Some(follower);
                match step {
                    Ok(Step::More) => Pass::More,
                    Ok(Step::CaughtUp) => Pass::Idle,
                    Err(error) => {
                        tracing::error!(error = %error, "failed to update analytics; retried");
                        Pass::Failed
                    }
                }
            }
            Err(error) => {
                tracing::error!(error = %error, "analytics stopped: a step broke an invariant");
                Pass::Done
            }
        }
    }

    async fn woken(&mut self) {
        tokio::time::sleep(PAUSE).await;
        // What was committed during the pause has waited: only silence means no lag.
        if self.head.has_changed().is_ok_and(|changed| !changed) {
            metrics::gauge!(LAG_SECONDS).set(0.0);
        }
        self.is_head_gone = self.head.changed().await.is_err();
    }
}

#[cfg(test)]
mod tests {
    use domain::{PaymentId, TransactionId};
    use uuid::Uuid;

    use super::*;

    /// One journal row per word: `status amount`, or `before amount status amount`.
    fn fold(story: &[&str]) -> Deltas {
        let rows: Vec<Arc<JournalRow>> = story
            .iter()
            .zip(1..)
            .map(|(words, seq)| JournalRow {
                seq: Seq(seq),
                at: Timestamp(0),
                committed_at: Timestamp(0),
                tenant: TenantNo(1),
                events: vec![event(&words.split(' ').collect::<Vec<_>>())],
            })
            .map(Arc::new)
            .collect();
        Deltas::of(Seq(0), Seq(9), &rows)
    }

    fn event(words: &[&str]) -> Event {
        let (before, now) = match words {
            ["account"] => return Event::AccountCreated { account: AccountId::new(Uuid::nil()) },
            [status, amount] => (None, (*status, *amount)),
            [before, before_amount, status, amount] => {
                (Some((*before, *before_amount)), (*status, *amount))
            }
            _ => panic!("no such story: {words:?}"),
        };
        let amount = |text: &str| AmountMinor(text.parse().unwrap());
        Event::TransactionChanged(TransactionChange {
            account: AccountId::new(Uuid::nil()),
            payment: PaymentId::new(Uuid::nil()),
            transaction: TransactionId::new(Uuid::nil()),
            kind: TransactionType::Purchase,
            before: before.map(|(status, _)| parse(status)),
            before_amount: before.map_or(AmountMinor::ZERO, |(_, it)| amount(it)),
            opens_payment: before.is_none(),
            status: parse(now.0),
            gateway: "g".to_owned(),
            amount: amount(now.1),
            currency: Currency::parse("EUR"),
            payment_currency: Currency::parse("EUR").unwrap(),
            effective_at: Timestamp(Timestamp::DAY_US),
        })
    }

    fn parse(status: &str) -> TransactionStatus {
        serde_json::from_value(serde_json::Value::String(status.to_owned())).unwrap()
    }

    fn check(story: &[&str], expected: &str) {
        let deltas = fold(story);
        let mut shown: Vec<String> = vec![];
        shown.extend(
            deltas.accounts.iter().map(|(key, n)| format!("day {}: {n} accounts", key.day)),
        );
        for (key, tally) in &deltas.transactions {
            let Tally { count, amount_minor } = tally;
            shown.push(format!("day {} {:?} {count} {amount_minor}", key.day, key.status));
        }
        for it in deltas.activities.values() {
            shown.push(format!("payments {} transactions {}", it.payments, it.transactions));
        }
        shown.extend(deltas.successes.values().map(|it| format!("paid {}", it.amount_minor)));
        assert_eq!(shown.join(" | "), expected, "{story:?}");
    }

    #[test]
    fn a_transaction_leaves_the_status_it_was_in() {
        check(&["account", "account"], "day 0: 2 accounts");
        check(&["Success 5"], "day 1 Success 1 5 | payments 1 transactions 1 | paid 5");
        check(
            &["InFlight 0", "InFlight 0 Success 5"],
            "day 1 Success 1 5 | payments 1 transactions 1 | paid 5",
        );
        check(&["InFlight 0 Success 5"], "day 1 InFlight -1 0 | day 1 Success 1 5 | paid 5");
        check(&["Pending 0 Success 5", "Success 5 Pending 5"], "");
        check(
            &["Success 5 PaymentFailure 0"],
            "day 1 Success -1 -5 | day 1 PaymentFailure 1 0 | paid -5",
        );
        check(&["Success 5 Success 3"], "day 1 Success 0 -2 | paid -2");
        check(
            &["InFlight 0", "InFlight 0 Pending 7"],
            "day 1 Pending 1 0 | payments 1 transactions 1",
        );
    }
}
