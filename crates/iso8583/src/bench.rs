//! Measures packing and unpacking with strict validation: operations per second of CPU time.
//!
//! The operations alternate between 64 variants of a message and use their results, so that the
//! compiler cannot remove them. `pack` packs values without a message from before; `update` sets five
//! fields of an existing message to other values each time.

use std::hint::black_box;
use std::time::Instant;

use crate::packager::{FieldDescription, Table};
use crate::{Error, Index, Message, Packager};

mod messages;

use messages::Row;

/// Operations per second of CPU time with one message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Packing of values.
    pub pack: f64,
    /// Unpacking to a view of all fields.
    pub unpack: f64,
    /// Packing and unpacking.
    pub pack_unpack: f64,
    /// Five fields of an existing message are set, and the message is packed and unpacked.
    pub update_pack_unpack: f64,
}

/// The figures by the names of the messages.
#[derive(Clone, Debug, Default)]
pub struct Report(pub Vec<(&'static str, Figures)>);

/// The number of variants of a message and of an update.
const VARIANTS: usize = 64;
/// How often each operation is measured, alternating with the others. The result is the median.
const ROUNDS: usize = 5;

/// Measures each operation with each message for `seconds` of CPU time.
///
/// # Errors
/// A message is refused, which is a bug.
pub fn run(seconds: f64) -> Result<Report, Error> {
    let mut report = Report::default();
    for (name, rows) in messages::ALL {
        let subject = Subject::new(rows)?;
        report.0.push((name, subject.measure(seconds)?));
    }
    Ok(report)
}

impl Report {
    /// The report as JSON: an object with whole numbers per message.
    #[must_use]
    pub fn to_json(&self) -> String {
        let messages = self.0.iter().map(|(name, it)| {
            format!(
                r#""{name}":{{"pack":{:.0},"unpack":{:.0},"pack_unpack":{:.0},"update_pack_unpack":{:.0}}}"#,
                it.pack, it.unpack, it.pack_unpack, it.update_pack_unpack
            )
        });
        format!("{{{}}}", messages.collect::<Vec<_>>().join(","))
    }
}

/// The values that `update` sets.
type Update = [(u16, String); 5];

/// A packager with the variants of a message.
struct Subject {
    packager: Packager,
    updates: Vec<Update>,
    rows: &'static [Row],
}

impl Subject {
    fn new(rows: &'static [Row]) -> Result<Self, Error> {
        let packager = Packager::from_table(&table(rows))?;
        let updates = (0..VARIANTS).map(update).collect();
        Ok(Self { packager, updates, rows })
    }

    /// The values of a variant: the message with other times and numbers.
    fn values<'a>(&'a self, changes: &'a Update) -> Vec<(u16, &'a [u8])> {
        let value = |(number, _, _, value): &Row| {
            let changed = changes.iter().find(|(it, _)| it == number);
            (*number, changed.map_or(*value, |(_, text)| text.as_bytes()))
        };
        self.rows.iter().map(value).collect()
    }

    fn measure(&self, seconds: f64) -> Result<Figures, Error> {
        let packager = &self.packager;
        let variants: Vec<_> = self.updates.iter().map(|it| self.values(it)).collect();
        let mut images = vec![vec![]; VARIANTS];
        for (values, image) in variants.iter().zip(&mut images) {
            packager.pack_values(values, image)?;
        }
        let mut rounds = [Figures::default(); ROUNDS];
        let mut index = Index::new();
        let mut out = vec![];
        let mut message = Message::new(packager);
        for (number, value) in &variants[0] {
            message.set_bytes(*number, value)?;
        }
        let seconds = seconds / ROUNDS as f64;
        for round in &mut rounds {
            let pack = rate(seconds, |turn| {
                out.clear();
                packager.pack_values(&variants[turn], &mut out)?;
                Ok(out.len())
            })?;
            let unpack = rate(seconds, |turn| read(packager, &images[turn], &mut index))?;
            let pack_unpack = rate(seconds, |turn| {
                out.clear();
                packager.pack_values(&variants[turn], &mut out)?;
                read(packager, &out, &mut index)
            })?;
            let update_pack_unpack = rate(seconds, |turn| {
                for (number, value) in &self.updates[turn] {
                    message.set(*number, value)?;
                }
                out.clear();
                message.pack_into(&mut out)?;
                read(packager, &out, &mut index)
            })?;
            *round = Figures { pack, unpack, pack_unpack, update_pack_unpack };
        }
        Ok(Figures {
            pack: median(rounds.map(|it| it.pack)),
            unpack: median(rounds.map(|it| it.unpack)),
            pack_unpack: median(rounds.map(|it| it.pack_unpack)),
            update_pack_unpack: median(rounds.map(|it| it.update_pack_unpack)),
        })
    }
}

fn table(rows: &[Row]) -> Table {
    let row = |(number, class, length, _): &Row| {
        let pad = *class == "IFB_NUMERIC";
        let class = (*class).to_owned();
        (*number, FieldDescription { class, length: *length, pad, ..Default::default() })
    };
    // Like every packager of 1987, it has 128 fields. Unused fields are not measured.
    let bitmap = if rows[0].1.starts_with("IFA") { "IFA_BITMAP" } else { "IFB_BITMAP" };
    let bitmap = FieldDescription { class: bitmap.to_owned(), length: 16, ..Default::default() };
    let last = FieldDescription { class: "IFB_BINARY".to_owned(), length: 8, ..Default::default() };
    let mut table: Table = rows.iter().map(row).collect();
    table.extend([(1, bitmap), (128, last)]);
    table
}

fn update(turn: usize) -> Update {
    [
        (4, format!("{:012}", turn * 9_973 + 100)),
        (7, format!("1120{:06}", turn * 97 % 240_000)),
        (11, format!("{:06}", turn * 7_919 % 1_000_000)),
        (12, format!("{:06}", turn * 89 % 240_000)),
        (13, format!("11{:02}", turn % 28 + 1)),
    ]
}

#[inline]
fn read(packager: &Packager, bytes: &[u8], index: &mut Index) -> Result<usize, Error> {
    let view = packager.unpack(bytes, index)?;
    Ok(view.field(11).map_or(0, |field| usize::from(field.image()[0])))
}

/// The operations per second of this thread's CPU time, measured for `seconds`.
fn rate(
    seconds: f64,
    mut operation: impl FnMut(usize) -> Result<usize, Error>,
) -> Result<f64, Error> {
    const BATCH: u32 = 10_000;
    let mut operations = 0;
    let wall = Instant::now();
    let started = cpu_seconds();
    loop {
        for turn in 0..BATCH as usize {
            black_box(operation(black_box(turn % VARIANTS))?);
        }
        operations += BATCH;
        let spent = match (started, cpu_seconds()) {
            (Some(started), Some(now)) => now - started,
            _ => wall.elapsed().as_secs_f64(),
        };
        if spent >= seconds {
            return Ok(f64::from(operations) / spent);
        }
    }
}

/// The CPU time of this thread; `None` on systems other than Linux.
fn cpu_seconds() -> Option<f64> {
    const NANOSECONDS: f64 = 1e9;
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    times.split_whitespace().next()?.parse::<f64>().ok().map(|it| it / NANOSECONDS)
}

fn median(mut rates: [f64; ROUNDS]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[ROUNDS / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_of_the_sizes_they_are_known_by() {
        for ((name, rows), bytes) in messages::ALL.into_iter().zip([575, 251, 151]) {
            let subject = Subject::new(rows).unwrap();
            let mut packed = vec![];
            let values = subject.values(&subject.updates[1]);
            subject.packager.pack_values(&values, &mut packed).unwrap();
            assert_eq!(packed.len(), bytes, "{name}");
        }
    }

    #[test]
    fn a_report_in_json() {
        let figures = Figures { pack: 1.4, unpack: 2.0, pack_unpack: 3.0, update_pack_unpack: 4.6 };
        assert_eq!(
            Report(vec![("0200", figures), ("0210", Figures::default())]).to_json(),
            r#"{"0200":{"pack":1,"unpack":2,"pack_unpack":3,"update_pack_unpack":5},"0210":{"pack":0,"unpack":0,"pack_unpack":0,"update_pack_unpack":0}}"#
        );
    }
}
