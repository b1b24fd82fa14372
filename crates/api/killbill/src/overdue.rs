//! Overdue states: nothing is overdue yet, as there are no invoices. The configuration is Kill Bill's default, with
//! one state that is clear, and an account's state is the newest one that `overdue-service` recorded for it.

use axum::response::Response;
use domain::AccountId;
use domain::account::blocking_state::BlockingState;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use utoipa::ToSchema;

use crate::accounts;
use crate::call::Call;
use crate::error::{ErrorJson, HandlerResult};
use crate::reply;

const XML: HeaderValue = HeaderValue::from_static("text/xml");
/// The service that records which state an account is in.
const SERVICE: &str = "overdue-service";
/// An account that is in none of the configured states is in this one.
const CLEAR: &str = "__KILLBILL__CLEAR__OVERDUE_STATE__";
/// Kill Bill's default configuration, as it writes it.
const DEFAULT: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<overdueConfig>
    <accountOverdueStates>
        <state name="Clear">
            <externalMessage></externalMessage>
            <blockChanges>false</blockChanges>
            <disableEntitlementAndChangesBlocked>false</disableEntitlementAndChangesBlocked>
            <subscriptionCancellationPolicy>NONE</subscriptionCancellationPolicy>
            <isClearState>true</isClearState>
        </state>
    </accountOverdueStates>
</overdueConfig>
"#;

/// Kill Bill's `OverdueJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OverdueJson {
    initial_reevaluation_interval: Option<i32>,
    overdue_states: [OverdueStateConfigJson; 1],
}

/// Kill Bill's `OverdueStateConfigJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OverdueStateConfigJson {
    name: &'static str,
    is_clear_state: bool,
    /// Always null: the clear state has none.
    #[schema(value_type = Option<Object>)]
    condition: Option<()>,
    external_message: &'static str,
    is_block_changes: bool,
    is_disable_entitlement: bool,
    subscription_cancellation_policy: &'static str,
    auto_reevaluation_interval_days: Option<i32>,
}

/// Kill Bill's `OverdueStateJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OverdueStateJson<'a> {
    name: &'a str,
    external_message: &'static str,
    is_disable_entitlement_and_changes_blocked: bool,
    is_block_changes: bool,
    is_clear_state: bool,
    reevaluation_interval_days: Option<i32>,
}

/// Reads the configuration of overdue states: Kill Bill's default, as none can be uploaded yet.
///
/// With `Accept: text/xml` it is in XML: see `GET /1.0/kb/overdue/xml`.
#[utoipa::path(get, path = "/1.0/kb/overdue", tag = "Overdue", operation_id = "configuration",
    responses((status = 200, body = OverdueJson),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn configuration(call: Call) -> HandlerResult {
    if call.wants_xml() {
        return xml(call).await;
    }
    let clear = OverdueStateConfigJson {
        name: "Clear",
        is_clear_state: true,
        condition: None,
        external_message: "",
        is_block_changes: false,
        is_disable_entitlement: false,
        subscription_cancellation_policy: "NONE",
        auto_reevaluation_interval_days: None,
    };
    Ok(reply::ok(&OverdueJson { initial_reevaluation_interval: None, overdue_states: [clear] }))
}

/// Reads the configuration of overdue states in XML: Kill Bill's default, as none can be uploaded yet.
#[utoipa::path(get, path = "/1.0/kb/overdue/xml", tag = "Overdue", operation_id = "configuration_xml",
    responses((status = 200, body = String, content_type = "text/xml"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn xml(_: Call) -> HandlerResult {
    let mut response = Response::new(DEFAULT.into());
    response.headers_mut().insert(CONTENT_TYPE, XML);
    Ok(response)
}

/// Reads the overdue state of an account: the newest one that `overdue-service` recorded with `POST .../block`, or else
/// the clear one. Nothing evaluates it yet.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/overdue", tag = "Account", operation_id = "overdue_state",
    params(("accountId" = Uuid, Path)),
    responses((status = 200, body = OverdueStateJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn of_account(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let (tenant, now) = (call.tenant(), call.api.engine().clock().now());
    let found = call.read(move |queries| {
        if queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        let mut states = queries.blocking_states(tenant, account)?.into_iter();
        let is_in_effect = |it: &BlockingState| {
            it.of.is_account() && it.service == SERVICE && it.effective_at <= now
        };
        Ok(Some(states.rfind(is_in_effect)))
    });
    let state = found.await?.ok_or_else(|| accounts::not_found(account))?;
    let state = state.as_ref().filter(|it| it.name != CLEAR);
    Ok(reply::ok(&OverdueStateJson {
        name: state.map_or(CLEAR, |it| &it.name),
        external_message: "",
        is_disable_entitlement_and_changes_blocked: state.is_some_and(|it| it.blocks.entitlement),
        is_block_changes: state.is_some_and(|it| it.blocks.change),
        is_clear_state: state.is_none(),
        reevaluation_interval_days: None,
    }))
}
