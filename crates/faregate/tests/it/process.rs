//! The real binary as a child process, on a free port and a data directory of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::client::Client;

/// How long anything may take before a test fails.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A directory that goes away with the test.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("faregate-it-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A test that fails leaves its server running for a moment: what cannot be removed stays.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The binary with these arguments, and an environment without settings.
pub fn faregate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faregate"));
    let ours = std::env::vars().filter(|(name, _)| name.starts_with("FAREGATE_"));
    for (name, _) in ours {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn run(arguments: &[&str]) -> Output {
    faregate(arguments).output().unwrap()
}

/// How a server is started.
pub struct Launch {
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

impl Launch {
    /// With the test clock and a known administrator.
    pub fn usual() -> Self {
        let arguments = vec!["--test-clock".to_owned()];
        let password = ("FAREGATE_ADMIN_PASSWORD".to_owned(), "password".to_owned());
        Self { arguments, environment: vec![password] }
    }

    /// Without the test clock.
    pub fn in_earnest() -> Self {
        Self { arguments: vec![], ..Self::usual() }
    }

    /// With the gRPC API, on a free port.
    pub fn grpc(mut self) -> Self {
        self.arguments.extend(["--grpc-listen", "127.0.0.1:0"].map(str::to_owned));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// The first arguments of every server.
const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// A running `faregate serve`.
pub struct Server {
    child: Child,
    pub url: String,
    /// The URL of the gRPC API, after [`Launch::grpc`].
    pub grpc_url: Option<String>,
    /// The URL of the listener for operations, where the environment has one.
    pub operations_url: Option<String>,
    pub data_dir: PathBuf,
    errors: Option<JoinHandle<String>>,
    _owned_dir: Option<TempDir>,
}

impl Server {
    /// A server as [`Launch::usual`], on an empty data directory.
    pub fn start() -> Self {
        Self::start_with(Launch::usual())
    }

    pub fn start_with(launch: Launch) -> Self {
        let dir = TempDir::new();
        let mut server = Self::start_in(&dir.path().join("data"), launch);
        server._owned_dir = Some(dir);
        server
    }

    /// A server on a data directory that outlives it.
    pub fn start_in(data_dir: &Path, launch: Launch) -> Self {
        Self::start_by(faregate(&SERVE), data_dir, launch)
    }

    /// A simulated gateway as a process of its own.
    pub fn start_simulator(data_dir: &Path, listen: &str) -> Self {
        let none = Launch { arguments: vec![], environment: vec![] };
        Self::start_by(faregate(&["simulator", "--listen", listen]), data_dir, none)
    }

    /// A server as [`Server::start_in`], none of whose files may grow beyond these bytes, rounded down
    /// to a kibibyte; half of it where the shell counts in half kibibytes.
    pub fn start_limited(data_dir: &Path, launch: Launch, file_bytes_max: u64) -> Self {
        let mut command = Command::new("sh");
        let script = format!("ulimit -S -f {}; exec \"$@\"", file_bytes_max / 1024);
        let serve = faregate(&SERVE);
        command.arg("-c").arg(script).arg("sh").arg(serve.get_program()).args(serve.get_args());
        for (name, _) in serve.get_envs() {
            command.env_remove(name);
        }
        Self::start_by(command, data_dir, launch)
    }

    /// A server on a data directory that it may refuse; then what it says.
    pub fn try_start_in(data_dir: &Path, launch: Launch) -> Result<Self, String> {
        Self::try_start_by(faregate(&SERVE), data_dir, launch)
    }

    fn start_by(command: Command, data_dir: &Path, launch: Launch) -> Self {
        Self::try_start_by(command, data_dir, launch)
            .unwrap_or_else(|said| panic!("the server did not start: {said}"))
    }

    /// A server whose log goes elsewhere.
    pub fn start_logging_to(log: impl Into<Stdio>, data_dir: &Path, launch: Launch) -> Self {
        Self::try_start_logging_to(log.into(), faregate(&SERVE), data_dir, launch)
            .unwrap_or_else(|said| panic!("the server did not start: {said}"))
    }

    fn try_start_by(command: Command, data_dir: &Path, launch: Launch) -> Result<Self, String> {
        Self::try_start_logging_to(Stdio::piped(), command, data_dir, launch)
    }

    fn try_start_logging_to(
        log: Stdio,
        mut command: Command,
        data_dir: &Path,
        launch: Launch,
    ) -> Result<Self, String> {
        let has_operations =
            launch.environment.iter().any(|(name, _)| name == "FAREGATE_OPERATIONS_LISTEN");
        command.arg("--data-dir").arg(data_dir).args(&launch.arguments).envs(launch.environment);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        // It has the other end of a pipe that a test made.
        drop(command);
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take());
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            drop(stderr.map(|mut it| it.read_to_string(&mut text)));
            text
        });
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                drop(sender.send(line));
            }
        });
        let first = receiver.recv_timeout(TIMEOUT);
        let url = first.as_ref().ok().and_then(|line| line.strip_prefix("listening on "));
        let Some(url) = url.map(str::to_owned) else {
            drop(child.kill());
            drop(child.wait());
            return Err(errors.join().unwrap());
        };
        let has_grpc = launch.arguments.iter().any(|it| it == "--grpc-listen");
        let grpc_url = has_grpc.then(|| {
            let second = receiver.recv_timeout(TIMEOUT).expect("a second line");
            second.strip_prefix("grpc listening on ").expect("the gRPC API's").to_owned()
        });
        let operations_url = has_operations.then(|| {
            let line = receiver.recv_timeout(TIMEOUT).expect("a line more");
            line.strip_prefix("operations listening on ").expect("that of operations").to_owned()
        });
        let data_dir = data_dir.to_owned();
        Ok(Self {
            child,
            url,
            grpc_url,
            operations_url,
            data_dir,
            errors: Some(errors),
            _owned_dir: None,
        })
    }

    /// A client that is the administrator, of no tenant.
    pub fn client(&self) -> Client {
        Client::new(&self.url).user("admin", "password")
    }

    /// A client that is the administrator, of a new tenant `bob`/`lazar`.
    pub fn tenant(&self) -> Client {
        self.new_tenant("bob", "lazar")
    }

    /// A client that is the administrator, of a new tenant `eve`/`eves`.
    pub fn another_tenant(&self) -> Client {
        self.new_tenant("eve", "eves")
    }

    fn new_tenant(&self, key: &str, secret: &str) -> Client {
        let body = serde_json::json!({ "apiKey": key, "apiSecret": secret });
        let made = self.client().post("/1.0/kb/tenants", &body);
        assert_eq!(made.status, 201, "{}", made.text());
        self.client().tenant(key, secret)
    }

    /// A client with the token for `/metrics`.
    pub fn scraper(&self) -> Client {
        let token = std::fs::read_to_string(self.data_dir.join("metrics.token")).unwrap();
        Client::new(&self.url).header("Authorization", &format!("Bearer {}", token.trim_end()))
    }

    /// The text of `/metrics`, made after this call: the server repeats an answer for a second.
    pub fn metrics(&self) -> String {
        const MARKER: &str = "faregate_requests_total{api=\"operations\",route=\"/health/live\",";
        let scraper = self.scraper();
        let marked = |text: &str| text.lines().find(|it| it.starts_with(MARKER)).map(str::to_owned);
        let before = marked(&scraper.get("/metrics").text());
        assert_eq!(scraper.get("/health/live").status, 200);
        eventually("metrics are made anew", || {
            let text = scraper.get("/metrics").text();
            (marked(&text) != before).then_some(text)
        })
    }

    /// Waits until `/metrics` has this line, and gives all of it.
    pub fn metrics_with(&self, line: &str) -> String {
        let scraper = self.scraper();
        eventually(line, || {
            let text = scraper.get("/metrics").text();
            text.lines().any(|it| it == line).then_some(text)
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.pid().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end, and gives what was written to standard error.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let (sender, receiver) = mpsc::channel();
        let errors = self.errors.take().unwrap();
        // The pipe closes when the process ends, however it does.
        std::thread::spawn(move || drop(sender.send(errors.join().unwrap())));
        let text = receiver.recv_timeout(TIMEOUT).expect("the server ends");
        (self.child.wait().unwrap(), text)
    }

    /// SIGTERM, and the end.
    pub fn stop(self) -> (ExitStatus, String) {
        self.signal("-TERM");
        self.wait()
    }

    /// SIGKILL, and the end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Polls until there is a result; fails after [`TIMEOUT`].
pub fn eventually<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(Instant::now() < until, "never happened: {what}");
        std::thread::yield_now();
    }
}
