//! Rows of [`tables::TAG`] and [`tables::TAG_DEFINITION`].

use domain::tag::{DefinitionRef, Tag, TagDefinition, TagKey};
use domain::{TagDefinitionId, TenantNo};
use engine::ports::StoreError;

use super::objects::{object_of, payment_of};
use crate::codes::{object_type_code, object_type_of};
use crate::driver::{Cells, Value};
use crate::tables;

pub(crate) fn tag_key(tenant: TenantNo, key: TagKey) -> [Value<'static>; 3] {
    [tenant.into(), key.object().id().into(), key.definition.id().into()]
}

pub(crate) fn tag_row(it: &Tag) -> [Value<'_>; 10] {
    let [tenant, object, definition] = tag_key(it.tenant, it.key);
    [
        tenant,
        object,
        definition,
        object_type_code(it.key.object().kind()).into(),
        it.key.account.into(),
        payment_of(it.key.object()),
        it.id.into(),
        it.active.into(),
        it.created_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::TAG`].
///
/// # Errors
/// See [`super::tenant`].
pub fn tag(cells: &mut Cells<'_>) -> Result<Tag, StoreError> {
    cells.of(&tables::TAG);
    let (tenant, object) = (cells.tenant()?, cells.id()?);
    let definition: TagDefinitionId = cells.entity()?;
    let (kind, account) = (cells.code(object_type_of)?, cells.entity()?);
    let payment = cells.opt_entity()?;
    let object = object_of(cells, (kind, object, payment))?;
    Ok(Tag {
        tenant,
        key: TagKey::new(account, object, DefinitionRef::of(definition)),
        id: cells.entity()?,
        active: cells.flag()?,
        created_at: cells.time()?,
        revision: cells.revision()?,
    })
}

/// A definition's row; `applies_to` is the JSON of its types.
pub(crate) fn tag_definition_row<'a>(it: &'a TagDefinition, applies_to: &'a str) -> [Value<'a>; 8] {
    [
        it.tenant.into(),
        it.id.into(),
        (&it.name).into(),
        (&it.description).into(),
        applies_to.into(),
        it.active.into(),
        it.created_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::TAG_DEFINITION`].
///
/// # Errors
/// See [`super::tenant`].
pub fn tag_definition(cells: &mut Cells<'_>) -> Result<TagDefinition, StoreError> {
    cells.of(&tables::TAG_DEFINITION);
    Ok(TagDefinition {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        name: cells.string()?,
        description: cells.string()?,
        applies_to: cells.json()?,
        active: cells.flag()?,
        created_at: cells.time()?,
        revision: cells.revision()?,
    })
}
