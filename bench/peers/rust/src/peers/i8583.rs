//! `i8583`: text messages; checks lengths.

use std::collections::BTreeMap;

use i8583::data::{Size, Spec, Type};
use i8583::{Packer, Unpacker};

use super::{expect_same, Outcome, SAME_BYTES};
use crate::clock::Clock;
use crate::subject::{Layout, Row, Subject};

type Table = [Option<Spec>; 129];

pub fn measure(subject: &Subject, clock: &Clock) -> Result<Outcome, String> {
    if subject.layout != Layout::Iso87A {
        return Err("it knows text only, no BCD".to_owned());
    }
    let table: Table = std::array::from_fn(|number| {
        let number = u16::try_from(number).unwrap_or_default();
        subject.rows.get(&number).map(|row| spec(number, row))
    });
    let texts = subject.texts();
    expect_same("packed", &filled(&table, &texts)?.pack(vec![])?, &subject.packed)?;
    let mut unpacker = Unpacker::new(&subject.packed);
    let fields = unpacker.unpack(&table)?;
    for (number, value) in &texts {
        let found = fields[usize::from(*number)].unwrap_or_default();
        expect_same(&format!("field {number}"), found, value.as_bytes())?;
    }
    rates(subject, clock, &table)
}

fn spec(number: u16, row: &Row) -> Spec {
    let length = u16::try_from(row.length).unwrap_or(u16::MAX);
    let data_size = match row.class.as_str() {
        _ if number == 1 => Size::BMP,
        "IFA_BINARY" => Size::FIXED(2 * length),
        class if class.contains("_LLL") => Size::LLL(length),
        class if class.contains("_LL") => Size::LL(length),
        _ => Size::FIXED(length),
    };
    Spec { data_type: Type::ANS, data_size }
}

fn filled<'a>(table: &'a Table, values: &'a BTreeMap<u16, String>) -> Result<Packer<'a>, String> {
    let mut packer = Packer::new(table);
    for (number, value) in values {
        packer.set_field(usize::from(*number), value.as_bytes().into())?;
    }
    Ok(packer)
}

fn rates(subject: &Subject, clock: &Clock, table: &Table) -> Result<Outcome, String> {
    let variants = subject.variants();
    let many = variants.len();
    let packers = variants.iter().map(|it| filled(table, it)).collect::<Result<Vec<_>, _>>()?;
    let packed = packers.iter().map(|it| it.pack(vec![])).collect::<Result<Vec<_>, _>>()?;
    let room = subject.packed.len();
    let fill_pack = clock.rate(|turn| -> Result<_, String> {
        Ok(filled(table, &variants[turn % many])?.pack(Vec::with_capacity(room))?)
    });
    let pack = clock.rate(|turn| packers[turn % many].pack(Vec::with_capacity(room)));
    let read = |bytes: &[u8]| Unpacker::new(bytes).unpack(table).map(|it| it[11].map(<[u8]>::len));
    let unpack = clock.rate(|turn| read(&packed[turn % many]));
    let pack_unpack = clock.rate(|turn| -> Result<_, String> {
        read(&packers[turn % many].pack(Vec::with_capacity(room))?)
    });
    let mut packer = filled(table, &variants[0])?;
    let update = clock.rate(|turn| -> Result<_, String> {
        for (number, value) in &subject.updates[turn % many] {
            packer.set_field(usize::from(*number), value.as_bytes().into())?;
        }
        read(&packer.pack(Vec::with_capacity(room))?)
    });
    let rates = [fill_pack, pack, unpack, pack_unpack, update];
    Ok(Outcome { proof: SAME_BYTES, rates })
}
