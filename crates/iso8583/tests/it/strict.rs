//! Tests of the errors of `Strict`.

use iso8583::{Index, Message, Validation};

use crate::hex::{bytes_of_hex, hex};
use crate::tables::{mixed, packager};

#[test]
fn invalid_received_characters_are_refused() {
    let check = check_received;
    check("0200 2000000000000000 123456", "0 0200; 3 123456;  | accepted");
    check(
        "02A0 2000000000000000 123456",
        "field 0 at byte 1: a digit was expected, byte A0 was found | accepted",
    );
    check(
        "0200 2000000000000000 12F456",
        "field 3 at byte 11: a digit was expected, byte F4 was found | accepted",
    );
    check(
        "0200 3000000000000000 123456 00000000001E",
        "field 4 at byte 18: a digit was expected, byte 1E was found | accepted",
    );
    check(
        "0200 2000000000000000 1234",
        "field 3 at byte 10: 3 bytes are needed, 2 are left | refused",
    );
    check(
        "0200 2000000000000000 123456 00",
        "message at byte 13: the end was expected, 1 more bytes were found | accepted",
    );
}

#[test]
fn invalid_received_lengths_and_filling_are_refused() {
    let check = check_received;
    check(
        "0200 4000000000000000 20 12345678901234567890",
        "field 2 at byte 10: the length is 20, but the maximum is 19 | refused",
    );
    check(
        "0200 4000000000000000 AA 12345678901234567890",
        "field 2 at byte 10: a length in BCD digits was expected, byte AA was found | refused",
    );
    check(
        "0200 4000000000000000 03 1231",
        "field 2 at byte 12: a zero was expected to fill the field up, something else was found | accepted",
    );
    check(
        "0200 0010000000000000 1123",
        "field 12 at byte 10: a zero was expected to fill the field up, byte 11 was found | accepted",
    );
    check(
        "0200 0400000000000000",
        "field 6 at byte 10: the packager does not have this field | refused",
    );
    check("0200 2000", "field 1 at byte 2: 8 bytes are needed, 2 are left | refused");
    check(
        "0200 0000001000000000 58 00000001",
        "field 28 at byte 10: C, D or a digit was expected, byte 58 was found | accepted",
    );
    check(
        "0200 0000000000000800 3030303030303030303030303030304A",
        "field 53 at byte 25: a hexadecimal digit was expected, byte 4A was found | refused",
    );
    check(
        "0200 0000000000010000 303035 3132 312020",
        "field 48.2 at byte 15: more content was expected | refused",
    );
    check(
        "0200 0000000000010000 303032 4132",
        "field 48.1 at byte 13: a digit was expected, something else was found | accepted",
    );
    check(
        "0200 0000000000000004 303132 30313032 6161 30313031 6161",
        "field 62.1 at byte 19: the field occurs twice | refused",
    );
}

#[test]
fn invalid_values_are_refused() {
    let check = |path: &str, value: &str, expected: &str| {
        let mut message = Message::new(&mixed());
        let result = message.set(path.parse::<iso8583::FieldPath>().unwrap(), value);
        assert_eq!(result.unwrap_err().to_string(), expected);
        assert_eq!(message.view().fields().count(), 0, "{path} is there after its refusal");
    };
    check("3", "1234567", "field 3: the length is 7, but the maximum is 6");
    check("3", "12A", "field 3 at byte 2: a digit was expected, byte 41 was found");
    check("11", "12A", "field 11 at byte 2: a digit was expected, byte 41 was found");
    check("2", "12=", "field 2 at byte 2: a digit was expected, something else was found");
    check("35", "12D", "field 35 at byte 2: a digit or = was expected, something else was found");
    check("28", "X1", "field 28 at byte 0: C, D or a digit was expected, byte 58 was found");
    check("28", "D1A", "field 28 at byte 2: a digit was expected, byte 41 was found");
    check("28", "", "field 28: a length of 9 was expected, 0 was found");
    check("52", "1234567", "field 52: a length of 8 was expected, 7 was found");
    check("43", "\u{20ac}", "field 43: a character of ISO-8859-1 was expected");
    check("48.2", "1234567", "field 48.2: the length is 7, but the maximum is 6");
    check("48.4", "1", "field 48.4: the packager does not have this field");
    check("39.1", "1", "field 39: the field is not composite");
    check("1", "1", "field 1: bitmaps follow from the fields and cannot be set");
    check("129", "1", "field 129: the packager does not have this field");
}

/// The character classes a, an and ans of ISO 8583, for set and for received values.
#[test]
fn character_classes_are_validated() {
    let text = r#"
        [fields]
        0 = { content = "digits", length = 4 }
        1 = { content = "bitmap", length = 8 }
        2 = { content = "alphabetic", length = 3, sensitive = true }
        3 = { content = "alphabetic", length = 3 }
        4 = { content = "alphanumeric", length = 3 }
        5 = { content = "printable", length = 9, prefix = { digits = 1 } }
        6 = { content = "printable", coding = "ebcdic", length = 3 }
    "#;
    let strict = iso8583::Packager::from_toml(text).unwrap();
    let lenient = strict.with_validation(Validation::Lenient);
    let check = |number: u16, value: &str, expected: &str| {
        let set = |packager| {
            let mut message = Message::new(packager);
            message.set(0, "0800").unwrap();
            message.set(number, value).map(|()| message.pack().unwrap())
        };
        let bytes = set(&lenient).expect("`Lenient` accepts the value");
        let shown = match set(&strict) {
            Ok(same) => {
                assert_eq!(same, bytes);
                "accepted".to_owned()
            }
            Err(error) => error.to_string(),
        };
        let mut index = Index::new();
        let read = strict.unpack(&bytes, &mut index).map(drop);
        let read = read.map_or_else(|error| error.to_string(), |()| "accepted".to_owned());
        assert_eq!(format!("{shown} | {read}"), expected, "{number} {value}");
        assert_eq!(lenient.unpack(&bytes, &mut index).map(drop), Ok(()), "{number} {value}");
    };
    check(3, "a Z", "accepted | accepted");
    check(3, "ab", "accepted | accepted");
    check(
        3,
        "ab1",
        "field 3 at byte 2: a letter or a blank was expected, byte 31 was found | \
         field 3 at byte 14: a letter or a blank was expected, byte 31 was found",
    );
    check(
        2,
        "1ab",
        "field 2 at byte 0: a letter or a blank was expected, something else was found | \
         field 2 at byte 12: a letter or a blank was expected, something else was found",
    );
    check(4, "a 1", "accepted | accepted");
    check(
        4,
        "a-1",
        "field 4 at byte 1: a letter, a digit or a blank was expected, byte 2D was found | \
         field 4 at byte 13: a letter, a digit or a blank was expected, byte 2D was found",
    );
    check(5, "S\u{e3}o ~!@", "accepted | accepted");
    check(
        5,
        "a\u{85}",
        "field 5 at byte 1: a printable character was expected, byte 85 was found | \
         field 5 at byte 14: a printable character was expected, byte 85 was found",
    );
    check(
        6,
        "a\n",
        "field 6 at byte 1: a printable character was expected, byte 0A was found | \
         field 6 at byte 13: a printable character was expected, byte 15 was found",
    );
}

#[test]
fn signs_are_validated() {
    let strict = packager("0 IFA_NUMERIC 4\n1 IFB_BITMAP 8\n2 IFE_SIGNED_NUMERIC 4");
    let lenient = strict.with_validation(Validation::Lenient);
    let check = |value: &str, expected: &str| {
        let shown = [&strict, &lenient].map(|packager| {
            let mut message = Message::new(packager);
            message.set(0, "0800").unwrap();
            match message.set(2, value) {
                Ok(()) => hex(&message.pack().unwrap()[12..]),
                Err(error) => error.to_string(),
            }
        });
        assert_eq!(shown.join(" | "), expected, "{value}");
    };
    let refused =
        |at| format!("field 2 at byte {at}: a digit was expected, something else was found");
    check("12", "F0F0F1F2 | F0F0F1F2");
    check("-12", &format!("F0F0F1D2 | {}", refused(0)));
    check("-1234", "F1F2F3D4 | field 2: the length is 5, but the maximum is 4");
    check("12-", &format!("{} | {}", refused(2), refused(2)));
    let mut index = Index::new();
    let bytes = bytes_of_hex("30383030 4000000000000000 F1F2F3D4");
    assert_eq!(strict.unpack(&bytes, &mut index).unwrap().text(2).as_deref(), Some("-1234"));
    assert_eq!(lenient.unpack(&bytes, &mut index).unwrap().text(2).as_deref(), Some("-1234"));
}

#[test]
fn fields_beyond_the_bitmap_are_refused() {
    let packager = packager("0 IFA_NUMERIC 4\n1 IFB_BITMAP 16\n128 IF_CHAR 1\n129 IF_CHAR 1");
    let mut message = Message::new(&packager);
    message.set(128, "A").unwrap();
    let expected = "field 129: the packager does not have this field";
    assert_eq!(message.set(129, "A").unwrap_err().to_string(), expected);
    let values: [(u16, &[u8]); 2] = [(0, b"0200"), (129, b"A")];
    let error = packager.pack_values(&values, &mut vec![]).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn values_are_packed_in_any_order() {
    let check = |values: &[(u16, &[u8])], expected: &str| {
        let mut out = vec![0xEE];
        let result = mixed().pack_values(values, &mut out);
        let shown = match result {
            Ok(()) => out[1..].iter().map(|byte| format!("{byte:02X}")).collect(),
            Err(error) => {
                assert_eq!(out, [0xEE], "a refused message leaves nothing");
                error.to_string()
            }
        };
        assert_eq!(shown, expected);
    };
    let three = "02002000000000000000000123";
    check(&[(0, b"0200"), (3, b"000123")], three);
    check(&[(3, b"123"), (0, b"0200")], three);
    check(&[(0, b"0200"), (3, b"9"), (3, b"123")], three);
    check(&[(3, b"123")], "field 0: a message type was expected, none was set");
    check(&[(0, b"0200")], "message: at least one field was expected beside the message type");
    check(
        &[(0, b"0200"), (3, b"12X456")],
        "field 3 at byte 2: a digit was expected, byte 58 was found",
    );
    check(&[(0, b"0200"), (1, b"")], "field 1: bitmaps follow from the fields and cannot be set");
}

fn check_received(hex: &str, expected: &str) {
    let bytes = bytes_of_hex(hex);
    let packager = mixed();
    let mut index = Index::new();
    let strict = match packager.unpack(&bytes, &mut index) {
        Ok(view) => view.to_string().replace('\n', "; "),
        Err(error) => error.to_string(),
    };
    let lenient = packager.with_validation(Validation::Lenient);
    let lenient = match lenient.unpack(&bytes, &mut index) {
        Ok(_) => "accepted",
        Err(_) => "refused",
    };
    assert_eq!(format!("{strict} | {lenient}"), expected, "{hex}");
}

/// If the prefix counts whole bytes, an odd number of digits has a padding.
#[test]
fn padding_of_counted_bytes_is_validated() {
    let check = |class: &str, image: &str, expected: &str| {
        let packager = packager(&format!("0 IFB_NUMERIC 4\n1 IFB_BITMAP 8\n32 {class}"));
        let bytes = bytes_of_hex(&format!("0800 0000000100000000 {image}"));
        let mut index = Index::new();
        let shown = match packager.unpack(&bytes, &mut index) {
            Ok(view) => {
                let value = view.text(32).unwrap();
                let mut message = Message::new(&packager);
                message.set(0, "0800").unwrap();
                message.set(32, &value).unwrap();
                assert_eq!(hex(&message.pack().unwrap()), hex(&bytes));
                value
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{class} {image}");
    };
    let filling = |at, it| format!("field 32 at byte {at}: {it} was expected to fill the field up");
    check("IFEB_LLNUM 5", "F0F3 12345F", "12345");
    check("IFEB_LLNUM 5", "F0F3 123456", &(filling(14, "an F") + ", byte 56 was found"));
    check("IFEB_LLNUM 5", "F0F2 1234", "1234");
    check("IFA_LLBNUM 5", "3036 123450", "12345");
    check("IFA_LLBNUM 5", "3036 123456", &(filling(14, "a zero") + ", byte 56 was found"));
    check("IFA_LLBNUM 5 left", "3036 012345", "12345");
    check("IFA_LLBNUM 5 left", "3036 612345", &(filling(12, "a zero") + ", byte 61 was found"));
    let long = "field 32 at byte 10: the length is 8, but the maximum is 5";
    check("IFA_LLBNUM 5", "3038 12345600", long);
}

/// A loaded third bitmap without fields is packed again.
#[test]
fn empty_third_bitmaps_are_kept() {
    let tables = [
        "0 IFB_NUMERIC 4\n1 IFB_BITMAP 24\n2 IF_CHAR 1\n66 IF_CHAR 1\n130 IF_CHAR 1",
        "0 IFB_NUMERIC 4\n1 IFB_BITMAP 16\n2 IF_CHAR 1\n65 IFB_BITMAP 8\n66 IF_CHAR 1\n130 IF_CHAR 1",
    ];
    for (table, bytes) in tables.into_iter().zip([
        "0800 C000000000000000 8000000000000000 0000000000000000 41",
        "0800 C000000000000000 8000000000000000 41 0000000000000000",
    ]) {
        let packager = packager(table);
        let bytes = bytes_of_hex(bytes);
        let mut message = Message::new(&packager);
        message.load(&bytes).unwrap();
        assert_eq!(hex(&message.pack().unwrap()), hex(&bytes));
        message.set(66, "B").unwrap();
        message.remove(66).unwrap();
        assert_eq!(hex(&message.pack().unwrap()), hex(&bytes));
    }
}
