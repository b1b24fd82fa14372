//! What a batch writes of features, offers, purchases and what accounts may do.

use std::collections::BTreeMap;

use domain::change::EntitlementChange;
use domain::entitlement::Entitlements;
use domain::feature::Feature;
use domain::offer::Offer;
use domain::purchase::Purchase;
use domain::{AccountId, PurchaseId, Seq, TenantNo};
use engine::ports::StoreError;

use super::{Newest, newest, put_all};
use crate::cells::json;
use crate::driver::Database;
use crate::rows;
use crate::tables;

/// The part of a batch's rows that is about them.
#[derive(Default)]
pub(super) struct EntitlementRows<'a> {
    features: BTreeMap<(TenantNo, &'a str), Newest<'a, Feature>>,
    offers: BTreeMap<(TenantNo, &'a str), Newest<'a, Offer>>,
    /// All versions that the batch made.
    versions: Vec<&'a Offer>,
    purchases: BTreeMap<(TenantNo, PurchaseId), Newest<'a, Purchase>>,
    entitlements: BTreeMap<(TenantNo, AccountId), Newest<'a, Entitlements>>,
    /// Users by account and key: the command that mapped them, or none where they are mapped no longer.
    users: BTreeMap<(TenantNo, AccountId, &'a str), Option<Seq>>,
}

impl<'a> EntitlementRows<'a> {
    pub(super) fn take(&mut self, change: &'a EntitlementChange, seq: Seq) {
        match change {
            EntitlementChange::Feature(it) => {
                newest(&mut self.features, (it.tenant, &it.key), it, (it.revision, seq));
            }
            EntitlementChange::Offer(it) => {
                newest(&mut self.offers, (it.tenant, &it.key), it, (it.revision, seq));
                self.versions.push(it);
            }
            EntitlementChange::Purchase(it) => {
                newest(&mut self.purchases, (it.tenant, it.id), &**it, (it.revision, seq));
            }
            EntitlementChange::Entitlements(it) => {
                let key = (it.tenant, it.account_id);
                newest(&mut self.entitlements, key, &**it, (it.revision, seq));
            }
            EntitlementChange::Users(it) => {
                let of = |(user, seq): (&'a String, _)| ((it.tenant, it.account, &**user), seq);
                self.users.extend(it.unmapped.iter().map(|user| of((user, None))));
                self.users.extend(it.mapped.iter().map(|user| of((user, Some(seq)))));
            }
        }
    }

    /// Writes the rows.
    pub(super) fn write(&self, db: &Database) -> Result<(), StoreError> {
        put_all(db, &tables::FEATURE, self.features.values(), |put, it| {
            put.row(&rows::feature_row(it.image, &json(&it.image.terms)))
        })?;
        put_all(db, &tables::OFFER, self.offers.values(), |put, it| {
            put.row(&rows::offer_row(it.image, &json(&it.image.terms)))
        })?;
        if !self.versions.is_empty() {
            let mut put = db.insert(&tables::OFFER_VERSION)?;
            for it in &self.versions {
                put.row(&rows::offer_row(it, &json(&it.terms)))?;
            }
        }
        put_all(db, &tables::PURCHASE, self.purchases.values(), |put, it| {
            put.row(&rows::purchase_row(it.image, &json(&it.image.terms)))
        })?;
        put_all(db, &tables::ENTITLEMENTS, self.entitlements.values(), |put, it| {
            let texts = (&json(&it.image.grants), &json(&it.image.bought));
            put.row(&rows::entitlements_row(it.image, texts))
        })?;
        self.write_users(db)
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
}
