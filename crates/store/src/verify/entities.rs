//! The tables of entities, as `faregate verify` and the scrub look at them.

use domain::Seq;
use domain::change::{Change, Image};
use domain::rows::Keyed;
use engine::ports::StoreError;

use super::follow::Follow;
use crate::driver::{Cells, Load};
use crate::stored::{self, TableOf};
use crate::tables::Table;

/// A table of entities of any kind.
pub(super) trait EntityTable: Sync {
    fn table(&self) -> &'static Table;

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
    fn follow(&self, cells: &mut Cells<'_>, follow: &mut Follow<'_, '_>) -> Result<(), StoreError>;
}

impl<T: Image> EntityTable for TableOf<T> {
    fn table(&self) -> &'static Table {
        self.table
    }

    fn select_seq(&self) -> String {
        format!("SELECT seq FROM {} {}", self.table.name, self.by_key)
    }

    fn newest(
        &self,
        image: &Change,
        select_seq: &mut Load<'_>,
    ) -> Result<Option<Option<Seq>>, StoreError> {
        let Some(key) = T::of(image).map(Keyed::key) else { return Ok(None) };
        select_seq.first(&(self.parameters)(&key), |cells| cells.seq()).map(Some)
    }

    fn have_same(&self, a: &Change, b: &Change) -> bool {
        T::of(a).zip(T::of(b)).is_some_and(|(a, b)| a.key() == b.key())
    }

    fn name(&self, image: &Change) -> Option<String> {
        T::of(image).map(T::name)
    }

    fn follow(&self, cells: &mut Cells<'_>, follow: &mut Follow<'_, '_>) -> Result<(), StoreError> {
        let row = (self.read)(cells)?.journalled();
        follow.entity(self.table, row, &mut |_, _| Ok(()))
    }
}

/// The tables whose rows are verified one by one: all entities but payments with their transactions.
pub(super) static ENTITIES: &[&dyn EntityTable] = &[
    &stored::TENANTS,
    &stored::TENANT_VALUES,
    &stored::USERS,
    &stored::ROLES,
    &stored::ENVIRONMENTS,
    &stored::SECRETS,
    &stored::DEFINITIONS,
    &stored::CHANGE_REQUESTS,
    &stored::CUSTOMERS,
    &stored::OPERATIONS,
    &stored::ACCOUNTS,
    &stored::TAGS,
    &stored::TAG_DEFINITIONS,
    &stored::ACCOUNT_EMAILS,
    &stored::BLOCKING_STATES,
    &stored::CUSTOM_FIELDS,
    &stored::PAYMENT_RULES,
    &stored::ATTEMPTS,
    &stored::DISPUTES,
    &stored::FEATURES,
    &stored::OFFERS,
    &stored::PURCHASES,
    &stored::ENTITLEMENTS,
    &stored::PAYMENT_METHODS,
];
