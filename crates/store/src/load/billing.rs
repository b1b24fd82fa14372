//! Loads what an account is billed by: subscriptions, items that may still change, and open invoices.

use std::sync::LazyLock;

use domain::PartitionNo;
use domain::billing::invoice::ItemKind;
use domain::rows::{Keyed, Part};
use domain::state::BillingState;
use engine::ports::StoreError;

use super::Stored;
use crate::driver::Reader;
use crate::tables::{INVOICE, INVOICE_ITEM};

/// How many open invoices of an account are looked at: the oldest.
const OPEN_MAX: i64 = 1_000;

static SELECT_ITEMS: LazyLock<String> = LazyLock::new(|| {
    INVOICE_ITEM
        .select("WHERE tenant = ?1 AND subscription_id = ?2 AND last_day >= ?3 AND voided = 0")
});
static SELECT_OF: LazyLock<String> = LazyLock::new(|| {
    INVOICE_ITEM.select(
        "WHERE tenant = ?1 AND account_id = ?2 AND (invoice_id = ?3 OR id IN (SELECT linked_id \
         FROM invoice_item WHERE tenant = ?1 AND account_id = ?2 AND invoice_id = ?3))",
    )
});
static SELECT_OPEN: LazyLock<String> = LazyLock::new(|| {
    INVOICE.select("WHERE tenant = ?1 AND account_id = ?2 AND is_open = 1 ORDER BY number LIMIT ?3")
});

const NEWEST_NUMBER: &str =
    "SELECT max(number) FROM invoice WHERE tenant = ?1 AND number >= ?2 AND number < ?3";

pub(super) fn load(
    reader: &Reader,
    loaded: &mut BillingState,
    partition: PartitionNo,
) -> Result<(), StoreError> {
    loaded.load(&Stored(reader))?;
    let accounts: Vec<_> = loaded.subscriptions.owners().copied().collect();
    for account in accounts {
        for subscription in loaded.subscriptions.of(&account).values() {
            loaded.items.look_for(subscription.key());
            let from = loaded.items_from(subscription).to_string();
            let of = [subscription.tenant.into(), subscription.id.into(), (&from).into()];
            let items = reader.query(&SELECT_ITEMS, &of, |cells| INVOICE_ITEM.row(cells))?;
            items.into_iter().for_each(|it| loaded.items.put(it));
        }
    }
    for (key, open) in &mut loaded.open_invoices {
        let of = [key.0.into(), key.1.into(), OPEN_MAX.into()];
        for invoice in reader.query(&SELECT_OPEN, &of, |cells| INVOICE.row(cells))? {
            open.insert(invoice.id);
            loaded.invoices.put(invoice);
        }
    }
    INVOICE.load(reader, &mut loaded.invoices)?;
    for (key, items) in &mut loaded.invoice_items {
        let of = [key.0.into(), key.1.into(), key.2.into()];
        let found = reader.query(&SELECT_OF, &of, |cells| INVOICE_ITEM.row(cells))?;
        for repair in found.iter().filter(|it| it.kind == ItemKind::RepairAdj) {
            let (owner, start) = (repair.owner(), repair.start.to_string());
            let of = [owner.0.into(), owner.1.into(), (&start).into()];
            let others = reader.query(&SELECT_ITEMS, &of, |cells| INVOICE_ITEM.row(cells))?;
            others.into_iter().for_each(|it| loaded.items.put(it));
        }
        items.extend(found.into_iter().map(|it| (it.id, it)));
    }
    for (tenant, newest) in &mut loaded.invoice_numbers {
        let bounds = [(*tenant).into(), partition.start().into(), partition.end().into()];
        let found = reader.query_one(NEWEST_NUMBER, &bounds, |cells| cells.opt_int())?;
        *newest = found.flatten().unwrap_or_default();
    }
    Ok(())
}
