//! Loads rows with those that belong to them.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use domain::account::blocking_state::BlockingState;
use domain::account::tag::{DefinitionRef, Tag};
use domain::billing::invoice::{Invoice, InvoiceItem, ItemKind};
use domain::entitlement::feature::Feature;
use domain::entitlement::offer::Offer;
use domain::entitlement::plan_features::PlanFeatures;
use domain::entitlement::usage::Usage;
use domain::payment::attempt::PaymentAttempt;
use domain::payment::dispute::Dispute;
use domain::read::Read;
use domain::rows::{Keyed, Part, Rows};
use domain::source::Source;
use domain::state::{
    AccountState, BillingState, CustomerState, EntitlementState, Featured, PaymentState, State,
    TenantState, UsageState,
};
use domain::tenant::TenantValue;
use domain::{AccountId, PartitionNo, PaymentMethod, PaymentMethodId, Seq, TenantNo};

use super::{Tables, row};

/// Memory is always read.
fn loaded(Ok(()): Result<(), Infallible>) {}

/// Loads the rows that are looked for.
fn load<T: Keyed>(find: impl Fn(&T::Key) -> Option<T>, loaded: &mut Rows<T>) {
    let found: Vec<T> = loaded.absent().filter_map(find).collect();
    found.into_iter().for_each(|row| drop(loaded.put(row)));
}

impl Tables {
    /// The rows, each with what belongs to it, for a partition.
    pub(super) fn read(&self, reads: &BTreeSet<Read>, no: PartitionNo) -> State {
        let mut state = State::default();
        reads.iter().for_each(|read| state.look_for(read));
        for (key, claim) in &mut state.claims {
            *claim = self.claims.get(key).copied();
        }
        state.look_for_owners();
        self.read_payments(&mut state.payment);
        state.look_for_of_payments();
        self.read_featured(&mut state.entitlement);
        state.look_for_of_paid();
        self.read_tenants(&mut state.tenant);
        state.look_for_by_rules();
        self.read_offers(&mut state.entitlement);
        state.look_for_by_offers();
        self.read_accounts(&mut state.account);
        self.read_customers(&mut state.customer);
        self.read_of_payments(&mut state.payment);
        self.read_billing(&mut state.billing, no);
        state.look_for_of_subscriptions();
        loaded(self.images.rows(&mut state.billing.invoices));
        loaded(self.images.rows(&mut state.entitlement.plan_features));
        state.look_for_of_plans();
        self.read_entitlements(&mut state.entitlement);
        loaded(state.access.load(&self.images));
        loaded(state.flag.load(&self.images));
        load(|key| self.timers.get(key).cloned(), &mut state.timers);
        state
    }

    fn read_featured(&self, state: &mut EntitlementState) {
        for (tenant, featured) in &mut state.featured {
            let own = || self.images.all::<PlanFeatures>().filter(|it| it.tenant == *tenant);
            let on_payment = own().any(PlanFeatures::waits_for_payment);
            *featured = Featured { any: own().next().is_some(), on_payment };
        }
    }

    fn read_tenants(&self, state: &mut TenantState) {
        loaded(state.load(&self.images));
        loaded(state.load_catalogs(&self.images));
        loaded(self.images.rows(&mut state.payment_rules));
        for (tenant, bytes) in &mut state.values_bytes {
            let own = self.images.all::<TenantValue>().filter(|it| it.tenant == *tenant);
            *bytes = own.map(TenantValue::counted_bytes).sum();
        }
    }

    fn read_accounts(&self, state: &mut AccountState) {
        for lists in [&mut state.methods_listed, &mut state.methods_to_choose] {
            for (of, ids) in lists {
                *ids = self.methods_of(*of);
                ids.iter().for_each(|id| state.payment_methods.look_for((of.0, *id)));
            }
        }
        loaded(self.images.rows(&mut state.payment_methods));
        for method in state.payment_methods.iter() {
            state.accounts.look_for((method.tenant, method.account_id));
        }
        loaded(self.images.rows(&mut state.accounts));
        for account in state.accounts.iter() {
            let key = account.key();
            state.people.extend(self.people.get(&key).map(|person| (key, person.clone())));
            state.closed.extend(self.is_closed(key).then_some(key));
            let methods = [account.payment_method_id, account.external_payment_method];
            for method in methods.into_iter().flatten() {
                state.payment_methods.look_for((key.0, method));
            }
        }
        // They belong to accounts that are loaded already.
        loaded(self.images.rows(&mut state.payment_methods));
        for ((tenant, id), is_used) in &mut state.tag_definition_uses {
            let of_definition = (*tenant, DefinitionRef::Own(*id));
            let mut tags = self.images.all::<Tag>();
            *is_used = tags.any(|it| it.active && (it.tenant, it.key.definition) == of_definition);
        }
        loaded(state.load(&self.images));
    }

    /// The active payment methods of an account.
    fn methods_of(&self, of: (TenantNo, AccountId)) -> BTreeSet<PaymentMethodId> {
        let methods = self.images.all::<PaymentMethod>();
        let own = methods.filter(|it| (it.tenant, it.account_id) == of && it.active);
        own.map(|it| it.id).collect()
    }

    fn is_closed(&self, of: (TenantNo, AccountId)) -> bool {
        let states = self.images.all::<BlockingState>();
        let own = states.filter(|it| it.active && (it.tenant, it.account) == of);
        let newest = own.filter(|it| it.closes().is_some()).max_by_key(|it| it.ordinal);
        newest.is_some_and(|it| it.closes() == Some(true))
    }

    fn read_billing(&self, state: &mut BillingState, no: PartitionNo) {
        loaded(state.load(&self.images));
        let accounts: Vec<_> = state.subscriptions.owners().copied().collect();
        // Those that ended before all was settled are not looked at.
        let mut since = BTreeMap::new();
        for account in accounts {
            for it in state.subscriptions.of(&account).values() {
                since.insert(it.key(), state.items_from(it));
                state.items.look_for(it.key());
            }
        }
        loaded(self.images.parts(&mut state.items));
        state.items.retain(|it| !it.voided && since[&it.owner()] <= it.last_day);
        for ((tenant, _, invoice), items) in &mut state.invoice_items {
            let own = || self.images.all::<InvoiceItem>().filter(|it| it.tenant == *tenant);
            let of: Vec<_> = own().filter(|it| it.invoice_id == *invoice).collect();
            let linked = own().filter(|it| of.iter().any(|of| of.linked == Some(it.id)));
            let found: Vec<InvoiceItem> = of.iter().copied().chain(linked).map(row).collect();
            for repair in found.iter().filter(|it| it.kind == ItemKind::RepairAdj) {
                let others = own().filter(|it| it.owner() == repair.owner() && !it.voided);
                let others = others.filter(|it| it.last_day >= repair.start);
                others.for_each(|it| state.items.put(row(it)));
            }
            items.extend(found.into_iter().map(|it| (it.id, it)));
        }
        for (of, open) in &mut state.open_invoices {
            let invoices = self.images.all::<Invoice>();
            let own = invoices.filter(|it| (it.tenant, it.account_id) == *of && it.is_open());
            open.extend(own.map(|it| it.id));
            open.iter().for_each(|id| state.invoices.look_for((of.0, *id)));
        }
        loaded(self.images.rows(&mut state.invoices));
        for (tenant, newest) in &mut state.invoice_numbers {
            let own = self.images.all::<Invoice>().filter(|it| it.tenant == *tenant);
            let numbers = own.map(|it| it.number);
            let of_partition = numbers.filter(|it| Seq(*it).partition() == no);
            *newest = of_partition.max().unwrap_or_default();
        }
    }

    fn read_customers(&self, state: &mut CustomerState) {
        load(|key| self.customer(*key), &mut state.customers);
        loaded(self.images.rows(&mut state.operations));
    }

    fn read_payments(&self, state: &mut PaymentState) {
        for ((tenant, id), payment) in &mut state.transactions {
            let mut own = self.transactions.iter().filter(|((no, _), _)| no == tenant);
            *payment = own.find(|(_, ids)| ids.contains(id)).map(|((_, payment), _)| *payment);
            payment.iter().for_each(|it| state.payments.look_for((*tenant, *it)));
        }
        load(|key| self.file(*key), &mut state.payments);
        for key in state.payments.iter().flat_map(|it| &it.transactions).map(Keyed::key) {
            state.outstanding.extend(self.outstanding.get(&key).map(|it| (key, it.clone())));
        }
    }

    /// What payments are checked against.
    fn read_of_payments(&self, state: &mut PaymentState) {
        for (of, found) in &mut state.attempts {
            let of_payment = self.images.all::<PaymentAttempt>().filter(|it| {
                (it.tenant, it.payment_id) == (of.0, Some(of.1)) && it.transaction_id.is_some()
            });
            *found = of_payment.map(row).collect();
            for it in found {
                state.velocities.look_for((it.tenant, it.account_id));
            }
        }
        for (of, found) in &mut state.scheduled_attempts {
            let attempts = self.images.all::<PaymentAttempt>();
            let own =
                attempts.filter(|it| (it.tenant, it.account_id) == *of && it.due_at.is_some());
            *found = own.map(row).collect();
            found.sort_by_key(|it| (it.due_at, it.id));
        }
        load(|key| self.velocities.find(key).cloned(), &mut state.velocities);
        loaded(self.images.rows(&mut state.disputes));
        for (of, count) in &mut state.dispute_counts {
            let all = self.images.all::<Dispute>();
            *count = all.filter(|it| (it.tenant, it.payment_id) == *of).count();
        }
    }

    fn read_offers(&self, state: &mut EntitlementState) {
        for (tenant, key) in &mut state.newcomers_offers {
            let mut own = self.images.all::<Offer>().filter(|it| it.tenant == *tenant);
            let found = own.find(|it| it.terms.for_newcomers);
            *key = found.map(|it| it.key.clone());
            found.into_iter().for_each(|it| state.offers.look_for(it.key()));
        }
        loaded(self.images.rows(&mut state.offers));
    }

    fn read_entitlements(&self, state: &mut EntitlementState) {
        loaded(self.images.rows(&mut state.features));
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        for (tenant, size) in &mut state.catalog_sizes {
            let features = self.images.all::<Feature>().filter(|it| it.tenant == *tenant);
            let offers = self.images.all::<Offer>().filter(|it| it.tenant == *tenant);
            (size.features, size.offers) = (count(features.count()), count(offers.count()));
            let featured = self.images.all::<PlanFeatures>().filter(|it| it.tenant == *tenant);
            size.featured = count(featured.count());
        }
        loaded(self.images.rows(&mut state.purchases));
        loaded(self.images.rows(&mut state.entitlements));
        for (of, users) in &mut state.account_users {
            *users = self.users.get(of).cloned().unwrap_or_default();
        }
        self.read_usage(&mut state.usage);
    }

    fn read_usage(&self, state: &mut UsageState) {
        load(|key| self.usage_events.find(key).cloned(), &mut state.events);
        load(|key| self.reservations.find(key).cloned(), &mut state.reservations);
        for it in state.reservations.iter() {
            state.counts.entry((it.tenant, it.account_id, it.feature.clone())).or_default();
        }
        for ((tenant, account, feature), counts) in &mut state.counts {
            let of_feature = |it: &&Usage| {
                (it.tenant, it.account_id, &it.feature) == (*tenant, *account, feature)
            };
            let found = self.usage.iter().filter(of_feature);
            *counts = found.map(|it| (it.period, it.clone())).collect::<BTreeMap<_, _>>();
        }
        for of in &state.reserved {
            let own = self.usage.iter().filter(|it| (it.tenant, it.account_id) == *of);
            for it in own.filter(|it| !it.reserved.is_empty()) {
                let key = (it.tenant, it.account_id, it.feature.clone());
                state.counts.entry(key).or_default().insert(it.period, it.clone());
            }
        }
    }
}
