//! `faregate topics` and `faregate dlq`: what an operator does to the queue.

use kafka::dead_letter::{self, Letter, LetterId};
use kafka::topics::{self, Layout};

use crate::config::{Arguments, Config};

/// What can be done to the topics.
#[derive(clap::Subcommand)]
pub enum Topics {
    /// Make the topics that are missing, and check those that are there
    Create {
        /// Partitions of the commands and of the events; cannot be changed afterwards
        #[arg(long, default_value_t = 5)]
        partitions: u16,
        /// Fronts that there can be
        #[arg(long, default_value_t = 16)]
        fronts: u16,
        /// Copies of each partition, on as many brokers; a write needs all but one
        #[arg(long, default_value_t = 3)]
        replication: u16,
        #[command(flatten)]
        arguments: Box<Arguments>,
    },
}

/// What can be done to the commands that could not be executed.
#[derive(clap::Subcommand)]
pub enum Letters {
    /// List them
    List {
        #[command(flatten)]
        arguments: Box<Arguments>,
    },
    /// Send one to its topic again
    Retry {
        /// Which: PARTITION@OFFSET, as listed
        id: String,
        #[command(flatten)]
        arguments: Box<Arguments>,
    },
    /// Forget one
    Drop {
        /// Which: PARTITION@OFFSET, as listed
        id: String,
        #[command(flatten)]
        arguments: Box<Arguments>,
    },
}

/// Runs `faregate topics`.
///
/// # Errors
/// Where Kafka refuses, or a topic is not what it should be.
pub fn on_topics(command: Topics) -> anyhow::Result<()> {
    let Topics::Create { partitions, fronts, replication, arguments } = command;
    let settings = super::settings(&Config::load(&arguments)?)?;
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
/// Where Kafka refuses, or there is no such letter.
pub fn on_letters(command: Letters) -> anyhow::Result<()> {
    match command {
        Letters::List { arguments } => {
            let settings = super::settings(&Config::load(&arguments)?)?;
            for listed in wait(dead_letter::list(&settings))?? {
                let Letter { topic, partition, offset, reason, attempts, .. } = &listed.letter;
                let id = listed.id;
                println!("{id} {topic} {partition}@{offset} {reason} attempts={attempts}");
            }
        }
        Letters::Retry { id, arguments } => {
            let settings = super::settings(&Config::load(&arguments)?)?;
            let id: LetterId = id.parse()?;
            let letter = wait(dead_letter::retry(&settings, id))??;
            println!("{id}: sent to {} again", letter.topic);
        }
        Letters::Drop { id, arguments } => {
            let settings = super::settings(&Config::load(&arguments)?)?;
            let id: LetterId = id.parse()?;
            wait(dead_letter::drop_letter(&settings, id))??;
            println!("{id}: forgotten");
        }
    }
    Ok(())
}

fn wait<T>(future: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(future))
}
