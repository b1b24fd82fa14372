//! Password hashing on a pool of dedicated threads with a bounded queue.
//!
//! A hash deliberately takes milliseconds of a core, so a burst of registrations makes a queue. An
//! unbounded queue would answer every client late; this one refuses at once what would wait too
//! long and suggests when to retry. Jobs whose client has disconnected are dropped.

mod hashing;
mod memory;
mod queue;

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::client::{self, Client, GONE_AFTER};
use engine::{priority, text};
use tokio::sync::oneshot;

use hashing::StoredHash;
pub use hashing::{Cost, Hashing, PhcString, Verified};
use queue::{DropReason, Lane, Limits, Queue, StartedJob, Work};

use crate::password_policy::PASSWORD_BYTES_MAX;

/// The longest suggested time before a retry.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// How long a thread without a job keeps the memory of its last hash.
const MEMORY_KEPT: Duration = Duration::from_secs(10);

/// Hashes that a thread computes at the start, so that the queue can estimate durations.
const FIRST_HASHES: usize = 3;

/// Options of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads; at least one.
    pub threads: usize,
    /// How long a password may wait for a thread; one that would wait longer is refused. It is half
    /// as long in an overload that has lasted four times as long.
    pub queue_wait_max: Duration,
    /// How many passwords of logins and how many of registrations may wait: bounds their memory.
    pub queue_jobs_max: usize,
    /// The cost of new hashes.
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

/// Too many passwords wait to be hashed; nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// In whole seconds, at least one.
    pub retry_after: Duration,
}

impl Busy {
    /// A retry after the current wait.
    fn after(wait: Duration) -> Self {
        let wait = wait.min(RETRY_AFTER_MAX);
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self { retry_after: Duration::from_secs(seconds.max(1)) }
    }
}

/// A job, and the client that it is done for.
struct Job {
    task: Task,
    client: Option<Arc<Client>>,
    asked_at: Instant,
}

/// A password to hash or to verify, with the sender of the result.
enum Task {
    Hash { password: String, answer: oneshot::Sender<PhcString> },
    Verify { stored: StoredHash, password: String, answer: oneshot::Sender<Verified> },
}

impl Job {
    fn new(task: Task) -> Self {
        Self { task, client: client::current(), asked_at: Instant::now() }
    }

    /// Whether its result is of no use any more. A request that may write goes on without its client, and
    /// waits for its result: so the client is looked at, once the job has waited as long as reads wait for
    /// one that has closed its side.
    fn is_disconnected(&self) -> bool {
        let is_dropped = match &self.task {
            Task::Hash { answer, .. } => answer.is_closed(),
            Task::Verify { answer, .. } => answer.is_closed(),
        };
        let is_gone = || self.client.as_ref().is_some_and(|client| client.is_gone());
        is_dropped || self.asked_at.elapsed() >= GONE_AFTER && is_gone()
    }
}

/// A finished job whose result is not sent yet.
enum Done {
    Hashed(oneshot::Sender<PhcString>, PhcString),
    Verified(oneshot::Sender<Verified>, Verified),
}

impl Done {
    /// Sends the result, unless the client has disconnected.
    fn send(self) {
        match self {
            Self::Hashed(answer, hash) => drop(answer.send(hash)),
            Self::Verified(answer, verified) => drop(answer.send(verified)),
        }
    }
}

/// The pool. When it is dropped, its threads finish their current jobs and end; waiting jobs are
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
    /// Starts the threads. Each computes a few hashes first, which give the queue an estimate.
    ///
    /// # Errors
    /// The operating system refused a thread.
    pub fn new(options: Options) -> std::io::Result<Self> {
        let Options { threads, queue_wait_max, queue_jobs_max, cost } = options;
        let threads = threads.max(1);
        let limits = Limits { wait_max: queue_wait_max, jobs_max: queue_jobs_max };
        let queue = Mutex::new(Queue::new(threads, limits));
        let pool = Arc::new(Pool { queue, waiting: Condvar::new() });
        // Created before its threads: if one of them is refused, dropping this ends the others.
        let hasher = Self { pool: Arc::clone(&pool), cost };
        for thread in 0..threads {
            let pool = Arc::clone(&pool);
            std::thread::Builder::new()
                .name(format!("password-{thread}"))
                .spawn(move || pool.work(thread, cost))?;
        }
        Ok(hasher)
    }

    /// Hashes a new password. It is queued or refused when this returns; dropping the future before
    /// a thread starts the job cancels it.
    ///
    /// # Errors
    /// [`Busy`] where it would wait, or has waited, too long.
    pub fn hash(
        &self,
        password: String,
    ) -> impl Future<Output = Result<PhcString, Busy>> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let password = text::password(&password).into_owned();
        let job = Job::new(Task::Hash { password, answer });
        let pushed = self.pool.push(Lane::Registration, self.cost.work(), job);
        result_of(Arc::clone(&self.pool), pushed, Lane::Registration, answered)
    }

    /// Compares a password with a stored hash: of this pool, of other parameters, or of bcrypt.
    /// Without a usable hash a dummy one is computed, so that the duration does not reveal whether
    /// an account exists. (An outdated hash takes a different time until its customer logs in.)
    ///
    /// Logins take precedence over registrations.
    ///
    /// # Errors
    /// [`Busy`] where it would wait, or has waited, too long.
    pub fn verify(
        &self,
        stored: Option<&str>,
        password: String,
    ) -> impl Future<Output = Result<Verified, Busy>> + Send + use<> {
        let read = stored.and_then(StoredHash::read);
        if stored.is_some() && read.is_none() {
            tracing::warn!("a stored password hash cannot be parsed; its customer cannot log in");
        }
        // No account has such a password: the policy refuses it.
        let is_too_long = password.len() > PASSWORD_BYTES_MAX;
        let (stored, password) = match (read, is_too_long) {
            (_, true) => (StoredHash::Absent, String::new()),
            (None, false) => (StoredHash::Absent, password),
            (Some(stored), false) => (stored, text::password(&password).into_owned()),
        };
        let work = stored.work(self.cost);
        let (answer, answered) = oneshot::channel();
        let job = Job::new(Task::Verify { stored, password, answer });
        let pushed = self.pool.push(Lane::Login, work, job);
        result_of(Arc::clone(&self.pool), pushed, Lane::Login, answered)
    }

    /// How many passwords wait for a thread.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.pool.lock().depth()
    }

    /// How long a new registration would wait.
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
            count_dropped(lane, DropReason::Stopping);
        }
        show_depth(0);
    }
}

impl Pool {
    /// The queue is consistent between its calls, even if a thread panicked while it was locked.
    fn lock(&self) -> MutexGuard<'_, Queue<Job>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, lane: Lane, work: Work, job: Job) -> Result<(), Busy> {
        let mut queue = self.lock();
        let pushed = queue.push(lane, work, job, Instant::now());
        let depth = queue.depth();
        drop(queue);
        match pushed {
            Ok(()) => {
                self.waiting.notify_one();
                show_depth(depth);
                Ok(())
            }
            Err((reason, busy)) => {
                count_dropped(lane, reason);
                Err(busy)
            }
        }
    }

    /// The loop of a thread.
    fn work(&self, thread: usize, cost: Cost) {
        priority::lower("password");
        let mut hashing = Hashing::new(cost);
        self.lock().begin(thread, cost.work(), Instant::now());
        hashing.hash("touches the memory");
        for _ in 0..FIRST_HASHES {
            self.lock().begin(thread, cost.work(), Instant::now());
            let worked_before = thread_time();
            hashing.hash("measures the duration");
            self.lock().end(thread, worked_since(worked_before), Instant::now());
        }
        hashing.release_memory();
        while let Some(taken) = self.next(thread, &mut hashing) {
            let lane = taken.lane.label();
            metrics::histogram!("faregate_password_wait_seconds", "lane" => lane)
                .record(taken.waited);
            let worked_before = thread_time();
            // Each hash overwrites the memory, whatever a panicked one has left in it.
            let done = catch_unwind(AssertUnwindSafe(|| perform(&mut hashing, taken.job)));
            self.lock().end(thread, worked_since(worked_before), Instant::now());
            match done {
                Ok(done) => done.send(),
                Err(_) => tracing::error!("a bug: hashing a password panicked; its request fails"),
            }
        }
    }

    /// Waits for the next job; `None` where the pool ends. In a longer pause the thread's memory is
    /// released.
    fn next(&self, thread: usize, hashing: &mut Hashing) -> Option<StartedJob<Job>> {
        let mut queue = self.lock();
        loop {
            if queue.is_stopping() {
                return None;
            }
            let before = queue.depth();
            let taken = queue.take(thread, Instant::now(), Job::is_disconnected, count_dropped);
            if queue.depth() != before {
                show_depth(queue.depth());
            }
            if taken.is_some() {
                return taken;
            }
            if hashing.has_memory() {
                let waited = self.waiting.wait_timeout(queue, MEMORY_KEPT);
                let (after, pause) = waited.unwrap_or_else(PoisonError::into_inner);
                queue = after;
                if pause.timed_out() {
                    drop(queue);
                    hashing.release_memory();
                    queue = self.lock();
                }
            } else {
                queue = self.waiting.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

fn perform(hashing: &mut Hashing, job: Job) -> Done {
    let since = Instant::now();
    let (done, algorithm) = match job.task {
        Task::Hash { password, answer } => {
            (Done::Hashed(answer, hashing.hash(&password)), "argon2id")
        }
        Task::Verify { stored, password, answer } => {
            let verified = hashing.verify(&stored, &password);
            (Done::Verified(answer, verified), stored.algorithm())
        }
    };
    metrics::histogram!("faregate_password_hash_seconds", "algorithm" => algorithm)
        .record(since.elapsed());
    done
}

/// The result of a job; one that was dropped without a result was late, or the pool has ended.
async fn result_of<T>(
    pool: Arc<Pool>,
    pushed: Result<(), Busy>,
    lane: Lane,
    answered: oneshot::Receiver<T>,
) -> Result<T, Busy> {
    pushed?;
    answered.await.map_err(|_| Busy::after(pool.lock().wait(lane, Instant::now())))
}

fn count_dropped(lane: Lane, reason: DropReason) {
    let (lane, reason) = (lane.label(), reason.label());
    metrics::counter!("faregate_password_refused_total", "lane" => lane, "reason" => reason)
        .increment(1);
}

fn show_depth(jobs: usize) {
    metrics::gauge!("faregate_password_queue_jobs").set(jobs as f64);
}

/// CPU time of the calling thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn worked_since(before: Duration) -> Duration {
    thread_time().saturating_sub(before)
}

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

    /// Takes some tenths of a second in a debug build.
    fn slow_hash() -> String {
        let hash = bcrypt::hash_with_salt("slow", 4, [3; 16]).unwrap();
        let text = hash.format_for_version(bcrypt::Version::TwoB);
        text.replace("$2b$04$", "$2b$12$")
    }

    #[test]
    fn a_hash_verifies_on_any_thread() {
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
    fn an_account_without_a_usable_hash_has_no_password() {
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
    fn a_full_pool_refuses_at_once_and_recovers() {
        let pool = pool(1, Duration::from_secs(2));
        let slow = slow_hash();
        // Each counts for a quarter of a second until one is measured.
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
    fn jobs_of_disconnected_clients_are_not_hashed() {
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
            // Computing all of them would take two hundred times as long.
            assert!(began.elapsed() < one * 20, "{:?} after {one:?}", began.elapsed());
        });
    }

    #[test]
    fn a_dropped_pool_refuses_waiting_jobs_and_ends_its_threads() {
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
        let refused = answers.iter().filter(|answer| matches!(answer, Err(Busy { .. }))).count();
        assert!(refused >= 38, "{refused} of 40 were refused");
        let deadline = Instant::now() + Duration::from_secs(60);
        while inner.strong_count() > 0 {
            assert!(Instant::now() < deadline, "the threads have not ended");
            std::thread::yield_now();
        }
    }

    #[test]
    fn retry_after_is_rounded_up_to_whole_seconds() {
        let after = |ms| Busy::after(Duration::from_millis(ms)).retry_after.as_secs();
        assert_eq!([0, 1, 1000, 1001].map(after), [1, 1, 1, 2]);
        assert_eq!(Busy::after(Duration::MAX).retry_after, RETRY_AFTER_MAX);
    }
}
