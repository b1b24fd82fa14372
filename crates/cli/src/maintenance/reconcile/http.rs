//! Compares what the program of an HTTP gateway lists with the booked payments of every tenant.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use config::Config;
use domain::{TenantNo, Timestamp};
use engine::Clock;
use gateway::http_gateway::{HttpGateway, ListError};
use gateway::reconcile::{Compared, Difference, ListedTransactions, Window};
use serde_json::json;
use server::{node, serve};
use store::SqlQueries;

use super::super::{Error, Report};
use super::{DAY_US, SHOWN_MAX, each_tenant};

/// Lists what the gateway was asked for, then reads the store: what is booked meanwhile is too recent to differ.
pub(super) fn reconcile(
    config: &Config,
    name: &str,
    (days, older_than_s): (Option<u16>, u32),
) -> Result<Report, Error> {
    let settings = config.gateway.http.get(name);
    let settings = settings.ok_or_else(|| Error::NoGateway { name: name.to_owned() })?;
    let clock = Clock::new(false);
    let now = clock.real_now();
    let since = days.map(|it| now.plus_us(-i64::from(it) * DAY_US));
    let window = Window {
        since: since.unwrap_or(Timestamp(0)),
        until: now.plus_us(-i64::from(older_than_s) * Timestamp::SECOND_US),
    };
    // No call is made, so that nothing is sealed and no tenant is looked up.
    let gateway =
        HttpGateway::new(settings.options(config.test_clock, (clock, Arc::default()), None));
    let runtime = serve::runtime(config)?;
    let queries = SqlQueries::open_source(node::source(config)?, 1)?;
    let (mut listed, mut failed) = (ListedTransactions::default(), vec![]);
    let mut asked: BTreeSet<TenantNo> = BTreeSet::new();
    each_tenant(&queries, |tenant| {
        let of = (tenant.no, tenant.id.uuid());
        // A page is added as a whole, and a tenant only with all of its pages.
        let mut own = vec![];
        match runtime.block_on(gateway.transactions(of, since, |it| own.push(it))) {
            Ok(()) => {
                asked.insert(tenant.no);
                own.into_iter().for_each(|it| listed.add(it));
            }
            Err(error) => failed.push((tenant.no, error)),
        }
    })?;
    if failed.iter().any(|(_, error)| *error == ListError::Unsupported) {
        return Err(Error::NoList { name: name.to_owned() });
    }
    let (mut differences, source) = (vec![], node::source(config)?);
    let (compared, open) = listed.compare(
        window,
        |each| {
            store::each_transaction(&source, |transaction| {
                if transaction.gateway == name && asked.contains(&transaction.tenant) {
                    each(transaction);
                }
            })
        },
        |difference| {
            if differences.len() < SHOWN_MAX {
                differences.push(difference);
            }
        },
    )?;
    let failed = failed.iter().map(|(tenant, error)| format!("tenant {}: {error}", tenant.0));
    Ok(report(name, &compared, open, &differences, &failed.collect::<Vec<_>>()))
}

fn report(
    name: &str,
    compared: &Compared,
    open: u64,
    different: &[Difference],
    failed: &[String],
) -> Report {
    let Compared { charged, booked, differences } = compared;
    let mut text = format!(
        "{charged} charged by {name}, {booked} booked, {open} open or too recent, {differences} differences"
    );
    let shown: Vec<String> = different.iter().map(ToString::to_string).collect();
    for line in shown.iter().chain(failed) {
        write!(text, "\n  {line}").expect("writing to a String does not fail");
    }
    let mut json = super::json_of(compared, open, &shown);
    json["notCompared"] = json!(failed);
    Report { text, json, problems: *differences > 0 || !failed.is_empty() }
}
