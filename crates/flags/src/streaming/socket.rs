//! A socket: its bytes, its times and its end. There are many thousands of them and most are silent,
//! so that what each one keeps is small: no buffer while nothing is on its way.

use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::close;
use super::conversation::Conversation;
use super::inbound::{Inbound, Said};
use crate::frame;
use crate::sockets::Place;

/// How much is read at once.
const READ_BYTES_MAX: usize = 4 * 1_024;

/// How much is read of a client that was told to go, so that it finds out why.
const LEFTOVER_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// How long a socket may take for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// To say something.
    pub(crate) idle: Duration,
    /// To take a message.
    pub(crate) write: Duration,
    /// To go, once it was told; and to come, once it was let in.
    pub(crate) farewell: Duration,
    /// Changes that it may lack while it does not take a message.
    pub(crate) behind_max: u64,
}

/// The task of a socket.
pub(crate) struct Socket {
    io: Io,
    stage: Stage,
    inbound: Inbound,
    /// What is being written.
    out: Bytes,
    /// Whether all of it is on its way; where there is TLS, that is not when it was written.
    is_flushed: bool,
    /// When writing it got stuck.
    stuck_since: Option<Instant>,
    /// When the client said something last.
    heard_at: Instant,
    patience: Arc<Patience>,
    timer: Pin<Box<Sleep>>,
    _place: Option<Place>,
}

enum Io {
    Coming(OnUpgrade),
    Here(TokioIo<Upgraded>),
}

enum Stage {
    Talking(Conversation),
    /// What is being written is the last but for this frame.
    Ending {
        last: Bytes,
        since: Instant,
    },
    /// All is said; the client hangs up next.
    Gone {
        since: Instant,
        leftover_bytes: usize,
    },
}

/// What to do after a step.
enum Step {
    Again,
    Wait,
    Over,
}

impl Socket {
    /// The task of a socket that was let in.
    pub(crate) fn talking(
        coming: OnUpgrade,
        conversation: Conversation,
        place: Place,
        patience: Arc<Patience>,
    ) -> Self {
        Self::new(coming, Stage::Talking(conversation), Some(place), patience)
    }

    /// The task of a socket that is told to go at once.
    pub(crate) fn refused(coming: OnUpgrade, code: u16, patience: Arc<Patience>) -> Self {
        let stage = Stage::Ending { last: close::frame(code), since: Instant::now() };
        Self::new(coming, stage, None, patience)
    }

    fn new(coming: OnUpgrade, stage: Stage, place: Option<Place>, patience: Arc<Patience>) -> Self {
        let now = Instant::now();
        Self {
            io: Io::Coming(coming),
            stage,
            inbound: Inbound::default(),
            out: Bytes::new(),
            is_flushed: true,
            stuck_since: None,
            heard_at: now,
            timer: Box::pin(tokio::time::sleep(patience.farewell)),
            patience,
            _place: place,
        }
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        if let Io::Coming(coming) = &mut self.io {
            match Pin::new(coming).poll(cx) {
                Poll::Pending => return Step::Wait,
                Poll::Ready(Err(_)) => return Step::Over,
                Poll::Ready(Ok(upgraded)) => {
                    self.io = Io::Here(TokioIo::new(upgraded));
                    self.heard_at = Instant::now();
                }
            }
        }
        if !self.out.is_empty() || !self.is_flushed {
            return self.write(cx);
        }
        match &mut self.stage {
            Stage::Talking(conversation) => {
                if let Some(code) = conversation.ended() {
                    return self.end(close::frame(code));
                }
                match self.inbound.next() {
                    Ok(Some(said)) => return self.hear(said),
                    Ok(None) => {}
                    Err(code) => return self.end(close::frame(code)),
                }
                if let Some(news) = conversation.news() {
                    self.out = news;
                    return Step::Again;
                }
                self.read(cx)
            }
            Stage::Ending { last, since } => {
                if last.is_empty() {
                    let since = *since;
                    return self.shut(cx, since);
                }
                self.out = std::mem::take(last);
                Step::Again
            }
            Stage::Gone { .. } => self.read_leftover(cx),
        }
    }

    fn hear(&mut self, said: Said) -> Step {
        let Stage::Talking(conversation) = &mut self.stage else { return Step::Again };
        match said {
            Said::Message(message) => {
                if let Some(answer) = conversation.answer(&message) {
                    self.out = answer;
                }
                Step::Again
            }
            Said::Ping(payload) => {
                self.out = frame::pong(&payload);
                Step::Again
            }
            // The client's own code comes back to it, which is how SDKs know that it was theirs.
            Said::Close(code) => self.end(frame::close(code, "")),
        }
    }

    /// Says nothing more but this.
    fn end(&mut self, last: Bytes) -> Step {
        self.stage = Stage::Ending { last, since: Instant::now() };
        self.inbound = Inbound::default();
        self.stuck_since = None;
        Step::Again
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Step {
        let Io::Here(io) = &mut self.io else { return Step::Wait };
        let mut io = Pin::new(io);
        self.is_flushed = false;
        while !self.out.is_empty() {
            match io.as_mut().poll_write(cx, &self.out) {
                Poll::Ready(Ok(written @ 1..)) => self.out.advance(written),
                Poll::Ready(Ok(0) | Err(_)) => return Step::Over,
                Poll::Pending => return self.stuck(),
            }
        }
        self.out = Bytes::new();
        match io.poll_flush(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Step::Over,
            Poll::Pending => return self.stuck(),
        }
        self.is_flushed = true;
        self.stuck_since = None;
        Step::Again
    }

    /// The client takes nothing at the moment. Nobody waits for it; if it takes nothing for long, or
    /// while much happens, it has to come again.
    fn stuck(&mut self) -> Step {
        self.stuck_since.get_or_insert_with(Instant::now);
        if let Stage::Talking(conversation) = &self.stage
            && let code = conversation.ended()
            && (code.is_some() || conversation.behind() > self.patience.behind_max)
        {
            // What is half written has to be finished: the step after this one goes on with it.
            return self.end(close::frame(code.unwrap_or(close::UNAVAILABLE)));
        }
        Step::Wait
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Step {
        let mut space = [const { MaybeUninit::uninit() }; READ_BYTES_MAX];
        let mut read = ReadBuf::uninit(&mut space);
        let Io::Here(io) = &mut self.io else { return Step::Wait };
        match Pin::new(io).poll_read(cx, &mut read) {
            Poll::Pending => Step::Wait,
            Poll::Ready(Err(_)) => Step::Over,
            Poll::Ready(Ok(())) if read.filled().is_empty() => Step::Over,
            Poll::Ready(Ok(())) => {
                self.inbound.take(read.filled());
                self.heard_at = Instant::now();
                Step::Again
            }
        }
    }

    /// Says that no more comes. Whoever closes with something unread in the way has the connection
    /// reset, and the reason with it.
    fn shut(&mut self, cx: &mut Context<'_>, since: Instant) -> Step {
        let Io::Here(io) = &mut self.io else { return Step::Wait };
        match Pin::new(io).poll_shutdown(cx) {
            Poll::Pending => Step::Wait,
            Poll::Ready(Err(_)) => Step::Over,
            Poll::Ready(Ok(())) => {
                self.stage = Stage::Gone { since, leftover_bytes: 0 };
                Step::Again
            }
        }
    }

    fn read_leftover(&mut self, cx: &mut Context<'_>) -> Step {
        let mut space = [const { MaybeUninit::uninit() }; READ_BYTES_MAX];
        let mut read = ReadBuf::uninit(&mut space);
        let (Io::Here(io), Stage::Gone { leftover_bytes, .. }) = (&mut self.io, &mut self.stage)
        else {
            return Step::Over;
        };
        match Pin::new(io).poll_read(cx, &mut read) {
            Poll::Pending => Step::Wait,
            Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                *leftover_bytes += read.filled().len();
                if *leftover_bytes > LEFTOVER_BYTES_MAX { Step::Over } else { Step::Again }
            }
            Poll::Ready(Ok(()) | Err(_)) => Step::Over,
        }
    }

    /// When patience ends if nothing happens.
    fn due(&self) -> Instant {
        match (&self.io, &self.stage, self.stuck_since) {
            (Io::Coming(_), ..) => self.heard_at + self.patience.farewell,
            (Io::Here(_), Stage::Talking(_), Some(since)) => since + self.patience.write,
            (Io::Here(_), Stage::Talking(_), None) => self.heard_at + self.patience.idle,
            (Io::Here(_), Stage::Ending { since, .. } | Stage::Gone { since, .. }, _) => {
                *since + self.patience.farewell
            }
        }
    }

    /// Patience has ended.
    fn late(&mut self) -> Step {
        match (&self.io, &self.stage) {
            (Io::Here(_), Stage::Talking(_)) => {
                let is_stuck = self.stuck_since.is_some();
                let code = if is_stuck { close::UNAVAILABLE } else { close::GOING_AWAY };
                self.end(close::frame(code))
            }
            (Io::Coming(_), _) | (Io::Here(_), Stage::Ending { .. } | Stage::Gone { .. }) => {
                Step::Over
            }
        }
    }
}

impl Future for Socket {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if let Stage::Talking(conversation) = &this.stage {
            conversation.seat().listen(cx.waker());
        }
        loop {
            loop {
                match this.step(cx) {
                    Step::Again => {}
                    Step::Wait => break,
                    Step::Over => return Poll::Ready(()),
                }
            }
            let due = this.due();
            // A timer that ends too early is set again then; it is not touched with every message.
            if due < this.timer.deadline() {
                this.timer.as_mut().reset(due);
            }
            if this.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() < due {
                this.timer.as_mut().reset(due);
                continue;
            }
            if let Step::Over = this.late() {
                return Poll::Ready(());
            }
            let due = this.due();
            this.timer.as_mut().reset(due);
        }
    }
}
