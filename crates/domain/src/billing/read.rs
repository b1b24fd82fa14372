//! Subscriptions and invoices.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use crate::billing::account::AccountBilling;
use crate::billing::bundle::Bundle;
use crate::billing::invoice::{Invoice, InvoiceItem};
use crate::billing::subscription::Subscription;
use crate::change::BillingChange;
use crate::entity::Entity;
use crate::rows::{Part as _, Parts, Rows};
use crate::source::Source;
use crate::{AccountId, BundleId, InvoiceId, InvoiceItemId, RequestId, SubscriptionId, TenantNo};

/// A row of subscriptions and invoices that a command may look at: see [`Read`](crate::read::Read).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BillingRead {
    /// All that a run for an account looks at: its bundles, its subscriptions that are not over, their items that may
    /// still change, and its open invoices.
    Account(TenantNo, AccountId),
    /// Also the settled items of its subscriptions for which this day is settled.
    ItemsSince(TenantNo, AccountId, Date),
    Bundle(TenantNo, BundleId),
    /// Whether it is over or not.
    Subscription(TenantNo, SubscriptionId),
    Invoice(TenantNo, InvoiceId),
    Item(TenantNo, InvoiceItemId),
    /// The items of an invoice, those that they repair, and those of the same subscriptions for the days that they give
    /// back, or later ones.
    ItemsOf(TenantNo, AccountId, InvoiceId),
    /// The newest number of a tenant's invoices.
    InvoiceNumber(TenantNo),
}

#[derive(Clone, Debug, Default)]
pub struct BillingState {
    /// What accounts' billing has once.
    pub accounts: Rows<AccountBilling>,
    /// Accounts' bundles.
    pub bundles: Parts<Bundle>,
    /// Accounts' subscriptions that are not over.
    pub subscriptions: Parts<Subscription>,
    /// Bundles that are looked for one by one.
    pub bundles_by_id: Rows<Bundle>,
    /// Subscriptions that are looked for one by one; those that are over too.
    pub subscriptions_by_id: Rows<Subscription>,
    /// Items that are looked for one by one.
    pub items_by_id: Rows<InvoiceItem>,
    /// The items of subscriptions that are not settled, and those for days that an invoice gave back.
    pub items: Parts<InvoiceItem>,
    /// Accounts of which a command looks at a day that may be settled.
    pub items_since: BTreeMap<(TenantNo, AccountId), Date>,
    pub invoices: Rows<Invoice>,
    /// The items of invoices that were looked for, and those that they repair.
    pub invoice_items:
        BTreeMap<(TenantNo, AccountId, InvoiceId), BTreeMap<InvoiceItemId, InvoiceItem>>,
    /// The open invoices of accounts that were looked for.
    pub open_invoices: BTreeMap<(TenantNo, AccountId), BTreeSet<InvoiceId>>,
    /// The newest numbers of tenants' invoices.
    pub invoice_numbers: BTreeMap<TenantNo, i64>,
}

impl BillingState {
    pub(crate) fn look_for(&mut self, read: &BillingRead) {
        match *read {
            BillingRead::Account(no, id) => {
                self.accounts.look_for((no, id));
                self.bundles.look_for((no, id));
                self.subscriptions.look_for((no, id));
                self.open_invoices.entry((no, id)).or_default();
            }
            BillingRead::ItemsSince(no, id, day) => {
                let since = self.items_since.entry((no, id)).or_insert(day);
                *since = day.min(*since);
            }
            BillingRead::Bundle(no, id) => self.bundles_by_id.look_for((no, id)),
            BillingRead::Subscription(no, id) => self.subscriptions_by_id.look_for((no, id)),
            BillingRead::Invoice(no, id) => self.invoices.look_for((no, id)),
            BillingRead::Item(no, id) => self.items_by_id.look_for((no, id)),
            BillingRead::ItemsOf(no, account, id) => {
                self.invoice_items.entry((no, account, id)).or_default();
            }
            BillingRead::InvoiceNumber(no) => drop(self.invoice_numbers.entry(no).or_default()),
        }
    }

    /// The day since which a subscription's items are loaded: since the beginning, where a command looks at days that are
    /// settled.
    #[must_use]
    pub fn items_from(&self, of: &Subscription) -> Date {
        match self.items_since.get(&of.owner()) {
            Some(since) if *since <= of.settled => Date::MIN,
            Some(_) | None => of.settled,
        }
    }

    /// Loads what comes by its key or its account alone.
    ///
    /// # Errors
    /// Those of the source.
    pub fn load<S: Source>(&mut self, from: &S) -> Result<(), S::Error> {
        from.rows(&mut self.accounts)?;
        from.parts(&mut self.bundles)?;
        from.parts(&mut self.subscriptions)?;
        from.rows(&mut self.bundles_by_id)?;
        from.rows(&mut self.subscriptions_by_id)?;
        from.rows(&mut self.items_by_id)
    }

    pub(crate) fn apply(&mut self, change: &BillingChange) {
        match change {
            BillingChange::Bundle(it) => {
                self.bundles_by_id.put(it.clone());
                self.bundles.put(it.clone());
            }
            BillingChange::Subscription(it) => {
                self.subscriptions_by_id.put((**it).clone());
                self.subscriptions.put((**it).clone());
            }
            BillingChange::Item(it) => {
                for (of, items) in &mut self.invoice_items {
                    if *of == (it.tenant, it.account_id, it.invoice_id)
                        || items.contains_key(&it.id)
                    {
                        items.insert(it.id, (**it).clone());
                    }
                }
                self.items_by_id.put((**it).clone());
                self.items.put((**it).clone());
            }
            BillingChange::Account(it) => drop(self.accounts.put(it.clone())),
            BillingChange::Invoice(it) => {
                if let Some(open) = self.open_invoices.get_mut(&(it.tenant, it.account_id)) {
                    match it.is_open() {
                        true => drop(open.insert(it.id)),
                        false => drop(open.remove(&it.id)),
                    }
                }
                if let Some(newest) = self.invoice_numbers.get_mut(&it.tenant) {
                    *newest = it.number.max(*newest);
                }
                self.invoices.put((**it).clone());
            }
        }
    }

    /// Whether what a request makes first is among the rows of an account: a bundle, or a subscription.
    #[must_use]
    pub fn has(&self, request: RequestId, of: (TenantNo, AccountId)) -> bool {
        let (bundles, subscriptions) = (self.bundles.find(&of), self.subscriptions.find(&of));
        bundles.is_some_and(|it| it.contains_key(&(of.0, request.entity(0))))
            || subscriptions.is_some_and(|it| it.contains_key(&(of.0, request.entity(0))))
    }

    /// Erases what the rows of an account have of its person.
    pub(crate) fn erase(&mut self, of: (TenantNo, AccountId)) {
        let Self {
            bundles,
            subscriptions,
            bundles_by_id,
            subscriptions_by_id,
            items_by_id,
            items,
            invoice_items,
            // Nothing in them is of a person.
            accounts: _,
            items_since: _,
            invoices: _,
            open_invoices: _,
            invoice_numbers: _,
        } = self;
        let bundles = bundles.iter_mut().chain(bundles_by_id.iter_mut());
        bundles.filter(|it| (it.tenant, it.account_id) == of).for_each(Entity::erase);
        let subscriptions = subscriptions.iter_mut().chain(subscriptions_by_id.iter_mut());
        subscriptions.filter(|it| (it.tenant, it.account_id) == of).for_each(Entity::erase);
        let of_invoices = invoice_items.values_mut().flat_map(BTreeMap::values_mut);
        let items = items.iter_mut().chain(items_by_id.iter_mut()).chain(of_invoices);
        items.filter(|it| (it.tenant, it.account_id) == of).for_each(Entity::erase);
    }
}
