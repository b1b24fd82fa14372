//! The order of the works that wait for the partition's thread.

/// The line in which a work waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The core's own works, which go first: an outcome ends a work that was begun, and would come last behind
    /// thousands of commands that came at once.
    Own,
    Request,
    /// The outcomes of calls that works of [`Lane::Background`] began: the first of them.
    BackgroundOutcome,
    /// The works that the core does of its own accord, however many are due: a few with each batch.
    Background,
}
