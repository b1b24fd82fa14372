//! The response to a payment request: the table from a transaction's status to HTTP.

use domain::payment::TransactionStatus;
use domain::{PaymentReply, PaymentResult, Reply};
use http::{HeaderValue, StatusCode};
use utoipa::IntoResponses;

use crate::call::{Call, unexpected};
use crate::error::{ErrorJson, Failure, HandlerResult, Problem, RETRY_AFTER_UNKNOWN, class, code};
use crate::reply;

/// The responses to a request that makes a transaction. `openapi` adds the headers.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) enum TransactionResponses {
    #[response(status = 201, description = "Done, or pending; Location names the payment")]
    Created,
    #[response(status = 402, description = "Declined: no money moved")]
    Declined(ErrorJson<'static>),
    #[response(
        status = 422,
        description = "Aborted by a control plugin, or an amount that the gateway does not take: nothing was sent"
    )]
    Aborted(ErrorJson<'static>),
    #[response(status = 502, description = "Not accepted by the gateway: no money moved")]
    NotAccepted(ErrorJson<'static>),
}

/// The responses to any request about money whose outcome may be unknown.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) enum UnknownResponses {
    #[response(
        status = 503,
        description = "Refused for lack of room, or with X-Faregate-Outcome the outcome is unknown"
    )]
    Unavailable(ErrorJson<'static>),
    #[response(status = 504, description = "No answer of the gateway: the outcome is unknown")]
    TimedOut(ErrorJson<'static>),
    #[response(status = "4XX", description = "Refused; with X-Faregate-Outcome it is unknown")]
    Refused(ErrorJson<'static>),
    #[response(status = "5XX", description = "Failed; with X-Faregate-Outcome it is unknown")]
    Failed(ErrorJson<'static>),
}

/// The response to a completion or a void: 204 for every outcome, once there is one.
pub(crate) fn of_completion(call: &Call, reply: Reply) -> HandlerResult {
    if is_done(&reply) { Ok(reply::no_content()) } else { of(call, reply) }
}

/// Whether the transaction has an outcome, from the gateway's response or from a notification before it.
fn is_done(reply: &Reply) -> bool {
    matches!(reply, Reply::Payment(_)) && !reply.is_in_doubt()
}

/// The response to a request that makes a transaction: its outcome decides.
pub(crate) fn of(call: &Call, reply: Reply) -> HandlerResult {
    match reply {
        Reply::Payment(it) => {
            let payment = it.payment.to_string();
            let location = call.location(&["/1.0/kb/payments/", &payment, "/"]);
            let mut result = by_result(it, location);
            if let Err(Failure::Problem(problem)) = &mut result
                && problem.is_unknown
                && call.is_repeatable()
            {
                problem.retry_after = Some(RETRY_AFTER_UNKNOWN);
            }
            result
        }
        Reply::PaymentAborted(it) => {
            let message = format!("Control plugin aborted call: {}: {}", it.plugin, it.reason);
            Err(Failure::coded(code::CONTROL_ABORTED, message))
        }
        Reply::Done => Ok(reply::no_content()),
        Reply::TenantCreated(_)
        | Reply::TagDefinitionCreated(_)
        | Reply::Access(_)
        | Reply::Account(_)
        | Reply::Flag(_)
        | Reply::Customer(_)
        | Reply::Entitlement(_)
        | Reply::Billing(_)
        | Reply::Imported { .. } => unexpected(),
    }
}

/// Kill Bill names no `Location` where its plugin failed, returned nothing or timed out: its clients follow one and
/// return what it names instead of the error.
fn by_result(reply: PaymentReply, location: HeaderValue) -> HandlerResult {
    let plain = |status, message: &str| Problem::new(code::plain(status, class::PAYMENT), message);
    let payment = reply.payment;
    let (mut problem, is_located) = match reply.result {
        PaymentResult::Status { status, message } => match status {
            TransactionStatus::Success | TransactionStatus::Pending => {
                return Ok(reply::created(location));
            }
            TransactionStatus::PaymentFailure => {
                let message = message.as_deref().unwrap_or("null");
                let message = format!("Payment decline by gateway. Error message: {message}");
                (plain(StatusCode::PAYMENT_REQUIRED, &message), true)
            }
            TransactionStatus::PluginFailure => {
                (plain(StatusCode::BAD_GATEWAY, "Failed to submit payment transaction"), true)
            }
            TransactionStatus::Unknown | TransactionStatus::InFlight => {
                let message = "Payment in unknown status, failed to receive gateway response.";
                (unknown(plain(StatusCode::SERVICE_UNAVAILABLE, message)), true)
            }
        },
        PaymentResult::AmountNotTaken { message } => {
            let reason = message.as_deref().unwrap_or("the gateway does not take it");
            let message = format!("Invalid parameter amount: {reason}");
            (plain(StatusCode::UNPROCESSABLE_ENTITY, &message), true)
        }
        PaymentResult::GatewayFailed { message } => {
            let message = format!("Plugin exception {message} (payment {payment})");
            let mut problem = Problem::new(code::PLUGIN_EXCEPTION, message);
            problem.cause_class = Some(class::PLUGIN);
            (unknown(problem), false)
        }
        PaymentResult::GatewayAnsweredNothing => {
            let cause = "Payment plugin returned a null result".to_owned();
            let message = format!(
                "Internal payment error : {}: {cause} (payment {payment})",
                class::ILLEGAL_STATE
            );
            let mut problem = Problem::new(code::INTERNAL_PAYMENT_ERROR, message);
            problem.cause_class = Some(class::ILLEGAL_STATE);
            problem.cause_message = Some(cause);
            (unknown(problem), false)
        }
        PaymentResult::GatewayTimedOut => {
            let message = format!("Plugin timeout for payment {payment}: no answer in time");
            (unknown(Problem::new(code::PLUGIN_TIMEOUT, message)), false)
        }
    };
    problem.location = is_located.then_some(location);
    problem.payment = Some(payment);
    Err(Failure::Problem(Box::new(problem)))
}

fn unknown(problem: Problem) -> Problem {
    Problem { is_unknown: true, ..problem }
}

#[cfg(test)]
mod tests {
    use domain::Id;
    use http::header::LOCATION;
    use uuid::Uuid;

    use super::*;
    use crate::error::PAYMENT;

    #[test]
    fn an_amount_that_the_gateway_does_not_take_is_the_clients() {
        let message = Some("5.124 KWD: Stripe takes two decimals of KWD".to_owned());
        let result = PaymentResult::AmountNotTaken { message };
        let (payment, transaction) = (Id::new(Uuid::nil()), Id::new(Uuid::nil()));
        let reply = PaymentReply { payment, transaction, result };
        let refused = by_result(reply, HeaderValue::from_static("/p")).err().unwrap();
        assert!(format!("{refused:?}").contains("status: 422"), "{refused:?}");
        let Failure::Problem(problem) = refused else { panic!("it is a problem") };
        let text = "Invalid parameter amount: 5.124 KWD: Stripe takes two decimals of KWD";
        assert_eq!(problem.message, text);
        assert!(!problem.is_unknown);
    }

    #[test]
    fn a_completion_or_a_void_is_done_once_there_is_an_outcome() {
        let status = |status| PaymentResult::Status { status, message: None };
        for (result, done) in [
            (status(TransactionStatus::Success), true),
            (status(TransactionStatus::Pending), true),
            (status(TransactionStatus::PaymentFailure), true),
            (status(TransactionStatus::PluginFailure), true),
            (status(TransactionStatus::InFlight), false),
            (status(TransactionStatus::Unknown), false),
            (PaymentResult::AmountNotTaken { message: None }, true),
            (PaymentResult::GatewayFailed { message: String::new() }, false),
            (PaymentResult::GatewayAnsweredNothing, false),
            (PaymentResult::GatewayTimedOut, false),
        ] {
            let (payment, transaction) = (Id::new(Uuid::nil()), Id::new(Uuid::nil()));
            let reply = PaymentReply { payment, transaction, result };
            assert_eq!(is_done(&Reply::Payment(reply.clone())), done, "{reply:?}");
        }
    }

    #[test]
    fn failures_of_a_plugin_name_their_payment_and_no_location() {
        let status = |status| PaymentResult::Status { status, message: None };
        for (result, expected) in [
            (status(TransactionStatus::PaymentFailure), "402 located"),
            (status(TransactionStatus::PluginFailure), "502 located"),
            (status(TransactionStatus::Unknown), "503 located"),
            (PaymentResult::GatewayFailed { message: "x".to_owned() }, "400 in its message"),
            (PaymentResult::GatewayAnsweredNothing, "500 in its message"),
            (PaymentResult::GatewayTimedOut, "504 in its message"),
        ] {
            let (payment, transaction) = (Id::new(Uuid::from_u128(7)), Id::new(Uuid::from_u128(8)));
            let reply = PaymentReply { payment, transaction, result };
            let failure = by_result(reply, HeaderValue::from_static("/p")).unwrap_err();
            let Failure::Problem(problem) = &failure else { panic!("{failure:?}") };
            let place = match problem.message.contains(&payment.to_string()) {
                true => "in its message",
                false => "located",
            };
            let response = failure.into_response("/");
            let headers = response.headers();
            assert_eq!(format!("{} {place}", response.status().as_u16()), expected);
            assert_eq!(headers.contains_key(LOCATION), place == "located", "{expected}");
            assert_eq!(headers[PAYMENT], payment.to_string().as_str(), "{expected}");
        }
    }
}
