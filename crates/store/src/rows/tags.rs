//! Rows of [`tables::TAG`].

use domain::TenantNo;
use domain::tag::{CONTROL_TAGS, ControlTag, Tag, TagKey};
use engine::ports::StoreError;

use crate::driver::{Cells, Value};
use crate::tables;

pub(crate) fn tag_key(tenant: TenantNo, key: TagKey) -> [Value<'static>; 3] {
    let definition = i64::from(key.definition.definition().number);
    [tenant.into(), key.account.into(), definition.into()]
}

pub(crate) fn tag_row(it: &Tag) -> [Value<'_>; 7] {
    let [tenant, account, definition] = tag_key(it.tenant, it.key);
    [
        tenant,
        account,
        definition,
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
    Ok(Tag {
        tenant: cells.tenant()?,
        key: TagKey { account: cells.entity()?, definition: cells.code(control_tag)? },
        id: cells.entity()?,
        active: cells.flag()?,
        created_at: cells.time()?,
        revision: cells.revision()?,
    })
}

/// A control tag by the number of its definition.
fn control_tag(number: i64) -> Option<ControlTag> {
    CONTROL_TAGS.iter().find(|it| i64::from(it.number) == number).map(|it| it.tag)
}
