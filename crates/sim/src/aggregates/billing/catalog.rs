//! What is sold: a table that the model reads, and the two versions of the catalog that are uploaded.

use domain::catalog::period::BillingPeriod;
use domain::catalog::price::Price;
use domain::catalog::rules::Rules;
use domain::catalog::{
    BillingMode, Catalog, DEFAULT_PRICE_LIST, Duration, DurationUnit, Phase, PhaseType, Plan,
    PriceList, Prices, Product, ProductCategory, Recurring,
};
use domain::command::TenantCommand;
use domain::tenant::catalog::UploadCatalog;
use domain::{Command, Currency, Timestamp};

/// How long the trial is free.
pub(super) const TRIAL_DAYS: u32 = 30;

/// A plan that is sold, in cents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sold {
    pub(super) name: &'static str,
    pub(super) product: &'static str,
    pub(super) price: i64,
    /// Its price in the second version.
    pub(super) later_price: i64,
    /// Whether the second version is for subscriptions of the first one as well.
    pub(super) moves_on: bool,
    pub(super) has_trial: bool,
    pub(super) is_annual: bool,
    pub(super) is_in_arrear: bool,
}

const MONTHLY: Sold = Sold {
    name: "basic",
    product: "Basic",
    price: 1_200,
    later_price: 1_400,
    moves_on: false,
    has_trial: false,
    is_annual: false,
    is_in_arrear: false,
};

/// The product that goes beside a base.
pub(super) const ADD_ON: &str = "Extra";

/// All plans; the last one is the add-on.
pub(super) const PLANS: [Sold; 5] = [
    Sold {
        name: "pro",
        product: "Pro",
        price: 2_000,
        later_price: 2_500,
        moves_on: true,
        has_trial: true,
        ..MONTHLY
    },
    MONTHLY,
    Sold {
        name: "year",
        product: "Pro",
        price: 20_000,
        later_price: 20_000,
        is_annual: true,
        ..MONTHLY
    },
    Sold { name: "arrear", price: 900, later_price: 950, is_in_arrear: true, ..MONTHLY },
    Sold {
        name: "extra",
        product: ADD_ON,
        price: 500,
        later_price: 650,
        moves_on: true,
        ..MONTHLY
    },
];

/// The second version, once it is uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Later {
    /// From when on it is sold.
    pub(super) sold_from: i64,
    /// From when on it is for subscriptions of the first one, where its plan says so.
    pub(super) existing_from: i64,
}

impl Later {
    /// A version that is far enough ahead for every account to be billed before it begins.
    pub(super) const fn uploaded_at(now: i64) -> Self {
        Self {
            sold_from: now + 45 * Timestamp::DAY_US,
            existing_from: now + 52 * Timestamp::DAY_US,
        }
    }
}

impl Sold {
    /// What a period of a subscription costs at a time, whose plan was chosen at an earlier one.
    pub(super) fn price_at(&self, chosen_at: i64, at: i64, later: Option<Later>) -> i64 {
        let is_later = later.is_some_and(|it| {
            chosen_at >= it.sold_from || (self.moves_on && at >= it.existing_from)
        });
        if is_later { self.later_price } else { self.price }
    }
}

/// Uploads a version: the first one, or the second.
pub(super) fn upload(later: Option<Later>) -> Command {
    let upload = UploadCatalog { text: String::new(), catalog: Box::new(compiled(later)) };
    Command::Tenant(TenantCommand::UploadCatalog(upload))
}

fn compiled(later: Option<Later>) -> Catalog {
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let product = |name: &str, category, available: &[&str]| Product {
        name: name.to_owned(),
        pretty_name: None,
        category,
        included: vec![],
        available: names(available),
        limits: vec![],
    };
    Catalog {
        name: "Simulated".to_owned(),
        effective_at: Timestamp(later.map_or(0, |it| it.sold_from)),
        currencies: vec![usd()],
        units: vec![],
        products: vec![
            product("Pro", ProductCategory::Base, &[ADD_ON]),
            product("Basic", ProductCategory::Base, &[ADD_ON]),
            product(ADD_ON, ProductCategory::AddOn, &[]),
        ],
        plans: PLANS.iter().map(|it| compiled_plan(it, later)).collect(),
        price_lists: vec![PriceList {
            name: DEFAULT_PRICE_LIST.to_owned(),
            plans: PLANS.iter().map(|it| it.name.to_owned()).collect(),
        }],
        rules: Rules::default(),
    }
}

fn compiled_plan(it: &Sold, later: Option<Later>) -> Plan {
    let price = if later.is_some() { it.later_price } else { it.price };
    let period = if it.is_annual { BillingPeriod::Annual } else { BillingPeriod::Monthly };
    let evergreen = Phase {
        phase: PhaseType::Evergreen,
        duration: None,
        fixed: None,
        recurring: Some(Recurring { period, prices: prices(price) }),
        usages: vec![],
    };
    let trial = Phase {
        phase: PhaseType::Trial,
        duration: Some(Duration { unit: DurationUnit::Days, number: TRIAL_DAYS }),
        fixed: Some(prices(0)),
        recurring: None,
        usages: vec![],
    };
    Plan {
        name: it.name.to_owned(),
        pretty_name: None,
        effective_for_existing_at: later
            .filter(|_| it.moves_on)
            .map(|later| Timestamp(later.existing_from)),
        product: it.product.to_owned(),
        mode: if it.is_in_arrear { BillingMode::InArrear } else { BillingMode::InAdvance },
        phases: it.has_trial.then_some(trial).into_iter().chain([evergreen]).collect(),
        allowed_in_bundle: None,
    }
}

fn prices(cents: i64) -> Prices {
    let text = format!("{}.{:02}", cents / 100, cents % 100);
    Prices::In(vec![(usd(), Price::parse(&text))])
}

/// The currency of all accounts.
pub(super) fn usd() -> Currency {
    Currency::parse("USD").expect("it is a currency")
}
