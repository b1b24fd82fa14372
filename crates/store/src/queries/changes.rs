//! Reads of changes of feature flags that are kept for later.

use std::sync::LazyLock;

use domain::flag::change_request::{ChangeRequest, ChangeStatus};
use domain::{ChangeRequestId, EnvironmentId, TenantNo, Timestamp};
use engine::ports::{ChangeRequestQueries, Page, StoreError};
use uuid::Uuid;

use super::{SqlQueries, window};
use crate::codes::code;
use crate::tables::{self, CHANGE_REQUEST, DUE};

impl ChangeRequestQueries for SqlQueries {
    fn change_request(
        &self,
        no: TenantNo,
        id: ChangeRequestId,
    ) -> Result<Option<ChangeRequest>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| CHANGE_REQUEST.select("WHERE tenant = ?1 AND id = ?2"));
            reader
                .query_one(&SQL, &[no.into(), id.into()], |cells| tables::CHANGE_REQUEST.row(cells))
        })
    }

    fn change_requests(
        &self,
        (no, environment): (TenantNo, EnvironmentId),
        status: Option<ChangeStatus>,
        page: Page,
    ) -> Result<Vec<ChangeRequest>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                CHANGE_REQUEST.select(
                    "WHERE tenant = ?1 AND environment_id = ?2 AND status BETWEEN ?3 AND ?4 \
                     ORDER BY id DESC LIMIT ?5 OFFSET ?6",
                )
            });
            let (from, to) = status.map_or((0, i64::MAX), |it| (code(it), code(it)));
            let [limit, offset] = window::limit_offset(page);
            let parameters = [no.into(), environment.into(), from.into(), to.into(), limit, offset];
            reader.query(&SQL, &parameters, |cells| tables::CHANGE_REQUEST.row(cells))
        })
    }

    fn change_requests_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, ChangeRequestId)>,
        limit: usize,
    ) -> Result<Vec<ChangeRequest>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                CHANGE_REQUEST.select(&format!(
                    "WHERE {DUE} AND due_at_us <= ?1 AND (due_at_us, id) > (?2, ?3) \
                     ORDER BY due_at_us, id LIMIT ?4"
                ))
            });
            let first = (Timestamp(i64::MIN), ChangeRequestId::new(Uuid::nil()));
            let (at, id) = after.unwrap_or(first);
            let parameters = [now.into(), at.into(), id.into(), window::limit(limit as u64)];
            reader.query(&SQL, &parameters, |cells| tables::CHANGE_REQUEST.row(cells))
        })
    }
}
