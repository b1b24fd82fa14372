//! Commands about accounts, their tags and their payment methods.

use serde::{Deserialize, Serialize};

use crate::account::blocking_state::{AddBlockingState, CloseAccount};
use crate::account::custom_field::{AddCustomFields, RemoveCustomFields, UpdateCustomFields};
use crate::account::email::ChangeAccountEmail;
use crate::account::payment_method::{
    ContinueMethod, CreatePaymentMethod, DeletePaymentMethod, MethodAnswered,
    SetDefaultPaymentMethod,
};
use crate::account::tag::{AddTags, DefinitionRef, RemoveTags, TagKey};
use crate::account::{CreateAccount, EraseAccount, ReleaseAccount, UpdateAccount};
use crate::billing::reads::{read_run, read_since};
use crate::billing::subscription::When;
use crate::claim::{ClaimKey, ClaimKind};
use crate::import::{ImportAccount, id_claim};
use crate::object::Object;
use crate::partition::Subject;
use crate::read::{
    AccountRead, AccountRow, BillingRead, EntitlementRead, PaymentRead, Read, TenantRead,
    TenantRow, UsageRead,
};
use crate::timer::{TimerKey, TimerKind};
use crate::{AccountId, PaymentMethodId, RequestId, TagDefinitionId, TenantNo};

/// A command about an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountCommand {
    Create(Box<CreateAccount>),
    Update(Box<UpdateAccount>),
    Erase(EraseAccount),
    Release(ReleaseAccount),
    AddEmail(ChangeAccountEmail),
    RemoveEmail(ChangeAccountEmail),
    Close(CloseAccount),
    AddBlockingState(AddBlockingState),
    AddTags(AddTags),
    RemoveTags(RemoveTags),
    AddCustomFields(AddCustomFields),
    UpdateCustomFields(UpdateCustomFields),
    RemoveCustomFields(RemoveCustomFields),
    CreatePaymentMethod(CreatePaymentMethod),
    SetDefaultPaymentMethod(SetDefaultPaymentMethod),
    DeletePaymentMethod(DeletePaymentMethod),
    MethodAnswered(Box<MethodAnswered>),
    ContinueMethod(ContinueMethod),
    Import(Box<ImportAccount>),
}

impl AccountCommand {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "CreateAccount",
            Self::Update(_) => "UpdateAccount",
            Self::Erase(_) => "EraseAccount",
            Self::Release(_) => "ReleaseAccount",
            Self::AddEmail(_) => "AddAccountEmail",
            Self::RemoveEmail(_) => "RemoveAccountEmail",
            Self::Close(_) => "CloseAccount",
            Self::AddBlockingState(_) => "AddBlockingState",
            Self::AddTags(_) => "AddTags",
            Self::RemoveTags(_) => "RemoveTags",
            Self::AddCustomFields(_) => "AddCustomFields",
            Self::UpdateCustomFields(_) => "UpdateCustomFields",
            Self::RemoveCustomFields(_) => "RemoveCustomFields",
            Self::CreatePaymentMethod(_) => "CreatePaymentMethod",
            Self::SetDefaultPaymentMethod(_) => "SetDefaultPaymentMethod",
            Self::DeletePaymentMethod(_) => "DeletePaymentMethod",
            Self::MethodAnswered(_) => "MethodAnswered",
            Self::ContinueMethod(_) => "ContinueMethod",
            Self::Import(_) => "ImportAccount",
        }
    }

    /// The account that it names; one that it creates has no id yet.
    #[must_use]
    pub const fn account(&self) -> Option<AccountId> {
        match self {
            Self::Create(_) => None,
            Self::Update(it) => Some(it.account),
            Self::Erase(it) => Some(it.account),
            Self::Release(it) => Some(it.account),
            Self::AddEmail(it) => Some(it.account),
            Self::RemoveEmail(it) => Some(it.account),
            Self::Close(it) => Some(it.account),
            Self::AddBlockingState(it) => Some(it.account),
            Self::AddTags(it) => Some(it.account),
            Self::RemoveTags(it) => Some(it.account),
            Self::AddCustomFields(it) => Some(it.account),
            Self::UpdateCustomFields(it) => Some(it.account),
            Self::RemoveCustomFields(it) => Some(it.account),
            Self::CreatePaymentMethod(it) => Some(it.account),
            Self::SetDefaultPaymentMethod(it) => Some(it.account),
            Self::DeletePaymentMethod(it) => it.auto_pay_off,
            Self::MethodAnswered(it) => Some(it.account),
            Self::ContinueMethod(it) => Some(it.account),
            Self::Import(it) => Some(it.id),
        }
    }

    pub(crate) fn subject(&self, request: RequestId) -> Subject {
        if let Self::DeletePaymentMethod(it) = self {
            return Subject::PaymentMethod(it.payment_method);
        }
        // The first id that the request mints.
        Subject::Account(self.account().unwrap_or_else(|| request.entity(0)))
    }

    /// See [`crate::command::Command::is_marked`].
    pub(crate) const fn is_marked(&self) -> bool {
        match self {
            Self::Update(_)
            | Self::Erase(_)
            | Self::Release(_)
            | Self::AddEmail(_)
            | Self::RemoveEmail(_)
            | Self::Close(_)
            | Self::AddBlockingState(_)
            | Self::AddTags(_)
            | Self::RemoveTags(_)
            | Self::AddCustomFields(_)
            | Self::UpdateCustomFields(_)
            | Self::RemoveCustomFields(_)
            | Self::SetDefaultPaymentMethod(_)
            | Self::DeletePaymentMethod(_) => true,
            // What was imported has its id claimed; a gateway's answer and a timer's command come from no queue.
            Self::Create(_)
            | Self::CreatePaymentMethod(_)
            | Self::MethodAnswered(_)
            | Self::ContinueMethod(_)
            | Self::Import(_) => false,
        }
    }

    /// The payment method whose outcome it brings, where it is what a gateway answered.
    #[must_use]
    pub const fn answered(&self) -> Option<&MethodAnswered> {
        if let Self::MethodAnswered(it) = self { Some(it) } else { None }
    }

    /// The rows that executing it may look at.
    pub(crate) fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        match self {
            Self::Create(it) => read_new_account(it, tenant, read),
            Self::Update(it) => {
                read(AccountRead::Account(tenant, it.account).into());
                it.parent_account_id
                    .into_iter()
                    .for_each(|id| read(AccountRead::Account(tenant, id).into()));
                let method = it.payment_method_id;
                method
                    .into_iter()
                    .for_each(|id| read(AccountRead::PaymentMethod(tenant, id).into()));
            }
            Self::Erase(it) => read_person(it.account, tenant, read),
            // Its rows may be what cannot be read.
            Self::Release(_) => {}
            Self::AddEmail(it) => read_emails(it.account, tenant, read),
            Self::RemoveEmail(it) => read_emails(it.account, tenant, read),
            Self::Close(it) => {
                read_blocking_states(it.account, tenant, read);
                read_run(tenant, it.account, read);
                if it.remove_future_notifications {
                    read(PaymentRead::ScheduledAttempts(tenant, it.account).into());
                }
            }
            Self::AddBlockingState(it) => {
                read_blocking_states(it.account, tenant, read);
                read_run(tenant, it.account, read);
                read_since(it.effective_at.map(When::At), (tenant, it.account), read);
            }
            Self::AddTags(it) => read_tags((it.account, it.part), &it.definitions, tenant, read),
            Self::RemoveTags(it) => {
                read_tags((it.account, it.part), &it.definitions, tenant, read);
                if it.resumes_retries() {
                    read(PaymentRead::ScheduledAttempts(tenant, it.account).into());
                }
                if it.resumes_payments() {
                    read(BillingRead::Account(tenant, it.account).into());
                }
            }
            Self::AddCustomFields(it) => read_fields((it.account, it.object), tenant, read),
            Self::UpdateCustomFields(it) => read_fields((it.account, it.object), tenant, read),
            Self::RemoveCustomFields(it) => read_fields((it.account, it.object), tenant, read),
            Self::CreatePaymentMethod(it) => {
                read(AccountRead::Account(tenant, it.account).into());
                if let Some(key) = &it.external_key {
                    read(Read::Claim(ClaimKey::new(tenant, ClaimKind::PaymentMethod, key)));
                }
                // Some gateways are called for an account of the tenant's.
                read(TenantRead::PaymentRules(tenant).into());
                if it.is_attached {
                    read(AccountRead::PaymentMethods(tenant, it.account).into());
                }
            }
            Self::SetDefaultPaymentMethod(it) => {
                read(AccountRead::Account(tenant, it.account).into());
                read(AccountRead::PaymentMethod(tenant, it.payment_method).into());
            }
            Self::DeletePaymentMethod(it) => {
                read(AccountRead::PaymentMethod(tenant, it.payment_method).into());
                it.tag().into_iter().for_each(|key| read(AccountRow::Tag(tenant, key).into()));
            }
            Self::MethodAnswered(it) => read_step(it.payment_method, tenant, read),
            Self::ContinueMethod(it) => read_step(it.payment_method, tenant, read),
            Self::Import(it) => read_import(it, tenant, read),
        }
    }
}

fn read_step(method: PaymentMethodId, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(AccountRead::PaymentMethod(tenant, method).into());
    let key = TimerKey { kind: TimerKind::MethodStep, object: method.uuid() };
    read(Read::Timer(tenant, key));
}

fn read_import(it: &ImportAccount, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(AccountRead::Account(tenant, it.id).into());
    it.ids().for_each(|id| read(Read::Claim(id_claim(tenant, id))));
    let claim = |kind, key: &str| Read::Claim(ClaimKey::new(tenant, kind, key));
    it.account.external_key.iter().for_each(|key| read(claim(ClaimKind::Account, key)));
    for method in &it.methods {
        let key = method.method.external_key.iter();
        key.for_each(|key| read(claim(ClaimKind::PaymentMethod, key)));
    }
    it.belongings.definitions().for_each(|id| read(TenantRow::TagDefinition(tenant, id).into()));
}

/// Reads the rows that the creation of an account may look at.
pub(crate) fn read_new_account(it: &CreateAccount, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    if let Some(key) = &it.external_key {
        read(Read::Claim(ClaimKey::new(tenant, ClaimKind::Account, key)));
        if let Ok(id) = uuid::Uuid::try_parse(key) {
            read(AccountRead::Account(tenant, AccountId::new(id)).into());
        }
    }
    it.parent_account_id.into_iter().for_each(|id| read(AccountRead::Account(tenant, id).into()));
}

/// Reads the rows that are erased with a person, except those that have no keys of their own.
pub(crate) fn read_person(account: AccountId, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(AccountRead::Account(tenant, account).into());
    read(EntitlementRead::Entitlements(tenant, account).into());
    read(EntitlementRead::Users(tenant, account).into());
}

fn read_emails(account: AccountId, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(AccountRead::Account(tenant, account).into());
    read(AccountRow::Emails(tenant, account).into());
}

fn read_blocking_states(account: AccountId, tenant: TenantNo, read: &mut impl FnMut(Read)) {
    read(AccountRead::Account(tenant, account).into());
    read(AccountRow::BlockingStates(tenant, account).into());
    read(EntitlementRead::Entitlements(tenant, account).into());
    read(EntitlementRead::Usage(UsageRead::Reserved(tenant, account)).into());
}

fn read_tags(
    (account, part): (AccountId, Option<Object>),
    definitions: &[TagDefinitionId],
    tenant: TenantNo,
    read: &mut impl FnMut(Read),
) {
    let object = part.unwrap_or(Object::Account(account));
    read_object((account, object), tenant, read);
    for definition in definitions.iter().map(|id| DefinitionRef::of(*id)) {
        read(AccountRow::Tag(tenant, TagKey::new(account, object, definition)).into());
        if let DefinitionRef::Own(id) = definition {
            read(TenantRow::TagDefinition(tenant, id).into());
        }
    }
}

fn read_fields(
    (account, object): (AccountId, Object),
    tenant: TenantNo,
    read: &mut impl FnMut(Read),
) {
    read_object((account, object), tenant, read);
    read(AccountRow::CustomFields(tenant, object).into());
}

fn read_object(
    (account, object): (AccountId, Object),
    tenant: TenantNo,
    read: &mut impl FnMut(Read),
) {
    read(AccountRead::Account(tenant, account).into());
    match object {
        Object::Account(_) => {}
        Object::PaymentMethod(id) => read(AccountRead::PaymentMethod(tenant, id).into()),
        Object::Payment(payment) | Object::Transaction { payment, .. } => {
            read(PaymentRead::Payment(tenant, payment).into());
        }
        Object::Bundle(id) => read(BillingRead::Bundle(tenant, id).into()),
        Object::Subscription(id) => read(BillingRead::Subscription(tenant, id).into()),
        Object::Invoice(id) => read(BillingRead::Invoice(tenant, id).into()),
        Object::InvoiceItem(id) => read(BillingRead::Item(tenant, id).into()),
    }
}
