//! The rows of features, offers, purchases, entitlements and usage that a batch writes.

use std::collections::BTreeMap;

use domain::change::EntitlementChange;
use domain::entitlement::Entitlements;
use domain::feature::Feature;
use domain::offer::Offer;
use domain::period::Period;
use domain::purchase::Purchase;
use domain::usage::{EventKey, Reservation, ReservationStatus, Usage, UsageEvent};
use domain::{AccountId, ReservationId, Seq, TenantNo};
use engine::ports::StoreError;

use super::Images;
use crate::cells::json;
use crate::driver::Database;
use crate::rows;
use crate::stored::{self, WriteContext};
use crate::tables;

/// The part of a batch's rows that is about them.
#[derive(Default)]
pub(super) struct EntitlementRows<'a> {
    features: Images<'a, Feature>,
    offers: Images<'a, Offer>,
    /// All versions that the batch made.
    versions: Vec<&'a Offer>,
    purchases: Images<'a, Purchase>,
    entitlements: Images<'a, Entitlements>,
    /// Users by account and key: the command that mapped them, or none where they are mapped no longer.
    users: BTreeMap<(TenantNo, AccountId, &'a str), Option<Seq>>,
    usage: BTreeMap<(TenantNo, AccountId, &'a str, Period), (&'a Usage, Seq)>,
    usage_events: BTreeMap<(TenantNo, AccountId, EventKey), &'a UsageEvent>,
    /// Each with whether the batch made it.
    reservations: BTreeMap<(TenantNo, AccountId, ReservationId), (&'a Reservation, bool)>,
}

impl<'a> EntitlementRows<'a> {
    pub(super) fn take(&mut self, change: &'a EntitlementChange, seq: Seq) {
        match change {
            EntitlementChange::Feature(it) => self.features.take(it, seq),
            EntitlementChange::Offer(it) => {
                self.offers.take(it, seq);
                self.versions.push(it);
            }
            EntitlementChange::Purchase(it) => self.purchases.take(it, seq),
            EntitlementChange::Entitlements(it) => self.entitlements.take(it, seq),
            EntitlementChange::Users(it) => {
                let of = |(user, seq): (&'a String, _)| ((it.tenant, it.account, &**user), seq);
                self.users.extend(it.unmapped.iter().map(|user| of((user, None))));
                self.users.extend(it.mapped.iter().map(|user| of((user, Some(seq)))));
            }
            EntitlementChange::Usage(it) => {
                self.usage.insert((it.tenant, it.account_id, &it.feature, it.period), (it, seq));
            }
            EntitlementChange::UsageEvent(it) => {
                self.usage_events.insert((it.tenant, it.account_id, it.key), it);
            }
            EntitlementChange::Reservation(it) => {
                let is_new = it.status == ReservationStatus::Open;
                let slot = self.reservations.entry((it.tenant, it.account_id, it.id));
                let (known, made_here) = slot.or_insert((it, false));
                *known = it;
                *made_here |= is_new;
            }
        }
    }

    /// Writes the rows.
    pub(super) fn write(&self, db: &Database, cx: WriteContext<'_>) -> Result<(), StoreError> {
        stored::FEATURES.write(db, self.features.values(), cx)?;
        stored::OFFERS.write(db, self.offers.values(), cx)?;
        if !self.versions.is_empty() {
            let mut put = db.insert(&tables::OFFER_VERSION)?;
            for it in &self.versions {
                put.row(&rows::offer_row(it, &json(&it.terms)))?;
            }
        }
        stored::PURCHASES.write(db, self.purchases.values(), cx)?;
        stored::ENTITLEMENTS.write(db, self.entitlements.values(), cx)?;
        self.write_users(db)?;
        self.write_usage(db)
    }

    fn write_users(&self, db: &Database) -> Result<(), StoreError> {
        if self.users.is_empty() {
            return Ok(());
        }
        let sql =
            "DELETE FROM account_user WHERE tenant = ?1 AND account_id = ?2 AND key_hash = ?3";
        let (mut put, mut delete) = (db.upsert(&tables::ACCOUNT_USER)?, db.prepare(sql)?);
        for (&(tenant, account, user), seq) in &self.users {
            match *seq {
                Some(seq) => put.row(&rows::account_user_row((tenant, account), user, seq))?,
                None => {
                    let [tenant, account, hash, ..] =
                        rows::account_user_row((tenant, account), user, Seq(0));
                    delete.row(&[tenant, account, hash])?;
                }
            }
        }
        Ok(())
    }

    fn write_usage(&self, db: &Database) -> Result<(), StoreError> {
        if !self.usage.is_empty() {
            let mut put = db.upsert(&tables::FEATURE_USAGE)?;
            for (it, seq) in self.usage.values() {
                put.row(&rows::usage_row((it, *seq), &json(&it.reserved)))?;
            }
        }
        if !self.usage_events.is_empty() {
            // One that was forgotten may still be there.
            let mut put = db.upsert(&tables::USAGE_EVENT)?;
            for it in self.usage_events.values() {
                put.row(&rows::usage_event_row(it))?;
            }
        }
        let made = |wanted: bool| {
            self.reservations.values().filter(move |(_, is_new)| *is_new == wanted).map(|it| it.0)
        };
        if made(true).next().is_some() {
            let mut put = db.insert(&tables::USAGE_RESERVATION)?;
            made(true).try_for_each(|it| put.row(&rows::reservation_row(it)))?;
        }
        if made(false).next().is_some() {
            let mut put = db.upsert(&tables::USAGE_RESERVATION)?;
            made(false).try_for_each(|it| put.row(&rows::reservation_row(it)))?;
        }
        Ok(())
    }
}
