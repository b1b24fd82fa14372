//! Counts of evaluations and metrics that SDKs report, by the hour, until they are flushed.

use std::collections::HashMap;

use domain::card_data::contains_pan;
use evaluation::CompiledFlag;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const HOUR_MS: i64 = 3_600_000;

/// The oldest accepted timestamp of a report; an older one, or one more than an hour ahead, counts as
/// of now.
const AGE_MS_MAX: i64 = 24 * HOUR_MS;

/// How many counts of flags an environment holds between two flushes.
const FLAG_COUNTS_MAX: usize = 50_000;

/// How many counts of metrics an environment holds: clients choose the names.
const METRIC_COUNTS_MAX: usize = 2_000;

/// The longest name of a metric, and id of a variation, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// The largest absolute value, so that sums stay finite.
const VALUE_MAX: f64 = 1e100;

/// Counts since the last flush.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Insights {
    pub flags: Vec<FlagCount>,
    pub metrics: Vec<MetricCount>,
    /// Reports that were not counted: of unknown flags or variations, or above the bounds.
    pub dropped: u64,
}

/// How often a flag evaluated to a variation in an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlagCount {
    pub environment: Uuid,
    pub flag_key: String,
    pub variation_id: String,
    /// When the hour began, in milliseconds since 1970.
    pub hour_ms: i64,
    pub count: u64,
    pub experiment_count: u64,
}

/// The values of a metric in an hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricCount {
    pub environment: Uuid,
    /// The type of the event, such as `CustomEvent`.
    pub kind: String,
    pub event_name: String,
    /// When the hour began, in milliseconds since 1970.
    pub hour_ms: i64,
    pub count: u64,
    pub sum: f64,
}

/// Counts by two names and the hour. A name that is counted already is not copied.
struct Counts<V> {
    by_name: HashMap<Box<str>, HashMap<Box<str>, Hours<V>>>,
    len: usize,
}

/// A count for each hour, by its beginning.
type Hours<V> = Vec<(i64, V)>;

impl<V> Default for Counts<V> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), len: 0 }
    }
}

impl<V: Default> Counts<V> {
    /// The count of two names and an hour; none where `counts_max` of them are counted already.
    fn entry(&mut self, names: (&str, &str), hour_ms: i64, counts_max: usize) -> Option<&mut V> {
        let has_room = self.len < counts_max;
        let outer = inner(&mut self.by_name, names.0, has_room)?;
        let hours = inner(outer, names.1, has_room)?;
        let at = hours.iter().position(|(hour, _)| *hour == hour_ms);
        let at = match at {
            Some(at) => at,
            None if has_room => {
                hours.push((hour_ms, V::default()));
                self.len += 1;
                hours.len() - 1
            }
            None => return None,
        };
        hours.get_mut(at).map(|(_, count)| count)
    }

    fn into_entries(self) -> impl Iterator<Item = (Box<str>, Box<str>, i64, V)> {
        self.by_name.into_iter().flat_map(|(name, inner)| {
            inner.into_iter().flat_map(move |(second, hours)| {
                let name = name.clone();
                hours.into_iter().map(move |(hour, it)| (name.clone(), second.clone(), hour, it))
            })
        })
    }
}

/// The entry of a name; a missing one is inserted where there is room, and is `None` elsewhere.
fn inner<'m, T: Default>(
    map: &'m mut HashMap<Box<str>, T>,
    name: &str,
    has_room: bool,
) -> Option<&'m mut T> {
    if !map.contains_key(name) && has_room {
        map.insert(name.into(), T::default());
    }
    map.get_mut(name)
}

/// The counts of one environment since the last flush.
#[derive(Default)]
pub struct Tally {
    /// By key and variation: evaluations, and evaluations for experiments.
    flags: Counts<(u64, u64)>,
    /// By kind and name: events, and the sum of their values.
    metrics: Counts<(u64, f64)>,
    dropped: u64,
}

impl Tally {
    /// Counts an evaluation; `at` is its time and the present.
    pub fn evaluated(
        &mut self,
        flag: Option<&CompiledFlag>,
        variation_id: &str,
        is_for_experiment: bool,
        at: (i64, i64),
    ) {
        let known = flag.map(CompiledFlag::flag);
        let known = known.filter(|it| it.variations.iter().any(|it| it.id == variation_id));
        let known = known.filter(|it| it.key.len().max(variation_id.len()) <= NAME_BYTES_MAX);
        let Some(flag) = known else {
            self.dropped += 1;
            return;
        };
        let counts = self.flags.entry((&flag.key, variation_id), hour(at), FLAG_COUNTS_MAX);
        let Some((count, experiment_count)) = counts else {
            self.dropped += 1;
            return;
        };
        *count += 1;
        *experiment_count += u64::from(is_for_experiment);
    }

    /// Counts a metric; `at` is its time and the present.
    pub fn measured(&mut self, kind: &str, name: &str, value: f64, at: (i64, i64)) {
        let is_short = name.len().max(kind.len()) <= NAME_BYTES_MAX;
        let is_name = is_short && !name.trim().is_empty();
        // They are stored as they are.
        let is_name = is_name && !contains_pan(name) && !contains_pan(kind);
        let counted = Some(&mut self.metrics).filter(|_| is_name && value.abs() <= VALUE_MAX);
        let counted = counted.and_then(|it| it.entry((kind, name), hour(at), METRIC_COUNTS_MAX));
        let Some((count, sum)) = counted else {
            self.dropped += 1;
            return;
        };
        *count += 1;
        *sum += value;
    }

    /// Adds a count of another process.
    pub fn add_flag(&mut self, counted: FlagCount) {
        let FlagCount { flag_key, variation_id, hour_ms, count, experiment_count, .. } = counted;
        match self.flags.entry((&flag_key, &variation_id), hour_ms, FLAG_COUNTS_MAX) {
            Some(counts) => {
                counts.0 += count;
                counts.1 += experiment_count;
            }
            None => self.dropped += count,
        }
    }

    /// Adds a count of another process.
    pub fn add_metric(&mut self, counted: MetricCount) {
        let MetricCount { kind, event_name, hour_ms, count, sum, .. } = counted;
        match self.metrics.entry((&kind, &event_name), hour_ms, METRIC_COUNTS_MAX) {
            Some(counts) => {
                counts.0 += count;
                counts.1 += sum;
            }
            None => self.dropped += count,
        }
    }

    /// Counts reports that were dropped.
    pub fn add_dropped(&mut self, dropped: u64) {
        self.dropped += dropped;
    }

    /// Moves all counts into those of other environments.
    pub fn drain_into(&mut self, environment: Uuid, insights: &mut Insights) {
        let taken = std::mem::take(self);
        insights.dropped += taken.dropped;
        insights.flags.extend(taken.flags.into_entries().map(|(key, id, hour_ms, counts)| {
            let (count, experiment_count) = counts;
            let (flag_key, variation_id) = (key.into(), id.into());
            FlagCount { environment, flag_key, variation_id, hour_ms, count, experiment_count }
        }));
        insights.metrics.extend(taken.metrics.into_entries().map(
            |(kind, name, hour_ms, counts)| {
                let (count, sum) = counts;
                let (kind, event_name) = (kind.into(), name.into());
                MetricCount { environment, kind, event_name, hour_ms, count, sum }
            },
        ));
    }
}

/// The beginning of the hour of a time, or of the present where the time is implausible.
fn hour((at_ms, now_ms): (i64, i64)) -> i64 {
    let is_likely =
        (now_ms.saturating_sub(AGE_MS_MAX)..now_ms.saturating_add(HOUR_MS)).contains(&at_ms);
    let at_ms = if is_likely { at_ms } else { now_ms };
    at_ms - at_ms.rem_euclid(HOUR_MS)
}

#[cfg(test)]
mod tests {
    use evaluation::{Flag, MissingAttribute, Snapshot, Variation};

    use super::*;

    const NOW: i64 = 1_780_272_000_000 + 5 * 60_000;

    fn snapshot() -> Snapshot {
        let variation = |id: &str| Variation { id: id.to_owned(), ..Variation::default() };
        let flag = Flag {
            key: "beta".to_owned(),
            variations: vec![variation("on"), variation("off")],
            ..Flag::default()
        };
        Snapshot::new(MissingAttribute::Empty).with([flag], [])
    }

    fn taken(tally: &mut Tally) -> Insights {
        let mut insights = Insights::default();
        tally.drain_into(Uuid::nil(), &mut insights);
        insights.flags.sort_by_key(|it| (it.variation_id.clone(), it.hour_ms));
        insights.metrics.sort_by_key(|it| (it.event_name.clone(), it.hour_ms));
        insights
    }

    #[test]
    fn evaluations_are_counted_by_variation_and_hour() {
        let (snapshot, mut tally) = (snapshot(), Tally::default());
        let flag = snapshot.flag("beta");
        let at = |at_ms: i64| (at_ms, NOW);
        tally.evaluated(flag, "on", true, at(NOW));
        tally.evaluated(flag, "on", false, at(NOW - 60_000));
        tally.evaluated(flag, "on", false, at(NOW - 6 * 60_000));
        tally.evaluated(flag, "off", false, at(NOW));
        // Implausible times count as now.
        for at_ms in [0, i64::MIN, i64::MAX, NOW + 2 * HOUR_MS, NOW - 25 * HOUR_MS] {
            tally.evaluated(flag, "off", false, at(at_ms));
        }
        tally.evaluated(flag, "maybe", false, at(NOW));
        tally.evaluated(snapshot.flag("gamma"), "on", false, at(NOW));
        let count = |id: &str, hour_ms, count, experiment_count| FlagCount {
            environment: Uuid::nil(),
            flag_key: "beta".to_owned(),
            variation_id: id.to_owned(),
            hour_ms,
            count,
            experiment_count,
        };
        let this_hour = NOW - 5 * 60_000;
        let flags = vec![
            count("off", this_hour, 6, 0),
            count("on", this_hour - HOUR_MS, 1, 0),
            count("on", this_hour, 2, 1),
        ];
        assert_eq!(taken(&mut tally), Insights { flags, metrics: vec![], dropped: 2 });
        assert_eq!(taken(&mut tally), Insights::default());
    }

    #[test]
    fn metrics_are_summed_by_name() {
        let mut tally = Tally::default();
        let at = (NOW, NOW);
        tally.measured("CustomEvent", "paid", 2.5, at);
        tally.measured("CustomEvent", "paid", -1.0, at);
        tally.measured("Click", "paid", 1.0, at);
        for value in [VALUE_MAX, f64::MAX, f64::MIN, f64::NAN] {
            tally.measured("", "huge", value, at);
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for (kind, name) in [("", ""), ("", " "), ("", &*long), (&*long, "paid")] {
            tally.measured(kind, name, 1.0, at);
        }
        let insights = taken(&mut tally);
        let metrics = insights
            .metrics
            .iter()
            .map(|it| (it.kind.as_str(), it.event_name.as_str(), it.count, it.sum));
        let mut metrics: Vec<_> = metrics.collect();
        metrics.sort_by_key(|it| (it.1, it.0));
        let expected = [
            ("", "huge", 1, VALUE_MAX),
            ("Click", "paid", 1, 1.0),
            ("CustomEvent", "paid", 2, 1.5),
        ];
        assert_eq!(metrics, expected);
        assert_eq!(insights.dropped, 7);
    }

    #[test]
    fn counts_of_metrics_are_bounded() {
        let mut tally = Tally::default();
        for number in 0..METRIC_COUNTS_MAX + 10 {
            tally.measured("", &format!("name-{number}"), 1.0, (NOW, NOW));
        }
        tally.measured("", "name-0", 1.0, (NOW, NOW));
        let insights = taken(&mut tally);
        assert_eq!((insights.metrics.len(), insights.dropped), (METRIC_COUNTS_MAX, 10));
        let first = insights.metrics.iter().find(|it| it.event_name == "name-0");
        assert_eq!(first.map(|it| it.count), Some(2), "what is known is counted on");
    }
}
