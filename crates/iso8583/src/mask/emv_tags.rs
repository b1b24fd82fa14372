//! The tags of EMV: which carry a card number, and whose values may be shown.

use crate::tlv::{Tag, Tags, Tlv};

/// The card number (EMV Book 3, annex A).
pub(super) const CARD_NUMBER: u32 = 0x5A;
/// Tracks 1 and 2, and track 2 equivalent data.
const TRACKS: [u32; 3] = [0x56, 0x57, 0x9F6B];

/// The tags of EMV Book 3 whose values are shown.
///
/// All other values are masked, including those of unknown and proprietary tags. Excluded on purpose: names (5F20, 9F0B), the card's dates and accounts (5F24, 5F25,
/// 5F53), discretionary data (9F1F, 9F20), PIN (99), CVC3 (9F60, 9F61) and scripts, which may change
/// a PIN (71, 72, 86).
#[rustfmt::skip]
pub(super) const SHOWN: [u32; 70] = [
    0x42, 0x4F, 0x50, 0x82, 0x84, 0x87, 0x89, 0x8A, 0x8C, 0x8D, 0x8E, 0x8F, 0x91, 0x94, 0x95, 0x97,
    0x98, 0x9A, 0x9B, 0x9C, 0x9D,
    0x5F28, 0x5F2A, 0x5F2D, 0x5F30, 0x5F34, 0x5F36, 0x5F54, 0x5F55, 0x5F56, 0x5F57,
    0x9F01, 0x9F02, 0x9F03, 0x9F04, 0x9F06, 0x9F07, 0x9F08, 0x9F09, 0x9F0D, 0x9F0E, 0x9F0F, 0x9F10,
    0x9F11, 0x9F12, 0x9F13, 0x9F15, 0x9F16, 0x9F1A, 0x9F1B, 0x9F1C, 0x9F1D, 0x9F1E, 0x9F21, 0x9F26,
    0x9F27, 0x9F33, 0x9F34, 0x9F35, 0x9F36, 0x9F37, 0x9F39, 0x9F3C, 0x9F40, 0x9F41, 0x9F42, 0x9F4C,
    0x9F53, 0x9F66, 0x9F6C,
];

/// Whether the tag has a card number.
pub(crate) fn carries_card_number(tag: Tag) -> bool {
    tag.number() == CARD_NUMBER || TRACKS.contains(&tag.number())
}

/// The maximum depth of nested tags that are shown. Deeper ones are masked.
const DEPTH_MAX: usize = 8;

/// Whether all bytes are valid tags.
pub(crate) fn are_tags(bytes: &[u8]) -> bool {
    Tags::new(bytes).all(|tlv| tlv.is_ok())
}

/// Whether the value is shown as nested tags.
pub(crate) fn is_open(tlv: &Tlv<'_>, depth: usize) -> bool {
    depth < DEPTH_MAX && tlv.tag.is_constructed() && are_tags(tlv.value)
}
