//! Formats for the tests in a textual form.

use iso8583::Packager;
use iso8583::packager::{FieldDescription, Table};

/// Compiles a table with one field per line, such as `35 IFB_LLNUM 37`. Inner fields are indented.
pub fn packager(text: &str) -> Packager {
    let mut table = Table::new();
    let mut outer = None;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let mut word = || words.next().expect("number, class, length");
        let number: u16 = word().parse().expect("a number");
        let (class, length) = (word().to_owned(), word().parse().expect("a length"));
        let pad = words.next() == Some("left");
        let description = FieldDescription { class, length, pad, ..FieldDescription::default() };
        if line.starts_with("  ") {
            let outer: &mut FieldDescription =
                outer.and_then(|it| table.get_mut(&it)).expect("an outer field");
            outer.sub.get_or_insert_default().insert(number, description);
        } else {
            table.insert(number, description);
            outer = Some(number);
        }
    }
    Packager::from_table(&table).expect("the table compiles")
}

/// A field of each kind.
pub fn mixed() -> Packager {
    packager(MIXED)
}

pub const MIXED: &str = "\
0 IFB_NUMERIC 4
1 IFB_BITMAP 16
2 IFB_LLNUM 19
3 IFB_NUMERIC 6
4 IFB_NUMERIC 12
11 IFA_NUMERIC 6
12 IFB_NUMERIC 3 left
13 IFB_NUMERIC 3
22 IFEB_LLNUM 12
28 IFB_AMOUNT 9
32 IFA_LLNUM 11
35 IFB_LLNUM 37
37 IF_CHAR 12
39 IF_CHAR 2
41 IFE_CHAR 8
43 IFA_LLCHAR 40
44 IFE_LLCHAR 25
48 IFA_LLLCHAR 999
  1 IFA_NUMERIC 2
  2 IF_CHAR 6
  3 IFA_LLCHAR 99
52 IFB_BINARY 8
53 IFA_BINARY 8
55 IFB_LLLBINARY 255
60 IFA_LLLBINARY 999
  0 IFB_BITMAP 8
  1 IFB_NUMERIC 2
  2 IFA_LLCHAR 10
  33 IF_CHAR 3
62 IFA_LLLCHAR 999
  1 IFA_TTLLCHAR 99
  2 IFA_TTLLCHAR 99
  42 IFA_TTLLCHAR 99
63 IFB_FLLNUM 9
70 IFB_NUMERIC 3 left
90 IFE_NUMERIC 42
102 IFB_LLHCHAR 28
128 IFB_BINARY 8
";
