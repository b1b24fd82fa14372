//! The memory for answers that clients have not read yet: so many bytes of one network, of one tenant, and
//! of all. Short answers are not counted, so that most requests pay nothing for it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::HttpBody as _;
use axum::response::Response;
use bytes::Bytes;
use domain::TenantNo;
use engine::access::ClientAddress;
use engine::holdings::Holdings;
use metrics::Counter;

use crate::network::Network;

/// Answers up to this length are not counted, in bytes.
pub const COUNTED_ABOVE_BYTES: usize = 16 * 1024;

/// One network may hold one part in so many of all bytes.
const PARTS_OF_NETWORK: usize = 4;

/// One tenant may hold one part in so many of all bytes.
const PARTS_OF_TENANT: usize = 2;

/// The bytes of all answers that are not read yet.
#[derive(Debug)]
pub struct AnswerBudget {
    bytes_max: usize,
    /// Networks that may hold all of it.
    exempt: Vec<Network>,
    held_bytes: AtomicUsize,
    /// The bytes of each network and tenant that holds some.
    holders: Mutex<Holdings<Holder>>,
    refused: Counter,
}

/// For whom bytes are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Network(IpAddr),
    Tenant(TenantNo),
}

/// A network and a tenant that bytes are held for.
#[derive(Clone, Debug)]
pub struct AnswerAccount {
    budget: Arc<AnswerBudget>,
    holders: [Option<Holder>; 2],
}

/// The right to so many bytes; dropping it gives them back.
#[derive(Debug)]
pub struct AnswerPermit {
    account: AnswerAccount,
    bytes: usize,
}

/// An answer whose bytes many requests share: it takes no memory of its own.
#[derive(Clone, Copy, Debug)]
pub struct SharedAnswer;

impl AnswerBudget {
    /// At most `bytes_max` for all clients; a quarter of that for each network that is not `exempt`, and
    /// half of it for each tenant.
    #[must_use]
    pub fn new(bytes_max: usize, exempt: Vec<Network>) -> Arc<Self> {
        let refused = metrics::counter!("faregate_refused_total", "reason" => "answers");
        let (held_bytes, holders) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { bytes_max, exempt, held_bytes, holders, refused })
    }

    /// How many bytes of answers are not read yet.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// The account of a client's network, and of the tenant whose answers they are.
    #[must_use]
    pub fn account(
        self: &Arc<Self>,
        client: ClientAddress,
        tenant: Option<TenantNo>,
    ) -> AnswerAccount {
        let address = ClientAddress(client.0.to_canonical());
        let is_exempt = self.exempt.iter().any(|it| it.contains(address.0));
        let network = (!is_exempt).then(|| Holder::Network(address.network()));
        AnswerAccount { budget: Arc::clone(self), holders: [network, tenant.map(Holder::Tenant)] }
    }

    fn max_of(&self, holder: Holder) -> usize {
        match holder {
            Holder::Network(_) => self.bytes_max / PARTS_OF_NETWORK,
            Holder::Tenant(_) => self.bytes_max / PARTS_OF_TENANT,
        }
    }

    /// Takes bytes of all and of these holders, or nothing.
    fn take(&self, bytes: usize, holders: [Option<Holder>; 2]) -> bool {
        let fits = |held: usize, max: usize| held == 0 || held.saturating_add(bytes) <= max;
        let mut all = self.holders();
        let have_room = fits(self.held_bytes(), self.bytes_max)
            && holders.iter().flatten().all(|it| fits(all.of(it), self.max_of(*it)));
        if have_room {
            holders.iter().flatten().for_each(|it| all.add(*it, bytes));
            self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        } else {
            self.refused.increment(1);
        }
        have_room
    }

    fn give_back(&self, bytes: usize, holders: [Option<Holder>; 2]) {
        let mut all = self.holders();
        holders.iter().flatten().for_each(|it| all.remove(it, bytes));
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn holders(&self) -> MutexGuard<'_, Holdings<Holder>> {
        // Nothing panics while it is locked, so that it is whole even if somebody poisoned it.
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerAccount {
    /// The right to `bytes`; `None`, and counted, where there is no room. One answer of a network or tenant
    /// has room whatever its length, as long as all have room for it.
    #[must_use]
    pub fn acquire(&self, bytes: usize) -> Option<AnswerPermit> {
        let has_room = self.budget.take(bytes, self.holders);
        has_room.then(|| AnswerPermit { account: self.clone(), bytes })
    }
}

impl AnswerPermit {
    /// The same bytes, which give the permit back with their last copy.
    #[must_use]
    pub fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Attached { bytes, _permit: self })
    }
}

impl Drop for AnswerPermit {
    fn drop(&mut self) {
        self.account.budget.give_back(self.bytes, self.account.holders);
    }
}

struct Attached {
    bytes: Bytes,
    _permit: AnswerPermit,
}

impl AsRef<[u8]> for Attached {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether an answer is so long, or of unknown length, that its bytes are counted.
#[must_use]
pub fn is_counted(response: &Response) -> bool {
    let length = response.body().size_hint().exact();
    length.is_none_or(|it| usize::try_from(it).map_or(true, |it| it > COUNTED_ABOVE_BYTES))
}

/// Names the tenant whose answer it is, where its bytes are counted.
pub fn name_tenant(response: &mut Response, tenant: Option<TenantNo>) {
    if let Some(tenant) = tenant
        && is_counted(response)
    {
        response.extensions_mut().insert(tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "192.0.2.1";
    const B: &str = "192.0.2.2";

    struct World(Arc<AnswerBudget>);

    impl World {
        fn take(&self, bytes: usize, from: &str, tenant: u32) -> Option<AnswerPermit> {
            let tenant = (tenant > 0).then_some(TenantNo(tenant));
            self.0.account(ClientAddress(from.parse().unwrap()), tenant).acquire(bytes)
        }
    }

    fn world() -> World {
        World(AnswerBudget::new(800, vec!["10.0.0.0/8".parse().unwrap()]))
    }

    #[test]
    fn a_network_holds_a_quarter_and_gives_back_what_is_read() {
        let world = world();
        let held =
            [world.take(100, A, 0).unwrap(), world.take(100, "::ffff:192.0.2.1", 0).unwrap()];
        assert!(world.take(1, A, 0).is_none());
        assert!(world.take(200, B, 0).is_some());
        let exempt = world.take(600, "10.1.2.3", 0).unwrap();
        assert!(world.take(1, B, 0).is_none(), "all have 800");
        drop((held, exempt));
        assert_eq!(world.0.held_bytes(), 0);
        assert!(world.0.holders().is_empty());
    }

    #[test]
    fn a_tenant_holds_half_from_whatever_networks() {
        let world = world();
        let _held = [world.take(200, A, 1).unwrap(), world.take(200, B, 1).unwrap()];
        assert!(world.take(1, "192.0.2.3", 1).is_none());
        assert!(world.take(1, "10.0.0.1", 1).is_none());
        assert!(world.take(200, "192.0.2.3", 2).is_some());
    }

    #[test]
    fn the_first_answer_has_room_and_is_given_back_with_its_last_copy() {
        let world = world();
        let first = world.take(300, A, 1).unwrap();
        assert!(world.take(1, A, 1).is_none(), "its network has 200");
        let bytes = first.attach(Bytes::from_static(b"answer"));
        let copy = bytes.slice(2..);
        drop(bytes);
        assert_eq!(world.0.held_bytes(), 300);
        assert_eq!(&*copy, b"swer");
        drop(copy);
        assert_eq!(world.0.held_bytes(), 0);
    }
}
