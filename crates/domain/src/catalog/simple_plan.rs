//! Simple plans: a plan with one price a period, perhaps after a free trial, that is added to a version of a catalog.

use serde::{Deserialize, Serialize};

use super::period::BillingPeriod;
use super::price::Price;
use super::rules::{Alignment, BillingAlignment, Case, ChangeCase, Criteria, Policy, Rules};
use super::{
    BillingMode, Catalog, DEFAULT_PRICE_LIST, Duration, NoPrice, Phase, PhaseType, Plan, PriceList,
    Prices, Product, ProductCategory, Recurring,
};
use crate::{Currency, Timestamp};

/// The name of a catalog that simple plans make, as in Kill Bill.
const CATALOG_NAME: &str = "DEFAULT";

/// Adds a plan, or a price in another currency to a plan that is there. Where the catalog has the product and the plan
/// already, what is `None` is as there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SimplePlan {
    pub plan: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<ProductCategory>,
    pub currency: Currency,
    /// In each period; not below zero.
    pub price: Price,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<BillingPeriod>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// The base products beside which an add-on is sold. Of other products they mean nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub available_base_products: Vec<String>,
}

/// What is said about a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trial {
    None,
    For(Duration),
}

/// Why a simple plan cannot be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction(pub String);

fn contradiction<T>(reason: impl Into<String>) -> Result<T, Contradiction> {
    Err(Contradiction(reason.into()))
}

impl Catalog {
    /// A catalog without plans, for simple plans. Changes and cancellations take effect at once.
    #[must_use]
    pub fn of_simple_plans(effective_at: Timestamp) -> Self {
        let start = Alignment::StartOfBundle;
        let rules = Rules {
            change_policy: vec![of_change(Policy::Immediate)],
            change_alignment: vec![of_change(start)],
            cancel_policy: vec![of_plan(Policy::Immediate)],
            create_alignment: vec![of_plan(start)],
            billing_alignment: vec![of_plan(BillingAlignment::Account)],
            price_list: vec![],
        };
        let default = PriceList { name: DEFAULT_PRICE_LIST.to_owned(), plans: vec![] };
        let price_lists = vec![default];
        Self { name: CATALOG_NAME.to_owned(), effective_at, price_lists, rules, ..Self::default() }
    }

    /// Adds a simple plan with its product and its currency. What is there stays as it is, but for a price in another
    /// currency.
    ///
    /// # Errors
    /// [`Contradiction`]: it is incomplete, or says something else than what is there. Nothing is to be used of the
    /// catalog then.
    pub fn add(&mut self, it: &SimplePlan) -> Result<(), Contradiction> {
        let known = self.plans.iter().position(|plan| plan.name == it.plan);
        match known {
            Some(at) => agrees(&self.plans[at], it)?,
            None => self.add_plan(it)?,
        }
        let plan = known.unwrap_or_else(|| self.plans.len() - 1);
        let product = self.plans[plan].product.clone();
        self.check_category(&product, it)?;
        self.plans[plan].add_price(it)?;
        if !self.currencies.contains(&it.currency) {
            self.currencies.push(it.currency);
        }
        self.make_available(&product, it)
    }

    fn add_plan(&mut self, it: &SimplePlan) -> Result<(), Contradiction> {
        let Some(name) = &it.product else {
            return contradiction("productName: a new plan needs one");
        };
        let Some(period) = it.period else {
            return contradiction("billingPeriod: a new plan needs one");
        };
        if period == BillingPeriod::NoBillingPeriod {
            return contradiction("billingPeriod: NO_BILLING_PERIOD has no price");
        }
        if it.plan == *name {
            return contradiction("planId: it is the name of the product too");
        }
        if self.names().any(|known| known == it.plan) {
            return contradiction("planId: something else of the catalog has this name");
        }
        if self.product(name).is_none() {
            self.add_product(name, it)?;
        }
        let trial = match it.trial {
            Some(Trial::For(duration)) => Some(Phase {
                phase: PhaseType::Trial,
                duration: Some(duration),
                fixed: Some(Prices::Free),
                recurring: None,
                usages: vec![],
            }),
            Some(Trial::None) | None => None,
        };
        let last = Phase {
            phase: PhaseType::Evergreen,
            duration: None,
            fixed: None,
            recurring: Some(Recurring { period, prices: Prices::In(vec![]) }),
            usages: vec![],
        };
        self.plans.push(Plan {
            name: it.plan.clone(),
            pretty_name: None,
            effective_for_existing_at: None,
            product: name.clone(),
            mode: BillingMode::InAdvance,
            phases: trial.into_iter().chain([last]).collect(),
            allowed_in_bundle: None,
        });
        let default = self.price_lists.first_mut();
        default.expect("a catalog has a default price list").plans.push(it.plan.clone());
        Ok(())
    }

    fn add_product(&mut self, name: &str, it: &SimplePlan) -> Result<(), Contradiction> {
        let Some(category) = it.category else {
            return contradiction("productCategory: a new product needs one");
        };
        if self.names().any(|known| known == name) {
            return contradiction("productName: something else of the catalog has this name");
        }
        if category == ProductCategory::AddOn && it.available_base_products.is_empty() {
            return contradiction("availableBaseProducts: a new add-on needs one at least");
        }
        self.products.push(Product {
            name: name.to_owned(),
            pretty_name: None,
            category,
            included: vec![],
            available: vec![],
            limits: vec![],
        });
        Ok(())
    }

    /// All names but those of currencies: they are one space.
    fn names(&self) -> impl Iterator<Item = &str> {
        let phases = self.plans.iter().flat_map(|it| &it.phases);
        let usages = phases.flat_map(|it| &it.usages).map(|it| it.name.as_str());
        let products = self.products.iter().map(|it| it.name.as_str());
        let plans = self.plans.iter().map(|it| it.name.as_str());
        let lists = self.price_lists.iter().map(|it| it.name.as_str());
        let units = self.units.iter().map(|it| it.name.as_str());
        products.chain(plans).chain(lists).chain(units).chain(usages)
    }

    fn check_category(&self, product: &str, it: &SimplePlan) -> Result<(), Contradiction> {
        let known = self.product(product).map(|it| it.category);
        match known.filter(|known| it.category.is_some_and(|it| it != *known)) {
            Some(known) => contradiction(format!("productCategory: {product} is {}", known.name())),
            None => Ok(()),
        }
    }

    /// Sells an add-on beside base products.
    fn make_available(&mut self, add_on: &str, it: &SimplePlan) -> Result<(), Contradiction> {
        if self.product(add_on).map(|it| it.category) != Some(ProductCategory::AddOn) {
            return Ok(());
        }
        for name in &it.available_base_products {
            let is_it =
                |it: &&mut Product| it.name == *name && it.category == ProductCategory::Base;
            let Some(base) = self.products.iter_mut().find(is_it) else {
                return contradiction(format!(
                    "availableBaseProducts: there is no base product {name}"
                ));
            };
            if !base.available.iter().any(|known| known == add_on) {
                base.available.push(add_on.to_owned());
            }
        }
        Ok(())
    }
}

fn of_plan<T>(decides: T) -> Case<T> {
    Case { phase: None, plan: Criteria::default(), decides }
}

fn of_change<T>(decides: T) -> ChangeCase<T> {
    ChangeCase { phase: None, from: Criteria::default(), to: Criteria::default(), decides }
}

/// Compares a simple plan with the plan of its name.
fn agrees(known: &Plan, it: &SimplePlan) -> Result<(), Contradiction> {
    if it.product.as_ref().is_some_and(|it| *it != known.product) {
        return contradiction(format!("productName: the plan is of {}", known.product));
    }
    let (last, initial) = known.phases.split_last().expect("a plan has a last phase");
    let trial = match initial {
        [] => Trial::None,
        [
            Phase {
                phase: PhaseType::Trial,
                duration: Some(duration),
                fixed: Some(fixed),
                recurring: None,
                ..
            },
        ] if fixed.is_free() => Trial::For(*duration),
        _ => return contradiction("planId: the plan begins with something else than a free trial"),
    };
    if it.trial.is_some_and(|it| it != trial) {
        let shown = match trial {
            Trial::None => "no trial".to_owned(),
            Trial::For(Duration { unit, number }) => format!("a trial of {number} {}", unit.name()),
        };
        return contradiction(format!("trialLength: the plan has {shown}"));
    }
    if last.phase != PhaseType::Evergreen || last.recurring.is_none() {
        return contradiction("planId: the last phase of the plan is not EVERGREEN with a price");
    }
    if it.period.is_some_and(|it| it != known.period()) {
        return contradiction(format!("billingPeriod: the plan has {}", known.period().name()));
    }
    Ok(())
}

impl Plan {
    /// Adds the price of a simple plan, where it has none in its currency.
    fn add_price(&mut self, it: &SimplePlan) -> Result<(), Contradiction> {
        for phase in &mut self.phases {
            // A trial is free in every currency.
            let missing = |fixed: &&mut Prices| fixed.is_free() && fixed.of(it.currency).is_err();
            if let Some(fixed) = phase.fixed.as_mut().filter(missing) {
                *fixed = Prices::Free;
            }
        }
        let recurring = self.phases.last_mut().and_then(|it| it.recurring.as_mut());
        let Some(Recurring { prices, .. }) = recurring else { return Ok(()) };
        match (prices.of(it.currency), &mut *prices) {
            (Ok(price), _) if price == it.price => Ok(()),
            (Ok(price), _) => {
                contradiction(format!("amount: the plan costs {price} {}", it.currency.code()))
            }
            (Err(NoPrice::NotSold), _) => {
                contradiction(format!("currency: the plan is not sold in {}", it.currency.code()))
            }
            (Err(NoPrice::Missing), Prices::In(prices)) => {
                prices.push((it.currency, Some(it.price)));
                Ok(())
            }
            (Err(NoPrice::Missing), Prices::Free) => unreachable!("it has all currencies"),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::DurationUnit;
    use super::*;

    fn plan(name: &str, product: &str) -> SimplePlan {
        SimplePlan {
            plan: name.to_owned(),
            product: Some(product.to_owned()),
            category: Some(ProductCategory::Base),
            currency: Currency::parse("USD").unwrap(),
            price: Price::parse("20").unwrap(),
            period: Some(BillingPeriod::Monthly),
            trial: None,
            available_base_products: vec![],
        }
    }

    fn with_trial(number: u32) -> SimplePlan {
        let duration = Duration { unit: DurationUnit::Days, number };
        SimplePlan { trial: Some(Trial::For(duration)), ..plan("pro", "Pro") }
    }

    fn add_on(name: &str, bases: &[&str]) -> SimplePlan {
        SimplePlan {
            category: Some(ProductCategory::AddOn),
            available_base_products: bases.iter().map(|it| (*it).to_owned()).collect(),
            ..plan(name, "Extra")
        }
    }

    fn shown(it: &Catalog) -> String {
        let prices = |it: &Prices| match it {
            Prices::Free => "free".to_owned(),
            Prices::In(prices) => {
                let all =
                    prices.iter().map(|(it, price)| format!("{} {}", price.unwrap(), it.code()));
                all.collect::<Vec<_>>().join("+")
            }
        };
        let phase = |it: &Phase| {
            let recurring = it.recurring.as_ref().map(|it| &it.prices);
            format!("{} {}", it.phase.name(), prices(recurring.or(it.fixed.as_ref()).unwrap()))
        };
        let plans = it.plans.iter().map(|it| {
            let phases: Vec<_> = it.phases.iter().map(phase).collect();
            format!("{} of {}: {}", it.name, it.product, phases.join(", "))
        });
        let products = it.products.iter().map(|it| format!("{} {:?}", it.name, it.available));
        plans.chain(products).collect::<Vec<_>>().join("\n")
    }

    /// Adds all, and shows the catalog, or why the last one is refused.
    fn check(all: &[SimplePlan], expected: Expect) {
        let mut catalog = Catalog::of_simple_plans(Timestamp(0));
        let (last, before) = all.split_last().unwrap();
        before.iter().for_each(|it| catalog.add(it).unwrap());
        let added = catalog.add(last).map(|()| shown(&catalog));
        expected.assert_eq(&added.unwrap_or_else(|Contradiction(it)| it));
    }

    #[test]
    fn a_plan_is_added_with_its_product() {
        check(
            &[plan("pro", "Pro")],
            expect![[r#"
            pro of Pro: EVERGREEN 20 USD
            Pro []"#]],
        );
        check(
            &[with_trial(10)],
            expect![[r#"
            pro of Pro: TRIAL free, EVERGREEN 20 USD
            Pro []"#]],
        );
        check(
            &[plan("pro", "Pro"), plan("pro-2", "Pro"), add_on("extra", &["Pro"])],
            expect![[r#"
            pro of Pro: EVERGREEN 20 USD
            pro-2 of Pro: EVERGREEN 20 USD
            extra of Extra: EVERGREEN 20 USD
            Pro ["Extra"]
            Extra []"#]],
        );
        let again = add_on("extra", &["Pro", "Best"]);
        check(
            &[plan("pro", "Pro"), add_on("extra", &["Pro"]), plan("best", "Best"), again],
            expect![[r#"
                pro of Pro: EVERGREEN 20 USD
                extra of Extra: EVERGREEN 20 USD
                best of Best: EVERGREEN 20 USD
                Pro ["Extra"]
                Extra []
                Best ["Extra"]"#]],
        );
    }

    #[test]
    fn a_plan_gets_a_price_in_another_currency() {
        let euro = SimplePlan {
            product: None,
            category: None,
            period: None,
            currency: Currency::parse("EUR").unwrap(),
            price: Price::parse("18.5").unwrap(),
            ..plan("pro", "")
        };
        check(
            &[with_trial(10), euro.clone(), euro],
            expect![[r#"
            pro of Pro: TRIAL free, EVERGREEN 20 USD+18.5 EUR
            Pro []"#]],
        );
    }

    #[test]
    fn what_contradicts_the_catalog_is_refused_by_its_field() {
        let pro = || plan("pro", "Pro");
        let refused = |it: SimplePlan, expected| check(&[with_trial(10), it], expected);
        refused(
            SimplePlan { price: Price::parse("21").unwrap(), ..pro() },
            expect!["amount: the plan costs 20 USD"],
        );
        refused(
            SimplePlan { period: Some(BillingPeriod::Annual), ..pro() },
            expect!["billingPeriod: the plan has MONTHLY"],
        );
        refused(
            SimplePlan { product: Some("Best".to_owned()), ..pro() },
            expect!["productName: the plan is of Pro"],
        );
        refused(
            SimplePlan { category: Some(ProductCategory::Standalone), ..pro() },
            expect!["productCategory: Pro is BASE"],
        );
        refused(
            SimplePlan { trial: Some(Trial::None), ..pro() },
            expect!["trialLength: the plan has a trial of 10 DAYS"],
        );
        refused(with_trial(11), expect!["trialLength: the plan has a trial of 10 DAYS"]);
        refused(plan("Pro", "Pro"), expect!["planId: it is the name of the product too"]);
        refused(plan("best", "best"), expect!["planId: it is the name of the product too"]);
        refused(
            plan("DEFAULT", "Best"),
            expect!["planId: something else of the catalog has this name"],
        );
        refused(
            plan("best", "pro"),
            expect!["productName: something else of the catalog has this name"],
        );
        refused(
            SimplePlan { product: None, ..plan("best", "") },
            expect!["productName: a new plan needs one"],
        );
        refused(
            SimplePlan { category: None, ..plan("best", "Best") },
            expect!["productCategory: a new product needs one"],
        );
        refused(
            SimplePlan { period: None, ..plan("best", "Best") },
            expect!["billingPeriod: a new plan needs one"],
        );
        let never = Some(BillingPeriod::NoBillingPeriod);
        refused(
            SimplePlan { period: never, ..plan("best", "Best") },
            expect!["billingPeriod: NO_BILLING_PERIOD has no price"],
        );
        refused(
            add_on("extra", &[]),
            expect!["availableBaseProducts: a new add-on needs one at least"],
        );
        refused(
            add_on("extra", &["Best"]),
            expect!["availableBaseProducts: there is no base product Best"],
        );
    }
}
