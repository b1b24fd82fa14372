//! Flags for a user, read once or followed as they change, for APIs that are not FeatBit's.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use evaluation::{Evaluation, User};
use futures_util::Stream;
use tokio::time::{Instant, Interval};

use crate::accounts::Accounts;
use crate::cache::{FlagCache, Grant};
use crate::close;
use crate::entitled_user::EntitledUser;
use crate::secret::SDK;
use crate::subscribers::{Permit, Permits, Subscriber};
use crate::subscription::Subscription;
use crate::time::now_ms;

/// How often a watch checks whether its secret has expired.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(25);

/// Reads flags from a cache.
pub struct FlagReader {
    cache: Arc<FlagCache>,
    watchers: Arc<Permits>,
    limits: WatchLimits,
}

/// Bounds of watches.
#[derive(Clone, Copy, Debug)]
pub struct WatchLimits {
    /// How many watches may be open.
    pub listeners_max: usize,
    /// How many changes a reader may leave unread.
    pub behind_max: u64,
    /// How many streams of one environment may be open, watches and others.
    pub environment_streams_max: usize,
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self { listeners_max: 10_000, behind_max: 1_000, environment_streams_max: usize::MAX }
    }
}

/// Why flags cannot be read, or a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The cache is not loaded yet.
    Unavailable,
    /// The node stops.
    Stopping,
    /// The secret is missing, unknown, of another kind, or expired.
    Unauthorized,
    /// Too many watches are open, or too many streams of the environment.
    Full,
    /// The reader left too many changes unread.
    TooSlow,
}

/// An update of a user's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagUpdate<T> {
    /// Whether this is everything, in place of what was sent before.
    pub is_full: bool,
    /// The flags as they are now, in the order of their keys.
    pub flags: Vec<T>,
    /// The keys of the flags that were archived.
    pub removed: Vec<String>,
}

/// Follows a user's flags. Each is shown by a function of its evaluation and of the time since which
/// it may have another value, in milliseconds since 1970.
///
/// It buffers nothing: an update is computed when the reader polls. A reader that leaves too many
/// changes unread gets [`ReadError::TooSlow`], which is the end.
pub struct Watch<F> {
    grant: Arc<Grant>,
    accounts: Arc<Accounts>,
    user: EntitledUser,
    show: F,
    subscriber: Arc<Subscriber>,
    _subscription: Subscription,
    /// The revision that was sent last; none before the first.
    sent_revision: Option<u64>,
    behind_max: u64,
    /// Whether the reader waits for an update, and no update for the reader.
    is_awaited: bool,
    has_ended: bool,
    expiry_check: Interval,
    _permit: Permit,
}

impl FlagReader {
    /// A reader of a cache.
    #[must_use]
    pub fn new(cache: Arc<FlagCache>, limits: WatchLimits) -> Self {
        Self { cache, watchers: Arc::default(), limits }
    }

    /// The grant of a secret that an SDK may use.
    ///
    /// # Errors
    /// `Stopping`, `Unavailable` or `Unauthorized`.
    pub fn grant(&self, secret: Option<&str>) -> Result<Arc<Grant>, ReadError> {
        if self.cache.is_draining() {
            return Err(ReadError::Stopping);
        }
        if !self.cache.is_available() {
            return Err(ReadError::Unavailable);
        }
        let grant = secret.and_then(|it| self.cache.find(it));
        grant.filter(|it| SDK.contains(&it.kind())).ok_or(ReadError::Unauthorized)
    }

    /// Evaluates flags for a user: those of these keys that exist, or all. Archived flags are left
    /// out.
    ///
    /// # Errors
    /// `Unavailable`: what the user is entitled to is not known.
    pub async fn evaluate<T>(
        &self,
        grant: &Grant,
        user: User,
        keys: &[String],
        show: impl Fn(&Evaluation<'_>, i64) -> T,
    ) -> Result<Vec<T>, ReadError> {
        let environment = &grant.environments()[0];
        let it = self.cache.with_entitled(environment, user).await.ok_or(ReadError::Unavailable)?;
        let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        keys.sort_unstable();
        let state = environment.state();
        let is_wanted = |key: &str| keys.is_empty() || keys.binary_search(&key).is_ok();
        let flags = state.flags();
        let flags = flags.filter(|(it, _)| is_wanted(&it.flag().key));
        let active = flags.filter(|(it, _)| !it.flag().is_archived);
        let shown =
            active.map(|(flag, at_ms)| show(&state.snapshot.evaluate_flag(flag, &it.user), at_ms));
        Ok(shown.collect())
    }

    /// Follows a user's flags, beginning with all of them.
    ///
    /// # Errors
    /// `Full`.
    pub fn watch<T, F: Fn(&Evaluation<'_>, i64) -> T>(
        &self,
        grant: Arc<Grant>,
        user: User,
        show: F,
    ) -> Result<Watch<F>, ReadError> {
        let permit = self.watchers.acquire(self.limits.listeners_max).ok_or(ReadError::Full)?;
        let subscriber = Arc::<Subscriber>::default();
        let subscription =
            Subscription::new(&grant, &subscriber, self.limits.environment_streams_max)
                .ok_or(ReadError::Full)?;
        let first_check = Instant::now() + EXPIRY_CHECK_INTERVAL;
        Ok(Watch {
            grant,
            accounts: Arc::clone(&self.cache.accounts),
            user: EntitledUser::new(user),
            show,
            subscriber,
            _subscription: subscription,
            sent_revision: None,
            behind_max: self.limits.behind_max,
            is_awaited: true,
            has_ended: false,
            expiry_check: tokio::time::interval_at(first_check, EXPIRY_CHECK_INTERVAL),
            _permit: permit,
        })
    }
}

impl<T, F: Fn(&Evaluation<'_>, i64) -> T> Watch<F> {
    /// Why the watch ends, if it does.
    fn end(&self) -> Option<ReadError> {
        if self.subscriber.close_code().is_some() {
            return Some(ReadError::Stopping);
        }
        match self.grant.close_code(now_ms()) {
            None => {}
            Some(close::SERVICE_RESTART) => return Some(ReadError::Unavailable),
            Some(_) => return Some(ReadError::Unauthorized),
        }
        let sent = self.sent_revision.filter(|_| !self.is_awaited)?;
        let behind = self.grant.environments()[0].state().revision - sent;
        (behind > self.behind_max).then_some(ReadError::TooSlow)
    }

    /// None until what the user is entitled to is known, which wakes it.
    fn next_update(&mut self) -> Option<FlagUpdate<T>> {
        let environment = &self.grant.environments()[0];
        let state = environment.state();
        let accounts = (&*self.accounts, &self.subscriber);
        let before = environment.update_user(&mut self.user, &state, accounts).ok()?;
        let Some(sent) = self.sent_revision.replace(state.revision) else {
            let flags = state.flags();
            let active = flags.filter(|(it, _)| !it.flag().is_archived);
            let evaluate = |it| state.snapshot.evaluate_flag(it, &self.user.user);
            let flags = active.map(|(it, at_ms)| (self.show)(&evaluate(it), at_ms)).collect();
            return Some(FlagUpdate { is_full: true, flags, removed: vec![] });
        };
        let patch = (sent != state.revision).then(|| state.patch_since(sent));
        let mut update = FlagUpdate { is_full: false, flags: vec![], removed: vec![] };
        for (evaluation, at_ms) in state.changes_for(&self.user, (patch.as_deref(), before)) {
            match evaluation.flag.is_archived {
                true => update.removed.push(evaluation.flag.key.clone()),
                false => update.flags.push((self.show)(&evaluation, at_ms)),
            }
        }
        let is_empty = update.flags.is_empty() && update.removed.is_empty();
        (!is_empty).then_some(update)
    }
}

impl<T, F: Fn(&Evaluation<'_>, i64) -> T + Unpin> Stream for Watch<F> {
    type Item = Result<FlagUpdate<T>, ReadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.has_ended {
            return Poll::Ready(None);
        }
        this.subscriber.register(cx.waker());
        loop {
            if let Some(error) = this.end() {
                this.has_ended = true;
                return Poll::Ready(Some(Err(error)));
            }
            if let Some(update) = this.next_update() {
                this.is_awaited = false;
                return Poll::Ready(Some(Ok(update)));
            }
            this.is_awaited = true;
            if this.expiry_check.poll_tick(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
