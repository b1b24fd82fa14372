//! Query parameters of `/v1`: read strictly, refused by name.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use domain::{Id, Timestamp};
use engine::ports::Page;
use http::Uri;
use uuid::Uuid;
use web::Query;
use web::query::NotUtf8;

use crate::error::Error;

/// Rows per answer by default.
const LIMIT_DEFAULT: u64 = 100;
/// Rows per answer at most.
const LIMIT_MAX: u64 = 1_000;
/// Rows skipped at most: what is further away is found by narrowing the filter.
const OFFSET_MAX: u64 = 1_000_000;
/// How much of an unknown parameter's name is shown, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The offset of the page after one with this many rows; `None` after the last page. Where the last page is full, the
/// next one is empty.
pub fn next_offset(page: Page, rows: usize) -> Option<u64> {
    let is_full = u64::try_from(rows).is_ok_and(|rows| rows == page.limit && rows > 0);
    is_full.then(|| page.offset + page.limit)
}

/// The parameters of a request. What is not taken out is refused by [`Parameters::end`].
pub struct Parameters {
    pairs: Vec<(String, String)>,
}

impl Parameters {
    /// The parameters of this URI.
    ///
    /// # Errors
    /// Where they are not UTF-8.
    pub fn of(uri: &Uri) -> Result<Self, Error> {
        let query = Query::parse(uri.query().unwrap_or_default()).map_err(|NotUtf8 { name }| {
            invalid(name.map_or("query".to_owned(), |name| shown(&name)), "is not UTF-8")
        })?;
        let owned =
            |(name, value): (Cow<'_, str>, Cow<'_, str>)| (name.into_owned(), value.into_owned());
        Ok(Self { pairs: query.into_pairs().map(owned).collect() })
    }

    /// Refuses any parameter.
    ///
    /// # Errors
    /// Where there is one.
    pub fn none(uri: &Uri) -> Result<(), Error> {
        Self::of(uri)?.end()
    }

    /// The page of a list that has no other parameters.
    ///
    /// # Errors
    /// As [`Parameters::page`] and [`Parameters::end`].
    pub fn only_page(uri: &Uri) -> Result<Page, Error> {
        let mut parameters = Self::of(uri)?;
        let page = parameters.page()?;
        parameters.end()?;
        Ok(page)
    }

    /// As [`Parameters::only_page`], for a list that says whether there are more rows.
    ///
    /// # Errors
    /// See there.
    pub fn only_window(uri: &Uri) -> Result<Window, Error> {
        Self::only_page(uri).map(Window)
    }

    /// Takes a parameter out; an empty one counts as absent.
    ///
    /// # Errors
    /// Where it is given twice.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        let mut found = None;
        while let Some(at) = self.pairs.iter().position(|(given, _)| given == name) {
            let (_, value) = self.pairs.swap_remove(at);
            if found.replace(value).is_some() {
                return Err(invalid(name, "is given twice"));
            }
        }
        Ok(found.filter(|value| !value.is_empty()))
    }

    /// Takes an id out.
    ///
    /// # Errors
    /// Where it is no UUID.
    pub fn id<K>(&mut self, name: &'static str) -> Result<Option<Id<K>>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        Uuid::try_parse(&text).map(|id| Some(Id::new(id))).map_err(|_| invalid(name, "is no UUID"))
    }

    /// Takes a point in time out: RFC 3339, or a date, which is its first moment in UTC.
    ///
    /// # Errors
    /// Where it is neither.
    pub fn time(&mut self, name: &'static str) -> Result<Option<Timestamp>, Error> {
        self.text(name)?.map(|text| time(name, &text)).transpose()
    }

    /// Takes a number out.
    ///
    /// # Errors
    /// Where it is none, or more than `max`.
    pub fn number(&mut self, name: &'static str, max: u64) -> Result<Option<u64>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let number = text.parse().ok().filter(|number| *number <= max);
        number.map(Some).ok_or_else(|| invalid(name, format!("is no number from 0 to {max}")))
    }

    /// Takes a boolean out; an absent one is false.
    ///
    /// # Errors
    /// Where it is neither true nor false.
    pub fn is(&mut self, name: &'static str) -> Result<bool, Error> {
        match self.text(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(invalid(name, "is neither true nor false")),
        }
    }

    /// Takes `offset` and `limit` out.
    ///
    /// # Errors
    /// Where they are out of range.
    pub fn page(&mut self) -> Result<Page, Error> {
        self.page_of(LIMIT_MAX)
    }

    /// As [`Parameters::page`], of at most so many rows: for those that are large.
    ///
    /// # Errors
    /// See there.
    pub fn page_of(&mut self, limit_max: u64) -> Result<Page, Error> {
        let offset = self.number("offset", OFFSET_MAX)?.unwrap_or(0);
        let limit = self.number("limit", limit_max)?.unwrap_or(LIMIT_DEFAULT.min(limit_max));
        Ok(Page { offset, limit })
    }

    /// As [`Parameters::page`], for a list that says whether there are more rows.
    ///
    /// # Errors
    /// See there.
    pub fn window(&mut self) -> Result<Window, Error> {
        self.page().map(Window)
    }

    /// Refuses parameters that were not taken out.
    ///
    /// # Errors
    /// Where there is such a parameter.
    pub fn end(self) -> Result<(), Error> {
        match self.pairs.into_iter().next() {
            Some((name, _)) => Err(invalid(shown(&name), "there is no such parameter")),
            None => Ok(()),
        }
    }
}

/// The page of a list that says whether there are more rows behind it.
#[derive(Clone, Copy)]
pub struct Window(pub Page);

impl Window {
    /// The page to be read: one row more than is shown, to find out whether there are more.
    #[must_use]
    pub const fn one_more(self) -> Page {
        Page { offset: self.0.offset, limit: self.0.limit + 1 }
    }

    /// The rows that are shown, and whether there are more behind them.
    #[must_use]
    pub fn cut<T>(self, mut rows: Vec<T>) -> (Vec<T>, bool) {
        let limit = usize::try_from(self.0.limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        (rows, more)
    }
}

/// A point in time: RFC 3339, or a date, which is its first moment in UTC.
///
/// # Errors
/// Where it is neither.
pub fn time(field: &'static str, text: &str) -> Result<Timestamp, Error> {
    let refused = || invalid(field, "is neither a date nor a time with an offset (RFC 3339)");
    let time = match jiff::Timestamp::from_str(text) {
        Ok(time) => time,
        Err(_) => {
            let date = jiff::civil::Date::from_str(text).map_err(|_| refused())?;
            date.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| refused())?.timestamp()
        }
    };
    Ok(Timestamp(time.as_microsecond()))
}

/// The id that a path has: of something that is not there, where it is no UUID.
///
/// # Errors
/// [`Error::NotFound`].
pub fn id_of<K>(what: &'static str, text: &str) -> Result<Id<K>, Error> {
    Uuid::try_parse(text).map(Id::new).map_err(|_| Error::not_found(what, text))
}

/// The parameter `id` of a path.
///
/// # Errors
/// [`Error::InvalidParameter`] where it is no UUID.
pub fn uuid_of(text: &str) -> Result<Uuid, Error> {
    Uuid::try_parse(text).map_err(|_| invalid("id", "is no UUID"))
}

/// A refusal of a parameter.
pub fn invalid(field: impl Into<Cow<'static, str>>, reason: impl Display) -> Error {
    Error::InvalidParameter { field: field.into(), reason: reason.to_string() }
}

/// Refuses a request with a card number in this field.
///
/// # Errors
/// [`Error::InvalidParameter`], without the value.
pub fn refuse_card_number(field: Option<impl Into<Cow<'static, str>>>) -> Result<(), Error> {
    match field {
        Some(field) => Err(Error::InvalidParameter {
            field: field.into(),
            reason: web::card_data::REASON.to_owned(),
        }),
        None => Ok(()),
    }
}

/// A name that the client made up, as far as it is shown.
fn shown(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(query: &str, expected: Expect) {
        let read = || -> Result<String, Error> {
            let mut parameters = Parameters::of(&format!("/x?{query}").parse().unwrap())?;
            let account = parameters.id::<domain::kind::Account>("account")?;
            let from = parameters.time("from")?;
            let page = parameters.page()?;
            parameters.end()?;
            Ok(format!("{account:?} {from:?} {page:?}"))
        };
        expected.assert_eq(&read().unwrap_or_else(|problem| problem.to_string()));
    }

    #[test]
    fn parameters() {
        check("", expect!["None None Page { offset: 0, limit: 100 }"]);
        check(
            "account=0192aabb-ccdd-7123-9456-789abcdef012&limit=5&offset=10",
            expect![
                "Some(0192aabb-ccdd-7123-9456-789abcdef012) None Page { offset: 10, limit: 5 }"
            ],
        );
        check(
            "from=1970-01-02",
            expect!["None Some(Timestamp(86400000000)) Page { offset: 0, limit: 100 }"],
        );
        check(
            "from=1970-01-01T01%3A00%3A01%2B01%3A00",
            expect!["None Some(Timestamp(1000000)) Page { offset: 0, limit: 100 }"],
        );
        check(
            "from=10000-01-01",
            expect!["from: is neither a date nor a time with an offset (RFC 3339)"],
        );
        check("account=1", expect!["account: is no UUID"]);
        check("limit=1001", expect!["limit: is no number from 0 to 1000"]);
        check("limit=1&limit=2", expect!["limit: is given twice"]);
        check("colour=red", expect!["colour: there is no such parameter"]);
        check("from=%FF", expect!["from: is not UTF-8"]);
        check("%FF=1", expect!["query: is not UTF-8"]);
    }
}
