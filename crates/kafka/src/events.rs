//! Publishes events to other programs: one record per event of the journal, in the order of each
//! account, at least once. `docs/reference/kafka.md` describes them.

mod follower;

use std::sync::Arc;
use std::time::Duration;

use domain::Event;
use engine::ports::JournalRow;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;

use crate::client::Logged;
use crate::confirmed::{Confirmed, Sent};
use crate::front::partition_count;
use crate::settings::Settings;
use crate::topics::TopicError;

pub use follower::publish_events;

/// The header with the event's id.
pub const EVENT_ID: &str = "faregate-event-id";

/// Publishes the events of journal rows to Kafka.
pub struct EventPublisher {
    producer: Confirmed,
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
        let metadata_client: BaseConsumer<Logged> =
            settings.client().create_with_context(Logged)?;
        let asked = topic.clone();
        let asking = tokio::task::spawn_blocking(move || partition_count(&metadata_client, &asked));
        asking.await.expect("asking does not panic")?;
        let mut config = settings.sure_producer();
        // Never given up: an event that was would be overtaken by those after it.
        config.set("message.timeout.ms", "0");
        // There is always a batch of them.
        config.set("linger.ms", "50");
        let producer = Confirmed::new(&config)?;
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
    pub async fn publish(&self, rows: &[Arc<JournalRow>]) -> Result<(), KafkaError> {
        let mut waiting = vec![];
        for row in rows {
            for (ordinal, event) in row.events.iter().enumerate() {
                self.send(row, ordinal, event, &mut waiting).await?;
            }
        }
        self.settle(&mut waiting).await?;
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
        waiting: &mut Vec<Sent>,
    ) -> Result<(), KafkaError> {
        let id = id(row, ordinal);
        let (key, body) = (key(row, event), body(row, ordinal, event));
        loop {
            let headers = OwnedHeaders::new().insert(Header { key: EVENT_ID, value: Some(&id) });
            let record = FutureRecord::to(&self.topic).key(&key).payload(&body).headers(headers);
            match self.producer.begin(record) {
                Ok(sent) => {
                    waiting.push(sent);
                    return Ok(());
                }
                Err(error) => {
                    let is_full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
                    if !is_full || waiting.is_empty() {
                        return Err(error);
                    }
                    self.settle(waiting).await?;
                }
            }
        }
    }

    /// Waits for what was sent.
    async fn settle(&self, waiting: &mut Vec<Sent>) -> Result<(), KafkaError> {
        for sent in waiting.drain(..) {
            self.producer.receipt(sent).await?;
        }
        Ok(())
    }
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
    // An event is `{"KIND":{...}}` in the journal; here its kind and its data are apart.
    let event = serde_json::to_string(event).expect("events lie in the journal as JSON");
    let parts = event.strip_prefix("{\"").and_then(|it| it.strip_suffix('}'));
    let (kind, data) = parts.and_then(|it| it.split_once("\":")).expect("an event has a kind");
    let (seq, at, tenant) = (row.seq.0, row.at.0, row.tenant.0);
    let body = format!(
        "{{\"version\":1,\"id\":\"{seq}-{ordinal}\",\"seq\":{seq},\"ordinal\":{ordinal},\
         \"at_us\":{at},\"tenant\":{tenant},\"type\":\"{kind}\",\"data\":{data}}}"
    );
    body.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::payment::{TransactionStatus, TransactionType};
    use domain::{
        AccountId, AmountMinor, Currency, PaymentId, Seq, TenantNo, TenantValueId, Timestamp,
        TransactionChange, TransactionId,
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
        let parsed: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(parsed["id"], id(&row, 1));
        expected.assert_eq(&format!("{} {body}", key(&row, event)));
    }

    #[test]
    fn records() {
        let id = |last: u128| Uuid::from_u128(0x0192_aabb_ccdd_7000_8000_0000_0000_0000 + last);
        let account = AccountId::new(id(1));
        let value = TenantValueId::new(id(9));
        let key = "\":{} \\".to_owned();
        check(
            &Event::TenantConfigChanged { value, key },
            expect![[
                r#"tenant-2 {"version":1,"id":"1234-1","seq":1234,"ordinal":1,"at_us":1795174252987654,"tenant":2,"type":"TenantConfigChanged","data":{"value":"0192aabb-ccdd-7000-8000-000000000009","key":"\":{} \\"}}"#
            ]],
        );
        check(
            &Event::AccountCreated { account },
            expect![[
                r#"0192aabb-ccdd-7000-8000-000000000001 {"version":1,"id":"1234-1","seq":1234,"ordinal":1,"at_us":1795174252987654,"tenant":2,"type":"AccountCreated","data":{"account":"0192aabb-ccdd-7000-8000-000000000001"}}"#
            ]],
        );
        let transaction = Event::TransactionChanged(TransactionChange {
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
        });
        check(
            &transaction,
            expect![[
                r#"0192aabb-ccdd-7000-8000-000000000001 {"version":1,"id":"1234-1","seq":1234,"ordinal":1,"at_us":1795174252987654,"tenant":2,"type":"TransactionChanged","data":{"account":"0192aabb-ccdd-7000-8000-000000000001","payment":"0192aabb-ccdd-7000-8000-000000000002","transaction":"0192aabb-ccdd-7000-8000-000000000003","kind":"Purchase","before":null,"opens_payment":true,"status":"Success","gateway":"faregate-simulator","amount":1050,"currency":"USD","payment_currency":"USD","effective_at":1795174252000000}}"#
            ]],
        );
    }
}
