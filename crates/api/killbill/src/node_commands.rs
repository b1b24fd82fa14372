//! Kill Bill's node commands: they stop and start the calls of a gateway.

use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::json::{Json, PropertyBody, Raw};
use crate::reply;
use crate::request::printable;

const JSON: Json = Json("NodeCommandJson");

/// The longest name of a command, in characters.
const NAME_CHARS_MAX: usize = 64;

/// Kill Bill's `NodeCommandJson`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NodeCommandRequest)]
struct NodeCommandBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Option<bool>)]
    is_system_command_type: Raw<'a>,
    /// `START_PLUGIN` or `STOP_PLUGIN`
    #[serde(borrow)]
    #[schema(value_type = String)]
    node_command_type: Raw<'a>,
    /// `pluginName` names the gateway
    #[serde(borrow)]
    #[schema(value_type = Vec<PropertyBody<'static>>)]
    node_command_properties: Raw<'a>,
}

/// Stops or starts a gateway on this node, until the node starts again.
///
/// A stopped gateway begins no calls: requests that need one are answered 503 and write nothing. Calls in
/// flight end, and inquiries about unknown outcomes go on.
#[utoipa::path(post, path = "/1.0/kb/nodesInfo", tag = "NodesInfo", operation_id = "command",
    params(
        ("localNodeOnly" = Option<bool>, Query,
            description = "Taken for Kill Bill's clients: the command is for this node in any case")),
    request_body = NodeCommandBody<'static>,
    responses((status = 202, description = "It is stopped, or runs"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn execute(call: Call) -> HandlerResult {
    let body: NodeCommandBody<'_> = call.body(JSON)?;
    JSON.boolean("isSystemCommandType", body.is_system_command_type)?;
    let name = JSON.text("nodeCommandType", body.node_command_type, NAME_CHARS_MAX)?;
    let name = name.ok_or_else(|| JSON.missing("nodeCommandType"))?;
    let is_stopped = match name.as_str() {
        "STOP_PLUGIN" => true,
        "START_PLUGIN" => false,
        _ => {
            let name = printable(&name);
            let reason = format!("{name} is neither START_PLUGIN nor STOP_PLUGIN");
            return Err(Failure::illegal(format!("NodeCommandJson nodeCommandType {reason}")));
        }
    };
    let properties = JSON.properties("nodeCommandProperties", body.node_command_properties)?;
    let gateway = properties.into_iter().find(|(key, _)| key == "pluginName");
    let gateway = gateway.map(|(_, gateway)| gateway);
    let gateway = gateway.ok_or_else(|| {
        let of = "NodeCommandJson nodeCommandProperties";
        Failure::illegal(format!("{of} needs pluginName, the gateway's name"))
    })?;
    let refuse = |reason: &str| {
        let name = printable(&gateway);
        Err(Failure::illegal(format!("NodeCommandJson pluginName {name} {reason}")))
    };
    match call.api.engine().settings().gateway(&gateway) {
        None => return refuse("is no gateway of this node"),
        Some(settings) if settings.settles_at_once => {
            return refuse("makes no calls that could be stopped");
        }
        Some(_) if !call.api.settings().calls_gateways => {
            return refuse("is called by processors: this node is a front");
        }
        Some(_) => {}
    }
    let user = call.caller.username.as_str();
    match is_stopped {
        true => tracing::warn!(user, gateway, "a gateway is stopped, until it is started"),
        false => tracing::warn!(user, gateway, "a gateway is started"),
    }
    call.api.engine().stopped_gateways().set(&gateway, is_stopped);
    Ok(reply::empty(StatusCode::ACCEPTED))
}
