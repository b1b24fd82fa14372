//! A log that cannot be written: no request waits for it, and nothing ends with it.

use std::fs::OpenOptions;
use std::io::{PipeReader, Read as _, Write as _, pipe};
use std::process::Stdio;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use crate::client::Client;
use crate::native::{account, purchase};
use crate::process::{Launch, Server, TempDir, eventually, faregate};

/// Far more than fit into a pipe: each request leaves a line.
const REQUESTS: usize = 1_000;

/// Every request leaves a line.
fn launch() -> Launch {
    Launch::usual().env("FAREGATE_LOG_LEVEL", "debug")
}

fn with_worker() -> Launch {
    let mut launch = launch();
    launch.arguments.extend(["--workers".to_owned(), "1".to_owned()]);
    launch
}

pub fn on_a_full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

fn without_a_reader() -> Stdio {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A pipe that has no room, and that nobody reads.
fn stalled() -> (PipeReader, Stdio) {
    let (reader, writer) = pipe().unwrap();
    (reader, writer.into())
}

/// Pays and reads, more often than lines fit into a pipe.
fn use_it(server: &Server) {
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    for _ in 0..REQUESTS / 100 {
        purchase(&client, &account, "10", "");
        for _ in 0..99 {
            assert_eq!(client.get(&format!("/1.0/kb/accounts/{account}")).status, 200);
        }
    }
    purchase(&client, &account, "10", "");
    // An API of feature flags: where there are workers, one of them answers.
    let unauthenticated = Client::new(&server.url);
    for _ in 0..50 {
        let flag = unauthenticated.post("/ofrep/v1/evaluate/flags/x", &json!({ "context": {} }));
        assert_eq!(flag.status, 401, "{}", flag.text());
    }
    let ready = unauthenticated.get("/health/ready");
    assert_eq!((ready.status, &ready.json()["status"]), (200, &json!("ready")));
}

fn lost(server: &Server, reason: &str) -> u64 {
    let name = format!("faregate_log_lines_dropped_total{{reason=\"{reason}\"}} ");
    let text = server.metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[test]
fn a_server_serves_without_a_log() {
    type Log = fn() -> Stdio;
    let logs: [(&str, Log); 2] = [("a full disk", on_a_full_disk), ("no reader", without_a_reader)];
    for (name, log) in logs {
        for launch in [launch(), with_worker()] {
            let dir = TempDir::new();
            let server = Server::start_logging_to(log(), dir.path(), launch);
            use_it(&server);
            assert!(lost(&server, "write_failed") > 500, "{name}");
            let (status, _) = server.stop();
            assert_eq!(status.code(), Some(0), "{name}");
        }
    }
}

#[test]
fn a_server_serves_and_stops_while_the_reader_of_its_log_stalls() {
    for launch in [launch(), with_worker()] {
        let dir = TempDir::new();
        let (mut reader, log) = stalled();
        let server = Server::start_logging_to(log, dir.path(), launch);
        use_it(&server);
        let (status, _) = server.stop();
        assert_eq!(status.code(), Some(0));
        // What was in the pipe is there, and whole lines of it.
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(text.len() > 32 * 1024 && text.starts_with("20"), "{text}");
    }
}

#[test]
fn a_log_that_can_be_written_again_says_what_is_missing() {
    let dir = TempDir::new();
    let path = dir.path().join("log");
    let log = OpenOptions::new().create(true).append(true).open(&path).unwrap();
    // Beyond the size of the database's files, which have the same limit.
    log.set_len(64 << 20).unwrap();
    let server = Server::start_logging_to(log, &dir.path().join("data"), launch());
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    let limit = |bytes_max: Option<u64>| {
        let hard = rustix::process::getrlimit(Resource::Fsize).maximum;
        let limit = Rlimit { current: bytes_max.or(hard), maximum: hard };
        prlimit(Pid::from_raw(server.pid().cast_signed()), Resource::Fsize, limit).unwrap();
    };
    // In the middle of a line.
    limit(Some(std::fs::metadata(&path).unwrap().len() + 100));
    for _ in 0..20 {
        purchase(&client, &account, "10", "");
    }
    assert!(lost(&server, "write_failed") >= 20);
    limit(None);
    let line = eventually("the log says how many lines are missing", || {
        let text = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&text[64 << 20..]).into_owned();
        text.lines().find(|line| line.contains("log lines were dropped")).map(str::to_owned)
    });
    assert!(line.starts_with("20") && line.contains(" WARN "), "{line}");
    purchase(&client, &account, "10", "");
    let (status, _) = server.stop();
    assert_eq!(status.code(), Some(0));
    let text = std::fs::read(&path).unwrap();
    assert!(text.ends_with(b"stopped\n"), "the last line is written before the end");
}

#[test]
fn a_server_serves_where_nobody_reads_its_standard_output() {
    let dir = TempDir::new();
    let (output, closed) = pipe().unwrap();
    drop(output);
    let mut command = faregate(&["serve", "--listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(dir.path()).stdout(closed).stderr(Stdio::piped());
    let mut child = command.env("FAREGATE_ADMIN_PASSWORD", "password").spawn().unwrap();
    let mut log = child.stderr.take().unwrap();
    let (mut text, mut chunk) = (String::new(), [0; 4096]);
    let url = loop {
        let read = log.read(&mut chunk).unwrap();
        assert!(read > 0, "the server ended: {text}");
        text += &String::from_utf8_lossy(&chunk[..read]);
        let url = text.split_once("listening on ").map(|(_, rest)| rest);
        // Its line is whole.
        if let Some((url, _)) = url.and_then(|it| it.split_once('"')) {
            break url.to_owned();
        }
    };
    assert_eq!(Client::new(&url).get("/health/live").status, 200);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_start_that_fails_ends_while_the_reader_of_its_log_stalls() {
    let (_reader, mut writer) = pipe().unwrap();
    // A pipe takes 64 KiB without a reader.
    writer.write_all(&[b'x'; 64 * 1024]).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = TempDir::new();
    let mut command = faregate(&["serve", "--listen", &address, "--data-dir"]);
    let mut child = command.arg(dir.path()).stderr(writer).stdout(Stdio::null()).spawn().unwrap();
    let status = eventually("the process ends", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(2));
}
