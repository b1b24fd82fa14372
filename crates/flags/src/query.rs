//! Parameters of an address.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The value of a parameter, the first of that name; nothing where it is not there or no text.
pub(crate) fn value<'q>(query: &'q str, name: &str) -> Option<Cow<'q, str>> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let (_, value) = pairs.into_iter().find(|(it, _)| *it == name)?;
    percent_decode_str(value).decode_utf8().ok()
}
