//! Finds the fields in received bytes and checks them; nothing is copied.

use crate::check::{DIGIT, check_content, is_direction};
use crate::class::{
    Charset, Check, Coding, Content, Counts, FieldFormat, Odd, Prefix, PrefixCoding, Shape,
};
use crate::coding::{self, FROM_EBCDIC};
use crate::error::{Error, Problem};
use crate::index::{Index, Span, present_in};
use crate::packager::{BitmapFormat, Compiled, Layout, Packager};
use crate::view::decode;
use crate::xml;

/// What is wrong, and at which byte.
pub(crate) type Wrong = (Problem, usize);

/// Where the parts of one field lie.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    /// Where the content begins.
    pub(crate) content: usize,
    /// Bytes of the content, without what fills it up.
    pub(crate) content_bytes: usize,
    /// Characters or bytes of the value.
    pub(crate) length: usize,
    /// Where the next field begins.
    pub(crate) end: usize,
}

impl Packager {
    /// Finds the fields of a message and, if this packager is strict, checks them.
    ///
    /// Nothing is copied: the view borrows the bytes and an index, which is used again for the
    /// next message.
    ///
    /// # Errors
    /// With the field and the byte where the message is not what this packager packs.
    pub fn unpack<'a>(
        &'a self,
        bytes: &'a [u8],
        index: &'a mut Index,
    ) -> Result<crate::MessageView<'a>, Error> {
        if !self.compiled().is_bare {
            return self.unpack_unusual(bytes, index);
        }
        let end = walk(self.compiled(), bytes, index)?;
        Ok(crate::MessageView::new(self, &bytes[..end], index))
    }

    /// A message behind a header, or in XML.
    #[cold]
    fn unpack_unusual<'a>(
        &'a self,
        bytes: &'a [u8],
        index: &'a mut Index,
    ) -> Result<crate::MessageView<'a>, Error> {
        let compiled = self.compiled();
        if compiled.is_xml {
            xml::unpack(self, bytes, index)?;
            return Ok(crate::MessageView::received_as(self, bytes, &index.fields, index));
        }
        let (_, message) = split_header(compiled, bytes)?;
        let start = compiled.header_bytes;
        let end = walk(compiled, message, index).map_err(|error| error.behind(start))?;
        let received = &bytes[..start + end];
        Ok(crate::MessageView::received_as(self, received, &message[..end], index))
    }
}

/// The header and the message behind it.
pub(crate) fn split_header<'a>(
    packager: &Compiled,
    bytes: &'a [u8],
) -> Result<(&'a [u8], &'a [u8]), Error> {
    let needed = packager.header_bytes;
    bytes.split_at_checked(needed).ok_or_else(|| {
        let problem = Problem::Truncated { needed, found: bytes.len() };
        Error { path: None, offset: Some(0), problem }
    })
}

/// Fills the index; says where the message ends.
pub(crate) fn walk(packager: &Compiled, bytes: &[u8], index: &mut Index) -> Result<usize, Error> {
    walk_until(packager, packager.is_strict(), (bytes, bytes.len()), index)
}

/// Says where a message ends, and demands no more than that takes.
pub(crate) fn end_of(packager: &Compiled, bytes: &[u8], index: &mut Index) -> Result<usize, Error> {
    let (_, message) = split_header(packager, bytes)?;
    let start = packager.header_bytes;
    let end = walk_until(packager, false, (message, message.len()), index)
        .map_err(|error| error.behind(start))?;
    Ok(start + end)
}

/// Finds the fields in the value of a field that frames them.
pub(crate) fn walk_framed(
    packager: &Compiled,
    frame: &FieldFormat,
    value: &[u8],
    index: &mut Index,
) -> Result<usize, Error> {
    walk_until(packager, packager.is_strict(), (value, fields_end(frame, value)), index)
}

/// Behind the last of the bytes that are no blanks, as they fill up a text of fixed length.
fn fields_end(frame: &FieldFormat, value: &[u8]) -> usize {
    let is_filled_up = frame.is_fixed() && frame.content == Content::Text;
    let last = value.iter().rposition(|byte| *byte != b' ');
    if is_filled_up { last.map_or(0, |last| last + 1) } else { value.len() }
}

/// Fields begin before `fields_end` only.
fn walk_until(
    packager: &Compiled,
    is_strict: bool,
    (bytes, fields_end): (&[u8], usize),
    index: &mut Index,
) -> Result<usize, Error> {
    if u32::try_from(bytes.len()).is_err() {
        let problem = Problem::TooLong { length: bytes.len(), max: u32::MAX as usize };
        return Err(Error { path: None, offset: Some(0), problem });
    }
    index.reset(packager.fields.len());
    let mut walk = Walk {
        packager,
        bytes,
        fields_end,
        index,
        is_strict,
        position: 0,
        pending: Check::Nothing,
        pending_from: 0,
    };
    match packager.layout {
        Layout::Bitmap(bitmap) => walk.by_bitmap(bitmap)?,
        Layout::Positional { first, is_whole } => walk.by_position(first, is_whole)?,
        Layout::Tagged => walk.by_tag()?,
    }
    let position = walk.position;
    if is_strict {
        walk.settle()?;
        if position < fields_end {
            let problem = Problem::Trailing { found: bytes.len() - position };
            return Err(Error { path: None, offset: Some(position), problem });
        }
    }
    Ok(position)
}

/// Finds the fields inside a field, of whose value content and length are known; says where they
/// end. What its frame wrote in another way is decoded into the index.
pub(crate) fn walk_inside(
    packager: &Compiled,
    is_strict: bool,
    frame: &FieldFormat,
    (content, length): (&[u8], usize),
    index: &mut Index,
) -> Result<usize, Error> {
    if frame.is_transparent() {
        return walk_until(packager, is_strict, (content, fields_end(frame, content)), index);
    }
    let mut fields = std::mem::take(&mut index.fields);
    fields.clear();
    decode(frame, content, length, &mut fields);
    let result = walk_until(packager, is_strict, (&fields, fields_end(frame, &fields)), index);
    index.fields = fields;
    let on_wire = |offset: Option<usize>| offset.map(|byte| frame.place_of(byte));
    result.map_err(|error| Error { offset: on_wire(error.offset), ..error })
}

struct Walk<'a> {
    packager: &'a Compiled,
    bytes: &'a [u8],
    /// What follows fills up the frame.
    fields_end: usize,
    index: &'a mut Index,
    is_strict: bool,
    position: usize,
    /// Fields with the same check lie one behind the other since `pending_from`: checked together.
    pending: Check,
    pending_from: usize,
}

impl Walk<'_> {
    fn by_bitmap(&mut self, bitmap: BitmapFormat) -> Result<(), Error> {
        if self.packager.has_message_type() {
            self.step(0)?;
            self.index.has_message_type = true;
        }
        self.settle()?;
        self.pending = Check::Nothing;
        let mut words = 1;
        self.index.bitmap_start = self.position;
        let first = self.word(bitmap)?;
        self.index.present[0] = first;
        if bitmap.continues && first & FIRST != 0 {
            words = 2;
            self.index.present[0] = first & !FIRST;
            let second = self.word(bitmap)?;
            self.index.present[1] = second;
            if bitmap.words_max == 3 && second & FIRST != 0 {
                words = 3;
                self.index.present[1] = second & !FIRST;
                self.index.present[2] = self.word(bitmap)?;
            }
        }
        self.index.bitmap_words = words;
        for word in 0..usize::from(words) {
            self.fields_of_word(word)?;
        }
        if bitmap.third_field > 0 && present_in(&self.index.present, bitmap.third_field) {
            self.fields_of_third_bitmap(bitmap)?;
        }
        Ok(())
    }

    /// The third bitmap was found where its field would stand; what it names follows the others.
    #[cold]
    fn fields_of_third_bitmap(&mut self, bitmap: BitmapFormat) -> Result<(), Error> {
        let third = usize::from(bitmap.third_field);
        let coding = self.packager.fields[third].coding;
        self.index.third_bitmap = self.index.spans[third];
        self.index.remove(third);
        let end = self.position;
        self.position = self.index.third_bitmap.range().start;
        self.index.present[2] = self.word(BitmapFormat { coding, ..bitmap })?;
        self.position = end;
        self.fields_of_word(2)
    }

    /// The way that most fields take: what is unusual in any respect takes a step by itself.
    fn fields_of_word(&mut self, word: usize) -> Result<(), Error> {
        let mut left = self.index.present[word];
        let mut position = self.position;
        let (fields, bytes, is_strict) = (&self.packager.fields, self.bytes, self.is_strict);
        while left != 0 {
            let bit = left.leading_zeros();
            left &= !(FIRST >> bit);
            let number = word * 64 + bit as usize + 1;
            let usual = fields.get(number).and_then(|format| {
                usual_end(format, is_strict, bytes, position).map(|end| (end, format.check))
            });
            if let (Some((end, check)), Some(span)) = (usual, self.index.spans.get_mut(number)) {
                *span = Span::new(position, end);
                if is_strict && check != self.pending {
                    self.settle_until(position)?;
                    (self.pending, self.pending_from) = (check, position);
                }
                position = end;
            } else {
                self.position = position;
                self.step(number)?;
                position = self.position;
            }
        }
        self.position = position;
        Ok(())
    }

    /// Reads 64 bits of the bitmap.
    fn word(&mut self, bitmap: BitmapFormat) -> Result<u64, Error> {
        let number = if bitmap.continues { 1 } else { 0 };
        let rest = &self.bytes[self.position..];
        let size = if bitmap.coding == Coding::Raw { 8 } else { 16 };
        let Some(digits) = rest.get(..size) else {
            let problem = Problem::Truncated { needed: size, found: rest.len() };
            return Err(problem.at(number, self.position));
        };
        let word = match (bitmap.coding, digits.first_chunk(), digits.first_chunk()) {
            (Coding::Raw, Some(bytes), _) => Some(u64::from_be_bytes(*bytes)),
            (Coding::HexAscii, _, Some(digits)) => coding::word_of_hex(digits),
            _ => None,
        };
        let word = match word {
            Some(word) => word,
            None => self
                .word_of_digits(bitmap.coding, digits)
                .map_err(|(problem, at)| problem.at(number, self.position + at))?,
        };
        self.position += size;
        Ok(word)
    }

    /// Any hexadecimal digits.
    fn word_of_digits(&self, coding: Coding, digits: &[u8]) -> Result<u64, Wrong> {
        let mut word = 0;
        for (at, digit) in digits.iter().enumerate() {
            let is_ebcdic = coding == Coding::HexEbcdic;
            let character = if is_ebcdic { FROM_EBCDIC[*digit as usize] } else { *digit };
            let half = coding::hex_value(character)
                .filter(|_| !self.is_strict || !character.is_ascii_lowercase())
                .ok_or((Problem::BadBitmap { found: Some(*digit) }, at))?;
            word = word << 4 | u64::from(half);
        }
        Ok(word)
    }

    fn by_position(&mut self, first: u16, is_whole: bool) -> Result<(), Error> {
        let mut number = usize::from(first);
        while number < self.packager.fields.len()
            && (is_whole || self.position < self.fields_end || self.is_last_value(number))
        {
            let content = self.packager.fields[number].content;
            if content != Content::Nothing {
                self.step(number)?;
                self.index.insert(number);
            }
            number += 1;
        }
        Ok(())
    }

    /// Blanks that are exactly a last value that is no text, such as digits 2020 in BCD.
    fn is_last_value(&self, number: usize) -> bool {
        let format = &self.packager.fields[number];
        self.position < self.bytes.len()
            && format.is_fixed()
            && matches!(format.coding, Coding::Raw | Coding::Bcd)
            && self.position + format.fixed_bytes as usize == self.bytes.len()
    }

    fn by_tag(&mut self) -> Result<(), Error> {
        let tagged = self.packager.fields.iter().find(|field| field.tag.digits > 0);
        let Some(FieldFormat { tag, prefix, .. }) = tagged else { return Ok(()) };
        let behind = if tag.is_counted { usize::from(prefix.bytes) } else { 0 };
        while self.position < self.fields_end {
            let digits = digits_of(tag.coding, tag.digits);
            let number = read_number(digits, self.bytes, self.position + behind)
                .map_err(|(problem, at)| Error { path: None, offset: Some(at), problem })?;
            let named = u16::try_from(number).map_err(|_| Problem::UnknownField)?;
            if number < self.packager.fields.len() && present_in(&self.index.present, named) {
                return Err(Problem::Repeated.at(named, self.position));
            }
            self.step(number)?;
            self.index.insert(number);
        }
        Ok(())
    }

    #[inline]
    fn step(&mut self, number: usize) -> Result<(), Error> {
        let start = self.position;
        let Some(format) = self.packager.fields.get(number) else {
            return Err(Problem::UnknownField.at(short(number), start));
        };
        let measured = match measure(format, number, self.bytes, start) {
            Ok(measured) => measured,
            Err((problem, at)) => return Err(problem.at(short(number), at)),
        };
        self.index.spans[number] = Span::new(start, measured.end);
        self.position = measured.end;
        if format.check != self.pending || format.check == Check::Single {
            self.turn(number, start, measured)?;
        }
        if format.is_guarded && self.is_strict {
            self.guard(number, measured)?;
        }
        Ok(())
    }

    /// Looks at what the run does not: directions, and halves of bytes that are filled.
    #[inline]
    fn guard(&self, number: usize, measured: Measured) -> Result<(), Error> {
        let format = &self.packager.fields[number];
        let content = &self.bytes[measured.content..measured.end];
        let is_right = measured.length <= format.length_max as usize
            && is_guarded(format, content, measured.length);
        if is_right { Ok(()) } else { self.check_one(number, measured, true) }
    }

    /// Checks one field with all that its format says.
    fn check_one(&self, number: usize, measured: Measured, is_strict: bool) -> Result<(), Error> {
        let format = &self.packager.fields[number];
        let content = &self.bytes[measured.content..measured.end];
        // A digit stands where what fills up a value of the longest, odd length should stand.
        let is_too_long = is_strict && measured.length > format.length_max as usize;
        let length = if is_too_long { format.length_max as usize } else { measured.length };
        let measured = Measured { length, ..measured };
        check_content(format, content, measured, is_strict).map_err(|(problem, at)| {
            let found = content.get(at).filter(|_| !format.is_sensitive);
            problem.with_found(found.copied()).at(short(number), measured.content + at)
        })
    }

    /// Ends a run of fields with the same check and begins another.
    #[inline]
    fn turn(&mut self, number: usize, start: usize, measured: Measured) -> Result<(), Error> {
        let format = &self.packager.fields[number];
        if self.is_strict {
            self.settle_until(start)?;
            self.pending = format.check;
            self.pending_from = start;
        }
        if format.check != Check::Single {
            return Ok(());
        }
        self.pending = Check::Nothing;
        if self.is_strict || format.is_always_checked() {
            self.check_one(number, measured, self.is_strict)?;
        }
        let content = &self.bytes[measured.content..measured.content + measured.content_bytes];
        if let Some(inner) = self.packager.inner(format).filter(|_| format.holds_fields(content)) {
            let (content, mark) = format.unmarked(content);
            let value = (content, measured.length);
            let inside = self.index.inner();
            walk_inside(inner.compiled(), self.is_strict, format, value, inside).map_err(
                |error| {
                    self.index.is_wrong_inside = true;
                    let error = error.inside(short(number), Some(measured.content + mark));
                    error.withheld_if(format.is_sensitive)
                },
            )?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.settle_until(self.position)
    }

    #[inline]
    fn settle_until(&mut self, end: usize) -> Result<(), Error> {
        let run = &self.bytes[self.pending_from..end];
        let is_right = match self.pending {
            Check::Nothing | Check::Single => true,
            Check::AsciiDigits => coding::are_ascii_digits(run),
            Check::EbcdicDigits => coding::are_ebcdic_digits(run),
            Check::BcdDigits => coding::are_bcd_digits(run),
            Check::AsciiTrack => {
                coding::are_ascii_track(run) || run.iter().all(|it| Charset::Track.has(*it))
            }
            Check::BcdTrack => coding::are_bcd_track(run),
        };
        if is_right { Ok(()) } else { Err(self.blame(end)) }
    }

    /// Finds the field in a run that failed, and the byte.
    #[cold]
    fn blame(&self, end: usize) -> Error {
        for (number, format) in self.packager.fields.iter().enumerate() {
            let span = self.index.spans[number];
            let is_here = self.index.is_present(short(number));
            let range = span.range();
            if !is_here || range.start < self.pending_from || range.end > end {
                continue;
            }
            let Ok(measured) = measure(format, number, self.bytes, range.start) else { continue };
            if let Err(error) = self.check_one(number, measured, true) {
                return error;
            }
        }
        Error { path: None, offset: Some(self.pending_from), problem: DIGIT }
    }
}

/// Where a field ends that is usual in all respects.
#[inline(always)]
fn usual_end(format: &FieldFormat, is_strict: bool, bytes: &[u8], start: usize) -> Option<usize> {
    let (content, length, end) = match format.shape {
        Shape::Fixed => (start, format.length_max as usize, start + format.fixed_bytes as usize),
        Shape::Counted => {
            let (content, length) = counted(format, bytes, start)?;
            (content, length, content + format.content_bytes(length))
        }
        Shape::Other => return None,
    };
    if end > bytes.len() {
        return None;
    }
    if is_strict && format.is_guarded && !is_guarded(format, &bytes[content..end], length) {
        return None;
    }
    Some(end)
}

/// Are a direction, and half a filled byte, what they should be? The run has seen the digits.
#[inline]
fn is_guarded(format: &FieldFormat, content: &[u8], length: usize) -> bool {
    let (digits, length) = match (format.content, content) {
        (Content::Amount, [direction, ..]) if !is_direction(*direction) => return false,
        (Content::Amount, [_, digits @ ..]) => (digits, length.saturating_sub(1)),
        _ => (content, length),
    };
    match (digits, format.odd) {
        _ if length.is_multiple_of(2) => true,
        ([first, ..], Odd::ZeroLeft) => first >> 4 == 0,
        ([.., last], Odd::ZeroRight | Odd::FRight) => last & 0x0F == 0,
        ([], _) => true,
    }
}

/// Where the content begins and how long the value is, if the length is one that is usual.
#[inline]
fn counted(format: &FieldFormat, bytes: &[u8], start: usize) -> Option<(usize, usize)> {
    let rest = bytes.get(start..)?;
    let pair = |byte: u8| {
        let is_decimal = byte >> 4 < 10 && byte & 0x0F < 10;
        is_decimal.then_some(usize::from(byte >> 4) * 10 + usize::from(byte & 0x0F))
    };
    let digit = |byte: u8| byte.is_ascii_digit().then_some(usize::from(byte & 0x0F));
    let (size, length) = match (format.prefix.coding, format.prefix.bytes) {
        (PrefixCoding::Bcd, 1) => (1, pair(*rest.first()?)?),
        (PrefixCoding::Bcd, 2) => {
            let [first, second] = *rest.first_chunk()?;
            (2, pair(first)? * 100 + pair(second)?)
        }
        (PrefixCoding::Ascii, 2) => {
            let [tens, ones] = *rest.first_chunk()?;
            (2, digit(tens)? * 10 + digit(ones)?)
        }
        (PrefixCoding::Ascii, 3) => {
            let [hundreds, tens, ones] = *rest.first_chunk()?;
            (3, digit(hundreds)? * 100 + digit(tens)? * 10 + digit(ones)?)
        }
        _ => return None,
    };
    (length <= format.length_max as usize).then_some((start + size, length))
}

/// The first bit of 64.
pub(crate) const FIRST: u64 = 1 << 63;

fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Finds the parts of one field.
#[inline]
pub(crate) fn measure(
    format: &FieldFormat,
    number: usize,
    bytes: &[u8],
    start: usize,
) -> Result<Measured, Wrong> {
    if format.is_fixed() && format.tag.digits == 0 {
        let content_bytes = format.fixed_bytes as usize;
        let end = start + content_bytes;
        if end > bytes.len() || format.content == Content::Unused {
            return short_of(format, content_bytes, bytes, start);
        }
        let length = format.length_max as usize;
        return Ok(Measured { content: start, content_bytes, length, end });
    }
    if format.tag.digits > 0 {
        return measure_tagged(format, number, bytes, start);
    }
    let count = read_number(format.prefix, bytes, start)?;
    variable(format, count, bytes, (start, start + usize::from(format.prefix.bytes)))
}

/// A field that was not filled up takes what is left, if it is the last.
#[cold]
fn short_of(
    format: &FieldFormat,
    needed: usize,
    bytes: &[u8],
    start: usize,
) -> Result<Measured, Wrong> {
    if !format.is_unfilled {
        return Err(refused(format, needed, bytes, start));
    }
    let content_bytes = bytes.len() - start;
    let is_bcd = format.coding == Coding::Bcd;
    let length = content_bytes * if is_bcd { 2 } else { 1 };
    Ok(Measured { content: start, content_bytes, length, end: bytes.len() })
}

#[cold]
fn refused(format: &FieldFormat, needed: usize, bytes: &[u8], start: usize) -> Wrong {
    if format.content == Content::Unused {
        return (Problem::UnknownField, start);
    }
    (Problem::Truncated { needed, found: bytes.len() - start }, start)
}

/// What lies behind the prefix, which stands at the first place of two and ends at the second.
#[inline]
fn variable(
    format: &FieldFormat,
    count: usize,
    bytes: &[u8],
    (prefix, content): (usize, usize),
) -> Result<Measured, Wrong> {
    let (length, content_bytes) = match format.prefix.counts {
        Counts::Value => (count, format.content_bytes(count)),
        Counts::Wire => value_of_wire(format, count, bytes, content)?,
        Counts::Halves if count % 2 == 1 => {
            return Err((Problem::OddLength { found: count }, prefix));
        }
        Counts::Halves => value_of_wire(format, count / 2, bytes, content)?,
    };
    let length_max = format.length_max as usize;
    let mut length = length;
    if length > length_max {
        let content = bytes.get(content..content + content_bytes).unwrap_or_default();
        length = without_filling(format, length, content)
            .ok_or((Problem::TooLong { length, max: length_max }, prefix))?;
    }
    let room = if format.is_filled { format.content_bytes(length_max) } else { content_bytes };
    if room > bytes.len() - content {
        let found = bytes.len() - content;
        return Err((Problem::Truncated { needed: room, found }, content));
    }
    Ok(Measured { content, content_bytes, length, end: content + room })
}

/// Rounded up to whole bytes, a value of an odd length is one longer: by what fills it up. Anything
/// else that stands there is for the check to refuse.
#[cold]
fn without_filling(format: &FieldFormat, length: usize, content: &[u8]) -> Option<usize> {
    let length_max = format.length_max as usize;
    let is_rounded = format.prefix.counts != Counts::Value && format.coding == Coding::Bcd;
    if !is_rounded || length_max.is_multiple_of(2) || length > length_max + 1 {
        return None;
    }
    let has_filling = match (format.odd, content) {
        (Odd::ZeroLeft, [first, ..]) => first >> 4 == 0,
        (Odd::ZeroRight, [.., last]) => last & 0x0F == 0,
        // An F was taken off before.
        (Odd::ZeroLeft | Odd::ZeroRight | Odd::FRight, _) => false,
    };
    Some(length - usize::from(has_filling))
}

/// Length of the value and bytes of the content, where the prefix counts bytes on the wire.
fn value_of_wire(
    format: &FieldFormat,
    wire: usize,
    bytes: &[u8],
    content: usize,
) -> Result<(usize, usize), Wrong> {
    let length = match format.coding {
        Coding::HexAscii | Coding::HexEbcdic if wire % 2 == 1 => {
            return Err((Problem::OddLength { found: wire }, content));
        }
        Coding::HexAscii | Coding::HexEbcdic => wire / 2,
        Coding::Bcd => {
            let last = bytes.get(content..content + wire).and_then(<[u8]>::last);
            let has_filling = format.odd == Odd::FRight && last.is_some_and(|it| it & 0x0F == 0x0F);
            wire * 2 - usize::from(has_filling)
        }
        Coding::Latin1 | Coding::Ebcdic | Coding::Raw => wire,
    };
    Ok((length, wire))
}

/// A field with its number in front of the content.
#[cold]
fn measure_tagged(
    format: &FieldFormat,
    number: usize,
    bytes: &[u8],
    start: usize,
) -> Result<Measured, Wrong> {
    let tag = digits_of(format.tag.coding, format.tag.digits);
    let digits = usize::from(format.tag.digits);
    let check = |at: usize| match read_number(tag, bytes, at)? {
        found if found == number => Ok(()),
        found => Err((Problem::BadTag { found }, at)),
    };
    let prefix_bytes = usize::from(format.prefix.bytes);
    if !format.tag.is_counted {
        check(start)?;
        let prefix = start + digits;
        if format.is_fixed() {
            let content_bytes = format.fixed_bytes as usize;
            let end = prefix + content_bytes;
            if end > bytes.len() {
                return Err(refused(format, content_bytes, bytes, prefix));
            }
            let length = format.length_max as usize;
            return Ok(Measured { content: prefix, content_bytes, length, end });
        }
        let count = read_number(format.prefix, bytes, prefix)?;
        return variable(format, count, bytes, (prefix, prefix + prefix_bytes));
    }
    let count = read_number(format.prefix, bytes, start)?;
    let Some(count) = count.checked_sub(digits) else {
        return Err((Problem::Truncated { needed: digits, found: count }, start));
    };
    check(start + prefix_bytes)?;
    variable(format, count, bytes, (start, start + prefix_bytes + digits))
}

fn digits_of(coding: PrefixCoding, digits: u8) -> Prefix {
    Prefix { coding, bytes: digits, counts: Counts::Value, count_max: u32::MAX }
}

/// Reads a length or a tag.
#[inline]
fn read_number(prefix: Prefix, bytes: &[u8], start: usize) -> Result<usize, Wrong> {
    let size = usize::from(prefix.bytes);
    let Some(digits) = bytes.get(start..start + size) else {
        return Err((
            Problem::Truncated { needed: size, found: bytes.len().saturating_sub(start) },
            start,
        ));
    };
    let mut number = 0;
    let mut wrong = 0;
    match prefix.coding {
        PrefixCoding::Ascii | PrefixCoding::Ebcdic => {
            let zero = if prefix.coding == PrefixCoding::Ascii { b'0' } else { 0xF0 };
            for digit in digits {
                let value = digit ^ zero;
                wrong |= u8::from(value > 9);
                number = number * 10 + usize::from(value);
            }
        }
        PrefixCoding::Bcd => {
            for pair in digits {
                wrong |= u8::from(pair >> 4 > 9 || pair & 0x0F > 9);
                number = number * 100 + usize::from(pair >> 4) * 10 + usize::from(pair & 0x0F);
            }
        }
        PrefixCoding::Binary => {
            for byte in digits {
                number = number << 8 | usize::from(*byte);
            }
        }
    }
    if wrong == 0 { Ok(number) } else { Err(bad_prefix(prefix.coding, digits, start)) }
}

#[cold]
fn bad_prefix(coding: PrefixCoding, digits: &[u8], start: usize) -> Wrong {
    let is_wrong = |digit: &u8| match coding {
        PrefixCoding::Ascii => !digit.is_ascii_digit(),
        PrefixCoding::Ebcdic => *digit ^ 0xF0 > 9,
        PrefixCoding::Bcd => !coding::are_bcd_digits(&[*digit]),
        PrefixCoding::Binary => false,
    };
    let expected = match coding {
        PrefixCoding::Ascii => "ASCII digits",
        PrefixCoding::Ebcdic => "EBCDIC digits",
        PrefixCoding::Bcd => "BCD digits",
        PrefixCoding::Binary => "binary",
    };
    let at = digits.iter().position(is_wrong).unwrap_or(0);
    (Problem::BadPrefix { expected, found: Some(digits[at]) }, start + at)
}
