//! `faregate topics` and `faregate dlq`: topics and dead-letter records of the queue.

use config::{Arguments, Config};
use kafka::Settings;
use kafka::dead_letter::{self, DeadLetter, DeadLetterId};
use kafka::topics::{self, Layout};

/// Commands on the topics.
#[derive(clap::Subcommand)]
pub enum Topics {
    /// Create missing topics, and check existing ones
    Create {
        /// Partitions of the commands and of the events; cannot be changed afterwards
        #[arg(long, default_value_t = 5)]
        partitions: u16,
        /// Fronts at most
        #[arg(long, default_value_t = 16)]
        fronts: u16,
        /// Copies of each partition, on as many brokers; a write needs all but one
        #[arg(long, default_value_t = 3)]
        replication: u16,
        #[command(flatten)]
        arguments: Box<Arguments>,
    },
}

/// Commands on dead-letter records.
#[derive(clap::Subcommand)]
pub enum DeadLetters {
    /// List them
    List {
        #[command(flatten)]
        arguments: Box<Arguments>,
    },
    /// Send one to its topic again
    Retry {
        /// Its id, as listed: PARTITION@OFFSET
        id: String,
        #[command(flatten)]
        arguments: Box<Arguments>,
    },
    /// Remove one
    Drop {
        /// Its id, as listed: PARTITION@OFFSET
        id: String,
        #[command(flatten)]
        arguments: Box<Arguments>,
    },
}

/// Runs `faregate topics`.
///
/// # Errors
/// If Kafka refuses, or an existing topic has other settings.
pub fn run_topics(command: Topics) -> anyhow::Result<()> {
    let Topics::Create { partitions, fronts, replication, arguments } = command;
    let settings = server::queue::reach(&Config::load(&arguments)?)?;
    let layout = Layout {
        partitions: partitions.max(1).into(),
        fronts: fronts.max(1).into(),
        replication: replication.max(1).into(),
        in_sync_min: replication.saturating_sub(1).max(1).into(),
    };
    for made in wait(topics::create(&settings, layout))?? {
        let was = if made.existed { "was there" } else { "made" };
        println!("{}: {} partitions, {was}", made.topic, made.partitions);
    }
    Ok(())
}

/// Runs `faregate dlq`.
///
/// # Errors
/// If Kafka refuses, or there is no such record.
pub fn run_dead_letters(command: DeadLetters) -> anyhow::Result<()> {
    match command {
        DeadLetters::List { arguments } => {
            let settings = settings(&arguments)?;
            let listing = wait(dead_letter::list(&settings))??;
            for listed in listing.waiting {
                let DeadLetter { topic, partition, offset, reason, attempts, .. } =
                    &listed.dead_letter;
                let id = listed.id;
                println!("{id} {topic} {partition}@{offset} {reason} attempts={attempts}");
            }
            if listing.refused > 0 {
                let refused = listing.refused;
                eprintln!(
                    "{refused} records of the topic are not signed by this cluster: not listed"
                );
            }
        }
        DeadLetters::Retry { id, arguments } => {
            let settings = settings(&arguments)?;
            let id: DeadLetterId = id.parse()?;
            let dead_letter = wait(dead_letter::retry(&settings, id))??;
            println!("{id}: sent to {} again", dead_letter.topic);
        }
        DeadLetters::Drop { id, arguments } => {
            let settings = settings(&arguments)?;
            let id: DeadLetterId = id.parse()?;
            wait(dead_letter::discard(&settings, id))??;
            println!("{id}: forgotten");
        }
    }
    Ok(())
}

/// How Kafka is reached, with the cluster's key. Where there is none, what is sent is not signed either.
fn settings(arguments: &Arguments) -> anyhow::Result<Settings> {
    let settings = server::queue::settings(&Config::load(arguments)?)?;
    if settings.keys.is_none() {
        eprintln!("without `kafka.key_file` nothing is verified or signed");
    }
    Ok(settings)
}

fn wait<T>(future: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(future))
}
