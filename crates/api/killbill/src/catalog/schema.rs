//! The elements of a catalog, in the order in which Kill Bill's schema has them, as a version of the domain.
//!
//! All mistakes are collected; objections, which Kill Bill has to what its schema allows, count where there is none. Their
//! texts are Kill Bill's. Names are one space: products, plans, price lists, units and usages differ in them.

use super::reading::{Mistake, Reading, Sequence, all, java_date};
use super::rules::rules;
use crate::xml::Element;
use domain::catalog::period::BillingPeriod;
use domain::catalog::price::Price;
use domain::catalog::usage::{Block, Limit, Tier, TierPolicy, Usage, UsageType};
use domain::catalog::{
    BillingMode, Catalog, DEFAULT_PRICE_LIST, Duration, DurationUnit, Phase, PhaseType, Plan,
    PriceList, Prices, Product, Recurring, Unit,
};

fn names(reading: &mut Reading, of: Option<&Element>, name: &str) -> Vec<String> {
    let found = of.map(|it| all(reading, it, name)).unwrap_or_default();
    found.into_iter().map(|it| reading.reference(it)).collect()
}

/// Reads a version.
///
/// # Errors
/// Its mistakes, at least one.
pub(super) fn read(root: &Element) -> Result<Catalog, Vec<Mistake>> {
    let mut reading = Reading::default();
    let catalog = catalog(&mut reading, root);
    let mistakes = reading.into_mistakes();
    catalog.filter(|_| mistakes.is_empty()).ok_or(mistakes)
}

fn catalog(reading: &mut Reading, root: &Element) -> Option<Catalog> {
    if root.name != "catalog" {
        reading.mistake(root, "should be catalog");
        return None;
    }
    let mut parts = Sequence::of(root);
    let effective_at = parts.required(reading, "effectiveDate").and_then(|it| reading.instant(it));
    reading.effective_at = effective_at.unwrap_or_default();
    let name = parts.required(reading, "catalogName").map(|it| it.text.clone());
    let mode = parts.required(reading, "recurringBillingMode").and_then(|it| mode(reading, it));
    let currencies = parts.required(reading, "currencies");
    let units = parts.optional("units");
    let products = parts.required(reading, "products");
    let rules = parts.required(reading, "rules").map(|it| rules(reading, it));
    let plans = parts.required(reading, "plans");
    let price_lists = parts.required(reading, "priceLists");
    parts.end(reading);
    let currencies = list(reading, currencies, "currency", |reading, it| reading.currency(it));
    let units = list(reading, units, "unit", |reading, it| {
        Some(Unit { name: reading.name(it), pretty_name: pretty_name(it) })
    });
    let products = list(reading, products, "product", product);
    let mode = mode.unwrap_or(BillingMode::InAdvance);
    let plans = list(reading, plans, "plan", |reading, it| plan(reading, it, mode));
    let price_lists = price_lists.map(|it| self::price_lists(reading, it)).unwrap_or_default();
    Some(Catalog {
        name: name?,
        effective_at: effective_at?,
        currencies,
        units,
        products,
        plans,
        price_lists,
        rules: rules?,
    })
}

/// Reads each element of a list.
fn list<T>(
    reading: &mut Reading,
    of: Option<&Element>,
    name: &str,
    read: impl Fn(&mut Reading, &Element) -> Option<T>,
) -> Vec<T> {
    let found = of.map(|it| all(reading, it, name)).unwrap_or_default();
    found.into_iter().filter_map(|it| read(reading, it)).collect()
}

fn pretty_name(it: &Element) -> Option<String> {
    it.attribute("prettyName").map(str::to_owned)
}

fn mode(reading: &mut Reading, it: &Element) -> Option<BillingMode> {
    let modes = [("IN_ADVANCE", BillingMode::InAdvance), ("IN_ARREAR", BillingMode::InArrear)];
    reading.word(it, &modes)
}

fn product(reading: &mut Reading, it: &Element) -> Option<Product> {
    let mut parts = Sequence::of(it);
    let name = reading.name(it);
    let category = parts.required(reading, "category").and_then(|it| reading.category(it));
    let included = names(reading, parts.optional("included"), "addonProduct");
    let available = names(reading, parts.optional("available"), "addonProduct");
    let limits = list(reading, parts.optional("limits"), "limit", limit);
    parts.end(reading);
    for (section, addons) in [("included", &included), ("available", &available)] {
        if addons.contains(&name) {
            reading.objection(it, format!("Product refers to itself in {section} section"));
        }
    }
    let pretty_name = pretty_name(it);
    Some(Product { name, pretty_name, category: category?, included, available, limits })
}

fn limit(reading: &mut Reading, it: &Element) -> Option<Limit> {
    let mut parts = Sequence::of(it);
    let unit = parts.required(reading, "unit").map(|it| reading.reference(it));
    let max = parts.optional("max").and_then(|it| reading.number(it));
    let min = parts.optional("min").and_then(|it| reading.number(it));
    parts.end(reading);
    if max.zip(min).is_some_and(|(max, min)| max < min) {
        reading.objection(it, "max must be greater than min");
    }
    Some(Limit { unit: unit?, max, min })
}

fn plan(reading: &mut Reading, it: &Element, default: BillingMode) -> Option<Plan> {
    let mut parts = Sequence::of(it);
    let name = reading.name(it);
    let from = parts.optional("effectiveDateForExistingSubscriptions");
    let product = parts.required(reading, "product").map(|it| reading.reference(it));
    let mode = parts.optional("recurringBillingMode").and_then(|it| mode(reading, it));
    let initial = parts.optional("initialPhases");
    let mut phases =
        list(reading, initial, "phase", |reading, it| phase(reading, it, Place::Initial(&name)));
    let last = parts.required(reading, "finalPhase");
    phases.extend(last.and_then(|it| phase(reading, it, Place::Final(&name))));
    let allowed = parts.optional("plansAllowedInBundle").and_then(|it| reading.integer(it));
    parts.end(reading);
    let from = from.and_then(|it| Some((it, reading.instant(it)?)));
    if let Some((at, from)) = from.filter(|(_, from)| *from < reading.effective_at) {
        let (from, version) = (java_date(from), java_date(reading.effective_at));
        let text =
            format!("Price effective date {from} is before catalog effective date '{version}'");
        reading.objection(at, text);
    }
    Some(Plan {
        pretty_name: pretty_name(it),
        effective_for_existing_at: from.map(|(_, from)| from),
        product: product?,
        mode: mode.unwrap_or(default),
        phases,
        // Kill Bill writes -1 for no limit.
        allowed_in_bundle: allowed.and_then(|it| u32::try_from(it).ok()),
        name,
    })
}

/// Where a phase is, of which plan.
#[derive(Clone, Copy)]
enum Place<'a> {
    Initial(&'a str),
    Final(&'a str),
}

fn phase(reading: &mut Reading, it: &Element, place: Place<'_>) -> Option<Phase> {
    let found = PhaseType::ALL.into_iter().find(|one| Some(one.name()) == it.attribute("type"));
    let Some(phase) = found else {
        let all = PhaseType::ALL.map(PhaseType::name).join(", ");
        reading.mistake(it, format!("type should be one of {all}"));
        return None;
    };
    let (Place::Initial(plan) | Place::Final(plan)) = place;
    let of_plan = format!("{} of plan {plan}", phase.of_plan(plan));
    let type_of_plan = format!("{} of plan {plan}", phase.name());
    match (place, phase) {
        (Place::Initial(_), PhaseType::Evergreen) => {
            reading.objection(it, format!("Initial Phase {of_plan} cannot be of type EVERGREEN"));
        }
        (Place::Final(_), PhaseType::Trial | PhaseType::Discount) => {
            let text = format!("Final Phase {of_plan} cannot be of type {}", phase.name());
            reading.objection(it, text);
        }
        (
            Place::Initial(_) | Place::Final(_),
            PhaseType::Trial | PhaseType::Discount | PhaseType::FixedTerm | PhaseType::Evergreen,
        ) => {}
    }
    let mut parts = Sequence::of(it);
    let duration = parts.required(reading, "duration").and_then(|it| duration(reading, it));
    let fixed = parts.optional("fixed").map(|it| {
        let mut parts = Sequence::of(it);
        let prices = parts.optional("fixedPrice").map(|it| prices(reading, it));
        parts.end(reading);
        prices.unwrap_or(Prices::Free)
    });
    let recurring = parts.optional("recurring").map(|it| recurring(reading, it, &type_of_plan));
    let usages = list(reading, parts.optional("usages"), "usage", usage);
    parts.end(reading);
    if phase == PhaseType::Evergreen && matches!(duration, Some(Some(_))) {
        let (name, version) = (phase.of_plan(plan), java_date(reading.effective_at));
        let text = format!(
            "EVERGREEN Phase '{name}' for plan '{plan}' in version '{version}' must have duration as UNLIMITED'"
        );
        reading.objection(it, text);
    }
    if fixed.is_none() && recurring.is_none() && usages.is_empty() {
        let text = format!(
            "Phase {type_of_plan} need to define at least either a fixed or recurrring or usage section."
        );
        reading.objection(it, text);
    }
    Some(Phase { phase, duration: duration?, fixed, recurring: recurring.flatten(), usages })
}

/// The length of a phase; `Some(None)`: it does not end.
fn duration(reading: &mut Reading, it: &Element) -> Option<Option<Duration>> {
    let mut parts = Sequence::of(it);
    let units = [
        ("DAYS", Some(DurationUnit::Days)),
        ("WEEKS", Some(DurationUnit::Weeks)),
        ("MONTHS", Some(DurationUnit::Months)),
        ("YEARS", Some(DurationUnit::Years)),
        ("UNLIMITED", None),
    ];
    let unit = parts.required(reading, "unit").and_then(|it| reading.word(it, &units));
    let number = parts.optional("number").and_then(|it| reading.integer(it));
    parts.end(reading);
    let length = number.and_then(|it| u32::try_from(it).ok()).filter(|it| *it > 0);
    match unit? {
        None if number.is_some() => {
            let text = "Duration can only have 'UNLIMITED' unit if the number is omitted";
            reading.objection(it, text);
            Some(None)
        }
        None => Some(None),
        Some(unit) => {
            if length.is_none() {
                reading.objection(it, "Finite Duration must have a well defined length");
            }
            Some(Some(Duration { unit, number: length.unwrap_or_default() }))
        }
    }
}

/// A recurring section; `None`: it charges nothing.
fn recurring(reading: &mut Reading, it: &Element, of: &str) -> Option<Recurring> {
    let mut parts = Sequence::of(it);
    let period = parts.required(reading, "billingPeriod").and_then(|it| reading.period(it));
    let prices = parts.optional("recurringPrice").map(|it| prices(reading, it));
    parts.end(reading);
    let has_period = period? != BillingPeriod::NoBillingPeriod;
    if has_period && prices.is_none() {
        let text = format!(
            "Recurring section of Phase {of} has no recurring price but does have a billing period. \
             The billing period should be set to 'NO_BILLING_PERIOD'"
        );
        reading.objection(it, text);
    }
    if !has_period && prices.is_some() {
        let text =
            format!("Recurring section of Phase {of} has a recurring price but no billing period");
        reading.objection(it, text);
    }
    Some(Recurring { period: period?, prices: prices? })
}

fn prices(reading: &mut Reading, of: &Element) -> Prices {
    let found = list(reading, Some(of), "price", |reading, it| {
        let mut parts = Sequence::of(it);
        let currency = parts.required(reading, "currency").and_then(|it| reading.currency(it));
        let value = parts.required(reading, "value")?;
        parts.end(reading);
        let is_nil = value.attribute("nil").is_some_and(|it| matches!(it, "true" | "1"));
        let price = if is_nil { None } else { Some(reading.number(value)?) };
        if let Some(currency) = currency.filter(|_| price.is_some_and(Price::is_negative)) {
            reading.objection(value, format!("Negative value for price in currency: {currency}"));
        }
        Some((currency?, price))
    });
    if found.is_empty() { Prices::Free } else { Prices::In(found) }
}

fn usage(reading: &mut Reading, it: &Element) -> Option<Usage> {
    let of_attribute = |name: &str| it.attribute(name).unwrap_or_default().to_owned();
    let (mode, counts) = (of_attribute("billingMode"), of_attribute("usageType"));
    let policy = of_attribute("tierBlockPolicy");
    let name = reading.name(it);
    let mut parts = Sequence::of(it);
    let period = parts.required(reading, "billingPeriod").and_then(|it| reading.period(it));
    let limits = list(reading, parts.optional("limits"), "limit", limit);
    let blocks = list(reading, parts.optional("blocks"), "block", block);
    let tiers = list(reading, parts.optional("tiers"), "tier", tier);
    let fixed = parts.optional("fixedPrice").map(|it| prices(reading, it));
    let recurring = parts.optional("recurringPrice").map(|it| prices(reading, it));
    parts.end(reading);
    let mode = match mode.as_str() {
        "IN_ADVANCE" => Some(BillingMode::InAdvance),
        "IN_ARREAR" => Some(BillingMode::InArrear),
        _ => None,
    };
    let counts = match counts.as_str() {
        "CAPACITY" => Some(UsageType::Capacity),
        "CONSUMABLE" => Some(UsageType::Consumable),
        _ => None,
    };
    let tier_policy = match policy.as_str() {
        "" | "ALL_TIERS" => Some(TierPolicy::AllTiers),
        "TOP_TIER" => Some(TierPolicy::TopTier),
        _ => None,
    };
    if mode.is_none() || counts.is_none() || tier_policy.is_none() {
        reading.mistake(it, "has a billingMode, usageType or tierBlockPolicy that there is not");
    }
    let (is_capacity, has_blocks) = (counts == Some(UsageType::Capacity), !blocks.is_empty());
    match mode {
        Some(BillingMode::InAdvance) if is_capacity && limits.is_empty() => {
            let text = format!(
                "Usage [IN_ADVANCE CAPACITY] section of {name} needs to define some limits"
            );
            reading.objection(it, text);
        }
        Some(BillingMode::InAdvance) if !is_capacity && !has_blocks => {
            let text = format!(
                "Usage [IN_ADVANCE CONSUMABLE] section of {name} needs to define some blocks"
            );
            reading.objection(it, text);
        }
        Some(BillingMode::InArrear) if tiers.is_empty() => {
            reading.objection(
                it,
                format!("Usage [IN_ARREAR] section of {name} needs to define some tiers"),
            );
        }
        Some(BillingMode::InAdvance | BillingMode::InArrear) | None => {}
    }
    Some(Usage {
        name,
        pretty_name: pretty_name(it),
        mode: mode?,
        counts: counts?,
        tier_policy: tier_policy?,
        period: period?,
        limits,
        blocks,
        tiers,
        fixed,
        recurring,
    })
}

fn block(reading: &mut Reading, it: &Element) -> Option<Block> {
    let mut parts = Sequence::of(it);
    let unit = parts.required(reading, "unit").map(|it| reading.reference(it));
    let size = parts.required(reading, "size").and_then(|it| reading.number(it));
    let prices = parts.required(reading, "prices").map(|it| prices(reading, it));
    let max = ["max", "minTopUpCredit"].into_iter().find_map(|name| parts.optional(name));
    let max = max.and_then(|it| reading.number(it));
    parts.end(reading);
    Some(Block { unit: unit?, size: size?, prices: prices?, max })
}

fn tier(reading: &mut Reading, it: &Element) -> Option<Tier> {
    let mut parts = Sequence::of(it);
    let limits = list(reading, parts.optional("limits"), "limit", limit);
    let blocks = list(reading, parts.optional("blocks"), "tieredBlock", block);
    let fixed = parts.optional("fixedPrice").map(|it| prices(reading, it));
    let recurring = parts.optional("recurringPrice").map(|it| prices(reading, it));
    parts.end(reading);
    Some(Tier { limits, blocks, fixed, recurring })
}

fn price_lists(reading: &mut Reading, of: &Element) -> Vec<PriceList> {
    let mut parts = Sequence::of(of);
    let default = parts.required(reading, "defaultPriceList");
    let children = parts.many("childPriceList");
    parts.end(reading);
    for child in children.iter().filter(|it| it.attribute("name") == Some(DEFAULT_PRICE_LIST)) {
        reading.objection(child, "Pricelists cannot use the reserved name 'DEFAULT'");
    }
    let all = default.into_iter().chain(children);
    all.map(|it| {
        let name = reading.name(it);
        let mut parts = Sequence::of(it);
        let plans = names(reading, parts.optional("plans"), "plan");
        parts.end(reading);
        PriceList { name, plans }
    })
    .collect()
}
