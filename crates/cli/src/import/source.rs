//! Where an import reads: Kill Bill's API, or files with its exports.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use command_line::{Scheme, Target};
use domain::import::ImportTagDefinition;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use import::api::{self, Answers};
use import::dump::Dump;
use import::{Error, Found};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::{Args, Credentials, password};
use crate::client::{Client, Limits, Tls, basic};
use crate::remote::encoded;

/// Accounts of a page of the list.
const PAGE: usize = 100;
/// Accounts that wait for a connection.
const LISTED_MAX: usize = 200;
/// Of one account's payments.
const LIMITS: Limits = Limits { response_bytes_max: 256 << 20, timeout: Duration::from_mins(2) };
/// How often a request is sent where its connection fails.
const TRIES: u32 = 3;
/// The extension of a tenant's file.
const EXPORT: &str = "export";
/// The largest file: it is read into memory.
const FILE_BYTES_MAX: u64 = 8 << 30;

/// Kill Bill's API.
pub(super) struct Api {
    pub(super) tenant: Credentials,
    server: Arc<Server>,
    connections: u8,
    first: Mutex<Connection>,
}

/// A user to bring, with a password for here.
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    /// Each with its permissions.
    pub(super) roles: Vec<(String, Vec<String>)>,
}

/// How to reach it.
struct Server {
    target: Target,
    scheme: Scheme,
    headers: HeaderMap,
}

struct Connection {
    server: Arc<Server>,
    client: Option<Client>,
}

type Sender = mpsc::Sender<Result<Found, Error>>;

impl Api {
    pub(super) async fn connect(
        args: &Args,
        url: &str,
        tenant: Credentials,
    ) -> anyhow::Result<Self> {
        let (target, scheme) = Target::parse_any("--url", url)?;
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, basic(&args.user, &password(args)?)?);
        let mut secret =
            HeaderValue::try_from(&tenant.secret).context("the tenant's secret cannot be sent")?;
        secret.set_sensitive(true);
        headers.insert("x-killbill-apisecret", secret);
        let key = HeaderValue::try_from(&tenant.key).context("the tenant's key cannot be sent")?;
        headers.insert("x-killbill-apikey", key);
        let server = Arc::new(Server { target, scheme, headers });
        let mut first = Connection { server: Arc::clone(&server), client: None };
        first.get("/1.0/kb/accounts/pagination?limit=1").await.context("the source refuses")?;
        Ok(Self { tenant, server, connections: args.connections, first: Mutex::new(first) })
    }

    /// The tenant's own definitions of tags.
    pub(super) async fn definitions(&self) -> anyhow::Result<Vec<ImportTagDefinition>> {
        let answer = self.first.lock().await.get("/1.0/kb/tagDefinitions?audit=FULL").await?;
        Ok(api::definitions(&answer)?)
    }

    /// Reads all accounts; several at a time.
    pub(super) async fn read(&self, sender: Sender) -> anyhow::Result<()> {
        let (listed, accounts) = mpsc::channel::<Value>(LISTED_MAX);
        let accounts = Arc::new(Mutex::new(accounts));
        let mut workers = JoinSet::new();
        for _ in 0..self.connections {
            let connection = Connection { server: Arc::clone(&self.server), client: None };
            workers.spawn(read_accounts(connection, Arc::clone(&accounts), sender.clone()));
        }
        // The workers have all of them now, and end where they are given no more.
        drop((sender, accounts));
        let listing = self.list(listed).await;
        while let Some(worker) = workers.join_next().await {
            worker??;
        }
        listing
    }

    async fn list(&self, listed: mpsc::Sender<Value>) -> anyhow::Result<()> {
        let mut connection = self.first.lock().await;
        for page in 0.. {
            let path = format!(
                "/1.0/kb/accounts/pagination?offset={}&limit={PAGE}&audit=FULL",
                page * PAGE
            );
            let Value::Array(accounts) = connection.get(&path).await? else {
                anyhow::bail!("{path}: the answer is no list");
            };
            let is_last = accounts.len() < PAGE;
            for account in accounts {
                // Where none is taken any more, a worker says why.
                if listed.send(account).await.is_err() {
                    return Ok(());
                }
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }
}

async fn read_accounts(
    mut connection: Connection,
    accounts: Arc<Mutex<mpsc::Receiver<Value>>>,
    sender: Sender,
) -> anyhow::Result<()> {
    loop {
        let next = accounts.lock().await.recv().await;
        let Some(account) = next else { return Ok(()) };
        let found = match api::account_id(&account) {
            Ok(id) => {
                let of = format!("/1.0/kb/accounts/{id}");
                let payments = format!("{of}/payments?withPluginInfo=true&audit=FULL");
                let methods = format!(
                    "{of}/paymentMethods?withPluginInfo=true&includedDeleted=true&audit=FULL"
                );
                let answers = Answers {
                    methods: connection.get(&methods).await?,
                    emails: connection.get(&format!("{of}/emails?audit=FULL")).await?,
                    tags: connection.get(&format!("{of}/allTags?audit=FULL")).await?,
                    fields: connection.get(&format!("{of}/allCustomFields?audit=FULL")).await?,
                    payments: connection.get(&payments).await?,
                    account,
                };
                api::found(&answers)
            }
            Err(error) => Err(error),
        };
        if sender.send(found).await.is_err() {
            return Ok(());
        }
    }
}

/// The users that a file names, with their roles in Kill Bill.
pub(super) async fn users(api: &Api, file: &Path) -> anyhow::Result<Vec<User>> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let mut connection = api.first.lock().await;
    let mut users = vec![];
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (user, password) = line
            .split_once(':')
            .with_context(|| format!("{name}, line {}: should be NAME:PASSWORD", at + 1))?;
        let path = format!("/1.0/kb/security/users/{}/roles", encoded(user));
        let answer = connection.get(&path).await;
        let answer = answer.with_context(|| format!("{name}, line {}: user {user}", at + 1))?;
        let mut roles = vec![];
        for role in texts(&answer["roles"]) {
            let path = format!("/1.0/kb/security/roles/{}", encoded(&role));
            let permissions = texts(&connection.get(&path).await?["permissions"]);
            roles.push((role, permissions));
        }
        users.push(User { name: user.to_owned(), password: password.to_owned(), roles });
    }
    Ok(users)
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

impl Connection {
    /// Reads a resource, over a new connection where the last one fails.
    async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let mut tried = 0;
        loop {
            tried += 1;
            match self.try_get(path).await {
                Err(error) if tried < TRIES => {
                    self.client = None;
                    tracing::info!(path, error = %error, "failed to read from the source: once more");
                    tokio::time::sleep(Duration::from_millis(200) * tried).await;
                }
                answer => return answer.with_context(|| path.to_owned())?,
            }
        }
    }

    /// The inner error is an answer: asking again gives the same.
    async fn try_get(&mut self, path: &str) -> anyhow::Result<anyhow::Result<Value>> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.server.connect().await?,
        };
        let answer = client.send(Method::GET, path, None, Bytes::new()).await?;
        anyhow::ensure!(!answer.status.is_server_error(), "status {}", answer.status);
        self.client = Some(client);
        if answer.status == StatusCode::NO_CONTENT {
            return Ok(Ok(Value::Null));
        }
        Ok(match answer.status.is_success() {
            true => answer.json(),
            false => Err(anyhow::anyhow!("status {}", answer.status)),
        })
    }
}

impl Server {
    async fn connect(&self) -> anyhow::Result<Client> {
        let tls = (self.scheme == Scheme::Https)
            .then(|| Tls::new(&self.target.authority, None))
            .transpose()?;
        Client::connect(&self.target, tls, self.headers.clone(), LIMITS).await
    }
}

/// A file with Kill Bill's exports that was read.
pub(super) struct File {
    /// The tenant's API key.
    pub(super) key: String,
    pub(super) dump: Dump,
}

impl File {
    /// The files of a directory, or that of one tenant.
    ///
    /// # Errors
    /// If a file cannot be read as a whole.
    pub(super) fn all(dir: &Path, tenant: Option<&str>) -> anyhow::Result<Vec<Self>> {
        let wanted = tenant.map(|it| it.split_once(':').map_or(it, |(key, _)| key));
        let shown = dir.display();
        let entries = std::fs::read_dir(dir).with_context(|| format!("cannot read {shown}"))?;
        let mut files = vec![];
        for entry in entries {
            let path = entry?.path();
            let is_export = path.extension().is_some_and(|it| it == EXPORT);
            let Some(key) = path.file_stem().and_then(|it| it.to_str()).filter(|_| is_export)
            else {
                continue;
            };
            if wanted.is_none_or(|wanted| wanted == key) {
                files.push((key.to_owned(), path));
            }
        }
        anyhow::ensure!(!files.is_empty(), "{shown} has no file KEY.{EXPORT}");
        files.sort();
        files.into_iter().map(|(key, path)| Self::read(key, &path)).collect()
    }

    fn read(key: String, path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let length = std::fs::metadata(path).with_context(|| format!("cannot read {name}"))?.len();
        anyhow::ensure!(length <= FILE_BYTES_MAX, "{name} has more than {FILE_BYTES_MAX} bytes");
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let dump = Dump::read(&text).with_context(|| format!("cannot read {name}"))?;
        Ok(Self { key, dump })
    }

    /// Hands out all accounts.
    pub(super) async fn hand_out(&self, sender: Sender) -> anyhow::Result<()> {
        for id in self.dump.accounts() {
            if sender.send(id.and_then(|id| self.dump.found(id))).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}
