//! Reads the name and the effective date of a catalog in XML, and refuses what is not well-formed.
//!
//! The reader expands no entities and fetches nothing. A document type is refused.

use std::fmt;

use domain::Timestamp;
use domain::tenant::VALUES_BYTES_MAX;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesDecl, BytesStart, Event};
use quick_xml::reader::Reader;

use crate::date;
use crate::request::printable;

/// How deep elements are nested at most.
const DEPTH_MAX: usize = 64;

/// The longest name of a catalog, in characters.
const NAME_CHARS_MAX: usize = 255;

/// A version of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) effective_at: Timestamp,
}

/// Why a text is no version of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The element, where it is one.
    element: Option<&'static str>,
    /// The offset in the text, where it is known.
    offset: Option<usize>,
    reason: String,
}

impl Refusal {
    fn of(element: &'static str, reason: impl Into<String>) -> Self {
        Self { element: Some(element), offset: None, reason: reason.into() }
    }

    fn at(offset: usize, reason: impl Into<String>) -> Self {
        Self { element: None, offset: Some(offset), reason: reason.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("catalog")?;
        self.element.map_or(Ok(()), |element| write!(f, " {element}"))?;
        write!(f, " {}", self.reason)?;
        self.offset.map_or(Ok(()), |offset| write!(f, " at byte {offset}"))
    }
}

/// Reads a version.
///
/// # Errors
/// [`Refusal`].
pub(crate) fn read(text: &str) -> Result<Version, Refusal> {
    if text.len() > VALUES_BYTES_MAX {
        let offset = None;
        return Err(Refusal { element: None, offset, reason: "has more than 256 KiB".to_owned() });
    }
    let mut document = Document::default();
    document.read(text.strip_prefix('\u{feff}').unwrap_or(text))?;
    let name = document.name.unwrap_or_default();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        let reason = format!("should be a text of at most {NAME_CHARS_MAX} characters");
        return Err(Refusal::of("catalogName", reason));
    }
    let Some(date) = document.date else {
        return Err(Refusal::of("effectiveDate", "is missing"));
    };
    let Some(effective_at) = date::parse(&date) else {
        let reason = format!("{} is no date with time (ISO 8601)", printable(&date));
        return Err(Refusal::of("effectiveDate", reason));
    };
    Ok(Version { name, effective_at })
}

/// The elements below the root that are read.
const NAME: &str = "catalogName";
const DATE: &str = "effectiveDate";

#[derive(Default)]
struct Document {
    /// How many elements are open.
    depth: usize,
    has_root: bool,
    /// The text of the open element below the root.
    text: String,
    name: Option<String>,
    date: Option<String>,
}

impl Document {
    fn read(&mut self, text: &str) -> Result<(), Refusal> {
        let mut reader = Reader::from_str(text);
        reader.config_mut().check_comments = true;
        let mut is_first = true;
        loop {
            let at = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
            let event = reader.read_event();
            let event = event.map_err(|_| Refusal::at(at, "is not well-formed"))?;
            match event {
                Event::Eof => return self.end_of_text(text.len()),
                Event::DocType(_) => return Err(Refusal::at(at, "has a document type")),
                Event::Decl(declaration) => check_declaration(&declaration, is_first, at)?,
                Event::PI(instruction) => {
                    let target = instruction.target();
                    if target.eq_ignore_ascii_case("xml") || !is_name(target) {
                        return Err(Refusal::at(at, "is not well-formed"));
                    }
                }
                Event::Comment(comment) => check_characters(&comment, at)?,
                Event::Start(start) => self.start(&start, at)?,
                Event::Empty(start) => {
                    self.start(&start, at)?;
                    self.end(start.name().0);
                }
                Event::End(end) => self.end(end.name().0),
                Event::Text(part) => {
                    if part.contains("]]>") {
                        return Err(Refusal::at(at, "is not well-formed"));
                    }
                    self.text(&part, at)?;
                }
                Event::CData(part) if self.depth == 0 => {
                    return Err(Refusal::at(
                        at,
                        format!("has text outside its root: {}", part.len()),
                    ));
                }
                Event::CData(part) => self.text(&part, at)?,
                Event::GeneralRef(name) => {
                    let known = quick_xml::escape::resolve_predefined_entity(&name);
                    let character = name.resolve_char_ref().ok().flatten();
                    match (known, character) {
                        (Some(known), _) => self.text(known, at)?,
                        (None, Some(it)) => self.text(it.encode_utf8(&mut [0; 4]), at)?,
                        (None, None) => {
                            return Err(Refusal::at(at, "has an entity that XML does not define"));
                        }
                    }
                }
            }
            is_first = false;
        }
    }

    fn start(&mut self, start: &BytesStart<'_>, at: usize) -> Result<(), Refusal> {
        let name = start.name().0;
        if !is_name(name) {
            return Err(Refusal::at(at, "is not well-formed"));
        }
        if self.depth == 0 && self.has_root {
            return Err(Refusal::at(at, "has a second root"));
        }
        if self.depth == 0 && name != "catalog" {
            let reason = format!("has the root {}: it should be catalog", printable(name));
            return Err(Refusal::at(at, reason));
        }
        if self.depth == DEPTH_MAX {
            return Err(Refusal::at(at, format!("is nested more than {DEPTH_MAX} deep")));
        }
        for attribute in start.attributes() {
            let value = attribute.ok().filter(|it| is_name(it.key.0) && !it.value.contains('<'));
            let value = value.and_then(|it| {
                let value = it.normalized_value(XmlVersion::Implicit1_0).ok()?;
                Some(value.into_owned())
            });
            let value =
                value.ok_or_else(|| Refusal::at(at, "has an attribute that is not well-formed"))?;
            check_characters(&value, at)?;
        }
        (self.depth, self.has_root) = (self.depth + 1, true);
        self.text.clear();
        Ok(())
    }

    /// The reader has compared the name with that of the start.
    fn end(&mut self, name: &str) {
        if self.depth == 2 && name == NAME {
            self.name.get_or_insert_with(|| self.text.trim().to_owned());
        }
        if self.depth == 2 && name == DATE {
            self.date.get_or_insert_with(|| self.text.trim().to_owned());
        }
        self.depth = self.depth.saturating_sub(1);
        self.text.clear();
    }

    fn text(&mut self, part: &str, at: usize) -> Result<(), Refusal> {
        check_characters(part, at)?;
        if self.depth == 0 && !part.trim().is_empty() {
            return Err(Refusal::at(at, "has text outside its root"));
        }
        if self.depth == 2 {
            self.text.push_str(part);
        }
        Ok(())
    }

    fn end_of_text(&self, at: usize) -> Result<(), Refusal> {
        match (self.depth, self.has_root) {
            (0, true) => Ok(()),
            (0, false) => Err(Refusal::at(at, "has no root")),
            (_, _) => Err(Refusal::at(at, "has an element that is not closed")),
        }
    }
}

/// A declaration begins the text, and names the encoding that it has.
fn check_declaration(it: &BytesDecl<'_>, is_first: bool, at: usize) -> Result<(), Refusal> {
    let is_utf8 = match it.encoding() {
        None => true,
        Some(Ok(encoding)) => encoding.eq_ignore_ascii_case("UTF-8"),
        Some(Err(_)) => false,
    };
    match is_first && is_utf8 && it.version().is_ok_and(|it| it == "1.0") {
        true => Ok(()),
        false => Err(Refusal::at(at, "has a declaration that is not of XML 1.0 in UTF-8")),
    }
}

fn check_characters(text: &str, at: usize) -> Result<(), Refusal> {
    let is_allowed = |it: char| match it {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => it >= ' ',
    };
    match text.chars().all(is_allowed) {
        true => Ok(()),
        false => Err(Refusal::at(at, "has a character that XML does not have")),
    }
}

/// Whether a text can be the name of an element or attribute.
fn is_name(text: &str) -> bool {
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
            Ok(version) => format!("{} {}", version.name, version.effective_at.0),
            Err(refusal) => refusal.to_string(),
        };
        expected.assert_eq(&shown);
    }

    fn catalog(rest: &str) -> String {
        let date = "<effectiveDate>2020-01-02T00:00:00+00:00</effectiveDate>";
        format!("<catalog>{date}<catalogName>Gold</catalogName>{rest}</catalog>")
    }

    #[test]
    fn name_and_date_of_a_version_are_read() {
        let declaration = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
        let schema = r#"xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance""#;
        let body = catalog("<plans><plan name='a &amp; b'>&#65;<![CDATA[<x>]]></plan></plans>");
        let body = body.replacen("<catalog>", &format!("<catalog {schema}>"), 1);
        check(&format!("{declaration}\n<!-- it -->\n{body}\n"), expect!["Gold 1577923200000000"]);
        check(
            &catalog("<a><catalogName>Other</catalogName></a>"),
            expect!["Gold 1577923200000000"],
        );
        check(&catalog("").replace("Gold", " R&amp;D "), expect!["R&D 1577923200000000"]);
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        check("", expect!["catalog has no root at byte 0"]);
        check("{}", expect!["catalog has text outside its root at byte 0"]);
        check("<catalog>", expect!["catalog has an element that is not closed at byte 9"]);
        check("<catalog></catalogue>", expect!["catalog is not well-formed at byte 9"]);
        check(&format!("{}<a/>", catalog("")), expect!["catalog has a second root at byte 106"]);
        check(
            &format!("{}x", catalog("")),
            expect!["catalog has text outside its root at byte 106"],
        );
        check(
            &catalog("<a b='1' b='2'/>"),
            expect!["catalog has an attribute that is not well-formed at byte 96"],
        );
        check(
            &catalog("<a b=1/>"),
            expect!["catalog has an attribute that is not well-formed at byte 96"],
        );
        check(
            &catalog("<a b='&lol;'/>"),
            expect!["catalog has an attribute that is not well-formed at byte 96"],
        );
        check(&catalog("<1/>"), expect!["catalog is not well-formed at byte 96"]);
        check(&catalog("<!-- a -- b -->"), expect!["catalog is not well-formed at byte 96"]);
        check(
            &catalog("&lol;"),
            expect!["catalog has an entity that XML does not define at byte 96"],
        );
        check(
            &catalog("&#0;"),
            expect!["catalog has an entity that XML does not define at byte 96"],
        );
        check(&catalog("]]>"), expect!["catalog is not well-formed at byte 96"]);
        check(
            &catalog("\u{1e}"),
            expect!["catalog has a character that XML does not have at byte 96"],
        );
        check(
            &catalog("<?xml version='1.0'?>"),
            expect!["catalog has a declaration that is not of XML 1.0 in UTF-8 at byte 96"],
        );
        check(
            &format!("<?xml version='1.0' encoding='UTF-16'?>{}", catalog("")),
            expect!["catalog has a declaration that is not of XML 1.0 in UTF-8 at byte 0"],
        );
        check(
            &format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{}", catalog("")),
            expect!["catalog has a document type at byte 0"],
        );
        check(
            &catalog(&"<a>".repeat(DEPTH_MAX)),
            expect!["catalog is nested more than 64 deep at byte 285"],
        );
        check(&catalog(&"x".repeat(VALUES_BYTES_MAX)), expect!["catalog has more than 256 KiB"]);
    }

    #[test]
    fn a_version_without_name_or_date_is_refused_by_name() {
        check(
            "<overdue/>",
            expect!["catalog has the root overdue: it should be catalog at byte 0"],
        );
        check(
            "<catalog/>",
            expect!["catalog catalogName should be a text of at most 255 characters"],
        );
        check(
            "<catalog><catalogName>a</catalogName></catalog>",
            expect!["catalog effectiveDate is missing"],
        );
        let without_time = catalog("").replace("2020-01-02T00:00:00+00:00", "soon");
        check(&without_time, expect!["catalog effectiveDate soon is no date with time (ISO 8601)"]);
    }
}
