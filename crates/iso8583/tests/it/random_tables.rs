//! Tests of random formats: set values are read back, and edits equal building from scratch.
#![expect(clippy::unwrap_used, reason = "whatever is refused here fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use iso8583::{FieldPath, Index, Message, Packager};
use proptest::prelude::*;

use crate::tables::packager;

#[rustfmt::skip]
const CLASSES: [&str; 20] = [
    "IFA_NUMERIC", "IFB_NUMERIC", "IFE_NUMERIC", "IF_CHAR", "IFE_CHAR", "IFA_LLNUM", "IFB_LLNUM",
    "IFB_LLHNUM", "IFEB_LLNUM", "IFA_LLBNUM", "IFA_LLCHAR", "IFB_LLCHAR", "IFB_LLHCHAR",
    "IFE_LLCHAR", "IFB_LLLCHAR", "IFB_BINARY", "IFA_BINARY", "IFA_LLLBINARY", "IFB_LLHBINARY",
    "IFB_LLLBINARY",
];
const FRAMES: [&str; 5] =
    ["IFA_LLLCHAR 999", "IFB_LLLBINARY 999", "IFE_LLLCHAR 999", "IF_CHAR 400", "IFE_CHAR 400"];

/// A deterministic sequence of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn number(&mut self, first: u16, last: u16) -> u16 {
        first + u16::try_from(self.below(usize::from(last - first) + 1)).unwrap()
    }
}

/// A field that has a value.
struct Leaf {
    path: FieldPath,
    class: &'static str,
    length: usize,
    /// The fields before it must be present.
    is_position: bool,
}

impl Leaf {
    /// A random value without blanks, and without digits that equal blanks in BCD.
    fn value(&self, random: &mut Random) -> Vec<u8> {
        let is_variable = self.class.contains("LL");
        let mut length = if is_variable { random.below(self.length + 1) } else { self.length };
        if self.class == "IFA_LLBNUM" && length < self.length {
            length &= !1;
        }
        let mut byte = |_| match self.class {
            class if class.contains("NUM") => b"013456789"[random.below(9)],
            class if class.contains("BINARY") => 0x80 | random.below(128).to_le_bytes()[0],
            _ => b'!' + random.below(90).to_le_bytes()[0],
        };
        (0..length).map(&mut byte).collect()
    }
}

/// A random table, and its fields with values.
fn table(random: &mut Random) -> (String, Vec<Leaf>) {
    let count = 20 + random.below(41);
    let fields: BTreeSet<u16> = (0..count).map(|_| random.number(2, 128)).collect();
    let (mut text, mut leaves) = ("0 IFA_NUMERIC 4\n1 IFB_BITMAP 16\n".to_owned(), vec![]);
    for number in fields {
        let (class, length) = (CLASSES[random.below(CLASSES.len())], 1 + random.below(20));
        if random.below(4) > 0 {
            writeln!(text, "{number} {class} {length}").unwrap();
            leaves.push(Leaf { path: number.into(), class, length, is_position: false });
            continue;
        }
        writeln!(text, "{number} {}", FRAMES[random.below(FRAMES.len())]).unwrap();
        let layout = random.below(3);
        let (is_position, is_tagged) = (layout == 0, layout == 1);
        text += if is_position || is_tagged { "" } else { "  0 IFB_BITMAP 8\n" };
        let last = random.number(1, 6);
        let mut place = |place| if is_position { place } else { random.number(1, 64) };
        let inside: BTreeSet<u16> = (1..=last).map(&mut place).collect();
        for inner in inside {
            let (class, length) = (CLASSES[random.below(CLASSES.len())], 1 + random.below(20));
            let class = if is_tagged { "IFA_TTLLCHAR" } else { class };
            writeln!(text, "  {inner} {class} {length}").unwrap();
            leaves.push(Leaf { path: [number, inner].into(), class, length, is_position });
        }
    }
    (text, leaves)
}

type Values = BTreeMap<FieldPath, Vec<u8>>;

/// Sets or removes a random field, if that is possible.
fn edit(message: &mut Message, leaves: &[Leaf], values: &mut Values, random: &mut Random) {
    let leaf = &leaves[random.below(leaves.len())];
    if let (true, [outer, inner]) = (leaf.is_position, leaf.path.numbers()) {
        let before = [*outer, inner - 1].into();
        if *inner > 1 && !values.contains_key(&before) {
            return;
        }
    } else if random.below(5) == 0 {
        assert_eq!(message.remove(leaf.path), Ok(values.remove(&leaf.path).is_some()));
        return;
    }
    let value = leaf.value(random);
    message.set_bytes(leaf.path, &value).unwrap();
    values.insert(leaf.path, value);
}

fn built(packager: &Packager, values: &Values) -> Vec<u8> {
    let mut message = Message::new(packager);
    message.set(0, "0200").unwrap();
    for (path, value) in values {
        message.set_bytes(*path, value).unwrap();
    }
    message.pack().unwrap()
}

fn read(packager: &Packager, bytes: &[u8]) -> Values {
    let (mut index, mut inner) = (Index::new(), Index::new());
    let mut values = Values::new();
    for field in packager.unpack(bytes, &mut index).unwrap().fields().skip(1) {
        if !field.is_composite() {
            values.insert(field.number().into(), field.to_bytes());
            continue;
        }
        for nested in field.nested(&mut inner).unwrap().fields() {
            values.insert([field.number(), nested.number()].into(), nested.to_bytes());
        }
    }
    values
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]

    #[test]
    fn set_values_are_read_back(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let (text, leaves) = table(random);
        let packager = packager(&text);
        let (mut message, mut values) = (Message::new(&packager), Values::new());
        message.set(0, "0200").unwrap();
        for _ in 0..6 {
            for _ in 0..leaves.len() / 2 {
                edit(&mut message, &leaves, &mut values, random);
            }
            if values.is_empty() {
                continue;
            }
            let bytes = message.pack().unwrap();
            prop_assert_eq!(&read(&packager, &bytes), &values, "{}", text);
            prop_assert_eq!(&built(&packager, &values), &bytes, "{}", text);
            message.load(&bytes).unwrap();
            prop_assert_eq!(message.pack().unwrap(), bytes, "{}", text);
        }
    }
}
