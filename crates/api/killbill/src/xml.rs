//! Reads XML as a tree of elements, and refuses what is not well-formed or too large.
//!
//! The reader expands no entities and fetches nothing. A document type is refused.

use std::fmt;

use quick_xml::XmlVersion;
use quick_xml::events::{BytesDecl, BytesStart, Event};
use quick_xml::reader::Reader;

/// How deep elements are nested at most.
const DEPTH_MAX: usize = 64;

/// How many elements a document has at most.
const ELEMENTS_MAX: usize = 50_000;

/// How many attributes an element has at most: each is compared with those before it.
const ATTRIBUTES_MAX: usize = 64;

/// An element with what it holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// The line that it begins on, from 1.
    pub(crate) line: usize,
    /// Names without prefix, and values. Those of `xmlns` are left out.
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) elements: Vec<Element>,
    /// All its own text, without space at both ends.
    pub(crate) text: String,
}

impl Element {
    /// The value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(it, _)| *it == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Why a text is no document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoDocument {
    /// From 1.
    pub(crate) line: usize,
    reason: String,
}

impl fmt::Display for NoDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Reads a document.
///
/// # Errors
/// [`NoDocument`].
pub(crate) fn read(text: &str) -> Result<Element, NoDocument> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut document = Document { text, ..Document::default() };
    match document.read() {
        Ok(root) => Ok(root),
        Err((at, reason)) => Err(NoDocument { line: document.line(at), reason }),
    }
}

/// The offset of a mistake, and what it is.
type Mistake = (usize, String);

#[derive(Default)]
struct Document<'a> {
    text: &'a str,
    /// The offset that lines were counted to, and the line there.
    counted: (usize, usize),
    elements: usize,
    /// The elements that are not closed.
    open: Vec<Element>,
    root: Option<Element>,
}

impl Document<'_> {
    fn read(&mut self) -> Result<Element, Mistake> {
        let mut reader = Reader::from_str(self.text);
        reader.config_mut().check_comments = true;
        loop {
            let at = usize::try_from(reader.buffer_position()).unwrap_or(self.text.len());
            let event = reader.read_event().map_err(|_| ill_formed(at))?;
            match event {
                Event::Eof => return self.end_of_text(),
                Event::DocType(_) => return Err((at, "has a document type".to_owned())),
                Event::Decl(declaration) => check_declaration(&declaration, at)?,
                Event::PI(instruction) => {
                    let target = instruction.target();
                    if target.eq_ignore_ascii_case("xml") || !is_name(target) {
                        return Err(ill_formed(at));
                    }
                }
                Event::Comment(comment) => check_characters(&comment, at)?,
                Event::Start(start) => self.start(&start, at)?,
                Event::Empty(start) => {
                    self.start(&start, at)?;
                    self.end();
                }
                Event::End(_) => self.end(),
                Event::Text(part) if part.contains("]]>") => return Err(ill_formed(at)),
                Event::Text(part) => self.add(&part, at)?,
                Event::CData(_) if self.open.is_empty() => {
                    return Err((at, "has text outside its root".to_owned()));
                }
                Event::CData(part) => self.add(&part, at)?,
                Event::GeneralRef(name) => {
                    let known = quick_xml::escape::resolve_predefined_entity(&name);
                    let character = name.resolve_char_ref().ok().flatten();
                    match (known, character) {
                        (Some(known), _) => self.add(known, at)?,
                        (None, Some(it)) => self.add(it.encode_utf8(&mut [0; 4]), at)?,
                        (None, None) => {
                            let reason = "has an entity that XML does not define";
                            return Err((at, reason.to_owned()));
                        }
                    }
                }
            }
        }
    }

    fn start(&mut self, start: &BytesStart<'_>, at: usize) -> Result<(), Mistake> {
        if self.open.is_empty() && self.root.is_some() {
            return Err((at, "has a second root".to_owned()));
        }
        if self.open.len() == DEPTH_MAX {
            return Err((at, format!("is nested more than {DEPTH_MAX} deep")));
        }
        self.elements += 1;
        if self.elements > ELEMENTS_MAX {
            return Err((at, format!("has more than {ELEMENTS_MAX} elements")));
        }
        let name = start.name().0;
        if !is_name(name) {
            return Err(ill_formed(at));
        }
        let line = self.line(at);
        self.open.push(Element {
            name: name.to_owned(),
            line,
            attributes: attributes(start, at)?,
            elements: vec![],
            text: String::new(),
        });
        Ok(())
    }

    /// The reader has compared the name with that of the start.
    fn end(&mut self) {
        let Some(mut element) = self.open.pop() else { return };
        let trimmed = element.text.trim();
        if trimmed.len() < element.text.len() {
            element.text = trimmed.to_owned();
        }
        match self.open.last_mut() {
            Some(parent) => parent.elements.push(element),
            None => self.root = Some(element),
        }
    }

    fn add(&mut self, part: &str, at: usize) -> Result<(), Mistake> {
        check_characters(part, at)?;
        match self.open.last_mut() {
            Some(element) => element.text.push_str(part),
            None if part.trim().is_empty() => {}
            None => return Err((at, "has text outside its root".to_owned())),
        }
        Ok(())
    }

    fn end_of_text(&mut self) -> Result<Element, Mistake> {
        let at = self.text.len();
        match (self.open.is_empty(), self.root.take()) {
            (true, Some(root)) => Ok(root),
            (true, None) => Err((at, "has no root".to_owned())),
            (false, _) => Err((at, "has an element that is not closed".to_owned())),
        }
    }

    /// The line of an offset that is not before an earlier one.
    fn line(&mut self, at: usize) -> usize {
        let (counted, lines) = self.counted;
        let passed = self.text.as_bytes().get(counted..at).unwrap_or_default();
        self.counted = (at, lines + passed.iter().filter(|it| **it == b'\n').count());
        self.counted.1 + 1
    }
}

fn ill_formed(at: usize) -> Mistake {
    (at, "is not well-formed".to_owned())
}

fn attributes(start: &BytesStart<'_>, at: usize) -> Result<Vec<(String, String)>, Mistake> {
    let mistake = || (at, "has an attribute that is not well-formed".to_owned());
    let mut attributes = vec![];
    for (number, attribute) in start.attributes().enumerate() {
        if number == ATTRIBUTES_MAX {
            return Err((at, format!("has an element with more than {ATTRIBUTES_MAX} attributes")));
        }
        let attribute = attribute.map_err(|_| mistake())?;
        let key = attribute.key.0;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|_| mistake())?;
        if !is_name(key) || attribute.value.contains('<') {
            return Err(mistake());
        }
        check_characters(&value, at)?;
        let local = key.rsplit_once(':').map_or(key, |(_, local)| local);
        if key != "xmlns" && !key.starts_with("xmlns:") {
            attributes.push((local.to_owned(), value.into_owned()));
        }
    }
    Ok(attributes)
}

/// A declaration begins the text, and names the encoding that it has.
fn check_declaration(it: &BytesDecl<'_>, at: usize) -> Result<(), Mistake> {
    let is_utf8 = match it.encoding() {
        None => true,
        Some(Ok(encoding)) => encoding.eq_ignore_ascii_case("UTF-8"),
        Some(Err(_)) => false,
    };
    match at == 0 && is_utf8 && it.version().is_ok_and(|it| it == "1.0") {
        true => Ok(()),
        false => Err((at, "has a declaration that is not of XML 1.0 in UTF-8".to_owned())),
    }
}

fn check_characters(text: &str, at: usize) -> Result<(), Mistake> {
    let is_allowed = |it: char| match it {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => it >= ' ',
    };
    match text.chars().all(is_allowed) {
        true => Ok(()),
        false => Err((at, "has a character that XML does not have".to_owned())),
    }
}

/// Whether a text can be the name of an element or attribute.
pub(crate) fn is_name(text: &str) -> bool {
    let is_start = |it: char| it.is_alphabetic() || matches!(it, '_' | ':');
    let is_part = |it: char| is_start(it) || it.is_alphanumeric() || matches!(it, '-' | '.');
    text.starts_with(is_start) && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let shown = match read(text) {
            Ok(root) => format!("{} {:?}", root.name, root.text),
            Err(it) => format!("{it} at line {}", it.line),
        };
        expected.assert_eq(&shown);
    }

    fn root(rest: &str) -> String {
        format!("<catalog>{rest}</catalog>")
    }

    #[test]
    fn a_document_is_read_without_declaration_comments_and_prefixes() {
        let declaration = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
        let schema = r#"xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance""#;
        let body = root("R&amp;D <![CDATA[<x>]]>&#65;").replacen(' ', "\n", 1);
        let body = body.replacen("<catalog>", &format!("<catalog {schema}>"), 1);
        check(
            &format!("\u{feff}{declaration}\n<!-- it -->\n{body}\n"),
            expect![[r#"catalog "R&D\n<x>A""#]],
        );
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        check("", expect!["has no root at line 1"]);
        check("{}", expect!["has text outside its root at line 1"]);
        check("<catalog>", expect!["has an element that is not closed at line 1"]);
        check("<catalog></catalogue>", expect!["is not well-formed at line 1"]);
        check(&format!("{}<a/>", root("")), expect!["has a second root at line 1"]);
        check(&format!("{}x", root("")), expect!["has text outside its root at line 1"]);
        for attributes in ["b='1' b='2'", "b=1", "b='&lol;'"] {
            check(
                &root(&format!("<a {attributes}/>")),
                expect!["has an attribute that is not well-formed at line 1"],
            );
        }
        for text in ["<1/>", "<!-- a -- b -->", "]]>"] {
            check(&root(text), expect!["is not well-formed at line 1"]);
        }
        for entity in ["&lol;", "&#0;"] {
            check(&root(entity), expect!["has an entity that XML does not define at line 1"]);
        }
        check(&root("\u{1e}"), expect!["has a character that XML does not have at line 1"]);
        check(
            &root("<?xml version='1.0'?>"),
            expect!["has a declaration that is not of XML 1.0 in UTF-8 at line 1"],
        );
        check(
            &format!("<?xml version='1.0' encoding='UTF-16'?>{}", root("")),
            expect!["has a declaration that is not of XML 1.0 in UTF-8 at line 1"],
        );
        check(
            &format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{}", root("")),
            expect!["has a document type at line 1"],
        );
        check(&root(&"<a>".repeat(64)), expect!["is nested more than 64 deep at line 1"]);
    }
}
