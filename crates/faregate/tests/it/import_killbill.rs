//! `faregate import killbill`: another server is the source, or exports are.

use std::path::Path;
use std::process::Stdio;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::client::Client;
use crate::process::{Launch, Server, TempDir, eventually, faregate, run};

/// Exports of two accounts, with every status, and currencies of no decimals to four.
const SHOP: &str = include_str!("shop.export");
const PLUGIN: &str = "faregate-simulator";
const ANN: &str = "0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1a01";
/// The paths of an account and of its own objects, below the account; each is read with its audit.
const PARTS: [&str; 6] = [
    "",
    "/paymentMethods?includedDeleted=true&withPluginInfo=true",
    "/payments?withPluginInfo=false",
    "/emails?",
    "/allTags?",
    "/allCustomFields?",
];

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Runs an import, and gives its exit code and its report.
fn import(arguments: &[&str], target: &Path) -> (Option<i32>, Value) {
    import_into(arguments, &["--data-dir", target.to_str().unwrap()])
}

/// Runs an import into what `place` names, and gives its exit code and its report.
fn import_into(arguments: &[&str], place: &[&str]) -> (Option<i32>, Value) {
    let output = run(&[&["import", "killbill", "--json"], arguments, place].concat());
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| json!(String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}

fn verify(data: &Path) {
    let output = run(&["verify", "--data-dir", data.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Makes an account with one of everything.
fn fill(client: &Client, definition: &str, n: usize) {
    let new = json!({ "name": "Ann", "externalKey": format!("ann-{n}"), "currency": "USD" });
    let account = client.create("/1.0/kb/accounts", &new);
    let account = format!("/1.0/kb/accounts/{}", text(&account["accountId"]));
    let methods = format!("{account}/paymentMethods");
    let plugin =
        json!({ "externalPaymentMethodId": "tok_1", "properties": [{ "key": "k", "value": "v" }] });
    let method =
        json!({ "pluginName": PLUGIN, "externalKey": format!("card-{n}"), "pluginInfo": plugin });
    client.create(&format!("{methods}?isDefault=true"), &method);
    let other = client.create(&methods, &json!({ "pluginName": PLUGIN, "pluginInfo": {} }));
    let other = format!("/1.0/kb/paymentMethods/{}", text(&other["paymentMethodId"]));
    assert_eq!(client.delete(&other).status, 204);
    let ok = |path: &str, body: &Value| {
        let answer = client.post(path, body);
        assert!(answer.status < 300, "{path}: {}", answer.text());
    };
    ok(&format!("{account}/emails"), &json!({ "email": "second@example.org" }));
    ok(&format!("{account}/tags"), &json!([definition, "00000000-0000-0000-0000-000000000001"]));
    ok(&format!("{account}/customFields"), &json!([{ "name": "color", "value": "blue" }]));
    let changed = json!({ "name": "Anna", "notes": "moved" });
    assert_eq!(client.put(&account, &changed).status, 204);
    let pay = |kind: &str, amount: Value, currency: &str, outcome: &str| {
        let body = json!({ "transactionType": kind, "amount": amount, "currency": currency });
        let answer =
            client.post(&format!("{account}/payments?pluginProperty=outcome%3D{outcome}"), &body);
        let location = answer.header("location").map(str::to_owned);
        let path = location.unwrap_or_default();
        format!("/1.0/kb/payments/{}", path.trim_end_matches('/').rsplit('/').next().unwrap())
    };
    let payment = pay("AUTHORIZE", json!(100), "USD", "PROCESSED");
    ok(&payment, &json!({ "amount": 30.5 }));
    ok(&format!("{payment}/refunds"), &json!({ "amount": 10.25 }));
    ok(&format!("{payment}/tags"), &json!([definition]));
    ok(&format!("{payment}/customFields"), &json!([{ "name": "order", "value": "77" }]));
    let payment = pay("AUTHORIZE", json!(7), "USD", "PROCESSED");
    assert_eq!(client.send("DELETE", &payment, Some(b"{}")).status, 204);
    let payment = pay("PURCHASE", json!(1000), "JPY", "PROCESSED");
    let key = format!("chargeback-{n}");
    let taken = json!({ "amount": 400, "currency": "JPY", "transactionExternalKey": key });
    ok(&format!("{payment}/chargebacks"), &taken);
    ok(&format!("{payment}/chargebackReversals"), &json!({ "transactionExternalKey": key }));
    pay("PURCHASE", json!(1.234), "KWD", "PROCESSED");
    for outcome in ["ERROR", "PENDING", "NULL", "CANCEL"] {
        pay("PURCHASE", json!(5), "USD", outcome);
    }
    pay("CREDIT", json!(3), "USD", "PROCESSED");
}

/// A server with a tenant `bob` of two accounts that have one of everything.
fn source() -> (Server, Client) {
    let server = Server::start();
    let client = server.tenant();
    let definition = json!({
        "name": "vip", "description": "pays at once", "applicableObjectTypes": ["ACCOUNT", "PAYMENT"],
    });
    let made = client.post("/1.0/kb/tagDefinitions", &definition);
    let definition = made.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
    let client = client.header("X-Killbill-Reason", "because");
    (0..2).for_each(|n| fill(&client, &definition, n));
    (server, client)
}

/// The answers about all accounts, without the numbers of payments, which each installation counts itself.
fn seen(client: &Client) -> Vec<Value> {
    let accounts = client.get("/1.0/kb/accounts/pagination?limit=1000").json();
    let mut ids: Vec<_> =
        accounts.as_array().unwrap().iter().map(|it| text(&it["accountId"]).to_owned()).collect();
    ids.sort();
    let mut seen = vec![];
    for id in ids {
        for part in PARTS {
            let path = format!("/1.0/kb/accounts/{id}{part}");
            let joined = if part.is_empty() { "?" } else { "&" };
            let mut answer = client.get(&format!("{path}{joined}audit=FULL")).json();
            for payment in answer.as_array_mut().into_iter().flatten() {
                payment.as_object_mut().unwrap().remove("paymentNumber");
            }
            seen.push(answer);
        }
    }
    seen
}

/// A file with a password that only its owner reads.
fn password_file(dir: &TempDir) -> String {
    let file = dir.path().join("password");
    std::fs::write(&file, "password\n").unwrap();
    file.to_str().unwrap().to_owned()
}

fn at<'a>(server: &'a Server, file: &'a str) -> [&'a str; 6] {
    ["--url", &server.url, "--password-file", file, "--tenant", "bob:lazar"]
}

#[test]
fn clients_see_the_same_after_an_import_from_the_api() {
    let (server, client) = source();
    let dir = TempDir::new();
    let (password, target) = (password_file(&dir), dir.path().join("data"));
    let (code, report) = import(&at(&server, &password), &target);
    assert_eq!((code, &report["equal"]), (Some(0), &json!(true)), "{report:#}");
    assert_eq!(report["accounts"], json!({ "source": 2, "new": 2, "refused": 0 }));
    assert_eq!(report["payments"], json!({ "source": 18, "new": 18, "refused": 0 }));
    verify(&target);
    let (code, report) = import(&at(&server, &password), &target);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["accounts"]["new"], 0);
    assert_eq!(report["payments"]["new"], 0);
    verify(&target);
    let before = seen(&client);
    let imported = Server::start_in(&target, Launch::usual());
    let client = imported.client().tenant("bob", "lazar");
    for (before, after) in before.iter().zip(seen(&client)) {
        assert_eq!(*before, after);
    }
    let events = client.get("/v1/events?after=0").json();
    assert_eq!(events["events"], json!([]), "nobody is notified of what was brought over");
}

/// An import into a database server, with what clients see of it there; `place` names the database and a data
/// directory.
pub fn check_on_a_server(place: &[&str], launch: impl Fn() -> Server) {
    let (server, client) = source();
    let dir = TempDir::new();
    let password = password_file(&dir);
    for new in [2, 0] {
        let (code, report) = import_into(&at(&server, &password), place);
        assert_eq!((code, &report["equal"]), (Some(0), &json!(true)), "{report:#}");
        assert_eq!(report["accounts"], json!({ "source": 2, "new": new, "refused": 0 }));
    }
    let before = seen(&client);
    let imported = launch();
    let after = seen(&imported.client().tenant("bob", "lazar"));
    assert_eq!(before, after);
}

#[test]
fn users_come_with_their_roles_and_those_without_are_left_out() {
    let (server, client) = source();
    let role = json!({ "role": "payer", "permissions": ["account:create", "payment:trigger"] });
    assert_eq!(client.post("/1.0/kb/security/roles", &role).status, 201);
    for (name, roles) in [("ann", json!(["payer"])), ("ben", json!([]))] {
        let user = json!({ "username": name, "password": "of the source", "roles": roles });
        assert_eq!(client.post("/1.0/kb/security/users", &user).status, 201);
    }
    let dir = TempDir::new();
    let (password, target) = (password_file(&dir), dir.path().join("data"));
    let users = dir.path().join("users");
    std::fs::write(&users, "ann:a password for here\n\nben:another\n").unwrap();
    let named = [&at(&server, &password)[..], &["--users", users.to_str().unwrap()]].concat();
    for _ in 0..2 {
        let (code, report) = import(&named, &target);
        assert_eq!((code, &report["equal"]), (Some(1), &json!(false)), "{report:#}");
        assert_eq!(report["users"], 2);
        assert_eq!(report["leftOut"], json!(["user ben: has no roles in the source"]));
    }
    let imported = Server::start_in(&target, Launch::usual());
    let client = imported.client().tenant("bob", "lazar");
    let roles = client.get("/1.0/kb/security/users/ann/roles").json();
    assert_eq!(roles["roles"], json!(["payer"]));
    let role = client.get("/1.0/kb/security/roles/payer").json();
    assert_eq!(role["permissions"], json!(["account:create", "payment:trigger"]));
    let status = |user: &str, password: &str| {
        let client = Client::new(&imported.url).user(user, password).tenant("bob", "lazar");
        client.get("/1.0/kb/security/permissions").status
    };
    assert_eq!(status("ann", "a password for here"), 200);
    assert_eq!(status("ann", "of the source"), 401);
    assert_eq!(status("ben", "another"), 401);

    std::fs::write(&users, "nobody:a password\n").unwrap();
    let (code, report) = import(&named, &dir.path().join("more"));
    let said = format!("{}, line 1: user nobody: status 400 Bad Request", users.display());
    assert_eq!((code, report.to_string().contains(&said)), (Some(2), true), "{report}");
}

#[test]
fn what_was_imported_goes_on_here() {
    let (server, _) = source();
    let dir = TempDir::new();
    let (password, target) = (password_file(&dir), dir.path().join("data"));
    assert_eq!(import(&at(&server, &password), &target).0, Some(0));
    let imported = Server::start_in(&target, Launch::usual());
    let client = imported.client().tenant("bob", "lazar");
    let account = client.get("/1.0/kb/accounts?externalKey=ann-0").json();
    let account = format!("/1.0/kb/accounts/{}", text(&account["accountId"]));
    let payments = client.get(&format!("{account}/payments")).json();
    let captured = |it: &&Value| it["capturedAmount"] == json!(30.5);
    let payment = payments.as_array().unwrap().iter().find(captured).unwrap();
    let refunds = format!("/1.0/kb/payments/{}/refunds", text(&payment["paymentId"]));
    let too_much = client.post(&refunds, &json!({ "amount": 20.26 }));
    assert_eq!((too_much.status, &too_much.json()["code"]), (400, &json!(7031)));
    assert_eq!(client.post(&refunds, &json!({ "amount": 20.25 })).status, 201);
    let body = json!({ "transactionType": "PURCHASE", "amount": 5, "currency": "USD" });
    assert_eq!(client.post(&format!("{account}/payments"), &body).status, 201);
    let erased = client.post(&format!("{}/erase", account.replace("/1.0/kb", "/v1")), &json!({}));
    assert!(erased.status < 300, "{}", erased.text());
    let audit = client.get(&format!("{account}?audit=FULL")).text();
    assert!(!audit.contains("because"), "{audit}");
    drop(client);
    imported.stop();
    verify(&target);
}

/// A directory with one tenant's file.
fn dump_dir(dir: &TempDir, text: &str) -> String {
    let dump = dir.path().join("dump");
    std::fs::create_dir_all(&dump).unwrap();
    std::fs::write(dump.join("shop.export"), text).unwrap();
    dump.to_str().unwrap().to_owned()
}

#[test]
fn exports_with_every_status_and_currency_are_brought_over() {
    let dir = TempDir::new();
    let (dump, target) = (dump_dir(&dir, SHOP), dir.path().join("data"));
    let arguments = ["--dump", &dump, "--tenant", "shop:secret"];
    let (code, report) = import(&arguments, &target);
    assert_eq!(code, Some(0), "{report:#}");
    let row = |it: &Value| {
        let field = |name: &str| it[name].to_string().replace('"', "");
        let names = ["currency", "type", "status", "countHere", "amountHere"];
        names.map(field).join(" ")
    };
    let rows: Vec<_> = report["sums"].as_array().unwrap().iter().map(row).collect();
    expect![[r#"
        CLF CREDIT SUCCESS 1 3.1234
        EUR AUTHORIZE PENDING 1 8.50
        JPY PURCHASE PLUGIN_FAILURE 2 0
        JPY PURCHASE SUCCESS 1 500
        JPY PURCHASE UNKNOWN 1 0
        KWD PURCHASE SUCCESS 1 1.234
        KWD CHARGEBACK SUCCESS 1 1.000
        KWD CHARGEBACK_REVERSAL SUCCESS 1 1.000
        USD AUTHORIZE SUCCESS 1 100.00
        USD CAPTURE PAYMENT_FAILURE 1 0.00
        USD CAPTURE SUCCESS 1 40.00
        USD REFUND SUCCESS 1 10.25"#]]
    .assert_eq(&rows.join("\n"));
    assert_eq!(report["open"].as_array().unwrap().len(), 2, "{report:#}");
    verify(&target);
    let server = Server::start_in(&target, Launch::usual());
    let client = server.client().tenant("shop", "secret");
    let account = client.get(&format!("/1.0/kb/accounts/{ANN}?audit=FULL")).json();
    let shown = |path: &str| account.pointer(path).unwrap().to_string();
    let paths = ["/name", "/notes", "/address1", "/billCycleDayLocal", "/auditLogs/1/changedBy"];
    expect![[r#"
        "Ann \"A\" Lee"
        "two\nlines"
        "Main | Street 1"
        15
        "dave""#]]
    .assert_eq(&paths.map(shown).join("\n"));
    let payments = client.get(&format!("/1.0/kb/accounts/{ANN}/payments")).json();
    let transactions = payments[0]["transactions"].as_array().unwrap();
    let types: Vec<_> = transactions.iter().map(|it| text(&it["transactionType"])).collect();
    assert_eq!(types, ["AUTHORIZE", "CAPTURE", "CAPTURE", "REFUND"]);
}

#[test]
fn payments_in_retired_currencies_are_brought_over_and_no_payment_begins_in_one() {
    let dir = TempDir::new();
    let retired =
        SHOP.replace("|USD|", "|ANG|").replace("|JPY|", "|BYR|").replace("|EUR|", "|LTL|");
    let (dump, target) = (dump_dir(&dir, &retired), dir.path().join("data"));
    let (code, report) = import(&["--dump", &dump, "--tenant", "shop:secret"], &target);
    assert_eq!((code, &report["leftOut"]), (Some(0), &json!([])), "{report:#}");
    let server = Server::start_in(&target, Launch::usual());
    let client = server.client().tenant("shop", "secret");
    let account = format!("/1.0/kb/accounts/{ANN}");
    assert_eq!(client.get(&account).json()["currency"], "ANG");
    let payment = &client.get(&format!("{account}/payments")).json()[0];
    let shown =
        ["currency", "authAmount", "capturedAmount", "refundedAmount"].map(|it| &payment[it]);
    assert_eq!(shown, [&json!("ANG"), &json!(100.0), &json!(40.0), &json!(10.25)]);
    let text_only = client.clone().header("Accept", "text/plain");
    let exported = text_only.get(&format!("/1.0/kb/export/{ANN}")).text();
    let is_it = |line: &str| line.contains("|order-1-a|") && line.contains("|ANG|");
    assert!(exported.lines().any(is_it), "{exported}");
    // What was begun goes on.
    let chargebacks = format!("/1.0/kb/payments/{}/chargebacks", text(&payment["paymentId"]));
    let taken = json!({ "amount": 5, "currency": "ANG" });
    assert_eq!(client.post(&chargebacks, &taken).status, 201);
    for (currency, said) in [
        (json!(null), "currency: ANG is retired: XCG is its successor"),
        (json!("BYR"), "currency: BYR is retired: BYN is its successor"),
    ] {
        let body = json!({ "transactionType": "PURCHASE", "amount": 5, "currency": currency });
        let refused = client.post(&format!("{account}/payments"), &body);
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.text().contains(said), "{}", refused.text());
    }
    drop(client);
    server.stop();
    verify(&target);
}

/// Imports a changed file, and shows the exit code with what is said.
fn check(export: &str, expected: Expect) {
    let dir = TempDir::new();
    let (dump, target) = (dump_dir(&dir, export), dir.path().join("data"));
    let (code, report) = import(&["--dump", &dump, "--tenant", "shop:secret"], &target);
    let said = match report.as_str() {
        Some(error) => error.replace(dump.as_str(), "DIR").trim().to_owned(),
        None => {
            let lines = ["differences", "leftOut"].map(|it| report[it].as_array().unwrap().clone());
            lines.concat().iter().map(text).collect::<Vec<_>>().join("\n")
        }
    };
    let said: Vec<_> = said.lines().filter(|it| !it.contains(" INFO ")).collect();
    expected.assert_eq(&format!("{}: {}", code.unwrap(), said.join("\n")));
    if target.exists() {
        verify(&target);
    }
}

#[test]
fn a_file_that_is_cut_in_the_middle_is_refused_as_a_whole() {
    check(
        &SHOP[..SHOP.len() / 2],
        expect!["2: faregate: cannot read DIR/shop.export: line 21: the file ends within a line"],
    );
    let open = SHOP.replacen("\"two\\nlines\"", "\"two", 1);
    check(
        &open,
        expect!["2: faregate: cannot read DIR/shop.export: line 2: the file ends within quotes"],
    );
}

#[test]
fn an_id_that_is_there_twice_is_refused_as_a_whole() {
    let twice = SHOP.replacen(
        "|0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1c02|0d8c",
        "|0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1c01|0d8c",
        1,
    );
    check(
        &twice,
        expect![
            "2: faregate: cannot read DIR/shop.export: payments 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1c01: id: is there twice"
        ],
    );
}

#[test]
fn a_record_that_cannot_be_brought_over_is_named_and_the_others_are_brought() {
    let cases = [
        (
            "REFUND|2020-03-03 00:00:00.0|SUCCESS|10.250000000|USD|10.250000000",
            "REFUND|2020-03-03 00:00:00.0|SUCCESS|50.000000000|USD|50.000000000",
        ),
        ("|500.000000000|JPY|500.000000000|", "|500.500000000|JPY|500.500000000|"),
        ("|JPY|0|", "|XYZ|0|"),
        ("|Bob||", "|4111 1111 1111 1111||"),
        ("|CREDIT|", "|GIFT|"),
        ("order-6|CREDIT", "order-5|CREDIT"),
    ];
    let said = cases.map(|(before, after)| {
        assert!(SHOP.contains(before), "{before}");
        SHOP.replacen(before, after, 1)
    });
    let [sum, decimals, currency, card, kind, key] = said;
    check(
        &sum,
        expect![
            "1: payment 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1c01: amount: the sums of the transactions do not fit"
        ],
    );
    check(
        &decimals,
        expect![
            "1: transaction 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1d08: amount: 500.500000000: more decimals than the currency has (0)"
        ],
    );
    check(
        &currency,
        expect!["1: account 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1a02: currency: is no currency"],
    );
    check(
        &card,
        expect!["1: account 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1a02: name: looks like a card number"],
    );
    check(
        &kind,
        expect![
            "1: transaction 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1d13: transaction_type: is unknown"
        ],
    );
    check(
        &key,
        expect!["1: payment 0d8c1b54-57a1-4d3a-9d0a-3a8d0b2f1c06: externalKey: order-5 is taken"],
    );
}

/// The exports of many accounts: the first of [`SHOP`], under other ids and keys.
fn many(accounts: usize) -> String {
    let mut all = String::new();
    for n in 0..accounts {
        let own = SHOP
            .replace("0d8c1b54-57a1", &format!("{:08x}-57a1", 0x1000_0000 + n))
            .replace("|order-", &format!("|order-{n}-"))
            .replace("|card-", &format!("|card-{n}-"))
            .replace("|ann|", &format!("|ann-{n}|"))
            .replace("|bob|", &format!("|bob-{n}|"));
        let vip = "57a1-4d3a-9d0a-3a8d0b2f1f01";
        let first = "10000000-";
        all.push_str(
            &own.replace(&format!("{:08x}-{vip}", 0x1000_0000 + n), &format!("{first}{vip}")),
        );
    }
    // The definition is there once.
    let line = "1|10000000-57a1-4d3a-9d0a-3a8d0b2f1f01|vip";
    let (before, after) = all.split_once(line).unwrap();
    let others: Vec<_> = after.lines().filter(|it| !it.starts_with(line)).collect();
    format!("{before}{line}{}\n", others.join("\n"))
}

/// How many bytes the database and its log have.
fn written(data: &Path) -> u64 {
    let files = ["faregate.db", "faregate.db-wal"].map(|it| data.join(it));
    files.iter().filter_map(|it| it.metadata().ok()).map(|it| it.len()).sum()
}

#[test]
fn an_import_that_is_killed_twenty_times_ends_as_one_that_is_not() {
    let dir = TempDir::new();
    let dump = dump_dir(&dir, &many(100));
    let (whole, killed) = (dir.path().join("whole"), dir.path().join("killed"));
    let arguments = ["--dump", &dump, "--tenant", "shop:secret"];
    let (code, report) = import(&arguments, &whole);
    assert_eq!(code, Some(0), "{report:#}");
    for _ in 0..20 {
        let data = killed.to_str().unwrap();
        let options = ["--json", "--data-dir", data];
        let mut command = faregate(&[&["import", "killbill"], &arguments[..], &options].concat());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let before = written(&killed);
        let mut child = command.spawn().unwrap();
        // It is killed in the middle of its writing, until nothing is left to be written.
        eventually("it writes or ends", || {
            let writes = written(&killed) > before + 200_000;
            (writes || child.try_wait().unwrap().is_some()).then_some(())
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (code, report) = import(&arguments, &killed);
    assert_eq!(code, Some(0), "{report:#}");
    let new = report["payments"]["new"].as_u64().unwrap();
    assert!(new < 600, "something was brought before: {report:#}");
    verify(&killed);
    let see = |data: &Path| {
        let server = Server::start_in(data, Launch::usual());
        seen(&server.client().tenant("shop", "secret"))
    };
    assert_eq!(see(&whole), see(&killed));
}

#[test]
fn a_dry_run_writes_nothing() {
    let dir = TempDir::new();
    let (dump, target) = (dump_dir(&dir, SHOP), dir.path().join("data"));
    let (code, report) = import(&["--dump", &dump, "--dry-run"], &target);
    assert_eq!((code, &report["dryRun"]), (Some(0), &json!(true)), "{report:#}");
    assert_eq!(report["payments"]["source"], 6);
    assert!(!target.exists());
}
