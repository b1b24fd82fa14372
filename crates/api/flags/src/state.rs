//! The state that all routes share.

use std::sync::Arc;

use feature_flags::subscribers::Permits;
use feature_flags::{FlagCache, Grant, RequestKind, SecretKind};
use http::Extensions;
use tokio::sync::Semaphore;
use web::NetworkPermit;
use web::headers::client_address;

use crate::reply::Refusal;
use crate::settings::{Settings, Timeouts};

/// The state that all routes share.
pub(crate) struct ApiState {
    pub(crate) cache: Arc<FlagCache>,
    pub(crate) settings: Settings,
    pub(crate) timeouts: Arc<Timeouts>,
    /// Open event streams of OFREP.
    pub(crate) listeners: Arc<Permits>,
    /// Permits of streams that wait for their secret to become known.
    pub(crate) unknown_secrets: Semaphore,
}

impl ApiState {
    pub(crate) fn new(cache: Arc<FlagCache>, settings: Settings) -> Self {
        let timeouts = Arc::new(Timeouts {
            idle: settings.idle_timeout,
            write: settings.write_timeout,
            close: settings.close_timeout,
            closed: settings.closed_timeout,
            behind_max: settings.behind_max,
        });
        let unknown_secrets = Semaphore::new(settings.unknown_secrets_max);
        Self { cache, settings, timeouts, listeners: Arc::default(), unknown_secrets }
    }

    /// The permit of a client's network for another stream; counted where there is none.
    pub(crate) fn network_permit(&self, extensions: &Extensions) -> Option<NetworkPermit> {
        let permit = self.settings.networks.acquire(client_address(extensions));
        if permit.is_none() {
            metrics::counter!("faregate_refused_total", "reason" => "network_streams").increment(1);
        }
        permit
    }

    /// The grant of a secret of one of these kinds, within its rate limit. Called before the body of
    /// a request is read.
    pub(crate) fn authenticate(
        &self,
        secret: Option<&str>,
        kinds: &[SecretKind],
        kind: RequestKind,
    ) -> Result<Arc<Grant>, Refusal> {
        if !self.cache.is_available() {
            return Err(Refusal::Unavailable);
        }
        let grant = secret.and_then(|it| self.cache.find(it));
        let grant = grant.filter(|it| kinds.contains(&it.kind())).ok_or(Refusal::Unauthorized)?;
        self.check_rate(&grant, kind)?;
        Ok(grant)
    }

    /// Counts a request towards the rate limit of its secret.
    pub(crate) fn check_rate(&self, grant: &Grant, kind: RequestKind) -> Result<(), Refusal> {
        grant.check_rate(&self.settings.rate_limits, kind).map_err(Refusal::TooMany)
    }
}
