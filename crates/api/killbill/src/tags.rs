//! Tags of objects, and the definitions of tags.

use std::collections::BTreeSet;

use domain::account::tag::Tag;
use domain::account::tag::{
    AddTags, CONTROL_TAGS, ControlTagDefinition, CreateTagDefinition, DEFINITION_CHARS_MAX,
    RemoveTags, TagDefinition,
};
use domain::command::{AccountCommand, TenantCommand};
use domain::object::{Object, ObjectType};
use domain::{AccountId, Command, Reply, TagDefinitionId, TenantNo};
use engine::ports::{HistoryOf, NamedTag, Queries, StoreError};
use engine::text;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::audit::{AuditLevel, AuditLogJson, with_history};
use crate::call::{Call, read_id, unexpected};
use crate::error::{ErrorJson, Failure, HandlerResult, code, no_tag_definition};
use crate::json::{Json, Raw};
use crate::objects;
use crate::page::{self, AuditOption, AuditedRow, RowFormat as _};
use crate::reply;
use crate::request::printable;

const JSON: Json = Json("TagJson");
const DEFINITION: Json = Json("TagDefinition");

/// How many characters the name of a type of objects has at most.
const TYPE_CHARS_MAX: usize = 64;

/// Kill Bill's `TagJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TagJson<'a> {
    tag_id: Uuid,
    object_type: &'static str,
    object_id: Uuid,
    tag_definition_id: Uuid,
    tag_definition_name: &'a str,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// Kill Bill's `TagDefinitionJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TagDefinitionJson<'a> {
    id: Uuid,
    is_control_tag: bool,
    name: &'a str,
    description: &'a str,
    applicable_object_types: Vec<&'a str>,
    /// Empty for control tags, which are built in.
    audit_logs: Vec<AuditLogJson<'a>>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = TagDefinitionRequest)]
pub(crate) struct TagDefinitionBody<'a> {
    /// Ignored: the id is made here.
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    id: Raw<'a>,
    /// Ignored: it is never one.
    #[serde(borrow)]
    #[schema(value_type = Option<bool>)]
    is_control_tag: Raw<'a>,
    /// In lower case.
    #[serde(borrow)]
    #[schema(value_type = String)]
    name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = String)]
    description: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Vec<String>)]
    applicable_object_types: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

impl TagDefinitionBody<'_> {
    fn create(&self) -> Result<CreateTagDefinition, Failure> {
        let _id = DEFINITION.id::<()>("id", self.id)?;
        let _is_control = DEFINITION.boolean("isControlTag", self.is_control_tag)?;
        let _logs = self.audit_logs;
        let text = |field, raw| {
            let text = DEFINITION.text(field, raw, DEFINITION_CHARS_MAX)?;
            text.filter(|it| !it.is_empty()).ok_or_else(|| DEFINITION.missing(field))
        };
        let (name, description) =
            (text("name", self.name)?, text("description", self.description)?);
        let field = "applicableObjectTypes";
        let types = DEFINITION.texts(field, self.applicable_object_types, TYPE_CHARS_MAX)?;
        let types = types.filter(|types| !types.is_empty());
        let types = types.ok_or_else(|| Failure::illegal("Applicable object types must be set"))?;
        let known = |name: &String| {
            objects::named(name).ok_or_else(|| {
                Failure::illegal(format!("{field}: there is no type {}", printable(name)))
            })
        };
        let applies_to = types.iter().map(known).collect::<Result<BTreeSet<_>, _>>()?;
        let applies_to = applies_to.into_iter().map(str::to_owned).collect();
        Ok(CreateTagDefinition { name, description, applies_to })
    }
}

/// How a tag is read and encoded.
type ReadOptions = AuditOption<NamedTag>;

impl AuditedRow for NamedTag {
    type Json<'a> = TagJson<'a>;

    fn history(&self) -> (TenantNo, HistoryOf) {
        (self.tag.tenant, HistoryOf::new::<Tag>(self.tag.id.uuid()))
    }

    fn json<'a>(&'a self, audit_logs: Vec<AuditLogJson<'a>>) -> TagJson<'a> {
        let object = self.tag.key.object();
        TagJson {
            tag_id: self.tag.id.uuid(),
            object_type: object.kind().name(),
            object_id: object.id(),
            tag_definition_id: self.tag.key.definition.id().uuid(),
            tag_definition_name: self.definition.name(),
            audit_logs,
        }
    }
}

/// Lists the tags, the oldest first.
#[utoipa::path(get, path = "/1.0/kb/{object}/{objectId}/tags", operation_id = "tags",
    params(("objectId" = Uuid, Path), ("includedDeleted" = Option<bool>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [TagJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> HandlerResult {
    let format = ReadOptions::of(&call)?;
    let includes_deleted = call.query().flag("includedDeleted");
    let (_, object) = objects::of_route(&call).await?;
    let tenant = call.tenant();
    page::whole(&call, format, move |queries| {
        let mut tags = queries.tags_of(tenant, object)?;
        tags.retain(|it| it.tag.active || includes_deleted);
        Ok(tags)
    })
    .await
}

/// Adds tags: all, or none.
#[utoipa::path(post, path = "/1.0/kb/{object}/{objectId}/tags", operation_id = "add_tags",
    params(("objectId" = Uuid, Path)), request_body = [Uuid],
    responses((status = 201, description = "They are there; Location lists them"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn add(call: Call) -> HandlerResult {
    let definitions = JSON.ids("tagDefinitionId", &call.body)?;
    let (account, part) = part_of(objects::of_route(&call).await?);
    let command = AccountCommand::AddTags(AddTags { account, part, definitions });
    call.submit_change(Command::Account(command)).await?;
    Ok(reply::created(call.location(&[call.parts.uri.path()])))
}

/// Removes tags: all, or none.
#[utoipa::path(delete, path = "/1.0/kb/{object}/{objectId}/tags", operation_id = "remove_tags",
    params(
        ("objectId" = Uuid, Path),
        ("tagDef" = Option<Vec<Uuid>>, Query, description = "A definition's id; repeatable")),
    responses((status = 204, description = "They are gone"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn remove(call: Call) -> HandlerResult {
    let named = call.query().all("tagDef").map(|text| read_id("tagDef", &text?));
    let definitions = named.collect::<Result<Vec<TagDefinitionId>, _>>()?;
    let (account, part) = part_of(objects::of_route(&call).await?);
    let command = AccountCommand::RemoveTags(RemoveTags { account, part, definitions });
    call.submit_change(Command::Account(command)).await?;
    Ok(reply::no_content())
}

/// An object as commands about tags name it.
fn part_of((account, object): (AccountId, Object)) -> (AccountId, Option<Object>) {
    (account, Some(object).filter(|object| *object != Object::Account(account)))
}

/// Lists the tags of an account and of all that belongs to it, at most 10,000.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/allTags", tag = "Account", operation_id = "all_tags",
    params(("accountId" = Uuid, Path), ("objectType" = Option<String>, Query),
        ("includedDeleted" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [TagJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_all(call: Call) -> HandlerResult {
    let (format, wanted) = (ReadOptions::of(&call)?, objects::types_of(call.query())?);
    let includes_deleted = call.query().flag("includedDeleted");
    let (account, _) = objects::find(&call, ObjectType::Account).await?;
    let tenant = call.tenant();
    page::whole(&call, format, move |queries| {
        if wanted.is_empty() {
            return Ok(vec![]);
        }
        queries.tags_of_account(tenant, account, (&wanted, includes_deleted))
    })
    .await
}

/// Lists tags.
#[utoipa::path(get, path = "/1.0/kb/tags/pagination", tag = "Tag", operation_id = "list",
    params(("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [TagJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn page(call: Call) -> HandlerResult {
    let (window, format) = (page::parse(call.query())?, ReadOptions::of(&call)?);
    let audit = [("audit", format.audit.name())];
    let url = ("/1.0/kb/tags/pagination", &audit[..]);
    page::list(&call, format, window, url, |queries, tenant, page| queries.tags(tenant, page)).await
}

/// Searches tags: those of definitions whose name or description contains the text.
#[utoipa::path(get, path = "/1.0/kb/tags/search/{searchKey}", tag = "Tag", operation_id = "search",
    params(("searchKey" = String, Path), ("offset" = Option<u64>, Query),
        ("limit" = Option<u64>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [TagJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search(call: Call) -> HandlerResult {
    let text = call.param("searchKey")?.into_owned();
    let (window, format) = (page::parse(call.query())?, ReadOptions::of(&call)?);
    let path = format!("/1.0/kb/tags/search/{}", reply::segment(&text));
    let audit = [("audit", format.audit.name())];
    let wanted = text::folded(&text);
    let find = move |queries: &dyn Queries, tenant, page| {
        let own = queries.tag_definitions(tenant)?;
        let own = own.iter().map(|it| (it.id, it.name.as_str(), it.description.as_str()));
        let control = CONTROL_TAGS.iter().map(|it| (it.id(), it.name, it.description));
        let contains = |text: &str| text::folded(text).contains(&wanted);
        let found = own.chain(control).filter(|it| contains(it.1) || contains(it.2));
        let definitions: Vec<TagDefinitionId> = found.map(|(id, ..)| id).collect();
        queries.tags_named(tenant, &definitions, page)
    };
    page::scan(&call, format, window, (&path, &audit), find).await
}

/// Lists the definitions of tags: the tenant's own, and the control tags of every tenant.
#[utoipa::path(get, path = "/1.0/kb/tagDefinitions", tag = "TagDefinition", operation_id = "list",
    params(("audit" = Option<String>, Query)),
    responses((status = 200, body = [TagDefinitionJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn definitions(call: Call) -> HandlerResult {
    let (audit, tenant) = (AuditLevel::of(call.query())?, call.tenant());
    let own = call.read(move |queries| {
        let with_audit = |it: TagDefinition| {
            let rows =
                audit.read(queries, tenant, HistoryOf::new::<TagDefinition>(it.id.uuid()))?;
            Ok((it, rows))
        };
        let own = queries.tag_definitions(tenant)?;
        own.into_iter().map(with_audit).collect::<Result<Vec<_>, StoreError>>()
    });
    let own = own.await?;
    let mut shown: Vec<_> = own.iter().map(|(it, rows)| of_tenant(it, audit.logs(rows))).collect();
    shown.extend(CONTROL_TAGS.iter().map(of_control));
    Ok(reply::ok(&shown))
}

/// Reads the definition of a tag.
#[utoipa::path(get, path = "/1.0/kb/tagDefinitions/{tagDefinitionId}", tag = "TagDefinition", operation_id = "get",
    params(("tagDefinitionId" = Uuid, Path), ("audit" = Option<String>, Query)),
    responses((status = 200, body = TagDefinitionJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn definition(call: Call) -> HandlerResult {
    let id: TagDefinitionId = call.param_id("tagDefinitionId")?;
    let (audit, tenant) = (AuditLevel::of(call.query())?, call.tenant());
    if let Some(control) = ControlTagDefinition::find(id) {
        return Ok(reply::ok(&of_control(control)));
    }
    let found = call.read(move |queries| {
        let found = queries.tag_definition(tenant, id)?.filter(|it| it.active);
        let rows = audit.read(queries, tenant, HistoryOf::new::<TagDefinition>(id.uuid()))?;
        Ok(found.map(|found| (found, rows)))
    });
    let (found, rows) = found.await?.ok_or_else(|| missing(id))?;
    Ok(reply::ok(&of_tenant(&found, audit.logs(&rows))))
}

/// Makes a definition of tags.
#[utoipa::path(post, path = "/1.0/kb/tagDefinitions", tag = "TagDefinition", operation_id = "create",
    request_body = TagDefinitionBody<'static>,
    responses((status = 201, description = "Location names it"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn define(call: Call) -> HandlerResult {
    let body: TagDefinitionBody<'_> = call.body(DEFINITION)?;
    let command = Command::Tenant(TenantCommand::DefineTag(body.create()?));
    let Reply::TagDefinitionCreated(id) = call.submit(command).await? else { unexpected() };
    Ok(reply::created(call.location(&["/1.0/kb/tagDefinitions/", &id.to_string()])))
}

/// Deletes a definition of tags that nothing is tagged with.
#[utoipa::path(delete, path = "/1.0/kb/tagDefinitions/{tagDefinitionId}", tag = "TagDefinition",
    operation_id = "delete", params(("tagDefinitionId" = Uuid, Path)),
    responses((status = 204, description = "It is gone"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn undefine(call: Call) -> HandlerResult {
    let id: TagDefinitionId = call.param_id("tagDefinitionId")?;
    if ControlTagDefinition::find(id).is_some() {
        return Err(Failure::illegal("a control tag cannot be deleted"));
    }
    call.submit_change(Command::Tenant(TenantCommand::UndefineTag(id))).await?;
    Ok(reply::no_content())
}

/// The audit of a definition of tags, with its history. Control tags have none.
#[utoipa::path(get, path = "/1.0/kb/tagDefinitions/{tagDefinitionId}/auditLogsWithHistory",
    tag = "TagDefinition", operation_id = "history", params(("tagDefinitionId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn definition_history(call: Call) -> HandlerResult {
    let id: TagDefinitionId = call.param_id("tagDefinitionId")?;
    let tenant = call.tenant();
    let of = HistoryOf::new::<TagDefinition>(id.uuid());
    let rows = call.read(move |queries| queries.history(tenant, of)).await?;
    if rows.is_empty() && ControlTagDefinition::find(id).is_none() {
        return Err(missing(id));
    }
    Ok(reply::ok(&with_history(&rows)))
}

fn missing(id: TagDefinitionId) -> Failure {
    Failure::coded(code::NO_SUCH_TAG_DEFINITION, no_tag_definition(&id))
}

fn of_control(it: &ControlTagDefinition) -> TagDefinitionJson<'_> {
    TagDefinitionJson {
        id: it.id().uuid(),
        is_control_tag: true,
        name: it.name,
        description: it.description,
        applicable_object_types: vec![it.applies_to],
        audit_logs: vec![],
    }
}

fn of_tenant<'a>(
    it: &'a TagDefinition,
    audit_logs: Vec<AuditLogJson<'a>>,
) -> TagDefinitionJson<'a> {
    TagDefinitionJson {
        id: it.id.uuid(),
        is_control_tag: false,
        name: &it.name,
        description: &it.description,
        applicable_object_types: it.applies_to.iter().map(String::as_str).collect(),
        audit_logs,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_tag_definition_has_kill_bills_json() {
        let written_off = CONTROL_TAGS.iter().find(|it| it.number == 4).unwrap();
        let json = serde_json::to_string(&of_control(written_off)).unwrap();
        expect![[r#"{"id":"00000000-0000-0000-0000-000000000004","isControlTag":true,"name":"WRITTEN_OFF","description":"Indicates that an invoice is written off. No billing or payment effect.","applicableObjectTypes":["INVOICE"],"auditLogs":[]}"#]].assert_eq(&json);
    }
}
