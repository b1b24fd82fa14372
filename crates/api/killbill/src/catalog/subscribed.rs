//! What a subscription has at a date: its plan, phase, product and price list.

use std::sync::Arc;

use domain::account::calendar::AccountCalendar;
use domain::billing::subscription::{Subscription, When};
use domain::billing::timeline::{Current, To};
use domain::catalog::price::Price;
use domain::catalog::versions::{Chosen, Versions};
use domain::catalog::{Plan, Prices};
use domain::read::TenantRow;
use domain::{Currency, SubscriptionId, TenantNo, Timestamp};
use engine::ports::{Queries, StoreError};
use engine::time::rfc3339_millis;

use super::json::{PhaseJson, PlanJson, PriceListJson, ProductJson};
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::reply;
use crate::subscriptions::{no_such_subscription, when};

/// Reads the plan that a subscription has at a date. Overridden prices are those of the plan.
#[utoipa::path(get, path = "/1.0/kb/catalog/plan", tag = "Catalog", operation_id = "plan_of_subscription",
    params(("subscriptionId" = Uuid, Query, description = "The subscription"),
        ("requestedDate" = Option<String>, Query, description = "A date of the account, or a time; by default now")),
    responses((status = 200, body = PlanJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn plan(call: Call) -> HandlerResult {
    let had = Had::read(&call).await?;
    let (current, chosen) = had.now()?;
    let plan = overridden(chosen.plan, current, had.currency);
    Ok(reply::ok(&PlanJson::of(&plan, &chosen.catalog.currencies)))
}

/// Reads the phase that a subscription is in at a date. Overridden prices are those of the phase.
#[utoipa::path(get, path = "/1.0/kb/catalog/phase", tag = "Catalog", operation_id = "phase_of_subscription",
    params(("subscriptionId" = Uuid, Query, description = "The subscription"),
        ("requestedDate" = Option<String>, Query, description = "A date of the account, or a time; by default now")),
    responses((status = 200, body = PhaseJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn phase(call: Call) -> HandlerResult {
    let had = Had::read(&call).await?;
    let (current, chosen) = had.now()?;
    let plan = overridden(chosen.plan, current, had.currency);
    let phase = plan.phase(current.phase).ok_or_else(|| had.lost())?;
    Ok(reply::ok(&PhaseJson::of(phase, &chosen.catalog.currencies)))
}

/// Reads the product that a subscription is of at a date.
#[utoipa::path(get, path = "/1.0/kb/catalog/product", tag = "Catalog", operation_id = "product_of_subscription",
    params(("subscriptionId" = Uuid, Query, description = "The subscription"),
        ("requestedDate" = Option<String>, Query, description = "A date of the account, or a time; by default now")),
    responses((status = 200, body = ProductJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn product(call: Call) -> HandlerResult {
    let had = Had::read(&call).await?;
    let (_, Chosen { catalog, plan, .. }) = had.now()?;
    let product = catalog.product(&plan.product).ok_or_else(|| had.lost())?;
    Ok(reply::ok(&ProductJson::of(product, catalog)))
}

/// Reads the price list that the plan of a subscription is from at a date.
#[utoipa::path(get, path = "/1.0/kb/catalog/priceList", tag = "Catalog", operation_id = "price_list_of_subscription",
    params(("subscriptionId" = Uuid, Query, description = "The subscription"),
        ("requestedDate" = Option<String>, Query, description = "A date of the account, or a time; by default now")),
    responses((status = 200, body = PriceListJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn price_list(call: Call) -> HandlerResult {
    let had = Had::read(&call).await?;
    let (current, chosen) = had.now()?;
    let list = chosen.catalog.price_lists.iter().find(|it| it.name == current.price_list);
    Ok(reply::ok(&PriceListJson::of(list.ok_or_else(|| had.lost())?)))
}

/// A subscription, with the time that it is looked at.
struct Had {
    subscription: Subscription,
    versions: Versions,
    currency: Currency,
    at: Timestamp,
}

impl Had {
    async fn read(call: &Call) -> Result<Self, Failure> {
        let id: Option<SubscriptionId> = call.query_id("subscriptionId")?;
        let id = id.ok_or_else(|| Failure::illegal("subscriptionId needs to be set"))?;
        let now = call.api.engine().clock().now();
        let at = when(call, "requestedDate")?.unwrap_or(When::At(now));
        let tenant = call.tenant();
        let had = call.read(move |queries| Self::find(queries, (tenant, id), at)).await?;
        had.ok_or_else(|| no_such_subscription(id))
    }

    fn find(
        queries: &dyn Queries,
        (tenant, id): (TenantNo, SubscriptionId),
        at: When,
    ) -> Result<Option<Self>, StoreError> {
        let Some(file) = queries.subscription(tenant, id)? else { return Ok(None) };
        let subscription = file.subscription;
        let found = queries.account(tenant, subscription.account_id)?;
        let Some(account) = found.map(|it| it.account) else { return Ok(None) };
        let state = queries.rows(&[TenantRow::CatalogVersions(tenant).into()].into())?;
        let versions = state.tenant.catalog_versions.of(&tenant).values();
        let versions = Versions::new(versions.map(|it| Arc::clone(&it.catalog)).collect());
        let at = match at {
            When::At(at) => at,
            // Beyond the calendar's years it has what it has last.
            When::Day(day) => {
                AccountCalendar::of(&account).instant(day).unwrap_or(Timestamp(i64::MAX))
            }
        };
        let usd = || Currency::parse("USD").expect("USD is a currency");
        let currency = account.currency.unwrap_or_else(usd);
        Ok(Some(Self { subscription, versions, currency, at }))
    }

    /// What it has at the time.
    fn now(&self) -> Result<(Current<'_>, Chosen<'_>), Failure> {
        let it = &self.subscription;
        // Answers show times to the second.
        let has_begun = |at: Timestamp| second(at) <= self.at;
        let done = it.transitions.iter().take_while(|it| has_begun(it.at));
        let ended = |to: &To| match to {
            To::Cancelled { .. } | To::Expired => true,
            To::Plan { .. } | To::BillCycleDay(_) | To::Quantity(_) => false,
        };
        if done.clone().any(|it| ended(&it.to)) {
            return Err(self.refused("after the subscription cancel date"));
        }
        // It can be entitled before it is billed.
        let done = done.count().max(usize::from(has_begun(it.entitled_from)));
        if done == 0 {
            return Err(self.refused("before the subscription start date"));
        }
        let current = it.after(done).ok_or_else(|| self.lost())?;
        let chosen = current.plan_at(&self.versions, self.at.max(current.chosen_at));
        Ok((current, chosen.ok_or_else(|| self.lost())?))
    }

    /// With Kill Bill's text, for which it has no code.
    fn refused(&self, when: &str) -> Failure {
        Failure::illegal(format!("requestedDate: {} is {when}", rfc3339_millis(self.at)))
    }

    /// The refusal where the catalog has lost the plan.
    fn lost(&self) -> Failure {
        no_such_subscription(self.subscription.id)
    }
}

const fn second(at: Timestamp) -> Timestamp {
    Timestamp(at.0 - at.0.rem_euclid(Timestamp::SECOND_US))
}

/// The plan with the name and the prices that the subscription has.
fn overridden(plan: &Plan, current: Current<'_>, currency: Currency) -> Plan {
    let mut plan = plan.clone();
    plan.name = current.shown_plan().into_owned();
    for phase in &mut plan.phases {
        let Some(prices) = current.overrides.and_then(|it| it.of(phase.phase)) else { continue };
        if let Some((fixed, price)) = phase.fixed.as_mut().zip(prices.fixed) {
            set(fixed, currency, price);
        }
        if let Some((recurring, price)) = phase.recurring.as_mut().zip(prices.recurring) {
            set(&mut recurring.prices, currency, price);
        }
    }
    plan
}

/// Replaces the price in a currency.
fn set(prices: &mut Prices, currency: Currency, price: Price) {
    let others = match prices {
        Prices::Free => &mut vec![],
        Prices::In(others) => others,
    };
    let mut all = std::mem::take(others);
    match all.iter_mut().find(|(it, _)| *it == currency) {
        Some((_, known)) => *known = Some(price),
        None => all.push((currency, Some(price))),
    }
    *prices = Prices::In(all);
}
