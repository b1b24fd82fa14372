//! Messages in XML, `<isomsg>`: converts them to fields with tags and lengths, and back.

use std::borrow::Cow;
use std::fmt::Write;

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use crate::class::mark;
use crate::coding::{HEX, hex_value};
use crate::error::{DEPTH_MAX, Error, FieldPath, Problem};
use crate::index::Index;
use crate::packager::{FIELD_NUMBER_MAX, Packager};
use crate::view::MessageView;
use crate::walk::walk;

/// The maximum length of a message in XML.
const XML_BYTES_MAX: usize = 512 * 1024;

/// The lengths of a field's number and of its length.
const TAG_BYTES: usize = 3;
const COUNT_BYTES: usize = 6;

/// Parses a message into the index.
pub(crate) fn unpack(packager: &Packager, bytes: &[u8], index: &mut Index) -> Result<(), Error> {
    if bytes.len() > XML_BYTES_MAX {
        return Err(Problem::TooLong { length: bytes.len(), max: XML_BYTES_MAX }.into());
    }
    let text = decoded(bytes)?;
    let mut fields = std::mem::take(&mut index.fields);
    let mut header = std::mem::take(&mut index.header);
    fields.clear();
    header.clear();
    let is_strict = packager.compiled().is_strict();
    let mut parser = Parser {
        is_strict,
        at: 0,
        open: vec![],
        skipped: 0,
        value: None,
        header: &mut header,
        out: &mut fields,
    };
    let result = parser.parse(&text);
    // The parser has found all errors with their offsets in the XML, except for repeated fields.
    let result = result.and_then(|()| match walk(packager.compiled(), &fields, index) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error { offset: None, ..error }),
    });
    index.fields = fields;
    index.header = header;
    result
}

/// The text: UTF-8, or ISO-8859-1 if the message declares it.
fn decoded(bytes: &[u8]) -> Result<Cow<'_, str>, Error> {
    let declaration = bytes.split(|byte| *byte == b'>').next().unwrap_or_default();
    let declaration = declaration.to_ascii_lowercase();
    let is_declared = declaration.starts_with(b"<?xml");
    if is_declared && declaration.windows(10).any(|window| window == b"iso-8859-1") {
        return Ok(bytes.iter().map(|byte| char::from(*byte)).collect());
    }
    let text = std::str::from_utf8(bytes);
    text.map(Cow::Borrowed).map_err(|error| bad(None, error.valid_up_to(), "UTF-8"))
}

fn bad(path: Option<FieldPath>, offset: usize, expected: &'static str) -> Error {
    Error { path, offset: Some(offset), problem: Problem::BadXml { expected } }
}

struct Parser<'a> {
    is_strict: bool,
    /// The offset in the XML.
    at: usize,
    /// The open messages: the outermost one, and inner ones that are fields.
    open: Vec<Open>,
    /// The number of open unknown elements.
    skipped: usize,
    /// The open field with the text of its value.
    value: Option<Value>,
    header: &'a mut Vec<u8>,
    out: &'a mut Vec<u8>,
}

struct Open {
    number: u16,
    /// The offset in the output.
    start: usize,
}

#[derive(Default)]
struct Value {
    number: u16,
    text: String,
    is_binary: bool,
    is_header: bool,
}

impl Parser<'_> {
    fn parse(&mut self, text: &str) -> Result<(), Error> {
        let mut reader = Reader::from_str(text);
        let mut is_complete = false;
        loop {
            let event = reader.read_event();
            let here = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
            let event = event.map_err(|_| bad(None, here, "an element that is closed"))?;
            match event {
                Event::Eof if is_complete => return Ok(()),
                Event::Eof => return Err(bad(None, here, "an element `isomsg`")),
                Event::Text(text) if text.trim().is_empty() && self.value.is_none() => {}
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
                Event::DocType(_) => return Err(bad(None, self.at, "no document type")),
                _ if is_complete => return Err(bad(None, self.at, "the end")),
                Event::Start(_) if self.skipped > 0 => self.skipped += 1,
                Event::End(_) if self.skipped > 0 => self.skipped -= 1,
                _ if self.skipped > 0 => {}
                Event::Start(start) => self.start(&start)?,
                Event::Empty(start) => {
                    self.start(&start)?;
                    is_complete = self.end()?;
                }
                Event::End(_) => is_complete = self.end()?,
                Event::Text(text) => self.text(&text.xml10_content())?,
                Event::CData(text) => self.text(&text)?,
                Event::GeneralRef(name) => {
                    let known = quick_xml::escape::resolve_predefined_entity(&name);
                    let character = name.resolve_char_ref().ok().flatten();
                    match (known, character) {
                        (Some(known), _) => self.text(known)?,
                        (None, Some(character)) => self.text(character.encode_utf8(&mut [0; 4]))?,
                        (None, None) => return Err(self.bad("one of XML's own entities")),
                    }
                }
            }
            self.at = here;
        }
    }

    fn path(&self) -> Option<FieldPath> {
        let inside = self.open.iter().skip(1).map(|open| open.number);
        let own = self.value.as_ref().filter(|value| !value.is_header).map(|value| value.number);
        let mut numbers = inside.chain(own).collect::<Vec<_>>().into_iter().rev();
        let innermost = FieldPath::from(numbers.next()?);
        Some(numbers.fold(innermost, |path, outer| path.inside(outer)))
    }

    fn bad(&self, expected: &'static str) -> Error {
        bad(self.path(), self.at, expected)
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), Error> {
        if self.value.is_some() {
            return Err(self.bad("the end of the field"));
        }
        match start.name().0 {
            "isomsg"
                if self.open.is_empty() && start.try_get_attribute("id").ok() != Some(None) =>
            {
                Err(self.bad("a message that is no field"))
            }
            "isomsg" if self.open.is_empty() => {
                self.open.push(Open { number: 0, start: 0 });
                Ok(())
            }
            "isomsg" if self.open.len() == DEPTH_MAX => {
                Err(Error { path: self.path(), offset: Some(self.at), problem: Problem::TooDeep })
            }
            "isomsg" => {
                let (number, ..) = self.attributes(start)?;
                let start = self.begin(number, mark::FIELDS);
                self.open.push(Open { number, start });
                Ok(())
            }
            "field" if !self.open.is_empty() => self.field(start),
            "header" if self.open.len() == 1 => {
                self.value = Some(Value { is_header: true, is_binary: true, ..Value::default() });
                Ok(())
            }
            _ if !self.open.is_empty() && !self.is_strict => {
                self.skipped = 1;
                Ok(())
            }
            _ => Err(self.bad("`isomsg` or a `field` in it")),
        }
    }

    fn field(&mut self, start: &BytesStart<'_>) -> Result<(), Error> {
        let (number, value, is_binary) = self.attributes(start)?;
        self.value = Some(Value { number, is_binary, ..Value::default() });
        self.text(&value)?;
        if let Some(value) = self.value.as_mut().filter(|value| value.text.contains("\\u00")) {
            value.text = unescaped(&value.text);
        }
        Ok(())
    }

    /// The number, the value, and whether the value is binary.
    fn attributes(&self, start: &BytesStart<'_>) -> Result<(u16, String, bool), Error> {
        let (mut number, mut value, mut is_binary) = (None, String::new(), false);
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|_| self.bad("attributes with values"))?;
            let text = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|_| self.bad("one of XML's own entities"))?;
            match attribute.key.0 {
                "id" => {
                    let id = text.parse().ok().filter(|it| *it <= FIELD_NUMBER_MAX);
                    number = Some(id.ok_or_else(|| self.bad("the number of a field"))?);
                }
                "value" => value = text.into_owned(),
                "type" if text == "binary" => is_binary = true,
                "type" | "direction" | "name" | "encoding" if !self.is_strict => {}
                _ if !self.is_strict => {}
                _ => return Err(self.bad("id, value and type as attributes")),
            }
        }
        let number = number.ok_or_else(|| self.bad("the number of a field"))?;
        Ok((number, value, is_binary))
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        if !text.chars().all(is_xml_character) {
            return Err(self.bad("characters that XML has"));
        }
        match &mut self.value {
            Some(value) => value.text.push_str(text),
            None if self.is_strict || self.open.is_empty() => {
                return Err(self.bad("no text beside fields"));
            }
            None => {}
        }
        Ok(())
    }

    /// Ends an element; returns whether it was the outermost message.
    fn end(&mut self) -> Result<bool, Error> {
        if let Some(value) = &self.value {
            let (number, is_binary) = (value.number, value.is_binary);
            let path = self.path();
            let is_header = value.is_header;
            let text = self.value.take().map(|value| value.text).unwrap_or_default();
            if is_header {
                let digits = bad(None, self.at, "hexadecimal digits");
                push_hex(&text, self.header).ok_or(digits)?;
                return Ok(false);
            }
            let start = self.begin(number, mark::TEXT);
            let pushed = if is_binary {
                push_hex(&text, self.out)
            } else {
                Some(push_text(&text, self.out))
            };
            let result = pushed.and_then(|mark| self.finish(start, mark));
            return result.map(|()| false).ok_or_else(|| bad(path, self.at, "hexadecimal digits"));
        }
        let Some(message) = self.open.pop() else { return Err(self.bad("a message")) };
        if self.open.is_empty() {
            return Ok(true);
        }
        let result = self.finish(message.start, mark::FIELDS);
        result.map(|()| false).ok_or_else(|| self.bad("a shorter message"))
    }

    /// Begins a field of unknown length; returns its offset.
    fn begin(&mut self, number: u16, mark: u8) -> usize {
        let start = self.out.len();
        self.out.extend_from_slice(&digits::<TAG_BYTES>(usize::from(number)));
        self.out.extend_from_slice(&[b'0'; COUNT_BYTES]);
        self.out.push(mark);
        start
    }

    fn finish(&mut self, start: usize, mark: u8) -> Option<()> {
        let (tag, count) = (start + TAG_BYTES, start + TAG_BYTES + COUNT_BYTES);
        let length = self.out.len() - count;
        self.out[tag..count].copy_from_slice(&digits::<COUNT_BYTES>(length));
        self.out[count] = mark;
        Some(())
    }
}

/// Appends the bytes of hexadecimal digits; `None` for invalid digits.
fn push_hex(text: &str, out: &mut Vec<u8>) -> Option<u8> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    for pair in pairs {
        out.push(hex_value(pair[0])? << 4 | hex_value(pair[1])?);
    }
    rest.is_empty().then_some(mark::BYTES)
}

/// Decodes `\u00hh` in attributes like jPOS, which is the only way to write most control characters.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("\\u00") {
        out.push_str(before);
        let code = behind.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code.filter(|_| !behind.starts_with('+')) {
            Some(code) => out.push(char::from(code)),
            None => out.push_str("\\u00"),
        }
        rest = if code.is_some() && !behind.starts_with('+') { &behind[2..] } else { behind };
    }
    out + rest
}

/// Appends a text in ISO-8859-1 if possible, otherwise in UTF-8; returns the mark.
pub(crate) fn push_text(text: &str, out: &mut Vec<u8>) -> u8 {
    let start = out.len();
    for character in text.chars() {
        let Ok(byte) = u8::try_from(character) else {
            out.truncate(start);
            out.extend_from_slice(text.as_bytes());
            return mark::UNICODE;
        };
        out.push(byte);
    }
    mark::TEXT
}

fn digits<const N: usize>(mut number: usize) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    digits
}

/// Appends the message in XML.
pub(crate) fn pack(view: MessageView<'_>, header: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let mut text = String::from("<isomsg>\n");
    if !header.is_empty() {
        text.push_str("  <header>");
        write_hex(header, &mut text);
        text.push_str("</header>\n");
    }
    write_fields(view, 1, &mut text)?;
    text.push_str("</isomsg>\n");
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_fields(view: MessageView<'_>, depth: usize, out: &mut String) -> Result<(), Error> {
    let indent = "  ".repeat(depth);
    for field in view.fields() {
        let number = field.number();
        if field.is_composite() {
            out.push_str(&format!("{indent}<isomsg id=\"{number}\">\n"));
            let mut index = Index::new();
            let inner = field.nested(&mut index)?;
            write_fields(inner, depth + 1, out).map_err(|error| error.inside(number, None))?;
            out.push_str(&format!("{indent}</isomsg>\n"));
            continue;
        }
        out.push_str(&format!("{indent}<field id=\"{number}\""));
        if field.is_binary() {
            out.push_str(" value=\"");
            write_hex(field.content(), out);
            out.push_str("\" type=\"binary\"/>\n");
            continue;
        }
        let text = field.text();
        if text.contains(['\u{fffe}', '\u{ffff}']) {
            return Err(Problem::BadCharacter {
                expected: "a character that XML has",
                found: None,
            }
            .in_field(number));
        }
        if is_verbatim(&text) {
            out.push_str(&format!("><![CDATA[{text}]]></field>\n"));
            continue;
        }
        out.push_str(" value=\"");
        write_escaped(&text, out);
        out.push_str("\"/>\n");
    }
    Ok(())
}

fn write_hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 0x0F)]));
    }
}

/// Whether a text is written as CDATA: texts with a `<`, if CDATA can hold them.
fn is_verbatim(text: &str) -> bool {
    let can_be = |character: char| is_xml_character(character) && character != '\r';
    text.contains('<') && !text.contains("]]>") && text.chars().all(can_be)
}

/// XML cannot represent most control characters, not even as character references.
fn is_xml_character(character: char) -> bool {
    !matches!(character, '\0'..'\t' | '\u{b}' | '\u{c}' | '\u{e}'..' ' | '\u{fffe}' | '\u{ffff}')
}

fn write_escaped(text: &str, out: &mut String) {
    for (at, character) in text.char_indices() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // Otherwise it would be decoded as another character.
            '\\' if text[at..].starts_with("\\u00") => out.push_str("\\u005c"),
            '\0'..' ' => {
                write!(out, "\\u{:04x}", u32::from(character))
                    .expect("writing to a String cannot fail");
            }
            other => out.push(other),
        }
    }
}
