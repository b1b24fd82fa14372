//! `/billing/api/billing/accounts`: a customer's billing account.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use domain::account::{Account, CreateAccount, Person};
use domain::tag::ControlTag;
use domain::{Command, Currency, Rejection, Reply, TenantNo};
use engine::Answer;
use engine::ports::AccountView;
use http::request::Parts;
use serde_json::{Value, json};

use super::body::Fields;
use super::error::Failure;
use super::{Door, caller};
use crate::service::Asked;
use crate::service::figures::AccountAsked;

/// Makes accounts.
const CREATE: &str = "account:create";

/// Reads customers of a tenant.
const READ: &str = "customer:read";

/// How long an id of a customer may be that is not ours, in characters.
const CUSTOMER_CHARACTERS_MAX: usize = 255;

/// `POST /billing/api/billing/accounts/`: makes an account, with its tag in one commit; one that is
/// there is shown.
pub(super) async fn create(
    State(door): State<Door>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let (parts, body) = request.into_parts();
    let created = async {
        // Strangers take no room for their bodies.
        let caller = caller::internal(&door, &parts, CREATE).await?;
        let new = read_account(body).await?;
        let asked = caller.about(&new.customer)?;
        make(&door, &asked, new).await
    };
    created.await.map_err(Failure::of_billing)
}

/// An account to be made.
struct NewAccount {
    customer: String,
    person: Person,
    currency: Option<Currency>,
}

async fn read_account(body: Body) -> Result<NewAccount, Failure> {
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

async fn make(door: &Door, asked: &Asked, new: NewAccount) -> Result<Json<Value>, Failure> {
    let NewAccount { customer, person, currency } = new;
    if let Some(known) = find(door, asked.tenant, &customer).await? {
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
        bill_cycle_day_local: 0,
        parent_account_id: None,
        is_payment_delegated_to_parent: false,
        reference_time: None,
        time_zone: None,
        is_migrated: None,
        tags: vec![ControlTag::AutoPayOff],
    };
    let command = Command::CreateAccount(Box::new(command));
    let account = AccountAsked::by_billing();
    let answer = door.sign_up.submit_plain(asked, command).await;
    account.end(answer.is_err());
    let answer = answer?;
    if let Answer::Replied(Reply::AccountCreated(id)) = answer {
        return Ok(Json(created(&id.to_string(), &customer, "Account created successfully")));
    }
    if let Answer::Refused(Rejection::AccountAlreadyExists { .. }) = answer {
        // Another request was faster.
        let known = find(door, asked.tenant, &customer).await?;
        let id = known.map(|it| it.account.id.to_string()).unwrap_or_default();
        return Ok(Json(created(&id, &customer, "Account already exists")));
    }
    tracing::warn!(?answer, "an account could not be made");
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
pub(super) async fn show(
    State(door): State<Door>,
    Path(customer): Path<String>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    let account = of_customer(&door, &parts, &customer).await.map_err(Failure::of_billing)?;
    Ok(Json(json!({ "success": true, "account": account_json(&account) })))
}

/// `GET /billing/api/billing/accounts/overview/{customer}`
pub(super) async fn overview(
    State(door): State<Door>,
    Path(customer): Path<String>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    overview_of(&door, &parts, &customer).await.map_err(Failure::of_billing)
}

async fn overview_of(door: &Door, parts: &Parts, customer: &str) -> Result<Json<Value>, Failure> {
    let view = of_customer(door, parts, customer).await?;
    let (tenant, account) = (view.account.tenant, view.account.id);
    let engine = door.sign_up.engine();
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
        "bundles": [],
        "instances": [],
        "payment_methods": methods,
        "balance": balance,
    })))
}

async fn of_customer(door: &Door, parts: &Parts, customer: &str) -> Result<AccountView, Failure> {
    let asked = caller::internal(door, parts, READ).await?.about(customer)?;
    let found = find(door, asked.tenant, customer).await?;
    found.ok_or_else(|| Failure::not_found("Account not found"))
}

async fn find(
    door: &Door,
    tenant: TenantNo,
    customer: &str,
) -> Result<Option<AccountView>, Failure> {
    let key = customer.to_owned();
    Ok(door.sign_up.engine().read(move |queries| queries.account_by_key(tenant, &key)).await?)
}

/// An account in Kill Bill's words, without balances and audit.
pub(super) fn account_json(view: &AccountView) -> Value {
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

/// As Kill Bill writes it: to the second where it is when the account was made.
fn reference_time(account: &Account) -> String {
    let at = account.reference_time;
    let shown = jiff::Timestamp::from_microsecond(at.0).unwrap_or(jiff::Timestamp::MAX);
    let format = match at == account.created_at {
        true => "%Y-%m-%dT%H:%M:%S.000Z",
        false => "%Y-%m-%dT%H:%M:%S%.3fZ",
    };
    shown.strftime(format).to_string()
}
