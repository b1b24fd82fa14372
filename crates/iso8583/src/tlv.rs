//! BER-TLV, the format of field 55: reads TLVs in place and edits them without changing other TLVs.
//!
//! ```
//! use iso8583::tlv::{Tag, Tags, TlvList};
//!
//! let received = [0x9F, 0x36, 0x02, 0x00, 0x42, 0x82, 0x81, 0x02, 0x39, 0x00, 0xDF, 0x01, 0x00];
//! let counter = Tag::from_number(0x9F36)?;
//! assert_eq!(Tags::new(&received).find(counter)?, Some([0x00, 0x42].as_slice()));
//!
//! // The other TLVs are unchanged: 82 with its long length, the unknown DF01, and the order.
//! let mut list = TlvList::read(&received)?;
//! list.set(counter, &[0x00, 0x43]);
//! assert_eq!(list.as_bytes()[..5], [0x9F, 0x36, 0x02, 0x00, 0x43]);
//! assert_eq!(list.as_bytes()[5..], received[5..]);
//! # Ok::<(), iso8583::tlv::TlvError>(())
//! ```
//!
//! Tags have up to four bytes; unknown tags are supported. Lengths have up to five bytes and are
//! compared with the available bytes first. Indefinite lengths are refused, because EMV does not have
//! them. Zeros between the TLVs are padding and stay. The value of a constructed tag can be read with
//! [`Tags`] again.
//!
//! `Debug` shows tags and lengths, never values.

use std::fmt;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// The maximum length of a tag.
const TAG_BYTES_MAX: usize = 4;
/// The maximum number of bytes of a long length behind its first byte.
const LENGTH_BYTES_MAX: usize = 4;
/// The flag of a long length in its first byte.
const LONG_LENGTH: u8 = 0x80;

/// A tag: its bytes as a number, such as 0x9F36.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(u32);

/// A tag with its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    pub tag: Tag,
    pub value: &'a [u8],
    /// The bytes of tag, length and value.
    pub raw: &'a [u8],
    /// The offset of the TLV.
    pub at: usize,
}

/// Iterates over TLVs in place. Ends after the first error.
#[derive(Clone)]
pub struct Tags<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// An editable list of TLVs. Unchanged TLVs keep their bytes and their position.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlvList {
    /// Always a valid sequence of TLVs.
    bytes: Vec<u8>,
}

/// Why bytes are not valid TLVs. `at` is the offset of the TLV. Errors never have values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlvError {
    /// The bytes end in a tag.
    #[error("the tag at byte {at} is cut off")]
    TagCutOff {
        /// The offset of the TLV.
        at: usize,
    },
    /// A tag has more than four bytes.
    #[error("the tag at byte {at} is longer than four bytes")]
    TagTooLong {
        /// The offset of the TLV.
        at: usize,
    },
    /// The bytes end before or in the length.
    #[error("tag {tag} at byte {at}: its length is cut off")]
    LengthCutOff {
        /// The offset of the TLV.
        at: usize,
        tag: Tag,
    },
    /// A length is indefinite, or has more than four bytes.
    #[error("tag {tag} at byte {at}: a length cannot begin with {found:02X}")]
    LengthForm {
        /// The offset of the TLV.
        at: usize,
        tag: Tag,
        /// The first byte of the length.
        found: u8,
    },
    /// The value is longer than the remaining bytes.
    #[error("tag {tag} at byte {at}: the length is {length}, but {available} bytes remain")]
    ValueCutOff {
        at: usize,
        /// The offset of the TLV.
        tag: Tag,
        length: u32,
        /// The remaining bytes.
        available: usize,
    },
    /// A number is not a valid tag.
    #[error("{number:X} is not a valid tag")]
    NoTag {
        /// The number that was given.
        number: u32,
    },
}

impl Tag {
    /// The tag with these bytes: `0x9F36` is the tag 9F 36.
    pub const fn from_number(number: u32) -> Result<Self, TlvError> {
        let tag = Self(number);
        let (bytes, unused) = (number.to_be_bytes(), tag.unused());
        if number == 0 {
            return Err(TlvError::NoTag { number });
        }
        let mut at = unused;
        while at < TAG_BYTES_MAX {
            let is_last = at + 1 == TAG_BYTES_MAX;
            if continues(bytes[at], at == unused) == is_last {
                return Err(TlvError::NoTag { number });
            }
            at += 1;
        }
        Ok(tag)
    }

    /// The bytes as a number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Whether the value consists of TLVs.
    pub const fn is_constructed(self) -> bool {
        self.0.to_be_bytes()[self.unused()] & 0x20 != 0
    }

    /// The number of bytes.
    pub const fn bytes(self) -> usize {
        TAG_BYTES_MAX - self.unused()
    }

    /// The number of leading zero bytes in front of the tag, whose first byte is never zero.
    const fn unused(self) -> usize {
        (self.0.leading_zeros() / 8) as usize
    }
}

/// Whether another byte of the tag follows this one.
const fn continues(byte: u8, is_first: bool) -> bool {
    if is_first { byte & 0x1F == 0x1F } else { byte & 0x80 != 0 }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02X}", self.0)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Tlv<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.tag, self.value.len())
    }
}

impl<'a> Tags<'a> {
    /// Iterates over the TLVs of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The value of the first remaining TLV of this tag. The TLVs behind it are not validated.
    pub fn find(self, tag: Tag) -> Result<Option<&'a [u8]>, TlvError> {
        for tlv in self {
            let tlv = tlv?;
            if tlv.tag == tag {
                return Ok(Some(tlv.value));
            }
        }
        Ok(None)
    }

    /// The tag at `at`, and its end.
    fn tag(&self, at: usize) -> Result<(Tag, usize), TlvError> {
        let mut number = 0;
        for (position, &byte) in self.bytes[at..].iter().take(TAG_BYTES_MAX).enumerate() {
            number = number << 8 | u32::from(byte);
            if !continues(byte, position == 0) {
                return Ok((Tag(number), at + position + 1));
            }
        }
        let is_cut_off = self.bytes.len() - at < TAG_BYTES_MAX;
        Err(if is_cut_off { TlvError::TagCutOff { at } } else { TlvError::TagTooLong { at } })
    }

    fn read(&self, at: usize) -> Result<Tlv<'a>, TlvError> {
        let (tag, length_at) = self.tag(at)?;
        let cut_off = TlvError::LengthCutOff { at, tag };
        let first = *self.bytes.get(length_at).ok_or(cut_off)?;
        let (length, value_at) = match usize::from(first.wrapping_sub(LONG_LENGTH)) {
            _ if first < LONG_LENGTH => (u32::from(first), length_at + 1),
            more @ 1..=LENGTH_BYTES_MAX => {
                let end = length_at + 1 + more;
                let bytes = self.bytes.get(length_at + 1..end).ok_or(cut_off)?;
                (bytes.iter().fold(0, |length, byte| length << 8 | u32::from(*byte)), end)
            }
            _ => return Err(TlvError::LengthForm { at, tag, found: first }),
        };
        let rest = &self.bytes[value_at..];
        let value = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let available = rest.len();
        let value = value.ok_or(TlvError::ValueCutOff { at, tag, length, available })?;
        Ok(Tlv { tag, value, raw: &self.bytes[at..value_at + value.len()], at })
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = Result<Tlv<'a>, TlvError>;

    fn next(&mut self) -> Option<Self::Item> {
        let padding = self.bytes[self.at..].iter().position(|byte| *byte != 0);
        let Some(padding) = padding else {
            self.at = self.bytes.len();
            return None;
        };
        let read = self.read(self.at + padding);
        self.at = match &read {
            Ok(tlv) => tlv.at + tlv.raw.len(),
            Err(_) => self.bytes.len(),
        };
        Some(read)
    }
}

impl fmt::Debug for Tags<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl TlvList {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// A list with a copy of these bytes, if they are valid TLVs.
    pub fn read(bytes: &[u8]) -> Result<Self, TlvError> {
        let mut list = Self::new();
        list.read_again(bytes)?;
        Ok(list)
    }

    /// As [`TlvList::read`], but reuses the memory of this list, which is unchanged on an error.
    pub fn read_again(&mut self, bytes: &[u8]) -> Result<(), TlvError> {
        Tags::new(bytes).try_for_each(|tlv| tlv.map(|_| ()))?;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// All TLVs as they are sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The TLVs in order.
    pub fn iter(&self) -> impl Iterator<Item = Tlv<'_>> {
        // The bytes are always valid.
        Tags::new(&self.bytes).map_while(Result::ok)
    }

    /// The value of the first TLV of this tag.
    pub fn get(&self, tag: Tag) -> Option<&[u8]> {
        self.find(tag).map(|tlv| tlv.value)
    }

    /// Sets the value of the first TLV of this tag, or appends a TLV. An equal value changes no byte.
    pub fn set(&mut self, tag: Tag, value: &[u8]) {
        let end = self.bytes.len();
        let range = match self.find(tag) {
            Some(found) if found.value == value => return,
            Some(found) => range_of(&found),
            None => end..end,
        };
        self.write(range, tag, value);
    }

    /// Inserts a TLV at `index`, or appends it if the list is shorter.
    pub fn insert(&mut self, index: usize, tag: Tag, value: &[u8]) {
        let at = self.iter().nth(index).map_or(self.bytes.len(), |tlv| tlv.at);
        self.write(at..at, tag, value);
    }

    /// Removes the first TLV of this tag; returns whether there was one.
    pub fn remove(&mut self, tag: Tag) -> bool {
        let found = self.find(tag).map(|tlv| range_of(&tlv));
        found.map(|range| self.bytes.drain(range)).is_some()
    }

    fn find(&self, tag: Tag) -> Option<Tlv<'_>> {
        self.iter().find(|tlv| tlv.tag == tag)
    }

    /// Replaces these bytes with a TLV, whose length is as short as possible.
    fn write(&mut self, range: Range<usize>, tag: Tag, value: &[u8]) {
        let number = tag.0.to_be_bytes();
        let length = u32::try_from(value.len()).expect("a value is shorter than 4 GiB");
        let unused = length.leading_zeros() / 8;
        let mut coded = [0; 1 + LENGTH_BYTES_MAX];
        coded[1..].copy_from_slice(&length.to_be_bytes());
        let first = match length {
            0..0x80 => LENGTH_BYTES_MAX,
            _ => {
                coded[unused as usize] = LONG_LENGTH | (4 - unused).to_le_bytes()[0];
                unused as usize
            }
        };
        let pieces = number[tag.unused()..].iter().chain(&coded[first..]).chain(value);
        self.bytes.splice(range, pieces.copied());
    }
}

impl fmt::Debug for TlvList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn range_of(tlv: &Tlv<'_>) -> Range<usize> {
    tlv.at..tlv.at + tlv.raw.len()
}
