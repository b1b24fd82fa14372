//! Accounts, and what belongs to them: persons, further e-mail addresses, blocking states, tags, custom fields
//! and payment methods.

use std::collections::{BTreeMap, BTreeSet};

use crate::account::blocking_state::BlockingState;
use crate::account::custom_field::CustomField;
use crate::account::email::AccountEmail;
use crate::account::payment_method::PaymentMethod;
use crate::account::tag::{DefinitionRef, Tag, TagKey};
use crate::account::{Account, Person};
use crate::change::AccountChange;
use crate::object::Object;
use crate::rows::{Parts, Rows};
use crate::source::Source;
use crate::{AccountId, PaymentMethodId, TagDefinitionId, TenantNo};

/// The ids of an account's payment methods.
type MethodsOf = BTreeMap<(TenantNo, AccountId), BTreeSet<PaymentMethodId>>;

/// A row of an account that a command may look at: see [`Read`](crate::read::Read).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountRead {
    Account(TenantNo, AccountId),
    PaymentMethod(TenantNo, PaymentMethodId),
    /// The newest active payment methods of an account; at most [`METHODS_LISTED_MAX`](crate::read::METHODS_LISTED_MAX).
    PaymentMethods(TenantNo, AccountId),
    /// Whether anything is tagged with a definition.
    TagDefinitionUse(TenantNo, TagDefinitionId),
    Row(AccountRow),
}

/// A row of an account that comes alone, or rows that are an owner's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountRow {
    /// The further e-mail addresses that an account has.
    Emails(TenantNo, AccountId),
    /// The active blocking states of an account.
    BlockingStates(TenantNo, AccountId),
    Tag(TenantNo, TagKey),
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
    /// [`METHODS_MAX`](crate::tenant::payment_rules::METHODS_MAX) each, and those that the batch made.
    pub methods_to_choose: MethodsOf,
    /// The newest payment methods of accounts that were looked for together; at most
    /// [`METHODS_LISTED_MAX`](crate::read::METHODS_LISTED_MAX) each, and those that the batch made.
    pub methods_listed: MethodsOf,
}

impl AccountState {
    pub(crate) fn look_for(&mut self, read: &AccountRead) {
        match read {
            AccountRead::Account(no, id) => self.accounts.look_for((*no, *id)),
            AccountRead::PaymentMethod(no, id) => self.payment_methods.look_for((*no, *id)),
            AccountRead::PaymentMethods(no, id) => {
                self.methods_listed.entry((*no, *id)).or_default();
            }
            AccountRead::TagDefinitionUse(no, id) => {
                self.tag_definition_uses.entry((*no, *id)).or_default();
            }
            AccountRead::Row(AccountRow::Emails(no, id)) => self.emails.look_for((*no, *id)),
            AccountRead::Row(AccountRow::BlockingStates(no, id)) => {
                self.blocking_states.look_for((*no, *id));
            }
            AccountRead::Row(AccountRow::Tag(no, key)) => self.tags.look_for((*no, *key)),
            AccountRead::Row(AccountRow::CustomFields(no, object)) => {
                self.custom_fields.look_for((*no, *object));
            }
        }
    }

    /// Loads the rows that are looked for and come alone.
    ///
    /// # Errors
    /// Those of the source.
    pub fn load<S: Source>(&mut self, from: &S) -> Result<(), S::Error> {
        from.parts(&mut self.emails)?;
        from.parts(&mut self.blocking_states)?;
        from.rows(&mut self.tags)?;
        from.parts(&mut self.custom_fields)
    }

    pub(crate) fn apply(&mut self, tenant: TenantNo, change: &AccountChange) {
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

    /// Erases what the rows of an account have of the person. Each kind of row is named, so that none is forgotten.
    fn erase(&mut self, of: (TenantNo, AccountId)) {
        let Self {
            people,
            emails,
            custom_fields,
            payment_methods,
            // Nothing in them is of a person.
            accounts: _,
            closed: _,
            blocking_states: _,
            tags: _,
            tag_definition_uses: _,
            methods_to_choose: _,
            methods_listed: _,
        } = self;
        people.remove(&of);
        emails.erase(|it| (it.tenant, it.account) == of);
        custom_fields.erase(|it| (it.tenant, it.account) == of);
        payment_methods.erase(|it| (it.tenant, it.account_id) == of);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::account::email::AccountEmailId;
    use crate::{Revision, Seq, Timestamp};

    /// An import brings accounts with the ids that they had: two tenants may import the same.
    #[test]
    fn of_two_tenants_accounts_with_one_id_one_is_erased() {
        let account = AccountId::new(Uuid::from_u128(1));
        let mut state = AccountState::default();
        for tenant in [TenantNo(1), TenantNo(2)] {
            state.emails.put(AccountEmail {
                tenant,
                id: AccountEmailId::new(Uuid::from_u128(2)),
                account,
                email: "ann@example.org".to_owned(),
                active: true,
                created_at: Timestamp(0),
                revision: Revision::first(Seq(1)),
            });
        }
        state.apply(TenantNo(1), &AccountChange::PersonErased { account });
        assert!(state.emails.of(&(TenantNo(1), account)).is_empty());
        assert_eq!(state.emails.of(&(TenantNo(2), account)).len(), 1);
    }
}
