//! Card numbers, wherever they turn up: those of the message itself, and what looks like one.

use crate::coding::{FROM_EBCDIC, HEX};
use crate::mask::emv;
use crate::tlv::Tags;
use crate::view::{Field, MessageView};

/// So many digits of a card number in a row are shown nowhere.
const RUN_DIGITS: usize = 7;

/// A card number: of these lengths the first six and the last four digits are shown.
const CARD_NUMBER_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// Fields that carry a card number: by itself, in the extended form, and on the tracks.
const CARRIERS: [u16; 5] = [2, 34, 35, 36, 45];

/// What is no digit, among digits.
const OTHER: u8 = 0xFF;

/// The card numbers of one message, as digits from 0 to 9.
#[derive(Default)]
pub(crate) struct CardNumbers(Vec<Vec<u8>>);

impl CardNumbers {
    /// Those in the fields and EMV tags that are there to carry one.
    pub(crate) fn of(view: MessageView<'_>) -> Self {
        let mut numbers = Self::default();
        for field in view.fields() {
            if CARRIERS.contains(&field.number) {
                numbers.add(&digits_of(&field.to_bytes()));
            } else if is_emv(field) {
                numbers.add_tags(field.content(), 0);
            }
        }
        numbers
    }

    /// The first digits that are long enough to matter.
    fn add(&mut self, digits: &[u8]) {
        let runs = digits.split(|digit| *digit == OTHER);
        let first = runs.into_iter().find(|run| run.len() >= RUN_DIGITS);
        self.0.extend(first.map(<[u8]>::to_vec));
    }

    fn add_tags(&mut self, bytes: &[u8], depth: usize) {
        for tlv in Tags::new(bytes).map_while(Result::ok) {
            if emv::is_open(&tlv, depth) {
                self.add_tags(tlv.value, depth + 1);
            } else if emv::carries_card_number(tlv.tag) {
                self.add(&halves_of(tlv.value));
                self.add(&digits_of(tlv.value));
            }
        }
    }

    /// Which characters of a text are to be hidden.
    pub(crate) fn in_text(&self, text: &str) -> Vec<bool> {
        let characters: Vec<u8> =
            text.chars().map(|it| u8::try_from(it).unwrap_or(OTHER)).collect();
        let mut hidden = vec![false; characters.len()];
        self.search(&digits_of(&characters), |at| hidden[at] = true);
        hidden
    }

    /// Which halves of bytes are to be hidden, whether they are read as BCD, ASCII or EBCDIC.
    pub(crate) fn in_bytes(&self, bytes: &[u8]) -> Vec<bool> {
        let mut hidden = vec![false; bytes.len() * 2];
        self.search(&halves_of(bytes), |at| hidden[at] = true);
        let ebcdic: Vec<u8> = bytes.iter().map(|byte| FROM_EBCDIC[*byte as usize]).collect();
        for text in [bytes, &ebcdic] {
            self.search(&digits_of(text), |at| hidden[at * 2..at * 2 + 2].fill(true));
        }
        hidden
    }

    fn search(&self, digits: &[u8], mut hide: impl FnMut(usize)) {
        for (at, window) in digits.windows(RUN_DIGITS).enumerate() {
            let is_part = |number: &Vec<u8>| number.windows(RUN_DIGITS).any(|it| it == window);
            // Zeros are in amounts and say nothing.
            if !is_uniform(window) && self.0.iter().any(is_part) {
                (at..at + RUN_DIGITS).for_each(&mut hide);
            }
        }
        let mut start = 0;
        for run in digits.split(|digit| *digit == OTHER) {
            if looks_like_card_number(run) {
                middle(run.len()).for_each(|at| hide(start + at));
            }
            start += run.len() + 1;
        }
    }
}

/// The digits of a card number of so many digits that are hidden.
pub(crate) fn middle(digits: usize) -> std::ops::Range<usize> {
    if CARD_NUMBER_DIGITS.contains(&digits) { 6..digits - 4 } else { 0..digits }
}

/// Does this field carry EMV's tags?
pub(crate) fn is_emv(field: Field<'_>) -> bool {
    field.number == 55 && field.is_binary() && !field.is_composite()
}

fn digits_of(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| if byte.is_ascii_digit() { byte & 0x0F } else { OTHER };
    text.iter().map(digit).collect()
}

fn halves_of(bytes: &[u8]) -> Vec<u8> {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]);
    halves.map(|half| if half < 10 { half } else { OTHER }).collect()
}

fn is_uniform(digits: &[u8]) -> bool {
    digits.windows(2).all(|pair| pair[0] == pair[1])
}

/// The length of a card number, and a check digit that is right.
fn looks_like_card_number(digits: &[u8]) -> bool {
    if !CARD_NUMBER_DIGITS.contains(&digits.len()) || digits[0] == 0 || is_uniform(digits) {
        return false;
    }
    let weighed = digits.iter().rev().enumerate().map(|(place, digit)| match place % 2 {
        0 => u32::from(*digit),
        _ => u32::from(*digit) * 2 / 10 + u32::from(*digit) * 2 % 10,
    });
    weighed.sum::<u32>().is_multiple_of(10)
}

/// Halves of bytes as hexadecimal digits, those that are hidden as `*`.
pub(crate) fn masked_halves(bytes: &[u8], hidden: &[bool]) -> impl Iterator<Item = char> {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]);
    halves.zip(hidden).map(|(half, is_hidden)| match is_hidden {
        true => '*',
        false => char::from(HEX[usize::from(half)]),
    })
}
