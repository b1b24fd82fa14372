//! The tables of insights.

use super::{CLUSTERED, Table, id, index, int, real, text};

/// How often a flag was a variation.
pub static FLAG_INSIGHT: Table = Table {
    name: "flag_insight",
    key_columns: 5,
    indexes: &[index("flag_insight_by_hour", "hour")],
    ..CLUSTERED
}
.of(&[
    int("tenant"),
    id("environment_id"),
    text("flag_key"),
    int("hour"),
    text("variation_id"),
    int("evaluations"),
    int("for_experiments"),
]);

/// How many metric events of an hour were reported, and the sum of their values.
pub static METRIC_INSIGHT: Table = Table {
    name: "metric_insight",
    key_columns: 5,
    indexes: &[index("metric_insight_by_hour", "hour")],
    ..CLUSTERED
}
.of(&[
    int("tenant"),
    id("environment_id"),
    text("event"),
    int("hour"),
    text("kind"),
    int("events"),
    real("total"),
]);
