//! Reads of flag insights.

use domain::{EnvironmentId, TenantNo};

use super::{Page, StoreError};
use crate::insights::{FlagCount, Hours, MetricCount};

/// Reads of flag insights.
pub trait InsightQueries: Send + Sync {
    /// The counts of a flag in an environment, in the order of the hours.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn flag_insights(
        &self,
        place: (TenantNo, EnvironmentId),
        flag: &str,
        hours: Hours,
        page: Page,
    ) -> Result<Vec<FlagCount>, StoreError>;
    /// The counts of a metric event in an environment, in the order of the hours.
    fn metric_insights(
        &self,
        place: (TenantNo, EnvironmentId),
        event: &str,
        hours: Hours,
        page: Page,
    ) -> Result<Vec<MetricCount>, StoreError>;
}
