//! The private endpoint of Kill Bill's test plugin, on a test clock.

use std::time::Duration;

use gateway::simulator::script::Step;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::json::{Json, Raw};
use crate::reply;

const JSON: Json = Json("Payload");

/// The longest name of an action or a method, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The plugin's `Payload`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
#[schema(as = TestPluginConfiguration)]
struct Payload<'a> {
    /// An action of the plugin, or `ACTION_CLEAR`
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    configure_action: Raw<'a>,
    /// A method of Kill Bill's payment plugins; every one without it
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    methods: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<i32>)]
    sleep_time_sec: Raw<'a>,
    /// The amount that is processed
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    amount: Raw<'a>,
}

/// Has the simulated gateway do the same with each of the tenant's calls, until it is cleared.
#[utoipa::path(post, path = "/plugins/killbill-payment-test/configure", tag = "Test",
    operation_id = "configureTestPlugin",
    request_body = Payload<'static>,
    responses((status = 200, description = "It does so from now on"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn configure(call: Call) -> HandlerResult {
    let body: Payload<'_> = call.body(JSON)?;
    let method = JSON.text("METHODS", body.methods, NAME_CHARS_MAX)?;
    let sleep_s = JSON.integer("SLEEP_TIME_SEC", body.sleep_time_sec)?;
    let sleep_s = sleep_s
        .map(|it| u64::try_from(it).map_err(|_| refused("SLEEP_TIME_SEC", "is less than zero")));
    let step = Step {
        action: JSON.text("CONFIGURE_ACTION", body.configure_action, NAME_CHARS_MAX)?,
        delay: sleep_s.transpose()?.map(Duration::from_secs),
        amount: JSON.amount("AMOUNT", body.amount)?,
    };
    if step == Step::default() {
        return Err(JSON.missing("CONFIGURE_ACTION"));
    }
    let scripts = &call.api.settings().scripts;
    let configured = scripts.configure(call.tenant(), method.as_deref(), step);
    configured.map_err(|it| refused(it.field, it.reason))?;
    Ok(reply::empty(StatusCode::OK))
}

fn refused(field: &str, reason: &str) -> Failure {
    Failure::illegal(format!("Payload {field} {reason}"))
}
