//! A value that is written strictly is read back the same, or is refused: every class of jPOS and every form of a
//! description, with every padding and count of a length, for lengths that are odd and even.
#![expect(clippy::unwrap_used, reason = "whatever is missing here fails the test")]

use std::collections::BTreeMap;

use iso8583::packager::{FieldDescription, Table};
use iso8583::{Index, Message, Packager};

const DOCUMENT: &str = include_str!("../../../../docs/reference/iso8583-packagers.md");

/// The largest lengths of fields: none, odd and even ones, and one beyond a length of one digit.
const LENGTHS: [usize; 6] = [1, 2, 3, 4, 15, 16];

/// The forms of a field in the order of a description.
struct Form {
    /// `{ content = ..., }` or the class of jPOS.
    shown: String,
    packager: Packager,
    content: Content,
    length: usize,
    is_fixed: bool,
    trims: bool,
    is_unfilled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Text,
    Digits,
    Track,
    Signed,
    Amount,
    Hex,
    Bytes,
}

impl Form {
    /// The form of the field 4 of a packager; `None` where the field has no value.
    fn of(shown: String, packager: Packager) -> Option<Self> {
        let described: toml::Table = toml::from_str(&packager.description()).unwrap();
        let field = &described["fields"]["4"];
        let content = match field["content"].as_str().unwrap() {
            "digits" => Content::Digits,
            "track" => Content::Track,
            "signed-digits" => Content::Signed,
            "amount" => Content::Amount,
            "hex-digits" => Content::Hex,
            "bytes" => Content::Bytes,
            "bitmap" | "nothing" | "unused" => return None,
            _ => Content::Text,
        };
        let is = |name: &str| field.get(name).and_then(toml::Value::as_bool) == Some(true);
        let length = field.get("length").and_then(toml::Value::as_integer).unwrap_or(0);
        Some(Self {
            shown,
            content,
            length: usize::try_from(length).unwrap(),
            is_fixed: field.get("prefix").is_none(),
            trims: is("trim"),
            is_unfilled: is("unfilled"),
            packager,
        })
    }

    /// Values of a length whose halves of bytes are also those of paddings: zeros, blanks and F at both ends.
    fn values(&self, length: usize) -> Vec<Vec<u8>> {
        let pattern =
            |text: &[u8]| -> Vec<u8> { text.iter().copied().cycle().take(length).collect() };
        let ending = |text: &[u8], last: u8| {
            let mut value = pattern(text);
            if let Some(end) = value.last_mut() {
                *end = last;
            }
            value
        };
        match self.content {
            Content::Text => vec![pattern(b"Ab1"), ending(b"A", b' '), ending(b" ", b'Z')],
            Content::Digits => vec![
                pattern(b"0"),
                pattern(b"1234567890"),
                pattern(b"0123456789"),
                ending(b"9", b'0'),
                ending(b"0", b'9'),
                pattern(b"20"),
            ],
            Content::Track => {
                vec![pattern(b"0"), pattern(b"12=4"), pattern(b"=1"), ending(b"1", b'=')]
            }
            Content::Signed => {
                vec![pattern(b"0"), pattern(b"120"), [b"-", &*pattern(b"120")].concat()]
            }
            Content::Amount => vec![pattern(b"C"), ending(b"0", b'9'), ending(b"1", b'0')]
                .into_iter()
                .chain([b'C', b'D', b'7'].map(|direction| {
                    let mut value = pattern(b"0120");
                    if let Some(first) = value.first_mut() {
                        *first = direction;
                    }
                    value
                }))
                .collect(),
            Content::Hex => vec![pattern(b"0"), pattern(b"1AF"), ending(b"1", b'F'), pattern(b"F")],
            Content::Bytes => vec![pattern(&[0]), pattern(&[0x12, 0xFF]), ending(&[0x20], 0x20)],
        }
    }

    /// The value as the field holds it: a fixed length is filled up, and blanks that mean nothing are left out.
    fn held(&self, value: &[u8]) -> Vec<u8> {
        let missing = self.length.saturating_sub(value.len());
        let zeros = |digits: &[u8], length: usize| {
            let missing = length.saturating_sub(digits.len());
            [&b"0".repeat(missing)[..], digits].concat()
        };
        let mut held = match self.content {
            Content::Text if self.is_fixed && !self.is_unfilled => {
                [value, &b" ".repeat(missing)[..]].concat()
            }
            Content::Digits | Content::Track | Content::Hex
                if self.is_fixed && !self.is_unfilled =>
            {
                zeros(value, self.length)
            }
            Content::Signed => match value.strip_prefix(b"-") {
                Some(digits) => [b"-", &*zeros(digits, self.length)].concat(),
                None => zeros(value, self.length),
            },
            Content::Amount if !value.is_empty() => {
                [&value[..1], &zeros(&value[1..], self.length - 1)].concat()
            }
            Content::Text
            | Content::Digits
            | Content::Track
            | Content::Amount
            | Content::Hex
            | Content::Bytes => value.to_vec(),
        };
        if self.trims {
            held.truncate(held.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1));
        }
        held
    }

    /// Writes the value strictly and reads it; what is wrong, or whether it was written.
    fn check(&self, value: &[u8]) -> Result<bool, String> {
        let mut message = Message::new(&self.packager);
        message.set(0, "0200").unwrap();
        if message.set_bytes(4, value).is_err() {
            return Ok(false);
        }
        let Ok(wire) = message.pack() else { return Ok(false) };
        let shown = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let mut index = Index::new();
        let view = self.packager.unpack(&wire, &mut index);
        let view =
            view.map_err(|error| format!("{:?} is written and refused: {error}", shown(value)))?;
        let read = view.field(4).map(|it| it.to_bytes());
        let own = message.field(4).map(|it| it.to_bytes());
        if read.as_deref() != Some(&self.held(value)) {
            let read = read.as_deref().map(shown);
            return Err(format!("{:?} is read back as {read:?}", shown(value)));
        }
        if own.as_deref() != read.as_deref() {
            let own = own.as_deref().map(shown);
            return Err(format!("{:?} is {own:?} in the message itself", shown(value)));
        }
        Ok(true)
    }
}

/// The classes of jPOS that the document lists, with and without `pad` and `trim`.
fn classes() -> Vec<Form> {
    let section = DOCUMENT.split("### Classes of jPOS").nth(1).unwrap();
    let section = section.split("###").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let classes = rows.filter_map(|row| row.split('`').nth(1));
    let mut forms = vec![];
    for class in classes {
        for (length, pad, trim) in LENGTHS.iter().flat_map(|length| {
            [(false, false), (true, false), (false, true)].map(|(pad, trim)| (*length, pad, trim))
        }) {
            let usual = |class: &str, length| FieldDescription {
                class: class.to_owned(),
                length,
                ..FieldDescription::default()
            };
            let own = FieldDescription { pad, trim, ..usual(class, length) };
            let table: Table =
                [(0, usual("IFA_NUMERIC", 4)), (1, usual("IFB_BITMAP", 8)), (4, own)].into();
            let shown = format!("{class} {length} pad={pad} trim={trim}");
            let Ok(packager) = Packager::from_table(&table) else { continue };
            if packager.description().contains("\n4 = ")
                || packager.description().contains("fields.4]")
            {
                forms.extend(Form::of(shown, packager));
            }
        }
    }
    forms
}

/// The paddings that a coding can have.
fn pads_of(coding: &str) -> &'static [&'static str] {
    match coding {
        "bcd" => &["", ", pad = \"left\"", ", pad = \"right\"", ", pad = \"right-f\""],
        _ => &[""],
    }
}

/// Every combination of what a description can say of a field, as far as it compiles.
fn descriptions() -> Vec<Form> {
    let contents = [
        "text",
        "alphabetic",
        "alphanumeric",
        "printable",
        "ascii-text",
        "digits",
        "track",
        "signed-digits",
        "amount",
        "hex-digits",
        "bytes",
    ];
    let codings = ["ascii", "ebcdic", "bcd", "binary", "hex-ascii", "hex-ebcdic"];
    let mut prefixes = vec![String::new()];
    for prefix in [
        "digits = 2",
        "coding = \"ebcdic\", digits = 2",
        "coding = \"bcd\", digits = 3",
        "coding = \"binary\", bytes = 1",
    ] {
        for counts in ["value", "bytes", "half-bytes"] {
            prefixes.push(format!(", prefix = {{ {prefix}, counts = \"{counts}\" }}"));
        }
    }
    let flags = [
        "",
        ", filled = true",
        ", trim = true",
        ", unfilled = true",
        ", trim = true, unfilled = true",
    ];
    let mut forms = vec![];
    for (content, coding) in contents.iter().flat_map(|it| codings.map(|coding| (*it, coding))) {
        for (prefix, pad) in
            prefixes.iter().flat_map(|it| pads_of(coding).iter().map(move |pad| (it, *pad)))
        {
            for (flag, length) in flags.iter().flat_map(|it| LENGTHS.map(|length| (*it, length))) {
                let own = format!(
                    "{{ content = \"{content}\", coding = \"{coding}\", length = {length}{prefix}{pad}{flag} }}"
                );
                let text = format!(
                    "[fields]\n0 = {{ content = \"digits\", length = 4 }}\n\
                     1 = {{ content = \"bitmap\", length = 8 }}\n4 = {own}\n"
                );
                if let Ok(packager) = Packager::from_toml(&text) {
                    forms.extend(Form::of(own, packager));
                }
            }
        }
    }
    forms
}

/// Checks all forms, and shows for each what is wrong once.
fn check(forms: &[Form]) -> usize {
    let mut wrong: BTreeMap<&str, String> = BTreeMap::new();
    let mut written = 0;
    for form in forms {
        let mut takes_one = false;
        for length in 0..=form.length + 1 {
            for value in form.values(length) {
                match form.check(&value) {
                    Ok(is_written) => {
                        written += usize::from(is_written);
                        takes_one |= is_written;
                    }
                    Err(error) => drop(wrong.entry(&form.shown).or_insert(error)),
                }
            }
        }
        if !takes_one {
            wrong.entry(&form.shown).or_insert_with(|| "takes no value at all".to_owned());
        }
    }
    let lines: Vec<String> = wrong.iter().map(|(form, error)| format!("{form}: {error}")).collect();
    assert!(lines.is_empty(), "{} forms:\n{}", lines.len(), lines.join("\n"));
    written
}

#[test]
fn what_classes_of_jpos_write_is_read_back_the_same() {
    let forms = classes();
    assert!(forms.len() > 1_000, "{}", forms.len());
    assert!(check(&forms) > 10_000);
}

#[test]
fn what_descriptions_write_is_read_back_the_same() {
    let forms = descriptions();
    assert!(forms.len() > 3_000, "{}", forms.len());
    assert!(check(&forms) > 50_000);
}
