//! Tests of errors of unpacking: each kind has its field, offset, and expected and found bytes, except
//! for card data.

use iso8583::{Error, Index, Message};
use proptest::prelude::*;

use crate::hex::bytes_of_hex;
use crate::tables::{mixed, packager};

/// A field of each class with errors of its own; none is sensitive.
const KINDS: &str = "\
0 IFA_NUMERIC 4
1 IFA_BITMAP 16
3 IFA_LLNUM 6
4 IFE_LLNUM 6
5 IFB_LLNUM 6
6 IFB_LLHEX 4
7 IFE_SIGNED_NUMERIC 2
8 IFE_AMOUNT 3
9 IFB_FLLNUM 5
10 IFMC_LLCHAR 9
11 IFB_LLHFBINARY 4
12 IFE_BINARY 2
60 IFA_LLCHAR 60
  1 IFA_LLNUM 4
  2 IFB_NUMERIC 3
62 IFA_LLCHAR 60
  3 IFA_TTLLCHAR 9
";

#[test]
fn invalid_lengths_are_reported() {
    for [bitmap, content, expected] in [
        [
            "2000000000000000",
            "3041",
            "field 3 at byte 21: a length in ASCII digits was expected, byte 41 was found",
        ],
        [
            "1000000000000000",
            "F041",
            "field 4 at byte 21: a length in EBCDIC digits was expected, byte 41 was found",
        ],
        [
            "0800000000000000",
            "0A",
            "field 5 at byte 20: a length in BCD digits was expected, byte 0A was found",
        ],
        ["0400000000000000", "03", "field 6 at byte 20: an even length was expected, 3 was found"],
        ["2000000000000000", "3037", "field 3 at byte 20: the length is 7, but the maximum is 6"],
        ["2000000000000000", "30363132", "field 3 at byte 22: 6 bytes are needed, 2 are left"],
        ["2000000000000000", "30", "field 3 at byte 20: 2 bytes are needed, 1 are left"],
        [
            "2000000000000000",
            "303035",
            "message at byte 22: the end was expected, 1 more bytes were found",
        ],
    ] {
        check_kinds(bitmap, content, expected);
    }
}

#[test]
fn invalid_contents_are_reported() {
    let check = check_kinds;
    check(
        "2000000000000000",
        "3033313241",
        "field 3 at byte 24: a digit was expected, byte 41 was found",
    );
    check(
        "1000000000000000",
        "F0F2F1C1",
        "field 4 at byte 23: a digit was expected, byte C1 was found",
    );
    check(
        "0800000000000000",
        "04123E",
        "field 5 at byte 22: a digit was expected, byte 3E was found",
    );
    check(
        "0800000000000000",
        "031234",
        "field 5 at byte 22: a zero was expected to fill the field up, byte 34 was found",
    );
    check(
        "0200000000000000",
        "F1C1",
        "field 7 at byte 21: a digit was expected, byte C1 was found",
    );
    check(
        "0100000000000000",
        "E7F0F0",
        "field 8 at byte 20: C, D or a digit was expected, byte E7 was found",
    );
    check(
        "0100000000000000",
        "C3F0C1",
        "field 8 at byte 22: a digit was expected, byte C1 was found",
    );
    check(
        "0080000000000000",
        "031230",
        "field 9 at byte 22: an F was expected to fill the field up, byte 30 was found",
    );
    check(
        "0040000000000000",
        "31333031",
        "field 10 at byte 20: the field's own number was expected before its content, 13 was found",
    );
    check(
        "0020000000000000",
        "01AA000001",
        "field 11 at byte 24: a zero was expected to fill the field up, byte 01 was found",
    );
    check(
        "0010000000000000",
        "F1F2C7F0",
        "field 12 at byte 22: a hexadecimal digit was expected, byte C7 was found",
    );
    check(
        "2000000000G00000",
        "",
        "field 1 at byte 14: a bitmap's hexadecimal digit was expected, byte 47 was found",
    );
    check("0008000000000000", "", "field 13 at byte 20: the packager does not have this field");
}

#[test]
fn invalid_inner_contents_are_reported() {
    let check = check_kinds;
    check(
        "0000000000000010",
        "303431413132",
        "field 60.1 at byte 23: a length in ASCII digits was expected, byte 41 was found",
    );
    check(
        "0000000000000010",
        "30363032315A0000",
        "field 60.1 at byte 25: a digit was expected, byte 5A was found",
    );
    check(
        "0000000000000010",
        "303430301234",
        "field 60.2 at byte 25: a zero was expected to fill the field up, byte 34 was found",
    );
    check("0000000000000004", "3034303130", "field 62 at byte 22: 4 bytes are needed, 3 are left");
    check(
        "0000000000000004",
        "303830333030",
        "field 62 at byte 22: 8 bytes are needed, 4 are left",
    );
    check(
        "0000000000000004",
        "303830333030303330",
        "field 62 at byte 22: 8 bytes are needed, 7 are left",
    );
    check(
        "0000000000000004",
        "30383033303030333030",
        "field 62.3 at byte 26: the field occurs twice",
    );
    check(
        "0000000000000004",
        "303430343030",
        "field 62.4 at byte 22: the packager does not have this field",
    );
}

#[test]
fn errors_never_have_card_data() {
    let check = |bitmap: &str, fields: &str, expected: &str| {
        let bytes = bytes_of_hex(&format!("0200{bitmap}{fields}"));
        let error = mixed().unpack(&bytes, &mut Index::new()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_no_contents(error);
    };
    check(
        "4000000000000000",
        "04 123B",
        "field 2 at byte 12: a digit was expected, something else was found",
    );
    check(
        "0000000020000000",
        "04 123B",
        "field 35 at byte 12: a digit or a separator was expected, something else was found",
    );
    check(
        "0000000000010000",
        "303034 3132 4142",
        "field 48.2 at byte 15: more content was expected",
    );
    check(
        "0000000000010000",
        "303032 3142",
        "field 48.1 at byte 14: a digit was expected, something else was found",
    );
    check(
        "0000000000010000",
        "303130 3132 414243444546 3342",
        "field 48.3 at byte 22: a length in ASCII digits was expected, something else was found",
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// An error has an offset up to the end of the message, and a field unless it is behind all fields.
    #[test]
    fn errors_have_a_field_and_an_offset(
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6),
        cut in 0_usize..120,
    ) {
        let packager = mixed();
        let mut message = Message::new(&packager);
        for (path, value) in [
            ("0", "0200"), ("2", "4761739001010119"), ("3", "1"), ("11", "7"), ("28", "D1"),
            ("32", "123"), ("35", "4761739001010119=2912"), ("44", "AB"), ("48.3", "secret"),
            ("60.2", "open"), ("62.2", "two"), ("90", "42"),
        ] {
            message.set(path.parse::<iso8583::FieldPath>().unwrap(), value).unwrap();
        }
        let mut bytes = message.pack().unwrap();
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        if let Err(error) = packager.unpack(&bytes, &mut Index::new()) {
            prop_assert!(error.offset.is_some_and(|at| at <= bytes.len()), "{error}");
            let is_behind = matches!(error.problem, iso8583::Problem::Trailing { .. });
            prop_assert!(error.path.is_some() || is_behind, "{error}");
            if error.path.is_some_and(|path| [2, 35, 48].contains(&path.numbers()[0])) {
                assert_no_contents(error);
            }
        }
    }
}

/// No form of the error shows contents.
fn assert_no_contents(error: Error) {
    let inside = error.path.is_some_and(|path| path.numbers().len() > 1);
    let shown = format!("{error} {error:?}");
    let is_prefix = matches!(error.problem, iso8583::Problem::BadPrefix { .. }) && !inside;
    assert!(is_prefix || !shown.contains("found: Some"), "{shown}");
    if inside {
        assert!(!shown.contains("length:") && !shown.contains("needed:"), "{shown}");
    }
}

fn check_kinds(bitmap: &str, fields: &str, expected: &str) {
    let mut bytes = format!("0800{bitmap}").into_bytes();
    bytes.extend(bytes_of_hex(fields));
    let packager = packager(KINDS);
    let mut index = Index::new();
    let result = packager.unpack(&bytes, &mut index).map(|view| view.to_string());
    assert_eq!(result.map_err(|error| error.to_string()), Err(expected.to_owned()));
}
