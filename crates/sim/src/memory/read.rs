//! Loads rows with those that belong to them.

use std::collections::BTreeSet;
use std::convert::Infallible;

use domain::account::blocking_state::BlockingState;
use domain::account::tag::{DefinitionRef, Tag, TagKey};
use domain::claim::{ClaimKey, ClaimKind};
use domain::entitlement::feature::Feature;
use domain::entitlement::offer::Offer;
use domain::entitlement::usage::Usage;
use domain::object::Object;
use domain::payment::PaidFor;
use domain::payment::attempt::PaymentAttempt;
use domain::payment::dispute::Dispute;
use domain::read::{
    AccountRead, CustomerRead, EntitlementRead, PaymentRead, Read, TenantRead, UsageRead,
};
use domain::state::{CatalogSize, State};
use domain::tenant::TenantValue;
use domain::tenant::payment_rules::PaymentRules;
use domain::{
    Account, AccountId, PaymentId, PaymentMethod, PaymentMethodId, ReservationId, TagDefinitionId,
    TenantNo, TransactionId,
};

use super::{Tables, row};

/// Memory is always read.
fn loaded(Ok(()): Result<(), Infallible>) {}

impl Tables {
    /// Loads a row with what belongs to it.
    pub(super) fn read(&self, read: &Read, state: &mut State) {
        match read {
            Read::Tenant(it) => self.of_tenant(it, state),
            Read::Access(it) => loaded(state.access.load([it], &self.images)),
            Read::Flag(it) => loaded(state.flag.load([it], &self.images)),
            Read::Account(it) => self.of_account(it, state),
            Read::Customer(it) => self.of_customer(it, state),
            Read::Payment(it) => self.of_payment(it, state),
            Read::Entitlement(it) => self.of_entitlement(it, state),
            Read::Claim(key) => self.read_claim(key, state),
            Read::Timer(tenant, key) => {
                state.timers.set((*tenant, *key), self.timers.get(&(*tenant, *key)).cloned());
            }
        }
    }

    fn of_tenant(&self, read: &TenantRead, state: &mut State) {
        match read {
            TenantRead::PaymentRules(tenant) => self.read_rules(*tenant, state),
            TenantRead::Row(row) => loaded(state.tenant.load([row], &self.images)),
            TenantRead::ValuesBytes(tenant) => self.count_values(*tenant, state),
        }
    }

    fn of_account(&self, read: &AccountRead, state: &mut State) {
        match read {
            AccountRead::Account(tenant, id) => self.read_account((*tenant, *id), state),
            AccountRead::PaymentMethod(tenant, id) => self.read_method((*tenant, *id), state),
            AccountRead::PaymentMethods(tenant, id) => {
                let ids = self.read_methods((*tenant, *id), state);
                state.account.methods_listed.insert((*tenant, *id), ids);
            }
            AccountRead::TagDefinitionUse(tenant, id) => self.read_tag_use((*tenant, *id), state),
            AccountRead::Row(row) => loaded(state.account.load([row], &self.images)),
        }
    }

    fn of_customer(&self, read: &CustomerRead, state: &mut State) {
        let images = &self.images;
        match read {
            CustomerRead::Customer(tenant, id) => {
                state.customer.customers.set((*tenant, *id), self.customer((*tenant, *id)));
            }
            CustomerRead::Operation(no, id) => {
                images.load((*no, *id), &mut state.customer.operations)
            }
        }
    }

    fn of_payment(&self, read: &PaymentRead, state: &mut State) {
        let images = &self.images;
        match read {
            PaymentRead::Payment(tenant, id) => self.read_payment((*tenant, *id), state),
            PaymentRead::Transaction(tenant, id) => self.read_transaction((*tenant, *id), state),
            PaymentRead::Attempts(tenant, id) => self.read_attempts((*tenant, *id), state),
            PaymentRead::ScheduledAttempts(tenant, id) => {
                self.read_scheduled((*tenant, *id), state)
            }
            PaymentRead::Velocity(tenant, id) => self.read_velocity((*tenant, *id), state),
            PaymentRead::Rules(tenant, id) => self.read_for_payment((*tenant, *id), state),
            PaymentRead::Dispute(no, case) => {
                images.load((*no, case.clone()), &mut state.payment.disputes)
            }
            PaymentRead::DisputeCount(tenant, id) => self.count_disputes((*tenant, *id), state),
        }
    }

    fn of_entitlement(&self, read: &EntitlementRead, state: &mut State) {
        match read {
            EntitlementRead::Feature(tenant, key) => self.read_feature(*tenant, key, state),
            EntitlementRead::Offer(tenant, key) => drop(self.read_offer(*tenant, key, state)),
            EntitlementRead::OfferForAccount(tenant, key, account) => {
                self.read_offer_for((*tenant, *account), key, state);
            }
            EntitlementRead::NewcomersOffer(tenant) => self.read_newcomers(*tenant, state),
            EntitlementRead::CatalogSize(tenant) => self.read_size(*tenant, state),
            EntitlementRead::Entitlements(tenant, id) => {
                self.read_entitlements((*tenant, *id), state)
            }
            EntitlementRead::Users(tenant, id) => {
                let users = self.users.get(&(*tenant, *id)).cloned().unwrap_or_default();
                state.entitlement.account_users.insert((*tenant, *id), users);
            }
            EntitlementRead::Usage(read) => self.read_usage(read, state),
        }
    }

    fn count_values(&self, tenant: TenantNo, state: &mut State) {
        let own = self.images.all::<TenantValue>().filter(|it| it.tenant == tenant);
        state.tenant.values_bytes.insert(tenant, own.map(TenantValue::counted_bytes).sum());
    }

    fn count_disputes(&self, of: (TenantNo, PaymentId), state: &mut State) {
        let own = self.images.all::<Dispute>().filter(|it| (it.tenant, it.payment_id) == of);
        state.payment.dispute_counts.insert(of, own.count());
    }

    fn read_account(&self, key: (TenantNo, AccountId), state: &mut State) {
        let account: Option<Account> = self.images.get(&key);
        if let Some(person) = self.people.get(&key) {
            state.account.people.insert(key, person.clone());
        }
        if let Some(default) = account.as_ref().and_then(|account| account.payment_method_id) {
            let of_default = (key.0, default);
            self.images.load(of_default, &mut state.account.payment_methods);
        }
        let closing = self.states_of(key).filter(|it| it.closes().is_some());
        if closing.max_by_key(|it| it.ordinal).is_some_and(|it| it.closes() == Some(true)) {
            state.account.closed.insert(key);
        }
        state.account.accounts.set(key, account);
    }

    fn states_of(&self, of: (TenantNo, AccountId)) -> impl Iterator<Item = &BlockingState> {
        let states = self.images.all::<BlockingState>();
        states.filter(move |it| it.active && (it.tenant, it.account) == of)
    }

    fn read_tag_use(&self, (tenant, id): (TenantNo, TagDefinitionId), state: &mut State) {
        let of_definition = (tenant, DefinitionRef::Own(id));
        let mut tags = self.images.all::<Tag>();
        let is_used = tags.any(|it| it.active && (it.tenant, it.key.definition) == of_definition);
        state.account.tag_definition_uses.insert((tenant, id), is_used);
    }

    fn read_method(&self, key: (TenantNo, PaymentMethodId), state: &mut State) {
        let method: Option<PaymentMethod> = self.images.get(&key);
        if let Some(method) = &method {
            self.read_account((key.0, method.account_id), state);
        }
        state.account.payment_methods.set(key, method);
    }

    fn read_methods(
        &self,
        of: (TenantNo, AccountId),
        state: &mut State,
    ) -> BTreeSet<PaymentMethodId> {
        let methods = self.images.all::<PaymentMethod>();
        let own = methods.filter(|it| (it.tenant, it.account_id) == of && it.active);
        let ids: BTreeSet<PaymentMethodId> = own.map(|it| it.id).collect();
        ids.iter().for_each(|id| self.read_method((of.0, *id), state));
        ids
    }

    fn read_payment(&self, key: (TenantNo, PaymentId), state: &mut State) {
        let tenant = key.0;
        let file = self.file(key);
        if let Some(file) = &file {
            self.read_account((tenant, file.payment.account_id), state);
            self.read_method((tenant, file.payment.payment_method_id), state);
            if let Some(PaidFor::Purchase(purchase)) = file.payment.paid_for {
                let purchase = self.images.get(&(tenant, purchase));
                purchase.into_iter().for_each(|it| drop(state.entitlement.purchases.put(it)));
                self.read_entitlements((tenant, file.payment.account_id), state);
            }
            for transaction in &file.transactions {
                self.read_method((tenant, transaction.payment_method_id), state);
                if let Some(open) = self.outstanding.get(&(tenant, transaction.id)) {
                    state.payment.outstanding.insert((tenant, transaction.id), open.clone());
                }
            }
        }
        state.payment.payments.set(key, file);
    }

    fn read_transaction(&self, (tenant, id): (TenantNo, TransactionId), state: &mut State) {
        let mut own = self.transactions.iter().filter(|((no, _), _)| *no == tenant);
        let found = own.find(|(_, ids)| ids.contains(&id)).map(|((_, payment), _)| *payment);
        state.payment.transactions.insert((tenant, id), found);
        if let Some(payment) = found {
            self.read_payment((tenant, payment), state);
        }
    }

    fn read_attempts(&self, of: (TenantNo, PaymentId), state: &mut State) {
        let of_payment = self.images.all::<PaymentAttempt>().filter(|it| {
            (it.tenant, it.payment_id) == (of.0, Some(of.1)) && it.transaction_id.is_some()
        });
        let found: Vec<PaymentAttempt> = of_payment.map(row).collect();
        for it in &found {
            self.read_velocity((it.tenant, it.account_id), state);
        }
        state.payment.attempts.insert(of, found);
    }

    fn read_scheduled(&self, of: (TenantNo, AccountId), state: &mut State) {
        let attempts = self.images.all::<PaymentAttempt>();
        let own = attempts.filter(|it| (it.tenant, it.account_id) == of && it.due_at.is_some());
        let mut found: Vec<PaymentAttempt> = own.map(row).collect();
        found.sort_by_key(|it| (it.due_at, it.id));
        state.payment.scheduled_attempts.insert(of, found);
    }

    fn read_velocity(&self, of: (TenantNo, AccountId), state: &mut State) {
        state.payment.velocities.set(of, self.velocities.get(&of).cloned());
    }

    fn read_rules(&self, tenant: TenantNo, state: &mut State) {
        self.images.load(tenant, &mut state.tenant.payment_rules);
    }

    /// A tenant's rules, with the rows that a payment is checked against by them.
    fn read_for_payment(&self, of: (TenantNo, AccountId), state: &mut State) {
        self.read_rules(of.0, state);
        let rules: Option<PaymentRules> = self.images.get(&of.0);
        let Some(limits) = rules.and_then(|it| it.limits) else { return };
        if limits.every_payment {
            self.read_velocity(of, state);
        }
        if !limits.method_gateways.is_empty() {
            let ids = self.read_methods(of, state);
            state.account.methods_to_choose.insert(of, ids);
        }
    }

    fn read_claim(&self, key: &ClaimKey, state: &mut State) {
        let claim = self.claims.get(key).copied();
        state.claims.insert(key.clone(), claim);
        let Some(claim) = claim else { return };
        match key.kind {
            ClaimKind::Account => {
                self.read_account((key.tenant, AccountId::new(claim.owner)), state);
            }
            ClaimKind::PaymentMethod => {
                self.read_method((key.tenant, PaymentMethodId::new(claim.owner)), state);
            }
            ClaimKind::Payment | ClaimKind::Transaction => {
                self.read_payment((key.tenant, PaymentId::new(claim.owner)), state);
            }
            ClaimKind::TenantApiKey
            | ClaimKind::TenantId
            | ClaimKind::CustomerEmail
            | ClaimKind::Environment
            | ClaimKind::TagDefinition
            | ClaimKind::ImportedId
            | ClaimKind::Dispute => {}
        }
    }

    fn read_feature(&self, tenant: TenantNo, key: &str, state: &mut State) {
        self.images.load((tenant, key.to_owned()), &mut state.entitlement.features);
    }

    fn read_offer(&self, tenant: TenantNo, key: &str, state: &mut State) -> Option<Offer> {
        let key = (tenant, key.to_owned());
        let offer: Option<Offer> = self.images.get(&key);
        state.entitlement.offers.set(key, offer.clone());
        offer
    }

    /// An offer with its features, and with the tags of the account that it is for.
    fn read_offer_for(&self, of: (TenantNo, AccountId), key: &str, state: &mut State) {
        let Some(offer) = self.read_offer(of.0, key, state) else { return };
        for feature in offer.terms.features.keys() {
            self.read_feature(of.0, feature, state);
        }
        for definition in offer.terms.buyers.tags {
            let key = (of.0, TagKey::new(of.1, Object::Account(of.1), definition));
            self.images.load(key, &mut state.account.tags);
        }
    }

    fn read_newcomers(&self, tenant: TenantNo, state: &mut State) {
        let mut own = self.images.all::<Offer>().filter(|it| it.tenant == tenant);
        let found = own.find(|it| it.terms.for_newcomers);
        state.entitlement.newcomers_offers.insert(tenant, found.map(|it| it.key.clone()));
        let Some(offer) = found else { return };
        self.read_offer(tenant, &offer.key, state);
        for feature in offer.terms.features.keys() {
            self.read_feature(tenant, feature, state);
        }
    }

    fn read_size(&self, tenant: TenantNo, state: &mut State) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let features = self.images.all::<Feature>().filter(|it| it.tenant == tenant).count();
        let offers = self.images.all::<Offer>().filter(|it| it.tenant == tenant).count();
        let size = CatalogSize { features: count(features), offers: count(offers) };
        state.entitlement.catalog_sizes.insert(tenant, size);
    }

    fn read_entitlements(&self, key: (TenantNo, AccountId), state: &mut State) {
        self.images.load(key, &mut state.entitlement.entitlements);
    }

    fn read_usage(&self, read: &UsageRead, state: &mut State) {
        match read {
            UsageRead::Feature(tenant, account, feature) => {
                self.read_counts((*tenant, *account, feature.clone()), state);
            }
            UsageRead::Reserved(tenant, account) => self.read_reserved((*tenant, *account), state),
            UsageRead::Event(tenant, account, key) => {
                let key = (*tenant, *account, *key);
                state.entitlement.usage.events.set(key, self.usage_events.get(&key).cloned());
            }
            UsageRead::Reservation(tenant, account, id) => {
                self.read_reservation((*tenant, *account, *id), state);
            }
        }
    }

    fn read_counts(&self, key: (TenantNo, AccountId, String), state: &mut State) {
        let own = |it: &&Usage| (it.tenant, it.account_id, &it.feature) == (key.0, key.1, &key.2);
        let found: Vec<Usage> = self.usage.values().filter(own).cloned().collect();
        let counts = state.entitlement.usage.counts.entry(key).or_default();
        counts.extend(found.into_iter().map(|it| (it.period, it)));
    }

    fn read_reserved(&self, of: (TenantNo, AccountId), state: &mut State) {
        let own = self.usage.values().filter(|it| (it.tenant, it.account_id) == of);
        for it in own.filter(|it| !it.reserved.is_empty()) {
            let key = (of.0, of.1, it.feature.clone());
            let counts = state.entitlement.usage.counts.entry(key).or_default();
            counts.insert(it.period, it.clone());
        }
        state.entitlement.usage.reserved.insert(of);
    }

    fn read_reservation(&self, key: (TenantNo, AccountId, ReservationId), state: &mut State) {
        let found = self.reservations.get(&key);
        state.entitlement.usage.reservations.set(key, found.cloned());
        if let Some(it) = found {
            self.read_counts((it.tenant, it.account_id, it.feature.clone()), state);
        }
    }
}
