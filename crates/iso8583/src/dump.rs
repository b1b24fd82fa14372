//! The bytes of a message with their offsets and fields, card data masked.

use std::fmt;

use crate::class::{Coding, Odd};
use crate::error::Error;
use crate::index::Index;
use crate::mask::card_number::{CardNumbers, in_message, is_emv, masked_halves};
use crate::mask::{Revealed, Shown, emv, hidden_digits, xml};
use crate::packager::{Layout, Packager, Validation};
use crate::tlv::Tags;
use crate::unpack::walk;
use crate::view::{Field, MessageView};

/// Bytes to a line.
const LINE_BYTES: usize = 16;

/// Received bytes to be shown with offsets, hexadecimal and ASCII, each field on lines of its own:
///
/// ```text
/// 0000  30 32 30 30                                      0200              0
/// 0004  40 00 00 00 00 00 00 00                          @.......          bitmap
/// 000C  31 36 34 37 36 31 37 33 ** ** ** ** ** ** 30 31  16476173******01  2
/// 001C  31 39                                            19
/// ```
///
/// Bytes that are no message are shown up to the field that is wrong, which is named; what follows
/// is hidden, since nobody knows what it is.
///
/// What is hidden follows from the format. Bytes of another one may be read by it without an error;
/// what looks like a card number is then hidden too, but one in BCD with nothing in front of it may
/// pass for other digits. Keep a dump of bytes whose format is in doubt as you keep card data.
pub struct Dump<'a> {
    packager: Packager,
    bytes: &'a [u8],
}

impl Packager {
    /// Shows bytes as this packager reads them.
    #[must_use]
    pub fn dump<'a>(&self, bytes: &'a [u8]) -> Dump<'a> {
        Dump { packager: self.with_validation(Validation::Lenient), bytes }
    }
}

impl Dump<'_> {
    /// The bytes to be shown with everything in them.
    #[must_use]
    pub fn revealed(self) -> Revealed<Self> {
        Revealed(self)
    }

    fn write(&self, reveals: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sheet = Sheet { marks: vec![], hidden: vec![false; self.bytes.len() * 2] };
        let compiled = self.packager.compiled();
        if compiled.is_xml {
            let hidden = xml::hidden_bytes(self.bytes).into_iter();
            sheet.hidden = hidden.flat_map(|is_hidden| [is_hidden && !reveals; 2]).collect();
            sheet.mark(0, "XML");
            return sheet.write(self.bytes, f);
        }
        let mut index = Index::new();
        let start = compiled.header_bytes.min(self.bytes.len());
        let (_, message) = self.bytes.split_at(start);
        let walked = walk(compiled, message, &mut index);
        let end = match &walked {
            Ok(end) => *end,
            Err(error) => {
                forget_unread(&mut index, error);
                let bitmap = bitmap(&self.packager, &index);
                let spans = index.numbers().map(|number| index.spans[usize::from(number)]);
                spans.map(|span| span.range().end).max().unwrap_or(bitmap.end)
            }
        };
        let view = MessageView::new(&self.packager, message, &index);
        let numbers = CardNumbers::of(view);
        let shown = if reveals { Shown::Everything } else { Shown::Masked(&numbers) };
        sheet.mark(0, "header");
        sheet.fields(view, (start, ""), shown);
        if end < message.len() {
            let label = if walked.is_ok() { "beyond the end" } else { "not read" };
            sheet.mark(start + end, label);
            sheet.hidden[(start + end) * 2..].fill(!reveals);
        }
        if let Shown::Masked(numbers) = shown {
            sheet.hide_as_well(0, &numbers.in_bytes(&self.bytes[..start]));
            let found = in_message(self.bytes, &sheet.hidden, walked.is_ok());
            sheet.hide_as_well(0, &found);
        }
        sheet.write(self.bytes, f)?;
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

/// Takes those fields out that the bitmap names but that were not reached.
fn forget_unread(index: &mut Index, error: &Error) {
    let wrong = error.path.map_or(0, |path| path.numbers()[0]);
    let is_bitmap_read = index.bitmap_words > 0;
    for number in index.numbers() {
        if number >= wrong || !is_bitmap_read {
            index.remove(usize::from(number));
        }
    }
}

/// Where the bitmap lies; an empty range behind the message type if there is none.
fn bitmap(packager: &Packager, index: &Index) -> std::ops::Range<usize> {
    let bytes = match packager.compiled().layout {
        Layout::Bitmap(bitmap) => bitmap.bytes_of(index.bitmap_words),
        Layout::Positional { .. } | Layout::Tagged => 0,
    };
    index.bitmap_start..index.bitmap_start + bytes
}

/// Where segments begin, and which halves of bytes are hidden.
struct Sheet {
    marks: Vec<(usize, String)>,
    hidden: Vec<bool>,
}

impl Sheet {
    fn mark(&mut self, start: usize, label: &str) {
        self.marks.push((start, label.to_owned()));
    }

    /// The fields of a view whose bytes begin at the offset, and which lie in the path.
    fn fields(&mut self, view: MessageView<'_>, (offset, path): (usize, &str), shown: Shown<'_>) {
        let bitmap = bitmap(view.packager, view.index);
        if !bitmap.is_empty() {
            self.mark(offset + bitmap.start, &format!("{path}bitmap"));
        }
        let third = view.index.third_bitmap.range();
        if !third.is_empty() {
            self.mark(offset + third.start, &format!("{path}bitmap"));
        }
        for field in view.fields() {
            let image = offset + view.index.spans[usize::from(field.number())].range().start;
            let content = image + field.content_range().start;
            let label = format!("{path}{}", field.number());
            self.mark(image, &label);
            let mut index = Index::new();
            // Fields inside have places of their own only where they stand as they are.
            let is_open = field.is_composite() && field.format.is_transparent();
            if let (true, Ok(inner)) = (is_open, field.nested(&mut index)) {
                self.fields(inner, (content, &format!("{label}.")), shown);
            } else if is_emv(field) && emv::are_tags(field.content()) {
                self.tags((field.content(), 0), (content, &label), shown);
            } else {
                self.hide(content, &hidden_halves(field, shown));
            }
            self.filling(field, image, shown);
        }
    }

    /// What stands behind the content in a field that takes the room of the longest: anything.
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
            self.hide_as_well(image + content.start, &found);
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
            if emv::is_open(&tlv, depth) {
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

    /// Hides more, and shows nothing that was hidden.
    fn hide_as_well(&mut self, offset: usize, hidden: &[bool]) {
        for (is_hidden, more) in self.hidden[offset * 2..].iter_mut().zip(hidden) {
            *is_hidden |= more;
        }
    }

    fn write(mut self, bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.marks.sort_by_key(|(start, _)| *start);
        for (place, (start, label)) in self.marks.iter().enumerate() {
            let next = self.marks.get(place + 1).map_or(bytes.len(), |(start, _)| *start);
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
    for (place, half) in masked_halves(bytes, hidden).enumerate() {
        write!(f, "{}{half}", if place % 2 == 0 { " " } else { "" })?;
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

/// Which halves of the bytes of a field's content are hidden.
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
        Coding::Bcd if field.format.odd == Odd::ZeroLeft => {
            let filling = field.to_bytes().len() % 2;
            digits.start + filling..digits.end + filling
        }
        Coding::Bcd => digits,
        Coding::Raw | Coding::HexAscii | Coding::HexEbcdic => 0..halves,
    };
    (0..halves).map(|at| hidden.contains(&at)).collect()
}

/// Which halves belong to a card number that is not expected there.
fn hidden_numbers(field: Field<'_>, content: &[u8], numbers: &CardNumbers) -> Vec<bool> {
    match field.format.coding {
        // Half a byte of the value is a byte here.
        Coding::HexAscii | Coding::HexEbcdic => {
            let hidden = numbers.in_bytes(&field.to_bytes());
            hidden.into_iter().flat_map(|is_hidden| [is_hidden; 2]).collect()
        }
        Coding::Latin1 | Coding::Ebcdic => numbers.in_bytes_as(content, true),
        Coding::Bcd | Coding::Raw => numbers.in_bytes(content),
    }
}
