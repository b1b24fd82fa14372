//! Custom fields of objects.

use domain::account::custom_field::{
    AddCustomFields, CustomField, FIELD_CHARS_MAX, NewCustomField, NewValue, RemoveCustomFields,
    UpdateCustomFields,
};
use domain::command::AccountCommand;
use domain::object::ObjectType;
use domain::{Command, CustomFieldId, TenantNo};
use engine::ports::{FieldSearch, HistoryOf, Queries};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::audit::AuditLogJson;
use crate::call::{Call, read_id};
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::json::{Json, Raw};
use crate::objects;
use crate::page::{self, AuditOption, AuditedRow, RowFormat as _};
use crate::reply;
use crate::request::{Query, printable};

const JSON: Json = Json("CustomFieldJson");

/// Kill Bill's `CustomFieldJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CustomFieldJson<'a> {
    custom_field_id: Uuid,
    object_id: Uuid,
    object_type: &'static str,
    name: &'a str,
    value: &'a str,
    audit_logs: Vec<AuditLogJson<'a>>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = CustomFieldRequest)]
pub(crate) struct CustomFieldBody<'a> {
    /// Which field gets another value.
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    custom_field_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    object_id: Raw<'a>,
    /// Ignored: the path names the type.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    object_type: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = String)]
    value: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

impl CustomFieldBody<'_> {
    fn new_field(&self) -> Result<NewCustomField, Failure> {
        self.check_ignored()?;
        let (name, value) = (self.name()?, self.value()?);
        Ok(NewCustomField { name: name.ok_or_else(|| JSON.missing("name"))?, value })
    }

    fn new_value(&self) -> Result<NewValue, Failure> {
        self.check_ignored()?;
        let id = JSON.id("customFieldId", self.custom_field_id)?;
        let id = id.ok_or_else(|| JSON.missing("id"))?;
        Ok(NewValue { id, name: self.name()?, value: self.value()? })
    }

    fn name(&self) -> Result<Option<String>, Failure> {
        Ok(JSON.text("name", self.name, FIELD_CHARS_MAX)?.filter(|name| !name.is_empty()))
    }

    fn value(&self) -> Result<String, Failure> {
        let value = JSON.lines("value", self.value, FIELD_CHARS_MAX)?;
        value.filter(|value| !value.is_empty()).ok_or_else(|| JSON.missing("value"))
    }

    fn check_ignored(&self) -> Result<(), Failure> {
        let _of = JSON.id::<()>("objectId", self.object_id)?;
        let _kind = JSON.text("objectType", self.object_type, FIELD_CHARS_MAX)?;
        let _logs = self.audit_logs;
        Ok(())
    }
}

/// How a field is read and encoded.
type ReadOptions = AuditOption<CustomField>;

impl AuditedRow for CustomField {
    type Json<'a> = CustomFieldJson<'a>;

    fn history(&self) -> (TenantNo, HistoryOf) {
        (self.tenant, HistoryOf::new::<Self>(self.id.uuid()))
    }

    fn json<'a>(&'a self, audit_logs: Vec<AuditLogJson<'a>>) -> CustomFieldJson<'a> {
        CustomFieldJson {
            custom_field_id: self.id.uuid(),
            object_id: self.object.id(),
            object_type: self.object.kind().name(),
            name: &self.name,
            value: &self.value,
            audit_logs,
        }
    }
}

/// Lists the custom fields, the oldest first.
#[utoipa::path(get, path = "/1.0/kb/{object}/{objectId}/customFields", operation_id = "custom_fields",
    params(("objectId" = Uuid, Path), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [CustomFieldJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> HandlerResult {
    let format = ReadOptions::of(&call)?;
    let (_, object) = objects::of_route(&call).await?;
    let tenant = call.tenant();
    page::whole(&call, format, move |queries| queries.custom_fields_of(tenant, object)).await
}

/// Adds custom fields: all, or none. Names may repeat.
#[utoipa::path(post, path = "/1.0/kb/{object}/{objectId}/customFields", operation_id = "add_custom_fields",
    params(("objectId" = Uuid, Path)), request_body = [CustomFieldBody<'static>],
    responses((status = 201, description = "They are there; Location lists them"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn add(call: Call) -> HandlerResult {
    let bodies: Vec<CustomFieldBody<'_>> = JSON.objects(&call.body)?;
    let fields = bodies.iter().map(CustomFieldBody::new_field).collect::<Result<_, _>>()?;
    let (account, object) = objects::of_route(&call).await?;
    let command = AddCustomFields { account, object, fields };
    call.submit_change(Command::Account(AccountCommand::AddCustomFields(command))).await?;
    Ok(reply::created(call.location(&[call.parts.uri.path()])))
}

/// Gives custom fields other values: all, or none. Names do not change.
#[utoipa::path(put, path = "/1.0/kb/{object}/{objectId}/customFields", operation_id = "update_custom_fields",
    params(("objectId" = Uuid, Path)), request_body = [CustomFieldBody<'static>],
    responses((status = 204, description = "They have them"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn update(call: Call) -> HandlerResult {
    let bodies: Vec<CustomFieldBody<'_>> = JSON.objects(&call.body)?;
    let fields = bodies.iter().map(CustomFieldBody::new_value).collect::<Result<_, _>>()?;
    let (account, object) = objects::of_route(&call).await?;
    let command = UpdateCustomFields { account, object, fields };
    call.submit_change(Command::Account(AccountCommand::UpdateCustomFields(command))).await?;
    Ok(reply::no_content())
}

/// Removes custom fields: those that are named, or all. Those that are not there are passed over.
#[utoipa::path(delete, path = "/1.0/kb/{object}/{objectId}/customFields", operation_id = "remove_custom_fields",
    params(
        ("objectId" = Uuid, Path),
        ("customField" = Option<Vec<Uuid>>, Query, description = "A field's id; repeatable")),
    responses((status = 204, description = "They are gone"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn remove(call: Call) -> HandlerResult {
    let named = call.query().all("customField").map(|text| read_id("customField", &text?));
    let fields = named.collect::<Result<Vec<CustomFieldId>, _>>()?;
    let (account, object) = objects::of_route(&call).await?;
    let command = RemoveCustomFields { account, object, fields };
    call.submit_change(Command::Account(AccountCommand::RemoveCustomFields(command))).await?;
    Ok(reply::no_content())
}

/// Lists the custom fields of an account and of all that belongs to it, at most 10,000.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/allCustomFields", tag = "Account",
    operation_id = "all_custom_fields",
    params(("accountId" = Uuid, Path), ("objectType" = Option<String>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [CustomFieldJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_all(call: Call) -> HandlerResult {
    let format = ReadOptions::of(&call)?;
    let wanted = objects::types_of(call.query())?;
    let (account, _) = objects::find(&call, ObjectType::Account).await?;
    let tenant = call.tenant();
    page::whole(&call, format, move |queries| {
        if wanted.is_empty() {
            return Ok(vec![]);
        }
        queries.custom_fields_of_account(tenant, account, &wanted)
    })
    .await
}

/// Lists custom fields.
#[utoipa::path(get, path = "/1.0/kb/customFields/pagination", tag = "CustomField", operation_id = "list",
    params(("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [CustomFieldJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn page(call: Call) -> HandlerResult {
    let (window, format) = (page::parse(call.query())?, ReadOptions::of(&call)?);
    let audit = [("audit", format.audit.name())];
    let url = ("/1.0/kb/customFields/pagination", &audit[..]);
    page::list(&call, format, window, url, |queries, tenant, page| {
        queries.custom_fields(tenant, page)
    })
    .await
}

/// Finds custom fields of a type of objects by name, and by value where one is given.
#[utoipa::path(get, path = "/1.0/kb/customFields/search", tag = "CustomField",
    operation_id = "search_by_name",
    params(
        ("objectType" = String, Query),
        ("fieldName" = String, Query, description = "The field's name"),
        ("fieldValue" = Option<String>, Query, description = "The field's value"),
        ("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [CustomFieldJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search_by_name(call: Call) -> HandlerResult {
    let (window, format) = (page::parse(call.query())?, ReadOptions::of(&call)?);
    let kind = named_kind(call.query())?;
    let text = |name| -> Result<Option<String>, Failure> {
        Ok(call.query().text(name)?.map(|text| text.into_owned()))
    };
    let (name, value) = (text("fieldName")?, text("fieldValue")?);
    let name = name.ok_or_else(|| Failure::illegal("fieldName needs to be set"))?;
    let value = value.filter(|value| !value.is_empty());
    let mut others = vec![("objectType", kind.name()), ("fieldName", &*name)];
    others.extend(value.as_deref().map(|value| ("fieldValue", value)));
    others.push(("audit", format.audit.name()));
    let search = FieldSearch::Value { kind, name: name.clone(), value: value.clone() };
    let find = move |queries: &dyn Queries, tenant, page| {
        queries.custom_fields_named(tenant, &search, page)
    };
    page::scan(&call, format, window, ("/1.0/kb/customFields/search", &others), find).await
}

/// The type of objects whose fields are looked for.
fn named_kind(query: Query<'_>) -> Result<ObjectType, Failure> {
    let name =
        objects::type_of(query)?.ok_or_else(|| Failure::illegal("objectType needs to be set"))?;
    let kind = ObjectType::ALL.into_iter().find(|kind| kind.name() == name);
    let message = || format!("objectType={}: it has no custom fields here", printable(name));
    kind.ok_or_else(|| Failure::illegal(message()))
}

/// Searches custom fields.
///
/// Finds those whose name or value is the text, and those of an id or of an object's id. Where there are none,
/// finds all whose name or value contains it, which looks at every field of the tenant.
#[utoipa::path(get, path = "/1.0/kb/customFields/search/{searchKey}", tag = "CustomField",
    operation_id = "search",
    params(("searchKey" = String, Path), ("offset" = Option<u64>, Query),
        ("limit" = Option<u64>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [CustomFieldJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search(call: Call) -> HandlerResult {
    let text = call.param("searchKey")?.into_owned();
    let (window, format) = (page::parse(call.query())?, ReadOptions::of(&call)?);
    let path = format!("/1.0/kb/customFields/search/{}", reply::segment(&text));
    let audit = [("audit", format.audit.name())];
    let named = FieldSearch::Text(text.clone());
    // Both on the readers for searches: thousands of fields may have one name.
    let find = move |queries: &dyn Queries, tenant, page| {
        let found = queries.custom_fields_named(tenant, &named, page)?;
        if found.matching > 0 {
            return Ok(found);
        }
        queries.search_custom_fields(tenant, &text, page)
    };
    page::scan(&call, format, window, (&path, &audit), find).await
}
