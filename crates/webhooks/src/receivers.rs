//! Which endpoints of a tenant get an event, for those who have events sent again.

use domain::tenant::{PUSH_CALLBACK, WEBHOOK_ENDPOINTS};
use domain::{TenantNo, WebhookEndpointId};
use engine::ports::{CALLBACK, Queries, StoreError};
use secrets::Sealer;

use crate::body::body;
use crate::endpoint::{Endpoints, Format, Status, wants};
use crate::event::EventOfRow;

/// A tenant's endpoints that are on.
#[derive(Default)]
pub struct Receivers(Vec<Receiver>);

struct Receiver {
    endpoint: WebhookEndpointId,
    format: Format,
    events: Vec<String>,
}

/// Why the endpoints of a tenant are not known.
#[derive(Debug, thiserror::Error)]
pub enum ReceiversError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no key, or another one than they were sealed with.
    #[error("the webhook endpoints cannot be decrypted")]
    Sealed,
}

impl Receivers {
    /// The endpoints of a tenant that are on now.
    ///
    /// # Errors
    /// [`ReceiversError`].
    pub fn read(
        queries: &dyn Queries,
        sealer: Option<&Sealer>,
        tenant: TenantNo,
    ) -> Result<Self, ReceiversError> {
        let mut found = vec![];
        let stored = queries.tenant_value(tenant, WEBHOOK_ENDPOINTS)?;
        let endpoints = match stored.and_then(|it| it.value) {
            Some(sealed) => {
                let sealer = sealer.ok_or(ReceiversError::Sealed)?;
                let opened = Endpoints::open(sealer, tenant, &sealed);
                opened.map_err(|_| ReceiversError::Sealed)?
            }
            None => Endpoints::default(),
        };
        let callback = queries.tenant_value(tenant, PUSH_CALLBACK)?;
        let callback = callback.filter(|it| it.value.is_some());
        if callback.is_some_and(|it| endpoints.is_callback_on(it.revision.seq)) {
            found.push(Receiver { endpoint: CALLBACK, format: Format::KillBill, events: vec![] });
        }
        let on = endpoints.all.into_iter().filter(|it| it.status == Status::On);
        found.extend(on.map(|it| Receiver {
            endpoint: it.id,
            format: it.format,
            events: it.events,
        }));
        Ok(Self(found))
    }

    /// Whether this endpoint is on.
    #[must_use]
    pub fn has(&self, endpoint: WebhookEndpointId) -> bool {
        self.0.iter().any(|it| it.endpoint == endpoint)
    }

    /// Those that get an event.
    pub fn of(&self, event: EventOfRow<'_>) -> impl Iterator<Item = WebhookEndpointId> {
        let is_one = move |it: &&Receiver| {
            let has_body = it.format == Format::Standard || body(event.event).is_some();
            has_body && wants(&it.events, event.kind)
        };
        self.0.iter().filter(is_one).map(|it| it.endpoint)
    }
}
