//! Tests of all formats: messages that `Strict` reads are packed to the same bytes, and edits equal
//! building from scratch.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use iso8583::{Error, FieldPath, Index, Message, MessageView, Packager};
use proptest::prelude::*;
use serde_json::Value;

use crate::hex::hex;
use crate::tables::mixed;

/// A format, and the kinds of values of its fields.
struct Format {
    packager: Packager,
    fields: Vec<(FieldPath, String, usize)>,
}

/// A deterministic sequence of choices.
struct Choice(u64);

impl Choice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }
}

static FORMATS: LazyLock<Vec<Format>> = LazyLock::new(formats);

fn formats() -> Vec<Format> {
    let built_in = Packager::built_in_names().iter().map(|it| Packager::built_in(it));
    let packagers = built_in.map(|it| it.expect("the name is listed")).chain([mixed()]);
    packagers.map(Format::of).collect()
}

impl Format {
    fn of(packager: Packager) -> Self {
        let described: Value =
            serde_json::from_str(&packager.description_json()).expect("a description is JSON");
        let mut fields = vec![];
        collect("", &described["fields"], &mut fields);
        if described["fields"].is_null() {
            // Messages in XML have any field.
            for path in ["0", "2", "39", "48.1", "48.2.3", "60", "127"] {
                fields.push((path.parse().expect("a path"), "text".to_owned(), 40));
            }
        }
        Self { packager, fields }
    }

    /// A random field and value, which is not always valid.
    fn value(&self, choice: &mut Choice) -> (FieldPath, Vec<u8>) {
        let (path, content, length) = &self.fields[choice.below(self.fields.len())];
        (*path, value(content, *length, choice))
    }
}

fn collect(prefix: &str, fields: &Value, out: &mut Vec<(FieldPath, String, usize)>) {
    for (number, field) in fields.as_object().into_iter().flatten() {
        let path = format!("{prefix}{number}");
        let inside = &field["inside"]["fields"];
        if inside.is_object() {
            collect(&format!("{path}."), inside, out);
            continue;
        }
        let content = field["content"].as_str().unwrap_or_default().to_owned();
        let length = field["length"].as_u64().and_then(|it| usize::try_from(it).ok());
        out.push((path.parse().expect("a path"), content, length.unwrap_or(0)));
    }
}

fn value(content: &str, length: usize, choice: &mut Choice) -> Vec<u8> {
    let full = choice.below(3) > 0;
    let length = if full { length.min(60) } else { choice.below(length.min(60) + 1) };
    let mut digits = |count: usize| (0..count).map(|_| b'0' + digit(choice)).collect::<Vec<u8>>();
    match content {
        "digits" | "signed-digits" => digits(length),
        "hex-text" => digits(length),
        "track" => {
            let mut track = digits(length);
            if let Some(separator) = track.get_mut(length / 2) {
                *separator = b'=';
            }
            track
        }
        "amount" => [b"D".to_vec(), digits(length.saturating_sub(1))].concat(),
        "alphabetic" => (0..length).map(|_| b'A' + digit(choice)).collect(),
        "alphanumeric" => digits(length),
        "text" | "printable" => {
            (0..length).map(|_| b' ' + u8::try_from(choice.below(95)).unwrap_or(0)).collect()
        }
        _ => (0..length).map(|_| u8::try_from(choice.below(256)).unwrap_or(0)).collect(),
    }
}

fn digit(choice: &mut Choice) -> u8 {
    u8::try_from(choice.below(10)).unwrap_or(0)
}

type Values = BTreeMap<FieldPath, Vec<u8>>;

fn built(packager: &Packager, values: &Values) -> Result<Message, Error> {
    let mut message = Message::new(packager);
    for (path, value) in values {
        message.set_bytes(*path, value)?;
    }
    Ok(message)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 100,
        ..ProptestConfig::default()
    })]

    #[test]
    fn edits_equal_building_from_scratch(seed in any::<u64>(), count in 1_usize..50) {
        for format in FORMATS.iter() {
            let name = format.packager.name();
            let mut choice = Choice(seed);
            let mut edited = Message::new(&format.packager);
            let mut values = Values::new();
            for _ in 0..count {
                let (path, value) = format.value(&mut choice);
                if choice.below(5) == 0 {
                    let outer = path.numbers()[0];
                    edited.remove(outer).unwrap();
                    values.retain(|path, _| path.numbers()[0] != outer);
                } else if edited.set_bytes(path, &value).is_ok() {
                    values.insert(path, value);
                }
                let rebuilt = built(&format.packager, &values).unwrap();
                prop_assert_eq!(edited.pack().ok(), rebuilt.pack().ok(), "{} {}", name, path);
            }
            if let Ok(bytes) = edited.pack() {
                let read = is_packed_again(&format.packager, &bytes)?;
                prop_assert!(read, "{name} does not read what it wrote: {}", hex(&bytes));
            }
        }
    }

    #[test]
    fn messages_that_strict_reads_are_packed_to_the_same_bytes(
        seed in any::<u64>(),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
    ) {
        for format in FORMATS.iter() {
            let mut choice = Choice(seed);
            let mut message = Message::new(&format.packager);
            for _ in 0..30 {
                let (path, value) = format.value(&mut choice);
                let _ = message.set_bytes(path, &value);
            }
            let _ = message.set(0, "0200");
            let Ok(mut bytes) = message.pack() else { continue };
            // XML has many equivalent forms; only messages of this library are packed to the same bytes.
            if format.packager.name() != "xml" {
                for (at, byte) in &changes {
                    let at = usize::from(*at) % bytes.len();
                    bytes[at] = *byte;
                }
            }
            is_packed_again(&format.packager, &bytes)?;
        }
    }
}

/// If these bytes are valid, the values and the loaded message are packed to the same bytes.
fn is_packed_again(packager: &Packager, bytes: &[u8]) -> Result<bool, TestCaseError> {
    let name = packager.name();
    let mut index = Index::new();
    let Ok(view) = packager.unpack(bytes, &mut index) else { return Ok(false) };
    let mut loaded = Message::new(packager);
    loaded.load(bytes).expect("these bytes were read before");
    let packed = loaded.pack().expect("the message is complete");
    prop_assert_eq!(&packed[..], bytes, "{} loaded", name);
    // The content of a composite field of an XML message cannot be set.
    if name == "xml" {
        return Ok(true);
    }
    let mut again = Message::new(packager);
    set_all(&mut again, view).map_err(|error| {
        TestCaseError::fail(format!("{name} does not take what it read: {error}"))
    })?;
    let again = again.pack().unwrap_or_default();
    // Only `load` keeps a second bitmap without fields.
    let bitmaps = [8, 16, 24, 32, 48];
    let is_shorter = again.is_empty() || bitmaps.contains(&bytes.len().abs_diff(again.len()));
    prop_assert!(again == bytes || is_shorter, "{name}: {} became {}", hex(bytes), hex(&again));
    Ok(true)
}

fn set_all(message: &mut Message, view: MessageView<'_>) -> Result<(), Error> {
    if !view.header().is_empty() {
        message.set_header(view.header())?;
    }
    for field in view.fields() {
        if field.is_binary() || field.is_composite() {
            message.set_bytes(field.number(), &field.to_bytes())?;
        } else {
            message.set(field.number(), &field.text())?;
        }
    }
    Ok(())
}

/// The expected bytes are those of jPOS 2.1.10 with its packagers of these names.
#[test]
fn packed_bytes_equal_those_of_jpos() {
    check_packed(
        "euro",
        &[("0", "0100"), ("3", "000000"), ("48.1", "ABC"), ("48.42", "0501")],
        "303130302000000000010000303030303030303135303530314142433036343230353031",
    );
    check_packed(
        "base1",
        &[
            ("0", "0100"),
            ("2", "4761739001010119"),
            ("3", "000000"),
            ("28", "C00001234"),
            ("35", "4761739001010119=2912"),
            ("36", "123"),
            ("49", "840"),
        ],
        "010060000010300080001047617390010101190000004300001234150476173900101\
             0119D2912000301230840",
    );
    check_packed(
        "base1",
        &[
            ("0", "0100"),
            ("2", "4761739001010119"),
            ("3", "000000"),
            ("35", "4761739001010119=2912"),
            ("36", "123"),
            ("49", "840"),
            ("66", "1"),
            ("70", "301"),
        ],
        "0100E0000000300080004400000000000000104761739001010119000000150476173900101\
             0119D2912000301230840010301",
    );
}

fn check_packed(name: &str, values: &[(&str, &str)], packed: &str) {
    let packager = Packager::built_in(name).expect("the format is built in");
    let mut message = Message::new(&packager);
    for (path, value) in values {
        let path: FieldPath = path.parse().expect("it is a path");
        message.set(path, value).expect("the value is valid");
    }
    let bytes = message.pack().expect("the message is complete");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(hex, packed, "{name}");
    let mut again = Message::new(&packager);
    again.load(&bytes).expect("it is read back");
    assert_eq!(again.pack().expect("the message is complete"), bytes, "{name}");
}
