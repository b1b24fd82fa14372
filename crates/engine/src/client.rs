//! The client of the request that this task serves: whether it is still there, who it is, and for which tenant
//! it asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::TenantNo;

use crate::caller::Caller;

/// How long work goes on for a client that has closed its side of the connection: it may close only its
/// sending side, and still read the answer.
pub const GONE_AFTER: Duration = Duration::from_millis(250);

tokio::task_local! {
    static CLIENT: Arc<Client>;
}

/// The client of a request; of those of a connection, one after the other.
pub struct Client {
    is_gone: Box<dyn Fn() -> bool + Send + Sync>,
    /// The tenant's number and one; 0: none is known.
    tenant: AtomicU64,
    /// Of one request at a time: nobody waits for the lock.
    user: Mutex<Option<Arc<Caller>>>,
}

impl Client {
    /// `is_gone` says whether it has closed its side of the connection.
    pub fn new(is_gone: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { is_gone: Box::new(is_gone), tenant: AtomicU64::new(0), user: Mutex::new(None) }
    }

    /// Another request begins: neither its user nor its tenant is known yet.
    pub fn begin(&self) {
        self.tenant.store(0, Ordering::Relaxed);
        *self.lock_user() = None;
    }

    /// Whether it has closed its side of the connection.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        (self.is_gone)()
    }

    /// The user whose credentials it has shown.
    #[must_use]
    pub fn user(&self) -> Option<Arc<Caller>> {
        self.lock_user().clone()
    }

    fn lock_user(&self) -> MutexGuard<'_, Option<Arc<Caller>>> {
        self.user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tenant for which it asks, where that is known.
    #[must_use]
    pub fn tenant(&self) -> Option<TenantNo> {
        let no = self.tenant.load(Ordering::Relaxed).checked_sub(1)?;
        u32::try_from(no).ok().map(TenantNo)
    }
}

/// The request that this task serves is one of this tenant: its reads are the tenant's.
pub fn serves(tenant: TenantNo) {
    // Work of the server itself has no client.
    let _ = CLIENT.try_with(|client| {
        client.tenant.store(u64::from(tenant.0) + 1, Ordering::Relaxed);
    });
}

/// The request that this task serves is one of this user.
pub(crate) fn is_user(user: &Arc<Caller>) {
    let _ = CLIENT.try_with(|client| *client.lock_user() = Some(Arc::clone(user)));
}

/// The tenant of the request that this task serves, where it is known.
pub(crate) fn tenant() -> Option<TenantNo> {
    CLIENT.try_with(|client| client.tenant()).ok().flatten()
}

/// The client of the request that this task serves, for work that another thread does for it.
#[must_use]
pub fn current() -> Option<Arc<Client>> {
    CLIENT.try_with(Arc::clone).ok()
}

/// Serves a request of this client.
pub fn serve<F: Future>(client: Arc<Client>, request: F) -> Served<F> {
    CLIENT.scope(client, request)
}

/// A request in the making, with its client.
pub type Served<F> = tokio::task::futures::TaskLocalFuture<Arc<Client>, F>;

/// Whether the client of the request that this task serves has gone; false where there is none.
pub(crate) fn is_gone() -> bool {
    CLIENT.try_with(|client| client.is_gone()).unwrap_or(false)
}
