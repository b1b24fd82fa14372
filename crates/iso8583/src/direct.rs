//! Packs values straight to bytes, without a message in between.

use crate::append::{ROOM_BYTES, append};
use crate::error::{Error, Problem};
use crate::index::{Index, WORDS};
use crate::message::{Message, bitmap_words, write_bitmap};
use crate::pack;
use crate::packager::{BitmapFormat, Compiled, Layout, Packager};
use crate::unpack::{FIRST, walk};

impl Packager {
    /// Appends the packed message of these values: characters in ISO-8859-1, or bytes.
    ///
    /// It is quickest if they come in the order of their numbers, the message type first.
    ///
    /// # Errors
    /// As [`Message::set_bytes`] and [`Message::pack_into`]; nothing is appended then.
    pub fn pack_values(&self, values: &[(u16, &[u8])], out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        let compiled = self.compiled();
        let is_sorted = values.is_sorted_by(|(one, _), (next, _)| one < next);
        let result = match compiled.layout {
            Layout::Bitmap(bitmap) if is_sorted && compiled.is_bare && bitmap.third_field == 0 => {
                Direct { compiled, bitmap, out }.all(values, start)
            }
            Layout::Bitmap(_) | Layout::Positional { .. } | Layout::Tagged => {
                self.pack_in_any_order(values, out)
            }
        };
        out.truncate(*result.as_ref().unwrap_or(&start));
        result.map(drop)
    }

    #[cold]
    fn pack_in_any_order(
        &self,
        values: &[(u16, &[u8])],
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let mut message = Message::new(self);
        for (number, value) in values {
            message.set_bytes(*number, value)?;
        }
        message.pack_into(out)?;
        Ok(out.len())
    }
}

struct Direct<'a> {
    compiled: &'a Compiled,
    bitmap: BitmapFormat,
    out: &'a mut Vec<u8>,
}

impl Direct<'_> {
    /// Writes all values, which are in order, from `start` on; says where the message ends.
    fn all(mut self, mut values: &[(u16, &[u8])], start: usize) -> Result<usize, Error> {
        let mut position = start;
        if let [(0, message_type), rest @ ..] = values {
            position = self.value(0, message_type, position)?;
            values = rest;
        } else if self.compiled.has_message_type() {
            return Err(Problem::NoMessageType.in_field(0));
        }
        let last = values.last().map_or(0, |(number, _)| usize::from(*number));
        let words = bitmap_words(self.compiled, self.bitmap, last, 0);
        if words == 0 {
            return Err(Problem::NoFields.into());
        }
        let bitmap_start = position;
        position += self.bitmap.bytes_of(words);
        let mut present = [0; WORDS];
        for (number, value) in values {
            let bit = usize::from(*number) - 1;
            position = self.value(*number, value, position)?;
            present[bit / 64 % WORDS] |= FIRST >> (bit % 64);
        }
        write_bitmap(self.bitmap, &present, words, &mut self.out[bitmap_start..]);
        Ok(position)
    }

    #[inline(always)]
    fn value(&mut self, number: u16, value: &[u8], start: usize) -> Result<usize, Error> {
        // What cannot be set is not usual either.
        if let (Some(format), Some(room)) =
            (self.compiled.fields.get(usize::from(number)), self.out.get_mut(start..))
            && let Some(taken) = append(format, value, room)
        {
            return Ok(start + taken);
        }
        self.unusual(number, value, start)
    }

    #[inline(never)]
    fn unusual(&mut self, number: u16, value: &[u8], start: usize) -> Result<usize, Error> {
        let format = self.compiled.settable(number).map_err(|it| it.in_field(number))?;
        if self.make_room(start + value.len() + ROOM_BYTES)
            && let Some(taken) = append(format, value, &mut self.out[start..])
        {
            return Ok(start + taken);
        }
        let plan = pack::plan(format, self.compiled.is_strict(), value)
            .map_err(|problem| problem.in_field(number))?;
        if let Some(inner) = self.compiled.inner(format) {
            walk(inner.compiled(), value, &mut Index::new())
                .map_err(|error| error.inside(number, None))?;
        }
        let end = start + plan.total;
        self.make_room(end);
        pack::write(format, number, value, plan, &mut self.out[start..end]);
        Ok(end)
    }

    /// Makes room until there; says whether it was missing.
    fn make_room(&mut self, end: usize) -> bool {
        let is_missing = self.out.len() < end;
        if is_missing {
            self.out.resize(end.next_power_of_two().max(FIRST_BYTES), 0);
        }
        is_missing
    }
}

/// Most messages are not longer, and it does not take long to clear.
const FIRST_BYTES: usize = 512;
