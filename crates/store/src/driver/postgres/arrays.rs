//! Values on their way to a server and back: rows as one array per column (`unnest`), and the
//! statements that take such arrays.

use std::borrow::Cow;
use std::fmt::Write as _;

pub(crate) use tokio_postgres::Row;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::driver::{Field, Value};
use crate::table::{Column, Kind, Table};

/// A column of many rows.
pub(super) enum Array {
    Int(Vec<Option<i64>>),
    Text(Vec<Option<String>>),
    Id(Vec<Option<Uuid>>),
    Real(Vec<Option<f64>>),
}

impl Array {
    pub(super) const fn of(column: &Column) -> Self {
        Self::of_kind(column.kind)
    }

    pub(super) const fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Int => Self::Int(Vec::new()),
            Kind::Text => Self::Text(Vec::new()),
            Kind::Id => Self::Id(Vec::new()),
            Kind::Real => Self::Real(Vec::new()),
        }
    }

    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Int(all) => all.len(),
            Self::Text(all) => all.len(),
            Self::Id(all) => all.len(),
            Self::Real(all) => all.len(),
        }
    }

    pub(super) fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Int(all), Value::Int(value)) => all.push(Some(value)),
            (Self::Text(all), Value::Text(value)) => all.push(Some(held(value).into_owned())),
            (Self::Id(all), Value::Id(value)) => all.push(Some(Uuid::from_bytes(value))),
            (Self::Real(all), Value::Real(value)) => all.push(Some(value)),
            (Self::Int(all), Value::Null) => all.push(None),
            (Self::Text(all), Value::Null) => all.push(None),
            (Self::Id(all), Value::Null) => all.push(None),
            (Self::Real(all), Value::Null) => all.push(None),
            (Self::Int(_) | Self::Text(_) | Self::Id(_) | Self::Real(_), value) => {
                panic!("a row has values of its table's kinds, not {value:?}")
            }
        }
    }

    pub(super) fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(all) => all,
            Self::Text(all) => all,
            Self::Id(all) => all,
            Self::Real(all) => all,
        }
    }
}

/// A text as the server holds it: without NUL. None is written, the APIs refuse it; but a client may
/// look for one, and must find nothing rather than fail with all who ask together with him.
fn held(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { text.into() }
}

/// The type of a column with such a value. Panics for NULL.
pub(super) fn kind_of(value: Value<'_>) -> Kind {
    match value {
        Value::Int(_) => Kind::Int,
        Value::Text(_) => Kind::Text,
        Value::Id(_) => Kind::Id,
        Value::Real(_) => Kind::Real,
        Value::Null => panic!("nothing has the key NULL"),
    }
}

/// The parameters of an array of each kind: `$1::bigint[], $2::uuid[]`.
fn arrays(kinds: impl Iterator<Item = Kind>) -> String {
    let mut text = String::new();
    for (at, kind) in kinds.enumerate() {
        let kind = match kind {
            Kind::Int => "bigint",
            Kind::Text => "text",
            Kind::Id => "uuid",
            Kind::Real => "double precision",
        };
        let comma = if at == 0 { "" } else { ", " };
        write!(text, "{comma}${}::{kind}[]", at + 1).expect("a String takes everything");
    }
    text
}

/// A query for one key, as a query for all keys in arrays.
pub(super) fn of_keys(sql: &str, kinds: &[Kind]) -> String {
    let mut of_one = sql.to_owned();
    let mut names = String::new();
    for at in 1..=kinds.len() {
        of_one = of_one.replace(&format!("?{at}"), &format!("k.p{at}"));
        write!(names, "p{at}, ").expect("a String takes everything");
    }
    let arrays = arrays(kinds.iter().copied());
    // With an offset the query stays as it is, and has its key when it looks into an index. Joined with
    // the keys instead, a table that was nearly empty when the plan was made would be read as a whole
    // and compared with each key.
    format!(
        "SELECT t.*, k.n FROM unnest({arrays}) WITH ORDINALITY AS k({names}n) \
         CROSS JOIN LATERAL ({of_one} OFFSET 0) t"
    )
}

/// `INSERT` of many rows: one array per column.
pub(crate) fn insert_all(table: &Table) -> String {
    let arrays = arrays(table.columns.iter().map(|column| column.kind));
    let (name, columns) = (table.name, table.select_list(""));
    format!("INSERT INTO {name} ({columns}) SELECT * FROM unnest({arrays})")
}

/// [`insert_all`], or the change of what is not fixed where there is a row with the key.
pub(crate) fn upsert_all(table: &Table) -> String {
    format!("{} {}", insert_all(table), table.on_conflict())
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match *self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) if *kind == Type::INT4 => i32::try_from(value)?.to_sql(kind, out),
            Self::Int(value) => value.to_sql(kind, out),
            Self::Text(value) => held(value).to_sql(kind, out),
            Self::Id(value) => Uuid::from_bytes(value).to_sql(kind, out),
            Self::Real(value) => value.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Field<'a> {
    fn from_sql(
        kind: &Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => Self::Int(i64::from_sql(kind, raw)?),
            Type::INT4 => Self::Int(i64::from(i32::from_sql(kind, raw)?)),
            Type::TEXT => Self::Text(raw),
            Type::UUID => Self::Id(raw),
            Type::FLOAT8 => Self::Real(f64::from_sql(kind, raw)?),
            _ => Self::Other,
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A column of a row.
pub(crate) fn field(row: &Row, at: usize) -> Option<Field<'_>> {
    row.try_get(at).ok()
}
