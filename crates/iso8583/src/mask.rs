//! Displays messages with masked card data, unless the caller reveals it explicitly.
//!
//! A card number shows its first six and last four digits, other sensitive fields show their length,
//! and EMV tags show values without card data. Further occurrences of the card number in the message,
//! and digits that look like a card number, are masked as well.

use std::fmt;

use crate::error::FieldPath;
use crate::index::Index;
use crate::message::Message;
use crate::view::{Field, MessageView};

pub(crate) mod card_number;
pub(crate) mod emv;
pub(crate) mod emv_tags;
pub(crate) mod shown;
pub(crate) mod xml;

use card_number::code::middle;
use card_number::{CardNumbers, is_emv, masked_halves};
use shown::Shown;

/// Displays its value without masking, including card data. Never log it.
pub struct Revealed<T>(pub(crate) T);

impl MessageView<'_> {
    /// The masked values of all fields. Inner fields are listed individually.
    #[must_use]
    pub fn texts(&self) -> Vec<(FieldPath, String)> {
        texts(*self, Shown::Masked(&CardNumbers::new(*self)))
    }

    /// Displays the message without masking.
    #[must_use]
    pub fn revealed(self) -> Revealed<Self> {
        Revealed(self)
    }
}

impl Revealed<MessageView<'_>> {
    /// The values of all fields without masking. Inner fields are listed individually.
    #[must_use]
    pub fn texts(&self) -> Vec<(FieldPath, String)> {
        texts(self.0, Shown::Everything)
    }
}

impl Field<'_> {
    /// Displays the value without masking.
    #[must_use]
    pub fn revealed(self) -> Revealed<Self> {
        Revealed(self)
    }
}

impl fmt::Display for MessageView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_lines(&self.texts(), f)
    }
}

impl fmt::Debug for MessageView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Revealed<MessageView<'_>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_lines(&self.texts(), f)
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

/// The masked value. A card number among other digits is only found when the whole message is
/// displayed, because other fields are unknown here.
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

fn write_lines(texts: &[(FieldPath, String)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    texts.iter().try_for_each(|(path, text)| writeln!(f, "{path} {text}"))
}

/// The values of all fields. Inner fields are listed individually, and the third bitmap as the field
/// that carries it.
fn texts(view: MessageView<'_>, shown: Shown<'_>) -> Vec<(FieldPath, String)> {
    let mut texts = vec![];
    let mut third = view.third_bitmap();
    for field in view.fields() {
        if let Some((number, bits)) = third.take_if(|(number, _)| *number < field.number) {
            texts.push((number.into(), hex(&bits)));
        }
        let mut index = Index::new();
        let inner = field.is_composite().then(|| field.nested(&mut index));
        if let Some(Ok(inner)) = inner {
            let inner = self::texts(inner, shown).into_iter();
            texts.extend(inner.map(|(path, text)| (path.inside(field.number), text)));
        } else {
            texts.push((field.number.into(), Text(field, shown).to_string()));
        }
    }
    texts.extend(third.map(|(number, bits)| (number.into(), hex(&bits))));
    texts
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Displays a field's value.
struct Text<'a>(Field<'a>, Shown<'a>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.0, self.1, f)
    }
}

fn show(field: Field<'_>, shown: Shown<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if is_emv(field) && emv_tags::are_tags(field.content()) {
        return emv::show(field.content(), 0, shown, f);
    }
    let digits = match shown {
        Shown::Masked(_) if field.is_sensitive => hidden_digits(field),
        Shown::Masked(_) | Shown::Everything => Some(0..0),
    };
    let (length, unit) = match field.is_binary() {
        true => (field.to_bytes().len(), "bytes"),
        false => (field.text().chars().count(), "characters"),
    };
    let Some(digits) = digits else { return write!(f, "<{length} {unit}>") };
    if field.is_binary() {
        let value = field.to_bytes();
        let hidden = match shown {
            Shown::Masked(numbers) => numbers.in_bytes(&value),
            Shown::Everything => vec![false; value.len() * 2],
        };
        return masked_halves(&value, &hidden).try_for_each(|it| write!(f, "{it}"));
    }
    let value = field.text();
    let hidden = match shown {
        Shown::Masked(numbers) if !field.is_sensitive => numbers.in_text(&value),
        Shown::Masked(_) | Shown::Everything => {
            (0..length).map(|at| digits.contains(&at)).collect()
        }
    };
    for (character, is_hidden) in value.chars().zip(hidden) {
        match character {
            _ if is_hidden => write!(f, "*")?,
            _ if character.is_control() => write!(f, "{}", character.escape_default())?,
            _ => write!(f, "{character}")?,
        }
    }
    Ok(())
}

/// The masked characters of a card number; `None` for other sensitive fields, which are masked
/// completely.
pub(crate) fn hidden_digits(field: Field<'_>) -> Option<std::ops::Range<usize>> {
    let value = field.to_bytes();
    let range = middle(value.len());
    let is_card_number = field.number == 2
        && !field.is_binary()
        && range.len() < value.len()
        && value.iter().all(u8::is_ascii_digit);
    is_card_number.then_some(range)
}
