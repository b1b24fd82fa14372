//! Features, offers, purchases, what accounts may do, and whose users are whose.

use domain::entitlement::Entitlements;
use domain::entitlement::account_user::user_claim;
use domain::entitlement::feature::Feature;
use domain::entitlement::offer::{Offer, OfferTerms};
use domain::entitlement::plan_features::{FeaturesOf, PlanFeatures};
use domain::entitlement::purchase::Purchase;
use domain::{AccountId, Seq, TenantNo};
use engine::ports::StoreError;

use super::claims::claim_hash;
use super::{CHECKED, CLUSTERED, Layout, Table, id, index, int, only, text};
use crate::codes::code;
use crate::driver::{Cells, Value};
use crate::stored::TableOf;

/// Tenants' features. `terms` is JSON.
pub static FEATURE: TableOf<Feature> = TableOf::new(
    Table { name: "feature", since: 17, ..CLUSTERED },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        text("key").of(|it, _| (&it.key).into()),
        int("version").of(|it, _| it.version.into()),
        text("name").of(|it, _| (&it.name).into()),
        text("terms").of(|it, cx| cx.json(&it.terms)),
        int("archived").of(|it, _| it.archived.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("updated_at_us").of(|it, _| it.updated_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(Feature {
            tenant: cells.tenant()?,
            key: cells.string()?,
            version: cells.int()?,
            name: cells.string()?,
            terms: cells.json()?,
            archived: cells.flag()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
);

/// The newest version of each offer. `terms` is JSON.
pub static OFFER: TableOf<Offer> = TableOf::new(
    Table {
        name: "offer",
        since: 17,
        indexes: &[only("offer_for_newcomers", "tenant, for_newcomers", "for_newcomers = 1")],
        ..CLUSTERED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        text("key").of(|it, _| (&it.key).into()),
        int("version").of(|it, _| it.version.into()),
        text("terms").of(|it, cx| cx.json(&it.terms)),
        int("for_newcomers").of(|it, _| it.terms.for_newcomers.into()),
        int("created_at_us").of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        let (tenant, key, version) = (cells.tenant()?, cells.string()?, cells.int()?);
        let terms: OfferTerms = cells.json()?;
        if cells.flag()? != terms.for_newcomers {
            return Err(cells.corrupt("is not what the terms say"));
        }
        let (created_at, revision) = (cells.time()?, cells.revision()?);
        Ok(Offer { tenant, key, version, terms, created_at, revision })
    },
);

/// All versions of offers, as they were made.
pub static OFFER_VERSION: TableOf<Offer> = TableOf::new(
    Table { name: "offer_version", since: 17, key_columns: 3, ..CHECKED },
    OFFER.columns,
    OFFER.read,
);

/// The newest version of the features of each plan and product. `features` is JSON.
pub static PLAN_FEATURES: TableOf<PlanFeatures> = TableOf::new(
    Table {
        name: "plan_features",
        since: 22,
        key_columns: 3,
        indexes: &[only("plan_features_on_payment", "tenant", "on_payment = 1")],
        ..CLUSTERED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        int("kind").of(|it, _| code(it.of.kind).into()),
        text("name").of(|it, _| (&it.of.name).into()),
        int("version").of(|it, _| it.version.into()),
        text("features").of(|it, cx| cx.json(&it.features)),
        int("on_payment").of(|it, _| it.waits_for_payment().into()),
        int("created_at_us").of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        let tenant = cells.tenant()?;
        let of = FeaturesOf { kind: cells.code()?, name: cells.string()? };
        let (version, features, on_payment) = (cells.int()?, cells.json()?, cells.flag()?);
        let (created_at, revision) = (cells.time()?, cells.revision()?);
        let it = PlanFeatures { tenant, of, version, features, created_at, revision };
        match it.waits_for_payment() == on_payment {
            true => Ok(it),
            false => Err(cells.corrupt("is not what the features say")),
        }
    },
);

/// All versions of the features of plans and products, as they were made.
pub static PLAN_FEATURES_VERSION: TableOf<PlanFeatures> = TableOf::new(
    Table { name: "plan_features_version", since: 22, key_columns: 4, ..CHECKED },
    PLAN_FEATURES.columns,
    PLAN_FEATURES.read,
);

/// Accounts' purchases. `terms`, the offer as it was bought, is JSON.
pub static PURCHASE: TableOf<Purchase> = TableOf::new(
    Table {
        name: "purchase",
        since: 17,
        layout: Layout::Indexed,
        indexes: &[index("purchase_by_account", "tenant, account_id, id")],
        exported: &["id"],
        ..CLUSTERED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account_id.into()),
        id("payment_id").null().fixed().of(|it, _| it.payment_id.into()),
        text("offer").fixed().of(|it, _| (&it.offer).into()),
        int("offer_version").fixed().of(|it, _| it.offer_version.into()),
        text("terms").fixed().of(|it, cx| cx.json(&it.terms)),
        int("purchase_status").of(|it, _| code(it.status).into()),
        int("from_us").null().of(|it, _| it.from.into()),
        int("until_us").null().of(|it, _| it.until.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("updated_at_us").of(|it, _| it.updated_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(Purchase {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            account_id: cells.entity()?,
            payment_id: cells.opt_entity()?,
            offer: cells.string()?,
            offer_version: cells.int()?,
            terms: cells.json()?,
            status: cells.code()?,
            from: cells.opt_time()?,
            until: cells.opt_time()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
);

/// All that was granted to an account, one row each. `grants` and `bought` are JSON.
pub static ENTITLEMENTS: TableOf<Entitlements> = TableOf::new(
    Table {
        name: "entitlements",
        since: 17,
        layout: Layout::Indexed,
        indexes: &[index("entitlements_by_seq", "seq")],
        exported: &["account_id"],
        ..CLUSTERED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("account_id").of(|it, _| it.account_id.into()),
        int("version").of(|it, _| it.version.into()),
        text("grants").of(|it, cx| cx.json(&it.grants)),
        text("bought").of(|it, cx| cx.json(&it.bought)),
        int("changed_at_us").of(|it, _| it.changed_at.into()),
        int("due_at_us").null().of(|it, _| it.due.into()),
        int("users_version").added(18).of(|it, _| it.users_version.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(Entitlements {
            tenant: cells.tenant()?,
            account_id: cells.entity()?,
            version: cells.int()?,
            grants: cells.json()?,
            bought: cells.json()?,
            changed_at: cells.time()?,
            due: cells.opt_time()?,
            users_version: cells.opt_int()?.unwrap_or(0),
            revision: cells.revision()?,
        })
    },
);

/// The users that are mapped to accounts. `key_hash` is that of the claim on the key: see
/// `claim_hash`.
pub static ACCOUNT_USER: Table =
    Table { name: "account_user", since: 18, key_columns: 3, exported: &["key_hash"], ..CLUSTERED }
        .of(&[int("tenant"), id("account_id"), id("key_hash"), text("key"), int("seq")]);

/// A row of [`ACCOUNT_USER`].
pub(crate) fn account_user_row(
    (tenant, account): (TenantNo, AccountId),
    user: &str,
    seq: Seq,
) -> [Value<'_>; 5] {
    let hash = Value::Id(claim_hash(&user_claim(tenant, user)));
    [tenant.into(), account.into(), hash, user.into(), seq.into()]
}

/// Reads a row of [`ACCOUNT_USER`]: whose user it is, and its key.
pub(crate) fn account_user(
    cells: &mut Cells<'_>,
) -> Result<(TenantNo, AccountId, String), StoreError> {
    cells.of(&ACCOUNT_USER);
    let (tenant, account) = (cells.tenant()?, cells.entity()?);
    cells.skip(1);
    Ok((tenant, account, cells.string()?))
}
