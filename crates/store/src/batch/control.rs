//! What a batch writes of payment control: tenants' rules, attempts and velocities.

use std::collections::BTreeMap;

use domain::payment_attempt::{PaymentAttempt, PaymentVelocity};
use domain::payment_rules::PaymentRules;
use domain::{AccountId, AttemptId, Seq, TenantNo};
use engine::ports::StoreError;

use super::{Newest, newest, put_all};
use crate::cells::json;
use crate::driver::Database;
use crate::rows::{self, AttemptTexts, RulesTexts};
use crate::tables;

/// The part of a batch's rows that is about payment control.
#[derive(Default)]
pub(super) struct ControlRows<'a> {
    rules: BTreeMap<TenantNo, Newest<'a, PaymentRules>>,
    attempts: BTreeMap<(TenantNo, AttemptId), Newest<'a, PaymentAttempt>>,
    velocities: BTreeMap<(TenantNo, AccountId), &'a PaymentVelocity>,
}

impl<'a> ControlRows<'a> {
    pub(super) fn take_rules(&mut self, it: &'a PaymentRules, seq: Seq) {
        newest(&mut self.rules, it.tenant, it, (it.revision, seq));
    }

    pub(super) fn take_attempt(&mut self, it: &'a PaymentAttempt, seq: Seq) {
        newest(&mut self.attempts, (it.tenant, it.id), it, (it.revision, seq));
    }

    pub(super) fn take_velocity(&mut self, it: &'a PaymentVelocity) {
        self.velocities.insert((it.tenant, it.account_id), it);
    }

    /// Writes the rows.
    pub(super) fn write(&self, db: &Database) -> Result<(), StoreError> {
        put_all(db, &tables::PAYMENT_RULES, self.rules.values(), |put, it| {
            put.row(&rows::payment_rules_row(it.image, &RulesTexts::of(it.image)))
        })?;
        put_all(db, &tables::PAYMENT_ATTEMPT, self.attempts.values(), |put, it| {
            let texts = AttemptTexts::of(it.image);
            put.row(&rows::payment_attempt_row(it.image, &texts))
        })?;
        if !self.velocities.is_empty() {
            let mut put = db.upsert(&tables::PAYMENT_VELOCITY)?;
            for it in self.velocities.values() {
                put.row(&rows::payment_velocity_row(it, &json(&it.amounts)))?;
            }
        }
        Ok(())
    }
}
