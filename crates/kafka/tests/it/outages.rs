//! Kafka is away: fronts refuse at once, and go on by themselves when it is back. The real broker
//! cannot be stopped from here; librdkafka's own broker for tests can.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::PartitionNo;
use engine::Reason;
use engine::queue::Queue as _;
use kafka::topics::Class;
use kafka::{Front, FrontOptions, GroupProtocol, Settings};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::RDKafkaRespErr;

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

/// The settings for a simulated cluster, whose topics are made.
fn settings_on(cluster: &MockCluster<'static, DefaultProducerContext>) -> Settings {
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
    settings
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn fronts_and_processors_go_on_when_kafka_is_back() {
    let cluster = MockCluster::new(1).unwrap();
    let settings = settings_on(&cluster);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_cannot_be_written_holds_up_its_partition_alone() {
    let cluster = MockCluster::new(1).unwrap();
    let settings = settings_on(&cluster);
    let topics = settings.topics();
    let commands = topics.commands(Class::Payment);
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.topic_error(&topics.dead_letter(), refused).unwrap();
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    scene::write_signed(&settings, (&commands, 0), b"garbage", None);
    let account = |partition: u16| {
        (0..)
            .find(|it| {
                PartitionNo::of_key(scene::route(*it).key().as_bytes(), 3).number()
                    == i64::from(partition)
            })
            .unwrap()
    };
    for partition in [1, 2] {
        let route = scene::route(account(partition));
        assert_eq!(scene::ask(&front, route, scene::request("k")).await, DONE);
    }
    let behind = scene::request("behind");
    let waiting = scene::ask(&front, scene::route(account(0)), behind);
    let mut waiting = std::pin::pin!(waiting);
    let not_yet = tokio::time::timeout(Duration::from_secs(1), waiting.as_mut()).await;
    assert!(not_yet.is_err(), "nothing passes what is not kept yet");
    assert_eq!(database.skipped(), []);
    let none = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
    cluster.topic_error(&topics.dead_letter(), none).unwrap();
    assert_eq!(waiting.await, DONE);
    assert_eq!(database.skipped(), [(0, 0)]);
    assert_eq!(database.executed().len(), 3);

    // A processor that stops does not wait for another one.
    cluster.topic_error(&topics.dead_letter(), refused).unwrap();
    scene::write_signed(&settings, (&commands, 0), b"garbage", None);
    let route = scene::route(account(1));
    assert_eq!(scene::ask(&front, route, scene::request("k")).await, DONE);
    tokio::time::timeout(TIMEOUT, processor.stop(Duration::from_secs(1))).await.unwrap();
}
