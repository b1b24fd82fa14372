//! What the journal said of invoices: what clients know when they pay, adjust, or end something with its term.

use std::collections::{BTreeMap, BTreeSet};

use domain::billing::invoice::{Invoice, InvoiceItem, InvoiceStatus, ItemKind};
use domain::billing::subscription::Subscription;
use domain::change::Image;
use domain::payment::{PaidFor, Payment};
use domain::{InvoiceId, InvoiceItemId, PaymentId, SubscriptionId};
use engine::ports::Entry;

use super::days::number;

#[derive(Debug, Default)]
pub(super) struct Issued {
    pub(super) items: BTreeMap<InvoiceItemId, InvoiceItem>,
    pub(super) invoices: BTreeMap<InvoiceId, Invoice>,
    /// The day that subscriptions are charged through.
    pub(super) through: BTreeMap<SubscriptionId, i64>,
    /// The invoices of payments.
    pub(super) paid_for: BTreeMap<PaymentId, InvoiceId>,
}

/// What a command made.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) subscription: Option<Subscription>,
    /// Invoices that are asked for since.
    pub(super) asked_for: Vec<InvoiceId>,
    /// The invoices of new payments.
    pub(super) paid: BTreeSet<InvoiceId>,
}

impl Issued {
    /// Notes what a journal row wrote.
    pub(super) fn learn(&mut self, entry: &Entry) -> Made {
        let mut made = Made::default();
        let mut through: BTreeMap<SubscriptionId, i64> = BTreeMap::new();
        for change in &entry.changes {
            if let Some(it) = InvoiceItem::of(change) {
                let is_new = self.items.insert(it.id, it.clone()).is_none();
                let of = it.of.as_ref().filter(|_| is_new && it.kind.charges());
                if let Some(of) = of {
                    let day = through.entry(of.subscription).or_insert(i64::MIN);
                    // A price that is charged once is charged for its first day.
                    let is_fixed = it.kind == ItemKind::Fixed;
                    let last = it.end.filter(|_| !is_fixed).unwrap_or(it.start);
                    *day = number(last).max(*day);
                }
            }
            if let Some(it) = Invoice::of(change) {
                let before = self.invoices.insert(it.id, it.clone()).map(|it| it.status);
                if before != Some(it.status) && it.status == InvoiceStatus::Committed {
                    made.asked_for.push(it.id);
                }
            }
            if let Some(it) = Payment::of(change)
                && let Some(invoice) = it.paid_for.and_then(PaidFor::invoice)
            {
                let is_new = self.paid_for.insert(it.id, invoice).is_none();
                made.paid.extend(is_new.then_some(invoice));
            }
            if let Some(it) = Subscription::of(change) {
                made.subscription = Some(it.clone());
            }
        }
        self.through.extend(through);
        made
    }
}
