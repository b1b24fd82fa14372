//! Reads of customers, their sessions, mails and operations.

use std::sync::LazyLock;

use domain::claim::ClaimKind;
use domain::customer::{Customer, CustomerFile, Session};
use domain::{CustomerId, SessionId, TenantNo, Timestamp};
use engine::ports::{CustomerQueries, Page, StoreError};

use super::{SqlQueries, window};
use crate::driver::Reader;
use crate::tables::{self, CUSTOMER, EXPIRING, SESSION};

impl CustomerQueries for SqlQueries {
    fn customer(&self, no: TenantNo, id: CustomerId) -> Result<Option<Customer>, StoreError> {
        self.read(|reader| by_id(reader, no, id))
    }

    fn customer_by_email(
        &self,
        no: TenantNo,
        email_key: &str,
    ) -> Result<Option<Customer>, StoreError> {
        let key = &self.seek(no, ClaimKind::CustomerEmail, email_key);
        self.snapshot(|reader| match key.claim(reader)? {
            Some(claim) => by_id(reader, key.tenant, CustomerId::new(claim.owner)),
            None => Ok(None),
        })
    }

    fn is_email_taken(&self, no: TenantNo, email_key: &str) -> Result<bool, StoreError> {
        let key = &self.seek(no, ClaimKind::CustomerEmail, email_key);
        self.snapshot(|reader| Ok(key.claim(reader)?.is_some()))
    }

    fn customer_file(
        &self,
        no: TenantNo,
        id: CustomerId,
    ) -> Result<Option<CustomerFile>, StoreError> {
        self.snapshot(|reader| {
            static SESSIONS: LazyLock<String> = LazyLock::new(|| {
                SESSION.select("WHERE customer_id = ?2 AND tenant = ?1 ORDER BY id")
            });
            let Some(customer) = by_id(reader, no, id)? else { return Ok(None) };
            let sessions = reader
                .query(&SESSIONS, &[no.into(), id.into()], |cells| tables::SESSION.row(cells))?;
            Ok(Some(CustomerFile { customer, sessions }))
        })
    }

    fn session(
        &self,
        no: TenantNo,
        id: SessionId,
    ) -> Result<Option<(Session, Customer)>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let (session, customer) = (SESSION.select_list("s."), CUSTOMER.select_list("c."));
                format!(
                    "SELECT {session}, {customer} FROM customer_session s JOIN customer c \
                     ON c.tenant = s.tenant AND c.id = s.customer_id WHERE s.tenant = ?1 AND s.id = ?2"
                )
            });
            reader.query_one(&SQL, &[no.into(), id.into()], |cells| {
                Ok((tables::SESSION.row(cells)?, tables::CUSTOMER.row(cells)?))
            })
        })
    }

    fn customers(&self, no: TenantNo, page: Page) -> Result<Vec<Customer>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                CUSTOMER.select("WHERE tenant = ?1 ORDER BY id LIMIT ?2 OFFSET ?3")
            });
            let [limit, offset] = window::limit_offset(page);
            reader.query(&SQL, &[no.into(), limit, offset], |cells| tables::CUSTOMER.row(cells))
        })
    }

    fn customers_expired(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, CustomerId)>,
        limit: usize,
    ) -> Result<Vec<Customer>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                CUSTOMER.select(&format!(
                    "WHERE {EXPIRING} AND expires_at_us <= ?1 AND (expires_at_us, id) > (?2, ?3) \
                     ORDER BY expires_at_us, id LIMIT ?4"
                ))
            });
            let (at, id) =
                after.unwrap_or((Timestamp(i64::MIN), CustomerId::new(uuid::Uuid::nil())));
            let limit = window::limit(limit as u64);
            reader.query(&SQL, &[now.into(), at.into(), id.into(), limit], |cells| {
                tables::CUSTOMER.row(cells)
            })
        })
    }
}

pub(super) fn by_id(
    reader: &Reader,
    no: TenantNo,
    id: CustomerId,
) -> Result<Option<Customer>, StoreError> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| CUSTOMER.select("WHERE tenant = ?1 AND id = ?2"));
    reader.query_one(&SQL, &[no.into(), id.into()], |cells| tables::CUSTOMER.row(cells))
}
