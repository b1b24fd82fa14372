//! The configuration: built-in defaults, then the file, then the environment, then the command line.

mod database;
mod http_gateway;
mod log_filter;
mod mail;
mod period;
mod routing;
mod secret;
mod settings;
mod sign_up;
mod stripe;
mod variables;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use toml::{Table, Value};
use web::Network;

pub use http_gateway::HttpGateway;
pub use log_filter::log_filter;
pub use mail::{Mail, MailTransport, SmtpSecurity};
pub use period::Period;
use settings::Kafka;
pub use settings::{Config, LogFormat, QueueKind, Role, Tls};
pub use sign_up::Signup;

/// The prefix of the environment variables' names.
const PREFIX: &str = "FAREGATE_";

/// Why a configuration cannot be used; each names the setting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}: {source}")]
    Unreadable {
        /// The path in `--config` or `FAREGATE_CONFIG`.
        path: PathBuf,
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration file {path} is not TOML: {message}")]
    NotToml {
        path: PathBuf,
        /// Where and why.
        message: String,
    },
    /// A setting that does not exist.
    #[error("{origin}: there is no setting `{key}`")]
    UnknownKey {
        /// Where it was found.
        origin: Origin,
        key: String,
    },
    /// An environment variable that is nearly one of a setting.
    #[error("environment variable {name}: there is no such setting; {meant} is one")]
    UnknownVariable {
        name: String,
        /// The variable of the setting that is nearest.
        meant: String,
    },
    /// A setting with a value it cannot have.
    #[error("{origin}: setting `{key}`: {reason}")]
    Invalid {
        /// Where it was found.
        origin: Origin,
        key: String,
        /// Why the value is refused.
        reason: String,
    },
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::CommandLine => write!(f, "command line"),
        }
    }
}

/// Where the configuration and the data are, on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Place {
    /// Configuration file (TOML); see config.default.toml
    #[arg(long, value_name = "FILE", env = "FAREGATE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Directory of everything durable
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// PostgreSQL to keep payments in, as postgres://user:password@host:port/database; better in
    /// FAREGATE_DATABASE_URL, which `ps` does not show
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
}

/// The settings of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Arguments {
    /// See [`Place`].
    #[command(flatten)]
    pub place: Place,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Address to listen on for gRPC; without it there is no gRPC
    #[arg(long, value_name = "HOST:PORT")]
    pub grpc_listen: Option<String>,
    /// Let clients set domain time, and the simulated gateway answer
    #[arg(long)]
    pub test_clock: bool,
    /// Role of this process: all, front or processor
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// Queue between APIs and partitions: memory or kafka
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Kafka's brokers, HOST:PORT, several with commas
    #[arg(long, value_name = "LIST")]
    pub kafka_brokers: Option<String>,
    /// File with the 32 bytes that the secrets of feature flags are encrypted with
    #[arg(long, value_name = "FILE")]
    pub flags_key_file: Option<String>,
    /// Begin anew in a data directory that has lost its database; what is left of it stays there
    #[arg(long)]
    pub new_database: bool,
    /// Go on from the newest journal row although the clock is far behind it
    #[arg(long)]
    pub accept_clock_behind: bool,
    /// Processes that hold streams of feature flags, beside the server's own; 0: none
    #[arg(long, value_name = "N")]
    pub workers: Option<i64>,
}

/// How late Kill Bill's callback may learn of an event: what waits is bounded in number too.
const KILLBILL_DELAY_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// A call may leave so long after its deadline, and "not found" may not be final before.
const SETTLE_AFTER_MIN: std::time::Duration = std::time::Duration::from_secs(1);

impl Config {
    /// Reads the configuration for these arguments and the process's environment.
    ///
    /// # Errors
    /// [`Error`], naming the setting.
    pub fn load(arguments: &Arguments) -> Result<Self, Error> {
        Self::load_from(arguments, &mut std::env::vars_os().filter_map(utf8_pair))
    }

    /// [`Config::load`] with an environment of the caller's choice.
    ///
    /// # Errors
    /// [`Error`], naming the setting.
    pub fn load_from(
        arguments: &Arguments,
        environment: &mut dyn Iterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        let mut draft = Draft::new();
        if let Some(path) = &arguments.place.config {
            draft.read_file(path)?;
        }
        draft.read_environment(environment)?;
        draft.read_arguments(arguments)?;
        draft.config.check(&|key| draft.origin_of(key))?;
        draft.config.unknown_variables = draft.unknown_variables;
        draft.config.is_new_database = arguments.new_database;
        draft.config.accepts_clock_behind = arguments.accept_clock_behind;
        Ok(draft.config)
    }

    /// Checks the settings, also against each other. `origin` gives the source of a setting's value.
    fn check(&self, origin: &dyn Fn(&str) -> Origin) -> Result<(), Error> {
        let at_least_one = self.at_least_one();
        let invalid = |key: &str, reason: &str| {
            let (key, reason) = (key.to_owned(), reason.to_owned());
            Err(Error::Invalid { origin: origin(&key), key, reason })
        };
        if let Err(reason) = log_filter(&self.log.level) {
            return invalid("log.level", &reason);
        }
        if let Some((key, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
            return invalid(key, "must be at least 1");
        }
        let some_time = [
            ("http.headers_timeout", self.http.headers_timeout),
            ("http.body_timeout", self.http.body_timeout),
            ("http.idle_timeout", self.http.idle_timeout),
            ("gateway.simulator.timeout", self.gateway.simulator.timeout),
            ("push.timeout", self.push.timeout),
            ("queue.reply_timeout", self.queue.reply_timeout),
            ("flags.insights_retention", self.flags.insights_retention),
            ("database.connect_timeout", self.database.connect_timeout),
            ("database.statement_timeout", self.database.statement_timeout),
        ];
        if let Some((key, _)) = some_time.iter().find(|(_, period)| period.0.is_zero()) {
            return invalid(key, "must be more than nothing");
        }
        if self.push.killbill_delay.0 > KILLBILL_DELAY_MAX {
            return invalid("push.killbill_delay", "must be at most 10s");
        }
        if self.gateway.simulator.settle_after.0 < SETTLE_AFTER_MIN {
            return invalid("gateway.simulator.settle_after", "must be at least 1s");
        }
        if let Some((key, reason)) = self.check_gateways() {
            return invalid(&key, &reason);
        }
        if !is_base_url(&self.public_url) {
            return invalid("public_url", "is no URL such as https://pay.example.com");
        }
        if let Some((key, reason)) = self.check_queue() {
            return invalid(key, reason);
        }
        if self.tls.cert.is_empty() != self.tls.key.is_empty() {
            return invalid("tls.cert", "and `tls.key` are set together or not at all");
        }
        if let Some(reason) = self.check_workers() {
            return invalid("flags.workers", reason);
        }
        if self.test_clock && !self.test_clock_off_loopback && !self.is_on_loopback() {
            return invalid(
                "test_clock",
                "lets every caller fake payments, and `listen` or `grpc.listen` is not loopback: set \
                 `test_clock_off_loopback` too if that is meant",
            );
        }
        if let Err((key, reason)) = self.check_mail() {
            return invalid(key, &reason);
        }
        if let Err((key, reason)) = self.signup.check() {
            return invalid(key, reason);
        }
        if let Err((key, reason)) = self.check_listeners() {
            return invalid(key, reason);
        }
        if self.admission.bodies_bytes_max < self.http.body_bytes_max {
            return invalid("admission.bodies_bytes_max", "must be at least `http.body_bytes_max`");
        }
        if self.http.headers_bytes_max < HEADERS_BYTES_MIN {
            return invalid("http.headers_bytes_max", "must be at least 8192");
        }
        Ok(())
    }

    /// Which setting of gateways cannot be, and why.
    fn check_gateways(&self) -> Option<(String, String)> {
        let settings::Gateway { stripe, breaker, tries, http, .. } = &self.gateway;
        let stripe = stripe.check().map(|(key, reason)| (key.to_owned(), reason));
        let routing = routing::check(breaker, tries);
        let routing = routing.map(|(key, reason)| (key.to_owned(), reason.to_owned()));
        stripe.or(routing).or_else(|| http_gateway::check(http, self.test_clock))
    }

    /// The settings of the mail queue. Links lead to `mail.base_url`, or to `public_url`, or to the address
    /// listened on.
    #[must_use]
    pub fn mail_queue(&self) -> ::mail::Settings {
        let own = || self.base_url();
        let base_url = Some(self.mail.base_url.clone()).filter(|it| !it.is_empty());
        self.mail.queue(&self.data_dir, base_url.unwrap_or_else(own))
    }

    /// The beginning of this installation's URLs: `public_url`, or else the address listened on.
    #[must_use]
    pub fn base_url(&self) -> String {
        let scheme = if self.tls.cert.is_empty() { "http" } else { "https" };
        match (self.public_url.is_empty(), self.listen.ip().is_unspecified()) {
            (false, _) => self.public_url.clone(),
            (true, true) => format!("{scheme}://localhost:{}", self.listen.port()),
            (true, false) => format!("{scheme}://{}", self.listen),
        }
    }

    /// Whether only this machine can reach the server, over HTTP and gRPC.
    #[must_use]
    pub fn is_on_loopback(&self) -> bool {
        let grpc = self.grpc.listen.parse::<SocketAddr>().ok();
        let all = std::iter::once(self.listen).chain(grpc);
        all.map(|it| it.ip().to_canonical()).all(|it| it.is_loopback())
    }

    /// Whether passwords and API secrets may cross a network in the clear: others than this machine reach the
    /// server, it has no certificate, and no proxy is trusted that could have one.
    #[must_use]
    pub fn is_plain_off_loopback(&self) -> bool {
        !self.is_on_loopback() && self.tls.cert.is_empty() && self.access.trusted_proxies.is_empty()
    }

    /// Whether the simulated gateway answers, and reads of balances take the time that clients request.
    #[must_use]
    pub const fn simulates(&self) -> bool {
        self.test_clock || self.gateway.simulator.enabled
    }

    /// Whether programs on this machine are exempt from the limits of strangers: no other machine reaches the
    /// server, and no proxy says for whom it asks.
    #[must_use]
    pub fn exempts_local(&self) -> bool {
        self.is_on_loopback() && self.access.trusted_proxies.is_empty()
    }

    /// Networks that may open any number of connections and streams: trusted proxies, behind which many
    /// clients are; and this machine, where no other can reach the server.
    ///
    /// # Panics
    /// Never: the networks are constants.
    #[must_use]
    pub fn unlimited_networks(&self) -> Vec<Network> {
        let proxies = &self.access.trusted_proxies;
        if self.exempts_local() {
            return LOOPBACK.map(|it| it.parse().expect("it is a network")).to_vec();
        }
        proxies.clone()
    }

    /// Checks the settings of mail. The error is the setting that is wrong, and why.
    fn check_mail(&self) -> Result<(), (&'static str, String)> {
        let to = &self.webhooks.alert_mail;
        match to.is_empty() || ::mail::is_address(to) {
            true => self.mail.check(&self.data_dir),
            false => Err(("webhooks.alert_mail", "is no mail address".to_owned())),
        }
    }

    /// Limits that cannot be nothing.
    const fn at_least_one(&self) -> [(&'static str, usize); 15] {
        [
            ("admission.requests_max", self.admission.requests_max),
            ("admission.connections_max", self.admission.connections_max),
            ("admission.network_connections_max", self.admission.network_connections_max),
            ("admission.answers_bytes_max", self.admission.answers_bytes_max),
            ("flags.network_streams_max", self.flags.network_streams_max),
            ("flags.environment_streams_max", self.flags.environment_streams_max),
            ("grpc.calls_max", self.grpc.calls_max),
            ("grpc.executing_calls_max", self.grpc.executing_calls_max),
            ("engine.queue_commands_max", self.engine.queue_commands_max),
            ("engine.reader_threads", self.engine.reader_threads),
            ("engine.reads_waiting_max", self.engine.reads_waiting_max),
            ("gateway.in_flight_max", self.gateway.in_flight_max),
            ("push.lanes", self.push.lanes),
            ("webhooks.log_max", self.webhooks.log_max),
            ("access.hashing_threads", self.access.hashing_threads),
        ]
    }

    /// The first setting of the queue, or of this process's part in it, that is wrong, and why.
    fn check_queue(&self) -> Option<(&'static str, &'static str)> {
        let Kafka { brokers, classes, key_file, previous_key_file, .. } = &self.kafka;
        let is_class = |class: &String| ["payment", "balance"].contains(&class.as_str());
        if self.role != Role::All && self.queue.kind == QueueKind::Memory {
            Some(("role", "other than `all` needs a queue between the processes: `queue.kind`"))
        } else if self.queue.kind == QueueKind::Kafka && brokers.is_empty() {
            Some(("kafka.brokers", "is needed where `queue.kind` is `kafka`"))
        } else if key_file.is_empty() && !previous_key_file.is_empty() {
            Some(("kafka.previous_key_file", "needs `kafka.key_file`, the key that signs"))
        } else if classes.is_empty() || !classes.iter().all(is_class) {
            Some(("kafka.classes", "are `payment`, `balance` or both"))
        } else {
            None
        }
    }

    /// Which setting of the listeners beside HTTP cannot be, and why.
    fn check_listeners(&self) -> Result<(), (&'static str, &'static str)> {
        let is_wrong = |listen: &str| !listen.is_empty() && listen.parse::<SocketAddr>().is_err();
        if is_wrong(&self.grpc.listen) {
            return Err(("grpc.listen", "is no address such as 127.0.0.1:9090"));
        }
        if is_wrong(&self.operations.listen) {
            return Err(("operations.listen", "is no address such as 127.0.0.1:9464"));
        }
        if self.grpc.connection_calls_max == 0 {
            return Err(("grpc.connection_calls_max", "must be at least 1"));
        }
        if !self.grpc.client_ca.is_empty() && self.tls.cert.is_empty() {
            return Err(("grpc.client_ca", "needs `tls.cert` and `tls.key`"));
        }
        Ok(())
    }

    /// Why there cannot be so many workers, or any.
    fn check_workers(&self) -> Option<&'static str> {
        if self.flags.workers > WORKERS_MAX {
            Some("are at most 64")
        } else if self.flags.workers == 0 {
            None
        } else if !self.tls.cert.is_empty() {
            Some("do not speak TLS: end it before the server")
        } else if self.role == Role::Processor {
            Some("are for processes that have APIs")
        } else if !self.database.url.is_empty() && self.flags.key_file.is_empty() {
            Some("need `flags.key_file`")
        } else {
            None
        }
    }
}

/// Whether a text is empty, or an `http` or `https` URL that a path can follow.
fn is_base_url(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else {
        return text.is_empty();
    };
    let is_fit = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | ':' | '[' | ']' | '/')
    };
    !rest.is_empty() && !rest.starts_with('/') && !rest.ends_with('/') && rest.chars().all(is_fit)
}

/// This machine, as a client.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// Processes of a server at most.
const WORKERS_MAX: usize = 64;

/// The smallest buffer that the HTTP implementation takes.
const HEADERS_BYTES_MIN: usize = 8_192;

fn utf8_pair((name, value): (std::ffi::OsString, std::ffi::OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}

/// A configuration that is being put together. Every setting goes through [`Draft::set`], which
/// looks at the whole again, so that an error names the one setting that brought it.
struct Draft {
    config: Config,
    table: Table,
    /// Where each setting's value is from, and after how many others it was set, by its name; none of a default.
    origins: BTreeMap<String, (usize, Origin)>,
    /// How many were set so far.
    sets: usize,
    unknown_variables: Vec<String>,
}

impl Draft {
    fn new() -> Self {
        let config = Config::default();
        let table = Table::try_from(&config).expect("the defaults can be written as TOML");
        Self { config, table, origins: BTreeMap::new(), sets: 0, unknown_variables: Vec::new() }
    }

    /// Where a setting's value is from. A default conflicts with what was set: last in its section, or else last
    /// of all.
    fn origin_of(&self, key: &str) -> Origin {
        let section = |key: &str| key.split_once('.').map(|(section, _)| section.to_owned());
        let is_near = |other: &str| section(other).is_some() && section(other) == section(key);
        let rank = |(other, (at, _)): &(&String, &(usize, Origin))| {
            (other.as_str() == key, is_near(other), *at)
        };
        let nearest = self.origins.iter().max_by_key(rank);
        nearest.map_or(Origin::CommandLine, |(_, (_, origin))| origin.clone())
    }

    fn read_file(&mut self, path: &Path) -> Result<(), Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        let table: Table = text.parse().map_err(|error: toml::de::Error| Error::NotToml {
            path: path.to_owned(),
            message: line_of(&text, &error) + error.message(),
        })?;
        let origin = Origin::File(path.to_owned());
        self.read_table(&origin, &mut Vec::new(), table)
    }

    fn read_table(
        &mut self,
        origin: &Origin,
        path: &mut Vec<String>,
        table: Table,
    ) -> Result<(), Error> {
        for (key, value) in table {
            path.push(key);
            self.open_gateway(path, &value);
            match value {
                Value::Table(section) if matches!(self.slot(path), Some(Value::Table(_))) => {
                    self.read_table(origin, path, section)?;
                }
                value @ (Value::String(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::Boolean(_)
                | Value::Datetime(_)
                | Value::Array(_)
                | Value::Table(_)) => self.set(origin, path, value)?,
            }
            path.pop();
        }
        Ok(())
    }

    /// A gateway of `gateway.http` begins with the defaults. It is in the file: the environment can only say more
    /// of it.
    fn open_gateway(&mut self, path: &[String], value: &Value) {
        let [gateway, http, name] = path else { return };
        if gateway != "gateway" || http != "http" || !value.is_table() {
            return;
        }
        let defaults = Table::try_from(HttpGateway::default());
        let defaults = defaults.expect("the defaults can be written as TOML");
        let gateways = self.table.get_mut(gateway).and_then(|it| it.get_mut(http));
        if let Some(gateways) = gateways.and_then(Value::as_table_mut) {
            gateways.entry(name.clone()).or_insert(Value::Table(defaults));
        }
    }

    fn read_environment(
        &mut self,
        environment: &mut dyn Iterator<Item = (String, String)>,
    ) -> Result<(), Error> {
        let mut leaves = Vec::new();
        collect_leaves(&self.table, &mut Vec::new(), &mut leaves);
        for (name, text) in environment {
            if !name.starts_with(PREFIX) {
                continue;
            }
            let is_named =
                |path: &&Vec<String>| variables::of_setting(path).eq_ignore_ascii_case(&name);
            let named = leaves.iter().find(is_named);
            let Some(path) = named.cloned() else {
                self.read_unknown(name, &leaves)?;
                continue;
            };
            let value = parse_like(self.slot(&path), &text);
            self.set(&Origin::Environment(name), &path, value)?;
        }
        Ok(())
    }

    /// A variable with our prefix that is no setting: a mistake where it is nearly one.
    fn read_unknown(&mut self, name: String, settings: &[Vec<String>]) -> Result<(), Error> {
        if variables::is_known(&name) {
            return Ok(());
        }
        let names = settings.iter().map(|path| variables::of_setting(path));
        match variables::nearest(&name, names) {
            Some(meant) => Err(Error::UnknownVariable { name, meant }),
            None => {
                self.unknown_variables.push(name);
                Ok(())
            }
        }
    }

    fn read_arguments(&mut self, arguments: &Arguments) -> Result<(), Error> {
        let origin = Origin::CommandLine;
        if let Some(data_dir) = &arguments.place.data_dir {
            self.config.data_dir.clone_from(data_dir);
            let text = Value::String(data_dir.to_string_lossy().into_owned());
            self.table.insert("data_dir".to_owned(), text);
        }
        if let Some(url) = &arguments.place.database {
            self.set(&origin, &["database", "url"].map(str::to_owned), Value::String(url.clone()))?;
        }
        if let Some(listen) = &arguments.listen {
            self.set(&origin, &["listen".to_owned()], Value::String(address(listen)))?;
        }
        let grpc_listen = arguments.grpc_listen.as_deref().map(address);
        let texts = [
            (&["role"][..], &arguments.role),
            (&["queue", "kind"], &arguments.queue),
            (&["kafka", "brokers"], &arguments.kafka_brokers),
            (&["grpc", "listen"], &grpc_listen),
            (&["flags", "key_file"], &arguments.flags_key_file),
        ];
        for (path, text) in texts {
            if let Some(text) = text {
                let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
                self.set(&origin, &path, Value::String(text.clone()))?;
            }
        }
        if let Some(workers) = arguments.workers {
            let path = ["flags", "workers"].map(str::to_owned);
            self.set(&origin, &path, Value::Integer(workers))?;
        }
        if arguments.test_clock {
            self.set(&origin, &["test_clock".to_owned()], Value::Boolean(true))?;
        }
        Ok(())
    }

    fn slot(&self, path: &[String]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.table.get(first)?, |value, key| value.get(key))
    }

    fn set(&mut self, origin: &Origin, path: &[String], value: Value) -> Result<(), Error> {
        let key = path.join(".");
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        let mut table = &mut self.table;
        for parent in parents {
            match table.get_mut(parent).and_then(Value::as_table_mut) {
                Some(section) => table = section,
                None => return Err(Error::UnknownKey { origin: origin.clone(), key }),
            }
        }
        match table.get_mut(last) {
            Some(slot) => *slot = value,
            None => return Err(Error::UnknownKey { origin: origin.clone(), key }),
        }
        self.config = self.table.clone().try_into().map_err(|error: toml::de::Error| {
            let reason = error.message().to_owned();
            Error::Invalid { origin: origin.clone(), key, reason }
        })?;
        self.sets += 1;
        self.origins.insert(path.join("."), (self.sets, origin.clone()));
        Ok(())
    }
}

/// Where a file is no TOML. The line itself may have a password: it is not shown.
fn line_of(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    before.map_or_else(String::new, |before| format!("line {}: ", before.matches('\n').count() + 1))
}

/// The paths of all settings.
fn collect_leaves(table: &Table, path: &mut Vec<String>, leaves: &mut Vec<Vec<String>>) {
    for (key, value) in table {
        path.push(key.clone());
        match value.as_table() {
            Some(section) => collect_leaves(section, path, leaves),
            None => leaves.push(path.clone()),
        }
        path.pop();
    }
}

/// Reads a text as the type that the setting has; lists are written with commas.
fn parse_like(like: Option<&Value>, text: &str) -> Value {
    let as_text = || Value::String(text.to_owned());
    match like {
        Some(Value::Boolean(_)) => text.parse().map_or_else(|_| as_text(), Value::Boolean),
        Some(Value::Integer(_)) => text.parse().map_or_else(|_| as_text(), Value::Integer),
        Some(Value::Float(_)) => text.parse().map_or_else(|_| as_text(), Value::Float),
        Some(Value::Array(_)) => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Value::Array(parts.map(|part| Value::String(part.to_owned())).collect())
        }
        Some(Value::String(_) | Value::Datetime(_) | Value::Table(_)) | None => as_text(),
    }
}

/// An address as listeners take it: of a host's name the first of version 4, or else the first. What names no address
/// stays as it is, and is refused by its setting.
fn address(text: &str) -> String {
    if text.parse::<SocketAddr>().is_ok() {
        return text.to_owned();
    }
    let found: Vec<SocketAddr> = text.to_socket_addrs().into_iter().flatten().collect();
    let address = found.iter().find(|it| it.is_ipv4()).or(found.first());
    address.map_or_else(|| text.to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests;
