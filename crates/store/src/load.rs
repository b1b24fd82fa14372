//! Loads what a batch of commands may look at: each row with what belongs to it.

mod control;
mod customers;
pub(crate) mod entitlements;
pub(crate) mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::LazyLock;

use domain::claim::{Claim, ClaimKey, ClaimKind};
use domain::definition::DefinitionKey;
use domain::dispute::DisputeCase;
use domain::object::Object;
use domain::payment::{PaymentFile, ReplyKey, Transaction};
use domain::read::Read;
use domain::state::State;
use domain::tag::TagKey;
use domain::timer::TimerKey;
use domain::{
    AccountId, ChangeRequestId, CustomerId, EnvironmentId, Id, OperationId, PaymentId,
    PaymentMethodId, SecretId, Seq, TagDefinitionId, TenantNo, TransactionId,
};
use engine::ports::{StoreError, StoredReply};

use self::control::ControlPlan;
use self::entitlements::EntitlementPlan;
use crate::claims::RecentClaims;
use crate::driver::{Reader, Value};
use crate::recent::{AccountEntry, Cache, PaymentEntry, Recent};
use crate::rows;
use crate::stored;
use crate::tables::{
    ACCOUNT, ACCOUNT_EMAIL, ACCOUNT_PERSON, BLOCKING_STATE, CLOSING, CUSTOM_FIELD, OUTSTANDING,
    PAYMENT, PAYMENT_METHOD, PAYMENT_TRANSACTION, REPLY, Table,
};

pub(super) const BY_ID: &str = "WHERE tenant = ?1 AND id = ?2";

/// The further addresses that an account has.
pub(crate) const EMAILS_OF_ACCOUNT: &str = "WHERE tenant = ?1 AND account_id = ?2 AND active = 1 \
     AND email IS NOT NULL ORDER BY created_at_us, id";

/// The active blocking states of an account.
pub(crate) const STATES_OF_ACCOUNT: &str =
    "WHERE tenant = ?1 AND account_id = ?2 AND active = 1 ORDER BY effective_at_us, ordinal";

/// The custom fields that an object has.
pub(crate) const FIELDS_OF_OBJECT: &str = "WHERE tenant = ?1 AND object_type = ?2 AND object_id = ?3 \
     AND active = 1 AND value IS NOT NULL";

static SELECT_ACCOUNT: LazyLock<String> = LazyLock::new(|| ACCOUNT.select(BY_ID));
static SELECT_PERSON: LazyLock<String> = LazyLock::new(|| {
    ACCOUNT_PERSON.select("WHERE tenant = ?1 AND account_id = ?2 ORDER BY seq DESC LIMIT 1")
});
static SELECT_METHOD: LazyLock<String> = LazyLock::new(|| PAYMENT_METHOD.select(BY_ID));
static SELECT_EMAILS: LazyLock<String> = LazyLock::new(|| ACCOUNT_EMAIL.select(EMAILS_OF_ACCOUNT));
static SELECT_STATES: LazyLock<String> = LazyLock::new(|| BLOCKING_STATE.select(STATES_OF_ACCOUNT));
static SELECT_CLOSING: LazyLock<String> = LazyLock::new(|| {
    let newest = "ORDER BY ordinal DESC LIMIT 1";
    let of_account = format!("WHERE tenant = ?1 AND account_id = ?2 AND {CLOSING} {newest}");
    BLOCKING_STATE.select(&of_account)
});
static SELECT_CUSTOM_FIELDS: LazyLock<String> =
    LazyLock::new(|| CUSTOM_FIELD.select(FIELDS_OF_OBJECT));
static SELECT_PAYMENT: LazyLock<String> = LazyLock::new(|| PAYMENT.select(BY_ID));
static SELECT_TRANSACTIONS: LazyLock<String> =
    LazyLock::new(|| PAYMENT_TRANSACTION.select("WHERE tenant = ?1 AND payment_id = ?2"));
static SELECT_OUTSTANDING: LazyLock<String> =
    // By the payment's index alone: a tenant has too many.
    LazyLock::new(|| OUTSTANDING.select("WHERE payment_id = ?2 AND tenant + 0 = ?1"));
static SELECT_TRANSACTION: LazyLock<String> = LazyLock::new(|| PAYMENT_TRANSACTION.select(BY_ID));
const VALUES_BYTES: &str = "SELECT COALESCE(CAST(sum(counted_bytes) AS BIGINT), 0) \
    FROM tenant_value WHERE tenant = ?1 AND value IS NOT NULL";
static SELECT_REPLY: LazyLock<String> = LazyLock::new(|| REPLY.select("WHERE key = ?1"));

/// The rows, each with what belongs to it; those that are not there as `None`.
pub(crate) fn state(
    reader: &Reader,
    reads: &BTreeSet<Read>,
    recent: &mut Recent,
    claims: &RecentClaims,
) -> Result<State, StoreError> {
    let mut plan = ReadPlan::default();
    let mut state = State::default();
    for read in reads {
        plan.add(read);
    }
    load_claims(reader, &mut plan, &mut state, claims)?;
    find_transactions(reader, &mut plan, &mut state)?;
    load_payments(reader, &mut plan, &mut state, recent)?;
    let routed_by = (&mut plan.tags, &mut plan.custom_fields);
    plan.control.load_rules(reader, &mut plan.methods, routed_by, &mut state)?;
    plan.entitlements.load_offers(reader, &mut plan.tags, &mut state)?;
    load_methods(reader, &plan.methods, &mut state, recent)?;
    plan.accounts.extend(
        state.account.payment_methods.iter().map(|method| (method.tenant, method.account_id)),
    );
    load_accounts(reader, &plan.accounts, &mut state, recent)?;
    let defaults: BTreeSet<(TenantNo, PaymentMethodId)> = state
        .account
        .accounts
        .iter()
        .filter_map(|account| Some((account.tenant, account.payment_method_id?)))
        .filter(|key| !state.account.payment_methods.knows(key))
        .collect();
    // They belong to accounts that are loaded already.
    load_methods(reader, &defaults, &mut state, recent)?;
    load_tags(reader, &plan, &mut state)?;
    load_parts(reader, &plan, &mut state)?;
    customers::load(reader, &plan.customers, &mut state)?;
    count_disputes(reader, &plan.disputed, &mut state)?;
    std::mem::take(&mut plan.control).load(reader, &mut state)?;
    std::mem::take(&mut plan.entitlements).load(reader, &mut state)?;
    load_named(reader, plan, &mut state)?;
    Ok(state)
}

/// The stored replies that exist.
pub(crate) fn replies(
    reader: &Reader,
    keys: &BTreeSet<ReplyKey>,
) -> Result<BTreeMap<ReplyKey, StoredReply>, StoreError> {
    let mut found = BTreeMap::new();
    let values: Vec<[Value<'_>; 1]> = keys.iter().map(|key| [(*key).into()]).collect();
    reader.for_keys(&SELECT_REPLY, &values, |_, cells| {
        let reply = rows::reply(cells)?;
        found.insert(reply.key, reply);
        Ok(())
    })?;
    Ok(found)
}

#[derive(Default)]
struct ReadPlan<'a> {
    accounts: BTreeSet<(TenantNo, AccountId)>,
    methods: BTreeSet<(TenantNo, PaymentMethodId)>,
    payments: BTreeSet<(TenantNo, PaymentId)>,
    transactions: Vec<(TenantNo, TransactionId)>,
    /// Accounts whose further addresses are wanted.
    emails: Vec<(TenantNo, AccountId)>,
    /// Accounts whose blocking states are wanted.
    states: Vec<(TenantNo, AccountId)>,
    tags: Vec<(TenantNo, TagKey)>,
    tag_definitions: Vec<(TenantNo, TagDefinitionId)>,
    tag_definition_uses: Vec<(TenantNo, TagDefinitionId)>,
    custom_fields: Vec<(TenantNo, Object)>,
    claims: Vec<&'a ClaimKey>,
    tenants: Vec<TenantNo>,
    values: Vec<(TenantNo, String)>,
    /// Tenants whose values are counted.
    values_bytes: Vec<TenantNo>,
    users: Vec<String>,
    roles: Vec<String>,
    environments: Vec<(TenantNo, EnvironmentId)>,
    secrets: Vec<(TenantNo, SecretId)>,
    definitions: Vec<(TenantNo, DefinitionKey)>,
    change_requests: Vec<(TenantNo, ChangeRequestId)>,
    customers: Vec<(TenantNo, CustomerId)>,
    operations: Vec<(TenantNo, OperationId)>,
    control: ControlPlan,
    entitlements: EntitlementPlan,
    timers: Vec<(TenantNo, TimerKey)>,
    disputes: Vec<(TenantNo, DisputeCase)>,
    /// Payments whose disputes are counted.
    disputed: Vec<(TenantNo, PaymentId)>,
}

impl<'a> ReadPlan<'a> {
    fn add(&mut self, read: &'a Read) {
        match read {
            Read::Account(tenant, id) => drop(self.accounts.insert((*tenant, *id))),
            Read::AccountEmails(tenant, id) => self.emails.push((*tenant, *id)),
            Read::BlockingStates(tenant, id) => self.states.push((*tenant, *id)),
            Read::PaymentMethod(tenant, id) => drop(self.methods.insert((*tenant, *id))),
            Read::PaymentMethods(tenant, id) => self.control.add_methods(*tenant, *id),
            Read::Payment(tenant, id) => drop(self.payments.insert((*tenant, *id))),
            Read::Transaction(tenant, id) => self.transactions.push((*tenant, *id)),
            Read::Tag(tenant, key) => self.tags.push((*tenant, *key)),
            Read::TagDefinition(tenant, id) => self.tag_definitions.push((*tenant, *id)),
            Read::TagDefinitionUse(tenant, id) => self.tag_definition_uses.push((*tenant, *id)),
            Read::CustomFields(tenant, object) => self.custom_fields.push((*tenant, *object)),
            Read::PaymentAttempts(tenant, id) => self.control.add_attempts(*tenant, *id),
            Read::ScheduledAttempts(tenant, id) => self.control.add_scheduled(*tenant, *id),
            Read::PaymentVelocity(tenant, id) => self.control.add_velocity(*tenant, *id),
            Read::PaymentRules(tenant) => self.control.add_rules(*tenant),
            Read::RulesForPayment(tenant, id) => self.control.add_start(*tenant, *id),
            Read::Claim(key) => self.claims.push(key),
            Read::Tenant(no) => self.tenants.push(*no),
            Read::TenantValue(tenant, key) => self.values.push((*tenant, key.clone())),
            Read::TenantValuesBytes(tenant) => self.values_bytes.push(*tenant),
            Read::User(username) => self.users.push(username.clone()),
            Read::Role(name) => self.roles.push(name.clone()),
            Read::Environment(tenant, id) => self.environments.push((*tenant, *id)),
            Read::Secret(tenant, id) => self.secrets.push((*tenant, *id)),
            Read::Definition(tenant, key) => self.definitions.push((*tenant, key.clone())),
            Read::ChangeRequest(tenant, id) => self.change_requests.push((*tenant, *id)),
            Read::Customer(tenant, id) => self.customers.push((*tenant, *id)),
            Read::Operation(tenant, id) => self.operations.push((*tenant, *id)),
            Read::Timer(tenant, key) => self.timers.push((*tenant, *key)),
            Read::Dispute(tenant, case) => self.disputes.push((*tenant, case.clone())),
            Read::DisputeCount(tenant, payment) => self.disputed.push((*tenant, *payment)),
            Read::Feature(tenant, key) => self.entitlements.add_feature(*tenant, key),
            Read::Offer(tenant, key) => self.entitlements.add_offer(*tenant, key),
            Read::OfferForAccount(tenant, key, account) => {
                self.entitlements.add_bought(*tenant, key, *account);
            }
            Read::NewcomersOffer(tenant) => self.entitlements.add_newcomers(*tenant),
            Read::CatalogSize(tenant) => self.entitlements.add_size(*tenant),
            Read::Entitlements(tenant, account) => {
                self.entitlements.accounts.insert((*tenant, *account));
            }
            Read::AccountUsers(tenant, id) => self.entitlements.users.push((*tenant, *id)),
            Read::Usage(read) => self.entitlements.usage.add(read),
        }
    }

    fn add_owner(&mut self, key: &ClaimKey, claim: &Claim) {
        let (tenant, owner) = (key.tenant, claim.owner);
        match key.kind {
            ClaimKind::Account => drop(self.accounts.insert((tenant, AccountId::new(owner)))),
            ClaimKind::PaymentMethod => {
                self.methods.insert((tenant, PaymentMethodId::new(owner)));
            }
            ClaimKind::Payment | ClaimKind::Transaction => {
                self.payments.insert((tenant, PaymentId::new(owner)));
            }
            ClaimKind::TenantApiKey
            | ClaimKind::TenantId
            | ClaimKind::Environment
            | ClaimKind::CustomerEmail
            | ClaimKind::TagDefinition
            | ClaimKind::ImportedId
            | ClaimKind::Dispute => {}
        }
    }
}

fn load_claims(
    reader: &Reader,
    plan: &mut ReadPlan<'_>,
    state: &mut State,
    claims: &RecentClaims,
) -> Result<(), StoreError> {
    let keys = std::mem::take(&mut plan.claims);
    let found = claims.find_known(reader, &keys)?;
    for (key, claim) in keys.into_iter().zip(found) {
        if let Some(claim) = &claim {
            plan.add_owner(key, claim);
        }
        state.claims.insert(key.clone(), claim);
    }
    Ok(())
}

/// The payments of transactions that are looked for by id.
fn find_transactions(
    reader: &Reader,
    plan: &mut ReadPlan<'_>,
    state: &mut State,
) -> Result<(), StoreError> {
    let keys = std::mem::take(&mut plan.transactions);
    state.payment.transactions.extend(keys.iter().map(|key| (*key, None)));
    reader.for_keys(&SELECT_TRANSACTION, &values(&keys), |_, cells| {
        let it = rows::transaction(cells)?;
        plan.payments.insert((it.tenant, it.payment_id));
        state.payment.transactions.insert((it.tenant, it.id), Some(it.payment_id));
        Ok(())
    })
}

fn load_payments(
    reader: &Reader,
    plan: &mut ReadPlan<'_>,
    state: &mut State,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let (mut found, unknown) = split(&plan.payments, &mut recent.payments);
    for (key, entry) in read_payments(reader, &unknown)? {
        recent.payment_read(key, &entry);
        found.insert(key, entry);
    }
    for &key in &plan.payments {
        let tenant = key.0;
        let found = found.remove(&key);
        let file = found.map(|PaymentEntry { file, outstanding }| {
            plan.accounts.insert((tenant, file.payment.account_id));
            plan.methods.insert((tenant, file.payment.payment_method_id));
            let methods = file.transactions.iter().map(|it| (tenant, it.payment_method_id));
            plan.methods.extend(methods);
            if let Some(purchase) = file.payment.purchase {
                plan.entitlements.purchases.insert((tenant, purchase));
                plan.entitlements.accounts.insert((tenant, file.payment.account_id));
            }
            let waited_for = outstanding.into_iter().map(|it| ((tenant, it.transaction_id), it));
            state.payment.outstanding.extend(waited_for);
            file
        });
        state.payment.payments.set(key, file);
    }
    Ok(())
}

/// Those payments that exist, each with what belongs to it.
fn read_payments(
    reader: &Reader,
    keys: &[(TenantNo, PaymentId)],
) -> Result<BTreeMap<(TenantNo, PaymentId), PaymentEntry>, StoreError> {
    let mut found = BTreeMap::new();
    reader.for_keys(&SELECT_PAYMENT, &values(keys), |at, cells| {
        let file = PaymentFile { payment: rows::payment(cells)?, transactions: vec![] };
        found.insert(keys[at], PaymentEntry { file, outstanding: vec![] });
        Ok(())
    })?;
    let keys: Vec<(TenantNo, PaymentId)> = found.keys().copied().collect();
    let mut opened: Vec<Vec<(Seq, Transaction)>> = vec![vec![]; keys.len()];
    reader.for_keys(&SELECT_TRANSACTIONS, &values(&keys), |at, cells| {
        opened[at].push(rows::opened_transaction(cells)?);
        Ok(())
    })?;
    for (entry, mut opened) in found.values_mut().zip(opened) {
        if opened.is_empty() {
            return Err(corrupt(&PAYMENT, "a payment has no transactions"));
        }
        opened.sort_by_key(|(opened_seq, it)| (*opened_seq, it.effective_at));
        entry.file.transactions = opened.into_iter().map(|(_, transaction)| transaction).collect();
    }
    reader.for_keys(&SELECT_OUTSTANDING, &values(&keys), |at, cells| {
        if let Some(entry) = found.get_mut(&keys[at]) {
            entry.outstanding.push(rows::outstanding(cells)?);
        }
        Ok(())
    })?;
    Ok(found)
}

fn load_methods(
    reader: &Reader,
    keys: &BTreeSet<(TenantNo, PaymentMethodId)>,
    state: &mut State,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let (mut found, unknown) = split(keys, &mut recent.methods);
    reader.for_keys(&SELECT_METHOD, &values(&unknown), |at, cells| {
        let method = rows::payment_method(cells)?;
        recent.method_read(&method);
        found.insert(unknown[at], method);
        Ok(())
    })?;
    for &key in keys {
        state.account.payment_methods.set(key, found.remove(&key));
    }
    Ok(())
}

fn load_accounts(
    reader: &Reader,
    keys: &BTreeSet<(TenantNo, AccountId)>,
    state: &mut State,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let (mut found, unknown) = split(keys, &mut recent.accounts);
    for (key, entry) in read_accounts(reader, &unknown)? {
        recent.account_read(key, &entry);
        found.insert(key, entry);
    }
    for &key in keys {
        let account = found.remove(&key).map(|AccountEntry { account, person, is_closed }| {
            state.account.people.extend(person.map(|person| (key, person)));
            state.account.closed.extend(is_closed.then_some(key));
            account
        });
        state.account.accounts.set(key, account);
    }
    Ok(())
}

/// The held values of some keys, and the keys that have none.
fn split<K: Copy + Ord + Hash, V: Clone>(
    keys: &BTreeSet<K>,
    held: &mut Cache<K, V>,
) -> (BTreeMap<K, V>, Vec<K>) {
    let (mut found, mut unknown) = (BTreeMap::new(), vec![]);
    for &key in keys {
        match held.get(key) {
            Some(it) => drop(found.insert(key, it.clone())),
            None => unknown.push(key),
        }
    }
    (found, unknown)
}

/// Those accounts that exist, each with what is known of the person and whether it is closed.
fn read_accounts(
    reader: &Reader,
    keys: &[(TenantNo, AccountId)],
) -> Result<BTreeMap<(TenantNo, AccountId), AccountEntry>, StoreError> {
    let mut found = BTreeMap::new();
    reader.for_keys(&SELECT_ACCOUNT, &values(keys), |at, cells| {
        let account = rows::account(cells)?;
        found.insert(keys[at], AccountEntry { account, person: None, is_closed: false });
        Ok(())
    })?;
    let keys: Vec<(TenantNo, AccountId)> = found.keys().copied().collect();
    reader.for_keys(&SELECT_PERSON, &values(&keys), |at, cells| {
        let (.., person) = rows::person(cells)?;
        if let Some(entry) = found.get_mut(&keys[at]) {
            entry.person = Some(person);
        }
        Ok(())
    })?;
    reader.for_keys(&SELECT_CLOSING, &values(&keys), |at, cells| {
        let newest = rows::blocking_state(cells)?;
        if let Some(entry) = found.get_mut(&keys[at]) {
            entry.is_closed = newest.closes() == Some(true);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Ids of a tenant's, as the parameters of a query.
fn values<K>(keys: &[(TenantNo, Id<K>)]) -> Vec<[Value<'static>; 2]> {
    keys.iter().map(|(tenant, id)| [(*tenant).into(), (*id).into()]).collect()
}

/// Tags are seldom changed, and never asked for by payments.
fn load_tags(reader: &Reader, plan: &ReadPlan<'_>, state: &mut State) -> Result<(), StoreError> {
    stored::TAGS.load(reader, plan.tags.iter().copied(), &mut state.account.tags)?;
    let definitions = plan.tag_definitions.iter().copied();
    stored::TAG_DEFINITIONS.load(reader, definitions, &mut state.tenant.tag_definitions)?;
    for &(tenant, id) in &plan.tag_definition_uses {
        let sql = "SELECT 1 FROM object_tag WHERE tenant = ?1 AND definition_id = ?2 \
                   AND active = 1 LIMIT 1";
        let used = reader.query_one(sql, &[tenant.into(), id.into()], |cells| cells.int())?;
        state.account.tag_definition_uses.insert((tenant, id), used.is_some());
    }
    Ok(())
}

fn count_disputes(
    reader: &Reader,
    payments: &[(TenantNo, PaymentId)],
    state: &mut State,
) -> Result<(), StoreError> {
    for &(tenant, payment) in payments {
        let sql = "SELECT count(*) FROM dispute WHERE payment_id = ?2 AND tenant + 0 = ?1";
        let count = reader.query_one(sql, &[tenant.into(), payment.into()], |cells| cells.int())?;
        let count = usize::try_from(count.unwrap_or_default()).unwrap_or(usize::MAX);
        state.payment.dispute_counts.insert((tenant, payment), count);
    }
    Ok(())
}

/// Custom fields, further addresses and blocking states: as seldom changed as tags, and never asked for by
/// payments.
fn load_parts(reader: &Reader, plan: &ReadPlan<'_>, state: &mut State) -> Result<(), StoreError> {
    for &(tenant, account) in &plan.emails {
        let key = [tenant.into(), account.into()];
        state.account.emails.look_for((tenant, account));
        let emails = reader.query(&SELECT_EMAILS, &key, rows::account_email)?;
        emails.into_iter().for_each(|it| state.account.emails.put(it));
    }
    for &(tenant, account) in &plan.states {
        let key = [tenant.into(), account.into()];
        state.account.blocking_states.look_for((tenant, account));
        let states = reader.query(&SELECT_STATES, &key, rows::blocking_state)?;
        states.into_iter().for_each(|it| state.account.blocking_states.put(it));
    }
    for &(tenant, object) in &plan.custom_fields {
        let key = rows::object_key(tenant, object);
        state.account.custom_fields.look_for((tenant, object));
        let fields = reader.query(&SELECT_CUSTOM_FIELDS, &key, rows::custom_field)?;
        fields.into_iter().for_each(|it| state.account.custom_fields.put(it));
    }
    Ok(())
}

fn load_named(reader: &Reader, plan: ReadPlan<'_>, state: &mut State) -> Result<(), StoreError> {
    let tenants = &mut state.tenant;
    stored::TENANTS.load(reader, plan.tenants, &mut tenants.tenants)?;
    stored::TENANT_VALUES.load(reader, plan.values, &mut tenants.values)?;
    for tenant in plan.values_bytes {
        let counted = reader.query_one(VALUES_BYTES, &[tenant.into()], |cells| cells.length())?;
        tenants.values_bytes.insert(tenant, counted.unwrap_or_default());
    }
    stored::USERS.load(reader, plan.users, &mut state.access.users)?;
    stored::ROLES.load(reader, plan.roles, &mut state.access.roles)?;
    stored::ENVIRONMENTS.load(reader, plan.environments, &mut state.flag.environments)?;
    stored::SECRETS.load(reader, plan.secrets, &mut state.flag.secrets)?;
    stored::DEFINITIONS.load(reader, plan.definitions, &mut state.flag.definitions)?;
    let requests = &mut state.flag.change_requests;
    stored::CHANGE_REQUESTS.load(reader, plan.change_requests, requests)?;
    stored::OPERATIONS.load(reader, plan.operations, &mut state.customer.operations)?;
    stored::TIMERS.load(reader, plan.timers, &mut state.timers)?;
    stored::DISPUTES.load(reader, plan.disputes, &mut state.payment.disputes)
}

fn corrupt(table: &Table, reason: &str) -> StoreError {
    StoreError::Corrupt { table: table.name, reason: reason.to_owned() }
}
