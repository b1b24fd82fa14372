//! Characters and halves of bytes as what they mean to a card number: digits from 0 to 9, and
//! what may stand among them or behind.

use std::ops::Range;

use super::{CARD_NUMBER_DIGITS, RUN_DIGITS, is_uniform, middle};

/// Stands between digits, and ends track 2.
const BLANK: u8 = 10;
/// Stands between digits.
const DASH: u8 = 11;
/// Behind the card number of track 2 or 3.
const EQUALS: u8 = 12;
/// Behind the card number of track 1.
const CARET: u8 = 13;
/// The separator of track 2 as a letter.
const LETTER: u8 = 14;
/// Ends a track.
const END: u8 = 15;
const OTHER: u8 = 16;

/// Payment cards begin with these digits.
const FIRST_DIGITS: std::ops::RangeInclusive<u8> = 2..=6;

pub(super) fn of_text(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| of_character(char::from(*byte))).collect()
}

pub(super) fn of_character(character: char) -> u8 {
    match character {
        '0'..='9' => u8::try_from(u32::from(character) - u32::from('0')).unwrap_or(OTHER),
        ' ' => BLANK,
        '-' => DASH,
        '=' => EQUALS,
        'D' | 'd' => LETTER,
        '^' => CARET,
        '?' => END,
        other if other.is_control() => END,
        _ => OTHER,
    }
}

pub(super) fn of_halves(bytes: &[u8]) -> Vec<u8> {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]);
    let code = |half| match half {
        0..=9 => half,
        0x0D => EQUALS,
        _ => END,
    };
    halves.map(code).collect()
}

/// Digits with at most one blank or dash between two of them.
#[derive(Default)]
pub(super) struct Run {
    pub(super) digits: Vec<u8>,
    /// Where each stands.
    pub(super) places: Vec<usize>,
}

/// All runs that are long enough to matter.
pub(super) fn each_run(codes: &[u8], mut then: impl FnMut(&Run)) {
    let mut run = Run::default();
    let mut finish = |run: &mut Run| {
        if run.digits.len() >= RUN_DIGITS {
            then(run);
        }
        run.digits.clear();
        run.places.clear();
    };
    for (at, code) in codes.iter().enumerate().filter(|(_, code)| **code <= 9) {
        let goes_on = run.places.last().is_none_or(|last| {
            at == last + 1 || at == last + 2 && matches!(codes[last + 1], BLANK | DASH)
        });
        if !goes_on {
            finish(&mut run);
        }
        run.digits.push(*code);
        run.places.push(at);
    }
    finish(&mut run);
}

/// The digits of the first run.
pub(super) fn first_run(codes: &[u8]) -> Option<Vec<u8>> {
    let mut first = None;
    each_run(codes, |run| {
        first.get_or_insert_with(|| run.digits.clone());
    });
    first
}

/// What follows a card number at the end of a run, if it is on a track: to the track's end.
pub(super) fn rest_of_track(codes: &[u8], run: &Run) -> Option<Range<usize>> {
    let start = run.places.last()? + 1;
    let ends_name = |code: &u8| *code == END;
    let rest = &codes[start..];
    let length = match rest.first() {
        Some(&CARET) => rest.iter().position(ends_name),
        Some(&(EQUALS | LETTER)) => rest.iter().position(|code| matches!(*code, BLANK | END)),
        _ => return None,
    };
    let length = length.unwrap_or(rest.len());
    Some(start + 1..start + length)
}

/// Is there the separator of a track behind a run?
pub(super) fn is_before_separator(codes: &[u8], run: &Run) -> bool {
    let behind = run.places.last().and_then(|last| codes.get(last + 1));
    matches!(behind, Some(&(EQUALS | CARET)))
}

impl Run {
    /// Digits that could be a card number, at each place the most of them.
    pub(super) fn each_look_alike(
        &self,
        is_considered: &impl Fn(Range<usize>) -> bool,
        mut then: impl FnMut(Range<usize>),
    ) {
        let is_whole = |range: &Range<usize>| range.len() == self.digits.len();
        for (start, first) in self.digits.iter().enumerate() {
            let is_plausible = FIRST_DIGITS.contains(first);
            if *first == 0 || !is_plausible && start > 0 {
                continue;
            }
            let is_known_kind = |it: &Range<usize>| is_plausible || is_whole(it);
            let found =
                self.longest_from(start, |it| is_known_kind(it) && is_considered(it.clone()));
            if let Some(end) = found {
                then(start..end);
            }
        }
    }

    /// The end of the longest number from here on whose check digit is right.
    fn longest_from(&self, start: usize, is: impl Fn(&Range<usize>) -> bool) -> Option<usize> {
        // Sums with the digits at even places doubled, and with those at odd places.
        let mut sums = [0_u32; 2];
        let mut longest = None;
        let most = self.digits[start..].iter().take(*CARD_NUMBER_DIGITS.end());
        for (place, digit) in most.enumerate() {
            let digit = u32::from(*digit);
            sums[place % 2] += digit * 2 / 10 + digit * 2 % 10;
            sums[1 - place % 2] += digit;
            let (length, end) = (place + 1, start + place + 1);
            let is_right = sums[1 - place % 2].is_multiple_of(10);
            if is_right && CARD_NUMBER_DIGITS.contains(&length) && is(&(start..end)) {
                longest = Some(end);
            }
        }
        longest.filter(|end| !is_uniform(&self.digits[start..*end]))
    }

    /// The places of what is hidden of a card number.
    pub(super) fn each_of_middle(&self, found: Range<usize>, hide: &mut impl FnMut(Range<usize>)) {
        let hidden = middle(found.len());
        let places = &self.places[found.start + hidden.start..found.start + hidden.end];
        places.iter().for_each(|at| hide(*at..at + 1));
    }
}
