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

use self::control::WantedControl;
use self::entitlements::WantedEntitlements;
use crate::claims::RecentClaims;
use crate::codes::timer_kind_code;
use crate::driver::{Reader, Value};
use crate::recent::{AccountEntry, Cache, PaymentEntry, Recent};
use crate::rows;
use crate::tables::{
    ACCOUNT, ACCOUNT_EMAIL, ACCOUNT_PERSON, APP_USER, BLOCKING_STATE, CHANGE_REQUEST, CLOSING,
    CUSTOM_FIELD, DEFINITION, DISPUTE, ENVIRONMENT, ENVIRONMENT_SECRET, OUTSTANDING, PAYMENT,
    PAYMENT_METHOD, PAYMENT_TRANSACTION, REPLY, ROLE, TAG, TAG_DEFINITION, TENANT, TENANT_VALUE,
    TIMER, Table,
};

pub(super) const BY_ID: &str = "WHERE tenant = ?1 AND id = ?2";

/// A definition by its key.
pub(crate) const BY_KEY: &str =
    "WHERE tenant = ?1 AND environment_id = ?2 AND kind = ?3 AND key = ?4";

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
static SELECT_TAG: LazyLock<String> =
    LazyLock::new(|| TAG.select("WHERE tenant = ?1 AND object_id = ?2 AND definition_id = ?3"));
static SELECT_TAG_DEFINITION: LazyLock<String> = LazyLock::new(|| TAG_DEFINITION.select(BY_ID));
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
static SELECT_TENANT: LazyLock<String> = LazyLock::new(|| TENANT.select("WHERE no = ?1"));
static SELECT_VALUE: LazyLock<String> =
    LazyLock::new(|| TENANT_VALUE.select("WHERE tenant = ?1 AND name = ?2"));
const VALUES_BYTES: &str = "SELECT COALESCE(CAST(sum(counted_bytes) AS BIGINT), 0) \
    FROM tenant_value WHERE tenant = ?1 AND value IS NOT NULL";
static SELECT_USER: LazyLock<String> = LazyLock::new(|| APP_USER.select("WHERE username = ?1"));
static SELECT_ROLE: LazyLock<String> = LazyLock::new(|| ROLE.select("WHERE name = ?1"));
static SELECT_ENVIRONMENT: LazyLock<String> = LazyLock::new(|| ENVIRONMENT.select(BY_ID));
static SELECT_SECRET: LazyLock<String> = LazyLock::new(|| ENVIRONMENT_SECRET.select(BY_ID));
static SELECT_DEFINITION: LazyLock<String> = LazyLock::new(|| DEFINITION.select(BY_KEY));
static SELECT_CHANGE_REQUEST: LazyLock<String> = LazyLock::new(|| CHANGE_REQUEST.select(BY_ID));
static SELECT_TIMER: LazyLock<String> =
    LazyLock::new(|| TIMER.select("WHERE tenant = ?1 AND kind = ?2 AND object_id = ?3"));
static SELECT_DISPUTE: LazyLock<String> =
    LazyLock::new(|| DISPUTE.select("WHERE tenant = ?1 AND gateway = ?2 AND case_id = ?3"));
static SELECT_REPLY: LazyLock<String> = LazyLock::new(|| REPLY.select("WHERE key = ?1"));

/// The rows, each with what belongs to it; those that are not there as `None`.
pub(crate) fn state(
    reader: &Reader,
    reads: &BTreeSet<Read>,
    recent: &mut Recent,
    claims: &RecentClaims,
) -> Result<State, StoreError> {
    let mut wanted = Wanted::default();
    let mut state = State::default();
    for read in reads {
        wanted.add(read);
    }
    load_claims(reader, &mut wanted, &mut state, claims)?;
    find_transactions(reader, &mut wanted, &mut state)?;
    load_payments(reader, &mut wanted, &mut state, recent)?;
    let routed_by = (&mut wanted.tags, &mut wanted.custom_fields);
    wanted.control.load_rules(reader, &mut wanted.methods, routed_by, &mut state)?;
    wanted.entitlements.load_offers(reader, &mut wanted.tags, &mut state)?;
    load_methods(reader, &wanted.methods, &mut state, recent)?;
    wanted.accounts.extend(
        state.payment_methods.values().flatten().map(|method| (method.tenant, method.account_id)),
    );
    load_accounts(reader, &wanted.accounts, &mut state, recent)?;
    let defaults: BTreeSet<(TenantNo, PaymentMethodId)> = state
        .accounts
        .values()
        .flatten()
        .filter_map(|account| Some((account.tenant, account.payment_method_id?)))
        .filter(|key| !state.payment_methods.contains_key(key))
        .collect();
    // They belong to accounts that are loaded already.
    load_methods(reader, &defaults, &mut state, recent)?;
    load_tags(reader, &wanted, &mut state)?;
    load_parts(reader, &wanted, &mut state)?;
    load_named(reader, &wanted, &mut state)?;
    load_flags(reader, &wanted, &mut state)?;
    customers::customers(reader, &wanted.customers, &mut state)?;
    customers::operations(reader, &wanted.operations, &mut state)?;
    wanted.control.load(reader, &mut state)?;
    wanted.entitlements.load(reader, &mut state)?;
    load_timers(reader, &wanted.timers, &mut state)?;
    load_disputes(reader, &wanted.disputes, &mut state)?;
    count_disputes(reader, &wanted.disputed, &mut state)?;
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
struct Wanted<'a> {
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
    values: Vec<(TenantNo, &'a str)>,
    /// Tenants whose values are counted.
    values_bytes: Vec<TenantNo>,
    users: Vec<&'a str>,
    roles: Vec<&'a str>,
    environments: Vec<(TenantNo, EnvironmentId)>,
    secrets: Vec<(TenantNo, SecretId)>,
    definitions: Vec<(TenantNo, &'a DefinitionKey)>,
    change_requests: Vec<(TenantNo, ChangeRequestId)>,
    customers: Vec<(TenantNo, CustomerId)>,
    operations: Vec<(TenantNo, OperationId)>,
    control: WantedControl,
    entitlements: WantedEntitlements,
    timers: Vec<(TenantNo, TimerKey)>,
    disputes: Vec<(TenantNo, &'a DisputeCase)>,
    /// Payments whose disputes are counted.
    disputed: Vec<(TenantNo, PaymentId)>,
}

impl<'a> Wanted<'a> {
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
            Read::TenantValue(tenant, key) => self.values.push((*tenant, key)),
            Read::TenantValuesBytes(tenant) => self.values_bytes.push(*tenant),
            Read::User(username) => self.users.push(username),
            Read::Role(name) => self.roles.push(name),
            Read::Environment(tenant, id) => self.environments.push((*tenant, *id)),
            Read::Secret(tenant, id) => self.secrets.push((*tenant, *id)),
            Read::Definition(tenant, key) => self.definitions.push((*tenant, key)),
            Read::ChangeRequest(tenant, id) => self.change_requests.push((*tenant, *id)),
            Read::Customer(tenant, id) => self.customers.push((*tenant, *id)),
            Read::Operation(tenant, id) => self.operations.push((*tenant, *id)),
            Read::Timer(tenant, key) => self.timers.push((*tenant, *key)),
            Read::Dispute(tenant, case) => self.disputes.push((*tenant, case)),
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
    wanted: &mut Wanted<'_>,
    state: &mut State,
    claims: &RecentClaims,
) -> Result<(), StoreError> {
    let keys = std::mem::take(&mut wanted.claims);
    let found = claims.find_known(reader, &keys)?;
    for (key, claim) in keys.into_iter().zip(found) {
        if let Some(claim) = &claim {
            wanted.add_owner(key, claim);
        }
        state.claims.insert(key.clone(), claim);
    }
    Ok(())
}

/// The payments of transactions that are looked for by id.
fn find_transactions(
    reader: &Reader,
    wanted: &mut Wanted<'_>,
    state: &mut State,
) -> Result<(), StoreError> {
    let keys = std::mem::take(&mut wanted.transactions);
    state.transactions.extend(keys.iter().map(|key| (*key, None)));
    reader.for_keys(&SELECT_TRANSACTION, &values(&keys), |_, cells| {
        let it = rows::transaction(cells)?;
        wanted.payments.insert((it.tenant, it.payment_id));
        state.transactions.insert((it.tenant, it.id), Some(it.payment_id));
        Ok(())
    })
}

fn load_payments(
    reader: &Reader,
    wanted: &mut Wanted<'_>,
    state: &mut State,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let (mut found, unknown) = split(&wanted.payments, &mut recent.payments);
    for (key, entry) in read_payments(reader, &unknown)? {
        recent.payment_read(key, &entry);
        found.insert(key, entry);
    }
    for &key in &wanted.payments {
        let tenant = key.0;
        let found = found.remove(&key);
        let file = found.map(|PaymentEntry { file, outstanding }| {
            wanted.accounts.insert((tenant, file.payment.account_id));
            wanted.methods.insert((tenant, file.payment.payment_method_id));
            let methods = file.transactions.iter().map(|it| (tenant, it.payment_method_id));
            wanted.methods.extend(methods);
            if let Some(purchase) = file.payment.purchase {
                wanted.entitlements.purchases.insert((tenant, purchase));
                wanted.entitlements.accounts.insert((tenant, file.payment.account_id));
            }
            let waited_for = outstanding.into_iter().map(|it| ((tenant, it.transaction_id), it));
            state.outstanding.extend(waited_for);
            file
        });
        state.payments.insert(key, file);
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
    state.payment_methods.extend(keys.iter().map(|key| (*key, found.remove(key))));
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
            state.people.extend(person.map(|person| (key, person)));
            state.closed_accounts.extend(is_closed.then_some(key));
            account
        });
        state.accounts.insert(key, account);
    }
    Ok(())
}

/// What is held of some keys, and the keys of which nothing is.
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
fn load_tags(reader: &Reader, wanted: &Wanted<'_>, state: &mut State) -> Result<(), StoreError> {
    state.tags.extend(wanted.tags.iter().map(|key| (*key, None)));
    let keys: Vec<[Value<'_>; 3]> =
        wanted.tags.iter().map(|(tenant, key)| rows::tag_key(*tenant, *key)).collect();
    reader.for_keys(&SELECT_TAG, &keys, |_, cells| {
        let it = rows::tag(cells)?;
        state.tags.insert((it.tenant, it.key), Some(it));
        Ok(())
    })?;
    for &(tenant, id) in &wanted.tag_definitions {
        let key = [tenant.into(), id.into()];
        let found = reader.query_one(&SELECT_TAG_DEFINITION, &key, rows::tag_definition)?;
        state.tag_definitions.insert((tenant, id), found);
    }
    for &(tenant, id) in &wanted.tag_definition_uses {
        let sql = "SELECT 1 FROM object_tag WHERE tenant = ?1 AND definition_id = ?2 \
                   AND active = 1 LIMIT 1";
        let used = reader.query_one(sql, &[tenant.into(), id.into()], |cells| cells.int())?;
        state.tag_definition_uses.insert((tenant, id), used.is_some());
    }
    Ok(())
}

fn load_timers(
    reader: &Reader,
    keys: &[(TenantNo, TimerKey)],
    state: &mut State,
) -> Result<(), StoreError> {
    state.timers.extend(keys.iter().map(|key| (*key, None)));
    let keys: Vec<[Value<'_>; 3]> = keys
        .iter()
        .map(|(tenant, key)| {
            [(*tenant).into(), timer_kind_code(key.kind).into(), key.object.into()]
        })
        .collect();
    reader.for_keys(&SELECT_TIMER, &keys, |_, cells| {
        let it = rows::timer(cells)?;
        state.timers.insert((it.tenant, it.key), Some(it));
        Ok(())
    })
}

fn load_disputes(
    reader: &Reader,
    cases: &[(TenantNo, &DisputeCase)],
    state: &mut State,
) -> Result<(), StoreError> {
    state.disputes.extend(cases.iter().map(|(no, case)| ((*no, (*case).clone()), None)));
    let keys: Vec<[Value<'_>; 3]> = cases
        .iter()
        .map(|(no, case)| [(*no).into(), (&case.gateway).into(), (&case.case).into()])
        .collect();
    reader.for_keys(&SELECT_DISPUTE, &keys, |_, cells| {
        let it = rows::dispute(cells)?;
        state.disputes.insert((it.tenant, it.case.clone()), Some(it));
        Ok(())
    })
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
        state.dispute_counts.insert((tenant, payment), count);
    }
    Ok(())
}

/// Custom fields, further addresses and blocking states: as seldom changed as tags, and never asked for by
/// payments.
fn load_parts(reader: &Reader, wanted: &Wanted<'_>, state: &mut State) -> Result<(), StoreError> {
    for &(tenant, account) in &wanted.emails {
        let key = [tenant.into(), account.into()];
        let emails = reader.query(&SELECT_EMAILS, &key, rows::account_email)?;
        let emails = emails.into_iter().map(|it| (it.id, it)).collect();
        state.account_emails.insert((tenant, account), emails);
    }
    for &(tenant, account) in &wanted.states {
        let key = [tenant.into(), account.into()];
        let states = reader.query(&SELECT_STATES, &key, rows::blocking_state)?;
        let states = states.into_iter().map(|it| (it.id, it)).collect();
        state.blocking_states.insert((tenant, account), states);
    }
    for &(tenant, object) in &wanted.custom_fields {
        let key = rows::object_key(tenant, object);
        let fields = reader.query(&SELECT_CUSTOM_FIELDS, &key, rows::custom_field)?;
        let fields = fields.into_iter().map(|it| (it.id, it)).collect();
        state.custom_fields.insert((tenant, object), fields);
    }
    Ok(())
}

fn load_named(reader: &Reader, wanted: &Wanted<'_>, state: &mut State) -> Result<(), StoreError> {
    for &no in &wanted.tenants {
        let found = reader.query_one(&SELECT_TENANT, &[no.into()], rows::tenant)?;
        state.tenants.insert(no, found);
    }
    for &(tenant, key) in &wanted.values {
        let found =
            reader.query_one(&SELECT_VALUE, &[tenant.into(), key.into()], rows::tenant_value)?;
        state.tenant_values.insert((tenant, key.to_owned()), found);
    }
    for &tenant in &wanted.values_bytes {
        let counted = reader.query_one(VALUES_BYTES, &[tenant.into()], |cells| cells.length())?;
        state.tenant_values_bytes.insert(tenant, counted.unwrap_or_default());
    }
    for &username in &wanted.users {
        let found = reader.query_one(&SELECT_USER, &[username.into()], rows::user)?;
        state.users.insert(username.to_owned(), found);
    }
    for &name in &wanted.roles {
        let found = reader.query_one(&SELECT_ROLE, &[name.into()], rows::role)?;
        state.roles.insert(name.to_owned(), found);
    }
    Ok(())
}

/// Environments, their secrets, what is defined in them and is to change: changed by few, and asked for from memory.
fn load_flags(reader: &Reader, wanted: &Wanted<'_>, state: &mut State) -> Result<(), StoreError> {
    state.environments.extend(wanted.environments.iter().map(|key| (*key, None)));
    reader.for_keys(&SELECT_ENVIRONMENT, &values(&wanted.environments), |_, cells| {
        let it = rows::environment(cells)?;
        state.environments.insert((it.tenant, it.id), Some(it));
        Ok(())
    })?;
    state.secrets.extend(wanted.secrets.iter().map(|key| (*key, None)));
    reader.for_keys(&SELECT_SECRET, &values(&wanted.secrets), |_, cells| {
        let it = rows::secret(cells)?;
        state.secrets.insert((it.tenant, it.id), Some(it));
        Ok(())
    })?;
    let keys: Vec<[Value<'_>; 4]> =
        wanted.definitions.iter().map(|&(tenant, key)| rows::definition_key(tenant, key)).collect();
    let absent = wanted.definitions.iter().map(|&(tenant, key)| ((tenant, key.clone()), None));
    state.definitions.extend(absent);
    reader.for_keys(&SELECT_DEFINITION, &keys, |_, cells| {
        let it = rows::definition(cells)?;
        state.definitions.insert((it.tenant, it.key.clone()), Some(it));
        Ok(())
    })?;
    state.change_requests.extend(wanted.change_requests.iter().map(|key| (*key, None)));
    reader.for_keys(&SELECT_CHANGE_REQUEST, &values(&wanted.change_requests), |_, cells| {
        let it = rows::change_request(cells)?;
        state.change_requests.insert((it.tenant, it.id), Some(it));
        Ok(())
    })
}

fn corrupt(table: &Table, reason: &str) -> StoreError {
    StoreError::Corrupt { table: table.name, reason: reason.to_owned() }
}
