//! Reads the name and the effective date of a catalog in XML, which are all that an upload needs of it.

use std::fmt;

use domain::Timestamp;
use domain::tenant::VALUES_BYTES_MAX;

use crate::date;
use crate::request::printable;
use crate::xml::{self, Element};

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
    /// From 1, where it is known.
    line: Option<usize>,
    reason: String,
}

impl Refusal {
    fn of(element: &'static str, reason: impl Into<String>) -> Self {
        Self { element: Some(element), line: None, reason: reason.into() }
    }

    fn at(line: usize, reason: impl Into<String>) -> Self {
        Self { element: None, line: Some(line), reason: reason.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("catalog")?;
        self.element.map_or(Ok(()), |element| write!(f, " {element}"))?;
        write!(f, " {}", self.reason)?;
        self.line.map_or(Ok(()), |line| write!(f, " at line {line}"))
    }
}

/// Reads a version.
///
/// # Errors
/// [`Refusal`].
pub(crate) fn read(text: &str) -> Result<Version, Refusal> {
    if text.len() > VALUES_BYTES_MAX {
        let reason = "has more than 256 KiB".to_owned();
        return Err(Refusal { element: None, line: None, reason });
    }
    let root = xml::read(text).map_err(|it| Refusal::at(it.line, it.to_string()))?;
    if root.name != "catalog" {
        let reason = format!("has the root {}: it should be catalog", printable(&root.name));
        return Err(Refusal::at(root.line, reason));
    }
    let name = text_of(&root, "catalogName").unwrap_or_default();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        let reason = format!("should be a text of at most {NAME_CHARS_MAX} characters");
        return Err(Refusal::of("catalogName", reason));
    }
    let Some(date) = text_of(&root, "effectiveDate") else {
        return Err(Refusal::of("effectiveDate", "is missing"));
    };
    let Some(effective_at) = date::parse(date) else {
        let reason = format!("{} is no date with time (ISO 8601)", printable(date));
        return Err(Refusal::of("effectiveDate", reason));
    };
    Ok(Version { name: name.to_owned(), effective_at })
}

/// The text of the first element of a name below the root.
fn text_of<'a>(root: &'a Element, name: &str) -> Option<&'a str> {
    root.elements.iter().find(|it| it.name == name).map(|it| it.text.as_str())
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
        check("", expect!["catalog has no root at line 1"]);
        check("{}", expect!["catalog has text outside its root at line 1"]);
        check("<catalog>", expect!["catalog has an element that is not closed at line 1"]);
        check("<catalog></catalogue>", expect!["catalog is not well-formed at line 1"]);
        check(&format!("{}<a/>", catalog("")), expect!["catalog has a second root at line 1"]);
        check(&format!("{}x", catalog("")), expect!["catalog has text outside its root at line 1"]);
        check(
            &catalog("<a b='1' b='2'/>"),
            expect!["catalog has an attribute that is not well-formed at line 1"],
        );
        check(
            &catalog("<a b=1/>"),
            expect!["catalog has an attribute that is not well-formed at line 1"],
        );
        check(
            &catalog("<a b='&lol;'/>"),
            expect!["catalog has an attribute that is not well-formed at line 1"],
        );
        check(&catalog("<1/>"), expect!["catalog is not well-formed at line 1"]);
        check(&catalog("<!-- a -- b -->"), expect!["catalog is not well-formed at line 1"]);
        check(
            &catalog("&lol;"),
            expect!["catalog has an entity that XML does not define at line 1"],
        );
        check(
            &catalog("&#0;"),
            expect!["catalog has an entity that XML does not define at line 1"],
        );
        check(&catalog("]]>"), expect!["catalog is not well-formed at line 1"]);
        check(
            &catalog("\u{1e}"),
            expect!["catalog has a character that XML does not have at line 1"],
        );
        check(
            &catalog("<?xml version='1.0'?>"),
            expect!["catalog has a declaration that is not of XML 1.0 in UTF-8 at line 1"],
        );
        check(
            &format!("<?xml version='1.0' encoding='UTF-16'?>{}", catalog("")),
            expect!["catalog has a declaration that is not of XML 1.0 in UTF-8 at line 1"],
        );
        check(
            &format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{}", catalog("")),
            expect!["catalog has a document type at line 1"],
        );
        check(
            &catalog(&"<a>".repeat(64)),
            expect!["catalog is nested more than 64 deep at line 1"],
        );
        check(&catalog(&"x".repeat(VALUES_BYTES_MAX)), expect!["catalog has more than 256 KiB"]);
    }

    #[test]
    fn a_version_without_name_or_date_is_refused_by_name() {
        check(
            "<overdue/>",
            expect!["catalog has the root overdue: it should be catalog at line 1"],
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
