//! What a subscription should have of the features of its plan.

use crate::Timestamp;
use crate::account::blocking_state::Blocks;
use crate::billing::subscription::Subscription;
use crate::billing::timeline::{Current, To};
use crate::catalog::PhaseType;
use crate::entitlement::feature::{FeatureValue, LIMIT_MAX};
use crate::entitlement::plan_features::{PlanFeature, PlanFeatures, Starts};

/// The features of a plan: its own, and those of its product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapping<'a> {
    pub(super) plan: Option<&'a PlanFeatures>,
    pub(super) product: Option<&'a PlanFeatures>,
}

/// An entry of a mapping, under the key of its feature.
type Entry<'a> = (&'a str, &'a PlanFeature, &'a PlanFeatures);

impl<'a> Mapping<'a> {
    /// Those of the plan, and those of its product that the plan does not name.
    fn entries(self) -> impl Iterator<Item = Entry<'a>> {
        let of = |of: Option<&'a PlanFeatures>| {
            let all = of.into_iter().flat_map(|of| of.features.iter().map(move |it| (it, of)));
            all.map(|((key, entry), of)| (key.as_str(), entry, of))
        };
        let names = move |key: &str| self.plan.is_some_and(|it| it.features.contains_key(key));
        of(self.plan).chain(of(self.product).filter(move |(key, ..)| !names(key)))
    }

    /// How many features it gives, in whichever phases.
    pub(super) fn size(self) -> usize {
        self.entries().filter(|(_, entry, _)| !entry.gives_nothing()).count()
    }

    /// Whether it gives a feature in a phase.
    fn gives(self, key: &str, phase: PhaseType) -> bool {
        self.entries().any(|(of, entry, _)| of == key && entry.in_phase(phase).is_some())
    }
}

/// A plan in a phase, that a subscription has or will have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage<'a> {
    /// From when on.
    pub(super) at: Timestamp,
    pub(super) plan: &'a str,
    pub(super) phase: PhaseType,
    pub(super) mapping: Mapping<'a>,
}

/// The stages of a subscription: the one that it is in, and those that are known to come.
pub(super) fn stages<'a>(
    of: &'a Subscription,
    mapping: impl Fn(Current<'a>) -> Mapping<'a>,
) -> Vec<Stage<'a>> {
    let stage = |at, it: Current<'a>| {
        let (plan, phase) = (it.plan, it.phase);
        Stage { at, plan, phase, mapping: mapping(it) }
    };
    let mut current = of.current();
    let mut stages: Vec<_> = current.map(|it| stage(it.chosen_at, it)).into_iter().collect();
    for transition in of.transitions.iter().skip(of.in_effect.max(1)) {
        if let Some(next) = Current::after(current, transition) {
            stages.push(stage(transition.at, next));
            current = Some(next);
        }
    }
    stages
}

/// An entitlement that is not over and not blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Active {
    /// Now, or when it begins.
    from: Timestamp,
    /// When it ends, as far as that is known.
    until: Option<Timestamp>,
    quantity: u32,
    /// Whether the first invoice that charges it is paid.
    is_paid: bool,
}

/// The entitlement of a subscription at a time; `None`: it is over, or blocked.
pub(super) fn active(
    of: &Subscription,
    blocks: Blocks,
    is_paid: bool,
    now: Timestamp,
) -> Option<Active> {
    let until = of.entitlement_end();
    let is_over = until.is_some_and(|until| until <= now);
    let from = of.entitled_from.max(now);
    let quantity = quantity(of);
    (!is_over && !blocks.entitlement).then_some(Active { from, until, quantity, is_paid })
}

/// The quantity that it has, or begins with.
fn quantity(of: &Subscription) -> u32 {
    let start = of.starts_at();
    let has = of.transitions.iter().enumerate();
    let has = has.filter(|(place, it)| *place < of.in_effect || it.at <= start);
    let mut quantities = has.filter_map(|(_, it)| match it.to {
        To::Quantity(quantity) => Some(quantity),
        To::Plan { .. } | To::BillCycleDay(_) | To::Cancelled { .. } | To::Expired => None,
    });
    quantities.next_back().unwrap_or(1)
}

/// A grant that a subscription should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted<'a> {
    /// The feature's key.
    pub(super) feature: &'a str,
    pub(super) value: FeatureValue,
    pub(super) plan: &'a str,
    pub(super) phase: PhaseType,
    /// Whose entry it is.
    pub(super) given_by: &'a PlanFeatures,
    pub(super) from: Timestamp,
    pub(super) until: Option<Timestamp>,
}

/// The grants that a subscription should have, by its stages.
pub(super) fn wanted<'a>(stages: &[Stage<'a>], active: Active) -> Vec<Wanted<'a>> {
    let Some((stage, later)) = stages.split_first() else { return vec![] };
    let mut all = vec![];
    for (feature, entry, given_by) in stage.mapping.entries() {
        let Some(value) = entry.in_phase(stage.phase) else { continue };
        if entry.starts == Starts::Paid && !active.is_paid {
            continue;
        }
        let lacks = |it: &&Stage<'a>| !it.mapping.gives(feature, it.phase);
        let lost = later.iter().find(lacks).map(|it| it.at);
        let until = [active.until, lost].into_iter().flatten().min();
        // A phase that is over goes on until its end takes effect; a feature of it does not.
        if until.is_some_and(|until| until <= active.from) {
            continue;
        }
        let Stage { plan, phase, .. } = *stage;
        let value = times(value, if entry.times_quantity { active.quantity } else { 1 });
        all.push(Wanted { feature, value, plan, phase, given_by, from: active.from, until });
    }
    all
}

/// A limit for each of a quantity; at most the largest one.
fn times(value: &FeatureValue, quantity: u32) -> FeatureValue {
    match value {
        FeatureValue::Limit(limit) => {
            FeatureValue::Limit(limit.saturating_mul(i64::from(quantity)).min(LIMIT_MAX))
        }
        FeatureValue::On
        | FeatureValue::Boolean(_)
        | FeatureValue::Number(_)
        | FeatureValue::String(_)
        | FeatureValue::Json(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests;
