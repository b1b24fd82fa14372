//! The audit of the events of subscriptions: that of the subscription's state which first has the event.

use domain::billing::subscription::Subscription;
use domain::change::Image as _;
use engine::ports::HistoryRow;
use engine::time::rfc3339_second;

use super::history::{EventImage, HistoryJson};
use super::{AuditLogJson, entries};

/// The audit of an event, with its history, from that of its subscription; `None`: no state of the subscription has it.
pub(crate) fn log<'a>(rows: &'a [HistoryRow], event: EventImage<'a>) -> Option<AuditLogJson<'a>> {
    let has_it =
        |row: &HistoryRow| Subscription::of(&row.image).is_some_and(|state| has(state, event));
    let entry = entries(rows).into_iter().find(|it| has_it(it.row))?;
    let of = Subscription::of(&entry.row.image)?.id;
    let history = HistoryJson::of_event(&entry, (of, event));
    Some(AuditLogJson {
        change_type: "INSERT",
        object_type: "SUBSCRIPTION_EVENT",
        object_id: event.id,
        ..entry.log(Some(history))
    })
}

/// Whether a subscription as it was has an event.
fn has(state: &Subscription, event: EventImage<'_>) -> bool {
    let is_then = |at| rfc3339_second(at) == event.effective_date;
    match event.kind {
        "START_ENTITLEMENT" => true,
        "STOP_ENTITLEMENT" => state.entitled_until.or(state.ends_at()).is_some_and(is_then),
        "START_BILLING" | "PHASE" | "CHANGE" | "STOP_BILLING" => {
            state.transitions.iter().any(|it| is_then(it.at))
        }
        // Of blocking states.
        _ => false,
    }
}
