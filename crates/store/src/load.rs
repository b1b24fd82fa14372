//! Loads what a batch of commands may look at: each row with what belongs to it.

mod account;
mod billing;
mod customer;
pub(crate) mod entitlement;
mod payment;
mod tenant;
pub(crate) mod usage;

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::LazyLock;

use domain::entity::Entity;
use domain::payment::ReplyKey;
use domain::read::Read;
use domain::rows::{Part, Parts, Rows};
use domain::state::State;
use domain::{Id, TenantNo};
use engine::ports::{StoreError, StoredReply};

use crate::catalogs::Catalogs;
use crate::claims::RecentClaims;
use crate::driver::{Reader, Value};
use crate::recent::{Cache, Recent};
use crate::tables::{self, PAYMENT_RULES, REPLY, TIMER, reply};

const BY_ID: &str = "WHERE tenant = ?1 AND id = ?2";

static SELECT_REPLY: LazyLock<String> = LazyLock::new(|| REPLY.select("WHERE key = ?1"));

/// The rows, each with what belongs to it; those that are not there as `None`.
pub(crate) fn state(
    reader: &Reader,
    reads: &BTreeSet<Read>,
    recent: &mut Recent,
    claims: &RecentClaims,
    catalogs: &Catalogs,
) -> Result<State, StoreError> {
    let mut state = State::default();
    reads.iter().for_each(|read| state.look_for(read));
    load_claims(reader, &mut state, claims)?;
    payment::load_payments(reader, &mut state, recent)?;
    entitlement::load_featured(reader, &mut state)?;
    PAYMENT_RULES.load(reader, &mut state.tenant.payment_rules)?;
    state.look_for_by_rules();
    entitlement::load_offers(reader, &mut state)?;
    account::load(reader, &mut state.account, recent)?;
    customer::load(reader, &mut state.customer)?;
    payment::load(reader, &mut state.payment)?;
    tenant::load(reader, &mut state.tenant, catalogs)?;
    billing::load(reader, &mut state.billing, recent.partition())?;
    entitlement::load_of_plans(reader, &mut state)?;
    entitlement::load(reader, &mut state.entitlement, recent)?;
    state.access.load(&Stored(reader))?;
    state.flag.load(&Stored(reader))?;
    TIMER.load(reader, &mut state.timers)?;
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
        let it = reply(cells)?;
        found.insert(it.key, it);
        Ok(())
    })?;
    Ok(found)
}

/// Loads claims, which say whose rows are looked at.
fn load_claims(
    reader: &Reader,
    state: &mut State,
    claims: &RecentClaims,
) -> Result<(), StoreError> {
    let found = claims.find_known(reader, &state.claims.keys().collect::<Vec<_>>())?;
    state.claims.values_mut().zip(found).for_each(|(claim, found)| *claim = found);
    state.look_for_owners();
    Ok(())
}

/// Rows of the database, of any kind of entity.
struct Stored<'r>(&'r Reader);

impl domain::source::Source for Stored<'_> {
    type Error = StoreError;

    fn rows<T: Entity>(&self, loaded: &mut Rows<T>) -> Result<(), StoreError> {
        if loaded.absent().next().is_some() {
            tables::of_entity(TypeId::of::<T>()).load(self.0, loaded)?;
        }
        Ok(())
    }

    fn parts<T: Entity + Part>(&self, loaded: &mut Parts<T>) -> Result<(), StoreError> {
        if loaded.owners().next().is_some() {
            tables::of_entity(TypeId::of::<T>()).load_parts(self.0, loaded)?;
        }
        Ok(())
    }
}

/// The held values of some keys, and the keys that have none.
fn split<K: Copy + Ord + Hash, V: Clone>(
    keys: &[K],
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

/// Ids of tenants', as the parameters of a query.
fn values<K>(keys: &[(TenantNo, Id<K>)]) -> Vec<[Value<'static>; 2]> {
    keys.iter().map(|(tenant, id)| [(*tenant).into(), (*id).into()]).collect()
}
