//! Why something was not done: nothing happened, or a retry will tell.

use std::time::Duration;

use domain::payment::health::Unready;

use crate::ports::StoreError;

/// A refusal by circumstances, not by rules. APIs answer 503 with `Retry-After`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    pub reason: Reason,
    /// When to try again; `None` where trying again soon will not help.
    pub retry_after: Option<Duration>,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Too many commands wait already.
    #[error("too many requests are waiting")]
    QueueFull,
    /// The queue between the nodes carries no message of this size.
    #[error("the request is larger than a message of the queue may be")]
    MessageTooLarge,
    /// Too many calls of this gateway are in flight already.
    #[error("too many calls of the payment gateway are in flight")]
    GatewayFull,
    /// An operator has stopped the calls of this gateway.
    #[error("the payment gateway is stopped on this node")]
    GatewayStopped,
    /// The gateway's breaker is open: too many of its calls failed.
    #[error("the payment gateway fails: it is not called for a while")]
    BreakerOpen,
    /// A control program cannot be asked, or its answer cannot be believed; nothing was begun.
    #[error("the control program did not decide about the call: nothing was begun")]
    ControlFailed,
    /// The queue to the processors cannot be reached; nothing was sent.
    #[error("the message queue is not available")]
    QueueAway,
    /// The client stopped waiting before it was begun; nothing happened.
    #[error("it was not begun in time")]
    Expired,
    /// Too many reads wait already.
    #[error("too many reads are waiting")]
    ReadersFull,
    /// A read did not end in time.
    #[error("the read took too long: ask for something narrower")]
    ReadTooLong,
    /// Too many passwords wait to be checked already.
    #[error("too many credentials are being checked")]
    HashersFull,
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Stopping,
    /// The disk is full: reads work, writes do not.
    #[error("the disk is full: nothing can be written")]
    DiskFull,
    /// The database failed.
    #[error("the database is not available")]
    Store,
    /// Another process has taken the partition over; nothing was written.
    #[error("another process has taken the partition over")]
    NotOwner,
    /// It is not known whether it was written: sending it again without a key may do it twice.
    #[error("it is not known whether the request was carried out: look before sending it again")]
    CommitInDoubt,
    /// It came a second time, and had been carried out the first time.
    #[error("the request was carried out before: look what came of it")]
    Repeated,
    /// The account was taken out of service because a command broke an invariant, or wrote what the
    /// database refuses.
    #[error("the account is out of service until an operator has looked at it")]
    Quarantined,
    /// A command broke an invariant, or wrote what the database refuses; nothing of it was written.
    #[error("internal error: nothing of the request was written")]
    Bug,
}

impl From<Reason> for Unavailable {
    fn from(reason: Reason) -> Self {
        let retry_after = match reason.retry() {
            Retry::After(delay) => Some(delay),
            Retry::AfterALook | Retry::AfterAnOperator => None,
        };
        Self { reason, retry_after }
    }
}

impl From<&StoreError> for Reason {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::DiskFull => Self::DiskFull,
            StoreError::OutcomeUnknown(_) => Self::CommitInDoubt,
            StoreError::NotOwner => Self::NotOwner,
            StoreError::Repeated(_) => Self::Repeated,
            StoreError::ReadTooLong => Self::ReadTooLong,
            StoreError::KeyTaken
            | StoreError::Database(_)
            | StoreError::Refused(_)
            | StoreError::ConnectionLost(_)
            | StoreError::Corrupt { .. } => Self::Store,
        }
    }
}

impl Reason {
    /// Every reason, as metrics list them from the start.
    pub const ALL: [Self; 19] = [
        Self::QueueFull,
        Self::MessageTooLarge,
        Self::GatewayFull,
        Self::GatewayStopped,
        Self::BreakerOpen,
        Self::ControlFailed,
        Self::QueueAway,
        Self::Expired,
        Self::ReadersFull,
        Self::ReadTooLong,
        Self::HashersFull,
        Self::Stopping,
        Self::DiskFull,
        Self::Store,
        Self::NotOwner,
        Self::CommitInDoubt,
        Self::Repeated,
        Self::Quarantined,
        Self::Bug,
    ];

    /// Whether an operator has to look at it; overload and shutting down are answers.
    #[must_use]
    pub const fn is_fault(self) -> bool {
        match self {
            Self::QueueAway
            | Self::DiskFull
            | Self::Store
            | Self::CommitInDoubt
            | Self::Quarantined
            | Self::Bug => true,
            Self::QueueFull
            | Self::MessageTooLarge
            | Self::GatewayFull
            | Self::GatewayStopped
            | Self::BreakerOpen
            | Self::ControlFailed
            | Self::Expired
            | Self::NotOwner
            | Self::Repeated
            | Self::ReadersFull
            | Self::ReadTooLong
            | Self::HashersFull
            | Self::Stopping => false,
        }
    }

    /// Whether the caller does not learn if the request was carried out, or with which outcome.
    #[must_use]
    pub const fn leaves_outcome_unknown(self) -> bool {
        matches!(self.retry(), Retry::AfterALook)
    }

    /// Whether a retry fails again until an operator has looked at it.
    #[must_use]
    pub const fn is_parked(self) -> bool {
        matches!(self.retry(), Retry::AfterAnOperator)
    }

    /// The health of a gateway that grants no call for this reason; `None` for reasons that are not
    /// about a gateway's health.
    #[must_use]
    pub const fn unready(self) -> Option<Unready> {
        match self {
            Self::GatewayFull => Some(Unready::Full),
            Self::GatewayStopped => Some(Unready::Stopped),
            Self::BreakerOpen => Some(Unready::BreakerOpen),
            Self::QueueFull
            | Self::MessageTooLarge
            | Self::ControlFailed
            | Self::QueueAway
            | Self::Expired
            | Self::ReadersFull
            | Self::ReadTooLong
            | Self::HashersFull
            | Self::Stopping
            | Self::DiskFull
            | Self::Store
            | Self::NotOwner
            | Self::CommitInDoubt
            | Self::Repeated
            | Self::Quarantined
            | Self::Bug => None,
        }
    }

    const fn retry(self) -> Retry {
        match self {
            Self::QueueFull
            | Self::GatewayFull
            | Self::QueueAway
            | Self::Expired
            | Self::ReadersFull
            | Self::HashersFull
            | Self::Stopping
            | Self::Store
            | Self::NotOwner => Retry::After(Duration::from_secs(1)),
            Self::ReadTooLong => Retry::After(Duration::from_secs(5)),
            Self::DiskFull | Self::GatewayStopped | Self::BreakerOpen | Self::ControlFailed => {
                Retry::After(Duration::from_secs(10))
            }
            Self::CommitInDoubt | Self::Repeated => Retry::AfterALook,
            Self::Quarantined | Self::Bug | Self::MessageTooLarge => Retry::AfterAnOperator,
        }
    }

    /// Its name in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::MessageTooLarge => "message_too_large",
            Self::GatewayFull => "gateway_full",
            Self::GatewayStopped => "gateway_stopped",
            Self::BreakerOpen => "breaker_open",
            Self::ControlFailed => "control_failed",
            Self::QueueAway => "queue_away",
            Self::Expired => "expired",
            Self::ReadersFull => "readers_full",
            Self::ReadTooLong => "read_too_long",
            Self::HashersFull => "hashers_full",
            Self::Stopping => "stopping",
            Self::DiskFull => "disk_full",
            Self::Store => "store",
            Self::NotOwner => "not_owner",
            Self::CommitInDoubt => "commit_in_doubt",
            Self::Repeated => "repeated",
            Self::Quarantined => "quarantined",
            Self::Bug => "bug",
        }
    }
}

/// The precondition of a retry.
enum Retry {
    /// A delay: nothing happened.
    After(Duration),
    /// A look at what came of the request.
    AfterALook,
    /// An operator who mends the cause.
    AfterAnOperator,
}
