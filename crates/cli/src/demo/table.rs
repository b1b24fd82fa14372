//! Plain text in columns.

/// Aligns rows under a header; columns of numbers are right-aligned.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let numeric = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)).filter(|cell| *cell != "-");
        cells.clone().next().is_some() && cells.all(|cell| is_number(cell))
    };
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(header[column].chars().count())
    };
    let columns: Vec<_> = (0..header.len()).map(|at| (width(at), numeric(at))).collect();
    let header: Vec<_> = header.iter().map(|&name| name.to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::from("   ");
        for (cell, (width, numeric)) in row.iter().zip(&columns) {
            let padded =
                if *numeric { format!(" {cell:>width$} ") } else { format!(" {cell:<width$} ") };
            line.push_str(&padded);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn is_number(cell: &str) -> bool {
    cell.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// The first line is not indented, so that `expect!` keeps the table's indentation.
    fn check(header: &[&str], rows: &[Vec<String>], expected: Expect) {
        expected.assert_eq(&format!("table\n{}", table(header, rows)));
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["one", "1.50", "x"], ["three", "1000.00", "-"], ["", "-", "y"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        check(
            &["name", "amount", "flag"],
            &rows,
            expect![[r#"
            table
                name    amount  flag
                one       1.50  x
                three  1000.00  -
                             -  y
        "#]],
        );
        check(
            &["name", "amount"],
            &[],
            expect![[r#"
            table
                name  amount
        "#]],
        );
    }
}
