//! Switches off the endpoints that do not receive.

use std::sync::Arc;
use std::time::Duration;

use domain::command::TenantCommand;
use domain::payment::Actor;
use domain::tenant::webhook::{DisabledEndpoint, SetWebhookEndpoints};
use domain::tenant::{PUSH_CALLBACK, WEBHOOK_ENDPOINTS};
use domain::{Command, PartitionNo, Request};
use engine::periodic::{Pass, Periodic};
use engine::ports::{CALLBACK, DeliveryLogSource, registration_of};
use engine::webhooks::{RefusedEndpoint, SwitchedOff};
use engine::{Answer, Engine};
use secrets::Sealer;
use tokio::sync::mpsc;

use crate::endpoint::Endpoints;
use crate::log_connection::LogConnection;

/// How often endpoints are switched off.
const EVERY: Duration = Duration::from_millis(500);

/// Who switches endpoints off, in histories.
const USER: &str = "faregate-webhooks";

/// Switches off endpoints that are to be, until `stop` is ready, and hands on which ones. The owner of the first partition
/// calls this.
pub async fn run(
    engine: Engine,
    (source, sealer): (Arc<dyn DeliveryLogSource>, Arc<Sealer>),
    alerts: Option<mpsc::Sender<SwitchedOff>>,
    stop: impl Future<Output = ()>,
) {
    let log = LogConnection::new(move || source.open(PartitionNo::FIRST));
    let job = || async {
        let refused = match log.query(|log| log.refused()).await {
            Ok(refused) => refused,
            Err(error) => {
                tracing::warn!(error = %error, "failed to read which webhook endpoints do not receive; retrying");
                return Pass::Failed;
            }
        };
        for it in refused {
            let is_off = switch_one_off((&engine, &sealer), it, alerts.as_ref()).await;
            if !is_off || log.query(move |log| log.forget_health(it)).await.is_err() {
                return Pass::Failed;
            }
        }
        Pass::Idle
    };
    Periodic::every(EVERY).run(stop, job).await;
}

/// Whether an endpoint is off now, or is no more.
async fn switch_one_off(
    (engine, sealer): (&Engine, &Sealer),
    it: RefusedEndpoint,
    alerts: Option<&mpsc::Sender<SwitchedOff>>,
) -> bool {
    let RefusedEndpoint { tenant, endpoint: receiver, reason } = it;
    let registered = registration_of(receiver);
    let endpoint = registered.map_or(receiver, |_| CALLBACK);
    let stored = engine.read(move |queries| {
        let callback = queries.tenant_value(tenant, PUSH_CALLBACK)?;
        Ok((queries.tenant_value(tenant, WEBHOOK_ENDPOINTS)?, callback))
    });
    let Ok((stored, callback)) = stored.await else { return false };
    let read_at = stored.as_ref().map(|it| it.revision.seq);
    let opened = match stored.and_then(|it| it.value) {
        Some(sealed) => Endpoints::open(sealer, tenant, &sealed),
        None => Ok(Endpoints::default()),
    };
    let Ok(mut endpoints) = opened else { return true };
    let at = engine.clock().now();
    let callback = callback.filter(|it| it.value.is_some()).map(|it| it.revision.seq);
    let callback = callback.filter(|it| Some(*it) == registered);
    if !endpoints.switch_off(endpoint, (reason, at), callback) {
        return true;
    }
    let sealed = Some(endpoints.seal(sealer, tenant));
    let disabled = Some(DisabledEndpoint { endpoint, reason });
    let set = SetWebhookEndpoints { sealed, read_at, disabled };
    let command = Command::Tenant(TenantCommand::SetWebhookEndpoints(set));
    let id = engine.mint();
    let actor = Actor::new(USER, USER, id.0);
    let request = Request { id, tenant, actor, idempotency: None, command };
    match engine.submit_own(request).await {
        Ok(Answer::Replied(_)) => {
            tracing::warn!(
                tenant = tenant.0,
                endpoint = %endpoint,
                reason = reason.name(),
                "a webhook endpoint is switched off"
            );
            let alert = SwitchedOff { tenant, endpoint, reason, at };
            if alerts.is_some_and(|alerts| alerts.try_send(alert).is_err()) {
                tracing::warn!(
                    tenant = tenant.0,
                    endpoint = %endpoint,
                    "too many mails about webhook endpoints wait; there is none about this one"
                );
            }
            true
        }
        // Somebody changed the endpoints meanwhile.
        Ok(Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest) | Err(_) => false,
    }
}
