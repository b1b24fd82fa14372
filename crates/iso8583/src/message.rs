//! A message that is built or changed: it keeps what every field looks like on the wire.

use crate::append::{ROOM_BYTES, append};
use crate::bitmap;
use crate::class::{Content, FieldFormat, mark};
use crate::coding;
use crate::error::{Error, FieldPath, Problem};
use crate::index::{Index, Span};
use crate::pack;
use crate::packager::{BitmapFormat, Compiled, Layout, Packager};
use crate::unpack::{FIRST, split_header, walk, walk_framed};
use crate::view::{Field, MessageView};
use crate::xml;

/// A message that can be changed.
///
/// It holds the packed bytes of each field, so that a field that is set is the only one that is
/// encoded. Keep a message and [`clear`](Self::clear) or [`load`](Self::load) it for the next one:
/// it then allocates nothing.
#[derive(Clone)]
pub struct Message {
    packager: Packager,
    body: Body,
    /// Bodies of fields inside others, and texts that are not ASCII, while they are set.
    spare: Vec<Body>,
    latin1: Vec<u8>,
    header: Vec<u8>,
    /// The packager's messages are XML: values say what they are.
    is_xml: bool,
}

/// The packed fields one behind the other, in order, without a bitmap.
#[derive(Clone, Debug, Default)]
struct Body {
    /// The first `used` bytes count; the rest is room.
    bytes: Vec<u8>,
    used: usize,
    /// The highest number that is present.
    last: u16,
    index: Index,
}

impl Message {
    /// An empty message.
    #[must_use]
    pub fn new(packager: &Packager) -> Self {
        let mut body = Body::default();
        body.clear(packager.compiled());
        let is_xml = packager.compiled().is_xml;
        let (spare, latin1, header) = (vec![], vec![], vec![]);
        Self { packager: packager.clone(), body, spare, latin1, header, is_xml }
    }

    /// Takes all fields out, and the header.
    pub fn clear(&mut self) {
        self.header.clear();
        self.body.clear(self.packager.compiled());
    }

    /// Becomes the message that was received.
    ///
    /// # Errors
    /// As [`Packager::unpack`]; the message is then empty.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if !self.packager.compiled().is_bare {
            return self.load_unusual(bytes);
        }
        self.body.load(self.packager.compiled(), bytes)
    }

    #[cold]
    fn load_unusual(&mut self, bytes: &[u8]) -> Result<(), Error> {
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

    /// The header in front of the message; empty if none was set or received.
    #[must_use]
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Sets the header in front of the message.
    ///
    /// # Errors
    /// If it is not as long as the packager's header. Messages in XML have any.
    pub fn set_header(&mut self, header: &[u8]) -> Result<(), Error> {
        let (expected, found) = (self.packager.header_bytes(), header.len());
        if found != expected && !self.is_xml {
            return Err(Problem::BadHeader { expected, found }.into());
        }
        self.header.clear();
        self.header.extend_from_slice(header);
        Ok(())
    }

    /// Sets a field, or one inside another, to a text. The message type is field 0.
    ///
    /// Among positions, those before it are filled up where they are missing; bytes cannot be, and
    /// have to be set first.
    ///
    /// # Errors
    /// If the packager lacks the field or the value is not what the field may hold. The message is
    /// then as it was.
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

    /// Sets a field of a message in XML to what is appended; the mark is told.
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

    /// Takes a field out; says whether it was there.
    ///
    /// Among positions, those that were filled up for it stay: nobody can tell them from values.
    ///
    /// # Errors
    /// If fields inside a field cannot be read.
    pub fn remove(&mut self, path: impl Into<FieldPath>) -> Result<bool, Error> {
        let path = path.into();
        match path.numbers() {
            [number] => Ok(self.body.remove(self.packager.compiled(), *number)),
            numbers => set_inside(&self.packager, &mut self.body, &mut self.spare, numbers, None),
        }
    }

    /// The fields, as in a received message.
    #[must_use]
    pub fn view(&self) -> MessageView<'_> {
        MessageView::new(&self.packager, &self.body.bytes[..self.body.used], &self.body.index)
    }

    /// A field, if it is there.
    #[must_use]
    pub fn field(&self, number: u16) -> Option<Field<'_>> {
        self.view().field(number)
    }

    /// A field's value as text, if the field is there.
    #[must_use]
    pub fn text(&self, number: u16) -> Option<String> {
        self.view().text(number)
    }

    /// Appends the packed message.
    ///
    /// # Errors
    /// If there is no message type where one belongs, or nothing beside it.
    #[inline]
    pub fn pack_into(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        if !self.packager.compiled().is_bare {
            return self.pack_unusual(out);
        }
        self.body.emit(self.packager.compiled(), out)
    }

    #[cold]
    fn pack_unusual(&self, out: &mut Vec<u8>) -> Result<(), Error> {
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

/// Sets or removes a field inside others. Only it is encoded, and the frames around it; the images
/// of its neighbours are kept. Says whether it was there, or is now.
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
        // A message type that waits for its fields has a bitmap of none, to be read back.
        let received = &mut inner_body.index.bitmap_words;
        *received = (*received).max(1);
        result = inner_body.emit(inner.compiled(), &mut packed.bytes).map(|()| true);
    }
    let result = match result {
        Ok(false) => Ok(false),
        Ok(true) if inner_body.is_empty() => Ok(body.remove(compiled, *number)),
        Ok(true) => body.put(compiled, format, *number, &packed.bytes).map(|()| true),
        Err(error) => Err(error.inside(*number, None)),
    };
    packed.bytes.clear();
    packed.used = 0;
    spare.push(packed);
    spare.push(inner_body);
    result
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

    /// Becomes the fields inside a field.
    fn load_framed(
        &mut self,
        packager: &Compiled,
        frame: &FieldFormat,
        value: &[u8],
    ) -> Result<(), Error> {
        let end = walk_framed(packager, frame, value, &mut self.index);
        self.take(packager, value, end)
    }

    /// Becomes what was found in these bytes.
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
        self.make_room(0, end - bitmap);
        self.used = end - bitmap;
        self.bytes[..start].copy_from_slice(&bytes[..start]);
        self.bytes[start..self.used].copy_from_slice(&bytes[start + bitmap..end]);
        if bitmap > 0 {
            self.index.shift(0, start + bitmap, start);
        }
        self.last = short(self.index.highest());
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
        // Only a bitmap that the fields do not need is kept as it came.
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
            self.make_room(start, value.len() + ROOM_BYTES);
            if let Some(total) = append(format, value, &mut self.bytes[start..]) {
                self.used = start + total;
                self.last = number;
                self.index.spans[at] = Span::new(start, start + total);
                self.index.insert(at);
                return Ok(());
            }
        } else if self.index.is_present(number) {
            let mut room = [0; ROOM_BYTES];
            let place = &mut self.bytes[self.index.spans[at].range()];
            if append(format, value, &mut room) == Some(place.len()) {
                coding::copy_few(&room[..place.len()], place);
                return Ok(());
            }
        }
        self.set_anywhere(packager, format, number, value)
    }

    fn set_anywhere(
        &mut self,
        packager: &Compiled,
        format: &FieldFormat,
        number: u16,
        value: &[u8],
    ) -> Result<(), Error> {
        if format.composite > 0 {
            self.check_inside(packager, format, value)
                .map_err(|error| error.inside(number, Some(0)).withheld_if(format.is_sensitive))?;
        }
        self.put(packager, format, number, value)
    }

    /// Sets a field to a value of which only the frame is checked.
    fn put(
        &mut self,
        packager: &Compiled,
        format: &FieldFormat,
        number: u16,
        value: &[u8],
    ) -> Result<(), Error> {
        let plan = match pack::plan(format, packager.is_strict(), value) {
            Ok(plan) => plan,
            Err(refusal) => return Err(pack::refused(format, number, value, refusal)),
        };
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
        Ok(())
    }

    /// Are these bytes what the field's own packager packs?
    #[cold]
    fn check_inside(
        &mut self,
        packager: &Compiled,
        format: &FieldFormat,
        value: &[u8],
    ) -> Result<(), Error> {
        match packager.inner(format).filter(|_| format.holds_fields(value)) {
            Some(inner) => {
                let (value, _) = format.unmarked(value);
                walk_framed(inner.compiled(), format, value, self.index.inner()).map(drop)
            }
            None => Ok(()),
        }
    }

    /// Makes room for a field that was not there; says where.
    #[inline]
    fn open(&mut self, number: usize, total: usize) -> usize {
        let next = self.index.next_after(number);
        self.index.insert(number);
        self.last = self.last.max(short(number));
        let Some(next) = next else {
            let start = self.used;
            self.make_room(start, total);
            self.used += total;
            return start;
        };
        let start = self.index.spans[next].range().start;
        self.move_tail(number, start, start + total);
        start
    }

    /// Gives a field another size; what lies behind moves.
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
        self.last = short(self.index.highest());
        self.move_tail(usize::from(number), span.end, span.start);
        true
    }

    /// Moves what stands behind a field, from `from` to `to`.
    fn move_tail(&mut self, number: usize, from: usize, to: usize) {
        let used = self.used - from + to;
        if to > from {
            self.make_room(self.used, to - from);
        }
        self.bytes.copy_within(from..self.used, to);
        self.used = used;
        self.index.shift(number, from, to);
    }

    #[inline]
    fn make_room(&mut self, start: usize, bytes: usize) {
        if self.bytes.len() < start + bytes {
            self.bytes.resize((start + bytes).next_power_of_two().max(256), 0);
        }
    }

    fn emit(&self, packager: &Compiled, out: &mut Vec<u8>) -> Result<(), Error> {
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

    /// Where the fields begin, behind the message type, which has to be there if there is one.
    #[inline]
    fn fields_start(&self, packager: &Compiled) -> Result<usize, Error> {
        match (packager.has_message_type(), self.index.has_message_type) {
            (false, _) => Ok(0),
            (true, true) => Ok(self.index.spans[0].range().end),
            (true, false) => Err(Problem::NoMessageType.in_field(0)),
        }
    }

    /// The third bitmap stands where its field would, behind those with lower numbers.
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
        present[bit / 64] |= FIRST >> (bit % 64);
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

fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Writes a position that has no value but stands below one that has.
fn fill_gap(format: &FieldFormat, position: u16, out: &mut Vec<u8>) -> Result<(), Error> {
    // Bytes are not made up: nobody could tell them from real ones.
    let empty = &[];
    let plan = pack::plan(format, false, empty)
        .map_err(|_| Problem::Gap { position }.in_field(position))?;
    let start = out.len();
    out.resize(start + plan.total, 0);
    pack::write(format, position, empty, plan, &mut out[start..]);
    Ok(())
}
