//! Places for streams of operations: so many in all, and so few for one network that nobody has all
//! of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many streams are open at the same time.
const PLACES_MAX: usize = 256;

/// How many of them for one network.
const PLACES_OF_NETWORK_MAX: usize = 16;

/// Who has how many places. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    all: usize,
    /// Networks that have any; so never more than there are places.
    by_network: HashMap<IpAddr, usize>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// All are taken.
    Full,
    /// The network has its share.
    OfNetwork,
}

/// A place, free again once this is dropped.
pub(super) struct Place {
    places: Places,
    network: Option<IpAddr>,
}

impl Places {
    /// Takes one, for a network or for somebody who is not counted by it.
    pub(super) fn take(&self, network: Option<IpAddr>) -> Result<Place, NoPlace> {
        let mut taken = self.lock();
        if taken.all >= PLACES_MAX {
            return Err(NoPlace::Full);
        }
        if let Some(network) = network {
            let own = taken.by_network.get(&network).copied().unwrap_or_default();
            if own >= PLACES_OF_NETWORK_MAX {
                return Err(NoPlace::OfNetwork);
            }
            taken.by_network.insert(network, own + 1);
        }
        taken.all += 1;
        Ok(Place { places: self.clone(), network })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        let Some(network) = self.network else { return };
        if let Some(own) = taken.by_network.get_mut(&network) {
            *own -= 1;
            if *own == 0 {
                taken.by_network.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_has_a_few_and_all_have_so_many() {
        let places = Places::default();
        let network = |number: u8| Some(IpAddr::from([192, 0, 2, number]));
        let take = |number| places.take(network(number)).map(drop);
        let mut held: Vec<Place> =
            (0..PLACES_OF_NETWORK_MAX).map(|_| places.take(network(0)).ok().unwrap()).collect();
        assert_eq!(take(0), Err(NoPlace::OfNetwork));
        assert_eq!(take(1), Ok(()));
        drop(held.pop());
        assert_eq!(take(0), Ok(()), "a place that was given back");
        held.extend((held.len()..PLACES_MAX).map(|_| places.take(None).ok().unwrap()));
        assert_eq!(take(1), Err(NoPlace::Full));
        drop(held);
        assert!(places.lock().by_network.is_empty(), "nobody is remembered");
        assert_eq!(places.lock().all, 0);
    }
}
