//! Packs values directly to bytes without a [`Message`].

use crate::append::{ROOM_BYTES, append};
use crate::bitmap;
use crate::error::{Error, Problem};
use crate::index::{FIRST_BIT, Index, WORDS};
use crate::message::Message;
use crate::pack;
use crate::packager::{BitmapFormat, Compiled, Layout, Packager};
use crate::walk::walk_value;

impl Packager {
    /// Appends the packed message of these values: characters in ISO-8859-1, or bytes.
    ///
    /// It is fastest for values in the order of their numbers, with the message type first.
    ///
    /// # Errors
    /// As [`Message::set_bytes`] and [`Message::pack_into`]; nothing is appended then.
    pub fn pack_values(&self, values: &[(u16, &[u8])], out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        let compiled = self.compiled();
        let is_sorted = values.is_sorted_by(|(one, _), (next, _)| one < next);
        let result = match compiled.layout {
            Layout::Bitmap(bitmap) if is_sorted && compiled.is_bare && bitmap.third_field == 0 => {
                pack_in_order(compiled, bitmap, values, out)
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

/// Appends values in ascending order; returns the end of the message.
fn pack_in_order(
    compiled: &Compiled,
    format: BitmapFormat,
    mut values: &[(u16, &[u8])],
    out: &mut Vec<u8>,
) -> Result<usize, Error> {
    let mut position = out.len();
    if let [(0, message_type), rest @ ..] = values {
        position = pack_slowly(compiled, (0, message_type), position, out)?;
        values = rest;
    } else if compiled.has_message_type() {
        return Err(Problem::NoMessageType.in_field(0));
    }
    let last = values.last().map_or(0, |(number, _)| usize::from(*number));
    let words = bitmap::words(compiled, format, last, 0);
    if words == 0 {
        return Err(Problem::NoFields.into());
    }
    let bitmap_start = position;
    position += format.bytes_of(words);
    let mut present = [0; WORDS];
    let fields = compiled.fields.as_slice();
    for (number, value) in values {
        // A field that cannot be set has no fast path.
        let taken = match (fields.get(usize::from(*number)), out.get_mut(position..)) {
            (Some(format), Some(room)) => append(format, value, room),
            (Some(_) | None, _) => None,
        };
        position = match taken {
            Some(taken) => position + taken,
            None => pack_slowly(compiled, (*number, value), position, out)?,
        };
        let bit = usize::from(*number) - 1;
        present[bit / 64 % WORDS] |= FIRST_BIT >> (bit % 64);
    }
    bitmap::write(format, &present[..usize::from(words)], &mut out[bitmap_start..]);
    Ok(position)
}

/// Grows the buffer and writes any value; returns its end.
#[inline(never)]
fn pack_slowly(
    compiled: &Compiled,
    (number, value): (u16, &[u8]),
    start: usize,
    out: &mut Vec<u8>,
) -> Result<usize, Error> {
    let format = compiled.settable(number).map_err(|it| it.in_field(number))?;
    if grow(start + value.len() + ROOM_BYTES, out)
        && let Some(taken) = append(format, value, &mut out[start..])
    {
        return Ok(start + taken);
    }
    let plan = pack::plan(format, compiled.is_strict(), value)
        .map_err(|refusal| pack::refused(format, number, value, refusal))?;
    if let Some(inner) = compiled.inner(format).filter(|_| compiled.is_strict()) {
        walk_value(inner.compiled(), format, value, &mut Index::new())
            .map_err(|error| error.inside(number, Some(0)).withheld_if(format.is_sensitive))?;
    }
    let end = start + plan.total;
    grow(end, out);
    pack::write(format, number, value, plan, &mut out[start..end]);
    Ok(end)
}

/// Grows the buffer to at least `end` bytes; returns whether it was shorter.
fn grow(end: usize, out: &mut Vec<u8>) -> bool {
    let is_missing = out.len() < end;
    if is_missing {
        out.resize(end.next_power_of_two().max(FIRST_BYTES), 0);
    }
    is_missing
}

/// The initial size of the buffer, which suffices for most messages.
const FIRST_BYTES: usize = 512;
