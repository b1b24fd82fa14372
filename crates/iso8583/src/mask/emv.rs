//! What is shown of EMV's tags: those that are known to hold nothing of the card's owner.

use std::fmt;

use super::Shown;
use super::card_number::{masked_halves, middle};
use crate::tlv::{Tag, Tags, Tlv};

/// The card number (EMV Book 3, annex A).
const CARD_NUMBER: u32 = 0x5A;
/// Track 1 and 2 and their equivalents.
const TRACKS: [u32; 3] = [0x56, 0x57, 0x9F6B];

/// Tags of EMV Book 3 whose values are shown, in their order.
///
/// What is not here is hidden, the unknown and the proprietary too: a value has to be known to be
/// harmless. Left out on purpose: names (5F20, 9F0B), the card's dates and accounts (5F24, 5F25,
/// 5F53), discretionary data (9F1F, 9F20), PIN (99), CVC3 (9F60, 9F61) and scripts, which may change
/// a PIN (71, 72, 86).
#[rustfmt::skip]
const SHOWN: [u32; 70] = [
    0x42, 0x4F, 0x50, 0x82, 0x84, 0x87, 0x89, 0x8A, 0x8C, 0x8D, 0x8E, 0x8F, 0x91, 0x94, 0x95, 0x97,
    0x98, 0x9A, 0x9B, 0x9C, 0x9D,
    0x5F28, 0x5F2A, 0x5F2D, 0x5F30, 0x5F34, 0x5F36, 0x5F54, 0x5F55, 0x5F56, 0x5F57,
    0x9F01, 0x9F02, 0x9F03, 0x9F04, 0x9F06, 0x9F07, 0x9F08, 0x9F09, 0x9F0D, 0x9F0E, 0x9F0F, 0x9F10,
    0x9F11, 0x9F12, 0x9F13, 0x9F15, 0x9F16, 0x9F1A, 0x9F1B, 0x9F1C, 0x9F1D, 0x9F1E, 0x9F21, 0x9F26,
    0x9F27, 0x9F33, 0x9F34, 0x9F35, 0x9F36, 0x9F37, 0x9F39, 0x9F3C, 0x9F40, 0x9F41, 0x9F42, 0x9F4C,
    0x9F53, 0x9F66, 0x9F6C,
];

/// Is there a card number in this tag?
pub(crate) fn carries_card_number(tag: Tag) -> bool {
    tag.number() == CARD_NUMBER || TRACKS.contains(&tag.number())
}

/// Tags inside tags are looked at so deep; what is deeper is hidden.
const DEPTH_MAX: usize = 8;

/// Are these tags to the end?
pub(crate) fn are_tags(bytes: &[u8]) -> bool {
    Tags::new(bytes).all(|tlv| tlv.is_ok())
}

/// Is the value shown as the tags that it consists of?
pub(crate) fn is_open(tlv: &Tlv<'_>, depth: usize) -> bool {
    depth < DEPTH_MAX && tlv.tag.is_constructed() && are_tags(tlv.value)
}

/// Shows tags: `9F36=0042 57=<19 bytes> 70={9F37=DEADBEEF}`. They have to be tags.
pub(super) fn show(
    bytes: &[u8],
    depth: usize,
    shown: Shown<'_>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (place, tlv) in Tags::new(bytes).map_while(Result::ok).enumerate() {
        let blank = if place > 0 { " " } else { "" };
        write!(f, "{blank}{}=", tlv.tag)?;
        if is_open(&tlv, depth) {
            write!(f, "{{")?;
            show(tlv.value, depth + 1, shown, f)?;
            write!(f, "}}")?;
            continue;
        }
        match hidden(tlv.tag, tlv.value, shown) {
            Some(hidden) => {
                masked_halves(tlv.value, &hidden).try_for_each(|it| write!(f, "{it}"))?
            }
            None => write!(f, "<{} bytes>", tlv.value.len())?,
        }
    }
    Ok(())
}

/// Which halves of the value's bytes are hidden; nothing means all.
pub(crate) fn hidden(tag: Tag, value: &[u8], shown: Shown<'_>) -> Option<Vec<bool>> {
    let Shown::Masked(numbers) = shown else { return Some(vec![false; value.len() * 2]) };
    if tag.number() == CARD_NUMBER {
        return hidden_digits(value);
    }
    SHOWN.contains(&tag.number()).then(|| numbers.in_bytes(value))
}

/// The middle of a card number in BCD, which F may fill up.
fn hidden_digits(value: &[u8]) -> Option<Vec<bool>> {
    let halves = || value.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]);
    let digits = halves().take_while(|half| *half < 10).count();
    let range = middle(digits);
    let is_card_number = halves().skip(digits).all(|half| half == 0x0F) && range.len() < digits;
    let hidden = (0..value.len() * 2).map(|at| range.contains(&at));
    is_card_number.then(|| hidden.collect())
}
