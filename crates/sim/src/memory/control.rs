//! What is stored beside payments: tenants' rules, attempts, velocities and disputes.

use std::collections::BTreeMap;

use domain::change::PaymentChange;
use domain::dispute::{Dispute, DisputeCase};
use domain::payment_attempt::{PaymentAttempt, PaymentVelocity};
use domain::payment_rules::PaymentRules;
use domain::state::State;
use domain::{AccountId, AttemptId, PaymentId, TenantNo};

use uuid::Uuid;

use super::tabled;

#[derive(Clone, Debug, Default)]
pub(super) struct ControlTables {
    rules: BTreeMap<TenantNo, PaymentRules>,
    pub(super) attempts: BTreeMap<(TenantNo, AttemptId), PaymentAttempt>,
    pub(super) velocities: BTreeMap<(TenantNo, AccountId), PaymentVelocity>,
    pub(super) disputes: BTreeMap<(TenantNo, DisputeCase), Dispute>,
}

impl ControlTables {
    /// Of a row that has its id from the request that makes it: its table, that id, and whether it is there.
    pub(super) fn made_by_request(
        &self,
        change: &PaymentChange,
    ) -> Option<(&'static str, Uuid, bool)> {
        match change {
            PaymentChange::Attempt(it) => {
                let is_there = self.attempts.contains_key(&(it.tenant, it.id));
                Some(("payment_attempt", it.id.uuid(), is_there))
            }
            PaymentChange::Dispute(it) => {
                let is_there = self.disputes.values().any(|known| known.id == it.id);
                Some(("dispute", it.id.uuid(), is_there))
            }
            PaymentChange::Payment(_)
            | PaymentChange::Transaction(_)
            | PaymentChange::Velocity(_)
            | PaymentChange::Posting(_)
            | PaymentChange::Outstanding(_)
            | PaymentChange::OutstandingClosed { .. } => None,
        }
    }

    pub(super) fn put_dispute(&mut self, mut it: Dispute) {
        tabled(&mut it.revision);
        self.disputes.insert((it.tenant, it.case.clone()), it);
    }

    pub(super) fn read_dispute(&self, (tenant, case): (TenantNo, &DisputeCase), state: &mut State) {
        let key = (tenant, case.clone());
        let found = self.disputes.get(&key).cloned();
        state.disputes.insert(key, found);
    }

    pub(super) fn count_disputes(&self, of: (TenantNo, PaymentId), state: &mut State) {
        let count = self.disputes.values().filter(|it| (it.tenant, it.payment_id) == of).count();
        state.dispute_counts.insert(of, count);
    }

    pub(super) fn put_rules(&mut self, mut it: PaymentRules) {
        tabled(&mut it.revision);
        self.rules.insert(it.tenant, it);
    }

    pub(super) fn put_attempt(&mut self, mut it: PaymentAttempt) {
        tabled(&mut it.revision);
        self.attempts.insert((it.tenant, it.id), it);
    }

    pub(super) fn put_velocity(&mut self, it: PaymentVelocity) {
        self.velocities.insert((it.tenant, it.account_id), it);
    }

    pub(super) fn erase(&mut self, of: (TenantNo, AccountId)) {
        let own = self.attempts.values_mut().filter(|it| (it.tenant, it.account_id) == of);
        own.for_each(PaymentAttempt::erase);
    }

    pub(super) fn read_rules(&self, tenant: TenantNo, state: &mut State) {
        state.payment_rules.insert(tenant, self.rules.get(&tenant).cloned());
    }

    pub(super) fn read_scheduled(&self, of: (TenantNo, AccountId), state: &mut State) {
        let is_its = |it: &&PaymentAttempt| (it.tenant, it.account_id) == of && it.due_at.is_some();
        let mut found: Vec<_> = self.attempts.values().filter(is_its).cloned().collect();
        found.sort_by_key(|it| (it.due_at, it.id));
        state.scheduled_attempts.insert(of, found);
    }

    pub(super) fn read_velocity(&self, of: (TenantNo, AccountId), state: &mut State) {
        state.payment_velocities.insert(of, self.velocities.get(&of).cloned());
    }

    pub(super) fn read_for_payment(&self, of: (TenantNo, AccountId), state: &mut State) {
        self.read_rules(of.0, state);
        let limits = self.rules.get(&of.0).and_then(|it| it.limits.as_ref());
        if limits.is_some_and(|it| it.every_payment) {
            self.read_velocity(of, state);
        }
    }

    pub(super) fn read_attempts(
        &self,
        (tenant, payment): (TenantNo, PaymentId),
        state: &mut State,
    ) {
        let of_payment = self.attempts.values().filter(|it| {
            (it.tenant, it.payment_id) == (tenant, Some(payment)) && it.transaction_id.is_some()
        });
        let found: Vec<PaymentAttempt> = of_payment.cloned().collect();
        for it in &found {
            self.read_velocity((tenant, it.account_id), state);
        }
        state.payment_attempts.insert((tenant, payment), found);
    }
}
