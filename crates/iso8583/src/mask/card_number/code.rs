//! Classifies characters and half bytes for the search of card numbers: digits from 0 to 9, and
//! separators.

use std::ops::Range;

/// The number of consecutive digits of a card number that are masked everywhere.
pub(super) const RUN_DIGITS: usize = 7;

/// The lengths of card numbers.
const CARD_NUMBER_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// A blank: between digits, or the end of track 2.
const BLANK: u8 = 10;
/// A dash between digits.
const DASH: u8 = 11;
/// The separator behind the card number of track 2 or 3.
const EQUALS: u8 = 12;
/// The separator behind the card number of track 1.
const CARET: u8 = 13;
/// The separator of track 2 as a letter.
const LETTER: u8 = 14;
/// The end of a track.
const END: u8 = 15;
const OTHER: u8 = 16;

/// The first digits of payment cards.
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
pub(super) struct DigitRun {
    pub(super) digits: Vec<u8>,
    /// The position of each digit.
    pub(super) positions: Vec<usize>,
}

/// Visits all runs of at least [`RUN_DIGITS`] digits.
pub(super) fn each_run(codes: &[u8], mut then: impl FnMut(&DigitRun)) {
    let mut run = DigitRun::default();
    let mut finish = |run: &mut DigitRun| {
        if run.digits.len() >= RUN_DIGITS {
            then(run);
        }
        run.digits.clear();
        run.positions.clear();
    };
    for (at, code) in codes.iter().enumerate().filter(|(_, code)| **code <= 9) {
        let continues = run.positions.last().is_none_or(|last| {
            at == last + 1 || at == last + 2 && matches!(codes[last + 1], BLANK | DASH)
        });
        if !continues {
            finish(&mut run);
        }
        run.digits.push(*code);
        run.positions.push(at);
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

/// The rest of a track behind a card number at the end of a run.
pub(super) fn rest_of_track(codes: &[u8], run: &DigitRun) -> Option<Range<usize>> {
    let start = run.positions.last()? + 1;
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

/// Whether the run is followed by the separator of a track.
pub(super) fn is_before_separator(codes: &[u8], run: &DigitRun) -> bool {
    let behind = run.positions.last().and_then(|last| codes.get(last + 1));
    matches!(behind, Some(&(EQUALS | CARET)))
}

/// The masked digits of a card number of this length: all but the first six and the last four.
pub(crate) fn middle(digits: usize) -> Range<usize> {
    if CARD_NUMBER_DIGITS.contains(&digits) { 6..digits - 4 } else { 0..digits }
}

pub(super) fn is_uniform(digits: &[u8]) -> bool {
    digits.windows(2).all(|pair| pair[0] == pair[1])
}

impl DigitRun {
    /// Visits the longest digits from each position that could be a card number.
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

    /// The end of the longest number from `start` on with a valid check digit.
    fn longest_from(&self, start: usize, is: impl Fn(&Range<usize>) -> bool) -> Option<usize> {
        // The Luhn sums with doubled digits at even and at odd positions.
        let mut sums = [0_u32; 2];
        let mut longest = None;
        let most = self.digits[start..].iter().take(*CARD_NUMBER_DIGITS.end());
        for (position, digit) in most.enumerate() {
            let digit = u32::from(*digit);
            sums[position % 2] += digit * 2 / 10 + digit * 2 % 10;
            sums[1 - position % 2] += digit;
            let (length, end) = (position + 1, start + position + 1);
            let is_valid = sums[1 - position % 2].is_multiple_of(10);
            if is_valid && CARD_NUMBER_DIGITS.contains(&length) && is(&(start..end)) {
                longest = Some(end);
            }
        }
        longest.filter(|end| !is_uniform(&self.digits[start..*end]))
    }

    /// Masks the middle of a card number.
    pub(super) fn each_of_middle(&self, found: Range<usize>, hide: &mut impl FnMut(Range<usize>)) {
        let hidden = middle(found.len());
        let positions = &self.positions[found.start + hidden.start..found.start + hidden.end];
        positions.iter().for_each(|at| hide(*at..at + 1));
    }
}
