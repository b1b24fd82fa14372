//! Windows on lists: `offset` and `limit` in, the pagination headers out.

use std::fmt::Write;

use axum::response::Response;
use engine::ports::{Page, Paged, ROWS_MAX, StoreError};
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;

use crate::error::Failure;
use crate::reply;
use crate::request::Query;

/// Rows in a page where the client does not say.
const LIMIT_DEFAULT: u64 = 100;

/// Rows in a page at most; who asks for more gets this many and a next page.
const LIMIT_MAX: u64 = ROWS_MAX;

const CURRENT_OFFSET: HeaderName = HeaderName::from_static("x-killbill-pagination-currentoffset");
const NEXT_OFFSET: HeaderName = HeaderName::from_static("x-killbill-pagination-nextoffset");
const TOTAL_RECORDS: HeaderName = HeaderName::from_static("x-killbill-pagination-totalnbrecords");
const MAX_RECORDS: HeaderName = HeaderName::from_static("x-killbill-pagination-maxnbrecords");
const NEXT_PAGE_URI: HeaderName = HeaderName::from_static("x-killbill-pagination-nextpageuri");

/// Reads the window. A negative limit reads as one row, as Kill Bill reads it.
///
/// # Errors
/// A number that is none, or a negative offset.
pub(crate) fn parse(query: Query<'_>) -> Result<Page, Failure> {
    let number = |name: &'static str, default: u64| -> Result<i64, Failure> {
        let Some(text) = query.text(name)? else { return Ok(default.cast_signed()) };
        text.parse().map_err(|_| Failure::illegal(format!("{name} is not a number")))
    };
    let offset = u64::try_from(number("offset", 0)?)
        .map_err(|_| Failure::illegal("offset should not be negative"))?;
    let limit = u64::try_from(number("limit", LIMIT_DEFAULT)?).unwrap_or(1).min(LIMIT_MAX);
    Ok(Page { offset, limit })
}

/// The page with each row made into something else.
///
/// # Errors
/// The first that cannot be.
pub(crate) fn with<T, U>(
    paged: Paged<T>,
    make: impl FnMut(T) -> Result<U, StoreError>,
) -> Result<Paged<U>, StoreError> {
    let items = paged.items.into_iter().map(make).collect::<Result<_, _>>()?;
    Ok(Paged { items, matching: paged.matching, all: paged.all })
}

/// A page as a bare array. `path` is the list's; `more` are its other parameters, in order.
pub(crate) fn answer<T>(
    body: &impl Serialize,
    paged: &Paged<T>,
    page: Page,
    (path, more): (&str, &[(&str, &str)]),
) -> Response {
    let mut response = reply::ok(body);
    write_headers(response.headers_mut(), (paged.matching, paged.all), page, (path, more));
    response
}

fn write_headers(
    headers: &mut HeaderMap,
    (matching, all): (u64, u64),
    page: Page,
    (path, more): (&str, &[(&str, &str)]),
) {
    headers.insert(CURRENT_OFFSET, HeaderValue::from(page.offset));
    headers.insert(TOTAL_RECORDS, HeaderValue::from(matching));
    headers.insert(MAX_RECORDS, HeaderValue::from(all));
    let next = page.offset.saturating_add(page.limit);
    if next >= matching {
        return;
    }
    headers.insert(NEXT_OFFSET, HeaderValue::from(next));
    let mut uri = format!("{path}?offset={next}&limit={}", page.limit);
    for (name, value) in more {
        write!(uri, "&{name}={}", reply::segment(value)).expect("a string takes everything");
    }
    if let Ok(uri) = HeaderValue::try_from(uri) {
        headers.insert(NEXT_PAGE_URI, uri);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(query: &str, matching: u64, expected: Expect) {
        let shown = match parse(Query::new(query)) {
            Ok(page) => {
                let mut headers = HeaderMap::new();
                let list =
                    ("/1.0/kb/payments/pagination", &[("pluginName", ""), ("audit", "NONE")]);
                write_headers(&mut headers, (matching, 9), page, (list.0, list.1));
                let show = |(name, value): (&HeaderName, &HeaderValue)| {
                    let name = name.as_str().trim_start_matches("x-killbill-pagination-");
                    format!("{name}: {}", value.to_str().unwrap())
                };
                headers.iter().map(show).collect::<Vec<_>>().join("\n")
            }
            Err(Failure::Problem(problem)) => problem.message,
            Err(other) => format!("{other:?}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_page_names_the_next_one_if_there_is_one() {
        check(
            "offset=0&limit=1",
            2,
            expect![[r#"
            currentoffset: 0
            totalnbrecords: 2
            maxnbrecords: 9
            nextoffset: 1
            nextpageuri: /1.0/kb/payments/pagination?offset=1&limit=1&pluginName=&audit=NONE"#]],
        );
        check(
            "offset=1&limit=1",
            2,
            expect![[r#"
            currentoffset: 1
            totalnbrecords: 2
            maxnbrecords: 9"#]],
        );
        check(
            "",
            101,
            expect![[r#"
            currentoffset: 0
            totalnbrecords: 101
            maxnbrecords: 9
            nextoffset: 100
            nextpageuri: /1.0/kb/payments/pagination?offset=100&limit=100&pluginName=&audit=NONE"#]],
        );
        check(
            "limit=99999999",
            20_000,
            expect![[r#"
            currentoffset: 0
            totalnbrecords: 20000
            maxnbrecords: 9
            nextoffset: 10000
            nextpageuri: /1.0/kb/payments/pagination?offset=10000&limit=10000&pluginName=&audit=NONE"#]],
        );
    }

    #[test]
    fn odd_windows() {
        check(
            "limit=0",
            2,
            expect![[r#"
            currentoffset: 0
            totalnbrecords: 2
            maxnbrecords: 9
            nextoffset: 0
            nextpageuri: /1.0/kb/payments/pagination?offset=0&limit=0&pluginName=&audit=NONE"#]],
        );
        check(
            "limit=-1",
            2,
            expect![[r#"
            currentoffset: 0
            totalnbrecords: 2
            maxnbrecords: 9
            nextoffset: 1
            nextpageuri: /1.0/kb/payments/pagination?offset=1&limit=1&pluginName=&audit=NONE"#]],
        );
        check(
            "offset=9223372036854775807",
            2,
            expect![[r#"
            currentoffset: 9223372036854775807
            totalnbrecords: 2
            maxnbrecords: 9"#]],
        );
        check("offset=-1", 2, expect!["offset should not be negative"]);
        check("limit=x", 2, expect!["limit is not a number"]);
    }
}
