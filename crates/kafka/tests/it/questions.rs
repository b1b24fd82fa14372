//! Questions are read on from where the group has come to.

use std::sync::Arc;

use domain::{AccountId, TenantNo};
use engine::queue::{Message, Queue as _};
use kafka::topics::Class;
use kafka::{Command, CommandBody, ReplyTo, Settings};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use uuid::Uuid;

use crate::scene::{self, Counting, Database, TIMEOUT};

/// How many replies there were for the first front.
fn replies(settings: &Settings) -> i64 {
    let looker: BaseConsumer = scene::client(settings).create().unwrap();
    looker.fetch_watermarks(&settings.topics().reply(), 0, TIMEOUT).unwrap().1
}

fn question(account: u128) -> Message {
    let account = AccountId::new(Uuid::from_u128(account));
    Message::Balance { tenant: TenantNo(2), account, work: None }
}

/// Neither is any answered twice, nor one skipped that came while there was no processor.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kafka: conformance/run"]
async fn late_consumer_continues_at_the_group_offset() {
    for group_protocol in scene::PROTOCOLS {
        let settings = Settings { group_protocol, ..scene::scene().await };
        let topics = settings.topics();
        let database = Arc::new(Database::default());
        let processor = scene::process(&settings, Class::Balance, Counting::new(1, &database));
        let front = scene::front(&settings, TIMEOUT).await;
        for account in 0..30 {
            front
                .ask(scene::route(account), question(account))
                .await
                .expect("the question is answered");
        }
        processor.stop(TIMEOUT).await;
        let answered = replies(&settings);
        assert!(answered >= 30, "{answered}");

        for partition in 0..3 {
            let topic = topics.reply();
            let reply_to = ReplyTo { front: 1, correlation: 2, topic, partition: 1 };
            let body = CommandBody::Ask(question(7));
            let command = Command { reply_to, time_to_live: TIMEOUT, body }.encode();
            scene::write(&settings, &topics.commands(Class::Balance), partition, &command);
        }
        let processor = scene::process(&settings, Class::Balance, Counting::new(2, &database));
        assert_eq!(scene::read(&settings, &topics.reply(), 1, 3).len(), 3);
        processor.stop(TIMEOUT).await;
        assert_eq!(replies(&settings), answered, "with {}", group_protocol.name());
    }
}
