//! Measures a request through Kafka that does nothing: the same topics, clients and processors,
//! and an echo instead of a command.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use tokio::task::JoinSet;

use crate::front::{Front, FrontOptions};
use crate::settings::Settings;
use crate::topics::{self, Class, TopicError};

/// How long the processors and brokers may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// The results of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Requests that were answered.
    pub answered: usize,
    /// Requests that were not answered.
    pub errors: usize,
    /// The shortest time from a request to its reply.
    pub shortest: Duration,
    /// The average of these times.
    pub average: Duration,
    /// The longest of these times.
    pub longest: Duration,
    /// From the first request to the last reply.
    pub took: Duration,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum FloorError {
    /// The topics will not do.
    #[error(transparent)]
    Topics(#[from] TopicError),
    /// librdkafka does not take the settings.
    #[error("kafka: {0}")]
    Kafka(#[from] KafkaError),
    /// No processor answers.
    #[error("no processor of the class answers through Kafka")]
    NotReady,
}

/// Measures echoes through the running processors of a class; a front of its own, with a reply topic
/// that is removed afterwards. Each number of `rounds` is so many at once.
///
/// # Errors
/// [`FloorError`].
pub async fn measure(
    settings: &Settings,
    class: Class,
    rounds: &[usize],
) -> Result<Vec<Floor>, FloorError> {
    let random = getrandom::u32().map_err(|error| {
        KafkaError::ClientCreation(format!("the system gives no randomness: {error}"))
    })?;
    let reply_topic = settings.topics().name(&format!("reply.floor-{random:08x}"));
    topics::create_reply(settings, &reply_topic).await?;
    let measured = measure_with(settings, class, rounds, &reply_topic).await;
    topics::delete(settings, &[&reply_topic]).await?;
    measured
}

async fn measure_with(
    settings: &Settings,
    class: Class,
    rounds: &[usize],
    reply_topic: &str,
) -> Result<Vec<Floor>, FloorError> {
    let waiting_max = rounds.iter().copied().max().unwrap_or(0).max(1_000);
    let options = FrontOptions {
        reply_topic: reply_topic.to_owned(),
        waiting_max,
        ..FrontOptions::new(&settings.topics(), 0)
    };
    let front = Arc::new(Front::start(settings, options)?);
    let mut available = front.availability();
    let ready = available.wait_for(|it| *it);
    if !matches!(tokio::time::timeout(READY_WITHIN, ready).await, Ok(Ok(_))) {
        return Err(FloorError::NotReady);
    }
    let partitions = front.partitions(class).ok_or(FloorError::NotReady)?;
    // Every processor has its connections then.
    for partition in 0..partitions {
        front.echo(class, partition, vec![]).await.map_err(|_| FloorError::NotReady)?;
    }
    let mut floors = vec![];
    for requests in rounds {
        floors.push(round(&front, class, partitions, *requests).await);
    }
    // Its thread is waited for.
    let _ = tokio::task::spawn_blocking(move || drop(front)).await;
    Ok(floors)
}

async fn round(front: &Arc<Front>, class: Class, partitions: i32, requests: usize) -> Floor {
    /// About as long as a command.
    const BODY_BYTES: usize = 400;
    let started = Instant::now();
    let mut running = JoinSet::new();
    for partition in (0..partitions.max(1)).cycle().take(requests) {
        let front = Arc::clone(front);
        running.spawn(async move {
            let answered = front.echo(class, partition, vec![b'x'; BODY_BYTES]).await;
            answered.is_ok().then(|| started.elapsed())
        });
    }
    let times: Vec<Duration> = running.join_all().await.into_iter().flatten().collect();
    let took = started.elapsed();
    let divisor = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
    Floor {
        answered: times.len(),
        errors: requests - times.len(),
        shortest: times.iter().copied().min().unwrap_or_default(),
        average: times.iter().sum::<Duration>() / divisor,
        longest: times.iter().copied().max().unwrap_or_default(),
        took,
    }
}
