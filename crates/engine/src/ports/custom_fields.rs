//! Reads of custom fields.

use domain::account::custom_field::CustomField;
use domain::object::{Object, ObjectType};
use domain::{AccountId, TenantNo};

use super::{Page, Paged, StoreError};

/// Reads of custom fields: those that were removed or erased are not shown. Lists are in the order in
/// which the fields were made.
pub trait CustomFieldQueries: Send + Sync {
    /// The fields of an object; empty where there is no such object.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn custom_fields_of(
        &self,
        no: TenantNo,
        object: Object,
    ) -> Result<Vec<CustomField>, StoreError>;
    /// The fields of an account and of all that belongs to it, on objects of these types, of which there is
    /// at least one; at most `ROWS_MAX`.
    fn custom_fields_of_account(
        &self,
        no: TenantNo,
        account: AccountId,
        kinds: &[ObjectType],
    ) -> Result<Vec<CustomField>, StoreError>;
    /// All fields of a tenant.
    fn custom_fields(&self, no: TenantNo, page: Page) -> Result<Paged<CustomField>, StoreError>;
    /// Fields that a search finds by indexes. Many may have the same name: without a value, for
    /// `Engine::scan`.
    fn custom_fields_named(
        &self,
        no: TenantNo,
        search: &FieldSearch,
        page: Page,
    ) -> Result<Paged<CustomField>, StoreError>;
    /// Fields whose name or value contains `text` (ASCII case-insensitively). Looks at every field of the
    /// tenant: for `Engine::scan`.
    fn search_custom_fields(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<CustomField>, StoreError>;
}

/// The condition of a search by [`CustomFieldQueries::custom_fields_named`].
#[derive(Clone, Debug)]
pub enum FieldSearch {
    /// The fields of a name on objects of a kind; of a value, where one is given.
    Value { kind: ObjectType, name: String, value: Option<String> },
    /// The fields whose name or value this is, and those of an id or of an object's id.
    Text(String),
}
