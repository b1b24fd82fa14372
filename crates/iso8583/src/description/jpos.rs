//! Packager files of jPOS's `GenericPackager`.

use std::collections::BTreeMap;
use std::ops::Range;

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::error::{DescriptionError, line_of};
use crate::class::{Content, FieldFormat};
use crate::error::{DEPTH_MAX, Error, FieldPath, Problem};
use crate::packager::{
    Draft, DraftField, DraftFields, FIELD_NUMBER_MAX, FieldDescription, format_of,
};

const OF_PACKAGERS: [&str; 6] = [
    "maxValidField",
    "bitmapField",
    "thirdBitmapField",
    "emitBitmap",
    "firstField",
    "headerLength",
];
const OF_FIELDS: [&str; 7] = ["id", "length", "name", "class", "pad", "trim", "token"];
/// Redundant attributes, which repeat the classes of the inner fields.
const OF_TAGS: [&str; 4] = ["packager", "tagMapper", "tagSize", "lenSize"];

/// Packagers of inner fields whose behaviour follows from classes and attributes.
const OF_COMPOSITES: [&str; 5] =
    ["GenericPackager", "GenericSubFieldPackager", "GenericTaggedFieldsPackager", EURO, MASTERCARD];
/// Packagers whose inner fields are known by their tags in every class.
const EURO: &str = "EuroSubFieldPackager";
const MASTERCARD: &str = "MasterCardEBCDICSubFieldPackager";
/// Packagers of BER-TLV. The value stays opaque; `tlv` reads it.
const OF_BER_TLV: [&str; 3] =
    ["BERTLVBinaryPackager", "BERTLVAsciiHexPackager", "BERTLVEbcdicHexPackager"];

/// Parses a packager file.
pub(super) fn draft(text: &str) -> Result<Draft, DescriptionError> {
    let mut file = File { text, at: 0, path: vec![] };
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Open> = vec![];
    let mut draft = None;
    loop {
        let event = reader.read_event();
        file.at = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
        let event = event.map_err(|error| file.error("", &error.to_string()))?;
        let is_empty = matches!(event, Event::Empty(_));
        match event {
            Event::Start(start) | Event::Empty(start) => {
                if draft.is_some() {
                    return Err(file.error("", "one element `isopackager` was expected"));
                }
                let element = Open::read(&start, open.last(), &mut file)?;
                open.push(element);
                if is_empty {
                    draft = close(&mut open, &mut file)?;
                }
            }
            Event::End(_) => draft = close(&mut open, &mut file)?,
            Event::Text(text) if text.trim().is_empty() => {}
            Event::Text(_) | Event::CData(_) => return Err(file.error("", "no text was expected")),
            Event::GeneralRef(_) => return Err(file.error("", "no entity was expected")),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof => break,
        }
    }
    let missing = || file.error("", "an element `isopackager` was expected");
    draft.filter(|_| open.is_empty()).ok_or_else(missing)
}

/// The text with the current offset and field.
struct File<'a> {
    text: &'a str,
    at: usize,
    path: Vec<u16>,
}

impl File<'_> {
    fn error(&self, attribute: &str, what: &str) -> DescriptionError {
        let numbers: Vec<String> = self.path.iter().map(u16::to_string).collect();
        let field =
            if numbers.is_empty() { String::new() } else { format!("field {}", numbers.join(".")) };
        let both = !field.is_empty() && !attribute.is_empty();
        let key = format!("{field}{}{attribute}", if both { ", " } else { "" });
        let line = Some(line_of(self.text, self.at));
        DescriptionError::Unreadable { line, key, message: what.to_owned() }
    }

    fn problem(&self, number: u16, problem: Problem) -> DescriptionError {
        let error: Error = problem.in_field(number);
        let outer = self.path.iter().rev().skip(1);
        let path = outer.fold(FieldPath::from(number), |path, outer| path.inside(*outer));
        DescriptionError::Field(Error { path: Some(path), ..error })
    }
}

/// An open element.
#[derive(Default)]
struct Open {
    kind: Kind,
    attributes: BTreeMap<String, String>,
    /// The number of the field; 0 for the packager itself.
    number: u16,
    fields: DraftFields,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Packager,
    Field,
    Composite,
    /// A field with a packager of BER-TLV, whose inner fields are ignored.
    BerTlv,
}

impl Open {
    fn read(
        start: &BytesStart<'_>,
        outer: Option<&Self>,
        file: &mut File<'_>,
    ) -> Result<Self, DescriptionError> {
        let kind = match (start.name().0, outer.map(|outer| outer.kind)) {
            ("isopackager", None) => Kind::Packager,
            ("isofield", Some(Kind::Packager | Kind::Composite | Kind::BerTlv)) => Kind::Field,
            ("isofieldpackager", Some(Kind::Packager | Kind::Composite | Kind::BerTlv)) => {
                Kind::Composite
            }
            (name, _) => {
                return Err(file.error("", &format!("`{name}` was not expected here")));
            }
        };
        let mut open = Self { kind, ..Self::default() };
        if kind != Kind::Packager {
            // First, because errors of the other attributes name the field.
            let id = start.try_get_attribute("id").ok().flatten();
            let number = id.and_then(|id| id.value.trim().parse().ok());
            open.number = number
                .filter(|it| *it <= FIELD_NUMBER_MAX)
                .ok_or_else(|| file.error("id", "the number of a field was expected, 0 to 999"))?;
            file.path.push(open.number);
            if file.path.len() > DEPTH_MAX {
                return Err(file.problem(open.number, Problem::TooDeep));
            }
        }
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| file.error("", &error.to_string()))?;
            let name = attribute.key.0.to_owned();
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| file.error(&name, &error.to_string()))?;
            open.attributes.insert(name, value.into_owned());
        }
        open.check_names(file)?;
        if kind == Kind::Composite {
            open.kind = open.composite(file)?;
        }
        Ok(open)
    }

    /// Refuses unknown attributes, because they may change the format on the wire.
    fn check_names(&self, file: &File<'_>) -> Result<(), DescriptionError> {
        let groups: &[&[&str]] = match self.kind {
            Kind::Packager => &[&OF_PACKAGERS],
            Kind::Field => &[&OF_FIELDS],
            Kind::Composite | Kind::BerTlv => &[&OF_FIELDS, &OF_PACKAGERS, &OF_TAGS],
        };
        for name in self.attributes.keys() {
            if !groups.iter().any(|group| group.contains(&name.as_str())) {
                return Err(file.error(name, "an unknown attribute"));
            }
        }
        Ok(())
    }

    fn composite(&self, file: &File<'_>) -> Result<Kind, DescriptionError> {
        let class = self.attributes.get("packager").map_or("", String::as_str);
        // Packagers in other packages may behave differently.
        let name = match class.rsplit_once('.') {
            Some((package, name)) if package.starts_with("org.jpos.") => name,
            Some(_) => "",
            None => class,
        };
        let mapper = self.attributes.get("tagMapper").map_or("", String::as_str);
        if !mapper.is_empty() && !mapper.ends_with("TTDecimalTagMapper") {
            return Err(file.error("tagMapper", "only tags in decimal digits are known"));
        }
        match name {
            _ if OF_COMPOSITES.contains(&name) => Ok(Kind::Composite),
            _ if OF_BER_TLV.contains(&name) => Ok(Kind::BerTlv),
            _ => {
                let known = [OF_COMPOSITES.as_slice(), OF_BER_TLV.as_slice()].concat().join(", ");
                let what = format!("`{class}` is not known here; known are {known}");
                Err(file.error("packager", &what))
            }
        }
    }

    fn number_of(&self, name: &str, file: &File<'_>) -> Result<Option<u16>, DescriptionError> {
        let Some(text) = self.attributes.get(name) else { return Ok(None) };
        let number = text.trim().parse::<i32>().ok();
        match number {
            // jPOS uses this value for none.
            Some(number) if number < 0 => Ok(None),
            Some(number) => match u16::try_from(number) {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(file.error(name, "a smaller number was expected")),
            },
            None => Err(file.error(name, "a number was expected")),
        }
    }

    fn flag(&self, name: &str, file: &File<'_>) -> Result<Option<bool>, DescriptionError> {
        match self.attributes.get(name).map(|text| text.trim()) {
            None | Some("") => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(file.error(name, "`true` or `false` was expected")),
        }
    }

    /// The field that the element describes.
    fn field(self, file: &File<'_>) -> Result<DraftField, DescriptionError> {
        let Some(class) = self.attributes.get("class") else {
            return Err(file.error("class", "a class was expected"));
        };
        let length = self.attributes.get("length").and_then(|text| text.trim().parse().ok());
        let description = FieldDescription {
            class: class.trim().to_owned(),
            length: length.ok_or_else(|| file.error("length", "a number was expected"))?,
            pad: self.flag("pad", file)?.unwrap_or(false),
            trim: self.flag("trim", file)?.unwrap_or(false),
            sub: None,
        };
        let format = format_of(self.number, &description, file.path.len()).map_err(|problem| {
            let what =
                format!("`{}` of length {}: {problem}", description.class, description.length);
            file.error("class", &what)
        })?;
        let name = self.attributes.get("name").cloned().unwrap_or_default();
        let inside = (self.kind == Kind::Composite).then_some(self.fields);
        Ok(DraftField { name, format, is_sensitive: None, inside })
    }

    /// Applies the attributes of the element to its fields.
    fn arrange(&mut self, file: &File<'_>) -> Result<(), DescriptionError> {
        // jPOS only reserves memory for it, and accepts fields beyond it.
        self.number_of("maxValidField", file)?;
        let is_packager = self.kind == Kind::Packager;
        let header = self.number_of("headerLength", file)?.unwrap_or(0);
        // jPOS ignores it in fields of a field; of a message in a field, it reads a header that it does
        // not write.
        if !is_packager && header > 0 && !self.is_packager_named("GenericSubFieldPackager") {
            return Err(file.error("headerLength", "only the outer message may have a header"));
        }
        let bitmap = self.bitmap_field(file)?;
        let third = self.number_of("thirdBitmapField", file)?.filter(|number| *number > 0);
        let third = third.filter(|third| bitmap.is_some() && self.is_bitmap(*third));
        let nothing = FieldFormat::from_class("IF_NOP", 0, false);
        let nothing = nothing.map_err(|problem| file.problem(0, problem))?;
        for (number, field) in &mut self.fields {
            let is_used = Some(*number) == bitmap || Some(*number) == third;
            if field.format.content == Content::Bitmap && !is_used {
                field.format = nothing;
            }
        }
        if let Some(third) = third {
            self.set_third(bitmap, third, file)?;
        }
        if self.is_known_by_tags() {
            self.fields.values_mut().for_each(|field| field.format.tag.is_own = false);
        }
        for number in self.skipped(file)?.filter(|number| Some(*number) != bitmap) {
            let (name, is_sensitive, inside) = (String::new(), None, None);
            let skipped = DraftField { name, format: nothing, is_sensitive, inside };
            self.fields.insert(number, skipped);
        }
        Ok(())
    }

    /// The field with the bitmap, if there is one.
    fn bitmap_field(&self, file: &File<'_>) -> Result<Option<u16>, DescriptionError> {
        let emits = self.flag("emitBitmap", file)?;
        if emits == Some(false) {
            return Ok(None);
        }
        if self.attributes.contains_key("bitmapField") {
            let Some(number) = self.number_of("bitmapField", file)? else { return Ok(None) };
            if self.is_bitmap(number) {
                return Ok(Some(number));
            }
            let what = format!("field {number} is not described as a bitmap");
            return if emits == Some(true) {
                Err(file.error("bitmapField", &what))
            } else {
                Ok(None)
            };
        }
        let found = [1, 0].into_iter().find(|number| self.is_bitmap(*number));
        if emits == Some(true) && found.is_none() {
            return Err(file.error("emitBitmap", "neither field 0 nor field 1 is a bitmap"));
        }
        Ok(found)
    }

    /// Sets a third bitmap among the fields: it has 8 bytes, and the one in front 16.
    fn set_third(
        &mut self,
        bitmap: Option<u16>,
        third: u16,
        file: &File<'_>,
    ) -> Result<(), DescriptionError> {
        for (number, length) in [(bitmap, 16), (Some(third), 8)] {
            let Some(field) = number.and_then(|number| self.fields.get_mut(&number)) else {
                continue;
            };
            field.format.length_max = length;
            field.format = field.format.compiled().map_err(|it| file.problem(third, it))?;
        }
        Ok(())
    }

    /// The fields below the first one, which is 1 in a composite field by default.
    fn skipped(&self, file: &File<'_>) -> Result<Range<u16>, DescriptionError> {
        let is_message = self.kind == Kind::Packager || self.is_packager_named(".GenericPackager");
        if self.is_known_by_tags() {
            return Ok(0..0);
        }
        let first = self.number_of("firstField", file)?;
        let first = first.map(|first| first.min(FIELD_NUMBER_MAX));
        // A message always begins with its type.
        Ok(if is_message { 1..first.unwrap_or(1) } else { 0..first.unwrap_or(1) })
    }

    fn is_known_by_tags(&self) -> bool {
        [EURO, MASTERCARD].iter().any(|name| self.is_packager_named(name))
    }

    /// Whether the inner fields have a packager whose class ends with this name.
    fn is_packager_named(&self, name: &str) -> bool {
        self.attributes.get("packager").is_some_and(|class| class.ends_with(name))
    }

    fn is_bitmap(&self, number: u16) -> bool {
        self.fields.get(&number).is_some_and(|field| field.format.content == Content::Bitmap)
    }
}

/// Ends the innermost element; returns the draft if it was the packager.
fn close(open: &mut Vec<Open>, file: &mut File<'_>) -> Result<Option<Draft>, DescriptionError> {
    let Some(mut element) = open.pop() else { return Ok(None) };
    if matches!(element.kind, Kind::Packager | Kind::Composite) {
        element.arrange(file)?;
    }
    let Some(outer) = open.last_mut() else {
        let header = element.number_of("headerLength", file)?.unwrap_or(0);
        if element.fields.is_empty() {
            return Err(file.error("", "at least one field was expected"));
        }
        let header_bytes = usize::from(header);
        return Ok(Some(Draft { header_bytes, fields: element.fields, ..Draft::default() }));
    };
    let number = element.number;
    let field = element.field(file)?;
    // Of two descriptions of a field, jPOS takes the later one. Its own files have such a field.
    outer.fields.insert(number, field);
    file.path.pop();
    Ok(None)
}
