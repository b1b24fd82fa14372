//! `/v1/me`: what customers see and change of themselves. What cannot be taken back asks for the
//! password again, so that an access token that was taken is not enough.

use axum::extract::State;
use axum::response::Response;
use domain::customer::Customer;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Native;
use super::asking::LoggedIn;
use super::json::{Json, answer, done, moment};
use super::problem::Problem;
use super::registrations::{check_about, preferences};
use crate::preferences::{Preferences, TIME_ZONE};
use crate::service::ProfileChange;

/// A customer, as they see themselves.
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
    /// What the preferences say of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    preferences: Option<Box<RawValue>>,
    /// Whether a second factor is asked for.
    second_factor: bool,
    created_at: String,
    updated_at: String,
}

/// What is to be changed: what is not there stays.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MyChange {
    first_name: Option<String>,
    last_name: Option<String>,
    phone: Option<String>,
    company: Option<String>,
    country: Option<String>,
    /// What is not named stays, and `null` takes a name away.
    #[schema(value_type = Option<Object>)]
    preferences: Option<Box<RawValue>>,
}

/// A password, once more.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Confirmation {
    password: String,
}

/// A password once more, and a code where a second factor is asked for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FactorConfirmation {
    password: String,
    /// Of the second factor that is asked for, or a recovery code.
    code: Option<String>,
}

/// The first code of a second factor.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FirstCode {
    code: String,
}

/// A second factor that is offered: shown once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SecondFactorOffered {
    /// In base32, to be typed.
    secret: String,
    /// `otpauth://`, to be scanned.
    uri: String,
    /// Each does once in place of a code.
    recovery_codes: Vec<String>,
}

#[utoipa::path(
    get,
    path = "/v1/me",
    tag = "Sign-up",
    operation_id = "sign_up_me",
    summary = "The customer who asks",
    responses(
        (status = 200, description = "What was asked for", body = Me),
        (status = 401, description = "Not logged in"),
    )
)]
pub(super) async fn show(
    State(native): State<Native>,
    logged_in: LoggedIn,
) -> Result<Response, Problem> {
    Ok(answer(StatusCode::OK, &seen(&native, &logged_in.who.customer).await?))
}

async fn seen(native: &Native, customer: &Customer) -> Result<Me, Problem> {
    let account = native.signup.account_of(customer).await?;
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
        created_at: moment(customer.created_at),
        updated_at: moment(customer.updated_at),
    })
}

#[utoipa::path(
    patch,
    path = "/v1/me",
    tag = "Sign-up",
    operation_id = "sign_up_change_me",
    summary = "Changes what the customer says of themselves",
    request_body = MyChange,
    responses(
        (status = 200, description = "The customer as they are now", body = Me),
        (status = 401, description = "Not logged in"),
        (status = 422, description = "Fields are wrong"),
        (status = 503, description = "Dozens of others change their preferences at once"),
    )
)]
pub(super) async fn change(
    State(native): State<Native>,
    logged_in: LoggedIn,
    Json(change): Json<MyChange>,
) -> Result<Response, Problem> {
    let LoggedIn { asked, who } = logged_in;
    let mut wrong = vec![];
    check_about(&mut wrong, (&change.company, &change.country, &None));
    let preferences = preferences(&mut wrong, change.preferences);
    if !wrong.is_empty() {
        return Err(Problem::WrongFields(wrong));
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
    native.signup.change(&asked, &who.customer, change).await?;
    let found = native.signup.customer(who.tenant, who.customer.id).await?;
    let customer = found.ok_or(Problem::NotFound("customer"))?;
    Ok(answer(StatusCode::OK, &seen(&native, &customer).await?))
}

#[utoipa::path(
    delete,
    path = "/v1/me",
    tag = "Sign-up",
    operation_id = "sign_up_erase_me",
    summary = "Forgets the customer who asks; their account stays, and says nothing of a person",
    request_body = Confirmation,
    responses(
        (status = 204, description = "They are forgotten"),
        (status = 401, description = "Not logged in, or the password is wrong"),
        (status = 503, description = "Too many passwords wait to be hashed"),
    )
)]
pub(super) async fn erase(
    State(native): State<Native>,
    logged_in: LoggedIn,
    Json(confirmation): Json<Confirmation>,
) -> Result<Response, Problem> {
    let LoggedIn { asked, who } = logged_in;
    native.signup.check_password(&asked, &who.customer, &confirmation.password).await?;
    native.signup.erase(&asked, &who.customer).await?;
    Ok(done())
}

#[utoipa::path(
    post,
    path = "/v1/me/second-factor",
    tag = "Sign-up",
    operation_id = "sign_up_offer_second_factor",
    summary = "Offers a second factor, asked for once its first code was given; until then the one before is",
    request_body = FactorConfirmation,
    responses(
        (status = 201, description = "Its secret and recovery codes, shown once", body = SecondFactorOffered),
        (status = 401, description = "Not logged in, the password or the code is wrong, or a code is needed"),
        (status = 503, description = "Too many passwords wait to be hashed"),
    )
)]
pub(super) async fn offer_second_factor(
    State(native): State<Native>,
    logged_in: LoggedIn,
    Json(confirmation): Json<FactorConfirmation>,
) -> Result<Response, Problem> {
    let LoggedIn { asked, who } = logged_in;
    let shown = (&*confirmation.password, confirmation.code.as_deref());
    let offer = native.signup.offer_second_factor(&asked, &who, shown).await?;
    let (secret, uri, recovery_codes) = (offer.secret, offer.uri, offer.recovery_codes);
    Ok(answer(StatusCode::CREATED, &SecondFactorOffered { secret, uri, recovery_codes }))
}

#[utoipa::path(
    put,
    path = "/v1/me/second-factor",
    tag = "Sign-up",
    operation_id = "sign_up_confirm_second_factor",
    summary = "Takes the first code of a second factor that was offered",
    request_body = FirstCode,
    responses(
        (status = 204, description = "It is asked for from now on"),
        (status = 401, description = "Not logged in, or the code is wrong"),
        (status = 409, description = "None waits for its first code"),
    )
)]
pub(super) async fn confirm_second_factor(
    State(native): State<Native>,
    logged_in: LoggedIn,
    Json(first): Json<FirstCode>,
) -> Result<Response, Problem> {
    let LoggedIn { asked, who } = logged_in;
    native.signup.confirm_second_factor(&asked, &who, &first.code).await?;
    Ok(done())
}

#[utoipa::path(
    delete,
    path = "/v1/me/second-factor",
    tag = "Sign-up",
    operation_id = "sign_up_remove_second_factor",
    summary = "Does without a second factor from now on",
    request_body = FactorConfirmation,
    responses(
        (status = 204, description = "There is none"),
        (status = 401, description = "Not logged in, the password or the code is wrong, or a code is needed"),
        (status = 503, description = "Too many passwords wait to be hashed"),
    )
)]
pub(super) async fn remove_second_factor(
    State(native): State<Native>,
    logged_in: LoggedIn,
    Json(confirmation): Json<FactorConfirmation>,
) -> Result<Response, Problem> {
    let LoggedIn { asked, who } = logged_in;
    let shown = (&*confirmation.password, confirmation.code.as_deref());
    native.signup.remove_second_factor(&asked, &who, shown).await?;
    Ok(done())
}
