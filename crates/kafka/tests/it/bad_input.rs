//! Records that no front of ours wrote, or that come too late.

use std::sync::Arc;
use std::time::Duration;

use kafka::dead_letter;
use kafka::topics::Class;
use kafka::{ReplyBody, ReplyEnvelope};
use rdkafka::message::Message as _;

use crate::scene::{self, Counting, DONE, Database, TIMEOUT};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn expired_command_is_dropped_and_its_front_notified() {
    let settings = scene::scene().await;
    let topics = settings.topics();
    let database = Arc::new(Database::default());
    let late = scene::command(scene::request("k"), &topics.reply(), 1, Duration::from_millis(1));
    scene::write(&settings, &topics.commands(Class::Payment), 0, &late);
    let fresh = scene::request("k");
    let id = fresh.id;
    let fresh = scene::command(fresh, &topics.reply(), 1, TIMEOUT);
    scene::write(&settings, &topics.commands(Class::Payment), 0, &fresh);
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let replies = scene::read(&settings, &topics.reply(), 1, 2);
    let outcomes: Vec<_> = replies
        .iter()
        .map(|it| ReplyEnvelope::decode(it.payload().unwrap()).unwrap().outcome)
        .collect();
    // In any order.
    let count = |is_so: fn(&ReplyBody) -> bool| outcomes.iter().filter(|it| is_so(it)).count();
    assert_eq!(count(|it| *it == ReplyBody::Expired), 1, "{outcomes:?}");
    assert_eq!(count(|it| matches!(it, ReplyBody::Reply(_))), 1, "{outcomes:?}");
    assert_eq!(database.executed(), [id]);
    assert_eq!(database.skipped(), [(0, 0)]);
    processor.stop(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn unreadable_record_becomes_a_dead_letter_and_the_next_is_processed() {
    let settings = scene::scene().await;
    let topics = settings.topics();
    let commands = topics.commands(Class::Payment);
    let good = scene::command(scene::request("k"), &topics.reply(), 1, TIMEOUT);
    let later_version = [&[8, 2], &good[2..]].concat();
    scene::write(&settings, &commands, 0, b"\xff\xff garbage");
    scene::write(&settings, &commands, 0, &good[..good.len() - 3]);
    scene::write(&settings, &commands, 0, &later_version);
    scene::write(&settings, &commands, 0, b"");
    scene::write(&settings, &commands, 0, &good);
    let database = Arc::new(Database::default());
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    scene::until("the good one", || database.executed().len() == 1).await;
    let dead_letters = dead_letter::list(&settings).await.unwrap().waiting;
    let found: Vec<_> = dead_letters
        .iter()
        .map(|it| (it.dead_letter.reason.as_str(), it.dead_letter.offset, it.dead_letter.attempts))
        .collect();
    assert_eq!(
        found,
        [("garbage", 0, 1), ("garbage", 1, 1), ("unknown_version", 2, 1), ("garbage", 3, 1)]
    );
    assert_eq!(dead_letters[2].dead_letter.value, later_version);
    assert_eq!(dead_letters[2].dead_letter.key.as_deref(), Some(b"k".as_slice()));
    assert_eq!(dead_letters[2].dead_letter.topic, commands);
    assert_eq!(database.skipped(), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    processor.stop(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn replies_that_lead_nowhere_disturb_nobody() {
    let settings = scene::scene().await;
    let topics = settings.topics();
    let database = Arc::new(Database::default());
    let missing = format!("{}.missing", topics.reply());
    let events = topics.events();
    let places = [(missing.as_str(), 0), (events.as_str(), 0), (&topics.reply(), 99), ("", -1)];
    for (topic, partition) in places {
        let command = scene::command(scene::request("k"), topic, partition, TIMEOUT);
        scene::write(&settings, &topics.commands(Class::Payment), 0, &command);
    }
    let processor = scene::process(&settings, Class::Payment, Counting::new(1, &database));
    let front = scene::front(&settings, TIMEOUT).await;
    for account in 0..10 {
        assert_eq!(scene::ask(&front, scene::route(account), scene::request("k")).await, DONE);
    }
    scene::until("all are executed", || database.executed().len() == 14).await;
    processor.stop(TIMEOUT).await;
    let metadata_client: rdkafka::consumer::BaseConsumer =
        scene::client(&settings).create().unwrap();
    let metadata =
        rdkafka::consumer::Consumer::fetch_metadata(&metadata_client, None, TIMEOUT).unwrap();
    assert!(metadata.topics().iter().all(|it| it.name() != missing), "none is made by accident");
    let front = scene::front(&settings, TIMEOUT).await;
    drop(front);
    let event =
        rdkafka::consumer::Consumer::fetch_watermarks(&metadata_client, &events, 0, TIMEOUT);
    assert_eq!(event.unwrap(), (0, 0), "replies go to reply topics only");
}
