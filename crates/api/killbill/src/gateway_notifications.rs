//! Notifications of gateways: somebody posts them, the gateway reads them, and what it says is booked.

use domain::{PaymentRejection, Rejection};
use engine::NotificationError;
use engine::ports::PostedNotification;
use http::StatusCode;
use web::headers::without_credentials;

use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::reply;
use crate::request::printable;

/// Books what a gateway notifies: the gateway reads it, and says what became of which transaction.
///
/// The answer comes once that is committed. A notification that comes again changes nothing, and neither does
/// one about what Faregate does not know.
#[utoipa::path(post, path = "/1.0/kb/paymentGateways/notification/{pluginName}", tag = "PaymentGateway",
    operation_id = "processNotification",
    params(("pluginName" = String, Path), ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    request_body(content = String, content_type = "*/*"),
    responses((status = 200, description = "It is booked, or about nothing that is known"),
        (status = "4XX", body = ErrorJson<'static>),
        (status = 503, body = ErrorJson<'static>, description = "The gateway cannot be asked now")))]
pub(crate) async fn process(call: Call) -> HandlerResult {
    let name = call.param("pluginName")?.into_owned();
    let posted = PostedNotification {
        tenant: call.tenant(),
        headers: without_credentials(&call.parts.headers),
        body: call.body.clone(),
    };
    match call.api.engine().take_notification(&name, posted).await {
        Ok(()) => Ok(reply::empty(StatusCode::OK)),
        Err(error) => Err(failure(error, name)),
    }
}

fn failure(error: NotificationError, name: String) -> Failure {
    let refuse = |reason: &str| {
        Failure::illegal(format!("the notification of {} {reason}", printable(&name)))
    };
    match error {
        NotificationError::NoGateway => {
            let refused = PaymentRejection::GatewayNotRegistered { gateway: name };
            Failure::Refused(Box::new(Rejection::Payment(refused)))
        }
        NotificationError::Unsupported => refuse("is none: it sends none"),
        NotificationError::Invalid(reason) => refuse(&printable(&reason)),
        error @ (NotificationError::GatewayUnavailable | NotificationError::NotThere) => {
            let code = code::plain(StatusCode::SERVICE_UNAVAILABLE, class::REJECTED);
            Failure::coded(code, error.to_string())
        }
        NotificationError::Unavailable(unavailable) => Failure::Unavailable(unavailable),
    }
}
