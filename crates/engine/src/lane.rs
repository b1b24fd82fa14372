//! What goes first where works wait for the partition's thread.

/// The line in which a work waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What the core itself has to say goes first: an outcome ends what was begun, and behind thousands of
    /// commands that came at once each of them would end last.
    Own,
    Request,
    /// The outcomes of calls that works of [`Lane::Background`] began: the first of them.
    BackgroundOutcome,
    /// What the core does of its own accord, however much of it is due: a few with each batch.
    Background,
}
