//! How commands print what a server says.

use serde_json::Value;

/// A text of foreign origin, without control characters that a terminal would execute.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect()
}

/// Rows below their headings, each column as wide as its widest cell.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let headings: Vec<String> = headings.iter().map(|&it| it.to_owned()).collect();
    let all = || std::iter::once(&headings).chain(rows);
    let mut widths = vec![0; headings.len()];
    for row in all() {
        let cells = widths.iter_mut().zip(row);
        cells.for_each(|(width, cell)| *width = (*width).max(cell.chars().count()));
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    all().map(line).collect()
}

/// JSON on one line. Control characters that a terminal would execute are escaped, also those that JSON
/// allows.
pub(crate) fn json(value: &Value) -> String {
    raw(&value.to_string())
}

/// JSON as the server wrote it, so that `12.50` stays `12.50`; as [`json`].
pub(crate) fn raw(json: &str) -> String {
    let mut text = String::new();
    for it in json.chars() {
        // Between values; in texts they are escaped already.
        if matches!(it, '\n' | '\r' | '\t') {
            continue;
        }
        if it.is_control() {
            text += &format!("\\u{:04x}", u32::from(it));
        } else {
            text.push(it);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let value = Value::from("a\u{9b}31m\u{7f}\n\u{e4}");
        assert_eq!(json(&value), "\"a\\u009b31m\\u007f\\n\u{e4}\"");
        assert_eq!(serde_json::from_str::<Value>(&json(&value)).unwrap(), value);
        assert_eq!(raw("{\n\t\"a\": 12.50}\n"), "{\"a\": 12.50}");
        assert_eq!(plain("a\u{1b}[31m"), "a\u{fffd}[31m");
    }
}
