//! `iso8583_rs`: fields by a YAML file; the bitmap as bytes; no BCD of an odd number of digits.

use std::collections::BTreeMap;
use std::fmt::Write;

use iso8583_rs::iso8583::iso_spec::{new_msg, spec, IsoMsg, Spec};

use super::{expect_same, Outcome};
use crate::clock::Clock;
use crate::subject::{Layout, Row, Subject};

pub fn measure(subject: &Subject, clock: &Clock) -> Result<Outcome, String> {
    if subject.layout != Layout::Iso87A {
        return Err(
            "its BCD has whole bytes only: field 2 has 19 digits, field 19 has 3".to_owned()
        );
    }
    let spec = the_spec(subject)?;
    let texts = subject.texts();
    let mut expected = subject.packed_with_raw_bitmap();
    expect_same("packed", &pack(&filled(spec, &texts)?)?, &expected)?;
    let read = spec.parse(&mut expected).map_err(|error| error.msg)?;
    for (number, value) in texts.iter().skip(1) {
        let found = read.bmp_child_value(u32::from(*number)).map_err(|error| error.msg)?;
        expect_same(&format!("field {number}"), found.as_bytes(), value.as_bytes())?;
    }
    rates(subject, clock, spec)
}

/// The crate knows one specification, from a file that a variable of the environment names.
fn the_spec(subject: &Subject) -> Result<&'static Spec, String> {
    let path = std::env::temp_dir().join(format!("iso87a-{}.yaml", std::process::id()));
    let mut yaml = SPEC_START.to_owned();
    for (number, row) in subject.rows.iter().filter(|(number, _)| !matches!(number, 0 | 1 | 65)) {
        writeln!(yaml, "          - {{{}}}", child(*number, row))
            .map_err(|error| error.to_string())?;
    }
    std::fs::write(&path, yaml).map_err(|error| error.to_string())?;
    std::env::set_var("SPEC_FILE", &path);
    let spec = spec("");
    std::fs::remove_file(&path).map_err(|error| error.to_string())?;
    Ok(spec)
}

/// All of the file but the fields.
const SPEC_START: &str = "name: iso87a
id: 1
header_fields:
  - {name: type, id: 1, type: Fixed, len: 4, data_encoding: ASCII}
messages:
  - name: any
    id: 1
    selector: ['0200', '0210']
    fields:
      - {name: message_type, id: 1, type: Fixed, len: 4, data_encoding: ASCII}
      - name: bitmap
        id: 2
        type: Bitmapped
        len: 0
        data_encoding: BINARY
        children:
";

fn child(number: u16, row: &Row) -> String {
    let (kind, length) = match row.class.as_str() {
        class if class.contains("_LLL") => ("Variable, len_encoding: ASCII", 3),
        class if class.contains("_LL") => ("Variable, len_encoding: ASCII", 2),
        "IFA_BINARY" => ("Fixed", 2 * row.length),
        _ => ("Fixed", row.length),
    };
    format!(
        "name: f{number}, id: {number}, position: {number}, \
         type: {kind}, len: {length}, data_encoding: ASCII"
    )
}

fn filled(spec: &'static Spec, values: &BTreeMap<u16, String>) -> Result<IsoMsg, String> {
    let segment = spec.get_message("any").map_err(|error| error.msg)?;
    let mut message = new_msg(spec, segment);
    message.set("message_type", &values[&0]).map_err(|error| error.msg)?;
    for (number, value) in values.iter().skip(1) {
        message.set_on(u32::from(*number), value).map_err(|error| error.msg)?;
    }
    Ok(message)
}

fn pack(message: &IsoMsg) -> Result<Vec<u8>, String> {
    message.assemble().map_err(|error| error.msg)
}

fn rates(subject: &Subject, clock: &Clock, spec: &'static Spec) -> Result<Outcome, String> {
    let variants = subject.variants();
    let many = variants.len();
    let messages = variants.iter().map(|it| filled(spec, it)).collect::<Result<Vec<_>, _>>()?;
    let mut packed = messages.iter().map(pack).collect::<Result<Vec<_>, _>>()?;
    let read = |bytes: &mut Vec<u8>| spec.parse(bytes).map_err(|error| error.msg);
    let fill_pack = clock.rate(|turn| pack(&filled(spec, &variants[turn % many])?));
    let pack_only = clock.rate(|turn| pack(&messages[turn % many]));
    let unpack = clock.rate(|turn| read(&mut packed[turn % many]));
    let pack_unpack = clock.rate(|turn| read(&mut pack(&messages[turn % many])?));
    let mut message = filled(spec, &variants[0])?;
    let update = clock.rate(|turn| -> Result<_, String> {
        for (number, value) in &subject.updates[turn % many] {
            message.set_on(u32::from(*number), value).map_err(|error| error.msg)?;
        }
        read(&mut pack(&message)?)
    });
    let rates = [fill_pack, pack_only, unpack, pack_unpack, update];
    Ok(Outcome { proof: "same values; bitmap as bytes", rates })
}
