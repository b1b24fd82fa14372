//! BER-TLV, as field 55 carries it: read in place, edited without touching the rest.
//!
//! ```
//! use iso8583::tlv::{Tag, Tags, TlvList};
//!
//! let received = [0x9F, 0x36, 0x02, 0x00, 0x42, 0x82, 0x81, 0x02, 0x39, 0x00, 0xDF, 0x01, 0x00];
//! let counter = Tag::from_number(0x9F36)?;
//! assert_eq!(Tags::new(&received).find(counter)?, Some([0x00, 0x42].as_slice()));
//!
//! // What is not changed stays as it came: 82 with its long length, the unknown DF01, the order.
//! let mut list = TlvList::read(&received)?;
//! list.set(counter, &[0x00, 0x43]);
//! assert_eq!(list.as_bytes()[..5], [0x9F, 0x36, 0x02, 0x00, 0x43]);
//! assert_eq!(list.as_bytes()[5..], received[5..]);
//! # Ok::<(), iso8583::tlv::TlvError>(())
//! ```
//!
//! Tags have up to four bytes, known or not; lengths are written with up to four more, and are
//! compared with what is there before anything is done with them. An indefinite length is refused,
//! as EMV does not have it. Zeros between the TLVs are padding and stay. The value of a constructed
//! tag is read with [`Tags`] again.
//!
//! Nothing here shows a value by itself: `Debug` names tags and lengths.

use std::fmt;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// The most bytes of a tag.
const TAG_BYTES_MAX: usize = 4;
/// The most bytes of a length, after the one that counts them.
const LENGTH_BYTES_MAX: usize = 4;
/// What a long length begins with.
const LONG_LENGTH: u8 = 0x80;

/// The name of a value: its bytes as a number, such as 0x9F36.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(u32);

/// One tag with its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// What it is.
    pub tag: Tag,
    /// What it says.
    pub value: &'a [u8],
    /// Tag, length and value as they stand.
    pub raw: &'a [u8],
    /// Where it begins among the bytes that are read.
    pub at: usize,
}

/// Reads TLVs one after the other, in place. Ends after the first error.
#[derive(Clone)]
pub struct Tags<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// TLVs to be edited. What is not changed keeps its bytes and its place.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlvList {
    /// Always readable as TLVs to the end.
    bytes: Vec<u8>,
}

/// Why bytes are no TLVs. `at` is where the TLV begins; values are never told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlvError {
    /// The bytes end inside a tag.
    #[error("the tag at byte {at} is cut off")]
    TagCutOff {
        /// Where.
        at: usize,
    },
    /// A tag of more than four bytes.
    #[error("the tag at byte {at} is longer than four bytes")]
    TagTooLong {
        /// Where.
        at: usize,
    },
    /// The bytes end before or inside the length.
    #[error("tag {tag} at byte {at}: its length is cut off")]
    LengthCutOff {
        /// Where.
        at: usize,
        /// Which.
        tag: Tag,
    },
    /// A length that is indefinite, or has more than four bytes.
    #[error("tag {tag} at byte {at}: no length begins with {found:02X}")]
    LengthForm {
        /// Where.
        at: usize,
        /// Which.
        tag: Tag,
        /// What the length begins with.
        found: u8,
    },
    /// The value is longer than what is there.
    #[error("tag {tag} at byte {at}: {length} bytes are announced, {available} are there")]
    ValueCutOff {
        /// Where.
        at: usize,
        /// Which.
        tag: Tag,
        /// What the length says.
        length: u32,
        /// What is left.
        available: usize,
    },
    /// A number that is not the bytes of one tag.
    #[error("{number:X} is no tag")]
    NoTag {
        /// The number.
        number: u32,
    },
}

impl Tag {
    /// The tag whose bytes make up the number: `0x9F36` is the tag 9F 36.
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

    /// Its bytes as a number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Whether its value consists of TLVs.
    pub const fn is_constructed(self) -> bool {
        self.0.to_be_bytes()[self.unused()] & 0x20 != 0
    }

    /// How many bytes it has.
    pub const fn bytes(self) -> usize {
        TAG_BYTES_MAX - self.unused()
    }

    /// The bytes of the number that come before the tag's own; its first is never zero.
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
    /// Begins to read.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The value of the first TLV of this tag among those not read yet. What follows it is not
    /// looked at.
    pub fn find(self, tag: Tag) -> Result<Option<&'a [u8]>, TlvError> {
        for tlv in self {
            let tlv = tlv?;
            if tlv.tag == tag {
                return Ok(Some(tlv.value));
            }
        }
        Ok(None)
    }

    /// The tag that begins at `at`, and where it ends.
    fn tag(&self, at: usize) -> Result<(Tag, usize), TlvError> {
        let mut number = 0;
        for (place, &byte) in self.bytes[at..].iter().take(TAG_BYTES_MAX).enumerate() {
            number = number << 8 | u32::from(byte);
            if !continues(byte, place == 0) {
                return Ok((Tag(number), at + place + 1));
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

    /// A copy of these bytes, if they are TLVs to the end.
    pub fn read(bytes: &[u8]) -> Result<Self, TlvError> {
        let mut list = Self::new();
        list.read_again(bytes)?;
        Ok(list)
    }

    /// As [`TlvList::read`], into this list, which keeps its memory. After an error it is as it
    /// was.
    pub fn read_again(&mut self, bytes: &[u8]) -> Result<(), TlvError> {
        Tags::new(bytes).try_for_each(|tlv| tlv.map(|_| ()))?;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// All of it, as it is sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its TLVs in their order.
    pub fn iter(&self) -> impl Iterator<Item = Tlv<'_>> {
        // What is not readable is never stored.
        Tags::new(&self.bytes).map_while(Result::ok)
    }

    /// The value of the first TLV of this tag.
    pub fn get(&self, tag: Tag) -> Option<&[u8]> {
        self.find(tag).map(|tlv| tlv.value)
    }

    /// Gives the first TLV of this tag the value, or puts one at the end. A value that it has
    /// already changes no byte.
    pub fn set(&mut self, tag: Tag, value: &[u8]) {
        let end = self.bytes.len();
        let place = match self.find(tag) {
            Some(found) if found.value == value => return,
            Some(found) => range(&found),
            None => end..end,
        };
        self.write(place, tag, value);
    }

    /// Puts a TLV before the one that is number `index` now, or at the end if there are fewer.
    pub fn insert(&mut self, index: usize, tag: Tag, value: &[u8]) {
        let at = self.iter().nth(index).map_or(self.bytes.len(), |tlv| tlv.at);
        self.write(at..at, tag, value);
    }

    /// Takes the first TLV of this tag away, and says whether there was one.
    pub fn remove(&mut self, tag: Tag) -> bool {
        let found = self.find(tag).map(|tlv| range(&tlv));
        found.map(|place| self.bytes.drain(place)).is_some()
    }

    fn find(&self, tag: Tag) -> Option<Tlv<'_>> {
        self.iter().find(|tlv| tlv.tag == tag)
    }

    /// Puts a TLV in the place of these bytes, its length as short as can be.
    fn write(&mut self, place: Range<usize>, tag: Tag, value: &[u8]) {
        let number = tag.0.to_be_bytes();
        let length = u32::try_from(value.len()).expect("a message holds no value of 4 GiB");
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
        self.bytes.splice(place, pieces.copied());
    }
}

impl fmt::Debug for TlvList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn range(tlv: &Tlv<'_>) -> Range<usize> {
    tlv.at..tlv.at + tlv.raw.len()
}
