//! Reads of features, offers, purchases and what accounts may do.

use std::sync::{Arc, LazyLock};

use domain::claim::ClaimKind;
use domain::entitlement::Entitlements;
use domain::entitlement::account_user::{USERS_MAX, spelled_account, user_claim};
use domain::entitlement::feature::Feature;
use domain::entitlement::offer::Offer;
use domain::entitlement::plan_features::{FeaturesOf, PlanFeatures};
use domain::entitlement::purchase::Purchase;
use domain::{AccountId, PurchaseId, Seq, TenantNo};
use engine::ports::{
    AccountQueries as _, Bought, BoughtBy, ChangedAccount, EntitlementQueries, Page, StoreError,
};

use super::{SqlQueries, payments, window};
use crate::codes::code;
use crate::driver::{Cells, Value};
use crate::tables::{self, claim_hash};
use crate::tables::{
    ACCOUNT_USER, ENTITLEMENTS, FEATURE, OFFER, OFFER_VERSION, PLAN_FEATURES,
    PLAN_FEATURES_VERSION, PURCHASE,
};

/// In the order of their keys.
const BY_KEY: &str = "WHERE tenant = ?1 ORDER BY key LIMIT ?2 OFFSET ?3";
const OF_KEY: &str = "WHERE tenant = ?1 AND key = ?2";
const VERSIONS: &str = "WHERE tenant = ?1 AND key = ?4 ORDER BY version DESC LIMIT ?2 OFFSET ?3";
const OF_ACCOUNT: &str = "WHERE tenant = ?1 AND account_id = ?4 ORDER BY id LIMIT ?2 OFFSET ?3";

static SELECT_FEATURE: LazyLock<String> = LazyLock::new(|| FEATURE.select(OF_KEY));
static SELECT_FEATURES: LazyLock<String> = LazyLock::new(|| FEATURE.select(BY_KEY));
static SELECT_OFFER: LazyLock<String> = LazyLock::new(|| OFFER.select(OF_KEY));
static SELECT_OFFERS: LazyLock<String> = LazyLock::new(|| OFFER.select(BY_KEY));
static SELECT_VERSION: LazyLock<String> =
    LazyLock::new(|| OFFER_VERSION.select(&format!("{OF_KEY} AND version = ?3")));
static SELECT_VERSIONS: LazyLock<String> = LazyLock::new(|| OFFER_VERSION.select(VERSIONS));
static SELECT_OF_PLAN: LazyLock<String> =
    LazyLock::new(|| PLAN_FEATURES.select("WHERE tenant = ?1 AND kind = ?2 AND name = ?3"));
static SELECT_VERSION_OF_PLAN: LazyLock<String> = LazyLock::new(|| {
    let of_version = "WHERE tenant = ?1 AND kind = ?2 AND name = ?3 AND version = ?4";
    PLAN_FEATURES_VERSION.select(of_version)
});
static SELECT_VERSIONS_OF_PLAN: LazyLock<String> = LazyLock::new(|| {
    let of_plan = "WHERE tenant = ?1 AND kind = ?4 AND name = ?5 ORDER BY version DESC";
    PLAN_FEATURES_VERSION.select(&format!("{of_plan} LIMIT ?2 OFFSET ?3"))
});
static SELECT_PURCHASE: LazyLock<String> =
    LazyLock::new(|| PURCHASE.select("WHERE tenant = ?1 AND id = ?2"));
static SELECT_PURCHASES: LazyLock<String> = LazyLock::new(|| PURCHASE.select(OF_ACCOUNT));
static SELECT_AFTER: LazyLock<String> = LazyLock::new(|| {
    ENTITLEMENTS.select("WHERE tenant = ?1 AND account_id > ?2 ORDER BY account_id LIMIT ?3")
});
static SELECT_USERS: LazyLock<String> = LazyLock::new(|| {
    let of_account = "WHERE tenant = ?1 AND account_id = ?4 ORDER BY key_hash";
    ACCOUNT_USER.select(&format!("{of_account} LIMIT ?2 OFFSET ?3"))
});

/// Which account has a key, of which ?2 is the owner of the claim and ?4 the id that it spells: by a mapping, as its
/// id or its customer's, as its external key.
const ACCOUNT_OF_USER: &str = "SELECT account_id FROM (\
     SELECT account_id, 1 AS place FROM account_user \
     WHERE tenant = ?1 AND account_id = ?2 AND key_hash = ?3 \
     UNION ALL SELECT id, 2 FROM account WHERE tenant = ?1 AND id = ?4 \
     UNION ALL SELECT account_id, 2 FROM customer WHERE tenant = ?1 AND id = ?4 \
     UNION ALL SELECT id, 3 FROM account WHERE tenant = ?1 AND id = ?2 AND external_key = ?5\
     ) AS found ORDER BY place LIMIT 1";

pub(super) static SELECT_ENTITLEMENTS: LazyLock<String> =
    LazyLock::new(|| ENTITLEMENTS.select("WHERE tenant = ?1 AND account_id = ?2"));

impl EntitlementQueries for SqlQueries {
    fn feature(&self, no: TenantNo, key: &str) -> Result<Option<Feature>, StoreError> {
        let by_key = [no.into(), key.into()];
        self.read(|reader| {
            reader.query_one(&SELECT_FEATURE, &by_key, |cells| tables::FEATURE.row(cells))
        })
    }

    fn features(&self, no: TenantNo, page: Page) -> Result<Vec<Feature>, StoreError> {
        let [limit, offset] = window::limit_offset(page);
        let parameters = [no.into(), limit, offset];
        self.read(|reader| {
            reader.query(&SELECT_FEATURES, &parameters, |cells| tables::FEATURE.row(cells))
        })
    }

    fn offer(
        &self,
        no: TenantNo,
        key: &str,
        version: Option<i64>,
    ) -> Result<Option<Offer>, StoreError> {
        let (tenant, key) = (no.into(), key.into());
        self.read(|reader| match version {
            None => {
                reader.query_one(&SELECT_OFFER, &[tenant, key], |cells| tables::OFFER.row(cells))
            }
            Some(version) => {
                reader.query_one(&SELECT_VERSION, &[tenant, key, version.into()], |cells| {
                    tables::OFFER.row(cells)
                })
            }
        })
    }

    fn offers(&self, no: TenantNo, page: Page) -> Result<Vec<Offer>, StoreError> {
        let [limit, offset] = window::limit_offset(page);
        let parameters = [no.into(), limit, offset];
        self.read(|reader| {
            reader.query(&SELECT_OFFERS, &parameters, |cells| tables::OFFER.row(cells))
        })
    }

    fn offer_versions(
        &self,
        no: TenantNo,
        key: &str,
        page: Page,
    ) -> Result<Vec<Offer>, StoreError> {
        let [limit, offset] = window::limit_offset(page);
        let parameters = [no.into(), limit, offset, key.into()];
        self.read(|reader| {
            reader.query(&SELECT_VERSIONS, &parameters, |cells| tables::OFFER.row(cells))
        })
    }

    fn plan_features(
        &self,
        no: TenantNo,
        of: &FeaturesOf,
        version: Option<i64>,
    ) -> Result<Option<PlanFeatures>, StoreError> {
        let [tenant, kind, name] = [no.into(), code(of.kind).into(), (&of.name).into()];
        self.read(|reader| match version {
            None => reader.query_one(&SELECT_OF_PLAN, &[tenant, kind, name], |cells| {
                PLAN_FEATURES.row(cells)
            }),
            Some(version) => {
                let key = [tenant, kind, name, version.into()];
                reader.query_one(&SELECT_VERSION_OF_PLAN, &key, |cells| PLAN_FEATURES.row(cells))
            }
        })
    }

    fn plan_features_versions(
        &self,
        no: TenantNo,
        of: &FeaturesOf,
        page: Page,
    ) -> Result<Vec<PlanFeatures>, StoreError> {
        let [limit, offset] = window::limit_offset(page);
        let parameters = [no.into(), limit, offset, code(of.kind).into(), (&of.name).into()];
        self.read(|reader| {
            reader.query(&SELECT_VERSIONS_OF_PLAN, &parameters, |cells| PLAN_FEATURES.row(cells))
        })
    }

    fn purchase(&self, no: TenantNo, id: PurchaseId) -> Result<Option<Purchase>, StoreError> {
        let by_id = [no.into(), id.into()];
        self.read(|reader| {
            reader.query_one(&SELECT_PURCHASE, &by_id, |cells| tables::PURCHASE.row(cells))
        })
    }

    fn purchases(
        &self,
        no: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<Purchase>, StoreError> {
        let [limit, offset] = window::limit_offset(page);
        let parameters = [no.into(), limit, offset, account.into()];
        self.read(|reader| {
            reader.query(&SELECT_PURCHASES, &parameters, |cells| tables::PURCHASE.row(cells))
        })
    }

    fn entitlements(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Option<Entitlements>, StoreError> {
        let of_account = [no.into(), account.into()];
        self.read(|reader| {
            reader.query_one(&SELECT_ENTITLEMENTS, &of_account, |cells| {
                tables::ENTITLEMENTS.row(cells)
            })
        })
    }

    fn bought(
        &self,
        asked: &[(TenantNo, AccountId, BoughtBy)],
    ) -> Result<Vec<Arc<Bought>>, StoreError> {
        // One read: a purchase goes with its payment, and a file is locked once.
        self.snapshot(|reader| {
            let read = |&(no, account, by): &(TenantNo, AccountId, BoughtBy)| {
                let (payment, id) = match by {
                    BoughtBy::Purchase(id) => (None, Some(id)),
                    BoughtBy::Payment(id) => {
                        let payment = payments::by_id(reader, no, id)?;
                        let purchase =
                            payment.as_ref().and_then(|it| it.payment.paid_for?.purchase());
                        (payment, purchase)
                    }
                };
                let by_id = |id: PurchaseId| {
                    let key = [no.into(), id.into()];
                    reader.query_one(&SELECT_PURCHASE, &key, |cells| tables::PURCHASE.row(cells))
                };
                let purchase = id.map_or(Ok(None), by_id)?;
                let of_account = [no.into(), account.into()];
                let entitlements =
                    reader.query_one(&SELECT_ENTITLEMENTS, &of_account, |cells| {
                        tables::ENTITLEMENTS.row(cells)
                    })?;
                Ok(Arc::new(Bought { payment, purchase, entitlements }))
            };
            asked.iter().map(read).collect()
        })
    }

    fn account_of_user(&self, no: TenantNo, key: &str) -> Result<Option<AccountId>, StoreError> {
        let sought = &self.seek(no, ClaimKind::Account, key);
        self.snapshot(|reader| {
            let owner = sought.claim(reader)?.map(|claim| claim.owner);
            let hash = claim_hash(&user_claim(no, key));
            let parameters =
                [no.into(), owner.into(), Value::Id(hash), spelled_account(key).into(), key.into()];
            reader.query_one(ACCOUNT_OF_USER, &parameters, |cells| cells.entity())
        })
    }

    fn users_of_account(
        &self,
        no: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<String>, StoreError> {
        let [limit, offset] = window::limit_offset(page);
        let parameters = [no.into(), limit, offset, account.into()];
        let read = |cells: &mut Cells<'_>| Ok(tables::account_user(cells)?.2);
        self.read(|reader| reader.query(&SELECT_USERS, &parameters, read))
    }

    fn entitlements_after(
        &self,
        no: TenantNo,
        after: Option<AccountId>,
        limit: usize,
    ) -> Result<Vec<Entitlements>, StoreError> {
        let after = after.unwrap_or(AccountId::new(uuid::Uuid::nil()));
        let parameters = [no.into(), after.into(), window::limit(limit as u64)];
        self.read(|reader| {
            reader.query(&SELECT_AFTER, &parameters, |cells| tables::ENTITLEMENTS.row(cells))
        })
    }

    fn user_keys(&self, no: TenantNo, id: AccountId) -> Result<Vec<String>, StoreError> {
        let Some(found) = self.account(no, id)? else { return Ok(vec![]) };
        let mapped = self.users_of_account(no, id, Page { offset: 0, limit: USERS_MAX as u64 })?;
        if !mapped.is_empty() {
            return Ok(mapped);
        }
        // A key that is the id of another account names the users of that one.
        let named = match found.account.external_key {
            Some(key) if self.account_of_user(no, &key)? == Some(id) => Some(key),
            Some(_) | None => None,
        };
        Ok(vec![named.unwrap_or_else(|| id.to_string())])
    }

    fn entitlements_changed(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<ChangedAccount>, StoreError> {
        const CHANGED: &str = "SELECT tenant, account_id, seq FROM entitlements \
            WHERE seq > ?1 AND seq < ?2 ORDER BY seq LIMIT ?3";
        let end = after.partition().end();
        let parameters = [after.into(), end.into(), window::limit(limit as u64)];
        self.read(|reader| {
            reader.query(CHANGED, &parameters, |cells| {
                cells.of(&ENTITLEMENTS);
                let (tenant, account) = (cells.tenant()?, cells.entity()?);
                Ok(ChangedAccount { tenant, account, seq: cells.seq()? })
            })
        })
    }
}
