//! Card numbers are refused in every text of every documented route, with the name of the field and
//! without the number, and nothing of them is kept: not in the database, not in the log.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TempDir, eventually};
use crate::signup;

/// As clients send them: in whole and within a sentence.
const TEXTS: [&str; 2] = ["4111111111111111", "pan 4012 8888 8888 1881 12/27"];

/// Texts that must be found nowhere.
const NUMBERS: [&str; 4] =
    ["4111111111111111", "4012 8888 8888 1881", "4012888888881881", "4012+8888"];

/// The texts of a JSON schema, as a path of names; `[]` is the first element of a list.
fn texts(schema: &Value, document: &Value, depth: usize) -> Vec<Vec<String>> {
    let Some(depth) = depth.checked_sub(1) else { return vec![] };
    if let Some(name) = schema["$ref"].as_str() {
        let resolved = document.pointer(name.trim_start_matches('#')).expect("the schema is there");
        return texts(resolved, document, depth);
    }
    let alternatives = ["oneOf", "anyOf", "allOf"].iter().filter_map(|it| schema[*it].as_array());
    let mut all: Vec<Vec<String>> =
        alternatives.flatten().flat_map(|it| texts(it, document, depth)).collect();
    let is = |kind: &str| schema["type"] == kind || schema["type"] == json!([kind, "null"]);
    if is("string") && schema["enum"].is_null() {
        all.push(vec![]);
    }
    let under = |name: &str, inner: Vec<Vec<String>>| {
        let with_name = |path: Vec<String>| [vec![name.to_owned()], path].concat();
        inner.into_iter().map(with_name).collect::<Vec<_>>()
    };
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            all.extend(under(name, texts(property, document, depth)));
        }
    }
    if is("array") {
        all.extend(under("[]", texts(&schema["items"], document, depth)));
    }
    all
}

/// A body with one text.
fn body(path: &[String], text: &str) -> Value {
    match path.split_first() {
        None => json!(text),
        Some((name, rest)) if name == "[]" => json!([body(rest, text)]),
        Some((name, rest)) => json!({ name: body(rest, text) }),
    }
}

/// Whether the field is hashed or only compared, so that it may be any text.
fn is_hashed(name: &str) -> bool {
    let names = ["apiSecret", "currentPassword", "newPassword", "password"];
    names.contains(&name)
}

/// Whether the segment, or the one after it, is opened with a key.
fn is_sealed(path: &str, name: &str) -> bool {
    ["endpoint", "back", "page"].contains(&name) || path.ends_with("/{endpoint}")
}

/// The path with an id for each parameter but one, which has the text.
fn fill(path: &str, parameter: &str, text: &str) -> String {
    let segments = path.split('/').map(|segment| match segment.strip_prefix('{') {
        Some(name) if name.trim_end_matches('}') == parameter => {
            text.replace(' ', "%20").replace('/', "%2F")
        }
        Some("key}") if path.starts_with("/v1/environments/") => "dev".to_owned(),
        Some(_) => "01980000-0000-7000-8000-000000000001".to_owned(),
        None => segment.to_owned(),
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Describes the answer to a request with a card number in this field; `None` where it is the expected refusal.
fn wrong(what: &str, name: &str, answer: &Answer) -> Option<String> {
    let (status, said) = (answer.status, answer.text());
    let is_refused = matches!(status, 400 | 422) && said.contains("card number");
    let is_named = said.contains(name);
    let is_repeated = NUMBERS.iter().any(|it| said.contains(it));
    (!is_refused || !is_named || is_repeated).then(|| format!("{what}: {status} {said}"))
}

fn traced(launch: Launch) -> Launch {
    launch.env("FAREGATE_LOG_LEVEL", "trace")
}

fn send(client: &Client, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let body = body.map(|it| serde_json::to_vec(it).unwrap());
    client.send(method, path, body.as_deref())
}

#[test]
fn every_text_of_every_documented_route_refuses_a_card_number() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), traced(signup::launch()));
    let operator = server.tenant();
    let (customer, _) = signup::customer(&dir, &Client::new(&server.url), "ana@example.com");
    let document = operator.get("/openapi.json").json();
    let mut checked = 0;
    let mut failed = vec![];
    for (path, operations) in document["paths"].as_object().unwrap() {
        if !path.starts_with("/1.0/kb") && !path.starts_with("/v1") {
            continue;
        }
        for (method, operation) in operations.as_object().unwrap() {
            let method = method.to_ascii_uppercase();
            let what = format!("{method} {path}");
            let plain = fill(path, "", "");
            let is_customers = ["/v1/me", "/v1/sessions"].iter().any(|it| path.starts_with(it));
            let client = if is_customers { &customer } else { &operator };
            let content = &operation["requestBody"]["content"];
            let mut text_types = ["text/plain", "text/xml"].into_iter();
            let text_type = text_types.find(|it| content.get(*it).is_some());
            let client = client.clone().header("Accept", "*/*");
            let client = &match text_type {
                Some(text_type) => client.header("Content-Type", text_type),
                None => client,
            };
            for text in TEXTS.iter().filter(|_| text_type.is_some()) {
                let answer = client.send(&method, &plain, Some(text.as_bytes()));
                failed.extend(wrong(&what, "body", &answer));
                checked += 1;
            }
            let schema = &content["application/json"]["schema"];
            for path_of_text in texts(schema, &document, 12) {
                let Some(name) = path_of_text.iter().rfind(|it| *it != "[]") else { continue };
                if path_of_text.len() == 1 && is_hashed(name) {
                    continue;
                }
                for text in TEXTS {
                    let answer = send(client, &method, &plain, Some(&body(&path_of_text, text)));
                    failed.extend(wrong(
                        &format!("{what}: {}", path_of_text.join(".")),
                        name,
                        &answer,
                    ));
                    checked += 1;
                }
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                let encoded = |text: &str| text.replace(' ', "+").replace('/', "%2F");
                for text in TEXTS {
                    let (name, answer) = match parameter["in"].as_str().unwrap() {
                        "query" => {
                            let path = format!("{plain}?{name}={}", encoded(text));
                            (name, send(client, &method, &path, Some(&json!({}))))
                        }
                        // It is opened with a key, and nothing of it is kept or said.
                        "path" if is_sealed(path, name) => {
                            let answer =
                                send(client, &method, &fill(path, name, text), Some(&json!({})));
                            let is_said = NUMBERS.iter().any(|it| answer.text().contains(it));
                            assert!(answer.status == 404 && !is_said, "{what}: {answer:?}");
                            continue;
                        }
                        "path" => {
                            let path = fill(path, name, text);
                            ("path", send(client, &method, &path, Some(&json!({}))))
                        }
                        _ => continue,
                    };
                    failed.extend(wrong(&format!("{what}: {name}"), name, &answer));
                    checked += 1;
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(checked > 500, "only {checked} texts were checked");
    nothing_is_kept(server);
}

/// The paths of SaaSOdoo's services have no document.
#[test]
fn every_text_of_registrations_and_accounts_refuses_a_card_number() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), traced(signup::launch()));
    let anyone = Client::new(&server.url);
    let (customer, _) = signup::customer(&dir, &anyone, "ana@example.com");
    let account = json!({
        "customer_id": "01980000-0000-7000-8000-000000000001", "email": "a@example.com", "name": "A",
        "company": "A",
    });
    let profile = json!({ "first_name": "A", "last_name": "B", "phone": "1", "company": "C" });
    let register = signup::entered("b@example.com");
    for (client, method, path, right) in [
        (&anyone, "POST", "/user/auth/register", register),
        (&customer, "PUT", "/user/users/profile", profile),
        (&server.tenant(), "POST", "/billing/api/billing/accounts", account),
    ] {
        let names = right.as_object().unwrap().iter().filter(|(_, value)| value.is_string());
        for (name, _) in names.filter(|(name, _)| !is_hashed(name)) {
            for text in TEXTS {
                let mut body = right.clone();
                body[name] = json!(text);
                let answer = send(client, method, path, Some(&body));
                assert_eq!(wrong(&format!("{path}: {name}"), name, &answer), None);
            }
        }
    }
    nothing_is_kept(server);
}

/// As a careless client, a form or a vault's export writes them, in fields of any name.
#[test]
fn card_data_in_any_form_and_under_any_name_is_refused() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), traced(signup::launch()));
    let anyone = Client::new(&server.url);
    for (name, value) in [
        ("cardToken", "4111111111111111"),
        ("secretNote", "4111 1111-1111  1111"),
        ("password", "４１１１１１１１１１１１１１１１"),
        ("card_cvc", "123"),
    ] {
        let mut body = signup::entered("b@example.com");
        body["preferences"] = json!({ name: value });
        let answer = anyone.post("/v1/registrations", &body);
        assert_eq!(wrong(name, name, &answer), None);
    }
    let client = server.tenant();
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let account = account["accountId"].as_str().unwrap();
    let methods = format!("/1.0/kb/accounts/{account}/paymentMethods");
    for name in ["csc", "ccCvv", "card_cvc", "ccVerification"] {
        let properties = json!([{ "key": name, "value": "123" }]);
        let method = json!({
            "pluginName": "__EXTERNAL_PAYMENT__", "pluginInfo": { "properties": properties },
        });
        assert_eq!(wrong(name, "properties", &client.post(&methods, &method)), None);
    }
    let text = client.clone().header("Content-Type", "text/plain");
    for value in [r#"{"password":"4111111111111111"}"#, "<pan>&#52;111111111111111</pan>"] {
        let path = "/1.0/kb/tenants/userKeyValue/note";
        let answer = text.send("POST", path, Some(value.as_bytes()));
        assert_eq!(wrong(value, "", &answer), None);
    }
    nothing_is_kept(server);
}

#[test]
fn keys_that_are_numbers_are_a_tenants_choice() {
    let server = Server::start();
    let client = server.tenant();
    let create = |key: &str| {
        let body = json!({ "currency": "USD", "externalKey": key });
        client.post("/1.0/kb/accounts", &body).status
    };
    assert_eq!(create(TEXTS[0]), 400);
    let choose = |choice: &str| {
        let body = serde_json::to_vec(&json!({ "numericKeys": choice })).unwrap();
        let answer = client.send("PATCH", "/v1/tenant", Some(&body));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["numericKeys"], choice);
        eventually("the choice", || {
            (client.get("/v1/tenant").json()["numericKeys"] == choice).then_some(())
        });
    };
    choose("allowed");
    assert_eq!(create(TEXTS[0]), 201);
    assert_eq!(create("4012-8888-8888-1881"), 400, "only a number alone");
    choose("checked");
    assert_eq!(create("4222222222222"), 400);
}

#[test]
fn headers_with_card_numbers_are_refused() {
    let server = Server::start_with(traced(Launch::usual()));
    let client = server.tenant();
    for header in
        ["X-Killbill-CreatedBy", "X-Killbill-Reason", "X-Killbill-Comment", "Idempotency-Key"]
    {
        for text in TEXTS {
            let with = client.clone().header(header, text);
            let answer = with.post("/1.0/kb/accounts", &json!({ "currency": "USD" }));
            assert_eq!(wrong(header, &header.to_ascii_lowercase(), &answer), None);
        }
    }
    assert_eq!(client.get("/1.0/kb/accounts/pagination").json(), json!([]));
    nothing_is_kept(server);
}

/// All files of a directory and below it.
pub fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut files, mut directories) = (vec![], vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => directories.push(entry.path()),
                false => files.push((entry.path(), fs::read(entry.path()).unwrap())),
            }
        }
    }
    files
}

/// Stops the server and looks for the numbers in all that it has written.
pub fn nothing_is_kept(server: Server) {
    let files = files(&server.data_dir);
    assert!(!files.is_empty());
    for (path, content) in files {
        let content = String::from_utf8_lossy(&content).into_owned();
        let found = NUMBERS.iter().find(|it| content.contains(**it));
        assert_eq!(found, None, "{}", path.display());
    }
    let (_, log) = server.stop();
    let lines = log.lines().filter(|line| NUMBERS.iter().any(|it| line.contains(it)));
    assert_eq!(lines.collect::<Vec<_>>(), [""; 0]);
}
