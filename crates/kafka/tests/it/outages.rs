//! Kafka is away: fronts refuse at once, and go on by themselves when it is back. The real broker
//! cannot be stopped from here; librdkafka's own broker for tests can.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Reason;
use engine::queue::Queue as _;
use kafka::topics::Class;
use kafka::{Front, FrontOptions, GroupProtocol, Settings};
use rdkafka::mocking::MockCluster;

use crate::scene::{self, Counting, DONE, Database, TIMEOUT};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn a_front_without_brokers_refuses_at_once() {
    // No server listens on the discard port.
    let settings = Settings::new("127.0.0.1:9");
    let options = FrontOptions::new(&settings.topics(), 0);
    let front = Front::start(&settings, options).unwrap();
    let started = Instant::now();
    assert!(!front.is_available());
    let refused = scene::ask(&front, scene::route(1), scene::request("k")).await;
    assert_eq!(refused, Err(Reason::QueueAway));
    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn a_front_becomes_available_once_its_topics_are_made() {
    let settings = scene::settings();
    let front = Front::start(&settings, FrontOptions::new(&settings.topics(), 0)).unwrap();
    let refused = scene::ask(&front, scene::route(1), scene::request("k")).await;
    assert_eq!(refused, Err(Reason::QueueAway));
    let layout = kafka::topics::Layout { partitions: 3, fronts: 1, replication: 1, in_sync_min: 1 };
    kafka::topics::create(&settings, layout).await.unwrap();
    let mut available = front.availability();
    tokio::time::timeout(TIMEOUT, available.wait_for(|it| *it)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn fronts_and_processors_go_on_when_kafka_is_back() {
    let cluster = MockCluster::new(1).unwrap();
    // It knows the classic protocol of groups.
    let settings = Settings {
        group_protocol: GroupProtocol::Classic,
        delivery_timeout: Duration::from_secs(1),
        ..Settings::new(cluster.bootstrap_servers())
    };
    let topics = settings.topics();
    for (topic, partitions) in [
        (topics.commands(Class::Payment), 3),
        (topics.commands(Class::Balance), 3),
        (topics.reply(), 1),
        (topics.dead_letter(), 1),
    ] {
        cluster.create_topic(&topic, partitions, 1).unwrap();
    }
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    assert_eq!(scene::ask(&front, scene::route(1), scene::request("k")).await, DONE);
    let mut available = front.availability();
    for _ in 0..2 {
        cluster.broker_down(1).unwrap();
        let noticed = available.wait_for(|it| !*it);
        tokio::time::timeout(Duration::from_secs(2), noticed).await.unwrap().unwrap();
        let started = Instant::now();
        let refused = scene::ask(&front, scene::route(1), scene::request("k")).await;
        assert_eq!(refused, Err(Reason::QueueAway));
        assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
        cluster.broker_up(1).unwrap();
        tokio::time::timeout(TIMEOUT, available.wait_for(|it| *it)).await.unwrap().unwrap();
        for account in 0..10 {
            let answer = scene::ask(&front, scene::route(account), scene::request("k")).await;
            assert_eq!(answer, DONE);
        }
    }
    assert_eq!(database.executed().len(), 21);
    processor.stop(TIMEOUT).await;
}
