//! `iso8583-codec-rs`: fields by a JSON description; a message is a JSON value.

use std::collections::BTreeMap;

use iso8583_codec_rs::field_spec::LoadedSpec;
use iso8583_codec_rs::iso8583::{parse_bytes, publish_bytes};
use serde_json::{json, Value};

use super::{expect_same, Outcome, SAME_BYTES};
use crate::clock::Clock;
use crate::subject::{Layout, Row, Subject};

pub fn measure(subject: &Subject, clock: &Clock) -> Result<Outcome, String> {
    let rows = subject.rows.iter().filter(|(number, _)| !matches!(number, 0 | 1 | 65));
    let fields: Vec<Value> = rows.map(|(number, row)| field(*number, row)).collect();
    let defaults = match subject.layout {
        Layout::Iso87A => json!({}),
        Layout::Iso87Binary => {
            json!({"mti_encoding": "bcd", "bitmap_encoding": "binary", "prefix_encoding": "bcd"})
        }
    };
    let spec = json!({"version": "1987", "defaults": defaults, "fields": fields});
    let spec = LoadedSpec::from_json(&spec.to_string()).map_err(|error| error.to_string())?;
    let texts = subject.texts();
    let packed = publish_bytes(&filled(&texts), &spec).map_err(|error| error.to_string())?;
    expect_same("packed", &packed, &subject.packed)?;
    let read = parse_bytes(&subject.packed, &spec).map_err(|error| error.to_string())?;
    for (number, value) in texts.iter().skip(1) {
        let found = read["fields"][key(*number)].as_str().unwrap_or_default();
        expect_same(&format!("field {number}"), found.as_bytes(), value.as_bytes())?;
    }
    rates(subject, clock, &spec)
}

fn field(number: u16, row: &Row) -> Value {
    let prefix = match row.class.as_str() {
        class if class.contains("_LLL") => "LLLVAR",
        class if class.contains("_LL") => "LLVAR",
        _ => "fixed",
    };
    let encoding = match row.class.as_str() {
        "IFB_NUMERIC" | "IFB_LLNUM" => "bcd",
        "IFB_BINARY" | "IFB_LLLBINARY" => "binary",
        _ => "ascii",
    };
    let length = if row.class == "IFA_BINARY" { 2 * row.length } else { row.length };
    json!({
        "de": number,
        "name": "f",
        "type": "string",
        "length": length,
        "prefix": prefix,
        "encoding": encoding,
        "padding": {"side": "none"},
    })
}

fn key(number: u16) -> String {
    format!("de{number:03}_f")
}

fn filled(values: &BTreeMap<u16, String>) -> Value {
    let fields = values.iter().skip(1).map(|(number, value)| (key(*number), value.as_str().into()));
    json!({"mti": values[&0], "fields": Value::Object(fields.collect())})
}

fn rates(subject: &Subject, clock: &Clock, spec: &LoadedSpec) -> Result<Outcome, String> {
    let variants = subject.variants();
    let many = variants.len();
    let messages: Vec<Value> = variants.iter().map(filled).collect();
    let pack = |message: &Value| publish_bytes(message, spec).map_err(|error| error.to_string());
    let packed = messages.iter().map(pack).collect::<Result<Vec<_>, _>>()?;
    let keyed = |update: &Vec<(u16, String)>| -> Vec<(String, Value)> {
        update.iter().map(|(number, value)| (key(*number), value.as_str().into())).collect()
    };
    let updates: Vec<Vec<(String, Value)>> = subject.updates.iter().map(keyed).collect();
    let fill_pack = clock.rate(|turn| pack(&filled(&variants[turn % many])));
    let pack_only = clock.rate(|turn| pack(&messages[turn % many]));
    let unpack = clock.rate(|turn| parse_bytes(&packed[turn % many], spec));
    let read = |bytes: &[u8]| parse_bytes(bytes, spec).map_err(|error| error.to_string());
    let pack_unpack = clock.rate(|turn| read(&pack(&messages[turn % many])?));
    let mut message = messages[0].clone();
    let update = clock.rate(|turn| -> Result<_, String> {
        for (key, value) in &updates[turn % many] {
            message["fields"][key] = value.clone();
        }
        read(&pack(&message)?)
    });
    let rates = [fill_pack, pack_only, unpack, pack_unpack, update];
    Ok(Outcome { proof: SAME_BYTES, rates })
}
