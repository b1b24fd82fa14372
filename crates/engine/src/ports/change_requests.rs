//! Reads of change requests.

use domain::flag::change_request::{ChangeRequest, ChangeStatus};
use domain::{ChangeRequestId, EnvironmentId, TenantNo, Timestamp};

use super::{Page, StoreError};

/// Reads of change requests.
pub trait ChangeRequestQueries: Send + Sync {
    /// A change that is kept for later.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn change_request(
        &self,
        no: TenantNo,
        id: ChangeRequestId,
    ) -> Result<Option<ChangeRequest>, StoreError>;
    /// The changes of an environment, or those in a status, newest first.
    fn change_requests(
        &self,
        place: (TenantNo, EnvironmentId),
        status: Option<ChangeStatus>,
        page: Page,
    ) -> Result<Vec<ChangeRequest>, StoreError>;
    /// Scheduled changes of all tenants whose time has come at `now`, oldest first, behind the one
    /// with this time and id; at most `limit`.
    fn change_requests_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, ChangeRequestId)>,
        limit: usize,
    ) -> Result<Vec<ChangeRequest>, StoreError>;
}
