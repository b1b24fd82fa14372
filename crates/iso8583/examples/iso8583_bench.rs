//! Measures packing and reading per second of CPU time, strictly validated:
//! `cargo run --release -p iso8583 --example iso8583_bench -- VECTORS_FOLDER [SECONDS]`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;

use iso8583::packager::{FieldDescription, Table};
use iso8583::{Index, Message, Packager};
use serde_json::Value;

/// A packager, and variants of one message: their values, and their bytes.
struct Subject {
    packager: Packager,
    variants: Vec<Vec<(u16, FieldValue)>>,
    packed: Vec<Vec<u8>>,
}

enum FieldValue {
    Text(String),
    Bytes(Vec<u8>),
}

/// What `update` sets, each time to other values.
type Update = [(u16, String); 5];

/// So many different messages and updates take turns.
const VARIANTS: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("where are the vectors? A folder")?;
    let seconds: f64 = arguments.next().map_or(Ok(1.0), |it| it.parse())?;
    for (file, id) in [
        ("generic-iso87binary.json", "heavy"),
        ("ISO87A.json", "real0200"),
        ("ISO87A.json", "real0210"),
    ] {
        let subject = Subject::read(&Path::new(&folder).join(file), id)?;
        let size = subject.packed[0].len();
        println!("{id} ({size} bytes), operations per second of CPU time");
        for (name, rate) in subject.measure(seconds)? {
            println!("  {name:<20} {rate:>12.0}");
        }
    }
    Ok(())
}

impl Subject {
    fn read(path: &Path, id: &str) -> Result<Self, Box<dyn Error>> {
        let file: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
        let packager = Packager::from_table(&table(&file["table"]))?;
        let cases = file["vectors"].as_array().ok_or("no vectors")?;
        let case = cases.iter().find(|case| case["id"] == id).ok_or("no such vector")?;
        let fields = case["fields"].as_object().ok_or("no fields")?;
        let mut values = BTreeMap::new();
        for (number, value) in fields {
            let value = match value.as_str() {
                Some(text) => FieldValue::Text(text.to_owned()),
                None => FieldValue::Bytes(bytes_of_hex(value["bin"].as_str().unwrap_or_default())),
            };
            values.insert(number.parse::<u16>()?, value);
        }
        let variants: Vec<_> = (0..VARIANTS).map(|it| variant(&values, it)).collect();
        let mut subject = Self { packager, variants, packed: vec![] };
        let mut message = Message::new(&subject.packager);
        for variant in &subject.variants {
            fill(&mut message, variant)?;
            subject.packed.push(message.pack()?);
        }
        Ok(subject)
    }

    fn measure(&self, seconds: f64) -> Result<[(&'static str, f64); 4], iso8583::Error> {
        let mut message = Message::new(&self.packager);
        let mut index = Index::new();
        let mut out = vec![];
        let pack = rate(seconds, |turn| {
            out.clear();
            self.packager.pack_values(bytes(&self.variants[turn % VARIANTS]), &mut out)?;
            Ok(out.len())
        })?;
        let unpack = rate(seconds, |turn| {
            let view = self.packager.unpack(&self.packed[turn % VARIANTS], &mut index)?;
            Ok(view.field(11).map_or(0, |field| usize::from(field.image()[0])))
        })?;
        let pack_unpack = rate(seconds, |turn| {
            out.clear();
            self.packager.pack_values(bytes(&self.variants[turn % VARIANTS]), &mut out)?;
            let view = self.packager.unpack(&out, &mut index)?;
            Ok(view.field(11).map_or(0, |field| usize::from(field.image()[0])))
        })?;
        fill(&mut message, &self.variants[0])?;
        let updates: Vec<Update> = (0..VARIANTS).map(update).collect();
        let update_pack_unpack = rate(seconds, |turn| {
            for (number, value) in &updates[turn % VARIANTS] {
                message.set(*number, value)?;
            }
            out.clear();
            message.pack_into(&mut out)?;
            let view = self.packager.unpack(&out, &mut index)?;
            Ok(view.field(11).map_or(0, |field| usize::from(field.image()[0])))
        })?;
        Ok([
            ("pack", pack),
            ("unpack", unpack),
            ("pack_unpack", pack_unpack),
            ("update_pack_unpack", update_pack_unpack),
        ])
    }
}

fn bytes(values: &[(u16, FieldValue)]) -> impl Iterator<Item = (u16, &[u8])> + Clone {
    values.iter().map(|(number, value)| match value {
        FieldValue::Text(text) => (*number, text.as_bytes()),
        FieldValue::Bytes(bytes) => (*number, bytes.as_slice()),
    })
}

fn fill(message: &mut Message, values: &[(u16, FieldValue)]) -> Result<(), iso8583::Error> {
    message.clear();
    for (number, value) in values {
        match value {
            FieldValue::Text(text) => message.set(*number, text)?,
            FieldValue::Bytes(bytes) => message.set_bytes(*number, bytes)?,
        }
    }
    Ok(())
}

/// The same message with other times and numbers.
fn variant(values: &BTreeMap<u16, FieldValue>, turn: usize) -> Vec<(u16, FieldValue)> {
    let changed: BTreeMap<u16, String> = update(turn).into_iter().collect();
    let value = |(number, value): (&u16, &FieldValue)| {
        let value = match (changed.get(number), value) {
            (Some(text), _) => FieldValue::Text(text.clone()),
            (None, FieldValue::Text(text)) => FieldValue::Text(text.clone()),
            (None, FieldValue::Bytes(bytes)) => FieldValue::Bytes(bytes.clone()),
        };
        (*number, value)
    };
    values.iter().map(value).collect()
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

/// Runs for so long; operations per second of this thread's CPU time.
fn rate(
    seconds: f64,
    mut operation: impl FnMut(usize) -> Result<usize, iso8583::Error>,
) -> Result<f64, iso8583::Error> {
    const BATCH: u32 = 10_000;
    let mut operations = 0;
    let started = cpu_seconds();
    loop {
        for turn in 0..BATCH {
            black_box(operation(black_box(turn as usize))?);
        }
        operations += BATCH;
        let spent = cpu_seconds() - started;
        if spent >= seconds {
            return Ok(f64::from(operations) / spent);
        }
    }
}

/// User and system time of this process so far; 0 where the system does not say.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|it| it.parse::<f64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}

fn table(table: &Value) -> Table {
    let rows = table.as_object().into_iter().flatten();
    let row = |(number, row): (&String, &Value)| {
        let description = FieldDescription {
            class: row["class"].as_str().unwrap_or_default().to_owned(),
            length: row["len"].as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(0),
            pad: row["pad"].as_bool().unwrap_or(false),
            ..FieldDescription::default()
        };
        (number.parse().unwrap_or(0), description)
    };
    rows.map(row).collect()
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().as_chunks::<2>().0.iter();
    let half = |digit| iso8583::coding::hex_value(digit).unwrap_or(0);
    pairs.map(|pair| half(pair[0]) << 4 | half(pair[1])).collect()
}
