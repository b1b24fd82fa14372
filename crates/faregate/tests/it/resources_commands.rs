//! `faregate tenants|accounts|payments|events` against a running server, and what they say where
//! something is wrong.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output, Stdio};

use expect_test::expect;
use secrets::webhook::{Headers, Secret};
use serde_json::Value;

use crate::process::{Launch, Server, TempDir, faregate};
use crate::webhook_receiver::Receiver;

/// A command as the administrator, of no tenant.
fn command(server: &Server, arguments: &[&str]) -> Command {
    let mut command = faregate(arguments);
    command.args(["--url", &server.url]).env("FAREGATE_PASSWORD", "password");
    // Profiles of the user who runs the tests do not count.
    command.env("FAREGATE_PROFILES", "/nowhere/profiles.toml");
    command
}

fn ended(output: &Output) -> (Option<i32>, String) {
    let said = String::from_utf8([&*output.stdout, &*output.stderr].concat()).unwrap();
    (output.status.code(), said)
}

/// A tenant that the command line made.
pub struct Tenant<'a> {
    pub server: &'a Server,
    pub secret: String,
}

impl Tenant<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(self.server, arguments);
        command.envs([("FAREGATE_API_KEY", "shop"), ("FAREGATE_API_SECRET", &self.secret)]);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        ended(&self.command(arguments).output().unwrap())
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(&[arguments, &["--json"]].concat()).output().unwrap();
        let (code, said) = ended(&output);
        assert_eq!(code, Some(0), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

pub fn tenant(server: &Server) -> Tenant<'_> {
    let made = command(server, &["tenants", "create", "--key", "shop", "--json"]).output().unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    Tenant { server, secret: made["apiSecret"].as_str().unwrap().to_owned() }
}

/// The id of an account that can pay.
pub fn paying_account(tenant: &Tenant<'_>) -> String {
    let account = tenant.json(&["accounts", "create", "--name", "Ada", "--currency", "USD"]);
    let account = account["accountId"].as_str().unwrap();
    let gateway = ["--gateway", "__EXTERNAL_PAYMENT__", "--default"];
    tenant.json(&[&["payment-methods", "create", account][..], &gateway].concat());
    account.to_owned()
}

#[test]
fn a_payment_is_taken_and_refunded_without_another_client() {
    let server = Server::start();
    let tenant = tenant(&server);
    let account = &paying_account(&tenant);
    let payment = tenant.json(&["payments", "create", account, "--amount", "12.50"]);
    let payment = payment["paymentId"].as_str().unwrap();
    let refunded = tenant.json(&["payments", "refund", payment, "--amount", "2.5"]);
    assert_eq!(
        (&refunded["purchasedAmount"], &refunded["refundedAmount"]),
        (&12.5.into(), &2.5.into())
    );
    assert_eq!(tenant.run(&["accounts", "close", account]).0, Some(0));
    let (code, said) = tenant.run(&["payments", "create", account, "--amount", "1"]);
    assert_ne!(code, Some(0), "the account is closed");
    assert!(said.contains("is block on this account"), "{said}");
    let (code, said) = tenant.run(&["payments", "ls"]);
    let last = &tenant.json(&["payments", "show", payment])["transactions"][1]["effectiveDate"];
    let shown = said.replace(payment, "PAYMENT").replace(last.as_str().unwrap(), "DATE");
    assert_eq!(code, Some(0), "{said}");
    expect![[r#"
        ID                                    AT                        CUSTOMER  AUTHORIZED  CAPTURED  PURCHASED  REFUNDED  CURRENCY  LAST    STATUS
        PAYMENT  DATE  Ada       0.00        0.00      12.50      2.50      USD       REFUND  SUCCESS
    "#]]
    .assert_eq(&shown);
    assert_eq!(tenant.json(&["payments", "ls", "--limit", "1"]).as_array().unwrap().len(), 1);
    assert_eq!(tenant.json(&["payments", "find", account]), tenant.json(&["payments", "ls"]));
    assert_eq!(tenant.json(&["payments", "find", "PURCHASE_FAILED"]), serde_json::json!([]));
    for exactly in [&["payments", "ls", "--json"][..], &["payments", "show", payment, "--json"]] {
        let (_, said) = tenant.run(exactly);
        assert!(said.contains("\"purchasedAmount\":12.50,"), "{said}");
    }
}

#[test]
fn the_ledger_is_shown() {
    let server = Server::start();
    let tenant = tenant(&server);
    let account = &paying_account(&tenant);
    let without = tenant.json(&["accounts", "create", "--name", "Eve", "--currency", "USD"]);
    let without = without["accountId"].as_str().unwrap();
    let pay = |account: &str, more: &[&str]| {
        tenant.run(&[&["payments", "create", account, "--amount", "12.50"], more].concat())
    };
    assert_eq!(pay(account, &["--reason", "by phone"]).0, Some(0));
    let (_, said) = tenant.run(&["ledger", "entries", "--account", account]);
    let entry = said.lines().nth(1).unwrap();
    let shown: Vec<&str> = entry.split_whitespace().skip(1).take(4).collect();
    let debit = "gateway:__EXTERNAL_PAYMENT__";
    assert_eq!(shown, [debit, &format!("customer:{account}"), "12.50", "USD"], "{said}");
    let balances = tenant.json(&["ledger", "balances"]);
    assert!(balances.as_array().unwrap().iter().any(|it| it["balance"] == "12.50"), "{balances}");
    let (code, said) = pay(without, &[]);
    let advice = "name one by --method, or make one: faregate payment-methods create ACCOUNT";
    assert!(code == Some(1) && said.contains(advice), "{said}");
}

#[test]
fn users_and_roles_are_made_by_a_new_password_in_a_file() {
    let server = Server::start();
    let dir = TempDir::new();
    let file = dir.path().join("password");
    std::fs::write(&file, "joes password\n").unwrap();
    let file = file.to_str().unwrap();
    let run = |arguments: &[&str]| ended(&command(&server, arguments).output().unwrap());
    let done = |arguments: &[&str]| {
        let (code, said) = run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        said
    };
    done(&["roles", "create", "--name", "clerks", "--permissions", "payment:trigger, tag"]);
    assert!(done(&["roles", "ls"]).contains("clerks"), "it is listed");
    let role = done(&["roles", "show", "clerks", "--json"]);
    assert!(role.contains(r#"["payment:trigger","tag:*"]"#), "{role}");
    done(&["roles", "set", "--name", "clerks", "--permissions", "payment:refund"]);
    let create = ["users", "create", "--name", "joe", "--new-password-file", file];
    done(&[&create[..], &["--roles", "clerks"]].concat());
    let shown = done(&["users", "show", "joe"]);
    assert!(shown.contains(r#"["clerks"]"#), "{shown}");
    done(&["users", "set-roles", "joe", "--roles", "clerks,others"]);
    std::fs::write(file, "another password").unwrap();
    done(&["users", "set-password", "joe", "--new-password-file", file]);
    let joe = server.client().user("joe", "another password").get("/1.0/kb/security/permissions");
    assert_eq!(joe.text(), r#"["payment:refund"]"#);
    done(&["users", "delete", "joe"]);
    let listed = done(&["users", "ls", "--json"]);
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    let joe = listed.iter().find(|it| it["username"] == "joe").unwrap();
    assert_eq!((&joe["active"], &joe["roles"]), (&false.into(), &["clerks", "others"].into()));
    assert!(done(&["users", "ls"]).contains("admin"), "it is listed");
    assert_eq!(run(&["users", "show", "joe"]).0, Some(1));
    let (code, said) = run(&["users", "set-password", "joe", "--new-password-file", "/nowhere"]);
    assert!(code == Some(2) && said.contains("cannot read /nowhere"), "{said}");
}

#[test]
fn tags_fields_and_methods_of_an_account_are_listed_and_changed() {
    let server = Server::start();
    let tenant = tenant(&server);
    let account = &paying_account(&tenant);
    let done = |arguments: &[&str]| {
        let (code, said) = tenant.run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        said
    };
    let vip = ["--name", "vip", "--description", "good customer", "--applies-to", "ACCOUNT"];
    tenant.json(&[&["tags", "create"][..], &vip].concat());
    for definition in ["AUTO_PAY_OFF", "vip"] {
        done(&["tags", "add", account, definition, "--reason", "by phone"]);
    }
    assert_eq!(tenant.json(&["tags", "show", account]).as_array().unwrap().len(), 2);
    assert_eq!(tenant.json(&["tags", "ls"]).as_array().unwrap().len(), 2);
    assert!(done(&["tags", "definitions"]).contains("good customer"));
    done(&["tags", "remove", account, "vip"]);
    assert!(!done(&["tags", "show", account]).contains("vip"));
    done(&["tags", "delete", "vip"]);

    done(&["fields", "create", account, "--name", "colour", "--value", "light blue"]);
    let field = tenant.json(&["fields", "show", account])[0]["customFieldId"].clone();
    let field = field.as_str().unwrap();
    done(&["fields", "set", account, "--field", field, "--value", "red"]);
    assert!(done(&["fields", "ls"]).contains("red"));
    assert_eq!(tenant.json(&["fields", "find", "red"]).as_array().unwrap().len(), 1);
    done(&["fields", "delete", account, field]);
    assert_eq!(tenant.json(&["fields", "show", account]), serde_json::json!([]));

    let methods = tenant.json(&["methods", "ls", account]);
    let method = methods[0]["paymentMethodId"].as_str().unwrap();
    assert_eq!(tenant.json(&["methods", "show", method])["isDefault"], true);
    assert_eq!(tenant.run(&["methods", "delete", method]).0, Some(1), "it is the default");
    done(&["methods", "set-default", account, method]);
    done(&["methods", "delete", method, "--even-if-default"]);
    assert_eq!(tenant.json(&["methods", "ls", account]), serde_json::json!([]));
}

#[test]
fn the_test_clock_is_set_and_advanced() {
    let server = Server::start();
    let tenant = tenant(&server);
    let now = |arguments: &[&str]| {
        let clock = tenant.json(&[&["clock"][..], arguments].concat());
        clock["currentUtcTime"].as_str().unwrap()[..10].to_owned()
    };
    assert_eq!(now(&["set", "2030-01-31"]), "2030-01-31");
    assert_eq!(now(&["advance", "30d"]), "2030-03-02");
    assert_eq!(now(&["advance", "1y"]), "2031-03-02");
    assert_eq!(now(&["show"]), "2031-03-02");
    assert!(now(&["reset"]).as_str() < "2030", "the real time");
    let (code, said) = tenant.run(&["clock", "advance", "30"]);
    let expected = "30: a number with d, w, m or y was expected, such as 30d for 30 days";
    assert!(code == Some(2) && said.contains(expected), "{said}");
}

#[test]
fn a_payment_in_doubt_is_resolved_and_explained() {
    let launch = Launch::usual().env("FAREGATE_RESOLVER_UNKNOWN_DELAYS", "1h");
    let server = Server::start_with(launch);
    let tenant = tenant(&server);
    let account = tenant.json(&["accounts", "create", "--name", "Ada", "--currency", "USD"]);
    let account = account["accountId"].as_str().unwrap();
    let gateway = ["--gateway", "killbill-payment-test", "--default"];
    tenant.json(&[&["methods", "create", account][..], &gateway].concat());
    let client = server.client().tenant("shop", &tenant.secret);
    let path = format!("/1.0/kb/accounts/{account}/payments?pluginProperty=outcome%3DUNDEFINED");
    let purchase = serde_json::json!({ "transactionType": "PURCHASE", "amount": "12.50" });
    assert_eq!(client.post(&path, &purchase).status, 503);
    let payment = tenant.json(&["payments", "ls"])[0].clone();
    let id = payment["paymentId"].as_str().unwrap();
    let transaction = payment["transactions"][0]["transactionId"].as_str().unwrap();
    let resolve = ["payments", "resolve", id, transaction, "--status", "SUCCESS"];
    let (code, said) = tenant.run(&[&resolve[..], &["--reason", "on the bank statement"]].concat());
    assert_eq!((code, said.as_str()), (Some(0), "done\n"));

    let (code, said) = tenant.run(&["explain", "payment", id]);
    assert_eq!(code, Some(0), "{said}");
    let explained = tenant.json(&["explain", "payment", id]);
    let steps = explained["steps"].as_array().unwrap();
    let journal: Vec<i64> = steps.iter().map(|it| it["journal"].as_i64().unwrap()).collect();
    assert!(journal.is_sorted() && journal[0] > 0, "{journal:?}");
    let what: Vec<&str> = steps.iter().map(|it| it["what"].as_str().unwrap()).collect();
    expect![[r#"
        payment begins
        PURCHASE 12.50 USD begins
        payment is PURCHASE_ERRORED
        PURCHASE 12.50 USD is UNKNOWN
        payment is PURCHASE_SUCCESS
        PURCHASE 12.50 USD is SUCCESS
        ledger: 12.50 USD from customer:ACCOUNT to gateway:killbill-payment-test"#]]
    .assert_eq(&what.join("\n").replace(account, "ACCOUNT"));
    let last = steps.iter().rfind(|it| it["reason"] != "").unwrap();
    assert_eq!(last["reason"], "on the bank statement");
    assert!(said.ends_with("now: PURCHASE is SUCCESS\n"), "{said}");
    assert_eq!(tenant.run(&["explain", "payment", account]).0, Some(1), "there is no such payment");
}

/// The server takes the request, and is gone before it answers.
#[test]
fn what_an_account_may_do_is_granted_explained_and_taken_back() {
    let server = Server::start();
    let tenant = tenant(&server);
    let client = server.client().tenant("shop", &tenant.secret);
    let offer = serde_json::json!({
        "name": "Monthly", "features": { "pro": true, "seats": 2 }, "lasts": { "months": 1 },
    });
    crate::entitlements::sell(&client, &offer);
    let account = tenant.json(&["accounts", "create", "--name", "Ada"])["accountId"].clone();
    let account = account.as_str().unwrap();
    let (code, said) = tenant.run(&["entitlements", "explain", account, "seats"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("now: seats is not allowed: not-granted\n"), "{said}");
    let path = format!("/v1/accounts/{account}/purchases");
    let bought = client.post(&path, &serde_json::json!({ "offer": "monthly" })).json();
    let grant = ["entitlements", "grant", account, "--feature", "seats", "--value", "3"];
    let grant = [&grant[..], &["--code", "goodwill", "--idempotency-key", "once"]].concat();
    let granted = tenant.json(&grant);
    assert_eq!(tenant.json(&grant)["grantId"], granted["grantId"]);
    let shown = tenant.json(&["entitlements", "show", account]);
    let seats = shown.as_array().unwrap().iter().find(|it| it["feature"] == "seats").unwrap();
    assert_eq!(seats["value"], 5);
    let (code, said) = tenant.run(&["entitlements", "show", account]);
    assert!(code == Some(0) && said.contains("FEATURE"), "{said}");
    let (code, said) = tenant.run(&["entitlements", "explain", account, "seats"]);
    assert_eq!(code, Some(0), "{said}");
    for part in [
        "by hand: goodwill",
        "ACTIVE: offer monthly version 1",
        bought["purchase"]["purchaseId"].as_str().unwrap(),
        "now: seats is allowed",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let explained = tenant.json(&["entitlements", "explain", account, "seats"]);
    assert_eq!(explained["grants"].as_array().unwrap().len(), 2);
    assert_eq!(explained["purchases"][0]["status"], "ACTIVE");
    let id = granted["grantId"].as_str().unwrap();
    let (code, said) = tenant.run(&["entitlements", "revoke", account, id]);
    assert_eq!((code, said.as_str()), (Some(0), "done\n"));
    assert_eq!(tenant.run(&["entitlements", "revoke", account, id]).0, Some(1));
    let unknown = tenant.run(&["entitlements", "explain", account, "none"]);
    assert!(unknown.0 == Some(1) && unknown.1.contains("feature none"), "{unknown:?}");
}

#[test]
fn a_payment_whose_answer_is_lost_is_sent_again_without_a_second_charge() {
    let server = Server::start();
    let tenant = tenant(&server);
    let account = &paying_account(&tenant);
    let pay = ["payments", "create", account, "--amount", "5", "--idempotency-key", "order-7"];
    let broken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", broken.local_addr().unwrap());
    let breaking = std::thread::spawn(move || {
        let (mut stream, _) = broken.accept().unwrap();
        assert_ne!(stream.read(&mut [0; 4096]).unwrap(), 0);
    });
    let mut command = faregate(&pay);
    command.args(["--url", &url]).envs([("FAREGATE_PASSWORD", "x"), ("FAREGATE_API_KEY", "x")]);
    let (code, said) = ended(&command.env("FAREGATE_API_SECRET", "x").output().unwrap());
    breaking.join().unwrap();
    let advice = "or send the same with --idempotency-key order-7";
    assert!(code == Some(2) && said.contains(advice), "{said}");
    let first = tenant.json(&pay);
    assert_eq!(tenant.json(&pay)["paymentId"], first["paymentId"]);
    assert_eq!(tenant.json(&["payments", "ls"]).as_array().unwrap().len(), 1);
}

#[test]
fn lists_show_all_pages_or_say_that_there_are_more() {
    let server = Server::start();
    let tenant = tenant(&server);
    let client = server.client().tenant("shop", &tenant.secret);
    for n in 0..101 {
        client.create("/1.0/kb/accounts", &serde_json::json!({ "name": format!("n{n}") }));
    }
    let all = tenant.json(&["accounts", "ls", "--limit", "0"]);
    assert_eq!(all.as_array().unwrap().len(), 101);
    let names = |rows: &Value| -> Vec<String> {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let expected: Vec<String> = (0..101).rev().map(|n| format!("n{n}")).collect();
    assert_eq!(names(&all), expected, "the newest first");
    let two = tenant.json(&["accounts", "ls", "--limit", "2"]);
    assert_eq!(names(&two), ["n100", "n99"]);
    let last = two[1]["accountId"].as_str().unwrap();
    let next = tenant.json(&["accounts", "ls", "--limit", "2", "--before", last]);
    assert_eq!(names(&next), ["n98", "n97"]);
    let found = tenant.json(&["accounts", "find", "n9", "--limit", "2"]);
    assert_eq!(names(&found), ["n99", "n98"]);
    let (code, said) = tenant.run(&["accounts", "ls", "--before", "nothing"]);
    assert!(code != Some(0) && said.contains("no row of the list has this id"), "{said}");
    let (code, said) = tenant.run(&["accounts", "ls"]);
    assert_eq!((code, said.lines().count()), (Some(0), 1 + 100 + 1), "{said}");
    assert!(said.ends_with("there are more: --limit N shows N of them, --limit 0 all\n"), "{said}");
}

#[test]
fn events_are_printed_as_they_are_committed() {
    let server = Server::start();
    let tenant = tenant(&server);
    for _ in 0..3 {
        tenant.json(&["accounts", "create", "--name", "before"]);
    }
    let mut tail = tenant.command(&["events", "tail"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    // It begins where it is when it starts: accounts are made until it has.
    let line = std::thread::scope(|scope| {
        let line = scope.spawn(move || lines.next().unwrap().unwrap());
        while !line.is_finished() {
            tenant.json(&["accounts", "create", "--name", "after"]);
        }
        line.join().unwrap()
    });
    tail.kill().unwrap();
    tail.wait().unwrap();
    assert!(line.contains("account.created"), "{line}");
    let (code, all) = tenant.run(&["events", "ls"]);
    assert_eq!((code, all.lines().next().map(|it| it.starts_with("ID"))), (Some(0), Some(true)));
    let id = line.split_whitespace().next().unwrap();
    assert!(all.lines().any(|it| it.starts_with(id)), "{all}");
    let ids = |arguments: &[&str]| -> Vec<String> {
        let (code, said) = tenant.run(&[&["events", "ls", "--json"][..], arguments].concat());
        assert_eq!(code, Some(0), "{said}");
        let events = said.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
        events.map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    let newest_first = ids(&["--limit", "0"]);
    let client = server.client().tenant("shop", &tenant.secret);
    let page = client.get("/v1/events?after=first&limit=1000").json();
    let oldest_first = page["events"].as_array().unwrap().iter().rev();
    let reversed: Vec<&str> = oldest_first.map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(newest_first, reversed);
    assert_eq!(ids(&["--limit", "1"]), newest_first[..1]);
    let before = &newest_first[1];
    assert_eq!(ids(&["--before", before, "--limit", "0"]), newest_first[2..]);
    assert_eq!(ids(&["--before", before, "--limit", "1"]), newest_first[2..3]);
    assert_eq!(ids(&["--before", newest_first.last().unwrap()]), [""; 0]);
    let (code, said) = tenant.run(&["events", "ls", "--before", "evt_1"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--before evt_1: no row of the list has this id"), "{said}");
    let pages = client.get("/v1/events?before=last&limit=1").json();
    let next = pages["next"].as_str().unwrap();
    let second = client.get(&format!("/v1/events?before={next}&limit=1")).json();
    assert_eq!(second["events"][0]["id"], newest_first[1].as_str());
    for wrong in ["before=x", "before=last&after=first"] {
        assert_eq!(client.get(&format!("/v1/events?{wrong}")).status, 400, "{wrong}");
    }
    assert_eq!(tenant.json(&["events", "show", id])["type"], "account.created");
    assert_eq!(tenant.json(&["events", "resend", id])["endpoints"], 0, "there are none");
    assert_ne!(tenant.run(&["events", "show", "evt_1"]).0, Some(0));
}

#[test]
fn events_are_forwarded_to_a_program_and_made_for_it() {
    let server = Server::start();
    let tenant = tenant(&server);
    let program = Receiver::start();
    let arguments = ["listen", "--forward-to", &program.url, "--events", "payment.*"];
    let mut command = tenant.command(&arguments);
    let mut listening = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let signed_with = BufReader::new(listening.stderr.take().unwrap()).lines().next();
    let signed_with = signed_with.unwrap().unwrap();
    let secret = Secret::parse(signed_with.rsplit(' ').next().unwrap()).unwrap();
    let mut lines = BufReader::new(listening.stdout.take().unwrap()).lines();
    let made = tenant.json(&["trigger", "payment.failed"]);
    let line = lines.next().unwrap().unwrap();
    listening.kill().unwrap();
    listening.wait().unwrap();
    assert!(line.contains("payment.failed") && line.ends_with(" 200"), "{line}");
    let received = program.received().remove(0);
    assert_eq!(received.json()["data"]["paymentId"], made["paymentId"]);
    let header = |name: &str| received.headers[name].as_str();
    let headers = Headers {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    let now_s = headers.timestamp.parse().unwrap();
    assert_eq!(secret.verify(headers, received.body.as_bytes(), now_s), Ok(()));
    let (code, said) = tenant.run(&["listen", "--forward-to", &program.url, "--events", "paid"]);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
fn a_reader_that_goes_ends_a_command_quietly() {
    let server = Server::start();
    let tenant = tenant(&server);
    let account = tenant.json(&["accounts", "create", "--name", "Ada"]);
    assert!(account["accountId"].is_string());
    let mut command = tenant.command(&["accounts", "ls"]);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(running.stdout.take());
    let mut said = String::new();
    running.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    running.wait().unwrap();
    assert_eq!(said, "");
}

#[test]
fn wrong_input_and_refusals_say_what_to_change() {
    let server = Server::start();
    let tenant = tenant(&server);
    let account = tenant.json(&["accounts", "create", "--name", "Ada"]);
    let account = account["accountId"].as_str().unwrap();
    let nobody = "00000000-0000-4000-8000-000000000000";
    for (arguments, code, expected) in [
        (
            &["payments", "create", account, "--amount", "ten"][..],
            2,
            "--amount ten: a number was expected, such as 12.50",
        ),
        (
            &["payments", "create", account, "--amount", "-5"],
            2,
            "--amount -5: a number was expected, such as 12.50",
        ),
        (
            &["accounts", "create", "--currency", "usd"],
            1,
            "400 Bad Request: currency: \"usd\" cannot be read as its value",
        ),
        (
            &["payments", "create", account, "--amount", "5"],
            1,
            "400 Bad Request: the account has no default payment method: name one by --method, or make one: \
             faregate payment-methods create ACCOUNT --gateway NAME --default",
        ),
        (
            &["payments", "show", "nothing"],
            1,
            "400 Bad Request: paymentId: Invalid UUID string: nothing",
        ),
        (
            &["accounts", "show", nobody],
            1,
            "404 Not Found: Account does not exist for id 00000000-0000-4000-8000-000000000000 (code 3002)",
        ),
        (
            &["tenants", "create", "--key", "shop"],
            1,
            "409 Conflict: there is a tenant shop already; if its secret is lost, draw another one\n  \
             eval \"$(faregate tenants rotate-secret shop --export)\"",
        ),
        (
            &["tenants", "create", "--key", ""],
            1,
            "400 Bad Request: apiKey: does not have 1 to 128 characters without spaces around",
        ),
        (
            &["tenants", "rotate-secret", "x", "--overlap-seconds", "long"],
            2,
            "--overlap-seconds long: a whole number was expected, such as 60",
        ),
        (
            &["flags", "create", "f", "--type", "string"],
            2,
            "a flag of the type string needs values: --value VALUE, twice",
        ),
        (&["flags", "rollout", "nothing", "10%"], 1, "404 Not Found: there is no flag nothing"),
    ] {
        let ended = tenant.run(arguments);
        assert_eq!(ended, (Some(code), format!("faregate: {expected}\n")), "{arguments:?}");
    }
}

#[test]
fn missing_and_wrong_credentials_say_which() {
    let server = Server::start();
    let tenant = tenant(&server);
    for (name, value, code, expected) in [
        ("FAREGATE_PASSWORD", "wrong", 1, "401 Unauthorized: the user or the password is wrong"),
        (
            "FAREGATE_PASSWORD",
            "",
            2,
            "set FAREGATE_PASSWORD, name a file: --password-file, or set password in a profile",
        ),
        (
            "FAREGATE_API_SECRET",
            "wrong",
            1,
            "401 Unauthorized: the tenant's API key or its API secret is wrong",
        ),
        (
            "FAREGATE_API_KEY",
            "",
            2,
            "which tenant? name its API key: --api-key KEY, FAREGATE_API_KEY, or api_key in a profile",
        ),
        (
            "FAREGATE_PROFILE",
            "other",
            2,
            "there is no profile other: /nowhere/profiles.toml does not exist",
        ),
        (
            "FAREGATE_URL",
            "http://127.0.0.1:1",
            2,
            "cannot connect to http://127.0.0.1:1: is `faregate serve` running there?: Connection refused (os error 111)",
        ),
    ] {
        let mut command = faregate(&["accounts", "ls"]);
        let tenants = [("FAREGATE_API_KEY", "shop"), ("FAREGATE_API_SECRET", &*tenant.secret)];
        command.envs(tenants).env("FAREGATE_PASSWORD", "password");
        command.env("FAREGATE_PROFILES", "/nowhere/profiles.toml").env("FAREGATE_URL", &server.url);
        let ended = ended(&command.env(name, value).output().unwrap());
        assert_eq!(ended, (Some(code), format!("faregate: {expected}\n")), "{name}={value}");
    }
}

#[test]
fn a_profile_has_the_server_and_the_credentials() {
    let server = Server::start();
    let tenant = tenant(&server);
    let dir = TempDir::new();
    let path = dir.path().join("profiles.toml");
    let profile = format!(
        "[shop]\nurl = \"{}\"\npassword = \"password\"\napi_key = \"shop\"\napi_secret = \"{}\"\n",
        server.url, tenant.secret
    );
    std::fs::write(&path, profile).unwrap();
    let run = || {
        let mut command = faregate(&["accounts", "ls", "--profile", "shop"]);
        ended(&command.env("FAREGATE_PROFILES", &path).output().unwrap())
    };
    let mode = |mode| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o644);
    let (code, said) = run();
    assert!(code == Some(2) && said.contains("others may read it: chmod 600"), "{said}");
    mode(0o600);
    let (code, said) = run();
    assert!(code == Some(0) && said.starts_with("ID"), "{said}");
    // What is exported for another server does not count beside a profile that was named.
    let with = |arguments: &[&str]| {
        let mut command = faregate(&["accounts", "ls", "--profile", "shop"]);
        command.args(arguments).env("FAREGATE_PROFILES", &path);
        command.envs([("FAREGATE_URL", "http://127.0.0.1:1"), ("FAREGATE_API_SECRET", "other")]);
        ended(&command.output().unwrap())
    };
    let (code, said) = with(&[]);
    assert!(code == Some(0) && said.starts_with("ID"), "{said}");
    let (code, said) = with(&["--url", "http://127.0.0.1:2"]);
    assert_eq!(code, Some(2));
    assert!(said.starts_with("faregate: set FAREGATE_PASSWORD"), "secrets stay here: {said}");
}

/// The disk is full from the start on.
#[test]
fn a_refused_command_is_tried_again_with_wait_only() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let Tenant { secret, .. } = tenant(&server);
    let log = std::fs::metadata(server.data_dir.join("faregate.db-wal")).unwrap().len();
    server.kill();
    let server = Server::start_limited(dir.path(), Launch::usual(), log);
    let tenant = Tenant { server: &server, secret };
    let create = ["accounts", "create", "--name", "Ada"];
    let (code, said) = tenant.run(&create);
    assert!(code == Some(1) && said.ends_with("try again in 10 s, or use --wait\n"), "{said}");
    let mut command = tenant.command(&create);
    let mut waiting = command.arg("--wait").stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    assert_eq!(line, "503 Service Unavailable: trying again in 10 s");
}

#[test]
fn credentials_can_be_evaluated_by_a_shell_and_replaced_by_the_tenants_key() {
    let server = Server::start();
    let export = |arguments: &[&str]| {
        let output = command(&server, &[arguments, &["--export"]].concat()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, first) = export(&["tenants", "create", "--key", "it's"]);
    assert_eq!(code, Some(0));
    let script = format!("{first}printf '%s %s' \"$FAREGATE_API_KEY\" \"$FAREGATE_API_SECRET\"");
    let printed = Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
    let printed = String::from_utf8(printed).unwrap();
    let secret = printed.strip_prefix("it's ").unwrap();
    assert!(secret.len() >= 32 && !secret.contains('\''), "{printed}");
    let (code, refused) = export(&["tenants", "create", "--key", "it's"]);
    assert_eq!((code, refused.as_str()), (Some(1), ""), "nothing is evaluated then");
    let (code, second) = export(&["tenants", "rotate-secret", "it's"]);
    assert_eq!(code, Some(0));
    assert!(second.starts_with(r"export FAREGATE_API_KEY='it'\''s' FAREGATE_API_SECRET='"));
    assert_ne!(first, second);
}

#[test]
fn an_environments_secrets_are_shown() {
    let server = Server::start();
    let tenant = tenant(&server);
    let listed = tenant.json(&["environments", "ls"]);
    assert_eq!(listed[0]["key"], "dev");
    let (code, said) = tenant.run(&["environments", "show", "dev"]);
    assert_eq!(code, Some(0), "{said}");
    for kind in ["type=server", "type=client"] {
        assert!(said.contains(kind), "{said}");
    }
}

/// Output that is not to a terminal has neither colours nor control characters, whatever the locale.
#[test]
fn texts_are_printed_as_they_are_in_every_locale_and_without_a_terminal() {
    let server = Server::start();
    let tenant = tenant(&server);
    tenant.json(&["accounts", "create", "--name", "Zo\u{eb} \u{65e5}\u{672c}"]);
    for (name, value) in
        [("LC_ALL", "C"), ("LC_ALL", "C.UTF-8"), ("NO_COLOR", "1"), ("TERM", "dumb")]
    {
        let mut command = tenant.command(&["accounts", "ls"]);
        let (code, said) = ended(&command.env(name, value).output().unwrap());
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("Zo\u{eb} \u{65e5}\u{672c}"), "{name}={value}: {said}");
        let refused = tenant.command(&["accounts", "--help"]).env(name, value).output().unwrap();
        let (_, said) = ended(&refused);
        assert!(!said.contains('\u{1b}'), "{name}={value}: {said:?}");
    }
}

#[test]
fn an_argument_that_is_not_utf_8_is_refused() {
    let mut command = faregate(&["accounts", "create", "--name"]);
    command.arg(std::ffi::OsStr::from_bytes(b"Zo\xeb"));
    let (code, said) = ended(&command.output().unwrap());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("invalid UTF-8"), "{said}");
}

#[test]
fn help_says_what_each_command_does() {
    let (code, said) = ended(&faregate(&["payments", "--help"]).output().unwrap());
    assert_eq!(code, Some(0), "{said}");
    for line in ["  ls          List the payments", "  refund      Refund an amount of a payment"] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, said) = ended(&faregate(&["completions", shell]).output().unwrap());
        assert!(code == Some(0) && said.contains("payment-methods"), "{shell}");
    }
    let dir = TempDir::new();
    let output = faregate(&["man", dir.path().to_str().unwrap()]).output().unwrap();
    assert_eq!(ended(&output), (Some(0), String::new()));
    for page in ["faregate.1", "faregate-payments-refund.1", "faregate-flags-rollout.1"] {
        assert!(dir.path().join(page).exists(), "{page}");
    }
}
