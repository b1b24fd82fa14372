//! The real binary: found, started, killed, and started again.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::http::{Connection, Request};

/// How long a process may take until it is ready, before the test gives up.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a process that starts is asked whether it is ready.
const READY_EVERY: Duration = Duration::from_millis(2);

/// Finds the binary: `FAREGATE_BIN`, else one that was built, a release one first; else builds it.
///
/// # Errors
/// Where there is none and none can be built.
pub fn find_binary() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os("FAREGATE_BIN") {
        return Ok(PathBuf::from(given));
    }
    let own = std::env::current_exe().context("where this binary is")?;
    let built = own.ancestors().skip(1).find_map(|dir| {
        let candidates = [dir.join("release/faregate"), dir.join("debug/faregate")];
        candidates.into_iter().find(|path| path.is_file())
    });
    if let Some(built) = built {
        return Ok(built);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let arguments = ["build", "--release", "--package", "faregate"];
    let status = Command::new(cargo).args(arguments).current_dir(root).status();
    if !status.context("cargo build")?.success() {
        bail!("the binary cannot be built; FAREGATE_BIN names one that was");
    }
    own.ancestors()
        .skip(1)
        .map(|dir| dir.join("release/faregate"))
        .find(|path| path.is_file())
        .context("the binary was built elsewhere; FAREGATE_BIN says where")
}

/// Below those that Linux gives to outgoing connections, so that a process which is started again finds
/// its port free.
const PORTS: Range<u16> = 23_000..32_768;

/// Addresses of this machine that nobody listens on, no two of them the same.
pub fn free_addresses() -> impl Iterator<Item = SocketAddr> {
    // Two tests at the same time look at different ports.
    let skipped = std::process::id() as usize % (PORTS.len() / 2);
    let all = PORTS.skip(skipped).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    all.filter(|address| TcpListener::bind(address).is_ok())
}

/// How a process is started.
#[derive(Clone, Debug)]
pub struct Launch {
    pub binary: PathBuf,
    pub arguments: Vec<String>,
    /// Settings, by environment variable.
    pub environment: Vec<(&'static str, String)>,
    /// Where it listens.
    pub address: SocketAddr,
    /// The path that answers 200 once it is ready.
    pub ready_path: &'static str,
    /// Where its output goes.
    pub log: PathBuf,
}

/// A process that can be killed and started again; killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    launch: Launch,
    child: Child,
}

impl Process {
    /// Starts it and waits until it is ready; says how long that took.
    ///
    /// # Errors
    /// Where it does not become ready.
    pub fn start(launch: Launch) -> anyhow::Result<(Self, Duration)> {
        let child = spawn(&launch)?;
        let mut process = Self { launch, child };
        let took = process.wait_until_ready()?;
        Ok((process, took))
    }

    /// Kills it with SIGKILL: it does nothing any more.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("SIGKILL")?;
        self.child.wait().context("the end of a process")?;
        Ok(())
    }

    /// Starts it again and waits until it is ready; says how long that took.
    ///
    /// # Errors
    /// Where it does not become ready.
    pub fn start_again(&mut self) -> anyhow::Result<Duration> {
        self.child = spawn(&self.launch)?;
        self.wait_until_ready()
    }

    /// Asks it to stop and waits until it has.
    ///
    /// # Errors
    /// Where it does not end with success.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().context("kill -TERM")?;
        let status = self.child.wait().context("the end of a process")?;
        if !status.success() {
            bail!("{:?} ended with {status}", self.launch.arguments);
        }
        Ok(())
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let mut connection = Connection::new(self.launch.address);
        let target = self.launch.ready_path.to_owned();
        let request = Request { method: "GET", target, ..Request::default() };
        while started.elapsed() < READY_TIMEOUT {
            if connection.send(&request).is_ok_and(|response| response.status == 200) {
                return Ok(started.elapsed());
            }
            if let Some(status) = self.child.try_wait().context("a process that starts")? {
                bail!("it ended with {status} while it started; see {}", self.launch.log.display());
            }
            std::thread::sleep(READY_EVERY);
        }
        bail!("it is not ready after {READY_TIMEOUT:?}; see {}", self.launch.log.display())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already needs no killing.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn spawn(launch: &Launch) -> anyhow::Result<Child> {
    let log = || -> anyhow::Result<File> {
        let opened = OpenOptions::new().create(true).append(true).open(&launch.log);
        opened.with_context(|| format!("the log {}", launch.log.display()))
    };
    let mut command = Command::new(&launch.binary);
    command.args(&launch.arguments).envs(launch.environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(log()?).stderr(log()?);
    command.spawn().with_context(|| format!("starting {}", launch.binary.display()))
}

/// Runs a command to its end and gives what it printed.
///
/// # Errors
/// Where it cannot run.
pub fn output_of(launch: &Launch) -> anyhow::Result<(bool, String)> {
    let mut command = Command::new(&launch.binary);
    command.args(&launch.arguments).envs(launch.environment.iter().cloned());
    let output = command.output().with_context(|| format!("{:?}", launch.arguments))?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}
