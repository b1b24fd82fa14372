//! Whether the client of the request that this task serves is still there.

use std::sync::Arc;
use std::time::Duration;

/// How long work goes on for a client that has closed its side of the connection: it may close only its
/// sending side, and still read the answer.
pub const GONE_AFTER: Duration = Duration::from_millis(250);

tokio::task_local! {
    static CLIENT: Arc<Client>;
}

/// The client of a request.
pub struct Client(Box<dyn Fn() -> bool + Send + Sync>);

impl Client {
    /// `is_gone` says whether it has closed its side of the connection.
    pub fn new(is_gone: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Box::new(is_gone))
    }

    /// Whether it has closed its side of the connection.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        (self.0)()
    }
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
