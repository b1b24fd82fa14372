//! Texts of gateways as they are stored: bounded, and without card numbers.

use crate::card_data::{PAN_CHARS_MAX, mask_pans};
use crate::payment::GATEWAY_TEXT_MAX;

/// A gateway's text as it may be kept: nobody promised that it holds no card number, or that it ends.
/// Only as much of it is looked at as a card number across the cut takes. A NUL is replaced: not
/// every database holds one.
pub(crate) fn gateway_text(said: &str) -> String {
    let said = said.chars().map(|it| if it == '\0' { char::REPLACEMENT_CHARACTER } else { it });
    let said: String = said.take(GATEWAY_TEXT_MAX + PAN_CHARS_MAX).collect();
    mask_pans(&said).chars().take(GATEWAY_TEXT_MAX).collect()
}
