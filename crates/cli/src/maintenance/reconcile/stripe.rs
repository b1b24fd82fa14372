//! Compares Stripe's balance with the booked payments of every tenant that has a key.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use config::Config;
use domain::Timestamp;
use domain::tenant::Tenant;
use engine::Clock;
use gateway::reconcile::{Books, Compared, Mismatch, Statement, Window};
use gateway::stripe::{Account, NAMES, Stripe, object_of};
use serde_json::json;
use server::{node, serve};
use store::SqlQueries;

use super::super::{Error, Report};
use super::{DAY_US, SHOWN_MAX, each_tenant};

/// The totals of the comparison of all tenants.
#[derive(Default)]
struct Total {
    compared: Compared,
    open: u64,
    others: u64,
    /// Stripe's fees by currency, in the currency's smallest unit.
    fees: BTreeMap<String, i64>,
    shown: Vec<Mismatch>,
    /// Tenants that could not be compared, and why.
    failed: Vec<String>,
}

/// Compares charges and refunds by id, amount and currency, and sums up the fees. The gateway's two names may have one
/// account, and are compared together.
pub(super) fn reconcile(
    config: &Config,
    (days, older_than_s): (Option<u16>, u32),
) -> Result<Report, Error> {
    let sealer = node::sealer(config)?;
    let clock = Clock::new(false);
    let gateways = NAMES.map(|name| {
        let reads = (clock.clone(), Arc::default());
        Stripe::new(config.gateway.stripe.options(name, reads, (sealer.clone(), String::new())))
    });
    let window = {
        let now = clock.real_now();
        let since = days.map_or(Timestamp(0), |it| now.plus_us(-i64::from(it) * DAY_US));
        let until = now.plus_us(-i64::from(older_than_s) * Timestamp::SECOND_US);
        Window { since, until }
    };
    let source = node::source(config)?;
    let mut books = Books::default();
    store::each_transaction(&source, |transaction| {
        if NAMES.contains(&transaction.gateway.as_str()) {
            books.add(transaction, object_of(transaction));
        }
    })?;
    store::each_dispute(&source, |dispute| books.add_excess(dispute))?;
    let queries = SqlQueries::open_source(source, 1)?;
    let runtime = serve::runtime(config)?;
    let mut total = Total::default();
    each_tenant(&queries, |tenant| {
        let compared = accounts(&gateways, &queries, &tenant).and_then(|accounts| {
            for (stripe, account) in accounts {
                let read = stripe.statement(&account, tenant.id.uuid(), window.since);
                total.add((&tenant, &account), &books, runtime.block_on(read)?, window);
            }
            Ok(())
        });
        if let Err(reason) = compared {
            total.failed.push(format!("tenant {}: {reason}", tenant.no.0));
        }
    })?;
    Ok(total.report())
}

/// The tenant's accounts at Stripe, each with a gateway that has its key.
fn accounts<'g>(
    gateways: &'g [Stripe],
    queries: &SqlQueries,
    tenant: &Tenant,
) -> Result<Vec<(&'g Stripe, Account)>, String> {
    let mut found: Vec<(&Stripe, Account)> = vec![];
    for gateway in gateways {
        let Some(account) = gateway.stored_account(queries, tenant)? else { continue };
        let own = account.merchant_account();
        if !found.iter().any(|(_, it)| it.merchant_account() == own) {
            found.push((gateway, account));
        }
    }
    Ok(found)
}

impl Total {
    fn add(
        &mut self,
        (tenant, account): (&Tenant, &Account),
        books: &Books,
        statement: Statement,
        window: Window,
    ) {
        let of = (tenant.no, account.merchant_account());
        let shown = &mut self.shown;
        let (compared, open) = books.compare(of, &statement, window, |it| {
            if shown.len() < SHOWN_MAX {
                shown.push(it);
            }
        });
        self.compared.charged += compared.charged;
        self.compared.booked += compared.booked;
        self.compared.differences += compared.differences;
        self.open += open;
        self.others += statement.others;
        for (currency, fee) in statement.fees {
            *self.fees.entry(currency).or_default() += fee;
        }
    }

    fn report(self) -> Report {
        let Compared { charged, booked, differences } = self.compared;
        let (open, others) = (self.open, self.others);
        let mut text = format!(
            "{charged} payments at Stripe, {booked} charged in the books, {open} open or too recent, \
             {others} movements of no payment, {differences} differences"
        );
        let mut add = |line: &str| {
            write!(text, "\n  {line}").expect("writing to a String does not fail");
        };
        self.fees.iter().for_each(|(currency, fee)| add(&format!("fees: {fee} {currency}")));
        let shown: Vec<String> = self.shown.iter().map(ToString::to_string).collect();
        shown.iter().chain(&self.failed).for_each(|it| add(it));
        let json = json!({
            "charged": charged,
            "booked": booked,
            "open": open,
            "others": others,
            "fees": self.fees,
            "differencesFound": differences,
            "differences": shown,
            "notCompared": self.failed,
        });
        Report { text, json, problems: differences > 0 || !self.failed.is_empty() }
    }
}
