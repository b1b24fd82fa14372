//! The contexts of librdkafka's clients: where their log goes, and whether they have a connection.

use std::collections::HashMap;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel as Level;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::watch;

/// How often a client that is watched says how its connections are, in milliseconds.
pub(crate) const STATISTICS_MS: &str = "500";

/// Logs, and watches the connections.
#[derive(Default)]
pub(crate) struct Watched {
    connected: watch::Sender<bool>,
}

impl Watched {
    /// Whether any broker is connected.
    pub(crate) fn connected(&self) -> watch::Receiver<bool> {
        self.connected.subscribe()
    }

    /// As [`ClientContext::error`], for errors that a consumer's poll returns.
    pub(crate) fn failed(&self, error: &KafkaError) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            let changed = self.connected.send_if_modified(|it| std::mem::replace(it, false));
            if changed {
                tracing::warn!("no Kafka broker is connected");
            }
        }
    }
}

impl ClientContext for Watched {
    fn log(&self, level: Level, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        #[derive(serde::Deserialize)]
        struct Statistics {
            brokers: HashMap<String, Broker>,
        }
        #[derive(serde::Deserialize)]
        struct Broker {
            state: String,
        }
        match serde_json::from_slice::<Statistics>(statistics) {
            Ok(it) => {
                let up = it.brokers.values().any(|it| it.state == "UP" || it.state == "UPDATE");
                let changed = self.connected.send_if_modified(|it| std::mem::replace(it, up) != up);
                if changed && up {
                    tracing::info!("Kafka is connected");
                }
            }
            Err(error) => tracing::error!(error = %error, "librdkafka's statistics are not JSON"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.failed(&error);
        tracing::debug!(error = %error, reason, "a Kafka client reports an error");
    }
}

impl ConsumerContext for Watched {}

/// A client context that only logs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Logged;

impl ClientContext for Logged {
    fn log(&self, level: Level, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(error = %error, reason, "a Kafka client reports an error");
    }
}

impl ConsumerContext for Logged {}

/// librdkafka repeats itself while a broker is away, so its word counts less here.
pub(crate) fn log(level: Level, facility: &str, message: &str) {
    match level {
        Level::Emerg | Level::Alert | Level::Critical => {
            tracing::error!(facility, message, "librdkafka");
        }
        Level::Error | Level::Warning => tracing::warn!(facility, message, "librdkafka"),
        Level::Notice | Level::Info | Level::Debug => {
            tracing::debug!(facility, message, "librdkafka");
        }
    }
}
