//! Custom fields through Kill Bill's API: what is answered, and what is refused.

use serde_json::{Value, json};

use crate::client::{Answer, Client, code};
use crate::process::Server;

const NOTHING: &str = "00000000-0000-0000-0000-00000000000a";

/// A new account with a method and a payment: the paths of the custom fields of each of them, and of the
/// payment's transaction.
fn objects(client: &Client) -> [String; 4] {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let account = account["accountId"].as_str().unwrap();
    let method = json!({ "pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {} });
    let path = format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true");
    let method = client.create(&path, &method);
    let purchase = json!({ "transactionType": "PURCHASE", "amount": "10" });
    let payment = client.create(&format!("/1.0/kb/accounts/{account}/payments"), &purchase);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    [
        format!("/1.0/kb/accounts/{account}/customFields"),
        format!("/1.0/kb/paymentMethods/{}/customFields", text(&method["paymentMethodId"])),
        format!("/1.0/kb/payments/{}/customFields", text(&payment["paymentId"])),
        format!(
            "/1.0/kb/paymentTransactions/{}/customFields",
            text(&payment["transactions"][0]["transactionId"])
        ),
    ]
}

fn shown(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let fields = json.as_array().unwrap_or_else(|| panic!("{json}")).iter();
    let text = |it: &Value, name: &str| it[name].as_str().unwrap().to_owned();
    fields.map(|it| format!("{}={}", text(it, "name"), text(it, "value"))).collect()
}

fn id(answer: &Answer, at: usize) -> String {
    answer.json()[at]["customFieldId"].as_str().unwrap().to_owned()
}

#[test]
fn fields_come_and_go_on_each_kind_of_object_and_are_audited() {
    let server = Server::start();
    let client = server.tenant();
    let objects = objects(&client);
    for (path, kind) in objects.iter().zip(["ACCOUNT", "PAYMENT_METHOD", "PAYMENT", "TRANSACTION"])
    {
        assert_eq!(shown(&client.get(path)), [""; 0]);
        let two = json!([{ "name": "color", "value": kind }, { "name": "size", "value": "L" }]);
        let added = client.post(path, &two);
        assert_eq!(added.status, 201, "{}", added.text());
        assert!(added.header("location").unwrap().ends_with(path.as_str()));
        let listed = client.get(path);
        assert_eq!(shown(&listed), [format!("color={kind}"), "size=L".to_owned()]);
        assert_eq!(listed.json()[0]["objectType"], kind);
        assert!(path.contains(listed.json()[0]["objectId"].as_str().unwrap()));
        let (color, size) = (id(&listed, 0), id(&listed, 1));
        let other = json!([{ "customFieldId": size, "name": "size", "value": "M" }]);
        assert_eq!(client.put(path, &other).status, 204);
        let removed = format!("{path}?customField={color}");
        assert_eq!(client.delete(&removed).status, 204);
        assert_eq!(client.delete(&removed).status, 204, "once more");
        assert_eq!(shown(&client.get(path)), ["size=M"]);
        let history = format!("/1.0/kb/customFields/{size}/auditLogsWithHistory");
        let states = client.get(&history).json();
        let values: Vec<&str> = states
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["history"]["fieldValue"].as_str().unwrap())
            .collect();
        assert_eq!(values, ["L", "M"]);
        assert_eq!(states[1]["changeType"], "UPDATE");
        let gone = client.get(&format!("/1.0/kb/customFields/{color}/auditLogsWithHistory"));
        assert_eq!(gone.json()[1]["changeType"], "DELETE");
        assert_eq!(gone.json()[1]["history"]["fieldName"], "color");
    }
    let all = objects[0].replace("/customFields", "/allCustomFields");
    assert_eq!(shown(&client.get(&all)), ["size=M"; 4]);
    assert_eq!(shown(&client.get(&format!("{all}?objectType=payment"))), ["size=M"]);
    let logs = client.get(&objects[0].replace("/customFields", "/auditLogs")).json();
    let of_fields = logs.as_array().unwrap().iter().filter(|it| it["objectType"] == "CUSTOM_FIELD");
    assert_eq!(of_fields.count(), 16);
    assert_eq!(client.delete(&objects[2]).status, 204, "all of the payment");
    assert_eq!(shown(&client.get(&all)), ["size=M"; 3]);
}

#[test]
fn fields_are_found_by_name_and_value() {
    let server = Server::start();
    let client = server.tenant();
    let [account, _, payment, _] = objects(&client);
    let fields = json!([
        { "name": "color", "value": "green" }, { "name": "color", "value": "Dark green" },
        { "name": "green", "value": "100 %" },
    ]);
    assert_eq!(client.post(&account, &fields).status, 201);
    let of_payment = json!([{ "name": "color", "value": "green" }]);
    assert_eq!(client.post(&payment, &of_payment).status, 201);
    let search = |query: &str| shown(&client.get(&format!("/1.0/kb/customFields/search{query}")));
    let of_accounts = "?objectType=ACCOUNT&fieldName=color";
    assert_eq!(search(of_accounts), ["color=green", "color=Dark green"]);
    assert_eq!(search(&format!("{of_accounts}&fieldValue=green")), ["color=green"]);
    assert_eq!(search(&format!("{of_accounts}&fieldValue=blue")), [""; 0]);
    assert_eq!(search("?objectType=PAYMENT&fieldName=color"), ["color=green"]);
    assert_eq!(search("/green"), ["color=green", "green=100 %", "color=green"], "whole ones first");
    assert_eq!(search("/dark"), ["color=Dark green"]);
    assert_eq!(search("/%25"), ["green=100 %"]);
    let page = client.get("/1.0/kb/customFields/pagination?limit=3");
    assert_eq!(shown(&page).len(), 3);
    assert_eq!(page.header("x-killbill-pagination-maxnbrecords"), Some("4"));
    assert_eq!(page.header("x-killbill-pagination-nextoffset"), Some("3"));
    let second = client.get(&format!("/1.0/kb/customFields/search{of_accounts}&limit=1"));
    let next = second.header("x-killbill-pagination-nextpageuri").unwrap().to_owned();
    assert_eq!(shown(&client.get(&next)), ["color=Dark green"]);
    for wrong in ["?fieldName=color", "?objectType=ACCOUNT", "?objectType=TAG&fieldName=color"] {
        let answer = client.get(&format!("/1.0/kb/customFields/search{wrong}"));
        assert_eq!(code(&answer), "400 null", "{wrong}");
    }
}

#[test]
fn list_with_a_wrong_field_is_refused_as_a_whole() {
    let server = Server::start();
    let client = server.tenant();
    let [path, of_method, ..] = objects(&client);
    let good = json!({ "name": "a", "value": "b" });
    assert_eq!(client.post(&path, &json!([good])).status, 201);
    let own = id(&client.get(&path), 0);
    let refused = |wrong: Value| code(&client.post(&path, &json!([good, wrong])));
    assert_eq!(refused(json!({ "value": "b" })), "400 null");
    assert_eq!(refused(json!({ "name": "a" })), "400 null");
    assert_eq!(refused(json!({ "name": "", "value": "b" })), "400 null");
    assert_eq!(refused(json!({ "name": "a", "value": "" })), "400 null");
    assert_eq!(refused(json!({ "name": "n".repeat(256), "value": "b" })), "400 null");
    assert_eq!(refused(json!({ "name": "a", "value": "v".repeat(256) })), "400 null");
    assert_eq!(refused(json!({ "name": "a\n", "value": "b" })), "400 null");
    assert_eq!(refused(json!({ "name": "a", "value": "4111 1111 1111 1111" })), "400 7031");
    assert_eq!(refused(json!({ "name": "a", "value": "b", "color": "x" })), "400 null");
    assert_eq!(refused(json!("a")), "400 null");
    assert_eq!(code(&client.post(&path, &good)), "400 null", "no array");
    assert_eq!(code(&client.post(&path, &Value::Null)), "400 null");
    assert_eq!(code(&client.post(&path, &json!(vec![good.clone(); 100]))), "400 null");
    assert_eq!(client.post(&path, &json!(vec![good.clone(); 99])).status, 201);
    let full = client.post(&path, &json!([good]));
    assert_eq!(code(&full), "400 null");
    assert!(full.text().contains("100 custom fields at most"), "{}", full.text());
    let put = |body: Value| code(&client.put(&path, &body));
    assert_eq!(put(json!([{ "customFieldId": NOTHING, "value": "x" }])), "400 9001");
    assert_eq!(put(json!([{ "customFieldId": own, "name": "c", "value": "x" }])), "400 9002");
    assert_eq!(put(json!([{ "value": "x" }])), "400 null");
    assert_eq!(put(json!([{ "customFieldId": own }])), "400 null");
    let of_another = json!([{ "customFieldId": own, "value": "x" }]);
    assert_eq!(code(&client.put(&of_method, &of_another)), "400 9001");
    assert_eq!(client.delete(&format!("{of_method}?customField={own}")).status, 204);
    assert_eq!(shown(&client.get(&path))[0], "a=b", "nothing of this changed anything");
    assert_eq!(code(&client.delete(&format!("{path}?customField=x"))), "400 null");
    for kind in ["accounts", "paymentMethods", "payments", "paymentTransactions"] {
        let missing = format!("/1.0/kb/{kind}/{NOTHING}/customFields");
        assert_eq!(code(&client.get(&missing)), "404 null");
        assert_eq!(code(&client.post(&missing, &json!([good]))), "404 null");
        assert_eq!(code(&client.put(&missing, &of_another)), "404 null");
        assert_eq!(code(&client.delete(&missing)), "404 null");
    }
    let history = format!("/1.0/kb/customFields/{NOTHING}/auditLogsWithHistory");
    assert_eq!(code(&client.get(&history)), "404 null");
}
