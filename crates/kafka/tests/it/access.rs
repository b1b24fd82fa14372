//! The rights that `ops/kafka/acls` gives are those that fronts, processors and operators need.

use std::process::Command;
use std::sync::Arc;

use domain::{AccountId, Event, Seq, TenantNo, Timestamp};
use engine::Reason;
use engine::ports::JournalRow;
use engine::queue::{Message, Queue as _};
use kafka::Settings;
use kafka::dead_letter;
use kafka::events::EventPublisher;
use kafka::topics::{self, Class, Layout};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{FutureProducer, FutureRecord};
use uuid::Uuid;

use crate::scene::{self, Counting, DONE, Database, TIMEOUT};

/// Lets the script of `ops/` give the rights for these topics; false where the broker has no users.
fn give_rights(settings: &Settings) -> bool {
    let setting = |name: &str| std::env::var(format!("FAREGATE_TEST_KAFKA_{name}")).ok();
    let (Some(command), Some(admin)) = (setting("ACLS"), setting("ADMIN")) else { return false };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops/kafka/acls");
    let mut given = Command::new(script);
    given.arg(admin).env("KAFKA_ACLS", command).env("PREFIX", &settings.topic_prefix);
    let given = given.output().unwrap();
    assert!(given.status.success(), "{}", String::from_utf8_lossy(&given.stderr));
    true
}

/// The brokers' error for a record of this user; `None` where they take it.
async fn write(user: &Settings, topic: &str) -> Option<RDKafkaErrorCode> {
    let producer: FutureProducer = scene::client(user).create().unwrap();
    let record: FutureRecord<'_, str, [u8]> = FutureRecord::to(topic).partition(0).payload(b"x");
    match producer.send(record, TIMEOUT).await {
        Ok(_) => None,
        Err((KafkaError::MessageProduction(code), _)) => Some(code),
        Err((error, _)) => panic!("{topic}: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn each_user_has_the_rights_that_it_needs_and_no_others() {
    let settings = scene::settings();
    if !give_rights(&settings) {
        return;
    }
    let user = |role: &str| {
        let mut of_user = settings.clone();
        of_user.security.sasl_username = format!("faregate-{role}");
        of_user
    };
    let (front_user, processor_user, operator) =
        (user("front"), user("processor"), user("operator"));
    let layout = Layout { partitions: 3, fronts: 1, replication: 1, in_sync_min: 1 };
    topics::create(&operator, layout).await.unwrap();
    assert_eq!(topics::check(&processor_user).await.unwrap(), (3, 1));

    let database = Arc::new(Database::default());
    let payments = scene::process(&processor_user, Class::Payment, Counting::new(1, &database));
    let balances = scene::process(&processor_user, Class::Balance, Counting::new(2, &database));
    let front = scene::front(&front_user, TIMEOUT).await;
    assert_eq!(scene::ask(&front, scene::route(1), scene::request("k")).await, DONE);
    let account = AccountId::new(Uuid::from_u128(7));
    let question = Message::Balance { tenant: TenantNo(2), account, work: None };
    assert!(front.ask(scene::route(7), question).await.is_ok());

    let parked = scene::ask(&front, scene::route(1), scene::request("park")).await;
    assert_eq!(parked, Err(Reason::Bug));
    let parked = dead_letter::list(&operator).await.unwrap().waiting.remove(0);
    dead_letter::retry(&operator, parked.id).await.unwrap();
    let publisher = EventPublisher::new(&processor_user).await.unwrap();
    let row = JournalRow {
        seq: Seq(1),
        at: Timestamp(1),
        committed_at: Timestamp(1),
        tenant: TenantNo(1),
        events: vec![Event::AccountCreated { account }],
    };
    publisher.publish(&[row.into()]).await.unwrap();
    payments.stop(TIMEOUT).await;
    balances.stop(TIMEOUT).await;

    let names = settings.topics();
    let refused = Some(RDKafkaErrorCode::TopicAuthorizationFailed);
    for topic in [names.reply(), names.dead_letter(), names.events()] {
        assert_eq!(write(&front_user, &topic).await, refused, "a front and {topic}");
    }
    for topic in [names.reply(), names.events()] {
        assert_eq!(write(&operator, &topic).await, refused, "an operator and {topic}");
    }
}
