//! Blocking states of accounts, bundles and subscriptions, the closing of an account by one of them, and pauses.

use std::borrow::Cow;
use std::iter;

use domain::account::blocking_state::{
    AddBlockingState, Blockable, BlockingState, Blocks, CloseAccount, ENTITLEMENT_SERVICE,
    NAME_CHARS_MAX, PAUSED, RESUMED, SERVICE_CHARS_MAX,
};
use domain::account::calendar::AccountCalendar;
use domain::billing::subscription::OfAccount;
use domain::billing::subscription::Subscription;
use domain::command::AccountCommand;
use domain::{AccountId, BlockingStateId, Command, Timestamp};
use engine::ports::{HistoryOf, Page, StoreError};
use engine::time::rfc3339_second;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::accounts;
use crate::audit::{AuditLevel, AuditLogJson, with_history};
use crate::bundles;
use crate::call::Call;
use crate::date;
use crate::error::{ErrorJson, Failure, HandlerResult, no_such_object};
use crate::json::{Json, Raw};
use crate::reply;
use crate::request::{Query, printable};
use crate::subscriptions;

const JSON: Json = Json("BlockingStateJson");

const ACCOUNT: &str = "ACCOUNT";
const SUBSCRIPTION: &str = "SUBSCRIPTION";

/// The types of objects that have blocking states in Kill Bill.
const TYPES: [&str; 3] = [ACCOUNT, "SUBSCRIPTION_BUNDLE", SUBSCRIPTION];

/// The subscriptions whose states are listed.
const ALL: Page = Page { offset: 0, limit: 10_000 };

/// Kill Bill's `BlockingStateJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockingStateJson<'a> {
    blocked_id: Uuid,
    state_name: &'a str,
    service: &'a str,
    is_block_change: bool,
    is_block_entitlement: bool,
    is_block_billing: bool,
    effective_date: String,
    /// `ACCOUNT`, `SUBSCRIPTION_BUNDLE` or `SUBSCRIPTION`.
    #[serde(rename = "type")]
    kind: &'static str,
    audit_logs: Vec<AuditLogJson<'a>>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = BlockingStateRequest)]
pub(crate) struct BlockingStateBody<'a> {
    /// The object of the path, where it is given.
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    blocked_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = String)]
    state_name: Raw<'a>,
    /// The service that records the state.
    #[serde(borrow)]
    #[schema(value_type = String)]
    service: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<bool>)]
    is_block_change: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<bool>)]
    is_block_entitlement: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<bool>)]
    is_block_billing: Raw<'a>,
    /// Has no effect, as in Kill Bill: the date is `requestedDate`.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    effective_date: Raw<'a>,
    /// The type of the object of the path, where it is given.
    #[serde(borrow, rename = "type")]
    #[schema(value_type = Option<String>)]
    kind: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

impl BlockingStateBody<'_> {
    fn add(
        &self,
        account: AccountId,
        of: Blockable,
        effective_at: Option<Timestamp>,
    ) -> Result<AddBlockingState, Failure> {
        let _logs = self.audit_logs;
        let id = JSON.id("blockedId", self.blocked_id)?;
        if id.is_some_and(|id: AccountId| id.uuid() != of.id(account)) {
            return Err(Failure::illegal(
                "BlockingStateJson blockedId is not the object of the path",
            ));
        }
        JSON.time("effectiveDate", self.effective_date)?;
        let kind = JSON.text("type", self.kind, NAME_CHARS_MAX)?;
        if kind.is_some_and(|kind| kind != of.type_name()) {
            let name = of.type_name();
            return Err(Failure::illegal(format!("BlockingStateJson type should be {name}")));
        }
        let text = |field, raw, chars_max| {
            let text = JSON.text(field, raw, chars_max)?.filter(|it| !it.is_empty());
            text.ok_or_else(|| JSON.missing(field))
        };
        let flag = |field, raw| JSON.boolean(field, raw).map(Option::unwrap_or_default);
        Ok(AddBlockingState {
            account,
            of,
            service: text("service", self.service, SERVICE_CHARS_MAX)?,
            name: text("stateName", self.state_name, NAME_CHARS_MAX)?,
            blocks: Blocks {
                change: flag("isBlockChange", self.is_block_change)?,
                entitlement: flag("isBlockEntitlement", self.is_block_entitlement)?,
                billing: flag("isBlockBilling", self.is_block_billing)?,
            },
            effective_at,
        })
    }
}

/// The states that a request lists.
struct Filter {
    /// The types whose states are listed; all where there is none.
    types: Vec<&'static str>,
    /// The services whose states are listed; all where there is none.
    services: Vec<String>,
}

impl Filter {
    /// Parses `blockingStateTypes=` and `blockingStateSvcs=`, each repeatable.
    fn of(query: Query<'_>) -> Result<Self, Failure> {
        let types = query.all("blockingStateTypes").map(|text| {
            let text = text?;
            let kind = TYPES.into_iter().find(|it| text.eq_ignore_ascii_case(it));
            kind.ok_or_else(|| {
                let value = printable(&text);
                let message =
                    format!("blockingStateTypes={value}: should be one of {}", TYPES.join(", "));
                Failure::illegal(message)
            })
        });
        let types = types.collect::<Result<_, Failure>>()?;
        let services = query.all("blockingStateSvcs").map(|it| it.map(Cow::into_owned));
        Ok(Self { types, services: services.collect::<Result<_, Failure>>()? })
    }

    fn lists(&self, kind: &str, service: &str) -> bool {
        let is_of_service = |it: &String| it == service;
        (self.types.is_empty() || self.types.contains(&kind))
            && (self.services.is_empty() || self.services.iter().any(is_of_service))
    }
}

/// Since when a subscription's product may be used, and until when.
fn entitlement<'a>(it: &Subscription) -> impl Iterator<Item = BlockingStateJson<'a>> + use<'a> {
    let id = it.id.uuid();
    let state = move |state_name, at, is_over| BlockingStateJson {
        blocked_id: id,
        state_name,
        service: ENTITLEMENT_SERVICE,
        is_block_change: is_over,
        is_block_entitlement: is_over,
        is_block_billing: false,
        effective_date: rfc3339_second(at),
        kind: SUBSCRIPTION,
        audit_logs: vec![],
    };
    let until = it.entitled_until;
    let cancelled = until.map(|at| state("ENT_CANCELLED", at, true));
    iter::once(state("ENT_STARTED", it.entitled_from, false)).chain(cancelled)
}

/// Lists the states of an account, its bundles and its subscriptions, in the order in which they begin.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/block", tag = "Account", operation_id = "blocking_states",
    params(
        ("accountId" = Uuid, Path),
        ("blockingStateTypes" = Option<Vec<String>>, Query,
            description = "`ACCOUNT`, `SUBSCRIPTION_BUNDLE` or `SUBSCRIPTION`; repeatable"),
        ("blockingStateSvcs" = Option<Vec<String>>, Query,
            description = "A service whose states are listed; repeatable"),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [BlockingStateJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> HandlerResult {
    let audit = AuditLevel::of(call.query())?;
    let filter = Filter::of(call.query())?;
    let account: AccountId = call.param_id("accountId")?;
    let tenant = call.tenant();
    let found = call.read(move |queries| {
        if queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        let states = queries.blocking_states(tenant, account)?;
        let listed = states.into_iter();
        let listed = listed.filter(|it| filter.lists(it.of.type_name(), &it.service));
        let with_audit = listed.map(|it| {
            let rows =
                audit.read(queries, tenant, HistoryOf::new::<BlockingState>(it.id.uuid()))?;
            Ok((it, rows))
        });
        let states = with_audit.collect::<Result<Vec<_>, StoreError>>()?;
        let subscriptions = match filter.lists(SUBSCRIPTION, ENTITLEMENT_SERVICE) {
            true => queries.subscriptions_of(tenant, account, ALL)?,
            false => vec![],
        };
        Ok(Some((states, subscriptions)))
    });
    let found = found.await?.ok_or_else(|| accounts::not_found(account))?;
    let (states, subscriptions) = found;
    let of_account = states.iter().map(|(it, rows)| BlockingStateJson {
        blocked_id: it.of.id(it.account),
        state_name: &it.name,
        service: &it.service,
        is_block_change: it.blocks.change,
        is_block_entitlement: it.blocks.entitlement,
        is_block_billing: it.blocks.billing,
        effective_date: rfc3339_second(it.effective_at),
        kind: it.of.type_name(),
        audit_logs: audit.logs(rows),
    });
    let mut shown: Vec<_> = of_account.chain(subscriptions.iter().flat_map(entitlement)).collect();
    shown.sort_by(|a, b| a.effective_date.cmp(&b.effective_date));
    Ok(reply::ok(&shown))
}

/// Records a state of a service for an account.
///
/// States block no payment. The exception are those of `account-service`: the account is closed while its newest
/// one is `CLOSE_ACCOUNT`, and open again after another one. A state that the service has at that time already stays.
#[utoipa::path(post, path = "/1.0/kb/accounts/{accountId}/block", tag = "Account", operation_id = "add_blocking_state",
    params(("accountId" = Uuid, Path), ("requestedDate" = Option<String>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    request_body = BlockingStateBody<'static>,
    responses((status = 201, description = "It is recorded; Location lists the states"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn add(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    record(&call, account, Blockable::Account).await
}

/// Records a state of a service for a bundle: for each of its subscriptions.
#[utoipa::path(post, path = "/1.0/kb/bundles/{bundleId}/block", tag = "Bundle", operation_id = "add_bundle_blocking_state",
    params(("bundleId" = Uuid, Path), ("requestedDate" = Option<String>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    request_body = BlockingStateBody<'static>,
    responses((status = 201, description = "It is recorded; Location lists the states"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn add_to_bundle(call: Call) -> HandlerResult {
    let (account, bundle) = bundles::of_path(&call).await?;
    record(&call, account, Blockable::Bundle(bundle)).await
}

/// Records a state of a service for a subscription.
#[utoipa::path(post, path = "/1.0/kb/subscriptions/{subscriptionId}/block", tag = "Subscription",
    operation_id = "add_subscription_blocking_state",
    params(("subscriptionId" = Uuid, Path), ("requestedDate" = Option<String>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    request_body = BlockingStateBody<'static>,
    responses((status = 201, description = "It is recorded; Location lists the states"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn add_to_subscription(call: Call) -> HandlerResult {
    let OfAccount { account, subscription } = subscriptions::change::of_account(&call).await?;
    record(&call, account, Blockable::Subscription(subscription)).await
}

async fn record(call: &Call, account: AccountId, of: Blockable) -> HandlerResult {
    let body: BlockingStateBody<'_> = call.body(JSON)?;
    let effective_at = requested_date(call, account).await?;
    let it = body.add(account, of, effective_at)?;
    call.submit_change(Command::Account(AccountCommand::AddBlockingState(it))).await?;
    let of_account = ["/1.0/kb/accounts/", &account.to_string(), "/block"].concat();
    let query = ["?blockingStateTypes=", of.type_name()].concat();
    Ok(reply::created(call.location(&[&of_account, &query])))
}

/// Pauses a bundle: its products may not be used, and are not billed. One that is paused stays so.
#[utoipa::path(put, path = "/1.0/kb/bundles/{bundleId}/pause", tag = "Bundle", operation_id = "pause_bundle",
    params(("bundleId" = Uuid, Path),
        ("requestedDate" = Option<String>, Query, description = "From when on; now by default"),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    responses((status = 204, description = "Paused, or to be paused"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn pause(call: Call) -> HandlerResult {
    let blocks = Blocks { change: true, entitlement: true, billing: true };
    set_entitlement(&call, PAUSED, blocks).await
}

/// Lets a paused bundle go on. One that goes on stays so.
#[utoipa::path(put, path = "/1.0/kb/bundles/{bundleId}/resume", tag = "Bundle", operation_id = "resume_bundle",
    params(("bundleId" = Uuid, Path),
        ("requestedDate" = Option<String>, Query, description = "From when on; now by default"),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    responses((status = 204, description = "It goes on, or will"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn resume(call: Call) -> HandlerResult {
    set_entitlement(&call, RESUMED, Blocks::default()).await
}

async fn set_entitlement(call: &Call, name: &str, blocks: Blocks) -> HandlerResult {
    let (account, bundle) = bundles::of_path(call).await?;
    let it = AddBlockingState {
        account,
        of: Blockable::Bundle(bundle),
        service: ENTITLEMENT_SERVICE.to_owned(),
        name: name.to_owned(),
        blocks,
        effective_at: requested_date(call, account).await?,
    };
    call.submit_change(Command::Account(AccountCommand::AddBlockingState(it))).await?;
    Ok(reply::no_content())
}

/// The time of `requestedDate`. A date without a time is one of the account's: it begins at the time of day
/// that the account's reference time has.
async fn requested_date(call: &Call, account: AccountId) -> Result<Option<Timestamp>, Failure> {
    let Some(text) = call.query().text("requestedDate")? else { return Ok(None) };
    let invalid =
        || Failure::illegal(format!("Invalid format: \"{}\" (requestedDate)", printable(&text)));
    let at = date::parse(&text).ok_or_else(invalid)?;
    let Some(day) = date::day(&text) else { return Ok(Some(at)) };
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.account(tenant, account)).await?;
    // The command is refused where there is no such account.
    let Some(found) = found else { return Ok(Some(at)) };
    AccountCalendar::of(&found.account).instant(day).map(Some).map_err(|_| invalid())
}

/// Closes an account.
///
/// Nothing is deleted: no payment starts on it, and it gets no payment method. What was begun goes on: captures,
/// voids, refunds, chargebacks and completions. An account that is closed stays so.
#[utoipa::path(delete, path = "/1.0/kb/accounts/{accountId}", tag = "Account", operation_id = "close_account",
    params(
        ("accountId" = Uuid, Path),
        ("cancelAllSubscriptions" = Option<bool>, Query,
            description = "Whether its subscriptions end now; they go on by default"),
        ("writeOffUnpaidInvoices" = Option<bool>, Query,
            description = "Taken for Kill Bill's clients: invoices stay"),
        ("itemAdjustUnpaidInvoices" = Option<bool>, Query,
            description = "Taken for Kill Bill's clients: invoices stay"),
        ("removeFutureNotifications" = Option<bool>, Query,
            description = "Cancels what is scheduled for the account; `true` by default")),
    responses((status = 204, description = "It is closed"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn close(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let removes = call.query().text("removeFutureNotifications")?;
    let command = AccountCommand::Close(CloseAccount {
        account,
        remove_future_notifications: removes.is_none_or(|it| it.eq_ignore_ascii_case("true")),
        cancel_subscriptions: call.query().flag("cancelAllSubscriptions"),
    });
    call.submit_change(Command::Account(command)).await?;
    Ok(reply::no_content())
}

/// The audit of a state, with its history.
#[utoipa::path(get, path = "/1.0/kb/accounts/block/{blockingId}/auditLogsWithHistory", tag = "Account",
    operation_id = "blocking_state_history",
    params(("blockingId" = Uuid, Path, description = "The id of the blocking state")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn history(call: Call) -> HandlerResult {
    let id: BlockingStateId = call.param_id("blockingId")?;
    let tenant = call.tenant();
    let of = HistoryOf::new::<BlockingState>(id.uuid());
    let rows = call.read(move |queries| queries.history(tenant, of)).await?;
    if rows.is_empty() {
        return Err(no_such_object("BLOCKING_STATES", &id));
    }
    Ok(reply::ok(&with_history(&rows)))
}
