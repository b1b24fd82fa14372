//! `faregate demo`: a server on loopback that plays one payment against itself and shows what it wrote.

mod api;
mod receiver;
mod scenario;
mod table;
mod written;

use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::logging;
use crate::serve::{self, Server};

use scenario::Made;

/// The administrator's password. Known to everybody, hence loopback only.
const PASSWORD: &str = "password";
/// The tenant's API key, as Kill Bill's own examples have it.
const API_KEY: &str = "bob";
/// The tenant's API secret.
const API_SECRET: &str = "lazar";

/// Options of `faregate demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Loopback address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// Directory of everything durable; without it a temporary one, removed at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Stop after the scenario.
    #[arg(long)]
    once: bool,
}

/// Serves, plays the scenario and, unless asked for it only once, goes on serving.
///
/// # Errors
/// Where the server does not start or a step does not get the answer it should.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let listen = loopback(&args.listen)?;
    let data = DataDir::new(args.data_dir.as_deref())?;
    let mut config = Config { listen, test_clock: true, ..Config::default() };
    config.data_dir = data.path().to_owned();
    // The report is what there is to see, not the server's own story.
    "error".clone_into(&mut config.log.level);
    logging::start(&config)?;
    serve::runtime(&config)?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("waiting for signals")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("waiting for signals")?;
        let started = Server::start(&config, Some(PASSWORD.to_owned())).await;
        let server = started.map_err(|error| explain(error, &args.listen))?;
        let url = server.url();
        let played = tokio::select! {
            played = show(&url, &data, args.once) => played,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        };
        server.stop().await;
        played
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Plays the scenario; returns at once or never.
async fn show(url: &str, data: &DataDir, once: bool) -> anyhow::Result<()> {
    let removed = if data.temporary { " (temporary: removed at the end)" } else { "" };
    say(&format!(
        "Faregate at {url}, user admin, password {PASSWORD}\ndata in {}{removed}\n",
        data.path().display()
    ))?;
    let authority = url.strip_prefix("http://").context("the demo has no TLS")?;
    let made = scenario::play(authority).await?;
    if once {
        return Ok(());
    }
    say(&farewell(url, &made))?;
    std::future::pending().await
}

/// What to try next.
fn farewell(url: &str, made: &Made) -> String {
    let curl = format!(
        "curl -s -u admin:{PASSWORD} -H 'X-Killbill-ApiKey: {API_KEY}' -H 'X-Killbill-ApiSecret: {API_SECRET}'"
    );
    let Made { account, payment } = made;
    format!(
        "\nStill serving; stop with Ctrl-C. Try:\n\n\
         {curl} '{url}/1.0/kb/payments/{payment}?withPluginInfo=true&audit=FULL'\n\n\
         {curl} -i -H 'X-Killbill-CreatedBy: you' -H 'Content-Type: application/json' \
         -d '{{\"transactionType\":\"AUTHORIZE\",\"amount\":5}}' '{url}/1.0/kb/accounts/{account}/payments'\n\n\
         {curl} {url}/v1/ledger/accounts"
    )
}

/// Writes a line for the person watching.
fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// The address, if only this machine can reach it.
fn loopback(listen: &str) -> anyhow::Result<SocketAddr> {
    let addresses = listen
        .to_socket_addrs()
        .with_context(|| format!("--listen {listen}: expected HOST:PORT"))?;
    let addresses: Vec<_> = addresses.collect();
    anyhow::ensure!(
        addresses.iter().all(|address| address.ip().is_loopback()),
        "--listen {listen}: the demo serves on loopback only, since everybody knows its password; \
         use `faregate serve`"
    );
    addresses.first().copied().with_context(|| format!("--listen {listen}: no address"))
}

fn explain(error: serve::Error, listen: &str) -> anyhow::Error {
    if let serve::Error::Listen { source, .. } = &error
        && source.kind() == io::ErrorKind::AddrInUse
    {
        return anyhow::anyhow!(
            "{listen} is taken by another program: choose another port, \
             such as --listen 127.0.0.1:8081, or 0 for any free one"
        );
    }
    error.into()
}

/// The data directory; a temporary one goes with this value.
struct DataDir {
    path: PathBuf,
    temporary: bool,
}

impl DataDir {
    fn new(given: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = given {
            return Ok(Self { path: path.to_owned(), temporary: false });
        }
        let path = std::env::temp_dir().join(format!("faregate-demo-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path, temporary: true })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if self.temporary
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            eprintln!("{} remains: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback() {
        for listen in ["127.0.0.1:0", "[::1]:8080", "127.9.9.9:1", "localhost:8080"] {
            assert!(loopback(listen).is_ok(), "{listen}");
        }
        for listen in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:80", "127.0.0.1", ""] {
            assert!(loopback(listen).is_err(), "{listen}");
        }
    }

    #[test]
    fn a_temporary_directory_goes_with_its_owner() {
        let data = DataDir::new(None).unwrap();
        let path = data.path().to_owned();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(data);
        assert!(!path.exists());
    }

    #[test]
    fn a_given_directory_stays() {
        let temporary = DataDir::new(None).unwrap();
        let given = temporary.path().join("given");
        std::fs::create_dir(&given).unwrap();
        drop(DataDir::new(Some(&given)).unwrap());
        assert!(given.exists());
    }

    #[test]
    fn a_taken_port_is_explained() {
        let listen = |kind: io::ErrorKind| serve::Error::Listen {
            address: SocketAddr::from(([127, 0, 0, 1], 8080)),
            source: kind.into(),
        };
        let taken = explain(listen(io::ErrorKind::AddrInUse), "127.0.0.1:8080").to_string();
        assert!(taken.contains("--listen"), "{taken}");
        let denied = explain(listen(io::ErrorKind::PermissionDenied), "127.0.0.1:80").to_string();
        assert!(denied.contains("permission denied"), "{denied}");
    }
}
