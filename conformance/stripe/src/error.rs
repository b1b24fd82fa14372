//! Refusals in Stripe's shape.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::ids::Id;

/// Why an intent failed last, or a request was declined.
#[derive(Clone, Serialize, Deserialize)]
pub struct Decline {
    pub code: String,
    pub decline_code: Option<String>,
    pub message: String,
    pub charge: Option<Id>,
    pub payment_method: Option<Id>,
    /// `card_error`, or `invalid_request_error` where the bank was never asked.
    pub kind: String,
}

/// An answer that is not 2xx. Objects are ids here, and whole when they are rendered.
pub struct ApiError {
    pub status: u16,
    pub kind: &'static str,
    pub message: String,
    pub code: Option<String>,
    pub param: Option<String>,
    pub decline: Option<Box<Decline>>,
    /// The payment intent or setup intent that it is about.
    pub intent: Option<Id>,
    /// Whether the request began to execute: only then is its answer stored under its key.
    pub began: bool,
}

impl ApiError {
    fn of(status: u16, kind: &'static str, message: impl Into<String>) -> ApiError {
        ApiError {
            status,
            kind,
            message: message.into(),
            code: None,
            param: None,
            decline: None,
            intent: None,
            began: false,
        }
    }

    pub fn invalid(param: &str, message: impl Into<String>) -> ApiError {
        ApiError { param: Some(param.to_owned()), ..ApiError::request(message) }
    }

    /// An `invalid_request_error` that no single parameter is to blame for.
    pub fn request(message: impl Into<String>) -> ApiError {
        ApiError::of(400, "invalid_request_error", message)
    }

    pub fn missing(param: &str) -> ApiError {
        ApiError::invalid(param, format!("Missing required param: {param}."))
            .coded("parameter_missing")
    }

    pub fn not_found(object: &str, param: &str, id: &str) -> ApiError {
        let message = format!("No such {object}: '{id}'");
        ApiError { status: 404, ..ApiError::invalid(param, message).coded("resource_missing") }
    }

    pub fn no_route(method: &str, path: &str) -> ApiError {
        let message = format!("Unrecognized request URL ({method}: {path}).");
        ApiError { status: 404, ..ApiError::request(message) }
    }

    pub fn unauthorized(message: impl Into<String>) -> ApiError {
        ApiError::of(401, "invalid_request_error", message)
    }

    pub fn declined(decline: Decline) -> ApiError {
        ApiError {
            code: Some(decline.code.clone()),
            decline: Some(Box::new(decline.clone())),
            began: true,
            ..ApiError::of(402, "card_error", decline.message)
        }
    }

    /// The object is in a state that refuses the request; Stripe stores this answer under the key.
    pub fn state(code: &str, message: impl Into<String>) -> ApiError {
        ApiError { began: true, ..ApiError::request(message).coded(code) }
    }

    pub fn rate_limit(code: &str) -> ApiError {
        let message = match code {
            "lock_timeout" => {
                "This object cannot be accessed right now because another API request or Stripe process is currently accessing it."
            }
            _ => "Too many requests hit the API too quickly.",
        };
        ApiError::of(429, "invalid_request_error", message).coded(code)
    }

    pub fn key_in_use(key: &str) -> ApiError {
        let message = format!(
            "There is currently another in-progress request using this Idempotent Key ({key})."
        );
        ApiError::of(409, "idempotency_error", message).coded("idempotency_key_in_use")
    }

    pub fn key_reused(key: &str) -> ApiError {
        let message = format!(
            "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '{key}' if you meant to execute a different request."
        );
        ApiError::of(400, "idempotency_error", message)
    }

    pub fn conflict() -> ApiError {
        ApiError::of(409, "invalid_request_error", "The request conflicts with another request.")
    }

    pub fn server() -> ApiError {
        ApiError::of(
            500,
            "api_error",
            "An unknown error occurred. If this error persists, contact us.",
        )
    }

    pub fn coded(mut self, code: &str) -> ApiError {
        self.code = Some(code.to_owned());
        self
    }

    pub fn of_intent(mut self, id: &Id) -> ApiError {
        self.intent = Some(id.clone());
        self
    }

    /// `object` renders the object of an id, for those that stand whole in an error.
    pub fn render(&self, request_id: &str, object: impl Fn(&Id) -> Option<Value>) -> Value {
        let mut error = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                error.insert(name.to_owned(), value);
            }
        };
        let text = |it: &str| Value::from(it);
        put("type", Some(text(self.kind)));
        put("message", Some(text(&self.message)));
        put("code", self.code.as_deref().map(text));
        put("doc_url", self.code.as_deref().map(doc_url));
        put("param", self.param.as_deref().map(text));
        let log = format!("https://dashboard.stripe.com/test/logs/{request_id}");
        put("request_log_url", Some(log.into()));
        if let Some(decline) = &self.decline {
            put("decline_code", decline.decline_code.as_deref().map(text));
            put("charge", decline.charge.as_deref().map(text));
            put("payment_method", decline.payment_method.as_ref().and_then(&object));
        }
        if let Some(id) = &self.intent {
            let name = if id.starts_with("pi_") { "payment_intent" } else { "setup_intent" };
            put(name, object(id));
        }
        json!({ "error": error })
    }
}

pub fn doc_url(code: &str) -> Value {
    format!("https://stripe.com/docs/error-codes/{}", code.replace('_', "-")).into()
}
