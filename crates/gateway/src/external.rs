//! `__EXTERNAL_PAYMENT__`: payments that are made outside Faregate. They settle within the commit.

use domain::payment::{GatewayAnswer, GatewayKnowledge};
use domain::{GatewayCall, GatewaySettings};
use engine::Deadline;
use engine::ports::{BoxFuture, Gateway, Inquiry};

/// The gateway of external payments. It is never called: the domain settles its transactions at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct External;

impl Gateway for External {
    fn settings(&self) -> GatewaySettings {
        GatewaySettings::EXTERNAL
    }

    fn call(&self, _: GatewayCall, _: Deadline) -> BoxFuture<'_, GatewayAnswer> {
        let message = "external payments are not sent anywhere".to_owned();
        Box::pin(std::future::ready(GatewayAnswer::not_sendable(message)))
    }

    fn inquire(&self, _inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge> {
        Box::pin(std::future::ready(GatewayKnowledge::NotFound))
    }
}
