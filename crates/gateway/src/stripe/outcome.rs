//! The outcome of a transaction, from Stripe's objects and errors.

use domain::payment::{GatewayOutcome, GatewayStatus, TransactionType};
use domain::{AmountMinor, Currency, TransactionId};

use super::amount::from_stripe;
use super::api::Refused;
use super::objects::{self, ErrorBody, Intent, Refund};
use crate::next_action::{CLIENT_SECRET, NextAction, REDIRECT_URL};

/// The metadata that says which transaction an object was made for.
pub(super) const TRANSACTION: &str = "faregate-transaction";
/// The tenant's, account's and payment's ids beside it.
pub(super) const TENANT: &str = "faregate-tenant";
pub(super) const ACCOUNT: &str = "faregate-account";
pub(super) const PAYMENT: &str = "faregate-payment";

/// The metadata in which an intent lists a capture: there once the capture was carried out. A key has 40
/// characters at most.
pub(super) fn capture_mark(transaction: TransactionId) -> String {
    format!("capture_{}", transaction.uuid().simple())
}

/// Who knows an intent's secret: only then can the customer go on with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Secret {
    /// The customer may have it.
    Out,
    /// Nobody has: it was in the very answer, or in one that was lost.
    Kept,
}

/// The outcome of the transaction that made an intent.
pub(super) fn of_intent(intent: &Intent, kind: TransactionType, secret: Secret) -> GatewayOutcome {
    let is_authorized = kind == TransactionType::Authorize;
    let (status, amount) = match intent.status.as_str() {
        "succeeded" if is_authorized => (GatewayStatus::Processed, Some(intent.amount)),
        "succeeded" => (GatewayStatus::Processed, Some(intent.amount_received)),
        "requires_capture" if is_authorized => (GatewayStatus::Processed, Some(intent.amount)),
        "processing" | "requires_action" | "requires_confirmation" => {
            (GatewayStatus::Pending, None)
        }
        "requires_payment_method" if secret == Secret::Out => (GatewayStatus::Pending, None),
        "requires_payment_method" | "canceled" => (GatewayStatus::Error, None),
        _ => (GatewayStatus::Undefined, None),
    };
    let outcome = GatewayOutcome {
        first_reference: Some(intent.id.clone()),
        second_reference: intent.latest_charge.as_ref().map(|it| it.id().to_owned()),
        ..with_amount(status, amount, &intent.currency)
    };
    match status {
        GatewayStatus::Error => GatewayOutcome { status, ..why_failed(intent, outcome) },
        GatewayStatus::Processed
        | GatewayStatus::Pending
        | GatewayStatus::Canceled
        | GatewayStatus::Undefined => outcome,
    }
}

fn why_failed(intent: &Intent, outcome: GatewayOutcome) -> GatewayOutcome {
    match (&intent.last_payment_error, &intent.cancellation_reason) {
        (Some(error), _) => with_error(outcome, error),
        (None, reason) => GatewayOutcome {
            error_code: Some(reason.clone().unwrap_or_else(|| intent.status.clone())),
            error_message: Some("the payment was canceled".to_owned()),
            ..outcome
        },
    }
}

/// A capture that was carried out.
pub(super) fn captured(intent: &Intent, amount: Option<(AmountMinor, Currency)>) -> GatewayOutcome {
    GatewayOutcome {
        amount: amount.map(|(amount, _)| amount),
        currency: amount.map(|(_, currency)| currency),
        first_reference: Some(intent.id.clone()),
        second_reference: intent.latest_charge.as_ref().map(|it| it.id().to_owned()),
        ..GatewayOutcome::new(GatewayStatus::Processed)
    }
}

/// An authorization that was released.
pub(super) fn released(intent: &Intent) -> GatewayOutcome {
    GatewayOutcome {
        first_reference: Some(intent.id.clone()),
        ..GatewayOutcome::new(GatewayStatus::Processed)
    }
}

pub(super) fn of_refund(refund: &Refund) -> GatewayOutcome {
    let status = match refund.status.as_deref() {
        None | Some("succeeded") => GatewayStatus::Processed,
        Some("pending" | "requires_action") => GatewayStatus::Pending,
        Some("failed" | "canceled") => GatewayStatus::Error,
        Some(_) => GatewayStatus::Undefined,
    };
    let amount = (status == GatewayStatus::Processed).then_some(refund.amount);
    GatewayOutcome {
        error_code: refund.failure_reason.clone(),
        first_reference: Some(refund.id.clone()),
        second_reference: refund.charge.as_ref().map(|it| it.id().to_owned()),
        ..with_amount(status, amount, &refund.currency)
    }
}

/// An amount in a currency that is not ours is none: the outcome is undefined.
fn with_amount(status: GatewayStatus, amount: Option<i64>, currency: &str) -> GatewayOutcome {
    let Some(amount) = amount else { return GatewayOutcome::new(status) };
    let currency = Currency::parse(&currency.to_ascii_uppercase());
    match currency.and_then(|currency| Some((from_stripe(amount, currency)?, currency))) {
        Some((amount, currency)) => GatewayOutcome {
            amount: Some(amount),
            currency: Some(currency),
            ..GatewayOutcome::new(status)
        },
        None => GatewayOutcome::new(GatewayStatus::Undefined),
    }
}

/// The outcome of a call that Stripe refused: a card's error is a decline; all else was not carried out.
pub(super) fn of_refusal(refused: &Refused) -> GatewayOutcome {
    let status = match refused.status == 402 || refused.error.kind == "card_error" {
        true => GatewayStatus::Error,
        false => GatewayStatus::Canceled,
    };
    let intent = refused.error.payment_intent.as_deref();
    let outcome = GatewayOutcome {
        first_reference: intent.map(|it| it.id.clone()),
        second_reference: intent
            .and_then(|it| it.latest_charge.as_ref())
            .map(|it| it.id().to_owned()),
        ..GatewayOutcome::new(status)
    };
    with_error(outcome, &refused.error)
}

fn with_error(outcome: GatewayOutcome, error: &ErrorBody) -> GatewayOutcome {
    let code = error.decline_code.as_ref().or(error.code.as_ref());
    GatewayOutcome {
        error_code: Some(code.unwrap_or(&error.kind).clone()),
        error_message: error.message.clone(),
        ..outcome
    }
}

/// The customer's next action, as names and texts; `None` where the intent has none.
pub(super) fn next_action(intent: &Intent) -> Option<NextAction> {
    let objects::NextAction { kind, redirect_to_url } = intent.next_action.as_ref()?;
    let mut action = vec![("nextActionType", kind.clone())];
    match redirect_to_url.as_ref().and_then(|it| it.url.as_ref()) {
        Some(url) => action.push((REDIRECT_URL, url.clone())),
        None => action.extend(intent.client_secret.clone().map(|secret| (CLIENT_SECRET, secret))),
    }
    Some(action)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    fn check(
        changes: Value,
        (kind, secret): (TransactionType, Secret),
        expected: Expect,
    ) -> Intent {
        let mut intent = json!({"id": "pi_1", "status": "succeeded", "amount": 1050,
            "amount_received": 1050, "currency": "usd", "latest_charge": "ch_1"});
        let changes = changes.as_object().unwrap().clone();
        intent.as_object_mut().unwrap().extend(changes);
        let intent: Intent = serde_json::from_value(intent).unwrap();
        let it = of_intent(&intent, kind, secret);
        let amount = it.amount.zip(it.currency).map(|(amount, currency)| amount.decimal(currency));
        expected.assert_eq(&format!(
            "{:?} {amount:?} {:?} {:?}",
            it.status, it.error_code, it.second_reference
        ));
        intent
    }

    #[test]
    fn an_intents_status_is_the_transactions() {
        use Secret::{Kept, Out};
        use TransactionType::{Authorize, Purchase};
        check(
            json!({}),
            (Purchase, Kept),
            expect![[r#"Processed Some("10.50") None Some("ch_1")"#]],
        );
        let reserved = json!({"status": "requires_capture", "amount_received": 0});
        check(
            reserved.clone(),
            (Authorize, Kept),
            expect![[r#"Processed Some("10.50") None Some("ch_1")"#]],
        );
        check(reserved, (Purchase, Kept), expect![[r#"Undefined None None Some("ch_1")"#]]);
        let part = json!({"amount_received": 300});
        check(part, (Authorize, Kept), expect![[r#"Processed Some("10.50") None Some("ch_1")"#]]);
        let processing = json!({"status": "processing"});
        check(processing, (Purchase, Kept), expect![[r#"Pending None None Some("ch_1")"#]]);
        let declined = json!({"status": "requires_payment_method", "last_payment_error":
            {"type": "card_error", "code": "card_declined", "decline_code": "insufficient_funds"}});
        check(
            declined.clone(),
            (Purchase, Kept),
            expect![[r#"Error None Some("insufficient_funds") Some("ch_1")"#]],
        );
        check(declined, (Purchase, Out), expect![[r#"Pending None None Some("ch_1")"#]]);
        let canceled = json!({"status": "canceled", "cancellation_reason": "abandoned"});
        check(canceled, (Purchase, Out), expect![[r#"Error None Some("abandoned") Some("ch_1")"#]]);
        let foreign = json!({"currency": "xyz"});
        check(foreign, (Purchase, Kept), expect![[r#"Undefined None None Some("ch_1")"#]]);
        let unheard = json!({"status": "something_new"});
        check(unheard, (Purchase, Kept), expect![[r#"Undefined None None Some("ch_1")"#]]);
    }

    #[test]
    fn the_next_action_is_a_redirect_or_a_secret() {
        let redirect = json!({"status": "requires_action", "client_secret": "pi_1_secret_2",
            "next_action": {"type": "redirect_to_url", "redirect_to_url": {"url": "https://hooks.example/"}}});
        let pending = (TransactionType::Purchase, Secret::Kept);
        let seen = expect![[r#"Pending None None Some("ch_1")"#]];
        let intent = check(redirect, pending, seen);
        let action = next_action(&intent).unwrap();
        assert_eq!(action[1], ("redirectUrl", "https://hooks.example/".to_owned()));
        let sdk = json!({"status": "requires_action", "client_secret": "pi_1_secret_2",
            "next_action": {"type": "use_stripe_sdk"}});
        let seen = expect![[r#"Pending None None Some("ch_1")"#]];
        let action = next_action(&check(sdk, pending, seen)).unwrap();
        assert_eq!(action[1], ("clientSecret", "pi_1_secret_2".to_owned()));
    }
}
