//! A feature that an account bought is on in the commit that took the money, and off in the one that gave it back.

use serde_json::{Value, json};

use crate::client::{Answer, Client, advance};
use crate::gateways::account;
use crate::process::{Launch, Server, TempDir, eventually, run};

const SIMULATOR: &str = "faregate-simulator";

/// A switch, a limit, and an offer of both for 10 USD a month.
pub fn sell(client: &Client, offer: &Value) {
    let feature = |key: &str, body: Value| {
        let answer = client.put(&format!("/v1/features/{key}"), &body);
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
    };
    feature("pro", json!({ "name": "Pro", "kind": "switch" }));
    feature(
        "seats",
        json!({ "name": "Seats", "kind": "limit", "unit": "seats", "combine": "sum" }),
    );
    let answer = client.put("/v1/offers/monthly", offer);
    assert_eq!(answer.status, 201, "{}", answer.text());
}

pub fn monthly() -> Value {
    json!({
        "name": "Monthly", "price": { "amount": "10", "currency": "USD" },
        "features": { "pro": true, "seats": 5 }, "lasts": { "months": 1 }, "again": "extend",
    })
}

/// The body of a request that buys [`monthly`].
pub fn wanted() -> Value {
    json!({ "offer": "monthly", "expectedPrice": { "amount": "10.00", "currency": "USD" } })
}

fn buy(client: &Client, account: &str, body: &Value) -> Answer {
    client.post(&format!("/v1/accounts/{account}/purchases"), body)
}

/// An account's entitlements: each feature with its value, and the version.
fn shown(client: &Client, account: &str) -> (Vec<(String, Value)>, i64) {
    let it = client.get(&format!("/v1/accounts/{account}/entitlements")).json();
    let features = it["features"].as_array().unwrap().iter();
    let features =
        features.map(|it| (it["feature"].as_str().unwrap().to_owned(), it["value"].clone()));
    (features.collect(), it["version"].as_i64().unwrap())
}

fn is_allowed(client: &Client, account: &str, feature: &str) -> Value {
    let answer = client.get(&format!("/v1/accounts/{account}/entitlements/{feature}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["allowed"].clone()
}

#[test]
fn what_was_paid_for_is_on_and_a_refund_takes_it_back() {
    let server = Server::start();
    let client = server.tenant();
    sell(&client, &monthly());
    let account = account(&client, SIMULATOR);
    assert_eq!(is_allowed(&client, &account, "pro"), false);
    let answer = buy(&client, &account, &wanted());
    assert_eq!(answer.status, 201, "{}", answer.text());
    let bought = answer.json();
    assert_eq!(bought["purchase"]["status"], "ACTIVE");
    assert_eq!(bought["payment"]["status"], "SUCCESS");
    let on = vec![("pro".to_owned(), json!(true)), ("seats".to_owned(), json!(5))];
    assert_eq!(shown(&client, &account), (on, 1));
    assert_eq!(is_allowed(&client, &account, "seats"), true);
    let purchase = answer.header("location").unwrap();
    assert_eq!(client.get(purchase).json(), bought["purchase"]);
    let listed = client.get(&format!("/v1/accounts/{account}/purchases")).json();
    assert_eq!(listed["purchases"], json!([bought["purchase"]]));
    let grant = &bought["entitlements"]["features"][0]["grants"][0];
    assert_eq!(grant["source"], "offer");
    assert_eq!(grant["purchaseId"], bought["purchase"]["purchaseId"]);
    // A grant of a purchase ends with it.
    let grant = format!("/v1/accounts/{account}/grants/{}", grant["grantId"].as_str().unwrap());
    assert_eq!(client.delete(&grant).status, 409);
    let payment = bought["payment"]["paymentId"].as_str().unwrap();
    let refund = |amount: i64| {
        let path = format!("/1.0/kb/payments/{payment}/refunds");
        assert_eq!(client.post(&path, &json!({ "amount": amount })).status, 201);
    };
    refund(4);
    assert_eq!(is_allowed(&client, &account, "pro"), true);
    refund(6);
    assert_eq!(shown(&client, &account), (vec![], 2));
    assert_eq!(client.get(purchase).json()["status"], "RETURNED");
}

/// A failed purchase and its payment are found by the answer.
fn is_named(client: &Client, account: &str, failed: &Answer) {
    let known = &failed.json()["known"];
    let purchase = client.get(failed.header("location").expect("the purchase"));
    assert_eq!(purchase.status, 200, "{}", purchase.text());
    let purchase = purchase.json();
    assert_eq!(purchase["status"], "FAILED");
    assert_eq!(
        [&purchase["purchaseId"], &purchase["paymentId"]],
        [&known["purchaseId"], &known["paymentId"]]
    );
    let payment = known["paymentId"].as_str().unwrap();
    let payment = client.get(&format!("/1.0/kb/payments/{payment}")).json();
    assert_eq!(payment["accountId"], account);
    assert_eq!(payment["transactions"][0]["transactionId"], known["transactionId"]);
}

#[test]
fn what_is_not_paid_grants_nothing() {
    let server = Server::start();
    let client = server.tenant();
    sell(&client, &monthly());
    let account = account(&client, SIMULATOR);
    let with = |properties: Value| {
        let mut body = wanted();
        body["properties"] = properties;
        buy(&client, &account, &body)
    };
    let declined = with(json!({ "outcome": "ERROR", "errorMessage": "no money" }));
    assert_eq!(declined.status, 402, "{}", declined.text());
    assert_eq!(declined.json()["detail"], "the payment was declined: no money");
    is_named(&client, &account, &declined);
    let wordless = with(json!({ "outcome": "ERROR", "errorMessage": "", "errorCode": "51" }));
    assert_eq!(wordless.json()["detail"], "the payment was declined with the code 51");
    let not_taken = with(json!({ "outcome": "CANCELED" }));
    assert_eq!(not_taken.status, 502);
    is_named(&client, &account, &not_taken);
    assert_eq!(shown(&client, &account), (vec![], 0));
    let pending = with(json!({ "outcome": "PENDING" }));
    assert_eq!(pending.status, 202, "{}", pending.text());
    assert_eq!(pending.json()["purchase"]["status"], "PENDING");
    assert_eq!(shown(&client, &account), (vec![], 0));
    // The same offer waits for its outcome.
    let again = buy(&client, &account, &wanted());
    assert_eq!(again.status, 409, "{}", again.text());
    assert!(again.json()["type"].as_str().unwrap().ends_with("purchase-pending"));
    let payment = pending.json()["payment"].clone();
    let (payment, transaction) = (&payment["paymentId"], &payment["transactionId"]);
    let path = format!("/1.0/kb/payments/{}", payment.as_str().unwrap());
    let body = json!({ "transactionId": transaction });
    let completed = client.put(&path, &body);
    assert!([200, 202, 204].contains(&completed.status), "{}", completed.text());
    assert_eq!(client.get(pending.header("location").unwrap()).json()["status"], "ACTIVE");
    assert_eq!(is_allowed(&client, &account, "pro"), true);
}

/// The next action of the customer is shown to the caller, also of a repeated request, and stored encrypted.
#[test]
fn a_payment_that_waits_for_its_customer_shows_what_there_is_to_do() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    sell(&client, &monthly());
    let account = account(&client, SIMULATOR);
    let mut wanted = wanted();
    wanted["properties"] =
        json!({ "challenge": "true", "returnUrl": "https://shop.example.com/canary-action" });
    let keyed = client.clone().header("Idempotency-Key", "order-8");
    let first = buy(&keyed, &account, &wanted);
    assert_eq!(first.status, 202, "{}", first.text());
    let action = first.json()["payment"]["nextAction"].clone();
    let url = action["redirectUrl"].as_str().unwrap().to_owned();
    assert_eq!(buy(&keyed, &account, &wanted).json()["payment"]["nextAction"], action);
    let page = &url[url.find("/v1/simulator/").unwrap()..];
    let browser =
        Client::new(&server.url).header("Content-Type", "application/x-www-form-urlencoded");
    let passed = browser.send("POST", page, Some(b"decision=pass"));
    assert_eq!(passed.status, 303, "{}", passed.text());
    let location = first.header("location").unwrap();
    eventually("the outcome", || {
        let payment = first.json()["payment"]["paymentId"].as_str().unwrap().to_owned();
        client.get(&format!("/1.0/kb/payments/{payment}?withPluginInfo=true"));
        (client.get(location).json()["status"] == "ACTIVE").then_some(())
    });
    let again = buy(&keyed, &account, &wanted);
    assert_eq!(again.json()["payment"]["nextAction"], Value::Null, "{}", again.text());
    assert!(server.stop().0.success());
    let token = page.rsplit('/').next().unwrap().to_owned();
    let database = std::fs::read(dir.path().join("faregate.db")).unwrap();
    assert!(!database.windows(token.len()).any(|it| it == token.as_bytes()), "it is encrypted");
}

/// The money is booked, nothing is granted, and the offer says whether the money goes back.
#[test]
fn what_is_paid_when_the_account_is_closed_grants_nothing() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let mut offer = monthly();
    sell(&client, &offer);
    for (refunds, refunded) in [(false, 0.0), (true, 10.0)] {
        offer["refundsDuplicates"] = json!(refunds);
        assert_eq!(client.put("/v1/offers/monthly", &offer).status, 200);
        let account = account(&client, SIMULATOR);
        let mut wanted = wanted();
        wanted["properties"] = json!({ "outcome": "PENDING" });
        let bought = buy(&client, &account, &wanted);
        assert_eq!(bought.status, 202, "{}", bought.text());
        let closed = client.send("DELETE", &format!("/1.0/kb/accounts/{account}"), None);
        assert_eq!(closed.status, 204, "{}", closed.text());
        let payment = &bought.json()["payment"];
        let path = format!("/1.0/kb/payments/{}", payment["paymentId"].as_str().unwrap());
        let completed = client.put(&path, &json!({ "transactionId": payment["transactionId"] }));
        assert!([200, 202, 204].contains(&completed.status), "{}", completed.text());
        let purchase = client.get(bought.header("location").unwrap()).json();
        assert_eq!(purchase["status"], "CLOSED", "{purchase}");
        assert_eq!(shown(&client, &account), (vec![], 0));
        eventually("the money is where it belongs", || {
            let shown = client.get(&path).json();
            assert_eq!(shown["purchasedAmount"], 10.0, "{shown}");
            (shown["refundedAmount"] == refunded).then_some(())
        });
    }
    assert!(server.stop().0.success());
    let verified = run(&["verify", "--data-dir", dir.path().to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn a_repeated_request_buys_once() {
    let server = Server::start();
    let client = server.tenant();
    sell(&client, &monthly());
    let account = account(&client, SIMULATOR);
    let keyed = client.clone().header("Idempotency-Key", "order-7");
    let first = buy(&keyed, &account, &wanted());
    assert_eq!(first.status, 201, "{}", first.text());
    let again = buy(&keyed, &account, &wanted());
    assert_eq!(again.json()["purchase"], first.json()["purchase"]);
    let mut other = wanted();
    other["version"] = json!(1);
    assert_eq!(buy(&keyed, &account, &other).status, 422);
    let listed = client.get(&format!("/v1/accounts/{account}/purchases")).json();
    assert_eq!(listed["purchases"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_over_is_off() {
    let server = Server::start();
    let client = server.tenant();
    sell(&client, &monthly());
    let account = account(&client, SIMULATOR);
    assert_eq!(buy(&client, &account, &wanted()).status, 201);
    let granted = json!({ "feature": "seats", "value": 3, "reason": "goodwill" });
    let granted = client.post(&format!("/v1/accounts/{account}/grants"), &granted);
    assert_eq!(granted.status, 201, "{}", granted.text());
    assert_eq!(granted.json()["entitlements"]["features"][1]["value"], 8);
    let path = format!("/v1/accounts/{account}/entitlements");
    let etag = client.get(&path).header("etag").unwrap().to_owned();
    let asked = client.clone().header("If-None-Match", &etag);
    assert_eq!(asked.get(&path).status, 304);
    advance(&client, 32);
    assert_eq!(shown(&client, &account).0, [("seats".to_owned(), json!(3))]);
    assert_eq!(asked.get(&path).status, 200);
    let grant =
        format!("/v1/accounts/{account}/grants/{}", granted.json()["grantId"].as_str().unwrap());
    assert_eq!(client.delete(&grant).status, 204);
    assert_eq!(client.delete(&grant).status, 404);
    assert_eq!(shown(&client, &account).0, []);
}

/// A purchase that is committed and cannot be shown is not refused: sent again without a key, it would be paid twice.
#[test]
fn who_is_not_shown_what_was_bought_is_not_asked_to_buy_again() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_ENGINE_READS_WAITING_MAX", "1"));
    let client = server.tenant();
    sell(&client, &monthly());
    let mut unshown = 0;
    for _ in 0..20 {
        let buyers: Vec<String> = (0..24).map(|_| account(&client, SIMULATOR)).collect();
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let buying = buyers.iter().map(|it| scope.spawn(|| buy(&client, it, &wanted())));
            let buying: Vec<_> = buying.collect();
            buying.into_iter().map(|it| it.join().unwrap()).collect()
        });
        for (buyer, answer) in buyers.iter().zip(&answers) {
            // This read may be refused too.
            let bought = eventually("its purchases are read", || {
                let listed = client.get(&format!("/v1/accounts/{buyer}/purchases"));
                (listed.status == 200).then(|| listed.json()["purchases"].as_array().unwrap().len())
            });
            let is_unknown = answer.header("x-faregate-outcome") == Some("unknown");
            let expected = usize::from(answer.status == 201 || is_unknown);
            assert_eq!(bought, expected, "{} {}", answer.status, answer.text());
            unshown += usize::from(is_unknown);
        }
        if unshown > 0 {
            return;
        }
    }
    panic!("each purchase was shown");
}

/// Each refusal has the expected status, and the expected field or type of its problem.
#[test]
fn refusals() {
    let server = Server::start();
    let client = server.tenant();
    sell(&client, &monthly());
    let buyer = account(&client, SIMULATOR);
    let check = |answer: Answer, status: u16, named: &str| {
        assert_eq!(answer.status, status, "{}", answer.text());
        let problem = answer.json();
        let kind = problem["type"].as_str().unwrap_or_default();
        let field = problem["field"].as_str().unwrap_or_default();
        assert!(field == named || kind.ends_with(named), "{named}: {problem}");
    };
    let changed = |name: &str, value: Value| {
        let mut body = wanted();
        body[name] = value;
        buy(&client, &buyer, &body)
    };
    let price = |amount: &str, currency: &str| json!({ "amount": amount, "currency": currency });
    check(changed("expectedPrice", price("9", "USD")), 409, "price-changed");
    check(changed("expectedPrice", price("10", "EUR")), 409, "price-changed");
    check(changed("expectedPrice", Value::Null), 400, "expectedPrice");
    check(changed("expectedPrice", price("1.234", "USD")), 400, "expectedPrice");
    check(changed("expectedPrice", price("10", "XYZ")), 400, "expectedPrice");
    check(changed("version", json!(2)), 409, "offer-changed");
    check(changed("offer", json!("none")), 404, "not-found");
    let nobody = uuid::Uuid::nil().to_string();
    check(changed("paymentMethodId", json!(nobody)), 404, "not-found");
    check(buy(&client, &nobody, &wanted()), 404, "not-found");
    let in_euros = client.create("/1.0/kb/accounts", &json!({ "currency": "EUR" }));
    let in_euros = in_euros["accountId"].as_str().unwrap();
    check(buy(&client, in_euros, &wanted()), 409, "not-for-account");
    let grants = format!("/v1/accounts/{buyer}/grants");
    let grant = |name: &str, value: Value| {
        let mut body = json!({ "feature": "seats", "value": 3, "reason": "goodwill" });
        body[name] = value;
        client.post(&grants, &body)
    };
    check(grant("feature", json!("none")), 404, "not-found");
    check(grant("value", json!(-1)), 400, "value");
    check(grant("value", json!(9_223_372_036_854_775_808_u64)), 400, "value");
    check(grant("value", json!("3")), 400, "value");
    check(grant("reason", json!("For Ada")), 400, "reason");
    check(grant("until", json!("2001-01-01T00:00:00Z")), 400, "until");
    check(grant("from", json!("yesterday")), 400, "from");
    let unknown = client.get(&format!("/v1/accounts/{buyer}/entitlements/none"));
    check(unknown, 404, "not-found");
    let many: serde_json::Map<String, Value> =
        (0..1_000).map(|n| (format!("f{n}"), json!(true))).collect();
    let mut offer = monthly();
    offer["features"] = Value::Object(many);
    check(client.put("/v1/offers/large", &offer), 400, "features");
    let mut offer = monthly();
    offer["lasts"] = json!({ "days": -3 });
    check(client.put("/v1/offers/past", &offer), 400, "lasts.days");
    for wrong in [json!(-1), json!(9_223_372_036_854_775_808_u64)] {
        let mut offer = monthly();
        offer["features"]["seats"] = wrong;
        check(client.put("/v1/offers/wrong", &offer), 400, "features.seats");
    }
    let stale = client.clone().header("If-Match", "\"7\"");
    check(stale.put("/v1/offers/monthly", &monthly()), 412, "version-changed");
    let closed = client.send("DELETE", &format!("/1.0/kb/accounts/{buyer}"), None);
    assert_eq!(closed.status, 204, "{}", closed.text());
    check(buy(&client, &buyer, &wanted()), 409, "account-closed");
    check(grant("value", json!(3)), 409, "account-closed");
}

#[test]
fn another_tenants_features_are_not_there() {
    let server = Server::start();
    let client = server.tenant();
    sell(&client, &monthly());
    let another = json!({ "apiKey": "joe", "apiSecret": "secret" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &another).status, 201);
    let other = server.client().tenant("joe", "secret");
    let account = account(&other, SIMULATOR);
    assert_eq!(other.get("/v1/features/pro").status, 404);
    assert_eq!(other.get("/v1/offers/monthly").status, 404);
    assert_eq!(buy(&other, &account, &wanted()).status, 404);
    let offer = other.put("/v1/offers/stolen", &monthly());
    assert_eq!((offer.status, &offer.json()["field"]), (400, &json!("features.pro")));
    let grant = json!({ "feature": "pro", "value": true, "reason": "goodwill" });
    let granted = other.post(&format!("/v1/accounts/{account}/grants"), &grant);
    assert_eq!(
        (granted.status, granted.json()["detail"].clone()),
        (404, json!("there is no feature pro"))
    );
    assert_eq!(other.get(&format!("/v1/accounts/{account}/entitlements/pro")).status, 404);
}
