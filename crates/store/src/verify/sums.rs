//! Kept totals against what they are totals of.

use std::collections::BTreeMap;

use engine::ports::StoreError;

use super::{Report, each_row};
use crate::driver::Reader;
use crate::tables::{self, COUNTER, LEDGER_TOTAL, POSTING};
use crate::totals::{Counted, Sums, Totals, gateway_of};

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let kept = Totals::read_all(reader)?;
    let mut counted = Totals::default();
    count(
        reader,
        &mut counted,
        Counted::Accounts,
        "SELECT tenant, '', count(*) FROM account GROUP BY tenant",
    )?;
    count(
        reader,
        &mut counted,
        Counted::PaymentMethods,
        "SELECT tenant, gateway, count(*) FROM payment_method WHERE active = 1 \
         GROUP BY tenant, gateway",
    )?;
    count(
        reader,
        &mut counted,
        Counted::Payments,
        "SELECT tenant, gateway, count(*) FROM payment GROUP BY tenant, gateway",
    )?;
    count(
        reader,
        &mut counted,
        Counted::Tags,
        "SELECT tenant, '', count(*) FROM object_tag WHERE active = 1 GROUP BY tenant",
    )?;
    count(
        reader,
        &mut counted,
        Counted::Bundles,
        "SELECT tenant, '', count(*) FROM bundle GROUP BY tenant",
    )?;
    count(
        reader,
        &mut counted,
        Counted::Invoices,
        "SELECT tenant, '', count(*) FROM invoice GROUP BY tenant",
    )?;
    let sql = format!(
        "SELECT tenant, '', count(*) FROM custom_field WHERE {} GROUP BY tenant",
        crate::tables::SHOWN
    );
    count(reader, &mut counted, Counted::CustomFields, &sql)?;
    each_row(reader, report, (&POSTING, &POSTING.select("")), |cells, _| {
        let (_, it) = tables::posting(cells)?;
        let amount = i128::from(it.amount.0);
        let debit = Sums { debit: amount, credit: 0 };
        let credit = Sums { debit: 0, credit: amount };
        for (account, sums) in [(it.debit, debit), (it.credit, credit)] {
            let gateway = gateway_of(account, it.gateway()).to_owned();
            let key = (it.tenant, account, gateway, it.currency);
            counted.ledger.entry(key).or_default().add(sums);
        }
        Ok(())
    })?;
    let sql = "SELECT seq FROM posting GROUP BY seq HAVING max(ordinal) <> count(*) - 1";
    reader.walk(sql, &[], |cells| {
        let row = format!("of journal row {}", cells.int()?);
        report.problem(POSTING.name, row, "has a number that does not follow on the one before");
        Ok(())
    })?;
    compare(&kept, &counted, report);
    balance(&kept, report);
    Ok(())
}

fn count(
    reader: &Reader,
    counted: &mut Totals,
    what: Counted,
    sql: &str,
) -> Result<(), StoreError> {
    reader.walk(sql, &[], |cells| {
        let (tenant, gateway, count) = (cells.tenant()?, cells.string()?, cells.int()?);
        if !gateway.is_empty() {
            *counted.counters.entry((tenant, what, String::new())).or_default() += count;
        }
        counted.counters.insert((tenant, what, gateway), count);
        Ok(())
    })
}

fn compare(kept: &Totals, counted: &Totals, report: &mut Report) {
    for (key, kept, counted) in both(&kept.counters, &counted.counters) {
        if kept != counted {
            let (tenant, what, gateway) = key;
            let row = format!("{}/{}/{gateway}", tenant.0, what.name());
            report.problem(COUNTER.name, row, format!("is {kept}, not {counted}"));
        }
    }
    for (key, kept, counted) in both(&kept.ledger, &counted.ledger) {
        if kept != counted {
            let (tenant, account, gateway, currency) = key;
            let row = format!("{}/{account:?}/{gateway}/{currency}", tenant.0);
            report.problem(LEDGER_TOTAL.name, row, "is not what its postings add up to");
        }
    }
}

/// Each key of either map, with the values that both have for it.
fn both<'a, K: Ord, V: Copy + Default>(
    a: &'a BTreeMap<K, V>,
    b: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, V, V)> {
    let only_b = b.iter().filter(|(key, _)| !a.contains_key(key));
    let of_a = a.iter().map(|(key, value)| (key, *value, b.get(key).copied().unwrap_or_default()));
    of_a.chain(only_b.map(|(key, value)| (key, V::default(), *value)))
}

/// Checks that a tenant's debits and credits in each currency are equal.
fn balance(kept: &Totals, report: &mut Report) {
    let mut balances = BTreeMap::new();
    for ((tenant, _, _, currency), sums) in &kept.ledger {
        *balances.entry((*tenant, *currency)).or_insert(0_i128) += sums.debit - sums.credit;
    }
    for ((tenant, currency), difference) in balances {
        if difference != 0 {
            let what = format!("debits exceed credits by {difference}");
            report.problem(LEDGER_TOTAL.name, format!("{}/{currency}", tenant.0), what);
        }
    }
}
