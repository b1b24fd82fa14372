//! Permits for event streams: bounded in total, and per network so that no client holds all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many streams may be open concurrently.
const PERMITS_MAX: usize = 256;

/// How many of them may be of one network.
const PERMITS_PER_NETWORK_MAX: usize = 16;

/// The permits in use. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(super) struct StreamPermits(Arc<Mutex<InUse>>);

#[derive(Default)]
struct InUse {
    all: usize,
    /// Networks with at least one permit, so that there are never more than permits.
    by_network: HashMap<IpAddr, usize>,
}

/// No permit is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPermit {
    /// All permits are in use.
    Total,
    /// All permits of the network are in use.
    Network,
}

/// Allows one stream until it is dropped.
pub(super) struct StreamPermit {
    permits: StreamPermits,
    network: Option<IpAddr>,
}

impl StreamPermits {
    /// Acquires a permit; without a network only the total is limited.
    pub(super) fn acquire(&self, network: Option<IpAddr>) -> Result<StreamPermit, NoPermit> {
        let mut in_use = self.lock();
        if in_use.all >= PERMITS_MAX {
            return Err(NoPermit::Total);
        }
        if let Some(network) = network {
            let of_network = in_use.by_network.get(&network).copied().unwrap_or_default();
            if of_network >= PERMITS_PER_NETWORK_MAX {
                return Err(NoPermit::Network);
            }
            in_use.by_network.insert(network, of_network + 1);
        }
        in_use.all += 1;
        Ok(StreamPermit { permits: self.clone(), network })
    }

    fn lock(&self) -> MutexGuard<'_, InUse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut in_use = self.permits.lock();
        in_use.all -= 1;
        let Some(network) = self.network else { return };
        if let Some(of_network) = in_use.by_network.get_mut(&network) {
            *of_network -= 1;
            if *of_network == 0 {
                in_use.by_network.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_bounded_per_network_and_in_total_and_released_on_drop() {
        let permits = StreamPermits::default();
        let network = |number: u8| Some(IpAddr::from([192, 0, 2, number]));
        let acquire = |number| permits.acquire(network(number)).map(drop);
        let mut held: Vec<StreamPermit> = (0..PERMITS_PER_NETWORK_MAX)
            .map(|_| permits.acquire(network(0)).ok().unwrap())
            .collect();
        assert_eq!(acquire(0), Err(NoPermit::Network));
        assert_eq!(acquire(1), Ok(()));
        drop(held.pop());
        assert_eq!(acquire(0), Ok(()), "a permit was released");
        held.extend((held.len()..PERMITS_MAX).map(|_| permits.acquire(None).ok().unwrap()));
        assert_eq!(acquire(1), Err(NoPermit::Total));
        drop(held);
        assert!(permits.lock().by_network.is_empty(), "no network is left behind");
        assert_eq!(permits.lock().all, 0);
    }
}
