//! Passwords are hashed here: on threads of their own, and only what can be done in time.
//!
//! A hash takes milliseconds of a core on purpose, so a burst of registrations is a queue. A queue
//! without an end answers everybody late; this one refuses at once whoever would wait too long, and
//! says when to come back. Work for which nobody waits any more is not done.

mod hashing;
mod memory;
mod queue;

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use hashing::Stored;
pub use hashing::{Cost, Hashing, PhcString, Verified};
use queue::{Lane, Limits, Queue, Taken, Undone, Work};

use crate::password_policy::PASSWORD_BYTES_MAX;

/// The longest time after which a client is told to come back.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// How much the threads give way to the rest of the process, which answers requests meanwhile.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// What a thread hashes before anybody asks, so that the queue knows how long it takes here.
const FIRST_HASHES: usize = 3;

/// What a pool is made with.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads: passwords that are hashed at the same time. At least one.
    pub threads: usize,
    /// How long a password may wait for a thread; one that would wait longer is refused. Half of it,
    /// where more has come than can be hashed for four times as long.
    pub queue_wait_max: Duration,
    /// How many passwords of logins may wait, and how many of registrations, however quick they
    /// are: what bounds their memory.
    pub queue_jobs_max: usize,
    /// What new hashes cost.
    pub cost: Cost,
}

impl Default for Options {
    /// A thread for each core but one, two seconds of waiting, and OWASP's parameters.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            threads: cores.saturating_sub(1).max(1),
            queue_wait_max: Duration::from_secs(2),
            queue_jobs_max: 16_384,
            cost: Cost::RECOMMENDED,
        }
    }
}

/// Not now: more passwords are to be hashed than can be in time. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// When to come back: whole seconds, at least one.
    pub retry_after: Duration,
}

impl Busy {
    /// After what waits now.
    fn after(wait: Duration) -> Self {
        let wait = wait.min(RETRY_AFTER_MAX);
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self { retry_after: Duration::from_secs(seconds.max(1)) }
    }
}

/// What is to be done, and who waits for it.
enum Job {
    Hash { password: String, answer: oneshot::Sender<PhcString> },
    Verify { stored: Stored, password: String, answer: oneshot::Sender<Verified> },
}

impl Job {
    fn is_gone(&self) -> bool {
        match self {
            Self::Hash { answer, .. } => answer.is_closed(),
            Self::Verify { answer, .. } => answer.is_closed(),
        }
    }
}

/// A job that is done, and is yet to be told.
enum Done {
    Hashed(oneshot::Sender<PhcString>, PhcString),
    Verified(oneshot::Sender<Verified>, Verified),
}

impl Done {
    /// Whoever has hung up meanwhile is told nothing.
    fn tell(self) {
        match self {
            Self::Hashed(answer, hash) => drop(answer.send(hash)),
            Self::Verified(answer, verified) => drop(answer.send(verified)),
        }
    }
}

/// The pool. Where it is dropped its threads finish what they have begun and end; what waits is
/// refused.
pub struct Hasher {
    pool: Arc<Pool>,
    cost: Cost,
}

struct Pool {
    queue: Mutex<Queue<Job>>,
    waiting: Condvar,
}

impl Hasher {
    /// Starts the threads. Each hashes a few times to begin with: it touches its memory, and the
    /// queue learns how long a hash takes here.
    ///
    /// # Errors
    /// Where the operating system gives no thread.
    pub fn new(options: Options) -> std::io::Result<Self> {
        let Options { threads, queue_wait_max, queue_jobs_max, cost } = options;
        let threads = threads.max(1);
        let limits = Limits { wait_max: queue_wait_max, jobs_max: queue_jobs_max };
        let queue = Mutex::new(Queue::new(threads, limits));
        let pool = Arc::new(Pool { queue, waiting: Condvar::new() });
        // Made before its threads: where one of them is refused, the others end with it.
        let hasher = Self { pool: Arc::clone(&pool), cost };
        for thread in 0..threads {
            let pool = Arc::clone(&pool);
            std::thread::Builder::new()
                .name(format!("password-{thread}"))
                .spawn(move || pool.work(thread, cost))?;
        }
        Ok(hasher)
    }

    /// Hashes a new password. It is in the queue, or refused, when this returns; where the future
    /// is dropped before a thread has begun, nothing is done.
    ///
    /// # Errors
    /// [`Busy`] where it would wait or has waited too long.
    pub fn hash(
        &self,
        password: String,
    ) -> impl Future<Output = Result<PhcString, Busy>> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let job = Job::Hash { password, answer };
        let put = self.pool.put(Lane::Registration, self.cost.work(), job);
        answer_of(Arc::clone(&self.pool), put, Lane::Registration, answered)
    }

    /// Compares a password with what is stored: a hash of this pool or with other parameters, or
    /// bcrypt's. Without one, or with one that cannot be used, a hash is computed all the same, so
    /// that the time does not tell who has an account. (An old hash takes its own time: that it is
    /// an old one can be told until its owner has logged in.)
    ///
    /// Logins go before registrations.
    ///
    /// # Errors
    /// [`Busy`] where it would wait or has waited too long.
    pub fn verify(
        &self,
        stored: Option<&str>,
        password: String,
    ) -> impl Future<Output = Result<Verified, Busy>> + Send + use<> {
        let read = stored.and_then(Stored::read);
        if stored.is_some() && read.is_none() {
            tracing::warn!("a stored password hash cannot be used: its owner cannot log in");
        }
        // Nobody has a password of that length: the policy refuses it.
        let is_too_long = password.len() > PASSWORD_BYTES_MAX;
        let (stored, password) = match (read, is_too_long) {
            (_, true) => (Stored::Nobody, String::new()),
            (None, false) => (Stored::Nobody, password),
            (Some(stored), false) => (stored, password),
        };
        let work = stored.work(self.cost);
        let (answer, answered) = oneshot::channel();
        let put = self.pool.put(Lane::Login, work, Job::Verify { stored, password, answer });
        answer_of(Arc::clone(&self.pool), put, Lane::Login, answered)
    }

    /// Passwords that wait for a thread.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.pool.lock().depth()
    }

    /// How long a registration that comes now would wait.
    #[must_use]
    pub fn estimated_wait(&self) -> Duration {
        self.pool.lock().wait(Lane::Registration, Instant::now())
    }
}

impl Drop for Hasher {
    fn drop(&mut self) {
        let left = self.pool.lock().stop();
        self.pool.waiting.notify_all();
        for (lane, _) in left {
            count_undone(lane, Undone::Stopping);
        }
        show_depth(0);
    }
}

impl Pool {
    /// A panic while the queue was locked is a bug of ours; the queue is whole between its calls.
    fn lock(&self) -> MutexGuard<'_, Queue<Job>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, lane: Lane, work: Work, job: Job) -> Result<(), Busy> {
        let mut queue = self.lock();
        let put = queue.put(lane, work, job, Instant::now());
        let depth = queue.depth();
        drop(queue);
        match put {
            Ok(()) => {
                self.waiting.notify_one();
                show_depth(depth);
                Ok(())
            }
            Err((why, busy)) => {
                count_undone(lane, why);
                Err(busy)
            }
        }
    }

    /// What a thread does until the pool ends.
    fn work(&self, thread: usize, cost: Cost) {
        give_way();
        let mut hashing = Hashing::new(cost);
        self.lock().begin(thread, cost.work(), Instant::now());
        hashing.hash("to touch the memory, which none after it has to");
        for _ in 0..FIRST_HASHES {
            self.lock().begin(thread, cost.work(), Instant::now());
            let worked_before = thread_time();
            hashing.hash("to know how long it takes");
            self.lock().end(thread, worked_since(worked_before), Instant::now());
        }
        while let Some(taken) = self.next(thread) {
            let lane = taken.lane.label();
            metrics::histogram!("faregate_password_wait_seconds", "lane" => lane)
                .record(taken.waited);
            let worked_before = thread_time();
            // The memory is written anew by each hash, whatever one that panicked has left there.
            let done = catch_unwind(AssertUnwindSafe(|| perform(&mut hashing, taken.job)));
            self.lock().end(thread, worked_since(worked_before), Instant::now());
            match done {
                Ok(done) => done.tell(),
                Err(_) => tracing::error!("a bug: hashing a password panicked"),
            }
        }
    }

    /// Waits for the next job; none where the pool ends.
    fn next(&self, thread: usize) -> Option<Taken<Job>> {
        let mut queue = self.lock();
        loop {
            if queue.is_stopping() {
                return None;
            }
            let before = queue.depth();
            let taken = queue.take(thread, Instant::now(), Job::is_gone, count_undone);
            if queue.depth() != before {
                show_depth(queue.depth());
            }
            if taken.is_some() {
                return taken;
            }
            queue = self.waiting.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn perform(hashing: &mut Hashing, job: Job) -> Done {
    let since = Instant::now();
    let (done, algorithm) = match job {
        Job::Hash { password, answer } => {
            (Done::Hashed(answer, hashing.hash(&password)), "argon2id")
        }
        Job::Verify { stored, password, answer } => {
            let verified = hashing.verify(&stored, &password);
            (Done::Verified(answer, verified), stored.algorithm())
        }
    };
    metrics::histogram!("faregate_password_hash_seconds", "algorithm" => algorithm)
        .record(since.elapsed());
    done
}

/// The answer to a job; one that was dropped without an answer was late, or the pool has ended.
async fn answer_of<T>(
    pool: Arc<Pool>,
    put: Result<(), Busy>,
    lane: Lane,
    answered: oneshot::Receiver<T>,
) -> Result<T, Busy> {
    put?;
    answered.await.map_err(|_| Busy::after(pool.lock().wait(lane, Instant::now())))
}

fn count_undone(lane: Lane, why: Undone) {
    let (lane, reason) = (lane.label(), why.label());
    metrics::counter!("faregate_password_refused_total", "lane" => lane, "reason" => reason)
        .increment(1);
}

fn show_depth(jobs: usize) {
    metrics::gauge!("faregate_password_queue_jobs").set(jobs as f64);
}

/// For how long the calling thread has worked, waiting for a core not included.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn worked_since(before: Duration) -> Duration {
    thread_time().saturating_sub(before)
}

/// Gives way to threads that answer requests. Where it is not allowed, hashing goes on all the same.
#[cfg(target_os = "linux")]
fn give_way() {
    // Linux means the calling thread by no id at all.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "the priority of a password thread stays as it is");
    }
}

/// Elsewhere a priority is the whole process's.
#[cfg(not(target_os = "linux"))]
const fn give_way() {}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: (u32, u32, u32) = (64, 1, 1);

    fn pool(threads: usize, queue_wait_max: Duration) -> Hasher {
        let (memory, passes, lanes) = CHEAP;
        let cost = Cost::new(memory, passes, lanes).unwrap();
        Hasher::new(Options { threads, queue_wait_max, queue_jobs_max: 1000, cost }).unwrap()
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// Some tenths of a second of work in a test's build.
    fn slow_hash() -> String {
        let hash = bcrypt::hash_with_salt("slow", 4, [3; 16]).unwrap();
        let text = hash.format_for_version(bcrypt::Version::TwoB);
        text.replace("$2b$04$", "$2b$12$")
    }

    #[test]
    fn what_is_hashed_verifies_on_any_thread() {
        let pool = pool(3, Duration::from_secs(60));
        block_on(async {
            for _ in 0..20 {
                let hash = pool.hash("LoadTest123@".to_owned()).await.unwrap();
                let right = pool.verify(Some(hash.as_str()), "LoadTest123@".to_owned());
                let wrong = pool.verify(Some(hash.as_str()), "LoadTest123!".to_owned());
                assert_eq!(right.await, Ok(Verified { ok: true, rehash: false }));
                assert_eq!(wrong.await, Ok(Verified { ok: false, rehash: false }));
            }
        });
        assert_eq!(pool.depth(), 0);
    }

    #[test]
    fn nobody_has_no_password() {
        let pool = pool(1, Duration::from_secs(60));
        let long = "a".repeat(PASSWORD_BYTES_MAX + 1);
        block_on(async {
            let hash = pool.hash(long.clone()).await.unwrap();
            let stored = [None, Some(""), Some("$argon2id$v=19$m=999999,t=1,p=1$AAAA$AAAA")];
            for stored in stored.into_iter().chain([Some(hash.as_str())]) {
                let verified = pool.verify(stored, long.clone()).await;
                assert_eq!(verified, Ok(Verified { ok: false, rehash: false }), "{stored:?}");
            }
        });
    }

    #[test]
    fn a_full_pool_refuses_at_once_and_takes_again_when_it_is_done() {
        let pool = pool(1, Duration::from_secs(2));
        let slow = slow_hash();
        // Each counts for a quarter of a second until one was measured.
        let waiting: Vec<_> =
            (0..100).map(|_| pool.verify(Some(&slow), "slow".to_owned())).collect();
        assert!(pool.depth() < 40, "{} wait", pool.depth());
        block_on(async {
            let mut refused = 0;
            for answer in waiting {
                match answer.await {
                    Ok(verified) => assert!(!verified.ok),
                    Err(busy) => {
                        assert!(busy.retry_after >= Duration::from_secs(1), "{busy:?}");
                        refused += 1;
                    }
                }
            }
            assert!((60..100).contains(&refused), "{refused} of 100 were refused");
            assert_eq!((pool.depth(), pool.estimated_wait()), (0, Duration::ZERO));
            pool.hash("LoadTest123@".to_owned()).await.unwrap();
        });
    }

    #[test]
    fn who_hangs_up_while_waiting_costs_no_hash() {
        let pool = pool(1, Duration::from_secs(600));
        let slow = slow_hash();
        let began = Instant::now();
        block_on(async {
            let first = pool.verify(Some(&slow), "slow".to_owned());
            for _ in 0..200 {
                drop(pool.verify(Some(&slow), "slow".to_owned()));
            }
            let last = pool.hash("LoadTest123@".to_owned());
            first.await.unwrap();
            let one = began.elapsed();
            last.await.unwrap();
            // Two hundred times as long, were they computed.
            assert!(began.elapsed() < one * 20, "{:?} after {one:?}", began.elapsed());
        });
    }

    #[test]
    fn a_pool_that_is_dropped_refuses_what_waits_and_ends_its_threads() {
        let pool = pool(2, Duration::from_secs(600));
        let (slow, inner) = (slow_hash(), Arc::downgrade(&pool.pool));
        let waiting: Vec<_> =
            (0..40).map(|_| pool.verify(Some(&slow), "slow".to_owned())).collect();
        drop(pool);
        let answers = block_on(async {
            let mut answers = vec![];
            for answer in waiting {
                answers.push(answer.await);
            }
            answers
        });
        let refused = answers.iter().filter(|answer| answer.is_err()).count();
        assert!(refused >= 38, "{refused} of 40 were refused");
        let deadline = Instant::now() + Duration::from_secs(60);
        while inner.strong_count() > 0 {
            assert!(Instant::now() < deadline, "the threads go on");
            std::thread::yield_now();
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_gives_way_and_nobody_else_does() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        let of_the_thread = std::thread::spawn(move || {
            give_way();
            priority()
        });
        assert_eq!(of_the_thread.join().unwrap(), NICENESS.max(before));
        assert_eq!(priority(), before);
    }

    #[test]
    fn clients_come_back_after_whole_seconds() {
        let after = |ms| Busy::after(Duration::from_millis(ms)).retry_after.as_secs();
        assert_eq!([0, 1, 1000, 1001].map(after), [1, 1, 1, 2]);
        assert_eq!(Busy::after(Duration::MAX).retry_after, RETRY_AFTER_MAX);
    }
}
