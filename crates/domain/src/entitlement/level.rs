//! How much of a limit is used, as answers and refusals say.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// The quantity of a feature that was counted, reserved or refused, and the level of its limit then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The feature's key.
    pub feature: String,
    pub quantity: i64,
    pub level: Level,
}

/// How much of a limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The account's limit, all its grants combined.
    pub limit: i64,
    pub used: i64,
    pub reserved: i64,
    /// When the count starts again; `None`: never.
    pub resets_at: Option<Timestamp>,
}

impl Level {
    /// The quantity that may still be used; 0 where the limit is reached or exceeded.
    #[must_use]
    pub const fn left(self) -> i64 {
        let taken = self.used.saturating_add(self.reserved);
        let left = self.limit.saturating_sub(taken);
        if left < 0 { 0 } else { left }
    }
}
