//! Reads of custom fields.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use domain::account::custom_field::CustomField;
use domain::object::{Object, ObjectType};
use domain::{AccountId, CustomFieldId, Seq, TenantNo};
use engine::ports::{CustomFieldQueries, FieldSearch, Page, Paged, ROWS_MAX, StoreError};
use uuid::Uuid;

use super::window::MATCHES_MAX;
use super::{SqlQueries, window};
use crate::codes::code;
use crate::driver::{Reader, Value};
use crate::stored::KeyColumns;
use crate::tables::{self, CUSTOM_FIELD, CUSTOM_FIELD_VALUE, SHOWN};
use crate::totals::Counted;

/// Fields in the order in which they were made.
static BY_ID: LazyLock<String> =
    LazyLock::new(|| CUSTOM_FIELD.select("WHERE tenant = ?1 AND id = ?2"));

const ORDER: &str = "ORDER BY created_at_us, ordinal, id";

impl CustomFieldQueries for SqlQueries {
    fn custom_fields_of(
        &self,
        no: TenantNo,
        object: Object,
    ) -> Result<Vec<CustomField>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                CUSTOM_FIELD.select(&format!("{} {ORDER}", CUSTOM_FIELD.of_owner().rest))
            });
            reader.query(&SQL, &(no, object).columns(), |cells| tables::CUSTOM_FIELD.row(cells))
        })
    }

    fn custom_fields_of_account(
        &self,
        no: TenantNo,
        account: AccountId,
        kinds: &[ObjectType],
    ) -> Result<Vec<CustomField>, StoreError> {
        self.read(|reader| {
            let kinds: Vec<_> = kinds.iter().map(|it| code(*it).to_string()).collect();
            let sql = CUSTOM_FIELD.select(&format!(
                "WHERE tenant = ?1 AND account_id = ?2 AND object_type IN ({}) AND {SHOWN} \
                 {ORDER} LIMIT ?3",
                kinds.join(", ")
            ));
            let parameters = [no.into(), account.into(), window::limit(ROWS_MAX)];
            reader.query(&sql, &parameters, |cells| tables::CUSTOM_FIELD.row(cells))
        })
    }

    fn custom_fields(&self, no: TenantNo, page: Page) -> Result<Paged<CustomField>, StoreError> {
        self.snapshot(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let rest = format!("WHERE tenant = ?1 AND {SHOWN} {ORDER} LIMIT ?2 OFFSET ?3");
                CUSTOM_FIELD.select(&rest)
            });
            let [limit, offset] = window::limit_offset(page);
            let items = reader.query(&SQL, &[no.into(), limit, offset], |cells| {
                tables::CUSTOM_FIELD.row(cells)
            })?;
            let all = window::total(reader, no, Counted::CustomFields, None)?;
            Ok(Paged { items, matching: all, all })
        })
    }

    fn custom_fields_named(
        &self,
        no: TenantNo,
        search: &FieldSearch,
        page: Page,
    ) -> Result<Paged<CustomField>, StoreError> {
        self.snapshot(|reader| match search {
            FieldSearch::Value { kind, name, value: None } => {
                let parameters = [no.into(), code(*kind).into(), name.into(), MATCHES_MAX.into()];
                let sql = format!(
                    "SELECT id FROM custom_field WHERE tenant = ?1 AND object_type = ?2 \
                     AND name = ?3 AND {SHOWN} {ORDER} LIMIT ?4"
                );
                find(reader, no, (&sql, &parameters), page)
            }
            FieldSearch::Value { kind, name, value: Some(value) } => {
                of_value(reader, no, (*kind, name, value), page)
            }
            FieldSearch::Text(text) => find_text(reader, no, text, page),
        })
    }

    fn search_custom_fields(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<CustomField>, StoreError> {
        self.snapshot(|reader| {
            let [name, value] = ["name", "value"].map(|it| window::like(it, 2));
            let sql = format!(
                "SELECT id FROM custom_field WHERE tenant = ?1 AND ({name} OR {value}) \
                 AND {SHOWN} {ORDER} LIMIT ?3"
            );
            let pattern = window::containing(text);
            find(reader, no, (&sql, &[no.into(), (&pattern).into(), MATCHES_MAX.into()]), page)
        })
    }
}

/// Fields of a name and a value on objects of a kind: a page of them, and how many there are, both in one index.
fn of_value(
    reader: &Reader,
    no: TenantNo,
    (kind, name, value): (ObjectType, &str, &str),
    page: Page,
) -> Result<Paged<CustomField>, StoreError> {
    const WHERE: &str = "WHERE tenant = ?1 AND object_type = ?2 AND name = ?3 AND value = ?4";
    static ITEMS: LazyLock<String> = LazyLock::new(|| {
        CUSTOM_FIELD.select(&format!("{WHERE} AND {SHOWN} {ORDER} LIMIT ?5 OFFSET ?6"))
    });
    static COUNT: LazyLock<String> = LazyLock::new(|| {
        let matching = format!("SELECT 1 FROM custom_field {WHERE} AND {SHOWN} LIMIT ?5");
        format!("SELECT count(*) FROM ({matching}) f")
    });
    let key = || [no.into(), code(kind).into(), name.into(), value.into()];
    let [limit, offset] = window::limit_offset(page);
    let page_of: Vec<Value<'_>> = key().into_iter().chain([limit, offset]).collect();
    let items = reader.query(&ITEMS, &page_of, |cells| tables::CUSTOM_FIELD.row(cells))?;
    let counted: Vec<Value<'_>> = key().into_iter().chain([MATCHES_MAX.into()]).collect();
    let matching = reader.query_one(&COUNT, &counted, |cells| cells.int())?.unwrap_or_default();
    let all = window::total(reader, no, Counted::CustomFields, None)?;
    Ok(Paged { items, matching: matching.unsigned_abs(), all })
}

/// Fields whose id, or whose object's id, a text is, or whose name or value it is.
fn find_text(
    reader: &Reader,
    no: TenantNo,
    text: &str,
    page: Page,
) -> Result<Paged<CustomField>, StoreError> {
    let types = ObjectType::ALL.map(|it| code(it).to_string()).join(", ");
    let one = |condition: &str| {
        format!(
            "SELECT id, created_at_us, ordinal FROM custom_field WHERE tenant = ?1 AND {condition} \
             AND {SHOWN}"
        )
    };
    let mut found =
        vec![one("value = ?2"), one(&format!("object_type IN ({types}) AND name = ?2"))];
    let mut parameters = vec![no.into(), text.into(), MATCHES_MAX.into()];
    if let Ok(id) = Uuid::try_parse(text) {
        found.push(one("id = ?4"));
        found.push(one(&format!("object_type IN ({types}) AND object_id = ?4")));
        parameters.push(id.into());
    }
    let all = found.join(" UNION ");
    let sql = format!("SELECT id FROM ({all}) f {ORDER} LIMIT ?3");
    find(reader, no, (&sql, &parameters), page)
}

fn find(
    reader: &Reader,
    no: TenantNo,
    search: (&str, &[Value<'_>]),
    page: Page,
) -> Result<Paged<CustomField>, StoreError> {
    let all = window::total(reader, no, Counted::CustomFields, None)?;
    window::find(reader, search, page, all, |id| {
        reader.query_one(&BY_ID, &[no.into(), id.into()], |cells| CUSTOM_FIELD.row(cells))
    })
}

/// The values that a field had, each from a journal row on.
pub(super) fn values(
    reader: &Reader,
    no: TenantNo,
    id: CustomFieldId,
) -> Result<BTreeMap<Seq, String>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        CUSTOM_FIELD_VALUE.select("WHERE tenant = ?1 AND field_id = ?2 ORDER BY seq")
    });
    let all = reader.query(&SQL, &[no.into(), id.into()], tables::custom_field_value)?;
    Ok(all.into_iter().map(|(_, since, value)| (since, value)).collect())
}
