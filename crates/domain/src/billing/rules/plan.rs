//! Which plan is meant, and its phases.

use crate::billing::subscription::PlanChoice;
use crate::catalog::versions::Versions;
use crate::catalog::{Catalog, DEFAULT_PRICE_LIST, Plan, PriceList, Product};
use crate::{BillingRejection as R, Rejection, Timestamp};

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
