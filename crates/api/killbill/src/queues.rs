//! Kill Bill's queues: events that wait to be delivered, transactions whose outcome is waited for, and retries.

use std::ops::ControlFlow;

use domain::payment::Outstanding;
use domain::{AccountId, AttemptId, TenantId, TenantNo, Timestamp, TransactionId};
use engine::Engine;
use engine::ports::{DeliveryId, Queries, QueueWindow, ROWS_MAX, ScheduledRetry, WaitingDelivery};
use engine::time::rfc3339_millis;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::accounts::check_account_of;
use crate::audit::record_id;
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::request::Query;
use crate::stream::{self, Parts};

/// Rows of a part.
const PART_ROWS: u64 = 500;

/// The class of the events that are delivered to callbacks, in Kill Bill.
const EVENT_CLASS: &str = "org.killbill.billing.beatrix.extbus.DefaultBusExternalEvent";
/// The class of what Kill Bill notes about a transaction whose outcome it asks for.
const JANITOR_CLASS: &str = "org.killbill.billing.payment.core.janitor.JanitorNotificationKey";
/// The task that handles them.
const JANITOR_TASK: &str = "IncompletePaymentTransactionTask";
/// The class of what Kill Bill notes about a payment that it tries again.
const RETRY_CLASS: &str = "org.killbill.billing.payment.retry.PaymentRetryNotificationKey";
/// The service of both queues of notes.
const SERVICE: &str = "payment-service";
/// The queues of that service.
const JANITOR: &str = "janitor";
const RETRY: &str = "retry";

/// Kill Bill's two lists.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct QueuesJson {
    bus_events: Vec<BusEventJson>,
    notifications: Vec<NotificationJson>,
}

/// An event whose delivery failed and is tried again.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BusEventJson {
    record_id: i64,
    user_token: Uuid,
    created_date: String,
    search_key1: Option<u64>,
    search_key2: u32,
    #[schema(value_type = Object)]
    event: Value,
    class_name: &'static str,
}

/// A transaction whose outcome is waited for, or a payment that is tried again.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotificationJson {
    record_id: u64,
    user_token: Uuid,
    created_date: Option<String>,
    search_key1: u64,
    search_key2: u32,
    event: NoteJson,
    class_name: &'static str,
    future_user_token: Uuid,
    /// When its gateway is asked, or the payment tried again; while a call runs, until when it may run.
    effective_date: String,
    queue_name: String,
}

/// The event of a notification, as Kill Bill has it.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum NoteJson {
    Janitor(JanitorJson),
    Retry(RetryJson),
}

/// Kill Bill's event for a transaction whose outcome it asks for, with its account and payment.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JanitorJson {
    /// The transaction.
    uuid_key: Uuid,
    task_name: &'static str,
    attempt_number: u32,
    account_id: Uuid,
    payment_id: Uuid,
    plugin_name: String,
}

/// Kill Bill's event for a payment that it tries again, with its account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetryJson {
    /// The attempt that failed.
    attempt_id: Uuid,
    payment_control_plugin_names: Vec<String>,
    account_id: Uuid,
    payment_id: Uuid,
}

/// Lists what waits: events to be delivered, transactions whose outcome is asked for, and retries of payments.
///
/// At most `limit` of each, the oldest first. What is done is not listed.
#[utoipa::path(get, path = "/1.0/kb/admin/queues", tag = "Admin", operation_id = "queues",
    params(
        ("accountId" = Option<Uuid>, Query),
        ("queueName" = Option<String>, Query,
            description = "Only notifications of this queue: `janitor` is the only one"),
        ("serviceName" = Option<String>, Query,
            description = "Only notifications of this service: `payment-service` is the only one"),
        ("withHistory" = Option<bool>, Query,
            description = "Taken for Kill Bill's clients, and has no effect: what is done is not listed"),
        ("minDate" = Option<String>, Query,
            description = "Nothing earlier than this date, or date and time (ISO 8601)"),
        ("maxDate" = Option<String>, Query,
            description = "Nothing later than this date, or date and time (ISO 8601)"),
        ("withInProcessing" = Option<bool>, Query,
            description = "`false` leaves out transactions whose gateway call runs"),
        ("withBusEvents" = Option<bool>, Query, description = "`false` leaves `busEvents` empty"),
        ("withNotifications" = Option<bool>, Query,
            description = "`false` leaves `notifications` empty"),
        ("limit" = Option<u64>, Query, description = "Of each list; 10,000 by default and at most")),
    responses((status = 200, body = QueuesJson, content_type = "application/octet-stream"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> HandlerResult {
    let filter = Filter::of(&call).await?;
    let tenant = call.tenant.as_ref().expect("the route requires a tenant");
    let lists = Lists {
        engine: call.api.engine().clone(),
        tenant: tenant.no,
        tenant_id: tenant.id,
        left: filter.limit,
        filter,
        at: At::BusEvents(None),
        is_first: true,
    };
    stream::response(lists, "application/octet-stream").await
}

struct Filter {
    account: Option<AccountId>,
    times: (Timestamp, Timestamp),
    limit: u64,
    with_bus_events: bool,
    with_outcomes: bool,
    with_retries: bool,
    with_in_processing: bool,
}

impl Filter {
    async fn of(call: &Call) -> Result<Self, Failure> {
        let query = call.query();
        let account = call.query_id("accountId")?;
        if let Some(account) = account {
            check_account_of(call, account).await?;
        }
        let limit = match query.text("limit")? {
            Some(text) => text.parse().map_err(|_| Failure::illegal("limit is not a number"))?,
            None => ROWS_MAX,
        };
        let is_named = |name, only: &str| -> Result<bool, Failure> {
            Ok(query.text(name)?.is_none_or(|it| it.is_empty() || it == only))
        };
        let with_notes =
            is_wanted(query, "withNotifications")? && is_named("serviceName", SERVICE)?;
        Ok(Self {
            account,
            times: (
                query.date("minDate")?.unwrap_or(Timestamp(i64::MIN)),
                query.date("maxDate")?.unwrap_or(Timestamp(i64::MAX)),
            ),
            limit: ROWS_MAX.min(limit),
            with_bus_events: is_wanted(query, "withBusEvents")?,
            with_outcomes: with_notes && is_named("queueName", JANITOR)?,
            with_retries: with_notes && is_named("queueName", RETRY)?,
            with_in_processing: is_wanted(query, "withInProcessing")?,
        })
    }
}

/// Whether a parameter that is true by default is not `false`.
fn is_wanted(query: Query<'_>, name: &'static str) -> Result<bool, Failure> {
    Ok(query.text(name)?.is_none_or(|it| it.is_empty() || it.eq_ignore_ascii_case("true")))
}

/// The two lists, of which so much is written.
struct Lists {
    engine: Engine,
    tenant: TenantNo,
    tenant_id: TenantId,
    filter: Filter,
    at: At,
    /// How many rows the list may still have.
    left: u64,
    /// Whether the list has no row so far.
    is_first: bool,
}

/// Where the next row is: behind this one.
enum At {
    BusEvents(Option<DeliveryId>),
    Outcomes(Option<TransactionId>),
    Retries(Option<AttemptId>),
    End,
}

impl Parts for Lists {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut part = vec![];
        match self.at {
            At::BusEvents(after) => {
                if after.is_none() {
                    part.extend(br#"{"busEvents":["#);
                }
                if self.bus_events(after, &mut part).await?.is_break() {
                    part.extend(br#"],"notifications":["#);
                    (self.at, self.left) = (At::Outcomes(None), self.filter.limit);
                    self.is_first = true;
                }
            }
            At::Outcomes(after) => {
                if self.outcomes(after, &mut part).await?.is_break() {
                    self.at = At::Retries(None);
                }
            }
            At::Retries(after) => {
                if self.retries(after, &mut part).await?.is_break() {
                    part.extend(b"]}");
                    self.at = At::End;
                }
            }
            At::End => return Ok(None),
        }
        Ok(Some(part))
    }
}

impl Lists {
    fn window<K>(&self, after: Option<K>) -> QueueWindow<K> {
        QueueWindow { after, times: self.filter.times, limit: self.left.min(PART_ROWS) }
    }

    async fn bus_events(
        &mut self,
        after: Option<DeliveryId>,
        part: &mut Vec<u8>,
    ) -> Result<ControlFlow<()>, Failure> {
        if !self.filter.with_bus_events || self.left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        let (tenant, account, window) = (self.tenant, self.filter.account, self.window(after));
        // Deliveries of all tenants are in one order.
        let find = move |queries: &dyn Queries| queries.deliveries_of(tenant, account, window);
        let found = self.engine.scan(tenant, find).await?;
        let Some(last) = found.last().map(|it| it.delivery.id) else {
            return Ok(ControlFlow::Break(()));
        };
        for row in &found {
            let json = self.bus_event(row);
            self.append(&json, part);
        }
        self.at = At::BusEvents(Some(last));
        Ok(self.progress(found.len(), window.limit))
    }

    async fn outcomes(
        &mut self,
        after: Option<TransactionId>,
        part: &mut Vec<u8>,
    ) -> Result<ControlFlow<()>, Failure> {
        if !self.filter.with_outcomes || self.left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        let (tenant, account, window) = (self.tenant, self.filter.account, self.window(after));
        let find =
            move |queries: &dyn Queries| queries.outstanding_of_tenant(tenant, account, window);
        let found = self.engine.read(find).await?;
        let Some(last) = found.last().map(|it| it.transaction_id) else {
            return Ok(ControlFlow::Break(()));
        };
        let with_running = self.filter.with_in_processing;
        let is_listed = |it: &&Outstanding| it.ask_at.is_some() || with_running;
        for row in found.iter().filter(is_listed) {
            self.append(&outcome(row), part);
        }
        self.at = At::Outcomes(Some(last));
        Ok(self.progress(found.len(), window.limit))
    }

    async fn retries(
        &mut self,
        after: Option<AttemptId>,
        part: &mut Vec<u8>,
    ) -> Result<ControlFlow<()>, Failure> {
        if !self.filter.with_retries || self.left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        let (tenant, account, window) = (self.tenant, self.filter.account, self.window(after));
        let find = move |queries: &dyn Queries| queries.retries_of_tenant(tenant, account, window);
        let found = self.engine.scan(tenant, find).await?;
        let Some(last) = found.last().map(ScheduledRetry::attempt) else {
            return Ok(ControlFlow::Break(()));
        };
        for row in &found {
            self.append(&retry(row), part);
        }
        self.at = At::Retries(Some(last));
        Ok(self.progress(found.len(), window.limit))
    }

    /// Whether the list may go on behind a part of so many rows.
    fn progress(&mut self, rows: usize, limit: u64) -> ControlFlow<()> {
        let rows = u64::try_from(rows).unwrap_or(u64::MAX);
        self.left = self.left.saturating_sub(rows);
        match rows < limit || self.left == 0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn append(&mut self, json: &impl Serialize, part: &mut Vec<u8>) {
        if !std::mem::take(&mut self.is_first) {
            part.push(b',');
        }
        serde_json::to_writer(part, json)
            .expect("structs of strings and numbers can be serialized");
    }

    fn bus_event(&self, row: &WaitingDelivery) -> BusEventJson {
        let (account, tenant) = (row.event.account(), row.delivery.tenant);
        let search_key1 = account.map(|it| record_id(it.uuid()));
        let body = webhooks::body(&row.event).unwrap_or_default();
        let mut event = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if let Some(event) = event.as_object_mut() {
            let more = serde_json::json!({
                "tenantId": self.tenant_id.to_string(),
                "searchKey1": search_key1,
                "searchKey2": tenant.0,
                "userToken": row.token,
            });
            event.extend(more.as_object().cloned().unwrap_or_default());
        }
        BusEventJson {
            record_id: row.delivery.id.seq.0,
            user_token: row.token,
            created_date: rfc3339_millis(row.at),
            search_key1,
            search_key2: tenant.0,
            event,
            class_name: EVENT_CLASS,
        }
    }
}

fn outcome(row: &Outstanding) -> NotificationJson {
    let id = row.transaction_id.uuid();
    NotificationJson {
        record_id: record_id(id),
        user_token: row.actor.token,
        created_date: created_at(id).map(rfc3339_millis),
        search_key1: record_id(row.account_id.uuid()),
        search_key2: row.tenant.0,
        event: NoteJson::Janitor(JanitorJson {
            uuid_key: id,
            task_name: JANITOR_TASK,
            attempt_number: row.asked,
            account_id: row.account_id.uuid(),
            payment_id: row.payment_id.uuid(),
            plugin_name: row.gateway.clone(),
        }),
        class_name: JANITOR_CLASS,
        future_user_token: row.actor.token,
        effective_date: rfc3339_millis(row.ask_at.unwrap_or(row.deadline)),
        queue_name: format!("{SERVICE}:{JANITOR}"),
    }
}

fn retry(row: &ScheduledRetry) -> NotificationJson {
    let (timer, attempt) = (&row.timer, row.attempt().uuid());
    NotificationJson {
        record_id: record_id(attempt),
        user_token: row.token,
        created_date: Some(rfc3339_millis(row.at)),
        search_key1: record_id(timer.account.uuid()),
        search_key2: timer.tenant.0,
        event: NoteJson::Retry(RetryJson {
            attempt_id: attempt,
            payment_control_plugin_names: row.plugins.clone(),
            account_id: timer.account.uuid(),
            payment_id: row.payment.uuid(),
        }),
        class_name: RETRY_CLASS,
        future_user_token: row.token,
        effective_date: rfc3339_millis(timer.due),
        queue_name: format!("{SERVICE}:{RETRY}"),
    }
}

/// When an id was minted (RFC 9562, version 7).
fn created_at(id: Uuid) -> Option<Timestamp> {
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    let us = i64::try_from(seconds).ok()?.checked_mul(Timestamp::SECOND_US)?;
    Some(Timestamp(us + i64::from(nanoseconds / 1_000)))
}
