//! Which journal row last changed an entity, and which one did before: the chain that is its history.

use serde::{Deserialize, Serialize};

/// A journal row: its partition in the upper bits, and below them its number in the partition, from 1
/// upwards without gaps. See [`crate::PartitionNo`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub i64);

/// The journal rows of an entity form a chain: its row in the table names the newest, and every
/// image in the journal names the one before. Reading a history is a walk of primary keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The journal row of this state.
    pub seq: Seq,
    /// The journal row of the state before; `None` for the first. Kept in the journal's image only:
    /// an entity that was loaded from its table has `None` here until it is changed.
    pub previous: Option<Seq>,
}

impl Revision {
    /// The revision of something new.
    #[must_use]
    pub const fn first(seq: Seq) -> Self {
        Self { seq, previous: None }
    }

    /// The revision after this one. Within one command an entity has one revision, however often
    /// it is touched.
    #[must_use]
    pub fn next(self, seq: Seq) -> Self {
        if self.seq == seq { self } else { Self { seq, previous: Some(self.seq) } }
    }
}
