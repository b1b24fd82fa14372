//! Loads what accounts used.

use std::sync::LazyLock;

use domain::read::UsageRead;
use domain::state::State;
use domain::usage::{EventKey, PERIODS_MAX, Usage};
use domain::{AccountId, ReservationId, TenantNo};
use engine::ports::StoreError;

use crate::codes::reset_code;
use crate::driver::{Reader, Value};
use crate::rows;
use crate::rows::usage::period_end;
use crate::tables::{FEATURE_USAGE, USAGE_EVENT, USAGE_RESERVATION};

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
static SELECT_EVENT: LazyLock<String> = LazyLock::new(|| {
    USAGE_EVENT.select("WHERE tenant = ?1 AND account_id = ?2 AND event_key = ?3")
});
pub(crate) static SELECT_RESERVATION: LazyLock<String> =
    LazyLock::new(|| USAGE_RESERVATION.select("WHERE tenant = ?1 AND account_id = ?2 AND id = ?3"));

/// The keys of usage that a batch loads, each once.
#[derive(Default)]
pub(super) struct UsagePlan {
    features: Vec<(TenantNo, AccountId, String)>,
    reserved: Vec<(TenantNo, AccountId)>,
    events: Vec<(TenantNo, AccountId, EventKey)>,
    reservations: Vec<(TenantNo, AccountId, ReservationId)>,
}

impl UsagePlan {
    pub(super) fn add(&mut self, read: &UsageRead) {
        match read {
            UsageRead::Feature(tenant, account, feature) => {
                self.features.push((*tenant, *account, feature.clone()));
            }
            UsageRead::Reserved(tenant, account) => self.reserved.push((*tenant, *account)),
            UsageRead::Event(tenant, account, key) => self.events.push((*tenant, *account, *key)),
            UsageRead::Reservation(tenant, account, id) => {
                self.reservations.push((*tenant, *account, *id));
            }
        }
    }

    pub(super) fn load(self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        let keys: Vec<[Value<'_>; 3]> = self
            .features
            .iter()
            .map(|(tenant, account, feature)| [(*tenant).into(), (*account).into(), feature.into()])
            .collect();
        reader.for_keys(&SELECT_NEWEST, &keys, |_, cells| {
            add(state, rows::usage(cells)?);
            Ok(())
        })?;
        let keys: Vec<[Value<'_>; 2]> =
            self.reserved.iter().map(|(no, account)| [(*no).into(), (*account).into()]).collect();
        reader.for_keys(&SELECT_RESERVED, &keys, |_, cells| {
            add(state, rows::usage(cells)?);
            Ok(())
        })?;
        state.entitlement.usage.reserved.extend(&self.reserved);
        self.events.iter().for_each(|key| state.entitlement.usage.events.look_for(*key));
        let keys: Vec<[Value<'_>; 3]> = self
            .events
            .iter()
            .map(|(tenant, account, key)| [(*tenant).into(), (*account).into(), key.0.into()])
            .collect();
        reader.for_keys(&SELECT_EVENT, &keys, |_, cells| {
            let it = rows::usage_event(cells)?;
            state.entitlement.usage.events.put(it);
            Ok(())
        })?;
        self.load_reservations(reader, state)?;
        for (tenant, account, feature) in self.features {
            state.entitlement.usage.counts.entry((tenant, account, feature)).or_default();
        }
        Ok(())
    }

    /// Reservations, each with the count that it is a part of.
    fn load_reservations(&self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        self.reservations
            .iter()
            .for_each(|key| state.entitlement.usage.reservations.look_for(*key));
        let keys: Vec<[Value<'_>; 3]> = self
            .reservations
            .iter()
            .map(|(tenant, account, id)| [(*tenant).into(), (*account).into(), (*id).into()])
            .collect();
        let mut found = vec![];
        reader.for_keys(&SELECT_RESERVATION, &keys, |_, cells| {
            found.push(rows::reservation(cells)?);
            Ok(())
        })?;
        let of_usage: Vec<[Value<'_>; 5]> = found
            .iter()
            .map(|it| {
                let (end, resets) = (period_end(it.period), reset_code(it.period.resets));
                let feature = (&it.feature).into();
                [it.tenant.into(), it.account_id.into(), feature, end.into(), resets.into()]
            })
            .collect();
        reader.for_keys(&SELECT_PERIOD, &of_usage, |_, cells| {
            add(state, rows::usage(cells)?);
            Ok(())
        })?;
        for it in found {
            state
                .entitlement
                .usage
                .counts
                .entry((it.tenant, it.account_id, it.feature.clone()))
                .or_default();
            state.entitlement.usage.reservations.put(it);
        }
        Ok(())
    }
}

fn add(state: &mut State, it: Usage) {
    let key = (it.tenant, it.account_id, it.feature.clone());
    state.entitlement.usage.counts.entry(key).or_default().insert(it.period, it);
}
