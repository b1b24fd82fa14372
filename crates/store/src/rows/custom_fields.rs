//! Rows of [`tables::CUSTOM_FIELD`] and [`tables::CUSTOM_FIELD_VALUE`].

use domain::custom_field::CustomField;
use domain::{CustomFieldId, Seq};
use engine::ports::StoreError;

use super::erasable;
use super::folded::Folded;
use super::objects::{object_key, object_of, payment_of};
use crate::codes::object_type_of;
use crate::driver::{Cells, Value};
use crate::tables;

pub(crate) fn custom_field_row<'a>(it: &'a CustomField, folded: &'a Folded<2>) -> [Value<'a>; 15] {
    let [name, value] = folded;
    let [tenant, kind, object] = object_key(it.tenant, it.object);
    [
        tenant,
        it.id.into(),
        it.account.into(),
        kind,
        object,
        payment_of(it.object),
        erasable(&it.name),
        erasable(&it.value),
        i64::from(it.ordinal).into(),
        it.active.into(),
        it.created_at.into(),
        it.updated_at.into(),
        it.revision.seq.into(),
        name.as_ref().into(),
        value.as_ref().into(),
    ]
}

/// Reads a row of [`tables::CUSTOM_FIELD`].
///
/// # Errors
/// See [`super::tenant`].
pub fn custom_field(cells: &mut Cells<'_>) -> Result<CustomField, StoreError> {
    cells.of(&tables::CUSTOM_FIELD);
    let (tenant, id, account) = (cells.tenant()?, cells.entity()?, cells.entity()?);
    let (kind, object) = (cells.code(object_type_of)?, cells.id()?);
    let payment = cells.opt_entity()?;
    let object = object_of(cells, (kind, object, payment))?;
    let (name, value) = (cells.opt_string()?, cells.opt_string()?);
    let ordinal = u8::try_from(cells.int()?).map_err(|_| cells.corrupt("is no ordinal"))?;
    Ok(CustomField {
        tenant,
        id,
        account,
        object,
        name: name.unwrap_or_default(),
        value: value.unwrap_or_default(),
        ordinal,
        active: cells.flag()?,
        created_at: cells.time()?,
        updated_at: cells.time()?,
        revision: cells.revision()?,
    })
}

pub(crate) fn custom_field_value_row(it: &CustomField) -> [Value<'_>; 5] {
    [it.tenant.into(), it.id.into(), it.revision.seq.into(), it.account.into(), (&it.value).into()]
}

/// A value of a custom field: the field, the journal row from which on it had the value, and the
/// value.
pub(crate) fn custom_field_value(
    cells: &mut Cells<'_>,
) -> Result<(CustomFieldId, Seq, String), StoreError> {
    cells.of(&tables::CUSTOM_FIELD_VALUE);
    cells.skip(1);
    let (id, since) = (cells.entity()?, cells.seq()?);
    cells.skip(1);
    Ok((id, since, cells.string()?))
}
