//! Reads of transactions without a final outcome.

use std::sync::LazyLock;

use domain::payment::{Outstanding, TransactionStatus};
use domain::{AccountId, PaymentId, TenantNo, Timestamp, TransactionId};
use engine::ports::{OutcomeQueries, Page, QueueWindow, StoreError, Unresolved, UnresolvedCount};
use uuid::Uuid;

use super::window::count;
use super::{SqlQueries, window};
use crate::codes::code;
use crate::driver::Value;
use crate::tables::{self, UNRESOLVED};

impl OutcomeQueries for SqlQueries {
    fn outstanding_gateways(&self) -> Result<Vec<String>, StoreError> {
        // From each name to the next one in the index, however many rows a gateway has.
        const NEXT: &str = "SELECT gateway FROM outstanding \
            WHERE partition = ?1 AND ask_at_us IS NOT NULL AND gateway > ?2 \
            ORDER BY gateway LIMIT 1";
        self.read(|reader| {
            let mut found: Vec<String> = vec![];
            loop {
                let last = found.last().map_or("", String::as_str);
                let parameters = [self.partition.number().into(), last.into()];
                let next = reader.query_one(NEXT, &parameters, |cells| {
                    cells.of(&tables::OUTSTANDING);
                    cells.text().map(str::to_owned)
                })?;
                match next {
                    Some(next) => found.push(next),
                    None => return Ok(found),
                }
            }
        })
    }

    fn outstanding_due(
        &self,
        gateway: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Outstanding>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let rest = "WHERE partition = ?1 AND gateway = ?2 AND ask_at_us IS NOT NULL \
                    AND ask_at_us <= ?3 ORDER BY ask_at_us, tenant, transaction_id LIMIT ?4";
                tables::OUTSTANDING.select(rest)
            });
            let [partition, limit] = [self.partition.number().into(), window::limit(limit as u64)];
            let parameters = [partition, gateway.into(), now.into(), limit];
            reader.query(&SQL, &parameters, |cells| tables::OUTSTANDING.row(cells))
        })
    }

    fn outstanding_after(
        &self,
        gateway: &str,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Outstanding>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let rest = "WHERE partition = ?1 AND gateway = ?2 AND ask_at_us > ?3 \
                    ORDER BY ask_at_us DESC, tenant DESC, transaction_id DESC LIMIT ?4";
                tables::OUTSTANDING.select(rest)
            });
            let [partition, limit] = [self.partition.number().into(), window::limit(limit as u64)];
            let parameters = [partition, gateway.into(), at.into(), limit];
            reader.query(&SQL, &parameters, |cells| tables::OUTSTANDING.row(cells))
        })
    }

    fn outstanding_orphans(&self) -> Result<Vec<Outstanding>, StoreError> {
        self.read(|reader| {
            let sql = tables::OUTSTANDING.select(
        "WHERE partition = ?1 AND ask_at_us IS NULL AND asked = 0 ORDER BY tenant, transaction_id",
    );
            reader.query(&sql, &[self.partition.number().into()], |cells| {
                tables::OUTSTANDING.row(cells)
            })
        })
    }

    fn outstanding_of(
        &self,
        no: TenantNo,
        payment: PaymentId,
    ) -> Result<Vec<Outstanding>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                tables::OUTSTANDING
                    .select("WHERE payment_id = ?2 AND tenant + 0 = ?1 ORDER BY transaction_id")
            });
            reader.query(&SQL, &[no.into(), payment.into()], |cells| tables::OUTSTANDING.row(cells))
        })
    }

    fn outstanding(&self, limit: usize) -> Result<Vec<Outstanding>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                tables::OUTSTANDING.select("ORDER BY deadline_us, tenant, transaction_id LIMIT ?1")
            });
            reader
                .query(&SQL, &[window::limit(limit as u64)], |cells| tables::OUTSTANDING.row(cells))
        })
    }

    fn outstanding_of_tenant(
        &self,
        no: TenantNo,
        account: Option<AccountId>,
        window: QueueWindow<TransactionId>,
    ) -> Result<Vec<Outstanding>, StoreError> {
        let of_account = account.map_or("", |_| "AND account_id = ?6");
        let sql = tables::OUTSTANDING.select(&format!(
            "WHERE tenant = ?1 AND transaction_id > ?2 AND coalesce(ask_at_us, deadline_us) >= ?3 \
             AND coalesce(ask_at_us, deadline_us) <= ?4 {of_account} \
             ORDER BY transaction_id LIMIT ?5"
        ));
        let after = window.after.unwrap_or(TransactionId::new(Uuid::nil()));
        let (from, to) = window.times;
        let mut parameters =
            vec![no.into(), after.into(), from.into(), to.into(), window::limit(window.limit)];
        parameters.extend(account.map(Value::from));
        self.read(|reader| reader.query(&sql, &parameters, |cells| tables::OUTSTANDING.row(cells)))
    }

    fn outstanding_count(&self) -> Result<i64, StoreError> {
        self.read(|reader| count(reader, "SELECT count(*) FROM outstanding", &[]))
    }

    fn unresolved(&self, no: TenantNo, page: Page) -> Result<Vec<Unresolved>, StoreError> {
        self.read(|reader| {
            // The window is one on the index: transactions that are skipped are not fetched.
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let columns = tables::PAYMENT_TRANSACTION.select_list("t.");
                format!(
                    "SELECT {columns}, o.asked, o.ask_at_us FROM (SELECT tenant, payment_id, id \
                     FROM payment_transaction WHERE tenant = ?1 AND {UNRESOLVED} \
                     ORDER BY effective_at_us, id LIMIT ?2 OFFSET ?3) w \
                     JOIN payment_transaction t \
                     ON t.tenant = w.tenant AND t.payment_id = w.payment_id AND t.id = w.id \
                     LEFT JOIN outstanding o ON o.tenant = t.tenant AND o.transaction_id = t.id \
                     ORDER BY t.effective_at_us, t.id"
                )
            });
            let [limit, offset] = window::limit_offset(page);
            reader.query(&SQL, &[no.into(), limit, offset], |cells| {
                let transaction = tables::PAYMENT_TRANSACTION.row(cells)?;
                cells.of(&tables::OUTSTANDING);
                // Each has its row; one that had none would be no reason to leave the payment out.
                let asked = cells.opt_int()?.unwrap_or_default();
                let asked = u32::try_from(asked).map_err(|_| cells.corrupt("is no count"))?;
                // The first question is planned, and counted, when the call ends.
                let questions = asked.saturating_sub(1);
                Ok(Unresolved { transaction, questions, ask_at: cells.opt_int()?.map(Timestamp) })
            })
        })
    }

    fn unresolved_counts(&self) -> Result<Vec<UnresolvedCount>, StoreError> {
        self.read(|reader| {
            // One pass over the index, which holds nothing else.
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let count = |status: &str| {
                    format!(
                        "count(CASE WHEN status = {status} THEN 1 END), \
                         min(CASE WHEN status = {status} THEN effective_at_us END)"
                    )
                };
                let (first, second) = (count("?1"), count("?2"));
                format!("SELECT {first}, {second} FROM payment_transaction WHERE {UNRESOLVED}")
            });
            let statuses = [TransactionStatus::Pending, TransactionStatus::Unknown];
            let parameters = statuses.map(|status| code(status).into());
            let counts = reader.query_one(&SQL, &parameters, |cells| {
                let count = |status| {
                    let (transactions, oldest_at) = (cells.int()?, cells.opt_int()?.map(Timestamp));
                    Ok(UnresolvedCount { status, transactions, oldest_at })
                };
                statuses.into_iter().map(count).collect()
            })?;
            Ok(counts.unwrap_or_default())
        })
    }
}
