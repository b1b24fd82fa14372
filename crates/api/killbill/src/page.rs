//! Pages of lists: the parameters `offset` and `limit`, and the pagination headers.

use std::borrow::Cow;
use std::fmt::Write;
use std::marker::PhantomData;

use domain::{AccountId, AccountRejection, Rejection, TenantNo};
use engine::ports::{
    GatewayPage, HistoryOf, HistoryRow, Page, Paged, Queries, ROWS_BESIDE_OTHERS_MAX, ROWS_MAX,
    StoreError,
};
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;

use crate::audit::{AuditLevel, AuditLogJson};
use crate::call::Call;
use crate::error::{Failure, HandlerResult};
use crate::reply;
use crate::request::Query;

/// Rows of a page if the request has no `limit`.
const LIMIT_DEFAULT: u64 = 100;

/// The most rows of a page; a larger `limit` is lowered to it.
const LIMIT_MAX: u64 = ROWS_MAX;

/// The most rows that are read beside others' reads where more is read for each of them, such as its audit.
const AUDITED_ROWS_BESIDE_OTHERS_MAX: u64 = 100;

/// The most rows that a page skips: they are read, too.
const OFFSET_MAX: u64 = 1_000_000;

const CURRENT_OFFSET: HeaderName = HeaderName::from_static("x-killbill-pagination-currentoffset");
const NEXT_OFFSET: HeaderName = HeaderName::from_static("x-killbill-pagination-nextoffset");
const TOTAL_RECORDS: HeaderName = HeaderName::from_static("x-killbill-pagination-totalnbrecords");
const MAX_RECORDS: HeaderName = HeaderName::from_static("x-killbill-pagination-maxnbrecords");
const NEXT_PAGE_URI: HeaderName = HeaderName::from_static("x-killbill-pagination-nextpageuri");

/// Reads `offset` and `limit`. A negative limit means one row, as in Kill Bill.
///
/// # Errors
/// 400 if one is not a number, or the offset is negative or above [`OFFSET_MAX`].
pub(crate) fn parse(query: Query<'_>) -> Result<Page, Failure> {
    let number = |name: &'static str, default: u64| -> Result<i64, Failure> {
        let Some(text) = query.text(name)? else { return Ok(default.cast_signed()) };
        text.parse().map_err(|_| Failure::illegal(format!("{name} is not a number")))
    };
    let offset = u64::try_from(number("offset", 0)?)
        .map_err(|_| Failure::illegal("offset should not be negative"))?;
    if offset > OFFSET_MAX {
        return Err(Failure::illegal(format!("offset should not be above {OFFSET_MAX}")));
    }
    let limit = u64::try_from(number("limit", LIMIT_DEFAULT)?).unwrap_or(1).min(LIMIT_MAX);
    Ok(Page { offset, limit })
}

/// How the rows of one kind are read with their audit and encoded.
pub(crate) trait RowFormat: Copy + Send + 'static {
    /// A row as the store returns it.
    type Row: Send + 'static;
    /// The row with its audit.
    type Audited: Send + 'static;
    type Json<'a>: Serialize;

    /// Reads the format from the query parameters.
    ///
    /// # Errors
    /// 400 if a parameter is invalid.
    fn of(call: &Call) -> Result<Self, Failure>;

    /// Whether more is read for each row.
    fn reads_audit(self) -> bool;

    /// Adds the rows of the audit that this format includes.
    ///
    /// # Errors
    /// The store cannot be read.
    fn with_audit(self, queries: &dyn Queries, row: Self::Row)
    -> Result<Self::Audited, StoreError>;

    fn json(self, audited: &Self::Audited) -> Self::Json<'_>;
}

/// A row whose JSON has its audit and no other option.
pub(crate) trait AuditedRow: Send + 'static {
    type Json<'a>: Serialize;

    /// Whose history is its audit.
    fn history(&self) -> (TenantNo, HistoryOf);

    fn json<'a>(&'a self, audit_logs: Vec<AuditLogJson<'a>>) -> Self::Json<'a>;
}

/// The format of such rows.
pub(crate) struct AuditOption<R> {
    pub(crate) audit: AuditLevel,
    of: PhantomData<fn() -> R>,
}

impl<R> Clone for AuditOption<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for AuditOption<R> {}

impl<R: AuditedRow> RowFormat for AuditOption<R> {
    type Row = R;
    type Audited = (R, Vec<HistoryRow>);
    type Json<'a> = R::Json<'a>;

    fn of(call: &Call) -> Result<Self, Failure> {
        Ok(Self { audit: AuditLevel::of(call.query())?, of: PhantomData })
    }

    fn reads_audit(self) -> bool {
        self.audit != AuditLevel::None
    }

    fn with_audit(self, queries: &dyn Queries, row: R) -> Result<Self::Audited, StoreError> {
        let (tenant, of) = row.history();
        let rows = self.audit.read(queries, tenant, of)?;
        Ok((row, rows))
    }

    fn json(self, (row, rows): &Self::Audited) -> R::Json<'_> {
        row.json(self.audit.logs(rows))
    }
}

/// Reads one row. `None` if `find` finds none.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn read_one<S: RowFormat>(
    call: &Call,
    format: S,
    find: impl FnOnce(&dyn Queries, TenantNo) -> Result<Option<S::Row>, StoreError> + Send + 'static,
) -> Result<Option<S::Audited>, Failure> {
    let tenant = call.tenant();
    let found = call.read(move |queries| {
        let row = find(queries, tenant)?;
        row.map(|row| format.with_audit(queries, row)).transpose()
    });
    found.await
}

/// The most rows of a format that are read beside others' reads; more are a scan.
fn rows_beside_others_max<S: RowFormat>(format: S) -> u64 {
    match format.reads_audit() {
        true => AUDITED_ROWS_BESIDE_OTHERS_MAX,
        false => ROWS_BESIDE_OTHERS_MAX,
    }
}

/// The rows of one account as a bare array.
///
/// # Errors
/// 404 if `find` returns `None`, which means that the account does not exist.
pub(crate) async fn list_of_account<S: RowFormat>(
    call: &Call,
    account: AccountId,
    find: impl Fn(&dyn Queries, TenantNo) -> Result<Option<Vec<S::Row>>, StoreError>
    + Clone
    + Send
    + 'static,
) -> HandlerResult {
    let (format, tenant) = (S::of(call)?, call.tenant());
    let found = unpaged(call, format, move |queries: &dyn Queries| find(queries, tenant)).await?;
    let found = found.ok_or_else(|| {
        Failure::Refused(Box::new(Rejection::Account(AccountRejection::NotFound { id: account })))
    })?;
    Ok(reply::ok_encoded(found))
}

/// A list that has no pages, as a bare array.
///
/// # Errors
/// [`Failure::Unavailable`]: the store cannot be read.
pub(crate) async fn whole<S: RowFormat>(
    call: &Call,
    format: S,
    find: impl Fn(&dyn Queries) -> Result<Vec<S::Row>, StoreError> + Clone + Send + 'static,
) -> HandlerResult {
    let found = unpaged(call, format, move |queries: &dyn Queries| find(queries).map(Some)).await?;
    Ok(reply::ok_encoded(found.unwrap_or_default()))
}

/// The result of reading a list that has no pages.
enum Unpaged {
    Absent,
    /// The rows in JSON.
    Encoded(Vec<u8>),
    /// There are more than a read beside others may have.
    TooMany,
}

/// A list that has no pages, in JSON: read beside others where it is short, as most are, and otherwise again
/// as a scan.
async fn unpaged<S: RowFormat>(
    call: &Call,
    format: S,
    find: impl Fn(&dyn Queries) -> Result<Option<Vec<S::Row>>, StoreError> + Clone + Send + 'static,
) -> Result<Option<Vec<u8>>, Failure> {
    let (again, max) = (find.clone(), rows_beside_others_max(format));
    let encoded = move |queries: &dyn Queries, rows: Vec<S::Row>| {
        let with_audit = |row| format.with_audit(queries, row);
        let rows = rows.into_iter().map(with_audit).collect::<Result<Vec<_>, _>>()?;
        Ok(encode(format, &rows))
    };
    let read = call.read(move |queries| match find(queries)? {
        None => Ok(Unpaged::Absent),
        Some(rows) if rows.len() as u64 > max => Ok(Unpaged::TooMany),
        Some(rows) => encoded(queries, rows).map(Unpaged::Encoded),
    });
    match read.await? {
        Unpaged::Absent => Ok(None),
        Unpaged::Encoded(found) => Ok(Some(found)),
        Unpaged::TooMany => {
            let query = move |queries: &dyn Queries| {
                again(queries)?.map(|it| encoded(queries, it)).transpose()
            };
            Ok(call.api.engine().scan(call.tenant(), query).await?)
        }
    }
}

/// One page of a list as a bare array. `path` is that of the list, `more` are its other parameters,
/// which the URL of the next page repeats in this order.
///
/// # Errors
/// [`Failure::Unavailable`]: the store cannot be read.
pub(crate) async fn list<S: RowFormat>(
    call: &Call,
    format: S,
    page: Page,
    url: Url<'_>,
    find: impl FnOnce(&dyn Queries, TenantNo, Page) -> Result<Paged<S::Row>, StoreError>
    + Send
    + 'static,
) -> HandlerResult {
    let tenant = call.tenant();
    let query = move |queries: &dyn Queries| encoded(queries, format, find(queries, tenant, page)?);
    let found = read_page(call, format, page, query).await?;
    Ok(response(call, (page, url), found))
}

/// One page of a list that the parameter `pluginName` narrows to the rows of one gateway. `path` is that of the
/// list, `audit` the value of its parameter of that name.
///
/// # Errors
/// 400 if a parameter is invalid; [`Failure::Unavailable`]: the store cannot be read.
pub(crate) async fn list_of_gateway<S: RowFormat>(
    call: &Call,
    format: S,
    (path, audit): (&str, &str),
    find: impl FnOnce(&dyn Queries, TenantNo, GatewayPage<'_>) -> Result<Paged<S::Row>, StoreError>
    + Send
    + 'static,
) -> HandlerResult {
    let page = parse(call.query())?;
    let wanted = gateway(call)?;
    let url = (path, &[("pluginName", ""), ("audit", audit)][..]);
    let find = move |queries: &dyn Queries, tenant, page: Page| {
        find(queries, tenant, page.of_gateway(wanted.as_deref()))
    };
    list(call, format, page, url, find).await
}

/// The gateway that the parameter `pluginName` narrows a list to.
///
/// # Errors
/// 400 if it is not UTF-8.
pub(crate) fn gateway(call: &Call) -> Result<Option<String>, Failure> {
    let name = call.query().text("pluginName")?.filter(|name| !name.is_empty());
    Ok(name.map(Cow::into_owned))
}

/// One page of the rows that a search finds: of those that `named` finds by indexes, or where there are
/// none, of those that `containing` finds among all rows of the tenant.
///
/// # Errors
/// [`Failure::Unavailable`]: the store cannot be read, or not in time.
pub(crate) async fn search<S: RowFormat>(
    call: &Call,
    format: S,
    page: Page,
    url: Url<'_>,
    (named, containing): (impl Find<S::Row>, impl Find<S::Row>),
) -> HandlerResult {
    let tenant = call.tenant();
    let query =
        move |queries: &dyn Queries| encoded(queries, format, named(queries, tenant, page)?);
    let found = read_page(call, format, page, query).await?;
    if found.matching > 0 {
        return Ok(response(call, (page, url), found));
    }
    scan(call, format, page, url, containing).await
}

/// One page of the rows that `find` finds among all rows of the tenant.
///
/// # Errors
/// [`Failure::Unavailable`]: the store cannot be read, or not in time.
pub(crate) async fn scan<S: RowFormat>(
    call: &Call,
    format: S,
    page: Page,
    url: Url<'_>,
    find: impl Find<S::Row>,
) -> HandlerResult {
    let tenant = call.tenant();
    let query = move |queries: &dyn Queries| encoded(queries, format, find(queries, tenant, page)?);
    let found = call.api.engine().scan(tenant, query).await?;
    Ok(response(call, (page, url), found))
}

/// The path of a list, and its other parameters with their defaults.
pub(crate) type Url<'a> = (&'a str, &'a [(&'a str, &'a str)]);

/// Finds a page of a tenant's rows.
pub(crate) trait Find<R>:
    FnOnce(&dyn Queries, TenantNo, Page) -> Result<Paged<R>, StoreError> + Send + 'static
{
}

impl<R, F> Find<R> for F where
    F: FnOnce(&dyn Queries, TenantNo, Page) -> Result<Paged<R>, StoreError> + Send + 'static
{
}

/// Runs a query for a page of a format: a scan where it reads much.
async fn read_page<S: RowFormat>(
    call: &Call,
    format: S,
    page: Page,
    query: impl FnOnce(&dyn Queries) -> Result<Encoded, StoreError> + Send + 'static,
) -> Result<Encoded, Failure> {
    let (engine, tenant) = (call.api.engine(), call.tenant());
    let found = match page.limit > rows_beside_others_max(format) {
        true => engine.scan(tenant, query).await,
        false => engine.read_page((tenant, page), query).await,
    };
    Ok(found?)
}

/// The rows of a page in JSON.
struct Encoded {
    body: Vec<u8>,
    /// How many rows match, and how many there are.
    matching: u64,
    all: u64,
}

/// Adds the audit to each row and encodes them: where the rows are read, so that a long list delays no other
/// request.
fn encoded<S: RowFormat>(
    queries: &dyn Queries,
    format: S,
    Paged { items, matching, all }: Paged<S::Row>,
) -> Result<Encoded, StoreError> {
    let with_audit = |row| format.with_audit(queries, row);
    let items = items.into_iter().map(with_audit).collect::<Result<Vec<_>, _>>()?;
    Ok(Encoded { body: encode(format, &items), matching, all })
}

fn encode<S: RowFormat>(format: S, rows: &[S::Audited]) -> Vec<u8> {
    reply::encode(&rows.iter().map(|it| format.json(it)).collect::<Vec<_>>())
}

fn response(call: &Call, (page, url): (Page, Url<'_>), found: Encoded) -> axum::response::Response {
    let mut response = reply::ok_encoded(found.body);
    let next = NextPage { url, query: call.query() };
    write_headers(response.headers_mut(), (found.matching, found.all), page, next);
    response
}

fn write_headers(
    headers: &mut HeaderMap,
    (matching, all): (u64, u64),
    page: Page,
    url: NextPage<'_>,
) {
    headers.insert(CURRENT_OFFSET, HeaderValue::from(page.offset));
    headers.insert(TOTAL_RECORDS, HeaderValue::from(matching));
    headers.insert(MAX_RECORDS, HeaderValue::from(all));
    let next = page.offset.saturating_add(page.limit);
    // A page of no rows would be followed by itself.
    if next >= matching || page.limit == 0 {
        return;
    }
    headers.insert(NEXT_OFFSET, HeaderValue::from(next));
    if let Ok(uri) = HeaderValue::try_from(url.uri((next, page.limit))) {
        headers.insert(NEXT_PAGE_URI, uri);
    }
}

/// Where the next page is: the list, and what the request asked of it.
struct NextPage<'a> {
    url: Url<'a>,
    query: Query<'a>,
}

impl NextPage<'_> {
    /// The path with all parameters: those that Kill Bill always repeats, in its order, and then all others that the
    /// request has, as it has them.
    fn uri(&self, (offset, limit): (u64, u64)) -> String {
        let (path, always) = self.url;
        let mut uri = format!("{path}?offset={offset}&limit={limit}");
        for (name, default) in always {
            let sent = self.query.pairs().find(|(sent, _)| sent == name);
            let value = sent.map_or_else(|| reply::segment(default), |(_, value)| value.to_owned());
            write!(uri, "&{name}={value}").expect("writing to a string succeeds");
        }
        let is_written = |name| {
            ["offset", "limit"].contains(&name) || always.iter().any(|(known, _)| *known == name)
        };
        for (name, value) in self.query.pairs().filter(|(name, _)| !is_written(name)) {
            write!(uri, "&{name}={value}").expect("writing to a string succeeds");
        }
        uri
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(query: &str, matching: u64, expected: Expect) {
        let actual = match parse(Query::new(query)) {
            Ok(page) => {
                let mut headers = HeaderMap::new();
                let list =
                    ("/1.0/kb/payments/pagination", &[("pluginName", ""), ("audit", "NONE")][..]);
                let next = NextPage { url: list, query: Query::new(query) };
                write_headers(&mut headers, (matching, 9), page, next);
                let line = |(name, value): (&HeaderName, &HeaderValue)| {
                    let name = name.as_str().trim_start_matches("x-killbill-pagination-");
                    format!("{name}: {}", value.to_str().unwrap())
                };
                headers.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            Err(Failure::Problem(problem)) => problem.message,
            Err(other) => format!("{other:?}"),
        };
        expected.assert_eq(&actual);
    }

    #[test]
    fn a_page_links_to_the_next_page_if_there_is_one() {
        // A negative limit means one row.
        for query in ["offset=0&limit=1", "limit=-1"] {
            check(
                query,
                2,
                expect![[r#"
                currentoffset: 0
                totalnbrecords: 2
                maxnbrecords: 9
                nextoffset: 1
                nextpageuri: /1.0/kb/payments/pagination?offset=1&limit=1&pluginName=&audit=NONE"#]],
            );
        }
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
    fn the_next_page_is_asked_for_with_all_parameters() {
        let uri = |query: &str| {
            let always = &[("pluginName", ""), ("audit", "NONE")][..];
            let next = NextPage { url: ("/p", always), query: Query::new(query) };
            next.uri((2, 1))
        };
        let all = "audit=FULL&withAttempts=true&limit=1&pluginName=a%26b&withPluginInfo=true&offset=1\
                   &pluginProperty=a%3Db&pluginProperty=c%3Dd&flag";
        expect![
            "/p?offset=2&limit=1&pluginName=a%26b&audit=FULL&withAttempts=true&withPluginInfo=true&pluginProperty=a%3Db&pluginProperty=c%3Dd&flag="
        ]
        .assert_eq(&uri(all));
        expect!["/p?offset=2&limit=1&pluginName=&audit=NONE"].assert_eq(&uri(""));
    }

    #[test]
    fn a_limit_of_zero_has_no_next_page_and_negative_offsets_are_refused() {
        check(
            "limit=0",
            2,
            expect![[r#"
            currentoffset: 0
            totalnbrecords: 2
            maxnbrecords: 9"#]],
        );
        check(
            "offset=1000000",
            2,
            expect![[r#"
            currentoffset: 1000000
            totalnbrecords: 2
            maxnbrecords: 9"#]],
        );
        check("offset=-1", 2, expect!["offset should not be negative"]);
        check("offset=1000001", 2, expect!["offset should not be above 1000000"]);
        check("limit=x", 2, expect!["limit is not a number"]);
    }
}
