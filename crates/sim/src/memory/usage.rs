//! What accounts used, in memory.

use std::collections::BTreeMap;

use domain::period::Period;
use domain::read::UsageRead;
use domain::state::State;
use domain::usage::{EventKey, Reservation, ReservationStatus, Usage, UsageEvent};
use domain::{AccountId, ReservationId, TenantNo};
use uuid::Uuid;

use super::{MemoryDisk, copy};

impl MemoryDisk {
    /// What accounts used.
    #[must_use]
    pub fn usage(&self) -> Vec<Usage> {
        self.tables().entitlements.usage.counts.values().cloned().collect()
    }
}

/// The tables of usage.
#[derive(Clone, Debug, Default)]
pub(super) struct UsageTables {
    counts: BTreeMap<(TenantNo, AccountId, String, Period), Usage>,
    events: BTreeMap<(TenantNo, AccountId, EventKey), UsageEvent>,
    reservations: BTreeMap<(TenantNo, AccountId, ReservationId), Reservation>,
}

impl UsageTables {
    pub(super) fn change(&mut self, it: Usage) {
        self.counts.insert((it.tenant, it.account_id, it.feature.clone(), it.period), it);
    }

    pub(super) fn add_event(&mut self, it: UsageEvent) {
        self.events.insert((it.tenant, it.account_id, it.key), it);
    }

    pub(super) fn change_reservation(&mut self, it: Reservation) {
        self.reservations.insert((it.tenant, it.account_id, it.id), it);
    }

    /// Of a new reservation: its table, its id, and whether it is there.
    pub(super) fn made_by_request(&self, it: &Reservation) -> Option<(&'static str, Uuid, bool)> {
        let is_there = self.reservations.contains_key(&(it.tenant, it.account_id, it.id));
        let is_new = it.status == ReservationStatus::Open;
        is_new.then_some(("usage_reservation", it.id.uuid(), is_there))
    }

    pub(super) fn load(&self, read: &UsageRead, state: &mut State) {
        match read {
            UsageRead::Feature(tenant, account, feature) => {
                self.read((*tenant, *account, feature.clone()), state);
            }
            UsageRead::Reserved(tenant, account) => self.read_reserved((*tenant, *account), state),
            UsageRead::Event(tenant, account, key) => {
                copy((*tenant, *account, *key), &self.events, &mut state.usage_events);
            }
            UsageRead::Reservation(tenant, account, id) => {
                self.read_reservation((*tenant, *account, *id), state);
            }
        }
    }

    fn read(&self, key: (TenantNo, AccountId, String), state: &mut State) {
        let own = |it: &&Usage| (it.tenant, it.account_id, &it.feature) == (key.0, key.1, &key.2);
        let found: Vec<Usage> = self.counts.values().filter(own).cloned().collect();
        state.usage.entry(key).or_default().extend(found.into_iter().map(|it| (it.period, it)));
    }

    fn read_reserved(&self, of: (TenantNo, AccountId), state: &mut State) {
        let own = self.counts.values().filter(|it| (it.tenant, it.account_id) == of);
        for it in own.filter(|it| !it.reserved.is_empty()) {
            let key = (of.0, of.1, it.feature.clone());
            state.usage.entry(key).or_default().insert(it.period, it.clone());
        }
        state.reserved_usage.insert(of);
    }

    fn read_reservation(&self, key: (TenantNo, AccountId, ReservationId), state: &mut State) {
        copy(key, &self.reservations, &mut state.reservations);
        if let Some(it) = self.reservations.get(&key) {
            self.read((it.tenant, it.account_id, it.feature.clone()), state);
        }
    }
}
