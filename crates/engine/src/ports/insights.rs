//! Insights of flags: reads, and the writes beside the journal.

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
        page: HoursPage,
    ) -> Result<Vec<FlagCount>, StoreError>;
    /// The counts of a metric event in an environment, in the order of the hours.
    fn metric_insights(
        &self,
        place: (TenantNo, EnvironmentId),
        event: &str,
        page: HoursPage,
    ) -> Result<Vec<MetricCount>, StoreError>;
}

/// A window on the counts of some hours.
#[derive(Clone, Copy, Debug)]
pub struct HoursPage {
    /// The hours whose counts are listed.
    pub hours: Hours,
    pub page: Page,
}

/// Adds to the counts, over a connection beside those that own partitions. After an error it is of no more use.
pub trait InsightWriter: Send {
    /// Adds counts, all or none.
    ///
    /// # Errors
    /// [`StoreError`]: none were added, except where the outcome is not known.
    fn add(
        &mut self,
        flags: &mut [FlagCount],
        metrics: &mut [MetricCount],
    ) -> Result<(), StoreError>;
    /// Forgets counts of hours before this one, the oldest first and at most so many of each table;
    /// says how many there were.
    ///
    /// # Errors
    /// [`StoreError`].
    fn forget(&mut self, before_hour: i64, rows_max: i64) -> Result<u64, StoreError>;
}
