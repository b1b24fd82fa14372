//! Tables whose rows are values of a type: each column with its value, and how a row is read. Batches, loads and
//! verification follow from it.

use std::any::Any;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Deref;

use domain::account::tag::TagKey;
use domain::change::Change;
use domain::entitlement::plan_features::FeaturesOf;
use domain::entitlement::usage::EventKey;
use domain::entity::Entity;
use domain::flag::definition::DefinitionKey;
use domain::object::Object;
use domain::payment::dispute::DisputeCase;
use domain::rows::{Keyed, Part, Parts, Rows};
use domain::timer::TimerKey;
use domain::{Account, AccountId, Id, PartitionNo, Revision, Seq, TenantNo};
use engine::ports::StoreError;
use engine::text;
use serde::Serialize;

use crate::actors::{self, Named};
use crate::cells::json;
use crate::codes::code;
use crate::driver::{Cells, Database, Put, Reader, Value};
use crate::table::{COLUMNS_MAX, Column, Table};

/// A table with a row for each `T`.
#[derive(Debug)]
pub struct TableOf<T: 'static> {
    pub table: Table,
    /// All columns of the table but check values.
    pub(crate) columns: ColumnsOf<T>,
    pub(crate) read: fn(&mut Cells<'_>) -> Result<T, StoreError>,
    /// How the parts of an owner are loaded, of what is a part.
    parts: Option<PartsOf<T>>,
    /// Fills in the fields of an image that the journal has not, from the row.
    pub(crate) restore: Option<fn(&mut Change, &T)>,
}

/// How the parts of an owner are loaded: the end of a `SELECT` by the owner's key, and the function that runs it.
#[derive(Debug)]
pub(crate) struct PartsOf<T: 'static> {
    pub(crate) rest: &'static str,
    pub(crate) load: fn(&TableOf<T>, &Reader, &mut dyn Any) -> Result<(), StoreError>,
}

/// A column with its value in the row of a `T`.
#[derive(Debug)]
pub(crate) struct ColumnOf<T> {
    column: Column,
    value: ValueOf<T>,
}

pub(crate) type ColumnsOf<T> = &'static [ColumnOf<T>];

pub(crate) type ValueOf<T> = for<'a> fn(&'a T, &'a WriteContext<'a>) -> Value<'a>;

impl Column {
    pub(crate) const fn of<T>(self, value: ValueOf<T>) -> ColumnOf<T> {
        ColumnOf { column: self, value }
    }
}

/// Facts that rows have besides the values that they are of.
#[derive(Clone, Copy)]
pub(crate) struct WriteContext<'a> {
    /// The journal row that made the entity, where the batch made it.
    pub(crate) made_by: Option<Seq>,
    pub(crate) actors: &'a Named,
    pub(crate) partition: PartitionNo,
    /// Texts that are made for the row.
    texts: &'a Texts,
}

/// Texts that are made for a row and are no value's own.
#[derive(Default)]
pub(crate) struct Texts(OnceCell<Box<(String, Texts)>>);

impl Texts {
    fn keep(&self, text: String) -> &str {
        match self.0.get() {
            Some(kept) => kept.1.keep(text),
            None => &self.0.get_or_init(|| Box::new((text, Self::default()))).0,
        }
    }
}

impl<'a> WriteContext<'a> {
    pub(crate) fn new(partition: PartitionNo, actors: &'a Named, texts: &'a Texts) -> Self {
        Self { made_by: None, actors, partition, texts }
    }

    /// A value as a JSON text.
    pub(crate) fn json<T: Serialize>(&self, value: &T) -> Value<'a> {
        self.texts.keep(json(value)).into()
    }

    /// A value as its text.
    pub(crate) fn text(&self, value: impl ToString) -> Value<'a> {
        self.texts.keep(value.to_string()).into()
    }

    /// The same; NULL for none.
    pub(crate) fn opt_text(&self, value: Option<impl ToString>) -> Value<'a> {
        value.map_or(Value::Null, |it| self.text(it))
    }

    /// A value as a JSON text; NULL for none and for an empty one.
    pub(crate) fn opt_json<T: Default + PartialEq + Serialize>(&self, value: &T) -> Value<'a> {
        if *value == T::default() { Value::Null } else { self.json(value) }
    }

    /// A text as searches compare it. Both databases' `lower` knows the letters of ASCII only, so that a text of others
    /// is folded here; NULL for one of ASCII.
    pub(crate) fn folded(&self, text: Option<&String>) -> Value<'a> {
        let folded = text.and_then(|it| folded_text(it));
        folded.map_or(Value::Null, |it| self.texts.keep(it).into())
    }

    /// The columns of who made an account, where this batch makes it.
    pub(crate) fn maker(&self, of: &Account) -> [Value<'a>; actors::COLUMNS] {
        actors::columns(self.actors.maker(of))
    }
}

/// A text as searches compare it, where it is not one of ASCII: see [`WriteContext::folded`].
pub(crate) fn folded_text(text: &str) -> Option<String> {
    (!text.is_ascii()).then(|| text::folded(text))
}

/// The newest image of a row in a batch.
pub(crate) struct Newest<'a, T> {
    pub(crate) image: &'a T,
    /// Set where the batch made it.
    pub(crate) made_by: Option<Seq>,
}

impl<T> Clone for Newest<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Newest<'_, T> {}

impl<'a, T> From<&'a T> for Newest<'a, T> {
    fn from(image: &'a T) -> Self {
        Self { image, made_by: None }
    }
}

/// The newest images of a kind in a batch, sorted by key, so that neighbours are written together.
pub(crate) struct Images<'a, T: Keyed>(BTreeMap<T::Key, Newest<'a, T>>);

impl<T: Keyed> Default for Images<'_, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'a, T: Entity> Images<'a, T> {
    pub(crate) fn take(&mut self, image: &'a T, seq: Seq) {
        let made_by = made_here(image.revision(), seq).then_some(seq);
        let known = self.0.entry(image.key()).or_insert(Newest { image, made_by });
        known.image = image;
    }

    pub(crate) fn get(&self, key: &T::Key) -> Option<&'a T> {
        self.0.get(key).map(|it| it.image)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Newest<'a, T>> + Clone {
        self.0.values()
    }
}

/// Whether this command made the entity: its revision has none before.
pub(crate) fn made_here(revision: Revision, seq: Seq) -> bool {
    revision.seq == seq && revision.previous.is_none()
}

impl<T> Deref for TableOf<T> {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl<T> TableOf<T> {
    /// `table` is without its columns.
    pub(crate) const fn new(
        mut table: Table,
        columns: ColumnsOf<T>,
        read: fn(&mut Cells<'_>) -> Result<T, StoreError>,
    ) -> Self {
        let mut at = 0;
        while at < columns.len() {
            table.columns = table.columns.and(columns[at].column);
            at += 1;
        }
        Self { table: table.of(&[]), columns, read, parts: None, restore: None }
    }

    /// The same, of which the fields of an image that the journal has not are filled in from the row.
    pub(crate) const fn restored(self, restore: fn(&mut Change, &T)) -> Self {
        Self { restore: Some(restore), ..self }
    }

    /// How the parts of an owner are loaded, of a table of parts.
    pub(crate) fn of_owner(&self) -> &PartsOf<T> {
        self.parts.as_ref().expect("a table of parts")
    }

    /// Reads a row of all columns.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub fn row(&self, cells: &mut Cells<'_>) -> Result<T, StoreError> {
        cells.row_of(&self.table, self.read)
    }

    /// Writes a row.
    fn put_row(&self, row: &T, cx: &WriteContext<'_>, put: &mut Put<'_>) -> Result<(), StoreError> {
        let texts = Texts::default();
        let cx = WriteContext { texts: &texts, ..*cx };
        let mut values = [Value::Null; COLUMNS_MAX];
        for (value, column) in values.iter_mut().zip(self.columns) {
            *value = (column.value)(row, &cx);
        }
        put.row(&values[..self.columns.len()])
    }

    /// Writes the newest images of a batch: inserts the rows that the batch made, so that a key that is there already is
    /// an error, and changes the others.
    pub(crate) fn write<'a>(
        &'static self,
        db: &Database,
        images: impl IntoIterator<Item = &'a Newest<'a, T>>,
        cx: WriteContext<'_>,
    ) -> Result<(), StoreError>
    where
        T: 'a,
    {
        let (mut insert, mut upsert) = (None, None);
        for it in images {
            let put = match it.made_by {
                Some(_) => begun(&mut insert, || db.insert(self))?,
                None => begun(&mut upsert, || db.upsert(self))?,
            };
            self.put_row(it.image, &WriteContext { made_by: it.made_by, ..cx }, put)?;
        }
        Ok(())
    }

    /// Inserts rows, or changes those that are there.
    pub(crate) fn put<'a>(
        &'static self,
        db: &Database,
        rows: impl IntoIterator<Item = impl Into<Newest<'a, T>>>,
        cx: WriteContext<'_>,
    ) -> Result<(), StoreError>
    where
        T: 'a,
    {
        let mut upsert = None;
        for it in rows.into_iter().map(Into::into) {
            let put = begun(&mut upsert, || db.upsert(self))?;
            self.put_row(it.image, &WriteContext { made_by: it.made_by, ..cx }, put)?;
        }
        Ok(())
    }

    /// Inserts a row that no command made, or changes the one that is there.
    pub(crate) fn put_one(
        &'static self,
        db: &Database,
        row: &T,
        partition: PartitionNo,
    ) -> Result<(), StoreError> {
        let (actors, texts) = (Named::default(), Texts::default());
        self.put(db, [row], WriteContext::new(partition, &actors, &texts))
    }
}

/// A statement that is prepared for the first of its rows.
pub(crate) fn begun<'p, 'c>(
    slot: &'p mut Option<Put<'c>>,
    prepare: impl FnOnce() -> Result<Put<'c>, StoreError>,
) -> Result<&'p mut Put<'c>, StoreError> {
    Ok(match slot {
        Some(put) => put,
        None => slot.insert(prepare()?),
    })
}

impl<T: Keyed> TableOf<T>
where
    T::Key: KeyColumns,
{
    /// The end of a `SELECT` that finds a row by its key.
    pub(crate) fn by_key(&self) -> String {
        let columns = self.found_by.map_or_else(|| self.key_list(), str::to_owned);
        let each = columns.split(", ").zip(1..).map(|(column, n)| format!("{column} = ?{n}"));
        format!("WHERE {}", each.collect::<Vec<_>>().join(" AND "))
    }

    /// Inserts or changes rows, and deletes those of keys that have none.
    pub(crate) fn set(
        &'static self,
        db: &Database,
        rows: &BTreeMap<T::Key, Option<&T>>,
        cx: WriteContext<'_>,
    ) -> Result<(), StoreError> {
        self.put(db, rows.values().copied().flatten(), cx)?;
        let mut delete = None;
        for (key, _) in rows.iter().filter(|(_, row)| row.is_none()) {
            let sql = || format!("DELETE FROM {} {}", self.name, self.by_key());
            begun(&mut delete, || db.prepare(&sql()))?.row(&key.columns())?;
        }
        Ok(())
    }

    /// Loads the rows that are looked for, by their keys.
    pub(crate) fn load(&self, reader: &Reader, loaded: &mut Rows<T>) -> Result<(), StoreError> {
        let keys: Vec<T::Key> = loaded.absent().cloned().collect();
        if keys.is_empty() {
            return Ok(());
        }
        let columns: Vec<Vec<Value<'_>>> = keys.iter().map(KeyColumns::columns).collect();
        reader.for_keys(&self.select(&self.by_key()), &columns, |_, cells| {
            loaded.put(self.row(cells)?);
            Ok(())
        })
    }
}

impl<T: Part> TableOf<T>
where
    T::Owner: KeyColumns,
{
    /// The same, whose rows are parts of owners. `of_owner` is the end of a `SELECT` that finds them by the owner's key.
    pub(crate) const fn parts(self, of_owner: &'static str) -> Self {
        Self { parts: Some(PartsOf { rest: of_owner, load: load_parts }), ..self }
    }
}

/// Loads all active parts of the owners that are looked for.
fn load_parts<T: Part>(
    table: &TableOf<T>,
    reader: &Reader,
    loaded: &mut dyn Any,
) -> Result<(), StoreError>
where
    T::Owner: KeyColumns,
{
    let loaded: &mut Parts<T> = loaded.downcast_mut().expect("parts of this kind");
    let owners: Vec<T::Owner> = loaded.owners().cloned().collect();
    let columns: Vec<Vec<Value<'_>>> = owners.iter().map(KeyColumns::columns).collect();
    reader.for_keys(&table.select(table.of_owner().rest), &columns, |_, cells| {
        loaded.put(table.row(cells)?);
        Ok(())
    })
}

/// A key as the columns that a row is found by.
pub trait KeyColumns {
    fn columns(&self) -> Vec<Value<'_>>;
}

impl KeyColumns for TenantNo {
    fn columns(&self) -> Vec<Value<'_>> {
        vec![(*self).into()]
    }
}

impl KeyColumns for String {
    fn columns(&self) -> Vec<Value<'_>> {
        vec![self.into()]
    }
}

impl<K> KeyColumns for Id<K> {
    fn columns(&self) -> Vec<Value<'_>> {
        vec![(*self).into()]
    }
}

impl KeyColumns for DefinitionKey {
    fn columns(&self) -> Vec<Value<'_>> {
        vec![self.environment.into(), code(self.kind).into(), (&self.key).into()]
    }
}

impl KeyColumns for TagKey {
    fn columns(&self) -> Vec<Value<'_>> {
        vec![self.object().id().into(), self.definition.id().into()]
    }
}

impl KeyColumns for DisputeCase {
    fn columns(&self) -> Vec<Value<'_>> {
        vec![(&self.gateway).into(), (&self.case).into()]
    }
}

impl KeyColumns for TimerKey {
    fn columns(&self) -> Vec<Value<'_>> {
        vec![code(self.kind).into(), self.object.into()]
    }
}

impl KeyColumns for Object {
    fn columns(&self) -> Vec<Value<'_>> {
        vec![code(self.kind()).into(), self.id().into()]
    }
}

impl KeyColumns for FeaturesOf {
    fn columns(&self) -> Vec<Value<'_>> {
        vec![code(self.kind).into(), (&self.name).into()]
    }
}

impl KeyColumns for EventKey {
    fn columns(&self) -> Vec<Value<'_>> {
        vec![self.0.into()]
    }
}

impl<K: KeyColumns> KeyColumns for (TenantNo, K) {
    fn columns(&self) -> Vec<Value<'_>> {
        [self.0.columns(), self.1.columns()].concat()
    }
}

impl<K: KeyColumns> KeyColumns for (TenantNo, AccountId, K) {
    fn columns(&self) -> Vec<Value<'_>> {
        [self.0.columns(), self.1.columns(), self.2.columns()].concat()
    }
}
