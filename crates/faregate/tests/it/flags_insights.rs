//! Insights of feature flags on the whole server: events of SDKs are counted by the hour, and are
//! there after a restart.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::client::Client;
use crate::flags_streams::{FLAG, sample, secret};
use crate::process::{Launch, Server, TempDir, eventually};

/// The flag's counts for each variation and hour: the variation's id, all evaluations, and those for experiments.
fn counted(client: &Client) -> Vec<(String, i64, i64)> {
    let answer = client.get(&format!("/v1/flags/{FLAG}/insights?environment=dev"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let line = |it: &Value| {
        let hour = it["hour"].as_str().unwrap();
        assert!(hour.ends_with(":00:00Z"), "{hour}");
        let variation = it["variationId"].as_str().unwrap().to_owned();
        (variation, it["count"].as_i64().unwrap(), it["experimentCount"].as_i64().unwrap())
    };
    answer.json()["insights"].as_array().unwrap().iter().map(line).collect()
}

/// Each variation with its counts, the hours aside: one may begin while the test runs.
pub fn summed(client: &Client) -> Vec<(String, i64, i64)> {
    let mut sums: Vec<(String, i64, i64)> = vec![];
    for (variation, count, for_experiments) in counted(client) {
        match sums.iter_mut().find(|it| it.0 == variation) {
            Some(sum) => *sum = (variation, sum.1 + count, sum.2 + for_experiments),
            None => sums.push((variation, count, for_experiments)),
        }
    }
    sums.sort();
    sums
}

pub fn send(server: &Server, secret: &str, variations: &[(&str, bool)], metrics: &[f64]) {
    send_at(server, secret, Timestamp::now(), (variations, metrics));
}

fn send_at(
    server: &Server,
    secret: &str,
    at: Timestamp,
    (variations, metrics): (&[(&str, bool)], &[f64]),
) {
    let variations = variations.iter().map(|(id, for_experiment)| {
        json!({
            "featureFlagKey": FLAG,
            "variation": { "id": id, "value": "" },
            "sendToExperiment": for_experiment,
            "timestamp": at.as_millisecond(),
        })
    });
    let metrics = metrics
        .iter()
        .map(|value| json!({ "type": "CustomEvent", "eventName": "paid", "numericValue": value }));
    let user = json!({ "keyId": "ada", "name": "Ada", "customizedProperties": [] });
    let insight = json!([{
        "user": user,
        "variations": variations.collect::<Vec<_>>(),
        "metrics": metrics.collect::<Vec<_>>(),
    }]);
    let sdk = server.client().header("Authorization", secret);
    let answer = sdk.post("/api/public/insight/track", &insight);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

pub fn start(dir: &TempDir, launch: Launch) -> (Server, Client, String) {
    let server = Server::start_in(dir.path(), launch);
    let client = server.tenant();
    let imported = client.post("/v1/environments/dev/import", &sample());
    assert_eq!(imported.status, 200, "{}", imported.text());
    let secret = secret(&client, "server");
    // Events of a flag that is not yet in the flag cache are not counted.
    eventually("the flag in the cache", || {
        let sdk = server.client().header("Authorization", &secret);
        let flags = sdk.get("/api/public/sdk/server/latest-all");
        flags.text().contains(FLAG).then_some(())
    });
    (server, client, secret)
}

#[test]
fn insights_are_counted_and_survive_a_restart() {
    let dir = TempDir::new();
    let (server, client, secret) = start(&dir, Launch::usual());
    assert_eq!(counted(&client), []);
    send(&server, &secret, &[("on", true), ("on", false), ("off", false), ("none", false)], &[2.5]);
    let first = [("off".to_owned(), 1, 0), ("on".to_owned(), 2, 1)];
    eventually("counts in the store", || (summed(&client) == first).then_some(()));
    let metrics = server.metrics();
    let dropped = "faregate_insights_dropped_total{reason=\"not_counted\"} 1";
    assert!(metrics.contains(dropped), "{metrics}");

    // The last events are written before the process ends.
    send(&server, &secret, &[("on", false)], &[-1.0, 0.25]);
    assert!(server.stop().0.success());
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    assert_eq!(summed(&client), [("off".to_owned(), 1, 0), ("on".to_owned(), 3, 1)]);
    let path = "/v1/environments/dev/insights/metrics?event=paid";
    let metrics = client.get(path).json()["metrics"].take();
    let lines = metrics.as_array().unwrap();
    let sum: f64 = lines.iter().map(|it| it["sum"].as_f64().unwrap()).sum();
    let count: i64 = lines.iter().map(|it| it["count"].as_i64().unwrap()).sum();
    assert_eq!((count, sum, &lines[0]["type"]), (3, 1.75, &json!("CustomEvent")));

    let flag = format!("/v1/flags/{FLAG}/insights");
    let page = client.get(&format!("{flag}?limit=1")).json();
    assert_eq!((page["insights"].as_array().unwrap().len(), &page["more"]), (1, &json!(true)));
    let ended = client.get(&format!("{flag}?to=2026-01-01")).json();
    assert_eq!(ended, json!({ "insights": [], "more": false }));
    assert_eq!(client.get("/v1/flags/nowhere/insights").status, 404);
    assert_eq!(client.get(&format!("{flag}?environment=nowhere")).status, 404);
    assert_eq!(client.get(&format!("{flag}?from=yesterday")).status, 400);
    assert_eq!(client.get("/v1/environments/dev/insights/metrics").status, 400);
    let elsewhere = client.get(&path.replace("dev", "prod")).json();
    assert_eq!(elsewhere, json!({ "metrics": [], "more": false }));
    // The front's limit is below the API's.
    let sdk = server.client().header("Authorization", &secret);
    let large = vec![b' '; 1024 * 1024 + 1];
    let refused = sdk.send("POST", "/api/public/insight/track", Some(&large));
    assert_eq!((refused.status, refused.text().as_str()), (413, "the body is too large"));
}

#[test]
fn expired_insights_are_deleted() {
    let dir = TempDir::new();
    let (server, client, secret) = start(&dir, Launch::usual());
    let old = Timestamp::now() - SignedDuration::from_hours(20);
    send_at(&server, &secret, old, (&[("off", false)], &[]));
    send(&server, &secret, &[("on", false)], &[]);
    assert!(server.stop().0.success());
    drop(client);
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    assert_eq!(summed(&client), [("off".to_owned(), 1, 0), ("on".to_owned(), 1, 0)]);
    assert!(server.stop().0.success());
    let launch = Launch::usual().env("FAREGATE_FLAGS_INSIGHTS_RETENTION", "3h");
    let server = Server::start_in(dir.path(), launch);
    let client = server.client().tenant("bob", "lazar");
    let left = [("on".to_owned(), 1, 0)];
    eventually("the old count has gone", || (summed(&client) == left).then_some(()));
}
