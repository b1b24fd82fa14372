//! `iso8583-core`: one built-in table of text fields, the bitmap and field 52 as bytes.

use iso8583_core::field::FieldValue;
use iso8583_core::{Field, ISO8583Message, MessageType};

use super::{expect_same, Outcome};
use crate::clock::Clock;
use crate::subject::{hex_of_bytes, Layout, Subject, Value};

pub fn measure(subject: &Subject, clock: &Clock) -> Result<Outcome, String> {
    if subject.layout != Layout::Iso87A {
        return Err("it packs text only, no BCD".to_owned());
    }
    let base = filled(subject, &[])?;
    if subject.values.contains_key(&60) && base.to_bytes() != expected(subject) {
        return Err(
            "its table has no field 60: it takes another's length and cuts the value".to_owned()
        );
    }
    expect_same("packed", &base.to_bytes(), &expected(subject))?;
    let read = ISO8583Message::from_bytes(&expected(subject)).map_err(|error| error.to_string())?;
    if read.get_field_numbers() != base.get_field_numbers() {
        return Err("other fields were read".to_owned());
    }
    for number in base.get_field_numbers() {
        let field = Field::from_number(number).map_err(|error| error.to_string())?;
        if read.get_field(field) != base.get_field(field) {
            return Err(format!("field {number} was read otherwise"));
        }
    }
    rates(subject, clock)
}

/// The vector's bytes with bytes where this crate has no hexadecimal.
fn expected(subject: &Subject) -> Vec<u8> {
    let mut packed = subject.packed_with_raw_bitmap();
    for value in subject.values.values() {
        let Value::Bytes(bytes) = value else { continue };
        let digits = hex_of_bytes(bytes);
        let at = packed.windows(digits.len()).position(|window| window == digits.as_bytes());
        let at = at.expect("the vector has the value");
        packed.splice(at..at + digits.len(), bytes.iter().copied());
    }
    packed
}

fn filled(subject: &Subject, update: &[(u16, String)]) -> Result<ISO8583Message, String> {
    let mti =
        MessageType::from_bytes(subject.mti().as_bytes()).map_err(|error| error.to_string())?;
    let mut message = ISO8583Message::new(mti);
    for (number, value) in subject.values.iter().skip(1) {
        let value = match value {
            Value::Text(text) => FieldValue::from_string(text.as_str()),
            Value::Bytes(bytes) => FieldValue::from_binary(bytes.clone()),
        };
        set(&mut message, *number, value)?;
    }
    for (number, value) in update {
        set(&mut message, *number, FieldValue::from_string(value.as_str()))?;
    }
    Ok(message)
}

fn set(message: &mut ISO8583Message, number: u16, value: FieldValue) -> Result<(), String> {
    let number = u8::try_from(number).map_err(|error| error.to_string())?;
    let field = Field::from_number(number).map_err(|error| error.to_string())?;
    message.set_field(field, value).map_err(|error| error.to_string())
}

fn rates(subject: &Subject, clock: &Clock) -> Result<Outcome, String> {
    let updates = &subject.updates;
    let many = updates.len();
    let messages = updates.iter().map(|it| filled(subject, it)).collect::<Result<Vec<_>, _>>()?;
    let packed: Vec<Vec<u8>> = messages.iter().map(ISO8583Message::to_bytes).collect();
    let fill_pack =
        clock.rate(|turn| filled(subject, &updates[turn % many]).map(|it| it.to_bytes()));
    let pack = clock.rate(|turn| messages[turn % many].to_bytes());
    let unpack = clock.rate(|turn| ISO8583Message::from_bytes(&packed[turn % many]));
    let pack_unpack =
        clock.rate(|turn| ISO8583Message::from_bytes(&messages[turn % many].to_bytes()));
    let mut message = filled(subject, &[])?;
    let update = clock.rate(|turn| -> Result<_, String> {
        for (number, value) in &updates[turn % many] {
            set(&mut message, *number, FieldValue::from_string(value.as_str()))?;
        }
        ISO8583Message::from_bytes(&message.to_bytes()).map_err(|error| error.to_string())
    });
    let rates = [fill_pack, pack, unpack, pack_unpack, update];
    Ok(Outcome { proof: "same values; bitmap and field 52 as bytes", rates })
}
