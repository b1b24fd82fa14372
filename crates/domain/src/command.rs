//! Everything that can be asked to change something. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::access::{CreateUser, PutRole, UpdateUser};
use crate::account::{CreateAccount, UpdateAccount};
use crate::change_request::{ApplyChange, DecideChange, RequestChange};
use crate::customer::CustomerCommand;
use crate::definition::PutDefinitions;
use crate::environment::{
    self, AddSecret, AddSecrets, CreateEnvironment, ExpireSecret, ExpireSecrets, UpdateEnvironment,
};
use crate::payment::{
    Actor, Complete, FixTransaction, FollowUp, GatewayInquired, GatewayReplied, Initiate, ReplyKey,
    ResolvePending,
};
use crate::payment_method::{CreatePaymentMethod, DeletePaymentMethod, SetDefaultPaymentMethod};
use crate::state::{ClaimKey, ClaimKind, Read};
use crate::tag::{self, AddTags, RemoveTags};
use crate::tenant::{CreateTenant, SetTenantValue};
use crate::{AccountId, PaymentId, PaymentMethodId, RequestId, TenantNo, TransactionId};

/// A command with who asks and what makes it repeatable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Minted at the door.
    pub id: RequestId,
    /// The tenant that it is about.
    pub tenant: TenantNo,
    /// Who asks.
    pub actor: Actor,
    /// Set where the request can come twice: the reply is stored and given again.
    pub idempotency: Option<Idempotency>,
    /// What is asked.
    pub command: Command,
}

/// What makes two requests the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// Hash of tenant, user and idempotency key.
    pub key: ReplyKey,
    /// Hash of method, path, query and body: the same key with another print is refused.
    pub fingerprint: uuid::Uuid,
}

/// What can be asked. Each variant has one arm in [`crate::execute`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// See [`CreateTenant`].
    CreateTenant(CreateTenant),
    /// See [`SetTenantValue`].
    SetTenantValue(SetTenantValue),
    /// See [`CreateUser`].
    CreateUser(CreateUser),
    /// See [`UpdateUser`].
    UpdateUser(UpdateUser),
    /// See [`PutRole`].
    PutRole(PutRole),
    /// See [`CreateEnvironment`].
    CreateEnvironment(CreateEnvironment),
    /// See [`UpdateEnvironment`].
    UpdateEnvironment(UpdateEnvironment),
    /// See [`AddSecret`].
    AddSecret(AddSecret),
    /// See [`ExpireSecret`].
    ExpireSecret(ExpireSecret),
    /// See [`AddSecrets`].
    AddSecrets(AddSecrets),
    /// See [`ExpireSecrets`].
    ExpireSecrets(ExpireSecrets),
    /// See [`PutDefinitions`].
    PutDefinitions(PutDefinitions),
    /// See [`RequestChange`].
    RequestChange(RequestChange),
    /// See [`DecideChange`].
    DecideChange(DecideChange),
    /// See [`ApplyChange`].
    ApplyChange(ApplyChange),
    /// See [`CreateAccount`].
    CreateAccount(Box<CreateAccount>),
    /// See [`UpdateAccount`].
    UpdateAccount(Box<UpdateAccount>),
    /// See [`CustomerCommand`].
    Customer(CustomerCommand),
    /// See [`AddTags`].
    AddTags(AddTags),
    /// See [`RemoveTags`].
    RemoveTags(RemoveTags),
    /// See [`CreatePaymentMethod`].
    CreatePaymentMethod(CreatePaymentMethod),
    /// See [`SetDefaultPaymentMethod`].
    SetDefaultPaymentMethod(SetDefaultPaymentMethod),
    /// See [`DeletePaymentMethod`].
    DeletePaymentMethod(DeletePaymentMethod),
    /// See [`Initiate`].
    Authorize(Initiate),
    /// See [`Initiate`].
    Purchase(Initiate),
    /// See [`Initiate`].
    Credit(Initiate),
    /// See [`FollowUp`].
    Capture(FollowUp),
    /// See [`FollowUp`].
    Refund(FollowUp),
    /// See [`FollowUp`].
    Void(FollowUp),
    /// See [`FollowUp`].
    Chargeback(FollowUp),
    /// See [`FollowUp`].
    ReverseChargeback(FollowUp),
    /// See [`Complete`].
    Complete(Complete),
    /// See [`ResolvePending`].
    ResolvePending(ResolvePending),
    /// See [`FixTransaction`].
    FixTransaction(FixTransaction),
    /// See [`GatewayReplied`].
    GatewayReplied(GatewayReplied),
    /// See [`GatewayInquired`].
    GatewayInquired(GatewayInquired),
}

/// What a command is about: its account's partition executes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The installation: tenants, users, roles, feature flags.
    System,
    /// An account.
    Account(AccountId),
    /// A payment method: its account.
    PaymentMethod(PaymentMethodId),
    /// A payment: its account.
    Payment(PaymentId),
}

impl Command {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreateTenant(_) => "CreateTenant",
            Self::SetTenantValue(_) => "SetTenantValue",
            Self::CreateUser(_) => "CreateUser",
            Self::UpdateUser(_) => "UpdateUser",
            Self::PutRole(_) => "PutRole",
            Self::CreateEnvironment(_) => "CreateEnvironment",
            Self::UpdateEnvironment(_) => "UpdateEnvironment",
            Self::AddSecret(_) => "AddSecret",
            Self::ExpireSecret(_) => "ExpireSecret",
            Self::AddSecrets(_) => "AddSecrets",
            Self::ExpireSecrets(_) => "ExpireSecrets",
            Self::PutDefinitions(_) => "PutDefinitions",
            Self::RequestChange(_) => "RequestChange",
            Self::DecideChange(_) => "DecideChange",
            Self::ApplyChange(_) => "ApplyChange",
            Self::CreateAccount(_) => "CreateAccount",
            Self::UpdateAccount(_) => "UpdateAccount",
            Self::Customer(it) => it.name(),
            Self::AddTags(_) => "AddTags",
            Self::RemoveTags(_) => "RemoveTags",
            Self::CreatePaymentMethod(_) => "CreatePaymentMethod",
            Self::SetDefaultPaymentMethod(_) => "SetDefaultPaymentMethod",
            Self::DeletePaymentMethod(_) => "DeletePaymentMethod",
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
        }
    }

    /// The account that the request names, for routing and for the logs.
    #[must_use]
    pub fn account(&self) -> Option<AccountId> {
        match self {
            Self::UpdateAccount(it) => Some(it.account),
            Self::Customer(it) => it.customer().map(|customer| customer.account),
            Self::AddTags(it) => Some(it.account),
            Self::RemoveTags(it) => Some(it.account),
            Self::CreatePaymentMethod(it) => Some(it.account),
            Self::SetDefaultPaymentMethod(it) => Some(it.account),
            Self::DeletePaymentMethod(it) => it.auto_pay_off,
            Self::Authorize(it) | Self::Purchase(it) | Self::Credit(it) => Some(it.account),
            Self::CreateTenant(_)
            | Self::SetTenantValue(_)
            | Self::CreateUser(_)
            | Self::UpdateUser(_)
            | Self::PutRole(_)
            | Self::CreateEnvironment(_)
            | Self::UpdateEnvironment(_)
            | Self::AddSecret(_)
            | Self::ExpireSecret(_)
            | Self::AddSecrets(_)
            | Self::ExpireSecrets(_)
            | Self::PutDefinitions(_)
            | Self::RequestChange(_)
            | Self::DecideChange(_)
            | Self::ApplyChange(_)
            | Self::CreateAccount(_)
            | Self::Capture(_)
            | Self::Refund(_)
            | Self::Void(_)
            | Self::Chargeback(_)
            | Self::ReverseChargeback(_)
            | Self::Complete(_)
            | Self::ResolvePending(_)
            | Self::FixTransaction(_)
            | Self::GatewayReplied(_)
            | Self::GatewayInquired(_) => None,
        }
    }

    /// What decides on the partition that executes it.
    #[must_use]
    pub fn subject(&self, request: RequestId) -> Subject {
        match self {
            Self::CreateTenant(_)
            | Self::SetTenantValue(_)
            | Self::CreateUser(_)
            | Self::UpdateUser(_)
            | Self::PutRole(_)
            | Self::CreateEnvironment(_)
            | Self::UpdateEnvironment(_)
            | Self::AddSecret(_)
            | Self::ExpireSecret(_)
            | Self::AddSecrets(_)
            | Self::ExpireSecrets(_)
            | Self::PutDefinitions(_)
            | Self::RequestChange(_)
            | Self::DecideChange(_)
            | Self::ApplyChange(_) => Subject::System,
            // The first thing that it mints.
            Self::CreateAccount(_) => Subject::Account(request.entity(0)),
            Self::UpdateAccount(it) => Subject::Account(it.account),
            Self::Customer(it) => Subject::Account(it.account(request)),
            Self::AddTags(it) => Subject::Account(it.account),
            Self::RemoveTags(it) => Subject::Account(it.account),
            Self::CreatePaymentMethod(it) => Subject::Account(it.account),
            Self::SetDefaultPaymentMethod(it) => Subject::Account(it.account),
            Self::Authorize(it) | Self::Purchase(it) | Self::Credit(it) => {
                Subject::Account(it.account)
            }
            Self::DeletePaymentMethod(it) => Subject::PaymentMethod(it.payment_method),
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
        }
    }

    /// The rows that executing it may look at.
    pub fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        match self {
            Self::CreateTenant(it) => read_tenant(it, read),
            Self::SetTenantValue(it) => read(Read::TenantValue(tenant, it.key.clone())),
            Self::CreateUser(it) => read(Read::User(it.username.clone())),
            Self::UpdateUser(it) => read(Read::User(it.username.clone())),
            Self::PutRole(it) => read(Read::Role(it.name.clone())),
            Self::CreateEnvironment(it) => {
                read(Read::Environment(tenant, it.id));
                read(Read::Claim(environment::claim(tenant, &it.project, &it.key)));
            }
            Self::UpdateEnvironment(it) => read(Read::Environment(tenant, it.environment)),
            Self::AddSecret(it) => read(Read::Environment(tenant, it.environment)),
            Self::ExpireSecret(it) => it.reads(tenant, read),
            Self::AddSecrets(it) => {
                it.secrets.iter().for_each(|it| read(Read::Environment(tenant, it.environment)));
            }
            Self::ExpireSecrets(it) => it.secrets.iter().for_each(|it| it.reads(tenant, read)),
            Self::PutDefinitions(it) => read_definitions(it, tenant, read),
            Self::RequestChange(it) => read(Read::Environment(tenant, it.key.environment)),
            Self::DecideChange(it) => {
                read(Read::Environment(tenant, it.environment));
                read(Read::ChangeRequest(tenant, it.change));
                let seen = it.seen.iter();
                seen.for_each(|seen| read(Read::Definition(tenant, seen.key.clone())));
            }
            Self::ApplyChange(it) => {
                read(Read::Environment(tenant, it.key.environment));
                read(Read::ChangeRequest(tenant, it.change));
                read(Read::Definition(tenant, it.key.clone()));
            }
            Self::CreateAccount(it) => read_account(it, tenant, read),
            Self::UpdateAccount(it) => {
                read(Read::Account(tenant, it.account));
                it.parent_account_id.into_iter().for_each(|id| read(Read::Account(tenant, id)));
                let method = it.payment_method_id;
                method.into_iter().for_each(|id| read(Read::PaymentMethod(tenant, id)));
            }
            Self::Customer(it) => it.reads(tenant, read),
            Self::AddTags(it) => tag::reads((it.account, &it.definitions), tenant, read),
            Self::RemoveTags(it) => tag::reads((it.account, &it.definitions), tenant, read),
            Self::CreatePaymentMethod(it) => {
                read(Read::Account(tenant, it.account));
                if let Some(key) = &it.external_key {
                    read(Read::Claim(ClaimKey::new(tenant, ClaimKind::PaymentMethod, key)));
                }
            }
            Self::SetDefaultPaymentMethod(it) => {
                read(Read::Account(tenant, it.account));
                read(Read::PaymentMethod(tenant, it.payment_method));
            }
            Self::DeletePaymentMethod(it) => it.reads(tenant, read),
            Self::Authorize(it) | Self::Purchase(it) | Self::Credit(it) => {
                read_initiate(it, tenant, read);
            }
            Self::Capture(it)
            | Self::Refund(it)
            | Self::Void(it)
            | Self::Chargeback(it)
            | Self::ReverseChargeback(it) => {
                read(Read::Payment(tenant, it.payment));
                read_transaction_key(it.transaction_key.as_deref(), tenant, read);
            }
            Self::Complete(it) => read(Read::Payment(tenant, it.payment)),
            Self::ResolvePending(it) => read(Read::Payment(tenant, it.payment)),
            Self::FixTransaction(it) => read(Read::Payment(tenant, it.payment)),
            Self::GatewayReplied(it) => read(Read::Payment(tenant, it.payment)),
            Self::GatewayInquired(it) => read(Read::Payment(tenant, it.payment)),
        }
    }
}

fn read_tenant(it: &CreateTenant, read: &mut impl FnMut(Read)) {
    let system = TenantNo::SYSTEM;
    read(Read::Claim(ClaimKey::new(system, ClaimKind::TenantApiKey, &it.api_key)));
    if let Some(id) = it.id {
        read(Read::Claim(ClaimKey::new(system, ClaimKind::TenantId, &id.to_string())));
    }
}

fn read_definitions(it: &PutDefinitions, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(Read::Environment(tenant, it.environment));
    it.keys().for_each(|key| read(Read::Definition(tenant, key)));
}

fn read_account(it: &CreateAccount, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    if let Some(key) = &it.external_key {
        read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Account, key)));
        if let Ok(id) = uuid::Uuid::try_parse(key) {
            read(Read::Account(tenant, AccountId::new(id)));
        }
    }
    it.parent_account_id.into_iter().for_each(|id| read(Read::Account(tenant, id)));
}

fn read_initiate(it: &Initiate, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(Read::Account(tenant, it.account));
    it.payment_method.into_iter().for_each(|id| read(Read::PaymentMethod(tenant, id)));
    it.payment.into_iter().for_each(|id| read(Read::Payment(tenant, id)));
    if let Some(key) = &it.payment_key {
        read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Payment, key)));
        if let Ok(id) = uuid::Uuid::try_parse(key) {
            read(Read::Payment(tenant, PaymentId::new(id)));
        }
    }
    read_transaction_key(it.transaction_key.as_deref(), tenant, read);
}

fn read_transaction_key(key: Option<&str>, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    let Some(key) = key else { return };
    read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Transaction, key)));
    TransactionId::minted(key).into_iter().for_each(|id| read(Read::Transaction(tenant, id)));
}
