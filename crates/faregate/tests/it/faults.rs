//! Faults of the machine: a full disk, a clock that is set back, a damaged row.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use store::driver::Value as Cell;

use crate::client::{Answer, Client};
use crate::native::{account, purchase};
use crate::operations::begin_slow_purchase;
use crate::process::{Launch, Server, TempDir, eventually, run};

/// A day, in microseconds.
const DAY_US: i64 = 24 * 3600 * 1_000_000;

/// Gives a server no room: its write-ahead log may not grow from here on.
fn fill_disk(server: &Server) {
    let log = std::fs::metadata(server.data_dir.join("faregate.db-wal")).unwrap();
    limit_files(server, Some(log.len()));
}

fn make_room(server: &Server) {
    limit_files(server, None);
}

fn limit_files(server: &Server, bytes_max: Option<u64>) {
    let pid = Pid::from_raw(server.pid().cast_signed());
    let hard = rustix::process::getrlimit(Resource::Fsize).maximum;
    let limit = Rlimit { current: bytes_max.or(hard), maximum: hard };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

/// Waits until `/health/ready` answers so.
fn wait_until_ready_says(server: &Server, status: u16, body: &Value) {
    let unauthenticated = Client::new(&server.url);
    eventually(&format!("ready is {status}"), || {
        let ready = unauthenticated.get("/health/ready");
        (ready.status == status && ready.json() == *body).then_some(())
    });
}

/// Checks what lies in a data directory that no server has open.
fn assert_sound(data_dir: &Path, commands: &[&str]) {
    for command in commands {
        let checked = run(&[command, "--data-dir", data_dir.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(0), "{command}: {said}");
    }
}

/// Changes rows as no server would.
fn tamper(data_dir: &Path, sql: &str, parameters: &[Cell<'_>]) {
    let store = store::open_dir(data_dir, &store::Options::default()).unwrap();
    assert!(store.database().exec(sql, parameters).unwrap() > 0, "{sql} changes something");
}

/// The only payment there is.
fn only_payment(client: &Client) -> Value {
    let payments = client.get("/1.0/kb/payments/pagination").json();
    assert_eq!(payments.as_array().unwrap().len(), 1, "{payments}");
    payments[0].clone()
}

fn wait_for_status(client: &Client, status: &str) -> Value {
    eventually(&format!("the payment is {status}"), || {
        let payment = only_payment(client);
        (payment["transactions"][0]["status"] == status).then_some(payment)
    })
}

/// Waits until the server reports a full disk, on which it serves reads: every health route is 200.
fn assert_degraded(server: &Server) {
    let reason = "the disk is full: reads are served, writes are refused";
    wait_until_ready_says(server, 200, &json!({ "status": "ready", "degraded": reason }));
    let unauthenticated = Client::new(&server.url);
    let live = unauthenticated.get("/health/live");
    assert_eq!((live.status, live.json()["degraded"].as_str()), (200, Some(reason)));
    let checks = unauthenticated.get("/1.0/healthcheck");
    assert_eq!(checks.status, 200, "{}", checks.text());
    let checks = checks.json();
    let full = json!({ "healthy": true, "message": "the disk is full: nothing can be written" });
    assert_eq!(checks["faregate.degraded"], full);
    assert_eq!(checks["main.pool.ConnectivityCheck"], json!({ "healthy": true }));
    server.metrics_with("faregate_degraded{reason=\"disk_full\"} 1");
}

#[test]
fn a_server_that_starts_on_a_full_disk_serves_reads() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    purchase(&client, &account, "10", "");
    let log = std::fs::metadata(server.data_dir.join("faregate.db-wal")).unwrap().len();
    server.kill();
    let server = Server::start_limited(dir.path(), Launch::usual(), log);
    let client = server.client().tenant("bob", "lazar");
    let payments = format!("/1.0/kb/accounts/{account}/payments");
    assert_eq!(client.get(&payments).json().as_array().unwrap().len(), 1);
    let ten = json!({ "transactionType": "PURCHASE", "amount": "10" });
    let refused = client.post(&payments, &ten);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("10")));
    assert_eq!(refused.json()["message"], "the disk is full: nothing can be written");
    assert_degraded(&server);

    make_room(&server);
    wait_until_ready_says(&server, 200, &json!({ "status": "ready" }));
    server.metrics_with("faregate_degraded{reason=\"disk_full\"} 0");
    let done = client.post(&payments, &ten);
    assert_eq!(done.status, 201, "{}", done.text());
    let (status, _) = server.stop();
    assert_eq!(status.code(), Some(0));
    assert_sound(dir.path(), &["verify", "reconcile"]);
}

#[test]
fn on_a_full_disk_reads_go_on_and_writes_are_refused() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    purchase(&client, &account, "10", "");
    let payments = format!("/1.0/kb/accounts/{account}/payments");
    fill_disk(&server);

    let writes = [
        ("/1.0/kb/accounts", json!({ "currency": "USD" })),
        (payments.as_str(), json!({ "transactionType": "PURCHASE", "amount": "20" })),
    ];
    let keyed = |path: &str| client.clone().header("Idempotency-Key", path);
    for (path, body) in &writes {
        let refused = keyed(path).post(path, body);
        let error = refused.json();
        let seen = (refused.status, refused.header("retry-after"), refused.header("location"));
        assert_eq!(seen, (503, Some("10"), None), "{path}: {error}");
        assert_eq!(error["message"], "the disk is full: nothing can be written", "{path}");
    }
    assert_degraded(&server);
    for path in ["/health/live", "/v1/ledger/accounts", &payments] {
        let read = client.get(path);
        assert_eq!(read.status, 200, "{path}: {}", read.text());
    }
    assert_eq!(server.scraper().get("/metrics").status, 200);
    assert_eq!(client.get(&payments).json().as_array().unwrap().len(), 1);

    make_room(&server);
    wait_until_ready_says(&server, 200, &json!({ "status": "ready" }));
    // What was refused was not kept: the same again is done.
    for (path, body) in &writes {
        let done = keyed(path).post(path, body);
        assert_eq!(done.status, 201, "{path}: {}", done.text());
    }
    assert_eq!(client.get(&payments).json().as_array().unwrap().len(), 2);
    fill_disk(&server);
    server.kill();
    assert_sound(dir.path(), &["verify"]);
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    assert_eq!(client.get(&payments).json().as_array().unwrap().len(), 2);
}

/// The outcome of a call that comes while the disk is full; `recover` makes room.
fn check_outcome_on_a_full_disk(recover: impl FnOnce(Server, &Path) -> Server) {
    let dir = TempDir::new();
    let launch = Launch::usual().env("FAREGATE_DRAIN_DEADLINE", "300ms");
    let server = Server::start_in(dir.path(), launch);
    let client = server.tenant();
    let mut stream = begin_slow_purchase(&client, 1_000);
    fill_disk(&server);
    let answer = Answer::read(&mut stream);
    let seen = (answer.status, answer.header("retry-after"), answer.header("location").is_some());
    assert_eq!(seen, (503, None, true), "the outcome is not known: {}", answer.text());
    assert_eq!(only_payment(&client)["transactions"][0]["status"], "UNKNOWN");
    let server = recover(server, dir.path());
    let client = server.client().tenant("bob", "lazar");
    assert_eq!(wait_for_status(&client, "SUCCESS")["purchasedAmount"], 1.0);
    let (status, _) = server.stop();
    assert_eq!(status.code(), Some(0));
    assert_sound(dir.path(), &["verify", "reconcile"]);
}

#[test]
fn an_outcome_waits_for_room_on_the_disk() {
    check_outcome_on_a_full_disk(|server, _| {
        make_room(&server);
        server
    });
}

#[test]
fn outcome_lost_on_a_full_disk_is_queried_after_restart() {
    check_outcome_on_a_full_disk(|server, dir| {
        let (status, _) = server.stop();
        assert_eq!(status.code(), Some(0));
        Server::start_in(dir, Launch::usual())
    });
}

#[test]
fn refused_callback_is_retried_once_the_disk_has_room() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::start();
    let client = server.tenant();
    let url = format!("http://{}/cb", receiver.local_addr().unwrap());
    let path = format!("/1.0/kb/tenants/registerNotificationCallback?cb={url}");
    assert_eq!(client.send("POST", &path, None).status, 201);
    // The receiver refuses the first notification while the refusal cannot be written.
    let mut notified = receiver.accept().unwrap().0;
    fill_disk(&server);
    refuse(&mut notified);
    wait_until_refused(&client);
    make_room(&server);
    eventually("the refusal is written", || {
        let metrics = server.scraper().get("/metrics").text();
        let waiting = metrics.lines().find_map(|it| it.strip_prefix("faregate_push_waiting "));
        (waiting? != "0").then_some(())
    });
}

/// Reads a request and answers 500.
fn refuse(stream: &mut (impl Read + Write)) {
    let mut buffer = [0_u8; 16 * 1024];
    assert!(stream.read(&mut buffer).unwrap() > 0);
    let answer = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer).unwrap();
}

/// Writes until one is refused.
fn wait_until_refused(client: &Client) {
    eventually("the disk is full", || {
        let answer = client.post("/1.0/kb/accounts", &json!({ "currency": "USD" }));
        (answer.status == 503).then_some(())
    });
}

#[test]
fn deadline_of_a_fast_clock_does_not_delay_the_outcome_query() {
    let dir = TempDir::new();
    let launch = || {
        let launch = Launch::usual().env("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "1s");
        launch.env("FAREGATE_GATEWAY_SIMULATOR_SETTLE_AFTER", "1s")
    };
    let server = Server::start_in(dir.path(), launch());
    let _stream = begin_slow_purchase(&server.tenant(), 900);
    server.kill();
    // That server's clock was a day ahead, and the gateway has not received its call.
    tamper(dir.path(), "UPDATE outstanding SET deadline_us = deadline_us + ?1", &[DAY_US.into()]);
    let sql = "UPDATE journal SET at_us = at_us + ?1, committed_at_us = committed_at_us + ?1";
    tamper(dir.path(), sql, &[DAY_US.into()]);
    std::fs::remove_dir_all(dir.path().join("simulator")).unwrap();
    let server = Server::start_in(dir.path(), launch());
    let client = server.client().tenant("bob", "lazar");
    wait_for_status(&client, "PLUGIN_FAILURE");
    let metrics = server.metrics();
    let unresolved = "faregate_unresolved_transactions{status=\"unknown\"} 0\n";
    assert!(metrics.contains(unresolved), "{metrics}");
}

#[test]
fn a_clock_that_is_set_back_does_no_harm() {
    let dir = TempDir::new();
    let launch = || {
        let launch = Launch::usual().env("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "200ms");
        launch.env("FAREGATE_RESOLVER_UNKNOWN_DELAYS", "1h,1h")
    };
    let server = Server::start_in(dir.path(), launch());
    let client = server.tenant();
    let account = account(&client, "faregate-simulator");
    assert_eq!(client.put("/1.0/kb/test/clock?days=30", &json!({})).status, 200);
    let path = format!("/1.0/kb/accounts/{account}/payments");
    let body = json!({ "transactionType": "PURCHASE", "amount": "7" });
    let lost = client.post(&format!("{path}?pluginProperty=lostAnswer%3Dtrue"), &body);
    assert_eq!(lost.status, 504, "{}", lost.text());
    server.kill();
    let server = Server::start_in(dir.path(), launch());
    let client = server.client().tenant("bob", "lazar");
    // A start does not set it back; a client does: then it is 30 days before the first question that is planned.
    assert_eq!(client.post("/1.0/kb/test/clock", &json!({})).status, 200);
    let payment = wait_for_status(&client, "SUCCESS");
    let id = payment["paymentId"].as_str().unwrap();
    client.create(&format!("/1.0/kb/payments/{id}/refunds"), &json!({ "amount": "2" }));
    purchase(&client, &account, "3", "");
    // What came later in time, but was done before, comes first.
    let entries = client.get(&format!("/v1/ledger/entries?account={account}")).json();
    let amounts = entries["entries"].as_array().unwrap().iter().map(|it| it["amount"].clone());
    assert_eq!(amounts.collect::<Vec<_>>(), ["7.00", "2.00", "3.00"], "{entries}");
    let payment = client.get(&format!("/1.0/kb/payments/{id}?audit=FULL")).json();
    let kinds = payment["transactions"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds.map(|it| it["transactionType"].clone()).collect();
    assert_eq!(kinds, ["PURCHASE", "REFUND"], "{payment}");
    let changes = payment["auditLogs"].as_array().unwrap().iter();
    let changes: Vec<_> = changes.map(|it| it["changeType"].clone()).collect();
    assert_eq!(changes[0], "INSERT", "{payment}");
    let paid = eventually("analytics have followed", || {
        let summary = client.get(&format!("/v1/analytics/accounts/{account}")).json();
        (summary["payments"] == 2).then_some(summary)
    });
    assert_eq!(paid["amounts"][0]["purchased"], "10.00", "{paid}");
    let (status, _) = server.stop();
    assert_eq!(status.code(), Some(0));
    assert_sound(dir.path(), &["verify", "reconcile"]);
}

#[test]
fn a_damaged_row_stops_only_what_needs_it() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let _stream = begin_slow_purchase(&client, 5_000);
    server.kill();
    tamper(dir.path(), "UPDATE payment SET currency = 'none'", &[]);
    // Its outcome is queried at once and cannot be written.
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    purchase(&client, &account, "10", "");
    wait_until_ready_says(&server, 200, &json!({ "status": "ready" }));
    let (status, said) = server.stop();
    assert_eq!(status.code(), Some(0));
    assert_eq!(said.matches("a row cannot be read").count(), 1, "{said}");
    assert!(!said.contains("a batch was not committed"), "{said}");
}

#[test]
fn an_account_out_of_service_is_listed_and_released() {
    const EXTERNAL: &str = "__EXTERNAL_PAYMENT__";
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let (broken, well) = (account(&client, EXTERNAL), account(&client, EXTERNAL));
    assert!(server.stop().0.success());
    let set = "UPDATE account SET currency = ?1 WHERE hex(id) = upper(replace(?2, '-', ''))";
    tamper(dir.path(), set, &["none".into(), broken.as_str().into()]);

    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    let rename = |client: &Client, account: &str| {
        client.put(&format!("/1.0/kb/accounts/{account}"), &json!({ "name": "Ann" })).status
    };
    let release = |client: &Client| client.delete(&format!("/v1/quarantine/{broken}"));
    assert_eq!(client.get("/v1/quarantine").json(), json!({ "quarantined": [], "more": false }));
    assert_eq!(release(&client).status, 404, "it is in service");
    let outcomes = [rename(&client, &broken), rename(&client, &broken), rename(&client, &well)];
    assert_eq!(outcomes, [503, 503, 204]);
    assert!(server.stop().0.success());
    tamper(dir.path(), set, &["USD".into(), broken.as_str().into()]);

    // What is mended is out of service still, until somebody says so.
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    assert_eq!(rename(&client, &broken), 503);
    let listed = client.get("/v1/quarantine").json();
    let entry = &listed["quarantined"][0];
    let shown = [&entry["accountId"], &entry["command"], &entry["reason"]];
    assert_eq!(shown, [&json!(broken), &json!("UpdateAccount"), &json!("unreadable")], "{listed}");
    assert_eq!(listed["quarantined"].as_array().map(Vec::len), Some(1), "{listed}");
    for page in ["offset=1", "limit=0"] {
        let page = client.get(&format!("/v1/quarantine?{page}")).json();
        assert_eq!(page["quarantined"], json!([]));
    }
    server.metrics_with("faregate_quarantined_accounts 1");
    assert_eq!(release(&client).status, 204);
    assert_eq!(rename(&client, &broken), 204);
    server.metrics_with("faregate_quarantined_accounts 0");
    assert!(server.stop().0.success());
    assert_sound(dir.path(), &["verify"]);
}

#[test]
fn a_gateway_without_room_is_unhealthy() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_GATEWAY_IN_FLIGHT_MAX", "1"));
    let unauthenticated = Client::new(&server.url);
    let check = "org.killbill.billing.server.healthchecks.KillbillPluginsHealthcheck";
    let well = unauthenticated.get("/1.0/healthcheck");
    assert_eq!((well.status, &well.json()[check]), (200, &json!({ "healthy": true })));
    let mut stream = begin_slow_purchase(&server.tenant(), 1_000);
    let full = unauthenticated.get("/1.0/healthcheck");
    let message = "too many calls of the payment gateway are in flight";
    let expected = json!({ "healthy": false, "message": message });
    assert_eq!((full.status, &full.json()[check]), (500, &expected));
    assert_eq!(Answer::read(&mut stream).status, 201);
    eventually("there is room again", || {
        (unauthenticated.get("/1.0/healthcheck").status == 200).then_some(())
    });
}

#[test]
fn one_tenant_leaves_a_quarter_of_a_gateways_calls_to_the_others() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_GATEWAY_IN_FLIGHT_MAX", "4"));
    let (bob, eve) = (server.tenant(), server.another_tenant());
    let of_bob = account(&bob, "faregate-simulator");
    let of_eve = account(&eve, "faregate-simulator");
    let mut slow: Vec<_> = (0..3).map(|_| begin_slow_purchase(&bob, 3_000)).collect();
    let pay = |client: &Client, account: &str| {
        let body = json!({ "transactionType": "PURCHASE", "amount": "1" });
        client.post(&format!("/1.0/kb/accounts/{account}/payments"), &body)
    };
    let refused = pay(&bob, &of_bob);
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
    assert_eq!(pay(&eve, &of_eve).status, 201, "another tenant's call goes on at once");
    assert!(slow.iter_mut().all(|it| Answer::read(it).status == 201));
    eventually("there is room again", || (pay(&bob, &of_bob).status == 201).then_some(()));
}

/// The write-ahead logs in a data directory, with their names.
fn logs(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
    let mut logs: Vec<(String, Vec<u8>)> = entries
        .filter(|path| path.to_string_lossy().contains("-wal"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    logs.retain(|(name, _)| name.starts_with("faregate.db"));
    logs
}

#[test]
fn payments_that_were_lost_with_the_log_are_missed() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let external = account(&client, "__EXTERNAL_PAYMENT__");
    let simulated = account(&client, "faregate-simulator");
    let (status, _) = server.stop();
    assert_eq!(status.code(), Some(0));
    // What follows is in the log only.
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    purchase(&client, &external, "10", "");
    purchase(&client, &simulated, "10", "");
    eventually("analytics have both", || {
        let has_one = |account: &str| {
            let summary = client.get(&format!("/v1/analytics/accounts/{account}")).json();
            summary["payments"] == 1
        };
        (has_one(&external) && has_one(&simulated)).then_some(())
    });
    server.kill();
    std::fs::remove_file(dir.path().join("faregate.db-wal")).unwrap();
    let verified = run(&["verify", "--data-dir", dir.path().to_str().unwrap(), "--json"]);
    assert_eq!(verified.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
    let problems: Vec<_> =
        report["problems"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("rows are lost: analytics contain them up to"), "{problems:?}");
    assert!(problems[1].ends_with("is lost: the simulated gateway charged it"), "{problems:?}");
}

#[test]
fn a_lost_database_is_not_taken_for_a_new_one() {
    for is_emptied in [false, true] {
        let dir = TempDir::new();
        let server = Server::start_in(dir.path(), Launch::usual());
        server.tenant();
        server.kill();
        let before = logs(dir.path());
        assert!(before.len() == 1 && !before[0].1.is_empty(), "commits wait in the log");
        let database = dir.path().join("faregate.db");
        std::fs::remove_file(&database).unwrap();
        if is_emptied {
            std::fs::write(&database, "").unwrap();
        }
        let data_dir = dir.path().to_str().unwrap();
        let refused = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        for name in ["faregate.db-wal", "secrets.key", "signup.key", "--new-database"] {
            assert!(said.contains(name), "{name} is not named: {said}");
        }
        assert_eq!(logs(dir.path()), before, "the log is as it was");

        let mut anew = Launch::usual();
        anew.arguments.push("--new-database".to_owned());
        let server = Server::start_in(dir.path(), anew);
        server.tenant();
        let (_, said) = server.stop();
        let aside = logs(dir.path()).into_iter().find(|(name, _)| name.contains(".lost-"));
        let (name, log) = aside.expect("the log is kept");
        assert!(log == before[0].1 && said.contains(&name), "{said}");
    }
}
