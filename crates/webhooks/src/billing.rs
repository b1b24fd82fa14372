//! Events of subscriptions and invoices: as Kill Bill names them, and as webhooks tell of them.

use domain::{Event, SubscriptionStep};
use engine::time::rfc3339;
use serde_json::{Value, json};

/// Kill Bill's name of an event, with the type and the id of its object; `None` for an event that Kill Bill has not.
pub(crate) fn killbill_event(event: &Event) -> Option<(&'static str, &'static str, String)> {
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
        return Some((name, "SUBSCRIPTION", subscription.to_string()));
    }
    if let Event::InvoiceCreated { invoice, .. } = event {
        return Some(("INVOICE_CREATION", "INVOICE", invoice.to_string()));
    }
    if let Event::InvoiceAdjusted { invoice, .. } = event {
        return Some(("INVOICE_ADJUSTMENT", "INVOICE", invoice.to_string()));
    }
    let Event::InvoicePaid { invoice, is_paid, .. } = event else { return None };
    let name = if *is_paid { "INVOICE_PAYMENT_SUCCESS" } else { "INVOICE_PAYMENT_FAILED" };
    Some((name, "INVOICE", invoice.to_string()))
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
    let Event::AccountParked { account, reason } = event else { return json!({}) };
    json!({ "accountId": account, "reason": reason.to_string() })
}
