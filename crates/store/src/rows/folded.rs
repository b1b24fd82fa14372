//! Texts as searches compare them, in columns beside theirs. Both databases' `lower` knows the letters of ASCII
//! only, so that a text of others is folded here; the column of an ASCII text is NULL.

use domain::custom_field::CustomField;
use domain::{Account, PaymentMethod, Person};
use engine::text;

/// The folded columns of a row, in the order of the table.
pub(crate) type Folded<const COLUMNS: usize> = [Option<String>; COLUMNS];

pub(crate) fn of_account(it: &Account) -> Folded<1> {
    [folded(it.external_key.as_deref())]
}

pub(crate) fn of_person(it: &Person) -> Folded<3> {
    [&it.name, &it.email, &it.company].map(|it| folded(it.as_deref()))
}

pub(crate) fn of_payment_method(it: &PaymentMethod) -> Folded<1> {
    [folded(it.external_key.as_deref())]
}

pub(crate) fn of_custom_field(it: &CustomField) -> Folded<2> {
    [&it.name, &it.value].map(|it| folded(Some(it)))
}

fn folded(text: Option<&str>) -> Option<String> {
    text.filter(|it| !it.is_ascii()).map(text::folded)
}
