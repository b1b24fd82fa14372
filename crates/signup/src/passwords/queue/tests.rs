//! The queue under a clock of the test's own.

use super::*;

/// Ten milliseconds, once the queue has learnt that a unit takes 10 us.
const JOB: Work = Work::Argon2(1000);

struct World {
    queue: Queue<&'static str>,
    now: Instant,
}

impl World {
    /// A pool whose jobs take 10 ms each.
    fn new(threads: usize, wait_max_ms: u64) -> Self {
        let limits = Limits { wait_max: Duration::from_millis(wait_max_ms), jobs_max: 100 };
        let mut world = Self { queue: Queue::new(threads, limits), now: Instant::now() };
        world.work(100, 10);
        world
    }

    /// So many jobs of so many milliseconds on the first thread, which has a core of its own.
    fn work(&mut self, times: usize, ms: u64) {
        self.share(times, ms, ms);
    }

    /// So many jobs that the first thread works on for `worked_ms`, and that take `ms`.
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

    fn put(&mut self, lane: Lane, job: &'static str) -> Result<(), (Undone, Busy)> {
        self.queue.put(lane, JOB, job, self.now)
    }

    /// What a thread gets, and what was left undone before.
    fn take(&mut self, thread: usize) -> (Option<&'static str>, Vec<Undone>) {
        let mut skipped = vec![];
        let is_gone = |job: &&str| *job == "gone";
        let taken = self.queue.take(thread, self.now, is_gone, |_, why| skipped.push(why));
        (taken.map(|it| it.job), skipped)
    }

    fn wait_ms(&self, lane: Lane) -> u128 {
        (self.queue.wait(lane, self.now).as_micros() + 500) / 1000
    }
}

#[test]
fn logins_go_first_and_wait_for_logins_only() {
    let mut world = World::new(1, 1000);
    world.queue.begin(0, JOB, world.now);
    for job in ["register 1", "register 2"] {
        world.put(Lane::Registration, job).unwrap();
    }
    world.put(Lane::Login, "login").unwrap();
    assert_eq!(world.wait_ms(Lane::Login), 20);
    assert_eq!(world.wait_ms(Lane::Registration), 40);
    // Half of what was begun is done.
    world.pass(5);
    assert_eq!(world.wait_ms(Lane::Login), 15);
    world.pass(5);
    world.end(0, 10);
    assert_eq!(world.take(0), (Some("login"), vec![]));
    assert_eq!(world.take(0), (Some("register 1"), vec![]));
    assert_eq!(world.take(0), (Some("register 2"), vec![]));
    assert_eq!(world.take(0), (None, vec![]));
}

#[test]
fn what_would_wait_too_long_is_refused_at_once() {
    let mut world = World::new(2, 100);
    for thread in [0, 1] {
        world.queue.begin(thread, JOB, world.now);
    }
    // Two are in progress; ten more for each of the two threads fit into the 100 ms.
    let taken = (0..50).filter(|_| world.put(Lane::Registration, "job").is_ok()).count();
    assert_eq!(taken, 19);
    let (why, busy) = world.put(Lane::Registration, "job").unwrap_err();
    assert_eq!((why, busy.retry_after), (Undone::Wait, Duration::from_secs(1)));
    // A login waits for none of these.
    world.put(Lane::Login, "login").unwrap();
    assert_eq!(world.queue.depth(), 20);
}

#[test]
fn in_an_overload_that_lasts_less_may_wait_and_a_burst_has_all_the_room_again() {
    let mut world = World::new(1, 100);
    // Each 10 ms a thread takes one job, and more come than it takes.
    let overload = |world: &mut World, ms: u64| {
        let mut longest = 0;
        for _ in 0..ms / 10 {
            while world.put(Lane::Registration, "job").is_ok() {}
            world.take(0);
            longest = world.wait_ms(Lane::Registration);
            world.pass(10);
            world.end(0, 10);
        }
        longest
    };
    assert_eq!(overload(&mut world, 400), 110, "a burst");
    overload(&mut world, 100);
    assert_eq!(overload(&mut world, 300), 60, "it lasts");
    assert_eq!(overload(&mut world, 1000), 60);
    // Logins are none of it, and wait for no registration.
    world.queue.begin(0, JOB, world.now);
    while world.put(Lane::Login, "login").is_ok() {}
    assert_eq!(world.wait_ms(Lane::Login), 110);
    // Once the queue has run empty, what comes is another burst.
    while world.take(0).0.is_some() {
        world.pass(10);
        world.end(0, 10);
    }
    assert_eq!(overload(&mut world, 10), 110);
}

#[test]
fn a_free_thread_refuses_nothing_however_slow_it_was() {
    let mut world = World::new(2, 0);
    world.work(20, 60_000);
    world.put(Lane::Registration, "first").unwrap();
    world.put(Lane::Registration, "second").unwrap();
    assert_eq!(world.put(Lane::Registration, "third").unwrap_err().0, Undone::Wait);
    assert_eq!(world.take(0), (Some("first"), vec![]));
    assert_eq!(world.take(1), (Some("second"), vec![]));
}

#[test]
fn after_an_overload_the_queue_drains_and_the_estimate_recovers() {
    let mut world = World::new(1, 200);
    // The machine was stopped for ten seconds: one sample, and everything in the queue is late.
    world.queue.begin(0, JOB, world.now);
    for _ in 0..15 {
        world.put(Lane::Registration, "job").unwrap();
    }
    world.pass(10_000);
    world.end(0, 10);
    let (taken, skipped) = world.take(0);
    assert_eq!((taken, skipped), (None, vec![Undone::Late; 15]));
    assert_eq!((world.queue.depth(), world.wait_ms(Lane::Registration)), (0, 0));
    // One at a time is admitted; the estimate comes back with what is measured.
    let mut rounds = 0;
    loop {
        world.put(Lane::Registration, "job").unwrap();
        assert_eq!(world.take(0).0, Some("job"));
        if world.wait_ms(Lane::Registration) <= 20 {
            break;
        }
        world.pass(10);
        world.end(0, 10);
        rounds += 1;
        assert!(rounds < 60, "{} ms", world.wait_ms(Lane::Registration));
    }
}

/// As a burst of new connections does it to threads that give way, of a server that has just started.
#[test]
fn threads_that_were_starved_for_a_moment_do_not_close_the_door() {
    let mut world = World::new(1, 1000);
    world.share(10, 10, 100);
    world.queue.begin(0, JOB, world.now);
    let taken = (0..100).filter(|_| world.put(Lane::Registration, "job").is_ok()).count();
    assert!((90..100).contains(&taken), "{taken} of the 99 that can be done in a second");
}

#[test]
fn threads_that_share_their_core_for_long_are_expected_to_do_so() {
    let mut world = World::new(1, 1000);
    world.share(1500, 10, 20);
    world.queue.begin(0, JOB, world.now);
    let wait = world.wait_ms(Lane::Registration);
    assert!((18..=20).contains(&wait), "{wait} ms");
    // And when they have it for themselves again, so it is.
    world.end(0, 10);
    world.work(3000, 10);
    world.queue.begin(0, JOB, world.now);
    let wait = world.wait_ms(Lane::Registration);
    assert!((10..=12).contains(&wait), "{wait} ms");
}

#[test]
fn a_machine_that_has_become_slower_is_noticed_within_seconds() {
    let mut world = World::new(1, 1000);
    world.work(200, 40);
    world.queue.begin(0, JOB, world.now);
    let wait = world.wait_ms(Lane::Registration);
    assert!((35..=40).contains(&wait), "{wait} ms");
}

#[test]
fn whoever_hung_up_costs_nothing() {
    let mut world = World::new(1, 1000);
    for job in ["gone", "there", "gone"] {
        world.put(Lane::Login, job).unwrap();
    }
    assert_eq!(world.take(0), (Some("there"), vec![Undone::Gone]));
    assert_eq!(world.take(0), (None, vec![Undone::Gone]));
}

#[test]
fn no_more_jobs_wait_than_may() {
    let mut world = World::new(1, 3_600_000);
    let taken = (0..200).filter(|_| world.put(Lane::Registration, "job").is_ok()).count();
    assert_eq!(taken, 100);
    assert_eq!(world.put(Lane::Registration, "job").unwrap_err().0, Undone::Full);
    world.put(Lane::Login, "job").unwrap();
}

#[test]
fn what_waits_is_given_back_when_the_pool_ends() {
    let mut world = World::new(1, 1000);
    world.put(Lane::Registration, "register").unwrap();
    world.put(Lane::Login, "login").unwrap();
    let left = world.queue.stop();
    assert_eq!(left, [(Lane::Login, "login"), (Lane::Registration, "register")]);
    assert_eq!(world.put(Lane::Login, "job").unwrap_err().0, Undone::Stopping);
    assert_eq!(world.take(0), (None, vec![]));
}

#[test]
fn old_hashes_are_weighed_by_their_own_pace() {
    let mut world = World::new(1, 1000);
    let old = Work::Bcrypt(4096);
    for _ in 0..100 {
        world.queue.begin(0, old, world.now);
        world.pass(200);
        world.end(0, 200);
    }
    world.queue.begin(0, old, world.now);
    world.queue.put(Lane::Login, Work::Bcrypt(8192), "slow", world.now).unwrap();
    world.put(Lane::Login, "quick").unwrap();
    assert_eq!(world.wait_ms(Lane::Login), 610);
}
