//! Jobs that repeat: one loop with a pause, a back-off after failures, jitter and an orderly stop.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

/// How much shorter than planned a pause may be, in percent, unless the job says otherwise.
const JITTER_PERCENT: u32 = 10;

/// The result of a pass of a job, which decides when the next pass begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// There is more to do: the next pass begins at once.
    More,
    /// Nothing is left: the next pass begins after [`Periodic::every`], or earlier where the job is
    /// woken.
    Idle,
    /// As `Idle`, but with this pause.
    IdleFor(Duration),
    /// The next pass begins after the back-off; a wake does not shorten it. The job logs the error.
    Failed,
    /// The job has ended: `run` returns.
    Done,
}

/// Work that is repeated in passes. A closure that returns the future of a pass is a job that is
/// never woken.
pub trait Job: Send {
    /// Runs one pass. The result decides when the next one begins.
    fn pass(&mut self) -> impl Future<Output = Pass> + Send;

    /// Ready once there may be something to do before the pause ends.
    fn woken(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// Waits for a change, as a [`Job`] that is woken by it; forever once there can be none any more.
pub async fn changed(changes: &mut watch::Receiver<()>) {
    if changes.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl<J: FnMut() -> F + Send, F: Future<Output = Pass> + Send> Job for J {
    fn pass(&mut self) -> impl Future<Output = Pass> + Send {
        self()
    }
}

/// When a job repeats.
#[derive(Clone, Copy, Debug)]
pub struct Periodic {
    every: Duration,
    backoff: Backoff,
    jitter_percent: u32,
}

impl Periodic {
    /// A job with this pause between the end of a pass and the start of the next one, after
    /// failures too.
    #[must_use]
    pub const fn every(every: Duration) -> Self {
        Self { every, backoff: Backoff::new(every, every), jitter_percent: JITTER_PERCENT }
    }

    /// After a failed pass the pause is `first`; it doubles with each further failure, up to `max`.
    #[must_use]
    pub const fn with_backoff(mut self, first: Duration, max: Duration) -> Self {
        self.backoff = Backoff::new(first, max);
        self
    }

    /// Each pause is shortened by a random share of up to `percent` percent, so that the jobs of
    /// several processes do not coincide. 10 unless set; 0 for none.
    #[must_use]
    pub const fn with_jitter_percent(mut self, percent: u32) -> Self {
        self.jitter_percent = if percent > 100 { 100 } else { percent };
        self
    }

    /// Runs the job until `stop` is ready, which drops the pass under way, or until a pass returns
    /// [`Pass::Done`].
    pub async fn run(self, stop: impl Future<Output = ()>, job: impl Job) {
        tokio::select! {
            biased;
            () = stop => {}
            () = self.run_whole_passes(std::future::pending(), job) => {}
        }
    }

    /// As [`Periodic::run`], but `stop` does not interrupt a pass: the pass under way ends first.
    pub async fn run_whole_passes(self, stop: impl Future<Output = ()>, mut job: impl Job) {
        let mut stop = std::pin::pin!(stop);
        let mut backoff = self.backoff;
        loop {
            let pass = job.pass().await;
            if pass != Pass::Failed {
                backoff.reset();
            }
            let (pause, can_be_woken) = match pass {
                Pass::More => (Duration::ZERO, false),
                Pass::Idle => (self.every, true),
                Pass::IdleFor(pause) => (pause, true),
                Pass::Failed => (backoff.pause(), false),
                Pass::Done => return,
            };
            let pause = tokio::time::sleep(jittered(pause, self.jitter_percent));
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = job.woken(), if can_be_woken => {}
                () = pause => {}
            }
        }
    }
}

/// A pause between attempts that doubles with each failure.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// `first` after the first failure, doubling up to `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, next: first }
    }

    /// The pause after one more failure.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.max);
        pause
    }

    /// After a success: the next pause is the first one again.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}

fn jittered(pause: Duration, percent: u32) -> Duration {
    pause - pause.mul_f64(f64::from(percent) / 100.0 * random_share())
}

/// A random number between 0 and 1.
pub(crate) fn random_share() -> f64 {
    // A UUID v7 ends with 62 random bits.
    let random = Uuid::now_v7().as_u64_pair().1 << 2;
    f64::from(u32::try_from(random >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;
    use tokio::time::Instant;

    use super::*;

    const PERIODIC: Periodic = Periodic::every(Duration::from_secs(10))
        .with_backoff(Duration::from_secs(1), Duration::from_secs(4))
        .with_jitter_percent(0);

    /// A job with these results. Each pass takes so long, and wakes the job.
    struct Script<'a> {
        passes: &'a [Pass],
        takes: Duration,
        started: Instant,
        /// When each pass began, in seconds.
        begun: &'a mut Vec<u64>,
        ended: &'a mut usize,
        notify: Option<Notify>,
    }

    impl Job for Script<'_> {
        async fn pass(&mut self) -> Pass {
            self.begun.push(self.started.elapsed().as_secs());
            tokio::time::sleep(self.takes).await;
            *self.ended += 1;
            self.notify.iter().for_each(Notify::notify_one);
            *self.passes.get(self.begun.len() - 1).unwrap_or(&Pass::Done)
        }

        async fn woken(&mut self) {
            match &self.notify {
                Some(notify) => notify.notified().await,
                None => std::future::pending().await,
            }
        }
    }

    /// When each pass of a job with these results begins, in seconds after its start.
    async fn starts(periodic: Periodic, passes: &[Pass], notify: Option<Notify>) -> Vec<u64> {
        let (mut begun, mut ended) = (vec![], 0);
        let (started, takes) = (Instant::now(), Duration::ZERO);
        let (begun_ref, ended) = (&mut begun, &mut ended);
        let job = Script { passes, takes, started, begun: begun_ref, ended, notify };
        periodic.run(std::future::pending(), job).await;
        begun
    }

    #[tokio::test(start_paused = true)]
    async fn each_result_decides_when_the_next_pass_begins() {
        let idle_for = Pass::IdleFor(Duration::from_secs(3));
        let passes = [Pass::More, Pass::Idle, idle_for, Pass::Idle];
        assert_eq!(starts(PERIODIC, &passes, None).await, [0, 0, 10, 13, 23]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_back_off_doubles_to_its_maximum_and_resets_on_success() {
        let failed = Pass::Failed;
        let passes = [failed, failed, failed, failed, Pass::More, failed];
        assert_eq!(starts(PERIODIC, &passes, None).await, [0, 1, 3, 7, 11, 11, 12]);
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_only_shortens_pauses() {
        let started = Instant::now();
        let passes = [Pass::Idle; 100];
        let count = starts(PERIODIC.with_jitter_percent(50), &passes, None).await.len();
        assert_eq!(count, 101);
        let took_s = started.elapsed().as_secs();
        assert!((500..1000).contains(&took_s), "{took_s} s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_ends_a_pause_but_no_back_off() {
        let passes = [Pass::Idle, Pass::Failed];
        assert_eq!(starts(PERIODIC, &passes, Some(Notify::new())).await, [0, 0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn stop_drops_the_pass_under_way_unless_passes_are_whole() {
        for (is_whole, expected) in [(false, (2, 0)), (true, (5, 1))] {
            let (mut begun, mut ended) = (vec![], 0);
            let (started, takes) = (Instant::now(), Duration::from_secs(5));
            let (begun, ended_ref) = (&mut begun, &mut ended);
            let passes = &[Pass::Idle];
            let job = Script { passes, takes, started, begun, ended: ended_ref, notify: None };
            let stop = tokio::time::sleep(Duration::from_secs(2));
            if is_whole {
                PERIODIC.run_whole_passes(stop, job).await;
            } else {
                PERIODIC.run(stop, job).await;
            }
            assert_eq!((started.elapsed().as_secs(), ended), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_closure_is_a_job_and_can_be_spawned() {
        let spawned = tokio::spawn(async {
            let mut passes = 0;
            let job = || {
                passes += 1;
                let pass = if passes < 3 { Pass::Idle } else { Pass::Done };
                async move { pass }
            };
            PERIODIC.run(std::future::pending(), job).await;
            passes
        });
        assert_eq!(spawned.await.expect("the job does not panic"), 3);
    }
}
