//! The log line of a request: ids, never contents.

use std::net::IpAddr;
use std::time::Instant;

use axum::response::Response;
use domain::card_data::contains_pan;
use domain::{RequestId, TenantNo};
use engine::client;
use http::Method;
use tracing::Level;
use uuid::Uuid;
use web::refusal_log::{self, is_refusal, is_worth_a_line};

use crate::request::{REQUEST_ID, parameter};
use crate::route::Resource;

/// A request that has its response.
pub(crate) struct RequestLog<'a> {
    /// The id in the journal and in the engine's log lines.
    pub(crate) id: RequestId,
    /// Whether the response carries the client's request id instead of `id`.
    pub(crate) by_client: bool,
    /// `None` if the route has no tenant, or the request was refused before its tenant was known.
    pub(crate) tenant_no: Option<TenantNo>,
    /// The network that it came from.
    pub(crate) network: IpAddr,
    pub(crate) method: Method,
    /// Only ids of it are logged: search texts are personal data.
    pub(crate) path: &'a str,
    pub(crate) resource: &'a Resource,
    pub(crate) started: Instant,
}

impl RequestLog<'_> {
    /// Logs faults of this installation as errors, refusals for want of credentials or rights at the level
    /// info, and everything else (other refusals, declines, failures of gateways, unserved routes) at the
    /// level debug.
    pub(crate) fn write(&self, response: &Response, is_fault: bool) {
        let is_refusal = is_refusal(response.status());
        let user = if is_refusal { client::current().and_then(|it| it.user()) } else { None };
        let is_refused = is_worth_a_line(response.status(), self.network, user.is_some());
        if !is_fault && !is_refused && !tracing::enabled!(Level::DEBUG) {
            return;
        }
        let given = response.headers().get(REQUEST_ID).filter(|_| self.by_client);
        let given = given.and_then(|id| id.to_str().ok()).filter(|id| !contains_pan(id));
        let (template, path) = (self.resource.path, self.path);
        let (id, tenant) = (self.id.0, self.tenant_no.map(|tenant| tenant.0));
        let account = id_of(template, path, "accountId");
        let payment = id_of(template, path, "paymentId");
        let (method, status) = (&self.method, response.status().as_u16());
        let user = user.as_ref().map(|user| user.username.as_str());
        let network = is_refused.then(|| self.network.to_string());
        let reason = refusal_log::why(response);
        let ms = self.started.elapsed().as_millis();
        macro_rules! log {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    request.id = %id,
                    request.given = given,
                    user,
                    network,
                    tenant,
                    account.id = account,
                    payment.id = payment,
                    %method,
                    route = template,
                    status,
                    reason,
                    ms,
                    $message
                )
            };
        }
        if is_fault {
            log!(error, "request failed: fault of this installation");
        } else if is_refused {
            log!(info, "request refused");
        } else {
            log!(debug, "request served");
        }
    }
}

/// A parameter of the path, if it is an id.
fn id_of<'p>(template: &str, path: &'p str, name: &str) -> Option<&'p str> {
    parameter(template, path, name).filter(|id| Uuid::try_parse(id).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_the_path_are_logged() {
        let id = "0192aabb-ccdd-7123-9456-789abcdef012";
        let template = "/1.0/kb/accounts/{accountId}/payments";
        let path = format!("/1.0/kb/accounts/{id}/payments");
        assert_eq!(id_of(template, &path, "accountId"), Some(id));
        assert_eq!(id_of(template, &path, "paymentId"), None);
        assert_eq!(id_of(template, "/1.0/kb/accounts/a@b.example/payments", "accountId"), None);
    }
}
