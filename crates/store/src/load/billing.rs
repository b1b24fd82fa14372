//! Loads what an account is billed by: subscriptions, items that may still change, and open invoices.

use std::sync::LazyLock;

use domain::billing::invoice::ItemKind;
use domain::billing::subscription::Subscription;
use domain::rows::{Keyed, Part};
use domain::state::BillingState;
use domain::{PartitionNo, SubscriptionId, TenantNo};
use engine::ports::StoreError;

use super::Stored;
use crate::driver::{Reader, Value};
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
    load_items(reader, loaded)?;
    load_open(reader, loaded)?;
    INVOICE.load(reader, &mut loaded.invoices)?;
    load_of_invoices(reader, loaded)?;
    for (tenant, newest) in &mut loaded.invoice_numbers {
        let bounds = [(*tenant).into(), partition.start().into(), partition.end().into()];
        let found = reader.query_one(NEWEST_NUMBER, &bounds, |cells| cells.opt_int())?;
        *newest = found.flatten().unwrap_or_default();
    }
    Ok(())
}

/// Loads the items of subscriptions that may still change.
fn load_items(reader: &Reader, loaded: &mut BillingState) -> Result<(), StoreError> {
    let accounts: Vec<_> = loaded.subscriptions.owners().copied().collect();
    let of_accounts = accounts.iter().flat_map(|it| loaded.subscriptions.of(it).values());
    let from = |it: &Subscription| (it.key(), loaded.items_from(it).to_string());
    let subscriptions: Vec<_> = of_accounts.map(from).collect();
    subscriptions.iter().for_each(|(key, _)| loaded.items.look_for(*key));
    let keys: Vec<_> = subscriptions.iter().map(|(key, from)| since(*key, from)).collect();
    reader.for_keys(&SELECT_ITEMS, &keys, |_, cells| {
        loaded.items.put(INVOICE_ITEM.row(cells)?);
        Ok(())
    })
}

/// Loads the open invoices of accounts.
fn load_open(reader: &Reader, loaded: &mut BillingState) -> Result<(), StoreError> {
    let accounts: Vec<_> = loaded.open_invoices.keys().copied().collect();
    let keys: Vec<[Value<'_>; 3]> =
        accounts.iter().map(|it| [it.0.into(), it.1.into(), OPEN_MAX.into()]).collect();
    reader.for_keys(&SELECT_OPEN, &keys, |at, cells| {
        let invoice = INVOICE.row(cells)?;
        loaded.open_invoices.entry(accounts[at]).or_default().insert(invoice.id);
        loaded.invoices.put(invoice);
        Ok(())
    })
}

/// Loads the items of invoices, what they repair, and what was charged since the days that they repair.
fn load_of_invoices(reader: &Reader, loaded: &mut BillingState) -> Result<(), StoreError> {
    let invoices: Vec<_> = loaded.invoice_items.keys().copied().collect();
    let keys: Vec<[Value<'_>; 3]> =
        invoices.iter().map(|it| [it.0.into(), it.1.into(), it.2.into()]).collect();
    let mut repaired = vec![];
    reader.for_keys(&SELECT_OF, &keys, |at, cells| {
        let item = INVOICE_ITEM.row(cells)?;
        if item.kind == ItemKind::RepairAdj {
            repaired.push((item.owner(), item.start.to_string()));
        }
        loaded.invoice_items.entry(invoices[at]).or_default().insert(item.id, item);
        Ok(())
    })?;
    let keys: Vec<_> = repaired.iter().map(|(owner, start)| since(*owner, start)).collect();
    reader.for_keys(&SELECT_ITEMS, &keys, |_, cells| {
        loaded.items.put(INVOICE_ITEM.row(cells)?);
        Ok(())
    })
}

/// The parameters of a subscription's items that end on or after a day.
fn since(subscription: (TenantNo, SubscriptionId), day: &str) -> [Value<'_>; 3] {
    [subscription.0.into(), subscription.1.into(), day.into()]
}
