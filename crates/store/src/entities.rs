//! Tables of entities of any kind, which batches, loads, histories and verification loop over: [`tables::of_entities`](crate::tables::of_entities).

use std::any::{Any, TypeId};

use domain::change::{Change, Image};
use domain::entity::{Entity, Visitor};
use domain::rows::Keyed;
use domain::{Seq, TenantNo};
use engine::ports::StoreError;
use uuid::Uuid;

use crate::driver::{Cells, Database, Load, Reader};
use crate::follow::{self, Followed, Records};
use crate::stored::{Images, KeyColumns, TableOf, WriteContext};
use crate::table::Table;

/// A table of entities of any kind.
pub(crate) trait EntityTable: Sync {
    fn table(&'static self) -> &'static Table;

    /// The kind of its entities.
    fn kind(&self) -> TypeId;

    /// Writes the newest of these images, which are all of this table, each with its journal row.
    fn write(
        &'static self,
        db: &Database,
        images: &[(Seq, &Change)],
        cx: WriteContext<'_>,
    ) -> Result<(), StoreError>;

    /// The statement that finds the newest journal row of an entity.
    fn select_seq(&self) -> String;

    /// The newest journal row of the entity whose image a change is, by [`Self::select_seq`]. `None` for an entity
    /// of another table; `Some(None)` if it has no row.
    fn newest(
        &self,
        image: &Change,
        select_seq: &mut Load<'_>,
    ) -> Result<Option<Option<Seq>>, StoreError>;

    /// Whether two changes are images of one entity of this table.
    fn have_same(&self, a: &Change, b: &Change) -> bool;

    /// The name of the entity whose image a change is.
    fn name(&self, image: &Change) -> Option<String>;

    /// Compares a row with the journal.
    fn follow(
        &self,
        cells: &mut Cells<'_>,
        records: &mut Records<'_>,
    ) -> Result<Followed, StoreError>;

    /// Loads the rows that are looked for. `loaded` is this kind's [`Rows`](domain::rows::Rows).
    fn load(&self, reader: &Reader, loaded: &mut dyn Any) -> Result<(), StoreError>;

    /// Loads the active parts of the owners that are looked for. `loaded` is this kind's [`Parts`](domain::rows::Parts).
    fn load_parts(&self, reader: &Reader, loaded: &mut dyn Any) -> Result<(), StoreError>;

    /// Fills in the fields of images of one entity that the journal has not, from its row: that of the tenant with the id.
    fn restore(
        &self,
        reader: &Reader,
        key: (TenantNo, Uuid),
        images: &mut dyn Iterator<Item = &mut Change>,
    ) -> Result<(), StoreError>;
}

/// Reads the kind of an entity: see [`EntityTable::kind`].
pub(crate) struct ReadKind;

impl Visitor<'_> for ReadKind {
    type Output = TypeId;

    fn visit<T: Entity>(self, _: &T) -> TypeId {
        TypeId::of::<T>()
    }
}

impl<T: Entity> EntityTable for TableOf<T>
where
    T::Key: KeyColumns,
{
    fn table(&'static self) -> &'static Table {
        &self.table
    }

    fn kind(&self) -> TypeId {
        TypeId::of::<T>()
    }

    fn write(
        &'static self,
        db: &Database,
        images: &[(Seq, &Change)],
        cx: WriteContext<'_>,
    ) -> Result<(), StoreError> {
        let mut newest = Images::<T>::default();
        for (seq, change) in images {
            T::of(change).into_iter().for_each(|image| newest.take(image, *seq));
        }
        self.write(db, newest.values(), cx)
    }

    fn select_seq(&self) -> String {
        format!("SELECT seq FROM {} {}", self.name, self.by_key())
    }

    fn newest(
        &self,
        image: &Change,
        select_seq: &mut Load<'_>,
    ) -> Result<Option<Option<Seq>>, StoreError> {
        let Some(key) = T::of(image).map(Keyed::key) else { return Ok(None) };
        select_seq.first(&key.columns(), |cells| cells.seq()).map(Some)
    }

    fn have_same(&self, a: &Change, b: &Change) -> bool {
        T::of(a).zip(T::of(b)).is_some_and(|(a, b)| a.key() == b.key())
    }

    fn name(&self, image: &Change) -> Option<String> {
        T::of(image).map(T::name)
    }

    fn follow(
        &self,
        cells: &mut Cells<'_>,
        records: &mut Records<'_>,
    ) -> Result<Followed, StoreError> {
        follow::entity(self.row(cells)?.journalled(), records, &mut |_, _| Ok(()))
    }

    fn load(&self, reader: &Reader, loaded: &mut dyn Any) -> Result<(), StoreError> {
        self.load(reader, loaded.downcast_mut().expect("rows of this kind"))
    }

    fn load_parts(&self, reader: &Reader, loaded: &mut dyn Any) -> Result<(), StoreError> {
        (self.of_owner().load)(self, reader, loaded)
    }

    fn restore(
        &self,
        reader: &Reader,
        (tenant, id): (TenantNo, Uuid),
        images: &mut dyn Iterator<Item = &mut Change>,
    ) -> Result<(), StoreError> {
        let Some(restore) = self.restore else { return Ok(()) };
        let sql = self.select("WHERE tenant = ?1 AND id = ?2");
        let row = reader.query_one(&sql, &[tenant.into(), id.into()], |cells| self.row(cells))?;
        if let Some(row) = row {
            images.for_each(|image| restore(image, &row));
        }
        Ok(())
    }
}
