//! Further e-mail addresses of accounts.

use domain::account::email::{AccountEmail, AccountEmailId, ChangeAccountEmail, EMAIL_CHARS_MAX};
use domain::command::AccountCommand;
use domain::object::ObjectType;
use domain::read::AccountRow;
use domain::{AccountId, Command};
use engine::ports::{HistoryOf, HistoryRow, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::audit::{AuditLevel, AuditLogJson, with_history};
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult, no_such_object};
use crate::json::{Json, Raw};
use crate::objects;
use crate::reply;

const JSON: Json = Json("AccountEmailJson");

/// Kill Bill's `AccountEmailJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccountEmailJson<'a> {
    account_id: Uuid,
    email: &'a str,
    audit_logs: Vec<AuditLogJson<'a>>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = AccountEmailRequest)]
pub(crate) struct AccountEmailBody<'a> {
    /// The account of the path, where it is given.
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    account_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = String)]
    email: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

/// Lists an account's further e-mail addresses, the oldest first.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/emails", tag = "Account", operation_id = "emails",
    params(("accountId" = Uuid, Path), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [AccountEmailJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> HandlerResult {
    let audit = AuditLevel::of(call.query())?;
    let (account, _) = objects::find(&call, ObjectType::Account).await?;
    let tenant = call.tenant();
    let found = call.read(move |queries| {
        let with_audit = |it: AccountEmail| {
            let rows = audit.read(queries, tenant, HistoryOf::new::<AccountEmail>(it.id.uuid()))?;
            Ok((it, rows))
        };
        let rows = queries.rows(&[AccountRow::Emails(tenant, account).into()].into())?;
        let mut emails: Vec<AccountEmail> =
            rows.account.emails.of(&(tenant, account)).values().cloned().collect();
        emails.sort_by_key(|it| (it.created_at, it.id));
        emails.into_iter().map(with_audit).collect::<Result<Vec<_>, StoreError>>()
    });
    let found = found.await?;
    let shown: Vec<_> = found
        .iter()
        .map(|(it, rows)| AccountEmailJson {
            account_id: it.account.uuid(),
            email: &it.email,
            audit_logs: audit.logs(rows),
        })
        .collect();
    Ok(reply::ok(&shown))
}

/// Adds a further e-mail address. One that is there already stays.
#[utoipa::path(post, path = "/1.0/kb/accounts/{accountId}/emails", tag = "Account", operation_id = "add_email",
    params(("accountId" = Uuid, Path)), request_body = AccountEmailBody<'static>,
    responses((status = 201, description = "It is there; Location lists them"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn add(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let body: AccountEmailBody<'_> = call.body(JSON)?;
    let _logs = body.audit_logs;
    let of = JSON.id("accountId", body.account_id)?;
    if of.is_some_and(|of: AccountId| of != account) {
        return Err(Failure::illegal("AccountEmailJson accountId is not the account of the path"));
    }
    let email = JSON.text("email", body.email, EMAIL_CHARS_MAX)?.filter(|it| !it.is_empty());
    let email = email.ok_or_else(|| JSON.missing("email"))?;
    let command = AccountCommand::AddEmail(ChangeAccountEmail { account, email });
    call.submit_change(Command::Account(command)).await?;
    Ok(reply::created(call.location(&["/1.0/kb/accounts/", &account.to_string(), "/emails"])))
}

/// Removes a further e-mail address, if it is there.
#[utoipa::path(delete, path = "/1.0/kb/accounts/{accountId}/emails/{email}", tag = "Account",
    operation_id = "remove_email",
    params(
        ("accountId" = Uuid, Path),
        ("email" = String, Path, description = "The further e-mail address")),
    responses((status = 204, description = "It is gone"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn remove(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let email = call.param("email")?.into_owned();
    let command = AccountCommand::RemoveEmail(ChangeAccountEmail { account, email });
    call.submit_change(Command::Account(command)).await?;
    Ok(reply::no_content())
}

/// The audit of a further e-mail address, with its history.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/emails/{accountEmailId}/auditLogsWithHistory",
    tag = "Account", operation_id = "email_history",
    params(
        ("accountId" = Uuid, Path),
        ("accountEmailId" = Uuid, Path, description = "The id of the further e-mail address")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn history(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let id: AccountEmailId = call.param_id("accountEmailId")?;
    let tenant = call.tenant();
    let of = HistoryOf::new::<AccountEmail>(id.uuid());
    let rows = call.read(move |queries| queries.history(tenant, of)).await?;
    let is_own = |row: &HistoryRow| crate::audit::account_of(row) == account;
    if !rows.first().is_some_and(is_own) {
        return Err(no_such_object("ACCOUNT_EMAIL", &id));
    }
    Ok(reply::ok(&with_history(&rows)))
}
