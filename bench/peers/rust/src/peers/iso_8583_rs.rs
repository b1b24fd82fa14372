//! `iso_8583_rs`: text messages; checks lengths and classes of characters.

use std::collections::{BTreeMap, HashMap};

use iso_8583_rs::specfile::{FieldDescription, Spec};
use iso_8583_rs::{Builder, CompiledSpec, Error, Message};

use super::{expect_same, Outcome, SAME_BYTES};
use crate::clock::Clock;
use crate::subject::{Layout, Row, Subject};

pub fn measure(subject: &Subject, clock: &Clock) -> Result<Outcome, String> {
    if subject.layout != Layout::Iso87A {
        return Err("it knows text only, no BCD".to_owned());
    }
    let fields = subject.rows.iter().filter(|(number, _)| **number > 1);
    let fields = fields.map(|(number, row)| (i64::from(*number), description(*number, row)));
    let spec = Spec { fields: HashMap::from_iter(fields) };
    let spec = CompiledSpec::compile(&spec).map_err(|error| error.to_string())?;
    let texts = subject.texts();
    prove(subject, &spec, &texts).map_err(|error| error.to_string())?;
    rates(subject, clock, &spec).map_err(|error| error.to_string())
}

fn description(number: u16, row: &Row) -> FieldDescription {
    let len_type = match row.class.as_str() {
        class if class.contains("_LLL") => "lllvar",
        class if class.contains("_LL") => "llvar",
        _ => "fixed",
    };
    let content = match row.class.as_str() {
        // Track 2, which has a separator: the crate's own file does not check it either.
        "IFA_LLNUM" if number == 35 => "z",
        "IFA_NUMERIC" | "IFA_LLNUM" | "IFA_LLLNUM" => "n",
        _ => "ans",
    };
    FieldDescription {
        content_type: content.to_owned(),
        max_len: if row.class == "IFA_BINARY" { 2 * row.length } else { row.length },
        min_len: 0,
        len_type: len_type.to_owned(),
        label: String::new(),
    }
}

fn filled<'a>(
    spec: &'a CompiledSpec,
    values: &'a BTreeMap<u16, String>,
) -> Result<Builder<'a>, Error> {
    let mut builder = Builder::new(spec, values[&0].as_bytes())?;
    for (number, value) in values.iter().skip(1) {
        builder.set(usize::from(*number), value.as_bytes())?;
    }
    Ok(builder)
}

fn prove(
    subject: &Subject,
    spec: &CompiledSpec,
    texts: &BTreeMap<u16, String>,
) -> Result<(), String> {
    let mut out = vec![];
    filled(spec, texts).map_err(|error| error.to_string())?.pack_into(&mut out);
    expect_same("packed", &out, &subject.packed)?;
    let message = Message::parse(spec, &subject.packed).map_err(|error| error.to_string())?;
    for (number, value) in texts.iter().skip(1) {
        let found = message.get(usize::from(*number)).unwrap_or_default();
        expect_same(&format!("field {number}"), found, value.as_bytes())?;
    }
    Ok(())
}

fn rates(subject: &Subject, clock: &Clock, spec: &CompiledSpec) -> Result<Outcome, Error> {
    let variants = subject.variants();
    let many = variants.len();
    let builders = variants.iter().map(|it| filled(spec, it)).collect::<Result<Vec<_>, _>>()?;
    let packed: Vec<Vec<u8>> = builders.iter().map(bytes).collect();
    let mut out = vec![];
    let fill_pack = clock.rate(|turn| {
        out.clear();
        filled(spec, &variants[turn % many]).map(|it| it.pack_into(&mut out))
    });
    let pack = clock.rate(|turn| {
        out.clear();
        builders[turn % many].pack_into(&mut out);
    });
    let unpack = clock.rate(|turn| {
        Message::parse(spec, &packed[turn % many]).map(|it| it.get(11).map(<[u8]>::len))
    });
    let pack_unpack = clock.rate(|turn| {
        out.clear();
        builders[turn % many].pack_into(&mut out);
        Message::parse(spec, &out).map(|it| it.get(11).map(<[u8]>::len))
    });
    let mut builder = builders[0].clone();
    let update = clock.rate(|turn| -> Result<_, Error> {
        for (number, value) in &subject.updates[turn % many] {
            builder.set(usize::from(*number), value.as_bytes())?;
        }
        out.clear();
        builder.pack_into(&mut out);
        Message::parse(spec, &out).map(|it| it.get(11).map(<[u8]>::len))
    });
    let rates = [fill_pack, pack, unpack, pack_unpack, update];
    Ok(Outcome { proof: SAME_BYTES, rates })
}

fn bytes(builder: &Builder<'_>) -> Vec<u8> {
    let mut out = vec![];
    builder.pack_into(&mut out);
    out
}
