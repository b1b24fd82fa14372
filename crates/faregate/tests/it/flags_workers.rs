//! Processes that hold streams in the server's place (`flags.workers`): everything else comes to the
//! server through them, and they live as long as it does.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use serde_json::json;

use crate::client::Answer;
use crate::flags_insights;
use crate::flags_streams::{Stream, sample, secret, seen, switch};
use crate::process::{Launch, Server, TempDir, eventually, faregate};

fn with_workers(count: &str) -> Launch {
    let mut launch = Launch::usual();
    launch.arguments.extend(["--workers".to_owned(), count.to_owned()]);
    launch
}

/// The processes that a server has started.
fn workers(server: &Server) -> Vec<u32> {
    let mut found = vec![];
    for task in fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap() {
        let children = fs::read_to_string(task.unwrap().path().join("children")).unwrap();
        found.extend(children.split_whitespace().map(|it| it.parse::<u32>().unwrap()));
    }
    found
}

fn is_running(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat"));
    state.is_ok_and(|it| !it.rsplit_once(')').unwrap().1.starts_with(" Z"))
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
}

/// Streams as `/metrics` counts them.
fn streams(server: &Server) -> usize {
    let text = server.scraper().get("/metrics").text();
    let line = text.lines().find_map(|it| it.strip_prefix("faregate_flag_streams "));
    line.unwrap().parse().unwrap()
}

#[test]
fn streams_are_held_by_workers_and_the_rest_comes_to_the_server() {
    let server = Server::start_with(with_workers("2"));
    assert_eq!(workers(&server).len(), 2);
    let client = server.tenant();
    let imported = client.post("/v1/environments/dev/import", &sample());
    assert_eq!(imported.status, 200, "{}", imported.text());
    let browser = secret(&client, "client");
    // Enough that both have some.
    let mut pages: Vec<_> =
        (0..32).map(|_| Stream::open(&server, "", "client", &browser)).collect();
    for page in &mut pages {
        eventually_synced(page);
    }
    eventually("all are counted", || (streams(&server) == pages.len()).then_some(()));
    switch(&client, false);
    for page in &mut pages {
        assert_eq!(seen(&page.next()).1, "false");
    }
    let all = workers(&server);
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    assert!(!all.into_iter().any(is_running));
    for page in &mut pages {
        assert_eq!(page.closed(), 1001);
    }
}

/// A worker may listen before it has received a change that the server has answered.
fn eventually_synced(page: &mut Stream) {
    eventually("the worker has the change", || {
        let full = page.sync(0);
        (full["featureFlags"] != json!([])).then_some(())
    });
}

#[test]
fn a_worker_that_dies_is_replaced_and_none_outlives_the_server() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), with_workers("1"));
    let client = server.tenant();
    let imported = client.post("/v1/environments/dev/import", &sample());
    assert_eq!(imported.status, 200, "{}", imported.text());
    let browser = secret(&client, "client");
    let first = workers(&server);
    kill(first[0]);
    let second = eventually("another worker", || {
        let now = workers(&server);
        (now.len() == 1 && now != first).then(|| now[0])
    });
    // It knows everything that the first one knew before it listens.
    let mut page = eventually("it listens", || {
        let address = server.url.strip_prefix("http://").unwrap();
        std::net::TcpStream::connect(address).ok()?;
        Some(Stream::open(&server, "", "client", &browser))
    });
    assert_eq!(seen(&page.sync(0)).1, "true");
    server.signal("-KILL");
    let (_, log) = server.wait();
    assert!(log.contains("lost the server"), "{log}");
    assert!(!log.lines().any(|it| it.starts_with("faregate: ")), "{log}");
    eventually("the worker is gone", || (!is_running(second)).then_some(()));
    // The port is free, and the data directory.
    let server = Server::start_in(dir.path(), with_workers("1"));
    assert_eq!(server.client().tenant("bob", "lazar").get("/v1/flags").status, 200);
}

/// A worker reports its counts to the server, at the latest when both stop.
#[test]
fn insights_sent_to_a_worker_are_stored() {
    let dir = TempDir::new();
    let (server, _, secret) = flags_insights::start(&dir, with_workers("1"));
    flags_insights::send(&server, &secret, &[("on", true), ("on", false)], &[2.5]);
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    assert_eq!(flags_insights::summed(&client), [("on".to_owned(), 2, 1)]);
}

#[test]
fn flag_connection_serves_no_other_api() {
    let server = Server::start_with(with_workers("1"));
    let client = server.tenant();
    let mut connection = client.connect();
    let mut ask = |path: &str| {
        write!(connection, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        Answer::read(&mut connection)
    };
    assert_eq!(ask("/api/public/sdk/server/latest-all").status, 401);
    // An unknown path below an API's prefix is not forwarded to the server.
    let nowhere = ask("/api/public/nothing");
    assert_eq!((nowhere.status, nowhere.header("connection")), (404, None));
    assert_eq!(nowhere.json()["type"], "urn:faregate:problem:not-found");
    let answer = ask("/v1/flags");
    assert_eq!(answer.status, 421);
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(answer.json()["type"], "urn:faregate:problem:misdirected");
    assert_eq!(client.get("/v1/flags").status, 200);
}

#[test]
fn workers_with_invalid_settings_are_refused() {
    let alone = faregate(&["flag-worker"]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    let errors = String::from_utf8(alone.stderr).unwrap();
    assert!(errors.contains("flags.workers"), "{errors}");
    for (arguments, environment, reason) in [
        (&["--workers", "65"][..], None, "at most 64"),
        (&["--workers", "2"][..], Some(("FAREGATE_TLS_CERT", "a")), "tls"),
    ] {
        let mut command = faregate(&["serve", "--data-dir", "/nonexistent"]);
        let refused = command.args(arguments).envs(environment).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        let errors = String::from_utf8(refused.stderr).unwrap();
        assert!(errors.contains(reason), "{errors}");
    }
}
