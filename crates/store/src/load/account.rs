//! Loads accounts, and what belongs to them: payment methods, tags, custom fields, addresses and blocking states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use domain::read::METHODS_LISTED_MAX;
use domain::rows::Rows;
use domain::state::AccountState;
use domain::tenant::payment_rules::METHODS_MAX;
use domain::{Account, AccountId, PaymentMethod, PaymentMethodId, TenantNo};
use engine::ports::StoreError;

use super::{BY_ID, Stored, split, values};
use crate::driver::{Reader, Value};
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

/// Loads accounts, methods with their accounts, and what comes alone.
pub(super) fn load(
    reader: &Reader,
    loaded: &mut AccountState,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    load_newest(reader, METHODS_LISTED_MAX.into(), &mut loaded.methods_listed)?;
    let most = i64::try_from(METHODS_MAX).unwrap_or(i64::MAX);
    load_newest(reader, most, &mut loaded.methods_to_choose)?;
    for (key, ids) in loaded.methods_listed.iter().chain(&loaded.methods_to_choose) {
        ids.iter().for_each(|id| loaded.payment_methods.look_for((key.0, *id)));
    }
    let methods: Vec<_> = loaded.payment_methods.absent().copied().collect();
    load_methods(reader, &methods, &mut loaded.payment_methods, recent)?;
    for method in loaded.payment_methods.iter() {
        loaded.accounts.look_for((method.tenant, method.account_id));
    }
    load_accounts(reader, loaded, recent)?;
    let of_account = |it: &Account| {
        let methods = [it.payment_method_id, it.external_payment_method];
        methods.into_iter().flatten().map(|id| (it.tenant, id)).collect::<BTreeSet<_>>()
    };
    let defaults = loaded.accounts.iter().flat_map(of_account);
    let defaults: Vec<_> = defaults.filter(|key| !loaded.payment_methods.knows(key)).collect();
    // They belong to accounts that are loaded already.
    load_methods(reader, &defaults, &mut loaded.payment_methods, recent)?;
    let definitions: Vec<_> = loaded.tag_definition_uses.keys().copied().collect();
    reader.for_keys(DEFINITION_USE, &values(&definitions), |at, _| {
        loaded.tag_definition_uses.insert(definitions[at], true);
        Ok(())
    })?;
    loaded.load(&Stored(reader))
}

/// Loads the newest active methods of accounts.
fn load_newest(
    reader: &Reader,
    most: i64,
    loaded: &mut BTreeMap<(TenantNo, AccountId), BTreeSet<PaymentMethodId>>,
) -> Result<(), StoreError> {
    let accounts: Vec<_> = loaded.keys().copied().collect();
    let keys: Vec<[Value<'_>; 3]> =
        accounts.iter().map(|it| [it.0.into(), it.1.into(), most.into()]).collect();
    reader.for_keys(NEWEST_METHODS, &keys, |at, cells| {
        loaded.entry(accounts[at]).or_default().insert(cells.entity()?);
        Ok(())
    })
}

fn load_methods(
    reader: &Reader,
    keys: &[(TenantNo, PaymentMethodId)],
    loaded: &mut Rows<PaymentMethod>,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let (found, unknown) = split(keys, &mut recent.methods);
    keys.iter().for_each(|key| loaded.look_for(*key));
    found.into_values().for_each(|it| drop(loaded.put(it)));
    reader.for_keys(&SELECT_METHOD, &values(&unknown), |_, cells| {
        let method = PAYMENT_METHOD.row(cells)?;
        recent.method_read(&method);
        loaded.put(method);
        Ok(())
    })
}

fn load_accounts(
    reader: &Reader,
    loaded: &mut AccountState,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let keys: Vec<_> = loaded.accounts.absent().copied().collect();
    let (mut found, unknown) = split(&keys, &mut recent.accounts);
    for (key, entry) in read_accounts(reader, &unknown)? {
        recent.account_read(key, &entry);
        found.insert(key, entry);
    }
    for (key, AccountEntry { account, person, is_closed }) in found {
        loaded.people.extend(person.map(|person| (key, person)));
        loaded.closed.extend(is_closed.then_some(key));
        loaded.accounts.put(account);
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
