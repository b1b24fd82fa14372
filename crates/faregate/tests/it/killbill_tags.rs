//! Control tags through Kill Bill's API: what is answered, and who may.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::Server;

const AUTO_PAY_OFF: &str = "00000000-0000-0000-0000-000000000001";
const WRITTEN_OFF: &str = "00000000-0000-0000-0000-000000000004";
const TEST: &str = "00000000-0000-0000-0000-000000000006";
const NOTHING: &str = "00000000-0000-0000-0000-00000000000a";

/// The path of a new account's tags.
fn tags_of_account(client: &Client) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({}));
    format!("/1.0/kb/accounts/{}/tags", account["accountId"].as_str().unwrap())
}

fn names(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let tags = json.as_array().unwrap().iter();
    tags.map(|it| it["tagDefinitionName"].as_str().unwrap().to_owned()).collect()
}

fn code(answer: &Answer) -> String {
    format!("{} {}", answer.status, answer.json()["code"])
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
    assert_eq!(code(&client.get(&missing)), "404 3002");
    assert_eq!(code(&client.post(&missing, &json!([TEST]))), "404 null");
    assert_eq!(code(&client.delete(&format!("{missing}?tagDef={TEST}"))), "404 3002");
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
    let new = json!({ "name": "mine", "description": "d", "applicableObjectTypes": ["ACCOUNT"] });
    assert_eq!(client.post("/1.0/kb/tagDefinitions", &new).status, 501);
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
