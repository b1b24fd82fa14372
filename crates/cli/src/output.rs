//! How commands print what a server says.

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
