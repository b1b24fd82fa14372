//! Events of subscriptions and invoices: as Kill Bill names them, and as webhooks tell of them.

use domain::{AmountMinor, Currency, Event, SubscriptionStep};
use engine::time::rfc3339;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Kill Bill's name of an event, with the type and the id of its object; `None` for an event that Kill Bill has not.
pub(crate) fn killbill_event(
    event: &Event,
) -> Option<(&'static str, &'static str, Option<String>)> {
    if let Event::SubscriptionChanged { subscription, step, is_in_effect, .. } = event {
        let name = match step {
            SubscriptionStep::Created => "SUBSCRIPTION_CREATION",
            SubscriptionStep::Entitled => "ENTITLEMENT_CREATION",
            SubscriptionStep::Phase => "SUBSCRIPTION_PHASE",
            SubscriptionStep::Changed => "SUBSCRIPTION_CHANGE",
            SubscriptionStep::BillCycleDay => "SUBSCRIPTION_BCD_CHANGE",
            SubscriptionStep::Quantity => "SUBSCRIPTION_QUANTITY",
            SubscriptionStep::Cancelled => "SUBSCRIPTION_CANCEL",
            SubscriptionStep::EntitlementEnded => "ENTITLEMENT_CANCEL",
            SubscriptionStep::Uncancelled => "SUBSCRIPTION_UNCANCEL",
            // Nobody asks for it.
            SubscriptionStep::Expired if !is_in_effect => return None,
            SubscriptionStep::Expired => "SUBSCRIPTION_EXPIRED",
        };
        return Some((name, "SUBSCRIPTION", Some(subscription.to_string())));
    }
    if let Event::InvoiceCreated { invoice, .. } = event {
        return Some(("INVOICE_CREATION", "INVOICE", Some(invoice.to_string())));
    }
    if let Event::InvoiceAdjusted { invoice, .. } = event {
        return Some(("INVOICE_ADJUSTMENT", "INVOICE", Some(invoice.to_string())));
    }
    if let Event::InvoiceUpcoming { .. } = event {
        return Some(("INVOICE_NOTIFICATION", "INVOICE", None));
    }
    let Event::InvoicePaid { invoice, is_paid, .. } = event else { return None };
    let name = if *is_paid { "INVOICE_PAYMENT_SUCCESS" } else { "INVOICE_PAYMENT_FAILED" };
    Some((name, "INVOICE", Some(invoice.to_string())))
}

/// Kill Bill's meta data of an event; `None` for an event that has none there. The key of a subscription's bundle is
/// not among it: a client's key may say something of a person, and is not in the journal.
pub(crate) fn meta_data(event: &Event) -> Option<String> {
    if let Event::SubscriptionChanged { step, is_in_effect, .. } = event {
        let is_of_entitlement =
            matches!(step, SubscriptionStep::Entitled | SubscriptionStep::EntitlementEnded);
        let action = if *is_in_effect { "EFFECTIVE" } else { "REQUESTED" };
        let meta_data = || json!({ "actionType": action }).to_string();
        return (!is_of_entitlement).then(meta_data);
    }
    let Event::InvoicePaid { payment, amount, currency, .. } = event else { return None };
    let meta_data = InvoicePaymentMetaData {
        payment_id: payment.map(|it| it.to_string()),
        amount: plain(*amount, *currency),
        currency: currency.code(),
        processed_currency: currency.code(),
    };
    Some(serde_json::to_string(&meta_data).expect("texts and a number can be written"))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InvoicePaymentMetaData<'a> {
    payment_id: Option<String>,
    amount: Box<RawValue>,
    currency: &'a str,
    processed_currency: &'a str,
}

/// A JSON number without trailing zeros: `10`, `10.5`.
pub(crate) fn plain(amount: AmountMinor, currency: Currency) -> Box<RawValue> {
    let decimal = amount.decimal(currency);
    let plain = match decimal.split_once('.') {
        Some(_) => decimal.trim_end_matches('0').trim_end_matches('.'),
        None => &decimal,
    };
    RawValue::from_string(plain.to_owned()).expect("a decimal is a JSON number")
}

/// The type of a change of a subscription.
pub(crate) const fn subscription_type(step: SubscriptionStep, is_in_effect: bool) -> &'static str {
    match step {
        SubscriptionStep::Entitled => "subscription.entitled",
        SubscriptionStep::EntitlementEnded => "subscription.entitlement-ended",
        SubscriptionStep::Uncancelled => "subscription.uncancelled",
        SubscriptionStep::Created
        | SubscriptionStep::Phase
        | SubscriptionStep::Changed
        | SubscriptionStep::BillCycleDay
        | SubscriptionStep::Quantity
        | SubscriptionStep::Cancelled
        | SubscriptionStep::Expired
            if !is_in_effect =>
        {
            "subscription.requested"
        }
        SubscriptionStep::Created => "subscription.created",
        SubscriptionStep::Phase => "subscription.phase",
        SubscriptionStep::Changed | SubscriptionStep::BillCycleDay | SubscriptionStep::Quantity => {
            "subscription.changed"
        }
        SubscriptionStep::Cancelled => "subscription.cancelled",
        SubscriptionStep::Expired => "subscription.expired",
    }
}

/// The data of an event; an empty object for an event of something else.
pub(crate) fn data(event: &Event) -> Value {
    if let Event::SubscriptionChanged { account, subscription, effective_at, .. } = event {
        return json!({
            "accountId": account,
            "subscriptionId": subscription,
            "effectiveAt": rfc3339(*effective_at),
        });
    }
    if let Event::InvoiceCreated { account, invoice, number, charged, balance, currency } = event {
        return json!({
            "accountId": account,
            "invoiceId": invoice,
            "invoiceNumber": number.to_string(),
            "amount": charged.decimal(*currency),
            "balance": balance.decimal(*currency),
            "currency": currency.code(),
        });
    }
    if let Event::InvoiceAdjusted { account, invoice, charged, balance, currency } = event {
        return json!({
            "accountId": account,
            "invoiceId": invoice,
            "amount": charged.decimal(*currency),
            "balance": balance.decimal(*currency),
            "currency": currency.code(),
        });
    }
    if let Event::InvoicePaid { account, invoice, payment, amount, balance, currency, .. } = event {
        return json!({
            "accountId": account,
            "invoiceId": invoice,
            "paymentId": payment,
            "amount": amount.decimal(*currency),
            "balance": balance.decimal(*currency),
            "currency": currency.code(),
        });
    }
    if let Event::InvoiceUpcoming { account, target, charged, balance, currency } = event {
        return json!({
            "accountId": account,
            "targetDate": target.to_string(),
            "amount": charged.decimal(*currency),
            "balance": balance.decimal(*currency),
            "currency": currency.code(),
        });
    }
    let Event::AccountParked { account, reason } = event else { return json!({}) };
    json!({ "accountId": account, "reason": reason.to_string() })
}

#[cfg(test)]
mod tests {
    use domain::{AccountId, InvoiceId, PaymentId, SubscriptionId, Timestamp};
    use expect_test::expect;
    use uuid::Uuid;

    use super::*;
    use crate::event::{EVENT_TYPES, event_type};

    const STEPS: [SubscriptionStep; 10] = [
        SubscriptionStep::Created,
        SubscriptionStep::Entitled,
        SubscriptionStep::Phase,
        SubscriptionStep::Changed,
        SubscriptionStep::BillCycleDay,
        SubscriptionStep::Quantity,
        SubscriptionStep::Cancelled,
        SubscriptionStep::EntitlementEnded,
        SubscriptionStep::Uncancelled,
        SubscriptionStep::Expired,
    ];

    fn changed(step: SubscriptionStep, is_in_effect: bool) -> Event {
        Event::SubscriptionChanged {
            account: AccountId::new(Uuid::from_u128(1)),
            subscription: SubscriptionId::new(Uuid::from_u128(2)),
            step,
            effective_at: Timestamp(0),
            is_in_effect,
        }
    }

    fn usd() -> Currency {
        Currency::parse("USD").unwrap()
    }

    fn shown(event: &Event) -> String {
        let name = killbill_event(event).map_or("-", |(name, ..)| name);
        format!("{name} {}", meta_data(event).unwrap_or_default()).trim_end().to_owned()
    }

    #[test]
    fn meta_data_says_whether_a_change_is_asked_for_or_in_effect() {
        let events = STEPS.iter().flat_map(|it| [changed(*it, false), changed(*it, true)]);
        let lines: Vec<_> = events.map(|it| shown(&it)).collect();
        expect![[r#"
            SUBSCRIPTION_CREATION {"actionType":"REQUESTED"}
            SUBSCRIPTION_CREATION {"actionType":"EFFECTIVE"}
            ENTITLEMENT_CREATION
            ENTITLEMENT_CREATION
            SUBSCRIPTION_PHASE {"actionType":"REQUESTED"}
            SUBSCRIPTION_PHASE {"actionType":"EFFECTIVE"}
            SUBSCRIPTION_CHANGE {"actionType":"REQUESTED"}
            SUBSCRIPTION_CHANGE {"actionType":"EFFECTIVE"}
            SUBSCRIPTION_BCD_CHANGE {"actionType":"REQUESTED"}
            SUBSCRIPTION_BCD_CHANGE {"actionType":"EFFECTIVE"}
            SUBSCRIPTION_QUANTITY {"actionType":"REQUESTED"}
            SUBSCRIPTION_QUANTITY {"actionType":"EFFECTIVE"}
            SUBSCRIPTION_CANCEL {"actionType":"REQUESTED"}
            SUBSCRIPTION_CANCEL {"actionType":"EFFECTIVE"}
            ENTITLEMENT_CANCEL
            ENTITLEMENT_CANCEL
            SUBSCRIPTION_UNCANCEL {"actionType":"REQUESTED"}
            SUBSCRIPTION_UNCANCEL {"actionType":"EFFECTIVE"}
            - {"actionType":"REQUESTED"}
            SUBSCRIPTION_EXPIRED {"actionType":"EFFECTIVE"}"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn meta_data_of_an_invoices_payment_has_what_it_brought() {
        let paid = |payment, minor| Event::InvoicePaid {
            account: AccountId::new(Uuid::from_u128(1)),
            invoice: InvoiceId::new(Uuid::from_u128(2)),
            payment,
            is_paid: payment.is_some(),
            amount: AmountMinor(minor),
            balance: AmountMinor::ZERO,
            currency: usd(),
        };
        let of = Some(PaymentId::new(Uuid::from_u128(3)));
        let lines = [paid(of, 1_050), paid(of, 1_000), paid(None, 0)].map(|it| shown(&it));
        expect![[r#"
            INVOICE_PAYMENT_SUCCESS {"paymentId":"00000000-0000-0000-0000-000000000003","amount":10.5,"currency":"USD","processedCurrency":"USD"}
            INVOICE_PAYMENT_SUCCESS {"paymentId":"00000000-0000-0000-0000-000000000003","amount":10,"currency":"USD","processedCurrency":"USD"}
            INVOICE_PAYMENT_FAILED {"paymentId":null,"amount":0,"currency":"USD","processedCurrency":"USD"}"#]].assert_eq(&lines.join("\n"));
    }

    #[test]
    fn what_is_to_come_has_no_invoice_yet() {
        let upcoming = Event::InvoiceUpcoming {
            account: AccountId::new(Uuid::from_u128(1)),
            target: "2026-03-09".parse().unwrap(),
            charged: AmountMinor(2_000),
            balance: AmountMinor(500),
            currency: usd(),
        };
        let of_killbill = ("INVOICE_NOTIFICATION", "INVOICE", None);
        assert_eq!(killbill_event(&upcoming), Some(of_killbill));
        expect![[r#"{"accountId":"00000000-0000-0000-0000-000000000001","amount":"20.00","balance":"5.00","currency":"USD","targetDate":"2026-03-09"}"#]].assert_eq(&data(&upcoming).to_string());
    }

    #[test]
    fn endpoints_can_choose_every_type_of_billing() {
        let (account, invoice) = (AccountId::new(Uuid::nil()), InvoiceId::new(Uuid::nil()));
        let (charged, balance, currency) = (AmountMinor(1), AmountMinor(1), usd());
        let events = STEPS.iter().flat_map(|it| [changed(*it, false), changed(*it, true)]);
        let adjusted = Event::InvoiceAdjusted { account, invoice, charged, balance, currency };
        let created =
            Event::InvoiceCreated { account, invoice, number: 1, charged, balance, currency };
        let target = "2026-03-09".parse().unwrap();
        let upcoming = Event::InvoiceUpcoming { account, target, charged, balance, currency };
        for event in events.chain([adjusted, created, upcoming]) {
            let kind = event_type(&event).unwrap();
            assert!(EVENT_TYPES.contains(&kind), "{kind}");
        }
    }
}
