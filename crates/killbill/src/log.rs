//! The line that an answered request leaves in the log: ids that lead on, never what was said.

use std::time::Instant;

use axum::response::Response;
use domain::card_data::looks_like_pan;
use domain::{RequestId, TenantNo};
use http::Method;
use tracing::Level;
use uuid::Uuid;

use crate::request::REQUEST_ID;
use crate::routes::Resource;

/// What is known of an answered request.
pub(crate) struct Line<'a> {
    /// Ours: the journal and the core's own lines have it too.
    pub(crate) id: RequestId,
    /// Whether the answer shows the client's request id in place of ours.
    pub(crate) by_client: bool,
    /// `None` where the route has no tenant, or the request did not get that far.
    pub(crate) tenant_no: Option<TenantNo>,
    pub(crate) method: Method,
    /// Only ids are taken from it: what people search for stands there too.
    pub(crate) path: &'a str,
    pub(crate) resource: &'a Resource,
    pub(crate) started: Instant,
}

impl Line<'_> {
    /// Logs the answer: faults of ours as errors, everything that is an answer (refusals, declines,
    /// gateways' failures, what is not built) only where somebody debugs.
    pub(crate) fn write(&self, response: &Response, is_ours: bool) {
        if !is_ours && !tracing::enabled!(Level::DEBUG) {
            return;
        }
        let given = response.headers().get(REQUEST_ID).filter(|_| self.by_client);
        let given = given.and_then(|id| id.to_str().ok()).filter(|id| !looks_like_pan(id));
        let (template, path) = (self.resource.path, self.path);
        let (id, tenant) = (self.id.0, self.tenant_no.map(|tenant| tenant.0));
        let account = param(template, path, "{accountId}");
        let payment = param(template, path, "{paymentId}");
        let (method, status) = (&self.method, response.status().as_u16());
        let ms = self.started.elapsed().as_millis();
        if is_ours {
            tracing::error!(
                request.id = %id,
                request.given = given,
                tenant,
                account.id = account,
                payment.id = payment,
                %method,
                route = template,
                status,
                ms,
                "a request failed by a fault of ours"
            );
        } else {
            tracing::debug!(
                request.id = %id,
                request.given = given,
                tenant,
                account.id = account,
                payment.id = payment,
                %method,
                route = template,
                status,
                ms,
                "answered"
            );
        }
    }
}

/// The id that stands in the path where the route has this parameter.
fn param<'a>(template: &str, path: &'a str, name: &str) -> Option<&'a str> {
    let place = template.split('/').position(|segment| segment == name)?;
    path.split('/').nth(place).filter(|id| Uuid::try_parse(id).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_are_taken_from_the_path() {
        let id = "0192aabb-ccdd-7123-9456-789abcdef012";
        let template = "/1.0/kb/accounts/{accountId}/payments";
        let path = format!("/1.0/kb/accounts/{id}/payments");
        assert_eq!(param(template, &path, "{accountId}"), Some(id));
        assert_eq!(param(template, &path, "{paymentId}"), None);
        assert_eq!(param(template, "/1.0/kb/accounts/a@b.example/payments", "{accountId}"), None);
    }
}
