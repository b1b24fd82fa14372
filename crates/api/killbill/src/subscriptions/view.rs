//! Subscriptions in responses: Kill Bill's `SubscriptionJson` with its events and prices.

use std::borrow::Cow;
use std::sync::Arc;

use domain::account::blocking_state::{BlockingState, Blocks, ENTITLEMENT_SERVICE};
use domain::account::calendar::AccountCalendar;
use domain::billing::blocking::{Holding, Standing, blocks_at, own_states, standing};
use domain::billing::subscription::Subscription;
use domain::billing::timeline::{
    Basis, BillCycleDays, Current, PlanChange, To, Transition, own_day, timeline,
};
use domain::catalog::versions::{Chosen, Versions};
use domain::catalog::{Phase, ProductCategory};
use domain::read::TenantRow;
use domain::{Account, AccountId, Currency, RequestId, SubscriptionId, TenantNo, Timestamp};
use engine::ports::{HistoryOf, HistoryRow, Queries, StoreError, SubscriptionFile};
use engine::time::rfc3339_second;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::amount::Number;
use crate::audit::{AuditLevel, AuditLogJson};
use crate::call::Call;
use crate::error::Failure;

/// The services that events of subscriptions are of, beside that of entitlements.
const BILLING_SERVICE: &str = "billing-service";
const BOTH: &str = "entitlement+billing-service";

/// Kill Bill's `SubscriptionJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionJson<'a> {
    account_id: Uuid,
    bundle_id: Uuid,
    #[schema(value_type = String)]
    bundle_external_key: Cow<'a, str>,
    subscription_id: Uuid,
    #[schema(value_type = String)]
    external_key: Cow<'a, str>,
    start_date: String,
    product_name: &'a str,
    product_category: &'static str,
    billing_period: &'static str,
    phase_type: &'static str,
    price_list: &'a str,
    #[schema(value_type = String)]
    plan_name: Cow<'a, str>,
    state: &'static str,
    source_type: &'static str,
    cancelled_date: Option<String>,
    charged_through_date: Option<String>,
    billing_start_date: String,
    billing_end_date: Option<String>,
    /// `None` for what never recurs
    bill_cycle_day_local: Option<u8>,
    quantity: u32,
    events: Vec<EventJson<'a>>,
    /// The prices that replace the catalog's now
    price_overrides: Vec<PhasePriceJson<'a>>,
    prices: Vec<PhasePriceJson<'a>>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

impl SubscriptionJson<'_> {
    pub(crate) fn is_of(&self, id: SubscriptionId) -> bool {
        self.subscription_id == id.uuid()
    }

    pub(crate) fn event(&self, id: Uuid) -> Option<&EventJson<'_>> {
        self.events.iter().find(|it| it.event_id == id)
    }

    pub(crate) fn has_ended(&self) -> bool {
        [Standing::Cancelled, Standing::Expired].iter().any(|it| it.name() == self.state)
    }
}

/// Kill Bill's `EventSubscriptionJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventJson<'a> {
    event_id: Uuid,
    billing_period: &'static str,
    pub(crate) effective_date: String,
    catalog_effective_date: String,
    #[schema(value_type = String)]
    pub(crate) plan: Cow<'a, str>,
    product: &'a str,
    pub(crate) price_list: &'a str,
    pub(crate) event_type: &'static str,
    is_blocked_billing: bool,
    is_blocked_entitlement: bool,
    service_name: &'a str,
    service_state_name: &'a str,
    pub(crate) phase: String,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// The id of a subscription's event, which has no row of its own: it follows from its place among all events of the
/// subscription.
pub(crate) fn event_id(of: SubscriptionId, ordinal: u32) -> Uuid {
    RequestId(of.uuid()).entity::<domain::kind::Subscription>(ordinal).uuid()
}

/// An event with its time.
struct EventAt<'a> {
    at: Timestamp,
    json: EventJson<'a>,
}

impl EventAt<'_> {
    fn blocked(mut self, blocks: Blocks) -> Self {
        self.json.is_blocked_billing = blocks.billing;
        self.json.is_blocked_entitlement = blocks.entitlement;
        self
    }
}

/// Kill Bill's `PhasePriceJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PhasePriceJson<'a> {
    #[schema(value_type = String)]
    plan_name: Cow<'a, str>,
    phase_name: String,
    phase_type: &'static str,
    #[schema(value_type = Option<f64>)]
    fixed_price: Option<Number>,
    #[schema(value_type = Option<f64>)]
    recurring_price: Option<Number>,
    #[schema(value_type = Vec<Object>)]
    usage_prices: [(); 0],
}

/// Subscriptions of an account with what their JSON needs.
pub(crate) struct Shown {
    account: Account,
    versions: Versions,
    /// Of the account and all that belongs to it.
    states: Vec<BlockingState>,
    files: Vec<SubscriptionFile>,
    /// The history of each, where the audit is shown.
    histories: Vec<Vec<HistoryRow>>,
    as_of: AsOf,
}

/// The time as of which subscriptions are shown, and how much of their audit.
#[derive(Clone, Copy)]
pub(crate) struct AsOf {
    pub(crate) now: Timestamp,
    pub(crate) audit: AuditLevel,
}

impl AsOf {
    /// That of a request: now.
    pub(crate) fn of(call: &Call) -> Result<Self, Failure> {
        let audit = AuditLevel::of(call.query())?;
        Ok(Self { now: call.api.engine().clock().now(), audit })
    }
}

impl Shown {
    /// Reads what belongs to the subscriptions of a bundle; `None`: there is no such account.
    pub(crate) fn read(
        queries: &dyn Queries,
        (tenant, account): (TenantNo, AccountId),
        files: Vec<SubscriptionFile>,
        as_of: AsOf,
    ) -> Result<Option<Self>, StoreError> {
        let Some(found) = queries.account(tenant, account)? else { return Ok(None) };
        let state = queries.rows(&[TenantRow::CatalogVersions(tenant).into()].into())?;
        let versions = state.tenant.catalog_versions.of(&tenant).values();
        let versions = Versions::new(versions.map(|it| Arc::clone(&it.catalog)).collect());
        let states = queries.blocking_states(tenant, account)?;
        let history = |it: &SubscriptionFile| {
            let of = HistoryOf::new::<Subscription>(it.subscription.id.uuid());
            as_of.audit.read(queries, tenant, of)
        };
        let histories = files.iter().map(history).collect::<Result<_, _>>()?;
        Ok(Some(Self { account: found.account, versions, states, files, histories, as_of }))
    }

    pub(crate) fn json(&self) -> impl Iterator<Item = SubscriptionJson<'_>> {
        let shown = self.files.iter().zip(&self.histories);
        shown.filter_map(|(it, history)| {
            let audit_logs = self.as_of.audit.logs(history);
            Some(SubscriptionJson { audit_logs, ..self.one(it)? })
        })
    }

    /// The events of all, in their order.
    pub(crate) fn all_events(&self) -> Vec<EventJson<'_>> {
        let mut events: Vec<_> =
            self.files.iter().flat_map(|it| self.events(&it.subscription)).collect();
        events.sort_by(|a, b| a.effective_date.cmp(&b.effective_date));
        events
    }

    /// `None` where the catalog has lost the plan.
    fn one<'a>(&'a self, file: &'a SubscriptionFile) -> Option<SubscriptionJson<'a>> {
        let it = &file.subscription;
        let current = it.current()?;
        let chosen = self.chosen(current)?;
        let product = chosen.catalog.product(&chosen.plan.product)?;
        // Kill Bill shows no end of what expires.
        let ends_at = it.ends_at().filter(|_| it.is_cancelled());
        let entitled_until = it.entitled_until.or(ends_at);
        Some(SubscriptionJson {
            account_id: it.account_id.uuid(),
            bundle_id: it.bundle_id.uuid(),
            bundle_external_key: key(file.bundle.external_key.as_ref(), it.bundle_id.uuid()),
            subscription_id: it.id.uuid(),
            external_key: key(it.external_key.as_ref(), it.id.uuid()),
            start_date: rfc3339_second(it.entitled_from),
            product_name: &product.name,
            product_category: product.category.name(),
            billing_period: period(&chosen, current),
            phase_type: current.phase.name(),
            price_list: current.price_list,
            plan_name: current.shown_plan(),
            state: standing(it, &self.states, self.as_of.now).name(),
            source_type: "NATIVE",
            cancelled_date: entitled_until.map(rfc3339_second),
            charged_through_date: it.charged_through.map(|it| it.to_string()),
            billing_start_date: rfc3339_second(it.starts_at()),
            billing_end_date: ends_at.map(rfc3339_second),
            bill_cycle_day_local: self.bill_cycle_day(it),
            quantity: it.quantity(),
            events: self.events(it),
            price_overrides: overridden(current),
            prices: self.prices(it),
            audit_logs: vec![],
        })
    }

    /// The plan of a transition, in the version that it has then.
    fn chosen<'a>(&'a self, it: Current<'a>) -> Option<Chosen<'a>> {
        it.plan_at(&self.versions, it.chosen_at)
    }

    /// The day by which its periods are cut now; `None`: nothing of it recurs.
    fn bill_cycle_day(&self, it: &Subscription) -> Option<u8> {
        let plans = (1..=it.transitions.len()).filter_map(|at| it.after(at));
        let recurs = |it: Chosen<'_>| it.plan.phases.iter().any(|it| it.recurring.is_some());
        if !plans.filter_map(|it| self.chosen(it)).any(recurs) {
            return None;
        }
        let base =
            self.files.iter().map(|it| &it.subscription).find(|base| {
                base.bundle_id == it.bundle_id && base.category == ProductCategory::Base
            });
        let bundle = base.and_then(|base| own_day(&self.basis(base, None)).ok());
        // A pause moves no day.
        let basis = self.basis(it, bundle);
        let today = basis.calendar.date(self.as_of.now);
        let events = timeline(&basis).unwrap_or_default();
        let (past, future): (Vec<_>, Vec<_>) = events.iter().partition(|it| it.date <= today);
        let terms = past.iter().rev().chain(&future).find_map(|it| it.terms.as_ref());
        Some(terms.map_or(0, |it| it.bill_cycle_day))
    }

    fn basis<'a>(&'a self, it: &'a Subscription, bundle: Option<u8>) -> Basis<'a> {
        let account = Some(self.account.bill_cycle_day_local).filter(|day| *day > 0);
        Basis {
            transitions: &it.transitions,
            blocked: &[],
            versions: &self.versions,
            calendar: AccountCalendar::of(&self.account),
            currency: self.currency(),
            days: BillCycleDays { account, bundle },
        }
    }

    fn currency(&self) -> Currency {
        let usd = || Currency::parse("USD").expect("USD is a currency");
        self.account.currency.unwrap_or_else(usd)
    }

    /// What happens to it, in its order: to its entitlement before its billing, and to both before what blocks them.
    fn events<'a>(&'a self, it: &'a Subscription) -> Vec<EventJson<'a>> {
        let states = own_states(it, &self.states);
        let mut events = vec![];
        for (at, Transition { at: when, to }) in it.transitions.iter().enumerate() {
            let (entitlement, billing) = (ENTITLEMENT_SERVICE, BILLING_SERVICE);
            let mut push = |kind, state, service, when| {
                events.extend(self.event((it, at + 1), kind, (state, service), when));
            };
            match to {
                To::Plan { by: PlanChange::Create | PlanChange::Transfer, .. } => {
                    push("START_ENTITLEMENT", "ENT_STARTED", entitlement, it.entitled_from);
                    push("START_BILLING", "START_BILLING", billing, *when);
                }
                To::Plan { by: PlanChange::Phase, .. } => push("PHASE", "PHASE", BOTH, *when),
                To::Plan { by: PlanChange::Change, .. } => push("CHANGE", "CHANGE", BOTH, *when),
                To::BillCycleDay(_) | To::Quantity(_) => {}
                To::Cancelled { .. } => {
                    let until = it.entitled_until.unwrap_or(*when);
                    push("STOP_ENTITLEMENT", "ENT_CANCELLED", entitlement, until);
                    push("STOP_BILLING", "STOP_BILLING", billing, *when);
                }
                To::Expired => push("STOP_BILLING", "STOP_BILLING", billing, *when),
            }
        }
        for event in &mut events {
            let blocks = blocks_at(&states, event.at);
            event.json.is_blocked_billing = blocks.billing;
            event.json.is_blocked_entitlement |= blocks.entitlement;
        }
        events.extend(self.blocking_events(it, &states));
        events.sort_by_key(|it| it.at);
        let mut shown: Vec<_> = events.into_iter().map(|it| it.json).collect();
        for (ordinal, event) in (0_u32..).zip(&mut shown) {
            event.event_id = event_id(it.id, ordinal);
        }
        shown
    }

    /// What the blocking states do to a subscription from its start on.
    fn blocking_events<'a>(
        &'a self,
        it: &'a Subscription,
        states: &[&'a BlockingState],
    ) -> Vec<EventAt<'a>> {
        let mut events = vec![];
        let (mut holding, mut before) = (Holding::default(), Blocks::default());
        for state in states {
            holding.count(state);
            let after = holding.blocks();
            let had = std::mem::replace(&mut before, after);
            if state.effective_at < it.starts_at().min(it.entitled_from) {
                continue;
            }
            let done = it.transitions.iter().take_while(|it| it.at <= state.effective_at).count();
            let mut push = |kind, service| {
                let event =
                    self.event((it, done.max(1)), kind, (&state.name, service), state.effective_at);
                // As the state says, whatever others do.
                events.extend(event.map(|it| it.blocked(state.blocks)));
            };
            let service = state.service.as_str();
            match (had.entitlement, after.entitlement) {
                (false, true) => push("PAUSE_ENTITLEMENT", service),
                (true, false) => push("RESUME_ENTITLEMENT", service),
                (false, false) | (true, true) => {}
            }
            // A pause is of both.
            let billing = if service == ENTITLEMENT_SERVICE { BILLING_SERVICE } else { service };
            match (had.billing, after.billing) {
                (false, true) => push("PAUSE_BILLING", billing),
                (true, false) => push("RESUME_BILLING", billing),
                (false, false) | (true, true) if had.entitlement == after.entitlement => {
                    push("SERVICE_STATE_CHANGE", service);
                }
                (false, false) | (true, true) => {}
            }
        }
        events
    }

    /// An event of a subscription, with the plan that it has after so many transitions; `None`: the catalog has lost it.
    fn event<'a>(
        &'a self,
        (it, done): (&'a Subscription, usize),
        kind: &'static str,
        (state, service): (&'a str, &'a str),
        at: Timestamp,
    ) -> Option<EventAt<'a>> {
        let current = it.after(done)?;
        let chosen = self.chosen(current)?;
        let plan = current.shown_plan();
        let json = EventJson {
            event_id: Uuid::nil(),
            billing_period: period(&chosen, current),
            effective_date: rfc3339_second(at),
            catalog_effective_date: rfc3339_second(chosen.catalog.effective_at),
            phase: current.phase.of_plan(&plan),
            plan,
            product: &chosen.plan.product,
            price_list: current.price_list,
            event_type: kind,
            is_blocked_billing: false,
            is_blocked_entitlement: kind == "STOP_ENTITLEMENT",
            service_name: service,
            service_state_name: state,
            audit_logs: vec![],
        };
        Some(EventAt { at, json })
    }

    /// The prices of the phases that it has had and will have.
    fn prices<'a>(&'a self, it: &'a Subscription) -> Vec<PhasePriceJson<'a>> {
        let currency = self.currency();
        let plans = (1..=it.transitions.len()).filter_map(|at| it.after(at));
        let mut shown: Vec<PhasePriceJson<'a>> = vec![];
        for current in plans {
            let Some(chosen) = self.chosen(current) else { continue };
            let Some(phase): Option<&Phase> = chosen.plan.phase(current.phase) else { continue };
            let plan_name = current.shown_plan();
            let phase_name = current.phase.of_plan(&plan_name);
            if shown.iter().any(|it| it.phase_name == phase_name) {
                continue;
            }
            shown.push(PhasePriceJson {
                plan_name,
                phase_name,
                phase_type: current.phase.name(),
                fixed_price: current.fixed(phase, currency).ok().flatten().map(Number::of),
                recurring_price: current.recurring(phase, currency).ok().flatten().map(Number::of),
                usage_prices: [],
            });
        }
        shown
    }
}

/// The prices that replace those of the plan.
fn overridden(current: Current<'_>) -> Vec<PhasePriceJson<'_>> {
    let phases = current.overrides.map(|it| it.phases.as_slice()).unwrap_or_default();
    let plan = current.shown_plan();
    let shown = phases.iter().map(|it| PhasePriceJson {
        plan_name: plan.clone(),
        phase_name: it.phase.of_plan(&plan),
        phase_type: it.phase.name(),
        fixed_price: it.fixed.map(Number::of),
        recurring_price: it.recurring.map(Number::of),
        usage_prices: [],
    });
    shown.collect()
}

/// How often a phase is billed.
fn period(chosen: &Chosen<'_>, current: Current<'_>) -> &'static str {
    let phase = chosen.plan.phase(current.phase).and_then(|it| it.recurring.as_ref());
    phase.map_or("NO_BILLING_PERIOD", |it| it.period.name())
}

/// A key, or the id that it reads as.
pub(crate) fn key(key: Option<&String>, id: Uuid) -> Cow<'_, str> {
    key.map_or_else(|| id.to_string().into(), |it| it.as_str().into())
}
