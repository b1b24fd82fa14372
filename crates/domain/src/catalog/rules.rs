//! A catalog's rules: when a change or a cancellation takes effect, where phases are aligned, and whose bill cycle day
//! counts.
//!
//! Cases are tried in the order of the catalog; the first one whose criteria all hold decides.

use serde::{Deserialize, Serialize};

use super::period::BillingPeriod;
use super::{PhaseType, ProductCategory};

/// Criteria of a plan in rules. A criterion that is absent holds for every plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Criteria {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<ProductCategory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<BillingPeriod>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_list: Option<String>,
}

/// A plan in a price list, as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered<'a> {
    pub product: &'a str,
    pub category: ProductCategory,
    pub period: BillingPeriod,
    pub price_list: &'a str,
}

impl Criteria {
    fn hold(&self, plan: Offered<'_>) -> bool {
        self.product.as_deref().is_none_or(|it| it == plan.product)
            && self.category.is_none_or(|it| it == plan.category)
            && self.period.is_none_or(|it| it == plan.period)
            && self.price_list.as_deref().is_none_or(|it| it == plan.price_list)
    }
}

/// A rule about one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case<T> {
    /// The phase that the subscription is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseType>,
    #[serde(default)]
    pub plan: Criteria,
    pub decides: T,
}

/// A rule about a change from one plan to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCase<T> {
    /// The phase that the subscription is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseType>,
    #[serde(default)]
    pub from: Criteria,
    #[serde(default)]
    pub to: Criteria,
    pub decides: T,
}

/// When a change or a cancellation takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Policy {
    Immediate,
    /// At the date that is charged through.
    EndOfTerm,
    /// At the date that the present period began.
    StartOfTerm,
    /// It is refused.
    Illegal,
}

/// From when on the phases of a plan count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Alignment {
    StartOfBundle,
    StartOfSubscription,
    ChangeOfPlan,
}

/// Whose bill cycle day a subscription has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BillingAlignment {
    Account,
    Bundle,
    Subscription,
}

/// The rules of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rules {
    pub change_policy: Vec<ChangeCase<Policy>>,
    pub change_alignment: Vec<ChangeCase<Alignment>>,
    pub cancel_policy: Vec<Case<Policy>>,
    pub create_alignment: Vec<Case<Alignment>>,
    pub billing_alignment: Vec<Case<BillingAlignment>>,
    /// The price list of a plan that is changed to without naming one.
    pub price_list: Vec<Case<String>>,
}

impl Rules {
    #[must_use]
    pub fn change_policy(&self, phase: PhaseType, from: Offered<'_>, to: Offered<'_>) -> Policy {
        of_change(&self.change_policy, phase, from, to).map_or(Policy::EndOfTerm, |it| *it)
    }

    #[must_use]
    pub fn change_alignment(
        &self,
        phase: PhaseType,
        from: Offered<'_>,
        to: Offered<'_>,
    ) -> Alignment {
        of_change(&self.change_alignment, phase, from, to)
            .map_or(Alignment::StartOfBundle, |it| *it)
    }

    #[must_use]
    pub fn cancel_policy(&self, phase: PhaseType, plan: Offered<'_>) -> Policy {
        of_plan(&self.cancel_policy, Some(phase), plan).map_or(Policy::EndOfTerm, |it| *it)
    }

    #[must_use]
    pub fn create_alignment(&self, plan: Offered<'_>) -> Alignment {
        of_plan(&self.create_alignment, None, plan).map_or(Alignment::StartOfBundle, |it| *it)
    }

    #[must_use]
    pub fn billing_alignment(&self, phase: PhaseType, plan: Offered<'_>) -> BillingAlignment {
        let found = of_plan(&self.billing_alignment, Some(phase), plan);
        found.map_or(BillingAlignment::Account, |it| *it)
    }

    /// The price list of the plan that a subscription of `from` is changed to.
    #[must_use]
    pub fn price_list<'a>(&'a self, from: Offered<'a>) -> &'a str {
        of_plan(&self.price_list, None, from).map_or(from.price_list, String::as_str)
    }
}

fn of_plan<'a, T>(
    cases: &'a [Case<T>],
    phase: Option<PhaseType>,
    plan: Offered<'_>,
) -> Option<&'a T> {
    let holds =
        |it: &&Case<T>| it.phase.is_none_or(|wanted| phase == Some(wanted)) && it.plan.hold(plan);
    cases.iter().find(holds).map(|it| &it.decides)
}

fn of_change<'a, T>(
    cases: &'a [ChangeCase<T>],
    phase: PhaseType,
    from: Offered<'_>,
    to: Offered<'_>,
) -> Option<&'a T> {
    let holds = |it: &&ChangeCase<T>| {
        it.phase.is_none_or(|wanted| phase == wanted) && it.from.hold(from) && it.to.hold(to)
    };
    cases.iter().find(holds).map(|it| &it.decides)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALPHA: Offered<'_> = Offered {
        product: "Alpha",
        category: ProductCategory::Base,
        period: BillingPeriod::Monthly,
        price_list: "DEFAULT",
    };
    const BETA: Offered<'_> = Offered { product: "Beta", ..ALPHA };

    fn product(name: &str) -> Criteria {
        Criteria { product: Some(name.to_owned()), ..Criteria::default() }
    }

    #[test]
    fn without_a_case_a_rule_has_its_default() {
        let (none, trial) = (Rules::default(), PhaseType::Trial);
        assert_eq!(none.change_policy(trial, ALPHA, BETA), Policy::EndOfTerm);
        assert_eq!(none.change_alignment(trial, ALPHA, BETA), Alignment::StartOfBundle);
        assert_eq!(none.cancel_policy(trial, ALPHA), Policy::EndOfTerm);
        assert_eq!(none.create_alignment(ALPHA), Alignment::StartOfBundle);
        assert_eq!(none.billing_alignment(trial, ALPHA), BillingAlignment::Account);
        assert_eq!(none.price_list(ALPHA), "DEFAULT");
    }

    #[test]
    fn the_first_case_whose_criteria_all_hold_decides() {
        let case = |phase, from, to, decides| ChangeCase { phase, from, to, decides };
        let any = Criteria::default;
        let rules = Rules {
            change_policy: vec![
                case(Some(PhaseType::Trial), any(), any(), Policy::Immediate),
                case(None, product("Alpha"), product("Beta"), Policy::Illegal),
                case(None, any(), any(), Policy::EndOfTerm),
                case(None, product("Beta"), any(), Policy::StartOfTerm),
            ],
            ..Rules::default()
        };
        let policy = |phase, from, to| rules.change_policy(phase, from, to);
        assert_eq!(policy(PhaseType::Trial, ALPHA, BETA), Policy::Immediate);
        assert_eq!(policy(PhaseType::Evergreen, ALPHA, BETA), Policy::Illegal);
        assert_eq!(policy(PhaseType::Evergreen, ALPHA, ALPHA), Policy::EndOfTerm);
        assert_eq!(policy(PhaseType::Evergreen, BETA, ALPHA), Policy::EndOfTerm);
    }

    #[test]
    fn each_criterion_must_hold() {
        let all = Criteria {
            product: Some("Alpha".to_owned()),
            category: Some(ProductCategory::Base),
            period: Some(BillingPeriod::Monthly),
            price_list: Some("DEFAULT".to_owned()),
        };
        assert!(all.hold(ALPHA));
        let others = [
            BETA,
            Offered { category: ProductCategory::AddOn, ..ALPHA },
            Offered { period: BillingPeriod::Annual, ..ALPHA },
            Offered { price_list: "PROMO", ..ALPHA },
        ];
        assert!(others.iter().all(|it| !all.hold(*it)));
    }
}
