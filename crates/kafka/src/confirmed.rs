//! Sends records and waits until all in-sync replicas have them.
//!
//! Like rdkafka's `FutureProducer`, without its thread, which spins for the last millisecond of every
//! 100: the task that waits for a receipt polls for it.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{Message as _, Timestamp, ToBytes};
use rdkafka::producer::{
    BaseProducer, BaseRecord, DeliveryResult, FutureRecord, Producer, ProducerContext,
};
use tokio::sync::oneshot;

use crate::client::log;

/// How often a waiting task polls for receipts.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Such a producer.
pub(crate) struct Confirmed(BaseProducer<Receipts>);

/// The broker's confirmation: when it appended the record.
type Receipt = Result<Timestamp, KafkaError>;

/// A record on its way.
pub(crate) struct Sent(oneshot::Receiver<Receipt>);

impl Confirmed {
    /// Makes one; each record is to be on all in-sync replicas.
    ///
    /// # Errors
    /// Where librdkafka does not take the settings.
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, KafkaError> {
        config.create_with_context(Receipts).map(Self)
    }

    /// Sends a record and waits for its receipt.
    ///
    /// # Errors
    /// It was not sent, or was given up and may lie in Kafka all the same.
    pub(crate) async fn send<K, P>(&self, record: FutureRecord<'_, K, P>) -> Receipt
    where
        K: ToBytes + ?Sized,
        P: ToBytes + ?Sized,
    {
        let sent = self.begin(record)?;
        self.receipt(sent).await
    }

    /// Sends a record; [`Self::receipt`] waits for it.
    ///
    /// # Errors
    /// It was not sent.
    pub(crate) fn begin<K, P>(&self, record: FutureRecord<'_, K, P>) -> Result<Sent, KafkaError>
    where
        K: ToBytes + ?Sized,
        P: ToBytes + ?Sized,
    {
        let (sender, receiver) = oneshot::channel();
        let mut sent = BaseRecord::with_opaque_to(record.topic, Box::new(sender));
        sent.partition = record.partition;
        sent.payload = record.payload;
        sent.key = record.key;
        sent.headers = record.headers;
        self.0.send(sent).map_err(|(error, _)| error)?;
        Ok(Sent(receiver))
    }

    /// Waits for the receipt of a record.
    ///
    /// # Errors
    /// It was given up; it may lie in Kafka all the same.
    pub(crate) async fn receipt(&self, Sent(mut receiver): Sent) -> Receipt {
        loop {
            self.0.poll(Duration::ZERO);
            match receiver.try_recv() {
                Ok(receipt) => return receipt,
                Err(oneshot::error::TryRecvError::Empty) => tokio::time::sleep(LOOK_EVERY).await,
                Err(oneshot::error::TryRecvError::Closed) => return Err(KafkaError::Canceled),
            }
        }
    }

    /// Waits until what was sent has arrived, for so long.
    ///
    /// # Errors
    /// Some of it may not have.
    pub(crate) fn flush(&self, timeout: Duration) -> Result<(), KafkaError> {
        self.0.flush(timeout)
    }
}

/// Receives the reports of librdkafka.
struct Receipts;

impl ClientContext for Receipts {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(error = %error, reason, "a Kafka client reports an error");
    }
}

impl ProducerContext for Receipts {
    type DeliveryOpaque = Box<oneshot::Sender<Receipt>>;

    fn delivery(&self, result: &DeliveryResult<'_>, waiter: Self::DeliveryOpaque) {
        let receipt = match result {
            Ok(record) => Ok(record.timestamp()),
            Err((error, _)) => Err(error.clone()),
        };
        // Its waiter may have gone away.
        let _ = waiter.send(receipt);
    }
}
