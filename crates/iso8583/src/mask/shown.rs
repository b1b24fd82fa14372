//! Whether card data is shown.

use super::card_number::CardNumbers;

/// The content that is shown.
#[derive(Clone, Copy)]
pub(crate) enum Shown<'a> {
    /// Everything except card data; with the card numbers of the message.
    Masked(&'a CardNumbers),
    Everything,
}
