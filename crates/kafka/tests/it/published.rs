//! Events come in the order of their accounts.

use std::sync::Arc;

use domain::{AccountId, Event, PartitionNo, Seq, TenantNo, Timestamp};
use engine::ports::JournalRow;
use kafka::events::{EVENT_ID, EventPublisher};
use kafka::topics::TopicError;
use rdkafka::message::{Headers as _, Message as _};
use uuid::Uuid;

use crate::scene;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn events_are_published_in_the_order_of_each_account() {
    let settings = scene::scene().await;
    let publisher = EventPublisher::new(&settings).await.unwrap();
    let account = AccountId::new(Uuid::from_u128(77));
    let rows: Vec<_> = (1..=200)
        .map(|seq| JournalRow {
            seq: Seq(seq),
            at: Timestamp(seq),
            committed_at: Timestamp(seq),
            tenant: TenantNo(1),
            events: vec![Event::AccountCreated { account }, Event::AccountChanged { account }],
        })
        .map(Arc::new)
        .collect();
    publisher.publish(&rows[..120]).await.unwrap();
    publisher.publish(&rows[120..]).await.unwrap();
    let partition = PartitionNo::of_key(account.to_string().as_bytes(), 3);
    let partition = i32::try_from(partition.number()).unwrap();
    let records = scene::read(&settings, &settings.topics().events(), partition, 400);
    let expected: Vec<_> =
        (1..=200).flat_map(|seq| [format!("{seq}-0"), format!("{seq}-1")]).collect();
    let ids: Vec<_> = records
        .iter()
        .map(|record| {
            assert_eq!(record.key(), Some(account.to_string().as_bytes()));
            let body: serde_json::Value =
                serde_json::from_slice(record.payload().unwrap()).unwrap();
            let header = record.headers().unwrap().get(0);
            assert_eq!(header.key, EVENT_ID);
            assert_eq!(header.value, body["id"].as_str().map(str::as_bytes));
            body["id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(ids, expected);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn without_its_topic_nothing_is_published() {
    let settings = scene::settings();
    let error = EventPublisher::new(&settings).await.err().unwrap();
    assert!(matches!(error, TopicError::Missing(topic) if topic == settings.topics().events()));
}
