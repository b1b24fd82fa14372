//! Kill Bill's API beyond single answers: repeated requests, permissions, the audit, and outcomes
//! that come late.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use std::io::Write as _;

use crate::client::{Answer, Client, code};
use crate::gateways::account;
use crate::process::{Launch, Server};

#[test]
fn a_request_with_an_idempotency_key_happens_once() {
    let server = Server::start();
    let client = server.tenant();
    let id = account(&client, "__EXTERNAL_PAYMENT__");
    let path = format!("/1.0/kb/accounts/{id}/payments");
    let purchase = json!({ "transactionType": "PURCHASE", "amount": 10 });
    let keyed = client.clone().header("Idempotency-Key", "\"order 1\"");
    let first = keyed.post(&path, &purchase);
    assert_eq!(first.status, 201);
    let bare = client.clone().header("Idempotency-Key", "order 1");
    let again = bare.post(&path, &purchase);
    assert_eq!((again.status, again.header("location")), (201, first.header("location")));
    let other = keyed.post(&path, &json!({ "transactionType": "PURCHASE", "amount": 11 }));
    assert_eq!(code(&other), "422 null");
    let elsewhere = keyed.post(&format!("{path}?pluginProperty=a%3Db"), &purchase);
    assert_eq!(code(&elsewhere), "422 null");
    let payments = client.get(&path).json();
    assert_eq!(payments.as_array().unwrap().len(), 1);
    // A refusal is an answer too.
    let refused = json!({ "transactionType": "PURCHASE", "amount": "1.234" });
    let keyed = client.header("Idempotency-Key", "order 2");
    assert_eq!(code(&keyed.post(&path, &refused)), "400 7031");
    assert_eq!(code(&keyed.post(&path, &refused)), "400 7031");
    assert_eq!(code(&keyed.post(&path, &purchase)), "422 null");
}

#[test]
fn an_idempotency_key_in_doubt_waits_for_the_outcome() {
    let server = Server::start();
    let client = server.tenant();
    let id = account(&client, "killbill-payment-test");
    let path = format!("/1.0/kb/accounts/{id}/payments?pluginProperty=ACTION_SLEEP%3D%2A");
    let purchase = json!({ "transactionType": "PURCHASE", "amount": 10 });
    let keyed = client.clone().header("Idempotency-Key", "order 1");
    let first = keyed.post(&path, &purchase);
    let location = first.header("location").expect("a Location").to_owned();
    assert_eq!((first.status, first.header("retry-after")), (503, Some("3")));
    let waiting = keyed.post(&path, &purchase);
    assert_eq!(code(&waiting), "409 null");
    let unknown = (waiting.header("x-faregate-outcome"), waiting.header("retry-after"));
    assert_eq!(unknown, (Some("unknown"), Some("1")));
    let fix = admin_path(&client, &location);
    let fixed = client.put(&fix, &json!({ "transactionStatus": "SUCCESS" }));
    assert_eq!(fixed.status, 204, "{}", fixed.text());
    let again = keyed.post(&path, &purchase);
    assert_eq!((again.status, again.header("location")), (201, Some(location.as_str())));
}

/// The admin's route of a payment's only transaction.
fn admin_path(client: &Client, location: &str) -> String {
    let payment = &location[location.find("/1.0").unwrap()..];
    let read = client.get(payment).json();
    let transaction = read["transactions"][0]["transactionId"].as_str().unwrap();
    format!("/1.0/kb/admin{}transactions/{transaction}", &payment["/1.0/kb".len()..])
}

#[test]
fn an_answer_that_means_unknown_says_so_and_names_the_payment() {
    let launch = Launch::usual().env("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "200ms");
    let server = Server::start_with(launch.env("FAREGATE_RESOLVER_UNKNOWN_DELAYS", "1h"));
    let client = server.tenant();
    let id = account(&client, "faregate-simulator");
    let path = format!("/1.0/kb/accounts/{id}/payments");
    let check = |outcome: &str, expected: &str| {
        let query = format!("pluginProperty=outcome%3D{outcome}");
        let purchase = json!({ "transactionType": "PURCHASE", "amount": 10 });
        let keyed = client.clone().header("Idempotency-Key", outcome);
        let retry_after = keyed.post(&format!("{path}?{query}"), &purchase);
        let answer = client.post(&format!("{path}?{query}"), &purchase);
        let header = |name| answer.header(name).unwrap_or("-").to_owned();
        let payment = answer.header("x-faregate-payment").expect("the payment's id");
        let read = client.get(&format!("/1.0/kb/payments/{payment}")).json();
        if let Some(location) = answer.header("location") {
            assert!(location.ends_with(&format!("/1.0/kb/payments/{payment}/")), "{location}");
        }
        let transaction = &read["transactions"][0];
        let shown = format!(
            "{} {} {} {} {} {}",
            code(&answer),
            if answer.header("location").is_some() { "located" } else { "named" },
            header("x-faregate-outcome"),
            header("retry-after"),
            retry_after.header("retry-after").unwrap_or("-"),
            transaction["status"].as_str().unwrap(),
        );
        assert_eq!(shown, expected, "{outcome}");
    };
    check("UNDEFINED", "503 null located unknown - 3 UNKNOWN");
    check("EXCEPTION", "400 7199 named unknown - 3 UNKNOWN");
    check("NULL", "500 7019 named unknown - 3 UNKNOWN");
    check("TIMEOUT", "504 7100 named unknown - 3 UNKNOWN");
    check("ERROR", "402 null located - - - PAYMENT_FAILURE");
    check("CANCELED", "502 null located - - - PLUGIN_FAILURE");
    // An operation upon a payment names it as well.
    let authorize = json!({ "transactionType": "AUTHORIZE", "amount": 10 });
    let payment = client.create(&path, &authorize)["paymentId"].as_str().unwrap().to_owned();
    let void = format!("/1.0/kb/payments/{payment}?pluginProperty=outcome%3DEXCEPTION");
    let answer = client.delete(&void);
    assert_eq!(answer.header("location"), None, "Kill Bill's clients would follow it");
    assert_eq!(answer.header("x-faregate-payment"), Some(payment.as_str()));
    assert_eq!(
        (code(&answer).as_str(), answer.header("x-faregate-outcome")),
        ("400 7199", Some("unknown"))
    );
}

#[test]
fn an_outcome_changes_only_with_a_reason() {
    let server = Server::start();
    let client = server.tenant();
    let id = account(&client, "__EXTERNAL_PAYMENT__");
    let path = format!("/1.0/kb/accounts/{id}/payments");
    let made = client.post(&path, &json!({ "transactionType": "PURCHASE", "amount": 10 }));
    let fix = admin_path(&client, made.header("location").unwrap());
    let failed = json!({ "transactionStatus": "PAYMENT_FAILURE" });
    for without in [client.clone(), client.clone().header("X-Killbill-Reason", " ")] {
        let refused = without.put(&fix, &failed);
        assert_eq!(code(&refused), "400 7031");
        expect![[r#""Invalid parameter X-Killbill-Reason: needs to be set: the transaction has an outcome, and this changes it""#]]
            .assert_eq(&refused.json()["message"].to_string());
    }
    let fixed = client.header("X-Killbill-Reason", "chargeback by telephone").put(&fix, &failed);
    assert_eq!(fixed.status, 204, "{}", fixed.text());
}

#[test]
fn completing_a_refund_needs_the_permission_to_refund() {
    let server = Server::start();
    let admin = server.tenant();
    let id = account(&admin, "killbill-payment-test");
    let path = format!("/1.0/kb/accounts/{id}/payments");
    let purchase = json!({ "transactionType": "PURCHASE", "amount": 10 });
    let payment = admin.create(&path, &purchase)["paymentId"].as_str().unwrap().to_owned();
    let payment = format!("/1.0/kb/payments/{payment}");
    let pending = "pluginProperty=ACTION_RETURN_PLUGIN_STATUS_PENDING%3D%2A";
    let refund = json!({ "amount": 4, "transactionExternalKey": "r" });
    assert_eq!(admin.post(&format!("{payment}/refunds?{pending}"), &refund).status, 201);
    let role = json!({ "role": "clerk", "permissions": ["payment:trigger"] });
    assert_eq!(admin.post("/1.0/kb/security/roles", &role).status, 201);
    let joe = json!({ "username": "joe", "password": "pw", "roles": ["clerk"] });
    assert_eq!(admin.post("/1.0/kb/security/users", &joe).status, 201);
    let joe = admin.clone().user("joe", "pw");
    for body in [
        json!({}),
        json!({ "transactionExternalKey": "r" }),
        json!({ "transactionExternalKey": "r", "transactionType": "REFUND" }),
    ] {
        let refused = joe.put(&payment, &body);
        assert_eq!(refused.status, 401, "{body}");
        let message = "Subject does not have permission [payment:refund]";
        assert_eq!(refused.json()["message"], message, "{body}");
    }
    assert_eq!(admin.get(&payment).json()["refundedAmount"], 0);
    // What is not a refund is completed as before.
    let other = admin.post(&format!("{path}?{pending}"), &purchase);
    let location = other.header("location").unwrap();
    let other = location[location.find("/1.0").unwrap()..].trim_end_matches('/').to_owned();
    assert_eq!(joe.put(&other, &json!({})).status, 204);
    assert_eq!(admin.put(&payment, &json!({})).status, 204);
    assert_eq!(admin.get(&payment).json()["refundedAmount"], 4.0);
}

/// Sends a request whose head is this, and closes; shows the status and the `Location`.
fn raw(client: &Client, head: &str, body: &str) -> String {
    let mut stream = client.connect();
    let head = format!("{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let answer = Answer::read(&mut stream);
    format!("{} {}", answer.status, answer.header("location").unwrap_or("-"))
}

#[test]
fn a_request_has_one_host_and_its_location_is_below_it() {
    let server = Server::start();
    let client = server.tenant();
    let head = |version: &str, headers: &str| {
        let fixed = "Authorization: Basic YWRtaW46cGFzc3dvcmQ=\r\nX-Killbill-CreatedBy: it\r\n\
                     Content-Type: application/json";
        format!("POST /1.0/kb/tenants HTTP/{version}\r\n{fixed}{headers}")
    };
    let tenant = |key: &str| json!({ "apiKey": key, "apiSecret": "s" }).to_string();
    let check = |version: &str, headers: &str, key: &str, expected: &str| {
        let shown = raw(&client, &head(version, headers), &tenant(key));
        assert!(shown.starts_with(expected), "{version} {headers:?}: {shown}");
    };
    let kb = "201 http://kb.example.com:81/1.0/kb/tenants/";
    check("1.1", "\r\nHost: kb.example.com:81", "a", kb);
    check("1.1", "", "b", "400 -");
    check("1.1", "\r\nHost: kb\r\nHost: kb", "b", "400 -");
    check("1.1", "\r\nHost: kb/evil?", "b", "400 -");
    check("1.0", "", "b", "201 /1.0/kb/tenants/");
    check("1.1", "\r\nHost: kb\r\nContent-Encoding: gzip", "c", "415 -");
    check("1.1", "\r\nHost: kb\r\nContent-Encoding: identity", "c", "201 http://kb/");
    let launch = Launch::usual().env("FAREGATE_PUBLIC_URL", "https://pay.example.com");
    let server = Server::start_with(launch);
    let shown = raw(&server.client(), &head("1.1", "\r\nHost: inside:8080"), &tenant("a"));
    assert!(shown.starts_with("201 https://pay.example.com/1.0/kb/tenants/"), "{shown}");
}

#[test]
fn a_role_counts_from_the_next_request_on() {
    let server = Server::start();
    let admin = server.tenant();
    let role = |permissions: &[&str]| json!({ "role": "clerk", "permissions": permissions });
    assert_eq!(admin.post("/1.0/kb/security/roles", &role(&["payment"])).status, 201);
    let joe = json!({ "username": "joe", "password": "pw", "roles": ["clerk"] });
    let made = admin.post("/1.0/kb/security/users", &joe);
    assert_eq!(made.status, 201);
    assert!(made.header("location").unwrap().ends_with("/1.0/kb/security/users/joe/roles"));
    let joe = admin.clone().user("joe", "pw");
    let refused = joe.post("/1.0/kb/accounts", &json!({}));
    assert_eq!(refused.status, 401);
    assert_eq!(refused.json()["message"], "Subject does not have permission [account:create]");
    assert_eq!(joe.get("/1.0/kb/accounts/pagination").status, 200);
    assert_eq!(joe.get("/1.0/kb/security/permissions").json(), json!(["payment:*"]));
    assert_eq!(admin.put("/1.0/kb/security/roles", &role(&["account:create"])).status, 204);
    assert_eq!(joe.post("/1.0/kb/accounts", &json!({})).status, 201);
    let password = json!({ "password": "pw2" });
    assert_eq!(admin.put("/1.0/kb/security/users/joe/password", &password).status, 204);
    assert_eq!(joe.get("/1.0/kb/security/subject").status, 401);
    assert_eq!(admin.delete("/1.0/kb/security/users/joe").status, 204);
    assert_eq!(admin.clone().user("joe", "pw2").get("/1.0/kb/security/subject").status, 401);
}

#[test]
fn rows_of_another_tenant_are_not_found() {
    let server = Server::start();
    let bob = server.tenant();
    let id = account(&bob, "__EXTERNAL_PAYMENT__");
    let path = format!("/1.0/kb/accounts/{id}/payments");
    let payment = bob.create(&path, &json!({ "transactionType": "PURCHASE", "amount": 1 }));
    let payment = payment["paymentId"].as_str().unwrap();
    let eve = json!({ "apiKey": "eve", "apiSecret": "s" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &eve).status, 201);
    let eve = server.client().tenant("eve", "s");
    assert_eq!(code(&eve.get(&format!("/1.0/kb/accounts/{id}"))), "404 3002");
    assert_eq!(code(&eve.get(&format!("/1.0/kb/payments/{payment}"))), "404 7020");
    let refund = eve.post(&format!("/1.0/kb/payments/{payment}/refunds"), &json!({ "amount": 1 }));
    assert_eq!(code(&refund), "404 7020");
    let history = eve.get(&format!("/1.0/kb/payments/{payment}/auditLogsWithHistory"));
    assert_eq!(code(&history), "404 7020");
    assert_eq!(eve.get("/1.0/kb/payments/pagination").json(), json!([]));
}

#[test]
fn routes_of_the_test_clock_are_there_only_on_one() {
    let server = Server::start_with(Launch { arguments: vec![], ..Launch::usual() });
    let client = server.tenant();
    assert_eq!(client.get("/1.0/kb/test/clock").status, 404);
    assert_eq!(client.post("/1.0/kb/test/clock", &json!({})).status, 404);
    assert_eq!(client.get("/1.0/kb/test/queues").status, 404);
}

#[test]
fn a_request_id_comes_back_and_is_in_the_audit() {
    let server = Server::start();
    let token = "0192aabb-ccdd-7123-9456-789abcdef012";
    let client = server.tenant().header("X-Request-Id", token);
    let client = client.header("X-Killbill-Reason", "why").header("X-Killbill-Comment", "note");
    let account = client.create("/1.0/kb/accounts", &json!({ "name": "Ann" }));
    let id = account["accountId"].as_str().unwrap();
    let read = client.get(&format!("/1.0/kb/accounts/{id}?audit=FULL"));
    assert_eq!(read.header("x-request-id"), Some(token));
    let log = read.json()["auditLogs"][0].clone();
    let who = ["changeType", "changedBy", "reasonCode", "comments", "userToken"];
    let who: Vec<&Value> = who.iter().map(|name| &log[name]).collect();
    assert_eq!(json!(who), json!(["INSERT", "it", "why", "note", token]));
    let ours = server.client().tenant("bob", "lazar").get("/1.0/kb/accounts/pagination");
    let ours = ours.header("x-request-id").expect("one of ours");
    assert_eq!(uuid::Uuid::try_parse(ours).unwrap().get_version_num(), 7);
}

#[test]
fn pending_is_completed_and_what_is_left_counts_it() {
    let server = Server::start();
    let client = server.tenant();
    let id = account(&client, "killbill-payment-test");
    let path = format!("/1.0/kb/accounts/{id}/payments");
    let authorize = json!({ "transactionType": "AUTHORIZE", "amount": 10 });
    let payment = client.create(&path, &authorize);
    let payment = format!("/1.0/kb/payments/{}", payment["paymentId"].as_str().unwrap());
    let pending = "pluginProperty=ACTION_RETURN_PLUGIN_STATUS_PENDING%3D%2A";
    let captured = client.post(&format!("{payment}?{pending}"), &json!({ "amount": 6 }));
    assert_eq!(captured.status, 201);
    let check = |amount: u8, expected: Expect| {
        let answer = client.post(&payment, &json!({ "amount": amount }));
        let text = if answer.body.is_empty() {
            String::new()
        } else {
            answer.json()["message"].to_string()
        };
        expected.assert_eq(&format!("{} {text}", answer.status));
    };
    check(5, expect![[r#"400 "Invalid parameter amount: 5.00 exceeds the 4.00 left""#]]);
    check(4, expect!["201 "]);
    assert_eq!(client.put(&payment, &json!({})).status, 204);
    let read = client.get(&payment).json();
    assert_eq!((&read["authAmount"], &read["capturedAmount"]), (&json!(10.0), &json!(10.0)));
    check(1, expect![[r#"400 "Invalid parameter amount: 1.00 exceeds the 0.00 left""#]]);
}

#[test]
fn other_tenant_is_not_found() {
    let server = Server::start();
    let own = server.tenant();
    let read = |client: &Client, key: &str| client.get(&format!("/1.0/kb/tenants?apiKey={key}"));
    let id = read(&own, "bob").json()["tenantId"].as_str().unwrap().to_owned();
    let path = format!("/1.0/kb/tenants/{id}");
    assert_eq!(own.get(&path).json()["apiKey"], "bob");
    let body = json!({ "apiKey": "eve", "apiSecret": "adam" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &body).status, 201);
    let other = server.client().tenant("eve", "adam");
    let refused = other.get(&path);
    assert_eq!(code(&refused), "404 20001");
    // As one that there is not.
    let nothing = other.get("/1.0/kb/tenants/0192aabb-ccdd-7123-9456-789abcdef012").json();
    let message = |answer: &Value| answer["message"].as_str().unwrap().replace(&id, "{id}");
    let unknown = "0192aabb-ccdd-7123-9456-789abcdef012";
    assert_eq!(message(&refused.json()), message(&nothing).replace(unknown, "{id}"));
}
