//! Features, offers, and what accounts may do, as rules look them up.

use std::collections::BTreeSet;

use crate::entitlement::Entitlements;
use crate::entitlement::feature::Feature;
use crate::entitlement::offer::Offer;
use crate::entitlement::purchase::Purchase;
use crate::entitlement::usage::{EventKey, Reservation, Usage, UsageEvent};
use crate::state::{CatalogSize, Featured, LOADED, State, UsageState};
use crate::{AccountId, PurchaseId, ReservationId, TenantNo};

impl State {
    pub(crate) fn feature(&self, tenant: TenantNo, key: &str) -> Option<&Feature> {
        self.entitlement.features.get(&(tenant, key.to_owned()))
    }

    /// The newest version of an offer.
    pub(crate) fn offer(&self, tenant: TenantNo, key: &str) -> Option<&Offer> {
        self.entitlement.offers.get(&(tenant, key.to_owned()))
    }

    /// The offer that newcomers get.
    pub(crate) fn newcomers_offer(&self, tenant: TenantNo) -> Option<&Offer> {
        let key = self.entitlement.newcomers_offers.get(&tenant).expect(LOADED).as_ref()?;
        self.offer(tenant, key)
    }

    /// Whether a tenant had features of plans when the batch began.
    pub(crate) fn featured(&self, tenant: TenantNo) -> Featured {
        *self.entitlement.featured.get(&tenant).expect(LOADED)
    }

    pub(crate) fn catalog_size(&self, tenant: TenantNo) -> CatalogSize {
        *self.entitlement.catalog_sizes.get(&tenant).expect(LOADED)
    }

    /// A purchase whose payment is here.
    pub(crate) fn purchase(&self, tenant: TenantNo, id: PurchaseId) -> &Purchase {
        self.entitlement.purchases.get(&(tenant, id)).expect(LOADED)
    }

    pub(crate) fn entitlements(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> Option<&Entitlements> {
        self.entitlement.entitlements.get(&(tenant, account))
    }

    pub(crate) fn account_users(&self, tenant: TenantNo, account: AccountId) -> &BTreeSet<String> {
        self.entitlement.account_users.get(&(tenant, account)).expect(LOADED)
    }

    /// An account's usage of a feature in its newest periods.
    pub(crate) fn usage(
        &self,
        (tenant, account): (TenantNo, AccountId),
        feature: &str,
    ) -> impl Iterator<Item = &Usage> {
        let key = (tenant, account, feature.to_owned());
        self.entitlement.usage.counts.get(&key).expect(LOADED).values()
    }

    /// An account's usage in the periods in which something is reserved, and in others that are loaded.
    pub(crate) fn reserved_usage(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> impl Iterator<Item = &Usage> {
        let UsageState { counts, reserved, .. } = &self.entitlement.usage;
        assert!(reserved.contains(&(tenant, account)), "{LOADED}");
        let own = counts
            .range((tenant, account, String::new())..)
            .take_while(move |(key, _)| (key.0, key.1) == (tenant, account));
        own.flat_map(|(_, periods)| periods.values())
    }

    pub(crate) fn usage_event(
        &self,
        tenant: TenantNo,
        account: AccountId,
        key: EventKey,
    ) -> Option<&UsageEvent> {
        self.entitlement.usage.events.get(&(tenant, account, key))
    }

    pub(crate) fn reservation(
        &self,
        tenant: TenantNo,
        account: AccountId,
        id: ReservationId,
    ) -> Option<&Reservation> {
        self.entitlement.usage.reservations.get(&(tenant, account, id))
    }
}
