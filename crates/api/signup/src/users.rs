//! `/user/users`: customers read and change their own data.

use axum::Json;
use axum::extract::{Path, Request, State};
use domain::account::Person;
use domain::customer::{Customer, CustomerStatus};
use domain::{SessionId, Timestamp};
use http::request::Parts;
use serde_json::{Map, Value, json};
use sign_up::preferences::{Preferences, TIME_ZONE};
use sign_up::service::{AuthenticatedCustomer, ProfileChange};
use sign_up::{Error, profile};

use crate::auth::{customer_id, done, naive_utc};
use crate::body::Fields;
use crate::error::ApiError;
use crate::preferences::named;
use crate::{Api, caller};

/// The longest code of a second factor, in characters, with what may be typed between its letters.
const CODE_CHARACTERS_MAX: usize = 64;

/// Permission to read a tenant's customers.
const READ: &str = "customer:read";

/// `GET /user/users/profile` and `GET /user/auth/me`
pub(crate) async fn profile(State(api): State<Api>, parts: Parts) -> Result<Json<Value>, ApiError> {
    let (_, caller) = caller::customer(&api, &parts).await?;
    let person = person(&api, &caller.customer).await?;
    let mut body = customer_json(&caller.customer, &person);
    let fields = json!({ "subscription_plan": null, "billing_info": null });
    merge(&mut body, fields);
    Ok(Json(body))
}

/// `PUT /user/users/profile`
pub(crate) async fn put_profile(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let ((context, caller), mut fields) = caller::customer_form(&api, request).await?;
    let change = ProfileChange {
        first_name: fields.optional_text("first_name", 200),
        last_name: fields.optional_text("last_name", 200),
        phone: fields.optional_text("phone", 32),
        company: fields.optional_text("company", 100),
        country: fields.optional_text("country", 50),
        preferences: changed_preferences(&mut fields),
        is_active: None,
    };
    fields.finish()?;
    api.sign_up.change(&context, &caller.customer, change).await?;
    let customer = reload(&api, &caller).await?;
    let person = person(&api, &customer).await?;
    let mut body = customer_json(&customer, &person);
    let fields = json!({
        "role": "user",
        "status": status(&customer),
        "last_login": naive_utc(caller.session.created_at),
        "updated_at": naive_utc(customer.updated_at),
    });
    merge(&mut body, fields);
    Ok(Json(body))
}

/// The preferences that can be changed with the profile.
fn changed_preferences(fields: &mut Fields) -> Preferences {
    let (zone, language) =
        (fields.optional_text(TIME_ZONE, 50), fields.optional_text("language", 10));
    check_zone(fields, zone.as_deref());
    named([(TIME_ZONE, zone), ("language", language)])
}

/// `GET /user/users/preferences`
pub(crate) async fn preferences(
    State(api): State<Api>,
    parts: Parts,
) -> Result<Json<Value>, ApiError> {
    let (_, caller) = caller::customer(&api, &parts).await?;
    Ok(Json(preferences_of(&caller.customer)))
}

/// `PUT /user/users/preferences`: missing names keep their values.
pub(crate) async fn put_preferences(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let ((context, caller), mut fields) = caller::customer_form(&api, request).await?;
    let mut preferences = changed_preferences(&mut fields);
    let texts = named([
        ("theme", fields.choice("theme", &["light", "dark", "auto"])),
        ("date_format", fields.choice("date_format", &["DD/MM/YYYY", "MM/DD/YYYY", "YYYY-MM-DD"])),
        ("time_format", fields.choice("time_format", &["12", "24"])),
        ("currency", fields.optional_text("currency", 3)),
    ]);
    preferences = preferences.merged(&texts);
    for name in ["email_notifications", "sms_notifications", "marketing_emails"] {
        if let Some(flag) = fields.flag(name) {
            preferences.set(name, &Value::Bool(flag));
        }
    }
    fields.finish()?;
    let change = ProfileChange { preferences, ..ProfileChange::default() };
    api.sign_up.change(&context, &caller.customer, change).await?;
    Ok(Json(preferences_of(&reload(&api, &caller).await?)))
}

fn check_zone(fields: &mut Fields, zone: Option<&str>) {
    if let Some(Err(invalid)) = zone.map(profile::time_zone) {
        fields.break_rule(invalid);
    }
}

fn defaults() -> Value {
    json!({
        "timezone": null,
        "language": null,
        "email_notifications": true,
        "sms_notifications": false,
        "marketing_emails": false,
        "theme": null,
        "date_format": null,
        "time_format": null,
        "currency": null,
    })
}

fn preferences_of(customer: &Customer) -> Value {
    let mut known = defaults();
    for (name, value) in Preferences::read(&customer.profile.preferences).unwrap_or_default().iter()
    {
        known[name] = value;
    }
    known
}

/// `GET /user/users/stats`: there are no instances here, so only days are counted.
pub(crate) async fn stats(State(api): State<Api>, parts: Parts) -> Result<Json<Value>, ApiError> {
    let (_, caller) = caller::customer(&api, &parts).await?;
    let age = api.sign_up.engine().clock().now().0 - caller.customer.created_at.0;
    Ok(Json(json!({
        "total_instances": 0,
        "active_instances": 0,
        "total_storage_used": 0.0,
        "total_bandwidth_used": 0.0,
        "last_login": naive_utc(caller.session.created_at),
        "account_age_days": age / (24 * 3600 * Timestamp::SECOND_US),
        "subscription_days_remaining": null,
    })))
}

/// `GET /user/users/instances`: instances belong to another service.
pub(crate) async fn instances(
    State(api): State<Api>,
    parts: Parts,
) -> Result<Json<Value>, ApiError> {
    caller::customer(&api, &parts).await?;
    Ok(Json(json!({ "success": true, "instances": [], "total_count": 0 })))
}

/// `GET /user/users/billing`
pub(crate) async fn billing(State(api): State<Api>, parts: Parts) -> Result<Json<Value>, ApiError> {
    let (_, caller) = caller::customer(&api, &parts).await?;
    let account = api.sign_up.account_of(&caller.customer).await?;
    let account = account.map(|view| crate::billing::account_json(&view));
    Ok(Json(json!({ "success": true, "billing": { "account": account, "subscriptions": [] } })))
}

/// `GET /user/users/sessions`
pub(crate) async fn sessions(
    State(api): State<Api>,
    parts: Parts,
) -> Result<Json<Value>, ApiError> {
    let (_, caller) = caller::customer(&api, &parts).await?;
    let sessions = api.sign_up.sessions(&caller).await?;
    let shown: Vec<Value> = sessions
        .iter()
        .map(|it| {
            json!({
                "id": it.id,
                "created_at": naive_utc(it.created_at),
                "renewed_at": naive_utc(it.renewed_at),
                "expires_at": naive_utc(it.expires_at),
                "is_current": it.is_current,
            })
        })
        .collect();
    Ok(Json(json!({ "success": true, "sessions": shown, "total_count": shown.len() })))
}

/// `DELETE /user/users/sessions`: all of them, including the session of the request.
pub(crate) async fn close_sessions(
    State(api): State<Api>,
    parts: Parts,
) -> Result<Json<Value>, ApiError> {
    let (context, caller) = caller::customer(&api, &parts).await?;
    api.sign_up.close_sessions(&context, &caller, None).await?;
    Ok(done("All sessions have been revoked"))
}

/// `DELETE /user/users/sessions/{id}`
pub(crate) async fn close_session(
    State(api): State<Api>,
    Path(id): Path<String>,
    parts: Parts,
) -> Result<Json<Value>, ApiError> {
    let (context, caller) = caller::customer(&api, &parts).await?;
    let id = uuid::Uuid::try_parse(&id).ok().map(SessionId::new);
    let id = id.ok_or_else(|| ApiError::not_found("Session not found"))?;
    api.sign_up.close_sessions(&context, &caller, Some(id)).await?;
    Ok(done("The session has been revoked"))
}

/// `POST /user/users/deactivate`
pub(crate) async fn deactivate(
    State(api): State<Api>,
    parts: Parts,
) -> Result<Json<Value>, ApiError> {
    let (context, caller) = caller::customer(&api, &parts).await?;
    let change = ProfileChange { is_active: Some(false), ..ProfileChange::default() };
    api.sign_up.change(&context, &caller.customer, change).await?;
    Ok(done("Account deactivated successfully"))
}

/// `DELETE /user/users/account?confirmation=DELETE`. In the contract a token suffices; unless a setting
/// says so too, the body has `password`, and `code` where there is a second factor.
pub(crate) async fn erase(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (parts, body) = request.into_parts();
    let (context, caller) = caller::customer(&api, &parts).await?;
    if crate::query(&parts, "confirmation").as_deref() != Some("DELETE") {
        return Err(ApiError::bad(
            "Account deletion requires confirmation. Please provide 'DELETE' as confirmation parameter.",
        ));
    }
    if !api.sign_up.settings().erasure_needs_password {
        api.sign_up.erase(&context, &caller.customer).await?;
        return Ok(done("Account deleted successfully"));
    }
    let mut fields = Fields::read_if_any(body).await?;
    let password = fields.text("password");
    let code = fields.optional_text("code", CODE_CHARACTERS_MAX);
    fields.finish()?;
    let proof = (&*password, code.as_deref());
    match api.sign_up.erase_confirmed(&context, &caller.customer, proof).await {
        Ok(()) => Ok(done("Account deleted successfully")),
        Err(Error::Credentials) => Err(ApiError::bad("Password is incorrect")),
        Err(error) => Err(error.into()),
    }
}

/// `GET /user/users/internal/{customer}`
pub(crate) async fn internal(
    State(api): State<Api>,
    Path(id): Path<String>,
    parts: Parts,
) -> Result<Json<Value>, ApiError> {
    let context = caller::internal(&api, &parts, READ).await?.about(&id)?;
    let id = customer_id(&id).ok_or_else(|| ApiError::not_found("Customer not found"))?;
    let customer = api.sign_up.customer(context.tenant, id).await?;
    let customer = customer.ok_or_else(|| ApiError::not_found("Customer not found"))?;
    Ok(Json(json!({
        "id": customer.id,
        "email": customer.profile.email,
        "first_name": customer.profile.first_name,
        "last_name": customer.profile.last_name,
        "status": status(&customer),
    })))
}

/// A customer after a change.
async fn reload(api: &Api, caller: &AuthenticatedCustomer) -> Result<Customer, ApiError> {
    let customer = api.sign_up.customer(caller.tenant, caller.customer.id).await?;
    customer.ok_or_else(|| ApiError::not_found("Customer not found"))
}

async fn person(api: &Api, customer: &Customer) -> Result<Person, ApiError> {
    Ok(api.sign_up.account_of(customer).await?.map(|view| view.person).unwrap_or_default())
}

/// The fields in all responses about a customer.
fn customer_json(customer: &Customer, person: &Person) -> Value {
    let preferences = preferences_of(customer);
    json!({
        "id": customer.id,
        "email": customer.profile.email,
        "first_name": customer.profile.first_name,
        "last_name": customer.profile.last_name,
        "phone": person.phone,
        "company": person.company,
        "country": person.country,
        "timezone": preferences["timezone"],
        "language": preferences["language"],
        "avatar_url": null,
        "created_at": naive_utc(customer.created_at),
        "instance_count": 0,
        "subscription_status": null,
    })
}

const fn status(customer: &Customer) -> &'static str {
    match customer.status {
        CustomerStatus::Active if customer.is_verified => "active",
        CustomerStatus::Active => "pending",
        CustomerStatus::Deactivated | CustomerStatus::Erased => "inactive",
    }
}

/// Adds the fields of an object to another one.
fn merge(into: &mut Value, from: Value) {
    let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) else { return };
    into.extend::<Map<String, Value>>(from);
}
