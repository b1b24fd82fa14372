//! Check values: that a row which the journal does not vouch for is as it was written.
//!
//! A checked table's last two columns are `check_made`, over the row's key and the columns that stay as they
//! were made, and `check_now`, over the key and those that change. Each is SipHash-2-4, 64 bits, under the
//! installation's key, over the table's name and the columns: for each a byte for its kind, for a text its
//! length in 8 bytes, and its bytes; integers have 8. Numbers are little-endian.
//!
//! The key is in the database. So a damaged page, an edit by SQL, and a row that was copied from another
//! table or installation are found; who can read the key could write check values, too. Against such the
//! journal's chain is anchored elsewhere: `docs/explanation/journal-chain.md`.

use engine::ports::StoreError;
use siphasher::sip::SipHasher24;

use super::{Cell, Cells, Reader, Value};
use crate::table::{CHECKS, INSTALLATION, Table};

/// As long as the form of most rows.
const FORM_BYTES: usize = 256;

/// The row of [`INSTALLATION`] of a new database.
pub(crate) fn new_installation() -> [Value<'static>; 4] {
    let key = secrets::random::bytes();
    let row = [1.into(), Value::Id(key)];
    let [made, now] = CheckKey::new(key).of_row(&INSTALLATION, &row);
    [row[0], row[1], made.into(), now.into()]
}

/// The installation's key.
#[derive(Clone)]
pub(crate) struct CheckKey(SipHasher24);

impl CheckKey {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(&key))
    }

    /// The key of a database.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] where it has none.
    pub(crate) fn read(reader: &Reader) -> Result<Self, StoreError> {
        let sql = "SELECT check_key FROM installation WHERE id = 1";
        let key = reader.query_one(sql, &[], |cells| {
            cells.of(&INSTALLATION);
            cells.id()
        })?;
        let missing = || StoreError::Corrupt {
            table: INSTALLATION.name,
            reason: "its row is not there".to_owned(),
        };
        key.map(|key| Self::new(key.into_bytes())).ok_or_else(missing)
    }

    /// `check_made` and `check_now` of a row, of all its columns but these two.
    pub(crate) fn of_row(&self, table: &Table, row: &[Value<'_>]) -> [i64; CHECKS] {
        let (mut made, mut now) = (Form::of(table), Form::of(table));
        for (at, (column, value)) in table.columns.iter().zip(row).enumerate() {
            // Rows that are older than the column keep their check values.
            if column.added.is_some() && matches!(value, Value::Null) {
                continue;
            }
            let is_key = at < table.key_columns;
            if is_key || column.fixed {
                made.add(*value);
            }
            if is_key || !column.fixed {
                now.add(*value);
            }
        }
        [self.hash(&made), self.hash(&now)]
    }

    /// `check_now` of a row, of its key and the columns that change.
    pub(crate) fn of_changing(&self, table: &Table, columns: &[Value<'_>]) -> i64 {
        let mut now = Form::of(table);
        for value in columns {
            now.add(*value);
        }
        self.hash(&now)
    }

    /// Whether a row of a checked table, all of whose columns these are, is as it was written.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] where a column holds something else.
    pub(crate) fn holds(&self, table: &Table, cells: &mut Cells<'_>) -> Result<bool, StoreError> {
        cells.of(table);
        let columns = table.columns.iter().map(|column| Cell::read(column.kind, cells));
        let columns = columns.collect::<Result<Vec<Cell>, StoreError>>()?;
        let (columns, found) = columns.split_at(columns.len() - CHECKS);
        let columns: Vec<Value<'_>> = columns.iter().map(Cell::value).collect();
        Ok(*found == self.of_row(table, &columns).map(Cell::Int))
    }

    fn hash(&self, form: &Form) -> i64 {
        self.0.hash(&form.0).cast_signed()
    }
}

/// The hashed bytes: the table's name and its columns, each in its form.
struct Form(Vec<u8>);

impl Form {
    fn of(table: &Table) -> Self {
        let mut form = Self(Vec::with_capacity(FORM_BYTES));
        form.add(Value::Text(table.name));
        form
    }

    fn add(&mut self, value: Value<'_>) {
        let Self(bytes) = self;
        match value {
            Value::Null => bytes.push(0),
            Value::Int(value) => {
                bytes.push(1);
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            Value::Text(text) => {
                bytes.push(2);
                bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
            Value::Id(id) => {
                bytes.push(3);
                bytes.extend_from_slice(&id);
            }
            Value::Real(value) => {
                bytes.push(4);
                bytes.extend_from_slice(&value.to_bits().to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::table::{CHECKED, id, int, text};

    static TENANT_VALUE: Table = Table { name: "tenant_value", ..CHECKED }.of(&[
        int("tenant"),
        text("name"),
        id("id").fixed(),
        text("value").null(),
        int("seq"),
    ]);

    /// The form of 0.1.0: a change of it would make every row that was written invalid.
    #[test]
    fn check_values_have_the_documented_form() {
        let key = CheckKey::new([7; 16]);
        let row = [Value::Int(1), Value::Text("name"), Value::Id([2; 16]), Value::Null, 9.into()];
        let [made, now] = key.of_row(&TENANT_VALUE, &row);
        expect!["2017366460257662874 4617976127620674402"].assert_eq(&format!("{made} {now}"));
        let changing = [row[0], row[1], row[3], row[4]];
        assert_eq!(key.of_changing(&TENANT_VALUE, &changing), now);
        assert_ne!(CheckKey::new([8; 16]).of_row(&TENANT_VALUE, &row), [made, now]);
    }

    #[test]
    fn a_check_value_covers_each_column_once() {
        let key = CheckKey::new([7; 16]);
        let row = [Value::Int(1), Value::Text("name"), Value::Id([2; 16]), Value::Null, 9.into()];
        let of_row = key.of_row(&TENANT_VALUE, &row);
        let other = [Value::Int(2), Value::Text("eman"), Value::Id([3; 16]), "".into(), 8.into()];
        let changed = |at: usize| {
            let mut row = row;
            row[at] = other[at];
            let [made, now] = key.of_row(&TENANT_VALUE, &row);
            (made != of_row[0], now != of_row[1])
        };
        let changed: Vec<_> = (0..row.len()).map(changed).collect();
        let (key, fixed, changing) = ((true, true), (true, false), (false, true));
        assert_eq!(changed, [key, key, fixed, changing, changing]);
    }
}
