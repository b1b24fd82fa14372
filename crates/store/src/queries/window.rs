//! Windows on lists: the page asked for, and how many rows there are around it.

use std::sync::LazyLock;

use domain::TenantNo;
use domain::state::{Claim, ClaimKey};
use engine::ports::{Page, StoreError};
use uuid::Uuid;

use crate::sqlite::{Reader, Value};
use crate::totals::Counted;
use crate::{rows, tables};

/// How many matches a search finds and counts at most.
pub(super) const MATCHES_MAX: i64 = 100_000;

/// The page as parameters of LIMIT and OFFSET.
pub(super) fn limit_offset(page: Page) -> [Value<'static>; 2] {
    let bounded = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
    [bounded(page.limit), bounded(page.offset)]
}

/// The one number that a query yields.
pub(super) fn count(
    reader: &Reader,
    sql: &str,
    parameters: &[Value<'_>],
) -> Result<i64, StoreError> {
    Ok(reader.query_one(sql, parameters, |cells| cells.int())?.unwrap_or(0))
}

/// A total that is kept; of all gateways where none is named.
pub(super) fn total(
    reader: &Reader,
    no: TenantNo,
    counted: Counted,
    gateway: Option<&str>,
) -> Result<u64, StoreError> {
    let sql = "SELECT value FROM counter WHERE tenant = ?1 AND name = ?2 AND gateway = ?3";
    let parameters = [no.into(), counted.name().into(), gateway.unwrap_or_default().into()];
    Ok(u64::try_from(count(reader, sql, &parameters)?).unwrap_or(0))
}

/// What a search found: the ids in the window, and how many there are.
pub(super) struct Found {
    pub(super) ids: Vec<Uuid>,
    pub(super) matching: u64,
}

/// Runs a query that yields the ids of all matches, in order.
pub(super) fn find(
    reader: &Reader,
    sql: &str,
    parameters: &[Value<'_>],
    page: Page,
) -> Result<Found, StoreError> {
    let mut found = Found { ids: Vec::new(), matching: 0 };
    let window = page.offset..page.offset.saturating_add(page.limit);
    reader.for_each(sql, parameters, |cells| {
        let id = cells.id()?;
        if window.contains(&found.matching) {
            found.ids.push(id);
        }
        found.matching += 1;
        Ok(())
    })?;
    Ok(found)
}

/// The page of ids that were found otherwise, in order.
pub(super) fn cut(ids: Vec<Uuid>, page: Page) -> Found {
    let matching = u64::try_from(ids.len()).unwrap_or(u64::MAX);
    let skipped = usize::try_from(page.offset).unwrap_or(usize::MAX);
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    Found { ids: ids.into_iter().skip(skipped).take(limit).collect(), matching }
}

/// A pattern for `lower(...) LIKE ... ESCAPE '\'` that finds `text` anywhere, as it is written
/// but for the case of ASCII letters.
pub(super) fn containing(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter.to_ascii_lowercase());
    }
    pattern.push('%');
    pattern
}

/// The id that a text spells, in the spelling that we give out.
pub(super) fn spelled_id(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|id| id.to_string() == text)
}

/// Who has a key, if anybody has.
pub(super) fn claim(reader: &Reader, key: &ClaimKey) -> Result<Option<Claim>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| tables::CLAIM.select("WHERE key_hash = ?1"));
    let hash = Value::Id(rows::claim_hash(key));
    let found = reader.query_one(&SQL, &[hash], rows::claim)?;
    // Two keys of one hash are as good as impossible; whoever asks compares the key itself anyhow.
    Ok(found.filter(|(no, kind, _)| (*no, *kind) == (key.tenant, key.kind)).map(|(.., it)| it))
}
