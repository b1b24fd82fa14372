//! Checks cases of messages and of single fields of a class.

use serde_json::Value;

use super::outcome::{Outcome, Verdict};
use super::stricter::Stricter;
use super::values::{FieldValue, Fields, bytes_of, fields, hex, holds, list, number, text};
use crate::error::{Error, FieldPath};
use crate::index::Index;
use crate::message::Message;
use crate::packager::{FieldDescription, Packager, Table, Validation};
use crate::view::MessageView;

pub(super) fn check_file(file: &Value, outcome: &mut Outcome) {
    let packager = match packager_of(file) {
        Ok(packager) => packager.with_validation(Validation::Lenient),
        Err(why) => return outcome.add("packager", Verdict::Failed(why)),
    };
    for case in list(&file["vectors"]) {
        let id = text(case, "id");
        outcome.add(&format!("{id} pack"), check_pack(&packager, case));
        if case.get("packed").is_some() {
            outcome.add(&format!("{id} unpack"), check_unpack(&packager, case));
        }
    }
    for case in list(&file["malformed"]) {
        let id = text(case, "id");
        outcome.add(&format!("{id} malformed"), check_malformed(&packager, case));
    }
}

/// Checks a value of a class as field 48 of a message without a bitmap.
pub(super) fn check_class(case: &Value, outcome: &mut Outcome) {
    let class = text(case, "class");
    let id = format!("{class} {} {}", case["len"], case["value"]);
    let description = FieldDescription {
        class: class.to_owned(),
        length: number(&case["len"]).unwrap_or(0),
        // The only class that pads on the left by default.
        pad: case["pad"].as_bool().unwrap_or(class.ends_with("LLBNUM")),
        ..FieldDescription::default()
    };
    let nothing = FieldDescription { class: "IF_NOP".to_owned(), ..Default::default() };
    let mut table: Table = (0..48).map(|number| (number, nothing.clone())).collect();
    table.insert(48, description);
    let packager = match Packager::from_table(&table) {
        Ok(packager) => packager.with_validation(Validation::Lenient),
        Err(error) => return outcome.add(&id, Verdict::Failed(error.to_string())),
    };
    let mut whole = case.clone();
    whole["fields"] = serde_json::json!({"48": case["value"]});
    if let Some(unpacked) = case.get("unpacked").filter(|it| !it.is_null()) {
        whole["unpacked"] = serde_json::json!({"48": unpacked});
    }
    outcome.add(&format!("{id} pack"), check_pack(&packager, &whole));
    if case.get("packed").is_some() {
        outcome.add(&format!("{id} unpack"), check_unpack(&packager, &whole));
    }
}

fn packager_of(file: &Value) -> Result<Packager, String> {
    if let Some(xml) = file["xml"].as_str() {
        return Packager::from_jpos_xml(xml).map_err(|error| error.to_string());
    }
    let packager = text(file, "packager").rsplit('.').next().unwrap_or_default();
    if packager == "XMLPackager" {
        return Packager::built_in("xml").ok_or_else(|| "there is none for XML".to_owned());
    }
    let table = table_of(&file["table"], packager).ok_or("there is no table")?;
    Packager::from_table(&table).map_err(|error| error.to_string())
}

fn table_of(table: &Value, packager: &str) -> Option<Table> {
    let row = |(number, row): (&String, &Value)| {
        let class = row.get("inner").unwrap_or(&row["class"]).as_str()?;
        let class = class.rsplit('.').next().unwrap_or(class);
        let length = super::values::number(&row["len"]).unwrap_or(0);
        let sub = match row.get("sub") {
            Some(sub) => Some(table_of(sub, packager)?),
            None => None,
        };
        let description = FieldDescription {
            class: class.to_owned(),
            length,
            pad: row["pad"].as_bool().unwrap_or_else(|| pads_left(packager, class)),
            trim: row["trim"].as_bool().unwrap_or(false),
            sub,
        };
        Some((number.parse().ok()?, description))
    };
    table.as_object()?.iter().map(row).collect()
}

/// Whether a packager of jPOS pads an odd number of digits on the left. The tables of packagers that
/// are Java classes do not have this information; this is their observed behaviour.
fn pads_left(packager: &str, class: &str) -> bool {
    match packager {
        "GenericPackager" | "ISO93BPackager" => false,
        "Base1Packager" => {
            matches!(class, "IFB_NUMERIC" | "IFB_LLNUM" | "IFB_LLHNUM" | "IFB_LLLNUM")
        }
        _ => class == "IFB_NUMERIC",
    }
}

fn check_pack(packager: &Packager, case: &Value) -> Verdict {
    let Some(values) = fields(&case["fields"]) else { return unreadable("fields") };
    let read_back = case.get("unpacked").and_then(fields);
    match (case.get("packed"), pack(packager, header_of(case), &values)) {
        (None, Err(error)) if names_field(&error, &values) => {
            refused(&error, text(case, "pack_error"))
        }
        (None, Err(error)) => {
            Verdict::Failed(format!("the refusal names no field of the case: {error}"))
        }
        (None, Ok(ours)) => Verdict::Failed(format!("should be refused, is {}", hex(&ours))),
        (Some(packed), Ok(ours)) => match bytes_of(packed) {
            Some(packed) if packed == ours => Verdict::Passed,
            Some(packed) if is_same_xml(packager, &packed, &ours) => Verdict::Passed,
            Some(packed) => {
                Verdict::Failed(format!("should be {}, is {}", hex(&packed), hex(&ours)))
            }
            None => unreadable("packed"),
        },
        (Some(_), Err(error)) => {
            match Stricter::for_values(&error, packager, (&values, read_back.as_ref())) {
                Some(reason) => Verdict::Stricter(reason),
                None => Verdict::Failed(format!("should be packed: {error}")),
            }
        }
    }
}

/// Whether two XML messages are equal except for lines of comments.
fn is_same_xml(packager: &Packager, theirs: &[u8], ours: &[u8]) -> bool {
    fn lines(xml: &[u8]) -> impl Iterator<Item = &[u8]> {
        let is_comment = |line: &&[u8]| !line.trim_ascii().starts_with(b"<!--");
        xml.split_inclusive(|byte| *byte == b'\n').filter(is_comment)
    }
    packager.compiled().is_xml && lines(theirs).eq(lines(ours))
}

fn check_unpack(packager: &Packager, case: &Value) -> Verdict {
    let Some(packed) = bytes_of(&case["packed"]) else { return unreadable("packed") };
    let Some(values) = fields(&case["fields"]) else { return unreadable("fields") };
    let read_back = case.get("unpacked").and_then(fields);
    let has_note = case.get("unpack_note").is_some();
    let mut index = Index::new();
    match packager.unpack(&packed, &mut index) {
        Ok(view) if view.header() != header_of(case).unwrap_or_default() => differs(view, case),
        Ok(view) if holds(view, &values) => Verdict::Passed,
        Ok(view) if read_back.as_ref().is_some_and(|it| holds(view, it)) => Verdict::Passed,
        // The other implementation does not read its own message back.
        Ok(_) if has_note => Verdict::NotChecked,
        Ok(view) => differs(view, case),
        Err(error) if !has_location(&error, packager, &packed) => {
            Verdict::Failed(format!("the refusal is not placed: {error}"))
        }
        Err(_) if has_note && read_back.is_none() => Verdict::Passed,
        Err(error) => match Stricter::for_bytes(&error, packager, (&packed, Some(&values))) {
            Some(reason) => Verdict::Stricter(reason),
            None if has_note => Verdict::NotChecked,
            None => Verdict::Failed(format!("should be read: {error}")),
        },
    }
}

fn check_malformed(packager: &Packager, case: &Value) -> Verdict {
    let Some(bytes) = bytes_of(&case["hex"]) else { return unreadable("hex") };
    let is_refused = case.get("error").is_some();
    let mut index = Index::new();
    match packager.unpack(&bytes, &mut index) {
        Err(error) if !has_location(&error, packager, &bytes) => {
            Verdict::Failed(format!("the refusal is not placed: {error}"))
        }
        Err(error) if is_refused => refused(&error, text(case, "error")),
        Err(error) => {
            let read = fields(&case["unpacked"]);
            match Stricter::for_bytes(&error, packager, (&bytes, read.as_ref())) {
                Some(reason) => Verdict::Stricter(reason),
                None => Verdict::Failed(format!("should be read: {error}")),
            }
        }
        Ok(_) if is_refused => Verdict::Failed("should be refused, is read".to_owned()),
        Ok(view) => {
            let Some(read) = fields(&case["unpacked"]) else { return unreadable("unpacked") };
            let (ours, theirs) = (view.bytes().len(), number(&case["consumed"]));
            if let Some(theirs) = theirs.filter(|theirs| *theirs != ours) {
                return Verdict::Failed(format!("{theirs} bytes should be read, {ours} were"));
            }
            let is_same = view.header() == header_of(case).unwrap_or_default();
            if is_same && holds(view, &read) { Verdict::Passed } else { differs(view, case) }
        }
    }
}

/// The result if both refuse: compares the fields, if the other's text names one.
fn refused(error: &Error, text: &str) -> Verdict {
    let ours = error.path.map(|path| path.numbers()[0]);
    match (field_of(text), ours) {
        (Some(theirs), Some(ours)) if theirs != ours => {
            Verdict::OtherField(format!("the other refuses field {theirs}, we field {ours}"))
        }
        (Some(theirs), None) => {
            Verdict::OtherField(format!("the other refuses field {theirs}, we name none"))
        }
        (Some(_) | None, _) => Verdict::Passed,
    }
}

/// The number of the first field in an error text of the other implementation: `error packing field 48`.
fn field_of(text: &str) -> Option<u16> {
    let mut behind = text.split("field ").skip(1);
    behind.find_map(|rest| {
        let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

/// Whether an error names a field of the values, or one in the same composite field.
fn names_field(error: &Error, values: &Fields) -> bool {
    let outer = error.path.map(|path| path.numbers()[0].to_string());
    outer.is_some_and(|outer| values.keys().any(|path| path.split('.').next() == Some(&outer)))
}

/// Whether an error has a field, and an offset in the message or at its end. Invalid XML and headers have
/// no fields.
fn has_location(error: &Error, packager: &Packager, bytes: &[u8]) -> bool {
    let is_header = error.offset.is_some_and(|at| at < packager.header_bytes());
    let is_named = error.path.is_some() || packager.compiled().is_xml || is_header;
    is_named && error.offset.is_some_and(|at| at <= bytes.len())
}

/// The header of a case, if it has one.
fn header_of(case: &Value) -> Option<Vec<u8>> {
    bytes_of(case.get("header")?)
}

fn pack(packager: &Packager, header: Option<Vec<u8>>, values: &Fields) -> Result<Vec<u8>, Error> {
    let mut message = Message::new(packager);
    if let Some(header) = header {
        message.set_header(&header)?;
    }
    let path = |(path, value): (&String, _)| Ok((path.parse::<FieldPath>()?, value));
    let mut values: Vec<_> = values.iter().map(path).collect::<Result<_, Error>>()?;
    // Fields that cannot be filled up must be set before those behind them.
    values.sort_by_key(|(path, _)| *path);
    for (path, value) in values {
        match value {
            FieldValue::Text(text) => message.set(path, text)?,
            FieldValue::Bytes(bytes) => message.set_bytes(path, bytes)?,
        }
    }
    message.pack()
}

/// Shows the message without masking, because vectors only have test numbers.
fn differs(view: MessageView<'_>, case: &Value) -> Verdict {
    let ours = view.revealed().to_string();
    Verdict::Failed(format!("should be {}, is {}", case["unpacked"], ours.replace('\n', "; ")))
}

fn unreadable(what: &str) -> Verdict {
    Verdict::Failed(format!("`{what}` of this case cannot be read"))
}
