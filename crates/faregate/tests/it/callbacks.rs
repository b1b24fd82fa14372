//! Where notifications may be pushed to, as it is said when a callback is registered.

use crate::process::{Launch, Server};

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
