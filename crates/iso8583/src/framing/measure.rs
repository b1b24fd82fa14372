//! Where a message ends that has no length in front: what a packager finds by reading it.

use super::Measured;
use crate::error::Problem;
use crate::index::Index;
use crate::packager::{Layout, Packager};
use crate::unpack::end_of;

impl Packager {
    /// Says how long the message is that the bytes begin with.
    ///
    /// Only messages with a bitmap end by themselves.
    #[must_use]
    pub fn measure(&self, bytes: &[u8], index: &mut Index) -> Measured {
        let has_bitmap = matches!(self.compiled().layout, Layout::Bitmap(_));
        if !has_bitmap {
            return Measured::Invalid { at: 0 };
        }
        index.is_wrong_inside = false;
        let error = match end_of(self.compiled(), bytes, index) {
            Ok(length) => return Measured::Message { length },
            Err(error) => error,
        };
        let at = error.offset.unwrap_or(0);
        // Only where the bytes themselves end are more of them of use.
        if let Problem::Truncated { needed, found } = error.problem
            && !index.is_wrong_inside
            && at + found == bytes.len()
        {
            return Measured::Incomplete { more: needed.saturating_sub(found).max(1) };
        }
        Measured::Invalid { at }
    }
}
