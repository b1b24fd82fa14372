//! What doors of other protocols ask: flags for a user, once, or as they change.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use evaluation::{Evaluation, User};
use futures_util::Stream;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::time::{Instant, Interval};

use crate::board::{Board, Grant, now_ms};
use crate::door::SDK;
use crate::ofrep;
use crate::settings::Settings;
use crate::sockets::{Open, Place, Seat};
use crate::streaming::close;

/// How often a watcher looks whether its secret has ended.
const LOOK_EVERY: Duration = Duration::from_secs(25);

/// The way of other protocols to a board.
pub struct Calls {
    board: Arc<Board>,
    watchers: Arc<Open>,
    watchers_max: usize,
    behind_max: u64,
}

/// Why flags are not told, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFlags {
    /// The environments are not there yet.
    Unavailable,
    /// The node stops.
    Stopping,
    /// No secret, an unknown one, one for something else, or one that has ended.
    Unauthorized,
    /// There are too many watchers.
    Full,
    /// Too many changes went unread.
    TooSlow,
}

/// What is new of flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News<T> {
    /// Whether this is all: what is not in it is gone.
    pub is_full: bool,
    /// What flags are now, in the order of their keys.
    pub flags: Vec<T>,
    /// The keys of those that were put away.
    pub removed: Vec<String>,
}

/// Follows what flags are for a user, shown by a function that is given what was found and since when
/// it may be another for somebody, in milliseconds since 1970.
///
/// It keeps nothing for a reader who does not read: what changed meanwhile is worked out when it is
/// asked again. Who lets too many changes go by is told so, and that is the end.
pub struct Watch<F> {
    grant: Arc<Grant>,
    user: User,
    show: F,
    seat: Arc<Seat>,
    place: usize,
    /// The revision that was told last; nothing before the first.
    told: Option<u64>,
    behind_max: u64,
    /// Whether the reader waits for news, and not the news for the reader.
    is_awaited: bool,
    is_over: bool,
    beat: Interval,
    _place: Place,
}

impl Calls {
    /// Calls to a board, within these bounds.
    #[must_use]
    pub fn new(board: Arc<Board>, settings: &Settings) -> Self {
        let Settings { listeners_max: watchers_max, behind_max, .. } = *settings;
        Self { board, watchers: Arc::default(), watchers_max, behind_max }
    }

    /// What a call's secret opens: that of `X-API-Key`, or of `Authorization`, with or without
    /// `Bearer`.
    ///
    /// # Errors
    /// Where it opens nothing, or nothing is there to be opened.
    pub fn enter(&self, headers: &HeaderMap) -> Result<Arc<Grant>, NoFlags> {
        if self.board.is_draining() {
            return Err(NoFlags::Stopping);
        }
        if !self.board.is_available() {
            return Err(NoFlags::Unavailable);
        }
        let bare = || headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
        let grant = ofrep::secret(headers).or_else(bare).and_then(|it| self.board.find(it));
        grant.filter(|it| SDK.contains(&it.kind())).ok_or(NoFlags::Unauthorized)
    }

    /// Shows what flags are for a user: those of these keys that there are, or all. Those that are put
    /// away are not there.
    pub fn evaluate<T>(
        &self,
        grant: &Grant,
        user: &User,
        keys: &[String],
        show: impl Fn(&Evaluation<'_>, i64) -> T,
    ) -> Vec<T> {
        let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        keys.sort_unstable();
        let state = grant.environments()[0].state();
        let is_wanted = |key: &str| keys.is_empty() || keys.binary_search(&key).is_ok();
        let flags = state.flags().filter(|(it, _)| is_wanted(&it.flag().key));
        let there = flags.filter(|(it, _)| !it.flag().is_archived);
        let shown = there.map(|(it, at_ms)| show(&state.snapshot.evaluate_flag(it, user), at_ms));
        shown.collect()
    }

    /// Follows what flags are for a user: first all of them.
    ///
    /// # Errors
    /// Where there are too many who do.
    pub fn watch<T, F: Fn(&Evaluation<'_>, i64) -> T>(
        &self,
        grant: Arc<Grant>,
        user: User,
        show: F,
    ) -> Result<Watch<F>, NoFlags> {
        let place_of_all = self.watchers.enter(self.watchers_max).ok_or(NoFlags::Full)?;
        let seat = Arc::<Seat>::default();
        let place = grant.environments()[0].sockets.enter(&seat);
        Ok(Watch {
            grant,
            user,
            show,
            seat,
            place,
            told: None,
            behind_max: self.behind_max,
            is_awaited: true,
            is_over: false,
            beat: tokio::time::interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY),
            _place: place_of_all,
        })
    }
}

impl<T, F: Fn(&Evaluation<'_>, i64) -> T> Watch<F> {
    /// Why it is over, if it is.
    fn ended(&self) -> Option<NoFlags> {
        if self.seat.order().is_some() {
            return Some(NoFlags::Stopping);
        }
        match self.grant.ended(now_ms()) {
            None => {}
            Some(close::COME_AGAIN) => return Some(NoFlags::Unavailable),
            Some(_) => return Some(NoFlags::Unauthorized),
        }
        let told = self.told.filter(|_| !self.is_awaited)?;
        let behind = self.grant.environments()[0].state().revision - told;
        (behind > self.behind_max).then_some(NoFlags::TooSlow)
    }

    fn news(&mut self) -> Option<News<T>> {
        let state = self.grant.environments()[0].state();
        let told = self.told.replace(state.revision);
        let Some(told) = told else {
            let there = state.flags().filter(|(it, _)| !it.flag().is_archived);
            let show =
                |(it, at_ms)| (self.show)(&state.snapshot.evaluate_flag(it, &self.user), at_ms);
            return Some(News { is_full: true, flags: there.map(show).collect(), removed: vec![] });
        };
        if told == state.revision {
            return None;
        }
        let mut news = News { is_full: false, flags: vec![], removed: vec![] };
        for (key, at_ms) in state.patch_since(told).affected() {
            let Some(evaluation) = state.snapshot.evaluate(key, &self.user) else { continue };
            match evaluation.flag.is_archived {
                true => news.removed.push(key.to_owned()),
                false => news.flags.push((self.show)(&evaluation, at_ms)),
            }
        }
        let is_nothing = news.flags.is_empty() && news.removed.is_empty();
        (!is_nothing).then_some(news)
    }
}

impl<T, F: Fn(&Evaluation<'_>, i64) -> T + Unpin> Stream for Watch<F> {
    type Item = Result<News<T>, NoFlags>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        this.seat.listen(cx.waker());
        loop {
            if let Some(why) = this.ended() {
                this.is_over = true;
                return Poll::Ready(Some(Err(why)));
            }
            if let Some(news) = this.news() {
                this.is_awaited = false;
                return Poll::Ready(Some(Ok(news)));
            }
            this.is_awaited = true;
            if this.beat.poll_tick(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<F> Drop for Watch<F> {
    fn drop(&mut self) {
        self.grant.environments()[0].sockets.leave(self.place);
    }
}
