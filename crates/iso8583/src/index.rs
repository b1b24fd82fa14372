//! The offsets of the fields of a message.

use std::fmt;

/// The offsets of the fields of a message. A reused index does not allocate.
#[derive(Clone, Default)]
pub struct Index {
    pub(crate) spans: Vec<Span>,
    /// Field 1 is the first bit of the first word.
    pub(crate) present: [u64; WORDS],
    pub(crate) has_message_type: bool,
    pub(crate) bitmap_start: usize,
    /// The number of received words of the bitmap in front of the fields.
    pub(crate) bitmap_words: u8,
    /// The third bitmap, if it is among the fields.
    pub(crate) third_bitmap: Span,
    /// The decoded fields of a message in XML, or of a composite field in EBCDIC or BCD.
    pub(crate) fields: Vec<u8>,
    /// Whether the error was found in a composite field.
    pub(crate) is_inner_error: bool,
    /// The header of a message in XML.
    pub(crate) header: Vec<u8>,
    /// The index of a composite field.
    inner: Option<Box<Index>>,
}

pub(crate) const WORDS: usize = 16;

/// The first bit of a word: the bit of field 1.
pub(crate) const FIRST_BIT: u64 = 1 << 63;

/// The range of a field.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// Messages are shorter than 4 GiB: `walk` refuses longer ones.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "longer messages were refused")]
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    #[inline]
    pub(crate) const fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl Index {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the previous message, and prepares for a packager with `fields` fields.
    #[inline]
    pub(crate) fn reset(&mut self, fields: usize) {
        if self.spans.len() < fields {
            self.spans.resize(fields, Span::default());
        }
        self.present = [0; WORDS];
        self.has_message_type = false;
        self.bitmap_words = 0;
        self.bitmap_start = 0;
        self.third_bitmap = Span::default();
    }

    #[inline]
    pub(crate) fn is_present(&self, number: u16) -> bool {
        if number == 0 { self.has_message_type } else { present_in(&self.present, number) }
    }

    #[inline]
    pub(crate) fn insert(&mut self, number: usize) {
        let Some(bit) = number.checked_sub(1) else {
            self.has_message_type = true;
            return;
        };
        self.present[bit / 64 % WORDS] |= 1 << (63 - bit % 64);
    }

    pub(crate) fn remove(&mut self, number: usize) {
        let Some(bit) = number.checked_sub(1) else {
            self.has_message_type = false;
            return;
        };
        self.present[bit / 64 % WORDS] &= !(1 << (63 - bit % 64));
    }

    /// The highest present number; 0 for none.
    pub(crate) fn highest(&self) -> usize {
        let word = self.present.iter().rposition(|word| *word != 0);
        word.map_or(0, |word| word * 64 + 64 - self.present[word].trailing_zeros() as usize)
    }

    /// The present numbers without the message type.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u16> + use<> {
        let mut words = self.present;
        let mut word = 0;
        std::iter::from_fn(move || {
            while word < WORDS && words[word] == 0 {
                word += 1;
            }
            let left = words.get_mut(word)?;
            let bit = left.leading_zeros();
            *left &= !(1 << (63 - bit));
            u16::try_from(word * 64 + bit as usize + 1).ok()
        })
    }

    /// The lowest present number above this one.
    #[inline]
    pub(crate) fn next_after(&self, number: usize) -> Option<usize> {
        // Field n is bit n - 1: those above it begin at bit n.
        let mut word = number / 64;
        let mut left = self.present.get(word)? & (u64::MAX >> (number % 64));
        while left == 0 {
            word += 1;
            left = *self.present.get(word)?;
        }
        Some(word * 64 + left.leading_zeros() as usize + 1)
    }

    /// Moves the offsets from `from` on to `to`. Empty fields at `from` move if their numbers are above
    /// `number`.
    pub(crate) fn shift(&mut self, number: usize, from: usize, to: usize) {
        let start = Span::new(from, 0).start;
        let by = Span::new(to, 0).start.wrapping_sub(start);
        let behind = (number + 1).min(self.spans.len());
        let (before, behind) = self.spans.split_at_mut(behind);
        for span in before {
            let moves = span.start > start || span.start == start && span.end > start;
            let by = if moves { by } else { 0 };
            span.start = span.start.wrapping_add(by);
            span.end = span.end.wrapping_add(by);
        }
        for span in behind {
            let by = if span.start >= start { by } else { 0 };
            span.start = span.start.wrapping_add(by);
            span.end = span.end.wrapping_add(by);
        }
    }

    /// The index of a composite field.
    pub(crate) fn inner(&mut self) -> &mut Self {
        self.inner.get_or_insert_default()
    }
}

/// Shows only the lengths of values, because they may be card data.
impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.numbers().count() + usize::from(self.has_message_type);
        f.debug_struct("Index")
            .field("fields", &fields)
            .field("bitmap_words", &self.bitmap_words)
            .field("decoded_bytes", &self.fields.len())
            .field("header_bytes", &self.header.len())
            .field("inner", &self.inner)
            .finish()
    }
}

#[inline]
pub(crate) fn present_in(present: &[u64; WORDS], number: u16) -> bool {
    let Some(bit) = usize::from(number).checked_sub(1) else { return false };
    bit / 64 < WORDS && present[bit / 64] & (1 << (63 - bit % 64)) != 0
}
