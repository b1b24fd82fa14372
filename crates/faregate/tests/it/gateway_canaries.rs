//! Card numbers and secrets in what gateways, their programs and senders of notifications say, and in what is said to
//! them, are in no file, log line, metric or answer that is not meant for them.

use serde_json::{Value, json};

use crate::card_numbers::files;
use crate::client::Client;
use crate::disputes::said;
use crate::gateways::{Program, SECRET, account, pay, payment_of};
use crate::process::{Launch, Server, TempDir};

const NUMBER: &str = "4111111111111111";
const SPACED: &str = "pan 4012 8888 8888 1881 12/27";
const CLIENT_SECRET: &str = "canary_client_secret";
const REDIRECT_TOKEN: &str = "canary-redirect-token";
const SENDERS_SIGNATURE: &str = "canary-senders-signature";
const ROUTER: &str = "/1.0/kb/tenants/uploadPluginConfig/faregate-router";

/// Texts that must be found nowhere.
const CANARIES: [&str; 7] = [
    NUMBER,
    "4012 8888 8888 1881",
    "4012888888881881",
    CLIENT_SECRET,
    REDIRECT_TOKEN,
    SENDERS_SIGNATURE,
    "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
];

/// An outcome with a card number in each text.
fn outcome(transaction: &Value, status: &str) -> Value {
    json!({
        "transactionId": transaction, "status": status, "errorCode": NUMBER, "errorMessage": SPACED,
        "firstReference": NUMBER, "secondReference": SPACED,
    })
}

/// Has the program read notifications, from senders with and without credentials.
fn notify(client: &Client, program: &Program, about: &Value) {
    let endpoint = client.get("/v1/gateways/http/acme/endpoint").json();
    let endpoint = endpoint["path"].as_str().unwrap().to_owned();
    let sender = client.clone().header("x-acme-signature", SENDERS_SIGNATURE);
    let sender = sender.header("x-acme-card", NUMBER);
    let body = format!("{{\"card\": \"{NUMBER}\", \"text\": \"{SPACED}\"}}");
    for path in [&endpoint, "/1.0/kb/paymentGateways/notification/acme"] {
        program.state().about = about.clone();
        sender.send("POST", path, Some(body.as_bytes()));
    }
}

/// Uploads rules and has them explained, with a card number in each text.
fn route(client: &Client) {
    let upload = |name: &str, when: Value| {
        let rules = json!({ "rules": [{ "name": name, "when": when, "gateways": ["acme"] }] });
        client.clone().header("Content-Type", "text/plain").post(ROUTER, &rules)
    };
    for number in [NUMBER, SPACED] {
        assert_eq!(upload(number, json!({})).status, 400);
        for when in [
            json!({ "tags": [number] }),
            json!({ "kinds": [number] }),
            json!({ "countries": [number] }),
            json!({ "bins": [number] }),
            json!({ "customFields": { "tier": number } }),
            json!({ "customFields": { number: "gold" } }),
        ] {
            assert_eq!(upload("rule", when.clone()).status, 400, "{when}");
        }
        let asked = json!({ "accountId": number, "currency": number, "amount": number });
        assert_eq!(client.post("/v1/routing/explain", &asked).status, 400);
    }
}

/// Payments, challenges, notifications and disputes with card numbers in each text of the program's.
fn trade(client: &Client, program: &Program) -> String {
    let payer = account(client, "acme");
    program.state().spoken = json!({
        "status": "PENDING", "errorCode": NUMBER, "errorMessage": SPACED, "firstReference": NUMBER,
        "secondReference": SPACED, "nextAction": {
            "redirectUrl": format!("https://acme.example/?token={REDIRECT_TOKEN}"),
            "clientSecret": CLIENT_SECRET,
        },
    });
    let payment = payment_of(&pay(client, &payer, "PURCHASE"));
    let shown = client.get(&format!("/1.0/kb/payments/{payment}?withPluginInfo=true"));
    assert!(shown.text().contains(CLIENT_SECRET), "the payer is to have it: {}", shown.text());
    let shown = shown.json();
    let transaction = shown["transactions"][0]["transactionId"].clone();
    notify(client, program, &json!({ "refused": SPACED }));
    notify(client, program, &json!({ "refused": NUMBER }));
    notify(client, program, &json!(SPACED));
    for status in ["PENDING", "PROCESSED"] {
        let outcome = outcome(&transaction, status);
        notify(client, program, &json!({ "paymentId": payment, "outcome": outcome }));
    }
    for name in ["disputeId", "reason", "status", "evidenceDueBy", "currency"] {
        let mut dispute = said(&transaction, "NEEDS_RESPONSE", "5", "0");
        dispute[name] = json!(NUMBER);
        notify(client, program, &json!({ "paymentId": payment, "dispute": dispute }));
        dispute[name] = json!(SPACED);
        notify(client, program, &json!({ "paymentId": payment, "dispute": dispute }));
    }
    program.state().spoken =
        json!({ "status": "ERROR", "errorCode": NUMBER, "errorMessage": SPACED });
    pay(client, &payer, "PURCHASE");
    payment
}

#[test]
fn what_gateways_say_of_cards_and_secrets_is_found_nowhere() {
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    program.answer_from_now_on();
    let launch = Launch::usual().env("FAREGATE_CONFIG", &config);
    let server = Server::start_with(launch.env("FAREGATE_LOG_LEVEL", "trace"));
    let client = server.tenant();
    route(&client);
    let payment = trade(&client, &program);
    let mut written = vec![
        client.get(&format!("/1.0/kb/payments/{payment}?withAttempts=true&audit=FULL")).text(),
        client.get(&format!("/1.0/kb/payments/{payment}/auditLogsWithHistory")).text(),
        client.get("/v1/disputes").text(),
        client.get("/v1/events?after=first&limit=1000").text(),
        server.metrics(),
    ];
    for (_, content) in files(&server.data_dir) {
        written.push(String::from_utf8_lossy(&content).into_owned());
    }
    let (_, log) = server.stop();
    assert!(log.contains("DEBUG") || log.contains("TRACE"), "the log is written in full: {log}");
    written.push(log);
    assert!(SECRET.ends_with(CANARIES[6]));
    for text in &written {
        for canary in CANARIES {
            let before = text.find(canary).map(|at| {
                let before: Vec<char> = text[..at].chars().rev().take(200).collect();
                before.into_iter().rev().collect::<String>()
            });
            assert_eq!(before, None, "{canary}");
        }
    }
}
