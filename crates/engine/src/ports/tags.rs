//! Reads of tags and of tenants' definitions of them.

use domain::account::tag::{NamedDefinition, Tag, TagDefinition};
use domain::object::{Object, ObjectType};
use domain::{AccountId, TagDefinitionId, TenantNo};

use super::{Page, Paged, StoreError};

/// Reads of tags, in the order in which they were added, and of tenants' definitions of them.
pub trait TagQueries: Send + Sync {
    /// An object's tags, those that were removed too.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn tags_of(&self, no: TenantNo, object: Object) -> Result<Vec<NamedTag>, StoreError>;
    /// The tags of an account and of all that belongs to it, on objects of these types, of which there is at
    /// least one, and whether those that were removed are among them; at most `ROWS_MAX`.
    fn tags_of_account(
        &self,
        no: TenantNo,
        account: AccountId,
        which: (&[ObjectType], bool),
    ) -> Result<Vec<NamedTag>, StoreError>;
    /// All tags of a tenant that were not removed.
    fn tags(&self, no: TenantNo, page: Page) -> Result<Paged<NamedTag>, StoreError>;
    /// The tags of these definitions that were not removed, definition by definition. There may be any number
    /// of them: for `Engine::scan`.
    fn tags_named(
        &self,
        no: TenantNo,
        definitions: &[TagDefinitionId],
        page: Page,
    ) -> Result<Paged<NamedTag>, StoreError>;
    /// A tenant's definitions, oldest first; at most `ROWS_MAX`.
    fn tag_definitions(&self, no: TenantNo) -> Result<Vec<TagDefinition>, StoreError>;
    /// One of a tenant's definitions, also one that was deleted.
    fn tag_definition(
        &self,
        no: TenantNo,
        id: TagDefinitionId,
    ) -> Result<Option<TagDefinition>, StoreError>;
}

/// A tag with the name of its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTag {
    pub tag: Tag,
    pub definition: NamedDefinition,
}
