//! Which plan is meant, and its phases.

use std::sync::Arc;

use crate::billing::overrides::{OverriddenPhase, Overrides, PhasePrices, PriceOverride};
use crate::billing::subscription::PlanChoice;
use crate::catalog::versions::Versions;
use crate::catalog::{Catalog, DEFAULT_PRICE_LIST, Phase, Plan, PriceList, Product};
use crate::context::Context;
use crate::state::State;
use crate::{BillingRejection as R, Rejection, Timestamp};

/// The versions of the tenant's catalog that are sold.
pub(super) fn sold(state: &State, cx: &Context) -> Versions {
    let sold = state.catalog_versions(cx.tenant).values().filter(|it| !it.is_withdrawn);
    Versions::new(sold.map(|it| Arc::clone(&it.catalog)).collect())
}

/// A plan that is sold.
#[derive(Clone, Copy)]
pub(super) struct Sold<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) plan: &'a Plan,
    pub(super) product: &'a Product,
    pub(super) price_list: &'a str,
}

/// The plan that a client chose, in the version that is in force at a time.
pub(super) fn find<'a>(
    sold: &'a Versions,
    choice: &'a PlanChoice,
    at: Timestamp,
) -> Result<Sold<'a>, Rejection> {
    let catalog = sold.in_force(at).ok_or(R::NoCatalog)?;
    let (plan, price_list) = match choice {
        PlanChoice::Named(name) => {
            let plan = catalog.plan(name).ok_or_else(|| R::NoSuchPlan { plan: name.clone() })?;
            let has = |it: &&PriceList| it.plans.contains(name);
            let list = catalog.price_lists.iter().find(has);
            (plan, list.map_or(DEFAULT_PRICE_LIST, |it| it.name.as_str()))
        }
        PlanChoice::Offered { product, period, price_list } => {
            if catalog.product(product).is_none() {
                return Err(R::NoSuchProduct { product: product.clone() }.into());
            }
            let wanted = price_list.as_deref().unwrap_or(DEFAULT_PRICE_LIST);
            let lists = [wanted, DEFAULT_PRICE_LIST];
            let is_it = |it: &&Plan| it.product == *product && it.period() == *period;
            let of_list = |name: &'a str| {
                let list = catalog.price_lists.iter().find(|it| it.name == name)?;
                let mut plans = list.plans.iter().filter_map(|it| catalog.plan(it)).filter(is_it);
                Some((plans.next()?, plans.next().is_some(), name))
            };
            let found = lists.into_iter().find_map(of_list);
            let shown = || format!("{product} {} {wanted}", period.name());
            let (plan, is_one_of_several, list) =
                found.ok_or_else(|| R::NoPlanOffered { wanted: shown() })?;
            if is_one_of_several {
                return Err(R::SeveralPlansOffered { wanted: shown() }.into());
            }
            (plan, list)
        }
    };
    let product = catalog.product(&plan.product);
    let product = product.ok_or_else(|| R::NoSuchProduct { product: plan.product.clone() })?;
    Ok(Sold { catalog, plan, product, price_list })
}

impl Sold<'_> {
    /// What replaces the plan's prices; `None`: nothing.
    pub(super) fn overrides(
        &self,
        wanted: &[PriceOverride],
        cx: &Context,
    ) -> Result<Option<Overrides>, Rejection> {
        let mut phases: Vec<PhasePrices> = vec![];
        for it in wanted {
            let phase = self.overridden(it)?;
            if phases.iter().any(|known| known.phase == phase.phase) {
                return Err(self.refused(format!("it names the phase {} twice", self.name(phase))));
            }
            let (fixed, recurring) = (it.fixed, it.recurring);
            phases.push(PhasePrices { phase: phase.phase, fixed, recurring });
        }
        phases.retain(|it| it.fixed.is_some() || it.recurring.is_some());
        Ok((!phases.is_empty()).then_some(Overrides { number: cx.seq, phases }))
    }

    /// The phase whose prices are to be replaced. It has each of them.
    fn overridden(&self, it: &PriceOverride) -> Result<&Phase, Rejection> {
        let (phase, name) = match &it.phase {
            OverriddenPhase::OfType(phase) => (self.plan.phase(*phase), phase.name()),
            OverriddenPhase::Named(name) => {
                (self.plan.phases.iter().find(|it| self.name(it) == *name), name.as_str())
            }
        };
        let phase = phase.ok_or_else(|| self.refused(format!("it has no phase {name}")))?;
        let lacks = |price| Err(self.refused(format!("its phase {name} has no {price} price")));
        match (it.fixed.is_some(), it.recurring.is_some()) {
            (true, _) if phase.fixed.is_none() => lacks("fixed"),
            (_, true) if phase.recurring.is_none() => lacks("recurring"),
            (true | false, true | false) => Ok(phase),
        }
    }

    fn name(&self, phase: &Phase) -> String {
        phase.phase.of_plan(&self.plan.name)
    }

    fn refused(&self, reason: String) -> Rejection {
        R::InvalidPriceOverride { plan: self.plan.name.clone(), reason }.into()
    }
}
