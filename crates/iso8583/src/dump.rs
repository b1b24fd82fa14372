//! A hexadecimal dump of a message with its fields and with masked card data.

use std::fmt;

use crate::class::{Coding, OddPadding};
use crate::error::Error;
use crate::index::Index;
use crate::mask::card_number::{CardNumbers, in_message, is_emv, masked_halves};
use crate::mask::shown::Shown;
use crate::mask::{Revealed, emv, emv_tags, hidden_digits, xml};
use crate::packager::{Layout, Packager, Validation};
use crate::tlv::Tags;
use crate::view::{Field, MessageView};
use crate::walk::walk;

/// The number of bytes per line.
const LINE_BYTES: usize = 16;

/// A dump of received bytes with offsets, hexadecimal and ASCII. Each field begins a line:
///
/// ```text
/// 0000  30 32 30 30                                      0200              0
/// 0004  40 00 00 00 00 00 00 00                          @.......          bitmap
/// 000C  31 36 34 37 36 31 37 33 ** ** ** ** ** ** 30 31  16476173******01  2
/// 001C  31 39                                            19
/// ```
///
/// Of an invalid message, the fields up to the invalid one are shown, and the dump names that field. The
/// bytes behind it are masked, because their meaning is unknown.
///
/// The format determines the masked bytes. A message of another format may be read without an error.
/// Digits that look like a card number are then masked as well, but a card number in BCD without a
/// length in front may remain visible. Treat a dump of bytes of an uncertain format like card data.
pub struct Dump<'a> {
    packager: Packager,
    bytes: &'a [u8],
}

impl Packager {
    /// A dump of bytes as this packager reads them.
    #[must_use]
    pub fn dump<'a>(&self, bytes: &'a [u8]) -> Dump<'a> {
        Dump { packager: self.with_validation(Validation::Lenient), bytes }
    }
}

impl Dump<'_> {
    /// The same dump without masking.
    #[must_use]
    pub fn revealed(self) -> Revealed<Self> {
        Revealed(self)
    }

    fn write(&self, is_revealed: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut segments = Segments { marks: vec![], hidden: vec![false; self.bytes.len() * 2] };
        let compiled = self.packager.compiled();
        if compiled.is_xml {
            let hidden = xml::hidden_bytes(self.bytes).into_iter();
            segments.hidden = hidden.flat_map(|is_hidden| [is_hidden && !is_revealed; 2]).collect();
            segments.mark(0, "XML");
            return segments.write(self.bytes, f);
        }
        let mut index = Index::new();
        let start = compiled.header_bytes.min(self.bytes.len());
        let (_, message) = self.bytes.split_at(start);
        let walked = walk(compiled, message, &mut index);
        let end = match &walked {
            Ok(end) => *end,
            Err(error) => {
                remove_unread(&mut index, error);
                let bitmap = bitmap(&self.packager, &index);
                let spans = index.numbers().map(|number| index.spans[usize::from(number)]);
                spans.map(|span| span.range().end).max().unwrap_or(bitmap.end)
            }
        };
        let view = MessageView::new(&self.packager, message, &index);
        let numbers = CardNumbers::new(view);
        let shown = if is_revealed { Shown::Everything } else { Shown::Masked(&numbers) };
        segments.mark(0, "header");
        segments.fields(view, (start, ""), shown);
        if end < message.len() {
            let label = if walked.is_ok() { "beyond the end" } else { "not read" };
            segments.mark(start + end, label);
            segments.hidden[(start + end) * 2..].fill(!is_revealed);
        }
        if let Shown::Masked(numbers) = shown {
            segments.hide_also(0, &numbers.in_bytes(&self.bytes[..start]));
            let found = in_message(self.bytes, &segments.hidden, walked.is_ok());
            segments.hide_also(0, &found);
        }
        segments.write(self.bytes, f)?;
        match walked {
            Ok(_) => Ok(()),
            Err(error) => writeln!(f, "{}", error.behind(start)),
        }
    }
}

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(false, f)
    }
}

impl fmt::Debug for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(false, f)
    }
}

impl fmt::Display for Revealed<Dump<'_>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(true, f)
    }
}

/// Removes the fields of the bitmap that were not read.
fn remove_unread(index: &mut Index, error: &Error) {
    let invalid = error.path.map_or(0, |path| path.numbers()[0]);
    let is_bitmap_read = index.bitmap_words > 0;
    for number in index.numbers() {
        if number >= invalid || !is_bitmap_read {
            index.remove(usize::from(number));
        }
    }
}

/// The range of the bitmap; empty if there is none.
fn bitmap(packager: &Packager, index: &Index) -> std::ops::Range<usize> {
    let bytes = match packager.compiled().layout {
        Layout::Bitmap(bitmap) => bitmap.bytes_of(index.bitmap_words),
        Layout::Positional { .. } | Layout::Tagged => 0,
    };
    index.bitmap_start..index.bitmap_start + bytes
}

/// The starts of the segments, and the masked half bytes.
struct Segments {
    marks: Vec<(usize, String)>,
    hidden: Vec<bool>,
}

impl Segments {
    fn mark(&mut self, start: usize, label: &str) {
        self.marks.push((start, label.to_owned()));
    }

    /// Adds the fields of a view whose bytes begin at `offset`, with labels that begin with `path`.
    fn fields(&mut self, view: MessageView<'_>, (offset, path): (usize, &str), shown: Shown<'_>) {
        let bitmap = bitmap(view.packager, view.index);
        if !bitmap.is_empty() {
            self.mark(offset + bitmap.start, &format!("{path}bitmap"));
        }
        let third = view.index.third_bitmap.range();
        if let Some((number, _)) = view.third_bitmap().filter(|_| !third.is_empty()) {
            self.mark(offset + third.start, &format!("{path}{number} bitmap"));
        }
        for field in view.fields() {
            let image = offset + view.index.spans[usize::from(field.number())].range().start;
            let content = image + field.content_range().start;
            let label = format!("{path}{}", field.number());
            self.mark(image, &label);
            let mut index = Index::new();
            // Inner fields have offsets in the dump only if their content is not encoded.
            let is_open = field.is_composite() && field.format.is_transparent();
            if let (true, Ok(inner)) = (is_open, field.nested(&mut index)) {
                self.fields(inner, (content, &format!("{label}.")), shown);
            } else if is_emv(field) && emv_tags::are_tags(field.content()) {
                self.tags((field.content(), 0), (content, &label), shown);
            } else {
                self.hide(content, &hidden_halves(field, shown));
            }
            self.filling(field, image, shown);
        }
    }

    /// Masks the filling of a field, which may contain anything.
    fn filling(&mut self, field: Field<'_>, image: usize, shown: Shown<'_>) {
        let Shown::Masked(numbers) = shown else { return };
        let content = field.content_range();
        let behind = field.image().len() - content.end;
        if behind == 0 {
            return;
        }
        if field.is_sensitive {
            self.hide(image + content.end, &vec![true; behind * 2]);
        } else {
            let is_text = matches!(field.format.coding, Coding::Latin1 | Coding::Ebcdic);
            let found = numbers.in_bytes_as(&field.image()[content.start..], is_text);
            self.hide_also(image + content.start, &found);
        }
    }

    fn tags(
        &mut self,
        (bytes, depth): (&[u8], usize),
        (offset, path): (usize, &str),
        shown: Shown<'_>,
    ) {
        for tlv in Tags::new(bytes).map_while(Result::ok) {
            let label = format!("{path}.{}", tlv.tag);
            self.mark(offset + tlv.at, &label);
            let value = offset + tlv.at + tlv.raw.len() - tlv.value.len();
            if emv_tags::is_open(&tlv, depth) {
                self.tags((tlv.value, depth + 1), (value, &label), shown);
                continue;
            }
            let hidden = emv::hidden(tlv.tag, tlv.value, shown);
            self.hide(value, &hidden.unwrap_or_else(|| vec![true; tlv.value.len() * 2]));
        }
    }

    fn hide(&mut self, offset: usize, hidden: &[bool]) {
        self.hidden[offset * 2..offset * 2 + hidden.len()].copy_from_slice(hidden);
    }

    /// Masks additional half bytes.
    fn hide_also(&mut self, offset: usize, hidden: &[bool]) {
        for (is_hidden, more) in self.hidden[offset * 2..].iter_mut().zip(hidden) {
            *is_hidden |= more;
        }
    }

    fn write(mut self, bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.marks.sort_by_key(|(start, _)| *start);
        for (position, (start, label)) in self.marks.iter().enumerate() {
            let next = self.marks.get(position + 1).map_or(bytes.len(), |(start, _)| *start);
            let mut label = label.as_str();
            for offset in (*start..next).step_by(LINE_BYTES) {
                let range = offset..next.min(offset + LINE_BYTES);
                let hidden = &self.hidden[range.start * 2..range.end * 2];
                let blanks = if label.is_empty() { 0 } else { LINE_BYTES + 2 - range.len() };
                write_line(offset, &bytes[range], hidden, f)?;
                writeln!(f, "{:blanks$}{label}", "")?;
                label = "";
            }
        }
        Ok(())
    }
}

fn write_line(
    offset: usize,
    bytes: &[u8],
    hidden: &[bool],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "{offset:04X} ")?;
    for (position, half) in masked_halves(bytes, hidden).enumerate() {
        write!(f, "{}{half}", if position % 2 == 0 { " " } else { "" })?;
    }
    write!(f, "{:width$}  ", "", width = (LINE_BYTES - bytes.len()) * 3)?;
    for (byte, halves) in bytes.iter().zip(hidden.as_chunks::<2>().0) {
        let is_shown = byte.is_ascii_graphic() || *byte == b' ';
        write!(
            f,
            "{}",
            match byte {
                _ if halves.contains(&true) => '*',
                byte if is_shown => char::from(*byte),
                _ => '.',
            }
        )?;
    }
    Ok(())
}

/// The masked half bytes of a field's content.
fn hidden_halves(field: Field<'_>, shown: Shown<'_>) -> Vec<bool> {
    let content = field.content();
    let halves = content.len() * 2;
    let digits = match shown {
        Shown::Everything => return vec![false; halves],
        Shown::Masked(numbers) if !field.is_sensitive => {
            return hidden_numbers(field, content, numbers);
        }
        Shown::Masked(_) => hidden_digits(field),
    };
    let Some(digits) = digits else { return vec![true; halves] };
    let hidden = match field.format.coding {
        Coding::Latin1 | Coding::Ebcdic => digits.start * 2..digits.end * 2,
        Coding::Bcd if field.format.padding == OddPadding::ZeroLeft => {
            let filling = field.to_bytes().len() % 2;
            digits.start + filling..digits.end + filling
        }
        Coding::Bcd => digits,
        Coding::Raw | Coding::HexAscii | Coding::HexEbcdic => 0..halves,
    };
    (0..halves).map(|at| hidden.contains(&at)).collect()
}

/// The half bytes of card numbers in a field that is not sensitive.
fn hidden_numbers(field: Field<'_>, content: &[u8], numbers: &CardNumbers) -> Vec<bool> {
    match field.format.coding {
        // A half byte of the value is a byte of the content.
        Coding::HexAscii | Coding::HexEbcdic => {
            let hidden = numbers.in_bytes(&field.to_bytes());
            hidden.into_iter().flat_map(|is_hidden| [is_hidden; 2]).collect()
        }
        Coding::Latin1 | Coding::Ebcdic => numbers.in_bytes_as(content, true),
        Coding::Bcd | Coding::Raw => numbers.in_bytes(content),
    }
}
