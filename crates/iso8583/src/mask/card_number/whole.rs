//! Finds card numbers in all bytes of a message, independently of its fields.

use std::ops::Range;

use super::code::{self, DigitRun};
use crate::coding::FROM_EBCDIC;

/// The maximum length of a track, which bounds the masking of a track without an end.
const TRACK_CHARACTERS_MAX: usize = 107;

/// The half bytes that must be masked.
///
/// Many digits of neighbouring fields look like a card number. In a valid message, and in half bytes,
/// digits count only if they are a whole run, before the separator of a track, or behind their length.
/// They do not count in fields that are masked already.
pub(crate) fn in_message(bytes: &[u8], hidden: &[bool], is_valid: bool) -> Vec<bool> {
    let mut found = vec![false; bytes.len() * 2];
    let ebcdic: Vec<u8> = bytes.iter().map(|byte| FROM_EBCDIC[usize::from(*byte)]).collect();
    let decodings =
        [(code::of_halves(bytes), 1), (code::of_text(bytes), 2), (code::of_text(&ebcdic), 2)];
    for (codes, halves) in decodings {
        let decoding = Decoding { bytes, codes, halves };
        let is_candidate = |run: &DigitRun, digits: Range<usize>| {
            let is_hidden = is_valid && hidden[run.positions[digits.start] * halves];
            let is_accepted = !is_valid && halves == 2;
            !is_hidden && (is_accepted || decoding.is_marked(run, digits))
        };
        decoding.search(is_candidate, |positions| {
            found[positions.start * halves..positions.end * halves].fill(true);
        });
    }
    found
}

/// The bytes in one of the encodings of digits.
struct Decoding<'a> {
    bytes: &'a [u8],
    codes: Vec<u8>,
    /// The number of half bytes per digit.
    halves: usize,
}

impl Decoding<'_> {
    fn search(
        &self,
        is_candidate: impl Fn(&DigitRun, Range<usize>) -> bool,
        mut hide: impl FnMut(Range<usize>),
    ) {
        code::each_run(&self.codes, |run| {
            let mut is_number_at_end = false;
            run.each_look_alike(&|digits| is_candidate(run, digits), |found| {
                is_number_at_end |= found.end == run.digits.len();
                run.each_of_middle(found, &mut hide);
            });
            let start = run.positions.last().map_or(0, |last| last + 1);
            let until = self.codes.len().min(start + TRACK_CHARACTERS_MAX);
            let rest = code::rest_of_track(&self.codes[..until], run);
            if let Some(rest) = rest.filter(|_| is_number_at_end) {
                hide(rest);
            }
        });
    }

    /// Whether the digits are a whole run, before a separator, or behind their length.
    fn is_marked(&self, run: &DigitRun, digits: Range<usize>) -> bool {
        if self.is_text(run, digits.clone()) {
            return false;
        }
        let length = digits.len();
        let ends_run = digits.end == run.digits.len();
        if ends_run && (digits.start == 0 || code::is_before_separator(&self.codes, run)) {
            return true;
        }
        let position = run.positions[digits.start];
        let before = position.checked_sub(2).map(|start| &self.codes[start..position]);
        if before.is_some_and(|it| it.iter().all(|code| *code <= 9))
            && before.is_some_and(|it| usize::from(it[0] * 10 + it[1]) == length)
        {
            return true;
        }
        let byte = position * self.halves / 2;
        let behind = |back: usize| byte.checked_sub(back).map(|at| usize::from(self.bytes[at]));
        let is_tag = behind(2) == Some(0x5A) && behind(1) == Some(length.div_ceil(2));
        behind(1) == Some(length) || is_tag
    }

    /// Whether the half bytes belong to digits in ASCII, which are searched separately.
    fn is_text(&self, run: &DigitRun, digits: Range<usize>) -> bool {
        let positions = &run.positions[digits];
        self.halves == 1 && positions.iter().all(|at| self.bytes[at / 2].is_ascii_digit())
    }
}
