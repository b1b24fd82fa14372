//! A running server, asked over its native API as a user of a tenant.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, HeaderValue, IF_MATCH};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::net::TcpStream;

use super::list::plain;
use crate::bench::Target;

/// The largest answer that is read, in bytes: environments can be large.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// The longest password or secret that is read from a file, in bytes.
const SECRET_BYTES_MAX: u64 = 4 * 1024;

/// How long an answer may take: thousands of regular expressions take a while.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Where the flags are, and who asks.
#[derive(Clone, Debug, clap::Args)]
pub struct Place {
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
    /// Print what the server says, as JSON
    #[arg(long)]
    pub json: bool,
}

/// A connection to the server.
pub struct Remote {
    sender: SendRequest<Full<Bytes>>,
    place: Place,
    authority: String,
    authorization: HeaderValue,
    api_secret: HeaderValue,
}

/// What the server said.
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The version of what was asked for, where it has one.
    pub etag: Option<String>,
    /// The body.
    pub body: Bytes,
}

/// Runs a command that waits.
///
/// # Errors
/// What the command fails with.
pub fn wait<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

/// A text as it stands in a path or a query.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl Place {
    /// Connects.
    ///
    /// # Errors
    /// Where a password or a secret is missing, or nobody listens.
    pub async fn connect(&self) -> anyhow::Result<Remote> {
        let target = Target::parse("--url", &self.url)?;
        let password = secret("password", self.password_file.as_deref(), "FAREGATE_PASSWORD")?;
        let api_secret =
            secret("api-secret", self.api_secret_file.as_deref(), "FAREGATE_API_SECRET")?;
        let basic = STANDARD.encode(format!("{}:{password}", self.user));
        let mut authorization = HeaderValue::try_from(format!("Basic {basic}"))?;
        let mut api_secret =
            HeaderValue::try_from(api_secret).context("the API secret cannot be sent")?;
        authorization.set_sensitive(true);
        api_secret.set_sensitive(true);
        let reaching = async {
            let stream = TcpStream::connect(target.address).await?;
            stream.set_nodelay(true)?;
            anyhow::Ok(handshake(TokioIo::new(stream)).await?)
        };
        let reached = tokio::time::timeout(TIMEOUT, reaching).await.context("no answer");
        let (sender, connection) = reached
            .and_then(|reached| reached)
            .with_context(|| format!("cannot connect to {}", self.url))?;
        // Ends with the sender; how it ends shows in the answers.
        tokio::spawn(async move { connection.await.ok() });
        let (place, authority) = (self.clone(), target.authority);
        Ok(Remote { sender, place, authority, authorization, api_secret })
    }

    /// The parameters that name the environment.
    pub fn parameters(&self) -> String {
        let (environment, project) = (encoded(&self.environment), encoded(&self.project));
        format!("environment={environment}&project={project}")
    }

    /// A path below the environment, with the parameter that names its project.
    pub fn path(&self, below: &str) -> String {
        let (environment, project) = (encoded(&self.environment), encoded(&self.project));
        format!("/v1/environments/{environment}/{below}?project={project}")
    }
}

impl Remote {
    /// Reads something that has to be there.
    ///
    /// # Errors
    /// Where it is not, or may not be read.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.call(Method::GET, path, None, Bytes::new()).await?.done()
    }

    /// Sends a request, whatever becomes of it, with `If-Match` where a version is named.
    ///
    /// # Errors
    /// Where no answer comes.
    pub async fn call(
        &mut self,
        method: Method,
        path: &str,
        upon: Option<&str>,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(AUTHORIZATION, &self.authorization)
            .header("X-Faregate-ApiKey", &self.place.api_key)
            .header("X-Faregate-ApiSecret", &self.api_secret);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(version) = upon {
            request = request.header(IF_MATCH, version);
        }
        let request = request.body(Full::new(body))?;
        let url = self.place.url.clone();
        let answered = tokio::time::timeout(TIMEOUT, self.exchange(request)).await;
        answered.context("no answer").and_then(|it| it).with_context(|| url)
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let etag = response.headers().get(ETAG).and_then(|it| it.to_str().ok()).map(str::to_owned);
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
        Ok(Answer { status, etag, body })
    }
}

impl Answer {
    /// The answer, if the server did what it was asked for.
    ///
    /// # Errors
    /// What the server says is wrong.
    pub fn done(self) -> anyhow::Result<Self> {
        if self.status.is_success() {
            return Ok(self);
        }
        let problem = self.json().unwrap_or_default();
        let text = |it: &Value, field| plain(it.get(field).and_then(Value::as_str).unwrap_or("?"));
        let wrong = problem.get("problems").and_then(Value::as_array).into_iter().flatten();
        let wrong = wrong.map(|it| format!("\n  {}: {}", text(it, "field"), text(it, "reason")));
        anyhow::bail!("{}: {}{}", self.status, text(&problem, "detail"), wrong.collect::<String>())
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// Where it is none.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).context("the server's answer is no JSON")
    }
}

/// What a file has, or else the environment: arguments are shown by `ps`.
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
