//! Blocking states through Kill Bill's API, and what an account refuses once one of them closed it.

use serde_json::{Value, json};

use crate::client::{Answer, Client, code};
use crate::process::{Launch, Server, TempDir};

const NOTHING: &str = "00000000-0000-0000-0000-00000000000a";
const CLOSING: &str = "account-service=CLOSE_ACCOUNT";

/// The path of a new account that has a payment method.
fn account(client: &Client) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let path = format!("/1.0/kb/accounts/{}", account["accountId"].as_str().unwrap());
    let method = json!({ "pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {} });
    client.create(&format!("{path}/paymentMethods?isDefault=true"), &method);
    path
}

fn pay(client: &Client, account: &str, kind: &str) -> Answer {
    let body = json!({ "transactionType": kind, "amount": "10" });
    client.post(&format!("{account}/payments"), &body)
}

fn block(client: &Client, account: &str, (service, name): (&str, &str)) -> Answer {
    let body = json!({ "service": service, "stateName": name });
    client.post(&format!("{account}/block"), &body)
}

/// The states that are listed, `service=name` each.
fn listed(client: &Client, path: &str) -> Vec<String> {
    let json = client.get(path).json();
    let states = json.as_array().unwrap_or_else(|| panic!("{json}")).iter();
    let text = |it: &Value, name: &str| it[name].as_str().unwrap().to_owned();
    states.map(|it| format!("{}={}", text(it, "service"), text(it, "stateName"))).collect()
}

#[test]
fn a_closed_account_ends_what_was_begun_and_begins_nothing() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client);
    let [first, second] = [(); 2].map(|()| {
        let made = pay(&client, &account, "AUTHORIZE");
        assert_eq!(made.status, 201, "{}", made.text());
        made.header("location")
            .unwrap()
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned()
    });
    let close = format!("{account}?cancelAllSubscriptions=true&writeOffUnpaidInvoices=true");
    assert_eq!(client.delete(&close).status, 204);
    assert_eq!(client.delete(&account).status, 204, "closing twice changes nothing");
    assert_eq!(listed(&client, &format!("{account}/block")), [CLOSING]);
    for kind in ["AUTHORIZE", "PURCHASE", "CREDIT"] {
        let refused = pay(&client, &account, kind);
        assert_eq!(code(&refused), "400 6000", "{kind}");
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(&format!("The action {kind} is block on")), "{message}");
    }
    let method = json!({ "pluginName": "killbill-payment-test", "pluginInfo": {} });
    let methods = format!("{account}/paymentMethods");
    assert_eq!(code(&client.post(&methods, &method)), "400 6000");
    let combo = json!({
        "account": { "accountId": account.rsplit('/').next().unwrap() },
        "paymentMethod": method,
        "transaction": { "transactionType": "PURCHASE", "amount": "10" },
    });
    assert_eq!(code(&client.post("/1.0/kb/payments/combo", &combo)), "400 6000");
    assert_eq!(client.get(&methods).json().as_array().unwrap().len(), 1, "nothing is half-written");
    let part = json!({ "amount": "4" });
    let [first, second] = [first, second].map(|id| format!("/1.0/kb/payments/{id}"));
    assert_eq!(client.post(&first, &part).status, 201, "captured");
    assert_eq!(client.post(&format!("{first}/refunds"), &part).status, 201, "refunded");
    assert_eq!(client.delete(&second).status, 204, "voided");
    assert_eq!(client.get(&account).status, 200, "it is read");
    assert_eq!(client.put(&account, &json!({ "company": "c" })).status, 204, "it is changed");

    assert_eq!(block(&client, &account, ("account-service", "REOPENED")).status, 201);
    assert_eq!(pay(&client, &account, "PURCHASE").status, 201, "it is open again");
    assert_eq!(client.delete(&account).status, 204);
    assert_eq!(code(&pay(&client, &account, "PURCHASE")), "400 6000");
}

#[test]
fn a_closed_account_is_closed_after_a_restart() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let server = Server::start_in(&data, Launch::usual());
    let client = server.tenant();
    let account = account(&client);
    assert_eq!(client.delete(&account).status, 204);
    assert!(server.stop().0.success());
    let server = Server::start_in(&data, Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    assert_eq!(code(&pay(&client, &account, "PURCHASE")), "400 6000");
}

#[test]
fn the_overdue_state_is_the_newest_one_that_was_recorded_or_clear() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client);
    let path = format!("{account}/overdue");
    let clear = client.get(&path).json();
    assert_eq!(clear["name"], "__KILLBILL__CLEAR__OVERDUE_STATE__", "{clear}");
    assert_eq!(clear["isClearState"], true);
    assert_eq!(block(&client, &account, ("overdue-service", "OD1")).status, 201);
    assert_eq!(block(&client, &account, ("dunning", "WARNED")).status, 201);
    let blocking =
        json!({ "service": "overdue-service", "stateName": "OD9", "isBlockChange": true });
    let later = format!("{account}/block?requestedDate=2126-01-01");
    assert_eq!(client.post(&later, &blocking).status, 201);
    let late = client.get(&path).json();
    assert_eq!((&late["name"], &late["isClearState"]), (&json!("OD1"), &json!(false)));
    assert_eq!(client.get(&format!("/1.0/kb/accounts/{NOTHING}/overdue")).status, 404);

    let configuration = client.get("/1.0/kb/overdue").json();
    assert_eq!(configuration["overdueStates"][0]["isClearState"], true, "{configuration}");
    assert_eq!(configuration["overdueStates"].as_array().unwrap().len(), 1);
    let xml = client.clone().header("Accept", "text/xml");
    for path in ["/1.0/kb/overdue/xml", "/1.0/kb/overdue"] {
        let answer = xml.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/xml")));
        assert!(answer.text().contains("<isClearState>true</isClearState>"), "{}", answer.text());
    }
    assert_eq!(client.post("/1.0/kb/overdue", &json!({})).status, 501);
}

#[test]
fn states_are_kept_filtered_and_audited_and_block_no_payment() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client);
    let path = format!("{account}/block");
    assert_eq!(listed(&client, &path), [""; 0]);
    let all = json!({
        "blockedId": account.rsplit('/').next().unwrap(), "stateName": "OD1",
        "service": "overdue-service", "isBlockChange": true, "isBlockEntitlement": true,
        "isBlockBilling": true, "effectiveDate": "2020-01-01T00:00:00.000Z", "type": "ACCOUNT",
        "auditLogs": [],
    });
    let added = client.post(&format!("{path}?requestedDate=2026-01-02"), &all);
    assert_eq!(added.status, 201, "{}", added.text());
    let location = format!("{path}?blockingStateTypes=ACCOUNT");
    assert!(added.header("location").unwrap().ends_with(&location), "{added:?}");
    assert_eq!(block(&client, &account, ("dunning", "WARNED")).status, 201);
    assert_eq!(block(&client, &account, ("dunning", "WARNED")).status, 201, "it is there");
    let both = ["overdue-service=OD1", "dunning=WARNED"];
    assert_eq!(listed(&client, &path), both);
    let first = &client.get(&path).json()[0];
    assert_eq!(first["isBlockBilling"], true);
    assert_eq!(first["type"], "ACCOUNT");
    assert!(first["effectiveDate"].as_str().unwrap().starts_with("2026-01-02T"), "{first}");
    let filtered = |query: &str| listed(&client, &format!("{path}?{query}"));
    assert_eq!(filtered("blockingStateTypes=SUBSCRIPTION&blockingStateTypes=ACCOUNT"), both);
    assert_eq!(filtered("blockingStateTypes=SUBSCRIPTION"), [""; 0]);
    assert_eq!(filtered("blockingStateSvcs=dunning&blockingStateSvcs=x"), [both[1]]);
    assert_eq!(pay(&client, &account, "PURCHASE").status, 201, "states block no payment");

    let earlier = json!({ "stateName": "WARNED", "service": "dunning" });
    let dated = format!("{path}?requestedDate=2026-01-01T10:00:00.000Z");
    assert_eq!(client.post(&dated, &earlier).status, 201);
    assert_eq!(listed(&client, &path), [both[1], both[0]], "the later one is not needed");
    let audited = client.get(&format!("{path}?audit=FULL")).json();
    assert_eq!(audited[0]["auditLogs"][0]["changeType"], "INSERT");
    let logs = client.get(&format!("{account}/auditLogs")).json();
    let logs = logs.as_array().unwrap().iter();
    let gone = logs
        .clone()
        .find(|it| it["objectType"] == "BLOCKING_STATES" && it["changeType"] == "DELETE");
    let id = gone.unwrap()["objectId"].as_str().unwrap();
    let history = client.get(&format!("/1.0/kb/accounts/block/{id}/auditLogsWithHistory")).json();
    assert_eq!(history.as_array().unwrap().len(), 2);
    assert_eq!(history[1]["history"]["state"], "WARNED");
    assert_eq!(history[1]["history"]["isActive"], false);
}

#[test]
fn bad_states_are_refused_by_field_and_nothing_is_written() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client);
    let path = format!("{account}/block");
    let good = || json!({ "stateName": "S", "service": "s" });
    let with = |field: &str, value: Value| {
        let mut body = good();
        body[field] = value;
        body
    };
    for (body, expected, names) in [
        (with("stateName", Value::Null), "400 null", "stateName"),
        (with("stateName", json!("")), "400 null", "stateName"),
        (with("stateName", json!("s".repeat(51))), "400 null", "stateName"),
        (with("service", Value::Null), "400 null", "service"),
        (with("service", json!("s".repeat(256))), "400 null", "service"),
        (with("service", json!([])), "400 null", "service"),
        (with("blockedId", json!(NOTHING)), "400 null", "blockedId"),
        (with("blockedId", json!("x")), "400 null", "blockedId"),
        (with("type", json!("SUBSCRIPTION")), "400 null", "type"),
        (with("isBlockBilling", json!("maybe")), "400 null", "isBlockBilling"),
        (with("effectiveDate", json!("soon")), "400 null", "effectiveDate"),
        (with("state", json!("S")), "400 null", "state"),
        (with("stateName", json!("4111111111111111")), "400 7031", "stateName"),
    ] {
        let refused = client.post(&path, &body);
        assert_eq!(refused.status, 400, "{body}");
        assert_eq!(code(&refused), expected, "{body}");
        let text = refused.text();
        assert!(text.contains(names), "{body}: {text}");
    }
    for (query, names) in [
        ("requestedDate=soon", "requestedDate"),
        ("requestedDate=2026-02-30", "requestedDate"),
        ("requestedDate=-1", "requestedDate"),
    ] {
        let refused = client.post(&format!("{path}?{query}"), &good());
        assert_eq!(code(&refused), "400 null", "{query}");
        assert!(refused.text().contains(names), "{query}");
    }
    let body = json!({ "stateName": "CLOSE_ACCOUNT", "service": "account-service" });
    let refused = client.post(&format!("{path}?requestedDate=2027-01-01"), &body);
    assert_eq!(code(&refused), "400 7031");
    assert!(refused.text().contains("requestedDate"));
    for query in ["blockingStateTypes=NONE", "audit=x"] {
        assert_eq!(code(&client.get(&format!("{path}?{query}"))), "400 null", "{query}");
    }
    assert_eq!(listed(&client, &path), [""; 0]);
    let nobody = format!("/1.0/kb/accounts/{NOTHING}");
    assert_eq!(code(&client.delete(&nobody)), "404 3002");
    assert_eq!(code(&client.get(&format!("{nobody}/block"))), "404 3002");
    assert_eq!(code(&client.post(&format!("{nobody}/block"), &good())), "404 3002");
    let history = format!("/1.0/kb/accounts/block/{NOTHING}/auditLogsWithHistory");
    assert_eq!(client.get(&history).status, 404);
}
