//! Commands about payments, and what their gateways answered.

use serde::{Deserialize, Serialize};

use crate::account::command::read_new_account;
use crate::account::tag::{SUSPENDING_TAGS, TagKey};
use crate::claim::{ClaimKey, ClaimKind};
use crate::entitlement::purchase::Buy;
use crate::import::{ImportPayment, id_claim};
use crate::partition::Subject;
use crate::payment::attempt::{CancelRetries, RetryPayment};
use crate::payment::combo::{ComboAccount, ComboMethod, InitiateCombo};
use crate::payment::dispute::{DisputeCase, DisputeTimer, RecordDispute};
use crate::payment::{
    Complete, ExpireAction, FixTransaction, FollowUp, GatewayInquired, GatewayReplied, Initiate,
    RefundLateSuccess, ResolvePending,
};
use crate::read::{
    AccountRead, AccountRow, EntitlementRead, PaymentRead, Read, TenantRead, TenantRow,
};
use crate::timer::{TimerKey, TimerKind};
use crate::{AccountId, PaymentId, PaymentMethodId, RequestId, TenantNo, TransactionId};

/// A command about a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaymentCommand {
    Authorize(Initiate),
    Purchase(Initiate),
    Credit(Initiate),
    Capture(FollowUp),
    Refund(FollowUp),
    Void(FollowUp),
    Chargeback(FollowUp),
    ReverseChargeback(FollowUp),
    Complete(Complete),
    ResolvePending(ResolvePending),
    FixTransaction(FixTransaction),
    GatewayReplied(GatewayReplied),
    GatewayInquired(GatewayInquired),
    InitiateCombo(Box<InitiateCombo>),
    Retry(RetryPayment),
    CancelRetries(CancelRetries),
    Import(Box<ImportPayment>),
    ExpireAction(ExpireAction),
    RefundLateSuccess(RefundLateSuccess),
    RecordDispute(Box<RecordDispute>),
    /// Books what had to wait of a dispute.
    BookDispute(DisputeTimer),
    /// Warns that evidence is due.
    WarnOfDispute(DisputeTimer),
    /// Buys an offer.
    Buy(Box<Buy>),
}

impl PaymentCommand {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Authorize(_) => "Authorize",
            Self::Purchase(_) => "Purchase",
            Self::Credit(_) => "Credit",
            Self::Capture(_) => "Capture",
            Self::Refund(_) => "Refund",
            Self::Void(_) => "Void",
            Self::Chargeback(_) => "Chargeback",
            Self::ReverseChargeback(_) => "ReverseChargeback",
            Self::Complete(_) => "Complete",
            Self::ResolvePending(_) => "ResolvePending",
            Self::FixTransaction(_) => "FixTransaction",
            Self::GatewayReplied(_) => "GatewayReplied",
            Self::GatewayInquired(_) => "GatewayInquired",
            Self::InitiateCombo(_) => "InitiateCombo",
            Self::Retry(_) => "RetryPayment",
            Self::CancelRetries(_) => "CancelRetries",
            Self::RefundLateSuccess(_) => "RefundLateSuccess",
            Self::RecordDispute(_) => "RecordDispute",
            Self::BookDispute(_) => "BookDispute",
            Self::WarnOfDispute(_) => "WarnOfDispute",
            Self::Buy(_) => "BuyOffer",
            Self::Import(_) => "ImportPayment",
            Self::ExpireAction(_) => "ExpirePaymentAction",
        }
    }

    /// The account that it names: only those that start a payment do, and one that is new has no id yet.
    #[must_use]
    pub const fn account(&self) -> Option<AccountId> {
        match self {
            Self::Authorize(it) | Self::Purchase(it) | Self::Credit(it) => Some(it.account),
            Self::InitiateCombo(it) => match &it.account {
                ComboAccount::Existing(named) => Some(named.id),
                ComboAccount::New(_) => None,
            },
            Self::Capture(_)
            | Self::Refund(_)
            | Self::Void(_)
            | Self::Chargeback(_)
            | Self::ReverseChargeback(_)
            | Self::Complete(_)
            | Self::ResolvePending(_)
            | Self::FixTransaction(_)
            | Self::GatewayReplied(_)
            | Self::GatewayInquired(_)
            | Self::ExpireAction(_)
            | Self::CancelRetries(_)
            | Self::RefundLateSuccess(_)
            | Self::RecordDispute(_)
            | Self::BookDispute(_)
            | Self::WarnOfDispute(_) => None,
            Self::Retry(it) => Some(it.account),
            Self::Import(it) => Some(it.account),
            Self::Buy(it) => Some(it.account),
        }
    }

    pub(crate) fn subject(&self, request: RequestId) -> Subject {
        match self {
            Self::Authorize(it) | Self::Purchase(it) | Self::Credit(it) => {
                Subject::Account(it.account)
            }
            Self::InitiateCombo(it) => Subject::Account(match &it.account {
                ComboAccount::Existing(named) => named.id,
                // The first id that the request mints.
                ComboAccount::New(_) => request.entity(0),
            }),
            Self::Capture(it)
            | Self::Refund(it)
            | Self::Void(it)
            | Self::Chargeback(it)
            | Self::ReverseChargeback(it) => Subject::Payment(it.payment),
            Self::Complete(it) => Subject::Payment(it.payment),
            Self::ResolvePending(it) => Subject::Payment(it.payment),
            Self::FixTransaction(it) => Subject::Payment(it.payment),
            Self::GatewayReplied(it) => Subject::Payment(it.payment),
            Self::GatewayInquired(it) => Subject::Payment(it.payment),
            Self::Retry(it) => Subject::Payment(it.payment),
            Self::CancelRetries(it) => Subject::Payment(it.payment),
            Self::ExpireAction(it) => Subject::Payment(it.payment),
            Self::RefundLateSuccess(it) => Subject::Payment(it.payment),
            Self::RecordDispute(it) => Subject::Payment(it.payment),
            Self::BookDispute(it) | Self::WarnOfDispute(it) => Subject::Payment(it.payment),
            Self::Import(it) => Subject::Account(it.account),
            Self::Buy(it) => Subject::Account(it.account),
        }
    }

    /// The transaction whose outcome it brings, where it is what a gateway answered.
    pub(crate) const fn answered(&self) -> Option<TransactionId> {
        if let Self::GatewayInquired(it) = self { Some(it.transaction) } else { self.replied() }
    }

    /// The transaction that a gateway has replied to.
    #[must_use]
    pub const fn replied(&self) -> Option<TransactionId> {
        if let Self::GatewayReplied(it) = self { Some(it.transaction) } else { None }
    }

    /// See [`crate::command::Command::is_marked`].
    pub(crate) const fn is_marked(&self) -> bool {
        match self {
            Self::Complete(_)
            | Self::ResolvePending(_)
            | Self::FixTransaction(_)
            | Self::CancelRetries(_) => true,
            // The first ones make a transaction; a gateway's answer and a timer's command come from no queue;
            // what was imported has its id claimed.
            Self::Authorize(_)
            | Self::Purchase(_)
            | Self::Credit(_)
            | Self::Capture(_)
            | Self::Refund(_)
            | Self::Void(_)
            | Self::Chargeback(_)
            | Self::ReverseChargeback(_)
            | Self::InitiateCombo(_)
            | Self::GatewayReplied(_)
            | Self::GatewayInquired(_)
            | Self::Retry(_)
            | Self::ExpireAction(_)
            | Self::RefundLateSuccess(_)
            | Self::RecordDispute(_)
            | Self::BookDispute(_)
            | Self::WarnOfDispute(_)
            | Self::Import(_)
            // It makes a purchase, which has its id from the request.
            | Self::Buy(_) => false,
        }
    }

    /// The rows that executing it may look at.
    pub(crate) fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        match self {
            Self::Authorize(it) | Self::Purchase(it) | Self::Credit(it) => {
                read_initiate(it, tenant, read);
            }
            Self::InitiateCombo(it) => read_combo(it, tenant, read),
            Self::Capture(it)
            | Self::Refund(it)
            | Self::Void(it)
            | Self::Chargeback(it)
            | Self::ReverseChargeback(it) => {
                read(PaymentRead::Payment(tenant, it.payment).into());
                read_transaction_key(it.transaction_key.as_deref(), tenant, read);
            }
            Self::Complete(it) => read_with_attempts(it.payment, tenant, read),
            Self::ResolvePending(it) => read_with_attempts(it.payment, tenant, read),
            Self::FixTransaction(it) => read_with_attempts(it.payment, tenant, read),
            Self::GatewayInquired(it) => read_with_attempts(it.payment, tenant, read),
            Self::GatewayReplied(it) => read_reply(it, tenant, read),
            Self::Retry(it) => read_retry(it, tenant, read),
            Self::CancelRetries(it) => read_with_attempts(it.payment, tenant, read),
            Self::ExpireAction(it) => {
                let object = it.transaction.uuid();
                read(Read::Timer(tenant, TimerKey { kind: TimerKind::PaymentAction, object }));
                read_with_attempts(it.payment, tenant, read);
            }
            Self::RefundLateSuccess(it) => {
                let key = TimerKey { kind: TimerKind::LateRefund, object: it.transaction.uuid() };
                read(Read::Timer(tenant, key));
                read_with_attempts(it.payment, tenant, read);
            }
            Self::RecordDispute(it) => {
                read(PaymentRead::DisputeCount(tenant, it.payment).into());
                read_dispute((it.payment, &it.case), tenant, read);
            }
            Self::BookDispute(it) => {
                read_dispute_timer((TimerKind::DisputeBooking, it), tenant, read);
            }
            Self::WarnOfDispute(it) => {
                read_dispute_timer((TimerKind::DisputeEvidence, it), tenant, read);
            }
            Self::Import(it) => read_import(it, tenant, read),
            Self::Buy(it) => read_buy(it, tenant, read),
        }
    }
}

fn read_dispute_timer(
    (kind, it): (TimerKind, &DisputeTimer),
    tenant: TenantNo,
    read: &mut impl FnMut(Read),
) {
    read(Read::Timer(tenant, TimerKey { kind, object: it.dispute.uuid() }));
    read_dispute((it.payment, &it.case), tenant, read);
}

fn read_dispute(
    (payment, case): (PaymentId, &DisputeCase),
    tenant: TenantNo,
    read: &mut impl FnMut(Read),
) {
    read(PaymentRead::Payment(tenant, payment).into());
    read(PaymentRead::Dispute(tenant, case.clone()).into());
    read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Dispute, &case.claimed())));
    for key in case.transaction_keys() {
        read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Transaction, &key)));
    }
}

fn read_buy(it: &Buy, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(EntitlementRead::OfferForAccount(tenant, it.offer.clone(), it.account).into());
    read(EntitlementRead::Entitlements(tenant, it.account).into());
    read(AccountRead::Account(tenant, it.account).into());
    it.payment_method
        .into_iter()
        .for_each(|id| read(AccountRead::PaymentMethod(tenant, id).into()));
    if it.expected.is_some() {
        read(PaymentRead::Rules(tenant, it.account).into());
    }
}

/// On the path of every payment, so that attempts and rules are read only where there are some.
fn read_reply(it: &GatewayReplied, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(PaymentRead::Payment(tenant, it.payment).into());
    if it.is_controlled {
        read_with_attempts(it.payment, tenant, read);
    }
    if let Some(tries) = &it.tries {
        read(TenantRead::PaymentRules(tenant).into());
        read_transaction_key(tries.transaction_key.as_deref(), tenant, read);
    }
}

fn read_import(it: &ImportPayment, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(AccountRead::Account(tenant, it.account).into());
    it.ids().for_each(|id| read(Read::Claim(id_claim(tenant, id))));
    read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Payment, &it.external_key)));
    for transaction in &it.transactions {
        read(AccountRead::PaymentMethod(tenant, transaction.payment_method).into());
        let key = &transaction.external_key;
        read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Transaction, key)));
    }
    it.belongings.definitions().for_each(|id| read(TenantRow::TagDefinition(tenant, id).into()));
}

fn read_retry(it: &RetryPayment, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    let object = it.attempt.uuid();
    read(Read::Timer(tenant, TimerKey { kind: TimerKind::PaymentRetry, object }));
    read(AccountRead::Account(tenant, it.account).into());
    read(PaymentRead::Velocity(tenant, it.account).into());
    read(PaymentRead::Rules(tenant, it.account).into());
    read_with_attempts(it.payment, tenant, read);
    read_transaction_key(it.transaction_key.as_deref(), tenant, read);
    for tag in SUSPENDING_TAGS {
        read(AccountRow::Tag(tenant, TagKey::of_account(it.account, tag)).into());
    }
}

fn read_with_attempts(payment: PaymentId, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(PaymentRead::Payment(tenant, payment).into());
    read(PaymentRead::Attempts(tenant, payment).into());
    read(TenantRead::PaymentRules(tenant).into());
}

/// The rows that the start of a payment may look at.
pub(crate) fn read_initiate(it: &Initiate, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(AccountRead::Account(tenant, it.account).into());
    read_rules(it.account, [&it.control, &it.approved], tenant, read);
    it.payment_method
        .into_iter()
        .for_each(|id| read(AccountRead::PaymentMethod(tenant, id).into()));
    read_payment((it.payment, it.payment_key.as_deref()), tenant, read);
    read_transaction_key(it.transaction_key.as_deref(), tenant, read);
}

fn read_rules(
    account: AccountId,
    plugins: [&[String]; 2],
    tenant: TenantNo,
    read: &mut impl FnMut(Read),
) {
    read(PaymentRead::Rules(tenant, account).into());
    if plugins.iter().any(|it| !it.is_empty()) {
        read(PaymentRead::Velocity(tenant, account).into());
    }
}

fn read_combo(it: &InitiateCombo, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    match &it.account {
        ComboAccount::Existing(named) => {
            read(AccountRead::Account(tenant, named.id).into());
            read_rules(named.id, [&it.control, &it.approved], tenant, read);
        }
        ComboAccount::New(new) => {
            read_new_account(new, tenant, read);
            read(TenantRead::PaymentRules(tenant).into());
        }
    }
    it.payment_method.iter().for_each(|wanted| read_method(wanted, tenant, read));
    read_payment((it.payment, it.payment_key.as_deref()), tenant, read);
    read_transaction_key(it.transaction_key.as_deref(), tenant, read);
}

fn read_method(wanted: &ComboMethod, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    wanted.id.into_iter().for_each(|id| read(AccountRead::PaymentMethod(tenant, id).into()));
    let Some(key) = &wanted.external_key else { return };
    read(Read::Claim(ClaimKey::new(tenant, ClaimKind::PaymentMethod, key)));
    if let Ok(id) = uuid::Uuid::try_parse(key) {
        read(AccountRead::PaymentMethod(tenant, PaymentMethodId::new(id)).into());
    }
}

fn read_payment(
    (id, key): (Option<PaymentId>, Option<&str>),
    tenant: TenantNo,
    read: &mut impl FnMut(Read),
) {
    id.into_iter().for_each(|id| read(PaymentRead::Payment(tenant, id).into()));
    let Some(key) = key else { return };
    read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Payment, key)));
    if let Ok(id) = uuid::Uuid::try_parse(key) {
        read(PaymentRead::Payment(tenant, PaymentId::new(id)).into());
    }
}

fn read_transaction_key(key: Option<&str>, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    let Some(key) = key else { return };
    read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Transaction, key)));
    TransactionId::minted(key)
        .into_iter()
        .for_each(|id| read(PaymentRead::Transaction(tenant, id).into()));
}
