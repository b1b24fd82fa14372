//! Entry points for fuzz targets: readers of the messages of gateways and of their senders.

use domain::{TenantNo, TransactionId};
use uuid::Uuid;

use crate::http_gateway::contract::{
    self, ChargeAnswer, FormAnswer, InquireAnswer, PostedAnswer, TransactionsAnswer,
};
use crate::stripe::event;

/// Whether an event of Stripe's is believed, and whether it is about something.
pub fn stripe_event(signature: &str, body: &[u8], (secret, now_s): (&str, i64)) -> (bool, bool) {
    let is_believed = event::verify(Some(signature), body, &[secret.to_owned()], now_s).is_ok();
    (is_believed, event::subject(body).is_ok_and(|it| it.is_some()))
}

/// Reads an answer of a program as the answer to each message; whether one is about the transaction.
pub fn http_answer(answer: &[u8], of: Uuid) -> bool {
    let of = TransactionId::new(of);
    let charged = contract::decode::<ChargeAnswer>(answer).and_then(|it| it.outcome(of));
    if let Ok((outcome, _)) = &charged {
        assert!(outcome.amount.is_none() || outcome.currency.is_some());
    }
    let inquired = contract::decode::<InquireAnswer>(answer).and_then(|it| it.outcome(of));
    let page = contract::decode::<FormAnswer>(answer).and_then(FormAnswer::form);
    if let Ok(Ok(page)) = &page {
        assert!(page.url.starts_with("http"));
    }
    drop(contract::decode::<PostedAnswer>(answer).map(PostedAnswer::about));
    let listed = contract::decode::<TransactionsAnswer>(answer);
    drop(listed.map(|it| it.page((TenantNo(1), None))));
    charged.is_ok() || inquired.is_ok()
}
