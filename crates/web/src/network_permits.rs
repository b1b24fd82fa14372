//! Permits by network: one network, an IPv4 address or an IPv6 /64, may hold only so many.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::access::ClientAddress;
use engine::holdings::Holdings;

use crate::network::Network;

/// The permits of all networks. Memory grows with the networks that hold one.
#[derive(Debug)]
pub struct NetworkPermits {
    /// Permits of one network.
    network_max: usize,
    /// Networks that hold as many as they want.
    exempt: Vec<Network>,
    in_use: Mutex<Holdings<IpAddr>>,
}

/// A network's right to one connection or stream; dropping it gives it back.
pub struct NetworkPermit {
    /// `None` for an exempt network.
    counted: Option<(Arc<NetworkPermits>, IpAddr)>,
}

impl NetworkPermits {
    /// At most `network_max` for each network that is not `exempt`.
    #[must_use]
    pub fn new(network_max: usize, exempt: Vec<Network>) -> Arc<Self> {
        Arc::new(Self { network_max, exempt, in_use: Mutex::default() })
    }

    /// A permit for the network of this address, unless it holds all of its permits.
    #[must_use]
    pub fn acquire(self: &Arc<Self>, address: ClientAddress) -> Option<NetworkPermit> {
        let address = ClientAddress(address.0.to_canonical());
        if self.exempt.iter().any(|it| it.contains(address.0)) {
            return Some(NetworkPermit { counted: None });
        }
        let network = address.network();
        let has_room = self.in_use().add_below(network, self.network_max);
        has_room.then(|| NetworkPermit { counted: Some((Arc::clone(self), network)) })
    }

    fn in_use(&self) -> MutexGuard<'_, Holdings<IpAddr>> {
        // Nothing panics while it is locked, so that it is whole even if somebody poisoned it.
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NetworkPermit {
    fn drop(&mut self) {
        let Some((permits, network)) = &self.counted else { return };
        permits.in_use().remove(network, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_so_many_and_leaves_nothing_behind() {
        let exempt = ["10.0.0.0/8", "::1"].map(|it| it.parse().unwrap()).to_vec();
        let permits = NetworkPermits::new(2, exempt);
        let acquire = |address: &str| permits.acquire(ClientAddress(address.parse().unwrap()));
        let held = [acquire("192.0.2.1").unwrap(), acquire("::ffff:192.0.2.1").unwrap()];
        assert!(acquire("192.0.2.1").is_none());
        let of_prefix = [acquire("2001:db8::1").unwrap(), acquire("2001:db8::2").unwrap()];
        assert!(acquire("2001:db8::3").is_none());
        let others = [acquire("192.0.2.2").unwrap(), acquire("2001:db8:0:1::1").unwrap()];
        let exempt: Vec<NetworkPermit> = ["10.1.2.3", "::ffff:10.1.2.3", "::1"]
            .iter()
            .cycle()
            .take(30)
            .map(|it| acquire(it).unwrap())
            .collect();
        drop(held);
        assert!(acquire("192.0.2.1").is_some());
        drop((of_prefix, others, exempt));
        assert!(permits.in_use().is_empty());
    }
}
