//! Topics are made once, and those that exist are checked.

use kafka::Settings;
use kafka::topics::{self, Class, Layout, TopicError};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;

use crate::scene;

const LAYOUT: Layout = Layout { partitions: 3, fronts: 2, replication: 1, in_sync_min: 1 };

#[tokio::test]
#[ignore = "needs Kafka: conformance/run"]
async fn topics_are_made_once_and_checked() {
    let settings = scene::settings();
    let missing = topics::check(&settings).await.unwrap_err();
    assert!(
        matches!(&missing, TopicError::Missing(topic) if topic.ends_with(".payment")),
        "{missing}"
    );
    let made = topics::create(&settings, LAYOUT).await.unwrap();
    assert_eq!(made.iter().map(|it| it.partitions).collect::<Vec<_>>(), [3, 3, 2, 3, 1]);
    assert!(made.iter().all(|it| !it.existed));
    let again = topics::create(&settings, LAYOUT).await.unwrap();
    assert!(again.iter().all(|it| it.existed));
    assert_eq!(topics::check(&settings).await.unwrap(), (3, 2));
    let wrong = topics::create(&settings, Layout { partitions: 5, ..LAYOUT }).await.unwrap_err();
    let payment = settings.topics().commands(Class::Payment);
    assert_eq!(
        wrong.to_string(),
        format!(
            "topic {payment} has 3 partitions, not 5: the number cannot be changed, because an \
             account's partition depends on it"
        )
    );
    // Fronts can become more, and fewer need no fewer partitions.
    for fronts in [4, 2] {
        let made = topics::create(&settings, Layout { fronts, ..LAYOUT }).await.unwrap();
        assert_eq!(made.iter().map(|it| it.partitions).collect::<Vec<_>>(), [3, 3, 4, 3, 1]);
    }
    let larger = Settings { message_bytes_max: 2 * 1024 * 1024, ..settings.clone() };
    let small = topics::check(&larger).await.unwrap_err().to_string();
    assert!(small.contains("has max.message.bytes=1052672, but needs 2101248"), "{small}");
}

#[tokio::test]
#[ignore = "needs Kafka: conformance/run"]
async fn of_two_that_make_topics_at_once_the_slower_checks_those_of_the_other() {
    let settings = scene::settings();
    let other = Layout { partitions: LAYOUT.partitions + 1, ..LAYOUT };
    let made = tokio::join!(topics::create(&settings, LAYOUT), topics::create(&settings, other));
    let error = match made {
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => error.to_string(),
        made => panic!("{made:?}"),
    };
    assert!(error.contains("partitions"), "{error}");
}

#[tokio::test]
#[ignore = "needs Kafka: conformance/run"]
async fn a_topic_whose_records_the_broker_does_not_stamp_will_not_do() {
    let settings = scene::settings();
    let admin: AdminClient<DefaultClientContext> = scene::client(&settings).create().unwrap();
    let payment = settings.topics().commands(Class::Payment);
    let topic = NewTopic::new(&payment, 3, TopicReplication::Fixed(1));
    admin.create_topics([&topic], &AdminOptions::new()).await.unwrap();
    let error = topics::create(&settings, LAYOUT).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("topic {payment} has message.timestamp.type=CreateTime, but needs LogAppendTime")
    );
}

/// The promise of `docs/reference/kafka.md` about personal data.
#[tokio::test]
#[ignore = "needs Kafka: conformance/run"]
async fn topics_are_made_with_the_retention_that_is_promised() {
    const MINUTES: &str = "600000";
    const HOUR: &str = "3600000";
    const DAY: &str = "86400000";
    const WEEK: &str = "604800000";
    let settings = scene::settings();
    topics::create(&settings, LAYOUT).await.unwrap();
    let admin: AdminClient<DefaultClientContext> = scene::client(&settings).create().unwrap();
    let names = settings.topics();
    let promised: [(String, &[(&str, &str)]); 5] = [
        (names.commands(Class::Payment), &[("retention.ms", WEEK), ("segment.ms", DAY)]),
        (names.commands(Class::Balance), &[("retention.ms", HOUR)]),
        (names.reply(), &[("retention.ms", MINUTES), ("segment.ms", MINUTES)]),
        (names.events(), &[("retention.ms", WEEK)]),
        (names.dead_letter(), &[("max.compaction.lag.ms", DAY), ("segment.ms", DAY)]),
    ];
    for (topic, promised) in promised {
        let topics = [&ResourceSpecifier::Topic(&topic)];
        let described = admin.describe_configs(topics, &AdminOptions::new()).await.unwrap();
        let described = described.into_iter().next().unwrap().unwrap();
        for (name, value) in promised {
            let found = described.get(name).and_then(|it| it.value.as_deref());
            assert_eq!(found, Some(*value), "{topic}: {name}");
        }
    }
}
