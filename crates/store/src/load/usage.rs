//! Loads what accounts used.

use std::sync::LazyLock;

use domain::entitlement::usage::{PERIODS_MAX, Usage};
use domain::state::UsageState;
use domain::{AccountId, TenantNo};
use engine::ports::StoreError;

use super::values;
use crate::codes::code;
use crate::driver::{Cells, Reader, Value};
use crate::stored::KeyColumns;
use crate::tables::{FEATURE_USAGE, USAGE_EVENT, USAGE_RESERVATION, period_end};

/// Selects an account's usage of a feature in its newest periods, newest first, at most
/// [`PERIODS_MAX`].
pub(crate) static SELECT_NEWEST: LazyLock<String> = LazyLock::new(|| {
    let of_feature = "WHERE tenant = ?1 AND account_id = ?2 AND feature = ?3";
    FEATURE_USAGE.select(&format!("{of_feature} ORDER BY period_end_us DESC LIMIT {PERIODS_MAX}"))
});
static SELECT_PERIOD: LazyLock<String> = LazyLock::new(|| {
    let of_feature = "WHERE tenant = ?1 AND account_id = ?2 AND feature = ?3";
    FEATURE_USAGE.select(&format!("{of_feature} AND period_end_us = ?4 AND resets = ?5"))
});
static SELECT_RESERVED: LazyLock<String> = LazyLock::new(|| {
    FEATURE_USAGE.select("WHERE tenant = ?1 AND account_id = ?2 AND reserved <> '{}'")
});
pub(crate) static SELECT_RESERVATION: LazyLock<String> =
    LazyLock::new(|| USAGE_RESERVATION.select("WHERE tenant = ?1 AND account_id = ?2 AND id = ?3"));

pub(super) fn load(reader: &Reader, loaded: &mut UsageState) -> Result<(), StoreError> {
    let features: Vec<Vec<Value<'_>>> = loaded.counts.keys().map(KeyColumns::columns).collect();
    let reserved: Vec<(TenantNo, AccountId)> = loaded.reserved.iter().copied().collect();
    let mut found = vec![];
    let mut take = |cells: &mut Cells<'_>| {
        found.push(FEATURE_USAGE.row(cells)?);
        Ok(())
    };
    reader.for_keys(&SELECT_NEWEST, &features, |_, cells| take(cells))?;
    reader.for_keys(&SELECT_RESERVED, &values(&reserved), |_, cells| take(cells))?;
    found.into_iter().for_each(|it| add(loaded, it));
    USAGE_EVENT.load(reader, &mut loaded.events)?;
    USAGE_RESERVATION.load(reader, &mut loaded.reservations)?;
    load_periods(reader, loaded)
}

/// The counts that reservations are a part of.
fn load_periods(reader: &Reader, loaded: &mut UsageState) -> Result<(), StoreError> {
    let UsageState { reservations, counts, .. } = loaded;
    for it in reservations.iter() {
        counts.entry((it.tenant, it.account_id, it.feature.clone())).or_default();
    }
    let of_period = reservations.iter().map(|it| {
        let (end, resets) = (period_end(it.period), code(it.period.resets));
        [it.tenant.into(), it.account_id.into(), (&it.feature).into(), end.into(), resets.into()]
    });
    let of_period: Vec<[Value<'_>; 5]> = of_period.collect();
    let mut found = vec![];
    reader.for_keys(&SELECT_PERIOD, &of_period, |_, cells| {
        found.push(FEATURE_USAGE.row(cells)?);
        Ok(())
    })?;
    found.into_iter().for_each(|it| add(loaded, it));
    Ok(())
}

fn add(loaded: &mut UsageState, it: Usage) {
    let key = (it.tenant, it.account_id, it.feature.clone());
    loaded.counts.entry(key).or_default().insert(it.period, it);
}
