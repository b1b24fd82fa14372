//! Finds card numbers: those of the message itself, and digits that look like one.

use std::collections::HashSet;
use std::ops::Range;

use crate::coding::{FROM_EBCDIC, HEX};
use crate::mask::emv_tags;
use crate::tlv::Tags;
use crate::view::{Field, MessageView};

pub(crate) mod code;
mod whole;

use code::{RUN_DIGITS, is_uniform};

pub(crate) use whole::in_message;

/// Ten to the power of [`RUN_DIGITS`].
const RUN_VALUES: u32 = 10_000_000;

/// The maximum length of a stored number: a card number behind the format code of track 3.
const KNOWN_DIGITS_MAX: usize = 21;
/// The maximum number of card numbers of a message.
const KNOWN_MAX: usize = 16;

/// The fields with a card number: alone, extended, and on tracks.
const CARRIERS: [u16; 5] = [2, 34, 35, 36, 45];

/// The card numbers of a message.
#[derive(Default)]
pub(crate) struct CardNumbers {
    /// All sequences of [`RUN_DIGITS`] digits as numbers.
    parts: HashSet<u32>,
    count: usize,
}

impl CardNumbers {
    /// Those in the fields and EMV tags for card numbers.
    pub(crate) fn new(view: MessageView<'_>) -> Self {
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

    /// Adds the first run of digits.
    fn add(&mut self, codes: &[u8]) {
        let Some(run) = code::first_run(codes).filter(|_| self.count < KNOWN_MAX) else { return };
        let before = self.parts.len();
        for digits in run[..run.len().min(KNOWN_DIGITS_MAX)].windows(RUN_DIGITS) {
            // Uniform digits such as zeros also occur in amounts.
            if !is_uniform(digits) {
                self.parts.insert(digits.iter().fold(0, |value, it| value * 10 + u32::from(*it)));
            }
        }
        self.count += usize::from(self.parts.len() > before);
    }

    fn add_tags(&mut self, bytes: &[u8], depth: usize) {
        for tlv in Tags::new(bytes).map_while(Result::ok) {
            if emv_tags::is_open(&tlv, depth) {
                self.add_tags(tlv.value, depth + 1);
            } else if emv_tags::carries_card_number(tlv.tag) {
                self.add(&code::of_halves(tlv.value));
                self.add(&code::of_text(tlv.value));
            }
        }
    }

    /// The characters of a text that must be masked.
    pub(crate) fn in_text(&self, text: &str) -> Vec<bool> {
        let codes: Vec<u8> = text.chars().map(code::of_character).collect();
        let mut hidden = vec![false; codes.len()];
        self.search(&codes, true, |positions| hidden[positions].fill(true));
        hidden
    }

    /// The half bytes that must be masked, with the bytes read as BCD, ASCII and EBCDIC.
    pub(crate) fn in_bytes(&self, bytes: &[u8]) -> Vec<bool> {
        self.in_bytes_as(bytes, false)
    }

    /// As `in_bytes`. Half bytes of a text are only masked if a whole run looks like a card number,
    /// because a part of a long text nearly always does.
    pub(crate) fn in_bytes_as(&self, bytes: &[u8], is_text: bool) -> Vec<bool> {
        let mut hidden = vec![false; bytes.len() * 2];
        self.search(&code::of_halves(bytes), !is_text, |halves| hidden[halves].fill(true));
        let ebcdic: Vec<u8> = bytes.iter().map(|byte| FROM_EBCDIC[usize::from(*byte)]).collect();
        for text in [bytes, &ebcdic] {
            self.search(&code::of_text(text), true, |positions| {
                hidden[positions.start * 2..positions.end * 2].fill(true);
            });
        }
        hidden
    }

    fn search(&self, codes: &[u8], searches_parts: bool, mut hide: impl FnMut(Range<usize>)) {
        let mut track_end = 0;
        code::each_run(codes, |run| {
            // The run is in a track that is masked already.
            if run.positions.last().is_some_and(|last| *last < track_end) {
                return;
            }
            let mut is_number_at_end = self.search_known(run, &mut hide);
            let is_whole = |digits: Range<usize>| digits.len() == run.digits.len();
            run.each_look_alike(&|digits| searches_parts || is_whole(digits), |found| {
                is_number_at_end |= found.end == run.digits.len();
                run.each_of_middle(found, &mut hide);
            });
            if is_number_at_end && let Some(rest) = code::rest_of_track(codes, run) {
                track_end = rest.end;
                hide(rest);
            }
        });
    }

    /// Masks the parts of card numbers of the message; returns whether one ends at the end of the run.
    fn search_known(&self, run: &code::DigitRun, hide: &mut impl FnMut(Range<usize>)) -> bool {
        if self.parts.is_empty() {
            return false;
        }
        let (mut value, mut is_known) = (0, false);
        for (at, digit) in run.digits.iter().enumerate() {
            value = (value * 10 + u32::from(*digit)) % RUN_VALUES;
            is_known = at + 1 >= RUN_DIGITS && self.parts.contains(&value);
            if is_known {
                run.positions[at + 1 - RUN_DIGITS..=at].iter().for_each(|at| hide(*at..at + 1));
            }
        }
        is_known
    }
}

/// Whether the field has EMV tags.
pub(crate) fn is_emv(field: Field<'_>) -> bool {
    field.number == 55 && field.is_binary() && !field.is_composite()
}

/// Half bytes as hexadecimal digits, and `*` for masked ones.
pub(crate) fn masked_halves(bytes: &[u8], hidden: &[bool]) -> impl Iterator<Item = char> {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]);
    halves.zip(hidden).map(|(half, is_hidden)| match is_hidden {
        true => '*',
        false => char::from(HEX[usize::from(half)]),
    })
}
