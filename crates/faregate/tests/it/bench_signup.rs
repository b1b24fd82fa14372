//! The load generator of sign-up, against a listener with scripted responses.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::process::run;

const REGISTER: &str = "/user/auth/register";
const ACCOUNTS: &str = "/billing/api/billing/accounts/";
const REGISTERED: &str = r#"{"success":true}"#;
/// No answer at all.
const STALL: (u16, &str) = (0, "");
/// Requests one after the other before each load.
const PREFLIGHT: usize = 5;

/// Status and body for the n-th request to a path, from 0.
type Answers = fn(&str, usize) -> (u16, &'static str);

/// The requests that a listener received, in the order in which it read them.
#[derive(Default)]
struct Seen {
    /// Path and body of all but health checks.
    requests: Vec<(String, String)>,
    /// Connections on which such a request came.
    connections: BTreeSet<usize>,
    health: usize,
}

/// Something that registers users, or not.
struct Listener {
    url: String,
    seen: Arc<Mutex<Seen>>,
}

impl Listener {
    fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Seen>>::default();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || serve(number, stream.unwrap(), &seen, answers));
            }
        });
        Self { url, seen }
    }

    fn bench(&self, more: &[&str]) -> Output {
        run(&[&["bench", "signup"], more, &["--url", &self.url, "--json"]].concat())
    }

    /// Without bare hashes, which take their time in a build for debugging.
    fn load(&self, more: &[&str]) -> Output {
        self.bench(&[more, &["--hash-for", "0"]].concat())
    }

    fn requests(&self) -> Vec<(String, String)> {
        self.seen.lock().unwrap().requests.clone()
    }
}

/// Answers on one connection until it is closed.
fn serve(number: usize, stream: TcpStream, seen: &Mutex<Seen>, answers: Answers) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    while let Some((path, body)) = read_request(&mut reader) {
        let (status, body) = {
            let mut seen = seen.lock().unwrap();
            if path.ends_with("/health") {
                seen.health += 1;
                (200, "{}")
            } else {
                let before = seen.requests.iter().filter(|(requests, _)| *requests == path).count();
                let answer = answers(&path, before);
                seen.requests.push((path, body));
                seen.connections.insert(number);
                answer
            }
        };
        if status == STALL.0 {
            continue;
        }
        let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            break;
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<(String, String)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if let Some(value) = header.strip_prefix("Content-Length: ") {
            length = value.trim().parse().unwrap();
        }
        if header.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, String::from_utf8(body).unwrap()))
}

fn report(output: &Output, code: i32) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    serde_json::from_slice(&output.stdout).expect(&said)
}

fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn distinct(requests: &[(String, String)], field: &str) -> usize {
    let values = requests.iter().map(|(_, body)| {
        let body: Value = serde_json::from_str(body).unwrap();
        body[field].as_str().unwrap().to_owned()
    });
    values.collect::<BTreeSet<_>>().len()
}

/// Each user is another one and has one response.
#[test]
fn closed_loop_registers_each_user_once() {
    let listener = Listener::start(|_, _| (201, REGISTERED));
    let pid = std::process::id().to_string();
    let arguments = ["--users", "40", "--concurrency", "4", "--strict", "--pid", &pid];
    let report = report(&listener.load(&arguments), 0);
    assert_eq!((&report["ok"], &report["success_percent"]), (&40.into(), &100.0.into()));
    assert_eq!((&report["errors"], &report["refused"]), (&0.into(), &0.into()), "{report}");
    assert!(report["users_per_min"].as_f64().is_some_and(|rate| rate > 0.0), "{report}");
    let quantiles = &report["latency_ms"];
    let [p50, p99, max] = ["p50", "p99", "max"].map(|key| quantiles[key].as_f64().unwrap());
    assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{report}");
    assert!(report["rss_mib"].is_number() && report["rss_peak_mib"].is_number(), "{report}");
    assert!(report["cpu_ms_per_user"].is_number(), "{report}");
    assert!(report["hash"].is_null() && report["recovery"].is_null(), "{report}");
    let requests = listener.requests();
    assert!(requests.iter().all(|(path, _)| path == REGISTER));
    assert_eq!((requests.len(), distinct(&requests, "email")), (PREFLIGHT + 40, PREFLIGHT + 40));
    // Each keeps its connection; health has another.
    let seen = listener.seen.lock().unwrap();
    assert!(seen.connections.len() <= 4 && seen.health >= 1, "{:?}", seen.connections);
}

#[test]
fn each_request_can_have_a_connection_of_its_own() {
    let listener = Listener::start(|_, _| (201, REGISTERED));
    let arguments = ["register", "--users", "20", "--concurrency", "2", "--new-connection"];
    report(&listener.load(&arguments), 0);
    assert_eq!(listener.seen.lock().unwrap().connections.len(), PREFLIGHT + 20);
}

/// A refusal, an error and a success that says of itself that it is none are three things, and none
/// of them is sent again.
#[test]
fn failures_are_counted_by_kind() {
    let listener = Listener::start(|_, n| match n {
        0..5 => (201, REGISTERED),
        _ => match n % 5 {
            0 => (201, REGISTERED),
            1 => (503, ""),
            2 => (429, ""),
            3 => (202, REGISTERED),
            _ => (201, r#"{"success":false}"#),
        },
    });
    let output = listener.load(&["--users", "20", "--concurrency", "1", "--strict"]);
    let report = report(&output, 1);
    let counts = ["ok", "refused", "errors"].map(|key| report[key].as_u64().unwrap());
    assert_eq!(counts, [4, 8, 8], "{report}");
    let kinds = serde_json::json!({"201 without success": 4, "202": 4});
    assert_eq!((&report["error_kinds"], &report["success_percent"]), (&kinds, &20.0.into()));
    assert!(report["refused_ms"]["max"].as_f64().is_some_and(|max| max > 0.0), "{report}");
    assert_eq!(listener.requests().len(), PREFLIGHT + 20);
}

/// Every scheduled user is counted, and further requests check the recovery.
#[test]
fn an_open_loop_keeps_its_schedule() {
    let listener = Listener::start(|_, _| (201, REGISTERED));
    let report = report(&listener.load(&["--rate", "40", "--duration", "1", "--strict"]), 0);
    assert_eq!(report["ok"], 40, "{report}");
    assert!(report["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.97), "{report}");
    assert!(report["recovery"]["seconds"].is_number(), "{report}");
    assert!(listener.requests().len() > PREFLIGHT + 40);
}

/// The server does not slow the schedule down: who finds no room in the client is an error, and so
/// is who waits too long. Afterwards all is well.
#[test]
fn an_open_loop_has_bounds() {
    let listener = Listener::start(|_, n| if n == PREFLIGHT { STALL } else { (201, REGISTERED) });
    let bounds = ["--in-flight", "1", "--timeout", "2s"];
    let arguments = [&["--rate", "100", "--users", "20"][..], &bounds].concat();
    let report = report(&listener.load(&arguments), 1);
    let kinds = serde_json::json!({"not sent: too many in flight": 19, "timeout": 1});
    assert_eq!((&report["ok"], &report["error_kinds"]), (&0.into(), &kinds), "{report}");
    assert!(report["recovery"]["seconds"].is_number(), "{report}");
}

#[test]
fn accounts_alone() {
    let listener = Listener::start(|_, _| (200, REGISTERED));
    let report = report(&listener.load(&["account", "--users", "10", "--strict"]), 0);
    assert_eq!(report["ok"], 10, "{report}");
    let requests = listener.requests();
    assert!(requests.iter().all(|(path, _)| path == ACCOUNTS));
    assert_eq!(distinct(&requests, "customer_id"), PREFLIGHT + 10);
}

/// Hashes are reported with the run, or alone with `hash`.
#[test]
fn hashes_are_measured_in_the_same_run() {
    let listener = Listener::start(|_, _| (201, REGISTERED));
    let beside = report(&listener.bench(&["--users", "1", "--hash-for", "1ms"]), 0);
    let alone = run(&["bench", "signup", "hash", "--threads", "2", "--duration", "1ms", "--json"]);
    let alone = report(&alone, 0);
    assert_eq!(alone["threads"], 2, "{alone}");
    for hash in [&beside["hash"], &alone] {
        assert!(hash["hashes_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{hash}");
    }
    assert!(beside["share_of_hash"].as_f64().is_some_and(|share| share > 0.0), "{beside}");
}

#[test]
fn invalid_settings_are_reported_before_the_load() {
    let listener = Listener::start(|path, _| match path {
        REGISTER => (404, "no such page"),
        _ => (503, ""),
    });
    let check = |arguments: &[&str], part: &str| {
        let said = said(&listener.load(arguments));
        assert!(said.contains(part), "{arguments:?}: {said}");
    };
    check(&[], "the first registration failed: 404 no such page");
    check(&["account"], "the first account is refused");
    check(&["--rate", "0"], "--rate: out of range");
    check(&["--rate", "1", "--concurrency", "2"], "cannot be used with");
    check(&["--users", "0"], "'--users <N>'");
    check(&["--duration", "25h"], "'--duration <SPAN>'");
    let refused = run(&["bench", "signup", "--url", "http://127.0.0.1:1"]);
    assert!(said(&refused).contains("GET /user/health: connect"), "{}", said(&refused));
}
