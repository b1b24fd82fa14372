//! The state that commands look at: the rows that a batch loaded, with the changes of its commands since.
//!
//! Each group of rows is with its aggregate, in its `read.rs`: its rows, its reads, and what a change does to it.

use std::collections::BTreeMap;

use crate::account::tag::TagKey;
use crate::change::{AccountChange, Change, ClaimChange, TimerChange};
use crate::claim::{Claim, ClaimKey, ClaimKind};
use crate::entitlement::plan_features::{FeaturesOf, PlanOrProduct};
use crate::object::Object;
use crate::payment::{PaidFor, PaymentFile};
use crate::read::{
    AccountRow, BillingRead, EntitlementRead, PaymentRead, Read, TenantRead, TenantRow,
};
use crate::rows::Rows;
use crate::timer::{Timer, TimerKey};
use crate::{AccountId, PaymentId, PaymentMethodId, TenantNo};

pub use crate::access::read::AccessState;
pub use crate::account::read::AccountState;
pub use crate::billing::read::BillingState;
pub use crate::customer::read::CustomerState;
pub use crate::entitlement::read::{CatalogSize, EntitlementState, Featured, UsageState};
pub use crate::flag::read::FlagState;
pub use crate::payment::read::PaymentState;
pub use crate::tenant::read::TenantState;

/// The rows of a batch, in the groups of [`Change`]. A row that was looked for and is not there is known as
/// absent; a look at a row that nobody loaded is a bug and panics.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub tenant: TenantState,
    pub access: AccessState,
    pub flag: FlagState,
    pub account: AccountState,
    pub customer: CustomerState,
    pub payment: PaymentState,
    pub entitlement: EntitlementState,
    pub billing: BillingState,
    /// Claims by key.
    pub claims: BTreeMap<ClaimKey, Option<Claim>>,
    pub timers: Rows<Timer>,
}

pub(crate) const LOADED: &str = "a command's reads are loaded before it is executed";

impl State {
    pub(crate) fn claim(&self, key: &ClaimKey) -> Option<&Claim> {
        self.claims.get(key).expect(LOADED).as_ref()
    }

    pub(crate) fn timer(&self, tenant: TenantNo, key: TimerKey) -> Option<&Timer> {
        self.timers.get(&(tenant, key))
    }

    /// Notes that rows are looked for: they are absent until they are loaded.
    pub fn look_for(&mut self, read: &Read) {
        match read {
            Read::Tenant(it) => self.tenant.look_for(it),
            Read::Access(it) => self.access.look_for(it),
            Read::Flag(it) => self.flag.look_for(it),
            Read::Account(it) => self.account.look_for(it),
            Read::Customer(it) => self.customer.look_for(it),
            Read::Payment(it) => self.payment.look_for(it),
            Read::Entitlement(it) => self.entitlement.look_for(it),
            Read::Billing(it) => self.billing.look_for(it),
            Read::Claim(key) => drop(self.claims.entry(key.clone()).or_default()),
            Read::Timer(tenant, key) => self.timers.look_for((*tenant, *key)),
        }
        if let Read::Payment(PaymentRead::Rules(tenant, _)) = read {
            self.tenant.payment_rules.look_for(*tenant);
        }
    }

    /// Looks for the rows that claims are of, once the claims are loaded.
    pub fn look_for_owners(&mut self) {
        for (key, claim) in &self.claims {
            let Some(Claim { owner, .. }) = *claim else { continue };
            let tenant = key.tenant;
            match key.kind {
                ClaimKind::Account => {
                    self.account.accounts.look_for((tenant, AccountId::new(owner)));
                }
                ClaimKind::PaymentMethod => {
                    self.account.payment_methods.look_for((tenant, PaymentMethodId::new(owner)));
                }
                ClaimKind::Payment | ClaimKind::Transaction => {
                    self.payment.payments.look_for((tenant, PaymentId::new(owner)));
                }
                ClaimKind::TenantApiKey
                | ClaimKind::TenantId
                | ClaimKind::Environment
                | ClaimKind::CustomerEmail
                | ClaimKind::TagDefinition
                | ClaimKind::ImportedId
                | ClaimKind::Dispute
                | ClaimKind::Bundle => {}
            }
        }
    }

    /// Looks for what belongs to payments, once the payments are loaded.
    pub fn look_for_of_payments(&mut self) {
        for PaymentFile { payment, transactions } in self.payment.payments.iter() {
            let (tenant, account) = (payment.tenant, payment.account_id);
            self.account.accounts.look_for((tenant, account));
            let methods = transactions.iter().map(|it| it.payment_method_id);
            for method in methods.chain([payment.payment_method_id]) {
                self.account.payment_methods.look_for((tenant, method));
            }
            match payment.paid_for {
                Some(PaidFor::Purchase(purchase)) => {
                    self.entitlement.purchases.look_for((tenant, purchase));
                    self.entitlement.entitlements.look_for((tenant, account));
                }
                Some(PaidFor::Invoice { invoice }) => {
                    self.billing.invoices.look_for((tenant, invoice));
                    self.entitlement.look_for(&EntitlementRead::OfPaid(tenant, account));
                }
                None => {}
            }
        }
    }

    /// Looks for what tenants' rules say of payments that start, once the rules are loaded: velocities, methods to choose
    /// from, and the tags and fields that payments are routed by.
    pub fn look_for_by_rules(&mut self) {
        for &(tenant, account) in &self.payment.started {
            let Some(rules) = self.tenant.payment_rules.find(&tenant) else { continue };
            let object = Object::Account(account);
            if let Some(routing) = &rules.routing {
                for definition in routing.tags() {
                    let key = TagKey::new(account, object, definition);
                    self.account.tags.look_for((tenant, key));
                }
                if routing.has_fields() {
                    self.account.custom_fields.look_for((tenant, object));
                }
            }
            let Some(limits) = &rules.limits else { continue };
            if limits.every_payment {
                self.payment.velocities.look_for((tenant, account));
            }
            if !limits.method_gateways.is_empty() {
                self.account.methods_to_choose.entry((tenant, account)).or_default();
            }
        }
    }

    /// Looks for what offers name, once the offers are loaded: features, and the tags of the accounts that buy.
    pub fn look_for_by_offers(&mut self) {
        let EntitlementState { features, offers, buyers, newcomers_offers, .. } =
            &mut self.entitlement;
        let of_newcomers =
            newcomers_offers.iter().filter_map(|(no, key)| Some((*no, key.clone()?)));
        let bought = buyers.iter().map(|(no, key, _)| (*no, key.clone()));
        for key in of_newcomers.chain(bought) {
            for feature in offers.find(&key).iter().flat_map(|it| it.terms.features.keys()) {
                features.look_for((key.0, feature.clone()));
            }
        }
        for (tenant, key, account) in buyers.iter() {
            let offer = offers.find(&(*tenant, key.clone()));
            for definition in offer.iter().flat_map(|it| &it.terms.buyers.tags) {
                let key = TagKey::new(*account, Object::Account(*account), *definition);
                self.account.tags.look_for((*tenant, key));
            }
        }
    }

    /// Looks for what the payment of an invoice may switch on, once the payments and [`EntitlementState::featured`] are
    /// loaded: all that a run of its account looks at.
    pub fn look_for_of_paid(&mut self) {
        let payers: Vec<_> = self.entitlement.payers.iter().copied().collect();
        for (tenant, account) in payers {
            if self.entitlement.featured.get(&tenant).is_some_and(|it| it.on_payment) {
                self.look_for(&BillingRead::Account(tenant, account).into());
                self.look_for(&TenantRow::CatalogVersions(tenant).into());
                self.look_for(&TenantRead::PaymentRules(tenant).into());
                self.look_for(&AccountRow::BlockingStates(tenant, account).into());
                self.entitlement.subscribers.insert((tenant, account));
            }
        }
    }

    /// Looks for the features of the plans that are subscribed to, once subscriptions and catalogs are loaded; for none
    /// where the tenant has no features of plans.
    pub fn look_for_of_subscriptions(&mut self) {
        let Self { entitlement, billing, tenant: TenantState { catalog_versions, .. }, .. } = self;
        let is_featured = |no: &TenantNo| entitlement.featured.get(no).is_some_and(|it| it.any);
        let mut named = entitlement.chosen.clone();
        named.retain(|(no, _)| is_featured(no));
        let mut subscribers = entitlement.subscribers.clone();
        subscribers.retain(|(no, _)| is_featured(no));
        for key in &subscribers {
            entitlement.entitlements.look_for(*key);
            let known = billing.subscriptions.find(key);
            for it in known.into_iter().flat_map(BTreeMap::values) {
                if let Some(invoice) = it.first_charged {
                    billing.invoices.look_for((key.0, invoice));
                }
                named.extend(it.plans_ahead().map(|plan| (key.0, FeaturesOf::plan(plan))));
            }
        }
        for (no, of) in named {
            let versions = catalog_versions.find(&no).into_iter().flat_map(BTreeMap::values);
            let plans = versions.flat_map(|it| &it.catalog.plans).filter(|it| match of.kind {
                PlanOrProduct::Plan => it.name == of.name,
                PlanOrProduct::Product => it.product == of.name,
            });
            for plan in plans {
                entitlement.plan_features.look_for((no, FeaturesOf::product(&plan.product)));
                entitlement.plan_features.look_for((no, FeaturesOf::plan(&plan.name)));
            }
        }
    }

    /// Looks for the features that plans name, once these are loaded.
    pub fn look_for_of_plans(&mut self) {
        let EntitlementState { features, plan_features, .. } = &mut self.entitlement;
        for it in plan_features.iter() {
            it.features.keys().for_each(|key| features.look_for((it.tenant, key.clone())));
        }
    }

    /// Makes a command's changes visible to the commands after it in the batch.
    pub fn apply(&mut self, tenant: TenantNo, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Tenant(it) => self.tenant.apply(it),
                Change::Access(it) => self.access.apply(it),
                Change::Flag(it) => self.flag.apply(it),
                Change::Account(it) => {
                    if let AccountChange::PersonErased { account } = it {
                        self.billing.erase((tenant, *account));
                    }
                    self.account.apply(tenant, it);
                    self.payment.apply_to_account(tenant, it);
                }
                Change::Customer(it) => self.customer.apply(tenant, it),
                Change::Payment(it) => self.payment.apply(tenant, it),
                Change::Entitlement(it) => self.entitlement.apply(it),
                Change::Billing(it) => self.billing.apply(it),
                // No rule reads the ledger.
                Change::Posting(_) => {}
                Change::Claim(ClaimChange::Taken { key, claim }) => {
                    self.claims.insert(key.clone(), Some(*claim));
                }
                Change::Claim(ClaimChange::Released { key }) => {
                    self.claims.insert(key.clone(), None);
                }
                Change::Timer(TimerChange::Set(timer)) => drop(self.timers.put(timer.clone())),
                Change::Timer(TimerChange::Cleared(key)) => self.timers.set((tenant, *key), None),
                Change::ReplySettled(_) => {}
            }
        }
    }
}
