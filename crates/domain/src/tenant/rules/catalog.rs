//! Versions of a tenant's catalog: how they are added and withdrawn.

use std::sync::Arc;

use crate::catalog::simple_plan::{Contradiction, SimplePlan};
use crate::catalog::{Catalog, Plan};
use crate::change::TenantChange;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::tenant::CATALOG;
use crate::tenant::catalog::{
    CatalogText, CatalogVersion, UploadCatalog, VERSION_BYTES_MAX, VERSIONS_BYTES_MAX, VERSIONS_MAX,
};
use crate::{
    Accepted, CatalogVersionId, Event, Rejection, Reply, Revision, TenantRejection, TenantValueId,
    Timestamp,
};

pub(crate) fn upload(state: &State, it: &UploadCatalog, cx: &mut Context) -> Outcome {
    let known = || state.catalog_versions(cx.tenant).values();
    let sold = || known().filter(|version| !version.is_withdrawn);
    // Another upload may have come first since the API compared them.
    if sold().any(|version| version.effective_at == it.catalog.effective_at) {
        return Err(conflict("its effective date is that of another version"));
    }
    if sold().any(|version| version.catalog.name != it.catalog.name) {
        return Err(conflict("its name is another than that of the other versions"));
    }
    if sold().count() >= VERSIONS_MAX {
        return Err(conflict("there are 100 versions already"));
    }
    let bytes = it.text.len() as u64;
    if known().map(|version| version.bytes).sum::<u64>() + bytes > VERSIONS_BYTES_MAX {
        return Err(conflict("the tenant's versions would have more than 16 MiB"));
    }
    let id = cx.mint();
    cx.change(TenantChange::CatalogText(CatalogText {
        tenant: cx.tenant,
        id,
        text: it.text.clone(),
    }));
    cx.change(TenantChange::CatalogVersion(CatalogVersion {
        tenant: cx.tenant,
        id,
        effective_at: it.catalog.effective_at,
        is_withdrawn: false,
        bytes,
        catalog: Arc::new((*it.catalog).clone()),
        revision: Revision::first(cx.seq),
    }));
    cx.event(Event::TenantConfigChanged { value: value(id), key: CATALOG.to_owned() });
    Ok(Accepted::now(Reply::Done))
}

/// How long the text of a version without plans is, in bytes.
const EMPTY_BYTES: u64 = 2_048;
/// How much longer a new plan makes it at most, beside its names, in bytes.
const PLAN_BYTES: u64 = 2_048;
/// How much longer a price in another currency makes it at most, in bytes.
const PRICE_BYTES: u64 = 256;

/// The version stays the one that it is, with its effective date, so that subscriptions keep what they have.
pub(crate) fn add_simple_plan(state: &State, it: &SimplePlan, cx: &mut Context) -> Outcome {
    let refused = |reason: String| -> Rejection {
        TenantRejection::SimplePlanRefused { plan: it.plan.clone(), reason }.into()
    };
    let known = state.catalog_versions(cx.tenant).values();
    let others: u64 = known.clone().map(|version| version.bytes).sum();
    let mut sold: Vec<_> = known.filter(|version| !version.is_withdrawn).collect();
    sold.sort_by_key(|version| version.effective_at);
    let later = sold.partition_point(|version| version.effective_at <= cx.now);
    let current = sold.get(later.saturating_sub(1)).copied();
    let mut catalog = match current {
        Some(version) => (*version.catalog).clone(),
        // Clients name times to the second.
        None => Catalog::of_simple_plans(Timestamp(
            cx.now.0 - cx.now.0.rem_euclid(Timestamp::SECOND_US),
        )),
    };
    catalog.add(it).map_err(|Contradiction(reason)| refused(reason))?;
    if current.is_some_and(|version| *version.catalog == catalog) {
        return Ok(Accepted::now(Reply::Done));
    }
    if sold.iter().any(|version| has_other_phases(&version.catalog, catalog.plan(&it.plan))) {
        return Err(refused("trialLength: another version has the plan with other phases".into()));
    }
    let before = current.map_or(EMPTY_BYTES, |version| version.bytes);
    let is_new = current.is_none_or(|version| version.catalog.plan(&it.plan).is_none());
    let added = if is_new { PLAN_BYTES } else { PRICE_BYTES } + 4 * name_bytes(it);
    if before + added > VERSION_BYTES_MAX as u64 || others + added > VERSIONS_BYTES_MAX {
        return Err(refused(
            "planId: the catalog would be longer than 1 MiB, or all versions than 16 MiB".into(),
        ));
    }
    let version = match current {
        Some(version) => {
            CatalogVersion { revision: version.revision.next(cx.seq), ..version.clone() }
        }
        None => CatalogVersion {
            tenant: cx.tenant,
            id: cx.mint(),
            effective_at: catalog.effective_at,
            is_withdrawn: false,
            bytes: before,
            catalog: Arc::default(),
            revision: Revision::first(cx.seq),
        },
    };
    let (tenant, id) = (cx.tenant, version.id);
    cx.change(TenantChange::CatalogText(CatalogText { tenant, id, text: String::new() }));
    let (bytes, catalog) = (before + added, Arc::new(catalog));
    cx.change(TenantChange::CatalogVersion(CatalogVersion { bytes, catalog, ..version }));
    cx.event(Event::TenantConfigChanged { value: value(id), key: CATALOG.to_owned() });
    Ok(Accepted::now(Reply::Done))
}

/// Whether a version has a plan, with phases of other types.
fn has_other_phases(version: &Catalog, plan: Option<&Plan>) -> bool {
    let types = |it: &Plan| it.phases.iter().map(|it| it.phase).collect::<Vec<_>>();
    let Some((known, plan)) = plan.and_then(|plan| Some((version.plan(&plan.name)?, plan))) else {
        return false;
    };
    types(known) != types(plan)
}

fn name_bytes(it: &SimplePlan) -> u64 {
    let product = it.product.as_ref().map_or(0, String::len);
    // Each of them names the add-on.
    let bases = it.available_base_products.len() * (product + 64);
    (it.plan.len() + product + bases) as u64
}

/// Nothing more is sold. Subscriptions go on.
pub(crate) fn withdraw(state: &State, cx: &mut Context) -> Outcome {
    let sold = state.catalog_versions(cx.tenant).values().filter(|it| !it.is_withdrawn);
    let sold: Vec<CatalogVersion> = sold.cloned().collect();
    let Some(first) = sold.first().map(|it| it.id) else { return Ok(Accepted::now(Reply::Done)) };
    for version in sold {
        let revision = version.revision.next(cx.seq);
        let it = CatalogVersion { is_withdrawn: true, revision, ..version };
        cx.change(TenantChange::CatalogVersion(it));
    }
    cx.event(Event::TenantConfigDeleted { value: value(first), key: CATALOG.to_owned() });
    Ok(Accepted::now(Reply::Done))
}

/// The version as the object of its event.
const fn value(version: CatalogVersionId) -> TenantValueId {
    TenantValueId::new(version.uuid())
}

fn conflict(reason: &str) -> Rejection {
    TenantRejection::CatalogRefused { reason: reason.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::ProductCategory;
    use crate::catalog::period::BillingPeriod;
    use crate::catalog::price::Price;
    use crate::command::TenantCommand;
    use crate::testing::Rows;
    use crate::{Command, Currency, TenantNo};

    fn upload(rows: &mut Rows, name: &str, at: i64) -> Result<(), String> {
        let empty = Catalog::of_simple_plans(Timestamp(at));
        let catalog = Catalog { name: name.to_owned(), ..empty };
        let it = UploadCatalog { text: "<catalog/>".to_owned(), catalog: Box::new(catalog) };
        let command = Command::Tenant(TenantCommand::UploadCatalog(it));
        rows.run(command).map(drop).map_err(|it| it.to_string())
    }

    #[test]
    fn a_version_has_a_date_of_its_own_and_the_name_of_the_others() {
        let mut rows = Rows::new();
        assert_eq!(upload(&mut rows, "Gold", 1), Ok(()));
        assert_eq!(upload(&mut rows, "Gold", 2), Ok(()));
        let taken = "the catalog is refused: its effective date is that of another version";
        assert_eq!(upload(&mut rows, "Gold", 2), Err(taken.to_owned()));
        let other = "the catalog is refused: its name is another than that of the other versions";
        assert_eq!(upload(&mut rows, "Silver", 3), Err(other.to_owned()));
        rows.run(Command::Tenant(TenantCommand::WithdrawCatalog)).unwrap();
        assert_eq!(upload(&mut rows, "Silver", 2), Ok(()));
    }

    #[test]
    fn there_are_100_versions_at_most() {
        let mut rows = Rows::new();
        (0..100).for_each(|at| assert_eq!(upload(&mut rows, "Gold", at), Ok(())));
        let full = "the catalog is refused: there are 100 versions already";
        assert_eq!(upload(&mut rows, "Gold", 100), Err(full.to_owned()));
    }

    fn simple(rows: &mut Rows, plan: &str, price: &str) -> Result<(), String> {
        let it = SimplePlan {
            plan: plan.to_owned(),
            product: Some("Pro".to_owned()),
            category: Some(ProductCategory::Base),
            currency: Currency::parse("USD").unwrap(),
            price: Price::parse(price).unwrap(),
            period: Some(BillingPeriod::Monthly),
            trial: None,
            available_base_products: vec![],
        };
        let command = Command::Tenant(TenantCommand::AddSimplePlan(Box::new(it)));
        rows.run(command).map(drop).map_err(|it| it.to_string())
    }

    /// The effective dates of the versions that are sold, each with its plans.
    fn sold(rows: &Rows) -> String {
        let versions = rows.state.tenant.catalog_versions.of(&TenantNo(1)).values();
        let shown = versions.filter(|it| !it.is_withdrawn).map(|it| {
            let plans: Vec<_> = it.catalog.plans.iter().map(|it| it.name.as_str()).collect();
            format!("{}: {}", it.effective_at.0, plans.join(" "))
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn simple_plans_are_added_to_the_version_in_force() {
        let mut rows = Rows::new();
        assert_eq!(simple(&mut rows, "a", "1"), Ok(()));
        assert_eq!(simple(&mut rows, "b", "1"), Ok(()));
        assert_eq!(simple(&mut rows, "b", "1"), Ok(()));
        let of_now = sold(&rows);
        assert!(of_now.ends_with("0: a b"), "{of_now}");
        let refused = "the simple plan b is refused: amount: the plan costs 1 USD";
        assert_eq!(simple(&mut rows, "b", "2"), Err(refused.to_owned()));
        rows.run(Command::Tenant(TenantCommand::WithdrawCatalog)).unwrap();
        for at in [0, 1, i64::MAX] {
            assert_eq!(upload(&mut rows, "Gold", at), Ok(()));
        }
        assert_eq!(simple(&mut rows, "c", "1"), Ok(()));
        let mut versions: Vec<_> = sold(&rows).split(", ").map(str::to_owned).collect();
        versions.sort();
        assert_eq!(versions, ["0: ", "1: c", "9223372036854775807: "]);
    }
}
