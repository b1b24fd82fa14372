//! The installation: its health, its node, and its gateways, which replace Kill Bill's plugins.

use std::collections::BTreeMap;

use engine::time::rfc3339_second;
use engine::{Reason, Unhealthy};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::KillBillApi;
use crate::call::Call;
use crate::error::{ErrorJson, HandlerResult};
use crate::reply;

/// Kill Bill's `NodeInfoJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeInfoJson {
    node_name: String,
    boot_time: String,
    last_updated_date: String,
    kb_version: &'static str,
    api_version: &'static str,
    plugin_api_version: &'static str,
    common_version: &'static str,
    platform_version: &'static str,
    plugins_info: Vec<PluginInfoJson>,
}

/// Kill Bill's `PluginInfoJson`; here a payment gateway.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginInfoJson {
    bundle_symbolic_name: String,
    plugin_key: Option<String>,
    plugin_name: String,
    version: &'static str,
    state: &'static str,
    is_selected_for_start: bool,
    services: Vec<PluginServiceJson>,
}

/// Kill Bill's `PluginServiceInfoJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginServiceJson {
    service_type_name: &'static str,
    registration_name: String,
}

/// One check of `/1.0/healthcheck`.
#[derive(Serialize, ToSchema)]
pub(crate) struct CheckJson {
    healthy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Kill Bill's checks that exist here.
#[derive(Serialize, ToSchema)]
pub(crate) struct HealthJson {
    #[serde(rename = "main.pool.ConnectivityCheck")]
    database: CheckJson,
    #[serde(rename = "org.killbill.billing.server.healthchecks.KillbillHealthcheck")]
    server: CheckJson,
    #[serde(rename = "org.killbill.billing.server.healthchecks.KillbillPluginsHealthcheck")]
    gateways: CheckJson,
    #[serde(rename = "org.killbill.billing.server.healthchecks.KillbillQueuesHealthcheck")]
    queues: CheckJson,
    /// Only on a full disk: reads are served, and writes refused. All checks are healthy.
    #[serde(rename = "faregate.degraded", skip_serializing_if = "Option::is_none")]
    degraded: Option<CheckJson>,
}

/// The maps of Dropwizard's metrics (its version 4.0.0).
#[derive(Serialize, ToSchema)]
pub(crate) struct MetricsJson {
    version: &'static str,
    gauges: BTreeMap<&'static str, GaugeJson>,
    counters: BTreeMap<&'static str, GaugeJson>,
    histograms: BTreeMap<&'static str, GaugeJson>,
    meters: BTreeMap<&'static str, GaugeJson>,
    timers: BTreeMap<&'static str, GaugeJson>,
}

/// A figure of the process.
#[derive(Serialize, ToSchema)]
pub(crate) struct GaugeJson {
    value: f64,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Reads the node.
#[utoipa::path(get, path = "/1.0/kb/nodesInfo", tag = "NodesInfo",
    responses((status = 200, body = [NodeInfoJson])))]
pub(crate) async fn nodes(call: Call) -> HandlerResult {
    let api = &call.api;
    let boot_time = rfc3339_second(api.opened_at());
    Ok(reply::ok(&[NodeInfoJson {
        node_name: api.settings().node_name.clone(),
        last_updated_date: boot_time.clone(),
        boot_time,
        kb_version: VERSION,
        api_version: VERSION,
        plugin_api_version: VERSION,
        common_version: VERSION,
        platform_version: VERSION,
        plugins_info: gateways(api),
    }]))
}

/// Lists the gateways.
#[utoipa::path(get, path = "/1.0/kb/pluginsInfo", tag = "PluginInfo",
    responses((status = 200, body = [PluginInfoJson])))]
pub(crate) async fn plugins(call: Call) -> HandlerResult {
    Ok(reply::ok(&gateways(&call.api)))
}

fn gateways(api: &KillBillApi) -> Vec<PluginInfoJson> {
    let names = api.engine().settings().gateways.keys();
    let stopped = api.engine().stopped_gateways();
    let info = |name: &String| PluginInfoJson {
        bundle_symbolic_name: name.clone(),
        plugin_key: None,
        plugin_name: name.clone(),
        version: VERSION,
        state: if stopped.contains(name) { "STOPPED" } else { "RUNNING" },
        is_selected_for_start: true,
        services: vec![PluginServiceJson {
            service_type_name: "org.killbill.billing.payment.plugin.api.PaymentPluginApi",
            registration_name: name.clone(),
        }],
    };
    names.map(info).collect()
}

/// Shows the server's health; 500 if it cannot work or is overloaded. On a full disk it is 200 with
/// `faregate.degraded`. Answered from memory.
#[utoipa::path(get, path = "/1.0/healthcheck", tag = "Health",
    responses((status = 200, body = HealthJson), (status = 500, body = HealthJson)))]
pub(crate) async fn health(call: Call) -> HandlerResult {
    let engine = call.api.engine();
    let failed = |message: String| CheckJson { healthy: false, message: Some(message) };
    let passed = || CheckJson { healthy: true, message: None };
    let room = |has_room: bool, full: Reason| match has_room {
        true => passed(),
        false => failed(full.to_string()),
    };
    let (health, degraded) = match engine.health() {
        Err(full @ Unhealthy::Failed(Reason::DiskFull)) => (Ok(()), Some(full.to_string())),
        health => (health, None),
    };
    let server = match (call.api.settings().rotation.is_out(), health.is_ok()) {
        (true, _) => failed("out of rotation".to_owned()),
        (false, healthy) => CheckJson { healthy, message: healthy.then(|| "OK".to_owned()) },
    };
    let body = HealthJson {
        database: health.err().map_or_else(passed, |unhealthy| failed(unhealthy.to_string())),
        server,
        gateways: room(engine.gateways_have_room(), Reason::GatewayFull),
        queues: room(engine.has_room(), Reason::QueueFull),
        degraded: degraded.map(|message| CheckJson { healthy: true, message: Some(message) }),
    };
    let checks = [&body.database, &body.server, &body.gateways, &body.queues];
    let healthy = checks.iter().all(|check| check.healthy);
    let status = if healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    Ok(reply::json(status, &body))
}

/// Shows figures of the process in the form of Dropwizard's metrics. Those of payments and of routes are in
/// `/metrics` (Prometheus).
#[utoipa::path(get, path = "/1.0/metrics", tag = "Health", operation_id = "process_metrics",
    responses((status = 200, body = MetricsJson),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn metrics(call: Call) -> HandlerResult {
    let figures = (call.api.settings().process_figures)();
    Ok(reply::ok(&MetricsJson {
        version: "4.0.0",
        gauges: figures.into_iter().map(|(name, value)| (name, GaugeJson { value })).collect(),
        counters: BTreeMap::new(),
        histograms: BTreeMap::new(),
        meters: BTreeMap::new(),
        timers: BTreeMap::new(),
    }))
}
