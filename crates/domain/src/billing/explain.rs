//! Explanations: how the amount of an invoice's item came about.
//!
//! Items of subscriptions are explained by the stages of a run, with what was known when the item was made. Where these
//! do not give the item again, because a setting has changed since, there is no explanation.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::civil::Date;

use super::account_basis::{AccountBasis, blocked_spans};
use super::invoice::{Invoice, InvoiceItem, ItemKind};
use super::propose::{Measured, propose};
use super::reconcile::{Billed, reconcile};
use super::settle::settle;
use super::subscription::Subscription;
use super::{BillingEvent, BillingSettings, DayPart, EventKind, Run, Unbillable};
use crate::account::blocking_state::BlockingState;
use crate::account::calendar::AccountCalendar;
use crate::catalog::price::Price;
use crate::catalog::versions::Versions;
use crate::read::{AccountRead, AccountRow, PaymentRead, Read, TenantRow};
use crate::state::State;
use crate::{Account, AccountId, AmountMinor, Currency, InvoiceItemId, Seq, TenantNo};

/// What an account's runs looked at when an item was made, as far as it does not change.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    account: &'a Account,
    currency: Currency,
    versions: Versions,
    states: Vec<&'a BlockingState>,
    settings: BillingSettings,
}

/// What a command knew that made items of a subscription.
#[derive(Clone, Debug)]
pub struct Then {
    /// Its journal row.
    pub seq: Seq,
    pub subscription: Subscription,
    /// The base of its bundle; `None`: itself, or there was none.
    pub base: Option<Subscription>,
    /// The day until which it charged what was due.
    pub target: Date,
}

/// How an item has its amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Working {
    Fixed {
        event: Cause,
        price: Price,
        quantity: u32,
    },
    Recurring {
        event: Cause,
        price: Price,
        quantity: u32,
        measured: Measured,
    },
    Repair {
        event: Cause,
        of: InvoiceItemId,
        part: DayPart,
        amount: AmountMinor,
        is_limited: bool,
    },
    Credit {
        balance: AmountMinor,
    },
    /// A client said it.
    ByHand,
}

/// The event after which something is charged, or is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    pub kind: EventKind,
    pub date: Date,
}

/// Why an item has no explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unexplained {
    /// What is known now gives no such item.
    #[error(
        "the catalog or a setting was changed since, and a run of today does not give this item"
    )]
    Changed,
    #[error("{0}, as the catalog is today")]
    Unbillable(#[from] Unbillable),
    /// It is not known by what it was decided.
    #[error("the state of then is not known any more")]
    NotKnown,
}

/// The rows of [`Known`].
#[must_use]
pub fn reads(tenant: TenantNo, account: AccountId) -> BTreeSet<Read> {
    [
        AccountRead::Account(tenant, account).into(),
        AccountRow::BlockingStates(tenant, account).into(),
        TenantRow::CatalogVersions(tenant).into(),
        PaymentRead::Rules(tenant, account).into(),
    ]
    .into()
}

impl<'a> Known<'a> {
    /// `None`: there is no such account.
    #[must_use]
    pub fn of(
        state: &'a State,
        (tenant, account): (TenantNo, AccountId),
        currency: Currency,
    ) -> Option<Self> {
        let versions = state.catalog_versions(tenant).values();
        Some(Self {
            account: state.account(tenant, account)?,
            currency,
            versions: Versions::new(versions.map(|it| Arc::clone(&it.catalog)).collect()),
            states: state.blocking_states(tenant, account).values().collect(),
            settings: state.payment_rules(tenant).map(|it| it.billing).unwrap_or_default(),
        })
    }

    /// The day from which a run looks, so that no charge and none of these items is across `day`. The items are all that
    /// there were since `day`: where the answer is an earlier one, further items may be across that.
    ///
    /// # Errors
    /// [`Unexplained`].
    pub fn horizon(
        &self,
        then: &Then,
        items: &[InvoiceItem],
        day: Date,
    ) -> Result<Date, Unexplained> {
        let events = self.events(then)?;
        let proposal = propose(&events, &self.run(then, day))?;
        let charges = proposal.recurring.iter().map(|it| (it.start, it.end));
        let periods = items.iter().filter(|it| it.kind == ItemKind::Recurring);
        let periods = periods.map(|it| (it.start, it.end.unwrap_or(it.start)));
        let across = charges.chain(periods).filter(|(start, end)| *start < day && *end > day);
        Ok(across.map(|(start, _)| start).min().unwrap_or(day))
    }

    /// How an item has its amount, which a run made of a subscription. The other items are all that
    /// there were of that subscription since the horizon.
    ///
    /// # Errors
    /// [`Unexplained`].
    pub fn explain(
        &self,
        item: &InvoiceItem,
        then: &Then,
        (others, horizon): (&[InvoiceItem], Date),
    ) -> Result<Working, Unexplained> {
        let events = self.events(then)?;
        let run = self.run(then, horizon);
        let known = as_of(others, then.seq);
        let known: Vec<&InvoiceItem> = known.iter().collect();
        let due = reconcile(&Billed::of(&known), propose(&events, &run)?, &run)?;
        let found = match item.kind {
            ItemKind::Fixed => due.fixed.iter().find_map(|it| {
                let price = it.terms.fixed?.price;
                let is_it = (it.start, it.end, it.amount) == (item.start, item.end, item.amount);
                let event = cause(&events, |event| is_of(event, it.terms));
                let quantity = it.terms.quantity;
                is_it.then_some(Working::Fixed { event: event?, price, quantity })
            }),
            ItemKind::Recurring => due.recurring.iter().find_map(|it| {
                let (price, quantity) = (it.terms.recurring?, it.terms.quantity);
                let days = (it.start, Some(it.end), it.amount);
                let is_it = days == (item.start, item.end, item.amount)
                    && item
                        .of
                        .as_ref()
                        .is_some_and(|of| of.rate == Some(it.rate) && of.phase == it.terms.phase);
                let event = cause(&events, |event| is_of(event, it.terms));
                let measured = it.measured;
                is_it.then_some(Working::Recurring { event: event?, price, quantity, measured })
            }),
            ItemKind::RepairAdj => due.repairs.iter().find_map(|it| {
                let periods = known.iter().filter(|it| it.kind == ItemKind::Recurring);
                let of = periods.filter(|it| it.of.is_some()).nth(it.of)?;
                let days = (it.start, Some(it.end), AmountMinor(-it.amount.0));
                let is_it =
                    days == (item.start, item.end, item.amount) && item.linked == Some(of.id);
                // The last event that is not behind the days.
                let event = cause(&events, |event| event.date <= it.start);
                is_it.then_some(Working::Repair {
                    event: event?,
                    of: of.id,
                    part: it.part,
                    amount: of.amount,
                    is_limited: it.amount != it.part.ratio().of_amount(of.amount),
                })
            }),
            ItemKind::CbaAdj
            | ItemKind::ExternalCharge
            | ItemKind::Tax
            | ItemKind::CreditAdj
            | ItemKind::ItemAdj => Some(Working::ByHand),
        };
        found.ok_or(Unexplained::Changed)
    }

    fn events(&self, then: &Then) -> Result<Vec<BillingEvent>, Unexplained> {
        let Self { account, currency, versions, states, .. } = self;
        let calendar = AccountCalendar::of(account);
        let basis = AccountBasis { account, currency: *currency, calendar, versions };
        let states = states.iter().copied().filter(|it| it.revision.seq <= then.seq);
        let blocked = blocked_spans(states, &then.subscription);
        Ok(basis.events((&then.subscription, &blocked), then.base.as_ref())?)
    }

    const fn run(&self, then: &Then, horizon: Date) -> Run {
        let Self { currency, settings, .. } = self;
        // Nothing looks at what is settled by it.
        let today = then.target;
        Run { target: then.target, horizon, today, currency: *currency, settings: *settings }
    }
}

/// How an item has its amount that changes the account's credit: its invoice after the command that made it, and what
/// was paid of it before.
///
/// # Errors
/// [`Unexplained`].
pub fn explain_credit(
    amount: AmountMinor,
    after: &Invoice,
    paid: AmountMinor,
) -> Result<Working, Unexplained> {
    let balance = AmountMinor(after.charged.0 + after.credit.0 - amount.0 - paid.0);
    let used = AmountMinor((-amount.0).max(0));
    match settle(balance, used) == amount {
        true => Ok(Working::Credit { balance }),
        false => Err(Unexplained::Changed),
    }
}

fn cause(events: &[BillingEvent], is_it: impl Fn(&BillingEvent) -> bool) -> Option<Cause> {
    let found = events.iter().rev().find(|it| is_it(it))?;
    Some(Cause { kind: found.kind, date: found.date })
}

fn is_of(event: &BillingEvent, terms: &super::Terms) -> bool {
    event.terms.as_ref().is_some_and(|it| std::ptr::eq(it, terms))
}

/// Items that there were before a journal row, as they were.
fn as_of(items: &[InvoiceItem], seq: Seq) -> Vec<InvoiceItem> {
    let adjusted = |of: InvoiceItemId| {
        let of_item = |it: &&InvoiceItem| it.kind == ItemKind::ItemAdj && it.linked == Some(of);
        AmountMinor(items.iter().filter(of_item).map(|it| -it.amount.0).sum())
    };
    // The row that voids an item is its last one.
    let counted = items.iter().filter(|it| !it.voided || it.revision.seq >= seq);
    let then = |it: &InvoiceItem| InvoiceItem { adjusted: adjusted(it.id), ..it.clone() };
    counted.map(then).collect()
}
