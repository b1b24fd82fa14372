//! Tests of the queue with a simulated clock.

use super::*;

/// Ten milliseconds, once the queue has measured 10 us per unit.
const JOB: Work = Work::Argon2(1000);

struct Simulation {
    queue: Queue<&'static str>,
    now: Instant,
}

impl Simulation {
    /// A pool whose jobs take 10 ms each.
    fn new(threads: usize, wait_max_ms: u64) -> Self {
        let limits = Limits { wait_max: Duration::from_millis(wait_max_ms), jobs_max: 100 };
        let mut simulation = Self { queue: Queue::new(threads, limits), now: Instant::now() };
        simulation.work(100, 10);
        simulation
    }

    /// Runs jobs on the first thread, which has a core of its own.
    fn work(&mut self, times: usize, ms: u64) {
        self.share(times, ms, ms);
    }

    /// Runs jobs on the first thread with this CPU time and this duration.
    fn share(&mut self, times: usize, worked_ms: u64, ms: u64) {
        for _ in 0..times {
            self.queue.begin(0, JOB, self.now);
            self.pass(ms);
            self.end(0, worked_ms);
        }
    }

    fn end(&mut self, thread: usize, worked_ms: u64) {
        self.queue.end(thread, Duration::from_millis(worked_ms), self.now);
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    fn push(&mut self, lane: Lane, job: &'static str) -> Result<(), (DropReason, Busy)> {
        self.queue.push(lane, JOB, job, self.now)
    }

    /// The next job of a thread, and the reasons of the jobs dropped before it.
    fn take(&mut self, thread: usize) -> (Option<&'static str>, Vec<DropReason>) {
        let mut skipped = vec![];
        let is_disconnected = |job: &&str| *job == "gone";
        let taken =
            self.queue.take(thread, self.now, is_disconnected, |_, reason| skipped.push(reason));
        (taken.map(|it| it.job), skipped)
    }

    fn wait_ms(&self, lane: Lane) -> u128 {
        (self.queue.wait(lane, self.now).as_micros() + 500) / 1000
    }
}

#[test]
fn logins_go_first_and_wait_for_logins_only() {
    let mut simulation = Simulation::new(1, 1000);
    simulation.queue.begin(0, JOB, simulation.now);
    for job in ["register 1", "register 2"] {
        simulation.push(Lane::Registration, job).unwrap();
    }
    simulation.push(Lane::Login, "login").unwrap();
    assert_eq!(simulation.wait_ms(Lane::Login), 20);
    assert_eq!(simulation.wait_ms(Lane::Registration), 40);
    // Half of the current job is done.
    simulation.pass(5);
    assert_eq!(simulation.wait_ms(Lane::Login), 15);
    simulation.pass(5);
    simulation.end(0, 10);
    assert_eq!(simulation.take(0), (Some("login"), vec![]));
    assert_eq!(simulation.take(0), (Some("register 1"), vec![]));
    assert_eq!(simulation.take(0), (Some("register 2"), vec![]));
    assert_eq!(simulation.take(0), (None, vec![]));
}

#[test]
fn jobs_that_would_wait_too_long_are_refused_at_once() {
    let mut simulation = Simulation::new(2, 100);
    for thread in [0, 1] {
        simulation.queue.begin(thread, JOB, simulation.now);
    }
    // Two are in progress; ten more per thread fit into the 100 ms.
    let taken = (0..50).filter(|_| simulation.push(Lane::Registration, "job").is_ok()).count();
    assert_eq!(taken, 19);
    let (reason, busy) = simulation.push(Lane::Registration, "job").unwrap_err();
    assert_eq!((reason, busy.retry_after), (DropReason::Wait, Duration::from_secs(1)));
    // Logins do not wait for registrations.
    simulation.push(Lane::Login, "login").unwrap();
    assert_eq!(simulation.queue.depth(), 20);
}

#[test]
fn the_longest_wait_is_halved_in_a_lasting_overload_until_the_queue_empties() {
    let mut simulation = Simulation::new(1, 100);
    // Every 10 ms a thread takes one job, and more arrive.
    let overload = |simulation: &mut Simulation, ms: u64| {
        let mut longest = 0;
        for _ in 0..ms / 10 {
            while simulation.push(Lane::Registration, "job").is_ok() {}
            simulation.take(0);
            longest = simulation.wait_ms(Lane::Registration);
            simulation.pass(10);
            simulation.end(0, 10);
        }
        longest
    };
    assert_eq!(overload(&mut simulation, 400), 110, "a burst");
    overload(&mut simulation, 100);
    assert_eq!(overload(&mut simulation, 300), 60, "it lasts");
    assert_eq!(overload(&mut simulation, 1000), 60);
    // Logins are not affected, and do not wait for registrations.
    simulation.queue.begin(0, JOB, simulation.now);
    while simulation.push(Lane::Login, "login").is_ok() {}
    assert_eq!(simulation.wait_ms(Lane::Login), 110);
    // Once the queue is empty, a new burst begins.
    while simulation.take(0).0.is_some() {
        simulation.pass(10);
        simulation.end(0, 10);
    }
    assert_eq!(overload(&mut simulation, 10), 110);
}

#[test]
fn a_free_thread_accepts_a_job_whatever_the_estimate() {
    let mut simulation = Simulation::new(2, 0);
    simulation.work(20, 60_000);
    simulation.push(Lane::Registration, "first").unwrap();
    simulation.push(Lane::Registration, "second").unwrap();
    assert_eq!(simulation.push(Lane::Registration, "third").unwrap_err().0, DropReason::Wait);
    assert_eq!(simulation.take(0), (Some("first"), vec![]));
    assert_eq!(simulation.take(1), (Some("second"), vec![]));
}

#[test]
fn after_an_overload_the_queue_drains_and_the_estimate_recovers() {
    let mut simulation = Simulation::new(1, 200);
    // The machine was suspended for ten seconds: one sample, and all waiting jobs are late.
    simulation.queue.begin(0, JOB, simulation.now);
    for _ in 0..15 {
        simulation.push(Lane::Registration, "job").unwrap();
    }
    simulation.pass(10_000);
    simulation.end(0, 10);
    let (taken, skipped) = simulation.take(0);
    assert_eq!((taken, skipped), (None, vec![DropReason::Late; 15]));
    assert_eq!((simulation.queue.depth(), simulation.wait_ms(Lane::Registration)), (0, 0));
    // One at a time is admitted; the estimate recovers with each measurement.
    let mut rounds = 0;
    loop {
        simulation.push(Lane::Registration, "job").unwrap();
        assert_eq!(simulation.take(0).0, Some("job"));
        if simulation.wait_ms(Lane::Registration) <= 20 {
            break;
        }
        simulation.pass(10);
        simulation.end(0, 10);
        rounds += 1;
        assert!(rounds < 60, "{} ms", simulation.wait_ms(Lane::Registration));
    }
}

/// A burst of new connections starves the low-priority threads of a server that has just started.
#[test]
fn a_short_starvation_hardly_changes_the_estimate() {
    let mut simulation = Simulation::new(1, 1000);
    simulation.share(10, 10, 100);
    simulation.queue.begin(0, JOB, simulation.now);
    let taken = (0..100).filter(|_| simulation.push(Lane::Registration, "job").is_ok()).count();
    assert!((90..100).contains(&taken), "{taken} of the 99 that can be done in a second");
}

#[test]
fn a_shared_core_raises_the_estimate_until_it_is_free() {
    let mut simulation = Simulation::new(1, 1000);
    simulation.share(1500, 10, 20);
    simulation.queue.begin(0, JOB, simulation.now);
    let wait = simulation.wait_ms(Lane::Registration);
    assert!((18..=20).contains(&wait), "{wait} ms");
    // The estimate recovers when they have the core for themselves again.
    simulation.end(0, 10);
    simulation.work(3000, 10);
    simulation.queue.begin(0, JOB, simulation.now);
    let wait = simulation.wait_ms(Lane::Registration);
    assert!((10..=12).contains(&wait), "{wait} ms");
}

#[test]
fn a_slower_machine_raises_the_estimate_within_seconds() {
    let mut simulation = Simulation::new(1, 1000);
    simulation.work(200, 40);
    simulation.queue.begin(0, JOB, simulation.now);
    let wait = simulation.wait_ms(Lane::Registration);
    assert!((35..=40).contains(&wait), "{wait} ms");
}

#[test]
fn jobs_of_disconnected_clients_are_dropped() {
    let mut simulation = Simulation::new(1, 1000);
    for job in ["gone", "there", "gone"] {
        simulation.push(Lane::Login, job).unwrap();
    }
    assert_eq!(simulation.take(0), (Some("there"), vec![DropReason::Disconnected]));
    assert_eq!(simulation.take(0), (None, vec![DropReason::Disconnected]));
}

#[test]
fn jobs_above_the_maximum_are_refused() {
    let mut simulation = Simulation::new(1, 3_600_000);
    let taken = (0..200).filter(|_| simulation.push(Lane::Registration, "job").is_ok()).count();
    assert_eq!(taken, 100);
    assert_eq!(simulation.push(Lane::Registration, "job").unwrap_err().0, DropReason::Full);
    simulation.push(Lane::Login, "job").unwrap();
}

#[test]
fn waiting_jobs_are_returned_when_the_pool_ends() {
    let mut simulation = Simulation::new(1, 1000);
    simulation.push(Lane::Registration, "register").unwrap();
    simulation.push(Lane::Login, "login").unwrap();
    let left = simulation.queue.stop();
    assert_eq!(left, [(Lane::Login, "login"), (Lane::Registration, "register")]);
    assert_eq!(simulation.push(Lane::Login, "job").unwrap_err().0, DropReason::Stopping);
    assert_eq!(simulation.take(0), (None, vec![]));
}

#[test]
fn bcrypt_and_argon2_are_estimated_separately() {
    let mut simulation = Simulation::new(1, 1000);
    let old = Work::Bcrypt(4096);
    for _ in 0..100 {
        simulation.queue.begin(0, old, simulation.now);
        simulation.pass(200);
        simulation.end(0, 200);
    }
    simulation.queue.begin(0, old, simulation.now);
    simulation.queue.push(Lane::Login, Work::Bcrypt(8192), "slow", simulation.now).unwrap();
    simulation.push(Lane::Login, "quick").unwrap();
    assert_eq!(simulation.wait_ms(Lane::Login), 610);
}
