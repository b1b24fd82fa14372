//! Alerts for operators about committed events: each is logged and counted.

use domain::payment::TransactionStatus;
use domain::{Event, Request, TransactionChange};

pub(super) fn alert(request: &Request, event: &Event) {
    correction(request, event);
    dispute(request, event);
    parked(request, event);
}

/// Somebody has to look at an account that cannot be billed.
fn parked(request: &Request, event: &Event) {
    let Event::AccountParked { account, reason } = event else { return };
    tracing::error!(
        tenant = request.tenant.0,
        account.id = %account,
        %reason,
        "an account cannot be billed, and is not until somebody acts"
    );
}

/// Somebody has to look at disputes that are new, that took more than was left, and whose evidence is due.
fn dispute(request: &Request, event: &Event) {
    let tenant = request.tenant.0;
    match event {
        Event::DisputeChanged { before, status, case, dispute, payment, .. } => {
            if before.is_none() {
                let gateway = case.gateway.clone();
                metrics::counter!("faregate_disputes_total", "gateway" => gateway).increment(1);
            }
            tracing::info!(
                tenant,
                payment.id = %payment,
                dispute.id = %dispute,
                status = status.name(),
                "a dispute was recorded or changed"
            );
        }
        Event::DisputeExcess { dispute, payment, .. } => {
            metrics::counter!("faregate_dispute_excess_total").increment(1);
            tracing::warn!(
                tenant,
                payment.id = %payment,
                dispute.id = %dispute,
                "a dispute withdrew more than was left of its payment"
            );
        }
        Event::DisputeEvidenceDue { dispute, payment, .. } => {
            metrics::counter!("faregate_dispute_evidence_due_total").increment(1);
            tracing::warn!(
                tenant,
                payment.id = %payment,
                dispute.id = %dispute,
                "evidence of a dispute is due within three days"
            );
        }
        Event::AccountParked { .. }
        | Event::AccountCreated { .. }
        | Event::AccountChanged { .. }
        | Event::AccountReleased { .. }
        | Event::TagAdded { .. }
        | Event::TagRemoved { .. }
        | Event::CustomFieldAdded { .. }
        | Event::CustomFieldRemoved { .. }
        | Event::BlockingStateAdded { .. }
        | Event::PurchaseChanged { .. }
        | Event::EntitlementsGranted { .. }
        | Event::EntitlementsRevoked { .. }
        | Event::EntitlementsExpired { .. }
        | Event::EntitlementsChanged { .. }
        | Event::LimitReached { .. }
        | Event::SubscriptionChanged { .. }
        | Event::InvoiceCreated { .. }
        | Event::InvoiceAdjusted { .. }
        | Event::InvoicePaid { .. }
        | Event::InvoiceUpcoming { .. }
        | Event::TransactionChanged(_)
        | Event::LateSuccess { .. }
        | Event::TenantConfigChanged { .. }
        | Event::TenantConfigDeleted { .. }
        | Event::WebhookEndpointDisabled { .. }
        | Event::CustomerRegistered { .. }
        | Event::CustomerVerified { .. }
        | Event::CustomerChanged { .. }
        | Event::CustomerErased { .. }
        | Event::EnvironmentChanged { .. }
        | Event::DefinitionsChanged { .. } => {}
    }
}

/// An operator has to look at a gateway that changes an outcome: the money is booked right,
/// but the customer saw another outcome.
fn correction(request: &Request, event: &Event) {
    use TransactionStatus as S;
    if let Event::LateSuccess { payment, transaction, is_refunded, .. } = event {
        metrics::counter!("faregate_late_successes_total").increment(1);
        tracing::warn!(
            tenant = request.tenant.0,
            payment.id = %payment,
            transaction.id = %transaction,
            is_refunded,
            "a declined try has succeeded beside a later one"
        );
    }
    let Event::TransactionChanged(change) = event else { return };
    let TransactionChange { before: Some(before), status, payment, transaction, .. } = change
    else {
        return;
    };
    let late_success =
        matches!((before, status), (S::PaymentFailure | S::PluginFailure, S::Success));
    let lost_success =
        matches!((before, status), (S::Success, S::PaymentFailure | S::PluginFailure));
    let reopened = matches!((before, status), (S::PaymentFailure | S::PluginFailure, S::Unknown));
    if late_success || lost_success || reopened {
        metrics::counter!("faregate_corrected_payments_total").increment(1);
        tracing::warn!(
            tenant = request.tenant.0,
            payment.id = %payment,
            transaction.id = %transaction,
            before = ?before,
            status = ?status,
            "a gateway corrected the outcome of a transaction"
        );
    }
}
