//! Windows on lists: the page asked for, and how many rows there are around it.

use domain::TenantNo;
use domain::claim::{Claim, ClaimKey, ClaimKind};
use engine::ports::{Page, Paged, ROWS_MAX, StoreError};
use engine::text;
use uuid::Uuid;

use crate::claims::{RecentClaims, Sought};
use crate::driver::{Reader, Value};
use crate::totals::Counted;

/// How many matches a search finds and counts at most.
pub(super) const MATCHES_MAX: i64 = 100_000;

/// The page as parameters of LIMIT and OFFSET.
pub(crate) fn limit_offset(page: Page) -> [Value<'static>; 2] {
    let offset = Value::Int(i64::try_from(page.offset).unwrap_or(i64::MAX));
    [limit(page.limit), offset]
}

/// How many rows are wanted, as a parameter of LIMIT.
pub(super) fn limit(rows: u64) -> Value<'static> {
    Value::Int(rows.min(ROWS_MAX).cast_signed())
}

/// How many rows are wanted, as far as they are given.
pub(super) fn bounded(rows: usize) -> usize {
    rows.min(usize::try_from(ROWS_MAX).unwrap_or(usize::MAX))
}

/// The one number that a query yields.
pub(super) fn count(
    reader: &Reader,
    sql: &str,
    parameters: &[Value<'_>],
) -> Result<i64, StoreError> {
    Ok(reader.query_one(sql, parameters, |cells| cells.int())?.unwrap_or(0))
}

/// A total that is kept, of all partitions; of all gateways where none is named.
pub(super) fn total(
    reader: &Reader,
    no: TenantNo,
    counted: Counted,
    gateway: Option<&str>,
) -> Result<u64, StoreError> {
    let sql = "SELECT CAST(coalesce(sum(value), 0) AS BIGINT) FROM counter \
               WHERE tenant = ?1 AND name = ?2 AND gateway = ?3";
    let parameters = [no.into(), counted.name().into(), gateway.unwrap_or_default().into()];
    Ok(u64::try_from(count(reader, sql, &parameters)?).unwrap_or(0))
}

/// Runs a search, which yields the ids of all matches in order, and reads those in the window.
/// `all` is how many there are in all.
pub(super) fn find<T>(
    reader: &Reader,
    (sql, parameters): (&str, &[Value<'_>]),
    page: Page,
    all: u64,
    by_id: impl Fn(Uuid) -> Result<Option<T>, StoreError>,
) -> Result<Paged<T>, StoreError> {
    let (mut ids, mut matching) = (Vec::new(), 0);
    let window = page.offset..page.offset.saturating_add(page.limit.min(ROWS_MAX));
    reader.for_each(sql, parameters, |cells| {
        let id = cells.id()?;
        if window.contains(&matching) {
            ids.push(id);
        }
        matching += 1;
        Ok(())
    })?;
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        items.extend(by_id(id)?);
    }
    Ok(Paged { items, matching, all })
}

/// The condition that a column's text, as searches compare it, is found by the pattern in this parameter.
pub(super) fn like(column: &str, parameter: usize) -> String {
    format!("coalesce({column}_folded, lower({column})) LIKE ?{parameter} ESCAPE '\\'")
}

/// A pattern for [`like`] that finds `text` anywhere, as it is written but for its case and for the forms
/// of its letters.
pub(super) fn containing(text: &str) -> String {
    pattern(&text::folded(text))
}

/// A pattern for `lower(...) LIKE ... ESCAPE '\'` of a column that has no folded one beside it: it finds `text` as it is
/// written but for the case of ASCII letters.
pub(super) fn containing_as_written(text: &str) -> String {
    pattern(&text.to_ascii_lowercase())
}

fn pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

/// A key that is looked for; made before the snapshot in which it is found begins.
pub(super) struct Key<'k> {
    pub(super) tenant: TenantNo,
    pub(super) text: &'k str,
    sought: Sought,
}

impl<'k> Key<'k> {
    pub(super) fn seek(
        claims: &RecentClaims,
        (tenant, kind): (TenantNo, ClaimKind),
        text: &'k str,
    ) -> Self {
        Self { tenant, text, sought: claims.seek(&ClaimKey::new(tenant, kind, text)) }
    }

    /// Who has it, if anybody has.
    pub(super) fn claim(&self, reader: &Reader) -> Result<Option<Claim>, StoreError> {
        self.sought.find(reader)
    }

    /// Whom it names: its owner, who has it as external key, or where nobody has claimed it, the
    /// id that it spells, of what has no external key.
    pub(super) fn named(
        &self,
        reader: &Reader,
    ) -> Result<Option<(Uuid, Option<&'k str>)>, StoreError> {
        let owner = self.claim(reader)?.map(|claim| (claim.owner, Some(self.text)));
        Ok(owner.or_else(|| spelled_id(self.text).map(|id| (id, None))))
    }
}

/// The id that a text spells, in the spelling that we give out.
pub(super) fn spelled_id(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|id| id.to_string() == text)
}
