//! Reads of flag insights.

use std::sync::LazyLock;

use domain::{EnvironmentId, TenantNo};
use engine::insights::{FlagCount, MetricCount};
use engine::ports::{HoursPage, InsightQueries, StoreError};

use super::SqlQueries;
use super::window::limit_offset;
use crate::insights::{flag_count, metric_count};
use crate::tables::{FLAG_INSIGHT, METRIC_INSIGHT};

impl InsightQueries for SqlQueries {
    fn flag_insights(
        &self,
        place: (TenantNo, EnvironmentId),
        flag: &str,
        HoursPage { hours, page }: HoursPage,
    ) -> Result<Vec<FlagCount>, StoreError> {
        let (no, environment) = place;
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                FLAG_INSIGHT.select(
                    "WHERE tenant = ?1 AND environment_id = ?2 AND flag_key = ?3 AND hour >= ?4 \
                     AND hour < ?5 ORDER BY hour, variation_id LIMIT ?6 OFFSET ?7",
                )
            });
            let [limit, offset] = limit_offset(page);
            let (from, to) = (hours.from.into(), hours.to.into());
            let parameters = [no.into(), environment.into(), flag.into(), from, to, limit, offset];
            reader.query(&SQL, &parameters, flag_count)
        })
    }

    fn metric_insights(
        &self,
        place: (TenantNo, EnvironmentId),
        event: &str,
        HoursPage { hours, page }: HoursPage,
    ) -> Result<Vec<MetricCount>, StoreError> {
        let (no, environment) = place;
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                METRIC_INSIGHT.select(
                    "WHERE tenant = ?1 AND environment_id = ?2 AND event = ?3 AND hour >= ?4 \
                     AND hour < ?5 ORDER BY hour, kind LIMIT ?6 OFFSET ?7",
                )
            });
            let [limit, offset] = limit_offset(page);
            let (from, to) = (hours.from.into(), hours.to.into());
            let parameters = [no.into(), environment.into(), event.into(), from, to, limit, offset];
            reader.query(&SQL, &parameters, metric_count)
        })
    }
}
