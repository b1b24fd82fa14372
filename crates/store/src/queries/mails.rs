//! Reads of queued mails.

use std::sync::LazyLock;

use domain::customer::mail::Mail;
use domain::{MailId, TenantNo, Timestamp};
use engine::ports::{MailQueries, Page, StoreError};

use super::{SqlQueries, window};
use crate::tables::{self, GIVEN_UP, MAIL, TO_SEND};

impl MailQueries for SqlQueries {
    fn mails_due(&self, now: Timestamp, limit: usize) -> Result<Vec<Mail>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let rest =
                    format!("WHERE {TO_SEND} AND due_at_us <= ?1 ORDER BY due_at_us, id LIMIT ?2");
                MAIL.select(&rest)
            });
            reader.query(&SQL, &[now.into(), window::limit(limit as u64)], |cells| {
                tables::MAIL.row(cells)
            })
        })
    }

    fn mail(&self, no: TenantNo, id: MailId) -> Result<Option<Mail>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| MAIL.select("WHERE tenant = ?1 AND id = ?2"));
            reader.query_one(&SQL, &[no.into(), id.into()], |cells| tables::MAIL.row(cells))
        })
    }

    fn mails(&self, no: TenantNo, given_up: bool, page: Page) -> Result<Vec<Mail>, StoreError> {
        self.read(|reader| {
            static QUEUED: LazyLock<String> = LazyLock::new(|| of_tenant(TO_SEND));
            static DEAD: LazyLock<String> = LazyLock::new(|| of_tenant(GIVEN_UP));
            fn of_tenant(which: &str) -> String {
                MAIL.select(&format!(
                    "WHERE tenant = ?1 AND {which} ORDER BY id LIMIT ?2 OFFSET ?3"
                ))
            }
            let [limit, offset] = window::limit_offset(page);
            let sql = if given_up { &DEAD } else { &QUEUED };
            reader.query(sql, &[no.into(), limit, offset], |cells| tables::MAIL.row(cells))
        })
    }
}
