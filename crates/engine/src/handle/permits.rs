//! The calls that each gateway may have in flight: a tenant has three quarters of them at most, so that one
//! whose calls are slow, or many, leaves some to the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::TenantNo;

use crate::holdings::Holdings;
use crate::ports::Gateway;

/// The permits of all gateways, by name.
pub(crate) struct GatewayPermits(HashMap<String, Arc<OfGateway>>);

#[derive(Debug)]
struct OfGateway {
    calls_max: usize,
    of_tenant_max: usize,
    in_flight: Mutex<InFlight>,
}

#[derive(Debug, Default)]
struct InFlight {
    calls: usize,
    /// Of each tenant that has some.
    of_tenants: Holdings<TenantNo>,
}

/// The right to one of a gateway's calls, until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightPermit {
    of: Arc<OfGateway>,
    tenant: TenantNo,
}

impl GatewayPermits {
    /// Those of each gateway; `calls_max` where it has no limit of its own.
    pub(crate) fn new(gateways: &BTreeMap<String, Arc<dyn Gateway>>, calls_max: usize) -> Self {
        let of_gateway = |(name, gateway): (&String, &Arc<dyn Gateway>)| {
            (name.clone(), OfGateway::new(gateway.in_flight_max().unwrap_or(calls_max)))
        };
        Self(gateways.iter().map(of_gateway).collect())
    }

    /// A permit for a tenant's call; `None` where the gateway or the tenant has as many as it may.
    pub(crate) fn acquire(&self, gateway: &str, tenant: TenantNo) -> Option<InFlightPermit> {
        self.0.get(gateway)?.acquire(tenant)
    }

    /// Whether another call would find room at every gateway.
    pub(crate) fn have_room(&self) -> bool {
        self.0.values().all(|it| it.in_flight().calls < it.calls_max)
    }
}

impl OfGateway {
    fn new(calls_max: usize) -> Arc<Self> {
        let of_tenant_max = (calls_max - calls_max.div_ceil(4)).max(1);
        Arc::new(Self { calls_max, of_tenant_max, in_flight: Mutex::default() })
    }

    fn acquire(self: &Arc<Self>, tenant: TenantNo) -> Option<InFlightPermit> {
        let mut in_flight = self.in_flight();
        if in_flight.calls >= self.calls_max {
            return None;
        }
        if !in_flight.of_tenants.add_below(tenant, self.of_tenant_max) {
            return None;
        }
        in_flight.calls += 1;
        drop(in_flight);
        Some(InFlightPermit { of: Arc::clone(self), tenant })
    }

    fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        // Nothing panics while it is locked, so that it is whole even if somebody poisoned it.
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        let mut in_flight = self.of.in_flight();
        in_flight.calls -= 1;
        in_flight.of_tenants.remove(&self.tenant, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(of: &Arc<OfGateway>, tenant: u32, count: usize) -> Vec<InFlightPermit> {
        (0..count).map_while(|_| of.acquire(TenantNo(tenant))).collect()
    }

    #[test]
    fn one_tenant_has_three_quarters_at_most() {
        for (calls_max, of_tenant) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (4_096, 3_072)] {
            let of = OfGateway::new(calls_max);
            let held = acquire(&of, 1, 5_000);
            assert_eq!(held.len(), of_tenant, "of {calls_max}");
            let others = acquire(&of, 2, 5_000);
            assert_eq!(others.len(), (calls_max - of_tenant).min(of_tenant), "of {calls_max}");
            drop(held);
            assert_eq!(acquire(&of, 1, 1).len(), 1, "of {calls_max}");
        }
    }

    #[test]
    fn all_tenants_together_have_all_and_give_all_back() {
        let of = OfGateway::new(8);
        let held: Vec<_> = (1..4).map(|tenant| acquire(&of, tenant, 3)).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 2]);
        assert!(of.acquire(TenantNo(9)).is_none());
        drop(held);
        assert_eq!(of.in_flight().calls, 0);
        assert!(of.in_flight().of_tenants.is_empty());
    }
}
