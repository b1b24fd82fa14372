//! Disputes that gateways report: read from the gateway, and committed.

use std::panic::AssertUnwindSafe;

use domain::command::PaymentCommand;
use domain::payment::Actor;
use domain::payment::dispute::{DisputeCase, DisputeSaid, RecordDispute};
use domain::{Command, Request, Timestamp};
use futures_util::FutureExt;

use super::resolver::INQUIRY_TIMEOUT;
use crate::lane::Lane;
use crate::partition::Answer;
use crate::ports::{DisputeInquiry, DisputeKnowledge};
use crate::queue::Inquired;
use crate::{Engine, Unavailable};

/// Asks a gateway for a dispute, and commits what it says.
pub(super) async fn ask(
    engine: &Engine,
    (gateway, of): (&str, DisputeInquiry),
    actor: Actor,
) -> Result<Inquired, Unavailable> {
    let asked_at = engine.clock().real_now();
    let knowledge = match engine.shared().gateways.get(gateway) {
        Some(gateway) => {
            let guarded = AssertUnwindSafe(gateway.dispute(of.clone())).catch_unwind();
            match tokio::time::timeout(INQUIRY_TIMEOUT, guarded).await {
                Ok(Ok(knowledge)) => knowledge,
                Ok(Err(_)) | Err(_) => DisputeKnowledge::Unreachable,
            }
        }
        None => DisputeKnowledge::Unreachable,
    };
    match knowledge {
        DisputeKnowledge::Found(said) => {
            match book(engine, (gateway, of), (*said, asked_at), actor).await? {
                true => Ok(Inquired::Final),
                false => Ok(Inquired::NoTransaction),
            }
        }
        DisputeKnowledge::NotFound => Ok(Inquired::Open),
        DisputeKnowledge::Unreachable => Ok(Inquired::Unreachable),
    }
}

/// Commits what a gateway says of a dispute. Returns whether it is one of the transaction's.
pub(super) async fn book(
    engine: &Engine,
    (gateway, DisputeInquiry { of, case }): (&str, DisputeInquiry),
    (said, asked_at): (DisputeSaid, Timestamp),
    actor: Actor,
) -> Result<bool, Unavailable> {
    let Some(case) = DisputeCase::new(gateway, &case) else {
        tracing::warn!(gateway, "a gateway's id of a dispute is none; the dispute is not recorded");
        return Ok(false);
    };
    let record =
        RecordDispute { payment: of.payment, transaction: of.transaction, case, said, asked_at };
    let request = Request {
        id: engine.mint(),
        tenant: of.tenant,
        actor,
        idempotency: None,
        command: Command::Payment(PaymentCommand::RecordDispute(Box::new(record))),
    };
    match engine.submit_in(Lane::Own, request).await? {
        Answer::Replied(_) => Ok(true),
        Answer::Refused(rejection) => {
            tracing::warn!(gateway, payment.id = %of.payment, rejection = %rejection, "a dispute was refused");
            Ok(false)
        }
        Answer::StillRunning | Answer::AnotherRequest => {
            unreachable!("it has no idempotency key")
        }
    }
}
