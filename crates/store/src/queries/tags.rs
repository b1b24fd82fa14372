//! Reads of tags and of tenants' definitions of them.

use std::sync::LazyLock;

use domain::account::tag::{DefinitionRef, NamedDefinition, Tag, TagDefinition};
use domain::object::{Object, ObjectType};
use domain::{AccountId, TagDefinitionId, TenantNo};
use engine::ports::{NamedTag, Page, Paged, ROWS_MAX, StoreError, TagQueries};

use super::{SqlQueries, window};
use crate::codes::code;
use crate::driver::Reader;
use crate::tables::{self, TAG, TAG_DEFINITION};
use crate::totals::Counted;

/// Tags in the order in which they were added; those of one request by their definitions.
const ORDER: &str = "ORDER BY created_at_us, definition_id, id";

impl TagQueries for SqlQueries {
    fn tags_of(&self, no: TenantNo, object: Object) -> Result<Vec<NamedTag>, StoreError> {
        self.snapshot(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let rest = "WHERE tenant = ?1 AND object_id = ?2 AND object_type = ?3";
                TAG.select(&format!("{rest} {ORDER} LIMIT ?4"))
            });
            let (id, kind) = (object.id().into(), code(object.kind()).into());
            let parameters = [no.into(), id, kind, window::limit(ROWS_MAX)];
            named(reader, no, reader.query(&SQL, &parameters, |cells| tables::TAG.row(cells))?)
        })
    }

    fn tags_of_account(
        &self,
        no: TenantNo,
        account: AccountId,
        (kinds, includes_removed): (&[ObjectType], bool),
    ) -> Result<Vec<NamedTag>, StoreError> {
        self.snapshot(|reader| {
            let kinds: Vec<_> = kinds.iter().map(|it| code(*it).to_string()).collect();
            let active = if includes_removed { "" } else { "AND active = 1" };
            let sql = TAG.select(&format!(
                "WHERE tenant = ?1 AND account_id = ?2 AND object_type IN ({}) {active} {ORDER} \
                 LIMIT ?3",
                kinds.join(", ")
            ));
            let parameters = [no.into(), account.into(), window::limit(ROWS_MAX)];
            named(reader, no, reader.query(&sql, &parameters, |cells| tables::TAG.row(cells))?)
        })
    }

    fn tags(&self, no: TenantNo, page: Page) -> Result<Paged<NamedTag>, StoreError> {
        self.snapshot(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                TAG.select(&format!("WHERE tenant = ?1 AND active = 1 {ORDER} LIMIT ?2 OFFSET ?3"))
            });
            let [limit, offset] = window::limit_offset(page);
            let items =
                reader.query(&SQL, &[no.into(), limit, offset], |cells| tables::TAG.row(cells))?;
            let all = window::total(reader, no, Counted::Tags, None)?;
            Ok(Paged { items: named(reader, no, items)?, matching: all, all })
        })
    }

    fn tags_named(
        &self,
        no: TenantNo,
        definitions: &[TagDefinitionId],
        page: Page,
    ) -> Result<Paged<NamedTag>, StoreError> {
        self.snapshot(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let rest = "WHERE tenant = ?1 AND definition_id = ?2 AND active = 1";
                TAG.select(&format!("{rest} {ORDER} LIMIT ?3 OFFSET ?4"))
            });
            let (mut items, mut matching) = (vec![], 0);
            let window = page.offset..page.offset.saturating_add(page.limit.min(ROWS_MAX));
            for definition in definitions {
                let of_definition = count(reader, no, *definition)?;
                let skipped = window.start.saturating_sub(matching).min(of_definition);
                let room = window.end.saturating_sub(matching + skipped);
                let wanted = room.min(of_definition - skipped);
                if wanted > 0 && matching + skipped >= window.start {
                    let [limit, offset] =
                        window::limit_offset(Page { offset: skipped, limit: wanted });
                    let parameters = [no.into(), (*definition).into(), limit, offset];
                    items.extend(reader.query(&SQL, &parameters, |cells| tables::TAG.row(cells))?);
                }
                matching += of_definition;
            }
            let all = window::total(reader, no, Counted::Tags, None)?;
            Ok(Paged { items: named(reader, no, items)?, matching, all })
        })
    }

    fn tag_definitions(&self, no: TenantNo) -> Result<Vec<TagDefinition>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let order = "ORDER BY created_at_us, id";
                TAG_DEFINITION.select(&format!("WHERE tenant = ?1 AND active = 1 {order} LIMIT ?2"))
            });
            let parameters = [no.into(), window::limit(ROWS_MAX)];
            reader.query(&SQL, &parameters, |cells| tables::TAG_DEFINITION.row(cells))
        })
    }

    fn tag_definition(
        &self,
        no: TenantNo,
        id: TagDefinitionId,
    ) -> Result<Option<TagDefinition>, StoreError> {
        self.read(|reader| definition(reader, no, id))
    }
}

/// How many tags there are of a definition.
fn count(reader: &Reader, no: TenantNo, definition: TagDefinitionId) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM object_tag WHERE tenant = ?1 AND definition_id = ?2 \
               AND active = 1";
    let found = window::count(reader, sql, &[no.into(), definition.into()])?;
    Ok(u64::try_from(found).unwrap_or(0))
}

/// Tags with the names of their definitions.
fn named(reader: &Reader, no: TenantNo, tags: Vec<Tag>) -> Result<Vec<NamedTag>, StoreError> {
    let with_name = |tag: Tag| {
        let definition = match tag.key.definition {
            DefinitionRef::Control(control) => NamedDefinition::Control(control),
            DefinitionRef::Own(id) => {
                let name = definition(reader, no, id)?.map(|it| it.name).unwrap_or_default();
                NamedDefinition::Own { id, name }
            }
        };
        Ok(NamedTag { tag, definition })
    };
    tags.into_iter().map(with_name).collect()
}

pub(super) fn definition(
    reader: &Reader,
    no: TenantNo,
    id: TagDefinitionId,
) -> Result<Option<TagDefinition>, StoreError> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| TAG_DEFINITION.select("WHERE tenant = ?1 AND id = ?2"));
    reader.query_one(&SQL, &[no.into(), id.into()], |cells| tables::TAG_DEFINITION.row(cells))
}
