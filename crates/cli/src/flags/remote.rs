//! A running server's API for feature flags, called as a user of a tenant.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use bench::Target;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::list::plain;
use crate::client::{Client, Limits, Response, basic};

/// The longest password or secret that is read from a file, in bytes.
const SECRET_BYTES_MAX: u64 = 4 * 1024;

/// Environments can be large, and validating thousands of regular expressions takes a while.
const LIMITS: Limits = Limits { response_bytes_max: 1 << 30, timeout: Duration::from_mins(1) };

/// Options of all commands that call a server.
#[derive(Clone, Debug, clap::Args)]
pub struct RemoteArgs {
    /// The server: http://HOST:PORT
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: String,
    /// The user; the environment variable FAREGATE_PASSWORD has the password
    #[arg(long, default_value = "admin")]
    user: String,
    /// A file that has the user's password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The tenant's API key; the environment variable FAREGATE_API_SECRET has the secret
    #[arg(long, value_name = "KEY", env = "FAREGATE_API_KEY")]
    api_key: String,
    /// A file that has the tenant's API secret
    #[arg(long, value_name = "FILE")]
    api_secret_file: Option<PathBuf>,
    /// The environment
    #[arg(long, value_name = "KEY", default_value = "dev")]
    pub environment: String,
    /// Its project
    #[arg(long, value_name = "KEY", default_value = "default")]
    project: String,
    /// Print the server's answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// A connection to the server.
pub struct Remote {
    client: Client,
    url: String,
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

impl RemoteArgs {
    /// Connects to the server.
    ///
    /// # Errors
    /// If a password or a secret is missing, or the server does not accept the connection.
    pub async fn connect(&self) -> anyhow::Result<Remote> {
        let target = Target::parse("--url", &self.url)?;
        let password = secret("password", self.password_file.as_deref(), "FAREGATE_PASSWORD")?;
        let api_secret =
            secret("api-secret", self.api_secret_file.as_deref(), "FAREGATE_API_SECRET")?;
        let api_key = HeaderValue::try_from(&self.api_key).context("the API key cannot be sent")?;
        let mut api_secret =
            HeaderValue::try_from(api_secret).context("the API secret cannot be sent")?;
        api_secret.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, basic(&self.user, &password)?);
        headers.insert("x-faregate-apikey", api_key);
        headers.insert("x-faregate-apisecret", api_secret);
        let client = Client::connect(&target, headers, LIMITS).await;
        let client = client.with_context(|| format!("cannot connect to {}", self.url))?;
        Ok(Remote { client, url: self.url.clone() })
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
    /// Reads a resource.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<Response> {
        succeeded(self.send(Method::GET, path, None, Bytes::new()).await?)
    }

    /// Sends a request, with `If-Match` if a version is given. Any status is a result.
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
        let response = self.client.send(method, path, version, body).await;
        response.with_context(|| self.url.clone())
    }
}

/// The response, if its status is a success.
///
/// # Errors
/// The problem that the server reports.
pub fn succeeded(response: Response) -> anyhow::Result<Response> {
    if response.status.is_success() {
        return Ok(response);
    }
    let problem: Value = response.json().unwrap_or_default();
    let text = |it: &Value, field| plain(it.get(field).and_then(Value::as_str).unwrap_or("?"));
    let fields = problem.get("problems").and_then(Value::as_array).into_iter().flatten();
    let fields = fields.map(|it| format!("\n  {}: {}", text(it, "field"), text(it, "reason")));
    let fields: String = fields.collect();
    anyhow::bail!("{}: {}{fields}", response.status, text(&problem, "detail"))
}

/// A secret from its file, or else from the environment. Never an argument: `ps` shows those.
fn secret(option: &str, file: Option<&Path>, variable: &str) -> anyhow::Result<String> {
    let Some(file) = file else {
        let found = std::env::var(variable).ok().filter(|it| !it.is_empty());
        return found.with_context(|| format!("set {variable}, or name a file: --{option}-file"));
    };
    let name = file.display();
    let length = std::fs::metadata(file).with_context(|| format!("cannot read {name}"))?.len();
    anyhow::ensure!(length <= SECRET_BYTES_MAX, "{name} has more than {SECRET_BYTES_MAX} bytes");
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}
