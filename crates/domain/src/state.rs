//! What commands look at: the rows that a batch loaded, with what its commands changed since.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::access::{Role, User};
use crate::account::{Account, Person};
use crate::account_email::AccountEmail;
use crate::blocking_state::BlockingState;
use crate::change::{
    AccessChange, AccountChange, Change, ClaimChange, CustomerChange, EntitlementChange,
    FlagChange, PaymentChange, TenantChange, TimerChange,
};
use crate::change_request::ChangeRequest;
use crate::claim::{Claim, ClaimKey};
use crate::custom_field::CustomField;
use crate::customer::{Customer, CustomerFile, Session};
use crate::definition::{Definition, DefinitionKey};
use crate::dispute::{Dispute, DisputeCase};
use crate::entitlement::Entitlements;
use crate::environment::{Environment, Secret};
use crate::feature::Feature;
use crate::object::Object;
use crate::offer::Offer;
use crate::operation::Operation;
use crate::payment::{Outstanding, Payment, PaymentFile, Transaction};
use crate::payment_attempt::{AttemptState, PaymentAttempt, PaymentVelocity};
use crate::payment_method::PaymentMethod;
use crate::payment_rules::PaymentRules;
use crate::period::Period;
use crate::purchase::Purchase;
use crate::tag::{DefinitionRef, Tag, TagDefinition, TagKey};
use crate::tenant::{Tenant, TenantValue};
use crate::timer::{Timer, TimerKey};
use crate::usage::{EventKey, Reservation, Usage, UsageEvent};
use crate::{
    AccountEmailId, AccountId, BlockingStateId, ChangeRequestId, CustomFieldId, CustomerId,
    EnvironmentId, OperationId, PaymentId, PaymentMethodId, PurchaseId, ReservationId, SecretId,
    TagDefinitionId, TenantNo, TransactionId,
};

/// The rows of a batch. A row that was looked for and is not there is present as `None`; a look at
/// a row that nobody loaded is a bug and panics.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub accounts: BTreeMap<(TenantNo, AccountId), Option<Account>>,
    /// Personal data by account.
    pub people: BTreeMap<(TenantNo, AccountId), Person>,
    /// The further e-mail addresses that accounts have, by account.
    pub account_emails: BTreeMap<(TenantNo, AccountId), BTreeMap<AccountEmailId, AccountEmail>>,
    /// The accounts that are closed.
    pub closed_accounts: BTreeSet<(TenantNo, AccountId)>,
    /// The active blocking states of accounts, by account.
    pub blocking_states: BTreeMap<(TenantNo, AccountId), BTreeMap<BlockingStateId, BlockingState>>,
    /// Payment methods by id.
    pub payment_methods: BTreeMap<(TenantNo, PaymentMethodId), Option<PaymentMethod>>,
    /// The newest payment methods of accounts whose tenant's rules choose one, by account; at most
    /// [`METHODS_MAX`](crate::payment_rules::METHODS_MAX) each, and those that the batch made.
    pub methods_to_choose: BTreeMap<(TenantNo, AccountId), BTreeSet<PaymentMethodId>>,
    /// The newest payment methods of accounts that were looked for together, by account; at most
    /// [`METHODS_LISTED_MAX`](crate::read::METHODS_LISTED_MAX) each, and those that the batch made.
    pub methods_listed: BTreeMap<(TenantNo, AccountId), BTreeSet<PaymentMethodId>>,
    /// Tags by key.
    pub tags: BTreeMap<(TenantNo, TagKey), Option<Tag>>,
    /// Tenants' definitions of tags by id.
    pub tag_definitions: BTreeMap<(TenantNo, TagDefinitionId), Option<TagDefinition>>,
    /// Whether anything is tagged with a definition.
    pub tag_definition_uses: BTreeMap<(TenantNo, TagDefinitionId), bool>,
    /// The custom fields that objects have, by object.
    pub custom_fields: BTreeMap<(TenantNo, Object), BTreeMap<CustomFieldId, CustomField>>,
    pub payments: BTreeMap<(TenantNo, PaymentId), Option<PaymentFile>>,
    /// The payments of transactions that were looked for by id.
    pub transactions: BTreeMap<(TenantNo, TransactionId), Option<PaymentId>>,
    /// Outcomes waited for, of the payments here.
    pub outstanding: BTreeMap<(TenantNo, TransactionId), Outstanding>,
    /// The attempts of payments that have a transaction, by payment.
    pub payment_attempts: BTreeMap<(TenantNo, PaymentId), Vec<PaymentAttempt>>,
    /// The attempts of accounts whose retries are due some day, in the order of their due times.
    pub scheduled_attempts: BTreeMap<(TenantNo, AccountId), Vec<PaymentAttempt>>,
    /// What accounts started in a day.
    pub payment_velocities: BTreeMap<(TenantNo, AccountId), Option<PaymentVelocity>>,
    /// Tenants' rules for payments, as they were when the batch began: so they hold for all its payments.
    pub payment_rules: BTreeMap<TenantNo, Option<PaymentRules>>,
    /// The rules that the batch changed.
    pub changed_payment_rules: BTreeMap<TenantNo, PaymentRules>,
    /// Claims by key.
    pub claims: BTreeMap<ClaimKey, Option<Claim>>,
    /// Tenants by number.
    pub tenants: BTreeMap<TenantNo, Option<Tenant>>,
    /// Tenants' values by key.
    pub tenant_values: BTreeMap<(TenantNo, String), Option<TenantValue>>,
    /// What is counted of all of a tenant's values: see [`TenantValue::counted_bytes`].
    pub tenant_values_bytes: BTreeMap<TenantNo, u64>,
    /// Users by name.
    pub users: BTreeMap<String, Option<User>>,
    /// Roles by name.
    pub roles: BTreeMap<String, Option<Role>>,
    /// Environments by id.
    pub environments: BTreeMap<(TenantNo, EnvironmentId), Option<Environment>>,
    /// Secrets of environments by id.
    pub secrets: BTreeMap<(TenantNo, SecretId), Option<Secret>>,
    /// Flags and segments by key.
    pub definitions: BTreeMap<(TenantNo, DefinitionKey), Option<Definition>>,
    /// Changes that are kept for later, by id.
    pub change_requests: BTreeMap<(TenantNo, ChangeRequestId), Option<ChangeRequest>>,
    /// Customers by id, with their sessions.
    pub customers: BTreeMap<(TenantNo, CustomerId), Option<CustomerFile>>,
    /// Operations by id.
    pub operations: BTreeMap<(TenantNo, OperationId), Option<Operation>>,
    /// Timers by key.
    pub timers: BTreeMap<(TenantNo, TimerKey), Option<Timer>>,
    /// By what the gateway calls them.
    pub disputes: BTreeMap<(TenantNo, DisputeCase), Option<Dispute>>,
    /// How many disputes a payment has.
    pub dispute_counts: BTreeMap<(TenantNo, PaymentId), usize>,
    /// Features by key.
    pub features: BTreeMap<(TenantNo, String), Option<Feature>>,
    /// The newest versions of offers, by key.
    pub offers: BTreeMap<(TenantNo, String), Option<Offer>>,
    /// The keys of the offers that newcomers get.
    pub newcomers_offers: BTreeMap<TenantNo, Option<String>>,
    /// How many features and offers tenants have.
    pub catalog_sizes: BTreeMap<TenantNo, CatalogSize>,
    /// Purchases by id: those of the payments here.
    pub purchases: BTreeMap<(TenantNo, PurchaseId), Purchase>,
    pub entitlements: BTreeMap<(TenantNo, AccountId), Option<Entitlements>>,
    /// The keys of the users that are mapped to accounts.
    pub account_users: BTreeMap<(TenantNo, AccountId), BTreeSet<String>>,
    /// What accounts used of features, by the keys of features.
    pub usage: BTreeMap<(TenantNo, AccountId, String), BTreeMap<Period, Usage>>,
    /// Accounts all of whose counts with reservations are in `usage`.
    pub reserved_usage: BTreeSet<(TenantNo, AccountId)>,
    pub usage_events: BTreeMap<(TenantNo, AccountId, EventKey), Option<UsageEvent>>,
    pub reservations: BTreeMap<(TenantNo, AccountId, ReservationId), Option<Reservation>>,
}

/// How much a tenant has defined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CatalogSize {
    pub features: u32,
    pub offers: u32,
}

const LOADED: &str = "a command's reads are loaded before it is executed";

impl State {
    pub(crate) fn account(&self, tenant: TenantNo, id: AccountId) -> Option<&Account> {
        self.accounts.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    /// The account whose id is `key`, where it has no other key.
    pub(crate) fn defaulted_account(&self, tenant: TenantNo, key: &str) -> Option<&Account> {
        let id = AccountId::new(Uuid::try_parse(key).ok()?);
        self.account(tenant, id).filter(|account| account.external_key.is_none())
    }

    pub(crate) fn person(&self, tenant: TenantNo, id: AccountId) -> Person {
        self.people.get(&(tenant, id)).cloned().unwrap_or_default()
    }

    pub(crate) fn account_emails(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> &BTreeMap<AccountEmailId, AccountEmail> {
        self.account_emails.get(&(tenant, account)).expect(LOADED)
    }

    /// Whether an account that is loaded is closed.
    pub(crate) fn is_closed(&self, tenant: TenantNo, account: AccountId) -> bool {
        self.closed_accounts.contains(&(tenant, account))
    }

    pub(crate) fn blocking_states(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> &BTreeMap<BlockingStateId, BlockingState> {
        self.blocking_states.get(&(tenant, account)).expect(LOADED)
    }

    pub(crate) fn payment_method(
        &self,
        tenant: TenantNo,
        id: PaymentMethodId,
    ) -> Option<&PaymentMethod> {
        self.payment_methods.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    /// The account's methods where the tenant's rules choose one; none where they do not.
    pub(crate) fn methods_to_choose(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> impl Iterator<Item = &PaymentMethod> {
        let ids = self.methods_to_choose.get(&(tenant, account)).into_iter().flatten();
        ids.filter_map(move |id| self.payment_method(tenant, *id)).filter(|it| it.active)
    }

    /// The newest active methods of an account.
    pub(crate) fn methods_listed(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> impl Iterator<Item = &PaymentMethod> {
        let ids = self.methods_listed.get(&(tenant, account)).expect(LOADED);
        ids.iter().filter_map(move |id| self.payment_method(tenant, *id)).filter(|it| it.active)
    }

    pub(crate) fn tag(&self, tenant: TenantNo, key: TagKey) -> Option<&Tag> {
        self.tags.get(&(tenant, key)).expect(LOADED).as_ref()
    }

    pub(crate) fn tag_definition(
        &self,
        tenant: TenantNo,
        id: TagDefinitionId,
    ) -> Option<&TagDefinition> {
        self.tag_definitions.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn is_tag_definition_used(&self, tenant: TenantNo, id: TagDefinitionId) -> bool {
        *self.tag_definition_uses.get(&(tenant, id)).expect(LOADED)
    }

    pub(crate) fn custom_fields(
        &self,
        tenant: TenantNo,
        object: Object,
    ) -> &BTreeMap<CustomFieldId, CustomField> {
        self.custom_fields.get(&(tenant, object)).expect(LOADED)
    }

    pub(crate) fn payment(&self, tenant: TenantNo, id: PaymentId) -> Option<&PaymentFile> {
        self.payments.get(&(tenant, id)).expect(LOADED).as_ref()
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
        let payment = self.transactions.get(&(tenant, id)).expect(LOADED);
        let file = self.payment(tenant, (*payment)?)?;
        file.transaction(id).filter(|it| it.external_key.is_none()).map(|_| file)
    }

    pub(crate) fn outstanding(&self, tenant: TenantNo, id: TransactionId) -> Option<&Outstanding> {
        self.outstanding.get(&(tenant, id))
    }

    /// The attempt of a transaction, where the attempts of its payment were loaded and it has one.
    pub(crate) fn attempt_of(&self, it: &Transaction) -> Option<&PaymentAttempt> {
        let of_payment = self.payment_attempts.get(&(it.tenant, it.payment_id))?;
        of_payment.iter().find(|attempt| attempt.transaction_id == Some(it.id))
    }

    /// The attempts of a payment that have a transaction; none where they were not loaded.
    pub(crate) fn attempts(&self, tenant: TenantNo, payment: PaymentId) -> &[PaymentAttempt] {
        self.payment_attempts.get(&(tenant, payment)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn scheduled_attempts(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> &[PaymentAttempt] {
        self.scheduled_attempts.get(&(tenant, account)).expect(LOADED)
    }

    pub(crate) fn payment_velocity(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> Option<&PaymentVelocity> {
        self.payment_velocities.get(&(tenant, account)).expect(LOADED).as_ref()
    }

    /// The rules for the payments of the batch.
    pub(crate) fn payment_rules(&self, tenant: TenantNo) -> Option<&PaymentRules> {
        self.payment_rules.get(&tenant).expect(LOADED).as_ref()
    }

    /// The rules for the payments of the batches to come.
    pub(crate) fn newest_payment_rules(&self, tenant: TenantNo) -> Option<&PaymentRules> {
        self.changed_payment_rules.get(&tenant).or_else(|| self.payment_rules(tenant))
    }

    pub(crate) fn claim(&self, key: &ClaimKey) -> Option<&Claim> {
        self.claims.get(key).expect(LOADED).as_ref()
    }

    /// The tenant of a request, which exists wherever a request names it.
    pub(crate) fn tenant(&self, no: TenantNo) -> &Tenant {
        self.tenants.get(&no).expect(LOADED).as_ref().expect("a request names a tenant that exists")
    }

    pub(crate) fn tenant_value(&self, tenant: TenantNo, key: &str) -> Option<&TenantValue> {
        self.tenant_values.get(&(tenant, key.to_owned())).expect(LOADED).as_ref()
    }

    pub(crate) fn tenant_values_bytes(&self, tenant: TenantNo) -> u64 {
        *self.tenant_values_bytes.get(&tenant).expect(LOADED)
    }

    pub(crate) fn user(&self, username: &str) -> Option<&User> {
        self.users.get(username).expect(LOADED).as_ref()
    }

    pub(crate) fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name).expect(LOADED).as_ref()
    }

    pub(crate) fn environment(&self, tenant: TenantNo, id: EnvironmentId) -> Option<&Environment> {
        self.environments.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn secret(&self, tenant: TenantNo, id: SecretId) -> Option<&Secret> {
        self.secrets.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn definition(&self, tenant: TenantNo, key: &DefinitionKey) -> Option<&Definition> {
        self.definitions.get(&(tenant, key.clone())).expect(LOADED).as_ref()
    }

    pub(crate) fn change_request(
        &self,
        tenant: TenantNo,
        id: ChangeRequestId,
    ) -> Option<&ChangeRequest> {
        self.change_requests.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn customer(&self, tenant: TenantNo, id: CustomerId) -> Option<&CustomerFile> {
        self.customers.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn operation(&self, tenant: TenantNo, id: OperationId) -> Option<&Operation> {
        self.operations.get(&(tenant, id)).expect(LOADED).as_ref()
    }

    pub(crate) fn timer(&self, tenant: TenantNo, key: TimerKey) -> Option<&Timer> {
        self.timers.get(&(tenant, key)).expect(LOADED).as_ref()
    }

    pub(crate) fn dispute(&self, tenant: TenantNo, case: &DisputeCase) -> Option<&Dispute> {
        self.disputes.get(&(tenant, case.clone())).expect(LOADED).as_ref()
    }

    pub(crate) fn dispute_count(&self, tenant: TenantNo, payment: PaymentId) -> usize {
        *self.dispute_counts.get(&(tenant, payment)).expect(LOADED)
    }

    pub(crate) fn feature(&self, tenant: TenantNo, key: &str) -> Option<&Feature> {
        self.features.get(&(tenant, key.to_owned())).expect(LOADED).as_ref()
    }

    /// The newest version of an offer.
    pub(crate) fn offer(&self, tenant: TenantNo, key: &str) -> Option<&Offer> {
        self.offers.get(&(tenant, key.to_owned())).expect(LOADED).as_ref()
    }

    /// The offer that newcomers get.
    pub(crate) fn newcomers_offer(&self, tenant: TenantNo) -> Option<&Offer> {
        let key = self.newcomers_offers.get(&tenant).expect(LOADED).as_ref()?;
        self.offer(tenant, key)
    }

    pub(crate) fn catalog_size(&self, tenant: TenantNo) -> CatalogSize {
        *self.catalog_sizes.get(&tenant).expect(LOADED)
    }

    /// A purchase whose payment is here.
    pub(crate) fn purchase(&self, tenant: TenantNo, id: PurchaseId) -> &Purchase {
        self.purchases.get(&(tenant, id)).expect(LOADED)
    }

    pub(crate) fn entitlements(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> Option<&Entitlements> {
        self.entitlements.get(&(tenant, account)).expect(LOADED).as_ref()
    }

    pub(crate) fn account_users(&self, tenant: TenantNo, account: AccountId) -> &BTreeSet<String> {
        self.account_users.get(&(tenant, account)).expect(LOADED)
    }

    /// What an account used of a feature in its newest periods.
    pub(crate) fn usage(
        &self,
        (tenant, account): (TenantNo, AccountId),
        feature: &str,
    ) -> impl Iterator<Item = &Usage> {
        let periods = self.usage.get(&(tenant, account, feature.to_owned())).expect(LOADED);
        periods.values()
    }

    /// What an account used in the periods in which something is reserved, and in others.
    pub(crate) fn reserved_usage(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> impl Iterator<Item = &Usage> {
        assert!(self.reserved_usage.contains(&(tenant, account)), "{LOADED}");
        let first = (tenant, account, String::new());
        let own = self
            .usage
            .range(first..)
            .take_while(move |(key, _)| (key.0, key.1) == (tenant, account));
        own.flat_map(|(_, periods)| periods.values())
    }

    pub(crate) fn usage_event(
        &self,
        tenant: TenantNo,
        account: AccountId,
        key: EventKey,
    ) -> Option<&UsageEvent> {
        self.usage_events.get(&(tenant, account, key)).expect(LOADED).as_ref()
    }

    pub(crate) fn reservation(
        &self,
        tenant: TenantNo,
        account: AccountId,
        id: ReservationId,
    ) -> Option<&Reservation> {
        self.reservations.get(&(tenant, account, id)).expect(LOADED).as_ref()
    }

    /// Makes a command's changes visible to the commands after it in the batch.
    pub fn apply(&mut self, tenant: TenantNo, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Tenant(it) => self.apply_to_tenant(it),
                Change::Access(it) => self.apply_to_access(it),
                Change::Flag(it) => self.apply_to_flags(it),
                Change::Account(it) => self.apply_to_account(tenant, it),
                Change::Customer(it) => self.apply_to_customer(tenant, it),
                Change::Payment(it) => self.apply_to_payment(tenant, it),
                Change::Entitlement(it) => self.apply_to_entitlements(it),
                Change::Claim(ClaimChange::Taken { key, claim }) => {
                    self.claims.insert(key.clone(), Some(*claim));
                }
                Change::Claim(ClaimChange::Released { key }) => {
                    self.claims.insert(key.clone(), None);
                }
                Change::Timer(TimerChange::Set(timer)) => {
                    self.timers.insert((tenant, timer.key), Some(timer.clone()));
                }
                Change::Timer(TimerChange::Cleared(key)) => {
                    self.timers.insert((tenant, *key), None);
                }
                Change::ReplySettled { .. } => {}
            }
        }
    }

    fn apply_to_tenant(&mut self, change: &TenantChange) {
        match change {
            TenantChange::Value(it) => {
                let before =
                    self.tenant_values.insert((it.tenant, it.key.clone()), Some(it.clone()));
                let before = before.flatten().map_or(0, |it| it.counted_bytes());
                if let Some(bytes) = self.tenant_values_bytes.get_mut(&it.tenant) {
                    *bytes = bytes.saturating_sub(before) + it.counted_bytes();
                }
            }
            TenantChange::TagDefinition(it) => {
                self.tag_definitions.insert((it.tenant, it.id), Some(it.clone()));
            }
            TenantChange::PaymentRules(it) => {
                self.changed_payment_rules.insert(it.tenant, it.clone());
            }
            TenantChange::Tenant(it) => {
                self.tenants.insert(it.no, Some(it.clone()));
            }
        }
    }

    fn apply_to_access(&mut self, change: &AccessChange) {
        match change {
            AccessChange::User(it) => {
                self.users.insert(it.username.clone(), Some(it.clone()));
            }
            AccessChange::Role(it) => {
                self.roles.insert(it.name.clone(), Some(it.clone()));
            }
        }
    }

    fn apply_to_flags(&mut self, change: &FlagChange) {
        match change {
            FlagChange::Environment(it) => {
                self.environments.insert((it.tenant, it.id), Some(it.clone()));
            }
            FlagChange::Secret(it) => {
                self.secrets.insert((it.tenant, it.id), Some(it.clone()));
            }
            FlagChange::Definition(it) => {
                self.definitions.insert((it.tenant, it.key.clone()), Some(it.clone()));
            }
            FlagChange::ChangeRequest(it) => {
                self.change_requests.insert((it.tenant, it.id), Some(it.clone()));
            }
        }
    }

    fn apply_to_entitlements(&mut self, change: &EntitlementChange) {
        match change {
            EntitlementChange::Feature(it) => {
                let before = self.features.insert((it.tenant, it.key.clone()), Some(it.clone()));
                if before.flatten().is_none() {
                    self.catalog_sizes.entry(it.tenant).or_default().features += 1;
                }
            }
            EntitlementChange::Offer(it) => {
                if it.version == 1 {
                    self.catalog_sizes.entry(it.tenant).or_default().offers += 1;
                }
                let newcomers = self.newcomers_offers.entry(it.tenant).or_default();
                if it.terms.for_newcomers {
                    *newcomers = Some(it.key.clone());
                } else if newcomers.as_ref() == Some(&it.key) {
                    *newcomers = None;
                }
                self.offers.insert((it.tenant, it.key.clone()), Some(it.clone()));
            }
            EntitlementChange::Purchase(it) => {
                self.purchases.insert((it.tenant, it.id), (**it).clone());
            }
            EntitlementChange::Entitlements(it) => {
                self.entitlements.insert((it.tenant, it.account_id), Some((**it).clone()));
            }
            EntitlementChange::Users(it) => {
                let known = self.account_users.entry((it.tenant, it.account)).or_default();
                for user in &it.unmapped {
                    known.remove(user);
                }
                known.extend(it.mapped.iter().cloned());
            }
            EntitlementChange::Usage(it) => {
                let key = (it.tenant, it.account_id, it.feature.clone());
                self.usage.entry(key).or_default().insert(it.period, (**it).clone());
            }
            EntitlementChange::UsageEvent(it) => {
                let key = (it.tenant, it.account_id, it.key);
                self.usage_events.insert(key, Some((**it).clone()));
            }
            EntitlementChange::Reservation(it) => {
                let key = (it.tenant, it.account_id, it.id);
                self.reservations.insert(key, Some((**it).clone()));
            }
        }
    }

    fn apply_to_account(&mut self, tenant: TenantNo, change: &AccountChange) {
        match change {
            AccountChange::Account(it) => {
                self.accounts.insert((it.tenant, it.id), Some(it.clone()));
            }
            AccountChange::Person { account, person } => {
                self.people.insert((tenant, *account), (**person).clone());
            }
            AccountChange::PersonErased { account } => {
                self.people.remove(&(tenant, *account));
                let methods = self.payment_methods.values_mut().flatten();
                methods
                    .filter(|it| (it.tenant, it.account_id) == (tenant, *account))
                    .for_each(PaymentMethod::erase);
                let attempts = self.payment_attempts.values_mut().flatten();
                attempts
                    .filter(|it| (it.tenant, it.account_id) == (tenant, *account))
                    .for_each(PaymentAttempt::erase);
                self.account_emails.entry((tenant, *account)).and_modify(BTreeMap::clear);
                for ((of, _), fields) in &mut self.custom_fields {
                    fields.retain(|_, it| (*of, it.account) != (tenant, *account));
                }
            }
            AccountChange::Tag(it) => {
                self.tags.insert((it.tenant, it.key), Some(it.clone()));
                if let DefinitionRef::Own(id) = it.key.definition
                    && let Some(is_used) = self.tag_definition_uses.get_mut(&(it.tenant, id))
                {
                    *is_used |= it.active;
                }
            }
            AccountChange::Email(it) => {
                let of_account = self.account_emails.entry((it.tenant, it.account)).or_default();
                of_account.remove(&it.id);
                if it.active {
                    of_account.insert(it.id, it.clone());
                }
            }
            AccountChange::BlockingState(it) => self.apply_blocking_state(it),
            AccountChange::CustomField(it) => {
                let of_object = self.custom_fields.entry((it.tenant, it.object)).or_default();
                of_object.remove(&it.id);
                if it.active {
                    of_object.insert(it.id, it.clone());
                }
            }
            AccountChange::PaymentMethod(it) => {
                self.payment_methods.insert((it.tenant, it.id), Some(it.clone()));
                for lists in [&mut self.methods_to_choose, &mut self.methods_listed] {
                    lists.entry((it.tenant, it.account_id)).and_modify(|ids| {
                        ids.insert(it.id);
                    });
                }
            }
            // No rule looks at it.
            AccountChange::AuditImported(_) => {}
        }
    }

    fn apply_blocking_state(&mut self, it: &BlockingState) {
        let key = (it.tenant, it.account);
        match it.closes().filter(|_| it.active) {
            Some(true) => drop(self.closed_accounts.insert(key)),
            Some(false) => drop(self.closed_accounts.remove(&key)),
            None => {}
        }
        let of_account = self.blocking_states.entry(key).or_default();
        of_account.remove(&it.id);
        if it.active {
            of_account.insert(it.id, it.clone());
        }
    }

    fn apply_to_customer(&mut self, tenant: TenantNo, change: &CustomerChange) {
        match change {
            CustomerChange::Customer(it) => self.apply_customer(it),
            CustomerChange::Session(it) => self.apply_session(it),
            CustomerChange::SessionEnded { session, customer } => {
                if let Some(Some(file)) = self.customers.get_mut(&(tenant, *customer)) {
                    file.sessions.retain(|own| own.id != *session);
                }
            }
            CustomerChange::Operation(it) => {
                self.operations.insert((it.tenant, it.id), Some(it.clone()));
            }
            CustomerChange::Mail(_) | CustomerChange::MailsErased { .. } => {}
        }
    }

    fn apply_to_payment(&mut self, tenant: TenantNo, change: &PaymentChange) {
        match change {
            PaymentChange::Payment(it) => self.apply_payment(it),
            PaymentChange::Transaction(it) => self.apply_transaction(it),
            PaymentChange::Attempt(it) => self.apply_attempt(it),
            PaymentChange::Velocity(it) => {
                self.payment_velocities.insert((it.tenant, it.account_id), Some(it.clone()));
            }
            PaymentChange::Outstanding(it) => {
                self.outstanding.insert((it.tenant, it.transaction_id), it.clone());
            }
            PaymentChange::OutstandingClosed { transaction } => {
                self.outstanding.remove(&(tenant, *transaction));
            }
            PaymentChange::Dispute(it) => {
                let key = (it.tenant, it.case.clone());
                let before = self.disputes.insert(key, Some((**it).clone())).flatten();
                if before.is_none()
                    && let Some(count) = self.dispute_counts.get_mut(&(it.tenant, it.payment_id))
                {
                    *count += 1;
                }
            }
            PaymentChange::Posting(_) => {}
        }
    }

    fn apply_attempt(&mut self, attempt: &PaymentAttempt) {
        let key = (attempt.tenant, attempt.account_id);
        if let Some(scheduled) = self.scheduled_attempts.get_mut(&key) {
            scheduled.retain(|it| it.id != attempt.id);
            if attempt.state == AttemptState::Scheduled {
                scheduled.push(attempt.clone());
                scheduled.sort_by_key(|it| it.due_at);
            }
        }
        let Some((payment, _)) = attempt.payment_id.zip(attempt.transaction_id) else { return };
        let of_payment = self.payment_attempts.entry((attempt.tenant, payment)).or_default();
        match of_payment.iter_mut().find(|it| it.id == attempt.id) {
            Some(known) => *known = attempt.clone(),
            None => of_payment.push(attempt.clone()),
        }
    }

    fn apply_customer(&mut self, customer: &Customer) {
        let slot = self.customers.entry((customer.tenant, customer.id)).or_default();
        match slot {
            Some(file) => file.customer = customer.clone(),
            None => *slot = Some(CustomerFile { customer: customer.clone(), sessions: vec![] }),
        }
    }

    fn apply_session(&mut self, session: &Session) {
        let key = (session.tenant, session.customer);
        let slot = self.customers.get_mut(&key).and_then(Option::as_mut);
        let file = slot.expect("a session is changed with its customer");
        match file.sessions.iter_mut().find(|own| own.id == session.id) {
            Some(known) => *known = session.clone(),
            None => file.sessions.push(session.clone()),
        }
    }

    fn apply_payment(&mut self, payment: &Payment) {
        let slot = self.payments.entry((payment.tenant, payment.id)).or_default();
        match slot {
            Some(file) => file.payment = payment.clone(),
            None => *slot = Some(PaymentFile { payment: payment.clone(), transactions: vec![] }),
        }
    }

    fn apply_transaction(&mut self, transaction: &Transaction) {
        let key = (transaction.tenant, transaction.payment_id);
        let slot = self.payments.get_mut(&key).and_then(Option::as_mut);
        let file = slot.expect("a transaction is changed with its payment");
        match file.transactions.iter_mut().find(|it| it.id == transaction.id) {
            Some(known) => *known = transaction.clone(),
            None => file.transactions.push(transaction.clone()),
        }
    }
}
