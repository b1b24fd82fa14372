//! How messages are shown: card data is masked unless somebody asks for it by name.

use std::fmt;

use crate::index::Index;
use crate::message::Message;
use crate::view::{Field, MessageView};

/// Shows a message with everything in it, card data as well. Never log it.
pub struct Revealed<'a>(MessageView<'a>);

/// A card number: of these lengths the first six and the last four digits are shown.
const CARD_NUMBER_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

impl<'a> MessageView<'a> {
    /// The message to be shown with everything in it.
    #[must_use]
    pub fn revealed(self) -> Revealed<'a> {
        Revealed(self)
    }
}

impl fmt::Display for MessageView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lines(*self, "", false, f)
    }
}

impl fmt::Debug for MessageView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Revealed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lines(self.0, "", true, f)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.view(), f)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.view(), f)
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(*self, false, f)
    }
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.number)
    }
}

fn lines(
    view: MessageView<'_>,
    prefix: &str,
    reveals: bool,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for field in view.fields() {
        let number = field.number;
        let mut index = Index::new();
        let is_open = reveals || !field.format.is_sensitive;
        let inner = field.is_composite().then(|| field.nested(&mut index));
        if let (true, Some(Ok(inner))) = (is_open, inner) {
            lines(inner, &format!("{prefix}{number}."), reveals, f)?;
            continue;
        }
        write!(f, "{prefix}{number} ")?;
        show(field, reveals, f)?;
        writeln!(f)?;
    }
    Ok(())
}

fn show(field: Field<'_>, reveals: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let value = field.to_bytes();
    if field.format.is_sensitive && !reveals {
        let is_card_number = field.number == 2
            && CARD_NUMBER_DIGITS.contains(&value.len())
            && value.iter().all(u8::is_ascii_digit);
        if !is_card_number {
            let unit = if field.is_binary() { "bytes" } else { "characters" };
            return write!(f, "<{} {unit}>", value.len());
        }
        let hidden = 6..value.len() - 4;
        for (at, digit) in value.iter().enumerate() {
            let shown = if hidden.contains(&at) { '*' } else { char::from(*digit) };
            write!(f, "{shown}")?;
        }
        return Ok(());
    }
    if field.is_binary() {
        return value.iter().try_for_each(|byte| write!(f, "{byte:02X}"));
    }
    for character in value.iter().map(|byte| char::from(*byte)) {
        if character.is_control() {
            write!(f, "{}", character.escape_default())?;
        } else {
            write!(f, "{character}")?;
        }
    }
    Ok(())
}
