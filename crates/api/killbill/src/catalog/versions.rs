//! Kill Bill's objections to a version beside those of the tenant.

use domain::catalog::{Catalog, Plan};

use super::reading::{Mistake, java_date};

/// The objections to a version, in the order of those that there are.
pub(super) fn beside<'a>(new: &Catalog, others: impl Iterator<Item = &'a Catalog>) -> Vec<Mistake> {
    let texts = others.flat_map(|other| {
        let name = (new.name != other.name).then(|| {
            let (new, other) = (&new.name, &other.name);
            format!("Catalog name '{new}' is different from existing catalog name '{other}'")
        });
        let date = (new.effective_at == other.effective_at).then(|| {
            let date = java_date(new.effective_at);
            format!("Catalog effective date '{date}' already exists for a previous version")
        });
        let plans = new.plans.iter().filter_map(|plan| {
            let before = other.plan(&plan.name)?;
            (types(plan) != types(before)).then(|| {
                let (plan, date) = (&plan.name, java_date(other.effective_at));
                format!("Plan '{plan}' has other phases than in the version of '{date}'")
            })
        });
        name.into_iter().chain(date).chain(plans).collect::<Vec<_>>()
    });
    texts.map(|text| Mistake { line: 1, element: "catalog".to_owned(), text }).collect()
}

fn types(plan: &Plan) -> Vec<&'static str> {
    plan.phases.iter().map(|it| it.phase.name()).collect()
}
