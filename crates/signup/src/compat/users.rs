//! `/user/users`: what a customer may see and change of themselves.

use axum::Json;
use axum::extract::{Path, Request, State};
use domain::account::Person;
use domain::customer::{Customer, CustomerStatus};
use domain::{SessionId, Timestamp};
use http::request::Parts;
use serde_json::{Map, Value, json};

use super::auth::{customer_id, done, moment};
use super::body::Fields;
use super::error::Failure;
use super::{Door, caller};
use crate::preferences::{Preferences, TIME_ZONE};
use crate::profile;
use crate::service::{Entered, ProfileChange, Who};

/// Reads customers of a tenant.
const READ: &str = "customer:read";

/// `GET /user/users/profile` and `GET /user/auth/me`
pub(super) async fn profile(
    State(door): State<Door>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    let (_, who) = caller::customer(&door, &parts).await?;
    let person = person(&door, &who.customer).await?;
    let mut shown = shared(&who.customer, &person);
    let fields = json!({ "subscription_plan": null, "billing_info": null });
    merge(&mut shown, fields);
    Ok(Json(shown))
}

/// `PUT /user/users/profile`
pub(super) async fn put_profile(
    State(door): State<Door>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let (parts, body) = request.into_parts();
    let (asked, who) = caller::customer(&door, &parts).await?;
    let mut fields = Fields::read(body).await?;
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
    door.sign_up.change(&asked, &who.customer, change).await?;
    let customer = read_again(&door, &who).await?;
    let person = person(&door, &customer).await?;
    let mut shown = shared(&customer, &person);
    let fields = json!({
        "role": "user",
        "status": status(&customer),
        "last_login": moment(who.session.created_at),
        "updated_at": moment(customer.updated_at),
    });
    merge(&mut shown, fields);
    Ok(Json(shown))
}

/// What a customer changes of their preferences together with their profile.
fn changed_preferences(fields: &mut Fields) -> Preferences {
    let (zone, language) =
        (fields.optional_text(TIME_ZONE, 50), fields.optional_text("language", 10));
    check_zone(fields, zone.as_deref());
    named([(TIME_ZONE, zone), ("language", language)])
}

/// The preferences that were named.
fn named<const N: usize>(texts: [(&str, Option<String>); N]) -> Preferences {
    let mut named = Preferences::default();
    for (name, text) in texts {
        if let Some(text) = text {
            named.set(name, &Value::String(text));
        }
    }
    named
}

/// `GET /user/users/preferences`
pub(super) async fn preferences(
    State(door): State<Door>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    let (_, who) = caller::customer(&door, &parts).await?;
    Ok(Json(preferences_of(&who.customer)))
}

/// `PUT /user/users/preferences`: what is not named keeps its value.
pub(super) async fn put_preferences(
    State(door): State<Door>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let (parts, body) = request.into_parts();
    let (asked, who) = caller::customer(&door, &parts).await?;
    let mut fields = Fields::read(body).await?;
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
    door.sign_up.change(&asked, &who.customer, change).await?;
    Ok(Json(preferences_of(&read_again(&door, &who).await?)))
}

fn check_zone(fields: &mut Fields, zone: Option<&str>) {
    if let Some(Err(invalid)) = zone.map(profile::time_zone) {
        fields.break_rule(invalid);
    }
}

/// The preferences of somebody who has just entered their first ones.
pub(super) fn first_preferences(entered: &Entered, marketing: bool) -> String {
    let mut first =
        named([(TIME_ZONE, entered.time_zone.clone()), ("language", entered.language.clone())]);
    if marketing {
        first.set("marketing_emails", &Value::Bool(true));
    }
    first.text().expect("a time zone and a language are short")
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

/// `GET /user/users/stats`: there are no instances here, so there is nothing to count but days.
pub(super) async fn stats(State(door): State<Door>, parts: Parts) -> Result<Json<Value>, Failure> {
    let (_, who) = caller::customer(&door, &parts).await?;
    let age = door.sign_up.engine().clock().now().0 - who.customer.created_at.0;
    Ok(Json(json!({
        "total_instances": 0,
        "active_instances": 0,
        "total_storage_used": 0.0,
        "total_bandwidth_used": 0.0,
        "last_login": moment(who.session.created_at),
        "account_age_days": age / (24 * 3600 * Timestamp::SECOND_US),
        "subscription_days_remaining": null,
    })))
}

/// `GET /user/users/instances`: what is provisioned is another service's.
pub(super) async fn instances(
    State(door): State<Door>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    caller::customer(&door, &parts).await?;
    Ok(Json(json!({ "success": true, "instances": [], "total_count": 0 })))
}

/// `GET /user/users/billing`
pub(super) async fn billing(
    State(door): State<Door>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    let (_, who) = caller::customer(&door, &parts).await?;
    let account = door.sign_up.account_of(&who.customer).await?;
    let account = account.map(|view| super::billing::account_json(&view));
    Ok(Json(json!({ "success": true, "billing": { "account": account, "subscriptions": [] } })))
}

/// `GET /user/users/sessions`
pub(super) async fn sessions(
    State(door): State<Door>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    let (_, who) = caller::customer(&door, &parts).await?;
    let sessions = door.sign_up.sessions(&who).await?;
    let shown: Vec<Value> = sessions
        .iter()
        .map(|it| {
            json!({
                "id": it.id,
                "created_at": moment(it.created_at),
                "renewed_at": moment(it.renewed_at),
                "expires_at": moment(it.expires_at),
                "is_current": it.is_current,
            })
        })
        .collect();
    Ok(Json(json!({ "success": true, "sessions": shown, "total_count": shown.len() })))
}

/// `DELETE /user/users/sessions`: all of them, this one too.
pub(super) async fn close_sessions(
    State(door): State<Door>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    let (asked, who) = caller::customer(&door, &parts).await?;
    door.sign_up.close_sessions(&asked, &who, None).await?;
    Ok(done("All sessions have been revoked"))
}

/// `DELETE /user/users/sessions/{id}`
pub(super) async fn close_session(
    State(door): State<Door>,
    Path(id): Path<String>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    let (asked, who) = caller::customer(&door, &parts).await?;
    let id = uuid::Uuid::try_parse(&id).ok().map(SessionId::new);
    let id = id.ok_or_else(|| Failure::not_found("Session not found"))?;
    door.sign_up.close_sessions(&asked, &who, Some(id)).await?;
    Ok(done("The session has been revoked"))
}

/// `POST /user/users/deactivate`
pub(super) async fn deactivate(
    State(door): State<Door>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    let (asked, who) = caller::customer(&door, &parts).await?;
    let change = ProfileChange { is_active: Some(false), ..ProfileChange::default() };
    door.sign_up.change(&asked, &who.customer, change).await?;
    Ok(done("Account deactivated successfully"))
}

/// `DELETE /user/users/account?confirmation=DELETE`
pub(super) async fn erase(State(door): State<Door>, parts: Parts) -> Result<Json<Value>, Failure> {
    let (asked, who) = caller::customer(&door, &parts).await?;
    if super::query(&parts, "confirmation").as_deref() != Some("DELETE") {
        return Err(Failure::bad(
            "Account deletion requires confirmation. Please provide 'DELETE' as confirmation parameter.",
        ));
    }
    door.sign_up.erase(&asked, &who.customer).await?;
    Ok(done("Account deleted successfully"))
}

/// `GET /user/users/internal/{customer}`
pub(super) async fn internal(
    State(door): State<Door>,
    Path(id): Path<String>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    let asked = caller::internal(&door, &parts, READ).await?.about(&id)?;
    let id = customer_id(&id).ok_or_else(|| Failure::not_found("Customer not found"))?;
    let customer = door.sign_up.customer(asked.tenant, id).await?;
    let customer = customer.ok_or_else(|| Failure::not_found("Customer not found"))?;
    Ok(Json(json!({
        "id": customer.id,
        "email": customer.profile.email,
        "first_name": customer.profile.first_name,
        "last_name": customer.profile.last_name,
        "status": status(&customer),
    })))
}

/// A customer as they are after a change.
async fn read_again(door: &Door, who: &Who) -> Result<Customer, Failure> {
    let customer = door.sign_up.customer(who.tenant, who.customer.id).await?;
    customer.ok_or_else(|| Failure::not_found("Customer not found"))
}

async fn person(door: &Door, customer: &Customer) -> Result<Person, Failure> {
    Ok(door.sign_up.account_of(customer).await?.map(|view| view.person).unwrap_or_default())
}

/// What all answers about a customer show.
fn shared(customer: &Customer, person: &Person) -> Value {
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
        "created_at": moment(customer.created_at),
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

/// Puts the fields of an object into another one.
fn merge(into: &mut Value, from: Value) {
    let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) else { return };
    into.extend::<Map<String, Value>>(from);
}
