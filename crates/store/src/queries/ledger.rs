//! Reads of the ledger: entries, the trial balance, and what one customer adds up to.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use domain::ledger::{LedgerAccount, Posting};
use domain::{AccountId, Currency, TenantNo};
use engine::ports::{LedgerEntry, LedgerFilter, LedgerQueries, LedgerTotal, Page, StoreError};

use super::{SqlQueries, window};
use crate::codes::code;
use crate::driver::{Cells, Reader, Value};
use crate::tables;
use crate::totals::{Sums, ledger_total};

impl LedgerQueries for SqlQueries {
    fn ledger_entries(
        &self,
        no: TenantNo,
        filter: &LedgerFilter,
        page: Page,
    ) -> Result<Vec<LedgerEntry>, StoreError> {
        self.snapshot(|reader| {
            // One text for each index that can serve; where an entity is named, time only filters.
            const ORDER: &str = "ORDER BY at_us, seq, ordinal LIMIT ?4 OFFSET ?5";
            // The window is one on the index: entries that are skipped are not fetched.
            static BY_TIME: LazyLock<String> = LazyLock::new(|| {
                let columns = tables::POSTING.select_list("p.");
                format!(
                    "SELECT {columns} FROM (SELECT seq, ordinal FROM posting \
                     WHERE tenant = ?1 AND at_us >= ?2 AND at_us < ?3 {ORDER}) w JOIN posting p \
                     ON p.seq = w.seq AND p.ordinal = w.ordinal \
                     ORDER BY p.at_us, p.seq, p.ordinal"
                )
            });
            static OF_ACCOUNT: LazyLock<String> = LazyLock::new(|| {
                tables::POSTING.select(&format!(
                    "WHERE tenant = ?1 AND account_id = ?6 AND +at_us >= ?2 AND +at_us < ?3 {ORDER}"
                ))
            });
            static OF_SOURCE: LazyLock<String> = LazyLock::new(|| {
                tables::POSTING.select(&format!(
                    "WHERE tenant = ?1 AND account_id = ?6 AND source_id = ?7 \
                     AND +at_us >= ?2 AND +at_us < ?3 {ORDER}"
                ))
            });
            let from = filter.from.map_or(i64::MIN, |at| at.0);
            let to = filter.to.map_or(i64::MAX, |at| at.0);
            let [limit, offset] = window::limit_offset(page);
            let mut parameters = vec![no.into(), from.into(), to.into(), limit, offset];
            let payment = filter.payment.map(|it| (ACCOUNT_OF_PAYMENT, Value::from(it)));
            let source = payment.or(filter.invoice.map(|it| (ACCOUNT_OF_INVOICE, it.into())));
            let account = match (filter.account, &source) {
                (None, None) => return reader.query(&BY_TIME, &parameters, entry),
                (Some(account), _) => Some(account),
                (None, Some((sql, id))) => account_of(reader, sql, [no.into(), *id])?,
            };
            let Some(account) = account else { return Ok(vec![]) };
            parameters.push(account.into());
            let Some((_, id)) = source else {
                return reader.query(&OF_ACCOUNT, &parameters, entry);
            };
            parameters.push(id);
            reader.query(&OF_SOURCE, &parameters, entry)
        })
    }

    fn trial_balance(&self, no: TenantNo) -> Result<Vec<LedgerTotal>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| tables::LEDGER_TOTAL.select("WHERE tenant = ?1"));
            let mut totals: BTreeMap<(LedgerAccount, String, Currency), Sums> = BTreeMap::new();
            reader.for_each(&SQL, &[no.into()], |cells| {
                let ((_, account, gateway, currency), sums) = ledger_total(cells)?;
                totals.entry((account, gateway, currency)).or_default().add(sums);
                Ok(())
            })?;
            let total = |((account, gateway, currency), Sums { debit, credit })| LedgerTotal {
                account,
                gateway,
                currency,
                debit,
                credit,
            };
            Ok(totals.into_iter().map(total).collect())
        })
    }

    fn balances(
        &self,
        accounts: &[(TenantNo, AccountId)],
    ) -> Result<Vec<Option<Vec<LedgerTotal>>>, StoreError> {
        self.read(|reader| {
            let keys: Vec<[Value<'_>; 2]> = accounts
                .iter()
                .map(|(tenant, account)| [(*tenant).into(), (*account).into()])
                .collect();
            let mut found: Vec<Option<Vec<LedgerTotal>>> = vec![None; accounts.len()];
            reader.for_keys(
                "SELECT seq FROM account WHERE tenant = ?1 AND id = ?2",
                &keys,
                |at, _| {
                    found[at] = Some(vec![]);
                    Ok(())
                },
            )?;
            reader.for_keys(&SUMS, &keys, |at, cells| {
                cells.of(&tables::POSTING);
                let currency = cells.currency()?;
                let mut sum = || {
                    let (high, low) = (cells.int()?, cells.int()?);
                    Ok::<i128, StoreError>((i128::from(high) << 32) + i128::from(low))
                };
                let (debit, credit) = (sum()?, sum()?);
                let (account, gateway) = (LedgerAccount::Customer, String::new());
                let total = LedgerTotal { account, gateway, currency, debit, credit };
                found[at].get_or_insert_default().push(total);
                Ok(())
            })?;
            for totals in found.iter_mut().flatten() {
                totals.sort_by_key(|total| total.currency);
            }
            Ok(found)
        })
    }

    fn customer_totals(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Vec<LedgerTotal>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| tables::POSTING.select("WHERE tenant = ?1 AND account_id = ?2"));
            let mut sums: BTreeMap<Currency, Sums> = BTreeMap::new();
            reader.for_each(&SQL, &[no.into(), account.into()], |cells| {
                let (_, Posting { debit, credit, amount, currency, .. }) = tables::posting(cells)?;
                let sums = sums.entry(currency).or_default();
                if debit == LedgerAccount::Customer {
                    sums.debit += i128::from(amount.0);
                }
                if credit == LedgerAccount::Customer {
                    sums.credit += i128::from(amount.0);
                }
                Ok(())
            })?;
            let total = |(currency, Sums { debit, credit })| LedgerTotal {
                account: LedgerAccount::Customer,
                gateway: String::new(),
                currency,
                debit,
                credit,
            };
            Ok(sums.into_iter().map(total).collect())
        })
    }
}

fn entry(cells: &mut Cells<'_>) -> Result<LedgerEntry, StoreError> {
    let (seq, posting) = tables::posting(cells)?;
    Ok(LedgerEntry { seq, posting })
}

/// The account of a payment.
pub(super) const ACCOUNT_OF_PAYMENT: &str =
    "SELECT account_id FROM payment WHERE tenant = ?1 AND id = ?2";
const ACCOUNT_OF_INVOICE: &str = "SELECT account_id FROM invoice WHERE tenant = ?1 AND id = ?2";

/// The account of what a tenant has with an id.
pub(super) fn account_of(
    reader: &Reader,
    sql: &str,
    of: [Value<'_>; 2],
) -> Result<Option<AccountId>, StoreError> {
    reader.query_one(sql, &of, |cells| cells.entity())
}

/// Sums of amounts in two halves, so that none leaves 64 bits.
static SUMS: LazyLock<String> = LazyLock::new(|| {
    let customer = code(LedgerAccount::Customer);
    let sums = ["debit", "credit"].map(|side| {
        let amount = format!("CASE WHEN {side} = {customer} THEN amount_minor ELSE 0 END");
        format!(
            "CAST(sum(({amount}) >> 32) AS BIGINT), CAST(sum(({amount}) & 4294967295) AS BIGINT)"
        )
    });
    format!(
        "SELECT currency, {} FROM posting WHERE tenant = ?1 AND account_id = ?2 GROUP BY currency",
        sums.join(", ")
    )
});
