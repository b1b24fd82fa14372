//! The books of an account: the rows that a command of billing works on, and writes once it is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::account::blocking_state::BlockingState;
use crate::account::calendar::AccountCalendar;
use crate::account::tag::{ControlTag, TagKey};
use crate::billing::account::AccountBilling;
use crate::billing::account_basis::{AccountBasis, blocked_spans};
use crate::billing::blocking;
use crate::billing::invoice::InvoiceItem;
use crate::billing::reads::timer_of;
use crate::billing::subscription::Subscription;
use crate::billing::timeline::Blocked;
use crate::catalog::versions::Versions;
use crate::change::{AccountChange, BillingChange, TimerChange};
use crate::context::Context;
use crate::rows::{Keyed, PartsOf};
use crate::state::State;
use crate::timer::rules as timer;
use crate::{
    Account, AccountId, AccountRejection, BillingRejection, Currency, Event, Rejection, Revision,
    TenantNo, Timestamp,
};

/// An account with what is billed of it.
#[derive(Clone)]
pub(super) struct Books<'s> {
    pub(super) state: &'s State,
    pub(super) account: Account,
    pub(super) currency: Currency,
    pub(super) calendar: AccountCalendar,
    /// All versions of the tenant's catalog.
    pub(super) versions: Versions,
    pub(super) billing: AccountBilling,
    /// What is due by then is done: now, or the instant of the account's timer.
    pub(super) until: Timestamp,
    /// Those that are not over, the oldest first.
    pub(super) subscriptions: Vec<Subscription>,
    /// The blocking states of all of them, those of the command among them.
    pub(super) states: Vec<BlockingState>,
    /// Whether they are never closed, so that nothing is paid.
    pub(super) is_dry: bool,
    /// Items that this command made.
    pub(super) made: Vec<InvoiceItem>,
    /// How many grants the account has and may get from what the command sold; `None`: nobody asked.
    pub(super) features_sold: Option<usize>,
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
            until: cx.now,
            subscriptions: state.billing.subscriptions.of(&key).values().cloned().collect(),
            states: states(state, key, cx),
            is_dry: false,
            made: vec![],
            features_sold: None,
        })
    }

    /// When the billing of a subscription is blocked.
    pub(super) fn blocked(&self, it: &Subscription) -> Vec<Blocked> {
        blocked_spans(&self.states, it)
    }

    /// What decides on the timelines of its subscriptions.
    pub(super) const fn basis(&self) -> AccountBasis<'_> {
        let Self { account, currency, calendar, versions, .. } = self;
        AccountBasis { account, currency: *currency, calendar: *calendar, versions }
    }

    /// Refuses to change what is blocked now: a subscription, or the account.
    pub(super) fn refuse_blocked(
        &self,
        it: Option<&Subscription>,
        cx: &Context,
    ) -> Result<(), Rejection> {
        let states = blocking::states_of(&self.states, it);
        let blocks = blocking::blocks_at(&states, cx.now);
        match blocks.change || blocks.entitlement {
            true => Err(BillingRejection::Blocked { account: self.account.id }.into()),
            false => Ok(()),
        }
    }

    /// When the next blocking state takes effect.
    fn next_state(&self) -> Option<Timestamp> {
        let coming = self.states.iter().filter(|it| self.is_to_come(it));
        coming.map(|it| it.effective_at).min()
    }

    /// Whether a blocking state has not taken effect.
    pub(super) fn is_to_come(&self, it: &BlockingState) -> bool {
        it.effective_at > it.created_at
            && self.billing.blocked_until.is_none_or(|until| it.effective_at > until)
    }

    /// Whether the account has a tag.
    pub(super) fn has(&self, tag: ControlTag) -> bool {
        let key = TagKey::of_account(self.account.id, tag);
        self.state.tag(self.account.tenant, key).is_some_and(|it| it.active)
    }

    /// The items of a subscription that may still change, as the command leaves them.
    pub(super) fn items(&self, of: &Subscription) -> Vec<&InvoiceItem> {
        let known = self.state.billing.items.find(&of.key());
        let known = known.into_iter().flat_map(BTreeMap::values);
        let is_newer = |it: &&InvoiceItem| self.made.iter().any(|made| made.id == it.id);
        let made = self.made.iter();
        let is_of = |it: &&InvoiceItem| it.of.as_ref().is_some_and(|it| it.subscription == of.id);
        let all = known.filter(|it| !is_newer(it)).chain(made.filter(is_of));
        all.filter(|it| !it.voided).collect()
    }

    /// Notes until when the items of an invoice charge each subscription, whether it was charged for longer or not.
    pub(super) fn charge_through(&mut self, items: &[InvoiceItem]) {
        for it in &mut self.subscriptions {
            let is_of = |item: &&InvoiceItem| {
                item.kind.charges() && item.of.as_ref().is_some_and(|of| of.subscription == it.id)
            };
            let through = items.iter().filter(is_of).map(|it| it.last_day).max();
            it.charged_through = through.or(it.charged_through);
        }
        self.note_first_charges(items);
    }

    /// Has runs look at the days of an item again: they begin anew.
    pub(super) fn reopen_days_of(&mut self, item: &InvoiceItem) {
        let Some(of) = &item.of else { return };
        let known = self.subscriptions.iter_mut().find(|it| it.id == of.subscription);
        if let Some(it) = known {
            it.settled = jiff::civil::Date::MIN;
        }
    }

    /// Gives and takes features, writes what changed, and sets the timer for what is due next.
    pub(super) fn close(mut self, cx: &mut Context) {
        self.give_features(cx);
        let others = [self.next_state(), self.next_announcement(cx)];
        let Self { state, account, calendar, mut billing, subscriptions, .. } = self;
        let key = account.key();
        let due = subscriptions.iter().filter_map(|it| it.due(calendar));
        let due = due.chain(others.into_iter().flatten()).min();
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
        let none = AccountBilling::none_of(key.0, key.1, billing.revision);
        if *before.unwrap_or(&none) != billing {
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

/// The blocking states of an account and what belongs to it, as the command leaves them.
fn states(
    state: &State,
    (tenant, account): (TenantNo, AccountId),
    cx: &Context,
) -> Vec<BlockingState> {
    let mut states: PartsOf<BlockingState> = state.blocking_states(tenant, account).clone();
    for written in cx.written::<BlockingState>().filter(|it| it.account == account) {
        match written.active {
            true => drop(states.insert(written.key(), written.clone())),
            false => drop(states.remove(&written.key())),
        }
    }
    states.into_values().collect()
}
