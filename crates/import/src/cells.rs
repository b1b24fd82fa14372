//! A record of Kill Bill's: an object of its API or a row of an export, read field by field.

use std::borrow::Cow;

use domain::card_data::contains_pan;
use domain::{AmountMinor, Currency, Timestamp};
use serde_json::{Map, Value};
use uuid::Uuid;

/// Why a record cannot be brought over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{of}: {field}: {reason}")]
pub struct Error {
    /// The record.
    pub of: String,
    /// Its field, as the API or the table has it.
    pub field: &'static str,
    pub reason: String,
}

/// A field: its name in the API, and that of its column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub(crate) api: &'static str,
    pub(crate) column: &'static str,
}

pub(crate) const fn name(api: &'static str, column: &'static str) -> Name {
    Name { api, column }
}

/// A record.
#[derive(Clone, Copy)]
pub(crate) enum Cells<'a> {
    Object(&'a Map<String, Value>),
    Row { columns: &'a [String], cells: &'a [Option<String>] },
}

impl<'a> Cells<'a> {
    /// A field's text; `None` where it is null or not there.
    pub(crate) fn text(self, name: Name) -> Option<Cow<'a, str>> {
        match self {
            Self::Object(object) => match object.get(name.api)? {
                Value::String(text) => Some(text.into()),
                Value::Number(number) => Some(number.to_string().into()),
                Value::Bool(is) => Some(is.to_string().into()),
                Value::Null | Value::Array(_) | Value::Object(_) => None,
            },
            Self::Row { columns, cells } => {
                let at = columns.iter().position(|it| it == name.column)?;
                cells.get(at)?.as_deref().map(Cow::Borrowed)
            }
        }
    }

    const fn field(self, name: Name) -> &'static str {
        match self {
            Self::Object(_) => name.api,
            Self::Row { .. } => name.column,
        }
    }

    /// The error of a field; `of` names its record.
    pub(crate) fn error(self, of: &str, name: Name, reason: impl Into<String>) -> Error {
        Error { of: of.to_owned(), field: self.field(name), reason: reason.into() }
    }

    /// A text that may not hold a card number, nor what databases do not hold.
    pub(crate) fn safe(self, of: &str, name: Name) -> Result<Option<String>, Error> {
        let Some(text) = self.text(name) else { return Ok(None) };
        if contains_pan(&text) {
            return Err(self.error(of, name, "looks like a card number"));
        }
        match text.contains('\0') {
            true => Err(self.error(of, name, "has a character U+0000")),
            false => Ok(Some(text.into_owned())),
        }
    }

    pub(crate) fn required(self, of: &str, name: Name) -> Result<String, Error> {
        self.safe(of, name)?.ok_or_else(|| self.error(of, name, "is missing"))
    }

    pub(crate) fn id(self, of: &str, name: Name) -> Result<Uuid, Error> {
        self.opt_id(of, name)?.ok_or_else(|| self.error(of, name, "is missing"))
    }

    pub(crate) fn opt_id(self, of: &str, name: Name) -> Result<Option<Uuid>, Error> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let id = Uuid::try_parse(&text);
        id.map(Some).map_err(|_| self.error(of, name, "is no UUID"))
    }

    pub(crate) fn int(self, of: &str, name: Name) -> Result<Option<i64>, Error> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse();
        number.map(Some).map_err(|_| self.error(of, name, "is no whole number"))
    }

    pub(crate) fn flag(self, name: Name) -> Option<bool> {
        Some(matches!(&*self.text(name)?, "true" | "1" | "t"))
    }

    pub(crate) fn currency(self, of: &str, name: Name) -> Result<Option<Currency>, Error> {
        let Some(code) = self.text(name) else { return Ok(None) };
        let currency = Currency::parse(&code);
        currency.map(Some).ok_or_else(|| self.error(of, name, "is no currency"))
    }

    /// An amount in a currency. The decimals that a database adds do not count.
    pub(crate) fn amount(
        self,
        of: &str,
        name: Name,
        currency: Currency,
    ) -> Result<Option<AmountMinor>, Error> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let shown = match text.contains('.') && !text.contains(['e', 'E']) {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        let amount = AmountMinor::parse(shown, currency);
        amount.map(Some).map_err(|error| self.error(of, name, format!("{text}: {error}")))
    }

    /// A time in RFC 3339, or as databases write it, in UTC.
    pub(crate) fn time(self, of: &str, name: Name) -> Result<Option<Timestamp>, Error> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let at = time(&text);
        at.map(Some).ok_or_else(|| self.error(of, name, "is no time"))
    }
}

fn time(text: &str) -> Option<Timestamp> {
    let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let local: jiff::civil::DateTime = text.parse().ok()?;
        local.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|it| it.timestamp())
    })?;
    Some(Timestamp(at.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_both_forms() {
        let at = Some(Timestamp(1_335_312_222_000_000));
        for text in ["2012-04-25T00:03:42.000Z", "2012-04-25 00:03:42.0", "2012-04-25T00:03:42"] {
            assert_eq!(time(text), at, "{text}");
        }
        assert_eq!(time("yesterday"), None);
    }

    #[test]
    fn decimals_that_a_database_adds_do_not_count() {
        let columns = ["amount".to_owned()];
        let read = |text: &str, currency: &str| {
            let cells = [Some(text.to_owned())];
            let row = Cells::Row { columns: &columns, cells: &cells };
            let amount = name("amount", "amount");
            row.amount("x", amount, Currency::parse(currency).unwrap()).map_err(|it| it.to_string())
        };
        assert_eq!(read("10.000000000", "USD"), Ok(Some(AmountMinor(1_000))));
        assert_eq!(read("10.500000000", "USD"), Ok(Some(AmountMinor(1_050))));
        assert_eq!(read("100.000000000", "JPY"), Ok(Some(AmountMinor(100))));
        assert_eq!(read("1.234000000", "KWD"), Ok(Some(AmountMinor(1_234))));
        let refused = read("1.500000000", "JPY").unwrap_err();
        assert!(refused.starts_with("x: amount: 1.500000000: "), "{refused}");
    }
}
