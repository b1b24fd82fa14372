//! Card numbers, wherever they turn up: those of the message itself, and what looks like one.

use std::collections::HashSet;
use std::ops::Range;

use crate::coding::{FROM_EBCDIC, HEX};
use crate::mask::emv;
use crate::tlv::Tags;
use crate::view::{Field, MessageView};

mod code;
mod whole;

pub(crate) use whole::in_message;

/// So many digits of a card number in a row are shown nowhere.
const RUN_DIGITS: usize = 7;
/// Ten to the power of these digits.
const RUN_VALUES: u32 = 10_000_000;

/// A card number: of these lengths the first six and the last four digits are shown.
const CARD_NUMBER_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// What is kept of a number: a card number, and the format code of track 3 in front.
const KNOWN_DIGITS_MAX: usize = 21;
/// So many different numbers of a message are kept.
const KNOWN_MAX: usize = 16;

/// Fields that carry a card number: by itself, in the extended form, and on the tracks.
const CARRIERS: [u16; 5] = [2, 34, 35, 36, 45];

/// The card numbers of one message, by what is not shown of them.
#[derive(Default)]
pub(crate) struct CardNumbers {
    /// All digits in a row, as numbers.
    parts: HashSet<u32>,
    count: usize,
}

impl CardNumbers {
    /// Those in the fields and EMV tags that are there to carry one.
    pub(crate) fn of(view: MessageView<'_>) -> Self {
        let mut numbers = Self::default();
        numbers.add_fields(view);
        numbers
    }

    fn add_fields(&mut self, view: MessageView<'_>) {
        for field in view.fields() {
            if view.packager.compiled().is_xml && field.is_composite() {
                let mut index = crate::index::Index::new();
                if let Ok(inner) = field.nested(&mut index) {
                    self.add_fields(inner);
                }
            } else if CARRIERS.contains(&field.number) {
                self.add(&code::of_text(&field.to_bytes()));
            } else if is_emv(field) {
                self.add_tags(field.content(), 0);
            }
        }
    }

    /// The first digits that are long enough to matter.
    fn add(&mut self, codes: &[u8]) {
        let Some(run) = code::first_run(codes).filter(|_| self.count < KNOWN_MAX) else { return };
        let before = self.parts.len();
        for digits in run[..run.len().min(KNOWN_DIGITS_MAX)].windows(RUN_DIGITS) {
            // Zeros are in amounts and say nothing.
            if !is_uniform(digits) {
                self.parts.insert(digits.iter().fold(0, |value, it| value * 10 + u32::from(*it)));
            }
        }
        self.count += usize::from(self.parts.len() > before);
    }

    fn add_tags(&mut self, bytes: &[u8], depth: usize) {
        for tlv in Tags::new(bytes).map_while(Result::ok) {
            if emv::is_open(&tlv, depth) {
                self.add_tags(tlv.value, depth + 1);
            } else if emv::carries_card_number(tlv.tag) {
                self.add(&code::of_halves(tlv.value));
                self.add(&code::of_text(tlv.value));
            }
        }
    }

    /// Which characters of a text are to be hidden.
    pub(crate) fn in_text(&self, text: &str) -> Vec<bool> {
        let codes: Vec<u8> = text.chars().map(code::of_character).collect();
        let mut hidden = vec![false; codes.len()];
        self.search(&codes, true, |places| hidden[places].fill(true));
        hidden
    }

    /// Which halves of bytes are to be hidden, whether they are read as BCD, ASCII or EBCDIC.
    pub(crate) fn in_bytes(&self, bytes: &[u8]) -> Vec<bool> {
        self.in_bytes_as(bytes, false)
    }

    /// As `in_bytes`. In what is text, halves of bytes look like a card number only as a whole:
    /// among those of many letters and digits there is always one.
    pub(crate) fn in_bytes_as(&self, bytes: &[u8], is_text: bool) -> Vec<bool> {
        let mut hidden = vec![false; bytes.len() * 2];
        self.search(&code::of_halves(bytes), !is_text, |halves| hidden[halves].fill(true));
        let ebcdic: Vec<u8> = bytes.iter().map(|byte| FROM_EBCDIC[usize::from(*byte)]).collect();
        for text in [bytes, &ebcdic] {
            self.search(&code::of_text(text), true, |places| {
                hidden[places.start * 2..places.end * 2].fill(true);
            });
        }
        hidden
    }

    fn search(&self, codes: &[u8], looks_inside: bool, mut hide: impl FnMut(Range<usize>)) {
        let mut track_end = 0;
        code::each_run(codes, |run| {
            // Hidden as a whole.
            if run.places.last().is_some_and(|last| *last < track_end) {
                return;
            }
            let mut is_number_at_end = self.search_known(run, &mut hide);
            let is_whole = |digits: Range<usize>| digits.len() == run.digits.len();
            run.each_look_alike(&|digits| looks_inside || is_whole(digits), |found| {
                is_number_at_end |= found.end == run.digits.len();
                run.each_of_middle(found, &mut hide);
            });
            if is_number_at_end && let Some(rest) = code::rest_of_track(codes, run) {
                track_end = rest.end;
                hide(rest);
            }
        });
    }

    /// Hides the parts of card numbers of the message; says whether one ends where the run does.
    fn search_known(&self, run: &code::Run, hide: &mut impl FnMut(Range<usize>)) -> bool {
        if self.parts.is_empty() {
            return false;
        }
        let (mut value, mut is_known) = (0, false);
        for (at, digit) in run.digits.iter().enumerate() {
            value = (value * 10 + u32::from(*digit)) % RUN_VALUES;
            is_known = at + 1 >= RUN_DIGITS && self.parts.contains(&value);
            if is_known {
                run.places[at + 1 - RUN_DIGITS..=at].iter().for_each(|at| hide(*at..at + 1));
            }
        }
        is_known
    }
}

/// The digits of a card number of so many digits that are hidden.
pub(crate) fn middle(digits: usize) -> Range<usize> {
    if CARD_NUMBER_DIGITS.contains(&digits) { 6..digits - 4 } else { 0..digits }
}

/// Does this field carry EMV's tags?
pub(crate) fn is_emv(field: Field<'_>) -> bool {
    field.number == 55 && field.is_binary() && !field.is_composite()
}

fn is_uniform(digits: &[u8]) -> bool {
    digits.windows(2).all(|pair| pair[0] == pair[1])
}

/// Halves of bytes as hexadecimal digits, those that are hidden as `*`.
pub(crate) fn masked_halves(bytes: &[u8], hidden: &[bool]) -> impl Iterator<Item = char> {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]);
    halves.zip(hidden).map(|(half, is_hidden)| match is_hidden {
        true => '*',
        false => char::from(HEX[usize::from(half)]),
    })
}
