//! What programs tell of the flags that they evaluated and of what they measured, counted by the
//! hour: statistics, beside the journal, which nothing is decided by.

use domain::{EnvironmentId, TenantNo};

/// How often a flag was a variation, in an hour.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlagCount {
    /// Whose.
    pub tenant: TenantNo,
    /// Where.
    pub environment: EnvironmentId,
    /// The flag's key.
    pub flag: String,
    /// Hours since 1970-01-01 (UTC).
    pub hour: i64,
    /// The variation's id.
    pub variation: String,
    /// How often.
    pub evaluations: i64,
    /// How often of these for experiments.
    pub for_experiments: i64,
}

/// What was measured by a name, in an hour.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricCount {
    /// Whose.
    pub tenant: TenantNo,
    /// Where.
    pub environment: EnvironmentId,
    /// Its name.
    pub event: String,
    /// Hours since 1970-01-01 (UTC).
    pub hour: i64,
    /// What sort of event it is, such as `CustomEvent`.
    pub kind: String,
    /// How often.
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
