//! Tests of edits: they equal building from scratch, and read messages are packed to the same bytes.

use std::collections::BTreeMap;

use iso8583::packager::{FieldDescription, Table};
use iso8583::{FieldPath, Index, Message, MessageView, Packager, Validation};
use proptest::prelude::*;

use crate::tables::mixed;

type Values = BTreeMap<FieldPath, Vec<u8>>;

/// The paths of fields, and the kinds of their values.
fn fields() -> Vec<(FieldPath, &'static str)> {
    let text = "[ -~\u{e0}-\u{ff}]{0,25}";
    let mut fields = vec![
        (2.into(), "[0-9]{0,19}"),
        (3.into(), "[0-9]{0,6}"),
        (4.into(), "[0-9]{0,12}"),
        (11.into(), "[0-9]{0,6}"),
        (12.into(), "[0-9]{0,3}"),
        (13.into(), "[0-9]{0,3}"),
        (22.into(), "[0-9]{0,12}"),
        (28.into(), "[CD][0-9]{0,8}"),
        (32.into(), "[0-9]{0,11}"),
        (35.into(), "[0-9]{0,16}=[0-9]{0,16}"),
        (37.into(), "[ -~]{0,12}"),
        (39.into(), "[0-9A-Z]{2}"),
        (41.into(), "[ -~]{0,8}"),
        (43.into(), text),
        (44.into(), text),
        (52.into(), "[\u{0}-\u{ff}]{8}"),
        (53.into(), "[\u{0}-\u{ff}]{8}"),
        (55.into(), "[\u{0}-\u{ff}]{0,200}"),
        (63.into(), "[0-9]{0,9}"),
        (70.into(), "[0-9]{0,3}"),
        (90.into(), "[0-9]{0,42}"),
        (102.into(), text),
        (128.into(), "[\u{0}-\u{ff}]{8}"),
    ];
    fields.extend([
        ([48, 1].into(), "[0-9]{0,2}"),
        ([48, 2].into(), "[ -~]{0,6}"),
        ([48, 3].into(), "[ -~]{0,99}"),
        ([60, 1].into(), "[0-9]{0,2}"),
        ([60, 2].into(), "[ -~]{0,10}"),
        ([60, 33].into(), "[ -~]{0,3}"),
        ([62, 1].into(), "[ -~]{0,99}"),
        ([62, 2].into(), "[ -~]{0,99}"),
        ([62, 42].into(), "[ -~]{0,99}"),
    ]);
    fields
}

/// An edit: sets a value or removes a field.
fn edit() -> impl Strategy<Value = (FieldPath, Option<Vec<u8>>)> {
    let strategies = fields().into_iter().map(|(path, pattern)| {
        let text = proptest::string::string_regex(pattern).expect("a pattern");
        let value = text.prop_map(|text| {
            text.chars().map(|it| u8::try_from(it).unwrap_or(b'?')).collect::<Vec<u8>>()
        });
        (Just(path), proptest::option::weighted(0.8, value)).boxed()
    });
    proptest::strategy::Union::new(strategies)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edits_equal_building_from_scratch(edits in proptest::collection::vec(edit(), 1..60)) {
        let packager = mixed();
        let mut edited = Message::new(&packager);
        edited.set(0, "0200").unwrap();
        let mut values = Values::new();
        for (path, value) in edits {
            match value {
                Some(value) => {
                    edited.set_bytes(path, &value).unwrap();
                    values.insert(path, value);
                }
                // In 48, a missing field before another one is filled up.
                None if path.numbers()[0] == 48 => {
                    edited.remove(48).unwrap();
                    values.retain(|path, _| path.numbers()[0] != 48);
                }
                None => {
                    edited.remove(path).unwrap();
                    values.remove(&path);
                }
            }
            prop_assert_eq!(edited.pack().ok(), built(&packager, &values).pack().ok());
        }
        if let Ok(packed) = edited.pack() {
            check_packed_again(&packager, &packed)?;
            let mut loaded = Message::new(&packager);
            loaded.load(&packed).unwrap();
            prop_assert_eq!(loaded.pack().unwrap(), packed);
        }
    }

    #[test]
    fn messages_that_strict_reads_are_packed_to_the_same_bytes(
        edits in proptest::collection::vec(edit(), 1..30),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..3),
    ) {
        let packager = mixed();
        let values = edits.into_iter().filter_map(|(path, value)| Some((path, value?))).collect();
        let Ok(mut bytes) = built(&packager, &values).pack() else { return Ok(()) };
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        check_packed_again(&packager, &bytes)?;
    }
}

fn built(packager: &Packager, values: &Values) -> Message {
    let mut message = Message::new(packager);
    message.set(0, "0200").expect("the value is valid");
    for (path, value) in values {
        message.set_bytes(*path, value).expect("the value is valid");
    }
    message
}

/// If these bytes are valid, the read values are packed to the same bytes.
fn check_packed_again(packager: &Packager, bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut index = Index::new();
    let Ok(view) = packager.unpack(bytes, &mut index) else { return Ok(()) };
    let mut again = Message::new(packager);
    set_all(&mut again, view);
    let values: Vec<_> = view.fields().map(|it| (it.number(), it.to_bytes())).collect();
    let mut direct = vec![];
    let pairs: Vec<_> = values.iter().map(|(number, value)| (*number, value.as_slice())).collect();
    prop_assert_eq!(packager.pack_values(&pairs, &mut direct), again.pack_into(&mut vec![]));
    prop_assert_eq!(direct, again.pack().unwrap_or_default());
    // Only `load` keeps a second bitmap without fields, or an empty bitmap.
    let mut loaded = Message::new(packager);
    loaded.load(bytes).expect("these bytes were read before");
    prop_assert_eq!(&loaded.pack().expect("the message is complete")[..], bytes);
    let has_second = view.fields().any(|field| field.number() > 64);
    if view.fields().count() > 1 && has_second == (bytes[2] >= 0x80) {
        prop_assert_eq!(&again.pack().expect("the message is complete")[..], bytes);
    }
    Ok(())
}

fn set_all(message: &mut Message, view: MessageView<'_>) {
    for field in view.fields() {
        message.set_bytes(field.number(), &field.to_bytes()).expect("the value is valid");
    }
}

/// Empty fields have a position among the others.
#[test]
fn empty_fields_keep_their_position() {
    let field = |class: &str, length, trim| FieldDescription {
        class: class.to_owned(),
        length,
        trim,
        ..FieldDescription::default()
    };
    let mut table =
        Table::from([(0, field("IFA_NUMERIC", 4, false)), (1, field("IFB_BITMAP", 16, false))]);
    table.extend((3..=6).map(|number| (number, field("IF_CHAR", 6, true))));
    let packager = Packager::from_table(&table).unwrap().with_validation(Validation::Lenient);
    let check = |edits: &[(u16, &str)], expected: &str| {
        let mut message = Message::new(&packager);
        for (number, value) in edits {
            message.set(*number, value).unwrap();
        }
        let packed = message.pack().unwrap();
        assert_eq!(std::str::from_utf8(&packed[12..]).unwrap(), expected, "{edits:?}");
    };
    let (three, four, five) = ((3, "333333"), (4, "444444"), (5, "555555"));
    let (first, all) = ((0, "0200"), "333333444444555555");
    check(&[first, (3, ""), five, four, three], all);
    check(&[(3, ""), five, four, three, first], all);
    check(&[first, (5, ""), three, four, five], all);
    check(&[(5, ""), (4, ""), (3, ""), four, five, three, first], all);
    check(&[(5, ""), (3, ""), five, three, four, first], all);
    check(&[first, (3, ""), (4, ""), five, four, (6, ""), three], all);
}

#[test]
fn removing_an_absent_field_returns_false() {
    let mut message = built(&mixed(), &Values::new());
    message.set([48, 2], "AB").unwrap();
    message.set([62, 1], "AB").unwrap();
    message.set(3, "1").unwrap();
    let packed = message.pack().unwrap();
    for path in ["48.3", "48.9", "62.2", "60.1", "63.1", "3.1", "999.1", "48.1.1", "7", "999"] {
        assert_eq!(message.remove(path.parse::<FieldPath>().unwrap()), Ok(false), "{path}");
        assert_eq!(message.pack().unwrap(), packed, "{path}");
    }
    assert_eq!(message.remove([62, 1]), Ok(true));
    assert_eq!(message.remove([62, 1]), Ok(false));
    assert!(message.field(62).is_none());
    assert_eq!(message.remove([48, 2]), Ok(true));
    assert_eq!(message.text(48).as_deref(), Some("00"), "what was filled up stays");
}
