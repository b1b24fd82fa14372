//! Lists of rows, page by page: those that grow are shown from their end, the newest first.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{PAGE, cell, find, shown};
use crate::client::Response;
use crate::output;
use crate::remote::{Remote, encoded};

/// A list of the server's.
pub(super) struct List {
    pub(super) path: &'static str,
    pub(super) rows: Rows,
    /// Headings, and where a row has the cell (see [`find`]).
    pub(super) columns: &'static [(&'static str, &'static str)],
}

/// Where a page has its rows.
pub(super) enum Rows {
    /// The answer is an array, as Kill Bill's, with how many there are. The newest are shown first.
    Newest,
    /// The answer is an array, and the server has no pages of it: it is not asked for one.
    Whole,
    /// The array of this name; `more` or `nextOffset` says whether there are further rows.
    Named(&'static str),
    /// The same, the oldest first. The newest are shown first.
    NewestNamed(&'static str),
    /// The array of this name, and the server has no pages of it.
    WholeNamed(&'static str),
}

/// The part of a list that is shown.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    /// How many rows at most.
    pub(super) limit: usize,
    /// The row that they come before: where a row has its id, and the id.
    pub(super) before: Option<(&'a str, &'a str)>,
}

impl Window<'_> {
    /// All rows.
    pub(super) const ALL: Self = Self { limit: usize::MAX, before: None };

    /// So many rows, all if it is 0.
    pub(super) const fn of(limit: usize) -> Self {
        Self { limit: if limit == 0 { usize::MAX } else { limit }, before: None }
    }
}

/// Rows as the server has them.
pub(super) type Raw = Vec<Box<RawValue>>;

/// The rows of a list, and whether there are more.
///
/// # Errors
/// If the server cannot be reached or refuses, or no row is the one that those shown come before.
pub(super) async fn list(
    remote: &mut Remote,
    path: &str,
    rows: &Rows,
    window: Window<'_>,
) -> anyhow::Result<(Raw, bool)> {
    match rows {
        Rows::Newest => newest(remote, path, window).await,
        Rows::Whole => cut(remote.get(path).await?.json()?, window.limit),
        Rows::WholeNamed(name) => cut(named(&remote.get(path).await?, name)?.0, window.limit),
        Rows::NewestNamed(name) => {
            let (mut all, _) = pages(remote, path, name, usize::MAX).await?;
            all.reverse();
            cut(behind(all, window.before)?, window.limit)
        }
        Rows::Named(name) => pages(remote, path, name, window.limit).await,
    }
}

/// Prints the rows of a list, and whether there are more.
pub(super) async fn print_rows(
    remote: &mut Remote,
    columns: &[(&str, &str)],
    (found, more): (Raw, bool),
    json: bool,
) -> anyhow::Result<()> {
    if json {
        let rows: Vec<&str> = found.iter().map(|it| it.get()).collect();
        println!("[{}]", output::raw(&rows.join(",")));
    } else {
        let mut rows = values(&found)?;
        if columns.iter().any(|(_, at)| *at == CUSTOMER) {
            with_customers(remote, &mut rows).await;
        }
        print!("{}", shown(columns, &rows));
    }
    if more {
        eprintln!("there are more: --limit N shows N of them, --limit 0 all");
    }
    Ok(())
}

fn cut(mut rows: Raw, limit: usize) -> anyhow::Result<(Raw, bool)> {
    let more = rows.len() > limit;
    rows.truncate(limit);
    Ok((rows, more))
}

/// The rows after the one with an id.
fn behind(rows: Raw, before: Option<(&str, &str)>) -> anyhow::Result<Raw> {
    let Some((at, id)) = before else { return Ok(rows) };
    let mut rows = rows.into_iter();
    for row in rows.by_ref() {
        if has_id(&row, (at, id))? {
            return Ok(rows.collect());
        }
    }
    Err(no_row(id))
}

fn has_id(row: &RawValue, (at, id): (&str, &str)) -> anyhow::Result<bool> {
    let row: Value = serde_json::from_str(row.get())?;
    Ok(find(&row, at).is_some_and(|it| it == id))
}

pub(super) fn no_row(id: &str) -> anyhow::Error {
    anyhow::anyhow!("--before {id}: no row of the list has this id")
}

/// Rows of a list that Kill Bill's API has, the oldest first: read from its end.
async fn newest(
    remote: &mut Remote,
    path: &str,
    window: Window<'_>,
) -> anyhow::Result<(Raw, bool)> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let page = |offset, limit| format!("{path}{separator}offset={offset}&limit={limit}");
    let first = remote.get(&page(0, 1)).await?;
    let mut end = first.total.context("the server does not say how many rows there are")?;
    let (mut found, mut is_behind) = (vec![], window.before.is_none());
    while end > 0 {
        let from = end.saturating_sub(PAGE as u64);
        let rows: Raw = remote.get(&page(from, end - from)).await?.json()?;
        for row in rows.into_iter().rev() {
            match window.before.filter(|_| !is_behind) {
                Some(before) => is_behind = has_id(&row, before)?,
                None if found.len() == window.limit => return Ok((found, true)),
                None => found.push(row),
            }
        }
        end = from;
    }
    match window.before.filter(|_| !is_behind) {
        Some((_, id)) => Err(no_row(id)),
        None => Ok((found, false)),
    }
}

/// Rows of a list of `/v1`, in the server's order.
async fn pages(
    remote: &mut Remote,
    path: &str,
    name: &str,
    limit: usize,
) -> anyhow::Result<(Raw, bool)> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let mut found = vec![];
    loop {
        let page = format!("{path}{separator}offset={}&limit={PAGE}", found.len());
        let (rows, has_more) = named(&remote.get(&page).await?, name)?;
        let is_last = rows.is_empty() || !has_more;
        found.extend(rows);
        if found.len() > limit || (found.len() == limit && !is_last) {
            found.truncate(limit);
            return Ok((found, true));
        }
        if is_last {
            return Ok((found, false));
        }
    }
}

/// The rows of a page that names them, and whether there are more.
fn named(answer: &Response, name: &str) -> anyhow::Result<(Raw, bool)> {
    let page: BTreeMap<String, Box<RawValue>> = answer.json()?;
    let rows = page.get(name).context("the server's answer has no rows")?;
    let is_more = |it: &RawValue| !matches!(it.get(), "false" | "null");
    let has_more = ["more", "nextOffset"].iter().find_map(|it| page.get(*it));
    Ok((serde_json::from_str(rows.get())?, has_more.is_some_and(|it| is_more(it))))
}

/// The rows as values.
///
/// # Errors
/// If one is no JSON.
pub(super) fn values(rows: &[Box<RawValue>]) -> serde_json::Result<Vec<Value>> {
    rows.iter().map(|row| serde_json::from_str(row.get())).collect()
}

/// Where a row has its account's customer, once it was looked up.
pub(super) const CUSTOMER: &str = "/customer";

/// Gives rows that name an account the name, the address or the key of its customer. An account that cannot be read
/// has none: the rows are shown all the same.
pub(super) async fn with_customers(remote: &mut Remote, rows: &mut [Value]) {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for row in rows {
        let Some(account) = find(row, "/accountId").map(cell) else { continue };
        if !known.contains_key(&account) {
            let read = remote.get(&format!("/1.0/kb/accounts/{}", encoded(&account))).await;
            let of = read.and_then(|it| it.json::<Value>()).unwrap_or_default();
            let names = ["/name", "/email", "/externalKey"].map(|at| find(&of, at).map(cell));
            let name = names.into_iter().flatten().find(|it| !it.is_empty());
            known.insert(account.clone(), name.unwrap_or_default());
        }
        if let Value::Object(members) = row {
            members.insert(CUSTOMER[1..].to_owned(), known[&account].as_str().into());
        }
    }
}
