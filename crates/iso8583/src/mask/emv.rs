//! Displays EMV tags with masked card data.

use std::fmt;

use super::card_number::code::middle;
use super::card_number::masked_halves;
use super::emv_tags::{CARD_NUMBER, SHOWN, is_open};
use super::shown::Shown;
use crate::tlv::{Tag, Tags};

/// Shows tags: `9F36=0042 57=<19 bytes> 70={9F37=DEADBEEF}`. The bytes must be valid tags.
pub(super) fn show(
    bytes: &[u8],
    depth: usize,
    shown: Shown<'_>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (position, tlv) in Tags::new(bytes).map_while(Result::ok).enumerate() {
        let blank = if position > 0 { " " } else { "" };
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

/// The masked half bytes of the value; `None` for all.
pub(crate) fn hidden(tag: Tag, value: &[u8], shown: Shown<'_>) -> Option<Vec<bool>> {
    let Shown::Masked(numbers) = shown else { return Some(vec![false; value.len() * 2]) };
    if tag.number() == CARD_NUMBER {
        return hidden_digits(value);
    }
    SHOWN.contains(&tag.number()).then(|| numbers.in_bytes(value))
}

/// The middle of a card number in BCD with F as padding.
fn hidden_digits(value: &[u8]) -> Option<Vec<bool>> {
    let halves = || value.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]);
    let digits = halves().take_while(|half| *half < 10).count();
    let range = middle(digits);
    let is_card_number = halves().skip(digits).all(|half| half == 0x0F) && range.len() < digits;
    let hidden = (0..value.len() * 2).map(|at| range.contains(&at));
    is_card_number.then(|| hidden.collect())
}
