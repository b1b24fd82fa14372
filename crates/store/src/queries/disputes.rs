//! Reads of disputes.

use std::sync::LazyLock;

use domain::payment::dispute::Dispute;
use domain::{DisputeId, TenantNo};
use engine::ports::{DisputeFilter, DisputeQueries, Page, StoreError};

use super::{SqlQueries, window};
use crate::codes::code;
use crate::driver::Value;
use crate::tables;

/// In the order of their ids, each from the index of what it names.
const WINDOW: &str = "ORDER BY id LIMIT ?2 OFFSET ?3";
const OF_PAYMENT: &str = "WHERE payment_id = ?4 AND tenant + 0 = ?1";
const OF_ACCOUNT: &str = "WHERE tenant = ?1 AND account_id = ?4";
const OF_STATUS: &str = "WHERE tenant = ?1 AND dispute_status = ?4";
/// Beside a payment or an account, of which there are few.
const WITH_STATUS: &str = "AND +dispute_status = ?5";

impl DisputeQueries for SqlQueries {
    fn dispute(&self, no: TenantNo, id: DisputeId) -> Result<Option<Dispute>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| tables::DISPUTE.select("WHERE tenant = ?1 AND id = ?2"));
            reader.query_one(&SQL, &[no.into(), id.into()], |cells| tables::DISPUTE.row(cells))
        })
    }

    fn disputes(
        &self,
        no: TenantNo,
        filter: &DisputeFilter,
        page: Page,
    ) -> Result<Vec<Dispute>, StoreError> {
        let [limit, offset] = window::limit_offset(page);
        let mut parameters = vec![no.into(), limit, offset];
        let (of, status) = match (filter.payment, filter.account, filter.status) {
            (Some(payment), _, status) => {
                parameters.push(payment.into());
                (OF_PAYMENT, status)
            }
            (None, Some(account), status) => {
                parameters.push(account.into());
                (OF_ACCOUNT, status)
            }
            (None, None, Some(status)) => {
                parameters.push(code(status).into());
                (OF_STATUS, None)
            }
            (None, None, None) => ("WHERE tenant = ?1", None),
        };
        let status = status.map(code);
        parameters.extend(status.map(Value::from));
        let with_status = if status.is_some() { WITH_STATUS } else { "" };
        let sql = tables::DISPUTE.select(&format!("{of} {with_status} {WINDOW}"));
        let mut found = self
            .read(|reader| reader.query(&sql, &parameters, |cells| tables::DISPUTE.row(cells)))?;
        // All disputes of a payment are of one account.
        found.retain(|it| filter.account.is_none_or(|account| it.account_id == account));
        Ok(found)
    }
}
