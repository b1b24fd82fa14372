//! The response to a payment request: the table from a transaction's status to HTTP.

use domain::payment::TransactionStatus;
use domain::{PaymentReply, PaymentResult, Reply};
use http::{HeaderValue, StatusCode};

use crate::call::{Call, unexpected};
use crate::error::{Failure, HandlerResult, Problem, class, code};
use crate::reply;

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
            by_result(it, location)
        }
        Reply::Done => Ok(reply::no_content()),
        Reply::TenantCreated(_)
        | Reply::Access(_)
        | Reply::Account(_)
        | Reply::Flag(_)
        | Reply::Customer(_) => unexpected(),
    }
}

fn by_result(reply: PaymentReply, location: HeaderValue) -> HandlerResult {
    let with_location = |status: StatusCode, message: String| {
        let mut problem = Problem::new(code::plain(status, class::PAYMENT), message);
        problem.location = Some(location.clone());
        Err(Failure::Problem(Box::new(problem)))
    };
    match reply.result {
        PaymentResult::Status { status, message } => match status {
            TransactionStatus::Success | TransactionStatus::Pending => Ok(reply::created(location)),
            TransactionStatus::PaymentFailure => {
                let message = message.as_deref().unwrap_or("null");
                let message = format!("Payment decline by gateway. Error message: {message}");
                with_location(StatusCode::PAYMENT_REQUIRED, message)
            }
            TransactionStatus::PluginFailure => with_location(
                StatusCode::BAD_GATEWAY,
                "Failed to submit payment transaction".to_owned(),
            ),
            TransactionStatus::Unknown | TransactionStatus::InFlight => with_location(
                StatusCode::SERVICE_UNAVAILABLE,
                "Payment in unknown status, failed to receive gateway response.".to_owned(),
            ),
        },
        PaymentResult::GatewayFailed { message } => {
            let message = format!("Plugin exception {message}");
            let mut problem = Problem::new(code::PLUGIN_EXCEPTION, message);
            problem.cause_class = Some(class::PLUGIN);
            Err(Failure::Problem(Box::new(problem)))
        }
        PaymentResult::GatewayAnsweredNothing => {
            let cause = "Payment plugin returned a null result".to_owned();
            let message = format!("Internal payment error : {}: {cause}", class::ILLEGAL_STATE);
            let mut problem = Problem::new(code::INTERNAL_PAYMENT_ERROR, message);
            problem.cause_class = Some(class::ILLEGAL_STATE);
            problem.cause_message = Some(cause);
            Err(Failure::Problem(Box::new(problem)))
        }
        PaymentResult::GatewayTimedOut => {
            let payment = reply.payment;
            let message = format!("Plugin timeout for payment {payment}: no answer in time");
            Err(Failure::coded(code::PLUGIN_TIMEOUT, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Id;
    use uuid::Uuid;

    use super::*;

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
            (PaymentResult::GatewayFailed { message: String::new() }, false),
            (PaymentResult::GatewayAnsweredNothing, false),
            (PaymentResult::GatewayTimedOut, false),
        ] {
            let (payment, transaction) = (Id::new(Uuid::nil()), Id::new(Uuid::nil()));
            let reply = PaymentReply { payment, transaction, result };
            assert_eq!(is_done(&Reply::Payment(reply.clone())), done, "{reply:?}");
        }
    }
}
