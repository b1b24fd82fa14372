//! Measures what a request through Kafka costs that does nothing, with one processor in this process:
//! `cargo run --release -p kafka --example kafka_floor -- HOST:PORT [REQUESTS...]`. The topics must
//! exist or are made.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use domain::{AccountId, Request, TenantNo};
use engine::ports::{BoxFuture, LedgerTotal, Question, StoreError};
use engine::queue::{Inquired, Processor, QueuePosition, Resend, SimulatedWork, Work};
use engine::{Answer, Reason};
use kafka::processor::ProcessorOptions;
use kafka::topics::{Class, Layout};
use kafka::{Settings, floor, processor, topics};

/// Echoes never reach a processor: this one has nothing to do.
struct Idle;

impl Processor for Idle {
    fn assigned(&self, _: i32) -> BoxFuture<'_, Result<Option<i64>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn revoked(&self, _: i32) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn execute(&self, _: i32, _: QueuePosition, _: Request) -> Work<Answer> {
        Box::pin(async { Err(Reason::GatewayFull.into()) })
    }

    fn skip(&self, _: i32, _: i64) -> Work<()> {
        Box::pin(async { Ok(()) })
    }

    fn resend(&self, _: i32, _: Resend) -> Work<()> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn inquire(&self, _: i32, _: Question) -> Work<Inquired> {
        Box::pin(async { Ok(Inquired::NoTransaction) })
    }

    fn balance(
        &self,
        _: TenantNo,
        _: AccountId,
        _: Option<SimulatedWork>,
    ) -> Work<Option<Vec<LedgerTotal>>> {
        Box::pin(async { Ok(None) })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let brokers = arguments.next().ok_or("which brokers? HOST:PORT")?;
    let mut rounds = arguments.map(|it| it.parse()).collect::<Result<Vec<usize>, _>>()?;
    if rounds.is_empty() {
        rounds = vec![1, 1, 1, 5_000, 15_000, 75_000];
    }
    let brokers_count = brokers.split(',').count();
    let settings = Settings { topic_prefix: "floor".to_owned(), ..Settings::new(brokers) };
    topics::create(&settings, Layout::for_brokers(brokers_count)).await?;
    let options = ProcessorOptions { class: Class::Balance, in_flight_max: 65_536 };
    let running = processor::start(&settings, options, Arc::new(Idle))?;
    let before = cpu_seconds();
    let floors = floor::measure(&settings, Class::Balance, &rounds).await?;
    let spent = cpu_seconds() - before;
    for (requests, it) in rounds.iter().zip(&floors) {
        println!(
            "{requests:>6} at once: shortest {:?}, average {:?}, longest {:?}, all in {:?}, {} errors",
            it.shortest, it.average, it.longest, it.took, it.errors
        );
    }
    let requests: usize = rounds.iter().sum();
    println!("{spent:.2} s of CPU in this process for {requests} requests");
    running.stop(Duration::from_secs(1)).await;
    Ok(())
}

/// User and system time of this process so far; 0 where the system does not say.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|it| it.parse::<f64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}
