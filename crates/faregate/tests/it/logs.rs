//! The log lines of a request: they have the ids of its objects, none of its content, and a fitting level.

use serde_json::{Value, json};

use crate::native::{account, purchase};
use crate::process::{Launch, Server, eventually};

/// The lines of a log in JSON.
fn lines(log: &str) -> Vec<Value> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn response_ids_are_logged() {
    let launch = Launch::usual().env("FAREGATE_LOG_FORMAT", "json");
    let server = Server::start_with(launch.env("FAREGATE_LOG_LEVEL", "debug"));
    let client = server.tenant();
    let account = account(&client, "__EXTERNAL_PAYMENT__");
    let payment = purchase(&client, &account, "10", "");
    let payment = payment["paymentId"].as_str().unwrap();
    let path = format!("/1.0/kb/payments/{payment}");
    let ours = client.get(&path).header("x-request-id").unwrap().to_owned();
    let named = client.clone().header("X-Request-Id", "mine-1");
    let path = format!("/1.0/kb/accounts/{account}");
    assert_eq!(named.get(&path).header("x-request-id"), Some("mine-1"));
    let native = client.get("/v1/ledger/accounts").header("x-request-id").unwrap().to_owned();
    let named = client.clone().header("X-Request-Id", "mine-2");
    assert_eq!(named.get("/v1/ledger/accounts").header("x-request-id"), Some("mine-2"));
    assert_eq!(client.get("/1.0/kb/accounts/search/secret@b.example").status, 200);
    let (_, log) = server.stop();

    let lines = lines(&log);
    let find = |field: &str, value: &str| {
        let found = lines.iter().find(|line| line[field] == value);
        found.unwrap_or_else(|| panic!("no {field}={value} in {log}"))
    };
    let line = find("request.id", &ours);
    assert_eq!((&line["payment.id"], &line["status"]), (&json!(payment), &json!(200)));
    assert!(line["tenant"].is_u64(), "{line}");
    assert_eq!(find("request.given", "mine-1")["account.id"], json!(account));
    assert_eq!(find("request.id", &native)["route"], "/v1/ledger/accounts");
    assert!(find("request.id", "mine-2")["tenant"].is_u64());
    assert!(!log.contains("secret@b.example"), "{log}");
}

/// A server that has nothing to say of its machine, such as that it may open few files.
fn quiet() -> Launch {
    let launch = Launch::usual().env("FAREGATE_LOG_FORMAT", "json");
    launch.env("FAREGATE_ADMISSION_CONNECTIONS_MAX", "64")
}

#[test]
fn gateway_and_client_failures_are_not_logged_as_errors() {
    // Nothing is generated, of which the first start would warn.
    let launch = quiet()
        .env("FAREGATE_FIRST_TENANT_API_KEY", "first")
        .env("FAREGATE_FIRST_TENANT_API_SECRET", "secret of the first");
    let server = Server::start_with(launch);
    let client = server.tenant();
    let account = account(&client, "faregate-simulator");
    for (outcome, status) in [("ERROR", 402), ("CANCELED", 502), ("UNDEFINED", 503), ("NULL", 500)]
    {
        let query = format!("?pluginProperty=outcome%3D{outcome}");
        let path = format!("/1.0/kb/accounts/{account}/payments{query}");
        let body = json!({ "transactionType": "PURCHASE", "amount": "7" });
        assert_eq!(client.post(&path, &body).status, status, "{outcome}");
    }
    assert_eq!(client.get("/1.0/kb/invoices/template").status, 501);
    assert_eq!(client.get("/1.0/kb/accounts/x").status, 400);
    let (_, log) = server.stop();
    let loud = ["WARN", "ERROR"];
    // The start warns of the password that tests use, and of the machine's disk.
    let of_start = ["server::first_start", "server::disk"];
    let is_start = |line: &Value| of_start.iter().any(|target| line["target"] == *target);
    let loud = |line: &Value| line["level"].as_str().is_some_and(|level| loud.contains(&level));
    let loud = |line: &Value| loud(line) && !is_start(line);
    let loud: Vec<Value> = lines(&log).into_iter().filter(loud).collect();
    assert_eq!(loud, Vec::<Value>::new());
}

#[test]
fn a_refusal_names_who_was_refused_what_whatever_flood_there_is_beside_it() {
    // No network is exempt: each 127.0.0.N is one.
    let launch = quiet().env("FAREGATE_ACCESS_TRUSTED_PROXIES", "192.0.2.1");
    let server = Server::start_with(launch);
    let client = server.tenant();
    let user = json!({ "username": "joe", "password": "right", "roles": [] });
    assert_eq!(client.post("/1.0/kb/security/users", &user).status, 201);
    let joe = client.clone().user("joe", "right");
    let (anonymous, kill_bill) =
        (crate::client::Client::new(&server.url), "/1.0/kb/accounts/pagination");
    let flood = |count: usize| {
        for number in 0..count {
            let client = anonymous.clone().from("127.0.0.9");
            let path = if number % 2 == 0 { kill_bill } else { "/v1/flags?environment=dev" };
            assert_eq!(client.get(path).status, 401);
        }
    };
    let of_rights = |number: usize| match number % 2 {
        0 => assert_eq!(joe.post("/1.0/kb/accounts", &json!({})).status, 401),
        _ => assert_eq!(joe.get("/v1/events").status, 403),
    };
    for number in 0..20 {
        flood(12);
        of_rights(number);
    }
    assert_eq!(anonymous.clone().from("127.0.0.8").get(kill_bill).status, 401);
    server.metrics_with("faregate_refusals_not_logged_total{status=\"403\"} 0");
    let dropped = crate::process::eventually("the count is logged", || {
        let metrics = server.metrics();
        let dropped = "faregate_refusals_not_logged_total{status=\"401\"} ";
        let dropped = metrics.lines().find_map(|it| it.strip_prefix(dropped))?;
        dropped.parse::<usize>().ok().filter(|it| *it > 0)
    });
    let secret = json!({ "type": "server", "name": "another" });
    let made = client.post("/v1/environments/dev/secrets", &secret);
    assert_eq!(made.status, 201, "{}", made.text());
    let (_, log) = server.stop();
    let lines = lines(&log);
    let refused: Vec<&Value> =
        lines.iter().filter(|it| it["message"] == "request refused").collect();
    let of_joe: Vec<_> = refused.iter().filter(|it| it["user"] == "joe").collect();
    assert_eq!(of_joe.len(), 20, "{log}");
    for line in &of_joe {
        assert!(line["tenant"].is_u64() && line["network"] == "127.0.0.1", "{line}");
    }
    let reasons: Vec<_> = of_joe[..2].iter().map(|it| it["reason"].as_str().unwrap()).collect();
    assert_eq!(
        reasons,
        ["Subject does not have permission [account:create]", "permission-missing: event:read"]
    );
    let from = |network: &str| refused.iter().filter(|it| it["network"] == network).count();
    assert_eq!(from("127.0.0.8"), 1, "another network's has a line");
    assert!(from("127.0.0.9") < 240, "{}", from("127.0.0.9"));
    assert_eq!(from("127.0.0.9") + dropped, 240, "what is not logged is counted");
    let counts = lines.iter().filter(|it| {
        it["message"].as_str().is_some_and(|it| it.contains("refusals were not logged"))
    });
    let counted: u64 = counts.map(|it| it["refusals"].as_u64().unwrap()).sum();
    assert_eq!(counted, dropped as u64, "{log}");
    let changed = lines.iter().filter(|it| it["message"] == "rights or secrets were changed");
    let objects: Vec<_> = changed.map(|it| it["object"].as_str().unwrap()).collect();
    assert!(objects.contains(&"user joe"), "{objects:?}");
    assert!(objects.last().unwrap().starts_with("secret "), "{objects:?}");
}

#[test]
fn refused_logins_and_changes_of_rights_leave_a_line() {
    let server = Server::start_with(quiet());
    let client = server.client();
    let who = "/1.0/kb/security/subject";
    assert_eq!(client.clone().user("admin", "wrong").get(who).status, 401);
    assert_eq!(client.clone().user("hunter2", "admin").get(who).status, 401);
    let user = json!({ "username": "joe", "password": "right", "roles": [] });
    assert_eq!(client.post("/1.0/kb/security/users", &user).status, 201);
    let tenant = json!({ "apiKey": "x", "apiSecret": "y" });
    let joe = client.clone().user("joe", "right");
    assert_eq!(joe.post("/1.0/kb/tenants", &tenant).status, 401);
    assert_eq!(joe.post("/v1/nothing", &tenant).status, 404, "it is no refusal");
    let (_, log) = server.stop();
    let lines = lines(&log);
    let with = |message: &str| {
        lines.iter().filter(|line| line["message"] == message).cloned().collect::<Vec<_>>()
    };
    let logins: Vec<_> =
        with("login refused").iter().map(|it| (it["name"].clone(), it["level"].clone())).collect();
    assert_eq!(logins, [(json!("admin"), json!("INFO")), (json!(null), json!("INFO"))], "{log}");
    let refused = with("request refused");
    let routes: Vec<_> = refused.iter().map(|it| it["route"].as_str().unwrap()).collect();
    assert_eq!(routes, [who, who, "/1.0/kb/tenants"], "{log}");
    let changed = with("rights or secrets were changed");
    let last = changed.last().unwrap();
    assert_eq!((&last["command"], &last["user"]), (&json!("CreateUser"), &json!("admin")), "{log}");
    for secret in ["hunter2", "right", "wrong"] {
        assert!(!log.contains(&format!("\"{secret}\"")), "{secret}: {log}");
    }
}

#[test]
fn a_callback_that_receives_nothing_is_one_line() {
    let server = Server::start();
    let client = server.tenant();
    // Nobody listens there.
    let callback = "/1.0/kb/tenants/registerNotificationCallback?cb=http://127.0.0.1:9/";
    assert_eq!(client.send("POST", callback, None).status, 201);
    account(&client, "__EXTERNAL_PAYMENT__");
    eventually("three tries", || {
        let tries = client.get("/v1/webhooks/deliveries?status=failed").json();
        (tries["deliveries"].as_array().unwrap().len() >= 3).then_some(())
    });
    let (_, log) = server.stop();
    let lines: Vec<&str> =
        log.lines().filter(|it| it.contains("does not reach a webhook endpoint")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("endpoint=callback"), "{lines:?}");
    assert!(lines[0].contains("Connection refused"), "{lines:?}");
}
