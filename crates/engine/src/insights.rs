//! Insights: evaluations of flags and measured events that clients report, counted by the hour.
//! They are statistics beside the journal; no decision depends on them.

use domain::{EnvironmentId, TenantNo};

/// How often a flag was a variation, in an hour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlagCount {
    pub tenant: TenantNo,
    pub environment: EnvironmentId,
    /// The flag's key.
    pub flag: String,
    /// Hours since 1970-01-01 (UTC).
    pub hour: i64,
    /// The variation's id.
    pub variation: String,
    pub evaluations: i64,
    /// How often of these for experiments.
    pub for_experiments: i64,
}

/// What was measured by a name, in an hour.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricCount {
    pub tenant: TenantNo,
    pub environment: EnvironmentId,
    pub event: String,
    /// Hours since 1970-01-01 (UTC).
    pub hour: i64,
    /// What sort of event it is, such as `CustomEvent`.
    pub kind: String,
    pub events: i64,
    /// The sum of the values.
    pub total: f64,
}

/// Hours since 1970-01-01 (UTC): the first, and the one that is too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// The first.
    pub from: i64,
    /// The first behind them.
    pub to: i64,
}
