//! Reads of the simulation: what is due, histories, and all data for the final checks.

use std::collections::BTreeMap;

use domain::account::blocking_state::BlockingState;
use domain::account::custom_field::CustomField;
use domain::customer::Customer;
use domain::entitlement::Entitlements;
use domain::entitlement::purchase::Purchase;
use domain::entitlement::usage::Usage;
use domain::entity::Entity;
use domain::payment::attempt::PaymentAttempt;
use domain::payment::{Outstanding, Payment, PaymentFile};
use domain::rows::Keyed;
use domain::timer::Timer;
use domain::{Account, AccountId, AttemptId, PaymentId, TenantNo, Timestamp};
use engine::ports::HistoryOf;
use store::Share;

use super::{MemoryDisk, MemoryStore, Tables, row};
use crate::disk::{Bills, Books, Disk, Image};

impl MemoryDisk {
    #[must_use]
    pub fn purchases(&self) -> Vec<Purchase> {
        self.tables().all()
    }

    /// The entitlements of all accounts.
    #[must_use]
    pub fn entitlements(&self) -> Vec<Entitlements> {
        self.tables().all()
    }

    /// The users that are mapped to accounts, by their keys; each account that has one.
    #[must_use]
    pub fn account_users(&self) -> BTreeMap<String, Vec<AccountId>> {
        let mut users: BTreeMap<String, Vec<AccountId>> = BTreeMap::new();
        for ((_, account), keys) in &self.tables().users {
            keys.iter().for_each(|key| users.entry(key.clone()).or_default().push(*account));
        }
        users
    }

    /// The usage of all accounts.
    #[must_use]
    pub fn usage(&self) -> Vec<Usage> {
        self.tables().usage.iter().cloned().collect()
    }
}

impl Tables {
    fn all<T: Entity>(&self) -> Vec<T> {
        self.images.all().map(row).collect()
    }
}

impl Disk for MemoryDisk {
    type Store = MemoryStore;

    fn connect(&self, share: Share) -> MemoryStore {
        let (owners, answered) = (BTreeMap::new(), BTreeMap::new());
        MemoryStore { disk: self.clone(), share, epoch: None, owners, answered }
    }

    fn due(&self, now: Timestamp) -> Vec<Outstanding> {
        let tables = self.tables();
        let is_due = |it: &&Outstanding| it.ask_at.is_some_and(|at| at <= now);
        let mut due: Vec<Outstanding> =
            tables.outstanding.values().filter(is_due).cloned().collect();
        due.sort_by_key(|it| it.ask_at);
        due
    }

    fn timers_due(&self, now: Timestamp) -> Vec<Timer> {
        let tables = self.tables();
        let mut due: Vec<Timer> =
            tables.timers.values().filter(|it| it.due <= now).cloned().collect();
        due.sort_by_key(|it| (it.due, it.tenant, it.key));
        due
    }

    fn attempt(&self, tenant: TenantNo, id: AttemptId) -> Option<PaymentAttempt> {
        self.tables().images.get(&(tenant, id))
    }

    fn orphans(&self) -> Vec<Outstanding> {
        let tables = self.tables();
        let orphaned = |it: &&Outstanding| it.ask_at.is_none() && it.asked == 0;
        tables.outstanding.values().filter(orphaned).cloned().collect()
    }

    fn outstanding_of(&self, tenant: TenantNo, payment: PaymentId) -> Vec<Outstanding> {
        let tables = self.tables();
        let of_payment = |it: &&Outstanding| (it.tenant, it.payment_id) == (tenant, payment);
        tables.outstanding.values().filter(of_payment).cloned().collect()
    }

    fn payment(&self, tenant: TenantNo, payment: PaymentId) -> Option<PaymentFile> {
        self.tables().file((tenant, payment))
    }

    fn history(&self, tenant: TenantNo, of: HistoryOf) -> Vec<Image> {
        let tables = self.tables();
        let entries = tables.journal.iter().filter(|entry| entry.tenant == tenant);
        let images = entries.flat_map(|entry| {
            let own =
                entry.changes.iter().filter(move |change| HistoryOf::in_change(change) == Some(of));
            own.map(|change| Image { seq: entry.seq.0, image: change.clone() })
        });
        images.collect()
    }

    fn problems(&self) -> Vec<String> {
        vec![]
    }

    fn bills(&self) -> Bills {
        let tables = self.tables();
        let payments = tables.images.all::<Payment>().filter_map(|it| tables.file(it.key()));
        Bills {
            invoices: tables.all(),
            items: tables.all(),
            accounts: tables.all(),
            timers: tables.timers.values().cloned().collect(),
            postings: tables.entries.iter().map(|(_, it)| it.posting.clone()).collect(),
            payments: payments.collect(),
            entitlements: tables.all(),
        }
    }

    fn books(&self) -> Books {
        let tables = self.tables();
        let person = |it: &Account| tables.people.get(&it.key()).cloned().unwrap_or_default();
        let payments = tables.images.all::<Payment>().filter_map(|it| tables.file(it.key()));
        let customers = tables.images.all::<Customer>();
        let mut journal: Vec<i64> = tables.journal.iter().map(|entry| entry.seq.0).collect();
        journal.sort_unstable();
        let followed = tables.followed.iter().filter(|((no, _), seq)| **seq > no.start());
        let fields = tables.images.all::<CustomField>();
        let states = tables.images.all::<BlockingState>();
        Books {
            heads: tables.parts.iter().map(|(no, part)| (*no, part.head.0)).collect(),
            journal,
            customers: customers.filter_map(|it| tables.customer(it.key())).collect(),
            mails: tables.mails.values().cloned().collect(),
            operations: tables.all(),
            tags: tables.all(),
            blocking_states: states.filter(|it| it.active).map(row).collect(),
            custom_fields: fields.filter(|it| it.active && !it.value.is_empty()).map(row).collect(),
            accounts: tables.images.all().map(|it| (row(it), person(it))).collect(),
            methods: tables.all(),
            attempts: tables.all(),
            timers: tables.timers.values().cloned().collect(),
            disputes: tables.all(),
            velocities: tables.velocities.iter().cloned().collect(),
            payments: payments.collect(),
            entries: tables.entries.clone(),
            outstanding: tables.outstanding.values().cloned().collect(),
            followed: followed.map(|((no, _), seq)| (*no, seq.0)).collect(),
        }
    }
}
