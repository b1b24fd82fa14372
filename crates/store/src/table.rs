//! Tables as data: columns, keys and indexes, and the SQL text that follows from them.
//!
//! Names of types are neutral here; a driver brings its [`Dialect`].

mod own;

use std::fmt::Write as _;
use std::ops::Deref;

pub use self::own::{
    ACTOR, COUNTER, FOLLOWER, INSTALLATION, JOURNAL, LEDGER_TOTAL, MIGRATION, PARTITION,
};

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A 64-bit integer: numbers, times in microseconds, money in minor units, codes, 0 and 1.
    Int,
    /// Text in UTF-8.
    Text,
    /// A UUID, or another 16 bytes.
    Id,
    /// A floating-point number: a measurement, never money.
    Real,
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whether it keeps what the row was inserted with: an upsert leaves it out.
    pub fixed: bool,
    /// The version of the schema that added it to its table; `None` where it was made with the table.
    pub added: Option<i64>,
    /// Whether it becomes NULL once the person of the row's account is erased.
    pub erased: bool,
}

/// The most columns that a table has.
pub(crate) const COLUMNS_MAX: usize = 28;

/// The columns of a table.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    each: [Column; COLUMNS_MAX],
    count: usize,
}

impl Columns {
    const NONE: Self = Self { each: [int(""); COLUMNS_MAX], count: 0 };

    pub(crate) const fn and(mut self, column: Column) -> Self {
        self.each[self.count] = column;
        self.count += 1;
        self
    }
}

impl Deref for Columns {
    type Target = [Column];

    fn deref(&self) -> &[Column] {
        &self.each[..self.count]
    }
}

/// How a table is laid out where the database lets one choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In the order of its key.
    Clustered,
    /// By its key, one integer that is counted up; for rows that are large.
    Appended,
    /// As its rows come, with an index of its key; for rows that are large and have another key. To find a key in
    /// [`Layout::Clustered`], SQLite reads whole rows, also what of them lies on pages of its own.
    Indexed,
}

/// An index besides the key.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    pub name: &'static str,
    /// Names of columns or expressions of them, separated by commas.
    pub columns: &'static str,
    /// Whether the values of these columns are unique.
    pub unique: bool,
    /// The condition of a partial index, in SQL.
    pub only: Option<&'static str>,
}

#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// The version of the schema that brought it.
    pub(crate) since: i64,
    /// Its columns; the first `key_columns` of them are its primary key.
    pub columns: Columns,
    /// How many of the first columns are the primary key.
    pub key_columns: usize,
    pub layout: Layout,
    /// Whether its rows end with check values: see `driver/check.rs`.
    pub is_checked: bool,
    /// Indexes besides the primary key.
    pub indexes: &'static [Index],
    /// The columns that an entity's key names, where they are not the primary key.
    pub(crate) found_by: Option<&'static str>,
    /// The columns that name a row of an account, in the order in which the account's export has them; empty if it has
    /// them not.
    pub(crate) exported: &'static [&'static str],
    /// The columns by whose order an account's history has its rows; `None` if it has them not.
    pub(crate) history: Option<&'static str>,
}

/// How a database spells the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The type of [`Kind::Int`].
    pub int: &'static str,
    /// The type of [`Kind::Text`].
    pub text: &'static str,
    /// The type of [`Kind::Id`].
    pub id: &'static str,
    /// The text before and the text behind the hexadecimal digits of an id in a statement.
    pub id_literal: (&'static str, &'static str),
    /// The type of [`Kind::Real`].
    pub real: &'static str,
    /// The text behind a table definition of [`Layout::Clustered`].
    pub clustered: &'static str,
    /// The text behind a table definition of any other [`Layout`].
    pub unclustered: &'static str,
    /// The character before a parameter's number.
    pub parameter: char,
}

impl Dialect {
    /// The type of a kind.
    const fn of(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Int => self.int,
            Kind::Text => self.text,
            Kind::Id => self.id,
            Kind::Real => self.real,
        }
    }

    /// An id in a statement.
    pub(crate) fn id_literal(&self, id: uuid::Uuid) -> String {
        let (before, behind) = self.id_literal;
        format!("{before}{}{behind}", id.simple())
    }
}

pub(crate) const fn int(name: &'static str) -> Column {
    Column { name, kind: Kind::Int, nullable: false, fixed: false, added: None, erased: false }
}
pub(crate) const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text, nullable: false, fixed: false, added: None, erased: false }
}
pub(crate) const fn id(name: &'static str) -> Column {
    Column { name, kind: Kind::Id, nullable: false, fixed: false, added: None, erased: false }
}

/// A text as searches compare it, where that is not what SQL's `lower` gives: see `[`WriteContext::folded`](crate::stored::WriteContext::folded)`.
pub(crate) const fn folded(name: &'static str) -> Column {
    text(name).added(20)
}

pub(crate) const fn real(name: &'static str) -> Column {
    Column { name, kind: Kind::Real, nullable: false, fixed: false, added: None, erased: false }
}

/// The check value of a row's key and the columns that an upsert leaves out: see `driver/check.rs`.
pub(crate) const CHECK_MADE: Column = int("check_made").fixed();
/// The check value of a row's key and the columns that change.
pub(crate) const CHECK_NOW: Column = int("check_now");
/// How many columns of a checked table's row are check values: its last.
pub(crate) const CHECKS: usize = 2;

impl Column {
    pub(crate) const fn null(self) -> Self {
        Self { nullable: true, ..self }
    }
    pub(crate) const fn fixed(self) -> Self {
        Self { fixed: true, ..self }
    }
    /// One that becomes NULL once the person of the row's account is erased.
    pub(crate) const fn erased(self) -> Self {
        Self { nullable: true, erased: true, ..self }
    }
    /// One that a version added: NULL in the rows that were there.
    pub(crate) const fn added(self, version: i64) -> Self {
        Self { nullable: true, added: Some(version), ..self }
    }
}

pub(crate) const fn index(name: &'static str, columns: &'static str) -> Index {
    Index { name, columns, unique: false, only: None }
}
pub(crate) const fn unique(name: &'static str, columns: &'static str) -> Index {
    Index { name, columns, unique: true, only: None }
}

/// The common properties of most tables: two columns are the key, and rows lie in its order.
pub(crate) const CLUSTERED: Table = Table {
    name: "",
    since: 1,
    columns: Columns::NONE,
    key_columns: 2,
    layout: Layout::Clustered,
    is_checked: false,
    indexes: &[],
    found_by: None,
    exported: &[],
    history: None,
};

/// The same with check values.
pub(crate) const CHECKED: Table = Table { is_checked: true, ..CLUSTERED };

pub(crate) const fn only(name: &'static str, columns: &'static str, only: &'static str) -> Index {
    Index { name, columns, unique: false, only: Some(only) }
}

/// Tables whose rows are keys that are taken.
pub(crate) static OF_KEYS: [&str; 2] = ["claim", "reply"];

/// The statements that make these tables and their indexes.
#[must_use]
pub fn ddl(tables: &[&Table], dialect: &Dialect) -> String {
    let mut sql = String::new();
    for table in tables {
        table.write_ddl(dialect, &mut sql).expect("a String takes everything");
    }
    sql
}

/// The statements that add what a version added to tables of earlier ones.
pub(crate) fn added_columns(tables: &[&Table], version: i64, dialect: &Dialect) -> String {
    let mut sql = String::new();
    for table in tables {
        for column in table.columns.iter().filter(|it| it.added == Some(version)) {
            let (kind, name) = (dialect.of(column.kind), column.name);
            writeln!(sql, "ALTER TABLE {} ADD COLUMN {name} {kind};", table.name)
                .expect("a String takes everything");
        }
    }
    sql
}

impl Index {
    fn write_ddl(&self, table: &Table, sql: &mut String) -> std::fmt::Result {
        let unique = if self.unique { "UNIQUE " } else { "" };
        let only = self.only.map(|only| format!(" WHERE {only}")).unwrap_or_default();
        let (name, table, columns) = (self.name, table.name, self.columns);
        writeln!(sql, "CREATE {unique}INDEX {name} ON {table} ({columns}){only};")
    }
}

impl Table {
    /// The table with these columns behind those that it has, and with its check values behind all.
    pub(crate) const fn of(mut self, columns: &[Column]) -> Self {
        let mut at = 0;
        while at < columns.len() {
            self.columns = self.columns.and(columns[at]);
            at += 1;
        }
        if self.is_checked {
            self.columns = self.columns.and(CHECK_MADE).and(CHECK_NOW);
        }
        self
    }

    /// Whether it has columns that are erased with a person.
    pub(crate) fn has_erased(&self) -> bool {
        self.columns.iter().any(|it| it.erased)
    }

    /// Its columns' names, separated by commas, each after `prefix` (such as `a.`).
    #[must_use]
    pub fn select_list(&self, prefix: &str) -> String {
        let names = self.columns.iter().map(|column| format!("{prefix}{}", column.name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The names of its primary key's columns, separated by commas.
    #[must_use]
    pub fn key_list(&self) -> String {
        let key = self.columns[..self.key_columns].iter();
        key.map(|column| column.name).collect::<Vec<_>>().join(", ")
    }

    /// `SELECT` of all columns, in order, with `rest` (such as a WHERE clause) behind.
    #[must_use]
    pub fn select(&self, rest: &str) -> String {
        format!("SELECT {} FROM {} {rest}", self.select_list(""), self.name)
    }

    /// `INSERT` of one row: one parameter per column.
    #[must_use]
    pub fn insert(&self, dialect: &Dialect) -> String {
        let (name, columns) = (self.name, self.select_list(""));
        let values = parameters(dialect.parameter, self.columns.len());
        format!("INSERT INTO {name} ({columns}) VALUES ({values})")
    }

    /// `INSERT` of one row, or the change of what is not fixed where there is one with its key.
    #[must_use]
    pub fn upsert(&self, dialect: &Dialect) -> String {
        format!("{} {}", self.insert(dialect), self.on_conflict())
    }

    /// The change of what is not fixed in a row that is there: parameters are its key, then those columns.
    #[must_use]
    pub fn update(&self, dialect: &Dialect) -> String {
        let (key, rest) = self.columns.split_at(self.key_columns);
        let assigned = |columns: &mut dyn Iterator<Item = &Column>, first: usize| {
            let each = columns.zip(first..);
            let each = each.map(|(it, n)| format!("{} = {}{n}", it.name, dialect.parameter));
            each.collect::<Vec<_>>()
        };
        let key = assigned(&mut key.iter(), 1);
        let set = assigned(&mut rest.iter().filter(|it| !it.fixed), key.len() + 1);
        format!("UPDATE {} SET {} WHERE {}", self.name, set.join(", "), key.join(" AND "))
    }

    /// The end of a `SELECT` of the next rows in the order of the key: those behind the key that the first parameters
    /// give, where `is_behind`; at most `limit`.
    pub(crate) fn next_rows(&self, is_behind: bool, limit: usize) -> String {
        let (names, key) = (self.key_list(), parameters('?', self.key_columns));
        let behind = match is_behind {
            true => format!("WHERE ({names}) > ({key}) "),
            false => String::new(),
        };
        format!("{behind}ORDER BY {names} LIMIT {limit}")
    }

    /// The end of an `INSERT` that updates the columns that are not fixed where there is a row with the key.
    pub(crate) fn on_conflict(&self) -> String {
        let changing = self.columns[self.key_columns..].iter().filter(|column| !column.fixed);
        let set: Vec<_> = changing.map(|it| format!("{0} = excluded.{0}", it.name)).collect();
        format!("ON CONFLICT ({}) DO UPDATE SET {}", self.key_list(), set.join(", "))
    }

    fn write_ddl(&self, dialect: &Dialect, sql: &mut String) -> std::fmt::Result {
        writeln!(sql, "CREATE TABLE {} (", self.name)?;
        for column in self.columns.iter().filter(|it| it.added.is_none()) {
            let kind = dialect.of(column.kind);
            let constraint = if column.nullable { "" } else { " NOT NULL" };
            writeln!(sql, "    {} {kind}{constraint},", column.name)?;
        }
        writeln!(sql, "    PRIMARY KEY ({})", self.key_list())?;
        let tail = match self.layout {
            Layout::Clustered => dialect.clustered,
            Layout::Appended | Layout::Indexed => dialect.unclustered,
        };
        writeln!(sql, "){tail};")?;
        for index in self.indexes {
            index.write_ddl(self, sql)?;
        }
        writeln!(sql)
    }
}

/// Parameters of a statement, from the first on, separated by commas.
fn parameters(sign: char, count: usize) -> String {
    (1..=count).map(|n| format!("{sign}{n}")).collect::<Vec<_>>().join(", ")
}
