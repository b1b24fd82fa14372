//! Proposes the charges of a subscription's events until a date, as if nothing had been invoiced.

use jiff::civil::Date;

use super::cycle::Cycle;
use super::{BillingEvent, BillingSettings, DayPart, EventKind, Run, Terms, Unbillable};
use crate::AmountMinor;
use crate::catalog::BillingMode;
use crate::catalog::price::Price;

/// A price that is charged once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedCharge<'a> {
    pub terms: &'a Terms,
    pub start: Date,
    pub end: Option<Date>,
    pub amount: AmountMinor,
}

/// A period, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecurringCharge<'a> {
    pub terms: &'a Terms,
    pub start: Date,
    /// The first day that it is not for.
    pub end: Date,
    pub amount: AmountMinor,
    /// Of a whole period: its price times the quantity.
    pub rate: Price,
    pub measured: Measured,
}

/// How a recurring charge has its amount, which is rounded half up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// A part of the rate.
    OfRate(DayPart),
    /// A part of the amount of a charge for these days, some of which are invoiced.
    OfCharge { part: DayPart, start: Date, end: Date, amount: AmountMinor },
}

/// The charges of a subscription. Recurring charges are in the order of their days.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal<'a> {
    pub fixed: Vec<FixedCharge<'a>>,
    pub recurring: Vec<RecurringCharge<'a>>,
    /// When the next period is due: the target of the next run. `None`: nothing is, until another event.
    pub next: Option<Date>,
}

/// The charges of events until the run's target, but those that ended at its horizon. Events are of one subscription, in
/// their order.
///
/// # Errors
/// [`Unbillable`].
pub fn propose<'a>(events: &'a [BillingEvent], run: &Run) -> Result<Proposal<'a>, Unbillable> {
    let mut proposal = Proposal::default();
    let mut ends = events.iter().skip(1).map(|it| it.date);
    for (index, event) in events.iter().enumerate() {
        let end = ends.next();
        let Some(terms) = &event.terms else { continue };
        if event.date > run.target {
            break;
        }
        if !is_replaced(&events[index..]) {
            proposal.fixed.extend(fixed(event, terms, run)?);
        }
        Segment { terms, start: event.date, end }.charge(run, &mut proposal)?;
    }
    Ok(proposal)
}

/// Whether the event's fixed price is not charged because the plan changes again, or ends, on the same day.
fn is_replaced(events: &[BillingEvent]) -> bool {
    let [event, later @ ..] = events else { return false };
    let of_same_day = later.iter().take_while(|it| it.date == event.date);
    of_same_day.into_iter().any(|it| match it.kind {
        EventKind::Create
        | EventKind::Transfer
        | EventKind::Phase
        | EventKind::Change
        | EventKind::Cancel
        | EventKind::Expired => true,
        EventKind::BcdChange | EventKind::Quantity | EventKind::Disabled | EventKind::Enabled => {
            false
        }
    })
}

fn fixed<'a>(
    event: &BillingEvent,
    terms: &'a Terms,
    run: &Run,
) -> Result<Option<FixedCharge<'a>>, Unbillable> {
    let Some(it) = terms.fixed else { return Ok(None) };
    if event.date < run.horizon {
        return Ok(None);
    }
    let amount = it.price.times(terms.quantity).amount(run.currency);
    let amount = amount.ok_or(Unbillable::TooLarge)?;
    Ok(Some(FixedCharge { terms, start: event.date, end: it.until, amount }))
}

/// The days from an event until the next one.
struct Segment<'a> {
    terms: &'a Terms,
    start: Date,
    end: Option<Date>,
}

impl<'a> Segment<'a> {
    /// Adds what the segment charges until the target.
    fn charge(&self, run: &Run, proposal: &mut Proposal<'a>) -> Result<(), Unbillable> {
        let (Some(price), Some(step)) = (self.terms.recurring, self.terms.period.step()) else {
            return Ok(());
        };
        let cycle = Cycle::new(self.start, step, self.terms.bill_cycle_day)?;
        proposal.next = self.next(cycle, run)?;
        let Some(until) = self.until(cycle, run)? else { return Ok(()) };
        let rate = price.times(self.terms.quantity);
        for (start, end, part) in self.periods(cycle, until, run)? {
            let amount = rate.part(part.ratio(), run.currency).ok_or(Unbillable::TooLarge)?;
            let (terms, measured) = (self.terms, Measured::OfRate(part));
            let charge = RecurringCharge { terms, start, end, amount, rate, measured };
            proposal.recurring.push(charge);
        }
        Ok(())
    }

    /// The day until which the segment is charged; `None`: nothing is.
    fn until(&self, cycle: Cycle, run: &Run) -> Result<Option<Date>, Unbillable> {
        let BillingSettings { greedy, .. } = run.settings;
        let target = run.target;
        let until = match (self.terms.mode, self.end) {
            (_, Some(end)) if end <= target => Some(end),
            (BillingMode::InAdvance, _) => Some(self.boundary_after(cycle, target)?),
            (BillingMode::InArrear, _) if greedy => Some(self.boundary_from(cycle, target)?),
            (BillingMode::InArrear, _) => match cycle.last_until(target)? {
                Some(number) => Some(cycle.at(number)?),
                None => None,
            },
        };
        let until = until.map(|it| self.end.map_or(it, |end| it.min(end)));
        Ok(until.filter(|it| *it > self.start))
    }

    /// When the next period is due.
    fn next(&self, cycle: Cycle, run: &Run) -> Result<Option<Date>, Unbillable> {
        let next = self.boundary_after(cycle, run.target)?;
        Ok(self.end.is_none_or(|end| next < end).then_some(next))
    }

    fn boundary_after(&self, cycle: Cycle, date: Date) -> Result<Date, Unbillable> {
        cycle.at(cycle.last_until(date)?.map_or(0, |it| it + 1))
    }

    fn boundary_from(&self, cycle: Cycle, date: Date) -> Result<Date, Unbillable> {
        let Some(number) = cycle.last_until(date)? else { return cycle.at(0) };
        let last = cycle.at(number)?;
        if last == date { Ok(last) } else { cycle.at(number + 1) }
    }

    /// The whole periods until a day, and the parts before and after them.
    fn periods(
        &self,
        cycle: Cycle,
        until: Date,
        run: &Run,
    ) -> Result<Vec<(Date, Date, DayPart)>, Unbillable> {
        let (first, settings) = (cycle.first(), run.settings);
        if let Some(end) = self.end.filter(|end| *end <= first) {
            // A part is measured by the period that ends with it, even where that is not one of the cycle's.
            let period = (cycle.shift(end, -1)?, end);
            let part = (self.start, end, settings.part((self.start, end), period));
            return Ok(if end > run.horizon { vec![part] } else { vec![] });
        }
        let mut periods = vec![];
        if self.start < first && first > run.horizon {
            let period = (cycle.shift(first, -1)?, first);
            periods.push((self.start, first, settings.part((self.start, first), period)));
        }
        let last = cycle.last_until(until)?.unwrap_or(0);
        let settled = cycle.last_until(run.horizon)?.unwrap_or(0);
        for number in settled..last {
            let (start, end) = (cycle.at(number)?, cycle.at(number + 1)?);
            periods.push((start, end, DayPart::whole((start, end))));
        }
        let last = cycle.at(last)?;
        if until > last && until > run.horizon {
            let period = (last, cycle.shift(last, 1)?);
            periods.push((last, until, settings.part((last, until), period)));
        }
        Ok(periods)
    }
}

#[cfg(test)]
mod tests;
