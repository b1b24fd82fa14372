//! Tags of accounts, and the definitions of tags.

use domain::command::AccountCommand;
use domain::tag::{AddTags, CONTROL_TAGS, RemoveTags, Tag, TagDefinition};
use domain::{AccountId, AccountRejection, Command, Rejection, TagDefinitionId};
use engine::ports::{HistoryOf, HistoryRow};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::audit::{AuditLevel, AuditLogJson};
use crate::call::{Call, read_id};
use crate::error::{ErrorJson, Failure, HandlerResult, code, no_such_object, no_tag_definition};
use crate::json::Json;
use crate::reply;
use crate::request::{Query, printable};

const JSON: Json = Json("TagJson");

/// Kill Bill's types of tagged objects.
const OBJECT_TYPES: [&str; 19] = [
    "ACCOUNT",
    "ACCOUNT_EMAIL",
    "BLOCKING_STATES",
    "BUNDLE",
    "CUSTOM_FIELD",
    "INVOICE",
    "INVOICE_ITEM",
    "INVOICE_PAYMENT",
    "PAYMENT",
    "PAYMENT_ATTEMPT",
    "PAYMENT_METHOD",
    "SERVICE_BROADCAST",
    "SUBSCRIPTION",
    "SUBSCRIPTION_EVENT",
    "TAG",
    "TAG_DEFINITION",
    "TENANT",
    "TENANT_KVS",
    "TRANSACTION",
];

/// Kill Bill's `TagJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TagJson<'a> {
    tag_id: Uuid,
    object_type: &'static str,
    object_id: Uuid,
    tag_definition_id: Uuid,
    tag_definition_name: &'static str,
    audit_logs: Vec<AuditLogJson<'a>>,
}

impl<'a> TagJson<'a> {
    fn new((tag, rows): &'a (Tag, Vec<HistoryRow>), audit: AuditLevel) -> Self {
        let definition = tag.key.definition.definition();
        Self {
            tag_id: tag.id.uuid(),
            object_type: definition.applies_to.name(),
            object_id: tag.key.account.uuid(),
            tag_definition_id: definition.id().uuid(),
            tag_definition_name: definition.name,
            audit_logs: audit.logs(rows),
        }
    }
}

/// Kill Bill's `TagDefinitionJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TagDefinitionJson {
    id: Uuid,
    is_control_tag: bool,
    name: &'static str,
    description: &'static str,
    #[schema(value_type = Vec<String>)]
    applicable_object_types: [&'static str; 1],
    /// Always empty: the definitions are built in.
    #[schema(value_type = Vec<Object>)]
    audit_logs: [(); 0],
}

impl TagDefinitionJson {
    fn new(it: &TagDefinition) -> Self {
        Self {
            id: it.id().uuid(),
            is_control_tag: true,
            name: it.name,
            description: it.description,
            applicable_object_types: [it.applies_to.name()],
            audit_logs: [],
        }
    }
}

/// Lists an account's tags.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/tags", tag = "Account", operation_id = "tags",
    params(("accountId" = Uuid, Path), ("includedDeleted" = Option<bool>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [TagJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_account(call: Call) -> HandlerResult {
    list(call, true).await
}

/// Lists the tags of an account and of its resources: only accounts have tags.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/allTags", tag = "Account", operation_id = "all_tags",
    params(("accountId" = Uuid, Path), ("objectType" = Option<String>, Query),
        ("includedDeleted" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [TagJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_all(call: Call) -> HandlerResult {
    let wanted = object_type(call.query())?;
    list(call, wanted.is_none_or(|it| it == "ACCOUNT")).await
}

/// Parses `objectType=`, which is case-insensitive; `None` if it is absent or empty.
pub(crate) fn object_type(query: Query<'_>) -> Result<Option<&'static str>, Failure> {
    let text = query.text("objectType")?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let known = OBJECT_TYPES.iter().find(|it| text.eq_ignore_ascii_case(it));
    known.copied().map(Some).ok_or_else(|| {
        Failure::illegal(format!("objectType={}: there is no such type", printable(&text)))
    })
}

async fn list(call: Call, of_account: bool) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let (audit, tenant) = (AuditLevel::of(call.query())?, call.tenant());
    let includes_deleted = call.query().flag("includedDeleted");
    let found = call.read(move |queries| {
        if queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        let mut tags = queries.tags_of(tenant, account)?;
        tags.retain(|tag| of_account && (tag.active || includes_deleted));
        let with_rows = |tag: Tag| {
            let rows = audit.read(queries, tenant, HistoryOf::Tag(tag.id))?;
            Ok((tag, rows))
        };
        tags.into_iter().map(with_rows).collect::<Result<Vec<_>, _>>().map(Some)
    });
    let Some(found) = found.await? else {
        return Err(Failure::Refused(Box::new(Rejection::Account(AccountRejection::NotFound {
            id: account,
        }))));
    };
    let body: Vec<_> = found.iter().map(|it| TagJson::new(it, audit)).collect();
    Ok(reply::ok(&body))
}

/// Adds tags to an account: all, or none.
#[utoipa::path(post, path = "/1.0/kb/accounts/{accountId}/tags", tag = "Account", operation_id = "add_tags",
    params(("accountId" = Uuid, Path)), request_body = [Uuid],
    responses((status = 201, description = "They are there; Location lists them"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn add(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let definitions = JSON.ids("tagDefinitionId", &call.body)?;
    let command = AccountCommand::AddTags(AddTags { account, definitions });
    call.submit_change(Command::Account(command)).await.map_err(|failure| {
        let no_account = Rejection::Account(AccountRejection::NotFound { id: account });
        let is_missing = matches!(&failure, Failure::Refused(refused) if **refused == no_account);
        if is_missing { no_such_object("ACCOUNT", &account) } else { failure }
    })?;
    Ok(reply::created(call.location(&["/1.0/kb/accounts/", &account.to_string(), "/tags"])))
}

/// Removes tags from an account: all, or none.
#[utoipa::path(delete, path = "/1.0/kb/accounts/{accountId}/tags", tag = "Account", operation_id = "remove_tags",
    params(("accountId" = Uuid, Path), ("tagDef" = Option<Vec<Uuid>>, Query)),
    responses((status = 204, description = "They are gone"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn remove(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let named = call.query().all("tagDef").map(|text| read_id("tagDef", &text?));
    let definitions = named.collect::<Result<Vec<TagDefinitionId>, _>>()?;
    call.submit_change(Command::Account(AccountCommand::RemoveTags(RemoveTags {
        account,
        definitions,
    })))
    .await?;
    Ok(reply::no_content())
}

/// Lists the definitions of tags: those of every tenant.
#[utoipa::path(get, path = "/1.0/kb/tagDefinitions", tag = "TagDefinition", operation_id = "list",
    params(("audit" = Option<String>, Query)),
    responses((status = 200, body = [TagDefinitionJson]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn definitions(call: Call) -> HandlerResult {
    AuditLevel::of(call.query())?;
    Ok(reply::ok(&CONTROL_TAGS.map(|it| TagDefinitionJson::new(&it))))
}

/// Reads the definition of a tag.
#[utoipa::path(get, path = "/1.0/kb/tagDefinitions/{tagDefinitionId}", tag = "TagDefinition", operation_id = "get",
    params(("tagDefinitionId" = Uuid, Path), ("audit" = Option<String>, Query)),
    responses((status = 200, body = TagDefinitionJson),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn definition(call: Call) -> HandlerResult {
    let id: TagDefinitionId = call.param_id("tagDefinitionId")?;
    AuditLevel::of(call.query())?;
    let found = TagDefinition::find(id)
        .ok_or_else(|| Failure::coded(code::NO_SUCH_TAG_DEFINITION, no_tag_definition(&id)))?;
    Ok(reply::ok(&TagDefinitionJson::new(found)))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check_type(query: &str, expected: Expect) {
        expected.assert_eq(&format!("{:?}", object_type(Query::new(query))));
    }

    #[test]
    fn an_unknown_object_type_is_refused() {
        check_type("", expect!["Ok(None)"]);
        check_type("objectType=", expect!["Ok(None)"]);
        check_type("objectType=account", expect![[r#"Ok(Some("ACCOUNT"))"#]]);
        check_type("objectType=PAYMENT&audit=FULL", expect![[r#"Ok(Some("PAYMENT"))"#]]);
        let Err(Failure::Problem(problem)) = object_type(Query::new("objectType=NONE")) else {
            panic!("accepted")
        };
        assert_eq!(problem.message, "objectType=NONE: there is no such type");
    }

    #[test]
    fn a_tag_has_kill_bills_json() {
        use domain::tag::{ControlTag, TagKey};
        let tag = Tag {
            tenant: domain::TenantNo(1),
            key: TagKey {
                account: AccountId::new(Uuid::from_u128(7)),
                definition: ControlTag::AutoPayOff,
            },
            id: domain::TagId::new(Uuid::from_u128(8)),
            active: true,
            created_at: domain::Timestamp(0),
            revision: domain::Revision::first(domain::Seq(1)),
        };
        let found = (tag, vec![]);
        let json = serde_json::to_string(&TagJson::new(&found, AuditLevel::Full)).unwrap();
        expect![[r#"{"tagId":"00000000-0000-0000-0000-000000000008","objectType":"ACCOUNT","objectId":"00000000-0000-0000-0000-000000000007","tagDefinitionId":"00000000-0000-0000-0000-000000000001","tagDefinitionName":"AUTO_PAY_OFF","auditLogs":[]}"#]].assert_eq(&json);
    }

    #[test]
    fn a_tag_definition_has_kill_bills_json() {
        let written_off = CONTROL_TAGS.iter().find(|it| it.number == 4).unwrap();
        let json = serde_json::to_string(&TagDefinitionJson::new(written_off)).unwrap();
        expect![[r#"{"id":"00000000-0000-0000-0000-000000000004","isControlTag":true,"name":"WRITTEN_OFF","description":"Indicates that an invoice is written off. No billing or payment effect.","applicableObjectTypes":["INVOICE"],"auditLogs":[]}"#]].assert_eq(&json);
    }
}
