//! Writes a version of the catalog as XML that an upload takes, and that reads as the same version.

use std::fmt::Write;

use domain::Timestamp;
use domain::catalog::rules::{
    Alignment, BillingAlignment, Case, ChangeCase, Criteria, Policy, Rules,
};
use domain::catalog::usage::{Block, Limit, Tier, TierPolicy, Usage, UsageType};
use domain::catalog::{
    BillingMode, Catalog, Duration, Phase, PhaseType, Plan, PriceList, Prices, Product, Unit,
};

use super::rules::{BILLING_ALIGNMENTS, CHANGE_ALIGNMENTS, POLICIES};

/// The root, with the prefix of `xsi:nil`.
const ROOT: &str = "catalog xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"";

/// The XML of a version, one element on each line.
pub(super) fn xml(it: &Catalog) -> String {
    let mut xml = Xml { text: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned(), depth: 0 };
    xml.within(ROOT, |xml| {
        xml.leaf("effectiveDate", &instant(it.effective_at));
        xml.leaf("catalogName", &it.name);
        // Each plan of the other mode has its own.
        xml.leaf("recurringBillingMode", "IN_ADVANCE");
        xml.list("currencies", &it.currencies, |xml, it| xml.leaf("currency", it.code()));
        xml.section("units", &it.units, unit);
        xml.list("products", &it.products, product);
        xml.within("rules", |xml| rules(xml, &it.rules));
        xml.list("plans", &it.plans, plan);
        xml.within("priceLists", |xml| price_lists(xml, &it.price_lists));
    });
    xml.text
}

/// A document on its way.
struct Xml {
    text: String,
    depth: usize,
}

impl Xml {
    fn line(&mut self, line: &str) {
        let indent = 2 * self.depth;
        writeln!(self.text, "{:indent$}{line}", "").expect("a string takes all");
    }

    /// An element with a text.
    fn leaf(&mut self, name: &str, text: &str) {
        self.line(&format!("<{name}>{}</{name}>", escaped(text)));
    }

    /// An element, perhaps with attributes behind its name, with what is written within it.
    fn within(&mut self, start: &str, write: impl FnOnce(&mut Self)) {
        let name = start.split(' ').next().unwrap_or(start);
        self.line(&format!("<{start}>"));
        self.depth += 1;
        write(self);
        self.depth -= 1;
        self.line(&format!("</{name}>"));
    }

    /// An element with all of a list.
    fn list<T>(&mut self, name: &str, all: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.within(name, |xml| all.iter().for_each(|it| write(xml, it)));
    }

    /// The same, and nothing where the list is empty.
    fn section<T>(&mut self, name: &str, all: &[T], write: impl FnMut(&mut Self, &T)) {
        if !all.is_empty() {
            self.list(name, all, write);
        }
    }
}

/// A text without what has a meaning in XML. Line ends within an attribute are kept.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\r' | '\t' => {
                write!(escaped, "&#{};", u32::from(letter)).expect("a string takes all");
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// The start of an element that has a name.
fn named(element: &str, name: &str, pretty_name: Option<&String>) -> String {
    let pretty = pretty_name.map(|it| format!(" prettyName=\"{}\"", escaped(it)));
    format!("{element} name=\"{}\"{}", escaped(name), pretty.unwrap_or_default())
}

fn instant(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).unwrap_or_default().to_string()
}

fn unit(xml: &mut Xml, it: &Unit) {
    xml.line(&format!("<{}/>", named("unit", &it.name, it.pretty_name.as_ref())));
}

fn product(xml: &mut Xml, it: &Product) {
    xml.within(&named("product", &it.name, it.pretty_name.as_ref()), |xml| {
        xml.leaf("category", it.category.name());
        xml.section("included", &it.included, |xml, it| xml.leaf("addonProduct", it));
        xml.section("available", &it.available, |xml, it| xml.leaf("addonProduct", it));
        xml.section("limits", &it.limits, limit);
    });
}

fn limit(xml: &mut Xml, it: &Limit) {
    xml.within("limit", |xml| {
        xml.leaf("unit", &it.unit);
        for (name, number) in [("max", it.max), ("min", it.min)] {
            number.iter().for_each(|it| xml.leaf(name, &it.to_string()));
        }
    });
}

fn plan(xml: &mut Xml, it: &Plan) {
    xml.within(&named("plan", &it.name, it.pretty_name.as_ref()), |xml| {
        if let Some(from) = it.effective_for_existing_at {
            xml.leaf("effectiveDateForExistingSubscriptions", &instant(from));
        }
        xml.leaf("product", &it.product);
        match it.mode {
            BillingMode::InAdvance => {}
            BillingMode::InArrear => xml.leaf("recurringBillingMode", mode(it.mode)),
        }
        let Some((last, initial)) = it.phases.split_last() else { return };
        xml.section("initialPhases", initial, |xml, it| phase(xml, "phase", it));
        phase(xml, "finalPhase", last);
        if let Some(allowed) = it.allowed_in_bundle {
            xml.leaf("plansAllowedInBundle", &allowed.to_string());
        }
    });
}

const fn mode(it: BillingMode) -> &'static str {
    match it {
        BillingMode::InAdvance => "IN_ADVANCE",
        BillingMode::InArrear => "IN_ARREAR",
    }
}

fn phase(xml: &mut Xml, element: &str, it: &Phase) {
    xml.within(&format!("{element} type=\"{}\"", it.phase.name()), |xml| {
        xml.within("duration", |xml| match it.duration {
            Some(Duration { unit, number }) => {
                xml.leaf("unit", unit.name());
                xml.leaf("number", &number.to_string());
            }
            None => xml.leaf("unit", "UNLIMITED"),
        });
        if let Some(fixed) = &it.fixed {
            xml.within("fixed", |xml| prices(xml, "fixedPrice", fixed));
        }
        if let Some(recurring) = &it.recurring {
            xml.within("recurring", |xml| {
                xml.leaf("billingPeriod", recurring.period.name());
                prices(xml, "recurringPrice", &recurring.prices);
            });
        } else if it.fixed.is_none() && it.usages.is_empty() {
            // A phase has one section at least.
            xml.within("recurring", |xml| xml.leaf("billingPeriod", "NO_BILLING_PERIOD"));
        }
        xml.section("usages", &it.usages, usage);
    });
}

fn prices(xml: &mut Xml, element: &str, it: &Prices) {
    let prices = match it {
        Prices::Free => &[][..],
        Prices::In(prices) => prices,
    };
    xml.list(element, prices, |xml, (currency, price)| {
        xml.within("price", |xml| {
            xml.leaf("currency", currency.code());
            match price {
                Some(price) => xml.leaf("value", &price.to_string()),
                None => xml.line("<value xsi:nil=\"true\"/>"),
            }
        });
    });
}

fn optional_prices(xml: &mut Xml, fixed: Option<&Prices>, recurring: Option<&Prices>) {
    for (element, found) in [("fixedPrice", fixed), ("recurringPrice", recurring)] {
        found.iter().for_each(|it| prices(xml, element, it));
    }
}

fn usage(xml: &mut Xml, it: &Usage) {
    let counts = match it.counts {
        UsageType::Capacity => "CAPACITY",
        UsageType::Consumable => "CONSUMABLE",
    };
    let policy = match it.tier_policy {
        TierPolicy::AllTiers => "ALL_TIERS",
        TierPolicy::TopTier => "TOP_TIER",
    };
    let named = named("usage", &it.name, it.pretty_name.as_ref());
    let mode = mode(it.mode);
    let start = format!(
        "{named} billingMode=\"{mode}\" usageType=\"{counts}\" tierBlockPolicy=\"{policy}\""
    );
    xml.within(&start, |xml| {
        xml.leaf("billingPeriod", it.period.name());
        xml.section("limits", &it.limits, limit);
        xml.section("blocks", &it.blocks, |xml, it| {
            // Only what is bought again has such a bound.
            let kind = if it.max.is_some() { "block type=\"TOP_UP\"" } else { "block" };
            block(xml, (kind, "minTopUpCredit"), it);
        });
        xml.section("tiers", &it.tiers, tier);
        optional_prices(xml, it.fixed.as_ref(), it.recurring.as_ref());
    });
}

fn tier(xml: &mut Xml, it: &Tier) {
    xml.within("tier", |xml| {
        xml.section("limits", &it.limits, limit);
        xml.section("blocks", &it.blocks, |xml, it| block(xml, ("tieredBlock", "max"), it));
        optional_prices(xml, it.fixed.as_ref(), it.recurring.as_ref());
    });
}

fn block(xml: &mut Xml, (element, bound): (&str, &str), it: &Block) {
    xml.within(element, |xml| {
        xml.leaf("unit", &it.unit);
        xml.leaf("size", &it.size.to_string());
        prices(xml, "prices", &it.prices);
        it.max.iter().for_each(|it| xml.leaf(bound, &it.to_string()));
    });
}

fn price_lists(xml: &mut Xml, all: &[PriceList]) {
    for (at, list) in all.iter().enumerate() {
        let element = if at == 0 { "defaultPriceList" } else { "childPriceList" };
        xml.within(&named(element, &list.name, None), |xml| {
            xml.list("plans", &list.plans, |xml, it| xml.leaf("plan", it));
        });
    }
}

fn rules(xml: &mut Xml, it: &Rules) {
    let policy = |xml: &mut Xml, it: Policy| xml.leaf("policy", word(&POLICIES, it));
    let alignment = |xml: &mut Xml, it: Alignment| {
        xml.leaf("alignment", word(&CHANGE_ALIGNMENTS, it));
    };
    let billing = |xml: &mut Xml, it: BillingAlignment| {
        xml.leaf("alignment", word(&BILLING_ALIGNMENTS, it));
    };
    xml.section("changePolicy", &it.change_policy, |xml, it| {
        change(xml, "changePolicyCase", it, policy);
    });
    xml.section("changeAlignment", &it.change_alignment, |xml, it| {
        change(xml, "changeAlignmentCase", it, alignment);
    });
    xml.section("cancelPolicy", &it.cancel_policy, |xml, it| {
        of_plan(xml, "cancelPolicyCase", it, policy);
    });
    xml.section("createAlignment", &it.create_alignment, |xml, it| {
        of_plan(xml, "createAlignmentCase", it, alignment);
    });
    xml.section("billingAlignment", &it.billing_alignment, |xml, it| {
        of_plan(xml, "billingAlignmentCase", it, billing);
    });
    xml.section("priceList", &it.price_list, |xml, it| {
        xml.within("priceListCase", |xml| {
            criteria(xml, "from", &it.plan);
            xml.leaf("toPriceList", &it.decides);
        });
    });
}

/// The word of a decision.
fn word<T: PartialEq>(words: &'static [(&str, T)], it: T) -> &'static str {
    let found = words.iter().find(|(_, known)| *known == it);
    found.map(|(word, _)| *word).expect("every decision has a word")
}

fn change<T: Copy>(xml: &mut Xml, case: &str, it: &ChangeCase<T>, decides: impl Fn(&mut Xml, T)) {
    xml.within(case, |xml| {
        phase_type(xml, it.phase);
        criteria(xml, "from", &it.from);
        criteria(xml, "to", &it.to);
        decides(xml, it.decides);
    });
}

fn of_plan<T: Copy>(xml: &mut Xml, case: &str, it: &Case<T>, decides: impl Fn(&mut Xml, T)) {
    xml.within(case, |xml| {
        phase_type(xml, it.phase);
        criteria(xml, "", &it.plan);
        decides(xml, it.decides);
    });
}

fn phase_type(xml: &mut Xml, it: Option<PhaseType>) {
    it.iter().for_each(|it| xml.leaf("phaseType", it.name()));
}

/// The criteria, in elements whose names begin with a word.
fn criteria(xml: &mut Xml, prefix: &str, it: &Criteria) {
    let parts = [
        ("Product", it.product.as_deref()),
        ("ProductCategory", it.category.map(|it| it.name())),
        ("BillingPeriod", it.period.map(|it| it.name())),
        ("PriceList", it.price_list.as_deref()),
    ];
    for (name, value) in parts {
        let Some(value) = value else { continue };
        xml.leaf(&super::rules::criterion(prefix, name), value);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use domain::Currency;
    use domain::catalog::period::BillingPeriod;
    use domain::catalog::price::Price;
    use domain::catalog::simple_plan::{SimplePlan, Trial};
    use domain::catalog::{DurationUnit, ProductCategory};
    use expect_test::expect;

    use super::super::compiled;
    use super::*;

    /// Writes a version and reads it again.
    fn check(it: &Catalog) -> String {
        let text = xml(it);
        let again = compiled(&text);
        assert_eq!(again.as_ref().ok(), Some(it), "{text}\n{:?}", again.as_ref().err());
        text
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "the whole document")]
    fn a_catalog_of_simple_plans_reads_as_it_was_written() {
        let mut catalog = Catalog::of_simple_plans(Timestamp(1_767_225_600_123_000));
        check(&catalog);
        let trial = Duration { unit: DurationUnit::Days, number: 10 };
        let base = SimplePlan {
            plan: "pro".to_owned(),
            product: Some("Pro".to_owned()),
            category: Some(ProductCategory::Base),
            currency: Currency::parse("USD").unwrap(),
            price: Price::parse("29.95").unwrap(),
            period: Some(BillingPeriod::Monthly),
            trial: Some(Trial::For(trial)),
            available_base_products: vec![],
        };
        let add_on = SimplePlan {
            plan: "extra".to_owned(),
            product: Some("Extra".to_owned()),
            category: Some(ProductCategory::AddOn),
            currency: Currency::parse("EUR").unwrap(),
            trial: None,
            available_base_products: vec!["Pro".to_owned()],
            ..base.clone()
        };
        [&base, &add_on].into_iter().for_each(|it| catalog.add(it).unwrap());
        expect![[r#"
            <?xml version="1.0" encoding="UTF-8"?>
            <catalog xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
              <effectiveDate>2026-01-01T00:00:00.123Z</effectiveDate>
              <catalogName>DEFAULT</catalogName>
              <recurringBillingMode>IN_ADVANCE</recurringBillingMode>
              <currencies>
                <currency>USD</currency>
                <currency>EUR</currency>
              </currencies>
              <products>
                <product name="Pro">
                  <category>BASE</category>
                  <available>
                    <addonProduct>Extra</addonProduct>
                  </available>
                </product>
                <product name="Extra">
                  <category>ADD_ON</category>
                </product>
              </products>
              <rules>
                <changePolicy>
                  <changePolicyCase>
                    <policy>IMMEDIATE</policy>
                  </changePolicyCase>
                </changePolicy>
                <changeAlignment>
                  <changeAlignmentCase>
                    <alignment>START_OF_BUNDLE</alignment>
                  </changeAlignmentCase>
                </changeAlignment>
                <cancelPolicy>
                  <cancelPolicyCase>
                    <policy>IMMEDIATE</policy>
                  </cancelPolicyCase>
                </cancelPolicy>
                <createAlignment>
                  <createAlignmentCase>
                    <alignment>START_OF_BUNDLE</alignment>
                  </createAlignmentCase>
                </createAlignment>
                <billingAlignment>
                  <billingAlignmentCase>
                    <alignment>ACCOUNT</alignment>
                  </billingAlignmentCase>
                </billingAlignment>
              </rules>
              <plans>
                <plan name="pro">
                  <product>Pro</product>
                  <initialPhases>
                    <phase type="TRIAL">
                      <duration>
                        <unit>DAYS</unit>
                        <number>10</number>
                      </duration>
                      <fixed>
                        <fixedPrice>
                        </fixedPrice>
                      </fixed>
                    </phase>
                  </initialPhases>
                  <finalPhase type="EVERGREEN">
                    <duration>
                      <unit>UNLIMITED</unit>
                    </duration>
                    <recurring>
                      <billingPeriod>MONTHLY</billingPeriod>
                      <recurringPrice>
                        <price>
                          <currency>USD</currency>
                          <value>29.95</value>
                        </price>
                      </recurringPrice>
                    </recurring>
                  </finalPhase>
                </plan>
                <plan name="extra">
                  <product>Extra</product>
                  <finalPhase type="EVERGREEN">
                    <duration>
                      <unit>UNLIMITED</unit>
                    </duration>
                    <recurring>
                      <billingPeriod>MONTHLY</billingPeriod>
                      <recurringPrice>
                        <price>
                          <currency>EUR</currency>
                          <value>29.95</value>
                        </price>
                      </recurringPrice>
                    </recurring>
                  </finalPhase>
                </plan>
              </plans>
              <priceLists>
                <defaultPriceList name="DEFAULT">
                  <plans>
                    <plan>pro</plan>
                    <plan>extra</plan>
                  </plans>
                </defaultPriceList>
              </priceLists>
            </catalog>
        "#]]
        .assert_eq(&check(&catalog));
    }

    #[test]
    fn every_recorded_catalog_reads_as_it_was_written() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let mut written = 0;
        for directory in ["catalogs", "uploads"] {
            let directory = root.join("conformance/vectors/subscriptions").join(directory);
            for file in fs::read_dir(directory).unwrap() {
                let text = fs::read_to_string(file.unwrap().path()).unwrap();
                if let Ok(catalog) = compiled(&text) {
                    check(&catalog);
                    written += 1;
                }
            }
        }
        assert!(written > 8, "{written}");
    }

    #[test]
    fn what_the_recordings_have_not_reads_as_it_was_written() {
        let text = "<catalog><effectiveDate>2026-01-01T00:00:00.5Z</effectiveDate>
            <catalogName>A &lt;B&gt; &amp; C</catalogName>
            <recurringBillingMode>IN_ARREAR</recurringBillingMode>
            <currencies><currency>USD</currency><currency>EUR</currency></currencies>
            <units><unit name='call' prettyName='a &quot;call&quot;'/></units>
            <products><product name='Pro' prettyName='P&#10;Q'><category>BASE</category>
              <limits><limit><unit>call</unit><max>10.5</max><min>1</min></limit></limits></product></products>
            <rules><changePolicy>
              <changePolicyCase><phaseType>TRIAL</phaseType><fromProduct>Pro</fromProduct>
                <toProductCategory>BASE</toProductCategory><toBillingPeriod>ANNUAL</toBillingPeriod>
                <policy>ILLEGAL</policy></changePolicyCase>
              <changePolicyCase><policy>END_OF_TERM</policy></changePolicyCase></changePolicy>
              <cancelPolicy><cancelPolicyCase><productCategory>BASE</productCategory>
                <priceList>DEFAULT</priceList><policy>IMMEDIATE</policy></cancelPolicyCase>
                <cancelPolicyCase><policy>END_OF_TERM</policy></cancelPolicyCase></cancelPolicy>
              <priceList><priceListCase><fromProduct>Pro</fromProduct><toPriceList>DEFAULT</toPriceList>
                </priceListCase></priceList></rules>
            <plans><plan name='pro'><effectiveDateForExistingSubscriptions>2026-02-01T00:00:00Z</effectiveDateForExistingSubscriptions>
              <product>Pro</product>
              <initialPhases><phase type='DISCOUNT'><duration><unit>MONTHS</unit><number>2</number></duration>
                <recurring><billingPeriod>NO_BILLING_PERIOD</billingPeriod></recurring></phase></initialPhases>
              <finalPhase type='FIXEDTERM'><duration><unit>YEARS</unit><number>1</number></duration>
                <recurring><billingPeriod>MONTHLY</billingPeriod><recurringPrice>
                  <price><currency>USD</currency><value>1.5</value></price>
                  <price><currency>EUR</currency><value xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:nil='true'/></price>
                </recurringPrice></recurring>
                <usages><usage name='calls' billingMode='IN_ADVANCE' usageType='CONSUMABLE'>
                  <billingPeriod>MONTHLY</billingPeriod>
                  <blocks><block type='TOP_UP'><unit>call</unit><size>10</size><prices/><minTopUpCredit>5</minTopUpCredit></block></blocks>
                  <fixedPrice/></usage></usages></finalPhase>
              <plansAllowedInBundle>1</plansAllowedInBundle></plan></plans>
            <priceLists><defaultPriceList name='DEFAULT'><plans><plan>pro</plan></plans></defaultPriceList>
              <childPriceList name='PROMO'><plans/></childPriceList></priceLists></catalog>";
        let catalog = compiled(text).unwrap();
        let Prices::In(prices) = &catalog.plans[0].phases[1].recurring.as_ref().unwrap().prices
        else {
            panic!("it has prices")
        };
        assert_eq!(prices[0], (Currency::parse("USD").unwrap(), Price::parse("1.5")));
        assert_eq!(prices[1].1, None);
        check(&catalog);
    }
}
