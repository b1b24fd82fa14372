//! A running server, called as a user, mostly of a tenant.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use command_line::{Scheme, Target};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::client::{Client, Limits, NotSent, Response, Tls, basic};
use crate::output::plain;
use crate::profile::Profile;

const URL_DEFAULT: &str = "http://127.0.0.1:8080";
const USER_DEFAULT: &str = "admin";

/// The longest password or secret that is read from a file, in bytes.
const SECRET_BYTES_MAX: u64 = 4 * 1024;

/// Environments can be large, and validating thousands of regular expressions takes a while.
const LIMITS: Limits = Limits { response_bytes_max: 1 << 30, timeout: Duration::from_mins(1) };

/// How long `--wait` waits in all.
const WAIT_MAX: Duration = Duration::from_mins(5);
/// The shortest pause of it.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Where a request may have been carried out, and its answer does not say.
const UNKNOWN: &str = "whether it was carried out is not known: look before you send it again";

/// Options of all commands that call a server; [`Sources`] has what they leave out.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerArgs {
    /// The server: http://HOST:PORT or https://HOST:PORT [FAREGATE_URL; default: http://127.0.0.1:8080]
    #[arg(long, help_heading = "Server")]
    url: Option<String>,
    /// Certificates (PEM) of the authority that signed the server's [FAREGATE_CA_FILE; default: those
    /// that browsers trust]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca_file: Option<PathBuf>,
    /// The user; the environment variable FAREGATE_PASSWORD has the password [FAREGATE_USER; default: admin]
    #[arg(long, help_heading = "Server")]
    user: Option<String>,
    /// A file that has the user's password
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    password_file: Option<PathBuf>,
    /// The tenant's API key; the environment variable FAREGATE_API_SECRET has the secret [FAREGATE_API_KEY]
    #[arg(long, value_name = "KEY", help_heading = "Server")]
    api_key: Option<String>,
    /// A file that has the tenant's API secret
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    api_secret_file: Option<PathBuf>,
    /// A profile of ~/.config/faregate/profiles.toml, or of the file that FAREGATE_PROFILES names
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    profile: Option<String>,
    /// Wait and try again while the server is too busy, for five minutes at most
    #[arg(long, help_heading = "Server")]
    wait: bool,
    /// Print the server's answer as JSON
    #[arg(long, help_heading = "Server")]
    pub json: bool,
}

/// Options of all commands about feature flags.
#[derive(Clone, Debug, clap::Args)]
pub struct RemoteArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// The environment
    #[arg(long, value_name = "KEY", default_value = "dev")]
    pub environment: String,
    /// Its project
    #[arg(long, value_name = "KEY", default_value = "default")]
    project: String,
}

/// Option of all commands that change something.
#[derive(Clone, Debug, clap::Args)]
pub struct ReasonArgs {
    /// Why, for the history: 255 characters at most
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Whose credentials a command needs beside the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The user's alone: it is about the installation.
    Installation,
    /// A tenant's.
    Tenant,
}

/// A connection to the server.
pub struct Remote {
    client: Client,
    url: String,
    waits: bool,
    idempotency_key: Option<String>,
}

/// The server's refusal.
#[derive(Debug)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Refused {
    /// The same with a line of advice.
    pub(crate) fn with(self, advice: &str) -> Self {
        Self(format!("{}\n  {advice}", self.0))
    }
}

/// Runs an asynchronous command to its end.
///
/// # Errors
/// The command's error.
pub fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

/// A text, percent-encoded for a path segment or a query.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl ServerArgs {
    /// Connects to the server.
    ///
    /// # Errors
    /// If a password or a secret is missing, or the server does not accept the connection.
    pub(crate) async fn connect(&self, scope: Scope) -> anyhow::Result<Remote> {
        let Self { url, user, password_file, api_key, api_secret_file, .. } = self;
        let name = self.profile.clone().or_else(|| variable("FAREGATE_PROFILE"));
        let mut profile = Profile::load(name.as_deref())?;
        let sources = Sources { is_profile_named: name.is_some() };
        let url_of_profile = profile.url.take();
        let url = sources.first(url.clone(), "FAREGATE_URL", url_of_profile.clone());
        let url = url.unwrap_or_else(|| URL_DEFAULT.to_owned());
        // A profile's secrets are for the profile's server.
        if url_of_profile.is_some_and(|it| it != url) {
            (profile.password, profile.api_secret) = (None, None);
        }
        let (target, scheme) = Target::parse_any("--url", &url)?;
        let ca_file = sources.first(
            self.ca_file.as_ref().map(|it| it.display().to_string()),
            "FAREGATE_CA_FILE",
            profile.ca_file,
        );
        let tls = (scheme == Scheme::Https)
            .then(|| Tls::new(&target.authority, ca_file.as_deref().map(Path::new)))
            .transpose()?;
        let user = sources.first(user.clone(), "FAREGATE_USER", profile.user);
        let user = user.unwrap_or_else(|| USER_DEFAULT.to_owned());
        let password = PASSWORD.find(password_file.as_deref(), &sources, profile.password)?;
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, basic(&user, &password)?);
        let author = HeaderValue::try_from(&user).context("the user's name cannot be sent")?;
        headers.insert(HeaderName::from_static("x-killbill-createdby"), author);
        if scope == Scope::Tenant {
            let key = sources.first(api_key.clone(), "FAREGATE_API_KEY", profile.api_key).context(
                "which tenant? name its API key: --api-key KEY, FAREGATE_API_KEY, or api_key in a profile",
            )?;
            let secret =
                API_SECRET.find(api_secret_file.as_deref(), &sources, profile.api_secret)?;
            let key = HeaderValue::try_from(key).context("the API key cannot be sent")?;
            let mut secret =
                HeaderValue::try_from(secret).context("the API secret cannot be sent")?;
            secret.set_sensitive(true);
            headers.insert("x-killbill-apikey", key);
            headers.insert("x-killbill-apisecret", secret);
        }
        let client = Client::connect(&target, tls, headers, LIMITS).await;
        let client = client.with_context(|| {
            format!("cannot connect to {url}: is `faregate serve` running there?")
        })?;
        Ok(Remote { client, url, waits: self.wait, idempotency_key: None })
    }
}

impl RemoteArgs {
    /// Connects to the server, as a user of a tenant.
    ///
    /// # Errors
    /// If a password or a secret is missing, or the server does not accept the connection.
    pub async fn connect(&self) -> anyhow::Result<Remote> {
        self.server.connect(Scope::Tenant).await
    }

    /// The query parameters that name the environment.
    pub fn parameters(&self) -> String {
        let (environment, project) = (encoded(&self.environment), encoded(&self.project));
        format!("environment={environment}&project={project}")
    }

    /// A path below the environment, with the query parameter of its project.
    pub fn path(&self, below: &str) -> String {
        let (environment, project) = (encoded(&self.environment), encoded(&self.project));
        format!("/v1/environments/{environment}/{below}?project={project}")
    }
}

impl Remote {
    /// Makes the requests that follow repeatable: where an answer is lost, the error names the key.
    ///
    /// # Errors
    /// If the key has characters that a header does not carry.
    pub(crate) fn set_idempotency_key(&mut self, key: String) -> anyhow::Result<()> {
        let value = HeaderValue::try_from(&key).context("--idempotency-key cannot be sent")?;
        self.client.insert_header(HeaderName::from_static("idempotency-key"), value);
        self.idempotency_key = Some(key);
        Ok(())
    }

    /// Gives the changes that follow a reason, which their history keeps.
    ///
    /// # Errors
    /// If it has characters that a header does not carry.
    pub fn set_reason(&mut self, reason: &ReasonArgs) -> anyhow::Result<()> {
        let Some(text) = &reason.reason else { return Ok(()) };
        let value = HeaderValue::try_from(text).context("--reason cannot be sent")?;
        self.client.insert_header(HeaderName::from_static("x-killbill-reason"), value);
        Ok(())
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<Response> {
        Ok(succeeded(self.send(Method::GET, path, None, Bytes::new()).await?)?)
    }

    /// Sends a request, with `If-Match` if a version is given. Any status is a result; with `--wait` a
    /// request that was refused for lack of room is sent again.
    ///
    /// # Errors
    /// If no response arrives.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        version: Option<&str>,
        body: Bytes,
    ) -> anyhow::Result<Response> {
        let mut waited = Duration::ZERO;
        loop {
            let response = self.client.send(method.clone(), path, version, body.clone()).await;
            let response = response.map_err(|error| {
                let has_no_effect = method == Method::GET || error.is::<NotSent>();
                error.context(match has_no_effect {
                    true => self.url.clone(),
                    false => format!("{}: {}", self.url, self.unknown()),
                })
            })?;
            let Some(pause) = response.retry_after.filter(|_| self.waits) else {
                return Ok(response);
            };
            let pause = pause.max(PAUSE_MIN);
            let is_over = waited.saturating_add(pause) > WAIT_MAX;
            if response.status.is_success() || response.is_unknown || is_over {
                return Ok(response);
            }
            eprintln!("{}: trying again in {} s", response.status, pause.as_secs());
            tokio::time::sleep(pause).await;
            waited += pause;
        }
    }

    /// The advice where the outcome of a request is not known.
    fn unknown(&self) -> String {
        match &self.idempotency_key {
            Some(key) => format!("{UNKNOWN}, or send the same with --idempotency-key {key}"),
            None => UNKNOWN.to_owned(),
        }
    }
}

/// The response, if its status is a success.
///
/// # Errors
/// [`Refused`], with what the server says about it.
pub fn succeeded(response: Response) -> Result<Response, Refused> {
    if response.status.is_success() {
        return Ok(response);
    }
    let problem: Value = response.json().unwrap_or_default();
    let text = |it: &Value, field| it.get(field).and_then(Value::as_str).map(plain);
    let mut said = response.status.to_string();
    // Problems have a detail, and Kill Bill's errors a message.
    let detail = text(&problem, "detail").or_else(|| text(&problem, "message"));
    let is_unauthorized = response.status == StatusCode::UNAUTHORIZED;
    match detail {
        // Kill Bill's words for an account without a default method.
        Some(detail) if detail.contains("paymentMethodId") && detail.contains("null") => {
            said += ": the account has no default payment method: name one by --method, or make one: \
                     faregate payment-methods create ACCOUNT --gateway NAME --default";
        }
        // Kill Bill's words for a tenant that does not exist.
        Some(detail) if is_unauthorized && detail.contains("No account found for user") => {
            said += ": there is no tenant with this API key";
        }
        // Kill Bill's words name a Java class.
        Some(detail) if is_unauthorized && detail.contains("UsernamePasswordToken") => {
            said += ": the tenant's API key or its API secret is wrong";
        }
        Some(detail) => {
            let detail = unreadable_value(&detail).unwrap_or(detail);
            said = format!("{said}: {detail}");
            if let Some(code) = problem.get("code").filter(|code| code.is_number()) {
                said = format!("{said} (code {code})");
            }
        }
        None if is_unauthorized => said += ": the user or the password is wrong",
        None => {}
    }
    for it in problem.get("problems").and_then(Value::as_array).into_iter().flatten() {
        let of = |field| text(it, field).unwrap_or_default();
        said = format!("{said}\n  {}: {}", of("field"), of("reason"));
    }
    if response.is_unknown {
        said = format!("{said}\n  {UNKNOWN}");
    } else if let Some(pause) = response.retry_after {
        said = format!("{said}\n  try again in {} s, or use --wait", pause.as_secs());
    }
    Err(Refused(said))
}

/// Kill Bill's words for a value that it cannot read, which name Java classes, without them:
/// `Cannot deserialize value of type CLASS from String "usd" (through reference chain: CLASS["currency"])`.
fn unreadable_value(detail: &str) -> Option<String> {
    let (value, chain) = detail
        .strip_prefix("Cannot deserialize value of type ")?
        .split_once(" from ")?
        .1
        .split_once(" (through reference chain: ")?;
    let field = chain.rsplit_once("[\"")?.1.split('"').next()?;
    let value = value.split_once(' ').map_or(value, |(_, value)| value);
    Some(format!("{field}: {value} cannot be read as its value"))
}

/// Where values come from: an option, then a profile that was named, then the environment, then the profile
/// `default`.
struct Sources {
    is_profile_named: bool,
}

impl Sources {
    fn first(
        &self,
        option: Option<String>,
        name: &str,
        of_profile: Option<String>,
    ) -> Option<String> {
        let option = option.filter(|it| !it.is_empty());
        match self.is_profile_named {
            true => option.or(of_profile).or_else(|| variable(name)),
            false => option.or_else(|| variable(name)).or(of_profile),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|it| !it.is_empty())
}

/// A secret, and where it may come from. Never an argument: `ps` shows those.
struct Secret {
    variable: &'static str,
    option: &'static str,
    in_profile: &'static str,
}

const PASSWORD: Secret =
    Secret { variable: "FAREGATE_PASSWORD", option: "--password-file", in_profile: "password" };
const API_SECRET: Secret = Secret {
    variable: "FAREGATE_API_SECRET",
    option: "--api-secret-file",
    in_profile: "api_secret",
};

impl Secret {
    /// The secret of the file, or else of the profile or the environment.
    fn find(
        &self,
        file: Option<&Path>,
        sources: &Sources,
        of_profile: Option<String>,
    ) -> anyhow::Result<String> {
        let Self { variable, option, in_profile } = self;
        let Some(file) = file else {
            return sources.first(None, variable, of_profile).with_context(|| {
                format!("set {variable}, name a file: {option}, or set {in_profile} in a profile")
            });
        };
        read_secret(file)
    }
}

/// The secret that a file has, without a line break at its end.
///
/// # Errors
/// If it cannot be read, or is too long for a secret.
pub(crate) fn read_secret(file: &Path) -> anyhow::Result<String> {
    let name = file.display();
    let length = std::fs::metadata(file).with_context(|| format!("cannot read {name}"))?.len();
    anyhow::ensure!(length <= SECRET_BYTES_MAX, "{name} has more than {SECRET_BYTES_MAX} bytes");
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}
