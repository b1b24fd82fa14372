//! How the reply to a step differs from the transaction's status.

use expect_test::expect;

use super::check;
use crate::{PaymentReply, PaymentResult, Reply};

pub(super) fn how(reply: Option<&Reply>) -> &'static str {
    let not_taken = |it: &PaymentReply| matches!(it.result, PaymentResult::AmountNotTaken { .. });
    match reply {
        Some(it) if it.is_in_doubt() => " (in doubt)",
        Some(Reply::Payment(it)) if not_taken(it) => " (amount not taken)",
        Some(_) | None => "",
    }
}

#[test]
fn an_amount_that_the_gateway_does_not_take_is_no_failure_of_the_gateway() {
    check(
        "purchase p 10 | cancel p 10 code=amount",
        expect!["Purchase PluginFailure;  (amount not taken)"],
    );
    check("purchase p 10 | cancel p 10 code=other", expect!["Purchase PluginFailure; "]);
    check("purchase p 10 | decline p 10 code=amount", expect!["Purchase PaymentFailure; "]);
}
