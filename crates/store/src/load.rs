//! Loads what a batch of commands may look at: each row with what belongs to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use domain::payment::{PaymentFile, ReplyKey};
use domain::state::{Claim, ClaimKey, ClaimKind, Read, State};
use domain::{AccountId, PaymentId, PaymentMethodId, TenantNo, TransactionId};
use engine::ports::{StoreError, StoredReply};

use crate::claims::RecentClaims;
use crate::driver::{Load, Reader};
use crate::recent::{AccountEntry, PaymentEntry, Recent};
use crate::rows;
use crate::tables::{
    ACCOUNT, ACCOUNT_PERSON, APP_USER, OUTSTANDING, PAYMENT, PAYMENT_METHOD, PAYMENT_TRANSACTION,
    REPLY, ROLE, TENANT_VALUE, Table,
};

const BY_ID: &str = "WHERE tenant = ?1 AND id = ?2";

static SELECT_ACCOUNT: LazyLock<String> = LazyLock::new(|| ACCOUNT.select(BY_ID));
static SELECT_PERSON: LazyLock<String> = LazyLock::new(|| {
    ACCOUNT_PERSON.select("WHERE tenant = ?1 AND account_id = ?2 ORDER BY seq DESC LIMIT 1")
});
static SELECT_METHOD: LazyLock<String> = LazyLock::new(|| PAYMENT_METHOD.select(BY_ID));
static SELECT_PAYMENT: LazyLock<String> = LazyLock::new(|| PAYMENT.select(BY_ID));
static SELECT_TRANSACTIONS: LazyLock<String> =
    LazyLock::new(|| PAYMENT_TRANSACTION.select("WHERE tenant = ?1 AND payment_id = ?2"));
static SELECT_OUTSTANDING: LazyLock<String> =
    LazyLock::new(|| OUTSTANDING.select("WHERE tenant = ?1 AND payment_id = ?2"));
static SELECT_TRANSACTION: LazyLock<String> = LazyLock::new(|| PAYMENT_TRANSACTION.select(BY_ID));
static SELECT_VALUE: LazyLock<String> =
    LazyLock::new(|| TENANT_VALUE.select("WHERE tenant = ?1 AND name = ?2"));
static SELECT_USER: LazyLock<String> = LazyLock::new(|| APP_USER.select("WHERE username = ?1"));
static SELECT_ROLE: LazyLock<String> = LazyLock::new(|| ROLE.select("WHERE name = ?1"));
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
    load_named(reader, &wanted, &mut state)?;
    Ok(state)
}

/// The stored replies that exist.
pub(crate) fn replies(
    reader: &Reader,
    keys: &BTreeSet<ReplyKey>,
) -> Result<BTreeMap<ReplyKey, StoredReply>, StoreError> {
    let mut found = BTreeMap::new();
    if keys.is_empty() {
        return Ok(found);
    }
    let mut load = reader.load(&SELECT_REPLY)?;
    for key in keys {
        if let Some(reply) = load.first(&[(*key).into()], rows::reply)? {
            found.insert(*key, reply);
        }
    }
    Ok(found)
}

#[derive(Default)]
struct Wanted<'a> {
    accounts: BTreeSet<(TenantNo, AccountId)>,
    methods: BTreeSet<(TenantNo, PaymentMethodId)>,
    payments: BTreeSet<(TenantNo, PaymentId)>,
    transactions: Vec<(TenantNo, TransactionId)>,
    claims: Vec<&'a ClaimKey>,
    values: Vec<(TenantNo, &'a str)>,
    users: Vec<&'a str>,
    roles: Vec<&'a str>,
}

impl<'a> Wanted<'a> {
    fn add(&mut self, read: &'a Read) {
        match read {
            Read::Account(tenant, id) => drop(self.accounts.insert((*tenant, *id))),
            Read::PaymentMethod(tenant, id) => drop(self.methods.insert((*tenant, *id))),
            Read::Payment(tenant, id) => drop(self.payments.insert((*tenant, *id))),
            Read::Transaction(tenant, id) => self.transactions.push((*tenant, *id)),
            Read::Claim(key) => self.claims.push(key),
            Read::TenantValue(tenant, key) => self.values.push((*tenant, key)),
            Read::User(username) => self.users.push(username),
            Read::Role(name) => self.roles.push(name),
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
            ClaimKind::TenantApiKey | ClaimKind::TenantId => {}
        }
    }
}

fn load_claims(
    reader: &Reader,
    wanted: &mut Wanted<'_>,
    state: &mut State,
    claims: &RecentClaims,
) -> Result<(), StoreError> {
    for key in std::mem::take(&mut wanted.claims) {
        let found = claims.seek(key).find_known(reader)?;
        if let Some(claim) = &found {
            wanted.add_owner(key, claim);
        }
        state.claims.insert(key.clone(), found);
    }
    Ok(())
}

/// The payments of transactions that are looked for by id.
fn find_transactions(
    reader: &Reader,
    wanted: &mut Wanted<'_>,
    state: &mut State,
) -> Result<(), StoreError> {
    for (tenant, id) in std::mem::take(&mut wanted.transactions) {
        let key = [tenant.into(), id.into()];
        let found = reader.query_one(&SELECT_TRANSACTION, &key, rows::transaction)?;
        let payment = found.map(|transaction| transaction.payment_id);
        wanted.payments.extend(payment.map(|id| (tenant, id)));
        state.transactions.insert((tenant, id), payment);
    }
    Ok(())
}

fn load_payments(
    reader: &Reader,
    wanted: &mut Wanted<'_>,
    state: &mut State,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let mut queries = None;
    for &(tenant, id) in &wanted.payments {
        let found = match recent.payments.get((tenant, id)) {
            Some(held) => Some(held.clone()),
            None => {
                let queries = match &mut queries {
                    Some(queries) => queries,
                    None => queries.insert(PaymentQueries::prepare(reader)?),
                };
                let read = queries.read(tenant, id)?;
                if let Some(entry) = &read {
                    recent.payments.insert((tenant, id), entry.clone());
                }
                read
            }
        };
        let file = found.map(|PaymentEntry { file, outstanding }| {
            wanted.accounts.insert((tenant, file.payment.account_id));
            wanted.methods.insert((tenant, file.payment.payment_method_id));
            let methods = file.transactions.iter().map(|it| (tenant, it.payment_method_id));
            wanted.methods.extend(methods);
            let waited_for = outstanding.into_iter().map(|it| ((tenant, it.transaction_id), it));
            state.outstanding.extend(waited_for);
            file
        });
        state.payments.insert((tenant, id), file);
    }
    Ok(())
}

/// The three queries that read a payment.
struct PaymentQueries<'c> {
    payments: Load<'c>,
    transactions: Load<'c>,
    outstanding: Load<'c>,
}

impl<'c> PaymentQueries<'c> {
    fn prepare(reader: &'c Reader) -> Result<Self, StoreError> {
        Ok(Self {
            payments: reader.load(&SELECT_PAYMENT)?,
            transactions: reader.load(&SELECT_TRANSACTIONS)?,
            outstanding: reader.load(&SELECT_OUTSTANDING)?,
        })
    }

    fn read(
        &mut self,
        tenant: TenantNo,
        id: PaymentId,
    ) -> Result<Option<PaymentEntry>, StoreError> {
        let key = [tenant.into(), id.into()];
        let Some(payment) = self.payments.first(&key, rows::payment)? else { return Ok(None) };
        let mut opened = Vec::with_capacity(2);
        self.transactions.rows(&key, &mut |cells| {
            opened.push(rows::opened_transaction(cells)?);
            Ok(())
        })?;
        if opened.is_empty() {
            return Err(corrupt(&PAYMENT, "a payment has no transactions"));
        }
        opened.sort_by_key(|(opened_seq, _)| *opened_seq);
        let mut outstanding = vec![];
        self.outstanding.rows(&key, &mut |cells| {
            outstanding.push(rows::outstanding(cells)?);
            Ok(())
        })?;
        let transactions = opened.into_iter().map(|(_, transaction)| transaction).collect();
        Ok(Some(PaymentEntry { file: PaymentFile { payment, transactions }, outstanding }))
    }
}

fn load_methods(
    reader: &Reader,
    keys: &BTreeSet<(TenantNo, PaymentMethodId)>,
    state: &mut State,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let mut query = None;
    for &(tenant, id) in keys {
        let found = match recent.methods.get((tenant, id)) {
            Some(held) => Some(held.clone()),
            None => {
                let query = match &mut query {
                    Some(query) => query,
                    None => query.insert(reader.load(&SELECT_METHOD)?),
                };
                let read = query.first(&[tenant.into(), id.into()], rows::payment_method)?;
                if let Some(method) = &read {
                    recent.methods.insert((tenant, id), method.clone());
                }
                read
            }
        };
        state.payment_methods.insert((tenant, id), found);
    }
    Ok(())
}

fn load_accounts(
    reader: &Reader,
    keys: &BTreeSet<(TenantNo, AccountId)>,
    state: &mut State,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let mut queries = None;
    for &(tenant, id) in keys {
        let found = match recent.accounts.get((tenant, id)) {
            Some(held) => Some(held.clone()),
            None => {
                let (accounts, people) = match &mut queries {
                    Some(queries) => queries,
                    None => queries
                        .insert((reader.load(&SELECT_ACCOUNT)?, reader.load(&SELECT_PERSON)?)),
                };
                let key = [tenant.into(), id.into()];
                match accounts.first(&key, rows::account)? {
                    Some(account) => {
                        let person = people.first(&key, rows::person)?;
                        let person = person.map(|(_, _, person)| person);
                        let entry = AccountEntry { account, person };
                        recent.accounts.insert((tenant, id), entry.clone());
                        Some(entry)
                    }
                    None => None,
                }
            }
        };
        let account = found.map(|AccountEntry { account, person }| {
            state.people.extend(person.map(|person| ((tenant, id), person)));
            account
        });
        state.accounts.insert((tenant, id), account);
    }
    Ok(())
}

fn load_named(reader: &Reader, wanted: &Wanted<'_>, state: &mut State) -> Result<(), StoreError> {
    for &(tenant, key) in &wanted.values {
        let found =
            reader.query_one(&SELECT_VALUE, &[tenant.into(), key.into()], rows::tenant_value)?;
        state.tenant_values.insert((tenant, key.to_owned()), found);
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

fn corrupt(table: &Table, reason: &str) -> StoreError {
    StoreError::Corrupt { table: table.name, reason: reason.to_owned() }
}
