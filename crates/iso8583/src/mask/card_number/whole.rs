//! Card numbers in all bytes of a message, wherever its fields begin.

use std::ops::Range;

use super::code::{self, Run};
use crate::coding::FROM_EBCDIC;

/// No more is hidden of a track, whose end is not known here: track 3 is the longest.
const TRACK_CHARACTERS_MAX: usize = 107;

/// Which halves of bytes are to be hidden.
///
/// The fields of a message lie side by side, and many of their digits look like a card number. Where
/// they were understood, and in halves of bytes, only those count that stand by themselves, before
/// the separator of a track or behind their length; and not where the field hides them already.
pub(crate) fn in_message(bytes: &[u8], hidden: &[bool], is_understood: bool) -> Vec<bool> {
    let mut found = vec![false; bytes.len() * 2];
    let ebcdic: Vec<u8> = bytes.iter().map(|byte| FROM_EBCDIC[usize::from(*byte)]).collect();
    let readings =
        [(code::of_halves(bytes), 1), (code::of_text(bytes), 2), (code::of_text(&ebcdic), 2)];
    for (codes, halves) in readings {
        let reading = Reading { bytes, codes, halves };
        let is_candidate = |run: &Run, digits: Range<usize>| {
            let is_hidden = is_understood && hidden[run.places[digits.start] * halves];
            let is_enough = !is_understood && halves == 2;
            !is_hidden && (is_enough || reading.is_marked(run, digits))
        };
        reading.search(is_candidate, |places| {
            found[places.start * halves..places.end * halves].fill(true);
        });
    }
    found
}

/// Bytes read in one of the ways that digits stand in.
struct Reading<'a> {
    bytes: &'a [u8],
    codes: Vec<u8>,
    /// So many halves of bytes are one digit.
    halves: usize,
}

impl Reading<'_> {
    fn search(
        &self,
        is_candidate: impl Fn(&Run, Range<usize>) -> bool,
        mut hide: impl FnMut(Range<usize>),
    ) {
        code::each_run(&self.codes, |run| {
            let mut is_number_at_end = false;
            run.each_look_alike(&|digits| is_candidate(run, digits), |found| {
                is_number_at_end |= found.end == run.digits.len();
                run.each_of_middle(found, &mut hide);
            });
            let start = run.places.last().map_or(0, |last| last + 1);
            let until = self.codes.len().min(start + TRACK_CHARACTERS_MAX);
            let rest = code::rest_of_track(&self.codes[..until], run);
            if let Some(rest) = rest.filter(|_| is_number_at_end) {
                hide(rest);
            }
        });
    }

    /// Are these digits by themselves, before a separator, or behind their number?
    fn is_marked(&self, run: &Run, digits: Range<usize>) -> bool {
        if self.is_text(run, digits.clone()) {
            return false;
        }
        let length = digits.len();
        let ends_run = digits.end == run.digits.len();
        if ends_run && (digits.start == 0 || code::is_before_separator(&self.codes, run)) {
            return true;
        }
        let place = run.places[digits.start];
        let before = place.checked_sub(2).map(|start| &self.codes[start..place]);
        if before.is_some_and(|it| it.iter().all(|code| *code <= 9))
            && before.is_some_and(|it| usize::from(it[0] * 10 + it[1]) == length)
        {
            return true;
        }
        let byte = place * self.halves / 2;
        let behind = |back: usize| byte.checked_sub(back).map(|at| usize::from(self.bytes[at]));
        let is_tag = behind(2) == Some(0x5A) && behind(1) == Some(length.div_ceil(2));
        behind(1) == Some(length) || is_tag
    }

    /// Halves of bytes that are digits of ASCII are read as those.
    fn is_text(&self, run: &Run, digits: Range<usize>) -> bool {
        let places = &run.places[digits];
        self.halves == 1 && places.iter().all(|at| self.bytes[at / 2].is_ascii_digit())
    }
}
