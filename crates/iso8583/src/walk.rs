//! Finds the fields in received bytes and validates them.

use crate::check::{DIGIT, check_content, is_direction};
use crate::class::{Charset, Check, Coding, Content, FieldFormat, OddPadding, PrefixCoding, Shape};
use crate::coding::{self, FROM_EBCDIC};
use crate::decode::decode;
use crate::error::{Error, Problem};
use crate::index::{FIRST_BIT, Index, Span, present_in};
use crate::measure::{Measured, ProblemAt, digits_of, measure, read_number};
use crate::packager::{BitmapFormat, Compiled, Layout};

/// Splits off the header.
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

/// Fills the index; returns the end of the message.
pub(crate) fn walk(packager: &Compiled, bytes: &[u8], index: &mut Index) -> Result<usize, Error> {
    walk_until(packager, packager.is_strict(), (bytes, bytes.len()), index)
}

/// Finds the end of a message with the minimal validation.
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
    walk_inner(packager, packager.is_strict(), (value, fields_end(frame, value)), index)
}

/// Finds the inner fields of a value that is to be set, as they are on the wire: a value that is shorter
/// than its fixed field is filled up.
pub(crate) fn walk_value(
    packager: &Compiled,
    frame: &FieldFormat,
    value: &[u8],
    index: &mut Index,
) -> Result<usize, Error> {
    let missing = (frame.length_max as usize).saturating_sub(value.len());
    let filled = match frame.content {
        Content::Text if frame.is_fixed() => [value, &vec![b' '; missing]].concat(),
        Content::Digits if frame.is_fixed() => [&vec![b'0'; missing], value].concat(),
        Content::Text
        | Content::Digits
        | Content::SignedDigits
        | Content::Amount
        | Content::HexText
        | Content::Bytes
        | Content::Bitmap
        | Content::Nothing
        | Content::Unused => return walk_framed(packager, frame, value, index),
    };
    walk_framed(packager, frame, &filled, index)
}

/// The end of the inner fields without the blanks that fill up a text of fixed length.
fn fields_end(frame: &FieldFormat, value: &[u8]) -> usize {
    let is_filled_up = frame.is_fixed() && frame.content == Content::Text;
    let last = value.iter().rposition(|byte| *byte != b' ');
    if is_filled_up { last.map_or(0, |last| last + 1) } else { value.len() }
}

/// Finds inner fields. In an empty content there are none: `Lenient` asks for no bitmap in it either.
fn walk_inner(
    packager: &Compiled,
    is_strict: bool,
    (bytes, fields_end): (&[u8], usize),
    index: &mut Index,
) -> Result<usize, Error> {
    if fields_end == 0 && !is_strict && matches!(packager.layout, Layout::Bitmap(_)) {
        index.reset(packager.fields.len());
        return Ok(0);
    }
    walk_until(packager, is_strict, (bytes, fields_end), index)
}

/// Finds fields that begin before `fields_end`.
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
        walk.check_pending()?;
        if position < fields_end {
            let problem = Problem::Trailing { found: bytes.len() - position };
            return Err(Error { path: None, offset: Some(position), problem });
        }
    }
    Ok(position)
}

/// Finds the inner fields of a composite field, given its content and the length of its value; returns
/// their end. An encoded content is decoded into `index.fields`.
pub(crate) fn walk_inside(
    packager: &Compiled,
    is_strict: bool,
    frame: &FieldFormat,
    (content, length): (&[u8], usize),
    index: &mut Index,
) -> Result<usize, Error> {
    if frame.is_transparent() {
        return walk_inner(packager, is_strict, (content, fields_end(frame, content)), index);
    }
    let mut fields = std::mem::take(&mut index.fields);
    fields.clear();
    decode(frame, content, length, &mut fields);
    let result = walk_inner(packager, is_strict, (&fields, fields_end(frame, &fields)), index);
    index.fields = fields;
    let on_wire = |offset: Option<usize>| offset.map(|byte| frame.content_offset(byte));
    result.map_err(|error| Error { offset: on_wire(error.offset), ..error })
}

struct Walk<'a> {
    packager: &'a Compiled,
    bytes: &'a [u8],
    /// The bytes behind it fill up the frame.
    fields_end: usize,
    index: &'a mut Index,
    is_strict: bool,
    position: usize,
    /// The check of the fields since `pending_from`, which are checked together.
    pending: Check,
    pending_from: usize,
}

impl Walk<'_> {
    fn by_bitmap(&mut self, bitmap: BitmapFormat) -> Result<(), Error> {
        if self.packager.has_message_type() {
            self.read_field(0)?;
            self.index.has_message_type = true;
        }
        self.check_pending()?;
        self.pending = Check::Nothing;
        let mut words = 1;
        self.index.bitmap_start = self.position;
        let first = self.word(bitmap)?;
        self.index.present[0] = first;
        if bitmap.continues && first & FIRST_BIT != 0 {
            words = 2;
            self.index.present[0] = first & !FIRST_BIT;
            let second = self.word(bitmap)?;
            self.index.present[1] = second;
            if bitmap.words_max == 3 && second & FIRST_BIT != 0 {
                words = 3;
                self.index.present[1] = second & !FIRST_BIT;
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

    /// Reads the third bitmap, which is in the position of its field. Its own fields follow the others.
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

    /// Reads the fields of a word of the bitmap. Most fields take the fast path of `fast_end`.
    fn fields_of_word(&mut self, word: usize) -> Result<(), Error> {
        let mut left = self.index.present[word];
        let mut position = self.position;
        let (fields, bytes, is_strict) = (&self.packager.fields, self.bytes, self.is_strict);
        while left != 0 {
            let bit = left.leading_zeros();
            left &= !(FIRST_BIT >> bit);
            let number = word * 64 + bit as usize + 1;
            let fast = fields.get(number).and_then(|format| {
                fast_end(format, is_strict, bytes, position).map(|end| (end, format.check))
            });
            if let (Some((end, check)), Some(span)) = (fast, self.index.spans.get_mut(number)) {
                *span = Span::new(position, end);
                if is_strict && check != self.pending {
                    self.check_pending_until(position)?;
                    (self.pending, self.pending_from) = (check, position);
                }
                position = end;
            } else {
                self.position = position;
                self.read_field(number)?;
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

    /// Parses a word of hexadecimal digits.
    fn word_of_digits(&self, coding: Coding, digits: &[u8]) -> Result<u64, ProblemAt> {
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
                self.read_field(number)?;
                self.index.insert(number);
            }
            number += 1;
        }
        Ok(())
    }

    /// Whether the trailing blanks are exactly the last value, such as the digits 2020 in BCD.
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
        if self.begins_without_tag(if tag.is_counted { prefix.coding } else { tag.coding }) {
            self.read_field(0)?;
            self.index.insert(0);
        }
        while self.position < self.fields_end {
            let digits = digits_of(tag.coding, tag.digits);
            let number = read_number(digits, self.bytes, self.position + behind)
                .map_err(|(problem, at)| Error { path: None, offset: Some(at), problem })?;
            let named = u16::try_from(number).map_err(|_| Problem::UnknownField)?;
            if number < self.packager.fields.len() && present_in(&self.index.present, named) {
                return Err(Problem::Repeated.at(named, self.position));
            }
            self.read_field(number)?;
            self.index.insert(number);
        }
        Ok(())
    }

    /// Whether a text without a tag stands in front of the tagged fields: its first byte is no digit.
    fn begins_without_tag(&self, coding: PrefixCoding) -> bool {
        let is_digit = |byte: u8| match coding {
            PrefixCoding::Ascii => byte.is_ascii_digit(),
            PrefixCoding::Ebcdic => byte ^ 0xF0 <= 9,
            PrefixCoding::Bcd | PrefixCoding::Binary => true,
        };
        let is_text = self.packager.fields.first().is_some_and(|first| {
            first.content == Content::Text && first.tag.digits == 0 && first.length_max > 0
        });
        is_text && self.position < self.fields_end && !is_digit(self.bytes[self.position])
    }

    #[inline]
    fn read_field(&mut self, number: usize) -> Result<(), Error> {
        let start = self.position;
        let Some(format) = self.packager.fields.get(number) else {
            return Err(Problem::UnknownField.at(saturated(number), start));
        };
        let measured = match measure(format, number, self.bytes, start) {
            Ok(measured) => measured,
            Err((problem, at)) => return Err(problem.at(saturated(number), at)),
        };
        self.index.spans[number] = Span::new(start, measured.end);
        self.position = measured.end;
        if format.check != self.pending || format.check == Check::Single {
            self.begin_run(number, start, measured)?;
        }
        if format.is_guarded && self.is_strict {
            self.check_guarded(number, measured)?;
        }
        Ok(())
    }

    /// Checks what the check of a run does not cover: directions and padded half bytes.
    #[inline]
    fn check_guarded(&self, number: usize, measured: Measured) -> Result<(), Error> {
        let format = &self.packager.fields[number];
        let content = &self.bytes[measured.content..measured.end];
        let is_valid = measured.length <= format.length_max as usize
            && has_valid_guards(format, content, measured.length);
        if is_valid { Ok(()) } else { self.check_field(number, measured, true) }
    }

    /// Checks a field against its whole format.
    fn check_field(&self, number: usize, measured: Measured, is_strict: bool) -> Result<(), Error> {
        let format = &self.packager.fields[number];
        let content = &self.bytes[measured.content..measured.end];
        // A value that is one digit too long has a digit in the position of the padding.
        let is_too_long = is_strict && measured.length > format.length_max as usize;
        let length = if is_too_long { format.length_max as usize } else { measured.length };
        let measured = Measured { length, ..measured };
        check_content(format, content, measured, is_strict).map_err(|(problem, at)| {
            let found = content.get(at).filter(|_| !format.is_sensitive);
            problem.with_found(found.copied()).at(saturated(number), measured.content + at)
        })
    }

    /// Checks the run of fields before this one and begins another.
    #[inline]
    fn begin_run(&mut self, number: usize, start: usize, measured: Measured) -> Result<(), Error> {
        let format = &self.packager.fields[number];
        if self.is_strict {
            self.check_pending_until(start)?;
            self.pending = format.check;
            self.pending_from = start;
        }
        if format.check != Check::Single {
            return Ok(());
        }
        self.pending = Check::Nothing;
        if self.is_strict || format.is_always_checked() {
            self.check_field(number, measured, self.is_strict)?;
        }
        let content = &self.bytes[measured.content..measured.content + measured.content_bytes];
        if let Some(inner) = self.packager.inner(format).filter(|_| format.holds_fields(content)) {
            let (content, mark) = format.unmarked(content);
            let value = (content, measured.length);
            let inside = self.index.inner();
            walk_inside(inner.compiled(), self.is_strict, format, value, inside).map_err(
                |error| {
                    self.index.is_inner_error = true;
                    let error = error.inside(saturated(number), Some(measured.content + mark));
                    error.withheld_if(format.is_sensitive)
                },
            )?;
        }
        Ok(())
    }

    fn check_pending(&mut self) -> Result<(), Error> {
        self.check_pending_until(self.position)
    }

    #[inline]
    fn check_pending_until(&mut self, end: usize) -> Result<(), Error> {
        let run = &self.bytes[self.pending_from..end];
        let is_valid = match self.pending {
            Check::Nothing | Check::Single => true,
            Check::AsciiDigits => coding::are_ascii_digits(run),
            Check::EbcdicDigits => coding::are_ebcdic_digits(run),
            Check::BcdDigits => coding::are_bcd_digits(run),
            Check::AsciiTrack => {
                coding::are_ascii_track(run) || run.iter().all(|it| Charset::Track.contains(*it))
            }
            Check::BcdTrack => coding::are_bcd_track(run),
        };
        if is_valid { Ok(()) } else { Err(self.locate_error(end)) }
    }

    /// Finds the invalid field of a run and its invalid byte.
    #[cold]
    fn locate_error(&self, end: usize) -> Error {
        for (number, format) in self.packager.fields.iter().enumerate() {
            let span = self.index.spans[number];
            let is_here = self.index.is_present(saturated(number));
            let range = span.range();
            if !is_here || range.start < self.pending_from || range.end > end {
                continue;
            }
            let Ok(measured) = measure(format, number, self.bytes, range.start) else { continue };
            if let Err(error) = self.check_field(number, measured, true) {
                return error;
            }
        }
        Error { path: None, offset: Some(self.pending_from), problem: DIGIT }
    }
}

/// The end of a field of a common format; `None` if it needs the slow path.
#[inline(always)]
fn fast_end(format: &FieldFormat, is_strict: bool, bytes: &[u8], start: usize) -> Option<usize> {
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
    if is_strict && format.is_guarded && !has_valid_guards(format, &bytes[content..end], length) {
        return None;
    }
    Some(end)
}

/// Whether the direction and the padding are valid. The check of the run covers the digits.
#[inline]
fn has_valid_guards(format: &FieldFormat, content: &[u8], length: usize) -> bool {
    let (digits, length) = match (format.content, content) {
        (Content::Amount, [direction, ..]) if !is_direction(*direction) => return false,
        (Content::Amount, [_, digits @ ..]) => (digits, length.saturating_sub(1)),
        _ => (content, length),
    };
    match (digits, format.padding) {
        _ if length.is_multiple_of(2) => true,
        ([first, ..], OddPadding::ZeroLeft) => first >> 4 == 0,
        ([.., last], OddPadding::ZeroRight | OddPadding::FRight) => last & 0x0F == 0,
        ([], _) => true,
    }
}

/// The start of the content and the length of the value for a common prefix.
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

fn saturated(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}
