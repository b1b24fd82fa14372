//! Subscriptions and invoices.

use domain::billing::account::AccountBilling;
use domain::billing::bundle::Bundle;
use domain::billing::invoice::{Invoice, InvoiceItem, OfSubscription};
use domain::billing::subscription::Subscription;
use domain::change::{BillingChange, Change};

use super::{CHECKED, Layout, Table, id, index, int, only, text, unique};
use crate::codes::code;
use crate::stored::TableOf;

/// What the billing of an account has once. `parked` is JSON, dates are ISO 8601.
pub static ACCOUNT_BILLING: TableOf<AccountBilling> = TableOf::new(
    Table {
        name: "account_billing",
        since: 22,
        indexes: &[only("account_billing_parked", "tenant, account_id", "parked IS NOT NULL")],
        exported: &["account_id"],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("account_id").of(|it, _| it.account_id.into()),
        int("credit").of(|it, _| it.credit.into()),
        text("invoiced_until").null().of(|it, cx| cx.opt_text(it.invoiced_until)),
        int("blocked_until_us").null().of(|it, _| it.blocked_until.into()),
        int("due_at_us").null().of(|it, _| it.due.into()),
        text("parked").null().of(|it, cx| cx.opt_json(&it.parked)),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(AccountBilling {
            tenant: cells.tenant()?,
            account_id: cells.entity()?,
            credit: cells.amount()?,
            invoiced_until: cells.opt_date()?,
            blocked_until: cells.opt_time()?,
            due: cells.opt_time()?,
            parked: cells.opt_json()?,
            revision: cells.revision()?,
        })
    },
);

pub static BUNDLE: TableOf<Bundle> = TableOf::<Bundle>::new(
    Table {
        name: "bundle",
        since: 22,
        layout: Layout::Indexed,
        indexes: &[index("bundle_by_account", "tenant, account_id, id")],
        exported: &["id"],
        history: Some("id"),
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        text("external_key").erased().of(|it, _| it.external_key.as_ref().into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
        text("external_key_folded").erased().of(|it, cx| cx.folded(it.external_key.as_ref())),
    ],
    |cells| {
        Ok(Bundle {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            account_id: cells.entity()?,
            external_key: cells.opt_string()?,
            created_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
)
.parts("WHERE tenant = ?1 AND account_id = ?2")
.restored(|change, row| {
    if let Change::Billing(BillingChange::Bundle(it)) = change {
        it.external_key.clone_from(&row.external_key);
    }
});

/// Subscriptions. `transitions` and `given` are JSON, dates are ISO 8601.
pub static SUBSCRIPTION: TableOf<Subscription> = TableOf::<Subscription>::new(
    Table {
        name: "subscription",
        since: 22,
        layout: Layout::Indexed,
        indexes: &[
            index("subscription_by_account", "tenant, account_id, id"),
            index("subscription_by_bundle", "tenant, bundle_id, id"),
            only("subscription_by_key", "tenant, external_key, id", "external_key IS NOT NULL"),
        ],
        exported: &["id"],
        history: Some("id"),
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        id("bundle_id").fixed().of(|it, _| it.bundle_id.into()),
        text("external_key").erased().of(|it, _| it.external_key.as_ref().into()),
        int("category").fixed().of(|it, _| code(it.category).into()),
        text("transitions").of(|it, cx| cx.json(&it.transitions)),
        int("in_effect").of(|it, _| i64::try_from(it.in_effect).unwrap_or(i64::MAX).into()),
        int("entitled_from_us").of(|it, _| it.entitled_from.into()),
        int("entitled_until_us").null().of(|it, _| it.entitled_until.into()),
        int("entitlement_ended").of(|it, _| it.entitlement_ended.into()),
        text("charged_through").null().of(|it, cx| cx.opt_text(it.charged_through)),
        text("settled").of(|it, cx| cx.text(it.settled)),
        text("next_due").null().of(|it, cx| cx.opt_text(it.next_due)),
        id("first_charged_id").null().of(|it, _| it.first_charged.into()),
        text("given").null().of(|it, cx| cx.opt_json(&it.given)),
        int("is_over").of(|it, _| it.is_over.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(Subscription {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            account_id: cells.entity()?,
            bundle_id: cells.entity()?,
            external_key: cells.opt_string()?,
            category: cells.code()?,
            transitions: cells.json()?,
            in_effect: usize::try_from(cells.length()?).unwrap_or(usize::MAX),
            entitled_from: cells.time()?,
            entitled_until: cells.opt_time()?,
            entitlement_ended: cells.flag()?,
            charged_through: cells.opt_date()?,
            settled: cells.date()?,
            next_due: cells.opt_date()?,
            first_charged: cells.opt_entity()?,
            given: cells.opt_json()?,
            is_over: cells.flag()?,
            created_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
)
.parts("WHERE tenant = ?1 AND account_id = ?2 AND is_over = 0")
.restored(|change, row| {
    if let Change::Billing(BillingChange::Subscription(it)) = change {
        it.external_key.clone_from(&row.external_key);
    }
});

/// Invoices. `payments` is JSON, dates are ISO 8601. `is_open` is for their index: whether a payment or a credit may
/// still change them.
pub static INVOICE: TableOf<Invoice> = TableOf::new(
    Table {
        name: "invoice",
        since: 22,
        layout: Layout::Indexed,
        indexes: &[
            index("invoice_by_account", "tenant, account_id, target_date, number"),
            unique("invoice_by_number", "tenant, number"),
            only("invoice_open", "tenant, account_id, number", "is_open = 1"),
        ],
        exported: &["id"],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        int("number").fixed().of(|it, _| it.number.into()),
        int("status").of(|it, _| code(it.status).into()),
        text("currency").fixed().of(|it, _| (&it.currency).into()),
        text("invoice_date").of(|it, cx| cx.text(it.invoice_date)),
        text("target_date").null().of(|it, cx| cx.opt_text(it.target_date)),
        int("charged").of(|it, _| it.charged.into()),
        int("credit").of(|it, _| it.credit.into()),
        text("payments").null().of(|it, cx| cx.opt_json(&it.payments)),
        int("is_open").of(|it, _| it.is_open().into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        let it = Invoice {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            account_id: cells.entity()?,
            number: cells.int()?,
            status: cells.code()?,
            currency: cells.currency()?,
            invoice_date: cells.date()?,
            target_date: cells.opt_date()?,
            charged: cells.amount()?,
            credit: cells.amount()?,
            payments: cells.opt_json()?.unwrap_or_default(),
            created_at: {
                // It follows from the rest.
                cells.skip(1);
                cells.time()?
            },
            revision: cells.revision()?,
        };
        Ok(it)
    },
);

/// Items of invoices. `manual` is JSON, dates are ISO 8601.
pub static INVOICE_ITEM: TableOf<InvoiceItem> = TableOf::<InvoiceItem>::new(
    Table {
        name: "invoice_item",
        since: 22,
        layout: Layout::Indexed,
        indexes: &[
            index("invoice_item_by_invoice", "tenant, account_id, invoice_id, id"),
            only(
                "invoice_item_by_subscription",
                "tenant, subscription_id, last_day",
                "subscription_id IS NOT NULL",
            ),
        ],
        exported: &["id"],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        id("invoice_id").fixed().of(|it, _| it.invoice_id.into()),
        id("subscription_id")
            .null()
            .fixed()
            .of(|it, _| it.of.as_ref().map(|it| it.subscription).into()),
        id("bundle_id").null().fixed().of(|it, _| it.of.as_ref().map(|it| it.bundle).into()),
        int("kind").fixed().of(|it, _| code(it.kind).into()),
        int("amount").of(|it, _| it.amount.into()),
        text("currency").fixed().of(|it, _| (&it.currency).into()),
        text("start_date").fixed().of(|it, cx| cx.text(it.start)),
        text("end_date").null().fixed().of(|it, cx| cx.opt_text(it.end)),
        text("last_day").fixed().of(|it, cx| cx.text(it.last_day)),
        id("linked_id").null().fixed().of(|it, _| it.linked.into()),
        text("manual").null().fixed().of(|it, cx| cx.opt_json(&it.manual)),
        text("description").erased().of(|it, _| it.description.as_ref().into()),
        text("details").erased().of(|it, _| it.details.as_ref().into()),
        int("adjusted").of(|it, _| it.adjusted.into()),
        int("repaired").of(|it, _| it.repaired.into()),
        int("voided").of(|it, _| it.voided.into()),
        text("product").null().fixed().of(|it, _| it.of.as_ref().map(|it| &it.product).into()),
        text("plan").null().fixed().of(|it, _| it.of.as_ref().map(|it| &it.plan).into()),
        text("phase").null().fixed().of(|it, _| it.of.as_ref().map(|it| &it.phase).into()),
        text("rate").null().fixed().of(|it, cx| cx.opt_text(it.of.as_ref().and_then(|it| it.rate))),
        int("catalog_effective_at_us")
            .null()
            .fixed()
            .of(|it, _| it.of.as_ref().map(|it| it.catalog_effective_at).into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        let (tenant, item, account_id) = (cells.tenant()?, cells.entity()?, cells.entity()?);
        let (invoice_id, subscription, bundle) =
            (cells.entity()?, cells.opt_entity()?, cells.opt_entity()?);
        let (kind, amount, currency) = (cells.code()?, cells.amount()?, cells.currency()?);
        let (start, end, last_day) = (cells.date()?, cells.opt_date()?, cells.date()?);
        let linked = cells.opt_entity()?;
        let manual = cells.opt_json()?;
        let (description, details) = (cells.opt_string()?, cells.opt_string()?);
        let (adjusted, repaired, voided) = (cells.amount()?, cells.amount()?, cells.flag()?);
        let (product, plan, phase) =
            (cells.opt_string()?, cells.opt_string()?, cells.opt_string()?);
        let (rate, catalog_effective_at) = (cells.opt_price()?, cells.opt_time()?);
        let of = match (subscription, bundle, catalog_effective_at) {
            (Some(subscription), Some(bundle), Some(catalog_effective_at)) => {
                Some(OfSubscription {
                    subscription,
                    bundle,
                    product: product.unwrap_or_default(),
                    plan: plan.unwrap_or_default(),
                    phase: phase.unwrap_or_default(),
                    rate,
                    catalog_effective_at,
                })
            }
            _ => None,
        };
        let (created_at, revision) = (cells.time()?, cells.revision()?);
        Ok(InvoiceItem {
            tenant,
            id: item,
            invoice_id,
            account_id,
            kind,
            amount,
            currency,
            start,
            end,
            last_day,
            of,
            manual,
            description,
            details,
            linked,
            adjusted,
            repaired,
            voided,
            created_at,
            revision,
        })
    },
)
.restored(|change, row| {
    if let Change::Billing(BillingChange::Item(it)) = change {
        it.description.clone_from(&row.description);
        it.details.clone_from(&row.details);
    }
});
