//! The problems (RFC 9457) of sign-up's errors.

use std::time::Duration;

use domain::customer::CustomerRejection;
use http::StatusCode;
use sign_up::{Error, Invalid, TenantError};
use web::problem::BEARER_CHALLENGE;
use web::{Problem, WrongField};

/// `Retry-After` where the suggested time is not known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The problem of an error. Customers authenticate with an access token.
pub fn of(error: &Error) -> Problem {
    let (status, name, retry_after) = match error {
        Error::Unavailable(unavailable) => return Problem::from(unavailable),
        Error::Fields(invalid) => {
            return of_fields(invalid.iter().copied().map(wrong_field).collect());
        }
        Error::Refused(refusal) => {
            let (status, name) = wire_refusal(refusal);
            (status, name, None)
        }
        Error::Credentials => (StatusCode::UNAUTHORIZED, "credentials-wrong", None),
        Error::CodeNeeded => (StatusCode::UNAUTHORIZED, "code-needed", None),
        Error::TokenInvalid => (StatusCode::BAD_REQUEST, "token-invalid", None),
        Error::TenantNeeded => (StatusCode::UNAUTHORIZED, "tenant-missing", None),
        Error::NoSession => (StatusCode::UNAUTHORIZED, "not-logged-in", None),
        Error::Busy { retry_after } => {
            (StatusCode::SERVICE_UNAVAILABLE, "overloaded", Some(*retry_after))
        }
        Error::TooManyRequests { retry_after } => {
            (StatusCode::TOO_MANY_REQUESTS, "too-many-requests", Some(*retry_after))
        }
        Error::StillRunning => {
            (StatusCode::CONFLICT, "idempotency-key-in-progress", Some(RETRY_AFTER))
        }
        Error::AnotherRequest => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused", None),
    };
    Problem::new(status, name, detail(error)).retry_after(retry_after).challenge(BEARER_CHALLENGE)
}

/// The problem of a request whose tenant cannot be determined.
pub fn of_tenant(error: &TenantError) -> Problem {
    match error {
        TenantError::Access(error) => Problem::from(error),
        TenantError::Unavailable(unavailable) => Problem::from(unavailable),
        TenantError::NotFound => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "tenant-not-made", error.to_string())
                .retry_after(Some(RETRY_AFTER))
        }
    }
}

fn of_fields(fields: Vec<WrongField>) -> Problem {
    let detail = format!("fields are wrong: {}", fields.len());
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "wrong-fields", detail).problems(fields)
}

/// A field that breaks a rule, named as in this API.
pub(super) fn wrong_field(invalid: Invalid) -> WrongField {
    let field = match invalid.field() {
        "first_name" => "firstName",
        "last_name" => "lastName",
        "timezone" => "timeZone",
        field => field,
    };
    WrongField::new(field, invalid)
}

/// The table of the domain's refusals.
const fn wire_refusal(refusal: &CustomerRejection) -> (StatusCode, &'static str) {
    use CustomerRejection as R;
    match refusal {
        R::EmailTaken => (StatusCode::CONFLICT, "email-taken"),
        R::NotFound | R::SessionNotFound | R::OperationNotFound => {
            (StatusCode::NOT_FOUND, "not-found")
        }
        R::Deactivated => (StatusCode::FORBIDDEN, "deactivated"),
        R::AlreadyVerified => (StatusCode::CONFLICT, "email-verified"),
        R::TokenInvalid => (StatusCode::BAD_REQUEST, "token-invalid"),
        // As a wrong password. Otherwise a login with a password that was just registered would
        // reveal whether the address had a customer before.
        R::NotVerified | R::PasswordChanged => (StatusCode::UNAUTHORIZED, "credentials-wrong"),
        R::CodeInvalid => (StatusCode::UNAUTHORIZED, "code-wrong"),
        R::NoSecondFactor => (StatusCode::CONFLICT, "no-second-factor"),
        R::NotExpired | R::OperationSettled | R::PreferencesChanged => {
            (StatusCode::CONFLICT, "refused")
        }
    }
}

fn detail(error: &Error) -> String {
    if let Error::Refused(CustomerRejection::NotVerified) = error {
        return Error::Credentials.to_string();
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(problem: &Problem, expected: Expect) {
        expected.assert_eq(&String::from_utf8(problem.to_json()).unwrap());
    }

    #[test]
    fn an_unverified_address_reads_as_a_wrong_password() {
        let expected = of(&Error::Credentials).to_json();
        assert_eq!(of(&Error::Refused(CustomerRejection::NotVerified)).to_json(), expected);
        check(
            &of(&Error::Credentials),
            expect![[
                r#"{"type":"urn:faregate:problem:credentials-wrong","title":"Unauthorized","status":401,"detail":"the address or the password is wrong"}"#
            ]],
        );
    }

    #[test]
    fn wrong_fields_are_named_as_in_this_api() {
        check(
            &of(&Error::Fields(vec![Invalid::FirstName, Invalid::TimeZone])),
            expect![[
                r#"{"type":"urn:faregate:problem:wrong-fields","title":"Unprocessable Entity","status":422,"detail":"fields are wrong: 2","problems":[{"field":"firstName","reason":"First name must have 1 to 50 characters"},{"field":"timeZone","reason":"Timezone is not a known time zone"}]}"#
            ]],
        );
    }
}
