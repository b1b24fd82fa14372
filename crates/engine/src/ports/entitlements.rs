//! Reads about features, offers, purchases and what accounts may do.

use std::sync::Arc;

use domain::entitlement::Entitlements;
use domain::entitlement::feature::Feature;
use domain::entitlement::offer::Offer;
use domain::entitlement::plan_features::{FeaturesOf, PlanFeatures};
use domain::entitlement::purchase::Purchase;
use domain::payment::PaymentFile;
use domain::{AccountId, PaymentId, PurchaseId, Revision, Seq, TenantNo};

use super::{Page, StoreError};

/// The key by which a purchase is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoughtBy {
    /// Its payment, which may be none of a purchase.
    Payment(PaymentId),
    /// Its id: it was free.
    Purchase(PurchaseId),
}

/// The rows of a purchase that was begun.
#[derive(Clone, Debug)]
pub struct Bought {
    pub payment: Option<PaymentFile>,
    pub purchase: Option<Purchase>,
    /// The account's entitlements; `None` where nothing was ever granted to it.
    pub entitlements: Option<Entitlements>,
}

/// Reads about features, offers, purchases and what accounts may do. Lists of features and offers are in the order of
/// their keys.
pub trait EntitlementQueries: Send + Sync {
    /// A feature by key.
    ///
    /// # Errors
    /// [`StoreError`]
    fn feature(&self, tenant: TenantNo, key: &str) -> Result<Option<Feature>, StoreError>;

    /// Features, archived ones too.
    ///
    /// # Errors
    /// [`StoreError`]
    fn features(&self, tenant: TenantNo, page: Page) -> Result<Vec<Feature>, StoreError>;

    /// An offer by key, in a version, or in its newest.
    ///
    /// # Errors
    /// [`StoreError`]
    fn offer(
        &self,
        tenant: TenantNo,
        key: &str,
        version: Option<i64>,
    ) -> Result<Option<Offer>, StoreError>;

    /// The newest versions of offers, withdrawn ones too.
    ///
    /// # Errors
    /// [`StoreError`]
    fn offers(&self, tenant: TenantNo, page: Page) -> Result<Vec<Offer>, StoreError>;

    /// The versions of an offer, the newest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn offer_versions(
        &self,
        tenant: TenantNo,
        key: &str,
        page: Page,
    ) -> Result<Vec<Offer>, StoreError>;

    /// The features of a plan or a product, in a version, or in their newest.
    ///
    /// # Errors
    /// [`StoreError`]
    fn plan_features(
        &self,
        tenant: TenantNo,
        of: &FeaturesOf,
        version: Option<i64>,
    ) -> Result<Option<PlanFeatures>, StoreError>;

    /// The versions of the features of a plan or a product, the newest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn plan_features_versions(
        &self,
        tenant: TenantNo,
        of: &FeaturesOf,
        page: Page,
    ) -> Result<Vec<PlanFeatures>, StoreError>;

    /// A purchase by id.
    ///
    /// # Errors
    /// [`StoreError`]
    fn purchase(&self, tenant: TenantNo, id: PurchaseId) -> Result<Option<Purchase>, StoreError>;

    /// The purchases of an account, the oldest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn purchases(
        &self,
        tenant: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<Purchase>, StoreError>;

    /// The entitlements of an account; `None` where nothing was ever granted to it.
    ///
    /// # Errors
    /// [`StoreError`]
    fn entitlements(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> Result<Option<Entitlements>, StoreError>;

    /// The account of a user of feature flags: the one that the key is mapped to, or else the one whose id or whose
    /// customer's id it is, or else the one whose external key it is.
    ///
    /// # Errors
    /// [`StoreError`]
    fn account_of_user(&self, tenant: TenantNo, key: &str)
    -> Result<Option<AccountId>, StoreError>;

    /// The keys of the users that are mapped to an account, in an order that stays.
    ///
    /// # Errors
    /// [`StoreError`]
    fn users_of_account(
        &self,
        tenant: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<String>, StoreError>;

    /// The entitlements of the account of a user of feature flags; `None` where the user belongs to no account.
    ///
    /// # Errors
    /// [`StoreError`]
    fn entitlements_of_user(
        &self,
        tenant: TenantNo,
        key: &str,
    ) -> Result<Option<Entitlements>, StoreError> {
        let Some(account) = self.account_of_user(tenant, key)? else { return Ok(None) };
        let known = self.entitlements(tenant, account)?;
        let none = || Entitlements::none_of(tenant, account, Revision::first(Seq(0)));
        Ok(Some(known.unwrap_or_else(none)))
    }

    /// The rows of purchases that were begun, in the order of `asked`.
    ///
    /// # Errors
    /// [`StoreError`]
    fn bought(
        &self,
        asked: &[(TenantNo, AccountId, BoughtBy)],
    ) -> Result<Vec<Arc<Bought>>, StoreError>;

    /// The entitlements of a tenant's accounts, in the order of the accounts' ids, behind `after`; at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`]
    fn entitlements_after(
        &self,
        tenant: TenantNo,
        after: Option<AccountId>,
        limit: usize,
    ) -> Result<Vec<Entitlements>, StoreError>;

    /// The keys by which programs name the users of an account: those that are mapped to it, or else its external key
    /// where it has one, or else its id. None where there is no such account.
    ///
    /// # Errors
    /// [`StoreError`]
    fn user_keys(&self, tenant: TenantNo, account: AccountId) -> Result<Vec<String>, StoreError>;

    /// The accounts whose entitlements changed after a journal row of their partition, in the order of their last
    /// changes; at most `limit`. A command changes one account at most.
    ///
    /// # Errors
    /// [`StoreError`]
    fn entitlements_changed(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<ChangedAccount>, StoreError>;
}

/// An account whose entitlements changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedAccount {
    pub tenant: TenantNo,
    pub account: AccountId,
    /// The journal row of the last change.
    pub seq: Seq,
}

/// Those who show what accounts are entitled to: see [`crate::accounts`].
pub trait EntitlementAudience: Send + Sync {
    /// From now on every change is published.
    fn follows(&self);

    /// Whether it shows an account, or is looking for those that it shows. Changes of other accounts are not read; who
    /// begins to show one reads it afterwards.
    fn shows(&self, account: &ChangedAccount) -> bool;

    /// The entitlements of accounts have changed, and are these now.
    fn changed(&self, entitlements: &[Entitlements]);

    /// Accounts used something of their limits, or reserved it.
    fn used(&self, accounts: &[AccountId]);
}
