//! Threads that send flows: in a closed loop, or in an open one at the schedule's times.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::connection::Failure;
use super::flow::{Client, Plan};
use super::outcome::{Created, Outcome};
use super::sample::Sample;
use super::schedule::{Backlog, Times};
use super::tally::{Counted, Tally};

/// A client waits so long after a failed flow: failing must not become a busy loop.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(20);
/// The run is aborted if opening all connections takes longer.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);
/// Flows that a sample keeps at most, per thread.
const SAMPLE_FLOWS_MAX: usize = 10_000;
/// Between the last connection and the first flow: time for every thread to receive the start.
const START_DELAY: Duration = Duration::from_millis(20);

/// How a load is sent.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Connections, each with one request at a time.
    pub concurrency: u16,
    /// Threads that send.
    pub threads: u16,
    /// For an open loop, the flows that may wait for a free connection.
    pub backlog_max: Option<usize>,
    /// Whether a sample of the created rows is kept.
    pub samples: bool,
}

impl Shape {
    const fn counted(self) -> Counted {
        if self.backlog_max.is_some() { Counted::ByDue } else { Counted::ByEnd }
    }
}

/// A runtime for one sending thread.
pub fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("starting a runtime")
}

/// The sending threads.
pub struct Load {
    shape: Shape,
    /// One per thread.
    pub tallies: Vec<Arc<Mutex<Tally>>>,
    threads: Vec<JoinHandle<()>>,
    /// The flows of an open loop that are due; unused in a closed one.
    pub backlog: Arc<Backlog>,
    connected: Arc<AtomicUsize>,
    failed: Arc<Mutex<Option<Failure>>>,
    begin: watch::Sender<Option<Times>>,
}

impl Load {
    /// Starts the threads, which connect and wait for [`Load::start`].
    pub fn spawn(shape: Shape, plan: &Arc<Plan>) -> anyhow::Result<Self> {
        let (begin, _) = watch::channel(None);
        let mut load = Self {
            shape,
            tallies: Vec::new(),
            threads: Vec::new(),
            backlog: Arc::new(Backlog::new(shape.backlog_max.unwrap_or(0))),
            connected: Arc::default(),
            failed: Arc::default(),
            begin,
        };
        for thread in 0..shape.threads {
            let clients = shape.concurrency / shape.threads
                + u16::from(thread < shape.concurrency % shape.threads);
            let mut tally = Tally::new(shape.counted());
            tally.sample = shape.samples.then(|| Sample::new(SAMPLE_FLOWS_MAX));
            let tally = Arc::new(Mutex::new(tally));
            load.tallies.push(Arc::clone(&tally));
            let runtime = runtime()?;
            let worker = Worker {
                plan: Arc::clone(plan),
                tally,
                backlog: shape.backlog_max.map(|_| Arc::clone(&load.backlog)),
                connected: Arc::clone(&load.connected),
                failed: Arc::clone(&load.failed),
                begin: load.begin.subscribe(),
            };
            load.threads.push(std::thread::spawn(move || {
                runtime.block_on(async {
                    let tasks: Vec<_> =
                        (0..clients).map(|_| tokio::spawn(worker.clone().run())).collect();
                    for task in tasks {
                        task.await.expect("a worker does not panic");
                    }
                });
            }));
        }
        Ok(load)
    }

    /// Waits until all are connected, then starts the run.
    pub fn start(&self, warm_up: Duration, duration: Duration) -> anyhow::Result<Times> {
        let deadline = Instant::now() + CONNECT_WITHIN;
        let all = usize::from(self.shape.concurrency);
        loop {
            if let Some(failure) = self.failed.lock().expect("no panic while locked").take() {
                anyhow::bail!("opening {all} connections: {failure}");
            }
            let connected = self.connected.load(Ordering::Relaxed);
            if connected == all {
                break;
            }
            if Instant::now() >= deadline {
                anyhow::bail!("only {connected} of {all} connections within {CONNECT_WITHIN:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let start = Instant::now() + START_DELAY;
        let measured_from = start + warm_up;
        let times = Times { start, measured_from, end: measured_from + duration };
        for tally in &self.tallies {
            tally.lock().expect("no panic while locked").set_times(times);
        }
        self.begin.send_replace(Some(times));
        Ok(times)
    }

    /// Waits for the threads; returns what they counted, and the sample.
    pub fn join(self) -> (Tally, Vec<Created>) {
        for thread in self.threads {
            thread.join().expect("a sending thread does not panic");
        }
        let mut sum = Tally::new(self.shape.counted());
        let mut sample = Vec::new();
        for tally in self.tallies {
            let tally = Arc::into_inner(tally).expect("its thread has ended");
            let mut tally = tally.into_inner().expect("no panic while locked");
            sample.extend(tally.sample.take().map(Sample::into_kept).unwrap_or_default());
            sum.add(tally);
        }
        (sum, sample)
    }
}

/// One connection's share of the load.
#[derive(Clone)]
struct Worker {
    plan: Arc<Plan>,
    tally: Arc<Mutex<Tally>>,
    /// The source of flows in an open loop.
    backlog: Option<Arc<Backlog>>,
    connected: Arc<AtomicUsize>,
    failed: Arc<Mutex<Option<Failure>>>,
    begin: watch::Receiver<Option<Times>>,
}

impl Worker {
    async fn run(mut self) {
        let mut client = Client::new(&self.plan, &self.tally);
        match client.connect().await {
            Ok(()) => self.connected.fetch_add(1, Ordering::Relaxed),
            Err(failure) => {
                self.failed.lock().expect("no panic while locked").get_or_insert(failure);
                return;
            }
        };
        let begun = self.begin.wait_for(Option::is_some).await.map(|times| *times);
        let Ok(Some(times)) = begun else { return };
        tokio::time::sleep_until(times.start.into()).await;
        match &self.backlog {
            None => closed_loop(&mut client, &self.tally, times).await,
            Some(backlog) => open_loop(&mut client, &self.tally, backlog, times).await,
        }
    }
}

async fn closed_loop(client: &mut Client<'_>, tally: &Mutex<Tally>, times: Times) {
    let mut started = Instant::now();
    while started < times.end {
        let outcome = client.flow(started, times.end).await;
        let failed = matches!(outcome, Outcome::Failed(_));
        let ended = Instant::now();
        tally.lock().expect("no panic while locked").flow_ended(started, ended, outcome);
        if failed {
            tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        }
        started = Instant::now();
    }
}

async fn open_loop(client: &mut Client<'_>, tally: &Mutex<Tally>, backlog: &Backlog, times: Times) {
    while let Some(due) = backlog.next().await {
        let outcome = client.flow(due, times.end).await;
        let failed = matches!(outcome, Outcome::Failed(_));
        let ended = Instant::now();
        tally.lock().expect("no panic while locked").flow_ended(due, ended, outcome);
        if failed {
            tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        }
    }
}
