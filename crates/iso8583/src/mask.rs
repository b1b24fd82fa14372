//! How messages are shown: card data is masked unless somebody asks for it by name.
//!
//! Of a card number the first six and the last four digits are shown, of other sensitive fields
//! the length, of EMV's tags those values that are known to be harmless. A card number of the
//! message is masked wherever else it turns up, and so is what looks like one.

use std::fmt;

use crate::index::Index;
use crate::message::Message;
use crate::view::{Field, MessageView};

pub(crate) mod card_number;
pub(crate) mod emv;

use card_number::{CardNumbers, is_emv, masked_halves, middle};

/// Shows what it holds with everything in it, card data as well. Never log it.
pub struct Revealed<T>(pub(crate) T);

/// How much is shown.
#[derive(Clone, Copy)]
pub(crate) enum Shown<'a> {
    /// No card data; these are the card numbers of the message.
    Masked(&'a CardNumbers),
    Everything,
}

impl MessageView<'_> {
    /// The message to be shown with everything in it.
    #[must_use]
    pub fn revealed(self) -> Revealed<Self> {
        Revealed(self)
    }
}

impl Field<'_> {
    /// The field's value to be shown with everything in it.
    #[must_use]
    pub fn revealed(self) -> Revealed<Self> {
        Revealed(self)
    }
}

impl fmt::Display for MessageView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lines(*self, "", Shown::Masked(&CardNumbers::of(*self)), f)
    }
}

impl fmt::Debug for MessageView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Revealed<MessageView<'_>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        lines(self.0, "", Shown::Everything, f)
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

/// The value, masked. Of other fields of the message nothing is known here: a card number among
/// other digits is found only where the whole message is shown.
impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(*self, Shown::Masked(&CardNumbers::default()), f)
    }
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.number)
    }
}

impl fmt::Display for Revealed<Field<'_>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.0, Shown::Everything, f)
    }
}

fn lines(
    view: MessageView<'_>,
    prefix: &str,
    shown: Shown<'_>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for field in view.fields() {
        let number = field.number;
        let mut index = Index::new();
        let inner = field.is_composite().then(|| field.nested(&mut index));
        if let Some(Ok(inner)) = inner {
            lines(inner, &format!("{prefix}{number}."), shown, f)?;
            continue;
        }
        write!(f, "{prefix}{number} ")?;
        show(field, shown, f)?;
        writeln!(f)?;
    }
    Ok(())
}

fn show(field: Field<'_>, shown: Shown<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let value = field.to_bytes();
    if is_emv(field) && emv::are_tags(&value) {
        return emv::show(&value, 0, shown, f);
    }
    let is_binary = field.is_binary();
    let hidden = match shown {
        Shown::Everything => vec![false; value.len() * 2],
        Shown::Masked(_) if field.format.is_sensitive => {
            let Some(range) = hidden_digits(field, &value) else {
                let unit = if is_binary { "bytes" } else { "characters" };
                return write!(f, "<{} {unit}>", value.len());
            };
            (0..value.len()).map(|at| range.contains(&at)).collect()
        }
        Shown::Masked(numbers) if is_binary => numbers.in_bytes(&value),
        Shown::Masked(numbers) => numbers.in_text(&value),
    };
    if is_binary {
        return masked_halves(&value, &hidden).try_for_each(|it| write!(f, "{it}"));
    }
    let text = field.text();
    // Bytes are told apart here where characters take several: in messages in XML.
    let is_latin1 = text.chars().count() == value.len();
    for (place, (at, character)) in text.char_indices().enumerate() {
        match character {
            _ if hidden[if is_latin1 { place } else { at }] => write!(f, "*")?,
            _ if character.is_control() => write!(f, "{}", character.escape_default())?,
            _ => write!(f, "{character}")?,
        }
    }
    Ok(())
}

/// Which characters of a sensitive field are hidden, where not all are: the middle of a card number.
pub(crate) fn hidden_digits(field: Field<'_>, value: &[u8]) -> Option<std::ops::Range<usize>> {
    let range = middle(value.len());
    let is_card_number = field.number == 2
        && !field.is_binary()
        && range.len() < value.len()
        && value.iter().all(u8::is_ascii_digit);
    is_card_number.then_some(range)
}
