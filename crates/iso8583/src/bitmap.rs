//! Writes bitmaps.

use crate::class::Coding;
use crate::coding::{self, TO_EBCDIC};
use crate::index::FIRST_BIT;
use crate::packager::{BitmapFormat, Compiled};

/// The number of words to write for fields up to `last`; at least as many as were received.
///
/// For fields up to 32, jPOS writes all words that a bitmap in EBCDIC may have. `Lenient` does the
/// same.
#[inline]
pub(crate) fn words(packager: &Compiled, bitmap: BitmapFormat, last: usize, received: u8) -> u8 {
    let words = words_needed(last).max(received);
    let is_low = bitmap.coding == Coding::HexEbcdic && last <= 32;
    let is_longer = is_low && words <= 1 && bitmap.continues && !packager.is_strict();
    if is_longer { bitmap.words_max } else { words }
}

/// The number of words for fields up to `last`.
#[inline]
pub(crate) fn words_needed(last: usize) -> u8 {
    u8::try_from(last.div_ceil(64)).unwrap_or(u8::MAX)
}

/// Writes the words of a bitmap to the beginning of `out`.
#[inline]
pub(crate) fn write(bitmap: BitmapFormat, words: &[u64], out: &mut [u8]) {
    let chunks = out.chunks_exact_mut(bitmap.bytes_of(1));
    for ((word, number), out) in words.iter().zip(1..).zip(chunks) {
        let continues = bitmap.continues && number < words.len();
        write_word(bitmap.coding, word | if continues { FIRST_BIT } else { 0 }, out);
    }
}

/// Appends the words of a bitmap, at most three.
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
