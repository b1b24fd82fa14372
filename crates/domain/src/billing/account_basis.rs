//! What decides on the timelines of all subscriptions of an account.

use crate::account::blocking_state::BlockingState;
use crate::account::calendar::AccountCalendar;
use crate::billing::blocking;
use crate::billing::subscription::Subscription;
use crate::billing::timeline::{Basis, BillCycleDays, Blocked, NoTimeline, own_day, timeline};
use crate::billing::{BillingEvent, Unbillable};
use crate::catalog::ProductCategory;
use crate::catalog::versions::Versions;
use crate::{Account, Currency};

#[derive(Clone, Copy)]
pub(super) struct AccountBasis<'a> {
    pub(super) account: &'a Account,
    pub(super) currency: Currency,
    pub(super) calendar: AccountCalendar,
    pub(super) versions: &'a Versions,
}

impl<'a> AccountBasis<'a> {
    /// The events of a subscription, beside the base of its bundle.
    pub(super) fn events(
        &self,
        (it, blocked): (&'a Subscription, &'a [Blocked]),
        base: Option<&'a Subscription>,
    ) -> Result<Vec<BillingEvent>, Unbillable> {
        let bundle = base.map(|base| own_day(&self.basis((base, &[]), None)));
        let bundle = bundle.transpose().map_err(unbillable)?;
        timeline(&self.basis((it, blocked), bundle)).map_err(unbillable)
    }

    fn basis(
        &self,
        (it, blocked): (&'a Subscription, &'a [Blocked]),
        bundle: Option<u8>,
    ) -> Basis<'a> {
        let day = self.account.bill_cycle_day_local;
        Basis {
            transitions: &it.transitions,
            blocked,
            versions: self.versions,
            calendar: self.calendar,
            currency: self.currency,
            days: BillCycleDays { account: (day > 0).then_some(day), bundle },
        }
    }
}

/// The base of a subscription's bundle, unless it is the subscription itself.
pub fn base_of<'a>(
    it: &Subscription,
    all: impl IntoIterator<Item = &'a Subscription>,
) -> Option<&'a Subscription> {
    let is_base = |base: &&Subscription| {
        base.bundle_id == it.bundle_id && base.category == ProductCategory::Base
    };
    all.into_iter().find(is_base).filter(|base| base.id != it.id)
}

/// When the billing of a subscription is blocked. What begins after its end is of no subscription.
pub(super) fn blocked_spans<'a>(
    states: impl IntoIterator<Item = &'a BlockingState>,
    it: &Subscription,
) -> Vec<Blocked> {
    let end = it.ends_at();
    let mut spans = blocking::billing_spans(&blocking::states_of(states, Some(it)));
    spans.retain(|span| end.is_none_or(|end| span.from < end));
    spans
}

const fn unbillable(why: NoTimeline) -> Unbillable {
    match why {
        NoTimeline::NoPlan => Unbillable::NoPlan,
        NoTimeline::NoPrice(_) => Unbillable::NoPrice,
    }
}
