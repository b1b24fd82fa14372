//! The rows of offers' versions, of accounts' users and of usage that a batch writes.

use std::collections::BTreeMap;

use domain::change::EntitlementChange;
use domain::entitlement::Entitlements;
use domain::entitlement::offer::Offer;
use domain::entitlement::period::Period;
use domain::entitlement::plan_features::PlanFeatures;
use domain::entitlement::usage::{EventKey, Reservation, ReservationStatus, Usage, UsageEvent};
use domain::{AccountId, ReservationId, Seq, TenantNo};
use engine::ports::StoreError;

use crate::driver::Database;
use crate::stored::{Newest, WriteContext};
use crate::tables::{
    ACCOUNT_USER, FEATURE_USAGE, OFFER_VERSION, PLAN_FEATURES_VERSION, USAGE_EVENT,
    USAGE_RESERVATION, account_user_row,
};

/// The part of a batch's rows that is about them.
#[derive(Default)]
pub(super) struct EntitlementRows<'a> {
    /// All versions that the batch made.
    versions: Vec<Newest<'a, Offer>>,
    versions_of_plans: Vec<Newest<'a, PlanFeatures>>,
    /// The newest of each account.
    pub(super) newest: BTreeMap<(TenantNo, AccountId), &'a Entitlements>,
    /// Users by account and key: the command that mapped them, or none where they are mapped no longer.
    users: BTreeMap<(TenantNo, AccountId, &'a str), Option<Seq>>,
    /// Each with the journal row that changed it last.
    usage: BTreeMap<(TenantNo, AccountId, &'a str, Period), Newest<'a, Usage>>,
    usage_events: BTreeMap<(TenantNo, AccountId, EventKey), &'a UsageEvent>,
    reservations: BTreeMap<(TenantNo, AccountId, ReservationId), Newest<'a, Reservation>>,
}

impl<'a> EntitlementRows<'a> {
    pub(super) fn take(&mut self, change: &'a EntitlementChange, seq: Seq) {
        match change {
            EntitlementChange::Offer(it) => {
                self.versions.push(Newest { image: it, made_by: Some(seq) });
            }
            EntitlementChange::PlanFeatures(it) => {
                self.versions_of_plans.push(Newest { image: it, made_by: Some(seq) });
            }
            EntitlementChange::Users(it) => {
                let of = |(user, seq): (&'a String, _)| ((it.tenant, it.account, &**user), seq);
                self.users.extend(it.unmapped.iter().map(|user| of((user, None))));
                self.users.extend(it.mapped.iter().map(|user| of((user, Some(seq)))));
            }
            EntitlementChange::Usage(it) => {
                let newest = Newest { image: &**it, made_by: Some(seq) };
                self.usage.insert((it.tenant, it.account_id, &it.feature, it.period), newest);
            }
            EntitlementChange::UsageEvent(it) => {
                self.usage_events.insert((it.tenant, it.account_id, it.key), it);
            }
            EntitlementChange::Reservation(it) => {
                let made_by = (it.status == ReservationStatus::Open).then_some(seq);
                let known = self.reservations.entry((it.tenant, it.account_id, it.id));
                let known = known.or_insert(Newest { image: it, made_by });
                known.image = it;
                known.made_by = known.made_by.or(made_by);
            }
            EntitlementChange::Entitlements(it) => {
                self.newest.insert((it.tenant, it.account_id), it);
            }
            EntitlementChange::Feature(_) | EntitlementChange::Purchase(_) => {}
        }
    }

    /// Writes the rows.
    pub(super) fn write(&self, db: &Database, cx: WriteContext<'_>) -> Result<(), StoreError> {
        OFFER_VERSION.write(db, &self.versions, cx)?;
        PLAN_FEATURES_VERSION.write(db, &self.versions_of_plans, cx)?;
        self.write_users(db)?;
        FEATURE_USAGE.put(db, self.usage.values().copied(), cx)?;
        // One that was forgotten may still be there.
        USAGE_EVENT.put(db, self.usage_events.values().copied(), cx)?;
        USAGE_RESERVATION.write(db, self.reservations.values(), cx)
    }

    fn write_users(&self, db: &Database) -> Result<(), StoreError> {
        if self.users.is_empty() {
            return Ok(());
        }
        let sql =
            "DELETE FROM account_user WHERE tenant = ?1 AND account_id = ?2 AND key_hash = ?3";
        let (mut put, mut delete) = (db.upsert(&ACCOUNT_USER)?, db.prepare(sql)?);
        for (&(tenant, account, user), seq) in &self.users {
            match *seq {
                Some(seq) => put.row(&account_user_row((tenant, account), user, seq))?,
                None => {
                    let [tenant, account, hash, ..] =
                        account_user_row((tenant, account), user, Seq(0));
                    delete.row(&[tenant, account, hash])?;
                }
            }
        }
        Ok(())
    }
}
