//! `/v1/registrations`: signing up. No response reveals whether an address has a customer.

use axum::extract::State;
use axum::response::Response;
use domain::customer::TokenPurpose;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::SignUpApi;
use super::context::Context;
use super::json::{Json, answer, done};
use crate::sign_up_problem::wrong_field;
use sign_up::operations::{Callback, CallbackCheck, Disclosure};
use sign_up::preferences::{Preferences, TIME_ZONE};
use sign_up::service::{RegistrationForm, RegistrationOptions, validate_registration};
use web::{WrongField, prefer};

use crate::error::Error;
use crate::openapi::{IdempotencyKey, PasswordsWait};

/// The most characters of these fields.
const COMPANY_CHARS_MAX: usize = 100;
const COUNTRY_CHARS_MAX: usize = 50;
const LANGUAGE_CHARS_MAX: usize = 10;

/// A request to register a customer.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewRegistration {
    email: String,
    /// 8 to 128 characters with an upper-case and a lower-case letter, a digit and a special one.
    password: String,
    first_name: String,
    last_name: String,
    /// Must be true.
    accept_terms: bool,
    phone: Option<String>,
    company: Option<String>,
    country: Option<String>,
    /// A name of the IANA database; it is stored in the preferences as `timezone`.
    time_zone: Option<String>,
    language: Option<String>,
    /// An object whose names are the client's, of at most 16 KiB.
    #[schema(value_type = Option<Object>)]
    preferences: Option<Box<RawValue>>,
    /// Where to report the result, with `Prefer: respond-async`.
    callback: Option<NewCallback>,
}

/// Where to report the end of an operation.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCallback {
    url: String,
    /// 24 to 64 bytes in base64, with or without `whsec_` before it.
    secret: String,
}

/// The response to every registration.
#[derive(Serialize, ToSchema)]
pub(super) struct RegistrationAccepted {
    /// `verification-sent`
    status: &'static str,
}

/// A token from a mail.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Token {
    token: String,
}

/// An e-mail address.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Address {
    pub(super) email: String,
}

/// Registers a customer; the response is the same where the address has a customer, who is notified by mail
#[utoipa::path(post, path = "/v1/registrations", tag = "Sign-up", operation_id = "sign_up_register",
    params(IdempotencyKey,
        ("Prefer" = Option<String>, Header, description = "`respond-async`: the registration is stored, and executed later")),
    request_body = NewRegistration,
    responses((status = 202, description = "A mail is sent, or the registration is stored", body = RegistrationAccepted),
        (status = 400, description = "A header or a field is malformed"),
        (status = 409, description = "A request with this key is in progress"),
        (status = 422, description = "Fields are invalid, or the key was used for another request"),
        PasswordsWait))]
pub(super) async fn register(
    State(api): State<SignUpApi>,
    Context(context): Context,
    headers: HeaderMap,
    Json(new): Json<NewRegistration>,
) -> Result<Response, Error> {
    let later = prefer::is_async_preferred(&headers).then_some(&api.callbacks);
    let (form, callback) = new.read(later)?;
    if later.is_some() {
        let queued = api.sign_up.queue(&context, &form, Disclosure::Discreet, callback).await?;
        let (id, location) = (queued.operation.to_string(), queued.location);
        return Ok(prefer::accepted(&id, &location));
    }
    let new = validate_registration(&form).map_err(sign_up::Error::Fields)?;
    api.sign_up.register(&context, new, RegistrationOptions::DISCREET).await?;
    Ok(answer(StatusCode::ACCEPTED, &RegistrationAccepted { status: "verification-sent" }))
}

impl NewRegistration {
    /// The form and the callback, or all invalid fields.
    fn read(
        self,
        later: Option<&CallbackCheck>,
    ) -> Result<(RegistrationForm, Option<Callback>), Error> {
        let mut wrong = vec![];
        if !self.accept_terms {
            wrong.push(WrongField::new("acceptTerms", "has to be true"));
        }
        Background { company: &self.company, country: &self.country, language: &self.language }
            .check(&mut wrong);
        let mut preferences = preferences(&mut wrong, self.preferences);
        if let Some(zone) = &self.time_zone {
            // All APIs read it from there.
            preferences.set(TIME_ZONE, &json!(zone));
        }
        let preferences = preferences.text().unwrap_or_else(|invalid| {
            wrong.push(WrongField::new(invalid.field(), invalid));
            String::new()
        });
        let callback = callback(&mut wrong, self.callback, later);
        let form = RegistrationForm {
            email: self.email,
            password: self.password,
            first_name: self.first_name,
            last_name: self.last_name,
            phone: self.phone,
            company: self.company,
            country: self.country,
            time_zone: self.time_zone,
            language: self.language,
            preferences,
        };
        if wrong.is_empty() {
            return Ok((form, callback));
        }
        // All in one response, so that the client does not correct one field after another.
        if let Err(invalid) = validate_registration(&form) {
            wrong.extend(invalid.into_iter().map(wrong_field));
        }
        Err(Error::WrongFields(wrong))
    }
}

/// The callback, if there is one and it is valid.
fn callback(
    wrong: &mut Vec<WrongField>,
    given: Option<NewCallback>,
    later: Option<&CallbackCheck>,
) -> Option<Callback> {
    let given = given?;
    let Some(check) = later else {
        wrong.push(WrongField::new(
            "callback",
            "is for what is made later: `Prefer: respond-async`",
        ));
        return None;
    };
    match Callback::read(&given.url, &given.secret, check) {
        Ok(callback) => Some(callback),
        Err(error) => {
            wrong.push(WrongField::new(format!("callback.{}", error.field()), error));
            None
        }
    }
}

/// Texts about a customer, where they are given.
pub(super) struct Background<'a> {
    pub(super) company: &'a Option<String>,
    pub(super) country: &'a Option<String>,
    pub(super) language: &'a Option<String>,
}

impl Background<'_> {
    /// Validates the texts.
    pub(super) fn check(self, wrong: &mut Vec<WrongField>) {
        let fields = [
            ("company", self.company, COMPANY_CHARS_MAX),
            ("country", self.country, COUNTRY_CHARS_MAX),
            ("language", self.language, LANGUAGE_CHARS_MAX),
        ];
        for (field, text, chars_max) in fields {
            let Some(text) = text else { continue };
            if text.chars().nth(chars_max).is_some() || text.chars().any(char::is_control) {
                let reason =
                    format!("has more than {chars_max} characters, or one that cannot be seen");
                wrong.push(WrongField::new(field, reason));
            }
        }
    }
}

/// Parses preferences; an invalid field is added to `wrong`.
pub(super) fn preferences(
    wrong: &mut Vec<WrongField>,
    given: Option<Box<RawValue>>,
) -> Preferences {
    let read = given.map(|it| Preferences::of_client(it.get())).transpose();
    read.map_err(|invalid| wrong.push(WrongField::new(invalid.field(), invalid)))
        .unwrap_or_default()
        .unwrap_or_default()
}

/// Verifies an address by the token that was mailed to it
#[utoipa::path(post, path = "/v1/registrations/verify", tag = "Sign-up", operation_id = "sign_up_verify",
    request_body = Token,
    responses((status = 204, description = "The address is verified"),
        (status = 400, description = "The token is invalid, used or expired")))]
pub(super) async fn verify(
    State(api): State<SignUpApi>,
    Context(context): Context,
    Json(token): Json<Token>,
) -> Result<Response, Error> {
    api.sign_up.verify_email(&context, &token.token).await?;
    Ok(done())
}

/// Mails another token, if the address has an unverified customer
#[utoipa::path(post, path = "/v1/registrations/resend", tag = "Sign-up", operation_id = "sign_up_resend",
    request_body = Address,
    responses((status = 202, description = "Whether one was mailed or not", body = RegistrationAccepted),
        (status = 422, description = "It is not an address")))]
pub(super) async fn resend(
    State(api): State<SignUpApi>,
    Context(context): Context,
    Json(address): Json<Address>,
) -> Result<Response, Error> {
    api.sign_up.mail_token(&context, &address.email, TokenPurpose::Verification).await?;
    Ok(answer(StatusCode::ACCEPTED, &RegistrationAccepted { status: "verification-sent" }))
}
