//! Tests of TLVs with the vectors, with edits, and with random bytes.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let text = text.replace(' ', "");
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("a byte")).collect()
}

fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn tag(number: u32) -> Tag {
    Tag::from_number(number).unwrap()
}

#[test]
fn tlvs_equal_the_vectors() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/vectors/iso8583/extras.json");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = json["cases"].as_array().unwrap().iter().filter(|case| case["kind"] == "tlv");
    let mut count = 0;
    for case in cases {
        let bytes = hex(case["hex"].as_str().unwrap());
        count += 1;
        let Some(tags) = case["tags"].as_array() else {
            assert!(case["error"].is_string(), "{case}");
            let error = TlvList::read(&bytes).unwrap_err();
            assert!(!matches!(error, TlvError::NoTag { .. }), "{case}: {error}");
            continue;
        };
        let list = TlvList::read(&bytes).unwrap_or_else(|error| panic!("{case}: {error}"));
        let expected = tags.iter().map(|it| {
            let [tag, value] = ["tag", "value"].map(|name| it[name].as_str().unwrap().to_owned());
            (tag, value)
        });
        let found = list.iter().map(|tlv| (tlv.tag.to_string(), shown(tlv.value)));
        assert!(found.eq(expected), "{case}");
        assert_eq!(list.as_bytes(), bytes, "{case}");
        // New TLVs have the shortest lengths.
        let mut anew = TlvList::new();
        list.iter().for_each(|tlv| anew.insert(usize::MAX, tlv.tag, tlv.value));
        let repacked = case["repacked"].as_str().map_or(bytes, hex);
        assert_eq!(anew.as_bytes(), repacked, "{case}");
    }
    assert_eq!(count, 17);
}

#[test]
fn invalid_tlvs_are_refused() {
    let check = |text: &str, expected: &str| {
        let bytes = hex(text);
        let error = TlvList::read(&bytes).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let read = Tags::new(&bytes).collect::<Vec<_>>();
        assert_eq!(read.last(), Some(&Err(error)), "the error is the last item");
    };
    check("82 00 9F", "the tag at byte 2 is cut off");
    check("9F 80 80", "the tag at byte 0 is cut off");
    check("9F 80 80 80 01 00", "the tag at byte 0 is longer than four bytes");
    check("00 9F36", "tag 9F36 at byte 1: its length is cut off");
    check("9F36 82 01", "tag 9F36 at byte 0: its length is cut off");
    check("70 80 00 00", "tag 70 at byte 0: a length cannot begin with 80");
    check("70 85 0000000001 00", "tag 70 at byte 0: a length cannot begin with 85");
    check("70 FF", "tag 70 at byte 0: a length cannot begin with FF");
    check("9F36 02 00", "tag 9F36 at byte 0: the length is 2, but 1 bytes remain");
    check("57 84 FFFFFFFF 00", "tag 57 at byte 0: the length is 4294967295, but 1 bytes remain");
}

#[test]
fn tags_are_parsed_and_displayed() {
    let bytes = |number| tag(number).bytes();
    assert_eq!([0x5A, 0x9F36, 0xDF_8129, 0xDF81_8101].map(bytes), [1, 2, 3, 4]);
    for number in [0, 0x9F, 0x5A01, 0x9F81_3601, 0x9F_8181, 0xDF81_8181, 0x9F_3601] {
        assert_eq!(Tag::from_number(number), Err(TlvError::NoTag { number }));
    }
    assert!(tag(0x70).is_constructed() && tag(0xBF0C).is_constructed());
    assert!(!tag(0x5A).is_constructed() && !tag(0x9F36).is_constructed());
    let inner = hex("70 05 5A 03 476173");
    let template = Tags::new(&inner).find(tag(0x70)).unwrap().unwrap();
    assert_eq!(Tags::new(template).find(tag(0x5A)), Ok(Some(hex("476173").as_slice())));
    assert_eq!(tag(0x0A).to_string(), "0A");
}

#[test]
fn edits_keep_other_tlvs() {
    let check = |before: &str, edit: fn(&mut TlvList), after: &str| {
        let mut list = TlvList::read(&hex(before)).unwrap();
        edit(&mut list);
        assert_eq!(list.as_bytes(), hex(after), "{before}");
    };
    let three = "82 81 01 AA  00  9F36 01 42  DF01 00";
    check(three, |list| list.set(tag(0x9F36), &[0x43]), "82 81 01 AA  00  9F36 01 43  DF01 00");
    check(three, |list| list.set(tag(0x9F36), &[1, 2]), "82 81 01 AA  00  9F36 02 0102  DF01 00");
    check(three, |list| list.set(tag(0x82), &[0xAA]), three);
    check(three, |list| list.set(tag(0x82), &[]), "82 00  00  9F36 01 42  DF01 00");
    check(
        three,
        |list| list.set(tag(0x5A), &[7]),
        "82 81 01 AA  00  9F36 01 42  DF01 00  5A 01 07",
    );
    check(
        three,
        |list| list.insert(1, tag(0x82), &[]),
        "82 81 01 AA  00  82 00  9F36 01 42  DF01 00",
    );
    check(three, |list| assert!(list.remove(tag(0x82))), "00  9F36 01 42  DF01 00");
    check(three, |list| assert!(!list.remove(tag(0x83))), three);
    // The first of two TLVs with the same tag changes.
    check("82 00 82 00", |list| list.set(tag(0x82), &[1]), "82 01 01 82 00");
}

#[test]
fn lengths_are_as_short_as_possible() {
    for (length, begin) in [
        (0x7F, "82 7F"),
        (0x80, "82 81 80"),
        (0xFF, "82 81 FF"),
        (0x100, "82 82 0100"),
        (0x1_0000, "82 83 010000"),
    ] {
        let mut list = TlvList::new();
        list.set(tag(0x82), &vec![7; length]);
        assert!(list.as_bytes().starts_with(&hex(begin)), "{length}");
        assert_eq!(list.get(tag(0x82)), Some(vec![7; length].as_slice()));
    }
}

#[test]
fn values_are_not_shown() {
    let bytes = hex("5A 08 4761739001010119 9F36 02 0042 57");
    let shown = format!("{:?}", Tags::new(&bytes));
    assert_eq!(shown, "[Ok(5A[8]), Ok(9F36[2]), Err(LengthCutOff { at: 15, tag: 57 })]");
    let list = TlvList::read(&bytes[..15]).unwrap();
    assert_eq!(format!("{list:?}"), "[5A[8], 9F36[2]]");
}

/// Bytes that often begin with valid TLVs.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let numbers = [0x82, 0x5A, 0x70, 0x9F36, 0x5F34, 0xDF_8129, 0xDF81_8101];
    let value = prop::collection::vec(any::<u8>(), 0..200);
    let tlv = (prop::sample::select(numbers.to_vec()), value).prop_map(|(number, value)| {
        let mut list = TlvList::new();
        list.set(tag(number), &value);
        list.bytes
    });
    let bit = prop_oneof![
        8 => tlv,
        1 => Just(vec![0]),
        1 => prop::sample::select(vec!["82 81 00", "9F36 84 00000001 AA", "57 84 FFFFFFFF"])
            .prop_map(hex),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(bit, 0..10).prop_map(|bits| bits.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in any_bytes()) {
        let mut end = 0;
        for tlv in Tags::new(&bytes) {
            let Ok(tlv) = tlv else { break };
            // The TLVs are in order and complete, with padding between them.
            prop_assert!(bytes[end..tlv.at].iter().all(|byte| *byte == 0));
            prop_assert!(tlv.raw.ends_with(tlv.value));
            prop_assert_eq!(Tag::from_number(tlv.tag.number()), Ok(tlv.tag));
            end = tlv.at + tlv.raw.len();
        }
        if let Ok(list) = TlvList::read(&bytes) {
            prop_assert_eq!(list.as_bytes(), bytes.as_slice());
            prop_assert!(bytes[end..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn an_edit_leaves_the_others_as_they_were(
        bytes in any_bytes(),
        index in 0_usize..10,
        value in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let Ok(before) = TlvList::read(&bytes) else { return Ok(()) };
        let raw = |list: &TlvList| list.iter().map(|tlv| tlv.raw.to_vec()).collect::<Vec<_>>();
        let Some(changed) = before.iter().nth(index) else { return Ok(()) };
        let tag = changed.tag;
        let first = before.iter().position(|tlv| tlv.tag == tag).unwrap();

        let mut list = before.clone();
        list.set(tag, &value);
        prop_assert_eq!(list.get(tag), Some(value.as_slice()));
        let (mut old, mut new) = (raw(&before), raw(&list));
        old.remove(first);
        new.remove(first);
        prop_assert_eq!(&old, &new);

        prop_assert!(list.remove(tag));
        prop_assert_eq!(&raw(&list), &old);
        list.insert(first, tag, &value);
        prop_assert_eq!(list.iter().nth(first).map(|tlv| tlv.value), Some(value.as_slice()));
        prop_assert_eq!(TlvList::read(list.as_bytes()).map(drop), Ok(()));
    }
}
