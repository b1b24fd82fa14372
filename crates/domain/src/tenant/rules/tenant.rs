//! Tenants and their stored values: how they are created and set.

use super::routing_rules;
use crate::change::TenantChange;
use crate::claim::{ClaimKey, ClaimKind};
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::tenant::payment_rules::{PaymentRules, RulesPart, Settings};
use crate::tenant::webhook::{DisabledEndpoint, SetWebhookEndpoints};
use crate::tenant::{
    ALL_VALUES_BYTES_MAX, AppendTenantValue, CreateTenant, PROBE, PreviousSecret,
    RotateTenantSecret, RulesSource, SetTenantValue, Tenant, TenantValue, VALUE_SEPARATOR,
    VALUES_BYTES_MAX, VALUES_PER_KEY_MAX, WEBHOOK_ENDPOINTS, is_reserved_key,
};
use crate::{Accepted, Event, Rejection, Reply, Revision, TenantNo, TenantRejection};

pub(crate) fn create(state: &State, it: &CreateTenant, cx: &mut Context) -> Outcome {
    // Of nobody, a claim says that it was released.
    if it.id.is_some_and(|id| id.uuid().is_nil()) {
        return Err(Rejection::invalid("tenantId", "it must not be all zeros"));
    }
    let claim = ClaimKey::new(TenantNo::SYSTEM, ClaimKind::TenantApiKey, &it.api_key);
    let is_reserved = it.api_key == PROBE && cx.actor.user != PROBE;
    if is_reserved || state.claim(&claim).is_some() {
        return Err(TenantRejection::AlreadyExists {
            key: it.external_key.clone().unwrap_or_else(|| it.api_key.clone()),
        }
        .into());
    }
    let id = it.id.unwrap_or_else(|| cx.mint());
    let by_id = ClaimKey::new(TenantNo::SYSTEM, ClaimKind::TenantId, &id.to_string());
    if it.id.is_some() && state.claim(&by_id).is_some() {
        return Err(TenantRejection::AlreadyExists { key: id.to_string() }.into());
    }
    let tenant = Tenant {
        no: cx.next_tenant_no(),
        id,
        external_key: it.external_key.clone(),
        api_key: it.api_key.clone(),
        secret_hash: it.secret_hash.clone(),
        previous_secret: None,
        is_active: true,
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    };
    cx.claim(claim, id.uuid(), None);
    cx.claim(by_id, id.uuid(), None);
    cx.change(TenantChange::Tenant(tenant));
    Ok(Accepted::now(Reply::TenantCreated(id)))
}

pub(crate) fn set_value(state: &State, it: &SetTenantValue, cx: &mut Context) -> Outcome {
    if let Some(RulesPart::Routing(routing)) = &it.rules {
        routing_rules::check(routing, cx.settings)?;
    }
    let before = state.tenant_value(cx.tenant, &it.key);
    if it.value.is_none() && before.is_none_or(|value| value.value.is_none()) {
        return Ok(Accepted::now(Reply::Done));
    }
    let value = stored(before, &it.key, it.value.clone(), cx);
    refuse_too_much(state, &value)?;
    let (id, key) = (value.id, value.key.clone());
    match value.value {
        Some(_) => cx.event(Event::TenantConfigChanged { value: id, key }),
        None if is_reserved_key(&key) => {
            cx.event(Event::TenantConfigDeleted { value: id, key });
        }
        None => {}
    }
    cx.change(TenantChange::Value(value));
    if let Some(rules) = changed_rules(state, it, cx) {
        cx.change(TenantChange::PaymentRules(rules));
    }
    Ok(Accepted::now(Reply::Done))
}

/// The tenant's payment rules as a stored value changes them; `None` where it changes nothing of them.
fn changed_rules(state: &State, it: &SetTenantValue, cx: &Context) -> Option<PaymentRules> {
    let source = RulesSource::of(&it.key)?;
    let before = state.newest_payment_rules(cx.tenant);
    let none = || PaymentRules::none_of(cx.tenant, Revision::first(cx.seq));
    let mut rules = before.cloned().unwrap_or_else(none);
    match source {
        RulesSource::Settings => {
            let settings = match it.rules.clone() {
                Some(RulesPart::Settings(it)) => it,
                Some(
                    RulesPart::Limits(_) | RulesPart::MerchantAccount(_) | RulesPart::Routing(_),
                )
                | None => Settings::default(),
            };
            (rules.retries, rules.billing) = (settings.retries, settings.billing);
        }
        RulesSource::FaregateRules => {
            rules.limits = match it.rules.clone() {
                Some(RulesPart::Limits(limits)) => Some(limits),
                Some(
                    RulesPart::Settings(_) | RulesPart::MerchantAccount(_) | RulesPart::Routing(_),
                )
                | None => None,
            };
        }
        RulesSource::Router => {
            rules.routing = match it.rules.clone() {
                Some(RulesPart::Routing(routing)) => Some(routing),
                Some(
                    RulesPart::Settings(_) | RulesPart::Limits(_) | RulesPart::MerchantAccount(_),
                )
                | None => None,
            };
        }
        RulesSource::Gateway(name) => match it.rules.clone() {
            Some(RulesPart::MerchantAccount(account)) => {
                rules.merchant_accounts.insert(name.to_owned(), account);
            }
            Some(RulesPart::Settings(_) | RulesPart::Limits(_) | RulesPart::Routing(_)) | None => {
                rules.merchant_accounts.remove(name);
            }
        },
    }
    let is_same = match before {
        Some(before) => *before == rules,
        None => rules == none(),
    };
    rules.revision = before.map_or(rules.revision, |before| before.revision.next(cx.seq));
    (!is_same).then_some(rules)
}

/// Stores the webhook endpoints. A value that the caller has not seen is never overwritten: it may contain a secret
/// that was shown once.
pub(crate) fn set_webhook_endpoints(
    state: &State,
    it: &SetWebhookEndpoints,
    cx: &mut Context,
) -> Outcome {
    let before = state.tenant_value(cx.tenant, WEBHOOK_ENDPOINTS);
    if before.map(|before| before.revision.seq) != it.read_at {
        return Err(TenantRejection::ValueChanged { key: WEBHOOK_ENDPOINTS.to_owned() }.into());
    }
    let value = stored(before, WEBHOOK_ENDPOINTS, it.sealed.clone(), cx);
    let (id, key) = (value.id, value.key.clone());
    cx.event(Event::TenantConfigChanged { value: id, key });
    if let Some(DisabledEndpoint { endpoint, reason }) = it.disabled {
        cx.event(Event::WebhookEndpointDisabled { endpoint, reason });
    }
    cx.change(TenantChange::Value(value));
    Ok(Accepted::now(Reply::Done))
}

/// As in Kill Bill, what a client stores under a key of its own is no event.
pub(crate) fn append_value(state: &State, it: &AppendTenantValue, cx: &mut Context) -> Outcome {
    if it.value.contains(VALUE_SEPARATOR) {
        return Err(Rejection::invalid("value", "must not have the character U+001E"));
    }
    let before = state.tenant_value(cx.tenant, &it.key);
    if before.is_some_and(|before| before.values().count() >= VALUES_PER_KEY_MAX) {
        return Err(Rejection::invalid("value", "the key has 100 values already"));
    }
    let held = before.and_then(|before| before.value.as_ref());
    let all = match held {
        Some(held) => format!("{held}{VALUE_SEPARATOR}{}", it.value),
        None => it.value.clone(),
    };
    if all.len() > VALUES_BYTES_MAX {
        return Err(Rejection::invalid("value", "the key's values would have more than 256 KiB"));
    }
    let value = stored(before, &it.key, Some(all), cx);
    refuse_too_much(state, &value)?;
    if is_reserved_key(&it.key) {
        cx.event(Event::TenantConfigChanged { value: value.id, key: value.key.clone() });
    }
    cx.change(TenantChange::Value(value));
    Ok(Accepted::now(Reply::Done))
}

/// Refuses a value that makes more of all values of its tenant than there may be.
fn refuse_too_much(state: &State, value: &TenantValue) -> Result<(), Rejection> {
    let before = state.tenant_value(value.tenant, &value.key).map_or(0, TenantValue::counted_bytes);
    let (now, all) = (value.counted_bytes(), state.tenant_values_bytes(value.tenant));
    let is_too_much = now > before && all.saturating_sub(before) + now > ALL_VALUES_BYTES_MAX;
    match is_too_much {
        true => Err(Rejection::invalid("value", "the tenant's values would have more than 8 MiB")),
        false => Ok(()),
    }
}

/// The next revision of what is stored under a key.
fn stored(
    before: Option<&TenantValue>,
    key: &str,
    value: Option<String>,
    cx: &mut Context,
) -> TenantValue {
    match before {
        Some(before) => {
            TenantValue { value, revision: before.revision.next(cx.seq), ..before.clone() }
        }
        None => TenantValue {
            tenant: cx.tenant,
            id: cx.mint(),
            key: key.to_owned(),
            value,
            revision: Revision::first(cx.seq),
        },
    }
}

pub(crate) fn rotate_secret(state: &State, it: &RotateTenantSecret, cx: &mut Context) -> Outcome {
    let before = state.tenant(cx.tenant);
    let overlaps = it.overlap_us > 0;
    let previous_secret = overlaps.then(|| PreviousSecret {
        hash: before.secret_hash.clone(),
        until: cx.now.plus_us(it.overlap_us),
    });
    let secret_hash = it.secret_hash.clone();
    Ok(changed(Tenant { secret_hash, previous_secret, ..before.clone() }, cx))
}

pub(crate) fn withdraw_previous_secret(state: &State, cx: &mut Context) -> Outcome {
    let before = state.tenant(cx.tenant);
    if before.previous_secret.is_none() {
        return Ok(Accepted::now(Reply::Done));
    }
    Ok(changed(Tenant { previous_secret: None, ..before.clone() }, cx))
}

pub(crate) fn set_active(state: &State, is_active: bool, cx: &mut Context) -> Outcome {
    let before = state.tenant(cx.tenant);
    if before.is_active == is_active {
        return Ok(Accepted::now(Reply::Done));
    }
    Ok(changed(Tenant { is_active, ..before.clone() }, cx))
}

/// Writes the tenant as its next revision.
fn changed(tenant: Tenant, cx: &mut Context) -> Accepted {
    let revision = tenant.revision.next(cx.seq);
    cx.change(TenantChange::Tenant(Tenant { revision, ..tenant }));
    Accepted::now(Reply::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use crate::TenantId;
    use crate::command::TenantCommand;
    use crate::testing::Rows;

    #[test]
    fn the_probes_api_key_is_reserved() {
        let mut rows = Rows::new();
        let mut create = |api_key: &str| {
            rows.run(Command::Tenant(TenantCommand::Create(CreateTenant {
                id: None,
                external_key: None,
                api_key: api_key.to_owned(),
                secret_hash: String::new(),
            })))
        };
        let key = PROBE.to_owned();
        assert_eq!(create(PROBE), Err(TenantRejection::AlreadyExists { key }.into()));
        create("faregate-probe-2").expect("a name that is not reserved");
    }

    #[test]
    fn nobody_has_the_id_that_means_nobody() {
        let mut rows = Rows::new();
        let mut create = |id: u128| {
            rows.run(Command::Tenant(TenantCommand::Create(CreateTenant {
                id: Some(TenantId::new(uuid::Uuid::from_u128(id))),
                external_key: None,
                api_key: format!("key {id}"),
                secret_hash: String::new(),
            })))
        };
        let refused = Rejection::invalid("tenantId", "it must not be all zeros");
        assert_eq!(create(0), Err(refused));
        create(1).expect("an id that is not zero");
    }

    #[test]
    fn keys_with_a_meaning_are_reserved() {
        for key in [
            "PUSH_NOTIFICATION_CB",
            "PLUGIN_CONFIG_",
            "NOTIFICATION_ENDPOINT_x",
            "CATALOG",
            "INVOICE_TEMPLATE_en_US",
        ] {
            assert!(is_reserved_key(key), "{key}");
        }
        for key in ["CATALOG_URL", "colour", "", "push_notification_cb", "PLUGIN"] {
            assert!(!is_reserved_key(key), "{key}");
        }
    }

    #[test]
    fn a_value_appended_under_a_key_with_a_meaning_is_an_event() {
        let mut rows = Rows::new();
        for (key, expected) in [("CATALOG", 1), ("colour", 0)] {
            let it = AppendTenantValue { key: key.to_owned(), value: "x".to_owned() };
            let appended = rows.run(Command::Tenant(TenantCommand::AppendValue(it)));
            let done = appended.expect("there is room").done;
            assert_eq!(done.events.len(), expected, "{key}: {:?}", done.events);
        }
    }

    #[test]
    fn webhook_endpoints_are_replaced_as_they_were_read() {
        let mut rows = Rows::new();
        let mut set = |read_at, disabled| {
            let it = SetWebhookEndpoints { sealed: Some("x".to_owned()), read_at, disabled };
            let set = rows.run(Command::Tenant(TenantCommand::SetWebhookEndpoints(it)));
            set.map(|it| (it.done.changes[0].revision().expect("it has one").seq, it.done.events))
        };
        let key = WEBHOOK_ENDPOINTS.to_owned();
        let changed = Err(TenantRejection::ValueChanged { key }.into());
        let (first, events) = set(None, None).expect("there are none yet");
        assert_eq!(events.len(), 1);
        assert_eq!(set(None, None), changed);
        let disabled = DisabledEndpoint {
            endpoint: crate::Id::new(uuid::Uuid::from_u128(1)),
            reason: crate::tenant::webhook::DisableReason::Gone,
        };
        let (second, events) = set(Some(first), Some(disabled)).expect("they were read");
        assert!(matches!(events[1], Event::WebhookEndpointDisabled { .. }), "{events:?}");
        assert_eq!(set(Some(first), None), changed);
        assert!(set(Some(second), None).is_ok());
    }

    #[test]
    fn values_of_a_key_are_appended_up_to_a_bound_and_deleted_together() {
        let mut rows = Rows::new();
        let append = |rows: &mut Rows, value: &str| {
            let it = AppendTenantValue { key: "colour".to_owned(), value: value.to_owned() };
            rows.run(Command::Tenant(TenantCommand::AppendValue(it)))
        };
        let refused = |reason: &str| Err(Rejection::invalid("value", reason));
        assert_eq!(
            append(&mut rows, "blue\u{1e}red"),
            refused("must not have the character U+001E")
        );
        let large = "x".repeat(VALUES_BYTES_MAX);
        append(&mut rows, "").expect("an empty value");
        let too_large = refused("the key's values would have more than 256 KiB");
        assert_eq!(append(&mut rows, &large), too_large);
        for n in 1..VALUES_PER_KEY_MAX {
            append(&mut rows, &n.to_string()).expect("there is room");
        }
        assert_eq!(append(&mut rows, "100"), refused("the key has 100 values already"));
        let delete = SetTenantValue::new("colour".to_owned(), None);
        rows.run(Command::Tenant(TenantCommand::SetValue(delete))).expect("it is there");
        append(&mut rows, &large).expect("it is the only one");
    }

    #[test]
    fn a_tenants_values_have_so_many_bytes_together() {
        let mut rows = Rows::new();
        let run = |rows: &mut Rows, command| rows.run(Command::Tenant(command)).map(drop);
        let append = |rows: &mut Rows, key: usize, bytes: usize| {
            let it = AppendTenantValue { key: format!("key {key}"), value: "x".repeat(bytes) };
            run(rows, TenantCommand::AppendValue(it))
        };
        let set = |rows: &mut Rows, key: usize, value: Option<usize>| {
            let value = value.map(|bytes| "x".repeat(bytes));
            let it = SetTenantValue::new(format!("key {key}"), value);
            run(rows, TenantCommand::SetValue(it))
        };
        let full = Rejection::invalid("value", "the tenant's values would have more than 8 MiB");
        for key in 0..32 {
            append(&mut rows, key, 255 * 1024).unwrap();
        }
        assert_eq!(append(&mut rows, 32, 1), Err(full.clone()));
        assert_eq!(append(&mut rows, 0, 1), Err(full.clone()), "under a key that is there");
        assert_eq!(set(&mut rows, 1, Some(255 * 1024 + 1)), Err(full.clone()));
        set(&mut rows, 1, Some(255 * 1024)).unwrap();
        set(&mut rows, 2, None).unwrap();
        append(&mut rows, 32, 200 * 1024).unwrap();
        assert_eq!(append(&mut rows, 33, 55 * 1024), Err(full));
        append(&mut rows, 33, 54 * 1024).unwrap();
    }
}
