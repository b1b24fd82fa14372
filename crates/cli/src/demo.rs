//! `faregate demo`: serves on loopback, runs one payment and a first bill through the API and shows the results.

mod api;
mod bill;
mod receiver;
mod results;
mod scenario;
mod shop;
mod table;

use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use config::Config;
use server::first_start::Given;
use server::logging;
use server::serve::{self, Server};
use tokio::signal::unix::{SignalKind, signal};

use scenario::Created;

/// The administrator's password. It is public, so the demo serves on loopback only.
const PASSWORD: &str = "password";
/// The tenant's API key, as in Kill Bill's examples.
const API_KEY: &str = "bob";
/// The tenant's API secret.
const API_SECRET: &str = "lazar";

/// Options of `faregate demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Loopback address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// Data directory; without it a temporary one, removed at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Stop after the scenario.
    #[arg(long)]
    once: bool,
}

/// Serves, runs the scenario, and keeps serving unless `--once` is given.
///
/// # Errors
/// If the server does not start, or a step gets an unexpected response.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let listen = loopback(&args.listen)?;
    let data = DataDir::new(args.data_dir.as_deref())?;
    let mut config = Config { listen, test_clock: true, ..Config::default() };
    config.data_dir = data.path().to_owned();
    // The output is the report, not the server's log.
    "error".clone_into(&mut config.log.level);
    logging::start(&config)?;
    serve::runtime(&config)?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("waiting for signals")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("waiting for signals")?;
        let given = Given { password: Some(PASSWORD.to_owned()), tenant: None };
        let started = Server::start(&config, given).await;
        let server = started.map_err(|error| explain(error, &args.listen))?;
        let url = server.url();
        let result = tokio::select! {
            result = show(&url, &data, args.once) => result,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        };
        server.stop().await;
        result
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the scenario; with `once` returns after it, otherwise never.
async fn show(url: &str, data: &DataDir, once: bool) -> anyhow::Result<()> {
    let removed = if data.is_temporary { " (temporary: removed at the end)" } else { "" };
    print_line(&format!(
        "Faregate at {url}, user admin, password {PASSWORD}\ndata in {}{removed}\n",
        data.path().display()
    ))?;
    let (mut scenario, created) = scenario::run(url).await?;
    bill::run(&mut scenario).await?;
    if once {
        return Ok(());
    }
    let page = shop::Shop::open(url, &created.account).await.context("the demo's shop")?;
    print_line(&next_steps(url, &created, &page))?;
    std::future::pending().await
}

/// Commands to try next.
fn next_steps(url: &str, created: &Created, page: &str) -> String {
    let curl = format!(
        "curl -s -u admin:{PASSWORD} -H 'X-Killbill-ApiKey: {API_KEY}' -H 'X-Killbill-ApiSecret: {API_SECRET}'"
    );
    let Created { account, payment } = created;
    format!(
        "\nStill serving; stop with Ctrl-C. Try:\n\n\
         {curl} '{url}/1.0/kb/payments/{payment}?withPluginInfo=true&audit=FULL'\n\n\
         {curl} -i -H 'X-Killbill-CreatedBy: you' -H 'Content-Type: application/json' \
         -d '{{\"transactionType\":\"AUTHORIZE\",\"amount\":5}}' '{url}/1.0/kb/accounts/{account}/payments'\n\n\
         {curl} {url}/v1/ledger/accounts\n\n\
         Pay, and see a feature turn on: {page}"
    )
}

/// Prints a line at once.
fn print_line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Resolves an address and checks that it is on loopback.
fn loopback(listen: &str) -> anyhow::Result<SocketAddr> {
    let addresses = listen
        .to_socket_addrs()
        .with_context(|| format!("--listen {listen}: expected HOST:PORT"))?;
    let addresses: Vec<_> = addresses.collect();
    anyhow::ensure!(
        addresses.iter().all(|address| address.ip().is_loopback()),
        "--listen {listen}: the demo serves on loopback only, since its password is public; \
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

/// The data directory; a temporary one is removed when this is dropped.
struct DataDir {
    path: PathBuf,
    is_temporary: bool,
}

impl DataDir {
    fn new(given: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = given {
            return Ok(Self { path: path.to_owned(), is_temporary: false });
        }
        let path = std::env::temp_dir().join(format!("faregate-demo-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path, is_temporary: true })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if self.is_temporary
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            eprintln!("failed to remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_beyond_loopback_are_refused() {
        for listen in ["127.0.0.1:0", "[::1]:8080", "127.9.9.9:1", "localhost:8080"] {
            let address = loopback(listen).expect(listen);
            assert!(address.ip().is_loopback(), "{listen}");
        }
        let check = |listen: &str, expected: &str| {
            let error = loopback(listen).expect_err(listen).to_string();
            assert!(error.starts_with(&format!("--listen {listen}: {expected}")), "{error}");
        };
        for listen in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:80"] {
            check(listen, "the demo serves on loopback only");
        }
        for listen in ["127.0.0.1", ""] {
            check(listen, "expected HOST:PORT");
        }
    }

    #[test]
    fn temporary_directory_is_removed_on_drop() {
        let data = DataDir::new(None).unwrap();
        let path = data.path().to_owned();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(data);
        assert!(!path.exists());
    }

    #[test]
    fn given_directory_is_kept() {
        let temporary = DataDir::new(None).unwrap();
        let given = temporary.path().join("given");
        std::fs::create_dir(&given).unwrap();
        drop(DataDir::new(Some(&given)).unwrap());
        assert!(given.exists());
    }

    #[test]
    fn taken_port_suggests_another_one() {
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
