//! Card numbers in BCD whose check digit says that the padding is on the other side.

use std::fmt;

use crate::class::{Coding, Content, OddPadding};
use crate::coding;
use crate::view::{Field, MessageView};

/// The fields that begin with a card number.
const CARRIERS: [u16; 2] = [2, 35];

/// The lengths of card numbers.
const CARD_NUMBER_DIGITS: std::ops::RangeInclusive<usize> = 12..=19;

/// A card number of an odd length whose check digit (Luhn) is wrong as it was read, and right with the padding on
/// the other side. Libraries differ in the side: the number is then that of another card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherPadding {
    /// The number of the field.
    pub field: u16,
    /// The `pad` with which the check digit is right: `left`, `right` or `right-f`.
    pub pad: &'static str,
}

impl fmt::Display for OtherPadding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, pad } = self;
        write!(
            f,
            "field {field}: the check digit of the card number (Luhn) is wrong, and right with `pad = \"{pad}\"`"
        )
    }
}

impl MessageView<'_> {
    /// The fields whose card number was probably written with another padding than it was read with.
    pub fn other_paddings(&self) -> impl Iterator<Item = OtherPadding> {
        let fields = CARRIERS.into_iter().filter_map(|number| self.field(number));
        fields.filter_map(|field| other_padding(&field))
    }
}

fn other_padding(field: &Field<'_>) -> Option<OtherPadding> {
    let format = field.format;
    let (content, length) = field.parts();
    let is_padded = format.content == Content::Digits
        && format.coding == Coding::Bcd
        && length % 2 == 1
        && content.len() * 2 == length + 1;
    if !is_padded {
        return None;
    }
    let halves: Vec<u8> = content.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]).collect();
    let ([first, behind_left @ ..], [before_right @ .., last]) = (&*halves, &*halves) else {
        return None;
    };
    let (read, other, pad) = match (format.padding, last) {
        (OddPadding::ZeroLeft, 0) => (behind_left, before_right, "right"),
        (OddPadding::ZeroLeft, 0x0F) => (behind_left, before_right, "right-f"),
        (OddPadding::ZeroRight | OddPadding::FRight, _) if *first == 0 => {
            (before_right, behind_left, "left")
        }
        (OddPadding::ZeroLeft | OddPadding::ZeroRight | OddPadding::FRight, _) => return None,
    };
    (!has_check_digit(read) && has_check_digit(other))
        .then_some(OtherPadding { field: field.number, pad })
}

/// Whether the digits in front of a separator are a card number's with the right check digit. None begins with 0,
/// which a check digit does not tell from the number behind it.
fn has_check_digit(halves: &[u8]) -> bool {
    let digits = halves.iter().position(|half| coding::bcd_character(*half) == b'=');
    let digits = &halves[..digits.unwrap_or(halves.len())];
    let is_number = CARD_NUMBER_DIGITS.contains(&digits.len())
        && digits.first() != Some(&0)
        && digits.iter().all(|digit| *digit <= 9);
    if !is_number {
        return false;
    }
    let doubled = |digit: u8| if digit < 5 { digit * 2 } else { digit * 2 - 9 };
    let weighed = digits.iter().rev().enumerate();
    let sum = weighed.map(|(at, digit)| if at % 2 == 1 { doubled(*digit) } else { *digit });
    sum.map(u32::from).sum::<u32>() % 10 == 0
}
