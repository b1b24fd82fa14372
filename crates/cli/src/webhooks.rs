//! `faregate listen` and `faregate trigger`: a tenant's events at a program under development, without an endpoint that
//! the server can reach.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::webhooks::endpoint::{is_event_type, wants};
use anyhow::{Context as _, bail};
use bytes::Bytes;
use command_line::{Scheme, Target};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use secrets::webhook::{self, Secret};
use serde_json::{Value, json};

use crate::client::{Client, Limits, Tls};
use crate::output;
use crate::remote::{Remote, Scope, ServerArgs, block_on, encoded, succeeded};

/// How long `listen` waits before it looks for events again.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The bounds of a delivery to the program.
const LIMITS: Limits = Limits { response_bytes_max: 64 * 1024, timeout: Duration::from_secs(15) };

/// The types of events that `trigger` can make.
const TRIGGERS: [&str; 4] =
    ["account.created", "payment.failed", "payment.pending", "payment.succeeded"];

/// The gateway that `trigger` pays with.
const SIMULATOR: &str = "faregate-simulator";

/// Forward a tenant's events to a program on this machine, from now on, until it is interrupted.
#[derive(clap::Args)]
pub struct Listen {
    #[command(flatten)]
    server: ServerArgs,
    /// Where the program takes them
    #[arg(long, value_name = "URL")]
    forward_to: String,
    /// Only these types, or groups such as payment.* [default: all]
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    events: Vec<String>,
}

/// Make an event happen, on a server with the simulated gateway.
#[derive(clap::Args)]
pub struct Trigger {
    #[command(flatten)]
    server: ServerArgs,
    /// Its type
    #[arg(value_parser = TRIGGERS)]
    event: String,
}

/// The program that events are forwarded to.
struct Program {
    target: Target,
    scheme: Scheme,
    path: String,
    secret: Secret,
    server: ServerArgs,
}

/// Forwards events until it is interrupted.
///
/// # Errors
/// If an argument is wrong, or the server cannot be reached or refuses.
pub fn listen(args: Listen) -> anyhow::Result<ExitCode> {
    let Listen { server, forward_to, events } = args;
    if let Some(unknown) = events.iter().find(|it| !is_event_type(it)) {
        bail!("--events: {unknown} is neither a type of events nor a group such as payment.*");
    }
    let uri: Uri = forward_to.parse().context("--forward-to")?;
    let authority = uri.authority().context("--forward-to has no host")?;
    let of_server = format!("{}://{authority}", uri.scheme_str().unwrap_or("http"));
    let (target, scheme) = Target::parse_any("--forward-to", &of_server)?;
    let path = uri.path_and_query().map_or("/", |it| it.as_str()).to_owned();
    let program = Program { target, scheme, path, secret: Secret::draw(), server };
    block_on(forward(&program, &events))
}

async fn forward(program: &Program, wanted: &[String]) -> anyhow::Result<ExitCode> {
    let mut remote = program.server.connect(Scope::Tenant).await?;
    let mut from: Value = remote.get("/v1/events").await?.json()?;
    eprintln!("deliveries are signed with {}", program.secret.prefixed());
    loop {
        let next = from["next"].as_str().unwrap_or_default().to_owned();
        from = remote.get(&format!("/v1/events?limit=1000&after={next}")).await?.json()?;
        for event in from["events"].as_array().into_iter().flatten() {
            let kind = event["type"].as_str().unwrap_or_default();
            if wants(wanted, kind) {
                let came_of_it = match program.deliver(event).await {
                    Ok(status) => status.as_u16().to_string(),
                    Err(error) => format!("{error:#}"),
                };
                let id = event["id"].as_str().unwrap_or_default();
                println!(
                    "{} {kind} {id} {}",
                    event["at"].as_str().unwrap_or_default(),
                    output::plain(&came_of_it)
                );
            }
        }
        if from["more"] != true {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Program {
    /// Delivers an event as the server does to an endpoint of the format `standard`.
    async fn deliver(&self, event: &Value) -> anyhow::Result<StatusCode> {
        let body = json!({
            "type": event["type"],
            "timestamp": event["timestamp"],
            "data": event["data"],
        });
        let body = Bytes::from(serde_json::to_vec(&body)?);
        let id = event["id"].as_str().unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().to_string();
        let signature = self.secret.sign(id, &now, &body);
        let sequence = event["data"]["sequence"].to_string();
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (webhook::ID, id),
            (webhook::TIMESTAMP, &now),
            (webhook::SIGNATURE, &signature),
            ("x-faregate-sequence", &sequence),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value)?);
        }
        let tls = match self.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Tls::new(&self.target.authority, None)?),
        };
        // A program under development is started again and again.
        let mut client = Client::connect(&self.target, tls, headers, LIMITS).await?;
        Ok(client.send(Method::POST, &self.path, None, body).await?.status)
    }
}

/// Makes an event happen, and prints what it is about.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn trigger(args: &Trigger) -> anyhow::Result<ExitCode> {
    block_on(async {
        let mut remote = args.server.connect(Scope::Tenant).await?;
        let made = make(&mut remote, &args.event).await?;
        match args.server.json {
            true => println!("{}", output::json(&made)),
            false => println!("{}", output::plain(&made.to_string())),
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn make(remote: &mut Remote, event: &str) -> anyhow::Result<Value> {
    let account = json!({ "name": "faregate trigger", "currency": "USD" });
    let account = post(remote, "/1.0/kb/accounts", &account).await?;
    let account = succeeded(account)?.created_id()?;
    let property = match event {
        "account.created" => return Ok(json!({ "accountId": account })),
        "payment.failed" => "ACTION_RETURN_PLUGIN_STATUS_ERROR",
        "payment.pending" => "ACTION_RETURN_PLUGIN_STATUS_PENDING",
        _ => "faregate-trigger",
    };
    let path = format!("/1.0/kb/accounts/{}", encoded(&account));
    let method = json!({ "pluginName": SIMULATOR, "pluginInfo": {} });
    succeeded(post(remote, &format!("{path}/paymentMethods?isDefault=true"), &method).await?)?;
    let purchase = json!({ "transactionType": "PURCHASE", "amount": "10" });
    let path = format!("{path}/payments?pluginProperty={property}%3D*");
    let paid = post(remote, &path, &purchase).await?;
    // A decline is what was asked for; it has made a payment too.
    if !paid.status.is_success() && paid.location.is_none() {
        succeeded(paid)?;
        bail!("the server made no payment");
    }
    Ok(json!({ "accountId": account, "paymentId": paid.created_id()? }))
}

async fn post(
    remote: &mut Remote,
    path: &str,
    body: &Value,
) -> anyhow::Result<crate::client::Response> {
    remote.send(Method::POST, path, None, serde_json::to_vec(body)?.into()).await
}
