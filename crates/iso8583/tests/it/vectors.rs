//! The golden vectors: what another implementation made of values, and of bytes.

use std::collections::BTreeMap;
use std::path::Path;

use iso8583::packager::{FieldDescription, Table};
use iso8583::{Error, FieldPath, Index, Message, MessageView, Packager, Problem, Validation};
use serde_json::Value;

/// What became of the cases of one file.
#[derive(Default)]
struct Outcome {
    passed: usize,
    /// Refused with a reason of the list, where the other accepts what it cannot read back.
    stricter: BTreeMap<&'static str, Vec<String>>,
    failed: Vec<String>,
}

#[test]
fn files_of_messages() {
    check("ISO87A.json", "92 passed, 5 stricter");
    check("ISO87B.json", "88 passed, 6 stricter");
    check("ISO93A.json", "77 passed, 4 stricter");
    check("PostPackager.json", "89 passed, 4 stricter");
    check("generic-iso87binary.json", "79 passed, 6 stricter");
    check("generic-iso93ascii.json", "77 passed, 4 stricter");
    check("own-bcd-leftpad.json", "79 passed, 6 stricter");
    check("own-ebcdic-ebitmap.json", "81 passed, 4 stricter");
    check("own-nested.json", "41 passed, 0 stricter");
    check("own-tertiary24-IFB_BITMAP.json", "29 passed, 1 stricter");
}

#[test]
fn files_of_field_classes() {
    check("field-classes.json", "1630 passed, 118 stricter");
    check("field-class-lengths.json", "835 passed, 0 stricter");
}

/// Runs a file and compares what became of its cases, and that none failed.
fn check(name: &str, expected: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/iso8583");
    let text = std::fs::read_to_string(root.join(name)).expect("the file is there");
    let file: Value = serde_json::from_str(&text).expect("the file is JSON");
    let mut outcome = Outcome::default();
    match file.get("table") {
        Some(table) => run_messages(&file, table, &mut outcome),
        None => run_classes(&file, &mut outcome),
    }
    assert!(outcome.failed.is_empty(), "{name}: {:#?}", outcome.failed);
    let stricter: usize = outcome.stricter.values().map(Vec::len).sum();
    let found = format!("{} passed, {stricter} stricter", outcome.passed);
    assert_eq!(found, expected, "{name}: {:#?}", outcome.stricter);
}

fn run_messages(file: &Value, table: &Value, outcome: &mut Outcome) {
    // Packagers that are Java classes fill up fixed digits on the left; their tables do not say it.
    let is_generic = file["packager"].as_str().is_some_and(|it| it.ends_with("GenericPackager"));
    let table = table_of(table, is_generic);
    let packager = Packager::from_table(&table).expect("the table compiles");
    let packager = packager.with_validation(Validation::Lenient);
    for case in list(&file["vectors"]) {
        let id = case["id"].as_str().unwrap_or_default();
        outcome.take(id, "pack", check_pack(&packager, case));
        if case.get("packed").is_some() {
            outcome.take(id, "unpack", check_unpack(&packager, case));
        }
    }
    for case in list(&file["malformed"]) {
        let id = case["id"].as_str().unwrap_or_default();
        outcome.take(id, "malformed", check_malformed(&packager, case));
    }
}

fn run_classes(file: &Value, outcome: &mut Outcome) {
    for case in list(&file["cases"]) {
        let class = case["class"].as_str().unwrap_or_default();
        let id = format!("{class} {} {} {}", case["len"], case["pad"], case["value"]);
        let description = FieldDescription {
            class: class.to_owned(),
            length: length(&case["len"]),
            pad: case["pad"].as_bool().unwrap_or(false),
            ..FieldDescription::default()
        };
        // Alone, as the only position of a packager without a bitmap: the field's number is 48.
        let nothing = FieldDescription { class: "IF_NOP".to_owned(), ..Default::default() };
        let mut table: Table = (0..48).map(|number| (number, nothing.clone())).collect();
        table.insert(48, description);
        let packager = match Packager::from_table(&table) {
            Ok(packager) => packager.with_validation(Validation::Lenient),
            Err(error) => {
                outcome.failed.push(format!("{id}: {error}"));
                continue;
            }
        };
        let fields = serde_json::json!({"48": case["value"]});
        let mut whole = case.clone();
        whole["fields"] = fields;
        if let Some(unpacked) = case.get("unpacked").filter(|it| !it.is_null()) {
            whole["unpacked"] = serde_json::json!({"48": unpacked});
        }
        outcome.take(&id, "pack", check_pack(&packager, &whole));
        if case.get("packed").is_some() {
            outcome.take(&id, "unpack", check_unpack(&packager, &whole));
        }
    }
}

enum Verdict {
    Passed,
    Stricter(&'static str),
    Failed(String),
}

impl Outcome {
    fn take(&mut self, id: &str, what: &str, verdict: Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Stricter(reason) => {
                self.stricter.entry(reason).or_default().push(format!("{id} {what}"));
            }
            Verdict::Failed(why) => self.failed.push(format!("{id} {what}: {why}")),
        }
    }
}

fn check_pack(packager: &Packager, case: &Value) -> Verdict {
    let packed = case["packed"].as_str().map(bytes_of_hex);
    let ours = pack(packager, &case["fields"]);
    match (packed, ours) {
        (None, Err(error)) => placed(error),
        (None, Ok(ours)) => Verdict::Failed(format!("should be refused, is {}", hex(&ours))),
        (Some(packed), Ok(ours)) if packed == ours => Verdict::Passed,
        (Some(packed), Ok(ours)) => {
            Verdict::Failed(format!("should be {}, is {}", hex(&packed), hex(&ours)))
        }
        (Some(_), Err(error)) => judged(error),
    }
}

/// A refusal that the other shares names the field.
fn placed(error: Error) -> Verdict {
    if error.path.is_some() {
        Verdict::Passed
    } else {
        Verdict::Failed(format!("no field: {error}"))
    }
}

fn check_unpack(packager: &Packager, case: &Value) -> Verdict {
    let packed = bytes_of_hex(case["packed"].as_str().unwrap_or_default());
    let mut index = Index::new();
    let has_note = case.get("unpack_note").is_some();
    match packager.unpack(&packed, &mut index) {
        Ok(view) if holds(view, &case["fields"]) => Verdict::Passed,
        Ok(view) if !has_note && holds(view, &case["unpacked"]) => Verdict::Passed,
        // What the other packs and cannot read back as it was is not judged.
        _ if has_note => Verdict::Passed,
        Ok(view) => Verdict::Failed(format!("should be {}, is {}", case["unpacked"], shown(view))),
        Err(error) => judged(error),
    }
}

fn check_malformed(packager: &Packager, case: &Value) -> Verdict {
    let bytes = bytes_of_hex(case["hex"].as_str().unwrap_or_default());
    let mut index = Index::new();
    let is_refused = case.get("error").is_some();
    match packager.unpack(&bytes, &mut index) {
        Err(error) if is_refused => placed(error),
        Err(error) => judged(error),
        Ok(view) if is_refused => Verdict::Failed(format!("should be refused, is {}", shown(view))),
        Ok(view) if view.bytes().len() != length(&case["consumed"]) => {
            Verdict::Failed(format!("consumed {} of {}", view.bytes().len(), case["consumed"]))
        }
        Ok(view) if holds(view, &case["unpacked"]) => Verdict::Passed,
        Ok(view) => Verdict::Failed(format!("should be {}, is {}", case["unpacked"], shown(view))),
    }
}

/// Where the other accepts what is lost or cannot be read back, a refusal is right.
fn judged(error: Error) -> Verdict {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only these are reasons")]
    match error.problem {
        Problem::BadCharacter { .. } => Verdict::Stricter("characters that are lost"),
        Problem::TooLong { .. } => Verdict::Stricter("longer than the field may be"),
        Problem::UnknownField => Verdict::Stricter("a field that the packager does not have"),
        Problem::NoFields => Verdict::Stricter("a message type without a bitmap"),
        Problem::NoMessageType => Verdict::Stricter("fields without a message type"),
        Problem::NotLatin1 => Verdict::Stricter("characters beyond ISO-8859-1"),
        Problem::BadBitmap { .. } => Verdict::Stricter("a bitmap that is not hexadecimal"),
        _ => Verdict::Failed(error.to_string()),
    }
}

fn pack(packager: &Packager, fields: &Value) -> Result<Vec<u8>, Error> {
    let mut message = Message::new(packager);
    for (path, value) in fields.as_object().expect("fields are an object") {
        let path: FieldPath = path.parse()?;
        match value.as_str() {
            Some(text) => message.set(path, text)?,
            None => message.set_bytes(path, &binary(value))?,
        }
    }
    message.pack()
}

/// Has the message exactly these fields? Those inside others are `48.1`, or an object.
fn holds(view: MessageView<'_>, expected: &Value) -> bool {
    let Some(expected) = expected.as_object() else { return false };
    let mut wanted = BTreeMap::new();
    flatten("", expected, &mut wanted);
    let mut found = BTreeMap::new();
    collect("", view, &mut found);
    wanted == found
}

fn flatten(
    prefix: &str,
    fields: &serde_json::Map<String, Value>,
    out: &mut BTreeMap<String, Vec<u8>>,
) {
    for (number, value) in fields {
        let path = format!("{prefix}{number}");
        if let Some(text) = value.as_str() {
            // A message type of length 0 inside a field is none.
            if number != "0" || !text.is_empty() {
                out.insert(path, text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect());
            }
            continue;
        }
        match value.as_object().filter(|inner| !inner.contains_key("bin")) {
            Some(inner) => flatten(&format!("{path}."), inner, out),
            None => {
                out.insert(path, binary(value));
            }
        }
    }
}

fn collect(prefix: &str, view: MessageView<'_>, out: &mut BTreeMap<String, Vec<u8>>) {
    for field in view.fields() {
        let path = format!("{prefix}{}", field.number());
        if field.is_composite() {
            let mut index = Index::new();
            let inner = field.nested(&mut index).expect("unpack has checked what is inside");
            collect(&format!("{path}."), inner, out);
        } else {
            out.insert(path, field.to_bytes());
        }
    }
}

fn shown(view: MessageView<'_>) -> String {
    let mut found = BTreeMap::new();
    collect("", view, &mut found);
    let fields = found.iter().map(|(path, it)| format!("{path}={}", it.escape_ascii()));
    fields.collect::<Vec<_>>().join(" ")
}

fn table_of(table: &Value, is_generic: bool) -> Table {
    let fields = table.as_object().expect("a table is an object").iter();
    let row = |(number, row): (&String, &Value)| {
        let class = row.get("inner").unwrap_or(&row["class"]).as_str().unwrap_or_default();
        let pads = !is_generic && class.ends_with("IFB_NUMERIC");
        let description = FieldDescription {
            class: class.to_owned(),
            length: length(&row["len"]),
            pad: row["pad"].as_bool().unwrap_or(false) || pads,
            trim: row["trim"].as_bool().unwrap_or(false),
            sub: row.get("sub").map(|sub| table_of(sub, is_generic)),
        };
        (number.parse().expect("fields are numbers"), description)
    };
    fields.map(row).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn length(value: &Value) -> usize {
    value.as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(0)
}

fn binary(value: &Value) -> Vec<u8> {
    bytes_of_hex(value["bin"].as_str().unwrap_or_default())
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().as_chunks::<2>().0.iter();
    let half = |digit| iso8583::coding::hex_value(digit).expect("hexadecimal digits");
    pairs.map(|pair| half(pair[0]) << 4 | half(pair[1])).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
