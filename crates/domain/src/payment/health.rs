//! Which gateways take no calls at the moment: an input of a batch, like its time.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::TenantNo;

/// Why a gateway takes no calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unready {
    /// Too many of its calls failed, or were slow.
    BreakerOpen,
    /// An operator has stopped it.
    Stopped,
    /// It has as many calls in flight as it may.
    Full,
}

impl Unready {
    /// In words, for an explanation.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::BreakerOpen => "its breaker is open",
            Self::Stopped => "an operator has stopped it",
            Self::Full => "it has as many calls in flight as it may",
        }
    }
}

/// The gateways that take no calls of a tenant; all others do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health(BTreeMap<String, Unready>);

impl Health {
    /// Why a gateway takes no calls, where it takes none.
    #[must_use]
    pub fn unready(&self, gateway: &str) -> Option<Unready> {
        self.0.get(gateway).copied()
    }

    /// Notes that a gateway takes no calls.
    pub fn set(&mut self, gateway: &str, why: Unready) {
        self.0.insert(gateway.to_owned(), why);
    }

    /// Whether all gateways take calls.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.0.is_empty()
    }
}

/// The health of the gateways for the commands of a batch: for all tenants, and for single ones beside that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchHealth {
    all: Health,
    of_tenants: BTreeMap<TenantNo, Health>,
}

impl BatchHealth {
    /// Notes that a gateway takes no calls.
    pub fn set(&mut self, gateway: &str, why: Unready) {
        self.all.set(gateway, why);
    }

    /// Notes that a gateway takes no calls of a tenant.
    pub fn set_of(&mut self, tenant: TenantNo, gateway: &str, why: Unready) {
        self.of_tenants.entry(tenant).or_default().set(gateway, why);
    }

    /// The health of the gateways for a tenant. What holds for all tenants comes first.
    #[must_use]
    pub fn of(&self, tenant: TenantNo) -> Cow<'_, Health> {
        let Some(own) = self.of_tenants.get(&tenant) else { return Cow::Borrowed(&self.all) };
        let mut health = own.clone();
        health.0.extend(self.all.0.iter().map(|(gateway, why)| (gateway.clone(), *why)));
        Cow::Owned(health)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_sees_what_holds_for_all_and_for_itself_alone() {
        let mut batch = BatchHealth::default();
        batch.set("acme", Unready::Stopped);
        batch.set_of(TenantNo(1), "acme", Unready::BreakerOpen);
        batch.set_of(TenantNo(1), "bank", Unready::BreakerOpen);
        let seen = |tenant| ["acme", "bank"].map(|it| batch.of(TenantNo(tenant)).unready(it));
        assert_eq!(seen(1), [Some(Unready::Stopped), Some(Unready::BreakerOpen)]);
        assert_eq!(seen(2), [Some(Unready::Stopped), None]);
    }
}
