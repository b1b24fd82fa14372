//! Reads received messages without copying them.

use crate::error::Error;
use crate::index::Index;
use crate::packager::Packager;
use crate::view::MessageView;
use crate::walk::{split_header, walk};
use crate::xml;

impl Packager {
    /// Finds the fields of a message, and validates them if this packager is strict.
    ///
    /// The view borrows the bytes and the index, which can be reused for the next message.
    ///
    /// # Errors
    /// The message does not have this format. The error names the field and the byte.
    pub fn unpack<'a>(
        &'a self,
        bytes: &'a [u8],
        index: &'a mut Index,
    ) -> Result<MessageView<'a>, Error> {
        if !self.compiled().is_bare {
            return self.unpack_wrapped(bytes, index);
        }
        let end = walk(self.compiled(), bytes, index)?;
        Ok(MessageView::new(self, &bytes[..end], index))
    }

    /// Unpacks a message with a header or in XML.
    #[cold]
    fn unpack_wrapped<'a>(
        &'a self,
        bytes: &'a [u8],
        index: &'a mut Index,
    ) -> Result<MessageView<'a>, Error> {
        let compiled = self.compiled();
        if compiled.is_xml {
            xml::unpack(self, bytes, index)?;
            return Ok(MessageView::with_received(self, bytes, &index.fields, index));
        }
        let (_, message) = split_header(compiled, bytes)?;
        let start = compiled.header_bytes;
        let end = walk(compiled, message, index).map_err(|error| error.behind(start))?;
        let received = &bytes[..start + end];
        Ok(MessageView::with_received(self, received, &message[..end], index))
    }
}
