//! Subscriptions for the tests of the stages.

use jiff::civil::Date;

use super::propose::{Proposal, propose};
use super::{BillingEvent, BillingSettings, EventKind, Fixed, Run, Terms};
use crate::catalog::BillingMode;
use crate::catalog::period::BillingPeriod;
use crate::catalog::price::Price;
use crate::{AmountMinor, Currency, Timestamp};

pub(super) fn date(text: &str) -> Date {
    text.parse().unwrap()
}

pub(super) fn usd(amount: AmountMinor) -> String {
    amount.decimal(Currency::parse("USD").unwrap())
}

/// A run in dollars that looks at everything.
pub(super) fn run(target: &str) -> Run {
    Run {
        target: date(target),
        horizon: Date::MIN,
        today: Date::MAX,
        currency: Currency::parse("USD").unwrap(),
        settings: BillingSettings::default(),
    }
}

/// The events of a subscription.
#[derive(Clone)]
pub(super) struct Subscription {
    pub(super) events: Vec<BillingEvent>,
    terms: Terms,
}

impl Subscription {
    pub(super) fn of(plan: &str, period: BillingPeriod, price: &str) -> Self {
        let terms = Terms {
            product: "Product".to_owned(),
            plan: plan.to_owned(),
            phase: format!("{plan}-evergreen"),
            fixed: None,
            recurring: Price::parse(price),
            period,
            mode: BillingMode::InAdvance,
            bill_cycle_day: 1,
            is_aligned_to_account: false,
            quantity: 1,
            catalog_effective_at: Timestamp(0),
        };
        Self { events: vec![], terms }
    }

    pub(super) fn day(mut self, day: u8) -> Self {
        self.terms.bill_cycle_day = day;
        self
    }

    pub(super) fn in_arrear(mut self) -> Self {
        self.terms.mode = BillingMode::InArrear;
        self
    }

    pub(super) fn fixed(mut self, price: &str) -> Self {
        self.terms.fixed = Price::parse(price).map(|price| Fixed { price, until: None });
        self
    }

    pub(super) fn quantities(mut self, quantity: u32) -> Self {
        self.terms.quantity = quantity;
        self
    }

    pub(super) fn create(self, on: &str) -> Self {
        self.event(on, EventKind::Create)
    }

    pub(super) fn change(mut self, on: &str, plan: &str, price: &str) -> Self {
        self.terms.plan = plan.to_owned();
        self.terms.phase = format!("{plan}-evergreen");
        self.terms.recurring = Price::parse(price);
        self.event(on, EventKind::Change)
    }

    pub(super) fn quantity(self, on: &str, quantity: u32) -> Self {
        let mut changed = self.quantities(quantity);
        changed.terms.fixed = None;
        changed.event(on, EventKind::Quantity)
    }

    pub(super) fn bill_cycle_day(self, on: &str, day: u8) -> Self {
        let mut changed = self.day(day);
        changed.terms.fixed = None;
        changed.event(on, EventKind::BcdChange)
    }

    pub(super) fn cancel(self, on: &str) -> Self {
        self.without_terms(on, EventKind::Cancel)
    }

    pub(super) fn pause(self, on: &str) -> Self {
        self.without_terms(on, EventKind::Disabled)
    }

    pub(super) fn resume(self, on: &str) -> Self {
        self.event(on, EventKind::Enabled)
    }

    fn event(mut self, on: &str, kind: EventKind) -> Self {
        let terms = Some(self.terms.clone());
        self.events.push(BillingEvent { date: date(on), kind, terms });
        self
    }

    fn without_terms(mut self, on: &str, kind: EventKind) -> Self {
        self.events.push(BillingEvent { date: date(on), kind, terms: None });
        self
    }

    pub(super) fn proposal(&self, run: &Run) -> Proposal<'_> {
        propose(&self.events, run).unwrap()
    }

    /// The charges, a line each, and when the next period is due.
    pub(super) fn proposed(&self, run: &Run) -> String {
        let proposal = self.proposal(run);
        let fixed = proposal
            .fixed
            .iter()
            .map(|it| format!("{} {} fixed {}", it.terms.plan, it.start, usd(it.amount)));
        let recurring = proposal
            .recurring
            .iter()
            .map(|it| format!("{} {} > {} {}", it.terms.plan, it.start, it.end, usd(it.amount)));
        let next = proposal.next.map(|it| format!("next {it}"));
        fixed.chain(recurring).chain(next).collect::<Vec<_>>().join("\n")
    }
}
