//! Tests of the documented differences from jPOS: docs/reference/iso8583-differences.md.

use iso8583::{FieldPath, Index, Message, Packager, Validation};

use crate::hex::{bytes_of_hex, hex};
use crate::tables::packager;

const TABLE: &str = "\
0 IFA_NUMERIC 4
1 IFA_BITMAP 16
2 IFB_LLNUM 19
3 IFA_NUMERIC 6
4 IFB_NUMERIC 4
5 IFB_NUMERIC 3 left
6 IFB_LLNUM 5
28 IFA_AMOUNT 4
35 IFB_LLNUM 37
36 IFA_LLNUM 9
43 IFA_LLCHAR 9
";

/// Reads a message with this bitmap and these fields.
fn check_read(packager: &Packager, bitmap: &str, fields: &str, expected: &str) {
    let mut bytes = format!("0800{bitmap}").into_bytes();
    bytes.extend(bytes_of_hex(fields));
    let shown = [Validation::Strict, Validation::Lenient].map(|validation| {
        let packager = packager.with_validation(validation);
        let mut index = Index::new();
        match packager.unpack(&bytes, &mut index) {
            Ok(view) => {
                let values = view.fields().skip(1).map(|it| it.text()).collect::<Vec<_>>();
                format!("{} of {} bytes: {}", view.bytes().len(), bytes.len(), values.join(", "))
            }
            Err(error) => error.to_string(),
        }
    });
    assert_eq!(shown.join(" | "), expected, "{bitmap} {fields}");
}

fn check_packed(packager: &Packager, values: &[(&str, &str)], expected: &str) {
    let shown = [Validation::Strict, Validation::Lenient].map(|validation| {
        let mut message = Message::new(&packager.with_validation(validation));
        let mut values = values.iter().map(|(path, value)| (path.parse::<FieldPath>(), value));
        let result = values.try_for_each(|(path, value)| message.set(path?, value));
        match result.and_then(|()| message.pack()) {
            Ok(bytes) => hex(&bytes),
            Err(error) => error.to_string(),
        }
    });
    let shown = if shown[0] == shown[1] { shown[0].clone() } else { shown.join(" | ") };
    assert_eq!(shown, expected, "{values:?}");
}

/// Checks the image of a field.
fn check_image(number: &str, value: &str, expected: &str) {
    let shown = [Validation::Strict, Validation::Lenient].map(|validation| {
        let mut message = Message::new(&packager(TABLE).with_validation(validation));
        let path: FieldPath = number.parse().expect("a number");
        match message.set(path, value) {
            Ok(()) => hex(message.field(path.numbers()[0]).expect("it was set").image()),
            Err(error) => error.to_string(),
        }
    });
    let shown = if shown[0] == shown[1] { shown[0].clone() } else { shown.join(" | ") };
    assert_eq!(shown, expected, "{number} {value}");
}

#[test]
fn letters_in_digits_are_refused() {
    let wrong = "field 3 at byte 2: a digit was expected, byte 41 was found";
    check_image("3", "12AB", &format!("{wrong} | 303031324142"));
    check_image(
        "4",
        "12AB",
        "field 4 at byte 2: a digit was expected, byte 41 was found | \
         field 4 at byte 2: a digit or = was expected, byte 41 was found",
    );
    let table = packager(TABLE);
    let wrong = "field 3 at byte 22: a digit was expected, byte 41 was found";
    check_read(
        &table,
        "2000000000000000",
        "313241423334",
        &format!("{wrong} | 26 of 26 bytes: 12AB34"),
    );
    let wrong = "field 4 at byte 20: a digit was expected, byte 1A was found";
    check_read(&table, "1000000000000000", "1A2D", &format!("{wrong} | 22 of 22 bytes: 1A2="));
}

#[test]
fn lengths_are_limited_as_documented() {
    let table = packager(TABLE);
    let too_long = "field 6 at byte 20: the length is 6, but the maximum is 5";
    check_read(&table, "0400000000000000", "06123456", &format!("{too_long} | {too_long}"));
    let no_digits = "field 6 at byte 20: a length in BCD digits was expected, byte AA was found";
    check_read(&table, "0400000000000000", "AA123456", &format!("{no_digits} | {no_digits}"));
    check_image("6", "123456", "field 6: the length is 6, but the maximum is 5");
}

#[test]
fn odd_numbers_of_digits_are_padded() {
    check_image("6", "123", "031230");
    check_image("5", "123", "0123");
    let table = packager(TABLE);
    let wrong = "field 6 at byte 22: a zero was expected to fill the field up, byte 35 was found";
    check_read(&table, "0400000000000000", "031235", &format!("{wrong} | 23 of 23 bytes: 123"));
    let wrong = "field 5 at byte 20: a zero was expected to fill the field up, byte 91 was found";
    check_read(&table, "0800000000000000", "9123", &format!("{wrong} | 22 of 22 bytes: 123"));
}

#[test]
fn separators_of_tracks_are_supported() {
    check_image("35", "12=34", "0512D340");
    let wrong = "field 35 at byte 2: a digit or = was expected, something else was found";
    check_image("35", "12D34", wrong);
    let wrong = "field 6 at byte 1: a digit was expected, byte 3D was found";
    check_image("6", "1=2", &format!("{wrong} | 031D20"));
    let table = packager(TABLE);
    check_read(
        &table,
        "0000000020000000",
        "0512D340",
        "24 of 24 bytes: 12=34 | 24 of 24 bytes: 12=34",
    );
}

#[test]
fn directions_of_amounts_are_validated() {
    check_image("28", "C12", "43303132");
    check_image("28", "0012", "30303132");
    check_image(
        "28",
        "X12",
        "field 28 at byte 0: C, D or a digit was expected, byte 58 was found | 58303132",
    );
}

#[test]
fn bitmaps_are_validated() {
    let table = packager(TABLE);
    check_packed(
        &table,
        &[("0", "0800")],
        "message: at least one field was expected beside the message type",
    );
    let beyond = "field 129: the packager does not have this field";
    check_packed(&table, &[("0", "0800"), ("129", "1")], beyond);
    let wide = packager("0 IFA_NUMERIC 4\n1 IFB_BITMAP 16\n2 IFA_NUMERIC 2\n130 IFA_NUMERIC 2");
    check_packed(
        &wide,
        &[("0", "0800"), ("130", "1")],
        "field 130: the packager does not have this field",
    );
    let lower = "field 1 at byte 12: a bitmap's hexadecimal digit was expected, byte 61 was found";
    check_read(
        &table,
        "20000000a0000000",
        "313233343536",
        &format!("{lower} | field 33 at byte 26: the packager does not have this field"),
    );
}

/// A bitmap in EBCDIC hexadecimal digits: all its words if the last field is among the first 32.
#[test]
fn bitmaps_in_ebcdic_have_all_words_like_in_jpos() {
    let table = |length: usize| {
        packager(&format!(
            "0 IFA_NUMERIC 4\n1 IFE_BITMAP {length}\n2 IF_CHAR 1\n33 IF_CHAR 1\n192 IF_CHAR 1"
        ))
    };
    let zeros = |words: usize| "F0".repeat(16 * words);
    let first = format!("F4{}", "F0".repeat(15));
    check_packed(
        &table(16),
        &[("0", "0800"), ("2", "X")],
        &format!("30383030{first}58 | 30383030C3{}58", &zeros(2)[2..]),
    );
    check_packed(
        &table(24),
        &[("0", "0800"), ("2", "X")],
        &format!("30383030{first}58 | 30383030C3{}F8{}58", &zeros(1)[2..], &zeros(2)[2..]),
    );
    check_packed(
        &table(16),
        &[("0", "0800"), ("33", "X")],
        &format!("30383030{}F8{}58", &zeros(1)[..16], &zeros(1)[18..]),
    );
}

#[test]
fn characters_and_trailing_bytes_are_validated() {
    check_image("43", "\u{20ac}", "field 43: a character of ISO-8859-1 was expected");
    check_image("43", "\u{e9}", "3031E9");
    let table = packager(TABLE);
    check_read(
        &table,
        "2000000000000000",
        "3132333435363738",
        "message at byte 26: the end was expected, 2 more bytes were found | 26 of 28 bytes: 123456",
    );
}
