//! Where a message ends that has no length in front: what a packager finds by reading it.

use super::Measured;
use crate::error::Problem;
use crate::index::Index;
use crate::packager::{Layout, Packager, Validation};

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
        if self.validation() == Validation::Strict {
            return self.with_validation(Validation::Lenient).measure(bytes, index);
        }
        let error = match self.unpack(bytes, index) {
            Ok(view) => return Measured::Message { length: view.bytes().len() },
            Err(error) => error,
        };
        let is_outermost = error.path.is_none_or(|path| path.numbers().len() == 1);
        if let (Problem::Truncated { needed, found }, true) = (error.problem, is_outermost) {
            return Measured::Incomplete { more: needed.saturating_sub(found).max(1) };
        }
        Measured::Invalid { at: error.offset.unwrap_or(0) }
    }
}
