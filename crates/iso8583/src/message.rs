//! A message that can be built and changed.

use crate::append::{ROOM_BYTES, append};
use crate::bitmap;
use crate::class::{Content, FieldFormat, mark};
use crate::coding;
use crate::error::{Error, FieldPath, Problem};
use crate::index::{FIRST_BIT, Index, Span};
use crate::pack;
use crate::packager::{BitmapFormat, Compiled, Layout, Packager};
use crate::view::{Field, MessageView};
use crate::walk::{split_header, walk, walk_framed, walk_value};
use crate::xml;

/// A message that can be changed.
///
/// It stores the packed bytes of each field, so that a change encodes only the changed field. A reused
/// message does not allocate: see [`clear`](Self::clear) and [`load`](Self::load).
#[derive(Clone)]
pub struct Message {
    packager: Packager,
    body: Body,
    /// Buffers for inner fields.
    spare: Vec<Body>,
    latin1: Vec<u8>,
    header: Vec<u8>,
    /// Whether the packager's messages are in XML, where values have types.
    is_xml: bool,
}

/// The packed fields in order, without a bitmap.
#[derive(Clone, Debug, Default)]
struct Body {
    /// The buffer, of which the first `used` bytes are fields.
    bytes: Vec<u8>,
    used: usize,
    /// The highest present number.
    last: u16,
    index: Index,
    /// Whether it is the message itself and not a composite field.
    is_outermost: bool,
}

impl Message {
    /// An empty message.
    #[must_use]
    pub fn new(packager: &Packager) -> Self {
        let mut body = Body { is_outermost: true, ..Body::default() };
        body.clear(packager.compiled());
        let is_xml = packager.compiled().is_xml;
        let (spare, latin1, header) = (vec![], vec![], vec![]);
        Self { packager: packager.clone(), body, spare, latin1, header, is_xml }
    }

    /// Removes all fields and the header.
    pub fn clear(&mut self) {
        self.header.clear();
        self.body.clear(self.packager.compiled());
    }

    /// Replaces the content with a received message.
    ///
    /// # Errors
    /// As [`Packager::unpack`]. The message is empty then.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if !self.packager.compiled().is_bare {
            return self.load_wrapped(bytes);
        }
        self.body.load(self.packager.compiled(), bytes)
    }

    #[cold]
    fn load_wrapped(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.clear();
        let compiled = self.packager.compiled();
        if compiled.is_xml {
            xml::unpack(&self.packager, bytes, &mut self.body.index)?;
            self.header.extend_from_slice(&self.body.index.header);
            let fields = std::mem::take(&mut self.body.index.fields);
            let result = self.body.load(compiled, &fields);
            self.body.index.fields = fields;
            return result;
        }
        let (header, message) = split_header(compiled, bytes)?;
        self.body.load(compiled, message).map_err(|error| error.behind(compiled.header_bytes))?;
        self.header.extend_from_slice(header);
        Ok(())
    }

    /// The header; empty if none was set or received.
    #[must_use]
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Sets the header.
    ///
    /// # Errors
    /// The length differs from that of the packager's header. Messages in XML have headers of any length.
    pub fn set_header(&mut self, header: &[u8]) -> Result<(), Error> {
        let (expected, found) = (self.packager.header_bytes(), header.len());
        if found != expected && !self.is_xml {
            return Err(Problem::BadHeader { expected, found }.into());
        }
        self.header.clear();
        self.header.extend_from_slice(header);
        Ok(())
    }

    /// Sets a field or an inner field to a text. The message type is field 0.
    ///
    /// In a positional layout, missing fields before it are filled up. Binary fields cannot be filled up
    /// and must be set first.
    ///
    /// # Errors
    /// The packager does not have the field, or the value is invalid. The message is unchanged then.
    #[inline]
    pub fn set(&mut self, path: impl Into<FieldPath>, value: &str) -> Result<(), Error> {
        if value.is_ascii() && !self.is_xml {
            return self.set_bytes(path, value.as_bytes());
        }
        if self.is_xml {
            return self.set_marked(path.into(), |out| xml::push_text(value, out));
        }
        self.set_latin1(path.into(), value)
    }

    /// Sets a field of a message in XML to the value that `append` writes; `append` returns the mark.
    #[cold]
    fn set_marked(
        &mut self,
        path: FieldPath,
        append: impl FnOnce(&mut Vec<u8>) -> u8,
    ) -> Result<(), Error> {
        let mut marked = std::mem::take(&mut self.latin1);
        marked.clear();
        marked.push(0);
        marked[0] = append(&mut marked);
        let numbers = path.numbers();
        let (body, spare) = (&mut self.body, &mut self.spare);
        let result = set_inside(&self.packager, body, spare, numbers, Some(&marked)).map(drop);
        self.latin1 = marked;
        result
    }

    #[cold]
    fn set_latin1(&mut self, path: FieldPath, value: &str) -> Result<(), Error> {
        let mut latin1 = std::mem::take(&mut self.latin1);
        latin1.clear();
        let mut is_latin1 = true;
        for character in value.chars() {
            latin1.push(u8::try_from(character).unwrap_or_else(|_| {
                is_latin1 = false;
                b'?'
            }));
        }
        let result = if is_latin1 {
            self.set_bytes(path, &latin1)
        } else {
            Err(Error { path: Some(path), offset: None, problem: Problem::NotLatin1 })
        };
        self.latin1 = latin1;
        result
    }

    /// Sets a field to bytes, or to characters in ISO-8859-1.
    ///
    /// # Errors
    /// As [`Self::set`].
    #[inline]
    pub fn set_bytes(&mut self, path: impl Into<FieldPath>, value: &[u8]) -> Result<(), Error> {
        let path = path.into();
        match path.numbers() {
            _ if self.is_xml => self.set_marked(path, |out| {
                out.extend_from_slice(value);
                mark::BYTES
            }),
            [number] => self.body.set(self.packager.compiled(), *number, value),
            numbers => {
                let value = Some(value);
                set_inside(&self.packager, &mut self.body, &mut self.spare, numbers, value)
                    .map(drop)
            }
        }
    }

    /// Removes a field; returns whether it was present.
    ///
    /// In a positional layout, fields that were filled up for it stay, because they cannot be
    /// distinguished from values.
    ///
    /// # Errors
    /// The inner fields of a composite field are invalid.
    pub fn remove(&mut self, path: impl Into<FieldPath>) -> Result<bool, Error> {
        let path = path.into();
        match path.numbers() {
            [number] => Ok(self.body.remove(self.packager.compiled(), *number)),
            numbers => set_inside(&self.packager, &mut self.body, &mut self.spare, numbers, None),
        }
    }

    /// The fields, like those of a received message.
    #[must_use]
    pub fn view(&self) -> MessageView<'_> {
        MessageView::new(&self.packager, &self.body.bytes[..self.body.used], &self.body.index)
    }

    /// A field, if it is present.
    #[must_use]
    pub fn field(&self, number: u16) -> Option<Field<'_>> {
        self.view().field(number)
    }

    /// A field's value as text, if the field is present.
    #[must_use]
    pub fn text(&self, number: u16) -> Option<String> {
        self.view().text(number)
    }

    /// Appends the packed message.
    ///
    /// # Errors
    /// The message type is missing, or there are no other fields.
    #[inline]
    pub fn pack_into(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        if !self.packager.compiled().is_bare {
            return self.pack_wrapped(out);
        }
        self.body.emit(self.packager.compiled(), out)
    }

    #[cold]
    fn pack_wrapped(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let compiled = self.packager.compiled();
        if compiled.is_xml {
            return xml::pack(self.view(), &self.header, out);
        }
        if self.header.is_empty() && compiled.is_strict() {
            return Err(Problem::BadHeader { expected: compiled.header_bytes, found: 0 }.into());
        }
        let start = out.len();
        out.extend_from_slice(&self.header);
        let result = self.body.emit(compiled, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// The packed message.
    ///
    /// # Errors
    /// As [`Self::pack_into`].
    pub fn pack(&self) -> Result<Vec<u8>, Error> {
        let mut out = vec![];
        self.pack_into(&mut out)?;
        Ok(out)
    }
}

/// Sets or removes an inner field. Only this field and the fields around it are encoded. Returns whether
/// the field was or is present.
fn set_inside(
    packager: &Packager,
    body: &mut Body,
    spare: &mut Vec<Body>,
    numbers: &[u16],
    value: Option<&[u8]>,
) -> Result<bool, Error> {
    let compiled = packager.compiled();
    let Some((number, inside)) = numbers.split_first() else {
        return Err(Problem::BadPath.into());
    };
    if inside.is_empty() {
        return match value {
            Some(value) => body.set(compiled, *number, value).map(|()| true),
            None => Ok(body.remove(compiled, *number)),
        };
    }
    if value.is_none() && !body.field(packager, *number).is_some_and(|it| it.is_composite()) {
        return Ok(false);
    }
    let format = compiled.settable(*number).map_err(|problem| problem.in_field(*number))?;
    let inner = compiled.inner(format).ok_or_else(|| Problem::NotComposite.in_field(*number))?;
    let mut inner_body = spare.pop().unwrap_or_default();
    let mut packed = spare.pop().unwrap_or_default();
    inner_body.clear(inner.compiled());
    let mut result = Ok(true);
    if let Some(field) = body.field(packager, *number).filter(Field::is_composite) {
        packed.bytes.clear();
        let transparent = format.is_transparent().then(|| field.content());
        let fields = transparent.unwrap_or_else(|| {
            field.read(&mut packed.bytes);
            &packed.bytes
        });
        result = inner_body
            .load_framed(inner.compiled(), format, fields)
            .map(|()| true)
            .map_err(|error| error.withheld_if(format.is_sensitive));
    }
    if result.is_ok() {
        result = set_inside(inner, &mut inner_body, spare, inside, value);
    }
    packed.bytes.clear();
    packed.bytes.extend(format.is_marked.then_some(mark::FIELDS));
    if result == Ok(true) && !inner_body.is_empty() {
        // A message type without fields needs an empty bitmap, so that it can be read back.
        let received = &mut inner_body.index.bitmap_words;
        *received = (*received).max(1);
        result = inner_body.emit(inner.compiled(), &mut packed.bytes).map(|()| true);
    }
    let result = match result {
        Ok(false) => Ok(false),
        Ok(true) if inner_body.is_empty() => Ok(body.remove(compiled, *number)),
        Ok(true) => {
            let field = Setting { format, number: *number, value: &packed.bytes };
            body.set_frame(compiled, field).map(|()| true)
        }
        Err(error) => Err(error.inside(*number, None)),
    };
    packed.bytes.clear();
    packed.used = 0;
    spare.push(packed);
    spare.push(inner_body);
    result
}

/// A field that is set to a value.
#[derive(Clone, Copy)]
struct Setting<'a> {
    format: &'a FieldFormat,
    number: u16,
    value: &'a [u8],
}

impl Body {
    fn clear(&mut self, packager: &Compiled) {
        self.used = 0;
        self.last = 0;
        self.index.reset(packager.fields.len());
    }

    fn is_empty(&self) -> bool {
        self.index.highest() == 0 && !self.index.has_message_type
    }

    fn field<'a>(&'a self, packager: &'a Packager, number: u16) -> Option<Field<'a>> {
        MessageView::new(packager, &self.bytes[..self.used], &self.index).field(number)
    }

    fn load(&mut self, packager: &Compiled, bytes: &[u8]) -> Result<(), Error> {
        let end = walk(packager, bytes, &mut self.index);
        self.take(packager, bytes, end)
    }

    /// Replaces the content with the inner fields of a composite field.
    fn load_framed(
        &mut self,
        packager: &Compiled,
        frame: &FieldFormat,
        value: &[u8],
    ) -> Result<(), Error> {
        let end = walk_framed(packager, frame, value, &mut self.index);
        self.take(packager, value, end)
    }

    /// Copies the fields that were found in `bytes`.
    fn take(
        &mut self,
        packager: &Compiled,
        bytes: &[u8],
        end: Result<usize, Error>,
    ) -> Result<(), Error> {
        let end = match end {
            Ok(end) => end,
            Err(error) => {
                self.clear(packager);
                return Err(error);
            }
        };
        let bitmap = match packager.layout {
            Layout::Bitmap(bitmap) => bitmap.bytes_of(self.index.bitmap_words),
            Layout::Positional { .. } | Layout::Tagged => 0,
        };
        let start = self.index.bitmap_start;
        self.used = 0;
        self.grow(0, end - bitmap);
        self.used = end - bitmap;
        self.bytes[..start].copy_from_slice(&bytes[..start]);
        self.bytes[start..self.used].copy_from_slice(&bytes[start + bitmap..end]);
        if bitmap > 0 {
            self.index.shift(0, start + bitmap, start);
        }
        self.last = saturated(self.index.highest());
        let third = self.index.third_bitmap.range();
        if !third.is_empty() {
            let third = third.start - bitmap..third.end - bitmap;
            let third_field = match packager.layout {
                Layout::Bitmap(bitmap) => bitmap.third_field,
                Layout::Positional { .. } | Layout::Tagged => 0,
            };
            self.move_tail(usize::from(third_field), third.end, third.start);
            if self.index.present[2] != 0 {
                self.index.third_bitmap = Span::default();
            }
        }
        // Only a bitmap that is longer than necessary is stored, so that it is packed again.
        if self.index.bitmap_words == bitmap::words_needed(self.index.highest()) {
            self.index.bitmap_words = 0;
        }
        Ok(())
    }

    #[inline]
    fn set(&mut self, packager: &Compiled, number: u16, value: &[u8]) -> Result<(), Error> {
        let format = match packager.settable(number) {
            Ok(format) => format,
            Err(problem) => return Err(problem.in_field(number)),
        };
        let at = usize::from(number);
        if number > self.last || self.last == 0 && self.used == 0 {
            let start = self.used;
            self.grow(start, value.len() + ROOM_BYTES);
            if let Some(total) = append(format, value, &mut self.bytes[start..]) {
                self.used = start + total;
                self.last = number;
                self.index.spans[at] = Span::new(start, start + total);
                self.index.insert(at);
                return Ok(());
            }
        } else if self.index.is_present(number) {
            let mut buffer = [0; ROOM_BYTES];
            let image = &mut self.bytes[self.index.spans[at].range()];
            if append(format, value, &mut buffer) == Some(image.len()) {
                coding::copy_few(&buffer[..image.len()], image);
                return Ok(());
            }
        }
        self.set_slowly(packager, Setting { format, number, value })
    }

    fn set_slowly(&mut self, packager: &Compiled, field: Setting<'_>) -> Result<(), Error> {
        let Setting { format, number, value } = field;
        // jPOS packs any value of a composite field; who sends plain text has a peer that reads it so.
        if format.composite > 0 && packager.is_strict() {
            self.check_inner_fields(packager, format, value)
                .map_err(|error| error.inside(number, Some(0)).withheld_if(format.is_sensitive))?;
        }
        self.set_unchecked(packager, field)
    }

    /// Sets a composite field to its packed inner fields. Bytes of a fixed length in the message itself
    /// may lack their last fields until the message is packed.
    fn set_frame(&mut self, packager: &Compiled, field: Setting<'_>) -> Result<(), Error> {
        let Setting { format, value, .. } = field;
        if self.is_outermost && format.is_fixed_frame() && value.len() < format.length_max() {
            self.place(field, pack::plan_part(format, value));
            return Ok(());
        }
        self.set_unchecked(packager, field)
    }

    /// Sets a field without validating its inner fields.
    fn set_unchecked(&mut self, packager: &Compiled, field: Setting<'_>) -> Result<(), Error> {
        let Setting { format, number, value } = field;
        match pack::plan(format, packager.is_strict(), value) {
            Ok(plan) => {
                self.place(field, plan);
                Ok(())
            }
            Err(refusal) => Err(pack::refused(format, number, value, refusal)),
        }
    }

    /// Writes a planned value in its place.
    fn place(&mut self, field: Setting<'_>, plan: pack::Plan) {
        let Setting { format, number, value } = field;
        let at = usize::from(number);
        let start = if self.index.is_present(number) {
            let span = self.index.spans[at].range();
            if span.len() != plan.total {
                self.resize(at, plan.total);
            }
            span.start
        } else {
            self.open(at, plan.total)
        };
        let end = start + plan.total;
        self.index.spans[at] = Span::new(start, end);
        pack::write(format, number, value, plan, &mut self.bytes[start..end]);
    }

    /// Validates the inner fields of a composite field.
    #[cold]
    fn check_inner_fields(
        &mut self,
        packager: &Compiled,
        format: &FieldFormat,
        value: &[u8],
    ) -> Result<(), Error> {
        match packager.inner(format).filter(|_| format.holds_fields(value)) {
            Some(inner) => {
                let (value, _) = format.unmarked(value);
                walk_value(inner.compiled(), format, value, self.index.inner()).map(drop)
            }
            None => Ok(()),
        }
    }

    /// Makes room for an absent field; returns its offset.
    #[inline]
    fn open(&mut self, number: usize, total: usize) -> usize {
        let next = self.index.next_after(number);
        self.index.insert(number);
        self.last = self.last.max(saturated(number));
        let Some(next) = next else {
            let start = self.used;
            self.grow(start, total);
            self.used += total;
            return start;
        };
        let start = self.index.spans[next].range().start;
        self.move_tail(number, start, start + total);
        start
    }

    /// Resizes a field and moves the fields behind it.
    #[cold]
    fn resize(&mut self, number: usize, total: usize) {
        let span = self.index.spans[number].range();
        self.move_tail(number, span.end, span.start + total);
    }

    fn remove(&mut self, packager: &Compiled, number: u16) -> bool {
        if packager.settable(number).is_err() || !self.index.is_present(number) {
            return false;
        }
        let span = self.index.spans[usize::from(number)].range();
        self.index.remove(usize::from(number));
        self.last = saturated(self.index.highest());
        self.move_tail(usize::from(number), span.end, span.start);
        true
    }

    /// Moves the fields behind a field from `from` to `to`.
    fn move_tail(&mut self, number: usize, from: usize, to: usize) {
        let used = self.used - from + to;
        if to > from {
            self.grow(self.used, to - from);
        }
        self.bytes.copy_within(from..self.used, to);
        self.used = used;
        self.index.shift(number, from, to);
    }

    #[inline]
    fn grow(&mut self, start: usize, bytes: usize) {
        if self.bytes.len() < start + bytes {
            self.bytes.resize((start + bytes).next_power_of_two().max(256), 0);
        }
    }

    fn emit(&self, packager: &Compiled, out: &mut Vec<u8>) -> Result<(), Error> {
        for number in &packager.fixed_frames {
            self.check_frame(packager, *number)?;
        }
        match packager.layout {
            Layout::Bitmap(bitmap) => self.emit_with_bitmap(packager, bitmap, out),
            Layout::Positional { first, is_whole } => {
                self.emit_positions(packager, first, is_whole, out)
            }
            Layout::Tagged => {
                out.extend_from_slice(&self.bytes[..self.used]);
                Ok(())
            }
        }
    }

    /// Checks that a composite field of fixed length is complete, if it is present.
    fn check_frame(&self, packager: &Compiled, number: u16) -> Result<(), Error> {
        let at = usize::from(number);
        let (format, span) = (&packager.fields[at], self.index.spans[at].range());
        if !self.index.is_present(number) || span.len() == format.fixed_bytes as usize {
            return Ok(());
        }
        let (expected, found) = (format.length_max(), format.value_bytes(span.len()));
        Err(Problem::WrongLength { expected, found }.in_field(number))
    }

    #[inline]
    fn emit_with_bitmap(
        &self,
        packager: &Compiled,
        bitmap: BitmapFormat,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let index = &self.index;
        let has_third = index.present[2] != 0 || !index.third_bitmap.range().is_empty();
        if bitmap.third_field > 0 && has_third {
            return self.emit_with_third_bitmap(packager, bitmap, out);
        }
        let start = self.fields_start(packager)?;
        let words = bitmap::words(packager, bitmap, index.highest(), index.bitmap_words);
        if words == 0 {
            return Err(Problem::NoFields.into());
        }
        out.extend_from_slice(&self.bytes[..start]);
        bitmap::push(bitmap, &index.present[..usize::from(words)], out);
        out.extend_from_slice(&self.bytes[start..self.used]);
        Ok(())
    }

    /// The offset of the fields behind the message type, which must be present if the format has one.
    #[inline]
    fn fields_start(&self, packager: &Compiled) -> Result<usize, Error> {
        match (packager.has_message_type(), self.index.has_message_type) {
            (false, _) => Ok(0),
            (true, true) => Ok(self.index.spans[0].range().end),
            (true, false) => Err(Problem::NoMessageType.in_field(0)),
        }
    }

    /// Writes the third bitmap in the position of its field.
    #[cold]
    fn emit_with_third_bitmap(
        &self,
        packager: &Compiled,
        bitmap: BitmapFormat,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let index = &self.index;
        let start = self.fields_start(packager)?;
        let third_field = usize::from(bitmap.third_field);
        let mut present = index.present;
        let third = present[2];
        let bit = third_field - 1;
        present[bit / 64] |= FIRST_BIT >> (bit % 64);
        let words = if present[1] == 0 { index.bitmap_words.max(1) } else { 2 };
        let behind = index.next_after(third_field);
        let middle = behind.map_or(self.used, |number| index.spans[number].range().start);
        out.extend_from_slice(&self.bytes[..start]);
        bitmap::push(bitmap, &present[..usize::from(words)], out);
        out.extend_from_slice(&self.bytes[start..middle]);
        let coding = packager.fields[third_field].coding;
        bitmap::push(BitmapFormat { coding, ..bitmap }, &[third], out);
        out.extend_from_slice(&self.bytes[middle..self.used]);
        Ok(())
    }

    fn emit_positions(
        &self,
        packager: &Compiled,
        first: u16,
        is_whole: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let last = if is_whole { packager.fields.len() - 1 } else { self.index.highest() };
        for number in usize::from(first)..=last {
            let format = &packager.fields[number];
            let position = u16::try_from(number).unwrap_or(u16::MAX);
            if self.index.is_present(position) {
                out.extend_from_slice(&self.bytes[self.index.spans[number].range()]);
            } else if format.content != Content::Nothing && !is_whole {
                fill_gap(format, position, out)?;
            } else if format.content != Content::Nothing && packager.is_strict() {
                return Err(Problem::Gap { position }.in_field(position));
            }
        }
        Ok(())
    }
}

fn saturated(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Writes a missing field before the last present one.
fn fill_gap(format: &FieldFormat, position: u16, out: &mut Vec<u8>) -> Result<(), Error> {
    // Binary fields are not filled up, because the filling could not be distinguished from a value.
    let empty = &[];
    let plan = pack::plan(format, false, empty)
        .map_err(|_| Problem::Gap { position }.in_field(position))?;
    let start = out.len();
    out.resize(start + plan.total, 0);
    pack::write(format, position, empty, plan, &mut out[start..]);
    Ok(())
}
