//! `faregate flags explain`: explains in sentences which variation of a flag a user gets.

use std::fmt::Write as _;
use std::process::ExitCode;

use bytes::Bytes;
use evaluation::ENTITLED_SEGMENT;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::output::{self, plain};
use crate::remote::{Remote, RemoteArgs, block_on, encoded, succeeded};

/// Options of `faregate flags explain`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The flag
    key: String,
    /// The user's key
    #[arg(long = "for", value_name = "KEY")]
    user_key: String,
    /// The user's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A property of the user; repeat for more
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    #[command(flatten)]
    remote: RemoteArgs,
}

fn property(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE was expected")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Prints the explanation.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (explanation, account) = block_on(request(args))?;
    if args.remote.server.json {
        println!("{}", output::json(&explanation));
    } else {
        print!("{}", sentences(&args.user_key, &args.remote.environment, &explanation));
        if let Some(account) = account {
            println!("  {}", plain(&account));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The explanation, and whose user the key is where a gate decided.
async fn request(args: &Args) -> anyhow::Result<(Value, Option<String>)> {
    let properties = args.properties.iter();
    let properties: Vec<Value> =
        properties.map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let user =
        json!({ "keyId": args.user_key, "name": args.name, "customizedProperties": properties });
    let path = format!("/v1/flags/{}/explain?{}", encoded(&args.key), args.remote.parameters());
    let mut remote = args.remote.connect().await?;
    let answer = remote.send(Method::POST, &path, None, Bytes::from(user.to_string())).await?;
    let explanation: Value = succeeded(answer)?.json()?;
    let account = match gate(&explanation) {
        Some(_) => whose(&mut remote, &args.user_key).await,
        None => None,
    };
    Ok((explanation, account))
}

/// The feature that the user lacks, where the flag's gate decided.
fn gate(it: &Value) -> Option<String> {
    let rule = list(it, "/rules").last().filter(|rule| text(rule, "/name") == GATE)?;
    let of = |condition: &Value| {
        let segments: Vec<String> = serde_json::from_str(&text(condition, "/value")).ok()?;
        Some(segments.first()?.strip_prefix(ENTITLED_SEGMENT)?.to_owned())
    };
    list(rule, "/conditions").iter().find_map(of).filter(|_| is(rule, "/isMet"))
}

/// Whose user the key is; nothing where that may not be read.
async fn whose(remote: &mut Remote, key: &str) -> Option<String> {
    let path = format!("/v1/users/{}/entitlements", encoded(key));
    let answer = remote.send(Method::GET, &path, None, Bytes::new()).await.ok()?;
    match answer.status {
        StatusCode::NOT_FOUND => Some(format!("{key} is no account's user")),
        StatusCode::OK => {
            let account = answer.json::<Value>().ok()?;
            Some(format!("{key} is a user of the account {}", text(&account, "/accountId")))
        }
        _ => None,
    }
}

/// The name of the rule that a gate is evaluated as.
const GATE: &str = "gate";

fn sentences(user: &str, environment: &str, it: &Value) -> String {
    let (user, environment) = (plain(user), plain(environment));
    let key = text(it, "/key");
    let reason = match gate(it) {
        Some(feature) => format!("not bought: {}", plain(&feature)),
        None => text(it, "/reason"),
    };
    let mut out = match it.pointer("/variation/value") {
        Some(_) => {
            let (value, id) = (text(it, "/variation/value"), text(it, "/variation/id"));
            format!("{key} in {environment} is {value} for {user} (variation {id}): {reason}\n")
        }
        None => format!("{key} in {environment} has no value for {user}: {reason}\n"),
    };
    for rule in list(it, "/rules") {
        let is_met = if is(rule, "/isMet") { "is met" } else { "is not met" };
        writeln!(out, "  rule {:?} {is_met}", text(rule, "/name")).expect(MEMORY);
        for condition in list(rule, "/conditions") {
            writeln!(out, "    {}", condition_line(condition)).expect(MEMORY);
        }
    }
    if let Some(bucket) = it.pointer("/spread/bucket").and_then(Value::as_f64) {
        let hashed = text(it, "/spread/key");
        let bound = |at| it.pointer(at).and_then(Value::as_f64);
        let part = match (bound("/spread/interval/0"), bound("/spread/interval/1")) {
            (Some(from), Some(to)) => format!("this value is for {from} to {to}"),
            _ => "no value is for that".to_owned(),
        };
        writeln!(out, "  {hashed:?} falls on {bucket:.4} of 0 to 1: {part}").expect(MEMORY);
    }
    out
}

const MEMORY: &str = "writing to a String does not fail";

fn condition_line(it: &Value) -> String {
    let holds = if is(it, "/holds") { "holds" } else { "does not hold" };
    let tested = [text(it, "/property"), text(it, "/op"), text(it, "/value")];
    let tested: Vec<String> = tested.into_iter().filter(|it| !it.is_empty()).collect();
    let tested = tested.join(" ");
    let segments: Vec<String> = list(it, "/segments").iter().map(as_text).collect();
    if !segments.is_empty() {
        return format!("{tested}: {holds}, the user belongs to {}", segments.join(", "));
    }
    match it.pointer("/found").filter(|found| !found.is_null()) {
        Some(found) => format!("{tested}: {holds}, found {:?}", as_text(found)),
        None => format!("{tested}: {holds}, found nothing"),
    }
}

fn list<'a>(it: &'a Value, at: &str) -> &'a [Value] {
    it.pointer(at).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is(it: &Value, at: &str) -> bool {
    it.pointer(at) == Some(&Value::Bool(true))
}

fn text(it: &Value, at: &str) -> String {
    it.pointer(at).map(as_text).unwrap_or_default()
}

fn as_text(it: &Value) -> String {
    plain(it.as_str().unwrap_or_default())
}
