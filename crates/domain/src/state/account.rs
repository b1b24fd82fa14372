//! Accounts, and what belongs to them: persons, further e-mail addresses, blocking states, tags, custom fields
//! and payment methods.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{LOADED, State};
use crate::account::{Account, Person};
use crate::account_email::AccountEmail;
use crate::blocking_state::BlockingState;
use crate::change::AccountChange;
use crate::custom_field::CustomField;
use crate::object::Object;
use crate::payment_method::PaymentMethod;
use crate::rows::{Parts, PartsOf, Rows};
use crate::tag::{DefinitionRef, Tag, TagKey};
use crate::{AccountId, PaymentMethodId, TagDefinitionId, TenantNo};

/// The ids of an account's payment methods.
type MethodsOf = BTreeMap<(TenantNo, AccountId), BTreeSet<PaymentMethodId>>;

/// A row of an account that a command may look at: see [`Read`](crate::read::Read).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountRead {
    Account(TenantNo, AccountId),
    /// The further e-mail addresses that an account has.
    Emails(TenantNo, AccountId),
    /// The active blocking states of an account.
    BlockingStates(TenantNo, AccountId),
    PaymentMethod(TenantNo, PaymentMethodId),
    /// The newest active payment methods of an account; at most [`METHODS_LISTED_MAX`](crate::read::METHODS_LISTED_MAX).
    PaymentMethods(TenantNo, AccountId),
    Tag(TenantNo, TagKey),
    /// Whether anything is tagged with a definition.
    TagDefinitionUse(TenantNo, TagDefinitionId),
    /// All custom fields that an object has.
    CustomFields(TenantNo, Object),
}

#[derive(Clone, Debug, Default)]
pub struct AccountState {
    pub accounts: Rows<Account>,
    /// Personal data by account.
    pub people: BTreeMap<(TenantNo, AccountId), Person>,
    /// The accounts that are closed.
    pub closed: BTreeSet<(TenantNo, AccountId)>,
    /// Further e-mail addresses.
    pub emails: Parts<AccountEmail>,
    /// Active blocking states.
    pub blocking_states: Parts<BlockingState>,
    pub tags: Rows<Tag>,
    /// Whether anything is tagged with a definition.
    pub tag_definition_uses: BTreeMap<(TenantNo, TagDefinitionId), bool>,
    /// The custom fields of an object.
    pub custom_fields: Parts<CustomField>,
    pub payment_methods: Rows<PaymentMethod>,
    /// The newest payment methods of accounts whose tenant's rules choose one; at most
    /// [`METHODS_MAX`](crate::payment_rules::METHODS_MAX) each, and those that the batch made.
    pub methods_to_choose: MethodsOf,
    /// The newest payment methods of accounts that were looked for together; at most
    /// [`METHODS_LISTED_MAX`](crate::read::METHODS_LISTED_MAX)(crate::read::METHODS_LISTED_MAX) each, and those that the batch made.
    pub methods_listed: MethodsOf,
}

impl State {
    pub(crate) fn account(&self, tenant: TenantNo, id: AccountId) -> Option<&Account> {
        self.account.accounts.get(&(tenant, id))
    }

    /// The account whose id is `key`, where it has no other key.
    pub(crate) fn defaulted_account(&self, tenant: TenantNo, key: &str) -> Option<&Account> {
        let id = AccountId::new(Uuid::try_parse(key).ok()?);
        self.account(tenant, id).filter(|account| account.external_key.is_none())
    }

    pub(crate) fn person(&self, tenant: TenantNo, id: AccountId) -> Person {
        self.account.people.get(&(tenant, id)).cloned().unwrap_or_default()
    }

    /// Whether an account that is loaded is closed.
    pub(crate) fn is_closed(&self, tenant: TenantNo, account: AccountId) -> bool {
        self.account.closed.contains(&(tenant, account))
    }

    /// The further e-mail addresses of an account.
    pub(crate) fn account_emails(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> &PartsOf<AccountEmail> {
        self.account.emails.of(&(tenant, account))
    }

    pub(crate) fn blocking_states(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> &PartsOf<BlockingState> {
        self.account.blocking_states.of(&(tenant, account))
    }

    pub(crate) fn tag(&self, tenant: TenantNo, key: TagKey) -> Option<&Tag> {
        self.account.tags.get(&(tenant, key))
    }

    pub(crate) fn is_tag_definition_used(&self, tenant: TenantNo, id: TagDefinitionId) -> bool {
        *self.account.tag_definition_uses.get(&(tenant, id)).expect(LOADED)
    }

    pub(crate) fn custom_fields(&self, tenant: TenantNo, object: Object) -> &PartsOf<CustomField> {
        self.account.custom_fields.of(&(tenant, object))
    }

    pub(crate) fn payment_method(
        &self,
        tenant: TenantNo,
        id: PaymentMethodId,
    ) -> Option<&PaymentMethod> {
        self.account.payment_methods.get(&(tenant, id))
    }

    /// The account's methods where the tenant's rules choose one; none where they do not.
    pub(crate) fn methods_to_choose(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> impl Iterator<Item = &PaymentMethod> {
        let ids = self.account.methods_to_choose.get(&(tenant, account)).into_iter().flatten();
        ids.filter_map(move |id| self.payment_method(tenant, *id)).filter(|it| it.active)
    }

    /// The newest active methods of an account.
    pub(crate) fn methods_listed(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> impl Iterator<Item = &PaymentMethod> {
        let ids = self.account.methods_listed.get(&(tenant, account)).expect(LOADED);
        ids.iter().filter_map(move |id| self.payment_method(tenant, *id)).filter(|it| it.active)
    }
}

impl AccountState {
    pub(super) fn apply(&mut self, tenant: TenantNo, change: &AccountChange) {
        match change {
            AccountChange::Account(it) => drop(self.accounts.put(it.clone())),
            AccountChange::Person { account, person } => {
                self.people.insert((tenant, *account), (**person).clone());
            }
            AccountChange::PersonErased { account } => self.erase((tenant, *account)),
            AccountChange::Email(it) => self.emails.put(it.clone()),
            AccountChange::BlockingState(it) => {
                match it.closes().filter(|_| it.active) {
                    Some(true) => drop(self.closed.insert((it.tenant, it.account))),
                    Some(false) => drop(self.closed.remove(&(it.tenant, it.account))),
                    None => {}
                }
                self.blocking_states.put(it.clone());
            }
            AccountChange::Tag(it) => {
                if let DefinitionRef::Own(id) = it.key.definition
                    && let Some(is_used) = self.tag_definition_uses.get_mut(&(it.tenant, id))
                {
                    *is_used |= it.active;
                }
                self.tags.put(it.clone());
            }
            AccountChange::CustomField(it) => self.custom_fields.put(it.clone()),
            AccountChange::PaymentMethod(it) => {
                for lists in [&mut self.methods_to_choose, &mut self.methods_listed] {
                    lists.entry((it.tenant, it.account_id)).and_modify(|ids| {
                        ids.insert(it.id);
                    });
                }
                self.payment_methods.put(it.clone());
            }
            // No rule looks at it.
            AccountChange::AuditImported(_) => {}
        }
    }

    fn erase(&mut self, of: (TenantNo, AccountId)) {
        self.people.remove(&of);
        let methods = self.payment_methods.iter_mut();
        methods.filter(|it| (it.tenant, it.account_id) == of).for_each(PaymentMethod::erase);
        self.emails.retain(|it| (it.tenant, it.account) != of);
        self.custom_fields.retain(|it| (it.tenant, it.account) != of);
    }
}
