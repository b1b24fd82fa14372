//! Writes bitmaps: which fields are there.

use crate::class::Coding;
use crate::coding::{self, TO_EBCDIC};
use crate::packager::{BitmapFormat, Compiled};
use crate::unpack::FIRST;

/// Words of bitmap to write for fields up to the last one, of which some may have been received.
///
/// jPOS writes all words that a bitmap in EBCDIC may have if all fields are among the first 32, as
/// seen from outside; `Lenient` does as well.
#[inline]
pub(crate) fn words(packager: &Compiled, bitmap: BitmapFormat, last: usize, received: u8) -> u8 {
    let words = words_needed(last).max(received);
    let is_low = bitmap.coding == Coding::HexEbcdic && last <= 32;
    let is_longer = is_low && words <= 1 && bitmap.continues && !packager.is_strict();
    if is_longer { bitmap.words_max } else { words }
}

/// Words of bitmap that fields up to the last one take.
#[inline]
pub(crate) fn words_needed(last: usize) -> u8 {
    u8::try_from(last.div_ceil(64)).unwrap_or(u8::MAX)
}

/// Writes the words of a bitmap to the beginning of `out`.
#[inline]
pub(crate) fn write(bitmap: BitmapFormat, words: &[u64], out: &mut [u8]) {
    let places = out.chunks_exact_mut(bitmap.bytes_of(1));
    for ((word, number), out) in words.iter().zip(1..).zip(places) {
        let continues = bitmap.continues && number < words.len();
        write_word(bitmap.coding, word | if continues { FIRST } else { 0 }, out);
    }
}

/// Appends the words of a bitmap, of which there are three at most.
#[inline]
pub(crate) fn push(bitmap: BitmapFormat, words: &[u64], out: &mut Vec<u8>) {
    let mut room = [0; 48];
    write(bitmap, words, &mut room);
    let bytes = bitmap.bytes_of(1) * words.len();
    out.extend_from_slice(&room[..bytes]);
}

#[inline]
fn write_word(coding: Coding, bits: u64, out: &mut [u8]) {
    let bytes = bits.to_be_bytes();
    if coding == Coding::Raw {
        out.copy_from_slice(&bytes);
        return;
    }
    for (byte, pair) in bytes.iter().zip(out.as_chunks_mut::<2>().0) {
        *pair = coding::hex_pair(*byte);
    }
    if coding == Coding::HexEbcdic {
        out.iter_mut().for_each(|digit| *digit = TO_EBCDIC[usize::from(*digit)]);
    }
}
