//! Loads what a batch of commands may look at: each row with what belongs to it.

mod account;
mod customer;
pub(crate) mod entitlement;
mod payment;
mod tenant;
pub(crate) mod usage;

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::LazyLock;

use domain::claim::{Claim, ClaimKey, ClaimKind};
use domain::entity::Entity;
use domain::payment::ReplyKey;
use domain::read::{AccessRead, FlagRead, Read};
use domain::rows::{Part, Parts, Rows};
use domain::state::State;
use domain::timer::TimerKey;
use domain::{AccountId, Id, PaymentId, PaymentMethodId, TenantNo};
use engine::ports::{StoreError, StoredReply};

use self::account::AccountPlan;
use self::customer::CustomerPlan;
use self::entitlement::EntitlementPlan;
use self::payment::PaymentPlan;
use self::tenant::TenantPlan;
use crate::claims::RecentClaims;
use crate::driver::{Reader, Value};
use crate::recent::{Cache, Recent};
use crate::tables::{self, REPLY, TIMER, reply};

const BY_ID: &str = "WHERE tenant = ?1 AND id = ?2";

static SELECT_REPLY: LazyLock<String> = LazyLock::new(|| REPLY.select("WHERE key = ?1"));

/// The rows, each with what belongs to it; those that are not there as `None`.
pub(crate) fn state(
    reader: &Reader,
    reads: &BTreeSet<Read>,
    recent: &mut Recent,
    claims: &RecentClaims,
) -> Result<State, StoreError> {
    let mut plan = ReadPlan::default();
    reads.iter().for_each(|read| plan.add(read));
    let mut state = State::default();
    plan.load_claims(reader, &mut state, claims)?;
    let ReadPlan {
        mut tenant,
        access,
        flag,
        mut account,
        customer,
        mut payment,
        mut entitlement,
        ..
    } = plan;
    payment.load_payments(reader, (&mut account, &mut entitlement), &mut state, recent)?;
    tenant.rules.extend(payment.started.iter().map(|(tenant, _)| *tenant));
    tenant.load_rules(reader, &mut state)?;
    payment.follow_rules(reader, &mut account, &mut state)?;
    entitlement.load_offers(reader, &mut account.rows, &mut state)?;
    account.load(reader, &mut state, recent)?;
    customer.load(reader, &mut state)?;
    payment.load(reader, &mut state)?;
    entitlement.load(reader, &mut state, recent)?;
    tenant.load(reader, &mut state)?;
    state.access.load(access, &Stored(reader))?;
    state.flag.load(flag, &Stored(reader))?;
    TIMER.load(reader, plan.timers, &mut state.timers)?;
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

/// The keys of a batch's reads.
#[derive(Default)]
struct ReadPlan<'a> {
    tenant: TenantPlan,
    access: Vec<&'a AccessRead>,
    flag: Vec<&'a FlagRead>,
    account: AccountPlan,
    customer: CustomerPlan,
    payment: PaymentPlan,
    entitlement: EntitlementPlan,
    claims: Vec<&'a ClaimKey>,
    timers: Vec<(TenantNo, TimerKey)>,
}

impl<'a> ReadPlan<'a> {
    fn add(&mut self, read: &'a Read) {
        match read {
            Read::Tenant(read) => self.tenant.add(read),
            Read::Access(read) => self.access.push(read),
            Read::Flag(read) => self.flag.push(read),
            Read::Account(read) => self.account.add(read),
            Read::Customer(read) => self.customer.add(read),
            Read::Payment(read) => self.payment.add(read),
            Read::Entitlement(read) => self.entitlement.add(read),
            Read::Claim(key) => self.claims.push(key),
            Read::Timer(tenant, key) => self.timers.push((*tenant, *key)),
        }
    }

    /// Loads claims, which say whose rows are looked at.
    fn load_claims(
        &mut self,
        reader: &Reader,
        state: &mut State,
        claims: &RecentClaims,
    ) -> Result<(), StoreError> {
        let keys = std::mem::take(&mut self.claims);
        let found = claims.find_known(reader, &keys)?;
        for (key, claim) in keys.into_iter().zip(found) {
            if let Some(claim) = &claim {
                self.add_owner(key, claim);
            }
            state.claims.insert(key.clone(), claim);
        }
        Ok(())
    }

    fn add_owner(&mut self, key: &ClaimKey, claim: &Claim) {
        let (tenant, owner) = (key.tenant, claim.owner);
        match key.kind {
            ClaimKind::Account => {
                self.account.accounts.insert((tenant, AccountId::new(owner)));
            }
            ClaimKind::PaymentMethod => {
                self.account.methods.insert((tenant, PaymentMethodId::new(owner)));
            }
            ClaimKind::Payment | ClaimKind::Transaction => {
                self.payment.payments.insert((tenant, PaymentId::new(owner)));
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

/// Rows of the database, of any kind of entity.
struct Stored<'r>(&'r Reader);

impl domain::source::Source for Stored<'_> {
    type Error = StoreError;

    fn rows<T: Entity>(&self, keys: Vec<T::Key>, loaded: &mut Rows<T>) -> Result<(), StoreError> {
        match keys.is_empty() {
            true => Ok(()),
            false => tables::of_entity(TypeId::of::<T>()).load(self.0, &keys, loaded),
        }
    }

    fn parts<T: Entity + Part>(
        &self,
        owners: Vec<T::Owner>,
        loaded: &mut Parts<T>,
    ) -> Result<(), StoreError> {
        match owners.is_empty() {
            true => Ok(()),
            false => tables::of_entity(TypeId::of::<T>()).load_parts(self.0, &owners, loaded),
        }
    }
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

/// Ids of a tenant's, as the parameters of a query.
fn values<K>(keys: &[(TenantNo, Id<K>)]) -> Vec<[Value<'static>; 2]> {
    keys.iter().map(|(tenant, id)| [(*tenant).into(), (*id).into()]).collect()
}
