//! The versions of a tenant's catalog, and which of them a subscription has.

use std::sync::Arc;

use super::{Catalog, Plan};
use crate::Timestamp;

/// The versions of a tenant, the earliest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions(Vec<Arc<Catalog>>);

impl Versions {
    /// These versions, in whatever order.
    #[must_use]
    pub fn new(mut versions: Vec<Arc<Catalog>>) -> Self {
        versions.sort_by_key(|it| it.effective_at);
        Self(versions)
    }

    /// The version in force at a time: before the first one, that one. `None`: there is no catalog.
    #[must_use]
    pub fn in_force(&self, at: Timestamp) -> Option<&Catalog> {
        let later = self.0.partition_point(|it| it.effective_at <= at);
        self.0.get(later.saturating_sub(1)).map(Arc::as_ref)
    }

    /// The plan that a subscription has at a time, whose plan was chosen at an earlier one. It is that of the version in
    /// force when it was chosen, until a later version says that it is for existing subscriptions as well.
    #[must_use]
    pub fn plan<'a>(
        &'a self,
        name: &'a str,
        chosen_at: Timestamp,
        at: Timestamp,
    ) -> Option<Chosen<'a>> {
        let later = self.for_existing(name, chosen_at).filter(|it| it.from <= at).last();
        later.or_else(|| self.chosen(name, chosen_at))
    }

    /// The plan of the version in force when it was chosen.
    #[must_use]
    pub fn chosen(&self, name: &str, at: Timestamp) -> Option<Chosen<'_>> {
        let catalog = self.in_force(at)?;
        Some(Chosen { catalog, plan: catalog.plan(name)?, from: at })
    }

    /// The later versions of a plan that are for existing subscriptions, in the order of versions.
    pub fn for_existing<'a>(
        &'a self,
        name: &'a str,
        chosen_at: Timestamp,
    ) -> impl Iterator<Item = Chosen<'a>> {
        let later = self.0.iter().filter(move |it| it.effective_at > chosen_at);
        later.filter_map(move |catalog| {
            let plan = catalog.plan(name)?;
            let from = plan.effective_for_existing_at.filter(|it| *it >= chosen_at)?;
            Some(Chosen { catalog, plan, from })
        })
    }
}

/// A plan of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen<'a> {
    pub catalog: &'a Catalog,
    pub plan: &'a Plan,
    /// From when on the subscription has it.
    pub from: Timestamp,
}
