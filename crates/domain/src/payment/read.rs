//! Payments with their transactions, attempts and disputes, and the velocities of accounts.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::{AccountChange, PaymentChange};
use crate::entity::Entity;
use crate::payment::attempt::{AttemptState, PaymentAttempt, PaymentVelocity};
use crate::payment::dispute::{Dispute, DisputeCase};
use crate::payment::{Outstanding, Payment, PaymentFile, Transaction};
use crate::rows::Rows;
use crate::{AccountId, PaymentId, TenantNo, TransactionId};

/// A row of a payment that a command may look at: see [`Read`](crate::read::Read).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PaymentRead {
    Payment(TenantNo, PaymentId),
    /// A transaction by id; it comes with its payment.
    Transaction(TenantNo, TransactionId),
    /// The attempts of a payment that have a transaction.
    Attempts(TenantNo, PaymentId),
    /// The attempts of an account whose retries are due some day; at most [`SCHEDULED_MAX`](crate::read::SCHEDULED_MAX).
    ScheduledAttempts(TenantNo, AccountId),
    /// The number and the sums of the payments that an account started in a day.
    Velocity(TenantNo, AccountId),
    /// A tenant's rules for a payment of an account: with its velocity, where they are for every payment, and
    /// with its methods, where they choose one.
    Rules(TenantNo, AccountId),
    /// The dispute of a gateway's case.
    Dispute(TenantNo, DisputeCase),
    /// How many disputes a payment has.
    DisputeCount(TenantNo, PaymentId),
}

#[derive(Clone, Debug, Default)]
pub struct PaymentState {
    pub payments: Rows<PaymentFile>,
    /// The payments of transactions that were looked for by id.
    pub transactions: BTreeMap<(TenantNo, TransactionId), Option<PaymentId>>,
    /// Outcomes waited for, of the payments here.
    pub outstanding: BTreeMap<(TenantNo, TransactionId), Outstanding>,
    /// The attempts of payments that have a transaction, by payment.
    pub attempts: BTreeMap<(TenantNo, PaymentId), Vec<PaymentAttempt>>,
    /// The attempts of accounts whose retries are due some day, in the order of their due times.
    pub scheduled_attempts: BTreeMap<(TenantNo, AccountId), Vec<PaymentAttempt>>,
    /// The number and the sums of the payments that accounts started in a day.
    pub velocities: Rows<PaymentVelocity>,
    /// Accounts of payments that start: what their tenants' rules look at is looked for.
    pub started: BTreeSet<(TenantNo, AccountId)>,
    pub disputes: Rows<Dispute>,
    /// The number of disputes of a payment.
    pub dispute_counts: BTreeMap<(TenantNo, PaymentId), usize>,
}

impl PaymentState {
    pub(crate) fn look_for(&mut self, read: &PaymentRead) {
        match read {
            PaymentRead::Payment(no, id) => self.payments.look_for((*no, *id)),
            PaymentRead::Transaction(no, id) => {
                self.transactions.entry((*no, *id)).or_default();
            }
            PaymentRead::Attempts(no, id) => drop(self.attempts.entry((*no, *id)).or_default()),
            PaymentRead::ScheduledAttempts(no, id) => {
                self.scheduled_attempts.entry((*no, *id)).or_default();
            }
            PaymentRead::Velocity(no, id) => self.velocities.look_for((*no, *id)),
            PaymentRead::Rules(no, id) => drop(self.started.insert((*no, *id))),
            PaymentRead::Dispute(no, case) => self.disputes.look_for((*no, case.clone())),
            PaymentRead::DisputeCount(no, id) => {
                self.dispute_counts.entry((*no, *id)).or_default();
            }
        }
    }

    pub(crate) fn apply(&mut self, tenant: TenantNo, change: &PaymentChange) {
        match change {
            PaymentChange::Payment(it) => self.apply_payment(it),
            PaymentChange::Transaction(it) => self.apply_transaction(it),
            PaymentChange::Attempt(it) => self.apply_attempt(it),
            PaymentChange::Velocity(it) => drop(self.velocities.put(it.clone())),
            PaymentChange::Outstanding(it) => {
                self.outstanding.insert((it.tenant, it.transaction_id), it.clone());
            }
            PaymentChange::OutstandingClosed { transaction } => {
                self.outstanding.remove(&(tenant, *transaction));
            }
            PaymentChange::Dispute(it) => {
                let before = self.disputes.put((**it).clone());
                if before.is_none()
                    && let Some(count) = self.dispute_counts.get_mut(&(it.tenant, it.payment_id))
                {
                    *count += 1;
                }
            } // No rule looks at it.
        }
    }

    /// Erases the personal data of an account's attempts with its person.
    pub(crate) fn apply_to_account(&mut self, tenant: TenantNo, change: &AccountChange) {
        let AccountChange::PersonErased { account } = change else { return };
        let attempts = self.attempts.values_mut().flatten();
        attempts
            .filter(|it| (it.tenant, it.account_id) == (tenant, *account))
            .for_each(Entity::erase);
    }

    fn apply_payment(&mut self, payment: &Payment) {
        match self.payments.find_mut(&(payment.tenant, payment.id)) {
            Some(file) => file.payment = payment.clone(),
            None => {
                self.payments.put(PaymentFile { payment: payment.clone(), transactions: vec![] });
            }
        }
    }

    fn apply_transaction(&mut self, transaction: &Transaction) {
        let file = self.payments.find_mut(&(transaction.tenant, transaction.payment_id));
        let file = file.expect("a transaction is changed with its payment");
        match file.transactions.iter_mut().find(|it| it.id == transaction.id) {
            Some(known) => *known = transaction.clone(),
            None => file.transactions.push(transaction.clone()),
        }
    }

    fn apply_attempt(&mut self, attempt: &PaymentAttempt) {
        let of_account = (attempt.tenant, attempt.account_id);
        if let Some(scheduled) = self.scheduled_attempts.get_mut(&of_account) {
            scheduled.retain(|it| it.id != attempt.id);
            if attempt.state == AttemptState::Scheduled {
                scheduled.push(attempt.clone());
                scheduled.sort_by_key(|it| it.due_at);
            }
        }
        let Some((payment, _)) = attempt.payment_id.zip(attempt.transaction_id) else { return };
        let of_payment = self.attempts.entry((attempt.tenant, payment)).or_default();
        match of_payment.iter_mut().find(|it| it.id == attempt.id) {
            Some(known) => *known = attempt.clone(),
            None => of_payment.push(attempt.clone()),
        }
    }
}
