//! `faregate tenants|accounts|...`: resources of a running server. Each is a row of `RESOURCES` and a
//! file that says where the server has it, which columns a list shows, and which options become fields of
//! a request. What they do is the same for all, and is here.

mod accounts;
mod billing;
mod clock;
mod entitlements;
mod environments;
mod events;
mod explain;
mod features;
mod fields;
mod ledger;
mod lists;
mod offers;
mod payment_methods;
mod payments;
mod plans;
mod purchases;
mod roles;
mod tags;
mod tenants;
mod users;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches as _};
use hyper::Method;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use self::lists::{List, Rows, Window, list, print_rows, values};
use crate::client::{NOT_JSON, Response};
use crate::output::{self, plain, table};
use crate::remote::{
    ReasonArgs, Remote, Scope, ServerArgs, block_on, encoded, read_secret, succeeded,
};

/// The resources.
static RESOURCES: [&Resource; 20] = [
    &tenants::TENANTS,
    &users::USERS,
    &roles::ROLES,
    &accounts::ACCOUNTS,
    &payment_methods::PAYMENT_METHODS,
    &payments::PAYMENTS,
    &explain::EXPLAIN,
    &tags::TAGS,
    &fields::FIELDS,
    &ledger::LEDGER,
    &billing::BILLING,
    &features::FEATURES,
    &offers::OFFERS,
    &plans::PLANS,
    &plans::PRODUCTS,
    &purchases::PURCHASES,
    &entitlements::ENTITLEMENTS,
    &environments::ENVIRONMENTS,
    &events::EVENTS,
    &clock::CLOCK,
];

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const EXPORT: &str = "export";
const BEFORE: &str = "before";

/// Rows that a list shows unless it is asked for more, and rows per request.
const LIMIT_DEFAULT: &str = "100";
const PAGE: usize = 100;

/// Columns of an object's history, as Kill Bill's API has it.
const HISTORY: &[(&str, &str)] = &[
    ("AT", "/changeDate"),
    ("CHANGE", "/changeType"),
    ("OBJECT", "/objectType"),
    ("BY", "/changedBy"),
    ("REASON", "/reasonCode"),
    ("COMMENT", "/comments"),
];

/// Something that the server has several of.
struct Resource {
    /// Of the command, in the plural.
    name: &'static str,
    /// A second name of it.
    alias: Option<&'static str>,
    about: &'static str,
    scope: Scope,
    actions: &'static [Action],
}

/// A command about a resource.
struct Action {
    name: &'static str,
    about: &'static str,
    /// The parts of the path in braces, which the command line names in this order.
    operands: &'static [Operand],
    options: &'static [Field],
    request: Request,
}

impl Action {
    /// A list without options.
    const fn list(
        name: &'static str,
        about: &'static str,
        operands: &'static [Operand],
        list: List,
    ) -> Self {
        Self { name, about, operands, options: &[], request: Request::List(list) }
    }

    /// Shows one object.
    const fn show(about: &'static str, operands: &'static [Operand], path: &'static str) -> Self {
        Self { name: "show", about, operands, options: &[], request: Request::Show { path } }
    }

    /// Deletes, without options.
    const fn delete(
        name: &'static str,
        about: &'static str,
        operands: &'static [Operand],
        path: &'static str,
    ) -> Self {
        let request = Request::Send { method: Method::DELETE, path, constants: &[] };
        Self { name, about, operands, options: &[], request }
    }
}

/// The request that an action sends to the server.
enum Request {
    /// Rows, page by page.
    List(List),
    /// Payments that a text names, of whatever kind it is.
    FindPayments,
    /// One object.
    Show { path: &'static str },
    /// Sends the options.
    Send {
        method: Method,
        path: &'static str,
        /// Fields that the body always has.
        constants: &'static [(&'static str, &'static str)],
    },
    /// Sends the options as the only element of an array.
    SendList { method: Method, path: &'static str },
    /// Sends an array of the one id that this operand is.
    SendId { path: &'static str, operand: &'static str },
    /// Advances the test clock by the period that the operand is.
    Advance { path: &'static str },
    /// Prints what happened to a payment.
    Explain,
    /// Prints how an invoice has its amounts.
    ExplainInvoice,
    /// Prints the sums of a forecast.
    Forecast { path: &'static str },
    /// Prints why an account may use a feature, or may not.
    ExplainEntitlement,
    /// Sends the options, and the answer has a tenant's credentials, which are shown this once.
    Credentials { path: &'static str },
    /// Prints the events that there are, or those to come until it is interrupted.
    Events { path: &'static str, columns: &'static [(&'static str, &'static str)], follows: bool },
}

impl Request {
    /// Whether it prints rows, as many as are asked for.
    const fn is_list(&self) -> bool {
        matches!(self, Self::List(_) | Self::FindPayments | Self::Events { follows: false, .. })
    }

    /// Whether it is a list that is shown from its end.
    const fn is_newest_first(&self) -> bool {
        matches!(
            self,
            Self::List(List { rows: Rows::Newest | Rows::NewestNamed(_), .. })
                | Self::Events { follows: false, .. }
        )
    }

    /// Whether the server takes a key that makes it repeatable: Kill Bill's API, for each `POST`, grants and purchases.
    fn is_repeatable(&self) -> bool {
        match self {
            Self::Send { method, path, .. } | Self::SendList { method, path } => {
                let is_test = path.starts_with("/1.0/kb/test/");
                let is_taken = path.starts_with("/1.0/kb/")
                    || path.ends_with("/grants")
                    || path.ends_with("/purchases");
                *method == Method::POST && is_taken && !is_test
            }
            Self::SendId { .. } => true,
            Self::List(_)
            | Self::FindPayments
            | Self::Show { .. }
            | Self::Advance { .. }
            | Self::Explain
            | Self::ExplainInvoice
            | Self::Forecast { .. }
            | Self::ExplainEntitlement
            | Self::Credentials { .. }
            | Self::Events { .. } => false,
        }
    }

    /// Whether it changes something that has a history.
    const fn has_reason(&self) -> bool {
        match self {
            Self::Send { .. }
            | Self::SendList { .. }
            | Self::SendId { .. }
            | Self::Credentials { .. } => true,
            Self::List(_)
            | Self::FindPayments
            | Self::Show { .. }
            | Self::Advance { .. }
            | Self::Explain
            | Self::ExplainInvoice
            | Self::Forecast { .. }
            | Self::ExplainEntitlement
            | Self::Events { .. } => false,
        }
    }
}

/// A part of the path that the command line names.
struct Operand {
    name: &'static str,
    help: &'static str,
    /// Where the id is found of what the command line names by its key.
    by_key: Option<ByKey>,
}

/// A list whose rows have a key and an id.
struct ByKey {
    path: &'static str,
    rows: Rows,
    key: &'static str,
    id: &'static str,
}

impl Operand {
    const fn id(name: &'static str, help: &'static str) -> Self {
        Self { name, help, by_key: None }
    }
}

/// An option that becomes a field of the body, or a parameter of the query.
struct Field {
    option: &'static str,
    /// In the request.
    name: &'static str,
    help: &'static str,
    kind: Kind,
    is_required: bool,
}

/// How an option is sent.
enum Kind {
    Text,
    /// A decimal number, sent as a text so that no digit is lost.
    Decimal,
    Integer,
    /// Texts with commas between them, sent as an array.
    Texts,
    /// JSON; what is none is sent as a text.
    Json,
    /// A file whose text is sent: a secret, which is no argument, because `ps` shows those.
    SecretFile,
    /// A text in the query.
    QueryText,
    /// `true` in the query, where the option is given.
    QueryFlag,
    /// `NAME=VALUE`, as often as it is given.
    Pairs(Pairs),
}

/// How pairs of names and values are sent.
#[derive(Clone, Copy)]
enum Pairs {
    /// As parameters of the query, each with `NAME=VALUE` for its value.
    Query,
    /// As an object of texts.
    Texts,
    /// As an object of JSON; a value that is none is a text.
    Json,
    /// As objects with `key` and `value`.
    List,
}

impl Field {
    const fn text(option: &'static str, name: &'static str, help: &'static str) -> Self {
        Self { option, name, help, kind: Kind::Text, is_required: false }
    }

    const fn texts(option: &'static str, name: &'static str, help: &'static str) -> Self {
        Self { kind: Kind::Texts, ..Self::text(option, name, help) }
    }

    const fn secret_file(option: &'static str, name: &'static str, help: &'static str) -> Self {
        Self { kind: Kind::SecretFile, ..Self::text(option, name, help) }
    }

    const fn decimal(option: &'static str, name: &'static str, help: &'static str) -> Self {
        Self { kind: Kind::Decimal, ..Self::text(option, name, help) }
    }

    const fn json(option: &'static str, name: &'static str, help: &'static str) -> Self {
        Self { kind: Kind::Json, ..Self::text(option, name, help) }
    }

    const fn integer(option: &'static str, name: &'static str, help: &'static str) -> Self {
        Self { kind: Kind::Integer, ..Self::text(option, name, help) }
    }

    const fn query_text(option: &'static str, name: &'static str, help: &'static str) -> Self {
        Self { kind: Kind::QueryText, ..Self::text(option, name, help) }
    }

    const fn query_flag(option: &'static str, name: &'static str, help: &'static str) -> Self {
        Self { kind: Kind::QueryFlag, ..Self::text(option, name, help) }
    }

    const fn pairs(
        option: &'static str,
        name: &'static str,
        help: &'static str,
        pairs: Pairs,
    ) -> Self {
        Self { kind: Kind::Pairs(pairs), ..Self::text(option, name, help) }
    }

    const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}

/// The commands of all resources.
#[must_use]
pub fn commands() -> Vec<Command> {
    RESOURCES.iter().map(|it| command(it)).collect()
}

fn command(resource: &Resource) -> Command {
    let actions = resource.actions.iter().map(|action| {
        // The options' own description would become the command's.
        let mut command = ServerArgs::augment_args(Command::new(action.name)).about(action.about);
        for Operand { name, help, .. } in action.operands {
            command = command.arg(Arg::new(*name).required(true).help(*help));
        }
        for Field { option, help, kind, is_required, .. } in action.options {
            let mut arg = Arg::new(*option).long(*option).help(*help).required(*is_required);
            match kind {
                Kind::QueryFlag => arg = arg.action(ArgAction::SetTrue),
                // What is below zero is refused with a word about numbers.
                Kind::Decimal | Kind::Integer | Kind::Json => {
                    arg = arg.allow_hyphen_values(true);
                }
                Kind::SecretFile => arg = arg.value_name("FILE"),
                Kind::Texts => arg = arg.value_name("A,B"),
                Kind::Pairs(_) => {
                    arg = arg.value_name("NAME=VALUE").action(ArgAction::Append);
                    arg = arg.value_parser(pair);
                }
                Kind::Text | Kind::QueryText => {}
            }
            command = command.arg(arg);
        }
        if action.request.is_repeatable() {
            command =
                command
                    .arg(Arg::new(IDEMPOTENCY_KEY).long(IDEMPOTENCY_KEY).value_name("KEY").help(
                    "Do it once, however often it is sent with this key [default: a random one]",
                ));
        }
        if action.request.has_reason() {
            command = ReasonArgs::augment_args(command).about(action.about);
        }
        if matches!(action.request, Request::Credentials { .. }) {
            let export = Arg::new(EXPORT).long(EXPORT).action(ArgAction::SetTrue);
            command = command.arg(export.help(
                "Print the credentials for a shell, which takes them by eval \"$(faregate tenants ... --export)\"",
            ));
        }
        if action.request.is_newest_first() {
            let before = Arg::new(BEFORE).long(BEFORE).value_name("ID");
            command = command.arg(before.help("Show the rows after the one with this id"));
        }
        if action.request.is_list() {
            let limit = Arg::new("limit")
                .long("limit")
                .value_name("N")
                .help("Show at most so many rows; 0: all of them");
            let limit = limit.value_parser(clap::value_parser!(usize));
            command = command.arg(limit.default_value(LIMIT_DEFAULT));
        }
        command
    });
    Command::new(resource.name)
        .visible_aliases(resource.alias)
        .about(resource.about)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(actions)
}

/// Runs the command of a resource; `None` where the name is no resource's.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub fn run(name: &str, matches: &ArgMatches) -> Option<anyhow::Result<ExitCode>> {
    let resource = RESOURCES.iter().find(|it| it.name == name)?;
    let (action, matches) = matches.subcommand()?;
    let action = resource.actions.iter().find(|it| it.name == action)?;
    Some(block_on(execute(resource, action, matches)).map(|()| ExitCode::SUCCESS))
}

async fn execute(resource: &Resource, action: &Action, matches: &ArgMatches) -> anyhow::Result<()> {
    let server = ServerArgs::from_arg_matches(matches)?;
    let mut remote = server.connect(resource.scope).await?;
    match &action.request {
        Request::List(List { path, rows, columns }) => {
            let path = filled(&mut remote, path, action, matches).await?;
            let found = list(&mut remote, &path, rows, window(columns, matches)).await?;
            print_rows(&mut remote, columns, found, server.json).await?;
        }
        Request::Show { path } => {
            let path = filled(&mut remote, path, action, matches).await?;
            print_answer(&remote.get(&path).await?, server.json)?;
        }
        Request::Send { method, path, constants } => {
            let body = body(action, constants, matches)?.into();
            send(&mut remote, action, matches, Change { method, path, body }).await?;
        }
        Request::SendList { method, path } => {
            let body = Value::Array(vec![body(action, &[], matches)?.into()]);
            send(&mut remote, action, matches, Change { method, path, body }).await?;
        }
        Request::SendId { path, operand } => {
            let operand = action.operands.iter().find(|it| it.name == *operand);
            let id = match operand {
                Some(operand) => operand.value(&mut remote, matches).await?,
                None => String::new(),
            };
            let body = Value::Array(vec![id.into()]);
            send(&mut remote, action, matches, Change { method: &Method::POST, path, body })
                .await?;
        }
        Request::Advance { path } => clock::advance(&mut remote, path, matches).await?,
        Request::FindPayments => {
            let found = payments::find(&mut remote, matches).await?;
            print_rows(&mut remote, payments::COLUMNS, found, server.json).await?;
        }
        Request::Explain => explain::explain(&mut remote, matches, server.json).await?,
        Request::ExplainInvoice => {
            explain::explain_invoice(&mut remote, matches, server.json).await?;
        }
        Request::Forecast { path } => {
            let path = filled(&mut remote, path, action, matches).await?;
            billing::forecast(&mut remote, &path, server.json).await?;
        }
        Request::ExplainEntitlement => {
            entitlements::explain(&mut remote, matches, server.json).await?;
        }
        Request::Credentials { path } => {
            tenants::credentials(&mut remote, (action, path), matches, server.json).await?;
        }
        Request::Events { path, columns, follows } => {
            let of = (*path, *columns);
            match follows {
                true => events::tail(&mut remote, of, server.json).await?,
                false => {
                    let window = window(columns, matches);
                    events::newest(&mut remote, of, window, server.json).await?;
                }
            }
        }
    }
    Ok(())
}

/// The rows that the options of a list name.
fn window<'a>(columns: &[(&str, &'a str)], matches: &'a ArgMatches) -> Window<'a> {
    let limit = matches.get_one("limit").copied().unwrap_or_default();
    let id = matches.try_get_one::<String>(BEFORE).ok().flatten();
    let at = columns.first().map(|(_, at)| *at);
    Window { before: at.zip(id.map(String::as_str)), ..Window::of(limit) }
}

/// The request of a change.
struct Change<'a> {
    method: &'a Method,
    path: &'a str,
    body: Value,
}

/// Sends a change, and prints what it made.
async fn send(
    remote: &mut Remote,
    action: &Action,
    matches: &ArgMatches,
    Change { method, path, body }: Change<'_>,
) -> anyhow::Result<()> {
    let path = filled(remote, path, action, matches).await?;
    remote.set_reason(&ReasonArgs::from_arg_matches(matches)?)?;
    if action.request.is_repeatable() {
        let given = matches.get_one::<String>(IDEMPOTENCY_KEY).cloned();
        remote.set_idempotency_key(given.unwrap_or_else(|| Uuid::now_v7().to_string()))?;
    }
    let answer = remote.send(method.clone(), &path, None, Bytes::from(body.to_string())).await?;
    let json = ServerArgs::from_arg_matches(matches)?.json;
    print_sent(remote, succeeded(answer)?, json).await
}

/// The path with its operands, and the options that go into the query.
async fn filled(
    remote: &mut Remote,
    path: &str,
    action: &Action,
    matches: &ArgMatches,
) -> anyhow::Result<String> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let mut path = path.to_owned();
    for operand in action.operands {
        let name = format!("{{{}}}", operand.name);
        if path.contains(&name) {
            path = path.replace(&name, &encoded(&operand.value(remote, matches).await?));
        }
    }
    for Field { option, name, kind, .. } in action.options {
        let values = match kind {
            Kind::Text
            | Kind::Texts
            | Kind::SecretFile
            | Kind::Decimal
            | Kind::Integer
            | Kind::Pairs(Pairs::Texts | Pairs::Json | Pairs::List)
            | Kind::Json => vec![],
            Kind::QueryText => text(option).map(encoded).into_iter().collect(),
            Kind::QueryFlag => {
                matches.get_flag(option).then(|| "true".to_owned()).into_iter().collect()
            }
            Kind::Pairs(Pairs::Query) => {
                let pairs = pairs_of(option, matches).into_iter();
                pairs.map(|(name, value)| encoded(&format!("{name}={value}"))).collect()
            }
        };
        for value in values {
            let separator = if path.contains('?') { '&' } else { '?' };
            path = format!("{path}{separator}{name}={value}");
        }
    }
    Ok(path)
}

impl Operand {
    /// The value on the command line, or the id of the object that it names by its key.
    async fn value(&self, remote: &mut Remote, matches: &ArgMatches) -> anyhow::Result<String> {
        let value = matches.get_one::<String>(self.name).cloned().unwrap_or_default();
        match self.by_key.as_ref().filter(|_| Uuid::parse_str(&value).is_err()) {
            Some(by_key) => Ok(by_key.find(remote, &value).await?.unwrap_or(value)),
            None => Ok(value),
        }
    }
}

impl ByKey {
    /// The id of the row with this key.
    async fn find(&self, remote: &mut Remote, key: &str) -> anyhow::Result<Option<String>> {
        let (rows, _) = list(remote, self.path, &self.rows, Window::ALL).await?;
        let rows = values(&rows)?;
        let row = rows.iter().find(|row| find(row, self.key).is_some_and(|it| it == key));
        Ok(row.and_then(|row| find(row, self.id)).map(cell))
    }
}

/// The body that the options make.
fn body(
    action: &Action,
    constants: &[(&str, &str)],
    matches: &ArgMatches,
) -> anyhow::Result<Map<String, Value>> {
    let constants = constants.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
    let mut body: Map<String, Value> = constants.collect();
    for Field { option, name, kind, .. } in action.options {
        if matches!(kind, Kind::QueryText | Kind::QueryFlag | Kind::Pairs(Pairs::Query)) {
            continue;
        }
        if let Kind::Pairs(pairs) = kind {
            let given = pairs_of(option, matches);
            if !given.is_empty() {
                insert(&mut body, name, pairs.value(given));
            }
            continue;
        }
        let Some(text) = matches.get_one::<String>(option) else { continue };
        let value = match kind {
            Kind::Integer => Value::from(text.parse::<u64>().ok().with_context(|| {
                format!("--{option} {text}: a whole number was expected, such as 60")
            })?),
            Kind::Decimal if !is_decimal(text) => {
                anyhow::bail!("--{option} {text}: a number was expected, such as 12.50")
            }
            Kind::Texts => text.split(',').map(str::trim).collect(),
            Kind::Json => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
            Kind::SecretFile => read_secret(Path::new(text))?.into(),
            Kind::Text | Kind::Decimal | Kind::QueryText | Kind::QueryFlag | Kind::Pairs(_) => {
                text.as_str().into()
            }
        };
        insert(&mut body, name, value);
    }
    Ok(body)
}

/// Puts a value into a body, below the objects that its name names before it: `price/amount`.
fn insert(body: &mut Map<String, Value>, name: &str, value: Value) {
    let Some((outer, inner)) = name.split_once('/') else {
        body.insert(name.to_owned(), value);
        return;
    };
    let object = body.entry(outer).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(object) = object {
        insert(object, inner, value);
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE was expected")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn pairs_of(option: &str, matches: &ArgMatches) -> Vec<(String, String)> {
    matches.get_many(option).into_iter().flatten().cloned().collect()
}

impl Pairs {
    /// The pairs as a part of a body.
    fn value(self, pairs: Vec<(String, String)>) -> Value {
        let json = |value: String| serde_json::from_str(&value).unwrap_or(Value::String(value));
        let object = |value: fn(String) -> Value| {
            pairs.iter().map(|(name, it)| (name.clone(), value(it.clone()))).collect::<Map<_, _>>()
        };
        match self {
            Self::Query | Self::List => {
                let pairs = pairs.into_iter();
                pairs.map(|(key, value)| json!({ "key": key, "value": value })).collect()
            }
            Self::Texts => object(Value::String).into(),
            Self::Json => object(json).into(),
        }
    }
}

fn is_decimal(text: &str) -> bool {
    let digits = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(text),
    }
}

/// Prints what a request made: what the answer says, or else what its `Location` has.
async fn print_sent(remote: &mut Remote, answer: Response, json: bool) -> anyhow::Result<()> {
    if !answer.body.is_empty() {
        return print_answer(&answer, json);
    }
    let Some(location) = &answer.location else {
        println!("{}", if json { "{}" } else { "done" });
        return Ok(());
    };
    // Absolute, with whatever `public_url` has before the API's path. The connection is to that server.
    let path = ["/1.0/kb/", "/v1/"].iter().find_map(|api| location.find(api));
    let path = path.map_or(location.as_str(), |at| &location[at..]);
    // The request has done its work, whatever becomes of this read.
    match remote.get(path).await {
        Ok(made) => print_answer(&made, json)?,
        Err(error) => {
            eprintln!("done, but it cannot be read: {error}");
            match json {
                true => println!("{}", output::json(&json!({ "location": location }))),
                false => println!("location  {}", plain(location)),
            }
        }
    }
    Ok(())
}

/// Prints an object: as JSON, or a line for each member, and one for each row of a member that has rows.
fn print_answer(answer: &Response, json: bool) -> anyhow::Result<()> {
    if json {
        let object: &RawValue = serde_json::from_slice(&answer.body).context(NOT_JSON)?;
        println!("{}", output::raw(object.get()));
        return Ok(());
    }
    let object = &answer.json::<Value>()?;
    let members = object.as_object().into_iter().flatten();
    let members: Vec<(&String, &Value)> = members.filter(|(_, value)| !is_empty(value)).collect();
    let width = members.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    for (name, value) in members {
        let name = plain(name);
        match value.as_array().filter(|rows| rows.iter().all(Value::is_object)) {
            Some(rows) => {
                rows.iter().for_each(|row| println!("{name:width$}  {}", inline(row, object)));
            }
            None => {
                let text = money(object, &name, value).unwrap_or_else(|| cell(value));
                println!("{name:width$}  {text}");
            }
        }
    }
    Ok(())
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// An object on one line, without what is empty and what the object around it says already.
fn inline(object: &Value, around: &Value) -> String {
    let is_new = |(name, value): &(&String, &Value)| around.get(name) != Some(value);
    let members = object.as_object().into_iter().flatten();
    let members = members.filter(|it| !is_empty(it.1) && is_new(it));
    let members = members.map(|(name, value)| {
        let text = money(object, name, value).unwrap_or_else(|| cell(value));
        format!("{}={text}", plain(name))
    });
    members.collect::<Vec<_>>().join(" ")
}

fn shown(columns: &[(&str, &str)], rows: &[Value]) -> String {
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    let cells = |row: &Value| {
        let of = |at| find(row, at).map(|it| money(row, at, it).unwrap_or_else(|| cell(it)));
        columns.iter().map(|(_, at)| of(at).unwrap_or_default()).collect::<Vec<_>>()
    };
    table(&headings, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// An amount of an object that has a currency, with the currency's decimals.
fn money(object: &Value, name: &str, value: &Value) -> Option<String> {
    let is_amount = ["mount", "Balance", "CBA"].iter().any(|it| name.ends_with(it));
    if !is_amount {
        return None;
    }
    let (amount, code) = (value.as_f64()?, object.get("currency")?.as_str()?);
    let decimals = usize::from(domain::Currency::parse(code)?.decimals());
    let text = format!("{amount:.decimals$}");
    // More decimals than the currency has are shown as they are.
    (text.parse() == Ok(amount)).then_some(text)
}

/// The value at a JSON pointer in a row; `last` in the pointer is the last element of a list.
fn find<'a>(row: &'a Value, at: &str) -> Option<&'a Value> {
    match at.split_once("/last") {
        Some((list, rest)) => row.pointer(list)?.as_array()?.last()?.pointer(rest),
        None => row.pointer(at),
    }
}

/// A value for people: a text without quotes, nothing for null, all else as JSON.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            plain(&value.to_string())
        }
    }
}
