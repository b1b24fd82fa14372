//! The books of an account: the rows that a command of billing works on, and writes once it is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::account::calendar::AccountCalendar;
use crate::account::tag::{ControlTag, TagKey};
use crate::billing::account::AccountBilling;
use crate::billing::command::timer_of;
use crate::billing::invoice::InvoiceItem;
use crate::billing::subscription::Subscription;
use crate::catalog::versions::Versions;
use crate::change::{AccountChange, BillingChange, TimerChange};
use crate::context::Context;
use crate::rows::Keyed;
use crate::state::State;
use crate::timer::rules as timer;
use crate::{Account, AccountId, AccountRejection, Currency, Event, Rejection, Revision};

/// An account with what is billed of it.
pub(super) struct Books<'s> {
    pub(super) state: &'s State,
    pub(super) account: Account,
    pub(super) currency: Currency,
    pub(super) calendar: AccountCalendar,
    /// All versions of the tenant's catalog.
    pub(super) versions: Versions,
    pub(super) billing: AccountBilling,
    /// Those that are not over, the oldest first.
    pub(super) subscriptions: Vec<Subscription>,
    /// Items that this command made.
    pub(super) made: Vec<InvoiceItem>,
}

impl<'s> Books<'s> {
    /// The books of an account that can be billed.
    pub(super) fn open(
        state: &'s State,
        account: AccountId,
        cx: &Context,
    ) -> Result<Self, Rejection> {
        let Some(found) = state.account(cx.tenant, account) else {
            return Err(AccountRejection::NotFound { id: account }.into());
        };
        let Some(currency) = found.currency else {
            return Err(Rejection::invalid("currency", "the account needs to have one"));
        };
        let key = (cx.tenant, account);
        let none = || AccountBilling::none_of(cx.tenant, account, Revision::first(cx.seq));
        let all = state.catalog_versions(cx.tenant).values();
        Ok(Self {
            state,
            account: found.clone(),
            currency,
            calendar: AccountCalendar::of(found),
            versions: Versions::new(all.map(|it| Arc::clone(&it.catalog)).collect()),
            billing: state.billing.accounts.get(&key).cloned().unwrap_or_else(none),
            subscriptions: state.billing.subscriptions.of(&key).values().cloned().collect(),
            made: vec![],
        })
    }

    /// Whether the account has a tag.
    pub(super) fn has(&self, tag: ControlTag) -> bool {
        let key = TagKey::of_account(self.account.id, tag);
        self.state.tag(self.account.tenant, key).is_some_and(|it| it.active)
    }

    /// The items of a subscription that may still change.
    pub(super) fn items(&self, of: &Subscription) -> Vec<&InvoiceItem> {
        let known = self.state.billing.items.find(&of.key());
        let known = known.into_iter().flat_map(BTreeMap::values);
        let made = self.made.iter();
        let is_of = |it: &&InvoiceItem| it.of.as_ref().is_some_and(|it| it.subscription == of.id);
        known.chain(made.filter(is_of)).collect()
    }

    /// Writes what changed, and sets the timer for what is due next.
    pub(super) fn close(self, cx: &mut Context) {
        let Self { state, account, calendar, mut billing, subscriptions, .. } = self;
        let key = account.key();
        let due = subscriptions.iter().filter_map(|it| it.due(calendar)).min();
        let due = due.filter(|_| billing.parked.is_none());
        if due != billing.due {
            match due {
                Some(due) => timer::set((timer_of(account.id), account.id), due, cx),
                None => cx.change(TimerChange::Cleared(timer_of(account.id))),
            }
        }
        billing.due = due;
        let before = state.billing.subscriptions.of(&key);
        for mut it in subscriptions {
            let before = before.get(&it.key());
            if before != Some(&it) {
                it.revision = before.map_or(it.revision, |before| before.revision.next(cx.seq));
                cx.change(BillingChange::Subscription(Box::new(it)));
            }
        }
        let before = state.billing.accounts.get(&key);
        if before != Some(&billing) {
            billing.revision = before.map_or(billing.revision, |it| it.revision.next(cx.seq));
            cx.change(BillingChange::Account(billing));
        }
        let before = state.account(key.0, key.1);
        if before != Some(&account) {
            let revision = account.revision.next(cx.seq);
            let id = account.id;
            cx.change(AccountChange::Account(Account { revision, updated_at: cx.now, ..account }));
            cx.event(Event::AccountChanged { account: id });
        }
    }
}
