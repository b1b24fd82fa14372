//! Where notifications may be pushed to, as it is said when a callback is registered, and when they are.

use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;

use crate::client::Client;
use crate::process::{Launch, Server, eventually};
use crate::webhook_receiver::Receiver;

const PATH: &str = "/1.0/kb/tenants/registerNotificationCallback";

/// Callbacks that lead to what only this machine, or its network, can reach.
const INSIDE: [&str; 4] =
    ["http://127.0.0.1:9/cb", "http://[::1]:9/cb", "http://localhost:9/cb", "http://10.0.0.1/cb"];

/// The metadata service of clouds.
const METADATA: &str = "http://169.254.169.254/latest";

fn check(launch: Launch, url: &str, expected: u16) {
    let server = Server::start_with(launch);
    let client = server.tenant();
    let answer = client.send("POST", &format!("{PATH}?cb={url}"), None);
    assert_eq!(answer.status, expected, "{url}: {}", answer.text());
    let callbacks = client.get(PATH).json();
    if expected == 400 {
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert_eq!(message, "cb leads to an address that is not public", "{url}");
        assert_eq!(callbacks["values"], serde_json::json!([]), "{url}");
    } else {
        assert_eq!(callbacks["values"], serde_json::json!([url]));
    }
}

#[test]
fn callbacks_that_lead_inside_are_refused() {
    for url in INSIDE.into_iter().chain([METADATA]) {
        check(Launch::in_earnest(), url, 400);
    }
    check(Launch::in_earnest(), "https://example.com/cb", 201);
}

#[test]
fn callbacks_may_lead_inside_where_that_is_wanted() {
    let wanted = || Launch::in_earnest().env("FAREGATE_PUSH_ALLOW_LOOPBACK", "true");
    check(wanted(), INSIDE[0], 201);
    check(wanted(), METADATA, 400);
    check(Launch::usual(), INSIDE[0], 201);
}

/// Clients that each make an account and then give it a custom field.
const FLOWS: usize = 64;

/// How many custom fields the receiver found of each account, when it heard of it and read it back.
fn fields_read_back(launch: Launch) -> Vec<usize> {
    let server = Server::start_with(launch);
    let client = server.tenant();
    let found = Arc::<Mutex<Vec<usize>>>::default();
    let (into, reader) = (Arc::clone(&found), client.clone());
    let receiver = Receiver::doing(move |it| {
        let event = it.json();
        if event["eventType"] == "ACCOUNT_CREATION" {
            let account = event["accountId"].as_str().unwrap();
            let fields = reader.get(&format!("/1.0/kb/accounts/{account}/customFields")).json();
            into.lock().unwrap().push(fields.as_array().unwrap().len());
        }
    });
    let url = receiver.url.replace('?', "%3F");
    assert_eq!(client.send("POST", &format!("{PATH}?cb={url}"), None).status, 201);
    let flow = |client: Client| {
        let made = client.post("/1.0/kb/accounts", &json!({ "currency": "USD" }));
        let location = made.header("location").unwrap();
        let path = &location[location.find("/1.0/").unwrap()..];
        let field = json!([{ "name": "origin", "value": "web" }]);
        assert_eq!(client.post(&format!("{path}/customFields"), &field).status, 201);
    };
    thread::scope(|scope| {
        for _ in 0..FLOWS {
            let client = client.clone();
            scope.spawn(move || flow(client));
        }
    });
    eventually("all events", || (found.lock().unwrap().len() == FLOWS).then_some(()));
    let found = found.lock().unwrap();
    found.clone()
}

#[test]
fn a_callback_reads_back_what_its_client_writes_just_after() {
    // A busy machine takes longer than the default between the two requests of a client.
    let late = Launch::usual().env("FAREGATE_PUSH_KILLBILL_DELAY", "5s");
    assert_eq!(fields_read_back(late), [1; FLOWS]);
}
