//! A cache of rows that were loaded or committed lately: the one writer need not read them again.
//!
//! It holds committed rows only, as SQL would give them: a commit changes it once it is durable,
//! and taking the partition over empties it. What is not here is in SQL; what is not there either
//! is not remembered, and neither is what another partition's writer may change.

use std::hash::Hash;

use domain::entitlement::Entitlements;
use domain::entitlement::feature::FeatureValue;
use domain::entity::Entity;
use domain::payment::{Outstanding, Payment, PaymentFile, Transaction};
use domain::{
    Account, AccountId, PartitionNo, PaymentId, PaymentMethod, PaymentMethodId, Person, Revision,
    Seq, TenantNo, TransactionId,
};

use foldhash::HashMap;

use crate::share::Share;

/// Entitlements of more grants and purchases are not held, nor of more bytes in their values, each of which may have
/// 4 KiB: one tenant's would take the memory of all.
const HELD_MAX: usize = 16;
const HELD_VALUE_BYTES_MAX: usize = 1_024;

/// An account with what belongs to it.
#[derive(Clone)]
pub(crate) struct AccountEntry {
    pub(crate) account: Account,
    pub(crate) person: Option<Person>,
    pub(crate) is_closed: bool,
}

/// A payment with what belongs to it.
#[derive(Clone)]
pub(crate) struct PaymentEntry {
    pub(crate) file: PaymentFile,
    pub(crate) outstanding: Vec<Outstanding>,
}

pub(crate) struct Recent {
    share: Share,
    pub(crate) accounts: Cache<(TenantNo, AccountId), AccountEntry>,
    pub(crate) methods: Cache<(TenantNo, PaymentMethodId), PaymentMethod>,
    pub(crate) payments: Cache<(TenantNo, PaymentId), PaymentEntry>,
    pub(crate) entitlements: Cache<(TenantNo, AccountId), Entitlements>,
}

/// A bounded cache of two generations: when the hot one is full, it replaces the cold one, which is
/// evicted. A hit moves an entry to the hot one.
pub(crate) struct Cache<K, V> {
    hot: HashMap<K, V>,
    cold: HashMap<K, V>,
    hot_max: usize,
}

impl<K: Copy + Eq + Hash, V> Cache<K, V> {
    pub(crate) fn new(hot_max: usize) -> Self {
        Self { hot: HashMap::default(), cold: HashMap::default(), hot_max }
    }

    pub(crate) fn get(&mut self, key: K) -> Option<&mut V> {
        if !self.hot.contains_key(&key)
            && let Some(used) = self.cold.remove(&key)
        {
            self.insert(key, used);
        }
        self.hot.get_mut(&key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.hot.len() >= self.hot_max {
            std::mem::swap(&mut self.cold, &mut self.hot);
            // It keeps its memory: the next ones are put where these were.
            self.hot.clear();
        }
        self.cold.remove(&key);
        self.hot.insert(key, value);
    }

    fn remove(&mut self, key: K) {
        self.hot.remove(&key);
        self.cold.remove(&key);
    }

    pub(crate) fn clear(&mut self) {
        self.hot.clear();
        self.cold.clear();
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.hot.values_mut().chain(self.cold.values_mut())
    }
}

impl Recent {
    /// An empty cache. It holds at most twice `entities` of each kind, and of entitlements, which are larger, half as
    /// many.
    pub(crate) fn new(entities: usize, share: Share) -> Self {
        let (accounts, methods) = (Cache::new(entities), Cache::new(entities));
        let (payments, entitlements) = (Cache::new(entities), Cache::new(entities / 2));
        Self { share, accounts, methods, payments, entitlements }
    }

    /// The partition whose rows are held.
    pub(crate) const fn partition(&self) -> PartitionNo {
        self.share.partition
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.accounts.hot_max, self.share);
    }

    /// An account as it was read.
    pub(crate) fn account_read(&mut self, key: (TenantNo, AccountId), entry: &AccountEntry) {
        if self.share.has(key.0, key.1) {
            self.accounts.insert(key, entry.clone());
        }
    }

    /// A payment method as it was read.
    pub(crate) fn method_read(&mut self, it: &PaymentMethod) {
        if self.share.has(it.tenant, it.account_id) {
            self.methods.insert((it.tenant, it.id), it.clone());
        }
    }

    /// A payment as it was read.
    pub(crate) fn payment_read(&mut self, key: (TenantNo, PaymentId), entry: &PaymentEntry) {
        if self.share.has(key.0, entry.file.payment.account_id) {
            self.payments.insert(key, entry.clone());
        }
    }

    /// What an account may do, as it was read.
    pub(crate) fn entitlements_read(&mut self, it: &Entitlements) {
        if self.share.has(it.tenant, it.account_id) && is_small(it) {
            self.entitlements.insert((it.tenant, it.account_id), it.clone());
        }
    }

    /// The newest image of what an account may do.
    pub(crate) fn entitlements_changed(&mut self, it: &Entitlements) {
        let key = (it.tenant, it.account_id);
        if is_small(it) {
            let held = Entitlements { revision: stored(it.revision), ..it.clone() };
            self.entitlements.insert(key, held);
        } else {
            self.entitlements.remove(key);
        }
    }

    /// An account's newest image. One that is not held is taken in only where it was made just
    /// now: of others the person is not known here.
    pub(crate) fn account_changed(&mut self, it: &Account, was_made: bool) {
        let key = (it.tenant, it.id);
        let account = Account { revision: stored(it.revision), ..it.clone() };
        match self.accounts.get(key) {
            Some(held) => held.account = account,
            None if was_made => {
                let entry = AccountEntry { account, person: None, is_closed: false };
                self.accounts.insert(key, entry);
            }
            None => {}
        }
    }

    /// Sets the person of an account that is held; `None` where nothing is known of the person any
    /// more.
    pub(crate) fn person_changed(
        &mut self,
        tenant: TenantNo,
        id: AccountId,
        person: Option<&Person>,
    ) {
        if let Some(held) = self.accounts.get((tenant, id)) {
            held.person = person.cloned();
        }
    }

    /// Whether an account is closed now.
    pub(crate) fn account_closed(&mut self, tenant: TenantNo, id: AccountId, is_closed: bool) {
        if let Some(held) = self.accounts.get((tenant, id)) {
            held.is_closed = is_closed;
        }
    }

    /// The personal data of an account was erased by this journal row: that of its methods too.
    pub(crate) fn methods_erased(&mut self, tenant: TenantNo, account: AccountId, by: Seq) {
        let methods = self.methods.values_mut();
        methods
            .filter(|it| (it.tenant, it.account_id) == (tenant, account) && it.revision.seq < by)
            .for_each(Entity::erase);
    }

    /// A payment method's newest image.
    pub(crate) fn method_changed(&mut self, it: &PaymentMethod) {
        let method = PaymentMethod { revision: stored(it.revision), ..it.clone() };
        self.methods.insert((it.tenant, it.id), method);
    }

    /// A payment's newest image; see [`Recent::account_changed`].
    pub(crate) fn payment_changed(&mut self, it: &Payment, was_made: bool) {
        let key = (it.tenant, it.id);
        let payment = Payment { revision: stored(it.revision), ..it.clone() };
        match self.payments.get(key) {
            Some(held) => held.file.payment = payment,
            None if was_made => {
                let file = PaymentFile { payment, transactions: Vec::with_capacity(1) };
                self.payments.insert(key, PaymentEntry { file, outstanding: vec![] });
            }
            None => {}
        }
    }

    /// A transaction's newest image, after its payment's. New ones come in their order.
    pub(crate) fn transaction_changed(&mut self, it: &Transaction) {
        let Some(held) = self.payments.get((it.tenant, it.payment_id)) else { return };
        let transaction = Transaction { revision: stored(it.revision), ..it.clone() };
        match held.file.transactions.iter_mut().find(|known| known.id == it.id) {
            Some(known) => *known = transaction,
            None => held.file.transactions.push(transaction),
        }
    }

    /// An outcome to wait for, after its payment.
    pub(crate) fn outstanding_changed(&mut self, it: &Outstanding) {
        let Some(held) = self.payments.get((it.tenant, it.payment_id)) else { return };
        match held.outstanding.iter_mut().find(|known| known.transaction_id == it.transaction_id) {
            Some(known) => *known = it.clone(),
            None => held.outstanding.push(it.clone()),
        }
    }

    /// An outcome that is no longer waited for. Which payment it was of is known as a rule.
    pub(crate) fn outstanding_closed(
        &mut self,
        tenant: TenantNo,
        transaction: TransactionId,
        payment: Option<PaymentId>,
    ) {
        let is_other = |it: &Outstanding| (it.tenant, it.transaction_id) != (tenant, transaction);
        match payment {
            Some(payment) => {
                if let Some(held) = self.payments.get((tenant, payment)) {
                    held.outstanding.retain(is_other);
                }
            }
            None => self.payments.values_mut().for_each(|held| held.outstanding.retain(is_other)),
        }
    }

    /// The personal data of an account was erased: the texts of those who asked for outcomes too.
    pub(crate) fn outstanding_erased(&mut self, tenant: TenantNo, account: AccountId) {
        let outstanding = self.payments.values_mut().flat_map(|held| &mut held.outstanding);
        outstanding
            .filter(|it| (it.tenant, it.account_id) == (tenant, account))
            .for_each(|it| it.actor.erase());
    }
}

/// Whether what an account may do is held.
fn is_small(it: &Entitlements) -> bool {
    let values = it.grants.iter().map(|grant| match &grant.value {
        FeatureValue::On | FeatureValue::Limit(_) | FeatureValue::Boolean(_) => 0,
        FeatureValue::Number(text) | FeatureValue::String(text) | FeatureValue::Json(text) => {
            text.len()
        }
    });
    let purchases = it.bought.values().map(|of| 1 + of.paid.len() + of.live.len());
    it.grants.len() <= HELD_MAX
        && purchases.sum::<usize>() <= HELD_MAX
        && values.sum::<usize>() <= HELD_VALUE_BYTES_MAX
}

/// A revision as a row has it: without the one before.
const fn stored(revision: Revision) -> Revision {
    Revision::first(revision.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_in_use_survive_eviction() {
        let mut held = Cache::<usize, usize>::new(4);
        held.insert(0, 0);
        for n in 1..20 {
            held.insert(n, n);
            assert!(held.get(0).is_some(), "it is used all the time");
            assert!(held.hot.len() + held.cold.len() <= 8);
        }
        assert_eq!(held.get(19), Some(&mut 19));
        assert_eq!(held.get(1), None);
        held.insert(0, 7);
        assert_eq!(held.get(0), Some(&mut 7));
    }
}
