//! Fields inside others, in frames of every coding: as jPOS writes them, seen from outside.

use iso8583::{Error, Index, Message, Validation};

use crate::hex::{bytes_of_hex, hex};
use crate::tables::packager;

#[test]
fn fields_in_frames_of_every_coding() {
    check("IFA_LLLCHAR", 6, "303036 31324162433D");
    check("IFA_LLLBINARY", 6, "303036 31324162433D");
    check("IFB_LLHFBINARY", 8, "06 31324162433D 0000");
    check("IFE_LLLCHAR", 6, "F0F0F6 F1F2C182C37E");
    check("IFE_LLNUM", 6, "F0F6 F1F2C182C37E");
    check("IFE_LLLBINARY", 6, "F0F0F6 31324162433D");
    check("IFE_LLLEBINARY", 6, "F0F0F6 F1F2C182C37E");
    check("IFE_CHAR", 6, "F1F2C182C37E");
    check("IFA_BINARY", 6, "333133323431363234333344");
    check("IFE_BINARY", 6, "F3F1F3F2F4F1F6F2F4F3F3C4");
    check("IFB_LLHECHAR", 6, "06 F1F2C182C37E");
    check("IFB_LLHEX", 6, "12 31324162433D");
    check("IFA_LLLABINARY", 6, "303036 333133323431363234333344");
}

/// Digits only, as BCD has no more.
#[test]
fn fields_in_bcd() {
    let mut message = message("IFB_LLNUM", 6);
    message.set([48, 1], "12").unwrap();
    message.set([48, 2], "345=").unwrap();
    assert_eq!(packed(&message), "08000000000000010000 06 12345D");
    let error = message.set([48, 2], "AbC=").unwrap_err().to_string();
    assert_eq!(error, "field 48: a digit or = was expected, something else was found");
    assert_eq!(packed(&message), "08000000000000010000 06 12345D");
}

/// A byte inside is told where it stands on the wire.
#[test]
fn places_of_errors() {
    let check = |class: &str, content: &str, expected: &str| {
        let packager = packager(&table(class, 6));
        let bytes = bytes_of_hex(&format!("08000000000000010000 {content}"));
        let error = packager.unpack(&bytes, &mut Index::new()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{class}");
    };
    let digit = "a digit was expected, something else was found";
    check("IFE_LLCHAR", "F0F6 F1C1C182C37E", &format!("field 48.1 at byte 13: {digit}"));
    check("IFA_BINARY", "333134333431363234333344", &format!("field 48.1 at byte 12: {digit}"));
    check("IFB_LLNUM", "06 1D345D", &format!("field 48.1 at byte 11: {digit}"));
    check("IFE_LLCHAR", "F0F3 F1F2C1", "field 48.2 at byte 14: more content was expected");
}

#[test]
fn blanks_behind_the_last_field_fill_a_frame() {
    let check = |class: &str, content: &str, expected: &str| {
        let packager = packager(&table(class, 8));
        let bytes = bytes_of_hex(&format!("08000000000000010000 {content}"));
        let mut index = Index::new();
        let result = packager.unpack(&bytes, &mut index).map(|view| view.revealed().to_string());
        let shown = result.unwrap_or_else(|error| error.to_string());
        assert_eq!(shown, expected, "{class}");
    };
    let both = "0 0800\n48.1 12\n48.2 AbC=\n";
    check("IF_CHAR", "31324162433D2020", both);
    check("IFE_CHAR", "F1F2C182C37E4040", both);
    let trailing = "the end was expected, 2 more bytes were found";
    check("IF_CHAR", "31324162433D2030", &format!("field 48 at byte 16: {trailing}"));
    check("IFA_LLCHAR", "303831324162433D2020", &format!("field 48 at byte 18: {trailing}"));
}

fn check(class: &str, length: usize, image: &str) {
    let expected = format!("08000000000000010000{image}").replace(' ', "");
    assert_eq!(edited(class, length), Ok(expected), "{class}");
}

/// Sets, reads and sets again; gives the packed message.
fn edited(class: &str, length: usize) -> Result<String, Error> {
    let mut message = message(class, length);
    if message.set([48, 1], "99").is_err() {
        message.set_bytes(48, b"99AbC=")?;
    }
    message.set([48, 2], "AbC=")?;
    message.set([48, 1], "12")?;
    let bytes = message.pack()?;
    for validation in [Validation::Strict, Validation::Lenient] {
        let packager = packager(&table(class, length)).with_validation(validation);
        let (mut index, mut inner) = (Index::new(), Index::new());
        let view = packager.unpack(&bytes, &mut index)?;
        let inside = view.field(48).expect("48 was set");
        let inside = inside.nested(&mut inner)?;
        assert_eq!(inside.text(1).as_deref(), Some("12"), "{class}");
        assert_eq!(inside.text(2).as_deref(), Some("AbC="), "{class}");
        let mut loaded = Message::new(&packager);
        loaded.load(&bytes)?;
        loaded.set([48, 2], "AbC=")?;
        assert_eq!(loaded.pack()?, bytes, "{class}");
    }
    Ok(hex(&bytes))
}

fn message(class: &str, length: usize) -> Message {
    let mut message = Message::new(&packager(&table(class, length)));
    message.set(0, "0800").expect("a message type");
    message
}

fn table(class: &str, length: usize) -> String {
    format!(
        "0 IFB_NUMERIC 4\n1 IFB_BITMAP 16\n48 {class} {length}\n  1 IFA_NUMERIC 2\n  2 IF_CHAR 4\n"
    )
}

fn packed(message: &Message) -> String {
    let packed = hex(&message.pack().expect("it has a field"));
    format!("{} {} {}", &packed[..20], &packed[20..22], &packed[22..])
}
