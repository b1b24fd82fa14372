//! Tests of composite fields in every coding, with the bytes of jPOS.

use iso8583::framing::Measured;
use iso8583::{Error, Index, Message, Problem, Validation};

use crate::hex::{bytes_of_hex, hex};
use crate::tables::packager;

#[test]
fn inner_fields_work_in_every_coding() {
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

/// BCD only has digits.
#[test]
fn inner_digits_work_in_bcd() {
    let mut message = message("IFB_LLNUM", 6);
    message.set([48, 1], "12").unwrap();
    message.set([48, 2], "345=").unwrap();
    assert_eq!(packed(&message), "08000000000000010000 06 12345D");
    let error = message.set([48, 2], "AbC=").unwrap_err().to_string();
    assert_eq!(error, "field 48 at byte 2: a digit or = was expected, something else was found");
    assert_eq!(packed(&message), "08000000000000010000 06 12345D");
}

/// The offset of an inner error counts on the wire.
#[test]
fn inner_errors_have_offsets_on_the_wire() {
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
fn blanks_behind_the_last_inner_field_are_filling() {
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

/// A text of fixed length with inner fields, of which the last ones may be missing.
#[test]
fn inner_fields_of_filled_texts_may_be_missing() {
    let edit = |class: &str, inside: &str| {
        let table = format!("0 IFA_NUMERIC 4\n1 IFB_BITMAP 16\n60 {class} 16\n{inside}");
        let packager = packager(&table);
        let mut index = Index::new();
        let mut message = Message::new(&packager);
        let mut shown = String::new();
        message.set(0, "0800").unwrap();
        let steps = [Some((1, "07")), Some((2, "AB")), Some((1, "08")), None];
        for step in steps {
            match step {
                Some((number, value)) => message.set([60, number], value).unwrap(),
                None => assert_eq!(message.remove([60, 2]), Ok(true)),
            }
            let bytes = message.pack().unwrap();
            let view = packager.unpack(&bytes, &mut index).unwrap();
            shown += &view.revealed().to_string().replace("0 0800\n", "").replace('\n', "; ");
            message.load(&bytes).unwrap();
            assert_eq!(message.pack().unwrap(), bytes);
            let value = message.field(60).unwrap().to_bytes();
            message.set_bytes(60, &value).unwrap();
            assert_eq!(message.pack().unwrap(), bytes);
            let values = [(0, &b"0800"[..]), (60, &value)];
            let mut direct = vec![];
            packager.pack_values(&values, &mut direct).unwrap();
            assert_eq!(direct, bytes);
        }
        shown
    };
    let expected = "60.1 07; 60.1 07; 60.2 AB; 60.1 08; 60.2 AB; 60.1 08; ";
    for class in ["IF_CHAR", "IFE_CHAR"] {
        assert_eq!(edit(class, "  1 IFA_NUMERIC 2\n  2 IFA_LLCHAR 9\n"), expected, "{class}");
        assert_eq!(edit(class, "  1 IFA_NUMERIC 2\n  2 IF_CHAR 2\n  3 IF_CHAR 9\n"), expected);
        assert_eq!(edit(class, "  1 IFA_TTLLCHAR 2\n  2 IFA_TTLLCHAR 9\n"), expected);
    }
    // Digits that equal blanks are a value if they end at the end of the field.
    let table = "0 IFA_NUMERIC 4\n1 IFB_BITMAP 8\n60 IF_CHAR 4\n  1 IF_CHAR 2\n  2 IFB_NUMERIC 4";
    let packager = packager(table);
    let mut index = Index::new();
    let bytes = b"0800\0\0\0\0\0\0\0\x1007\x20\x20";
    let view = packager.unpack(bytes, &mut index).unwrap();
    assert_eq!(view.revealed().to_string(), "0 0800\n60.1 07\n60.2 2020\n");
    assert_eq!(
        edit("IF_CHAR", "  0 IFB_BITMAP 8\n  1 IFA_NUMERIC 2\n  2 IFA_LLCHAR 3\n"),
        expected
    );
}

/// More bytes are requested at the end of the bytes, not at the end of a composite field.
#[test]
fn messages_without_a_length_are_measured() {
    let check = |inside: &str, bytes: &str, expected: Measured| {
        let table = format!("0 IFB_NUMERIC 4\n1 IFB_BITMAP 8\n49 IFA_LLCHAR 99\n{inside}\n");
        let measured = packager(&table).measure(&bytes_of_hex(bytes), &mut Index::new());
        assert_eq!(measured, expected, "{bytes}");
    };
    let tagged = "  1 IFA_TTLLCHAR 9\n  2 IFA_TTLLCHAR 9";
    let start = "08000000000000008000";
    check(tagged, &start[..6], Measured::Incomplete { more: 7 });
    check(tagged, &format!("{start}30"), Measured::Incomplete { more: 1 });
    check(tagged, &format!("{start}30353031"), Measured::Incomplete { more: 3 });
    check(tagged, &format!("{start}303530313031"), Measured::Incomplete { more: 1 });
    check(tagged, &format!("{start}30353031303141"), Measured::Message { length: 17 });
    check(tagged, &format!("{start}303130"), Measured::Invalid { at: 12 });
    check(tagged, &format!("{start}3033303130"), Measured::Invalid { at: 14 });
    check("  1 IFA_LLCHAR 9", &format!("{start}303130"), Measured::Invalid { at: 12 });
}

fn check(class: &str, length: usize, image: &str) {
    let expected = format!("08000000000000010000{image}").replace(' ', "");
    assert_eq!(edited(class, length), Ok(expected), "{class}");
}

/// Sets, reads and sets fields again; returns the packed message.
fn edited(class: &str, length: usize) -> Result<String, Error> {
    let mut message = message(class, length);
    if message.set([48, 1], "99").map_err(|error| error.problem) == Err(Problem::NotComposite) {
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
