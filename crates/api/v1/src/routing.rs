//! Routing: which rule a payment would take, and why. Nothing is paid, and nothing is written.

use std::collections::BTreeSet;

use axum::Json;
use axum::body::Body;
use domain::account::Person;
use domain::account::custom_field::CustomField;
use domain::account::tag::DefinitionRef;
use domain::object::Object;
use domain::payment::routed::{ChosenBy, PassedOver};
use domain::payment::routing::{Candidate, Decision, Facts, Gateways, decide};
use domain::tenant::payment_rules::PaymentRules;
use domain::tenant::routing_rules::{ROUTER, TRIES_MAX};
use domain::{Account, AccountId, AmountMinor, Currency, PaymentMethod, PaymentMethodId, TenantNo};
use engine::ports::{Queries, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::{InvalidField, Unauthenticated};
use crate::parameters::invalid;

/// A payment that is not made.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExplainRouting {
    /// The account that would pay.
    account_id: Uuid,
    /// A method of `faregate-router`; absent: the account's default.
    payment_method_id: Option<Uuid>,
    /// In the major unit, such as `10.00`.
    amount: String,
    /// ISO 4217; absent: the account's.
    currency: Option<String>,
    /// The gateways that the caller would name, in order; at most 4.
    #[serde(default)]
    gateways: Vec<String>,
}

/// Which gateways the payment would try, and why.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutingExplained {
    /// `rule`, `caller`, or `null` where no rule matches: the payment would be refused.
    chosen_by: Option<&'static str>,
    /// The rule that matches.
    rule: Option<String>,
    /// The gateway that would be called first; `null`: the payment would be refused.
    gateway: Option<String>,
    /// The rules up to the one that matches.
    rules: Vec<RuleExplained>,
    /// The gateways in their order.
    gateways: Vec<GatewayExplained>,
}

/// The result of a rule.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RuleExplained {
    name: String,
    matches: bool,
    /// The first condition that does not hold.
    mismatch: Option<&'static str>,
}

/// A gateway of the list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GatewayExplained {
    gateway: String,
    /// Why it would be passed over.
    passed_over: Option<&'static str>,
}

/// The rows that rules look at.
struct Found {
    account: Account,
    person: Person,
    method: PaymentMethod,
    rules: Option<PaymentRules>,
    tags: BTreeSet<DefinitionRef>,
    fields: Vec<CustomField>,
}

/// Which routing rule a payment would take, which gateways it would try, and why
#[utoipa::path(post, path = "/v1/routing/explain", tag = "Payments", operation_id = "explain_routing",
    request_body = ExplainRouting,
    responses((status = 200, description = "The explanation", body = RoutingExplained),
        (status = 404, description = "The tenant has no such account or payment method"),
        (status = 403, description = "routing:read is missing"), InvalidField, Unauthenticated))]
pub async fn explain(call: Call, body: Body) -> Result<Json<RoutingExplained>, Error> {
    let Call { api, context, .. } = call.allowed("routing:read")?;
    let asked: ExplainRouting = input::json(body, &context.tenant).await?;
    if asked.gateways.len() > TRIES_MAX {
        return Err(invalid("gateways", format!("has more than {TRIES_MAX} names")));
    }
    let no = context.tenant.no;
    let account = AccountId::new(asked.account_id);
    let method = asked.payment_method_id.map(PaymentMethodId::new);
    let found = api.engine.read(move |queries| find(queries, no, (account, method))).await?;
    let not_found = |what, id: Uuid| Error::NotFound { what, name: id.to_string() };
    let found = found.ok_or_else(|| not_found("account", asked.account_id))?;
    let method_id = asked.payment_method_id.unwrap_or_default();
    let found = found.ok_or_else(|| not_found("payment method", method_id))?;
    if found.method.gateway != ROUTER {
        return Err(invalid("paymentMethodId", "is no method of faregate-router"));
    }
    let given = asked.currency.as_deref();
    let currency = match given {
        Some(code) => Currency::parse(code).ok_or_else(|| invalid("currency", "is unknown"))?,
        None => found.account.currency.ok_or_else(|| invalid("currency", "needs to be set"))?,
    };
    let amount =
        AmountMinor::parse(&asked.amount, currency).map_err(|error| invalid("amount", error))?;
    let limits = found.rules.as_ref().and_then(|it| it.limits.as_ref());
    let facts = Facts {
        account,
        country: found.person.country.as_deref(),
        amount,
        currency,
        method: &found.method,
        properties: &vec![],
        tags: found.tags.clone(),
        fields: found.fields.iter().map(|it| (it.name.as_str(), it.value.as_str())).collect(),
        named: &asked.gateways,
        allowed: limits.filter(|it| it.every_payment).and_then(|it| it.gateways.as_ref()),
    };
    let health = api.engine.gateway_health(no);
    let known = Gateways { settings: api.engine.settings(), health: &health };
    let decision = decide(found.rules.as_ref(), &facts, known);
    Ok(Json(explained(decision, found.rules.as_ref())))
}

/// The rows; `None` without the account, and within it without the method.
fn find(
    queries: &dyn Queries,
    no: TenantNo,
    (account, method): (AccountId, Option<PaymentMethodId>),
) -> Result<Option<Option<Found>>, StoreError> {
    let Some(view) = queries.account(no, account)? else { return Ok(None) };
    let Some(id) = method.or(view.account.payment_method_id) else { return Ok(Some(None)) };
    let found = queries.payment_method(no, id)?.map(|it| it.method);
    let own = found.filter(|it| it.account_id == account && it.active);
    let Some(method) = own else { return Ok(Some(None)) };
    let object = Object::Account(account);
    let tags = queries.tags_of(no, object)?.into_iter().map(|it| it.tag);
    let tags = tags.filter(|it| it.active).map(|it| it.key.definition).collect();
    let fields = queries.custom_fields_of(no, object)?;
    let rules = queries.payment_rules(no)?;
    Ok(Some(Some(Found {
        account: view.account,
        person: view.person,
        method,
        rules,
        tags,
        fields,
    })))
}

fn explained(decision: Decision, rules: Option<&PaymentRules>) -> RoutingExplained {
    let gateway = decision.first().map(|at| decision.candidates[at].gateway.clone());
    let (chosen_by, rule) = match decision.chosen_by {
        None => (None, None),
        Some(ChosenBy::Caller) => (Some("caller"), None),
        Some(ChosenBy::Rule { name, .. }) => (Some("rule"), Some(name)),
    };
    let names = rules.and_then(|it| it.routing.as_ref()).into_iter().flat_map(|it| &it.rules);
    let mut names = names.map(|it| it.name.clone());
    let mismatches = decision.mismatches.iter().map(|it| Some(it.name()));
    let matching = rule.is_some().then_some(None);
    let became = |mismatch: Option<&'static str>| {
        let name = names.next()?;
        Some(RuleExplained { name, matches: mismatch.is_none(), mismatch })
    };
    let explained_rules = mismatches.chain(matching).filter_map(became).collect();
    let candidate = |it: Candidate| GatewayExplained {
        gateway: it.gateway,
        passed_over: it.passed_over.map(PassedOver::reason),
    };
    let gateways = decision.candidates.into_iter().map(candidate).collect();
    RoutingExplained { chosen_by, rule, gateway, rules: explained_rules, gateways }
}
