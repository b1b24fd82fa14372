//! Loads accounts, and what belongs to them: payment methods, tags, custom fields, addresses and blocking states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use domain::read::{AccountRead, AccountRow, METHODS_LISTED_MAX};
use domain::state::State;
use domain::{AccountId, PaymentMethodId, TagDefinitionId, TenantNo};
use engine::ports::StoreError;

use super::{BY_ID, Stored, split, values};
use crate::driver::Reader;
use crate::recent::{AccountEntry, Recent};
use crate::tables::{ACCOUNT, ACCOUNT_PERSON, BLOCKING_STATE, CLOSING, PAYMENT_METHOD, person};

/// The newest methods of an account: ids are in the order in which they are minted. Imported ones are in none.
const NEWEST_METHODS: &str = "SELECT id FROM payment_method \
     WHERE tenant = ?1 AND account_id = ?2 AND active = 1 ORDER BY id DESC LIMIT ?3";
const DEFINITION_USE: &str =
    "SELECT 1 FROM object_tag WHERE tenant = ?1 AND definition_id = ?2 AND active = 1 LIMIT 1";

static SELECT_ACCOUNT: LazyLock<String> = LazyLock::new(|| ACCOUNT.select(BY_ID));
static SELECT_PERSON: LazyLock<String> = LazyLock::new(|| {
    ACCOUNT_PERSON.select("WHERE tenant = ?1 AND account_id = ?2 ORDER BY seq DESC LIMIT 1")
});
static SELECT_CLOSING: LazyLock<String> = LazyLock::new(|| {
    let newest = "ORDER BY ordinal DESC LIMIT 1";
    BLOCKING_STATE.select(&format!("WHERE tenant = ?1 AND account_id = ?2 AND {CLOSING} {newest}"))
});
static SELECT_METHOD: LazyLock<String> = LazyLock::new(|| PAYMENT_METHOD.select(BY_ID));

/// The keys of accounts and of what belongs to them.
#[derive(Default)]
pub(super) struct AccountPlan {
    pub(super) accounts: BTreeSet<(TenantNo, AccountId)>,
    pub(super) methods: BTreeSet<(TenantNo, PaymentMethodId)>,
    /// Accounts whose newest methods are looked at.
    listed: Vec<(TenantNo, AccountId)>,
    definition_uses: Vec<(TenantNo, TagDefinitionId)>,
    pub(super) rows: Vec<AccountRow>,
}

impl AccountPlan {
    pub(super) fn add(&mut self, read: &AccountRead) {
        match read {
            AccountRead::Account(no, id) => drop(self.accounts.insert((*no, *id))),
            AccountRead::PaymentMethod(no, id) => drop(self.methods.insert((*no, *id))),
            AccountRead::PaymentMethods(no, id) => self.listed.push((*no, *id)),
            AccountRead::TagDefinitionUse(no, id) => self.definition_uses.push((*no, *id)),
            AccountRead::Row(row) => self.rows.push(row.clone()),
        }
    }

    /// Loads accounts, and methods with their accounts.
    pub(super) fn load(
        mut self,
        reader: &Reader,
        state: &mut State,
        recent: &mut Recent,
    ) -> Result<(), StoreError> {
        for key in std::mem::take(&mut self.listed) {
            let ids = newest_methods(reader, key, METHODS_LISTED_MAX.into())?;
            self.methods.extend(ids.iter().map(|id| (key.0, *id)));
            state.account.methods_listed.insert(key, ids);
        }
        load_methods(reader, &self.methods, state, recent)?;
        let methods = state.account.payment_methods.iter();
        self.accounts.extend(methods.map(|method| (method.tenant, method.account_id)));
        load_accounts(reader, &self.accounts, state, recent)?;
        let accounts = state.account.accounts.iter();
        let defaults = accounts.filter_map(|it| Some((it.tenant, it.payment_method_id?)));
        let defaults = defaults.filter(|key| !state.account.payment_methods.knows(key)).collect();
        // They belong to accounts that are loaded already.
        load_methods(reader, &defaults, state, recent)?;
        for (tenant, id) in self.definition_uses {
            let key = [tenant.into(), id.into()];
            let used = reader.query_one(DEFINITION_USE, &key, |cells| cells.int())?;
            state.account.tag_definition_uses.insert((tenant, id), used.is_some());
        }
        state.account.load(&self.rows, &Stored(reader))
    }
}

pub(super) fn newest_methods(
    reader: &Reader,
    (tenant, account): (TenantNo, AccountId),
    most: i64,
) -> Result<BTreeSet<PaymentMethodId>, StoreError> {
    let key = [tenant.into(), account.into(), most.into()];
    let ids = reader.query(NEWEST_METHODS, &key, |cells| cells.entity())?;
    Ok(ids.into_iter().collect())
}

fn load_methods(
    reader: &Reader,
    keys: &BTreeSet<(TenantNo, PaymentMethodId)>,
    state: &mut State,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let (mut found, unknown) = split(keys, &mut recent.methods);
    reader.for_keys(&SELECT_METHOD, &values(&unknown), |at, cells| {
        let method = PAYMENT_METHOD.row(cells)?;
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

/// Those accounts that exist, each with what is known of the person and whether it is closed.
fn read_accounts(
    reader: &Reader,
    keys: &[(TenantNo, AccountId)],
) -> Result<BTreeMap<(TenantNo, AccountId), AccountEntry>, StoreError> {
    let mut found = BTreeMap::new();
    reader.for_keys(&SELECT_ACCOUNT, &values(keys), |at, cells| {
        let account = ACCOUNT.row(cells)?;
        found.insert(keys[at], AccountEntry { account, person: None, is_closed: false });
        Ok(())
    })?;
    let keys: Vec<(TenantNo, AccountId)> = found.keys().copied().collect();
    reader.for_keys(&SELECT_PERSON, &values(&keys), |at, cells| {
        let (.., person) = person(cells)?;
        if let Some(entry) = found.get_mut(&keys[at]) {
            entry.person = Some(person);
        }
        Ok(())
    })?;
    reader.for_keys(&SELECT_CLOSING, &values(&keys), |at, cells| {
        let newest = BLOCKING_STATE.row(cells)?;
        if let Some(entry) = found.get_mut(&keys[at]) {
            entry.is_closed = newest.closes() == Some(true);
        }
        Ok(())
    })?;
    Ok(found)
}
