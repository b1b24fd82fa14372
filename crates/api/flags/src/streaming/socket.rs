//! The task of a socket: reading, writing, timeouts and the close handshake. There are many thousands
//! of sockets and most are silent, so that each has no buffer while nothing is in transit.

use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use feature_flags::subscribers::Permit;
use feature_flags::{close, frame};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use web::answer_budget::COUNTED_ABOVE_BYTES;
use web::{AnswerAccount, NetworkPermit};

use super::conversation::Conversation;
use super::inbound::{Inbound, Received};
use crate::settings::Timeouts;

/// How many bytes are read at once.
const READ_BYTES_MAX: usize = 4 * 1_024;

/// How many bytes are read of a client after its close frame was sent, so that the frame arrives.
const LEFTOVER_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// The permits of a socket.
pub(crate) struct SocketPermits {
    pub(crate) _of_all: Permit,
    pub(crate) _network: NetworkPermit,
    /// The account that its messages are counted for until they are written; `None` where other sockets share them.
    pub(crate) answers: Option<Box<AnswerAccount>>,
}

/// The task of a socket.
pub(crate) struct Socket {
    io: Io,
    stage: Stage,
    inbound: Inbound,
    /// The frame that is being written.
    out: Bytes,
    /// Whether everything written is flushed, which TLS needs.
    is_flushed: bool,
    /// When the write began to block.
    blocked_since: Option<Instant>,
    /// When the client sent bytes last.
    received_at: Instant,
    timeouts: Arc<Timeouts>,
    timer: Pin<Box<Sleep>>,
    permits: Option<SocketPermits>,
}

enum Io {
    Upgrading(OnUpgrade),
    Upgraded(TokioIo<Upgraded>),
}

enum Stage {
    Open(Conversation),
    /// The current write ends, then this frame is the last.
    Closing {
        last: Bytes,
        since: Instant,
    },
    /// The close frame was sent; the client closes next. Some never do, and notice only the end of the
    /// connection.
    Closed {
        since: Instant,
        /// Whether the write side is shut down.
        is_shut_down: bool,
        leftover_bytes: usize,
    },
}

enum Step {
    Again,
    Wait,
    Finished,
}

impl Socket {
    /// The task of an authenticated stream.
    pub(crate) fn new(
        upgrade: OnUpgrade,
        conversation: Conversation,
        permits: SocketPermits,
        timeouts: Arc<Timeouts>,
    ) -> Self {
        Self::at_stage(upgrade, Stage::Open(conversation), Some(permits), timeouts)
    }

    /// The task of a stream that is closed at once.
    pub(crate) fn refused(upgrade: OnUpgrade, code: u16, timeouts: Arc<Timeouts>) -> Self {
        let stage = Stage::Closing { last: close::frame(code), since: Instant::now() };
        Self::at_stage(upgrade, stage, None, timeouts)
    }

    fn at_stage(
        upgrade: OnUpgrade,
        stage: Stage,
        permits: Option<SocketPermits>,
        timeouts: Arc<Timeouts>,
    ) -> Self {
        let now = Instant::now();
        Self {
            io: Io::Upgrading(upgrade),
            stage,
            inbound: Inbound::default(),
            out: Bytes::new(),
            is_flushed: true,
            blocked_since: None,
            received_at: now,
            timer: Box::pin(tokio::time::sleep(timeouts.close)),
            timeouts,
            permits,
        }
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        if let Io::Upgrading(upgrade) = &mut self.io {
            match Pin::new(upgrade).poll(cx) {
                Poll::Pending => return Step::Wait,
                Poll::Ready(Err(_)) => return Step::Finished,
                Poll::Ready(Ok(upgraded)) => {
                    self.io = Io::Upgraded(TokioIo::new(upgraded));
                    self.received_at = Instant::now();
                }
            }
        }
        if !self.out.is_empty() || !self.is_flushed {
            return self.write(cx);
        }
        match &mut self.stage {
            Stage::Open(conversation) => {
                if let Some(code) = conversation.close_code() {
                    return self.close(close::frame(code));
                }
                match self.inbound.next() {
                    Ok(Some(received)) => return self.receive(received),
                    Ok(None) => {}
                    Err(code) => return self.close(close::frame(code)),
                }
                if let Some(update) = conversation.next_update() {
                    return self.send(update);
                }
                self.read(cx)
            }
            Stage::Closing { last, .. } if last.is_empty() => {
                let since = Instant::now();
                self.stage = Stage::Closed { since, is_shut_down: false, leftover_bytes: 0 };
                Step::Again
            }
            Stage::Closing { last, .. } => {
                self.out = std::mem::take(last);
                Step::Again
            }
            Stage::Closed { is_shut_down: false, .. } => self.shut_down(cx),
            Stage::Closed { .. } => self.read_leftover(cx),
        }
    }

    fn receive(&mut self, received: Received) -> Step {
        let Stage::Open(conversation) = &mut self.stage else { return Step::Again };
        match received {
            Received::Message(message) => match conversation.answer(&message) {
                Some(answer) => self.send(answer),
                None => Step::Again,
            },
            Received::Ping(payload) => {
                self.out = frame::pong(&payload);
                Step::Again
            }
            // SDKs recognise their own close by its code in the answer.
            Received::Close(code) => self.close(frame::close(code, "")),
        }
    }

    /// Writes a message next. Where there is no room for it, the client has to reconnect.
    fn send(&mut self, message: Bytes) -> Step {
        let answers = self.permits.as_ref().and_then(|it| it.answers.as_deref());
        self.out = match answers.filter(|_| message.len() > COUNTED_ABOVE_BYTES) {
            None => message,
            Some(answers) => match answers.acquire(message.len()) {
                Some(permit) => permit.attach(message),
                None => return self.close(close::frame(close::TRY_AGAIN_LATER)),
            },
        };
        Step::Again
    }

    /// Begins the close handshake: this frame is the last.
    fn close(&mut self, last: Bytes) -> Step {
        self.stage = Stage::Closing { last, since: Instant::now() };
        self.inbound = Inbound::default();
        self.blocked_since = None;
        Step::Again
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Step {
        let Io::Upgraded(io) = &mut self.io else { return Step::Wait };
        let mut io = Pin::new(io);
        self.is_flushed = false;
        while !self.out.is_empty() {
            match io.as_mut().poll_write(cx, &self.out) {
                Poll::Ready(Ok(written @ 1..)) => self.out.advance(written),
                Poll::Ready(Ok(0) | Err(_)) => return Step::Finished,
                Poll::Pending => return self.blocked(),
            }
        }
        self.out = Bytes::new();
        match io.poll_flush(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Step::Finished,
            Poll::Pending => return self.blocked(),
        }
        self.is_flushed = true;
        self.blocked_since = None;
        Step::Again
    }

    /// The client does not read. After a while, or after too many changes, it is closed and has to
    /// reconnect.
    fn blocked(&mut self) -> Step {
        self.blocked_since.get_or_insert_with(Instant::now);
        if let Stage::Open(conversation) = &self.stage
            && let code = conversation.close_code()
            && (code.is_some() || conversation.behind() > self.timeouts.behind_max)
        {
            // A frame that is partly written is finished first, by the next step.
            return self.close(close::frame(code.unwrap_or(close::UNAVAILABLE)));
        }
        Step::Wait
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Step {
        let mut space = [const { MaybeUninit::uninit() }; READ_BYTES_MAX];
        let mut read = ReadBuf::uninit(&mut space);
        let Io::Upgraded(io) = &mut self.io else { return Step::Wait };
        match Pin::new(io).poll_read(cx, &mut read) {
            Poll::Pending => Step::Wait,
            Poll::Ready(Err(_)) => Step::Finished,
            Poll::Ready(Ok(())) if read.filled().is_empty() => Step::Finished,
            Poll::Ready(Ok(())) => {
                self.inbound.take(read.filled());
                self.received_at = Instant::now();
                Step::Again
            }
        }
    }

    /// Shuts down the write side only: closing a connection with unread bytes would reset it, and the
    /// client would lose the close frame.
    fn shut_down(&mut self, cx: &mut Context<'_>) -> Step {
        let (Io::Upgraded(io), Stage::Closed { is_shut_down, .. }) =
            (&mut self.io, &mut self.stage)
        else {
            return Step::Finished;
        };
        match Pin::new(io).poll_shutdown(cx) {
            Poll::Pending => Step::Wait,
            Poll::Ready(Err(_)) => Step::Finished,
            Poll::Ready(Ok(())) => {
                *is_shut_down = true;
                Step::Again
            }
        }
    }

    fn read_leftover(&mut self, cx: &mut Context<'_>) -> Step {
        let mut space = [const { MaybeUninit::uninit() }; READ_BYTES_MAX];
        let mut read = ReadBuf::uninit(&mut space);
        let (Io::Upgraded(io), Stage::Closed { leftover_bytes, .. }) =
            (&mut self.io, &mut self.stage)
        else {
            return Step::Finished;
        };
        match Pin::new(io).poll_read(cx, &mut read) {
            Poll::Pending => Step::Wait,
            Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                *leftover_bytes += read.filled().len();
                if *leftover_bytes > LEFTOVER_BYTES_MAX { Step::Finished } else { Step::Again }
            }
            Poll::Ready(Ok(()) | Err(_)) => Step::Finished,
        }
    }

    /// When the current timeout ends.
    fn deadline(&self) -> Instant {
        match (&self.io, &self.stage, self.blocked_since) {
            (Io::Upgrading(_), ..) => self.received_at + self.timeouts.close,
            (Io::Upgraded(_), Stage::Open(_), Some(since)) => since + self.timeouts.write,
            (Io::Upgraded(_), Stage::Open(_), None) => self.received_at + self.timeouts.idle,
            (Io::Upgraded(_), Stage::Closing { since, .. }, _) => *since + self.timeouts.close,
            (Io::Upgraded(_), Stage::Closed { since, .. }, _) => *since + self.timeouts.closed,
        }
    }

    /// The current timeout has ended.
    fn time_out(&mut self) -> Step {
        match (&self.io, &self.stage) {
            (Io::Upgraded(_), Stage::Open(_)) => {
                let is_blocked = self.blocked_since.is_some();
                let code = if is_blocked { close::UNAVAILABLE } else { close::GOING_AWAY };
                self.close(close::frame(code))
            }
            (Io::Upgrading(_), _)
            | (Io::Upgraded(_), Stage::Closing { .. } | Stage::Closed { .. }) => Step::Finished,
        }
    }
}

impl Future for Socket {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if let Stage::Open(conversation) = &this.stage {
            conversation.subscriber().register(cx.waker());
        }
        loop {
            loop {
                match this.step(cx) {
                    Step::Again => {}
                    Step::Wait => break,
                    Step::Finished => return Poll::Ready(()),
                }
            }
            let deadline = this.deadline();
            // The timer is not reset with every message: when it fires too early, it is set again.
            if deadline < this.timer.deadline() {
                this.timer.as_mut().reset(deadline);
            }
            if this.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() < deadline {
                this.timer.as_mut().reset(deadline);
                continue;
            }
            if let Step::Finished = this.time_out() {
                return Poll::Ready(());
            }
            let deadline = this.deadline();
            this.timer.as_mut().reset(deadline);
        }
    }
}
