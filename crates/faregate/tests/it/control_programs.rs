//! Payments that a program of somebody else lets go on, changes or aborts before they are begun.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::gateways::{Program, SECRET, account, payment_of};
use crate::process::{Launch, Server, TempDir};

const CONTROLLED: &str = "controlPluginName=acme";
const ABORTED: &str = "422 7106 Control plugin aborted call: acme: too risky";

struct Shop {
    server: Server,
    client: Client,
    program: Program,
    _dir: TempDir,
}

impl Shop {
    fn open() -> Self {
        let dir = TempDir::new();
        let (program, config) = Program::start(dir.path());
        program.answer_from_now_on();
        let server = Server::start_with(Launch::usual().env("FAREGATE_CONFIG", &config));
        let client = server.tenant();
        Self { server, client, program, _dir: dir }
    }

    fn decides(&self, decision: Value) {
        self.program.state().decision = decision;
    }

    /// Takes the control requests that the program received since the last call of this function.
    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut self.program.state().controls)
    }

    /// The last journal row.
    fn head(&self) -> String {
        let metrics = self.server.metrics();
        let head = metrics.lines().find(|line| line.starts_with("faregate_journal_head"));
        head.unwrap().to_owned()
    }
}

/// Status, code and message where it was refused.
fn shown(answer: &Answer) -> String {
    match answer.status {
        200..400 => answer.status.to_string(),
        status => {
            let body = answer.json();
            format!("{status} {} {}", body["code"], body["message"].as_str().unwrap())
        }
    }
}

fn purchase(client: &Client, account: &str, query: &str) -> Answer {
    let body = json!({ "transactionType": "PURCHASE", "amount": "10", "paymentExternalKey": "p" });
    client.post(&format!("/1.0/kb/accounts/{account}/payments?{query}"), &body)
}

#[test]
fn a_program_lets_a_payment_go_on_lowers_it_or_chooses_its_method() {
    let shop = Shop::open();
    let payer = account(&shop.client, "faregate-simulator");
    let paid =
        purchase(&shop.client, &payer, &format!("{CONTROLLED}&pluginProperty=channel%3Dweb"));
    assert_eq!(shown(&paid), "201");
    let mut asked = shop.asked();
    assert_eq!(asked.len(), 1);
    for id in ["tenantId", "requestId"] {
        assert!(asked[0][id].take().is_string(), "{id}");
    }
    assert!(asked[0]["deadline"].take().is_u64(), "{}", asked[0]);
    let expected = json!({
        "call": "control", "deadline": null, "tenantId": null, "requestId": null, "accountId": payer, "paymentId": null,
        "paymentExternalKey": "p", "transactionExternalKey": null, "operation": "PURCHASE",
        "amount": "10.00", "currency": "USD", "paymentMethodId": null,
        "properties": [{ "key": "channel", "value": "web" }],
    });
    assert_eq!(asked[0], expected);
    let payment = format!("/1.0/kb/payments/{}?withAttempts=true", payment_of(&paid));
    let attempt = &shop.client.get(&payment).json()["paymentAttempts"][0];
    assert_eq!(
        (&attempt["pluginName"], &attempt["stateName"]),
        (&json!("acme"), &json!("SUCCESS"))
    );
    let path = format!("/1.0/kb/accounts/{payer}/paymentMethods");
    let other = shop.client.create(&path, &json!({ "pluginName": "acme" }));
    let method = other["paymentMethodId"].clone();
    shop.decides(json!({ "amount": "7.5", "currency": "USD", "paymentMethodId": method }));
    let other = account(&shop.client, "faregate-simulator");
    let body = json!({ "transactionType": "PURCHASE", "amount": "10" });
    let of_other = format!("/1.0/kb/accounts/{other}/payments?{CONTROLLED}");
    let foreign = "503 null the control program did not decide about the call: nothing was begun";
    let head = shop.head();
    assert_eq!(shown(&shop.client.post(&of_other, &body)), foreign, "the method is another's");
    assert_eq!(shop.head(), head);
    let lowered = shop.client.create(&of_other.replace(&other, &payer), &body);
    assert_eq!(lowered["paymentMethodId"], method);
    let amounts = ["amount", "processedAmount"].map(|it| lowered["transactions"][0][it].clone());
    assert_eq!(amounts, [json!(7.5), json!(7.5)]);
    assert_eq!(shop.program.state().charges.len(), 1, "by the method's gateway");
}

#[test]
fn what_a_program_aborts_or_does_not_decide_leaves_nothing() {
    let shop = Shop::open();
    let payer = account(&shop.client, "faregate-simulator");
    let head = shop.head();
    shop.decides(json!({ "aborted": true, "reason": "too risky" }));
    assert_eq!(shown(&purchase(&shop.client, &payer, CONTROLLED)), ABORTED);
    let both = format!("{CONTROLLED}&controlPluginName=faregate-rules");
    assert_eq!(shown(&purchase(&shop.client, &payer, &both)), ABORTED);
    let combo = json!({
        "account": { "externalKey": "new", "currency": "USD" },
        "paymentMethod": { "pluginName": "faregate-simulator" },
        "transaction": { "transactionType": "PURCHASE", "amount": "10" },
    });
    let combo_path = format!("/1.0/kb/payments/combo?{CONTROLLED}");
    assert_eq!(shown(&shop.client.post(&combo_path, &combo)), ABORTED);
    assert_eq!(shop.client.get("/1.0/kb/accounts?externalKey=new").status, 404);
    assert_eq!(shop.head(), head, "nothing was written");
    shop.asked();
    let undecided = "503 null the control program did not decide about the call: nothing was begun";
    for decision in [
        json!({ "aborted": null }),
        json!({ "aborted": true }),
        json!({ "requestId": payer }),
        json!({ "amount": "10.01" }),
        json!({ "amount": "7", "currency": "EUR" }),
        json!({ "paymentMethodId": payer }),
    ] {
        shop.decides(decision.clone());
        let answer = purchase(&shop.client, &payer, CONTROLLED);
        assert_eq!(shown(&answer), undecided, "{decision}");
        assert_eq!(answer.header("retry-after"), Some("10"));
    }
    assert_eq!(shop.asked().len(), 6, "each is asked once");
    assert_eq!(shop.head(), head, "nothing was written");
    shop.decides(Value::Null);
    assert_eq!(shown(&shop.client.post(&combo_path, &combo)), "201");
    let asked = shop.asked();
    assert_eq!((&asked[0]["accountId"], &asked[0]["amount"]), (&Value::Null, &json!("10.00")));
}

#[test]
fn card_numbers_in_the_answers_of_a_program_are_kept_and_shown_nowhere() {
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    let launch = Launch::usual().env("FAREGATE_CONFIG", &config);
    let server = Server::start_with(launch.env("FAREGATE_LOG_LEVEL", "trace"));
    let client = server.tenant();
    let payer = account(&client, "faregate-simulator");
    let number = "4111111111111111";
    for field in ["reason", "requestId", "amount", "currency", "paymentMethodId", "aborted", "x"] {
        let aborts = field == "reason";
        let mut decision = json!({ "aborted": aborts });
        decision[field] = json!(number);
        program.state().decision = decision;
        let answer = purchase(&client, &payer, CONTROLLED);
        let expected = match field {
            "reason" => 422,
            // Nobody reads it.
            "x" => 201,
            _ => 503,
        };
        assert_eq!(answer.status, expected, "{field}: {}", answer.text());
        assert!(!answer.text().contains(number), "{field}: {}", answer.text());
    }
    assert!(!server.metrics().contains(number));
    crate::card_numbers::nothing_is_kept(server);
}

#[test]
fn what_follows_on_a_payment_is_decided_too() {
    let shop = Shop::open();
    let payer = account(&shop.client, "faregate-simulator");
    let body = json!({ "transactionType": "AUTHORIZE", "amount": "10" });
    let payments = format!("/1.0/kb/accounts/{payer}/payments");
    let payment = payment_of(&shop.client.post(&payments, &body));
    let captures = format!("/1.0/kb/payments/{payment}?{CONTROLLED}");
    let refunds = format!("/1.0/kb/payments/{payment}/refunds?{CONTROLLED}");
    shop.decides(json!({ "amount": "4" }));
    assert_eq!(shown(&shop.client.post(&captures, &json!({ "amount": "6" }))), "201");
    shop.decides(json!({ "aborted": true, "reason": "too risky" }));
    assert_eq!(shown(&shop.client.post(&refunds, &json!({ "amount": "1" }))), ABORTED);
    let void = format!("/1.0/kb/payments/{payment}?{CONTROLLED}");
    assert_eq!(shown(&shop.client.delete(&void)), ABORTED);
    let asked: Vec<_> = shop
        .asked()
        .iter()
        .map(|it| (it["operation"].clone(), it["amount"].clone(), it["paymentId"].clone()))
        .collect();
    let expected = [("CAPTURE", json!("6.00")), ("REFUND", json!("1.00")), ("VOID", Value::Null)];
    assert_eq!(asked, expected.map(|(kind, amount)| (json!(kind), amount, json!(payment))));
    let read = shop.client.get(&format!("/1.0/kb/payments/{payment}")).json();
    assert_eq!((&read["capturedAmount"], &read["refundedAmount"]), (&json!(4.0), &json!(0)));
}

#[test]
fn a_repeated_request_is_not_decided_about_again() {
    let shop = Shop::open();
    let payer = account(&shop.client, "faregate-simulator");
    let keyed = shop.client.clone().header("Idempotency-Key", "k");
    shop.decides(json!({ "aborted": true, "reason": "too risky" }));
    assert_eq!(shown(&purchase(&keyed, &payer, CONTROLLED)), ABORTED);
    shop.decides(Value::Null);
    let paid = purchase(&keyed, &payer, CONTROLLED);
    assert_eq!(shown(&paid), "201", "what was aborted is not stored");
    let asked = shop.asked();
    assert_eq!(asked[0]["requestId"], asked[1]["requestId"], "the program can know it again");
    shop.decides(json!({ "aborted": true, "reason": "too risky" }));
    let again = purchase(&keyed, &payer, CONTROLLED);
    assert_eq!((again.status, payment_of(&again)), (201, payment_of(&paid)));
    assert_eq!(shop.asked(), [] as [Value; 0]);
}

#[test]
fn calls_that_cannot_be_controlled_are_refused() {
    let shop = Shop::open();
    let payer = account(&shop.client, "faregate-simulator");
    let no_plugin = |name: &str| {
        format!("400 7031 Invalid parameter controlPluginName: there is no control plugin {name}")
    };
    let unknown = purchase(&shop.client, &payer, "controlPluginName=faregate-simulator");
    assert_eq!(shown(&unknown), no_plugin("faregate-simulator"));
    let method = format!("/1.0/kb/accounts/{payer}/paymentMethods?{CONTROLLED}");
    let made = shop.client.post(&method, &json!({ "pluginName": "acme" }));
    assert_eq!(shown(&made), no_plugin("acme"));
    let retried =
        purchase(&shop.client, &payer, &format!("{CONTROLLED}&pluginProperty=IPCD_RETRIES%3Dtrue"));
    assert_eq!(
        shown(&retried),
        "400 7031 Invalid parameter pluginProperty: IPCD_RETRIES: what a control program let go on is not retried"
    );
    shop.asked();
    let path = format!("/1.0/kb/accounts/{payer}/payments?{CONTROLLED}");
    let bare = json!({ "transactionType": "PURCHASE" });
    let amount = "400 7031 Invalid parameter amount: ";
    assert_eq!(shown(&shop.client.post(&path, &bare)), format!("{amount}needs to be set"));
    let small = json!({ "transactionType": "PURCHASE", "amount": "1.001" });
    let decimals = format!("{amount}1.001: more decimals than the currency has (2)");
    assert_eq!(shown(&shop.client.post(&path, &small)), decimals);
    let nobody = "00000000-0000-0000-0000-000000000001";
    assert_eq!(purchase(&shop.client, nobody, CONTROLLED).status, 404);
    assert_eq!(shop.asked(), [] as [Value; 0], "what cannot be begun is not asked about");
    let closed = TempDir::new();
    let path = closed.path().join("faregate.toml");
    let table = format!(
        "[gateway.http.acme]\nurl = \"http://127.0.0.1:9\"\nsecret = \"{SECRET}\"\nallow_loopback = true\n"
    );
    std::fs::write(&path, &table).unwrap();
    let launch = || Launch::usual().env("FAREGATE_CONFIG", path.to_str().unwrap());
    let server = Server::start_with(launch());
    let client = server.tenant();
    let payer = account(&client, "faregate-simulator");
    assert_eq!(shown(&purchase(&client, &payer, CONTROLLED)), no_plugin("acme"));
    std::fs::write(&path, table + "control = true\n").unwrap();
    let server = Server::start_with(launch());
    let client = server.tenant();
    let payer = account(&client, "faregate-simulator");
    let unreachable =
        "503 null the control program did not decide about the call: nothing was begun";
    assert_eq!(shown(&purchase(&client, &payer, CONTROLLED)), unreachable);
}
