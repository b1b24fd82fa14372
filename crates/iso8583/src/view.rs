//! A message as it was received: offsets into the bytes, values decoded when they are asked for.

use crate::class::{Coding, Content, FieldFormat, Odd, mark};
use crate::coding::{self, FROM_EBCDIC};
use crate::error::{Error, Problem};
use crate::index::Index;
use crate::packager::Packager;
use crate::unpack::{measure, walk_inside};

/// A received message. It borrows the bytes and copies nothing.
#[derive(Clone, Copy)]
pub struct MessageView<'a> {
    pub(crate) packager: &'a Packager,
    /// What the index counts in.
    indexed: &'a [u8],
    pub(crate) index: &'a Index,
    /// As it came: with a header in front, or in XML.
    received: &'a [u8],
    /// All of it lies inside a field that is sensitive.
    is_sensitive: bool,
}

/// One field of a message.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub(crate) number: u16,
    pub(crate) format: &'a FieldFormat,
    pub(crate) packager: &'a Packager,
    pub(crate) image: &'a [u8],
    /// It is shown by its length only.
    pub(crate) is_sensitive: bool,
}

impl<'a> MessageView<'a> {
    pub(crate) fn new(packager: &'a Packager, bytes: &'a [u8], index: &'a Index) -> Self {
        Self::received_as(packager, bytes, bytes, index)
    }

    pub(crate) fn received_as(
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

    /// Is the field there?
    #[must_use]
    #[inline]
    pub fn has(&self, number: u16) -> bool {
        self.index.is_present(number)
    }

    /// A field, if it is there. The message type is field 0.
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

    /// A field's value as text, if the field is there.
    #[must_use]
    pub fn text(&self, number: u16) -> Option<String> {
        self.field(number).map(|field| field.text())
    }
}

impl Packager {
    /// Are its messages in XML? Any of their fields may hold others.
    #[must_use]
    pub fn is_xml(&self) -> bool {
        self.compiled().is_xml
    }

    /// The fields that are sensitive, or hold fields that are. Those of messages in XML are listed
    /// for what they are by themselves.
    #[must_use]
    pub fn sensitive_fields(&self) -> Vec<u16> {
        let compiled = self.compiled();
        let holds_sensitive = |inner: &Self| !compiled.is_xml && inner.has_sensitive();
        let inside: Vec<bool> = compiled.composites.iter().map(holds_sensitive).collect();
        let holds = |format: &FieldFormat| {
            let place = usize::from(format.composite).checked_sub(1);
            place.and_then(|place| inside.get(place)).is_some_and(|is_sensitive| *is_sensitive)
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
    /// The field's number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Is it card data, or what else is never shown, by itself or by what is around it?
    #[must_use]
    pub fn is_sensitive(&self) -> bool {
        self.is_sensitive
    }

    /// How it stands on the wire.
    #[must_use]
    pub fn format(&self) -> &'a FieldFormat {
        self.format
    }

    /// Its bytes on the wire, with the length in front.
    #[must_use]
    pub fn image(&self) -> &'a [u8] {
        self.image
    }

    /// The content as it stands on the wire, without the length in front.
    #[must_use]
    pub fn content(&self) -> &'a [u8] {
        self.parts().0
    }

    /// Where the content lies in the image.
    pub(crate) fn content_range(&self) -> std::ops::Range<usize> {
        measure(self.format, usize::from(self.number), self.image, 0)
            .map_or(0..0, |it| it.content..it.content + it.content_bytes)
    }

    /// Content, and the length of the value.
    fn parts(&self) -> (&'a [u8], usize) {
        let (content, length) = self.marked_parts();
        let (content, mark) = self.format.unmarked(content);
        (content, length - mark)
    }

    /// With the mark that fields of XML messages have.
    fn marked_parts(&self) -> (&'a [u8], usize) {
        match measure(self.format, usize::from(self.number), self.image, 0) {
            Ok(it) => (&self.image[it.content..it.content + it.content_bytes], it.length),
            Err(_) => (&[], 0),
        }
    }

    fn has_mark(&self, mark: u8) -> bool {
        self.format.is_marked && self.marked_parts().0.first() == Some(&mark)
    }

    /// Is its value bytes, not characters?
    #[must_use]
    pub fn is_binary(&self) -> bool {
        if self.format.is_marked { self.has_mark(mark::BYTES) } else { self.format.is_binary() }
    }

    /// The value without a copy, where it stands on the wire as ASCII.
    #[must_use]
    pub fn ascii(&self) -> Option<&'a str> {
        if self.format.coding != Coding::Latin1 {
            return None;
        }
        let content = self.content();
        let content = if self.format.trims { content.trim_ascii_end() } else { content };
        std::str::from_utf8(content).ok().filter(|text| text.is_ascii())
    }

    /// The value as text: ISO-8859-1, and bytes as the characters of their numbers.
    #[must_use]
    pub fn text(&self) -> String {
        let mut value = vec![];
        self.read(&mut value);
        if self.has_mark(mark::UNICODE) {
            return String::from_utf8_lossy(&value).into_owned();
        }
        value.iter().map(|byte| char::from(*byte)).collect()
    }

    /// The value as bytes: characters are in ISO-8859-1, or in UTF-8 if ISO-8859-1 lacks one of
    /// them, which only messages in XML can have.
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

    /// Has it fields inside?
    #[must_use]
    pub fn is_composite(&self) -> bool {
        self.format.composite > 0 && self.format.holds_fields(self.marked_parts().0)
    }

    /// The fields inside.
    ///
    /// # Errors
    /// If there are none by its format, or they are not what their packager packs.
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

/// Appends the value of a content that was measured.
pub(crate) fn decode(format: &FieldFormat, content: &[u8], length: usize, out: &mut Vec<u8>) {
    match (format.content, format.coding) {
        (Content::Digits | Content::Text, Coding::Bcd) => {
            read_bcd(format.odd, content, length, out);
        }
        (Content::Amount, Coding::Bcd) => {
            let Some((direction, digits)) = content.split_first() else { return };
            out.push(*direction);
            read_bcd(format.odd, digits, length.saturating_sub(1), out);
        }
        (Content::HexText, _) => {
            let first = usize::from(length % 2 == 1 && format.odd == Odd::ZeroLeft);
            let digit = |half: u8| coding::HEX[usize::from(half & 0x0F)];
            read_halves(content, first, length, out, digit);
        }
        (Content::SignedDigits, _) => read_signed(content, out),
        (_, Coding::HexAscii) => read_hex(content, out, |byte| byte),
        (_, Coding::HexEbcdic) => read_hex(content, out, |byte| FROM_EBCDIC[byte as usize]),
        (_, Coding::Ebcdic) => {
            out.extend(content.iter().map(|byte| FROM_EBCDIC[*byte as usize]));
        }
        (_, Coding::Latin1 | Coding::Raw | Coding::Bcd) => out.extend_from_slice(content),
    }
}

fn read_bcd(odd: Odd, content: &[u8], length: usize, out: &mut Vec<u8>) {
    let first = usize::from(length % 2 == 1 && odd == Odd::ZeroLeft);
    read_halves(content, first, length, out, coding::bcd_character);
}

/// Reads so many halves of bytes as characters, from the first or the second half on.
fn read_halves(
    content: &[u8],
    first: usize,
    length: usize,
    out: &mut Vec<u8>,
    character: impl Fn(u8) -> u8,
) {
    let halves = content.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]);
    out.extend(halves.skip(first).take(length).map(character));
}

fn read_hex(content: &[u8], out: &mut Vec<u8>, read: impl Fn(u8) -> u8) {
    let half = |byte: u8| coding::hex_value(read(byte)).unwrap_or(0);
    out.extend(content.as_chunks::<2>().0.iter().map(|pair| half(pair[0]) << 4 | half(pair[1])));
}

fn read_signed(content: &[u8], out: &mut Vec<u8>) {
    let Some((last, digits)) = content.split_last() else { return };
    if last >> 4 == 0xD {
        out.push(b'-');
    }
    out.extend(digits.iter().map(|byte| FROM_EBCDIC[*byte as usize]));
    out.push(b'0' + last % 16);
}
