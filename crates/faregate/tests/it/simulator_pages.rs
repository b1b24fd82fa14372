//! Pages of the simulated gateway: a customer enters a card, and passes, fails or leaves alone a challenge.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::Server;

const PURCHASE: &str = "pluginProperty=challenge%3Dtrue\
    &pluginProperty=returnUrl%3Dhttps%3A%2F%2Fshop.example.com%2Fdone%3Forder%3D7";

fn account(client: &Client) -> String {
    let made = client.post("/1.0/kb/accounts", &json!({ "currency": "EUR" }));
    made.header("location").unwrap().rsplit('/').next().unwrap().to_owned()
}

fn add_method(client: &Client, account: &str, external_id: &str) {
    let path = format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true");
    let info = json!({ "externalPaymentMethodId": external_id });
    let body = json!({ "pluginName": "faregate-simulator", "pluginInfo": info });
    assert_eq!(client.post(&path, &body).status, 201);
}

/// The status of the answer, and the payment's path.
fn pay(client: &Client, account: &str, query: &str) -> (u16, String) {
    let path = format!("/1.0/kb/accounts/{account}/payments?{query}");
    let paid = client.post(&path, &json!({ "transactionType": "PURCHASE", "amount": 10 }));
    let location = paid.header("location").unwrap_or_default();
    let path = location.find("/1.0/").map(|at| location[at..].to_owned());
    (paid.status, path.unwrap_or_default())
}

fn transaction(client: &Client, payment: &str, query: &str) -> Value {
    client.get(&format!("{payment}{query}")).json()["transactions"][0].clone()
}

/// Where the customer has to go, without the server's address.
fn challenge(client: &Client, payment: &str) -> String {
    let shown = transaction(client, payment, "?withPluginInfo=true");
    let action = &shown["properties"][0];
    assert_eq!(action["key"], "redirectUrl", "{shown}");
    let url = action["value"].as_str().unwrap();
    url[url.find("/v1/simulator/").unwrap()..].to_owned()
}

fn press(server: &Server, page: &str, button: &str) -> Answer {
    let browser =
        Client::new(&server.url).header("Content-Type", "application/x-www-form-urlencoded");
    let shown = browser.get(page);
    let (name, value) = button.split_once('=').unwrap();
    let has_button = shown.text().contains(&format!("name=\"{name}\" value=\"{value}\""));
    assert!(shown.status == 200 && has_button, "{}", shown.text());
    browser.send("POST", page, Some(button.as_bytes()))
}

#[test]
fn a_challenge_is_passed_or_failed() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client);
    add_method(&client, &account, "card-7");
    for (button, status, code) in [
        ("decision=pass", "SUCCESS", Value::Null),
        ("decision=fail", "PAYMENT_FAILURE", json!("authentication_failed")),
    ] {
        let (status_code, payment) = pay(&client, &account, PURCHASE);
        assert_eq!(status_code, 201);
        assert_eq!(transaction(&client, &payment, "")["status"], "PENDING");
        let page = challenge(&client, &payment);
        // Twice: a browser's "back" must not charge again, nor change what was decided.
        for _ in 0..2 {
            let pressed = press(&server, &page, button);
            let to = pressed.header("location");
            assert_eq!((pressed.status, to), (303, Some("https://shop.example.com/done?order=7")));
            let booked = transaction(&client, &payment, "?withPluginInfo=true");
            let shown = (&booked["status"], &booked["gatewayErrorCode"]);
            assert_eq!(shown, (&json!(status), &code), "{booked}");
            assert_eq!(booked["properties"], json!([]), "nothing is left to do");
        }
    }
    let browser = Client::new(&server.url);
    assert_eq!(browser.get("/v1/simulator/pages/made-up").status, 404);
}

#[test]
fn a_challenge_that_is_left_alone_is_given_up() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client);
    add_method(&client, &account, "card-7");
    let (_, payment) = pay(&client, &account, "pluginProperty=challenge%3Dtrue");
    let page = challenge(&client, &payment);
    let refused = Client::new(&server.url).send("POST", &page, Some(b"decision=maybe"));
    assert_eq!((refused.status, refused.json()["field"].clone()), (400, json!("decision")));
    assert_eq!(client.put("/1.0/kb/test/clock?days=1&timeoutSec=20", &Value::Null).status, 200);
    assert_eq!(transaction(&client, &payment, "")["status"], "PLUGIN_FAILURE");
    // Too late: the page says what became of it, and there is nowhere to go on to.
    let pressed = press(&server, &page, "decision=pass");
    assert_eq!((pressed.status, pressed.header("location")), (200, None));
    assert_eq!(transaction(&client, &payment, "")["status"], "PLUGIN_FAILURE");
}

#[test]
fn a_card_that_is_entered_says_what_becomes_of_its_payments() {
    let server = Server::start();
    let client = server.tenant();
    for (button, status) in
        [("card=approved", 201), ("card=declined", 402), ("card=challenged", 201)]
    {
        let account = account(&client);
        let path =
            format!("/1.0/kb/paymentGateways/hosted/form/{account}?pluginName=faregate-simulator");
        let fields =
            json!([{ "key": "successUrl", "value": "https://shop.example.com/card?a=b#top" }]);
        let form = client.post(&path, &json!({ "formFields": fields })).json();
        let url = form["formUrl"].as_str().unwrap();
        let pressed = press(&server, &url[url.find("/v1/simulator/").unwrap()..], button);
        let to = pressed.header("location").unwrap();
        let before = "https://shop.example.com/card?a=b&externalPaymentMethodId=";
        let id = to.strip_prefix(before).unwrap().strip_suffix("#top").unwrap();
        add_method(&client, &account, id);
        let (paid, payment) = pay(&client, &account, "");
        assert_eq!(paid, status, "{button}");
        if button == "card=challenged" {
            press(&server, &challenge(&client, &payment), "decision=pass");
            assert_eq!(transaction(&client, &payment, "")["status"], "SUCCESS");
        }
    }
    form_with_account(&client);
    let account = account(&client);
    let path =
        format!("/1.0/kb/paymentGateways/hosted/form/{account}?pluginName=faregate-simulator");
    let fields = json!([{ "key": "successUrl", "value": "javascript:alert(1)" }]);
    let refused = client.post(&path, &json!({ "formFields": fields }));
    assert!(refused.status == 400 && refused.text().contains("successUrl"), "{}", refused.text());
}

/// The account of the form is made where it is new, once for each key.
fn form_with_account(client: &Client) {
    let path = "/1.0/kb/paymentGateways/hosted/form";
    let form = |account: Value, gateway: &str| {
        let method = json!({ "pluginName": gateway });
        client.post(path, &json!({ "account": account, "paymentMethod": method }))
    };
    let ada = json!({ "externalKey": "ada", "currency": "EUR" });
    let of = |answer: Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.json()["formUrl"].as_str().unwrap().contains("/v1/simulator/pages/"));
        answer.json()["kbAccountId"].as_str().unwrap().to_owned()
    };
    let made = of(form(ada.clone(), "faregate-simulator"));
    assert_eq!(of(form(ada.clone(), "faregate-simulator")), made);
    assert_eq!(of(form(json!({ "accountId": made }), "faregate-simulator")), made);
    let nobody = json!({ "accountId": "01980000-0000-7000-8000-000000000001" });
    assert_eq!(form(nobody, "faregate-simulator").status, 404);
    // Nothing is made for a gateway that is not there, or without one.
    let bob = json!({ "externalKey": "bob" });
    assert_eq!(form(bob.clone(), "nobody").status, 400);
    assert_eq!(client.post(path, &json!({ "account": bob })).status, 400);
    assert_eq!(client.get("/1.0/kb/accounts?externalKey=bob").status, 404);
}
