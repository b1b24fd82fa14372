//! Finds the end of a message without a length by parsing it.

use crate::error::Problem;
use crate::index::Index;
use crate::packager::{Layout, Packager};
use crate::walk::end_of;

/// The length of a message that has none in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// The message is incomplete.
    Incomplete {
        /// The minimum number of further bytes.
        more: usize,
    },
    /// The message is complete.
    Message {
        /// The length of the message in bytes.
        length: usize,
    },
    /// The message is invalid.
    Invalid {
        /// The offset of the first invalid byte.
        at: usize,
    },
}

impl Packager {
    /// Measures the message at the beginning of the bytes.
    ///
    /// Only the end of messages with a bitmap can be found.
    #[must_use]
    pub fn measure(&self, bytes: &[u8], index: &mut Index) -> Measured {
        let has_bitmap = matches!(self.compiled().layout, Layout::Bitmap(_));
        if !has_bitmap {
            return Measured::Invalid { at: 0 };
        }
        index.is_inner_error = false;
        let error = match end_of(self.compiled(), bytes, index) {
            Ok(length) => return Measured::Message { length },
            Err(error) => error,
        };
        let at = error.offset.unwrap_or(0);
        // Further bytes only help if the error is at the end of the bytes.
        if let Problem::Truncated { needed, found } = error.problem
            && !index.is_inner_error
            && at + found == bytes.len()
        {
            return Measured::Incomplete { more: needed.saturating_sub(found).max(1) };
        }
        Measured::Invalid { at }
    }
}
