//! The tables of entities: the one list of them. Batches write, and `faregate verify` and the scrub look at, each table in
//! it.

use std::any::TypeId;

use domain::Seq;
use domain::change::{Change, Image, Visitor};
use domain::rows::Keyed;
use engine::ports::StoreError;

use crate::driver::{Cells, Database, Load};
use crate::follow::{self, Followed, Records};
use crate::stored::{Images, KeyColumns, TableOf, WriteContext};
use crate::tables::{
    ACCOUNT, ACCOUNT_EMAIL, APP_USER, BLOCKING_STATE, CHANGE_REQUEST, CUSTOM_FIELD, CUSTOMER,
    DEFINITION, DISPUTE, ENTITLEMENTS, ENVIRONMENT, ENVIRONMENT_SECRET, FEATURE, OFFER, OPERATION,
    PAYMENT_ATTEMPT, PAYMENT_METHOD, PAYMENT_RULES, PURCHASE, ROLE, TAG, TAG_DEFINITION, TENANT,
    TENANT_VALUE, Table,
};

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
}

/// Reads the kind of an entity: see [`EntityTable::kind`].
pub(crate) struct ReadKind;

impl Visitor for ReadKind {
    type Output = TypeId;

    fn visit<T: Image>(self, _: &T) -> TypeId {
        TypeId::of::<T>()
    }
}

impl<T: Image + Sync> EntityTable for TableOf<T>
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
}

/// All tables of entities but payments and their transactions, which are one with each other.
pub(crate) static ENTITIES: &[&dyn EntityTable] = &[
    &TENANT,
    &TENANT_VALUE,
    &APP_USER,
    &ROLE,
    &ENVIRONMENT,
    &ENVIRONMENT_SECRET,
    &DEFINITION,
    &CHANGE_REQUEST,
    &CUSTOMER,
    &OPERATION,
    &ACCOUNT,
    &TAG,
    &TAG_DEFINITION,
    &ACCOUNT_EMAIL,
    &BLOCKING_STATE,
    &CUSTOM_FIELD,
    &PAYMENT_RULES,
    &PAYMENT_ATTEMPT,
    &DISPUTE,
    &FEATURE,
    &OFFER,
    &PURCHASE,
    &ENTITLEMENTS,
    &PAYMENT_METHOD,
];
