//! `/v1/registrations`: signing up. No answer tells whether an address has a customer.

use axum::extract::State;
use axum::response::Response;
use domain::customer::TokenPurpose;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Native;
use super::asking::Asking;
use super::json::{Json, answer, done};
use super::problem::{Problem, WrongField};
use crate::operations::{self, Callback, CallbackCheck, Manner};
use crate::preferences::{Preferences, TIME_ZONE};
use crate::service::{Entered, How, registration};

/// The most characters of what is said of a person besides their names.
const COMPANY_CHARS_MAX: usize = 100;
const COUNTRY_CHARS_MAX: usize = 50;
const LANGUAGE_CHARS_MAX: usize = 10;

/// Somebody who signs up.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewRegistration {
    email: String,
    /// 8 to 128 characters with an upper-case and a lower-case letter, a digit and a special one.
    password: String,
    first_name: String,
    last_name: String,
    /// Has to be true.
    accept_terms: bool,
    phone: Option<String>,
    company: Option<String>,
    country: Option<String>,
    /// A name of the IANA database; it is kept among the preferences, as `timezone`.
    time_zone: Option<String>,
    language: Option<String>,
    /// An object of the client's own, of at most 16 KiB.
    #[schema(value_type = Option<Object>)]
    preferences: Option<Box<RawValue>>,
    /// Who is told the end of it, with `Prefer: respond-async`.
    callback: Option<NewCallback>,
}

/// Who is told the end of an operation.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCallback {
    url: String,
    /// 24 to 64 bytes in base64, with or without `whsec_` before it.
    secret: String,
}

/// What is said to everybody who registers.
#[derive(Serialize, ToSchema)]
pub(super) struct Registering {
    /// `verification-sent`
    status: &'static str,
}

/// A token that was mailed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Token {
    token: String,
}

/// An address.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Address {
    pub(super) email: String,
}

#[utoipa::path(
    post,
    path = "/v1/registrations",
    tag = "Sign-up",
    operation_id = "sign_up_register",
    summary = "Signs somebody up; the answer is the same where the address has a customer, who is told by mail",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable"),
        ("Prefer" = Option<String>, Header, description = "`respond-async`: kept, and made later"),
    ),
    request_body = NewRegistration,
    responses(
        (status = 202, description = "A mail is on its way, or the registration is kept", body = Registering),
        (status = 400, description = "A header or a field cannot be"),
        (status = 409, description = "A request with this key is in progress"),
        (status = 422, description = "Fields are wrong, or the key was used for another request"),
        (status = 503, description = "Too many passwords wait to be hashed"),
    )
)]
pub(super) async fn register(
    State(native): State<Native>,
    asking: Asking,
    headers: HeaderMap,
    Json(new): Json<NewRegistration>,
) -> Result<Response, Problem> {
    let later = operations::is_preferred(&headers).then_some(&native.callbacks);
    let (entered, callback) = new.read(later)?;
    let asked = asking.asked();
    if later.is_some() {
        let queued = native.signup.queue(&asked, &entered, Manner::Discreet, callback).await?;
        return Ok(operations::accepted(&queued));
    }
    let new = registration(&entered).map_err(crate::service::Error::Fields)?;
    native.signup.register(&asked, new, How::DISCREETLY).await?;
    Ok(answer(StatusCode::ACCEPTED, &Registering { status: "verification-sent" }))
}

impl NewRegistration {
    /// All that is wrong with it, or what was entered.
    fn read(self, later: Option<&CallbackCheck>) -> Result<(Entered, Option<Callback>), Problem> {
        let mut wrong = vec![];
        if !self.accept_terms {
            wrong.push(WrongField::new("acceptTerms", "has to be true"));
        }
        check_about(&mut wrong, (&self.company, &self.country, &self.language));
        let mut preferences = preferences(&mut wrong, self.preferences);
        if let Some(zone) = &self.time_zone {
            // Where both doors look for it.
            preferences.set(TIME_ZONE, &json!(zone));
        }
        let preferences = preferences.text().unwrap_or_else(|invalid| {
            wrong.push(WrongField::new(invalid.field(), invalid));
            String::new()
        });
        let callback = callback(&mut wrong, self.callback, later);
        let entered = Entered {
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
            return Ok((entered, callback));
        }
        // All in one answer, so that nobody corrects one field after another.
        if let Err(invalid) = registration(&entered)
            && let Problem::WrongFields(more) = crate::service::Error::Fields(invalid).into()
        {
            wrong.extend(more);
        }
        Err(Problem::WrongFields(wrong))
    }
}

/// Who is told the end of it, where somebody is to be.
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

/// What may be said of a person besides their names.
pub(super) fn check_about(
    wrong: &mut Vec<WrongField>,
    (company, country, language): (&Option<String>, &Option<String>, &Option<String>),
) {
    let fields = [
        ("company", company, COMPANY_CHARS_MAX),
        ("country", country, COUNTRY_CHARS_MAX),
        ("language", language, LANGUAGE_CHARS_MAX),
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

/// Preferences, and what is wrong with them.
pub(super) fn preferences(
    wrong: &mut Vec<WrongField>,
    given: Option<Box<RawValue>>,
) -> Preferences {
    let read = given.map(|it| Preferences::read(it.get())).transpose();
    read.map_err(|invalid| wrong.push(WrongField::new(invalid.field(), invalid)))
        .unwrap_or_default()
        .unwrap_or_default()
}

#[utoipa::path(
    post,
    path = "/v1/registrations/verify",
    tag = "Sign-up",
    operation_id = "sign_up_verify",
    summary = "Takes the token that was mailed to an address",
    request_body = Token,
    responses(
        (status = 204, description = "The address is verified"),
        (status = 400, description = "The token is none, was used, or has ended"),
    )
)]
pub(super) async fn verify(
    State(native): State<Native>,
    asking: Asking,
    Json(token): Json<Token>,
) -> Result<Response, Problem> {
    native.signup.verify_email(&asking.asked(), &token.token).await?;
    Ok(done())
}

#[utoipa::path(
    post,
    path = "/v1/registrations/resend",
    tag = "Sign-up",
    operation_id = "sign_up_resend",
    summary = "Mails another token, if the address has a customer who needs one",
    request_body = Address,
    responses(
        (status = 202, description = "Whether there was one to be mailed or not", body = Registering),
        (status = 422, description = "It is no address"),
    )
)]
pub(super) async fn resend(
    State(native): State<Native>,
    asking: Asking,
    Json(address): Json<Address>,
) -> Result<Response, Problem> {
    let asked = asking.asked();
    native.signup.mail_token(&asked, &address.email, TokenPurpose::Verification).await?;
    Ok(answer(StatusCode::ACCEPTED, &Registering { status: "verification-sent" }))
}
