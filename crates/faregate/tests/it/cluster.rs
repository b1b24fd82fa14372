//! Fronts and a processor with Kafka and PostgreSQL between them: `conformance/postgres conformance/kafka` names
//! both.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::Client;
use crate::disputes::{booked, paid, said};
use crate::events::Stream;
use crate::gateways::{Program, account, endpoint_of, pay, payment_of};
use crate::log_faults::on_a_full_disk;
use crate::native;
use crate::postgres::{Scratch, key_file};
use crate::process::{Launch, Server, TempDir, eventually, run};
use crate::webhook_receiver::Receiver;
use crate::webhooks::replay_to;

/// A processor and two fronts with one program as their gateway.
pub(crate) struct Cluster {
    processor: Server,
    fronts: [Server; 2],
    program: Program,
    // Dropped last: the processes use them.
    _dir: TempDir,
    _database: Scratch,
}

impl Cluster {
    fn start() -> Self {
        Self::start_with(&[])
    }

    /// Each process has these variables too.
    pub(crate) fn start_with(environment: &[(&str, &str)]) -> Self {
        Self::start_logging_to(Stdio::piped, environment)
    }

    /// The log of each process goes elsewhere.
    fn start_logging_to(log: fn() -> Stdio, environment: &[(&str, &str)]) -> Self {
        let brokers = std::env::var("FAREGATE_TEST_KAFKA").expect("it names a broker");
        let (database, dir) = (Scratch::new(), TempDir::new());
        let (program, config) = Program::start(dir.path());
        program.answer_from_now_on();
        let prefix = format!("it-{}", uuid::Uuid::now_v7().simple());
        let mut file = std::fs::OpenOptions::new().append(true).open(&config).unwrap();
        write!(file, "[kafka]\nbrokers = \"{brokers}\"\ntopic_prefix = \"{prefix}\"\n").unwrap();
        let layout = ["--fronts", "2", "--replication", "1", "--partitions", "3"];
        let made = run(&[&["topics", "create", "--config", &config], &layout[..]].concat());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let launch = |role: &str, front: &str| {
            let arguments = ["--role", role, "--queue", "kafka"];
            let mut launch = Launch::in_earnest();
            launch.arguments.extend(arguments.map(str::to_owned));
            environment
                .iter()
                .fold(launch, |launch, (name, value)| launch.env(name, value))
                .env("FAREGATE_DATABASE_URL", &database.url())
                .env("FAREGATE_CONFIG", &config)
                .env("FAREGATE_PUSH_ALLOW_LOOPBACK", "true")
                .env("FAREGATE_KAFKA_FRONT_ID", front)
                .env("FAREGATE_KAFKA_KEY_FILE", &key_file(&dir, "kafka.key"))
                .env("FAREGATE_FLAGS_KEY_FILE", &key_file(&dir, "flags.key"))
        };
        let start =
            |name: &str, launch| Server::start_logging_to(log(), &dir.path().join(name), launch);
        let processor = start("processor", launch("processor", "0"));
        let fronts = ["0", "1"].map(|id| start(&format!("front-{id}"), launch("front", id).grpc()));
        Self { processor, fronts, program, _dir: dir, _database: database }
    }

    /// The second front.
    pub(crate) const fn other_front(&self) -> &Server {
        &self.fronts[1]
    }

    /// A tenant, as a client of each front.
    pub(crate) fn tenant(&self) -> [Client; 2] {
        let body = json!({ "apiKey": "bob", "apiSecret": "lazar" });
        eventually("the first partition has an owner", || {
            let made = self.fronts[0].client().post("/1.0/kb/tenants", &body);
            (made.status == 201 || made.status == 409).then_some(())
        });
        for front in &self.fronts {
            eventually("the front reaches the queue", || {
                (front.client().get("/health/ready").status == 200).then_some(())
            });
        }
        self.fronts.each_ref().map(|front| front.client().tenant("bob", "lazar"))
    }
}

#[test]
#[ignore = "needs Kafka and PostgreSQL: conformance/run"]
fn a_cluster_serves_without_a_log() {
    let cluster = Cluster::start_logging_to(on_a_full_disk, &[("FAREGATE_LOG_LEVEL", "debug")]);
    for client in cluster.tenant() {
        let account = native::account(&client, "__EXTERNAL_PAYMENT__");
        for _ in 0..20 {
            native::purchase(&client, &account, "10", "");
        }
    }
    let Cluster { processor, fronts, _database, .. } = cluster;
    for process in fronts.into_iter().chain([processor]) {
        let (status, _) = process.stop();
        assert_eq!(status.code(), Some(0));
    }
}

#[test]
#[ignore = "needs Kafka and PostgreSQL: conformance/run"]
fn cluster_books_what_the_gateway_says_and_not_what_a_front_does() {
    let cluster = Cluster::start();
    let [client, other] = cluster.tenant();
    let program = &cluster.program;
    program.state().status = Some("PENDING");
    let payment = payment_of(&pay(&client, &account(&client, "acme"), "PURCHASE"));
    let transaction = || {
        let shown = client.get(&format!("/1.0/kb/payments/{payment}")).json();
        shown["transactions"][0].clone()
    };
    let id = transaction()["transactionId"].clone();
    assert_eq!(transaction()["status"], "PENDING");
    // What a front reads in the notification, what the gateway answers to the owner, and what comes of it.
    let notify = |notified: &str, answered: &'static str| {
        program.state().status = Some(answered);
        let outcome = json!({ "transactionId": id, "status": notified });
        program.state().about = json!({ "paymentId": payment, "outcome": outcome });
        let path = "/1.0/kb/paymentGateways/notification/acme";
        let answer = other.send("POST", path, Some(b"order 7"));
        let (status, said) = (answer.status, answer.text());
        assert!(
            status == 200 || said.contains("the gateway cannot be asked now"),
            "{status} {said}"
        );
        (status, transaction()["status"].as_str().unwrap().to_owned())
    };
    for (notified, answered, status, becomes) in [
        // The gateway that is asked is behind the one that notified, or cannot be believed.
        ("PROCESSED", "PENDING", 503, "PENDING"),
        ("PROCESSED", "FINE", 503, "PENDING"),
        ("PENDING", "PENDING", 200, "PENDING"),
        ("PROCESSED", "PROCESSED", 200, "SUCCESS"),
        ("PROCESSED", "PROCESSED", 200, "SUCCESS"),
        // A front that lies.
        ("ERROR", "PROCESSED", 200, "SUCCESS"),
        // A success that turns out to have failed, and an old notification after it.
        ("ERROR", "ERROR", 200, "PAYMENT_FAILURE"),
        ("PROCESSED", "ERROR", 200, "PAYMENT_FAILURE"),
        // A late success.
        ("PROCESSED", "PROCESSED", 200, "SUCCESS"),
    ] {
        let expected = (status, becomes.to_owned());
        assert_eq!(notify(notified, answered), expected, "{notified} {answered}");
    }
    let asked = program.state().inquiries;
    let stranger = json!({ "transactionId": id, "status": "ERROR" });
    program.state().about =
        json!({ "paymentId": "0192aabb-ccdd-7000-8000-000000000001", "outcome": stranger });
    let path = "/1.0/kb/paymentGateways/notification/acme";
    // It may be one of after the backup that was restored: it has to come again.
    assert_eq!(other.send("POST", path, Some(b"order 8")).status, 503);
    assert_eq!(program.state().inquiries, asked, "about nothing that is known");
    // Many at once are few inquiries.
    program.state().about = json!({
        "paymentId": payment, "outcome": { "transactionId": id, "status": "PROCESSED" },
    });
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| assert_eq!(other.send("POST", path, Some(b"order 7")).status, 200));
        }
    });
    assert!(program.state().inquiries < asked + 32, "{}", program.state().inquiries - asked);
    assert_eq!(program.state().charges_of(&id), 1);
    assert_eq!(transaction()["status"], Value::from("SUCCESS"));
}

#[test]
#[ignore = "needs Kafka and PostgreSQL: conformance/run"]
fn cluster_fronts_refuse_an_endpoint_that_another_front_withdrew() {
    let cluster = Cluster::start();
    let [client, other] = cluster.tenant();
    cluster.program.state().about = json!({});
    let takes = |path: &str| other.send("POST", path, Some(b"{}")).status;
    let first = endpoint_of(&client, "GET");
    assert_eq!(takes(&first), 200);
    let second = endpoint_of(&client, "DELETE");
    assert_eq!((takes(&first), takes(&second)), (404, 200));
    assert_eq!(endpoint_of(&other, "GET"), second);
}

#[test]
#[ignore = "needs Kafka and PostgreSQL: conformance/run"]
fn cluster_fronts_list_and_stream_the_events_of_all_partitions() {
    let cluster = Cluster::start();
    let [client, other] = cluster.tenant();
    let mut stream = Stream::open(&other, "/v1/events");
    for _ in 0..8 {
        account(&client, "acme");
    }
    let streamed: BTreeSet<String> = stream.ids("account.created", 8).into_iter().collect();
    assert_eq!(streamed.len(), 8);
    let (mut next, mut listed) = ("first".to_owned(), vec![]);
    loop {
        let page = client.get(&format!("/v1/events?limit=1&after={next}")).json();
        let events = page["events"].as_array().unwrap().clone();
        listed.extend(events.into_iter().filter(|it| it["type"] == "account.created"));
        page["next"].as_str().unwrap().clone_into(&mut next);
        if page["more"] == false {
            break;
        }
    }
    assert!(next.contains('-'), "a row of each partition: {next}");
    let ids: Vec<&str> = listed.iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), ids.iter().map(|it| (*it).to_owned()).collect()), (8, streamed));
    let at = |it: &Value| it["at"].as_str().unwrap().trim_end_matches('Z').to_owned();
    let times: Vec<String> = listed.iter().map(at).collect();
    assert!(times.is_sorted(), "the oldest first: {times:?}");
    for event in &listed {
        let shown = other.get(&format!("/v1/events/{}", event["id"].as_str().unwrap()));
        assert_eq!((shown.status, &shown.json()), (200, event));
    }
    let resumed = client.clone().header("Last-Event-ID", &next);
    let mut resumed = Stream::open(&resumed, "/v1/events");
    account(&other, "acme");
    let new = resumed.ids("account.created", 1);
    assert!(!ids.contains(&new[0].as_str()), "what was listed is not streamed again");
}

#[test]
#[ignore = "needs Kafka and PostgreSQL: conformance/run"]
fn cluster_fronts_have_the_owner_of_an_event_send_it_again() {
    let cluster = Cluster::start();
    let [client, other] = cluster.tenant();
    let receiver = Receiver::start();
    let made = json!({ "url": receiver.url, "events": ["account.created"] });
    let made = client.post("/v1/webhooks/endpoints", &made).json();
    // Of accounts in several partitions.
    for _ in 0..6 {
        account(&client, "acme");
    }
    let first = eventually("all arrive", || {
        let ids = receiver.ids("account.created");
        (ids.len() == 6).then_some(ids)
    });
    for id in &first {
        let sent = other.post(&format!("/v1/events/{id}/resend"), &json!({}));
        assert_eq!((sent.status, sent.json()), (202, json!({ "endpoints": 1 })));
    }
    let mut again = eventually("all arrive again", || {
        let ids = receiver.ids("account.created");
        (ids.len() == 12).then(|| ids[6..].to_vec())
    });
    again.sort();
    assert_eq!(again.iter().collect::<BTreeSet<_>>(), first.iter().collect());
    assert_eq!(other.post("/v1/events/evt_1_0/resend", &json!({})).status, 404);
    assert_eq!(replay_to(&other, &made["id"]).0, 202);
    assert_eq!(replay_to(&other, &json!("callback")), (400, "endpoint".to_owned()));
}

#[test]
#[ignore = "needs Kafka and PostgreSQL: conformance/run"]
fn cluster_fronts_ask_control_programs_before_they_send_a_call() {
    let cluster = Cluster::start();
    let [client, other] = cluster.tenant();
    let payer = account(&client, "acme");
    let path = format!("/1.0/kb/accounts/{payer}/payments?controlPluginName=acme");
    let body = json!({ "transactionType": "PURCHASE", "amount": "10" });
    let decides = |decision: Value| cluster.program.state().decision = decision;
    decides(json!({ "aborted": true, "reason": "too risky" }));
    assert_eq!(other.post(&path, &body).status, 422);
    decides(json!({ "aborted": null }));
    assert_eq!(other.post(&path, &body).status, 503);
    assert_eq!(client.get(&path).json(), json!([]));
    decides(json!({ "amount": "7" }));
    let paid = other.post(&path, &body);
    assert_eq!(paid.status, 201, "{}", paid.text());
    let shown = client.get(&path).json();
    assert_eq!(shown[0]["transactions"][0]["amount"], 7.0);
    assert_eq!(cluster.program.state().controls.len(), 3);
}

#[test]
#[ignore = "needs Kafka and PostgreSQL: conformance/run"]
fn cluster_books_the_dispute_that_the_gateway_has_and_not_what_a_front_says() {
    let cluster = Cluster::start();
    let [client, other] = cluster.tenant();
    let program = &cluster.program;
    let (payment, transaction) = paid(&client, "acme");
    let notify = |notified: Value, answered: Value| {
        program.state().dispute = answered;
        program.state().about = json!({ "paymentId": payment, "dispute": notified });
        let path = "/1.0/kb/paymentGateways/notification/acme";
        other.send("POST", path, Some(b"case 7")).status
    };
    let open = || said(&transaction, "NEEDS_RESPONSE", "10", "0");
    // A front that makes one up, and a gateway that answers of another case.
    assert_eq!(notify(open(), Value::Null), 503);
    let mut of_another = open();
    of_another["disputeId"] = json!("case-8");
    assert_eq!(notify(open(), of_another), 503);
    assert_eq!(client.get("/v1/disputes").json()["disputes"], json!([]));
    assert_eq!(notify(open(), open()), 200);
    assert_eq!(booked(&client, &payment), "NEEDS_RESPONSE 10.00 0.00 0.00 0.00");
    // A front that lies.
    assert_eq!(notify(said(&transaction, "WON", "10", "10"), open()), 200);
    assert_eq!(booked(&client, &payment), "NEEDS_RESPONSE 10.00 0.00 0.00 0.00");
    assert_eq!(notify(open(), said(&transaction, "WON", "10", "10")), 200);
    assert_eq!(booked(&client, &payment), "WON 10.00 10.00 0.00 0.00");
}
