//! Compares a proposal with the invoices: charges that they lack, and credits for days that are charged no more.
//!
//! Invoiced days are kept as far as the proposal has the same days of the same plan, phase and rate. The rest of it
//! is repaired: credited by its days, at most what is left of it. What the proposal has and no invoice keeps is charged.

use jiff::civil::Date;

use super::invoice::{InvoiceItem, ItemKind};
use super::propose::{FixedCharge, Measured, Proposal, RecurringCharge};
use super::{DayPart, Run, Unbillable};
use crate::catalog::price::Price;
use crate::{AmountMinor, InvoiceItemId};

/// An invoice's item for a period, of the subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BilledPeriod {
    pub plan: String,
    pub phase: String,
    pub start: Date,
    pub end: Date,
    pub amount: AmountMinor,
    pub rate: Price,
    /// By how much item adjustments lowered it; not below 0.
    pub adjusted: AmountMinor,
    pub repairs: Vec<Repaired>,
}

/// Days of an item that were credited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    pub start: Date,
    pub end: Date,
    /// Not below 0.
    pub amount: AmountMinor,
}

/// An invoice's item for a fixed price, of the subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BilledFixed {
    pub start: Date,
    pub amount: AmountMinor,
}

/// The items of a subscription on invoices: all that ends after the run's horizon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Billed {
    pub periods: Vec<BilledPeriod>,
    pub fixed: Vec<BilledFixed>,
}

impl Billed {
    /// Of a subscription's items that count.
    #[must_use]
    pub fn of(items: &[&InvoiceItem]) -> Self {
        let mut billed = Self::default();
        for item in items {
            let Some(of) = &item.of else { continue };
            match item.kind {
                ItemKind::Fixed => {
                    billed.fixed.push(BilledFixed { start: item.start, amount: item.amount });
                }
                ItemKind::Recurring => billed.periods.push(BilledPeriod {
                    plan: of.plan.clone(),
                    phase: of.phase.clone(),
                    start: item.start,
                    end: item.end.unwrap_or(item.start),
                    amount: item.amount,
                    rate: of.rate.unwrap_or_default(),
                    adjusted: item.adjusted,
                    repairs: repairs(items, item.id),
                }),
                ItemKind::RepairAdj
                | ItemKind::CbaAdj
                | ItemKind::ExternalCharge
                | ItemKind::Tax
                | ItemKind::CreditAdj
                | ItemKind::ItemAdj => {}
            }
        }
        billed
    }

    /// The first day of what is charged until a day, or past it without a gap: the day itself, where nothing is.
    #[must_use]
    pub fn since(&self, day: Date) -> Date {
        let pieces = pieces(&self.periods, Date::MIN).into_iter();
        let reaches = |it: &Piece<'_>| it.start < day && day <= it.end;
        pieces.filter(reaches).map(|it| it.start).fold(day, Date::min)
    }

    /// A day that is charged twice, after all that was repaired. A run makes none.
    #[must_use]
    pub fn charged_twice(&self) -> Option<Date> {
        let pieces = pieces(&self.periods, Date::MIN);
        let mut spans: Vec<_> = pieces.iter().map(|it| (it.start, it.end)).collect();
        spans.sort_unstable();
        spans.windows(2).find(|it| it[1].0 < it[0].1).map(|it| it[1].0)
    }
}

fn repairs(items: &[&InvoiceItem], of: InvoiceItemId) -> Vec<Repaired> {
    let repairs = items.iter().filter(|it| it.kind == ItemKind::RepairAdj && it.linked == Some(of));
    let repair = |it: &&InvoiceItem| Repaired {
        start: it.start,
        end: it.end.unwrap_or(it.start),
        amount: AmountMinor(-it.amount.0),
    };
    repairs.map(repair).collect()
}

/// A credit for days of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Which of [`Billed::periods`].
    pub of: usize,
    pub start: Date,
    pub end: Date,
    /// Not below 0; an invoice has it negated.
    pub amount: AmountMinor,
    /// The part of the item's amount that it is, unless less was left of that.
    pub part: DayPart,
}

/// The items of a subscription on a new invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due<'a> {
    pub fixed: Vec<FixedCharge<'a>>,
    pub recurring: Vec<RecurringCharge<'a>>,
    pub repairs: Vec<Repair>,
    /// The horizon of later runs, as long as nothing changes before it.
    pub settled: Date,
}

impl Due<'_> {
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.recurring.is_empty() && self.repairs.is_empty()
    }
}

/// Compares a proposal with what was invoiced. Doing so once more with the result among it gives nothing.
///
/// # Errors
/// [`Unbillable::Overlap`]: the proposal has a day twice.
pub fn reconcile<'a>(
    billed: &Billed,
    proposal: Proposal<'a>,
    run: &Run,
) -> Result<Due<'a>, Unbillable> {
    check_disjoint(&proposal.recurring)?;
    let mut pieces: Vec<Piece<'_>> = pieces(&billed.periods, run.horizon);
    let charges = proposal.recurring.iter().map(|it| (it.start, it.end));
    let spans: Vec<_> = pieces.iter().map(|it| (it.start, it.end)).chain(charges).collect();
    let fixed = unbilled(&billed.fixed, proposal.fixed);
    let mut due = Due { fixed, recurring: vec![], repairs: vec![], settled: settled(&spans, run) };
    for charge in proposal.recurring {
        let rest = if charge.amount.is_zero() {
            Some(charge).filter(|it| !billed.periods.iter().any(|item| item.is(it)))
        } else {
            keep(&mut pieces, charge, run)
        };
        due.recurring.extend(rest);
    }
    let mut left: Vec<i64> = billed.periods.iter().map(BilledPeriod::left).collect();
    for piece in &pieces {
        for (start, end) in piece.gaps() {
            let whole = (piece.item.start, piece.item.end);
            // All of an item is its amount, however its days are counted.
            let part = match (start, end) == whole {
                true => DayPart::whole(whole),
                false => run.settings.part((start, end), whole),
            };
            let amount = part.ratio().of_amount(piece.item.amount);
            let amount = AmountMinor(amount.0.min(left[piece.of]).max(0));
            left[piece.of] -= amount.0;
            due.repairs.push(Repair { of: piece.of, start, end, amount, part });
        }
    }
    Ok(due)
}

/// Keeps the days of a charge that pieces have. What is left of the charge.
fn keep<'a>(
    pieces: &mut [Piece<'_>],
    mut charge: RecurringCharge<'a>,
    run: &Run,
) -> Option<RecurringCharge<'a>> {
    loop {
        let days = (charge.start, charge.end);
        charge = pieces.iter_mut().try_fold(charge, |rest, piece| piece.keep(rest, run))?;
        if days == (charge.start, charge.end) {
            return Some(charge);
        }
        // A piece of which the charge had more than all may be what is left of it.
    }
}

fn check_disjoint(charges: &[RecurringCharge<'_>]) -> Result<(), Unbillable> {
    match charges.windows(2).find(|it| it[1].start < it[0].end) {
        Some(overlap) => Err(Unbillable::Overlap(overlap[1].start)),
        None => Ok(()),
    }
}

/// The last day until the target that is within no span: all before it is settled with this run. It is before today, since
/// a charge that ends today may go on by a change of today.
fn settled(spans: &[(Date, Date)], run: &Run) -> Date {
    let is_between = |day: &Date| !spans.iter().any(|(start, end)| start < day && day < end);
    let days = spans.iter().flat_map(|(start, end)| [*start, *end]);
    let days = days.filter(|it| *it <= run.target && *it < run.today).filter(is_between);
    days.max().map_or(run.horizon, |it| it.max(run.horizon))
}

/// The fixed charges that no item stands for: one item stands for one charge of its day and amount.
fn unbilled<'a>(
    billed: &[BilledFixed],
    mut proposed: Vec<FixedCharge<'a>>,
) -> Vec<FixedCharge<'a>> {
    for item in billed {
        let stands_for = |it: &FixedCharge<'_>| (it.start, it.amount) == (item.start, item.amount);
        if let Some(at) = proposed.iter().position(stands_for) {
            proposed.remove(at);
        }
    }
    proposed
}

impl BilledPeriod {
    /// The part of its amount that neither adjustments nor repairs took.
    fn left(&self) -> i64 {
        let repaired: i64 = self.repairs.iter().map(|it| it.amount.0).sum();
        (self.amount.0 - self.adjusted.0 - repaired).max(0)
    }

    fn is_of(&self, charge: &RecurringCharge<'_>) -> bool {
        self.plan == charge.terms.plan
            && self.phase == charge.terms.phase
            && self.rate == charge.rate
    }

    fn is(&self, charge: &RecurringCharge<'_>) -> bool {
        self.is_of(charge)
            && (self.start, self.end, self.amount) == (charge.start, charge.end, charge.amount)
    }
}

/// Days of an item that were not credited yet.
struct Piece<'a> {
    of: usize,
    item: &'a BilledPeriod,
    start: Date,
    end: Date,
    /// The days that a proposal has as well, in their order.
    kept: Vec<(Date, Date)>,
}

impl Piece<'_> {
    /// Keeps the days that a charge of the same plan, phase and rate has in common with the piece, unless the charge has
    /// all of the item and more. What is left of the charge: its part of it by days, where the piece keeps some.
    fn keep<'a>(&mut self, charge: RecurringCharge<'a>, run: &Run) -> Option<RecurringCharge<'a>> {
        let (start, end) = (charge.start.max(self.start), charge.end.min(self.end));
        let is_within = (start, end) == (charge.start, charge.end);
        // Of the item, not of the piece: a run that found more of it must not be followed by one that finds less.
        let has_all = charge.start <= self.item.start && self.item.end <= charge.end;
        if !self.item.is_of(&charge) || start >= end || has_all && !is_within {
            return Some(charge);
        }
        self.kept.push((start, end));
        match (is_within, charge.start < start) {
            (true, _) => None,
            (false, true) => Some(part(charge, (charge.start, start), run)),
            (false, false) => Some(part(charge, (end, charge.end), run)),
        }
    }

    fn gaps(&self) -> Vec<(Date, Date)> {
        gaps((self.start, self.end), self.kept.iter().copied())
    }
}

/// Some days of a charge, with their part of its amount.
fn part<'a>(
    charge: RecurringCharge<'a>,
    (start, end): (Date, Date),
    run: &Run,
) -> RecurringCharge<'a> {
    let part = run.settings.part((start, end), (charge.start, charge.end));
    let measured =
        Measured::OfCharge { part, start: charge.start, end: charge.end, amount: charge.amount };
    let amount = part.ratio().of_amount(charge.amount);
    RecurringCharge { start, end, amount, measured, ..charge }
}

/// The pieces after the horizon of all items that charge something. Items of nothing are not repaired.
fn pieces(periods: &[BilledPeriod], horizon: Date) -> Vec<Piece<'_>> {
    let mut pieces = vec![];
    for (of, item) in periods.iter().enumerate().filter(|(_, it)| !it.amount.is_zero()) {
        let mut repairs: Vec<_> = item.repairs.iter().map(|it| (it.start, it.end)).collect();
        repairs.sort_unstable();
        let left = gaps((item.start, item.end), repairs);
        for (start, end) in left.into_iter().filter(|(_, end)| *end > horizon) {
            pieces.push(Piece { of, item, start, end, kept: vec![] });
        }
    }
    pieces
}

/// The days of a span that none of the taken ones has. Those are in their order.
fn gaps(
    (mut start, end): (Date, Date),
    taken: impl IntoIterator<Item = (Date, Date)>,
) -> Vec<(Date, Date)> {
    let mut gaps = vec![];
    for (from, until) in taken {
        if start < from {
            gaps.push((start, from));
        }
        start = start.max(until);
    }
    if start < end {
        gaps.push((start, end));
    }
    gaps
}

#[cfg(test)]
mod tests;
