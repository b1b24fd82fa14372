//! Events of subscriptions: they have no rows of their own.

use domain::TenantNo;
use domain::billing::subscription::Subscription;
use engine::ports::{HistoryOf, Queries, StoreError, SubscriptionFile};
use uuid::Uuid;

use super::view::{AsOf, EventJson, Shown, SubscriptionJson, event_id};
use crate::audit::event::log;
use crate::audit::{AuditLevel, AuditLogJson, EventImage};
use crate::call::Call;
use crate::error::{ErrorJson, HandlerResult, no_such_object};
use crate::reply;

/// How many events of a subscription are looked at.
const EVENTS_MAX: u32 = 1_000;

/// The audit of a subscription's event, with its history. What blocks a subscription has the audit of its blocking
/// state.
#[utoipa::path(get, path = "/1.0/kb/subscriptions/events/{eventId}/auditLogsWithHistory",
    tag = "Subscription", operation_id = "subscription_event_history",
    params(("eventId" = Uuid, Path, description = "The event, as a subscription shows it")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn history(call: Call) -> HandlerResult {
    let id: Uuid = call.param_id::<()>("eventId")?.uuid();
    let as_of = AsOf { now: call.api.engine().clock().now(), audit: AuditLevel::None };
    let tenant = call.tenant();
    let found = call.read(move |queries| {
        let Some(file) = of_event(queries, tenant, id)? else { return Ok(None) };
        let of = HistoryOf::new::<Subscription>(file.subscription.id.uuid());
        let account = file.subscription.account_id;
        let shown = Shown::read(queries, (tenant, account), vec![file], as_of)?;
        let rows = queries.history(tenant, of)?;
        Ok(shown.map(|shown| (shown, rows)))
    });
    let absent = || no_such_object("SUBSCRIPTION_EVENT", &id);
    let (shown, rows) = found.await?.ok_or_else(absent)?;
    let subscriptions: Vec<SubscriptionJson<'_>> = shown.json().collect();
    let event = subscriptions.iter().find_map(|it| it.event(id)).ok_or_else(absent)?;
    let log = log(&rows, image(id, event)).ok_or_else(absent)?;
    Ok(reply::ok(&[log]))
}

/// The subscription that an event's id is derived from.
fn of_event(
    queries: &dyn Queries,
    tenant: TenantNo,
    event: Uuid,
) -> Result<Option<SubscriptionFile>, StoreError> {
    let files = queries.subscriptions_of_time(tenant, event)?;
    let is_it = |it: &SubscriptionFile| {
        (0..EVENTS_MAX).any(|ordinal| event_id(it.subscription.id, ordinal) == event)
    };
    Ok(files.into_iter().find(is_it))
}

fn image<'a>(id: Uuid, event: &'a EventJson<'a>) -> EventImage<'a> {
    EventImage {
        id,
        kind: event.event_type,
        effective_date: &event.effective_date,
        plan: &event.plan,
        phase: &event.phase,
        price_list: event.price_list,
    }
}
