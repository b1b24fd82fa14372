//! How messages are shown: card data is masked unless somebody asks for it by name.
//!
//! Of a card number the first six and the last four digits are shown, of other sensitive fields
//! the length, of EMV's tags those values that are known to be harmless. A card number of the
//! message is masked wherever else it turns up, and so is what looks like one.

use std::fmt;

use crate::error::FieldPath;
use crate::index::Index;
use crate::message::Message;
use crate::view::{Field, MessageView};

pub(crate) mod card_number;
pub(crate) mod emv;
pub(crate) mod xml;

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
    /// What may be shown of each field, those inside others by themselves.
    #[must_use]
    pub fn texts(&self) -> Vec<(FieldPath, String)> {
        texts(*self, Shown::Masked(&CardNumbers::of(*self)))
    }

    /// The message to be shown with everything in it.
    #[must_use]
    pub fn revealed(self) -> Revealed<Self> {
        Revealed(self)
    }
}

impl Revealed<MessageView<'_>> {
    /// Each field with everything in it, those inside others by themselves.
    #[must_use]
    pub fn texts(&self) -> Vec<(FieldPath, String)> {
        texts(self.0, Shown::Everything)
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

fn write_lines(texts: &[(FieldPath, String)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    texts.iter().try_for_each(|(path, text)| writeln!(f, "{path} {text}"))
}

/// All fields, those inside others by themselves.
fn texts(view: MessageView<'_>, shown: Shown<'_>) -> Vec<(FieldPath, String)> {
    let mut texts = vec![];
    for field in view.fields() {
        let mut index = Index::new();
        let inner = field.is_composite().then(|| field.nested(&mut index));
        if let Some(Ok(inner)) = inner {
            let inner = self::texts(inner, shown).into_iter();
            texts.extend(inner.map(|(path, text)| (path.inside(field.number), text)));
        } else {
            texts.push((field.number.into(), Text(field, shown).to_string()));
        }
    }
    texts
}

/// A field's value to be shown.
struct Text<'a>(Field<'a>, Shown<'a>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.0, self.1, f)
    }
}

fn show(field: Field<'_>, shown: Shown<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if is_emv(field) && emv::are_tags(field.content()) {
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

/// Which characters of a sensitive field are hidden, where not all are: the middle of a card number.
pub(crate) fn hidden_digits(field: Field<'_>) -> Option<std::ops::Range<usize>> {
    let value = field.to_bytes();
    let range = middle(value.len());
    let is_card_number = field.number == 2
        && !field.is_binary()
        && range.len() < value.len()
        && value.iter().all(u8::is_ascii_digit);
    is_card_number.then_some(range)
}
