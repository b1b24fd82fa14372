//! Disputes: read by id, with the PaymentIntent that they are of, and what moved of their money.

use domain::payment::dispute::{DisputeSaid, DisputeStatus};
use domain::{AmountMinor, Currency, PaymentId, Timestamp, TransactionId};
use uuid::Uuid;

use super::amount::from_stripe;
use super::api::{Api, Parameters, Trouble, is_id};
use super::objects::{Dispute, Moved};
use super::outcome;

/// A dispute, and the transaction that its PaymentIntent was made for.
pub(super) struct Read {
    pub(super) payment: PaymentId,
    pub(super) transaction: TransactionId,
    pub(super) said: DisputeSaid,
}

/// Reads a dispute; `None` where Stripe has none, or it is not of the tenant.
pub(super) async fn read(api: &Api<'_>, id: &str, tenant: Uuid) -> Result<Option<Read>, Trouble> {
    if !is_id(id) {
        return Ok(None);
    }
    let with_intent = Parameters::default().with("expand[]", "payment_intent");
    let dispute: Dispute = match api.get(&format!("/v1/disputes/{id}"), with_intent).await {
        Err(Trouble::Refused(refused)) if refused.status == 404 => return Ok(None),
        dispute => dispute?,
    };
    let metadata = dispute.payment_intent.as_ref().map(|it| &it.metadata);
    let marked = |name: &str| metadata?.get(name)?.parse::<Uuid>().ok();
    if marked(outcome::TENANT) != Some(tenant) {
        return Ok(None);
    }
    let Some((payment, of)) = marked(outcome::PAYMENT).zip(marked(outcome::TRANSACTION)) else {
        return Ok(None);
    };
    let said = said(&dispute).ok_or_else(|| {
        Trouble::Unknown("Stripe's dispute has a status or an amount that is not known".to_owned())
    })?;
    Ok(Some(Read { payment: PaymentId::new(payment), transaction: TransactionId::new(of), said }))
}

/// The dispute in the domain's terms; `None` where it has a status, a currency or an amount that is not known.
fn said(dispute: &Dispute) -> Option<DisputeSaid> {
    let currency = Currency::parse(&dispute.currency.to_uppercase())?;
    let amount = from_stripe(dispute.amount, currency)?;
    let due_s = dispute.evidence_details.as_ref().and_then(|it| it.due_by);
    let due_by = due_s.and_then(|it| it.checked_mul(Timestamp::SECOND_US)).map(Timestamp);
    let moved = |sign: i64| {
        let of_sign = dispute.balance_transactions.iter().filter(|it| it.amount.signum() == sign);
        let mut all = of_sign.map(|it| moved(it, (amount, currency)));
        all.try_fold(AmountMinor::ZERO, |sum, it| sum.checked_add(it?))
    };
    Some(DisputeSaid {
        status: status(&dispute.status)?,
        reason: dispute.reason.clone(),
        amount,
        currency,
        evidence_due_by: due_by,
        withdrawn: moved(-1)?,
        reinstated: moved(1)?,
    })
}

/// How much of the dispute's currency was moved. Where Stripe's balance has another currency, the dispute's amount:
/// the rates of a day differ from those of the charge.
fn moved(it: &Moved, (disputed, currency): (AmountMinor, Currency)) -> Option<AmountMinor> {
    if it.currency.eq_ignore_ascii_case(currency.code()) {
        return from_stripe(it.amount.checked_abs()?, currency);
    }
    Some(disputed)
}

fn status(name: &str) -> Option<DisputeStatus> {
    Some(match name {
        "warning_needs_response" => DisputeStatus::WarningNeedsResponse,
        "warning_under_review" => DisputeStatus::WarningUnderReview,
        // The bank withdrew it, or was kept from opening it.
        "warning_closed" | "prevented" => DisputeStatus::WarningClosed,
        "needs_response" => DisputeStatus::NeedsResponse,
        "under_review" => DisputeStatus::UnderReview,
        "won" => DisputeStatus::Won,
        "lost" => DisputeStatus::Lost,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    fn check(changes: &Value, expected: Expect) {
        let mut dispute = json!({
            "status": "needs_response", "reason": "fraudulent", "amount": 1_000, "currency": "usd",
            "evidence_details": { "due_by": 1_795_000_000 }, "balance_transactions": [],
        });
        for (name, value) in changes.as_object().unwrap() {
            dispute[name] = value.clone();
        }
        let dispute: Dispute = serde_json::from_value(dispute).unwrap();
        let shown = said(&dispute).map(|it| {
            let (withdrawn, reinstated) = (it.withdrawn.0, it.reinstated.0);
            format!("{} {} -{withdrawn} +{reinstated}", it.status.name(), it.amount.0)
        });
        expected.assert_eq(shown.as_deref().unwrap_or("nothing"));
    }

    #[test]
    fn what_moved_is_what_the_balance_says() {
        let moved = |amounts: &[i64], currency: &str| {
            let all = amounts.iter().map(|it| json!({ "amount": it, "currency": currency }));
            json!({ "balance_transactions": all.collect::<Vec<_>>() })
        };
        check(&moved(&[], "usd"), expect!["NEEDS_RESPONSE 1000 -0 +0"]);
        check(&moved(&[-1_000], "usd"), expect!["NEEDS_RESPONSE 1000 -1000 +0"]);
        check(&moved(&[-1_000, 400], "usd"), expect!["NEEDS_RESPONSE 1000 -1000 +400"]);
        check(&moved(&[-1_000, 1_000, -1_000], "usd"), expect!["NEEDS_RESPONSE 1000 -2000 +1000"]);
        check(&moved(&[-912, 930], "eur"), expect!["NEEDS_RESPONSE 1000 -1000 +1000"]);
        check(&moved(&[i64::MIN], "usd"), expect!["nothing"]);
        check(&moved(&[-i64::MAX, -i64::MAX], "usd"), expect!["nothing"]);
    }

    #[test]
    fn statuses_and_amounts_that_are_not_known_are_nothing() {
        check(&json!({ "status": "won" }), expect!["WON 1000 -0 +0"]);
        check(&json!({ "status": "prevented" }), expect!["WARNING_CLOSED 1000 -0 +0"]);
        check(&json!({ "status": "settled" }), expect!["nothing"]);
        check(&json!({ "currency": "usdt" }), expect!["nothing"]);
        check(&json!({ "currency": "isk", "amount": 1_050 }), expect!["nothing"]);
        check(
            &json!({ "currency": "isk", "amount": 100_000 }),
            expect!["NEEDS_RESPONSE 1000 -0 +0"],
        );
        check(&json!({ "evidence_details": null }), expect!["NEEDS_RESPONSE 1000 -0 +0"]);
    }
}
