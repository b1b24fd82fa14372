//! A received message: offsets of the fields, whose values are decoded on demand.

use crate::class::{Coding, FieldFormat, mark};
use crate::decode::decode;
use crate::error::{Error, Problem};
use crate::index::Index;
use crate::measure::measure;
use crate::packager::{Layout, Packager};
use crate::walk::walk_inside;

/// A received message. It borrows the bytes.
#[derive(Clone, Copy)]
pub struct MessageView<'a> {
    pub(crate) packager: &'a Packager,
    /// The bytes that the offsets of the index refer to.
    indexed: &'a [u8],
    pub(crate) index: &'a Index,
    /// The received bytes with the header, or in XML.
    received: &'a [u8],
    /// Whether the message is in a sensitive field.
    is_sensitive: bool,
}

/// A field of a message.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub(crate) number: u16,
    pub(crate) format: &'a FieldFormat,
    pub(crate) packager: &'a Packager,
    pub(crate) image: &'a [u8],
    /// Whether the value is masked.
    pub(crate) is_sensitive: bool,
}

impl<'a> MessageView<'a> {
    pub(crate) fn new(packager: &'a Packager, bytes: &'a [u8], index: &'a Index) -> Self {
        Self::with_received(packager, bytes, bytes, index)
    }

    pub(crate) fn with_received(
        packager: &'a Packager,
        received: &'a [u8],
        indexed: &'a [u8],
        index: &'a Index,
    ) -> Self {
        Self { packager, indexed, index, received, is_sensitive: false }
    }

    /// The bytes of the message, without any that follow it.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.received
    }

    /// The header in front of the message, if the packager has one.
    #[must_use]
    pub fn header(&self) -> &'a [u8] {
        if self.packager.compiled().is_xml {
            return &self.index.header;
        }
        self.received.get(..self.packager.header_bytes()).unwrap_or_default()
    }

    /// Whether the field is present.
    #[must_use]
    #[inline]
    pub fn has(&self, number: u16) -> bool {
        self.index.is_present(number)
    }

    /// A field, if it is present. The message type is field 0.
    #[must_use]
    #[inline]
    pub fn field(&self, number: u16) -> Option<Field<'a>> {
        if !self.has(number) {
            return None;
        }
        let format = self.packager.compiled().fields.get(usize::from(number))?;
        let span = self.index.spans.get(usize::from(number))?;
        let image = self.indexed.get(span.range())?;
        let is_sensitive = self.is_sensitive || format.is_sensitive;
        Some(Field { number, format, packager: self.packager, image, is_sensitive })
    }

    /// All fields in the order of their numbers, the message type first.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let view = *self;
        let message_type = view.index.has_message_type.then_some(0);
        message_type.into_iter().chain(view.index.numbers()).filter_map(move |it| view.field(it))
    }

    /// A field's value as text, if the field is present.
    #[must_use]
    pub fn text(&self, number: u16) -> Option<String> {
        self.field(number).map(|field| field.text())
    }

    /// The number of the field that carries the third bitmap, and its bits for the fields from 129 on;
    /// `None` if the message has no third bitmap among its fields.
    #[must_use]
    pub fn third_bitmap(&self) -> Option<(u16, [u8; 8])> {
        let Layout::Bitmap(bitmap) = self.packager.compiled().layout else { return None };
        let bits = self.index.present[2];
        let is_present = bits != 0 || !self.index.third_bitmap.range().is_empty();
        (bitmap.third_field > 0 && is_present).then_some((bitmap.third_field, bits.to_be_bytes()))
    }
}

impl Packager {
    /// Whether the messages are in XML, in which any field may be composite.
    #[must_use]
    pub fn is_xml(&self) -> bool {
        self.compiled().is_xml
    }

    /// The fields that are sensitive or have sensitive inner fields. For messages in XML, the inner
    /// fields do not count.
    #[must_use]
    pub fn sensitive_fields(&self) -> Vec<u16> {
        let compiled = self.compiled();
        let holds_sensitive = |inner: &Self| !compiled.is_xml && inner.has_sensitive();
        let inside: Vec<bool> = compiled.composites.iter().map(holds_sensitive).collect();
        let holds = |format: &FieldFormat| {
            let index = usize::from(format.composite).checked_sub(1);
            index.and_then(|index| inside.get(index)).is_some_and(|is_sensitive| *is_sensitive)
        };
        let numbered = (0..).zip(&compiled.fields);
        let sensitive = numbered.filter(|(_, format)| format.is_sensitive || holds(format));
        sensitive.map(|(number, _)| number).collect()
    }

    fn has_sensitive(&self) -> bool {
        let compiled = self.compiled();
        compiled.fields.iter().any(|format| format.is_sensitive)
            || compiled.composites.iter().any(Self::has_sensitive)
    }
}

impl<'a> Field<'a> {
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Whether the field, or a composite field around it, is sensitive.
    #[must_use]
    pub fn is_sensitive(&self) -> bool {
        self.is_sensitive
    }

    /// The format on the wire.
    #[must_use]
    pub fn format(&self) -> &'a FieldFormat {
        self.format
    }

    /// The bytes on the wire with the prefix.
    #[must_use]
    pub fn image(&self) -> &'a [u8] {
        self.image
    }

    /// The bytes on the wire without the prefix.
    #[must_use]
    pub fn content(&self) -> &'a [u8] {
        self.parts().0
    }

    /// The range of the content in the image.
    pub(crate) fn content_range(&self) -> std::ops::Range<usize> {
        measure(self.format, usize::from(self.number), self.image, 0)
            .map_or(0..0, |it| it.content..it.content + it.content_bytes)
    }

    /// The content, and the length of the value.
    pub(crate) fn parts(&self) -> (&'a [u8], usize) {
        let (content, length) = self.marked_parts();
        let (content, mark) = self.format.unmarked(content);
        (content, length - mark)
    }

    /// The same with the mark of a field of an XML message.
    fn marked_parts(&self) -> (&'a [u8], usize) {
        match measure(self.format, usize::from(self.number), self.image, 0) {
            Ok(it) => (&self.image[it.content..it.content + it.content_bytes], it.length),
            // The last inner fields are not set yet.
            Err(_) if self.format.is_fixed_frame() => {
                (self.image, self.format.value_bytes(self.image.len()))
            }
            Err(_) => (&[], 0),
        }
    }

    fn has_mark(&self, mark: u8) -> bool {
        self.format.is_marked && self.marked_parts().0.first() == Some(&mark)
    }

    /// Whether the value is binary.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        if self.format.is_marked { self.has_mark(mark::BYTES) } else { self.format.is_binary() }
    }

    /// The value without a copy; `None` unless it is ASCII on the wire.
    #[must_use]
    pub fn ascii(&self) -> Option<&'a str> {
        if self.format.coding != Coding::Latin1 {
            return None;
        }
        let content = self.content();
        let content = if self.format.trims { content.trim_ascii_end() } else { content };
        std::str::from_utf8(content).ok().filter(|text| text.is_ascii())
    }

    /// The value as text. Bytes are decoded as ISO-8859-1.
    #[must_use]
    pub fn text(&self) -> String {
        let mut value = vec![];
        self.read(&mut value);
        if self.has_mark(mark::UNICODE) {
            return String::from_utf8_lossy(&value).into_owned();
        }
        value.iter().map(|byte| char::from(*byte)).collect()
    }

    /// The value as bytes. Characters are in ISO-8859-1, or in UTF-8 if a message in XML has others.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut value = vec![];
        self.read(&mut value);
        value
    }

    /// Appends the value: characters in ISO-8859-1, or bytes.
    pub fn read(&self, out: &mut Vec<u8>) {
        let (content, length) = self.parts();
        let start = out.len();
        decode(self.format, content, length, out);
        if self.format.trims && !self.format.is_binary() {
            let kept = out[start..].trim_ascii_end().len();
            out.truncate(start + kept);
        }
    }

    /// Whether the field has inner fields.
    #[must_use]
    pub fn is_composite(&self) -> bool {
        self.format.composite > 0 && self.format.holds_fields(self.marked_parts().0)
    }

    /// The inner fields.
    ///
    /// # Errors
    /// The field is not composite, or its content is invalid.
    pub fn nested<'b>(&self, index: &'b mut Index) -> Result<MessageView<'b>, Error>
    where
        'a: 'b,
    {
        let inner = self.packager.compiled().inner(self.format);
        let Some(inner) = inner.filter(|_| self.is_composite()) else {
            return Err(Problem::NotComposite.in_field(self.number));
        };
        let (content, length) = self.parts();
        let is_strict = inner.compiled().is_strict();
        let end = walk_inside(inner.compiled(), is_strict, self.format, (content, length), index)
            .map_err(|error| error.inside(self.number, None))
            .map_err(|error| error.withheld_if(self.is_sensitive))?;
        let index: &'b Index = index;
        let inside = if self.format.is_transparent() { content } else { &index.fields };
        let view = MessageView::new(inner, &inside[..end], index);
        Ok(MessageView { is_sensitive: self.is_sensitive, ..view })
    }
}
