//! Accounts and what belongs to them, as rules look them up.

use uuid::Uuid;

use crate::account::blocking_state::BlockingState;
use crate::account::custom_field::CustomField;
use crate::account::payment_method::PaymentMethod;
use crate::account::tag::{Tag, TagKey};
use crate::account::{Account, Person};
use crate::object::Object;
use crate::rows::PartsOf;
use crate::state::{LOADED, State};
use crate::{AccountId, PaymentMethodId, TagDefinitionId, TenantNo};

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
