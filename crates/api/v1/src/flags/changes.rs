//! Change requests: changes that wait for another user's approval, for their time, or both. They
//! are validated when they are requested, and again when they are applied.

use std::str::FromStr as _;

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::command::FlagCommand;
use domain::flag::change_request::{
    ChangeRequest, ChangeStatus, DecideChange, Decision, RequestChange, Seen,
};
use domain::flag::definition::{Definition, DefinitionKey, DefinitionKind, Expected};
use domain::flag::environment::Environment;
use domain::reply::FlagReply;
use domain::{ChangeRequestId, Command, FlagRejection, Rejection, Reply, Seq, Timestamp};
use engine::Reason;
use feature_flags::definition::{bounded, to_json};
use feature_flags::validate::{Basis, validate};
use feature_flags::{Error as Unwritable, patch};
use http::header::{ETAG, HeaderName, IF_MATCH};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, IntoResponses, ToSchema};
use uuid::Uuid;

use super::find::{self, bug};
use super::history::changed_fields;
use crate::caller::{Call, RequestContext};
use crate::input;
use crate::openapi::{EnvironmentParameters, NoEnvironment};
use crate::parameters::{Parameters, Window, invalid, uuid_of};
use engine::time::rfc3339;

use crate::Api;
use crate::error::Error;

/// How many changes an answer has at most: each comes with its patch.
const CHANGES_MAX: u64 = 100;

/// The version of a definition that does not exist, in an ETag.
const NOTHING: i64 = 0;

/// A change request to be created.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeToKeep {
    /// The key of the flag, which is created if it does not exist. Excludes `segment`.
    flag: Option<String>,
    /// The id of the segment. Excludes `flag`.
    segment: Option<String>,
    /// The fields to change, as a JSON merge patch (RFC 7396).
    #[schema(value_type = Object)]
    patch: Map<String, Value>,
    /// When to apply it (RFC 3339); by default as soon as it needs no approval any more.
    due_at: Option<String>,
    /// Whether another user must approve it, even if the environment requires no approval.
    #[serde(default)]
    needs_approval: bool,
    /// The version that the flag or segment must have, now and when the change is applied.
    expected_version: Option<i64>,
    /// The reason, for the history; `null` if none is given. At most 255 characters.
    reason: Option<String>,
}

/// The reason of a decision.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// For the history; at most 255 characters.
    reason: Option<String>,
}

/// The change that a decision is about, as it was seen.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
struct IfMatchChange {
    /// The change and what it would change, as they were seen
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// Change requests, newest first.
#[derive(Serialize, ToSchema)]
pub struct Changes {
    /// The change requests of the page.
    changes: Vec<ChangeView>,
    /// Whether more follow after this page.
    more: bool,
}

/// A change request.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeView {
    /// The change request's id.
    id: Uuid,
    /// The environment's key.
    environment: String,
    /// The environment's project.
    project: String,
    /// The key of the flag that it changes; absent for a segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    flag: Option<String>,
    /// The id of the segment that it changes; absent for a flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    segment: Option<String>,
    /// The fields that it changes, as a JSON merge patch (RFC 7396).
    #[schema(value_type = Object)]
    patch: Value,
    /// The version that the flag or segment must have; `null` for any.
    expected_version: Option<i64>,
    /// When it is applied (RFC 3339); `null`: as soon as it needs no approval any more.
    due_at: Option<String>,
    /// `pending` (waits for approval), `scheduled` (waits for its time), `applied`, `rejected`,
    /// `withdrawn` or `failed`.
    status: &'static str,
    /// The user who requested it.
    author: String,
    /// The reason, for the history; `null` if none is given. At most 255 characters.
    reason: Option<String>,
    /// The author's comment; `null` if none was given.
    comment: Option<String>,
    /// The user who approved or rejected it; `null` before.
    decided_by: Option<String>,
    /// Why it was rejected or failed.
    explanation: Option<String>,
    /// The version of the flag or segment that it created; `null` before.
    version: Option<i64>,
    /// When it was requested (RFC 3339).
    created_at: String,
    /// When it was applied, rejected or withdrawn, or failed (RFC 3339).
    settled_at: Option<String>,
}

/// A change request, and its effect on the current version.
#[derive(Serialize, ToSchema)]
pub struct ChangeInFull {
    #[serde(flatten)]
    change: ChangeView,
    /// While it waits: the fields of the current version that it would change.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<Vec<Difference>>,
    /// While it waits: why it cannot be applied to the current version.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// A field before and after.
#[derive(Serialize, ToSchema)]
pub struct Difference {
    /// The field's name.
    field: String,
    /// The current value; `null` if there is none.
    #[schema(value_type = Value)]
    from: Value,
    /// The value after the change; `null` if there is none.
    #[schema(value_type = Value)]
    to: Value,
}

impl ChangeView {
    fn of(it: ChangeRequest, environment: &Environment) -> Result<Self, Error> {
        let (flag, segment) = match it.key.kind {
            DefinitionKind::Flag => (Some(it.key.key), None),
            DefinitionKind::Segment => (None, Some(it.key.key)),
        };
        Ok(Self {
            id: it.id.uuid(),
            environment: environment.key.clone(),
            project: environment.project.clone(),
            flag,
            segment,
            patch: serde_json::from_str(&it.patch).map_err(|_| bug())?,
            expected_version: it.expected,
            due_at: it.due_at.map(rfc3339),
            status: it.status.name(),
            author: it.author,
            reason: it.reason,
            comment: it.comment,
            decided_by: it.decided_by,
            explanation: it.explanation,
            version: it.version,
            created_at: rfc3339(it.created_at),
            settled_at: it.settled_at.map(rfc3339),
        })
    }
}

/// The refusals of a decision upon a change.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
enum DecisionRejections {
    /// There is no such change
    #[response(status = 404)]
    NotFound,
    /// The change, or what it would change, is another one than was seen
    #[response(status = 412)]
    Changed,
}

/// The changes that were kept for later in an environment, newest first
#[utoipa::path(get, path = "/v1/changes", tag = "Feature flags", operation_id = "changes",
    params(EnvironmentParameters,
        ("status" = Option<String>, Query, description = "pending, scheduled, applied, rejected, withdrawn or failed; all by default"),
        ("offset" = Option<u64>, Query, description = "How many to skip"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 by default, and no more")),
    responses((status = 200, description = "The changes", body = Changes),
        (status = 403, description = "flag:read is missing"), NoEnvironment))]
pub async fn list(call: Call) -> Result<Json<Changes>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:read")?;
    let window = Window(parameters.page_of(CHANGES_MAX)?);
    let status = match parameters.text("status")? {
        Some(text) => Some(status(&text).ok_or_else(|| invalid("status", "there is no such"))?),
        None => None,
    };
    let environment = find::environment(&api, &context, &mut parameters).await?;
    parameters.end()?;
    let (place, page) = ((environment.tenant, environment.id), window.one_more());
    let read = api.engine.read(move |queries| queries.change_requests(place, status, page));
    let (found, more) = window.cut(read.await?);
    let changes = found.into_iter().map(|it| ChangeView::of(it, &environment));
    Ok(Json(Changes { changes: changes.collect::<Result<_, _>>()?, more }))
}

fn status(text: &str) -> Option<ChangeStatus> {
    use ChangeStatus as S;
    let all = [S::Pending, S::Scheduled, S::Applied, S::Rejected, S::Withdrawn, S::Failed];
    all.into_iter().find(|it| it.name() == text)
}

/// Keeps a change of a flag or a segment until another user approves it, until its time has come, or both
#[utoipa::path(post, path = "/v1/changes", tag = "Feature flags", operation_id = "request_change",
    params(EnvironmentParameters), request_body = ChangeToKeep,
    responses((status = 201, description = "The change request is created; Location is its path", body = ChangeInFull),
        (status = 400, description = "A field is invalid, or too many change requests wait"),
        (status = 412, description = "It is in another version than expected, which the problem names"),
        (status = 422, description = "The changed flag or segment is invalid: all fields are listed"),
        (status = 403, description = "flag:write is missing"), NoEnvironment))]
pub async fn request(call: Call, body: Body) -> Result<Response, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:write")?;
    let environment = find::environment(&api, &context, &mut parameters).await?;
    parameters.end()?;
    let asked: ChangeToKeep = input::json(body, &context.tenant).await?;
    let context = context.because(asked.reason)?;
    let (kind, key) = match (asked.flag, asked.segment) {
        (Some(key), None) => (DefinitionKind::Flag, key),
        (None, Some(key)) => (DefinitionKind::Segment, key),
        (Some(_), Some(_)) | (None, None) => {
            return Err(invalid("flag", "either a flag or a segment was expected"));
        }
    };
    let key = DefinitionKey { environment: environment.id, kind, key };
    let there = find::definitions(&api, &environment).await?;
    let before = there.iter().find(|it| it.key == key);
    let version = before.map(|it| it.version);
    if asked.expected_version.is_some_and(|expected| version != Some(expected)) {
        let changed = Rejection::Flag(FlagRejection::DefinitionChanged { key: key.key, version });
        return Err(Error::Rejected(Box::new(changed)));
    }
    let text = bounded("patch", Value::Object(asked.patch.clone()).to_string())?;
    let document = patch::apply(&key, before, asked.patch)?;
    validate((kind, document), Expected::Anything, Basis::of(&there)?).await?;
    let command = Command::Flag(FlagCommand::RequestChange(RequestChange {
        key,
        patch: text,
        expected: asked.expected_version,
        due_at: asked.due_at.as_deref().map(due_at).transpose()?,
        needs_approval: asked.needs_approval,
    }));
    let Reply::Flag(FlagReply::ChangeRequested(id)) = context.submit(&api, command).await? else {
        return Err(bug());
    };
    let (etag, kept) = in_full(&api, &context, id).await?;
    let location = (http::header::LOCATION, format!("/v1/changes/{id}"));
    Ok((StatusCode::CREATED, [etag, location], Json(kept)).into_response())
}

fn due_at(text: &str) -> Result<Timestamp, Error> {
    let at = jiff::Timestamp::from_str(text);
    let at = at.map_err(|_| invalid("dueAt", "is no time with an offset (RFC 3339)"))?;
    Ok(Timestamp(at.as_microsecond()))
}

/// A change, and while it waits, what it would do to what is there now; ETag is for deciding upon just that
#[utoipa::path(get, path = "/v1/changes/{id}", tag = "Feature flags", operation_id = "change",
    params(("id" = String, Path, description = "The change")),
    responses((status = 200, description = "The change", body = ChangeInFull),
        (status = 403, description = "flag:read is missing"),
        (status = 404, description = "There is no such change")))]
pub async fn show(call: Call, Path(id): Path<String>) -> Result<Response, Error> {
    let Call { api, context, .. } = call.allowed("flag:read")?;
    shown(&api, &context, parsed(&id)?).await
}

/// Approves a change of another user, which is then made when its time has come
#[utoipa::path(post, path = "/v1/changes/{id}/approve", tag = "Feature flags", operation_id = "approve_change",
    params(("id" = String, Path, description = "The change"), IfMatchChange), request_body = Option<Why>,
    responses((status = 200, description = "It is approved", body = ChangeInFull),
        (status = 403, description = "flag:approve is missing, or it is one's own change"),
        (status = 409, description = "It does not wait for approval"), DecisionRejections))]
pub async fn approve(call: Call, Path(id): Path<String>, body: Body) -> Result<Response, Error> {
    call.context.require("flag:approve")?;
    decide(call, (&id, body), Decision::Approve).await
}

/// Rejects a change that waits, approved or not
#[utoipa::path(post, path = "/v1/changes/{id}/reject", tag = "Feature flags", operation_id = "reject_change",
    params(("id" = String, Path, description = "The change"), IfMatchChange), request_body = Option<Why>,
    responses((status = 200, description = "It is rejected", body = ChangeInFull),
        (status = 403, description = "flag:approve is missing"),
        (status = 409, description = "It does not wait any more"), DecisionRejections))]
pub async fn reject(call: Call, Path(id): Path<String>, body: Body) -> Result<Response, Error> {
    call.context.require("flag:approve")?;
    decide(call, (&id, body), Decision::Reject).await
}

/// Takes one's own change back while it waits
#[utoipa::path(post, path = "/v1/changes/{id}/withdraw", tag = "Feature flags", operation_id = "withdraw_change",
    params(("id" = String, Path, description = "The change"), IfMatchChange), request_body = Option<Why>,
    responses((status = 200, description = "It is withdrawn", body = ChangeInFull),
        (status = 403, description = "flag:write is missing, or it is another user's change"),
        (status = 409, description = "It does not wait any more"), DecisionRejections))]
pub async fn withdraw(call: Call, Path(id): Path<String>, body: Body) -> Result<Response, Error> {
    call.context.require("flag:write")?;
    decide(call, (&id, body), Decision::Withdraw).await
}

async fn decide(
    Call { api, context, uri, headers }: Call,
    (id, body): (&str, Body),
    decision: Decision,
) -> Result<Response, Error> {
    Parameters::none(&uri)?;
    let expected = expected(&headers)?;
    let why: Why = input::json_or_nothing(body, &context.tenant).await?;
    let context = context.because(why.reason)?;
    let change = parsed(id)?;
    let key = find_change(&api, &context, change).await?.key;
    let environment = key.environment;
    let seen = expected.map(|(seq, version)| Seen { change: seq, key, version });
    let command = Command::Flag(FlagCommand::DecideChange(DecideChange {
        environment,
        change,
        decision,
        seen,
    }));
    context.submit(&api, command).await?;
    shown(&api, &context, change).await
}

/// The versions in `If-Match`: the change's last journal row, and the version of the definition that it changes.
fn expected(headers: &HeaderMap) -> Result<Option<(Seq, Option<i64>)>, Error> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let parsed = text.trim_matches('"').split_once('-').and_then(|(seq, version)| {
        let version: i64 = version.parse().ok()?;
        Some((Seq(seq.parse().ok()?), Some(version).filter(|it| *it != NOTHING)))
    });
    let wrong = || invalid("If-Match", "is no ETag of a change, such as \"12-1893456000000\"");
    parsed.map(Some).ok_or_else(wrong)
}

fn etag(change: &ChangeRequest, version: Option<i64>) -> (HeaderName, String) {
    let (seq, version) = (change.revision.seq.0, version.unwrap_or(NOTHING));
    (ETAG, format!("\"{seq}-{version}\""))
}

fn parsed(id: &str) -> Result<ChangeRequestId, Error> {
    uuid_of(id).map(ChangeRequestId::new)
}

async fn find_change(
    api: &Api,
    context: &RequestContext,
    id: ChangeRequestId,
) -> Result<ChangeRequest, Error> {
    let no = context.tenant.no;
    let found = api.engine.read(move |queries| queries.change_request(no, id)).await?;
    found.ok_or_else(|| Error::NotFound { what: "change", name: id.to_string() })
}

async fn shown(
    api: &Api,
    context: &RequestContext,
    id: ChangeRequestId,
) -> Result<Response, Error> {
    let (etag, change) = in_full(api, context, id).await?;
    Ok(([etag], Json(change)).into_response())
}

/// A change request with its effect, and their common ETag.
async fn in_full(
    api: &Api,
    context: &RequestContext,
    id: ChangeRequestId,
) -> Result<((HeaderName, String), ChangeInFull), Error> {
    let change = find_change(api, context, id).await?;
    let environment = find::environment_by_id(api, context, change.key.environment).await?;
    let (mut diff, mut problem, mut version) = (None, None, None);
    if change.status.is_waiting() {
        let there = find::definitions(api, &environment).await?;
        version = there.iter().find(|it| it.key == change.key).map(|it| it.version);
        match differences(&change, &there).await {
            Ok(found) => diff = Some(found),
            Err(it @ (Unwritable::Unavailable(_) | Unwritable::Unreadable(_))) => {
                return Err(it.into());
            }
            Err(it @ Unwritable::Rejected(_)) => problem = Some(Error::from(it).to_string()),
            Err(it) => problem = Some(it.explanation()),
        }
    }
    let etag = etag(&change, version);
    Ok((etag, ChangeInFull { change: ChangeView::of(change, &environment)?, diff, problem }))
}

/// The fields of the current definition that a change request would change.
async fn differences(
    change: &ChangeRequest,
    there: &[Definition],
) -> Result<Vec<Difference>, Unwritable> {
    let before = there.iter().find(|it| it.key == change.key);
    let version = before.map(|it| it.version);
    if change.expected.is_some_and(|expected| version != Some(expected)) {
        let changed = Rejection::Flag(FlagRejection::DefinitionChanged {
            key: change.key.key.clone(),
            version,
        });
        return Err(Unwritable::Rejected(Box::new(changed)));
    }
    let bug = |_| Unwritable::Unavailable(Reason::Bug.into());
    let part = serde_json::from_str(&change.patch).map_err(bug)?;
    let to = patch::apply(&change.key, before, part)?;
    let basis = Basis::of(there)?;
    validate((change.key.kind, to.clone()), Expected::Anything, basis).await?;
    let from = before.map(to_json).transpose()?.unwrap_or_else(|| Map::new().into());
    let field = |document: &Value, name: &str| document.get(name).cloned().unwrap_or_default();
    let names = changed_fields(&from, &to).into_iter();
    let differences = names.map(|name| Difference {
        from: field(&from, &name),
        to: field(&to, &name),
        field: name,
    });
    Ok(differences.collect())
}
