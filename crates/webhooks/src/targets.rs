//! Where a tenant's events go: its callback and its webhook endpoints, read when they change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::card_data::mask_pans;
use domain::tenant::{PUSH_CALLBACK, TenantValue, WEBHOOK_ENDPOINTS};
use domain::{Seq, TenantNo, WebhookEndpointId};
use engine::ports::{CALLBACK, Queries, StoreError, callback_of};
use http::header::{HeaderName, HeaderValue};
use secrets::Sealer;
use secrets::webhook;

use crate::endpoint::{
    Endpoint, Endpoints, Format, Key, Keys, Signer, Status, callback_secret, header, wants,
};
use crate::options::RETRY_DELAYS;

/// How many tenants' targets are remembered.
const TENANTS_MAX: usize = 4_096;

/// The shortest part of a header's value or of a URL that is a secret: shorter ones are in many texts.
const SECRET_BYTES_MIN: usize = 6;

/// The text in place of a secret.
const MASKED: &str = "***";

/// An endpoint that a tenant's events are delivered to.
pub(crate) struct Target {
    pub(crate) endpoint: WebhookEndpointId,
    /// See [`engine::webhooks::DeliveryTry::receiver`].
    pub(crate) receiver: WebhookEndpointId,
    pub(crate) url: String,
    pub(crate) format: Format,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    events: Vec<String>,
    /// `None`: without keys there are no signatures.
    pub(crate) signer: Option<Signer>,
    is_on: bool,
}

/// The targets of a tenant's events, as of these revisions of its values.
struct OfTenant {
    read_at: [Option<Seq>; 2],
    targets: Arc<Vec<Arc<Target>>>,
}

/// The targets of tenants.
pub(crate) struct Targets {
    sealer: Option<Arc<Sealer>>,
    known: Mutex<HashMap<TenantNo, OfTenant>>,
}

impl Target {
    /// Whether it gets events of this type.
    pub(crate) fn wants(&self, event_type: &str) -> bool {
        self.is_on && wants(&self.events, event_type)
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether it is switched off where it does not receive: without a key nothing of a callback but its URL is stored.
    pub(crate) const fn may_be_switched_off(&self) -> bool {
        self.signer.is_some()
    }

    /// An answer as it may be shown: without card numbers, and without what the receiver repeats of the request that
    /// may be a secret, whole or cut at the end.
    pub(crate) fn masked(&self, answer: &str) -> String {
        let headers = self.headers.iter().filter_map(|(_, value)| value.to_str().ok());
        let query = self.url.split_once('?').map(|(_, query)| query);
        let mut masked = mask_pans(answer);
        for secret in headers.chain(query).filter(|it| it.len() >= SECRET_BYTES_MIN) {
            masked = masked.replace(secret, MASKED);
            let begun = (SECRET_BYTES_MIN..secret.len()).rev().find(|bytes| {
                secret.is_char_boundary(*bytes) && masked.ends_with(&secret[..*bytes])
            });
            if let Some(bytes) = begun {
                masked.truncate(masked.len() - bytes);
                masked.push_str(MASKED);
            }
        }
        masked
    }

    /// The delays from a failed delivery to the next attempt.
    pub(crate) const fn retry_delays(&self) -> &'static [Duration] {
        match self.format {
            Format::Standard => &webhook::RETRY_DELAYS,
            Format::KillBill => &RETRY_DELAYS,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_test(url: &str) -> Self {
        Self::of_callback((url, Seq(1)), None, true)
    }

    fn of_callback((url, registered): (&str, Seq), keys: Option<&Keys>, is_on: bool) -> Self {
        Self {
            endpoint: CALLBACK,
            receiver: callback_of(registered),
            url: url.to_owned(),
            format: Format::KillBill,
            headers: vec![],
            events: vec![],
            signer: keys.map(Signer::new),
            is_on,
        }
    }

    fn of_endpoint(it: &Endpoint) -> Self {
        // They were checked when they were stored.
        let headers = it.headers.iter().filter_map(|(name, value)| header(name, value).ok());
        Self {
            endpoint: it.id,
            receiver: it.id,
            url: it.url.clone(),
            format: it.format,
            headers: headers.collect(),
            events: it.events.clone(),
            signer: Some(Signer::new(&it.keys)),
            is_on: it.status == Status::On,
        }
    }
}

impl Targets {
    pub(crate) fn new(sealer: Option<Arc<Sealer>>) -> Self {
        Self { sealer, known: Mutex::default() }
    }

    /// Whether any tenant has one.
    pub(crate) fn are_there(queries: &dyn Queries) -> Result<bool, StoreError> {
        Ok(queries.is_value_in_use(PUSH_CALLBACK)? || queries.is_value_in_use(WEBHOOK_ENDPOINTS)?)
    }

    /// The targets of a tenant as they are now.
    pub(crate) fn of(
        &self,
        queries: &dyn Queries,
        tenant: TenantNo,
    ) -> Result<Arc<Vec<Arc<Target>>>, StoreError> {
        let callback = queries.tenant_value(tenant, PUSH_CALLBACK)?;
        let endpoints = queries.tenant_value(tenant, WEBHOOK_ENDPOINTS)?;
        let read_at = [&callback, &endpoints].map(|it| it.as_ref().map(|it| it.revision.seq));
        let mut known = self.lock();
        if let Some(it) = known.get(&tenant).filter(|it| it.read_at == read_at) {
            return Ok(Arc::clone(&it.targets));
        }
        let endpoints = self.open(tenant, endpoints.as_ref());
        let keys = self.callback_keys(tenant, &endpoints);
        let callback = callback.and_then(|it| {
            let registered = it.revision.seq;
            let is_on = endpoints.is_callback_on(registered);
            Some(Target::of_callback((&it.value?, registered), keys.as_ref(), is_on))
        });
        let others = endpoints.all.iter().map(Target::of_endpoint);
        let targets = Arc::new(callback.into_iter().chain(others).map(Arc::new).collect());
        if known.len() >= TENANTS_MAX {
            known.clear();
        }
        known.insert(tenant, OfTenant { read_at, targets: Arc::clone(&targets) });
        Ok(targets)
    }

    /// Without a sealer, deliveries to the callback are not signed.
    fn callback_keys(&self, tenant: TenantNo, endpoints: &Endpoints) -> Option<Keys> {
        endpoints.callback.clone().or_else(|| {
            let secret = callback_secret(self.sealer.as_deref()?, tenant);
            Some(Keys::of(Key::new(&secret, false)))
        })
    }

    fn open(&self, tenant: TenantNo, stored: Option<&TenantValue>) -> Endpoints {
        let Some(sealed) = stored.and_then(|it| it.value.as_deref()) else {
            return Endpoints::default();
        };
        let opened = self.sealer.as_ref().map(|it| Endpoints::open(it, tenant, sealed));
        opened.and_then(Result::ok).unwrap_or_else(|| {
            tracing::error!(
                tenant = tenant.0,
                "failed to decrypt a tenant's webhook endpoints: they receive nothing; was `flags.key_file` replaced?"
            );
            Endpoints::default()
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantNo, OfTenant>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_shown_without_secrets_and_card_numbers() {
        let mut target = Target::for_test("https://example.com/in?token=abcdef");
        target.headers = [("authorization", "Bearer a-token"), ("x-mine", "yes")]
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .into();
        for (answer, shown) in [
            ("fine, yes", "fine, yes"),
            ("you sent Bearer a-token to /in?token=abcdef", "you sent *** to /in?***"),
            ("cut here: Bearer a-t", "cut here: ***"),
            ("cut here: Bear", "cut here: Bear"),
            ("pan 4111111111111111", "pan ************1111"),
        ] {
            assert_eq!(target.masked(answer), shown);
        }
    }
}
