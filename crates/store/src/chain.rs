//! The hash chain over a partition's journal. Each row holds a hash of itself and of the hash before, so
//! that no row can be edited, removed or moved without a trace: `docs/explanation/journal-chain.md`.
//!
//! # The hashed form, version 1
//! `SHA-256("faregate journal 1\n" + previous + "\n" + columns)`. `previous` is the text in the column
//! `chain` of the partition's row before, empty for its first. `columns` are all columns but `chain`, in
//! the order of the table: `-` for NULL, otherwise `<length>:<bytes>` with the length in decimal. An
//! integer is its decimal text, an id its 16 bytes, a text its UTF-8. The column holds `1:` and the hash
//! in lower-case hexadecimal; the number names the form, so that a later form needs no new hashes for the
//! rows before.

use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};

use crate::driver::Value;

/// The version of the hashed form that is written.
const FORM: &str = "1:";
/// As long as what is hashed for most rows; it is hashed as a whole, which takes less than piece by piece.
const HASHED_BYTES: usize = 1024;
/// The prefix of the hashed bytes, so that hashes of journal rows differ from all others.
const PREFIX: &[u8] = b"faregate journal 1\n";

/// The hash of a partition's newest journal row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// The partition has no row yet.
    Start,
    Hash([u8; 32]),
}

impl Link {
    /// The link in the text of the column; `None` where it is no hash of a known form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hash = HEXLOWER.decode(text.strip_prefix(FORM)?.as_bytes()).ok()?;
        Some(Self::Hash(hash.try_into().ok()?))
    }

    /// The text of the column.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Start => String::new(),
            Self::Hash(hash) => {
                let mut text = String::with_capacity(FORM.len() + HEXLOWER.encode_len(hash.len()));
                text.push_str(FORM);
                HEXLOWER.encode_append(&hash, &mut text);
                text
            }
        }
    }

    /// Begins the link of the next row.
    pub(crate) fn next(self) -> NextLink {
        let mut next = NextLink::after(PREFIX);
        next.0.extend_from_slice(self.text().as_bytes());
        next.0.push(b'\n');
        next
    }

    /// The link of the next row, of its columns but `chain`.
    pub(crate) fn of_row(self, columns: &[Value<'_>]) -> Self {
        let mut next = self.next();
        next.columns(columns);
        next.finish()
    }
}

/// The hash of these columns in the form of a link, after a prefix that no other hash has.
pub(crate) fn hash(prefix: &[u8], columns: &[Value<'_>]) -> [u8; 32] {
    let mut hashed = NextLink::after(prefix);
    hashed.columns(columns);
    hashed.hash()
}

/// A link in the making: the columns are added in the order of the table.
pub(crate) struct NextLink(Vec<u8>);

impl NextLink {
    fn after(prefix: &[u8]) -> Self {
        let mut hashed = Vec::with_capacity(HASHED_BYTES);
        hashed.extend_from_slice(prefix);
        Self(hashed)
    }

    fn columns(&mut self, columns: &[Value<'_>]) {
        for value in columns {
            match value {
                Value::Null => self.null(),
                Value::Int(value) => self.int(*value),
                Value::Text(value) => self.bytes(value.as_bytes()),
                Value::Id(value) => self.bytes(value),
                Value::Real(_) => unreachable!("what is hashed has no such column"),
            }
        }
    }

    pub(crate) fn null(&mut self) {
        self.0.push(b'-');
    }

    pub(crate) fn int(&mut self, value: i64) {
        self.bytes(itoa::Buffer::new().format(value).as_bytes());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.0.extend_from_slice(itoa::Buffer::new().format(value.len()).as_bytes());
        self.0.push(b':');
        self.0.extend_from_slice(value);
    }

    pub(crate) fn finish(self) -> Link {
        Link::Hash(self.hash())
    }

    fn hash(&self) -> [u8; 32] {
        digest(&SHA256, &self.0).as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// The form of 0.1.0: a change of it would make every journal that was written invalid.
    #[test]
    fn links_have_the_documented_form() {
        let row = [Value::Int(-7), Value::Null, Value::Text("é"), Value::Id([1; 16])];
        let first = Link::Start.of_row(&row);
        expect!["1:9238e24fcfd2769e81041364060ff0a4c6187d154fe6cf4ee279409be2269441"]
            .assert_eq(&first.text());
        assert_eq!(Link::parse(&first.text()), Some(first));
        let second = first.of_row(&row);
        assert_ne!(second, first, "the same row in another place has another hash");
        // NULL and an empty text, and texts that are cut elsewhere, are not the same.
        let cut = |texts: [&str; 2]| Link::Start.of_row(&texts.map(Value::Text));
        assert_ne!(cut(["a", "bc"]), cut(["ab", "c"]));
        assert_ne!(Link::Start.of_row(&[Value::Null]), Link::Start.of_row(&[Value::Text("")]));
    }

    #[test]
    fn texts_of_other_forms_are_not_links() {
        for text in
            ["", "1:", "1:00", "2:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]
        {
            assert_eq!(Link::parse(text), None, "{text}");
        }
    }
}
