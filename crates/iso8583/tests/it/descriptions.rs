//! Tests of descriptions of formats: TOML, JSON, jPOS's, and the built-in ones.
#![expect(clippy::unwrap_used, reason = "whatever is missing here fails the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iso8583::packager::{FieldDescription, Table};
use iso8583::{Index, Message, MessageView, Packager, Problem, Validation};
use serde_json::Value;

#[test]
fn built_in_formats_equal_the_vectors() {
    for (name, file) in [
        ("iso87a", "ISO87A.json"),
        ("iso87b", "ISO87B.json"),
        ("iso93a", "ISO93A.json"),
        ("iso93a", "generic-iso93ascii.json"),
        ("postilion", "PostPackager.json"),
    ] {
        let file = read(file);
        let is_generic = file["packager"].as_str().unwrap().ends_with("GenericPackager");
        let measured = Packager::from_table(&table_of(&file["table"], is_generic)).unwrap();
        let built_in = Packager::built_in(name).unwrap();
        assert_eq!(built_in.name(), name);
        assert_eq!(unnamed(&built_in), unnamed(&measured), "{name}");
    }
}

/// The example of the reference has the documented bytes, and its tables are complete.
#[test]
fn the_reference_documentation_is_correct() {
    let path = root().join("docs/reference/iso8583-packagers.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (example, rest) = rest.split_once("```").unwrap();
    let packager = Packager::from_toml(example).unwrap();
    let described: toml::Table = toml::from_str(&packager.description()).unwrap();
    assert_eq!(described, toml::from_str(example).unwrap());
    let (values, rest) = rest.split_once("are these bytes:\n\n```\n").unwrap();
    let mut message = Message::new(&packager);
    let words: Vec<&str> = values.split_whitespace().collect();
    for pair in words.windows(2).filter(|pair| pair[1].starts_with('`')) {
        let path = if pair[0] == "type" { "0" } else { pair[0] };
        let value = pair[1].trim_matches([',', '`']);
        message.set(path.parse::<iso8583::FieldPath>().unwrap(), value).unwrap();
    }
    let expected =
        bytes_of_hex(&rest.split_once("```").unwrap().0.replace(char::is_whitespace, ""));
    assert_eq!(message.pack().unwrap(), expected);
    for name in Packager::built_in_names() {
        assert!(text.contains(&format!("`{name}`")), "{name} is not in the reference");
    }
}

/// The description without what a table of classes does not have: names, sensitivity of inner fields,
/// and character sets.
fn unnamed(packager: &Packager) -> Value {
    fn strip(value: &mut Value) {
        let Some(object) = value.as_object_mut() else { return };
        let content = object.get_mut("content").filter(|it| {
            ["alphabetic", "alphanumeric", "printable"].iter().any(|class| **it == *class)
        });
        if let Some(content) = content {
            *content = "text".into();
        }
        for key in ["name", "title", "sensitive"] {
            object.remove(key);
        }
        object.retain(|_, value| value["content"] != "nothing");
        object.values_mut().for_each(strip);
    }
    let mut described: Value = serde_json::from_str(&packager.description_json()).unwrap();
    strip(&mut described);
    described
}

/// The vectors in EBCDIC are those of an own packager, whose bitmap and bytes are hexadecimal digits.
#[test]
fn ebcdic_formats_equal_the_vectors_except_bytes() {
    let measured = Packager::from_table(&table_of(&read("own-ebcdic-ebitmap.json")["table"], true));
    let (measured, built_in) =
        (unnamed(&measured.unwrap()), unnamed(&Packager::built_in("iso87e").unwrap()));
    let fields = measured["fields"].as_object().unwrap();
    for (number, field) in fields.iter().filter(|(_, it)| it["coding"] != "hex-ebcdic") {
        // Field 55 was text in 1987 and became binary.
        if number != "55" {
            assert_eq!(built_in["fields"][number], *field, "{number}");
        }
    }
}

#[test]
fn descriptions_are_read_back() {
    for name in Packager::built_in_names() {
        let packager = Packager::built_in(name).unwrap();
        let (toml, json) = (packager.description(), packager.description_json());
        let from_toml = Packager::from_toml(&toml).unwrap();
        let from_json = Packager::from_json(&json).unwrap();
        assert_eq!((from_toml.description(), from_json.description()), (toml.clone(), toml));
        assert_eq!(packager.name(), *name);
        assert!(!packager.title().is_empty(), "{name}");
    }
}

/// The description of each class packs and reads like the class.
#[test]
fn descriptions_of_classes_are_equivalent() {
    for name in ["field-classes.json", "field-class-lengths.json", "field-classes-more.json"] {
        let file = read(name);
        for case in file["cases"].as_array().unwrap() {
            let nothing = FieldDescription { class: "IF_NOP".to_owned(), ..Default::default() };
            let mut table: Table = (0..48).map(|number| (number, nothing.clone())).collect();
            let description = FieldDescription {
                class: case["class"].as_str().unwrap().to_owned(),
                length: case["len"].as_u64().unwrap().try_into().unwrap(),
                pad: case["pad"] == true,
                ..FieldDescription::default()
            };
            table.insert(48, description);
            let named = Packager::from_table(&table).unwrap();
            let described = Packager::from_toml(&named.description()).unwrap();
            assert_eq!(described.description(), named.description(), "{case}");
            let value = serde_json::json!({"48": case["value"]});
            for validation in [Validation::Lenient, Validation::Strict] {
                let [named, described] =
                    [&named, &described].map(|it| it.with_validation(validation));
                assert_eq!(pack(&named, &value), pack(&described, &value), "{case}");
                let Some(packed) = case["packed"].as_str() else { continue };
                let packed = bytes_of_hex(packed);
                let [named, described] = [&named, &described]
                    .map(|packager| packager.unpack(&packed, &mut Index::new()).map(flat));
                assert_eq!(named, described, "{case}");
            }
        }
    }
}

#[test]
fn invalid_descriptions_are_refused() {
    let check = |text: &str, expected: &str| {
        let error = Packager::from_toml(text).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    };
    let field = |row: &str| {
        format!("[fields]\n0 = {{ content = \"digits\", length = 4 }}\n2 = {{ {row} }}")
    };
    check("", "fields: at least one field was expected");
    check("name = 1", "line 1: name: invalid type: integer `1`, expected a string");
    check(
        "form = \"xml\"\nheader_bytes = 1",
        "form: messages in XML have neither fields nor headers",
    );
    check(
        "[fields]\n02 = {}",
        "line 2: fields.02: `02`: the number of a field was expected, 0 to 999",
    );
    check(
        &field("content = \"digits\", length = 4, sensitive = false"),
        "field 2: this field holds card data and is always sensitive",
    );
    check(
        &field("content = \"digits\", prefix = { digits = 2, counts = 3 }"),
        "line 3: fields.2.prefix.counts: wanted string or table",
    );
    for (row, expected) in [
        (
            "content = \"text\", coding = \"bcd\", length = 4",
            "coding: expected one of \"ascii\", \"ebcdic\"",
        ),
        (
            "content = \"text\", length = 1000000",
            "length: the length is 1000000, but the maximum is 999999",
        ),
        ("content = \"text\", length = 4, prefix = {}", "prefix: 1 to 6 `digits` were expected"),
        (
            "content = \"text\", length = 4, prefix = { coding = \"binary\", digits = 2 }",
            "prefix: 1 to 5 `bytes` were expected",
        ),
        ("content = \"text\", prefix = { digits = 2 }", "length: the largest length was expected"),
        ("content = \"nothing\", length = 2", "length: this content takes no room"),
        (
            "content = \"text\", length = 2, filled = true",
            "filled: only a field with a prefix is filled up",
        ),
        (
            "content = \"text\", length = 2, pad = \"left\"",
            "pad: only digits in BCD leave half a byte free",
        ),
        ("content = \"bytes\", length = 2, trim = true", "trim: only text has blanks to take off"),
        (
            "content = \"text\", length = 2, tag = { digits = 2, coding = \"bcd\" }",
            "tag: 1 to 6 digits in ASCII or EBCDIC were expected",
        ),
        (
            "content = \"text\", length = 2, prefix = { digits = 2 }, unfilled = true",
            "unfilled: only text and digits of a fixed length are filled up",
        ),
        (
            "content = \"amount\", length = 9, prefix = { digits = 2 }",
            "prefix: this content has a fixed length",
        ),
    ] {
        check(&field(row), &format!("fields.2: {expected}"));
    }
}

#[test]
fn sensitivity_can_be_declared() {
    let text = "[fields]\n2 = { content = \"text\", length = 1 }\n\
                3 = { content = \"text\", length = 1, sensitive = true }\n\
                48 = { content = \"text\", length = 1, sensitive = false }\n\
                55 = { content = \"text\", length = 1 }\n";
    let mut message = Message::new(&Packager::from_toml(text).unwrap());
    for number in [2, 3, 48, 55] {
        message.set(number, "x").unwrap();
    }
    let shown = "2 <1 characters>\n3 <1 characters>\n48 x\n55 <1 characters>\n";
    assert_eq!(message.to_string(), shown);
    let again = Packager::from_toml(text).unwrap().description();
    assert_eq!(again.replace("\n\n", "\n").trim_start(), text);
}

#[test]
fn packagers_of_jpos_files_equal_the_vectors() {
    check_xml("own-bcd-leftpad.json", "79 passed, 6 stricter");
    check_xml("own-ebcdic-ebitmap.json", "82 passed, 3 stricter");
    check_xml("own-nested.json", "41 passed, 0 stricter");
    check_xml("own-tertiary24-IFB_BITMAP.json", "29 passed, 1 stricter");
}

#[test]
fn xml_messages_equal_the_vectors() {
    check("XMLPackager.json", &Packager::built_in("xml").unwrap(), "91 passed, 0 stricter");
}

fn check_xml(name: &str, expected: &str) {
    let file = read(name);
    let packager = Packager::from_jpos_xml(file["xml"].as_str().unwrap()).unwrap();
    check(name, &packager, expected);
    let described = Packager::from_toml(&packager.description()).unwrap();
    check(name, &described, expected);
}

/// Checks a file's cases in the way that its README describes.
fn check(name: &str, packager: &Packager, expected: &str) {
    let file = read(name);
    let packager = packager.with_validation(Validation::Lenient);
    let (mut passed, mut stricter) = (0, 0);
    let mut record = |id: &Value, what: &str, result: Result<(), Option<Problem>>| match result {
        Ok(()) => passed += 1,
        Err(Some(
            Problem::BadCharacter { .. }
            | Problem::TooLong { .. }
            | Problem::UnknownField
            | Problem::NoFields
            | Problem::NoMessageType
            | Problem::NotLatin1,
        )) => stricter += 1,
        Err(problem) => panic!("{name}: {id} {what}: {problem:?}"),
    };
    for case in file["vectors"].as_array().unwrap() {
        record(&case["id"], "pack", check_pack(&packager, case));
        if case.get("packed").is_some() {
            record(&case["id"], "unpack", check_unpack(&packager, case));
        }
    }
    for case in file["malformed"].as_array().unwrap() {
        record(&case["id"], "malformed", check_malformed(&packager, case));
    }
    assert_eq!(format!("{passed} passed, {stricter} stricter"), expected, "{name}");
}

fn check_pack(packager: &Packager, case: &Value) -> Result<(), Option<Problem>> {
    let packed = pack(packager, &case["fields"]);
    match (packed, case.get("packed")) {
        (Ok(packed), Some(expected)) => {
            let expected = without_comments(&bytes_of_hex(expected.as_str().unwrap()));
            (packed == expected).then_some(()).ok_or(None)
        }
        (Err(_), None) => Ok(()),
        (Err(error), Some(_)) => Err(Some(error.problem)),
        (Ok(_), None) => Err(None),
    }
}

fn pack(packager: &Packager, fields: &Value) -> Result<Vec<u8>, iso8583::Error> {
    let mut message = Message::new(packager);
    for (path, value) in fields.as_object().unwrap() {
        let path: iso8583::FieldPath = path.parse()?;
        match value.as_str() {
            Some(text) => message.set(path, text)?,
            None => message.set_bytes(path, &bytes_of_hex(value["bin"].as_str().unwrap()))?,
        }
    }
    message.pack()
}

/// Removes the comment that jPOS writes into its messages in XML.
fn without_comments(packed: &[u8]) -> Vec<u8> {
    let is_comment = |line: &&[u8]| !line.trim_ascii().starts_with(b"<!--");
    let is_xml = packed.starts_with(b"<isomsg>");
    if !is_xml {
        return packed.to_vec();
    }
    packed.split_inclusive(|byte| *byte == b'\n').filter(is_comment).flatten().copied().collect()
}

fn check_unpack(packager: &Packager, case: &Value) -> Result<(), Option<Problem>> {
    let packed = bytes_of_hex(case["packed"].as_str().unwrap());
    let mut index = Index::new();
    let has_note = case.get("unpack_note").is_some();
    let view = match packager.unpack(&packed, &mut index) {
        Ok(view) => view,
        Err(_) if has_note => return Ok(()),
        Err(error) => return Err(Some(error.problem)),
    };
    let mut loaded = Message::new(packager);
    loaded.load(&packed).unwrap();
    assert_eq!(flat(loaded.view()), flat(view), "{}", case["id"]);
    if !has_note {
        assert_eq!(loaded.pack().unwrap(), without_comments(view.bytes()), "{}", case["id"]);
    }
    let holds = [&case["fields"], &case["unpacked"]].map(|it| wanted(it) == flat(view));
    (holds[0] || holds[1] || has_note).then_some(()).ok_or(None)
}

fn check_malformed(packager: &Packager, case: &Value) -> Result<(), Option<Problem>> {
    let bytes = bytes_of_hex(case["hex"].as_str().unwrap());
    let mut index = Index::new();
    match (packager.unpack(&bytes, &mut index), case.get("error")) {
        (Err(error), Some(_)) => {
            assert!(error.offset.is_some(), "{} has no offset", case["id"]);
            Ok(())
        }
        (Err(error), None) => Err(Some(error.problem)),
        (Ok(_), Some(_)) => Err(None),
        (Ok(view), None) => {
            let is_all = view.bytes().len() as u64 == case["consumed"].as_u64().unwrap();
            (is_all && wanted(&case["unpacked"]) == flat(view)).then_some(()).ok_or(None)
        }
    }
}

type Flat = BTreeMap<String, String>;

fn flat(view: MessageView<'_>) -> Flat {
    let mut out = Flat::new();
    for field in view.fields() {
        let number = field.number();
        let mut index = Index::new();
        if field.is_composite() {
            let inner = flat(field.nested(&mut index).unwrap());
            out.extend(inner.into_iter().map(|(path, it)| (format!("{number}.{path}"), it)));
        } else {
            out.insert(number.to_string(), field.text());
        }
    }
    out
}

fn wanted(fields: &Value) -> Flat {
    let mut out = Flat::new();
    for (number, value) in fields.as_object().into_iter().flatten() {
        if let Some(text) = value.as_str() {
            if number != "0" || !text.is_empty() {
                out.insert(number.clone(), text.to_owned());
            }
        } else if let Some(hex) = value["bin"].as_str() {
            let text = bytes_of_hex(hex).into_iter().map(char::from).collect();
            out.insert(number.clone(), text);
        } else {
            let inner = wanted(value).into_iter();
            out.extend(inner.map(|(path, it)| (format!("{number}.{path}"), it)));
        }
    }
    out
}

fn table_of(table: &Value, is_generic: bool) -> Table {
    let row = |(number, row): (&String, &Value)| {
        let class = row.get("inner").unwrap_or(&row["class"]).as_str().unwrap();
        let description = FieldDescription {
            class: class.to_owned(),
            length: row["len"].as_u64().unwrap().try_into().unwrap(),
            pad: row["pad"] == true || !is_generic && class.ends_with("IFB_NUMERIC"),
            trim: row["trim"] == true,
            sub: row.get("sub").map(|sub| table_of(sub, is_generic)),
        };
        (number.parse().unwrap(), description)
    };
    table.as_object().unwrap().iter().map(row).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> Value {
    let path = root().join("conformance/vectors/iso8583").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    let half = |digit| iso8583::coding::hex_value(digit).unwrap();
    text.as_bytes().as_chunks::<2>().0.iter().map(|it| half(it[0]) << 4 | half(it[1])).collect()
}
