//! Insights: evaluations of flags and measured events that clients report, counted by the hour.
//! They are statistics beside the journal; no decision depends on them.

use domain::{EnvironmentId, TenantNo};

/// How often a flag evaluated to a variation within one hour.
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
    /// How many of these count for experiments.
    pub for_experiments: i64,
}

/// The events that were measured under one name within one hour.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricCount {
    pub tenant: TenantNo,
    pub environment: EnvironmentId,
    pub event: String,
    /// Hours since 1970-01-01 (UTC).
    pub hour: i64,
    /// The kind of the event, such as `CustomEvent`.
    pub kind: String,
    pub events: i64,
    /// The sum of the values.
    pub total: f64,
}

/// A range of hours since 1970-01-01 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// The first hour, inclusive.
    pub from: i64,
    /// The first hour after the range.
    pub to: i64,
}
