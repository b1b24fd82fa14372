//! Tags and tag definitions through Kill Bill's API: what is answered, and who may.

use serde_json::{Value, json};

use crate::client::{Answer, Client, code};
use crate::process::Server;

const AUTO_PAY_OFF: &str = "00000000-0000-0000-0000-000000000001";
const WRITTEN_OFF: &str = "00000000-0000-0000-0000-000000000004";
const TEST: &str = "00000000-0000-0000-0000-000000000006";
const NOTHING: &str = "00000000-0000-0000-0000-00000000000a";

/// The path of a new account's tags.
fn tags_of_account(client: &Client) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    format!("/1.0/kb/accounts/{}/tags", account["accountId"].as_str().unwrap())
}

fn names(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let tags = json.as_array().unwrap().iter();
    tags.map(|it| it["tagDefinitionName"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tags_come_and_go_and_are_audited() {
    let server = Server::start();
    let client = server.tenant();
    let path = tags_of_account(&client);
    assert_eq!(names(&client.get(&path)), [""; 0]);
    let added = client.post(&path, &json!([AUTO_PAY_OFF, TEST]));
    assert_eq!(added.status, 201);
    assert!(added.header("location").unwrap().ends_with(&path));
    assert_eq!(client.post(&path, &json!([AUTO_PAY_OFF])).status, 201);
    assert_eq!(client.post(&path, &json!([])).status, 201);
    assert_eq!(names(&client.get(&path)), ["AUTO_PAY_OFF", "TEST"]);
    let all = path.replace("/tags", "/allTags");
    assert_eq!(names(&client.get(&all)), ["AUTO_PAY_OFF", "TEST"]);
    assert_eq!(names(&client.get(&format!("{all}?objectType=PAYMENT"))), [""; 0]);

    let removed = format!("{path}?tagDef={AUTO_PAY_OFF}");
    let refused = client.delete(&removed);
    assert_eq!(code(&refused), "400 3951", "it has no default method: {}", refused.text());
    let method = json!({ "pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {} });
    let methods = path.replace("/tags", "/paymentMethods?isDefault=true");
    assert_eq!(client.post(&methods, &method).status, 201);
    assert_eq!(client.delete(&removed).status, 204);
    assert_eq!(code(&client.delete(&removed)), "404 3950");
    assert_eq!(client.delete(&path).status, 204);
    assert_eq!(names(&client.get(&path)), ["TEST"]);
    let audited = client.get(&format!("{path}?includedDeleted=true&audit=FULL"));
    assert_eq!(names(&audited), ["AUTO_PAY_OFF", "TEST"]);
    let types = |logs: &Value| -> Vec<String> {
        logs.as_array().unwrap().iter().map(|it| it["changeType"].to_string()).collect()
    };
    let gone = &audited.json()[0];
    assert_eq!(types(&gone["auditLogs"]), ["\"INSERT\"", "\"DELETE\""]);
    let id = gone["tagId"].as_str().unwrap();
    let history = client.get(&format!("/1.0/kb/tags/{id}/auditLogsWithHistory")).json();
    assert_eq!(history[1]["history"]["isActive"], json!(false));
    let logs = client.get(&path.replace("/tags", "/auditLogs")).json();
    let of_tags = logs.as_array().unwrap().iter().filter(|it| it["objectType"] == "TAG").count();
    assert_eq!(of_tags, 3);
}

#[test]
fn list_with_an_invalid_tag_is_refused_as_a_whole() {
    let server = Server::start();
    let client = server.tenant();
    let path = tags_of_account(&client);
    assert_eq!(code(&client.post(&path, &json!([TEST, NOTHING]))), "400 3902");
    assert_eq!(code(&client.post(&path, &json!([TEST, WRITTEN_OFF]))), "400 null");
    assert_eq!(code(&client.post(&path, &json!([TEST, "x"]))), "400 null");
    assert_eq!(code(&client.post(&path, &json!([TEST, null]))), "400 null");
    assert_eq!(code(&client.post(&path, &json!({}))), "400 null");
    assert_eq!(code(&client.post(&path, &Value::Null)), "400 null");
    assert_eq!(code(&client.post(&path, &json!(vec![TEST; 101]))), "400 7031");
    assert_eq!(code(&client.delete(&format!("{path}?tagDef={NOTHING}"))), "400 3902");
    assert_eq!(code(&client.delete(&format!("{path}?tagDef=x"))), "400 null");
    assert_eq!(code(&client.get(&format!("{path}?audit=x"))), "400 null");
    let all = path.replace("/tags", "/allTags");
    assert_eq!(code(&client.get(&format!("{all}?objectType=NONE"))), "400 null");
    let missing = format!("/1.0/kb/accounts/{NOTHING}/tags");
    assert_eq!(code(&client.get(&missing)), "404 null");
    assert_eq!(code(&client.post(&missing, &json!([TEST]))), "404 null");
    assert_eq!(code(&client.delete(&format!("{missing}?tagDef={TEST}"))), "404 null");
    let history = format!("/1.0/kb/tags/{NOTHING}/auditLogsWithHistory");
    assert_eq!(code(&client.get(&history)), "404 3950");
    assert_eq!(names(&client.get(&format!("{path}?includedDeleted=true"))), [""; 0]);
}

#[test]
fn the_definitions_are_the_control_tags() {
    let server = Server::start();
    let client = server.tenant();
    let all = client.get("/1.0/kb/tagDefinitions").json();
    assert_eq!(all.as_array().unwrap().len(), 9);
    let one = client.get(&format!("/1.0/kb/tagDefinitions/{AUTO_PAY_OFF}"));
    assert_eq!((one.status, one.json()), (200, all[0].clone()));
    let nothing = format!("/1.0/kb/tagDefinitions/{NOTHING}");
    assert_eq!(code(&client.get(&nothing)), "404 3902");
}

#[test]
fn tags_need_a_permission_of_their_own() {
    let server = Server::start();
    let admin = server.tenant();
    let path = tags_of_account(&admin);
    let role = json!({ "role": "clerk", "permissions": ["account"] });
    assert_eq!(admin.post("/1.0/kb/security/roles", &role).status, 201);
    let joe = json!({ "username": "joe", "password": "pw", "roles": ["clerk"] });
    assert_eq!(admin.post("/1.0/kb/security/users", &joe).status, 201);
    let joe = admin.user("joe", "pw");
    let refused = |answer: Answer, permission: &str| {
        assert_eq!(answer.status, 401);
        let said = format!("Subject does not have permission [{permission}]");
        assert_eq!(answer.json()["message"], said);
    };
    refused(joe.post(&path, &json!([TEST])), "tag:add");
    refused(joe.delete(&format!("{path}?tagDef={TEST}")), "tag:delete");
    assert_eq!(joe.get(&path).status, 200);
}

/// Makes a definition, and gives its id.
fn define(client: &Client, name: &str, types: &[&str]) -> String {
    let body = json!({ "name": name, "description": "d", "applicableObjectTypes": types });
    let made = client.post("/1.0/kb/tagDefinitions", &body);
    assert_eq!(made.status, 201, "{}", made.text());
    made.header("location").unwrap().rsplit('/').next().unwrap().to_owned()
}

#[test]
fn definitions_of_a_tenants_own_are_for_the_objects_that_they_name() {
    let server = Server::start();
    let client = server.tenant();
    let of_account = tags_of_account(&client);
    let account = of_account.split('/').nth(4).unwrap().to_owned();
    let method = json!({ "pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": {} });
    client.create(&format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true"), &method);
    let payment = crate::native::purchase(&client, &account, "5", "");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of_payment = format!("/1.0/kb/payments/{}/tags", text(&payment["paymentId"]));
    let transaction = text(&payment["transactions"][0]["transactionId"]);
    let of_transaction = format!("/1.0/kb/paymentTransactions/{transaction}/tags");
    let everywhere = define(&client, "seen", &["ACCOUNT", "PAYMENT", "TRANSACTION"]);
    let of_invoices = define(&client, "late", &["INVOICE"]);
    for path in [&of_account, &of_payment, &of_transaction] {
        assert_eq!(client.post(path, &json!([everywhere])).status, 201);
        assert_eq!(names(&client.get(path)), ["seen"]);
        assert_eq!(code(&client.post(path, &json!([of_invoices]))), "400 null");
    }
    assert_eq!(code(&client.post(&of_payment, &json!([AUTO_PAY_OFF]))), "400 null");
    assert_eq!(client.post(&of_account, &json!([AUTO_PAY_OFF])).status, 201);
    let all = of_account.replace("/tags", "/allTags");
    assert_eq!(names(&client.get(&all)), ["seen", "seen", "seen", "AUTO_PAY_OFF"]);
    assert_eq!(names(&client.get(&format!("{all}?objectType=TRANSACTION"))), ["seen"]);
    let page = client.get("/1.0/kb/tags/pagination?limit=3");
    assert_eq!(names(&page), ["seen"; 3]);
    assert_eq!(page.header("x-killbill-pagination-maxnbrecords"), Some("4"));
    assert_eq!(names(&client.get("/1.0/kb/tags/search/SEE")), ["seen"; 3]);
    assert_eq!(names(&client.get("/1.0/kb/tags/search/pay_off?limit=1")), ["AUTO_PAY_OFF"]);
    assert_eq!(names(&client.get("/1.0/kb/tags/search/nothing")), [""; 0]);
    let definition = format!("/1.0/kb/tagDefinitions/{everywhere}");
    assert_eq!(code(&client.delete(&definition)), "400 3903");
    for path in [&of_account, &of_payment, &of_transaction] {
        assert_eq!(client.delete(&format!("{path}?tagDef={everywhere}")).status, 204);
        assert_eq!(code(&client.delete(&format!("{path}?tagDef={everywhere}"))), "404 3950");
    }
    assert_eq!(client.delete(&definition).status, 204);
    assert_eq!(code(&client.get(&definition)), "404 3902");
    assert_eq!(code(&client.delete(&definition)), "404 3902");
    let history = client.get(&format!("{definition}/auditLogsWithHistory")).json();
    assert_eq!(
        (&history[0]["changeType"], &history[1]["changeType"]),
        (&json!("INSERT"), &json!("DELETE"))
    );
    let removed = client.get(&format!("{of_payment}?includedDeleted=true"));
    assert_eq!(names(&removed), ["seen"], "its definition is gone, and still has its name");
}

#[test]
fn wrong_definition_is_refused_by_name() {
    let server = Server::start();
    let client = server.tenant();
    define(&client, "vip", &["account"]);
    let refused = |body: Value| {
        let answer = client.post("/1.0/kb/tagDefinitions", &body);
        format!("{} {}", code(&answer), answer.json()["message"].as_str().unwrap())
    };
    let with = |name: &str, description: &str, types: Value| {
        refused(json!({
            "name": name, "description": description, "applicableObjectTypes": types,
        }))
    };
    let types = || json!(["ACCOUNT"]);
    assert_eq!(with("vip", "d", types()), "409 3901 The tag definition vip already exists ");
    assert_eq!(
        with("Vip", "d", types()),
        "400 3904 The tag definition name must be in lowercase Vip"
    );
    assert_eq!(
        with("manual_pay", "d", types()),
        "400 3900 The tag definition name conflicts with a reserved manual_pay"
    );
    assert_eq!(with("", "d", types()), "400 null TagDefinition name needs to be set");
    assert_eq!(with("x", "", types()), "400 null TagDefinition description needs to be set");
    assert_eq!(with("x", "d", json!([])), "400 null Applicable object types must be set");
    assert_eq!(
        with("x", "d", json!(["HOUSE"])),
        "400 null applicableObjectTypes: there is no type HOUSE"
    );
    assert!(with(&"n".repeat(256), "d", types()).starts_with("400 null"));
    assert!(refused(json!({ "name": "x", "colour": "y" })).starts_with("400 null"));
    let control = format!("/1.0/kb/tagDefinitions/{TEST}");
    assert_eq!(code(&client.delete(&control)), "400 null");
    assert_eq!(client.get(&format!("{control}/auditLogsWithHistory")).json(), json!([]));
    let other = json!({ "apiKey": "eve", "apiSecret": "secret of eve" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &other).status, 201);
    define(&server.client().tenant("eve", "secret of eve"), "vip", &["ACCOUNT"]);
}
