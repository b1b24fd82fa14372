//! Payments and what they are checked against, as rules look them up.

use uuid::Uuid;

use crate::payment::attempt::{PaymentAttempt, PaymentVelocity};
use crate::payment::dispute::{Dispute, DisputeCase};
use crate::payment::{Outstanding, PaymentFile, Transaction};
use crate::state::{LOADED, State};
use crate::{AccountId, PaymentId, TenantNo, TransactionId};

impl State {
    pub(crate) fn payment(&self, tenant: TenantNo, id: PaymentId) -> Option<&PaymentFile> {
        self.payment.payments.get(&(tenant, id))
    }

    /// The payment whose id is `key`, where it has no other key, and its account.
    pub(crate) fn defaulted_payment(
        &self,
        tenant: TenantNo,
        key: &str,
    ) -> Option<(PaymentId, Option<AccountId>)> {
        let id = PaymentId::new(Uuid::try_parse(key).ok()?);
        let payment = &self.payment(tenant, id)?.payment;
        payment.external_key.is_none().then_some((id, Some(payment.account_id)))
    }

    /// The payment with the transaction whose id is `key`, where that has no other key.
    pub(crate) fn defaulted_transaction(
        &self,
        tenant: TenantNo,
        key: &str,
    ) -> Option<&PaymentFile> {
        let id = TransactionId::minted(key)?;
        let payment = self.payment.transactions.get(&(tenant, id)).expect(LOADED);
        let file = self.payment(tenant, (*payment)?)?;
        file.transaction(id).filter(|it| it.external_key.is_none()).map(|_| file)
    }

    pub(crate) fn outstanding(&self, tenant: TenantNo, id: TransactionId) -> Option<&Outstanding> {
        self.payment.outstanding.get(&(tenant, id))
    }

    /// The attempt of a transaction, where the attempts of its payment were loaded and it has one.
    pub(crate) fn attempt_of(&self, it: &Transaction) -> Option<&PaymentAttempt> {
        let of_payment = self.payment.attempts.get(&(it.tenant, it.payment_id))?;
        of_payment.iter().find(|attempt| attempt.transaction_id == Some(it.id))
    }

    /// The attempts of a payment that have a transaction; none where they were not loaded.
    pub(crate) fn attempts(&self, tenant: TenantNo, payment: PaymentId) -> &[PaymentAttempt] {
        self.payment.attempts.get(&(tenant, payment)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn scheduled_attempts(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> &[PaymentAttempt] {
        self.payment.scheduled_attempts.get(&(tenant, account)).expect(LOADED)
    }

    pub(crate) fn payment_velocity(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> Option<&PaymentVelocity> {
        self.payment.velocities.get(&(tenant, account))
    }

    pub(crate) fn dispute(&self, tenant: TenantNo, case: &DisputeCase) -> Option<&Dispute> {
        self.payment.disputes.get(&(tenant, case.clone()))
    }

    pub(crate) fn dispute_count(&self, tenant: TenantNo, payment: PaymentId) -> usize {
        *self.payment.dispute_counts.get(&(tenant, payment)).expect(LOADED)
    }
}
