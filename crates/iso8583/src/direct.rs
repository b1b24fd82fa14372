//! Packs values straight to bytes, without a message in between.

use crate::error::{Error, Problem};
use crate::index::{Index, WORDS};
use crate::message::{Message, bitmap_words, emit_bitmap};
use crate::pack;
use crate::packager::{BitmapFormat, Compiled, Layout, Packager};
use crate::unpack::walk;

impl Packager {
    /// Appends the packed message of these values: characters in ISO-8859-1, or bytes.
    ///
    /// It is quickest if they come in the order of their numbers, the message type first.
    ///
    /// # Errors
    /// As [`Message::set`] and [`Message::pack_into`]; nothing is appended then.
    #[inline]
    pub fn pack_values<'v, I>(&self, values: I, out: &mut Vec<u8>) -> Result<(), Error>
    where
        I: IntoIterator<Item = (u16, &'v [u8])>,
        I::IntoIter: Clone,
    {
        let values = values.into_iter();
        let start = out.len();
        let compiled = self.compiled();
        let bitmap = match compiled.layout {
            Layout::Bitmap(bitmap) if compiled.is_bare && bitmap.third_field == 0 => bitmap,
            Layout::Bitmap(_) | Layout::Positional { .. } | Layout::Tagged => {
                return self.pack_in_any_order(values, out);
            }
        };
        let Some(present) = present_in_order(values.clone()) else {
            return self.pack_in_any_order(values, out);
        };
        let mut direct = Direct { compiled, bitmap, present, position: start, out };
        let result = direct.all(values);
        let end = if result.is_ok() { direct.position } else { start };
        out.truncate(end);
        result
    }

    #[cold]
    fn pack_in_any_order<'v>(
        &self,
        values: impl Iterator<Item = (u16, &'v [u8])>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut message = Message::new(self);
        for (number, value) in values {
            message.set_bytes(number, value)?;
        }
        message.pack_into(out)
    }
}

/// The fields beside the message type; nothing if they are not in order.
#[inline]
fn present_in_order<'v>(values: impl Iterator<Item = (u16, &'v [u8])>) -> Option<[u64; WORDS]> {
    let mut present = [0; WORDS];
    let mut next = 0;
    for (number, _) in values {
        if number < next {
            return None;
        }
        next = number + 1;
        if let Some(bit) = usize::from(number).checked_sub(1) {
            *present.get_mut(bit / 64)? |= 1 << (63 - bit % 64);
        }
    }
    Some(present)
}

struct Direct<'a> {
    compiled: &'a Compiled,
    bitmap: BitmapFormat,
    present: [u64; WORDS],
    position: usize,
    out: &'a mut Vec<u8>,
}

impl Direct<'_> {
    #[inline]
    fn all<'v>(&mut self, values: impl Iterator<Item = (u16, &'v [u8])>) -> Result<(), Error> {
        let mut wants_message_type = self.compiled.has_message_type();
        let mut wants_bitmap = true;
        for (number, value) in values {
            if wants_bitmap && number > 0 {
                if wants_message_type {
                    return Err(Problem::NoMessageType.in_field(0));
                }
                self.bitmap()?;
                wants_bitmap = false;
            }
            wants_message_type &= number != 0;
            self.value(number, value)?;
        }
        if !wants_bitmap {
            return Ok(());
        }
        if bitmap_words(self.compiled, self.bitmap, &self.present, 0) == 0 {
            return Err(Problem::NoFields.into());
        }
        self.bitmap()
    }

    fn bitmap(&mut self) -> Result<(), Error> {
        let words = bitmap_words(self.compiled, self.bitmap, &self.present, 0);
        if words > self.bitmap.words_max {
            let number = (usize::from(self.bitmap.words_max) * 64 + 1).min(usize::from(u16::MAX));
            return Err(Problem::UnknownField.in_field(u16::try_from(number).unwrap_or(u16::MAX)));
        }
        self.out.truncate(self.position);
        emit_bitmap(self.bitmap, &self.present, words, self.out);
        self.position = self.out.len();
        Ok(())
    }

    #[inline]
    fn value(&mut self, number: u16, value: &[u8]) -> Result<(), Error> {
        let format = match self.compiled.settable(number) {
            Ok(format) => format,
            Err(problem) => return Err(problem.in_field(number)),
        };
        let needed = self.position + value.len() + format.fixed_bytes as usize + pack::SLACK_BYTES;
        if self.out.len() < needed {
            self.out.resize(needed.next_power_of_two().max(FIRST_BYTES), 0);
        }
        match pack::append(format, value, &mut self.out[self.position..]) {
            Some(taken) => {
                self.position += taken;
                Ok(())
            }
            None => self.unusual(number, value),
        }
    }

    #[inline(never)]
    fn unusual(&mut self, number: u16, value: &[u8]) -> Result<(), Error> {
        let format = self.compiled.settable(number).map_err(|it| it.in_field(number))?;
        let plan = pack::plan(format, self.compiled.is_strict(), value)
            .map_err(|problem| problem.in_field(number))?;
        if let Some(inner) = self.compiled.inner(format) {
            walk(inner.compiled(), value, &mut Index::new())
                .map_err(|error| error.inside(number, None))?;
        }
        let end = self.position + plan.total;
        if self.out.len() < end {
            self.out.resize(end.next_power_of_two(), 0);
        }
        pack::write(format, number, value, plan, &mut self.out[self.position..end]);
        self.position = end;
        Ok(())
    }
}

/// Most messages are not longer.
const FIRST_BYTES: usize = 1_024;
