//! `/v1/me`: customers read and change their own data. Irreversible changes require the password
//! again, so that a stolen access token is not enough.

use axum::response::Response;
use domain::customer::Customer;
use engine::time::rfc3339;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::context::LoggedIn;
use super::json::{Json, answer, done};
use super::registrations::{Background, preferences};
use sign_up::SignUp;
use sign_up::preferences::{Preferences, TIME_ZONE};
use sign_up::service::ProfileChange;

use crate::error::Error;
use crate::openapi::{NotLoggedIn, PasswordsWait};

/// The customer who sends the request.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Me {
    id: String,
    email: String,
    first_name: String,
    last_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    company: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    country: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    /// From the preferences.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    preferences: Option<Box<RawValue>>,
    /// Whether logging in requires a code.
    second_factor: bool,
    created_at: String,
    updated_at: String,
}

/// A change; missing fields stay as they are.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MyChange {
    first_name: Option<String>,
    last_name: Option<String>,
    phone: Option<String>,
    company: Option<String>,
    country: Option<String>,
    /// Missing names stay as they are, and `null` removes a name.
    #[schema(value_type = Option<Object>)]
    preferences: Option<Box<RawValue>>,
}

/// The password as confirmation, and a code where a second factor is active.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FactorConfirmation {
    password: String,
    /// Of the active second factor, or a recovery code.
    code: Option<String>,
}

/// The first code of a second factor.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FirstCode {
    code: String,
}

/// An offered second factor, which is displayed once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SecondFactorOffered {
    /// In base32, for typing.
    secret: String,
    /// `otpauth://`, for scanning.
    uri: String,
    /// Each replaces a code once.
    recovery_codes: Vec<String>,
}

/// The customer who sends the request
#[utoipa::path(get, path = "/v1/me", tag = "Sign-up", operation_id = "sign_up_me",
    responses((status = 200, description = "The customer", body = Me), NotLoggedIn))]
pub(super) async fn show(LoggedIn { sign_up, caller, .. }: LoggedIn) -> Result<Response, Error> {
    Ok(answer(StatusCode::OK, &view(&sign_up, &caller.customer).await?))
}

async fn view(sign_up: &SignUp, customer: &Customer) -> Result<Me, Error> {
    let account = sign_up.account_of(customer).await?;
    let person = account.map(|it| it.person).unwrap_or_default();
    let profile = customer.profile.clone();
    let known = Preferences::read(&profile.preferences).unwrap_or_default();
    Ok(Me {
        id: customer.id.to_string(),
        email: profile.email,
        first_name: profile.first_name,
        last_name: profile.last_name,
        phone: person.phone,
        company: person.company,
        country: person.country,
        language: person.locale,
        time_zone: known.string(TIME_ZONE),
        preferences: RawValue::from_string(profile.preferences).ok(),
        second_factor: customer.needs_code(),
        created_at: rfc3339(customer.created_at),
        updated_at: rfc3339(customer.updated_at),
    })
}

/// Changes the customer's data
#[utoipa::path(patch, path = "/v1/me", tag = "Sign-up", operation_id = "sign_up_change_me",
    request_body = MyChange,
    responses((status = 200, description = "The customer after the change", body = Me),
        (status = 422, description = "Fields are invalid"),
        (status = 503, description = "Dozens of concurrent requests change the preferences"), NotLoggedIn))]
pub(super) async fn change(
    LoggedIn { sign_up, context, caller }: LoggedIn,
    Json(change): Json<MyChange>,
) -> Result<Response, Error> {
    let mut wrong = vec![];
    let MyChange { company, country, .. } = &change;
    Background { company, country, language: &None }.check(&mut wrong);
    let preferences = preferences(&mut wrong, change.preferences);
    if !wrong.is_empty() {
        return Err(Error::WrongFields(wrong));
    }
    let change = ProfileChange {
        first_name: change.first_name,
        last_name: change.last_name,
        phone: change.phone,
        company: change.company,
        country: change.country,
        preferences,
        is_active: None,
    };
    sign_up.change(&context, &caller.customer, change).await?;
    let found = sign_up.customer(caller.tenant, caller.customer.id).await?;
    let customer = found.ok_or(Error::NoSuch("customer"))?;
    Ok(answer(StatusCode::OK, &view(&sign_up, &customer).await?))
}

/// Erases the customer who sends the request; their account stays, without personal data
#[utoipa::path(delete, path = "/v1/me", tag = "Sign-up", operation_id = "sign_up_erase_me",
    request_body = FactorConfirmation,
    responses((status = 204, description = "The customer is erased"),
        (status = 401, description = "Not logged in, the password or the code is wrong, or a code is needed"),
        PasswordsWait))]
pub(super) async fn erase(
    LoggedIn { sign_up, context, caller }: LoggedIn,
    Json(confirmation): Json<FactorConfirmation>,
) -> Result<Response, Error> {
    let proof = (&*confirmation.password, confirmation.code.as_deref());
    sign_up.erase_confirmed(&context, &caller.customer, proof).await?;
    Ok(done())
}

/// Offers a second factor, which becomes active with its first code; until then the previous one stays active
#[utoipa::path(post, path = "/v1/me/second-factor", tag = "Sign-up", operation_id = "sign_up_offer_second_factor",
    request_body = FactorConfirmation,
    responses((status = 201, description = "Its secret and recovery codes, displayed once", body = SecondFactorOffered),
        (status = 401, description = "Not logged in, the password or the code is wrong, or a code is needed"),
        PasswordsWait))]
pub(super) async fn offer_second_factor(
    LoggedIn { sign_up, context, caller }: LoggedIn,
    Json(confirmation): Json<FactorConfirmation>,
) -> Result<Response, Error> {
    let shown = (&*confirmation.password, confirmation.code.as_deref());
    let offer = sign_up.offer_second_factor(&context, &caller, shown).await?;
    let (secret, uri, recovery_codes) = (offer.secret, offer.uri, offer.recovery_codes);
    Ok(answer(StatusCode::CREATED, &SecondFactorOffered { secret, uri, recovery_codes }))
}

/// Activates an offered second factor by its first code
#[utoipa::path(put, path = "/v1/me/second-factor", tag = "Sign-up", operation_id = "sign_up_confirm_second_factor",
    request_body = FirstCode,
    responses((status = 204, description = "It is active"),
        (status = 401, description = "Not logged in, or the code is wrong"),
        (status = 409, description = "No offered factor waits for its first code")))]
pub(super) async fn confirm_second_factor(
    LoggedIn { sign_up, context, caller }: LoggedIn,
    Json(first): Json<FirstCode>,
) -> Result<Response, Error> {
    sign_up.confirm_second_factor(&context, &caller, &first.code).await?;
    Ok(done())
}

/// Removes the second factor
#[utoipa::path(delete, path = "/v1/me/second-factor", tag = "Sign-up", operation_id = "sign_up_remove_second_factor",
    request_body = FactorConfirmation,
    responses((status = 204, description = "There is none"),
        (status = 401, description = "Not logged in, the password or the code is wrong, or a code is needed"),
        PasswordsWait))]
pub(super) async fn remove_second_factor(
    LoggedIn { sign_up, context, caller }: LoggedIn,
    Json(confirmation): Json<FactorConfirmation>,
) -> Result<Response, Error> {
    let shown = (&*confirmation.password, confirmation.code.as_deref());
    sign_up.remove_second_factor(&context, &caller, shown).await?;
    Ok(done())
}
