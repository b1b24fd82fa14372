//! What happened, published for everybody else: one record per event of the journal, in the order
//! of each account, at least once. `docs/reference/kafka.md` describes them.

use std::time::Duration;

use domain::Event;
use engine::ports::JournalRow;
use futures_util::future::join_all;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};

use crate::client::Logged;
use crate::front::partition_count;
use crate::settings::Settings;
use crate::topics::TopicError;

/// The follower's name in the store.
pub const FOLLOWER: &str = "kafka";

/// The header with the event's id.
pub const EVENT_ID: &str = "faregate-event-id";

/// Publishes events.
pub struct EventPublisher {
    producer: FutureProducer<Logged>,
    topic: String,
    published: metrics::Counter,
}

impl EventPublisher {
    /// Makes one for the topic of events, which must exist.
    ///
    /// # Errors
    /// [`TopicError`].
    pub async fn new(settings: &Settings) -> Result<Self, TopicError> {
        let topic = settings.topics().events();
        let asker: BaseConsumer<Logged> = settings.client().create_with_context(Logged)?;
        let asked = topic.clone();
        let asking = tokio::task::spawn_blocking(move || partition_count(&asker, &asked));
        asking.await.expect("asking does not panic")?;
        let mut config = settings.sure_producer();
        // Never given up: an event that was would be overtaken by those after it.
        config.set("message.timeout.ms", "0");
        let producer = config.create_with_context(Logged)?;
        let published = metrics::counter!("faregate_queue_events_published_total");
        Ok(Self { producer, topic, published })
    }

    /// Publishes the events of rows, in order; returns once all of them are on all in-sync replicas,
    /// however long Kafka is away. The rows may be recorded as followed then. One call at a time,
    /// with the rows of a journal in order, keeps the order of each account.
    ///
    /// # Errors
    /// Some may have been published and others not: this publisher is to be replaced, and the same
    /// rows published again.
    pub async fn publish(&self, rows: &[JournalRow]) -> Result<(), KafkaError> {
        let mut waiting = vec![];
        for row in rows {
            for (ordinal, event) in row.events.iter().enumerate() {
                self.send(row, ordinal, event, &mut waiting).await?;
            }
        }
        settle(&mut waiting).await?;
        let events: usize = rows.iter().map(|row| row.events.len()).sum();
        self.published.increment(u64::try_from(events).unwrap_or(u64::MAX));
        Ok(())
    }

    /// Waits until what was sent has arrived, for so long.
    pub fn flush(&self, timeout: Duration) {
        if let Err(error) = self.producer.flush(timeout) {
            tracing::warn!(error = %error, "events are published again after the next start");
        }
    }

    async fn send(
        &self,
        row: &JournalRow,
        ordinal: usize,
        event: &Event,
        waiting: &mut Vec<DeliveryFuture>,
    ) -> Result<(), KafkaError> {
        let id = id(row, ordinal);
        let (key, body) = (key(row, event), body(row, ordinal, event));
        loop {
            let headers = OwnedHeaders::new().insert(Header { key: EVENT_ID, value: Some(&id) });
            let record = FutureRecord::to(&self.topic).key(&key).payload(&body).headers(headers);
            match self.producer.send_result(record) {
                Ok(delivery) => {
                    waiting.push(delivery);
                    return Ok(());
                }
                Err((error, _)) => {
                    let is_full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
                    if !is_full || waiting.is_empty() {
                        return Err(error);
                    }
                    settle(waiting).await?;
                }
            }
        }
    }
}

/// Waits for what was sent.
async fn settle(waiting: &mut Vec<DeliveryFuture>) -> Result<(), KafkaError> {
    for delivered in join_all(waiting.drain(..)).await {
        delivered.map_err(|_| KafkaError::Canceled)?.map_err(|(error, _)| error)?;
    }
    Ok(())
}

/// Names an event, for consumers that get it twice.
fn id(row: &JournalRow, ordinal: usize) -> String {
    format!("{}-{ordinal}", row.seq.0)
}

/// The account, where the event is about one; otherwise its tenant.
fn key(row: &JournalRow, event: &Event) -> String {
    match event.account() {
        Some(account) => account.to_string(),
        None => format!("tenant-{}", row.tenant.0),
    }
}

/// The record's value.
fn body(row: &JournalRow, ordinal: usize, event: &Event) -> Vec<u8> {
    let event = serde_json::to_value(event).expect("events lie in the journal as JSON");
    let serde_json::Value::Object(variants) = event else {
        unreachable!("each event has fields");
    };
    let (kind, data) = variants.into_iter().next().expect("an event is of one kind");
    let published = serde_json::json!({
        "version": 1,
        "id": id(row, ordinal),
        "seq": row.seq.0,
        "ordinal": ordinal,
        "at_us": row.at.0,
        "tenant": row.tenant.0,
        "type": kind,
        "data": data,
    });
    serde_json::to_vec(&published).expect("JSON values are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::payment::{TransactionStatus, TransactionType};
    use domain::{
        AccountId, AmountMinor, Currency, PaymentId, Seq, TenantNo, TenantValueId, Timestamp,
        TransactionId,
    };
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    fn check(event: &Event, expected: Expect) {
        let row = JournalRow {
            seq: Seq(1_234),
            at: Timestamp(1_795_174_252_987_654),
            committed_at: Timestamp(0),
            tenant: TenantNo(2),
            events: vec![],
        };
        let body = String::from_utf8(body(&row, 1, event)).unwrap();
        expected.assert_eq(&format!("{} {body}", key(&row, event)));
    }

    #[test]
    fn records() {
        let id = |last: u128| Uuid::from_u128(0x0192_aabb_ccdd_7000_8000_0000_0000_0000 + last);
        let account = AccountId::new(id(1));
        check(
            &Event::AccountCreated { account },
            expect![[
                r#"0192aabb-ccdd-7000-8000-000000000001 {"at_us":1795174252987654,"data":{"account":"0192aabb-ccdd-7000-8000-000000000001"},"id":"1234-1","ordinal":1,"seq":1234,"tenant":2,"type":"AccountCreated","version":1}"#
            ]],
        );
        let value = TenantValueId::new(id(9));
        check(
            &Event::TenantConfigChanged { value, key: "K".to_owned() },
            expect![[
                r#"tenant-2 {"at_us":1795174252987654,"data":{"key":"K","value":"0192aabb-ccdd-7000-8000-000000000009"},"id":"1234-1","ordinal":1,"seq":1234,"tenant":2,"type":"TenantConfigChanged","version":1}"#
            ]],
        );
        let transaction = Event::TransactionChanged {
            account,
            payment: PaymentId::new(id(2)),
            transaction: TransactionId::new(id(3)),
            kind: TransactionType::Purchase,
            opens_payment: true,
            before: None,
            before_amount: AmountMinor::ZERO,
            status: TransactionStatus::Success,
            gateway: "faregate-simulator".to_owned(),
            amount: AmountMinor(1_050),
            currency: Currency::parse("USD"),
            payment_currency: Currency::parse("USD").unwrap(),
            effective_at: Timestamp(1_795_174_252_000_000),
        };
        check(
            &transaction,
            expect![[
                r#"0192aabb-ccdd-7000-8000-000000000001 {"at_us":1795174252987654,"data":{"account":"0192aabb-ccdd-7000-8000-000000000001","amount":1050,"before":null,"currency":"USD","effective_at":1795174252000000,"gateway":"faregate-simulator","kind":"Purchase","opens_payment":true,"payment":"0192aabb-ccdd-7000-8000-000000000002","payment_currency":"USD","status":"Success","transaction":"0192aabb-ccdd-7000-8000-000000000003"},"id":"1234-1","ordinal":1,"seq":1234,"tenant":2,"type":"TransactionChanged","version":1}"#
            ]],
        );
    }
}
