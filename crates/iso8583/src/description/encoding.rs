//! Decodes an XML file with its declared encoding.

use std::borrow::Cow;

use super::error::DescriptionError;

/// Decodes a file.
pub(super) fn decoded(bytes: &[u8]) -> Result<Cow<'_, str>, DescriptionError> {
    if bytes.starts_with(&[0xFE, 0xFF]) || bytes.starts_with(&[0xFF, 0xFE]) {
        return Err(unknown("UTF-16"));
    }
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let declared = declared(bytes).unwrap_or("UTF-8");
    let is = |names: &[&str]| names.iter().any(|name| declared.eq_ignore_ascii_case(name));
    if is(&["ISO-8859-1", "ISO8859-1", "ISO_8859-1", "latin1"]) {
        return Ok(bytes.iter().map(|byte| char::from(*byte)).collect());
    }
    let is_ascii = is(&["US-ASCII", "ASCII"]);
    if !is_ascii && !is(&["UTF-8", "UTF8"]) {
        return Err(unknown(declared));
    }
    let invalid = match std::str::from_utf8(bytes) {
        Ok(text) if !is_ascii || text.is_ascii() => return Ok(text.into()),
        Ok(_) => bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or(bytes.len()),
        Err(error) => error.valid_up_to(),
    };
    let line = 1 + bytes.iter().take(invalid).filter(|byte| **byte == b'\n').count();
    let name = if is_ascii { "US-ASCII" } else { "UTF-8" };
    let message = format!(
        "this is not {name}; another encoding, such as ISO-8859-1, is declared in the first line"
    );
    Err(DescriptionError::Unreadable { line: Some(line), key: String::new(), message })
}

fn unknown(encoding: &str) -> DescriptionError {
    let message =
        format!("the encoding `{encoding}` is not known; UTF-8, ISO-8859-1 and US-ASCII are");
    DescriptionError::Unreadable { line: Some(1), key: String::new(), message }
}

/// The encoding in `<?xml version="1.0" encoding="..."?>`.
fn declared(bytes: &[u8]) -> Option<&str> {
    let rest = bytes.strip_prefix(b"<?xml")?;
    let end = rest.windows(2).position(|window| window == b"?>")?;
    let declaration = std::str::from_utf8(&rest[..end]).ok()?;
    let value = declaration.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|it| matches!(it, '"' | '\''))?;
    value[1..].split_once(quote).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_encodings_are_decoded() {
        let check = |head: &str, name: &[u8], expected: &str| {
            let file = [head.as_bytes(), b"\n<a name='", name, b"'/>"].concat();
            let ours = match decoded(&file) {
                Ok(text) => text.split('\'').rev().nth(1).unwrap_or_default().to_owned(),
                Err(error) => error.to_string(),
            };
            assert_eq!(ours, expected, "{head}");
        };
        let declared = |name: &str| format!("<?xml version=\"1.0\" encoding=\"{name}\"?>");
        let not_utf8 = "line 2: this is not UTF-8; another encoding, such as ISO-8859-1, is \
                        declared in the first line";
        check(&declared("ISO-8859-1"), b"Caf\xE9", "Caf\u{e9}");
        check("<?xml version='1.0' encoding = 'iso-8859-1' ?>", b"Caf\xE9", "Caf\u{e9}");
        check(&declared("UTF-8"), b"Caf\xC3\xA9", "Caf\u{e9}");
        check("", b"Caf\xC3\xA9", "Caf\u{e9}");
        check("\u{feff}<?xml version='1.0'?>", b"Caf\xC3\xA9", "Caf\u{e9}");
        check(&declared("UTF-8"), b"Caf\xE9", not_utf8);
        check("", b"Caf\xE9", not_utf8);
        check("<!-- encoding='ISO-8859-1' -->", b"Caf\xE9", not_utf8);
        check(&declared("US-ASCII"), b"Cafe", "Cafe");
        check(&declared("us-ascii"), b"Caf\xC3\xA9", &not_utf8.replace("UTF-8", "US-ASCII"));
        let unknown = "is not known; UTF-8, ISO-8859-1 and US-ASCII are";
        check(
            &declared("windows-1252"),
            b"Cafe",
            &format!("line 1: the encoding `windows-1252` {unknown}"),
        );
        let utf16 = decoded(b"\xFF\xFE<\0").map_err(|error| error.to_string());
        assert_eq!(utf16, Err(format!("line 1: the encoding `UTF-16` {unknown}")));
    }

    #[test]
    fn a_packager_file_may_be_in_latin1() {
        let file = b"<?xml version='1.0' encoding='ISO-8859-1'?>\n<isopackager>\
            <isofield id='0' length='4' name='MTI' class='org.jpos.iso.IFA_NUMERIC'/>\
            <isofield id='1' length='16' name='' class='IFB_BITMAP'/>\
            <isofield id='2' length='4' name='n\xFAmero' class='IFA_NUMERIC'/></isopackager>";
        let packager = crate::packager::Packager::from_jpos_xml_bytes(file);
        let name = packager.map(|packager| packager.field_name(2).to_owned());
        assert_eq!(name, Ok("n\u{fa}mero".to_owned()));
    }
}
