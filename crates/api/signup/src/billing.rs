//! `/billing/api/billing/accounts`: a customer's billing account.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use domain::account::tag::ControlTag;
use domain::account::{Account, CreateAccount, Person};
use domain::command::AccountCommand;
use domain::reply::AccountReply;
use domain::{AccountRejection, Command, Currency, Rejection, Reply, TenantNo, Timestamp};
use engine::Answer;
use engine::ports::AccountView;
use engine::time::rfc3339_millis;
use http::request::Parts;
use serde_json::{Value, json};
use sign_up::service::RequestContext;
use sign_up::service::metrics::AccountCall;

use crate::body::Fields;
use crate::error::ApiError;
use crate::{Api, bundles, caller};

/// Permission to create accounts.
const CREATE: &str = "account:create";

/// Permission to read a tenant's customers.
const READ: &str = "customer:read";

/// The longest id of another service's customer, in characters.
const CUSTOMER_CHARACTERS_MAX: usize = 255;

/// `POST /billing/api/billing/accounts/`: creates an account with its tag in one commit, or returns
/// the existing one.
pub(crate) async fn create(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (parts, body) = request.into_parts();
    let created = async {
        // Bodies of unauthenticated requests are not read.
        let caller = caller::internal(&api, &parts, CREATE).await?;
        let new = read_account(body).await?;
        let context = caller.about(&new.customer)?;
        create_account(&api, &context, new).await
    };
    created.await.map_err(ApiError::of_billing)
}

/// An account to create.
struct NewAccount {
    customer: String,
    person: Person,
    currency: Option<Currency>,
}

async fn read_account(body: Body) -> Result<NewAccount, ApiError> {
    let mut fields = Fields::read(body).await?;
    let customer = fields.text("customer_id");
    let (email, name) = (fields.text("email"), fields.text("name"));
    let company = fields.optional_text("company", 100);
    let currency = fields.optional_text("currency", 3);
    let currency = Currency::parse(currency.as_deref().unwrap_or("USD"));
    if currency.is_none() {
        fields.note("currency", "value_error", "Value error, Not an ISO 4217 currency");
    }
    for (field, text) in [("customer_id", &customer), ("email", &email), ("name", &name)] {
        fields.refuse_controls(field, text);
        if text.chars().nth(CUSTOMER_CHARACTERS_MAX).is_some() {
            fields.note(field, "string_too_long", "String should have at most 255 characters");
        }
    }
    if customer.is_empty() {
        fields.note("customer_id", "string_too_short", "String should have at least 1 character");
    }
    fields.finish()?;
    let person = Person { name: Some(name), email: Some(email), company, ..Person::default() };
    Ok(NewAccount { customer, person, currency })
}

async fn create_account(
    api: &Api,
    context: &RequestContext,
    new: NewAccount,
) -> Result<Json<Value>, ApiError> {
    let NewAccount { customer, person, currency } = new;
    if let Some(known) = find(api, context.tenant, &customer).await? {
        return Ok(Json(created(
            &known.account.id.to_string(),
            &customer,
            "Account already exists",
        )));
    }
    let command = CreateAccount {
        external_key: Some(customer.clone()),
        person,
        currency,
        tags: vec![ControlTag::AutoPayOff],
        ..CreateAccount::default()
    };
    let command = Command::Account(AccountCommand::Create(Box::new(command)));
    let account = AccountCall::of_billing();
    let answer = api.sign_up.submit_as_anonymous(context, command).await;
    account.end(answer.is_err());
    let answer = answer?;
    if let Answer::Replied(Reply::Account(AccountReply::Created(id))) = answer {
        return Ok(Json(created(&id.to_string(), &customer, "Account created successfully")));
    }
    if let Answer::Refused(Rejection::Account(AccountRejection::AlreadyExists { .. })) = answer {
        // A concurrent request has created it.
        let known = find(api, context.tenant, &customer).await?;
        let id = known.map(|it| it.account.id.to_string()).unwrap_or_default();
        return Ok(Json(created(&id, &customer, "Account already exists")));
    }
    tracing::warn!(answer = answer.kind(), "an account could not be created");
    Ok(Json(json!({
        "success": false,
        "customer_id": customer,
        "message": "Failed to create account: it was refused",
    })))
}

fn created(id: &str, customer: &str, message: &str) -> Value {
    json!({
        "success": true,
        "killbill_account_id": id,
        "customer_id": customer,
        "message": message,
    })
}

/// `GET /billing/api/billing/accounts/{customer}`
pub(crate) async fn show(
    State(api): State<Api>,
    Path(customer): Path<String>,
    parts: Parts,
) -> Result<Json<Value>, ApiError> {
    let account = of_customer(&api, &parts, &customer).await.map_err(ApiError::of_billing)?;
    Ok(Json(json!({ "success": true, "account": account_json(&account) })))
}

/// `GET /billing/api/billing/accounts/overview/{customer}`
pub(crate) async fn overview(
    State(api): State<Api>,
    Path(customer): Path<String>,
    parts: Parts,
) -> Result<Json<Value>, ApiError> {
    overview_of(&api, &parts, &customer).await.map_err(ApiError::of_billing)
}

async fn overview_of(api: &Api, parts: &Parts, customer: &str) -> Result<Json<Value>, ApiError> {
    let view = of_customer(api, parts, customer).await?;
    let (tenant, account) = (view.account.tenant, view.account.id);
    let engine = api.sign_up.engine();
    let now = engine.clock().now();
    let bundles =
        engine.read(move |queries| bundles::read(queries, (tenant, account), now)).await?;
    let methods = engine.read(move |queries| queries.payment_methods_of(tenant, account)).await?;
    let methods: Vec<Value> = methods
        .iter()
        .filter(|it| it.method.active)
        .map(|it| {
            json!({
                "paymentMethodId": it.method.id,
                "pluginName": it.method.gateway,
                "isDefault": view.account.payment_method_id == Some(it.method.id),
            })
        })
        .collect();
    let balance = engine.balance(tenant, account, None).await?.unwrap_or_default();
    let balance: Vec<Value> = balance
        .iter()
        .map(|it| json!({ "currency": it.currency.code(), "minor": (it.credit - it.debit).to_string() }))
        .collect();
    Ok(Json(json!({
        "success": true,
        "customer_id": customer,
        "account": account_json(&view),
        "bundles": bundles,
        "instances": [],
        "payment_methods": methods,
        "balance": balance,
    })))
}

async fn of_customer(api: &Api, parts: &Parts, customer: &str) -> Result<AccountView, ApiError> {
    let context = caller::internal(api, parts, READ).await?.about(customer)?;
    let found = find(api, context.tenant, customer).await?;
    found.ok_or_else(|| ApiError::not_found("Account not found"))
}

async fn find(
    api: &Api,
    tenant: TenantNo,
    customer: &str,
) -> Result<Option<AccountView>, ApiError> {
    let key = customer.to_owned();
    Ok(api.sign_up.engine().read(move |queries| queries.account_by_key(tenant, &key)).await?)
}

/// An account in Kill Bill's format, without balances and audit.
pub(crate) fn account_json(view: &AccountView) -> Value {
    let (account, person) = (&view.account, &view.person);
    let key = account.external_key.clone().unwrap_or_else(|| account.id.to_string());
    json!({
        "accountId": account.id,
        "externalKey": key,
        "name": person.name,
        "firstNameLength": person.first_name_length,
        "email": person.email,
        "billCycleDayLocal": account.bill_cycle_day_local,
        "currency": account.currency.as_ref().map(Currency::code),
        "parentAccountId": account.parent_account_id,
        "isPaymentDelegatedToParent": account.is_payment_delegated_to_parent,
        "paymentMethodId": account.payment_method_id,
        "referenceTime": reference_time(account),
        "timeZone": account.time_zone,
        "address1": person.address1,
        "address2": person.address2,
        "postalCode": person.postal_code,
        "company": person.company,
        "city": person.city,
        "state": person.state,
        "country": person.country,
        "locale": person.locale,
        "phone": person.phone,
        "notes": person.notes,
        "isMigrated": account.is_migrated,
        "accountBalance": null,
        "accountCBA": null,
        "auditLogs": [],
    })
}

/// In Kill Bill's format; whole seconds where it is the time of creation.
fn reference_time(account: &Account) -> String {
    let at = account.reference_time;
    let is_creation = at == account.created_at;
    let second_us = at.0.rem_euclid(Timestamp::SECOND_US);
    rfc3339_millis(if is_creation { Timestamp(at.0 - second_us) } else { at })
}
