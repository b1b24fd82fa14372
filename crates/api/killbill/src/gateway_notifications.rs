//! Notifications of gateways: somebody posts them, the gateway reads them, and what it says is booked.

use domain::{PaymentRejection, Rejection};
use engine::ports::{NotificationRefused, PostedNotification};
use http::{HeaderMap, StatusCode};

use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::reply;
use crate::request::printable;

/// Headers that are credentials, or of the connection: no gateway gets them.
const KEPT: [&str; 9] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "host",
    "content-length",
    "x-killbill-apikey",
    "x-killbill-apisecret",
    "x-faregate-apikey",
    "x-faregate-apisecret",
];

/// Books what a gateway notifies: the gateway reads it, and says what became of which transaction.
///
/// The answer comes once that is committed. A notification that comes again changes nothing, and neither does
/// one about what Faregate does not know.
#[utoipa::path(post, path = "/1.0/kb/paymentGateways/notification/{pluginName}", tag = "PaymentGateway",
    operation_id = "processNotification",
    params(("pluginName" = String, Path), ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body(content = String, content_type = "*/*"),
    responses((status = 200, description = "It is booked, or about nothing that is known"),
        (status = "4XX", body = ErrorJson<'static>),
        (status = 501, body = ErrorJson<'static>, description = "This process is a front"),
        (status = 503, body = ErrorJson<'static>, description = "The gateway cannot be asked now")))]
pub(crate) async fn process(call: Call) -> HandlerResult {
    let name = call.param("pluginName")?.into_owned();
    let refuse = |reason: &str| {
        Failure::illegal(format!("the notification of {} {reason}", printable(&name)))
    };
    if call.api.engine().is_front() {
        let code = code::plain(StatusCode::NOT_IMPLEMENTED, class::UNSUPPORTED);
        let message = "a front books no notifications: the outcome is inquired about";
        return Err(Failure::coded(code, message));
    }
    let Some(gateway) = call.api.settings().gateways.get(&name) else {
        let refused = PaymentRejection::GatewayNotRegistered { gateway: name };
        return Err(Failure::Refused(Box::new(Rejection::Payment(refused))));
    };
    let body = String::from_utf8(call.body.to_vec()).map_err(|_| refuse("is not UTF-8"))?;
    let tenant = call.tenant();
    let headers = forwarded(&call.parts.headers);
    let read = gateway.notification(PostedNotification { tenant, headers, body }).await;
    let counted = |result| {
        metrics::counter!("faregate_gateway_notifications_total", "gateway" => name.clone(), "result" => result)
            .increment(1);
    };
    match read {
        Ok(None) => counted("unknown"),
        Ok(Some(notified)) => {
            let booked = call.api.engine().notified_by(&name, tenant, notified).await;
            let is_known = booked.map_err(Failure::Unavailable)?;
            counted(if is_known { "booked" } else { "unknown" });
        }
        Err(NotificationRefused::Unsupported) => {
            counted("refused");
            return Err(refuse("is none: it sends none"));
        }
        Err(NotificationRefused::Invalid(reason)) => {
            counted("refused");
            return Err(refuse(&printable(&reason)));
        }
        Err(NotificationRefused::Unavailable(reason)) => {
            counted("unavailable");
            tracing::warn!(
                gateway = name,
                reason,
                "failed to read a notification; its sender repeats it"
            );
            let code = code::plain(StatusCode::SERVICE_UNAVAILABLE, class::REJECTED);
            let message = "the gateway cannot be asked now: send the notification again";
            return Err(Failure::coded(code, message));
        }
    }
    Ok(reply::empty(StatusCode::OK))
}

/// The headers that the gateway gets: those that are text.
fn forwarded(headers: &HeaderMap) -> Vec<(String, String)> {
    let sent = headers.iter().filter(|(name, _)| !KEPT.contains(&name.as_str()));
    let text = sent.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    text.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
