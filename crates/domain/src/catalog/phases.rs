//! When the phases of a plan begin and end.

use super::{Duration, Phase, PhaseType, Plan};
use crate::Timestamp;

/// A phase with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    pub phase: PhaseType,
    pub from: Timestamp,
    /// `None`: it does not end.
    pub until: Option<Timestamp>,
}

/// The phases of a plan, one after the other: from `from` on, beginning with `first`. A plan that lacks that phase begins
/// with its own first one. `None`: a phase would end outside the calendar's years.
#[must_use]
pub fn schedule(plan: &Plan, from: Timestamp, first: Option<PhaseType>) -> Option<Vec<Scheduled>> {
    let is_first = |it: &Phase| first == Some(it.phase);
    let skipped = plan.phases.iter().position(is_first).unwrap_or(0);
    let mut from = from;
    let mut all = vec![];
    for Phase { phase, duration, .. } in &plan.phases[skipped..] {
        let until = match duration {
            Some(duration) => Some(duration.after(from)?),
            None => None,
        };
        all.push(Scheduled { phase: *phase, from, until });
        match until {
            Some(until) => from = until,
            None => break,
        }
    }
    Some(all)
}

/// The phase of a schedule at a time: the last one that has begun, or else the first.
#[must_use]
pub fn at(schedule: &[Scheduled], at: Timestamp) -> Option<&Scheduled> {
    let begun = schedule.partition_point(|it| it.from <= at);
    schedule.get(begun.saturating_sub(1))
}

impl Duration {
    /// A time moved by it on the calendar in UTC, as Kill Bill's phases are: where the month has no such day, its last.
    /// `None` outside the calendar's years.
    #[must_use]
    pub fn after(self, at: Timestamp) -> Option<Timestamp> {
        let at = jiff::Timestamp::from_microsecond(at.0).ok()?.to_zoned(jiff::tz::TimeZone::UTC);
        let date = self.step()?.after(at.date(), 1)?;
        let moved = at.with().date(date).build().ok()?;
        Some(Timestamp(moved.timestamp().as_microsecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{BillingMode, DurationUnit, Prices};

    fn time(text: &str) -> Timestamp {
        Timestamp(format!("{text}:00Z").parse::<jiff::Timestamp>().unwrap().as_microsecond())
    }

    fn plan(phases: &[(PhaseType, Option<(DurationUnit, u32)>)]) -> Plan {
        let phase = |&(phase, length): &(PhaseType, Option<(DurationUnit, u32)>)| Phase {
            phase,
            duration: length.map(|(unit, number)| Duration { unit, number }),
            fixed: Some(Prices::Free),
            recurring: None,
            usages: vec![],
        };
        Plan {
            name: "plan".to_owned(),
            pretty_name: None,
            effective_for_existing_at: None,
            product: "Product".to_owned(),
            mode: BillingMode::InAdvance,
            phases: phases.iter().map(phase).collect(),
            allowed_in_bundle: None,
        }
    }

    fn three() -> Plan {
        plan(&[
            (PhaseType::Trial, Some((DurationUnit::Days, 10))),
            (PhaseType::Discount, Some((DurationUnit::Months, 2))),
            (PhaseType::Evergreen, None),
        ])
    }

    fn shown(schedule: &[Scheduled]) -> Vec<String> {
        let time = |it: Timestamp| {
            jiff::Timestamp::from_microsecond(it.0).unwrap().strftime("%F %H:%M").to_string()
        };
        let until =
            |it: &Scheduled| it.until.map_or_else(String::new, |it| format!(" > {}", time(it)));
        schedule
            .iter()
            .map(|it| format!("{} {}{}", it.phase.name(), time(it.from), until(it)))
            .collect()
    }

    #[test]
    fn phases_follow_each_other_at_the_same_time_of_day() {
        let all = schedule(&three(), time("2024-01-20T07:30"), None).unwrap();
        assert_eq!(
            shown(&all),
            [
                "TRIAL 2024-01-20 07:30 > 2024-01-30 07:30",
                "DISCOUNT 2024-01-30 07:30 > 2024-03-30 07:30",
                "EVERGREEN 2024-03-30 07:30",
            ]
        );
        assert_eq!(at(&all, time("2024-01-30T07:29")).unwrap().phase, PhaseType::Trial);
        assert_eq!(at(&all, time("2024-01-30T07:30")).unwrap().phase, PhaseType::Discount);
        assert_eq!(at(&all, time("2030-01-01T00:00")).unwrap().phase, PhaseType::Evergreen);
        assert_eq!(at(&all, time("2020-01-01T00:00")).unwrap().phase, PhaseType::Trial);
    }

    #[test]
    fn a_trial_may_be_skipped_and_a_phase_that_the_plan_lacks_skips_nothing() {
        let first = |first| shown(&schedule(&three(), time("2024-12-31T06:00"), first).unwrap());
        assert_eq!(
            first(Some(PhaseType::Discount)),
            ["DISCOUNT 2024-12-31 06:00 > 2025-02-28 06:00", "EVERGREEN 2025-02-28 06:00"]
        );
        assert_eq!(first(Some(PhaseType::FixedTerm)), first(None));
    }

    #[test]
    fn a_last_phase_with_an_end_ends_the_plan() {
        let term = plan(&[(PhaseType::FixedTerm, Some((DurationUnit::Years, 1)))]);
        let all = schedule(&term, time("2024-02-29T06:00"), None).unwrap();
        assert_eq!(shown(&all), ["FIXEDTERM 2024-02-29 06:00 > 2025-02-28 06:00"]);
        assert_eq!(schedule(&term, time("9999-02-01T06:00"), None), None);
    }
}
